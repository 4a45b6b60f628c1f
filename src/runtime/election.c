/* src/runtime/election.c - an election of the public header: a thread, a loop, a backend.
 *
 * The thread owns everything of the backend. The application talks to it through a letter box of
 * wishes (the latest of each kind counts, so it never fills up) and reads what the thread has
 * published: the leadership itself in atomic words, for cv_is_leader() and cv_lead(), and the whole
 * status under a lock that is held for a copy only.
 *
 * Leading is published after it is known and ends by the clock: a reader compares the end with a
 * clock that it reads afterwards, so a thread that hangs, a process that was stopped and a machine
 * that slept make nobody a leader for too long. A resignation ends it in the caller's thread at
 * once; what the election's thread may still hear of the old leadership is not published. */
#include "runtime/election.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "runtime/backend.h"
#include "runtime/place.h"
#include "stores/store.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LEASE_NS_DEFAULT (5 * NS_PER_S)
#define STACK_BYTES ((size_t)256 * 1024) /* the thread's; SQLite and libpq need a tenth of it */
#define CLOSE_MS_MAX 1000                /* cv_close() waits so long for the release */

/* What the application wants of the thread, and has not been done yet. */
struct wanted {
    bool has_campaign, is_candidate;
    bool has_resign;
    bool has_wish;
    bool has_heir; /* of the resignation or the wish */
    char heir[CV_NODE_BYTES];
    bool has_report[CV_INPUT_COUNT];
    int64_t report[CV_INPUT_COUNT];
    bool must_close;
};

struct cv_election {
    /* For cv_lead(): a reader that sees the same even number before and after has read one
     * leadership. valid_until_ns is 0 while not leading. */
    _Atomic uint32_t version;
    _Atomic uint64_t token;
    _Atomic int64_t valid_until_ns;
    _Atomic int64_t progress_ns; /* when cv_progress() was called last */

    pthread_t thread;
    uv_loop_t loop;
    struct cv_shared_list shared;
    uv_async_t knock; /* there is something in the letter box */
    uv_timer_t patience;
    uv_check_t turn; /* while closing: after each turn of the loop */
    const struct cv_backend_kind *kind;
    struct cv_backend *backend;
    int64_t progress_limit_ns;
    bool is_closing;
    void (*log)(void *user, const char *line);
    void *log_user;

