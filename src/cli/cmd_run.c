/* src/cli/cmd_run.c - `conclave run NAME -- CMD...`: runs a command while leading.
 *
 * Two parts that know nothing of each other meet here: the election, which has a thread of its own,
 * and the supervisor with its guard, which makes sure that no process of the command outlives the
 * leadership. This loop connects them: when elected, start the command; when the lease is renewed,
 * extend the deadline; when it is lost or a resignation is requested, stop the command; when no
 * process of it is left, resign. The lease is never released before the command is gone [traps.md
 * T14]. While a command survives although it was killed, this loop does not call cv_progress(), so
 * the lease is not renewed either and runs out. */
#include "cli/cli.h"
#include "cli/every.h"
#include "cli/inquiry.h"
#include "cli/run_settings.h"
#include "core/errors.h"
#include "os/clock.h"
#include "os/pages.h"
#include "runtime/election.h"
#include "runtime/place.h"
#include "stores/store.h"
#include "supervisor/hooks.h"
#include "supervisor/lease_file.h"
#include "supervisor/notify.h"
#include "supervisor/supervisor.h"

#include <conclave/conclave.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exit statuses in addition to those of base/command.h and those of the command. */
enum {
    EXIT_CONFLICT = 1, /* another contender leads; -E changes it */
    EXIT_LOST = 124,   /* the command was stopped, because the leadership ended */
    EXIT_OWN = 125,    /* conclave itself failed */
    EXIT_SIGNAL = 128, /* and the number of the signal */
};

#define OVERDUE_NS \
    (5 * NS_PER_S) /* a command that was killed and is not gone after this is stuck */
#define HOOKS_NS_MAX (5 * NS_PER_S)
#define LOOK_NS (100 * NS_PER_MS)   /* --every: how soon a store that failed is asked again */
#define GIVE_BACK_NS (2 * NS_PER_S) /* see consider_giving_back() */
#define CLOSE_S_MAX 10u             /* see closing_begin() */
#define FIRST_ANSWER_NS \
    (5 * NS_PER_S) /* how long -n waits for a store that does not answer at all */
#define FIRST_ANSWER_NS_MIN (1 * NS_PER_S) /* the same for -w, if its time is shorter */

enum stage {
    STAGE_WAITING,
    STAGE_RUNNING,
    STAGE_STOPPING,
    STAGE_RECORDING, /* --every: the command has ended, and its status must be recorded */
};

struct run {
    const struct cv_run_settings *settings;
    struct cv_supervisor *supervisor;
    struct cv_election *election;
    struct cv_hooks *hooks;
    char lease_path[CV_LEASE_PATH_BYTES]; /* lent to the hooks, which outlive the supervisor */
    struct cv_notify notify;
    struct cv_election_status status;

    enum stage stage;
    uint64_t token;         /* of the current run, or of the last one */
    int64_t stop_ns;        /* when the command was told to stop */
    bool must_resign;       /* a resignation was requested */
    bool is_finished;       /* the command has ended by itself, or must not run in this period */
    int64_t valid_until_ns; /* as of the latest renewal */
    int64_t turn_ns;        /* when the loop last ran */
    bool was_paused;        /* this process did not run for a while since the last renewal */
    bool is_late;           /* a renewal came after the guard began to stop the command */
    enum cv_reason why;     /* why the current leadership ends, or the last one ended */
    uint64_t said_token;    /* of the leader that say_leader() reported last; 0: none */
    int64_t said_ns;        /* when it did */
    int64_t give_back_after_ns; /* memory, if it still waits this long after said_ns */
    bool has_led;               /* at least once */
    uint64_t master_token;      /* of the leadership that the hooks know of; 0: none */
    bool has_trouble;           /* trouble was reported, and is not over */
    struct cv_every every;
    bool must_look; /* --every: ask the store again, even if the election does not change */
    int job_status; /* RECORDING: the status to record */
    int got_signal; /* the last one that asks to end; 0: none */
    int end_signal; /* after the command was stopped, exit because of this; 0: none */
    bool is_over;   /* exit with exit_status */
    int exit_status;
    int64_t give_up_ns; /* if not elected by then; INT64_MAX: never */
    int64_t began_ns;   /* to take part */
    bool has_answer;    /* the store has answered at least once */
};

static void say(const struct run *run, const char *format, ...) CV_PRINTF(2, 3);

