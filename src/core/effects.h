/* src/core/effects.h - functions by which a core issues its effects.
 *
 * Effects are data, carried out by the host in the order of these calls. Each step has room for
 * CV_EFFECTS_MAX of them; a core that needs more is wrong, and an assertion fails. */
#ifndef CV_CORE_EFFECTS_H
#define CV_CORE_EFFECTS_H

#include "core/types.h"

/* A message of that type to one member, to a range of them, or to all others. The fields of the
 * returned message are zero; the caller fills them in before the step ends. */
struct cv_message *cv__effect_send(struct cv_effects *out, cv_id to, uint32_t type);
struct cv_message *cv__effect_send_range(struct cv_effects *out, cv_id first, cv_id last,
                                         uint32_t type);
struct cv_message *cv__effect_send_all(struct cv_effects *out, uint32_t type);

/* Copies words into the step's storage, so that a message or a leadership can point to them. */
struct cv_list cv__effect_list(struct cv_effects *out, const uint64_t *word, uint32_t word_count);

/* The timer fires once at an instant in [earliest, latest] of the local clock. Arming replaces. */
void cv__effect_arm(struct cv_effects *out, uint32_t timer, int64_t earliest_ns, int64_t latest_ns);
void cv__effect_disarm(struct cv_effects *out, uint32_t timer);

/* Replaces the durable record. Sends that follow, in this step or later, wait for it, unless their
 * type promises nothing (is_free). */
void cv__effect_persist(struct cv_effects *out, const uint64_t *word, uint32_t word_count);

void cv__effect_leadership(struct cv_effects *out, const struct cv_leadership *leadership);

/* Asks the sequencer for a number above `reference` (CV_SEQUENCE_NONE: any). Requests are numbered
 * from 1. */
void cv__effect_ask_sequence(struct cv_effects *out, uint64_t request, uint64_t reference);

/* Asks the store; see enum cv_store_verb. Requests are numbered from 1. */
void cv__effect_ask_store(struct cv_effects *out, enum cv_store_verb verb, uint64_t request,
                          uint64_t attempt, uint64_t token, int64_t lease_ns);

/* Notes why the core refuses or ignores something; the text is a literal, see struct cv_note. */
static inline void cv__effect_note(struct cv_effects *out, const char *text, cv_id peer,
                                   int64_t time_ns, uint64_t number)
{
    if (out->note != NULL && out->note_count < CV_NOTES_MAX) {
        out->note[out->note_count++] =
            (struct cv_note){.text = text, .peer = peer, .time_ns = time_ns, .number = number};
    }
}

#endif
