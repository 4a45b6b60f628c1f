/* src/base/stopwatch.c - how long something takes; see stopwatch.h. */
#include "base/stopwatch.h"

#include <time.h>

double cv__stopwatch_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* always there on Linux */
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
