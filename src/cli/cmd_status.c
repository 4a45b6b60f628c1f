/* src/cli/cmd_status.c - `conclave status [NAME]`: who leads, since when, and until when. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "runtime/place.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *wall_text(int64_t wall_ns, char buffer[32])
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm local;
    if (wall_ns == 0 || localtime_r(&seconds, &local) == NULL) {
        return "unknown";
    }
    (void)strftime(buffer, 32, "%Y-%m-%d %H:%M:%S", &local);
    return buffer;
}

static void print_json(const char *name, const struct cv_inquiry *inquiry)
{
    const struct cv_store_record *r = &inquiry->record;
    const bool is_held = inquiry->verdict == CV_STORE_HELD;
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "election", name);
    if (is_held) {
        cv__json_text(&json, "leader", r->node);
        cv__json_seconds(&json, "remaining_s", r->remaining_ns);
        cv__json_seconds(&json, "lease_s", r->lease_ns);
        cv__json_seconds(&json, "since_unix_s", r->since_wall_ns);
    } else {
        cv__json_null(&json, "leader");
        cv__json_null(&json, "remaining_s");
        cv__json_null(&json, "lease_s");
        cv__json_null(&json, "since_unix_s");
    }
    cv__json_uint(&json, "token", r->token);
    if (!is_held && r->ended != CV_REASON_STARTED) {
        cv__json_text(&json, "ended", cv_reason_name(r->ended));
    } else {
        cv__json_null(&json, "ended");
    }
    cv__json_bool(&json, "asked_to_resign", is_held && r->resign_request[0] != '\0');
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_text(const char *name, const struct cv_inquiry *inquiry)
{
    const struct cv_store_record *r = &inquiry->record;
    char lease[CV_DURATION_TEXT_BYTES], since[32];
    if (inquiry->verdict != CV_STORE_HELD) {
        cv__print(stdout, "%s: nobody leads (last token %llu%s%s)\n", name,
                  (unsigned long long)r->token, r->ended != CV_REASON_STARTED ? ", " : "",
                  r->ended != CV_REASON_STARTED ? cv_reason_name(r->ended) : "");
        return;
    }
    if (r->remaining_ns < 0) {
        cv__print(stdout,
                  "%s: the lease of %s (token %llu) is over, but the store does not give it to "
                  "another yet: processes of its command still run\n",
                  name, r->node, (unsigned long long)r->token);
        return;
    }
    cv__print(stdout, "%s: %s leads, token %llu, since %s, %.1f s left of a lease of %s%s\n", name,
              r->node, (unsigned long long)r->token, wall_text(r->since_wall_ns, since),
              (double)r->remaining_ns / 1e9, cv__duration_format(r->lease_ns, lease),
              r->resign_request[0] != '\0' ? ", asked to resign" : "");
}

struct listing {
    const struct cv_store_kind *kind;
    const char *address;
    bool is_json;
    int status;
};

static void show(void *user, const char *name)
{
    struct listing *listing = user;
    struct cv_inquiry inquiry;
    struct cv_errtext error;
    if (cv__inquire(listing->kind, listing->address, name, /* asks_to_resign= */ false, NULL,
                    &inquiry, &error) != CV_OK) {
        listing->status = cv__cannot("%s", error.text);
        return;
    }
    if (listing->is_json) {
        print_json(name, &inquiry);
    } else {
        print_text(name, &inquiry);
    }
    if (inquiry.verdict != CV_STORE_HELD && listing->status == EXIT_FINE) {
        listing->status = EXIT_NO;
    }
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'}, {"json", no_argument, NULL, 'j'}, {0}};
    struct listing listing = {.status = EXIT_FINE};
    const char *via = NULL;
    int option;
    while ((option = cv__next_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'v':
            via = optarg;
            break;
        case 'j':
            listing.is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind > 1) {
        return cv__wrong_usage("status takes one election at most: '%s'", argv[optind + 1]);
    }
    if (optind < argc && !cv__election_name_is_valid(argv[optind])) {
        return cv__wrong_usage("'%s' cannot be the name of an election", argv[optind]);
    }
    if (cv__peers_is(cv__via(via))) {
        return optind < argc ? cv__peers_status(cv__via(via), argv[optind], listing.is_json)
                             : cv__wrong_usage("peers: addresses cannot list their elections: "
                                               "name one");
    }
    char *address;
    listing.kind = cv__inquiry_kind(via, &address);
    if (listing.kind == NULL) {
        return EXIT_USAGE;
    }
    listing.address = address;
    if (optind < argc) {
        show(&listing, argv[optind]);
    } else if (listing.kind->names == NULL) {
        listing.status =
            cv__cannot("%s: addresses cannot list their elections: name one", listing.kind->scheme);
    } else {
        struct cv_errtext error;
        if (listing.kind->names(address, show, &listing, &error) != CV_OK) {
            listing.status = cv__cannot("%s", error.text);
        } else if (listing.status == EXIT_NO) {
            listing.status = EXIT_FINE; /* a list is an answer, whoever leads */
        }
    }
    free(address);
    return listing.status;
}

const struct cv_verb cv__verb_status = {
    .name = "status",
    .summary = "who leads an election, or each of them",
    .help = "usage: conclave status [NAME] [--via ADDRESS] [--json]\n\n"
            "Prints who leads, since when, the fencing token and how much of the lease is left.\n"
            "Without NAME: every election that the store knows.\n\n"
            "  --via ADDRESS  where the election is held; default: CONCLAVE_VIA, or a file of this "
            "user\n"
            "  --json         one object for each election\n\n"
            "Exit status: 0 somebody leads, 1 nobody does, 2 wrong usage or no answer.\n",
    .run = run,
};
