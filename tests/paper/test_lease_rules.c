/* tests/paper/test_lease_rules.c - the rules of `lease`, one test each: docs/lease.md. */
#include "protocols/lease_state.h"
#include "sim/store.h"
#include "support/lease.h"

#include <string.h>

/* ---- leading --------------------------------------------------------------------------------- */

static void asks_for_the_record_when_it_starts(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(lease_asked(s)->request, 1);
    assert_int_equal(lease_asked(s)->attempt, 1);
    assert_int_equal(lease_asked(s)->lease_ns, LEASE_NS);
    assert_int_equal(lease_asked(s)->token, 0); /* it has none */
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

/* T3, T5 */
static void counts_from_its_request_less_twice_the_drift(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const int64_t asked_ns = s->now_ns;
    s->now_ns += 150 * NS_PER_MS;
    lease_grant(s, 1, 7);
    const struct cv_leadership *told = solo_told(s);
    assert_non_null(told);
    assert_int_equal(told->leader, 1);
    assert_int_equal(told->token, 7);
    assert_int_equal(told->reason, CV_REASON_ELECTED);
    assert_true(told->has_majority);
    assert_int_equal(told->valid_until_ns, asked_ns + LEASE_SURE_NS);
    solo_free(s);
}

static void renews_in_time_and_says_for_how_long(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect renew = lease_await(s, 300 * NS_PER_MS);
    const int64_t asked_ns = s->now_ns;
    assert_int_equal(renew.verb, CV_STORE_RENEW);
    assert_int_equal(renew.attempt, 1);
    assert_int_equal(renew.token, 7);
    s->now_ns += 90 * NS_PER_MS;
    lease_grant(s, renew.request, 7);
    const struct cv_leadership *told = solo_told(s);
    assert_non_null(told);
    assert_int_equal(told->reason, CV_REASON_RENEWED);
    assert_int_equal(told->valid_until_ns, asked_ns + LEASE_SURE_NS);
    solo_free(s);
}

/* T1 */
static void ends_at_its_time_before_any_event_is_handled(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect renew = lease_await(s, 300 * NS_PER_MS);
    solo_pause(s, 5 * NS_PER_S);
    lease_grant(s, renew.request, 7); /* the grant was in time, but the process was not */
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STORE_UNREACHABLE);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(lease_asked(s)->attempt, 2);
    solo_free(s);
}

static void a_leader_that_slept_without_asking_has_expired(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    solo_pause(s, 5 * NS_PER_S);
    lease_notify(s);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_EXPIRED);
    solo_free(s);
}

static void a_grant_that_comes_after_its_end_does_not_count(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    solo_pause(s, LEASE_SURE_NS);
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, CV_ID_NONE);
    const int64_t heard_ns = s->now_ns;
    const struct cv_effect again = lease_await(s, NS_PER_S); /* the same again, sooner ... */
    assert_true(s->now_ns >= heard_ns + 50 * NS_PER_MS);     /* ... but not at once */
    assert_int_equal(again.verb, CV_STORE_ACQUIRE);
    assert_int_equal(again.attempt, 1);
    lease_grant(s, again.request, 7);
    assert_int_equal(s->leader, 1);
    solo_free(s);
}

static void an_attempt_that_the_store_no_longer_grants_is_over(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    solo_pause(s, LEASE_SURE_NS);
    lease_grant(s, 1, 7); /* too late: the record runs out */
    const struct cv_effect again = lease_await(s, NS_PER_S);
    assert_int_equal(again.attempt, 1);
    lease_answer(s, again.request, CV_STORE_FREE, 7, 0, 0);
    assert_null(lease_asked(s)); /* not at once */
    const struct cv_effect next = lease_await(s, NS_PER_S);
    assert_int_equal(next.verb, CV_STORE_ACQUIRE);
    assert_int_equal(next.attempt, 2);
    lease_grant(s, next.request, 8);
    assert_int_equal(s->leader, 1);
    solo_free(s);
}

