/* src/stores/zk_release.c - how a leadership in ZooKeeper ends: its holder releases, perhaps for an
 * heir, or is asked to resign.
 *
 * With an heir, the holder first deletes the nodes between its own and the heir's, in a transaction
 * that requires its own node to exist, and then its own. The contenders of the deleted nodes
 * notice, and queue again. While the holder's node exists, none of them leads, so none loses a
 * leadership.
 * The order matters to the next contender, which leads when it hears that the holder's node is gone
 * (zk_grant.c): if its own node is deleted, it hears of that before.
 *
 * A resign request is a node beside the queue, for one token. */
#include "stores/zk_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum cv_reason why_released(struct cv_store *store)
{
    const struct cv_store_request *ask = &cv__remote_current(&store->remote)->ask;
    return ask->reason != CV_REASON_STARTED ? ask->reason : CV_REASON_RESIGNED;
}

static void released(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (store->attempt == one->ask.attempt) {
        cv__zk_attempt_forget(store, why_released(store));
    }
}

/* The contender that is first now holds it: one that resigns is told, and need not stand back. */
static void answer_first(struct cv_store *store)
{
    cv__zk_list(&store->user, store->election, /* is_watching= */ false, cv__zk_on_names_read);
}

/* The result of the list follows, and answers. */
static void on_removed(void *user, const struct cv_zk_op *op)
{
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(user, op->rc);
    } else {
        released(user);
    }
}

static void remove_and_answer(struct cv_store *store, const char *path)
{
    cv__zk_remove(&store->user, path, on_removed);
    answer_first(store);
}

/* The result of the list follows here, too. If the note is refused, for example for lack of
 * permission, the node is removed without it. */
static void on_given_back(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZOK || op->rc == ZNONODE) {
        released(store);
    } else {
        store->user.epoch++; /* drops the result of the list */
        remove_and_answer(store, store->own);
    }
}

static void give_back_and_answer(struct cv_store *store)
{
    if (store->token == 0) { /* it has only waited */
        remove_and_answer(store, store->own);
        return;
    }
    cv__zk_give_back(store, why_released(store), on_given_back);
    answer_first(store);
}

static int compare_places(const void *a, const void *b)
{
    const struct cv_zk_place *left = a;
    const struct cv_zk_place *right = b;
    return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* Deletes the nodes between ours and the heir's: all or none. If one of them is gone meanwhile, our
 * release, which follows, is one without an heir. */
static void depose(struct cv_store *store, const struct String_vector *names, const char *heir)
{
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(heir, escaped);
    struct cv_zk_place *places = calloc((size_t)names->count + 1, sizeof *places);
    if (places == NULL) {
        return;
    }
    int count = 0;
    for (int i = 0; i < names->count; i++) {
        count += cv__zk_place_find(store, names->data[i], &places[count]);
    }
    qsort(places, (size_t)count, sizeof *places, compare_places);
    int heir_at = 1; /* the first one must be ours: see is_fine */
    while (heir_at < count && strcmp(places[heir_at].node, escaped) != 0) {
        heir_at++;
    }
    char path[CV_ZK_PATH_BYTES];
    cv__zk_child_path(store, count > 0 ? places[0].name : "", path);
    const int between = heir_at - 1;
    const bool is_fine = heir_at < count && between > 0 && between <= CV_ZK_DELETES_MAX &&
                         strcmp(path, store->own) == 0 && store->token != 0;
    char *paths = is_fine ? calloc((size_t)between, CV_ZK_PATH_BYTES) : NULL;
    for (int i = 0; paths != NULL && i < between; i++) {
        cv__zk_child_path(store, places[i + 1].name, paths + (size_t)i * CV_ZK_PATH_BYTES);
    }
    if (paths != NULL) {
        cv__zk_remove_all(&store->user, paths, (uint32_t)between, store->own, NULL, NULL, NULL);
    }
    free(paths);
    free(places);
}

static void on_release_names(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return;
    }
    if (store->own[0] != '\0' && one->heir[0] != '\0') {
        depose(store, &op->names, one->heir);
    }
    if (store->own[0] != '\0') {
        give_back_and_answer(store);
        return;
    }
    char path[CV_ZK_PATH_BYTES] = "";
    for (int i = 0; i < op->names.count; i++) {
        struct cv_zk_place place;
        cv__zk_place_read(op->names.data[i], &place);
        if (place.is_ours && place.label == store->remote.label &&
            place.attempt == one->ask.attempt) {
            cv__zk_child_path(store, place.name, path);
        }
    }
    if (path[0] != '\0') {
        remove_and_answer(store, path);
    } else {
        released(store);
        answer_first(store);
    }
}

void cv__zk_release(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_known = store->attempt == ask->attempt && store->own[0] != '\0';
    if (is_known && ask->heir == NULL) {
        give_back_and_answer(store);
    } else {
        if (ask->heir != NULL) { /* our server may not know yet that the heir waits */
            cv__zk_catch_up(&store->user, store->election);
        }
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_release_names);
    }
}

void cv__zk_give_up(struct cv_store *store, enum cv_reason why)
{
    const bool has_led = store->token != 0 && why != CV_REASON_STARTED;
    if (store->own[0] != '\0' && has_led) {
        cv__zk_give_back(store, why, NULL);
    } else if (store->own[0] != '\0') {
        cv__zk_remove(&store->user, store->own, NULL);
    }
    cv__zk_attempt_forget(store, why);
}

static void on_request_set(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return;
    }
    cv__zk_answer(store, CV_STORE_HELD, cv__max64(store->record.lease_ns, NS_PER_S));
}

static void request_value(struct cv_store *store, char ret_value[CV_VALUE_BYTES])
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    cv__value_request_write(store->record.token, one->heir[0] != '\0' ? one->heir : "*", ret_value);
}

static void on_request_made(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZNODEEXISTS) {
        char value[CV_VALUE_BYTES];
        request_value(store, value);
        cv__zk_set(&store->user, store->request_path, value, on_request_set);
    } else {
        on_request_set(store, op);
    }
}

static void on_request_first(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (!cv__zk_read_holder(store, op)) {
        return;
    }
    char value[CV_VALUE_BYTES];
    request_value(store, value);
    cv__zk_make(&store->user, store->request_path, value, ZOO_PERSISTENT, on_request_made);
}

void cv__zk_on_request_names(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    char path[CV_ZK_PATH_BYTES];
    if (!cv__zk_first_path(store, op, path)) {
        return;
    }
    store->record = (struct cv_store_record){.token = 0};
    if (path[0] == '\0') {
        cv__zk_answer(store, CV_STORE_FREE, 0);
        return;
    }
    cv__zk_get(&store->user, path, /* is_watching= */ false, on_request_first);
}
