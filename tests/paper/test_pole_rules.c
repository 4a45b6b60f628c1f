/* tests/paper/test_pole_rules.c - the rules of `pole` that are ours, one test each: docs/pole.md.
 *
 * One core of three, to which the test is the others. Constants of the lan profile: delta and sigma
 * 2 ms, heartbeat 10 ms, timeout 40 ms, round 10 ms, lease 50 ms, which a leader counts as 50 ms
 * less 10 us. Its nonce is 0. */
#include "protocols/pole.h"
#include "support/solo.h"
#include "support/support.h"

#define LEASE_NS (50 * NS_PER_MS)
#define LEAD_NS (LEASE_NS - 10 * NS_PER_US - 1)
#define ROUND_NS (10 * NS_PER_MS)
#define TIMEOUT_NS (40 * NS_PER_MS)

static struct solo *one_of_three(cv_id self)
{
    return solo_new("pole", self, 3, "");
}

static void propose(struct solo *s, cv_id from, uint64_t epoch, cv_id best)
{
    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heard", 1);
    solo_put(s, "id", best);
    solo_put(s, "quorate", 1);
    solo_put(s, "score_1", best == 3 ? 100 : 1);
    solo_hear(s, from, 0);
}

/* seq and token may be changed before it is heard. */
static void draft_heartbeat(struct solo *s, uint64_t epoch, bool is_established)
{
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "epoch", epoch);
    solo_put(s, "nonce", 77);
    solo_put(s, "seq", 5);
    solo_put(s, "established", is_established);
    solo_put(s, "token", is_established ? epoch : 0);
    solo_put(s, "lease", LEASE_NS);
    solo_put(s, "quorate", 1);
}

static void heartbeat(struct solo *s, cv_id from, uint64_t epoch, bool is_established)
{
    draft_heartbeat(s, epoch, is_established);
    solo_hear(s, from, 0);
}

static void follow(struct solo *s, cv_id from, uint64_t epoch, uint64_t nonce, uint64_t seq)
{
    solo_draft(s, "FOLLOW");
    solo_put(s, "epoch", epoch);
    solo_put(s, "nonce", nonce);
    solo_put(s, "seq", seq);
    solo_hear(s, from, 0);
}

static void say(struct solo *s, cv_id from, const char *type, uint64_t epoch)
{
    solo_draft(s, type);
    solo_put(s, "epoch", epoch);
    solo_hear(s, from, 0);
}

static void release(struct solo *s, cv_id from, uint64_t epoch, cv_id heir)
{
    solo_draft(s, "RELEASE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heir", heir);
    solo_hear(s, from, 0);
}

/* Chosen by all and claiming epoch 1, with heartbeat 1 just sent. */
static struct solo *claimant(void)
{
    struct solo *s = one_of_three(3);
    propose(s, 1, 1, 1);
    assert_null(solo_said(s, "HEARTBEAT"));
    propose(s, 2, 1, 2);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    assert_int_equal(solo_field(s, claim, "epoch"), 1);
    assert_int_equal(solo_field(s, claim, "seq"), 1);
    assert_int_equal(solo_field(s, claim, "established"), 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_RETRY], 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], 0);
    return s;
}

/* Established with token 1; the heartbeat that says so is its second. */
static struct solo *leader(void)
{
    struct solo *s = claimant();
    follow(s, 1, 1, 0, 1);
    assert_int_equal(s->leader, 3);
    assert_int_equal(solo_told(s)->token, 1);
    return s;
}

/* Follows 2, which is established in epoch 4. */
static struct solo *follower(void)
{
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, true);
    assert_int_equal(s->leader, 2);
    return s;
}

/* The latest step says that, and saves before it does. */
static void assert_saves_before(const struct solo *s, uint32_t type)
{
    bool is_saved = false;
    bool is_said = false;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        is_saved = is_saved || e->kind == CV_EFFECT_PERSIST;
        if (e->kind == CV_EFFECT_SEND && e->message.type == type) {
            is_said = true;
            assert_true(is_saved);
        }
    }
    assert_true(is_said);
}

static void resign(struct solo *s, cv_id heir)
{
    solo_step(s, (struct cv_event){.kind = CV_EVENT_RESIGN, .peer = heir});
}

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
    follow(s, 2, 1, 0, 1); /* an older one than it has */
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

