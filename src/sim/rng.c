/* src/sim/rng.c - the simulator's only source of chance. */
#include "sim/rng.h"

#include "core/assert.h"

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t value, int by)
{
    return (value << by) | (value >> (64 - by));
}

void sim_rng_init(struct sim_rng *rng, uint64_t seed, uint64_t stream)
{
    uint64_t mix = stream;
    uint64_t state = seed ^ splitmix(&mix);
    for (int i = 0; i < 4; i++) {
        rng->s[i] = splitmix(&state);
    }
}

uint64_t sim_rng_next(struct sim_rng *rng)
{
    uint64_t *s = rng->s;
    const uint64_t result = rotate(s[1] * 5, 7) * 9;
    const uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

int64_t sim_rng_range(struct sim_rng *rng, int64_t low, int64_t high)
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

bool sim_rng_chance(struct sim_rng *rng, int64_t ppb)
{
    return ppb > 0 && sim_rng_range(rng, 0, 999999999) < ppb;
}

double sim_rng_unit(struct sim_rng *rng)
{
    return (double)((sim_rng_next(rng) >> 11) + 1) * 0x1p-53;
}
