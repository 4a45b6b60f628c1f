/* src/supervisor/supervisor.c - the supervisor's side; see supervisor.h. guard.c is the other side.
 *
 * The guard does the work of a run. This side sends it requests, turns its reports into events, and
 * takes over if the guard fails: the rescue. It begins when the guard is dead, or when half of the
 * margin has passed since the guard should have killed. Then we kill the guard too, adopt all of
 * its descendants (we are the next subreaper above it) and sweep until we have no child left that
 * is not claimed (child.h). */
#include "supervisor/supervisor.h"

#include "core/errors.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "supervisor/cgroup.h"
#include "supervisor/child.h"
#include "supervisor/guard.h"
#include "supervisor/terminal.h"
#include "supervisor/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS (50 * NS_PER_MS) /* the guard sweeps every 20 ms; without a sweep it has failed */
#define SWEEP_NS (2 * NS_PER_MS)
#define PLAIN_SWEEPS 3u    /* then freeze first */
#define EMPTY_LISTS_MIN 2u /* see is_nobody_left() */
#define KILLED_STATUS (128 + SIGKILL)

struct cv_supervisor {
    struct cv_supervisor_setting setting;
    struct cv_schedule schedule;
    struct cv_control *control; /* shared with the guard */
    struct cv_lease_file lease;
    sigset_t mask_before;      /* of the caller, and of the command */
    sigset_t ignored;          /* by the caller, and by the command */
    struct sigaction on_child; /* the caller's */
    int epoll_fd, timer_fd, signal_fd;
    int socket_fd;    /* to the guard; -1: it is gone */
    pid_t guard;      /* 0: none, and reaped */
    pid_t guard_name; /* pid of the last guard, which names its control group */
    bool is_in_event, is_silent;

    /* One run. */
    bool is_running;
    bool is_exited; /* reported */
    bool is_foreground;
    bool is_suspended; /* by the terminal; we stopped with it */
    uint64_t run, token;
    pid_t command; /* 0: not known to run */
    int64_t stop_ns;
    int64_t look_ns;       /* earliest time of the next check whether the guard is at work */
    uint64_t guard_sweeps; /* number of its sweeps at the last check */
    int status;

    /* In a rescue. */
    bool is_rescue;
    enum cv_end rescue_end; /* why the command was ended */
    bool is_cleaned;        /* another guard was made for the cleanup */
    uint32_t sweep_count, empty_count;
    int64_t sweep_ns;
    struct cv_cgroup cgroup;
    struct cv_tree *tree;
};

const char *cv__supervisor_end_name(enum cv_end end)
{
    static const char *const names[] = {
#define CV_END_TEXT(name, text) text,
        CV_END_MAP(CV_END_TEXT)
#undef CV_END_TEXT
    };
    CV_ASSERT(end < CV_END_COUNT);
    return names[end];
}

/* ---- events ---------------------------------------------------------------------------------- */

static void emit(struct cv_supervisor *s, const struct cv_supervisor_event *event)
{
    if (!s->is_silent) {
        const bool was_in_event = s->is_in_event;
        s->is_in_event = true;
        s->setting.on_event(s->setting.user, event);
        s->is_in_event = was_in_event;
    }
}

static void emit_exited(struct cv_supervisor *s, int status)
{
    if (s->command != 0 && !s->is_exited) {
        s->is_exited = true;
        s->status = status;
        cv__terminal_take_from(s->command);
        emit(s, &(struct cv_supervisor_event){
                    .kind = CV_SUPERVISOR_EXITED, .pid = s->command, .status = status});
    }
}

