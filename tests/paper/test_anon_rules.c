/* tests/paper/test_anon_rules.c - rules of `anon` that a single process shows, one test each.
 *
 * One core; the test plays the others and the sequencer. R = 5, eta 50 ms, eps 150 ms; the label of
 * the core is 0. The paper's claims are in test_anon_paper.c. */
#include "core/sequence.h"
#include "protocols/anon_state.h"
#include "support/solo.h"
#include "support/support.h"

#include <string.h>

#define ETA_NS (50 * NS_PER_MS)
#define EPS_NS (150 * NS_PER_MS)
#define OWNER(number) (UINT64_C(2000) + (number))

static void draft(struct solo *s, const char *type, uint64_t number, uint64_t sent, uint64_t open)
{
    solo_draft(s, type);
    solo_put(s, "number", number);
    solo_put(s, "label", OWNER(number));
    solo_put(s, "sent", sent);
    solo_put(s, "open_number", open);
    solo_put(s, "open_label", OWNER(open));
    solo_put(s, "round", 5);
}

static void hear(struct solo *s, const char *type, uint64_t number, uint64_t sent, uint64_t open)
{
    draft(s, type, number, sent, open);
    solo_hear(s, 2, 0);
}

/* The request that the latest step made; 0: none. */
static uint64_t asked(const struct solo *s)
{
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        if (s->out.item[i].kind == CV_EFFECT_ASK_SEQUENCE) {
            return s->out.item[i].request;
        }
    }
    return 0;
}

static void fire(struct solo *s, uint32_t timer)
{
    assert_int_not_equal(s->timer_ns[timer], 0);
    s->now_ns = s->timer_ns[timer];
    s->timer_ns[timer] = 0;
    solo_step(s, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = timer});
}

static void answer(struct solo *s, uint64_t request, uint64_t number)
{
    solo_step(s,
              (struct cv_event){.kind = CV_EVENT_SEQUENCE, .request = request, .sequence = number});
}

/* It suspects the leader, and proposes that number. */
static void propose(struct solo *s, uint64_t number)
{
    fire(s, ANON_TIMER_SUSPECT);
    assert_int_not_equal(asked(s), 0);
    answer(s, asked(s), number);
}

static struct solo *process(void)
{
    return solo_new("anon", 1, 1, "R=5 eta=50ms eps=150ms");
}

/* It owns the closed number 9. */
static struct solo *leader(void)
{
    struct solo *s = process();
    propose(s, 9);
    hear(s, "TOKEN", 10, 1, 10);
    assert_int_equal(s->leader, 1);
    return s;
}

/* GONE is about the sender's own number. Once another leads, it would be about that leader. */
static void a_resignation_is_not_repeated_once_another_leads(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_RESIGN});
    assert_non_null(solo_said(s, "GONE"));
    const int64_t rest_ns = s->now_ns + 2 * EPS_NS;
    hear(s, "TOKEN", 15, 1, 15); /* 10 leads */
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    assert_int_equal(s->timer_ns[ANON_TIMER_HEARTBEAT], 0);
    fire(s, ANON_TIMER_SUSPECT);
    s->now_ns = rest_ns;
    propose(s, 16);
    fire(s, ANON_TIMER_HEARTBEAT);
    assert_null(solo_said(s, "GONE"));
    assert_int_equal(solo_field(s, solo_said(s, "TOKEN"), "number"), 16);
    solo_free(s);
}

/* 9 is closed by our own 12, but its owner does not know it: it must hear of 12. */
static void a_proposal_is_repeated_to_a_leader_that_does_not_know_that_it_leads(void **unused)
{
    (void)unused;
    struct solo *s = process();
    propose(s, 12);
    hear(s, "TOKEN", 9, 1, 9);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    fire(s, ANON_TIMER_HEARTBEAT);
    assert_int_equal(solo_field(s, solo_said(s, "TOKEN"), "number"), 12);
    hear(s, "TOKEN", 9, 2, 12); /* now its owner knows */
    assert_int_equal(s->timer_ns[ANON_TIMER_HEARTBEAT], 0);
    solo_free(s);
}

