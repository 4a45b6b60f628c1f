/* tests/unit/test_shrink.c - a failing run as a small scenario that still fails. */
#include "report/runner.h"
#include "sim/shrink.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* Does this text, run as it is, fail? */
static bool fails(const char *text)
{
    struct sim_scenario *scenario = NULL;
    struct cv_errtext why = {""};
    if (sim_scenario_parse("shrunk", text, strlen(text), &scenario, &why) != CV_OK) {
        fail_msg("%s in:\n%s", why.text, text);
    }
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, scenario->seed, &options);
    const bool is_ok = sim_world_run_all(world);
    sim_world_free(world);
    sim_scenario_free(scenario);
    return !is_ok;
}

/* The same with another seed than that of the text. */
static bool fails_with(const char *text, uint64_t seed)
{
    struct sim_scenario *scenario = NULL;
    assert_int_equal(sim_scenario_parse("test", text, strlen(text), &scenario, NULL), CV_OK);
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, seed, &options);
    const bool is_ok = sim_world_run_all(world);
    sim_world_free(world);
    sim_scenario_free(scenario);
    return !is_ok;
}

static struct sim_shrunk shrink(const char *text, uint64_t seed)
{
    struct sim_shrunk shrunk = {0};
    struct cv_errtext why = {""};
    if (sim_shrink("test", text, strlen(text), seed, &shrunk, &why) != CV_OK) {
        fail_msg("seed %llu: %s in:\n%s", (unsigned long long)seed, why.text, text);
    }
    return shrunk;
}

static uint32_t lines_with(const char *text, const char *begin)
{
    uint32_t count = 0;
    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        count += strncmp(at, begin, strlen(begin)) == 0;
    }
    return count;
}

/* Expects what the bully does not promise; most seeds fail. */
static const char demanding[] =
    "protocol bully\nnodes 5\nlink * delay 2ms jitter 50%\nclock * drift random 100ppm\n"
    "random faults rate 2/s kinds crash,pause,partition,link,oneway,loss,slow,duplicate,reorder,"
    "resign until 15s\n"
    "run 20s\nexpect property at-most-one-leader\n";

static uint64_t failing_seed(const char *text)
{
    uint64_t seed = 1;
    while (!fails_with(text, seed)) {
        assert_true(++seed < 100);
    }
    return seed;
}

static void makes_a_small_scenario_that_still_fails(void **unused)
{
    (void)unused;
    const uint64_t seed = failing_seed(demanding);
    struct sim_shrunk shrunk = shrink(demanding, seed);
    assert_true(shrunk.actions_before >= 15);
    assert_in_range(shrunk.actions_after, 1, 3);
    assert_int_equal(lines_with(shrunk.text, "at "), shrunk.actions_after);
    assert_true(shrunk.trials > 0);
    assert_true(fails(shrunk.text));
    free(shrunk.text);
}

static void writes_drawn_faults_out_and_keeps_the_settings(void **unused)
{
    (void)unused;
    const uint64_t seed = failing_seed(demanding);
    struct sim_shrunk shrunk = shrink(demanding, seed);
    char seed_line[40];
    (void)snprintf(seed_line, sizeof seed_line, "seed %llu\n", (unsigned long long)seed);
    assert_int_equal(lines_with(shrunk.text, "random"), 0);
    assert_int_equal(lines_with(shrunk.text, "protocol bully\n"), 1);
    assert_int_equal(lines_with(shrunk.text, "link * delay 2ms jitter 50%\n"), 1);
    assert_int_equal(lines_with(shrunk.text, "clock * drift random 100ppm\n"), 1);
    assert_int_equal(lines_with(shrunk.text, "expect property at-most-one-leader\n"), 1);
    assert_int_equal(lines_with(shrunk.text, seed_line), 1);
    assert_int_equal(lines_with(shrunk.text, "run "), 1);
    free(shrunk.text);
}

