/* src/stores/zookeeper.c - `zookeeper://host:port,.../path`: a queue of ephemeral nodes.
 *
 * A contender makes the node PATH/ELECTION/c-LABEL-ATTEMPT-NODE-SEQUENCE, which lives as long as
 * its session. The lowest sequence number holds the election; the token is the node's czxid, the
 * number of the transaction that made it. A waiting contender watches the node before its own only
 * [traps.md T12]. The label and the attempt in the name are what others call protection [traps.md
 * T11]: a contender that lost the answer to `create` finds its node in the list. A node counts only
 * if its owner is the present session [traps.md T9, T10]; a session that expired takes its attempts
 * with it.
 *
 * All elections of a loop on the same servers with the same credentials and lease length share one
 * session. The client is the single-threaded one, driven by the loop: if that hangs, nothing keeps
 * the session alive behind its back [traps.md T6].
 *
 * Why a grant is safe: the node lives as long as the session, and zk_client.h derives how long that
 * is for certain, from all that its users do. Renewing is writing to one's own node, which also
 * shows that it is there and ours; every T/6 a read touches the session, so that there is always a
 * touch of the right age. A grant is good for about T/2, and never for more than was asked.
 * Successors wait for T. What other elections do in the same session changes nothing of this; two
 * contenders of the same election have nodes of their own, and one of them is first.
 *
 * Whoever is next in the queue writes to its node at each T/6, so that it can take over after one
 * read, see acquire().
 *
 * The session may live on for other elections. So a node that is not renewed in time is removed,
 * a third of T after the end that the core was told, and so is the node of a store that was closed,
 * at that end: both as orphans, see zk_client.h. From then on the attempt is lost, even if its node
 * is still there. */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/zk_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READER_NS (10 * NS_PER_S) /* the session of an election that is only read */
#define ROUNDS_MAX 8              /* looks of one request, while others come and go */

static void write_value(struct cv_store *store, char ret_value[CV_VALUE_BYTES])
{
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    store->remote.version, ret_value);
}

/* ---- What the client tells ------------------------------------------------------------------ */

static void begin_request(void *user);

/* The attempt's node is gone, or not ours any more; whether it held the election is remembered. */
static void own_forget(struct cv_store *store)
{
    store->own[0] = '\0';
    store->watched[0] = '\0';
    store->may_exist = store->is_confirmed = store->is_next = store->is_taken = false;
}

void cv__zk_attempt_forget(struct cv_store *store, enum cv_reason why)
{
    if (store->token != 0) {
        store->lost = (struct cv_store_end){.token = store->token, .why = why};
    }
    own_forget(store);
    store->attempt = 0;
    store->token = 0;
    store->granted_until_ns = 0;
    store->heir_requested[0] = '\0';
    store->note = (struct cv_zk_note){.token = 0};
}

static void request_begin_again(struct cv_store *store)
{
    if (store->remote.is_at_work && !store->is_begun && !store->remote.is_closing) {
        begin_request(store);
    }
}

void cv__zk_begin_again(struct cv_store *store)
{
    store->is_begun = false;
    request_begin_again(store);
}

/* The node of this attempt, if there is one, shall go at that time. Takes the orphan. */
static void own_orphan(struct cv_store *store, struct cv_zk_orphan *orphan, int64_t until_ns)
{
    orphan->until_ns = until_ns;
    (void)snprintf(orphan->queue, sizeof orphan->queue, "%s", store->election);
    (void)snprintf(orphan->name, sizeof orphan->name, "c-%016" PRIx64 "-%" PRIu64 "-",
                   store->remote.label, store->attempt);
    cv__zk_orphan_add(store->user.client, orphan);
    own_forget(store);
}

/* Takes back a grant that the core does not renew [traps.md T6]; and whoever is next proves that
 * its session lives, see acquire(). */
static void on_beat(void *user)
{
    struct cv_store *store = user;
    if (store->is_next && store->is_confirmed && store->token == 0) {
        char value[CV_VALUE_BYTES];
        write_value(store, value);
        cv__zk_keep(store->user.client, store->own, value);
    }
    const int64_t late_ns = store->user.client->timeout_ns / 3;
    if (store->token == 0 || store->own[0] == '\0' ||
        cv__clock_now_ns() <= store->granted_until_ns + late_ns) {
        return;
    }
    struct cv_zk_orphan *orphan = calloc(1, sizeof *orphan);
    if (orphan != NULL) { /* otherwise at the next beat */
        own_orphan(store, orphan, 0);
    }
}

