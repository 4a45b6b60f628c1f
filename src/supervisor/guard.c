/* src/supervisor/guard.c - see guard.h. */
#include "supervisor/guard.h"

#include "os/clock.h"
#include "os/pages.h"
#include "supervisor/cgroup.h"
#include "supervisor/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between two sweeps of a tree that is not gone yet: a killed process needs CPU time to die. */
#define SWEEP_NS_MIN (1 * NS_PER_MS)
#define SWEEP_NS_MAX (20 * NS_PER_MS)
#define PLAIN_SWEEPS 3u /* then freeze first */
/* When to fork the next command's process: not at once after a run, because the supervisor usually
 * ends then; and again later, if it could not be forked. */
#define PREPARE_NS (20 * NS_PER_MS)
#define PREPARE_AGAIN_NS (1 * NS_PER_S)

#define TOO_LATE_CODE INT32_MAX /* not an errno */

struct guard {
    const struct cv_guard_setting *setting;
    int socket_fd, signal_fd, timer_fd, supervisor_fd;
    int exec_fd;    /* the command's end closes at exec; -1: no exec is expected */
    int inherit_fd; /* -1: none */
    pid_t pid;      /* of the guard */
    bool is_orphan; /* the supervisor is gone */

    /* The next command's process, which waits for its START; between runs only. */
    pid_t next;         /* 0: none */
    int next_fd;        /* the socket to it; becomes exec_fd */
    int64_t prepare_ns; /* when to make one */

    /* One run. */
    bool is_running;  /* from START until GONE */
    bool is_reported; /* EXITED was reported, or will not be */
    pid_t command;    /* 0: it was reaped, or never started */
    pid_t started;    /* the same, but kept for reports */
    uint64_t run;
    bool is_told_to_end; /* the command got a signal that asks it to end */
    bool is_hung_up;     /* it got SIGHUP, which ends some commands */
    int64_t stop_ns;     /* when SIGTERM was sent; CV_NEVER_NS: not yet */
    bool is_killing;
    uint32_t sweep_count;
    int64_t sweep_ns; /* the next one */
    int status, failed_errno;
    enum cv_end end;
    uint64_t token;

    /* The cleanup, after the command. */
    bool has_run;     /* the command was executed: there may be something to clean up */
    bool is_cleaning; /* the cleanup has begun: nothing of the command is left */
    pid_t cleanup;    /* 0: it was reaped, or could not be started */
    int cleanup_status;

    bool is_group_killed; /* at least once */
    struct cv_cgroup cgroup;
    struct cv_tree tree;
};

static struct guard guard_state; /* pages that are not used cost no memory */

int cv__guard_exit_status(int wait_code, int wait_status)
{
    return wait_code == CLD_EXITED ? wait_status : 128 + wait_status;
}

static int64_t deadline_ns(const struct guard *g)
{
    return atomic_load(&g->setting->control->valid_until_ns);
}

/* Never waits: the few reports of a run fit into the socket's buffer. Only a command that is
 * stopped and continued hundreds of times while the supervisor is stopped could fill it; then
 * reports of that may be lost. */
