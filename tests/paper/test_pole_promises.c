/* tests/paper/test_pole_promises.c - the promises of a process of `pole`: claims of others,
 * releases, restarts. Rules that are ours: docs/pole.md. */
#include "paper/pole_solo.h"

/* ---- claims of others ------------------------------------------------------------------------ */

static void a_claimant_yields_to_larger_claims_and_to_leaders_only(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    heartbeat(s, 1, 1, false); /* a smaller proposal of the same epoch */
    assert_null(solo_said(s, "FOLLOW"));
    heartbeat(s, 2, 2, false); /* a larger epoch */
    assert_non_null(solo_said(s, "RELEASE"));
    assert_non_null(solo_said(s, "FOLLOW"));
    assert_int_equal(s->timer_ns[POLE_TIMER_BEAT], 0);
    solo_free(s);

    s = claimant();
    say(s, 1, "REFUSE", 8);
    heartbeat(s, 2, 8, false);
    assert_null(solo_said(s, "FOLLOW")); /* a smaller epoch */
    heartbeat(s, 2, 8, true);
    /* An established leader, though of a smaller epoch: it yields, ... */
    assert_non_null(solo_said(s, "RELEASE"));
    assert_non_null(solo_said(s, "REFUSE")); /* ... but it has followed itself in 9 */
    solo_free(s);

    s = leader();
    heartbeat(s, 2, 9, false);
    assert_int_equal(solo_send_count(s), 0);
    assert_int_equal(s->leader, 3);
    solo_free(s);
}

/* Ours: a member of a cluster whose record was lost begins with a restored one. */
static void restored_record_refuses_every_epoch_up_to_its_floor(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    s->persisted_count = s->protocol->restore(NULL, 0, 9, s->persisted);
    solo_restart(s);
    for (cv_id from = 2; from <= 3; from++) {
        heartbeat(s, from, 9, true);
        assert_null(solo_said(s, "FOLLOW"));
        assert_int_equal(solo_field(s, solo_said(s, "REFUSE"), "epoch"), 9);
    }
    heartbeat(s, 2, 10, false);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);

    /* Of an earlier generation: its promise to 2 binds until the lease of 2 is over. */
    s = follower();
    s->persisted_count = s->protocol->restore(s->persisted, s->persisted_count, 1000, s->persisted);
    solo_restart(s);
    heartbeat(s, 3, 1001, false);
    assert_null(solo_said(s, "FOLLOW"));
    assert_null(solo_said(s, "REFUSE"));
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    solo_wait_until(s, s->now_ns + LEASE_NS + NS_PER_MS);
    heartbeat(s, 3, 2000, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

static void a_promise_is_saved_before_it_is_sent(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, false);
    assert_saves_before(s, POLE_FOLLOW);
    assert_int_equal(s->persisted[0], 4);
    assert_int_equal(s->persisted[1], 2);
    assert_int_equal(s->persisted[2], LEASE_NS);
    cv_id to;
    const struct cv_message *answer = solo_said_to(s, "FOLLOW", &to);
    assert_int_equal(to, 2);
    assert_int_equal(solo_field(s, answer, "epoch"), 4);
    assert_int_equal(solo_field(s, answer, "nonce"), 77);
    assert_int_equal(solo_field(s, answer, "seq"), 5);
    assert_int_equal(s->leader, CV_ID_NONE); /* a process that only claims is not told as leader */
    heartbeat(s, 2, 4, true);
    assert_int_equal(s->leader, 2);
    assert_int_equal(solo_told(s)->token, 4);
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        /* Nothing is saved for the same pair. */
        assert_int_not_equal(s->out.item[i].kind, CV_EFFECT_PERSIST);
    }
    heartbeat(s, 2, 4, true);
    assert_null(solo_told(s)); /* and nothing new to tell */
    draft_heartbeat(s, 4, true);
    solo_put(s, "lease", 2 * LEASE_NS);
    solo_hear(s, 2, 0);
    assert_saves_before(s, POLE_FOLLOW); /* a longer promise */
    assert_int_equal(s->persisted[2], 2 * LEASE_NS);
    solo_free(s);
}

