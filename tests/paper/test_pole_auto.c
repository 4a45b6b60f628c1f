/* tests/paper/test_pole_auto.c - profile=auto of `pole`, rule by rule: src/protocols/pole_tune.c.
 *
 * One core of three; the test plays the others. It begins with lease-max, 1 s; its clock may drift
 * by 100 ppm, so a leader counts 1 s as 1 s less 200 us. The nonce of the core is 0. */
#include "core/errors.h"
#include "protocols/pole.h"
#include "protocols/pole_config.h"
#include "support/solo.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#define LEASE_NS_MAX NS_PER_S
#define LEASE_NS_MIN (10 * NS_PER_MS)
#define LEAD_NS(lease) ((lease) - (lease) / 5000 - 1)

static void propose(struct solo *s, cv_id from, uint64_t epoch, cv_id best)
{
    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heard", 1);
    solo_put(s, "id", best);
    solo_put(s, "quorate", 1);
    solo_put(s, "score_1", 1);
    solo_hear(s, from, 0);
}

static void follow(struct solo *s, cv_id from, uint64_t seq, int64_t late_ns)
{
    solo_draft(s, "FOLLOW");
    solo_put(s, "epoch", 1);
    solo_put(s, "seq", seq);
    solo_put(s, "late", (uint64_t)late_ns);
    solo_hear(s, from, 0);
}

static void heartbeat(struct solo *s, cv_id from, uint64_t epoch, int64_t lease_ns)
{
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "epoch", epoch);
    solo_put(s, "nonce", 77);
    solo_put(s, "seq", 5);
    solo_put(s, "established", 1);
    solo_put(s, "token", epoch);
    solo_put(s, "lease", (uint64_t)lease_ns);
    solo_put(s, "beat", (uint64_t)lease_ns / 8);
    solo_put(s, "quorate", 1);
    solo_hear(s, from, 0);
}

static struct solo *leader(void)
{
    struct solo *s = solo_new("pole", 3, 3, "profile=auto");
    propose(s, 1, 1, 1);
    propose(s, 2, 1, 2);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    assert_int_equal(solo_field(s, solo_said(s, "HEARTBEAT"), "lease"), LEASE_NS_MAX);
    follow(s, 1, 1, 0);
    assert_int_equal(s->leader, 3);
    return s;
}

/* Waits for the next heartbeat, and returns its lease. */
static int64_t next_lease_ns(struct solo *s)
{
    return (int64_t)solo_field(s, solo_await(s, "HEARTBEAT", NS_PER_S), "lease");
}

/* For `ns`, both others answer every heartbeat `trip_ns` after it was sent. Returns the last lease
 * that was sent. */
static int64_t answer_for(struct solo *s, int64_t ns, int64_t trip_ns, int64_t late_ns)
{
    const int64_t until_ns = s->now_ns + ns;
    int64_t lease_ns = 0;
    while (s->now_ns < until_ns) {
        const struct cv_message *beat = solo_await(s, "HEARTBEAT", NS_PER_S);
        const uint64_t seq = solo_field(s, beat, "seq");
        lease_ns = (int64_t)solo_field(s, beat, "lease");
        assert_true((int64_t)solo_field(s, beat, "beat") <= lease_ns / 5);
        s->now_ns += trip_ns;
        follow(s, 1, seq, late_ns);
        follow(s, 2, seq, 0);
        assert_int_equal(s->leader, 3);
    }
    return lease_ns;
}

