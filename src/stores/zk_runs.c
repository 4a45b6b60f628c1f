/* src/stores/zk_runs.c - the text about the runs of a job, in ZooKeeper: a node beside the queue.
 *
 * It is written in one transaction with a check that the holder's node is there; a node's czxid is
 * its token, and the version of the text is that of its node. */
#include "stores/zk_store.h"

#include <stdio.h>

static void runs_path(const struct cv_store *store, char ret_path[CV_ZK_PATH_BYTES])
{
    cv__zk_child_path(store, "runs", ret_path);
}

static void answer_runs(struct cv_store *store, enum cv_store_verdict verdict)
{
    cv__zk_work_end(store);
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict});
}

static void on_runs_read(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    struct cv_store_runs *runs = cv__remote_current(&store->remote)->ask.runs;
    if (op->rc != ZOK && op->rc != ZNONODE) {
        cv__zk_fail(store, op->rc);
        return;
    }
    const bool is_there = op->rc == ZOK;
    runs->version = is_there ? (uint64_t)op->stat.version + 1 : 0;
    (void)snprintf(runs->text, sizeof runs->text, "%s",
                   !is_there          ? ""
                   : op->text != NULL ? op->text
                                      : op->value);
    answer_runs(store, CV_STORE_GRANTED);
}

static void on_runs_written(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const bool is_refused = op->rc == ZBADVERSION || op->rc == ZNODEEXISTS || op->rc == ZNONODE;
    if (op->rc != ZOK && !is_refused) {
        cv__zk_fail(store, op->rc);
        return;
    }
    /* Or the holder is just gone (ZNONODE): the next try will find that. */
    answer_runs(store, is_refused ? CV_STORE_CHANGED : CV_STORE_GRANTED);
}

static void on_runs_first(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    const struct cv_store_runs *runs = cv__remote_current(&store->remote)->ask.runs;
    if (op->rc != ZNONODE && !cv__zk_read_holder(store, op)) {
        return;
    }
    if (op->rc == ZNONODE || store->record.token != runs->token) {
        answer_runs(store, CV_STORE_HELD);
        return;
    }
    char path[CV_ZK_PATH_BYTES];
    runs_path(store, path);
    cv__zk_write_if(&store->user, op->path, path, runs->text, (int)runs->version - 1,
                    on_runs_written);
}

static void on_runs_names(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    char path[CV_ZK_PATH_BYTES];
    if (!cv__zk_first_path(store, op, path)) {
        return;
    }
    if (path[0] == '\0') {
        answer_runs(store, CV_STORE_HELD);
        return;
    }
    cv__zk_exists(&store->user, path, /* is_watching= */ false, on_runs_first);
}

void cv__zk_runs_begin(struct cv_store *store, const struct cv_store_runs *runs)
{
    char path[CV_ZK_PATH_BYTES];
    cv__zk_catch_up(&store->user, store->election);
    if (runs->token == 0) {
        runs_path(store, path);
        cv__zk_get(&store->user, path, /* is_watching= */ false, on_runs_read);
    } else {
        cv__zk_list(&store->user, store->election, /* is_watching= */ false, on_runs_names);
    }
}
