/* src/cli/follow.c - takes part in an election, or watches it, and says what changes. */
#include "cli/follow.h"

#include "base/json.h"
#include "cli/cli.h"
#include "core/duration.h"
#include "os/clock.h"
#include "runtime/election.h"

#include <conclave/conclave.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

struct settings {
    const char *name;
    const char *via;
    struct cv_election_options options;
    uint64_t change_count_max; /* 0: no limit */
    bool is_json;
};

static const char *role_word(enum cv_role role)
{
    return role == CV_ROLE_LEADER ? "leader" : role == CV_ROLE_WAITING ? "waiting" : "observer";
}

static void print_json(const struct settings *settings, const struct cv_election_status *status)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_seconds(&json, "t_unix_s", cv__clock_wall_ns());
    cv__json_text(&json, "election", settings->name);
    cv__json_text(&json, "role", role_word(status->role));
    if (status->leader[0] != '\0') {
        cv__json_text(&json, "leader", status->leader);
    } else {
        cv__json_null(&json, "leader");
    }
    cv__json_uint(&json, "token", status->token);
    cv__json_text(&json, "reason", cv_reason_name(status->reason));
    cv__json_bool(&json, "has_majority", status->has_majority);
    cv__json_bool(&json, "asked_to_resign", status->is_wished_away);
    if (status->trouble[0] != '\0') {
        cv__json_text(&json, "trouble", status->trouble);
    } else {
        cv__json_null(&json, "trouble");
    }
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_text(const struct settings *settings, const struct cv_election_status *status)
{
    char stamp[32];
    const int64_t now_ns = cv__clock_wall_ns();
    const time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm local;
    (void)localtime_r(&seconds, &local);
    (void)strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
    (void)printf("%s.%03d  %s: ", stamp, (int)(now_ns % NS_PER_S / NS_PER_MS), settings->name);
    if (status->trouble[0] != '\0') {
        (void)printf("%s", status->trouble);
    } else if (status->leader[0] == '\0') {
        (void)printf("nobody leads (%s)", cv_reason_name(status->reason));
    } else {
        (void)printf("%s leads%s, token %llu (%s)", status->leader,
                     status->role == CV_ROLE_LEADER ? " (this process)" : "",
                     (unsigned long long)status->token, cv_reason_name(status->reason));
    }
    (void)printf("%s\n", status->is_wished_away ? "; asked to resign" : "");
}

/* Renewals are no change. */
static bool is_change(const struct cv_election_status *a, const struct cv_election_status *b)
{
    return a->role != b->role || a->token != b->token || strcmp(a->leader, b->leader) != 0 ||
           strcmp(a->trouble, b->trouble) != 0 || a->is_wished_away != b->is_wished_away;
}

/* This process has no work to stop, so it hands over as soon as it is asked to. */
static void obey(struct cv_election *election, const struct cv_election_status *status)
{
    if (status->is_wished_away) {
        cv_resign(election, status->heir[0] != '\0' ? status->heir : NULL);
    }
}

static int follow(const struct settings *settings, int signal_fd)
{
    struct cv_election *election;
    struct cv_errtext error;
    if (cv_open(&election, settings->name, settings->via, &settings->options, &error) != CV_OK) {
        return cv__usage_error("%s", error.text);
    }
    struct cv_election_status shown = {.sequence = 0};
    uint64_t change_count = 0;
    int status = EXIT_FINE;
    bool has_shown = false;
    while (status == EXIT_FINE) {
        struct pollfd waits[] = {{.fd = cv_fd(election), .events = POLLIN},
                                 {.fd = signal_fd, .events = POLLIN}};
        if (poll(waits, COUNT_OF(waits), -1) < 0 && errno != EINTR) {
            status = cv__usage_error("cannot wait: %s", strerror(errno));
            break;
        }
        if (waits[1].revents != 0) {
            break;
        }
        struct cv_election_status now;
        cv_status(election, &now);
        if (has_shown && !is_change(&shown, &now)) {
            continue;
        }
        shown = now;
        has_shown = true;
        if (settings->is_json) {
            print_json(settings, &now);
        } else {
            print_text(settings, &now);
        }
        status = cv__flush_output(EXIT_FINE);
        if (++change_count == settings->change_count_max) {
            break;
        }
        obey(election, &now);
    }
    cv_close(election);
    return status;
}

static int parse(int argc, char **argv, bool is_observer, struct settings *settings)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'},  {"lease", required_argument, NULL, 'l'},
        {"node", required_argument, NULL, 'N'}, {"changes", required_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},       {0}};
    settings->options.is_observer = is_observer;
    int option;
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'v':
            settings->via = optarg;
            break;
        case 'l':
            if (!cv__duration_parse(optarg, &settings->options.lease_ns) ||
                settings->options.lease_ns == 0) {
                return cv__usage_error("--lease takes a time like 5s, not '%s'", optarg);
            }
            break;
        case 'N':
            settings->options.node = optarg;
            break;
        case 'c':
            if (!cv__option_number("--changes", optarg, 1, UINT64_MAX,
                                   &settings->change_count_max)) {
                return EXIT_USAGE;
            }
            break;
        case 'j':
            settings->is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        return cv__usage_error("%s takes the name of one election",
                               is_observer ? "watch" : "elect");
    }
    settings->name = argv[optind];
    return EXIT_FINE;
}

int cv__follow(int argc, char **argv, bool is_observer)
{
    struct settings settings = {0};
    int status = parse(argc, argv, is_observer, &settings);
    if (status != EXIT_FINE) {
        return status;
    }
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL); /* a valid set */
    const int signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0) {
        return cv__usage_error("cannot wait for signals: %s", strerror(errno));
    }
    status = follow(&settings, signal_fd);
    (void)close(signal_fd);
    return status;
}
