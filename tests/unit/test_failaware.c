/* tests/unit/test_failaware.c - the bound on a message's delay, from the stamps it carries. */
#include "core/failaware.h"
#include "support/support.h"

#define DRIFT_PPB 100000 /* 1e-4 */

/* A, B, C as in the header; D is the argument of the bound. */
static struct cv_stamp stamp_make(int64_t a_ns, int64_t b_ns, int64_t c_ns)
{
    return (struct cv_stamp){.echo = {.peer_sent_ns = a_ns, .received_ns = b_ns}, .sent_ns = c_ns};
}

static void is_unknown_before_anything_was_received(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(0, 0, 5 * NS_PER_S);
    assert_int_equal(cv__delay_bound(&stamp, 6 * NS_PER_S, DRIFT_PPB, 0), CV_DELAY_UNKNOWN);
}

/* [Fetzer99, sec. IV] With perfect clocks the round trip less the stay is left for both frames. */
static void is_the_round_trip_less_the_stay_and_the_least_delay(void **unused)
{
    (void)unused;
    /* q sends at 1000, p gets it at 77 by its own clock, answers 50 later, q has it at 1070. */
    const struct cv_stamp stamp = stamp_make(1000, 77, 127);
    assert_int_equal(cv__delay_bound(&stamp, 1070, /* drift_ppb= */ 0, /* delay_ns_min= */ 0), 20);
    assert_int_equal(cv__delay_bound(&stamp, 1070, 0, 3), 17);
}

static void does_not_depend_on_how_far_the_clocks_are_apart(void **unused)
{
    (void)unused;
    const struct cv_stamp near = stamp_make(1000, 1010, 1060);
    const struct cv_stamp far = stamp_make(1000, 3600 * NS_PER_S, 3600 * NS_PER_S + 50);
    assert_int_equal(cv__delay_bound(&near, 1070, DRIFT_PPB, 0),
                     cv__delay_bound(&far, 1070, DRIFT_PPB, 0));
}

static void grows_with_drift_and_with_the_age_of_the_echo(void **unused)
{
    (void)unused;
    const struct cv_stamp fresh = stamp_make(NS_PER_S, NS_PER_S, NS_PER_S + NS_PER_MS);
    const struct cv_stamp old = stamp_make(NS_PER_S, NS_PER_S, 11 * NS_PER_S);
    const int64_t fresh_at = NS_PER_S + 2 * NS_PER_MS;
    const int64_t old_at = 11 * NS_PER_S + NS_PER_MS;
    assert_int_equal(cv__delay_bound(&fresh, fresh_at, 0, 0), NS_PER_MS);
    assert_int_equal(cv__delay_bound(&old, old_at, 0, 0), NS_PER_MS);
    /* 10 s at 1e-4 on both clocks: 2 ms more. */
    assert_true(cv__delay_bound(&fresh, fresh_at, DRIFT_PPB, 0) < NS_PER_MS + NS_PER_US);
    assert_true(cv__delay_bound(&old, old_at, DRIFT_PPB, 0) > 3 * NS_PER_MS);
}

static void rounds_up_because_a_smaller_bound_would_be_a_lie(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(1, 1, 2);
    /* 10 ns (1 + 1e-4) rounds to 11, 1 ns (1 - 1e-4) to 0. */
    assert_int_equal(cv__delay_bound(&stamp, 11, DRIFT_PPB, 0), 11);
}

static void is_never_negative(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(1000, 1000, 1050);
    assert_int_equal(cv__delay_bound(&stamp, 1050, 0, /* delay_ns_min= */ 500), 0);
    assert_int_equal(cv__delay_bound(&stamp, 1020, 0, 0), 0); /* drift beyond its bound */
}

static void is_unknown_for_stamps_of_a_former_life(void **unused)
{
    (void)unused;
    const struct cv_stamp from_the_future = stamp_make(2000, 1000, 1050);
    const struct cv_stamp sent_before_received = stamp_make(1000, 2000, 1050);
    assert_int_equal(cv__delay_bound(&from_the_future, 1500, 0, 0), CV_DELAY_UNKNOWN);
    assert_int_equal(cv__delay_bound(&sent_before_received, 1500, 0, 0), CV_DELAY_UNKNOWN);
}

/* A peer wrote these: whatever they are, the answer is a bound or unknown, never an overflow. */
static void survives_any_stamps_that_a_peer_can_write(void **unused)
{
    (void)unused;
    const int64_t extremes[] = {INT64_MIN, -1, 0, 1, NS_PER_S, INT64_MAX};
    for (uint32_t a = 0; a < COUNT_OF(extremes); a++) {
        for (uint32_t b = 0; b < COUNT_OF(extremes); b++) {
            for (uint32_t c = 0; c < COUNT_OF(extremes); c++) {
                const struct cv_stamp stamp = stamp_make(extremes[a], extremes[b], extremes[c]);
                assert_true(cv__delay_bound(&stamp, 2 * NS_PER_S, DRIFT_PPB, NS_PER_US) >= 0);
            }
        }
    }
}

static void remembers_the_first_frame(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    cv__echo_update(&echo, 1000, 2000, DRIFT_PPB);
    assert_int_equal(echo.peer_sent_ns, 1000);
    assert_int_equal(echo.received_ns, 2000);
}

static void prefers_the_faster_of_two_frames(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    cv__echo_update(&echo, 1000, 2000, DRIFT_PPB);
    cv__echo_update(&echo, 1100, 2500, DRIFT_PPB); /* took 400 longer */
    assert_int_equal(echo.peer_sent_ns, 1000);
    cv__echo_update(&echo, 1200, 2190, DRIFT_PPB); /* took 10 less than the first */
    assert_int_equal(echo.peer_sent_ns, 1200);
}

static void lets_an_excellent_old_frame_give_way_to_a_good_new_one(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    cv__echo_update(&echo, NS_PER_S, NS_PER_S, DRIFT_PPB);
    /* A hundred seconds later the old one is 20 ms worse by drift; this one took 1 ms longer. */
    cv__echo_update(&echo, 101 * NS_PER_S, 101 * NS_PER_S + NS_PER_MS, DRIFT_PPB);
    assert_int_equal(echo.peer_sent_ns, 101 * NS_PER_S);
}

static void ignores_a_frame_that_was_overtaken(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    cv__echo_update(&echo, 1100, 2100, DRIFT_PPB);
    cv__echo_update(&echo, 1000, 2200, DRIFT_PPB);
    assert_int_equal(echo.peer_sent_ns, 1100);
    assert_int_equal(echo.received_ns, 2100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_unknown_before_anything_was_received),
        cmocka_unit_test(is_the_round_trip_less_the_stay_and_the_least_delay),
        cmocka_unit_test(does_not_depend_on_how_far_the_clocks_are_apart),
        cmocka_unit_test(grows_with_drift_and_with_the_age_of_the_echo),
        cmocka_unit_test(rounds_up_because_a_smaller_bound_would_be_a_lie),
        cmocka_unit_test(is_never_negative),
        cmocka_unit_test(is_unknown_for_stamps_of_a_former_life),
        cmocka_unit_test(survives_any_stamps_that_a_peer_can_write),
        cmocka_unit_test(remembers_the_first_frame),
        cmocka_unit_test(prefers_the_faster_of_two_frames),
        cmocka_unit_test(lets_an_excellent_old_frame_give_way_to_a_good_new_one),
        cmocka_unit_test(ignores_a_frame_that_was_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
