/* src/lab/live_trail.h - when a leadership of real processes began, by a member's audit trail.
 *
 * Apart from the rest, because what the runtime and the simulator call a store has the same
 * names. */
#ifndef CV_LAB_LIVE_TRAIL_H
#define CV_LAB_LIVE_TRAIL_H

#include "net/cluster.h"

/* By the wall clock, as this member wrote it down; 0: it has not, or the trail cannot be read. */
int64_t cv__lab_live_began(const struct cv_cluster *cluster, const char *member,
                           const char *election, uint64_t token);

#endif
