/* src/stores/zk_client.c - see zk_client.h. */
#include "stores/zk_client.h"

#include "os/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct box { /* a uv handle outlives its descriptor */
    uv_poll_t poll;
    struct cv_zk *client; /* NULL: no longer wanted */
};

/* ---- Operations ---------------------------------------------------------------------------- */

/* The operands of a transaction. */
struct cv_zk_removal {
    zoo_op_t ops[CV_ZK_DELETES_MAX + 2];
    zoo_op_result_t results[CV_ZK_DELETES_MAX + 2];
    char paths[CV_ZK_DELETES_MAX][CV_ZK_PATH_BYTES];
    char guard[CV_ZK_PATH_BYTES], noted[CV_ZK_PATH_BYTES], text[CV_VALUE_NOTE_BYTES];
};

struct cv_zk_exchange {
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    char guard[CV_ZK_PATH_BYTES], path[CV_ZK_PATH_BYTES], text[CV_STORE_RUNS_BYTES];
};

static struct cv_zk_op *op_of(struct cv_zk *client)
{
    struct cv_zk_op *op = calloc(1, sizeof *op);
    if (op != NULL) {
        op->client = client;
        op->sent_ns = cv__clock_now_ns();
        op->all_next = client->all;
        op->all_at = &client->all;
        if (op->all_next != NULL) {
            op->all_next->all_at = &op->all_next;
        }
        client->all = op;
    }
    return op;
}

/* NULL: out of memory; the request is begun again. */
static struct cv_zk_op *op_new(struct cv_zk_user *user, cv_zk_then then)
{
    struct cv_zk_op *op = op_of(user->client);
    if (op == NULL) {
        user->is_broken = true;
        return NULL;
    }
    op->user = user;
    op->epoch = user->epoch;
    op->then = then;
    user->awaited_count += then != NULL;
    return op;
}

static void op_free(struct cv_zk_op *op)
{
    if (op->user != NULL && op->then != NULL) {
        CV_ASSERT(op->user->awaited_count > 0);
        op->user->awaited_count--;
    }
    *op->all_at = op->all_next;
    if (op->all_next != NULL) {
        op->all_next->all_at = op->all_at;
    }
    (void)deallocate_String_vector(&op->names); /* cannot fail */
    free(op->removal);
    free(op->exchange);
    free(op->text);
    free(op);
}

static void touch_note(struct cv_zk *client, int64_t sent_ns)
{
    const int64_t now_ns = cv__clock_now_ns();
    const int64_t gap_ns = client->timeout_ns / 12;
    if (client->touch_count > 0 &&
        client->touch[client->touch_count - 1].sent_ns + gap_ns > sent_ns) {
        return; /* the older one can be used sooner */
    }
    if (client->touch_count == CV_ZK_TOUCHES_MAX) {
        client->touch_count--;
        memmove(client->touch, client->touch + 1, client->touch_count * sizeof client->touch[0]);
    }
    client->touch[client->touch_count].sent_ns = sent_ns;
    client->touch[client->touch_count].answered_ns = now_ns;
    client->touch_count++;
}

static void op_done(struct cv_zk_op *op, int rc)
{
    struct cv_zk *client = op->client;
    op->rc = rc;
    op->next = NULL;
    if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT && rc != ZSESSIONEXPIRED &&
        rc != ZCLOSING && op->sent_ns >= client->connect_ns) {
        touch_note(client, op->sent_ns);
    }
    *client->ready_end = op;
    client->ready_end = &op->next;
}