static bool on_watched(void *user, const char *path)
{
    struct cv_store *store = user;
    const size_t length = strlen(store->election);
    if (strncmp(path, store->election, length) != 0 ||
        (path[length] != '\0' && path[length] != '/')) {
        return false;
    }
    if (strcmp(path, store->watched) == 0) {
        store->watched[0] = '\0';
    }
    return true;
}

static void on_connected(void *user)
{
    struct cv_store *store = user;
    store->watched[0] = '\0';
    store->stranger_count = 0;
}

/* It begins again when there is a connection. */
static void on_broken(void *user)
{
    struct cv_store *store = user;
    store->is_begun = false;
}

static void on_ended(void *user)
{
    struct cv_store *store = user;
    store->is_begun = false;
    own_forget(store);
    request_begin_again(store); /* with a new session */
}

static void on_unreachable(void *user, const char *why)
{
    struct cv_store *store = user;
    store->is_begun = false;
    cv__remote_fail_all(&store->remote, why);
}

static void on_changed(void *user)
{
    struct cv_store *store = user;
    cv__remote_notify(&store->remote);
}

static void on_turn(void *user)
{
    request_begin_again(user);
}

static const struct cv_zk_hooks hooks = {.connected = on_connected,
                                         .broken = on_broken,
                                         .ended = on_ended,
                                         .unreachable = on_unreachable,
                                         .changed = on_changed,
                                         .turn = on_turn,
                                         .beat = on_beat,
                                         .watched = on_watched};

/* ---- Answers ------------------------------------------------------------------------------- */

void cv__zk_work_end(struct cv_store *store)
{
    store->user.epoch++; /* what is still on its way is of no interest */
    store->user.waits = false;
    store->is_begun = false;
}

void cv__zk_fail(struct cv_store *store, int rc)
{
    cv__zk_work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                    rc == ZNOAUTH ? "no permission; see the option auth-file" : zerror(rc));
}

void cv__zk_answer(struct cv_store *store, enum cv_store_verdict verdict, int64_t duration_ns)
{
    cv__zk_work_end(store);
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict,
                                                               .token = store->record.token,
                                                               .holder = store->record.label,
                                                               .duration_ns = duration_ns,
                                                               .record = &store->record});
}

/* Is this node, which was looked at, no contender's, because it would outlive its session? Then the
 * request is begun again without it, or has failed. */
static bool is_passed_over(struct cv_store *store, const struct cv_zk_op *op)
{
    const char *name = strrchr(op->path, '/');
    if (op->rc != ZOK || op->stat.ephemeralOwner != 0 || name == NULL) {
        return false;
    }
    if (store->stranger_count == CV_ZK_STRANGERS_MAX) {
        cv__zk_work_end(store);
        cv__remote_fail(&store->remote,
                        "ZooKeeper: more than %d nodes below %s look like contenders and are not "
                        "ephemeral; remove them",
                        CV_ZK_STRANGERS_MAX, store->election);
        return true;
    }
    (void)snprintf(store->strangers[store->stranger_count++], CV_ZK_NAME_BYTES, "%s", name + 1);
    store->round_count = 0; /* there are not many of them */
    store->is_begun = false;
    request_begin_again(store);
    return true;
}

bool cv__zk_read_holder(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return false;
    }
    if (is_passed_over(store, op)) {
        return false;
    }
    store->record = (struct cv_store_record){.token = (uint64_t)op->stat.czxid};
    cv__value_read(op->value, strlen(op->value), &store->record);
    return true;
}

/* ---- Acquiring ----------------------------------------------------------------------------- */

static void on_queue_made(void *user, const struct cv_zk_op *op)
{
    if (op->rc != ZOK && op->rc != ZNODEEXISTS && op->rc != ZNONODE) {
        cv__zk_fail(user, op->rc); /* otherwise the answer to `create` comes behind it */
    }
}

