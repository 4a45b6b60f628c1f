/* src/sim/shrink.c - makes a small scenario from a failing run. */
#include "sim/shrink.h"

#include "base/memory.h"
#include "core/duration.h"
#include "core/errors.h"

#include <stdlib.h>
#include <string.h>

/* What went wrong: promises broken and expectations unmet. A shrunk run must show one of them. */
struct symptom {
    uint32_t properties;
    uint64_t expects; /* the first 64 */
    int64_t at_ns;    /* of the first broken promise; -1: only expectations */
};

struct shrinker {
    const char *name;
    uint64_t seed;
    char **setup; /* lines that stay: settings, links, expectations */
    uint32_t setup_count, setup_capacity;
    char **action; /* lines that may go */
    uint32_t action_count, action_capacity;
    int64_t *at_ns; /* by action */
    bool *is_kept;
    int64_t run_ns;
    struct symptom symptom;
    uint32_t trials;
};

static void line_add(char ***lines, uint32_t *count, uint32_t *capacity, char *line)
{
    *lines = cv__grow(*lines, capacity, *count, sizeof **lines);
    (*lines)[(*count)++] = line;
}

static struct symptom symptom_of(const struct sim_world *w)
{
    struct symptom s = {.at_ns = -1};
    const uint32_t promised = w->scenario->promises;
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const struct cv_broken *broken = &w->properties.broken[i];
        if ((promised & BIT(i)) != 0 && broken->is_broken) {
            s.properties |= BIT(i);
            s.at_ns = s.at_ns < 0 ? broken->at_ns : cv__min64(s.at_ns, broken->at_ns);
        }
    }
    for (uint32_t i = 0; i < w->scenario->expect_count && i < 64; i++) {
        s.expects |= (uint64_t)!w->expect_result[i].is_ok << i;
    }
    return s;
}

static bool begins_with(const char *line, const char *word)
{
    line += strspn(line, " \t");
    const size_t length = strlen(word);
    return strncmp(line, word, length) == 0 &&
           (line[length] == ' ' || line[length] == '\t' || line[length] == '\0');
}

static bool is_plain_expect(const char *line)
{
    const char *rest = line + strspn(line, " \t") + strlen("expect");
    return begins_with(line, "expect") && !begins_with(rest, "broken");
}

static char *compose(const struct shrinker *s)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return cv__copy_text("", 0);
    }
    for (uint32_t i = 0; i < s->setup_count; i++) {
        /* When a promise is broken, the other expectations of the scenario do not matter. */
        if (s->symptom.properties == 0 || !is_plain_expect(s->setup[i])) {
            (void)fprintf(out, "%s\n", s->setup[i]);
        }
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (s->is_kept[i] && s->at_ns[i] <= s->run_ns) {
            (void)fprintf(out, "%s\n", s->action[i]);
        }
    }
    char run[CV_DURATION_TEXT_BYTES];
    (void)fprintf(out, "seed %llu\nrun %s\n", (unsigned long long)s->seed,
                  cv__duration_format(s->run_ns, run));
    (void)fclose(out);
    return text;
}

/* Does the present choice still show the symptom? Then *ret_symptom is what it shows. */
static bool still_fails(struct shrinker *s, struct symptom *ret_symptom)
{
    char *text = compose(s);
    struct sim_scenario *scenario;
    bool fails = false;
    s->trials++;
    if (sim_scenario_parse(s->name, text, strlen(text), &scenario, NULL) == CV_OK) {
        const struct sim_world_options options = {0};
        struct sim_world *world = sim_world_new(scenario, s->seed, &options);
        if (!sim_world_run_all(world)) {
            *ret_symptom = symptom_of(world);
            fails = (ret_symptom->properties & s->symptom.properties) != 0 ||
                    (ret_symptom->expects & s->symptom.expects) != 0;
        }
        sim_world_free(world);
        sim_scenario_free(scenario);
    }
    free(text);
    return fails;
}

static uint32_t kept_count(const struct shrinker *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->action_count; i++) {
        count += s->is_kept[i];
    }
    return count;
}