static void on_void(int rc, const void *data)
{
    op_done((struct cv_zk_op *)(uintptr_t)data, rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    struct cv_zk_op *op = (struct cv_zk_op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL) {
        op->stat = *stat;
    }
    op_done(op, rc);
}

static void on_data(int rc, const char *value, int value_bytes, const struct Stat *stat,
                    const void *data)
{
    struct cv_zk_op *op = (struct cv_zk_op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL) {
        op->stat = *stat;
        (void)snprintf(op->value, sizeof op->value, "%.*s", value_bytes > 0 ? value_bytes : 0,
                       value != NULL ? value : "");
    }
    if (rc == ZOK && value != NULL && value_bytes >= (int)sizeof op->value) {
        op->text = strndup(value, (size_t)value_bytes);
        rc = op->text != NULL ? ZOK : ZSYSTEMERROR;
    }
    op_done(op, rc);
}

static void on_made(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct cv_zk_op *op = (struct cv_zk_op *)(uintptr_t)data;
    if (rc == ZOK && stat != NULL && path != NULL) {
        op->stat = *stat;
        (void)snprintf(op->path, sizeof op->path, "%s", path);
    }
    op_done(op, rc);
}

static void on_synced(int rc, const char *path, const void *data)
{
    (void)path;
    op_done((struct cv_zk_op *)(uintptr_t)data, rc);
}

static void on_names_stat(int rc, const struct String_vector *names, const struct Stat *stat,
                          const void *data)
{
    (void)names;
    on_stat(rc, stat, data);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct cv_zk_op *op = (struct cv_zk_op *)(uintptr_t)data;
    bool is_whole = true;
    if (rc == ZOK && names != NULL && names->count > 0) {
        is_whole = allocate_String_vector(&op->names, names->count) == 0 && op->names.data != NULL;
        for (int i = 0; is_whole && i < names->count; i++) {
            op->names.data[i] = strdup(names->data[i]);
            is_whole = op->names.data[i] != NULL;
        }
    }
    op_done(op, is_whole ? rc : ZSYSTEMERROR);
}

/* If the operation could not be sent, its result is delivered all the same. */
static void op_sent(struct cv_zk_op *op, int rc)
{
    if (rc != ZOK) {
        op_done(op, rc);
    }
}

static void on_node_watch(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    (void)zk;
    (void)state;
    struct cv_zk *client = context;
    if (type == ZOO_SESSION_EVENT || path == NULL) {
        return;
    }
    /* After a new connection, missed events come in any order: none counts before `connected`. */
    const bool is_end = type == ZOO_DELETED_EVENT && client->is_connected;
    for (struct cv_zk_user *user = client->users; user != NULL; user = user->next) {
        user->has_changed = user->hooks->watched(user->store, path, is_end) || user->has_changed;
    }
}

void cv__zk_list(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        op_sent(op, zoo_awget_children(user->client->zk, path, is_watching ? on_node_watch : NULL,
                                       user->client, on_names, op));
    }
}

void cv__zk_catch_up(struct cv_zk_user *user, const char *path)
{
    struct cv_zk_op *op = op_new(user, NULL);
    if (op != NULL) {
        op_sent(op, zoo_async(user->client->zk, path, on_synced, op));
    }
}

/* A watch on the children of a node that can have none reports only its end; a watch on the node
 * itself would also report every renewal. */
void cv__zk_watch_end(struct cv_zk_user *user, const char *path, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        (void)snprintf(op->path, sizeof op->path, "%s", path);
        op_sent(op, zoo_awget_children2(user->client->zk, path, on_node_watch, user->client,
                                        on_names_stat, op));
    }
}

void cv__zk_get(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        (void)snprintf(op->path, sizeof op->path, "%s", path);
        op_sent(op, zoo_awget(user->client->zk, path, is_watching ? on_node_watch : NULL,
                              user->client, on_data, op));
    }
}

void cv__zk_exists(struct cv_zk_user *user, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        (void)snprintf(op->path, sizeof op->path, "%s", path);
        op_sent(op, zoo_awexists(user->client->zk, path, is_watching ? on_node_watch : NULL,
                                 user->client, on_stat, op));
    }
}

void cv__zk_set(struct cv_zk_user *user, const char *path, const char *value, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        op_sent(op, zoo_aset(user->client->zk, path, value, (int)strlen(value), -1, on_stat, op));
    }
}

void cv__zk_remove(struct cv_zk_user *user, const char *path, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        op_sent(op, zoo_adelete(user->client->zk, path, -1, on_void, op));
    }
}

static const struct ACL_vector *acl_of(const struct cv_zk *client)
{
    return client->auth[0] != '\0' ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

void cv__zk_make(struct cv_zk_user *user, const char *path, const char *value, int mode,
                 cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op != NULL) {
        op_sent(op, zoo_acreate2(user->client->zk, path, value, (int)strlen(value),
                                 acl_of(user->client), mode, on_made, op));
    }
}

