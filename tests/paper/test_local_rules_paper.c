/* tests/paper/test_local_rules_paper.c - what one process of `local` does when it asks and when it
 * is asked [Fetzer99, sec. VIII].
 *
 * A single core; the test plays the rest of the world: it asks for support, answers requests,
 * releases, lets timers fire, and sees exactly what the core sends. Constants are those of
 * support/local.h: Delta 5 ms, ep 8 ms, expires 92.014408 ms, lock 123.014408 ms.
 * test_local_paper.c has the claims about several processes, tests/unit/test_local.c the rules that
 * are ours. */
#include "support/local.h"
#include "support/support.h"

#define TIMER_ALIVE 0 /* of the core: when it may be the lowest, or asks again */

/* ---- sec. VIII: the request ------------------------------------------------------------------ */

/* [Fetzer99, sec. VIII] "a unique time stamp, denoted request ...; the aliveSet of p" */
static void election_carries_the_request_and_the_alive_set(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    cv_id to;
    assert_ptr_equal(solo_said_to(c, "ELECTION", &to), m);
    assert_int_equal(to, CV_ID_NONE); /* a broadcast */
    const uint64_t first = solo_field(c, m, "request");
    assert_int_equal(first, c->now_ns); /* the hardware clock */
    assert_int_equal(solo_set(c, m, "alive"), 0);
    local_hear_reply(c, 3, first, false);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    assert_true(solo_field(c, m, "request") > first);
    assert_int_equal(solo_set(c, m, "alive"), BIT(1) | BIT(3));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "p broadcasts at least every EP clock time units an ELECTION" */
static void lowest_broadcasts_every_election_period(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)solo_await(c, "ELECTION", DELTA_NS);
    for (uint32_t i = 0; i < 20; i++) {
        const int64_t asked_ns = c->now_ns;
        (void)solo_await(c, "ELECTION", 8 * NS_PER_MS);
        assert_true(c->now_ns - asked_ns <= 8 * NS_PER_MS);
    }
    solo_free(c);
}

/* [Fetzer99, sec. VIII, purgeAliveSet] A process that hears a lower one is silent, without polling:
 * its alarm is set to the first instant at which it could be the lowest, and each message postpones
 * it. */
static void higher_one_is_silent_until_the_lower_one_expires(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    for (uint64_t i = 1; i <= 20; i++) {
        c->now_ns += 8 * NS_PER_MS;
        (void)local_is_supported(c, 1, i, 1);
        assert_int_equal(c->timer_ns[TIMER_ALIVE], c->now_ns + EXPIRES_NS + 1);
    }
    const int64_t heard_ns = c->now_ns;
    solo_wait_until(c, heard_ns + EXPIRES_NS);
    assert_int_equal(c->timer_ns[TIMER_ALIVE], heard_ns + EXPIRES_NS + 1);
    (void)solo_await(c, "ELECTION", 1);
    solo_free(c);
}

/* [Fetzer99, sec. VII] The independent assessment "does not send any messages". */
static void assessing_others_sends_no_messages(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    (void)local_is_supported(c, 1, 1, 1);
    assert_int_equal(solo_send_count(c), 1); /* the answer */
    local_hear_release(c, 1, 1);
    assert_int_equal(solo_send_count(c), 0);
    solo_free(c);
}

/* ---- sec. VIII: which processes are supported ------------------------------------------------ */

/* [Fetzer99, sec. VIII] "A process q replies to all fast ELECTION-messages and ignores slow ones":
 * a slow one neither locks q nor makes its sender alive. (ECHO, which is ours, promises
 * nothing.) */
static void slow_election_is_not_answered(void **unused)
{
    (void)unused;
    static const int64_t bounds[] = {SLOW_NS, 50 * NS_PER_MS, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(bounds); i++) {
        struct solo *c = local_process(3, 3, "");
        solo_draft(c, "ELECTION");
        solo_put(c, "request", 1);
        solo_put(c, "token", 1);
        solo_hear(c, 1, bounds[i]);
        assert_null(solo_said(c, "REPLY"));
        assert_non_null(solo_said(c, "ECHO"));
        assert_int_equal(solo_send_count(c), 1);
        assert_int_equal(c->persisted_count, 0);
        assert_true(
            local_is_supported(c, 2, 1, 1)); /* it counts 1 as not alive, and is not locked to 1 */
        solo_free(c);
    }
}

