/* src/stores/zookeeper.c - `zookeeper://host:port,.../path`: a queue of ephemeral nodes.
 *
 * A contender makes the node PATH/ELECTION/c-LABEL-ATTEMPT-NODE-SEQUENCE, which lives as long as
 * its session. The lowest sequence number holds the election; the token is the node's czxid, the
 * number of the transaction that made it. Who waits watches the node before its own only [trap
 * T12]. The label and the attempt in the name are what others call protection [T11]: who lost the
 * answer to `create` finds its node in the list. A node counts only if its owner is the present
 * session [T9, T10]; a session that expired takes its attempt with it.
 *
 * The client is the single-threaded one, driven by our loop: if the loop hangs, nothing keeps the
 * session alive behind its back [T6].
 *
 * Why a grant is safe, or for how long. Sessions are expired by the leader of the ensemble, T (the
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
 * T/3. Renewing is writing to one's own node; every T/6 a read touches the session, so that there
 * is always a touch of the right age: a grant is good for about T/2, and after it was not renewed
 * the node is removed. Successors wait for T or longer.
 *
 * An heir: whoever releases deletes, in one transaction with its own node, those that wait before
 * the heir's; they notice and queue again. A wish is a node beside the queue, meant for one token.
 */
#include "core/address.h"
#include "core/errors.h"
#include "modules/module.h"
#include "stores/remote.h"
#include "stores/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#define HOSTS_BYTES 1024
#define BASE_BYTES 128
#define NODE_NAME_BYTES (3 * CV_NODE_BYTES + 64) /* of a child */
#define PATH_BYTES (BASE_BYTES + CV_REMOTE_TEXT_BYTES + NODE_NAME_BYTES)
#define DEPOSED_MAX 24 /* nodes that wait before an heir's and can be deleted at once */
#define TOUCHES_MAX 16
#define READER_NS (10 * NS_PER_S) /* the session of one who never acquires */
#define ROUNDS_MAX 8              /* looks of one request, while others come and go */

struct op;
typedef void (*then_fn)(struct cv_store *store, const struct op *op);

/* An operation, and then its result. Results are handed out when the client has returned. */
struct op {
    struct cv_store *store;
    struct op *next;
    uint64_t epoch; /* of the store when it was asked */
    int64_t sent_ns;
    then_fn then; /* NULL: nobody waits for it */
    int rc;
    struct Stat stat;
    char path[PATH_BYTES];
    char value[CV_VALUE_BYTES];
    struct String_vector names; /* ours to free */
    zoo_op_t ops[DEPOSED_MAX + 1];
    zoo_op_result_t results[DEPOSED_MAX + 1];
    char paths[]; /* of a transaction */
};

struct box { /* a uv handle outlives its descriptor */
    uv_poll_t poll;
    struct cv_store *store;
};

/* One name in the queue, taken apart. */
struct place {
    bool is_ours; /* of this kind of name */
    uint64_t label, attempt;
    int64_t sequence;
    char node[3 * CV_NODE_BYTES]; /* escaped */
    const char *name;
};

struct cv_store {
    struct cv_remote remote;
    char hosts[HOSTS_BYTES];
    char base[BASE_BYTES];
    char election[BASE_BYTES + CV_REMOTE_TEXT_BYTES]; /* the path of the queue */
    char wish_path[PATH_BYTES];
    char node[3 * CV_NODE_BYTES]; /* escaped */
    char auth[256];
    uint32_t host_count;

    /* The session. */
    zhandle_t *zk;
    int64_t asked_ns;   /* its time-out as we want it */
    int64_t timeout_ns; /* as it is; 0: not connected yet */
    int state;          /* as last seen */
    int64_t associate_ns;
    uint32_t failure_count; /* connections that failed, since the last one that did not */
    bool was_connected, is_connected, is_expired, is_refused, is_acquirer;
    char why[128]; /* what the client said last */
    struct box *box;
    int box_fd, box_events;
    ino_t box_inode;
    uv_timer_t timer, beat;
    struct op *ready, **ready_end;
    bool is_pumping, has_news;

    /* Proofs; see above. Touches are of this connection, in order. */
    int64_t connect_ns, alive_until_ns;
    struct {
        int64_t sent_ns, answered_ns;
    } touch[TOUCHES_MAX];
    uint32_t touch_count;

    /* The attempt: zero if there is none. */
    uint64_t attempt;
    int64_t lease_ns;
    uint64_t token;           /* once it was granted */
    int64_t granted_until_ns; /* what the core believes */
    char own[PATH_BYTES];     /* the node; empty: none that we know of */
    uint64_t own_czxid;       /* of the node, as its last write showed */
    bool may_exist;           /* `create` was sent: look before it is sent again */
    int64_t since_wall_ns;
    char watched[PATH_BYTES]; /* the node before ours */

    /* The request at work. */
    uint64_t epoch; /* results of another one are ignored */
    bool is_begun;
    uint32_t round_count;
    struct cv_store_record record;
    char heir_wished[CV_NODE_BYTES];
};

/* ---- Small things -------------------------------------------------------------------------- */

