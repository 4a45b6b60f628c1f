/* tests/unit/test_sequencer.c - the simulated sequencer, and its lines in scenarios. */
#include "scenario/scenario.h"
#include "sim/sequencer.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* ---- the sequencer --------------------------------------------------------------------------- */

static struct sim_rng rng_of(uint64_t seed)
{
    struct sim_rng rng;
    sim_rng_init(&rng, seed, 1);
    return rng;
}

static void each_way_takes_half_of_the_delay(void **unused)
{
    (void)unused;
    struct sim_sequencer s;
    struct sim_rng rng = rng_of(1);
    struct sim_answer answer;
    int64_t at_ns;
    sim_sequencer_init(&s);
    assert_true(sim_sequencer_ask(&s, &rng, 0, &at_ns));
    assert_int_equal(at_ns, NS_PER_MS);
    assert_true(sim_sequencer_serve(&s, &rng, at_ns, &answer, &at_ns));
    assert_int_equal(at_ns, 2 * NS_PER_MS);
    assert_int_equal(answer.counter, 1);
    assert_int_equal(answer.boots, 1);
}

/* [Wiesmann07, Eq. 1] t_seq is in contention between all processes. */
static void requests_at_the_same_time_wait_for_their_turn(void **unused)
{
    (void)unused;
    struct sim_sequencer s;
    struct sim_rng rng = rng_of(1);
    sim_sequencer_init(&s);
    s.serial_ns = 5 * NS_PER_MS;
    for (uint32_t i = 1; i <= 10; i++) {
        struct sim_answer answer;
        int64_t at_ns;
        assert_true(sim_sequencer_serve(&s, &rng, NS_PER_MS, &answer, &at_ns));
        assert_int_equal(at_ns, NS_PER_MS + i * 5 * NS_PER_MS + NS_PER_MS);
        assert_int_equal(answer.counter, i);
    }
}

static void a_lost_answer_burns_a_number_and_a_lost_query_does_not(void **unused)
{
    (void)unused;
    struct sim_sequencer s;
    struct sim_rng rng = rng_of(1);
    struct sim_answer answer;
    int64_t at_ns;
    const struct sim_sequencer_change loss = {.mask = SIM_SEQUENCER_QUERY_LOSS,
                                              .query_loss_ppb = 1000000000};
    sim_sequencer_init(&s);
    sim_sequencer_change(&s, &loss, /* for_a_while= */ true);
    assert_false(sim_sequencer_ask(&s, &rng, 0, &at_ns));
    assert_int_equal(s.counter, 0);
    sim_sequencer_restore(&s, SIM_SEQUENCER_SET);
    assert_true(sim_sequencer_ask(&s, &rng, 0, &at_ns));
    s.answer_loss_ppb = 1000000000;
    assert_false(sim_sequencer_serve(&s, &rng, 0, &answer, &at_ns));
    assert_int_equal(s.counter, 1);
    assert_int_equal(s.lost_query_count, 1);
    assert_int_equal(s.lost_answer_count, 1);
    s.answer_loss_ppb = 0;
    s.is_down = true;
    assert_false(sim_sequencer_serve(&s, &rng, 0, &answer, &at_ns));
    assert_int_equal(s.counter, 1);
}

