/* src/cli/cmd_explore.c - `conclave explore PROTOCOL`: every run within bounds. */
#include "base/json.h"
#include "base/memory.h"
#include "base/screen.h"
#include "cli/cli.h"
#include "cli/replay.h"
#include "explore/search.h"
#include "os/pages.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings {
    struct explore_setting explored;
    struct explore_limits limits;
    uint32_t budgets; /* a bit for each kind of fault that --budget has named */
    bool is_json, drifts;
    const char *rates;         /* of --drift; NULL: all combinations */
    const char *scenario_path; /* NULL: none is written */
    const char *trace_path;    /* NULL: likewise */
};

/* What all searches of one command found together; with --drift there are several. */
struct total {
    struct explore_result result; /* the last one's outcome */
    uint64_t states, transitions, depth;
    double wall_s, miss;
    const char *beyond;                /* as in the result of any of them */
    uint32_t spent;                    /* likewise */
    char rates[EXPLORE_NODES_MAX + 2]; /* of the last one; empty: no drift */
};

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
}

/* ---- The command line ------------------------------------------------------------------------ */

static int unknown_budget(const char *word)
{
    const char *known[EXPLORE_BUDGET_COUNT + 1] = {0};
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        known[i] = explore_budget_name((enum explore_budget)i);
    }
    return cv__command_unknown("budget", word, known);
}

static bool parse_one_budget(struct settings *settings, char *word)
{
    uint64_t count = 1;
    char *equals = strchr(word, '=');
    if (equals != NULL) {
        *equals = '\0';
        if (!cv__command_number("--budget", equals + 1, 0, 9, &count)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if (strcmp(word, explore_budget_name((enum explore_budget)i)) == 0) {
            if ((settings->budgets & BIT(i)) != 0) {
                (void)cv__wrong_usage("--budget names '%s' twice; for two of them write %s=2", word,
                                      word);
                return false;
            }
            settings->budgets |= BIT(i);
            settings->explored.budget[i] = (uint8_t)count;
            return true;
        }
    }
    (void)unknown_budget(word);
    return false;
}

static bool parse_budget(struct settings *settings, char *text)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (!parse_one_budget(settings, word)) {
            return false;
        }
    }
    return true;
}

static bool parse_property(struct explore_setting *setting, const char *word)
{
    const char *known[CV_PROPERTY_COUNT + 1] = {0};
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        known[i] = cv_property_name((enum cv_property)i);
        if (strcmp(word, known[i]) == 0) {
            setting->only |= BIT(i);
            return true;
        }
    }
    (void)cv__command_unknown("property", word, known);
    return false;
}

static bool add_option(struct explore_setting *setting, const char *text)
{
    if (setting->option_count == EXPLORE_OPTIONS_MAX) {
        (void)cv__wrong_usage("--option can be given %u times", EXPLORE_OPTIONS_MAX);
        return false;
    }
    setting->option[setting->option_count++] = text;
    return true;
}

static bool parse_number(const char *option, uint64_t max, uint32_t *ret_number)
{
    uint64_t number;
    if (!cv__command_number(option, optarg, 1, max, &number)) {
        return false;
    }
    *ret_number = (uint32_t)number;
    return true;
}

static bool parse_limit(int option, struct explore_limits *limits)
{
    uint64_t number = 0;
    int64_t ns = 0;
    bool is_ok = false;
    switch (option) {
    case 's':
        is_ok = cv__command_number("--states", optarg, 1, 2000000000, &number);
        limits->states_max = number;
        break;
    case 'B':
        is_ok = cv__command_number("--bitstate", optarg, 1, 1u << 20, &number);
        limits->bit_bytes = number << 20;
        break;
    case 'T':
        is_ok = cv__command_number("--threads", optarg, 1, 64, &number);
        limits->threads = (uint32_t)number;
        break;
    case 'm':
        is_ok = cv__command_number("--memory", optarg, 1, 1u << 20, &number);
        limits->bytes_max = number << 20;
        break;
    default:
        is_ok = cv__command_time("--time", optarg, &ns);
        limits->wall_s_max = (double)ns / 1e9;
        break;
    }
    return is_ok;
}

