/* tests/sim/sim_classic.c - the five classical protocols under every kind of fault, over seeds.
 *
 * tests/scenario/random has a schedule of random faults for each: crashes, pauses, partitions, cut
 * and one-way links, loss, slowness, duplicates, reordering, resigning. Each is run with clusters
 * of several sizes and many seeds. The promises of the protocol must hold in each run, each kind of
 * fault must have fired, and liveness must have been judged. found.seeds keeps past failures. */
#include "support/scenarios.h"
#include "support/seeds.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS 300u

static const char *const protocols[] = {"bully", "bully-improved", "bully-modified", "ring",
                                        "ring-modified"};
static const uint32_t sizes[] = {3, 5, 7};

/* ---- scenarios ------------------------------------------------------------------------------- */

static struct sim_scenario *random_scenario(const char *protocol, uint32_t nodes)
{
    char file[100];
    (void)snprintf(file, sizeof file, "scenario/random/%s.scn", protocol);
    return scenario_changed(file, protocol, nodes);
}

/* ---- promises hold --------------------------------------------------------------------------- */

struct cluster_kind {
    const char *protocol;
    uint32_t nodes;
};

static void keeps_its_promises_under_every_kind_of_fault(void **state)
{
    const struct cluster_kind *kind = *state;
    struct sim_scenario *scenario = random_scenario(kind->protocol, kind->nodes);
    const struct sim_runner_result r = seeds_run(scenario, test_scale(SEEDS));
    if (r.failed_count > 0) {
        fail_msg("%llu of %llu runs failed; again: conclave sim tests/%s --seed %llu (nodes %u)",
                 (unsigned long long)r.failed_count, (unsigned long long)r.run_count,
                 scenario->name, (unsigned long long)r.first_failed_seed, kind->nodes);
    }
    /* The faults happened, and in between it was quiet for long enough to judge. */
    assert_true(r.judged[CV_PROPERTY_TERMINATION] >= r.run_count);
    if (r.run_count >= 10) {
        assert_faults_fired(scenario, &r);
        /* Such faults cause two leaders: the check does see that. */
        assert_true(r.broken[CV_PROPERTY_AT_MOST_ONE_LEADER] > r.run_count / 2);
    }
    sim_scenario_free(scenario);
}

/* ---- the same seed gives the same bytes ------------------------------------------------------ */

static char *json_of(const struct sim_scenario *scenario, uint32_t threads)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    const struct sim_runner_options options = {
        .first_seed = 100, .run_count = 8, .thread_count = threads, .json = out};
    struct sim_runner_result result;
    sim_runner_run(scenario, &options, &result);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void same_seed_gives_the_same_bytes_on_any_number_of_threads(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(protocols); i++) {
        struct sim_scenario *scenario = random_scenario(protocols[i], 5);
        char *once = json_of(scenario, 1);
        char *again = json_of(scenario, 1);
        char *threaded = json_of(scenario, 2);
        assert_true(strlen(once) > 8 * 1000);
        assert_string_equal(once, again);
        assert_string_equal(once, threaded);
        free(once);
        free(again);
        free(threaded);
        sim_scenario_free(scenario);
    }
}

static void another_seed_gives_another_run(void **unused)
{
    (void)unused;
    struct sim_scenario *scenario = random_scenario("bully", 5);
    const struct sim_world_options options = {0};
    uint64_t messages[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct sim_world *world = sim_world_new(scenario, seed, &options);
        assert_true(sim_world_run_all(world));
        messages[seed] = world->messages.count;
        sim_world_free(world);
    }
    assert_int_not_equal(messages[0], messages[1]);
    sim_scenario_free(scenario);
}

/* ---- past failures --------------------------------------------------------------------------- */

static void past_failures_do_not_come_back(void **unused)
{
    (void)unused;
    char *seeds = test_text("sim/found.seeds");
    uint32_t replayed = 0;
    char *rest;
    for (char *line = strtok_r(seeds, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char protocol[40];
        char file[60];
        char path[100];
        unsigned long long seed;
        if (line[0] != '#') {
            assert_int_equal(sscanf(line, "%39s %59s %llu", protocol, file, &seed), 3);
            (void)snprintf(path, sizeof path, "sim/found/%s", file);
            struct sim_scenario *scenario = scenario_changed(path, protocol, /* nodes= as is */ 0);
            const struct sim_world_options options = {0};
            struct sim_world *world = sim_world_new(scenario, seed, &options);
            if (!sim_world_run_all(world)) {
                fail_msg("seed %llu of %s with %s fails again", seed, file, protocol);
            }
            sim_world_free(world);
            sim_scenario_free(scenario);
            replayed++;
        }
    }
    assert_true(replayed >= 3);
    free(seeds);
}

int main(void)
{
    enum { KINDS = COUNT_OF(protocols) * COUNT_OF(sizes) };
    static struct cluster_kind kind[KINDS];
    static char name[KINDS][100];
    struct CMUnitTest tests[KINDS + 3] = {
        [KINDS] = cmocka_unit_test(same_seed_gives_the_same_bytes_on_any_number_of_threads),
        [KINDS + 1] = cmocka_unit_test(another_seed_gives_another_run),
        [KINDS + 2] = cmocka_unit_test(past_failures_do_not_come_back),
    };
    for (uint32_t i = 0; i < KINDS; i++) {
        kind[i] = (struct cluster_kind){protocols[i / COUNT_OF(sizes)], sizes[i % COUNT_OF(sizes)]};
        (void)snprintf(name[i], sizeof name[i],
                       "%s_of_%u_keeps_its_promises_under_every_kind_of_fault", kind[i].protocol,
                       kind[i].nodes);
        tests[i] = (struct CMUnitTest){.name = name[i],
                                       .test_func = keeps_its_promises_under_every_kind_of_fault,
                                       .initial_state = &kind[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
