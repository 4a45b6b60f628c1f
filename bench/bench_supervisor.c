/* bench/bench_supervisor.c - the cost of the guard, and how soon no process of a command is left.
 *
 * Usage: bench_supervisor [--tiny]. Lines:
 *   memory   of an idle guard, and of a supervisor that does nothing else: resident
 *            size, and the private part of it
 *   open     creating guard, lease file and descriptors
 *   start    from start() until exec succeeded, and until the whole command (`true`) is gone:
 *            after=start right after the previous command, after=rest a while later, like a
 *            contender that has waited; beside it the same command by posix_spawn() and waitpid()
 *   release  from kill -9 of the supervisor until the descriptor that all of them inherited is
 *            closed for the last time (a waiting flock() returns): a take-over waits for that
 * Tiny: the same in miniature, to check that it still works; its figures mean nothing. */
#include "os/clock.h"
#include "supervisor/supervisor.h"

#include <conclave/conclave.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 1000
#define REST_US 25000 /* the process of the next command is forked 20 ms after a run */

static char lock_path[] = "/tmp/conclave-bench-XXXXXX";
static int rounds = 200;

static void die(const char *what)
{
    perror(what);
    (void)unlink(lock_path);
    exit(1);
}

/* ---- a supervisor in a process of its own ---------------------------------------------------- */

struct told {
    int kind; /* enum cv_supervisor_event_kind */
    pid_t guard;
};

static int tell_fd;
static struct cv_supervisor *supervisor;
static int64_t started_ns, gone_ns;

static void on_event(void *user, const struct cv_supervisor_event *event)
{
    (void)user;
    if (event->kind == CV_SUPERVISOR_STARTED) {
        started_ns = cv__clock_now_ns();
    } else if (event->kind == CV_SUPERVISOR_GONE) {
        gone_ns = cv__clock_now_ns();
    }
    if (tell_fd >= 0) {
        const struct told told = {.kind = (int)event->kind,
                                  .guard = cv__supervisor_guard_pid(supervisor)};
        if (write(tell_fd, &told, sizeof told) != (ssize_t)sizeof told) {
            _exit(1);
        }
    }
}

static void supervisor_make(char *const *argv, bool without_cgroup)
{
    struct cv_errtext error;
    const struct cv_supervisor_setting setting = {
        .argv = argv,
        .election = "bench",
        .node = "bench",
        .grace_ns = NS_PER_S,
        .without_cgroup = without_cgroup,
        .terminal = CV_TERMINAL_NEVER,
        .on_event = on_event,
    };
    if (cv__supervisor_open(&supervisor, &setting, &error) != CV_OK) {
        (void)fprintf(stderr, "bench_supervisor: %s\n", error.text);
        exit(1);
    }
}

static void supervisor_start(int inherit_fd)
{
    struct cv_errtext error;
    const int64_t until_ns = cv__clock_now_ns() + 600 * NS_PER_S;
    if (cv__supervisor_start(supervisor, 1, until_ns, inherit_fd, &error) != CV_OK) {
        (void)fprintf(stderr, "bench_supervisor: %s\n", error.text);
        exit(1);
    }
}

static void supervisor_turn(void)
{
    struct pollfd ready = {.fd = cv__supervisor_fd(supervisor), .events = POLLIN};
    (void)poll(&ready, 1, -1);
    cv__supervisor_dispatch(supervisor);
}

/* ---- figures --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, int64_t *ns, int count)
{
    qsort(ns, (size_t)count, sizeof *ns, compare);
    (void)printf("%s runs=%d min_ms=%.3f p50_ms=%.3f p99_ms=%.3f max_ms=%.3f\n", name, count,
                 (double)ns[0] / 1e6, (double)ns[count / 2] / 1e6,
                 (double)ns[count * 99 / 100] / 1e6, (double)ns[count - 1] / 1e6);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int64_t release_once(char *const *argv, bool without_cgroup)
{
    int ends[2];
    struct told told = {.kind = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        tell_fd = ends[1];
        const int lock_fd = open(lock_path, O_RDWR | O_CLOEXEC);
        if (lock_fd < 0 || flock(lock_fd, LOCK_EX) != 0) {
            _exit(1);
        }
        supervisor_make(argv, without_cgroup);
        supervisor_start(lock_fd);
        for (;;) {
            supervisor_turn();
        }
    }
    (void)close(ends[1]);
    if (read(ends[0], &told, sizeof told) != (ssize_t)sizeof told ||
        told.kind != CV_SUPERVISOR_STARTED) {
        die("the command did not start");
    }
    (void)usleep(3000); /* lets the shell start its children; the figures do not depend on it */
    const int rival_fd = open(lock_path, O_RDWR | O_CLOEXEC);
    const int64_t begin_ns = cv__clock_now_ns();
    (void)kill(pid, SIGKILL);
    if (rival_fd < 0 || flock(rival_fd, LOCK_EX) != 0) {
        die("flock");
    }
    const int64_t end_ns = cv__clock_now_ns();
    (void)close(rival_fd);
    (void)close(ends[0]);
    (void)waitpid(pid, NULL, 0);
    return end_ns - begin_ns;
}

