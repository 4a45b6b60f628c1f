/* src/core/duration.h - times as people write them: 250ms, 1.5s, 2min. */
#ifndef CV_CORE_DURATION_H
#define CV_CORE_DURATION_H

#include "core/types.h"

#define CV_DURATION_TEXT_BYTES 32

/* Reads digits with at most one decimal point into value * 10^9, exactly; more than nine decimals
 * are refused, not rounded. Returns the first byte after them, or NULL. For durations and rates. */
const char *cv__decimal_parse(const char *text, int64_t *ret_billionths);

/* A number with a unit: ns, us, ms, s, min or h. False: not a duration, not a whole number of
 * nanoseconds, or more than 146 years. */
bool cv__duration_parse(const char *text, int64_t *ret_ns);

/* The shortest spelling in the largest unit that is exact to the nanosecond: 1500000 -> 1.5ms.
 * Returns `buffer`. */
const char *cv__duration_format(int64_t ns, char buffer[CV_DURATION_TEXT_BYTES]);

#endif
