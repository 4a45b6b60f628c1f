/* tests/unit/test_failaware.c - the bound on a message's delay, from the stamps it carries. */
#include "core/failaware.h"
#include "support/support.h"

#define DRIFT_PPB 100000 /* 1e-4 */
#define BOOT 7u          /* of both machines, unless a test says otherwise */

/* A, B, C as in the header; D is the argument of the bound. */
static struct cv_stamp stamp_make(int64_t a_ns, int64_t b_ns, int64_t c_ns)
{
    return (struct cv_stamp){.echo = {a_ns, b_ns, BOOT}, .sent_ns = c_ns, .boot = BOOT};
}

static void hear(struct cv_echo *echo, uint64_t boot, int64_t sent_ns, int64_t received_ns)
{
    const struct cv_stamp stamp = {.sent_ns = sent_ns, .boot = boot};
    cv__echo_update(echo, &stamp, received_ns, DRIFT_PPB);
}

static void is_unknown_before_anything_was_received(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(0, 0, 5 * NS_PER_S);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 6 * NS_PER_S, DRIFT_PPB, 0), CV_DELAY_UNKNOWN);
}

/* [Fetzer99, sec. IV] With perfect clocks the round trip less the stay is left for both frames. */
static void is_the_round_trip_less_the_stay_and_the_least_delay(void **unused)
{
    (void)unused;
    /* q sends at 1000, p gets it at 77 by its own clock, answers 50 later, q has it at 1070. */
    const struct cv_stamp stamp = stamp_make(1000, 77, 127);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 1070, /* drift_ppb= */ 0, /* delay_ns_min= */ 0),
                     20);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 1070, 0, 3), 17);
}

static void does_not_depend_on_how_far_the_clocks_are_apart(void **unused)
{
    (void)unused;
    const struct cv_stamp near = stamp_make(1000, 1010, 1060);
    const struct cv_stamp far = stamp_make(1000, 3600 * NS_PER_S, 3600 * NS_PER_S + 50);
    assert_int_equal(cv__delay_bound(&near, BOOT, 1070, DRIFT_PPB, 0),
                     cv__delay_bound(&far, BOOT, 1070, DRIFT_PPB, 0));
}

static void grows_with_drift_and_with_the_age_of_the_echo(void **unused)
{
    (void)unused;
    const struct cv_stamp fresh = stamp_make(NS_PER_S, NS_PER_S, NS_PER_S + NS_PER_MS);
    const struct cv_stamp old = stamp_make(NS_PER_S, NS_PER_S, 11 * NS_PER_S);
    const int64_t fresh_at = NS_PER_S + 2 * NS_PER_MS;
    const int64_t old_at = 11 * NS_PER_S + NS_PER_MS;
    assert_int_equal(cv__delay_bound(&fresh, BOOT, fresh_at, 0, 0), NS_PER_MS);
    assert_int_equal(cv__delay_bound(&old, BOOT, old_at, 0, 0), NS_PER_MS);
    /* 10 s at 1e-4 on both clocks: 2 ms more. */
    assert_true(cv__delay_bound(&fresh, BOOT, fresh_at, DRIFT_PPB, 0) < NS_PER_MS + NS_PER_US);
    assert_true(cv__delay_bound(&old, BOOT, old_at, DRIFT_PPB, 0) > 3 * NS_PER_MS);
}

static void rounds_up_because_a_smaller_bound_would_be_a_lie(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(1, 1, 2);
    /* 10 ns (1 + 1e-4) rounds to 11, 1 ns (1 - 1e-4) to 0. */
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 11, DRIFT_PPB, 0), 11);
}

static void is_never_negative(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(1000, 1000, 1050);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 1050, 0, /* delay_ns_min= */ 500), 0);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 1020, 0, 0), 0); /* drift beyond its bound */
}

static void is_unknown_for_stamps_that_contradict_each_other(void **unused)
{
    (void)unused;
    const struct cv_stamp from_the_future = stamp_make(2000, 1000, 1050);
    const struct cv_stamp sent_before_received = stamp_make(1000, 2000, 1050);
    assert_int_equal(cv__delay_bound(&from_the_future, BOOT, 1500, 0, 0), CV_DELAY_UNKNOWN);
    assert_int_equal(cv__delay_bound(&sent_before_received, BOOT, 1500, 0, 0), CV_DELAY_UNKNOWN);
}

