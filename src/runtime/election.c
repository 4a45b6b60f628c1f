/* src/runtime/election.c - an election of the public header: a backend in an engine.
 *
 * The engine's thread owns everything of the backend. The application talks to it through a mailbox
 * of requests (the latest of each kind counts, so it never fills up) and reads what the thread has
 * published: the leadership itself in atomic words, for cv_is_leader() and cv_leads(), and the
 * whole status under a lock that is held for a copy only.
 *
 * Leading is published after it is known and ends by the clock: a reader compares the end with a
 * clock that it reads afterwards, so a thread that hangs, a process that was stopped and a machine
 * that slept make nobody a leader for too long. A resignation ends it in the caller's thread at
 * once; what the engine's thread may still hear of the old leadership is not published.
 *
 * Callbacks run on the engine's other thread, one call for each run of the job `call`, which
 * touches nothing of the election after the call: the application may have closed it there. */
#include "runtime/election.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "runtime/backend.h"
#include "runtime/engine.h"
#include "runtime/place.h"
#include "stores/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LEASE_NS_DEFAULT (5 * NS_PER_S)
#define CLOSE_MS_MAX 1000           /* cv_close() waits so long for the release */
#define WAIT_NS_MAX (60 * NS_PER_S) /* cv_wait() looks at the clock that often: see there */
#define LOG_LINES_MAX 16u           /* more than a change brings; beyond this lines are left out */
#define LOG_BYTES (CV_ERRTEXT_BYTES + CV_ELECTION_BYTES)
#define OPTIONS_BYTES_MAX 4096u /* no version of the options will be as large */

/* What the application wants of the engine's thread, and has not been done yet. */
struct wanted {
    bool has_campaign, is_candidate;
    bool has_resign;
    bool has_request; /* that the leader resign */
    bool has_heir;    /* of the resignation or the request */
    char heir[CV_NODE_BYTES];
    bool has_report[CV_INPUT_COUNT];
    int64_t report[CV_INPUT_COUNT];
    bool must_close;
};

/* Lines that the application's log function has not got yet: a ring. */
struct log {
    struct {
        enum cv_log_level level;
        char text[LOG_BYTES];
    } line[LOG_LINES_MAX];
    uint32_t first, count;
    uint32_t lost_count; /* since the ring was full */
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
    struct cv_engine_job job;  /* on the loop's thread: there is something in the mailbox */
    struct cv_engine_job call; /* on the callbacks' thread: there is something to tell */
    uv_timer_t patience;
    uv_check_t turn; /* while closing: after each turn of the loop */
    const struct cv_backend_kind *kind;
    struct cv_backend *backend;
    int64_t progress_limit_ns;
    bool is_closing;
    bool is_gone; /* the engine's thread has nothing of it any more; see cv__engine_signal() */

    char name[CV_ELECTION_BYTES], node[CV_NODE_BYTES];
    char *address;
    int64_t lease_ns;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct wanted wanted;
    struct cv_election_status status;
    uint64_t shown;    /* sequence number of the state that cv_status() returned last */
    bool is_resigning; /* until the engine's thread has heard of it */
    int lifeline;      /* of the present leadership; the backend's */
    int change_fd;     /* -1: nobody asked for it yet */
    void (*watch)(void *user, const struct cv_election_status *status);
    void *watch_user;
    uint64_t watched; /* sequence number of the state that `watch` was called with last */
    void (*log)(void *log_user, enum cv_log_level level, const char *line);
    void *log_user;
    struct log *lines; /* not NULL if `log` is not */
};

/* ---- What is published ----------------------------------------------------------------------- */

static void lock(struct cv_election *e)
{
    const int failed = pthread_mutex_lock(&e->lock);
    CV_ASSERT(failed == 0);
}

static void unlock(struct cv_election *e)
{
    const int failed = pthread_mutex_unlock(&e->lock);
    CV_ASSERT(failed == 0);
}

