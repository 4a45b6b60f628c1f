/* src/cli/run_settings.c - see run_settings.h. */
#include "cli/run_settings.h"

#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "runtime/backend.h"
#include "runtime/election.h"
#include "runtime/place.h"
#include "stores/store.h"
#include "supervisor/schedule.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_NS_DEFAULT (5 * NS_PER_S)
#define GRACE_NS_SHORT (50 * NS_PER_MS)

/* In the library 0 stands for the default, but a user who writes 0 does not mean that. */
static bool lease_is_some(const struct cv_run_settings *s)
{
    if (s->options.lease_ns == 0) {
        cv__complain("--lease must be longer than 0 s");
        return false;
    }
    return true;
}

enum { /* options without a letter */
       OPTION_EVERY = 256,
       OPTION_OFFSET,
       OPTION_ZONE,
       OPTION_TOLERANCE,
       OPTION_RETRY,
       OPTION_AT_MOST_ONCE,
       OPTION_CLEANUP,
       OPTION_CLEANUP_TIME,
};

/* The options of a job that runs once in each period. False: it is none of them. */
static bool every_option_take(struct cv_run_settings *s, int option)
{
    switch (option) {
    case OPTION_EVERY:
        s->every.every = optarg;
        return true;
    case OPTION_OFFSET:
        s->every.offset = optarg;
        return true;
    case OPTION_ZONE:
        s->every.zone = optarg;
        return true;
    case OPTION_TOLERANCE:
        s->every.tolerance = optarg;
        return true;
    case OPTION_RETRY:
        s->every.retry = optarg;
        return true;
    case OPTION_AT_MOST_ONCE:
        s->every.at_most_once = true;
        return true;
    default:
        return false;
    }
}

static bool option_take(struct cv_run_settings *s, int option)
{
    switch (option) {
    case 'v':
        s->via = optarg;
        return true;
    case 'l':
        return cv__command_time("--lease", optarg, &s->options.lease_ns) && lease_is_some(s);
    case 'g':
        return cv__command_time("--grace", optarg, &s->grace_ns);
    case 'n':
        s->is_nonblocking = true;
        return true;
    case 'w':
        return cv__command_time("--wait", optarg, &s->wait_ns);
    case 'E':
        return cv__command_number("-E", optarg, 0, 255, &s->conflict);
    case 'o':
        s->is_once = true;
        return true;
    case 'i':
        s->is_init = true;
        return true;
    case 'e':
        s->on_elected = optarg;
        return true;
    case 'L':
        s->on_lost = optarg;
        return true;
    case 'f':
        s->fifo = optarg;
        return true;
    case 'N':
        s->options.node = optarg;
        return true;
    case 'V':
        s->is_verbose = true;
        return true;
    case 'k':
        s->keeps_secrets = true;
        return true;
    case 'c':
        s->is_check = true;
        return true;
    case OPTION_CLEANUP:
        if (optarg[strspn(optarg, " \t\n")] == '\0') { /* from an empty variable of the shell */
            cv__complain("--cleanup takes a command, not '%s'", optarg);
            return false;
        }
        s->cleanup = optarg;
        return true;
    case OPTION_CLEANUP_TIME:
        return cv__command_time("--cleanup-time", optarg, &s->cleanup_ns);
    case 'h':
        s->wants_help = true;
        return true;
    default:
        return every_option_take(s, option);
    }
}

