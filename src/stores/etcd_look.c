/* src/stores/etcd_look.c - reads the queue of an election in etcd.
 *
 * One linearizable transaction decides which key holds the election, so the first key, our own key,
 * the resign request and the note are of the same instant. Foreign keys are ignored: if one of them
 * is in front, all names are read, and then the first one of ours. */
#include "stores/etcd_store.h"

#include "core/assert.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS_MAX 8     /* of one request: looks, and leases to put our key under */
#define FOREIGN_MAX 2000 /* foreign keys that may stand before the first of ours */

void cv__etcd_fail(struct cv_store *store, const char *why)
{
    const struct cv_etcd_wire *wire = cv__etcd_wire_of(&store->election);
    if (cv__etcd_wire_is_named(wire, why)) { /* by then, another one may be asked */
        cv__remote_fail(&store->remote, "etcd: %s", why);
    } else {
        cv__remote_fail(&store->remote, "etcd %s: %s", cv__etcd_wire_host(wire), why);
    }
}

void cv__etcd_ask(struct cv_store *store, enum cv_etcd_txn_kind kind, uint32_t op_count,
                  struct cv_etcd_body *body, cv_etcd_then then)
{
    CV_ASSERT(store->txn == NULL);
    store->txn = cv__etcd_txn(cv__etcd_wire_of(&store->election), kind, op_count,
                              kind == CV_ETCD_WRITE ? store->election.queue : NULL, body,
                              store->deadline_ns, then, store);
    if (store->txn == NULL) {
        cv__etcd_fail(store, "out of memory");
    }
}

bool cv__etcd_round_begin(struct cv_store *store)
{
    if (store->round_count++ < ROUNDS_MAX) {
        return true;
    }
    cv__etcd_fail(store,
                  "the cluster keeps changing its leader, or the lease is lost again and again");
    return false;
}

/* Sixteen digits, a dash, a number: the shape of our keys, below the queue's name. */
static bool is_our_key(const struct cv_store *store, const char *key)
{
    const size_t length = strlen(store->election.queue);
    if (strncmp(key, store->election.queue, length) != 0) {
        return false;
    }
    key += length;
    const size_t digits = strspn(key, "0123456789abcdef");
    return digits == 16 && key[16] == '-' && key[17] != '\0' &&
           key[17 + strspn(key + 17, "0123456789")] == '\0';
}

bool cv__etcd_key_read(const struct cv_store *store, const cJSON *kv, struct cv_etcd_key *ret_key,
                       char *ret_name)
{
    char name[CV_ETCD_KEY_BYTES];
    *ret_key = (struct cv_etcd_key){.is_there = false};
    const int64_t lease = cv__etcd_number_to(kv, "lease", INT64_MAX);
    const uint64_t create_revision = cv__etcd_number(kv, "create_revision");
    if (lease == 0 || create_revision == 0 ||
        !cv__etcd_decode(cv__etcd_string(kv, "key"), name, sizeof name) ||
        !is_our_key(store, name)) {
        return false;
    }
    ret_key->is_there = true;
    ret_key->create_revision = create_revision;
    ret_key->lease = lease;
    (void)cv__etcd_decode(cv__etcd_string(kv, "value"), ret_key->value, sizeof ret_key->value);
    if (ret_name != NULL) {
        memcpy(ret_name, name, strlen(name) + 1);
    }
    return true;
}

const cJSON *cv__etcd_kvs(const cJSON *range)
{
    return cJSON_GetObjectItemCaseSensitive(range, "kvs");
}

const cJSON *cv__etcd_range(const struct cv_etcd_answer *answer, int index)
{
    const cJSON *responses = cJSON_GetObjectItemCaseSensitive(answer->reply, "responses");
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(responses, answer->part + index),
                                            "response_range");
}

/* Four ranges: the first key of the queue, ours, the resign request, the note. */
static void body_looks(const struct cv_store *store, struct cv_etcd_body *body)
{
    struct cv_text64 key64;
    cv__etcd_body_print(body, "{\"request_range\":{");
    if (store->look_mode == CV_ETCD_LOOK_KNOWN) {
        cv__etcd_body_print(body, "\"key\":\"%s\"", cv__etcd_encode(store->look.first_key, &key64));
    } else {
        cv__etcd_body_range(body, store->election.queue);
        cv__etcd_body_print(body,
                            ",\"limit\":\"%d\",\"sort_order\":\"ASCEND\",\"sort_target\":"
                            "\"CREATE\",\"keys_only\":%s",
                            store->look_mode == CV_ETCD_LOOK_ALL ? FOREIGN_MAX : 1,
                            store->look_mode == CV_ETCD_LOOK_ALL ? "true" : "false");
    }
    cv__etcd_body_print(
        body, "}},{\"request_range\":{\"key\":\"%s\"}},",
        cv__etcd_encode(store->attempt != 0 ? store->election.key : store->election.request,
                        &key64));
    cv__etcd_body_print(body, "{\"request_range\":{\"key\":\"%s\"}},",
                        cv__etcd_encode(store->election.request, &key64));
    cv__etcd_body_print(body, "{\"request_range\":{\"key\":\"%s\"}}",
                        cv__etcd_encode(store->election.note, &key64));
}