static int64_t wall_now_ns(void)
{
    struct timespec now;
    const int failed = clock_gettime(CLOCK_REALTIME, &now);
    CV_ASSERT(failed == 0);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static const struct ACL_vector *acl(const struct cv_store *store)
{
    return store->auth[0] != '\0' ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

static void place_read(const char *name, struct place *ret_place)
{
    memset(ret_place, 0, sizeof *ret_place);
    ret_place->name = name;
    char *end;
    const char *last = strrchr(name, '-');
    if (strncmp(name, "c-", 2) != 0 || last == NULL) {
        return;
    }
    ret_place->label = strtoull(name + 2, &end, 16);
    if (*end != '-' || end >= last) {
        return;
    }
    ret_place->attempt = strtoull(end + 1, &end, 10);
    if (*end != '-' || end >= last) {
        return;
    }
    (void)snprintf(ret_place->node, sizeof ret_place->node, "%.*s", (int)(last - end - 1), end + 1);
    ret_place->sequence = strtoll(last + 1, NULL, 10);
    ret_place->is_ours = true;
}

static void child_path(const struct cv_store *store, const char *name, char ret_path[PATH_BYTES])
{
    const int length = snprintf(ret_path, PATH_BYTES, "%s/%s", store->election, name);
    if (length < 0 || length >= PATH_BYTES) {
        ret_path[0] = '\0'; /* nobody of ours makes such long names */
    }
}

static void write_value(struct cv_store *store, char ret_value[CV_VALUE_BYTES])
{
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    ret_value);
}

/* ---- Operations ---------------------------------------------------------------------------- */

static struct op *op_new(struct cv_store *store, then_fn then, size_t more_bytes)
{
    struct op *op = calloc(1, sizeof *op + more_bytes);
    CV_ASSERT(op != NULL); /* a few hundred bytes; a leader that stops is better than two */
    op->store = store;
    op->epoch = store->epoch;
    op->sent_ns = cv__remote_now_ns();
    op->then = then;
    return op;
}

static void op_free(struct op *op)
{
    (void)deallocate_String_vector(&op->names); /* cannot fail */
    free(op);
}

static void touch_note(struct cv_store *store, int64_t sent_ns)
{
    const int64_t now_ns = cv__remote_now_ns();
    const int64_t gap_ns = store->timeout_ns / 12;
    if (store->touch_count > 0 && store->touch[store->touch_count - 1].sent_ns + gap_ns > sent_ns) {
        return; /* the older one will be of use sooner */
    }
    if (store->touch_count == TOUCHES_MAX) {
        store->touch_count--;
        memmove(store->touch, store->touch + 1, store->touch_count * sizeof store->touch[0]);
    }
    store->touch[store->touch_count].sent_ns = sent_ns;
    store->touch[store->touch_count].answered_ns = now_ns;
    store->touch_count++;
}

static void op_done(struct op *op, int rc)
{
    struct cv_store *store = op->store;
    op->rc = rc;
    op->next = NULL;
    if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT && rc != ZSESSIONEXPIRED &&
        rc != ZCLOSING && op->sent_ns >= store->connect_ns) {
        touch_note(store, op->sent_ns);
    }
    *store->ready_end = op;
    store->ready_end = &op->next;
}

static void on_void(int rc, const void *data)
{
    op_done((struct op *)(uintptr_t)data, rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    struct op *op = (struct op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL) {
        op->stat = *stat;
    }
    op_done(op, rc);
}

static void on_data(int rc, const char *value, int value_bytes, const struct Stat *stat,
                    const void *data)
{
    struct op *op = (struct op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL) {
        op->stat = *stat;
        (void)snprintf(op->value, sizeof op->value, "%.*s", value_bytes > 0 ? value_bytes : 0,
                       value != NULL ? value : "");
    }
    op_done(op, rc);
}

static void on_made(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct op *op = (struct op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL && path != NULL) {
        op->stat = *stat;
        (void)snprintf(op->path, sizeof op->path, "%s", path);
    }
    op_done(op, rc);
}

static void on_synced(int rc, const char *path, const void *data)
{
    (void)path;
    op_done((struct op *)(uintptr_t)data, rc);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct op *op = (struct op *)(uintptr_t)data;
    if (rc == ZOK && names != NULL && allocate_String_vector(&op->names, names->count) == 0) {
        for (int i = 0; i < names->count; i++) {
            op->names.data[i] = strdup(names->data[i]);
            CV_ASSERT(op->names.data[i] != NULL); /* as in op_new() */
        }
    }
    op_done(op, rc);
}

/* If it could not even be sent, the result comes all the same. */
static void op_sent(struct op *op, int rc)
{
    if (rc != ZOK) {
        op_done(op, rc);
    }
}

static void on_node_watch(zhandle_t *zk, int type, int state, const char *path, void *user)
{
    (void)zk;
    (void)state;
    struct cv_store *store = user;
    if (type != ZOO_SESSION_EVENT) {
        store->has_news = true;
        if (path != NULL && strcmp(path, store->watched) == 0) {
            store->watched[0] = '\0';
        }
    }
}

static void list(struct cv_store *store, bool is_watching, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    op_sent(op, zoo_awget_children(store->zk, store->election, is_watching ? on_node_watch : NULL,
                                   is_watching ? store : NULL, on_names, op));
}

/* The server that we ask may be behind the others; after this, and in order, it is not. */
static void catch_up(struct cv_store *store)
{
    struct op *op = op_new(store, NULL, 0);
    op_sent(op, zoo_async(store->zk, store->election, on_synced, op));
}

/* A watch for the children of a node that can have none tells of its end only; one for the node
 * itself would also tell of every renewal. */
static void watch_end(struct cv_store *store, const char *path, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awget_children(store->zk, path, on_node_watch, store, on_names, op));
}

static void get(struct cv_store *store, const char *path, bool is_watching, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awget(store->zk, path, is_watching ? on_node_watch : NULL,
                          is_watching ? store : NULL, on_data, op));
}

static void exists(struct cv_store *store, const char *path, bool is_watching, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awexists(store->zk, path, is_watching ? on_node_watch : NULL,
                             is_watching ? store : NULL, on_stat, op));
}

static void set(struct cv_store *store, const char *path, const char *value, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    op_sent(op, zoo_aset(store->zk, path, value, (int)strlen(value), -1, on_stat, op));
}

static void remove_node(struct cv_store *store, const char *path, then_fn then)
{
    struct op *op = op_new(store, then, 0);
    op_sent(op, zoo_adelete(store->zk, path, -1, on_void, op));
}

static void make(struct cv_store *store, const char *path, const char *value, int mode,
                 then_fn then)
{
    struct op *op = op_new(store, then, 0);
    op_sent(op, zoo_acreate2(store->zk, path, value, (int)strlen(value), acl(store), mode, on_made,
                             op));
}

