/* tests/unit/test_properties.c - the properties alone, fed by hand: no world, no protocol.
 *
 * The exhaustive search, and the checker of claims that real processes recorded, feed them the same
 * way. The scenarios test what they say about whole simulated runs. */
#include "properties/graph.h"
#include "properties/properties.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#define NODES 3u

struct told {
    uint32_t count;
    enum cv_property property;
    char detail[160];
};

static void on_break(void *context, enum cv_property property, const char *detail)
{
    struct told *told = context;
    told->count++;
    told->property = property;
    (void)snprintf(told->detail, sizeof told->detail, "%s", detail);
}

struct watched {
    struct cv_properties properties;
    struct told told;
};

static int begin(void **state)
{
    static struct watched w;
    const struct cv_properties_setting setting = {
        .node_count = NODES,
        .promises = CV_PROP(AT_MOST_ONE_LEADER),
        .settle_ns = 100,
    };
    memset(&w, 0, sizeof w);
    cv__properties_init(&w.properties, &setting, on_break, &w.told);
    for (cv_id id = 1; id <= NODES; id++) {
        cv__properties_start(&w.properties, id, /* remembers= */ true);
    }
    *state = &w;
    return 0;
}

static int end(void **state)
{
    struct watched *w = *state;
    cv__properties_fini(&w->properties);
    return 0;
}

static struct cv_belief follow(cv_id leader, uint64_t token)
{
    return (struct cv_belief){
        .named = leader, .leader = leader, .token = token, .until_ns = INT64_MAX};
}

static struct cv_belief lead(cv_id self, uint64_t token, int64_t until_ns)
{
    return (struct cv_belief){
        .named = self, .leader = self, .token = token, .is_self = true, .until_ns = until_ns};
}

/* All three believe in this leader, in term 1 and for ever; returns what its followers believe. */
static struct cv_belief agree_on(struct cv_properties *p, cv_id leader)
{
    const struct cv_belief leading = lead(leader, 1, INT64_MAX);
    const struct cv_belief following = follow(leader, 1);
    for (cv_id id = 1; id <= 3; id++) {
        (void)cv__properties_believe(p, id, id == leader ? &leading : &following);
    }
    return following;
}

static void two_claims_that_overlap_are_two_leaders(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, /* token= */ 7, /* until_ns= */ 50);
    cv__properties_time(p, 49);
    cv__properties_begin(p, 2, /* token= */ 8, /* until_ns= */ 90);
    assert_int_equal(w->told.count, 1);
    assert_int_equal(w->told.property, CV_PROPERTY_AT_MOST_ONE_LEADER);
    assert_string_equal(w->told.detail, "node 2 leads with token 8 while node 1 leads with 7");
    assert_int_equal(p->broken[CV_PROPERTY_AT_MOST_ONE_LEADER].at_ns, 49);
}

static void a_claim_may_begin_at_the_instant_another_runs_out(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    cv__properties_time(p, 50);
    cv__properties_begin(p, 2, 8, 90);
    assert_int_equal(w->told.count, 0);
    assert_false(cv__properties_holds(p, 1, 50));
    assert_true(cv__properties_holds(p, 2, 50));
}

static void a_renewed_claim_lasts_longer(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    cv__properties_renew(p, 1, 60);
    cv__properties_time(p, 50);
    cv__properties_begin(p, 2, 8, 90);
    assert_int_equal(w->told.property, CV_PROPERTY_AT_MOST_ONE_LEADER);
}

static void a_token_that_does_not_grow_is_remembered_from_the_whole_run(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 9, 50);
    cv__properties_end(p, 1);
    cv__properties_begin(p, 2, 10, 50);
    cv__properties_end(p, 2);
    cv__properties_begin(p, 3, 10, 50);
    assert_int_equal(w->told.count, 1);
    assert_int_equal(w->told.property, CV_PROPERTY_TOKEN_MONOTONIC);
}

static void a_leadership_changes_what_is_believed_and_held(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = lead(1, 1, 50);
    assert_int_equal(cv__properties_believe(p, 1, &belief), CV_HOLD_BEGUN);
    belief.until_ns = 70;
    assert_int_equal(cv__properties_believe(p, 1, &belief), 0); /* renewed */
    assert_int_equal(p->node[0].held_until_ns, 70);
    belief = lead(1, 2, 80);
    assert_int_equal(cv__properties_believe(p, 1, &belief), CV_HOLD_ENDED | CV_HOLD_BEGUN);
    belief = follow(2, 3);
    assert_int_equal(cv__properties_believe(p, 1, &belief), CV_HOLD_ENDED);
    assert_int_equal(p->node[0].leader, 2);
    assert_int_equal(w->told.count, 0);
}

