/* tests/paper/test_ring_paper.c - what [NITR] says about the ring algorithm, claim by claim.
 *
 * The comment on each test begins with the heading of the slide. One transmission takes 1 ms, and a
 * successor that has not acknowledged after T = 3 ms is skipped. Process k of the slides is our k +
 * 1, because our ids begin at 1. */
#include "core/nodeset.h"
#include "support/claims.h"
#include "support/cluster.h"
#include "support/support.h"

#define CRASH_MS 2550.0 /* between two heartbeats: none is under way */
#define T_MS 3.0

static struct cluster *settled(uint32_t nodes)
{
    return cluster_settled("ring", /* timeout_s= */ 2, nodes, CRASH_MS);
}

static struct cluster *orphaned(uint32_t nodes, cv_id detector)
{
    struct cluster *c = settled(nodes);
    cluster_orphan(c, BIT(detector - 1));
    return c;
}

/* Expects this active list between two processes, in the ring's order from the initiator on. The
 * list travels as a set; the initiator tells where it begins. */
static void assert_list(const struct cluster *c, const char *type, cv_id from, cv_id to,
                        cv_id initiator, uint32_t count, const cv_id *expected)
{
    const struct cv_message *message =
        cluster_in_flight_with(c, type, from, to, "initiator", initiator);
    assert_non_null(message);
    const uint32_t nodes = c->world->node_count;
    uint32_t found = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const cv_id id = (initiator - 1 + i) % nodes + 1;
        if (cv__set_has(message->list[0].word, id)) {
            assert_true(found < count);
            assert_int_equal(id, expected[found++]);
        }
    }
    assert_int_equal(found, count);
}
#define assert_active(c, type, from, to, initiator, ...)                          \
    assert_list(c, type, from, to, initiator, COUNT_OF(((cv_id[]){__VA_ARGS__})), \
                (const cv_id[]){__VA_ARGS__})

/* [NITR, Ring Algorithm, Assumptions] "The link between the processes are unidirectional and every
 * process can manage to the processes on its right only". 5 is alive and only believed dead. */
static void messages_go_to_the_right_neighbour_only(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5);
    cluster_suspect(c, 2, 5);
    cluster_run_until(c, CRASH_MS + 40);
    for (cv_id from = 1; from <= 5; from++) {
        for (cv_id to = 1; to <= 5; to++) {
            const bool is_right = to == from % 5 + 1;
            assert_int_equal(
                cluster_sends(c, .type = "ELECTION", .from = from, .to = to, .since_ms = CRASH_MS),
                is_right);
            assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .from = from, .to = to,
                                           .since_ms = CRASH_MS),
                             is_right);
        }
    }
    cluster_end(c);
}

/* [NITR, Algorithm: Ring, Step 1] "it creates a new active list [...] sends election message to its
 * neighbor on right and adds number 1 to its active list" */
static void step_1_the_initiator_sends_a_list_of_itself(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 1);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 1);
    assert_active(c, "ELECTION", 1, 2, /* initiator= */ 1, 1);
    cluster_end(c);
}

/* [NITR, Algorithm: Ring, Step 2, i] "adds 2 to its active list & forward the message" */
static void step_2_each_adds_itself_and_forwards(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 1);
    assert_active(c, "ELECTION", 2, 3, /* initiator= */ 1, 1, 2);
    cluster_run_until(c, CRASH_MS + 2);
    assert_active(c, "ELECTION", 3, 4, /* initiator= */ 1, 1, 2, 3);
    cluster_end(c);
}

/* [NITR, Algorithm: Ring, Step 2, ii] "If this is the first election message it has received or
 * sent": the process takes part from then on, though it has not missed the coordinator itself. When
 * it does, it begins no second election. */
static void step_2_a_process_that_was_drawn_in_begins_no_second_election(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 1);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 2, .since_ms = CRASH_MS), 1);
    cluster_run_until(c, CRASH_MS + 100);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 2, .since_ms = CRASH_MS), 1);
    cluster_end(c);
}

/* [NITR, Algorithm: Ring, Step 2, iii] "receives its own election message [...] active list now
 * contains numbers of all the active processes in the system. Now process P1 detects highest
 * priority number from list and elects it as the next coordinator." */
