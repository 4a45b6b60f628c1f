/* src/stores/etcd_runs.c - the text about the runs of a job, in etcd: a key beside the queue.
 *
 * It is written in a transaction that compares two revisions: that of the holder's key, which is
 * its token, and that of the text as its writer has read it. */
#include "stores/etcd_store.h"

#include <inttypes.h>

static void answer_runs(struct cv_store *store, enum cv_store_verdict verdict)
{
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict});
}

static void on_runs_read(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    struct cv_store_runs *runs = cv__remote_current(&store->remote)->ask.runs;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const cJSON *kv = cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 0)), 0);
    runs->version = cv__etcd_number(kv, "mod_revision"); /* 0: there is none */
    (void)cv__etcd_decode(cv__etcd_string(kv, "value"), runs->text, sizeof runs->text);
    answer_runs(store, CV_STORE_GRANTED);
}

static void on_runs_written(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const bool is_written =
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer->reply, "succeeded"));
    /* The holder's key may also have been deleted just now: then the next try answers HELD. */
    answer_runs(store, is_written ? CV_STORE_GRANTED : CV_STORE_CHANGED);
}

/* The key whose create revision is the token is the holder's: it was the first one when that token
 * was granted, and later keys are behind it. */
static void on_runs_holder(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    const struct cv_store_runs *runs = cv__remote_current(&store->remote)->ask.runs;
    struct cv_text64 holder64, key64;
    struct cv_etcd_body body = {0};
    char holder[CV_ETCD_KEY_BYTES];
    struct cv_etcd_key key;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const cJSON *kv = cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 0)), 0);
    if (!cv__etcd_key_read(store, kv, &key, holder) || key.create_revision != runs->token) {
        answer_runs(store, CV_STORE_HELD);
        return;
    }
    cv__etcd_body_print(
        &body,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64 "\"},",
        cv__etcd_encode(holder, &holder64), runs->token);
    cv__etcd_body_print(&body,
                        "{\"key\":\"%s\",\"target\":\"MOD\",\"mod_revision\":\"%" PRIu64 "\"}],"
                        "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"",
                        cv__etcd_encode(store->election.runs, &key64), runs->version, key64.text);
    cv__etcd_body_text64(&body, runs->text);
    cv__etcd_body_print(&body, "\"}}]}");
    cv__etcd_ask(store, CV_ETCD_ALONE, 1, &body, on_runs_written);
}

void cv__etcd_runs_begin(struct cv_store *store, const struct cv_store_runs *runs)
{
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"request_range\":{");
    if (runs->token == 0) {
        cv__etcd_body_print(&body, "\"key\":\"%s\"}}",
                            cv__etcd_encode(store->election.runs, &key64));
    } else {
        cv__etcd_body_range(&body, store->election.queue);
        cv__etcd_body_print(&body,
                            ",\"limit\":\"1\",\"min_create_revision\":\"%" PRIu64
                            "\",\"max_create_revision\":\"%" PRIu64 "\"}}",
                            runs->token, runs->token);
    }
    cv__etcd_ask(store, CV_ETCD_READ, 1, &body, runs->token == 0 ? on_runs_read : on_runs_holder);
}