/* The clock begins anew at each boot: an instant of an earlier boot says nothing about this one. */
static void is_unknown_for_stamps_from_before_our_boot(void **unused)
{
    (void)unused;
    const struct cv_stamp stamp = stamp_make(1000, 77, 127);
    assert_int_equal(cv__delay_bound(&stamp, BOOT, 1500, 0, 0), 450);
    assert_int_equal(cv__delay_bound(&stamp, BOOT + 1, 1500, 0, 0), CV_DELAY_UNKNOWN);
}

/* Otherwise no frame of the new boot would ever be kept: all of them seem to be sent earlier. */
static void forgets_a_peer_that_has_booted_since(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    hear(&echo, BOOT, 500 * NS_PER_S, 2000);
    hear(&echo, BOOT + 1, NS_PER_S, 3000);
    assert_int_equal(echo.peer_sent_ns, NS_PER_S);
    assert_int_equal(echo.received_ns, 3000);
    assert_int_equal(echo.peer_boot, BOOT + 1);
}

/* A peer wrote these stamps: whatever they are, the result is a bound or unknown, never an
 * overflow. */
static void survives_any_stamps_that_a_peer_can_write(void **unused)
{
    (void)unused;
    const int64_t extremes[] = {INT64_MIN, -1, 0, 1, NS_PER_S, INT64_MAX};
    for (uint32_t a = 0; a < COUNT_OF(extremes); a++) {
        for (uint32_t b = 0; b < COUNT_OF(extremes); b++) {
            for (uint32_t c = 0; c < COUNT_OF(extremes); c++) {
                const struct cv_stamp stamp = stamp_make(extremes[a], extremes[b], extremes[c]);
                assert_true(cv__delay_bound(&stamp, BOOT, 2 * NS_PER_S, DRIFT_PPB, NS_PER_US) >= 0);
            }
        }
    }
}

static void remembers_the_first_frame(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    hear(&echo, BOOT, 1000, 2000);
    assert_int_equal(echo.peer_sent_ns, 1000);
    assert_int_equal(echo.received_ns, 2000);
}

static void prefers_the_faster_of_two_frames(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    hear(&echo, BOOT, 1000, 2000);
    hear(&echo, BOOT, 1100, 2500); /* took 400 longer */
    assert_int_equal(echo.peer_sent_ns, 1000);
    hear(&echo, BOOT, 1200, 2190); /* took 10 less than the first */
    assert_int_equal(echo.peer_sent_ns, 1200);
}

static void lets_an_excellent_old_frame_give_way_to_a_good_new_one(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    hear(&echo, BOOT, NS_PER_S, NS_PER_S);
    /* A hundred seconds later the old one is 20 ms worse by drift; this one took 1 ms longer. */
    hear(&echo, BOOT, 101 * NS_PER_S, 101 * NS_PER_S + NS_PER_MS);
    assert_int_equal(echo.peer_sent_ns, 101 * NS_PER_S);
}

static void ignores_a_frame_that_was_overtaken(void **unused)
{
    (void)unused;
    struct cv_echo echo = {0};
    hear(&echo, BOOT, 1100, 2100);
    hear(&echo, BOOT, 1000, 2200);
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
        cmocka_unit_test(is_unknown_for_stamps_that_contradict_each_other),
        cmocka_unit_test(is_unknown_for_stamps_from_before_our_boot),
        cmocka_unit_test(forgets_a_peer_that_has_booted_since),
        cmocka_unit_test(survives_any_stamps_that_a_peer_can_write),
        cmocka_unit_test(remembers_the_first_frame),
        cmocka_unit_test(prefers_the_faster_of_two_frames),
        cmocka_unit_test(lets_an_excellent_old_frame_give_way_to_a_good_new_one),
        cmocka_unit_test(ignores_a_frame_that_was_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
