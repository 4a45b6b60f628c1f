/* src/lab/pole.c - `conclave lab pole`: the evaluation of [Becker11, sec. 4], repeated with
 * `pole` and the service of the simulator.
 *
 * pole_run.h and sim/service.h say what is modelled and what is fitted. Every figure that the paper
 * prints is judged, together with the elected server; the exit status is 1 if one differs. The
 * paper treats scores that differ only by noise as equal and then elects the larger id. So
 * `consensus` and `worst-case` have an equivalence range of 5 ms here. */
#include "lab/pole.h"

#include "base/command.h"
#include "lab/pole_run.h"

#include <math.h>
#include <string.h>

struct settings {
    uint64_t run_count, setting_count; /* runs of each case; number of random settings */
    bool is_tiny;
};

struct lab {
    struct settings settings;
    struct cv_lab_pole pole;
    struct cv_lab_report report;
    uint32_t figure_count, agree_count;
    bool is_sound; /* every run elected a leader and kept every promise */
};

#define SLAC_CALTECH 9.88
#define TUD_CERN 20.75
#define SLAC_FNAL 53.26
#define CALTECH_FNAL 77.06

enum oracle { HISTORY, ROTATING, CONSENSUS, WORST_CASE, REQUEST, LATENCY, RECOVERY, ORACLE_COUNT };
static const struct {
    const char *name, *option;
} oracles[ORACLE_COUNT] = {
    [HISTORY] = {"history", "history"},           [ROTATING] = {"rotating", "rotating"},
    [CONSENSUS] = {"consensus", "consensus/5ms"}, [WORST_CASE] = {"worst-case", "worst-case/5ms"},
    [REQUEST] = {"request", "request"},           [LATENCY] = {"latency", "latency"},
    [RECOVERY] = {"recovery", "recovery"},
};

/* ---- Networks -------------------------------------------------------------------------------- */

/* [fig. 4a] D1 = {1,2}, D2 = {3,4,5}. */
static struct cv_lab_wan two_sites(double rtt_ms, double share_d2)
{
    struct cv_lab_wan wan = {.server_count = 5, .site_count = 2, .first = 5};
    for (cv_id id = 1; id <= 5; id++) {
        wan.site[id] = id <= 2 ? 1 : 2;
    }
    wan.rtt_ms[1][2] = rtt_ms;
    wan.share[1] = 1 - share_d2;
    wan.share[2] = share_d2;
    return wan;
}

/* [fig. 5] D1 = {4,5}, D2 = {2,3}, D3 = {1}. */
static struct cv_lab_wan three_sites(double d1_d2_ms, double d2_d3_ms, double d1_d3_ms)
{
    struct cv_lab_wan wan = {.server_count = 5, .site_count = 3, .first = 5};
    for (cv_id id = 1; id <= 5; id++) {
        wan.site[id] = id >= 4 ? 1 : id >= 2 ? 2 : 3;
    }
    wan.rtt_ms[1][2] = d1_d2_ms;
    wan.rtt_ms[2][3] = d2_d3_ms;
    wan.rtt_ms[1][3] = d1_d3_ms;
    for (uint32_t site = 1; site <= 3; site++) {
        wan.share[site] = 1.0 / 3;
    }
    return wan;
}

/* [Table 3] */
static struct cv_lab_wan deployment(uint32_t number)
{
    switch (number) {
    case 1: /* caltech, slac, fnal */
        return three_sites(SLAC_CALTECH, SLAC_FNAL, CALTECH_FNAL);
    case 2: /* slac, caltech, fnal */
        return three_sites(SLAC_CALTECH, CALTECH_FNAL, SLAC_FNAL);
    default: /* slac, fnal, caltech */
        return three_sites(SLAC_FNAL, CALTECH_FNAL, SLAC_CALTECH);
    }
}

#define ANY 0u
#define P(id) (1u << (id))

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Means over the runs that elected the server that most runs elected. */
struct summary {
    cv_id leader;
    uint32_t elected; /* bits P(id) of the servers elected in any run */
    uint32_t run_count, leader_count;
    struct cv_lab_outcome mean;
};