static void become_idle(struct cv_supervisor *s, struct cv_supervisor_event *gone)
{
    CV_ASSERT(s->is_running);
    cv__terminal_take_from(s->command);
    cv__lease_file_end(s->lease.page, s->run);
    s->is_running = false;
    s->is_rescue = false;
    s->command = 0;
    gone->kind = CV_SUPERVISOR_GONE;
    emit(s, gone);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int64_t rescue_ns(const struct cv_supervisor *s)
{
    const int64_t valid_until_ns = atomic_load(&s->control->valid_until_ns);
    const int64_t cleaned_ns =
        atomic_load(&s->control->cleanup_until_ns) + s->schedule.margin_ns / 2;
    const int64_t at_ns = cv__schedule_rescue_ns(&s->schedule, valid_until_ns, s->stop_ns);
    return cv__max64(s->look_ns, cv__max64(at_ns, cleaned_ns));
}

static void arm(struct cv_supervisor *s)
{
    int64_t at_ns = CV_NEVER_NS;
    if (s->is_running) {
        at_ns = s->is_rescue ? s->sweep_ns : rescue_ns(s);
    }
    cv__clock_arm(s->timer_fd, at_ns);
}

/* ---- the guard ------------------------------------------------------------------------------- */

static int guard_watch(struct cv_supervisor *s, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int guard_fork(struct cv_supervisor *s, struct cv_errtext *reterr)
{
    CV_ASSERT(s->guard == 0);
    CV_ASSERT(s->socket_fd < 0);
    int ends[2];
    sigset_t all;
    sigset_t before;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot create a socket for the guard: %s",
                        strerror(errno));
    }
    ends[0] = cv__descriptor_raise(ends[0]); /* when it closes, the guard knows that we are dead */
    const struct cv_guard_setting setting = {
        .of = &s->setting,
        .schedule = s->schedule,
        .control = s->control,
        .lease = s->lease.page,
        .lease_path = s->lease.path,
        .socket_fd = ends[1],
        .supervisor = getpid(),
        .mask = s->mask_before,
        .ignored = s->ignored,
    };
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) {
        cv__guard_run(&setting);
    }
    const int failed_errno = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[1]);
    if (pid < 0 || guard_watch(s, ends[0]) != 0) {
        (void)close(ends[0]); /* if the guard runs, this ends it */
        return cv__fail(reterr, CV_E_IO, "cannot start the guard: %s",
                        strerror(pid < 0 ? failed_errno : errno));
    }
    s->guard = pid;
    s->guard_name = pid;
    s->socket_fd = ends[0];
    return CV_OK;
}

static void guard_drop(struct cv_supervisor *s)
{
    if (s->socket_fd >= 0) {
        (void)close(s->socket_fd); /* and epoll forgets it */
        s->socket_fd = -1;
    }
    if (s->guard != 0) {
        (void)kill(s->guard, SIGKILL); /* not reaped yet, so it is the guard */
    }
}

static bool guard_ask(struct cv_supervisor *s, const struct cv_guard_request *request, int fd)
{
    return s->socket_fd >= 0 && cv__guard_send(s->socket_fd, request, fd);
}

/* A signal for the command's group, if it runs. */
static void signal_command(struct cv_supervisor *s, int signo)
{
    if (s->is_running) {
        const struct cv_guard_request request = {.kind = CV_GUARD_SIGNAL, .signo = signo};
        (void)guard_ask(s, &request, -1);
    }
}

static void begin_rescue(struct cv_supervisor *s, enum cv_end end)
{
    if (s->is_rescue || !s->is_running) {
        return;
    }
    s->cgroup = cv__cgroup_find(s->guard_name);
    guard_drop(s);
    s->is_rescue = true;
    s->rescue_end = end;
    s->sweep_count = 0;
    s->empty_count = 0;
    s->sweep_ns = cv__clock_now_ns();
}

/* The guard should be done by now. If it sweeps, and the killed processes only need time to die,
 * the supervisor sends SIGKILL too, so that every process has it before the deadline. If it does
 * not sweep, the supervisor takes over. That is no fault of the guard if both were paused, so it is
 * not reported as one. */
static void help_or_rescue(struct cv_supervisor *s, int64_t now_ns)
{
    const uint64_t guard_sweeps = atomic_load(&s->control->sweep_count);
    if (guard_sweeps == s->guard_sweeps || s->guard == 0) {
        begin_rescue(s, s->guard == 0               ? CV_END_GUARD_DIED
                        : s->stop_ns != CV_NEVER_NS ? CV_END_STOPPED
                                                    : CV_END_DEADLINE);
        return;
    }
    s->guard_sweeps = guard_sweeps;
    s->look_ns = now_ns + LOOK_NS;
    cv__tree_collect(s->tree, s->guard, NULL);
    cv__tree_signal(s->tree, SIGKILL, 0);
    arm(s);
}

