/* tests/sim/sim_pole.c - `pole` under every kind of fault, over seeds, and on every small topology.
 *
 * tests/scenario/random has five schedules of random faults for it: everything (pole), clocks far
 * apart and slow disks (pole-drift), lives shorter than a lease (pole-restarts), epochs reserved in
 * blocks (pole-blocks), saves and messages that take a third of a lease (pole-slow-disks). Each is
 * run with 3, 5 and 7 nodes (the last one with 3 and 5). Two more are for leases that change
 * (pole-auto, pole-auto-long). Then every pattern of one-way links between three nodes (T19): where
 * a majority is possible, one node has it, and no other takes it away. CV_TEST_SCALE makes more or
 * fewer runs. */
#include "sim/world.h"
#include "support/scenarios.h"
#include "support/seeds.h"

#include <string.h>

#define SEEDS 2300u /* of each schedule: more than 20,000 runs in all */

struct schedule {
    const char *name;
    uint32_t nodes;
};

static struct sim_scenario *random_scenario(const char *name, uint32_t nodes)
{
    char file[100];
    (void)snprintf(file, sizeof file, "scenario/random/%s.scn", name);
    return scenario_changed(file, "pole", nodes);
}

static void keeps_its_promises_under_random_faults(void **state)
{
    const struct schedule *schedule = *state;
    struct sim_scenario *scenario = random_scenario(schedule->name, schedule->nodes);
    const struct sim_runner_result r = seeds_run(scenario, test_scale(SEEDS));
    if (r.failed_count > 0) {
        fail_msg("%llu of %llu runs failed; again: conclave sim tests/scenario/random/%s.scn "
                 "--seed %llu (nodes %u)",
                 (unsigned long long)r.failed_count, (unsigned long long)r.run_count,
                 schedule->name, (unsigned long long)r.first_failed_seed, schedule->nodes);
    }
    if (scenario->expect_count > 0) { /* a leader: it was quiet for long enough to judge */
        assert_true(r.judged[CV_PROPERTY_TERMINATION] >= r.run_count);
    }
    if (r.run_count >= 30) {
        assert_faults_fired(scenario, &r);
    }
    sim_scenario_free(scenario);
}

/* ---- every topology of three ----------------------------------------------------------------- */

static const cv_id from_of[] = {1, 1, 2, 2, 3, 3};
static const cv_id to_of[] = {2, 3, 1, 3, 1, 2};

static bool is_cut(uint32_t mask, cv_id from, cv_id to)
{
    for (uint32_t i = 0; i < 6; i++) {
        if (from_of[i] == from && to_of[i] == to) {
            return (mask >> i) & 1;
        }
    }
    return false;
}

/* Have two nodes a link in both directions? Two of three are a majority. */
static bool may_have_leader(uint32_t mask)
{
    bool may = false;
    for (uint32_t i = 0; i < 6; i++) {
        may = may || (!is_cut(mask, from_of[i], to_of[i]) && !is_cut(mask, to_of[i], from_of[i]));
    }
    return may;
}

static uint32_t holder_count(const struct sim_world *world)
{
    uint32_t count = 0;
    for (cv_id id = 1; id <= world->node_count; id++) {
        count += sim_world_holds(world, id);
    }
    return count;
}

static void run_topology(uint32_t mask, const char *order, bool is_warm)
{
    char text[1000];
    int at = snprintf(text, sizeof text,
                      "protocol pole oracle=preference preference=%s\nnodes 3\nstart within 5ms\n"
                      "link * delay 0.3ms jitter 60%%\nat 4s heal\nrun 5s\n"
                      "expect changes == 0 between 2s 4s\nexpect leader any by 5s\n",
                      order);
    for (uint32_t i = 0; i < 6; i++) {
        if ((mask >> i) & 1) {
            at += snprintf(text + at, sizeof text - (size_t)at, "%slink %u>%u down\n",
                           is_warm ? "at 500ms " : "", from_of[i], to_of[i]);
        }
    }
    struct sim_scenario *scenario = scenario_read("%s", text);
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, 1 + mask, &options);
    sim_world_run(world, 3900 * NS_PER_MS);
    const uint32_t leaders = holder_count(world);
    sim_world_run(world, scenario->run_ns);
    if (leaders != may_have_leader(mask) || !sim_world_is_ok(world)) {
        fail_msg("%u leaders where %d may lead, or a promise broken, in\n%s", leaders,
                 may_have_leader(mask), text);
    }
    sim_world_free(world);
    sim_scenario_free(scenario);
}

