/* src/stores/etcd_release.c - the end of an attempt: releasing, with or without an heir; and asking
 * the holder to resign.
 *
 * With an heir, the holder deletes, in one transaction with its own key, the keys before the heir's
 * key. Their contenders notice and queue again, behind the heir, with higher revisions; so tokens
 * keep growing, and no contender waits for an absent heir. A resign request is a key under the
 * holder's lease, for one token. */
#include "stores/etcd_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPOSED_MAX 24 /* keys that wait before an heir's and can be deleted at once */

/* ---- Attempts ------------------------------------------------------------------------------ */

void cv__etcd_attempt_key(const struct cv_store *store, uint64_t attempt,
                          char ret_key[CV_ETCD_KEY_BYTES])
{
    const int length = snprintf(ret_key, CV_ETCD_KEY_BYTES, "%s%016" PRIx64 "-%" PRIu64,
                                store->election.queue, store->remote.label, attempt);
    CV_ASSERT(length > 0 && (size_t)length < CV_ETCD_KEY_BYTES);
}

void cv__etcd_attempt_forget(struct cv_store *store, enum cv_reason why)
{
    if (store->token != 0) {
        store->lost = (struct cv_store_end){.token = store->token, .why = why};
    }
    cv__etcd_ready_end(store);
    cv__etcd_note_end(store);
    (void)uv_timer_stop(&store->lapse);
    cv__etcd_watch(&store->election, CV_ETCD_NOTHING, NULL, 0);
    store->election.has_key = false;
    store->election.key[0] = '\0';
    cv__etcd_lease_leave(&store->election);
    store->attempt = 0;
    store->look.own = (struct cv_etcd_key){.is_there = false};
    store->token = 0;
    store->granted_until_ns = 0;
    store->is_lost = false;
    store->is_queued = store->is_taken = false;
}

void cv__etcd_attempt_delete(struct cv_store *store, uint64_t attempt, enum cv_reason why,
                             cv_etcd_then then)
{
    char key[CV_ETCD_KEY_BYTES];
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    if (attempt == store->attempt && store->token != 0 && why != CV_REASON_STARTED) {
        cv__etcd_body_give_back(store, why, &body);
    } else {
        cv__etcd_attempt_key(store, attempt, key);
        cv__etcd_body_print(&body, "{\"request_delete_range\":{\"key\":\"%s\"}}",
                            cv__etcd_encode(key, &key64));
    }
    cv__etcd_ask(store, CV_ETCD_WRITE, 1, &body, then);
}

/* ---- Releasing ----------------------------------------------------------------------------- */

static enum cv_reason why_released(const struct cv_store_request *request)
{
    return request->reason != CV_REASON_STARTED ? request->reason : CV_REASON_RESIGNED;
}

static void on_released(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const struct cv_store_request *request = &cv__remote_current(&store->remote)->ask;
    if (store->attempt == request->attempt) {
        cv__etcd_attempt_forget(store, why_released(request));
    }
    /* Tells who is first now, and so holds the election: then we need not stand back. */
    cv__etcd_look(store, cv__etcd_answer_plain);
}

static void on_deposed(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    const struct cv_store_request *request = &cv__remote_current(&store->remote)->ask;
    (void)answer; /* whether or not the heir is first now, we are not */
    store->txn = NULL;
    cv__etcd_attempt_delete(store, request->attempt, why_released(request), on_released);
}

/* Prints the deletion of our key and of those before the heir's. False: there is no such heir. */
static bool depose_body(struct cv_store *store, const cJSON *range,
                        const struct cv_remote_request *one, struct cv_etcd_body *body)
{
    struct cv_text64 key64;
    uint32_t count = 0;
    const cJSON *kv;
    cv__etcd_body_print(
        body,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[",
        cv__etcd_encode(store->election.key, &key64), store->token);
    cJSON_ArrayForEach(kv, cv__etcd_kvs(range))
    {
        struct cv_etcd_key key;
        char name[CV_ETCD_KEY_BYTES];
        struct cv_store_record record = {0};
        if (!cv__etcd_key_read(store, kv, &key, name)) {
            continue;
        }
        cv__value_read(key.value, strlen(key.value), &record);
        if (count > 0 && strcmp(record.node, one->heir) == 0) {
            cv__etcd_body_print(body, ",");
            cv__etcd_body_note(store, why_released(&one->ask), body);
            cv__etcd_body_print(body, "]}");
            return true;
        }
        cv__etcd_body_print(body, "%s{\"request_delete_range\":{\"key\":\"%s\"}}",
                            count > 0 ? "," : "", cv__etcd_encode(name, &key64));
        count++;
    }
    return false;
}

/* The queue is known: take out ourselves and those before the heir. */
static void on_queue(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    struct cv_etcd_body body = {0};
    store->txn = NULL;
    if (answer->code == CV_ETCD_OK && depose_body(store, cv__etcd_range(answer, 0), one, &body)) {
        cv__etcd_ask(store, CV_ETCD_ALONE, 1, &body, on_deposed);
    } else {
        free(body.text);
        cv__etcd_attempt_delete(store, one->ask.attempt, why_released(&one->ask), on_released);
    }
}

void cv__etcd_release(struct cv_store *store, const struct cv_store_request *request)
{
    const bool is_ours = store->attempt == request->attempt;
    if (is_ours) {
        cv__etcd_watch(&store->election, CV_ETCD_NOTHING, NULL, 0);
    }
    if (!is_ours || request->heir == NULL || store->token == 0 || store->is_lost) {
        cv__etcd_attempt_delete(store, request->attempt, why_released(request), on_released);
        return;
    }
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"request_range\":{");
    cv__etcd_body_range(&body, store->election.queue);
    cv__etcd_body_print(&body,
                        ",\"limit\":\"%d\",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"}}",
                        DEPOSED_MAX + 1);
    cv__etcd_ask(store, CV_ETCD_READ, 1, &body, on_queue);
}

/* ---- Asking to resign ---------------------------------------------------------------------- */

static void on_requested(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK && answer->code != CV_ETCD_NOT_FOUND) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const bool is_left = answer->code == CV_ETCD_OK &&
                         cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer->reply, "succeeded"));
    if (!is_left) {
        store->look.first.is_there = false; /* the holder's key was deleted in the meantime */
    }
    cv__etcd_answer_plain(store);
}

void cv__etcd_request_resign(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const struct cv_etcd_key *first = &store->look.first;
    if (!first->is_there) {
        cv__etcd_answer_plain(store);
        return;
    }
    struct cv_text64 first64, key64, value64;
    char value[CV_VALUE_BYTES];
    struct cv_etcd_body body = {0};
    cv__value_request_write(first->create_revision, one->heir[0] != '\0' ? one->heir : "*", value);
    cv__etcd_body_print(
        &body,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}]}",
        cv__etcd_encode(store->look.first_key, &first64), first->create_revision,
        cv__etcd_encode(store->election.request, &key64), cv__etcd_encode(value, &value64),
        first->lease);
    cv__etcd_ask(store, CV_ETCD_ALONE, 1, &body, on_requested);
}
