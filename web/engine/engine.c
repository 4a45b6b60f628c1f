/* web/engine/engine.c - the simulator as a module of a page: the functions that JavaScript calls.
 *
 * A run is made from the text of a scenario. It is stepped to an instant, and its trace has
 * everything that happened, in the same lines that `conclave sim --trace` writes: the page shows
 * only traces. Any number of runs may exist at a time. An injected action becomes a line in the
 * text of another run, which starts from the beginning: the page always shows what `conclave sim`
 * gives for its text, on any machine.
 *
 * Texts go in through web_input(), and come out as a pointer whose web_length() bytes are valid
 * until the next call. Calls that fail return 0, and web_error() says why. A failed assertion
 * within a run is a broken property; one elsewhere makes the call fail. */
#include "base/catch.h"
#include "base/json.h"
#include "base/memory.h"
#include "core/duration.h"
#include "core/errors.h"
#include "report/report.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define WEB_EXPORT(name) __attribute__((export_name(#name))) name

/* The browser would kill a page that kept more than this. */
#define TRACE_BYTES_MAX (256u << 20)

struct web_run {
    char *text; /* the scenario, with the injected actions */
    size_t text_length;
    bool has_seed, has_trace;
    uint64_t seed;
    struct sim_scenario *scenario;
    struct sim_world *world;
    FILE *trace;
    char *trace_text;
    size_t trace_length;
};

/* Input and output. The module has one thread, and one call at a time. */
static char *input;
static char *output;
static size_t output_length;
static struct cv_errtext error;

struct web_run *web_run_new(size_t length, int has_seed, double seed, int has_trace);
int web_run_to(struct web_run *run, double until_ns);
struct web_run *web_run_inject(struct web_run *run, double at_ns, size_t length);
const char *web_run_trace(struct web_run *run, size_t from);
const char *web_run_text(struct web_run *run);
const char *web_run_report(struct web_run *run);
const char *web_run_properties(struct web_run *run);
const char *web_run_node(struct web_run *run, uint32_t id);
void web_run_free(struct web_run *run);
char *web_input(size_t length);
size_t web_length(void);
const char *web_error(void);
const char *web_words(void);

/* ---- Texts ----------------------------------------------------------------------------------- */

char *WEB_EXPORT(web_input)(size_t length)
{
    free(input);
    input = cv__allocate(length + 1, 1);
    return input;
}

size_t WEB_EXPORT(web_length)(void)
{
    return output_length;
}

static const char *lend(const char *text, size_t length)
{
    output_length = length;
    return text;
}

const char *WEB_EXPORT(web_error)(void)
{
    return lend(error.text, strlen(error.text));
}

static FILE *output_open(void)
{
    free(output);
    output = NULL;
    return open_memstream(&output, &output_length);
}

/* ---- A run ----------------------------------------------------------------------------------- */

void WEB_EXPORT(web_run_free)(struct web_run *run)
{
    if (run == NULL) {
        return;
    }
    sim_world_free(run->world);
    sim_scenario_free(run->scenario);
    if (run->trace != NULL) {
        (void)fclose(run->trace); /* which is in memory */
    }
    free(run->trace_text);
    free(run->text);
    free(run);
}

static void run_flush(struct web_run *run)
{
    if (run->trace != NULL) {
        (void)fflush(run->trace); /* into memory */
    }
}

/* Begins from its text and seed, and nothing else. */
static bool run_begin(struct web_run *run)
{
    if (memchr(run->text, '\0', run->text_length) != NULL) {
        (void)cv__fail(&error, CV_E_MALFORMED, "scenario:1:1: a scenario is plain text");
        return false;
    }
    if (sim_scenario_parse("scenario", run->text, run->text_length, &run->scenario, &error) !=
        CV_OK) {
        return false;
    }
    run->trace = run->has_trace ? open_memstream(&run->trace_text, &run->trace_length) : NULL;
    const struct sim_world_options options = {.keeps_history = true, .trace = run->trace};
    run->world =
        sim_world_new(run->scenario, run->has_seed ? run->seed : run->scenario->seed, &options);
    run_flush(run);
    return true;
}

struct beginning {
    struct web_run *run;
    bool is_done;
};

static void begin(void *context)
{
    struct beginning *beginning = context;
    beginning->is_done = run_begin(beginning->run);
}

/* Memory that an assertion outside a run leaves behind is not freed: its contents cannot be
 * trusted. */
static bool is_guarded(void (*work)(void *context), void *context)
{
    struct cv_failure failure;
    if (cv__catch(work, context, &failure)) {
        return true;
    }
    (void)cv__fail(&error, CV_E_INVALID, "assertion failed: %s (%s:%d)", failure.expression,
                   failure.file, failure.line);
    return false;
}

/* Takes over the text. */
static struct web_run *run_make(struct web_run as)
{
    struct web_run *run = cv__allocate(1, sizeof *run);
    struct beginning beginning = {.run = run};
    *run = as;
    if (!is_guarded(begin, &beginning)) {
        return NULL;
    }
    if (!beginning.is_done) {
        web_run_free(run);
        return NULL;
    }
    return run;
}

/* Makes a run of the input. Without a seed, that of the scenario counts. Without a trace the run is
 * only for its report. */
struct web_run *WEB_EXPORT(web_run_new)(size_t length, int has_seed, double seed, int has_trace)
{
    return run_make((struct web_run){.text = cv__copy_text(input, length),
                                     .text_length = length,
                                     .has_seed = has_seed != 0,
                                     .has_trace = has_trace != 0,
                                     .seed = (uint64_t)seed});
}