/* ---- The session --------------------------------------------------------------------------- */

static void begin_request(void *user);
static void pump(struct cv_store *store, int events);
static void on_timer(uv_timer_t *timer);

static _Thread_local struct cv_store *pumped; /* the client's log has no other way to us */

static void on_log(const char *message)
{
    const char *at = strstr(message, "errno=");
    if (pumped != NULL && at != NULL) {
        const int number = atoi(at + strlen("errno="));
        if (number != 0) {
            (void)snprintf(pumped->why, sizeof pumped->why, "%s", strerror(number));
        }
    }
}

static void on_session(zhandle_t *zk, int type, int state, const char *path, void *user)
{
    (void)zk;
    (void)path;
    struct cv_store *store = user;
    if (type != ZOO_SESSION_EVENT) {
        return;
    }
    store->is_expired = store->is_expired || state == ZOO_EXPIRED_SESSION_STATE;
    store->is_refused = store->is_refused || state == ZOO_AUTH_FAILED_STATE;
}

static void on_box_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void box_drop(struct cv_store *store)
{
    if (store->box != NULL) {
        store->box->store = NULL;
        uv_close((uv_handle_t *)&store->box->poll, on_box_closed);
        store->box = NULL;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct cv_store *store = ((struct box *)poll->data)->store;
    CV_ASSERT(store != NULL);                          /* a closed handle does not call */
    const int both = ZOOKEEPER_READ | ZOOKEEPER_WRITE; /* let the client find the error */
    pump(store, status < 0 ? both
                           : ((events & UV_READABLE) != 0 ? ZOOKEEPER_READ : 0) |
                                 ((events & UV_WRITABLE) != 0 ? ZOOKEEPER_WRITE : 0));
}

/* Watches the client's socket. It may be another one under the same number: hence the inode. */
static void box_watch(struct cv_store *store, int fd, int interest)
{
    struct stat now;
    const bool is_open = fd >= 0 && fstat(fd, &now) == 0;
    if (store->box != NULL && (!is_open || fd != store->box_fd || now.st_ino != store->box_inode)) {
        box_drop(store);
    }
    if (!is_open) {
        return;
    }
    if (store->box == NULL) {
        struct box *box = calloc(1, sizeof *box);
        if (box == NULL || uv_poll_init(store->remote.loop, &box->poll, fd) != 0) {
            free(box);
            return; /* the timer looks again */
        }
        box->poll.data = box;
        box->store = store;
        store->box = box;
        store->box_fd = fd;
        store->box_inode = now.st_ino;
        store->box_events = 0;
    }
    const int events = ((interest & ZOOKEEPER_READ) != 0 ? UV_READABLE : 0) |
                       ((interest & ZOOKEEPER_WRITE) != 0 ? UV_WRITABLE : 0);
    if (events != store->box_events) { /* else libuv would ask the kernel for the same again */
        store->box_events = events;
        (void)uv_poll_start(&store->box->poll, events, on_poll); /* fails for a closing one only */
    }
}

/* The attempt's node is gone, or not ours any more; whether it held the election is remembered. */
static void own_forget(struct cv_store *store)
{
    store->own[0] = '\0';
    store->watched[0] = '\0';
    store->may_exist = false;
    store->alive_until_ns = 0;
}

static void attempt_forget(struct cv_store *store)
{
    own_forget(store);
    store->attempt = 0;
    store->token = 0;
    store->granted_until_ns = 0;
    store->heir_wished[0] = '\0';
}

/* Closes the handle. With is_silent the server is not told: the session lives on for a while, and
 * all that is in it. Otherwise it ends now. */
static void session_end(struct cv_store *store, bool is_silent)
{
    if (store->zk == NULL) {
        return;
    }
    store->epoch++;
    if (is_silent && store->box != NULL) {
        (void)shutdown(store->box_fd, SHUT_RDWR);
        (void)zookeeper_process(store->zk, ZOOKEEPER_READ); /* now it knows, and says nothing */
    }
    box_drop(store);
    (void)zookeeper_close(store->zk); /* ends every operation, see on_*() */
    store->zk = NULL;
    store->is_connected = store->is_expired = store->is_refused = false;
    store->timeout_ns = 0;
    store->connect_ns = 0;
    store->touch_count = 0;
    own_forget(store);
}

static void session_begin(struct cv_store *store, int64_t timeout_ns)
{
    CV_ASSERT(store->zk == NULL);
    store->asked_ns = timeout_ns;
    store->associate_ns = cv__remote_now_ns();
    store->failure_count = 0;
    store->state = 0;
    pumped = store;
    store->zk = zookeeper_init2(store->hosts, on_session, (int)(timeout_ns / NS_PER_MS), NULL,
                                store, 0, on_log);
    if (store->zk != NULL) {
        /* Otherwise names are looked up, and waited for, whenever the client is asked anything. */
        (void)zoo_set_servers_resolution_delay(store->zk, -1); /* cannot fail */
    }
    if (store->zk != NULL && store->auth[0] != '\0') {
        (void)zoo_add_auth(store->zk, "digest", store->auth, (int)strlen(store->auth), NULL, NULL);
    }
    pumped = NULL;
}

static void on_beat(uv_timer_t *timer);

/* What became of the connection in the last call of the client. */
static void state_note(struct cv_store *store, int64_t before_ns)
{
    const int state = zoo_state(store->zk);
    if (store->state != ZOO_ASSOCIATING_STATE && store->state != ZOO_CONNECTED_STATE) {
        store->associate_ns = before_ns; /* the session is asked for after this */
    }
    if (state == ZOO_CONNECTED_STATE && !store->is_connected) {
        store->is_connected = true;
        store->failure_count = 0;
        store->timeout_ns = zoo_recv_timeout(store->zk) * NS_PER_MS;
        store->connect_ns = store->associate_ns;
        store->touch_count = 0;
        store->watched[0] = '\0';
        store->has_news = store->has_news || store->was_connected; /* we were deaf */
        store->was_connected = true;
        const uint64_t beat_ms = (uint64_t)(store->timeout_ns / 6 / NS_PER_MS);
        (void)uv_timer_start(&store->beat, on_beat, beat_ms, beat_ms);
    } else if (state != ZOO_CONNECTED_STATE && store->is_connected) {
        store->is_connected = false;
        store->touch_count = 0;
    }
    store->state = state;
}

static void request_begin_again(struct cv_store *store)
{
    if (store->remote.is_at_work && !store->is_begun && !store->remote.is_closing) {
        begin_request(store);
    }
}

/* Something was sent outside of pump(): the client may want to write. */
static void flush(struct cv_store *store)
{
    if (!store->is_pumping && !store->remote.is_closing) {
        (void)uv_timer_start(&store->timer, on_timer, 0, 0);
    }
}

/* After the client has returned: results, news and the end of sessions. Here the user may do
 * anything, so each step looks whether the store is still open. */
static void settle(struct cv_store *store)
{
    if (store->ready != NULL) {
        /* What follows may send, and then find the connection broken and close it. libuv must not
         * poll a closed descriptor: look again before it does. */
        flush(store);
    }
    while (store->ready != NULL && !store->remote.is_closing) {
        struct op *op = store->ready;
        store->ready = op->next;
        if (store->ready == NULL) {
            store->ready_end = &store->ready;
        }
        if (op->then != NULL && op->epoch == store->epoch) {
            if (op->rc == ZCONNECTIONLOSS || op->rc == ZOPERATIONTIMEOUT || op->rc == ZCLOSING ||
                op->rc == ZSESSIONEXPIRED || op->rc == ZINVALIDSTATE || op->rc == ZSESSIONMOVED) {
                store->epoch++; /* begin again when there is a connection */
                store->is_begun = false;
            } else {
                op->then(store, op);
            }
        }
        op_free(op);
    }
    if (!store->remote.is_closing && (store->is_expired || store->is_refused)) {
        const bool is_refused = store->is_refused;
        session_end(store, /* is_silent= */ true);
        store->is_begun = false;
        store->has_news = true;
        if (is_refused) {
            cv__remote_fail_all(&store->remote, "ZooKeeper refuses the credentials");
        }
    }
    if (!store->remote.is_closing && store->failure_count >= store->host_count) {
        store->failure_count = 0;
        char why[CV_REMOTE_WHY_BYTES + HOSTS_BYTES];
        (void)snprintf(why, sizeof why, "ZooKeeper %s: %s", store->hosts,
                       store->why[0] != '\0' ? store->why : "no server answers");
        store->epoch++;
        store->is_begun = false;
        cv__remote_fail_all(&store->remote, why);
    }
    if (!store->remote.is_closing && store->has_news) {
        store->has_news = false;
        cv__remote_news(&store->remote);
    }
    if (!store->remote.is_closing) {
        request_begin_again(store);
    }
}

/* Lets the client work, then asks what it waits for. */
static void pump(struct cv_store *store, int events)
{
    CV_ASSERT(!store->is_pumping);
    store->is_pumping = true;
    pumped = store;
    if (store->zk != NULL) {
        const int64_t before_ns = cv__remote_now_ns();
        const bool was_connected = store->is_connected;
        const int rc = zookeeper_process(store->zk, events);
        state_note(store, before_ns);
        store->failure_count += rc != ZOK && rc != ZNOTHING && events != 0 && !was_connected;
    }
    int fd = -1;
    int interest = 0;
    struct timeval wait = {.tv_sec = 1};
    if (store->zk != NULL && !store->is_expired && !store->is_refused) {
        const int64_t before_ns = cv__remote_now_ns();
        const int rc = zookeeper_interest(store->zk, &fd, &interest, &wait);
        state_note(store, before_ns);
        store->failure_count += rc != ZOK && rc != ZNOTHING;
        if (rc != ZOK) {
            wait = (struct timeval){.tv_usec = 20000}; /* then the next server */
        }
    }
    pumped = NULL;
    store->is_pumping = false;
    box_watch(store, fd, interest);
    const uint64_t wait_ms =
        (uint64_t)cv__max64(1, wait.tv_sec * INT64_C(1000) + wait.tv_usec / 1000);
    (void)uv_timer_start(&store->timer, on_timer, wait_ms, 0);
    settle(store);
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data, 0);
}

