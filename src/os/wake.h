/* src/os/wake.h - wakes a loop from other threads, even one with real-time scheduling.
 *
 * uv_async_send() of libuv is not safe here: a loop that it has woken spins until the sender has
 * left that function. A loop with real-time priority interrupts the sender inside it, on the same
 * processor, and spins for the time that the kernel allows such threads: 0.95 s, in which a leader
 * loses its lease. Here the sender writes to an eventfd, and the loop does not wait for it.
 *
 * For the same reason, locks that such a loop shares with other threads inherit priority: the
 * holder gets the priority of the waiting thread. */
#ifndef CV_OS_WAKE_H
#define CV_OS_WAKE_H

#include <conclave/errors.h>

#include <pthread.h>
#include <uv.h>

/* Embedded in its owner's struct. */
struct cv_wake {
    uv_poll_t poll;
    int fd;
    void (*woken)(void *data); /* on the loop's thread; one call may stand for several sends */
    void (*closed)(void *data);
    void *data;
};

/* CV_OK or CV_E_LIMIT. After a failure there is nothing to close. */
CV_NODISCARD int cv__wake_init(uv_loop_t *loop, struct cv_wake *wake, void (*woken)(void *data),
                               void *data, struct cv_errtext *reterr);
/* From any thread, until cv__wake_close(). */
void cv__wake_send(struct cv_wake *wake);
/* Later the loop calls `closed` (may be NULL); the wake is not used after that. */
void cv__wake_close(struct cv_wake *wake, void (*closed)(void *data));

/* A mutex that inherits priority. */
void cv__mutex_init(pthread_mutex_t *ret_mutex);

#endif
