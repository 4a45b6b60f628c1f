/* tests/unit/test_drift.c - the drift between two clocks, measured from frames with varying
 * delays. */
#include "net/drift.h"
#include "support/support.h"

#define MS INT64_C(1000000)

/* Frames for 10 minutes, every 10 ms, with delays between 1 and 8 ms each way. */
static int64_t seen_ppb(int64_t true_ppb)
{
    struct cv_drift drift = {0};
    for (int64_t i = 0; i < 60000; i++) {
        const int64_t there_ns = MS + i * 7919 % (7 * MS), back_ns = MS + i * 104729 % (7 * MS);
        const int64_t sent_ns = i * 10 * MS;
        const int64_t peer_ns = 77777 * MS + sent_ns + sent_ns / 1000 * true_ppb / 1000000;
        cv__drift_add(&drift, sent_ns + back_ns, peer_ns, there_ns + back_ns);
    }
    return cv__drift_ppb(&drift);
}

static void drift_is_found_within_a_millionth_or_two(void **unused)
{
    (void)unused;
    static const int64_t ppb[] = {0, 50000, -50000, 200000};
    for (uint32_t i = 0; i < COUNT_OF(ppb); i++) {
        const int64_t off = seen_ppb(ppb[i]) - ppb[i];
        if (off < -2000 || off > 2000) {
            fail_msg("%lld ppb is seen as %lld", (long long)ppb[i], (long long)seen_ppb(ppb[i]));
        }
    }
}

static void no_drift_is_reported_before_there_are_two_windows(void **unused)
{
    (void)unused;
    struct cv_drift drift = {0};
    assert_true(cv__drift_ppb(&drift) == CV_DRIFT_UNKNOWN);
    for (int64_t at_ns = 0; at_ns < 2 * CV_DRIFT_WINDOW_NS; at_ns += 10 * MS) {
        cv__drift_add(&drift, at_ns, at_ns, MS);
        assert_true(cv__drift_ppb(&drift) == CV_DRIFT_UNKNOWN);
    }
    cv__drift_add(&drift, 2 * CV_DRIFT_WINDOW_NS, 2 * CV_DRIFT_WINDOW_NS, MS);
    assert_int_equal(cv__drift_ppb(&drift), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drift_is_found_within_a_millionth_or_two),
        cmocka_unit_test(no_drift_is_reported_before_there_are_two_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