static void a_leader_that_withdraws_says_three_times_that_it_is_gone(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    solo_step(s, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    assert_non_null(solo_said(s, "GONE"));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(s->timer_ns[ANON_TIMER_HEARTBEAT], s->now_ns + ETA_NS);
        fire(s, ANON_TIMER_HEARTBEAT);
        assert_int_equal(solo_field(s, solo_said(s, "GONE"), "number"), 9);
    }
    solo_free(s);
}

/* A process that does not lead has nothing to resign from; it takes its proposal back. */
static void a_process_that_withdraws_proposes_no_more(void **unused)
{
    (void)unused;
    struct solo *s = process();
    propose(s, 12);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    assert_int_equal(s->timer_ns[ANON_TIMER_HEARTBEAT], 0);
    assert_null(solo_said(s, "GONE"));
    solo_free(s);
}

static void the_first_number_that_no_sequencer_gives_is_refused(void **unused)
{
    (void)unused;
    struct solo *s = process();
    draft(s, "TOKEN", CV_SEQUENCE_END, 1, CV_SEQUENCE_END);
    solo_hear(s, 2, 0);
    assert_int_equal(
        solo_noted(s, "message ignored: {number} is not a number of a sequencer")->number,
        CV_SEQUENCE_END);
    draft(s, "TOKEN", 8, 1, CV_SEQUENCE_END);
    solo_hear(s, 2, 0);
    (void)solo_noted(s, "message ignored: {number} is not a number of a sequencer");
    hear(s, "TOKEN", 8, 1, CV_SEQUENCE_END - 1); /* the last number that a sequencer may give */
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    solo_free(s);
    s = process();
    fire(s, ANON_TIMER_SUSPECT);
    answer(s, 1, CV_SEQUENCE_END);
    assert_null(solo_said(s, "TOKEN"));
    solo_free(s);
}

static void a_number_above_the_largest_seen_by_its_sender_is_refused(void **unused)
{
    (void)unused;
    struct solo *s = process();
    hear(s, "TOKEN", 12, 1, 3);
    assert_int_equal(
        solo_noted(s, "message ignored: its number {number} is above its largest")->number, 12);
    hear(s, "TOKEN", 9, 1, 9); /* 12 would have closed its round */
    assert_int_equal(s->leader, CV_ID_NONE);
    solo_free(s);
}

/* With persist. Saved numbers are not trusted blindly either. */
static void an_impossible_saved_number_is_ignored(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("anon", 1, 1, "R=5 persist=yes");
    const uint64_t record[] = {CV_SEQUENCE_END, 1, CV_SEQUENCE_END, 1};
    memcpy(s->persisted, record, sizeof record);
    s->persisted_count = COUNT_OF(record);
    s->persisted[COUNT_OF(record)] = CV_SEQUENCE_END - 1; /* beyond the end of the record */
    solo_restart(s);
    hear(s, "TOKEN", 8, 1, 11);
    assert_int_equal(s->leader, CV_ID_ANONYMOUS);
    solo_free(s);
}

