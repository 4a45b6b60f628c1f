/* src/base/json.h - writing JSON: commas, quotes and exact decimal seconds, nothing else. */
#ifndef CV_BASE_JSON_H
#define CV_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cv_json {
    FILE *out;
    bool needs_comma;
};

/* A key of NULL writes an element of an array. */
void cv__json_open(struct cv_json *json, const char *key, char bracket); /* '{' or '[' */
void cv__json_close(struct cv_json *json, char bracket);                 /* '}' or ']' */
void cv__json_text(struct cv_json *json, const char *key, const char *text);
void cv__json_uint(struct cv_json *json, const char *key, uint64_t value);
void cv__json_bool(struct cv_json *json, const char *key, bool value);
void cv__json_null(struct cv_json *json, const char *key);
void cv__json_text_or_null(struct cv_json *json, const char *key,
                           const char *text); /* empty: null */
void cv__json_double(struct cv_json *json, const char *key, double value);
/* Nanoseconds as seconds, exact, without trailing zeros. */
void cv__json_seconds(struct cv_json *json, const char *key, int64_t ns);
/* The same as text, for people. */
void cv__json_print_seconds(FILE *out, int64_t ns);

#endif