static void election_just_within_delta_is_answered(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    solo_draft(c, "ELECTION");
    solo_put(c, "request", 1);
    solo_put(c, "token", 1);
    solo_hear(c, 1, DELTA_NS);
    assert_non_null(solo_said(c, "REPLY"));
    assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "supports"), 1);
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "p is the process with the minimum id in q's aliveSet" */
static void only_the_lowest_alive_is_supported(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 4, "");
    local_hear_reply(c, 1, 99, false); /* a REPLY makes its sender alive, too */
    assert_false(local_is_supported(c, 2, 1, 1));
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "p's id is smaller than q's id", or it is q itself */
static void no_process_with_a_higher_id_is_supported(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    assert_false(local_is_supported(c, 3, 1, 1));
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "sending a supportive reply q guarantees not to send another supportive
 * reply [to another] for the next lockTime clock time units" */
static void locked_process_supports_nobody_else(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(local_is_supported(c, 2, 1, 1));
    assert_false(local_is_supported(c, 1, 1, 2)); /* though 1 is lower */
    c->now_ns = locked_ns + LOCK_NS - 1;
    assert_false(local_is_supported(c, 1, 2, 3));
    c->now_ns = locked_ns + LOCK_NS;
    assert_true(local_is_supported(c, 1, 3, 4));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] lockedUntil is "receive time plus lockTime", anew for each request. */
static void lock_is_prolonged_by_the_same_candidate(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 1));
    c->now_ns += 100 * NS_PER_MS;
    const int64_t renewed_ns = c->now_ns;
    assert_true(local_is_supported(c, 2, 2, 1));
    c->now_ns = renewed_ns + LOCK_NS - 1;
    assert_false(local_is_supported(c, 1, 1, 2));
    c->now_ns = renewed_ns + LOCK_NS;
    assert_true(local_is_supported(c, 1, 2, 3));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "a process q that receives a RELEASE-message for the last ELECTION-message
 * that q has locked on releases its lock" */
static void release_of_the_request_frees_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 7, 1));
    local_hear_release(c, 2, 7);
    assert_true(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

/* A slow RELEASE counts as well: nobody relies any more on what it gives up. */
static void slow_release_frees_the_lock_as_well(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 7, 1));
    solo_draft(c, "RELEASE");
    solo_put(c, "request", 7);
    solo_hear(c, 2, INT64_MAX);
    assert_true(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

/* A delayed release of an earlier request frees nothing: a later request may have made a leader
 * meanwhile. */
static void release_of_an_earlier_request_frees_nothing(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 7, 1));
    assert_true(local_is_supported(c, 2, 8, 1));
    local_hear_release(c, 2, 7);
    assert_false(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

/* The same if the earlier request arrives again, or late, after the later one: it must not take the
 * place of the later one. */
static void request_that_was_overtaken_does_not_weaken_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 8, 1));
    assert_true(local_is_supported(c, 2, 7, 1)); /* within Delta: a duplicate, or reordered */
    local_hear_release(c, 2, 7);
    assert_false(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

static void release_by_another_frees_nothing(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 4, "");
    assert_true(local_is_supported(c, 2, 7, 1));
    local_hear_release(c, 3, 9);
    assert_false(local_is_supported(c, 1, 1, 2));
    solo_free(c);
}

/* [Ours; docs/local.md] RELEASE does not refresh the alive set, ELECTION and REPLY do. */
static void release_makes_nobody_alive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 4, "");
    local_hear_release(c, 1, 5);
    assert_true(local_is_supported(c, 2, 1, 1)); /* 1 is not taken for the lowest */
    solo_free(c);

    c = local_process(4, 4, "");
    (void)local_is_supported(c, 1, 1, 1);
    c->now_ns += EXPIRES_NS - NS_PER_MS;
    local_hear_release(c, 1, 1);
    c->now_ns += 2 * NS_PER_MS; /* 1's ELECTION is older than `expires` now */
    assert_true(local_is_supported(c, 2, 1, 2));
    solo_free(c);
}

