/* src/stores/sqlite.c - `sqlite:PATH`, the embedded store: any number of processes of one host.
 *
 * A record in a file (sqlite_record.c); the kernel's clock decides when it ends. Beside it there is
 * a pipe (lifeline.h) that the holder and its descendants keep open. When the pipe is closed, the
 * waiting contenders are notified and need not wait for the lease; the lease covers holders that
 * are stopped, or whose pipe cannot be watched. A watch on the folder of the pipes reports new
 * holders, releases and resign requests: each election has a marker file there that is touched.
 *
 * A holder that releases gives the record to a contender that has registered as the next one, and
 * tells it through a pipe (sqlite_next.h): that one answers its own request then.
 *
 * All elections of a loop on one file share one connection to it, one watch, and one descriptor for
 * each pipe that they watch. The disk may be slow, so a thread accesses it: one job at a time, with
 * the next request of each election that has one. */
#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"
#include "os/worker.h"
#include "stores/kinds.h"
#include "stores/lifeline.h"
#include "stores/sqlite_record.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

/* One of each verb, a resign request, one about runs, a list and forgetting: a later request
 * replaces a waiting one of its kind. */
#define WAITING_MAX 8
#define CALM_MS 20       /* after an answer, and up to as much again */
#define REGISTERED_MAX 8 /* of a loop at a time: each registration waits for the disk */
#define JOBS_MAX 128     /* requests in one transaction; the others wait for it, a few ms */

struct file;

/* A request that waits for its turn. */
struct waiting {
    struct cv_store_request request;
    char heir[CV_NODE_BYTES];
    bool asks_resign;
};

/* A holder's pipe that stores of this loop listen to. */
struct line {
    struct line *next;
    struct file *file;
    uv_poll_t poll;
    int listening;
    char pipe[CV_SQLITE_PIPE_BYTES];
    struct cv_store *listeners; /* linked by line_next */
};

/* One election's part. Invariants: is_queued iff in the file's queue; while is_at_work, contender
 * and job belong to the thread at work. */
struct cv_store {
    struct file *file;
    struct cv_store *next; /* of the file's stores */
    struct cv_sqlite_contender contender;
    void (*answered)(void *user, const struct cv_store_answer *answer);
    void *user;

    struct cv_sqlite_job job;
    bool is_at_work;
    bool must_tidy; /* its job was answered; cv__sqlite_tidy() comes before the next one */
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_count;
    uint64_t released_attempt; /* the latest that was to be released, and since when */
    int64_t released_ns;
    bool is_queued;
    TAILQ_ENTRY(cv_store) in_queue;

    bool wants_next; /* to be registered as the next one, when nothing is urgent */
    /* What it is registered with as the next one, which is on the disk; token 0: it is not. */
    struct place {
        uint64_t attempt, token, secret;
        int64_t lease_ns;
    } place;

    int pipe_fd;       /* the pipe for descendants as of the last answer; -1: none */
    struct line *line; /* NULL: nobody is listened to */
    struct cv_store *line_next;
    uint64_t line_token;  /* the leadership that we listen for */
    uint64_t heard_token; /* its pipe is known to be closed, and that was told */

    bool is_closing;
    uv_timer_t end; /* never started: its closing calls us back from the loop */
    void (*closed)(void *user);
    void *closed_user;
};

/* One file, for all elections of a loop. */
struct file {
    struct cv_shared shared; /* its key is the file's real path */
    struct cv_shared_list *list;
    uv_loop_t *loop;
    struct cv_sqlite sqlite; /* belongs to the thread at work while is_busy */
    struct cv_worker *worker;
    struct cv_work work;
    bool is_busy;
    struct cv_sqlite_job *jobs;        /* at work, or not answered yet */
    TAILQ_HEAD(queue, cv_store) queue; /* stores with a request, or a job to tidy up */
    struct cv_store *stores;
    struct line *lines;
    uv_fs_event_t folder;
    bool is_watched;
    uv_timer_t calm;              /* fires when nothing is urgent any more */
    bool must_prepare;            /* for the next grant */
    uint64_t prepare_above;       /* see cv__sqlite_prepare() */
    struct cv_store *registering; /* at work: it is registered as the next one */
    uv_poll_t mail;
    int mail_fd;         /* -1: no contender was registered, `mail` is not initialised */
    bool is_hearing;     /* a message is handled: requests made meanwhile begin after it */
    bool must_close;     /* when that is done */
    uint32_t open_parts; /* while it closes: folder, timer, worker and mail */
};

