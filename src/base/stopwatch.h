/* src/base/stopwatch.h - how long something takes, for progress lines and figures.
 *
 * Nothing that a run of the simulator or a search finds depends on it. */
#ifndef CV_BASE_STOPWATCH_H
#define CV_BASE_STOPWATCH_H

/* Seconds since an instant that stays the same while the host is up (CLOCK_MONOTONIC). */
double cv__stopwatch_s(void);

#endif
