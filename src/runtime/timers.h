/* src/runtime/timers.h - one timer of the kernel for all hosts of a loop.
 *
 * libuv's timers count milliseconds, which is a third of a lease in a fast network, and stop while
 * the machine is suspended. So there is one timerfd on CLOCK_BOOTTIME, polled by the loop and set
 * to the earliest instant of all users. Each user waits for one instant at a time.
 *
 * Used on the loop's thread. Memory: a list through the users' own structs. Time: linear in the
 * users when the earliest instant changes or is due, otherwise constant. */
#ifndef CV_RUNTIME_TIMERS_H
#define CV_RUNTIME_TIMERS_H

#include <conclave/core.h>

#include <uv.h>

struct cv_timers;

/* One user of the timer; the caller's memory, zeroed before the first use. */
struct cv_timers_user {
    void (*due)(void *self); /* may set, add and remove any user */
    void *self;
    int64_t due_ns; /* 0: it waits for nothing */
    uint64_t round; /* in which it was last called: once in each */
    struct cv_timers_user *next, **link;
};

/* Returns CV_OK, CV_E_MEMORY or CV_E_LIMIT. */
CV_NODISCARD int cv__timers_new(uv_loop_t *loop, struct cv_timers **ret_timers,
                                struct cv_errtext *reterr);
/* All users must have been removed. The loop calls `closed` (may be NULL), and the timers are gone.
 * `timers` may be NULL: then `closed` is called at once. */
void cv__timers_free(struct cv_timers *timers, void (*closed)(void *data), void *data);

void cv__timers_add(struct cv_timers *timers, struct cv_timers_user *user);
void cv__timers_remove(struct cv_timers *timers, struct cv_timers_user *user);

/* Calls `due` once, not before that instant of CLOCK_BOOTTIME; 0: not at all. */
void cv__timers_set(struct cv_timers *timers, struct cv_timers_user *user, int64_t due_ns);

#endif