static void say(const struct run *run, const char *format, ...)
{
    if (!run->settings->is_verbose) {
        return;
    }
    char line[1024]; /* a longer message is cut off */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cv__complain("%s: %s", run->settings->name, line);
}

static void end(struct run *run, int exit_status)
{
    run->is_over = true;
    run->exit_status = exit_status;
}

static void say_given_up(const struct run *run, enum cv_reason why)
{
    if (run->status.role == CV_ROLE_LEADER) {
        say(run, "leadership given up (%s)", cv_reason_name(why));
    }
}

/* This process does not lead any more, or will not in a moment, and waits. */
static void step_down(struct run *run)
{
    run->stage = STAGE_WAITING;
    cv__hooks_change(run->hooks, CV_HOOK_BACKUP, run->master_token, cv_reason_name(run->why));
    run->master_token = 0;
    cv__notify_status(&run->notify, "waiting");
}

/* ---- The command ----------------------------------------------------------------------------- */

/* If so, the command did not end by itself: it got the same signal. SIGHUP does not count: it makes
 * many commands only reread their files. */
static bool is_told_to_end(const struct run *run)
{
    return run->got_signal != 0 && run->got_signal != SIGHUP;
}

static bool is_hung_up(const struct run *run, int status)
{
    return run->got_signal == SIGHUP && status == EXIT_SIGNAL + SIGHUP;
}

/* --every: may this leadership run the command? False: no, or not yet. */
static bool period_begin(struct run *run)
{
    switch (cv__every_begin(&run->every, run->status.token)) {
    case CV_EVERY_GO:
        return true;
    case CV_EVERY_DONE:
        say(run, "%s", run->every.line);
        run->is_finished = true; /* nobody told it to resign: there is nothing to do */
        end(run, EXIT_FINE);
        break;
    case CV_EVERY_FAILED:
        cv__complain("%s: %s", run->settings->name, run->every.line);
        run->is_finished = true;
        end(run, (int)run->settings->conflict);
        break;
    case CV_EVERY_BROKEN:
        cv__complain("%s: %s", run->settings->name, run->every.line);
        run->is_finished = true;
        end(run, EXIT_LOST);
        break;
    case CV_EVERY_FENCED: /* the election will report it, too */
    case CV_EVERY_LATER:
        run->must_look = true;
        break;
    }
    return false;
}

/* --every: records that the run has ended with run->job_status. If the store does not answer, it is
 * called again. */
static void period_end(struct run *run)
{
    const enum cv_every_outcome outcome = cv__every_end(&run->every, run->job_status);
    if (outcome == CV_EVERY_LATER && !is_told_to_end(run) && run->end_signal == 0 &&
        run->status.role == CV_ROLE_LEADER && run->status.token == run->token) {
        run->must_look = true;
    } else if (outcome != CV_EVERY_GO) {
        cv__complain("%s: the command ended with status %d, but this could not be recorded: %s; %s",
                     run->settings->name, run->job_status,
                     outcome == CV_EVERY_FENCED ? "the leadership was lost first"
                                                : "the store does not answer",
                     run->settings->every.at_most_once
                         ? "it counts as not ended, and is not repeated in this period"
                         : "another contender may run it once more");
        end(run, EXIT_LOST);
    } else if (run->job_status == 0 || is_told_to_end(run) || run->end_signal != 0 ||
               run->settings->is_once || !cv__every_is_due(&run->every)) {
        end(run, run->job_status);
    } else {
        cv__complain("%s: the command failed with status %d; the next leader tries again",
                     run->settings->name, run->job_status);
        run->is_finished = false;
        run->why = CV_REASON_FINISHED;
        step_down(run); /* and wait for another token, of the next leader */
        run->must_look = true;
    }
}

/* The command has ended. Without --every, this process ends, too. A run that a signal interrupted
 * is recorded neither as done nor as failed, so the next leader runs it again; with --at-most-once
 * nobody does, and its status is recorded. */
static void finish(struct run *run, int status)
{
    const bool is_interrupted = is_hung_up(run, status) || (is_told_to_end(run) && status != 0);
    const struct cv_every_setting *every = &run->settings->every;
    if (!every->is_on || (is_interrupted && !every->at_most_once)) {
        end(run, status);
        return;
    }
    run->stage = STAGE_RECORDING;
    run->job_status = status;
    period_end(run); /* at once: a runner that dies before the record is repeated */
}

