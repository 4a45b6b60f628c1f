/* src/host/gate.c - keeps effects behind the record that must be durable first; see gate.h. */
#include "host/gate.h"

#include <string.h>

void cv__gate_init(struct cv_gate *gate, uint32_t capacity)
{
    CV_ASSERT(capacity > 0);
    memset(gate, 0, sizeof *gate);
    gate->capacity = capacity;
}

void cv__gate_check(const struct cv_gate *gate)
{
    CV_ASSERT(gate->count <= gate->capacity);
    CV_ASSERT(gate->count_saving <= gate->count);
    CV_ASSERT(gate->is_saving || !gate->has_next);
    CV_ASSERT(gate->is_saving || gate->count == 0);
    CV_ASSERT(gate->has_next || gate->count_saving == gate->count);
    CV_ASSERT(!gate->has_failed || !gate->is_saving);
}

static void record_set(struct cv_gate_record *record, const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(word_count > 0); /* a record is never empty */
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    memset(record, 0, sizeof *record);
    record->word_count = word_count;
    memcpy(record->word, word, word_count * sizeof *word);
}

bool cv__gate_ask(struct cv_gate *gate, const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(!gate->has_failed);
    if (gate->is_saving) {
        record_set(&gate->next, word, word_count);
        gate->has_next = true;
        return false;
    }
    CV_ASSERT(gate->count == 0); /* the effects of earlier records have left */
    record_set(&gate->saving, word, word_count);
    gate->is_saving = true;
    return true;
}

struct cv_deferred *cv__gate_at(const struct cv_gate *gate, struct cv_deferred *place, uint32_t i)
{
    CV_ASSERT(i < gate->count);
    return &place[(gate->first + i) % gate->capacity];
}

struct cv_deferred *cv__gate_defer(struct cv_gate *gate, struct cv_deferred *place)
{
    CV_ASSERT(gate->is_saving); /* otherwise nothing would ever release it */
    if (cv__gate_is_full(gate)) {
        return NULL;
    }
    gate->count++;
    gate->count_saving += gate->has_next ? 0 : 1;
    struct cv_deferred *deferred = cv__gate_at(gate, place, gate->count - 1);
    memset(deferred, 0, sizeof *deferred);
    deferred->kept = CV_KEPT_NONE;
    cv__gate_check(gate);
    return deferred;
}

static struct cv_deferred take(struct cv_gate *gate, const struct cv_deferred *place)
{
    CV_ASSERT(gate->count > 0);
    CV_ASSERT(gate->first < gate->capacity);
    const struct cv_deferred deferred = place[gate->first];
    gate->count--;
    /* An empty ring starts again at 0: it touches little memory, and equal states have equal
     * bytes. */
    gate->first = gate->count > 0 ? (gate->first + 1) % gate->capacity : 0;
    return deferred;
}

void cv__gate_saved(struct cv_gate *gate)
{
    CV_ASSERT(gate->is_saving);
    CV_ASSERT(!gate->has_failed);
    cv__gate_check(gate);
    gate->is_saving = false;
}

bool cv__gate_release(struct cv_gate *gate, const struct cv_deferred *place,
                      struct cv_deferred *ret_deferred)
{
    CV_ASSERT(!gate->is_saving); /* nothing leaves before its record is saved */
    CV_ASSERT(!gate->has_failed);
    CV_ASSERT(gate->count_saving <= gate->count);
    if (gate->count_saving == 0) {
        return false;
    }
    gate->count_saving--;
    *ret_deferred = take(gate, place);
    return true;
}

bool cv__gate_next(struct cv_gate *gate)
{
    CV_ASSERT(gate->count_saving == 0); /* the effects of the previous record have left */
    CV_ASSERT(!gate->is_saving);
    if (gate->has_next) {
        gate->saving = gate->next;
        memset(&gate->next, 0, sizeof gate->next);
        gate->has_next = false;
        gate->is_saving = true;
        gate->count_saving = gate->count;
    }
    cv__gate_check(gate);
    return gate->is_saving;
}

void cv__gate_fail(struct cv_gate *gate)
{
    CV_ASSERT(!gate->has_failed);
    gate->has_failed = true;
    gate->is_saving = false;
    gate->has_next = false;
    gate->count_saving = 0;
    CV_ASSERT(!cv__gate_is_open(gate));
}

bool cv__gate_drop(struct cv_gate *gate, const struct cv_deferred *place,
                   struct cv_deferred *ret_deferred)
{
    if (gate->count == 0) {
        return false;
    }
    gate->count_saving -= gate->count_saving > 0;
    *ret_deferred = take(gate, place);
    return true;
}
