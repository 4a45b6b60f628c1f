/* tests/sim/sim_swarm.c - every protocol in scenarios that are drawn at random as a whole
 * (src/sim/swarm.h).
 *
 * The full scale, `make soak`, is 20,000 runs for each protocol; a smaller scale is a share of 800.
 * The promises of the protocol must hold in all runs; liveness must have been judged in most; every
 * kind of fault that concerns the protocol must have happened. */
#include "sim/swarm.h"
#include "support/seeds.h"

#include <stdlib.h>
#include <string.h>

#define RUNS_FULL 20000u
#define RUNS_USUAL 800u /* a smaller scale runs a share of this */

static uint32_t run_count(void)
{
    return test_scale(100) >= 100 ? RUNS_FULL : test_scale(RUNS_USUAL);
}

static void tell_failure(const struct cv_protocol *protocol, const struct sim_runner_result *r)
{
    char *text = sim_swarm_text(protocol, r->first_failed_seed);
    print_message("%s", text);
    free(text);
    fail_msg("%llu of %llu runs failed; again: conclave sim --swarm %s --seed %llu",
             (unsigned long long)r->failed_count, (unsigned long long)r->run_count, protocol->name,
             (unsigned long long)r->first_failed_seed);
}

static void keeps_its_promises(void **state)
{
    const struct cv_protocol *protocol = *state;
    const struct sim_runner_options options = {
        .first_seed = 1, .run_count = run_count(), .swarm = protocol};
    struct sim_runner_result r;
    sim_runner_run(NULL, &options, &r);
    if (r.failed_count > 0) {
        tell_failure(protocol, &r);
    }
    assert_int_equal(r.run_count, options.run_count);
    if (r.run_count < 40) {
        return; /* too few runs for rare events */
    }
    assert_true(2 * r.judged[CV_PROPERTY_TERMINATION] >= r.run_count);
    assert_true(r.fired[SIM_ACTION_CRASH] > 0 && r.fired[SIM_ACTION_PAUSE] > 0);
    assert_int_equal(r.fired[SIM_ACTION_PARTITION] > 0, protocol->message_count > 0);
    assert_int_equal(r.fired[SIM_ACTION_STORE] > 0, protocol->store_ns != NULL);
    assert_int_equal(r.fired[SIM_ACTION_SEQUENCER] > 0, protocol->sequence_ns != NULL);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((protocol->promises & BIT(i)) != 0) {
            assert_true(r.judged[i] > 0);
        }
    }
}

int main(void)
{
    return protocols_run("swarm", keeps_its_promises);
}
