/* src/stores/zookeeper.c - `zookeeper://host:port,.../path`: a queue of ephemeral nodes.
 *
 * A contender makes the node PATH/ELECTION/c-LABEL-ATTEMPT-NODE-SEQUENCE, which lives as long as
 * its session. The lowest sequence number holds the election; the token is the node's czxid, the
 * number of the transaction that made it. Who waits watches the node before its own only [traps.md
 * T12]. The label and the attempt in the name are what others call protection [T11]: who lost the
 * answer to `create` finds its node in the list. A node counts only if its owner is the present
 * session [T9, T10]; a session that expired takes its attempt with it.
 *
 * The client is the single-threaded one, driven by our loop: if the loop hangs, nothing keeps the
 * session alive behind its back [T6].
 *
 * Why a grant is safe: the node lives as long as the session, and zk_client.h derives how long that
 * is for certain. Renewing is writing to one's own node, which also shows that it is there and
 * ours; every T/6 a read touches the session, so that there is always a touch of the right age. A
 * grant is good for about T/2, and a node that is not renewed in time is removed. Successors wait
 * for T.
 *
 * An heir: whoever releases deletes, in one transaction with its own node, those that wait before
 * the heir's; they notice and queue again. A wish is a node beside the queue, meant for one token.
 */
#include "core/address.h"
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/zk_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_BYTES CV_ZK_PATH_BYTES
#define READER_NS (10 * NS_PER_S) /* the session of one who never acquires */
#define ROUNDS_MAX 8              /* looks of one request, while others come and go */

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
    struct cv_zk client;
    char election[CV_ZK_BASE_BYTES + CV_REMOTE_TEXT_BYTES]; /* the path of the queue */
    char wish_path[PATH_BYTES];
    char node[3 * CV_NODE_BYTES]; /* escaped */
    bool is_acquirer;             /* asked for it at least once */

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
    bool is_begun;
    uint32_t round_count;
    struct cv_store_record record;
    char heir_wished[CV_NODE_BYTES];
};

/* ---- Small things -------------------------------------------------------------------------- */

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

/* ---- What the client tells ------------------------------------------------------------------ */

static void begin_request(void *user);

/* The attempt's node is gone, or not ours any more; whether it held the election is remembered. */
static void own_forget(struct cv_store *store)
{
    store->own[0] = '\0';
    store->watched[0] = '\0';
    store->may_exist = false;
    store->client.alive_until_ns = 0;
}

static void attempt_forget(struct cv_store *store)
{
    own_forget(store);
    store->attempt = 0;
    store->token = 0;
    store->granted_until_ns = 0;
    store->heir_wished[0] = '\0';
}

static void request_begin_again(struct cv_store *store)
{
    if (store->remote.is_at_work && !store->is_begun && !store->remote.is_closing) {
        begin_request(store);
    }
}

/* Touches the session; and takes back a grant that the core does not renew [T6]. */
static void on_beat(struct cv_store *store)
{
    if (!store->is_acquirer) {
        return;
    }
    const int64_t late_ns = store->client.timeout_ns / 3;
    if (store->token != 0 && store->own[0] != '\0' &&
        cv__clock_now_ns() > store->granted_until_ns + late_ns) {
        cv__zk_remove(&store->client, store->own, NULL);
        own_forget(store);
    } else {
        cv__zk_exists(&store->client, store->own[0] != '\0' ? store->own : store->election,
                      /* is_watching= */ false, NULL);
    }
    cv__zk_flush(&store->client);
}

static void on_watched(struct cv_store *store, const char *path)
{
    if (strcmp(path, store->watched) == 0) {
        store->watched[0] = '\0';
    }
}

static void on_connected(struct cv_store *store)
{
    store->watched[0] = '\0';
}

/* It begins again when there is a connection. */
static void on_broken(struct cv_store *store)
{
    store->is_begun = false;
}

static void on_ended(struct cv_store *store)
{
    store->is_begun = false;
    own_forget(store);
}

static void on_unreachable(struct cv_store *store, const char *why)
{
    store->is_begun = false;
    cv__remote_fail_all(&store->remote, why);
}

static void on_changed(struct cv_store *store)
{
    cv__remote_news(&store->remote);
}

static const struct cv_zk_hooks hooks = {.connected = on_connected,
                                         .broken = on_broken,
                                         .ended = on_ended,
                                         .unreachable = on_unreachable,
                                         .changed = on_changed,
                                         .turn = request_begin_again,
                                         .beat = on_beat,
                                         .watched = on_watched};

/* ---- Answers ------------------------------------------------------------------------------- */

static void work_end(struct cv_store *store)
{
    store->client.epoch++; /* what is still on its way is of no interest */
    store->is_begun = false;
}