static void a_promise_keeps_it_from_following_others_until_it_ends(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, false);
    const int64_t end_ns = s->now_ns + LEASE_NS;
    s->now_ns += 30 * NS_PER_MS;
    heartbeat(s, 3, 5, false);
    assert_int_equal(solo_send_count(s), 0); /* not established: it is still electing */
    heartbeat(s, 3, 5, true);
    assert_int_equal(solo_send_count(s), 0); /* established: it will answer later */
    draft_heartbeat(s, 5, true);
    solo_put(s, "seq", 6);
    solo_hear(s, 3, 0);
    while (s->now_ns < end_ns) {
        solo_wait_until(s, s->now_ns + NS_PER_MS);
        assert_null(solo_said(s, "FOLLOW"));
    }
    heartbeat(s, 3, 5, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

static void the_newest_claim_is_answered_when_the_promise_ends(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, false);
    const int64_t end_ns = s->now_ns + LEASE_NS;
    solo_wait_until(s, s->now_ns + TIMEOUT_NS); /* it suspects 2, and is free to choose */
    assert_non_null(solo_said(s, "PROPOSE"));
    heartbeat(s, 3, 6, false);
    assert_null(solo_said(s, "FOLLOW"));
    draft_heartbeat(s, 6, false);
    solo_put(s, "seq", 6);
    solo_hear(s, 3, 0);
    assert_null(solo_said(s, "FOLLOW"));
    const struct cv_message *answer = solo_await(s, "FOLLOW", LEASE_NS);
    assert_int_equal(s->now_ns, end_ns);
    assert_int_equal(solo_field(s, answer, "epoch"), 6);
    assert_int_equal(solo_field(s, answer, "seq"), 6);
    assert_saves_before(s, POLE_FOLLOW);
    solo_free(s);
}

static void a_claim_that_was_released_while_it_waited_is_not_followed(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, false);
    const int64_t end_ns = s->now_ns + LEASE_NS;
    solo_wait_until(s, s->now_ns + TIMEOUT_NS);
    heartbeat(s, 3, 6, false);
    release(s, 3, 6, CV_ID_NONE);
    while (s->now_ns < end_ns + ROUND_NS) {
        solo_wait_until(s, s->now_ns + NS_PER_MS);
        assert_null(solo_said(s, "FOLLOW"));
    }
    solo_free(s);
}

