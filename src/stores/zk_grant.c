/* src/stores/zk_grant.c - acquiring and renewing in ZooKeeper: our own node, and the proof that it
 * is the first one.
 *
 * zookeeper.c says why a grant is safe. The next contender, which has only the holder's node before
 * its own, needs no write when the holder is gone, and no read either: the event that reports the
 * end of the holder's node makes it the leader. Why its own node is then the first, and exists:
 *   - Nodes created later have higher sequence numbers. So the nodes before ours can only become
 *     fewer, and a list has shown that the holder's was the only one.
 *   - Our node can disappear in two ways. One is the end of its session, which is proved to live
 *     (cv__zk_prove()). The other is a holder with an heir, which deletes the nodes between
 *     (zk_release.c). It deletes them before its own node. We watch the end of both nodes on one
 *     connection, on which events arrive in the order of the changes; each watch was answered while
 *     its node existed. So if our node was deleted, we hear of that before we hear of the holder's.
 *   - A holder of an earlier version deletes both in one transaction, whose events would come in
 *     the other order. The value of a node tells whether its contender deposes others first
 *     (cv__zk_value_is_fair()); if it does not, the queue is read.
 *   - On a new connection missed events come in any order. So what was known from events is
 *     forgotten then, and the queue is read.
 * It does not matter how late the event arrives: the grant ends when the proof of the session
 * does. */
#include "os/clock.h"
#include "stores/zk_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void cv__zk_value_write(struct cv_store *store, char ret_value[CV_VALUE_BYTES])
{
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    store->remote.version, ret_value);
    cv__value_add(ret_value, "deposes", "first");
}

bool cv__zk_value_is_fair(const char *value)
{
    return cv__value_has(value, strlen(value), "deposes", "first");
}

/* ---- Acquiring ----------------------------------------------------------------------------- */

static void on_queue_made(void *user, const struct cv_zk_op *op)
{
    if (op->rc != ZOK && op->rc != ZNODEEXISTS && op->rc != ZNONODE) {
        cv__zk_fail(user, op->rc); /* otherwise the result of `create` follows */
    }
}

/* Creates the queue. Mostly only the queue itself is missing; its parents are created, one below
 * the other, if the first try has shown that they are missing, too. False: the request is
 * answered. */
static bool make_queue(struct cv_store *store)
{
    if (store->round_count++ > CV_ZK_ROUNDS_MAX) {
        cv__zk_fail(store, ZNONODE);
        return false;
    }
    char path[CV_ZK_PATH_BYTES];
    const char *at = store->is_queue_made ? store->election + 1 : "";
    for (; (at = strchr(at, '/')) != NULL; at++) {
        (void)snprintf(path, sizeof path, "%.*s", (int)(at - store->election), store->election);
        cv__zk_make(&store->user, path, "", ZOO_PERSISTENT, NULL);
    }
    cv__zk_make(&store->user, store->election, "", ZOO_PERSISTENT, on_queue_made);
    store->is_queue_made = true;
    return true;
}

static void create(struct cv_store *store);
static void on_queue(void *user, const struct cv_zk_op *op);

/* The attempt was granted before, and is over. */
static void answer_lost(struct cv_store *store)
{
    store->record = (struct cv_store_record){.token = store->token};
    cv__zk_answer(store, CV_STORE_FREE, 0);
}

/* The number of the transaction that made our node becomes the token, and 0 is none. Only the root
 * has it. */
static int own_result(const struct cv_zk_op *op)
{
    return op->rc == ZOK && op->stat.czxid <= 0 ? ZMARSHALLINGERROR : op->rc;
}

static void on_created(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const int rc = own_result(op);
    if (rc == ZNONODE) {
        store->user.epoch++; /* drops the result of the list */
        if (make_queue(store)) {
            create(store);
        }
        return;
    }
    if (rc != ZOK) {
        cv__zk_fail(store, rc);
        return;
    }
    cv__zk_own_forget(store);
    (void)snprintf(store->own, sizeof store->own, "%s", op->path);
    store->may_exist = true;
    store->own_czxid = (uint64_t)op->stat.czxid;
    store->is_confirmed = true;
    cv__zk_prove(store->user.client, op->sent_ns);
}

static void create(struct cv_store *store)
{
    char path[CV_ZK_PATH_BYTES], value[CV_VALUE_BYTES];
    char name[CV_ZK_NAME_BYTES];
    (void)snprintf(name, sizeof name, "c-%016" PRIx64 "-%" PRIu64 "-%s-", store->remote.label,
                   store->attempt, store->node);
    cv__zk_child_path(store, name, path);
    store->since_wall_ns = cv__clock_wall_ns();
    cv__zk_value_write(store, value);
    store->may_exist = true;
    cv__zk_make(&store->user, path, value, ZOO_EPHEMERAL_SEQUENTIAL, on_created);
    cv__zk_note_ask(store);
    /* Operations are carried out in order: the list has the new node. */
    cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
}

