/* tests/paper/test_lease_times.c - the exact times of `lease`, and rules that a single answer
 * shows: docs/lease.md. */
#include "support/lease.h"

#include <string.h>

/* The range that the latest step armed for its next request; the test fails if there is none. */
static const struct cv_effect *turn(const struct solo *s)
{
    const struct cv_effect *arm = NULL;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        arm = e->kind == CV_EFFECT_ARM && e->timer == 0 ? e : arm;
    }
    assert_non_null(arm);
    return arm;
}

static void assert_turn(const struct solo *s, int64_t earliest_ns, int64_t latest_ns)
{
    assert_int_equal(turn(s)->earliest_ns - s->now_ns, earliest_ns);
    assert_int_equal(turn(s)->latest_ns - s->now_ns, latest_ns);
}

static void pauses_are_ranges_so_that_not_all_ask_at_once(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    assert_turn(s, 200 * NS_PER_MS, 200 * NS_PER_MS); /* the time-out */
    lease_answer(s, 1, CV_STORE_FAILED, 0, 0, 0);
    assert_turn(s, 50 * NS_PER_MS, 100 * NS_PER_MS);
    const struct cv_effect again = lease_await(s, NS_PER_S);
    lease_grant(s, again.request, 7);
    assert_turn(s, 300 * NS_PER_MS - 300 * NS_PER_MS / 8, 300 * NS_PER_MS); /* the renewal */
    const struct cv_effect renew = lease_await(s, NS_PER_S);
    lease_answer(s, renew.request, CV_STORE_FAILED, 0, 0, 0);
    assert_turn(s, 50 * NS_PER_MS, 100 * NS_PER_MS); /* a leader's pauses do not grow */
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_FAILED, 0, 0, 0);
    assert_turn(s, 50 * NS_PER_MS, 100 * NS_PER_MS);
    solo_free(s);
}

static void a_short_grant_is_renewed_after_half_of_it(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_GRANTED, 7, 0, 200 * NS_PER_MS);
    assert_turn(s, 100 * NS_PER_MS - 300 * NS_PER_MS / 8, 100 * NS_PER_MS);
    solo_free(s);
    s = lease_contender();
    s->now_ns += 190 * NS_PER_MS;
    lease_answer(s, 1, CV_STORE_GRANTED, 7, 0, 300 * NS_PER_MS);
    assert_turn(s, 0, 0); /* it is overdue, and must not be armed in the past */
    solo_free(s);
}

static void a_resting_contender_looks_less_and_less_often_at_a_free_record(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    const int64_t pauses_ms[] = {100, 200, 400, 800, 1000, 1000};
    for (uint32_t i = 0; i < COUNT_OF(pauses_ms); i++) {
        assert_turn(s, pauses_ms[i] * NS_PER_MS / 2, pauses_ms[i] * NS_PER_MS);
        const struct cv_effect e = lease_await(s, 2 * NS_PER_S);
        assert_int_equal(e.verb, CV_STORE_READ);
        lease_answer(s, e.request, CV_STORE_FREE, 0, 0, 0);
    }
    lease_answer(s, lease_await(s, 2 * NS_PER_S).request, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    lease_answer(s, lease_await(s, 2 * NS_PER_S).request, CV_STORE_FREE, 0, 0, 0);
    /* Somebody led meanwhile: the pauses start again. */
    assert_turn(s, 50 * NS_PER_MS, 100 * NS_PER_MS);
    solo_free(s);
}

static void a_rest_ends_in_time_though_the_record_is_free(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("lease", 1, 1, "lease=1s retry=100ms poll=5s rest=150ms");
    lease_grant(s, 1, 7);
    lease_event(s, CV_EVENT_RESIGN, false);
    const int64_t resigned_ns = s->now_ns;
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_FREE, 0, 0, 0); /* after 100 ms */
    assert_int_equal(lease_await(s, NS_PER_S).verb, CV_STORE_ACQUIRE);
    assert_int_equal(s->now_ns, resigned_ns + 150 * NS_PER_MS); /* and not after 100 + 200 */
    solo_free(s);
}