static bool parse_option(int option, struct settings *settings)
{
    struct explore_setting *explored = &settings->explored;
    switch (option) {
    case 'n':
        return parse_number("--nodes", EXPLORE_NODES_MAX, &explored->node_count);
    case 'b':
        return parse_budget(settings, optarg);
    case 'p':
        return parse_property(explored, optarg);
    case 'o':
        return add_option(explored, optarg);
    case 'd':
        return parse_number("--delay", 16, &explored->delay_max_ticks);
    case 'h':
        return parse_number("--horizon", 1000, &explored->horizon_ticks);
    case 'D':
        settings->drifts = true;
        settings->rates = optarg;
        return true;
    case 'l':
        explored->judges_liveness = true;
        return true;
    case 'j':
        settings->is_json = true;
        return true;
    case 'S':
        settings->scenario_path = optarg;
        return true;
    case 'r':
        settings->trace_path = optarg;
        return true;
    case 'R':
        settings->limits.save_path = optarg;
        return true;
    case 's':
    case 'm':
    case 't':
    case 'B':
    case 'T':
        return parse_limit(option, &settings->limits);
    default:
        return false; /* a complaint was printed */
    }
}

static bool parse_options(int argc, char **argv, struct settings *settings)
{
    static const struct option longs[] = {
        {"nodes", required_argument, NULL, 'n'},    {"budget", required_argument, NULL, 'b'},
        {"property", required_argument, NULL, 'p'}, {"option", required_argument, NULL, 'o'},
        {"delay", required_argument, NULL, 'd'},    {"horizon", required_argument, NULL, 'h'},
        {"drift", optional_argument, NULL, 'D'},    {"settle", no_argument, NULL, 'l'},
        {"json", no_argument, NULL, 'j'},           {"states", required_argument, NULL, 's'},
        {"memory", required_argument, NULL, 'm'},   {"time", required_argument, NULL, 't'},
        {"scenario", required_argument, NULL, 'S'}, {"trace", required_argument, NULL, 'r'},
        {"bitstate", required_argument, NULL, 'B'}, {"resume", required_argument, NULL, 'R'},
        {"threads", required_argument, NULL, 'T'},  {0},
    };
    int option;
    while ((option = cv__command_option(argc, argv, "n:o:", longs)) != -1) {
        if (!parse_option(option, settings)) {
            return false;
        }
    }
    return true;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void show_progress(void *context, const struct explore_progress *p)
{
    (void)context;
    char line[200];
    (void)snprintf(line, sizeof line,
                   "%.0f s  %llu states  %.0f/s  %llu waiting  depth %llu  %llu MB, %llu on disk",
                   p->wall_s, (unsigned long long)p->states, (double)p->states / p->wall_s,
                   (unsigned long long)p->frontier, (unsigned long long)p->depth,
                   (unsigned long long)(p->bytes >> 20),
                   (unsigned long long)(p->disk_held_bytes >> 20));
    cv__screen_progress(line);
}

static void print_line(void *context, int64_t at_ns, const char *line)
{
    (void)context;
    (void)printf("%10.3f  %s\n", (double)at_ns / 1e6, line);
}

static void add_line(void *context, int64_t at_ns, const char *line)
{
    struct cv_json *json = context;
    cv__json_open(json, NULL, '{');
    cv__json_seconds(json, "t_s", at_ns);
    cv__json_text(json, "what", line);
    cv__json_close(json, '}');
}

static const char *outcome_name(enum explore_outcome outcome)
{
    static const char *const names[] = {"exhausted", "broken", "not exhausted"};
    return names[outcome];
}

static void print_head(const struct settings *settings)
{
    const struct explore_setting *e = &settings->explored;
    (void)printf("%s, %u node%s", e->protocol->name, e->node_count, e->node_count == 1 ? "" : "s");
    const char *separator = "; budget ";
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if (e->budget[i] > 0) {
            (void)printf("%s%s=%u", separator, explore_budget_name((enum explore_budget)i),
                         e->budget[i]);
            separator = ",";
        }
    }
    for (uint32_t i = 0; i < e->option_count; i++) {
        (void)printf("%s%s", i == 0 ? "; options " : " ", e->option[i]);
    }
    if (settings->rates != NULL) {
        (void)printf("; clocks %s (slow, exact, fast)", settings->rates);
    } else if (settings->drifts) {
        (void)printf("; clocks slow, exact or fast, in all combinations");
    }
    (void)printf("%s\n", settings->limits.bit_bytes > 0 ? "; a bit-state search" : "");
}

