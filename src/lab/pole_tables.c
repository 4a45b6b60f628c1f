/* src/lab/pole_tables.c - the empty tables of `conclave lab pole`: the text above each, and its
 * columns. */
#include "lab/pole.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Columns of figures 7a to c: the latency under each oracle's leader. */
#define LATENCY_COLUMNS                                                                          \
    {                                                                                            \
        {"where", 12, 0, true}, {"p", 5, 2, false}, {"history", 8, 1, false},                    \
            {"rotating", 8, 1, false}, {"consensus", 9, 1, false}, {"worst_case", 10, 1, false}, \
            {"request", 8, 1, false}, {"latency", 8, 1, false},                                  \
    }

const struct cv_lab_pole cv__lab_pole_empty = {
    .figures = {.name = "figures",
                .about =
                    "1. The paper's figures. said: the leader in the paper; elected: the leader "
                    "here, and in how many runs if\nnot in all. A figure agrees within 10 %; "
                    "if the paper rounds it to tens (~), within 5 ms. Figures are in\n"
                    "milliseconds; those of 7a are ratios.",
                .column = {{"fig", 3, 0, true},
                           {"case", 38, 0, true},
                           {"oracle", 11, 0, true},
                           {"said", 5, 0, true},
                           {"elected", 9, 0, true},
                           {"rounded", 7, 0, true},
                           {"paper", 6, 1, false},
                           {"measured", 8, 2, false},
                           {"off_pct", 7, 1, false},
                           {"verdict", 7, 0, true}}},
    .timeline = {.name = "timeline",
                 .column = {{"t_s", 0, 0, false},
                            {"history_d1", 0, 0, false},
                            {"history_d2", 0, 0, false},
                            {"rotating_d1", 0, 0, false},
                            {"rotating_d2", 0, 0, false}}},
    .leaders = {.name = "leaders",
                .about = "2. Fig. 6: latency in ms at each data centre under every possible "
                         "leader, the leader's consensus, the\nmean and the slowest; and the "
                         "oracles that elect this leader.",
                .column = {{"deployment", 10, 0, false},
                           {"leader", 6, 0, true},
                           {"d1", 6, 1, false},
                           {"d2", 6, 1, false},
                           {"d3", 6, 1, false},
                           {"consensus", 9, 1, false},
                           {"mean", 6, 1, false},
                           {"worst", 6, 1, false},
                           {"elected_by", 0, 0, true}}},
    .mean = {.name = "mean",
             .about = "3. Figs. 7a and b: mean latency in ms; a share p of the requests arrives at "
                      "D2 (two sites), D3\n(deployment 1) or D2 (deployment 3).",
             .column = LATENCY_COLUMNS},
    .worst = {.name = "worst",
              .about = "4. Fig. 7c: latency in ms at the slowest site, whether or not requests "
                       "arrive there.",
              .column = LATENCY_COLUMNS},
    .snapshot = {.name = "snapshot",
                 .about = "5. Fig. 8a: recovery time in ms; two sites, and p1 misses a snapshot of "
                          "this many MB. A leader fetches it\nfrom the largest id that has it, "
                          "which explains the paper's figure; nearest: p1 fetches from the "
                          "nearest.",
                 .column = {{"rtt_ms", 6, 2, false},
                            {"mb", 4, 0, false},
                            {"history", 8, 0, false},
                            {"elected", 7, 0, true},
                            {"rotating", 8, 0, false},
                            {"elected_r", 9, 0, true},
                            {"nearest", 8, 0, false},
                            {"recovery", 8, 0, false},
                            {"elected_by_recovery", 19, 0, true}}},
    .sites = {.name = "sites",
              .about = "6. Fig. 8b: recovery time in ms; D1-D2 77.06, D2-D3 20.75, D1-D3 9.88 ms, "
                       "and both servers of D2 miss\nthis many MB.",
              .column = {{"mb", 4, 0, false},
                         {"p1", 8, 0, false},
                         {"p4", 8, 0, false},
                         {"history", 8, 0, false},
                         {"elected", 7, 0, true},
                         {"recovery", 8, 0, false},
                         {"elected_by_recovery", 19, 0, true}}},
    .resignation = {.name = "resignation",
                    .about =
                        "7. Resignation [sec. 5]: deployment 1, all requests at D1 and D2 until "
                        "40 s, then all at D3. Mean latency\nbefore the move, until the "
                        "hand-over and from 5 s after it; time of the hand-over; time without a "
                        "leader.",
                    .column = {{"margin_pct", 10, 0, false},
                               {"hold_s", 6, 0, false},
                               {"run", 3, 0, false},
                               {"leader", 6, 0, true},
                               {"then", 4, 0, true},
                               {"before_ms", 9, 1, false},
                               {"moved_ms", 8, 1, false},
                               {"after_ms", 8, 1, false},
                               {"handed_s", 8, 1, false},
                               {"gap_ms", 6, 0, false},
                               {"changes", 7, 0, false}}},
    .live = {.name = "live",
             .about = "The new leader after p5 is killed; p: the share of the requests at D3 "
                      "(deployment 1) or D2 (deployment 3),\n-: a third at each site. said: the "
                      "paper's leader; elected_ms: time until the new leader leads;\ntie: another "
                      "server of the same data centre, with the same round trips.",
             .column = {{"deployment", 10, 0, false},
                        {"p", 4, 0, false},
                        {"oracle", 11, 0, true},
                        {"said", 6, 0, true},
                        {"simulated", 9, 0, true},
                        {"elected", 7, 0, true},
                        {"elected_ms", 10, 1, false},
                        {"verdict", 7, 0, true}}},
    .random = {.name = "random",
               .about =
                   "Distance from the best possible leader. best_pct: per cent of the networks "
                   "within 1 % of it; times: the ratio\nto it (geometric mean, 95th percentile); "
                   "ms: the difference from it (mean, 95th percentile, maximum).",
               .column = {{"measure", 13, 0, true},
                          {"oracle", 24, 0, true},
                          {"best_pct", 8, 1, false},
                          {"times", 6, 2, false},
                          {"p95_times", 9, 2, false},
                          {"mean_ms", 8, 1, false},
                          {"p95_ms", 8, 0, false},
                          {"max_ms", 8, 0, false}}},
};

const char *cv__lab_pole_text(struct cv_lab_pole *pole, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CV_ASSERT(length >= 0 && (size_t)length < sizeof text);
    pole->text = cv__grow(pole->text, &pole->text_capacity, pole->text_count, sizeof *pole->text);
    pole->text[pole->text_count] = cv__copy_text(text, (size_t)length);
    return pole->text[pole->text_count++];
}

void cv__lab_pole_fini(struct cv_lab_pole *pole)
{
    struct cv_table *const tables[] = {
        &pole->figures,  &pole->timeline, &pole->leaders,     &pole->mean, &pole->worst,
        &pole->snapshot, &pole->sites,    &pole->resignation, &pole->live, &pole->random};
    for (uint32_t i = 0; i < COUNT_OF(tables); i++) {
        cv__table_fini(tables[i]);
    }
    for (uint32_t i = 0; i < pole->text_count; i++) {
        free(pole->text[i]);
    }
    free(pole->text);
    memset(pole, 0, sizeof *pole);
}
