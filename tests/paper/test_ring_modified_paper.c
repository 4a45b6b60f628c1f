/* tests/paper/test_ring_modified_paper.c - what [NITR] says about the modified ring algorithm.
 *
 * All quotations are from the slide "Modified Ring Algorithm". One transmission takes 1 ms, and a
 * successor that has not acknowledged after T = 3 ms is skipped. */
#include "support/claims.h"
#include "support/cluster.h"
#include "support/support.h"

#define CRASH_MS 2550.0 /* between two heartbeats: none is under way */
#define T_MS 3.0

static struct cluster *settled(const char *protocol, uint32_t nodes)
{
    return cluster_settled(protocol, /* timeout_s= */ 2, nodes, CRASH_MS);
}

static struct cluster *orphaned(uint32_t nodes, cv_id detector)
{
    struct cluster *c = settled("ring-modified", nodes);
    cluster_orphan(c, BIT(detector - 1));
    return c;
}

/* The id that is under way between two neighbours. */
static cv_id id_in_flight(const struct cluster *c, cv_id from, cv_id to)
{
    const struct cv_message *election = cluster_in_flight(c, "ELECTION", from, to);
    return election != NULL ? (cv_id)cluster_field(c, election, "greatest") : CV_ID_NONE;
}

/* "When a node notices that the leader has crashed, it sends its ID number to its neighboring node
 * in the ring." */
static void node_that_notices_sends_its_id_to_its_neighbour(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 1);
    assert_int_equal(id_in_flight(c, 2, 3), 2);
    cluster_end(c);
}

/* "Thus, it is not necessary for all nodes to send their IDs into the ring." One id at a time is
 * under way, and none carries a list. */
static void not_every_node_sends_its_id(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 4);
    cluster_run_until(c, CRASH_MS + 60);
    /* 4 sends its own id, 5 its greater one; 1, 2 and 3 only pass on 5's. */
    assert_int_equal(cluster_leader(c), 5);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 1, .since_ms = CRASH_MS), 1);
    const struct cv_protocol *p = c->world->protocol;
    for (uint32_t type = 0; type < p->message_count; type++) {
        for (uint32_t i = 0; p->messages[type].fields[i].kind != CV_FIELD_END; i++) {
            assert_int_not_equal(p->messages[type].fields[i].kind, CV_FIELD_SET);
        }
    }
    cluster_end(c);
}

/* "The receiving node compares the received ID with its own, and forwards whichever is the
 * greatest." */
static void each_forwards_the_greater_of_the_received_and_its_own(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 4);
    assert_int_equal(id_in_flight(c, 4, 5), 4);
    cluster_run_until(c, CRASH_MS + 1);
    assert_int_equal(id_in_flight(c, 5, 6), 5); /* its own is greater; 6 is dead, ... */
    cluster_run_until(c, CRASH_MS + 1 + T_MS);
    assert_int_equal(id_in_flight(c, 5, 1), 5); /* ... and skipped */
    cluster_run_until(c, CRASH_MS + 2 + T_MS);
    assert_int_equal(id_in_flight(c, 1, 2), 5); /* the received one is greater */
    cluster_end(c);
}

/* "only the greatest ID remains in the ring. Finally, the greatest ID returns back" */
static void greatest_id_remains_and_returns_to_its_owner(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 1);
    /* 1 2 3 4 5 on the first way, 5 on the whole second round. */
    for (cv_id at = 1; at <= 5; at++) {
        assert_int_equal(id_in_flight(c, at, at + 1), at);
        cluster_run_until(c, cluster_now_ms(c) + (at == 5 ? T_MS : 1));
    }
    assert_int_equal(id_in_flight(c, 5, 1), 5);
    cluster_run_until(c, cluster_now_ms(c) + 1);
    for (cv_id at = 1; at <= 4; at++) {
        assert_int_equal(id_in_flight(c, at, at + 1), 5);
        assert_int_equal(cluster_leader_count(c), 0);
        cluster_run_until(c, cluster_now_ms(c) + 1);
    }
    assert_int_equal(cluster_leader_at(c, 5), 5);
    cluster_end(c);
}

/* "it declares itself as the leader by sending a coordinate message into the ring" */
static void owner_sends_a_coordinate_message_into_the_ring(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 1);
    while (cluster_leader_at(c, 5) != 5) {
        assert_true(cluster_now_ms(c) < CRASH_MS + 60);
        cluster_run_until(c, cluster_now_ms(c) + 0.5);
    }
    const struct cv_message *coordinator = cluster_in_flight(c, "COORDINATOR", 5, 1);
    assert_non_null(coordinator);
    assert_int_equal(cluster_field(c, coordinator, "leader"), 5);
    cluster_run_until(c, cluster_now_ms(c) + 10);
    for (cv_id at = 1; at <= 4; at++) {
        assert_int_equal(
            cluster_sends(c, .type = "COORDINATOR", .from = at, .to = at + 1, .since_ms = CRASH_MS),
            1);
    }
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* "if many nodes notice the absence of the leader at the same time, only the message of the node
 * with the greatest ID circulates in the ring thus, preventing smaller IDs from being sent" */
