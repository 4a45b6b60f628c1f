/* src/sim/manual.h - events in flight: they happen by themselves, or wait for the scenario.
 *
 * In a scenario with `manual`, no message and no answer arrives and no timer fires by itself: each
 * waits until an action lets it happen. So the scenario fixes the order of all events, even within
 * one instant. The exhaustive search writes its counterexamples in this form (explore/story.h).
 *
 * An entry is the same as in the queue, and is carried out by the same code. */
#ifndef CV_SIM_MANUAL_H
#define CV_SIM_MANUAL_H

#include "scenario/change.h"

struct sim_world;

/* A message, request or answer in flight between two ends (SIM_NODE_SERVICE: the store or the
 * sequencer). */
struct sim_under_way {
    uint32_t kind, ref; /* as in the queue: enum sim_event_kind and its reference */
    cv_id from, to;
    const struct cv_message_type *type; /* NULL: it has none */
    bool is_witness;

    /* Filled in when it begins to wait. */
    int64_t sent_ns;
    uint64_t number; /* as in struct sim_pick */
    bool is_late;
};

struct sim_manual {
    struct sim_under_way *item; /* waiting entries, in the order of sending */
    uint32_t count, capacity;
    struct sim_under_way *sent; /* all that was sent at the last instant, delivered or not */
    uint32_t sent_count, sent_capacity;
    uint64_t step_count; /* steps of the scenario that let something happen */
    uint64_t idle_count; /* steps that found nothing to do */
    uint32_t idle_line;  /* the line of the first of these */
};

void sim_manual_fini(struct sim_manual *manual);

/* Lets it arrive at that instant; or lets it wait, if the scenario is manual. */
void sim_under_way(struct sim_world *world, int64_t at_ns, const struct sim_under_way *what);

/* Does everything happen as soon as the protocol assumes? No message, answer or timer waits longer
 * for a node that could take it, and the scenario makes none late. */
bool sim_manual_is_prompt(const struct sim_world *world);

/* Takes out a waiting entry of the store and returns its reference; UINT32_MAX: there is none. */
uint32_t sim_manual_take_store(struct sim_world *world);

/* False: no such entry waits, or no such timer is armed and due, at a node that is up and not
 * paused. */
bool sim_manual_fire(struct sim_world *world, cv_id node, uint32_t timer);
bool sim_manual_deliver(struct sim_world *world, const struct sim_pick *pick);
bool sim_manual_lose(struct sim_world *world, const struct sim_pick *pick);
bool sim_manual_delay(struct sim_world *world, const struct sim_pick *pick);

#endif
