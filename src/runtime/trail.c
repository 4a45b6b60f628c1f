/* src/runtime/trail.c - leaderships that were seen from this machine, in a SQLite file. */
#include "runtime/trail.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "os/worker.h"
#include "runtime/place.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BUSY_MS 2000
#define NICE 10 /* of the thread that writes; a tenth of the usual share */

/* A hand-over takes less, even beside three servers on two processors. */
#define DELAY_MS 5

/* One for all elections of a loop that need it.
 *
 * A note is written DELAY_MS after it was made, or when the trail is closed. On a machine with few
 * processors, writing at once would delay the hand-over that the note is about: it took one of two
 * processors for half a millisecond, in which the servers that handle the release had to wait, even
 * with a low priority. */
struct cv_trail {
    struct cv_shared shared;
    struct cv_shared_list *list;
    struct cv_worker *worker;
    uv_timer_t timer;           /* is active if a note waits */
    struct note *first, **last; /* waiting notes; `last` points to the link for the next one */
};

struct note {
    struct cv_work work;
    struct note *next;
    char *address;
    char election[CV_ELECTION_BYTES], node[CV_NODE_BYTES], why[32];
    uint64_t token;
    int64_t wall_ns;
};

/* Makes a new file usable. Two processes that begin together may each hold a lock that the other
 * one needs; SQLite notices that and fails at once, whatever its busy time-out. */
static bool file_prepare(sqlite3 *db)
{
    static const char settings_and_schema[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        " CREATE TABLE IF NOT EXISTS conclave_seen (address TEXT NOT NULL, election TEXT NOT NULL,"
        " token INTEGER NOT NULL, node TEXT NOT NULL, from_wall_ns INTEGER NOT NULL,"
        " to_wall_ns INTEGER, why TEXT NOT NULL DEFAULT '',"
        " PRIMARY KEY (address, election, token)) WITHOUT ROWID";
    const int64_t give_up_ns = cv__clock_now_ns() + BUSY_MS * INT64_C(1000000);
    for (;;) {
        const int code = sqlite3_exec(db, settings_and_schema, NULL, NULL, NULL);
        if (code != SQLITE_BUSY || cv__clock_now_ns() >= give_up_ns) {
            return code == SQLITE_OK;
        }
        (void)usleep(1000); /* woken early, it tries earlier */
    }
}

static sqlite3 *trail_open(struct cv_errtext *reterr)
{
    char *path;
    if (cv__place_file("history.db", &path, reterr) != CV_OK) {
        return NULL;
    }
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db, BUSY_MS) != SQLITE_OK || !file_prepare(db)) {
        (void)cv__fail(reterr, CV_E_STORE, "cannot use '%s': %s", path,
                       db != NULL ? sqlite3_errmsg(db) : "out of memory");
        (void)sqlite3_close(db);
        db = NULL;
    }
    free(path);
    return db;
}

/* Lost if it fails: see the header. */
static void write_one(sqlite3 *db, const char *sql, const struct note *note, const char *text)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK) {
        return;
    }
    sqlite3_bind_text(q, 1, note->address, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, note->election, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)note->token);
    sqlite3_bind_text(q, 4, text, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 5, note->wall_ns);
    (void)sqlite3_step(q);
    (void)sqlite3_finalize(q);
}

static void note_write(void *data)
{
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* of this thread; a higher value is always allowed */
    const struct note *note = data;
    /* Several contenders of a machine see the same leadership, and may write it in another order
     * than they saw it: the earliest time counts. The leader itself knows first that it began. A
     * contender that sees a token knows that all earlier ones are over, but not since when. */
    static const char replaces[] = "UPDATE conclave_seen SET to_wall_ns = ?5, why = 'gone'"
                                   " WHERE address = ?1 AND election = ?2 AND to_wall_ns IS NULL"
                                   " AND token < ?3 AND ?4 IS NOT NULL";
    static const char begins[] = "INSERT INTO conclave_seen (address, election, token,"
                                 " node, from_wall_ns) VALUES (?1, ?2, ?3, ?4, ?5)"
                                 " ON CONFLICT (address, election, token) DO UPDATE SET"
                                 " from_wall_ns = min(from_wall_ns, excluded.from_wall_ns)";
    /* Contenders that only watched write 'gone'; the leader itself may write the reason later. The
     * earliest end counts: a leader that was paused notices the end last. */
    static const char ends[] = "UPDATE conclave_seen SET why = ?4,"
                               " to_wall_ns = min(coalesce(to_wall_ns, ?5), ?5) WHERE"
                               " address = ?1 AND election = ?2 AND (to_wall_ns IS NULL AND"
                               " token <= ?3 OR token = ?3 AND why = 'gone' AND ?4 <> 'gone')";
    struct cv_errtext unused;
    sqlite3 *db = trail_open(&unused);
    if (db == NULL) {
        return;
    }
    if (note->why[0] != '\0') {
        write_one(db, ends, note, note->why);
    } else {
        write_one(db, replaces, note, note->node);
        write_one(db, begins, note, note->node);
    }
    (void)sqlite3_close(db);
}

/* Lets the worker write what waits. */
static void write_waiting(struct cv_trail *trail)
{
    while (trail->first != NULL) {
        struct note *note = trail->first;
        trail->first = note->next;
        cv__worker_do(trail->worker, &note->work);
    }
    trail->last = &trail->first;
}

