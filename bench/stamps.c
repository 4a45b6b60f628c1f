/* bench/stamps.c - a library to be preloaded: notes when each thread of a program makes a system
 * call, and when what it waited for has come. trace_handover.py makes a table of the notes.
 *
 * A note costs one reading of the clock and no system call, so that tracing hardly changes the
 * times. Notes of bench_stamp() come in between; at the end all notes are written to the file
 * $STAMPS. */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NOTES_MAX (1u << 21)

static struct note {
    int64_t at_ns;
    const char *what;
    int32_t thread;
    int32_t result;
} notes[NOTES_MAX];
static _Atomic uint32_t note_count;
static _Thread_local int32_t own_thread;

static void note(const char *what, long result)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (own_thread == 0) {
        own_thread = (int32_t)syscall(SYS_gettid);
    }
    const uint32_t at = atomic_fetch_add_explicit(&note_count, 1, memory_order_relaxed);
    if (at < NOTES_MAX) {
        notes[at] = (struct note){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec, what, own_thread,
                                  (int32_t)result};
    }
}

void bench_stamp(const char *what);
void bench_stamp(const char *what)
{
    note(what, 0);
}

__attribute__((destructor)) static void notes_write(void)
{
    const char *path = getenv("STAMPS");
    FILE *file = path != NULL ? fopen(path, "we") : NULL;
    const uint32_t count = note_count < NOTES_MAX ? note_count : NOTES_MAX;
    for (uint32_t i = 0; file != NULL && i < count; i++) {
        (void)fprintf(file, "%lld %d %s %d\n", (long long)notes[i].at_ns, notes[i].thread,
                      notes[i].what, notes[i].result);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Sends are noted before the call, waits when they end; both where the time in between matters. */
#define BEFORE(type, name, params, args)               \
    type name params                                   \
    {                                                  \
        static type(*real) params;                     \
        if (real == NULL) {                            \
            *(void **)&real = dlsym(RTLD_NEXT, #name); \
        }                                              \
        note(#name, 0);                                \
        return real args;                              \
    }
#define AFTER(type, name, params, args)                \
    type name params                                   \
    {                                                  \
        static type(*real) params;                     \
        if (real == NULL) {                            \
            *(void **)&real = dlsym(RTLD_NEXT, #name); \
        }                                              \
        const type result = real args;                 \
        note(#name, (long)result);                     \
        return result;                                 \
    }
#define AROUND(type, name, params, args)               \
    type name params                                   \
    {                                                  \
        static type(*real) params;                     \
        if (real == NULL) {                            \
            *(void **)&real = dlsym(RTLD_NEXT, #name); \
        }                                              \
        note(#name "(", 0);                            \
        const type result = real args;                 \
        note(#name ")", (long)result);                 \
        return result;                                 \
    }

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
BEFORE(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
BEFORE(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags))
BEFORE(ssize_t, sendto,
       (int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t n),
       (fd, data, bytes, flags, to, n))
BEFORE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
BEFORE(ssize_t, writev, (int fd, const struct iovec *part, int count), (fd, part, count))
BEFORE(int, pthread_cond_signal, (pthread_cond_t * one), (one))
BEFORE(int, pthread_cond_broadcast, (pthread_cond_t * one), (one))
AFTER(int, pthread_cond_wait, (pthread_cond_t * one, pthread_mutex_t *lock), (one, lock))
AFTER(int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
AFTER(int, epoll_wait, (int fd, struct epoll_event *events, int count, int ms),
      (fd, events, count, ms))
AFTER(int, epoll_pwait,
      (int fd, struct epoll_event *events, int count, int ms, const sigset_t *mask),
      (fd, events, count, ms, mask))
AROUND(int, fdatasync, (int fd), (fd))
AROUND(int, fsync, (int fd), (fd))
AROUND(ssize_t, pwrite64, (int fd, const void *data, size_t bytes, off64_t at),
       (fd, data, bytes, at))
BEFORE(int, utimensat, (int at, const char *path, const struct timespec when[2], int flags),
       (at, path, when, flags))