/* [Ours] A fast ECHO makes its sender alive (BI), a slow one does not. */
static void fast_echo_makes_its_sender_alive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 4, "");
    solo_draft(c, "ECHO");
    solo_hear(c, 1, SLOW_NS);
    assert_true(local_is_supported(c, 3, 1, 1));
    local_hear_release(c, 3, 1);
    solo_draft(c, "ECHO");
    solo_hear(c, 1, FAST_NS);
    assert_false(local_is_supported(c, 3, 2, 2));
    solo_free(c);
}

/* ---- sec. VIII: becoming leader -------------------------------------------------------------- */

/* [Fetzer99, sec. VIII and IX.D] "the first election request will fail, because p is not in its own
 * target set", however many support it; the second succeeds. */
static void first_request_fails_and_the_second_succeeds(void **unused)
{
    (void)unused;
    for (uint32_t members = 1; members <= 5; members++) {
        struct solo *c = local_process(1, members, "");
        const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
        const uint64_t first = solo_field(c, m, "request");
        for (cv_id id = 2; id <= members; id++) {
            local_hear_reply(c, id, first, true);
            assert_null(solo_told(c));
        }
        m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
        const uint64_t second = solo_field(c, m, "request");
        assert_true(second > first);
        for (cv_id id = 2; id <= members; id++) {
            assert_null(solo_told(c));
            local_hear_reply(c, id, second, true);
        }
        assert_non_null(solo_told(c));
        assert_int_equal(solo_told(c)->leader, 1);
        solo_free(c);
    }
}

/* [Ours, BI] A second request within Delta of the first fails too: not all connected processes can
 * have answered by then, and a process that has not answered yet is not waited for. */
static void request_within_delta_of_the_first_fails_as_well(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    c->now_ns += NS_PER_MS;
    /* 2 accepted token 5 of another: the core asks again at once with a larger one. */
    solo_draft(c, "REPLY");
    solo_put(c, "request", solo_field(c, m, "request"));
    solo_put(c, "token", 5);
    solo_hear(c, 2, FAST_NS);
    c->timer_ns[TIMER_ALIVE] = c->now_ns; /* the host picks the earliest instant */
    m = solo_await(c, "ELECTION", 1);
    assert_true(solo_field(c, m, "token") > 5);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    assert_null(solo_told(c)); /* 3 has had no time to show that it is alive */
    solo_free(c);
}

/* [Fetzer99, sec. VIII, checkIfLeader] "as soon as p has received replies from all processes in its
 * targetSet", and not before. */
static void leads_as_soon_as_all_have_supported(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 4, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    for (cv_id id = 2; id <= 4; id++) {
        local_hear_reply(c, id, solo_field(c, m, "request"), true);
    }
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    local_hear_reply(c, 2, request, true);
    assert_null(solo_told(c));
    local_hear_reply(c, 3, request, true);
    assert_null(solo_told(c));
    c->now_ns += NS_PER_MS;
    local_hear_reply(c, 4, request, true);
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, 1);
    assert_int_equal(solo_told(c)->members.word[0], 0xf);
    assert_true(solo_told(c)->has_majority);
    solo_free(c);
}