static void a_node_that_does_not_name_itself_does_not_lead(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = follow(2, 1);
    belief.is_self = true;
    (void)cv__properties_believe(p, 1, &belief);
    assert_int_equal(w->told.property, CV_PROPERTY_VALIDITY);
}

static void one_token_has_one_leader(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = follow(3, 5);
    (void)cv__properties_believe(p, 1, &belief);
    belief = follow(2, 5);
    (void)cv__properties_believe(p, 3, &belief);
    assert_int_equal(w->told.property, CV_PROPERTY_LEADER_ORDER);
    assert_string_equal(w->told.detail, "node 3 sees 2 lead with token 5, but 3 led with it");
}

/* A leader outside the members breaks validity, and later judgements must cope with it. */
static void a_leader_outside_the_members_breaks_validity_only(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    for (cv_id id = 1; id <= NODES; id++) {
        const struct cv_belief belief = follow(NODES + 1, 1);
        (void)cv__properties_believe(p, id, &belief);
    }
    assert_int_equal(w->told.property, CV_PROPERTY_VALIDITY);
    cv__properties_judge(p);
    assert_int_equal(w->told.count, 1);
}

static void a_change_of_belief_after_settling_breaks_stability(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = agree_on(p, 1);
    cv__properties_disturb(p);
    assert_int_equal(cv__properties_due_ns(p), 100);
    cv__properties_time(p, 100);
    cv__properties_judge(p);
    assert_int_equal(w->told.count, 0);
    belief = follow(CV_ID_NONE, 0);
    (void)cv__properties_believe(p, 2, &belief);
    assert_int_equal(w->told.property, CV_PROPERTY_STABILITY);
    cv__properties_judge(p);
    assert_int_equal(w->told.property, CV_PROPERTY_TERMINATION);
}

/* The application of a crashed process may act until its valid-until. */
static void a_crashed_leader_counts_until_its_time_is_over(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    cv__properties_crash(p, 1);
    assert_false(cv__properties_holds(p, 1, 0));
    cv__properties_time(p, 49);
    cv__properties_begin(p, 2, 8, 90);
    assert_int_equal(w->told.property, CV_PROPERTY_AT_MOST_ONE_LEADER);
    assert_string_equal(w->told.detail, "node 2 leads with token 8 while the leadership of "
                                        "crashed node 1 with 7 is valid");
}

static void a_crashed_leader_ends_with_its_time_or_by_a_certain_witness(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    cv__properties_crash(p, 1);
    cv__properties_bury(p, 1);
    cv__properties_begin(p, 2, 8, 90);
    cv__properties_crash(p, 2);
    cv__properties_time(p, 90);
    cv__properties_begin(p, 3, 9, INT64_MAX);
    cv__properties_crash(p, 3); /* a leadership without an end is over when its node crashes */
    cv__properties_begin(p, 1, 10, 100);
    assert_int_equal(w->told.count, 0);
}

static void a_restarted_process_does_not_go_back_to_an_older_leader(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = follow(3, 5);
    (void)cv__properties_believe(p, 1, &belief);
    cv__properties_crash(p, 1);
    cv__properties_start(p, 1, /* remembers= */ false);
    belief = follow(2, 4);
    (void)cv__properties_believe(p, 1, &belief);
    assert_int_equal(w->told.count, 0);
    belief = follow(3, 5);
    (void)cv__properties_believe(p, 1, &belief);
    cv__properties_crash(p, 1);
    cv__properties_start(p, 1, /* remembers= */ true);
    belief = follow(2, 4);
    (void)cv__properties_believe(p, 1, &belief);
    assert_int_equal(w->told.property, CV_PROPERTY_LEADER_ORDER);
}

/* What a process says of itself is compared with what the leaders say of it; support-one compares
 * only the leaders. */
static void a_follower_of_one_leader_is_no_supporter_of_another(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    const uint64_t members[] = {1u << 0, 1u << 1 | 1u << 2};
    struct cv_belief belief = lead(1, 1, 50);
    belief.members = (struct cv_list){&members[0], 1};
    (void)cv__properties_believe(p, 1, &belief);
    belief = follow(1, 1);
    (void)cv__properties_believe(p, 3, &belief);
    belief = lead(2, 2, 50);
    belief.members = (struct cv_list){&members[1], 1};
    (void)cv__properties_believe(p, 2, &belief);
    assert_false(p->broken[CV_PROPERTY_SUPPORT_ONE].is_broken);
    assert_true(p->broken[CV_PROPERTY_PARTITIONS_DISJOINT].is_broken);
    assert_string_equal(p->broken[CV_PROPERTY_PARTITIONS_DISJOINT].detail,
                        "node 3 follows 1 and is in the logical partition of 2");
}

