/* src/cli/main.c - `conclave VERB ...`: a table of verbs. */
#include "base/screen.h"
#include "cli/cli.h"

#include <conclave/conclave.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which a newcomer meets them. */
static const struct cv_verb *const verbs[] = {
    &cv__verb_run,       &cv__verb_elect,   &cv__verb_watch,       &cv__verb_status,
    &cv__verb_resign,    &cv__verb_history, &cv__verb_check_lease, &cv__verb_explain,
    &cv__verb_doctor,    &cv__verb_stores,  &cv__verb_store,       &cv__verb_forget,
    &cv__verb_protocols, &cv__verb_oracles, &cv__verb_sequencer,   &cv__verb_members,
    &cv__verb_report,    &cv__verb_keygen,  &cv__verb_sim,         &cv__verb_explore,
    &cv__verb_lab,       &cv__verb_play,
};

static void print_help(FILE *out)
{
    const uint32_t columns = cv__screen_limit();
    char line[200];
    cv__screen_print(out, columns,
                     "Conclave runs a command on exactly one of several processes or machines, and "
                     "shows who leads.\n\n"
                     "usage: conclave COMMAND [ARGUMENTS]\n\n");
    for (uint32_t i = 0; i < COUNT_OF(verbs); i++) {
        (void)snprintf(line, sizeof line, "  %-11s  %s\n", verbs[i]->name, verbs[i]->summary);
        cv__screen_print(out, columns, line);
    }
    cv__screen_print(
        out, columns,
        "\n"
        "'conclave COMMAND --help' explains one command, 'man conclave' explains all of them.\n"
        "Exit status: 0 success, 1 the answer is no, 2 wrong usage or bad input.\n");
}

static const struct cv_verb *verb_find(const char *name)
{
    for (uint32_t i = 0; i < COUNT_OF(verbs); i++) {
        if (strcmp(verbs[i]->name, name) == 0) {
            return verbs[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *known[COUNT_OF(verbs) + 2] = {0};
    if (name[0] == '-') {
        static const char *const options[] = {"--help", "--version", NULL};
        return cv__command_unknown("option", name, options);
    }
    for (uint32_t i = 0; i < COUNT_OF(verbs); i++) {
        known[i] = verbs[i]->name;
    }
    known[COUNT_OF(verbs)] = "help";
    return cv__command_unknown("command", name, known);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_help(argv[1]) || (strcmp(argv[1], "help") == 0 && argc == 2)) {
        print_help(stdout);
        return cv__command_flush(EXIT_FINE);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
        strcmp(argv[1], "version") == 0) {
        (void)printf("conclave %s\n", cv_version());
        return cv__command_flush(EXIT_FINE);
    }
    const bool asks_help = strcmp(argv[1], "help") == 0;
    if (asks_help && (is_help(argv[2]) || strcmp(argv[2], "help") == 0)) {
        print_help(stdout);
        return cv__command_flush(EXIT_FINE);
    }
    const struct cv_verb *verb = verb_find(asks_help ? argv[2] : argv[1]);
    if (verb == NULL) {
        return unknown_command(asks_help ? argv[2] : argv[1]);
    }
    const int help_end = verb->has_command && argc > 3 ? 3 : argc;
    for (int i = 2; i < help_end && strcmp(argv[i], "--") != 0; i++) {
        if (is_help(argv[i]) || asks_help) {
            cv__screen_print(stdout, cv__screen_limit(), verb->help);
            return cv__command_flush(EXIT_FINE);
        }
    }
    if (verb->is_told) {
        cv__screen_fold_output();
    }
    return cv__command_flush(verb->run(argc - 1, argv + 1));
}