static void on_suspended(struct cv_supervisor *s, int signo)
{
    emit(s, &(struct cv_supervisor_event){
                .kind = CV_SUPERVISOR_SUSPENDED, .pid = s->command, .signo = signo});
    const bool is_by_terminal = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
    if (s->setting.terminal == CV_TERMINAL_NEVER || !isatty(STDIN_FILENO) || !is_by_terminal) {
        return; /* a user stopped the command and will continue it */
    }
    bool is_to_go_on;
    if (signo != SIGTSTP && cv__terminal_is_ours()) {
        is_to_go_on = true; /* we were brought to the foreground: the command may read now */
    } else {
        cv__terminal_take_from(s->command);
        s->is_suspended = true;
        is_to_go_on = !cv__terminal_suspend(signo) && signo == SIGTSTP;
    }
    if (is_to_go_on) {
        s->is_suspended = false;
        cv__terminal_give(s->command);
        signal_command(s, SIGCONT);
    }
}

static void on_report(struct cv_supervisor *s, const struct cv_guard_report *report)
{
    CV_ASSERT(s->is_running);
    struct cv_supervisor_event event = {
        .pid = report->pid,
        .signo = report->signo,
        .status = report->status,
        .end = report->end,
        .failed_errno = report->failed_errno,
        .was_killed = report->was_killed,
        .cleanup_status = report->cleanup_status,
    };
    switch (report->kind) {
    case CV_GUARD_STARTED:
        s->command = report->pid;
        event.kind = CV_SUPERVISOR_STARTED;
        emit(s, &event);
        break;
    case CV_GUARD_SUSPENDED:
        on_suspended(s, report->signo);
        break;
    case CV_GUARD_CONTINUED:
        s->is_suspended = false;
        event.kind = CV_SUPERVISOR_CONTINUED;
        emit(s, &event);
        break;
    case CV_GUARD_EXITED:
        s->command = report->pid;
        emit_exited(s, report->status);
        break;
    case CV_GUARD_GONE:
        s->command = report->pid; /* it may have had the terminal, even if exec failed */
        become_idle(s, &event);
        break;
    }
}

/* Reads the guard's reports. Those from before its death are read before its death is noticed. */
static void guard_listen(struct cv_supervisor *s)
{
    while (s->socket_fd >= 0 && !s->is_rescue) {
        struct cv_guard_report report;
        const ssize_t got = recv(s->socket_fd, &report, sizeof report, MSG_DONTWAIT);
        if (got == (ssize_t)sizeof report) {
            on_report(s, &report);
        } else if (got < 0 && (errno == EINTR || errno == ECONNRESET)) {
            continue; /* a reset is reported once; earlier reports can still be read */
        } else if (got < 0 && errno == EAGAIN) {
            return;
        } else {
            if (s->is_running) {
                begin_rescue(s, CV_END_GUARD_DIED);
            } else {
                guard_drop(s);
            }
        }
    }
}

/* ---- children: the guard, and in a rescue the guard's ---------------------------------------- */

static void reap(struct cv_supervisor *s)
{
    siginfo_t info = {0};
    if (s->guard != 0 && waitid(P_PID, (id_t)s->guard, &info, WSTOPPED | WNOHANG) == 0 &&
        info.si_pid != 0) {
        (void)kill(s->guard, SIGCONT); /* without the guard the deadline is not enforced */
    }
    cv__tree_collect_children(s->tree, getpid(), cv__child_is_claimed);
    for (uint32_t i = 0; i < s->tree->count; i++) {
        const pid_t pid = s->tree->entry[i].pid;
        info = (siginfo_t){0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
            continue;
        }
        if (pid == s->guard) {
            s->guard = 0;
            begin_rescue(s, CV_END_GUARD_DIED);
            guard_drop(s);
        } else if (pid == s->command) {
            emit_exited(s, cv__guard_exit_status(info.si_code, info.si_status));
        }
    }
}

/* No process of the command is left. Without claimed children, the kernel knows it exactly. With
 * them, two empty lists from /proc have to do: one list may miss a process while others end. */
