/* src/base/command.c - see command.h. */
#include "base/command.h"

#include "base/screen.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/text.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Complaints ------------------------------------------------------------------------------ */

#define LINE_BYTES 4096
#define VISIBLE_BYTES (4 * LINE_BYTES) /* a line that consists of control characters, and its end */

/* C0, DEL, and C1 in UTF-8 (0xc2 0x80..0x9f) or alone, which some terminals obey as well. Bytes of
 * other characters stay: in UTF-8 they follow one of at least 0xc2. */
static size_t control_bytes(const char *at, size_t bytes)
{
    const unsigned char first = (unsigned char)at[0];
    const unsigned char second = bytes > 1 ? (unsigned char)at[1] : 0;
    if (first == 0xc2 && second >= 0x80 && second < 0xa0) {
        return 2;
    }
    return first < 0x20 || first == 0x7f || (first >= 0x80 && first < 0xa0) ? 1 : 0;
}

static size_t character_bytes(const char *at, size_t bytes)
{
    const unsigned char first = (unsigned char)at[0];
    size_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
    for (size_t i = 1; i < length; i++) {
        if (i >= bytes || ((unsigned char)at[i] & 0xc0) != 0x80) {
            return 1;
        }
    }
    return length;
}

/* Control characters become \xNN, four bytes each. Returns the length of what was written. */
static size_t make_visible(const char *text, size_t bytes, char *ret_text)
{
    size_t length = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t control = control_bytes(text + i, bytes - i);
        for (size_t k = 0; k < control; k++) {
            (void)snprintf(ret_text + length, 5, "\\x%02x", (unsigned)(unsigned char)text[i + k]);
            length += 4;
        }
        const size_t plain = control == 0 ? character_bytes(text + i, bytes - i) : 0;
        memcpy(ret_text + length, text + i, plain);
        length += plain;
        i += control + plain;
    }
    return length;
}

static void complain(const char *format, va_list args) CV_PRINTF(1, 0);

/* Breaks a message between words if standard error is a terminal. False: it was not written. */
static bool write_folded(char *text, size_t length)
{
    const uint32_t columns = cv__screen_error_limit();
    char *folded = NULL;
    size_t bytes = 0;
    FILE *memory = columns < length ? open_memstream(&folded, &bytes) : NULL;
    if (memory == NULL) {
        return false;
    }
    text[length - 1] = '\0'; /* without the newline, which is added again */
    cv__screen_print(memory, columns, text);
    text[length - 1] = '\n';
    const bool is_folded = fclose(memory) == 0;
    if (is_folded) {
        (void)fwrite(folded, 1, bytes, stderr);
    }
    free(folded);
    return is_folded;
}

/* In one write(2): other threads and processes write to the same file. */
static void complain(const char *format, va_list args)
{
    static const char begin[] = "conclave: ";
    char line[LINE_BYTES]; /* a longer message is cut off */
    char shown[sizeof begin + VISIBLE_BYTES];
    (void)vsnprintf(line, sizeof line, format, args);
    size_t length = sizeof begin - 1;
    memcpy(shown, begin, length);
    length += make_visible(line, strlen(line), shown + length);
    shown[length++] = '\n';
    if (!write_folded(shown, length)) {
        (void)fwrite(shown, 1, length, stderr);
    }
}

void cv__print(FILE *out, const char *format, ...)
{
    char line[LINE_BYTES];
    char shown[VISIBLE_BYTES];
    const size_t format_bytes = strlen(format);
    const bool ends_line = format_bytes > 0 && format[format_bytes - 1] == '\n';
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t bytes = strlen(line);
    bytes -= ends_line && bytes > 0 && line[bytes - 1] == '\n';
    size_t length = make_visible(line, bytes, shown);
    if (ends_line) {
        shown[length++] = '\n';
    }
    (void)fwrite(shown, 1, length, out);
}

void cv__complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
}

int cv__wrong_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int cv__cannot(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    return EXIT_CANNOT;
}

int cv__command_unknown(const char *what, const char *word, const char *const *known)
{
    struct cv_errtext error;
    (void)cv__text_fail_unknown(&error, CV_E_UNKNOWN, what, word, known);
    return cv__wrong_usage("%s", error.text);
}

/* ---- Options --------------------------------------------------------------------------------- */

