/* tests/paper/test_pole_rules.c - the rules of `pole` that are ours, one test each: leading,
 * choosing, giving up; docs/pole.md. Promises are in test_pole_promises.c. */
#include "paper/pole_solo.h"

/* ---- leading --------------------------------------------------------------------------------- */

static void a_leadership_counts_from_when_the_heartbeat_was_sent(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    const int64_t sent_ns = s->now_ns;
    s->now_ns += 7 * NS_PER_MS;
    follow(s, 2, 1, 0, 1);
    const struct cv_leadership *told = solo_told(s);
    assert_non_null(told);
    assert_true(told->is_self);
    assert_true(told->has_majority);
    assert_int_equal(told->token, 1);
    assert_int_equal(told->reason, CV_REASON_ELECTED);
    assert_int_equal(told->valid_until_ns, sent_ns + LEAD_NS);
    const struct cv_message *first = solo_said(s, "HEARTBEAT"); /* the followers wait for it */
    assert_int_equal(solo_field(s, first, "established"), 1);
    assert_int_equal(solo_field(s, first, "token"), 1);
    const int64_t second_ns = s->now_ns;
    s->now_ns += NS_PER_MS;
    follow(s, 1, 1, 0, 2);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RENEWED);
    assert_int_equal(solo_told(s)->valid_until_ns, second_ns + LEAD_NS);
    follow(s, 2, 1, 0, 1); /* to an older heartbeat than the latest answered one */
    assert_null(solo_told(s));
    solo_free(s);
}

static void a_leader_sends_every_heartbeat_and_stops_at_its_end(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    const int64_t begin_ns = s->now_ns;
    for (uint32_t i = 1; i <= 4; i++) {
        (void)solo_await(s, "HEARTBEAT", ROUND_NS);
        assert_int_equal(s->now_ns, begin_ns + i * ROUND_NS);
    }
    const struct cv_message *gone = solo_await(s, "RELEASE", ROUND_NS);
    assert_int_equal(s->now_ns, begin_ns + LEAD_NS);
    assert_int_equal(solo_field(s, gone, "epoch"), 1);
    assert_int_equal(solo_field(s, gone, "heir"), CV_ID_NONE);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_LOST_QUORUM);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "epoch"), 2);
    solo_free(s);
}

static void answers_that_waited_through_a_pause_revive_no_leadership(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_pause(s, LEAD_NS);
    follow(s, 2, 1, 0, 2);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void answers_to_other_lives_epochs_and_heartbeats_do_not_count(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    follow(s, 1, 1, 99, 1); /* from an earlier life */
    assert_int_equal(s->leader, CV_ID_NONE);
    follow(s, 1, 1, 0, 2); /* not sent yet */
    assert_int_equal(s->leader, CV_ID_NONE);
    follow(s, 1, 2, 0, 1); /* an epoch that is not claimed */
    assert_int_equal(s->leader, CV_ID_NONE);
    follow(s, 1, 0, 0, 1);
    assert_int_equal(s->leader, CV_ID_NONE);
    follow(s, 1, 1, 0, 1);
    assert_int_equal(s->leader, 3);
    solo_free(s);
}

static void answers_to_heartbeats_whose_time_is_forgotten_do_not_count(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 3, 3, "lease=60s");
    propose(s, 1, 1, 1);
    propose(s, 2, 1, 2);
    for (uint32_t seq = 2; seq <= POLE_BEATS_KEPT; seq++) {
        (void)solo_await(s, "HEARTBEAT", ROUND_NS);
    }
    follow(s, 1, 1, 0, 1); /* the times of 64 heartbeats are kept */
    assert_int_equal(s->leader, 3);
    const int64_t until_ns = solo_told(s)->valid_until_ns; /* counts from the first heartbeat */
    assert_true(until_ns < s->now_ns + 60 * NS_PER_S - 600 * NS_PER_MS);
    follow(s, 2, 1, 0, 1); /* establishing itself was the 65th heartbeat: the first is forgotten */
    assert_null(solo_told(s));
    assert_non_null(
        solo_noted(s, "FOLLOW of {peer} ignored: it answers a heartbeat that is too old"));
    follow(s, 2, 1, 0, 2);
    assert_int_equal(s->out.note_count, 0);
    solo_free(s);
}

