/* src/cli/cmd_check_lease.c - `conclave check-lease`: does the surrounding `conclave run` still
 * lead? */
#include "base/json.h"
#include "cli/cli.h"
#include "core/duration.h"
#include "os/clock.h"
#include "supervisor/lease_file.h"
#include "supervisor/supervisor.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_json(const struct cv_lease_page *page, const struct cv_lease_file_view *view,
                       int64_t remaining_ns, bool is_enough)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "election", page->election);
    cv__json_text(&json, "node", page->node);
    cv__json_uint(&json, "token", view->token);
    cv__json_bool(&json, "valid", is_enough);
    cv__json_seconds(&json, "remaining_s", remaining_ns);
    cv__json_close(&json, '}');
    (void)printf("\n");
}

/* Rounded down: it must not promise more time than there is. */
static int64_t whole_ms(int64_t ns)
{
    return ns - ns % NS_PER_MS;
}

static int check(const char *path, int64_t min_ns, bool is_json, bool is_quiet)
{
    struct cv_errtext error;
    const struct cv_lease_page *page;
    if (cv__lease_file_open(path, &page, &error) != CV_OK) {
        return cv__cannot("%s; 'conclave run' sets CONCLAVE_LEASE_FILE", error.text);
    }
    const int64_t now_ns = cv__clock_now_ns();
    const struct cv_lease_file_view view = cv__lease_file_read(page, now_ns);
    const int64_t remaining_ns = view.is_valid ? view.valid_until_ns - now_ns : 0;
    const bool is_enough = view.is_valid && remaining_ns >= min_ns;
    char text[CV_DURATION_TEXT_BYTES], least[CV_DURATION_TEXT_BYTES];
    if (is_json) {
        print_json(page, &view, remaining_ns, is_enough);
    } else if (!is_quiet && view.is_valid) {
        (void)printf("leading for %s with token %" PRIu64 "%s%s\n",
                     cv__duration_format(whole_ms(remaining_ns), text), view.token,
                     is_enough ? "" : ", which is less than ",
                     is_enough ? "" : cv__duration_format(min_ns, least));
    } else if (!is_quiet) {
        (void)printf("not leading\n");
    }
    cv__lease_file_close(page);
    return is_enough ? EXIT_FINE : EXIT_NO;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
                                          {"min", required_argument, NULL, 'm'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {0}};
    bool is_json = false;
    bool is_quiet = false;
    int64_t min_ns = 0;
    int option;
    while ((option = cv__command_option(argc, argv, "q", longs)) != -1) {
        switch (option) {
        case 'j':
            is_json = true;
            break;
        case 'q':
            is_quiet = true;
            break;
        case 'm':
            if (!cv__command_time("--min", optarg, &min_ns)) {
                return EXIT_USAGE;
            }
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        return cv__wrong_usage("check-lease takes no argument: '%s'", argv[optind]);
    }
    const char *path = getenv("CONCLAVE_LEASE_FILE");
    if (path == NULL || path[0] == '\0') {
        return cv__cannot("not started by 'conclave run': CONCLAVE_LEASE_FILE is not set");
    }
    return check(path, min_ns, is_json, is_quiet);
}

const struct cv_verb cv__verb_check_lease = {
    .name = "check-lease",
    .summary = "for scripts: check that the leadership of 'conclave run' is valid",
    .help =
        "usage: conclave check-lease [--min TIME] [--json] [-q]\n\n"
        "For the command that 'conclave run' started, and its children. Prints the token and how\n"
        "long the leadership is still valid.\n\n"
        "  --min TIME   also fail (status 1) if less than TIME is left, such as 2s\n"
        "  --json       print one object\n"
        "  -q, --quiet  print nothing; only set the exit status\n\n"
        "Exit status: 0 valid, 1 not valid, 2 wrong usage or not started by 'conclave run'.\n",
    .run = run,
    .is_told = true,
};
