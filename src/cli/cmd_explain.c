/* src/cli/cmd_explain.c - `conclave explain [ADDRESS]`: what a configuration promises, in numbers.
 *
 * The formulas are those of the lease core and of the store's kind; nothing is measured here. */
#include "base/json.h"
#include "base/screen.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "cli/reasons.h"
#include "cli/run_settings.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/options.h"
#include "core/text.h"
#include "protocols/lease_config.h"
#include "supervisor/schedule.h"

#include <conclave/conclave.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COLUMN 47 /* where values are printed, after an indent of two */
#define COLUMNS_MIN 70u

/* One line of the answer. */
struct fact {
    const char *key, *text, *note;
    int64_t ns;
    bool is_least; /* a lower bound: rounded down in the text; others are rounded up */
};

static int64_t option_ns(const struct cv_protocol *protocol, const struct cv_config *config,
                         const char *name)
{
    for (uint32_t i = 0; protocol->options[i].name != NULL; i++) {
        if (strcmp(protocol->options[i].name, name) == 0) {
            return config->option[i];
        }
    }
    CV_ASSERT(!"the lease core has this option");
    return 0;
}

/* Rounds to milliseconds for people, never towards a better promise. */
static int64_t rounded(int64_t ns, bool is_least)
{
    return (ns + (is_least ? 0 : NS_PER_MS - 1)) / NS_PER_MS * NS_PER_MS;
}

static void print_fact(const char *what, const char *value, const char *note)
{
    const bool is_narrow = cv__screen_limit() < COLUMNS_MIN; /* no room for a column of values */
    CV_ASSERT(strlen(what) < VALUE_COLUMN);
    (void)printf("  %s%s%*s%s%s\n", what, is_narrow ? ": " : "",
                 is_narrow ? 0 : VALUE_COLUMN - (int)strlen(what), "", value, note);
}

/* How long a leader may lead, with servers that have default settings. */
static int64_t usual_grant_ns(const struct cv_store_kind *kind, int64_t asked_ns)
{
    const int64_t most_ns = kind->usual_lease_ns_max;
    return cv__store_grant_ns(kind, most_ns > 0 ? cv__min64(asked_ns, most_ns) : asked_ns);
}

#define FACT_COUNT 10

/* The promises that are durations. */
static void facts_of(const struct cv_store_kind *kind, const struct cv_protocol *protocol,
                     const struct cv_config *config, const struct cv_schedule *schedule,
                     struct fact ret_facts[FACT_COUNT])
{
    const int64_t asked_ns = option_ns(protocol, config, "lease");
    const int64_t step_ns = kind->lease_ns_step;
    /* Servers may change it: the longer one counts for a take-over, the shorter for a leader. */
    const int64_t lease_ns =
        cv__max64((asked_ns + step_ns - 1) / step_ns * step_ns, kind->usual_lease_ns_min);
    const int64_t grant_ns = usual_grant_ns(kind, asked_ns);
    const int64_t sure_ns = cv__lease_sure_ns(grant_ns, config->drift_ppb);
    const int64_t retry_ns = option_ns(protocol, config, "retry");
    const int64_t timeout_ns = option_ns(protocol, config, "timeout");
    const int64_t poll_ns = option_ns(protocol, config, "poll");
    /* Least of the lease is left when a renewal is due. A request that is lost in an outage is
     * repeated after again_ns. */
    const int64_t left_ns =
        sure_ns - cv__lease_renew_ns(option_ns(protocol, config, "renew"), grant_ns);
    const int64_t again_ns = cv__lease_again_ns(retry_ns, timeout_ns);
    const int64_t run_left_ns = cv__max64(cv__schedule_term_ns(schedule, left_ns), 0);
    const char *changed = asked_ns < kind->usual_lease_ns_min
                              ? "; the least that servers grant with their default settings"
                          : grant_ns < cv__store_grant_ns(kind, asked_ns)
                              ? "; more than servers grant with their default settings"
                              : "";
    const struct fact facts[FACT_COUNT] = {
        {"lease_s", "lease that the store grants", changed, lease_ns, false},
        {"grant_s", "part of it that a leader may use", "", grant_ns, /* is_least= */ true},
        {"crash_takeover_max_s", "crash: another leads after at most",
         kind->inherit != NULL ? "; a dead process on this host is replaced within milliseconds"
         : kind->counts_anew   ? "; one lease less, unless the servers change their own leader"
                               : "",
         (kind->counts_anew ? 2 : 1) * lease_ns + retry_ns + timeout_ns, false},
        {"resign_takeover_max_s", "resignation: another leads after at most",
         "; usually a few round trips", poll_ns + retry_ns + timeout_ns, false},
        {"outage_tolerated_s", "store outage that a leader survives",
         "; after a longer one nobody leads until the store is back",
         cv__max64(left_ns - again_ns, 0), /* is_least= */ true},
        {"pause_tolerated_s", "pause of the leader that it survives",
         "; a longer one ends the leadership before the leader acts again", left_ns,
         /* is_least= */ true},
        {"run_grace_s", "'run': time from SIGTERM to the end of lease", "",
         schedule->grace_ns + schedule->cleanup_ns, /* is_least= */ true},
        {"run_outage_tolerated_s", "'run': store outage that the command survives",
         "; a longer one may stop the command", cv__max64(run_left_ns - again_ns, 0),
         /* is_least= */ true},
        {"run_pause_tolerated_s", "'run': pause that the command survives",
         "; in a longer one the guard stops the command", run_left_ns, /* is_least= */ true},
        {"drift_allowance_s", "part of the lease kept back for clock drift", "", grant_ns - sure_ns,
         /* is_least= */ true},
    };
    memcpy(ret_facts, facts, sizeof facts);
}