/* [Fetzer99, sec. VIII] Only fast, supportive replies to the last request count. */
static void slow_refusing_or_old_replies_do_not_count(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 2, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    const uint64_t first = solo_field(c, m, "request");
    local_hear_reply(c, 2, first, true);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    solo_draft(c, "REPLY");
    solo_put(c, "request", request);
    solo_put(c, "supports", 1);
    solo_hear(c, 2, SLOW_NS);
    assert_null(solo_told(c));
    local_hear_reply(c, 2, first, true);
    assert_null(solo_told(c));
    local_hear_reply(c, 2, request, false);
    assert_null(solo_told(c));
    local_hear_reply(c, 2, request, true);
    assert_non_null(solo_told(c));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "p has received a fast supportive reply from all processes in its current
 * aliveSet": including one that it heard of only after it had asked. */
static void newcomer_must_support_as_well(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    local_hear_reply(c, 3, request, false); /* alive from now on */
    local_hear_reply(c, 2, request, true);
    assert_null(solo_told(c));
    local_hear_reply(c, 3, request, true);
    assert_non_null(solo_told(c));
    solo_free(c);
}

/* [Fetzer99, sec. VIII] "p is the minimum id in replySet": it does not lead if a lower one is
 * alive. */
static void nobody_leads_while_a_lower_one_is_alive(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    local_hear_reply(c, 3, solo_field(c, m, "request"), true);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    local_hear_reply(c, 1, request, true);
    local_hear_reply(c, 3, request, true);
    assert_null(solo_told(c));
    solo_free(c);
}

/* [Fetzer99, sec. VIII and IX.A] expirationTime is lastRequest + lockTime(1-2 rho): it counts from
 * when the request left, however late the answers came (traps.md T3). */
static void validity_counts_from_the_request(void **unused)
{
    (void)unused;
    const int64_t lead_ns = LOCK_NS - LOCK_NS * 2 / 10000 - 1;
    for (int64_t late_ns = 0; late_ns < 8 * NS_PER_MS; late_ns += NS_PER_MS) {
        struct solo *c = local_process(1, 2, "");
        const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
        local_hear_reply(c, 2, solo_field(c, m, "request"), true);
        m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
        const uint64_t request = solo_field(c, m, "request");
        assert_int_equal(request, c->now_ns);
        c->now_ns += late_ns;
        local_hear_reply(c, 2, request, true);
        assert_int_equal(solo_told(c)->valid_until_ns, (int64_t)request + lead_ns);
        solo_free(c);
    }
}

/* [Fetzer99, sec. VIII] "In case p does not succeed and received at least one supportive reply, p
 * broadcasts a RELEASE": 2 Delta(1 + rho) after it had asked. */
static void failed_attempt_is_released(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "ep=50ms");
    const struct cv_message *m = solo_await(c, "ELECTION", DELTA_NS);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    local_hear_reply(c, 3, solo_field(c, m, "request"), true);
    m = solo_await(c, "ELECTION", 50 * NS_PER_MS);
    const int64_t request = (int64_t)solo_field(c, m, "request");
    local_hear_reply(c, 2, (uint64_t)request, true);
    local_hear_reply(c, 3, (uint64_t)request, false);
    m = solo_await(c, "RELEASE", WAIT_NS);
    cv_id to;
    assert_ptr_equal(solo_said_to(c, "RELEASE", &to), m);
    assert_int_equal(to, CV_ID_NONE);
    assert_int_equal(c->now_ns, request + WAIT_NS);
    assert_int_equal(solo_field(c, m, "request"), request);
    local_hear_reply(c, 3, (uint64_t)request, true); /* too late: the request was given up */
    assert_null(solo_told(c));
    solo_free(c);
}

/* A process that is supported by nobody, not even by itself, has nothing to release. */
static void attempt_without_support_is_not_released(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "ep=50ms");
    assert_true(local_is_supported(c, 1, 1, 1)); /* locked to 1 */
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1});
    (void)solo_await(c, "ELECTION", EXPIRES_NS);
    const int64_t asked_ns = c->now_ns;
    while (c->now_ns < asked_ns + WAIT_NS) {
        solo_wait_until(c, cv__min64(asked_ns + WAIT_NS, c->now_ns + NS_PER_MS));
        assert_null(solo_said(c, "RELEASE"));
    }
    solo_free(c);
}

/* [Ours; docs/local.md] "A leader whose renewal failed must not release": it repeats the
 * same request, and releases only after it has stepped down. */
