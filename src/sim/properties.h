/* src/sim/properties.h - reports the simulated world to the properties.
 *
 * The rules are in src/properties. This file adds what only the simulator knows: which links are
 * up, which nodes are awake and keep time, whether the store and the sequencer answer; and when
 * liveness is to be judged next. */
#ifndef CV_SIM_PROPERTIES_H
#define CV_SIM_PROPERTIES_H

#include "core/types.h"

struct sim_node;
struct sim_world;

void sim_properties_init(struct sim_world *world);

/* An event that the protocol's assumptions exclude, or after which it needs time to settle. */
void sim_properties_disturb(struct sim_world *world);
/* A message to a node that is up is lost or will be late; a message arrives so long after it was
 * sent. */
void sim_properties_lose(struct sim_world *world, cv_id from, cv_id to);
void sim_properties_arrive(struct sim_world *world, cv_id from, cv_id to, int64_t delay_ns);

/* Does the node wait for a save that takes longer than its protocol assumes? */
bool sim_properties_is_slow_save(const struct sim_world *world, const struct sim_node *node);

/* Links, nodes or clocks have changed. */
void sim_properties_update(struct sim_world *world);

/* The queued check is due. */
void sim_properties_check(struct sim_world *world);

#endif