static void follows_that_waited_through_a_pause_revive_nothing(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_pause(s, LEAD_NS);
    follow(s, 2, 1, 0, 2);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void follows_that_answer_nothing_of_today_do_not_count(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    follow(s, 1, 1, 99, 1); /* an earlier life */
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

static void follows_of_heartbeats_whose_time_is_forgotten_do_not_count(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 3, 3, "lease=60s");
    propose(s, 1, 1, 1);
    propose(s, 2, 1, 2);
    for (uint32_t seq = 2; seq <= POLE_BEATS_KEPT; seq++) {
        (void)solo_await(s, "HEARTBEAT", ROUND_NS);
    }
    follow(s, 1, 1, 0, 1); /* 64 are kept */
    assert_int_equal(s->leader, 3);
    const int64_t until_ns = solo_told(s)->valid_until_ns; /* counts from the first */
    assert_true(until_ns < s->now_ns + 60 * NS_PER_S - 600 * NS_PER_MS);
    follow(s, 2, 1, 0, 1); /* the one that said so was the 65th */
    assert_null(solo_told(s));
    assert_non_null(
        solo_noted(s, "FOLLOW of {peer} ignored: it answers a heartbeat that is too old"));
    follow(s, 2, 1, 0, 2);
    assert_int_equal(s->out.note_count, 0);
    solo_free(s);
}

static void a_refused_claim_goes_on_above_and_forgets_its_answers(void **unused)
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
    assert_int_equal(s->leader, CV_ID_NONE); /* what 1 followed was epoch 1 */
    follow(s, 1, 1, 0, 1);                   /* ... and says so late */
    assert_int_equal(s->leader, CV_ID_NONE);
    say(s, 4, "REFUSE", 6);
    assert_null(solo_said(s, "HEARTBEAT")); /* about an earlier claim */
    follow(s, 4, 7, 0, seq);
    assert_int_equal(s->leader, 5);
    assert_int_equal(solo_told(s)->token, 7);
    solo_free(s);
}

/* It released what it had claimed: nobody would listen to a second claim of the same epoch. */
static void a_second_claim_is_of_a_new_epoch(void **unused)
{
    (void)unused;
    struct solo *s = one_of_three(2);
    heartbeat(s, 3, 1, true);
    draft_heartbeat(s, 2, true); /* 3 was refused by somebody, and keeps its token */
    solo_put(s, "token", 1);
    solo_hear(s, 3, 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    propose(s, 1, 3, 1);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    const uint64_t epoch = solo_field(s, claim, "epoch");
    heartbeat(s, 3, 1, true); /* late, of the very leader that it is bound to: it yields */
    assert_int_equal(solo_field(s, solo_said(s, "RELEASE"), "epoch"), epoch);
    propose(s, 1, epoch, 1);
    claim = solo_await(s, "HEARTBEAT", 10 * ROUND_NS);
    assert_true(solo_field(s, claim, "epoch") > epoch);
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
    follow(s, 1, 1, 0, seq - 1); /* of the token's epoch and above all count */
    follow(s, 2, 2, 0, seq);
    assert_int_equal(solo_told(s)->token, 1);
    solo_free(s);
}

static void a_claim_that_nobody_follows_ends_and_stands_back(void **unused)
{
    (void)unused;
    struct solo *s = claimant();
    const int64_t begin_ns = s->now_ns;
    (void)solo_await(s, "RELEASE", 100 * NS_PER_MS);
    assert_int_equal(s->now_ns, begin_ns + LEASE_NS + 2 * ROUND_NS);
    assert_int_equal(s->timer_ns[POLE_TIMER_BACK], s->now_ns + 4 * LEASE_NS);
    assert_int_equal(s->timer_ns[POLE_TIMER_BEAT], 0);
    propose(s, 1, 2, 1);
    propose(s, 2, 2, 1); /* all are in, and its own score is the best: it is not quorate */
    assert_null(solo_said(s, "HEARTBEAT"));
    /* 1 is chosen, and waited for twice as long as usual, since a claim came to nothing; then 2,
     * which is next, even longer. */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 4 * ROUND_NS);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_SILENCE]);
    propose(s, 1, 3, 2);
    propose(s, 2, 3, 2);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 8 * ROUND_NS);
    heartbeat(s, 2, 3, true); /* somebody leads: from now on as usual */
    solo_wait_until(s, s->timer_ns[POLE_TIMER_SILENCE]);
    propose(s, 1, 4, 1);
    propose(s, 2, 4, 1);
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS);
    solo_free(s);
}

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
    assert_non_null(solo_said(s, "RELEASE")); /* a leader, though of a smaller epoch: ... */
    assert_non_null(solo_said(s, "REFUSE"));  /* ... it has followed itself in 9 */
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

    /* Of an earlier generation: the promise to 2 binds until its lease is over. */
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

