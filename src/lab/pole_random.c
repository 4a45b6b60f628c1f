/* src/lab/pole_random.c - elections in random wide-area networks: how close does each oracle come
 * to the best possible leader?
 *
 * Three to nine servers are in two to five sites at random places on a map; a round trip is 2 ms
 * plus the distance. Clients are skewed: a site's share is the third power of a uniform number. A
 * random server leads and crashes. A majority including it is up to date; of the others, half miss
 * 1 to 250 MB, evenly on a logarithmic scale. Then each oracle elects in the same network, and
 * every running server is measured as a leader with the same random numbers. */
#include "lab/pole.h"
#include "lab/pole_run.h"

#include <math.h>

#define STREAM 903u
#define MAP_MS 180.0 /* round trip along the edge of the map */

static void draw_sites(struct sim_rng *rng, struct cv_lab_wan *wan)
{
    double x[CV_LAB_SITES_MAX + 1];
    double y[CV_LAB_SITES_MAX + 1];
    double total = 0;
    for (uint32_t site = 1; site <= wan->site_count; site++) {
        x[site] = sim_rng_unit(rng);
        y[site] = sim_rng_unit(rng);
        wan->share[site] = pow(sim_rng_unit(rng), 3);
        total += wan->share[site];
        for (uint32_t other = 1; other < site; other++) {
            wan->rtt_ms[other][site] = 2 + MAP_MS * hypot(x[site] - x[other], y[site] - y[other]);
        }
    }
    for (uint32_t site = 1; site <= wan->site_count; site++) {
        wan->share[site] /= total;
    }
}

static void draw_lags(struct sim_rng *rng, struct cv_lab_wan *wan)
{
    uint32_t may_lag = wan->server_count - (wan->server_count / 2 + 1);
    uint32_t left = wan->server_count - 1;
    for (cv_id id = 1; id <= wan->server_count; id++) {
        if (id == wan->first) {
            continue;
        }
        /* Every server but `first` may be outdated with the same probability. */
        const bool may = sim_rng_range(rng, 1, left--) <= may_lag;
        may_lag -= may;
        if (may && sim_rng_range(rng, 0, 1) == 1) {
            wan->lag[id] = (uint64_t)(pow(250, sim_rng_unit(rng)) * CV_LAB_MB_ENTRIES);
        }
    }
}

static struct cv_lab_wan draw_wan(uint64_t seed)
{
    struct sim_rng rng;
    sim_rng_init(&rng, seed, STREAM);
    struct cv_lab_wan wan = {.server_count = (uint32_t)sim_rng_range(&rng, 3, 9)};
    const uint32_t most = wan.server_count < CV_LAB_SITES_MAX ? wan.server_count : CV_LAB_SITES_MAX;
    wan.site_count = (uint32_t)sim_rng_range(&rng, 2, most);
    draw_sites(&rng, &wan);
    for (cv_id id = 1; id <= wan.server_count; id++) { /* one in each site, the others anywhere */
        wan.site[id] = id <= wan.site_count ? id : (uint32_t)sim_rng_range(&rng, 1, wan.site_count);
    }
    for (cv_id id = wan.server_count; id > 1; id--) { /* and shuffled: ids break ties */
        const uint32_t other = (uint32_t)sim_rng_range(&rng, 1, id);
        const uint32_t site = wan.site[id];
        wan.site[id] = wan.site[other];
        wan.site[other] = site;
    }
    wan.first = (cv_id)sim_rng_range(&rng, 1, wan.server_count);
    draw_lags(&rng, &wan);
    return wan;
}

/* ---- Recovery against history ---------------------------------------------------------------- */

struct duel {
    uint64_t failed, better, worse; /* failed elections; settings, beyond the tolerance */
    double worst, worst_ms;         /* the largest loss: as a share, and in ms */
    double sum_ms[2], log_ratio;
};

static struct duel duel(uint64_t count, bool is_calm, double tolerance)
{
    struct duel d = {0};
    for (uint64_t seed = 1; seed <= count; seed++) {
        struct cv_lab_wan wan = draw_wan(seed);
        struct cv_lab_candidates c;
        wan.is_calm = is_calm;
        const cv_id one = cv__lab_pole_elect(&wan, "recovery", seed, &c);
        const cv_id other = cv__lab_pole_elect(&wan, "history", seed, NULL);
        if (one == CV_ID_NONE || other == CV_ID_NONE) {
            d.failed++;
            continue;
        }
        const double off_ms = c.recovery_ms[one] - c.recovery_ms[other];
        const double off = off_ms / c.recovery_ms[other];
        d.better += off < -tolerance;
        d.worse += off > tolerance;
        d.worst = fmax(d.worst, off);
        d.worst_ms = fmax(d.worst_ms, off_ms);
        d.sum_ms[0] += c.recovery_ms[one];
        d.sum_ms[1] += c.recovery_ms[other];
        d.log_ratio += log1p(off);
    }
    return d;
}

