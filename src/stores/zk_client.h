/* src/stores/zk_client.h - ZooKeeper's single-threaded client on a libuv loop: one session that
 * several elections use, its operations, and how long it lives for certain.
 *
 * Operations are sent and answered in the order of the calls. Their results are delivered after the
 * client has returned, so that the receiving user may do anything, even leave. A result of an
 * earlier epoch of its user, or of a user that has left, is dropped.
 *
 * A session has one time-out, so elections with different lease lengths have different sessions:
 * the time-out of a shared one would be too short for some and would keep the nodes of others for
 * too long. The end of a session affects all its users. A node whose user has left, or did not
 * renew it, must not live on with the session: it is removed as an orphan, repeatedly until a list
 * of the queue shows that it is gone.
 *
 * How long does a session live? The leader of the ensemble expires a session at the earliest T (the
 * negotiated time-out) after it last heard of a touch. A request to any server touches the session
 * there, but that server tells the leader only when the leader pings it, every half tick; if it
 * loses the leader before, the touch is lost. So an answer proves nothing about the leader, and
 * even a write only shows that the session had not expired when the leader ordered it. Two things
 * are proof:
 *   - Connecting. The leader confirms new sessions, and old ones on a new connection, and counts
 *     from there: T since before the connection was requested.
 *   - A touch that was answered at least F before a write was sent, on the same connection, if that
 *     write is committed. The server reports touches and forwards writes to the leader through one
 *     ordered channel; if the leader has pinged it in those F, the leader heard of the touch before
 *     the write: T since before the touch was sent. F is T/3. By default no session is shorter than
 *     two ticks, so half a tick is T/4 or less; the rest allows for delays of the leader's pings.
 *     This assumes only that the leader pings a server whose writes it handles at least every T/3.
 */
#ifndef CV_STORES_ZK_CLIENT_H
#define CV_STORES_ZK_CLIENT_H

#include "stores/remote.h"
#include "stores/value.h"

#include <sys/types.h>
#include <zookeeper/zookeeper.h>

#define CV_ZK_HOSTS_BYTES 1024
#define CV_ZK_BASE_BYTES 128
#define CV_ZK_NAME_BYTES (3 * CV_NODE_BYTES + 64) /* of a child in the queue */
#define CV_ZK_PATH_BYTES (CV_ZK_BASE_BYTES + CV_REMOTE_TEXT_BYTES + CV_ZK_NAME_BYTES)
#define CV_ZK_DELETES_MAX 25 /* in one transaction */
#define CV_ZK_TOUCHES_MAX 16

struct cv_zk_op;
typedef void (*cv_zk_then)(void *store, const struct cv_zk_op *op);

/* An operation, and then its result. */
struct cv_zk_op {
    struct cv_zk *client;
    struct cv_zk_op *next, *all_next, **all_at;
    struct cv_zk_user *user; /* NULL: it has left, or there never was one */
    struct cv_zk_orphan *orphan;
    uint64_t epoch; /* of the user when it was asked */
    int64_t sent_ns;
    cv_zk_then then; /* NULL: nobody waits for it */
    bool is_proof;   /* a write whose only use is cv__zk_prove() */
    int rc;
    struct Stat stat;
    char path[CV_ZK_PATH_BYTES];
    char value[CV_VALUE_BYTES];
    char *text;                 /* a value that is longer than that; otherwise NULL */
    struct String_vector names; /* ours to free */
    struct cv_zk_removal *removal;
    struct cv_zk_exchange *exchange;
};

/* What the client reports to its users, always from the loop. */
struct cv_zk_hooks {
    void (*connected)(void *store); /* again or for the first time; no watch is left */
    void (*broken)(void *store);    /* an operation of this epoch was lost */
    void (*ended)(void *store);     /* the session has ended, with all its ephemeral nodes */
    void (*unreachable)(void *store, const char *why); /* all servers were tried */
    void (*changed)(void *store); /* something watched has changed, or a change was missed */
    void (*turn)(void *store);    /* `waits` is over: it may begin */
    void (*beat)(void *store);    /* every T/6 while connected; may only ask for operations */
    /* Something happened to a watched node; is_end: it was deleted. Events are in the order of the
     * changes, on one connection. Does this concern the user? Only answers. */
    bool (*watched)(void *store, const char *path, bool is_end);
};

/* One election on a session, embedded in its store. */
struct cv_zk_user {
    struct cv_zk_user *next;
    struct cv_zk *client; /* NULL: none yet */
    void *store;          /* lent to the hooks */
    const struct cv_zk_hooks *hooks;
    uint64_t epoch;
    uint32_t awaited_count; /* operations of any epoch whose results it asked for */
    bool waits;             /* for its turn: see cv__zk_may_begin() */
    bool has_changed, is_broken, is_ended, is_cut; /* to be told */
};

