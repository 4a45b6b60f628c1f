/* src/stores/sqlite_record.c - the records of a SQLite file, in short transactions.
 *
 * A waiting contender only reads. One that has seen a free record takes the write lock and reads
 * again. So when many are woken together, one writes and the others find the record held. */
#include "stores/sqlite_parts.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEIR_NS_MAX (2 * INT64_C(1000000000)) /* how long others wait for a named heir */

/* The lease is over, but the command still runs. The pipe wakes us when command and holder are both
 * gone; the command may end before the holder does, so we also look this often. */
#define OVERDUE_LOOK_NS (20 * INT64_C(1000000))

/* The record as it is in the file. */
struct row {
    struct cv_store_record shown;
    uint64_t attempt;
    int64_t expires_ns, renewed_wall_ns, heir_until_ns;
    char machine[CV_MACHINE_BYTES], boot[CV_BOOT_BYTES], heir[CV_NODE_BYTES];
    char pipe[CV_SQLITE_PIPE_BYTES]; /* of the holder; empty: it has none */
};

/* May the election be acquired, and what became of its last holder? */
struct availability {
    bool is_free;
    int64_t wait_ns;      /* not free: it will be in so long at the latest, if nothing happens */
    enum cv_reason why;   /* free, and somebody had it: how that ended; STARTED: it resigned */
    int64_t ended_ns_ago; /* and when */
};

/* ---- Reading ------------------------------------------------------------------------------- */

/* A time from the file. Others may have written it: bounded, so that sums do not overflow. */
static int64_t time_column(sqlite3_stmt *q, int index)
{
    const int64_t most = INT64_MAX / 4;
    const int64_t value = sqlite3_column_int64(q, index);
    return cv__max64(-most, cv__min64(value, most));
}

/* The record; one that does not exist looks released, with token 0. */
static int row_read(struct cv_sqlite *s, const struct cv_sqlite_contender *c, struct row *ret_row,
                    struct cv_errtext *reterr)
{
    memset(ret_row, 0, sizeof *ret_row);
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_READ_RECORD);
    if (q == NULL) {
        return cv__sqlite_failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    const int stepped = sqlite3_step(q);
    if (stepped == SQLITE_ROW) {
        cv__sqlite_text(ret_row->shown.node, sizeof ret_row->shown.node, cv__sqlite_column(q, 0));
        ret_row->shown.label = (uint64_t)sqlite3_column_int64(q, 1);
        ret_row->attempt = (uint64_t)sqlite3_column_int64(q, 2);
        ret_row->shown.token = (uint64_t)sqlite3_column_int64(q, 3);
        ret_row->shown.lease_ns = time_column(q, 4);
        cv__sqlite_text(ret_row->machine, sizeof ret_row->machine, cv__sqlite_column(q, 5));
        cv__sqlite_text(ret_row->boot, sizeof ret_row->boot, cv__sqlite_column(q, 6));
        ret_row->expires_ns = time_column(q, 7);
        ret_row->shown.since_wall_ns = time_column(q, 8);
        ret_row->renewed_wall_ns = time_column(q, 9);
        cv__sqlite_text(ret_row->shown.resign_request, sizeof ret_row->shown.resign_request,
                        cv__sqlite_column(q, 10));
        cv__sqlite_text(ret_row->heir, sizeof ret_row->heir, cv__sqlite_column(q, 11));
        ret_row->heir_until_ns = time_column(q, 12);
        cv__sqlite_text(ret_row->pipe, sizeof ret_row->pipe, cv__sqlite_column(q, 13));
        ret_row->shown.remaining_ns = ret_row->expires_ns - s->now_ns();
    }
    const bool is_read = stepped == SQLITE_ROW || stepped == SQLITE_DONE;
    const int code = is_read ? CV_OK : cv__sqlite_failed(s, "read", reterr);
    (void)sqlite3_reset(q); /* returns the same error again */
    return code;
}

/* The holder's clock is not ours: wait for a whole lease without a change, on our clock. The
 * clocks of two machines differ by less than 1 in 1000, or both are broken. */
static struct availability judge_strange(struct cv_sqlite_contender *c, const struct row *row,
                                         int64_t now_ns)
{
    if (c->strange_token != row->shown.token || c->strange_expires_ns != row->expires_ns) {
        c->strange_token = row->shown.token;
        c->strange_expires_ns = row->expires_ns;
        c->strange_since_ns = now_ns;
    }
    const int64_t needed_ns = row->shown.lease_ns + row->shown.lease_ns / 1000;
    const int64_t seen_ns = now_ns - c->strange_since_ns;
    return (struct availability){.is_free = seen_ns > needed_ns,
                                 .wait_ns = needed_ns - seen_ns + 1,
                                 .why = CV_REASON_EXPIRED};
}

