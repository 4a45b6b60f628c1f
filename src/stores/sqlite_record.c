/* src/stores/sqlite_record.c - the records of a SQLite file, in short transactions.
 *
 * A contender that waits only reads. One that has seen a free record takes the write lock and looks
 * again, so that of many that were woken together one writes and the others find it done. */
#include "stores/sqlite_record.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"
#include "stores/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_PAGES_WANTED 100 /* a grant takes about seven; this many are read in half a ms */
#define LOG_PAGES_MAX 1000   /* SQLite's own limit */
#define HEIR_NS_MAX (2 * INT64_C(1000000000)) /* how long others keep back for a named heir */

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS conclave_election ("
    " election TEXT PRIMARY KEY, node TEXT NOT NULL, label INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, token INTEGER NOT NULL, lease_ns INTEGER NOT NULL,"
    " machine TEXT NOT NULL, boot TEXT NOT NULL, expires_ns INTEGER NOT NULL,"
    " since_wall_ns INTEGER NOT NULL, renewed_wall_ns INTEGER NOT NULL,"
    " wish TEXT NOT NULL DEFAULT '', heir TEXT NOT NULL DEFAULT '',"
    " heir_until_ns INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS conclave_history ("
    " token INTEGER PRIMARY KEY AUTOINCREMENT, election TEXT NOT NULL, node TEXT NOT NULL,"
    " from_wall_ns INTEGER NOT NULL, to_wall_ns INTEGER, why TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS conclave_history_of ON conclave_history (election, token);";

enum statement { READ_RECORD, WRITE_RECORD, BEGIN_PAST, CLOSE_PAST };

static const char *const statements[CV_SQLITE_STATEMENTS] = {
    [READ_RECORD] =
        "SELECT node, label, attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
        " renewed_wall_ns, wish, heir, heir_until_ns FROM conclave_election WHERE election = ?",
    [WRITE_RECORD] = "INSERT OR REPLACE INTO conclave_election (election, node, label,"
                     " attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
                     " renewed_wall_ns, wish, heir, heir_until_ns)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BEGIN_PAST] = "INSERT INTO conclave_history (election, node, from_wall_ns) VALUES (?, ?, ?)",
    [CLOSE_PAST] = "UPDATE conclave_history SET to_wall_ns = max(?, from_wall_ns), why = ?"
                   " WHERE token = ? AND to_wall_ns IS NULL",
};

/* The record as it is in the file. */
struct row {
    struct cv_store_record shown;
    uint64_t attempt;
    int64_t expires_ns, renewed_wall_ns, heir_until_ns;
    char machine[CV_MACHINE_BYTES], boot[CV_BOOT_BYTES], heir[CV_NODE_BYTES];
};

/* May the election be acquired, and what became of the one who had it? */
struct verdict {
    bool is_free;
    int64_t wait_ns;      /* not free: it will be in so long at the latest, if nothing happens */
    const char *why;      /* free, and somebody had it: how that ended */
    int64_t ended_ns_ago; /* and when */
};

static void text_copy(char *to, size_t bytes, const char *from)
{
    (void)snprintf(to, bytes, "%s", from != NULL ? from : ""); /* cut at its bound */
}

/* The first line of a small file; empty if it cannot be read. */
static void line_read(const char *path, char *ret_line, size_t bytes)
{
    ret_line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(ret_line, (int)bytes, file) == NULL) {
        ret_line[0] = '\0';
    }
    (void)fclose(file); /* it was only read */
    ret_line[strcspn(ret_line, "\n")] = '\0';
}

static int failed(struct cv_sqlite *s, const char *doing, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': %s", doing, s->path,
                    s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
}

/* ---- Names of lifelines -------------------------------------------------------------------- */

static uint64_t name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: only to tell elections apart */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

void cv__sqlite_folder(const struct cv_sqlite *s, char ret_path[CV_SQLITE_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_SQLITE_PATH_BYTES, "%s.alive", s->path);
    CV_ASSERT(length < CV_SQLITE_PATH_BYTES); /* cv__sqlite_open() left room */
}

void cv__sqlite_lifeline(const struct cv_sqlite *s, uint64_t token,
                         char ret_path[CV_SQLITE_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_SQLITE_PATH_BYTES, "%s.alive/%016" PRIx64 ".%" PRIu64,
                                s->path, name_hash(s->election), token);
    CV_ASSERT(length < CV_SQLITE_PATH_BYTES);
}