struct stretch {
    struct web_run *run;
    int64_t until_ns;
};

static void advance(void *context)
{
    const struct stretch *stretch = context;
    sim_world_run(stretch->run->world, stretch->until_ns);
    run_flush(stretch->run);
}

/* Runs everything up to and including that instant, at most up to the end of the run. */
int WEB_EXPORT(web_run_to)(struct web_run *run, double until_ns)
{
    const struct sim_world *w = run->world;
    struct stretch stretch = {run, cv__min64((int64_t)until_ns, run->scenario->run_ns)};
    if (run->trace_length > TRACE_BYTES_MAX) {
        (void)cv__fail(&error, CV_E_INVALID, "the trace is larger than %u MiB: shorten the run",
                       TRACE_BYTES_MAX >> 20);
        return 0;
    }
    if (stretch.until_ns <= w->now_ns) {
        return 1; /* it is there already; the end is judged once */
    }
    return is_guarded(advance, &stretch);
}

/* The text of the run with one more line: the action in the input, at that instant. */
static char *text_with(const struct web_run *run, int64_t at_ns, size_t length, size_t *ret_length)
{
    char when[CV_DURATION_TEXT_BYTES];
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_length);
    (void)fwrite(run->text, 1, run->text_length, out);
    if (run->text_length > 0 && run->text[run->text_length - 1] != '\n') {
        (void)fputc('\n', out);
    }
    (void)fprintf(out, "at %s %.*s\n", cv__duration_format(at_ns, when), (int)length, input);
    (void)fclose(out);
    return text;
}

/* A run from the beginning with one more action, which is the input, at that instant. All before it
 * will be the same as in `run`, byte for byte. */
struct web_run *WEB_EXPORT(web_run_inject)(struct web_run *run, double at_ns, size_t length)
{
    if (at_ns < 0 || at_ns > (double)run->scenario->run_ns || memchr(input, '\n', length) != NULL) {
        (void)cv__fail(&error, CV_E_INVALID, "an action is one line, within the run");
        return NULL;
    }
    struct web_run branch = {
        .has_seed = run->has_seed, .has_trace = run->has_trace, .seed = run->seed};
    branch.text = text_with(run, (int64_t)at_ns, length, &branch.text_length);
    return run_make(branch);
}

/* ---- What can be read from a run ------------------------------------------------------------- */

const char *WEB_EXPORT(web_run_trace)(struct web_run *run, size_t from)
{
    return run->has_trace && from <= run->trace_length
               ? lend(run->trace_text + from, run->trace_length - from)
               : lend("", 0);
}

const char *WEB_EXPORT(web_run_text)(struct web_run *run)
{
    return lend(run->text, run->text_length);
}

/* The report as `conclave sim --json` prints it. */
const char *WEB_EXPORT(web_run_report)(struct web_run *run)
{
    FILE *out = output_open();
    sim_report_json(run->world, -1, out);
    (void)fclose(out);
    return output;
}

const char *WEB_EXPORT(web_run_properties)(struct web_run *run)
{
    const struct sim_world *w = run->world;
    FILE *out = output_open();
    struct cv_json json = {.out = out};
    cv__json_open(&json, NULL, '[');
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "name", cv_property_name((enum cv_property)i));
        cv__json_bool(&json, "promised", (w->scenario->promises & BIT(i)) != 0);
        cv__json_uint(&json, "judged", w->properties.judged[i]);
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    (void)fclose(out);
    return output;
}

static void json_timers(struct cv_json *json, const struct sim_node *n)
{
    cv__json_open(json, "timers", '[');
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (n->host.due_ns[i] != 0) {
            cv__json_open(json, NULL, '{');
            cv__json_uint(json, "timer", i);
            cv__json_seconds(json, "due_s", n->timer[i].due_ns);
            cv__json_close(json, '}');
        }
    }
    cv__json_close(json, ']');
}

/* The state of the node at the present instant of the run. */
const char *WEB_EXPORT(web_run_node)(struct web_run *run, uint32_t id)
{
    const struct sim_world *w = run->world;
    if (id < 1 || id > w->node_count) {
        (void)cv__fail(&error, CV_E_INVALID, "there is no node %u", id);
        return NULL;
    }
    const struct sim_node *n = &w->node[id - 1];
    const struct cv_property_node *said = &w->properties.node[id - 1];
    const bool holds = sim_world_holds(w, id);
    FILE *out = output_open();
    struct cv_json json = {.out = out};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_s", w->now_ns);
    cv__json_bool(&json, "up", n->is_up);
    cv__json_bool(&json, "paused", n->is_paused);
    cv__json_bool(&json, "stopped", n->has_stopped);
    cv__json_bool(&json, "candidate", said->is_candidate);
    cv__json_uint(&json, "life", n->life);
    cv__json_uint(&json, "leader", said->leader);
    cv__json_uint(&json, "token", said->token);
    cv__json_bool(&json, "leads", holds);
    if (holds && said->held_until_ns != INT64_MAX) {
        cv__json_seconds(&json, "valid_until_s", said->held_until_ns);
    } else {
        cv__json_null(&json, "valid_until_s");
    }
    cv__json_double(&json, "drift_ppm", (double)n->clock.drift_ppb / 1e3);
    json_timers(&json, n);
    cv__json_close(&json, '}');
    (void)fclose(out);
    return output;
}

const char *WEB_EXPORT(web_words)(void)
{
    FILE *out = output_open();
    web_words_write(out);
    (void)fclose(out);
    return output;
}
