/* tests/paper/test_pole_scores.c - what `pole` measures, how it chooses by that, resigning in
 * favour of a better process, and configurations that do not work: docs/pole.md. One core; the test
 * plays the others. */
#include "protocols/pole.h"
#include "support/solo.h"
#include "support/support.h"

#include <stdio.h>

#define ROUND_NS (10 * NS_PER_MS)
#define PERIOD_NS (100 * NS_PER_MS)
#define PATIENCE_NS (3 * PERIOD_NS + 4 * NS_PER_MS) /* three periods and 2 delta */
#define NOTHING "ECHO of {peer} measures nothing: late, repeated or not ours"

/* The first of two, which elects by latency and waits up to a second for its measurements. */
static struct solo *one_of_two(void)
{
    return solo_new("pole", 1, 2, "oracle=latency probe=100ms first-wait=1s");
}

static void echo(struct solo *s, cv_id from, int64_t stamp_ns, uint64_t history)
{
    solo_draft(s, "ECHO");
    solo_put(s, "stamp", (uint64_t)stamp_ns);
    solo_put(s, "history", history);
    solo_hear(s, from, 0);
}

/* The score that it proposes for itself; it is sent as its value + 1, 0 being unknown. */
static void assert_scores(const struct solo *s, const char *type, int64_t score)
{
    const struct cv_message *message = solo_said(s, type);
    assert_non_null(message);
    assert_int_equal((int64_t)solo_field(s, message, "score_1") - 1, score);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void an_echo_measures_the_round_trip_once(void **unused)
{
    (void)unused;
    struct solo *s = one_of_two();
    const int64_t stamp_ns = s->now_ns;
    assert_int_equal(solo_field(s, solo_said(s, "PROBE"), "stamp"), stamp_ns);
    s->now_ns += 7 * NS_PER_MS;
    echo(s, 2, stamp_ns, 0);
    assert_scores(s, "PROPOSE", 7 * NS_PER_MS); /* all scores are known: the election begins */
    echo(s, 2, stamp_ns, 0);
    (void)solo_noted(s, NOTHING);
    solo_free(s);
}

static void a_later_echo_moves_the_mean_by_an_eighth(void **unused)
{
    (void)unused;
    struct solo *s = one_of_two();
    const int64_t stamp_ns = s->now_ns;
    s->now_ns += 7 * NS_PER_MS;
    echo(s, 2, stamp_ns, 0);
    /* The next probe comes soon, because it was not ready then. */
    s->now_ns = stamp_ns + 10 * NS_PER_MS;
    s->timer_ns[POLE_TIMER_PROBE] = 0;
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = POLE_TIMER_PROBE});
    assert_scores(s, "PROBE", 7 * NS_PER_MS);
    s->now_ns += 15 * NS_PER_MS;
    echo(s, 2, stamp_ns + 10 * NS_PER_MS, 0);
    s->now_ns = stamp_ns + 110 * NS_PER_MS;
    s->timer_ns[POLE_TIMER_PROBE] = 0;
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = POLE_TIMER_PROBE});
    assert_scores(s, "PROBE", 8 * NS_PER_MS);
    solo_free(s);
}

static void an_echo_without_a_probe_of_ours_measures_nothing(void **unused)
{
    (void)unused;
    struct solo *s = one_of_two();
    const int64_t stamps_ns[] = {0, 1, s->now_ns - 1, s->now_ns + 1, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(stamps_ns); i++) {
        s->now_ns += NS_PER_US;
        echo(s, 2, stamps_ns[i], 0);
        (void)solo_noted(s, NOTHING);
        assert_null(solo_said(s, "PROPOSE"));
    }
    solo_free(s);
    s = solo_new("pole", 1, 2, ""); /* one that probes nobody */
    echo(s, 2, 0, 0);
    (void)solo_noted(s, NOTHING);
    echo(s, 2, s->now_ns, 0);
    (void)solo_noted(s, NOTHING);
    solo_free(s);
}

