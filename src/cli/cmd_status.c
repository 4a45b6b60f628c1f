/* src/cli/cmd_status.c - `conclave status [NAME]`: who leads, since when and until when, who waits,
 * and who led before. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "core/errors.h"
#include "os/clock.h"
#include "runtime/trail.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is known of an election. */
struct known {
    const char *name;
    bool hides_rest; /* only an upper bound of the rest of the lease is known */
    struct cv_inquiry inquiry;
    struct cv_store_list *waiting;
    struct cv_store_past last; /* the latest leadership that has ended; token 0: not known */
    struct cv_store_past open; /* the latest one without a recorded end, likewise */
};

static void json_instant(struct cv_json *json, const char *key, int64_t wall_ns)
{
    if (wall_ns != 0) {
        cv__json_seconds(json, key, wall_ns);
    } else {
        cv__json_null(json, key);
    }
}

static void print_json(const struct known *known)
{
    const struct cv_store_record *r = &known->inquiry.record;
    const bool is_held = known->inquiry.verdict == CV_STORE_HELD;
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "election", known->name);
    if (is_held) {
        cv__json_text(&json, "leader", r->node);
        cv__json_text_or_null(&json, "leader_version", r->version);
        cv__json_seconds(&json, "remaining_s", r->remaining_ns);
        cv__json_seconds(&json, "lease_s", r->lease_ns);
        cv__json_seconds(&json, "since_unix_s", r->since_wall_ns);
    } else {
        cv__json_null(&json, "leader");
        cv__json_null(&json, "leader_version");
        cv__json_null(&json, "remaining_s");
        cv__json_null(&json, "lease_s");
        cv__json_null(&json, "since_unix_s");
    }
    cv__json_uint(&json, "token", r->token);
    cv__json_text_or_null(
        &json, "ended", !is_held && r->ended != CV_REASON_STARTED ? cv_reason_name(r->ended) : "");
    cv__json_bool(&json, "asked_to_resign", is_held && r->resign_request[0] != '\0');
    cv__json_open(&json, "waiting", '[');
    for (uint32_t i = 0; i < known->waiting->count; i++) {
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "node", known->waiting->entry[i].name);
        json_instant(&json, "since_unix_s", known->waiting->entry[i].since_wall_ns);
        cv__json_text_or_null(&json, "version", known->waiting->entry[i].version);
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    cv__json_text_or_null(&json, "last_leader", known->last.node);
    cv__json_text_or_null(&json, "last_reason", known->last.why);
    json_instant(&json, "last_end_unix_s", known->last.to_wall_ns);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static void print_leader(const struct known *known)
{
    const struct cv_store_record *r = &known->inquiry.record;
    char lease[CV_DURATION_TEXT_BYTES], since[32];
    if (known->inquiry.verdict != CV_STORE_HELD) {
        /* Some stores keep nothing of an ended leadership; then use what this machine has seen. */
        const bool is_kept = r->token != 0;
        if (!is_kept && known->last.token == 0) {
            cv__print(stdout, "%s: nobody leads, and no leadership is known\n", known->name);
            return;
        }
        const char *why = !is_kept                        ? known->last.why
                          : r->ended != CV_REASON_STARTED ? cv_reason_name(r->ended)
                                                          : "";
        cv__print(stdout, "%s: nobody leads (last token %llu%s%s)\n", known->name,
                  (unsigned long long)(is_kept ? r->token : known->last.token),
                  why[0] != '\0' ? ", " : "", why);
        return;
    }
    if (r->remaining_ns < 0) {
        cv__print(stdout,
                  "%s: the lease of %s (token %llu) has expired, but processes of its command "
                  "still run; the store waits until they are gone\n",
                  known->name, r->node, (unsigned long long)r->token);
        return;
    }
    cv__print(stdout, "%s: %s leads, token %llu, since %s, %s%.1f s left of a lease of %s%s\n",
              known->name, r->node, (unsigned long long)r->token,
              cv__inquiry_wall_text(r->since_wall_ns, since), known->hides_rest ? "at most " : "",
              (double)r->remaining_ns / 1e9, cv__duration_format(r->lease_ns, lease),
              r->resign_request[0] != '\0' ? ", asked to resign" : "");
}

