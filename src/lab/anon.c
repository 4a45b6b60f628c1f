/* src/lab/anon.c - `conclave lab anon`: the experiments of [Wiesmann07, sec. 6 and 7].
 *
 * Fig. 3: ten processes start at the same instant. Each first waits for a time drawn evenly from
 * (0, eps], as in the paper; the counter starts at any place in its round. The overhead is the time
 * from a process's request for a number until it has a leader. A process that has a leader before
 * it would ask does not count. The sequencer is the paper's second switch (Table 1): 10 ms for one
 * client and 20 ms for two, so 5 ms are spent in parallel and 5 ms one after the other.
 *
 * Eq. 1: t = eps/2 + t_par + R t_seq + t_net if a full round of numbers is needed. Here the leader
 * resigns, so all processes ask at once: the wait of eps/2 disappears, and one more broadcast is
 * needed. No election may take longer than 2 t_net + t_par + R t_seq, and the longest takes exactly
 * that. */
#include "lab/anon.h"
#include "base/command.h"
#include "lab/lab.h"
#include "sim/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES ((int)CV_ANON_NODES)
#define ROUND_MAX CV_ANON_ROUND_MAX
#define PAR_MS 5.0
#define SEQ_MS 5.0
#define NET_MS 0.15
#define Z99 2.576 /* two-sided, normal distribution: there are hundreds of samples */

void cv__lab_anon_sample_add(struct cv_anon_sample *s, double value)
{
    s->max = s->count == 0 || value > s->max ? value : s->max;
    s->count++;
    s->sum += value;
    s->square_sum += value * value;
}

double cv__lab_anon_mean(const struct cv_anon_sample *s)
{
    return s->count > 0 ? s->sum / (double)s->count : 0;
}

double cv__lab_anon_interval(const struct cv_anon_sample *s)
{
    if (s->count < 2) {
        return 0;
    }
    const double mean = cv__lab_anon_mean(s);
    const double n = (double)s->count;
    const double variance = (s->square_sum - n * mean * mean) / (n - 1);
    return Z99 * sqrt(variance > 0 ? variance / n : 0);
}

/* ---- Fig. 3 ---------------------------------------------------------------------------------- */

struct fig3 {
    struct cv_anon_sample overhead_ms, first_ms, asked, numbers;
};

/* The instant at which this node first had a leader; -1: never. */
static int64_t leader_since(const struct sim_world *w, cv_id node)
{
    for (uint32_t i = 0; i < w->history.view_count; i++) {
        if (w->history.view[i].node == node && w->history.view[i].leader != CV_ID_NONE) {
            return w->history.view[i].at_ns;
        }
    }
    return -1;
}

static const struct sim_world_options with_history = {.keeps_history = true};

static void measure_fig3(struct sim_scenario *scenario, uint64_t seed, struct fig3 *f)
{
    struct sim_world *w = cv__lab_world(scenario, seed, &with_history);
    sim_world_run(w, scenario->run_ns);
    bool has_asked[CV_ANON_NODES] = {false};
    uint32_t asked = 0;
    for (uint32_t i = 0; i < w->history.ask_count; i++) {
        const struct sim_ask *ask = &w->history.ask[i];
        const int64_t led_ns = leader_since(w, ask->node);
        if (has_asked[ask->node - 1] || led_ns < ask->at_ns) {
            continue; /* only its first proposal counts */
        }
        has_asked[ask->node - 1] = true;
        asked++;
        cv__lab_anon_sample_add(&f->overhead_ms, (double)(led_ns - ask->at_ns) / 1e6);
    }
    cv__lab_anon_sample_add(&f->asked, asked);
    cv__lab_anon_sample_add(&f->numbers, (double)w->sequencer.number_count);
    cv__lab_anon_sample_add(&f->first_ms, (double)w->history.election[0].elected_ns / 1e6);
    sim_world_free(w);
    sim_scenario_free(scenario);
}

