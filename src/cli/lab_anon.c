/* src/cli/lab_anon.c - `conclave lab anon`: the experiments of [Wiesmann07, sec. 6 and 7].
 *
 * Fig. 3: ten processes begin anew at the same instant, each after a wait that is evenly drawn from
 * (0, eps] as in the paper; the counter goes on wherever it stands. The overhead is the time from a
 * process's asking for a number to its having a leader; who has a leader before it would ask does
 * not count. The sequencer is the paper's second switch (Table 1): 10 ms for one client, and 20 ms
 * for two, so that 5 ms are spent in parallel and 5 ms one after the other.
 *
 * Eq. 1: t = eps/2 + t_par + R t_seq + t_net if a full round of numbers is needed. Here the leader
 * resigns, so that everybody asks at once and the wait is not in it but one more broadcast is: no
 * election may take longer than 2 t_net + t_par + R t_seq, and the longest takes just that. */
#include "cli/cli.h"
#include "sim/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 10
#define ROUND_MAX 10u
#define PAR_MS 5.0
#define SEQ_MS 5.0
#define NET_MS 0.15
#define Z99 2.576 /* two-sided, of the normal distribution: there are hundreds of samples */

/* A sample: its size, mean and half of the width of the 99 % confidence interval. */
struct sample {
    uint64_t count;
    double sum, square_sum, max;
};

static void sample_add(struct sample *s, double value)
{
    s->max = s->count == 0 || value > s->max ? value : s->max;
    s->count++;
    s->sum += value;
    s->square_sum += value * value;
}

static double mean_of(const struct sample *s)
{
    return s->count > 0 ? s->sum / (double)s->count : 0;
}

static double interval_of(const struct sample *s)
{
    if (s->count < 2) {
        return 0;
    }
    const double mean = mean_of(s);
    const double n = (double)s->count;
    const double variance = (s->square_sum - n * mean * mean) / (n - 1);
    return Z99 * sqrt(variance > 0 ? variance / n : 0);
}

static struct cv_world *world_from(const char *text, uint64_t seed,
                                   struct cv_scenario **ret_scenario)
{
    struct cv_errtext why;
    if (cv__scenario_parse("lab", text, strlen(text), ret_scenario, &why) != CV_OK) {
        (void)cv__usage_error("%s", why.text);
        abort(); /* the text is ours */
    }
    const struct cv_world_options options = {.keeps_history = true};
    return cv__world_new(*ret_scenario, seed, &options);
}

/* ---- Fig. 3 ---------------------------------------------------------------------------------- */

struct fig3 {
    struct sample overhead_ms, first_ms, asked, numbers;
};

/* When this node first had a leader; -1: never. */
static int64_t leader_since(const struct cv_world *w, cv_id node)
{
    for (uint32_t i = 0; i < w->view_count; i++) {
        if (w->view[i].node == node && w->view[i].leader != CV_ID_NONE) {
            return w->view[i].at_ns;
        }
    }
    return -1;
}

static void measure_fig3(const char *text, uint64_t seed, struct fig3 *f)
{
    struct cv_scenario *scenario;
    struct cv_world *w = world_from(text, seed, &scenario);
    cv__world_run(w, scenario->run_ns);
    bool has_asked[NODES] = {false};
    uint32_t asked = 0;
    for (uint32_t i = 0; i < w->ask_count; i++) {
        const struct cv_ask *ask = &w->ask[i];
        const int64_t led_ns = leader_since(w, ask->node);
        if (has_asked[ask->node - 1] || led_ns < ask->at_ns) {
            continue; /* its first proposal counts */
        }
        has_asked[ask->node - 1] = true;
        asked++;
        sample_add(&f->overhead_ms, (double)(led_ns - ask->at_ns) / 1e6);
    }
    sample_add(&f->asked, asked);
    sample_add(&f->numbers, (double)w->sequencer.number_count);
    sample_add(&f->first_ms, (double)w->election[0].elected_ns / 1e6);
    cv__world_free(w);
    cv__scenario_free(scenario);
}

/* How much of the variation of y a straight line over x = 1.. explains. */
static double straightness(const double *y, uint32_t count, double *ret_slope)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double x = i + 1;
        sx += x;
        sy += y[i];
        sxx += x * x;
        sxy += x * y[i];
        syy += y[i] * y[i];
    }
    const double n = count;
    const double cov = n * sxy - sx * sy;
    *ret_slope = cov / (n * sxx - sx * sx);
    return cov * cov / ((n * sxx - sx * sx) * (n * syy - sy * sy));
}

