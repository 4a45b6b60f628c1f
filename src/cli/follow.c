/* src/cli/follow.c - takes part in an election, or watches it, and prints each change. */
#include "cli/follow.h"

#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "cli/tracing.h"
#include "core/duration.h"
#include "os/clock.h"
#include "runtime/election.h"
#include "runtime/place.h"

#include <conclave/conclave.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define FILE_MS 100 /* how often to look for a file that does not exist yet */

struct settings {
    const char *name;
    const char *via;
    struct cv_election_options options;
    uint64_t change_count_max; /* 0: no limit */
    bool is_json;
    const char *trace_path; /* NULL: no trace */
};

static void print_json(const struct settings *settings, const struct cv_election_status *status)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_unix_s", cv__clock_wall_ns());
    cv__json_text(&json, "election", settings->name);
    cv__json_text(&json, "role", cv_role_name(status->role));
    if (status->leader[0] != '\0') {
        cv__json_text(&json, "leader", status->leader);
    } else {
        cv__json_null(&json, "leader");
    }
    cv__json_bool(&json, "leader_known", status->is_leader_known);
    cv__json_uint(&json, "token", status->token);
    cv__json_text(&json, "reason", cv_reason_name(status->reason));
    cv__json_bool(&json, "has_majority", status->has_majority);
    cv__json_bool(&json, "asked_to_resign", status->is_resign_requested);
    if (status->trouble[0] != '\0') {
        cv__json_text(&json, "trouble", status->trouble);
    } else {
        cv__json_null(&json, "trouble");
    }
    if (status->last_token != 0) {
        cv__json_uint(&json, "last_token", status->last_token);
        cv__json_text(&json, "last_reason", cv_reason_name(status->last_reason));
    } else {
        cv__json_null(&json, "last_token");
        cv__json_null(&json, "last_reason");
    }
    cv__json_text(&json, "self", status->self);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

/* The end of the leadership with `told_token` was printed before. */
static void print_text(const struct settings *settings, const struct cv_election_status *status,
                       uint64_t told_token)
{
    char stamp[32];
    const int64_t now_ns = cv__clock_wall_ns();
    const time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm local;
    (void)localtime_r(&seconds, &local);
    (void)strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
    cv__print(stdout, "%s.%03d  %s: ", stamp, (int)(now_ns % NS_PER_S / NS_PER_MS), settings->name);
    if (status->trouble[0] != '\0' && status->leader[0] == '\0') {
        cv__print(stdout, "it is not known who leads: %s", status->trouble);
    } else if (status->trouble[0] != '\0') {
        cv__print(stdout, "%s leads%s, token %llu, as last known: %s", status->leader,
                  status->role == CV_ROLE_LEADER ? " (this process)" : "",
                  (unsigned long long)status->token, status->trouble);
    } else if (status->leader[0] == '\0') {
        /* If the store does not answer, the leader may well have renewed meanwhile. */
        (void)printf("%s", status->is_leader_known ? "nobody leads" : "no leader is known");
        if (status->reason != CV_REASON_STARTED) {
            (void)printf(" (%s)", cv_reason_name(status->reason));
        }
    } else {
        cv__print(stdout, "%s leads%s, token %llu (%s", status->leader,
                  status->role == CV_ROLE_LEADER ? " (this process)" : "",
                  (unsigned long long)status->token, cv_reason_name(status->reason));
        /* One that takes over at once may hear only later why the leadership before ended. */
        const bool is_unknown =
            status->role == CV_ROLE_LEADER && status->last_reason == CV_REASON_GONE;
        if (status->last_token != 0 && status->last_token != told_token && !is_unknown) {
            (void)printf("; token %llu: %s", (unsigned long long)status->last_token,
                         cv_reason_name(status->last_reason));
        }
        (void)printf(")");
    }
    (void)printf("%s\n", status->is_resign_requested ? "; asked to resign" : "");
}

/* The text may change every second, with each server that is tried. */
static bool is_troubled(const struct cv_election_status *status)
{
    return status->trouble[0] != '\0';
}

/* While nobody leads, the token is that of the latest leadership, if it is known. */
static bool is_same_token(const struct cv_election_status *a, const struct cv_election_status *b)
{
    return a->token == b->token || (b->leader[0] == '\0' && b->token == 0);
}

/* The store answers again, and the next status says who leads: nothing is known yet, and that the
 * store did not answer has been printed. */
static bool is_answering(const struct cv_election_status *a, const struct cv_election_status *b)
{
    return a->leader[0] == '\0' && !a->is_leader_known && is_troubled(a) && b->leader[0] == '\0' &&
           !b->is_leader_known && !is_troubled(b) && b->reason == CV_REASON_STORE_UNREACHABLE;
}