static void add_outcome(struct cv_lab_outcome *sum, const struct cv_lab_outcome *o, double weight)
{
    sum->before_ms += weight * o->before_ms;
    sum->mean_ms += weight * o->mean_ms;
    sum->worst_ms += weight * o->worst_ms;
    sum->consensus_ms += weight * o->consensus_ms;
    sum->elected_ms += weight * o->elected_ms;
    sum->recovery_ms += weight * o->recovery_ms;
    for (uint32_t site = 1; site <= CV_LAB_SITES_MAX; site++) {
        sum->site_ms[site] += weight * o->site_ms[site];
    }
}

#define RUNS_MAX 100u

static struct summary run_case(struct lab *lab, struct cv_lab_setting setting, enum oracle oracle)
{
    struct cv_lab_outcome outcome[RUNS_MAX];
    uint32_t count[CV_LAB_SERVERS_MAX + 1] = {0};
    struct summary s = {.run_count = (uint32_t)lab->settings.run_count};
    setting.oracle = setting.preference != NULL ? "preference" : oracles[oracle].option;
    setting.goes_round = setting.preference == NULL && oracle == ROTATING;
    for (uint32_t run = 0; run < s.run_count; run++) {
        outcome[run] = cv__lab_pole_run(&setting, run + 1, NULL, NULL);
        count[outcome[run].leader]++;
        s.elected |= P(outcome[run].leader);
        lab->is_sound = lab->is_sound && outcome[run].is_sound;
    }
    for (cv_id id = 1; id <= CV_LAB_SERVERS_MAX; id++) {
        s.leader = count[id] >= count[s.leader] && count[id] > 0 ? id : s.leader;
    }
    s.leader_count = count[s.leader];
    for (uint32_t run = 0; run < s.run_count; run++) {
        if (outcome[run].leader == s.leader) {
            add_outcome(&s.mean, &outcome[run], 1.0 / s.leader_count);
        }
    }
    return s;
}

/* Latencies: the paper's times. One request in ten is simulated, because there are no queues. */
static struct cv_lab_setting latency_setting(const struct lab *lab, struct cv_lab_wan wan)
{
    return (struct cv_lab_setting){.wan = wan,
                                   .every = 10,
                                   .crash_s = lab->settings.is_tiny ? 25 : 60,
                                   .end_s = lab->settings.is_tiny ? 50 : 120};
}

