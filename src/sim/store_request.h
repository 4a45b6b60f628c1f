/* src/sim/store_request.h - requests to the store, and its notifications.
 *
 * A request is carried out when it reaches the store, which may be long after its sender is gone.
 * Answers and notifications reach their receiver or are lost; a paused process finds them when it
 * wakes up. A store that is down answers half of the requests as failed, and does not answer the
 * others. */
#ifndef CV_SIM_STORE_REQUEST_H
#define CV_SIM_STORE_REQUEST_H

#include "core/types.h"
#include "sim/rng.h"
#include "sim/store.h"

struct sim_world;

/* A request to the store, its answer, or a notification, in flight. */
struct sim_store_request {
    cv_id node; /* next free one, while unused */
    uint64_t life, request, boot;
    bool is_served; /* carried out, and its answer is in flight; or a notification */
    bool is_repeat; /* carried out before: it gets no second answer */
    bool is_silent; /* its node is not told that it failed */
    int64_t asked_ns;
    struct cv_model_query query;
    struct cv_model_answer answer;
};

/* Only store_request.c looks inside. */
struct sim_store_requests {
    struct sim_rng rng;
    int64_t expiry_queued_ns; /* INT64_MAX: it is not */
    struct sim_store_request *item;
    uint32_t count, capacity, free;
    uint32_t *waiting; /* answers that arrived while the node was paused */
    uint32_t waiting_count, waiting_capacity;
};

void sim_store_requests_init(struct sim_store_requests *requests, uint64_t seed, uint64_t stream);
void sim_store_requests_fini(struct sim_store_requests *requests);

void sim_store_request_ask(struct sim_world *world, cv_id node, const struct cv_effect *effect);
/* A request has reached the store, or an answer or notification has reached its node. */
void sim_store_request_arrive(struct sim_world *world, uint32_t request);
/* It is lost; or arrives once more, which is another request. */
void sim_store_request_lose(struct sim_world *world, uint32_t request);
uint32_t sim_store_request_repeat(struct sim_world *world, uint32_t request);
/* A node woke up. */
void sim_store_request_wake(struct sim_world *world, cv_id node);
/* The record may have run out. */
void sim_store_request_expire(struct sim_world *world);
/* The store has changed: its clock, or it has restarted. */
void sim_store_request_changed(struct sim_world *world, const struct sim_store_change *change);

#endif