/* The lease is over. Is the holder's process gone, or did it not renew in time? If the record is
 * ours, the process is this one, whatever the pipe says. */
static enum cv_reason why_expired(const struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                                  const struct row *row)
{
    const bool is_gone =
        row->shown.label != c->label && cv__sqlite_pipe_look(s, row->pipe) == CV_LIFELINE_CUT;
    return is_gone ? CV_REASON_DIED : CV_REASON_EXPIRED;
}

static struct availability judge(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                 const struct row *row)
{
    const int64_t now_ns = s->now_ns();
    const bool is_this_boot = strcmp(row->boot, s->boot) == 0;
    if (row->shown.node[0] == '\0') {
        const bool is_kept = row->heir[0] != '\0' && strcmp(row->heir, c->node) != 0 &&
                             is_this_boot && now_ns < row->heir_until_ns;
        return (struct availability){.is_free = !is_kept, .wait_ns = row->heir_until_ns - now_ns};
    }
    const bool is_this_kernel = strncmp(row->boot, s->boot, CV_BOOT_ID_BYTES) == 0;
    if (!is_this_boot && is_this_kernel) { /* by the clock of another time namespace */
        return cv__sqlite_pipe_look(s, row->pipe) == CV_LIFELINE_CUT
                   ? (struct availability){.is_free = true, .why = CV_REASON_DIED}
                   : judge_strange(c, row, now_ns);
    }
    if (!is_this_boot) {
        const bool is_this_machine = s->machine[0] != '\0' && strcmp(row->machine, s->machine) == 0;
        return is_this_machine ? (struct availability){.is_free = true, .why = CV_REASON_DIED}
                               : judge_strange(c, row, now_ns);
    }
    if (cv__sqlite_pipe_is_inherited(s, row->pipe)) {
        /* A command of this leadership still runs, which counts more than the lease, also if the
         * record is ours: supervisor and guard may be stopped, dead or late. */
        return (struct availability){
            .is_free = false, .wait_ns = cv__max64(row->expires_ns - now_ns, OVERDUE_LOOK_NS)};
    }
    if (row->expires_ns <= now_ns) { /* free, whatever the pipe says; that only says why */
        return (struct availability){.is_free = true,
                                     .why = why_expired(s, c, row),
                                     .ended_ns_ago = now_ns - row->expires_ns};
    }
    if (row->shown.label == c->label) { /* our own, of an attempt that is over */
        return (struct availability){.is_free = true, .why = CV_REASON_EXPIRED};
    }
    const bool is_cut = cv__sqlite_pipe_look(s, row->pipe) == CV_LIFELINE_CUT;
    return (struct availability){
        .is_free = is_cut, .wait_ns = row->expires_ns - now_ns, .why = CV_REASON_DIED};
}

/* ---- Writing ------------------------------------------------------------------------------- */

static int run(struct cv_sqlite *s, const char *sql, const char *doing, struct cv_errtext *reterr)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? CV_OK
               : cv__sqlite_failed(s, doing, reterr);
}

static int run_prepared(struct cv_sqlite *s, enum cv_sqlite_statement which,
                        struct cv_errtext *reterr)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, which);
    const bool is_done = q != NULL && sqlite3_step(q) == SQLITE_DONE;
    const int code = is_done ? CV_OK : cv__sqlite_failed(s, "write to", reterr);
    (void)sqlite3_reset(q); /* returns the same error again */
    return code;
}

static int write_step(struct cv_sqlite *s, sqlite3_stmt *q, struct cv_errtext *reterr)
{
    const int code = sqlite3_step(q) == SQLITE_DONE ? CV_OK : cv__sqlite_failed(s, "write", reterr);
    (void)sqlite3_reset(q); /* returns the same error again */
    return code;
}

static int past_close(struct cv_sqlite *s, uint64_t token, int64_t to_wall_ns, enum cv_reason why,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_CLOSE_PAST);
    if (q == NULL) {
        return cv__sqlite_failed(s, "write", reterr);
    }
    sqlite3_bind_int64(q, 1, to_wall_ns);
    sqlite3_bind_text(q, 2, cv_reason_name(why), -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)token);
    return write_step(s, q, reterr);
}

static int alive_note(struct cv_sqlite *s, uint64_t token, int64_t alive_wall_ns,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_NOTE_ALIVE);
    if (q == NULL) {
        return cv__sqlite_failed(s, "write", reterr);
    }
    sqlite3_bind_int64(q, 1, (int64_t)token);
    sqlite3_bind_int64(q, 2, alive_wall_ns);
    return write_step(s, q, reterr);
}

