/* src/runtime/tap.h - passes the events and actions of one core to a recorder, record by record.
 *
 * The records are those of the simulator (core/record.h), so a trace of real processes can be
 * played like a simulated one. A host without a recorder has no tap and does no extra work. */
#ifndef CV_RUNTIME_TAP_H
#define CV_RUNTIME_TAP_H

#include "core/record.h"

/* Called on the thread of the host, from within a step: must be quick, and must not call the
 * host. */
struct cv_recorder {
    void *self;
    /* Before the first record, at the host's start. `label` is the nonce of this start. */
    void (*began)(void *self, const struct cv_protocol *protocol, const struct cv_config *config,
                  uint64_t label);
    /* Instants are of the local clock. A message that was received has no number (0): only its
     * sender numbers it. An ACTION is an event from outside; `what` is its kind, `number`
     * is_candidate. */
    cv_observe *observe;
};

struct cv_tap {
    const struct cv_recorder *recorder; /* lent */
    const struct cv_protocol *protocol;
    const struct cv_config *config; /* lent */
    uint64_t *word;                 /* owned: lists of a message that is sent */
    struct cv_note note[CV_NOTES_MAX];
    int64_t step_ns; /* the instant of the event; its effects have the same */
    uint64_t sent_count;
    cv_id leader; /* the belief that was reported last */
    uint64_t token, label;
};

/* NULL: no memory. Both pointers are lent. */
struct cv_tap *cv__tap_new(const struct cv_recorder *recorder, const struct cv_protocol *protocol,
                           const struct cv_config *config);
void cv__tap_free(struct cv_tap *tap); /* NULL is fine */

void cv__tap_stepped(struct cv_tap *tap, const struct cv_event *event,
                     const struct cv_effects *out);
/* A send to first..last; the bytes are our own encoding. */
void cv__tap_sent(struct cv_tap *tap, const uint8_t *bytes, size_t byte_count, cv_id first,
                  cv_id last);
void cv__tap_told(struct cv_tap *tap, const struct cv_leadership *leadership);
void cv__tap_asked_store(struct cv_tap *tap, const struct cv_effect *effect);
/* PERSIST, PERSIST_FAILED or ASK. */
void cv__tap_note(struct cv_tap *tap, enum cv_record_kind kind, uint64_t number);

#endif