/* How long the session certainly lives, from asked_ns on. */
static int64_t proved_left_ns(const struct cv_zk *client, int64_t asked_ns)
{
    return cv__remote_left_ns(client->alive_until_ns - client->timeout_ns, client->timeout_ns,
                              asked_ns);
}

static void answer_granted(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const int64_t proved_ns = proved_left_ns(store->user.client, one->asked_ns);
    const int64_t duration_ns = cv__min64(proved_ns, store->lease_ns); /* no more than was asked */
    if (proved_ns <= store->user.client->timeout_ns / 4) {
        cv__zk_work_end(store); /* by the next request, a beat will have touched the session */
        cv__remote_fail(&store->remote, "ZooKeeper %s: the lifetime of the session is not certain",
                        store->server->hosts);
        return;
    }
    if (store->token == 0) {
        store->token = store->own_czxid;
        store->since_wall_ns = cv__clock_wall_ns();    /* written with the next renewal, ... */
        store->remote.renews_soon = store->has_waited; /* ... which follows soon */
        if (!store->is_taken) {                        /* otherwise that reads the note first */
            cv__zk_note_begin(store);
        }
    }
    store->granted_until_ns = one->asked_ns + duration_ns;
    store->record = (struct cv_store_record){.label = store->remote.label,
                                             .token = store->token,
                                             .lease_ns = store->lease_ns,
                                             .remaining_ns = store->user.client->alive_until_ns -
                                                             cv__clock_now_ns(),
                                             .since_wall_ns = store->since_wall_ns};
    (void)snprintf(store->record.node, sizeof store->record.node, "%s", store->remote.node);
    (void)snprintf(store->record.resign_request, sizeof store->record.resign_request, "%s",
                   store->heir_requested);
    cv__zk_note_tell(store, &store->record);
    CV_ASSERT(!store->is_taken || store->has_waited);
    store->is_taken = false;
    cv__zk_answer(store, CV_STORE_GRANTED, duration_ns);
}

/* The result of the write to our own node; that of the list follows. */
static void on_confirmed(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const int rc = own_result(op);
    const bool is_ours = rc == ZOK && cv__zk_is_owner(store->user.client, &op->stat) &&
                         (store->token == 0 || store->token == (uint64_t)op->stat.czxid);
    if (rc != ZOK && rc != ZNONODE) {
        cv__zk_fail(store, rc);
    } else if (is_ours) {
        store->own_czxid = (uint64_t)op->stat.czxid;
        store->is_confirmed = true;
        cv__zk_prove(store->user.client, op->sent_ns);
    } else { /* gone, or left by an earlier session */
        if (rc == ZOK) {
            cv__zk_remove(&store->user, store->own, NULL);
        }
        cv__zk_own_forget(store);
    }
}

static void on_request_seen(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    store->heir_requested[0] = '\0';
    if (op->rc == ZOK) {
        cv__value_request_read(op->value, strlen(op->value), store->own_czxid,
                               store->heir_requested);
    }
}

static void on_renewed_request(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    on_request_seen(store, op);
    answer_granted(store);
}

static void on_before(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE) { /* gone already: look again */
        cv__zk_begin_again(store);
        return;
    }
    if (op->rc == ZOK && !cv__zk_is_passed_over(store, op)) {
        (void)snprintf(store->watched, sizeof store->watched, "%s", op->path);
        store->is_before_fair = false; /* until its value is read */
    }
}

static void on_own_watched(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    store->is_own_watched =
        op->rc == ZOK && !store->is_own_ended && strcmp(op->path, store->own) == 0 &&
        cv__zk_is_owner(store->user.client, &op->stat) && store->user.client->is_connected;
}