static void smaller_ids_are_swallowed_when_many_notice(void **unused)
{
    (void)unused;
    struct cluster *c = settled("ring-modified", 6);
    cluster_orphan(c, UINT64_MAX);
    /* Each has sent its own id; the id of 5 went past the dead 6 to 1. The next process has sent a
     * greater id already and swallows a smaller one; only 1 has not, and passes 5 on. */
    cluster_run_until(c, CRASH_MS + 1.5);
    assert_int_equal(id_in_flight(c, 1, 2), 5);
    for (cv_id at = 2; at <= 4; at++) {
        assert_int_equal(id_in_flight(c, at, at + 1), CV_ID_NONE);
    }
    cluster_run_until(c, CRASH_MS + 60);
    assert_int_equal(cluster_leader(c), 5);
    /* Five first sends, and four that bring 5 home. */
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 5 + 4);
    cluster_end(c);
}

/* "T = n{i1, i2, ..., im} x n": m nodes that notice at once cost at most m times n ELECTIONs. With
 * a single one, ours may take up to two rounds less two hops instead of one, because the id travels
 * not only back to the initiator but on to its owner (docs/protocols.md). */
static void m_nodes_that_notice_cost_at_most_m_times_n_messages(void **unused)
{
    (void)unused;
    enum { N = 7 };
    for (uint32_t detectors = 1; detectors < BIT(N - 1); detectors++) {
        struct cluster *c = settled("ring-modified", N);
        cluster_orphan(c, detectors);
        const uint32_t m = (uint32_t)__builtin_popcount(detectors);
        cluster_run_until(c, CRASH_MS + 60);
        assert_int_equal(cluster_leader(c), N - 1);
        const uint32_t sent = cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS);
        assert_true(sent <= (m == 1 ? 2 * N - 2 : m * N));
        cluster_end(c);
    }
}

/* "this method dramatically reduces the overhead involved in message passing": compared with the
 * ring, when all notice. */
static void overhead_is_far_below_the_rings_when_all_notice(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {8, 16, 32};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        uint64_t sent[2];
        uint64_t bytes[2];
        for (uint32_t modified = 0; modified < 2; modified++) {
            struct cluster *c = settled(modified ? "ring-modified" : "ring", n);
            const uint64_t before = cluster_sent(c, NULL);
            const uint64_t bytes_before = c->world->messages.byte_count;
            cluster_orphan(c, UINT64_MAX);
            cluster_run_until(c, CRASH_MS + 200);
            assert_int_equal(cluster_leader(c), n - 1);
            sent[modified] = cluster_sent(c, NULL) - before;
            bytes[modified] = c->world->messages.byte_count - bytes_before;
            cluster_end(c);
        }
        assert_true(2 * sent[1] < sent[0]);
        assert_true(2 * bytes[1] < bytes[0]);
    }
}

/* "with an order of O(n^2)": the worst case is ids that fall along the ring, where nothing is
 * swallowed until late. Our ids rise along the ring, the best case, so this is only an upper
 * bound. */
static void never_more_than_n_squared_elections(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {4, 8, 16, 32, 64};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        struct cluster *c = settled("ring-modified", n);
        cluster_orphan(c, UINT64_MAX);
        cluster_run_until(c, CRASH_MS + 200);
        assert_int_equal(cluster_leader(c), n - 1);
        assert_true(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS) <= n * n);
        cluster_end(c);
    }
}

/* What every election algorithm owes, and what is impossible: support/claims.h cites the slides. */
CLAIMS_DEFINE("ring-modified")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_that_notices_sends_its_id_to_its_neighbour),
        cmocka_unit_test(not_every_node_sends_its_id),
        cmocka_unit_test(each_forwards_the_greater_of_the_received_and_its_own),
        cmocka_unit_test(greatest_id_remains_and_returns_to_its_owner),
        cmocka_unit_test(owner_sends_a_coordinate_message_into_the_ring),
        cmocka_unit_test(smaller_ids_are_swallowed_when_many_notice),
        cmocka_unit_test(m_nodes_that_notice_cost_at_most_m_times_n_messages),
        cmocka_unit_test(overhead_is_far_below_the_rings_when_all_notice),
        cmocka_unit_test(never_more_than_n_squared_elections),
        CLAIMS_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