/* The name may stand before, between or after the options; the rest is the command. */
int cv__run_parse(int argc, char **argv, struct cv_run_settings *s)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'},
        {"lease", required_argument, NULL, 'l'},
        {"grace", required_argument, NULL, 'g'},
        {"nonblock", no_argument, NULL, 'n'},
        {"wait", required_argument, NULL, 'w'},
        {"timeout", required_argument, NULL, 'w'},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        {"once", no_argument, NULL, 'o'},
        {"init", no_argument, NULL, 'i'},
        {"on-elected", required_argument, NULL, 'e'},
        {"on-lost", required_argument, NULL, 'L'},
        {"fifo", required_argument, NULL, 'f'},
        {"node", required_argument, NULL, 'N'},
        {"keep-secrets", no_argument, NULL, 'k'},
        {"verbose", no_argument, NULL, 'V'},
        {"check", no_argument, NULL, 'c'},
        {"every", required_argument, NULL, OPTION_EVERY},
        {"offset", required_argument, NULL, OPTION_OFFSET},
        {"zone", required_argument, NULL, OPTION_ZONE},
        {"tolerance", required_argument, NULL, OPTION_TOLERANCE},
        {"retry", required_argument, NULL, OPTION_RETRY},
        {"at-most-once", no_argument, NULL, OPTION_AT_MOST_ONCE},
        {"cleanup", required_argument, NULL, OPTION_CLEANUP},
        {"cleanup-time", required_argument, NULL, OPTION_CLEANUP_TIME},
        {"help", no_argument, NULL, 'h'},
        {0}};
    while (!s->wants_help) {
        const int option = cv__command_option(argc, argv, "+hnw:E:", longs);
        if (option == -1) {
            const bool is_end = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
            if (s->name != NULL || optind >= argc) {
                break;
            }
            if (is_end) {
                return cv__wrong_usage("run takes the name of an election before '--'");
            }
            s->name = argv[optind++];
        } else if (!option_take(s, option)) {
            return EXIT_USAGE;
        }
    }
    s->command = argv + optind;
    if (s->wants_help) {
        (void)fputs(cv__verb_run.help, stdout);
        return EXIT_FINE;
    }
    if (s->is_nonblocking && s->wait_ns >= 0) {
        return cv__wrong_usage("-n and -w cannot be combined: -n does not wait");
    }
    if (s->name == NULL || s->command[0] == NULL) {
        return cv__wrong_usage("use: conclave run NAME [OPTIONS] -- COMMAND [ARGUMENTS]");
    }
    return EXIT_FINE;
}

bool cv__run_may_renew(int64_t grace_ns, int64_t cleanup_ns, int64_t lease_ns, int64_t grant_ns)
{
    const int64_t both_ns = grace_ns + cleanup_ns,
                  both_ns_max = cv__schedule_grace_ns_max(grant_ns);
    char cleanup[64] = " is";
    if (both_ns <= both_ns_max) {
        return true;
    }
    if (cleanup_ns > 0) {
        (void)snprintf(cleanup, sizeof cleanup, " and --cleanup-time %gs together are",
                       (double)cleanup_ns / 1e9);
    }
    cv__complain("--grace %gs%s too long for --lease %gs: the command would be "
                 "stopped before its lease could be renewed; use %s%gs or "
                 "less, or --lease %gs or more",
                 (double)grace_ns / 1e9, cleanup, (double)lease_ns / 1e9,
                 cleanup_ns > 0 ? "" : "--grace ", (double)both_ns_max / 1e9,
                 (double)both_ns / 1e9 * 2.5 * (double)lease_ns / (double)grant_ns);
    return false;
}

/* The grace, and the time for the cleanup after it. Both together must leave time to renew. */
static bool complete_times(struct cv_run_settings *s, int64_t grant_ns)
{
    const int64_t both_ns = cv__schedule_grace_ns(grant_ns);
    const int64_t both_ns_max = cv__schedule_grace_ns_max(grant_ns);
    if (s->cleanup == NULL ? s->cleanup_ns >= 0 : s->cleanup_ns == 0) {
        cv__complain("%s", s->cleanup == NULL ? "--cleanup-time needs --cleanup"
                                              : "--cleanup-time must be longer than 0 s");
        return false;
    }
    if (s->cleanup_ns < 0) {
        s->cleanup_ns = s->cleanup != NULL ? both_ns / 2 : 0;
    }
    if (s->grace_ns < 0) {
        s->grace_ns = cv__max64(cv__min64(both_ns, both_ns_max - s->cleanup_ns), 0);
    }
    return cv__run_may_renew(s->grace_ns, s->cleanup_ns, s->options.lease_ns, grant_ns);
}

