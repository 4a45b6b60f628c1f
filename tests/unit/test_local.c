/* tests/unit/test_local.c - the rules of `local` that are ours (docs/local.md): recovery,
 * tokens, which processes know their partition, resigning, hints, succession. Collation is in
 * test_local_tree.c.
 *
 * A single core; the test plays the rest of the world. The rules of the paper are in
 * tests/paper/test_local_rules_paper.c. Constants are those of support/local.h: Delta 5 ms,
 * ep 8 ms, expires 92.014408 ms, lock 123.014408 ms. */
#include "protocols/local_state.h"
#include "support/local.h"
#include "support/support.h"

/* ---- sec. IX: recovery, and tokens (ours) ---------------------------------------------------- */

/* [Fetzer99, sec. IX] "without this assumption [to be down for lockTime] it would have to wait for
 * lockTime": that is what a restarted process does. */
static void restarted_process_supports_nobody_for_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 1));
    solo_restart(c);
    const int64_t restarted_ns = c->now_ns;
    assert_false(local_is_supported(c, 1, 1, 2));
    /* Not even the same request again: it has forgotten it. */
    assert_false(local_is_supported(c, 2, 2, 3));
    c->now_ns = restarted_ns + LOCK_NS - 1;
    assert_false(local_is_supported(c, 1, 2, 4));
    c->now_ns = restarted_ns + LOCK_NS;
    assert_true(local_is_supported(c, 1, 3, 5));
    solo_free(c);
}

/* "unless what it persisted shows that it never supported anybody" */
static void restarted_process_that_never_supported_does_not_wait(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    (void)local_is_supported(c, 1, 1, 0); /* refused: no token */
    local_hear_reply(c, 2, 1, false);
    assert_int_equal(c->persisted_count, 0);
    solo_restart(c);
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_free(c);
}

/* A candidate supports itself, and that counts as support. */
static void restarted_candidate_does_not_support_itself_for_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 1, "");
    (void)local_elect(c);
    const uint64_t token = solo_told(c)->token;
    solo_restart(c);
    const int64_t restarted_ns = c->now_ns;
    while (solo_told(c) == NULL) {
        solo_wait_until(c, c->now_ns + NS_PER_MS);
    }
    assert_true(c->now_ns >= restarted_ns + LOCK_NS);
    assert_true(c->now_ns <= restarted_ns + LOCK_NS + 20 * NS_PER_MS);
    assert_true(solo_told(c)->token > token); /* it may have led with the one it had saved */
    solo_free(c);
}

/* A message of process 1, whose machine has booted since. */
static void hear_after_a_reboot(struct solo *c, const char *type, uint64_t request)
{
    solo_draft(c, type);
    solo_put(c, "life", 8);
    solo_put(c, "request", request);
    solo_put(c, "token", 1);
    solo_hear(c, 1, FAST_NS);
}

/* A hint of that death only: it frees no lock. */
static void is_seen_dead(struct solo *c, cv_id dead)
{
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = dead});
}

/* The machine booted in between and its clock began anew. A late RELEASE of the boot before says
 * nothing about a request of this one, however much larger its instant is. */
static void release_of_another_life_frees_no_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 900, 1));
    hear_after_a_reboot(c, "ELECTION", 5);
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "supports"), 1);
    local_hear_release(c, 1, 900);
    is_seen_dead(c, 1);
    assert_false(local_is_supported(c, 2, 1, 2)); /* still locked to 1 */
    solo_free(c);
}

/* A release by the new life does not end the promise to the earlier one, which may have led by it.
 * When that promise is over the process is free, though the lock to the new life would have lasted
 * longer. */
static void release_of_the_new_life_leaves_the_lock_to_the_earlier_one(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t supported_ns = c->now_ns;
    assert_true(local_is_supported(c, 1, 900, 1));
    c->now_ns += NS_PER_MS;
    hear_after_a_reboot(c, "ELECTION", 5);
    hear_after_a_reboot(c, "RELEASE", 5);
    is_seen_dead(c, 1);
    assert_false(local_is_supported(c, 2, 1, 2));
    c->now_ns = supported_ns + LOCK_NS;
    assert_true(local_is_supported(c, 2, 2, 2));
    solo_free(c);
}

