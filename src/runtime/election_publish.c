/* src/runtime/election_publish.c - what an election publishes, and the calls that read it.
 *
 * The leadership is published in atomic words, for cv_is_leader() and cv_leads(), and the whole
 * status under a lock that is held for a copy only.
 *
 * A leadership is published after it is granted and ends by the clock: a reader compares the end
 * with a clock that it reads afterwards. So the answer is right even if a thread hangs, the process
 * was stopped, or the machine slept.
 *
 * Callbacks run on the engine's other thread, one call for each run of the job `call`, which
 * touches nothing of the election after the call: the application may have closed it there. */
#include "core/types.h"
#include "os/clock.h"
#include "runtime/election_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define RENEWED_LOG_NS NS_PER_S     /* between two lines about renewals */
#define WAIT_NS_MAX (60 * NS_PER_S) /* cv_wait() reads the clock at least this often */

/* ---- Publishing ------------------------------------------------------------------------------ */

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
    (void)!write(fd, &one, sizeof one); /* if it is full, it is readable already */
}

void cv__election_announce(struct cv_election *e)
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
    struct cv_log_lines *lines = e->lines;
    if (lines->count == CV_LOG_LINES_MAX) {
        lines->lost_count++;
        return;
    }
    const uint32_t at = (lines->first + lines->count++) % CV_LOG_LINES_MAX;
    char *text = lines->line[at].text;
    const int length = snprintf(text, CV_LOG_BYTES, "%s: ", e->name);
    CV_ASSERT(length > 0 && length < CV_LOG_BYTES); /* a name is shorter */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + length, CV_LOG_BYTES - (size_t)length, format, args); /* or cut off */
    va_end(args);
    lines->line[at].level = level;
    cv__engine_call(e->engine, &e->call);
}

/* With the lock: the leadership that was published last is over. It may have been out of sight. */
static void end_note(struct cv_election *e, enum cv_reason reason)
{
    struct cv_election_status *s = &e->status;
    const bool is_better = reason != CV_REASON_GONE || s->last_token != s->token;
    const bool is_unseen = !s->is_leader_known && s->token > s->last_token;
    if ((s->leader[0] != '\0' || is_unseen) && s->token >= s->last_token && is_better) {
        s->last_token = s->token;
        s->last_reason = reason;
    }
}

void cv__election_end_leading(struct cv_election *e, enum cv_reason reason)
{
    publish_leadership(e, 0, 0);
    end_note(e, reason);
    if (e->status.role == CV_ROLE_LEADER) {
        log_line(e, CV_LOG_INFO, "no longer leads (%s)", cv_reason_name(reason));
    }
    e->lifeline = -1;
    e->status.role =
        e->wanted.has_campaign && !e->wanted.is_candidate ? CV_ROLE_OBSERVER : CV_ROLE_WAITING;
    e->status.leader[0] = '\0';
    e->status.is_leader_known = cv__clock_now_ns() < e->status.valid_until_ns; /* no other yet */
    e->status.valid_until_ns = 0;
    e->status.has_majority = false;
    e->status.is_resign_requested = false;
    e->status.reason = reason;
}

/* With the lock. Renewals may come every few milliseconds, and a line wakes the callbacks' thread,
 * so only some of them are logged. */
static void log_leading(struct cv_election *e, bool is_new, uint64_t token)
{
    const int64_t now_ns = cv__clock_now_ns();
    if (is_new) {
        log_line(e, CV_LOG_INFO, "this process leads, token %llu", (unsigned long long)token);
        e->renewed_log_ns = 0;
    } else if (e->renewed_log_ns == 0 || now_ns - e->renewed_log_ns >= RENEWED_LOG_NS) {
        log_line(e, CV_LOG_DEBUG, "renewed, token %llu", (unsigned long long)token);
        e->renewed_log_ns = now_ns;
    }
}

/* With the lock. Returns whether it is a renewal. */
static bool lead(struct cv_election *e, const struct cv_leadership *leadership, int lifeline)
{
    struct cv_election_status *s = &e->status;
    const bool is_new = s->role != CV_ROLE_LEADER || s->token != leadership->token;
    const bool is_renewal = !is_new && s->has_majority == leadership->has_majority;
    s->role = CV_ROLE_LEADER;
    s->is_leader_known = true;
    s->is_resign_requested = s->is_resign_requested && !is_new;
    s->valid_until_ns = leadership->valid_until_ns;
    s->has_majority = leadership->has_majority;
    e->lifeline = lifeline;
    if (is_new) { /* the application learns of it now: its time to make progress begins */
        cv_progress(e);
    }
    /* Without a lease, a leadership ends when the backend says so. */
    const int64_t until_ns = leadership->valid_until_ns;
    publish_leadership(e, leadership->token, until_ns != 0 ? until_ns : INT64_MAX);
    log_leading(e, is_new, leadership->token);
    return is_renewal;
}

