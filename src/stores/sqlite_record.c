/* src/stores/sqlite_record.c - the records of a SQLite file, in short transactions.
 *
 * A contender that waits only reads. One that has seen a free record takes the write lock and looks
 * again, so that of many that were woken together one writes and the others find it done. */
#include "stores/sqlite_record.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"
#include "stores/lifeline.h"

#include <dirent.h>
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

/* A log that had to grow, as somebody read for long, does not stay so long. */
#define LOG_SETTINGS                                        \
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" \
    "PRAGMA journal_size_limit = 4194304;"

/* The lease is over and the command is not: the pipe wakes us when both are gone, and we look this
 * often in case that only the command is. */
#define OVERDUE_LOOK_NS (20 * INT64_C(1000000))

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
    " from_wall_ns INTEGER NOT NULL, to_wall_ns INTEGER, why TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS conclave_history_of ON conclave_history (election, token);"
    /* When one that did not resign was last renewed: all that is known of the time of its death. */
    "CREATE TABLE IF NOT EXISTS conclave_alive ("
    " token INTEGER PRIMARY KEY, alive_wall_ns INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS conclave_runs ("
    " election TEXT PRIMARY KEY, token INTEGER NOT NULL, version INTEGER NOT NULL,"
    " text TEXT NOT NULL) WITHOUT ROWID;";

/* For files of earlier versions. A record without a pipe is waited for until its lease is over. */
static const char schema_pipe[] =
    "ALTER TABLE conclave_election ADD COLUMN pipe TEXT NOT NULL DEFAULT ''";

enum statement {
    READ_RECORD,
    WRITE_RECORD,
    BEGIN_PAST,
    CLOSE_PAST,
    FIND_PIPE,
    FIND_WHY,
    NOTE_ALIVE
};

static const char *const statements[CV_SQLITE_STATEMENTS] = {
    [READ_RECORD] =
        "SELECT node, label, attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
        " renewed_wall_ns, wish, heir, heir_until_ns, pipe FROM conclave_election"
        " WHERE election = ?",
    [WRITE_RECORD] = "INSERT OR REPLACE INTO conclave_election (election, node, label,"
                     " attempt, token, lease_ns, machine, boot, expires_ns, since_wall_ns,"
                     " renewed_wall_ns, wish, heir, heir_until_ns, pipe)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BEGIN_PAST] = "INSERT INTO conclave_history (election, node, from_wall_ns) VALUES (?, ?, ?)",
    [CLOSE_PAST] = ("UPDATE conclave_history SET to_wall_ns = max(?, from_wall_ns), why = ?"
                    " WHERE token = ? AND to_wall_ns IS NULL"),
    [FIND_WHY] = "SELECT why FROM conclave_history WHERE token = ?",
    [NOTE_ALIVE] = "INSERT OR REPLACE INTO conclave_alive (token, alive_wall_ns) VALUES (?, ?)",
    [FIND_PIPE] = "SELECT 1 FROM conclave_election WHERE pipe = ? LIMIT 1",
};

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
    if (s->db != NULL && sqlite3_errcode(s->db) == SQLITE_BUSY) {
        char locker[128];
        cv__sqlite_locker(s->path, locker, sizeof locker);
        return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': it is locked%s", doing, s->path,
                        locker);
    }
    if (s->db != NULL && sqlite3_errcode(s->db) == SQLITE_READONLY && access(s->path, W_OK) != 0) {
        /* The file was opened for reading only; the kernel knows why. */
        return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': %s", doing, s->path, strerror(errno));
    }
    return cv__fail(reterr, CV_E_STORE, "cannot %s '%s': %s", doing, s->path,
                    s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
}

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

/* ---- Pipes and markers --------------------------------------------------------------------- */

#define PIPE_PREFIX "pipe."

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

void cv__sqlite_pipe(const struct cv_sqlite *s, const char *pipe,
                     char ret_path[CV_SQLITE_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_SQLITE_PATH_BYTES, "%s.alive/%s", s->path, pipe);
    CV_ASSERT(length < CV_SQLITE_PATH_BYTES);
}

