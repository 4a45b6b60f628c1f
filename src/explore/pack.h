/* src/explore/pack.h - worlds in few bytes, for those that wait to be looked at.
 *
 * Most words of a world are the same as at the beginning, and most others are small or instants
 * near to now. A packed world lists the words that differ from the beginning's: how many are
 * skipped, then the value. Typically a tenth of the world's size. */
#ifndef CV_EXPLORE_PACK_H
#define CV_EXPLORE_PACK_H

#include "explore/world.h"

/* Words of a world, at most; and an upper bound on the bytes of a packed one. */
uint32_t explore_words_max(const struct explore_model *model);
size_t explore_pack_bytes_max(const struct explore_model *model);

/* Places of the words that differ from those of the first world, in ret_place[words_max]. */
uint32_t explore_differences(const struct explore_model *model, const struct explore_world *first,
                             const struct explore_world *world, uint16_t *ret_place);

/* Of all that differs, and so of the whole world. */
uint64_t explore_hash(const struct explore_world *world, const uint16_t *place, uint32_t count);

size_t explore_pack(const struct explore_model *model, const struct explore_world *world,
                    const uint16_t *place, uint32_t count, uint8_t *ret_bytes);
void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, struct explore_world *ret_world);

#endif