bool cv__sqlite_is_ours(const struct cv_sqlite *s, const char *name)
{
    char prefix[24];
    (void)snprintf(prefix, sizeof prefix, "%016" PRIx64 ".", name_hash(s->election));
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* The name stays: who looks for it learns that the line is cut. */
static void lifeline_drop(struct cv_sqlite *s)
{
    if (s->held >= 0) {
        (void)close(s->held); /* the last copy wakes the others */
        s->held = -1;
    }
}

/* Within a transaction, so that nobody judges meanwhile. */
static int lifeline_take(struct cv_sqlite *s, uint64_t token, struct cv_errtext *reterr)
{
    if (s->held >= 0 && s->held_token == token) {
        return CV_OK;
    }
    lifeline_drop(s);
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_lifeline(s, token, path);
    const int held = cv__lifeline_hold(path);
    if (held < 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot make '%s': %s", path, strerror(-held));
    }
    s->held = held;
    s->held_token = token;
    return CV_OK;
}

/* Who holds or hears it still does; a name that stays disturbs nobody. */
static void lifeline_unlink(const struct cv_sqlite *s, uint64_t token)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_lifeline(s, token, path);
    (void)unlink(path);
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* The file's real name: lifelines lie beside it, whichever way its users come to it. */
static int path_resolve(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL) {
        return cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", path, strerror(errno));
    }
    if (strlen(real) + sizeof ".alive/0123456789abcdef.18446744073709551615" > sizeof s->path) {
        return cv__fail(reterr, CV_E_INVALID, "the path of '%s' is too long", path);
    }
    memcpy(s->path, real, strlen(real) + 1);
    return CV_OK;
}

static int folder_make(struct cv_sqlite *s, struct cv_errtext *reterr)
{
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(s, folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return cv__fail(reterr, CV_E_STORE, "cannot make the folder '%s': %s", folder,
                        strerror(errno));
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot write to the folder '%s': %s", folder,
                        strerror(errno));
    }
    return CV_OK;
}

/* SQLite only says that it could not; the system knows why. It also tries to open for reading, and
 * then a file that may not be made is one that is not there. */
static int open_failed(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    int why = s->db != NULL ? sqlite3_system_errno(s->db) : 0;
    if (why == 0) {
        return failed(s, "open", reterr);
    }
    char folder[CV_SQLITE_PATH_BYTES];
    text_copy(folder, sizeof folder, path);
    if (why == ENOENT && faccessat(AT_FDCWD, dirname(folder), W_OK | X_OK, AT_EACCESS) != 0) {
        why = errno;
    }
    return cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", s->path, strerror(why));
}

/* Whoever opens the file first reads the whole log: the shorter it is, the sooner it leads. But
 * writing it back waits for the disk, and somebody may be waiting for us. So that is done when
 * nobody is: after a renewal, and when we close. */
