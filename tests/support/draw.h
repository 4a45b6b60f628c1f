/* tests/support/draw.h - random messages, any that a protocol's table of types allows, and random
 * answers of a store. */
#ifndef CV_TESTS_DRAW_H
#define CV_TESTS_DRAW_H

#include "core/types.h"

/* Room for the lists of one message. */
#define DRAW_WORDS(members) (CV_LISTS_MAX * ((members) + 1))

enum draw_manner {
    DRAW_PLAUSIBLE, /* small numbers, sets that are not empty: as a healthy peer sends */
    DRAW_ANYTHING,  /* all that the codec accepts: as a broken peer may send */
};

/* Draws a type and its fields. The lists land in `word`, which holds DRAW_WORDS(members). */
void draw_message(const struct cv_protocol *protocol, uint32_t members, enum draw_manner manner,
                  uint64_t *seed, uint64_t *word, struct cv_message *ret_message);

/* Draws a message of a store: mostly an answer to one of the latest requests, sometimes a
 * notification. */
void draw_answer(enum draw_manner manner, uint64_t *seed, uint64_t latest_request,
                 struct cv_event *ret_event);

#endif