static void start(struct run *run)
{
    if (run->settings->every.is_on && !period_begin(run)) {
        return;
    }
    struct cv_errtext error;
    const struct cv_election_status *s = &run->status;
    const int lifeline = cv__election_lifeline(run->election);
    const int code =
        cv__supervisor_start(run->supervisor, s->token, s->valid_until_ns, lifeline, &error);
    if (lifeline >= 0) {
        (void)close(lifeline); /* guard and command have copies, the election has the original */
    }
    if (code != CV_OK) {
        cv__complain("%s", error.text);
        end(run, EXIT_OWN);
        return;
    }
    run->has_led = true;
    run->stage = STAGE_RUNNING;
    run->token = s->token;
    run->must_resign = false;
    run->got_signal = 0; /* an earlier run got it */
    run->why = CV_REASON_STARTED;
    run->was_paused = false;
    run->is_late = false;
    run->valid_until_ns = s->valid_until_ns;
    say(run, "elected, token %llu", (unsigned long long)s->token);
    /* ELECTED even if the latest status says RENEWED: hooks are told of the beginning. */
    cv__hooks_change(run->hooks, CV_HOOK_MASTER, s->token, cv_reason_name(CV_REASON_ELECTED));
    run->master_token = s->token;
    cv__notify_status(&run->notify, "leading, token %llu", (unsigned long long)s->token);
}

static void stop(struct run *run, const char *why)
{
    if (run->stage != STAGE_RUNNING) {
        return;
    }
    run->stage = STAGE_STOPPING;
    run->stop_ns = cv__clock_now_ns();
    say(run, "%s: stopping the command", why);
    cv__supervisor_stop(run->supervisor);
}

/* A cluster has no store: a message about one would mislead the operator. */
static bool has_store(const struct run *run)
{
    return run->settings->via == NULL || cv__store_find(run->settings->via) != NULL;
}

/* Why did the leadership of the command end? If the election says that we still lead, the guard
 * stopped the command because the lease was not renewed in time: either this process was paused, or
 * the store did not answer. */
static enum cv_reason why_lost(const struct run *run)
{
    const struct cv_election_status *s = &run->status;
    if (run->must_resign) {
        return CV_REASON_RESIGNED;
    }
    if (s->role == CV_ROLE_LEADER && s->token == run->token) {
        return run->was_paused || !has_store(run) ? CV_REASON_EXPIRED : CV_REASON_STORE_UNREACHABLE;
    }
    const bool is_of_another = s->reason == CV_REASON_ELECTED || s->reason == CV_REASON_RENEWED;
    return is_of_another ? CV_REASON_EXPIRED : s->reason;
}

/* The leadership passes on even if the cleanup failed, so the operator must be told. */
static void say_cleanup(const struct run *run, const struct cv_supervisor_event *event)
{
    const bool was_run = event->end != CV_END_NOT_STARTED && event->end != CV_END_TOO_LATE;
    if (run->settings->cleanup == NULL || !was_run || event->cleanup_status == 0) {
        return;
    }
    if (event->cleanup_status == CV_CLEANUP_NONE) {
        cv__complain("%s: the cleanup did not finish", run->settings->name);
    } else {
        cv__complain("%s: the cleanup failed with status %d%s", run->settings->name,
                     event->cleanup_status,
                     event->cleanup_status == EXIT_SIGNAL + SIGKILL
                         ? "; a cleanup that takes longer than --cleanup-time is killed"
                         : "");
    }
}

static void on_gone(struct run *run, const struct cv_supervisor_event *event)
{
    say_cleanup(run, event);
    const bool was_asked = run->must_resign;
    run->stage = STAGE_WAITING;
    switch (event->end) {
    case CV_END_EXITED:
        run->is_finished = !is_told_to_end(run) && !is_hung_up(run, event->status);
        run->why = run->is_finished ? CV_REASON_FINISHED : CV_REASON_RESIGNED;
        finish(run, event->status);
        return;
    case CV_END_NOT_STARTED:
        cv__complain("cannot run '%s': %s", run->settings->command[0],
                     strerror(event->failed_errno));
        run->is_finished = true;
        run->why = CV_REASON_FINISHED;
        finish(run, event->status);
        return;
    case CV_END_TOO_LATE:
        if (event->failed_errno != 0) {
            cv__complain("%s: cannot start the command yet: %s", run->settings->name,
                         strerror(event->failed_errno));
        }
        run->token = 0; /* the next renewal leaves more time */
        return;
    case CV_END_GUARD_DIED:
        cv__complain("the guard process was killed, and the command with it");
        run->why = CV_REASON_DIED;
        end(run, EXIT_OWN);
        return;
    default:
        break;
    }
    if (run->why == CV_REASON_STARTED) {
        run->why = why_lost(run);
    }
    step_down(run);
    if (was_asked) {
        run->must_resign = false;
        const char *heir = run->status.heir;
        cv_resign(run->election, heir[0] != '\0' ? heir : NULL);
        say(run, "resigned by request");
    } else {
        say(run, "leadership lost (%s)", cv_reason_name(run->why));
    }
    if (run->end_signal != 0) {
        end(run, EXIT_SIGNAL + run->end_signal);
    } else if (run->settings->is_once) {
        end(run, EXIT_LOST);
    }
}