static void work_fail(struct cv_store *store, int rc)
{
    work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->client.hosts,
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
static void on_parents(struct cv_store *store, const struct cv_zk_op *op)
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
        cv__zk_make(&store->client, path, "", ZOO_PERSISTENT, NULL);
    }
    cv__zk_make(&store->client, store->election, "", ZOO_PERSISTENT, on_parents);
}

/* ---- Acquiring ----------------------------------------------------------------------------- */

static void on_queue(struct cv_store *store, const struct cv_zk_op *op);
static void on_first(struct cv_store *store, const struct cv_zk_op *op);

static void answer_lost(struct cv_store *store)
{
    work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper: attempt %" PRIu64 " was lost before",
                    store->attempt);
}

static void on_created(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc == ZNONODE) {
        store->client.epoch++; /* the list is in vain */
        make_parents(store);
        return;
    }
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    (void)snprintf(store->own, sizeof store->own, "%s", op->path);
    store->own_czxid = (uint64_t)op->stat.czxid;
    cv__zk_prove(&store->client, op->sent_ns);
}

static void create(struct cv_store *store)
{
    char path[PATH_BYTES], value[CV_VALUE_BYTES];
    char name[CV_ZK_NAME_BYTES];
    (void)snprintf(name, sizeof name, "c-%016" PRIx64 "-%" PRIu64 "-%s-", store->remote.label,
                   store->attempt, store->node);
    child_path(store, name, path);
    store->since_wall_ns = cv__clock_wall_ns();
    write_value(store, value);
    store->may_exist = true;
    cv__zk_make(&store->client, path, value, ZOO_EPHEMERAL_SEQUENTIAL, on_created);
    /* In order: it sees what was made. */
    cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_queue);
}

static void answer_granted(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const int64_t duration_ns = store->client.alive_until_ns - one->asked_ns;
    if (duration_ns < store->client.timeout_ns / 4) {
        work_end(store); /* the beat will have touched it when we are asked again */
        cv__remote_fail(&store->remote,
                        "ZooKeeper %s: it is not certain how long the session lives",
                        store->client.hosts);
        return;
    }
    store->granted_until_ns = one->asked_ns + duration_ns;
    store->record =
        (struct cv_store_record){.label = store->remote.label,
                                 .token = store->token,
                                 .lease_ns = store->lease_ns,
                                 .remaining_ns = store->client.alive_until_ns - cv__clock_now_ns(),
                                 .since_wall_ns = store->since_wall_ns};
    (void)snprintf(store->record.node, sizeof store->record.node, "%s", store->remote.node);
    (void)snprintf(store->record.wish, sizeof store->record.wish, "%s", store->heir_wished);
    answer(store, CV_STORE_GRANTED, duration_ns);
}

/* The write to our own node came back. The list is on its way behind it. */
static void on_confirmed(struct cv_store *store, const struct cv_zk_op *op)
{
    const bool is_ours = op->rc == ZOK && cv__zk_is_owner(&store->client, &op->stat) &&
                         (store->token == 0 || store->token == (uint64_t)op->stat.czxid);
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else if (is_ours) {
        store->own_czxid = (uint64_t)op->stat.czxid;
        cv__zk_prove(&store->client, op->sent_ns);
    } else { /* gone, or left behind by a session before this one */
        if (op->rc == ZOK) {
            cv__zk_remove(&store->client, store->own, NULL);
        }
        own_forget(store);
    }
}

static void on_wish_seen(struct cv_store *store, const struct cv_zk_op *op)
{
    store->heir_wished[0] = '\0';
    if (op->rc == ZOK) {
        cv__value_wish_read(op->value, strlen(op->value), store->own_czxid, store->heir_wished);
    }
}

static void on_renewed_wish(struct cv_store *store, const struct cv_zk_op *op)
{
    on_wish_seen(store, op);
    answer_granted(store);
}

static void on_before(struct cv_store *store, const struct cv_zk_op *op)
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
static void on_queue(struct cv_store *store, const struct cv_zk_op *op)
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
                              (!queue.own.is_ours || place.sequence != queue.own.sequence);
        if (is_stale) {
            child_path(store, place.name, path);
            cv__zk_remove(&store->client, path, NULL);
        }
    }
    if (store->own[0] == '\0' || !queue.own.is_ours) {
        if (store->token != 0) {
            answer_lost(store);
        } else if (queue.own.is_ours) {
            /* Made, but the answer was lost [T11]: is it this session's? */
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
            store->since_wall_ns = cv__clock_wall_ns(); /* written with the next renewal */
        }
        cv__zk_exists(&store->client, store->wish_path, /* is_watching= */ true, NULL);
        answer_granted(store);
        return;
    }
    char before[PATH_BYTES];
    child_path(store, queue.before.name, before);
    if (strcmp(before, store->watched) != 0) {
        cv__zk_watch_end(&store->client, before, on_before);
    }
    cv__zk_get(&store->client, path, /* is_watching= */ false, on_first);
}

