/* src/cli/run_settings.h - the command line of `conclave run`. */
#ifndef CV_CLI_RUN_SETTINGS_H
#define CV_CLI_RUN_SETTINGS_H

#include "cli/every.h"

#include <conclave/conclave.h>

struct cv_run_settings {
    const char *name, *via, *on_elected, *on_lost, *fifo, *cleanup;
    struct cv_election_options options;
    char node[CV_NODE_BYTES];
    int64_t grace_ns;   /* -1: not given */
    int64_t cleanup_ns; /* likewise; after cv__run_complete() 0 if there is no cleanup */
    int64_t wait_ns;    /* -1: for ever */
    uint64_t conflict;  /* exit status */
    struct cv_every_setting every;
    bool is_nonblocking, is_once, is_init, is_verbose, keeps_secrets, is_check, wants_help;
    char **command;
};

/* Fills in *s, which has the defaults. EXIT_FINE, or EXIT_USAGE after a complaint. */
int cv__run_parse(int argc, char **argv, struct cv_run_settings *s);

/* Fills in what follows from the options: times, the name of the node. Returns the same. */
int cv__run_complete(struct cv_run_settings *s);

/* Do grace and cleanup (0: there is none) leave time to renew? False: after a complaint. */
bool cv__run_may_renew(int64_t grace_ns, int64_t cleanup_ns, int64_t lease_ns, int64_t grant_ns);

/* --check: refuses what opening would refuse without asking a server. Returns the same. */
int cv__run_check(const struct cv_run_settings *s);

#endif
