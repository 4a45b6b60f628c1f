/* src/sim/hold.h - what each node believes, and the begin and end of each leadership. */
#ifndef CV_SIM_HOLD_H
#define CV_SIM_HOLD_H

#include "sim/world.h"

/* A node's core reports the leader: updates the node's belief and the leadership it holds. */
void sim_hold_believe(struct sim_world *world, cv_id node, const struct cv_leadership *leadership);

/* A leadership ends now, or ended when its lease ran out. */
void sim_hold_end(struct sim_world *world, cv_id node, const char *reason);

/* The node crashes, with what it believes and holds. */
void sim_hold_crash(struct sim_world *world, cv_id node);

/* A fault that took away this leader (or, CV_ID_NONE, the start) calls for an election. */
void sim_hold_open_election(struct sim_world *world, cv_id leader);

/* For trace and report: the node is up, down or paused from now on. */
void sim_hold_note_life(struct sim_world *world, cv_id node, enum sim_life life);

/* The same, only for the report. */
void sim_hold_life(struct sim_world *world, cv_id node, enum sim_life life);

#endif
