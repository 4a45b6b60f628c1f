/* src/cli/cmd_stores.c - `conclave stores` and `conclave store init [ADDRESS]`. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "core/duration.h"
#include "stores/store.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static void print_json(void)
{
    struct cv_json json = {.out = stdout};
    const struct cv_store_kind *kind;
    cv__json_open(&json, NULL, '[');
    for (uint32_t i = 0; (kind = cv__store_at(i)) != NULL; i++) {
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "scheme", kind->scheme);
        cv__json_text(&json, "summary", kind->summary);
        cv__json_text(&json, "example", kind->example);
        cv__json_text(&json, "clock", kind->clock);
        cv__json_text(&json, "notifications", kind->notifications);
        cv__json_seconds(&json, "lease_min_s", kind->lease_ns_min);
        cv__json_bool(&json, "has_history", kind->history != NULL);
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    (void)printf("\n");
}

static void print_text(void)
{
    const struct cv_store_kind *kind;
    for (uint32_t i = 0; (kind = cv__store_at(i)) != NULL; i++) {
        char least[CV_DURATION_TEXT_BYTES];
        (void)printf("%s\n  %s\n  address: %s\n  clock:   %s\n  notified by: %s\n"
                     "  lease:   at least %s\n",
                     kind->scheme, kind->summary, kind->example, kind->clock, kind->notifications,
                     cv__duration_format(kind->lease_ns_min, least));
    }
}

static int run_stores(int argc, char **argv)
{
    bool is_json;
    if (!cv__command_json(argc, argv, &is_json)) {
        return EXIT_USAGE;
    }
    if (optind < argc && strcmp(argv[optind], "init") == 0) {
        return cv__wrong_usage("did you mean: conclave store init ADDRESS");
    }
    if (optind < argc) {
        return cv__wrong_usage("stores takes no argument, not '%s'", argv[optind]);
    }
    if (is_json) {
        print_json();
    } else {
        print_text();
    }
    return EXIT_FINE;
}

static int run_store(int argc, char **argv)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'}, {0}};
    const char *given = NULL;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        if (option != 'v') {
            return EXIT_USAGE;
        }
        given = optarg;
    }
    const int count = argc - optind; /* of words: init, and perhaps the address */
    const char *address = count == 2 && given == NULL ? argv[optind + 1] : cv__inquiry_via(given);
    if (count < 1 || strcmp(argv[optind], "init") != 0 || count > (given == NULL ? 2 : 1) ||
        address == NULL) {
        return cv__wrong_usage("use: conclave store init ADDRESS");
    }
    char *resolved;
    const struct cv_store_kind *kind = cv__inquiry_kind(address, &resolved);
    struct cv_errtext error;
    int status = EXIT_FINE;
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    if (kind->create == NULL) {
        (void)printf("%s: needs no preparation\n", kind->scheme);
    } else if (kind->create(resolved, &error) != CV_OK) {
        status = cv__cannot("%s", error.text);
    } else {
        (void)printf("%s: ready\n", kind->scheme);
    }
    free(resolved);
    return status;
}

const struct cv_verb cv__verb_stores = {
    .name = "stores",
    .summary = "list the kinds of stores",
    .help =
        "usage: conclave stores [--json]\n\n"
        "Lists the kinds of stores: the form of the address, the clock that decides that a lease\n"
        "is over, how waiting contenders are notified, and the shortest lease.\n\n"
        "  --json    print a list of objects\n",
    .run = run_stores,
    .is_told = true,
};

const struct cv_verb cv__verb_store = {
    .name = "store",
    .summary = "prepare a store, such as by creating its tables",
    .help =
        "usage: conclave store init [ADDRESS]\n\n"
        "Prepares a store for its first election, such as by creating the tables in a PostgreSQL\n"
        "database. Existing tables and data are kept.\n\n"
        "  --via ADDRESS  same as ADDRESS; default: $CONCLAVE_VIA\n",
    .run = run_store,
    .is_told = true,
};
