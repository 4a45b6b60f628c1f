/* src/sim/sequencer_request.h - nodes ask the sequencer; and who is behind a label and a number.
 *
 * Processes of an anonymous protocol name each other by labels that their hosts drew. The simulator
 * knows which node drew which label and was given which number, so that it can say of an anonymous
 * leader that it exists and that its token is its own. */
#ifndef CV_SIM_SEQUENCER_REQUEST_H
#define CV_SIM_SEQUENCER_REQUEST_H

#include "core/types.h"

struct sim_world;

void sim_sequencer_request_ask(struct sim_world *world, cv_id node, uint64_t request,
                               uint64_t reference);
/* A request has reached the sequencer; an answer the node that asked; a node woke up. */
void sim_sequencer_request_serve(struct sim_world *world, uint32_t request);
void sim_sequencer_request_answer(struct sim_world *world, uint32_t request);
void sim_sequencer_request_wake(struct sim_world *world, cv_id node);

/* A life of this node has this label; or, with a number, was given it. */
void sim_known_add(struct sim_world *world, uint64_t number, uint64_t label, cv_id node);
/* Who has that label and was given that number (CV_SEQUENCE_NONE: any); CV_ID_NONE: nobody. */
cv_id sim_known_find(const struct sim_world *world, uint64_t number, uint64_t label);

#endif
