/* src/cli/cmd_oracles.c - `conclave oracles [--json]`: the scores that `pole` can elect by. */
#include "base/json.h"
#include "cli/cli.h"
#include "oracles/oracle.h"

#include <getopt.h>
#include <stdio.h>

static const char *order_word(const struct cv_oracle *oracle)
{
    return oracle->order == CV_SCORE_HIGHER_WINS ? "higher" : "lower";
}

static void print_json(void)
{
    struct cv_json json = {.out = stdout};
    const struct cv_oracle *oracle;
    cv__json_open(&json, NULL, '[');
    for (uint32_t i = 0; (oracle = cv_oracle_at(i)) != NULL; i++) {
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "name", oracle->name);
        cv__json_text(&json, "formula", oracle->formula);
        cv__json_text(&json, "inputs", oracle->inputs);
        cv__json_text(&json, "use", oracle->use);
        cv__json_text(&json, "wins", order_word(oracle));
        cv__json_text(&json, "unit", oracle->is_time ? "time" : "number");
        cv__json_bool(&json, "needs_peers", oracle->needs_peers);
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    (void)printf("\n");
}

static void print_text(void)
{
    const struct cv_oracle *oracle;
    for (uint32_t i = 0; (oracle = cv_oracle_at(i)) != NULL; i++) {
        (void)printf("%s\n  score:  %s\n  inputs: %s\n  for:    %s\n", oracle->name,
                     oracle->formula, oracle->inputs, oracle->use);
    }
    (void)printf(
        "\n"
        "A protocol that elects by scores takes one score, or several, the most important first:\n"
        "  protocol pole oracle=latency\n"
        "  protocol pole oracle=latency/10ms,history\n"
        "The second line treats latencies within the same 10 ms as equal, and among those elects\n"
        "the node with the longest history. No score serves all goals: the fastest leader is not\n"
        "always the one that recovers soonest.\n");
}

static int run(int argc, char **argv)
{
    bool is_json;
    if (!cv__command_json(argc, argv, &is_json)) {
        return EXIT_USAGE;
    }
    if (optind < argc) {
        return cv__wrong_usage("oracles takes no argument, not '%s'", argv[optind]);
    }
    if (is_json) {
        print_json();
    } else {
        print_text();
    }
    return EXIT_FINE;
}

const struct cv_verb cv__verb_oracles = {
    .name = "oracles",
    .summary = "list the scores by which a leader can be elected",
    .help = "usage: conclave oracles [--json]\n\n"
            "Lists the scores by which the protocol 'pole' can elect: formula, inputs, and when to "
            "use\n"
            "each.\n\n"
            "  --json    print a list of objects\n",
    .run = run,
    .is_told = true,
};
