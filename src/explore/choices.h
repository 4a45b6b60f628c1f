/* src/explore/choices.h - lists what may happen next in a world, and does it.
 *
 * In one instant the environment acts first, then the nodes in the order of their ids, then a store
 * or sequencer. A message takes at least a tick, so no action of a node reaches another node in the
 * same instant: every other order of the nodes leads to the same worlds, and one order is enough. A
 * node's own events (timers that may fire, messages that may arrive) are tried in every order.
 *
 * An event that must happen in this instant (a timer at the end of its range, a message at the end
 * of its delay) happens before time goes on, unless the budget pays for a delay. */
#ifndef CV_EXPLORE_CHOICES_H
#define CV_EXPLORE_CHOICES_H

#include "explore/world.h"

#define EXPLORE_CHOICES_MAX 2048u

enum explore_act {
    EXPLORE_ACT_END, /* the actor does nothing more in this instant */
    EXPLORE_ACT_TIMER,
    EXPLORE_ACT_DELIVER,
    EXPLORE_ACT_OVERTAKE,       /* deliver it before those sent before it */
    EXPLORE_ACT_DUPLICATE,      /* deliver it, and keep it to arrive again */
    EXPLORE_ACT_OVERTAKE_TWICE, /* both */
    EXPLORE_ACT_SAVED,          /* a slow record is durable */
    EXPLORE_ACT_SAVED_CRASH,    /* it is durable, but the node crashes before it learns that */
    EXPLORE_ACT_SAVE_FAIL,      /* it fails */
    EXPLORE_ACT_SAVE_FAIL_LATE, /* the node learns that it failed, but it is durable */
    EXPLORE_ACT_LOSE,
    EXPLORE_ACT_MISS, /* it reaches a node that is down */
    EXPLORE_ACT_DELAY,
    EXPLORE_ACT_FORGET, /* a late message never comes */
    EXPLORE_ACT_CRASH,
    EXPLORE_ACT_CRASH_WITNESSED, /* and its witness tells the others */
    EXPLORE_ACT_RECOVER,
    EXPLORE_ACT_REBOOT, /* recover, with a clock that has started again */
    EXPLORE_ACT_PAUSE,
    EXPLORE_ACT_WAKE,
    EXPLORE_ACT_RESIGN,
    EXPLORE_ACT_CUT,
    EXPLORE_ACT_CUT_FROM, /* only what the group sends */
    EXPLORE_ACT_CUT_TO,   /* only what is sent to the group */
    EXPLORE_ACT_HEAL,
    EXPLORE_ACT_EXPIRE, /* the store notices that the record's time is over */
    EXPLORE_ACT_RESTART,
    EXPLORE_ACT_COUNT
};

/* What becomes of the record that a step saves; after a timer or a message. */
enum explore_record {
    EXPLORE_RECORD_SAVED,
    EXPLORE_RECORD_CRASH,     /* the node crashes when it is saved, before any later effect */
    EXPLORE_RECORD_FAIL,      /* it cannot be saved, ... */
    EXPLORE_RECORD_FAIL_LATE, /* ... but is durable */
    EXPLORE_RECORD_SLOW,      /* saving it takes any time; meanwhile the node goes on */
    EXPLORE_RECORD_COUNT
};

struct explore_choice {
    uint8_t act;
    uint8_t node;
    uint8_t record; /* enum explore_record */
    /* the timer, the message's index, the nodes of the second group, or how to restart */
    uint8_t what;
};

/* If nothing may happen now, lets time pass until something may. If the turn is over
 * (model->has_turned), brings the world into its canonical form. False: nothing will ever happen,
 * or the path ends (model->end has the reason), or it is not followed any further
 * (model->has_been_beyond). */
bool explore_settle(struct explore_model *model, struct explore_world *world);

/* What may happen in a world that has settled. Returns how many choices there are, at least one. */
uint32_t explore_choices(struct explore_model *model, struct explore_world *world,
                         struct explore_choice *ret_choice);

/* Has the actor whose turn it is something to do? */
bool explore_has_choice(struct explore_model *model, struct explore_world *world);

/* Does one of them. If the path ends with it, model->end has the reason. False: it led to nothing
 * new, and the world must not be used. */
bool explore_do(struct explore_model *model, struct explore_world *world,
                const struct explore_choice *choice);

#endif
