/* src/stores/sqlite_connection.c - a connection to a SQLite file: opening it, its tables and
 * statements, its log, closing it. */
#include "stores/sqlite_parts.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_PAGES_WANTED 100 /* a grant takes about seven; this many are read in half a ms */
#define LOG_PAGES_MAX 1000   /* SQLite's own limit */

/* A log that grew during a long read is made short again. */
#define LOG_SETTINGS                                        \
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" \
    "PRAGMA journal_size_limit = 4194304;"
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS conclave_election ("
    " election TEXT PRIMARY KEY, node TEXT NOT NULL, label INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, token INTEGER NOT NULL, lease_ns INTEGER NOT NULL,"
    " machine TEXT NOT NULL, boot TEXT NOT NULL, expires_ns INTEGER NOT NULL,"
    " since_wall_ns INTEGER NOT NULL, renewed_wall_ns INTEGER NOT NULL,"
    " wish TEXT NOT NULL DEFAULT '', heir TEXT NOT NULL DEFAULT '',"
    " heir_until_ns INTEGER NOT NULL DEFAULT 0, pipe TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS conclave_history ("
    " token INTEGER PRIMARY KEY AUTOINCREMENT, election TEXT NOT NULL, node TEXT NOT NULL,"
    " from_wall_ns INTEGER NOT NULL, to_wall_ns INTEGER, why TEXT NOT NULL DEFAULT '',"
    " version TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS conclave_history_of ON conclave_history (election, token);"
    /* When one that did not resign was last renewed: all that is known of the time of its death. */
    "CREATE TABLE IF NOT EXISTS conclave_alive ("
    " token INTEGER PRIMARY KEY, alive_wall_ns INTEGER NOT NULL);"
    /* The waiting contender that gets the record when the holder releases it. */
    "CREATE TABLE IF NOT EXISTS conclave_next ("
    " election TEXT PRIMARY KEY, node TEXT NOT NULL, label INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, token INTEGER NOT NULL, secret INTEGER NOT NULL,"
    " lease_ns INTEGER NOT NULL, version TEXT NOT NULL, pipe TEXT NOT NULL, mail TEXT NOT NULL,"
    " boot TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS conclave_runs ("
    " election TEXT PRIMARY KEY, token INTEGER NOT NULL, version INTEGER NOT NULL,"
    " text TEXT NOT NULL) WITHOUT ROWID;";

/* For files of earlier versions, which lack a column: the statement that needs it, and how it is
 * added. A record without a pipe is waited for until its lease is over. */
static const struct column {
    enum cv_sqlite_statement needed_by;
    const char *sql;
} columns[] = {
    {CV_SQLITE_READ_RECORD,
     "ALTER TABLE conclave_election ADD COLUMN pipe TEXT NOT NULL DEFAULT ''"},
    {CV_SQLITE_BEGIN_PAST,
     "ALTER TABLE conclave_history ADD COLUMN version TEXT NOT NULL DEFAULT ''"},
};

static const char *const statements[CV_SQLITE_STATEMENTS] = {
    [CV_SQLITE_READ_RECORD] =
        "SELECT node, label, attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
        " renewed_wall_ns, wish, heir, heir_until_ns, pipe FROM conclave_election"
        " WHERE election = ?",
    [CV_SQLITE_WRITE_RECORD] =
        "INSERT OR REPLACE INTO conclave_election (election, node, label,"
        " attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
        " renewed_wall_ns, wish, heir, heir_until_ns, pipe)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [CV_SQLITE_BEGIN_PAST] =
        ("INSERT INTO conclave_history (election, node, from_wall_ns, version, token)"
         " VALUES (?, ?, ?, ?, ?)"),
    [CV_SQLITE_CLOSE_PAST] =
        ("UPDATE conclave_history SET to_wall_ns = max(?, from_wall_ns), why = ?"
         " WHERE token = ? AND to_wall_ns IS NULL"),
    [CV_SQLITE_FIND_WHY] = "SELECT why FROM conclave_history WHERE token = ?",
    [CV_SQLITE_FIND_LAST] = ("SELECT why, node, token, to_wall_ns FROM conclave_history"
                             " WHERE election = ? AND token < ? AND to_wall_ns IS NOT NULL ORDER "
                             "BY token DESC LIMIT 1"),
    [CV_SQLITE_NOTE_ALIVE] =
        "INSERT OR REPLACE INTO conclave_alive (token, alive_wall_ns) VALUES (?, ?)",
    [CV_SQLITE_FIND_VERSION] = "SELECT version FROM conclave_history WHERE token = ?",
    [CV_SQLITE_TAKE_NUMBER] =
        "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'conclave_history'",
    [CV_SQLITE_READ_NUMBER] = "SELECT seq FROM sqlite_sequence WHERE name = 'conclave_history'",
    [CV_SQLITE_READ_NEXT] =
        ("SELECT n.node, n.label, n.attempt, n.token, n.secret, n.lease_ns, n.version, n.pipe,"
         " n.mail, n.boot, e.token, e.label FROM conclave_next n JOIN conclave_election e"
         " USING (election) WHERE n.election = ?"),
    [CV_SQLITE_WRITE_NEXT] =
        ("INSERT OR REPLACE INTO conclave_next (election, node, label, attempt, token, secret,"
         " lease_ns, version, pipe, mail, boot) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    [CV_SQLITE_DROP_NEXT] = "DELETE FROM conclave_next WHERE election = ? AND label = ?",
    [CV_SQLITE_BEGIN] = "BEGIN IMMEDIATE",
    [CV_SQLITE_COMMIT] = "COMMIT",
    [CV_SQLITE_FIND_PIPE] = "SELECT 1 FROM conclave_election WHERE pipe = ? LIMIT 1",
};

void cv__sqlite_text(char *to, size_t bytes, const char *from)
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

/* May this user write to the file, and to those beside it, which belong to the user who made
 * them? */
static int check_writable(const struct cv_sqlite *s, const char *doing, struct cv_errtext *reterr)
{
    static const char *const ends[] = {"-wal", "-shm"};
    if (faccessat(AT_FDCWD, s->path, W_OK, AT_EACCESS) != 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': %s", doing, s->path, strerror(errno));
    }
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        char beside[PATH_MAX];
        const int bytes = snprintf(beside, sizeof beside, "%s%s", s->path, ends[i]);
        if (bytes > 0 && (size_t)bytes < sizeof beside &&
            faccessat(AT_FDCWD, beside, W_OK, AT_EACCESS) != 0 && errno != ENOENT) {
            return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': '%s': %s", doing, s->path, beside,
                            strerror(errno));
        }
    }
    return CV_OK;
}

