/* tests/unit/test_local_edges.c - the rules of `local` at their edges: what a process tells or
 * forgets when its role changes, exact times, and configurations that are just valid.
 *
 * A single core; the test plays the rest of the world, as in test_local.c. */
#include "protocols/local_config.h"
#include "protocols/local_state.h"
#include "support/local.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

/* Process 1 asks, and leads with that token if it is not 0, supported by all three. */
static void hear_first(struct solo *c, uint64_t request, uint64_t token, uint64_t leading)
{
    solo_draft(c, "ELECTION");
    solo_put(c, "request", request);
    solo_put(c, "token", token);
    solo_put(c, "leading", leading);
    solo_put_set(c, "alive", BIT(c->config.self));
    solo_put_set(c, "support", BIT(1) | BIT(2) | BIT(3));
    solo_hear(c, 1, FAST_NS);
}

/* ---- when its role changes ------------------------------------------------------------------- */

static void candidate_gives_up_its_request_when_it_hears_one_before_it(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
    const uint64_t request = solo_field(c, m, "request");
    assert_false(local_is_supported(c, 1, 1, 9)); /* it is locked to itself at first */
    assert_int_equal(solo_field(c, solo_said(c, "RELEASE"), "request"), request);
    assert_true(local_is_supported(c, 1, 2, 9)); /* and then no more */
    solo_free(c);
}

/* [BI] 3 has heard RELEASE before the latest ELECTION, and did not answer that. When 1 resigns, 3
 * has not been heard for `expires` although it is connected: a request succeeds only after it has
 * had the time to answer. */
static void request_after_a_release_waits_for_answers_again(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "succession=no");
    uint64_t request = solo_field(c, solo_await(c, "ELECTION", EXPIRES_NS), "request");
    local_hear_reply(c, 3, request, true);
    const int64_t heard_ns = c->now_ns;
    (void)solo_await(c, "ELECTION", EXPIRES_NS);
    const int64_t asked_ns = c->now_ns;
    hear_first(c, 1, 9, 9);
    assert_non_null(solo_said(c, "RELEASE"));
    solo_wait_until(c, heard_ns + EXPIRES_NS - NS_PER_MS);
    hear_first(c, 2, 9, 9);
    solo_wait_until(c, heard_ns + EXPIRES_NS + 1);
    assert_true(c->now_ns < asked_ns + EXPIRES_NS);
    solo_draft(c, "RELEASE");
    solo_put(c, "request", 2);
    solo_put(c, "token", 9);
    solo_put(c, "passive", 1);
    solo_hear(c, 1, FAST_NS);
    request = solo_field(c, solo_await(c, "ELECTION", NS_PER_MS), "request");
    solo_draft(c, "REPLY");
    solo_put(c, "request", request);
    solo_put(c, "supports", 1);
    solo_put(c, "passive", 1);
    solo_hear(c, 1, FAST_NS);
    assert_null(solo_told(c));
    (void)solo_await(c, "ELECTION", DELTA_NS + NS_PER_MS);
    assert_in_range(c->now_ns - (int64_t)request, DELTA_NS, DELTA_NS + NS_PER_MS);
    solo_free(c);
}

/* It has been a candidate before, but now waits like any other orphan. */
static void former_candidate_waits_for_its_place_in_the_succession(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    (void)solo_await(c, "ELECTION", EXPIRES_NS);
    hear_first(c, 1, 9, 0);
    hear_first(c, 2, 9, 9);
    assert_int_equal(c->leader, 1);
    const int64_t heard_ns = c->now_ns;
    (void)solo_await(c, "ELECTION", 3 * EXPIRES_NS);
    assert_int_equal(c->now_ns, heard_ns + EXPIRES_NS + 1 + 10 * NS_PER_MS); /* after 2 */
    solo_free(c);
}

static void new_token_of_the_same_leader_is_reported(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    hear_first(c, 1, 5, 5);
    assert_int_equal(solo_told(c)->token, 5);
    hear_first(c, 2, 5, 5);
    assert_null(solo_told(c));
    hear_first(c, 3, 6, 6);
    assert_int_equal(solo_told(c)->token, 6);
    assert_int_equal(solo_told(c)->reason, CV_REASON_ELECTED);
    hear_first(c, 2, 6, 5);
    assert_int_equal(
        solo_noted(c, "ELECTION of {peer} was overtaken: its token {number} is old")->number, 5);
    assert_null(solo_told(c));
    solo_free(c);
}

