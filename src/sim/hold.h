/* src/sim/hold.h - what each node believes, and who holds a leadership from when to when. */
#ifndef CV_SIM_HOLD_H
#define CV_SIM_HOLD_H

#include "sim/world.h"

/* A node has said this: its belief, and what it holds, change accordingly. */
void cv__hold_believe(struct cv_world *world, cv_id node, const struct cv_leadership *leadership);

/* A leadership ends now, or ended when its time was over. */
void cv__hold_end(struct cv_world *world, cv_id node, const char *reason);

/* For the report: from now on the node is this. */
void cv__hold_life(struct cv_world *world, cv_id node, enum cv_life life);

#endif