static int on_log(void *user, sqlite3 *db, const char *name, int page_count)
{
    struct cv_sqlite *s = user;
    s->log_pages = page_count;
    if (page_count > LOG_PAGES_MAX) {
        (void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
    return SQLITE_OK; /* what was not written back will be, later */
}

static void log_write_back(struct cv_sqlite *s, bool is_closing)
{
    if (s->log_pages > LOG_PAGES_WANTED) {
        /* As much as the others allow, without waiting for them. That it was written back is known
         * only as long as somebody has the file open, so the last one makes the log empty. */
        (void)sqlite3_busy_timeout(s->db, is_closing ? 0 : CV_SQLITE_BUSY_MS);
        (void)sqlite3_wal_checkpoint_v2(
            s->db, NULL, is_closing ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL,
            NULL);
        s->log_pages = 0; /* who reads may hold it up: not again at once */
    }
}

/* A new file is made by whoever comes first. Two that come together may each hold what the other
 * one needs; SQLite sees that and gives up at once, without the patience it was asked for. */
static bool file_prepare(struct cv_sqlite *s)
{
    const int64_t give_up_ns = cv__clock_now_ns() + CV_SQLITE_BUSY_MS * INT64_C(1000000);
    for (;;) {
        int code = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
                                NULL, NULL, NULL);
        if (code == SQLITE_OK) {
            code = sqlite3_exec(s->db, schema, NULL, NULL, NULL);
        }
        if (code != SQLITE_BUSY || cv__clock_now_ns() >= give_up_ns) {
            return code == SQLITE_OK;
        }
        (void)usleep(1000); /* woken early, it tries earlier */
    }
}

int cv__sqlite_open(struct cv_sqlite *s, const char *path, const char *election, const char *node,
                    uint64_t label, struct cv_errtext *reterr)
{
    memset(s, 0, sizeof *s);
    s->held = -1;
    s->label = label;
    s->now_ns = cv__clock_now_ns;
    text_copy(s->path, sizeof s->path, path);
    text_copy(s->election, sizeof s->election, election);
    text_copy(s->node, sizeof s->node, node);
    line_read("/proc/sys/kernel/random/boot_id", s->boot, sizeof s->boot);
    line_read("/etc/machine-id", s->machine, sizeof s->machine);
    if (s->boot[0] == '\0') {
        return cv__fail(reterr, CV_E_STORE,
                        "cannot tell this boot from others: no boot_id in /proc");
    }
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        return open_failed(s, path, reterr);
    }
    (void)sqlite3_busy_timeout(s->db, CV_SQLITE_BUSY_MS); /* fails for a closed one only */
    /* Contenders come and go: the log stays when the last one closes, so that nobody has to write
     * it back and make it anew. */
    int stays = 1;
    (void)sqlite3_file_control(s->db, "main", SQLITE_FCNTL_PERSIST_WAL, &stays); /* only faster */
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);   /* likewise */
    (void)sqlite3_wal_hook(s->db, on_log, s);
    if (!file_prepare(s)) {
        return failed(s, "prepare", reterr);
    }
    const int resolved = path_resolve(s, path, reterr);
    return resolved != CV_OK ? resolved : folder_make(s, reterr);
}

void cv__sqlite_close(struct cv_sqlite *s)
{
    lifeline_drop(s);
    log_write_back(s, /* is_closing= */ true);
    for (uint32_t i = 0; i < CV_SQLITE_STATEMENTS; i++) {
        (void)sqlite3_finalize(s->statement[i]); /* repeats an error that was told */
        s->statement[i] = NULL;
    }
    (void)sqlite3_close(s->db); /* other statements are finalized where they were made */
    s->db = NULL;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static const char *column(sqlite3_stmt *q, int index)
{
    return (const char *)sqlite3_column_text(q, index);
}

/* NULL: it cannot be prepared. Its last use was reset; its next one binds everything anew. */
static sqlite3_stmt *statement(struct cv_sqlite *s, enum statement which)
{
    if (s->statement[which] == NULL &&
        sqlite3_prepare_v3(s->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &s->statement[which], NULL) != SQLITE_OK) {
        return NULL;
    }
    return s->statement[which];
}

/* For one who waits: when its turn comes, every moment counts. What a grant needs is prepared; and
 * as each process that writes the log first makes sure that its name is on the disk, that is done
 * now and the grant waits for the disk once instead of twice. */
static void make_ready(struct cv_sqlite *s)
{
    if (s->is_ready) {
        return;
    }
    s->is_ready = true;
    for (uint32_t i = 0; i < CV_SQLITE_STATEMENTS; i++) {
        (void)statement(s, (enum statement)i); /* its user will tell */
    }
    sqlite3_file *log = NULL;
    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
        log != NULL && log->pMethods != NULL) {
        (void)log->pMethods->xSync(log, SQLITE_SYNC_NORMAL); /* if it fails, the grant will tell */
    }
}

/* The record; one that does not exist looks released, with token 0. */
static int row_read(struct cv_sqlite *s, struct row *ret_row, struct cv_errtext *reterr)
{
    memset(ret_row, 0, sizeof *ret_row);
    sqlite3_stmt *q = statement(s, READ_RECORD);
    if (q == NULL) {
        return failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, s->election, -1, SQLITE_STATIC);
    const int stepped = sqlite3_step(q);
    if (stepped == SQLITE_ROW) {
        text_copy(ret_row->shown.node, sizeof ret_row->shown.node, column(q, 0));
        ret_row->shown.label = (uint64_t)sqlite3_column_int64(q, 1);
        ret_row->attempt = (uint64_t)sqlite3_column_int64(q, 2);
        ret_row->shown.token = (uint64_t)sqlite3_column_int64(q, 3);
        ret_row->shown.lease_ns = sqlite3_column_int64(q, 4);
        text_copy(ret_row->machine, sizeof ret_row->machine, column(q, 5));
        text_copy(ret_row->boot, sizeof ret_row->boot, column(q, 6));
        ret_row->expires_ns = sqlite3_column_int64(q, 7);
        ret_row->shown.since_wall_ns = sqlite3_column_int64(q, 8);
        ret_row->renewed_wall_ns = sqlite3_column_int64(q, 9);
        text_copy(ret_row->shown.wish, sizeof ret_row->shown.wish, column(q, 10));
        text_copy(ret_row->heir, sizeof ret_row->heir, column(q, 11));
        ret_row->heir_until_ns = sqlite3_column_int64(q, 12);
        ret_row->shown.remaining_ns = ret_row->expires_ns - s->now_ns();
    }
    const bool is_read = stepped == SQLITE_ROW || stepped == SQLITE_DONE;
    const int code = is_read ? CV_OK : failed(s, "read", reterr);
    (void)sqlite3_reset(q); /* repeats the error that was told */
    return code;
}