static void nonsensical_durations_do_no_harm(void **unused)
{
    (void)unused;
    const int64_t durations[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(durations); i++) {
        struct solo *s = lease_contender();
        lease_answer(s, 1, CV_STORE_GRANTED, 7, 0, durations[i]);
        assert_int_equal(s->leader, durations[i] > 1 ? 1 : CV_ID_NONE);
        solo_free(s);
        s = lease_contender();
        lease_answer(s, 1, CV_STORE_HELD, 7, 9, durations[i]);
        assert_int_equal(s->leader, CV_ID_ANONYMOUS);
        (void)lease_await(s, 2 * NS_PER_S);
        solo_free(s);
    }
}

/* ---- answers that are late, lost or out of order --------------------------------------------- */

/* T11 */
static void repeats_an_unanswered_request_with_the_same_attempt(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const struct cv_effect again = lease_await(s, NS_PER_S);
    assert_int_equal(again.verb, CV_STORE_ACQUIRE);
    assert_int_equal(again.request, 2);
    assert_int_equal(again.attempt, 1);
    solo_free(s);
}

static void a_late_answer_counts_from_its_own_request(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const int64_t first_ns = s->now_ns;
    (void)lease_await(s, NS_PER_S);
    s->now_ns += 10 * NS_PER_MS;
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, 1);
    assert_int_equal(solo_told(s)->valid_until_ns, first_ns + LEASE_SURE_NS);
    solo_free(s);
}

static void an_answer_that_was_overtaken_does_not_count(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    solo_free(s);
}

static void an_older_renewal_does_not_shorten_a_newer_one(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect first = lease_await(s, 300 * NS_PER_MS);
    const struct cv_effect second = lease_await(s, 300 * NS_PER_MS);
    const int64_t second_ns = s->now_ns;
    lease_grant(s, second.request, 7);
    assert_int_equal(solo_told(s)->valid_until_ns, second_ns + LEASE_SURE_NS);
    lease_grant(s, first.request, 7);
    assert_null(solo_told(s));
    solo_free(s);
}

static void an_answer_that_it_does_not_hold_the_record_always_counts(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect first = lease_await(s, 300 * NS_PER_MS);
    const struct cv_effect second = lease_await(s, 300 * NS_PER_MS);
    lease_grant(s, second.request, 7);
    lease_answer(s, first.request, CV_STORE_FREE, 0, 0, 0);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void answers_to_requests_that_were_never_made_are_ignored(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_grant(s, 2, 7);
    lease_grant(s, 9, 7);
    lease_grant(s, UINT64_MAX, 7);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void the_same_answer_twice_counts_once(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_grant(s, 1, 7);
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

/* ---- losing the record ----------------------------------------------------------------------- */

static void a_superseded_leader_follows_and_waits(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect renew = lease_await(s, 300 * NS_PER_MS);
    lease_answer(s, renew.request, CV_STORE_HELD, 8, 9, 500 * NS_PER_MS);
    const struct cv_leadership *told = solo_told(s);
    assert_int_equal(told->leader, CV_ID_ANONYMOUS);
    assert_int_equal(told->label, 9);
    assert_int_equal(told->token, 8);
    assert_int_equal(told->reason, CV_REASON_SUPERSEDED);
    assert_null(lease_asked(s));
    const int64_t now_ns = s->now_ns;
    const struct cv_effect next = lease_await(s, NS_PER_S);
    assert_in_range(s->now_ns - now_ns, 500 * NS_PER_MS, 600 * NS_PER_MS);
    assert_int_equal(next.verb, CV_STORE_ACQUIRE);
    assert_int_equal(next.attempt, 2); /* a new leadership, so a new token */
    solo_free(s);
}

static void a_leader_whose_record_is_gone_asks_for_it_anew(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect renew = lease_await(s, 300 * NS_PER_MS);
    lease_answer(s, renew.request, CV_STORE_FREE, 0, 0, 0);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_EXPIRED);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(lease_asked(s)->attempt, 2);
    solo_free(s);
}

/* T10 */
static void a_store_that_fails_is_asked_until_the_end(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const int64_t end_ns = s->now_ns - 2 * NS_PER_MS + LEASE_SURE_NS;
    uint32_t count = 0;
    while (s->leader == 1) {
        const struct cv_effect e = lease_await(s, NS_PER_S);
        if (s->leader == 1) {
            assert_int_equal(e.verb, CV_STORE_RENEW);
            lease_answer(s, e.request, CV_STORE_FAILED, 0, 0, 0);
            count++;
        }
    }
    assert_in_range(count, 5, 12);
    assert_int_equal(s->now_ns, end_ns);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STORE_UNREACHABLE);
    solo_free(s);
}

/* T14: its work may still be running. */
static void an_expired_lease_is_not_released(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_not_equal(lease_await(s, 5 * NS_PER_S).verb, CV_STORE_RELEASE);
    }
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void its_own_earlier_attempt_is_not_a_leader(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    solo_pause(s, 2 * NS_PER_S);
    lease_notify(s); /* its lease has expired; it asks for attempt 2 */
    lease_answer(s, lease_asked(s)->request, CV_STORE_HELD, 7, /* its own label */ 0,
                 700 * NS_PER_MS);
    assert_int_equal(s->leader, CV_ID_NONE);
    const int64_t now_ns = s->now_ns;
    assert_int_equal(lease_await(s, 2 * NS_PER_S).attempt, 2);
    assert_in_range(s->now_ns - now_ns, 700 * NS_PER_MS, 800 * NS_PER_MS);
    solo_free(s);
}

static void a_grant_with_an_old_token_is_released(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    const struct cv_effect e = lease_await(s, NS_PER_S);
    lease_grant(s, e.request, 8);
    assert_int_not_equal(s->leader, 1);
    lease_assert_asks(s, CV_STORE_RELEASE);
    assert_int_equal(lease_asked(s)->attempt, 1);
    solo_free(s);
}

static void a_leadership_has_one_token(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const struct cv_effect renew = lease_await(s, 300 * NS_PER_MS);
    lease_grant(s, renew.request, 8);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_SUPERSEDED);
    lease_assert_asks(
        s, CV_STORE_ACQUIRE); /* and not RELEASE: nobody said that the work has stopped */
    solo_free(s);
}