static void a_leader_narrows_by_a_sixteenth_in_a_second(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    const int64_t first_ns = answer_for(s, 1100 * NS_PER_MS, NS_PER_US, 0);
    assert_int_equal(first_ns, LEASE_NS_MAX - LEASE_NS_MAX / 16);
    assert_in_range(answer_for(s, 10 * NS_PER_S, NS_PER_US, 0), first_ns / 3, first_ns * 2 / 3);
    assert_int_equal(answer_for(s, 120 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    solo_free(s);
}

static void round_trips_and_lateness_keep_it_wider(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_in_range(answer_for(s, 120 * NS_PER_S, 4 * NS_PER_MS, 3 * NS_PER_MS),
                    (2 * 4 + 5 * 3) * NS_PER_MS, (2 * 4 + 5 * 3 + 1) * NS_PER_MS);
    solo_free(s);
}

static void it_widens_at_once_and_at_most_twofold_in_a_lease(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_int_equal(answer_for(s, 120 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    solo_pause(s, 6500 * NS_PER_US); /* its heartbeat is 4.5 ms late */
    assert_int_equal(next_lease_ns(s), 2 * LEASE_NS_MIN);
    assert_int_equal(next_lease_ns(s), 2 * LEASE_NS_MIN);
    solo_free(s);
}

static void lateness_of_a_follower_widens_it(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_int_equal(answer_for(s, 120 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    assert_in_range(answer_for(s, 100 * NS_PER_MS, NS_PER_US, 6 * NS_PER_MS), 25 * NS_PER_MS,
                    31 * NS_PER_MS);
    solo_free(s);
}

static void old_measurements_fade(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_true(answer_for(s, 120 * NS_PER_S, 30 * NS_PER_MS, 0) >= 60 * NS_PER_MS);
    assert_int_equal(answer_for(s, 400 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    solo_free(s);
}

/* For two minutes, one of `part` heartbeats is answered; with `is_lost`, all but that one. Returns
 * the last lease. */
static int64_t answer_one_of(struct solo *s, uint64_t part, bool is_lost, int64_t *ret_beat_ns)
{
    int64_t lease_ns = 0;
    const int64_t until_ns = s->now_ns + 120 * NS_PER_S;
    while (s->now_ns < until_ns) {
        const struct cv_message *beat = solo_await(s, "HEARTBEAT", NS_PER_S);
        const uint64_t seq = solo_field(s, beat, "seq");
        lease_ns = (int64_t)solo_field(s, beat, "lease");
        *ret_beat_ns = (int64_t)solo_field(s, beat, "beat");
        if ((seq % part == 0) != is_lost) {
            follow(s, 1, seq, 0);
            follow(s, 2, seq, 0);
        }
    }
    return lease_ns;
}

/* The lease makes room for more heartbeats: for 24 instead of at most 8. */
static void losses_widen_it(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    int64_t beat_ns;
    assert_in_range(answer_one_of(s, 2, false, &beat_ns), 2 * LEASE_NS_MIN, 3 * LEASE_NS_MIN);
    assert_int_equal(answer_one_of(s, 4, false, &beat_ns), 24 * LEASE_NS_MIN / 8);
    solo_free(s);
}

/* One in twelve is lost: six or seven heartbeats must fit into a lease, and there is room for
 * them. */
static void a_few_losses_make_it_beat_more_often(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    int64_t beat_ns;
    (void)answer_for(s, 120 * NS_PER_S, NS_PER_US, 0);
    assert_int_equal(answer_one_of(s, 12, true, &beat_ns), LEASE_NS_MIN);
    assert_in_range(beat_ns, LEASE_NS_MIN / 8, LEASE_NS_MIN / 6);
    solo_free(s);
}

static void lateness_of_every_follower_counts_including_the_largest_id(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 2, 3, "profile=auto");
    propose(s, 1, 1, 1);
    propose(s, 3, 1, 1);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    follow(s, 3, 1, 0);
    assert_int_equal(s->leader, 2);
    int64_t lease_ns = 0;
    const int64_t until_ns = s->now_ns + 120 * NS_PER_S;
    while (s->now_ns < until_ns) {
        const struct cv_message *beat = solo_await(s, "HEARTBEAT", NS_PER_S);
        const uint64_t seq = solo_field(s, beat, "seq");
        lease_ns = (int64_t)solo_field(s, beat, "lease");
        follow(s, 1, seq, 0);
        follow(s, 3, seq, 4 * NS_PER_MS);
    }
    assert_int_equal(lease_ns, 5 * 4 * NS_PER_MS);
    solo_free(s);
}

static void a_lost_lease_doubles_the_next_one(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_int_equal(answer_for(s, 120 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    while (s->leader == 3) { /* nobody answers */
        solo_wait_until(s, s->now_ns + NS_PER_MS);
    }
    const uint64_t epoch = solo_field(s, solo_await(s, "PROPOSE", NS_PER_S), "epoch");
    propose(s, 1, epoch, 1);
    propose(s, 2, epoch, 2);
    assert_int_equal(solo_field(s, solo_said(s, "HEARTBEAT"), "lease"), 2 * LEASE_NS_MIN);
    solo_free(s);
}

static void an_answer_counts_for_the_lease_that_was_in_its_heartbeat(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    assert_int_equal(answer_for(s, 120 * NS_PER_S, NS_PER_US, 0), LEASE_NS_MIN);
    const struct cv_message *beat = solo_await(s, "HEARTBEAT", NS_PER_S);
    const uint64_t seq = solo_field(s, beat, "seq");
    const int64_t sent_ns = s->now_ns;
    solo_pause(s, 6500 * NS_PER_US);
    assert_int_equal(next_lease_ns(s), 2 * LEASE_NS_MIN); /* it has chosen another lease since */
    const int64_t later_ns = s->now_ns;
    follow(s, 1, seq, 0);
    assert_int_equal(solo_told(s)->valid_until_ns, sent_ns + LEAD_NS(LEASE_NS_MIN));
    follow(s, 1, seq + 1, 0);
    assert_int_equal(solo_told(s)->valid_until_ns, later_ns + LEAD_NS(2 * LEASE_NS_MIN));
    follow(s, 2, seq, 0); /* a leadership that a majority supports already is not shortened */
    assert_null(solo_told(s));
    solo_free(s);
}

/* A process that is promised to another follows 3 from that instant on; shortly before, it says why
 * it does not. */
static void assert_follows_at(struct solo *s, int64_t at_ns, int64_t lease_ns, const char *reason)
{
    s->now_ns = at_ns - NS_PER_MS;
    heartbeat(s, 3, 9, lease_ns);
    assert_null(solo_said(s, "FOLLOW"));
    solo_noted(s, reason);
    s->now_ns = at_ns;
    heartbeat(s, 3, 9, lease_ns);
    assert_non_null(solo_said(s, "FOLLOW"));
}

static void a_shorter_lease_does_not_end_a_longer_promise(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "profile=auto");
    heartbeat(s, 2, 4, 300 * NS_PER_MS);
    assert_non_null(solo_said(s, "FOLLOW"));
    const int64_t bound_ns = s->now_ns + 300 * NS_PER_MS;
    s->now_ns += 50 * NS_PER_MS;
    heartbeat(s, 2, 4, 100 * NS_PER_MS);
    assert_non_null(solo_said(s, "FOLLOW"));
    assert_follows_at(s, bound_ns, 100 * NS_PER_MS,
                      "HEARTBEAT not answered yet: promised to {peer} until {time}");
    solo_free(s);
}

static void a_changed_lease_is_not_saved_and_a_restart_waits_for_the_longest(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "profile=auto");
    heartbeat(s, 2, 4, 20 * NS_PER_MS);
    assert_int_equal(s->persisted[2], LEASE_NS_MAX);
    heartbeat(s, 2, 4, 500 * NS_PER_MS);
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        assert_int_not_equal(s->out.item[i].kind, CV_EFFECT_PERSIST);
    }
    solo_restart(s);
    const int64_t started_ns = s->now_ns;
    heartbeat(s, 3, 9, 20 * NS_PER_MS);
    assert_null(solo_said(s, "FOLLOW"));
    assert_follows_at(s, started_ns + LEASE_NS_MAX, 20 * NS_PER_MS,
                      "HEARTBEAT not answered yet: may have promised before the restart, until "
                      "{time}");
    solo_free(s);
}

static void a_follower_takes_its_times_from_the_heartbeat(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "profile=auto");
    heartbeat(s, 2, 4, 40 * NS_PER_MS);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 30 * NS_PER_MS);
    heartbeat(s, 2, 4, 80 * NS_PER_MS);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 60 * NS_PER_MS);
    solo_free(s);
}

static void a_follower_says_how_late_its_timers_are(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "profile=auto");
    heartbeat(s, 2, 4, 40 * NS_PER_MS);
    assert_int_equal(solo_field(s, solo_said(s, "FOLLOW"), "late"), 0);
    solo_pause(s, 35 * NS_PER_MS); /* 5 ms more than its time-out */
    solo_wait_until(s, s->now_ns);
    heartbeat(s, 2, 4, 40 * NS_PER_MS);
    assert_int_equal(solo_field(s, solo_said(s, "FOLLOW"), "late"), 5 * NS_PER_MS);
    solo_free(s);
}

static void fixed_profiles_report_no_lateness_and_change_nothing(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 3, "");
    heartbeat(s, 2, 4, 50 * NS_PER_MS);
    solo_pause(s, 45 * NS_PER_MS);
    solo_wait_until(s, s->now_ns);
    heartbeat(s, 2, 4, 80 * NS_PER_MS);
    assert_int_equal(solo_field(s, solo_said(s, "FOLLOW"), "late"), 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 40 * NS_PER_MS);
    solo_free(s);
}

static void refuses(const char *options, const char *why)
{
    const struct cv_protocol *protocol = cv_protocol_find("pole");
    struct cv_config config;
    struct cv_errtext error = {""};
    char text[200], *rest = text;
    (void)snprintf(text, sizeof text, "%s", options);
    cv_config_init(&config, protocol, 1, 3);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        assert_int_equal(cv_config_set(&config, protocol, word, value, &error), CV_OK);
    }
    assert_int_equal(cv_core_configure(protocol, &config, &error), CV_E_INVALID);
    if (strstr(error.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, why);
    }
}