static void print_judged(const struct explore_model *model)
{
    (void)printf("judged:");
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((model->judged & BIT(i)) != 0) {
            (void)printf(" %s", cv_property_name((enum cv_property)i));
        }
    }
    (void)printf("\n");
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Faults of the budget that cannot happen in any state. */
static uint32_t impossible(const struct settings *settings, const struct total *total)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if (settings->explored.budget[i] > 0 && (total->spent & BIT(i)) == 0) {
            kinds |= BIT(i);
        }
    }
    return kinds;
}

static void print_exhausted(const struct explore_model *model, const struct settings *settings,
                            const struct total *total)
{
    const uint32_t delay = settings->explored.delay_max_ticks;
    (void)printf("exhausted: no property that is judged breaks within these bounds; messages take "
                 "%s%u tick%s",
                 delay > 1 ? "1 to " : "", delay, plural(delay));
    if (settings->explored.budget[EXPLORE_SLOW] > 0 && model->slow_ns > 0) {
        (void)printf(", a slow save at most %lld ticks",
                     (long long)(model->slow_ns / model->tick_ns));
    }
    (void)printf(", and instants older than %lld ticks count as equal.\n",
                 (long long)(model->horizon_ns / model->tick_ns));
    if (total->beyond != NULL) {
        (void)printf("Not looked at: %s.\n", total->beyond);
    }
    const uint32_t kinds = impossible(settings, total);
    const char *separator = "These faults of the budget cannot happen here: ";
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if ((kinds & BIT(i)) != 0) {
            (void)printf("%s%s", separator, explore_budget_name((enum explore_budget)i));
            separator = ", ";
        }
    }
    (void)printf("%sThe probability that a state was missed is below %.0e.\n",
                 kinds != 0 ? ".\n" : "", total->miss);
}

static void print_broken(struct explore_model *model, const struct settings *settings,
                         const struct total *total)
{
    const struct explore_result *r = &total->result;
    (void)printf("broken: %s: %s\n", cv_property_name(r->property), r->detail);
    if (total->rates[0] != '\0') {
        (void)printf("clocks: %s (slow, exact, fast)\n", total->rates);
    }
    (void)printf("%s trace, %u choice%s; a tick is %g ms:\n        ms\n",
                 settings->limits.bit_bytes > 0 ? "a short" : "shortest", r->path_count,
                 plural(r->path_count), (double)model->tick_ns / 1e6);
    explore_replay(model, r->path, r->path_count, print_line, NULL);
}

static void print_text(struct explore_model *model, const struct settings *settings,
                       const struct total *total)
{
    const struct explore_result *r = &total->result;
    print_head(settings);
    print_judged(model);
    (void)printf("%llu state%s, %llu transition%s, depth %llu, %.2f s, %llu bytes a state\n",
                 (unsigned long long)total->states, plural(total->states),
                 (unsigned long long)total->transitions, plural(total->transitions),
                 (unsigned long long)total->depth, total->wall_s,
                 (unsigned long long)(r->progress.bytes / (r->progress.states + 1)));
    switch (r->outcome) {
    case EXPLORE_EXHAUSTED:
        print_exhausted(model, settings, total);
        break;
    case EXPLORE_STOPPED:
        (void)printf(
            "not exhausted: stopped by %s%s%s; no violation so far, which proves nothing\n", r->why,
            r->detail[0] != '\0' ? ": " : "", r->detail);
        break;
    case EXPLORE_BROKEN:
        print_broken(model, settings, total);
        break;
    }
}

