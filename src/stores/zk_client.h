/* src/stores/zk_client.h - ZooKeeper's single-threaded client on a libuv loop: one session, its
 * operations, and what is known about how long it lives.
 *
 * Operations are sent in the order of the calls and answered in that order. Their results are
 * handed out when the client has returned, so that whoever hears them may do anything, even close.
 * A result that belongs to an earlier epoch is dropped.
 *
 * How long does a session live? Sessions are expired by the leader of the ensemble, T (the
 * negotiated time-out) or more after it last heard that somebody touched them. Asking any server
 * touches the session there, but that server tells the leader only when the leader pings it, every
 * half tick; if it loses the leader before, the touch is lost. So an answer proves nothing about
 * the leader, and even a write only shows that the session had not expired when the leader ordered
 * it. What is proved:
 *   - Connecting. New sessions, and old ones on a new connection, are confirmed by the leader,
 * which counts from there: T since before the connection was asked for.
 *   - A touch that was answered at least F before a write was sent, on the same connection, if that
 *     write is committed. The server tells the leader of touches and hands on writes through one
 *     ordered channel; if the leader has pinged it in those F, the touch was heard before the
 * write: T since before the touch was sent. F is T/3. By default no session is shorter than two
 * ticks, so half a tick is T/4 or less; the rest is for delays of the leader's pings. What it
 * assumes is just this: that the leader pings a server that it serves writes for at least every
 * T/3. */
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
typedef void (*cv_zk_then)(struct cv_store *store, const struct cv_zk_op *op);

/* An operation, and then its result. */
struct cv_zk_op {
    struct cv_zk *client;
    struct cv_zk_op *next;
    uint64_t epoch; /* of the client when it was asked */
    int64_t sent_ns;
    cv_zk_then then; /* NULL: nobody waits for it */
    int rc;
    struct Stat stat;
    char path[CV_ZK_PATH_BYTES];
    char value[CV_VALUE_BYTES];
    struct String_vector names; /* ours to free */
    zoo_op_t ops[CV_ZK_DELETES_MAX];
    zoo_op_result_t results[CV_ZK_DELETES_MAX];
    char paths[]; /* of a transaction */
};

/* What the client tells its store, always from the loop. */
struct cv_zk_hooks {
    void (*connected)(struct cv_store *store); /* again or for the first time; no watch is left */
    void (*broken)(struct cv_store *store);    /* an operation of this epoch came to nothing */
    void (*ended)(struct cv_store *store);     /* the session, and all its ephemeral nodes */
    void (*unreachable)(struct cv_store *store, const char *why); /* all servers were tried */
    void (*changed)(struct cv_store *store); /* something that is watched, or we were deaf */
    void (*turn)(struct cv_store *store);    /* everything else is told */
    void (*beat)(struct cv_store *store);    /* every T/6 while connected */
    void (*watched)(struct cv_store *store, const char *path); /* what changed; nothing more yet */
};

/* Invariant: is_connected only with a handle, and then timeout_ns > 0. */
struct cv_zk {
    struct cv_store *store; /* lent to the hooks */
    const struct cv_zk_hooks *hooks;
    uv_loop_t *loop;
    char hosts[CV_ZK_HOSTS_BYTES];
    uint32_t host_count;
    char auth[256]; /* user:password; empty: none */

    zhandle_t *zk;      /* NULL: no session */
    int64_t asked_ns;   /* its time-out as we want it */
    int64_t timeout_ns; /* as it is */
    bool is_connected;
    uint64_t epoch;
    char why[128]; /* the system's last word on why there is no connection */

    int state; /* as last seen */
    int64_t associate_ns;
    uint32_t failure_count; /* connections that failed, since the last one that did not */
    bool was_connected, is_expired, is_refused, is_pumping, has_news, is_closing;
    struct box *box;
    int box_fd, box_events;
    ino_t box_inode;
    uv_timer_t timer, beat;
    struct cv_zk_op *ready, **ready_end;

    /* Proofs. Touches are of this connection, in order. */
    int64_t connect_ns, alive_until_ns;
    struct {
        int64_t sent_ns, answered_ns;
    } touch[CV_ZK_TOUCHES_MAX];
    uint32_t touch_count;
};

/* Hosts and credentials are filled in by the caller, the rest is zero. */
void cv__zk_init(struct cv_zk *client, uv_loop_t *loop, struct cv_store *store,
                 const struct cv_zk_hooks *hooks);

/* False: errno says why. Names of hosts are looked up here, and waited for. */
bool cv__zk_session_begin(struct cv_zk *client, int64_t timeout_ns);

/* With is_silent the server is not told: the session lives on for a while, and all that is in it.
 */
void cv__zk_session_end(struct cv_zk *client, bool is_silent);

/* The session, silently; then closes the timers through `remote`. cv__zk_fini() is for the end. */
void cv__zk_close(struct cv_zk *client, struct cv_remote *remote);
void cv__zk_fini(struct cv_zk *client);

/* To be called after operations were asked for, unless from within `then`. */
void cv__zk_flush(struct cv_zk *client);

/* A write that was sent then is committed: prolongs alive_until_ns by what that proves. */
void cv__zk_prove(struct cv_zk *client, int64_t sent_ns);

bool cv__zk_is_owner(const struct cv_zk *client, const struct Stat *stat);

void cv__zk_list(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_get(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_exists(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then);
void cv__zk_set(struct cv_zk *client, const char *path, const char *value, cv_zk_then then);
void cv__zk_remove(struct cv_zk *client, const char *path, cv_zk_then then);
void cv__zk_make(struct cv_zk *client, const char *path, const char *value, int mode,
                 cv_zk_then then);
/* Watches for the end of an ephemeral node, and for nothing else that happens to it. */
void cv__zk_watch_end(struct cv_zk *client, const char *path, cv_zk_then then);
/* What is asked next is answered by a server that is not behind the others. */
void cv__zk_catch_up(struct cv_zk *client, const char *path);
/* All of them or none: paths are CV_ZK_PATH_BYTES apart. */
void cv__zk_remove_all(struct cv_zk *client, const char *paths, uint32_t count, cv_zk_then then);

#endif