static void what_is_followed_is_saved_before_it_is_promised(void **unused)
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
    assert_int_equal(s->leader, CV_ID_NONE); /* a claimant is not told of */
    heartbeat(s, 2, 4, true);
    assert_int_equal(s->leader, 2);
    assert_int_equal(solo_told(s)->token, 4);
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        assert_int_not_equal(s->out.item[i].kind, CV_EFFECT_PERSIST); /* the same pair again */
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
    assert_int_equal(solo_send_count(s), 0); /* unestablished: its choice is not free */
    heartbeat(s, 3, 5, true);
    assert_int_equal(solo_send_count(s), 0); /* established: later */
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

static void heartbeats_up_to_a_released_epoch_are_over(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    release(s, 2, 4, CV_ID_NONE);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    release(s, 2, 3, CV_ID_NONE); /* an older one takes nothing back */
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
    release(s, 3, 9, CV_ID_NONE); /* of another */
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
    draft_heartbeat(s, 3, true); /* an older claim of the one that is followed is only late */
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

static void heartbeats_that_cannot_be_are_ignored(void **unused)
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
    assert_null(solo_said(s, "FOLLOW")); /* not even the same: it does not know till when */
    s->now_ns = end_ns - 1;
    heartbeat(s, 2, 4, true);
    assert_null(solo_said(s, "FOLLOW"));
    s->now_ns = end_ns;
    heartbeat(s, 2, 4, true);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_free(s);
}

/* It waits for the next claim of that one, and does not elect another meanwhile. */
static void restarted_process_awaits_whom_it_refuses(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_restart(s);
    s->now_ns += 2 * LEASE_NS;
    heartbeat(s, 3, 4, true); /* 4 was followed of 2 */
    assert_int_equal(solo_field(s, solo_said(s, "REFUSE"), "epoch"), 4);
    assert_int_equal(((const struct pole *)s->state)->awaited, 3);
    solo_free(s);
}

static void what_was_claimed_is_not_claimed_again_after_a_restart(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_wait_until(s, s->now_ns + TIMEOUT_NS); /* selecting in epoch 5, and still promised to 2 */
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
    assert_int_equal(s->leader, CV_ID_NONE); /* 3 is one of three, and it may not count itself */
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

/* What the witness of a process may say when it is dead. */
static void a_dead_process_releases_what_it_claimed_but_nothing_of_an_earlier_life(void **unused)
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
    assert_int_equal(solo_field(s, &farewell, "epoch"), epoch); /* it claims above that */
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    assert_false(s->protocol->farewell(s->state, s->now_ns + LEASE_NS, &farewell));
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
    heartbeat(s, 2, 1, true); /* an established leader is seen: everybody may be well again */
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
    propose(s, 3, 5, 3); /* 2, the suspect, has not proposed */
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + 2 * ROUND_NS); /* chosen: 3 */
    solo_free(s);
}

static void a_hint_that_its_leader_is_down_is_suspicion_and_nothing_more(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    assert_int_equal(s->leader, 2);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 2});
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_SUSPECTED);
    heartbeat(s, 3, 9, false);
    assert_null(solo_said(s, "FOLLOW")); /* the promise to 2 runs */
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

/* The choice is waited for longer by twice what its claim was late. Half of the wait is usual. */
static void one_whose_disk_is_slow_is_waited_for_longer(void **unused)
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

/* A claim that cannot be answered yet is heard all the same: its silence is that of a leader. */
static void a_claim_that_waits_for_a_promise_is_listened_to(void **unused)
{
    (void)unused;
    struct solo *s = follower();
    solo_wait_until(s, s->now_ns + TIMEOUT_NS); /* 2 falls silent; the promise runs 10 ms more */
    heartbeat(s, 3, 9, false);
    assert_null(solo_said(s, "FOLLOW"));
    assert_int_equal(s->timer_ns[POLE_TIMER_SILENCE], s->now_ns + TIMEOUT_NS);
    solo_free(s);
}