static const char *server_text(struct lab *lab, const struct summary *s)
{
    if (s->leader_count == s->run_count) {
        return cv__lab_pole_text(&lab->pole, "p%u", s->leader);
    }
    return cv__lab_pole_text(&lab->pole, "p%u %u/%u", s->leader, s->leader_count, s->run_count);
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* `said`: the servers elected in the paper, bits P(id); ANY: it names none, or more than one. */
struct figure {
    const char *fig, *about;
    enum oracle oracle;
    uint32_t said;
    double paper;
    bool is_rounded; /* the paper rounds to tens */
};

static void judge(struct lab *lab, const struct figure *f, const struct summary *s, double measured)
{
    const double off = measured - f->paper;
    const bool is_close = f->is_rounded ? fabs(off) <= 5 : fabs(off) <= 0.1 * f->paper;
    const bool is_said = f->said == ANY || (s->elected & ~f->said) == 0;
    const bool agrees = is_close && is_said;
    char said[12] = "";
    for (cv_id id = 1; id <= 5; id++) {
        if ((f->said & P(id)) != 0) {
            const size_t length = strlen(said);
            (void)snprintf(said + length, sizeof said - length, "%sp%u", length > 0 ? "," : "", id);
        }
    }
    lab->figure_count++;
    lab->agree_count += agrees;
    cv__table_row(&lab->pole.figures, CV_TEXT(f->fig), CV_TEXT(f->about),
                  CV_TEXT(oracles[f->oracle].name),
                  CV_TEXT(cv__lab_pole_text(&lab->pole, "%s", said)), CV_TEXT(server_text(lab, s)),
                  CV_TEXT(f->is_rounded ? "~" : ""), CV_NUMBER(f->paper), CV_NUMBER(measured),
                  CV_NUMBER(100 * off / f->paper), CV_TEXT(agrees ? "agrees" : "DIFFERS"));
}

/* ---- Fig. 4b --------------------------------------------------------------------------------- */

#define BINS 120u
struct timeline {
    double sum_ms[2][BINS];
    uint32_t count[2][BINS];
};

static void count_request(void *context, const struct sim_request *r)
{
    struct timeline *t = context;
    const int64_t bin = r->arrived_ns / NS_PER_S;
    if (bin < BINS) {
        t->sum_ms[r->site - 1][bin] += (double)(r->done_ns - r->arrived_ns) / NS_PER_MS;
        t->count[r->site - 1][bin]++;
    }
}

static double bin_of(const struct timeline *t, uint32_t site, uint32_t bin)
{
    return t->count[site][bin] > 0 ? t->sum_ms[site][bin] / t->count[site][bin] : NAN;
}

static void measure_crash(struct lab *lab)
{
    static const enum oracle both[] = {HISTORY, ROTATING};
    static const uint32_t said[] = {P(4), P(1)};
    struct timeline timeline[2] = {0};
    for (uint32_t i = 0; i < COUNT_OF(both); i++) {
        struct cv_lab_setting setting = latency_setting(lab, two_sites(TUD_CERN, 0.5));
        const struct summary s = run_case(lab, setting, both[i]);
        judge(lab, &(struct figure){"4b", "two sites, before the crash", both[i], ANY, 10, true},
              &s, s.mean.before_ms);
        judge(lab, &(struct figure){"4b", "two sites, after it", both[i], said[i], 30, true}, &s,
              s.mean.mean_ms);
        setting.every = 1;
        setting.oracle = oracles[both[i]].option;
        setting.goes_round = both[i] == ROTATING;
        (void)cv__lab_pole_run(&setting, 1, count_request, &timeline[i]);
    }
    for (uint32_t bin = 0; bin < BINS; bin++) {
        cv__table_row(&lab->pole.timeline, CV_NUMBER(bin), CV_NUMBER(bin_of(&timeline[0], 0, bin)),
                      CV_NUMBER(bin_of(&timeline[0], 1, bin)),
                      CV_NUMBER(bin_of(&timeline[1], 0, bin)),
                      CV_NUMBER(bin_of(&timeline[1], 1, bin)));
    }
}

/* ---- Fig. 6 ---------------------------------------------------------------------------------- */

static void judge_leader(struct lab *lab, const struct summary *s)
{
    const struct cv_lab_outcome *o = &s->mean;
    judge(lab, &(struct figure){"6", "deployment 1, p4: requests at D1", HISTORY, P(4), 12, false},
          s, o->site_ms[1]);
    judge(lab, &(struct figure){"6", "deployment 1, p4: requests at D2", HISTORY, P(4), 22, false},
          s, o->site_ms[2]);
    judge(lab, &(struct figure){"6", "deployment 1, p4: requests at D3", HISTORY, P(4), 92, false},
          s, o->site_ms[3]);
    judge(lab, &(struct figure){"6", "deployment 1, p4: consensus", HISTORY, P(4), 12, false}, s,
          o->consensus_ms);
    judge(lab, &(struct figure){"6", "deployment 1, p4: mean", HISTORY, P(4), 42, false}, s,
          o->mean_ms);
}

static void measure_deployment(struct lab *lab, uint32_t number)
{
    static const enum oracle unaware[] = {HISTORY, ROTATING, CONSENSUS, WORST_CASE};
    struct cv_lab_setting setting = latency_setting(lab, deployment(number));
    char elected_by[6][64] = {""};
    for (uint32_t i = 0; i < COUNT_OF(unaware); i++) {
        const struct summary s = run_case(lab, setting, unaware[i]);
        char *text = elected_by[s.leader];
        const size_t length = strlen(text);
        (void)snprintf(text + length, sizeof elected_by[0] - length, "%s%s", length > 0 ? " " : "",
                       oracles[unaware[i]].name);
        if (number == 1 && unaware[i] == HISTORY) {
            judge_leader(lab, &s);
        }
        if (number == 1 && unaware[i] == CONSENSUS) {
            judge(lab,
                  &(struct figure){"6", "deployment 1: mean", CONSENSUS, P(3) | P(4), 42, false},
                  &s, s.mean.mean_ms);
        }
        if (number <= 2 && unaware[i] == WORST_CASE) {
            judge(lab,
                  &(struct figure){"6", number == 1 ? "deployment 1: mean" : "deployment 2: mean",
                                   WORST_CASE, number == 1 ? P(3) : P(4), 33, false},
                  &s, s.mean.mean_ms);
        }
    }
    static const char *const alone[] = {"", "1", "2", "3", "4"};
    for (cv_id id = 1; id <= 4; id++) {
        setting.preference = alone[id];
        const struct summary s = run_case(lab, setting, HISTORY);
        cv__table_row(&lab->pole.leaders, CV_NUMBER(number), CV_TEXT(server_text(lab, &s)),
                      CV_NUMBER(s.mean.site_ms[1]), CV_NUMBER(s.mean.site_ms[2]),
                      CV_NUMBER(s.mean.site_ms[3]), CV_NUMBER(s.mean.consensus_ms),
                      CV_NUMBER(s.mean.mean_ms), CV_NUMBER(s.mean.worst_ms),
                      CV_TEXT(cv__lab_pole_text(&lab->pole, "%s", elected_by[id])));
    }
}

/* ---- Fig. 7 ---------------------------------------------------------------------------------- */

#define SHARES 5u
static const double shares[SHARES] = {0, 0.25, 0.5, 0.75, 1};

typedef struct summary by_share[SHARES][ORACLE_COUNT];

/* The network of a figure, with a share p of the requests at the figure's site. */
static struct cv_lab_wan uneven(uint32_t number, double p)
{
    if (number == 0) {
        return two_sites(TUD_CERN, p);
    }
    struct cv_lab_wan wan = deployment(number);
    const uint32_t busy = number == 1 ? 3 : 2;
    for (uint32_t site = 1; site <= 3; site++) {
        wan.share[site] = site == busy ? p : (1 - p) / 2;
    }
    return wan;
}

static void measure_uneven(struct lab *lab, uint32_t number, by_share ret)
{
    static const char *const names[] = {"two sites", "deployment 1", "", "deployment 3"};
    for (uint32_t i = 0; i < SHARES; i++) {
        for (uint32_t oracle = HISTORY; oracle <= LATENCY; oracle++) {
            ret[i][oracle] =
                run_case(lab, latency_setting(lab, uneven(number, shares[i])), (enum oracle)oracle);
        }
        const struct summary *s = ret[i];
        cv__table_row(&lab->pole.mean, CV_TEXT(names[number]), CV_NUMBER(shares[i]),
                      CV_NUMBER(s[HISTORY].mean.mean_ms), CV_NUMBER(s[ROTATING].mean.mean_ms),
                      CV_NUMBER(s[CONSENSUS].mean.mean_ms), CV_NUMBER(s[WORST_CASE].mean.mean_ms),
                      CV_NUMBER(s[REQUEST].mean.mean_ms), CV_NUMBER(s[LATENCY].mean.mean_ms));
        cv__table_row(&lab->pole.worst, CV_TEXT(names[number]), CV_NUMBER(shares[i]),
                      CV_NUMBER(s[HISTORY].mean.worst_ms), CV_NUMBER(s[ROTATING].mean.worst_ms),
                      CV_NUMBER(s[CONSENSUS].mean.worst_ms), CV_NUMBER(s[WORST_CASE].mean.worst_ms),
                      CV_NUMBER(s[REQUEST].mean.worst_ms), CV_NUMBER(s[LATENCY].mean.worst_ms));
    }
}

/* [sec. 4.3] "the latency with them is half of the latency provided with the other oracles" */
static void judge_two_sites(struct lab *lab, const by_share s)
{
    static const struct {
        const char *about;
        uint32_t share, said;
        enum oracle oracle, other;
    } halves[] = {
        {"two sites, p = 0: to history's", 0, P(1) | P(2), REQUEST, HISTORY},
        {"two sites, p = 0: to history's", 0, P(1) | P(2), LATENCY, HISTORY},
        {"two sites, p = 0: to consensus'", 0, P(1) | P(2), LATENCY, CONSENSUS},
        {"two sites, p = 0: to worst-case's", 0, P(1) | P(2), LATENCY, WORST_CASE},
        {"two sites, p = 1: to rotating's", SHARES - 1, P(3) | P(4), REQUEST, ROTATING},
        {"two sites, p = 1: to rotating's", SHARES - 1, P(3) | P(4), LATENCY, ROTATING},
    };
    for (uint32_t i = 0; i < COUNT_OF(halves); i++) {
        const struct summary *one = &s[halves[i].share][halves[i].oracle];
        const struct summary *other = &s[halves[i].share][halves[i].other];
        judge(lab,
              &(struct figure){"7a", halves[i].about, halves[i].oracle, halves[i].said, 0.5, false},
              one, one->mean.mean_ms / other->mean.mean_ms);
    }
}

static void judge_uneven(struct lab *lab, const by_share first, const by_share third)
{
    const struct summary *none = first[0];
    const struct summary *all = first[SHARES - 1];
    const struct summary *all_3 = third[SHARES - 1];
    const struct {
        struct figure figure;
        const struct summary *s;
        double measured;
    } rows[] = {
        {{"7b", "deployment 1, p = 0", ROTATING, P(1), 125.8, false},
         &none[ROTATING],
         none[ROTATING].mean.mean_ms},
        {{"7b", "deployment 1, p = 0", LATENCY, ANY, 16.5, false},
         &none[LATENCY],
         none[LATENCY].mean.mean_ms},
        {{"7b", "deployment 1, p = 1", WORST_CASE, P(3), 66.6, false},
         &all[WORST_CASE],
         all[WORST_CASE].mean.mean_ms},
        {{"7b", "deployment 1, p = 1", LATENCY, P(1), 57.4, false},
         &all[LATENCY],
         all[LATENCY].mean.mean_ms},
        {{"7b", "deployment 3, p = 1", CONSENSUS, P(4), 111.3, false},
         &all_3[CONSENSUS],
         all_3[CONSENSUS].mean.mean_ms},
        {{"7b", "deployment 3, p = 1", LATENCY, P(2) | P(3), 57.4, false},
         &all_3[LATENCY],
         all_3[LATENCY].mean.mean_ms},
        {{"7c", "deployment 1, p = 1: over worst-case's", CONSENSUS, P(4), 20, true},
         &all[CONSENSUS],
         all[CONSENSUS].mean.worst_ms - all[WORST_CASE].mean.worst_ms},
    };
    for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
        judge(lab, &rows[i].figure, rows[i].s, rows[i].measured);
    }
    const double above_3 = all_3[LATENCY].mean.worst_ms - all_3[WORST_CASE].mean.worst_ms;
    const double above_1 = all[LATENCY].mean.worst_ms - all[WORST_CASE].mean.worst_ms;
    /* [eq. 2] p1 or p3 against p3 or p4, in Table 2's round trips; the constant cancels out. */
    const double exact_3 = CALTECH_FNAL - SLAC_FNAL;
    const double exact_1 = CALTECH_FNAL - SLAC_CALTECH;
    cv__lab_report_claim(
        &lab->report,
        CV_JUDGED(fabs(above_3 - exact_3) <= 0.1 * exact_3 &&
                  fabs(above_1 - exact_1) <= 0.1 * exact_1),
        "at the slowest site, latency is 30 to 60 ms worse than worst-case as p grows (fig. "
        "7c); by Eq. 2 and Table 2 it is 23.8 to 67.2 ms",
        "%.1f ms in deployment 3, %.1f ms in deployment 1, p = 1", above_3, above_1);
    const double worse_3 = all_3[WORST_CASE].mean.mean_ms - all_3[LATENCY].mean.mean_ms;
    cv__lab_report_claim(
        &lab->report, CV_JUDGED(worse_3 > 50),
        "the mean of worst-case is more than 50 ms worse than that of latency in deployment 3, p "
        "= 1 (sec. 4.3)",
        "%.1f ms", worse_3);
}