/* "a supporter persists the token before its supportive REPLY" */
static void token_is_saved_before_the_answer(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, 42));
    bool is_saved = false;
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        const struct cv_effect *e = &c->out.item[i];
        if (e->kind == CV_EFFECT_PERSIST) {
            assert_int_equal(e->persist[0], 42);
            assert_int_equal(e->persist[1], 1);
            is_saved = true;
        }
        assert_true(is_saved || e->kind != CV_EFFECT_SEND);
    }
    assert_true(is_saved);
    solo_free(c);
}

/* "refuses a token that is not larger than its own (except the same leader renewing)" */
static void token_that_is_not_larger_is_refused(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 10));
    assert_true(local_is_supported(c, 2, 2, 10)); /* the same request again */
    assert_false(local_is_supported(c, 2, 3, 9)); /* from the same candidate, but smaller */
    local_hear_release(c, 2, 3);
    assert_false(local_is_supported(c, 1, 1, 9));
    assert_false(local_is_supported(c, 1, 2, 10)); /* the same token of another candidate */
    assert_true(local_is_supported(c, 1, 3, 11));
    solo_free(c);
}

/* "and says its own in the refusal"; a refusal for any other reason says none. */
static void refusal_tells_the_token(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 10));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "token"), 0);
    assert_false(local_is_supported(c, 1, 1, 11)); /* locked to 2 */
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "token"), 0);
    local_hear_release(c, 2, 1);
    assert_false(local_is_supported(c, 1, 2, 3));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "token"), 10);
    solo_free(c);
}

static void accepted_token_survives_a_crash(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 10));
    solo_restart(c);
    c->now_ns += LOCK_NS;
    assert_false(local_is_supported(c, 1, 1, 10));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "token"), 10);
    assert_true(local_is_supported(c, 1, 2, 11));
    solo_free(c);
}

/* "ELECTION proposes token = 1 + the largest seen", including the largest that others told it. */
static void candidate_tops_the_largest_token_it_heard_of(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 2, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    solo_draft(c, "REPLY");
    solo_put(c, "request", solo_field(c, m, "request"));
    solo_put(c, "token", 77);
    solo_hear(c, 2, FAST_NS);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(solo_field(c, m, "token"), 78);
    solo_free(c);
}

/* Renewals keep the token; a new leadership has a larger one. */
static void renewal_keeps_the_token(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 2, "");
    (void)local_elect(c);
    const uint64_t token = solo_told(c)->token;
    for (uint32_t i = 0; i < 10; i++) {
        const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
        assert_int_equal(solo_field(c, m, "token"), token);
        local_hear_reply(c, 2, solo_field(c, m, "request"), true);
        assert_int_equal(solo_told(c)->token, token);
        assert_int_equal(solo_told(c)->reason, CV_REASON_RENEWED);
    }
    solo_free(c);
}

/* A process that cannot save must not promise: it says nothing more. */
static void process_whose_disk_fails_takes_no_further_part(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    solo_draft(c, "ELECTION");
    solo_put(c, "request", 2);
    solo_put(c, "token", 2);
    solo_hear(c, 1, FAST_NS);
    assert_int_equal(solo_send_count(c), 0);
    for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
        assert_int_equal(c->timer_ns[t], 0);
    }
    solo_free(c);
}

/* ---- sec. X: the logical partition ----------------------------------------------------------- */

/* [Fetzer99, sec. X] "p piggybacks its support set on its next ELECTION-message to provide the
 * processes of its logical partition with the current members" */
