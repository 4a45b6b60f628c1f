/* tests/unit/test_schedule.c - when a command is told, and forced, to stop. */
#include "supervisor/schedule.h"
#include "support/support.h"

#define DEADLINE (100 * NS_PER_S)

static void the_margin_follows_the_grace_within_bounds(void **unused)
{
    (void)unused;
    assert_int_equal(cv__schedule(0, 0, 0).margin_ns, CV_MARGIN_NS_MIN);
    assert_int_equal(cv__schedule(200 * NS_PER_MS, 0, 0).margin_ns, 50 * NS_PER_MS);
    assert_int_equal(cv__schedule(60 * NS_PER_S, 0, 0).margin_ns, CV_MARGIN_NS_MAX);
    assert_int_equal(cv__schedule(60 * NS_PER_S, 0, 7).margin_ns, 7);
}

static void the_grace_leaves_time_for_a_renewal(void **unused)
{
    (void)unused;
    assert_int_equal(cv__schedule_grace_ns(5 * NS_PER_S), 2 * NS_PER_S);
    assert_int_equal(cv__schedule_grace_ns(60 * NS_PER_S), CV_GRACE_NS_DEFAULT);
    assert_int_equal(cv__schedule_grace_ns(NS_PER_S), 400 * NS_PER_MS);
    assert_int_equal(cv__schedule_grace_ns_max(60 * NS_PER_S), 24 * NS_PER_S);
}

static void sigterm_comes_one_grace_before_the_deadline(void **unused)
{
    (void)unused;
    const struct cv_schedule mild = cv__schedule(2 * NS_PER_S, 0, 0);
    const struct cv_schedule none = cv__schedule(0, 0, 0);
    assert_int_equal(cv__schedule_term_ns(&mild, DEADLINE), DEADLINE - 2 * NS_PER_S);
    assert_int_equal(cv__schedule_term_ns(&none, DEADLINE), DEADLINE - CV_MARGIN_NS_MIN);
}

static void sigkill_comes_after_the_grace_or_before_the_deadline(void **unused)
{
    (void)unused;
    const struct cv_schedule s = cv__schedule(2 * NS_PER_S, 0, 0);
    const int64_t early = DEADLINE - 10 * NS_PER_S;
    assert_int_equal(cv__schedule_kill_ns(&s, DEADLINE, early), early + 2 * NS_PER_S);
    assert_int_equal(cv__schedule_kill_ns(&s, DEADLINE, DEADLINE - NS_PER_S),
                     DEADLINE - s.margin_ns);
    assert_int_equal(cv__schedule_kill_ns(&s, DEADLINE, CV_NEVER_NS), DEADLINE - s.margin_ns);
}

static void the_cleanup_has_its_time_between_sigkill_and_the_margin(void **unused)
{
    (void)unused;
    const struct cv_schedule s = cv__schedule(NS_PER_S, 3 * NS_PER_S, 0);
    assert_int_equal(cv__schedule_term_ns(&s, DEADLINE), DEADLINE - 4 * NS_PER_S);
    assert_int_equal(cv__schedule_kill_ns(&s, DEADLINE, CV_NEVER_NS),
                     DEADLINE - s.margin_ns - 3 * NS_PER_S);
    assert_int_equal(cv__schedule_rescue_ns(&s, CV_NEVER_NS, 0), 4 * NS_PER_S + CV_PATIENCE_NS);
}

static void the_rescue_is_after_sigkill_and_before_the_deadline(void **unused)
{
    (void)unused;
    uint64_t seed = 1;
    for (uint32_t i = 0; i < test_scale(1000); i++) {
        const struct cv_schedule s = cv__schedule(test_random_below(&seed, 1000) * NS_PER_MS, 0, 0);
        const int64_t stop_ns = test_random_below(&seed, 2) == 0
                                    ? CV_NEVER_NS
                                    : DEADLINE - test_random_below(&seed, 5000) * NS_PER_MS;
        const int64_t kill_ns = cv__schedule_kill_ns(&s, DEADLINE, stop_ns);
        const int64_t rescue_ns = cv__schedule_rescue_ns(&s, DEADLINE, stop_ns);
        assert_true(cv__schedule_term_ns(&s, DEADLINE) <= DEADLINE - s.margin_ns);
        assert_true(kill_ns < rescue_ns);
        assert_true(rescue_ns < DEADLINE);
    }
}

static void no_deadline_is_never(void **unused)
{
    (void)unused;
    const struct cv_schedule s = cv__schedule(2 * NS_PER_S, 0, 0);
    assert_int_equal(cv__schedule_term_ns(&s, CV_NEVER_NS), CV_NEVER_NS);
    assert_int_equal(cv__schedule_kill_ns(&s, CV_NEVER_NS, CV_NEVER_NS), CV_NEVER_NS);
    assert_int_equal(cv__schedule_rescue_ns(&s, CV_NEVER_NS, CV_NEVER_NS), CV_NEVER_NS);
    assert_int_equal(cv__schedule_kill_ns(&s, CV_NEVER_NS, 5), 5 + 2 * NS_PER_S);
}

static void the_beginning_of_time_does_not_wrap_around(void **unused)
{
    (void)unused;
    const struct cv_schedule s = cv__schedule(2 * NS_PER_S, 0, 0);
    assert_int_equal(cv__schedule_term_ns(&s, INT64_MIN + 1), INT64_MIN);
    assert_int_equal(cv__schedule_kill_ns(&s, CV_NEVER_NS, CV_NEVER_NS - 1), CV_NEVER_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_margin_follows_the_grace_within_bounds),
        cmocka_unit_test(the_grace_leaves_time_for_a_renewal),
        cmocka_unit_test(sigterm_comes_one_grace_before_the_deadline),
        cmocka_unit_test(sigkill_comes_after_the_grace_or_before_the_deadline),
        cmocka_unit_test(the_cleanup_has_its_time_between_sigkill_and_the_margin),
        cmocka_unit_test(the_rescue_is_after_sigkill_and_before_the_deadline),
        cmocka_unit_test(no_deadline_is_never),
        cmocka_unit_test(the_beginning_of_time_does_not_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
