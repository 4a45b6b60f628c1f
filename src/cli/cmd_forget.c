/* src/cli/cmd_forget.c - `conclave forget NAME`: removes what a store keeps of an election. */
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "os/clock.h"
#include "runtime/trail.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

/* Time enough for a question. */
#define PATIENCE_MS_MIN (CV_INQUIRY_MS / 5)

/* Asks whether there is an election with a similar name. If that fails, perhaps only this question
 * is not permitted: *ret_left_ms is left for the next one, 0 if the store does not answer. */
static int doubt_name(const struct cv_store_kind *kind, const char *address, const char *name,
                      int *ret_left_ms, struct cv_errtext *reterr)
{
    char alike[CV_ALIKE_BYTES];
    const int64_t begin_ns = cv__clock_now_ns();
    bool is_known;
    const int code = cv__inquire_similar(kind, address, name, alike, &is_known, reterr);
    const int64_t left_ms = CV_INQUIRY_MS - (cv__clock_now_ns() - begin_ns) / NS_PER_MS;
    *ret_left_ms = code == CV_OK ? CV_INQUIRY_MS : left_ms >= PATIENCE_MS_MIN ? (int)left_ms : 0;
    /* Perhaps a typing error. Stores without names() do not list every election that they know. */
    if (alike[0] != '\0' || (code == CV_OK && !is_known && kind->names != NULL)) {
        cv__complain("%s: the store has no such election%s", name, alike);
    }
    return code;
}

static int forget(const struct cv_store_kind *kind, const char *address, const char *name)
{
    struct cv_errtext error;
    bool is_held = false;
    int left_ms;
    int code = doubt_name(kind, address, name, &left_ms, &error);
    if (left_ms > 0) {
        code = cv__inquire_forget(kind, address, name, left_ms, &is_held, &error);
    }
    if (code != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    if (is_held) {
        cv__complain(
            "%s: it still has contenders; stop them first ('conclave status %s' lists them)", name,
            name);
        return EXIT_NO;
    }
    if (kind->history == NULL && cv__trail_forget(address, name, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'}, {0}};
    const char *via = NULL;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        if (option != 'v') {
            return EXIT_USAGE;
        }
        via = optarg;
    }
    if (argc - optind != 1 || !cv__store_election_is_valid(argv[optind])) {
        return cv__wrong_usage("forget takes the name of one election");
    }
    char *address;
    const struct cv_store_kind *kind = cv__inquiry_kind(via, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    const int status = forget(kind, address, argv[optind]);
    free(address);
    return status;
}

const struct cv_verb cv__verb_forget = {
    .name = "forget",
    .summary = "remove a finished election and its history from a store",
    .help =
        "usage: conclave forget NAME [--via ADDRESS]\n\n"
        "Removes an election from the store: its record, its history and the recorded runs of its\n"
        "job ('conclave run --every'). Refused while a contender leads, or waits in a queue of "
        "the\n"
        "store. Tokens do not start again at 1: a later election with this name gets larger\n"
        "tokens, so resources go on refusing the old ones. A job that has already run in this\n"
        "period may run once more.\n\n"
        "  --via ADDRESS  store of the election; default: $CONCLAVE_VIA, or a file of this user\n\n"
        "Exit status: 0 removed, or it never existed; 1 refused; 2 wrong usage or no answer.\n",
    .run = run,
    .is_told = true,
};