static void heartbeats_up_to_a_released_epoch_are_ignored(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    release(s, 2, 4, CV_ID_NONE);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    release(s, 2, 3, CV_ID_NONE); /* an older release takes nothing back */
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    heartbeat(s, 2, 5, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

static void a_release_ends_the_promise_to_its_sender_only(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    release(s, 3, 9, CV_ID_NONE); /* of another process */
    release(s, 2, 3, CV_ID_NONE); /* of an earlier epoch */
    assert_int_equal(s->leader, 2);
    heartbeat(s, 3, 10, true);
    assert_null(solo_said(s, "FOLLOW"));
    release(s, 2, 4, CV_ID_NONE);
    heartbeat(s, 3, 11, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

static void an_heir_claims_at_once_and_others_wait_for_it(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    release(s, 2, 4, 1);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    assert_int_equal(solo_field(s, claim, "epoch"), 5);
    assert_saves_before(s, POLE_HEARTBEAT);
    solo_free(s);
    s = follower();
    release(s, 2, 4, 3);
    assert_null(solo_said(s, "PROPOSE"));
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    solo_free(s);
}

static void smaller_epochs_and_equal_ones_of_others_are_refused(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_wait_until(s, s->now_ns + 2 * LEASE_NS);
    cv_id to;
    heartbeat(s, 3, 4, false);
    assert_int_equal(solo_field(s, solo_said_to(s, "REFUSE", &to), "epoch"), 4);
    assert_int_equal(to, 3);
    heartbeat(s, 3, 3, false);
    assert_non_null(solo_said(s, "REFUSE"));
    draft_heartbeat(s, 3, true); /* an older claim of the process that it follows is only late */
    solo_put(s, "token", 3);
    solo_hear(s, 2, 0);
    assert_null(solo_said(s, "REFUSE"));
    heartbeat(s, 2, 3, false);
    assert_null(solo_said(s, "REFUSE"));
    assert_null(solo_said(s, "FOLLOW"));
    heartbeat(s, 2, 4, false);
    assert_non_null(solo_said(s, "FOLLOW")); /* the same pair again */
    solo_free(s);
}

static void impossible_heartbeats_are_ignored(void **unused)
{
    (void)unused;
    static const struct {
        const char *field;
        uint64_t value;
    } wrong[] = {
        {"lease", 0},
        {"lease", UINT64_C(3600) * NS_PER_S + 1},
        {"token", 5},
        {"score_1", (uint64_t)CV_SCORE_MAX + 2},
        {"score_4", UINT64_MAX},
        {"epoch", POLE_EPOCH_MAX},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct solo *s = one_of_three(1);
        draft_heartbeat(s, 4, true);
        solo_put(s, wrong[i].field, wrong[i].value);
        solo_hear(s, 2, 0);
        assert_int_equal(s->out.item_count, 0);
        assert_int_equal(s->out.note_count, 1);
        solo_free(s);
    }
    struct solo *s = one_of_three(1);
    draft_heartbeat(s, POLE_EPOCH_MAX - 1, true);
    solo_put(s, "lease", UINT64_C(3600) * NS_PER_S);
    solo_put(s, "score_1", (uint64_t)CV_SCORE_MAX + 1);
    solo_hear(s, 2, 0);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

static void a_leader_with_an_older_token_than_one_seen_is_late(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    release(s, 2, 4, CV_ID_NONE);
    draft_heartbeat(s, 5, true);
    solo_put(s, "token", 3);
    solo_hear(s, 3, 0);
    assert_null(solo_said(s, "FOLLOW"));
    heartbeat(s, 3, 5, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

/* ---- restarts -------------------------------------------------------------------------------- */

static void a_restarted_process_follows_nobody_for_the_lease_it_promised(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(1);
    draft_heartbeat(s, 4, true);
    solo_put(s, "lease", 2 * LEASE_NS);
    solo_hear(s, 2, 0);
    solo_restart(s);
    const int64_t end_ns = s->now_ns + 2 * LEASE_NS;
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "epoch"), 5);
    heartbeat(s, 2, 4, true);
    /* Not even the same leader: it has forgotten until when it promised. */
    assert_null(solo_said(s, "FOLLOW"));
    s->now_ns = end_ns - 1;
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    s->now_ns = end_ns;
    heartbeat(s, 2, 4, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

/* It waits for the next claim of that process, and elects no other meanwhile. */
static void restarted_process_waits_for_the_leader_it_refused(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_restart(s);
    s->now_ns += 2 * LEASE_NS;
    heartbeat(s, 3, 4, true); /* it followed 2 in epoch 4 */
    assert_int_equal(solo_field(s, solo_said(s, "REFUSE"), "epoch"), 4);
    assert_int_equal(((const struct pole *)s->state)->awaited, 3);
    solo_free(s);
}

static void an_epoch_that_was_claimed_is_not_claimed_again_after_a_restart(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_wait_until(s, s->now_ns + TIMEOUT_NS); /* selecting in epoch 5, but still promised to 2 */
    propose(s, 3, 5, 1);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    assert_int_equal(solo_field(s, claim, "epoch"), 5);
    assert_saves_before(s, POLE_HEARTBEAT);
    assert_int_equal(s->persisted[0], 4); /* it does not follow itself yet, ... */
    assert_int_equal(s->persisted[1], 2);
    assert_int_equal(s->persisted[3], 5); /* ... but has claimed */
    solo_restart(s);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "epoch"), 6);
    solo_free(s);
}

static void a_bound_claimant_counts_itself_when_its_promise_ends(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    const int64_t end_ns = s->now_ns + LEASE_NS;
    solo_wait_until(s, s->now_ns + TIMEOUT_NS);
    propose(s, 3, 5, 1);
    propose(s, 2, 5, 1);
    follow(s, 3, 5, 0, 1);
    assert_int_equal(s->leader, CV_ID_NONE); /* 3 has one vote of three, and may not count itself */
    solo_wait_until(s, end_ns);
    assert_int_equal(s->leader, 1);
    assert_int_equal(s->persisted[0], 5);
    assert_int_equal(s->persisted[1], 1);
    solo_free(s);
}

static void a_restarted_process_releases_nothing_for_a_lease(void **unused)
{
    (void)unused;
    for (uint32_t late = 0; late <= 1; late++) {
        struct solo *s = leader();
        solo_restart(s);
        propose(s, 1, 2, 1);
        propose(s, 2, 2, 1);
        assert_non_null(solo_said(s, "HEARTBEAT"));
        s->now_ns += LEASE_NS - 1 + late;
        resign(s, CV_ID_NONE);
        assert_int_equal(solo_said(s, "RELEASE") != NULL, late);
        solo_free(s);
    }
}

/* The message that a process's witness may send after its death. */
static void a_witness_releases_the_claim_of_a_dead_process_but_none_of_an_earlier_life(
    void **unused)
{
    (void)unused;
    struct cv_message farewell;
    struct solo *s = leader();
    const uint64_t epoch = s->persisted[3];
    assert_true(s->protocol->farewell(s->state, s->now_ns + LEASE_NS, &farewell));
    assert_string_equal(s->protocol->messages[farewell.type].name, "RELEASE");
    assert_int_equal(solo_field(s, &farewell, "epoch"), epoch);
    assert_int_equal(solo_field(s, &farewell, "heir"), CV_ID_NONE);
    solo_restart(s);
    assert_false(s->protocol->farewell(s->state, s->now_ns + LEASE_NS - 1, &farewell));
    assert_true(s->protocol->farewell(s->state, s->now_ns + LEASE_NS, &farewell));
    assert_int_equal(solo_field(s, &farewell, "epoch"), epoch); /* it will claim a larger epoch */
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    assert_false(s->protocol->farewell(s->state, s->now_ns + LEASE_NS, &farewell));
    solo_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claimant_yields_to_larger_claims_and_to_leaders_only),
        cmocka_unit_test(restored_record_refuses_every_epoch_up_to_its_floor),
        cmocka_unit_test(a_promise_is_saved_before_it_is_sent),
        cmocka_unit_test(a_promise_keeps_it_from_following_others_until_it_ends),
        cmocka_unit_test(the_newest_claim_is_answered_when_the_promise_ends),
        cmocka_unit_test(a_claim_that_was_released_while_it_waited_is_not_followed),
        cmocka_unit_test(heartbeats_up_to_a_released_epoch_are_ignored),
        cmocka_unit_test(a_release_ends_the_promise_to_its_sender_only),
        cmocka_unit_test(an_heir_claims_at_once_and_others_wait_for_it),
        cmocka_unit_test(smaller_epochs_and_equal_ones_of_others_are_refused),
        cmocka_unit_test(impossible_heartbeats_are_ignored),
        cmocka_unit_test(a_leader_with_an_older_token_than_one_seen_is_late),
        cmocka_unit_test(a_restarted_process_follows_nobody_for_the_lease_it_promised),
        cmocka_unit_test(restarted_process_waits_for_the_leader_it_refused),
        cmocka_unit_test(an_epoch_that_was_claimed_is_not_claimed_again_after_a_restart),
        cmocka_unit_test(a_bound_claimant_counts_itself_when_its_promise_ends),
        cmocka_unit_test(a_restarted_process_releases_nothing_for_a_lease),
        cmocka_unit_test(
            a_witness_releases_the_claim_of_a_dead_process_but_none_of_an_earlier_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
