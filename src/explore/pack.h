/* src/explore/pack.h - worlds in few bytes, for those that wait to be looked at.
 *
 * Most words of a world are the same as at the beginning, and most others are small or instants
 * near to now. A packed world lists the words that differ from the beginning's: how many are
 * skipped, then the value. Typically a tenth of the world's size. */
#ifndef CV_EXPLORE_PACK_H
#define CV_EXPLORE_PACK_H

#include "explore/world.h"

/* An upper bound on the bytes of one. */
size_t explore_pack_bytes_max(const struct explore_model *model);

size_t explore_pack(const struct explore_model *model, const struct explore_world *first,
                    const struct explore_world *world, uint8_t *ret_bytes);
void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, struct explore_world *ret_world);

/* Packed worlds in the order in which they came. */
struct explore_fifo {
    struct explore_chunk *first, *last;
    uint64_t count, bytes;
};

void explore_fifo_push(struct explore_fifo *fifo, uint32_t id, const uint8_t *bytes, size_t count);
/* False: it is empty. */
bool explore_fifo_pop(struct explore_fifo *fifo, uint32_t *ret_id, uint8_t *ret_bytes);
void explore_fifo_fini(struct explore_fifo *fifo);

#endif
