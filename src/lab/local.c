/* src/lab/local.c - `conclave lab local`: the measurements of [Fetzer99, sec. XI], repeated with
 * `local` in the simulator, and with more processes than the paper measured.
 *
 * local_run.h says what is fitted and what is assumed. A claim of the paper, or of ours, is judged
 * only if a measurement can contradict it; its bounds are in the code beside it. The exit status is
 * 1 if a claim is contradicted. */
#include "lab/local.h"

#include "base/command.h"
#include "lab/local_run.h"

#include <math.h>
#include <string.h>

struct settings {
    uint64_t run_count; /* runs of each case in which a leader is lost */
    uint32_t election_count;
    uint32_t tree_rounds;
    bool is_tiny;
};

/* Without samples the result is not known: a failed experiment is reported as failed. */
static double mean(const struct cv_samples *s)
{
    return s->count > 0 ? cv__samples_mean(s) : NAN;
}

static double percentile(struct cv_samples *s, double percent)
{
    return s->count > 0 ? cv__samples_percentile(s, percent) : NAN;
}

/* ---- 1. Election time ------------------------------------------------------------------------ */

/* [Fetzer99, figs. 25 and 26] show about 3 ms for one process and about 7 ms for eight, and a
 * straight line between them. The figures themselves give no numbers. */
#define PAPER_SIZES 8u

static double paper_election_ms(uint32_t n)
{
    return n <= PAPER_SIZES ? 3 + (n - 1) * 4.0 / 7 : NAN;
}

#define HISTOGRAM_STEP_MS 0.1
#define HISTOGRAM_BINS 80u

struct histogram {
    double share[4][HISTOGRAM_BINS]; /* for 2, 4, 6 and 8 processes */
};

static void count_bins(struct histogram *h, uint32_t n, const struct cv_samples *s)
{
    if (n > PAPER_SIZES || n % 2 != 0) {
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const double bin = floor(s->value[i] / HISTOGRAM_STEP_MS);
        h->share[n / 2 - 1][bin < HISTOGRAM_BINS ? (uint32_t)bin : HISTOGRAM_BINS - 1] +=
            100.0 / s->count;
    }
}

static void measure_election(const struct settings *settings, struct cv_lab_local *l,
                             struct cv_lab_report *report)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256};
    const uint32_t size_count = settings->is_tiny ? 10 : COUNT_OF(sizes);
    struct histogram histogram = {0};
    double x[COUNT_OF(sizes)];
    double y[COUNT_OF(sizes)];
    double off_max = 0;
    bool all_kept = true;
    for (uint32_t i = 0; i < size_count; i++) {
        const uint32_t n = sizes[i];
        const uint32_t fewer = n > PAPER_SIZES ? n / PAPER_SIZES : 1;
        const uint32_t count = settings->election_count / fewer;
        const struct cv_lab_rounds rounds = {
            .node_count = n, .round_count = count > 50 ? count : 50, .is_scaled = true};
        struct cv_lab_stable s;
        cv__lab_measure_stable(&rounds, &s);
        all_kept = all_kept && s.is_kept && s.is_sound;
        x[i] = n;
        y[i] = mean(&s.election_ms);
        if (n > 1 && n <= PAPER_SIZES) {
            const double off = fabs(y[i] - paper_election_ms(n));
            off_max = isnan(off_max) || off <= off_max ? off_max : off; /* NAN stays */
        }
        count_bins(&histogram, n, &s.election_ms);
        cv__table_row(&l->election, CV_NUMBER(n), CV_NUMBER(paper_election_ms(n)), CV_NUMBER(y[i]),
                      CV_NUMBER(percentile(&s.election_ms, 99)),
                      CV_NUMBER(percentile(&s.election_ms, 100)),
                      CV_NUMBER(cv__lab_delta_ms(&rounds)), CV_NUMBER(s.election_ms.count));
        cv__lab_stable_fini(&s);
    }
    for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
        cv__table_row(&l->histogram, CV_NUMBER((bin + 0.5) * HISTOGRAM_STEP_MS),
                      CV_NUMBER(histogram.share[0][bin]), CV_NUMBER(histogram.share[1][bin]),
                      CV_NUMBER(histogram.share[2][bin]), CV_NUMBER(histogram.share[3][bin]));
    }
    cv__lab_report_table(report, &l->election);

    const struct cv_line few = cv__lab_fit(x + 1, y + 1, PAPER_SIZES - 1);
    const struct cv_line many = cv__lab_fit(x + 1, y + 1, size_count - 1);
    cv__lab_report_claim(report, CV_JUDGED(off_max <= 1),
                         "up to 8 processes an election takes about 3 to 7 ms (figs. 25, 26)",
                         "2 to 8 processes: %.1f to %.1f ms, within %.1f ms of the paper's line",
                         y[1], y[PAPER_SIZES - 1], off_max);
    cv__lab_report_claim(report, CV_JUDGED(few.r_squared >= 0.99 && many.r_squared >= 0.99),
                         "the election time grows linearly with the number of processes",
                         "%.2f ms per process up to 8 (R^2 %.4f), %.2f ms up to %.0f (R^2 %.4f)",
                         few.slope, few.r_squared, many.slope, x[size_count - 1], many.r_squared);
    cv__lab_report_claim(report, CV_TOLD, "one process alone takes about 3 ms",
                         "%.1f ms: ours needs no message to itself", y[0]);
    cv__lab_report_claim(
        report, CV_JUDGED(all_kept),
        "in a stable partition the leader renews its leadership before it ends", "%s",
        all_kept ? "in every round, with every number of processes" : "not always");
}