static bool is_nobody_left(const struct cv_supervisor *s)
{
    siginfo_t info = {0};
    if (s->guard != 0) {
        return false;
    }
    if (cv__child_has_claims()) {
        return s->empty_count >= EMPTY_LISTS_MIN;
    }
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

/* Starts a new guard for the cleanup: it enforces the time limit, and outlives us. False: there is
 * no cleanup, or no guard could be started. */
static bool rescue_clean(struct cv_supervisor *s)
{
    const struct cv_guard_request request = {
        .kind = CV_GUARD_CLEAN,
        .run = s->run,
        .token = s->token,
        .pid = s->command,
        .status = s->is_exited ? s->status : KILLED_STATUS,
        .end = s->rescue_end,
    };
    if (s->setting.cleanup == NULL || s->is_cleaned) {
        return false;
    }
    s->is_cleaned = true;
    if (guard_fork(s, NULL) != CV_OK || !guard_ask(s, &request, -1)) {
        guard_drop(s);
        return false;
    }
    s->is_rescue = false;
    atomic_store(&s->control->cleanup_until_ns, cv__clock_now_ns() + s->schedule.cleanup_ns);
    arm(s);
    return true;
}

static void rescue(struct cv_supervisor *s)
{
    const int64_t now_ns = cv__clock_now_ns();
    if (now_ns < s->sweep_ns) {
        return;
    }
    s->sweep_ns = now_ns + SWEEP_NS;
    s->sweep_count++;
    cv__cgroup_kill(&s->cgroup);
    if (s->sweep_count <= PLAIN_SWEEPS) {
        cv__tree_collect(s->tree, getpid(), cv__child_is_claimed);
        cv__tree_signal(s->tree, SIGKILL, 0);
    } else {
        cv__tree_freeze_and_kill(s->tree, getpid(), cv__child_is_claimed);
    }
    s->empty_count = s->tree->count == 0 ? s->empty_count + 1 : 0;
    if (s->empty_count == 1) {
        s->sweep_ns = now_ns; /* look again at once */
    }
    if (is_nobody_left(s)) {
        struct cv_supervisor_event gone = {
            .pid = s->command,
            .end = s->rescue_end,
            .was_killed = true,
            .cleanup_status = CV_CLEANUP_NONE,
        };
        emit_exited(s, KILLED_STATUS); /* no effect if its end was reported already */
        gone.status = s->is_exited ? s->status : KILLED_STATUS;
        cv__cgroup_remove(&s->cgroup);
        if (!rescue_clean(s)) {
            become_idle(s, &gone);
        }
    }
}

/* ---- signals --------------------------------------------------------------------------------- */

static void on_signal(struct cv_supervisor *s, int signo)
{
    switch (signo) {
    case SIGCHLD:
        break; /* dispatch() calls reap() */
    case SIGCONT:
        if (s->is_running && s->is_suspended) {
            s->is_suspended = false;
            cv__terminal_give(s->command); /* after `fg` it is ours; after `bg` it is not */
            signal_command(s, SIGCONT);
        }
        break;
    default:
        signal_command(s, signo);
        emit(s, &(struct cv_supervisor_event){
                    .kind = CV_SUPERVISOR_SIGNAL, .pid = s->command, .signo = signo});
        break;
    }
}

static bool take_signals(struct cv_supervisor *s)
{
    struct signalfd_siginfo info;
    bool is_child = false;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        is_child |= info.ssi_signo == SIGCHLD;
        on_signal(s, (int)info.ssi_signo);
    }
    return is_child;
}

void cv__supervisor_dispatch(struct cv_supervisor *s)
{
    uint64_t ticks;
    const bool has_tick = read(s->timer_fd, &ticks, sizeof ticks) == (ssize_t)sizeof ticks;
    const bool has_child = take_signals(s);
    guard_listen(s); /* first: the guard may have reported while this process was late */
    if (has_child || s->is_rescue) {
        reap(s);
    }
    const int64_t now_ns = cv__clock_now_ns();
    if (s->is_running && !s->is_rescue && now_ns >= rescue_ns(s)) {
        help_or_rescue(s, now_ns);
    }
    if (s->is_rescue) {
        rescue(s);
    }
    if (has_tick || s->is_rescue) {
        arm(s);
    }
}

/* ---- what the caller asks for ---------------------------------------------------------------- */