/* A running command gets the signal, and its exit status becomes ours. If the command is being
 * stopped already, or is stopped before the signal has ended it, end_signal makes us end, too.
 * Otherwise we would wait to be elected again. */
static void on_signal(struct run *run, int signo)
{
    const bool is_end = signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
    if (is_end && !(signo == SIGHUP && is_told_to_end(run))) {
        run->got_signal = signo;
    }
    if (run->stage == STAGE_WAITING && is_end) {
        end(run, EXIT_SIGNAL + signo);
    } else if (run->stage != STAGE_RUNNING ? is_end : signo == SIGTERM) {
        run->end_signal = signo;
    }
}

static void on_event(void *user, const struct cv_supervisor_event *event)
{
    struct run *run = user;
    switch (event->kind) {
    case CV_SUPERVISOR_STARTED:
        say(run, "the command runs as process %ld", (long)event->pid);
        break;
    case CV_SUPERVISOR_GONE:
        on_gone(run, event);
        break;
    case CV_SUPERVISOR_SIGNAL:
        on_signal(run, event->signo);
        break;
    case CV_SUPERVISOR_SUSPENDED:
    case CV_SUPERVISOR_CONTINUED:
    case CV_SUPERVISOR_EXITED:
        break; /* nothing that concerns the leadership */
    }
}

/* ---- The election ---------------------------------------------------------------------------- */

/* Reports trouble once, when it begins, so that a waiting user knows the cause. With -n it is
 * reported at the end. */
static void say_trouble(struct run *run)
{
    const bool has_trouble = run->status.trouble[0] != '\0';
    if (run->settings->is_nonblocking) {
        return;
    }
    if (has_trouble && !run->has_trouble) {
        cv__complain("%s", run->status.trouble);
    } else if (!has_trouble && run->has_trouble) {
        say(run, has_store(run) ? "the store can be used again"
                                : "the trouble is over: this member takes part");
    }
    run->has_trouble = has_trouble;
}

/* Reports who leads while this contender waits, once for each leader. */
static void say_leader(struct run *run)
{
    const struct cv_election_status *s = &run->status;
    const bool waits = s->role != CV_ROLE_LEADER && !run->settings->is_nonblocking;
    if (waits && s->leader[0] != '\0' && s->token != run->said_token) {
        say(run, "waiting: %s leads, token %llu", s->leader, (unsigned long long)s->token);
        run->said_token = s->token;
        run->said_ns = cv__clock_now_ns();
        run->give_back_after_ns = GIVE_BACK_NS;
    }
}

/* The command could not be started in time, and has not been started since. */
static void consider_stepping_down(struct run *run)
{
    const struct cv_election_status *s = &run->status;
    if (run->master_token != 0 && (s->role != CV_ROLE_LEADER || s->token != run->master_token)) {
        run->why = s->last_token == run->master_token ? s->last_reason : CV_REASON_GONE;
        step_down(run);
    }
}

static void on_change(struct run *run)
{
    cv_status(run->election, &run->status);
    const struct cv_election_status *s = &run->status;
    const bool is_leader = s->role == CV_ROLE_LEADER;
    run->has_answer = run->has_answer || is_leader || s->is_leader_known;
    say_trouble(run);
    switch (run->stage) {
    case STAGE_WAITING:
        consider_stepping_down(run);
        say_leader(run);
        if (is_leader && s->is_resign_requested) {
            cv_resign(run->election, s->heir[0] != '\0' ? s->heir : NULL);
        } else if (is_leader && s->token == run->token) {
            /* One run for each token: fencing relies on it. */
            say_given_up(run, run->why);
            cv__election_resign(run->election, NULL, run->why);
        } else if (is_leader) {
            start(run);
        }
        break;
    case STAGE_RUNNING:
        if (!is_leader || s->token != run->token) {
            run->why = why_lost(run);
            stop(run, "leadership lost");
        } else {
            run->is_late = run->is_late || cv__supervisor_is_late(run->supervisor);
            cv__supervisor_extend(run->supervisor, s->valid_until_ns);
            if (!run->is_late && s->valid_until_ns != run->valid_until_ns) {
                run->was_paused = false; /* it did no harm */
            }
            run->valid_until_ns = s->valid_until_ns;
            if (s->is_resign_requested) {
                run->must_resign = true;
                stop(run, "asked to resign");
            }
        }
        break;
    case STAGE_STOPPING:
        if (is_leader && s->token == run->token) {
            cv__supervisor_extend(run->supervisor, s->valid_until_ns);
        }
        break;
    case STAGE_RECORDING:
        period_end(run);
        break;
    }
}

