/* bench/figures.h - shared by the benches of elections: a clock, and the median of some times. */
#ifndef CV_BENCH_FIGURES_H
#define CV_BENCH_FIGURES_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline int64_t figures_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* since Linux 2.6.39 */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int figures_compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts, and returns the middle one. */
static inline double figures_median(double *value, size_t count)
{
    qsort(value, count, sizeof *value, figures_compare);
    return value[count / 2];
}

#endif
