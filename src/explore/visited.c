/* src/explore/visited.c - the worlds that were met; see visited.h. */
#include "explore/visited.h"

#include "base/memory.h"
#include "core/assert.h"

#include <stdlib.h>
#include <string.h>

/* Both halves of the product: each bit of the result depends on every bit of both. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t explore_hash(const void *bytes, size_t byte_count)
{
    CV_ASSERT(byte_count % 16 == 0 || byte_count % 8 == 0);
    const uint64_t *word = bytes;
    const size_t count = byte_count / sizeof *word;
    uint64_t a = UINT64_C(0xa0761d6478bd642f) ^ count;
    uint64_t b = UINT64_C(0xe7037ed1a0b428db);
    size_t i = 0;
    for (; i + 2 <= count; i += 2) { /* two lanes, so that one product need not wait for another */
        a = mix(a ^ word[i], UINT64_C(0x8ebc6af09c88c6e3)) + b;
        b = mix(b ^ word[i + 1], UINT64_C(0x589965cc75374cc3)) ^ a;
    }
    if (i < count) {
        a = mix(a ^ word[i], UINT64_C(0x1d8e4e27c47d124f)) + b;
    }
    return mix(a ^ UINT64_C(0xeb44accab455d165), b ^ UINT64_C(0x9e3779b97f4a7c15));
}

static void enter(struct explore_visited *v, uint32_t index)
{
    uint32_t at = (uint32_t)v->item[index].hash & (v->slot_count - 1);
    while (v->slot[at] != 0) {
        at = (at + 1) & (v->slot_count - 1);
    }
    v->slot[at] = index + 1;
}

static void grow(struct explore_visited *v)
{
    free(v->slot);
    v->slot_count = v->slot_count > 0 ? 2 * v->slot_count : 1u << 12;
    CV_ASSERT(v->slot_count != 0);
    v->slot = cv__allocate(v->slot_count, sizeof *v->slot);
    for (uint32_t i = 0; i < v->count; i++) {
        enter(v, i);
    }
}

bool explore_visited_add(struct explore_visited *v, uint64_t hash, uint32_t parent, uint32_t choice)
{
    if (v->count + v->count / 2 >= v->slot_count) {
        grow(v);
    }
    uint32_t at = (uint32_t)hash & (v->slot_count - 1);
    while (v->slot[at] != 0) {
        if (v->item[v->slot[at] - 1].hash == hash) {
            return false;
        }
        at = (at + 1) & (v->slot_count - 1);
    }
    v->item = cv__grow(v->item, &v->capacity, v->count, sizeof *v->item);
    v->item[v->count] = (struct explore_visit){hash, parent, choice};
    v->slot[at] = ++v->count;
    return true;
}

double explore_visited_miss(const struct explore_visited *v)
{
    return (double)v->count * (double)v->count / 36893488147419103232.0; /* 2^65 */
}

size_t explore_visited_bytes(const struct explore_visited *v)
{
    return v->capacity * sizeof *v->item + v->slot_count * sizeof *v->slot;
}

void explore_visited_fini(struct explore_visited *v)
{
    free(v->item);
    free(v->slot);
}