/* Adds a leadership to the trail; token 0: the next one of the sequence. */
static int past_begin(struct cv_sqlite *s, const char *election, const char *node,
                      const char *version, int64_t wall_ns, uint64_t token,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_BEGIN_PAST);
    if (q == NULL) {
        return cv__sqlite_failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, election, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, node, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, wall_ns);
    sqlite3_bind_text(q, 4, version, -1, SQLITE_STATIC);
    if (token != 0) {
        sqlite3_bind_int64(q, 5, (int64_t)token);
    } else {
        sqlite3_bind_null(q, 5);
    }
    return write_step(s, q, reterr);
}

/* With a token that was reserved, or a new one. */
static int past_begin_own(struct cv_sqlite *s, const struct cv_sqlite_contender *c, int64_t wall_ns,
                          uint64_t record_token, uint64_t *ret_token, struct cv_errtext *reterr)
{
    const bool is_reserved = cv__sqlite_has_reserved(s, record_token);
    CV_ASSERT(is_reserved || !s->is_hasty); /* a new token waits for the disk */
    const uint64_t token = is_reserved ? cv__sqlite_use_reserved(s, record_token) : 0;
    s->must_sync = s->must_sync || is_reserved;
    const int code = past_begin(s, c->election, c->node, c->version, wall_ns, token, reterr);
    *ret_token = (uint64_t)sqlite3_last_insert_rowid(s->db);
    return code;
}

static int row_write(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                     const struct row *row, struct cv_errtext *reterr)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_WRITE_RECORD);
    if (q == NULL) {
        return cv__sqlite_failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, row->shown.node, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)row->shown.label);
    sqlite3_bind_int64(q, 4, (int64_t)row->attempt);
    sqlite3_bind_int64(q, 5, (int64_t)row->shown.token);
    sqlite3_bind_int64(q, 6, row->shown.lease_ns);
    sqlite3_bind_text(q, 7, row->machine, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 8, row->boot, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 9, row->expires_ns);
    sqlite3_bind_int64(q, 10, row->shown.since_wall_ns);
    sqlite3_bind_int64(q, 11, row->renewed_wall_ns);
    sqlite3_bind_text(q, 12, row->shown.resign_request, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 13, row->heir, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 14, row->heir_until_ns);
    sqlite3_bind_text(q, 15, row->pipe, -1, SQLITE_STATIC);
    return write_step(s, q, reterr);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static bool is_mine(const struct cv_sqlite_job *job, const struct row *row)
{
    return row->shown.node[0] != '\0' && row->shown.label == job->contender->label &&
           row->attempt == job->request.attempt;
}

static void prolong(struct cv_sqlite *s, struct row *row, int64_t lease_ns)
{
    row->shown.lease_ns = lease_ns;
    row->expires_ns = s->now_ns() + lease_ns;
    row->renewed_wall_ns = cv__clock_wall_ns();
    row->shown.remaining_ns = lease_ns;
}

static void answer(struct cv_sqlite_job *job, enum cv_store_verdict verdict, const struct row *row)
{
    job->answer =
        (struct cv_store_answer){.request = job->request.request,
                                 .verdict = verdict,
                                 .token = row->shown.token,
                                 .holder = verdict != CV_STORE_FREE ? row->shown.label : 0,
                                 .record = &job->record};
    job->record = row->shown;
    job->pipe[0] = '\0';
}

static void answer_held(struct cv_sqlite_job *job, const struct row *row, int64_t wait_ns)
{
    answer(job, CV_STORE_HELD, row);
    job->answer.duration_ns = wait_ns > 0 ? wait_ns : 0;
    if (row->shown.node[0] != '\0' && cv__sqlite_pipe_is_valid(row->pipe)) {
        cv__sqlite_text(job->pipe, sizeof job->pipe, row->pipe);
    }
}

static void answer_granted(struct cv_sqlite_job *job, const struct row *row)
{
    answer(job, CV_STORE_GRANTED, row);
    job->answer.duration_ns = row->shown.lease_ns;
}

static void answer_failed(struct cv_sqlite_job *job, const struct cv_errtext *why)
{
    if (why != &job->error) {
        job->error = *why;
    }
    job->answer = (struct cv_store_answer){
        .request = job->request.request, .verdict = CV_STORE_FAILED, .why = job->error.text};
}

