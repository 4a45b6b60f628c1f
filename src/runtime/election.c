/* src/runtime/election.c - an election of the public header: a backend in an engine.
 *
 * The engine's thread owns everything of the backend. The application talks to it through a mailbox
 * of requests (the latest of each kind counts, so it never fills up) and reads what the thread has
 * published (election_publish.c). A resignation ends the leadership in the caller's thread at once;
 * later answers about the old leadership are not published. */
#include "runtime/election.h"
#include "core/types.h"
#include "os/clock.h"
#include "os/wake.h"
#include "runtime/election_state.h"
#include "runtime/place.h"
#include "stores/lifeline.h"
#include "stores/store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_NS_DEFAULT (5 * NS_PER_S)
#define CLOSE_MS_MAX 1000       /* how long cv_close() waits for the release */
#define OPTIONS_BYTES_MAX 4096u /* no version of the options will be as large */

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

/* While closing, after each turn of the loop: was the release answered, or is there none? */
static void on_turn(uv_check_t *turn)
{
    struct cv_election *e = turn->data;
    if (e->kind->is_released(e->backend)) {
        close_end(e);
    }
}

/* Waits until the others know of the release, but not for long: otherwise the end of the lease will
 * tell them. */
static void close_begin(struct cv_election *e)
{
    e->is_closing = true;
    e->kind->campaign(e->backend, false);
    uv_update_time(cv__engine_loop(e->engine)); /* this turn may have begun long ago */
    (void)uv_timer_start(&e->patience, on_patience, CLOSE_MS_MAX, 0); /* cannot fail */
    (void)uv_check_start(&e->turn, on_turn);                          /* likewise */
}

static void on_job(void *user)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    const struct cv_wanted wanted = e->wanted;
    memset(&e->wanted, 0, sizeof e->wanted);
    cv__election_unlock(e);
    if (e->is_closing) {
        return;
    }
    const char *heir = wanted.has_heir ? wanted.heir : NULL;
    if (wanted.has_resign) {
        e->kind->resign(e->backend, heir, wanted.resign_reason);
    }
    if (wanted.has_campaign) {
        e->kind->campaign(e->backend, wanted.is_candidate);
    }
    if (wanted.has_resign || wanted.has_campaign) {
        cv__election_lock(e); /* another request may have come meanwhile */
        const bool is_leaving = e->wanted.has_campaign && !e->wanted.is_candidate;
        e->is_resigning = e->wanted.has_resign || is_leaving || e->wanted.must_close;
        cv__election_unlock(e);
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
    return strlen(name) < CV_NODE_BYTES && cv__store_election_is_valid(name) &&
           strcmp(name, "*") != 0; /* "*" means any node */
}

int cv__election_node_name(char ret_node[CV_NODE_BYTES], const char *wanted,
                           struct cv_errtext *reterr)
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
    if (!cv__store_election_is_valid(name)) {
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
    int code = cv__place_address(address, &e->address, reterr);
    if (code == CV_OK) {
        code = cv__backend_name(e->address, options->node, e->node, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    struct cv_backend_contract contract;
    code = cv__backend_find(e->address, options->accepts_two_leaders, &e->kind, &contract, reterr);
    if (code == CV_OK && !contract.has_lease &&
        (options->lease_ns != 0 || options->progress_ns != 0)) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%.*s' has no lease; its times are set by options of the address",
                        (int)strcspn(e->address, "?"), e->address);
    }
    if (code == CV_OK && contract.lease_ns != 0) {
        if (options->lease_ns != 0 && options->lease_ns != contract.lease_ns) {
            return cv__fail(reterr, CV_E_INVALID,
                            "'%.*s' sets the lease itself: it cannot be set here",
                            (int)strcspn(e->address, "?"), e->address);
        }
        e->lease_ns = contract.lease_ns;
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
    const struct cv_recorder *recorder;
    struct cv_errtext *reterr;
};

static int open_on_loop(void *user)
{
    const struct opening *opening = user;
    struct cv_election *e = opening->election;
    uv_loop_t *loop = cv__engine_loop(e->engine);
    struct cv_backend_setting setting = {
        .loop = loop,
        .shared = cv__engine_shared(e->engine),
        .timers = cv__engine_timers(e->engine),
        .address = e->address,
        .election = e->name,
        .node = e->node,
        .lease_ns = e->lease_ns,
        .is_candidate = opening->is_candidate,
        .has_descendants = opening->has_descendants,
        .recorder = opening->recorder,
    };
    cv__election_hear(e, &setting);
    const int code = e->kind->open(&e->backend, &setting, opening->reterr);
    if (code == CV_OK) {
        cv__election_lock(e);
        (void)snprintf(e->status.self, sizeof e->status.self, "%s", e->kind->self(e->backend));
        cv__election_unlock(e);
        (void)uv_timer_init(loop, &e->patience); /* cannot fail */
        (void)uv_check_init(loop, &e->turn);     /* likewise */
        e->patience.data = e;
        e->turn.data = e;
    }
    return code;
}

/* The application's options as this version knows them. Fields that an older program does not have
 * are zero; fields that this library does not know must be zero. */
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

/* Takes or starts the engine and, for a log, starts its thread for callbacks. */
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

/* The election has left the loop, or never joined it. */
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
    e->call = (struct cv_engine_job){.run = cv__election_on_call, .user = e};
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes); /* none of these can fail on Linux */
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&e->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    cv__mutex_init(&e->lock);
    return e;
}