void cv__lab_pole_judge_recovery(struct cv_lab_report *report, uint64_t count)
{
    const unsigned long long settings = count;
    const struct duel calm = duel(count, /* is_calm= */ true, 1e-6);
    cv__lab_report_claim(
        report, CV_JUDGED(calm.failed == 0 && calm.worse == 0),
        "ours: in random settings without jitter recovery is never worse than history",
        "%llu settings: better in %llu, worse in %llu", settings, (unsigned long long)calm.better,
        (unsigned long long)calm.worse);
    /* With jitter the choice between equal servers is random, and their times differ by as much. */
    const struct duel d = duel(count, /* is_calm= */ false, 0.02);
    const double saves = 1 - d.sum_ms[0] / d.sum_ms[1];
    const bool is_better = count < 100 || saves >= 0.1; /* the mean of few settings says little */
    cv__lab_report_claim(
        report, CV_JUDGED(d.failed == 0 && d.worse == 0 && is_better),
        "ours: with 2 % jitter it is never worse by more than 2 %, and clearly better on average",
        "%.0f instead of %.0f ms (-%.0f %%; geometric mean -%.0f %%), better in %llu, "
        "worse in %llu (at most %.1f %%, %.0f ms)",
        d.sum_ms[0] / (double)count, d.sum_ms[1] / (double)count, 100 * saves,
        100 * (1 - exp(d.log_ratio / (double)count)), (unsigned long long)d.better,
        (unsigned long long)d.worse, 100 * d.worst, d.worst_ms);
}

/* ---- Every oracle ---------------------------------------------------------------------------- */

static const char *const oracles[] = {
    "history",
    "rotating",
    "request",
    "consensus",
    "worst-case",
    "latency",
    "recovery",
    "latency/10ms,history",
    "latency/10ms,recovery",
    "latency/50ms,recovery",
};
enum { MEAN, WORST, RECOVERY, MEASURE_COUNT };
static const char *const measures[] = {"mean latency", "worst latency", "recovery time"};

/* Distance from the best possible leader, in each network. */
struct distance {
    struct cv_samples times, above_ms;
    uint64_t best_count;
    double log_sum;
};

static double least(const double *by_server, uint32_t server_count)
{
    double best = INFINITY;
    for (uint32_t id = 1; id <= server_count; id++) {
        best = fmin(best, by_server[id]); /* NAN does not count */
    }
    return best;
}

static uint64_t measure_wan(uint64_t seed, struct distance distance[][MEASURE_COUNT])
{
    const struct cv_lab_wan wan = draw_wan(seed);
    struct cv_lab_candidates c;
    const double *const values[] = {c.mean_ms, c.worst_ms, c.recovery_ms};
    uint64_t failed = 0;
    for (uint32_t i = 0; i < COUNT_OF(oracles); i++) {
        const cv_id leader = cv__lab_pole_elect(&wan, oracles[i], seed, i == 0 ? &c : NULL);
        if (leader == CV_ID_NONE) {
            failed++;
            continue;
        }
        for (uint32_t m = 0; m < MEASURE_COUNT; m++) {
            const double best = least(values[m], wan.server_count);
            const double times = values[m][leader] / best;
            struct distance *d = &distance[i][m];
            cv__samples_add(&d->times, times);
            cv__samples_add(&d->above_ms, values[m][leader] - best);
            d->best_count += times <= 1.01;
            d->log_sum += log(times);
        }
    }
    return failed;
}

/* The oracle with the best mean of a measure. */
static uint32_t winner(struct distance distance[][MEASURE_COUNT], uint32_t measure)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < COUNT_OF(oracles); i++) {
        if (distance[i][measure].log_sum < distance[best][measure].log_sum) {
            best = i;
        }
    }
    return best;
}

void cv__lab_pole_random(struct cv_lab_pole *pole, struct cv_lab_report *report, uint64_t count)
{
    struct distance distance[COUNT_OF(oracles)][MEASURE_COUNT] = {0};
    uint64_t failed = 0;
    cv__lab_report_begin(report,
                         "Random wide-area networks: 3 to 9 servers in 2 to 5 sites, skewed "
                         "clients, different histories, and a\nleader that crashes.");
    for (uint64_t seed = 1; seed <= count; seed++) {
        failed += measure_wan(seed, distance);
    }
    for (uint32_t m = 0; m < MEASURE_COUNT; m++) {
        for (uint32_t i = 0; i < COUNT_OF(oracles); i++) {
            struct distance *d = &distance[i][m];
            if (d->times.count > 0) {
                cv__table_row(&pole->random, CV_TEXT(measures[m]), CV_TEXT(oracles[i]),
                              CV_NUMBER(100 * (double)d->best_count / d->times.count),
                              CV_NUMBER(exp(d->log_sum / d->times.count)),
                              CV_NUMBER(cv__samples_percentile(&d->times, 95)),
                              CV_NUMBER(cv__samples_mean(&d->above_ms)),
                              CV_NUMBER(cv__samples_percentile(&d->above_ms, 95)),
                              CV_NUMBER(cv__samples_percentile(&d->above_ms, 100)));
            }
        }
    }
    cv__lab_report_table(report, &pole->random);
    cv__lab_report_claim(report, CV_JUDGED(failed == 0),
                         "every oracle elects a leader in every network, and no promise is broken",
                         "%llu networks, %llu elections failed", (unsigned long long)count,
                         (unsigned long long)failed);
    if (failed == 0) {
        const uint32_t best[] = {winner(distance, MEAN), winner(distance, WORST),
                                 winner(distance, RECOVERY)};
        cv__lab_report_claim(report, CV_JUDGED(best[0] != best[1] || best[1] != best[2]),
                             "no oracle serves all goals (sec. 7)",
                             "nearest to the best: %s in mean latency, %s at the slowest site, %s "
                             "in recovery time",
                             oracles[best[0]], oracles[best[1]], oracles[best[2]]);
    }
    for (uint32_t i = 0; i < COUNT_OF(oracles); i++) {
        for (uint32_t m = 0; m < MEASURE_COUNT; m++) {
            cv__samples_fini(&distance[i][m].times);
            cv__samples_fini(&distance[i][m].above_ms);
        }
    }
}
