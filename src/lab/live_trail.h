/* src/lab/live_trail.h - when a leadership of real processes began, from a member's audit trail.
 *
 * This is a separate file because the stores of the runtime and of the simulator use the same
 * names. */
#ifndef CV_LAB_LIVE_TRAIL_H
#define CV_LAB_LIVE_TRAIL_H

#include "net/cluster.h"

/* In wall-clock time, as this member recorded it; 0: not recorded, or the trail cannot be read. */
int64_t cv__lab_live_began(const struct cv_cluster *cluster, const char *member,
                           const char *election, uint64_t token);

#endif