static void a_refused_claim_goes_on_in_a_larger_epoch_and_forgets_its_answers(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 5, 5, "");
    propose(s, 1, 1, 1);
    propose(s, 2, 1, 2);
    propose(s, 4, 1, 4);
    (void)solo_await(s, "HEARTBEAT", 2 * ROUND_NS);
    follow(s, 1, 1, 0, 1);
    say(s, 2, "REFUSE", 6);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_int_equal(solo_field(s, claim, "epoch"), 7);
    assert_saves_before(s, POLE_HEARTBEAT);
    assert_int_equal(s->persisted[0], 7);
    assert_int_equal(s->persisted[1], 5);
    assert_int_equal(s->persisted[3], 7);
    const uint64_t seq = solo_field(s, claim, "seq");
    follow(s, 2, 7, 0, seq);
    assert_int_equal(s->leader, CV_ID_NONE); /* 1 followed in epoch 1 */
    follow(s, 1, 1, 0, 1);                   /* and says so again, late */
    assert_int_equal(s->leader, CV_ID_NONE);
    say(s, 4, "REFUSE", 6);
    assert_null(solo_said(s, "HEARTBEAT")); /* about an earlier claim */
    follow(s, 4, 7, 0, seq);
    assert_int_equal(s->leader, 5);
    assert_int_equal(solo_told(s)->token, 7);
    solo_free(s);
}

/* It released its claim: nobody would listen to a second claim in the same epoch. */
static void a_second_claim_has_a_new_epoch(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(2);
    heartbeat(s, 3, 1, true);
    draft_heartbeat(s, 2, true); /* another refused 3, which keeps its token */
    solo_put(s, "token", 1);
    solo_hear(s, 3, 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    propose(s, 1, 3, 1);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    const uint64_t epoch = solo_field(s, claim, "epoch");
    heartbeat(s, 3, 1, true); /* a late one of the leader that it is bound to: it yields */
    assert_int_equal(solo_field(s, solo_said(s, "RELEASE"), "epoch"), epoch);
    propose(s, 1, epoch, 1);
    claim = solo_await(s, "HEARTBEAT", 10 * ROUND_NS);
    assert_true(solo_field(s, claim, "epoch") > epoch);
    solo_free(s);
}

/* It waits for one round, then for two, however long it had waited before it claimed. */
static void a_claimant_that_yields_begins_its_back_off_anew(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(2);
    heartbeat(s, 3, 1, true);
    draft_heartbeat(s, 2, true);
    solo_put(s, "token", 1);
    solo_hear(s, 3, 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    for (uint32_t i = 0; i < 2; i++) { /* nobody answers */
        solo_wait_until(s, s->timer_ns[POLE_TIMER_RETRY]);
    }
    propose(s, 1, 3, 1);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    heartbeat(s, 3, 1, true); /* a late one of the leader that it is bound to: it yields */
    assert_non_null(solo_said(s, "RELEASE"));
    assert_int_equal(s->timer_ns[POLE_TIMER_RETRY], s->now_ns + ROUND_NS);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_RETRY]);
    assert_int_equal(s->timer_ns[POLE_TIMER_RETRY], s->now_ns + 2 * ROUND_NS + ROUND_NS / 4);
    solo_free(s);
}

static void a_refused_leader_keeps_its_token(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    s->now_ns += NS_PER_MS;
    say(s, 2, "REFUSE", 1);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_int_equal(solo_field(s, claim, "epoch"), 2);
    assert_int_equal(solo_field(s, claim, "token"), 1);
    assert_int_equal(s->leader, 3);
    const uint64_t seq = solo_field(s, claim, "seq");
    s->now_ns += NS_PER_MS;
    follow(s, 1, 1, 0, seq - 1); /* answers to the epoch of its token and to all later ones count */
    follow(s, 2, 2, 0, seq);
    assert_int_equal(solo_told(s)->token, 1);
    solo_free(s);
}