/* ---- 2. A new leader ------------------------------------------------------------------------- */

/* The paper does not print its lockTime, but bounds it by EP: it ends long before a process is
 * excluded. A lock of 130 ms does, too, and leaves time for two renewals. */
#define SHORT_LOCK "lock=130ms"
#define SHORT_LOCK_MS 130.0
#define LONG_LOCK_MS 390.0 /* the default with the paper's other constants */

static const struct loss_case {
    const char *fault_name, *lock_name, *succession;
    struct cv_lab_loss loss;
} loss_cases[] = {
    {"split", "130ms", "no", {CV_LAB_SPLIT, SHORT_LOCK " succession=no"}},
    {"split", "130ms", "yes", {CV_LAB_SPLIT, SHORT_LOCK " succession=yes"}},
    {"split", "390ms", "no", {CV_LAB_SPLIT, "succession=no"}},
    {"split", "390ms", "yes", {CV_LAB_SPLIT, "succession=yes"}},
    {"crash", "130ms", "no", {CV_LAB_CRASH, SHORT_LOCK " succession=no"}},
    {"crash", "130ms", "yes", {CV_LAB_CRASH, SHORT_LOCK " succession=yes"}},
    {"crash", "390ms", "no", {CV_LAB_CRASH, "succession=no"}},
    {"crash", "390ms", "yes", {CV_LAB_CRASH, "succession=yes"}},
    {"hint", "130ms", "no", {CV_LAB_HINT, SHORT_LOCK " succession=no"}},
    {"hint", "130ms", "yes", {CV_LAB_HINT, SHORT_LOCK " succession=yes"}},
    {"hint", "390ms", "no", {CV_LAB_HINT, "succession=no"}},
    {"hint", "390ms", "yes", {CV_LAB_HINT, "succession=yes"}},
    {"certain", "130ms", "no", {CV_LAB_CERTAIN, SHORT_LOCK " succession=no"}},
    {"certain", "130ms", "yes", {CV_LAB_CERTAIN, SHORT_LOCK " succession=yes"}},
    {"certain", "390ms", "no", {CV_LAB_CERTAIN, "succession=no"}},
    {"certain", "390ms", "yes", {CV_LAB_CERTAIN, "succession=yes"}},
};

enum { CASE_SPLIT = 0, CASE_SPLIT_ORDER = 1, CASE_CRASH_ORDER = 5, CASE_HINT = 8 };
enum { CASE_HINT_LONG = 10, CASE_CERTAIN = 12, CASE_CERTAIN_ORDER = 13 };

struct loss_samples {
    struct cv_samples excluded_ms, elected_ms, after_ms, followed_ms, attempts, gap_ms;
    uint32_t first_try_count; /* the new leader's first attempt was the one that succeeded */
    uint32_t failed_count;    /* no leader within a second, or a broken promise */
};

