/* tests/unit/test_detector.c - when silence becomes suspicion, for both detectors. */
#include "core/detector.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

#define TIMEOUT_NS (500 * NS_PER_MS)

static struct cv_detector detector_make(enum cv_detector_kind kind, uint32_t phi)
{
    struct cv_detector detector;
    memset(&detector, 0xa5, sizeof detector);
    cv__detector_init(&detector, kind, phi, /* least_ns= */ 0, TIMEOUT_NS);
    return detector;
}

/* Hears `count` heartbeats, each `gap_ns` after the one before. */
static void hear(struct cv_detector *detector, uint32_t count, int64_t gap_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        cv__detector_heard(detector, detector->heard_ns + gap_ns);
    }
}

/* How long it waits after the latest heartbeat. */
static int64_t wait_ns(const struct cv_detector *detector)
{
    return cv__detector_deadline(detector) - detector->heard_ns;
}

static void fixed_waits_for_its_timeout_after_each_heartbeat(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_FIXED, 8);
    cv__detector_reset(&d, NS_PER_S);
    assert_int_equal(cv__detector_deadline(&d), NS_PER_S + TIMEOUT_NS);
    hear(&d, 100, 7 * NS_PER_MS);
    assert_int_equal(cv__detector_deadline(&d), NS_PER_S + 700 * NS_PER_MS + TIMEOUT_NS);
}

static void phi_waits_for_the_timeout_until_it_has_seen_four_gaps(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, 8);
    cv__detector_reset(&d, NS_PER_S);
    for (uint32_t gaps = 0; gaps < 4; gaps++) {
        assert_int_equal(wait_ns(&d), TIMEOUT_NS);
        hear(&d, 1, 10 * NS_PER_MS);
    }
    assert_true(wait_ns(&d) < TIMEOUT_NS);
}

static void phi_follows_the_pace_of_the_heartbeats(void **unused)
{
    (void)unused;
    struct cv_detector slow = detector_make(CV_DETECTOR_PHI, 8);
    struct cv_detector fast = slow;
    hear(&slow, 20, 100 * NS_PER_MS);
    hear(&fast, 20, 10 * NS_PER_MS);
    assert_true(wait_ns(&fast) > 10 * NS_PER_MS);
    assert_true(wait_ns(&slow) > 100 * NS_PER_MS);
    assert_true(wait_ns(&fast) < wait_ns(&slow));
}

/* [Hayashibara04, sec. 4] phi is -log10 of the probability that the heartbeat still comes: with
 * gaps of mean 1 s and deviation 0.1 s the deadline tells z, and z must have that tail. */
static void phi_waits_until_the_tail_of_the_normal_distribution_is_small_enough(void **unused)
{
    (void)unused;
    for (uint32_t phi = 1; phi <= DETECTOR_PHI_MAX; phi++) {
        struct cv_detector d;
        cv__detector_init(&d, CV_DETECTOR_PHI, phi, /* least_ns= */ 0,
                          /* timeout_ns= */ 10 * NS_PER_S);
        cv__detector_reset(&d, NS_PER_S);
        for (uint32_t i = 0; i < DETECTOR_GAPS / 2; i++) {
            hear(&d, 1, 900 * NS_PER_MS);
            hear(&d, 1, 1100 * NS_PER_MS);
        }
        const double z = (double)(wait_ns(&d) - NS_PER_S) / (0.1 * (double)NS_PER_S);
        const double tail = 0.5 * erfc(z / sqrt(2.0));
        assert_true(fabs(-log10(tail) - phi) < 0.01);
    }
}

static void phi_waits_longer_when_the_gaps_vary_more(void **unused)
{
    (void)unused;
    struct cv_detector regular = detector_make(CV_DETECTOR_PHI, 4);
    struct cv_detector irregular = regular;
    cv__detector_reset(&regular, NS_PER_S);
    cv__detector_reset(&irregular, NS_PER_S);
    for (uint32_t i = 0; i < 10; i++) {
        hear(&regular, 2, 100 * NS_PER_MS);
        hear(&irregular, 1, 20 * NS_PER_MS);
        hear(&irregular, 1, 180 * NS_PER_MS);
    }
    assert_true(wait_ns(&irregular) > wait_ns(&regular));
}

static void phi_does_not_believe_in_perfect_regularity(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, 1);
    hear(&d, 40, 100 * NS_PER_MS);
    /* A tenth of the mean as deviation, times z(1) = 1.282. */
    assert_int_equal(wait_ns(&d), 100 * NS_PER_MS + 12820 * NS_PER_US);
}