/* With the lock: one writer at a time. */
static void publish_leadership(struct cv_election *e, uint64_t token, int64_t valid_until_ns)
{
    const uint32_t version = atomic_load_explicit(&e->version, memory_order_relaxed);
    atomic_store_explicit(&e->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->token, token, memory_order_relaxed);
    atomic_store_explicit(&e->valid_until_ns, valid_until_ns, memory_order_relaxed);
    atomic_store_explicit(&e->version, version + 2, memory_order_release);
}

static void tell_fd(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one); /* full is as good as one: it stays readable */
}

/* With the lock: the status has changed. */
static void announce(struct cv_election *e)
{
    e->status.sequence++;
    if (e->change_fd >= 0) {
        tell_fd(e->change_fd);
    }
    (void)pthread_cond_broadcast(&e->changed); /* cannot fail */
    if (e->watch != NULL) {
        cv__engine_call(e->engine, &e->call);
    }
}

static void log_line(struct cv_election *e, enum cv_log_level level, const char *format, ...)
    CV_PRINTF(3, 4);

/* With the lock: queues a line for the application, if it wants any. */
static void log_line(struct cv_election *e, enum cv_log_level level, const char *format, ...)
{
    if (e->log == NULL) {
        return;
    }
    struct log *lines = e->lines;
    if (lines->count == LOG_LINES_MAX) {
        lines->lost_count++;
        return;
    }
    const uint32_t at = (lines->first + lines->count++) % LOG_LINES_MAX;
    char *text = lines->line[at].text;
    const int length = snprintf(text, LOG_BYTES, "%s: ", e->name);
    CV_ASSERT(length > 0 && length < LOG_BYTES); /* a name is shorter */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + length, LOG_BYTES - (size_t)length, format, args); /* or cut */
    va_end(args);
    lines->line[at].level = level;
    cv__engine_call(e->engine, &e->call);
}

/* With the lock: this process does not lead any more. */
static void end_leading(struct cv_election *e, enum cv_reason reason)
{
    publish_leadership(e, 0, 0);
    if (e->status.role == CV_ROLE_LEADER) {
        log_line(e, CV_LOG_INFO, "leads no more (%s)", cv_reason_name(reason));
    }
    e->lifeline = -1;
    e->status.role =
        e->wanted.has_campaign && !e->wanted.is_candidate ? CV_ROLE_OBSERVER : CV_ROLE_WAITING;
    e->status.leader[0] = '\0';
    e->status.valid_until_ns = 0;
    e->status.has_majority = false;
    e->status.is_resign_requested = false;
    e->status.reason = reason;
}

/* With the lock. */
static void lead(struct cv_election *e, const struct cv_leadership *leadership, int lifeline)
{
    struct cv_election_status *s = &e->status;
    const bool is_new = s->role != CV_ROLE_LEADER || s->token != leadership->token;
    s->role = CV_ROLE_LEADER;
    s->is_resign_requested = s->is_resign_requested && !is_new;
    s->valid_until_ns = leadership->valid_until_ns;
    s->has_majority = leadership->has_majority;
    e->lifeline = lifeline;
    if (is_new) { /* the application learns of it now: its time to make progress begins */
        cv_progress(e);
    }
    /* Without a lease it ends when the backend says so: that is all that was promised. */
    const int64_t until_ns = leadership->valid_until_ns;
    publish_leadership(e, leadership->token, until_ns != 0 ? until_ns : INT64_MAX);
    log_line(e, is_new ? CV_LOG_INFO : CV_LOG_DEBUG, "%s, token %llu",
             is_new ? "this process leads" : "renewed", (unsigned long long)leadership->token);
}