    char name[CV_ELECTION_BYTES], node[CV_NODE_BYTES];
    char *address;
    int64_t lease_ns;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct wanted wanted;
    struct cv_election_status status;
    bool is_resigning; /* until the thread has heard of it */
    int lifeline;      /* of the present leadership; the backend's */
    int change_fd;
    bool is_watched, is_over;
    pthread_t watcher;
    void (*watch)(void *user, const struct cv_election_status *status);
    void *watch_user;
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

/* With the lock: the status has changed. */
static void announce(struct cv_election *e)
{
    e->status.sequence++;
    const uint64_t one = 1;
    /* Full is as good as one: it stays readable. */
    (void)!write(e->change_fd, &one, sizeof one);
    (void)pthread_cond_broadcast(&e->changed); /* cannot fail */
}

/* With the lock: this process does not lead any more. */
static void end_leading(struct cv_election *e, enum cv_reason reason)
{
    publish_leadership(e, 0, 0);
    e->lifeline = -1;
    e->status.role =
        e->wanted.has_campaign && !e->wanted.is_candidate ? CV_ROLE_OBSERVER : CV_ROLE_WAITING;
    e->status.leader[0] = '\0';
    e->status.valid_until_ns = 0;
    e->status.has_majority = false;
    e->status.is_wished_away = false;
    e->status.reason = reason;
}

static void on_told(void *user, const struct cv_leadership *leadership, const char *leader)
{
    struct cv_election *e = user;
    const bool is_leading = leadership->is_self;
    const int lifeline = is_leading && e->backend != NULL ? e->kind->inherit(e->backend) : -1;
    lock(e);
    struct cv_election_status *s = &e->status;
    if (is_leading && e->is_resigning) {
        unlock(e); /* it has resigned; the thread will see that in a moment */
        return;
    }
    if (is_leading) {
        const bool is_new = s->role != CV_ROLE_LEADER || s->token != leadership->token;
        s->role = CV_ROLE_LEADER;
        s->is_wished_away = s->is_wished_away && !is_new;
        s->valid_until_ns = leadership->valid_until_ns;
        s->has_majority = leadership->has_majority;
        e->lifeline = lifeline;
        /* Without a lease it ends when the backend says so: that is all that was promised. */
        const int64_t until_ns = leadership->valid_until_ns;
        publish_leadership(e, leadership->token, until_ns != 0 ? until_ns : INT64_MAX);
    } else if (s->role == CV_ROLE_LEADER) {
        end_leading(e, leadership->reason);
    }
    if (leadership->token != 0) {
        s->token = leadership->token;
    }
    s->reason = leadership->reason;
    (void)snprintf(s->leader, sizeof s->leader, "%s", leader);
    announce(e);
    unlock(e);
}

static void on_wished(void *user, const char *heir)
{
    struct cv_election *e = user;
    lock(e);
    if (e->status.role == CV_ROLE_LEADER) {
        e->status.is_wished_away = true;
        (void)snprintf(e->status.heir, sizeof e->status.heir, "%s", heir);
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
        announce(e);
    }
    unlock(e);
}

static void on_log(void *user, const char *line)
{
    const struct cv_election *e = user;
    if (e->log != NULL) {
        e->log(e->log_user, line);
    }
}

static bool has_progress(void *user)
{
    const struct cv_election *e = user;
    const int64_t at_ns = atomic_load_explicit(&e->progress_ns, memory_order_relaxed);
    return e->progress_limit_ns == 0 || cv__clock_now_ns() - at_ns <= e->progress_limit_ns;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void on_backend_closed(void *user)
{
    struct cv_election *e = user;
    e->backend = NULL;
    uv_close((uv_handle_t *)&e->knock, NULL);
    uv_close((uv_handle_t *)&e->patience, NULL);
    uv_close((uv_handle_t *)&e->turn, NULL);
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
    (void)uv_timer_start(&e->patience, on_patience, CLOSE_MS_MAX, 0); /* have callbacks: ... */
    (void)uv_check_start(&e->turn, on_turn);                          /* ... cannot fail */
}

static void on_knock(uv_async_t *knock)
{
    struct cv_election *e = knock->data;
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
        e->is_resigning = e->wanted.has_resign || is_leaving; /* it was called again meanwhile */
        unlock(e);
    }
    if (wanted.has_wish) {
        e->kind->wish(e->backend, heir);
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

static void *run(void *data)
{
    struct cv_election *e = data;
    (void)uv_run(&e->loop, UV_RUN_DEFAULT); /* until every handle is closed */
    return NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int cv__node_name(char ret_node[CV_NODE_BYTES], const char *wanted, struct cv_errtext *reterr)
{
    if (wanted != NULL) {
        if (strlen(wanted) >= CV_NODE_BYTES || !cv__election_name_is_valid(wanted) ||
            strcmp(wanted, "*") == 0) {
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
    e->log = options->log;
    e->log_user = options->log_user;
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

/* The thread is for elections: signals are for the application's threads. */
static int thread_start(pthread_t *ret_thread, void *(*function)(void *), void *data)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return CV_E_MEMORY;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* a valid size */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);         /* cannot fail */
    const int failed = pthread_create(ret_thread, &attributes, function, data);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed == 0 ? CV_OK : CV_E_MEMORY;
}

static void free_all(struct cv_election *e)
{
    if (e->change_fd >= 0) {
        (void)close(e->change_fd);
    }
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->lock);
    free(e->address);
    free(e);
}

/* Closes whatever a half-built loop has, and the loop itself. */
static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void loop_end(struct cv_election *e)
{
    uv_walk(&e->loop, close_handle, NULL);
    (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    const int busy = uv_loop_close(&e->loop);
    CV_ASSERT(busy == 0); /* every handle was closed */
}

static int backend_open(struct cv_election *e, bool is_candidate, struct cv_errtext *reterr)
{
    const struct cv_backend_setting setting = {
        .loop = &e->loop,
        .shared = &e->shared,
        .address = e->address,
        .election = e->name,
        .node = e->node,
        .lease_ns = e->lease_ns,
        .is_candidate = is_candidate,
        .has_descendants = true,
        .user = e,
        .told = on_told,
        .wished = on_wished,
        .trouble = on_trouble,
        .log = on_log,
        .has_progress = has_progress,
    };
    const int code = e->kind->open(&e->backend, &setting, reterr);
    if (code == CV_OK) {
        (void)snprintf(e->status.self, sizeof e->status.self, "%s", e->kind->self(e->backend));
    }
    return code;
}

int cv_open(struct cv_election **ret_election, const char *name, const char *address,
            const struct cv_election_options *options, struct cv_errtext *reterr)
{
    static const struct cv_election_options defaults;
    if (ret_election == NULL || name == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "an election needs a name");
    }
    options = options != NULL ? options : &defaults;
    struct cv_election *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    e->lifeline = -1;
    (void)pthread_mutex_init(&e->lock, NULL); /* with defaults neither can fail */
    (void)pthread_cond_init(&e->changed, NULL);
    e->status.role = options->is_observer ? CV_ROLE_OBSERVER : CV_ROLE_WAITING;
    e->change_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int code = check(e, name, address, options, reterr);
    if (code == CV_OK && (e->change_fd < 0 || uv_loop_init(&e->loop) != 0)) {
        code = cv__fail(reterr, CV_E_MEMORY, "no descriptors left for another election");
    }
    if (code != CV_OK) {
        free_all(e);
        return code;
    }
    (void)uv_timer_init(&e->loop, &e->patience); /* cannot fail */
    (void)uv_check_init(&e->loop, &e->turn);     /* likewise */
    e->patience.data = e;
    e->turn.data = e;
    if (uv_async_init(&e->loop, &e->knock, on_knock) != 0) {
        code = cv__fail(reterr, CV_E_MEMORY, "no descriptors left for another election");
    }
    e->knock.data = e;
    if (code == CV_OK) {
        code = backend_open(e, !options->is_observer, reterr);
    }
    if (code == CV_OK && thread_start(&e->thread, run, e) != CV_OK) {
        code = cv__fail(reterr, CV_E_MEMORY, "cannot start a thread for the election");
        e->kind->close(e->backend, on_backend_closed, e);
        (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    }
    if (code != CV_OK) {
        loop_end(e);
        free_all(e);
        return code;
    }
    *ret_election = e;
    return CV_OK;
}

void cv_close(struct cv_election *e)
{
    if (e == NULL) {
        return;
    }
    lock(e);
    e->is_over = true;
    e->is_resigning = true;
    e->wanted.must_close = true;
    end_leading(e, CV_REASON_RESIGNED);
    (void)pthread_cond_broadcast(&e->changed);
    const bool is_watched = e->is_watched;
    unlock(e);
    if (is_watched) {
        (void)pthread_join(e->watcher, NULL);
    }
    (void)uv_async_send(&e->knock);
    (void)pthread_join(e->thread, NULL);
    const int busy = uv_loop_close(&e->loop);
    CV_ASSERT(busy == 0); /* the thread ended when every handle was closed */
    free_all(e);
}

/* ---- Questions and wishes -------------------------------------------------------------------- */

bool cv_is_leader(const struct cv_election *e)
{
    const int64_t until_ns = atomic_load_explicit(&e->valid_until_ns, memory_order_acquire);
    return until_ns != 0 && cv__clock_now_ns() < until_ns;
}

bool cv_lead(const struct cv_election *e, uint64_t *ret_token, int64_t *ret_left_ns)
{
    uint64_t token;
    int64_t until_ns;
    uint32_t version;
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

void cv_status(struct cv_election *e, struct cv_election_status *ret_status)
{
    uint64_t count;
    lock(e);
    (void)!read(e->change_fd, &count, sizeof count); /* quiet until the next change */
    *ret_status = e->status;
    if (e->status.role == CV_ROLE_LEADER && !cv_is_leader(e)) {
        /* Its time is over, though the thread did not get to say so yet. */
        ret_status->role = CV_ROLE_WAITING;
        ret_status->leader[0] = '\0';
        ret_status->valid_until_ns = 0;
        ret_status->has_majority = false;
        ret_status->reason = CV_REASON_EXPIRED;
    }
    unlock(e);
}

int cv_fd(const struct cv_election *e)
{
    return e->change_fd;
}

static void *watch(void *data)
{
    struct cv_election *e = data;
    uint64_t seen = 0;
    lock(e);
    while (!e->is_over) {
        if (e->status.sequence == seen) {
            (void)pthread_cond_wait(&e->changed, &e->lock); /* cannot fail */
            continue;
        }
        const struct cv_election_status status = e->status;
        seen = status.sequence;
        unlock(e);
        e->watch(e->watch_user, &status);
        lock(e);
    }
    unlock(e);
    return NULL;
}

int cv_watch(struct cv_election *e,
             void (*changed)(void *user, const struct cv_election_status *status), void *user)
{
    lock(e);
    int code = changed == NULL || e->is_watched ? CV_E_INVALID : CV_OK;
    if (code == CV_OK) {
        e->watch = changed;
        e->watch_user = user;
        code = thread_start(&e->watcher, watch, e);
        e->is_watched = code == CV_OK;
    }
    unlock(e);
    return code;
}

static void heir_set(struct wanted *wanted, const char *heir)
{
    wanted->has_heir = heir != NULL && heir[0] != '\0';
    if (wanted->has_heir) {
        (void)snprintf(wanted->heir, sizeof wanted->heir, "%s", heir);
    }
}

void cv_campaign(struct cv_election *e, bool is_candidate)
{
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
    (void)uv_async_send(&e->knock); /* fails for a closed one only */
}

void cv_resign(struct cv_election *e, const char *heir)
{
    lock(e);
    e->wanted.has_resign = true;
    heir_set(&e->wanted, heir);
    if (e->status.role == CV_ROLE_LEADER) {
        e->is_resigning = true;
        end_leading(e, CV_REASON_RESIGNED);
        announce(e);
    }
    unlock(e);
    (void)uv_async_send(&e->knock);
}

void cv_wish(struct cv_election *e, const char *heir)
{
    lock(e);
    e->wanted.has_wish = true;
    heir_set(&e->wanted, heir);
    unlock(e);
    (void)uv_async_send(&e->knock);
}

void cv_progress(struct cv_election *e)
{
    atomic_store_explicit(&e->progress_ns, cv__clock_now_ns(), memory_order_relaxed);
}

void cv_report(struct cv_election *e, enum cv_input input, int64_t value)
{
    if ((uint32_t)input >= CV_INPUT_COUNT) {
        return;
    }
    lock(e);
    e->wanted.has_report[input] = true;
    e->wanted.report[input] = value;
    unlock(e);
    (void)uv_async_send(&e->knock);
}

int cv__election_lifeline(struct cv_election *e)
{
    lock(e);
    const int copy = e->lifeline >= 0 ? fcntl(e->lifeline, F_DUPFD_CLOEXEC, 3) : -1;
    unlock(e);
    return copy;
}
