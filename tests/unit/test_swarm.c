/* tests/unit/test_swarm.c - scenarios that are drawn at random as a whole. */
#include "sim/swarm.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS 300u

static void a_seed_gives_the_same_text_and_another_seed_another(void **unused)
{
    (void)unused;
    const struct cv_protocol *pole = cv_protocol_find("pole");
    char *first = sim_swarm_text(pole, 7);
    char *again = sim_swarm_text(pole, 7);
    char *other = sim_swarm_text(pole, 8);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(other);
}

/* Every seed is valid for every protocol; all sizes and all kinds of faults appear, none of them
 * always; and there is time to settle behind the last fault. */
static void shapes_vary_and_are_valid(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t at = 0; (protocol = cv_protocol_at(at)) != NULL; at++) {
        uint32_t sizes = 0, kinds = 0, always = UINT32_MAX;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct sim_scenario *s = sim_swarm_scenario(protocol, seed);
            assert_ptr_equal(s->protocol, protocol);
            assert_int_equal(s->seed, seed);
            assert_int_equal(s->random_count, 1);
            sizes |= BIT(s->node_count);
            kinds |= s->random[0].kinds;
            always &= s->random[0].kinds;
            assert_true(s->run_ns > s->random[0].until_ns + s->random[0].lasting_max_ns +
                                        protocol->settle_ns(&s->config));
            sim_scenario_free(s);
        }
        assert_int_equal(sizes, 0x3fc); /* 2 to 9 */
        assert_int_equal(always, 0);
        const uint32_t links = BIT(SIM_FAULT_PARTITION) | BIT(SIM_FAULT_LOSS);
        assert_int_equal((kinds & links) == links, protocol->message_count > 0);
        assert_int_equal((kinds & BIT(SIM_FAULT_STORE)) != 0, protocol->store_ns != NULL);
        assert_int_equal((kinds & BIT(SIM_FAULT_SEQUENCER)) != 0, protocol->sequence_ns != NULL);
        const uint32_t all = BIT(SIM_FAULT_CRASH) | BIT(SIM_FAULT_PAUSE) | BIT(SIM_FAULT_JOIN);
        assert_int_equal(kinds & all, all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_the_same_text_and_another_seed_another),
        cmocka_unit_test(shapes_vary_and_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