static void supporters_learn_their_partition_from_the_next_election(void **unused)
{
    (void)unused;
    struct solo *leader = local_process(1, 3, "");
    (void)local_elect(leader);
    const uint64_t token = solo_told(leader)->token;
    const struct cv_message *m = solo_await(leader, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(solo_set(leader, m, "support"), BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(solo_field(leader, m, "leading"), token);

    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, token));
    assert_null(solo_told(c)); /* it does not know yet whether 1 succeeded */
    solo_hear_copy(c, 1, m, FAST_NS);
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, 1);
    assert_int_equal(solo_told(c)->token, token);
    assert_int_equal(solo_told(c)->members.word[0] << 1, BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(solo_told(c)->valid_until_ns, 0); /* only the leader itself needs it */
    solo_free(c);
    solo_free(leader);
}

/* A process outside the set is not in the partition, though it hears the leader. */
static void process_outside_the_support_set_does_not_follow(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    solo_draft(c, "ELECTION");
    solo_put(c, "request", 1);
    solo_put(c, "token", 1);
    solo_put(c, "leading", 1);
    solo_put_set(c, "support", BIT(1) | BIT(2));
    solo_hear(c, 1, FAST_NS);
    assert_null(solo_told(c));
    solo_free(c);
}

/* A follower forgets its leader when its lock ends, and when it is released. */
static void follower_forgets_its_leader_when_its_lock_ends(void **unused)
{
    (void)unused;
    for (uint32_t is_released = 0; is_released < 2; is_released++) {
        struct solo *c = local_process(3, 3, "");
        solo_draft(c, "ELECTION");
        solo_put(c, "request", 1);
        solo_put(c, "token", 1);
        solo_put(c, "leading", 1);
        solo_put_set(c, "support", BIT(1) | BIT(3));
        solo_hear(c, 1, FAST_NS);
        assert_int_equal(solo_told(c)->leader, 1);
        if (is_released) {
            local_hear_release(c, 1, 1);
        } else {
            const int64_t heard_ns = c->now_ns;
            solo_wait_until(c, heard_ns + LOCK_NS - 1);
            assert_int_equal(c->leader, 1);
            solo_wait_until(c, heard_ns + LOCK_NS);
        }
        assert_int_equal(c->leader, CV_ID_NONE);
        solo_free(c);
    }
}

/* ---- Resigning, hints, succession (ours) ----------------------------------------------------- */

/* First its leadership ends, then it frees its supporters and says that nobody need wait for it. */
static void resigning_leader_releases_and_is_passive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    solo_step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, CV_ID_NONE);
    assert_int_equal(solo_told(c)->reason, CV_REASON_RESIGNED);
    assert_int_equal(c->out.item[0].kind == CV_EFFECT_SEND, 0);
    const struct cv_message *m = solo_said(c, "RELEASE");
    assert_non_null(m);
    assert_int_equal(solo_field(c, m, "passive"), 1);
    /* Although 2 is higher: this process is not a candidate itself. */
    assert_true(local_is_supported(c, 2, 1, 50));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "passive"), 1);
    solo_free(c);
}

/* Only a leader can resign. */
static void resigning_as_a_follower_does_nothing(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_int_equal(c->out.item_count, 0);
    assert_false(local_is_supported(c, 2, 1, 2)); /* still locked to 1 */
    solo_free(c);
}

/* ---- Candidates that do not hear us, and processes in each other's way (ours) ---------------- */

/* It asks for support, and says that it hears nobody. */
static void hear_deaf(struct solo *c, cv_id candidate, uint64_t request)
{
    solo_draft(c, "ELECTION");
    solo_put(c, "request", request);
    solo_put(c, "token", 1);
    solo_hear(c, candidate, FAST_NS);
}

/* A process that hears nobody is heard by all: waiting for it would leave everybody without a
 * leader. An ECHO tells it that it is ignored; if it hears that, its next ELECTION says so. */
