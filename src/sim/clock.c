/* src/sim/clock.c - the drifting local clock of a simulated node. */
#include "sim/clock.h"

#include "core/types.h"

#define PPB INT64_C(1000000000)

int64_t sim_clock_stretch(const struct sim_clock *clock, int64_t elapsed_ns)
{
    return (int64_t)((__int128)elapsed_ns * (PPB + clock->drift_ppb) / PPB);
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
    const int64_t rate = PPB + clock->drift_ppb;
    CV_ASSERT(rate > 0);
    const __int128 real = ((__int128)elapsed * PPB + rate - 1) / rate;
    return real > INT64_MAX / 2 ? INT64_MAX / 2 : clock->real_base_ns + (int64_t)real;
}

void sim_clock_set_drift(struct sim_clock *clock, int64_t real_ns, int64_t drift_ppb)
{
    clock->local_base_ns = sim_clock_local(clock, real_ns);
    clock->real_base_ns = real_ns;
    clock->drift_ppb = drift_ppb;
}
