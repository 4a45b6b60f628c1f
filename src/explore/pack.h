/* src/explore/pack.h - worlds in few bytes, for those that wait to be looked at.
 *
 * Most words of a world are the same as at the beginning, and most others are small or instants
 * near to now. A packed world lists the words that differ from the beginning's. Typically a tenth
 * of the world's size. Two worlds have the same packed bytes if they are the same: those are
 * hashed.
 *
 * A choice changes little: one node and the messages, unless time passes. So a world is packed
 * against the one that it came from, whose bytes are taken over for every part (the header, each
 * node) and message that is the same; and a world from which the next choice is tried gets those
 * parts back only that the last one has changed. Worlds that wait beside each other are similar,
 * too: one is unpacked over the other. */
#ifndef CV_EXPLORE_PACK_H
#define CV_EXPLORE_PACK_H

#include "explore/world.h"

/* So many bytes behind a packed world are read or written: there must be room for them. */
#define EXPLORE_PACK_SLACK 8u

/* A world and its packed bytes; NULL: there are none. */
struct explore_packed {
    const struct explore_world *world;
    const uint8_t *bytes;
};

/* An upper bound on the bytes of a packed world, with the room behind it. */
size_t explore_pack_bytes_max(const struct explore_model *model);

/* Returns the number of bytes. *ret_same: a bit for each part that is the same in `like`. */
size_t explore_pack(const struct explore_model *model, const struct explore_world *first,
                    const struct explore_world *world, const struct explore_packed *like,
                    uint8_t *ret_bytes, uint32_t *ret_same);
/* `was`: the packed bytes of what `world` contains, of which only the difference is unpacked; NULL:
 * that is not known. */
void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, const uint8_t *was, struct explore_world *world);
/* Copies the parts that are not the same, and the messages. */
void explore_unpack_parts(const struct explore_model *model, const struct explore_world *from,
                          uint32_t same, struct explore_world *to);

uint64_t explore_hash(const uint8_t *bytes, size_t count);

#endif