/* ---- giving up ------------------------------------------------------------------------------- */

/* T14 */
static void resigning_ends_the_leadership_and_then_releases(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    lease_assert_asks(s, CV_STORE_RELEASE);
    assert_int_equal(lease_asked(s)->attempt, 1);
    assert_int_equal(lease_asked(s)->token, 7);
    bool has_told = false;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        has_told = has_told || s->out.item[i].kind == CV_EFFECT_LEADERSHIP;
        assert_true(has_told || s->out.item[i].kind != CV_EFFECT_ASK_STORE);
    }
    solo_free(s);
}

static void after_resigning_it_only_reads_for_a_while(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const int64_t resigned_ns = s->now_ns;
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    for (;;) {
        const struct cv_effect e = lease_await(s, 2 * NS_PER_S);
        if (e.verb == CV_STORE_ACQUIRE) {
            break;
        }
        assert_int_equal(e.verb, CV_STORE_READ);
        lease_answer(s, e.request, CV_STORE_FREE, 0, 0, 0);
    }
    assert_in_range(s->now_ns - resigned_ns, 1200 * NS_PER_MS, 1300 * NS_PER_MS);
    solo_free(s);
}

static void its_rest_ends_when_another_leads(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_HELD, 8, 9, 100 * NS_PER_MS);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    lease_assert_asks(s,
                      CV_STORE_ACQUIRE); /* at once: where there is a queue, it has a place in it */
    lease_answer(s, lease_asked(s)->request, CV_STORE_HELD, 8, 9, 100 * NS_PER_MS);
    /* Only a timer for the next request: it does not insist. */
    assert_int_equal(s->out.item_count, 1);
    assert_int_equal(s->out.item[0].kind, CV_EFFECT_ARM);
    solo_free(s);
}

static void its_rest_ends_when_a_new_token_shows_that_another_has_led(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, /* its own token */ 7, 0, 0);
    const struct cv_effect look = lease_await(s, NS_PER_S);
    assert_int_equal(look.verb, CV_STORE_READ);
    assert_int_equal(look.lease_ns, 0); /* it only looks */
    assert_int_equal(look.token, 0);
    lease_answer(s, look.request, CV_STORE_FREE, 8, 0, 0);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    lease_grant(s, lease_asked(s)->request, 8);
    lease_assert_asks(s, CV_STORE_RELEASE); /* that token belonged to another */
    solo_free(s);
}