static bool run_fig3(const char *figure, int eta_ms, int eps_ms, uint64_t runs)
{
    double overhead[ROUND_MAX];
    (void)printf("\nFig. %s: eta = %d ms, eps = %d ms, %d processes, %llu elections for each R\n"
                 "%3s  %18s  %14s  %9s  %8s\n",
                 figure, eta_ms, eps_ms, NODES, (unsigned long long)runs, "R", "overhead (ms)",
                 "elected (ms)", "proposers", "numbers");
    for (uint32_t r = 1; r <= ROUND_MAX; r++) {
        struct fig3 f = {0};
        for (uint64_t seed = 1; seed <= runs; seed++) {
            char text[400];
            (void)snprintf(text, sizeof text,
                           "protocol anon eta=%dms eps=%dms R=%u oracle=10ms start=paper\n"
                           "nodes %d\nlink * delay %gms\n"
                           "sequencer delay %gms serial %gms boots none start %llu\nrun %dms\n",
                           eta_ms, eps_ms, r, NODES, NET_MS, PAR_MS, SEQ_MS,
                           (unsigned long long)(1000 + 11 * seed), 40 * eps_ms);
            measure_fig3(text, seed, &f);
        }
        overhead[r - 1] = mean_of(&f.overhead_ms);
        (void)printf("%3u  %8.2f +- %5.2f    %6.2f +- %4.2f  %9.1f  %8.1f\n", r, overhead[r - 1],
                     interval_of(&f.overhead_ms), mean_of(&f.first_ms), interval_of(&f.first_ms),
                     mean_of(&f.asked), mean_of(&f.numbers));
    }
    double slope;
    const double straight = straightness(overhead, ROUND_MAX, &slope);
    const bool is_linear = straight > 0.95 && slope > 0;
    (void)printf("a straight line with %.2f ms for each number of a round explains %.1f %%: %s\n",
                 slope, 100 * straight, is_linear ? "linear, as the paper has it" : "NOT LINEAR");
    return is_linear;
}

/* ---- Eq. 1 ----------------------------------------------------------------------------------- */

#define RESIGN_MS 3000

/* The time from the resignation to the next leader; above eps: the round's leader was the one who
 * had resigned, and another round was needed. */
static double measure_eq1(uint32_t r, uint64_t seed)
{
    char text[400];
    (void)snprintf(text, sizeof text,
                   "protocol anon eta=50ms eps=150ms R=%u oracle=10ms\nnodes %d\n"
                   "link * delay %gms\nsequencer delay %gms serial %gms boots none start %llu\n"
                   "at %dms resign leader\nrun %dms\n",
                   r, NODES + 1, NET_MS, PAR_MS, SEQ_MS, (unsigned long long)(1000 + seed),
                   RESIGN_MS, RESIGN_MS + 2000);
    struct cv_scenario *scenario;
    struct cv_world *w = world_from(text, seed, &scenario);
    cv__world_run(w, scenario->run_ns);
    double took_ms = INFINITY;
    for (uint32_t i = 0; i < w->election_count; i++) {
        if (w->election[i].fault_ns == RESIGN_MS * NS_PER_MS && w->election[i].elected_ns >= 0) {
            took_ms = (double)w->election[i].elected_ns / 1e6 - RESIGN_MS;
        }
    }
    cv__world_free(w);
    cv__scenario_free(scenario);
    return took_ms;
}

static bool run_eq1(uint64_t runs)
{
    bool all_agree = true;
    (void)printf("\nEq. 1 without its eps/2: everybody asks at once, because the leader resigned; "
                 "t_par = %g ms,\nt_seq = %g ms, t_net = %g ms\n%3s  %10s  %18s  %16s  %8s\n",
                 PAR_MS, SEQ_MS, NET_MS, "R", "Eq. 1 (ms)", "longest (ms)", "mean (ms)", "again");
    for (uint32_t r = 1; r <= ROUND_MAX; r++) {
        struct sample took = {0};
        uint64_t again = 0;
        for (uint64_t seed = 1; seed <= runs; seed++) {
            const double ms = measure_eq1(r, seed);
            if (ms < 150) {
                sample_add(&took, ms);
            } else {
                again++;
            }
        }
        const double said_ms = 2 * NET_MS + PAR_MS + r * SEQ_MS;
        /* A longer round than any that was drawn may be possible; a longer time never is. */
        const bool agrees = took.max < said_ms + 0.05 && took.max > said_ms - SEQ_MS - 0.05;
        all_agree = all_agree && agrees;
        (void)printf("%3u  %10.2f  %18.2f  %6.2f +- %5.2f  %8llu  %s\n", r, said_ms, took.max,
                     mean_of(&took), interval_of(&took), (unsigned long long)again,
                     agrees ? "agrees" : "DISAGREES");
    }
    return all_agree;
}

int cv__lab_anon(int argc, char **argv)
{
    uint64_t runs = 300;
    if (argc == 3 && strcmp(argv[1], "--runs") == 0) {
        if (!cv__option_number("--runs", argv[2], 2, 100000, &runs)) {
            return EXIT_USAGE;
        }
    } else if (argc > 1) {
        return cv__usage_error("lab anon takes only --runs K: '%s'", argv[1]);
    }
    (void)printf(
        "[Wiesmann07] in the simulator; the sequencer takes %g ms in parallel and %g ms one "
        "after the other.\n",
        PAR_MS, SEQ_MS);
    const bool is_fast_linear = run_fig3("3a", 10, 30, runs);
    const bool is_slow_linear = run_fig3("3b", 50, 150, runs);
    const bool meets_eq1 = run_eq1(runs);
    return is_fast_linear && is_slow_linear && meets_eq1 ? EXIT_FINE : EXIT_NO;
}
