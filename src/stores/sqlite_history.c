/* src/stores/sqlite_history.c - what a SQLite file says of earlier leaderships, and the names of
 * its elections. */
#include "stores/sqlite_parts.h"

int cv__sqlite_history(struct cv_sqlite *s, const char *election,
                       void (*past)(void *user, const struct cv_store_past *past), void *user,
                       struct cv_errtext *reterr)
{
#define SELECT_PAST(more, joined)                                                               \
    "SELECT node, token, from_wall_ns, to_wall_ns, why, " more " FROM conclave_history " joined \
    " WHERE election = ? ORDER BY token"
    static const char now[] =
        SELECT_PAST("alive_wall_ns", "LEFT JOIN conclave_alive USING (token)");
    static const char before[] = SELECT_PAST("0", ""); /* a file that we may only read */
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, now, -1, &q, NULL) != SQLITE_OK &&
        sqlite3_prepare_v2(s->db, before, -1, &q, NULL) != SQLITE_OK) {
        return cv__sqlite_failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, election, -1, SQLITE_STATIC);
    int stepped = sqlite3_step(q);
    for (; stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
        struct cv_store_past one = {.token = (uint64_t)sqlite3_column_int64(q, 1),
                                    .from_wall_ns = sqlite3_column_int64(q, 2),
                                    .to_wall_ns = sqlite3_column_int64(q, 3),
                                    .alive_wall_ns = sqlite3_column_int64(q, 5)};
        cv__sqlite_text(one.node, sizeof one.node, cv__sqlite_column(q, 0));
        cv__sqlite_text(one.why, sizeof one.why, cv__sqlite_column(q, 4));
        past(user, &one);
    }
    const int code = stepped == SQLITE_DONE ? CV_OK : cv__sqlite_failed(s, "read", reterr);
    (void)sqlite3_finalize(q); /* returns the same error again */
    return code;
}

int cv__sqlite_names(struct cv_sqlite *s, void (*name)(void *user, const char *name), void *user,
                     struct cv_errtext *reterr)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT election FROM conclave_election ORDER BY election", -1,
                           &q, NULL) != SQLITE_OK) {
        return cv__sqlite_failed(s, "read", reterr);
    }
    int stepped = sqlite3_step(q);
    for (; stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
        name(user, cv__sqlite_column(q, 0));
    }
    const int code = stepped == SQLITE_DONE ? CV_OK : cv__sqlite_failed(s, "read", reterr);
    (void)sqlite3_finalize(q); /* returns the same error again */
    return code;
}

int cv__sqlite_history_at(const char *address, const char *election,
                          void (*past)(void *user, const struct cv_store_past *past), void *user,
                          struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    int code = cv__sqlite_open(&sqlite, cv__sqlite_path(address), reterr);
    if (code == CV_OK) {
        code = cv__sqlite_history(&sqlite, election, past, user, reterr);
    }
    cv__sqlite_close(&sqlite);
    return code;
}

int cv__sqlite_names_at(const char *address, void (*name)(void *user, const char *name), void *user,
                        struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    int code = cv__sqlite_open(&sqlite, cv__sqlite_path(address), reterr);
    if (code == CV_OK) {
        code = cv__sqlite_names(&sqlite, name, user, reterr);
    }
    cv__sqlite_close(&sqlite);
    return code;
}