/* The parents, one below the other, and then the queue itself, which is mostly all that is missing:
 * the parents are made once it has turned out that they are missing, too. False: answered. */
static bool make_queue(struct cv_store *store)
{
    if (store->round_count++ > ROUNDS_MAX) {
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
static void on_first(void *user, const struct cv_zk_op *op);

/* The attempt was granted before, and is over. */
static void answer_lost(struct cv_store *store)
{
    store->record = (struct cv_store_record){.token = store->token};
    cv__zk_answer(store, CV_STORE_FREE, 0);
}

static void on_created(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE) {
        store->user.epoch++; /* the list is in vain */
        if (make_queue(store)) {
            create(store);
        }
        return;
    }
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return;
    }
    (void)snprintf(store->own, sizeof store->own, "%s", op->path);
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
    write_value(store, value);
    store->may_exist = true;
    cv__zk_make(&store->user, path, value, ZOO_EPHEMERAL_SEQUENTIAL, on_created);
    cv__zk_note_ask(store);
    /* In order: it sees what was made. */
    cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
}

/* So long the session lives for certain, from then on. */
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
    if (proved_ns < store->user.client->timeout_ns / 4) {
        cv__zk_work_end(store); /* the beat will have touched it when we are asked again */
        cv__remote_fail(&store->remote,
                        "ZooKeeper %s: it is not certain how long the session lives",
                        store->server->hosts);
        return;
    }
    if (store->token == 0) {
        store->token = store->own_czxid;
        store->since_wall_ns = cv__clock_wall_ns(); /* written with the next renewal */
        cv__zk_note_begin(store);
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
    store->remote.has_notification =
        store->remote.has_notification || store->is_taken; /* renew it at once */
    store->is_taken = false;
    cv__zk_answer(store, CV_STORE_GRANTED, duration_ns);
}

/* The write to our own node came back. The list is on its way behind it. */
static void on_confirmed(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const bool is_ours = op->rc == ZOK && cv__zk_is_owner(store->user.client, &op->stat) &&
                         (store->token == 0 || store->token == (uint64_t)op->stat.czxid);
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
    } else if (is_ours) {
        store->own_czxid = (uint64_t)op->stat.czxid;
        store->is_confirmed = true;
        cv__zk_prove(store->user.client, op->sent_ns);
    } else { /* gone, or left behind by a session before this one */
        if (op->rc == ZOK) {
            cv__zk_remove(&store->user, store->own, NULL);
        }
        own_forget(store);
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
        store->is_begun = false;
        request_begin_again(store);
        return;
    }
    if (op->rc == ZOK && !is_passed_over(store, op)) {
        (void)snprintf(store->watched, sizeof store->watched, "%s", op->path);
    }
}

/* The queue as it is after our own write or creation. */
static void on_queue(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE && store->token != 0) {
        answer_lost(store);
        return;
    }
    if (op->rc == ZNONODE) { /* and so no node of ours */
        own_forget(store);
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
    for (int i = 0; i < op->names.count; i++) { /* what earlier attempts of ours left behind */
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
            /* Made, but the answer was lost [T11]: is it this session's? */
            cv__zk_child_path(store, queue.own.name, store->own);
            store->is_confirmed = false;
            store->is_begun = false;
            request_begin_again(store);
        } else if (store->round_count++ > ROUNDS_MAX) {
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
    store->is_taken = false;
    if (strcmp(before, store->watched) != 0) {
        cv__zk_watch_end(&store->user, before, on_before);
    }
    cv__zk_note_look(store);
    cv__zk_get(&store->user, path, /* is_watching= */ false, on_first);
}

/* Who holds it? The data and the czxid of its node say so. */
static void on_first(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE) {
        store->is_begun = false;
        request_begin_again(store);
        return;
    }
    if (cv__zk_read_holder(store, op)) {
        store->record.remaining_ns = store->record.lease_ns; /* at most: the server does not say */
        cv__value_note_tell(&store->seen, &store->record);
        cv__zk_answer(store, CV_STORE_HELD, cv__max64(store->record.lease_ns, NS_PER_S));
    }
}