void cv__zk_remove_all(struct cv_zk_user *user, const char *paths, uint32_t count,
                       const char *guard, const char *noted, const char *text, cv_zk_then then)
{
    CV_ASSERT(count > 0 && count <= CV_ZK_DELETES_MAX);
    struct cv_zk_op *op = op_new(user, then);
    if (op == NULL) {
        return;
    }
    op->removal = calloc(1, sizeof *op->removal);
    if (op->removal == NULL) {
        op_done(op, ZSYSTEMERROR);
        return;
    }
    struct cv_zk_removal *r = op->removal;
    int op_count = 0;
    if (guard != NULL) {
        (void)snprintf(r->guard, sizeof r->guard, "%s", guard);
        zoo_check_op_init(&r->ops[op_count++], r->guard, -1);
    }
    memcpy(r->paths, paths, (size_t)count * CV_ZK_PATH_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        zoo_delete_op_init(&r->ops[op_count++], r->paths[i], -1);
    }
    if (noted != NULL) {
        (void)snprintf(r->noted, sizeof r->noted, "%s", noted);
        (void)snprintf(r->text, sizeof r->text, "%s", text);
        zoo_set_op_init(&r->ops[op_count++], r->noted, r->text, (int)strlen(r->text), -1, NULL);
    }
    op_sent(op, zoo_amulti(user->client->zk, op_count, r->ops, r->results, on_void, op));
}

void cv__zk_write_if(struct cv_zk_user *user, const char *guard, const char *path, const char *text,
                     int version, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(user, then);
    if (op == NULL) {
        return;
    }
    if (guard[0] == '\0') { /* it does not exist any more; the client library frees an empty path */
        op_done(op, ZNONODE);
        return;
    }
    struct cv_zk_exchange *e = op->exchange = calloc(1, sizeof *e);
    if (e == NULL) {
        op_done(op, ZSYSTEMERROR);
        return;
    }
    (void)snprintf(e->guard, sizeof e->guard, "%s", guard);
    (void)snprintf(e->path, sizeof e->path, "%s", path);
    (void)snprintf(e->text, sizeof e->text, "%s", text);
    zoo_check_op_init(&e->ops[0], e->guard, -1);
    if (version < 0) {
        zoo_create_op_init(&e->ops[1], e->path, e->text, (int)strlen(e->text), acl_of(user->client),
                           ZOO_PERSISTENT, NULL, 0);
    } else {
        zoo_set_op_init(&e->ops[1], e->path, e->text, (int)strlen(e->text), version, NULL);
    }
    op_sent(op, zoo_amulti(user->client->zk, 2, e->ops, e->results, on_void, op));
}

bool cv__zk_is_owner(const struct cv_zk *client, const struct Stat *stat)
{
    return stat->ephemeralOwner == zoo_client_id(client->zk)->client_id;
}

/* ---- The session --------------------------------------------------------------------------- */

static void pump(struct cv_zk *client, int events);
static void on_timer(uv_timer_t *timer);

static _Thread_local struct cv_zk *pumped; /* the log callback of the client has no context */

static void on_log(const char *message)
{
    const char *at = strstr(message, "errno=");
    if (pumped != NULL && at != NULL) {
        const int number = atoi(at + strlen("errno="));
        /* A server that wants TLS closes the connection when it hears something else. */
        const bool may_be_tls = number == ECONNRESET && !pumped->was_connected;
        if (number != 0) {
            (void)snprintf(
                pumped->why, sizeof pumped->why, "%s%s", strerror(number),
                may_be_tls ? "; if it is a TLS port: this client has no TLS, use a tunnel" : "");
        }
    }
}

static void on_session(zhandle_t *zk, int type, int state, const char *path, void *user)
{
    (void)zk;
    (void)path;
    struct cv_zk *client = user;
    if (type != ZOO_SESSION_EVENT) {
        return;
    }
    client->is_expired = client->is_expired || state == ZOO_EXPIRED_SESSION_STATE;
    client->is_refused = client->is_refused || state == ZOO_AUTH_FAILED_STATE;
}

