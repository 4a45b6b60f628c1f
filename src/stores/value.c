/* src/stores/value.c - see value.h. */
#include "stores/value.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_NS_MAX (24 * 3600 * NS_PER_S) /* nobody of ours asks for more */

/* Prints and frees an object that may be NULL, or half made: then the text is empty. */
static void print_and_free(cJSON *object, bool is_whole, char ret_text[CV_VALUE_BYTES])
{
    if (!is_whole ||
        cJSON_PrintPreallocated(object, ret_text, CV_VALUE_BYTES, /* format= */ 0) == 0) {
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
    print_and_free(object, is_whole, ret_text);
}

static const char *member(const cJSON *object, const char *name, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : otherwise;
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
    print_and_free(object, is_whole, ret_text);
}

void cv__value_request_read(const char *text, size_t bytes, uint64_t token,
                            char ret_heir[CV_NODE_BYTES])
{
    cJSON *object = cJSON_ParseWithLength(text, bytes);
    const bool is_meant = strtoull(member(object, "token", "0"), NULL, 10) == token;
    (void)snprintf(ret_heir, CV_NODE_BYTES, "%s", is_meant ? member(object, "heir", "") : "");
    cJSON_Delete(object);
}
