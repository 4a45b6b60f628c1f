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

#define EXPLORE_CHOICES_MAX 1024u

enum explore_act {
    EXPLORE_ACT_END, /* the actor does nothing more in this instant */
    EXPLORE_ACT_TIMER,
    EXPLORE_ACT_DELIVER,
    EXPLORE_ACT_OVERTAKE, /* deliver it before those sent before it */
    EXPLORE_ACT_DUPLICATE,
    EXPLORE_ACT_TIMER_CRASH, /* crash when the record is saved and nothing that follows has left */
    EXPLORE_ACT_DELIVER_CRASH,
    EXPLORE_ACT_TIMER_FAIL, /* its record cannot be saved, ... */
    EXPLORE_ACT_DELIVER_FAIL,
    EXPLORE_ACT_TIMER_FAIL_LATE, /* ... but is durable */
    EXPLORE_ACT_DELIVER_FAIL_LATE,
    EXPLORE_ACT_TIMER_SLOW, /* its record takes any time; meanwhile the node goes on */
    EXPLORE_ACT_DELIVER_SLOW,
    EXPLORE_ACT_SAVED,          /* such a record is durable, ... */
    EXPLORE_ACT_SAVED_CRASH,    /* ... but the node crashes before it learns that; ... */
    EXPLORE_ACT_SAVE_FAIL,      /* ... or it fails, ... */
    EXPLORE_ACT_SAVE_FAIL_LATE, /* ... and is durable */
    EXPLORE_ACT_LOSE,
    EXPLORE_ACT_DELAY,
    EXPLORE_ACT_FORGET, /* a late message never comes */
    EXPLORE_ACT_CRASH,
    EXPLORE_ACT_CRASH_WITNESSED, /* and its witness tells the others */
    EXPLORE_ACT_RECOVER,
    EXPLORE_ACT_REBOOT, /* recover, with a clock that has begun anew */
    EXPLORE_ACT_PAUSE,
    EXPLORE_ACT_WAKE,
    EXPLORE_ACT_RESIGN,
    EXPLORE_ACT_CUT,
    EXPLORE_ACT_CUT_FROM, /* what they send */
    EXPLORE_ACT_CUT_TO,   /* what is sent to them */
    EXPLORE_ACT_HEAL,
    EXPLORE_ACT_EXPIRE, /* the store notices that the record's time is over */
    EXPLORE_ACT_RESTART,
    EXPLORE_ACT_COUNT
};

struct explore_choice {
    uint8_t act;
    uint8_t node;
    uint8_t what; /* the timer, the message's index, the nodes of the second group, or how */
};

/* Lets time go on, if nothing may happen now, until something may; and, unless the same turn goes
 * on (model->has_turned), brings the world into its canonical form. False: nothing will ever
 * happen, or model->end says why this path ends, or it is not followed any further
 * (model->has_been_beyond). */
bool explore_settle(struct explore_model *model, struct explore_world *world);

/* What may happen in a world that has settled. Returns how many choices there are, at least one. */
uint32_t explore_choices(struct explore_model *model, struct explore_world *world,
                         struct explore_choice *ret_choice);

/* Does one of them. Why the path ends with it, if it does, is in model->end. False: it came to
 * nothing new, and the world is not to be looked at. */
bool explore_do(struct explore_model *model, struct explore_world *world,
                const struct explore_choice *choice);

#endif
