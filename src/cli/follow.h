/* src/cli/follow.h - `elect` and `watch`: one line for each change, until interrupted. */
#ifndef CV_CLI_FOLLOW_H
#define CV_CLI_FOLLOW_H

#include "core/types.h"

#include <conclave/conclave.h>
#include <signal.h>

/* For cv_election_options.log: prints what the status does not show. */
void cv__follow_notice(void *unused, enum cv_log_level level, const char *line);

/* Blocks the signals that end a command, so that a signalfd or sigtimedwait() receives them. */
void cv__follow_block_ends(sigset_t *ret_ends);

/* Runs the command; `is_observer`: only watch. Returns the exit status. */
int cv__follow(int argc, char **argv, bool is_observer);

#endif