/* Why nobody holds the election; CV_REASON_STARTED: not known. */
static enum cv_reason find_why(struct cv_sqlite *s, const struct row *row,
                               const struct availability *seen)
{
    if (row->shown.node[0] != '\0') {
        return seen->why;
    }
    sqlite3_stmt *q = row->shown.token != 0 ? cv__sqlite_statement(s, CV_SQLITE_FIND_WHY) : NULL;
    if (q == NULL) {
        return CV_REASON_STARTED;
    }
    sqlite3_bind_int64(q, 1, (int64_t)row->shown.token);
    const enum cv_reason why =
        sqlite3_step(q) == SQLITE_ROW ? cv__reason_find(cv__sqlite_column(q, 0)) : CV_REASON_COUNT;
    (void)sqlite3_reset(q);
    return why != CV_REASON_COUNT ? why : CV_REASON_STARTED;
}

/* Of the holder. Files that we may only read need not have it. */
static void find_version(struct cv_sqlite *s, struct cv_store_record *record)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_FIND_VERSION);
    if (q != NULL) {
        sqlite3_bind_int64(q, 1, (int64_t)record->token);
        const bool is_found = sqlite3_step(q) == SQLITE_ROW;
        cv__sqlite_text(record->version, sizeof record->version,
                        is_found ? cv__sqlite_column(q, 0) : "");
        (void)sqlite3_reset(q);
    }
}

/* The leadership before the present one. */
static void find_last(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                      struct cv_store_record *record)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_FIND_LAST);
    if (q == NULL) {
        return;
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, (int64_t)record->token);
    if (sqlite3_step(q) == SQLITE_ROW) {
        const enum cv_reason why = cv__reason_find(cv__sqlite_column(q, 0));
        record->last = (struct cv_store_end){.token = (uint64_t)sqlite3_column_int64(q, 2),
                                             .why = why != CV_REASON_COUNT ? why : CV_REASON_GONE,
                                             .wall_ns = sqlite3_column_int64(q, 3)};
        cv__sqlite_text(record->last.node, sizeof record->last.node, cv__sqlite_column(q, 1));
    }
    (void)sqlite3_reset(q);
}

/* judge() calls a record free for its own holder. */
static bool is_held_by(const struct cv_sqlite_contender *c, const struct row *row)
{
    return row->shown.label == c->label && row->shown.remaining_ns > 0;
}

/* When a leadership ended that nobody released. */
static int64_t lapsed_wall_ns(const struct row *row, const struct availability *was,
                              int64_t wall_ns)
{
    return cv__min64(wall_ns - was->ended_ns_ago, row->renewed_wall_ns + row->shown.lease_ns);
}

/* Answers a request that needs no write; marks any other as due. A contender that waits only reads,
 * and one that has seen a free record looks again when it has the write lock. */
static void look(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    job->is_due = job->asks_resign || job->request.forgets || job->request.verb == CV_STORE_RENEW ||
                  job->request.verb == CV_STORE_RELEASE;
    if (job->is_due) {
        return;
    }
    struct cv_sqlite_contender *c = job->contender;
    struct row row;
    if (row_read(s, c, &row, &job->error) != CV_OK) {
        answer_failed(job, &job->error);
        return;
    }
    const struct availability availability = judge(s, c, &row);
    job->seen_token = row.shown.token;
    if (job->request.verb == CV_STORE_ACQUIRE) {
        job->is_due = availability.is_free || is_mine(job, &row);
        if (!job->is_due) {
            answer_held(job, &row, availability.wait_ns);
            cv__sqlite_wait_begin(s, c);
        }
        return;
    }
    if (row.shown.node[0] == '\0' || (availability.is_free && !is_held_by(c, &row))) {
        answer(job, CV_STORE_FREE, &row);
        job->record.ended = find_why(s, &row, &availability);
        const int64_t wall_ns = cv__clock_wall_ns();
        const int64_t ended_ns = lapsed_wall_ns(&row, &availability, wall_ns);
        if (row.shown.node[0] != '\0' && ended_ns < wall_ns) { /* not only noticed just now */
            job->record.ended_wall_ns = ended_ns;
        }
    } else {
        answer_held(job, &row, availability.wait_ns);
        find_version(s, &job->record);
        find_last(s, c, &job->record);
    }
}

/* Why the leadership before ours ended. If it was our own, we know more than the record. */
static enum cv_reason why_lapsed(const struct cv_sqlite_job *job, const struct row *row,
                                 const struct availability *was)
{
    const bool is_own = row->shown.label == job->contender->label;
    return is_own && job->request.reason != CV_REASON_STARTED ? job->request.reason : was->why;
}

