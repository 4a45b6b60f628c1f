/* src/os/clock.c - the clocks and the chance of a real process. */
#include "os/clock.h"

#include "core/bytes.h"
#include "core/types.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    const int failed = clock_gettime(clock, &now);
    CV_ASSERT(failed == 0); /* both clocks exist since Linux 2.6.39 */
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t cv__clock_now_ns(void)
{
    return read_ns(CLOCK_BOOTTIME);
}

int64_t cv__clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
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

uint64_t cv__clock_boot(void)
{
    uint8_t text[64];
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    if (fd >= 0) {
        got = read(fd, text, sizeof text);
        (void)close(fd); /* only read */
    }
    return (got > 0 ? cv__bytes_sum(text, (size_t)got) : cv__clock_random()) | 1;
}