static void on_box_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void box_drop(struct cv_zk *client)
{
    if (client->box != NULL) {
        client->box->client = NULL;
        uv_close((uv_handle_t *)&client->box->poll, on_box_closed);
        client->box = NULL;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct cv_zk *client = ((struct box *)poll->data)->client;
    CV_ASSERT(client != NULL);                         /* a closed handle does not call */
    const int both = ZOOKEEPER_READ | ZOOKEEPER_WRITE; /* let the client find the error */
    pump(client, status < 0 ? both
                            : ((events & UV_READABLE) != 0 ? ZOOKEEPER_READ : 0) |
                                  ((events & UV_WRITABLE) != 0 ? ZOOKEEPER_WRITE : 0));
}

/* Watches the client's socket. A new socket may have the same number, so the inode is compared. */
static void box_watch(struct cv_zk *client, int fd, int interest)
{
    struct stat now;
    const bool is_open = fd >= 0 && fstat(fd, &now) == 0;
    if (client->box != NULL &&
        (!is_open || fd != client->box_fd || now.st_ino != client->box_inode)) {
        box_drop(client);
    }
    if (!is_open) {
        return;
    }
    if (client->box == NULL) {
        struct box *box = calloc(1, sizeof *box);
        if (box == NULL || uv_poll_init(client->loop, &box->poll, fd) != 0) {
            free(box);
            return; /* the timer tries again */
        }
        box->poll.data = box;
        box->client = client;
        client->box = box;
        client->box_fd = fd;
        client->box_inode = now.st_ino;
        client->box_events = 0;
    }
    const int events = ((interest & ZOOKEEPER_READ) != 0 ? UV_READABLE : 0) |
                       ((interest & ZOOKEEPER_WRITE) != 0 ? UV_WRITABLE : 0);
    if (events != client->box_events) { /* else libuv would ask the kernel for the same again */
        client->box_events = events;
        (void)uv_poll_start(&client->box->poll, events, on_poll); /* fails for a closing one only */
    }
}

/* The server is not told: the session and its nodes live on for a while. */
static void session_end(struct cv_zk *client)
{
    if (client->zk == NULL) {
        return;
    }
    for (struct cv_zk_user *user = client->users; user != NULL; user = user->next) {
        user->epoch++;
    }
    if (client->box != NULL) {
        (void)shutdown(client->box_fd, SHUT_RDWR);
        (void)zookeeper_process(client->zk, ZOOKEEPER_READ); /* now it does not try to send */
    }
    box_drop(client);
    (void)zookeeper_close(client->zk); /* ends every operation, see on_*() */
    client->zk = NULL;
    client->is_connected = client->is_expired = client->is_refused = false;
    client->timeout_ns = 0;
    client->connect_ns = 0;
    client->touch_count = 0;
    client->alive_until_ns = 0;
}

bool cv__zk_session_begin(struct cv_zk *client)
{
    if (client->zk != NULL) {
        return true;
    }
    client->associate_ns = cv__clock_now_ns();
    client->failure_count = 0;
    client->state = 0;
    pumped = client;
    client->zk = zookeeper_init2(client->hosts, on_session, (int)(client->asked_ns / NS_PER_MS),
                                 NULL, client, 0, on_log);
    if (client->zk != NULL) {
        /* Otherwise the client looks up names, and waits for them, in every call. */
        (void)zoo_set_servers_resolution_delay(client->zk, -1); /* cannot fail */
    }
    if (client->zk != NULL && client->auth[0] != '\0') {
        (void)zoo_add_auth(client->zk, "digest", client->auth, (int)strlen(client->auth), NULL,
                           NULL);
    }
    pumped = NULL;
    return client->zk != NULL;
}

static void on_beat(uv_timer_t *timer);

/* Notes what happened to the connection in the last call of the client. */
static void state_note(struct cv_zk *client, int64_t before_ns)
{
    const int state = zoo_state(client->zk);
    if (client->state != ZOO_ASSOCIATING_STATE && client->state != ZOO_CONNECTED_STATE) {
        client->associate_ns = before_ns; /* the session is asked for after this */
    }
    if (state == ZOO_CONNECTED_STATE && !client->is_connected) {
        client->is_connected = true;
        client->failure_count = 0;
        client->timeout_ns = zoo_recv_timeout(client->zk) * NS_PER_MS;
        client->connect_ns = client->associate_ns;
        client->touch_count = 0;
        for (struct cv_zk_user *user = client->users; user != NULL; user = user->next) {
            user->hooks->connected(user->store);
            user->has_changed = user->has_changed || client->was_connected; /* may have missed it */
        }
        client->was_connected = true;
        /* More often than needed if the server chose a longer time-out than we asked for. */
        const int64_t beat_ns = cv__min64(client->timeout_ns, client->asked_ns) / 6;
        const uint64_t beat_ms = (uint64_t)cv__max64(beat_ns / NS_PER_MS, 1);
        (void)uv_timer_start(&client->beat, on_beat, beat_ms, beat_ms);
    } else if (state != ZOO_CONNECTED_STATE && client->is_connected) {
        client->is_connected = false;
        client->touch_count = 0;
    }
    client->state = state;
}

bool cv__zk_may_begin(const struct cv_zk_user *user)
{
    return user->client->is_connected && user->awaited_count == 0;
}

void cv__zk_gather(struct cv_zk *client, bool is_gathering)
{
    const int is_corked = is_gathering;
    if (!client->is_closing && client->box != NULL) { /* else there is nothing to send to */
        (void)setsockopt(client->box_fd, IPPROTO_TCP, TCP_CORK, &is_corked, sizeof is_corked);
    }
}

void cv__zk_flush(struct cv_zk *client)
{
    if (!client->is_pumping && !client->is_closing) {
        (void)uv_timer_start(&client->timer, on_timer, 0, 0);
    }
}

/* ---- Reports to the users ------------------------------------------------------------------ */

static void op_tell(struct cv_zk_op *op)
{
    struct cv_zk_user *user = op->user;
    if (user == NULL || op->then == NULL || op->epoch != user->epoch) {
        return;
    }
    switch (op->rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZCLOSING:
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
    case ZSESSIONMOVED:
        user->is_broken = true;
        break;
    default:
        op->then(user->store, op);
        break;
    }
}

static void orphan_told(struct cv_zk *client, struct cv_zk_op *op);

static void tell_results(struct cv_zk *client)
{
    while (client->ready != NULL && !client->is_closing) {
        struct cv_zk_op *op = client->ready;
        client->ready = op->next;
        if (client->ready == NULL) {
            client->ready_end = &client->ready;
        }
        if (op->orphan != NULL) {
            orphan_told(client, op);
        } else if (op->is_proof) {
            if (op->rc == ZOK && cv__zk_is_owner(client, &op->stat)) {
                cv__zk_prove(client, op->sent_ns);
            }
        } else {
            op_tell(op);
        }
        op_free(op);
    }
}

/* A user that has something to be told. It may leave then, and others with it: search anew. */
static struct cv_zk_user *user_to_tell(const struct cv_zk *client)
{
    struct cv_zk_user *user = client->users;
    while (user != NULL && !user->has_changed && !user->is_broken && !user->is_ended &&
           !user->is_cut && !(user->waits && cv__zk_may_begin(user))) {
        user = user->next;
    }
    return user;
}

static void user_tell(struct cv_zk_user *user, const char *why)
{
    if (user->is_broken) {
        user->is_broken = false;
        user->epoch++;
        user->waits = true;
        user->hooks->broken(user->store);
    } else if (user->is_ended) {
        user->is_ended = false;
        user->hooks->ended(user->store);
    } else if (user->is_cut) {
        user->is_cut = false;
        user->epoch++;
        user->hooks->unreachable(user->store, why);
    } else if (user->has_changed) {
        user->has_changed = false;
        user->hooks->changed(user->store);
    } else {
        user->waits = false;
        user->hooks->turn(user->store);
    }
}

/* After the client has returned: results, notifications and the end of sessions. Here the users may
 * do anything, so each step checks whether the client is still open. */
static void settle(struct cv_zk *client)
{
    if (client->ready != NULL) {
        /* What follows may send, and then find the connection broken and close it. libuv must not
         * poll a closed descriptor: check again before it does. */
        cv__zk_flush(client);
    }
    tell_results(client);
    if (client->is_closing) {
        return;
    }
    char why[CV_REMOTE_WHY_BYTES + CV_ZK_HOSTS_BYTES] = "ZooKeeper refuses the credentials";
    const bool is_refused = client->is_refused;
    const bool is_over = client->is_expired || is_refused;
    if (is_over) {
        session_end(client);
    }
    const bool is_cut = client->failure_count >= client->host_count;
    if (is_cut) {
        client->failure_count = 0;
        (void)snprintf(why, sizeof why, "ZooKeeper %s: %s", client->hosts,
                       client->why[0] != '\0' ? client->why : "no server answers");
    }
    for (struct cv_zk_user *user = client->users; user != NULL; user = user->next) {
        user->is_ended = user->is_ended || is_over;
        user->has_changed = user->has_changed || is_over;
        user->is_cut = user->is_cut || is_cut || is_refused;
    }
    for (struct cv_zk_user *user; !client->is_closing && (user = user_to_tell(client)) != NULL;) {
        user_tell(user, why);
    }
}

/* Lets the client work, then asks what it waits for. */
static void pump(struct cv_zk *client, int events)
{
    CV_ASSERT(!client->is_pumping);
    client->is_pumping = true;
    pumped = client;
    if (client->zk != NULL) {
        const int64_t before_ns = cv__clock_now_ns();
        const bool was_connected = client->is_connected;
        const int rc = zookeeper_process(client->zk, events);
        state_note(client, before_ns);
        client->failure_count += rc != ZOK && rc != ZNOTHING && events != 0 && !was_connected;
    }
    int fd = -1;
    int interest = 0;
    struct timeval wait = {.tv_sec = 1};
    if (client->zk != NULL && !client->is_expired && !client->is_refused) {
        const int64_t before_ns = cv__clock_now_ns();
        const int rc = zookeeper_interest(client->zk, &fd, &interest, &wait);
        state_note(client, before_ns);
        client->failure_count += rc != ZOK && rc != ZNOTHING;
        if (rc != ZOK) {
            wait = (struct timeval){.tv_usec = 20000}; /* then try the next server */
        }
    }
    pumped = NULL;
    client->is_pumping = false;
    box_watch(client, fd, interest);
    const uint64_t wait_ms =
        (uint64_t)cv__max64(1, wait.tv_sec * INT64_C(1000) + wait.tv_usec / 1000);
    (void)uv_timer_start(&client->timer, on_timer, wait_ms, 0);
    settle(client);
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data, 0);
}