/* Tries to leave out `chunk` kept actions from the n-th kept one on. */
static bool leave_out(struct shrinker *s, uint32_t n, uint32_t chunk)
{
    bool *before = cv__allocate(s->action_count, sizeof *before);
    memcpy(before, s->is_kept, s->action_count * sizeof *before);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (before[i]) {
            s->is_kept[i] = seen < n || seen >= n + chunk;
            seen++;
        }
    }
    struct symptom symptom;
    const bool works = still_fails(s, &symptom);
    if (works) {
        s->symptom = symptom;
    } else {
        memcpy(s->is_kept, before, s->action_count * sizeof *before);
    }
    free(before);
    return works;
}

static void minimise(struct shrinker *s)
{
    for (uint32_t chunk = kept_count(s); chunk > 0; chunk = chunk > 1 ? (chunk + 1) / 2 : 0) {
        for (uint32_t n = 0; n < kept_count(s);) {
            n = leave_out(s, n, chunk) ? n : n + chunk;
        }
    }
}

/* A promise broken at t needs no more time than t. */
static void cut_short(struct shrinker *s)
{
    if (s->symptom.at_ns < 0) {
        return;
    }
    const int64_t whole_ns = s->run_ns;
    s->run_ns = (s->symptom.at_ns / NS_PER_MS + 1) * NS_PER_MS;
    struct symptom symptom;
    if (!still_fails(s, &symptom)) {
        s->run_ns = whole_ns;
    }
}

static void collect_setup(struct shrinker *s, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t line_length = end != NULL ? (size_t)(end - (text + at)) : length - at;
        char *line = cv__copy_text(text + at, line_length);
        at += line_length + 1;
        if (begins_with(line, "at") || begins_with(line, "random") || begins_with(line, "run") ||
            begins_with(line, "seed")) {
            free(line);
        } else {
            line_add(&s->setup, &s->setup_count, &s->setup_capacity, line);
        }
    }
}

/* The scenario's actions and the drawn ones, but not the ends that the run added. */
static void collect_actions(struct shrinker *s, const struct sim_world *w, uint32_t action_count)
{
    s->at_ns = cv__allocate(action_count, sizeof *s->at_ns);
    for (uint32_t i = 0; i < action_count; i++) {
        if (w->action[i].at_ns == SIM_SETUP) {
            continue;
        }
        char *line = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&line, &length);
        if (out == NULL) {
            continue;
        }
        sim_action_print(&w->action[i], w->node_count, out);
        (void)fclose(out);
        s->at_ns[s->action_count] = w->action[i].at_ns;
        line_add(&s->action, &s->action_count, &s->action_capacity, line);
    }
    s->is_kept = cv__allocate(s->action_count, sizeof *s->is_kept);
    for (uint32_t i = 0; i < s->action_count; i++) {
        s->is_kept[i] = true;
    }
}

static void shrinker_fini(struct shrinker *s)
{
    for (uint32_t i = 0; i < s->setup_count; i++) {
        free(s->setup[i]);
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        free(s->action[i]);
    }
    free(s->setup);
    free(s->action);
    free(s->at_ns);
    free(s->is_kept);
}

int sim_shrink(const char *name, const char *text, size_t length, uint64_t seed,
               struct sim_shrunk *ret_shrunk, struct cv_errtext *reterr)
{
    struct sim_scenario *scenario;
    int error = sim_scenario_parse(name, text, length, &scenario, reterr);
    if (error != CV_OK) {
        return error;
    }
    struct shrinker s = {.name = name, .seed = seed, .run_ns = scenario->run_ns};
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, seed, &options);
    const uint32_t action_count = world->action_count;
    const bool is_ok = sim_world_run_all(world);
    s.symptom = symptom_of(world);
    collect_setup(&s, text, length);
    collect_actions(&s, world, action_count);
    sim_world_free(world);
    sim_scenario_free(scenario);

    struct symptom symptom;
    if (is_ok) {
        error = cv__fail(reterr, CV_E_INVALID, "%.100s does not fail with seed %llu", name,
                         (unsigned long long)seed);
    } else if (!still_fails(&s, &symptom)) {
        error = cv__fail(
            reterr, CV_E_INVALID,
            "%.100s: the run does not fail when its random faults are written as actions", name);
    } else {
        cut_short(&s);
        minimise(&s);
        cut_short(&s);
        ret_shrunk->text = compose(&s);
        ret_shrunk->actions_before = s.action_count;
        ret_shrunk->actions_after = kept_count(&s);
        ret_shrunk->trials = s.trials;
    }
    shrinker_fini(&s);
    return error;
}