static void report(struct guard *g, enum cv_guard_report_kind kind, int signo)
{
    const struct cv_guard_report out = {
        .kind = kind,
        .pid = g->started,
        .signo = signo,
        .status = g->status,
        .failed_errno = g->failed_errno,
        .end = g->end,
        .was_killed = g->is_killing,
        .cleanup_status = g->cleanup_status,
    };
    (void)send(g->socket_fd, &out, sizeof out, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- the command and the cleanup, before exec ------------------------------------------------ */

static void set_variable(const char *name, const char *value)
{
    if (setenv(name, value, /* overwrite= */ 1) != 0) {
        _exit(127); /* no memory at all: nothing runs */
    }
}

/* The variables that are known before the leadership begins. */
static void set_environment(const struct guard *g)
{
    const char *const *hidden = g->setting->of->hidden_variables;
    for (; hidden != NULL && *hidden != NULL; hidden++) {
        (void)unsetenv(*hidden); /* it is a name */
    }
    set_variable("CONCLAVE_ELECTION", g->setting->of->election);
    set_variable("CONCLAVE_NODE", g->setting->of->node);
    set_variable("CONCLAVE_LEASE_FILE", g->setting->lease_path);
}

static void set_token(uint64_t token)
{
    char number[24];
    (void)snprintf(number, sizeof number, "%" PRIu64, token);
    set_variable("CONCLAVE_TOKEN", number);
}

/* Signals stay blocked. */
static void reset_handlers(const struct guard *g)
{
    for (int signo = 1; signo < NSIG; signo++) {
        struct sigaction now;
        if (sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN &&
            sigismember(&g->setting->ignored, signo) != 1) {
            (void)signal(signo, SIG_DFL);
        }
    }
}

static void reset_mask(const struct guard *g)
{
    (void)sigprocmask(SIG_SETMASK, &g->setting->mask, NULL);
}

static _Noreturn void command_fail(int exec_fd, int why)
{
    /* The pipe is empty and messages of four bytes are atomic; without a reader it does not
     * matter. */
    if (write(exec_fd, &why, sizeof why) != (ssize_t)sizeof why) {
        _exit(127);
    }
    _exit(127);
}

/* The order matters: first ask the kernel to kill us when the guard dies, then check that it still
 * lives. The kernel looks at the parent's thread; the guard has only one. */
static void die_with_the_guard(const struct guard *g)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != g->pid) {
        _exit(127);
    }
}

/* Closes all descriptors that close on exec: what the supervisor opened for itself (a lock, a
 * connection) must not stay open in the guard, nor the guard's descriptors in the next command's
 * process. Descriptors that the supervisor was started with are passed on to the command, as by any
 * other program that starts one. */
static void close_own(int except_fd)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return; /* without /proc: they close in the command, at least */
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const int fd = atoi(entry->d_name);
        const int flags = entry->d_name[0] == '.' ? -1 : fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && fd != except_fd && fd != dirfd(folder)) {
            (void)close(fd); /* nothing was written by us */
        }
    }
    (void)closedir(folder);
}

/* The leadership has begun. */
static _Noreturn void command_run(const struct guard *g, const struct cv_guard_request *request,
                                  int exec_fd)
{
    if (request->is_foreground) {
        /* SIGTTOU is blocked; a lost terminal does not matter. */
        (void)tcsetpgrp(STDIN_FILENO, getpid());
    }
    if (g->inherit_fd >= 0 && fcntl(g->inherit_fd, F_SETFD, 0) != 0) {
        command_fail(exec_fd, errno);
    }
    set_token(request->token);
    reset_mask(g);
    /* The last check before exec: guard and supervisor may have been stopped in the meantime. */
    if (cv__clock_now_ns() >= cv__schedule_term_ns(&g->setting->schedule, deadline_ns(g))) {
        command_fail(exec_fd, TOO_LATE_CODE);
    }
    (void)execvp(g->setting->of->argv[0], g->setting->of->argv);
    command_fail(exec_fd, errno);
}

/* The next command's process waits, with all signals blocked. It closes the guard's descriptors
 * first: they would stay open for as long as it waits. */
static void next_wait(struct guard *g, struct cv_guard_request *ret_request, int fd)
{
    (void)prctl(PR_SET_NAME, "conclave-next");
    close_own(fd);
    g->inherit_fd = -1; /* the guard's copy was closed above */
    ssize_t got;
    do {
        got = cv__guard_receive(fd, ret_request, &g->inherit_fd, /* waits= */ true);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof *ret_request) {
        _exit(0); /* it is not needed any more */
    }
    die_with_the_guard(g); /* the guard may have died while we waited */
}

/* The command's process. If `request` is NULL, it was forked in advance: it does everything that
 * does not depend on the leadership, and then waits for the request. */
