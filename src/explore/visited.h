/* src/explore/visited.h - the worlds that were met, by 64 bits of their hash.
 *
 * A world whose hash was met before is taken for the world that was met: with N worlds, the
 * probability that any two of them share their 64 bits, so that one is missed, is below
 * N * N / 2^65 (explore_visited_miss()). For ten million worlds that is 3 in a million.
 *
 * Each world is known by the order in which it came, from 0. Beside its hash it has the world that
 * it was first reached from and by which choice: that is the way back to the beginning.
 * Memory: 16 bytes for each world and 4 to 8 for the table. */
#ifndef CV_EXPLORE_VISITED_H
#define CV_EXPLORE_VISITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct explore_visit {
    uint64_t hash;
    uint32_t parent;
    uint32_t choice;
};

struct explore_visited {
    struct explore_visit *item;
    uint32_t count, capacity;
    uint32_t *slot;      /* index of an item plus one; 0: empty */
    uint32_t slot_count; /* a power of two */
};

uint64_t explore_hash(const void *bytes, size_t byte_count);

/* True: this hash is new, and is the item `count - 1` now. */
bool explore_visited_add(struct explore_visited *visited, uint64_t hash, uint32_t parent,
                         uint32_t choice);
double explore_visited_miss(const struct explore_visited *visited);
size_t explore_visited_bytes(const struct explore_visited *visited);
void explore_visited_fini(struct explore_visited *visited);

#endif