static void on_told(void *user, const struct cv_leadership *leadership, const char *leader)
{
    struct cv_election *e = user;
    const bool is_leading = leadership->is_self;
    const int lifeline = is_leading && e->backend != NULL ? e->kind->inherit(e->backend) : -1;
    lock(e);
    struct cv_election_status *s = &e->status;
    if (is_leading && e->is_resigning) {
        unlock(e); /* it has resigned; the engine's thread will see that in a moment */
        return;
    }
    if (is_leading) {
        lead(e, leadership, lifeline);
    } else if (s->role == CV_ROLE_LEADER) {
        end_leading(e, leadership->reason);
    } else if (leader[0] != '\0' && strcmp(leader, s->leader) != 0) {
        log_line(e, CV_LOG_INFO, "%s leads, token %llu", leader,
                 (unsigned long long)leadership->token);
    } else if (leader[0] == '\0' && s->leader[0] != '\0') {
        log_line(e, CV_LOG_INFO, "nobody leads (%s)", cv_reason_name(leadership->reason));
    }
    if (leadership->token != 0) {
        s->token = leadership->token;
    }
    s->reason = leadership->reason;
    (void)snprintf(s->leader, sizeof s->leader, "%s", leader);
    announce(e);
    unlock(e);
}

static void on_resign_requested(void *user, const char *heir)
{
    struct cv_election *e = user;
    lock(e);
    if (e->status.role == CV_ROLE_LEADER) {
        e->status.is_resign_requested = true;
        (void)snprintf(e->status.heir, sizeof e->status.heir, "%s", heir);
        log_line(e, CV_LOG_INFO, "asked to resign in favour of %s",
                 heir[0] != '\0' ? heir : "anybody");
        announce(e);
    }
    unlock(e);
}

static void on_trouble(void *user, const char *line)
{
    struct cv_election *e = user;
    lock(e);
    if (strcmp(e->status.trouble, line) != 0) {
        (void)snprintf(e->status.trouble, sizeof e->status.trouble, "%s", line);
        if (line[0] != '\0') {
            log_line(e, CV_LOG_WARNING, "%s", line);
        } else {
            log_line(e, CV_LOG_INFO, "the trouble is over");
        }
        announce(e);
    }
    unlock(e);
}

static void on_log(void *user, const char *line)
{
    struct cv_election *e = user;
    lock(e);
    log_line(e, CV_LOG_NOTICE, "%s", line);
    unlock(e);
}

static bool has_progress(void *user)
{
    const struct cv_election *e = user;
    const int64_t at_ns = atomic_load_explicit(&e->progress_ns, memory_order_relaxed);
    return e->progress_limit_ns == 0 || cv__clock_now_ns() - at_ns <= e->progress_limit_ns;
}

/* With the lock: the status as it is by the clock. */
static struct cv_election_status view(const struct cv_election *e)
{
    struct cv_election_status now = e->status;
    if (now.role == CV_ROLE_LEADER && !cv_is_leader(e)) {
        /* Its time is over, though the engine's thread did not get to say so yet. */
        now.role = CV_ROLE_WAITING;
        now.leader[0] = '\0';
        now.valid_until_ns = 0;
        now.has_majority = false;
        now.reason = CV_REASON_EXPIRED;
    }
    return now;
}

/* ---- The thread for callbacks ---------------------------------------------------------------- */

/* With the lock: takes the oldest line for the application. */
static enum cv_log_level log_take(struct cv_election *e, char ret_text[LOG_BYTES])
{
    struct log *lines = e->lines;
    if (lines->count == 0) {
        (void)snprintf(ret_text, LOG_BYTES, "%s: %u lines were left out here", e->name,
                       (unsigned)lines->lost_count);
        lines->lost_count = 0;
        return CV_LOG_WARNING;
    }
    const uint32_t at = lines->first;
    memcpy(ret_text, lines->line[at].text, LOG_BYTES);
    lines->first = (at + 1) % LOG_LINES_MAX;
    lines->count--;
    return lines->line[at].level;
}

/* With the lock. */
static bool has_lines(const struct cv_election *e)
{
    return e->log != NULL && (e->lines->count > 0 || e->lines->lost_count > 0);
}

static bool has_unwatched(const struct cv_election *e)
{
    return e->watch != NULL && e->status.sequence != e->watched;
}

/* One call of the application; for the next one the job is queued again, behind those of other
 * elections. Nothing of the election is used after the call. */
