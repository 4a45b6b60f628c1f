/* src/os/realtime.h - what keeps a thread on time: real-time scheduling, and memory that is locked.
 *
 * Both need a permission that not every user has. A caller works without them, too, and tells its
 * user which of them is missing, what that costs, and how to permit it. */
#ifndef CV_OS_REALTIME_H
#define CV_OS_REALTIME_H

#include "core/types.h"

/* The shortest lease that a leader keeps while every processor is busy with something else. With
 * usual scheduling a timer is late by tens of milliseconds then; with real-time scheduling not. */
#define CV_LEASE_FLOOR_NS_USUAL (100 * NS_PER_MS)
#define CV_LEASE_FLOOR_NS_REALTIME (15 * NS_PER_MS)

/* If memory is not locked, a thread may have to wait until the disk has brought a page back: for
 * milliseconds or seconds, so no lease is long enough to be sure. */
#define CV_MEMORY_COST "when memory is short, leases can be lost without a fault"

/* How to permit the two. */
#define CV_REALTIME_GRANT "LimitRTPRIO=10 in the unit, or rtprio in limits.conf"
#define CV_MEMORY_GRANT "LimitMEMLOCK=infinity in the unit, or memlock in limits.conf"

/* From now on the calling thread runs before all usual ones (SCHED_FIFO); its children do not.
 * CV_E_LIMIT: that is not permitted. */
CV_NODISCARD int cv__realtime_begin(struct cv_errtext *reterr);

/* Is it permitted? Changes nothing. CV_OK or CV_E_LIMIT, with the reason. */
CV_NODISCARD int cv__realtime_is_permitted(struct cv_errtext *reterr);

/* From now on the memory of this process is not swapped out: all of it if RLIMIT_MEMLOCK is
 * unlimited, otherwise what the process has now, if the kernel permits that much. No later
 * allocation fails because of it. CV_E_LIMIT: not permitted, nothing is locked. CV_E_IO: the list
 * of what the process has cannot be read. */
CV_NODISCARD int cv__realtime_lock_memory(struct cv_errtext *reterr);

/* Would that be permitted to a member that this program starts? Changes nothing. */
CV_NODISCARD int cv__realtime_may_lock_memory(struct cv_errtext *reterr);

#endif