/* Invariant: is_connected only with a handle, and then timeout_ns > 0. */
struct cv_zk {
    struct cv_zk *next; /* of the server's sessions */
    struct cv_zk_user *users;
    uv_loop_t *loop;
    const char *hosts; /* lent by the server, as is auth */
    const char *auth;  /* user:password; empty: none */
    uint32_t host_count;

    zhandle_t *zk;      /* NULL: no session */
    int64_t asked_ns;   /* the time-out that we ask for */
    int64_t timeout_ns; /* as it was negotiated */
    bool is_connected;
    bool is_cut_told; /* the operator knows that it is shorter than what we ask for */
    char why[128];    /* the last system error, if there is no connection */

    int state; /* as last seen */
    int64_t associate_ns;
    uint32_t failure_count; /* failed connections since the last successful one */
    bool was_connected, is_expired, is_refused, is_pumping, is_closing;
    struct box *box;
    int box_fd, box_events;
    ino_t box_inode;
    uv_timer_t timer, beat;
    uint32_t handle_count; /* closing: how many are still open */
    struct cv_zk_op *ready, **ready_end, *all;
    struct cv_zk_orphan *orphans;

    /* Proofs. Touches are of this connection, in order. */
    int64_t connect_ns, alive_until_ns;
    struct {
        int64_t sent_ns, answered_ns;
    } touch[CV_ZK_TOUCHES_MAX];
    uint32_t touch_count;
};

/* NULL: out of memory. */
struct cv_zk *cv__zk_new(uv_loop_t *loop, const char *hosts, uint32_t host_count, const char *auth,
                         int64_t timeout_ns);

/* Ends the session without telling the server, so the session and its nodes live on for a while.
 * The client is freed on the loop. */
void cv__zk_free(struct cv_zk *client);

/* Begins the session if there is none. False: errno says why. Looks up the names of hosts, and
 * blocks for that. */
bool cv__zk_session_begin(struct cv_zk *client);

/* Store and hooks of `user` are set before. Leaving drops results that are still on their way. */
void cv__zk_join(struct cv_zk *client, struct cv_zk_user *user);
void cv__zk_leave(struct cv_zk_user *user);

/* Nodes below `queue` whose names begin with `name` are removed, but not before until_ns. */
struct cv_zk_orphan {
    struct cv_zk_orphan *next;
    int64_t until_ns;
    bool is_asked;
    char queue[CV_ZK_PATH_BYTES];
    char name[CV_ZK_NAME_BYTES];
};
void cv__zk_orphan_add(struct cv_zk *client, struct cv_zk_orphan *orphan); /* takes it */

/* Is there a connection, and is no operation of this user under way? Otherwise the user sets
 * `waits`, and `turn` is called when it may begin. A slow server would become slower with each
 * request that is repeated while the first one waits there. */
bool cv__zk_may_begin(const struct cv_zk_user *user);

/* Between true and false, what operations send is kept, and then sent at once. The client library
 * sends each length on its own: the server would wake up for these four bytes. */
void cv__zk_gather(struct cv_zk *client, bool is_gathering);

/* Call it after starting operations, except from within `then`. */
void cv__zk_flush(struct cv_zk *client);

/* A write that was sent then is committed: extends alive_until_ns as far as that proves. */
void cv__zk_prove(struct cv_zk *client, int64_t sent_ns);

/* Writes to a node of this session for the sake of that proof. Nobody waits for it. */
void cv__zk_keep(struct cv_zk *client, const char *path, const char *value);

bool cv__zk_is_owner(const struct cv_zk *client, const struct Stat *stat);

void cv__zk_list(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_get(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_exists(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_set(struct cv_zk_user *user, const char *path, const char *value, cv_zk_then then);
void cv__zk_remove(struct cv_zk_user *user, const char *path, cv_zk_then then);
void cv__zk_make(struct cv_zk_user *user, const char *path, const char *value, int mode,
                 cv_zk_then then);
/* Watches for the end of an ephemeral node, and for nothing else that happens to it. The result has
 * its stat. */
void cv__zk_watch_end(struct cv_zk_user *user, const char *path, cv_zk_then then);
/* Makes the server catch up with the ensemble's leader before it answers the next operations. */
void cv__zk_catch_up(struct cv_zk_user *user, const char *path);
/* Removes all of them or none; paths are CV_ZK_PATH_BYTES apart. None if the node `guard` does not
 * exist (NULL: no condition). In the same transaction a text, shorter than CV_VALUE_NOTE_BYTES, is
 * written to the node `noted`; NULL: no text. */
void cv__zk_remove_all(struct cv_zk_user *user, const char *paths, uint32_t count,
                       const char *guard, const char *noted, const char *text, cv_zk_then then);

/* Writes a text (shorter than CV_STORE_RUNS_BYTES) to the node at `path` if the node `guard`
 * exists, in one transaction. `version` is the expected one; -1: the node is created. */
void cv__zk_write_if(struct cv_zk_user *user, const char *guard, const char *path, const char *text,
                     int version, cv_zk_then then);

#endif
