/* src/properties/graph.h - which members should lead when some links are down, computed from the
 * whole graph, which no process knows.
 *
 * A graph is a set for each member, in the order of ids: the members connected to it both ways,
 * itself included; empty: it does not take part. Memory: the caller's. Time: quadratic in the
 * members. */
#ifndef CV_PROPERTIES_GRAPH_H
#define CV_PROPERTIES_GRAPH_H

#include "core/types.h"

/* The set of one member. */
const uint64_t *cv__graph_near(const uint64_t *graph, uint32_t member_count, cv_id id);

/* [Fetzer99, fig. 24] In the order of ids: a candidate leads if no member connected to it, itself
 * included, is marked; then all of these are marked, since they are locked to it. So the followers
 * of two leaders have no member in common. */
void cv__graph_leaders(const uint64_t *graph, const uint64_t *candidates, uint32_t member_count,
                       uint64_t *ret_leaders);

/* A candidate that is connected to a majority of all members; CV_ID_NONE: there is none. */
cv_id cv__graph_center(const uint64_t *graph, const uint64_t *candidates, uint32_t member_count);

#endif
