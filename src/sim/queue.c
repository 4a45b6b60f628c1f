/* src/sim/queue.c - what happens next: a heap of instants. */
#include "sim/queue.h"

#include "base/memory.h"
#include "core/assert.h"

#include <stdlib.h>

#define CHILDREN 4u

static bool is_before(const struct sim_queue_entry *a, const struct sim_queue_entry *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

void sim_queue_fini(struct sim_queue *queue)
{
    free(queue->entry);
}

void sim_queue_push(struct sim_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref)
{
    queue->entry = cv__grow(queue->entry, &queue->capacity, queue->count, sizeof *queue->entry);
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

struct sim_queue_entry sim_queue_pop(struct sim_queue *queue)
{
    CV_ASSERT(queue->count > 0);
    const struct sim_queue_entry top = queue->entry[0];
    const struct sim_queue_entry last = queue->entry[--queue->count];
    uint32_t at = 0;
    for (;;) {
        const uint32_t first = at * CHILDREN + 1;
        if (first >= queue->count) {
            break;
        }
        const uint32_t end = first + CHILDREN < queue->count ? first + CHILDREN : queue->count;
        uint32_t least = first;
        for (uint32_t child = first + 1; child < end; child++) {
            if (is_before(&queue->entry[child], &queue->entry[least])) {
                least = child;
            }
        }
        if (!is_before(&queue->entry[least], &last)) {
            break;
        }
        queue->entry[at] = queue->entry[least];
        at = least;
    }
    queue->entry[at] = last;
    return top;
}