static void while_the_store_fails_the_leader_is_known_until_its_lease_may_end(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, 500 * NS_PER_MS);
    lease_notify(s);
    s->now_ns += 499 * NS_PER_MS;
    lease_answer(s, 2, CV_STORE_FAILED, 0, 0, 0);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    lease_answer(s, lease_await(s, 2 * NS_PER_S).request, CV_STORE_FAILED, 0, 0, 0);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STORE_UNREACHABLE);
    assert_int_equal(solo_told(s)->token, 0);
    assert_int_equal(solo_told(s)->label, 0);
    assert_false(solo_told(s)->has_majority);
    solo_free(s);
}

static void the_leadership_of_another_is_told_without_an_end(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    const struct cv_leadership *told = solo_told(s);
    assert_false(told->is_self);
    assert_int_equal(told->leader, CV_ID_ANONYMOUS);
    assert_int_equal(told->label, 9);
    assert_int_equal(told->token, 8);
    assert_int_equal(told->valid_until_ns, 0);
    assert_int_equal(told->reason, CV_REASON_ELECTED);
    assert_false(told->has_majority);
    lease_notify(s);
    lease_answer(s, 2, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_null(solo_told(s)); /* nothing new to tell */
    solo_free(s);
}

static void notifications_beyond_the_allowance_cause_a_request_soon(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    uint64_t request = 1;
    for (;;) {
        lease_answer(s, request, CV_STORE_HELD, 8, 9, LEASE_NS);
        lease_notify(s);
        if (lease_asked(s) == NULL) {
            break;
        }
        request = lease_asked(s)->request;
    }
    assert_int_equal(request, 5); /* the first request, and four more in a row */
    assert_turn(s, 25 * NS_PER_MS, 25 * NS_PER_MS);
    lease_notify(s);
    assert_int_equal(s->out.item_count, 0); /* the armed request will do */
    solo_free(s);
}

static void a_long_lease_does_not_slow_down_the_answer_to_notifications(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("lease", 1, 1, "lease=120s");
    uint64_t request = 1;
    for (;; request = lease_asked(s)->request) {
        lease_answer(s, request, CV_STORE_HELD, 8, 9, 120 * NS_PER_S);
        lease_notify(s);
        if (lease_asked(s) == NULL) {
            break;
        }
    }
    assert_int_equal(request, 5);
    assert_turn(s, 125 * NS_PER_MS, 125 * NS_PER_MS);
    solo_free(s);
}

static void queueing_behind_its_successor_is_not_counted_as_a_notification(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    uint32_t questions = 0;
    for (uint64_t request = lease_asked(s)->request;; request = lease_asked(s)->request) {
        lease_answer(s, request, CV_STORE_HELD, 8, 9, LEASE_NS);
        lease_notify(s);
        if (lease_asked(s) == NULL) {
            break;
        }
        questions++;
    }
    assert_int_equal(questions, 3);
    solo_free(s);
}

static void its_own_earlier_attempt_ends_the_view_of_another_leader(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_HELD, 9, /* its own label */ 0,
                 LEASE_NS);
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

static void an_older_holder_than_one_seen_is_ignored(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_HELD, 7, 5, 10 * NS_PER_MS);
    assert_null(solo_told(s));
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_HELD, 8, 5, 10 * NS_PER_MS);
    assert_int_equal(solo_told(s)->label, 5);
    solo_free(s);
}

static void a_leader_that_is_told_of_another_holder_asks_and_leads_on(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, 1);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_int_equal(s->leader, 1);
    lease_assert_asks(s, CV_STORE_RENEW);
    solo_free(s);
}

static void a_grant_that_was_overtaken_does_not_count_though_its_token_is_new(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_grant(s, 1, 9);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    assert_null(lease_asked(s));
    solo_free(s);
}

static void a_copy_of_an_answer_changes_nothing(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

static void a_leader_that_resigns_too_late_rests_too(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    solo_pause(s, 5 * NS_PER_S);
    lease_event(s, CV_EVENT_RESIGN, false);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_EXPIRED);
    lease_assert_asks(s, CV_STORE_READ); /* nothing is released: the lease is over */
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    assert_null(lease_asked(s));
    solo_free(s);
}

static void campaigning_again_changes_nothing(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_CAMPAIGN, true);
    assert_int_equal(s->leader, 1);
    assert_int_equal(s->out.item_count, 0);
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    assert_int_equal(solo_told(s)->reason, CV_REASON_RESIGNED);
    lease_assert_asks(s, CV_STORE_RELEASE);
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