static void a_release_before_the_grant_was_heard_does_not_end_the_rest(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 7, 0, 0);
    const struct cv_effect look = lease_await(s, NS_PER_S);
    assert_int_equal(look.verb, CV_STORE_READ);
    lease_answer(s, look.request, CV_STORE_FREE, 7, 0, 0);
    /* A timer for the next look: it still lets others go first. */
    assert_int_equal(s->out.item_count, 1);
    assert_int_equal(s->out.item[0].kind, CV_EFFECT_ARM);
    solo_free(s);
}

/* T11 */
static void a_contender_that_may_hold_the_record_releases_it(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    lease_assert_asks(s, CV_STORE_RELEASE);
    assert_int_equal(lease_asked(s)->token, 0);
    lease_grant(s, 1, 7); /* under way when it gave up */
    assert_int_equal(s->leader, CV_ID_NONE);
    const int64_t given_up_ns = s->now_ns;
    uint32_t releases = 0;
    for (;;) {
        const struct cv_effect e = lease_await(s, 5 * NS_PER_S);
        if (e.verb != CV_STORE_RELEASE) {
            assert_int_equal(e.verb, CV_STORE_READ);
            break;
        }
        releases++;
        assert_true(s->now_ns - given_up_ns <= LEASE_NS);
    }
    assert_in_range(releases, 2, 8);
    solo_free(s);
}

/* By then the store has granted the record to nobody or to another. It gives up at that very
 * instant, not at the next. */
static void release_is_given_up_after_exactly_a_lease(void **unused)
{
    (void)unused;
    int64_t pause_ns = 0;
    /* The first round shows how long it pauses. */
    for (int64_t late_ns = 1; late_ns >= 0; late_ns--) {
        struct solo *s = lease_leader();
        lease_event(s, CV_EVENT_RESIGN, false);
        lease_assert_asks(s, CV_STORE_RELEASE);
        const int64_t end_ns = s->now_ns + LEASE_NS;
        s->timer_ns[LEASE_TIMER_TURN] = 0; /* the store answers, as late as the test wants */
        s->now_ns = end_ns - pause_ns;
        lease_answer(s, lease_asked(s)->request, CV_STORE_FAILED, 0, 0, 0);
        pause_ns = s->timer_ns[LEASE_TIMER_TURN] - s->now_ns;
        assert_true(pause_ns > 0);
        const struct cv_effect e = lease_await(s, NS_PER_S);
        assert_true(s->now_ns == end_ns || late_ns > 0);
        assert_int_not_equal(e.verb, CV_STORE_RELEASE);
        solo_free(s);
    }
}

/* The answer to its first request comes late; the store may still carry out the second one. */
static void a_contender_that_may_hold_it_by_a_later_request_releases_it(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_assert_asks(s, CV_STORE_RELEASE);
    lease_grant(s, second.request, 9);
    assert_int_not_equal(s->leader, 1);
    solo_free(s);
}

