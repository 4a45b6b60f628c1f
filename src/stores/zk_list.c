/* src/stores/zk_list.c - lists the elections in ZooKeeper and the waiting contenders of one, and
 * removes an election.
 *
 * The queue is a list of names; when a contender began to wait is the time at which its node was
 * created, so the nodes are read one by one. The node of an election stays when its contenders have
 * left, until it is forgotten. That removes it, its note and all below it in one transaction, which
 * fails if a contender has joined in the meantime. */
#include "stores/zk_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A waiting contender. */
struct cv_zk_waiter {
    int64_t sequence;
    char path[CV_ZK_PATH_BYTES];
    char node[CV_NODE_BYTES];
};

static void answer(struct cv_store *store, enum cv_store_verdict verdict)
{
    free(store->waiters);
    store->waiters = NULL;
    cv__zk_work_end(store);
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict});
}

static void ask_next(struct cv_store *store);

static void on_waiter(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    struct cv_store_list *list = cv__remote_current(&store->remote)->ask.list;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return;
    }
    if (op->rc == ZOK) { /* otherwise it has left meanwhile */
        struct cv_store_record record = {0};
        cv__value_read(op->value, strlen(op->value), &record);
        cv__store_list_add_queued(list, op->stat.ctime * NS_PER_MS, &record,
                                  store->waiters[store->waiter_next].node);
    }
    store->waiter_next++;
    ask_next(store);
}

static void ask_next(struct cv_store *store)
{
    if (store->waiter_next == store->waiter_count) {
        answer(store, CV_STORE_GRANTED);
    } else {
        cv__zk_get(&store->user, store->waiters[store->waiter_next].path,
                   /* is_watching= */ false, on_waiter);
    }
}

static int compare(const void *a, const void *b)
{
    const struct cv_zk_waiter *left = a, *right = b;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static void on_waiting(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    struct cv_store_list *list = cv__remote_current(&store->remote)->ask.list;
    const int count = op->rc == ZOK ? op->names.count : 0;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return;
    }
    free(store->waiters); /* of a list that was given up */
    store->waiters = calloc((size_t)count + 1, sizeof *store->waiters);
    store->waiter_count = 0;
    if (store->waiters == NULL) {
        cv__zk_fail(store, ZSYSTEMERROR);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct cv_zk_place place;
        cv__zk_place_read(op->names.data[i], &place);
        struct cv_zk_waiter *one = &store->waiters[store->waiter_count];
        if (place.is_ours) {
            one->sequence = place.sequence;
            cv__zk_child_path(store, place.name, one->path);
            (void)cv__remote_unescape(place.node, one->node, sizeof one->node);
            store->waiter_count++;
        }
    }
    qsort(store->waiters, store->waiter_count, sizeof store->waiters[0], compare);
    store->waiter_next = store->waiter_count > 0 ? 1 : 0; /* the first one holds it */
    if (store->waiter_count > CV_STORE_LIST_MAX + 1) {
        store->waiter_count = CV_STORE_LIST_MAX + 1;
        list->is_cut = true;
    }
    ask_next(store);
}

static void on_names(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    struct cv_store_list *list = cv__remote_current(&store->remote)->ask.list;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return;
    }
    for (int i = 0; op->rc == ZOK && i < op->names.count; i++) {
        char name[CV_ELECTION_BYTES];
        if (cv__remote_unescape(op->names.data[i], name, sizeof name)) {
            cv__store_list_add(list, name, 0, "");
        }
    }
    answer(store, CV_STORE_GRANTED);
}

void cv__zk_list_begin(struct cv_store *store, const struct cv_store_list *list)
{
    char base[CV_ZK_PATH_BYTES];
    if (list->of == CV_STORE_LIST_WAITING) {
        cv__zk_catch_up(&store->user, store->election);
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_waiting);
        return;
    }
    (void)snprintf(base, sizeof base, "%s", store->election);
    char *last = strrchr(base, '/'); /* every path begins with one */
    last[last == base ? 1 : 0] = '\0';
    cv__zk_catch_up(&store->user, base);
    cv__zk_list(&store->user, base, /* is_watching= */ false, on_names);
}

static void on_forgotten(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const bool is_changed = op->rc == ZNOTEMPTY || op->rc == ZNONODE;
    if (op->rc != ZOK && !is_changed) {
        cv__zk_fail(store, op->rc);
        return;
    }
    answer(store, is_changed ? CV_STORE_HELD : CV_STORE_GRANTED);
}

static void on_forget_names(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    static const char *const known[] = {"wish", "runs"};
    char paths[COUNT_OF(known) + 1][CV_ZK_PATH_BYTES];
    uint32_t count = 0;
    if (op->rc == ZNONODE) {
        answer(store, CV_STORE_GRANTED);
        return;
    }
    if (op->rc != ZOK) {
        cv__zk_fail(store, op->rc);
        return;
    }
    for (int i = 0; i < op->names.count; i++) {
        for (uint32_t k = 0; k < COUNT_OF(known); k++) {
            if (strcmp(op->names.data[i], known[k]) == 0) {
                cv__zk_child_path(store, known[k], paths[count++]);
            }
        }
    }
    if ((int)count < op->names.count) { /* contenders, or foreign nodes */
        answer(store, CV_STORE_HELD);
        return;
    }
    (void)snprintf(paths[count++], CV_ZK_PATH_BYTES, "%s", store->election);
    cv__zk_remove_all(&store->user, paths[0], count, NULL, NULL, NULL, on_forgotten);
}

void cv__zk_forget_begin(struct cv_store *store)
{
    cv__zk_catch_up(&store->user, store->election);
    cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_forget_names);
}