static void an_echo_that_comes_too_late_measures_nothing(void **unused)
{
    (void)unused;
    for (int64_t late_ns = 0; late_ns <= 1; late_ns++) {
        struct solo *s = one_of_two();
        const int64_t stamp_ns = s->now_ns;
        solo_pause(s, PATIENCE_NS + late_ns);
        echo(s, 2, stamp_ns, 0);
        assert_int_equal(solo_said(s, "PROPOSE") != NULL, late_ns == 0);
        solo_free(s);
    }
}

static const struct cv_effect *armed(const struct solo *s, uint32_t timer)
{
    const struct cv_effect *found = NULL;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        found = e->kind == CV_EFFECT_ARM && e->timer == timer ? e : found;
    }
    assert_non_null(found);
    return found;
}

/* Heartbeats are every 10 ms here. */
static void probes_are_frequent_until_the_first_scores_are_known(void **unused)
{
    (void)unused;
    struct solo *s = one_of_two();
    const int64_t stamp_ns = s->now_ns;
    assert_int_equal(armed(s, POLE_TIMER_PROBE)->latest_ns, stamp_ns + 10 * NS_PER_MS);
    assert_int_equal(armed(s, POLE_TIMER_PROBE)->earliest_ns, stamp_ns + 8750 * NS_PER_US);
    s->now_ns += NS_PER_MS;
    echo(s, 2, stamp_ns, 0);
    s->now_ns = stamp_ns + 10 * NS_PER_MS;
    s->timer_ns[POLE_TIMER_PROBE] = 0;
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = POLE_TIMER_PROBE});
    assert_int_equal(armed(s, POLE_TIMER_PROBE)->latest_ns, s->now_ns + PERIOD_NS);
    assert_int_equal(armed(s, POLE_TIMER_PROBE)->earliest_ns, s->now_ns + PERIOD_NS * 7 / 8);
    solo_free(s);
}

/* A process that follows a leader before its own scores are known begins no election when they
 * are. */
static void scores_that_come_late_start_no_election_under_a_leader(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "oracle=latency");
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "epoch", 4);
    solo_put(s, "seq", 1);
    solo_put(s, "established", 1);
    solo_put(s, "token", 4);
    solo_put(s, "lease", 50 * NS_PER_MS);
    solo_put(s, "quorate", 1);
    solo_hear(s, 2, 0);
    assert_int_equal(s->leader, 2);
    assert_int_not_equal(s->timer_ns[POLE_TIMER_BACK], 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = POLE_TIMER_BACK});
    assert_null(solo_said(s, "PROPOSE"));
    assert_int_equal(s->leader, 2);
    solo_free(s);
}

/* Both peers answer after 10 ms and have 10 units of 100 bytes that this one misses: 10 ms to ask a
 * quorum, 10 ms and the transfer to fetch them, 10 ms until a quorum has confirmed that it has
 * all. */
static int64_t recovery_ns(const char *options)
{
    char text[200];
    (void)snprintf(text, sizeof text,
                   "oracle=recovery first-wait=1s probe=100ms history-unit=100 %s", options);
    struct solo *s = solo_new("pole", 1, 3, text);
    const int64_t stamp_ns = s->now_ns;
    s->now_ns += 10 * NS_PER_MS;
    echo(s, 2, stamp_ns, 10);
    echo(s, 3, stamp_ns, 10);
    const struct cv_message *propose = solo_said(s, "PROPOSE");
    assert_non_null(propose);
    const int64_t score_ns = (int64_t)solo_field(s, propose, "score_1") - 1;
    solo_free(s);
    return score_ns;
}