static void a_waiting_contender_leaves_the_queue(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_event(s, CV_EVENT_RESIGN, false);
    assert_null(lease_asked(s)); /* it has nothing to hand over, and stays a candidate */
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    lease_assert_asks(s, CV_STORE_RELEASE);
    lease_answer(s, lease_asked(s)->request, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_int_equal(lease_await(s, 2 * NS_PER_S).verb, CV_STORE_READ);
    lease_event(s, CV_EVENT_CAMPAIGN, true);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(lease_asked(s)->attempt, 2);
    solo_free(s);
}

static void releases_before_it_asks_anew(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    lease_event(s, CV_EVENT_CAMPAIGN, true);
    lease_assert_asks(s, CV_STORE_RELEASE);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    assert_int_equal(lease_asked(s)->attempt, 2);
    solo_free(s);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void waits_as_long_as_the_record_is_held_but_not_longer_than_poll(void **unused)
{
    (void)unused;
    const int64_t durations[] = {150 * NS_PER_MS, 700 * NS_PER_MS, 30 * NS_PER_S};
    for (uint32_t i = 0; i < COUNT_OF(durations); i++) {
        struct solo *s = lease_contender();
        const int64_t now_ns = s->now_ns;
        const int64_t wait_ns = cv__min64(durations[i], NS_PER_S);
        lease_answer(s, 1, CV_STORE_HELD, 8, 9, durations[i]);
        const struct cv_effect *arm = NULL;
        for (uint32_t j = 0; j < s->out.item_count; j++) {
            arm = s->out.item[j].kind == CV_EFFECT_ARM ? &s->out.item[j] : arm;
        }
        assert_non_null(arm); /* T12: a range, so that not all ask at once */
        assert_int_equal(arm->earliest_ns, now_ns + wait_ns);
        assert_int_equal(arm->latest_ns, now_ns + wait_ns + 100 * NS_PER_MS);
        solo_free(s);
    }
}

static void pauses_grow_while_the_store_fails(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    int64_t at_ns = s->now_ns;
    lease_answer(s, 1, CV_STORE_FAILED, 0, 0, 0);
    const int64_t pauses_ms[] = {100, 200, 400, 800, 800, 800};
    for (uint32_t i = 0; i < COUNT_OF(pauses_ms); i++) {
        const struct cv_effect e = lease_await(s, 2 * NS_PER_S);
        assert_int_equal(s->now_ns - at_ns, pauses_ms[i] * NS_PER_MS);
        at_ns = s->now_ns;
        lease_answer(s, e.request, CV_STORE_FAILED, 0, 0, 0);
    }
    solo_free(s);
}

static void asks_at_once_when_notified(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    s->now_ns += 20 * NS_PER_MS;
    lease_notify(s);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    lease_notify(s); /* meanwhile the answer under way may be older than the change */
    assert_null(lease_asked(s));
    lease_answer(s, 2, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    solo_free(s);
}

/* T10 */
static void a_notified_leader_asks_whether_it_still_holds_the_record(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_notify(s);
    lease_assert_asks(s, CV_STORE_RENEW);
    solo_free(s);
}

static void a_flood_of_notifications_causes_no_flood_of_requests(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    uint32_t questions = 0;
    uint64_t open = 1;
    const int64_t end_ns = s->now_ns + 10 * NS_PER_S;
    while (s->now_ns < end_ns) {
        if (open != 0) {
            const uint64_t request = open;
            open = 0;
            lease_answer(s, request, CV_STORE_HELD, 8, 9, LEASE_NS);
        } else {
            lease_notify(s);
        }
        if (lease_asked(s) == NULL) {
            s->out.item_count = 0;
            solo_wait_until(s, s->now_ns + NS_PER_MS);
        }
        if (lease_asked(s) != NULL) {
            open = lease_asked(s)->request;
            questions++;
        }
    }
    /* 4 in each 100 ms, and a few in the beginning. */
    assert_in_range(questions, 300, 410);
    solo_free(s);
}

/* ---- configurations -------------------------------------------------------------------------- */

static void refuses(const char *name, const char *value, const char *inequality)
{
    struct cv_config config;
    struct cv_errtext why = {""};
    const struct cv_protocol *p = cv_protocol_find("lease");
    cv_config_init(&config, p, 1, 1);
    assert_int_equal(cv_config_set(&config, p, name, value, NULL), CV_OK);
    assert_int_equal(cv_core_configure(p, &config, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, inequality));
}

static void refuses_times_that_cannot_work_and_says_why(void **unused)
{
    (void)unused;
    refuses("renew", "4s", "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry");
    refuses("timeout", "2.5s", "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry");
    refuses("retry", "3s", "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry");
    refuses("retry-max", "100ms", "retry-max >= retry");
    refuses("poll", "100ms", "poll >= retry");
}

/* ---- T26: leases of different lengths -------------------------------------------------------- */

/* Carries the request to a store, and the answer back at once. */
static void carry(struct solo *s, struct sim_store *store, uint64_t label, int64_t now_ns)
{
    while (lease_asked(s) != NULL) {
        const struct cv_effect e = *lease_asked(s);
        const struct cv_model_query query = {e.verb, label, e.attempt, e.lease_ns};
        struct cv_model_answer a;
        (void)sim_store_serve(store, &query, now_ns, &a);
        lease_answer(s, e.request, a.verdict, a.token, a.holder, a.duration_ns);
    }
}

/* The first one leads and dies at once. Returns when the other leads. */
static int64_t taken_over_after(const char *first_options, const char *second_options)
{
    struct sim_store store;
    sim_store_init(&store);
    struct solo *first = solo_new("lease", 1, 1, first_options);
    struct solo *second = solo_new("lease", 1, 1, second_options);
    const int64_t start_ns = second->now_ns;
    carry(first, &store, 8, 0);
    carry(second, &store, 9, 0);
    assert_int_equal(first->leader, 1);
    assert_int_equal(second->leader, CV_ID_ANONYMOUS);
    while (second->leader != 1) {
        (void)lease_await(second, 60 * NS_PER_S);
        carry(second, &store, 9, second->now_ns - start_ns);
    }
    const int64_t after_ns = second->now_ns - start_ns;
    solo_free(first);
    solo_free(second);
    return after_ns;
}

static void the_holders_own_lease_governs(void **unused)
{
    (void)unused;
    const int64_t long_ns = taken_over_after("lease=30s", "lease=10s");
    assert_in_range(long_ns, 30 * NS_PER_S, 31 * NS_PER_S);
    const int64_t short_ns = taken_over_after("lease=10s", "lease=30s");
    assert_in_range(short_ns, 10 * NS_PER_S, 13 * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_for_the_record_when_it_starts),
        cmocka_unit_test(counts_from_its_request_less_twice_the_drift),
        cmocka_unit_test(renews_in_time_and_says_for_how_long),
        cmocka_unit_test(ends_at_its_time_before_any_event_is_handled),
        cmocka_unit_test(a_leader_that_slept_without_asking_has_expired),
        cmocka_unit_test(a_grant_that_comes_after_its_end_does_not_count),
        cmocka_unit_test(an_attempt_that_the_store_no_longer_grants_is_over),
        cmocka_unit_test(nonsensical_durations_do_no_harm),
        cmocka_unit_test(repeats_an_unanswered_request_with_the_same_attempt),
        cmocka_unit_test(a_late_answer_counts_from_its_own_request),
        cmocka_unit_test(an_answer_that_was_overtaken_does_not_count),
        cmocka_unit_test(an_older_renewal_does_not_shorten_a_newer_one),
        cmocka_unit_test(an_answer_that_it_does_not_hold_the_record_always_counts),
        cmocka_unit_test(answers_to_requests_that_were_never_made_are_ignored),
        cmocka_unit_test(the_same_answer_twice_counts_once),
        cmocka_unit_test(a_superseded_leader_follows_and_waits),
        cmocka_unit_test(a_leader_whose_record_is_gone_asks_for_it_anew),
        cmocka_unit_test(a_store_that_fails_is_asked_until_the_end),
        cmocka_unit_test(an_expired_lease_is_not_released),
        cmocka_unit_test(its_own_earlier_attempt_is_not_a_leader),
        cmocka_unit_test(a_grant_with_an_old_token_is_released),
        cmocka_unit_test(a_leadership_has_one_token),
        cmocka_unit_test(resigning_ends_the_leadership_and_then_releases),
        cmocka_unit_test(after_resigning_it_only_reads_for_a_while),
        cmocka_unit_test(its_rest_ends_when_another_leads),
        cmocka_unit_test(its_rest_ends_when_a_new_token_shows_that_another_has_led),
        cmocka_unit_test(a_release_before_the_grant_was_heard_does_not_end_the_rest),
        cmocka_unit_test(a_contender_that_may_hold_the_record_releases_it),
        cmocka_unit_test(release_is_given_up_after_exactly_a_lease),
        cmocka_unit_test(a_contender_that_may_hold_it_by_a_later_request_releases_it),
        cmocka_unit_test(a_waiting_contender_leaves_the_queue),
        cmocka_unit_test(releases_before_it_asks_anew),
        cmocka_unit_test(waits_as_long_as_the_record_is_held_but_not_longer_than_poll),
        cmocka_unit_test(pauses_grow_while_the_store_fails),
        cmocka_unit_test(asks_at_once_when_notified),
        cmocka_unit_test(a_notified_leader_asks_whether_it_still_holds_the_record),
        cmocka_unit_test(a_flood_of_notifications_causes_no_flood_of_requests),
        cmocka_unit_test(refuses_times_that_cannot_work_and_says_why),
        cmocka_unit_test(the_holders_own_lease_governs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
