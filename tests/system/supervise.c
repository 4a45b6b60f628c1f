/* tests/system/supervise.c - `conclave run` without an election: leads until it is told not to.
 *
 * usage: supervise [OPTIONS] -- COMMAND...
 *   --lease T --renew T   valid for so long, extended so often; --renew 0s: never
 *   --grace T --margin T  as in struct cv_supervisor_setting
 *   --cleanup CMD --cleanup-time T
 *   --lock FILE           flock()ed, and inherited by the command
 *   --talk FD             a stream socket: events out, one a line; in, words: stop, kill, silent
 * (no more renewals), shorten (the leadership ends in one grace), again (start once more when it is
 * gone)
 *   --no-cgroup --no-terminal
 * Exit status: the command's. */
#include "core/duration.h"
#include "os/clock.h"
#include "supervisor/schedule.h"
#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static struct {
    struct cv_supervisor *supervisor;
    int64_t lease_ns, renew_ns, grace_ns, valid_until_ns;
    int lock_fd, talk_fd;
    uint64_t token;
    bool is_again, is_gone;
    int status;
} me = {.lease_ns = NS_PER_S, .renew_ns = NS_PER_S / 5, .lock_fd = -1, .talk_fd = -1};

static void say(const char *format, ...) CV_PRINTF(1, 2);
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (me.talk_fd >= 0) {
        (void)vdprintf(me.talk_fd, format, args);
    }
    va_end(args);
}

static void start(void)
{
    struct cv_errtext error;
    me.is_gone = false;
    me.valid_until_ns = cv__clock_now_ns() + me.lease_ns;
    if (cv__supervisor_start(me.supervisor, ++me.token, me.valid_until_ns, me.lock_fd, &error) !=
        0) {
        (void)fprintf(stderr, "supervise: %s\n", error.text);
        exit(99);
    }
    say("guard %d\n", (int)cv__supervisor_guard_pid(me.supervisor));
}

static void on_event(void *user, const struct cv_supervisor_event *event)
{
    (void)user;
    const int pid = (int)event->pid;
    switch (event->kind) {
    case CV_SUPERVISOR_STARTED:
        say("started %d\n", pid);
        break;
    case CV_SUPERVISOR_SUSPENDED:
        say("suspended %d %d\n", pid, event->signo);
        break;
    case CV_SUPERVISOR_CONTINUED:
        say("continued %d\n", pid);
        break;
    case CV_SUPERVISOR_EXITED:
        say("exited %d %d\n", pid, event->status);
        break;
    case CV_SUPERVISOR_SIGNAL:
        say("signal %d\n", event->signo);
        break;
    case CV_SUPERVISOR_GONE:
        me.is_gone = true;
        me.status = event->status;
        if (event->end == CV_END_NOT_STARTED) {
            (void)fprintf(stderr, "supervise: cannot start it: %s\n",
                          strerror(event->failed_errno));
        }
        say("gone %s %d %s %" PRId64 " %d\n", cv__supervisor_end_name(event->end), event->status,
            event->was_killed ? "killed" : "mildly", me.valid_until_ns - cv__clock_now_ns(),
            event->cleanup_status);
        if (me.is_again) {
            me.is_again = false;
            start();
        }
        break;
    }
}

static void on_words(void)
{
    char words[256];
    const ssize_t got = read(me.talk_fd, words, sizeof words - 1);
    if (got <= 0) {
        me.talk_fd = -1;
        return;
    }
    words[got] = '\0';
    char *rest;
    for (char *word = strtok_r(words, "\n", &rest); word != NULL;
         word = strtok_r(NULL, "\n", &rest)) {
        if (strcmp(word, "stop") == 0) {
            cv__supervisor_stop(me.supervisor);
        } else if (strcmp(word, "kill") == 0) {
            cv__supervisor_kill(me.supervisor);
        } else if (strcmp(word, "silent") == 0) {
            me.renew_ns = 0;
        } else if (strcmp(word, "shorten") == 0) {
            me.renew_ns = 0;
            me.valid_until_ns = cv__clock_now_ns() + me.grace_ns;
            cv__supervisor_extend(me.supervisor, me.valid_until_ns);
        } else if (strcmp(word, "again") == 0) {
            me.is_again = true;
        }
    }
}