/* The election is free, and becomes ours. */
static int take(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row,
                const struct availability *was)
{
    struct cv_sqlite_contender *c = job->contender;
    const int64_t wall_ns = cv__clock_wall_ns();
    if (was->why != CV_REASON_STARTED) {
        int code = past_close(s, row->shown.token, lapsed_wall_ns(row, was, wall_ns),
                              why_lapsed(job, row, was), &job->error);
        if (code == CV_OK) {
            code = alive_note(s, row->shown.token, row->renewed_wall_ns, &job->error);
        }
        if (code != CV_OK) {
            return code;
        }
    }
    uint64_t token = 0;
    int code = past_begin_own(s, c, wall_ns, row->shown.token, &token, &job->error);
    if (code != CV_OK) {
        return code;
    }
    if (token <= row->shown.token) { /* AUTOINCREMENT prevents it, unless a user edits the file */
        return cv__fail(&job->error, CV_E_STORE,
                        "the tokens of '%s' would not grow: its record has token %" PRIu64
                        ", its history only smaller ones",
                        s->path, row->shown.token);
    }
    cv__sqlite_text(job->unused, sizeof job->unused, row->pipe);
    memset(row, 0, sizeof *row);
    job->is_taken = true;
    code = cv__sqlite_pipe_take(s, c, token, row->pipe, &job->error);
    if (code != CV_OK) {
        return code;
    }
    cv__sqlite_text(row->shown.node, sizeof row->shown.node, c->node);
    cv__sqlite_text(row->machine, sizeof row->machine, s->machine);
    cv__sqlite_text(row->boot, sizeof row->boot, s->boot);
    row->shown.label = c->label;
    row->shown.token = token;
    row->shown.since_wall_ns = wall_ns;
    row->attempt = job->request.attempt;
    prolong(s, row, job->request.lease_ns);
    return row_write(s, c, row, &job->error);
}

static int acquire(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    struct cv_sqlite_contender *c = job->contender;
    const struct availability availability = judge(s, c, row);
    const bool is_again = is_mine(job, row);
    if (!is_again && !availability.is_free) {
        answer_held(job, row, availability.wait_ns);
        return CV_OK;
    }
    if (s->is_hasty && (is_again || !cv__sqlite_has_reserved(s, row->shown.token))) {
        job->must_wait = true; /* the record has changed since we looked */
        return CV_E_STORE;
    }
    int code = CV_OK;
    if (!is_again) {
        code = take(s, job, row, &availability);
    } else {
        /* A grant that we did not know of: its commit seemed to fail, or the record was given to us
         * unheard. Without a pipe the others would take us for dead. */
        if (c->pipe_token != row->shown.token) {
            job->is_taken = true;
            code = cv__sqlite_pipe_take(s, c, row->shown.token, row->pipe, &job->error);
        }
        prolong(s, row, job->request.lease_ns);
        code = code == CV_OK ? row_write(s, c, row, &job->error) : code;
    }
    answer_granted(job, row);
    return code;
}

static int renew(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    const uint64_t token = job->request.token;
    const bool has_pipe = job->contender->pipe_token == token && token != 0;
    if (has_pipe && is_mine(job, row) && row->shown.token == token) {
        prolong(s, row, job->request.lease_ns);
        answer_granted(job, row);
        return row_write(s, job->contender, row, &job->error);
    }
    if (row->shown.node[0] != '\0') {
        answer_held(job, row, row->expires_ns - s->now_ns());
    } else {
        answer(job, CV_STORE_FREE, row);
    }
    return CV_OK;
}

/* A supervisor that releases has seen that nothing of its command is left. If a process of it still
 * holds the pipe, only the lease ends: the record stays, and the others wait for the pipe. */
static void row_release(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    const int64_t now_ns = s->now_ns();
    const int64_t kept_ns = row->shown.lease_ns < HEIR_NS_MAX ? row->shown.lease_ns : HEIR_NS_MAX;
    row->shown.resign_request[0] = '\0';
    row->shown.remaining_ns = 0;
    row->expires_ns = now_ns;
    const struct cv_sqlite_contender *c = job->contender;
    const bool has_own_pipe =
        c->has_descendants || c->pipe_fd >= 0; /* nobody inherits the shared one */
    job->is_outlived = has_own_pipe && cv__sqlite_pipe_is_inherited(s, row->pipe);
    if (!job->is_outlived) {
        row->shown.node[0] = '\0';
        cv__sqlite_text(row->heir, sizeof row->heir, job->heir);
        row->heir_until_ns = row->heir[0] != '\0' ? now_ns + kept_ns : 0;
        row->pipe[0] = '\0';
    }
}