/* ---- Proofs -------------------------------------------------------------------------------- */

/* A write that was sent then is committed: how long does the session live at least? */
static void prove(struct cv_store *store, int64_t sent_ns)
{
    const int64_t forwarded_ns = store->timeout_ns / 3;
    int64_t heard_ns = store->connect_ns;
    for (uint32_t i = 0; i < store->touch_count; i++) {
        if (store->touch[i].answered_ns + forwarded_ns <= sent_ns) {
            heard_ns = cv__max64(heard_ns, store->touch[i].sent_ns);
        }
    }
    store->alive_until_ns = cv__max64(store->alive_until_ns, heard_ns + store->timeout_ns);
}

static void on_beat(uv_timer_t *timer)
{
    struct cv_store *store = timer->data;
    if (!store->is_connected || store->zk == NULL || !store->is_acquirer) {
        return;
    }
    const int64_t late_ns = store->timeout_ns / 3;
    if (store->token != 0 && store->own[0] != '\0' &&
        cv__remote_now_ns() > store->granted_until_ns + late_ns) {
        remove_node(store, store->own, NULL); /* the core does not renew it [T6] */
        own_forget(store);
    } else {
        exists(store, store->own[0] != '\0' ? store->own : store->election,
               /* is_watching= */ false, NULL);
    }
    flush(store);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static void work_end(struct cv_store *store)
{
    store->epoch++; /* what is still on its way is of no interest */
    store->is_begun = false;
}

static void work_fail(struct cv_store *store, int rc)
{
    work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->hosts,
                    rc == ZNOAUTH ? "no permission; see the option auth-file" : zerror(rc));
}

