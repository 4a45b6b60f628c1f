/* src/stores/value.c - see value.h. */
#include "stores/value.h"

#include "core/errors.h"
#include "os/clock.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_NS_MAX (24 * 3600 * NS_PER_S) /* no contender of ours asks for more */

/* Prints and frees an object that may be NULL, or half made: then the text is empty. */
static void print_and_free(cJSON *object, bool is_whole, char *ret_text, size_t text_bytes)
{
    if (!is_whole ||
        cJSON_PrintPreallocated(object, ret_text, (int)text_bytes, /* format= */ 0) == 0) {
        ret_text[0] = '\0';
    }
    cJSON_Delete(object);
}

static bool add_number(cJSON *object, const char *name, bool is_hex, uint64_t number)
{
    char text[24];
    if (is_hex) {
        (void)snprintf(text, sizeof text, "%016" PRIx64, number);
    } else {
        (void)snprintf(text, sizeof text, "%" PRIu64, number);
    }
    return cJSON_AddStringToObject(object, name, text) != NULL;
}

void cv__value_write(const char *node, uint64_t label, int64_t lease_ns, int64_t since_wall_ns,
                     const char *version, char ret_text[CV_VALUE_BYTES])
{
    cJSON *object = cJSON_CreateObject();
    const bool is_whole = object != NULL && cJSON_AddStringToObject(object, "node", node) != NULL &&
                          add_number(object, "label", true, label) &&
                          add_number(object, "lease_ns", false, (uint64_t)lease_ns) &&
                          add_number(object, "since_ns", false, (uint64_t)since_wall_ns) &&
                          cJSON_AddStringToObject(object, "version", version) != NULL;
    print_and_free(object, is_whole, ret_text, CV_VALUE_BYTES);
}

static const char *member(const cJSON *object, const char *name, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : otherwise;
}

void cv__value_add(char text[CV_VALUE_BYTES], const char *name, const char *value)
{
    char more[CV_VALUE_BYTES];
    cJSON *object = cJSON_Parse(text);
    const bool is_whole =
        cJSON_IsObject(object) && cJSON_AddStringToObject(object, name, value) != NULL;
    print_and_free(object, is_whole, more, sizeof more);
    if (more[0] != '\0') {
        memcpy(text, more, sizeof more);
    }
}

bool cv__value_has(const char *text, size_t bytes, const char *name, const char *value)
{
    cJSON *object = cJSON_ParseWithLength(text, bytes);
    const bool has = strcmp(member(object, name, ""), value) == 0;
    cJSON_Delete(object);
    return has;
}

void cv__value_read(const char *text, size_t bytes, struct cv_store_record *ret_record)
{
    cJSON *object = cJSON_ParseWithLength(text, bytes);
    const char *node = member(object, "node", "?");
    (void)snprintf(ret_record->node, sizeof ret_record->node, "%s", node[0] != '\0' ? node : "?");
    ret_record->label = strtoull(member(object, "label", "0"), NULL, 16);
    ret_record->lease_ns =
        cv__max64(0, cv__min64(strtoll(member(object, "lease_ns", "0"), NULL, 10), LEASE_NS_MAX));
    ret_record->since_wall_ns = strtoll(member(object, "since_ns", "0"), NULL, 10);
    (void)snprintf(ret_record->version, sizeof ret_record->version, "%s",
                   member(object, "version", ""));
    cJSON_Delete(object);
}

void cv__value_request_write(uint64_t token, const char *heir, char ret_text[CV_VALUE_BYTES])
{
    cJSON *object = cJSON_CreateObject();
    const bool is_whole = object != NULL && add_number(object, "token", false, token) &&
                          cJSON_AddStringToObject(object, "heir", heir) != NULL;
    print_and_free(object, is_whole, ret_text, CV_VALUE_BYTES);
}

void cv__value_request_read(const char *text, size_t bytes, uint64_t token,
                            char ret_heir[CV_NODE_BYTES])
{
    cJSON *object = cJSON_ParseWithLength(text, bytes);
    const bool is_meant = strtoull(member(object, "token", "0"), NULL, 10) == token;
    (void)snprintf(ret_heir, CV_NODE_BYTES, "%s", is_meant ? member(object, "heir", "") : "");
    cJSON_Delete(object);
}

