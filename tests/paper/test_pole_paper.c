/* tests/paper/test_pole_paper.c - what [Becker11] says about POLE in sec. 3, claim by claim.
 *
 * One transmission takes 0.5 ms; T is 10 ms. Scores are a preference list, largest first, so that
 * they are known before the first election. Line numbers are those of Alg. 1. */
#include "core/core.h"
#include "protocols/pole.h"
#include "protocols/pole_config.h"
#include "support/cluster.h"
#include "support/host.h"
#include "support/solo.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define SETTLED_MS 300.0

static struct cluster *settled(uint32_t nodes, const char *order)
{
    struct cluster *c = cluster_start("protocol pole oracle=preference preference=%s\n"
                                      "nodes %u\nlink * delay 0.5ms\nrun 10s\n",
                                      order, nodes);
    cluster_run_until(c, SETTLED_MS);
    return c;
}

/* [sec. 3.2] "In a timely run, non-crashed processes eventually converge to the same leader", the
 * one with the highest score. */
static void highest_score_leads_in_a_timely_run(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"1,2,3,4,5", "3,5,1,4,2", "5,4,3,2,1", "2"};
    static const cv_id best[] = {1, 3, 5, 2};
    for (uint32_t i = 0; i < COUNT_OF(orders); i++) {
        struct cluster *c = settled(5, orders[i]);
        assert_int_equal(cluster_leader(c), best[i]);
        assert_int_equal(cluster_leader_count(c), 1);
        cluster_end(c);
    }
}

/* [sec. 3.2] "and finally by id in case breaking ties is necessary" */
static void larger_id_breaks_ties(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5, "");
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* [sec. 3.2; lines 29-30] "If process i received proposals from all processes, then process i can
 * elect the highest proposal immediately": before a round is over. */
static void all_proposals_elect_at_once(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5, "3");
    assert_true(cluster_decided_ms(c) < 10.0);
    cluster_end(c);
}

/* [lines 31-32] With a quorum of proposals only, the election timer ends the election. */
static void quorum_of_proposals_elects_after_a_round(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol pole oracle=preference preference=1,2,3\n"
                                      "nodes 5\nlink * delay 0.5ms\n"
                                      "at 0s crash 4 5\nrun 3s\n");
    cluster_run_until(c, 300);
    assert_int_equal(cluster_leader(c), 1);
    assert_true(cluster_decided_ms(c) >= 10.0);
    assert_true(cluster_decided_ms(c) < 25.0);
    cluster_end(c);
}

/* [sec. 3.2] "it provides mechanisms such as electing a process only once there is a quorum" (sec.
 * 6): without one nobody is elected, and proposals are repeated with back-off (lines 19-25). */
static void without_a_quorum_nobody_is_elected(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol pole\nnodes 5\nlink * delay 0.5ms\n"
                                      "at 0s crash 3 4 5\nrun 3s\n");
    cluster_run_until(c, 1000);
    assert_int_equal(cluster_leader_count(c), 0);
    const uint64_t sent = cluster_sent(c, "PROPOSE");
    cluster_run_until(c, 2000);
    const uint64_t later = cluster_sent(c, "PROPOSE") - sent;
    assert_in_range(later, 8 * (1000 / 45), 8 * (1000 / 40) + 16); /* two nodes, to four, each 4T */
    assert_int_equal(cluster_leader_count(c), 0);
    cluster_end(c);
}

/* [sec. 3.2; lines 34-36] "When process i believes to know who the leader is, it replies proposals
 * with a vote": a process that comes late joins the leader that is there, better score or not. */
static void late_process_follows_the_sitting_leader(void **unused)
{
    (void)unused;
    struct cluster *c = settled(3, "3,2,1");
    assert_int_equal(cluster_leader(c), 3);
    cluster_crash(c, 3);
    cluster_run_until(c, 600);
    assert_int_equal(cluster_leader(c), 2);
    const uint64_t token = cluster_token_at(c, 2);
    const uint64_t votes = cluster_sent(c, "VOTE");
    cluster_recover(c, 3);
    cluster_run_until(c, 1200);
    assert_int_equal(cluster_leader(c), 2); /* stability */
    assert_int_equal(cluster_token_at(c, 3), token);
    assert_true(cluster_sent(c, "VOTE") > votes);
    cluster_end(c);
}

