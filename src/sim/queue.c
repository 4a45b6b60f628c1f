/* src/sim/queue.c - what happens next: a heap of instants. */
#include "sim/queue.h"

#include "base/memory.h"
#include "core/assert.h"

#include <stdlib.h>

#define CHILDREN 4u

static __int128 key(const struct sim_queue_entry *e)
{
    return (__int128)((unsigned __int128)(uint64_t)e->at_ns << 64 | e->number);
}

/* Compared as one number of 128 bits, without a branch: a heap's branches cannot be predicted. */
static bool is_before(const struct sim_queue_entry *a, const struct sim_queue_entry *b)
{
    return key(a) < key(b);
}

void sim_queue_fini(struct sim_queue *queue)
{
    free(queue->entry);
}

void sim_queue_push(struct sim_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref)
{
    if (queue->count == queue->capacity) {
        queue->entry = cv__grow(queue->entry, &queue->capacity, queue->count, sizeof *queue->entry);
    }
    const struct sim_queue_entry entry = {at_ns, queue->number++, kind, ref};
    uint32_t at = queue->count++;
    while (at > 0) {
        const uint32_t parent = (at - 1) / CHILDREN;
        if (!is_before(&entry, &queue->entry[parent])) {
            break;
        }
        queue->entry[at] = queue->entry[parent];
        at = parent;
    }
    queue->entry[at] = entry;
}

/* The earliest of up to four entries from `first` on. Most nodes have four: two pairs, then one. */
static uint32_t least_child(const struct sim_queue_entry *entry, uint32_t first, uint32_t count)
{
    if (first + CHILDREN <= count) {
        const uint32_t left = first + is_before(&entry[first + 1], &entry[first]);
        const uint32_t right = first + 2 + is_before(&entry[first + 3], &entry[first + 2]);
        return is_before(&entry[right], &entry[left]) ? right : left;
    }
    uint32_t least = first;
    for (uint32_t child = first + 1; child < count; child++) {
        least = is_before(&entry[child], &entry[least]) ? child : least;
    }
    return least;
}

struct sim_queue_entry sim_queue_pop(struct sim_queue *queue)
{
    CV_ASSERT(queue->count > 0);
    struct sim_queue_entry *entry = queue->entry;
    const struct sim_queue_entry top = entry[0];
    const struct sim_queue_entry last = entry[--queue->count];
    const uint32_t count = queue->count;
    uint32_t at = 0;
    for (uint32_t first = 1; first < count; first = at * CHILDREN + 1) {
        const uint32_t least = least_child(entry, first, count);
        if (!is_before(&entry[least], &last)) {
            break;
        }
        entry[at] = entry[least];
        at = least;
    }
    entry[at] = last;
    return top;
}