static void print_json(struct explore_model *model, const struct settings *settings,
                       const struct total *total)
{
    const struct explore_result *r = &total->result;
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "protocol", settings->explored.protocol->name);
    cv__json_uint(&json, "nodes", settings->explored.node_count);
    cv__json_open(&json, "budget", '{');
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if (settings->explored.budget[i] > 0) {
            cv__json_uint(&json, explore_budget_name((enum explore_budget)i),
                          settings->explored.budget[i]);
        }
    }
    cv__json_close(&json, '}');
    cv__json_open(&json, "options", '[');
    for (uint32_t i = 0; i < settings->explored.option_count; i++) {
        cv__json_text(&json, NULL, settings->explored.option[i]);
    }
    cv__json_close(&json, ']');
    cv__json_bool(&json, "drift", settings->drifts);
    cv__json_bool(&json, "settle", model->judges_liveness);
    cv__json_uint(&json, "delay_ticks", settings->explored.delay_max_ticks);
    cv__json_uint(&json, "horizon_ticks", (uint64_t)(model->horizon_ns / model->tick_ns));
    cv__json_bool(&json, "bitstate", settings->limits.bit_bytes > 0);
    cv__json_open(&json, "judged", '[');
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((model->judged & BIT(i)) != 0) {
            cv__json_text(&json, NULL, cv_property_name((enum cv_property)i));
        }
    }
    cv__json_close(&json, ']');
    cv__json_text(&json, "verdict", outcome_name(r->outcome));
    cv__json_uint(&json, "states", total->states);
    cv__json_uint(&json, "transitions", total->transitions);
    cv__json_uint(&json, "depth", total->depth);
    cv__json_double(&json, "seconds", total->wall_s);
    cv__json_uint(&json, "bytes", r->progress.bytes);
    cv__json_uint(&json, "disk_bytes", r->progress.disk_bytes);
    cv__json_double(&json, "miss_probability_below", total->miss);
    if (total->beyond != NULL) {
        cv__json_text(&json, "not_looked_at", total->beyond);
    }
    const uint32_t kinds = impossible(settings, total);
    if (r->outcome == EXPLORE_EXHAUSTED && kinds != 0) {
        cv__json_open(&json, "impossible", '[');
        for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
            if ((kinds & BIT(i)) != 0) {
                cv__json_text(&json, NULL, explore_budget_name((enum explore_budget)i));
            }
        }
        cv__json_close(&json, ']');
    }
    if (r->outcome == EXPLORE_STOPPED) {
        cv__json_text(&json, "stopped_by", r->why);
    }
    if (r->outcome == EXPLORE_BROKEN) {
        if (total->rates[0] != '\0') {
            cv__json_text(&json, "rates", total->rates);
        }
        cv__json_text(&json, "property", cv_property_name(r->property));
        cv__json_text(&json, "detail", r->detail);
        cv__json_uint(&json, "choices", r->path_count);
        cv__json_open(&json, "trace", '[');
        explore_replay(model, r->path, r->path_count, add_line, &json);
        cv__json_close(&json, ']');
    }
    cv__json_close(&json, '}');
    (void)printf("\n");
}

/* ---- Searching ------------------------------------------------------------------------------- */

static const char rate_letters[] = "esf";

/* The index-th way to give each clock one of the three rates. */
static void name_rates(uint32_t index, uint32_t clock_count, char *ret_rates)
{
    for (uint32_t i = 0; i < clock_count; i++, index /= 3) {
        ret_rates[i] = rate_letters[index % 3];
    }
    ret_rates[clock_count] = '\0';
}

/* Of the ways that differ only in which of the nodes has which clock, the one with the rates in
 * order is explored if nodes are alike. The last way is such a one. */
static bool is_like_another(const struct explore_model *model, const char *rates)
{
    for (uint32_t i = 1; model->is_symmetric && i < model->node_count; i++) {
        if (strchr(rate_letters, rates[i]) < strchr(rate_letters, rates[i - 1])) {
            return true;
        }
    }
    return false;
}