/* ---- Fig. 8 ---------------------------------------------------------------------------------- */

static struct cv_lab_setting recovery_setting(const struct lab *lab, struct cv_lab_wan wan)
{
    (void)lab;
    for (uint32_t site = 1; site <= wan.site_count; site++) {
        wan.share[site] = 0; /* no requests: only the recovery is measured */
    }
    return (struct cv_lab_setting){
        .wan = wan, .fetch = SIM_FETCH_LARGEST_ID, .crash_s = 24, .end_s = 25};
}

struct growth {
    bool history_is_flat, rotating_grows, picks_better;
    double worst_pick; /* the time of recovery's leader divided by that of the better one */
};

static void measure_snapshots(struct lab *lab)
{
    static const double rtts[] = {0, SLAC_CALTECH, TUD_CERN, CALTECH_FNAL};
    static const uint32_t sizes[] = {0, 50, 100, 150, 200, 250};
    const uint32_t step = lab->settings.is_tiny ? 5 : 1; /* 0 and 250 */
    struct growth g = {true, true, true, 0};
    double largest_before = 0;
    for (uint32_t r = 0; r < COUNT_OF(rtts); r++) {
        double first_history = 0;
        double before = 0;
        for (uint32_t i = 0; i < COUNT_OF(sizes); i += step) {
            struct cv_lab_setting setting =
                recovery_setting(lab, two_sites(rtts[r] > 0 ? rtts[r] : 0.1, 0));
            setting.wan.lag[1] = sizes[i] * CV_LAB_MB_ENTRIES;
            const struct summary history = run_case(lab, setting, HISTORY);
            const struct summary rotating = run_case(lab, setting, ROTATING);
            const struct summary recovery = run_case(lab, setting, RECOVERY);
            setting.fetch = SIM_FETCH_NEAREST;
            const struct summary nearest = run_case(lab, setting, ROTATING);
            cv__table_row(&lab->pole.snapshot, CV_NUMBER(rtts[r]), CV_NUMBER(sizes[i]),
                          CV_NUMBER(history.mean.recovery_ms), CV_TEXT(server_text(lab, &history)),
                          CV_NUMBER(rotating.mean.recovery_ms),
                          CV_TEXT(server_text(lab, &rotating)), CV_NUMBER(nearest.mean.recovery_ms),
                          CV_NUMBER(recovery.mean.recovery_ms),
                          CV_TEXT(server_text(lab, &recovery)));
            const double better = fmin(history.mean.recovery_ms, rotating.mean.recovery_ms);
            first_history = i == 0 ? history.mean.recovery_ms : first_history;
            g.history_is_flat =
                g.history_is_flat && history.leader == 4 &&
                fabs(history.mean.recovery_ms - first_history) <= 0.1 * first_history;
            g.rotating_grows =
                g.rotating_grows && rotating.leader == 1 && rotating.mean.recovery_ms > before;
            before = rotating.mean.recovery_ms;
            g.worst_pick = fmax(g.worst_pick, recovery.mean.recovery_ms / better);
            g.picks_better = g.picks_better && (sizes[i] == 0 || (recovery.elected & P(1)) == 0) &&
                             recovery.mean.recovery_ms <= 1.05 * better;
        }
        g.rotating_grows = g.rotating_grows && before > largest_before;
        largest_before = before;
    }
    cv__lab_report_claim(
        &lab->report, CV_JUDGED(g.history_is_flat),
        "history elects p4, and the recovery time does not depend on what p1 misses (fig. 8a)",
        "%s", g.history_is_flat ? "yes, within 10 % at each round trip" : "no");
    cv__lab_report_claim(
        &lab->report, CV_JUDGED(g.rotating_grows),
        "rotating elects p1, and the recovery time grows with the snapshot and the round trip "
        "(fig. 8a)",
        "%s: up to %.1f s", g.rotating_grows ? "yes" : "no", largest_before / 1000);
    cv__lab_report_claim(&lab->report, CV_JUDGED(g.picks_better),
                         "ours: recovery elects the better server in fig. 8a, never an outdated "
                         "p1",
                         "%s; at most %.2f times the better server's time",
                         g.picks_better ? "always" : "not always", g.worst_pick);
}