static void bench_release(const char *name, const char *script, bool without_cgroup)
{
    static int64_t ns[ROUNDS_MAX];
    char sh[] = "sh";
    char c[] = "-c";
    char *text = strdup(script);
    char *const argv[] = {sh, c, text, NULL};
    char line[128];
    for (int i = 0; i < rounds; i++) {
        ns[i] = release_once(argv, without_cgroup);
    }
    (void)snprintf(line, sizeof line, "release command=%s cgroup=%s", name,
                   without_cgroup ? "no" : "if-possible");
    print(line, ns, rounds);
    free(text);
}

static void bench_start(bool without_cgroup, bool rests)
{
    static int64_t exec_ns[ROUNDS_MAX], all_ns[ROUNDS_MAX];
    char name[] = "true";
    char *const argv[] = {name, NULL};
    char line[128];
    tell_fd = -1;
    supervisor_make(argv, without_cgroup);
    for (int i = 0; i < rounds; i++) {
        if (rests) {
            (void)usleep(REST_US);
        }
        const int64_t begin_ns = cv__clock_now_ns();
        gone_ns = 0;
        supervisor_start(-1);
        while (gone_ns == 0) {
            supervisor_turn();
        }
        exec_ns[i] = started_ns - begin_ns;
        all_ns[i] = gone_ns - begin_ns;
    }
    cv__supervisor_close(supervisor);
    (void)snprintf(line, sizeof line, "start after=%s until=exec cgroup=%s",
                   rests ? "rest" : "start", without_cgroup ? "no" : "if-possible");
    print(line, exec_ns, rounds);
    (void)snprintf(line, sizeof line, "start after=%s until=gone cgroup=%s",
                   rests ? "rest" : "start", without_cgroup ? "no" : "if-possible");
    print(line, all_ns, rounds);
}

static void bench_spawn(void)
{
    static int64_t ns[ROUNDS_MAX];
    char name[] = "true";
    char *const argv[] = {name, NULL};
    for (int i = 0; i < rounds; i++) {
        pid_t pid;
        const int64_t begin_ns = cv__clock_now_ns();
        if (posix_spawnp(&pid, name, NULL, NULL, argv, environ) != 0 || waitpid(pid, NULL, 0) < 0) {
            die("posix_spawn");
        }
        ns[i] = cv__clock_now_ns() - begin_ns;
    }
    print("start until=gone by=posix_spawn", ns, rounds);
}

static void bench_open(bool without_cgroup)
{
    static int64_t ns[ROUNDS_MAX];
    char name[] = "true";
    char *const argv[] = {name, NULL};
    char line[128];
    tell_fd = -1;
    for (int i = 0; i < rounds; i++) {
        const int64_t begin_ns = cv__clock_now_ns();
        supervisor_make(argv, without_cgroup);
        ns[i] = cv__clock_now_ns() - begin_ns;
        cv__supervisor_close(supervisor);
    }
    (void)snprintf(line, sizeof line, "open cgroup=%s", without_cgroup ? "no" : "if-possible");
    print(line, ns, rounds);
}

static long kilobytes(pid_t pid, const char *key)
{
    char path[64];
    char line[256];
    long sum = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            sum += atol(strchr(line, ':') + 1);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return sum;
}

static void bench_memory(void)
{
    char name[] = "sleep";
    char long_time[] = "600";
    char *const argv[] = {name, long_time, NULL};
    tell_fd = -1;
    started_ns = 0;
    supervisor_make(argv, false);
    supervisor_start(-1);
    while (started_ns == 0) {
        supervisor_turn();
    }
    const pid_t guard = cv__supervisor_guard_pid(supervisor);
    (void)printf("memory of=guard rss_kib=%ld private_kib=%ld\n", kilobytes(guard, "Rss:"),
                 kilobytes(guard, "Private_"));
    (void)printf("memory of=supervisor rss_kib=%ld private_kib=%ld\n", kilobytes(getpid(), "Rss:"),
                 kilobytes(getpid(), "Private_"));
    cv__supervisor_close(supervisor);
}

int main(int argc, char **argv)
{
    static const char family[] = "(setsid sleep 600 &) ; sleep 600 & wait";
    if (argc > 1 && strcmp(argv[1], "--tiny") == 0) {
        rounds = 3;
    }
    const int fd = mkstemp(lock_path);
    if (fd < 0) {
        die("mkstemp");
    }
    (void)close(fd);
    (void)printf("# bench=supervisor version=%s cc=%s clock=real\n", cv_version(), __VERSION__);
    (void)fflush(stdout);
    bench_memory();
    for (int without_cgroup = 0; without_cgroup < 2; without_cgroup++) {
        bench_open(without_cgroup);
        bench_start(without_cgroup, /* rests= */ false);
        bench_start(without_cgroup, /* rests= */ true);
    }
    bench_spawn();
    for (int without_cgroup = 0; without_cgroup < 2; without_cgroup++) {
        bench_release("sleep", "exec sleep 600", without_cgroup);
        bench_release("family", family, without_cgroup);
    }
    (void)unlink(lock_path);
    return 0;
}