/* The holder's machine was another one: wait for a whole lease without a change, on our clock. The
 * clocks of two machines differ by less than 1 in 1000, or both are broken. */
static struct verdict judge_strange(struct cv_sqlite *s, const struct row *row, int64_t now_ns)
{
    if (s->strange_token != row->shown.token || s->strange_expires_ns != row->expires_ns) {
        s->strange_token = row->shown.token;
        s->strange_expires_ns = row->expires_ns;
        s->strange_since_ns = now_ns;
    }
    const int64_t needed_ns = row->shown.lease_ns + row->shown.lease_ns / 1000;
    const int64_t seen_ns = now_ns - s->strange_since_ns;
    return (struct verdict){.is_free = seen_ns > needed_ns,
                            .wait_ns = needed_ns - seen_ns + 1,
                            .why = cv_reason_name(CV_REASON_EXPIRED)};
}

static struct verdict judge(struct cv_sqlite *s, const struct row *row)
{
    const int64_t now_ns = s->now_ns();
    const bool is_this_boot = strcmp(row->boot, s->boot) == 0;
    if (row->shown.node[0] == '\0') {
        const bool is_kept = row->heir[0] != '\0' && strcmp(row->heir, s->node) != 0 &&
                             is_this_boot && now_ns < row->heir_until_ns;
        return (struct verdict){.is_free = !is_kept, .wait_ns = row->heir_until_ns - now_ns};
    }
    if (!is_this_boot) {
        const bool is_this_machine = s->machine[0] != '\0' && strcmp(row->machine, s->machine) == 0;
        return is_this_machine ? (struct verdict){.is_free = true, .why = "died"}
                               : judge_strange(s, row, now_ns);
    }
    if (row->expires_ns <= now_ns) {
        return (struct verdict){.is_free = true,
                                .why = cv_reason_name(CV_REASON_EXPIRED),
                                .ended_ns_ago = now_ns - row->expires_ns};
    }
    if (row->shown.label == s->label) { /* our own, which a new attempt gives up */
        return (struct verdict){.is_free = true, .why = cv_reason_name(CV_REASON_EXPIRED)};
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_lifeline(s, row->shown.token, path);
    const bool is_cut = cv__lifeline_look(path) == CV_LIFELINE_CUT;
    return (struct verdict){.is_free = is_cut, .wait_ns = row->expires_ns - now_ns, .why = "died"};
}

/* ---- Writing ------------------------------------------------------------------------------- */

static int run(struct cv_sqlite *s, const char *sql, const char *doing, struct cv_errtext *reterr)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? CV_OK
                                                                   : failed(s, doing, reterr);
}

static int write_step(struct cv_sqlite *s, sqlite3_stmt *q, struct cv_errtext *reterr)
{
    const int code = sqlite3_step(q) == SQLITE_DONE ? CV_OK : failed(s, "write", reterr);
    (void)sqlite3_reset(q); /* repeats the error that was told */
    return code;
}

static int past_close(struct cv_sqlite *s, uint64_t token, int64_t to_wall_ns, const char *why,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, CLOSE_PAST);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_int64(q, 1, to_wall_ns);
    sqlite3_bind_text(q, 2, why, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)token);
    return write_step(s, q, reterr);
}

static int past_begin(struct cv_sqlite *s, int64_t wall_ns, uint64_t *ret_token,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, BEGIN_PAST);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, s->election, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, s->node, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, wall_ns);
    const int code = write_step(s, q, reterr);
    *ret_token = (uint64_t)sqlite3_last_insert_rowid(s->db);
    return code;
}