/* ---- Notifications ------------------------------------------------------------------------- */

static void tell_changed(struct cv_store *store)
{
    if (!store->is_closing) {
        store->answered(store->user, &(struct cv_store_answer){.verdict = CV_STORE_CHANGED});
    }
}

static void on_folder(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct file *file = handle->data;
    (void)status; /* without a watch, contenders ask from time to time */
    if ((events & UV_CHANGE) == 0 || name == NULL) {
        return; /* a touched marker means that something was committed; a new file means nothing */
    }
    for (struct cv_store *store = file->stores, *next; store != NULL; store = next) {
        next = store->next; /* closing takes the store out of the list, but only that one */
        if (strcmp(name, store->contender.marker) == 0) {
            tell_changed(store);
        }
    }
}

static void on_line_closed(uv_handle_t *handle)
{
    struct line *line = handle->data;
    (void)close(line->listening); /* it was only read */
    free(line);
}

static void line_end(struct line *line)
{
    struct line **at = &line->file->lines;
    while (*at != line) {
        at = &(*at)->next;
    }
    *at = line->next;
    uv_close((uv_handle_t *)&line->poll, on_line_closed);
}

static void line_leave(struct cv_store *store)
{
    struct line *line = store->line;
    if (line == NULL) {
        return;
    }
    struct cv_store **at = &line->listeners;
    while (*at != store) {
        at = &(*at)->line_next;
    }
    *at = store->line_next;
    store->line = NULL;
    if (line->listeners == NULL) {
        line_end(line);
    }
}

/* The pipe is closed: notifies all elections that watch it. */
static void on_line(uv_poll_t *poll, int status, int events)
{
    struct line *line = poll->data;
    (void)status; /* after an error, too, the record is looked at */
    (void)events;
    while (line->listeners != NULL) {
        struct cv_store *store = line->listeners;
        const bool is_last = store->line_next == NULL;
        store->heard_token = store->line_token;
        line_leave(store); /* the last one ends the line */
        tell_changed(store);
        if (is_last) {
            return;
        }
    }
}

static struct line *line_open(struct file *file, const char *pipe)
{
    struct line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        return NULL;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(&file->sqlite, pipe, path);
    line->listening = cv__lifeline_listen(path);
    if (line->listening < 0 || uv_poll_init(file->loop, &line->poll, line->listening) != 0) {
        if (line->listening >= 0) {
            (void)close(line->listening); /* it was only read */
        }
        free(line);
        return NULL;
    }
    (void)snprintf(line->pipe, sizeof line->pipe, "%s", pipe);
    line->file = file;
    line->poll.data = line;
    line->next = file->lines;
    file->lines = line;
    (void)uv_poll_start(&line->poll, UV_READABLE, on_line); /* fails for a closing handle only */
    return line;
}

