/* src/os/worker.h - a thread that does blocking work for a loop, one item after the other.
 *
 * libuv's pool starts its threads when the first work is queued, and aborts the process if the
 * system has no thread left at that moment. A worker starts its thread at once, or fails to start;
 * afterwards, queueing work needs neither memory nor a thread, and cannot fail.
 *
 * Used on the loop's thread. Memory: a stack, an eventfd; the queue goes through the works. */
#ifndef CV_OS_WORKER_H
#define CV_OS_WORKER_H

#include <conclave/errors.h>

#include <uv.h>

struct cv_worker;

/* A part of its owner's struct, who does not touch it until it is done. */
struct cv_work {
    void (*run)(void *data); /* on the worker's thread */
    void (*done)(
        void *data); /* on the loop's, after that; may queue it again, free it or the worker */
    void *data;
    struct cv_work *next; /* the worker's */
};

/* CV_OK, CV_E_MEMORY or CV_E_LIMIT. */
CV_NODISCARD int cv__worker_new(uv_loop_t *loop, struct cv_worker **ret_worker,
                                struct cv_errtext *reterr);

void cv__worker_do(struct cv_worker *worker, struct cv_work *work);

/* No further work; what is queued is done first. `closed` (may be NULL) is called by the loop,
 * after which the worker is gone. NULL is no worker, and closed at once. */
void cv__worker_free(struct cv_worker *worker, void (*closed)(void *data), void *data);

#endif
