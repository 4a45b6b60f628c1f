/* src/sim/hold.h - what each node believes, and who holds a leadership from when to when. */
#ifndef CV_SIM_HOLD_H
#define CV_SIM_HOLD_H

#include "core/types.h"

struct cv_world;

/* A node has said this: its belief, and what it holds, change accordingly. */
void cv__hold_believe(struct cv_world *world, cv_id node, const struct cv_leadership *leadership);

/* A leadership ends now, or ended when its time was over. */
void cv__hold_end(struct cv_world *world, cv_id node, const char *reason);

#endif
