/* src/os/wake.c - see wake.h. */
#include "os/wake.h"

#include "core/errors.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct cv_wake *wake = poll->data;
    uint64_t count;
    (void)status;
    (void)events;
    if (read(wake->fd, &count, sizeof count) == (ssize_t)sizeof count) { /* else nobody has sent */
        wake->woken(wake->data);
    }
}

int cv__wake_init(uv_loop_t *loop, struct cv_wake *wake, void (*woken)(void *data), void *data,
                  struct cv_errtext *reterr)
{
    *wake = (struct cv_wake){.woken = woken, .data = data};
    wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake->fd < 0) {
        return cv__fail(reterr, CV_E_LIMIT, "no descriptors left (ulimit -n): %s", strerror(errno));
    }
    const int failed = uv_poll_init(loop, &wake->poll, wake->fd);
    if (failed != 0) {
        (void)close(wake->fd); /* nothing was written */
        return cv__fail(reterr, CV_E_LIMIT, "cannot watch a descriptor: %s", uv_strerror(failed));
    }
    wake->poll.data = wake;
    (void)uv_poll_start(&wake->poll, UV_READABLE, on_readable); /* a handle that was just made */
    return CV_OK;
}

void cv__wake_send(struct cv_wake *wake)
{
    const uint64_t one = 1;
    const ssize_t written = write(wake->fd, &one, sizeof one);
    (void)written; /* fails only if 2^64 - 2 of them are unread */
}

static void on_closed(uv_handle_t *handle)
{
    struct cv_wake *wake = handle->data;
    (void)close(wake->fd); /* nobody sends any more */
    if (wake->closed != NULL) {
        wake->closed(wake->data);
    }
}

void cv__wake_close(struct cv_wake *wake, void (*closed)(void *data))
{
    wake->closed = closed;
    uv_close((uv_handle_t *)&wake->poll, on_closed);
}

void cv__mutex_init(pthread_mutex_t *ret_mutex)
{
    pthread_mutexattr_t kind;
    (void)pthread_mutexattr_init(&kind); /* cannot fail on Linux, nor can the next two */
    (void)pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    (void)pthread_mutex_init(ret_mutex, &kind);
    (void)pthread_mutexattr_destroy(&kind);
}
