/* tests/property/prop_queue.c - the heap of instants against a plain list, over seeds. */
#include "sim/queue.h"
#include "support/support.h"

#define LENGTH_MAX 400u

/* The entries of the queue, in the order in which they went in. */
struct plain {
    struct sim_queue_entry entry[LENGTH_MAX];
    uint32_t count;
};

/* The earliest entry; among equals the one that went in first. */
static struct sim_queue_entry plain_pop(struct plain *plain)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < plain->count; i++) {
        if (plain->entry[i].at_ns < plain->entry[best].at_ns) {
            best = i;
        }
    }
    const struct sim_queue_entry entry = plain->entry[best];
    for (uint32_t i = best; i + 1 < plain->count; i++) {
        plain->entry[i] = plain->entry[i + 1];
    }
    plain->count--;
    return entry;
}

static int64_t draw_time(uint64_t *seed)
{
    switch (test_random_below(seed, 20)) {
    case 0:
        return INT64_MAX;
    case 1:
        return INT64_MIN;
    case 2:
        return (int64_t)test_random(seed);
    case 3:
    case 4:
        return (int64_t)test_random_below(seed, 9) * 500000000; /* near, at the edge, and far */
    default:
        return (int64_t)test_random_below(seed, 8); /* many equal ones */
    }
}

static void answers_like_a_plain_list(void **unused)
{
    (void)unused;
    for (uint64_t round = 0; round < test_scale(200); round++) {
        uint64_t seed = round;
        static struct plain plain; /* large for a stack */
        struct sim_queue queue = {0};
        plain.count = 0;
        const uint32_t full = 1 + test_random_below(&seed, LENGTH_MAX - 1);
        for (uint32_t step = 0; step < 1500; step++) {
            const bool is_push =
                plain.count == 0 || (plain.count < full && test_random_below(&seed, 100) < 55);
            if (is_push) {
                const struct sim_queue_entry entry = {
                    .at_ns = draw_time(&seed), .kind = test_random_below(&seed, 6), .ref = step};
                plain.entry[plain.count++] = entry;
                sim_queue_push(&queue, entry.at_ns, entry.kind, entry.ref);
            } else {
                const struct sim_queue_entry expected = plain_pop(&plain);
                const struct sim_queue_entry got = sim_queue_pop(&queue);
                assert_int_equal(got.at_ns, expected.at_ns);
                assert_int_equal(got.kind, expected.kind);
                assert_int_equal(got.ref, expected.ref);
            }
            assert_int_equal(sim_queue_count(&queue), plain.count);
        }
        sim_queue_fini(&queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_like_a_plain_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
