/* src/os/worker.c - see worker.h. */
#include "os/worker.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/loop.h"
#include "os/wake.h"

#include <stdbool.h>
#include <stdlib.h>

/* First in, first out. Invariant: `end` points to the link that the next item goes to. */
struct queue {
    struct cv_work *first, **end;
};

struct cv_worker {
    struct cv_wake wake; /* sent when an item is done, and when the thread ends */
    pthread_t thread;
    void (*closed)(void *data);
    void *closed_data;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct queue waiting, done;
    bool must_stop, is_over;
};

static void lock(struct cv_worker *worker)
{
    const int failed = pthread_mutex_lock(&worker->lock);
    CV_ASSERT(failed == 0);
}

static void unlock(struct cv_worker *worker)
{
    const int failed = pthread_mutex_unlock(&worker->lock);
    CV_ASSERT(failed == 0);
}

static void queue_init(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_push(struct queue *queue, struct cv_work *work)
{
    work->next = NULL;
    *queue->end = work;
    queue->end = &work->next;
}

static struct cv_work *queue_pop(struct queue *queue)
{
    struct cv_work *work = queue->first;
    if (work != NULL) {
        queue->first = work->next;
        queue->end = queue->first != NULL ? queue->end : &queue->first;
    }
    return work;
}

/* ---- The worker's thread --------------------------------------------------------------------- */

static void *work_until_stopped(void *data)
{
    struct cv_worker *worker = data;
    lock(worker);
    for (;;) {
        struct cv_work *work = queue_pop(&worker->waiting);
        if (work != NULL) {
            unlock(worker);
            work->run(work->data);
            lock(worker);
            queue_push(&worker->done, work);
            cv__wake_send(&worker->wake);
        } else if (worker->must_stop) {
            break;
        } else {
            (void)pthread_cond_wait(&worker->changed, &worker->lock);
        }
    }
    worker->is_over = true;
    cv__wake_send(&worker->wake);
    unlock(worker);
    return NULL;
}

/* ---- The loop's thread ----------------------------------------------------------------------- */

static void worker_release(struct cv_worker *worker)
{
    (void)pthread_mutex_destroy(&worker->lock); /* no thread uses them any more */
    (void)pthread_cond_destroy(&worker->changed);
    free(worker);
}

static void on_closed(void *data_of_wake)
{
    struct cv_worker *worker = data_of_wake;
    void (*closed)(void *data) = worker->closed;
    void *data = worker->closed_data;
    worker_release(worker);
    if (closed != NULL) {
        closed(data);
    }
}

static void on_wake(void *data)
{
    struct cv_worker *worker = data;
    lock(worker);
    for (struct cv_work *work; (work = queue_pop(&worker->done)) != NULL;) {
        unlock(worker);
        work->done(work->data);
        lock(worker);
    }
    const bool is_over = worker->is_over;
    unlock(worker);
    if (is_over) {
        (void)pthread_join(worker->thread, NULL); /* it has nothing left to do */
        cv__wake_close(&worker->wake, on_closed);
    }
}

int cv__worker_new(uv_loop_t *loop, struct cv_worker **ret_worker, struct cv_errtext *reterr)
{
    struct cv_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    cv__mutex_init(&worker->lock);
    (void)pthread_cond_init(&worker->changed, NULL); /* with defaults it cannot fail */
    queue_init(&worker->waiting);
    queue_init(&worker->done);
    int code = cv__wake_init(loop, &worker->wake, on_wake, worker, reterr);
    if (code != CV_OK) {
        worker_release(worker);
        return code;
    }
    code = cv__thread_start(&worker->thread, work_until_stopped, worker, reterr);
    if (code != CV_OK) {
        cv__wake_close(&worker->wake, on_closed);
        return code;
    }
    *ret_worker = worker;
    return CV_OK;
}

void cv__worker_do(struct cv_worker *worker, struct cv_work *work)
{
    lock(worker);
    CV_ASSERT(!worker->must_stop);
    queue_push(&worker->waiting, work);
    (void)pthread_cond_signal(&worker->changed);
    unlock(worker);
}

void cv__worker_free(struct cv_worker *worker, void (*closed)(void *data), void *data)
{
    if (worker == NULL) {
        if (closed != NULL) {
            closed(data);
        }
        return;
    }
    lock(worker);
    CV_ASSERT(!worker->must_stop);
    worker->closed = closed;
    worker->closed_data = data;
    worker->must_stop = true;
    (void)pthread_cond_signal(&worker->changed);
    unlock(worker);
}