/* The first key of ours in the range. False: there is none. */
static bool first_read(struct cv_store *store, const cJSON *range)
{
    const cJSON *kv;
    store->look.first = (struct cv_etcd_key){.is_there = false};
    cJSON_ArrayForEach(kv, cv__etcd_kvs(range))
    {
        if (cv__etcd_key_read(store, kv, &store->look.first, store->look.first_key)) {
            return true;
        }
    }
    return false;
}

static void look(struct cv_store *store, enum cv_etcd_look_mode mode,
                 void (*looked)(struct cv_store *store));

/* Goes on with `looked` when it is known who is first. */
static void look_read(struct cv_store *store, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_look *seen = &store->look;
    const cJSON *range = cv__etcd_range(answer, 0);
    const enum cv_etcd_look_mode mode = store->look_mode;
    seen->revision = answer->revision;
    store->has_looked = true;
    const bool is_found = first_read(store, range);
    const bool is_foreign = !is_found && cJSON_GetArraySize(cv__etcd_kvs(range)) > 0;
    const cJSON *own = cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 1)), 0);
    (void)cv__etcd_key_read(store, store->attempt != 0 ? own : NULL, &seen->own, NULL);
    const cJSON *request = cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 2)), 0);
    seen->request = (struct cv_etcd_key){.is_there = request != NULL};
    (void)cv__etcd_decode(cv__etcd_string(request, "value"), seen->request.value,
                          sizeof seen->request.value);
    cv__etcd_note_read(cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 3)), 0), &seen->note);
    if (mode == CV_ETCD_LOOK_FIRST && is_foreign) {
        look(store, CV_ETCD_LOOK_ALL, store->looked);
    } else if (mode == CV_ETCD_LOOK_ALL && is_foreign &&
               cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(range, "more"))) {
        cv__etcd_fail(store, "too many keys below the prefix are not Conclave's");
    } else if (mode == CV_ETCD_LOOK_ALL && is_found) {
        look(store, CV_ETCD_LOOK_KNOWN, store->looked);
    } else if (mode == CV_ETCD_LOOK_KNOWN && !is_found) {
        look(store, CV_ETCD_LOOK_ALL, store->looked); /* it was deleted in the meantime */
    } else {
        store->looked(store);
    }
}

static void on_look(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
    } else {
        look_read(store, answer);
    }
}

static void look(struct cv_store *store, enum cv_etcd_look_mode mode,
                 void (*looked)(struct cv_store *store))
{
    struct cv_etcd_body body = {0};
    if (!cv__etcd_round_begin(store)) {
        return;
    }
    store->looked = looked;
    store->look_mode = mode;
    body_looks(store, &body);
    cv__etcd_ask(store, CV_ETCD_READ, 4, &body, on_look);
}

void cv__etcd_look(struct cv_store *store, void (*looked)(struct cv_store *store))
{
    look(store, CV_ETCD_LOOK_FIRST, looked);
}

void cv__etcd_record_read(const struct cv_store *store, struct cv_store_record *ret_record)
{
    const struct cv_etcd_look *seen = &store->look;
    *ret_record = (struct cv_store_record){0};
    if (seen->first.is_there) {
        cv__value_read(seen->first.value, strlen(seen->first.value), ret_record);
        ret_record->token = seen->first.create_revision;
        ret_record->remaining_ns = ret_record->lease_ns; /* at most; READ asks */
    }
    if (seen->request.is_there) {
        cv__value_request_read(seen->request.value, strlen(seen->request.value), ret_record->token,
                               ret_record->resign_request);
    }
    cv__value_note_tell(&seen->note, ret_record);
}

void cv__etcd_answer_seen(struct cv_store *store, int64_t remaining_ns)
{
    struct cv_store_record record;
    cv__etcd_record_read(store, &record);
    struct cv_store_answer answer = {.verdict = CV_STORE_FREE, .record = &record};
    if (store->look.first.is_there) {
        record.remaining_ns = remaining_ns >= 0 ? remaining_ns : record.remaining_ns;
        answer.verdict = CV_STORE_HELD;
        answer.token = record.token;
        answer.holder = record.label;
        answer.duration_ns = cv__max64(record.lease_ns, NS_PER_S);
    }
    cv__remote_answer(&store->remote, answer);
}

void cv__etcd_answer_plain(struct cv_store *store)
{
    cv__etcd_answer_seen(store, /* remaining_ns= */ -1);
}
