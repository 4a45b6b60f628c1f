/* src/report/runner.h - many seeds of one scenario, on all cores. */
#ifndef CV_REPORT_RUNNER_H
#define CV_REPORT_RUNNER_H

#include "report/report.h"

struct sim_runner_options {
    uint64_t first_seed, run_count;
    uint32_t thread_count; /* 0: one for each core */
    bool is_timed;         /* wall_s in the reports */
    bool shows_progress;   /* a bar on stderr */
    /* not NULL: a random scenario of this protocol for each seed */
    const struct cv_protocol *swarm;
    FILE *json; /* each run as a line, in the order of seeds; NULL: none */
};

struct sim_runner_result {
    uint64_t run_count, failed_count;
    uint64_t first_failed_seed; /* the smallest, if failed_count > 0 */
    uint64_t event_count, message_count;
    uint64_t fired[SIM_FIRED_COUNT];
    uint64_t broken[CV_PROPERTY_COUNT]; /* in how many runs, promised or not */
    uint64_t judged[CV_PROPERTY_COUNT]; /* how often in all runs */
    double wall_s;
};

/* `scenario` is NULL if a swarm is run. */
void sim_runner_run(const struct sim_scenario *scenario, const struct sim_runner_options *options,
                    struct sim_runner_result *ret_result);

#endif
