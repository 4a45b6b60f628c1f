/* src/cli/cmd_protocols.c - `conclave protocols [NAME] [--json]`: lists the protocols and
 * what each promises. */
#include "base/json.h"
#include "cli/cli.h"
#include "core/core.h"
#include "core/options.h"
#include "core/text.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* Derived options depend on the number of members; defaults are shown for this many. */
#define MEMBERS_SHOWN 5u

static bool config_of(const struct cv_protocol *protocol, struct cv_config *ret_config)
{
    cv_config_init(ret_config, protocol, 1, MEMBERS_SHOWN);
    struct cv_errtext why;
    if (cv_core_configure(protocol, ret_config, &why) != CV_OK) {
        cv__complain("the defaults of '%s' are refused: %s", protocol->name, why.text);
        return false;
    }
    return true;
}

static void json_protocol(struct cv_json *json, const struct cv_protocol *protocol,
                          const struct cv_config *config)
{
    cv__json_open(json, NULL, '{');
    cv__json_text(json, "name", protocol->name);
    cv__json_text(json, "summary", protocol->summary);
    cv__json_text(json, "leads", protocol->leads);
    cv__json_text(json, "cites", protocol->cites);
    uint32_t promises;
    uint32_t assumes;
    cv__core_contract(protocol, config, &promises, &assumes);
    cv__json_open(json, "promises", '[');
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if (promises & BIT(i)) {
            cv__json_text(json, NULL, cv_property_name((enum cv_property)i));
        }
    }
    cv__json_close(json, ']');
    cv__json_open(json, "assumes", '[');
    for (uint32_t i = 0; i < CV_ASSUME_COUNT; i++) {
        if (assumes & BIT(i)) {
            cv__json_text(json, NULL, cv_assume_text((enum cv_assume)i));
        }
    }
    cv__json_close(json, ']');
    cv__json_open(json, "options", '[');
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        cv__json_open(json, NULL, '{');
        cv__json_text(json, "name", o->name);
        cv__json_text(json, "default", cv__config_format(config, o, at, &text));
        cv__json_bool(json, "derived", o->initial == CV_OPTION_DERIVED);
        cv__json_text(json, "help", o->help);
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
    cv__json_open(json, "messages", '[');
    for (uint32_t i = 0; i < protocol->message_count; i++) {
        cv__json_text(json, NULL, protocol->messages[i].name);
    }
    cv__json_close(json, ']');
    cv__json_seconds(json, "settles_within_s", protocol->settle_ns(config));
    if (protocol->timely_ns != NULL) {
        cv__json_seconds(json, "on_time_s", protocol->timely_ns(config));
    }
    if (protocol->kappa_ns != NULL) {
        cv__json_seconds(json, "kappa_s", protocol->kappa_ns(config));
    }
    cv__json_close(json, '}');
}

static void print_words(const char *head, uint32_t bits, uint32_t count,
                        const char *(*word)(uint32_t index), const char *separator)
{
    (void)printf("%s", head);
    bool is_first = true;
    for (uint32_t i = 0; i < count; i++) {
        if (bits & BIT(i)) {
            (void)printf("%s%s", is_first ? "" : separator, word(i));
            is_first = false;
        }
    }
    (void)printf("%s\n", is_first ? "nothing" : "");
}

static const char *property_word(uint32_t index)
{
    return cv_property_name((enum cv_property)index);
}

static const char *assume_word(uint32_t index)
{
    return cv_assume_text((enum cv_assume)index);
}

