/* src/os/realtime.h - real-time scheduling of a thread. */
#ifndef CV_OS_REALTIME_H
#define CV_OS_REALTIME_H

#include "core/types.h"

/* The shortest lease that a leader keeps while every processor is busy with something else. With
 * usual scheduling a timer is late by tens of milliseconds then; with real-time scheduling not. */
#define CV_LEASE_FLOOR_NS_USUAL (100 * NS_PER_MS)
#define CV_LEASE_FLOOR_NS_REALTIME (15 * NS_PER_MS)

/* From now on the calling thread runs before all usual ones (SCHED_FIFO); its children do not.
 * Where the process may lock any amount of memory (LimitMEMLOCK=infinity), what it uses stays in
 * memory, too. CV_E_LIMIT: real-time scheduling is not permitted. */
CV_NODISCARD int cv__realtime_begin(struct cv_errtext *reterr);

/* Is it permitted? Changes nothing. CV_OK or CV_E_LIMIT, with the reason. */
CV_NODISCARD int cv__realtime_is_permitted(struct cv_errtext *reterr);

#endif
