/* src/os/loop.c - see loop.h. */
#include "os/loop.h"

#include "core/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 * 1024) /* of a thread; SQLite and libpq need a tenth of it */

/* For the first loop of a process, libuv opens an epoll and then a pipe for signals, and aborts if
 * there is no descriptor for the pipe. So check before that descriptors are left. */
static int look_for_descriptors(struct cv_errtext *reterr)
{
    int probe[2][2];
    const bool has_one = pipe2(probe[0], O_CLOEXEC) == 0;
    const bool has_two = has_one && pipe2(probe[1], O_CLOEXEC) == 0;
    const int why = uv_translate_sys_error(errno);
    for (int i = 0; i < has_one + has_two; i++) {
        (void)close(probe[i][0]); /* nothing was written */
        (void)close(probe[i][1]);
    }
    return has_two ? CV_OK
                   : cv__fail(reterr, CV_E_LIMIT, "cannot create an event loop: %s (ulimit -n)",
                              uv_strerror(why));
}

int cv__loop_init(uv_loop_t *loop, struct cv_errtext *reterr)
{
    const int code = look_for_descriptors(reterr);
    if (code != CV_OK) {
        return code;
    }
    const int failed = uv_loop_init(loop);
    return failed == 0 ? CV_OK
                       : cv__fail(reterr, failed == UV_ENOMEM ? CV_E_MEMORY : CV_E_LIMIT,
                                  "cannot create an event loop: %s", uv_strerror(failed));
}

int cv__thread_start(pthread_t *ret_thread, void *(*function)(void *), void *data,
                     struct cv_errtext *reterr)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* a valid size */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);         /* cannot fail */
    const int failed = pthread_create(ret_thread, &attributes, function, data);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed == 0
               ? CV_OK
               : cv__fail(reterr, CV_E_LIMIT, "cannot start a thread: %s (ulimit -u, TasksMax=)",
                          strerror(failed));
}

void cv__loop_run(uv_loop_t *loop)
{
    struct sigaction before;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const bool is_ignored = sigaction(SIGPIPE, &ignore, &before) == 0;
    (void)uv_run(loop, UV_RUN_DEFAULT);
    if (is_ignored) {
        (void)sigaction(SIGPIPE, &before, NULL); /* as it was: cannot fail */
    }
}
