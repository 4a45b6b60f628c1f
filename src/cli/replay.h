/* src/cli/replay.h - tries what `conclave explore` found in the simulator, and writes it. */
#ifndef CV_CLI_REPLAY_H
#define CV_CLI_REPLAY_H

#include "explore/search.h"

/* Writes the scenario, and the trace of its run; either path may be NULL. Uses the short form if
 * that ends in the same violation, otherwise the form by hand (explore/story.h). Returns the exit
 * status of a violation or, after a complaint, that of an error. */
CV_NODISCARD int cv__replay_write(struct explore_model *model, const struct explore_result *result,
                                  const char *scenario_path, const char *trace_path);

#endif
