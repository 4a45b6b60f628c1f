/* tests/unit/test_sequence.c - counters that wrap, restart and forget become numbers that grow. */
#include "core/sequence.h"
#include "support/support.h"

#define M32 (UINT64_C(1) << 32)
#define GENERATION (UINT64_C(1) << CV_SEQUENCE_GENERATION_BITS)

static void the_first_number_is_generation_and_counter(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_NONE, 7, 0), 7);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_NONE, 7, 3), 3 * GENERATION + 7);
    assert_int_equal(cv__sequence_generation(3 * GENERATION + 7), 3);
}

static void numbers_follow_the_counter(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(7, 8, 0), 8);
    assert_int_equal(cv__sequence_number(3 * GENERATION + 7, 1000, 3), 3 * GENERATION + 1000);
    assert_int_equal(cv__sequence_number(7, (1u << 31) + 6, 0), (1u << 31) + 6);
}

/* [Wiesmann07, sec. 5] "interpret a value v smaller than 2^31 as being v + 2^32" */
static void numbers_go_on_after_a_wrap_around(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(M32 - 1, 0, 0), M32);
    assert_int_equal(cv__sequence_number(M32 - 1, 5, 0), M32 + 5);
    assert_int_equal(cv__sequence_number(2 * GENERATION + M32 - 3, 1, 2), 2 * GENERATION + M32 + 1);
    assert_int_equal(cv__sequence_number(M32 + 5, 6, 0), M32 + 6);
}

static void a_counter_that_did_not_grow_begins_a_new_generation(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(1000000, 1, 0), GENERATION + 1);
    assert_int_equal(cv__sequence_number(1000000, 1000000, 0), GENERATION + 1000000);
    assert_int_equal(cv__sequence_number(7, (1u << 31) + 7, 0), GENERATION + (1u << 31) + 7);
    /* The agent's state was wiped: its boots went back, too. */
    assert_int_equal(cv__sequence_number(57 * GENERATION + 100, 1, 1), 58 * GENERATION + 1);
}

static void more_boots_are_a_new_generation(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(3 * GENERATION + 7, 8, 4), 4 * GENERATION + 8);
    assert_int_equal(cv__sequence_number(3 * GENERATION + M32 + 7, 8, 9), 9 * GENERATION + 8);
    assert_int_equal(cv__sequence_number(3 * GENERATION + 7, 8, 2), 3 * GENERATION + 8);
}

static void numbers_end_at_2_to_the_63(void **unused)
{
    (void)unused;
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_NONE, 1, 1u << 23), CV_SEQUENCE_NONE);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_NONE, 1, UINT64_MAX), CV_SEQUENCE_NONE);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_END, 1, 0), CV_SEQUENCE_NONE);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_END - 1, 3, 0), CV_SEQUENCE_NONE);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_END - 1, UINT32_MAX, 0), CV_SEQUENCE_NONE);
    assert_int_equal(cv__sequence_number(CV_SEQUENCE_END - 2, UINT32_MAX, 0), CV_SEQUENCE_END - 1);
}

/* Property Increase: whatever the counter does, an answer is above what was seen before asking. */
static void every_number_is_above_the_one_before(void **unused)
{
    (void)unused;
    uint64_t seed = 1;
    for (uint32_t run = 0; run < test_scale(2000); run++) {
        uint32_t counter = UINT32_MAX - test_random_below(&seed, 50);
        uint64_t boots = test_random_below(&seed, 2) * (1 + test_random_below(&seed, 60));
        uint64_t number = CV_SEQUENCE_NONE;
        for (uint32_t step = 0; step < 100; step++) {
            const uint32_t fate = test_random_below(&seed, 20);
            counter = fate == 0 ? 1 : counter + 1 + (fate == 1 ? test_random_below(&seed, 99) : 0);
            boots += fate == 0 && boots > 0 && test_random_below(&seed, 2) == 0;
            const uint64_t next = cv__sequence_number(number, counter, boots);
            assert_true(next < CV_SEQUENCE_END);
            assert_true(number == CV_SEQUENCE_NONE || next > number);
            number = next;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_number_is_generation_and_counter),
        cmocka_unit_test(numbers_follow_the_counter),
        cmocka_unit_test(numbers_go_on_after_a_wrap_around),
        cmocka_unit_test(a_counter_that_did_not_grow_begins_a_new_generation),
        cmocka_unit_test(more_boots_are_a_new_generation),
        cmocka_unit_test(numbers_end_at_2_to_the_63),
        cmocka_unit_test(every_number_is_above_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
