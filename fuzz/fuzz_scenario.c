/* fuzz/fuzz_scenario.c - the parser answers any text with a scenario or with one line; and an
 * accepted scenario runs without tripping an assertion.
 *
 * The text is copied into a block of its own length, without a NUL after it, so that the sanitizer
 * sees every read past its end. Only small and short scenarios are run, in slices, up to a number
 * of events: a fuzzer soon finds heartbeats of a nanosecond. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_NODES_MAX 8u
#define RUN_NS_MAX (10 * NS_PER_S)
#define RUN_EVENTS_MAX 5000u
#define RUN_SLICES 1000
#define RUN_FAULTS_PPB_MAX (10 * SIM_PPB_ONE) /* per second */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small, short, and without too many random faults, which are drawn before the run begins. */
static bool is_modest(const struct sim_scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->random_count; i++) {
        if (scenario->random[i].rate_ppb > RUN_FAULTS_PPB_MAX) {
            return false;
        }
    }
    return scenario->node_count <= RUN_NODES_MAX && scenario->run_ns <= RUN_NS_MAX;
}

static void run_shortly(const struct sim_scenario *scenario)
{
    static FILE *nowhere; /* opened once: writing traces is fuzzed too */
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "w");
    }
    const struct sim_world_options options = {.keeps_history = true, .trace = nowhere};
    struct sim_world *world = sim_world_new(scenario, scenario->seed, &options);
    const int64_t slice_ns = cv__max64(scenario->run_ns / RUN_SLICES, 1);
    for (int64_t at_ns = 0; at_ns <= scenario->run_ns && world->host.counts.steps < RUN_EVENTS_MAX;
         at_ns += slice_ns) {
        sim_world_run(world, at_ns);
    }
    const struct cv_broken *assertions = &world->properties.broken[CV_PROPERTY_ASSERTIONS];
    if (assertions->is_broken) {
        (void)fprintf(stderr, "%s\n", assertions->detail);
        abort();
    }
    sim_world_free(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size > 0 ? size : 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);

    struct sim_scenario *scenario = NULL;
    struct cv_errtext err = {""};
    const int result = sim_scenario_parse("fuzz.scn", text, size, &scenario, &err);
    if (result == CV_OK) {
        if (is_modest(scenario)) {
            run_shortly(scenario);
        }
        sim_scenario_free(scenario);
    } else if (err.text[0] == '\0' || strchr(err.text, '\n') != NULL) {
        abort(); /* an error is one line, and not an empty one */
    }
    free(text);
    return 0;
}
