/* src/explore/visited.h - the set of visited worlds, by 64 bits of their hash.
 *
 * A world with a known hash is taken for the visited world: with N worlds, the probability that any
 * two of them share their 64 bits, so that one is missed, is below N * N / 2^65
 * (explore_visited_miss()). For ten million worlds that is 3 in a million.
 *
 * Each world has an id. Beside its hash the set keeps the world that it was first reached from, and
 * by which choice: this is the path back to the beginning.
 *
 * A bit-state set (bit_bytes > 0) keeps three bits of each world instead of its hash: it takes less
 * memory, but may miss an unknown number of worlds.
 *
 * Several threads may add at once: the set is in shards by hash, each with a lock. Memory: 16 bytes
 * for each world and 6 to 12 for the table; of a bit-state set 8, and the bits. */
#ifndef CV_EXPLORE_VISITED_H
#define CV_EXPLORE_VISITED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_SHARD_BITS 6u
#define EXPLORE_SHARDS (1u << EXPLORE_SHARD_BITS)
#define EXPLORE_NO_WORLD UINT32_MAX

/* How a world was first reached. */
struct explore_step {
    uint32_t parent; /* EXPLORE_NO_WORLD: it is the first */
    uint32_t choice;
};

struct explore_shard {
    pthread_mutex_t lock;
    struct explore_step *step;
    uint64_t *hash; /* NULL in a bit-state set */
    uint32_t count, step_capacity, hash_capacity;
    uint32_t *slot;      /* index of an item plus one; 0: empty */
    uint32_t slot_count; /* a power of two */
};

struct explore_visited {
    struct explore_shard shard[EXPLORE_SHARDS];
    _Atomic uint64_t count;
    _Atomic uint64_t *bit; /* NULL: whole hashes are kept */
    uint64_t bit_mask;
};

void explore_visited_init(struct explore_visited *visited, uint64_t bit_bytes);
void explore_visited_fini(struct explore_visited *visited);

/* True: this hash is new, and its id is in *ret_id. */
bool explore_visited_add(struct explore_visited *visited, uint64_t hash, uint32_t parent,
                         uint32_t choice, uint32_t *ret_id);
/* Not while another thread adds. */
struct explore_step explore_visited_at(const struct explore_visited *visited, uint32_t id);
/* Adds an item of a shard as it was; for a search that is resumed. */
void explore_visited_restore(struct explore_visited *visited, uint32_t shard, uint64_t hash,
                             const struct explore_step *step);

double explore_visited_miss(const struct explore_visited *visited);
size_t explore_visited_bytes(struct explore_visited *visited);

#endif