/* ---- one process; the test plays the others -------------------------------------------------- */

struct one {
    const struct cv_protocol *protocol;
    struct cv_config config;
    void *state;
    struct cv_effects out;
    int64_t now_ns;
};

static void one_init(struct one *o, cv_id self, uint32_t members)
{
    memset(o, 0, sizeof *o);
    o->protocol = cv_protocol_find("pole");
    cv_config_init(&o->config, o->protocol, self, members);
    assert_int_equal(cv_core_configure(o->protocol, &o->config, NULL), CV_OK);
    o->state = calloc(1, cv_core_size(o->protocol, &o->config));
    o->out = host_effects_new(&o->config);
    o->now_ns = NS_PER_S;
    cv__core_init(o->protocol, o->state, &o->config);
}

static void one_fini(struct one *o)
{
    host_effects_free(&o->out);
    free(o->state);
}

static void one_step(struct one *o, struct cv_event event)
{
    event.now_ns = o->now_ns;
    cv__core_step(o->protocol, o->state, &event, &o->out);
}

static void one_hears(struct one *o, cv_id from, struct cv_message message)
{
    one_step(o, (struct cv_event){.kind = CV_EVENT_MESSAGE, .peer = from, .message = &message});
}

/* The message of that type that it sends to that process; NULL: none. */
static const struct cv_message *one_sends(const struct one *o, uint32_t type, cv_id to)
{
    for (uint32_t i = 0; i < o->out.item_count; i++) {
        const struct cv_effect *e = &o->out.item[i];
        if (e->kind == CV_EFFECT_SEND && e->message.type == type && e->first <= to &&
            to <= e->last) {
            return &e->message;
        }
    }
    return NULL;
}

static struct cv_message vote(uint64_t epoch, cv_id leader)
{
    struct cv_message message = {.type = POLE_VOTE};
    pole_vote_write(&message, (struct pole_vote){.epoch = epoch, .leader = leader});
    return message;
}

static struct cv_message proposal(uint64_t epoch, cv_id id, uint64_t score)
{
    struct cv_message message = {.type = POLE_PROPOSE};
    pole_propose_write(&message,
                       (struct pole_propose){.epoch = epoch, .id = id, .score_1 = score + 1});
    return message;
}

static struct cv_message heartbeat(uint64_t epoch, bool is_established, uint64_t seq)
{
    struct cv_message message = {.type = POLE_HEARTBEAT};
    pole_heartbeat_write(&message, (struct pole_heartbeat){.epoch = epoch,
                                                           .nonce = 77,
                                                           .seq = seq,
                                                           .established = is_established,
                                                           .token = is_established ? epoch : 0,
                                                           .lease = 50 * NS_PER_MS});
    return message;
}

static struct cv_message of_epoch(uint32_t type, uint64_t epoch)
{
    struct cv_message message = {.type = type};
    pole_epoch_write(&message, (struct pole_epoch){epoch});
    return message;
}

/* The latest step noted exactly this. */
static void assert_noted(const struct one *o, struct cv_note note)
{
    assert_int_equal(o->out.note_count, 1);
    assert_string_equal(o->out.note[0].text, note.text);
    assert_int_equal(o->out.note[0].peer, note.peer);
    assert_int_equal(o->out.note[0].time_ns, note.time_ns);
    assert_int_equal(o->out.note[0].number, note.number);
}

/* The process that it has chosen: its vote shows it. */
static cv_id choice_of(struct one *o)
{
    one_hears(o, 5, proposal(1, 5, 0));
    const struct cv_message *m = one_sends(o, POLE_VOTE, 5);
    return m != NULL ? pole_vote_read(m).leader : CV_ID_NONE;
}