int cv__sqlite_failed(struct cv_sqlite *s, const char *doing, struct cv_errtext *reterr)
{
    if (s->db != NULL && sqlite3_errcode(s->db) == SQLITE_BUSY) {
        char locker[128];
        cv__sqlite_locker(s->path, locker, sizeof locker);
        return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': it is locked%s", doing, s->path,
                        locker);
    }
    if (s->db != NULL && sqlite3_errcode(s->db) == SQLITE_READONLY &&
        check_writable(s, doing, reterr) != CV_OK) {
        return CV_E_STORE;
    }
    return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': %s", doing, s->path,
                    s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
}

const char *cv__sqlite_column(sqlite3_stmt *q, int index)
{
    return (const char *)sqlite3_column_text(q, index);
}

sqlite3_stmt *cv__sqlite_statement(struct cv_sqlite *s, enum cv_sqlite_statement which)
{
    if (s->statement[which] == NULL &&
        sqlite3_prepare_v3(s->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &s->statement[which], NULL) != SQLITE_OK) {
        return NULL;
    }
    return s->statement[which];
}

/* The file's real name: the pipes are beside it, by whichever path it was opened. */
static int path_resolve(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL) {
        return cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", path, strerror(errno));
    }
    if (strlen(real) + strlen(".alive/") + CV_SQLITE_PIPE_BYTES > sizeof s->path) {
        return cv__fail(reterr, CV_E_INVALID, "the path of '%s' is too long", path);
    }
    memcpy(s->path, real, strlen(real) + 1);
    return CV_OK;
}

/* SQLite says only that opening failed; errno says why. After a failure SQLite tries again for
 * reading, so for a file that may not be made errno says that it does not exist. */