/* The record as the ACQUIRE of the one that is next would have written it; but for a short time. */
static int give(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row,
                const struct cv_sqlite_next *next)
{
    const int64_t wall_ns = cv__clock_wall_ns();
    CV_ASSERT(next->token > row->shown.token);
    memset(row, 0, sizeof *row);
    cv__sqlite_text(row->shown.node, sizeof row->shown.node, next->node);
    cv__sqlite_text(row->machine, sizeof row->machine, s->machine);
    cv__sqlite_text(row->boot, sizeof row->boot, s->boot);
    cv__sqlite_text(row->pipe, sizeof row->pipe, next->pipe);
    row->shown.label = next->label;
    row->shown.token = next->token;
    row->shown.since_wall_ns = wall_ns;
    row->attempt = next->attempt;
    prolong(s, row, next->lease_ns);
    row->shown.remaining_ns = cv__min64(next->lease_ns, CV_SQLITE_GIVEN_NS_MAX);
    row->expires_ns += row->shown.remaining_ns - next->lease_ns;
    job->is_given = true;
    job->mail_text = (struct cv_sqlite_mail){
        .secret = next->secret, .token = next->token, .expires_ns = row->expires_ns};
    return past_begin(s, job->contender->election, next->node, next->version, wall_ns, next->token,
                      &job->error);
}

/* When the leadership of our record ended. If the file was locked, we write that late: it ended
 * when its release was first asked for, or with its lease if that was earlier. */
static int64_t ended_wall_ns(const struct cv_sqlite *s, const struct cv_sqlite_job *job,
                             const struct row *row)
{
    const int64_t now_ns = s->now_ns();
    const int64_t asked_ns = job->released_ns != 0 ? job->released_ns : now_ns;
    const int64_t late_ns = now_ns - cv__min64(asked_ns, row->expires_ns);
    return cv__max64(cv__clock_wall_ns() - cv__max64(late_ns, 0), row->shown.since_wall_ns);
}

static int release(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    struct cv_sqlite_contender *c = job->contender;
    int code = cv__sqlite_next_withdraw(s, c, &job->error);
    if (code == CV_OK && is_mine(job, row)) {
        const enum cv_reason reason =
            job->request.reason != CV_REASON_STARTED ? job->request.reason : CV_REASON_RESIGNED;
        struct cv_sqlite_next next;
        const int64_t wall_ns = ended_wall_ns(s, job, row);
        row_release(s, job, row);
        code = past_close(s, row->shown.token, wall_ns, reason, &job->error);
        if (code == CV_OK && !job->is_outlived && !job->is_plain &&
            cv__sqlite_next_find(s, c, job->heir, &next, &job->mail)) {
            code = give(s, job, row, &next);
            job->is_plain = job->must_wait = code != CV_OK; /* release again, without giving */
        }
        code = code == CV_OK ? row_write(s, c, row, &job->error) : code;
    }
    job->is_released = true;
    if (job->is_given) {
        answer_held(job, row, row->shown.remaining_ns);
    } else {
        answer(job, CV_STORE_FREE, row);
    }
    return code;
}

static int request_resign(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    const struct availability availability = judge(s, job->contender, row);
    if (row->shown.node[0] == '\0' || (availability.is_free && !is_held_by(job->contender, row))) {
        answer(job, CV_STORE_FREE, row);
        return CV_OK;
    }
    cv__sqlite_text(row->shown.resign_request, sizeof row->shown.resign_request,
                    job->heir[0] != '\0' ? job->heir : "*");
    answer_held(job, row, availability.wait_ns);
    return row_write(s, job->contender, row, &job->error);
}

/* Rows of the trail are removed too. Their numbers, the tokens, are not given out again: see
 * sqlite_record.h. */
static int forget(struct cv_sqlite *s, struct cv_sqlite_job *job, const struct row *row)
{
    static const char *const scripts[] = {
        ("DELETE FROM conclave_alive WHERE token IN"
         " (SELECT token FROM conclave_history WHERE election = ?)"),
        "DELETE FROM conclave_history WHERE election = ?",
        "DELETE FROM conclave_runs WHERE election = ?",
        "DELETE FROM conclave_next WHERE election = ?",
        "DELETE FROM conclave_election WHERE election = ?"};
    int code = CV_OK;
    if (row->shown.node[0] != '\0' && !judge(s, job->contender, row).is_free) {
        answer(job, CV_STORE_HELD, row);
        return code;
    }
    for (uint32_t i = 0; code == CV_OK && i < COUNT_OF(scripts); i++) {
        sqlite3_stmt *q = NULL;
        if (sqlite3_prepare_v2(s->db, scripts[i], -1, &q, NULL) != SQLITE_OK) {
            return cv__sqlite_failed(s, "write to", &job->error);
        }
        sqlite3_bind_text(q, 1, job->contender->election, -1, SQLITE_STATIC);
        code =
            sqlite3_step(q) == SQLITE_DONE ? CV_OK : cv__sqlite_failed(s, "write to", &job->error);
        (void)sqlite3_finalize(q); /* returns the same error again */
    }
    answer(job, CV_STORE_GRANTED, row);
    return code;
}