/* [line 60] "checks if the leader replied with a vote message as well, what is important to avoid
 * reelecting a crashed leader" */
static void quorum_of_votes_needs_the_leaders_own(void **unused)
{
    (void)unused;
    struct one o;
    one_init(&o, 1, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START, .nonce = 1});
    one_hears(&o, 2, vote(7, 4));
    one_hears(&o, 3, vote(7, 4));
    one_hears(&o, 5, vote(7, 4)); /* a quorum, but without the vote of 4 itself */
    assert_int_equal(choice_of(&o), CV_ID_NONE);
    one_hears(&o, 4, vote(6, 4)); /* nor with its vote in another epoch */
    assert_int_equal(choice_of(&o), CV_ID_NONE);
    one_hears(&o, 4, vote(7, 4));
    assert_int_equal(choice_of(&o), 4);
    one_fini(&o);
}

/* [lines 37-38] A smaller proposal is answered with the larger; [lines 39-42] a larger one is
 * adopted and passed on. */
static void proposals_are_compared_and_passed_on(void **unused)
{
    (void)unused;
    struct one o;
    one_init(&o, 3, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START, .nonce = 1});
    const struct cv_message *m = one_sends(&o, POLE_PROPOSE, 1);
    assert_non_null(m);
    assert_int_equal(pole_propose_read(m).id, 3);
    const uint64_t epoch = pole_propose_read(m).epoch;
    assert_int_equal(epoch, 1);

    one_hears(&o, 1, proposal(epoch, 1, 0)); /* same score, smaller id */
    m = one_sends(&o, POLE_PROPOSE, 1);
    assert_non_null(m);
    assert_int_equal(pole_propose_read(m).id, 3);
    assert_null(one_sends(&o, POLE_PROPOSE, 2)); /* to the sender alone */

    one_hears(&o, 2, proposal(epoch, 4, 9));
    m = one_sends(&o, POLE_PROPOSE, 5); /* to all */
    assert_non_null(m);
    assert_int_equal(pole_propose_read(m).id, 4);
    one_fini(&o);
}

/* [lines 43-48] A larger epoch is adopted, with a fresh score of its own. */
static void larger_epoch_asks_the_oracle_again(void **unused)
{
    (void)unused;
    struct one o;
    one_init(&o, 3, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START, .nonce = 1});
    one_step(&o, (struct cv_event){
                     .kind = CV_EVENT_REPORT, .input = CV_INPUT_HISTORY_LENGTH, .value = 50});
    one_hears(&o, 1, proposal(9, 1, 20));
    const struct cv_message *m = one_sends(&o, POLE_PROPOSE, 2);
    assert_non_null(m);
    assert_int_equal(pole_propose_read(m).epoch, 9);
    assert_int_equal(pole_propose_read(m).id, 3); /* 50 beats 20 */
    assert_int_equal(pole_propose_read(m).score_1, 51);
    one_hears(&o, 2, proposal(4, 2, 99)); /* an old proposal changes nothing, however good */
    m = one_sends(&o, POLE_PROPOSE, 2);
    assert_non_null(m);
    assert_int_equal(pole_propose_read(m).epoch, 9);
    assert_int_equal(pole_propose_read(m).id, 3);
    one_fini(&o);
}

/* [sec. 3.1; ours] "Processes only accept a connection from the process they believe to be the
 * leader": a promise keeps a process from following another until it has run out, and is saved
 * before it is sent. */