static int row_write(struct cv_sqlite *s, const struct row *row, struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, WRITE_RECORD);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, s->election, -1, SQLITE_STATIC);
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
    sqlite3_bind_text(q, 12, row->shown.wish, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 13, row->heir, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 14, row->heir_until_ns);
    return write_step(s, q, reterr);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static bool is_mine(const struct cv_sqlite *s, const struct row *row, uint64_t attempt)
{
    return row->shown.node[0] != '\0' && row->shown.label == s->label && row->attempt == attempt;
}

static void prolong(struct cv_sqlite *s, struct row *row, int64_t lease_ns)
{
    row->shown.lease_ns = lease_ns;
    row->expires_ns = s->now_ns() + lease_ns;
    row->renewed_wall_ns = cv__clock_wall_ns();
    row->shown.remaining_ns = lease_ns;
}

static void answer_held(const struct row *row, int64_t wait_ns, struct cv_store_answer *ret_answer)
{
    ret_answer->verdict = CV_STORE_HELD;
    ret_answer->token = row->shown.token;
    ret_answer->holder = row->shown.label;
    ret_answer->duration_ns = wait_ns > 0 ? wait_ns : 0;
}

static void answer_granted(const struct row *row, struct cv_store_answer *ret_answer)
{
    ret_answer->verdict = CV_STORE_GRANTED;
    ret_answer->token = row->shown.token;
    ret_answer->holder = row->shown.label;
    ret_answer->duration_ns = row->shown.lease_ns;
}

/* Within a transaction: the election is free, and becomes ours. */
static int take(struct cv_sqlite *s, struct row *row, const struct verdict *was,
                const struct cv_store_request *request, struct cv_errtext *reterr)
{
    const int64_t wall_ns = cv__clock_wall_ns();
    if (was->why != NULL) {
        const int64_t lapsed_ns = row->renewed_wall_ns + row->shown.lease_ns;
        const int64_t ended_ns = wall_ns - was->ended_ns_ago;
        const int code = past_close(s, row->shown.token,
                                    ended_ns < lapsed_ns ? ended_ns : lapsed_ns, was->why, reterr);
        if (code != CV_OK) {
            return code;
        }
    }
    uint64_t token = 0;
    const int code = past_begin(s, wall_ns, &token, reterr);
    if (code != CV_OK) {
        return code;
    }
    CV_ASSERT(token > row->shown.token); /* AUTOINCREMENT */
    const int held = lifeline_take(s, token, reterr);
    if (held != CV_OK) {
        return held;
    }
    memset(row, 0, sizeof *row);
    text_copy(row->shown.node, sizeof row->shown.node, s->node);
    text_copy(row->machine, sizeof row->machine, s->machine);
    text_copy(row->boot, sizeof row->boot, s->boot);
    row->shown.label = s->label;
    row->shown.token = token;
    row->shown.since_wall_ns = wall_ns;
    row->attempt = request->attempt;
    prolong(s, row, request->lease_ns);
    return row_write(s, row, reterr);
}

/* Those who look at the folder notice: there is a new holder, or a wish for it. */
static void wake_others(struct cv_sqlite *s, uint64_t token)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_lifeline(s, token, path);
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* news may be lost: everybody asks now and then */
}

static int acquire(struct cv_sqlite *s, const struct cv_store_request *request, struct row *row,
                   struct cv_store_answer *ret_answer, struct cv_errtext *reterr)
{
    struct verdict verdict = judge(s, row);
    if (!verdict.is_free && !is_mine(s, row, request->attempt)) {
        answer_held(row, verdict.wait_ns, ret_answer);
        return CV_OK;
    }
    int code = run(s, "BEGIN IMMEDIATE", "write to", reterr);
    if (code != CV_OK) {
        return code;
    }
    bool is_again = true;
    code = row_read(s, row, reterr); /* again: it was free before we had the lock */
    if (code != CV_OK) {
        goto undo;
    }
    verdict = judge(s, row);
    const uint64_t former_token = verdict.why != NULL ? row->shown.token : 0;
    is_again = is_mine(s, row, request->attempt);
    if (!is_again && !verdict.is_free) {
        answer_held(row, verdict.wait_ns, ret_answer);
        (void)run(s, "ROLLBACK", "end reading", NULL); /* nothing was written */
        return CV_OK;
    }
    if (is_again) {
        /* The lifeline is gone if the first answer was that nobody knows: without it the others
         * would take us for dead. */
        code = lifeline_take(s, row->shown.token, reterr);
        prolong(s, row, request->lease_ns);
        code = code == CV_OK ? row_write(s, row, reterr) : code;
    } else {
        code = take(s, row, &verdict, request, reterr);
    }
    if (code != CV_OK) {
        goto undo;
    }
    code = run(s, "COMMIT", "write to", reterr);
    if (code != CV_OK) {
        goto undo;
    }
    answer_granted(row, ret_answer);
    wake_others(s, row->shown.token);
    if (former_token != 0 && !is_again) {
        lifeline_unlink(s, former_token);
    }
    return CV_OK;

undo:
    (void)run(s, "ROLLBACK", "undo", NULL); /* SQLite may have done it already */
    if (!is_again) {
        lifeline_drop(s); /* if it was written nevertheless, others need not wait for us */
    }
    return code;
}