static void resets_wipes_and_wrap_arounds_change_the_counter(void **unused)
{
    (void)unused;
    struct sim_sequencer s;
    struct sim_rng rng = rng_of(1);
    struct sim_answer answer;
    int64_t at_ns;
    sim_sequencer_init(&s);
    sim_sequencer_change(
        &s, &(struct sim_sequencer_change){.mask = SIM_SEQUENCER_START, .start = UINT32_MAX},
        false);
    assert_true(sim_sequencer_serve(&s, &rng, 0, &answer, &at_ns));
    assert_int_equal(answer.counter, UINT32_MAX);
    assert_true(sim_sequencer_serve(&s, &rng, 0, &answer, &at_ns));
    assert_int_equal(answer.counter, 0);
    sim_sequencer_change(&s, &(struct sim_sequencer_change){.verb = SIM_SEQUENCER_SKIP, .skip = 7},
                         false);
    assert_int_equal(s.counter, 7);
    sim_sequencer_change(&s, &(struct sim_sequencer_change){.verb = SIM_SEQUENCER_RESET}, false);
    assert_int_equal(s.counter, 0);
    assert_int_equal(s.boots, 2);
    sim_sequencer_change(&s, &(struct sim_sequencer_change){.verb = SIM_SEQUENCER_WIPE}, false);
    assert_int_equal(s.boots, 1);
    s.boots = 0; /* it does not tell its boots */
    sim_sequencer_change(&s, &(struct sim_sequencer_change){.verb = SIM_SEQUENCER_RESET}, false);
    assert_int_equal(s.boots, 0);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

static void lines_read_back_as_they_are_written(void **unused)
{
    (void)unused;
    const char *const lines[][2] = {
        {"at 1s sequencer reset", NULL},
        {"at 1s sequencer wipe", NULL},
        {"at 1s sequencer down", NULL},
        {"at 1s sequencer down for 2s", NULL},
        {"at 1s sequencer up", NULL},
        {"at 1s sequencer skip 7", NULL},
        {"at 1s sequencer delay 2ms serial 1ms", NULL},
        {"at 1s sequencer query-loss 5% answer-loss 7% for 300ms", NULL},
        {"at 1s sequencer loss 5%", "at 1s sequencer query-loss 5% answer-loss 5%"},
        {"at 1s sequencer start=4294967290 boots=3", "at 1s sequencer start 4294967290 boots 3"},
        {"sequencer boots none", NULL},
        {"at 1s start 3", "at 1s recover 3"},
    };
    for (uint32_t i = 0; i < COUNT_OF(lines); i++) {
        const char *written = lines[i][1] != NULL ? lines[i][1] : lines[i][0];
        assert_action_written("anon", lines[i][0], written);
    }
}

static void mistakes_are_pointed_at(void **unused)
{
    (void)unused;
    const struct {
        const char *protocol, *line, *says;
    } wrong[] = {
        {"bully", "sequencer delay 2ms", "protocol 'bully' does not use a sequencer"},
        {"anon", "sequencer", "write what to change about the sequencer"},
        {"anon", "sequencer dealy 2ms", "did you mean 'delay'?"},
        {"anon", "sequencer delay 2", "no unit"},
        {"anon", "sequencer delay 2ms delay 3ms", "same attribute twice"},
        {"anon", "sequencer loss 5% query-loss 1%", "same attribute twice"},
        {"anon", "sequencer start 4294967296", "more than 4294967295"},
        {"anon", "sequencer boots 0", "at least once"},
        {"anon", "at 1s sequencer reset for 1s", "'for' is only for 'down', 'cut' and losses"},
        {"anon", "at 1s sequencer delay 2ms for 1s", "'for' is only for 'down', 'cut' and losses"},
        {"anon", "at 1s sequencer skip", "count of numbers is missing"},
        {"anon", "at 1s sequencer reset now", "nothing is expected after this"},
        {"anon", "down", "a node is missing"},
        {"anon", "down 7", "1..6"},
        {"anon", "random faults rate 1/s kinds sequenser", "did you mean 'sequencer'?"},
        {"anon eta=50ms eps=100ms", "", "eps/2 > eta"},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_line_refused(wrong[i].protocol, wrong[i].line, wrong[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_takes_half_of_the_delay),
        cmocka_unit_test(requests_at_the_same_time_wait_for_their_turn),
        cmocka_unit_test(a_lost_answer_burns_a_number_and_a_lost_query_does_not),
        cmocka_unit_test(resets_wipes_and_wrap_arounds_change_the_counter),
        cmocka_unit_test(lines_read_back_as_they_are_written),
        cmocka_unit_test(mistakes_are_pointed_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
