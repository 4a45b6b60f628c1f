/* src/core/duration.c - times as people write them. Uses integers only, so every machine gives the
 * same text. */
#include "core/duration.h"

#include <string.h>

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ns", 1},       {"us", NS_PER_US},      {"ms", NS_PER_MS},
    {"s", NS_PER_S}, {"min", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits with at most one decimal point: the whole part, and the rest in billionths. */
static const char *parse_parts(const char *text, int64_t *ret_whole, int64_t *ret_billionths)
{
    const char *at = text;
    int64_t whole = 0;
    int64_t billionths = 0;
    if (!is_digit(*at)) {
        return NULL;
    }
    for (; is_digit(*at); at++) {
        if (whole > INT64_MAX / 10 - 1) {
            return NULL;
        }
        whole = whole * 10 + (*at - '0');
    }
    if (*at == '.') {
        at++;
        if (!is_digit(*at)) {
            return NULL;
        }
        for (int64_t weight = NS_PER_S / 10; is_digit(*at); at++, weight /= 10) {
            if (weight == 0) {
                return NULL; /* more than nine decimals */
            }
            billionths += weight * (*at - '0');
        }
    }
    CV_ASSERT(whole >= 0);
    CV_ASSERT(billionths < NS_PER_S);
    *ret_whole = whole;
    *ret_billionths = billionths;
    return at;
}

const char *cv__decimal_parse(const char *text, int64_t *ret_billionths)
{
    int64_t whole;
    int64_t billionths;
    const char *end = parse_parts(text, &whole, &billionths);
    if (end == NULL || whole >= INT64_MAX / NS_PER_S) {
        return NULL;
    }
    *ret_billionths = whole * NS_PER_S + billionths;
    return end;
}

bool cv__duration_parse(const char *text, int64_t *ret_ns)
{
    int64_t whole;
    int64_t billionths;
    const char *unit = parse_parts(text, &whole, &billionths);
    for (uint32_t i = 0; unit != NULL && i < COUNT_OF(units); i++) {
        if (strcmp(unit, units[i].name) != 0) {
            continue;
        }
        const __int128 part = (__int128)billionths * units[i].ns;
        const int64_t part_ns = (int64_t)(part / NS_PER_S);
        const bool is_whole = (__int128)part_ns * NS_PER_S == part;
        if (whole > INT64_MAX / 2 / units[i].ns || !is_whole) {
            return false;
        }
        CV_ASSERT(part_ns < units[i].ns); /* less than one unit */
        *ret_ns = whole * units[i].ns + part_ns;
        return true;
    }
    return false;
}

const char *cv__duration_format(int64_t ns, char buffer[CV_DURATION_TEXT_BYTES])
{
    CV_ASSERT(ns >= 0);
    const uint32_t unit = ns == 0 || ns >= NS_PER_S ? 3 : ns >= NS_PER_MS ? 2 : ns >= NS_PER_US;
    char digits[24];
    uint32_t count = 0;
    for (int64_t left = ns / units[unit].ns; left > 0 || count == 0; left /= 10) {
        digits[count++] = (char)('0' + left % 10);
    }
    char *at = buffer;
    while (count > 0) {
        *at++ = digits[--count];
    }
    int64_t rest = ns % units[unit].ns;
    if (rest > 0) {
        *at++ = '.';
        for (int64_t weight = units[unit].ns / 10; rest > 0; weight /= 10) {
            *at++ = (char)('0' + rest / weight);
            rest %= weight;
        }
    }
    memcpy(at, units[unit].name, strlen(units[unit].name) + 1);
    CV_ASSERT(at < buffer + CV_DURATION_TEXT_BYTES - 4);
    return buffer;
}
