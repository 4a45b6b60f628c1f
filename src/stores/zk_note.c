/* src/stores/zk_note.c - the note in ZooKeeper that says how the latest leadership ended, for
 * contenders and commands on other machines.
 *
 * It is the data of the parent node of the queue, so it exists as long as the election. Its texts
 * are in value.h. It is written at two times:
 *   - A leader that releases the leadership writes it in the same transaction that deletes its
 *     node: a reader that finds the node gone also finds the reason, and a successor does not wait
 *     longer.
 *   - A leader whose leadership has begun writes it with its first renewals, with the note that it
 *     found. If it dies, this note remains: it led, and left no reason.
 *
 * Why a note never belongs to another leadership than it says. Each is written only if the node of
 * its leadership exists, and no other node has its name. The second kind is also written only if
 * the note has not changed since it was read. No election depends on the note: without it, only the
 * reason is not known. */
#include "stores/zk_store.h"

#include "core/assert.h"

#include <string.h>

static void note_read(const struct cv_zk_op *op, struct cv_value_note *ret_note)
{
    const char *text = op->rc != ZOK ? "" : op->text != NULL ? op->text : op->value;
    cv__value_note_read(text, strlen(text), ret_note);
}

/* ---- For others ------------------------------------------------------------------------------ */

/* The result of reading the first node follows, and answers. */
static void on_looked(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    note_read(op, &store->seen);
}

void cv__zk_note_look(struct cv_store *store)
{
    store->seen = (struct cv_value_note){.of = {.token = 0}};
    store->wish_seen[0] = '\0';
    cv__zk_get(&store->user, store->election, /* is_watching= */ false, on_looked);
}

static void on_free(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    if (op->rc == ZOK && op->stat.numChildren != store->name_count) {
        cv__zk_begin_again(store); /* the note may be of a contender that is not in the list */
        return;
    }
    note_read(op, &store->seen);
    cv__value_note_tell(&store->seen, &store->record);
    /* The core learns only that it is free; the last token is for people. */
    const struct cv_store_record record = store->record;
    cv__zk_work_end(store);
    cv__remote_answer(&store->remote,
                      (struct cv_store_answer){.verdict = CV_STORE_FREE, .record = &record});
}

void cv__zk_note_answer_free(struct cv_store *store)
{
    cv__zk_get(&store->user, store->election, /* is_watching= */ false, on_free);
}

/* ---- By the leader --------------------------------------------------------------------------- */

static void write_begun(struct cv_store *store)
{
    char text[CV_VALUE_NOTE_BYTES];
    struct cv_value_note note = store->note.found;
    CV_ASSERT(store->token != 0);
    CV_ASSERT(store->note.is_read);
    cv__value_note_begin(&note, store->token, store->remote.node);
    cv__value_note_write(&note, text);
    cv__zk_write_if(&store->user, store->own, store->election, text, store->note.version, NULL);
}

static void on_found(void *user, const struct cv_zk_op *op)
{
    struct cv_store *store = user;
    struct cv_zk_note *note = &store->note;
    note->is_read = op->rc == ZOK;
    if (!note->is_read) {
        return; /* a later renewal reads it again */
    }
    note_read(op, &note->found);
    cv__value_note_explain(&note->found, &store->lost);
    note->version = op->stat.version;
    if (store->token != 0 && note->found.of.token == store->token) {
        note->found.of = note->found.before;
        note->token = store->token;
    } else if (store->token != 0) {
        write_begun(store);
    }
}

void cv__zk_note_ask(struct cv_store *store)
{
    if (store->token == 0 || store->note.token != store->token) {
        store->note = (struct cv_zk_note){.token = 0};
        cv__zk_get(&store->user, store->election, /* is_watching= */ false, on_found);
    }
}

void cv__zk_note_begin(struct cv_store *store)
{
    if (store->note.is_read) {
        write_begun(store);
    }
}

void cv__zk_note_tell(const struct cv_store *store, struct cv_store_record *record)
{
    if (store->note.is_read) {
        cv__value_note_tell(&store->note.found, record);
    }
    if (store->note.token != store->token && record->last.why == CV_REASON_GONE) {
        record->last = (struct cv_store_end){.token = 0}; /* it may have been read too early */
    }
}

void cv__zk_give_back(struct cv_store *store, enum cv_reason why, cv_zk_then then)
{
    char text[CV_VALUE_NOTE_BYTES];
    struct cv_value_note note;
    CV_ASSERT(store->own[0] != '\0');
    cv__value_note_end(&note, store->token, store->remote.node, why);
    cv__value_note_write(&note, text);
    cv__zk_remove_all(&store->user, store->own, 1, NULL, store->election, text, then);
}