/* Is it proved, without another write, that our node will be there for a while? */
static bool is_proved(struct cv_store *store)
{
    const struct cv_zk *client = store->user.client;
    const int64_t proved_ns = proved_left_ns(client, cv__remote_current(&store->remote)->asked_ns);
    return store->is_next && store->is_confirmed && store->token == 0 &&
           proved_ns >= client->timeout_ns / 4;
}

/* Whoever is next needs no write of its own when the holder has gone, only a list in which its node
 * is the first. Other than with its session, which is proved to live, the node goes only if a
 * holder with an heir deletes those between, together with its own node, which would be in the
 * list; so it does not matter if the server that made the list is behind. */
static void acquire(struct cv_store *store, const struct cv_store_request *ask)
{
    if (store->attempt != ask->attempt) {
        cv__zk_give_up(store, ask->reason); /* the earlier one */
        store->attempt = ask->attempt;
        store->lease_ns = ask->lease_ns;
    }
    store->is_taken = store->own[0] != '\0' && is_proved(store);
    if (store->is_taken) {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_queue);
    } else if (store->own[0] != '\0') {
        char value[CV_VALUE_BYTES];
        write_value(store, value);
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

/* ---- Renewing, reading --------------------------------------------------------------------- */

bool cv__zk_first_path(struct cv_store *store, const struct cv_zk_op *op,
                       char ret_path[CV_ZK_PATH_BYTES])
{
    struct cv_zk_queue queue = {.first = {.is_ours = false}};
    ret_path[0] = '\0';
    if (op->rc == ZOK) {
        cv__zk_queue_read(store, &op->names, &queue);
    } else if (op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return false;
    }
    if (queue.first.is_ours) {
        cv__zk_child_path(store, queue.first.name, ret_path);
    }
    return true;
}

void cv__zk_on_names_read(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    char path[CV_ZK_PATH_BYTES];
    if (!cv__zk_first_path(store, op, path)) {
        return;
    }
    store->record = (struct cv_store_record){.token = 0};
    store->name_count = op->names.count;
    if (path[0] == '\0' && op->rc == ZNONODE) {
        cv__zk_exists(&store->user, store->election, /* is_watching= */ true, NULL);
        cv__zk_answer(store, CV_STORE_FREE, 0);
        return;
    }
    if (path[0] == '\0') {
        cv__zk_note_answer_free(store);
        return;
    }
    cv__zk_note_look(store);
    cv__zk_get(&store->user, path, /* is_watching= */ false, on_first);
}

/* The resign request is on its way behind it, and answers. */
static void on_renewed(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const bool is_ours = op->rc == ZOK && cv__zk_is_owner(store->user.client, &op->stat) &&
                         (uint64_t)op->stat.czxid == store->token;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
    } else if (!is_ours) {
        own_forget(store);
        store->user.epoch++;
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, cv__zk_on_names_read);
    } else {
        cv__zk_prove(store->user.client, op->sent_ns);
    }
}

static void renew(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt && store->token != 0 &&
                         store->own[0] != '\0' && (ask->token == 0 || ask->token == store->token);
    if (!is_ours) {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, cv__zk_on_names_read);
        return;
    }
    char value[CV_VALUE_BYTES];
    write_value(store, value);
    cv__zk_set(&store->user, store->own, value, on_renewed);
    cv__zk_note_ask(store);
    cv__zk_get(&store->user, store->request_path, /* is_watching= */ true, on_renewed_request);
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static void session_leave(struct cv_store *store)
{
    struct cv_zk *client = store->user.client;
    struct cv_zk **at = &store->server->sessions;
    cv__zk_leave(&store->user);
    if (client->users == NULL) {
        while (*at != client) {
            at = &(*at)->next;
        }
        *at = client->next;
        cv__zk_free(client);
    }
}

/* The session for this time-out; 0: any. False: out of memory. */
static bool session_join(struct cv_store *store, int64_t timeout_ns)
{
    struct cv_zk_server *server = store->server;
    struct cv_zk *client = server->sessions;
    while (client != NULL && timeout_ns != 0 && client->asked_ns != timeout_ns) {
        client = client->next;
    }
    if (client == NULL) {
        client = cv__zk_new(server->loop, server->hosts, server->host_count, server->auth,
                            timeout_ns != 0 ? timeout_ns : READER_NS);
        if (client == NULL) {
            return false;
        }
        client->next = server->sessions;
        server->sessions = client;
    }
    cv__zk_join(client, &store->user);
    return true;
}

