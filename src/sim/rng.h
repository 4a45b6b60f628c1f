/* src/sim/rng.h - the simulator's only source of chance: xoshiro256** seeded by splitmix64.
 *
 * Each use (faults, network, timers, clocks) has a stream of its own, so that one fault less does
 * not change what the others do. Integers throughout, except where a distribution needs libm. */
#ifndef CV_SIM_RNG_H
#define CV_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct cv_rng {
    uint64_t s[4];
};

/* Streams of one seed are independent of each other. */
void cv__rng_init(struct cv_rng *rng, uint64_t seed, uint64_t stream);
uint64_t cv__rng_next(struct cv_rng *rng);

/* Uniform in low..high, both included. */
int64_t cv__rng_range(struct cv_rng *rng, int64_t low, int64_t high);

/* True with probability ppb / 10^9; draws nothing when that is 0. */
bool cv__rng_chance(struct cv_rng *rng, int64_t ppb);

/* Uniform in (0, 1]. */
double cv__rng_unit(struct cv_rng *rng);

#endif
