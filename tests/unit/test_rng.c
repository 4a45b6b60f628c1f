/* tests/unit/test_rng.c - the simulator's random numbers: the same on every machine, and fair
 * enough. */
#include "sim/rng.h"
#include "support/support.h"

static struct sim_rng rng_make(uint64_t seed, uint64_t stream)
{
    struct sim_rng rng;
    sim_rng_init(&rng, seed, stream);
    return rng;
}

static void gives_the_same_numbers_for_the_same_seed(void **unused)
{
    (void)unused;
    struct sim_rng a = rng_make(42, 1);
    struct sim_rng b = rng_make(42, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(sim_rng_next(&a), sim_rng_next(&b));
    }
}

/* Seeds are in bug reports and in found.seeds: they must mean the same for ever. */
static void never_changes_what_a_seed_means(void **unused)
{
    (void)unused;
    struct sim_rng rng = {{1, 2, 3, 4}};
    const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240}; /* xoshiro256** */
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(sim_rng_next(&rng), expected[i]);
    }
}

static void gives_other_numbers_for_another_seed_or_stream(void **unused)
{
    (void)unused;
    struct sim_rng base = rng_make(42, 1);
    struct sim_rng seed = rng_make(43, 1);
    struct sim_rng stream = rng_make(42, 2);
    uint32_t equal = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const uint64_t number = sim_rng_next(&base);
        equal += number == sim_rng_next(&seed);
        equal += number == sim_rng_next(&stream);
    }
    assert_int_equal(equal, 0);
}

static void stays_within_a_range_and_reaches_both_ends(void **unused)
{
    (void)unused;
    struct sim_rng rng = rng_make(1, 1);
    uint32_t hits[7] = {0};
    for (uint32_t i = 0; i < 7000; i++) {
        const int64_t value = sim_rng_range(&rng, -3, 3);
        assert_in_range(value + 3, 0, 6);
        hits[value + 3]++;
    }
    for (uint32_t i = 0; i < COUNT_OF(hits); i++) {
        assert_in_range(hits[i], 800, 1200); /* 1000 expected, 29 deviation */
    }
}

static void takes_any_range_of_64_bits(void **unused)
{
    (void)unused;
    struct sim_rng rng = rng_make(1, 1);
    assert_int_equal(sim_rng_range(&rng, 5, 5), 5);
    assert_int_equal(sim_rng_range(&rng, INT64_MAX, INT64_MAX), INT64_MAX);
    bool has_negative = false;
    bool has_positive = false;
    for (uint32_t i = 0; i < 100; i++) {
        const int64_t value = sim_rng_range(&rng, INT64_MIN, INT64_MAX);
        has_negative = has_negative || value < 0;
        has_positive = has_positive || value > 0;
    }
    assert_true(has_negative && has_positive);
    assert_trips((void)sim_rng_range(&rng, 1, 0));
}

static void draws_no_number_for_a_probability_of_zero(void **unused)
{
    (void)unused;
    struct sim_rng rng = rng_make(1, 1);
    const struct sim_rng before = rng;
    assert_false(sim_rng_chance(&rng, 0));
    assert_memory_equal(&rng, &before, sizeof rng);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(sim_rng_chance(&rng, 1000000000));
    }
}

static void makes_rare_things_as_rare_as_they_should_be(void **unused)
{
    (void)unused;
    struct sim_rng rng = rng_make(1, 1);
    uint32_t hits = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        hits += sim_rng_chance(&rng, 1000000); /* one in a thousand */
    }
    assert_in_range(hits, 60, 140); /* 100 expected, 10 deviation */
}

static void gives_fractions_that_a_logarithm_can_take(void **unused)
{
    (void)unused;
    struct sim_rng rng = rng_make(1, 1);
    double sum = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        const double unit = sim_rng_unit(&rng);
        assert_true(unit > 0.0 && unit <= 1.0);
        sum += unit;
    }
    assert_true(sum > 4800 && sum < 5200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_same_numbers_for_the_same_seed),
        cmocka_unit_test(never_changes_what_a_seed_means),
        cmocka_unit_test(gives_other_numbers_for_another_seed_or_stream),
        cmocka_unit_test(stays_within_a_range_and_reaches_both_ends),
        cmocka_unit_test(takes_any_range_of_64_bits),
        cmocka_unit_test(draws_no_number_for_a_probability_of_zero),
        cmocka_unit_test(makes_rare_things_as_rare_as_they_should_be),
        cmocka_unit_test(gives_fractions_that_a_logarithm_can_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