/* A renewal is not a change. Nor is the first answer of the store, if show_nobody() has printed
 * what it says: it has neither the token nor the reason. */
static bool is_change(const struct cv_election_status *a, const struct cv_election_status *b)
{
    return a->role != b->role || !is_same_token(a, b) || strcmp(a->leader, b->leader) != 0 ||
           (is_troubled(a) != is_troubled(b) && !is_answering(a, b)) ||
           a->is_leader_known != b->is_leader_known ||
           a->is_resign_requested != b->is_resign_requested;
}

struct follower {
    const struct settings *settings;
    struct cv_election *election;
    struct cv_election_status shown; /* the latest that was printed */
    uint64_t shown_count;
    int exit_status;
    bool is_over;
};

/* If the output cannot be written (the reader is gone, the disk is full), the command ends: nobody
 * would learn who leads. */
static void show(struct follower *f, const struct cv_election_status *status)
{
    const uint64_t told_token = f->shown.last_token;
    f->shown = *status;
    f->shown_count++;
    if (f->settings->is_json) {
        print_json(f->settings, status);
    } else {
        print_text(f->settings, status, told_token);
    }
    const int flushed = cv__command_flush(f->exit_status);
    f->is_over = f->is_over || flushed != f->exit_status;
    f->exit_status = flushed;
}

static void look(struct follower *f)
{
    struct cv_election_status now = CV_ELECTION_STATUS_INIT;
    cv_status(f->election, &now);
    if (f->shown_count > 0 && !is_change(&f->shown, &now)) {
        return;
    }
    if (now.reason == CV_REASON_STOPPED) {
        f->exit_status = EXIT_NO; /* its state cannot be saved */
        f->is_over = true;
    }
    show(f, &now);
    f->is_over = f->is_over || f->shown_count == f->settings->change_count_max;
    if (now.is_resign_requested && !f->is_over) {
        /* This process has no work to stop, so it hands over as soon as it is asked to. */
        cv_resign(f->election, now.heir[0] != '\0' ? now.heir : NULL);
    }
}

/* Interrupted: a leader resigns, and says so. */
static void leave(struct follower *f)
{
    f->is_over = true;
    if (f->shown.role == CV_ROLE_LEADER) {
        struct cv_election_status now = CV_ELECTION_STATUS_INIT;
        cv_resign(f->election, NULL);
        cv_status(f->election, &now);
        show(f, &now);
    }
}

/* Prints that nobody leads: such an election does not change, so nothing else would report it. A
 * leader is reported by the election itself. */
static void show_nobody(struct follower *f, int signal_fd)
{
    struct pollfd interrupted = {.fd = signal_fd, .events = POLLIN};
    char *address;
    struct cv_errtext unused; /* opening the election will report it */
    struct cv_inquiry inquiry;
    if (cv__place_address(f->settings->via, &address, &unused) != CV_OK) {
        return;
    }
    const struct cv_store_kind *kind = cv__store_find(address);
    if (kind != NULL && cv__store_election_is_valid(f->settings->name) &&
        cv__inquire_or_stop(kind, address, f->settings->name, signal_fd, &inquiry, &unused) ==
            CV_OK &&
        inquiry.verdict == CV_STORE_FREE) {
        struct cv_election_status now = CV_ELECTION_STATUS_INIT;
        now.role = CV_ROLE_OBSERVER;
        now.is_leader_known = true;
        now.token = inquiry.record.token;
        now.reason = inquiry.record.ended;
        if (now.token != 0 && now.reason != CV_REASON_STARTED) {
            now.last_token = now.token;
            now.last_reason = now.reason;
        }
        show(f, &now);
        f->is_over = f->is_over || f->shown_count == f->settings->change_count_max;
    }
    f->is_over = f->is_over || poll(&interrupted, 1, /* timeout= */ 0) > 0;
    free(address);
}

/* An observer makes no file: it would belong to the observer, and contenders of other users could
 * not write it. */
static void await_file(struct follower *f, int signal_fd)
{
    char *address;
    struct cv_errtext unused; /* as above */
    if (f->is_over || cv__place_address(f->settings->via, &address, &unused) != CV_OK) {
        return;
    }
    const struct cv_store_kind *kind = cv__store_find(address);
    struct pollfd wait = {.fd = signal_fd, .events = POLLIN};
    bool is_said = false;
    while (!f->is_over && kind != NULL && cv__inquiry_absent_file(kind, address) != NULL) {
        if (!is_said) {
            cv__complain("the file '%s' does not exist yet; waiting for it",
                         cv__inquiry_absent_file(kind, address));
            is_said = true;
        }
        f->is_over = poll(&wait, 1, FILE_MS) > 0;
    }
    free(address);
}