static void a_transfer_is_limited_by_window_and_bandwidth(void **unused)
{
    (void)unused;
    assert_int_equal(recovery_ns("window=10000 bandwidth=100000000"), 31 * NS_PER_MS);
    assert_int_equal(recovery_ns("window=10000000 bandwidth=500000"), 32 * NS_PER_MS);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void propose(struct solo *s, cv_id from, uint64_t epoch, cv_id best, uint64_t score_1)
{
    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heard", 1);
    solo_put(s, "id", best);
    solo_put(s, "quorate", 1);
    solo_put(s, "score_1", score_1);
    solo_hear(s, from, 0);
}

static void votes_of_an_earlier_epoch_are_forgotten(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "");
    solo_draft(s, "VOTE");
    solo_put(s, "epoch", 1);
    solo_put(s, "leader", 3);
    solo_hear(s, 3, 0);
    propose(s, 2, 5, 2, 1); /* a new epoch */
    solo_draft(s, "VOTE");
    solo_put(s, "epoch", 1);
    solo_put(s, "leader", 3);
    solo_hear(s, 2, 0);
    /* The vote of 3 itself is forgotten: 3 is not chosen. */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], 0);
    solo_free(s);
}

/* Its round ended with itself as the best, but it is not a candidate; then it hears of a better
 * one. */
static void a_process_that_does_not_claim_chooses_another_at_the_next_retry(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 3, 5, "");
    solo_step(s, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    propose(s, 1, 1, 3, 100);
    propose(s, 2, 1, 3, 100);
    const int64_t elect_ns = s->timer_ns[POLE_TIMER_ELECT];
    assert_int_not_equal(elect_ns, 0);
    solo_wait_until(s, elect_ns);
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], 0);
    propose(s, 2, 1, 2, 200);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], 0); /* 4 and 5 may still propose */
    solo_wait_until(s, s->timer_ns[POLE_TIMER_RETRY]);
    assert_int_not_equal(s->timer_ns[POLE_TIMER_SILENCE], 0); /* 2 is chosen */
    solo_free(s);
}

static void proposals_are_repeated_with_a_capped_back_off(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "");
    int64_t last_ns = s->now_ns;
    const int64_t pauses[] = {ROUND_NS, 2 * ROUND_NS, 4 * ROUND_NS, 4 * ROUND_NS, 4 * ROUND_NS};
    for (uint32_t i = 0; i < COUNT_OF(pauses); i++) {
        (void)solo_await(s, "PROPOSE", NS_PER_S);
        assert_int_equal(s->now_ns - last_ns, pauses[i] + pauses[i] / 8);
        last_ns = s->now_ns;
    }
    solo_free(s);
}

/* ---- resigning in favour of a better one ----------------------------------------------------- */

/* Process 1 follows the heartbeat of the latest step, if there was one. */
static void follow_latest(struct solo *s)
{
    const struct cv_message *beat = solo_said(s, "HEARTBEAT");
    if (beat != NULL) {
        const uint64_t epoch = solo_field(s, beat, "epoch");
        const uint64_t seq = solo_field(s, beat, "seq");
        solo_draft(s, "FOLLOW");
        solo_put(s, "epoch", epoch);
        solo_put(s, "seq", seq);
        solo_hear(s, 1, 0);
    }
}

/* The leader knows of the better one before its leadership begins, but still waits for
 * `resign-hold`, counted from its first probe as leader: no less and not much more. */
static void a_leader_resigns_to_one_that_was_better_for_the_whole_hold(void **unused)
{
    (void)unused;
    struct solo *s =
        solo_new("pole", 3, 3, "oracle=reported resign-margin=10 resign-hold=300ms probe=100ms");
    echo(s, 1, s->now_ns, 0); /* its score is known when the leader first compares */
    solo_draft(s, "PROBE");
    solo_put(s, "score_1", 101);
    solo_hear(s, 1, 0);
    propose(s, 1, 1, 1, 1);
    propose(s, 2, 1, 2, 1);
    follow_latest(s);
    assert_int_equal(s->leader, 3);
    const int64_t probe_ns = s->timer_ns[POLE_TIMER_PROBE];
    assert_true(probe_ns > s->now_ns);
    while (s->leader == 3) {
        follow_latest(s);
        s->now_ns += NS_PER_US;
        echo(s, 1, s->timer_ns[POLE_TIMER_PROBE] - PERIOD_NS, 0);
        solo_wait_until(s, (s->now_ns / NS_PER_MS + 1) * NS_PER_MS);
        assert_true(s->now_ns < probe_ns + NS_PER_S);
    }
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    assert_int_equal(solo_field(s, solo_said(s, "RELEASE"), "heir"), 1);
    assert_in_range(s->now_ns - probe_ns, 300 * NS_PER_MS, 450 * NS_PER_MS);
    solo_free(s);
}