static void the_rightful_node_leads(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    (void)agree_on(p, 2);
    cv__properties_judge(p);
    /* The protocol promises no certain leader. */
    assert_int_equal(p->judged[CV_PROPERTY_RIGHTFUL_LEADER], 0);
    p->setting.rightful = CV_RIGHTFUL_HIGHEST_ID;
    p->node[2].has_resigned = true; /* 3 may stand back */
    cv__properties_judge(p);
    p->node[2].is_candidate = false;
    p->node[2].has_resigned = false;
    cv__properties_judge(p);
    assert_int_equal(p->judged[CV_PROPERTY_RIGHTFUL_LEADER], 2);
    assert_int_equal(w->told.count, 0);
    p->node[2].is_candidate = true;
    cv__properties_judge(p);
    assert_int_equal(w->told.property, CV_PROPERTY_RIGHTFUL_LEADER);
    assert_string_equal(w->told.detail, "node 2 leads instead of node 3");
}

static void the_lowest_leads_where_that_is_promised(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = lead(2, 1, INT64_MAX);
    p->setting.rightful = CV_RIGHTFUL_LOWEST_ID;
    cv__properties_stop(p, 1);
    (void)cv__properties_believe(p, 2, &belief);
    belief = follow(2, 1);
    (void)cv__properties_believe(p, 3, &belief);
    cv__properties_judge(p);
    assert_int_equal(w->told.count, 0);
    (void)cv__properties_believe(p, 1, &belief);
    p->node[0].takes_part = true;
    cv__properties_judge(p);
    assert_int_equal(w->told.property, CV_PROPERTY_RIGHTFUL_LEADER);
}

/* [Fetzer99, fig. 24] In the chain 1-2-3-4-5, 1 leads 2, and 2 is locked to it; so 3 cannot lead,
 * and 4 does. */
static void a_chain_has_the_leaders_of_fig_24(void **state)
{
    (void)state;
    const uint64_t chain[] = {0x03, 0x07, 0x0e, 0x1c, 0x18};
    const uint64_t all[] = {0x1f};
    const uint64_t without_1[] = {0x1e};
    uint64_t leaders[1];
    cv__graph_leaders(chain, all, 5, leaders);
    assert_int_equal(leaders[0], 0x09);
    cv__graph_leaders(chain, without_1, 5, leaders); /* 1 is not a candidate and supports 2 */
    assert_int_equal(leaders[0], 0x12);
    const uint64_t only_1[] = {0x01};
    assert_int_equal(cv__graph_center(chain, all, 5), 2);
    assert_int_equal(cv__graph_center(chain, only_1, 5), CV_ID_NONE);
}

static const uint64_t chain_of_three[] = {0x3, 0x7, 0x6};

static void somebody_leads_where_one_is_connected_to_a_majority(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    const uint64_t apart[] = {0x1, 0x2, 0x4};
    cv__properties_judge_graph(p, apart);
    assert_int_equal(p->judged[CV_PROPERTY_TERMINATION], 0);
    cv__properties_begin(p, 3, 7, 50);
    cv__properties_judge_graph(p, chain_of_three);
    assert_int_equal(p->judged[CV_PROPERTY_TERMINATION], 1);
    assert_int_equal(w->told.count, 0);
    cv__properties_end(p, 3);
    cv__properties_judge_graph(p, chain_of_three);
    assert_int_equal(w->told.property, CV_PROPERTY_TERMINATION);
}

static void the_leaders_of_fig_24_lead_and_are_followed(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    p->setting.rightful = CV_RIGHTFUL_LOWEST_ID;
    struct cv_belief belief = lead(1, 1, INT64_MAX);
    (void)cv__properties_believe(p, 1, &belief);
    belief = follow(1, 1);
    (void)cv__properties_believe(p, 2, &belief);
    cv__properties_judge_graph(p, chain_of_three); /* 3 stands aside */
    assert_int_equal(w->told.count, 0);
    assert_int_equal(p->judged[CV_PROPERTY_RIGHTFUL_LEADER], 1);
    belief = follow(CV_ID_NONE, 0);
    (void)cv__properties_believe(p, 2, &belief);
    cv__properties_judge_graph(p, chain_of_three);
    assert_int_equal(w->told.property, CV_PROPERTY_AGREEMENT);
    cv__properties_begin(p, 3, 7, 50);
    cv__properties_judge_graph(p, chain_of_three);
    assert_true(p->broken[CV_PROPERTY_RIGHTFUL_LEADER].is_broken);
    p->node[2].has_resigned = true;
    cv__properties_end(p, 1);
    cv__properties_judge_graph(p, chain_of_three);
    /* 3, which has resigned, may be the reason. */
    assert_false(p->broken[CV_PROPERTY_TERMINATION].is_broken);
    p->node[2].has_resigned = false;
    cv__properties_judge_graph(p, chain_of_three);
    assert_true(p->broken[CV_PROPERTY_TERMINATION].is_broken);
}