static int64_t give_up_ns(const struct run *run)
{
    const bool is_silent = !run->has_answer && run->status.trouble[0] == '\0';
    return is_silent ? cv__max64(run->give_up_ns, run->began_ns + FIRST_ANSWER_NS_MIN)
                     : run->give_up_ns;
}

/* -n and -w: does another contender lead, or is the time over? */
static void consider_giving_up(struct run *run)
{
    if (run->has_led || run->is_over || run->stage != STAGE_WAITING ||
        run->status.role == CV_ROLE_LEADER) {
        return;
    }
    const struct cv_election_status *s = &run->status;
    if (run->settings->is_nonblocking && s->leader[0] != '\0') {
        say(run, "%s leads", s->leader);
        end(run, (int)run->settings->conflict);
    } else if (cv__clock_now_ns() >= give_up_ns(run) ||
               (run->settings->is_nonblocking && s->trouble[0] != '\0')) {
        if (s->trouble[0] != '\0') {
            if (!run->has_trouble) {
                cv__complain("%s", s->trouble);
            }
            end(run, EXIT_OWN);
        } else if (!run->has_answer) { /* its first request may take longer than that */
            cv__complain("%s: the store has not answered", run->settings->name);
            end(run, EXIT_OWN);
        } else {
            say(run, "not elected in time");
            end(run, (int)run->settings->conflict);
        }
    }
}

/* A contender may wait for months, and there may be many on a host. It gives back memory when it
 * has waited for 2 s, 4 s, 8 s and so on, since connections may still be opened after the first. */
static void consider_giving_back(struct run *run)
{
    const int64_t now_ns = cv__clock_now_ns();
    if (run->stage == STAGE_WAITING && run->said_token != 0 &&
        now_ns - run->said_ns >= run->give_back_after_ns) {
        run->give_back_after_ns *= 2;
        cv__pages_give_back();
    }
}

/* ---- The loop -------------------------------------------------------------------------------- */

