/* tests/unit/test_cost.c - with `cost`, a node handles one message after the other.
 *
 * Seven nodes of `bully` start at once: 7 tells the others that it leads, each of the others asks
 * all above it, and links are exactly 1 ms. What arrives when is then known. */
#include "sim/world.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

enum { DELIVERIES_MAX = 4096 };

struct run {
    struct sim_scenario *scenario;
    struct sim_world *world;
    cv_id at; /* the node whose deliveries are kept */
    uint32_t count;
    int64_t at_ns[DELIVERIES_MAX];
    cv_id from[DELIVERIES_MAX];
};

static void keep_deliveries(void *context, const struct cv_record *record)
{
    struct run *run = context;
    if (record->kind == CV_RECORD_DELIVER && record->node == run->at) {
        assert_true(run->count < DELIVERIES_MAX);
        run->at_ns[run->count] = record->at_ns;
        run->from[run->count++] = record->peer;
    }
}

static void run_start(struct run *run, cv_id at, const char *lines)
{
    char text[600];
    struct cv_errtext why = {""};
    (void)snprintf(text, sizeof text, "protocol bully\nnodes 7\nlink * delay 1ms\nrun 1s\n%s",
                   lines);
    memset(run, 0, sizeof *run);
    run->at = at;
    if (sim_scenario_parse("cost", text, strlen(text), &run->scenario, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    const struct sim_world_options options = {.observe = keep_deliveries, .context = run};
    run->world = sim_world_new(run->scenario, /* seed= */ 1, &options);
}

static void run_end(struct run *run)
{
    sim_world_free(run->world);
    sim_scenario_free(run->scenario);
}

/* Six messages that arrive together are done one by one; without a cost, all at once. */
static void handles_one_message_after_the_other(void **unused)
{
    (void)unused;
    struct run run;
    run_start(&run, /* at= */ 7, "");
    sim_world_run(run.world, 2 * NS_PER_MS - 1);
    assert_int_equal(run.count, 6);
    assert_int_equal(run.at_ns[5], NS_PER_MS);
    run_end(&run);

    run_start(&run, /* at= */ 7, "cost 0.1ms\n");
    sim_world_run(run.world, 2 * NS_PER_MS - 1);
    assert_int_equal(run.count, 6);
    for (uint32_t i = 0; i < run.count; i++) {
        assert_int_equal(run.at_ns[i], NS_PER_MS + (i + 1) * NS_PER_MS / 10);
        assert_int_equal(run.from[i], i + 1); /* in the order of arrival */
    }
    run_end(&run);
}

/* An answer leaves when its question has been handled. */
static void answers_when_the_message_is_done(void **unused)
{
    (void)unused;
    struct run run;
    run_start(&run, /* at= */ 6, "cost 0.1ms\n");
    sim_world_run(run.world, 3 * NS_PER_MS);
    /* At 1 ms: ELECTION of 1..5 and COORDINATOR of 7, six in all; then the ANSWER of 7 to the
     * ELECTION that was sixth there: 1.6 ms, and one more. */
    assert_true(run.count >= 7);
    assert_int_equal(run.from[6], 7);
    assert_int_equal(run.at_ns[6], 27 * NS_PER_MS / 10);
    run_end(&run);
}

/* Messages that wait at a node that crashes are gone, even if the node is back when their turn
 * comes. */
static void forgets_what_waited_when_the_node_crashes(void **unused)
{
    (void)unused;
    struct run run;
    run_start(&run, /* at= */ 7,
              "cost 0.1ms\nat 1.25ms crash 7\nat 1.26ms recover 7\nat 1.3ms crash 1..6\n");
    sim_world_run(run.world, 2 * NS_PER_MS);
    assert_int_equal(run.count, 2);
    run_end(&run);
}

/* A paused node does nothing; messages that it had not begun to handle cost their time after it
 * wakes. */
static void pays_for_what_piled_up_during_a_pause(void **unused)
{
    (void)unused;
    struct run run;
    run_start(&run, /* at= */ 7, "cost 0.1ms\nat 0.5ms pause 7 for 4.5ms\n");
    sim_world_run(run.world, 6 * NS_PER_MS);
    assert_true(run.count >= 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(run.at_ns[i], 5 * NS_PER_MS + (i + 1) * NS_PER_MS / 10);
    }
    run_end(&run);
}

/* A new cost counts from then on; messages that wait already keep their turn and are not
 * overtaken. */
static void cost_can_change_during_the_run(void **unused)
{
    (void)unused;
    struct run run;
    run_start(&run, /* at= */ 7, "cost 0.1ms\nat 1.05ms cost 0s\n");
    sim_world_run(run.world, 49 * NS_PER_MS);
    const uint32_t before = run.count;
    assert_true(before >= 6);
    assert_int_equal(run.at_ns[5], 16 * NS_PER_MS / 10);
    for (uint32_t i = 1; i < before; i++) {
        assert_true(run.at_ns[i] >= run.at_ns[i - 1]);
    }
    run_end(&run);
}

/* The wait is part of the delay: the bound that the receiver computes covers it. */
struct bounds {
    int64_t least_ns;
    uint32_t count;
};

static void keep_bounds(void *context, const struct cv_record *record)
{
    struct bounds *bounds = context;
    if (record->kind == CV_RECORD_DELIVER && record->bound_ns < NS_PER_S) {
        bounds->least_ns = cv__min64(bounds->least_ns, record->bound_ns);
        bounds->count++;
    }
}

static void counts_the_wait_as_delay(void **unused)
{
    (void)unused;
    static const char text[] = "protocol local\nnodes 4\nlink * delay 1ms\ncost 0.5ms\nrun 1s\n";
    struct sim_scenario *scenario;
    struct cv_errtext why = {""};
    assert_int_equal(sim_scenario_parse("cost", text, strlen(text), &scenario, &why), CV_OK);
    struct bounds bounds = {.least_ns = INT64_MAX};
    const struct sim_world_options options = {.observe = keep_bounds, .context = &bounds};
    struct sim_world *world = sim_world_new(scenario, /* seed= */ 1, &options);
    assert_true(sim_world_run_all(world));
    assert_true(bounds.count > 100);
    assert_true(bounds.least_ns >= 3 * NS_PER_MS); /* two ways of 1 ms, and handled twice */
    sim_world_free(world);
    sim_scenario_free(scenario);
}

static void reads_and_writes_the_action(void **unused)
{
    (void)unused;
    static const char text[] = "protocol bully\nnodes 3\nrun 1s\ncost 0.4ms\nat 10ms cost 1us\n";
    struct sim_scenario *scenario;
    struct cv_errtext why = {""};
    assert_int_equal(sim_scenario_parse("cost", text, strlen(text), &scenario, &why), CV_OK);
    assert_int_equal(scenario->action_count, 2);
    assert_int_equal(scenario->action[0].at_ns, SIM_SETUP);
    assert_int_equal(scenario->action[0].cost_ns, 400 * NS_PER_US);
    char line[64] = "";
    FILE *out = fmemopen(line, sizeof line, "w");
    sim_action_print(&scenario->action[1], scenario->node_count, out);
    (void)fclose(out);
    assert_string_equal(line, "at 10ms cost 1us");
    sim_scenario_free(scenario);

    static const char wrong[] = "protocol bully\nnodes 3\ncost 4\nrun 1s\n";
    assert_int_not_equal(sim_scenario_parse("cost", wrong, strlen(wrong), &scenario, &why), CV_OK);
    assert_non_null(strstr(why.text, "cost:3:6:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_one_message_after_the_other),
        cmocka_unit_test(answers_when_the_message_is_done),
        cmocka_unit_test(forgets_what_waited_when_the_node_crashes),
        cmocka_unit_test(pays_for_what_piled_up_during_a_pause),
        cmocka_unit_test(cost_can_change_during_the_run),
        cmocka_unit_test(counts_the_wait_as_delay),
        cmocka_unit_test(reads_and_writes_the_action),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