/* Within a transaction. */
static int write_one(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    struct row row;
    const int code = row_read(s, job->contender, &row, &job->error); /* it may have changed */
    if (code != CV_OK) {
        return code;
    }
    if (job->asks_resign) {
        return request_resign(s, job, &row);
    }
    if (job->request.forgets) {
        return forget(s, job, &row);
    }
    switch (job->request.verb) {
    case CV_STORE_ACQUIRE:
        return acquire(s, job, &row);
    case CV_STORE_RENEW:
        return renew(s, job, &row);
    case CV_STORE_RELEASE:
        return release(s, job, &row);
    case CV_STORE_READ:
        break;
    }
    CV_ASSERT(false); /* look() answered it */
    return CV_E_INVALID;
}

/* After the commit: a contender that is woken finds what was written. */
static void finish(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    struct cv_sqlite_contender *c = job->contender;
    job->is_due = false;
    if (job->is_given) {
        cv__sqlite_mail_send(job->mail, &job->mail_text);
    }
    if (job->is_released && c->pipe_fd >= 0 && !job->is_outlived) {
        cv__sqlite_pipe_unlink(s, c->pipe);
    }
    if (job->is_released) {
        cv__sqlite_leave(c);
        cv__sqlite_wait_end(s, c);
        c->next_token = c->next_attempt = 0;
        c->is_next_durable = false;
    }
    job->is_untidy = job->is_taken;
    if (job->is_released || job->asks_resign) {
        cv__sqlite_wake_others(s, c);
    }
    if (job->request.forgets && job->answer.verdict == CV_STORE_GRANTED) {
        cv__sqlite_marker_remove(s, c);
    }
}

void cv__sqlite_tidy(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    CV_ASSERT(job->is_untidy);
    job->is_untidy = false;
    cv__sqlite_wait_end(s, job->contender);
    if (job->unused[0] != '\0' && cv__sqlite_pipe_look(s, job->unused) == CV_LIFELINE_CUT &&
        !cv__sqlite_pipe_is_named(s, job->unused)) {
        cv__sqlite_pipe_unlink(s, job->unused);
    }
    if (job->is_given) {
        s->must_sync = true; /* for the trail; the token is on the disk */
        return;              /* the former holder has told the others */
    }
    cv__sqlite_wake_others(s, job->contender);
}

/* Nothing was written, as far as we know. If it was, the closed pipe says that nobody leads. */
static void undo(struct cv_sqlite_job *job)
{
    if (job->is_taken) {
        cv__sqlite_leave(job->contender);
    }
    if (job->is_given) {
        (void)close(job->mail); /* nothing was written */
    }
    job->is_taken = job->is_released = job->is_given = false;
    job->unused[0] = '\0';
}

/* Only grants with a new token wait for the disk. A power failure may undo a renewal or a release:
 * then the record is of another boot, and free. */
int cv__sqlite_begin(struct cv_sqlite *s, bool is_hasty, struct cv_errtext *reterr)
{
    int code = CV_OK;
    if (s->is_hasty != is_hasty) {
        code = run(s, is_hasty ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                   "prepare", reterr);
        s->is_hasty = code == CV_OK ? is_hasty : s->is_hasty;
    }
    return code == CV_OK ? run_prepared(s, CV_SQLITE_BEGIN, reterr) : code;
}

int cv__sqlite_commit(struct cv_sqlite *s, struct cv_errtext *reterr)
{
    return run_prepared(s, CV_SQLITE_COMMIT, reterr);
}

/* Carries out what is due, or only one of it, in one transaction. False: it failed after it got
 * the write lock, and everything is undone and still due; *ret_why says why. */
static bool write_due(struct cv_sqlite *s, struct cv_sqlite_job *jobs, struct cv_sqlite_job *only,
                      bool is_hasty, struct cv_errtext *ret_why)
{
    int code = cv__sqlite_begin(s, is_hasty, ret_why);
    const bool is_begun = code == CV_OK;
    for (struct cv_sqlite_job *job = jobs; job != NULL && code == CV_OK; job = job->next) {
        if (job->is_due && (only == NULL || only == job)) {
            code = write_one(s, job);
            *ret_why = code != CV_OK ? job->error : *ret_why;
        }
    }
    if (code == CV_OK) {
        code = cv__sqlite_commit(s, ret_why);
    }
    if (is_begun && code != CV_OK) {
        (void)run(s, "ROLLBACK", "undo", NULL); /* SQLite may have done it already */
    }
    for (struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        if (!job->is_due || (only != NULL && only != job)) {
            continue;
        }
        if (code == CV_OK) {
            finish(s, job);
        } else {
            undo(job);
        }
        if (!is_begun) {
            job->is_due = false;
            answer_failed(job, ret_why); /* the others would not get the lock either */
        }
    }
    return code == CV_OK || !is_begun;
}