/* The lock is to an earlier life of 1 only: when it ends, a follower of 1 stops following. */
static void lock_that_a_release_shortens_ends_at_the_earlier_time(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const int64_t locked_ns = c->now_ns;
    assert_true(local_is_supported(c, 1, 900, 1));
    c->now_ns += NS_PER_MS;
    solo_draft(c, "ELECTION");
    solo_put(c, "life", 8);
    solo_put(c, "request", 5);
    solo_put(c, "token", 1);
    solo_hear(c, 1, FAST_NS);
    assert_int_equal(c->timer_ns[LOCAL_TIMER_LOCK], locked_ns + NS_PER_MS + LOCK_NS);
    solo_draft(c, "RELEASE");
    solo_put(c, "life", 8);
    solo_put(c, "request", 5);
    solo_hear(c, 1, FAST_NS);
    assert_int_equal(c->timer_ns[LOCAL_TIMER_LOCK], locked_ns + LOCK_NS);
    solo_free(c);
}

static void process_that_resigned_in_vain_stands_up_after_twice_expires(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 1, "");
    (void)local_elect(c);
    solo_step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    const int64_t resigned_ns = c->now_ns;
    (void)solo_await(c, "ELECTION", 4 * EXPIRES_NS);
    assert_in_range(c->now_ns - resigned_ns, 2 * EXPIRES_NS, 2 * EXPIRES_NS + 10 * NS_PER_MS);
    solo_free(c);
}

/* It is waited for no sooner, although the timer of its own lock, which it released, fires
 * before. */
static void process_that_resigned_is_passive_though_its_old_lock_ends(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 2, "");
    (void)local_elect(c);
    solo_step(c, (struct cv_event){.kind = CV_EVENT_RESIGN});
    solo_wait_until(c, c->now_ns + LOCK_NS);
    assert_true(LOCK_NS < 2 * EXPIRES_NS);
    solo_draft(c, "ECHO");
    solo_put(c, "asks", 1);
    solo_hear(c, 2, FAST_NS);
    assert_int_equal(solo_field(c, solo_said(c, "ECHO"), "passive"), 1);
    solo_free(c);
}

static void process_that_stands_aside_asks_the_first_in_its_way(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    const uint64_t request = solo_field(c, solo_await(c, "ELECTION", EXPIRES_NS), "request");
    solo_draft(c, "REPLY");
    solo_put(c, "request", request);
    solo_put(c, "taken", 1);
    solo_hear(c, 1, FAST_NS);
    cv_id to = CV_ID_NONE;
    assert_int_equal(solo_field(c, solo_await(c, "ECHO", EXPIRES_NS), "asks"), 1);
    assert_non_null(solo_said_to(c, "ECHO", &to));
    assert_int_equal(to, 1);
    solo_free(c);
}

/* The hint is wrong: it leads by its own lock and by those of its supporters. */
static void certain_hint_of_its_own_death_ends_no_leadership(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1, .is_certain = true});
    assert_int_equal(c->leader, 1);
    solo_free(c);
}

static void hint_does_not_change_when_a_leader_asks(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    const int64_t next_ns = c->timer_ns[LOCAL_TIMER_ALIVE];
    c->now_ns += NS_PER_MS;
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 3});
    assert_int_equal(c->timer_ns[LOCAL_TIMER_ALIVE], next_ns);
    solo_free(c);
}

/* A request is named by its instant, and an instant that was released cannot be asked with
 * again. */
static void candidate_that_returns_in_the_same_instant_asks_in_the_next(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)solo_await(c, "ELECTION", EXPIRES_NS);
    const int64_t asked_ns = c->now_ns;
    solo_step(c, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    solo_step(c, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = true});
    assert_int_equal(c->now_ns, asked_ns);
    const struct cv_message *m = solo_await(c, "ELECTION", EXPIRES_NS);
    assert_int_equal(solo_field(c, m, "request"), asked_ns + 1);
    solo_free(c);
}

