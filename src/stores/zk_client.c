/* src/stores/zk_client.c - see zk_client.h. */
#include "stores/zk_client.h"

#include "os/clock.h"

#include <errno.h>
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

static struct cv_zk_op *op_new(struct cv_zk *client, cv_zk_then then, size_t more_bytes)
{
    struct cv_zk_op *op = calloc(1, sizeof *op + more_bytes);
    CV_ASSERT(op != NULL); /* a few hundred bytes; a leader that stops is better than two */
    op->client = client;
    op->epoch = client->epoch;
    op->sent_ns = cv__clock_now_ns();
    op->then = then;
    return op;
}

static void op_free(struct cv_zk_op *op)
{
    (void)deallocate_String_vector(&op->names); /* cannot fail */
    free(op);
}

static void touch_note(struct cv_zk *client, int64_t sent_ns)
{
    const int64_t now_ns = cv__clock_now_ns();
    const int64_t gap_ns = client->timeout_ns / 12;
    if (client->touch_count > 0 &&
        client->touch[client->touch_count - 1].sent_ns + gap_ns > sent_ns) {
        return; /* the older one will be of use sooner */
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

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct cv_zk_op *op = (struct cv_zk_op *)(uintptr_t)data;
    if (rc == ZOK && names != NULL && allocate_String_vector(&op->names, names->count) == 0) {
        for (int i = 0; i < names->count; i++) {
            op->names.data[i] = strdup(names->data[i]);
            CV_ASSERT(op->names.data[i] != NULL); /* as in op_new() */
        }
    }
    op_done(op, rc);
}

/* If it could not even be sent, the result comes all the same. */
static void op_sent(struct cv_zk_op *op, int rc)
{
    if (rc != ZOK) {
        op_done(op, rc);
    }
}

static void on_node_watch(zhandle_t *zk, int type, int state, const char *path, void *user)
{
    (void)zk;
    (void)state;
    struct cv_zk *client = user;
    if (type != ZOO_SESSION_EVENT) {
        client->has_news = true;
        client->hooks->watched(client->store, path != NULL ? path : "");
    }
}

void cv__zk_list(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    op_sent(op, zoo_awget_children(client->zk, path, is_watching ? on_node_watch : NULL,
                                   is_watching ? client : NULL, on_names, op));
}

void cv__zk_catch_up(struct cv_zk *client, const char *path)
{
    struct cv_zk_op *op = op_new(client, NULL, 0);
    op_sent(op, zoo_async(client->zk, path, on_synced, op));
}

/* A watch for the children of a node that can have none tells of its end only; one for the node
 * itself would also tell of every renewal. */
void cv__zk_watch_end(struct cv_zk *client, const char *path, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awget_children(client->zk, path, on_node_watch, client, on_names, op));
}

void cv__zk_get(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awget(client->zk, path, is_watching ? on_node_watch : NULL,
                          is_watching ? client : NULL, on_data, op));
}

void cv__zk_exists(struct cv_zk *client, const char *path, bool is_watching, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    (void)snprintf(op->path, sizeof op->path, "%s", path);
    op_sent(op, zoo_awexists(client->zk, path, is_watching ? on_node_watch : NULL,
                             is_watching ? client : NULL, on_stat, op));
}

void cv__zk_set(struct cv_zk *client, const char *path, const char *value, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    op_sent(op, zoo_aset(client->zk, path, value, (int)strlen(value), -1, on_stat, op));
}

void cv__zk_remove(struct cv_zk *client, const char *path, cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    op_sent(op, zoo_adelete(client->zk, path, -1, on_void, op));
}

void cv__zk_make(struct cv_zk *client, const char *path, const char *value, int mode,
                 cv_zk_then then)
{
    struct cv_zk_op *op = op_new(client, then, 0);
    op_sent(op, zoo_acreate2(client->zk, path, value, (int)strlen(value),
                             client->auth[0] != '\0' ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE,
                             mode, on_made, op));
}

void cv__zk_remove_all(struct cv_zk *client, const char *paths, uint32_t count, cv_zk_then then)
{
    CV_ASSERT(count > 0 && count <= CV_ZK_DELETES_MAX);
    const size_t bytes = (size_t)count * CV_ZK_PATH_BYTES;
    struct cv_zk_op *op = op_new(client, then, bytes);
    memcpy(op->paths, paths, bytes);
    for (uint32_t i = 0; i < count; i++) {
        zoo_delete_op_init(&op->ops[i], op->paths + (size_t)i * CV_ZK_PATH_BYTES, -1);
    }
    op_sent(op, zoo_amulti(client->zk, (int)count, op->ops, op->results, on_void, op));
}

bool cv__zk_is_owner(const struct cv_zk *client, const struct Stat *stat)
{
    return stat->ephemeralOwner == zoo_client_id(client->zk)->client_id;
}

/* ---- The session --------------------------------------------------------------------------- */

static void pump(struct cv_zk *client, int events);
static void on_timer(uv_timer_t *timer);

static _Thread_local struct cv_zk *pumped; /* the client's log has no other way to us */

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

/* Watches the client's socket. It may be another one under the same number: hence the inode. */
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
            return; /* the timer looks again */
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

