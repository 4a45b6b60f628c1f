/* src/explore/story.h - a path as a scenario that `conclave sim` replays.
 *
 * The simulator has the same cores, hosted by the same code. A path can be written in two ways:
 *
 * - Short: only its faults, each with its instant; timers and messages happen by themselves, and a
 *   link of the simulator takes a millisecond, which is a tick here. A loss becomes a link that is
 *   down while the message is sent. Not every path can be written like this, and some end
 *   differently, because the simulator chose another order within an instant. So the caller runs
 *   the scenario to check it.
 * - By hand (`manual`, docs/scenarios.md): every timer that fires and every message that arrives,
 *   is lost, late or repeated has its own line, in this order. Every path can be written like
 *   this. */
#ifndef CV_EXPLORE_STORY_H
#define CV_EXPLORE_STORY_H

#include "explore/search.h"

#include <stdio.h>

enum explore_story_kind { EXPLORE_STORY_SHORT, EXPLORE_STORY_BY_HAND };

/* Writes the scenario, which expects the property to break. CV_E_INVALID: the path cannot be
 * written in the short form; then nothing is written. */
CV_NODISCARD int explore_story(struct explore_model *model, const struct explore_result *result,
                               enum explore_story_kind kind, FILE *out, struct cv_errtext *reterr);

#endif
