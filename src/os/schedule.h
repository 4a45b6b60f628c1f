/* src/os/schedule.h - how soon a thread runs when it has something to do. */
#ifndef CV_OS_SCHEDULE_H
#define CV_OS_SCHEDULE_H

#include <conclave/errors.h>

/* From now on the calling thread runs before all usual ones (SCHED_FIFO), and what the process uses
 * stays in memory. Children do not inherit it. CV_E_LIMIT: this is not permitted; the line says
 * which of the two. */
CV_NODISCARD int cv__schedule_realtime(struct cv_errtext *reterr);

#endif
