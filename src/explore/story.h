/* src/explore/story.h - a path as a scenario that `conclave sim` replays.
 *
 * The simulator has the same cores, and links that take a millisecond, which is a tick here. So a
 * path whose faults are crashes, recoveries, pauses, partitions, resignations and losses, and whose
 * timers have no choice, can be written down: each fault with its instant. A loss becomes a link
 * that is down while the message is sent. Other paths cannot (late, repeated and overtaking
 * messages, a crash in the middle of a step, drift). */
#ifndef CV_EXPLORE_STORY_H
#define CV_EXPLORE_STORY_H

#include "explore/search.h"

#include <stdio.h>

/* Writes the scenario, which expects the property to break. CV_E_INVALID: the path has something
 * that no scenario can say; then nothing is written. */
CV_NODISCARD int explore_story(struct explore_model *model, const struct explore_result *result,
                               FILE *out, struct cv_errtext *reterr);

#endif
