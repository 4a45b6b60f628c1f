/* src/sim/errand.h - nodes ask the store, and the store has news for them.
 *
 * A query is carried out when it reaches the store, and may do so long after the process that sent
 * it is gone. Answers and news reach the process that they are meant for, or nobody; a paused one
 * finds them when it wakes up. A store that is down answers half of the queries that it failed, and
 * the other half not at all. */
#ifndef CV_SIM_ERRAND_H
#define CV_SIM_ERRAND_H

#include "core/types.h"
#include "sim/store.h"

struct sim_world;

/* A query on its way, or its answer on its way back, or news. */
struct sim_errand {
    cv_id node; /* next free one, while unused */
    uint64_t life, request, boot;
    bool is_served; /* carried out: an answer is on its way; or news */
    int64_t asked_ns;
    struct sim_store_query query;
    struct sim_store_answer answer;
};

void sim_errand_ask(struct sim_world *world, cv_id node, const struct cv_effect *effect);
/* A query has reached the store, or an answer or news a node. */
void sim_errand_arrive(struct sim_world *world, uint32_t errand);
/* A node woke up, or is no more. */
void sim_errand_wake(struct sim_world *world, cv_id node);
/* The record may have run out. */
void sim_errand_expire(struct sim_world *world);
/* The store has changed: its clock, or it has restarted. */
void sim_errand_changed(struct sim_world *world, bool has_restarted);

#endif
