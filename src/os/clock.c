/* src/os/clock.c - the clocks and the random numbers of a real process. */
#include "os/clock.h"

#include "core/bytes.h"
#include "core/types.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
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

void cv__clock_arm(int timer_fd, int64_t at_ns)
{
    struct itimerspec when = {0}; /* disarmed */
    if (at_ns != INT64_MAX) {
        at_ns = cv__max64(at_ns, 1); /* 0 would disarm it */
        when.it_value.tv_sec = at_ns / NS_PER_S;
        when.it_value.tv_nsec = at_ns % NS_PER_S;
    }
    const int failed = timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    CV_ASSERT(failed == 0); /* the descriptor and the time are ours */
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

/* The text of a file or a link of /proc; 0: it cannot be read. */
static size_t read_proc(const char *path, bool is_link, uint8_t *buffer, size_t buffer_bytes)
{
    ssize_t got = -1;
    if (is_link) {
        got = readlink(path, (char *)buffer, buffer_bytes);
        return got > 0 ? (size_t)got : 0;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, buffer, buffer_bytes);
        (void)close(fd); /* only read */
    }
    return got > 0 ? (size_t)got : 0;
}

uint64_t cv__clock_boot(void)
{
    uint8_t text[128];
    const size_t boot_bytes =
        read_proc("/proc/sys/kernel/random/boot_id", /* is_link= */ false, text, sizeof text / 2);
    if (boot_bytes == 0) {
        return cv__clock_random() | 1;
    }
    /* A container may have its own clock, which starts elsewhere in the next container. */
    const size_t space_bytes =
        read_proc("/proc/self/ns/time", /* is_link= */ true, text + boot_bytes, sizeof text / 2);
    return cv__bytes_sum(text, boot_bytes + space_bytes) | 1;
}