/* Listens to the holder with this token. Without a pipe or a descriptor the lease must do. */
static void line_follow(struct cv_store *store, uint64_t token, const char *pipe)
{
    struct file *file = store->file;
    if (token == store->heard_token || (store->line != NULL && store->line_token == token)) {
        return;
    }
    line_leave(store);
    const bool is_ours = file->sqlite.pipe_fd >= 0 && strcmp(pipe, file->sqlite.pipe) == 0;
    if (pipe[0] == '\0' || is_ours) {
        return; /* our own is open while we listen: a release touches the marker */
    }
    struct line *line = file->lines;
    while (line != NULL && strcmp(line->pipe, pipe) != 0) {
        line = line->next;
    }
    line = line != NULL ? line : line_open(file, pipe);
    if (line == NULL) {
        /* The holder has released since the answer was read, or there are no descriptors. */
        store->heard_token = token;
        tell_changed(store);
        return;
    }
    store->line = line;
    store->line_token = token;
    store->line_next = line->listeners;
    line->listeners = store;
    if (cv__lifeline_state(line->listening) == CV_LIFELINE_CUT) {
        /* It was closed before we opened it, which poll does not report. */
        on_line(&line->poll, /* status= */ 0, /* events= */ 0);
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void job_do(void *data)
{
    struct file *file = data;
    if (!file->jobs->is_untidy) { /* all of them are, or none */
        cv__sqlite_do(&file->sqlite, file->jobs);
        return;
    }
    for (struct cv_sqlite_job *job = file->jobs; job != NULL; job = job->next) {
        cv__sqlite_tidy(&file->sqlite, job);
    }
}

static struct cv_store *store_of(struct cv_sqlite_job *job)
{
    return (struct cv_store *)((char *)job - offsetof(struct cv_store, job));
}

static void file_work(struct file *file);
static void file_close(struct file *file);
static void mail_listen(struct file *file);
static void close_end(struct cv_store *store);

static void queue_add(struct cv_store *store)
{
    const bool has_work = store->waiting_count > 0 || store->must_tidy;
    if (!store->is_queued && !store->is_at_work && has_work) {
        store->is_queued = true;
        TAILQ_INSERT_TAIL(&store->file->queue, store, in_queue);
    }
}

static void queue_remove(struct cv_store *store)
{
    if (store->is_queued) {
        store->is_queued = false;
        TAILQ_REMOVE(&store->file->queue, store, in_queue);
    }
}

/* Without a watch there are no notifications: a waiting contender asks more often. */
static void bound_wait(const struct file *file, struct cv_store_answer *answer)
{
    const int64_t look_ns = cv__max64(50 * NS_PER_MS, answer->record->lease_ns / 10);
    if (!file->is_watched && answer->duration_ns > look_ns) {
        answer->duration_ns = look_ns;
    }
}

/* The worker is free, and the last election may have been closed meanwhile. */
static void file_go_on(struct file *file)
{
    if (file->must_close) {
        file_close(file);
    } else {
        file_work(file);
    }
}

static void on_calm(uv_timer_t *timer)
{
    struct file *file = timer->data;
    file->must_prepare = true;
    file_work(file);
}

/* Not at once: others may be about to take over, and there is one write lock. */
static void prepare_later(struct file *file, uint64_t above)
{
    file->prepare_above = above;
    if (!uv_is_active((const uv_handle_t *)&file->calm)) {
        const uint64_t pause_ms = CALM_MS + cv__clock_random() % CALM_MS;
        (void)uv_timer_start(&file->calm, on_calm, pause_ms, 0);
    }
}

static struct cv_store *next_to_register(const struct file *file)
{
    uint32_t registered_count = 0;
    for (const struct cv_store *store = file->stores; store != NULL; store = store->next) {
        registered_count += store->place.token != 0;
    }
    if (registered_count >= REGISTERED_MAX) {
        return NULL;
    }
    struct cv_store *store = file->stores;
    while (store != NULL && (!store->wants_next || store->is_at_work || store->is_closing)) {
        store = store->next;
    }
    return store;
}

static void prepare_do(void *data)
{
    struct file *file = data;
    cv__sqlite_prepare(&file->sqlite, file->prepare_above,
                       file->registering != NULL ? &file->registering->contender : NULL);
}

/* The thread has registered this store: from now on the loop believes messages to it. */
static void register_done(struct file *file, struct cv_store *store)
{
    const struct cv_sqlite_contender *c = &store->contender;
    store->is_at_work = false;
    mail_listen(file);
    if (store->is_closing) {
        close_end(store);
        return;
    }
    if (c->is_next_durable) {
        store->place = (struct place){.attempt = c->next_attempt,
                                      .token = c->next_token,
                                      .secret = c->next_secret,
                                      .lease_ns = c->next_lease_ns};
    }
    queue_add(store);
}

static void prepare_done(void *data)
{
    struct file *file = data;
    struct cv_store *store = file->registering;
    file->registering = NULL;
    if (store != NULL) {
        register_done(file, store);
    }
    file->is_busy = false;
    if (next_to_register(file) != NULL) {
        prepare_later(file, file->prepare_above);
    }
    file_go_on(file);
}

static void store_answer(struct cv_store *store)
{
    struct cv_sqlite_job *job = &store->job;
    store->pipe_fd = store->contender.pipe_fd;
    const bool must_wait = job->answer.verdict == CV_STORE_HELD && job->answer.record != NULL;
    store->must_tidy = job->is_untidy;
    if (must_wait) {
        bound_wait(store->file, &job->answer);
    }
    const bool is_rival = must_wait && job->request.verb == CV_STORE_ACQUIRE &&
                          job->request.attempt != 0 && job->answer.holder != store->contender.label;
    store->wants_next = is_rival && cv__sqlite_next_is_wanted(
                                        &store->contender, job->request.attempt, job->answer.token);
    if (job->answer.verdict == CV_STORE_GRANTED && job->request.attempt != 0) {
        store->place.token = 0; /* it leads: messages to it are over */
    }
    if (must_wait && job->request.verb == CV_STORE_ACQUIRE &&
        (store->wants_next || store->file->sqlite.reserved_token <= job->answer.token)) {
        prepare_later(store->file, job->answer.token);
    } else if (store->file->sqlite.must_sync) {
        prepare_later(store->file, 0);
    }
    store->answered(store->user, &job->answer);
    if (store->is_closing) {
        return;
    }
    if (must_wait) {
        line_follow(store, job->answer.token, job->pipe);
    }
    if (!store->is_closing) {
        queue_add(store);
    }
}

static void job_done(void *data)
{
    struct file *file = data;
    while (file->jobs != NULL) { /* is_busy is set: requests from within answers wait */
        struct cv_store *store = store_of(file->jobs);
        file->jobs = file->jobs->next;
        const bool was_tidied = store->must_tidy;
        store->is_at_work = false;
        store->must_tidy = false;
        if (store->is_closing) {
            close_end(store);
        } else if (was_tidied) {
            queue_add(store); /* it was answered before */
        } else {
            store_answer(store);
        }
    }
    file->is_busy = false;
    file_go_on(file);
}

/* What the thread does next for this store: tidy up after its last job, or its next request. */
static void job_begin(struct cv_store *store)
{
    const struct waiting *first = &store->waiting[0];
    struct cv_sqlite_job *job = &store->job;
    CV_ASSERT(!store->is_at_work);
    store->is_at_work = true;
    if (store->must_tidy) {
        job->next = NULL;
        return;
    }
    CV_ASSERT(store->waiting_count > 0);
    memset(job, 0, sizeof *job);
    job->contender = &store->contender;
    job->request = first->request;
    job->asks_resign = first->asks_resign;
    memcpy(job->heir, first->heir, sizeof job->heir);
    job->released_ns =
        job->request.attempt == store->released_attempt && job->request.verb == CV_STORE_RELEASE
            ? store->released_ns
            : 0;
    store->waiting_count--;
    memmove(store->waiting, store->waiting + 1, store->waiting_count * sizeof store->waiting[0]);
}

static void file_work(struct file *file)
{
    if (file->is_busy) {
        return;
    }
    if (TAILQ_EMPTY(&file->queue) && file->must_prepare) {
        file->is_busy = true;
        file->must_prepare = false;
        file->registering = next_to_register(file);
        if (file->registering != NULL) {
            file->registering->is_at_work = true;
            file->registering->wants_next = false;
            file->registering->place.token = 0; /* what it was registered with is replaced */
        }
        file->work = (struct cv_work){.run = prepare_do, .done = prepare_done, .data = file};
        cv__worker_do(file->worker, &file->work);
    }
    if (TAILQ_EMPTY(&file->queue)) {
        return;
    }
    struct cv_sqlite_job **end = &file->jobs;
    const bool must_tidy = TAILQ_FIRST(&file->queue)->must_tidy;
    for (uint32_t count = 0; count < JOBS_MAX && !TAILQ_EMPTY(&file->queue); count++) {
        struct cv_store *store = TAILQ_FIRST(&file->queue);
        if (store->must_tidy != must_tidy) {
            break;
        }
        queue_remove(store);
        job_begin(store);
        *end = &store->job;
        end = &store->job.next;
    }
    file->is_busy = true;
    file->work = (struct cv_work){.run = job_do, .done = job_done, .data = file};
    cv__worker_do(file->worker, &file->work);
}

static bool is_alike(const struct cv_store_request *a, const struct cv_store_request *b)
{
    return (a->runs != NULL) == (b->runs != NULL) && (a->list != NULL) == (b->list != NULL) &&
           a->forgets == b->forgets;
}

static void request_add(struct cv_store *store, const struct cv_store_request *request,
                        bool asks_resign)
{
    CV_ASSERT(!store->is_closing);
    for (uint32_t i = 0; i < store->waiting_count; i++) {
        const struct waiting *one = &store->waiting[i];
        if (one->asks_resign == asks_resign && is_alike(&one->request, request) &&
            (asks_resign || one->request.verb == request->verb)) {
            store->waiting_count--; /* the disk is slow, and the asker asks anew */
            memmove(store->waiting + i, store->waiting + i + 1,
                    (store->waiting_count - i) * sizeof store->waiting[0]);
            break; /* there is one at most: each replaces the one before it */
        }
    }
    CV_ASSERT(store->waiting_count < WAITING_MAX);
    struct waiting *last = &store->waiting[store->waiting_count++];
    memset(last, 0, sizeof *last);
    last->request = *request;
    last->asks_resign = asks_resign;
    (void)snprintf(last->heir, sizeof last->heir, "%s", request->heir != NULL ? request->heir : "");
    if (!asks_resign && request->verb == CV_STORE_RELEASE) {
        store->place.token = 0; /* the attempt is over */
        store->wants_next = false;
        if (store->released_attempt != request->attempt) { /* otherwise it is asked for again */
            store->released_attempt = request->attempt;
            store->released_ns = cv__clock_now_ns();
        }
    }
    queue_add(store);
    if (!store->file->is_hearing) {
        file_work(store->file);
    }
}

static void sqlite_ask(struct cv_store *store, const struct cv_store_request *request)
{
    request_add(store, request, /* asks_resign= */ false);
}

static void sqlite_request_resign(struct cv_store *store, uint64_t request, const char *heir)
{
    request_add(store, &(struct cv_store_request){.request = request, .heir = heir},
                /* asks_resign= */ true);
}

static void sqlite_runs(struct cv_store *store, uint64_t request, struct cv_store_runs *runs)
{
    request_add(store, &(struct cv_store_request){.request = request, .runs = runs},
                /* asks_resign= */ false);
}

static void sqlite_list(struct cv_store *store, uint64_t request, struct cv_store_list *list)
{
    request_add(store, &(struct cv_store_request){.request = request, .list = list},
                /* asks_resign= */ false);
}

static void sqlite_forget(struct cv_store *store, uint64_t request)
{
    request_add(store, &(struct cv_store_request){.request = request, .forgets = true},
                /* asks_resign= */ false);
}

/* ---- What is given to us ------------------------------------------------------------------- */

/* The only request that waits is an ACQUIRE of the attempt that the record was given to. */
static bool asks_for_given(const struct cv_store *store, const struct place *place)
{
    const struct waiting *one = &store->waiting[0];
    const struct cv_store_request *request = &one->request;
    return !store->is_closing && !store->is_at_work && !store->must_tidy &&
           store->waiting_count == 1 && !one->asks_resign && request->runs == NULL &&
           request->list == NULL && !request->forgets && request->verb == CV_STORE_ACQUIRE &&
           request->attempt == place->attempt;
}

/* The record is ours, as its former holder says: see sqlite_next.h. */
static void answer_given(struct cv_store *store, const struct place *place, int64_t left_ns)
{
    struct cv_sqlite_job *job = &store->job;
    struct cv_sqlite_contender *c = &store->contender;
    queue_remove(store);
    job_begin(store);
    store->is_at_work = false;
    c->pipe_token = place->token;
    c->next_token = c->next_attempt = 0; /* it is used up */
    c->is_next_durable = false;
    job->record = (struct cv_store_record){.label = c->label,
                                           .token = place->token,
                                           .lease_ns = place->lease_ns,
                                           .remaining_ns = left_ns,
                                           .since_wall_ns = cv__clock_wall_ns()};
    memcpy(job->record.node, c->node, sizeof job->record.node);
    job->answer = (struct cv_store_answer){.request = job->request.request,
                                           .verdict = CV_STORE_GRANTED,
                                           .token = place->token,
                                           .holder = c->label,
                                           .duration_ns = left_ns,
                                           .record = &job->record};
    job->is_untidy = job->is_given = true;
    store->must_tidy = true;
    store->wants_next = false;
    store->answered(store->user, &job->answer); /* the thread may work for others */
    tell_changed(store);                        /* a renewal gives it its whole lease */
    if (!store->is_closing) {
        queue_add(store);
    }
}

static void hear_given(struct cv_store *store, const struct cv_sqlite_mail *mail)
{
    struct file *file = store->file;
    const struct place place = store->place;
    CV_ASSERT(place.token != 0);
    store->place.token = 0; /* a registration is used once */
    file->is_hearing = true;
    tell_changed(store); /* the core asks ACQUIRE, if it still wants to lead */
    const int64_t left_ns = mail->expires_ns - cv__clock_now_ns();
    if (left_ns > 0 && left_ns <= place.lease_ns && asks_for_given(store, &place)) {
        answer_given(store, &place, left_ns);
    }
    file->is_hearing = false;
}

static void on_mail(uv_poll_t *poll, int status, int events)
{
    struct file *file = poll->data;
    struct cv_sqlite_mail mail[16];
    (void)status; /* then read() fails, too */
    (void)events;
    const ssize_t got = read(file->mail_fd, mail, sizeof mail);
    const size_t count = got > 0 && got % (ssize_t)sizeof mail[0] == 0
                             ? (size_t)got / sizeof mail[0]
                             : 0; /* not written by a holder; contenders ask without it */
    for (size_t i = 0; i < count; i++) {
        struct cv_store *store = file->stores;
        while (store != NULL &&
               (store->is_closing || store->place.token == 0 ||
                store->place.token != mail[i].token || store->place.secret != mail[i].secret)) {
            store = store->next;
        }
        if (store != NULL) {
            hear_given(store, &mail[i]);
        }
    }
    if (!file->must_close) {
        file_work(file);
    }
}

/* The thread has made a pipe: the loop takes it over. */
static void mail_listen(struct file *file)
{
    struct cv_sqlite *s = &file->sqlite;
    if (s->mail_fd < 0) {
        return;
    }
    CV_ASSERT(file->mail_fd < 0); /* it is made once */
    if (uv_poll_init(file->loop, &file->mail, s->mail_fd) != 0) {
        return; /* the marker notifies, a little later */
    }
    file->mail_fd = s->mail_fd;
    s->mail_fd = -1;
    file->mail.data = file;
    (void)uv_poll_start(&file->mail, UV_READABLE, on_mail); /* fails for a closing handle only */
}

/* ---- Opening and closing ------------------------------------------------------------------- */

static void on_part_closed(void *data)
{
    struct file *file = data;
    if (--file->open_parts == 0) {
        free(file);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void on_mail_closed(uv_handle_t *handle)
{
    struct file *file = handle->data;
    (void)close(file->mail_fd); /* nobody reads what may be left */
    on_part_closed(file);
}

/* Nobody uses it any more. */
static void file_close(struct file *file)
{
    CV_ASSERT(file->jobs == NULL);
    CV_ASSERT(file->lines == NULL && TAILQ_EMPTY(&file->queue));
    file->must_close = true;
    if (file->is_busy) {
        return; /* file_go_on() comes back here */
    }
    cv__sqlite_close(&file->sqlite);
    file->open_parts = file->mail_fd >= 0 ? 4 : 3;
    if (file->mail_fd >= 0) {
        uv_close((uv_handle_t *)&file->mail, on_mail_closed);
    }
    uv_close((uv_handle_t *)&file->folder, on_handle_closed);
    uv_close((uv_handle_t *)&file->calm, on_handle_closed);
    cv__worker_free(file->worker, on_part_closed, file);
}

static int file_open(struct file **ret_file, const char *path,
                     const struct cv_store_setting *setting, struct cv_errtext *reterr)
{
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    file->list = setting->shared;
    file->loop = setting->loop;
    TAILQ_INIT(&file->queue);
    file->mail_fd = -1;
    int code = cv__sqlite_open(&file->sqlite, path, reterr);
    if (code == CV_OK) {
        code = cv__worker_new(file->loop, &file->worker, reterr);
    }
    if (code != CV_OK) {
        cv__sqlite_close(&file->sqlite);
        free(file);
        return code;
    }
    (void)uv_fs_event_init(file->loop, &file->folder); /* cannot fail */
    file->folder.data = file;
    (void)uv_timer_init(file->loop, &file->calm); /* cannot fail */
    file->calm.data = file;
    if (!cv__shared_add(file->list, &file->shared, &cv__store_sqlite, file->sqlite.path)) {
        file_close(file);
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(&file->sqlite, folder);
    /* There is a limit to the number of watches of each user. */
    file->is_watched = uv_fs_event_start(&file->folder, on_folder, folder, /* flags= */ 0) == 0;
    if (file->sqlite.file.is_public && setting->log != NULL) {
        char line[CV_SQLITE_PATH_BYTES + 128];
        (void)snprintf(line, sizeof line,
                       "every user can read '%s', and block its elections with a lock; run chmod "
                       "o= on it and the files beside it",
                       file->sqlite.path);
        setting->log(setting->user, line);
    }
    *ret_file = file;
    return CV_OK;
}

/* The connection that this loop has to the file, or a new one. */
static int file_join(struct file **ret_file, const struct cv_store_setting *setting,
                     struct cv_errtext *reterr)
{
    const char *path = cv__sqlite_path(setting->address);
    char real[PATH_MAX];
    struct cv_shared *shared =
        realpath(path, real) != NULL
            ? cv__shared_join(setting->shared, &cv__store_sqlite, real)
            : NULL; /* it does not exist yet, or opening it will say what is wrong */
    if (shared == NULL) {
        return file_open(ret_file, path, setting, reterr);
    }
    *ret_file = (struct file *)((char *)shared - offsetof(struct file, shared));
    return CV_OK;
}

static int sqlite_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    CV_ASSERT(setting->label != 0); /* two without a label would be one, and both would lead */
    if (cv__sqlite_path(setting->address)[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID, "'%s' names no file; write sqlite:PATH",
                        setting->address);
    }
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    const int code = file_join(&store->file, setting, reterr);
    if (code != CV_OK) {
        free(store);
        return code;
    }
    cv__sqlite_join(&store->contender, setting->election, setting->node, setting->label,
                    setting->has_descendants);
    (void)snprintf(store->contender.version, sizeof store->contender.version, "%s",
                   setting->version != NULL ? setting->version : "");
    store->answered = setting->answered;
    store->user = setting->user;
    store->pipe_fd = -1;
    (void)uv_timer_init(setting->loop, &store->end); /* cannot fail */
    store->end.data = store;
    store->next = store->file->stores;
    store->file->stores = store;
    *ret_store = store;
    return CV_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct cv_store *store = handle->data;
    void (*closed)(void *user) = store->closed;
    void *user = store->closed_user;
    free(store);
    closed(user);
}

static void close_end(struct cv_store *store)
{
    struct file *file = store->file;
    CV_ASSERT(!store->is_at_work);
    line_leave(store);
    queue_remove(store);
    cv__sqlite_leave(&store->contender);
    cv__sqlite_wait_end(&store->file->sqlite, &store->contender);
    struct cv_store **at = &file->stores;
    while (*at != store) {
        at = &(*at)->next;
    }
    *at = store->next;
    if (cv__shared_leave(file->list, &file->shared)) {
        file_close(file);
    }
    uv_close((uv_handle_t *)&store->end, on_closed);
}

static void sqlite_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    CV_ASSERT(!store->is_closing);
    store->is_closing = true;
    store->closed = closed;
    store->closed_user = user;
    if (!store->is_at_work) { /* otherwise job_done() goes on */
        close_end(store);
    }
}

static int sqlite_inherit(struct cv_store *store)
{
    return store->pipe_fd;
}

/* ---- The table ----------------------------------------------------------------------------- */

const struct cv_store_kind cv__store_sqlite = {
    .scheme = "sqlite",
    .summary = "a file, for the processes of one host",
    .example = "sqlite:/var/lib/app/elections.db",
    .clock = "the kernel's, which cannot be set (CLOCK_BOOTTIME)",
    .notifications = "a pipe that the holder keeps open, and a file that is touched",
    .lease_ns_min = 100 * INT64_C(1000000),
    .lease_ns_step = 1,
    .grant_percent = 100,
    .open = sqlite_open,
    .ask = sqlite_ask,
    .request_resign = sqlite_request_resign,
    .runs = sqlite_runs,
    .list = sqlite_list,
    .forget = sqlite_forget,
    .close = sqlite_close,
    .inherit = sqlite_inherit,
    .create = cv__sqlite_create_at,
    .history = cv__sqlite_history_at,
    .names = cv__sqlite_names_at,
};
