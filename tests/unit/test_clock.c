/* tests/unit/test_clock.c - the drifting clock of a simulated node. */
#include "sim/clock.h"
#include "support/support.h"

static void runs_with_real_time_without_drift(void **unused)
{
    (void)unused;
    const struct sim_clock clock = {.real_base_ns = 100, .local_base_ns = 5000};
    assert_int_equal(sim_clock_local(&clock, 100), 5000);
    assert_int_equal(sim_clock_local(&clock, 1100), 6000);
    assert_int_equal(sim_clock_real(&clock, 6000), 1100);
}

static void gains_and_loses_by_its_drift(void **unused)
{
    (void)unused;
    const struct sim_clock fast = {.drift_ppb = 80000}; /* 80 ppm */
    const struct sim_clock slow = {.drift_ppb = -80000};
    assert_int_equal(sim_clock_local(&fast, NS_PER_S), NS_PER_S + 80000);
    assert_int_equal(sim_clock_local(&slow, NS_PER_S), NS_PER_S - 80000);
}

static void keeps_its_time_when_its_drift_changes(void **unused)
{
    (void)unused;
    struct sim_clock clock = {.local_base_ns = 7, .drift_ppb = 100000};
    const int64_t before = sim_clock_local(&clock, 10 * NS_PER_S);
    sim_clock_set_drift(&clock, 10 * NS_PER_S, -100000, /* drift_parts= */ 0);
    assert_int_equal(sim_clock_local(&clock, 10 * NS_PER_S), before);
    assert_int_equal(sim_clock_local(&clock, 11 * NS_PER_S), before + NS_PER_S - 100000);
}

/* One eleventh is not a whole number of billionths, and the exhaustive search needs it exactly. */
static void drifts_by_an_exact_part(void **unused)
{
    (void)unused;
    const struct sim_clock fast = {.drift_ppb = 90909090, .drift_parts = 11};
    const struct sim_clock slow = {.drift_ppb = -90909090, .drift_parts = -11};
    for (int64_t ticks = 1; ticks <= 100000; ticks++) {
        assert_int_equal(sim_clock_local(&fast, 11 * ticks), 12 * ticks);
        assert_int_equal(sim_clock_real(&fast, 12 * ticks), 11 * ticks);
        assert_int_equal(sim_clock_local(&slow, 11 * ticks), 10 * ticks);
        assert_int_equal(sim_clock_real(&slow, 10 * ticks), 11 * ticks);
    }
}

static void treats_a_time_in_the_past_as_now(void **unused)
{
    (void)unused;
    const struct sim_clock clock = {.real_base_ns = 100, .local_base_ns = 5000, .drift_ppb = 9};
    assert_int_equal(sim_clock_real(&clock, 4000), 100);
    assert_int_equal(sim_clock_real(&clock, 5000), 100);
}

/* A timer must not fire before its time, and not a nanosecond later than it has to. */
static void finds_the_first_instant_at_which_it_shows_a_time(void **unused)
{
    (void)unused;
    uint64_t seed = 1;
    for (uint32_t i = 0; i < test_scale(20000); i++) {
        const struct sim_clock clock = {
            .real_base_ns = (int64_t)test_random_below(&seed, 1000000),
            .local_base_ns = (int64_t)test_random_below(&seed, 1000000),
            .drift_ppb = (int64_t)test_random_below(&seed, 200000001) - 100000000, /* 10 % */
        };
        const int64_t local_ns =
            clock.local_base_ns + 1 + (int64_t)(test_random(&seed) % (uint64_t)(3600 * NS_PER_S));
        const int64_t real_ns = sim_clock_real(&clock, local_ns);
        assert_true(sim_clock_local(&clock, real_ns) >= local_ns);
        assert_true(sim_clock_local(&clock, real_ns - 1) < local_ns);
    }
}

static void waits_for_ever_rather_than_overflow(void **unused)
{
    (void)unused;
    const struct sim_clock slow = {.drift_ppb = -500000000};
    const int64_t real_ns = sim_clock_real(&slow, INT64_MAX);
    assert_true(real_ns >= INT64_MAX / 2);
}

static void trips_on_an_instant_before_its_base(void **unused)
{
    (void)unused;
    const struct sim_clock clock = {.real_base_ns = 100};
    assert_trips((void)sim_clock_local(&clock, 99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_with_real_time_without_drift),
        cmocka_unit_test(gains_and_loses_by_its_drift),
        cmocka_unit_test(keeps_its_time_when_its_drift_changes),
        cmocka_unit_test(drifts_by_an_exact_part),
        cmocka_unit_test(treats_a_time_in_the_past_as_now),
        cmocka_unit_test(finds_the_first_instant_at_which_it_shows_a_time),
        cmocka_unit_test(waits_for_ever_rather_than_overflow),
        cmocka_unit_test(trips_on_an_instant_before_its_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