/* All drawn actions can be written down, read back, and do the same. */
static void every_failing_run_can_be_shrunk(void **unused)
{
    (void)unused;
    uint32_t shrunk_count = 0;
    uint32_t actions = 0;
    for (uint32_t nodes = 2; nodes <= 6; nodes++) {
        for (uint64_t seed = 1; seed <= test_scale(20); seed++) {
            char text[500];
            (void)snprintf(text, sizeof text,
                           "protocol %s\nnodes %u\nlink * delay 2ms jitter 50%%\n"
                           "random faults rate 2/s kinds crash,pause,partition,link,oneway,loss,"
                           "slow,duplicate,reorder,resign until 8s\n"
                           "run 10s\nexpect property at-most-one-leader\n",
                           cv_protocol_at((uint32_t)seed % 5)->name, nodes);
            if (!fails_with(text, seed)) {
                continue;
            }
            struct sim_shrunk shrunk = shrink(text, seed);
            assert_true(fails(shrunk.text));
            assert_true(shrunk.actions_after <= shrunk.actions_before);
            assert_in_range(shrunk.actions_after, 1, 8);
            actions += shrunk.actions_after;
            shrunk_count++;
            free(shrunk.text);
        }
    }
    assert_true(shrunk_count >= test_scale(50));
    assert_true(actions < 3 * shrunk_count); /* few are left, as a rule */
}

/* The scenario's own actions may be left out too; only those that matter stay. */
static void leaves_out_actions_that_do_not_matter(void **unused)
{
    (void)unused;
    const char text[] = "protocol ring\nnodes 5\n"
                        "at 1s crash 1 for 1s\nat 2s pause 2 for 50ms\nat 3s loss 5% for 1s\n"
                        "at 4s pause leader for 2s\nat 7s crash 3 for 100ms\n"
                        "run 10s\nexpect property at-most-one-leader\n";
    struct sim_shrunk shrunk = shrink(text, 1);
    assert_int_equal(shrunk.actions_before, 5);
    assert_int_equal(shrunk.actions_after, 1);
    assert_int_equal(lines_with(shrunk.text, "at 4s pause leader for 2s\n"), 1);
    assert_true(fails(shrunk.text));
    free(shrunk.text);
}

static void leaves_out_everything_when_nothing_matters(void **unused)
{
    (void)unused;
    const char text[] = "protocol bully\nnodes 3\nat 1s crash 1\nat 2s recover 1\n"
                        "run 5s\nexpect leader 2 by 0.5s\n";
    struct sim_shrunk shrunk = shrink(text, 1);
    assert_int_equal(shrunk.actions_before, 2);
    assert_int_equal(shrunk.actions_after, 0);
    assert_true(fails(shrunk.text));
    free(shrunk.text);
}

static void is_the_same_each_time(void **unused)
{
    (void)unused;
    const uint64_t seed = failing_seed(demanding);
    struct sim_shrunk once = shrink(demanding, seed);
    struct sim_shrunk again = shrink(demanding, seed);
    assert_string_equal(once.text, again.text);
    assert_int_equal(once.trials, again.trials);
    free(once.text);
    free(again.text);
}

static void refuses_a_run_that_does_not_fail(void **unused)
{
    (void)unused;
    const char text[] = "protocol bully\nnodes 3\nrun 1s\n";
    struct sim_shrunk shrunk = {0};
    struct cv_errtext why = {""};
    assert_int_equal(sim_shrink("a.scn", text, strlen(text), 7, &shrunk, &why), CV_E_INVALID);
    assert_string_equal(why.text, "a.scn does not fail with seed 7");
    assert_null(shrunk.text);
}

static void refuses_a_malformed_scenario(void **unused)
{
    (void)unused;
    const char text[] = "protocol bully\nnods 3\nrun 1s\n";
    struct sim_shrunk shrunk = {0};
    struct cv_errtext why = {""};
    assert_int_equal(sim_shrink("a.scn", text, strlen(text), 1, &shrunk, &why), CV_E_MALFORMED);
    assert_int_equal(strncmp(why.text, "a.scn:2:1: ", 11), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_a_small_scenario_that_still_fails),
        cmocka_unit_test(writes_drawn_faults_out_and_keeps_the_settings),
        cmocka_unit_test(every_failing_run_can_be_shrunk),
        cmocka_unit_test(leaves_out_actions_that_do_not_matter),
        cmocka_unit_test(leaves_out_everything_when_nothing_matters),
        cmocka_unit_test(is_the_same_each_time),
        cmocka_unit_test(refuses_a_run_that_does_not_fail),
        cmocka_unit_test(refuses_a_malformed_scenario),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
