/* tests/unit/test_service.c - the replicated service beside a world: latencies, recoveries, clients
 * that survive a crash of the leader. */
#include "sim/service.h"
#include "support/support.h"

#include <string.h>

#define MS NS_PER_MS
#define MB UINT64_C(1000000)

/* near and far are 20 ms apart, near and mid 10, mid and far 30; 0.1 ms within a site. */
#define FIVE                                                      \
    "nodes 5\nlink * delay 0.05ms\nsite near 4 5\nsite mid 2 3\n" \
    "site far 1\nrtt near mid 10ms\nrtt near far 20ms\nrtt mid far 30ms\n"
enum { NEAR = 1, MID, FAR };

struct seen {
    uint32_t count, early;
    int64_t sum_ns, max_ns;
    int64_t from_ns; /* earlier arrivals are counted as `early` only */
};

struct bed {
    struct sim_scenario *scenario;
    struct sim_world *world;
    struct sim_service *service;
    struct seen seen[4]; /* by site */
};

static void see(void *context, const struct sim_request *r)
{
    struct bed *bed = context;
    struct seen *seen = &bed->seen[r->site];
    if (r->arrived_ns < seen->from_ns) {
        seen->early++;
        return;
    }
    const int64_t ns = r->done_ns - r->arrived_ns;
    seen->count++;
    seen->sum_ns += ns;
    seen->max_ns = cv__max64(seen->max_ns, ns);
}

static struct sim_service_options plain(struct bed *bed)
{
    return (struct sim_service_options){.seed = 7,
                                        .cost_ns = 2 * MS,
                                        .entry_bytes = 1000,
                                        .window_bytes = 1000000,
                                        .bandwidth_bytes = 100000000,
                                        .report_ns = 200 * MS,
                                        .on_request = see,
                                        .context = bed};
}