void cv__zk_session_end(struct cv_zk *client, bool is_silent)
{
    if (client->zk == NULL) {
        return;
    }
    client->epoch++;
    if (is_silent && client->box != NULL) {
        (void)shutdown(client->box_fd, SHUT_RDWR);
        (void)zookeeper_process(client->zk, ZOOKEEPER_READ); /* now it knows, and says nothing */
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

bool cv__zk_session_begin(struct cv_zk *client, int64_t timeout_ns)
{
    CV_ASSERT(client->zk == NULL);
    client->asked_ns = timeout_ns;
    client->associate_ns = cv__clock_now_ns();
    client->failure_count = 0;
    client->state = 0;
    pumped = client;
    client->zk = zookeeper_init2(client->hosts, on_session, (int)(timeout_ns / NS_PER_MS), NULL,
                                 client, 0, on_log);
    if (client->zk != NULL) {
        /* Otherwise names are looked up, and waited for, whenever the client is asked anything. */
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

/* What became of the connection in the last call of the client. */
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
        client->hooks->connected(client->store);
        client->has_news = client->has_news || client->was_connected; /* we were deaf */
        client->was_connected = true;
        const uint64_t beat_ms = (uint64_t)(client->timeout_ns / 6 / NS_PER_MS);
        (void)uv_timer_start(&client->beat, on_beat, beat_ms, beat_ms);
    } else if (state != ZOO_CONNECTED_STATE && client->is_connected) {
        client->is_connected = false;
        client->touch_count = 0;
    }
    client->state = state;
}

void cv__zk_flush(struct cv_zk *client)
{
    if (!client->is_pumping && !client->is_closing) {
        (void)uv_timer_start(&client->timer, on_timer, 0, 0);
    }
}

/* After the client has returned: results, news and the end of sessions. Here the user may do
 * anything, so each step looks whether the store is still open. */
static void settle(struct cv_zk *client)
{
    if (client->ready != NULL) {
        /* What follows may send, and then find the connection broken and close it. libuv must not
         * poll a closed descriptor: look again before it does. */
        cv__zk_flush(client);
    }
    while (client->ready != NULL && !client->is_closing) {
        struct cv_zk_op *op = client->ready;
        client->ready = op->next;
        if (client->ready == NULL) {
            client->ready_end = &client->ready;
        }
        if (op->then != NULL && op->epoch == client->epoch) {
            if (op->rc == ZCONNECTIONLOSS || op->rc == ZOPERATIONTIMEOUT || op->rc == ZCLOSING ||
                op->rc == ZSESSIONEXPIRED || op->rc == ZINVALIDSTATE || op->rc == ZSESSIONMOVED) {
                client->epoch++;
                client->hooks->broken(client->store);
            } else {
                op->then(client->store, op);
            }
        }
        op_free(op);
    }
    if (!client->is_closing && (client->is_expired || client->is_refused)) {
        const bool is_refused = client->is_refused;
        cv__zk_session_end(client, /* is_silent= */ true);
        client->has_news = true;
        client->hooks->ended(client->store);
        if (is_refused) {
            client->hooks->unreachable(client->store, "ZooKeeper refuses the credentials");
        }
    }
    if (!client->is_closing && client->failure_count >= client->host_count) {
        client->failure_count = 0;
        char why[CV_REMOTE_WHY_BYTES + CV_ZK_HOSTS_BYTES];
        (void)snprintf(why, sizeof why, "ZooKeeper %s: %s", client->hosts,
                       client->why[0] != '\0' ? client->why : "no server answers");
        client->epoch++;
        client->hooks->unreachable(client->store, why);
    }
    if (!client->is_closing && client->has_news) {
        client->has_news = false;
        client->hooks->changed(client->store);
    }
    if (!client->is_closing) {
        client->hooks->turn(client->store);
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
            wait = (struct timeval){.tv_usec = 20000}; /* then the next server */
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

static void on_beat(uv_timer_t *timer)
{
    struct cv_zk *client = timer->data;
    if (client->is_connected) {
        client->hooks->beat(client->store);
    }
}

/* ---- Opening and closing ------------------------------------------------------------------- */

void cv__zk_init(struct cv_zk *client, uv_loop_t *loop, struct cv_store *store,
                 const struct cv_zk_hooks *hooks)
{
    client->loop = loop;
    client->store = store;
    client->hooks = hooks;
    client->ready_end = &client->ready;
    (void)uv_timer_init(loop, &client->timer); /* these two cannot fail */
    (void)uv_timer_init(loop, &client->beat);
    client->timer.data = client;
    client->beat.data = client;
}

void cv__zk_close(struct cv_zk *client, struct cv_remote *remote)
{
    CV_ASSERT(!client->is_pumping); /* the user is only called from settle() */
    client->is_closing = true;
    cv__zk_session_end(client, /* is_silent= */ true);
    cv__remote_close_handle(remote, (uv_handle_t *)&client->timer);
    cv__remote_close_handle(remote, (uv_handle_t *)&client->beat);
}

void cv__zk_fini(struct cv_zk *client)
{
    for (struct cv_zk_op *next; client->ready != NULL; client->ready = next) {
        next = client->ready->next;
        op_free(client->ready);
    }
}
