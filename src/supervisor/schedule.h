/* src/supervisor/schedule.h - when a command with a deadline gets SIGTERM and SIGKILL.
 *
 *   ---------------+------------------------+-------------+---------+------> time
 *                  |<-------------- grace + cleanup -------------->|
 *                SIGTERM                 SIGKILL                deadline
 *                                           |<- cleanup ->|<-margin->|
 *
 * The margin covers the time after SIGKILL: the kernel ends a process when it runs it next, and
 * freeing a large memory takes milliseconds. The guard has half of the margin; then the supervisor
 * takes over. The cleanup (0: none) begins when all processes of the command are gone, and has its
 * time from then on. Pure: time is an argument. */
#ifndef CV_SUPERVISOR_SCHEDULE_H
#define CV_SUPERVISOR_SCHEDULE_H

#include "core/types.h"

#define CV_MARGIN_NS_MIN (5 * NS_PER_MS)
#define CV_MARGIN_NS_MAX (100 * NS_PER_MS)
/* Far from the deadline the guard gets this much longer: processes with much memory die slowly. */
#define CV_PATIENCE_NS NS_PER_S
#define CV_NEVER_NS INT64_MAX

/* Invariants: grace_ns >= 0, cleanup_ns >= 0, margin_ns > 0. */
struct cv_schedule {
    int64_t grace_ns;
    int64_t cleanup_ns;
    int64_t margin_ns;
};

#define CV_GRACE_NS_DEFAULT (2 * NS_PER_S)

/* The longest grace plus cleanup time, for a leadership that is granted for grant_ns at a time. A
 * renewal is requested when half of the grant is over, or sooner; SIGTERM must not come before the
 * renewal can be answered. */
int64_t cv__schedule_grace_ns_max(int64_t grant_ns);

/* The default for grace plus cleanup time. */
int64_t cv__schedule_grace_ns(int64_t grant_ns);

/* margin_ns of 0: a quarter of the grace, within the bounds above. */
struct cv_schedule cv__schedule(int64_t grace_ns, int64_t cleanup_ns, int64_t margin_ns);

/* When SIGTERM is sent, if the deadline is not moved. After that no command is started. */
int64_t cv__schedule_term_ns(const struct cv_schedule *schedule, int64_t valid_until_ns);

/* When SIGKILL is sent. stop_ns: when SIGTERM was sent; CV_NEVER_NS: not yet. */
int64_t cv__schedule_kill_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                             int64_t stop_ns);

/* When the supervisor takes over, if the guard has not killed the command by then. */
int64_t cv__schedule_rescue_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                               int64_t stop_ns);

#endif
