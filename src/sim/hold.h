/* src/sim/hold.h - what each node believes, and who holds a leadership from when to when. */
#ifndef CV_SIM_HOLD_H
#define CV_SIM_HOLD_H

#include "sim/world.h"

/* A node has said this: its belief, and what it holds, change accordingly. */
void sim_hold_believe(struct sim_world *world, cv_id node, const struct cv_leadership *leadership);

/* A leadership ends now, or ended when its time was over. */
void sim_hold_end(struct sim_world *world, cv_id node, const char *reason);

/* For the report: from now on the node is this. */
void sim_hold_life(struct sim_world *world, cv_id node, enum sim_life life);

#endif
