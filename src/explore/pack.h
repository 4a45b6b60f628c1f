/* src/explore/pack.h - packs waiting worlds into few bytes.
 *
 * Most words of a world are the same as at the beginning, and most others are small or instants
 * near to now. A packed world lists the words that differ from the beginning, typically a tenth of
 * the world's size. Equal worlds have equal packed bytes; these are hashed.
 *
 * A turn changes little: one node and the messages, unless time passes. So a world is packed
 * against its predecessor: the bytes of every unchanged part (the header, each node) and message
 * are copied. Neighbouring worlds in the queue are similar too: one is unpacked over the other. */
#ifndef CV_EXPLORE_PACK_H
#define CV_EXPLORE_PACK_H

#include "explore/world.h"

/* So many bytes after a packed world may be read or written: there must be room for them. */
#define EXPLORE_PACK_SLACK 8u

/* A world and its packed bytes; NULL: there are none. */
struct explore_packed {
    const struct explore_world *world;
    const uint8_t *bytes;
};

/* An upper bound on the bytes of a packed world, with EXPLORE_PACK_SLACK. */
size_t explore_pack_bytes_max(const struct explore_model *model);

/* Returns the number of bytes. `like`: the world that it came from, or nothing. */
size_t explore_pack(const struct explore_model *model, const struct explore_world *first,
                    const struct explore_world *world, const struct explore_packed *like,
                    uint8_t *ret_bytes);
/* `was`: the packed bytes of the present contents of `world`, so that only the difference is
 * unpacked; NULL: not known. */
void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, const uint8_t *was, struct explore_world *world);

uint64_t explore_hash(const uint8_t *bytes, size_t count);
/* The hash of a word at its place. */
uint64_t explore_hash_word(uint64_t word, uint64_t place);

#endif