static void answer(struct cv_store *store, enum cv_store_verdict verdict, int64_t duration_ns)
{
    work_end(store);
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict,
                                                               .token = store->record.token,
                                                               .holder = store->record.label,
                                                               .duration_ns = duration_ns,
                                                               .record = &store->record});
}

/* ---- The queue ----------------------------------------------------------------------------- */

struct queue {
    struct place first, own, before; /* is_ours: it is there */
};

/* Sequence numbers grow with the czxid: both count what was made under this parent. */
static void queue_read(struct cv_store *store, const struct String_vector *names,
                       struct queue *ret_queue)
{
    memset(ret_queue, 0, sizeof *ret_queue);
    struct place place;
    for (int pass = 0; pass < 2; pass++) { /* ours first, then the one before it */
        for (int i = 0; i < names->count; i++) {
            place_read(names->data[i], &place);
            if (!place.is_ours) {
                continue;
            }
            const bool is_own = store->attempt != 0 && place.label == store->remote.label &&
                                place.attempt == store->attempt;
            if (pass == 0 && is_own &&
                (!ret_queue->own.is_ours || place.sequence < ret_queue->own.sequence)) {
                ret_queue->own = place;
            }
            if (pass == 0 &&
                (!ret_queue->first.is_ours || place.sequence < ret_queue->first.sequence)) {
                ret_queue->first = place;
            }
            if (pass == 1 && ret_queue->own.is_ours && place.sequence < ret_queue->own.sequence &&
                (!ret_queue->before.is_ours || place.sequence > ret_queue->before.sequence)) {
                ret_queue->before = place;
            }
        }
    }
}

/* Makes the parents, one below the other, and then begins again. */
static void on_parents(struct cv_store *store, const struct op *op)
{
    if (op->rc != ZOK && op->rc != ZNODEEXISTS) {
        work_fail(store, op->rc);
        return;
    }
    store->is_begun = false;
    request_begin_again(store);
}

static void make_parents(struct cv_store *store)
{
    if (store->round_count++ > ROUNDS_MAX) {
        work_fail(store, ZNONODE);
        return;
    }
    char path[PATH_BYTES];
    for (const char *at = store->election + 1; (at = strchr(at, '/')) != NULL; at++) {
        (void)snprintf(path, sizeof path, "%.*s", (int)(at - store->election), store->election);
        make(store, path, "", ZOO_PERSISTENT, NULL);
    }
    make(store, store->election, "", ZOO_PERSISTENT, on_parents);
}

/* ---- Acquiring ----------------------------------------------------------------------------- */

static void on_queue(struct cv_store *store, const struct op *op);
static void on_first(struct cv_store *store, const struct op *op);

static void answer_lost(struct cv_store *store)
{
    work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper: attempt %" PRIu64 " was lost before",
                    store->attempt);
}

static void on_created(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZNONODE) {
        store->epoch++; /* the list is in vain */
        make_parents(store);
        return;
    }
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    (void)snprintf(store->own, sizeof store->own, "%s", op->path);
    store->own_czxid = (uint64_t)op->stat.czxid;
    prove(store, op->sent_ns);
}

static void create(struct cv_store *store)
{
    char path[PATH_BYTES], value[CV_VALUE_BYTES];
    char name[NODE_NAME_BYTES];
    (void)snprintf(name, sizeof name, "c-%016" PRIx64 "-%" PRIu64 "-%s-", store->remote.label,
                   store->attempt, store->node);
    child_path(store, name, path);
    store->since_wall_ns = wall_now_ns();
    write_value(store, value);
    store->may_exist = true;
    make(store, path, value, ZOO_EPHEMERAL_SEQUENTIAL, on_created);
    list(store, /* is_watching= */ false, on_queue); /* in order: it sees what was made */
}

static void answer_granted(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const int64_t duration_ns = store->alive_until_ns - one->asked_ns;
    if (duration_ns < store->timeout_ns / 4) {
        work_end(store); /* the beat will have touched it when we are asked again */
        cv__remote_fail(&store->remote,
                        "ZooKeeper %s: it is not certain how long the session lives", store->hosts);
        return;
    }
    store->granted_until_ns = one->asked_ns + duration_ns;
    store->record =
        (struct cv_store_record){.label = store->remote.label,
                                 .token = store->token,
                                 .lease_ns = store->lease_ns,
                                 .remaining_ns = store->alive_until_ns - cv__remote_now_ns(),
                                 .since_wall_ns = store->since_wall_ns};
    (void)snprintf(store->record.node, sizeof store->record.node, "%s", store->remote.node);
    (void)snprintf(store->record.wish, sizeof store->record.wish, "%s", store->heir_wished);
    answer(store, CV_STORE_GRANTED, duration_ns);
}

/* The write to our own node came back. The list is on its way behind it. */
static void on_confirmed(struct cv_store *store, const struct op *op)
{
    const bool is_ours = op->rc == ZOK &&
                         op->stat.ephemeralOwner == zoo_client_id(store->zk)->client_id &&
                         (store->token == 0 || store->token == (uint64_t)op->stat.czxid);
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else if (is_ours) {
        store->own_czxid = (uint64_t)op->stat.czxid;
        prove(store, op->sent_ns);
    } else { /* gone, or left behind by a session before this one */
        if (op->rc == ZOK) {
            remove_node(store, store->own, NULL);
        }
        own_forget(store);
    }
}

static void on_wish_seen(struct cv_store *store, const struct op *op)
{
    store->heir_wished[0] = '\0';
    if (op->rc == ZOK) {
        cv__value_wish_read(op->value, strlen(op->value), store->own_czxid, store->heir_wished);
    }
}