static void measure_case(const struct loss_case *c, uint64_t run_count, struct loss_samples *s)
{
    for (uint64_t seed = 1; seed <= run_count; seed++) {
        const struct cv_lab_recovery r = cv__lab_measure_loss(&c->loss, seed);
        if (!r.is_sound || r.elected_ms < 0 || r.followed_ms < 0) {
            s->failed_count++;
            continue;
        }
        cv__samples_add(&s->excluded_ms, r.excluded_ms);
        cv__samples_add(&s->elected_ms, r.elected_ms);
        cv__samples_add(&s->after_ms, r.elected_ms - r.excluded_ms);
        cv__samples_add(&s->followed_ms, r.followed_ms);
        cv__samples_add(&s->attempts, r.attempts);
        cv__samples_add(&s->gap_ms, r.gap_ms);
        s->first_try_count += r.attempts == 1;
    }
}

/* [Fetzer99, sec. XI, fig. 27] */
static void claim_split(struct cv_lab_report *report, struct loss_samples *s)
{
    struct loss_samples *split = &s[CASE_SPLIT];
    const double least = percentile(&split->excluded_ms, 0);
    const double most = percentile(&split->excluded_ms, 100);
    const double half = percentile(&split->after_ms, 50);
    const double nearly_all = percentile(&split->after_ms, 99);
    const bool is_by_expires = least >= CV_LAB_EXPIRES_MS - CV_LAB_EP_MS - CV_LAB_DELTA_MS &&
                               most <= CV_LAB_EXPIRES_MS + CV_LAB_DELTA_MS;
    cv__lab_report_claim(
        report, CV_JUDGED(is_by_expires),
        "after a split the others are excluded 230 ms (expires) after they were last "
        "heard (fig. 27)",
        "%.0f to %.0f ms after the split; the last ELECTION is up to EP old then", least, most);
    cv__lab_report_claim(report, CV_JUDGED(2 * split->first_try_count < split->elected_ms.count),
                         "the first attempt after a split typically fails",
                         "it succeeded in %u of %u runs", split->first_try_count,
                         split->elected_ms.count);
    cv__lab_report_claim(report, CV_JUDGED(nearly_all <= CV_LAB_EP_MS + 2 * CV_LAB_DELTA_MS),
                         "the next attempt, an election period later, generally succeeds",
                         "a new leader %.0f ms after the exclusion (median; 99 %%: %.0f ms)", half,
                         nearly_all);
    cv__lab_report_claim(report, CV_TOLD, "the successful attempt is the second",
                         "%.2f attempts on average; in id order %.2f", mean(&split->attempts),
                         mean(&s[CASE_SPLIT_ORDER].attempts));
}

static void claim_ours(struct cv_lab_report *report, struct loss_samples *s)
{
    const double attempts = percentile(&s[CASE_CRASH_ORDER].attempts, 100);
    cv__lab_report_claim(report, CV_JUDGED(attempts <= 2),
                         "ours: in id order, the heir of a crashed leader needs no third attempt",
                         "at most %.0f attempts; all at once: %.2f on average", attempts,
                         mean(&s[CASE_CRASH_ORDER - 1].attempts));
    cv__lab_report_claim(
        report, CV_TOLD,
        "ours: id order gains nothing in a split, where lower ids are alive but out of "
        "reach",
        "%.0f instead of %.0f ms on average", mean(&s[CASE_SPLIT_ORDER].elected_ms),
        mean(&s[CASE_SPLIT].elected_ms));
    const double slack_ms = CV_LAB_EP_MS + 2 * CV_LAB_DELTA_MS;
    const double hint = percentile(&s[CASE_HINT].elected_ms, 50);
    const double hint_long = percentile(&s[CASE_HINT_LONG].elected_ms, 50);
    cv__lab_report_claim(
        report, CV_JUDGED(hint <= SHORT_LOCK_MS + slack_ms && hint_long <= LONG_LOCK_MS + slack_ms),
        "ours: a hint saves the wait for the exclusion, but not for the locks",
        "median %.0f ms with a lock of 130 ms, %.0f ms with 390 ms", hint, hint_long);
    const double least = percentile(&s[CASE_SPLIT].excluded_ms, 0);
    const double certain = percentile(&s[CASE_CERTAIN].elected_ms, 50);
    const double certain_order = percentile(&s[CASE_CERTAIN_ORDER].elected_ms, 50);
    cv__lab_report_claim(report, CV_JUDGED(certain < least && certain_order < least),
                         "ours: a certain hint saves both waits",
                         "median %.0f ms, in id order %.0f ms", certain, certain_order);
}