static void one_leader_is_followed_at_a_time(void **unused)
{
    (void)unused;
    struct one o;
    one_init(&o, 1, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START, .nonce = 1});
    one_hears(&o, 4, heartbeat(3, false, 1));
    assert_non_null(one_sends(&o, POLE_FOLLOW, 4));
    bool is_saved = false;
    for (uint32_t i = 0; i < o.out.item_count; i++) {
        is_saved = is_saved || o.out.item[i].kind == CV_EFFECT_PERSIST;
        assert_true(is_saved || o.out.item[i].kind != CV_EFFECT_SEND);
    }
    o.now_ns += 10 * NS_PER_MS;
    one_hears(&o, 5, heartbeat(8, true, 1)); /* established and newer: not before the lease ends */
    assert_null(one_sends(&o, POLE_FOLLOW, 5));
    o.now_ns += 40 * NS_PER_MS - 1;
    one_hears(&o, 5, heartbeat(8, true, 2));
    assert_null(one_sends(&o, POLE_FOLLOW, 5));
    o.now_ns += 1;
    one_hears(&o, 5, heartbeat(8, true, 3));
    assert_non_null(one_sends(&o, POLE_FOLLOW, 5));
    one_fini(&o);
}

/* [sec. 3.1; ours] Never back to an epoch once followed, not even after a crash. */
static void followed_epoch_survives_a_crash(void **unused)
{
    (void)unused;
    struct one o;
    const uint64_t saved[] = {8, 5, 50 * NS_PER_MS, 0};
    one_init(&o, 1, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START,
                                   .nonce = 2,
                                   .persisted = saved,
                                   .persisted_count = COUNT_OF(saved)});
    one_hears(&o, 5, heartbeat(8, true, 1)); /* it promised, but has forgotten to whom */
    assert_null(one_sends(&o, POLE_FOLLOW, 5));
    o.now_ns += 50 * NS_PER_MS;
    one_hears(&o, 4, heartbeat(8, false, 1));
    assert_null(one_sends(&o, POLE_FOLLOW, 4));
    o.now_ns += 100 * NS_PER_MS;
    one_hears(&o, 5, heartbeat(8, true, 9)); /* the same pair may be followed again */
    assert_non_null(one_sends(&o, POLE_FOLLOW, 5));
    one_fini(&o);
}

/* [ours] An operator who asks why there is no leader finds each refusal with its reason. */
static void messages_without_an_answer_are_noted_with_the_reason(void **unused)
{
    (void)unused;
    struct one o;
    one_init(&o, 1, 5);
    one_step(&o, (struct cv_event){.kind = CV_EVENT_START, .nonce = 1});
    one_hears(&o, 2, of_epoch(POLE_REFUSE, 9));
    assert_noted(&o, (struct cv_note){"REFUSE of {peer} ignored: not claiming", 2, 0, 9});
    one_hears(&o, 2, of_epoch(POLE_FOLLOW, 9));
    assert_noted(&o, (struct cv_note){"FOLLOW of {peer} ignored: not claiming", 2, 0, 9});
    one_hears(&o, 2, proposal(1, 2, 0));
    one_hears(&o, 3, proposal(9, 3, 0));
    one_hears(&o, 2, proposal(8, 2, 0));
    assert_noted(&o, (struct cv_note){
                         "PROPOSE of {peer} answered with ours: epoch {number} is over", 2, 0, 8});

    one_hears(&o, 4, heartbeat(10, true, 1));
    assert_int_equal(o.out.note_count, 0); /* followed: nothing to explain */
    const int64_t until_ns = o.now_ns + 50 * NS_PER_MS;
    one_hears(&o, 5, heartbeat(11, true, 1));
    assert_noted(&o, (struct cv_note){"HEARTBEAT not answered yet: promised to {peer} until {time}",
                                      4, until_ns, 11});
    one_hears(&o, 3, vote(11, 5));
    assert_noted(&o, (struct cv_note){"VOTE of {peer} ignored: has chosen already", 3, 0, 11});
    o.now_ns = until_ns;
    one_hears(&o, 3, heartbeat(10, false, 1));
    assert_noted(&o, (struct cv_note){"HEARTBEAT not answered: not established, and follows {peer}",
                                      4, 0, 10});
    one_fini(&o);
}

/* [sec. 3.1] "if too many connections are terminated ... the process abandons its leadership": at
 * its valid-until, by its own clock, before any message is handled. */