static struct fig3 fig3_of(int eta_ms, int eps_ms, uint32_t round_size, uint64_t runs)
{
    struct fig3 f = {0};
    for (uint64_t seed = 1; seed <= runs; seed++) {
        /* 11 has no factor in common with any R: the counter starts at every place of a round. */
        measure_fig3(cv__lab_scenario(
                         "protocol anon eta=%dms eps=%dms R=%u sequencer-time=10ms start=paper\n"
                         "nodes %d\nlink * delay %gms\n"
                         "sequencer delay %gms serial %gms boots none start %llu\nrun %dms\n",
                         eta_ms, eps_ms, round_size, NODES, NET_MS, PAR_MS, SEQ_MS,
                         (unsigned long long)(1000 + 11 * seed), 40 * eps_ms),
                     seed, &f);
    }
    return f;
}

static void run_fig3(const char *figure, int eta_ms, int eps_ms, uint64_t runs,
                     struct cv_table *table, struct cv_lab_report *report)
{
    double round_size[ROUND_MAX];
    double overhead[ROUND_MAX];
    for (uint32_t r = 1; r <= ROUND_MAX; r++) {
        const struct fig3 f = fig3_of(eta_ms, eps_ms, r, runs);
        round_size[r - 1] = r;
        overhead[r - 1] = cv__lab_anon_mean(&f.overhead_ms);
        cv__table_row(table, CV_NUMBER(r), CV_NUMBER(overhead[r - 1]),
                      CV_NUMBER(cv__lab_anon_interval(&f.overhead_ms)),
                      CV_NUMBER(cv__lab_anon_mean(&f.first_ms)),
                      CV_NUMBER(cv__lab_anon_interval(&f.first_ms)),
                      CV_NUMBER(cv__lab_anon_mean(&f.asked)),
                      CV_NUMBER(cv__lab_anon_mean(&f.numbers)));
    }
    cv__lab_report_table(report, table);
    const struct cv_line line = cv__lab_fit(round_size, overhead, ROUND_MAX);
    cv__lab_report_claim(
        report, CV_JUDGED(line.r_squared > 0.95 && line.slope > 0),
        "election time increases roughly as a linear function of the size of the round",
        "fig. %s: a line with %.2f ms for each number explains %.1f %%", figure, line.slope,
        100 * line.r_squared);
}

/* ---- Eq. 1 ----------------------------------------------------------------------------------- */

#define RESIGN_MS 3000

/* The time from the resignation to the next leader. Above eps: the round elected the process that
 * had resigned, and another round was needed. */
static double measure_eq1(uint32_t r, uint64_t seed)
{
    struct sim_scenario *scenario = cv__lab_scenario(
        "protocol anon eta=50ms eps=150ms R=%u sequencer-time=10ms\nnodes %d\n"
        "link * delay %gms\nsequencer delay %gms serial %gms boots none start %llu\n"
        "at %dms resign leader\nrun %dms\n",
        r, NODES + 1, NET_MS, PAR_MS, SEQ_MS, (unsigned long long)(1000 + seed), RESIGN_MS,
        RESIGN_MS + 2000);
    struct sim_world *w = cv__lab_world(scenario, seed, &with_history);
    sim_world_run(w, scenario->run_ns);
    double took_ms = INFINITY;
    for (uint32_t i = 0; i < w->history.election_count; i++) {
        if (w->history.election[i].fault_ns == RESIGN_MS * NS_PER_MS &&
            w->history.election[i].elected_ns >= 0) {
            took_ms = (double)w->history.election[i].elected_ns / 1e6 - RESIGN_MS;
        }
    }
    sim_world_free(w);
    sim_scenario_free(scenario);
    return took_ms;
}

static void run_eq1(uint64_t runs, struct cv_table *table, struct cv_lab_report *report)
{
    bool all_agree = true;
    for (uint32_t r = 1; r <= ROUND_MAX; r++) {
        struct cv_anon_sample took = {0};
        uint64_t again = 0;
        for (uint64_t seed = 1; seed <= runs; seed++) {
            const double ms = measure_eq1(r, seed);
            if (ms < 150) {
                cv__lab_anon_sample_add(&took, ms);
            } else {
                again++;
            }
        }
        const double said_ms = 2 * NET_MS + PAR_MS + r * SEQ_MS;
        /* With few runs the longest possible election may be missing; none may be longer. */
        const bool agrees = took.max < said_ms + 0.05 && took.max > said_ms - SEQ_MS - 0.05;
        all_agree = all_agree && agrees;
        cv__table_row(table, CV_NUMBER(r), CV_NUMBER(said_ms), CV_NUMBER(took.max),
                      CV_NUMBER(cv__lab_anon_mean(&took)), CV_NUMBER(cv__lab_anon_interval(&took)),
                      CV_NUMBER((double)again), CV_TEXT(agrees ? "agrees" : "DISAGREES"));
    }
    cv__lab_report_table(report, table);
    cv__lab_report_claim(
        report, CV_JUDGED(all_agree), "Eq. 1: t_par + R t_seq + t_net after eps/2", "%s",
        all_agree ? "the longest election takes that time and one broadcast" : "no: see the table");
}