static void measure_losses(const struct settings *settings, struct cv_lab_local *l,
                           struct cv_lab_report *report)
{
    struct loss_samples samples[COUNT_OF(loss_cases)] = {0};
    uint32_t failed_count = 0;
    for (uint32_t i = 0; i < COUNT_OF(loss_cases); i++) {
        const struct loss_case *c = &loss_cases[i];
        struct loss_samples *s = &samples[i];
        measure_case(c, settings->run_count, s);
        failed_count += s->failed_count;
        const bool is_split = c->loss.fault == CV_LAB_SPLIT;
        cv__table_row(&l->new_leader, CV_TEXT(c->fault_name), CV_TEXT(c->lock_name),
                      CV_TEXT(c->succession), CV_NUMBER(mean(&s->excluded_ms)),
                      CV_NUMBER(mean(&s->elected_ms)), CV_NUMBER(percentile(&s->elected_ms, 50)),
                      CV_NUMBER(percentile(&s->elected_ms, 99)),
                      CV_NUMBER(percentile(&s->elected_ms, 100)), CV_NUMBER(mean(&s->followed_ms)),
                      CV_NUMBER(mean(&s->attempts)), CV_NUMBER(is_split ? mean(&s->gap_ms) : NAN),
                      CV_NUMBER(s->elected_ms.count));
    }
    cv__lab_report_table(report, &l->new_leader);
    cv__lab_report_claim(report, CV_JUDGED(failed_count == 0),
                         "no run breaks a promise, and each has a new leader within a second",
                         "%u runs failed", failed_count);
    if (failed_count == 0) { /* otherwise some case may have no samples */
        for (uint32_t percent = 0; percent <= 100; percent++) {
            struct cv_cell row[1 + COUNT_OF(loss_cases)] = {CV_NUMBER(percent)};
            for (uint32_t i = 0; i < COUNT_OF(loss_cases); i++) {
                row[i + 1] = CV_NUMBER(percentile(&samples[i].elected_ms, percent));
            }
            cv__table_add(&l->waits, row, COUNT_OF(row));
        }
        claim_split(report, samples);
        claim_ours(report, samples);
    }
    for (uint32_t i = 0; i < COUNT_OF(loss_cases); i++) {
        struct loss_samples *s = &samples[i];
        struct cv_samples *const all[] = {&s->excluded_ms, &s->elected_ms, &s->after_ms,
                                          &s->followed_ms, &s->attempts,   &s->gap_ms};
        for (uint32_t j = 0; j < COUNT_OF(all); j++) {
            cv__samples_fini(all[j]);
        }
    }
}

/* ---- 3. Direct answers against trees --------------------------------------------------------- */

static const uint32_t trees[] = {0, 2, 3, 4, 8, 16, 32}; /* 0: direct */
#define TREE_COUNT COUNT_OF(trees)

/* The saving of the tree with the shortest election time, as a share of the time with direct
 * answers. */
struct gain {
    uint32_t n, tree;
    double share;
};

static struct gain measure_size(const struct settings *settings, struct cv_lab_local *l, uint32_t n,
                                bool *all_kept)
{
    double time_ms[TREE_COUNT];
    double root[TREE_COUNT];
    uint32_t best = 1;
    for (uint32_t i = 0; i < TREE_COUNT; i++) {
        const struct cv_lab_rounds rounds = {.node_count = n,
                                             .collate = trees[i],
                                             .round_count = settings->tree_rounds,
                                             .is_scaled = true};
        struct cv_lab_stable s;
        cv__lab_measure_stable(&rounds, &s);
        *all_kept = *all_kept && s.is_kept && s.is_sound;
        time_ms[i] = mean(&s.election_ms);
        root[i] = s.broadcasts > 0 ? (double)s.root_received / (double)s.broadcasts : NAN;
        best = i > 0 && time_ms[i] < time_ms[best] ? i : best;
        cv__lab_stable_fini(&s);
    }
    const struct gain gain = {n, trees[best], 1 - time_ms[best] / time_ms[0]};
    cv__table_row(&l->collation, CV_NUMBER(n), CV_NUMBER(time_ms[0]), CV_NUMBER(time_ms[1]),
                  CV_NUMBER(time_ms[2]), CV_NUMBER(time_ms[3]), CV_NUMBER(time_ms[4]),
                  CV_NUMBER(time_ms[5]), CV_NUMBER(time_ms[6]), CV_NUMBER(gain.tree),
                  CV_NUMBER(100 * gain.share), CV_NUMBER(root[0]), CV_NUMBER(root[best]));
    return gain;
}