/* ---- Proofs -------------------------------------------------------------------------------- */

void cv__zk_prove(struct cv_zk *client, int64_t sent_ns)
{
    const int64_t forwarded_ns = client->timeout_ns / 3;
    int64_t heard_ns = client->connect_ns;
    for (uint32_t i = 0; i < client->touch_count; i++) {
        if (client->touch[i].answered_ns + forwarded_ns <= sent_ns) {
            heard_ns = cv__max64(heard_ns, client->touch[i].sent_ns);
        }
    }
    client->alive_until_ns = cv__max64(client->alive_until_ns, heard_ns + client->timeout_ns);
}

void cv__zk_keep(struct cv_zk *client, const char *path, const char *value)
{
    struct cv_zk_op *op = op_of(client);
    if (op != NULL) {
        op->is_proof = true;
        op_sent(op, zoo_aset(client->zk, path, value, (int)strlen(value), -1, on_stat, op));
    }
}

/* A read that touches the session, so that there is always a touch of the right age. */
static void touch_send(struct cv_zk *client)
{
    struct cv_zk_op *op = op_of(client);
    if (op != NULL) {
        op_sent(op, zoo_awexists(client->zk, "/", NULL, NULL, on_stat, op));
    }
}

/* ---- Orphans ------------------------------------------------------------------------------- */