static int loop(void)
{
    int64_t renew_at_ns = cv__clock_now_ns() + me.renew_ns;
    while (!me.is_gone) {
        struct pollfd fds[] = {{.fd = cv__supervisor_fd(me.supervisor), .events = POLLIN},
                               {.fd = me.talk_fd, .events = POLLIN}};
        const int64_t left_ns = cv__max64(0, renew_at_ns - cv__clock_now_ns());
        (void)poll(fds, 2, me.renew_ns == 0 ? -1 : (int)(left_ns / NS_PER_MS) + 1);
        const int64_t now_ns = cv__clock_now_ns();
        if (me.renew_ns != 0 && now_ns >= renew_at_ns) {
            renew_at_ns = now_ns + me.renew_ns;
            me.valid_until_ns = now_ns + me.lease_ns;
            cv__supervisor_extend(me.supervisor, me.valid_until_ns);
        }
        if (fds[1].revents != 0) {
            on_words();
        }
        cv__supervisor_dispatch(me.supervisor);
    }
    return me.status;
}

static int64_t duration(const char *text)
{
    int64_t ns;
    if (!cv__duration_parse(text, &ns)) {
        (void)fprintf(stderr, "supervise: not a time: %s\n", text);
        exit(99);
    }
    return ns;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"lease", required_argument, NULL, 'l'},
                                          {"renew", required_argument, NULL, 'r'},
                                          {"grace", required_argument, NULL, 'g'},
                                          {"margin", required_argument, NULL, 'm'},
                                          {"cleanup", required_argument, NULL, 'C'},
                                          {"cleanup-time", required_argument, NULL, 'K'},
                                          {"lock", required_argument, NULL, 'L'},
                                          {"talk", required_argument, NULL, 't'},
                                          {"no-cgroup", no_argument, NULL, 'c'},
                                          {"no-terminal", no_argument, NULL, 'T'},
                                          {0}};
    struct cv_supervisor_setting setting = {
        .election = "nightly", .node = "host-1", .grace_ns = NS_PER_S / 5, .on_event = on_event};
    int option;
    while ((option = getopt_long(argc, argv, "+", longs, NULL)) != -1) {
        switch (option) {
        case 'l':
            me.lease_ns = duration(optarg);
            break;
        case 'r':
            me.renew_ns = duration(optarg);
            break;
        case 'g':
            setting.grace_ns = duration(optarg);
            break;
        case 'm':
            setting.margin_ns = duration(optarg);
            break;
        case 'C':
            setting.cleanup = optarg;
            break;
        case 'K':
            setting.cleanup_ns = duration(optarg);
            break;
        case 'L':
            me.lock_fd = open(optarg, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (me.lock_fd < 0 || flock(me.lock_fd, LOCK_EX | LOCK_NB) != 0) {
                return 98;
            }
            break;
        case 't':
            me.talk_fd = atoi(optarg);
            (void)fcntl(me.talk_fd, F_SETFD, FD_CLOEXEC);
            break;
        case 'c':
            setting.without_cgroup = true;
            break;
        case 'T':
            setting.terminal = CV_TERMINAL_NEVER;
            break;
        default:
            return 99;
        }
    }
    struct cv_errtext error;
    me.grace_ns = setting.grace_ns;
    setting.argv = argv + optind;
    if (cv__supervisor_open(&me.supervisor, &setting, &error) != CV_OK) {
        (void)fprintf(stderr, "supervise: %s\n", error.text);
        return 99;
    }
    start();
    const int status = loop();
    cv__supervisor_close(me.supervisor);
    return status;
}