static void process_that_withdraws_asks_no_more(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 1, "");
    (void)local_elect(c);
    solo_step(c, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = false});
    assert_int_equal(c->leader, CV_ID_NONE);
    assert_int_equal(solo_told(c)->reason, CV_REASON_RESIGNED);
    for (uint32_t i = 0; i < 40; i++) {
        solo_wait_until(c, c->now_ns + EXPIRES_NS / 4);
        assert_null(solo_said(c, "ELECTION"));
    }
    solo_step(c, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .is_candidate = true});
    (void)solo_await(c, "ELECTION", 1);
    solo_free(c);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Answers add up as long as the request is the same; a later request would count from later. */
static void renewal_is_repeated_for_half_of_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const int64_t request_ns = (int64_t)solo_field(c, m, "request");
    assert_int_equal(request_ns, c->now_ns);
    for (;;) {
        m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
        if (c->now_ns - request_ns >= LOCK_NS / 2) {
            break;
        }
        assert_int_equal(solo_field(c, m, "request"), request_ns);
    }
    assert_int_equal(solo_field(c, m, "request"), c->now_ns);
    assert_int_equal(c->leader, 1);
    solo_free(c);
}

/* ---- configurations -------------------------------------------------------------------------- */

/* With the times of local.h and the usual bound on drift of 1e-4. */
static void accepts(const char *options)
{
    solo_free(local_process(1, 3, options));
}

static void refuses(const char *options, const char *why)
{
    struct cv_config config;
    struct cv_errtext error = {""};
    const struct cv_protocol *local = cv_protocol_find("local");
    char text[200];
    cv_config_init(&config, local, 1, 3);
    (void)snprintf(text, sizeof text, "ep=8ms expires=92.014408ms lock=123.014408ms %s", options);
    config_set_all(&config, local, text);
    assert_int_equal(cv_core_configure(local, &config, &error), CV_E_INVALID);
    assert_string_equal(error.text, why);
}

static void times_at_the_bound_are_accepted_and_others_refused_with_their_numbers(void **unused)
{
    (void)unused;
    refuses("delta-min=5ms", "delta > delta-min does not hold: 5ms against 5ms");
    accepts("lock=23005604ns");
    refuses("lock=23005603ns",
            "lock(1-2rho) > ep + sigma + 2 delta(1+rho) does not hold: 23.001001ms against "
            "23.001001ms");
    accepts("expires=23003602ns");
    refuses("expires=23003601ns",
            "expires >= (1+rho)((ep+sigma)(1+rho) + 2(delta-delta_min)) does not hold: "
            "23.003601ms against 23.003602ms");
    accepts("collate=2 lock=26000002ns");
    refuses("collate=2 lock=26ms",
            "with collate: lock/2 > ep + sigma does not hold: 13ms against 13ms");
    accepts("expires=12499995us");
    refuses("expires=12500ms", "delta + delta-min > 4 rho expires does not hold: 5ms against 5ms");
}

static void assert_times(const char *profile, int64_t delta_us, int64_t sigma_us, int64_t ep_us,
                         int64_t expires_ns)
{
    struct solo *c = solo_new("local", 1, 3, profile);
    const int64_t *o = c->config.option;
    assert_int_equal(o[LOCAL_OPTION_DELTA], delta_us * NS_PER_US);
    assert_int_equal(o[LOCAL_OPTION_SIGMA], sigma_us * NS_PER_US);
    assert_int_equal(o[LOCAL_OPTION_EP], ep_us * NS_PER_US);
    assert_int_equal(o[LOCAL_OPTION_EXPIRES], expires_ns);
    assert_int_equal(o[LOCAL_OPTION_LOCK],
                     expires_ns + (2 * (ep_us + delta_us) + sigma_us) * NS_PER_US);
    solo_free(c);
}

static void profiles_give_the_times(void **unused)
{
    (void)unused;
    assert_times("profile=lan", 5000, 5000, 5000, 30004503);
    assert_times("profile=wan", 150000, 5000, 50000, 1420164008);
    assert_times("profile=loopback", 750, 1000, 1000, 5250828);
}