static void candidate_that_has_not_heard_us_for_expires_is_not_alive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t first_ns = c->now_ns;
    uint64_t request = 1;
    for (; c->now_ns - first_ns <= EXPIRES_NS; c->now_ns += 8 * NS_PER_MS) {
        hear_deaf(c, 1, request++);
        assert_non_null(solo_said(c, "REPLY")); /* perhaps our answer was lost */
    }
    hear_deaf(c, 1, request++);
    assert_null(solo_said(c, "REPLY"));
    assert_non_null(solo_said(c, "ECHO"));
    for (const int64_t until_ns = c->now_ns + LOCK_NS; c->now_ns < until_ns;
         c->now_ns += 8 * NS_PER_MS) {
        hear_deaf(c, 1, request++); /* it goes on asking, but nobody waits for it */
        assert_null(solo_said(c, "REPLY"));
    }
    assert_true(local_is_supported(c, 2, 1, 2));
    assert_false(local_is_supported(c, 1, request, 3)); /* now it hears us: then it is alive */
    c->now_ns += LOCK_NS;
    assert_true(local_is_supported(c, 1, request + 1, 5));
    solo_free(c);
}

/* A candidate that asks rarely has forgotten us each time, though it hears us. */
static void candidate_that_was_silent_for_long_may_not_know_us(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    for (uint64_t request = 1; request < 10; request++) {
        hear_deaf(c, 1, request);
        assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "supports"), 1);
        c->now_ns += EXPIRES_NS + 1;
    }
    solo_free(c);
}

/* It stands aside for others in between; each time it came back, everybody would wait for it. */
static void candidate_that_asks_by_turns_and_does_not_hear_us_is_not_alive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    uint64_t request = 1;
    hear_deaf(c, 1, request++);
    assert_non_null(solo_said(c, "REPLY"));
    c->now_ns += 8 * NS_PER_MS;
    hear_deaf(c, 1, request++);
    assert_non_null(solo_said(c, "REPLY")); /* perhaps our answer was lost */
    for (uint32_t turn = 0; turn < 5; turn++) {
        c->now_ns += LOCK_NS; /* longer than expires */
        hear_deaf(c, 1, request++);
        assert_null(solo_said(c, "REPLY"));
        assert_non_null(solo_said(c, "ECHO"));
    }
    assert_true(local_is_supported(c, 2, 1, 2)); /* nobody waits for 1 */
    c->now_ns += LOCK_NS;
    assert_true(local_is_supported(c, 1, request, 3)); /* now it hears us */
    solo_free(c);
}

/* [Fetzer99, fig. 24] "process is marked": it follows a leader before the one that asks. */
static void refusal_says_that_we_follow_a_leader_before_the_asker(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 5, "");
    assert_true(local_is_supported(c, 2, 1, 1));
    assert_false(local_is_supported(c, 3, 1, 2)); /* locked to a candidate, which may yet fail */
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "taken"), 0);
    solo_draft(c, "ELECTION");
    solo_put(c, "request", 2);
    solo_put(c, "token", 1);
    solo_put(c, "leading", 1);
    solo_put_set(c, "alive", BIT(2) | BIT(4));
    solo_put_set(c, "support", BIT(2) | BIT(4));
    solo_hear(c, 2, FAST_NS);
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "taken"), 0); /* it is our leader */
    assert_false(local_is_supported(c, 3, 2, 3));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "taken"), 1);
    /* It comes before our leader: we will be free for it. */
    assert_false(local_is_supported(c, 1, 1, 4));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "taken"), 0);
    solo_draft(c, "ECHO");
    solo_put(c, "asks", 1);
    solo_hear(c, 3, SLOW_NS);
    assert_int_equal(solo_field(c, solo_said(c, "ECHO"), "taken"), 1);
    /* Or the two would echo for ever. */
    assert_int_equal(solo_field(c, solo_said(c, "ECHO"), "asks"), 0);
    solo_free(c);
}

