/* tests/support/claims.c - what [NITR] says about every election algorithm. */
#include "support/claims.h"

#include "protocols/classic.h"
#include "support/cluster.h"
#include "support/host.h"
#include "support/solo.h"
#include "support/support.h"

/* The bound that the protocol itself computes from its options, in milliseconds. */
static double settle_ms(const struct cluster *c)
{
    return (double)c->world->protocol->settle_ns(&c->scenario->config) / (double)NS_PER_MS;
}

void claims_every_node_decides(const char *protocol)
{
    for (uint32_t nodes = 1; nodes <= 9; nodes++) {
        struct cluster *c = cluster_start("protocol %s\nnodes %u\nrun 20s\n", protocol, nodes);
        cluster_run_until(c, settle_ms(c));
        for (cv_id id = 1; id <= nodes; id++) {
            assert_int_not_equal(cluster_leader_at(c, id), CV_ID_NONE);
        }
        cluster_end(c);
    }
}

void claims_one_node_is_elected(const char *protocol)
{
    for (uint32_t nodes = 1; nodes <= 9; nodes++) {
        struct cluster *c = cluster_start("protocol %s\nnodes %u\nrun 20s\n", protocol, nodes);
        cluster_run_until(c, settle_ms(c));
        assert_int_equal(cluster_leader_count(c), 1);
        cluster_end(c);
    }
}

void claims_all_others_know_who(const char *protocol)
{
    for (uint32_t nodes = 1; nodes <= 9; nodes++) {
        struct cluster *c = cluster_start("protocol %s\nnodes %u\nrun 20s\n", protocol, nodes);
        cluster_run_until(c, settle_ms(c));
        const cv_id leader = cluster_leader(c);
        assert_int_not_equal(leader, CV_ID_NONE);
        assert_true(sim_world_holds(c->world, leader));
        cluster_end(c);
    }
}

void claims_states_last(const char *protocol)
{
    const uint32_t seconds = 60 + test_scale(600);
    struct cluster *c = cluster_start("protocol %s\nnodes 5\nrun %us\n", protocol, seconds + 1);
    cluster_run_until(c, settle_ms(c));
    const cv_id leader = cluster_leader(c);
    const uint32_t views = c->world->history.view_count;
    cluster_run_until(c, 1e3 * seconds);
    assert_int_equal(cluster_leader(c), leader);
    assert_int_equal(c->world->history.view_count, views);
    cluster_end(c);
}

void claims_highest_living_leads(const char *protocol)
{
    enum { NODES = 5 };
    for (uint32_t living = 1; living < BIT(NODES); living++) {
        struct cluster *c = cluster_start("protocol %s\nnodes %d\nrun 20s\n", protocol, NODES);
        cluster_run_until(c, settle_ms(c));
        cv_id highest = CV_ID_NONE;
        for (cv_id id = 1; id <= NODES; id++) {
            if ((living & BIT(id - 1)) != 0) {
                highest = id;
            } else {
                cluster_crash(c, id);
            }
        }
        cluster_run_until(c, cluster_now_ms(c) + settle_ms(c));
        assert_int_equal(cluster_leader(c), highest);
        cluster_end(c);
    }
}

void claims_survives_failures_during_the_election(const char *protocol)
{
    /* The heir dies at each instant of the election that the death of its predecessor started. */
    for (double after_ms = 0; after_ms < 40; after_ms += 1.5) {
        struct cluster *c = cluster_start("protocol %s heartbeat=100ms timeout=1s delta=2ms\n"
                                          "nodes 5\nlink * delay 1ms\nrun 20s\n",
                                          protocol);
        cluster_run_until(c, settle_ms(c));
        assert_int_equal(cluster_leader(c), 5);
        cluster_crash(c, 5);
        cluster_suspect(c, 1, 5);
        cluster_suspect(c, 3, 5);
        cluster_run_until(c, cluster_now_ms(c) + after_ms);
        cluster_crash(c, 4);
        cluster_run_until(c, cluster_now_ms(c) + settle_ms(c));
        assert_int_equal(cluster_leader(c), 3);
        cluster_end(c);
    }
}

/* A network whose messages take up to a second, and overtake each other. */
static struct cluster *slow_cluster(const char *protocol, const char *options)
{
    return cluster_start("protocol %s %s\nnodes 5\nlink * delay 500ms jitter 100%%\nrun 600s\n",
                         protocol, options);
}

