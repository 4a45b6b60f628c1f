/* src/stores/sqlite_runs.c - the text about the runs of a job, in a SQLite file.
 *
 * The write lock excludes grants while we check that the token holds the election and which version
 * the text has. A completion that was answered survives a power failure: the commit waits for the
 * disk. */
#include "core/errors.h"
#include "stores/sqlite_record.h"

#include <stdio.h>
#include <string.h>

static int runs_failed(struct cv_sqlite *s, const char *doing, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_STORE, "cannot %s the runs in '%s': %s", doing, s->path,
                    sqlite3_errmsg(s->db));
}

/* Steps a statement with the election as its first value, and gives its first row to the caller;
 * NULL: there is none, or (*ret_code) it failed. */
static sqlite3_stmt *row_find(struct cv_sqlite *s, const char *sql, const char *election,
                              int *ret_code, struct cv_errtext *reterr)
{
    sqlite3_stmt *q = NULL;
    int stepped = SQLITE_ERROR;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK) {
        sqlite3_bind_text(q, 1, election, -1, SQLITE_STATIC);
        stepped = sqlite3_step(q);
    }
    const bool is_read = stepped == SQLITE_ROW || stepped == SQLITE_DONE;
    *ret_code = is_read ? CV_OK : runs_failed(s, "read", reterr);
    if (stepped != SQLITE_ROW) {
        (void)sqlite3_finalize(q); /* returns the same error again */
        q = NULL;
    }
    return q;
}

static bool runs_exist(struct cv_sqlite *s)
{
    return sqlite3_table_column_metadata(s->db, NULL, "conclave_runs", NULL, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

static int runs_read(struct cv_sqlite *s, const char *election, struct cv_store_runs *ret_runs,
                     struct cv_errtext *reterr)
{
    int code;
    ret_runs->version = 0;
    ret_runs->text[0] = '\0';
    if (s->is_read_only && !runs_exist(s)) {
        return CV_OK; /* a file of an earlier version, to which nothing can be added */
    }
    sqlite3_stmt *q = row_find(s, "SELECT version, text FROM conclave_runs WHERE election = ?",
                               election, &code, reterr);
    if (q != NULL) {
        const char *text = (const char *)sqlite3_column_text(q, 1);
        ret_runs->version = (uint64_t)sqlite3_column_int64(q, 0);
        (void)snprintf(ret_runs->text, sizeof ret_runs->text, "%s", text != NULL ? text : "");
        (void)sqlite3_finalize(q); /* it was only read */
    }
    return code;
}

/* Within the transaction. */
static int judge(struct cv_sqlite *s, const char *election, const struct cv_store_runs *runs,
                 enum cv_store_verdict *ret_verdict, struct cv_errtext *reterr)
{
    int code;
    sqlite3_stmt *holder =
        row_find(s, "SELECT token FROM conclave_election WHERE election = ? AND node <> ''",
                 election, &code, reterr);
    const bool is_held = holder != NULL && (uint64_t)sqlite3_column_int64(holder, 0) == runs->token;
    (void)sqlite3_finalize(holder); /* it was only read */
    if (code != CV_OK) {
        return code;
    }
    sqlite3_stmt *text = row_find(s, "SELECT version FROM conclave_runs WHERE election = ?",
                                  election, &code, reterr);
    const uint64_t version = text != NULL ? (uint64_t)sqlite3_column_int64(text, 0) : 0;
    (void)sqlite3_finalize(text); /* it was only read */
    *ret_verdict = !is_held                   ? CV_STORE_HELD
                   : version != runs->version ? CV_STORE_CHANGED
                                              : CV_STORE_GRANTED;
    return code;
}

static int runs_replace(struct cv_sqlite *s, const char *election, const struct cv_store_runs *runs,
                        struct cv_errtext *reterr)
{
    sqlite3_stmt *q = NULL;
    int stepped = SQLITE_ERROR;
    if (sqlite3_prepare_v2(s->db,
                           "INSERT OR REPLACE INTO conclave_runs (election, token, version, text)"
                           " VALUES (?, ?, ?, ?)",
                           -1, &q, NULL) == SQLITE_OK) {
        sqlite3_bind_text(q, 1, election, -1, SQLITE_STATIC);
        sqlite3_bind_int64(q, 2, (int64_t)runs->token);
        sqlite3_bind_int64(q, 3, (int64_t)runs->version + 1);
        sqlite3_bind_text(q, 4, runs->text, -1, SQLITE_STATIC);
        stepped = sqlite3_step(q);
    }
    const int code = stepped == SQLITE_DONE ? CV_OK : runs_failed(s, "write", reterr);
    (void)sqlite3_finalize(q); /* returns the same error again */
    return code;
}

static int execute(struct cv_sqlite *s, const char *sql, struct cv_errtext *reterr)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? CV_OK
               : runs_failed(s, "write", reterr);
}

static int runs_write(struct cv_sqlite *s, const char *election, const struct cv_store_runs *runs,
                      enum cv_store_verdict *ret_verdict, struct cv_errtext *reterr)
{
    int code = execute(s, "PRAGMA synchronous = FULL", reterr);
    s->is_hasty = code == CV_OK ? false : s->is_hasty;
    code = code == CV_OK ? execute(s, "BEGIN IMMEDIATE", reterr) : code;
    if (code != CV_OK) {
        return code;
    }
    code = judge(s, election, runs, ret_verdict, reterr);
    if (code == CV_OK && *ret_verdict == CV_STORE_GRANTED) {
        code = runs_replace(s, election, runs, reterr);
    }
    if (code == CV_OK) {
        code = execute(s, "COMMIT", reterr);
    }
    if (code != CV_OK) {
        (void)execute(s, "ROLLBACK", NULL); /* SQLite may have done it already */
    }
    return code;
}

void cv__sqlite_runs(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    struct cv_store_runs *runs = job->request.runs;
    const char *election = job->contender->election;
    enum cv_store_verdict verdict = CV_STORE_GRANTED;
    const int code = runs->token == 0 ? runs_read(s, election, runs, &job->error)
                                      : runs_write(s, election, runs, &verdict, &job->error);
    job->answer = (struct cv_store_answer){.request = job->request.request,
                                           .verdict = code == CV_OK ? verdict : CV_STORE_FAILED,
                                           .token = runs->token,
                                           .why = code == CV_OK ? NULL : job->error.text};
}
