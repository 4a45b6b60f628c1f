/* src/runtime/engine.c - a loop in a thread, and a thread for callbacks; see engine.h.
 *
 * How it ends: the loop's thread closes its handles and ends when no handle is left. If a callback
 * frees the engine, it cannot wait for the callbacks' thread, because it runs on that thread; the
 * thread then frees the engine when the callback has returned. */
#include "runtime/engine.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/loop.h"
#include "os/wake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* First in, first out. */
struct queue {
    struct cv_engine_job *first, *last;
};

struct cv_engine {
    uv_loop_t loop;
    struct cv_wake wake; /* there are jobs, or the loop must stop */
    struct cv_shared_list shared;
    struct cv_timers *timers;
    pthread_t thread;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    uint32_t election_count;
    struct queue jobs;
    bool must_stop; /* the loop */

    pthread_t callback_thread;
    struct queue calls;
    struct cv_engine_job *running_call; /* NULL: none; only compared: the call may free it */
    bool has_callback_thread;
    bool must_stop_calls;
    bool must_free; /* by the callbacks' thread */
};

/* ---- Queues ---------------------------------------------------------------------------------- */

static void lock(struct cv_engine *engine)
{
    const int failed = pthread_mutex_lock(&engine->lock);
    CV_ASSERT(failed == 0);
}

static void unlock(struct cv_engine *engine)
{
    const int failed = pthread_mutex_unlock(&engine->lock);
    CV_ASSERT(failed == 0);
}

static void queue_push(struct queue *queue, struct cv_engine_job *job)
{
    if (job->is_queued) {
        return;
    }
    job->is_queued = true;
    job->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = job;
    } else {
        queue->first = job;
    }
    queue->last = job;
}

static struct cv_engine_job *queue_pop(struct queue *queue)
{
    struct cv_engine_job *job = queue->first;
    if (job != NULL) {
        CV_ASSERT(job->is_queued);
        queue->first = job->next;
        queue->last = queue->first != NULL ? queue->last : NULL;
        job->is_queued = false;
    }
    return job;
}

static void queue_remove(struct queue *queue, struct cv_engine_job *job)
{
    if (!job->is_queued) {
        return;
    }
    struct cv_engine_job *before = NULL, *at = queue->first;
    while (at != job) {
        CV_ASSERT(at != NULL); /* it is in this queue */
        before = at;
        at = at->next;
    }
    if (before != NULL) {
        before->next = job->next;
    } else {
        queue->first = job->next;
    }
    queue->last = queue->last == job ? before : queue->last;
    job->is_queued = false;
}

/* ---- The loop's thread ----------------------------------------------------------------------- */

static void close_handles(struct cv_engine *engine)
{
    cv__timers_free(engine->timers, NULL, NULL);
    cv__wake_close(&engine->wake, NULL);
}

/* Runs the jobs that are queued now. Jobs that they post run in the next turn, so that sockets and
 * timers are served in between. */
static void on_wake(void *data)
{
    struct cv_engine *engine = data;
    lock(engine);
    struct cv_engine_job *const last = engine->jobs.last;
    for (bool is_last = last == NULL; !is_last;) {
        struct cv_engine_job *job = queue_pop(&engine->jobs);
        is_last = job == last;
        unlock(engine);
        job->run(job->user); /* may free the job's owner */
        lock(engine);
    }
    const bool must_stop = engine->must_stop && engine->jobs.first == NULL;
    unlock(engine);
    if (must_stop) {
        close_handles(engine);
    }
}

static void *run_loop(void *data)
{
    struct cv_engine *engine = data;
    (void)uv_run(&engine->loop, UV_RUN_DEFAULT); /* until every handle is closed */
    return NULL;
}

void cv__engine_post(struct cv_engine *engine, struct cv_engine_job *job)
{
    lock(engine);
    CV_ASSERT(!engine->must_stop);
    queue_push(&engine->jobs, job);
    cv__wake_send(&engine->wake);
    unlock(engine);
}

void cv__engine_await(struct cv_engine *engine, const bool *flag)
{
    lock(engine);
    while (!*flag) {
        (void)pthread_cond_wait(&engine->changed, &engine->lock); /* cannot fail */
    }
    unlock(engine);
}

void cv__engine_signal(struct cv_engine *engine, bool *flag)
{
    lock(engine);
    *flag = true;
    (void)pthread_cond_broadcast(&engine->changed); /* cannot fail */
    unlock(engine);
}

struct errand {
    struct cv_engine_job job;
    struct cv_engine *engine;
    int (*function)(void *user);
    void *user;
    int result;
    bool is_done;
};

static void errand_run(void *user)
{
    struct errand *errand = user;
    errand->result = errand->function(errand->user);
    cv__engine_signal(errand->engine, &errand->is_done);
}

int cv__engine_run(struct cv_engine *engine, int (*function)(void *user), void *user)
{
    struct errand errand = {.engine = engine, .function = function, .user = user};
    errand.job = (struct cv_engine_job){.run = errand_run, .user = &errand};
    CV_ASSERT(!pthread_equal(pthread_self(), engine->thread)); /* it would wait for itself */
    cv__engine_post(engine, &errand.job);
    cv__engine_await(engine, &errand.is_done);
    return errand.result;
}

