/* src/stores/sqlite_record.h - the records of a SQLite file: what is read and written, and when.
 *
 * All processes that share the file share a kernel and its clock: CLOCK_BOOTTIME, which cannot be
 * set and counts through suspend. It starts again at each boot, so a record names its boot. A
 * record of another boot was left by a machine that has restarted since, and its holder is dead;
 * unless the file lies on a network disk, against the rules, and the record comes from another
 * machine. Nothing is known of that machine's clock, so a contender must see the record unchanged
 * for a whole lease. A container may have its own clock (a time namespace): this is a part of the
 * boot's name, and its records are treated like those of another machine.
 *
 * The token is the row number of the audit trail, which SQLite never gives out twice
 * (AUTOINCREMENT), even after rows were deleted. The fact that a token was given out is on the disk
 * before a grant is answered: with the grant itself, or because the token was reserved before
 * (sqlite_reserve.c), so that a waiting contender need not wait for the disk. Everything else may
 * be lost in a power failure, which ends all leaderships anyway. (The trail then says "died" for a
 * leadership that had just been resigned, or misses one that had just begun.)
 *
 * Each leadership is tied to a pipe (lifeline.h) that its holder keeps open; the record names it. A
 * contender whose descendants inherit the pipe (`has_descendants`) makes one for each leadership,
 * so that its closing means that the holder and all descendants are gone. All other contenders of
 * one connection share one pipe, which stands for the process. Why this is safe:
 *
 *   not too early   the pipe is open before a record that names it is committed, and is closed only
 *                   with the whole connection, when none of its contenders leads. So while one of
 *                   them leads, the pipe is open. Its name is never used again: mkfifo() refuses a
 *                   name that exists, and names are random.
 *   not for ever    the pipe may outlive a leadership, but only a record makes contenders wait for
 *                   it, and only for the lease in the record. A release clears the record, and
 *                   touching the election's marker file tells contenders to read it. If a contender
 *                   was closed without a release, its lease must run out.
 *
 * Requests of several contenders are carried out in one transaction: five hundred grants wait for
 * the disk once.
 *
 * These functions wait for the disk and for other writers, up to CV_SQLITE_BUSY_MS. */
#ifndef CV_STORES_SQLITE_RECORD_H
#define CV_STORES_SQLITE_RECORD_H

#include "stores/sqlite_file.h"
#include "stores/sqlite_next.h"
#include "stores/store.h"

#include <sqlite3.h>

#define CV_SQLITE_BUSY_MS 1000
#define CV_SQLITE_PATH_BYTES 4096
#define CV_SQLITE_PIPE_BYTES 48 /* the name of a pipe within its folder */
#define CV_SQLITE_MARKER_BYTES 20
#define CV_MACHINE_BYTES 40

#define CV_SQLITE_STATEMENTS 16

/* A connection to a file, for all contenders of one loop. */
struct cv_sqlite {
    sqlite3 *db;
    sqlite3_stmt *statement[CV_SQLITE_STATEMENTS]; /* prepared once; NULL: not yet */
    char path[CV_SQLITE_PATH_BYTES];
    struct cv_sqlite_file file;     /* what was at that path */
    bool is_read_only;              /* it may not be written by us: only READ works */
    char boot[CV_BOOT_BYTES];       /* this boot of this kernel, in our time namespace */
    char machine[CV_MACHINE_BYTES]; /* empty: it has no name */
    int64_t (*now_ns)(void);        /* CLOCK_BOOTTIME; tests have their own */

    int pipe_fd;                     /* the pipe of all contenders, or -1: none was needed yet */
    char pipe[CV_SQLITE_PIPE_BYTES]; /* its name */
    int mail_fd; /* of a pipe that was made since the loop last took it; or -1 */
    char mail[CV_SQLITE_PIPE_BYTES]; /* its name; empty: none was needed yet */
    bool is_ready;                   /* to take over: see cv__sqlite_make_ready() */
    bool is_hasty;                   /* commits do not wait for the disk */
    uint64_t reserved_token;         /* on the disk as given out, and ours; 0: none */
    bool must_sync;                  /* a grant was answered that may not be on the disk yet */
    int log_pages;                   /* as of our latest commit, and not written back since */
    _Atomic uint32_t waiting_count;  /* contenders that have a file which says that they wait */
};

/* What takes part in one election of the file. */
struct cv_sqlite_contender {
    char election[CV_ELECTION_BYTES];
    char node[CV_NODE_BYTES];
    uint64_t label;
    char version[CV_STORE_VERSION_BYTES]; /* empty: it is not told */
    bool has_descendants;
    char marker[CV_SQLITE_MARKER_BYTES]; /* the file that is touched when the record changes */

    uint64_t pipe_token;             /* of the present grant, whose pipe is open; 0: none */
    int pipe_fd;                     /* its pipe, if that belongs to this leadership alone; or -1 */
    char pipe[CV_SQLITE_PIPE_BYTES]; /* the name of that */

    bool is_waiting; /* another contender had it when we last asked */
    int waiting;     /* the locked file that says so; or -1 */

    /* Its latest ACQUIRE that found the record held, and what it is registered with as the next one
     * (sqlite_next.h). A token of 0: it is not; it is believed only if that is on the disk. */
    uint64_t sought_attempt;
    int64_t sought_lease_ns;
    uint64_t next_attempt, next_token, next_secret;
    int64_t next_lease_ns;
    bool is_next_durable;