int cv__supervisor_start(struct cv_supervisor *s, uint64_t token, int64_t valid_until_ns,
                         int inherit_fd, struct cv_errtext *reterr)
{
    CV_ASSERT(!s->is_running);
    if (s->socket_fd < 0) { /* the guard was killed in an earlier run, or while nothing ran */
        while (s->guard != 0 && waitpid(s->guard, NULL, 0) < 0 && errno == EINTR) {
            /* it was killed, so this does not take long */
        }
        s->guard = 0;
        const int failed = guard_fork(s, reterr);
        if (failed != CV_OK) {
            return failed;
        }
    }
    s->run++;
    s->token = token;
    s->command = 0;
    s->is_exited = false;
    s->is_suspended = false;
    s->stop_ns = CV_NEVER_NS;
    s->look_ns = 0;
    s->is_cleaned = false;
    atomic_store(&s->control->cleanup_until_ns, 0);
    s->guard_sweeps = atomic_load(&s->control->sweep_count);
    s->status = 0;
    s->is_foreground = s->setting.terminal == CV_TERMINAL_AUTO && cv__terminal_is_ours();
    atomic_store(&s->control->valid_until_ns, valid_until_ns);
    cv__lease_file_publish(s->lease.page, s->run, token, valid_until_ns);
    const struct cv_guard_request request = {
        .kind = CV_GUARD_START,
        .run = s->run,
        .token = token,
        .is_foreground = s->is_foreground,
    };
    if (!guard_ask(s, &request, inherit_fd)) {
        const int failed_errno = errno;
        cv__lease_file_end(s->lease.page, s->run);
        guard_drop(s);
        return cv__fail(reterr, CV_E_IO, "cannot reach the guard: %s", strerror(failed_errno));
    }
    s->is_running = true;
    arm(s);
    return CV_OK;
}

bool cv__supervisor_is_late(const struct cv_supervisor *s)
{
    const int64_t valid_until_ns = atomic_load(&s->control->valid_until_ns);
    return s->is_running &&
           cv__clock_now_ns() >= cv__schedule_term_ns(&s->schedule, valid_until_ns);
}

void cv__supervisor_extend(struct cv_supervisor *s, int64_t valid_until_ns)
{
    if (!s->is_running) {
        return;
    }
    const int64_t before_ns = atomic_exchange(&s->control->valid_until_ns, valid_until_ns);
    cv__lease_file_publish(s->lease.page, s->run, s->token, valid_until_ns);
    if (valid_until_ns <
        before_ns) { /* a later end needs no wake-up: both look again when the earlier one comes */
        (void)guard_ask(s, &(struct cv_guard_request){.kind = CV_GUARD_LOOK}, -1);
        arm(s);
    }
}

void cv__supervisor_stop(struct cv_supervisor *s)
{
    if (s->is_running && s->stop_ns == CV_NEVER_NS) {
        s->stop_ns = cv__clock_now_ns();
        (void)guard_ask(s, &(struct cv_guard_request){.kind = CV_GUARD_STOP}, -1);
        arm(s);
    }
}

void cv__supervisor_kill(struct cv_supervisor *s)
{
    if (s->is_running) {
        /* As if the grace were over now, so that the rescue does not wait for it. */
        s->stop_ns = cv__min64(s->stop_ns, cv__clock_now_ns() - s->schedule.grace_ns);
        (void)guard_ask(s, &(struct cv_guard_request){.kind = CV_GUARD_KILL}, -1);
        arm(s);
    }
}

int cv__supervisor_fd(const struct cv_supervisor *s)
{
    return s->epoll_fd;
}

pid_t cv__supervisor_guard_pid(const struct cv_supervisor *s)
{
    return s->guard;
}

