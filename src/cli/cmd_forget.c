/* src/cli/cmd_forget.c - `conclave forget NAME`: removes what a store keeps of an election. */
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "runtime/trail.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static int forget(const struct cv_store_kind *kind, const char *address, const char *name)
{
    struct cv_errtext error;
    bool is_held;
    char alike[CV_ALIKE_BYTES];
    if (cv__inquire_alike(kind, address, name, alike)[0] != '\0') { /* a slip of the finger? */
        cv__complain("%s: nothing is known of it%s", name, alike);
    }
    if (cv__inquire_forget(kind, address, name, &is_held, &error) != CV_OK) {
        return cv__cannot("%s", error.text);
    }
    if (is_held) {
        cv__complain("%s: somebody takes part; end all contenders first ('conclave status %s' "
                     "names them)",
                     name, name);
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
    while ((option = cv__next_option(argc, argv, "", longs)) != -1) {
        if (option != 'v') {
            return EXIT_USAGE;
        }
        via = optarg;
    }
    if (argc - optind != 1 || !cv__election_name_is_valid(argv[optind])) {
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
    .summary = "remove what a store keeps of an election that is over",
    .help =
        "usage: conclave forget NAME [--via ADDRESS]\n\n"
        "Removes the record of an election, its history and what is known of the runs of its\n"
        "job ('conclave run --every'). Refused while somebody leads it, or waits in a queue of\n"
        "the store. Tokens do not start again at 1: a later election of the same name has larger "
        "ones,\n"
        "so what has refused an old token goes on refusing it. A job that has run in this "
        "period\n"
        "may run once more.\n\n"
        "  --via ADDRESS  where the election is held; default: CONCLAVE_VIA, or a file of this "
        "user\n\n"
        "Exit status: 0 it is gone, or was never there; 1 refused; 2 wrong usage or no "
        "answer.\n",
    .run = run,
    .is_told = true,
};
