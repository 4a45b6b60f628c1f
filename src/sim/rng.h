/* src/sim/rng.h - the simulator's only source of chance: xoshiro256** seeded by splitmix64.
 *
 * Each use (faults, network, timers, clocks) has a stream of its own, so that one fault less does
 * not change what the others do. Integers throughout, except where a distribution needs libm. */
#ifndef CV_SIM_RNG_H
#define CV_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct sim_rng {
    uint64_t s[4];
};

/* Streams of one seed are independent of each other. */
void sim_rng_init(struct sim_rng *rng, uint64_t seed, uint64_t stream);
uint64_t sim_rng_next(struct sim_rng *rng);

/* Uniform in low..high, both included. */
int64_t sim_rng_range(struct sim_rng *rng, int64_t low, int64_t high);

/* True with probability ppb / 10^9; draws nothing when that is 0. */
bool sim_rng_chance(struct sim_rng *rng, int64_t ppb);

/* Uniform in (0, 1]. */
double sim_rng_unit(struct sim_rng *rng);

#endif
