/* src/supervisor/supervisor.h - runs a command while leading, and kills all of it at the end.
 *
 * Three processes: the supervisor (the caller, which takes part in the election), the guard (a
 * small fork of it, made by open) and the command, a child of the guard. The guard is a subreaper:
 * every process of the command stays below the guard, even if it double-forks or starts its own
 * session. So "no child left" means that the whole command is gone. Guard and supervisor watch each
 * other:
 *
 *   supervisor killed    the guard kills the command's tree at once, then ends
 *   supervisor stopped   the guard enforces the deadline: SIGTERM and SIGKILL come before it
 *   guard killed         the kernel kills the command, and the supervisor all of its descendants,
 *                        at once
 *   guard stopped        the supervisor continues it; if that does not help, it kills the guard
 *                        and the tree, before the deadline
 *
 * The cleanup runs in all of these cases: in the guard, or in a new guard if the first was killed.
 *
 * The deadline is a shared word in memory, so extending it costs nothing and works while the
 * guard is busy. Times are CLOCK_BOOTTIME, in nanoseconds. docs/supervisor.md says what is
 * promised when several of them are killed at once.
 *
 * How to use it: call open() first in the program, before it has threads and much memory; poll fd()
 * for reading (uv_poll works) and call dispatch(), which calls on_event. All functions return at
 * once, except close(). One thread; one supervisor for each process, because it takes over signals
 * and children: the process must not use uv_spawn() or uv_signal_*() beside it (hooks.h starts
 * children that it knows of). */
#ifndef CV_SUPERVISOR_SUPERVISOR_H
#define CV_SUPERVISOR_SUPERVISOR_H

#include "core/types.h"

#include <sys/types.h>

enum cv_terminal {
    /* If standard input is the terminal and we are in its foreground, the command's group gets the
     * foreground; ^Z stops the command and then us, and `fg` continues both. */
    CV_TERMINAL_AUTO,
    CV_TERMINAL_NEVER, /* the command stays in the background */
};

/* Why a run of the command ended. */
#define CV_END_MAP(X)                                                                \
    X(EXITED, "exited")           /* of its own accord */                            \
    X(STOPPED, "stopped")         /* cv__supervisor_stop() */                        \
    X(DEADLINE, "deadline")       /* the leadership was not extended in time */      \
    X(GUARD_DIED, "guard-died")   /* somebody killed it */                           \
    X(TOO_LATE, "too-late")       /* nothing was started; a later try may succeed */ \
    X(NOT_STARTED, "not-started") /* nothing was started: no process, or exec failed */

enum cv_end {
#define CV_END_ENUM(name, text) CV_END_##name,
    CV_END_MAP(CV_END_ENUM)
#undef CV_END_ENUM
        CV_END_COUNT
};

/* The stable word for it. */
const char *cv__supervisor_end_name(enum cv_end end);

enum cv_supervisor_event_kind {
    CV_SUPERVISOR_STARTED,   /* exec succeeded: pid */
    CV_SUPERVISOR_SUSPENDED, /* the command was stopped by signo */
    CV_SUPERVISOR_CONTINUED,
    CV_SUPERVISOR_EXITED, /* the command itself is over: status; what it started may still live */
    CV_SUPERVISOR_GONE,   /* nothing of it lives, and only the caller still has the inherited
                             descriptor: now it may resign. The last event of a run; status */
    CV_SUPERVISOR_SIGNAL, /* we got signo; if a command runs, it was passed on to its group */
};

struct cv_supervisor_event {
    enum cv_supervisor_event_kind kind;
    pid_t pid;  /* of the command; 0: it never had one */
    int signo;  /* SUSPENDED, SIGNAL */
    int status; /* EXITED, GONE: an exit status: the command's own, 128 + N if signal N killed it,
                   127 it was not found, 126 it could not be started for another reason */
    enum cv_end end;  /* GONE */
    int failed_errno; /* GONE, NOT_STARTED and TOO_LATE: why; 0: the deadline was too near */
    bool was_killed;  /* GONE: SIGKILL was needed */
    /* GONE: the exit status of the cleanup, as above (137: it took too long), or
     * CV_CLEANUP_NONE. */
    int cleanup_status;
};