/* Process 2 of 4 asks; 3 follows somebody that 2 does not hear. */
static struct solo *process_that_stands_aside(void)
{
    struct solo *c = local_process(2, 4, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    solo_draft(c, "REPLY");
    solo_put(c, "request", solo_field(c, m, "request"));
    solo_put(c, "taken", 1);
    solo_hear(c, 3, FAST_NS);
    m = solo_await(c, "RELEASE", 3 * WAIT_NS);
    assert_int_equal(solo_field(c, m, "passive"), 1);
    return c;
}

static void hear_echo(struct solo *c, cv_id from, bool taken)
{
    solo_draft(c, "ECHO");
    solo_put(c, "taken", taken);
    solo_hear(c, from, FAST_NS);
}

/* Process 1 asked twice and did not hear us. Does it count as alive again after this message from
 * it? */
static bool is_deaf_one_answered_after(const char *type, const char *field, uint64_t value,
                                       int64_t delay_ns)
{
    struct solo *c = local_process(3, 3, "");
    hear_deaf(c, 1, 1);
    c->now_ns += 8 * NS_PER_MS;
    hear_deaf(c, 1, 2);
    c->now_ns += LOCK_NS;
    hear_deaf(c, 1, 3);
    assert_null(solo_said(c, "REPLY"));
    solo_draft(c, type);
    solo_put(c, field, value);
    solo_hear(c, 1, delay_ns);
    hear_deaf(c, 1, 4);
    const bool is_answered = solo_said(c, "REPLY") != NULL;
    solo_free(c);
    return is_answered;
}

/* Two processes that each believe the other does not hear answer by ECHO alone, and ask without
 * waiting for it. */
static void answer_by_echo_shows_that_its_sender_hears_us(void **unused)
{
    (void)unused;
    assert_true(is_deaf_one_answered_after("ECHO", "asks", 0, FAST_NS));
    /* A question, not an answer. */
    assert_false(is_deaf_one_answered_after("ECHO", "asks", 1, FAST_NS));
    assert_false(is_deaf_one_answered_after("ECHO", "asks", 0, SLOW_NS));
}

/* [BI] A process that answers is alive for `expires`, whatever it asked before it heard us. */
static void reply_shows_that_its_sender_hears_us(void **unused)
{
    (void)unused;
    assert_true(is_deaf_one_answered_after("REPLY", "request", 7, FAST_NS));
    assert_false(is_deaf_one_answered_after("REPLY", "request", 7, SLOW_NS));
    assert_false(is_deaf_one_answered_after("RELEASE", "request", 3, FAST_NS)); /* not an answer */
}

/* It asks no more, and supports a process after it. */
static void process_with_a_taken_neighbour_stands_aside(void **unused)
{
    (void)unused;
    struct solo *c = process_that_stands_aside();
    assert_true(local_is_supported(c, 4, 1, 50)); /* though 3, which is taken, comes before it */
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "passive"), 1);
    const int64_t end_ns = c->now_ns + 3 * EXPIRES_NS;
    while (c->now_ns < end_ns) {
        cv_id to = CV_ID_NONE;
        const struct cv_message *m = solo_await(c, "ECHO", EXPIRES_NS / 3 + 1);
        assert_int_equal(solo_field(c, m, "asks"), 1);
        assert_non_null(solo_said_to(c, "ECHO", &to));
        assert_int_equal(to, 3);
        assert_null(solo_said(c, "ELECTION"));
        hear_echo(c, 3, /* taken= */ true);
    }
    solo_free(c);
}

static void process_stands_up_as_soon_as_its_way_is_free(void **unused)
{
    (void)unused;
    struct solo *c = process_that_stands_aside();
    hear_echo(c, 4, /* taken= */ true); /* that one is in its way, too */
    hear_echo(c, 3, /* taken= */ false);
    solo_wait_until(c, c->now_ns + 1);
    assert_null(solo_said(c, "ELECTION"));
    hear_echo(c, 4, /* taken= */ false);
    (void)solo_await(c, "ELECTION", 1);
    solo_free(c);
}

/* The process in its way is gone. Nobody says so, but it asks and hears nothing. */
static void process_stands_up_when_the_one_in_its_way_is_silent(void **unused)
{
    (void)unused;
    struct solo *c = process_that_stands_aside();
    (void)solo_await(c, "ELECTION", EXPIRES_NS + EXPIRES_NS / 3 + 1);
    solo_free(c);
}