/* ---- Reports of the backend ------------------------------------------------------------------ */

/* With the lock: another leads, or nobody is known to. */
static void follow(struct cv_election *e, const struct cv_leadership *leadership,
                   const char *leader, bool is_free)
{
    struct cv_election_status *s = &e->status;
    if (leader[0] != '\0' && strcmp(leader, s->leader) != 0) {
        log_line(e, CV_LOG_INFO, "%s leads, token %llu", leader,
                 (unsigned long long)leadership->token);
    } else if (leader[0] == '\0' && s->leader[0] != '\0') {
        log_line(e, CV_LOG_INFO, "%s (%s)", is_free ? "nobody leads" : "no leader is known",
                 cv_reason_name(leadership->reason));
    }
    s->is_leader_known = leader[0] != '\0' || is_free;
}

static void on_told(void *user, const struct cv_leadership *leadership, const char *leader,
                    bool is_free)
{
    struct cv_election *e = user;
    const bool is_leading = leadership->is_self;
    const int lifeline = is_leading && e->backend != NULL ? e->kind->inherit(e->backend) : -1;
    cv__election_lock(e);
    struct cv_election_status *s = &e->status;
    bool is_renewal = false;
    if (is_leading && e->is_resigning) {
        cv__election_unlock(e); /* it has resigned; the engine's thread has not handled that yet */
        return;
    }
    /* If the store does not answer, another one's leadership may go on. */
    const bool is_over =
        is_free || s->role == CV_ROLE_LEADER || leadership->reason != CV_REASON_STORE_UNREACHABLE;
    if (leader[0] == '\0' && is_over) {
        end_note(e, leadership->reason);
    } else if (leader[0] != '\0' && leadership->token != s->token) {
        end_note(e, CV_REASON_GONE); /* why the former one ended is not known here */
    }
    if (is_leading) {
        is_renewal = lead(e, leadership, lifeline);
    } else if (s->role == CV_ROLE_LEADER) {
        cv__election_end_leading(e, leadership->reason);
        s->is_leader_known = s->is_leader_known || leader[0] != '\0' || is_free;
    } else {
        follow(e, leadership, leader, is_free);
    }
    if (leadership->token != 0) {
        s->token = leadership->token;
    }
    if (strcmp(s->leader, leader) != 0) { /* not with each renewal */
        (void)snprintf(s->leader, sizeof s->leader, "%s", leader);
    }
    if (!is_renewal || !e->ignores_renewals) {
        s->reason = leadership->reason; /* a late reader must see that of the announced change */
        cv__election_announce(e);
    }
    cv__election_unlock(e);
}

static void on_ended(void *user, uint64_t token, enum cv_reason why)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    if (token >= e->status.last_token) {
        e->status.last_token = token;
        e->status.last_reason = why;
    }
    cv__election_unlock(e);
}

static void on_resign_requested(void *user, const char *heir)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    if (e->status.role == CV_ROLE_LEADER) {
        e->status.is_resign_requested = true;
        (void)snprintf(e->status.heir, sizeof e->status.heir, "%s", heir);
        log_line(e, CV_LOG_INFO, "asked to resign in favour of %s",
                 heir[0] != '\0' ? heir : "anybody");
        cv__election_announce(e);
    }
    cv__election_unlock(e);
}

static void on_trouble(void *user, const char *line)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    if (strcmp(e->status.trouble, line) != 0) {
        (void)snprintf(e->status.trouble, sizeof e->status.trouble, "%s", line);
        if (line[0] != '\0') {
            log_line(e, CV_LOG_WARNING, "%s", line);
        } else {
            log_line(e, CV_LOG_INFO, "the trouble is over");
        }
        cv__election_announce(e);
    }
    cv__election_unlock(e);
}

static void on_log(void *user, const char *line)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    log_line(e, CV_LOG_NOTICE, "%s", line);
    cv__election_unlock(e);
}

static bool has_progress(void *user)
{
    const struct cv_election *e = user;
    const int64_t at_ns = atomic_load_explicit(&e->progress_ns, memory_order_relaxed);
    return e->progress_limit_ns == 0 || cv__clock_now_ns() - at_ns <= e->progress_limit_ns;
}

void cv__election_hear(struct cv_election *e, struct cv_backend_setting *setting)
{
    setting->user = e;
    setting->told = on_told;
    setting->ended = on_ended;
    setting->resign_requested = on_resign_requested;
    setting->trouble = on_trouble;
    setting->log = on_log;
    setting->has_progress = has_progress;
}

