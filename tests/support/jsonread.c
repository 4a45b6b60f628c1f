/* tests/support/jsonread.c - the smallest reader of JSON. */
#include "support/jsonread.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_string(const char *at)
{
    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20) {
            return NULL; /* also the end of the text */
        }
        if (*at != '\\') {
            continue;
        }
        at++;
        if (*at == 'u') {
            if (strspn(at + 1, "0123456789abcdefABCDEF") < 4) {
                return NULL;
            }
            at += 4;
        } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
            return NULL;
        }
    }
    return at + 1;
}

static const char *skip_digits(const char *at)
{
    if (!is_digit(*at)) {
        return NULL;
    }
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

static const char *skip_number(const char *at)
{
    at += *at == '-';
    if (*at == '0' && is_digit(at[1])) {
        return NULL;
    }
    at = skip_digits(at);
    if (at != NULL && *at == '.') {
        at = skip_digits(at + 1);
    }
    if (at != NULL && (*at == 'e' || *at == 'E')) {
        at++;
        at = skip_digits(at + (*at == '+' || *at == '-'));
    }
    return at;
}

static const char *skip_word(const char *at, const char *word)
{
    const size_t length = strlen(word);
    return strncmp(at, word, length) == 0 ? at + length : NULL;
}

/* An array, or an object with its keys. */
static const char *skip_many(const char *at, bool is_object)
{
    const char end = is_object ? '}' : ']';
    at = skip_blanks(at + 1);
    if (*at == end) {
        return at + 1;
    }
    for (;;) {
        if (is_object) {
            at = skip_string(at);
            at = at != NULL ? skip_blanks(at) : NULL;
            if (at == NULL || *at++ != ':') {
                return NULL;
            }
        }
        at = json_skip(at);
        at = at != NULL ? skip_blanks(at) : NULL;
        if (at == NULL || (*at != ',' && *at != end)) {
            return NULL;
        }
        if (*at++ == end) {
            return at;
        }
        at = skip_blanks(at);
    }
}

const char *json_skip(const char *at)
{
    at = skip_blanks(at);
    switch (*at) {
    case '{':
        return skip_many(at, /* is_object= */ true);
    case '[':
        return skip_many(at, /* is_object= */ false);
    case '"':
        return skip_string(at);
    case 't':
        return skip_word(at, "true");
    case 'f':
        return skip_word(at, "false");
    case 'n':
        return skip_word(at, "null");
    default:
        return skip_number(at);
    }
}

bool json_is_valid(const char *text)
{
    const char *end = json_skip(text);
    return end != NULL && *skip_blanks(end) == '\0';
}

/* Calls for each element; the key is NULL in an array. Stops when `visit` returns false. */
typedef bool visit_element(const char *key, size_t key_bytes, const char *value, void *data);

static void each_element(const char *at, visit_element *visit, void *data)
{
    at = skip_blanks(at);
    assert_true(*at == '{' || *at == '[');
    const bool is_object = *at == '{';
    at = skip_blanks(at + 1);
    while (*at != '}' && *at != ']') {
        const char *key = NULL;
        size_t key_bytes = 0;
        if (is_object) {
            key = at + 1;
            at = skip_string(at);
            assert_non_null(at);
            key_bytes = (size_t)(at - key) - 1;
            at = skip_blanks(at) + 1; /* the colon */
        }
        at = skip_blanks(at);
        if (!visit(key, key_bytes, at, data)) {
            return;
        }
        at = json_skip(at);
        assert_non_null(at);
        at = skip_blanks(at);
        at = *at == ',' ? skip_blanks(at + 1) : at;
    }
}

struct search {
    const char *name; /* the key or the index, as text */
    size_t bytes;
    uint32_t index;
    const char *found;
    const char *found_key;
    size_t found_key_bytes;
};

static bool visit_name(const char *key, size_t key_bytes, const char *value, void *data)
{
    struct search *s = data;
    char index[12];
    const size_t index_bytes = (size_t)snprintf(index, sizeof index, "%u", s->index++);
    const char *name = key != NULL ? key : index;
    const size_t bytes = key != NULL ? key_bytes : index_bytes;
    if (bytes == s->bytes && memcmp(name, s->name, bytes) == 0) {
        s->found = value;
    }
    return s->found == NULL;
}

const char *json_at(const char *text, const char *path)
{
    const char *at = skip_blanks(text);
    while (at != NULL && *path != '\0') {
        struct search s = {.name = path, .bytes = strcspn(path, ".")};
        if (*at != '{' && *at != '[') {
            return NULL;
        }
        each_element(at, visit_name, &s);
        at = s.found;
        path += s.bytes;
        path += *path == '.';
    }
    return at;
}

static const char *must_at(const char *text, const char *path)
{
    const char *at = json_at(text, path);
    if (at == NULL) {
        fail_msg("there is no '%s' in %.200s", path, text);
    }
    return at;
}

double json_number(const char *text, const char *path)
{
    const char *at = must_at(text, path);
    assert_true(*at == '-' || is_digit(*at));
    return strtod(at, NULL);
}

bool json_is_true(const char *text, const char *path)
{
    const char *at = must_at(text, path);
    assert_true(*at == 't' || *at == 'f');
    return *at == 't';
}

bool json_is_text(const char *text, const char *path, const char *expected)
{
    const char *at = must_at(text, path);
    const size_t length = strlen(expected);
    return *at == '"' && strncmp(at + 1, expected, length) == 0 && at[1 + length] == '"';
}

static bool visit_count(const char *key, size_t key_bytes, const char *value, void *data)
{
    (void)key;
    (void)key_bytes;
    (void)value;
    (*(uint32_t *)data)++;
    return true;
}

uint32_t json_count(const char *text, const char *path)
{
    uint32_t count = 0;
    each_element(must_at(text, path), visit_count, &count);
    return count;
}

static bool visit_index(const char *key, size_t key_bytes, const char *value, void *data)
{
    struct search *s = data;
    if (s->index-- == 0) {
        s->found = value;
        s->found_key = key;
        s->found_key_bytes = key_bytes;
    }
    return s->found == NULL;
}

void json_key(const char *text, const char *path, uint32_t i, char *ret_key, size_t bytes)
{
    struct search s = {.index = i};
    each_element(must_at(text, path), visit_index, &s);
    assert_non_null(s.found_key);
    (void)snprintf(ret_key, bytes, "%.*s", (int)s.found_key_bytes, s.found_key);
}