static void measure_three_recover(struct lab *lab)
{
    static const uint32_t sizes[] = {50, 100, 150, 200, 250};
    const uint32_t step = lab->settings.is_tiny ? 4 : 1;
    bool is_faster = true;
    bool picks = true;
    double ratio = 0;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i += step) {
        struct cv_lab_setting setting =
            recovery_setting(lab, three_sites(CALTECH_FNAL, TUD_CERN, SLAC_CALTECH));
        setting.wan.lag[2] = sizes[i] * CV_LAB_MB_ENTRIES;
        setting.wan.lag[3] = setting.wan.lag[2];
        const struct summary history = run_case(lab, setting, HISTORY);
        const struct summary recovery = run_case(lab, setting, RECOVERY);
        setting.preference = "1";
        const struct summary p1 = run_case(lab, setting, HISTORY);
        setting.preference = "4";
        const struct summary p4 = run_case(lab, setting, HISTORY);
        cv__table_row(&lab->pole.sites, CV_NUMBER(sizes[i]), CV_NUMBER(p1.mean.recovery_ms),
                      CV_NUMBER(p4.mean.recovery_ms), CV_NUMBER(history.mean.recovery_ms),
                      CV_TEXT(server_text(lab, &history)), CV_NUMBER(recovery.mean.recovery_ms),
                      CV_TEXT(server_text(lab, &recovery)));
        is_faster = is_faster && p1.leader == 1 && p4.leader == 4 && history.leader == 4 &&
                    p1.mean.recovery_ms < p4.mean.recovery_ms;
        picks = picks && recovery.elected == P(1);
        ratio = history.mean.recovery_ms / recovery.mean.recovery_ms;
    }
    cv__lab_report_claim(&lab->report, CV_JUDGED(is_faster),
                         "p1 recovers faster than p4, which history elects (fig. 8b)", "%s",
                         is_faster ? "at every size" : "no");
    cv__lab_report_claim(&lab->report, CV_JUDGED(picks), "ours: recovery elects p1 in fig. 8b",
                         "%s; %.1f times as fast as history's leader at 250 MB",
                         picks ? "in every run" : "not always", ratio);
}