/* Requests to the store per second. */
struct rates {
    double leader, waiting;
};

static void print_json(const struct cv_store_kind *kind, const struct cv_config *config,
                       const struct fact *facts, struct rates per_s)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "store", kind->scheme);
    for (uint32_t i = 0; i < FACT_COUNT; i++) {
        cv__json_seconds(&json, facts[i].key, facts[i].ns);
    }
    cv__json_double(&json, "drift_tolerated_ppm", (double)config->drift_ppb / 1e3);
    cv__json_double(&json, "leader_requests_per_s", per_s.leader);
    cv__json_double(&json, "waiting_requests_per_s", per_s.waiting);
    cv__json_text(&json, "clock", kind->clock);
    cv__json_text(&json, "notifications", kind->notifications);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_text(const struct cv_store_kind *kind, const struct cv_config *config,
                       const struct fact *facts, struct rates per_s)
{
    char text[CV_DURATION_TEXT_BYTES], said[100];
    (void)printf("%s: %s\n", kind->scheme, kind->summary);
    for (uint32_t i = 0; i < FACT_COUNT; i++) {
        print_fact(facts[i].text,
                   cv__duration_format(rounded(facts[i].ns, facts[i].is_least), text),
                   facts[i].note);
    }
    (void)snprintf(said, sizeof said, "%g ppm for each clock", (double)config->drift_ppb / 1e3);
    print_fact("clock drift that is safe", said, "");
    (void)snprintf(said, sizeof said, "%.2g by the leader, %.2g by each other contender",
                   per_s.leader, per_s.waiting);
    print_fact("requests per second", said, "");
    print_fact("which clock decides that a lease is over", kind->clock, "");
    print_fact("how waiting contenders are notified", kind->notifications, "");
    cv__screen_print(
        stdout, cv__screen_limit(),
        "There are never two leaders, whatever is lost, slow, stopped or killed, unless a clock\n"
        "drifts more than that. A process can be paused between checking that it leads and\n"
        "acting on it: let the resource refuse any token smaller than one it has seen.\n");
}

static void print(const struct cv_store_kind *kind, const struct cv_protocol *protocol,
                  const struct cv_config *config, const struct cv_schedule *schedule, bool is_json)
{
    struct fact facts[FACT_COUNT];
    const int64_t grant_ns = usual_grant_ns(kind, option_ns(protocol, config, "lease"));
    const int64_t renew_ns = cv__lease_renew_ns(option_ns(protocol, config, "renew"), grant_ns);
    const struct rates per_s = {.leader = 1e9 / (double)renew_ns,
                                .waiting = 1e9 / (double)option_ns(protocol, config, "poll")};
    facts_of(kind, protocol, config, schedule, facts);
    if (is_json) {
        print_json(kind, config, facts, per_s);
    } else {
        print_text(kind, config, facts, per_s);
    }
}

static void print_reason(enum cv_reason reason, bool is_json)
{
    const struct cv_cli_reason *text = cv__cli_reason(reason);
    if (!is_json) {
        (void)printf("%s: %s.\nWhat to do: %s.\n", cv_reason_name(reason), text->meaning,
                     text->advice);
        return;
    }
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "reason", cv_reason_name(reason));
    cv__json_text(&json, "meaning", text->meaning);
    cv__json_text(&json, "advice", text->advice);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

struct explain_settings {
    int64_t lease_ns, grace_ns, cleanup_ns; /* grace_ns below 0: not given */
    const char *time_option;                /* one that was given; NULL: none */
    bool is_json;
};

/* A reason, or nearly one. False: it is something else. */
static bool explain_reason(const char *word, const struct explain_settings *s, int *ret_status)
{
    const char *known[CV_REASON_COUNT + 1] = {0};
    for (uint32_t i = 0; i < CV_REASON_COUNT; i++) {
        known[i] = cv_reason_name((enum cv_reason)i);
    }
    const enum cv_reason reason = cv__reason_find(word);
    if (reason == CV_REASON_COUNT) {
        *ret_status = EXIT_USAGE;
        if (cv__text_nearest(word, known) != NULL) {
            return cv__command_unknown("reason", word, known) == EXIT_USAGE;
        }
        if (strchr(word, ':') == NULL) {
            cv__complain(
                "'%s' is not an address; write it like sqlite:FILE or etcd://HOST:PORT. It is not "
                "a reason either, such as 'expired'; 'man conclave-explain' lists the reasons",
                word);
            return true;
        }
        return false;
    }
    if (s->time_option != NULL) {
        *ret_status =
            cv__wrong_usage("'%s' is a reason, which %s does not concern", word, s->time_option);
        return true;
    }
    print_reason(reason, s->is_json);
    *ret_status = EXIT_FINE;
    return true;
}

