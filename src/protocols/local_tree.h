/* src/protocols/local_tree.h - collects answers on their way to the leader [Fetzer99, fig. 28].
 *
 * With `collate=k` the answers to a leader's renewal travel up a tree with k children a node over
 * the request's alive set: the leader hears k messages instead of n-1. A process answers directly
 * if it is not in that set, if the candidate does not lead with its support yet, and for a while
 * after a request was repeated: then some answer was missing, and the path up the tree may be
 * broken. An inner node that does not hear its children in time passes on the answers that it
 * has. */
#ifndef CV_PROTOCOLS_LOCAL_TREE_H
#define CV_PROTOCOLS_LOCAL_TREE_H

#include "protocols/local_state.h"

/* Answers an ELECTION by way of the tree; false: this one must be answered directly. `floor`: the
 * token that the next request must exceed, or 0. */
bool cv__local_tree_answer(struct local *l, const struct cv_event *event, bool supports,
                           uint64_t floor, struct cv_effects *out);

/* A child's COLLATED for another process's request. */
void cv__local_tree_gather(struct local *l, const struct cv_event *event, struct cv_effects *out);

/* All children were heard, or their time is over. */
void cv__local_tree_pass_up(struct local *l, struct cv_effects *out);

#endif
