/* src/core/errors.c - the texts of codes, reasons, properties and assumptions.
 *
 * vsnprintf is the one function of stdio that the pure parts use: it formats into the caller's
 * memory and touches nothing else. */
#include "core/errors.h"

#include "core/types.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cv_strerror(int code)
{
    switch (code) {
    case CV_OK:
        return "success";
#define CV_ERR_CASE(name, number, text) \
    case CV_E_##name:                   \
        return text;
        CV_ERR_MAP(CV_ERR_CASE)
#undef CV_ERR_CASE
    default:
        return "unknown error";
    }
}

#define LINE_BYTES_MAX 9216u               /* two of the longest paths of Linux, and the words */
#define HEAD_BYTES (CV_ERRTEXT_BYTES / 4u) /* what was tried; the end has the longer words */

static bool is_inside_utf8(char c)
{
    return ((unsigned char)c & 0xc0u) == 0x80u;
}

/* A line that is too long has a long path in it, and the reason comes last: keeps both ends. */
static void shorten(const char *line, size_t length, char ret_text[CV_ERRTEXT_BYTES])
{
    static const char dots[] = "...";
    CV_ASSERT(length >= CV_ERRTEXT_BYTES);
    size_t head = HEAD_BYTES;
    while (head > 0 && is_inside_utf8(line[head])) {
        head--;
    }
    size_t tail = CV_ERRTEXT_BYTES - sizeof dots - head;
    while (tail > 0 && is_inside_utf8(line[length - tail])) {
        tail--;
    }
    CV_ASSERT(head + tail + sizeof dots <= CV_ERRTEXT_BYTES);
    memcpy(ret_text, line, head);
    memcpy(ret_text + head, dots, sizeof dots - 1);
    memcpy(ret_text + head + sizeof dots - 1, line + length - tail, tail);
    ret_text[head + sizeof dots - 1 + tail] = '\0';
}

/* Apart from cv__fail(), so that only a line that is too long takes so much of the stack. */
static void format_long(char ret_text[CV_ERRTEXT_BYTES], const char *format, va_list args)
    CV_PRINTF(2, 0);

static void format_long(char ret_text[CV_ERRTEXT_BYTES], const char *format, va_list args)
{
    char line[LINE_BYTES_MAX];
    const int length = vsnprintf(line, sizeof line, format, args);
    if (length >= CV_ERRTEXT_BYTES) {
        const size_t bytes = (size_t)length;
        shorten(line, bytes < sizeof line ? bytes : sizeof line - 1, ret_text);
    }
}

int cv__fail(struct cv_errtext *reterr, int code, const char *format, ...)
{
    CV_ASSERT(code < 0);
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        const int length = vsnprintf(reterr->text, sizeof reterr->text, format, args);
        va_end(args);
        if (length >= CV_ERRTEXT_BYTES) {
            va_start(args, format);
            format_long(reterr->text, format, args);
            va_end(args);
        }
    }
    return code;
}

const char *cv_reason_name(enum cv_reason reason)
{
    static const char *const names[] = {
#define CV_REASON_TEXT(name, text) text,
        CV_REASON_MAP(CV_REASON_TEXT)
#undef CV_REASON_TEXT
    };
    return (uint32_t)reason < CV_REASON_COUNT ? names[reason] : "unknown";
}

enum cv_reason cv__reason_find(const char *name)
{
    uint32_t reason = 0;
    while (reason < CV_REASON_COUNT && strcmp(cv_reason_name((enum cv_reason)reason), name) != 0) {
        reason++;
    }
    CV_ASSERT(reason <= CV_REASON_COUNT);
    return (enum cv_reason)reason;
}

const char *cv_property_name(enum cv_property property)
{
    static const char *const names[] = {
#define CV_PROPERTY_TEXT(name, text) text,
        CV_PROPERTY_MAP(CV_PROPERTY_TEXT)
#undef CV_PROPERTY_TEXT
    };
    return (uint32_t)property < CV_PROPERTY_COUNT ? names[property] : "unknown";
}

const char *cv_assume_text(enum cv_assume assume)
{
    static const char *const texts[] = {
#define CV_ASSUME_TEXT(name, text) text,
        CV_ASSUME_MAP(CV_ASSUME_TEXT)
#undef CV_ASSUME_TEXT
    };
    return (uint32_t)assume < CV_ASSUME_COUNT ? texts[assume] : "unknown";
}