static void leader_without_a_majority_steps_down_by_its_clock(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5, "5");
    assert_int_equal(cluster_leader(c), 5);
    for (cv_id id = 1; id <= 3; id++) {
        cluster_crash(c, id);
    }
    cluster_run_until(c, SETTLED_MS + 51);
    assert_int_equal(cluster_leader_count(c), 0);
    cluster_end(c);
}

/* [ours] An heir that knows no scores yet claims in vain. It stands back, and stands again
 * later. */
static void heir_without_scores_stands_again_after_a_vain_claim(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 3, 3, "oracle=latency first-wait=10s");
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "epoch", 3);
    solo_put(s, "token", 3);
    solo_put(s, "established", 1);
    solo_put(s, "lease", 50 * NS_PER_MS);
    solo_hear(s, 2, 0);
    assert_non_null(solo_said(s, "FOLLOW"));
    solo_draft(s, "RELEASE");
    solo_put(s, "epoch", 3);
    solo_put(s, "heir", 3);
    solo_hear(s, 2, 0);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    solo_wait_until(s, s->now_ns + NS_PER_S); /* the claim ends after 70 ms, then four leases */
    const uint64_t epoch = solo_field(s, solo_await(s, "PROPOSE", NS_PER_S), "epoch");

    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_hear(s, 1, 0);
    const struct cv_message *claim = solo_await(s, "HEARTBEAT", NS_PER_S);
    assert_true(solo_field(s, claim, "epoch") >= epoch);
    solo_free(s);
}

static void hear_proposal(struct solo *s, cv_id from, uint64_t epoch, bool is_quorate)
{
    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heard", is_quorate);
    solo_put(s, "id", from);
    solo_put(s, "quorate", is_quorate);
    solo_put(s, "score_1", 1);
    solo_hear(s, from, 0);
}

/* [ours] A process that claimed in vain has had its turn: any other that has heard a quorum goes
 * first, whatever its score. If there is none, the best score counts again, a round later. */
static void process_that_claimed_in_vain_lets_others_go_first(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("pole", 3, 3, "oracle=preference preference=3");
    hear_proposal(s, 1, 1, true);
    hear_proposal(s, 2, 1, true);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    (void)solo_await(s, "RELEASE", 100 * NS_PER_MS);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_BACK]); /* it may stand again */
    uint64_t epoch = solo_field(s, solo_await(s, "PROPOSE", NS_PER_S), "epoch");

    hear_proposal(s, 1, epoch, true);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "id"), 1);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_ELECT]);
    assert_null(solo_said(s, "HEARTBEAT"));
    assert_true(s->timer_ns[POLE_TIMER_SILENCE] > s->now_ns); /* 1 is waited for, in vain */
    solo_wait_until(s, s->timer_ns[POLE_TIMER_SILENCE]);

    hear_proposal(s, 2, ++epoch, false);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "quorate"), 0);
    solo_wait_until(s, s->timer_ns[POLE_TIMER_ELECT]);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "id"), 3);
    assert_int_equal(solo_field(s, solo_said(s, "PROPOSE"), "quorate"), 1);
    assert_null(solo_said(s, "HEARTBEAT"));
    solo_wait_until(s, s->timer_ns[POLE_TIMER_ELECT]);
    assert_non_null(solo_said(s, "HEARTBEAT"));
    solo_free(s);
}