/* [Fetzer99, sec. IX.C, with ours] Worked out by hand from the formula at cv__local_kappa_ns(). */
static void kappa_follows_from_the_times(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "");
    assert_int_equal(c->protocol->kappa_ns(&c->config), 389071934);
    assert_int_equal(c->protocol->settle_ns(&c->config), 389071934 + 26 * NS_PER_MS);
    assert_int_equal(c->protocol->timely_ns(&c->config), 2481597);
    assert_int_equal(c->protocol->fast_ns(&c->config), 5 * NS_PER_MS);
    solo_free(c);
    c = local_process(1, 3, "succession=no");
    assert_int_equal(c->protocol->kappa_ns(&c->config), 389071934 - EXPIRES_NS);
    solo_free(c);
}

/* [Fetzer99, fig. 24] The bound grows with the members. There is none with `majority` or `rotate`:
 * the figure holds for any number of supporters, and for ids in their order. */
static void graph_takes_longer_the_more_members_there_are(void **unused)
{
    (void)unused;
    const struct {
        const char *options;
        uint32_t members;
        int64_t kappas;
    } kinds[] = {{"", 7, 5}, {"", 8, 6}, {"", 17, 7}, {"majority=yes", 7, 0}, {"rotate=1s", 7, 0}};
    for (uint32_t i = 0; i < COUNT_OF(kinds); i++) {
        struct solo *c = local_process(1, kinds[i].members, kinds[i].options);
        const int64_t kappa_ns = c->protocol->kappa_ns(&c->config);
        assert_int_equal(c->protocol->graph_ns(&c->config), kinds[i].kappas * kappa_ns);
        solo_free(c);
    }
}

static void majority_promises_more_and_turns_promise_less(void **unused)
{
    (void)unused;
    const struct {
        const char *options;
        bool has_one, has_leader;
    } kinds[] = {{"", false, true}, {"majority=yes", true, true}, {"rotate=1s", false, false}};
    for (uint32_t i = 0; i < COUNT_OF(kinds); i++) {
        struct solo *c = local_process(1, 3, kinds[i].options);
        uint32_t promises;
        uint32_t assumes;
        cv_core_contract(c->protocol, &c->config, &promises, &assumes);
        assert_int_equal((promises & CV_PROP(AT_MOST_ONE_LEADER)) != 0, kinds[i].has_one);
        assert_int_equal((promises & CV_PROP(TOKEN_MONOTONIC)) != 0, kinds[i].has_one);
        assert_int_equal((assumes & BIT(CV_ASSUME_MAJORITY)) != 0, kinds[i].has_one);
        assert_int_equal((promises & CV_PROP(TERMINATION)) != 0, kinds[i].has_leader);
        assert_int_equal((promises & CV_PROP(STABILITY)) != 0, kinds[i].has_leader);
        assert_int_equal((promises & CV_PROP(SUPPORT_ONE)) != 0, true);
        solo_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidate_gives_up_its_request_when_it_hears_one_before_it),
        cmocka_unit_test(request_after_a_release_waits_for_answers_again),
        cmocka_unit_test(former_candidate_waits_for_its_place_in_the_succession),
        cmocka_unit_test(new_token_of_the_same_leader_is_reported),
        cmocka_unit_test(lock_that_a_release_shortens_ends_at_the_earlier_time),
        cmocka_unit_test(process_that_resigned_in_vain_stands_up_after_twice_expires),
        cmocka_unit_test(process_that_resigned_is_passive_though_its_old_lock_ends),
        cmocka_unit_test(process_that_stands_aside_asks_the_first_in_its_way),
        cmocka_unit_test(certain_hint_of_its_own_death_ends_no_leadership),
        cmocka_unit_test(hint_does_not_change_when_a_leader_asks),
        cmocka_unit_test(candidate_that_returns_in_the_same_instant_asks_in_the_next),
        cmocka_unit_test(process_that_withdraws_asks_no_more),
        cmocka_unit_test(renewal_is_repeated_for_half_of_the_lock),
        cmocka_unit_test(times_at_the_bound_are_accepted_and_others_refused_with_their_numbers),
        cmocka_unit_test(profiles_give_the_times),
        cmocka_unit_test(kappa_follows_from_the_times),
        cmocka_unit_test(graph_takes_longer_the_more_members_there_are),
        cmocka_unit_test(majority_promises_more_and_turns_promise_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