/* ---- Resignation ----------------------------------------------------------------------------- */

static void measure_resignation(struct lab *lab)
{
    static const struct {
        uint32_t margin, hold_s;
        const char *options;
    } cases[] = {
        {0, 0, "resign-margin=0"},
        {10, 10, "resign-margin=10 resign-hold=10s"},
        {20, 5, "resign-margin=20 resign-hold=5s"},
        {200, 5, "resign-margin=200 resign-hold=5s"},
    };
    const struct cv_lab_wan wan = uneven(1, 0);
    bool is_as_asked = true;
    double gap_ms = 0;
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        const bool may =
            cases[i].margin > 0 && cases[i].margin < 100; /* no server is better by 200 % */
        for (uint32_t run = 1; run <= lab->settings.run_count; run++) {
            const struct cv_lab_handover h = cv__lab_pole_resign(&wan, 3, cases[i].options, run);
            cv__table_row(&lab->pole.resignation, CV_NUMBER(cases[i].margin),
                          CV_NUMBER(cases[i].hold_s), CV_NUMBER(run),
                          CV_TEXT(cv__lab_pole_text(&lab->pole, "p%u", h.before)),
                          CV_TEXT(cv__lab_pole_text(&lab->pole, "p%u", h.after)),
                          CV_NUMBER(h.before_ms), CV_NUMBER(h.moved_ms), CV_NUMBER(h.after_ms),
                          CV_NUMBER(h.handed_ms / 1000), CV_NUMBER(h.gap_ms), CV_NUMBER(h.changes));
            /* Rates are smoothed: another server may be the best one in between. */
            const bool is_better = h.changes >= 1 && h.changes <= 2 &&
                                   h.handed_ms >= 1000.0 * cases[i].hold_s &&
                                   h.after_ms <= h.moved_ms * (1 - cases[i].margin / 100.0);
            is_as_asked = is_as_asked && h.is_sound && (may ? is_better : h.changes == 0);
            gap_ms = fmax(gap_ms, h.gap_ms);
        }
    }
    cv__lab_report_claim(
        &lab->report, CV_JUDGED(is_as_asked),
        "a leader that is no longer the best resigns by a threshold (sec. 5); ours: after the "
        "hold, to a server that is better by the margin, which then stays",
        "%s; at most %.0f ms without a leader",
        is_as_asked ? "yes, and never below the threshold" : "no", gap_ms);
}

