/* src/cli/cli.h - what the subcommands share. Results go to stdout, words to stderr.
 *
 * Exit status: 0 fine, 1 the answer is no, 2 wrong usage or bad input. */
#ifndef CV_CLI_CLI_H
#define CV_CLI_CLI_H

#include "core/types.h"

enum { EXIT_FINE = 0, EXIT_NO = 1, EXIT_USAGE = 2 };

struct cv_verb {
    const char *name;
    const char *summary;
    const char *help; /* what --help prints */
    int (*run)(int argc, char **argv);
    bool has_command; /* its arguments end with a command, which has a --help of its own */
};

extern const struct cv_verb cv__verb_check_lease;
extern const struct cv_verb cv__verb_elect;
extern const struct cv_verb cv__verb_explain;
extern const struct cv_verb cv__verb_history;
extern const struct cv_verb cv__verb_keygen;
extern const struct cv_verb cv__verb_lab;
extern const struct cv_verb cv__verb_oracles;
extern const struct cv_verb cv__verb_protocols;
extern const struct cv_verb cv__verb_resign;
extern const struct cv_verb cv__verb_run;
extern const struct cv_verb cv__verb_sequencer;
extern const struct cv_verb cv__verb_sim;
extern const struct cv_verb cv__verb_status;
extern const struct cv_verb cv__verb_store;
extern const struct cv_verb cv__verb_stores;
extern const struct cv_verb cv__verb_watch;

/* `elect` where the address is multicast:... */
int cv__elect_multicast(int argc, char **argv);

/* The experiments of conclave lab. */
int cv__lab_anon(int argc, char **argv);
int cv__lab_classic(int argc, char **argv);
int cv__lab_local(int argc, char **argv);
int cv__lab_pole(int argc, char **argv);

/* "conclave: ..." and a newline on stderr; returns EXIT_USAGE. */
int cv__usage_error(const char *format, ...) CV_PRINTF(1, 2);

/* A whole number of an option; false and a message if it is none. */
bool cv__option_number(const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *ret_value);

/* What the last stdout writes came to: EXIT_FINE, or EXIT_USAGE and a message if the disk was full.
 */
int cv__flush_output(int status);

#endif