void claims_nothing_beyond_the_bound(const char *protocol)
{
    /* T is 30 ms by default: a process that asks believes that living ones are dead. */
    struct cluster *c = slow_cluster(protocol, "");
    cluster_run_until(c, 30e3);
    const uint64_t begun = c->world->begun_count;
    uint32_t undecided = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        cluster_run_until(c, cluster_now_ms(c) + 10);
        undecided += cluster_leader(c) == CV_ID_NONE || cluster_leader_count(c) != 1;
    }
    assert_true(undecided > 500);                    /* most of the time nobody is agreed on, ... */
    assert_true(c->world->begun_count - begun > 30); /* ... and elections never end */
    cluster_drop(c);
}

void claims_all_within_the_bound(const char *protocol)
{
    struct cluster *c = slow_cluster(protocol, "delta=1s heartbeat=500ms timeout=3s");
    cluster_run_until(c, settle_ms(c));
    assert_int_equal(cluster_leader(c), 5);
    assert_int_equal(cluster_leader_count(c), 1);
    cluster_crash(c, 5);
    cluster_run_until(c, cluster_now_ms(c) + settle_ms(c));
    assert_int_equal(cluster_leader(c), 4);
    assert_int_equal(cluster_leader_count(c), 1);
    cluster_end(c);
}

void claims_zero_or_two_during_failures(const char *protocol)
{
    struct cluster *crash = cluster_start("protocol %s\nnodes 5\nrun 20s\n", protocol);
    cluster_run_until(crash, settle_ms(crash));
    cluster_crash(crash, cluster_leader(crash));
    assert_int_equal(cluster_leader_count(crash), 0);
    cluster_run_until(crash, cluster_now_ms(crash) + settle_ms(crash));
    assert_int_equal(cluster_leader_count(crash), 1);
    cluster_end(crash);

    struct cluster *split = cluster_start("protocol %s\nnodes 5\n"
                                          "at 5s partition 1 2 | 3 4 5\nat 10s heal\nrun 20s\n",
                                          protocol);
    cluster_run_until(split, 4999);
    assert_int_equal(cluster_leader_count(split), 1);
    cluster_run_until(split, 9999);
    assert_int_equal(cluster_leader_count(split), 2);
    cluster_end(split); /* its properties accept one leader for each part */
}

void claims_any_initiators_agree(const char *protocol, uint32_t timeout_s, double within_ms)
{
    const double crash_ms = 2550; /* between two heartbeats: none is under way */
    for (uint64_t initiators = 1; initiators < BIT(5); initiators++) {
        struct cluster *c = cluster_settled(protocol, timeout_s, 6, crash_ms);
        cluster_orphan(c, initiators);
        cluster_run_until(c, crash_ms + within_ms);
        assert_int_equal(cluster_leader(c), 5);
        assert_int_equal(cluster_leader_count(c), 1);
        cluster_end(c);
    }
}

void claims_late_claims_are_not_refused(const char *protocol)
{
    struct solo *s = solo_new(protocol, 2, 3, "");
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "term", 5);
    solo_hear(s, 3, 0);
    assert_int_equal(s->leader, 3);
    solo_put(s, "term", 4);
    solo_hear(s, 3, 0); /* late: the core follows the same coordinator in a later term */
    assert_int_equal(s->leader, 3);
    assert_null(solo_said(s, "REFUSE"));
    solo_hear(s, 1, 0); /* of another coordinator: a rival */
    assert_non_null(solo_said(s, "REFUSE"));
    solo_free(s);
}

void claims_elections_go_on_at_the_largest_term(const char *protocol)
{
    enum { NODES = 5 };
    struct host *host = host_new(cv_protocol_find(protocol), NODES, /* seed= */ 1);
    for (cv_id id = 1; id <= NODES; id++) {
        host_start(host, id);
    }
    const int64_t settle_ns = host->protocol->settle_ns(&host->node[1].config);
    host_run(host, host->now_ns + settle_ns);
    assert_int_equal(host_leader(host), NODES);
    host_crash(host, 1); /* it comes back, broken: it sends the largest term that others accept */
    host->node[1].persisted[0] = CLASSIC_TERM_MAX;
    host->node[1].persisted_count = 1;
    host_start(host, 1);
    for (cv_id id = NODES; id > 2; id--) {
        host_run(host, host->now_ns + settle_ns);
        assert_int_equal(host_leader(host), id);
        host_crash(host, id);
    }
    host_run(host, host->now_ns + settle_ns);
    assert_int_equal(host_leader(host), 2);
    assert_int_equal(host->node[2].leadership.token, CLASSIC_TERM_MAX);
    host_free(host);
}
