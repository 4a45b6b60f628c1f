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

/* A part of its owner's struct. */
struct cv_wake {
    uv_poll_t poll;
    int fd;
    void (*woken)(void *data); /* on the loop's thread; once for several that come together */
    void (*closed)(void *data);
    void *data;
};

/* CV_OK or CV_E_LIMIT: then there is nothing to be closed. */
CV_NODISCARD int cv__wake_init(uv_loop_t *loop, struct cv_wake *wake, void (*woken)(void *data),
                               void *data, struct cv_errtext *reterr);
/* From any thread, until it is closed. */
void cv__wake_send(struct cv_wake *wake);
/* `closed` (may be NULL) is called by the loop, after which the wake is not used any more. */
void cv__wake_close(struct cv_wake *wake, void (*closed)(void *data));

void cv__mutex_init(pthread_mutex_t *ret_mutex);

#endif