static void on_call(void *user)
{
    struct cv_election *e = user;
    lock(e);
    if (has_lines(e)) {
        char text[LOG_BYTES];
        const enum cv_log_level level = log_take(e, text);
        void (*const log)(void *, enum cv_log_level, const char *) = e->log;
        void *const log_user = e->log_user;
        if (has_lines(e) || has_unwatched(e)) {
            cv__engine_call(e->engine, &e->call);
        }
        unlock(e);
        log(log_user, level, text);
    } else if (has_unwatched(e)) {
        const struct cv_election_status status = view(e);
        void (*const watch)(void *, const struct cv_election_status *) = e->watch;
        void *const watch_user = e->watch_user;
        e->watched = status.sequence;
        unlock(e);
        watch(watch_user, &status);
    } else {
        unlock(e);
    }
}

/* ---- The loop's thread ----------------------------------------------------------------------- */

static void on_turn_closed(uv_handle_t *turn)
{
    struct cv_election *e = turn->data;
    cv__engine_signal(e->engine, &e->is_gone); /* the closing thread frees it now */
}

static void on_patience_closed(uv_handle_t *patience)
{
    struct cv_election *e = patience->data;
    uv_close((uv_handle_t *)&e->turn, on_turn_closed);
}

static void on_backend_closed(void *user)
{
    struct cv_election *e = user;
    e->backend = NULL;
    uv_close((uv_handle_t *)&e->patience, on_patience_closed);
}

static void close_end(struct cv_election *e)
{
    (void)uv_timer_stop(&e->patience); /* these two never fail */
    (void)uv_check_stop(&e->turn);
    e->kind->close(e->backend, on_backend_closed, e);
}

static void on_patience(uv_timer_t *timer)
{
    close_end(timer->data);
}

/* The answer to the release, if there is one to wait for, came in a turn like any other. */
static void on_turn(uv_check_t *turn)
{
    struct cv_election *e = turn->data;
    if (e->kind->is_released(e->backend)) {
        close_end(e);
    }
}

/* Waits until the others know, but not for long: the lease will tell them otherwise. */
static void close_begin(struct cv_election *e)
{
    e->is_closing = true;
    e->kind->campaign(e->backend, false);
    uv_update_time(cv__engine_loop(e->engine)); /* the turn may have begun long ago */
    (void)uv_timer_start(&e->patience, on_patience, CLOSE_MS_MAX, 0); /* have callbacks: ... */
    (void)uv_check_start(&e->turn, on_turn);                          /* ... cannot fail */
}

static void on_job(void *user)
{
    struct cv_election *e = user;
    lock(e);
    const struct wanted wanted = e->wanted;
    memset(&e->wanted, 0, sizeof e->wanted);
    unlock(e);
    if (e->is_closing) {
        return;
    }
    const char *heir = wanted.has_heir ? wanted.heir : NULL;
    if (wanted.has_resign) {
        e->kind->resign(e->backend, heir);
    }
    if (wanted.has_campaign) {
        e->kind->campaign(e->backend, wanted.is_candidate);
    }
    if (wanted.has_resign || wanted.has_campaign) {
        lock(e);
        const bool is_leaving = e->wanted.has_campaign && !e->wanted.is_candidate;
        e->is_resigning = e->wanted.has_resign || is_leaving || e->wanted.must_close;
        unlock(e); /* it was called again meanwhile */
    }
    if (wanted.has_request) {
        e->kind->request_resign(e->backend, heir);
    }
    for (uint32_t i = 0; i < CV_INPUT_COUNT; i++) {
        if (wanted.has_report[i]) {
            e->kind->report(e->backend, (enum cv_input)i, wanted.report[i]);
        }
    }
    if (wanted.must_close) {
        close_begin(e);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static bool node_name_is_valid(const char *name)
{
    return strlen(name) < CV_NODE_BYTES && cv__election_name_is_valid(name) &&
           strcmp(name, "*") != 0; /* which means anybody */
}

int cv__node_name(char ret_node[CV_NODE_BYTES], const char *wanted, struct cv_errtext *reterr)
{
    if (wanted != NULL) {
        if (!node_name_is_valid(wanted)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "the node's name must be 1 to %d bytes of text, and not '*'",
                            CV_NODE_BYTES - 1);
        }
        (void)snprintf(ret_node, CV_NODE_BYTES, "%s", wanted);
        return CV_OK;
    }
    char host[HOST_NAME_MAX + 1] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof host, "localhost");
    }
    (void)snprintf(ret_node, CV_NODE_BYTES, "%.100s:%ld", host, (long)getpid());
    return CV_OK;
}

