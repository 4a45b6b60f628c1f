/* src/stores/value.h - the values that contenders write to etcd and ZooKeeper: JSON objects.
 *
 *   {"node":"db1:4711","label":"91ab...","lease_ns":"10000000000","since_ns":"1700000000000000000",
 *    "version":"0.1.0"}
 *
 * Numbers are strings, because numbers of JSON lose digits beyond 2^53. A resign request, written
 * by another process, is {"token":"17","heir":"db2"}. A note stays when its leader is gone:
 *
 *   {"token":"17","node":"db1:4711","why":"finished","ended_ns":"1700000000000000000"}
 *
 * A leader writes it in the same step in which it releases the leadership. A leader that has just
 * begun writes a note without "why", and with the note that it found as a member "before". So a
 * note of an earlier leadership is never taken for one of a later leadership that left none. */
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

/* Adds a member to such a text. If there is no room for it, the text stays as it is. */
void cv__value_add(char text[CV_VALUE_BYTES], const char *name, const char *value);
/* Does the text have this member, with this value? */
bool cv__value_has(const char *text, size_t bytes, const char *name, const char *value);

/* Fills in node, label, lease_ns, since_wall_ns and version; the rest of *ret_record stays. What
 * cannot be read becomes "?", 0 and "": somebody holds it, even if we do not understand who. */
void cv__value_read(const char *text, size_t bytes, struct cv_store_record *ret_record);

void cv__value_request_write(uint64_t token, const char *heir, char ret_text[CV_VALUE_BYTES]);

/* The heir, or nothing if the request was meant for another token. */
void cv__value_request_read(const char *text, size_t bytes, uint64_t token,
                            char ret_heir[CV_NODE_BYTES]);

void cv__value_note_write(const struct cv_value_note *note, char ret_text[CV_VALUE_NOTE_BYTES]);

/* A token that cannot be read becomes 0, a reason becomes CV_REASON_STARTED. */
void cv__value_note_read(const char *text, size_t bytes, struct cv_value_note *ret_note);

/* A leadership has begun: the old note becomes `before`. */
void cv__value_note_begin(struct cv_value_note *note, uint64_t token, const char *node);
/* Adds why an earlier leadership of our own ended, if the note is about that one and has no
 * reason. */
void cv__value_note_explain(struct cv_value_note *note, const struct cv_store_end *lost);
/* A leadership is released. */
void cv__value_note_end(struct cv_value_note *note, uint64_t token, const char *node,
                        enum cv_reason why);

/* Copies what a note says into the record of an election. Free: token, ended and last. Held:
 * last. */
void cv__value_note_tell(const struct cv_value_note *note, struct cv_store_record *record);

#endif