static uint32_t begins_at(const struct gain *gain, uint32_t count, double share)
{
    for (uint32_t i = 0; i < count; i++) {
        bool stays = true;
        for (uint32_t j = i; j < count; j++) {
            stays = stays && round(1000 * gain[j].share) >= 1000 * share; /* as printed */
        }
        if (stays) {
            return gain[i].n;
        }
    }
    return 0;
}

static void measure_collation(const struct settings *settings, struct cv_lab_local *l,
                              struct cv_lab_report *report)
{
    static const uint32_t sizes[] = {4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128, 256, 512, 1024};
    const uint32_t size_count = settings->is_tiny ? 9 : COUNT_OF(sizes);
    struct gain gain[COUNT_OF(sizes)];
    bool all_kept = true;
    double at_paper = 0;
    for (uint32_t i = 0; i < size_count; i++) {
        gain[i] = measure_size(settings, l, sizes[i], &all_kept);
        at_paper = sizes[i] == PAPER_SIZES ? gain[i].share : at_paper;
    }
    cv__lab_report_table(report, &l->collation);
    const struct gain *last = &gain[size_count - 1];
    cv__lab_report_claim(report, CV_JUDGED(at_paper <= 0.2),
                         "with 8 processes collating the answers is not worth the effort "
                         "(fig. 29)",
                         "the best tree saves %.0f %%", 100 * at_paper);
    cv__lab_report_claim(report, CV_JUDGED(all_kept && last->share >= 0.5),
                         "with many processes it could shorten elections significantly",
                         "with %u processes a tree of %u saves %.1f %%", last->n, last->tree,
                         100 * last->share);
    cv__lab_report_claim(
        report, CV_TOLD, "the paper does not say from which number of processes on",
        "from %u processes on it saves 10 %%, from %u on a quarter, from %u on half",
        begins_at(gain, size_count, 0.1), begins_at(gain, size_count, 0.25),
        begins_at(gain, size_count, 0.5));
}

/* With this number of processes and the paper's Delta, does the leader renew in every round? */
static bool is_reached(uint32_t n, uint32_t tree, uint32_t round_count, double *ret_ms)
{
    const struct cv_lab_rounds rounds = {
        .node_count = n, .collate = tree, .round_count = round_count};
    struct cv_lab_stable s;
    cv__lab_measure_stable(&rounds, &s);
    const bool is_kept = s.is_kept && s.is_sound;
    if (is_kept) {
        *ret_ms = percentile(&s.election_ms, 100);
    }
    cv__lab_stable_fini(&s);
    return is_kept;
}

static void measure_reach(const struct settings *settings, struct cv_lab_local *l,
                          struct cv_lab_report *report)
{
    static const char *const names[TREE_COUNT] = {
        "direct", "tree of 2", "tree of 3", "tree of 4", "tree of 8", "tree of 16", "tree of 32"};
    const uint32_t limit = settings->is_tiny ? 32 : 256;
    uint32_t reach[TREE_COUNT];
    for (uint32_t i = 0; i < TREE_COUNT; i++) {
        uint32_t can = 1;
        uint32_t cannot = limit + 1;
        double longest_ms = NAN;
        for (uint32_t n = 8; n <= limit && cannot > limit; n *= 2) {
            if (is_reached(n, trees[i], settings->tree_rounds, &longest_ms)) {
                can = n;
            } else {
                cannot = n;
            }
        }
        while (can + 1 < cannot && can < limit) {
            const uint32_t n = can + (cannot - can) / 2;
            if (is_reached(n, trees[i], settings->tree_rounds, &longest_ms)) {
                can = n;
            } else {
                cannot = n;
            }
        }
        reach[i] = can;
        cv__table_row(&l->reach, CV_TEXT(names[i]), CV_NUMBER(can), CV_NUMBER(longest_ms),
                      CV_TEXT(can == limit ? "largest number tried" : ""));
    }
    cv__lab_report_table(report, &l->reach);
    cv__lab_report_claim(
        report, CV_JUDGED(reach[3] > reach[0]),
        "ours: with a given Delta a tree serves more processes, because each message "
        "waits for few others",
        "direct answers up to %u processes, a tree of 4 up to %u%s", reach[0], reach[3],
        reach[3] == limit ? " and more" : "");
}

