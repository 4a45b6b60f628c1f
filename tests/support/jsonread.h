/* tests/support/jsonread.h - the smallest reader of JSON: is a text valid, and what is at a path?
 *
 * Strict (RFC 8259), without memory of its own: a value is a pointer to its first character. */
#ifndef CV_TESTS_JSONREAD_H
#define CV_TESTS_JSONREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns what follows the value at `at` (blanks may precede it); NULL if the value is not
 * valid. */
const char *json_skip(const char *at);

/* Is this text one value, with nothing but blanks after it? */
bool json_is_valid(const char *text);

/* The value at a path like "messages.by_type.ELECTION" or "views.3.node"; NULL: there is none. */
const char *json_at(const char *text, const char *path);

/* The number at this path; fails the test if there is none. */
double json_number(const char *text, const char *path);
bool json_is_true(const char *text, const char *path);
/* Is the value exactly this string (without escapes)? */
bool json_is_text(const char *text, const char *path, const char *expected);
/* How many elements or members an array or object has. */
uint32_t json_count(const char *text, const char *path);
/* The key of an object's i-th member. */
void json_key(const char *text, const char *path, uint32_t i, char *ret_key, size_t bytes);

#endif