static void on_renewed_wish(struct cv_store *store, const struct op *op)
{
    on_wish_seen(store, op);
    answer_granted(store);
}

static void on_before(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZNONODE) { /* gone already: look again */
        store->is_begun = false;
        request_begin_again(store);
        return;
    }
    if (op->rc == ZOK) {
        (void)snprintf(store->watched, sizeof store->watched, "%s", op->path);
    }
}

/* The queue as it is after our own write or creation. */
static void on_queue(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZNONODE) {
        make_parents(store);
        return;
    }
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    struct queue queue;
    queue_read(store, &op->names, &queue);
    char path[PATH_BYTES];
    for (int i = 0; i < op->names.count; i++) { /* what earlier attempts of ours left behind */
        struct place place;
        place_read(op->names.data[i], &place);
        const bool is_stale = place.is_ours && place.label == store->remote.label &&
                              place.sequence != queue.own.sequence;
        if (is_stale) {
            child_path(store, place.name, path);
            remove_node(store, path, NULL);
        }
    }
    if (store->own[0] == '\0' || !queue.own.is_ours) {
        if (store->token != 0) {
            answer_lost(store);
        } else if (queue.own
                       .is_ours) { /* made, but the answer was lost [T11]: is it this session's? */
            child_path(store, queue.own.name, store->own);
            store->is_begun = false;
            request_begin_again(store);
        } else if (store->round_count++ > ROUNDS_MAX) {
            work_fail(store, ZNONODE);
        } else {
            create(store);
        }
        return;
    }
    child_path(store, queue.first.name, path);
    if (strcmp(path, store->own) == 0) { /* first, and it stays so */
        if (store->token == 0) {
            store->token = store->own_czxid;
            store->since_wall_ns = wall_now_ns(); /* written with the next renewal */
        }
        exists(store, store->wish_path, /* is_watching= */ true, NULL);
        answer_granted(store);
        return;
    }
    char before[PATH_BYTES];
    child_path(store, queue.before.name, before);
    if (strcmp(before, store->watched) != 0) {
        watch_end(store, before, on_before);
    }
    get(store, path, /* is_watching= */ false, on_first);
}

/* HELD by whom? Its data and its czxid say so. */
static void on_first(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZNONODE) {
        store->is_begun = false;
        request_begin_again(store);
        return;
    }
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    store->record = (struct cv_store_record){.token = (uint64_t)op->stat.czxid};
    cv__value_read(op->value, strlen(op->value), &store->record);
    store->record.remaining_ns = store->record.lease_ns; /* at most: the server does not say */
    answer(store, CV_STORE_HELD, cv__max64(store->record.lease_ns, NS_PER_S));
}

static void acquire(struct cv_store *store, const struct cv_store_request *ask)
{
    if (store->attempt != ask->attempt) {
        if (store->own[0] != '\0') { /* which the new one gives up */
            remove_node(store, store->own, NULL);
        }
        attempt_forget(store);
        store->attempt = ask->attempt;
        store->lease_ns = ask->lease_ns;
    }
    if (store->own[0] != '\0') {
        char value[CV_VALUE_BYTES];
        write_value(store, value);
        set(store, store->own, value, on_confirmed);
        get(store, store->wish_path, /* is_watching= */ false, on_wish_seen);
        list(store, /* is_watching= */ false, on_queue);
    } else if (store->may_exist || store->token != 0) {
        list(store, /* is_watching= */ false, on_queue);
    } else {
        create(store);
    }
}

/* ---- Renewing, releasing, wishing, reading ------------------------------------------------------
 */

static void on_names_read(struct cv_store *store, const struct op *op)
{
    struct queue queue = {.first = {.is_ours = false}};
    if (op->rc == ZOK) {
        queue_read(store, &op->names, &queue);
    } else if (op->rc != ZNONODE) {
        work_fail(store, op->rc);
        return;
    }
    store->record = (struct cv_store_record){.token = 0};
    if (!queue.first.is_ours) {
        if (op->rc == ZNONODE) {
            exists(store, store->election, /* is_watching= */ true, NULL);
        }
        answer(store, CV_STORE_FREE, 0);
        return;
    }
    char path[PATH_BYTES];
    child_path(store, queue.first.name, path);
    get(store, path, /* is_watching= */ false, on_first);
}

/* The wish is on its way behind it, and answers. */
static void on_renewed(struct cv_store *store, const struct op *op)
{
    const bool is_ours = op->rc == ZOK &&
                         op->stat.ephemeralOwner == zoo_client_id(store->zk)->client_id &&
                         (uint64_t)op->stat.czxid == store->token;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else if (!is_ours) {
        own_forget(store);
        store->epoch++;
        list(store, /* is_watching= */ false, on_names_read);
    } else {
        prove(store, op->sent_ns);
    }
}

static void renew(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt && store->token != 0 &&
                         store->own[0] != '\0' && (ask->token == 0 || ask->token == store->token);
    if (!is_ours) {
        list(store, /* is_watching= */ false, on_names_read);
        return;
    }
    char value[CV_VALUE_BYTES];
    write_value(store, value);
    set(store, store->own, value, on_renewed);
    get(store, store->wish_path, /* is_watching= */ true, on_renewed_wish);
}

static void answer_released(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (store->attempt == one->ask.attempt) {
        attempt_forget(store);
    }
    store->record = (struct cv_store_record){.token = 0};
    answer(store, CV_STORE_FREE, 0);
}

static void on_removed(struct cv_store *store, const struct op *op)
{
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else {
        answer_released(store);
    }
}

static void on_deposed(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZOK) {
        answer_released(store);
    } else {
        remove_node(store, store->own, on_removed); /* somebody left meanwhile: no heir, then */
    }
}

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a;
    const struct place *right = b;
    return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* Deletes our node and those before the heir's in one transaction; false: there is no heir. */
