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

/* Something under way from one end to another (SIM_NODE_SERVICE: the store or the sequencer). */
struct sim_under_way {
    uint32_t kind, ref; /* enum sim_event_kind, and what it is about */
    cv_id from, to;
    const struct cv_message_type *type; /* NULL: it has none */
    bool is_witness;

    /* Filled in when it begins to wait. */
    int64_t sent_ns;
    uint64_t number; /* as in struct sim_pick */
    bool is_late;
};

struct sim_manual {
    struct sim_under_way *item; /* what waits, in the order of sending */
    uint32_t count, capacity;
    struct sim_under_way *sent; /* all that was sent in the last instant, also what is gone */
    uint32_t sent_count, sent_capacity;
    uint64_t step_count; /* what the scenario let happen */
    uint64_t idle_count; /* what it could not, because there was nothing like that; ... */
    uint32_t idle_line;  /* ... the first of them */
};

void sim_manual_fini(struct sim_manual *manual);

/* It arrives at that instant; or waits, if the scenario is manual. */
void sim_under_way(struct sim_world *world, int64_t at_ns, const struct sim_under_way *what);

/* Does everything happen as soon as the protocol assumes? No message, answer or timer waits for
 * longer at somebody who could take it, and none is said to be late. */
bool sim_manual_is_prompt(const struct sim_world *world);

/* Takes out what waits and is about the store; returns what it was about, UINT32_MAX: nothing. */
uint32_t sim_manual_take_store(struct sim_world *world);

/* False: nothing like that waits, or is armed and due, at somebody who is up and not paused. */
bool sim_manual_fire(struct sim_world *world, cv_id node, uint32_t timer);
bool sim_manual_deliver(struct sim_world *world, const struct sim_pick *pick);
bool sim_manual_lose(struct sim_world *world, const struct sim_pick *pick);
bool sim_manual_delay(struct sim_world *world, const struct sim_pick *pick);

#endif
