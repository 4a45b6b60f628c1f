/* src/sim/query.h - nodes ask the sequencer; and who is behind a label and a number.
 *
 * Processes of an anonymous protocol name each other by labels that their hosts drew. The simulator
 * knows which node drew which label and was given which number, so that it can say of an anonymous
 * leader that it exists and that its token is its own. */
#ifndef CV_SIM_QUERY_H
#define CV_SIM_QUERY_H

#include "core/types.h"

struct sim_world;

void sim_query_ask(struct sim_world *world, cv_id node, uint64_t request, uint64_t reference);
/* A query has reached the sequencer; an answer the node that asked; a node woke up. */
void sim_query_serve(struct sim_world *world, uint32_t query);
void sim_query_answer(struct sim_world *world, uint32_t query);
void sim_query_wake(struct sim_world *world, cv_id node);

/* A life of this node has this label; or, with a number, was given it. */
void sim_query_know(struct sim_world *world, uint64_t number, uint64_t label, cv_id node);
/* Who has that label and was given that number (CV_SEQUENCE_NONE: any); CV_ID_NONE: nobody. */
cv_id sim_query_find(const struct sim_world *world, uint64_t number, uint64_t label);

#endif
