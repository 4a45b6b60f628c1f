/* src/supervisor/schedule.h - when a command that runs until a deadline is told, and forced, to
 * stop.
 *
 *   ---------------+------------------------+---------+------> time
 *                  |<-------- grace ------------------>|
 *                SIGTERM                 SIGKILL    deadline
 *                                           |<-margin->|
 *
 * The margin is for what comes after SIGKILL: the kernel ends a process when it runs it next, and a
 * large memory takes milliseconds to give back. Half of it is the guard's, then the supervisor
 * stops believing in the guard. Pure: time is an argument. */
#ifndef CV_SUPERVISOR_SCHEDULE_H
#define CV_SUPERVISOR_SCHEDULE_H

#include "core/types.h"

#define CV_MARGIN_NS_MIN (5 * NS_PER_MS)
#define CV_MARGIN_NS_MAX (100 * NS_PER_MS)
/* Far from the deadline the guard may take its time: a tree with a large memory dies slowly. */
#define CV_PATIENCE_NS NS_PER_S
#define CV_NEVER_NS INT64_MAX

/* Invariants: grace_ns >= 0, margin_ns > 0. */
struct cv_schedule {
    int64_t grace_ns;
    int64_t margin_ns;
};

/* margin_ns of 0 chooses one. */
struct cv_schedule cv__schedule(int64_t grace_ns, int64_t margin_ns);

/* SIGTERM, if the deadline is not moved. Also the last instant to start a command at. */
int64_t cv__schedule_term_ns(const struct cv_schedule *schedule, int64_t valid_until_ns);

/* SIGKILL; stop_ns: when SIGTERM was sent, CV_NEVER_NS if it was not. */
int64_t cv__schedule_kill_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                             int64_t stop_ns);

/* If the guard has not done it by then, the supervisor does. */
int64_t cv__schedule_rescue_ns(const struct cv_schedule *schedule, int64_t valid_until_ns,
                               int64_t stop_ns);

#endif