static void process_stands_up_when_the_one_in_its_way_is_said_to_be_down(void **unused)
{
    (void)unused;
    struct solo *c = process_that_stands_aside();
    is_seen_dead(c, 3);
    (void)solo_await(c, "ELECTION", 1);
    solo_free(c);
}

/* Standing aside only means that it does not stand up. For a process before it, it would not stand
 * up anyway. */
static void process_that_supports_one_before_it_stands_aside_no_more(void **unused)
{
    (void)unused;
    struct solo *c = process_that_stands_aside();
    assert_true(local_is_supported(c, 1, 1, 50));
    is_seen_dead(c, 1);
    hear_echo(c, 3, /* taken= */ false);
    (void)solo_await(c, "ELECTION", EXPIRES_NS + 1);
    solo_free(c);
}

/* Its sender has given the request up: a lock to it would last in vain. */
static void election_overtaken_by_its_own_release_is_ignored(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    local_hear_release(c, 1, 7);
    hear_deaf(c, 1, 7);
    assert_int_equal(solo_send_count(c), 0);
    assert_non_null(solo_noted(c, "ELECTION of {peer} ignored: overtaken by its RELEASE"));
    assert_true(local_is_supported(c, 2, 1, 1));
    local_hear_release(c, 2, 1);
    local_hear_release(c, 1, 5); /* overtaken, too: says nothing about 6 and 7 */
    hear_deaf(c, 1, 7);
    assert_int_equal(solo_send_count(c), 0);
    assert_true(local_is_supported(c, 1, 8, 2));
    solo_free(c);
}

/* A message that a process sent before it died may arrive up to Delta after the hint. It is not a
 * sign of life. */
static void late_election_of_the_dead_does_not_undo_a_hint(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    is_seen_dead(c, 1);
    c->now_ns += WAIT_NS / 2 - 1;
    hear_deaf(c, 1, 1);
    assert_int_equal(solo_send_count(c), 0);
    assert_true(local_is_supported(c, 2, 1, 1));
    local_hear_release(c, 2, 1);
    c->now_ns += 1;
    assert_true(local_is_supported(c, 1, 2, 2)); /* sent after the hint: 1 is alive */
    solo_free(c);
}

/* Somebody may say by mistake that this process itself is down. */
static void hint_of_our_own_death_costs_one_request(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 1, "");
    (void)local_elect(c);
    is_seen_dead(c, 1);
    const int64_t told_ns = c->now_ns;
    solo_wait_until(c, told_ns + 3 * LOCK_NS);
    assert_true(((const struct local *)c->state)->expiration_ns > told_ns + 3 * LOCK_NS);
    solo_free(c);
}

/* The first request cannot succeed; the second can once everybody has had Delta to answer. */
static void second_request_follows_the_first_after_delta(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    const int64_t first_ns = (int64_t)solo_field(c, m, "request");
    m = solo_await(c, "ELECTION", DELTA_NS + NS_PER_MS);
    assert_int_equal(solo_field(c, m, "request"), first_ns + WAIT_NS / 2 + 1);
    assert_int_equal(c->timer_ns[LOCAL_TIMER_ALIVE], c->now_ns + 8 * NS_PER_MS);
    solo_free(c);
}

/* A passive process is alive and asked for support, but not taken for the lowest. */
static void passive_process_is_not_waited_for(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_draft(c, "RELEASE");
    solo_put(c, "request", 1);
    solo_put(c, "passive", 1);
    solo_hear(c, 1, FAST_NS);
    assert_true(local_is_supported(c, 2, 1, 2));
    solo_free(c);
}

/* "takes p out of aliveSet at once; locks stay until lockedUntil (safety never rests on a hint)" */
static void hint_removes_from_the_alive_set_and_leaves_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1});
    /* 2 is the lowest now, but the lock still holds. */
    assert_false(local_is_supported(c, 2, 1, 2));
    c->now_ns = locked_ns + LOCK_NS - 1;
    assert_false(local_is_supported(c, 2, 2, 3));
    c->now_ns = locked_ns + LOCK_NS;
    assert_true(local_is_supported(c, 2, 3, 4));
    solo_free(c);
}

