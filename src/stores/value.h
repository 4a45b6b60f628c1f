/* src/stores/value.h - what a contender writes about itself into a tree of keys: a JSON object.
 *
 *   {"node":"db1:4711","label":"91ab...","lease_ns":"10000000000","since_ns":"1700000000000000000",
 *    "version":"0.1.0"}
 *
 * Numbers are strings: JSON's own lose digits beyond 2^53. And a resign request, written
 * by somebody else: {"token":"17","heir":"db2"}. And a note, which stays when its leader has gone:
 *
 *   {"token":"17","node":"db1:4711","why":"finished","ended_ns":"1700000000000000000"}
 *
 * A leader leaves it when it gives the leadership back, in one step with that. One that has just
 * begun leaves a note without "why", and with what it found, as a member "before": so a note of an
 * earlier leadership is never taken for one of a later leadership that said nothing. */
#ifndef CV_STORES_VALUE_H
#define CV_STORES_VALUE_H

#include "stores/store.h"

#define CV_VALUE_BYTES 1024 /* with the longest names, every byte of them escaped */

#define CV_VALUE_NOTE_BYTES (2 * CV_VALUE_BYTES)

/* How the latest leadership ended, and the one before it. */
struct cv_value_note {
    struct cv_store_end of, before; /* token 0: there is none */
};

/* The JSON text. */
void cv__value_write(const char *node, uint64_t label, int64_t lease_ns, int64_t since_wall_ns,
                     const char *version, char ret_text[CV_VALUE_BYTES]);

/* Fills in node, label, lease_ns, since_wall_ns and version; the rest of *ret_record stays. What
 * cannot be read becomes "?", 0 and "": somebody holds it, even if we do not understand who. */
void cv__value_read(const char *text, size_t bytes, struct cv_store_record *ret_record);

void cv__value_request_write(uint64_t token, const char *heir, char ret_text[CV_VALUE_BYTES]);

/* The heir, or nothing if the request was meant for another token. */
void cv__value_request_read(const char *text, size_t bytes, uint64_t token,
                            char ret_heir[CV_NODE_BYTES]);

void cv__value_note_write(const struct cv_value_note *note, char ret_text[CV_VALUE_NOTE_BYTES]);

/* What cannot be read is a token of 0, or CV_REASON_STARTED for a reason. */
void cv__value_note_read(const char *text, size_t bytes, struct cv_value_note *ret_note);

/* A leadership has begun: the note as it was becomes what was before it. */
void cv__value_note_begin(struct cv_value_note *note, uint64_t token, const char *node);
/* What we know of the end of an earlier leadership of our own, if the note is about that one and
 * does not say. */
void cv__value_note_explain(struct cv_value_note *note, const struct cv_store_end *lost);
/* ... and is given back. */
void cv__value_note_end(struct cv_value_note *note, uint64_t token, const char *node,
                        enum cv_reason why);

/* What a note tells of an election. Free: token, ended and last. Held: last. */
void cv__value_note_tell(const struct cv_value_note *note, struct cv_store_record *record);

#endif