static int open_election(struct cv_election **ret_election, const char *name, const char *address,
                         const struct cv_election_options *given, bool has_descendants,
                         const struct cv_recorder *recorder, struct cv_errtext *reterr)
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
    e->ignores_renewals = options.ignores_renewals;
    code = check(e, name, address, &options, reterr);
    if (code == CV_OK) {
        code = engine_enter(e, &options, reterr);
    }
    if (code == CV_OK) {
        struct opening opening = {e, !options.is_observer, has_descendants, recorder, reterr};
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
                         /* recorder= */ NULL, reterr);
}

int cv__election_open_recorded(struct cv_election **ret_election, const char *name,
                               const char *address, const struct cv_election_options *options,
                               const struct cv_recorder *recorder, struct cv_errtext *reterr)
{
    return open_election(ret_election, name, address, options, /* has_descendants= */ false,
                         recorder, reterr);
}

int cv__election_open(struct cv_election **ret_election, const char *name, const char *address,
                      const struct cv_election_options *options, struct cv_errtext *reterr)
{
    return open_election(ret_election, name, address, options, /* has_descendants= */ true,
                         /* recorder= */ NULL, reterr);
}

static void close_ask(struct cv_election *e)
{
    cv__election_lock(e);
    e->is_resigning = true;
    e->wanted.must_close = true;
    e->watch = NULL;
    cv__election_end_leading(e, CV_REASON_RESIGNED);
    cv__election_unlock(e);
    cv__engine_post(e->engine, &e->job);
}

static void close_await(struct cv_election *e)
{
    cv__engine_await(e->engine, &e->is_gone);
    cv__engine_finish_call(e->engine, &e->call); /* nobody queues it any more */
    cv__engine_leave(e->engine);
    engine_exit(e);
    free_all(e);
}

void cv_close(struct cv_election *e)
{
    cv_close_all(&e, 1);
}

void cv_close_all(struct cv_election *const *elections, size_t count)
{
    struct cv_election *first = NULL;
    struct cv_election **end = &first;
    for (size_t i = 0; elections != NULL && i < count; i++) {
        struct cv_election *e = elections[i];
        if (e != NULL && !e->is_being_closed) { /* the list may have it twice */
            e->is_being_closed = true;
            *end = e;
            end = &e->next_to_close;
            close_ask(e);
        }
    }
    while (first != NULL) {
        struct cv_election *e = first;
        first = e->next_to_close;
        close_await(e);
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* With the lock. False: no node can have this name. */
static bool heir_set(struct cv_wanted *wanted, const char *heir)
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
    cv__election_lock(e);
    e->wanted.has_campaign = true;
    e->wanted.is_candidate = is_candidate;
    if (!is_candidate && e->status.role == CV_ROLE_LEADER) {
        e->is_resigning = true;
        cv__election_end_leading(e, CV_REASON_RESIGNED);
    } else if (e->status.role != CV_ROLE_LEADER) {
        e->status.role = is_candidate ? CV_ROLE_WAITING : CV_ROLE_OBSERVER;
    }
    cv__election_announce(e);
    cv__election_unlock(e);
    cv__engine_post(e->engine, &e->job);
    return CV_OK;
}

int cv_resign(struct cv_election *e, const char *heir)
{
    return cv__election_resign(e, heir, CV_REASON_RESIGNED);
}

int cv__election_resign(struct cv_election *e, const char *heir, enum cv_reason why)
{
    if (e == NULL) {
        return CV_E_INVALID;
    }
    cv__election_lock(e);
    e->wanted.has_resign = true;
    e->wanted.resign_reason = why;
    const bool is_valid = heir_set(&e->wanted, heir);
    if (e->status.role == CV_ROLE_LEADER) {
        e->is_resigning = true;
        cv__election_end_leading(e, why);
        cv__election_announce(e);
    }
    cv__election_unlock(e);
    cv__engine_post(e->engine, &e->job);
    return is_valid ? CV_OK : CV_E_INVALID;
}

int cv_request_resign(struct cv_election *e, const char *heir)
{
    if (e == NULL || (heir != NULL && heir[0] != '\0' && !node_name_is_valid(heir))) {
        return CV_E_INVALID;
    }
    cv__election_lock(e);
    e->wanted.has_request = true;
    (void)heir_set(&e->wanted, heir); /* it was checked */
    cv__election_unlock(e);
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
    cv__election_lock(e);
    e->wanted.has_report[input] = true;
    e->wanted.report[input] = value;
    cv__election_unlock(e);
    cv__engine_post(e->engine, &e->job);
    return CV_OK;
}

int cv__election_lifeline(struct cv_election *e)
{
    cv__election_lock(e);
    const int copy = e->lifeline >= 0 ? cv__lifeline_bequeath(e->lifeline) : -1;
    cv__election_unlock(e);
    return copy;
}
