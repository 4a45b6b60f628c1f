/* src/host/gate.h - keeps sends and leaderships behind the record that must be durable first.
 *
 * A core saves each promise (CV_EFFECT_PERSIST) before it sends it. If the message left first and
 * the process crashed, the promise would be forgotten and could be broken. So effects issued after
 * a record wait until that record is durable.
 *
 * At most two records are pending: one is being saved, one is next. A record that is issued while
 * another is being saved becomes the next one and replaces the previous next one: each record is
 * complete, so only the latest needs to reach the disk. Effects that waited for the replaced record
 * wait for its replacement.
 *
 * Waiting effects are in one queue, in the order they were issued: first those for the record being
 * saved, then those for the next one. There are no record numbers, so two gates in the same
 * situation have the same bytes, as the exhaustive search requires.
 *
 * Pure: no pointer inside, copied by assignment. The caller owns the slots of the queue. Message
 * bytes and sets are referred to by an index that only the host interprets. Time: a few
 * instructions per call. */
#ifndef CV_HOST_GATE_H
#define CV_HOST_GATE_H

#include "core/types.h"

#define CV_KEPT_NONE UINT32_MAX /* the effect or event has no bytes */

/* Everything that a protocol must remember, as it is written to the disk. */
struct cv_gate_record {
    uint32_t word_count;
    uint32_t zero; /* no padding: the bytes are compared and hashed */
    uint64_t word[CV_PERSIST_WORDS_MAX];
};

enum cv_deferred_kind {
    CV_DEFERRED_NOTHING,    /* withdrawn: a newer belief was reported first */
    CV_DEFERRED_SEND,       /* kept: the encoded message */
    CV_DEFERRED_LEADERSHIP, /* kept: the words of its members, if it has any */
};

/* A send or a leadership that waits. No padding, no pointer. */
struct cv_deferred {
    uint64_t token, label;
    int64_t valid_until_ns;
    uint32_t kept; /* the host's index; CV_KEPT_NONE */
    uint32_t word_count;
    cv_id first, last; /* SEND: the receivers; LEADERSHIP: first is the leader */
    uint8_t kind;      /* enum cv_deferred_kind */
    uint8_t reason;    /* enum cv_reason */
    uint8_t to_self, is_self, has_majority;
    uint8_t zero[3];
};

/* Invariants: `next` exists only while a record is being saved; nothing is deferred unless a record
 * is being saved; count_saving <= count <= capacity, and they differ only if there is a next
 * record; after a failure nothing is deferred, saved or let through for the rest of this life. */
struct cv_gate {
    struct cv_gate_record saving, next;
    uint32_t first, count; /* a ring in the caller's slots */
    uint32_t
        count_saving; /* the first ones of the ring, which wait for `saving`; others for `next` */
    uint32_t capacity;
    bool is_saving, has_next, has_failed;
    uint8_t zero[5];
};

void cv__gate_init(struct cv_gate *gate, uint32_t capacity);

/* True: an effect issued now may leave at once. */
static inline bool cv__gate_is_open(const struct cv_gate *gate)
{
    CV_ASSERT(!gate->has_failed || !gate->is_saving); /* a gate that failed saves nothing */
    return !gate->is_saving && !gate->has_failed;
}

static inline bool cv__gate_is_full(const struct cv_gate *gate)
{
    CV_ASSERT(gate->count <= gate->capacity);
    return gate->count == gate->capacity;
}

/* The core issued a record. True: the caller starts to save gate->saving now. Not after a
 * failure. */
CV_NODISCARD bool cv__gate_ask(struct cv_gate *gate, const uint64_t *word, uint32_t word_count);

/* A zeroed slot at the end of the queue, for an effect that waits for the latest record; NULL: the
 * queue is full. Only while a record is being saved. */
struct cv_deferred *cv__gate_defer(struct cv_gate *gate, struct cv_deferred *place);

/* gate->saving is durable. The caller then takes out the effects that waited for it, by
 * cv__gate_release() until it returns false. Then cv__gate_next() tells whether gate->saving holds
 * the next record, which must be saved now. */
void cv__gate_saved(struct cv_gate *gate);
CV_NODISCARD bool cv__gate_release(struct cv_gate *gate, const struct cv_deferred *place,
                                   struct cv_deferred *ret_deferred);
CV_NODISCARD bool cv__gate_next(struct cv_gate *gate);

/* The record cannot be saved. The caller then takes out the waiting effects by cv__gate_drop()
 * until it returns false, and never carries them out. Without a failure, cv__gate_drop() only makes
 * room: the record is still saved. */
void cv__gate_fail(struct cv_gate *gate);
CV_NODISCARD bool cv__gate_drop(struct cv_gate *gate, const struct cv_deferred *place,
                                struct cv_deferred *ret_deferred);

/* The i-th waiting effect, counted from the oldest. */
struct cv_deferred *cv__gate_at(const struct cv_gate *gate, struct cv_deferred *place, uint32_t i);

void cv__gate_check(const struct cv_gate *gate); /* asserts the invariants */

#endif
