/* src/explore/describe.h - says in a trace what a choice is. */
#ifndef CV_EXPLORE_DESCRIBE_H
#define CV_EXPLORE_DESCRIBE_H

#include "explore/choices.h"

/* Nothing, if no path is replayed. The choice has not been done yet. */
void explore_describe(struct explore_model *model, const struct explore_choice *choice);

#endif