static bool depose(struct cv_store *store, const struct String_vector *names, const char *heir)
{
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(heir, escaped);
    struct place *places = calloc((size_t)names->count + 1, sizeof *places);
    if (places == NULL) {
        return false;
    }
    int count = 0;
    for (int i = 0; i < names->count; i++) {
        place_read(names->data[i], &places[count]);
        count += places[count].is_ours;
    }
    qsort(places, (size_t)count, sizeof *places, compare_places);
    int heir_at = 1; /* the first one are we, or this is in vain */
    while (heir_at < count && strcmp(places[heir_at].node, escaped) != 0) {
        heir_at++;
    }
    char path[PATH_BYTES];
    child_path(store, count > 0 ? places[0].name : "", path);
    const bool is_fine = heir_at < count && heir_at <= DEPOSED_MAX && strcmp(path, store->own) == 0;
    if (is_fine) {
        struct op *op = op_new(store, on_deposed, (size_t)heir_at * PATH_BYTES);
        for (int i = 0; i < heir_at; i++) {
            char *to = op->paths + (size_t)i * PATH_BYTES;
            child_path(store, places[i].name, to);
            zoo_delete_op_init(&op->ops[i], to, -1);
        }
        op_sent(op, zoo_amulti(store->zk, heir_at, op->ops, op->results, on_void, op));
    }
    free(places);
    return is_fine;
}

static void on_release_names(struct cv_store *store, const struct op *op)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
        return;
    }
    if (store->own[0] != '\0' && one->heir[0] != '\0' && depose(store, &op->names, one->heir)) {
        return;
    }
    if (store->own[0] != '\0') {
        remove_node(store, store->own, on_removed);
        return;
    }
    char path[PATH_BYTES] = "";
    for (int i = 0; i < op->names.count; i++) {
        struct place place;
        place_read(op->names.data[i], &place);
        if (place.is_ours && place.label == store->remote.label &&
            place.attempt == one->ask.attempt) {
            child_path(store, place.name, path);
        }
    }
    if (path[0] != '\0') {
        remove_node(store, path, on_removed);
    } else {
        answer_released(store);
    }
}

static void release(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_known = store->attempt == ask->attempt && store->own[0] != '\0';
    if (is_known && ask->heir == NULL) {
        remove_node(store, store->own, on_removed);
    } else {
        list(store, /* is_watching= */ false, on_release_names);
    }
}

static void on_wish_set(struct cv_store *store, const struct op *op)
{
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    answer(store, CV_STORE_HELD, cv__max64(store->record.lease_ns, NS_PER_S));
}

static void wish_value(struct cv_store *store, char ret_value[CV_VALUE_BYTES])
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    cv__value_wish_write(store->record.token, one->heir[0] != '\0' ? one->heir : "*", ret_value);
}

static void on_wish_made(struct cv_store *store, const struct op *op)
{
    if (op->rc == ZNODEEXISTS) {
        char value[CV_VALUE_BYTES];
        wish_value(store, value);
        set(store, store->wish_path, value, on_wish_set);
    } else {
        on_wish_set(store, op);
    }
}

static void on_wish_first(struct cv_store *store, const struct op *op)
{
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    store->record = (struct cv_store_record){.token = (uint64_t)op->stat.czxid};
    cv__value_read(op->value, strlen(op->value), &store->record);
    char value[CV_VALUE_BYTES];
    wish_value(store, value);
    make(store, store->wish_path, value, ZOO_PERSISTENT, on_wish_made);
}

static void on_wish_names(struct cv_store *store, const struct op *op)
{
    struct queue queue = {.first = {.is_ours = false}};
    if (op->rc == ZOK) {
        queue_read(store, &op->names, &queue);
    } else if (op->rc != ZNONODE) {
        work_fail(store, op->rc);
        return;
    }
    store->record = (struct cv_store_record){.token = 0};
    if (!queue.first.is_ours) {
        answer(store, CV_STORE_FREE, 0);
        return;
    }
    char path[PATH_BYTES];
    child_path(store, queue.first.name, path);
    get(store, path, /* is_watching= */ false, on_wish_first);
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const bool is_acquiring = !one->is_wish && one->ask.verb == CV_STORE_ACQUIRE;
    if (store->is_begun) {
        return;
    }
    if (is_acquiring && store->zk != NULL && store->asked_ns != one->ask.lease_ns &&
        store->attempt != one->ask.attempt) {
        session_end(store, /* is_silent= */ false); /* the new attempt has another lease */
    }
    if (store->zk == NULL) {
        session_begin(store, is_acquiring ? one->ask.lease_ns : READER_NS);
        if (store->zk == NULL) {
            /* What the client says of a name that nobody knows. */
            const bool is_nowhere = errno == ENOENT;
            cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->hosts,
                            is_nowhere ? "no such host" : strerror(errno));
            return;
        }
        flush(store);
    }
    store->is_acquirer = store->is_acquirer || is_acquiring;
    if (!store->is_connected) {
        return; /* settle() comes back here */
    }
    store->is_begun = true;
    store->epoch++;
    if (store->round_count++ > ROUNDS_MAX) {
        work_fail(store, ZSYSTEMERROR);
    } else if (one->is_wish) {
        catch_up(store);
        list(store, /* is_watching= */ false, on_wish_names);
    } else if (one->ask.verb == CV_STORE_READ) {
        catch_up(store);
        list(store, /* is_watching= */ store->attempt == 0, on_names_read);
    } else if (one->ask.verb == CV_STORE_ACQUIRE) {
        acquire(store, &one->ask);
    } else if (one->ask.verb == CV_STORE_RENEW) {
        renew(store, &one->ask);
    } else {
        release(store, &one->ask);
    }
    flush(store);
}

static void begin_first(void *user)
{
    struct cv_store *store = user;
    store->round_count = 0;
    begin_request(store);
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    const bool is_asked = store->is_begun;
    work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->hosts,
                    is_asked                ? "no answer in time"
                    : store->why[0] != '\0' ? store->why
                                            : "no connection in time");
}

