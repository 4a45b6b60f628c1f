/* src/cli/cmd_resign.c - `conclave resign NAME [--to NODE]`: asks the leader to hand over. */
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"
#include "core/duration.h"
#include "os/clock.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Until another leads, or nobody; the leader may need a while to stop its work. */
static int await_change(const struct cv_store_kind *kind, const char *address, const char *name,
                        uint64_t token, int64_t wait_ns)
{
    const int64_t until_ns = cv__clock_now_ns() + wait_ns;
    for (;;) {
        struct cv_inquiry inquiry;
        struct cv_errtext error;
        if (cv__inquire(kind, address, name, /* asks_to_resign= */ false, NULL, &inquiry, &error) !=
            CV_OK) {
            return cv__cannot("%s", error.text);
        }
        if (inquiry.verdict == CV_STORE_HELD && inquiry.record.token != token) {
            cv__print(stdout, "%s: %s leads now, token %llu\n", name, inquiry.record.node,
                      (unsigned long long)inquiry.record.token);
            return EXIT_FINE;
        }
        if (cv__clock_now_ns() >= until_ns) {
            if (inquiry.verdict != CV_STORE_HELD) {
                cv__print(stdout, "%s: nobody leads now\n", name);
                return EXIT_FINE;
            }
            cv__complain("%s: %s still leads", name, inquiry.record.node);
            return EXIT_NO;
        }
        const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
        (void)nanosleep(&pause, NULL); /* a shorter one only asks sooner */
    }
}

/* Then nothing has to be done, and the leader is left alone. */
static bool leads_already(const struct cv_store_kind *kind, const char *address, const char *name,
                          const char *heir)
{
    struct cv_inquiry inquiry;
    struct cv_errtext unused; /* the request that follows will say what is wrong */
    return cv__inquire(kind, address, name, /* asks_to_resign= */ false, NULL, &inquiry, &unused) ==
               CV_OK &&
           inquiry.verdict == CV_STORE_HELD && strcmp(inquiry.record.node, heir) == 0;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"via", required_argument, NULL, 'v'},
                                          {"to", required_argument, NULL, 't'},
                                          {"wait", required_argument, NULL, 'w'},
                                          {0}};
    const char *via = NULL, *heir = NULL;
    int64_t wait_ns = 10 * NS_PER_S;
    int option;
    while ((option = cv__next_option(argc, argv, "w:", longs)) != -1) {
        switch (option) {
        case 'v':
            via = optarg;
            break;
        case 't':
            heir = optarg;
            break;
        case 'w':
            if (!cv__option_time("--wait", optarg, &wait_ns)) {
                return EXIT_USAGE;
            }
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !cv__election_name_is_valid(argv[optind])) {
        return cv__wrong_usage("resign takes the name of one election");
    }
    if (heir != NULL && (strlen(heir) >= CV_NODE_BYTES || !cv__election_name_is_valid(heir))) {
        return cv__wrong_usage("'%s' cannot be the name of a node", heir);
    }
    const char *name = argv[optind];
    if (cv__peers_is(cv__via(via))) {
        return cv__peers_resign(cv__via(via), name, heir, wait_ns);
    }
    char *address;
    const struct cv_store_kind *kind = cv__inquiry_kind(via, &address);
    if (kind == NULL) {
        return EXIT_USAGE;
    }
    struct cv_inquiry inquiry;
    struct cv_errtext error;
    int status;
    if (heir != NULL && leads_already(kind, address, name, heir)) {
        (void)printf("%s: %s leads already\n", name, heir);
        status = EXIT_FINE;
    } else if (cv__inquire(kind, address, name, /* asks_to_resign= */ true, heir, &inquiry,
                           &error) != CV_OK) {
        status = cv__cannot("%s", error.text);
    } else if (inquiry.verdict == CV_STORE_FREE) {
        cv__complain("%s: nobody leads", name);
        status = EXIT_NO;
    } else {
        status = await_change(kind, address, name, inquiry.record.token, wait_ns);
    }
    free(address);
    return status;
}

const struct cv_verb cv__verb_resign = {
    .name = "resign",
    .summary = "ask the leader to hand over",
    .help =
        "usage: conclave resign NAME [--to NODE] [--wait TIME] [--via ADDRESS]\n\n"
        "Asks the leader of an election to stop its work and to resign, and waits until another\n"
        "leads. The leader stops its command first; nothing is taken from it by force.\n\n"
        "  --to NODE      in favour of this one, if it is a candidate\n"
        "  --wait TIME    how long to wait; default 10s\n"
        "  --via ADDRESS  where the election is held; default: CONCLAVE_VIA, or a file of this "
        "user\n\n"
        "Exit status: 0 handed over, 1 nobody leads or it still does, 2 wrong usage.\n",
    .run = run,
};
