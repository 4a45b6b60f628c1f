/* src/runtime/clock.c - the local clock and the chance of a real process. */
#include "runtime/clock.h"

#include "core/types.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

int64_t cv__clock_now_ns(void)
{
    struct timespec now;
    const int result = clock_gettime(CLOCK_BOOTTIME, &now);
    CV_ASSERT(result == 0); /* since Linux 2.6.39 */
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

uint64_t cv__clock_random(void)
{
    uint64_t value;
    ssize_t got;
    do {
        got = getrandom(&value, sizeof value, 0);
    } while (got < 0 && errno == EINTR);
    CV_ASSERT(got == (ssize_t)sizeof value); /* up to 256 bytes come whole */
    return value;
}
