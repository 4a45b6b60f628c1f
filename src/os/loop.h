/* src/os/loop.h - starts loops and threads, and reports a failure instead of aborting.
 *
 * A machine may have no descriptor, process number or memory left at any moment. libuv calls
 * abort() in some of these cases, which would end the embedding program. */
#ifndef CV_OS_LOOP_H
#define CV_OS_LOOP_H

#include <conclave/errors.h>

#include <pthread.h>
#include <uv.h>

/* uv_loop_init(), which would abort in a process whose first loop finds no descriptor left. CV_OK,
 * CV_E_MEMORY or CV_E_LIMIT. */
CV_NODISCARD int cv__loop_init(uv_loop_t *loop, struct cv_errtext *reterr);

/* Runs it on the main thread until nothing is left to do. libuv writes so that a peer that is gone
 * raises SIGPIPE; here that is an error like others. (Threads of an engine have it blocked.) */
void cv__loop_run(uv_loop_t *loop);

/* A thread that blocks all signals: they are for the application's threads. CV_OK or CV_E_LIMIT. */
CV_NODISCARD int cv__thread_start(pthread_t *ret_thread, void *(*function)(void *), void *data,
                                  struct cv_errtext *reterr);

#endif