/* HELD by whom? Its data and its czxid say so. */
static void on_first(struct cv_store *store, const struct cv_zk_op *op)
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
            cv__zk_remove(&store->client, store->own, NULL);
        }
        attempt_forget(store);
        store->attempt = ask->attempt;
        store->lease_ns = ask->lease_ns;
    }
    if (store->own[0] != '\0') {
        char value[CV_VALUE_BYTES];
        write_value(store, value);
        cv__zk_set(&store->client, store->own, value, on_confirmed);
        cv__zk_get(&store->client, store->wish_path, /* is_watching= */ false, on_wish_seen);
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_queue);
    } else if (store->may_exist || store->token != 0) {
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_queue);
    } else {
        create(store);
    }
}

/* ---- Renewing, releasing, wishing, reading --------------------------------------------------- */

static void on_names_read(struct cv_store *store, const struct cv_zk_op *op)
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
            cv__zk_exists(&store->client, store->election, /* is_watching= */ true, NULL);
        }
        answer(store, CV_STORE_FREE, 0);
        return;
    }
    char path[PATH_BYTES];
    child_path(store, queue.first.name, path);
    cv__zk_get(&store->client, path, /* is_watching= */ false, on_first);
}

/* The wish is on its way behind it, and answers. */
static void on_renewed(struct cv_store *store, const struct cv_zk_op *op)
{
    const bool is_ours = op->rc == ZOK && cv__zk_is_owner(&store->client, &op->stat) &&
                         (uint64_t)op->stat.czxid == store->token;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else if (!is_ours) {
        own_forget(store);
        store->client.epoch++;
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_names_read);
    } else {
        cv__zk_prove(&store->client, op->sent_ns);
    }
}

static void renew(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt && store->token != 0 &&
                         store->own[0] != '\0' && (ask->token == 0 || ask->token == store->token);
    if (!is_ours) {
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_names_read);
        return;
    }
    char value[CV_VALUE_BYTES];
    write_value(store, value);
    cv__zk_set(&store->client, store->own, value, on_renewed);
    cv__zk_get(&store->client, store->wish_path, /* is_watching= */ true, on_renewed_wish);
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

static void on_removed(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc != ZOK && op->rc != ZNONODE) {
        work_fail(store, op->rc);
    } else {
        answer_released(store);
    }
}

static void on_deposed(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc == ZOK) {
        answer_released(store);
    } else {
        /* Somebody left meanwhile: no heir, then. */
        cv__zk_remove(&store->client, store->own, on_removed);
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
    const bool is_fine =
        heir_at < count && heir_at <= CV_ZK_DELETES_MAX && strcmp(path, store->own) == 0;
    char *paths = is_fine ? calloc((size_t)heir_at, PATH_BYTES) : NULL;
    for (int i = 0; paths != NULL && i < heir_at; i++) {
        child_path(store, places[i].name, paths + (size_t)i * PATH_BYTES);
    }
    if (paths != NULL) {
        cv__zk_remove_all(&store->client, paths, (uint32_t)heir_at, on_deposed);
    }
    const bool is_asked = paths != NULL;
    free(paths);
    free(places);
    return is_asked;
}

static void on_release_names(struct cv_store *store, const struct cv_zk_op *op)
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
        cv__zk_remove(&store->client, store->own, on_removed);
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
        cv__zk_remove(&store->client, path, on_removed);
    } else {
        answer_released(store);
    }
}

static void release(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_known = store->attempt == ask->attempt && store->own[0] != '\0';
    if (is_known && ask->heir == NULL) {
        cv__zk_remove(&store->client, store->own, on_removed);
    } else {
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_release_names);
    }
}

static void on_wish_set(struct cv_store *store, const struct cv_zk_op *op)
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

static void on_wish_made(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc == ZNODEEXISTS) {
        char value[CV_VALUE_BYTES];
        wish_value(store, value);
        cv__zk_set(&store->client, store->wish_path, value, on_wish_set);
    } else {
        on_wish_set(store, op);
    }
}

static void on_wish_first(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc != ZOK) {
        work_fail(store, op->rc);
        return;
    }
    store->record = (struct cv_store_record){.token = (uint64_t)op->stat.czxid};
    cv__value_read(op->value, strlen(op->value), &store->record);
    char value[CV_VALUE_BYTES];
    wish_value(store, value);
    cv__zk_make(&store->client, store->wish_path, value, ZOO_PERSISTENT, on_wish_made);
}