static int renew(struct cv_sqlite *s, const struct cv_store_request *request, struct row *row,
                 struct cv_store_answer *ret_answer, struct cv_errtext *reterr)
{
    /* A renewal that is lost in a power failure was worth nothing: spare the disk. */
    int code = run(s, "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE", "write to", reterr);
    if (code == CV_OK) {
        code = row_read(s, row, reterr);
    }
    if (code == CV_OK) {
        const bool is_held = s->held >= 0 && s->held_token == request->token;
        if (is_held && is_mine(s, row, request->attempt) && row->shown.token == request->token) {
            prolong(s, row, request->lease_ns);
            code = row_write(s, row, reterr);
            answer_granted(row, ret_answer);
        } else if (row->shown.node[0] != '\0') {
            answer_held(row, row->expires_ns - s->now_ns(), ret_answer);
        } else {
            ret_answer->verdict = CV_STORE_FREE;
        }
    }
    if (code == CV_OK) {
        code = run(s, "COMMIT", "write to", reterr);
    }
    if (code != CV_OK) {
        (void)run(s, "ROLLBACK", "undo", NULL); /* SQLite may have done it already */
    }
    (void)run(s, "PRAGMA synchronous = FULL", "prepare", NULL); /* cannot fail outside of one */
    log_write_back(s, /* is_closing= */ false);
    return code;
}

static int release(struct cv_sqlite *s, const struct cv_store_request *request, struct row *row,
                   struct cv_store_answer *ret_answer, struct cv_errtext *reterr)
{
    /* Nor is a release: after a power failure the record is of another boot, and free. The grant
     * that follows is written behind it, and takes it to the disk. */
    int code = run(s, "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE", "write to", reterr);
    if (code == CV_OK) {
        code = row_read(s, row, reterr);
    }
    if (code == CV_OK && is_mine(s, row, request->attempt)) {
        const int64_t now_ns = s->now_ns();
        const int64_t kept_ns =
            row->shown.lease_ns < HEIR_NS_MAX ? row->shown.lease_ns : HEIR_NS_MAX;
        row->shown.node[0] = '\0';
        row->shown.wish[0] = '\0';
        row->shown.remaining_ns = 0;
        row->expires_ns = now_ns;
        text_copy(row->heir, sizeof row->heir, request->heir);
        row->heir_until_ns = row->heir[0] != '\0' ? now_ns + kept_ns : 0;
        code = row_write(s, row, reterr);
        if (code == CV_OK) {
            code = past_close(s, row->shown.token, cv__clock_wall_ns(),
                              cv_reason_name(CV_REASON_RESIGNED), reterr);
        }
    }
    if (code == CV_OK) {
        code = run(s, "COMMIT", "write to", reterr);
    }
    if (code != CV_OK) {
        (void)run(s, "ROLLBACK", "undo", NULL); /* SQLite may have done it already */
    }
    (void)run(s, "PRAGMA synchronous = FULL", "prepare", NULL); /* cannot fail outside of one */
    if (code != CV_OK) {
        return code;
    }
    if (s->held >= 0) {
        lifeline_unlink(s, s->held_token);
        lifeline_drop(s); /* after the commit: who is woken finds the election free */
    }
    ret_answer->verdict = CV_STORE_FREE;
    return CV_OK;
}