static void campaigning_again_ends_a_rest(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    lease_answer(s, lease_asked(s)->request, CV_STORE_FREE, 0, 0, 0);
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    lease_event(s, CV_EVENT_CAMPAIGN, true);
    lease_assert_asks(s, CV_STORE_ACQUIRE);
    solo_free(s);
}

static void the_timer_of_an_ended_leadership_is_disarmed(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    assert_int_not_equal(s->timer_ns[1], 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = 1}); /* before its time */
    assert_int_equal(s->out.item_count, 0);
    lease_event(s, CV_EVENT_RESIGN, false);
    assert_int_equal(s->timer_ns[1], 0);
    solo_free(s);
}

static void a_contender_that_must_stop_stops_for_good_and_releases_nothing(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_PERSIST_FAILED, false);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STOPPED);
    assert_null(lease_asked(s));
    assert_int_equal(s->timer_ns[0], 0);
    assert_int_equal(s->timer_ns[1], 0);
    lease_notify(s);
    assert_int_equal(s->out.item_count, 0);
    lease_event(s, CV_EVENT_CAMPAIGN, true);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
    s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_event(s, CV_EVENT_PERSIST_FAILED, false);
    assert_int_equal(s->leader, CV_ID_NONE);
    assert_int_equal(solo_told(s)->reason, CV_REASON_STOPPED);
    solo_free(s);
}

static void times_at_the_bound_are_accepted(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("lease", 1, 1, "");
    assert_int_equal(s->protocol->settle_ns(&s->config),
                     45 * NS_PER_S); /* as docs/lease.md has it */
    assert_int_equal(s->protocol->store_ns(&s->config), NS_PER_S);
    solo_free(s);
    solo_free(solo_new("lease", 1, 1, "lease=1s retry=100ms retry-max=100ms poll=100ms"));
    /* 600 ms + 200 ms + retry < 1 s less 200 us and 1 ns */
    solo_free(solo_new("lease", 1, 1, "lease=1s renew=600ms timeout=200ms retry=199799us"));
    struct cv_config config;
    const struct cv_protocol *p = cv_protocol_find("lease");
    cv_config_init(&config, p, 1, 1);
    assert_int_equal(cv_config_set(&config, p, "lease", "1s", NULL), CV_OK);
    assert_int_equal(cv_config_set(&config, p, "renew", "600ms", NULL), CV_OK);
    assert_int_equal(cv_config_set(&config, p, "timeout", "200ms", NULL), CV_OK);
    assert_int_equal(cv_config_set(&config, p, "retry", "199799999ns", NULL), CV_OK);
    assert_int_equal(cv_core_configure(p, &config, NULL), CV_E_INVALID);
}
/* Failures while leading do not make the pauses of a contender longer. */
static void pauses_begin_anew_when_a_leadership_is_over(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    while (s->leader == 1) {
        const struct cv_effect renew = lease_await(s, NS_PER_S);
        if (s->leader == 1) {
            lease_answer(s, renew.request, CV_STORE_FAILED, 0, 0, 0);
        }
    }
    lease_answer(s, lease_asked(s)->request, CV_STORE_FAILED, 0, 0, 0);
    assert_turn(s, 50 * NS_PER_MS, 100 * NS_PER_MS);
    solo_free(s);
}

static void a_holder_whose_time_is_over_is_forgotten_after_a_failure(void **unused)
{
    (void)unused;
    const int64_t durations[] = {-1, 0, 1};
    for (uint32_t i = 0; i < COUNT_OF(durations); i++) {
        struct solo *s = lease_contender();
        lease_answer(s, 1, CV_STORE_HELD, 8, 9, durations[i]);
        lease_notify(s);
        lease_answer(s, lease_asked(s)->request, CV_STORE_FAILED, 0, 0, 0);
        assert_int_equal(s->leader, durations[i] > 0 ? CV_ID_ANONYMOUS : CV_ID_NONE);
        solo_free(s);
    }
}

static void the_end_of_another_leadership_has_the_reason_that_the_store_knows(void **unused)
{
    (void)unused;
    const enum cv_reason reasons[] = {CV_REASON_STARTED, CV_REASON_RESIGNED, CV_REASON_EXPIRED};
    for (uint32_t i = 0; i < COUNT_OF(reasons); i++) {
        struct solo *s = solo_new("lease", 1, 1, LEASE_OPTIONS " candidate=no");
        lease_answer(s, 1, CV_STORE_HELD, 8, 9, LEASE_NS);
        assert_int_equal(s->leader, CV_ID_ANONYMOUS);
        lease_notify(s);
        solo_step(s, (struct cv_event){.kind = CV_EVENT_STORE,
                                       .request = lease_asked(s)->request,
                                       .verdict = CV_STORE_FREE,
                                       .token = 8,
                                       .reason = reasons[i]});
        assert_int_equal(s->leader, CV_ID_NONE);
        assert_int_equal(solo_told(s)->reason,
                         /* STARTED: the store does not know. */
                         i == 0 ? CV_REASON_GONE : reasons[i]);
        solo_free(s);
    }
}