/* Names come from the file, and others write it: nothing but a pipe of this folder is opened. */
static bool pipe_is_valid(const char *pipe)
{
    return strncmp(pipe, PIPE_PREFIX, strlen(PIPE_PREFIX)) == 0 && strchr(pipe, '/') == NULL;
}

static enum cv_lifeline_state pipe_look(const struct cv_sqlite *s, const char *pipe)
{
    if (s->held >= 0 && strcmp(pipe, s->pipe) == 0) {
        return CV_LIFELINE_HELD; /* by ourselves */
    }
    if (!pipe_is_valid(pipe)) {
        return CV_LIFELINE_UNKNOWN;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, pipe, path);
    return cv__lifeline_look(path);
}

/* Does a command that was started under this leadership still run, or anything that it started? */
static bool pipe_is_inherited(const struct cv_sqlite *s, const char *pipe)
{
    if (!pipe_is_valid(pipe)) {
        return false;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, pipe, path);
    return cv__lifeline_is_inherited(path);
}

/* Who holds or hears it still does. */
static void pipe_unlink(const struct cv_sqlite *s, const char *pipe)
{
    if (pipe_is_valid(pipe)) {
        char path[CV_SQLITE_PATH_BYTES];
        cv__sqlite_pipe(s, pipe, path);
        (void)unlink(path); /* a name that stays disturbs nobody */
    }
}

/* A pipe of a name that was never used before. */
static int pipe_make(const struct cv_sqlite *s, char ret_pipe[CV_SQLITE_PIPE_BYTES], int *ret_held,
                     struct cv_errtext *reterr)
{
    char path[CV_SQLITE_PATH_BYTES];
    int held;
    do {
        uint64_t number;
        sqlite3_randomness(sizeof number, &number);
        (void)snprintf(ret_pipe, CV_SQLITE_PIPE_BYTES, PIPE_PREFIX "%016" PRIx64, number);
        cv__sqlite_pipe(s, ret_pipe, path);
        held = cv__lifeline_hold(path);
    } while (held == -EEXIST);
    if (held < 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot make '%s': %s", path, strerror(-held));
    }
    *ret_held = held;
    return CV_OK;
}

/* Is the name of the common pipe still there? Without it nobody hears our end. */
static bool pipe_is_there(const struct cv_sqlite *s)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, s->pipe, path);
    struct stat held, named;
    return fstat(s->held, &held) == 0 && lstat(path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

/* Does a record name this pipe? If that cannot be told, yes. */
static bool pipe_is_named(struct cv_sqlite *s, const char *pipe)
{
    sqlite3_stmt *q = statement(s, FIND_PIPE);
    if (q == NULL) {
        return true;
    }
    sqlite3_bind_text(q, 1, pipe, -1, SQLITE_STATIC);
    const int stepped = sqlite3_step(q);
    (void)sqlite3_reset(q); /* repeats an error that we took for a yes */
    return stepped != SQLITE_DONE;
}

/* Within a transaction, as making a pipe is: removes those that dead processes have left behind. */
static void pipes_clean(struct cv_sqlite *s)
{
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(s, folder);
    DIR *all = opendir(folder);
    if (all == NULL) {
        return; /* they do no harm */
    }
    for (const struct dirent *one; (one = readdir(all)) != NULL;) {
        if (pipe_is_valid(one->d_name) && strlen(one->d_name) < CV_SQLITE_PIPE_BYTES &&
            pipe_look(s, one->d_name) == CV_LIFELINE_CUT && !pipe_is_named(s, one->d_name)) {
            pipe_unlink(s, one->d_name);
        }
    }
    (void)closedir(all); /* it was only read */
}

/* Within a transaction: a pipe for a new leadership is open, and ret_pipe its name. */
static int pipe_take(struct cv_sqlite *s, struct cv_sqlite_contender *c, uint64_t token,
                     char ret_pipe[CV_SQLITE_PIPE_BYTES], struct cv_errtext *reterr)
{
    cv__sqlite_leave(c);
    if (c->pipe[0] != '\0' && !pipe_is_named(s, c->pipe)) {
        pipe_unlink(s, c->pipe); /* of a leadership that ended without a release */
        c->pipe[0] = '\0';
    }
    int code = CV_OK;
    if (!c->has_descendants && s->held < 0) {
        pipes_clean(s);
        code = pipe_make(s, s->pipe, &s->held, reterr);
    }
    if (code == CV_OK && (c->has_descendants || !pipe_is_there(s))) {
        code = pipe_make(s, c->pipe, &c->held, reterr);
    }
    if (code == CV_OK) {
        c->held_token = token;
        memcpy(ret_pipe, c->held >= 0 ? c->pipe : s->pipe, CV_SQLITE_PIPE_BYTES);
    }
    return code;
}

/* The name stays: a contender that opens it finds that nobody holds the pipe. */
void cv__sqlite_leave(struct cv_sqlite_contender *c)
{
    if (c->held >= 0) {
        (void)close(c->held); /* the last copy wakes the others */
        c->held = -1;
    }
    c->held_token = 0;
}

void cv__sqlite_join(struct cv_sqlite_contender *c, const char *election, const char *node,
                     uint64_t label, bool has_descendants)
{
    memset(c, 0, sizeof *c);
    text_copy(c->election, sizeof c->election, election);
    text_copy(c->node, sizeof c->node, node);
    c->label = label;
    c->has_descendants = has_descendants;
    c->held = -1;
    (void)snprintf(c->marker, sizeof c->marker, "%016" PRIx64, name_hash(election));
}

/* Touches the marker: contenders that watch the folder read the record again. */
static void wake_others(const struct cv_sqlite *s, const struct cv_sqlite_contender *c)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, c->marker, path);
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        const int made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
        if (made >= 0) {
            (void)close(made); /* it is empty */
        }
        (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* creating does not count */
    }
    /* A notification may be lost: everybody asks now and then. */
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* The file's real name: lifelines lie beside it, whichever way its users come to it. */
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