void cv__follow_notice(void *unused, enum cv_log_level level, const char *line)
{
    (void)unused;
    if (level == CV_LOG_NOTICE) {
        cv__complain("%s", line);
    }
}

static int follow(struct settings *settings, int signal_fd, const struct cv_recorder *recorder)
{
    struct follower f = {.settings = settings};
    struct cv_errtext error;
    /* This process starts no programs. If an attacker makes it start one, that one gains no
     * rights. */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* a precaution: it works without */
    settings->options.log = cv__follow_notice;
    if (settings->options.is_observer) {
        show_nobody(&f, signal_fd);
        await_file(&f, signal_fd);
    }
    if (f.is_over) {
        return f.exit_status;
    }
    /* This process only prints who leads: two leaders at the same time do no harm. */
    settings->options.accepts_two_leaders = true;
    settings->options.ignores_renewals = true; /* it prints changes */
    if (cv__election_open_recorded(&f.election, settings->name, settings->via, &settings->options,
                                   recorder, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    if (cv_fd(f.election) < 0) { /* no change would be noticed */
        cv_close(f.election);
        return cv__cannot("no file descriptors left (ulimit -n)");
    }
    while (!f.is_over) {
        struct pollfd waits[] = {{.fd = cv_fd(f.election), .events = POLLIN},
                                 {.fd = signal_fd, .events = POLLIN}};
        if (poll(waits, COUNT_OF(waits), -1) < 0 && errno != EINTR) {
            f.exit_status = cv__cannot("cannot wait: %s", strerror(errno));
            break;
        }
        if (waits[1].revents != 0) {
            leave(&f);
        } else {
            look(&f);
        }
    }
    cv_close(f.election);
    return f.exit_status;
}

static int follow_traced(struct settings *settings, int signal_fd)
{
    struct cv_tracing tracing;
    struct cv_errtext error;
    if (cv__tracing_open(&tracing, settings->trace_path, settings->name, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    const int status = follow(settings, signal_fd, &tracing.recorder);
    if (cv__tracing_close(&tracing, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    return status;
}

static int parse(int argc, char **argv, bool is_observer, struct settings *settings)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'},
                                          {"lease", required_argument, NULL, 'l'},
                                          {"node", required_argument, NULL, 'N'},
                                          {"changes", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"trace", required_argument, NULL, 't'},
                                          {0}};
    settings->options.is_observer = is_observer;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'v':
            settings->via = optarg;
            break;
        case 'l':
            if (!cv__command_time("--lease", optarg, &settings->options.lease_ns)) {
                return EXIT_USAGE;
            }
            if (settings->options.lease_ns == 0) {
                return cv__wrong_usage("--lease must be longer than 0 s");
            }
            break;
        case 'N':
            settings->options.node = optarg;
            break;
        case 'c':
            if (!cv__command_number("--changes", optarg, 1, UINT64_MAX,
                                    &settings->change_count_max)) {
                return EXIT_USAGE;
            }
            break;
        case 'j':
            settings->is_json = true;
            break;
        case 't':
            if (is_observer) {
                return cv__wrong_usage("--trace works only with 'conclave elect'");
            }
            settings->trace_path = optarg;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        return cv__wrong_usage("%s takes the name of one election",
                               is_observer ? "watch" : "elect");
    }
    settings->name = argv[optind];
    settings->via = cv__inquiry_via(settings->via);
    return EXIT_FINE;
}

void cv__follow_block_ends(sigset_t *ret_ends)
{
    (void)sigemptyset(ret_ends);
    (void)sigaddset(ret_ends, SIGINT);
    (void)sigaddset(ret_ends, SIGTERM);
    (void)sigaddset(ret_ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, ret_ends, NULL); /* a valid set */
}

int cv__follow(int argc, char **argv, bool is_observer)
{
    struct settings settings = {.options = CV_ELECTION_OPTIONS_INIT};
    int status = parse(argc, argv, is_observer, &settings);
    if (status != EXIT_FINE) {
        return status;
    }
    if (is_observer && cv__cli_peers_is(settings.via)) {
        /* The address belongs to the member that runs here: an observer is a guest. */
        return cv__cli_peers_watch(settings.via, settings.name, settings.is_json,
                                   settings.change_count_max);
    }
    sigset_t ends;
    cv__follow_block_ends(&ends);
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a write error */
    const int signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0) {
        return cv__cannot("cannot wait for signals: %s", strerror(errno));
    }
    status = settings.trace_path != NULL ? follow_traced(&settings, signal_fd)
                                         : follow(&settings, signal_fd, /* recorder= */ NULL);
    (void)close(signal_fd);
    return status;
}