static int check(struct cv_election *e, const char *name, const char *address,
                 const struct cv_election_options *options, struct cv_errtext *reterr)
{
    if (!cv__election_name_is_valid(name)) {
        return cv__fail(
            reterr, CV_E_INVALID,
            "an election's name must be 1 to %d bytes of text without control characters",
            CV_ELECTION_BYTES - 1);
    }
    (void)snprintf(e->name, sizeof e->name, "%s", name);
    if (options->lease_ns < 0 || options->progress_ns < 0) {
        return cv__fail(reterr, CV_E_INVALID, "a time must not be negative");
    }
    e->lease_ns = options->lease_ns != 0 ? options->lease_ns : LEASE_NS_DEFAULT;
    e->progress_limit_ns = options->progress_ns;
    atomic_store_explicit(&e->progress_ns, cv__clock_now_ns(), memory_order_relaxed);
    int code = cv__node_name(e->node, options->node, reterr);
    if (code == CV_OK) {
        code = cv__place_address(address, &e->address, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    struct cv_backend_contract contract;
    code = cv__backend_find(e->address, options->accepts_two_leaders, &e->kind, &contract, reterr);
    if (code == CV_OK && !contract.has_lease &&
        (options->lease_ns != 0 || options->progress_ns != 0)) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%.*s' has no lease that could be set or held back; its times are options "
                        "of the address",
                        (int)strcspn(e->address, "?"), e->address);
    }
    return code;
}

static void free_all(struct cv_election *e)
{
    if (e->change_fd >= 0) {
        (void)close(e->change_fd);
    }
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->lock);
    free(e->lines);
    free(e->address);
    free(e);
}

/* What cv_open() lends to the loop's thread. */
struct opening {
    struct cv_election *election;
    bool is_candidate;
    bool has_descendants;
    struct cv_errtext *reterr;
};

static int open_on_loop(void *user)
{
    const struct opening *opening = user;
    struct cv_election *e = opening->election;
    uv_loop_t *loop = cv__engine_loop(e->engine);
    const struct cv_backend_setting setting = {
        .loop = loop,
        .shared = cv__engine_shared(e->engine),
        .timers = cv__engine_timers(e->engine),
        .address = e->address,
        .election = e->name,
        .node = e->node,
        .lease_ns = e->lease_ns,
        .is_candidate = opening->is_candidate,
        .has_descendants = opening->has_descendants,
        .user = e,
        .told = on_told,
        .resign_requested = on_resign_requested,
        .trouble = on_trouble,
        .log = on_log,
        .has_progress = has_progress,
    };
    const int code = e->kind->open(&e->backend, &setting, opening->reterr);
    if (code == CV_OK) {
        lock(e);
        (void)snprintf(e->status.self, sizeof e->status.self, "%s", e->kind->self(e->backend));
        unlock(e);
        (void)uv_timer_init(loop, &e->patience); /* cannot fail */
        (void)uv_check_init(loop, &e->turn);     /* likewise */
        e->patience.data = e;
        e->turn.data = e;
    }
    return code;
}

/* The application's options as this version knows them. Fields that an older program does not have
 * are zero; a field that this library does not know must be. */
static int options_read(const struct cv_election_options *given,
                        struct cv_election_options *ret_options, struct cv_errtext *reterr)
{
    static const struct cv_election_options defaults = CV_ELECTION_OPTIONS_INIT;
    *ret_options = defaults;
    if (given == NULL) {
        return CV_OK;
    }
    if (given->size < sizeof given->size || given->size > OPTIONS_BYTES_MAX ||
        given->size % _Alignof(struct cv_election_options) != 0) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the size of the options is not set; begin with CV_ELECTION_OPTIONS_INIT");
    }
    const unsigned char *byte = (const unsigned char *)given;
    for (size_t i = sizeof *ret_options; i < given->size; i++) {
        if (byte[i] != 0) {
            return cv__fail(reterr, CV_E_INVALID,
                            "an option is set that this version of libconclave (%s) does not know",
                            CV_VERSION);
        }
    }
    memcpy(ret_options, given, given->size < sizeof *given ? given->size : sizeof *given);
    return CV_OK;
}

