/* tests/chaos/worker.c FOLDER - the command of the chaos runs: three processes that note the time.
 *
 * The command itself, a child in its group, and an orphan with a session of its own that ignores
 * SIGTERM. Each maps a file FOLDER/TOKEN.PID and writes the time (CLOCK_BOOTTIME) into it every
 * millisecond, so the file shows when the process ran first and last, however it ended. Before
 * that, the command looks at the files of earlier tokens, and notes a process of them that may
 * still run, even one that is stopped and writes no time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PF_EXITING 0x4 /* of the kernel: the process runs no more code of its program */

enum role { ROLE_COMMAND, ROLE_CHILD, ROLE_ORPHAN };

/* As tests/chaos/chaos.py reads it. */
struct note {
    uint64_t token;
    int64_t pid, role, started, first_ns;
    _Atomic int64_t last_ns;
    int64_t overlap_token, overlap_pid; /* 0: no process of an earlier token was alive */
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool read_text(const char *path, char *buffer, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, buffer, bytes - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    buffer[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* When the process was started, in ticks of the kernel; 0: it is gone, or runs no more code. */
static int64_t started_of(int64_t pid)
{
    char path[64], text[1024];
    char state = 'X';
    unsigned long flags = 0;
    long long started = 0;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    const char *rest = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
               &state, &flags, &started) != 3) {
        return 0;
    }
    return state == 'Z' || state == 'X' || (flags & PF_EXITING) != 0 ? 0 : started;
}

static bool is_killed(int64_t pid)
{
    char path[64], text[4096];
    unsigned long long pending = 0, shared = 0;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/status", pid);
    if (!read_text(path, text, sizeof text)) {
        return true;
    }
    const char *one = strstr(text, "SigPnd:");
    const char *all = strstr(text, "ShdPnd:");
    if (one != NULL && all != NULL) {
        (void)sscanf(one, "SigPnd: %llx", &pending);
        (void)sscanf(all, "ShdPnd: %llx", &shared);
    }
    return ((pending | shared) & (1ull << (SIGKILL - 1))) != 0;
}

static struct note *note_new(const char *folder, uint64_t token, enum role role)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%020" PRIu64 ".%d", folder, token, (int)getpid());
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct note)) != 0) {
        _exit(3);
    }
    struct note *note = mmap(NULL, sizeof(struct note), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (note == MAP_FAILED) {
        _exit(3);
    }
    (void)close(fd);
    note->token = token;
    note->pid = getpid();
    note->role = role;
    note->started = started_of(getpid());
    return note;
}

static void look_at_earlier(const char *folder, struct note *note)
{
    DIR *all = opendir(folder);
    for (const struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        char path[512];
        struct note other;
        (void)snprintf(path, sizeof path, "%s/%.255s", folder, one->d_name);
        const int fd = one->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, &other, sizeof other) == (ssize_t)sizeof other &&
            other.token < note->token && other.started != 0 &&
            started_of(other.pid) == other.started && !is_killed(other.pid)) {
            note->overlap_pid = other.pid;
            note->overlap_token = (int64_t)other.token;
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
}

static _Noreturn void work(struct note *note)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        atomic_store(&note->last_ns, now_ns());
        (void)nanosleep(&pause, NULL);
    }
}

static void begin(struct note *note)
{
    note->first_ns = now_ns();
    atomic_store(&note->last_ns, note->first_ns);
}

int main(int argc, char **argv)
{
    const char *text = getenv("CONCLAVE_TOKEN");
    if (argc != 2 || text == NULL) {
        return 3;
    }
    const uint64_t token = strtoull(text, NULL, 10);
    struct note *note = note_new(argv[1], token, ROLE_COMMAND);
    begin(note);
    look_at_earlier(argv[1], note);
    if (fork() == 0) {
        note = note_new(argv[1], token, ROLE_CHILD);
        begin(note);
        work(note);
    }
    if (fork() == 0) {
        if (setsid() < 0 || signal(SIGTERM, SIG_IGN) == SIG_ERR || fork() != 0) {
            _exit(0);
        }
        note = note_new(argv[1], token, ROLE_ORPHAN);
        begin(note);
        work(note);
    }
    work(note);
}
