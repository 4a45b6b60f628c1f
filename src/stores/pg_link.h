/* src/stores/pg_link.h - one connection to PostgreSQL on a loop: connecting, asking, listening.
 *
 * It connects on request and stays connected: when the connection is lost, it makes a new one,
 * after a pause that grows with each failure. Time-out and pause are both short compared with a
 * lease: a first version waited ten seconds for a server that was down for one, and then five more,
 * so there was no leader for fifteen. The hosts of an address are tried one at a time, each with
 * its own time-out, beginning with the one that worked last: libpq has no time-out in its
 * asynchronous calls, so a first host that hangs would never be skipped.
 *
 * Statements are sent as one message and carried out as one transaction. The user of the link
 * chooses the statements and reads the results; callbacks on the loop report everything else and
 * may close the link. */
#ifndef CV_STORES_PG_LINK_H
#define CV_STORES_PG_LINK_H

#include "stores/remote.h"

#include <libpq-fe.h>

#define CV_PG_RESULTS_MAX 64 /* requests whose rows are read from one message */

enum cv_pg_state {
    CV_PG_DOWN,       /* nothing; the next attempt is when the pause is over */
    CV_PG_CONNECTING, /* libpq connects */
    CV_PG_GREETING,   /* asking who is there, and where the tables are */
    CV_PG_READY,
    CV_PG_ASKING, /* a message is at the server */
};

struct cv_pg_user {
    void *self;
    void (*ready)(void *self, bool is_back);     /* the connection is there; is_back: once more */
    void (*failed)(void *self, const char *why); /* no host could be reached; a pause follows */
    void (*broken)(void *self); /* it was lost, with what was sent; another attempt has begun */
    /* The message was carried out, or nothing of it (`wrong` says why). The link is READY again. */
    void (*answered)(void *self, const PGresult *wrong);
    void (*notified)(void *self, const char *channel, const char *payload, bool is_ours);
};

struct cv_pg_poll;

struct cv_pg_link {
    uv_loop_t *loop;
    char *address;
    struct cv_pg_user user;
    enum cv_pg_state state;
    PGconn *pg;
    struct cv_pg_poll *poll;
    uv_timer_t timer;                /* DOWN: the pause; CONNECTING, GREETING: the bound */
    uint64_t pause_ms, bound_ms;     /* of the next attempt */
    uint32_t host_index, host_count; /* the one that is tried */
    uint32_t tried_count;            /* since the last success, or the last pause */
    bool was_ready;
    bool is_direct;                       /* no pooler stands between, so LISTEN works */
    bool may_prepare;                     /* statements can be prepared in this session ... */
    bool is_prepared;                     /* ... and are */
    bool has_next;                        /* the table has columns for who is next (pg_next.h) */
    char version[CV_STORE_VERSION_BYTES]; /* ours; empty: it is not told */
    /* The same as a value for SQL, after a comma; empty: not told, or past leaderships have no
     * column for it. */
    char version_value[CV_STORE_VERSION_BYTES + 8];
    char prefix[200]; /* of the tables, e.g. `public.`; empty: they do not exist */
    char token[200];  /* the sequence as a literal, e.g. `'public.conclave_token'` */

    PGresult *rows[CV_PG_RESULTS_MAX]; /* of each SELECT with a column `remaining_us`, in order */
    uint32_t row_count;
    PGresult *greeting;
    PGresult *wrong; /* the first error */
    bool is_closed;
    void (*closed)(void *self);
};

/* Checks the address. The rest of *link is zero. Nothing happens before cv__pg_connect(). */
CV_NODISCARD int cv__pg_init(struct cv_pg_link *link, uv_loop_t *loop, const char *address,
                             const struct cv_pg_user *user, struct cv_errtext *reterr);

/* A command that asks once waits this long: the first attempt may take nearly all of it. */
void cv__pg_be_patient(struct cv_pg_link *link, uint32_t patience_ms);

/* Begins to connect, unless it has begun or has to pause. */
void cv__pg_connect(struct cv_pg_link *link);

/* Sends a message; the link is READY. False: it cannot be sent, and `broken` does not come. */
bool cv__pg_send(struct cv_pg_link *link, const char *script);

/* Ends the connection, so that a late answer is lost; the next one is made after a pause. */
void cv__pg_drop(struct cv_pg_link *link);

/* `closed` comes on the loop, and the link's memory is the user's again. */
void cv__pg_close(struct cv_pg_link *link, void (*closed)(void *self));

/* One line for what the server or libpq said, and what to do about it where we know. */
void cv__pg_explain(const char *message, const PGresult *wrong, char *ret_why, size_t why_bytes);

/* Is it the error of a table or column that does not exist? */
bool cv__pg_is_missing(const PGresult *wrong);

/* Is it the error of a prepared statement that this session does not know, or that does not fit its
 * table any more? */
bool cv__pg_is_unprepared(const PGresult *wrong);

/* Any server may have answered: a value that is missing is empty. */
const char *cv__pg_value(const PGresult *rows, int row, int column);
/* A time in us, as ns that can be added to others. */
int64_t cv__pg_time_ns(const char *text);

/* For commands, which connect, ask and wait. Whatever the server does, each call ends within
 * patience_ns of the begin; only an answer that goes on coming may take longer. */
struct cv_pg_visit {
    PGconn *pg;
    int64_t patience_ns, until_ns;
    char prefix[200]; /* as above */
};

/* Connects, and asks where the tables are. To be ended also after a failure. */
CV_NODISCARD int cv__pg_visit_begin(struct cv_pg_visit *visit, const char *address,
                                    int64_t patience_ns, struct cv_errtext *reterr);

/* CV_OK: *ret_result is the last result of the script, and the caller's. Otherwise it is NULL. */
CV_NODISCARD int cv__pg_visit_ask(struct cv_pg_visit *visit, const char *script,
                                  PGresult **ret_result, struct cv_errtext *reterr);

void cv__pg_visit_end(struct cv_pg_visit *visit);

#endif
