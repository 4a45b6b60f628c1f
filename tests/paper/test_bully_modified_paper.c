/* tests/paper/test_bully_modified_paper.c - what [NITR] says about the modified election algorithm.
 *
 * The comment on each test begins with the heading of the slide. One transmission takes 1 ms, so T
 * is 3 ms and T' 4 ms. Priorities are ids. */
#include "support/claims.h"
#include "support/cluster.h"
#include "support/support.h"

#define CRASH_MS 2050.0 /* between two heartbeats: none is under way */
#define T_MS 3.0
/* T': how long an initiator waits for the announcement of the process it granted. */
#define T2_MS 4.0

static struct cluster *settled(const char *protocol, uint32_t nodes)
{
    return cluster_settled(protocol, /* timeout_s= */ 1, nodes, CRASH_MS);
}

static struct cluster *orphaned(uint32_t nodes, cv_id detector)
{
    struct cluster *c = settled("bully-modified", nodes);
    cluster_orphan(c, BIT(detector - 1));
    return c;
}

/* [NITR, Modified election algorithm, 1] "it initiates an election and send election message to all
 * process with higher priority number" */
static void step_1_initiator_asks_all_of_higher_priority(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    for (cv_id id = 1; id <= 6; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ELECTION", .from = 2, .to = id, .since_ms = CRASH_MS),
            id > 2);
    }
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 1] Here the process notices the failure by itself. */
static void step_1_silence_of_the_coordinator_is_noticed(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-modified", 4);
    cluster_crash(c, 4);
    cluster_run_until(c, CRASH_MS + 800);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 0);
    cluster_run_until(c, CRASH_MS + 1100);
    assert_true(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS) > 0);
    assert_int_equal(cluster_leader(c), 3);
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 2] "If no process responds, process P wins the election" */
static void step_2_unanswered_the_initiator_wins(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-modified", 5);
    cluster_crash(c, 5);
    cluster_crash(c, 4);
    cluster_suspect(c, 3, 5);
    cluster_run_until(c, CRASH_MS + T_MS - 0.1);
    assert_int_equal(cluster_leader_at(c, 3), CV_ID_NONE);
    cluster_run_until(c, CRASH_MS + T_MS);
    assert_int_equal(cluster_leader_at(c, 3), 3);
    cluster_run_until(c, CRASH_MS + T_MS + 1);
    assert_int_equal(cluster_leader(c), 3);
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 3] "Process with the higher priority sends ok message with
 * its priority number to process P" */
static void step_3_higher_ones_answer_ok_with_their_priority(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    cluster_run_until(c, CRASH_MS + 1);
    for (cv_id id = 3; id <= 5; id++) {
        const struct cv_message *ok = cluster_in_flight(c, "OK", id, 2);
        assert_non_null(ok);
        assert_int_equal(cluster_field(c, ok, "priority"), id);
    }
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 3] and, unlike in the bully, begin no election of their
 * own. */
static void step_3_an_asked_process_begins_no_election(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 50);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 5);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 1, .since_ms = CRASH_MS), 5);
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 4] "When process p receive all the response it select the new
 * coordinator with the highest priority number process and sends the grant message to it" */
static void step_4_the_highest_that_answered_is_granted(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    cluster_run_until(c, CRASH_MS + 2);
    assert_non_null(cluster_in_flight(c, "GRANT", 2, 5));
    cluster_run_until(c, CRASH_MS + 50);
    assert_int_equal(cluster_sends(c, .type = "GRANT", .since_ms = CRASH_MS), 1);
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 4] The initiator waits no longer than T for silent
 * processes. */
static void step_4_silent_processes_are_waited_for_until_t(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-modified", 6);
    cluster_crash(c, 6);
    cluster_crash(c, 5);
    cluster_suspect(c, 2, 6);
    cluster_run_until(c, CRASH_MS + T_MS - 0.1);
    assert_int_equal(cluster_sends(c, .type = "GRANT", .since_ms = CRASH_MS), 0);
    cluster_run_until(c, CRASH_MS + T_MS);
    assert_non_null(cluster_in_flight(c, "GRANT", 2, 4));
    cluster_end(c);
}

/* [NITR, Modified election algorithm, 5] "Now the coordinator process will broadcast a new
 * coordinator message to all other process" */