/* Few commands stop in less than GRACE_NS_SHORT. If the address sets the lease, the user may not
 * have thought of that. */
static void say_short_grace(const struct cv_run_settings *s)
{
    char lease[CV_DURATION_TEXT_BYTES], grace[CV_DURATION_TEXT_BYTES];
    cv__complain(
        "the lease of '%s' may be as short as %s, which leaves the command %s from SIGTERM to "
        "SIGKILL; set a longer 'lease-min' in [options] of that file, or give --grace",
        s->via, cv__duration_format(s->options.lease_ns, lease),
        cv__duration_format(s->grace_ns, grace));
}

/* --lease, or else the lease that the address sets, or the default. */
static bool complete_lease(struct cv_run_settings *s)
{
    const struct cv_backend_kind *backend;
    struct cv_backend_contract contract = {0};
    struct cv_errtext unused; /* opening the address later reports what is wrong */
    if (s->via != NULL && cv__backend_find(s->via, /* accepts_two_leaders= */ true, &backend,
                                           &contract, &unused) != CV_OK) {
        contract.lease_ns = 0;
    }
    if (contract.lease_ns != 0 && s->options.lease_ns != 0) {
        cv__complain("--lease cannot be used with '%s': set the lease in [options] of that file",
                     s->via);
        return false;
    }
    if (s->options.lease_ns == 0) {
        s->options.lease_ns = contract.lease_ns != 0 ? contract.lease_ns : LEASE_NS_DEFAULT;
    }
    s->options.progress_ns = cv__max64(s->options.lease_ns, contract.lease_ns_max);
    return true;
}

int cv__run_complete(struct cv_run_settings *s)
{
    struct cv_errtext error;
    s->via = cv__inquiry_via(s->via);
    if (s->every.every != NULL && cv__cli_peers_is(s->via)) {
        return cv__wrong_usage("--every needs a store that keeps what was run, which a cluster of "
                               "peers does not; see 'conclave stores'");
    }
    if (!complete_lease(s)) {
        return EXIT_USAGE;
    }
    const int64_t lease_ns = s->options.lease_ns;
    const bool has_grace = s->grace_ns >= 0;
    const struct cv_store_kind *kind = s->via != NULL ? cv__store_find(s->via) : NULL;
    const int64_t grant_ns = kind != NULL ? cv__store_grant_ns(kind, lease_ns) : lease_ns;
    if (!complete_times(s, grant_ns)) {
        return EXIT_USAGE;
    }
    if (!has_grace && kind == NULL && s->via != NULL && s->grace_ns < GRACE_NS_SHORT) {
        say_short_grace(s);
    }
    s->options.log = cv__follow_notice;
    const int code = s->via != NULL ? cv__backend_name(s->via, s->options.node, s->node, &error)
                                    : cv__election_node_name(s->node, s->options.node, &error);
    if (code != CV_OK) {
        return cv__wrong_usage("%s", error.text);
    }
    s->options.node = s->node;
    return cv__every_check(&s->every);
}

int cv__run_check(const struct cv_run_settings *s)
{
    struct cv_errtext error;
    const struct cv_backend_kind *backend;
    struct cv_backend_contract contract;
    if (!cv__store_election_is_valid(s->name)) {
        return cv__wrong_usage("'%s' is not a valid name of an election", s->name);
    }
    if (s->via != NULL && cv__backend_find(s->via, /* accepts_two_leaders= */ false, &backend,
                                           &contract, &error) != CV_OK) {
        return cv__wrong_usage("%s", error.text);
    }
    char *address = NULL;
    if (s->via != NULL && cv__place_address(s->via, &address, &error) != CV_OK) {
        return cv__wrong_usage("%s", error.text);
    }
    const struct cv_store_kind *kind =
        cv__store_find(address != NULL ? address : "sqlite:"); /* NULL: there is no store */
    const int code =
        kind != NULL ? cv__inquiry_check(kind, address, s->options.lease_ns, &error) : CV_OK;
    free(address);
    return code == CV_OK ? EXIT_FINE : cv__wrong_usage("%s", error.text);
}