const char *cv__supervisor_lease_path(const struct cv_supervisor *s)
{
    return s->lease.path;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* If descriptors 0 to 2 are closed, the next that we open would become the standard output of the
 * command. */
static void fill_standard_fds(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd >= 0 && fd <= STDERR_FILENO) {
            (void)fcntl(fd, F_SETFD, 0);
        }
    } while (fd >= 0 && fd < STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

static void block_signals(struct cv_supervisor *s)
{
    static const int taken[] = {SIGTERM, SIGINT,   SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD};
    sigset_t set;
    struct sigaction now;
    (void)sigemptyset(&set);
    (void)sigemptyset(&s->ignored);
    for (int signo = 1; signo < NSIG; signo++) {
        if (sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN) {
            (void)sigaddset(&s->ignored, signo);
        }
    }
    for (uint32_t i = 0; i < COUNT_OF(taken); i++) {
        /* An ignored signal (nohup) stays ignored; SIGCHLD is needed. */
        if (sigismember(&s->ignored, taken[i]) != 1 || taken[i] == SIGCHLD) {
            (void)sigaddset(&set, taken[i]);
        }
    }
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &s->on_child);
    (void)pthread_sigmask(SIG_BLOCK, &set, &s->mask_before);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int prepare(struct cv_supervisor *s, struct cv_errtext *reterr)
{
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    block_signals(s);
    if (s->epoll_fd < 0 || s->timer_fd < 0 || s->signal_fd < 0 ||
        guard_watch(s, s->timer_fd) != 0 || guard_watch(s, s->signal_fd) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot create the supervisor's descriptors: %s",
                        strerror(errno));
    }
    void *page =
        mmap(NULL, sizeof *s->control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot prepare the supervisor: %s", strerror(errno));
    }
    s->control = page;
    /* Children from before the exec() of this program do not belong to the command. */
    cv__tree_collect_children(s->tree, getpid(), NULL);
    if (s->tree->is_cut || !cv__child_reserve(s->tree->count)) {
        return cv__fail(reterr, CV_E_LIMIT, "this process has too many children already: %u%s",
                        s->tree->count, s->tree->is_cut ? " and more" : "");
    }
    for (uint32_t i = 0; i < s->tree->count; i++) {
        cv__child_claim(s->tree->entry[i].pid);
    }
    const int failed = cv__lease_file_make(&s->lease, s->setting.election, s->setting.node,
                                           s->setting.fallback_folder, reterr);
    return failed != CV_OK ? failed : guard_fork(s, reterr);
}

int cv__supervisor_open(struct cv_supervisor **ret_supervisor,
                        const struct cv_supervisor_setting *setting, struct cv_errtext *reterr)
{
    CV_ASSERT(setting->on_event != NULL);
    if (setting->argv == NULL || setting->argv[0] == NULL || setting->grace_ns < 0 ||
        setting->margin_ns < 0 || setting->cleanup_ns < 0) {
        return cv__fail(reterr, CV_E_INVALID,
                        "a supervisor needs a command, and times of at least 0");
    }
    struct cv_supervisor *s = calloc(1, sizeof *s);
    if (s == NULL || (s->tree = malloc(sizeof *s->tree)) == NULL) {
        free(s);
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the supervisor");
    }
    fill_standard_fds();
    s->setting = *setting;
    s->schedule = cv__schedule(setting->grace_ns, setting->cleanup_ns, setting->margin_ns);
    s->cgroup = CV_CGROUP_NONE;
    s->socket_fd = -1;
    const int failed = prepare(s, reterr);
    if (failed != CV_OK) {
        cv__supervisor_close(s);
        return failed;
    }
    *ret_supervisor = s;
    return CV_OK;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Nothing runs, so the guard can be killed, and its control group is removed here. Asking it to end
 * and waiting could take for ever, if somebody stops it at that moment. */
static void guard_dismiss(struct cv_supervisor *s)
{
    CV_ASSERT(!s->is_running);
    guard_drop(s);
    while (s->guard != 0 && waitpid(s->guard, NULL, 0) < 0 && errno == EINTR) {
        /* it was killed, so this does not take long */
    }
    if (s->guard != 0 && !s->setting.without_cgroup) {
        struct cv_cgroup cgroup = cv__cgroup_find(s->guard);
        cv__cgroup_remove(&cgroup);
    }
    s->guard = 0;
}

void cv__supervisor_close(struct cv_supervisor *s)
{
    if (s == NULL) {
        return;
    }
    CV_ASSERT(!s->is_in_event);
    s->is_silent = true;
    cv__supervisor_kill(s);
    while (s->is_running) {
        struct pollfd ready = {.fd = s->epoll_fd, .events = POLLIN};
        (void)poll(&ready, 1, -1);
        cv__supervisor_dispatch(s);
    }
    guard_dismiss(s);
    cv__lease_file_remove(&s->lease);
    if (s->control != NULL) {
        (void)munmap(s->control, sizeof *s->control);
    }
    close_if_open(s->epoll_fd);
    close_if_open(s->timer_fd);
    close_if_open(s->signal_fd);
    (void)sigaction(SIGCHLD, &s->on_child, NULL);
    if (!s->setting.keeps_signals) {
        (void)pthread_sigmask(SIG_SETMASK, &s->mask_before, NULL);
    }
    free(s->tree);
    free(s);
}
