/* src/runtime/period.c - see period.h. */
#include "runtime/period.h"

#include "core/duration.h"
#include "core/errors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DAY_S INT64_C(86400)
#define EVERY_S_MAX (366 * DAY_S)
#define TOLERANCE_MS_MAX (5 * 60 * INT64_C(1000))
#define MONDAY_S (4 * DAY_S) /* the first Monday of Unix time */
/* No zone of today sets its clocks back by more at once. */
#define REPEATED_S_MAX (3 * INT64_C(3600))

bool cv__period_parse(const char *text, int64_t *ret_s)
{
    int64_t value;
    const char *unit = cv__decimal_parse(text, &value);
    if (unit != NULL && (strcmp(unit, "d") == 0 || strcmp(unit, "w") == 0)) {
        *ret_s = value / NS_PER_S * (*unit == 'd' ? DAY_S : 7 * DAY_S);
        return value % NS_PER_S == 0 && value / NS_PER_S <= EVERY_S_MAX;
    }
    if (!cv__duration_parse(text, &value) || value % NS_PER_S != 0) {
        return false;
    }
    *ret_s = value / NS_PER_S;
    return true;
}

int cv__period_check(struct cv_period_rule *rule, struct cv_errtext *reterr)
{
    const int64_t every_s = rule->every_s;
    if (every_s < 1 || every_s > EVERY_S_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "--every takes 1s to 366d");
    }
    if (every_s > DAY_S ? every_s % DAY_S != 0 : DAY_S % every_s != 0) {
        return cv__fail(
            reterr, CV_E_INVALID,
            "--every takes a time that divides a day (30min, 1h, 6h) or whole days (1d, 1w), so "
            "that periods begin at the same times each day");
    }
    if (rule->offset_s < 0 || rule->offset_s >= every_s) {
        return cv__fail(reterr, CV_E_INVALID, "--offset must be shorter than --every");
    }
    if (rule->tolerance_ms < 0) {
        rule->tolerance_ms = cv__min64(every_s * 1000 / 10, TOLERANCE_MS_MAX);
    }
    if (rule->tolerance_ms > every_s * 1000 / 2) {
        return cv__fail(reterr, CV_E_INVALID, "--tolerance can be at most half of --every");
    }
    return CV_OK;
}

/* UTC needs no zone database. */
static bool is_utc(const char *zone)
{
    return strcmp(zone, "UTC") == 0;
}

/* The folders of the zone database, and the lists in it, are no zones. */
static bool is_zone_file(const char *path)
{
    static const char magic[4] = {'T', 'Z', 'i', 'f'};
    char begin[sizeof magic];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool is_zone = fd >= 0 && read(fd, begin, sizeof begin) == (ssize_t)sizeof begin &&
                         memcmp(begin, magic, sizeof magic) == 0;
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    return is_zone;
}

int cv__period_zone_check(const char *zone, struct cv_errtext *reterr)
{
    const char *folder = getenv("TZDIR");
    char path[512];
    const int length =
        snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : "/usr/share/zoneinfo", zone);
    const bool is_name = zone[0] != '\0' && zone[0] != '/' && zone[0] != '.' &&
                         strstr(zone, "..") == NULL && length < (int)sizeof path;
    if (!is_utc(zone) && (!is_name || !is_zone_file(path))) {
        return cv__fail(reterr, CV_E_INVALID,
                        "unknown time zone '%s'; write it like Europe/Berlin, or UTC", zone);
    }
    return CV_OK;
}

int cv__period_zone_enter(const char *zone, struct cv_errtext *reterr)
{
    /* The C library silently uses UTC for a zone that it does not find, so check it first. */
    const int code = cv__period_zone_check(zone, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (setenv("TZ", is_utc(zone) ? "UTC0" : zone, /* overwrite= */ 1) != 0) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    tzset();
    return CV_OK;
}

/* How far local time is ahead of UTC at that instant. */
static int64_t zone_s(int64_t at_s)
{
    const time_t at = (time_t)at_s;
    struct tm local;
    return localtime_r(&at, &local) != NULL ? local.tm_gmtoff : 0;
}

static int64_t floor_to(int64_t value, int64_t step)
{
    const int64_t rest = value % step;
    return value - (rest < 0 ? rest + step : rest);
}

/* The first second of (from, to] with the offset that is in force at `to`. */
static int64_t change_find(int64_t from_s, int64_t to_s)
{
    const int64_t new_s = zone_s(to_s);
    while (to_s - from_s > 1) {
        const int64_t middle_s = from_s + (to_s - from_s) / 2;
        if (zone_s(middle_s) == new_s) {
            to_s = middle_s;
        } else {
            from_s = middle_s;
        }
    }
    return to_s;
}

/* The local time at which the period of this local time begins. */
static int64_t reading_floor(const struct cv_period_rule *rule, int64_t shown_s)
{
    const int64_t anchor_s = MONDAY_S + rule->offset_s;
    return floor_to(shown_s - anchor_s, rule->every_s) + anchor_s;
}

int64_t cv__period_begin_s(const struct cv_period_rule *rule, int64_t wall_ms)
{
    const int64_t at_s = floor_to(wall_ms, 1000) / 1000;
    const int64_t shown_s = at_s + zone_s(at_s);
    const int64_t begin_shown_s = reading_floor(rule, shown_s);
    const int64_t begin_s = at_s - (shown_s - begin_shown_s);
    /* Clocks that were set back soon before begin_s may have shown this local time once before. */
    const int64_t now_zone_s = zone_s(at_s);
    const int64_t from_s = zone_s(begin_s) != now_zone_s ? begin_s : begin_s - REPEATED_S_MAX;
    if (zone_s(from_s) == now_zone_s) {
        return begin_s;
    }
    /* The offset of the zone has changed since then. If local time was already in this period, or
     * in a later one, just before the change, that period continues: a period longer than the time
     * that is repeated is run once. Otherwise this one began with the change, or after it. */
    const int64_t change_s = change_find(from_s, at_s);
    const int64_t old_s = zone_s(change_s - 1);
    const int64_t repeated_s = old_s - now_zone_s;
    const int64_t last_shown_s = reading_floor(rule, change_s - 1 + old_s);
    if (last_shown_s >= begin_shown_s && rule->every_s > repeated_s) {
        return last_shown_s - old_s;
    }
    /* If the time that is repeated is a whole number of periods, they go on as if the clocks had
     * not been set back. */
    if (repeated_s > 0 && repeated_s % rule->every_s == 0) {
        return begin_s;
    }
    return cv__max64(begin_s, change_s);
}

const char *cv__period_text(int64_t begin_s, char text[CV_PERIOD_TEXT_BYTES])
{
    const time_t at = (time_t)begin_s;
    struct tm local;
    if (localtime_r(&at, &local) == NULL ||
        strftime(text, CV_PERIOD_TEXT_BYTES, "%Y-%m-%d %H:%M:%S %z", &local) == 0) {
        (void)snprintf(text, CV_PERIOD_TEXT_BYTES, "@%lld", (long long)begin_s);
    }
    return text;
}