static void print_protocol(const struct cv_protocol *protocol, const struct cv_config *config)
{
    (void)printf("%s: %s\n", protocol->name, protocol->summary);
    (void)printf("  leads:    %s\n", protocol->leads);
    uint32_t promises;
    uint32_t assumes;
    cv__core_contract(protocol, config, &promises, &assumes);
    print_words("  promises: ", promises, CV_PROPERTY_COUNT, property_word, ", ");
    print_words("  assumes:  ", assumes, CV_ASSUME_COUNT, assume_word, "\n            ");
    if (protocol->timely_ns != NULL) {
        (void)printf("  on time:  within ");
        cv__json_print_seconds(stdout, protocol->timely_ns(config));
        (void)printf("s\n");
    }
    if (!(promises & CV_PROP(AT_MOST_ONE_LEADER))) {
        (void)printf(
            "  so:       two leaders at once are possible; protect resources with the token\n");
    }
    if (protocol->kappa_ns != NULL) {
        (void)printf("  kappa:    ");
        cv__json_print_seconds(stdout, protocol->kappa_ns(config));
        (void)printf("s, the bound of timeliness and of bounded inconsistency\n");
    }
    (void)printf("  settles:  within ");
    cv__json_print_seconds(stdout, protocol->settle_ns(config));
    (void)printf("s once its assumptions hold (%u members)\n  from:     %s\n  options:\n",
                 config->member_count, protocol->cites);
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        char setting[CV_TEXT_BYTES + 32];
        (void)snprintf(setting, sizeof setting, "%s=%s", o->name,
                       cv__config_format(config, o, at, &text));
        (void)printf("    %-22s %s%s%s\n", setting, o->help,
                     o->kind == CV_OPTION_CHOICE ? ": " : "",
                     o->kind == CV_OPTION_CHOICE ? o->choices : "");
    }
}

static void print_list(void)
{
    const struct cv_protocol *protocol;
    (void)printf("%-16s %-36s %s\n", "protocol", "who leads", "two leaders at once?");
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        struct cv_config config;
        uint32_t promises = 0;
        uint32_t assumes;
        if (config_of(protocol, &config)) {
            cv__core_contract(protocol, &config, &promises, &assumes);
        }
        (void)printf("%-16s %-36s %s\n", protocol->name, protocol->leads,
                     promises & CV_PROP(AT_MOST_ONE_LEADER) ? "never" : "possible");
    }
    (void)printf(
        "\n"
        "'conclave protocols NAME' shows what a protocol promises and assumes, and its options.\n");
}

int cv__cli_unknown_protocol(const char *name)
{
    const char *known[CV_WORDS_MAX + 1];
    uint32_t count = 0;
    for (; cv_protocol_at(count) != NULL; count++) {
        CV_ASSERT(count < CV_WORDS_MAX);
        known[count] = cv_protocol_at(count)->name;
    }
    known[count] = NULL;
    return cv__command_unknown("protocol", name, known);
}

static int run(int argc, char **argv)
{
    bool is_json;
    if (!cv__command_json(argc, argv, &is_json)) {
        return EXIT_USAGE;
    }
    if (!is_json && optind == argc) {
        print_list();
        return EXIT_FINE;
    }
    for (int i = optind; i < argc; i++) {
        if (cv_protocol_find(argv[i]) == NULL) {
            return cv__cli_unknown_protocol(argv[i]);
        }
    }
    struct cv_json json = {.out = stdout};
    if (is_json) {
        cv__json_open(&json, NULL, '[');
    }
    const bool shows_all = optind == argc;
    for (int i = optind; shows_all || i < argc; i++) {
        const uint32_t index = (uint32_t)(i - optind);
        const struct cv_protocol *protocol =
            shows_all ? cv_protocol_at(index) : cv_protocol_find(argv[i]);
        struct cv_config config;
        if (protocol == NULL) {
            break; /* after the last protocol */
        }
        if (!config_of(protocol, &config)) {
            return EXIT_USAGE;
        }
        if (is_json) {
            json_protocol(&json, protocol, &config);
        } else {
            print_protocol(protocol, &config);
        }
    }
    if (is_json) {
        cv__json_close(&json, ']');
        (void)printf("\n");
    }
    return EXIT_FINE;
}

const struct cv_verb cv__verb_protocols = {
    .name = "protocols",
    .summary = "list the election protocols and what each promises",
    .help = "usage: conclave protocols [NAME...] [--json]\n\n"
            "Lists the election protocols. With names, prints what each promises, under which\n"
            "assumptions, and its options with their defaults (for 5 members).\n\n"
            "  --json    print a list of objects\n",
    .run = run,
    .is_told = true,
};