/* ---- why an answer led to nothing: what an operator reads ----------------------------------- */

static void assert_noted(const struct solo *s, const char *text, int64_t time_ns, uint64_t number)
{
    const struct cv_note *note = solo_noted(s, text);
    assert_int_equal(note->time_ns, time_ns);
    assert_int_equal(note->number, number);
}

static void each_answer_that_is_ignored_has_its_reason(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_grant(s, 77, 1);
    assert_noted(s, "answer ignored: request {number} was answered before, or is forgotten", 0, 77);
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_answer(s, 1, CV_STORE_FAILED, 0, 0, 0);
    assert_noted(s, "failure ignored: request {number} is no longer waited for", 0, 1);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, LEASE_NS);
    lease_answer(s, 1, CV_STORE_HELD, 7, 5, LEASE_NS);
    assert_noted(s, "answer ignored: a later request than {number} was answered before", 0, 1);
    lease_notify(s);
    const uint64_t third = lease_asked(s)->request;
    lease_event(s, CV_EVENT_CAMPAIGN, false); /* the attempt is over, and it asks RELEASE */
    const uint64_t release = lease_asked(s)->request;
    lease_grant(s, third, 10);
    assert_noted(s, "answer ignored: the attempt of request {number} is over", 0, third);
    const struct cv_effect again = lease_await(s, NS_PER_S);
    assert_int_equal(again.verb, CV_STORE_RELEASE);
    lease_answer(s, release, CV_STORE_FREE, 0, 0, 0);
    lease_answer(s, again.request, CV_STORE_FREE, 0, 0, 0);
    assert_noted(s, "answer ignored: the release of request {number} is settled", 0, again.request);
    solo_free(s);
}

static void waiting_has_its_reason(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    lease_answer(s, 1, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    const int64_t until_ns = s->now_ns + 25 * NS_PER_MS; /* the least time between two requests */
    assert_noted(s, "waits until {time}: another holds the record, with token {number}", until_ns,
                 8);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_HELD, 7, 5, 10 * NS_PER_MS);
    assert_noted(s, "holder not believed: its token {number} is older than one seen", 0, 7);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_HELD, 9, 0, 50 * NS_PER_MS);
    assert_noted(s, "waits until {time}: an earlier attempt of its own holds the record",
                 s->now_ns + 50 * NS_PER_MS, 9);
    const struct cv_effect unanswered = lease_await(s, NS_PER_S);
    (void)lease_await(s, NS_PER_S); /* two timers: the time-out, then the pause */
    lease_answer(s, unanswered.request, CV_STORE_FREE, 0, 0, 0);
    assert_noted(s, "attempt {number} is over: granted before, and held no more", 0, 1);
    solo_free(s);
}

static void failing_has_its_reason(void **unused)
{
    (void)unused;
    struct solo *s = lease_contender();
    solo_wait_until(s, s->timer_ns[0]);
    assert_noted(s, "request {number} was not answered in time", 0, 1);
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, 10 * NS_PER_MS);
    const int64_t sure_ns = s->now_ns + 10 * NS_PER_MS;
    const struct cv_effect third = lease_await(s, NS_PER_S);
    lease_answer(s, third.request, CV_STORE_FAILED, 0, 0, 0);
    assert_noted(s, "request {number} failed: the store is asked again after a while", 0,
                 third.request);
    assert_noted(s, "holder of token {number} no longer believed to lead: unconfirmed since {time}",
                 sure_ns, 8);
    solo_free(s);
}

