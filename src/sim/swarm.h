/* src/sim/swarm.h - random scenarios, for runs that nobody would write by hand.
 *
 * Random faults in one hand-written configuration test only that configuration. Here the
 * configuration is random too [swarm testing]: the number of nodes, even numbers as well; which
 * kinds of faults there are, how often and how long; the protocol's options, at the edges of their
 * ranges about as often as at their defaults; the speed of links, disks, stores and sequencers,
 * within the protocol's assumptions; clocks up to the bound of their drift. After the faults there
 * is a quiet time that is long enough to judge liveness.
 *
 * The same protocol and seed give the same text, and the run has that seed, too. */
#ifndef CV_SIM_SWARM_H
#define CV_SIM_SWARM_H

#include "scenario/scenario.h"

/* The scenario of a seed, as text, which the caller frees. */
char *sim_swarm_text(const struct cv_protocol *protocol, uint64_t seed);

/* The same, read; the caller frees it. */
struct sim_scenario *sim_swarm_scenario(const struct cv_protocol *protocol, uint64_t seed);

#endif