static void contradicting_options_are_refused_in_one_line(void **unused)
{
    (void)unused;
    refuses("profile=auto heartbeat=20ms", "profile=auto chooses heartbeat itself");
    refuses("profile=auto lease=1s lease-max=2s", "profile=auto chooses lease itself");
    refuses("profile=auto lease-min=2s lease-max=1s", "lease-min <= lease-max");
    refuses("profile=lan lease-min=20ms", "lease-min and lease-max are for profile=auto");
}

static void at_first_there_are_eight_heartbeats_in_a_lease(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol = cv_protocol_find("pole");
    struct cv_config config;
    struct cv_errtext error = {""};
    cv_config_init(&config, protocol, 1, 3);
    assert_int_equal(cv_config_set(&config, protocol, "profile", "auto", &error), CV_OK);
    assert_int_equal(cv_config_set(&config, protocol, "lease-max", "80ms", &error), CV_OK);
    assert_int_equal(cv_core_configure(protocol, &config, &error), CV_OK);
    assert_int_equal(config.option[POLE_OPTION_HEARTBEAT], 10 * NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_narrows_by_a_sixteenth_in_a_second),
        cmocka_unit_test(round_trips_and_lateness_keep_it_wider),
        cmocka_unit_test(it_widens_at_once_and_at_most_twofold_in_a_lease),
        cmocka_unit_test(lateness_of_a_follower_widens_it),
        cmocka_unit_test(old_measurements_fade),
        cmocka_unit_test(losses_widen_it),
        cmocka_unit_test(a_few_losses_make_it_beat_more_often),
        cmocka_unit_test(lateness_of_every_follower_counts_including_the_largest_id),
        cmocka_unit_test(a_lost_lease_doubles_the_next_one),
        cmocka_unit_test(an_answer_counts_for_the_lease_that_was_in_its_heartbeat),
        cmocka_unit_test(a_shorter_lease_does_not_end_a_longer_promise),
        cmocka_unit_test(a_changed_lease_is_not_saved_and_a_restart_waits_for_the_longest),
        cmocka_unit_test(a_follower_takes_its_times_from_the_heartbeat),
        cmocka_unit_test(a_follower_says_how_late_its_timers_are),
        cmocka_unit_test(fixed_profiles_report_no_lateness_and_change_nothing),
        cmocka_unit_test(contradicting_options_are_refused_in_one_line),
        cmocka_unit_test(at_first_there_are_eight_heartbeats_in_a_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
