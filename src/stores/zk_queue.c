/* src/stores/zk_queue.c - parses the names below an election in ZooKeeper: which node is first, and
 * which is before our own.
 *
 * Foreign names are ignored; so are nodes that look like contenders but are not ephemeral, as in a
 * copied tree: they would never go away. A list of names does not show the difference. Reading the
 * node shows it, when such a node is the first or before ours; then its name is remembered until
 * the next connection. */
#include "stores/zk_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a node is c-, sixteen digits, a number, the contender's name, and the sequence. Other
 * names below the queue are not ours. */
void cv__zk_place_read(const char *name, struct cv_zk_place *ret_place)
{
    memset(ret_place, 0, sizeof *ret_place);
    ret_place->name = name;
    const char *last = strrchr(name, '-');
    if (strncmp(name, "c-", 2) != 0 || strspn(name + 2, "0123456789abcdef") != 16 ||
        name[18] != '-') {
        return;
    }
    const char *attempt = name + 19;
    const size_t attempt_bytes = strspn(attempt, "0123456789");
    const char *node = attempt + attempt_bytes + 1;
    if (attempt_bytes == 0 || attempt_bytes > 20 || attempt[attempt_bytes] != '-' || last < node ||
        strspn(last + 1, "0123456789") != 10 || last[11] != '\0') {
        return;
    }
    ret_place->label = strtoull(name + 2, NULL, 16);
    ret_place->attempt = strtoull(attempt, NULL, 10);
    (void)snprintf(ret_place->node, sizeof ret_place->node, "%.*s", (int)(last - node), node);
    ret_place->sequence = strtoll(last + 1, NULL, 10);
    ret_place->is_ours = true;
}

static bool is_stranger(const struct cv_store *store, const char *name)
{
    for (uint32_t i = 0; i < store->stranger_count; i++) {
        if (strcmp(store->strangers[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool cv__zk_place_find(const struct cv_store *store, const char *name,
                       struct cv_zk_place *ret_place)
{
    cv__zk_place_read(name, ret_place);
    return ret_place->is_ours && !is_stranger(store, name);
}

void cv__zk_child_path(const struct cv_store *store, const char *name,
                       char ret_path[CV_ZK_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_ZK_PATH_BYTES, "%s/%s", store->election, name);
    if (length < 0 || length >= CV_ZK_PATH_BYTES) {
        ret_path[0] = '\0'; /* no contender of ours has such a long name */
    }
}

/* Sequence numbers grow with the czxid: both grow with each node created under this parent. */
void cv__zk_queue_read(const struct cv_store *store, const struct String_vector *names,
                       struct cv_zk_queue *ret_queue)
{
    memset(ret_queue, 0, sizeof *ret_queue);
    struct cv_zk_place place;
    for (int pass = 0; pass < 2; pass++) { /* ours first, then the one before it */
        for (int i = 0; i < names->count; i++) {
            if (!cv__zk_place_find(store, names->data[i], &place)) {
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

/* ---- Who holds it? -------------------------------------------------------------------------- */

bool cv__zk_is_passed_over(struct cv_store *store, const struct cv_zk_op *op)
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
    store->round_count = 0; /* there are at most CV_ZK_STRANGERS_MAX */
    cv__zk_begin_again(store);
    return true;
}

bool cv__zk_read_holder(struct cv_store *store, const struct cv_zk_op *op)
{
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return false;
    }
    if (cv__zk_is_passed_over(store, op)) {
        return false;
    }
    store->record = (struct cv_store_record){.token = (uint64_t)op->stat.czxid};
    cv__value_read(op->value, strlen(op->value), &store->record);
    return true;
}

void cv__zk_on_first(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNONODE) {
        cv__zk_begin_again(store);
        return;
    }
    if (strcmp(op->path, store->watched) == 0) {
        store->is_before_fair = cv__zk_value_is_fair(op->value);
    }
    if (cv__zk_read_holder(store, op)) {
        store->record.remaining_ns = store->record.lease_ns; /* at most: the server does not say */
        cv__value_request_read(store->wish_seen, strlen(store->wish_seen), store->record.token,
                               store->record.resign_request);
        cv__value_note_tell(&store->seen, &store->record);
        cv__zk_answer(store, CV_STORE_HELD, cv__max64(store->record.lease_ns, NS_PER_S));
    }
}

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

/* The result of reading the first node follows, and says whether it is meant. */
static void on_wish_seen(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZOK) {
        (void)snprintf(store->wish_seen, sizeof store->wish_seen, "%s", op->value);
    }
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
    cv__zk_get(&store->user, store->request_path, /* is_watching= */ false, on_wish_seen);
    cv__zk_get(&store->user, path, /* is_watching= */ false, cv__zk_on_first);
}