/* ---- The experiment -------------------------------------------------------------------------- */

static void repeat_figures(struct lab *lab)
{
    by_share two, first, third;
    cv__lab_report_begin(
        &lab->report,
        "The evaluation of [Becker11, sec. 4]: `pole` elects, a replicated service "
        "serves and recovers.\nModel: the paper's round trips with a jitter of 2 % "
        "(Pareto), and a cost of 1.5 ms for each operation.\nOnly this cost is fitted to the "
        "paper's latencies.");
    measure_crash(lab);
    for (uint32_t number = 1; number <= 3; number++) {
        measure_deployment(lab, number);
    }
    measure_uneven(lab, 0, two);
    measure_uneven(lab, 1, first);
    measure_uneven(lab, 3, third);
    judge_two_sites(lab, two);
    judge_uneven(lab, first, third);
    cv__lab_report_claim(&lab->report, CV_JUDGED(lab->agree_count == lab->figure_count),
                         "each figure of table 1, with the elected server", "%u of %u agree",
                         lab->agree_count, lab->figure_count);
    cv__lab_report_table(&lab->report, &lab->pole.figures);
    cv__lab_report_table(&lab->report, &lab->pole.leaders);
    cv__lab_report_table(&lab->report, &lab->pole.mean);
    cv__lab_report_table(&lab->report, &lab->pole.worst);
    measure_snapshots(lab);
    cv__lab_report_table(&lab->report, &lab->pole.snapshot);
    measure_three_recover(lab);
    cv__lab_report_table(&lab->report, &lab->pole.sites);
    measure_resignation(lab);
    cv__lab_report_table(&lab->report, &lab->pole.resignation);
    cv__lab_pole_judge_recovery(&lab->report, lab->settings.setting_count);
    cv__lab_report_claim(
        &lab->report, CV_JUDGED(lab->is_sound),
        "in every run p5 leads, crashes and has a successor, and no promise is broken", "%s",
        lab->is_sound ? "yes" : "no");
}

