/* fuzz/fuzz_words.c - words of a command line: times, numbers, names, options, suggestions.
 *
 * Input: a byte that says what the word is meant to be, then the word. */
#include "fuzz.h"

#include "base/command.h"
#include "core/duration.h"
#include "core/options.h"
#include "core/text.h"
#include "runtime/period.h"

#include <stdlib.h>
#include <string.h>

static void time_word(const char *word)
{
    int64_t ns, again, s;
    char text[CV_DURATION_TEXT_BYTES];
    if (cv__duration_parse(word, &ns) &&
        (!cv__duration_parse(cv__duration_format(ns, text), &again) || again != ns)) {
        fuzz_found("a time that is written differently");
    }
    (void)cv__command_time("--lease", word, &ns);
    (void)cv__decimal_parse(word, &ns);
    if (cv__period_parse(word, &s)) {
        struct cv_errtext err = {""};
        struct cv_period_rule rule = {.every_s = s, .tolerance_ms = -1};
        if (cv__period_check(&rule, &err) != CV_OK && err.text[0] == '\0') {
            fuzz_found("a failure without a reason");
        }
    }
}

/* PROTOCOL-NUMBER NAME=VALUE */
static void option_word(uint8_t number, char *word)
{
    uint32_t count = 0;
    while (cv_protocol_at(count) != NULL) {
        count++;
    }
    const struct cv_protocol *protocol = cv_protocol_at(number % count);
    struct cv_config config;
    struct cv_errtext err = {""};
    cv_config_init(&config, protocol, 1, 5);
    char *rest = NULL;
    for (char *one = strtok_r(word, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(one, '=');
        if (value != NULL) {
            *value++ = '\0';
            (void)cv_config_set(&config, protocol, one, value, &err);
        }
    }
    if (cv_core_configure(protocol, &config, &err) == CV_OK) {
        struct cv_option_text text;
        for (uint32_t i = 0; protocol->options[i].name != NULL; i++) {
            (void)cv__config_format(&config, &protocol->options[i], i, &text);
        }
    } else if (err.text[0] == '\0') { /* the error repeats the word; printing makes it one line */
        fuzz_found("a failure without a reason");
    }
}

/* No control sequence for a terminal is printed. */
static void print_word(const char *word)
{
    static char printed[8192];
    FILE *out = fuzz_must(fmemopen(printed, sizeof printed, "w"));
    cv__print(out, "'%s'\n", word);
    const long bytes = ftell(out);
    (void)fclose(out);
    for (long i = 0; i + 1 < bytes; i++) {
        if ((unsigned char)printed[i] < ' ' || printed[i] == 0x7f) {
            fuzz_found("a control character is printed");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    const uint8_t kind = fuzz_byte(&in);
    char *word = fuzz_rest(&in);
    uint64_t number;
    static const char *const known[] = {"acquire", "release", "renew", "status", NULL};
    struct cv_errtext err = {""};
    switch (kind % 8) {
    case 0:
        time_word(word);
        break;
    case 1:
        (void)cv__command_number("--retry", word, 0, 10, &number);
        (void)cv__command_number("--token", word, 0, UINT64_MAX, &number);
        break;
    case 2:
        (void)cv__store_election_is_valid(word);
        break;
    case 3:
        (void)cv__text_fail_unknown(&err, CV_E_INVALID, "word", word, known);
        break;
    case 4:
        print_word(word);
        break;
    default:
        option_word(kind / 8, word);
        break;
    }
    free(word);
    return 0;
}