static _Noreturn void next_run(struct guard *g, const struct cv_guard_request *request, int fd)
{
    struct cv_guard_request received;
    die_with_the_guard(g);
    (void)setpgid(0, 0);
    set_environment(g);
    reset_handlers(g);
    if (request == NULL) {
        next_wait(g, &received, fd);
        request = &received;
    }
    command_run(g, request, fd);
}

/* One of the words that hooks, the trail and `conclave explain` use. A lease that was not renewed
 * has expired: the guard does not know whether the store is to blame. CV_END_GUARD_DIED: an earlier
 * guard died, and this one cleans up for it. An orphan's supervisor died, which nobody else can
 * report. */
static const char *cleanup_reason(const struct guard *g)
{
    static const enum cv_reason reasons[CV_END_COUNT] = {
        [CV_END_EXITED] = CV_REASON_FINISHED,  [CV_END_STOPPED] = CV_REASON_RESIGNED,
        [CV_END_DEADLINE] = CV_REASON_EXPIRED, [CV_END_GUARD_DIED] = CV_REASON_DIED,
        [CV_END_TOO_LATE] = CV_REASON_EXPIRED, [CV_END_NOT_STARTED] = CV_REASON_FINISHED,
    };
    const bool is_told = g->is_told_to_end || (g->is_hung_up && g->status == 128 + SIGHUP);
    if (g->end == CV_END_EXITED && is_told && !g->is_orphan) {
        return cv_reason_name(CV_REASON_RESIGNED);
    }
    return cv_reason_name(g->is_orphan ? CV_REASON_DIED : reasons[g->end]);
}

/* The cleanup reads from /dev/null: it has its own process group, and would be stopped if it read
 * from the terminal. */
static _Noreturn void cleanup_run(const struct guard *g)
{
    die_with_the_guard(g);
    (void)setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        (g->inherit_fd >= 0 && fcntl(g->inherit_fd, F_SETFD, 0) != 0) ||
        setenv("CONCLAVE_REASON", cleanup_reason(g), /* overwrite= */ 1) != 0) {
        _exit(126);
    }
    set_environment(g);
    set_token(g->token);
    reset_handlers(g);
    reset_mask(g);
    (void)execl("/bin/sh", "sh", "-c", g->setting->of->cleanup, (char *)NULL);
    _exit(127);
}

/* Processes that are started in a group that was killed once may be killed: see cgroup.c. The old
 * group is empty, so a new one replaces it. */
