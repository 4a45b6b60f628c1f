/* tests/support/seeds.h - a scenario over many seeds, and a test for each row of a table. */
#ifndef CV_TESTS_SEEDS_H
#define CV_TESTS_SEEDS_H

#include "report/runner.h"
#include "support/support.h"

/* Runs the scenario with that many seeds, from 1 on. */
struct sim_runner_result seeds_run(const struct sim_scenario *scenario, uint32_t run_count);

/* Each kind of random fault that the scenario asks for has happened in some run. */
void assert_faults_fired(const struct sim_scenario *scenario, const struct sim_runner_result *r);

/* One test for each row of a table; a row begins with the name of its test and is its state. */
void rows_tests(struct CMUnitTest *ret_tests, void *rows, size_t row_bytes, uint32_t row_count,
                CMUnitTestFunction test);

/* The sum of a field over all rows; `first` is the field of the first row. */
uint32_t rows_sum(const uint32_t *first, size_t row_bytes, uint32_t row_count);

/* Runs a test for each protocol; its state is the protocol's table. For main(). */
int protocols_run(const char *group, CMUnitTestFunction test);

#endif
