/* tests/support/seeds.c - see seeds.h. */
#include "support/seeds.h"

#include <string.h>

struct sim_runner_result seeds_run(const struct sim_scenario *scenario, uint32_t run_count)
{
    const struct sim_runner_options options = {.first_seed = 1, .run_count = run_count};
    struct sim_runner_result r;
    sim_runner_run(scenario, &options, &r);
    assert_int_equal(r.run_count, run_count);
    return r;
}

void assert_faults_fired(const struct sim_scenario *scenario, const struct sim_runner_result *r)
{
    assert_true(scenario->random_count > 0);
    for (uint32_t i = 0; i < scenario->random_count; i++) {
        for (uint32_t fault = 0; fault < SIM_FAULT_COUNT; fault++) {
            if ((scenario->random[i].kinds & BIT(fault)) != 0) {
                assert_true(r->fired[sim_fired_by((enum sim_fault)fault)] > 0);
            }
        }
    }
}

void rows_tests(struct CMUnitTest *ret_tests, void *rows, size_t row_bytes, uint32_t row_count,
                CMUnitTestFunction test)
{
    for (uint32_t i = 0; i < row_count; i++) {
        void *row = (char *)rows + i * row_bytes;
        const char *name;
        memcpy(&name, row, sizeof name);
        ret_tests[i] = (struct CMUnitTest){.name = name, .test_func = test, .initial_state = row};
    }
}

uint32_t rows_sum(const uint32_t *first, size_t row_bytes, uint32_t row_count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        uint32_t value;
        memcpy(&value, (const char *)first + i * row_bytes, sizeof value);
        sum += value;
    }
    return sum;
}

int protocols_run(const char *group, CMUnitTestFunction test)
{
    struct CMUnitTest tests[32];
    uint32_t count = 0;
    const struct cv_protocol *protocol;
    while ((protocol = cv_protocol_at(count)) != NULL) {
        assert_true(count < COUNT_OF(tests));
        tests[count++] = (struct CMUnitTest){.name = protocol->name,
                                             .test_func = test,
                                             .initial_state = (void *)(uintptr_t)protocol};
    }
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL);
}