/* The queue as it is after our own write or creation. */
static void on_queue(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE && store->token != 0) {
        answer_lost(store);
        return;
    }
    if (op->rc == ZNONODE) { /* so our node is gone, too */
        cv__zk_own_forget(store);
        create(store);
        return;
    }
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return;
    }
    struct cv_zk_queue queue;
    cv__zk_queue_read(store, &op->names, &queue);
    char path[CV_ZK_PATH_BYTES];
    for (int i = 0; i < op->names.count; i++) { /* nodes that our earlier attempts left */
        struct cv_zk_place place;
        cv__zk_place_read(op->names.data[i], &place);
        const bool is_stale = place.is_ours && place.label == store->remote.label &&
                              (!queue.own.is_ours || place.sequence != queue.own.sequence);
        if (is_stale) {
            cv__zk_child_path(store, place.name, path);
            cv__zk_remove(&store->user, path, NULL);
        }
    }
    if (store->own[0] == '\0' || !queue.own.is_ours) {
        if (store->token != 0) {
            answer_lost(store);
        } else if (queue.own.is_ours) {
            /* It was created, but the answer was lost [traps.md T11]: is it this session's? */
            cv__zk_child_path(store, queue.own.name, store->own);
            store->is_confirmed = false;
            cv__zk_begin_again(store);
        } else if (store->round_count++ > CV_ZK_ROUNDS_MAX) {
            cv__zk_fail(store, ZNONODE);
        } else {
            create(store);
        }
        return;
    }
    cv__zk_child_path(store, queue.first.name, path);
    if (strcmp(path, store->own) == 0) { /* first, and it stays so */
        CV_ASSERT(store->is_confirmed);
        store->is_next = false;
        cv__zk_exists(&store->user, store->request_path, /* is_watching= */ true, NULL);
        answer_granted(store);
        return;
    }
    char before[CV_ZK_PATH_BYTES];
    cv__zk_child_path(store, queue.before.name, before);
    store->is_next = strcmp(before, path) == 0;
    store->is_taken = store->is_first = false;
    store->has_waited = true;
    if (store->is_next && !store->is_own_watched) {
        cv__zk_watch_end(&store->user, store->own, on_own_watched);
    }
    if (strcmp(before, store->watched) != 0) {
        store->watched[0] = '\0'; /* only events about the node before ours count */
        cv__zk_watch_end(&store->user, before, on_before);
    }
    cv__zk_note_look(store);
    cv__zk_get(&store->user, path, /* is_watching= */ false, cv__zk_on_first);
}

/* Is it proved, without another write, that our node will exist for a while? */
static bool is_proved(struct cv_store *store)
{
    const struct cv_zk *client = store->user.client;
    const int64_t proved_ns = proved_left_ns(client, cv__remote_current(&store->remote)->asked_ns);
    return store->is_next && store->is_confirmed && store->token == 0 &&
           proved_ns > client->timeout_ns / 4;
}

/* The next contender whose session is proved to live needs at most a list in which its node is the
 * first. Its node can also disappear when a holder with an heir deletes the nodes between; but it
 * deletes its own node later or in the same transaction, and an older list would still have that as
 * the first. So it does not matter if the server that made the list lags behind. If an event has
 * said that it is first, it needs no list: see the head of this file. */
void cv__zk_acquire(struct cv_store *store, const struct cv_store_request *ask)
{
    if (store->attempt != ask->attempt) {
        cv__zk_give_up(store, ask->reason); /* the earlier one */
        store->attempt = ask->attempt;
        store->lease_ns = ask->lease_ns;
    }
    store->is_taken = store->own[0] != '\0' && is_proved(store);
    if (store->is_taken && store->is_first) {
        store->is_next = store->is_first = false;
        store->is_request_unwatched = true;
        answer_granted(store);
    } else if (store->is_taken) {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
    } else if (store->own[0] != '\0') {
        char value[CV_VALUE_BYTES];
        cv__zk_value_write(store, value);
        cv__zk_set(&store->user, store->own, value, on_confirmed);
        cv__zk_get(&store->user, store->request_path, /* is_watching= */ false, on_request_seen);
        cv__zk_note_ask(store);
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
    } else if (store->may_exist || store->token != 0) {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
    } else {
        create(store);
    }
}

/* ---- Renewing ------------------------------------------------------------------------------ */

/* The result of reading the resign request follows, and answers. */
static void on_renewed(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const int rc = own_result(op);
    const bool is_ours = rc == ZOK && cv__zk_is_owner(store->user.client, &op->stat) &&
                         (uint64_t)op->stat.czxid == store->token;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
    } else if (!is_ours) {
        cv__zk_own_forget(store);
        store->user.epoch++;
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, cv__zk_on_names_read);
    } else {
        cv__zk_prove(store->user.client, op->sent_ns);
    }
}

void cv__zk_renew(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt && store->token != 0 &&
                         store->own[0] != '\0' && (ask->token == 0 || ask->token == store->token);
    if (!is_ours) {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, cv__zk_on_names_read);
        return;
    }
    char value[CV_VALUE_BYTES];
    cv__zk_value_write(store, value);
    cv__zk_set(&store->user, store->own, value, on_renewed);
    cv__zk_note_ask(store);
    if (store->is_request_unwatched) { /* `exists` also watches for a node that is not there yet */
        store->is_request_unwatched = false;
        cv__zk_exists(&store->user, store->request_path, /* is_watching= */ true, NULL);
    }
    cv__zk_get(&store->user, store->request_path, /* is_watching= */ true, on_renewed_request);
}
