/* src/sim/swarm.h - scenarios that are drawn as a whole, for runs that nobody thought of.
 *
 * A random schedule of faults in one hand-written shape tests that shape again and again. Here the
 * shape is drawn too [swarm testing]: how many nodes, even numbers as well; which kinds of faults
 * there are at all, how often and how long; the protocol's options, at the edges of what is valid
 * about as often as at their defaults; how fast links, disks, stores and sequencers are, within
 * what the protocol assumes; clocks up to the bound of their drift. After the faults it is quiet
 * for long enough to judge liveness.
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
