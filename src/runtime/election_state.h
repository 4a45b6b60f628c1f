/* src/runtime/election_state.h - one election, shared by its two files: election.c opens, closes
 * and passes requests on, election_publish.c publishes the reports of the backend and answers the
 * calls that read them. */
#ifndef CV_RUNTIME_ELECTION_STATE_H
#define CV_RUNTIME_ELECTION_STATE_H

#include "core/errors.h"
#include "runtime/backend.h"
#include "runtime/engine.h"

#include <pthread.h>
#include <stdatomic.h>

#define CV_LOG_LINES_MAX 16u /* more than one change causes; further lines are left out */
#define CV_LOG_BYTES (CV_ERRTEXT_BYTES + CV_ELECTION_BYTES)

/* Requests of the application that the engine's thread has not handled yet. */
struct cv_wanted {
    bool has_campaign, is_candidate;
    bool has_resign;
    enum cv_reason resign_reason;
    bool has_request; /* ask the leader to resign */
    bool has_heir;    /* for the resignation or the request */
    char heir[CV_NODE_BYTES];
    bool has_report[CV_INPUT_COUNT];
    int64_t report[CV_INPUT_COUNT];
    bool must_close;
};

/* Lines that the application's log function has not got yet: a ring. */
struct cv_log_lines {
    struct {
        enum cv_log_level level;
        char text[CV_LOG_BYTES];
    } line[CV_LOG_LINES_MAX];
    uint32_t first, count;
    uint32_t lost_count; /* left out because the ring was full */
};

struct cv_election {
    /* For cv_leads(): a reader that sees the same even number before and after has read one
     * leadership. valid_until_ns is 0 while not leading. */
    _Atomic uint32_t version;
    _Atomic uint64_t token;
    _Atomic int64_t valid_until_ns;
    _Atomic int64_t progress_ns; /* when it was elected, or cv_progress() was called last */

    struct cv_engine *engine;
    bool has_own_engine;
    struct cv_engine_job job;  /* on the loop's thread: handles the mailbox */
    struct cv_engine_job call; /* on the callbacks' thread: calls the application */
    uv_timer_t patience;
    uv_check_t turn; /* while closing: after each turn of the loop */
    const struct cv_backend_kind *kind;
    struct cv_backend *backend;
    int64_t progress_limit_ns;
    bool is_closing;
    bool is_being_closed; /* only for cv_close_all(), like the next */
    struct cv_election *next_to_close;
    bool is_gone; /* the engine's thread does not use it any more; see cv__engine_signal() */

    char name[CV_ELECTION_BYTES], node[CV_NODE_BYTES];
    char *address;
    int64_t lease_ns;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct cv_wanted wanted;
    struct cv_election_status status;
    uint64_t shown;    /* sequence number of the state that cv_status() returned last */
    bool is_resigning; /* until the engine's thread has handled it */
    int lifeline;      /* of the current leadership; owned by the backend */
    int change_fd;     /* -1: nobody asked for it yet */
    bool ignores_renewals;
    int64_t renewed_log_ns; /* when a renewal was last logged; 0: not in this leadership */
    void (*watch)(void *user, const struct cv_election_status *status);
    void *watch_user;
    uint64_t watched; /* sequence number of the state that `watch` was called with last */
    void (*log)(void *log_user, enum cv_log_level level, const char *line);
    void *log_user;
    struct cv_log_lines *lines; /* not NULL if `log` is not */
};

static inline void cv__election_lock(struct cv_election *e)
{
    const int failed = pthread_mutex_lock(&e->lock);
    CV_ASSERT(failed == 0);
}

static inline void cv__election_unlock(struct cv_election *e)
{
    const int failed = pthread_mutex_unlock(&e->lock);
    CV_ASSERT(failed == 0);
}

/* With the lock: the status has changed. Wakes the threads that wait for it. */
void cv__election_announce(struct cv_election *e);

/* With the lock: this process does not lead any more. */
void cv__election_end_leading(struct cv_election *e, enum cv_reason reason);

/* Fills in the functions of `setting` that publish the reports of the backend. */
void cv__election_hear(struct cv_election *e, struct cv_backend_setting *setting);

/* The job `call`: one callback to the application. For the next callback the job is queued again,
 * after those of other elections. Nothing of the election is used after the call. */
void cv__election_on_call(void *election);

#endif
