/* src/supervisor/guard.h - the guard: the command's parent, which outlives a supervisor that was
 * killed.
 *
 * supervisor.h says why it exists. While no command runs, it has a child that waits to become the
 * next command: forked, set up, and without the guard's descriptors. It is one thread, allocates
 * almost nothing, and waits in poll() for: a request, the end of the supervisor (its socket closes,
 * or its pidfd reports it), a child, and the clock. It blocks all signals and has its own process
 * group, so signals of a terminal do not reach it; it stays in the supervisor's session, because
 * the command can get the terminal only there. Neither side of the socket ever blocks. */
#ifndef CV_SUPERVISOR_GUARD_H
#define CV_SUPERVISOR_GUARD_H

#include "supervisor/lease_file.h"
#include "supervisor/schedule.h"
#include "supervisor/supervisor.h"

#include <signal.h>

/* Shared by guard and supervisor, in memory that no other process can reach. */
struct cv_control {
    _Atomic int64_t valid_until_ns;   /* written by the supervisor */
    _Atomic uint64_t sweep_count;     /* written by the guard: shows that it is killing */
    _Atomic int64_t cleanup_until_ns; /* the cleanup may run until then; 0: none runs */
};

enum cv_guard_request_kind {
    CV_GUARD_START, /* with the inherited descriptor, if there is one */
    CV_GUARD_STOP,
    CV_GUARD_KILL,
    CV_GUARD_SIGNAL,
    CV_GUARD_LOOK,  /* the deadline was moved to an earlier instant */
    CV_GUARD_CLEAN, /* run only the cleanup: an earlier guard was killed, and the command with it */
};

struct cv_guard_request {
    enum cv_guard_request_kind kind;
    int signo;
    uint64_t run;
    uint64_t token;
    bool is_foreground;
    pid_t pid;       /* CLEAN: of the command, for the report */
    int status;      /* CLEAN: of the command */
    enum cv_end end; /* CLEAN: why the command was ended */
};

enum cv_guard_report_kind {
    CV_GUARD_STARTED,
    CV_GUARD_SUSPENDED,
    CV_GUARD_CONTINUED,
    CV_GUARD_EXITED,
    CV_GUARD_GONE,
};

struct cv_guard_report {
    enum cv_guard_report_kind kind;
    pid_t pid;
    int signo;
    int status; /* as in struct cv_supervisor_event */
    int failed_errno;
    enum cv_end end;
    bool was_killed;
    int cleanup_status;
};

/* What the guard gets from the supervisor. */
struct cv_guard_setting {
    const struct cv_supervisor_setting *of;
    struct cv_schedule schedule;
    struct cv_control *control;
    struct cv_lease_page *lease;
    const char *lease_path;
    int socket_fd;
    pid_t supervisor;
    sigset_t mask;    /* for the command */
    sigset_t ignored; /* these stay ignored in the command, all others are reset */
};

/* Called in a fork of the supervisor, with all signals blocked. Closes all descriptors that close
 * on exec, except the socket. */
_Noreturn void cv__guard_run(const struct cv_guard_setting *setting);

/* Requests are few and short. False and errno: the receiver is dead, or the socket is full because
 * the receiver has not read for a long time. */
bool cv__guard_send(int socket_fd, const struct cv_guard_request *request, int inherit_fd);

/* What recvmsg(2) returns: the size of a request if there is one, 0 if the other side is closed. A
 * descriptor that comes with it replaces *ret_inherit_fd, and closes on exec. */
ssize_t cv__guard_receive(int socket_fd, struct cv_guard_request *ret_request, int *ret_inherit_fd,
                          bool waits);

/* An exit status as a shell gives it. */
int cv__guard_exit_status(int wait_code, int wait_status);

#endif
