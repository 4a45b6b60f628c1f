/* tests/sim/sim_lease.c - `lease` under every kind of fault, over many seeds.
 *
 * tests/scenario/random/lease.scn has the faults: crashes, pauses, resignations, joins, and the
 * store's own (down, losses of queries, answers and notifications, delays of either longer than a
 * lease, restarts with and without a lease that begins again, contenders cut off). Here it runs
 * with 1 to 40 contenders, short and long leases, a fast and a slow store, losses all the time, no
 * notifications at all, and clocks at a bound of several per cent. At full scale these are 20,000
 * runs. */
#include "support/scenarios.h"
#include "support/seeds.h"

#include <string.h>

struct kind {
    const char *name;
    const char *options; /* of the protocol */
    const char *store;   /* its attributes */
    const char *more;    /* further lines */
    uint32_t nodes, joiners;
    uint32_t runs;
};

static struct kind kinds[] = {
    {"three_contenders", "lease=300ms", "delay 2ms jitter 1ms drift random 100ppm", "", 3, 1, 4000},
    {"five_contenders", "lease=300ms", "delay 2ms jitter 1ms drift random 100ppm", "", 5, 2, 4000},
    {"nine_contenders", "lease=300ms", "delay 5ms jitter 5ms drift random 100ppm", "", 9, 3, 3000},
    {"forty_contenders", "lease=300ms", "delay 1ms jitter 1ms", "", 40, 10, 500},
    {"one_alone_with_losses", "lease=200ms", "delay 2ms loss 10%", "", 1, 0, 1000},
    {"five_with_losses_all_the_time", "lease=300ms", "delay 10ms jitter 10ms loss 20%", "", 5, 1,
     2000},
    {"no_notifications_at_all", "lease=200ms", "delay 2ms notification-loss 100%", "", 4, 1, 1500},
    {"clocks_of_five_per_cent", "lease=300ms", "delay 0.5ms drift 50000ppm",
     "drift-bound 50000ppm\nclock * drift random 50000ppm\nclock 1 drift -50000ppm\n", 5, 2, 2000},
    {"a_store_as_slow_as_it_may_be", "lease=400ms", "delay 40ms jitter 20ms drift 100ppm", "", 5, 2,
     1000},
    {"a_tight_lease_and_eager_polls", "lease=60ms poll=10ms rest=0s", "delay 1ms jitter 1ms", "", 5,
     2, 1000},
};

static struct sim_scenario *scenario_of(const struct kind *kind)
{
    /* The kind itself sets these; it sets clocks only in `more`. */
    const char *const without[] = {
        "protocol", "nodes", "store", "down", kind->more[0] != '\0' ? "clock" : NULL, NULL};
    char head[500], down[32] = "";
    if (kind->joiners > 0) {
        (void)snprintf(down, sizeof down, "down 1..%u\n", kind->joiners);
    }
    (void)snprintf(head, sizeof head, "protocol lease %s\nnodes %u\nstore %s\n%s%s", kind->options,
                   kind->nodes, kind->store, kind->more, down);
    return scenario_variant(kind->name, "lease.scn", head, without);
}

static void keeps_its_promises(void **state)
{
    const struct kind *kind = *state;
    struct sim_scenario *scenario = scenario_of(kind);
    const struct sim_runner_result r = seeds_run(scenario, test_scale(kind->runs));
    if (r.failed_count > 0) {
        fail_msg("%llu of %llu runs failed, first seed %llu: random/lease.scn with protocol lease "
                 "%s, nodes %u, down 1..%u, store %s",
                 (unsigned long long)r.failed_count, (unsigned long long)r.run_count,
                 (unsigned long long)r.first_failed_seed, kind->options, kind->nodes, kind->joiners,
                 kind->store);
    }
    const uint32_t promised = CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) |
                              CV_PROP(TERMINATION) | CV_PROP(STABILITY);
    assert_int_equal(scenario->promises & promised, promised);
    /* With losses all the time liveness is never judged. */
    const bool is_quiet = strstr(kind->store, " loss ") == NULL;
    assert_true(!is_quiet || 2 * r.judged[CV_PROPERTY_TERMINATION] >= r.run_count);
    if (r.run_count >= 20) {
        assert_faults_fired(scenario, &r);
    }
    sim_scenario_free(scenario);
}

static void the_full_scale_is_twenty_thousand_runs(void **unused)
{
    (void)unused;
    assert_int_equal(rows_sum(&kinds[0].runs, sizeof kinds[0], COUNT_OF(kinds)), 20000);
}

int main(void)
{
    struct CMUnitTest tests[COUNT_OF(kinds) + 1] = {
        [COUNT_OF(kinds)] = cmocka_unit_test(the_full_scale_is_twenty_thousand_runs),
    };
    rows_tests(tests, kinds, sizeof kinds[0], COUNT_OF(kinds), keeps_its_promises);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
