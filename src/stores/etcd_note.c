/* src/stores/etcd_note.c - the note in etcd that says how the latest leadership ended, for
 * contenders and commands on other machines.
 *
 * It is a separate key without a lease, beside the resign request. Its texts are in value.h. It is
 * written at two times:
 *   - A leader that releases the leadership writes it in the same transaction that deletes its key:
 *     a reader that finds the key gone also finds the reason, and a successor does not wait longer.
 *   - A leader whose leadership has begun writes it once. It reads the note and writes its own,
 *     with the note that it found. If it dies, this note remains: it led, and left no reason.
 *
 * Why a note never belongs to another leadership than it says. Each is written only if the key of
 * its leadership exists, with the create revision that is its token. While that is the first key,
 * no other contender writes; once it is gone, a late copy of the transaction changes nothing. No
 * election depends on the note: without it, only the reason is not known. */
#include "stores/etcd_store.h"

#include "core/assert.h"

#include <inttypes.h>
#include <string.h>

void cv__etcd_note_read(const cJSON *kv, struct cv_value_note *ret_note)
{
    char text[CV_VALUE_NOTE_BYTES];
    const bool is_whole = cv__etcd_decode(cv__etcd_string(kv, "value"), text, sizeof text);
    cv__value_note_read(text, is_whole ? strlen(text) : 0, ret_note);
}

static void body_put(const struct cv_store *store, const struct cv_value_note *note,
                     struct cv_etcd_body *body)
{
    char text[CV_VALUE_NOTE_BYTES];
    struct cv_text64 key64;
    cv__value_note_write(note, text);
    cv__etcd_body_print(body, "{\"request_put\":{\"key\":\"%s\",\"value\":\"",
                        cv__etcd_encode(store->election.note, &key64));
    cv__etcd_body_text64(body, text);
    cv__etcd_body_print(body, "\"}}");
}

/* Begins a nested transaction that is carried out if our key is there. */
static void body_if_ours(const struct cv_store *store, struct cv_etcd_body *body)
{
    struct cv_text64 key64;
    CV_ASSERT(store->token != 0);
    cv__etcd_body_print(body,
                        "{\"request_txn\":{\"compare\":[{\"key\":\"%s\",\"target\":"
                        "\"CREATE\",\"create_revision\":\"%" PRIu64 "\"}],\"success\":[",
                        cv__etcd_encode(store->election.key, &key64), store->token);
}

void cv__etcd_body_note(const struct cv_store *store, enum cv_reason why, struct cv_etcd_body *body)
{
    struct cv_value_note note;
    cv__value_note_end(&note, store->token, store->remote.node, why);
    body_put(store, &note, body);
}

void cv__etcd_body_give_back(const struct cv_store *store, enum cv_reason why,
                             struct cv_etcd_body *body)
{
    struct cv_text64 key64;
    body_if_ours(store, body);
    cv__etcd_body_print(body, "{\"request_delete_range\":{\"key\":\"%s\"}},",
                        cv__etcd_encode(store->election.key, &key64));
    cv__etcd_body_note(store, why, body);
    /* Otherwise the key is gone, or a request that was carried out late has created it again. */
    cv__etcd_body_print(body, "],\"failure\":[{\"request_delete_range\":{\"key\":\"%s\"}}]}}",
                        key64.text);
}

static void on_written(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->note.txn = NULL;
    store->note.token =
        answer->code == CV_ETCD_OK ? store->token : 0; /* or a later renewal tries */
}

/* These requests end with the grant; a later grant makes them again. */
static void ask(struct cv_store *store, enum cv_etcd_txn_kind kind, struct cv_etcd_body *body,
                cv_etcd_then then)
{
    store->note.txn = cv__etcd_txn(cv__etcd_wire_of(&store->election), kind, /* op_count= */ 1,
                                   kind == CV_ETCD_WRITE ? store->election.queue : NULL, body,
                                   store->granted_until_ns, then, store);
}

static void write_begun(struct cv_store *store)
{
    struct cv_etcd_body body = {0};
    struct cv_value_note note = store->note.found;
    cv__value_note_begin(&note, store->token, store->remote.node);
    body_if_ours(store, &body);
    body_put(store, &note, &body);
    cv__etcd_body_print(&body, "]}}");
    ask(store, CV_ETCD_WRITE, &body, on_written);
}

static void on_read(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    struct cv_etcd_note *note = &store->note;
    note->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        return;
    }
    cv__etcd_note_read(cJSON_GetArrayItem(cv__etcd_kvs(cv__etcd_range(answer, 0)), 0),
                       &note->found);
    if (note->found.of.token == store->token) { /* it was written, but the answer was lost */
        note->found.of = note->found.before;
        note->token = store->token;
    }
    cv__value_note_explain(&note->found, &store->lost);
    note->is_read = true;
    if (note->token == 0) {
        write_begun(store);
    }
}

void cv__etcd_note_begin(struct cv_store *store)
{
    CV_ASSERT(store->token != 0);
    if (store->note.token != 0 || store->note.txn != NULL) {
        return;
    }
    if (store->note.is_read) {
        write_begun(store);
        return;
    }
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"request_range\":{\"key\":\"%s\"}}",
                        cv__etcd_encode(store->election.note, &key64));
    ask(store, CV_ETCD_READ, &body, on_read);
}

void cv__etcd_note_end(struct cv_store *store)
{
    if (store->note.txn != NULL) {
        cv__etcd_txn_cancel(store->note.txn);
    }
    store->note = (struct cv_etcd_note){.token = 0};
}