/* A host may have queued a timer that a step before it disarmed. */
static void a_timer_that_rings_though_it_was_disarmed_means_nothing(void **unused)
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

static void who_resigns_releases_names_its_heir_and_stands_back(void **unused)
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

static void who_is_no_candidate_does_not_claim(void **unused)
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

static void who_cannot_save_stops_for_good(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STOPPED);
    assert_int_equal(solo_send_count(s), 0); /* nothing is released: it may be followed still */
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        assert_int_equal(s->timer_ns[timer], 0);
    }
    heartbeat(s, 2, 9, true);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

/* A machine that boots begins to count time anew, and an ECHO of its earlier life may come late. */
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
        cmocka_unit_test(an_echo_of_an_earlier_life_measures_nothing),
        cmocka_unit_test(a_leadership_counts_from_when_the_heartbeat_was_sent),
        cmocka_unit_test(a_leader_sends_every_heartbeat_and_stops_at_its_end),
        cmocka_unit_test(follows_that_waited_through_a_pause_revive_nothing),
        cmocka_unit_test(follows_that_answer_nothing_of_today_do_not_count),
        cmocka_unit_test(follows_of_heartbeats_whose_time_is_forgotten_do_not_count),
        cmocka_unit_test(a_refused_claim_goes_on_above_and_forgets_its_answers),
        cmocka_unit_test(a_second_claim_is_of_a_new_epoch),
        cmocka_unit_test(a_refused_leader_keeps_its_token),
        cmocka_unit_test(a_claim_that_nobody_follows_ends_and_stands_back),
        cmocka_unit_test(a_claimant_yields_to_larger_claims_and_to_leaders_only),
        cmocka_unit_test(restored_record_refuses_every_epoch_up_to_its_floor),
        cmocka_unit_test(what_is_followed_is_saved_before_it_is_promised),
        cmocka_unit_test(a_promise_keeps_it_from_following_others_until_it_ends),
        cmocka_unit_test(the_newest_claim_is_answered_when_the_promise_ends),
        cmocka_unit_test(a_claim_that_was_released_while_it_waited_is_not_followed),
        cmocka_unit_test(heartbeats_up_to_a_released_epoch_are_over),
        cmocka_unit_test(a_release_ends_the_promise_to_its_sender_only),
        cmocka_unit_test(an_heir_claims_at_once_and_others_wait_for_it),
        cmocka_unit_test(smaller_epochs_and_equal_ones_of_others_are_refused),
        cmocka_unit_test(heartbeats_that_cannot_be_are_ignored),
        cmocka_unit_test(a_leader_with_an_older_token_than_one_seen_is_late),
        cmocka_unit_test(a_restarted_process_follows_nobody_for_the_lease_it_promised),
        cmocka_unit_test(restarted_process_awaits_whom_it_refuses),
        cmocka_unit_test(what_was_claimed_is_not_claimed_again_after_a_restart),
        cmocka_unit_test(a_bound_claimant_counts_itself_when_its_promise_ends),
        cmocka_unit_test(a_restarted_process_releases_nothing_for_a_lease),
        cmocka_unit_test(a_dead_process_releases_what_it_claimed_but_nothing_of_an_earlier_life),
        cmocka_unit_test(a_choice_that_does_not_claim_is_passed_over),
        cmocka_unit_test(a_round_is_not_prolonged_by_later_proposals),
        cmocka_unit_test(nobody_waits_for_a_leader_that_fell_silent),
        cmocka_unit_test(a_hint_that_its_leader_is_down_is_suspicion_and_nothing_more),
        cmocka_unit_test(a_vote_answers_a_proposal_once_there_is_a_leader),
        cmocka_unit_test(one_whose_disk_is_slow_is_waited_for_longer),
        cmocka_unit_test(a_claim_that_waits_for_a_promise_is_listened_to),
        cmocka_unit_test(a_timer_that_rings_though_it_was_disarmed_means_nothing),
        cmocka_unit_test(who_resigns_releases_names_its_heir_and_stands_back),
        cmocka_unit_test(who_is_no_candidate_does_not_claim),
        cmocka_unit_test(who_cannot_save_stops_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