/* Is this word that option, written in full? */
static bool is_in_full(const char *word, const char *name)
{
    const size_t bytes = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, bytes) == 0 &&
           (word[2 + bytes] == '\0' || word[2 + bytes] == '=');
}

/* `name` is the text between "--" and "=". getopt also accepts it if it is the beginning of exactly
 * one option. */
static void complain_long(const char *name, const struct option *longs, bool is_known)
{
    const char *known[CV_WORDS_MAX + 1];
    uint32_t known_count = 0, match_count = 0;
    const struct option *match = NULL;
    for (const struct option *o = longs; o->name != NULL; o++) {
        CV_ASSERT(known_count < CV_WORDS_MAX);
        known[known_count++] = o->name;
        if (strncmp(o->name, name, strlen(name)) == 0) {
            match = o;
            match_count++;
        }
    }
    known[known_count] = NULL;
    const char *nearest = cv__text_nearest(name, known);
    if (is_known && match != NULL) {
        cv__complain("option '--%s' %s", match->name,
                     match->has_arg == no_argument ? "takes no argument" : "requires an argument");
    } else if (match_count > 1) {
        cv__complain("option '--%s' is ambiguous: write it in full", name);
    } else if (nearest != NULL) {
        cv__complain("unknown option '--%s'; did you mean '--%s'?", name, nearest);
    } else {
        cv__complain("unknown option '--%s'; --help lists the options", name);
    }
}

int cv__command_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
    opterr = 0; /* getopt(3) must not print errors itself */
    int index = -1;
    const int option = getopt_long(argc, argv, shorts, longs, &index);
    if (option != '?' && option != -1 && index >= 0 &&
        !is_in_full(argv[optind - 1], longs[index].name) &&
        !is_in_full(argv[optind - 2], longs[index].name)) {
        /* getopt reads `--at` as `--at-most-once`; the user may have meant a time. */
        cv__complain("options are written in full: '--%s'", longs[index].name);
        return '?';
    }
    if (option != '?') {
        return option;
    }
    const char *word = argv[optind - 1];
    const char *place = optopt != 0 ? strchr(shorts, optopt) : NULL;
    if (strncmp(word, "--", 2) == 0) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        complain_long(name, longs, optopt != 0);
    } else if (place != NULL && place[1] == ':') {
        cv__complain("option '-%c' requires an argument", optopt);
    } else {
        cv__complain("unknown option '-%c'; --help lists the options", optopt);
    }
    return option;
}

bool cv__command_json(int argc, char **argv, bool *ret_is_json)
{
    static const struct option longs[] = {{"json", no_argument, NULL, 'j'}, {0}};
    int option;
    *ret_is_json = false;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        if (option != 'j') {
            return false;
        }
        *ret_is_json = true;
    }
    return true;
}

bool cv__command_number(const char *option, const char *text, uint64_t min, uint64_t max,
                        uint64_t *ret_value)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min ||
        value > max) {
        cv__complain("%s takes a whole number from %llu to %llu, not '%s'", option,
                     (unsigned long long)min, (unsigned long long)max, text);
        return false;
    }
    *ret_value = value;
    return true;
}

/* As in 5m, which could be taken for milliseconds as well. */
static bool is_in_minutes(const char *text)
{
    int64_t unused;
    const char *unit = cv__decimal_parse(text, &unused);
    return unit != NULL && strcmp(unit, "m") == 0;
}

bool cv__command_time(const char *option, const char *text, int64_t *ret_ns)
{
    const char *rest = cv__decimal_parse(text, ret_ns);
    if ((rest != NULL && *rest == '\0') || cv__duration_parse(text, ret_ns)) {
        return true;
    }
    cv__complain("%s takes a time like 500ms, 5s, 2min or 1h, not '%s'%s", option, text,
                 is_in_minutes(text) ? "; minutes are 'min'" : "");
    return false;
}

/* ---- Output ---------------------------------------------------------------------------------- */

int cv__command_flush(int status)
{
    static bool is_reported; /* a command that noticed it ends, and then is asked once more */
    if (cv__screen_flush_output()) {
        return status;
    }
    if (!is_reported) {
        cv__complain("cannot write the output: %s", strerror(errno));
    }
    is_reported = true;
    return EXIT_CANNOT;
}