/* ---- The experiment -------------------------------------------------------------------------- */

#define FIG3_COLUMNS                                                                 \
    {                                                                                \
        {"R", 3, 0, false}, {"overhead_ms", 11, 2, false}, {"ci99_ms", 8, 2, false}, \
            {"first_leader_ms", 15, 2, false}, {"first_ci99_ms", 13, 2, false},      \
            {"proposers", 9, 1, false}, {"numbers", 8, 1, false},                    \
    }

static bool plot_fig3(const struct cv_table *fast, const struct cv_table *slow, const char *folder)
{
    static const char name[] = "anon-overhead";
    FILE *script = cv__plot_open(folder, name);
    if (script == NULL) {
        return false;
    }
    cv__plot_table(script, fast);
    cv__plot_table(script, slow);
    (void)fputs("set title 'Election overhead over the size of rounds, 99 % confidence'\n"
                "set xlabel 'R, numbers of a round'\nset ylabel 'ms'\nset key left top\n"
                "set xrange [0:10.5]\nset yrange [0:65]\n"
                "plot $fig3a using 1:2:3 title 'eta = 10 ms, eps = 30 ms' with yerrorlines "
                "linetype 1 pointtype 7, \\\n"
                "  $fig3b using 1:2:3 title 'eta = 50 ms, eps = 150 ms' with yerrorlines "
                "linetype 2 pointtype 4\n",
                script);
    return cv__plot_close(script, name);
}

int cv__lab_anon(int argc, char **argv)
{
    struct cv_lab_options settings;
    if (!cv__lab_options_read(argc, argv, "anon", "lL", 2, 100000, &settings)) {
        return EXIT_USAGE;
    }
    const uint64_t runs = settings.run_count > 0 ? settings.run_count : 300;
    if (settings.live != NULL) {
        const struct cv_anon_live live = {settings.live, runs, settings.folder, settings.is_json};
        return cv__lab_anon_live(&live);
    }
    const bool draws = settings.folder != NULL && cv__plot_can();
    struct cv_table fast = {
        .name = "fig3a", .about = "Fig. 3a: eta = 10 ms, eps = 30 ms", .column = FIG3_COLUMNS};
    struct cv_table slow = {
        .name = "fig3b", .about = "Fig. 3b: eta = 50 ms, eps = 150 ms", .column = FIG3_COLUMNS};
    struct cv_table eq1 = {
        .name = "eq1",
        .about = "Eq. 1 without its eps/2: the leader resigns, and all processes ask at once.\n"
                 "again: how often the process that had resigned was elected again",
        .column = {{"R", 3, 0, false},
                   {"eq1_ms", 8, 2, false},
                   {"longest_ms", 10, 2, false},
                   {"mean_ms", 8, 2, false},
                   {"ci99_ms", 8, 2, false},
                   {"again", 6, 0, false},
                   {"verdict", 9, 0, true}},
    };
    struct cv_lab_report report = {.experiment = "anon", .is_json = settings.is_json};
    cv__lab_report_begin(
        &report, "The measurements of [Wiesmann07, sec. 7] with `anon` in the simulator: ten "
                 "processes,\nbroadcasts of 0.15 ms, and a sequencer that takes 5 ms in parallel "
                 "and 5 ms one after\nthe other, like the paper's second switch.");
    run_fig3("3a", 10, 30, runs, &fast, &report);
    run_fig3("3b", 50, 150, runs, &slow, &report);
    run_eq1(runs, &eq1, &report);
    int status = cv__lab_report_end(&report);
    if (draws && !plot_fig3(&fast, &slow, settings.folder)) {
        status = EXIT_USAGE;
    }
    cv__table_fini(&fast);
    cv__table_fini(&slow);
    cv__table_fini(&eq1);
    return status;
}