/* A new attempt may have another lease, and then belongs to another session. */
static bool session_choose(struct cv_store *store, const struct cv_remote_request *one)
{
    const bool is_acquiring = !one->is_resign_request && one->ask.verb == CV_STORE_ACQUIRE;
    const int64_t wanted_ns = is_acquiring ? one->ask.lease_ns : 0;
    if (store->user.client != NULL && is_acquiring && store->attempt != one->ask.attempt &&
        store->user.client->asked_ns != wanted_ns) {
        struct cv_zk_orphan *orphan =
            store->own[0] != '\0' || store->may_exist ? calloc(1, sizeof *orphan) : NULL;
        if (orphan != NULL) {
            own_orphan(store, orphan, 0); /* which the new attempt gives up */
        }
        cv__zk_attempt_forget(store, one->ask.reason);
        session_leave(store);
    }
    return store->user.client != NULL || session_join(store, wanted_ns);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void dispatch(struct cv_store *store, const struct cv_remote_request *one)
{
    if (store->round_count++ > ROUNDS_MAX) {
        cv__zk_fail(store, ZSYSTEMERROR);
    } else if (one->ask.runs != NULL) {
        cv__zk_runs_begin(store, one->ask.runs);
    } else if (one->ask.list != NULL) {
        cv__zk_list_begin(store, one->ask.list);
    } else if (one->ask.forgets) {
        cv__zk_forget_begin(store);
    } else if (one->is_resign_request) {
        cv__zk_catch_up(&store->user, store->election);
        cv__zk_list(&store->user, store->election, /* is_watching= */ false,
                    cv__zk_on_request_names);
    } else if (one->ask.verb == CV_STORE_READ) {
        cv__zk_catch_up(&store->user, store->election);
        cv__zk_list(&store->user, store->election, /* is_watching= */ store->attempt == 0,
                    cv__zk_on_names_read);
    } else if (one->ask.verb == CV_STORE_ACQUIRE) {
        acquire(store, &one->ask);
    } else if (one->ask.verb == CV_STORE_RENEW) {
        renew(store, &one->ask);
    } else {
        cv__zk_release(store, &one->ask);
    }
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (store->is_begun) {
        return;
    }
    if (!session_choose(store, one)) {
        cv__remote_fail(&store->remote, "ZooKeeper %s: out of memory", store->server->hosts);
        return;
    }
    struct cv_zk *client = store->user.client;
    if (!cv__zk_session_begin(client)) {
        /* What the client says of a name that nobody knows. */
        const bool is_nowhere = errno == ENOENT;
        cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                        is_nowhere ? "no such host" : strerror(errno));
        return;
    }
    if (!cv__zk_may_begin(&store->user)) {
        store->user.waits = true; /* on_turn() comes back here */
        cv__zk_flush(client);
        return;
    }
    store->is_begun = true;
    store->user.epoch++;
    dispatch(store, one);
    if (store->user.client != NULL) {
        cv__zk_flush(store->user.client);
    }
}

static void begin_first(void *user)
{
    struct cv_store *store = user;
    store->round_count = 0;
    store->is_queue_made = false;
    begin_request(store);
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    const char *why = store->user.client != NULL ? store->user.client->why : "";
    const bool is_asked = store->is_begun || store->user.awaited_count > 0;
    cv__zk_work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                    is_asked         ? "no answer in time"
                    : why[0] != '\0' ? why
                                     : "no connection in time");
}

static const struct cv_store_kind kind;

/* ---- The table ----------------------------------------------------------------------------- */

static void zk_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_resign_request= */ false);
}

static void zk_request_resign(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_resign_request= */ true);
}

static void zk_runs(struct cv_store *store, uint64_t request, struct cv_store_runs *runs)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .runs = runs},
                   /* is_resign_request= */ false);
}

static void zk_list(struct cv_store *store, uint64_t request, struct cv_store_list *list)
{
    cv__remote_list(&store->remote, request, list);
}

static void zk_forget(struct cv_store *store, uint64_t request)
{
    cv__remote_forget(&store->remote, request);
}

