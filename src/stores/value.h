/* src/stores/value.h - what a contender writes about itself into a tree of keys: a JSON object.
 *
 *   {"node":"db1:4711","label":"91ab...","lease_ns":"10000000000","since_ns":"1700000000000000000",
 *    "version":"0.1.0"}
 *
 * Numbers are strings: JSON's own lose digits beyond 2^53. And a resign request, written
 * by somebody else: {"token":"17","heir":"db2"}. */
#ifndef CV_STORES_VALUE_H
#define CV_STORES_VALUE_H

#include "stores/store.h"

#define CV_VALUE_BYTES 1024 /* with the longest names, every byte of them escaped */

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

#endif