/* ---- 4. Messages in the stable state --------------------------------------------------------- */

static void measure_stable(const struct settings *settings, struct cv_lab_local *l,
                           struct cv_lab_report *report)
{
    static const uint32_t sizes[] = {2, 4, 8, 16, 32, 64};
    const uint32_t size_count = settings->is_tiny ? 4 : COUNT_OF(sizes);
    bool all_agree = true;
    for (uint32_t i = 0; i < size_count; i++) {
        const uint32_t n = sizes[i];
        const struct cv_lab_rounds rounds = {
            .node_count = n, .round_count = settings->is_tiny ? 20 : 1000, .is_scaled = true};
        struct cv_lab_stable s;
        cv__lab_measure_stable(&rounds, &s);
        const uint64_t copies = s.broadcasts * (n - 1);
        const bool is_ok = s.is_kept && s.is_sound && s.broadcasts == rounds.round_count &&
                           s.election_copies == copies && s.replies == copies && s.collated == 0 &&
                           s.others == 0;
        all_agree = all_agree && is_ok;
        const double per_round = 1.0 / rounds.round_count;
        cv__table_row(&l->stable, CV_NUMBER(n), CV_NUMBER(rounds.round_count), CV_NUMBER(1),
                      CV_NUMBER((double)s.broadcasts * per_round), CV_NUMBER(n - 1),
                      CV_NUMBER((double)s.replies * per_round),
                      CV_NUMBER((double)(s.others + s.collated) * per_round),
                      CV_TEXT(is_ok ? "agrees" : "DISAGREES"));
        cv__lab_stable_fini(&s);
    }
    cv__lab_report_table(report, &l->stable);
    cv__lab_report_claim(report, CV_JUDGED(all_agree),
                         "a round in the stable state is one broadcast and n-1 unicast messages",
                         "%s", all_agree ? "exactly, in every round" : "no: see the table");
}

/* ---- The experiment -------------------------------------------------------------------------- */

static struct settings settings_of(const struct cv_lab_options *options)
{
    const uint64_t run_count = options->run_count > 0 ? options->run_count
                               : options->is_tiny     ? 10
                                                      : 1000;
    return (struct settings){.run_count = run_count,
                             .election_count = 10 * (uint32_t)run_count,
                             .tree_rounds = options->is_tiny ? 20 : 60,
                             .is_tiny = options->is_tiny};
}

int cv__lab_local(int argc, char **argv)
{
    struct cv_lab_options options;
    if (!cv__lab_options_read(argc, argv, "local", "t", 1, 100000, &options)) {
        return EXIT_USAGE;
    }
    const struct settings settings = settings_of(&options);
    const bool draws = options.folder != NULL && cv__plot_can();
    struct cv_lab_local l = cv__lab_local_empty;
    for (uint32_t i = 0; i < COUNT_OF(loss_cases); i++) {
        l.waits.column[i + 1].name = loss_cases[i].fault_name; /* plots use their positions */
    }
    struct cv_lab_report report = {.experiment = "local", .is_json = options.is_json};
    cv__lab_report_begin(&report,
                         "The measurements of [Fetzer99, sec. XI] with `local`: " CV_LAB_PAPER ".\n"
                         "Model: delays of 1 ms (normal, deviation 0.15 ms), and " CV_LAB_COST
                         " of a receiver's time for each\nmessage. Only this cost is fitted to the "
                         "paper's election times.");
    measure_election(&settings, &l, &report);
    measure_losses(&settings, &l, &report);
    measure_collation(&settings, &l, &report);
    measure_reach(&settings, &l, &report);
    measure_stable(&settings, &l, &report);
    int status = cv__lab_report_end(&report);
    if (draws && !cv__lab_local_plot(&l, options.folder)) {
        status = EXIT_USAGE;
    }
    struct cv_table *const tables[] = {&l.election,  &l.histogram, &l.new_leader, &l.waits,
                                       &l.collation, &l.reach,     &l.stable};
    for (uint32_t i = 0; i < COUNT_OF(tables); i++) {
        cv__table_fini(tables[i]);
    }
    return status;
}