/* ---- On a real network ----------------------------------------------------------------------- */

#define LIVE_CASES_MAX 24u

static void add_live(struct cv_lab_live_case *cases, uint32_t *count, uint32_t number, double share,
                     enum oracle oracle, uint32_t said)
{
    CV_ASSERT(*count < LIVE_CASES_MAX);
    cases[(*count)++] = (struct cv_lab_live_case){
        .number = number,
        .share = share,
        .wan = isnan(share) ? deployment(number) : uneven(number, share),
        .oracle = oracles[oracle].name,
        .option = oracles[oracle].option,
        .goes_round = oracle == ROTATING,
        .is_measured = oracle == CONSENSUS || oracle == WORST_CASE || oracle == LATENCY,
        .said = said,
    };
}

/* Fig. 6 in all deployments, and fig. 7b for p = 0 and 1; `said` as in the simulator. */
static int run_live(struct lab *lab)
{
    static struct cv_lab_live_case cases[LIVE_CASES_MAX];
    static const uint32_t consensus[] = {0, P(3) | P(4), ANY, ANY};
    static const uint32_t worst[] = {0, P(3), P(4), ANY};
    uint32_t count = 0;
    if (lab->settings.is_tiny) {
        add_live(cases, &count, 1, NAN, WORST_CASE, worst[1]);
        add_live(cases, &count, 1, 1, LATENCY, P(1));
        return cv__lab_pole_live(&lab->pole, &lab->report, cases, count);
    }
    for (uint32_t number = 1; number <= 3; number++) {
        add_live(cases, &count, number, NAN, HISTORY, P(4));
        add_live(cases, &count, number, NAN, ROTATING, P(1));
        add_live(cases, &count, number, NAN, CONSENSUS, consensus[number]);
        add_live(cases, &count, number, NAN, WORST_CASE, worst[number]);
    }
    for (uint32_t p = 0; p <= 1; p++) {
        add_live(cases, &count, 1, p, REQUEST, ANY);
        add_live(cases, &count, 1, p, LATENCY, p == 1 ? P(1) : ANY);
        add_live(cases, &count, 3, p, REQUEST, ANY);
        add_live(cases, &count, 3, p, LATENCY, p == 1 ? P(2) | P(3) : ANY);
    }
    return cv__lab_pole_live(&lab->pole, &lab->report, cases, count);
}

int cv__lab_pole(int argc, char **argv)
{
    struct lab lab = {.pole = cv__lab_pole_empty, .is_sound = true};
    struct cv_lab_options options;
    if (!cv__lab_options_read(argc, argv, "pole", "rtl", 1, RUNS_MAX, &options)) {
        return EXIT_USAGE;
    }
    const uint64_t run_count = options.is_tiny ? 1 : 5; /* five, as in the paper */
    lab.settings =
        (struct settings){.run_count = options.run_count > 0 ? options.run_count : run_count,
                          .setting_count = options.is_tiny ? 20 : 1000,
                          .is_tiny = options.is_tiny};
    const bool draws = options.folder != NULL && cv__plot_can();
    lab.report = (struct cv_lab_report){.experiment = "pole", .is_json = options.is_json};
    if (options.is_live) {
        const int status = run_live(&lab);
        cv__lab_pole_fini(&lab.pole);
        return status;
    }
    if (options.random_count > 0) { /* the table of random networks instead */
        cv__lab_pole_random(&lab.pole, &lab.report, options.random_count);
    } else {
        repeat_figures(&lab);
    }
    int status = cv__lab_report_end(&lab.report);
    if (draws && !cv__lab_pole_plot(&lab.pole, options.folder)) {
        status = EXIT_USAGE;
    }
    cv__lab_pole_fini(&lab.pole);
    return status;
}