/* ---- The table ----------------------------------------------------------------------------- */

static void zk_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_wish= */ false);
}

static void zk_wish(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_wish= */ true);
}

static int read_hosts(struct cv_store *store, const struct cv_address *address,
                      struct cv_errtext *reterr)
{
    store->host_count = cv__address_host_count(address);
    if (store->host_count == 0) {
        return cv__fail(reterr, CV_E_INVALID, "write zookeeper://host:port[,host:port...]/path");
    }
    size_t length = 0;
    for (uint32_t i = 0; i < store->host_count; i++) {
        char host[256];
        uint32_t port;
        if (!cv__address_host(address, i, host, sizeof host, &port)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "number %u of the hosts in a zookeeper: address is not host:port",
                            (unsigned)i + 1);
        }
        const bool is_v6 = strchr(host, ':') != NULL;
        const int more = snprintf(store->hosts + length, sizeof store->hosts - length,
                                  "%s%s%s%s:%u", i > 0 ? "," : "", is_v6 ? "[" : "", host,
                                  is_v6 ? "]" : "", port != 0 ? (unsigned)port : 2181u);
        length += (size_t)more;
        if (length >= sizeof store->hosts) {
            return cv__fail(reterr, CV_E_INVALID, "too many hosts in a zookeeper: address");
        }
    }
    return CV_OK;
}

static int read_path(struct cv_store *store, const struct cv_address *address,
                     struct cv_errtext *reterr)
{
    if (!cv__address_decode(address->path, store->base, sizeof store->base)) {
        return cv__fail(reterr, CV_E_INVALID, "the path in a zookeeper: address is too long");
    }
    if (store->base[0] == '\0') {
        (void)snprintf(store->base, sizeof store->base, "/conclave");
    }
    const size_t length = strlen(store->base);
    if (store->base[length - 1] == '/') {
        store->base[length - 1] = '\0'; /* also the root alone */
    }
    if (strstr(store->base, "//") != NULL || strstr(store->base, "/.") != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the path '%s' in a zookeeper: address has an empty part or one with a dot",
                        store->base);
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(store->remote.election, escaped);
    (void)snprintf(store->election, sizeof store->election, "%s/%s", store->base, escaped);
    (void)snprintf(store->wish_path, sizeof store->wish_path, "%s/wish", store->election);
    cv__remote_escape(store->remote.node, escaped);
    CV_ASSERT(strlen(escaped) < sizeof store->node); /* three bytes for each */
    memcpy(store->node, escaped, strlen(escaped) + 1);
    return CV_OK;
}

static int read_address(struct cv_store *store, const char *text, struct cv_errtext *reterr)
{
    static const char *const known[] = {"auth-file", "tls", NULL};
    struct cv_address address;
    struct cv_span value;
    char file[256] = "";
    int code = cv__address_split(text, &address, reterr);
    code = code != CV_OK ? code : cv__address_check_options(&address, known, reterr);
    code = code != CV_OK ? code : read_hosts(store, &address, reterr);
    code = code != CV_OK ? code : read_path(store, &address, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (cv__address_option(&address, "tls", &value) && !(value.bytes == 2 && value.at[0] == 'n')) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the ZooKeeper client of this build has no TLS; use a tunnel, or tls=no");
    }
    if (address.user.bytes > 0) {
        return cv__fail(reterr, CV_E_INVALID,
                        "a zookeeper: address names no user; give user:password by "
                        "?auth-file=FILE or CONCLAVE_ZOOKEEPER_AUTH");
    }
    if (cv__address_option(&address, "auth-file", &value) &&
        (!cv__address_decode(value, file, sizeof file) || file[0] == '\0')) {
        return cv__fail(reterr, CV_E_INVALID, "option 'auth-file' is empty or too long");
    }
    code =
        cv__remote_secret(file, "CONCLAVE_ZOOKEEPER_AUTH", store->auth, sizeof store->auth, reterr);
    if (code == CV_OK && store->auth[0] != '\0' && strchr(store->auth, ':') == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "ZooKeeper's credentials are written user:password");
    }
    return code;
}

static int zk_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                   struct cv_errtext *reterr)
{
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    (void)snprintf(store->remote.election, sizeof store->remote.election, "%s", setting->election);
    (void)snprintf(store->remote.node, sizeof store->remote.node, "%s", setting->node);
    const int code = read_address(store, setting->address, reterr);
    if (code != CV_OK) {
        free(store);
        return code;
    }
    cv__remote_init(&store->remote, setting, store, begin_first, give_up);
    store->ready_end = &store->ready;
    (void)uv_timer_init(setting->loop, &store->timer); /* these two cannot fail */
    (void)uv_timer_init(setting->loop, &store->beat);
    store->timer.data = store;
    store->beat.data = store;
    *ret_store = store;
    return CV_OK;
}

static void zk_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    for (struct op *next; store->ready != NULL; store->ready = next) {
        next = store->ready->next;
        op_free(store->ready);
    }
    free(store);
    closed(closed_user);
}

static void zk_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    CV_ASSERT(!store->is_pumping); /* the user is only called from settle() */
    cv__remote_close_begin(&store->remote, closed, user);
    session_end(store, /* is_silent= */ true);
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->timer);
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->beat);
    cv__remote_close_end(&store->remote, zk_last);
}

static const struct cv_store_kind kind = {
    .scheme = "zookeeper",
    .summary = "a queue of ephemeral nodes in ZooKeeper",
    .example = "zookeeper://10.0.0.1:2181,10.0.0.2:2181/elections",
    .clock = "that of the ensemble's leader, which counts durations",
    .news = "a watch on the node before one's own",
    .lease_ns_min = 500 * NS_PER_MS,
    .lease_ns_step = NS_PER_MS,
    .grant_percent = 50,
    .open = zk_open,
    .ask = zk_ask,
    .wish = zk_wish,
    .close = zk_close,
};

CV_MODULE(kind)