static void on_timer(uv_timer_t *timer)
{
    write_waiting(timer->data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

int cv__trail_open(uv_loop_t *loop, struct cv_shared_list *list, struct cv_trail **ret_trail,
                   struct cv_errtext *reterr)
{
    static const char kind; /* compared by its address */
    struct cv_shared *shared = cv__shared_join(list, &kind, "");
    if (shared != NULL) {
        *ret_trail = (struct cv_trail *)((char *)shared - offsetof(struct cv_trail, shared));
        return CV_OK;
    }
    struct cv_trail *trail = calloc(1, sizeof *trail);
    if (trail == NULL || !cv__shared_add(list, &trail->shared, &kind, "")) {
        free(trail);
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    trail->list = list;
    trail->last = &trail->first;
    (void)uv_timer_init(loop, &trail->timer); /* cannot fail */
    trail->timer.data = trail;
    const int code = cv__worker_new(loop, &trail->worker, reterr);
    if (code != CV_OK) {
        cv__trail_close(trail);
        return code;
    }
    *ret_trail = trail;
    return CV_OK;
}

void cv__trail_close(struct cv_trail *trail)
{
    if (trail != NULL && cv__shared_leave(trail->list, &trail->shared)) {
        write_waiting(trail);
        cv__worker_free(trail->worker, NULL, NULL); /* it writes queued notes first */
        uv_close((uv_handle_t *)&trail->timer, on_timer_closed);
    }
}

static void note_done(void *data)
{
    struct note *note = data;
    free(note->address);
    free(note);
}

void cv__trail_note(struct cv_trail *trail, const char *address, const char *election,
                    const char *node, uint64_t token, const char *why, int64_t ago_ns)
{
    struct note *note = calloc(1, sizeof *note);
    if (note == NULL) {
        return;
    }
    note->wall_ns = cv__clock_wall_ns() - ago_ns;
    note->address = strdup(address);
    note->token = token;
    note->work = (struct cv_work){.run = note_write, .done = note_done, .data = note};
    (void)snprintf(note->election, sizeof note->election, "%s", election);
    (void)snprintf(note->node, sizeof note->node, "%s", node);
    (void)snprintf(note->why, sizeof note->why, "%s", why != NULL ? why : "");
    if (note->address == NULL) {
        free(note);
        return;
    }
    *trail->last = note;
    trail->last = &note->next;
    if (!uv_is_active((const uv_handle_t *)&trail->timer)) {
        /* Fails only for a timer that is closing. */
        (void)uv_timer_start(&trail->timer, on_timer, DELAY_MS, /* repeat= */ 0);
    }
}

int cv__trail_read(const struct cv_store_kind *kind, const char *address, const char *election,
                   void (*past)(void *user, const struct cv_store_past *past), void *user,
                   struct cv_errtext *reterr)
{
    if (kind->history != NULL) {
        return kind->history(address, election, past, user, reterr);
    }
    sqlite3 *db = trail_open(reterr);
    if (db == NULL) {
        return CV_E_STORE;
    }
    sqlite3_stmt *q = NULL;
    int stepped = sqlite3_prepare_v2(db,
                                     "SELECT node, token, from_wall_ns, to_wall_ns, why"
                                     " FROM conclave_seen WHERE address = ? AND election = ?"
                                     " ORDER BY token",
                                     -1, &q, NULL);
    if (stepped == SQLITE_OK) {
        sqlite3_bind_text(q, 1, address, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 2, election, -1, SQLITE_STATIC);
        for (stepped = sqlite3_step(q); stepped == SQLITE_ROW; stepped = sqlite3_step(q)) {
            struct cv_store_past one = {.token = (uint64_t)sqlite3_column_int64(q, 1),
                                        .from_wall_ns = sqlite3_column_int64(q, 2),
                                        .to_wall_ns = sqlite3_column_int64(q, 3)};
            (void)snprintf(one.node, sizeof one.node, "%s", sqlite3_column_text(q, 0));
            (void)snprintf(one.why, sizeof one.why, "%s", sqlite3_column_text(q, 4));
            past(user, &one);
        }
    }
    const int code =
        stepped == SQLITE_DONE
            ? CV_OK
            : cv__fail(reterr, CV_E_STORE, "cannot read the audit trail: %s", sqlite3_errmsg(db));
    (void)sqlite3_finalize(q); /* returns the same error again */
    (void)sqlite3_close(db);
    return code;
}

int cv__trail_forget(const char *address, const char *election, struct cv_errtext *reterr)
{
    sqlite3 *db = trail_open(reterr);
    if (db == NULL) {
        return CV_E_STORE;
    }
    sqlite3_stmt *q = NULL;
    int stepped = sqlite3_prepare_v2(
        db, "DELETE FROM conclave_seen WHERE address = ? AND election = ?", -1, &q, NULL);
    if (stepped == SQLITE_OK) {
        sqlite3_bind_text(q, 1, address, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 2, election, -1, SQLITE_STATIC);
        stepped = sqlite3_step(q);
    }
    const int code =
        stepped == SQLITE_DONE
            ? CV_OK
            : cv__fail(reterr, CV_E_STORE, "cannot change the audit trail: %s", sqlite3_errmsg(db));
    (void)sqlite3_finalize(q); /* returns the same error again */
    (void)sqlite3_close(db);
    return code;
}
