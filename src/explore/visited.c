/* src/explore/visited.c - the set of visited worlds; see visited.h. */
#include "explore/visited.h"

#include "base/memory.h"
#include "core/assert.h"

#include <stdlib.h>
#include <string.h>

void explore_visited_init(struct explore_visited *v, uint64_t bit_bytes)
{
    memset(v, 0, sizeof *v);
    for (uint32_t i = 0; i < EXPLORE_SHARDS; i++) {
        (void)pthread_mutex_init(&v->shard[i].lock, NULL); /* cannot fail for a default mutex */
    }
    uint64_t words = 1;
    while (bit_bytes > 0 && words * 2 * sizeof *v->bit <= bit_bytes) {
        words *= 2;
    }
    if (bit_bytes > 0) {
        v->bit = cv__allocate(words, sizeof *v->bit);
        v->bit_mask = words * 64 - 1;
    }
}

void explore_visited_fini(struct explore_visited *v)
{
    for (uint32_t i = 0; i < EXPLORE_SHARDS; i++) {
        free(v->shard[i].step);
        free(v->shard[i].hash);
        free(v->shard[i].slot);
        (void)pthread_mutex_destroy(&v->shard[i].lock);
    }
    free(v->bit);
}

/* The low bits choose the shard, the next bits the slot. */
static uint32_t place_of(const struct explore_shard *s, uint64_t hash)
{
    return (uint32_t)(hash >> EXPLORE_SHARD_BITS) & (s->slot_count - 1);
}

static void enter(struct explore_shard *s, uint32_t index)
{
    uint32_t at = place_of(s, s->hash[index]);
    while (s->slot[at] != 0) {
        at = (at + 1) & (s->slot_count - 1);
    }
    s->slot[at] = index + 1;
}

static void make_room(struct explore_shard *s)
{
    if (s->count + s->count / 2 < s->slot_count) {
        return;
    }
    free(s->slot);
    s->slot_count = s->slot_count > 0 ? 2 * s->slot_count : 1u << 8;
    CV_ASSERT(s->slot_count != 0);
    s->slot = cv__allocate(s->slot_count, sizeof *s->slot);
    for (uint32_t i = 0; i < s->count; i++) {
        enter(s, i);
    }
}

static bool is_known(const struct explore_shard *s, uint64_t hash)
{
    for (uint32_t at = place_of(s, hash); s->slot[at] != 0; at = (at + 1) & (s->slot_count - 1)) {
        if (s->hash[s->slot[at] - 1] == hash) {
            return true;
        }
    }
    return false;
}

/* Sets the three bits of a hash. True: all of them were set before. */
static bool are_bits_set(struct explore_visited *v, uint64_t hash)
{
    bool are_set = true;
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t bit = (hash >> (i * 11) ^ hash << (i * 17)) & v->bit_mask;
        const uint64_t mask = UINT64_C(1) << (bit & 63);
        are_set = (atomic_fetch_or(&v->bit[bit >> 6], mask) & mask) != 0 && are_set;
    }
    return are_set;
}

static void append_step(struct explore_shard *s, const struct explore_step *step)
{
    s->step = cv__grow(s->step, &s->step_capacity, s->count, sizeof *s->step);
    s->step[s->count++] = *step;
    CV_ASSERT(s->count < UINT32_MAX >> EXPLORE_SHARD_BITS);
}

static void append(struct explore_visited *v, struct explore_shard *s, uint64_t hash,
                   const struct explore_step *step)
{
    if (v->bit == NULL) {
        s->hash = cv__grow(s->hash, &s->hash_capacity, s->count, sizeof *s->hash);
        s->hash[s->count] = hash;
        enter(s, s->count);
    }
    append_step(s, step);
    (void)atomic_fetch_add(&v->count, 1);
}

bool explore_visited_add(struct explore_visited *v, uint64_t hash, uint32_t parent, uint32_t choice,
                         uint32_t *ret_id)
{
    const uint32_t shard = (uint32_t)hash & (EXPLORE_SHARDS - 1);
    struct explore_shard *s = &v->shard[shard];
    (void)pthread_mutex_lock(&s->lock);
    if (v->bit == NULL) {
        make_room(s);
    }
    const bool is_new = v->bit != NULL ? !are_bits_set(v, hash) : !is_known(s, hash);
    if (is_new) {
        *ret_id = s->count << EXPLORE_SHARD_BITS | shard;
        append(v, s, hash, &(struct explore_step){parent, choice});
    }
    (void)pthread_mutex_unlock(&s->lock);
    return is_new;
}

void explore_visited_restore(struct explore_visited *v, uint32_t shard, uint64_t hash,
                             const struct explore_step *step)
{
    CV_ASSERT(v->bit == NULL);
    make_room(&v->shard[shard]);
    append(v, &v->shard[shard], hash, step);
}

struct explore_step explore_visited_at(const struct explore_visited *v, uint32_t id)
{
    const struct explore_shard *s = &v->shard[id & (EXPLORE_SHARDS - 1)];
    CV_ASSERT(id >> EXPLORE_SHARD_BITS < s->count);
    return s->step[id >> EXPLORE_SHARD_BITS];
}

double explore_visited_miss(const struct explore_visited *v)
{
    const double count = (double)v->count;
    return v->bit != NULL ? 1 : count * count / 36893488147419103232.0; /* 2^65 */
}

size_t explore_visited_bytes(struct explore_visited *v)
{
    size_t bytes = v->bit != NULL ? (v->bit_mask + 1) / 8 : 0;
    for (uint32_t i = 0; i < EXPLORE_SHARDS; i++) {
        struct explore_shard *s = &v->shard[i];
        (void)pthread_mutex_lock(&s->lock);
        bytes += s->step_capacity * sizeof *s->step + s->hash_capacity * sizeof *s->hash +
                 s->slot_count * sizeof *s->slot;
        (void)pthread_mutex_unlock(&s->lock);
    }
    return bytes;
}