static void add_up(struct total *total, const struct explore_limits *limits)
{
    const struct explore_progress *p = &total->result.progress;
    total->states += p->states;
    total->transitions += p->transitions;
    total->depth = p->depth > total->depth ? p->depth : total->depth;
    total->wall_s += p->wall_s;
    total->miss += total->result.miss;
    total->spent |= total->result.spent;
    total->beyond = total->result.beyond != NULL ? total->result.beyond : total->beyond;
    if (limits->progress != NULL) {
        cv__screen_progress("");
    }
}

static int explore(struct settings *settings)
{
    struct explore_model *model = cv__allocate(1, sizeof *model);
    struct total total = {0};
    uint32_t ways = 1;
    const struct explore_setting *explored = &settings->explored;
    const uint32_t clocks = explored->node_count + (explored->protocol->store_ns != NULL);
    if (settings->rates != NULL &&
        (strlen(settings->rates) != clocks || strspn(settings->rates, "sef") != clocks)) {
        free(model);
        return cv__wrong_usage("--drift=RATES takes a letter for each of the %u clocks: s slow, e "
                               "exact or f fast, not '%s'",
                               clocks, settings->rates);
    }
    for (uint32_t i = 0; settings->drifts && settings->rates == NULL && i < clocks; i++) {
        ways *= 3;
    }
    for (uint32_t way = 0; way < ways; way++) {
        struct cv_errtext why;
        if (settings->drifts) {
            name_rates(way, clocks, total.rates);
            if (settings->rates != NULL) {
                memcpy(total.rates, settings->rates, clocks + 1);
            }
            settings->explored.rates = total.rates;
        }
        if (explore_open(&settings->explored, model, &why) != CV_OK) {
            free(model);
            return cv__wrong_usage("%s", why.text);
        }
        if (settings->drifts && settings->rates == NULL && is_like_another(model, total.rates)) {
            explore_model_fini(model);
            continue;
        }
        struct explore_limits limits = settings->limits;
        limits.wall_s_max -= total.wall_s;
        if (explore_search(model, &limits, &total.result, &why) != CV_OK) {
            explore_model_fini(model);
            free(model);
            return cv__cannot("%s", why.text);
        }
        add_up(&total, &limits);
        if (total.result.outcome != EXPLORE_EXHAUSTED || way + 1 == ways) {
            break;
        }
        explore_model_fini(model);
    }
    (settings->is_json ? print_json : print_text)(model, settings, &total);
    const int statuses[] = {EXIT_FINE, EXIT_NO, EXIT_CANNOT};
    int status = statuses[total.result.outcome];
    if (total.result.outcome == EXPLORE_BROKEN &&
        (settings->scenario_path != NULL || settings->trace_path != NULL)) {
        status =
            cv__replay_write(model, &total.result, settings->scenario_path, settings->trace_path);
    }
    if (total.result.unsaved.text[0] != '\0') {
        status = cv__cannot("%s; the search is not saved", total.result.unsaved.text);
    }
    explore_model_fini(model);
    free(total.result.path);
    free(model);
    return status;
}

static bool is_same_file(const char *path, const char *other)
{
    return path != NULL && other != NULL && strcmp(path, other) == 0;
}

/* A file that is written when hours of searching are over: can it be? */
static bool can_write(const char *path)
{
    struct stat status;
    char folder[PATH_MAX];
    int error = 0;
    if (path == NULL) {
        return true;
    }
    if (path[0] == '\0') {
        error = ENOENT; /* as fopen() says */
    } else if (stat(path, &status) == 0) {
        error = S_ISDIR(status.st_mode) ? EISDIR : access(path, W_OK) != 0 ? errno : 0;
    } else if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) {
        error = ENAMETOOLONG;
    } else {
        error = access(dirname(folder), W_OK) != 0 ? errno : 0;
    }
    if (error != 0) {
        (void)cv__cannot("cannot write '%s': %s", path, strerror(error));
    }
    return error == 0;
}

static uint32_t processor_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count <= 64 ? (uint32_t)count : 1;
}