static void orphan_free(struct cv_zk *client, struct cv_zk_orphan *orphan)
{
    struct cv_zk_orphan **at = &client->orphans;
    while (*at != orphan) {
        at = &(*at)->next;
    }
    *at = orphan->next;
    free(orphan);
}

/* The list of its queue came: its nodes in the list are removed, and it is listed once more. */
static void orphan_told(struct cv_zk *client, struct cv_zk_op *op)
{
    struct cv_zk_orphan *orphan = op->orphan;
    bool is_left = false;
    orphan->is_asked = false;
    for (int i = 0; op->rc == ZOK && i < op->names.count; i++) {
        if (strncmp(op->names.data[i], orphan->name, strlen(orphan->name)) == 0) {
            char path[CV_ZK_PATH_BYTES];
            const int length =
                snprintf(path, sizeof path, "%s/%s", orphan->queue, op->names.data[i]);
            struct cv_zk_op *removal =
                length > 0 && (size_t)length < sizeof path ? op_of(client) : NULL;
            if (removal != NULL) {
                op_sent(removal, zoo_adelete(client->zk, path, -1, on_void, removal));
            }
            is_left = true;
        }
    }
    if ((op->rc == ZOK && !is_left) || op->rc == ZNONODE || op->rc == ZNOAUTH) {
        orphan_free(client, orphan);
    }
}