static void log_write_back(struct cv_sqlite *s, bool is_closing)
{
    if (s->log_pages > LOG_PAGES_WANTED) {
        /* As much as the others allow, without waiting for them. That it was written back is known
         * only as long as somebody has the file open, so the last one makes the log empty. */
        (void)sqlite3_busy_timeout(s->db, is_closing ? 0 : CV_SQLITE_BUSY_MS);
        (void)sqlite3_wal_checkpoint_v2(
            s->db, NULL, is_closing ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL,
            NULL);
        s->log_pages = 0; /* a reader may hold it up: do not repeat that at once */
    }
}

/* The first process makes the tables. Two that begin together may each hold a lock that the other
 * one needs; SQLite sees that and gives up at once, without the patience it was asked for. */
static bool file_prepare(struct cv_sqlite *s)
{
    const int64_t give_up_ns = cv__clock_now_ns() + CV_SQLITE_BUSY_MS * INT64_C(1000000);
    for (;;) {
        int code = sqlite3_exec(s->db, LOG_SETTINGS, NULL, NULL, NULL);
        if (code == SQLITE_OK) {
            code = sqlite3_exec(s->db, schema, NULL, NULL, NULL);
        }
        if (code == SQLITE_OK && statement(s, READ_RECORD) == NULL) {
            code = sqlite3_exec(s->db, schema_pipe, NULL, NULL, NULL);
            code = code != SQLITE_OK && statement(s, READ_RECORD) != NULL ? SQLITE_OK : code;
        }
        if (code != SQLITE_BUSY || cv__clock_now_ns() >= give_up_ns) {
            return code == SQLITE_OK;
        }
        (void)usleep(1000); /* woken early, it tries earlier */
    }
}

