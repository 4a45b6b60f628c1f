/* web/engine/words.c - the names of protocols, options, messages, oracles and properties. */
#include "words.h"

#include "base/json.h"
#include "core/options.h"

#include <conclave/oracle.h>

/* Derived options depend on the number of members; this number is assumed. */
#define MEMBERS_SHOWN 5u

static void write_options(struct cv_json *json, const struct cv_protocol *protocol)
{
    struct cv_config config;
    struct cv_errtext why;
    cv_config_init(&config, protocol, 1, MEMBERS_SHOWN);
    const bool is_complete = cv_core_configure(protocol, &config, &why) == CV_OK;
    uint32_t at = 0;
    cv__json_open(json, "options", '[');
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        cv__json_open(json, NULL, '{');
        cv__json_text(json, "name", o->name);
        cv__json_text(json, "default", is_complete ? cv__config_format(&config, o, at, &text) : "");
        cv__json_text(json, "help", o->help);
        cv__json_text(json, "choices", o->kind == CV_OPTION_CHOICE ? o->choices : "");
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
}

static void write_protocol(struct cv_json *json, const struct cv_protocol *protocol)
{
    cv__json_open(json, NULL, '{');
    cv__json_text(json, "name", protocol->name);
    cv__json_text(json, "summary", protocol->summary);
    cv__json_text(json, "cites", protocol->cites);
    cv__json_bool(json, "asks_store", protocol->store_ns != NULL);
    cv__json_bool(json, "asks_sequencer", protocol->sequence_ns != NULL);
    write_options(json, protocol);
    cv__json_open(json, "messages", '[');
    for (uint32_t i = 0; i < protocol->message_count; i++) {
        cv__json_text(json, NULL, protocol->messages[i].name);
    }
    cv__json_close(json, ']');
    cv__json_close(json, '}');
}

void web_words_write(FILE *out)
{
    struct cv_json json = {.out = out};
    const struct cv_protocol *protocol;
    const struct cv_oracle *oracle;
    cv__json_open(&json, NULL, '{');
    cv__json_open(&json, "protocols", '[');
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        write_protocol(&json, protocol);
    }
    cv__json_close(&json, ']');
    cv__json_open(&json, "oracles", '[');
    for (uint32_t i = 0; (oracle = cv_oracle_at(i)) != NULL; i++) {
        cv__json_text(&json, NULL, oracle->name);
    }
    cv__json_close(&json, ']');
    cv__json_open(&json, "properties", '[');
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        cv__json_text(&json, NULL, cv_property_name((enum cv_property)i));
    }
    cv__json_close(&json, ']');
    cv__json_close(&json, '}');
}