static void step_5_the_granted_one_announces_itself_to_all(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    cluster_run_until(c, CRASH_MS + 3);
    assert_int_equal(cluster_leader_at(c, 5), 5);
    for (cv_id id = 1; id <= 6; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "COORDINATOR", .from = 5, .to = id, .since_ms = CRASH_MS),
            id != 5);
    }
    cluster_run_until(c, CRASH_MS + 4);
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* [ours; docs/protocols.md] No COORDINATOR in time: start again, with the next highest. */
static void ours_if_the_granted_one_is_silent_the_next_is_granted(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    cluster_run_until(c, CRASH_MS + 2);
    assert_non_null(cluster_in_flight(c, "GRANT", 2, 5));
    cluster_crash(c, 5);
    cluster_run_until(c, CRASH_MS + 2 + T2_MS - 0.1);
    assert_int_equal(cluster_sends(c, .type = "GRANT", .since_ms = CRASH_MS), 1);
    cluster_run_until(c, CRASH_MS + 2 + T2_MS);
    assert_non_null(cluster_in_flight(c, "GRANT", 2, 4));
    cluster_run_until(c, CRASH_MS + 20);
    assert_int_equal(cluster_leader(c), 4);
    cluster_end(c);
}

/* [ours; docs/protocols.md] Any set of concurrent initiators agrees on one coordinator. */
static void ours_concurrent_initiators_converge(void **unused)
{
    (void)unused;
    claims_any_initiators_agree("bully-modified", /* timeout_s= */ 1, /* within_ms= */ 50);
}

/* [NITR, Disadvantages of Modified Bully Algorithm] "It is better than bully": a single initiator,
 * even the lowest, costs 3N-3 messages and four transmission times. */
static void better_than_the_bully_with_one_initiator(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {4, 8, 16, 32};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        uint64_t sent[2];
        for (uint32_t modified = 0; modified < 2; modified++) {
            struct cluster *c = settled(modified ? "bully-modified" : "bully", n);
            const uint64_t before = cluster_sent(c, NULL);
            cluster_crash(c, n);
            cluster_suspect(c, 1, n);
            cluster_run_until(c, CRASH_MS + 40);
            assert_int_equal(cluster_leader(c), n - 1);
            sent[modified] = cluster_sent(c, NULL) - before;
            if (modified) {
                assert_about_ms(cluster_decided_ms(c) - CRASH_MS, 4.0);
            }
            cluster_end(c);
        }
        assert_int_equal(sent[1], 3 * n - 3);
        assert_true(sent[1] < sent[0]);
    }
}

/* [NITR, Disadvantages of Modified Bully Algorithm] "but also has O(n^2) complexity in worst case":
 * everybody initiates. */
static void still_of_order_n_squared_when_all_initiate(void **unused)
{
    (void)unused;
    uint64_t sent[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = 32 << i;
        struct cluster *c = settled("bully-modified", n);
        const uint64_t before = cluster_sent(c, NULL);
        cluster_orphan(c, UINT64_MAX);
        cluster_run_until(c, CRASH_MS + 40);
        sent[i] = cluster_sent(c, NULL) - before;
        assert_true(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS) <= n * (n - 1) / 2);
        cluster_end(c);
    }
    const double ratio = (double)sent[1] / (double)sent[0];
    assert_true(ratio > 3.5 && ratio < 4.5);
}

/* [NITR, Disadvantages of Modified Bully Algorithm] "A modified algorithm is also time bounded":
 * with a T that is too short for the network, an initiator does not wait for the answers. */
static void time_bounded_like_the_bully(void **unused)
{
    (void)unused;
    struct cluster *c =
        cluster_start("protocol bully-modified heartbeat=100ms timeout=1s delta=1ms\n"
                      "nodes 4\nlink * delay 1ms\nrun 10s\n"
                      "at 2s link * delay 10ms\nat 2050ms crash 4\n");
    cluster_run_until(c, CRASH_MS);
    cluster_suspect(c, 1, 4);
    cluster_run_until(c, CRASH_MS + T_MS);
    assert_int_equal(cluster_leader_at(c, 1), 1); /* though 2 and 3 are alive */
    cluster_end(c);
}

/* What every election algorithm owes, and what is impossible: support/claims.h cites the slides. */
CLAIMS_DEFINE("bully-modified")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_1_initiator_asks_all_of_higher_priority),
        cmocka_unit_test(step_1_silence_of_the_coordinator_is_noticed),
        cmocka_unit_test(step_2_unanswered_the_initiator_wins),
        cmocka_unit_test(step_3_higher_ones_answer_ok_with_their_priority),
        cmocka_unit_test(step_3_an_asked_process_begins_no_election),
        cmocka_unit_test(step_4_the_highest_that_answered_is_granted),
        cmocka_unit_test(step_4_silent_processes_are_waited_for_until_t),
        cmocka_unit_test(step_5_the_granted_one_announces_itself_to_all),
        cmocka_unit_test(ours_if_the_granted_one_is_silent_the_next_is_granted),
        cmocka_unit_test(ours_concurrent_initiators_converge),
        cmocka_unit_test(better_than_the_bully_with_one_initiator),
        cmocka_unit_test(still_of_order_n_squared_when_all_initiate),
        cmocka_unit_test(time_bounded_like_the_bully),
        CLAIMS_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
