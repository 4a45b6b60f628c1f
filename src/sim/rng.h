/* src/sim/rng.h - the simulator's only source of random numbers: xoshiro256** with splitmix64.
 *
 * Each use (faults, network, timers, clocks) has its own stream, so that leaving out one fault does
 * not change the others. Integers throughout, except where a distribution needs libm. */
#ifndef CV_SIM_RNG_H
#define CV_SIM_RNG_H

#include "core/assert.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_rng {
    uint64_t s[4];
};

/* Streams of one seed are independent of each other. */
void sim_rng_init(struct sim_rng *rng, uint64_t seed, uint64_t stream);

static inline uint64_t sim_rng_rotate(uint64_t value, int by)
{
    return (value << by) | (value >> (64 - by));
}

/* Inline, like the next two: each message draws several times. */
static inline uint64_t sim_rng_next(struct sim_rng *rng)
{
    uint64_t *s = rng->s;
    const uint64_t result = sim_rng_rotate(s[1] * 5, 7) * 9;
    const uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = sim_rng_rotate(s[3], 45);
    return result;
}

/* Uniform in low..high, both included. */
static inline int64_t sim_rng_range(struct sim_rng *rng, int64_t low, int64_t high)
{
    CV_ASSERT(low <= high);
    const uint64_t width = (uint64_t)high - (uint64_t)low + 1;
    if (width == 0) {
        return (int64_t)sim_rng_next(rng);
    }
    /* The high half of a 128-bit product: its bias is below 2^-20 for any width we use. */
    const unsigned __int128 product = (unsigned __int128)sim_rng_next(rng) * width;
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

/* True with probability ppb / 10^9; draws nothing when that is 0. */
static inline bool sim_rng_chance(struct sim_rng *rng, int64_t ppb)
{
    return ppb > 0 && sim_rng_range(rng, 0, 999999999) < ppb;
}

/* Uniform in (0, 1]. */
double sim_rng_unit(struct sim_rng *rng);

#endif