static pid_t fork_into_group(struct guard *g)
{
    if (g->is_group_killed && g->cgroup.folder_fd >= 0) {
        cv__cgroup_remove(&g->cgroup);
        g->cgroup = cv__cgroup_make(g->pid);
    }
    g->is_group_killed = false;
    return cv__cgroup_fork(&g->cgroup);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void close_if_open(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* What is left for us to do is not urgent, and must not delay the next leader, which may wait for
 * the same processor. */
static void hurry_no_more(void)
{
    const struct sched_param ordinary = {.sched_priority = 0};
    (void)sched_setscheduler(0, SCHED_OTHER, &ordinary);
}

/* The end of a run: no descendant lives. */
static void become_idle(struct guard *g)
{
    if (g->is_orphan) {
        hurry_no_more();
    }
    close_if_open(&g->exec_fd);
    close_if_open(&g->inherit_fd); /* before the report: its reader then has the only copy */
    cv__lease_file_end(g->setting->lease, g->run);
    g->is_running = false;
    g->prepare_ns = cv__clock_now_ns() + PREPARE_NS;
    report(g, CV_GUARD_GONE, 0);
}

/* Nothing of the command is left. The cleanup gets its full time from now on, even if the deadline
 * has passed already, as after a suspend: a late cleanup is better than none. */
static void begin_cleanup(struct guard *g)
{
    CV_ASSERT(!g->is_cleaning);
    const int64_t now_ns = cv__clock_now_ns();
    g->is_cleaning = true;
    g->sweep_count = 0;
    g->sweep_ns = now_ns + g->setting->schedule.cleanup_ns;
    atomic_store(&g->setting->control->cleanup_until_ns, g->sweep_ns);
    pid_t pid = fork_into_group(g);
    while (pid < 0 && errno == EAGAIN && cv__clock_now_ns() < g->sweep_ns) {
        const struct timespec pause = {.tv_nsec = 5 * NS_PER_MS}; /* no process id is left */
        (void)nanosleep(&pause, NULL);
        pid = fork_into_group(g);
    }
    if (pid == 0) {
        cleanup_run(g);
    }
    if (pid < 0) {
        become_idle(g); /* the report says that it was not run */
        return;
    }
    (void)setpgid(pid, pid); /* parent and child both do it; the first one counts */
    g->cleanup = pid;
}

/* Nothing of the command is left, nor of the cleanup if it has begun. */
static void end_run(struct guard *g)
{
    if (g->has_run && !g->is_cleaning && g->setting->of->cleanup != NULL) {
        begin_cleanup(g);
    } else {
        become_idle(g);
    }
}

/* If the machine has no process id or memory left, that is not the command's fault, and passes: the
 * leader tries again. */
static void not_started(struct guard *g, int why)
{
    const bool may_pass = why == TOO_LATE_CODE || why == EAGAIN || why == ENOMEM;
    g->failed_errno = why == TOO_LATE_CODE ? 0 : why;
    g->end = may_pass ? CV_END_TOO_LATE : CV_END_NOT_STARTED;
    g->status = why == ENOENT ? 127 : 126;
    g->is_reported = true; /* the user's program has not run, so it did not exit */
}

static void begin_run(struct guard *g, const struct cv_guard_request *request)
{
    CV_ASSERT(!g->is_running); /* the supervisor waits for GONE */
    CV_ASSERT(request->run > g->run);
    g->is_running = true;
    g->is_reported = false;
    g->is_killing = false;
    g->is_told_to_end = false;
    g->is_hung_up = false;
    g->run = request->run;
    g->command = 0;
    g->started = 0;
    g->stop_ns = CV_NEVER_NS;
    g->sweep_count = 0;
    g->status = 0;
    g->failed_errno = 0;
    g->end = CV_END_EXITED;
    g->token = request->token;
    g->has_run = false;
    g->is_cleaning = false;
    g->cleanup = 0;
    g->cleanup_status = CV_CLEANUP_NONE;
}

/* Forks the next command's process. If `request` is NULL, it waits for next_start(); otherwise it
 * begins at once. False: errno says why. */
static bool next_make(struct guard *g, const struct cv_guard_request *request)
{
    CV_ASSERT(g->next == 0);
    int ends[2]; /* a socket only if we have to send a request */
    if (request != NULL ? pipe2(ends, O_CLOEXEC) != 0
                        : socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    const pid_t pid = fork_into_group(g);
    if (pid == 0) {
        next_run(g, request, ends[1]);
    }
    const int failed_errno = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        errno = failed_errno;
        return false;
    }
    (void)setpgid(pid, pid); /* parent and child both do it; the first one counts */
    g->next = pid;
    g->next_fd = ends[0];
    return true;
}

/* Ends and reaps the process that waits; the user's program has not run in it. */
static void next_drop(struct guard *g)
{
    if (g->next == 0) {
        return;
    }
    (void)kill(g->next, SIGKILL); /* not reaped yet, so the pid is still its own */
    while (waitpid(g->next, NULL, 0) < 0 && errno == EINTR) {
        /* once more */
    }
    close_if_open(&g->next_fd);
    g->next = 0;
}

/* False: there is no process that waits, or it is dead. */
static bool next_start(const struct guard *g, const struct cv_guard_request *request)
{
    return g->next != 0 && cv__guard_send(g->next_fd, request, g->inherit_fd);
}

static void start(struct guard *g, const struct cv_guard_request *request)
{
    begin_run(g, request);
    cv__cgroup_end_others(&g->cgroup);
    const bool is_late =
        cv__clock_now_ns() >= cv__schedule_term_ns(&g->setting->schedule, deadline_ns(g));
    if (is_late) {
        not_started(g, TOO_LATE_CODE);
        become_idle(g);
        return;
    }
    if (!next_start(g, request)) { /* there is none yet, or it was killed */
        next_drop(g);
        if (!next_make(g, request)) {
            not_started(g, errno);
            become_idle(g);
            return;
        }
    }
    g->exec_fd = g->next_fd;
    g->command = g->next;
    g->started = g->next;
    g->next_fd = -1;
    g->next = 0;
}

/* Runs only the cleanup: an earlier guard ran the command, and both are gone. */
static void clean(struct guard *g, const struct cv_guard_request *request)
{
    next_drop(g); /* this run ends when no child is left */
    begin_run(g, request);
    g->is_reported = true;
    g->is_killing = true;
    g->started = request->pid;
    g->status = request->status;
    g->end = request->end;
    g->has_run = true;
    end_run(g);
}

/* The command's end was closed by exec, or it has sent what went wrong. */
static void on_exec(struct guard *g)
{
    int why;
    const ssize_t got = read(g->exec_fd, &why, sizeof why);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    close_if_open(&g->exec_fd);
    if (got == (ssize_t)sizeof why) {
        not_started(g, why);
    } else {
        g->has_run = true;
        report(g, CV_GUARD_STARTED, 0);
    }
}

static void signal_all(struct guard *g, int signo)
{
    if (g->command != 0) {
        (void)kill(-g->command, signo);
    }
    cv__tree_collect(&g->tree, g->pid, NULL);
    cv__tree_signal(&g->tree, signo, g->command);
}

static void begin_stop(struct guard *g, enum cv_end end, int64_t now_ns)
{
    CV_ASSERT(g->is_running);
    if (g->stop_ns != CV_NEVER_NS) {
        return;
    }
    g->stop_ns = now_ns;
    if (g->end == CV_END_EXITED) {
        g->end = end;
    }
    signal_all(g, SIGTERM);
    signal_all(g, SIGCONT); /* a stopped process would not notice */
}

static void begin_kill(struct guard *g, enum cv_end end, int64_t now_ns)
{
    if (!g->is_killing) {
        g->is_killing = true;
        g->sweep_ns = now_ns;
        g->stop_ns = cv__min64(g->stop_ns, now_ns);
        if (g->end == CV_END_EXITED && !g->is_reported) {
            g->end = end;
        }
    }
}

static void sweep(struct guard *g, int64_t now_ns)
{
    g->sweep_count++;
    if (g->command != 0) {
        (void)kill(-g->command, SIGKILL); /* most of them, with one call */
        cv__tree_hurry(g->command);
    }
    if (g->cleanup != 0) {
        (void)kill(-g->cleanup, SIGKILL);
    }
    cv__cgroup_kill(&g->cgroup);
    g->is_group_killed = true;
    if (g->sweep_count <= PLAIN_SWEEPS) {
        cv__tree_collect(&g->tree, g->pid, NULL);
        cv__tree_signal(&g->tree, SIGKILL, 0);
    } else {
        cv__tree_freeze_and_kill(&g->tree, g->pid, NULL);
    }
    atomic_fetch_add(&g->setting->control->sweep_count, 1);
    const uint32_t doublings = g->sweep_count < 5 ? g->sweep_count - 1 : 4;
    g->sweep_ns = now_ns + cv__min64(SWEEP_NS_MIN << doublings, SWEEP_NS_MAX);
}

static void on_command(struct guard *g, const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_STOPPED:
    case CLD_TRAPPED:
        report(g, CV_GUARD_SUSPENDED, info->si_status);
        break;
    case CLD_CONTINUED:
        report(g, CV_GUARD_CONTINUED, 0);
        break;
    default: /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
        if (g->exec_fd >= 0) {
            on_exec(g); /* a command may end before we saw that it began */
        }
        g->command = 0;
        if (!g->is_reported) {
            g->is_reported = true;
            g->status = cv__guard_exit_status(info->si_code, info->si_status);
            report(g, CV_GUARD_EXITED, 0);
        }
        break;
    }
}

/* Reaps children. Returns whether any is left; orphaned descendants are our children, too. */
static bool reap(struct guard *g)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0) {
            if (errno == EINTR) {
                continue;
            }
            CV_ASSERT(errno == ECHILD);
            return false;
        }
        if (info.si_pid == 0) {
            return true;
        }
        if (info.si_pid == g->command) {
            on_command(g, &info);
        } else if (info.si_pid == g->cleanup && info.si_code != CLD_STOPPED &&
                   info.si_code != CLD_TRAPPED && info.si_code != CLD_CONTINUED) {
            g->cleanup = 0;
            g->cleanup_status = cv__guard_exit_status(info.si_code, info.si_status);
            g->sweep_ns = cv__clock_now_ns(); /* kill what it has left in the background */
        }
    }
}

