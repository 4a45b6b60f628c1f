/* tests/chaos/stall.c - LD_PRELOAD: a disk that stalls when the chaos run says so.
 *
 * CV_CHAOS_STALL names a file of eight bytes: until when (CLOCK_BOOTTIME, ns) writing to the disk
 * takes no end. Every process that was started with the same file stalls. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *until_ns;

__attribute__((constructor)) static void open_switch(void)
{
    const char *path = getenv("CV_CHAOS_STALL");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof *until_ns, PROT_READ, MAP_SHARED, fd, 0);
        until_ns = page != MAP_FAILED ? page : NULL;
        (void)close(fd);
    }
}

static void stall(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    struct timespec now;
    while (until_ns != NULL && clock_gettime(CLOCK_BOOTTIME, &now) == 0 &&
           (int64_t)now.tv_sec * 1000000000 + now.tv_nsec < atomic_load(until_ns)) {
        (void)nanosleep(&pause, NULL);
    }
}

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
