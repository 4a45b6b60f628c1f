/* bench/bench_explore.c - how many transitions per second `conclave explore` makes, on one
 * processor.
 *
 * Usage: bench_explore [--tiny]. Each case is searched completely several times. The figure is the
 * median of the transitions per second, with minimum and maximum beside it, and the bytes that the
 * set of visited worlds takes for each world. Tiny: fewer faults, once, to check that it still
 * works. */
#include "explore/search.h"
#include "figures.h"

#include <conclave/conclave.h>
#include <stdio.h>
#include <string.h>

#define REPEATS 5

struct bench_case {
    const char *protocol;
    uint32_t nodes;
    struct {
        enum explore_budget budget;
        uint8_t count;
    } fault[3];
};

static const struct bench_case cases[] = {
    {"bully", 3, {{EXPLORE_CRASH, 2}, {EXPLORE_RECOVER, 1}, {EXPLORE_LOSS, 1}}},
    {"ring", 3, {{EXPLORE_LOSS, 1}}},
    {"pole", 3, {{EXPLORE_LATE, 1}}},
    {"local", 2, {{EXPLORE_PAUSE, 1}}},
    {"lease", 3, {{EXPLORE_LATE, 1}}},
    {"anon", 3, {{EXPLORE_CRASH, 1}}},
};

static void print_budget(const struct bench_case *c)
{
    for (uint32_t i = 0; i < COUNT_OF(c->fault); i++) {
        if (c->fault[i].count > 0) {
            (void)printf("%s%s=%u", i > 0 ? "," : "", explore_budget_name(c->fault[i].budget),
                         c->fault[i].count);
        }
    }
}

static bool run_case(const struct bench_case *c, bool is_tiny)
{
    struct explore_setting setting = {
        .protocol = cv_protocol_find(c->protocol), .node_count = c->nodes, .delay_max_ticks = 1};
    for (uint32_t i = 0; i < COUNT_OF(c->fault) && !is_tiny; i++) {
        setting.budget[c->fault[i].budget] += c->fault[i].count;
    }
    const struct explore_limits limits = {
        .states_max = 100000000, .bytes_max = UINT64_C(1) << 32, .wall_s_max = 600, .threads = 1};
    double rate[REPEATS];
    struct explore_result result = {0};
    const uint32_t repeats = is_tiny ? 1 : REPEATS;
    for (uint32_t i = 0; i < repeats; i++) {
        static struct explore_model model;
        struct cv_errtext why;
        if (explore_open(&setting, &model, &why) != CV_OK) {
            (void)fprintf(stderr, "%s\n", why.text);
            return false;
        }
        const int error = explore_search(&model, &limits, &result, &why);
        explore_model_fini(&model);
        free(result.path);
        if (error != CV_OK) {
            (void)fprintf(stderr, "%s\n", why.text);
            return false;
        }
        rate[i] = (double)result.progress.transitions / result.progress.wall_s / 1e6;
    }
    const bool is_ok = result.outcome == EXPLORE_EXHAUSTED;
    const double median = figures_median(rate, repeats);
    (void)printf("explore protocol=%s n=%u budget=", c->protocol, c->nodes);
    print_budget(c);
    (void)printf(
        " states=%llu transitions=%llu runs=%u mtransitions_per_s_p50=%.2f min=%.2f max=%.2f "
        "bytes_per_state=%.0f ok=%s\n",
        (unsigned long long)result.progress.states, (unsigned long long)result.progress.transitions,
        repeats, median, rate[0], rate[repeats - 1],
        (double)result.progress.bytes / (double)result.progress.states, is_ok ? "yes" : "NO");
    return is_ok;
}

int main(int argc, char **argv)
{
    const bool is_tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    (void)printf("# bench=explore version=%s cc=%s threads=1%s\n", cv_version(), __VERSION__,
                 is_tiny ? " tiny" : "");
    bool is_ok = true;
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        is_ok = run_case(&cases[i], is_tiny) && is_ok;
        (void)fflush(stdout);
    }
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
