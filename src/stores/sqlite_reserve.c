/* src/stores/sqlite_reserve.c - a token in advance, so that a grant need not wait for the disk.
 *
 * Before a grant is answered, the disk must know that its token was given out. After a power
 * failure the record belongs to another boot and is free; but a forgotten token would be given out
 * again, and resources that fence by it would take two leaderships for one. So a connection with
 * waiting contenders takes a token from the sequence in advance, waits for the disk, and keeps the
 * token in memory:
 *
 *   once        the sequence never repeats a number, and only this connection knows this one: it is
 *               forgotten when it is used, even if that fails, and when the process ends.
 *   growing     it is used only if the record of the election has a smaller token. If the record is
 *               missing, it may have been removed, so the reserved token is not used.
 *
 * The record itself and the trail reach the disk a moment later (cv__sqlite_log_sync). If the
 * power fails before, the trail misses a leadership that lasted for that moment. */
#include "stores/sqlite_parts.h"

#include "core/assert.h"
#include "core/errors.h"

bool cv__sqlite_log_sync(struct cv_sqlite *s)
{
    sqlite3_file *log = NULL;
    return sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
           log != NULL && log->pMethods != NULL &&
           log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) == SQLITE_OK;
}

static bool step(struct cv_sqlite *s, enum cv_sqlite_statement which, int expected, int64_t *ret)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, which);
    const bool is_done = q != NULL && sqlite3_step(q) == expected;
    if (is_done && ret != NULL) {
        *ret = sqlite3_column_int64(q, 0);
    }
    (void)sqlite3_reset(q); /* returns the same error again */
    return is_done;
}

/* Within a transaction. */
static bool take_number(struct cv_sqlite *s, int64_t *ret_number)
{
    return step(s, CV_SQLITE_TAKE_NUMBER, SQLITE_DONE, NULL) && sqlite3_changes(s->db) == 1 &&
           step(s, CV_SQLITE_READ_NUMBER, SQLITE_ROW, ret_number) && *ret_number > 0;
}

/* Within a transaction, which is undone if this fails. */
static bool register_next(struct cv_sqlite *s, struct cv_sqlite_contender *next)
{
    int64_t number = 0;
    return take_number(s, &number) && cv__sqlite_next_register(s, next, (uint64_t)number);
}

/* Takes a token for this connection (ret_number NULL: none), and registers the next contender
 * (NULL: none) with a token of its own. */
static bool take_tokens(struct cv_sqlite *s, int64_t *ret_number, struct cv_sqlite_contender *next,
                        bool *ret_registered)
{
    if (cv__sqlite_begin(s, /* is_hasty= */ true, NULL) != CV_OK) {
        return false;
    }
    /* The place may have been taken since we looked. */
    const bool must_register =
        next != NULL && cv__sqlite_next_is_vacant(s, next) && cv__sqlite_next_can_be_told(s);
    const bool is_taken = (!must_register || register_next(s, next)) &&
                          (ret_number == NULL || take_number(s, ret_number)) &&
                          cv__sqlite_commit(s, NULL) == CV_OK;
    if (!is_taken) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* it may be done already */
    }
    *ret_registered = is_taken && must_register;
    return is_taken;
}

void cv__sqlite_prepare(struct cv_sqlite *s, uint64_t above, struct cv_sqlite_contender *next)
{
    int64_t number = 0;
    struct cv_errtext error;
    if (s->db == NULL || cv__sqlite_file_check(s->path, &s->file, &error) != CV_OK) {
        return; /* the next request reports it */
    }
    cv__sqlite_make_ready(s);
    const bool must_reserve = above != 0 && s->reserved_token <= above;
    next = next != NULL && cv__sqlite_next_is_vacant(s, next) ? next : NULL;
    if (!must_reserve && next == NULL && !s->must_sync) {
        return;
    }
    bool is_registered = false;
    if (next != NULL) {
        next->is_next_durable = false;
        next->next_attempt = 0; /* if it is not registered now, it will try again */
    }
    (void)sqlite3_busy_timeout(s->db, 0); /* if another has the lock: later */
    const bool is_taken = (must_reserve || next != NULL) &&
                          take_tokens(s, must_reserve ? &number : NULL, next, &is_registered);
    (void)sqlite3_busy_timeout(s->db, CV_SQLITE_BUSY_MS);
    if (!cv__sqlite_log_sync(s)) {
        return; /* a token that a power failure may undo is not used */
    }
    s->must_sync = false;
    if (is_taken && number > 0) {
        s->reserved_token = (uint64_t)number;
    }
    if (is_registered) {
        next->is_next_durable = true;
    }
}

bool cv__sqlite_has_reserved(const struct cv_sqlite *s, uint64_t record_token)
{
    return record_token != 0 && s->reserved_token > record_token;
}

uint64_t cv__sqlite_use_reserved(struct cv_sqlite *s, uint64_t record_token)
{
    CV_ASSERT(cv__sqlite_has_reserved(s, record_token));
    const uint64_t token = s->reserved_token;
    s->reserved_token = 0;
    return token;
}