int cv__sqlite_open(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr)
{
    memset(s, 0, sizeof *s);
    s->held = -1;
    s->now_ns = cv__clock_now_ns;
    text_copy(s->path, sizeof s->path, path);
    cv__sqlite_boot(s->boot);
    line_read("/etc/machine-id", s->machine, sizeof s->machine);
    if (s->boot[0] == '\0') {
        return cv__fail(reterr, CV_E_STORE,
                        "cannot tell this boot from others: no boot_id in /proc");
    }
    cv__sqlite_file_make(path); /* SQLite would make it readable for everybody */
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
    s->is_read_only = code == CV_OK && sqlite3_db_readonly(s->db, "main") == 1;
    if (code != CV_OK || s->is_read_only) {
        return code; /* reading needs neither new tables nor the folder */
    }
    if (!file_prepare(s)) {
        return failed(s, "prepare", reterr);
    }
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(s, folder);
    return cv__sqlite_folder_make(folder, &s->file, reterr);
}

void cv__sqlite_close(struct cv_sqlite *s)
{
    if (s->held >= 0) {
        if (!pipe_is_named(s, s->pipe)) {
            pipe_unlink(s, s->pipe);
        }
        (void)close(s->held); /* wakes those that wait for a contender that did not release */
        s->held = -1;
    }
    log_write_back(s, /* is_closing= */ true);
    for (uint32_t i = 0; i < CV_SQLITE_STATEMENTS; i++) {
        (void)sqlite3_finalize(s->statement[i]); /* repeats an error that was told */
        s->statement[i] = NULL;
    }
    (void)sqlite3_close(s->db); /* other statements are finalized where they were made */
    s->db = NULL;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* For a contender that waits, so that its grant takes no longer than necessary: prepares the
 * statements, and syncs the directory entry of the WAL. SQLite does that before the first write of
 * a process; done here, the grant waits for the disk once instead of twice. */
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

/* A time from the file, which others may have written: small enough to be added to another. */
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
    sqlite3_stmt *q = statement(s, READ_RECORD);
    if (q == NULL) {
        return failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    const int stepped = sqlite3_step(q);
    if (stepped == SQLITE_ROW) {
        text_copy(ret_row->shown.node, sizeof ret_row->shown.node, column(q, 0));
        ret_row->shown.label = (uint64_t)sqlite3_column_int64(q, 1);
        ret_row->attempt = (uint64_t)sqlite3_column_int64(q, 2);
        ret_row->shown.token = (uint64_t)sqlite3_column_int64(q, 3);
        ret_row->shown.lease_ns = time_column(q, 4);
        text_copy(ret_row->machine, sizeof ret_row->machine, column(q, 5));
        text_copy(ret_row->boot, sizeof ret_row->boot, column(q, 6));
        ret_row->expires_ns = time_column(q, 7);
        ret_row->shown.since_wall_ns = time_column(q, 8);
        ret_row->renewed_wall_ns = time_column(q, 9);
        text_copy(ret_row->shown.resign_request, sizeof ret_row->shown.resign_request,
                  column(q, 10));
        text_copy(ret_row->heir, sizeof ret_row->heir, column(q, 11));
        ret_row->heir_until_ns = time_column(q, 12);
        text_copy(ret_row->pipe, sizeof ret_row->pipe, column(q, 13));
        ret_row->shown.remaining_ns = ret_row->expires_ns - s->now_ns();
    }
    const bool is_read = stepped == SQLITE_ROW || stepped == SQLITE_DONE;
    const int code = is_read ? CV_OK : failed(s, "read", reterr);
    (void)sqlite3_reset(q); /* repeats the error that was told */
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
        return pipe_look(s, row->pipe) == CV_LIFELINE_CUT
                   ? (struct availability){.is_free = true, .why = CV_REASON_DIED}
                   : judge_strange(c, row, now_ns);
    }
    if (!is_this_boot) {
        const bool is_this_machine = s->machine[0] != '\0' && strcmp(row->machine, s->machine) == 0;
        return is_this_machine ? (struct availability){.is_free = true, .why = CV_REASON_DIED}
                               : judge_strange(c, row, now_ns);
    }
    if (pipe_is_inherited(s, row->pipe)) {
        /* Whatever the lease says, and also if it was ours: its supervisor and guard should have
         * ended the command by now, but they may be stopped, dead or late. The kernel knows. */
        return (struct availability){
            .is_free = false, .wait_ns = cv__max64(row->expires_ns - now_ns, OVERDUE_LOOK_NS)};
    }
    if (row->expires_ns <= now_ns) {
        return (struct availability){
            .is_free = true, .why = CV_REASON_EXPIRED, .ended_ns_ago = now_ns - row->expires_ns};
    }
    if (row->shown.label == c->label) { /* our own, which a new attempt gives up */
        return (struct availability){.is_free = true, .why = CV_REASON_EXPIRED};
    }
    const bool is_cut = pipe_look(s, row->pipe) == CV_LIFELINE_CUT;
    return (struct availability){
        .is_free = is_cut, .wait_ns = row->expires_ns - now_ns, .why = CV_REASON_DIED};
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

static int past_close(struct cv_sqlite *s, uint64_t token, int64_t to_wall_ns, enum cv_reason why,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, CLOSE_PAST);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_int64(q, 1, to_wall_ns);
    sqlite3_bind_text(q, 2, cv_reason_name(why), -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)token);
    return write_step(s, q, reterr);
}

