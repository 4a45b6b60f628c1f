/* src/cli/cli.h - what the subcommands share. */
#ifndef CV_CLI_CLI_H
#define CV_CLI_CLI_H

#include "base/command.h"

struct cv_verb {
    const char *name;
    const char *summary;
    const char *help; /* what --help prints */
    int (*run)(int argc, char **argv);
    bool has_command; /* its arguments end with a command, which has a --help of its own */
    bool is_told;     /* prints sentences and lists: lines are folded on a narrow screen */
};

extern const struct cv_verb cv__verb_check_lease;
extern const struct cv_verb cv__verb_doctor;
extern const struct cv_verb cv__verb_elect;
extern const struct cv_verb cv__verb_explain;
extern const struct cv_verb cv__verb_forget;
extern const struct cv_verb cv__verb_explore;
extern const struct cv_verb cv__verb_history;
extern const struct cv_verb cv__verb_keygen;
extern const struct cv_verb cv__verb_lab;
extern const struct cv_verb cv__verb_members;
extern const struct cv_verb cv__verb_oracles;
extern const struct cv_verb cv__verb_play;
extern const struct cv_verb cv__verb_protocols;
extern const struct cv_verb cv__verb_report;
extern const struct cv_verb cv__verb_resign;
extern const struct cv_verb cv__verb_run;
extern const struct cv_verb cv__verb_sequencer;
extern const struct cv_verb cv__verb_sim;
extern const struct cv_verb cv__verb_status;
extern const struct cv_verb cv__verb_store;
extern const struct cv_verb cv__verb_stores;
extern const struct cv_verb cv__verb_watch;

/* Complains about an unknown protocol, suggests the nearest name or lists all. Returns
 * EXIT_USAGE. */
int cv__cli_unknown_protocol(const char *name);

#endif