/* False: wrong usage, and the user was told. */
static bool parse(int argc, char **argv, struct explain_settings *s)
{
    static const struct option longs[] = {{"lease", required_argument, NULL, 'l'},
                                          {"grace", required_argument, NULL, 'g'},
                                          {"cleanup-time", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    *s = (struct explain_settings){.lease_ns = 5 * NS_PER_S, .grace_ns = -1};
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'l':
            s->time_option = "--lease";
            if (!cv__command_time(s->time_option, optarg, &s->lease_ns)) {
                return false;
            }
            break;
        case 'g':
            s->time_option = "--grace";
            if (!cv__command_time(s->time_option, optarg, &s->grace_ns)) {
                return false;
            }
            break;
        case 'c':
            s->time_option = "--cleanup-time";
            if (!cv__command_time(s->time_option, optarg, &s->cleanup_ns)) {
                return false;
            }
            break;
        case 'j':
            s->is_json = true;
            break;
        default:
            return false;
        }
    }
    return true;
}

/* Explains an election with this kind of store. Returns the exit status. */
static int explain_store(const struct cv_store_kind *kind, const struct explain_settings *s)
{
    char lease[CV_DURATION_TEXT_BYTES], least[CV_DURATION_TEXT_BYTES];
    (void)cv__duration_format(s->lease_ns, lease);
    if (s->lease_ns < kind->lease_ns_min) {
        return cv__wrong_usage("--lease must be at least %s with %s, not '%s'",
                               cv__duration_format(kind->lease_ns_min, least), kind->scheme, lease);
    }
    if (s->lease_ns > LEASE_NS_MAX) {
        return cv__wrong_usage("--lease must be at most 24h, not '%s'", lease);
    }
    const int64_t grant_ns = cv__store_grant_ns(kind, s->lease_ns);
    const int64_t both_ns_max = cv__schedule_grace_ns_max(grant_ns);
    int64_t grace_ns = s->grace_ns;
    if (grace_ns < 0) {
        grace_ns =
            cv__max64(cv__min64(cv__schedule_grace_ns(grant_ns), both_ns_max - s->cleanup_ns), 0);
    }
    if (!cv__run_may_renew(grace_ns, s->cleanup_ns, s->lease_ns, grant_ns)) {
        return EXIT_USAGE;
    }
    const struct cv_protocol *protocol = cv_protocol_find("lease");
    struct cv_config config;
    struct cv_errtext error;
    cv_config_init(&config, protocol, 1, 1);
    if (cv_config_set(&config, protocol, "lease", lease, &error) != CV_OK ||
        cv_core_configure(protocol, &config, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    const struct cv_schedule schedule = cv__schedule(grace_ns, s->cleanup_ns, /* margin_ns= */ 0);
    print(kind, protocol, &config, &schedule, s->is_json);
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    struct explain_settings s;
    if (!parse(argc, argv, &s)) {
        return EXIT_USAGE;
    }
    if (argc - optind > 1) {
        return cv__wrong_usage("explain takes one address or reason; '%s' is one too many",
                               argv[optind + 1]);
    }
    int status;
    if (optind < argc && explain_reason(argv[optind], &s, &status)) {
        return status;
    }
    const char *via = cv__inquiry_via(optind < argc ? argv[optind] : NULL);
    if (cv__cli_peers_is(via)) {
        return cv__cli_peers_explain(via, s.is_json);
    }
    char *address;
    const struct cv_store_kind *kind =
        cv__inquiry_kind(optind < argc ? argv[optind] : NULL, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    struct cv_errtext error;
    const bool is_right = cv__inquiry_is_written_right(kind, address, &error);
    free(address);
    return is_right ? explain_store(kind, &s) : cv__wrong_usage("%s", error.text);
}

const struct cv_verb cv__verb_explain = {
    .name = "explain",
    .summary = "show what an address or a reason means: take-over times, outages, advice",
    .help =
        "usage: conclave explain [ADDRESS] [--lease TIME] [--grace TIME]\n"
        "                        [--cleanup-time TIME] [--json]\n"
        "       conclave explain REASON [--json]\n\n"
        "Prints what an election at ADDRESS (default: a file of this user) promises: how soon\n"
        "another contender leads after a crash or a resignation, which outages, pauses and clock\n"
        "drift it tolerates, and how many requests it makes.\n\n"
        "With a REASON of 'history', 'watch' or a hook, such as 'expired', prints what the reason\n"
        "means and what to do.\n\n"
        "  --lease TIME   the lease; default 5s\n"
        "  --grace TIME   as for 'conclave run'; same default\n"
        "  --cleanup-time TIME   as for 'conclave run'; default: no cleanup\n"
        "  --json         print one object\n",
    .run = run,
    .is_told = true,
};