/* The engine and, for a log, its thread for callbacks. */
static int engine_enter(struct cv_election *e, const struct cv_election_options *options,
                        struct cv_errtext *reterr)
{
    int code = CV_OK;
    e->engine = options->engine;
    if (e->engine == NULL) {
        code = cv_engine_new(&e->engine, reterr);
        e->has_own_engine = code == CV_OK;
    }
    if (code == CV_OK && options->log != NULL) {
        e->lines = calloc(1, sizeof *e->lines);
        code = e->lines != NULL ? cv__engine_start_calls(e->engine) : CV_E_MEMORY;
        e->log = options->log;
        e->log_user = options->log_user;
        if (code != CV_OK) {
            code = cv__fail(reterr, code, "no memory or thread for the log");
        }
    }
    return code;
}

/* It has left the loop, or never was there. */
static void engine_exit(struct cv_election *e)
{
    if (e->has_own_engine) {
        const int code = cv_engine_free(e->engine);
        CV_ASSERT(code == CV_OK); /* it was the only election there */
    }
}

static struct cv_election *election_new(void)
{
    struct cv_election *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    e->lifeline = -1;
    e->change_fd = -1;
    e->status.size = sizeof e->status;
    e->job = (struct cv_engine_job){.run = on_job, .user = e};
    e->call = (struct cv_engine_job){.run = on_call, .user = e};
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes); /* none of these can fail on Linux */
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&e->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&e->lock, NULL);
    return e;
}