void cv__sqlite_do(struct cv_sqlite *s, const struct cv_store_request *request,
                   struct cv_store_answer *ret_answer, struct cv_store_record *ret_record,
                   struct cv_errtext *reterr)
{
    CV_ASSERT(request->request != 0);
    *ret_answer = (struct cv_store_answer){.request = request->request};
    struct row row;
    int code = row_read(s, &row, reterr);
    if (code == CV_OK) {
        switch (request->verb) {
        case CV_STORE_READ: {
            const struct verdict verdict = judge(s, &row);
            const bool is_own = row.shown.label == s->label && row.shown.remaining_ns > 0;
            if (row.shown.node[0] == '\0' || (verdict.is_free && !is_own)) {
                ret_answer->verdict = CV_STORE_FREE;
            } else {
                answer_held(&row, verdict.wait_ns, ret_answer);
            }
            break;
        }
        case CV_STORE_ACQUIRE:
            code = acquire(s, request, &row, ret_answer, reterr);
            break;
        case CV_STORE_RENEW:
            code = renew(s, request, &row, ret_answer, reterr);
            break;
        case CV_STORE_RELEASE:
            code = release(s, request, &row, ret_answer, reterr);
            break;
        }
    }
    if (code != CV_OK) {
        ret_answer->verdict = CV_STORE_FAILED;
        ret_answer->why = reterr->text;
        return;
    }
    if (ret_answer->verdict == CV_STORE_HELD) {
        make_ready(s);
    }
    *ret_record = row.shown;
    ret_answer->record = ret_record;
}

void cv__sqlite_wish(struct cv_sqlite *s, const char *heir, struct cv_store_answer *ret_answer,
                     struct cv_store_record *ret_record, struct cv_errtext *reterr)
{
    struct row row;
    int code = run(s, "BEGIN IMMEDIATE", "write to", reterr);
    if (code == CV_OK) {
        code = row_read(s, &row, reterr);
    }
    if (code == CV_OK) {
        const struct verdict verdict = judge(s, &row);
        ret_answer->verdict = CV_STORE_FREE;
        if (!verdict.is_free && row.shown.node[0] != '\0') {
            text_copy(row.shown.wish, sizeof row.shown.wish, heir != NULL ? heir : "*");
            code = row_write(s, &row, reterr);
            answer_held(&row, verdict.wait_ns, ret_answer);
        }
    }
    if (code == CV_OK) {
        code = run(s, "COMMIT", "write to", reterr);
    }
    if (code != CV_OK) {
        (void)run(s, "ROLLBACK", "undo", NULL); /* SQLite may have done it already */
        ret_answer->verdict = CV_STORE_FAILED;
        ret_answer->why = reterr->text;
        return;
    }
    wake_others(s, row.shown.token);
    *ret_record = row.shown;
    ret_answer->record = ret_record;
}

int cv__sqlite_history(struct cv_sqlite *s,
                       void (*past)(void *user, const struct cv_store_past *past), void *user,
                       struct cv_errtext *reterr)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT node, token, from_wall_ns, to_wall_ns, why FROM conclave_history"
                           " WHERE election = ? ORDER BY token",
                           -1, &q, NULL) != SQLITE_OK) {
        return failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, s->election, -1, SQLITE_STATIC);
    int stepped = sqlite3_step(q);
    for (; stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
        struct cv_store_past one = {.token = (uint64_t)sqlite3_column_int64(q, 1),
                                    .from_wall_ns = sqlite3_column_int64(q, 2),
                                    .to_wall_ns = sqlite3_column_int64(q, 3)};
        text_copy(one.node, sizeof one.node, column(q, 0));
        text_copy(one.why, sizeof one.why, column(q, 4));
        past(user, &one);
    }
    const int code = stepped == SQLITE_DONE ? CV_OK : failed(s, "read", reterr);
    (void)sqlite3_finalize(q); /* repeats the error that was told */
    return code;
}

int cv__sqlite_names(struct cv_sqlite *s, void (*name)(void *user, const char *name), void *user,
                     struct cv_errtext *reterr)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT election FROM conclave_election ORDER BY election", -1,
                           &q, NULL) != SQLITE_OK) {
        return failed(s, "read", reterr);
    }
    int stepped = sqlite3_step(q);
    for (; stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
        name(user, column(q, 0));
    }
    const int code = stepped == SQLITE_DONE ? CV_OK : failed(s, "read", reterr);
    (void)sqlite3_finalize(q); /* repeats the error that was told */
    return code;
}