static int poll_ms(const struct run *run)
{
    const int64_t now_ns = cv__clock_now_ns();
    int64_t wait_ns = run->settings->options.progress_ns / 4;
    if (run->stage == STAGE_WAITING && !run->has_led && give_up_ns(run) - now_ns < wait_ns) {
        wait_ns = give_up_ns(run) - now_ns;
    }
    if (run->must_look) {
        wait_ns = cv__min64(wait_ns, LOOK_NS);
    }
    if (run->notify.watchdog_ns != 0 && run->notify.watchdog_ns < wait_ns) {
        wait_ns = run->notify.watchdog_ns;
    }
    const int64_t ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms < 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

/* The loop runs at least four times within the longest lease, unless this process was stopped. */
static void note_turn(struct run *run)
{
    const int64_t now_ns = cv__clock_now_ns();
    run->was_paused =
        run->was_paused || now_ns - run->turn_ns > run->settings->options.progress_ns / 2;
    run->turn_ns = now_ns;
}

static void loop(struct run *run)
{
    run->turn_ns = cv__clock_now_ns();
    while (!run->is_over) {
        const bool is_overdue = run->stage == STAGE_STOPPING &&
                                cv__clock_now_ns() - run->stop_ns > run->settings->grace_ns +
                                                                        run->settings->cleanup_ns +
                                                                        OVERDUE_NS;
        if (!is_overdue) {
            cv_progress(run->election);
            cv__notify_watchdog(&run->notify);
        }
        struct pollfd waits[] = {
            {.fd = cv_fd(run->election), .events = POLLIN},
            {.fd = cv__supervisor_fd(run->supervisor), .events = POLLIN},
            {.fd = cv__hooks_fd(run->hooks), .events = POLLIN},
        };
        if (poll(waits, COUNT_OF(waits), poll_ms(run)) < 0 && errno != EINTR) {
            cv__complain("cannot wait: %s", strerror(errno));
            end(run, EXIT_OWN);
            return;
        }
        if (waits[0].revents != 0 || run->must_look) {
            run->must_look = false;
            on_change(run);
        }
        note_turn(run); /* before the end of the command is explained */
        if (waits[1].revents != 0) {
            cv__supervisor_dispatch(run->supervisor);
        }
        if (waits[2].revents != 0) {
            cv__hooks_dispatch(run->hooks);
        }
        consider_giving_up(run);
        consider_giving_back(run);
    }
}

static volatile sig_atomic_t closing_status;

static void on_closing_late(int signo)
{
    sigset_t pending;
    (void)signo;
    if (sigpending(&pending) == 0 &&
        (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
         sigismember(&pending, SIGHUP) == 1 || sigismember(&pending, SIGQUIT) == 1)) {
        _exit(closing_status);
    }
    (void)alarm(1); /* look again */
}

/* While the lease is released and the last hooks run, signals are blocked: another SIGTERM would
 * leave the lease to run out. Usually this takes less than CLOSE_S_MAX. If it takes longer, perhaps
 * because a disk hangs, a signal that asks to end does end this process. */
static void closing_begin(const struct run *run)
{
    struct sigaction late = {.sa_handler = on_closing_late, .sa_flags = SA_RESTART};
    closing_status = run->exit_status;
    (void)sigaction(SIGALRM, &late, NULL); /* without it, SIGKILL remains */
    (void)alarm(CLOSE_S_MAX);
}

/* Gives the last hooks some time to end. */
static void await_hooks(struct run *run)
{
    const int64_t until_ns = cv__clock_now_ns() + HOOKS_NS_MAX;
    while (!cv__hooks_is_idle(run->hooks) && cv__clock_now_ns() < until_ns) {
        struct pollfd wait = {.fd = cv__hooks_fd(run->hooks), .events = POLLIN};
        if (poll(&wait, 1, 100) > 0) {
            cv__hooks_dispatch(run->hooks);
        }
    }
}

static void take_part(struct run *run)
{
    const struct cv_run_settings *settings = run->settings;
    cv__notify_ready(&run->notify, "waiting");
    cv__hooks_change(run->hooks, CV_HOOK_BACKUP, 0, cv_reason_name(CV_REASON_STARTED));
    run->began_ns = cv__clock_now_ns();
    run->has_answer = !has_store(run); /* a cluster has trouble, or no leader yet */
    if (settings->wait_ns >= 0) {
        run->give_up_ns = run->began_ns + settings->wait_ns;
    } else if (settings->is_nonblocking) {
        run->give_up_ns = run->began_ns + FIRST_ANSWER_NS;
    }
    loop(run);
    cv__notify_stopping(&run->notify);
    cv__hooks_change(run->hooks, CV_HOOK_STOP, run->token,
                     cv_reason_name(run->master_token != 0 && run->why != CV_REASON_STARTED
                                        ? run->why
                                        : CV_REASON_STOPPED));
}

/* Environment variables with the passwords of stores. The command does not need them, and a program
 * that it starts may show its environment to anybody. */
static const char *const *secrets(const struct cv_run_settings *settings)
{
    static const char *const all[] = {"CONCLAVE_ETCD_PASSWORD", "CONCLAVE_ZOOKEEPER_AUTH",
                                      "CONCLAVE_SNMP_COMMUNITY", "PGPASSWORD", NULL};
    static const char *const without_postgres[] = {
        "CONCLAVE_ETCD_PASSWORD", "CONCLAVE_ZOOKEEPER_AUTH", "CONCLAVE_SNMP_COMMUNITY", NULL};
    if (settings->keeps_secrets) {
        return NULL;
    }
    /* With another store, PGPASSWORD belongs to the command. */
    const bool is_postgres =
        settings->via != NULL && strncmp(settings->via, "postgres", strlen("postgres")) == 0;
    return is_postgres ? all : without_postgres;
}

/* For the lease file, if another user has taken our name in /tmp. */
static const char *state_folder(void)
{
    static char *path; /* one for the whole process, never freed */
    struct cv_errtext error;
    if (path == NULL && cv__place_file("run", &path, &error) != CV_OK) {
        path = NULL; /* then the error about the folder in /tmp is reported */
    }
    return path;
}

/* --every: false if there is nothing to do; exit_status is set. */
static bool period_is_open(struct run *run)
{
    const struct cv_run_settings *settings = run->settings;
    run->exit_status = cv__every_open(&run->every, &settings->every, settings->via, settings->name,
                                      settings->node, settings->options.lease_ns);
    if (run->exit_status != EXIT_FINE) {
        return false;
    }
    switch (cv__every_look(&run->every)) {
    case CV_EVERY_DONE:
        say(run, "%s", run->every.line);
        return false;
    case CV_EVERY_FAILED:
        cv__complain("%s: %s", settings->name, run->every.line);
        run->exit_status = (int)settings->conflict;
        return false;
    default:
        run->exit_status = EXIT_OWN;
        return true;
    }
}

static int open_supervisor_and_hooks(struct run *run, struct cv_errtext *reterr)
{
    const struct cv_run_settings *settings = run->settings;
    const struct cv_supervisor_setting supervisor_setting = {
        .argv = settings->command,
        .election = settings->name,
        .node = settings->node,
        .grace_ns = settings->grace_ns,
        .cleanup = settings->cleanup,
        .cleanup_ns = settings->cleanup_ns,
        .keeps_signals = true, /* until the lease is released and the last hook has ended */
        .hidden_variables = secrets(settings),
        .fallback_folder = state_folder,
        .on_event = on_event,
        .user = run,
    };
    const int code = cv__supervisor_open(&run->supervisor, &supervisor_setting, reterr);
    if (code != CV_OK) {
        return code;
    }
    (void)snprintf(run->lease_path, sizeof run->lease_path, "%s",
                   cv__supervisor_lease_path(run->supervisor));
    const struct cv_hooks_setting hooks_setting = {
        .on_elected = settings->on_elected,
        .on_lost = settings->on_lost,
        .fifo = settings->fifo,
        .election = settings->name,
        .node = settings->node,
        .lease_path = run->lease_path,
        .hidden_variables = secrets(settings),
    };
    return cv__hooks_open(&run->hooks, &hooks_setting, reterr);
}

/* *ret_is_over: there is nothing to do in this period, and no election was opened. */
static int open_election(struct run *run, bool *ret_is_over, struct cv_errtext *reterr)
{
    const struct cv_run_settings *settings = run->settings;
    const struct cv_store_kind *kind =
        settings->is_init && settings->via != NULL ? cv__store_find(settings->via) : NULL;
    int code = CV_OK;
    if (kind != NULL && kind->create != NULL) {
        code = kind->create(settings->via, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    *ret_is_over = settings->every.is_on && !period_is_open(run);
    if (*ret_is_over) {
        return CV_OK;
    }
    code = cv__election_open(&run->election, settings->name, settings->via, &settings->options,
                             reterr);
    if (code == CV_OK && cv_fd(run->election) < 0) { /* no change would be noticed */
        code = cv__fail(reterr, CV_E_LIMIT, "no file descriptors left (ulimit -n)");
    }
    return code;
}

static void give_up(struct run *run)
{
    const enum cv_reason why = run->is_finished             ? CV_REASON_FINISHED
                               : run->why == CV_REASON_DIED ? CV_REASON_DIED
                                                            : CV_REASON_RESIGNED;
    cv_status(run->election, &run->status); /* without an election it stays as it was */
    say_given_up(run, why);
    if (why != CV_REASON_RESIGNED) {
        cv__election_resign(run->election, NULL, why);
    }
    cv_close(run->election);
}

static int run_command(const struct cv_run_settings *settings)
{
    bool is_over = false;
    cv__pages_one_heap();
    struct run run = {.settings = settings,
                      .status = CV_ELECTION_STATUS_INIT,
                      .give_up_ns = INT64_MAX,
                      .exit_status = EXIT_OWN};
    struct cv_errtext error;
    cv__notify_open(&run.notify);
    int code = open_supervisor_and_hooks(&run, &error);
    if (code == CV_OK) {
        code = open_election(&run, &is_over, &error);
    }
    if (code != CV_OK) {
        cv__complain("%s", error.text);
        run.exit_status = code == CV_E_INVALID ? EXIT_USAGE : EXIT_OWN;
    } else if (!is_over) {
        take_part(&run);
    }
    cv__supervisor_close(run.supervisor); /* nothing of the command is left, ... */
    closing_begin(&run);
    give_up(&run); /* ... and then the next one may lead */
    if (run.hooks != NULL) {
        await_hooks(&run);
    }
    cv__hooks_close(run.hooks);
    cv__every_close(&run.every);
    cv__notify_close(&run.notify);
    return run.exit_status;
}

static int run(int argc, char **argv)
{
    struct cv_run_settings settings = {.options = CV_ELECTION_OPTIONS_INIT,
                                       .grace_ns = -1,
                                       .cleanup_ns = -1,
                                       .wait_ns = -1,
                                       .conflict = EXIT_CONFLICT};
    int status = cv__run_parse(argc, argv, &settings);
    if (status == EXIT_FINE && !settings.wants_help) {
        status = cv__run_complete(&settings);
    }
    if (status != EXIT_FINE || settings.wants_help) {
        return status;
    }
    return settings.is_check ? cv__run_check(&settings) : run_command(&settings);
}

const struct cv_verb cv__verb_run = {
    .name = "run",
    .summary = "run a command on exactly one of several processes or machines",
    .help =
        "usage: conclave run NAME [OPTIONS] -- COMMAND [ARGUMENTS]\n\n"
        "Takes part in the election NAME and runs COMMAND while it leads. When the leadership\n"
        "ends, COMMAND and every process it started get SIGTERM, then SIGKILL before another\n"
        "contender may lead. This holds even if 'conclave run' itself is stopped or killed. When\n"
        "COMMAND ends, 'run' ends too.\n\n"
        "  --via ADDRESS     store or cluster of the election ('conclave stores' lists the "
        "kinds);\n"
        "                    default: $CONCLAVE_VIA, or a file of this user on this host\n"
        "  --lease TIME      a leader that does not renew within this time is replaced; default "
        "5s\n"
        "  --grace TIME      time from SIGTERM to SIGKILL. Together with the time for --cleanup it "
        "is\n"
        "                    at most two fifths of what the leader may use of the lease: the "
        "whole,\n"
        "                    or half of it on ZooKeeper. Default: 2s, or that limit if it is less\n"
        "                    (1s on ZooKeeper with a lease of 5s)\n"
        "  --cleanup CMD     run CMD by /bin/sh after COMMAND and its processes are gone and "
        "before\n"
        "                    another contender may lead, even if 'run' was killed; for example to\n"
        "                    remove an address\n"
        "  --cleanup-time TIME   time limit of CMD; default: half of the grace\n"
        "  -n, --nonblock    do not wait: fail if another contender leads\n"
        "  -w, --wait TIME   fail if not elected within this time; also --timeout TIME\n"
        "  -E, --conflict-exit-code CODE   exit status when -n or -w fails; default 1\n"
        "  --once            when the leadership is lost, exit instead of waiting again\n"
        "  --every TIME      a job: in each period (1d, 1h, 1w ...) one contender runs COMMAND to\n"
        "                    success; contenders that come later exit with 0\n"
        "  --offset TIME     periods begin this long after midnight, the full hour or Monday\n"
        "  --zone ZONE       time zone of the periods, such as UTC or Europe/Berlin; default: "
        "local\n"
        "  --tolerance TIME  starts this close together count as one, even across the border of a\n"
        "                    period; default: a tenth of the period, at most 5min\n"
        "  --retry N         repeat a failed run up to N times; default 2\n"
        "  --at-most-once    never run twice in a period, even after a failure or a crash\n"
        "  --init            create what the store needs, such as tables, if it is missing\n"
        "  --on-elected CMD, --on-lost CMD   hooks, run by /bin/sh\n"
        "  --fifo FILE       write each change of state to this pipe, in the form of keepalived\n"
        "  --node NAME       name of this contender; default: host name and process id\n"
        "  --keep-secrets    leave the store's passwords in the environment of COMMAND\n"
        "  --verbose         report on stderr what happens\n"
        "  --check           only check this command line: 0 it is valid, 2 it is not\n\n"
        "COMMAND has CONCLAVE_ELECTION, CONCLAVE_TOKEN, CONCLAVE_NODE and CONCLAVE_LEASE_FILE in\n"
        "its environment. It can call 'conclave check-lease' to see whether it still leads.\n\n"
        "Exit status: that of COMMAND (128+N if signal N ended it); 1 (or -E) not elected, 2 "
        "wrong\n"
        "usage, 124 leadership lost with --once or before a run could be recorded,\n"
        "125 conclave failed, 126 COMMAND cannot be run, 127 COMMAND was not found.\n",
    .run = run,
    .has_command = true,
};
