/* tests/unit/test_queue.c - what happens next: by time, and first in first out among equals. */
#include "sim/queue.h"
#include "support/support.h"

static void returns_the_earliest_first(void **unused)
{
    (void)unused;
    struct sim_queue queue = {0};
    const int64_t times[] = {5, 1, 9, -3, 7, 0, INT64_MAX, 2};
    const int64_t sorted[] = {-3, 0, 1, 2, 5, 7, 9, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(times); i++) {
        sim_queue_push(&queue, times[i], 0, i);
    }
    for (uint32_t i = 0; i < COUNT_OF(sorted); i++) {
        assert_int_equal(sim_queue_pop(&queue).at_ns, sorted[i]);
    }
    assert_int_equal(sim_queue_count(&queue), 0);
    sim_queue_fini(&queue);
}

static void returns_equal_times_in_the_order_they_went_in(void **unused)
{
    (void)unused;
    struct sim_queue queue = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        sim_queue_push(&queue, i % 3, /* kind= */ 7, i);
    }
    int64_t at_ns = 0;
    uint32_t expected = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const struct sim_queue_entry entry = sim_queue_pop(&queue);
        if (entry.at_ns != at_ns) {
            at_ns++;
            expected = (uint32_t)at_ns;
        }
        assert_int_equal(entry.at_ns, at_ns);
        assert_int_equal(entry.ref, expected);
        assert_int_equal(entry.kind, 7);
        expected += 3;
    }
    sim_queue_fini(&queue);
}

/* Pushing while popping, as a simulation does: time never goes back, nothing is lost. */
static void never_goes_back_while_it_is_used(void **unused)
{
    (void)unused;
    struct sim_queue queue = {0};
    uint64_t seed = 1;
    int64_t now_ns = 0;
    uint64_t number = 0;
    uint32_t pushed = 0;
    uint32_t popped = 0;
    for (uint32_t i = 0; i < test_scale(100000); i++) {
        const uint32_t count = sim_queue_count(&queue) == 0 ? 1 : test_random_below(&seed, 3);
        for (uint32_t j = 0; j < count; j++) {
            sim_queue_push(&queue, now_ns + test_random_below(&seed, 20), 0, 0);
            pushed++;
        }
        const struct sim_queue_entry entry = sim_queue_pop(&queue);
        popped++;
        assert_true(entry.at_ns >= now_ns);
        if (i > 0 && entry.at_ns == now_ns) {
            assert_true(entry.number > number);
        }
        now_ns = entry.at_ns;
        number = entry.number;
    }
    assert_int_equal(sim_queue_count(&queue), pushed - popped);
    sim_queue_fini(&queue);
}

static void trips_when_it_is_empty(void **unused)
{
    (void)unused;
    struct sim_queue queue = {0};
    assert_trips((void)sim_queue_pop(&queue));
    sim_queue_fini(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_earliest_first),
        cmocka_unit_test(returns_equal_times_in_the_order_they_went_in),
        cmocka_unit_test(never_goes_back_while_it_is_used),
        cmocka_unit_test(trips_when_it_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
