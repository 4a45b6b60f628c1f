/* src/explore/disk.h - a disk that takes time, with the effects that wait for it.
 *
 * With the budget `slow`, saving a record may take any time, while the node goes on. The gate
 * (host/gate.h) is a part of the node. Effects that wait at it are a part of the world too: the
 * slots of its queue follow the core of each node, and a waiting message is among those in flight,
 * marked with its slot (struct explore_message, `deferred`). So it is moved in time and made
 * canonical like any other. */
#ifndef CV_EXPLORE_DISK_H
#define CV_EXPLORE_DISK_H

#include "explore/world.h"

/* A message that a step has issued, until it is sent, deferred or dropped; or the members of a
 * leadership. */
struct explore_kept {
    struct cv_message message;
    uint64_t word[CV_LISTS_MAX];
    bool are_members;
};

/* Is a record of this node being saved? */
static inline bool explore_disk_is_busy(const struct explore_node *n)
{
    return n->host.gate.is_saving;
}

/* Adds the effects that a step has deferred to the world. */
void explore_disk_defer(struct explore_model *model, uint32_t node);

/* The entry with that index of the host (gate.h): of this step, or deferred. Lent until the next
 * message is added or removed. */
const struct explore_kept *explore_disk_kept(struct explore_model *model, uint32_t kept);
void explore_disk_drop(struct explore_model *model, uint32_t kept);

/* The record being saved is durable. */
void explore_disk_write(struct explore_model *model, uint32_t node);
/* Tells the node that the record is durable, or that it cannot be saved. */
void explore_disk_end(struct explore_model *model, uint32_t node, bool is_saved);

/* Time has passed; the clock of a node has jumped; brings the disk into its canonical form. */
void explore_disk_move(const struct explore_model *model, struct explore_node *n,
                       void (*move)(const void *context, uint64_t *word, size_t count),
                       const void *context);
void explore_disk_canonical(const struct explore_model *model, struct explore_node *n);

#endif