static void bed_init(struct bed *bed, const char *text, const struct sim_service_options *options)
{
    struct cv_errtext why = {""};
    if (sim_scenario_parse("test", text, strlen(text), &bed->scenario, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    const struct sim_world_options world_options = {0};
    bed->world = sim_world_new(bed->scenario, 1, &world_options);
    memset(bed->seen, 0, sizeof bed->seen);
    bed->service = sim_service_new(bed->world, options);
}

/* Five replicas that prefer 5, then 4, as leader, and a hundred requests a second from site far. */
static void bed_init_far(struct bed *bed, const char *more)
{
    struct sim_service_options options = plain(bed);
    char text[1000];
    options.rate[FAR] = 100;
    (void)snprintf(text, sizeof text,
                   "protocol pole profile=wan oracle=preference preference=5,4\n" FIVE "%s", more);
    bed_init(bed, text, &options);
}

static void bed_fini(struct bed *bed)
{
    sim_service_free(bed->service);
    sim_world_free(bed->world);
    sim_scenario_free(bed->scenario);
}

static cv_id leader_of(const struct bed *bed)
{
    for (cv_id id = 1; id <= bed->world->node_count; id++) {
        if (sim_world_holds(bed->world, id)) {
            return id;
        }
    }
    return CV_ID_NONE;
}

/* [Becker11, sec. 2.2] "the sum of the hop from follower r to l and back plus the consensus
 * latency"
 */
static void request_costs_the_hop_the_consensus_and_the_operation(void **unused)
{
    (void)unused;
    struct bed bed;
    const struct sim_service_options options = plain(&bed);
    bed_init(&bed, "protocol pole profile=wan\n" FIVE "run 60s\n", &options);
    sim_service_run(bed.service, 0); /* everybody is up */
    const struct {
        cv_id leader;
        uint32_t site;
        int64_t ns;
    } cases[] = {
        {1, FAR, 20 * MS + 2 * MS},            /* to itself; consensus over near */
        {1, NEAR, 20 * MS + 20 * MS + 2 * MS}, /* there and back, then the same */
        {1, MID, 30 * MS + 20 * MS + 2 * MS},  /* */
        {4, FAR, 20 * MS + 10 * MS + 2 * MS},  /* 4, 5 and one of mid are the quorum */
        {2, FAR, 30 * MS + 10 * MS + 2 * MS},  /* */
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(sim_service_draw_request(bed.service, cases[i].site, cases[i].leader),
                         cases[i].ns);
    }
    bed_fini(&bed);
}

static void servers_that_are_behind_or_down_do_not_acknowledge(void **unused)
{
    (void)unused;
    struct bed bed;
    const struct sim_service_options options = plain(&bed);
    bed_init(&bed, "protocol pole profile=wan\n" FIVE "at 1s crash 5\nat 2s crash 2 3\nrun 60s\n",
             &options);
    for (cv_id id = 1; id <= 5; id++) {
        sim_service_set_history(bed.service, id, id == 3 ? 9 : 10);
    }
    sim_service_run(bed.service, 0);
    assert_int_equal(sim_service_draw_request(bed.service, NEAR, 5) / MS, 12); /* 5, 4, 2 */
    sim_service_run(bed.service, 1500 * MS);
    sim_service_set_history(bed.service, 3, 9); /* the first leader has updated it */
    assert_int_equal(sim_service_draw_request(bed.service, NEAR, 4), 22 * MS); /* 4, 2 and 1 */
    sim_service_run(bed.service, 2500 * MS);
    assert_true(sim_service_draw_request(bed.service, NEAR, 4) == INT64_MAX);
    bed_fini(&bed);
}

static void clients_of_a_dead_site_go_to_the_nearest_server(void **unused)
{
    (void)unused;
    struct bed bed;
    const struct sim_service_options options = plain(&bed);
    bed_init(&bed, "protocol pole profile=wan\n" FIVE "at 1s crash 1\nrun 60s\n", &options);
    sim_service_run(bed.service, 1500 * MS);
    /* 20 ms to near and back; 4 or 5 leads or passes on within the site. */
    const int64_t ns = sim_service_draw_request(bed.service, FAR, 4);
    assert_in_range(ns, 32 * MS, 32 * MS + 100 * NS_PER_US);
    bed_fini(&bed);
}

/* [fig. 3] A window in each round trip, up to the line's bandwidth. */
static void bandwidth_is_one_window_per_round_trip(void **unused)
{
    (void)unused;
    const struct sim_service_options o = plain(NULL);
    assert_int_equal(sim_service_transfer_ns(&o, 100 * MB, 0), NS_PER_S);
    assert_int_equal(sim_service_transfer_ns(&o, 100 * MB, 10 * MS), NS_PER_S);
    assert_int_equal(sim_service_transfer_ns(&o, 100 * MB, 20 * MS), 2 * NS_PER_S);
    assert_int_equal(sim_service_transfer_ns(&o, 0, 20 * MS), 0);
}

/* [sec. 2.3] "to learn from a quorum of followers the chosen transactions it has not seen, if any,
 * and propagating the transactions to servers that are missing them" */
static void recovery_asks_fetches_and_brings_a_quorum_up_to_date(void **unused)
{
    (void)unused;
    struct bed bed;
    struct sim_service_options options = plain(&bed);
    const char *text = "protocol pole profile=wan\n" FIVE "at 1s crash 5\nrun 60s\n";
    bed_init(&bed, text, &options);
    for (cv_id id = 1; id <= 5; id++) {
        sim_service_set_history(bed.service, id, 100000); /* of 1 kB: 100 MB */
    }
    sim_service_run(bed.service, 1500 * MS);
    /* Nothing is missing: a round to ask and a round to tell. */
    assert_int_equal(sim_service_draw_recovery(bed.service, 4), 10 * MS + 10 * MS + 2 * MS);
    /* 4 has nothing: it fetches over 10 ms, from mid. */
    sim_service_set_history(bed.service, 4, 0);
    assert_int_equal(sim_service_draw_recovery(bed.service, 4),
                     10 * MS + (10 * MS + NS_PER_S) + 10 * MS + 2 * MS);
    /* 1 has everything, but its quorum is 2 and 3, which have it too. */
    assert_int_equal(sim_service_draw_recovery(bed.service, 1), 30 * MS + 30 * MS + 2 * MS);
    /* Then only 1 has it: as leader, 1 updates 4 sooner than 2. */
    sim_service_set_history(bed.service, 2, 0);
    sim_service_set_history(bed.service, 3, 0);
    sim_service_set_history(bed.service, 4, 100000);
    assert_int_equal(sim_service_draw_recovery(bed.service, 1),
                     30 * MS + (30 * MS + 3 * NS_PER_S) + 2 * MS);
    assert_int_equal(sim_service_draw_recovery(bed.service, 4),
                     10 * MS + (10 * MS + NS_PER_S) + 2 * MS);
    bed_fini(&bed);
}

static void leader_may_fetch_from_the_largest_id_instead(void **unused)
{
    (void)unused;
    struct bed bed;
    struct sim_service_options options = plain(&bed);
    options.fetch = SIM_FETCH_LARGEST_ID;
    bed_init(&bed, "protocol pole profile=wan\n" FIVE "at 1s crash 5\nrun 60s\n", &options);
    for (cv_id id = 1; id <= 4; id++) {
        sim_service_set_history(bed.service, id, id == 2 ? 0 : 100000);
    }
    sim_service_run(bed.service, 1500 * MS);
    /* 3 is beside it, but 4 is asked: 10 ms and as long for each window. */
    assert_int_equal(sim_service_draw_recovery(bed.service, 2),
                     10 * MS + (10 * MS + NS_PER_S) + 10 * MS + 2 * MS);
    bed_fini(&bed);
}

/* Requests that arrive while nobody leads, or that were under way to a leader that died, are
 * answered by the next leader; later ones are as fast as its place allows. */
static void clients_survive_a_crash_of_the_leader(void **unused)
{
    (void)unused;
    struct bed bed;
    struct sim_service_options options = plain(&bed);
    options.rate[NEAR] = 100;
    options.rate[MID] = 100;
    options.rate[FAR] = 100;
    bed_init(&bed,
             "protocol pole profile=wan oracle=preference preference=5,4\n" FIVE
             "at 10s crash 5\nrun 60s\n",
             &options);
    sim_service_run(bed.service, 5 * NS_PER_S);
    assert_int_equal(leader_of(&bed), 5);
    for (uint32_t site = NEAR; site <= FAR; site++) {
        assert_true(bed.seen[site].count > 300);
        bed.seen[site] = (struct seen){.from_ns = 5 * NS_PER_S};
    }
    sim_service_run(bed.service, 9900 * MS);
    assert_in_range(bed.seen[FAR].sum_ns / bed.seen[FAR].count, 32 * MS, 33 * MS);
    assert_in_range(bed.seen[FAR].max_ns, 32 * MS, 33 * MS);
    const uint64_t before = sim_service_history(bed.service, 1);
    sim_service_run(bed.service, 15 * NS_PER_S);
    assert_int_equal(leader_of(&bed), 4);
    assert_true(bed.seen[FAR].max_ns > 400 * MS); /* it took a while to notice the crash */
    assert_true(bed.seen[FAR].max_ns < 3 * NS_PER_S);
    const uint32_t answered = bed.seen[NEAR].count + bed.seen[MID].count + bed.seen[FAR].count;
    assert_in_range(answered, 2700, 3300); /* 300/s for ten seconds: none is lost */
    assert_true(sim_service_history(bed.service, 1) > before);
    assert_int_equal(sim_service_history(bed.service, 1), sim_service_history(bed.service, 4));
    assert_true(sim_service_history(bed.service, 5) < sim_service_history(bed.service, 4));
    const struct sim_recovery *first = sim_service_recovery_at(bed.service, 0);
    const struct sim_recovery *second = sim_service_recovery_at(bed.service, 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(sim_service_recovery_at(bed.service, 2));
    assert_int_equal(second->leader, 4);
    assert_true(second->began_ns > 10 * NS_PER_S);
    assert_in_range(second->done_ns - second->began_ns, 22 * MS, 23 * MS);
    bed_fini(&bed);
}

/* A server that was down is behind until the next recovery updates it. */
static void server_that_was_down_is_behind_until_the_next_recovery(void **unused)
{
    (void)unused;
    struct bed bed;
    bed_init_far(&bed, "at 5s crash 2 for 3s\nat 15s crash 5\nrun 60s\n");
    sim_service_run(bed.service, 14 * NS_PER_S);
    assert_true(sim_service_history(bed.service, 2) > 0);
    assert_true(sim_service_history(bed.service, 2) + 300 < sim_service_history(bed.service, 3));
    sim_service_run(bed.service, 20 * NS_PER_S);
    assert_int_equal(leader_of(&bed), 4);
    assert_int_equal(sim_service_history(bed.service, 2), sim_service_history(bed.service, 4));
    bed_fini(&bed);
}

/* The cores get the clients' rates as reports, so that an oracle can elect by them. */
static void rates_and_histories_are_reported_to_the_cores(void **unused)
{
    (void)unused;
    static const char *const oracles[] = {"request", "history"};
    for (uint32_t i = 0; i < COUNT_OF(oracles); i++) {
        struct bed bed;
        struct sim_service_options options = plain(&bed);
        options.rate[FAR] = 400;
        options.rate[NEAR] = 100;
        options.every = 10;
        char text[512];
        (void)snprintf(text, sizeof text,
                       "protocol pole profile=wan oracle=%s\n" FIVE
                       "at 20s crash leader\nrun 60s\n",
                       oracles[i]);
        bed_init(&bed, text, &options);
        sim_service_run(bed.service, 15 * NS_PER_S);
        assert_int_equal(leader_of(&bed), 5); /* at first nobody has reported any */
        sim_service_set_history(bed.service, 2, sim_service_history(bed.service, 2) + 100000);
        sim_service_run(bed.service, 25 * NS_PER_S);
        assert_int_equal(leader_of(&bed), i == 0 ? 1 : 2);
        bed_fini(&bed);
    }
}

static void same_seed_gives_the_same_latencies(void **unused)
{
    (void)unused;
    int64_t sum_ns[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct bed bed;
        struct sim_service_options options = plain(&bed);
        options.rate[FAR] = 50;
        options.rate[MID] = 50;
        bed_init(&bed,
                 "protocol pole profile=wan oracle=latency\n" FIVE
                 "link * jitter 5% dist=pareto\nat 4s crash leader\nrun 60s\n",
                 &options);
        sim_service_run(bed.service, 10 * NS_PER_S);
        sum_ns[i] = bed.seen[FAR].sum_ns + bed.seen[MID].sum_ns;
        bed_fini(&bed);
    }
    assert_int_equal(sum_ns[0], sum_ns[1]);
}

/* Clients may move; requests that arrived before are answered anyway. */
static void rates_can_change_while_it_runs(void **unused)
{
    (void)unused;
    struct bed bed;
    struct sim_service_options options = plain(&bed);
    options.rate[FAR] = 100;
    bed_init(&bed, "protocol pole profile=wan\n" FIVE "run 60s\n", &options);
    sim_service_run(bed.service, 5 * NS_PER_S);
    sim_service_set_rate(bed.service, FAR, 0);
    sim_service_set_rate(bed.service, MID, 200);
    sim_service_run(bed.service, 10 * NS_PER_S);
    assert_in_range(bed.seen[FAR].count, 400, 600);
    assert_in_range(bed.seen[MID].count, 850, 1150);
    assert_int_equal(bed.seen[NEAR].count, 0);
    bed_fini(&bed);
}

/* Lost messages are sent again; requests wait until a cut link is restored. */
static void requests_survive_losses_and_cuts(void **unused)
{
    (void)unused;
    struct bed bed;
    bed_init_far(&bed, "link * loss 2%\nat 6s partition 1 | 2 3 4 5\nat 9s heal\nrun 60s\n");
    sim_service_run(bed.service, 15 * NS_PER_S);
    assert_in_range(bed.seen[FAR].count, 1350, 1650);
    assert_true(bed.seen[FAR].max_ns > 2 * NS_PER_S);
    bed_fini(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_costs_the_hop_the_consensus_and_the_operation),
        cmocka_unit_test(servers_that_are_behind_or_down_do_not_acknowledge),
        cmocka_unit_test(clients_of_a_dead_site_go_to_the_nearest_server),
        cmocka_unit_test(bandwidth_is_one_window_per_round_trip),
        cmocka_unit_test(recovery_asks_fetches_and_brings_a_quorum_up_to_date),
        cmocka_unit_test(leader_may_fetch_from_the_largest_id_instead),
        cmocka_unit_test(clients_survive_a_crash_of_the_leader),
        cmocka_unit_test(server_that_was_down_is_behind_until_the_next_recovery),
        cmocka_unit_test(rates_and_histories_are_reported_to_the_cores),
        cmocka_unit_test(same_seed_gives_the_same_latencies),
        cmocka_unit_test(rates_can_change_while_it_runs),
        cmocka_unit_test(requests_survive_losses_and_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