static void print_text(const struct known *known)
{
    char since[32];
    print_leader(known);
    for (uint32_t i = 0; i < known->waiting->count; i++) {
        const struct cv_store_listed *one = &known->waiting->entry[i];
        cv__print(stdout, "  waiting: %s%s%s\n", one->name,
                  one->since_wall_ns != 0 ? " since " : "",
                  one->since_wall_ns != 0 ? cv__inquiry_wall_text(one->since_wall_ns, since) : "");
    }
    if (known->waiting->is_cut) {
        (void)printf("  waiting: ... and more\n");
    }
    /* A leader that gave up in an outage is still in the record until its lease ends. */
    if (known->last.token != 0 && (known->inquiry.verdict != CV_STORE_HELD ||
                                   known->last.token != known->inquiry.record.token)) {
        cv__print(stdout, "  before: %s, token %llu, until %s (%s)\n", known->last.node,
                  (unsigned long long)known->last.token,
                  cv__inquiry_wall_text(known->last.to_wall_ns, since), known->last.why);
    }
}

struct listing {
    const struct cv_store_kind *kind;
    const char *address;
    bool is_json;
    int status;
    uint32_t count;          /* of elections that were found */
    bool is_one;             /* its name was given */
    bool is_silent;          /* the store does not answer any more, and is not asked again ... */
    uint32_t left_out_count; /* ... for these elections */
};

static void on_past(void *user, const struct cv_store_past *past)
{
    struct known *known = user;
    struct cv_store_past *latest = past->to_wall_ns != 0 ? &known->last : &known->open;
    if (past->token > latest->token) {
        *latest = *past;
    }
}

/* Nobody leads: then the latest leadership has ended, also if the next contender is still to record
 * that. */
static void close_open(struct known *known)
{
    struct cv_store_record *r = &known->inquiry.record;
    if (known->inquiry.verdict == CV_STORE_HELD || known->open.token <= known->last.token) {
        return;
    }
    const bool is_same = known->open.token == r->token;
    const enum cv_reason why = is_same && r->ended != CV_REASON_STARTED ? r->ended : CV_REASON_GONE;
    if (known->open.token > r->token) { /* it ended before the store had a note of it */
        r->token = known->open.token;
        r->ended = why;
    }
    known->last = known->open;
    known->last.to_wall_ns = is_same ? r->ended_wall_ns : 0;
    (void)snprintf(known->last.why, sizeof known->last.why, "%s", cv_reason_name(why));
}

/* The store may know a later end than the trail of this machine, or the reason of the same end. On
 * the leader's machine, the trail may know a reason that the store does not. */
static void hear_end(struct known *known)
{
    struct cv_store_record *r = &known->inquiry.record;
    struct cv_store_past *last = &known->last;
    const bool is_gone = strcmp(last->why, cv_reason_name(CV_REASON_GONE)) == 0;
    if (r->last.token > last->token ||
        (r->last.token == last->token && last->token != 0 && is_gone)) {
        const bool is_same = r->last.token == last->token;
        *last = (struct cv_store_past){.token = r->last.token,
                                       .to_wall_ns = r->last.wall_ns != 0 ? r->last.wall_ns
                                                     : is_same            ? last->to_wall_ns
                                                                          : 0};
        (void)snprintf(last->node, sizeof last->node, "%s", r->last.node);
        (void)snprintf(last->why, sizeof last->why, "%s", cv_reason_name(r->last.why));
    } else if (last->token != 0 && last->token == r->token && r->ended == CV_REASON_GONE) {
        r->ended = cv__reason_find(last->why);
    }
}

static void show_unreachable(const struct listing *listing, const char *name, const char *why)
{
    struct cv_json json = {.out = stdout};
    if (listing->is_json) { /* programs that read this need it, too */
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "election", name);
        cv__json_text(&json, "trouble", why);
        cv__json_close(&json, '}');
        (void)printf("\n");
    }
}

/* If nobody takes part and nobody ever led, perhaps the user meant another election or file. */
static void doubt_name(const struct listing *listing, const struct known *known)
{
    char alike[CV_ALIKE_BYTES];
    if (known->inquiry.verdict == CV_STORE_HELD || known->inquiry.record.token != 0 ||
        known->last.token != 0 || known->waiting->count != 0) {
        return;
    }
    const char *absent = cv__inquiry_absent_file(listing->kind, listing->address);
    if (absent != NULL) {
        cv__complain("%s: the file '%s' does not exist yet", known->name, absent);
    } else if (cv__inquire_alike(listing->kind, listing->address, known->name, alike)[0] != '\0') {
        cv__complain("%s: the store has no such election%s", known->name, alike);
    }
}

/* A contender that got the leadership while it was stopped may still be listed as waiting. */
static void drop_leader(struct known *known)
{
    struct cv_store_list *waiting = known->waiting;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < waiting->count; i++) {
        if (known->inquiry.verdict != CV_STORE_HELD ||
            strcmp(waiting->entry[i].name, known->inquiry.record.node) != 0) {
            waiting->entry[kept++] = waiting->entry[i];
        }
    }
    waiting->count = kept;
}