static void a_claimant_that_nobody_follows_gives_up_and_stands_back(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    const int64_t begin_ns = s->now_ns;
    (void)solo_await(s, "RELEASE", 100 * NS_PER_MS);
    assert_int_equal(s->now_ns, begin_ns + LEASE_NS + 2 * ROUND_NS);
    assert_int_equal(s->timer_ns[POLE_TIMER_BACK], s->now_ns + 4 * LEASE_NS);
    assert_int_equal(s->timer_ns[POLE_TIMER_BEAT], 0);
    propose(s, 1, 2, 1);
    /* All have proposed, and its own score is the best, but it has not heard a quorum. */
    propose(s, 2, 2, 1);
    assert_null(solo_said(s, "HEARTBEAT"));
    /* It chooses 1, and waits for it twice as long as usual, since a claim came to nothing; then
     * for 2, the next one, even longer. */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 4 * ROUND_NS);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_SILENCE]);
    propose(s, 1, 3, 2);
    propose(s, 2, 3, 2);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 8 * ROUND_NS);
    heartbeat(s, 2, 3, true); /* somebody leads: from now on it waits as usual */
    solo_wait_until(s, s->timer_ns[POLE_TIMER_SILENCE]);
    propose(s, 1, 4, 1);
    propose(s, 2, 4, 1);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    solo_free(s);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void a_choice_that_does_not_claim_is_passed_over(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    propose(s, 2, 1, 3);
    propose(s, 3, 1, 3);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    const struct cv_message *again = solo_await(s, "PROPOSE", 2 * ROUND_NS);
    assert_int_equal(solo_field(s, again, "epoch"), 2);
    propose(s, 2, 2, 3);
    assert_int_equal(
        solo_noted(s, "PROPOSE for {peer} passed over: it was chosen and did not claim")->peer, 3);
    heartbeat(s, 2, 1, true); /* an established leader is seen: all may be well again */
    release(s, 2, 1, CV_ID_NONE);
    const uint64_t epoch = solo_field(s, solo_said(s, "PROPOSE"), "epoch");
    propose(s, 2, epoch, 3);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "id"), 3);
    solo_free(s);
}

static void a_round_is_not_prolonged_by_later_proposals(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 1, 5, "");
    propose(s, 2, 1, 3);
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], 0);
    propose(s, 3, 1, 3);
    const struct cv_message *heard = solo_said(s, "PROPOSE"); /* says that it has heard a quorum */
    assert_int_equal(solo_field(s, heard, "heard"), 1);
    const int64_t elect_ns = s->now_ns + ROUND_NS;
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], elect_ns);
    s->now_ns += 5 * NS_PER_MS;
    propose(s, 4, 1, 3);
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], elect_ns);
    solo_free(s);
}

static void nobody_waits_for_a_leader_that_fell_silent(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_wait_until(s, s->now_ns + TIMEOUT_NS);
    assert_int_equal(s->leader, CV_ID_NONE);
    propose(s, 3, 5, 3); /* 2, which is suspected, has not proposed */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS); /* chosen: 3 */
    solo_free(s);
}

static void a_hint_that_its_leader_is_down_only_causes_suspicion(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    assert_int_equal(s->leader, 2);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 2});
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_SUSPECTED);
    heartbeat(s, 3, 9, false);
    assert_null(solo_said(s, "FOLLOW")); /* the promise to 2 still binds */
    solo_free(s);
}