static void step_2_back_at_the_initiator_the_highest_of_the_list_is_elected(void **unused)
{
    (void)unused;
    struct cluster *c = settled(6);
    cluster_crash(c, 6);
    cluster_crash(c, 3);
    cluster_suspect(c, 1, 6);
    cluster_run_until(c, CRASH_MS + 1 + T_MS + 1 + 1 + T_MS); /* 3 and 6 were skipped */
    assert_active(c, "ELECTION", 5, 1, /* initiator= */ 1, 1, 2, 4, 5);
    assert_int_equal(cluster_leader_count(c), 0);
    cluster_run_until(c, cluster_now_ms(c) + 1);
    assert_active(c, "COORDINATOR", 1, 2, /* initiator= */ 1, 1, 2, 4, 5);
    assert_int_equal(cluster_field(c, cluster_in_flight(c, "COORDINATOR", 1, 2), "leader"), 5);
    cluster_run_until(c, cluster_now_ms(c) + 30);
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* ---- Example: Ring Algorithm ----------------------------------------------------------------- */

/* Processes 0 to 7; 7 was the coordinator and has crashed. */
enum { P0 = 1, P1, P2, P3, P4, P5, P6, P7 };

/* [NITR, Example: Ring Algorithm] "builds an election message which contains its own id number",
 * "Node 5 sends id 5 to node 6", "each process adds its own number and forwards to next" */
static void example_5_sends_its_number_to_6_which_adds_its_own(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(P7, /* detector= */ P5);
    assert_active(c, "ELECTION", P5, P6, /* initiator= */ P5, P5);
    cluster_run_until(c, CRASH_MS + 1);
    assert_active(c, "ELECTION", P6, P7, /* initiator= */ P5, P5, P6);
    cluster_end(c);
}

/* [NITR, Example: Ring Algorithm] "Sends to first live successor": 7 is dead, 0 comes next. */
static void example_6_skips_the_dead_7(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(P7, /* detector= */ P5);
    cluster_run_until(c, CRASH_MS + 1 + T_MS - 0.1);
    assert_null(cluster_in_flight(c, "ELECTION", P6, P0));
    cluster_run_until(c, CRASH_MS + 1 + T_MS);
    assert_active(c, "ELECTION", P6, P0, /* initiator= */ P5, P5, P6);
    cluster_end(c);
}

/* [NITR, Example: Ring Algorithm] "O.K to have two elections at once"; "Here both 2 and 5 elected 6
 * as the leader [5, 6, 0, 1, 2, 3, 4] [2, 3, 4, 5, 6, 0, 1]" */
static void example_2_and_5_both_elect_6(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(P7, /* detector= */ P2);
    cluster_suspect(c, P5, P7);
    bool came_home_to_2 = false;
    bool came_home_to_5 = false;
    while (!came_home_to_2 || !came_home_to_5) {
        assert_true(cluster_now_ms(c) < CRASH_MS + 60);
        cluster_run_until(c, cluster_now_ms(c) + 0.5);
        if (cluster_in_flight_with(c, "ELECTION", P1, P2, "initiator", P2) != NULL) {
            assert_active(c, "ELECTION", P1, P2, P2, P2, P3, P4, P5, P6, P0, P1);
            came_home_to_2 = true;
        }
        if (cluster_in_flight_with(c, "ELECTION", P4, P5, "initiator", P5) != NULL) {
            assert_active(c, "ELECTION", P4, P5, P5, P5, P6, P0, P1, P2, P3, P4);
            came_home_to_5 = true;
        }
        /* Each of the two that has concluded by now elected 6. */
        const struct cv_message *of_2 = cluster_in_flight(c, "COORDINATOR", P2, P3);
        assert_true(of_2 == NULL || cluster_field(c, of_2, "leader") == P6);
        const struct cv_message *of_5 = cluster_in_flight(c, "COORDINATOR", P5, P6);
        assert_true(of_5 == NULL || cluster_field(c, of_5, "leader") == P6);
    }
    cluster_run_until(c, CRASH_MS + 80);
    assert_int_equal(cluster_leader(c), P6);
    assert_int_equal(cluster_leader_count(c), 1);
    cluster_end(c);
}

/* [NITR, Example: Ring Algorithm] "When the message returns to P, it sees its own process ID in the
 * list & knows that the circuit is complete. P circulates a COORDINATOR message" */
static void example_the_initiator_circulates_the_coordinator(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(P7, /* detector= */ P2);
    cluster_run_until(c, CRASH_MS + 60);
    const cv_id around[] = {P2, P3, P4, P5, P6, P0, P1, P2};
    for (uint32_t i = 0; i + 1 < COUNT_OF(around); i++) {
        assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .from = around[i],
                                       .to = around[i + 1], .since_ms = CRASH_MS),
                         1);
    }
    assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .since_ms = CRASH_MS), 7);
    cluster_end(c);
}

/* [NITR, Example: Ring Algorithm] Any number of elections at once ends with the same
 * coordinator. */
static void any_set_of_initiators_agrees(void **unused)
{
    (void)unused;
    claims_any_initiators_agree("ring", /* timeout_s= */ 2, /* within_ms= */ 80);
}

/* [ours; docs/protocols.md] "the highest id of the list is circulated as COORDINATOR with the list
 * (2N messages)". N for each round if all N are alive; with a dead coordinator one less: it is
 * asked once, skipped, and not asked again. */
static void one_election_takes_two_n_messages(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {3, 4, 8, 16, 32}; /* round before the next heartbeat */
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        for (uint32_t is_dead = 0; is_dead < 2; is_dead++) {
            struct cluster *c = settled(n);
            if (is_dead) {
                cluster_crash(c, n);
            }
            cluster_suspect(c, 1, n);
            cluster_run_until(c, CRASH_MS + 400);
            const uint32_t elections = cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS);
            const uint32_t coordinators =
                cluster_sends(c, .type = "COORDINATOR", .since_ms = CRASH_MS);
            assert_int_equal(elections, n);
            assert_int_equal(coordinators, is_dead ? n - 1 : n);
            cluster_end(c);
        }
    }
}

/* What every election algorithm owes, and what is impossible: support/claims.h cites the slides. */
CLAIMS_DEFINE("ring")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_to_the_right_neighbour_only),
        cmocka_unit_test(step_1_the_initiator_sends_a_list_of_itself),
        cmocka_unit_test(step_2_each_adds_itself_and_forwards),
        cmocka_unit_test(step_2_a_process_that_was_drawn_in_begins_no_second_election),
        cmocka_unit_test(step_2_back_at_the_initiator_the_highest_of_the_list_is_elected),
        cmocka_unit_test(example_5_sends_its_number_to_6_which_adds_its_own),
        cmocka_unit_test(example_6_skips_the_dead_7),
        cmocka_unit_test(example_2_and_5_both_elect_6),
        cmocka_unit_test(example_the_initiator_circulates_the_coordinator),
        cmocka_unit_test(any_set_of_initiators_agrees),
        cmocka_unit_test(one_election_takes_two_n_messages),
        CLAIMS_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
