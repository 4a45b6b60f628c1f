/* src/cli/replay.h - what `conclave explore` found, written down and tried out in the simulator. */
#ifndef CV_CLI_REPLAY_H
#define CV_CLI_REPLAY_H

#include "explore/search.h"

/* Writes the scenario, and the trace of its run; either path may be NULL. In short if that ends in
 * the same violation, otherwise by hand (explore/story.h). Returns the exit
 * status of a violation, or, after a message, that of an error. */
CV_NODISCARD int cv__replay_write(struct explore_model *model, const struct explore_result *result,
                                  const char *scenario_path, const char *trace_path);

#endif
