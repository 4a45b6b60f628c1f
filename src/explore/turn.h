/* src/explore/turn.h - all that an actor may do in its turn of one instant, as a single step.
 *
 * In one instant a node gets several messages and alarms, and all orders of them are tried: most
 * lead to the same world. What lies in between is looked at here, and is kept no longer than the
 * turn: a search keeps the worlds in which a turn begins, which are a tenth to a third of all.
 *
 * Nothing is left out by that. Every choice is tried and judged as before, in every order; worlds
 * within a turn that have the same bytes are looked at once. That they are not brought into their
 * canonical form first costs time, when two of them would then be the same, and nothing else.
 *
 * A search names what it found by numbers: in each turn the choices are tried in a fixed order,
 * and each has the number of those before it. explore_turn_path() turns a number into choices.
 *
 * Memory: the worlds of a turn, freed with the last. Each thread has its own. */
#ifndef CV_EXPLORE_TURN_H
#define CV_EXPLORE_TURN_H

#include "explore/choices.h"

/* A world within the turn, and how it was reached. */
struct explore_within {
    uint8_t *bytes; /* of what may differ from the beginning of the turn: see turn.c */
    size_t capacity;
    uint64_t hash;
    uint32_t slot;   /* where its index is entered */
    uint32_t before; /* index of the one before it plus one; 0: the world that the turn began in */
    uint8_t choice;
};

struct explore_turn {
    struct explore_within *within;
    uint32_t count, capacity;
    uint32_t *slot;                /* of the hashes: an index plus one; 0: empty */
    uint32_t slot_count;           /* a power of two */
    size_t node_at, node_bytes;    /* those of the nodes that this turn may change */
    struct explore_world *at, *to; /* where a choice is tried, and what came of it */
    bool is_whole;                 /* in `to`, too, the other nodes are as at the beginning */
    uint32_t number;               /* of the choice that is tried */
};

/* A choice has ended the turn: what came of it is in turn->to, and has settled; or the path ends
 * with it, as model->end says. */
typedef void explore_turn_end(void *context, struct explore_turn *turn);

void explore_turn_init(struct explore_turn *turn, const struct explore_model *model);
void explore_turn_fini(struct explore_turn *turn);

/* Tries all. Returns how many choices there were. */
uint32_t explore_turn_all(struct explore_turn *turn, struct explore_model *model,
                          const struct explore_world *from, explore_turn_end *end, void *context);

/* The choices that lead from the beginning of a turn to the end with that number, in their order,
 * appended to path[*count]; `world` becomes what came of it, if the path goes on there. */
void explore_turn_path(struct explore_turn *turn, struct explore_model *model,
                       struct explore_world *world, uint32_t number, uint32_t **path,
                       uint32_t *count, uint32_t *capacity);

#endif
