/* src/os/worker.h - a thread that does blocking work for a loop, one item after the other.
 *
 * libuv's pool starts its threads when the first work is queued, and aborts the process if the
 * system has no thread left at that moment. A worker starts its thread at once, or fails to start;
 * afterwards, queueing work needs neither memory nor a thread, and cannot fail.
 *
 * Used on the loop's thread. Memory: a stack, an eventfd; the queue links the work items. */
#ifndef CV_OS_WORKER_H
#define CV_OS_WORKER_H

#include <conclave/errors.h>

#include <uv.h>

struct cv_worker;

/* Embedded in its owner's struct. The owner does not touch it from cv__worker_do() until `done`. */
struct cv_work {
    void (*run)(void *data); /* on the worker's thread */
    /* On the loop's thread, after `run`. May queue the item again, free it, or free the worker. */
    void (*done)(void *data);
    void *data;
    struct cv_work *next; /* the worker's */
};

/* CV_OK, CV_E_MEMORY or CV_E_LIMIT. */
CV_NODISCARD int cv__worker_new(uv_loop_t *loop, struct cv_worker **ret_worker,
                                struct cv_errtext *reterr);

void cv__worker_do(struct cv_worker *worker, struct cv_work *work);

/* Ends the worker when all queued work is done. Then the loop calls `closed` (may be NULL), and the
 * worker is gone. `worker` may be NULL: then `closed` is called at once. */
void cv__worker_free(struct cv_worker *worker, void (*closed)(void *data), void *data);

#endif