static void a_vote_answers_a_proposal_once_there_is_a_leader(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    propose(s, 3, 9, 3);
    cv_id to;
    const struct cv_message *vote = solo_said_to(s, "VOTE", &to);
    assert_int_equal(to, 3);
    assert_int_equal(solo_field(s, vote, "epoch"), 4);
    assert_int_equal(solo_field(s, vote, "leader"), 2);
    assert_int_equal(solo_send_count(s), 1);
    solo_free(s);
}

/* ---- slow disks, stale timers ---------------------------------------------------------------- */

/* It waits for its choice longer by twice the lateness of that claim. Half of the wait is the usual
 * one. */
static void a_process_with_a_slow_disk_is_waited_for_longer(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    propose(s, 2, 1, 3);
    propose(s, 3, 1, 3);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    s->now_ns += 15 * NS_PER_MS;
    heartbeat(s, 3, 1, false); /* 5 ms later than usual */
    assert_non_null(solo_said(s, "FOLLOW"));
    release(s, 3, 1, CV_ID_NONE);
    const uint64_t epoch = solo_field(s, solo_said(s, "PROPOSE"), "epoch");
    propose(s, 2, epoch, 3);
    propose(s, 3, epoch, 3);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS + 10 * NS_PER_MS);
    solo_free(s);
}

/* Claimant and follower have to save before such an answer: half of its time is due to one disk. */
static void an_answer_after_a_vain_claim_shows_how_slow_the_disks_are(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    const int64_t begin_ns = s->now_ns;
    (void)solo_await(s, "RELEASE", 100 * NS_PER_MS);
    s->now_ns = begin_ns + 80 * NS_PER_MS;
    follow(s, 1, 1, 0, 1);
    propose(s, 1, 2, 1);
    propose(s, 2, 2, 1);
    const int64_t usual_ns = 4 * ROUND_NS; /* after a claim in vain */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + usual_ns + 2 * 40 * NS_PER_MS);
    solo_free(s);
}

/* A claim that cannot be answered yet is heard: if its sender falls silent, that is the silence of
 * a leader. */
static void a_claim_that_waits_for_a_promise_is_watched_for_silence(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    /* 2 falls silent; the promise binds for 10 ms more. */
    solo_wait_until(s, s->now_ns + TIMEOUT_NS);
    heartbeat(s, 3, 9, false);
    assert_null(solo_said(s, "FOLLOW"));
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + TIMEOUT_NS);
    solo_free(s);
}

/* A host may have queued a timer before a step disarmed it. */
static void a_timer_that_fires_though_it_was_disarmed_does_nothing(void **unused)
{
    (void)unused;
    const uint32_t timers[] = {POLE_TIMER_RETRY, POLE_TIMER_ELECT, POLE_TIMER_SILENCE};
    struct solo *s = leader();
    for (uint32_t i = 0; i < COUNT_OF(timers); i++) {
        solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = timers[i]});
        assert_int_equal(s->out.item_count, 0);
        assert_int_equal(s->leader, 3);
    }
    solo_free(s);
    s = follower();
    const uint32_t others[] = {POLE_TIMER_RETRY, POLE_TIMER_ELECT, POLE_TIMER_BEAT,
                               POLE_TIMER_CLAIM};
    for (uint32_t i = 0; i < COUNT_OF(others); i++) {
        solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = others[i]});
        assert_int_equal(s->out.item_count, 0);
        assert_int_equal(s->leader, 2);
    }
    solo_free(s);
}

/* ---- giving up ------------------------------------------------------------------------------- */

static void a_leader_that_resigns_releases_names_its_heir_and_stands_back(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    resign(s, 2);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    const struct cv_message *gone = solo_said(s, "RELEASE");
    assert_int_equal(solo_field(s, gone, "heir"), 2);
    assert_int_equal(solo_field(s, gone, "epoch"), 1);
    assert_int_equal(s->timer_ns[POLE_TIMER_BACK], s->now_ns + 4 * LEASE_NS);
    assert_int_equal(s->timer_ns[POLE_TIMER_BEAT], 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_CLAIM], 0);
    assert_null(solo_said(s, "PROPOSE")); /* it waits for its heir */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    heartbeat(s, 2, 2, false);
    assert_non_null(solo_said(s, "FOLLOW")); /* its promise to itself has ended */
    resign(s, 2);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

