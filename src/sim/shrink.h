/* src/sim/shrink.h - a failing run as a small scenario that still fails.
 *
 * The random faults of the run are written out as explicit actions; then actions are left out,
 * first many at a time, then fewer (delta debugging), as long as the run still fails in the same
 * way with the same seed; then the run is shortened. */
#ifndef CV_SIM_SHRINK_H
#define CV_SIM_SHRINK_H

#include "sim/world.h"

struct sim_shrunk {
    char *text; /* the scenario; the caller frees it */
    uint32_t actions_before, actions_after;
    uint32_t trials;
};

/* `text` is what the scenario was read from. The run with this seed must fail; CV_E_INVALID if it
 * does not. */
CV_NODISCARD int sim_shrink(const char *name, const char *text, size_t length, uint64_t seed,
                            struct sim_shrunk *ret_shrunk, struct cv_errtext *reterr);

#endif