/* "A RELEASE sent on the dead process's behalf by its own host's agent frees the locks at once." */
static void certain_hint_frees_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1, .is_certain = true});
    assert_true(local_is_supported(c, 2, 1, 2));
    solo_free(c);
}

static void certain_hint_frees_no_lock_to_another(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 4, "");
    assert_true(local_is_supported(c, 2, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3, .is_certain = true});
    assert_false(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

/* Orphans stand up in the order of ids, each later by Delta + sigma for each one before it. */
static void orphans_stand_up_one_after_the_other(void **unused)
{
    (void)unused;
    for (uint32_t has_succession = 0; has_succession < 2; has_succession++) {
        for (cv_id self = 2; self <= 5; self++) {
            struct solo *c = local_process(self, 5, has_succession ? "" : "succession=no");
            solo_draft(c, "ELECTION");
            solo_put(c, "request", 1);
            solo_put(c, "token", 1);
            solo_put(c, "leading", 1);
            solo_put_set(c, "support", BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5));
            solo_hear(c, 1, FAST_NS);
            const int64_t heard_ns = c->now_ns;
            (void)solo_await(c, "ELECTION", 3 * EXPIRES_NS);
            const int64_t places = has_succession ? self - 2 : 0;
            assert_int_equal(c->now_ns, heard_ns + EXPIRES_NS + 1 + places * 10 * NS_PER_MS);
            solo_free(c);
        }
    }
}

/* Two halves of four could lead at the same time. */
static void half_of_an_even_number_is_no_majority(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 4, "majority=yes");
    for (uint32_t round = 0; round < 6; round++) {
        const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
        local_hear_reply(c, 2, solo_field(c, m, "request"), true);
        assert_null(solo_told(c));
    }
    for (uint32_t round = 0; round < 6 && solo_told(c) == NULL; round++) {
        const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
        const uint64_t request = solo_field(c, m, "request");
        local_hear_reply(c, 2, request, true);
        local_hear_reply(c, 3, request, true);
    }
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, 1);
    solo_free(c);
}

/* ---- Reasons: what an operator reads when there is no leader --------------------------------- */

/* Every refusal of support says what it rests on. */
static void refusal_of_support_has_a_reason(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(local_is_supported(c, 2, 1, 5));
    assert_int_equal(c->out.note_count, 0);
    assert_false(local_is_supported(c, 1, 1, 6));
    const struct cv_note *note = solo_noted(c, "support refused: locked to {peer} until {time}");
    assert_int_equal(note->peer, 2);
    assert_true(note->time_ns == locked_ns + LOCK_NS);
    local_hear_release(c, 2, 1);
    assert_false(local_is_supported(c, 2, 2, 6));
    assert_int_equal(solo_noted(c, "support refused: {peer} is alive and comes first")->peer, 1);
    assert_false(local_is_supported(c, 1, 2, 5));
    note = solo_noted(c, "support refused: token {number} of {peer} was accepted before");
    assert_int_equal(note->number, 5);
    assert_int_equal(note->peer, 2);
    solo_restart(c);
    assert_false(local_is_supported(c, 1, 3, 7));
    note = solo_noted(c, "support refused: may be locked to another since before its restart, "
                         "until {time}");
    assert_true(note->time_ns == c->now_ns + LOCK_NS);
    solo_free(c);
}

static void ignored_message_has_a_reason(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    solo_draft(c, "ELECTION");
    solo_hear(c, 2, SLOW_NS);
    assert_int_equal(solo_noted(c, "ELECTION of {peer} ignored: slow")->peer, 2);
    local_hear_reply(c, 2, /* request= */ 7, true);
    const struct cv_note *note =
        solo_noted(c, "answer of {peer} not counted: request {number} is no longer open");
    assert_int_equal(note->number, 7);
    solo_draft(c, "REPLY");
    solo_hear(c, 1, FAST_NS);
    assert_int_equal(c->out.item_count, 0);
    solo_noted(c, "message ignored: it claims to come from this process");
    solo_draft(c, "ELECTION");
    solo_put(c, "token", UINT64_MAX);
    solo_hear(c, 2, FAST_NS);
    assert_int_equal(c->out.item_count, 0);
    solo_noted(c, "message of {peer} ignored: token {number} is impossibly large");
    solo_free(c);
}

