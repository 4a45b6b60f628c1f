/* src/explore/turn.h - everything that an actor may do in its turn of one instant, as a single
 * step.
 *
 * In one instant a node may get several messages and timers, and all orders of them are tried; most
 * lead to the same world. The worlds in between are examined here and kept only during the turn: a
 * search keeps only the worlds in which a turn begins, a tenth to a third of all.
 *
 * This leaves nothing out. Every choice is tried and judged as before, in every order; worlds
 * within a turn that have the same bytes are examined once. They are not brought into their
 * canonical form first. This costs only time, if two of them would have the same form.
 *
 * A search refers to choices by numbers: in each turn the choices are tried in a fixed order, and
 * the number of a choice is the count of those before it. explore_turn_path() turns a number into
 * choices.
 *
 * Memory: the worlds of one turn. Each thread has its own. */
#ifndef CV_EXPLORE_TURN_H
#define CV_EXPLORE_TURN_H

#include "explore/choices.h"

/* A world within the turn, and how it was reached. */
struct explore_within {
    uint8_t *bytes; /* the parts that a turn may change: see turn.c */
    size_t capacity;
    uint64_t hash;
    uint32_t slot;   /* of its index in the hash table */
    uint32_t before; /* index of its predecessor plus one; 0: the world that the turn began in */
    uint32_t choice;
};

struct explore_turn {
    struct explore_within *within;
    uint32_t count, capacity;
    uint32_t *slot;                /* hash table: an index plus one; 0: empty */
    uint32_t slot_count;           /* a power of two */
    size_t node_at, node_bytes;    /* the bytes of the nodes that this turn may change */
    struct explore_world *at, *to; /* the world in which a choice is tried, and the result */
    bool is_whole;                 /* the other nodes in `to` are as at the beginning of the turn */
    uint32_t number;               /* of the choice being tried */
};

/* A choice has ended the turn: the resulting world is in turn->to, and has settled; or the path
 * ends with it, for the reason in model->end. */
typedef void explore_turn_end(void *context, struct explore_turn *turn);

void explore_turn_init(struct explore_turn *turn, const struct explore_model *model);
void explore_turn_fini(struct explore_turn *turn);

/* Tries all choices of a turn. Returns how many there were. */
uint32_t explore_turn_all(struct explore_turn *turn, struct explore_model *model,
                          const struct explore_world *from, explore_turn_end *end, void *context);

/* The choices that lead from the beginning of a turn to the end with that number, in their order,
 * appended to path[*count]; `world` becomes the resulting world, if the path goes on. */
void explore_turn_path(struct explore_turn *turn, struct explore_model *model,
                       struct explore_world *world, uint32_t number, uint32_t **path,
                       uint32_t *count, uint32_t *capacity);

#endif