static void a_process_that_is_no_candidate_does_not_claim(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    assert_non_null(solo_said(s, "RELEASE"));
    propose(s, 1, 2, 1);
    propose(s, 2, 2, 1);
    assert_null(solo_said(s, "HEARTBEAT"));
    solo_free(s);
}

static void a_process_that_cannot_save_stops_for_good(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STOPPED);
    assert_int_equal(solo_send_count(s), 0); /* nothing is released: others may still follow it */
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        assert_int_equal(s->timer_ns[timer], 0);
    }
    heartbeat(s, 2, 9, true);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

/* A machine that boots counts time anew, and an ECHO to its earlier life may come late. */
static void an_echo_of_an_earlier_life_measures_nothing(void **unused)
{
    (void)unused;
    static const char *const nothing =
        "ECHO of {peer} measures nothing: late, repeated or not ours";
    struct solo *s = solo_new("pole", 1, 3, "oracle=latency");
    const uint64_t before = solo_field(s, solo_said(s, "PROBE"), "stamp");
    s->nonce = UINT64_C(0x123456789abcdef0);
    solo_restart(s); /* at the same instant of its clock */
    const uint64_t now = solo_field(s, solo_said(s, "PROBE"), "stamp");
    s->now_ns += NS_PER_MS;
    solo_draft(s, "ECHO");
    solo_put(s, "stamp", before);
    solo_hear(s, 2, 0);
    assert_int_equal(solo_noted(s, nothing)->peer, 2);
    solo_draft(s, "ECHO");
    solo_put(s, "stamp", now);
    solo_hear(s, 2, 0);
    assert_int_equal(s->out.note_count, 0);
    solo_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leadership_counts_from_when_the_heartbeat_was_sent),
        cmocka_unit_test(a_leader_sends_every_heartbeat_and_stops_at_its_end),
        cmocka_unit_test(answers_that_waited_through_a_pause_revive_no_leadership),
        cmocka_unit_test(answers_to_other_lives_epochs_and_heartbeats_do_not_count),
        cmocka_unit_test(answers_to_heartbeats_whose_time_is_forgotten_do_not_count),
        cmocka_unit_test(a_refused_claim_goes_on_in_a_larger_epoch_and_forgets_its_answers),
        cmocka_unit_test(a_second_claim_has_a_new_epoch),
        cmocka_unit_test(a_claimant_that_yields_begins_its_back_off_anew),
        cmocka_unit_test(a_refused_leader_keeps_its_token),
        cmocka_unit_test(a_claimant_that_nobody_follows_gives_up_and_stands_back),
        cmocka_unit_test(a_choice_that_does_not_claim_is_passed_over),
        cmocka_unit_test(a_round_is_not_prolonged_by_later_proposals),
        cmocka_unit_test(nobody_waits_for_a_leader_that_fell_silent),
        cmocka_unit_test(a_hint_that_its_leader_is_down_only_causes_suspicion),
        cmocka_unit_test(a_vote_answers_a_proposal_once_there_is_a_leader),
        cmocka_unit_test(a_process_with_a_slow_disk_is_waited_for_longer),
        cmocka_unit_test(an_answer_after_a_vain_claim_shows_how_slow_the_disks_are),
        cmocka_unit_test(a_claim_that_waits_for_a_promise_is_watched_for_silence),
        cmocka_unit_test(a_timer_that_fires_though_it_was_disarmed_does_nothing),
        cmocka_unit_test(a_leader_that_resigns_releases_names_its_heir_and_stands_back),
        cmocka_unit_test(a_process_that_is_no_candidate_does_not_claim),
        cmocka_unit_test(a_process_that_cannot_save_stops_for_good),
        cmocka_unit_test(an_echo_of_an_earlier_life_measures_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