static void phi_never_waits_longer_than_twice_the_timeout(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, DETECTOR_PHI_MAX);
    hear(&d, 40, 100 * TIMEOUT_NS);
    assert_int_equal(wait_ns(&d), 2 * TIMEOUT_NS);
}

static void phi_forgets_all_but_the_latest_gaps(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, 8);
    struct cv_detector fresh = d;
    hear(&d, 100, 900 * NS_PER_MS);
    hear(&d, DETECTOR_GAPS, 10 * NS_PER_MS);
    cv__detector_reset(&fresh, NS_PER_S);
    hear(&fresh, DETECTOR_GAPS, 10 * NS_PER_MS);
    assert_int_equal(wait_ns(&d), wait_ns(&fresh));
}

static void learns_anew_when_it_watches_somebody_else(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, 8);
    hear(&d, 100, 10 * NS_PER_MS);
    cv__detector_reset(&d, 5 * NS_PER_S);
    assert_int_equal(cv__detector_deadline(&d), 5 * NS_PER_S + TIMEOUT_NS);

    /* Not one byte of the predecessor stays: equal states have equal bytes. */
    struct cv_detector fresh = detector_make(CV_DETECTOR_PHI, 8);
    cv__detector_reset(&fresh, 5 * NS_PER_S);
    assert_memory_equal(&d, &fresh, sizeof d);
}

static void takes_several_heartbeats_at_one_instant(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, 8);
    cv__detector_reset(&d, NS_PER_S);
    hear(&d, 50, 0); /* a node that wakes from a pause gets them all at once */
    assert_true(cv__detector_deadline(&d) >= d.heard_ns);
}

static void waits_for_gaps_of_centuries_without_overflow(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_PHI, DETECTOR_PHI_MAX);
    cv__detector_reset(&d, 1);
    hear(&d, 1, INT64_MAX / 4);
    hear(&d, 4, 1);
    hear(&d, 1, INT64_MAX / 4);
    assert_true(cv__detector_deadline(&d) > d.heard_ns);
}

static void trips_when_time_goes_back(void **unused)
{
    (void)unused;
    struct cv_detector d = detector_make(CV_DETECTOR_FIXED, 8);
    cv__detector_reset(&d, NS_PER_S);
    assert_trips(cv__detector_heard(&d, NS_PER_S - 1));
}

static void trips_on_thresholds_and_timeouts_out_of_range(void **unused)
{
    (void)unused;
    struct cv_detector d;
    assert_trips(cv__detector_init(&d, CV_DETECTOR_PHI, 0, 0, TIMEOUT_NS));
    assert_trips(cv__detector_init(&d, CV_DETECTOR_PHI, DETECTOR_PHI_MAX + 1, 0, TIMEOUT_NS));
    assert_trips(cv__detector_init(&d, CV_DETECTOR_PHI, 8, 0, 0));
}

/* However regular the heartbeats are, a living sender may still be as late as the assumed delay. */
static void phi_never_suspects_before_the_longest_gap_that_a_living_sender_causes(void **unused)
{
    (void)unused;
    const int64_t least_ns = 80 * NS_PER_MS;
    struct cv_detector d;
    cv__detector_init(&d, CV_DETECTOR_PHI, /* phi= */ 1, least_ns, TIMEOUT_NS);
    cv__detector_reset(&d, NS_PER_S);
    int64_t now_ns = NS_PER_S;
    for (int i = 0; i < 40; i++) {
        now_ns += 10 * NS_PER_MS;
        cv__detector_heard(&d, now_ns);
    }
    assert_int_equal(cv__detector_deadline(&d), now_ns + least_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phi_never_suspects_before_the_longest_gap_that_a_living_sender_causes),
        cmocka_unit_test(fixed_waits_for_its_timeout_after_each_heartbeat),
        cmocka_unit_test(phi_waits_for_the_timeout_until_it_has_seen_four_gaps),
        cmocka_unit_test(phi_follows_the_pace_of_the_heartbeats),
        cmocka_unit_test(phi_waits_until_the_tail_of_the_normal_distribution_is_small_enough),
        cmocka_unit_test(phi_waits_longer_when_the_gaps_vary_more),
        cmocka_unit_test(phi_does_not_believe_in_perfect_regularity),
        cmocka_unit_test(phi_never_waits_longer_than_twice_the_timeout),
        cmocka_unit_test(phi_forgets_all_but_the_latest_gaps),
        cmocka_unit_test(learns_anew_when_it_watches_somebody_else),
        cmocka_unit_test(takes_several_heartbeats_at_one_instant),
        cmocka_unit_test(waits_for_gaps_of_centuries_without_overflow),
        cmocka_unit_test(trips_when_time_goes_back),
        cmocka_unit_test(trips_on_thresholds_and_timeouts_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