static int run(int argc, char **argv)
{
    struct settings settings = {
        .explored = {.node_count = 2, .delay_max_ticks = 1},
        .limits = {.states_max = 100000000,
                   .bytes_max = (uint64_t)4 << 30,
                   .wall_s_max = 1e9,
                   .threads = processor_count(),
                   .stop = &is_interrupted,
                   .progress = cv__screen_shows_progress() ? show_progress : NULL},
    };
    if (!parse_options(argc, argv, &settings)) {
        return EXIT_USAGE;
    }
    if (settings.limits.save_path != NULL &&
        (settings.limits.bit_bytes > 0 || (settings.drifts && settings.rates == NULL))) {
        return cv__wrong_usage(
            "--resume cannot be combined with --bitstate, nor with --drift without RATES");
    }
    if (argc - optind > 1) {
        return cv__wrong_usage("explore takes one protocol; '%s' is one too many",
                               argv[optind + 1]);
    }
    if (argc == optind) {
        return cv__wrong_usage("which protocol? usage: conclave explore PROTOCOL [options]");
    }
    settings.explored.protocol = cv_protocol_find(argv[optind]);
    if (settings.explored.protocol == NULL) {
        return cv__cli_unknown_protocol(argv[optind]);
    }
    if (is_same_file(settings.scenario_path, settings.trace_path) ||
        is_same_file(settings.scenario_path, settings.limits.save_path) ||
        is_same_file(settings.trace_path, settings.limits.save_path)) {
        return cv__wrong_usage("--scenario, --trace and --resume need a file each");
    }
    if (!can_write(settings.scenario_path) || !can_write(settings.trace_path) ||
        !can_write(settings.limits.save_path)) {
        return EXIT_CANNOT;
    }
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL); /* a second one ends the program at once */
    (void)sigaction(SIGTERM, &action, NULL);
    cv__pages_keep_no_blocks(); /* waiting states that go to disk */
    return explore(&settings);
}

const struct cv_verb cv__verb_explore = {
    .name = "explore",
    .summary = "try every run of a small cluster within a budget of faults",
    .help =
        "usage: conclave explore PROTOCOL [options]\n\n"
        "Tries everything that can happen in a small cluster that runs the real protocol code,\n"
        "with at most the faults of the budget, and checks the properties that the protocol\n"
        "promises. A violation is shown with the shortest trace that leads to it.\n\n"
        "  -n, --nodes N    1 to 4 nodes; default 2\n"
        "  --budget LIST    number of faults of each kind, as in crash=1,recover=1,loss=2:\n"
        "                   crash recover loss late duplicate reorder pause partition resign\n"
        "                   restart witness one-way reboot disk slow\n"
        "  --property NAME  check only this property, promised or not; may be repeated\n"
        "  --settle         also check liveness: after the settling time without a fault\n"
        "  --drift[=RATES]  each clock slow, exact or fast by 1/11, in all combinations; or with\n"
        "                   these rates, a letter (s e f) for each node, and for a store\n"
        "  -o, --option X=Y an option of the protocol; times also in ticks, as in lease=8t\n"
        "  --delay TICKS    a message takes 1 to TICKS ticks; default 1\n"
        "  --horizon TICKS  treat instants older than this as equal; default 16, lease 24,\n"
        "                   anon 32, pole 40, more for longer times\n"
        "  --states N       stop after N states; default 100 million\n"
        "  --time T         stop after this time, as in 60s\n"
        "  --memory MB      when this much is used, move waiting states to disk, then stop;\n"
        "                   default 4096\n"
        "  --threads N      default: one for each processor\n"
        "  --bitstate MB    keep three bits of each state, in this much memory: more states, but\n"
        "                   some are missed\n"
        "  --resume FILE    continue the search saved there; save it again when it is stopped\n"
        "  --scenario FILE  write a violation as a scenario that 'conclave sim' replays\n"
        "  --trace FILE     write the trace of that replay, as 'conclave sim --trace' does\n"
        "  --json           print one object\n\n"
        "Exit status: 0 exhausted, no violation; 1 a property is violated; 2 wrong usage, or not\n"
        "exhausted: a limit was reached, or it was interrupted.\n",
    .run = run,
    .is_told = true,
};