uv_loop_t *cv__engine_loop(struct cv_engine *engine)
{
    return &engine->loop;
}

struct cv_shared_list *cv__engine_shared(struct cv_engine *engine)
{
    return &engine->shared;
}

struct cv_timers *cv__engine_timers(struct cv_engine *engine)
{
    return engine->timers;
}

/* ---- The callbacks' thread ------------------------------------------------------------------- */

static void release(struct cv_engine *engine)
{
    CV_ASSERT(engine->jobs.first == NULL);
    CV_ASSERT(engine->shared.first == NULL); /* the last election closed the last connection */
    const int busy = uv_loop_close(&engine->loop);
    CV_ASSERT(busy == 0); /* the loop's thread ended when every handle was closed */
    (void)pthread_cond_destroy(&engine->changed);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static void *run_calls(void *data)
{
    struct cv_engine *engine = data;
    lock(engine);
    while (!engine->must_stop_calls) {
        struct cv_engine_job *job = queue_pop(&engine->calls);
        if (job == NULL) {
            (void)pthread_cond_wait(&engine->changed, &engine->lock);
            continue;
        }
        engine->running_call = job;
        unlock(engine);
        job->run(job->user); /* may free the job, its election, and set must_free */
        lock(engine);
        engine->running_call = NULL;
        (void)pthread_cond_broadcast(&engine->changed);
    }
    const bool must_free = engine->must_free;
    unlock(engine);
    if (must_free) {
        release(engine);
    }
    return NULL;
}

int cv__engine_start_calls(struct cv_engine *engine)
{
    lock(engine);
    int code = CV_OK;
    if (!engine->has_callback_thread) {
        code = cv__thread_start(&engine->callback_thread, run_calls, engine, NULL);
        engine->has_callback_thread = code == CV_OK;
    }
    unlock(engine);
    return code;
}

void cv__engine_call(struct cv_engine *engine, struct cv_engine_job *job)
{
    lock(engine);
    CV_ASSERT(engine->has_callback_thread);
    queue_push(&engine->calls, job);
    (void)pthread_cond_broadcast(&engine->changed);
    unlock(engine);
}

/* With the lock. */
static bool is_inside_callback(const struct cv_engine *engine)
{
    return engine->has_callback_thread && pthread_equal(pthread_self(), engine->callback_thread);
}

void cv__engine_finish_call(struct cv_engine *engine, struct cv_engine_job *job)
{
    lock(engine);
    while ((job->is_queued || engine->running_call == job) && !is_inside_callback(engine)) {
        (void)pthread_cond_wait(&engine->changed, &engine->lock);
    }
    queue_remove(&engine->calls, job);
    unlock(engine);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

void cv__engine_join(struct cv_engine *engine)
{
    lock(engine);
    engine->election_count++;
    unlock(engine);
}

void cv__engine_leave(struct cv_engine *engine)
{
    lock(engine);
    CV_ASSERT(engine->election_count > 0);
    engine->election_count--;
    unlock(engine);
}

int cv_engine_new(struct cv_engine **ret_engine, struct cv_errtext *reterr)
{
    if (ret_engine == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "ret_engine must not be NULL");
    }
    struct cv_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    int code = cv__loop_init(&engine->loop, reterr);
    if (code != CV_OK) {
        free(engine);
        return code;
    }
    cv__mutex_init(&engine->lock);
    (void)pthread_cond_init(&engine->changed, NULL); /* with defaults it cannot fail */
    code = cv__wake_init(&engine->loop, &engine->wake, on_wake, engine, reterr);
    if (code != CV_OK) {
        release(engine);
        return code;
    }
    code = cv__timers_new(&engine->loop, &engine->timers, reterr);
    if (code == CV_OK) {
        code = cv__thread_start(&engine->thread, run_loop, engine, reterr);
    }
    if (code != CV_OK) {
        close_handles(engine);
        (void)run_loop(engine);
        release(engine);
        return code;
    }
    *ret_engine = engine;
    return CV_OK;
}

int cv_engine_free(struct cv_engine *engine)
{
    if (engine == NULL) {
        return CV_OK;
    }
    lock(engine);
    if (engine->election_count > 0) {
        unlock(engine);
        return CV_E_INVALID;
    }
    engine->must_stop = true;
    cv__wake_send(&engine->wake);
    unlock(engine);
    (void)pthread_join(engine->thread, NULL); /* ours, and joined once */
    lock(engine);
    engine->must_stop_calls = true;
    engine->must_free = is_inside_callback(engine);
    const bool must_join = engine->has_callback_thread && !engine->must_free;
    const pthread_t callback_thread = engine->callback_thread;
    (void)pthread_cond_broadcast(&engine->changed);
    const bool is_left_to_callback = engine->must_free;
    unlock(engine);
    if (is_left_to_callback) {
        (void)pthread_detach(callback_thread);
        return CV_OK;
    }
    if (must_join) {
        (void)pthread_join(callback_thread, NULL);
    }
    release(engine);
    return CV_OK;
}