/* ---- Questions ------------------------------------------------------------------------------- */

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

/* With the lock: the status as it is by the clock. */
static struct cv_election_status view(const struct cv_election *e)
{
    struct cv_election_status now = e->status;
    if (now.role == CV_ROLE_LEADER && !cv_is_leader(e)) {
        /* Its lease is over, but the engine's thread has not published that yet. */
        now.role = CV_ROLE_WAITING;
        now.leader[0] = '\0';
        now.is_leader_known = false;
        now.valid_until_ns = 0;
        now.has_majority = false;
        now.reason = CV_REASON_EXPIRED;
    }
    return now;
}

int cv_status(struct cv_election *e, struct cv_election_status *ret_status)
{
    if (e == NULL || ret_status == NULL || ret_status->size < sizeof ret_status->size) {
        return CV_E_INVALID;
    }
    cv__election_lock(e);
    struct cv_election_status now = view(e);
    e->shown = now.sequence;
    if (e->change_fd >= 0) {
        uint64_t count;
        (void)!read(e->change_fd, &count, sizeof count); /* not readable until the next change */
    }
    cv__election_unlock(e);
    now.size = ret_status->size < sizeof now ? ret_status->size : sizeof now;
    memcpy(ret_status, &now, now.size);
    return CV_OK;
}

int cv_fd(struct cv_election *e)
{
    if (e == NULL) {
        return CV_E_INVALID;
    }
    cv__election_lock(e);
    if (e->change_fd < 0) {
        e->change_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (e->change_fd >= 0 && e->status.sequence != e->shown) {
            tell_fd(e->change_fd);
        }
    }
    const int fd = e->change_fd >= 0 ? e->change_fd : CV_E_LIMIT;
    cv__election_unlock(e);
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

/* With the lock: waits until something changes, at most wait_ns. A condition variable cannot use
 * CLOCK_BOOTTIME; WAIT_NS_MAX bounds the delay after the machine slept. */
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
    cv__election_lock(e);
    while (!is_so(e, until)) {
        const int64_t now_ns = cv__clock_now_ns();
        if (now_ns >= end_ns) {
            code = CV_E_TIMEOUT;
            break;
        }
        /* A leadership ends by the clock, even if nobody announces it. */
        const int64_t until_ns = atomic_load_explicit(&e->valid_until_ns, memory_order_relaxed);
        const int64_t look_ns = until_ns > now_ns ? cv__min64(until_ns, end_ns) : end_ns;
        wait_for_change(e, look_ns - now_ns);
    }
    cv__election_unlock(e);
    return code;
}

int cv_watch(struct cv_election *e,
             void (*changed)(void *user, const struct cv_election_status *status), void *user)
{
    if (e == NULL || changed == NULL) {
        return CV_E_INVALID;
    }
    cv__election_lock(e);
    int code = e->watch != NULL ? CV_E_INVALID : cv__engine_start_calls(e->engine);
    if (code == CV_OK) {
        e->watch = changed;
        e->watch_user = user;
        cv__engine_call(e->engine, &e->call);
    }
    cv__election_unlock(e);
    return code;
}

/* ---- The thread for callbacks ---------------------------------------------------------------- */

/* With the lock: takes the oldest line for the application. */
static enum cv_log_level log_take(struct cv_election *e, char ret_text[CV_LOG_BYTES])
{
    struct cv_log_lines *lines = e->lines;
    if (lines->count == 0) {
        (void)snprintf(ret_text, CV_LOG_BYTES, "%s: %u lines were left out here", e->name,
                       (unsigned)lines->lost_count);
        lines->lost_count = 0;
        return CV_LOG_WARNING;
    }
    const uint32_t at = lines->first;
    memcpy(ret_text, lines->line[at].text, CV_LOG_BYTES);
    lines->first = (at + 1) % CV_LOG_LINES_MAX;
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

void cv__election_on_call(void *user)
{
    struct cv_election *e = user;
    cv__election_lock(e);
    if (has_lines(e)) {
        char text[CV_LOG_BYTES];
        const enum cv_log_level level = log_take(e, text);
        void (*const log)(void *, enum cv_log_level, const char *) = e->log;
        void *const log_user = e->log_user;
        if (has_lines(e) || has_unwatched(e)) {
            cv__engine_call(e->engine, &e->call);
        }
        cv__election_unlock(e);
        log(log_user, level, text);
    } else if (has_unwatched(e)) {
        const struct cv_election_status status = view(e);
        void (*const watch)(void *, const struct cv_election_status *) = e->watch;
        void *const watch_user = e->watch_user;
        e->watched = status.sequence;
        cv__election_unlock(e);
        watch(watch_user, &status);
    } else {
        cv__election_unlock(e);
    }
}