static int alive_note(struct cv_sqlite *s, uint64_t token, int64_t alive_wall_ns,
                      struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, NOTE_ALIVE);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_int64(q, 1, (int64_t)token);
    sqlite3_bind_int64(q, 2, alive_wall_ns);
    return write_step(s, q, reterr);
}

static int past_begin(struct cv_sqlite *s, const struct cv_sqlite_contender *c, int64_t wall_ns,
                      uint64_t *ret_token, struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, BEGIN_PAST);
    if (q == NULL) {
        return failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, c->node, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, wall_ns);
    const int code = write_step(s, q, reterr);
    *ret_token = (uint64_t)sqlite3_last_insert_rowid(s->db);
    return code;
}

static int row_write(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                     const struct row *row, struct cv_errtext *reterr)
{
    sqlite3_stmt *q = statement(s, WRITE_RECORD);
    if (q == NULL) {
        return failed(s, "write", reterr);
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
    if (row->shown.node[0] != '\0' && pipe_is_valid(row->pipe)) {
        text_copy(job->pipe, sizeof job->pipe, row->pipe);
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

/* Nobody holds the election: why? Not known is an answer, too. */
static enum cv_reason find_why(struct cv_sqlite *s, const struct row *row,
                               const struct availability *seen)
{
    if (row->shown.node[0] != '\0') {
        return seen->why;
    }
    sqlite3_stmt *q = row->shown.token != 0 ? statement(s, FIND_WHY) : NULL;
    if (q == NULL) {
        return CV_REASON_STARTED;
    }
    sqlite3_bind_int64(q, 1, (int64_t)row->shown.token);
    const enum cv_reason why =
        sqlite3_step(q) == SQLITE_ROW ? cv__reason_find(column(q, 0)) : CV_REASON_COUNT;
    (void)sqlite3_reset(q);
    return why != CV_REASON_COUNT ? why : CV_REASON_STARTED;
}

/* What can be answered without writing is; the others are due to write. A contender that waits only
 * reads, and one that has seen a free record looks again when it has the write lock. */
static void look(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    job->is_due = job->asks_resign || job->request.verb == CV_STORE_RENEW ||
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
    if (job->request.verb == CV_STORE_ACQUIRE) {
        job->is_due = availability.is_free || is_mine(job, &row);
        if (!job->is_due) {
            answer_held(job, &row, availability.wait_ns);
        }
        return;
    }
    const bool is_own = row.shown.label == c->label && row.shown.remaining_ns > 0;
    if (row.shown.node[0] == '\0' || (availability.is_free && !is_own)) {
        answer(job, CV_STORE_FREE, &row);
        job->record.ended = find_why(s, &row, &availability);
    } else {
        answer_held(job, &row, availability.wait_ns);
    }
}

/* The election is free, and becomes ours. */
static int take(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row,
                const struct availability *was)
{
    struct cv_sqlite_contender *c = job->contender;
    const int64_t wall_ns = cv__clock_wall_ns();
    if (was->why != CV_REASON_STARTED) {
        const int64_t lapsed_ns = row->renewed_wall_ns + row->shown.lease_ns;
        const int64_t ended_ns = wall_ns - was->ended_ns_ago;
        int code = past_close(s, row->shown.token, ended_ns < lapsed_ns ? ended_ns : lapsed_ns,
                              was->why, &job->error);
        if (code == CV_OK) {
            code = alive_note(s, row->shown.token, row->renewed_wall_ns, &job->error);
        }
        if (code != CV_OK) {
            return code;
        }
    }
    uint64_t token = 0;
    int code = past_begin(s, c, wall_ns, &token, &job->error);
    if (code != CV_OK) {
        return code;
    }
    if (token <= row->shown.token) { /* AUTOINCREMENT sees to it, unless somebody edits the file */
        return cv__fail(&job->error, CV_E_STORE,
                        "the tokens of '%s' would not grow: its record has %" PRIu64
                        ", its history less",
                        s->path, row->shown.token);
    }
    text_copy(job->unused, sizeof job->unused, row->pipe);
    memset(row, 0, sizeof *row);
    job->is_taken = true;
    code = pipe_take(s, c, token, row->pipe, &job->error);
    if (code != CV_OK) {
        return code;
    }
    text_copy(row->shown.node, sizeof row->shown.node, c->node);
    text_copy(row->machine, sizeof row->machine, s->machine);
    text_copy(row->boot, sizeof row->boot, s->boot);
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
    int code = CV_OK;
    if (!is_again) {
        code = take(s, job, row, &availability);
    } else {
        /* The pipe is gone if the first answer was that nobody knows: without one the others would
         * take us for dead. */
        if (c->held_token != row->shown.token) {
            job->is_taken = true;
            code = pipe_take(s, c, row->shown.token, row->pipe, &job->error);
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
    const bool is_held = job->contender->held_token == token && token != 0;
    if (is_held && is_mine(job, row) && row->shown.token == token) {
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

/* A supervisor that releases has seen that nothing of its command is left. If the kernel knows
 * better, the lease is over and the record stays, with the pipe that the others wait for. */
static void row_release(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    const int64_t now_ns = s->now_ns();
    const int64_t kept_ns = row->shown.lease_ns < HEIR_NS_MAX ? row->shown.lease_ns : HEIR_NS_MAX;
    row->shown.resign_request[0] = '\0';
    row->shown.remaining_ns = 0;
    row->expires_ns = now_ns;
    job->is_outlived = pipe_is_inherited(s, row->pipe);
    if (!job->is_outlived) {
        row->shown.node[0] = '\0';
        text_copy(row->heir, sizeof row->heir, job->heir);
        row->heir_until_ns = row->heir[0] != '\0' ? now_ns + kept_ns : 0;
        row->pipe[0] = '\0';
    }
}

static int release(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    int code = CV_OK;
    if (is_mine(job, row)) {
        const enum cv_reason reason = job->request.reason;
        row_release(s, job, row);
        code = row_write(s, job->contender, row, &job->error);
        if (code == CV_OK) {
            code =
                past_close(s, row->shown.token, cv__clock_wall_ns(),
                           reason != CV_REASON_STARTED ? reason : CV_REASON_RESIGNED, &job->error);
        }
    }
    job->is_released = true;
    answer(job, CV_STORE_FREE, row);
    return code;
}

static int request_resign(struct cv_sqlite *s, struct cv_sqlite_job *job, struct row *row)
{
    const struct availability availability = judge(s, job->contender, row);
    if (availability.is_free || row->shown.node[0] == '\0') {
        answer(job, CV_STORE_FREE, row);
        return CV_OK;
    }
    text_copy(row->shown.resign_request, sizeof row->shown.resign_request,
              job->heir[0] != '\0' ? job->heir : "*");
    answer_held(job, row, availability.wait_ns);
    return row_write(s, job->contender, row, &job->error);
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
    if (job->is_released && c->held >= 0 && !job->is_outlived) {
        pipe_unlink(s, c->pipe);
    }
    if (job->is_released) {
        cv__sqlite_leave(c);
    }
    if (job->unused[0] != '\0' && pipe_look(s, job->unused) == CV_LIFELINE_CUT &&
        !pipe_is_named(s, job->unused)) {
        pipe_unlink(s, job->unused);
    }
    if (job->is_taken || job->is_released || job->asks_resign) {
        wake_others(s, c);
    }
}

/* Nothing was written, as far as we know. If it was all the same, others need not wait for us. */
static void undo(struct cv_sqlite_job *job)
{
    if (job->is_taken) {
        cv__sqlite_leave(job->contender);
    }
    job->is_taken = job->is_released = false;
    job->unused[0] = '\0';
}

/* A renewal or release that is lost in a power failure was worth nothing, as the record is then of
 * another boot, and free: only grants wait for the disk. The grant that follows a release is
 * written behind it, and takes it to the disk. */
static int begin(struct cv_sqlite *s, bool is_hasty, struct cv_errtext *reterr)
{
    int code = CV_OK;
    if (s->is_hasty != is_hasty) {
        code = run(s, is_hasty ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                   "prepare", reterr);
        s->is_hasty = code == CV_OK ? is_hasty : s->is_hasty;
    }
    return code == CV_OK ? run(s, "BEGIN IMMEDIATE", "write to", reterr) : code;
}

/* Carries out what is due, or only one of it, in one transaction. False: it failed after the write
 * lock was had, and everything is undone and still due; *ret_why says why. */
static bool write_due(struct cv_sqlite *s, struct cv_sqlite_job *jobs, struct cv_sqlite_job *only,
                      bool is_hasty, struct cv_errtext *ret_why)
{
    int code = begin(s, is_hasty, ret_why);
    const bool is_begun = code == CV_OK;
    for (struct cv_sqlite_job *job = jobs; job != NULL && code == CV_OK; job = job->next) {
        if (job->is_due && (only == NULL || only == job)) {
            code = write_one(s, job);
            *ret_why = code != CV_OK ? job->error : *ret_why;
        }
    }
    if (code == CV_OK) {
        code = run(s, "COMMIT", "write to", ret_why);
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

/* One that cannot be written must not take the others with it: then each has its own turn. */
static void write_all(struct cv_sqlite *s, struct cv_sqlite_job *jobs)
{
    uint32_t due_count = 0;
    bool is_hasty = true;
    for (const struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        due_count += job->is_due;
        is_hasty = is_hasty &&
                   !(job->is_due && !job->asks_resign && job->request.verb == CV_STORE_ACQUIRE);
    }
    struct cv_errtext why = {""};
    if (due_count == 0 || write_due(s, jobs, NULL, is_hasty, &why)) {
        return;
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

void cv__sqlite_do(struct cv_sqlite *s, struct cv_sqlite_job *jobs)
{
    bool has_waiting = false, has_renewal = false;
    struct cv_errtext error;
    const bool is_there = cv__sqlite_file_check(s->path, &s->file, &error) == CV_OK;
    for (struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        CV_ASSERT(job->request.request != 0);
        job->is_due = job->is_taken = job->is_released = false;
        job->unused[0] = '\0';
        if (is_there && job->request.runs != NULL) {
            cv__sqlite_runs(s, job);
        } else if (is_there) {
            look(s, job);
        } else {
            answer_failed(job, &error);
        }
        has_renewal = has_renewal || (!job->asks_resign && job->request.verb == CV_STORE_RENEW);
    }
    write_all(s, jobs);
    for (const struct cv_sqlite_job *job = jobs; job != NULL; job = job->next) {
        has_waiting = has_waiting || job->answer.verdict == CV_STORE_HELD;
    }
    if (has_waiting) {
        make_ready(s);
    }
    if (has_renewal) {
        log_write_back(s, /* is_closing= */ false);
    }
}

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
        return failed(s, "read", reterr);
    }
    sqlite3_bind_text(q, 1, election, -1, SQLITE_STATIC);
    int stepped = sqlite3_step(q);
    for (; stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
        struct cv_store_past one = {.token = (uint64_t)sqlite3_column_int64(q, 1),
                                    .from_wall_ns = sqlite3_column_int64(q, 2),
                                    .to_wall_ns = sqlite3_column_int64(q, 3),
                                    .alive_wall_ns = sqlite3_column_int64(q, 5)};
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
