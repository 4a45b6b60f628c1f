/* src/sim/clock.h - the drifting local clock of a simulated node.
 *
 * Local time is a base plus elapsed real time stretched by 1 + drift. It is never set back while
 * the machine runs, goes on while the process is paused or down, and starts at a random instant, so
 * that a protocol that compares the clocks of two nodes fails. A machine that boots again counts
 * from near zero: node.c then gives it another base. */
#ifndef CV_SIM_CLOCK_H
#define CV_SIM_CLOCK_H

#include "core/assert.h"

#include <stdint.h>

struct sim_clock {
    int64_t real_base_ns, local_base_ns;
    int64_t drift_ppb;
    int64_t drift_parts; /* not 0: the drift is exactly 1 / drift_parts, 11 or -11 */
};

/* How far the clock advances in that much real time. */
int64_t sim_clock_stretch(const struct sim_clock *clock, int64_t elapsed_ns);

static inline int64_t sim_clock_local(const struct sim_clock *clock, int64_t real_ns)
{
    const int64_t elapsed_ns = real_ns - clock->real_base_ns;
    CV_ASSERT(elapsed_ns >= 0);
    return clock->local_base_ns +
           (clock->drift_ppb == 0 ? elapsed_ns : sim_clock_stretch(clock, elapsed_ns));
}

/* The earliest real instant, not before real_base_ns, at which the local clock shows local_ns. */
int64_t sim_clock_real(const struct sim_clock *clock, int64_t local_ns);

/* Sets another drift from now on; the local time does not jump. */
void sim_clock_set_drift(struct sim_clock *clock, int64_t real_ns, int64_t drift_ppb,
                         int64_t drift_parts);

#endif