static int open_failed(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    int why = s->db != NULL ? sqlite3_system_errno(s->db) : 0;
    if (why == 0) {
        return cv__sqlite_failed(s, "open", reterr);
    }
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_text(folder, sizeof folder, path);
    if (why == ENOENT && faccessat(AT_FDCWD, dirname(folder), W_OK | X_OK, AT_EACCESS) != 0) {
        why = errno;
    }
    return cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", s->path, strerror(why));
}

/* The first process to open the file reads the whole log: the shorter it is, the sooner it leads.
 * But writing it back waits for the disk. So that is done when no grant waits for us: after a
 * renewal, and when we close. */
static int on_log(void *user, sqlite3 *db, const char *name, int page_count)
{
    struct cv_sqlite *s = user;
    s->log_pages = page_count;
    if (page_count > LOG_PAGES_MAX) {
        (void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
    return SQLITE_OK; /* what was not written back will be, later */
}

void cv__sqlite_log_write_back(struct cv_sqlite *s, bool is_closing)
{
    if (s->log_pages > LOG_PAGES_WANTED) {
        /* As much as the others allow, without waiting for them. That it was written back is known
         * only as long as somebody has the file open, so the last one makes the log empty. */
        (void)sqlite3_busy_timeout(s->db, is_closing ? 0 : CV_SQLITE_BUSY_MS);
        (void)sqlite3_wal_checkpoint_v2(
            s->db, NULL, is_closing ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL,
            NULL);
        s->log_pages = 0; /* a reader may have prevented it: not again at once */
    }
}

/* Adds a column, unless it is there, or another process is quicker. */
static int column_add(struct cv_sqlite *s, const struct column *column)
{
    if (cv__sqlite_statement(s, column->needed_by) != NULL) {
        return SQLITE_OK;
    }
    const int code = sqlite3_exec(s->db, column->sql, NULL, NULL, NULL);
    return cv__sqlite_statement(s, column->needed_by) != NULL ? SQLITE_OK : code;
}

/* The first process makes the tables. Two that begin together may each hold a lock that the other
 * one needs; SQLite notices that and fails at once, whatever its busy time-out. */
static bool file_prepare(struct cv_sqlite *s)
{
    const int64_t give_up_ns = cv__clock_now_ns() + CV_SQLITE_BUSY_MS * INT64_C(1000000);
    for (;;) {
        int code = sqlite3_exec(s->db, LOG_SETTINGS, NULL, NULL, NULL);
        if (code == SQLITE_OK) {
            code = sqlite3_exec(s->db, schema, NULL, NULL, NULL);
        }
        for (uint32_t i = 0; code == SQLITE_OK && i < COUNT_OF(columns); i++) {
            code = column_add(s, &columns[i]);
        }
        if (code != SQLITE_BUSY || cv__clock_now_ns() >= give_up_ns) {
            return code == SQLITE_OK;
        }
        (void)usleep(1000); /* woken early, it tries earlier */
    }
}

static int connection_open(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    memset(s, 0, sizeof *s);
    s->pipe_fd = s->mail_fd = -1;
    s->now_ns = cv__clock_now_ns;
    cv__sqlite_text(s->path, sizeof s->path, path);
    cv__sqlite_boot(s->boot);
    line_read("/etc/machine-id", s->machine, sizeof s->machine);
    if (s->boot[0] == '\0') {
        return cv__fail(reterr, CV_E_STORE,
                        "cannot tell this boot from others: no boot_id in /proc");
    }
    cv__sqlite_file_make(path); /* SQLite would make it readable for all users */
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
    int code = path_resolve(s, path, reterr);
    if (code == CV_OK) {
        code = cv__sqlite_file_look(s->path, &s->file, reterr);
    }
    s->is_read_only = code == CV_OK && (sqlite3_db_readonly(s->db, "main") == 1 ||
                                        check_writable(s, "write", NULL) != CV_OK);
    if (code != CV_OK || s->is_read_only) {
        return code; /* reading needs neither new tables nor the folder */
    }
    if (!file_prepare(s)) {
        return cv__sqlite_failed(s, "prepare", reterr);
    }
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(s, folder);
    return cv__sqlite_folder_make(folder, &s->file, reterr);
}

/* Are there enough free descriptors for a connection? SQLite does not report that as the cause. */
static bool has_descriptors(void)
{
    int fd[4];
    uint32_t count = 0;
    while (count < COUNT_OF(fd) && (fd[count] = open("/", O_PATH | O_CLOEXEC)) >= 0) {
        count++;
    }
    const bool has_all = count == COUNT_OF(fd) || (errno != EMFILE && errno != ENFILE);
    while (count > 0) {
        (void)close(fd[--count]); /* nothing was written */
    }
    return has_all;
}

int cv__sqlite_open(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    const int code = connection_open(s, path, reterr);
    return code == CV_E_STORE && !has_descriptors()
               ? cv__fail(reterr, CV_E_LIMIT, "cannot open '%s': no descriptors left (ulimit -n)",
                          path)
               : code;
}

int cv__sqlite_open_for_writing(struct cv_sqlite *s, struct cv_errtext *reterr)
{
    CV_ASSERT(s->is_read_only);
    CV_ASSERT(s->pipe_fd < 0);        /* it never led, ... */
    CV_ASSERT(s->waiting_count == 0); /* ... nor waited */
    int code = check_writable(s, "write", reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_sqlite_file file = s->file;
    int64_t (*now_ns)(void) = s->now_ns;
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_text(path, sizeof path, s->path);
    /* First: all connections of a process share its view of PATH-shm. As long as one is open that
     * could only read it, new ones cannot write either. */
    cv__sqlite_close(s);
    code = cv__sqlite_open(s, path, reterr);
    const bool is_other = s->file.inode != 0 && /* it was looked at */
                          (s->file.device != file.device || s->file.inode != file.inode);
    if (code == CV_OK && (s->is_read_only || is_other)) {
        code = cv__fail(reterr, CV_E_STORE, "cannot write '%s': it has just changed", path);
    }
    s->now_ns = now_ns;
    if (code != CV_OK) {
        file.inode = is_other ? 0 : file.inode; /* no file has 0: not even if it comes back */
        s->file = file;
        s->is_read_only = true; /* the next request tries again */
    }
    return code;
}

void cv__sqlite_close(struct cv_sqlite *s)
{
    if (s->pipe_fd >= 0) {
        if (!cv__sqlite_pipe_is_named(s, s->pipe)) {
            cv__sqlite_pipe_unlink(s, s->pipe);
        }
        (void)close(s->pipe_fd); /* wakes those that wait for a contender that did not release */
        s->pipe_fd = -1;
    }
    if (s->mail[0] != '\0') {
        cv__sqlite_mail_unlink(s);
    }
    cv__sqlite_log_write_back(s, /* is_closing= */ true);
    for (uint32_t i = 0; i < CV_SQLITE_STATEMENTS; i++) {
        (void)sqlite3_finalize(s->statement[i]); /* returns the same error again */
        s->statement[i] = NULL;
    }
    (void)sqlite3_close(s->db); /* other statements are finalized where they were made */
    s->db = NULL;
}

/* Prepares the statements, and syncs the directory entry of the WAL. SQLite does that before the
 * first write of a process; done here, the grant waits for the disk once instead of twice. */
void cv__sqlite_make_ready(struct cv_sqlite *s)
{
    if (s->is_ready) {
        return;
    }
    s->is_ready = true;
    for (uint32_t i = 0; i < CV_SQLITE_STATEMENTS; i++) {
        (void)cv__sqlite_statement(s, (enum cv_sqlite_statement)i); /* its use reports a failure */
    }
    (void)cv__sqlite_log_sync(s); /* the grant reports a failure */
}

/* ---- For commands, which wait -------------------------------------------------------------- */

const char *cv__sqlite_path(const char *address)
{
    return address + strlen("sqlite:");
}

static bool is_prepared(struct cv_sqlite *s)
{
    uint32_t i = 0;
    while (i < CV_SQLITE_STATEMENTS &&
           cv__sqlite_statement(s, (enum cv_sqlite_statement)i) != NULL) {
        i++;
    }
    return i == CV_SQLITE_STATEMENTS;
}

int cv__sqlite_create_at(const char *address, struct cv_errtext *reterr)
{
    struct cv_sqlite sqlite;
    int code = cv__sqlite_open(&sqlite, cv__sqlite_path(address), reterr);
    if (code == CV_OK && !is_prepared(&sqlite)) { /* it could only be opened for reading */
        code = check_writable(&sqlite, "prepare", reterr);
    }
    cv__sqlite_close(&sqlite);
    return code;
}
