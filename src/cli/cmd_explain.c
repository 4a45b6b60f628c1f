/* src/cli/cmd_explain.c - `conclave explain [ADDRESS]`: what a configuration promises, in numbers.
 *
 * The formulas are those of the lease core and of the store's kind; nothing is measured here. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "core/duration.h"
#include "core/options.h"

#include <conclave/conclave.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* One line of the answer; without a time if it is negative. */
struct fact {
    const char *key, *text, *note;
    int64_t ns;
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

static void print(const struct cv_store_kind *kind, const struct cv_protocol *protocol,
                  const struct cv_config *config, bool is_json)
{
    const int64_t asked_ns = option_ns(protocol, config, "lease");
    const int64_t step_ns = kind->lease_ns_step;
    const int64_t lease_ns = (asked_ns + step_ns - 1) / step_ns * step_ns;
    const int64_t grant_ns = lease_ns / 100 * kind->grant_percent;
    const int64_t renew_asked_ns = option_ns(protocol, config, "renew");
    const int64_t renew_ns = renew_asked_ns < grant_ns / 2 ? renew_asked_ns : grant_ns / 2;
    const int64_t retry_ns = option_ns(protocol, config, "retry");
    const int64_t timeout_ns = option_ns(protocol, config, "timeout");
    const int64_t poll_ns = option_ns(protocol, config, "poll");
    const int64_t drift_ns = lease_ns / 1000 * (2 * config->drift_ppb) / 1000000;
    const bool has_lifeline = kind->inherit != NULL;
    const struct fact facts[] = {
        {"lease_s", "lease, as the store keeps it", "", lease_ns},
        {"grant_s", "of which a leader may rely on", "", grant_ns},
        {"crash_takeover_max_s", "crash: another leads after at most",
         has_lifeline ? "; milliseconds, as soon as nothing of the leader is left on the host" : "",
         lease_ns + retry_ns + timeout_ns},
        {"resign_takeover_max_s", "resignation: another leads after at most",
         "; a few round trips, if the store's notifications come through",
         poll_ns + retry_ns + timeout_ns},
        {"outage_tolerated_s", "store outage that a leader survives",
         "; a longer one ends the leadership, and nobody leads until it is over",
         grant_ns - drift_ns - renew_ns - retry_ns},
        {"pause_tolerated_s", "pause of the leader that it survives",
         "; a longer one ends the leadership before it can act again",
         grant_ns - drift_ns - renew_ns},
        {"drift_allowance_s", "of the lease set aside for clocks that drift", "", drift_ns},
    };
    const double leader_rate = 1e9 / (double)renew_ns, waiting_rate = 1e9 / (double)poll_ns;
    if (is_json) {
        struct cv_json json = {.out = stdout};
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "store", kind->scheme);
        for (uint32_t i = 0; i < COUNT_OF(facts); i++) {
            cv__json_seconds(&json, facts[i].key, facts[i].ns);
        }
        cv__json_double(&json, "drift_tolerated_ppm", (double)config->drift_ppb / 1e3);
        cv__json_double(&json, "leader_requests_per_s", leader_rate);
        cv__json_double(&json, "waiting_requests_per_s", waiting_rate);
        cv__json_text(&json, "clock", kind->clock);
        cv__json_text(&json, "notifications", kind->notifications);
        cv__json_close(&json, '}');
        (void)printf("\n");
        return;
    }
    (void)printf("%s: %s\n", kind->scheme, kind->summary);
    for (uint32_t i = 0; i < COUNT_OF(facts); i++) {
        char text[CV_DURATION_TEXT_BYTES];
        (void)printf("  %-46s %s%s\n", facts[i].text, cv__duration_format(facts[i].ns, text),
                     facts[i].note);
    }
    (void)printf("  %-46s %g ppm for each clock\n", "drift that is safe",
                 (double)config->drift_ppb / 1e3);
    (void)printf("  %-46s %.2g of the leader, %.2g of each other contender\n",
                 "requests per second", leader_rate, waiting_rate);
    (void)printf("  %-46s %s\n", "who judges that a lease is over", kind->clock);
    (void)printf("  %-46s %s\n", "how others learn of it", kind->notifications);
    (void)printf(
        "Never two leaders, whatever is lost, slow, stopped or killed, if no clock drifts\n"
        "more than that. A process may be stopped between the question whether it leads\n"
        "and the action: let the resource refuse tokens that are smaller than one it has "
        "seen.\n");
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        {"lease", required_argument, NULL, 'l'}, {"json", no_argument, NULL, 'j'}, {0}};
    const char *lease = "5s";
    bool is_json = false;
    int option;
    while ((option = cv__next_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'l':
            lease = optarg;
            break;
        case 'j':
            is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind > 1) {
        return cv__wrong_usage("explain takes one address: '%s'", argv[optind + 1]);
    }
    char *address;
    const struct cv_store_kind *kind =
        cv__inquiry_kind(optind < argc ? argv[optind] : NULL, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    free(address);
    const struct cv_protocol *protocol = cv_protocol_find("lease");
    struct cv_config config;
    struct cv_errtext error;
    int64_t lease_ns;
    if (!cv__duration_parse(lease, &lease_ns) || lease_ns < kind->lease_ns_min) {
        char least[CV_DURATION_TEXT_BYTES];
        return cv__wrong_usage("--lease takes a time of %s at least with %s, not '%s'",
                               cv__duration_format(kind->lease_ns_min, least), kind->scheme, lease);
    }
    cv_config_init(&config, protocol, 1, 1);
    if (cv_config_set(&config, protocol, "lease", lease, &error) != CV_OK ||
        cv_core_configure(protocol, &config, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    print(kind, protocol, &config, is_json);
    return EXIT_FINE;
}

const struct cv_verb cv__verb_explain = {
    .name = "explain",
    .summary = "what a configuration promises: take-over, outages, drift",
    .help =
        "usage: conclave explain [ADDRESS] [--lease TIME] [--json]\n\n"
        "Prints what an election at ADDRESS (default: a file of this user) promises: how soon\n"
        "another leads after a crash or a resignation, which outage, pause and drift it bears,\n"
        "and what it costs.\n\n"
        "  --lease TIME   default 5s\n"
        "  --json         the same for programs\n",
    .run = run,
};
