/* src/sim/runner.h - many seeds of one scenario, on all cores. */
#ifndef CV_SIM_RUNNER_H
#define CV_SIM_RUNNER_H

#include "sim/report.h"

struct cv_runner_options {
    uint64_t first_seed, run_count;
    uint32_t thread_count; /* 0: one for each core */
    bool is_timed;         /* wall_s in the reports */
    bool shows_progress;   /* a bar on stderr */
    FILE *json;            /* each run as a line, in the order of seeds; NULL: none */
};

struct cv_runner_result {
    uint64_t run_count, failed_count;
    uint64_t first_failed_seed; /* the least, whichever thread found it; if failed_count > 0 */
    uint64_t event_count, message_count, judged_count;
    uint64_t fired[CV_FIRED_COUNT];
    uint64_t broken[CV_PROPERTY_COUNT]; /* in how many runs, promised or not */
    double wall_s;
};

void cv__runner_run(const struct cv_scenario *scenario, const struct cv_runner_options *options,
                    struct cv_runner_result *ret_result);

#endif