/* [sec. 5] The configuration is refused by the name of what does not hold. */
static void inequalities_are_refused_by_name(void **unused)
{
    (void)unused;
    static const struct {
        const char *option, *value, *says;
    } wrong[] = {
        {"lease", "20ms", "lease(1-2rho) > 2 heartbeat + 2 delta + sigma"},
        {"timeout", "20ms", "timeout >= 2 heartbeat + delta + sigma"},
        {"round", "5ms", "round >= 3 delta + sigma"},
        {"retry-max", "5ms", "retry-max >= round"},
        {"heartbeat", "50us", "2 delta + sigma <= 56 heartbeat"},
        {"oracle", "fastest", "no oracle 'fastest'"},
        {"preference", "1,9", "preference=1,9"},
        {"preference", "1,2,1", "names 1 twice"},
        {"preference", "1,", "preference=1,"},
    };
    const struct cv_protocol *pole = cv_protocol_find("pole");
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_config config;
        struct cv_errtext why = {""};
        cv_config_init(&config, pole, 1, 5);
        assert_int_equal(cv_config_set(&config, pole, wrong[i].option, wrong[i].value, &why),
                         CV_OK);
        assert_true(cv_core_configure(pole, &config, &why) < 0);
        if (strstr(why.text, wrong[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", why.text, wrong[i].says);
        }
    }
}

/* Ours: a profile gives three constants, and the others follow; the defaults pass the checks. */
static void constants_follow_from_the_profile(void **unused)
{
    (void)unused;
    static const struct {
        const char *profile;
        int64_t delta_us, sigma_us, heartbeat_us, timeout_us, round_us, lease_us;
    } profiles[] = {
        {"lan", 2000, 2000, 10000, 40000, 10000, 50000},
        {"wan", 150000, 10000, 100000, 460000, 470000, 930000},
        {"loopback", 500, 500, 2000, 8000, 2500, 10500},
    };
    const struct cv_protocol *pole = cv_protocol_find("pole");
    for (uint32_t i = 0; i < COUNT_OF(profiles); i++) {
        struct cv_config config;
        cv_config_init(&config, pole, 1, 3);
        assert_int_equal(cv_config_set(&config, pole, "profile", profiles[i].profile, NULL), CV_OK);
        assert_int_equal(cv_core_configure(pole, &config, NULL), CV_OK);
        const int64_t *o = config.option;
        assert_int_equal(o[POLE_OPTION_DELTA], profiles[i].delta_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_SIGMA], profiles[i].sigma_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_HEARTBEAT], profiles[i].heartbeat_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_TIMEOUT], profiles[i].timeout_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_ROUND], profiles[i].round_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_LEASE], profiles[i].lease_us * NS_PER_US);
        assert_int_equal(o[POLE_OPTION_RETRY_MAX], 4 * o[POLE_OPTION_ROUND]);
        assert_int_equal(o[POLE_OPTION_FIRST], 4 * o[POLE_OPTION_ROUND]);
        assert_int_equal(pole->timely_ns(&config), o[POLE_OPTION_DELTA]);
        assert_int_equal(pole->settle_ns(&config),
                         6 * (o[POLE_OPTION_LEASE] + o[POLE_OPTION_ROUND]) +
                             12 * o[POLE_OPTION_ROUND] + o[POLE_OPTION_TIMEOUT]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(highest_score_leads_in_a_timely_run),
        cmocka_unit_test(larger_id_breaks_ties),
        cmocka_unit_test(all_proposals_elect_at_once),
        cmocka_unit_test(quorum_of_proposals_elects_after_a_round),
        cmocka_unit_test(without_a_quorum_nobody_is_elected),
        cmocka_unit_test(late_process_follows_the_sitting_leader),
        cmocka_unit_test(quorum_of_votes_needs_the_leaders_own),
        cmocka_unit_test(proposals_are_compared_and_passed_on),
        cmocka_unit_test(larger_epoch_asks_the_oracle_again),
        cmocka_unit_test(one_leader_is_followed_at_a_time),
        cmocka_unit_test(followed_epoch_survives_a_crash),
        cmocka_unit_test(messages_without_an_answer_are_noted_with_the_reason),
        cmocka_unit_test(leader_without_a_majority_steps_down_by_its_clock),
        cmocka_unit_test(heir_without_scores_stands_again_after_a_vain_claim),
        cmocka_unit_test(process_that_claimed_in_vain_lets_others_go_first),
        cmocka_unit_test(inequalities_are_refused_by_name),
        cmocka_unit_test(constants_follow_from_the_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