static void the_end_of_a_leadership_has_its_reason(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    const int64_t end_ns = s->now_ns - 2 * NS_PER_MS + LEASE_SURE_NS;
    solo_pause(s, 5 * NS_PER_S);
    lease_notify(s);
    assert_noted(s, "leadership {number} is over: nothing was granted in time before {time}",
                 end_ns, 7);
    solo_free(s);
    s = lease_leader();
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_FREE, 0, 0, 0);
    assert_noted(s, "leadership {number} is over: the store knows of no holder", 0, 7);
    solo_free(s);
    s = lease_leader();
    lease_grant(s, lease_await(s, NS_PER_S).request, 8);
    assert_noted(s, "leadership is over: the store granted another token, {number}", 0, 8);
    solo_free(s);
    s = lease_contender();
    const struct cv_effect second = lease_await(s, NS_PER_S);
    lease_grant(s, 1, 7);
    lease_answer(s, second.request, CV_STORE_HELD, 8, 9, LEASE_NS);
    assert_noted(s, "answer doubted: the attempt was granted meanwhile, asks again", 0,
                 second.request);
    solo_free(s);
}

static void not_asking_for_the_record_has_its_reason(void **unused)
{
    (void)unused;
    struct solo *s = lease_leader();
    lease_event(s, CV_EVENT_RESIGN, false);
    const int64_t rest_ns = s->now_ns + 1200 * NS_PER_MS;
    lease_event(s, CV_EVENT_RESIGN, false);
    assert_noted(s, "resignation ignored: does not lead", 0, 0);
    lease_answer(s, lease_await(s, NS_PER_S).request, CV_STORE_FREE, 0, 0, 0);
    (void)lease_await(s, NS_PER_S);
    assert_noted(s, "does not ask for the record: resigned, others go first until {time}", rest_ns,
                 0);
    lease_event(s, CV_EVENT_CAMPAIGN, false);
    (void)lease_await(s, NS_PER_S);
    assert_noted(s, "does not ask for the record: not a candidate", 0, 0);
    lease_grant(s, s->out.item[0].request, 9);
    assert_noted(s, "granted, although it was not requested: asks again", 0,
                 s->out.item[0].request);
    lease_event(s, CV_EVENT_PERSIST_FAILED, false);
    lease_notify(s);
    assert_noted(s, "ignored: this contender was stopped by its host", 0, 0);
    solo_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_are_ranges_so_that_not_all_ask_at_once),
        cmocka_unit_test(a_short_grant_is_renewed_after_half_of_it),
        cmocka_unit_test(a_resting_contender_looks_less_and_less_often_at_a_free_record),
        cmocka_unit_test(a_rest_ends_in_time_though_the_record_is_free),
        cmocka_unit_test(while_the_store_fails_the_leader_is_known_until_its_lease_may_end),
        cmocka_unit_test(the_leadership_of_another_is_told_without_an_end),
        cmocka_unit_test(notifications_beyond_the_allowance_cause_a_request_soon),
        cmocka_unit_test(a_long_lease_does_not_slow_down_the_answer_to_notifications),
        cmocka_unit_test(queueing_behind_its_successor_is_not_counted_as_a_notification),
        cmocka_unit_test(its_own_earlier_attempt_ends_the_view_of_another_leader),
        cmocka_unit_test(an_older_holder_than_one_seen_is_ignored),
        cmocka_unit_test(a_leader_that_is_told_of_another_holder_asks_and_leads_on),
        cmocka_unit_test(a_grant_that_was_overtaken_does_not_count_though_its_token_is_new),
        cmocka_unit_test(a_copy_of_an_answer_changes_nothing),
        cmocka_unit_test(a_leader_that_resigns_too_late_rests_too),
        cmocka_unit_test(campaigning_again_changes_nothing),
        cmocka_unit_test(campaigning_again_ends_a_rest),
        cmocka_unit_test(the_timer_of_an_ended_leadership_is_disarmed),
        cmocka_unit_test(a_contender_that_must_stop_stops_for_good_and_releases_nothing),
        cmocka_unit_test(times_at_the_bound_are_accepted),
        cmocka_unit_test(pauses_begin_anew_when_a_leadership_is_over),
        cmocka_unit_test(a_holder_whose_time_is_over_is_forgotten_after_a_failure),
        cmocka_unit_test(the_end_of_another_leadership_has_the_reason_that_the_store_knows),
        cmocka_unit_test(each_answer_that_is_ignored_has_its_reason),
        cmocka_unit_test(waiting_has_its_reason),
        cmocka_unit_test(failing_has_its_reason),
        cmocka_unit_test(the_end_of_a_leadership_has_its_reason),
        cmocka_unit_test(not_asking_for_the_record_has_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
