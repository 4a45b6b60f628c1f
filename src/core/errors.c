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

int cv__fail(struct cv_errtext *reterr, int code, const char *format, ...)
{
    CV_ASSERT(code < 0);
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(reterr->text, sizeof reterr->text, format,
                        args); /* a truncated line still helps */
        va_end(args);
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
