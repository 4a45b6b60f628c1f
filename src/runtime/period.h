/* src/runtime/period.h - which period of the wall clock an instant belongs to.
 *
 * `conclave run --every 1d` uses the wall clock to name the period and the lease to exclude other
 * contenders: whatever the clock says, one contender runs the command at a time. A wrong clock
 * causes only a wrong period.
 *
 * Periods begin by the wall clock: those of a day at midnight, those of an hour at the full hour,
 * those of a week on Monday; each of them `offset` later. So the length must divide a day, or be a
 * whole number of days. When the zone changes its offset (summer time), a day is an hour longer or
 * shorter and stays one period, and so is any period longer than the change, even if the clock
 * passes its boundary twice. With periods of an hour, a repeated hour is two, and a skipped one is
 * none.
 *
 * A period is named by the instant at which it begins, in seconds of Unix time: the same on all
 * machines that use the same zone. */
#ifndef CV_RUNTIME_PERIOD_H
#define CV_RUNTIME_PERIOD_H

#include "core/types.h"

#include <conclave/errors.h>

#define CV_PERIOD_TEXT_BYTES 40

struct cv_period_rule {
    int64_t every_s;
    int64_t offset_s; /* 0..every_s - 1 */
    /* Starts this close together count as one, even on different sides of a boundary: see
     * runs.h. */
    int64_t tolerance_ms;
};

/* 1d, 2w, or any duration of whole seconds. False: it is not one of these. */
bool cv__period_parse(const char *text, int64_t *ret_s);

/* Checks a rule; tolerance_ms of -1 becomes the default: a tenth of the period, at most five
 * minutes. CV_E_INVALID: what is wrong. */
CV_NODISCARD int cv__period_check(struct cv_period_rule *rule, struct cv_errtext *reterr);

/* Is it a zone of the zone database, e.g. Europe/Berlin, or UTC? CV_E_INVALID: it is not. */
CV_NODISCARD int cv__period_zone_check(const char *zone, struct cv_errtext *reterr);
/* Sets the time zone of this process. Not allowed while another thread may read the environment. */
CV_NODISCARD int cv__period_zone_enter(const char *zone, struct cv_errtext *reterr);

/* When the period begins that this instant (CLOCK_REALTIME) belongs to; in the process's zone. */
int64_t cv__period_begin_s(const struct cv_period_rule *rule, int64_t wall_ms);

/* "2026-11-16 00:00:00 +0100", in the process's zone. Returns `text`. */
const char *cv__period_text(int64_t begin_s, char text[CV_PERIOD_TEXT_BYTES]);

#endif