#define CV_CLEANUP_NONE (-1) /* it was not run, or its end is not known */

struct cv_supervisor_setting {
    char *const *argv;    /* the command, found by PATH; lent until close() */
    const char *election; /* CONCLAVE_ELECTION; lent until close() */
    const char *node;     /* CONCLAVE_NODE */
    int64_t grace_ns;     /* from SIGTERM to SIGKILL, if the deadline leaves so much */
    /* SIGKILL is sent this long before the deadline; 0: a quarter of the grace, at least 5 and at
     * most 100 ms. */
    int64_t margin_ns;
    /* Run by the guard through /bin/sh when nothing of the command is left, and before GONE, so
     * before anybody else can lead; for at most cleanup_ns. It gets what the command got, and
     * CONCLAVE_REASON: finished, resigned, expired, or died if the supervisor or the guard did.
     * NULL: none. */
    const char *cleanup;
    int64_t cleanup_ns;
    enum cv_terminal terminal;
    bool without_cgroup; /* use no control group */
    /* close() leaves the signals blocked: the caller has something to finish before it exits, and a
     * second SIGTERM must not end it in the middle. */
    bool keeps_signals;
    /* Removed from the command's environment: secrets that are ours. Ends with NULL; NULL: none. */
    const char *const *hidden_variables;
    const char *(*fallback_folder)(void); /* for the lease file: see lease_file.h; may be NULL */
    void (*on_event)(void *user, const struct cv_supervisor_event *event);
    void *user;
};

struct cv_supervisor;

/* Makes the guard and the lease file, and takes over SIGTERM, INT, HUP, QUIT, USR1, USR2, WINCH,
 * CONT and CHLD (blocked, read from a descriptor). The command will get the dispositions and the
 * mask that are in force now: call it before changing them, as for SIGPIPE. */
CV_NODISCARD int cv__supervisor_open(struct cv_supervisor **ret_supervisor,
                                     const struct cv_supervisor_setting *setting,
                                     struct cv_errtext *reterr);

int cv__supervisor_fd(const struct cv_supervisor *supervisor);
void cv__supervisor_dispatch(struct cv_supervisor *supervisor);

/* Starts the command, unless less than the grace is left until valid_until_ns (then GONE comes,
 * TOO_LATE). Only when nothing runs: before the first start or after GONE. All of its descendants
 * inherit `inherit_fd` (-1: none), which stays the caller's; guard and command have copies.
 * valid_until_ns of INT64_MAX: no deadline. */
CV_NODISCARD int cv__supervisor_start(struct cv_supervisor *supervisor, uint64_t token,
                                      int64_t valid_until_ns, int inherit_fd,
                                      struct cv_errtext *reterr);

/* Has the guard begun to stop the command, because the end of the leadership came near? */
bool cv__supervisor_is_late(const struct cv_supervisor *supervisor);

/* The leadership is now valid until then; takes effect at once. It does not take back a stop. No
 * effect if nothing runs. */
void cv__supervisor_extend(struct cv_supervisor *supervisor, int64_t valid_until_ns);

/* SIGTERM to all of the command's descendants, SIGKILL after the grace or before the deadline,
 * whichever comes first. A second call changes nothing. */
void cv__supervisor_stop(struct cv_supervisor *supervisor);

/* SIGKILL to all of them now. */
void cv__supervisor_kill(struct cv_supervisor *supervisor);

pid_t cv__supervisor_guard_pid(const struct cv_supervisor *supervisor);
const char *cv__supervisor_lease_path(const struct cv_supervisor *supervisor);

/* Kills what runs, waits until it is gone, and gives signals (see keeps_signals) and children back.
 * NULL is fine. Not from within on_event. */
void cv__supervisor_close(struct cv_supervisor *supervisor);

#endif
