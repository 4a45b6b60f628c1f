/* tests/property/prop_failaware.c - the bound is never below the true delay, over seeds.
 *
 * Two nodes with drifting, unrelated clocks send each other frames over a network that delays,
 * loses and reorders them. Their machines boot again now and then, so that clocks begin anew. The
 * bound of each frame must hold in real time. */
#include "core/failaware.h"
#include "support/support.h"

#define DRIFT_PPB 100000
#define FRAMES_IN_FLIGHT 16

struct clock {
    int64_t booted_real_ns;
    uint64_t boot;
    int64_t offset_ns;
    int64_t rate_ppb; /* within +-DRIFT_PPB */
};

struct frame {
    bool is_flying;
    uint32_t to;
    int64_t sent_real_ns, arrives_real_ns;
    struct cv_stamp stamp;
};

struct world {
    uint64_t seed;
    int64_t now_real_ns;
    int64_t delay_min_ns;
    struct clock clock[2];
    struct cv_echo echo[2]; /* [i]: of the other's frames, as node i received them */
    struct frame frame[FRAMES_IN_FLIGHT];
    uint32_t bounds_checked, boots;
};

/* A clock that runs at rate r shows t of real time as t / (1 + r). Its reading times 1 + rho is at
 * least the real time, and times 1 - rho at most: the bound relies on both. */
static int64_t clock_read(const struct clock *clock, int64_t real_ns)
{
    const double elapsed_ns = (double)(real_ns - clock->booted_real_ns);
    return clock->offset_ns + (int64_t)(elapsed_ns / (1.0 + (double)clock->rate_ppb / 1e9));
}

/* Clocks begin near zero, so instants of two boots overlap. What the machine had heard is gone. */
static void world_boot(struct world *w, uint32_t i)
{
    w->clock[i].booted_real_ns = w->now_real_ns;
    w->clock[i].offset_ns = 1 + (int64_t)test_random_below(&w->seed, 50000000);
    w->clock[i].boot++;
    w->echo[i] = (struct cv_echo){0};
    w->boots++;
}

static struct clock clock_make(uint64_t *seed)
{
    return (struct clock){
        .offset_ns = 1 + (int64_t)test_random_below(seed, 2000000000),
        .rate_ppb = (int64_t)test_random_below(seed, 2 * DRIFT_PPB + 1) - DRIFT_PPB,
    };
}

static void world_send(struct world *w, uint32_t from, struct frame *frame)
{
    const int64_t jitter = test_random_below(&w->seed, 10) == 0 ? 50 * NS_PER_MS : 200 * NS_PER_US;
    frame->is_flying = true;
    frame->to = 1 - from;
    frame->sent_real_ns = w->now_real_ns;
    frame->arrives_real_ns =
        w->now_real_ns + w->delay_min_ns + test_random_below(&w->seed, (uint32_t)jitter);
    frame->stamp = (struct cv_stamp){.echo = w->echo[from],
                                     .sent_ns = clock_read(&w->clock[from], w->now_real_ns),
                                     .boot = w->clock[from].boot};
}

static void world_receive(struct world *w, struct frame *frame)
{
    frame->is_flying = false;
    if (test_random_below(&w->seed, 20) == 0) {
        return; /* lost */
    }
    const int64_t received_ns = clock_read(&w->clock[frame->to], w->now_real_ns);
    const int64_t bound = cv__delay_bound(&frame->stamp, w->clock[frame->to].boot, received_ns,
                                          DRIFT_PPB, w->delay_min_ns);
    if (bound != CV_DELAY_UNKNOWN) {
        const int64_t delay = w->now_real_ns - frame->sent_real_ns;
        /* Each of the four clock readings was cut by up to a nanosecond. */
        assert_true(bound + 4 >= delay);
        w->bounds_checked++;
    }
    cv__echo_update(&w->echo[frame->to], &frame->stamp, received_ns, DRIFT_PPB);
}

static void holds_under_drift_loss_reordering_and_reboots(void **unused)
{
    (void)unused;
    uint32_t bounds_checked = 0;
    uint32_t boots = 0;
    const uint32_t rounds = test_scale(200);
    for (uint64_t round = 0; round < rounds; round++) {
        struct world w = {.seed = round, .delay_min_ns = 20 * NS_PER_US};
        w.clock[0] = clock_make(&w.seed);
        w.clock[1] = clock_make(&w.seed);
        for (uint32_t step = 0; step < 2000; step++) {
            w.now_real_ns += test_random_below(&w.seed, (uint32_t)NS_PER_MS);
            if (test_random_below(&w.seed, 200) == 0) {
                w.now_real_ns += 30 * NS_PER_S; /* a long silence, during which the clocks drift */
            }
            if (round % 2 == 1 && test_random_below(&w.seed, 100) == 0) {
                world_boot(&w, test_random_below(&w.seed, 2));
            }
            for (uint32_t i = 0; i < FRAMES_IN_FLIGHT; i++) {
                struct frame *frame = &w.frame[i];
                if (frame->is_flying && frame->arrives_real_ns <= w.now_real_ns) {
                    world_receive(&w, frame);
                }
            }
            struct frame *frame = &w.frame[test_random_below(&w.seed, FRAMES_IN_FLIGHT)];
            if (!frame->is_flying) {
                world_send(&w, test_random_below(&w.seed, 2), frame);
            }
        }
        bounds_checked += w.bounds_checked;
        boots += w.boots;
    }
    assert_true(boots >= rounds * 5);
    assert_true(bounds_checked > rounds * 500); /* enough frames had a bound */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_under_drift_loss_reordering_and_reboots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
