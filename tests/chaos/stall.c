/* tests/chaos/stall.c - LD_PRELOAD: a disk that stalls, and a wall clock that is wrong, when a test
 * says so.
 *
 * CV_CHAOS_STALL names a file of three numbers: until when (CLOCK_BOOTTIME, ns) writes to the disk
 * block, by how much (ns) the wall clock is wrong, and how many calls have waited for the disk,
 * which is counted here. It affects every process that was started with the same file. The second
 * and third number may be missing. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static struct {
    _Atomic int64_t until_ns, wall_ns, waited_count;
} * faults;

__attribute__((constructor)) static void open_switch(void)
{
    const char *path = getenv("CV_CHAOS_STALL");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        faults = page != MAP_FAILED ? page : NULL;
        (void)close(fd);
    }
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    /* The library's clock_gettime() is the one below. */
    (void)syscall(SYS_clock_gettime, clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void stall(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    if (faults == NULL || clock_ns(CLOCK_BOOTTIME) >= atomic_load(&faults->until_ns)) {
        return;
    }
    (void)atomic_fetch_add(&faults->waited_count, 1);
    while (clock_ns(CLOCK_BOOTTIME) < atomic_load(&faults->until_ns)) {
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- The wall clock -------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    const int64_t ns =
        clock_ns(clock) + (is_wall && faults != NULL ? atomic_load(&faults->wall_ns) : 0);
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

time_t time(time_t *ret_time)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time != NULL) {
        *ret_time = now.tv_sec;
    }
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec wall;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    *now = (struct timeval){.tv_sec = wall.tv_sec, .tv_usec = wall.tv_nsec / 1000};
    return 0;
}

/* ---- The disk -------------------------------------------------------------------------------- */

/* ISO C has no conversion from void * to a function; POSIX promises this one. */
#define REAL(name)                                 \
    static __typeof__(&name) real;                 \
    if (real == NULL) {                            \
        *(void **)&real = dlsym(RTLD_NEXT, #name); \
    }

int fsync(int fd)
{
    REAL(fsync)
    stall();
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync)
    stall();
    return real(fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    REAL(pwrite64)
    stall();
    return real(fd, bytes, count, offset);
}