/* T19, T22: all 64 patterns, in each order of scores, from the start and with a leader. */
static void every_topology_of_three_that_can_have_a_leader_has_one_and_keeps_it(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"1,2,3", "1,3,2", "2,1,3", "2,3,1", "3,1,2", "3,2,1"};
    const uint32_t order_count = test_scale(COUNT_OF(orders));
    for (uint32_t i = 0; i < order_count && i < COUNT_OF(orders); i++) {
        for (uint32_t mask = 0; mask < 64; mask++) {
            run_topology(mask, orders[i], /* is_warm= */ false);
            run_topology(mask, orders[i], /* is_warm= */ true);
        }
    }
}

/* ---- every majority -------------------------------------------------------------------------- */

static uint32_t up_count(uint32_t down_mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < 5; i++) {
        count += ((down_mask >> i) & 1) == 0;
    }
    return count;
}

/* T30: every subset of nodes down, from the start or under a leader, and orders of scores that
 * put each node first and last: if a majority is left it has a leader, the best one that is up. */
static void every_majority_is_led_by_its_best(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"1,2,3,4,5", "2,3,4,5,1", "3,4,5,1,2",
                                         "4,5,1,2,3", "5,1,2,3,4", "5,4,3,2,1"};
    for (uint32_t order = 0; order < COUNT_OF(orders); order++) {
        for (uint32_t down = 1; down < 32; down++) {
            char text[1000];
            char nodes[40] = "";
            cv_id best = CV_ID_NONE;
            for (uint32_t i = 0; i < 5; i++) {
                const cv_id id = (cv_id)(orders[order][2 * i] - '0');
                if ((down >> (id - 1)) & 1) {
                    (void)snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), " %u", id);
                } else if (best == CV_ID_NONE) {
                    best = id;
                }
            }
            for (uint32_t is_warm = 0; is_warm < 2; is_warm++) {
                (void)snprintf(text, sizeof text,
                               "protocol pole oracle=preference preference=%s\nnodes 5\n"
                               "link * delay 0.5ms\nat %s crash%s\nrun 2s\n",
                               orders[order], is_warm ? "500ms" : "0s", nodes);
                struct sim_scenario *scenario = scenario_read("%s", text);
                struct sim_world *world =
                    sim_world_new(scenario, 1, &(const struct sim_world_options){0});
                sim_world_run(world, 1900 * NS_PER_MS);
                const bool has_majority = up_count(down) >= 3;
                assert_int_equal(holder_count(world), has_majority);
                assert_true(!has_majority || sim_world_holds(world, best));
                sim_world_run(world, scenario->run_ns);
                assert_true(sim_world_is_ok(world));
                sim_world_free(world);
                sim_scenario_free(scenario);
            }
        }
    }
}

int main(void)
{
    static const struct schedule schedules[] = {
        {"pole", 3},
        {"pole", 5},
        {"pole", 7},
        {"pole-drift", 3},
        {"pole-drift", 5},
        {"pole-drift", 7},
        {"pole-restarts", 3},
        {"pole-restarts", 5},
        {"pole-restarts", 7},
        {"pole-blocks", 3},
        {"pole-blocks", 5},
        {"pole-blocks", 7},
        {"pole-slow-disks", 3},
        {"pole-slow-disks", 5},
        {"pole-auto", 3},
        {"pole-auto", 5},
        {"pole-auto-long", 3},
    };
    struct CMUnitTest tests[COUNT_OF(schedules) + 2];
    char names[COUNT_OF(schedules)][80];
    union {
        const struct schedule *lent;
        void *state;
    } initial;
    for (uint32_t i = 0; i < COUNT_OF(schedules); i++) {
        (void)snprintf(names[i], sizeof names[i], "%s_with_%u_nodes_keeps_its_promises",
                       schedules[i].name, schedules[i].nodes);
        initial.lent = &schedules[i];
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = keeps_its_promises_under_random_faults,
                                       .initial_state = initial.state};
    }
    tests[COUNT_OF(schedules)] = (struct CMUnitTest)cmocka_unit_test(
        every_topology_of_three_that_can_have_a_leader_has_one_and_keeps_it);
    tests[COUNT_OF(schedules) + 1] =
        (struct CMUnitTest)cmocka_unit_test(every_majority_is_led_by_its_best);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