/* Each property counts its own judgements: a run that judged only leaderships has not tested
 * liveness. */
static void each_property_counts_its_own_judgements(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    assert_int_equal(p->judged[CV_PROPERTY_AT_MOST_ONE_LEADER], 1);
    assert_int_equal(p->judged[CV_PROPERTY_TOKEN_MONOTONIC], 0); /* nothing to compare with */
    cv__properties_end(p, 1);
    cv__properties_begin(p, 2, 8, 50);
    assert_int_equal(p->judged[CV_PROPERTY_TOKEN_MONOTONIC], 1);
    assert_int_equal(p->judged[CV_PROPERTY_TERMINATION], 0);
    cv__properties_judge(p);
    assert_int_equal(p->judged[CV_PROPERTY_TERMINATION], 1);
    assert_int_equal(p->judged[CV_PROPERTY_STABILITY], 1);
    assert_int_equal(p->judged[CV_PROPERTY_COMMUNICATION_EFFICIENT], 0);
    cv__properties_send(p, 2);
    assert_int_equal(p->judged[CV_PROPERTY_COMMUNICATION_EFFICIENT], 1);
    assert_int_equal(p->judged[CV_PROPERTY_TIMELINESS], 0);
}

/* A node in another part, or one that does not take part, is judged apart or not at all. */
static void parts_are_judged_apart(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    struct cv_belief belief = lead(1, 1, INT64_MAX);
    (void)cv__properties_believe(p, 1, &belief);
    belief = follow(1, 1);
    (void)cv__properties_believe(p, 2, &belief);
    cv__properties_stop(p, 3);
    cv__properties_judge(p);
    assert_int_equal(w->told.count, 0);
    p->node[1].part = 1;
    cv__properties_judge(p);
    assert_int_equal(w->told.property, CV_PROPERTY_AGREEMENT);
    assert_string_equal(w->told.detail, "node 2 follows 1, which does not lead its part");
}

/* The present state is plain bytes: after it is restored, all goes on as if nothing had happened in
 * between. */
static void the_present_state_is_copied_as_bytes(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    const struct cv_properties before = *p;
    uint8_t block[1024];
    assert_in_range(p->block_bytes, 1, sizeof block);
    memcpy(block, p->node, p->block_bytes);
    cv__properties_end(p, 1);
    cv__properties_time(p, 60);
    p->now = before.now;
    memcpy(p->node, block, p->block_bytes);
    assert_true(cv__properties_holds(p, 1, p->now.now_ns));
    cv__properties_end(p, 1);
    assert_int_equal(p->now.holder_count, 0);
}

static void a_node_holds_one_leadership_at_a_time(void **state)
{
    struct watched *w = *state;
    struct cv_properties *p = &w->properties;
    cv__properties_begin(p, 1, 7, 50);
    assert_trips(cv__properties_begin(p, 1, 8, 60));
    assert_trips(cv__properties_end(p, 2));
    assert_trips(cv__properties_time(p, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_claims_that_overlap_are_two_leaders, begin, end),
        cmocka_unit_test_setup_teardown(a_claim_may_begin_at_the_instant_another_runs_out, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_renewed_claim_lasts_longer, begin, end),
        cmocka_unit_test_setup_teardown(a_token_that_does_not_grow_is_remembered_from_the_whole_run,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_leadership_changes_what_is_believed_and_held, begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_does_not_name_itself_does_not_lead, begin, end),
        cmocka_unit_test_setup_teardown(one_token_has_one_leader, begin, end),
        cmocka_unit_test_setup_teardown(a_leader_outside_the_members_breaks_validity_only, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_change_of_belief_after_settling_breaks_stability, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_chain_has_the_leaders_of_fig_24, begin, end),
        cmocka_unit_test_setup_teardown(somebody_leads_where_one_is_connected_to_a_majority, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_leaders_of_fig_24_lead_and_are_followed, begin, end),
        cmocka_unit_test_setup_teardown(each_property_counts_its_own_judgements, begin, end),
        cmocka_unit_test_setup_teardown(the_rightful_node_leads, begin, end),
        cmocka_unit_test_setup_teardown(the_lowest_leads_where_that_is_promised, begin, end),
        cmocka_unit_test_setup_teardown(a_crashed_leader_counts_until_its_time_is_over, begin, end),
        cmocka_unit_test_setup_teardown(a_crashed_leader_ends_with_its_time_or_by_a_certain_witness,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_restarted_process_does_not_go_back_to_an_older_leader,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_follower_of_one_leader_is_no_supporter_of_another, begin,
                                        end),
        cmocka_unit_test_setup_teardown(parts_are_judged_apart, begin, end),
        cmocka_unit_test_setup_teardown(the_present_state_is_copied_as_bytes, begin, end),
        cmocka_unit_test_setup_teardown(a_node_holds_one_leadership_at_a_time, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
