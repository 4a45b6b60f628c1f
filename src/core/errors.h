/* src/core/errors.h - writing the one-line explanation of a failure. */
#ifndef CV_CORE_ERRORS_H
#define CV_CORE_ERRORS_H

#include <conclave/core.h>

/* Writes the line (if it is too long, without its middle) unless reterr is NULL, and returns
 * `code`, so that a failure is reported by `return cv__fail(reterr, CV_E_INVALID, "...", ...)`. */
int cv__fail(struct cv_errtext *reterr, int code, const char *format, ...) CV_PRINTF(3, 4);

/* The reason of that name; CV_REASON_COUNT: there is none. */
enum cv_reason cv__reason_find(const char *name);

#endif
