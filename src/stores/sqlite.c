/* src/stores/sqlite.c - `sqlite:PATH`, the embedded store: any number of processes of one host.
 *
 * A record in a file (sqlite_record.c), judged by the kernel's clock, and beside it a lifeline
 * (lifeline.h) that the holder and its descendants keep open. The others hear the line being cut
 * and need not wait for the lease to run out; the lease is for holders that are stopped, or whose
 * lifeline cannot be heard. New holders and wishes are noticed by a watch on the folder of the
 * lifelines. The disk may keep us waiting, so it is asked by a thread of the loop's pool, one
 * request at a time. */
#include "core/assert.h"
#include "core/errors.h"
#include "stores/kinds.h"
#include "stores/lifeline.h"
#include "stores/sqlite_record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MAX 16 /* requests behind the one at work; the core has one, a command a few */

/* A request, and then its answer. */
struct job {
    struct cv_store_request request;
    bool is_wish;
    char heir[CV_NODE_BYTES];
    struct cv_store_answer answer;
    struct cv_store_record record;
    struct cv_errtext error;
};

/* Somebody's lifeline, listened to; one that is no longer wanted has no store. */
struct line {
    uv_poll_t poll;
    int listening;
    uint64_t token;
    struct cv_store *store;
};

struct cv_store {
    struct cv_sqlite sqlite; /* belongs to the thread at work while is_busy */
    uv_loop_t *loop;
    void (*answered)(void *user, const struct cv_store_answer *answer);
    void *user;

    int held; /* the lifeline as of the last answer; -1: none */
    uv_work_t work;
    bool is_busy;
    struct job job; /* the one at work */
    struct job waiting[WAITING_MAX];
    uint32_t waiting_count;

    struct line *line;    /* NULL: nobody is listened to */
    uint64_t heard_token; /* its line is known to be cut, and was told as news */
    uv_fs_event_t folder;

    bool is_closing;
    void (*closed)(void *user);
    void *closed_user;
};

/* ---- News ---------------------------------------------------------------------------------- */

static void tell_news(struct cv_store *store)
{
    if (!store->is_closing) {
        store->answered(store->user, &(struct cv_store_answer){.verdict = CV_STORE_CHANGED});
    }
}

static void on_folder(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct cv_store *store = handle->data;
    (void)status; /* a watch that broke is made up for by asking now and then */
    /* A pipe is made before the record is written, and touched afterwards: only that counts. */
    if ((events & UV_CHANGE) != 0 && name != NULL && cv__sqlite_is_ours(&store->sqlite, name)) {
        tell_news(store);
    }
}

static void on_line_closed(uv_handle_t *handle)
{
    struct line *line = handle->data;
    (void)close(line->listening); /* it was only read */
    free(line);
}

static void line_drop(struct cv_store *store)
{
    if (store->line != NULL) {
        store->line->store = NULL;
        uv_close((uv_handle_t *)&store->line->poll, on_line_closed);
        store->line = NULL;
    }
}

static void on_line(uv_poll_t *poll, int status, int events)
{
    const struct line *line = poll->data;
    struct cv_store *store = line->store;
    (void)status; /* an error is a reason to look as good as any */
    (void)events;
    CV_ASSERT(store != NULL); /* a line that was dropped is closed and calls no more */
    store->heard_token = line->token;
    line_drop(store);
    tell_news(store);
}