static void show(void *user, const char *name)
{
    struct listing *listing = user;
    struct cv_errtext error;
    listing->count++;
    if (listing->is_silent) {
        show_unreachable(listing, name, "not asked, because the store does not answer any more");
        listing->left_out_count++;
        return;
    }
    const int64_t began_ns = cv__clock_now_ns();
    struct known known = {.name = name,
                          .hides_rest = listing->kind->hides_rest,
                          .waiting = calloc(1, sizeof *known.waiting)};
    if (known.waiting == NULL) {
        listing->status = cv__cannot("out of memory");
        return;
    }
    if (cv__inquire(listing->kind, listing->address, name, /* asks_to_resign= */ false, NULL,
                    &known.inquiry, &error) != CV_OK ||
        cv__inquire_list(listing->kind, listing->address, name, known.waiting, &error) != CV_OK) {
        show_unreachable(listing, name, error.text);
        listing->status = cv__cannot("%s%s%s", listing->is_one ? "" : name,
                                     listing->is_one ? "" : ": ", error.text);
        listing->is_silent = cv__inquiry_was_silent(began_ns);
        free(known.waiting);
        return;
    }
    if (cv__inquire_trail(listing->kind, listing->address, name, on_past, &known, &error) !=
        CV_OK) {
        known.last.token = known.open.token = 0; /* without a trail it is not known */
    }
    drop_leader(&known);
    hear_end(&known);
    close_open(&known);
    if (listing->is_json) {
        print_json(&known);
    } else {
        print_text(&known);
    }
    if (known.inquiry.verdict != CV_STORE_HELD && listing->status == EXIT_FINE) {
        listing->status = EXIT_NO;
    }
    if (listing->is_one) {
        doubt_name(listing, &known);
    }
    free(known.waiting);
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'}, {"json", no_argument, NULL, 'j'}, {0}};
    struct listing listing = {.status = EXIT_FINE};
    const char *via = NULL;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
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
        return cv__wrong_usage("status takes at most one election; '%s' is one too many",
                               argv[optind + 1]);
    }
    if (optind < argc && !cv__store_election_is_valid(argv[optind])) {
        return cv__wrong_usage("'%s' is not a valid name of an election", argv[optind]);
    }
    if (cv__cli_peers_is(cv__inquiry_via(via))) {
        return optind < argc
                   ? cv__cli_peers_status(cv__inquiry_via(via), argv[optind], listing.is_json)
                   : cv__wrong_usage(
                         "a cluster of peers cannot list its elections; give the name of one");
    }
    char *address;
    listing.kind = cv__inquiry_kind(via, &address);
    if (listing.kind == NULL) {
        return EXIT_USAGE;
    }
    listing.address = address;
    if (optind < argc) {
        listing.is_one = true;
        show(&listing, argv[optind]);
    } else {
        struct cv_errtext error;
        if (cv__inquire_names(listing.kind, address, show, &listing, &error) != CV_OK) {
            listing.status = cv__cannot("%s", error.text);
        } else if (listing.status == EXIT_NO) {
            listing.status = EXIT_FINE; /* a list is an answer, with or without a leader */
        }
        if (listing.left_out_count > 0) {
            cv__complain("%u more elections were not asked for, because the store does not answer "
                         "any more",
                         listing.left_out_count);
        }
        if (listing.status == EXIT_FINE && listing.count == 0) {
            const char *absent = cv__inquiry_absent_file(listing.kind, address);
            cv__complain(absent != NULL ? "no elections: the file '%s' does not exist yet"
                                        : "no elections in this store",
                         absent);
        }
    }
    free(address);
    return listing.status;
}

const struct cv_verb cv__verb_status = {
    .name = "status",
    .summary = "show who leads and who waits, in one election or in all",
    .help =
        "usage: conclave status [NAME] [--via ADDRESS] [--json]\n\n"
        "Prints who leads and since when, the fencing token and the rest of the lease, who waits\n"
        "and since when, and who led before and why that leadership ended. Facts that the store\n"
        "does not keep are left out. Without NAME, prints every election in the store.\n\n"
        "  --via ADDRESS  store or cluster of the election; default: $CONCLAVE_VIA, or a file\n"
        "                 of this user\n"
        "  --json         print one object for each election\n\n"
        "Exit status: 0 the election has a leader, 1 it has none, 2 wrong usage or no answer.\n",
    .run = run,
    .is_told = true,
};
