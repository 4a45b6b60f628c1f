/* src/cli/cmd_report.c - `conclave report NAME`: tells a member the inputs of its score. */
#include "cli/cli.h"
#include "cli/inquiry.h"
#include "cli/peers.h"

#include <getopt.h>
#include <stdint.h>

static int run(int argc, char **argv)
{
    enum { FIRST = 256 }; /* options without a letter: FIRST + input */
    static const struct option longs[] = {
        {"via", required_argument, NULL, 'v'},
        {"node", required_argument, NULL, 'N'},
        {"site", required_argument, NULL, 'S'},
        {"history", required_argument, NULL, FIRST + CV_INPUT_HISTORY_LENGTH},
        {"request-rate", required_argument, NULL, FIRST + CV_INPUT_REQUEST_RATE},
        {"capacity", required_argument, NULL, FIRST + CV_INPUT_CAPACITY},
        {"load", required_argument, NULL, FIRST + CV_INPUT_LOAD},
        {0}};
    bool has_value[CV_INPUT_COUNT] = {false}, has_any = false;
    int64_t value[CV_INPUT_COUNT] = {0};
    const char *via = NULL, *node = NULL, *site = NULL;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        uint64_t number;
        if (option == 'v') {
            via = optarg;
        } else if (option == 'N') {
            node = optarg;
        } else if (option == 'S') {
            site = optarg;
        } else if (option >= FIRST && option < FIRST + (int)CV_INPUT_COUNT) {
            if (!cv__command_number("a report", optarg, 0, INT64_MAX / 2, &number)) {
                return EXIT_USAGE;
            }
            has_value[option - FIRST] = true;
            value[option - FIRST] = (int64_t)number;
            has_any = true;
        } else {
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !has_any) {
        return cv__wrong_usage(
            "report takes one election and at least one value, such as --load 5");
    }
    if (!cv__cli_peers_is(cv__inquiry_via(via))) {
        return cv__wrong_usage("only a cluster of peers elects by scores: use --via peers:FILE");
    }
    if (site != NULL) {
        bool has_other = node != NULL;
        for (uint32_t i = 0; i < CV_INPUT_COUNT; i++) {
            has_other = has_other || has_value[i] != (i == CV_INPUT_REQUEST_RATE);
        }
        return has_other
                   ? cv__wrong_usage("--site must be used with --request-rate and nothing else")
                   : cv__cli_peers_report_site(cv__inquiry_via(via), argv[optind], site,
                                               value[CV_INPUT_REQUEST_RATE]);
    }
    return cv__cli_peers_report(cv__inquiry_via(via), argv[optind], node, has_value, value);
}

const struct cv_verb cv__verb_report = {
    .name = "report",
    .summary = "tell a member the inputs of its score",
    .help =
        "usage: conclave report NAME [--via ADDRESS] [--node MEMBER] [OPTIONS]\n"
        "       conclave report NAME [--via ADDRESS] --site SITE --request-rate N\n\n"
        "Tells a member of a cluster the inputs of the score by which 'pole' elects; see "
        "'conclave\n"
        "oracles'. A value counts until the next report.\n\n"
        "  --via ADDRESS     peers:FILE; default: $CONCLAVE_VIA\n"
        "  --node MEMBER     which member; default: the one with an address of this host\n"
        "  --site SITE       the request rate is that of the whole site, and is divided among its\n"
        "                    members that answer\n"
        "  --history N       length of its history\n"
        "  --request-rate N  requests per second that arrive there\n"
        "  --capacity N      load that it could take\n"
        "  --load N          load that it has now\n\n"
        "Exit status: 0 the member has received it, 2 it does not answer, or wrong usage.\n",
    .run = run,
    .is_told = true,
};
