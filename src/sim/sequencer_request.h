/* src/sim/sequencer_request.h - requests to the sequencer; which node has a label or a number.
 *
 * Processes of an anonymous protocol name each other by labels that their hosts drew. The simulator
 * knows which node drew which label and was given which number, so that it can check that an
 * anonymous leader exists and owns its token. */
#ifndef CV_SIM_SEQUENCER_REQUEST_H
#define CV_SIM_SEQUENCER_REQUEST_H

#include "core/types.h"
#include "sim/rng.h"
#include "sim/sequencer.h"

struct sim_world;

/* A request to the sequencer, or its answer, in flight. */
struct sim_sequencer_request {
    cv_id node; /* next free one, while unused */
    uint64_t life, request, reference;
    int64_t asked_ns;
    struct sim_answer answer;
    bool is_repeat; /* answered before */
};

/* Identifies an anonymous process from outside: its label and its number. */
struct sim_known {
    uint64_t number, label; /* number CV_SEQUENCE_NONE: a life of the node has this label */
    cv_id node;
};

/* Only sequencer_request.c looks inside. */
struct sim_sequencer_requests {
    struct sim_rng rng;
    struct sim_sequencer_request *item;
    uint32_t count, capacity, free;
    uint32_t *waiting; /* answers that arrived while the node was paused */
    uint32_t waiting_count, waiting_capacity;
    struct sim_known *known;
    uint32_t known_count, known_capacity;
};

void sim_sequencer_requests_init(struct sim_sequencer_requests *requests, uint64_t seed,
                                 uint64_t stream);
void sim_sequencer_requests_fini(struct sim_sequencer_requests *requests);

void sim_sequencer_request_ask(struct sim_world *world, cv_id node, uint64_t request,
                               uint64_t reference);
/* A request has reached the sequencer; an answer has reached its node; a node woke up. */
void sim_sequencer_request_serve(struct sim_world *world, uint32_t request);
void sim_sequencer_request_answer(struct sim_world *world, uint32_t request);
/* The request or answer is lost; or arrives once more, which is another request. */
void sim_sequencer_request_lose(struct sim_world *world, uint32_t request, bool is_answer);
uint32_t sim_sequencer_request_repeat(struct sim_world *world, uint32_t request);
void sim_sequencer_request_wake(struct sim_world *world, cv_id node);

/* A life of this node has this label; or, with a number, was given it. */
void sim_known_add(struct sim_world *world, uint64_t number, uint64_t label, cv_id node);
/* The node that has that label and was given that number (CV_SEQUENCE_NONE: any); CV_ID_NONE:
 * none. */
cv_id sim_known_find(const struct sim_world *world, uint64_t number, uint64_t label);

#endif