static void leader_whose_renewal_failed_does_not_release(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "majority=yes"); /* it cannot lead alone */
    const int64_t request = local_elect(c);
    const int64_t until_ns = solo_told(c)->valid_until_ns;
    assert_true(until_ns > request);
    uint32_t asked = 0;
    while (c->now_ns < until_ns - 1) {
        solo_wait_until(c, cv__min64(until_ns - 1, c->now_ns + NS_PER_MS));
        assert_null(solo_said(c, "RELEASE"));
        asked += solo_said(c, "ELECTION") != NULL;
    }
    assert_true(asked > 5); /* a lost message is retried before the leadership ends */
    const struct cv_message *m = solo_await(c, "RELEASE", 1);
    assert_int_equal(c->now_ns, until_ns);
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, CV_ID_NONE);
    assert_int_equal(solo_told(c)->reason, CV_REASON_EXPIRED);
    assert_true(solo_field(c, m, "request") >= (uint64_t)request);
    solo_free(c);
}

/* [Ours] Answers to a repeated renewal add up, and it still counts from its first sending. */
static void answers_to_a_repeated_renewal_add_up(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    local_hear_reply(c, 2, request, true); /* 3's answer is lost */
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(solo_field(c, m, "request"), request);
    assert_true(c->now_ns > (int64_t)request);
    local_hear_reply(c, 3, request, true); /* this time the answer of 2 is lost */
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->reason, CV_REASON_RENEWED);
    assert_int_equal(solo_told(c)->valid_until_ns,
                     (int64_t)request + LOCK_NS - LOCK_NS * 2 / 10000 - 1);
    solo_free(c);
}

/* [Fetzer99, sec. VIII] leader?() reads the clock at the call: a leader that slept past its time
 * has stopped leading before it handles any event, and messages that waited for it do not revive
 * its leadership (traps.md T1). */
static void lapsed_leadership_is_over_before_any_event_and_not_revived(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 2, "");
    (void)local_elect(c);
    const uint64_t token = solo_told(c)->token;
    const int64_t until_ns = solo_told(c)->valid_until_ns;
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t renewal = solo_field(c, m, "request");
    solo_pause(c, until_ns - c->now_ns + 5 * NS_PER_MS);
    /* It waited in the queue; its delay bound was computed before. */
    local_hear_reply(c, 2, renewal, true);
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, CV_ID_NONE);
    assert_non_null(solo_said(c, "RELEASE"));
    (void)local_elect(c);
    assert_true(solo_told(c)->token > token);
    solo_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(election_carries_the_request_and_the_alive_set),
        cmocka_unit_test(lowest_broadcasts_every_election_period),
        cmocka_unit_test(higher_one_is_silent_until_the_lower_one_expires),
        cmocka_unit_test(assessing_others_sends_no_messages),
        cmocka_unit_test(slow_election_is_not_answered),
        cmocka_unit_test(election_just_within_delta_is_answered),
        cmocka_unit_test(only_the_lowest_alive_is_supported),
        cmocka_unit_test(no_process_with_a_higher_id_is_supported),
        cmocka_unit_test(locked_process_supports_nobody_else),
        cmocka_unit_test(lock_is_prolonged_by_the_same_candidate),
        cmocka_unit_test(release_of_the_request_frees_the_lock),
        cmocka_unit_test(slow_release_frees_the_lock_as_well),
        cmocka_unit_test(release_of_an_earlier_request_frees_nothing),
        cmocka_unit_test(request_that_was_overtaken_does_not_weaken_the_lock),
        cmocka_unit_test(release_by_another_frees_nothing),
        cmocka_unit_test(release_makes_nobody_alive),
        cmocka_unit_test(fast_echo_makes_its_sender_alive),
        cmocka_unit_test(first_request_fails_and_the_second_succeeds),
        cmocka_unit_test(request_within_delta_of_the_first_fails_as_well),
        cmocka_unit_test(leads_as_soon_as_all_have_supported),
        cmocka_unit_test(slow_refusing_or_old_replies_do_not_count),
        cmocka_unit_test(newcomer_must_support_as_well),
        cmocka_unit_test(nobody_leads_while_a_lower_one_is_alive),
        cmocka_unit_test(validity_counts_from_the_request),
        cmocka_unit_test(failed_attempt_is_released),
        cmocka_unit_test(attempt_without_support_is_not_released),
        cmocka_unit_test(leader_whose_renewal_failed_does_not_release),
        cmocka_unit_test(answers_to_a_repeated_renewal_add_up),
        cmocka_unit_test(lapsed_leadership_is_over_before_any_event_and_not_revived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