static bool add_end(cJSON *object, const struct cv_store_end *end)
{
    return add_number(object, "token", false, end->token) &&
           cJSON_AddStringToObject(object, "node", end->node) != NULL &&
           (end->why == CV_REASON_STARTED ||
            (cJSON_AddStringToObject(object, "why", cv_reason_name(end->why)) != NULL &&
             add_number(object, "ended_ns", false, (uint64_t)end->wall_ns)));
}

void cv__value_note_write(const struct cv_value_note *note, char ret_text[CV_VALUE_NOTE_BYTES])
{
    cJSON *object = cJSON_CreateObject();
    bool is_whole = object != NULL && add_end(object, &note->of);
    if (is_whole && note->before.token != 0) {
        cJSON *before = cJSON_AddObjectToObject(object, "before");
        is_whole = before != NULL && add_end(before, &note->before);
    }
    print_and_free(object, is_whole, ret_text, CV_VALUE_NOTE_BYTES);
}

static void end_read(const cJSON *object, struct cv_store_end *ret_end)
{
    const enum cv_reason why = cv__reason_find(member(object, "why", ""));
    const bool is_end =
        why != CV_REASON_COUNT && why != CV_REASON_ELECTED && why != CV_REASON_RENEWED;
    *ret_end = (struct cv_store_end){
        .token = strtoull(member(object, "token", "0"), NULL, 10),
        .why = is_end ? why : CV_REASON_STARTED,
        .wall_ns = strtoll(member(object, "ended_ns", "0"), NULL, 10),
    };
    (void)snprintf(ret_end->node, sizeof ret_end->node, "%s", member(object, "node", "?"));
}

void cv__value_note_read(const char *text, size_t bytes, struct cv_value_note *ret_note)
{
    cJSON *object = cJSON_ParseWithLength(text, bytes);
    end_read(object, &ret_note->of);
    end_read(cJSON_GetObjectItemCaseSensitive(object, "before"), &ret_note->before);
    cJSON_Delete(object);
}

void cv__value_note_begin(struct cv_value_note *note, uint64_t token, const char *node)
{
    CV_ASSERT(token != 0);
    /* Tokens grow, unless the store was put back to an earlier state: then nothing is known. */
    note->before = note->of.token < token ? note->of : (struct cv_store_end){.token = 0};
    note->of = (struct cv_store_end){.token = token, .why = CV_REASON_STARTED};
    (void)snprintf(note->of.node, sizeof note->of.node, "%s", node);
}

void cv__value_note_explain(struct cv_value_note *note, const struct cv_store_end *lost)
{
    if (note->of.token != 0 && note->of.token == lost->token && note->of.why == CV_REASON_STARTED) {
        note->of.why = lost->why;
    }
}

void cv__value_note_end(struct cv_value_note *note, uint64_t token, const char *node,
                        enum cv_reason why)
{
    CV_ASSERT(token != 0);
    CV_ASSERT(why != CV_REASON_STARTED); /* otherwise there is nothing to tell */
    *note =
        (struct cv_value_note){.of = {.token = token, .why = why, .wall_ns = cv__clock_wall_ns()}};
    (void)snprintf(note->of.node, sizeof note->of.node, "%s", node);
}

void cv__value_note_tell(const struct cv_value_note *note, struct cv_store_record *record)
{
    const bool is_held = record->node[0] != '\0';
    /* A leadership that another has followed, or that nobody holds any more, has ended, even if the
     * note has no reason. */
    if (!is_held && note->of.token != 0) {
        record->token = note->of.token;
        record->last = note->of;
    } else if (is_held && note->of.token < record->token) {
        record->last = note->of;
    } else if (is_held && note->before.token < record->token) {
        record->last = note->before;
    }
    if (record->last.token != 0 && record->last.why == CV_REASON_STARTED) {
        record->last.why = CV_REASON_GONE;
    }
    record->ended = is_held ? CV_REASON_STARTED : record->last.why;
}