static void orphans_ask(struct cv_zk *client)
{
    const int64_t now_ns = cv__clock_now_ns();
    for (struct cv_zk_orphan *orphan = client->orphans; orphan != NULL; orphan = orphan->next) {
        struct cv_zk_op *op =
            !orphan->is_asked && orphan->until_ns <= now_ns ? op_of(client) : NULL;
        if (op != NULL) {
            op->orphan = orphan;
            orphan->is_asked = true;
            op_sent(op, zoo_aget_children(client->zk, orphan->queue, 0, on_names, op));
        }
    }
}

void cv__zk_orphan_add(struct cv_zk *client, struct cv_zk_orphan *orphan)
{
    orphan->is_asked = false;
    orphan->next = client->orphans;
    client->orphans = orphan;
    if (client->is_connected) {
        orphans_ask(client);
        cv__zk_flush(client);
    }
}

/* ---- Beats --------------------------------------------------------------------------------- */

static void on_beat(uv_timer_t *timer)
{
    struct cv_zk *client = timer->data;
    if (!client->is_connected) {
        return;
    }
    touch_send(client);
    orphans_ask(client);
    for (struct cv_zk_user *user = client->users; user != NULL; user = user->next) {
        user->hooks->beat(user->store);
    }
    cv__zk_flush(client);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

struct cv_zk *cv__zk_new(uv_loop_t *loop, const char *hosts, uint32_t host_count, const char *auth,
                         int64_t timeout_ns)
{
    struct cv_zk *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    client->loop = loop;
    client->hosts = hosts;
    client->host_count = host_count;
    client->auth = auth;
    client->asked_ns = timeout_ns;
    client->ready_end = &client->ready;
    (void)uv_timer_init(loop, &client->timer); /* these two cannot fail */
    (void)uv_timer_init(loop, &client->beat);
    client->timer.data = client;
    client->beat.data = client;
    return client;
}

static void on_closed(uv_handle_t *handle)
{
    struct cv_zk *client = handle->data;
    client->handle_count--;
    if (client->handle_count > 0) {
        return;
    }
    while (client->all != NULL) {
        op_free(client->all);
    }
    while (client->orphans != NULL) {
        orphan_free(client, client->orphans);
    }
    free(client);
}

void cv__zk_free(struct cv_zk *client)
{
    CV_ASSERT(!client->is_pumping); /* users are only called from settle() */
    CV_ASSERT(client->users == NULL);
    client->is_closing = true;
    session_end(client);
    client->handle_count = 2;
    uv_close((uv_handle_t *)&client->timer, on_closed);
    uv_close((uv_handle_t *)&client->beat, on_closed);
}

void cv__zk_join(struct cv_zk *client, struct cv_zk_user *user)
{
    CV_ASSERT(user->client == NULL);
    user->client = client;
    user->waits = user->has_changed = user->is_broken = user->is_ended = user->is_cut = false;
    user->next = client->users;
    client->users = user;
}

void cv__zk_leave(struct cv_zk_user *user)
{
    struct cv_zk *client = user->client;
    struct cv_zk_user **at = &client->users;
    while (*at != user) {
        at = &(*at)->next;
    }
    *at = user->next;
    for (struct cv_zk_op *op = client->all; op != NULL; op = op->all_next) {
        op->user = op->user == user ? NULL : op->user;
    }
    user->client = NULL;
    user->awaited_count = 0;
    user->epoch++;
}