/* May the commit return before the disk has it? There is one reserved token at most. */
static bool may_be_hasty(const struct cv_sqlite *s, const struct cv_sqlite_job *jobs)
{
    uint32_t grant_count = 0;
    bool is_hasty = true;
    for (const struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        if (!job->is_due || job->asks_resign) {
            continue;
        }
        const bool is_grant = !job->request.forgets && job->request.verb == CV_STORE_ACQUIRE;
        grant_count += is_grant;
        is_hasty = is_hasty && !job->request.forgets &&
                   (!is_grant || cv__sqlite_has_reserved(s, job->seen_token));
    }
    return is_hasty && grant_count <= 1;
}

static bool must_wait(const struct cv_sqlite_job *jobs)
{
    while (jobs != NULL && !jobs->must_wait) {
        jobs = jobs->next;
    }
    return jobs != NULL;
}

/* If one request cannot be written, each is tried in a transaction of its own. */
static void write_all(struct cv_sqlite *s, struct cv_sqlite_job *jobs)
{
    uint32_t due_count = 0;
    for (const struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        due_count += job->is_due;
    }
    struct cv_errtext why = {""};
    bool is_hasty = may_be_hasty(s, jobs);
    if (due_count == 0 || write_due(s, jobs, NULL, is_hasty, &why)) {
        return;
    }
    if (must_wait(jobs)) {
        is_hasty = false;
        if (write_due(s, jobs, NULL, is_hasty, &why)) {
            return;
        }
    }
    for (struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        if (job->is_due) {
            const bool is_alone = due_count == 1;
            if (is_alone || !write_due(s, jobs, job, is_hasty, &why)) {
                job->is_due = false;
                answer_failed(job, &why);
            }
        }
    }
}

static bool is_candidate(const struct cv_sqlite_job *job)
{
    return !job->asks_resign && job->request.verb == CV_STORE_ACQUIRE && job->request.attempt != 0;
}

/* A connection that was opened for reading stays so when the user gets the right to write. */
static int ensure_writable(struct cv_sqlite *s, const struct cv_sqlite_job *jobs,
                           struct cv_errtext *reterr)
{
    const struct cv_sqlite_job *job = jobs;
    while (job != NULL && !is_candidate(job)) {
        job = job->next;
    }
    return job != NULL && s->is_read_only ? cv__sqlite_open_for_writing(s, reterr) : CV_OK;
}

void cv__sqlite_do(struct cv_sqlite *s, struct cv_sqlite_job *jobs)
{
    bool has_waiting = false, has_renewal = false;
    struct cv_errtext error, barred;
    const bool is_there = cv__sqlite_file_check(s->path, &s->file, &error) == CV_OK;
    const bool is_barred = is_there && ensure_writable(s, jobs, &barred) != CV_OK;
    for (struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        CV_ASSERT(job->request.request != 0);
        job->is_due = job->is_taken = job->is_released = job->is_untidy = job->must_wait = false;
        job->is_given = job->is_plain = false;
        job->unused[0] = '\0';
        if (is_there && job->request.runs != NULL) {
            cv__sqlite_runs(s, job);
        } else if (is_there && job->request.list != NULL) {
            cv__sqlite_list(s, job);
        } else if (is_barred && is_candidate(job)) {
            answer_failed(job, &barred); /* at once, not only when the leader is gone */
        } else if (is_there) {
            look(s, job);
        } else {
            answer_failed(job, &error);
        }
        has_renewal = has_renewal || (!job->asks_resign && job->request.verb == CV_STORE_RENEW);
    }
    write_all(s, jobs);
    for (const struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        has_waiting = has_waiting || (job->answer.verdict == CV_STORE_HELD && !job->is_released);
        if (job->answer.verdict == CV_STORE_HELD && job->request.verb == CV_STORE_ACQUIRE &&
            job->request.attempt != 0) { /* without an attempt it is not a candidate */
            job->contender->sought_attempt = job->request.attempt;
            job->contender->sought_lease_ns = job->request.lease_ns;
        }
    }
    if (has_waiting) {
        cv__sqlite_make_ready(s);
    }
    if (has_renewal) {
        cv__sqlite_log_write_back(s, /* is_closing= */ false);
    }
}