/* Finds or makes the server of an address, with one user more. */
static int server_join(struct cv_store *store, const struct cv_store_setting *setting,
                       const struct cv_address *address, struct cv_errtext *reterr)
{
    struct cv_zk_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    int code = cv__zk_read_server(server, address, reterr);
    char key[CV_ZK_HOSTS_BYTES + sizeof server->auth + 1];
    (void)snprintf(key, sizeof key, "%s\n%s", server->hosts, server->auth);
    struct cv_shared *found = code == CV_OK ? cv__shared_join(setting->shared, &kind, key) : NULL;
    server->loop = setting->loop;
    if (code == CV_OK && found == NULL &&
        !cv__shared_add(setting->shared, &server->shared, &kind, key)) {
        code = cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    if (code != CV_OK || found != NULL) {
        free(server);
    }
    store->server = found != NULL ? (struct cv_zk_server *)found : server;
    return code;
}

/* A node of one would be taken for one of the other. */
static int check_label(const struct cv_store *store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    for (const struct cv_store *one = store->server->stores; one != NULL; one = one->next) {
        if (one->remote.label == setting->label && strcmp(one->election, store->election) == 0) {
            return cv__fail(reterr, CV_E_INVALID,
                            "election '%s' is open already under the same label",
                            setting->election);
        }
    }
    return CV_OK;
}

static void server_leave(struct cv_zk_server *server, struct cv_shared_list *list)
{
    if (cv__shared_leave(list, &server->shared)) {
        free(server);
    }
}

static int zk_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                   struct cv_errtext *reterr)
{
    struct cv_address address;
    struct cv_store *store = calloc(1, sizeof *store);
    struct cv_zk_orphan *orphan = calloc(1, sizeof *orphan);
    int code = store != NULL && orphan != NULL
                   ? cv__address_split(setting->address, &address, reterr)
                   : cv__fail(reterr, CV_E_MEMORY, "out of memory");
    if (code == CV_OK) {
        (void)snprintf(store->remote.election, sizeof store->remote.election, "%s",
                       setting->election);
        (void)snprintf(store->remote.node, sizeof store->remote.node, "%s", setting->node);
        code = cv__zk_read_path(store, &address, reterr);
    }
    code = code != CV_OK ? code : server_join(store, setting, &address, reterr);
    if (code == CV_OK) {
        code = check_label(store, setting, reterr);
        if (code != CV_OK) {
            server_leave(store->server, setting->shared);
        }
    }
    if (code != CV_OK) {
        free(orphan);
        free(store);
        return code;
    }
    cv__remote_init(&store->remote, setting, store, begin_first, give_up);
    store->list = setting->shared;
    store->orphan = orphan;
    store->user.store = store;
    store->user.hooks = &hooks;
    store->next = store->server->stores;
    store->server->stores = store;
    *ret_store = store;
    return CV_OK;
}

static void zk_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    free(store->orphan);
    free(store->waiters);
    free(store);
    closed(closed_user);
}

static void zk_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    cv__remote_close_begin(&store->remote, closed, user);
    if (store->user.client != NULL) {
        if (store->own[0] != '\0' || store->may_exist) {
            own_orphan(store, store->orphan, store->granted_until_ns);
            store->orphan = NULL;
        }
        session_leave(store);
    }
    struct cv_store **at = &store->server->stores;
    while (*at != store) {
        at = &(*at)->next;
    }
    *at = store->next;
    server_leave(store->server, store->list);
    cv__remote_close_end(&store->remote, zk_last);
}

static const struct cv_store_kind kind = {
    .scheme = "zookeeper",
    .summary = "a queue of ephemeral nodes in ZooKeeper",
    .example = "zookeeper://10.0.0.1:2181,10.0.0.2:2181/elections",
    .clock = "that of the ensemble's leader, which counts durations",
    .notifications = "a watch on the node before one's own",
    .lease_ns_min = 500 * NS_PER_MS,
    .lease_ns_step = NS_PER_MS,
    .grant_percent = 50,
    .counts_anew = true,
    .hides_rest = true,
    .open = zk_open,
    .ask = zk_ask,
    .request_resign = zk_request_resign,
    .runs = zk_runs,
    .list = zk_list,
    .forget = zk_forget,
    .close = zk_close,
};

CV_MODULE(kind)