static int open_election(struct cv_election **ret_election, const char *name, const char *address,
                         const struct cv_election_options *given, bool has_descendants,
                         struct cv_errtext *reterr)
{
    struct cv_election_options options;
    if (ret_election == NULL || name == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "an election needs a name");
    }
    int code = options_read(given, &options, reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_election *e = election_new();
    if (e == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    e->status.role = options.is_observer ? CV_ROLE_OBSERVER : CV_ROLE_WAITING;
    code = check(e, name, address, &options, reterr);
    if (code == CV_OK) {
        code = engine_enter(e, &options, reterr);
    }
    if (code == CV_OK) {
        struct opening opening = {e, !options.is_observer, has_descendants, reterr};
        cv__engine_join(e->engine);
        code = cv__engine_run(e->engine, open_on_loop, &opening);
        if (code != CV_OK) {
            cv__engine_leave(e->engine);
        }
    }
    if (code != CV_OK) {
        if (e->engine != NULL) {
            cv__engine_finish_call(e->engine, &e->call);
        }
        engine_exit(e);
        free_all(e);
        return code;
    }
    *ret_election = e;
    return CV_OK;
}

int cv_open(struct cv_election **ret_election, const char *name, const char *address,
            const struct cv_election_options *options, struct cv_errtext *reterr)
{
    return open_election(ret_election, name, address, options, /* has_descendants= */ false,
                         reterr);
}

int cv__election_open(struct cv_election **ret_election, const char *name, const char *address,
                      const struct cv_election_options *options, struct cv_errtext *reterr)
{
    return open_election(ret_election, name, address, options, /* has_descendants= */ true, reterr);
}

void cv_close(struct cv_election *e)
{
    if (e == NULL) {
        return;
    }
    lock(e);
    e->is_resigning = true;
    e->wanted.must_close = true;
    e->watch = NULL;
    end_leading(e, CV_REASON_RESIGNED);
    unlock(e);
    cv__engine_post(e->engine, &e->job);
    cv__engine_await(e->engine, &e->is_gone);
    cv__engine_finish_call(e->engine, &e->call); /* nobody queues it any more */
    cv__engine_leave(e->engine);
    engine_exit(e);
    free_all(e);
}

/* ---- Questions and requests ------------------------------------------------------------------ */

const char *cv_role_name(enum cv_role role)
{
    switch (role) {
    case CV_ROLE_OBSERVER:
        return "observer";
    case CV_ROLE_WAITING:
        return "waiting";
    case CV_ROLE_LEADER:
        return "leader";
    }
    return "unknown";
}

bool cv_is_leader(const struct cv_election *e)
{
    if (e == NULL) {
        return false;
    }
    const int64_t until_ns = atomic_load_explicit(&e->valid_until_ns, memory_order_acquire);
    return until_ns != 0 && cv__clock_now_ns() < until_ns;
}

bool cv_leads(const struct cv_election *e, uint64_t *ret_token, int64_t *ret_left_ns)
{
    uint64_t token;
    int64_t until_ns;
    uint32_t version;
    if (e == NULL) {
        return false;
    }
    do {
        version = atomic_load_explicit(&e->version, memory_order_acquire);
        token = atomic_load_explicit(&e->token, memory_order_relaxed);
        until_ns = atomic_load_explicit(&e->valid_until_ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while (version % 2 != 0 ||
             version != atomic_load_explicit(&e->version, memory_order_relaxed));
    const int64_t left_ns = until_ns != 0 ? until_ns - cv__clock_now_ns() : 0;
    if (left_ns <= 0) {
        return false;
    }
    if (ret_token != NULL) {
        *ret_token = token;
    }
    if (ret_left_ns != NULL) {
        *ret_left_ns = left_ns;
    }
    return true;
}

int cv_status(struct cv_election *e, struct cv_election_status *ret_status)
{
    if (e == NULL || ret_status == NULL || ret_status->size < sizeof ret_status->size) {
        return CV_E_INVALID;
    }
    lock(e);
    struct cv_election_status now = view(e);
    e->shown = now.sequence;
    if (e->change_fd >= 0) {
        uint64_t count;
        (void)!read(e->change_fd, &count, sizeof count); /* quiet until the next change */
    }
    unlock(e);
    now.size = ret_status->size < sizeof now ? ret_status->size : sizeof now;
    memcpy(ret_status, &now, now.size);
    return CV_OK;
}

int cv_fd(struct cv_election *e)
{
    if (e == NULL) {
        return CV_E_INVALID;
    }
    lock(e);
    if (e->change_fd < 0) {
        e->change_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (e->change_fd >= 0 && e->status.sequence != e->shown) {
            tell_fd(e->change_fd);
        }
    }
    const int fd = e->change_fd >= 0 ? e->change_fd : CV_E_LIMIT;
    unlock(e);
    return fd;
}

/* With the lock. */
static bool is_so(const struct cv_election *e, enum cv_until until)
{
    switch (until) {
    case CV_UNTIL_LEADING:
        return cv_is_leader(e);
    case CV_UNTIL_NOT_LEADING:
        return !cv_is_leader(e);
    case CV_UNTIL_LEADER:
        return e->status.role == CV_ROLE_LEADER ? cv_is_leader(e) : e->status.leader[0] != '\0';
    }
    return false;
}

/* With the lock: until something changes, but not longer than that. A condition cannot wait on
 * CLOCK_BOOTTIME; the bound keeps small what the machine's sleep adds. */
static void wait_for_change(struct cv_election *e, int64_t wait_ns)
{
    const uint64_t at_ns = uv_hrtime() + (uint64_t)cv__min64(wait_ns, WAIT_NS_MAX);
    const struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_S),
                                .tv_nsec = (long)(at_ns % NS_PER_S)};
    (void)pthread_cond_timedwait(&e->changed, &e->lock, &at); /* the caller looks again */
}

int cv_wait(struct cv_election *e, enum cv_until until, int64_t timeout_ns)
{
    if (e == NULL || (uint32_t)until > CV_UNTIL_LEADER || timeout_ns < 0) {
        return CV_E_INVALID;
    }
    const int64_t begin_ns = cv__clock_now_ns();
    const int64_t end_ns = timeout_ns < INT64_MAX - begin_ns ? begin_ns + timeout_ns : INT64_MAX;
    int code = CV_OK;
    lock(e);
    while (!is_so(e, until)) {
        const int64_t now_ns = cv__clock_now_ns();
        if (now_ns >= end_ns) {
            code = CV_E_TIMEOUT;
            break;
        }
        /* A leadership ends by the clock, also if nobody announces it. */
        const int64_t until_ns = atomic_load_explicit(&e->valid_until_ns, memory_order_relaxed);
        const int64_t look_ns = until_ns > now_ns ? cv__min64(until_ns, end_ns) : end_ns;
        wait_for_change(e, look_ns - now_ns);
    }
    unlock(e);
    return code;
}

int cv_watch(struct cv_election *e,
             void (*changed)(void *user, const struct cv_election_status *status), void *user)
{
    if (e == NULL || changed == NULL) {
        return CV_E_INVALID;
    }
    lock(e);
    int code = e->watch != NULL ? CV_E_INVALID : cv__engine_start_calls(e->engine);
    if (code == CV_OK) {
        e->watch = changed;
        e->watch_user = user;
        cv__engine_call(e->engine, &e->call);
    }
    unlock(e);
    return code;
}

/* With the lock. False: no node can have this name. */
static bool heir_set(struct wanted *wanted, const char *heir)
{
    wanted->has_heir = false;
    if (heir == NULL || heir[0] == '\0') {
        return true;
    }
    if (!node_name_is_valid(heir)) {
        return false;
    }
    (void)snprintf(wanted->heir, sizeof wanted->heir, "%s", heir);
    wanted->has_heir = true;
    return true;
}

int cv_campaign(struct cv_election *e, bool is_candidate)
{
    if (e == NULL) {
        return CV_E_INVALID;
    }
    lock(e);
    e->wanted.has_campaign = true;
    e->wanted.is_candidate = is_candidate;
    if (!is_candidate && e->status.role == CV_ROLE_LEADER) {
        e->is_resigning = true;
        end_leading(e, CV_REASON_RESIGNED);
    } else if (e->status.role != CV_ROLE_LEADER) {
        e->status.role = is_candidate ? CV_ROLE_WAITING : CV_ROLE_OBSERVER;
    }
    announce(e);
    unlock(e);
    cv__engine_post(e->engine, &e->job);
    return CV_OK;
}

int cv_resign(struct cv_election *e, const char *heir)
{
    if (e == NULL) {
        return CV_E_INVALID;
    }
    lock(e);
    e->wanted.has_resign = true;
    const bool is_valid = heir_set(&e->wanted, heir);
    if (e->status.role == CV_ROLE_LEADER) {
        e->is_resigning = true;
        end_leading(e, CV_REASON_RESIGNED);
        announce(e);
    }
    unlock(e);
    cv__engine_post(e->engine, &e->job);
    return is_valid ? CV_OK : CV_E_INVALID;
}

int cv_request_resign(struct cv_election *e, const char *heir)
{
    if (e == NULL || (heir != NULL && heir[0] != '\0' && !node_name_is_valid(heir))) {
        return CV_E_INVALID;
    }
    lock(e);
    e->wanted.has_request = true;
    (void)heir_set(&e->wanted, heir); /* it was checked */
    unlock(e);
    cv__engine_post(e->engine, &e->job);
    return CV_OK;
}

void cv_progress(struct cv_election *e)
{
    if (e != NULL) {
        atomic_store_explicit(&e->progress_ns, cv__clock_now_ns(), memory_order_relaxed);
    }
}

int cv_report(struct cv_election *e, enum cv_input input, int64_t value)
{
    if (e == NULL || (uint32_t)input >= CV_INPUT_COUNT) {
        return CV_E_INVALID;
    }
    lock(e);
    e->wanted.has_report[input] = true;
    e->wanted.report[input] = value;
    unlock(e);
    cv__engine_post(e->engine, &e->job);
    return CV_OK;
}

int cv__election_lifeline(struct cv_election *e)
{
    lock(e);
    const int copy = e->lifeline >= 0 ? fcntl(e->lifeline, F_DUPFD_CLOEXEC, 3) : -1;
    unlock(e);
    return copy;
}