/* A candidate that does not lead in the end says who is missing. */
static void failed_request_has_a_reason(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    local_hear_reply(c, 3, solo_field(c, m, "request"), false);
    assert_int_equal(solo_noted(c, "{peer} refuses its support")->peer, 3);
    solo_wait_until(c, c->now_ns + WAIT_NS);
    assert_int_equal(solo_noted(c, "request failed: {peer} is alive and does not support it")->peer,
                     3);
    solo_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarted_process_supports_nobody_for_lock),
        cmocka_unit_test(restarted_process_that_never_supported_does_not_wait),
        cmocka_unit_test(restarted_candidate_does_not_support_itself_for_lock),
        cmocka_unit_test(release_of_another_life_frees_no_lock),
        cmocka_unit_test(release_of_the_new_life_leaves_the_lock_to_the_earlier_one),
        cmocka_unit_test(token_is_saved_before_the_answer),
        cmocka_unit_test(token_that_is_not_larger_is_refused),
        cmocka_unit_test(refusal_tells_the_token),
        cmocka_unit_test(accepted_token_survives_a_crash),
        cmocka_unit_test(candidate_tops_the_largest_token_it_heard_of),
        cmocka_unit_test(renewal_keeps_the_token),
        cmocka_unit_test(process_whose_disk_fails_takes_no_further_part),
        cmocka_unit_test(supporters_learn_their_partition_from_the_next_election),
        cmocka_unit_test(process_outside_the_support_set_does_not_follow),
        cmocka_unit_test(follower_forgets_its_leader_when_its_lock_ends),
        cmocka_unit_test(resigning_leader_releases_and_is_passive),
        cmocka_unit_test(resigning_as_a_follower_does_nothing),
        cmocka_unit_test(candidate_that_has_not_heard_us_for_expires_is_not_alive),
        cmocka_unit_test(candidate_that_was_silent_for_long_may_not_know_us),
        cmocka_unit_test(candidate_that_asks_by_turns_and_does_not_hear_us_is_not_alive),
        cmocka_unit_test(answer_by_echo_shows_that_its_sender_hears_us),
        cmocka_unit_test(reply_shows_that_its_sender_hears_us),
        cmocka_unit_test(refusal_says_that_we_follow_a_leader_before_the_asker),
        cmocka_unit_test(process_with_a_taken_neighbour_stands_aside),
        cmocka_unit_test(process_stands_up_as_soon_as_its_way_is_free),
        cmocka_unit_test(process_stands_up_when_the_one_in_its_way_is_silent),
        cmocka_unit_test(process_stands_up_when_the_one_in_its_way_is_said_to_be_down),
        cmocka_unit_test(process_that_supports_one_before_it_stands_aside_no_more),
        cmocka_unit_test(election_overtaken_by_its_own_release_is_ignored),
        cmocka_unit_test(late_election_of_the_dead_does_not_undo_a_hint),
        cmocka_unit_test(hint_of_our_own_death_costs_one_request),
        cmocka_unit_test(second_request_follows_the_first_after_delta),
        cmocka_unit_test(passive_process_is_not_waited_for),
        cmocka_unit_test(hint_removes_from_the_alive_set_and_leaves_the_lock),
        cmocka_unit_test(certain_hint_frees_the_lock),
        cmocka_unit_test(certain_hint_frees_no_lock_to_another),
        cmocka_unit_test(orphans_stand_up_one_after_the_other),
        cmocka_unit_test(half_of_an_even_number_is_no_majority),
        cmocka_unit_test(refusal_of_support_has_a_reason),
        cmocka_unit_test(ignored_message_has_a_reason),
        cmocka_unit_test(failed_request_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