static void on_wish_names(struct cv_store *store, const struct cv_zk_op *op)
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
    cv__zk_get(&store->client, path, /* is_watching= */ false, on_wish_first);
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const bool is_acquiring = !one->is_wish && one->ask.verb == CV_STORE_ACQUIRE;
    if (store->is_begun) {
        return;
    }
    if (is_acquiring && store->client.zk != NULL && store->client.asked_ns != one->ask.lease_ns &&
        store->attempt != one->ask.attempt) {
        cv__zk_session_end(&store->client, /* is_silent= */ false);
        own_forget(store); /* the new attempt has another lease */
    }
    if (store->client.zk == NULL) {
        if (!cv__zk_session_begin(&store->client, is_acquiring ? one->ask.lease_ns : READER_NS)) {
            /* What the client says of a name that nobody knows. */
            const bool is_nowhere = errno == ENOENT;
            cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->client.hosts,
                            is_nowhere ? "no such host" : strerror(errno));
            return;
        }
        cv__zk_flush(&store->client);
    }
    store->is_acquirer = store->is_acquirer || is_acquiring;
    if (!store->client.is_connected) {
        return; /* request_begin_again() comes back here */
    }
    store->is_begun = true;
    store->client.epoch++;
    if (store->round_count++ > ROUNDS_MAX) {
        work_fail(store, ZSYSTEMERROR);
    } else if (one->is_wish) {
        cv__zk_catch_up(&store->client, store->election);
        cv__zk_list(&store->client, store->election, /* is_watching= */ false, on_wish_names);
    } else if (one->ask.verb == CV_STORE_READ) {
        cv__zk_catch_up(&store->client, store->election);
        cv__zk_list(&store->client, store->election, /* is_watching= */ store->attempt == 0,
                    on_names_read);
    } else if (one->ask.verb == CV_STORE_ACQUIRE) {
        acquire(store, &one->ask);
    } else if (one->ask.verb == CV_STORE_RENEW) {
        renew(store, &one->ask);
    } else {
        release(store, &one->ask);
    }
    cv__zk_flush(&store->client);
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
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->client.hosts,
                    is_asked                       ? "no answer in time"
                    : store->client.why[0] != '\0' ? store->client.why
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
    store->client.host_count = cv__address_host_count(address);
    if (store->client.host_count == 0) {
        return cv__fail(reterr, CV_E_INVALID, "write zookeeper://host:port[,host:port...]/path");
    }
    size_t length = 0;
    for (uint32_t i = 0; i < store->client.host_count; i++) {
        char host[256];
        uint32_t port;
        if (!cv__address_host(address, i, host, sizeof host, &port)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "number %u of the hosts in a zookeeper: address is not host:port",
                            (unsigned)i + 1);
        }
        const bool is_v6 = strchr(host, ':') != NULL;
        const int more = snprintf(store->client.hosts + length, sizeof store->client.hosts - length,
                                  "%s%s%s%s:%u", i > 0 ? "," : "", is_v6 ? "[" : "", host,
                                  is_v6 ? "]" : "", port != 0 ? (unsigned)port : 2181u);
        length += (size_t)more;
        if (length >= sizeof store->client.hosts) {
            return cv__fail(reterr, CV_E_INVALID, "too many hosts in a zookeeper: address");
        }
    }
    return CV_OK;
}

static int read_path(struct cv_store *store, const struct cv_address *address,
                     struct cv_errtext *reterr)
{
    char base[CV_ZK_BASE_BYTES];
    if (!cv__address_decode(address->path, base, sizeof base)) {
        return cv__fail(reterr, CV_E_INVALID, "the path in a zookeeper: address is too long");
    }
    if (base[0] == '\0') {
        (void)snprintf(base, sizeof base, "/conclave");
    }
    const size_t length = strlen(base);
    if (base[length - 1] == '/') {
        base[length - 1] = '\0'; /* also the root alone */
    }
    if (strstr(base, "//") != NULL || strstr(base, "/.") != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the path '%s' in a zookeeper: address has an empty part or one with a dot",
                        base);
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(store->remote.election, escaped);
    (void)snprintf(store->election, sizeof store->election, "%s/%s", base, escaped);
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
    code = cv__remote_secret(file, "CONCLAVE_ZOOKEEPER_AUTH", store->client.auth,
                             sizeof store->client.auth, reterr);
    if (code == CV_OK && store->client.auth[0] != '\0' && strchr(store->client.auth, ':') == NULL) {
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
    cv__zk_init(&store->client, setting->loop, store, &hooks);
    *ret_store = store;
    return CV_OK;
}

static void zk_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    cv__zk_fini(&store->client);
    free(store);
    closed(closed_user);
}

static void zk_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    cv__remote_close_begin(&store->remote, closed, user);
    cv__zk_close(&store->client, &store->remote);
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