static void a_process_that_cannot_save_takes_no_further_part(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("anon", 1, 1, "R=5 eta=50ms eps=150ms persist=yes");
    hear(s, "TOKEN", 8, 1, 11);
    fire(s, ANON_TIMER_SUSPECT); /* asks for a number */
    assert_int_not_equal(asked(s), 0);
    hear(s, "TOKEN", 3, 1, 3); /* stale: it must be answered */
    assert_int_not_equal(s->timer_ns[ANON_TIMER_TELL], 0);
    assert_int_not_equal(s->timer_ns[ANON_TIMER_QUERY], 0);
    solo_step(s, (struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
    for (uint32_t timer = 0; timer < ANON_TIMER_COUNT; timer++) {
        assert_int_equal(s->timer_ns[timer], 0);
    }
    solo_free(s);
}

static void a_message_that_comes_back_is_ignored(void **unused)
{
    (void)unused;
    struct solo *s = leader();
    draft(s, "TOKEN", 9, 7, 10);
    solo_put(s, "label", 0);
    solo_hear(s, 1, 0);
    assert_int_equal(solo_noted(s, "message ignored: it comes from this process itself")->number,
                     9);
    assert_int_equal(s->out.item_count, 0);
    solo_free(s);
}

static int configure(const char *eta, const char *eps, const char *time, struct cv_errtext *why)
{
    struct cv_config config;
    const struct cv_protocol *anon = cv_protocol_find("anon");
    cv_config_init(&config, anon, 1, 3);
    assert_int_equal(cv_config_set(&config, anon, "eta", eta, NULL), CV_OK);
    assert_int_equal(cv_config_set(&config, anon, "eps", eps, NULL), CV_OK);
    assert_int_equal(cv_config_set(&config, anon, "sequencer-time", time, NULL), CV_OK);
    return cv_core_configure(anon, &config, why);
}

/* 4 rho eps, rounded up, is 40.001 us with eps = 100 ms and the usual bound on drift. */
static void times_at_the_bound_are_accepted_and_others_refused_with_their_numbers(void **unused)
{
    (void)unused;
    struct cv_errtext why = {""};
    assert_int_equal(configure("49959998ns", "100ms", "10ms", &why), CV_OK);
    assert_int_equal(configure("49959999ns", "100ms", "10ms", &why), CV_E_INVALID);
    assert_string_equal(why.text, "eps/2 > eta + 4 rho eps does not hold: 50ms against 50ms");
    assert_int_equal(configure("10ms", "100ms", "99999999ns", &why), CV_OK);
    assert_int_equal(configure("10ms", "100ms", "100ms", &why), CV_E_INVALID);
    assert_string_equal(why.text, "eps > sequencer-time does not hold: 100ms against 100ms");
}

static void the_papers_start_and_proposals_promise_less(void **unused)
{
    (void)unused;
    const struct {
        const char *options;
        bool is_stable, has_leader;
    } kinds[] = {{"", true, true}, {"start=paper", false, true}, {"stubborn=no", true, false}};
    for (uint32_t i = 0; i < COUNT_OF(kinds); i++) {
        struct solo *s = solo_new("anon", 1, 1, kinds[i].options);
        uint32_t promises;
        uint32_t assumes;
        cv_core_contract(s->protocol, &s->config, &promises, &assumes);
        assert_int_equal((promises & CV_PROP(STABILITY)) != 0, kinds[i].is_stable);
        assert_int_equal((promises & CV_PROP(TERMINATION)) != 0, kinds[i].has_leader);
        assert_int_equal((promises & CV_PROP(LEADER_ORDER)) != 0, true);
        solo_free(s);
    }
}

/* A query's longest time-out and six eps, then twice R + 2 proposals: docs/anon.md. */
static void settles_within_its_documented_time(void **unused)
{
    (void)unused;
    struct solo *s = process();
    assert_int_equal(s->protocol->sequence_ns(&s->config), EPS_NS);
    assert_int_equal(s->protocol->settle_ns(&s->config), 8 * EPS_NS + 6 * EPS_NS + 14 * 2 * EPS_NS);
    solo_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resignation_is_not_repeated_once_another_leads),
        cmocka_unit_test(a_proposal_is_repeated_to_a_leader_that_does_not_know_that_it_leads),
        cmocka_unit_test(a_leader_that_withdraws_says_three_times_that_it_is_gone),
        cmocka_unit_test(a_process_that_withdraws_proposes_no_more),
        cmocka_unit_test(the_first_number_that_no_sequencer_gives_is_refused),
        cmocka_unit_test(a_number_above_the_largest_seen_by_its_sender_is_refused),
        cmocka_unit_test(an_impossible_saved_number_is_ignored),
        cmocka_unit_test(a_process_that_cannot_save_takes_no_further_part),
        cmocka_unit_test(a_message_that_comes_back_is_ignored),
        cmocka_unit_test(times_at_the_bound_are_accepted_and_others_refused_with_their_numbers),
        cmocka_unit_test(the_papers_start_and_proposals_promise_less),
        cmocka_unit_test(settles_within_its_documented_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