/* ---- configurations -------------------------------------------------------------------------- */

static void refuses(const char *name, const char *value, int code, const char *why)
{
    struct cv_config config;
    struct cv_errtext error = {""};
    const struct cv_protocol *pole = cv_protocol_find("pole");
    cv_config_init(&config, pole, 1, 3);
    assert_int_equal(cv_config_set(&config, pole, name, value, NULL), CV_OK);
    assert_int_equal(cv_core_configure(pole, &config, &error), code);
    if (why != NULL) {
        assert_string_equal(error.text, why);
    }
}

static void constants_at_the_bound_are_accepted(void **unused)
{
    (void)unused;
    solo_free(solo_new("pole", 1, 3, "delta=1ms sigma=1ms heartbeat=10ms timeout=22ms round=4ms"));
    solo_free(solo_new("pole", 1, 3, "delta=1ms sigma=1ms heartbeat=10ms lease=23005us"));
    solo_free(solo_new("pole", 1, 3, "round=10ms retry-max=10ms"));
    solo_free(solo_new("pole", 1, 3, "delta=27500us sigma=1ms heartbeat=1ms"));
}

/* Constants of the lan profile: delta and sigma 2 ms, heartbeat 10 ms, round 10 ms. */
static void times_that_do_not_work_are_refused_with_their_numbers(void **unused)
{
    (void)unused;
    refuses("lease", "26005202ns", CV_E_INVALID,
            "lease(1-2rho) > 2 heartbeat + 2 delta + sigma does not hold: 26ms against 26ms");
    solo_free(solo_new("pole", 1, 3, "lease=26005203ns"));
    refuses("timeout", "23999999ns", CV_E_INVALID,
            "timeout >= 2 heartbeat + delta + sigma does not hold: 23.999999ms against 24ms");
    refuses("round", "7999999ns", CV_E_INVALID,
            "round >= 3 delta + sigma does not hold: 7.999999ms against 8ms");
    refuses("retry-max", "9999999ns", CV_E_INVALID,
            "retry-max >= round does not hold: 9.999999ms against 10ms");
    refuses("delta", "280ms", CV_E_INVALID,
            "2 delta + sigma <= 56 heartbeat does not hold: 562ms against 560ms");
}

static void unknown_oracles_and_orders_are_refused(void **unused)
{
    (void)unused;
    refuses("oracle", "nonsense", CV_E_UNKNOWN, NULL);
    refuses("preference", "1,4", CV_E_INVALID, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_echo_measures_the_round_trip_once),
        cmocka_unit_test(a_later_echo_moves_the_mean_by_an_eighth),
        cmocka_unit_test(an_echo_without_a_probe_of_ours_measures_nothing),
        cmocka_unit_test(an_echo_that_comes_too_late_measures_nothing),
        cmocka_unit_test(probes_are_frequent_until_the_first_scores_are_known),
        cmocka_unit_test(scores_that_come_late_start_no_election_under_a_leader),
        cmocka_unit_test(a_transfer_is_limited_by_window_and_bandwidth),
        cmocka_unit_test(votes_of_an_earlier_epoch_are_forgotten),
        cmocka_unit_test(a_process_that_does_not_claim_chooses_another_at_the_next_retry),
        cmocka_unit_test(proposals_are_repeated_with_a_capped_back_off),
        cmocka_unit_test(a_leader_resigns_to_one_that_was_better_for_the_whole_hold),
        cmocka_unit_test(constants_at_the_bound_are_accepted),
        cmocka_unit_test(times_that_do_not_work_are_refused_with_their_numbers),
        cmocka_unit_test(unknown_oracles_and_orders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
