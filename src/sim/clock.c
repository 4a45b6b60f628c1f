/* src/sim/clock.c - the drifting local clock of a simulated node. */
#include "sim/clock.h"

#include "core/types.h"

#define PPB INT64_C(1000000000)

/* How far the clock advances in which real time. */
struct rate {
    int64_t local, real;
};

static struct rate rate_of(const struct sim_clock *clock)
{
    const int64_t parts = clock->drift_parts;
    const struct rate rate = parts == 0  ? (struct rate){PPB + clock->drift_ppb, PPB}
                             : parts > 0 ? (struct rate){parts + 1, parts}
                                         : (struct rate){-parts - 1, -parts};
    CV_ASSERT(rate.local > 0);
    return rate;
}

int64_t sim_clock_stretch(const struct sim_clock *clock, int64_t elapsed_ns)
{
    const struct rate rate = rate_of(clock);
    return (int64_t)((__int128)elapsed_ns * rate.local / rate.real);
}

int64_t sim_clock_real(const struct sim_clock *clock, int64_t local_ns)
{
    const int64_t elapsed = local_ns - clock->local_base_ns;
    if (elapsed <= 0) {
        return clock->real_base_ns;
    }
    if (clock->drift_ppb == 0) {
        return clock->real_base_ns + elapsed;
    }
    const struct rate rate = rate_of(clock);
    const __int128 real = ((__int128)elapsed * rate.real + rate.local - 1) / rate.local;
    return real > INT64_MAX / 2 ? INT64_MAX / 2 : clock->real_base_ns + (int64_t)real;
}

void sim_clock_set_drift(struct sim_clock *clock, int64_t real_ns, int64_t drift_ppb,
                         int64_t drift_parts)
{
    clock->local_base_ns = sim_clock_local(clock, real_ns);
    clock->real_base_ns = real_ns;
    clock->drift_ppb = drift_ppb;
    clock->drift_parts = drift_parts;
}