/* Listens to the holder with this token; without memory or a pipe, the lease must do. */
static void line_follow(struct cv_store *store, uint64_t token)
{
    if (token == store->heard_token || (store->line != NULL && store->line->token == token)) {
        return;
    }
    line_drop(store);
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_lifeline(&store->sqlite, token, path);
    struct line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        return;
    }
    line->listening = cv__lifeline_listen(path);
    if (line->listening < 0) {
        /* The holder has let go since the answer was read, or there is no line: look once more. */
        free(line);
        store->heard_token = token;
        tell_news(store);
        return;
    }
    if (uv_poll_init(store->loop, &line->poll, line->listening) != 0) {
        (void)close(line->listening); /* it was only read */
        free(line);
        return;
    }
    line->token = token;
    line->store = store;
    line->poll.data = line;
    store->line = line;
    (void)uv_poll_start(&line->poll, UV_READABLE, on_line); /* fails for a closing handle only */
    if (cv__lifeline_state(line->listening) == CV_LIFELINE_CUT) {
        /* It was cut before we opened it, and such an end is not reported to a poll. */
        on_line(&line->poll, /* status= */ 0, /* events= */ 0);
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void job_do(uv_work_t *work)
{
    struct cv_store *store = work->data;
    struct job *job = &store->job;
    if (job->request.heir != NULL) {
        job->request.heir = job->heir; /* the job was moved since */
    }
    if (job->is_wish) {
        job->answer = (struct cv_store_answer){.request = job->request.request};
        cv__sqlite_wish(&store->sqlite, job->request.heir, &job->answer, &job->record, &job->error);
    } else {
        cv__sqlite_do(&store->sqlite, &job->request, &job->answer, &job->record, &job->error);
    }
}

static void job_next(struct cv_store *store);
static void close_end(struct cv_store *store);

static void job_done(uv_work_t *work, int status)
{
    struct cv_store *store = work->data;
    CV_ASSERT(status == 0); /* no job is ever cancelled */
    store->is_busy = false;
    if (store->is_closing) {
        close_end(store);
        return;
    }
    store->held = store->sqlite.held;
    const struct job job = store->job; /* the next request may come from within the answer */
    store->answered(store->user, &job.answer);
    if (store->is_closing) {
        return;
    }
    if (job.answer.verdict == CV_STORE_HELD) {
        line_follow(store, job.answer.token);
    }
    job_next(store);
}

static void job_next(struct cv_store *store)
{
    if (store->is_busy || store->waiting_count == 0) {
        return;
    }
    store->job = store->waiting[0];
    store->waiting_count--;
    memmove(store->waiting, store->waiting + 1, store->waiting_count * sizeof store->waiting[0]);
    store->work.data = store;
    store->is_busy = true;
    const int queued = uv_queue_work(store->loop, &store->work, job_do, job_done);
    CV_ASSERT(queued == 0); /* fails without a callback only */
}

static void job_add(struct cv_store *store, const struct cv_store_request *request, bool is_wish)
{
    CV_ASSERT(!store->is_closing);
    CV_ASSERT(store->waiting_count < WAITING_MAX); /* see there */
    struct job *job = &store->waiting[store->waiting_count++];
    memset(job, 0, sizeof *job);
    job->request = *request;
    job->is_wish = is_wish;
    if (request->heir != NULL) {
        (void)strncpy(job->heir, request->heir, sizeof job->heir - 1); /* the rest is zero */
    }
    job_next(store);
}

static void sqlite_ask(struct cv_store *store, const struct cv_store_request *request)
{
    job_add(store, request, /* is_wish= */ false);
}

static void sqlite_wish(struct cv_store *store, uint64_t request, const char *heir)
{
    job_add(store, &(struct cv_store_request){.request = request, .heir = heir},
            /* is_wish= */ true);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

static const char *address_path(const char *address)
{
    return address + strlen("sqlite:");
}

static int sqlite_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    const char *path = address_path(setting->address);
    CV_ASSERT(setting->label != 0); /* two without a label would be one, and both would lead */
    if (path[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID, "'%s' names no file; write sqlite:PATH",
                        setting->address);
    }
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    store->loop = setting->loop;
    store->answered = setting->answered;
    store->user = setting->user;
    store->held = -1;
    int code = cv__sqlite_open(&store->sqlite, path, setting->election, setting->node,
                               setting->label, reterr);
    if (code == CV_OK && uv_fs_event_init(store->loop, &store->folder) != 0) {
        code = cv__fail(reterr, CV_E_MEMORY, "cannot watch for news of '%s'", path);
    }
    if (code != CV_OK) {
        cv__sqlite_close(&store->sqlite);
        free(store);
        return code;
    }
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(&store->sqlite, folder);
    store->folder.data = store;
    /* Without a watch (there is a limit for each user) news come later, by asking. */
    (void)uv_fs_event_start(&store->folder, on_folder, folder, /* flags= */ 0);
    *ret_store = store;
    return CV_OK;
}

static void on_folder_closed(uv_handle_t *handle)
{
    struct cv_store *store = handle->data;
    void (*closed)(void *user) = store->closed;
    void *user = store->closed_user;
    cv__sqlite_close(&store->sqlite);
    free(store);
    closed(user);
}

static void close_end(struct cv_store *store)
{
    CV_ASSERT(!store->is_busy);
    line_drop(store);
    uv_close((uv_handle_t *)&store->folder, on_folder_closed);
}

static void sqlite_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    CV_ASSERT(!store->is_closing);
    store->is_closing = true;
    store->closed = closed;
    store->closed_user = user;
    if (!store->is_busy) { /* otherwise job_done() goes on */
        close_end(store);
    }
}

static int sqlite_inherit(struct cv_store *store)
{
    return store->held;
}

static int sqlite_create(const char *address, struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    const int code = cv__sqlite_open(&sqlite, address_path(address), "", "", 0, reterr);
    cv__sqlite_close(&sqlite);
    return code;
}

static int sqlite_history(const char *address, const char *election,
                          void (*past)(void *user, const struct cv_store_past *past), void *user,
                          struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    int code = cv__sqlite_open(&sqlite, address_path(address), election, "", 0, reterr);
    if (code == CV_OK) {
        code = cv__sqlite_history(&sqlite, past, user, reterr);
    }
    cv__sqlite_close(&sqlite);
    return code;
}

static int sqlite_names(const char *address, void (*name)(void *user, const char *name), void *user,
                        struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    int code = cv__sqlite_open(&sqlite, address_path(address), "", "", 0, reterr);
    if (code == CV_OK) {
        code = cv__sqlite_names(&sqlite, name, user, reterr);
    }
    cv__sqlite_close(&sqlite);
    return code;
}

const struct cv_store_kind cv__store_sqlite = {
    .scheme = "sqlite",
    .summary = "a file, for the processes of one host",
    .example = "sqlite:/var/lib/app/elections.db",
    .clock = "the kernel's, which cannot be set (CLOCK_BOOTTIME)",
    .news = "a pipe that the holder and its descendants keep open",
    .lease_ns_min = 100 * INT64_C(1000000),
    .lease_ns_step = 1,
    .grant_percent = 100,
    .open = sqlite_open,
    .ask = sqlite_ask,
    .wish = sqlite_wish,
    .close = sqlite_close,
    .inherit = sqlite_inherit,
    .create = sqlite_create,
    .history = sqlite_history,
    .names = sqlite_names,
};