    /* A record of another machine: since when it has been seen unchanged. */
    uint64_t strange_token;
    int64_t strange_expires_ns, strange_since_ns;
};

/* A request, and then its answer. */
struct cv_sqlite_job {
    struct cv_sqlite_job *next;
    struct cv_sqlite_contender *contender;
    struct cv_store_request request; /* `heir` is ignored: */
    char heir[CV_NODE_BYTES];        /* empty: none */
    bool asks_resign;                /* the request is to ask the holder to resign */
    int64_t released_ns; /* RELEASE: when it was first asked for, on s->now_ns(); 0: not known */

    struct cv_store_answer answer;   /* `record` and `why` point to those below */
    struct cv_store_record record;   /* unless FAILED */
    struct cv_errtext error;         /* if FAILED */
    char pipe[CV_SQLITE_PIPE_BYTES]; /* if HELD: of the holder; empty: it has none */

    uint64_t seen_token;               /* of the record, before it was written */
    bool is_due;                       /* it has to write, and has not yet */
    bool must_wait;                    /* it has to wait for the disk, and its commit would not */
    bool is_taken, is_released;        /* what it has written, if that can be committed */
    bool is_outlived;                  /* released, and a process of its command still runs */
    bool is_given;                     /* released: to another; tidied: by another */
    bool is_plain;                     /* that failed: it is released without */
    bool is_untidy;                    /* answered, and cv__sqlite_tidy() is to follow */
    char unused[CV_SQLITE_PIPE_BYTES]; /* the pipe of a former leadership, to be removed then */
    int mail; /* if it is given to another: the pipe of that one, and the message */
    struct cv_sqlite_mail mail_text;
};

/* Opens the file, and makes it if need be. `path` may be relative. A file that may only be read is
 * opened for reading. */
CV_NODISCARD int cv__sqlite_open(struct cv_sqlite *s, const char *path, struct cv_errtext *reterr);

/* A connection that could only be opened for reading: opens it again if the user may write by now.
 * Otherwise it stays one for reading, and the error says what is missing. */
CV_NODISCARD int cv__sqlite_open_for_writing(struct cv_sqlite *s, struct cv_errtext *reterr);
/* Also for one that could not be opened. Its contenders are gone: closes the pipe. */
void cv__sqlite_close(struct cv_sqlite *s);

void cv__sqlite_join(struct cv_sqlite_contender *c, const char *election, const char *node,
                     uint64_t label, bool has_descendants);
/* Lets go of a pipe of its own; releases nothing. */
void cv__sqlite_leave(struct cv_sqlite_contender *c);

/* Carries out a list of requests, at most one of each contender, and answers them. */
void cv__sqlite_do(struct cv_sqlite *s, struct cv_sqlite_job *jobs);

/* When nothing is urgent: reserves a token above this one (0: none), registers a contender as the
 * next one (NULL: none) if that place is free, and takes to the disk what was granted before. */
void cv__sqlite_prepare(struct cv_sqlite *s, uint64_t above, struct cv_sqlite_contender *next);

/* What a new leader need not wait for: removes the pipe of the former one, and tells those who
 * watch. To be called after the answer of a job that is_untidy was passed on. */
void cv__sqlite_tidy(struct cv_sqlite *s, struct cv_sqlite_job *job);

/* Reads or writes the text about runs that the request lends, in a transaction of its own. */
void cv__sqlite_runs(struct cv_sqlite *s, struct cv_sqlite_job *job);

/* Fills in the list of those who wait. */
void cv__sqlite_list(struct cv_sqlite *s, struct cv_sqlite_job *job);

/* The contender waits, which others may want to know; it is closed. Only the first
 * CV_SQLITE_WAITING_MAX contenders of a connection say so: each needs a descriptor. */
#define CV_SQLITE_WAITING_MAX 32
void cv__sqlite_wait_begin(struct cv_sqlite *s, struct cv_sqlite_contender *c);
void cv__sqlite_wait_end(struct cv_sqlite *s, struct cv_sqlite_contender *c);

/* The folder of pipes and markers, and the path of a pipe in it. */
void cv__sqlite_folder(const struct cv_sqlite *s, char ret_path[CV_SQLITE_PATH_BYTES]);
void cv__sqlite_pipe(const struct cv_sqlite *s, const char *pipe,
                     char ret_path[CV_SQLITE_PATH_BYTES]);

/* Every election of the file. */
CV_NODISCARD int cv__sqlite_names(struct cv_sqlite *s, void (*name)(void *user, const char *name),
                                  void *user, struct cv_errtext *reterr);

CV_NODISCARD int cv__sqlite_history(struct cv_sqlite *s, const char *election,
                                    void (*past)(void *user, const struct cv_store_past *past),
                                    void *user, struct cv_errtext *reterr);

/* The path in an address, and what commands ask there (struct cv_store_kind). */
const char *cv__sqlite_path(const char *address);
CV_NODISCARD int cv__sqlite_create_at(const char *address, struct cv_errtext *reterr);
CV_NODISCARD int cv__sqlite_history_at(const char *address, const char *election,
                                       void (*past)(void *user, const struct cv_store_past *past),
                                       void *user, struct cv_errtext *reterr);
CV_NODISCARD int cv__sqlite_names_at(const char *address,
                                     void (*name)(void *user, const char *name), void *user,
                                     struct cv_errtext *reterr);

#endif
