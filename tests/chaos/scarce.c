/* tests/chaos/scarce.c - LD_PRELOAD: a machine without free processes or threads, when a test says
 * so.
 *
 * CV_CHAOS_SCARCE names a file of three numbers, for every process that was started with it: until
 * when (CLOCK_BOOTTIME, ns) no process or thread can be started; which start fails, counted from 1
 * (0: none); how many starts there were. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    _Atomic int64_t until_ns, fail_at, count;
} * faults;

__attribute__((constructor)) static void open_switch(void)
{
    const char *path = getenv("CV_CHAOS_SCARCE");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        faults = page != MAP_FAILED ? page : NULL;
        (void)close(fd);
    }
}

static bool is_scarce(void)
{
    struct timespec now = {0};
    if (faults == NULL || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return false;
    }
    const int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    const bool is_hit = atomic_fetch_add(&faults->count, 1) + 1 == atomic_load(&faults->fail_at);
    return is_hit || now_ns < atomic_load(&faults->until_ns);
}

/* ISO C has no conversion from void * to a function; POSIX promises this one. */
#define REAL(name)                                 \
    static __typeof__(&name) real;                 \
    if (real == NULL) {                            \
        *(void **)&real = dlsym(RTLD_NEXT, #name); \
    }

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*function)(void *), void *restrict data)
{
    REAL(pthread_create)
    return is_scarce() ? EAGAIN : real(thread, attributes, function, data);
}

pid_t fork(void)
{
    REAL(fork)
    if (is_scarce()) {
        errno = EAGAIN;
        return -1;
    }
    return real();
}

int posix_spawn(pid_t *restrict pid, const char *restrict path,
                const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                char *const variables[restrict])
{
    REAL(posix_spawn)
    return is_scarce() ? EAGAIN : real(pid, path, actions, attributes, argv, variables);
}

/* clone3(), which starts a process inside a control group. */
long syscall(long number, ...)
{
    REAL(syscall)
    long word[6];
    va_list arguments;
    va_start(arguments, number);
    for (uint32_t i = 0; i < 6; i++) {
        word[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    if (number == SYS_clone3 && is_scarce()) {
        errno = EAGAIN;
        return -1;
    }
    return real(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