/* The cleanup runs, or a process that it has started. sweep_ns is the end of its time. */
static void step_cleanup(struct guard *g)
{
    if (cv__clock_now_ns() >= g->sweep_ns) {
        sweep(g, cv__clock_now_ns());
    }
    if (!reap(g)) {
        end_run(g);
    }
}

/* Between runs: keeps a process ready for the next command. */
static void step_idle(struct guard *g)
{
    const int64_t now_ns = cv__clock_now_ns();
    siginfo_t info = {0};
    if (g->next != 0 && waitid(P_PID, (id_t)g->next, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
        next_drop(g); /* it was killed */
        g->prepare_ns = now_ns + PREPARE_AGAIN_NS;
    }
    if (g->next == 0 && now_ns >= g->prepare_ns && !g->is_orphan) {
        if (next_make(g, /* request= */ NULL)) {
            cv__pages_give_back(); /* it may wait for months now */
        } else {
            g->prepare_ns =
                now_ns + PREPARE_AGAIN_NS; /* START tries again, and reports a failure */
        }
    }
}

/* Does what has become necessary because time has passed or a process has ended. */
static void step(struct guard *g)
{
    if (!g->is_running) {
        step_idle(g);
        return;
    }
    if (g->is_cleaning) {
        step_cleanup(g);
        return;
    }
    const int64_t valid_until_ns = deadline_ns(g);
    const struct cv_schedule *schedule = &g->setting->schedule;
    const int64_t now_ns = cv__clock_now_ns();
    if (g->is_orphan) {
        begin_kill(g, CV_END_STOPPED, now_ns);
    } else if (now_ns >= cv__schedule_term_ns(schedule, valid_until_ns)) {
        begin_stop(g, CV_END_DEADLINE, now_ns);
    }
    if (now_ns >= cv__schedule_kill_ns(schedule, valid_until_ns, g->stop_ns)) {
        begin_kill(g, CV_END_DEADLINE, now_ns);
    }
    if (g->is_killing && now_ns >= g->sweep_ns) {
        sweep(g, now_ns);
    }
    if (!reap(g)) {
        end_run(g);
    } else if (g->command == 0) {
        begin_stop(g, CV_END_EXITED, now_ns); /* what the command left behind */
    }
}

static int64_t next_ns(const struct guard *g)
{
    if (!g->is_running) {
        return g->next == 0 ? g->prepare_ns : CV_NEVER_NS;
    }
    if (g->is_killing || g->is_cleaning) {
        return g->sweep_ns;
    }
    if (g->stop_ns != CV_NEVER_NS) {
        return cv__schedule_kill_ns(&g->setting->schedule, deadline_ns(g), g->stop_ns);
    }
    return cv__schedule_term_ns(&g->setting->schedule, deadline_ns(g));
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_request(struct guard *g, const struct cv_guard_request *request)
{
    const int64_t now_ns = cv__clock_now_ns();
    if (request->kind == CV_GUARD_START) {
        start(g, request);
        return;
    }
    if (request->kind == CV_GUARD_CLEAN) {
        clean(g, request);
        return;
    }
    if (!g->is_running || g->is_cleaning) {
        return; /* the command ended while the request was on its way */
    }
    switch (request->kind) {
    case CV_GUARD_STOP:
        begin_stop(g, CV_END_STOPPED, now_ns);
        break;
    case CV_GUARD_KILL:
        begin_kill(g, CV_END_STOPPED, now_ns);
        break;
    case CV_GUARD_SIGNAL:
        if (g->command != 0) {
            (void)kill(-g->command, request->signo);
            g->is_told_to_end = g->is_told_to_end || request->signo == SIGTERM ||
                                request->signo == SIGINT || request->signo == SIGQUIT;
            g->is_hung_up = g->is_hung_up || request->signo == SIGHUP;
        }
        break;
    case CV_GUARD_LOOK: /* step() does */
    case CV_GUARD_START:
    case CV_GUARD_CLEAN:
        break;
    }
}

/* False: nothing to read now. */
static bool receive(struct guard *g)
{
    struct cv_guard_request request;
    const ssize_t got =
        cv__guard_receive(g->socket_fd, &request, &g->inherit_fd, /* waits= */ false);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    if (got != (ssize_t)sizeof request) {
        g->is_orphan = true; /* the other side is closed */
        return false;
    }
    on_request(g, &request);
    return true;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void drain(int fd)
{
    char buffer[8 * sizeof(struct signalfd_siginfo)];
    while (read(fd, buffer, sizeof buffer) > 0) {
        /* it was readable: that is all we need to know */
    }
}

/* Best effort: a guard that waits for the processor behind a hundred busy processes is late.
 * Children do not inherit it. */
static void hurry(void)
{
    const struct sched_param first = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first);
}

static bool setup(struct guard *g, const struct cv_guard_setting *setting)
{
    sigset_t child;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "conclave-guard");
    /* If both are stopped and then the supervisor is killed, only this signal wakes us up. */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    g->setting = setting;
    g->pid = getpid();
    g->exec_fd = -1;
    g->inherit_fd = -1;
    g->next_fd = -1;
    g->socket_fd = setting->socket_fd;
    close_own(g->socket_fd);
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, it never comes */
    g->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    g->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    g->supervisor_fd =
        (int)syscall(SYS_pidfd_open, setting->supervisor, 0); /* -1: the socket will do */
    g->cgroup = CV_CGROUP_NONE;
    if (!setting->of->without_cgroup) {
        g->cgroup = cv__cgroup_make(g->pid);
    }
    hurry();
    g->is_orphan = getppid() != setting->supervisor;
    return g->signal_fd >= 0 && g->timer_fd >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

_Noreturn void cv__guard_run(const struct cv_guard_setting *setting)
{
    struct guard *g = &guard_state;
    memset(g, 0, offsetof(struct guard, tree)); /* it is: an earlier guard was another process */
    if (!setup(g, setting)) {
        _exit(1); /* the supervisor notices, and starts nothing */
    }
    while (g->is_running || !g->is_orphan) {
        struct pollfd fds[] = {
            {.fd = g->socket_fd, .events = POLLIN},     {.fd = g->signal_fd, .events = POLLIN},
            {.fd = g->timer_fd, .events = POLLIN},      {.fd = g->exec_fd, .events = POLLIN},
            {.fd = g->supervisor_fd, .events = POLLIN},
        };
        if (g->is_orphan) { /* both would stay readable */
            fds[0].fd = -1;
            fds[4].fd = -1;
        }
        cv__clock_arm(g->timer_fd, next_ns(g));
        (void)poll(fds, COUNT_OF(fds), -1); /* whatever it returns, we check everything */
        if (fds[4].revents != 0) {
            g->is_orphan = true;
        }
        if (fds[1].revents != 0) {
            drain(g->signal_fd);
        }
        if (fds[3].revents != 0 && g->exec_fd >= 0) {
            on_exec(g);
        }
        while (!g->is_orphan && receive(g)) {
            /* until there is none */
        }
        step(g);
    }
    next_drop(g);
    (void)unlink(setting->lease_path);
    cv__cgroup_remove(&g->cgroup);
    _exit(0); /* closes the rest */
}
