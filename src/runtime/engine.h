/* src/runtime/engine.h - a libuv loop in a thread, and a second thread for the application's
 * callbacks.
 *
 * Many elections live in one engine: they share its loop, its timer and the connections to servers
 * (stores/shared.h). Other threads reach the loop through jobs. A job is a part of its owner's
 * struct, is queued at most once and needs no memory, so posting one cannot fail.
 *
 * The callbacks' thread is started with the first callback. A callback may take any time: the loop
 * never waits for it.
 *
 * Locks: the engine's lock is taken last, and released before a job runs. */
#ifndef CV_RUNTIME_ENGINE_H
#define CV_RUNTIME_ENGINE_H

#include "runtime/timers.h"
#include "stores/shared.h"

#include <conclave/conclave.h>

#include <uv.h>

/* Invariant: in at most one queue, of the one engine it belongs to. */
struct cv_engine_job {
    struct cv_engine_job *next;
    bool is_queued;
    void (*run)(void *user);
    void *user;
};

/* On the loop's thread only. */
uv_loop_t *cv__engine_loop(struct cv_engine *engine);
struct cv_shared_list *cv__engine_shared(struct cv_engine *engine);
struct cv_timers *cv__engine_timers(struct cv_engine *engine);

/* Count the elections: an engine with elections cannot be freed. */
void cv__engine_join(struct cv_engine *engine);
void cv__engine_leave(struct cv_engine *engine);

/* Runs the job on the loop's thread, soon; a job that is queued already runs once. */
void cv__engine_post(struct cv_engine *engine, struct cv_engine_job *job);

/* Runs a function on the loop's thread, waits for it and returns what it returns. Not to be called
 * on that thread. */
int cv__engine_run(struct cv_engine *engine, int (*function)(void *user), void *user);

/* One thread waits until the other has called cv__engine_signal() for the same flag. */
void cv__engine_await(struct cv_engine *engine, const bool *flag);
void cv__engine_signal(struct cv_engine *engine, bool *flag);

/* Starts the callbacks' thread, unless it runs. CV_OK or CV_E_LIMIT. */
CV_NODISCARD int cv__engine_start_calls(struct cv_engine *engine);

/* Runs the job on the callbacks' thread, which has been started. */
void cv__engine_call(struct cv_engine *engine, struct cv_engine_job *job);

/* Waits until the job has run; only the job itself may still queue it. A callback cannot wait for
 * callbacks: called there, this removes a queued job instead. */
void cv__engine_finish_call(struct cv_engine *engine, struct cv_engine_job *job);

#endif
