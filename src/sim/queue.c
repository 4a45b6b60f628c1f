/* src/sim/queue.c - the queue of coming events; see queue.h. */
#include "sim/queue.h"

#include "base/memory.h"
#include "core/assert.h"

#include <stdlib.h>

#define CHILDREN 4u
#define NEAR_NS INT64_C(1000000000) /* longer than nearly all timers that are armed repeatedly */

static __int128 key(const struct sim_queue_entry *e)
{
    return (__int128)((unsigned __int128)(uint64_t)e->at_ns << 64 | e->number);
}

/* Compared as one number of 128 bits, without a branch: a heap's branches cannot be predicted. */
static bool is_before(const struct sim_queue_entry *a, const struct sim_queue_entry *b)
{
    return key(a) < key(b);
}

/* Inline, like heap_pop(): each message goes through both. */
static inline void heap_push(struct sim_heap *heap, const struct sim_queue_entry *entry)
{
    if (heap->count == heap->capacity) {
        heap->entry = cv__grow(heap->entry, &heap->capacity, heap->count, sizeof *heap->entry);
    }
    uint32_t at = heap->count++;
    while (at > 0) {
        const uint32_t parent = (at - 1) / CHILDREN;
        if (!is_before(entry, &heap->entry[parent])) {
            break;
        }
        heap->entry[at] = heap->entry[parent];
        at = parent;
    }
    heap->entry[at] = *entry;
}

/* The earliest of up to four entries from `first` on. Most nodes of the heap have four children:
 * compares two pairs, then the winners. */
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

/* Removes the first entry. */
static inline void heap_pop(struct sim_heap *heap)
{
    CV_ASSERT(heap->count > 0);
    struct sim_queue_entry *entry = heap->entry;
    const struct sim_queue_entry last = entry[--heap->count];
    const uint32_t count = heap->count;
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
}

void sim_queue_fini(struct sim_queue *queue)
{
    free(queue->near.entry);
    free(queue->far.entry);
}

/* From now on, `near` is for entries due shortly after this instant. */
static void look_ahead(struct sim_queue *queue, int64_t from_ns)
{
    CV_ASSERT(queue->near.count == 0);
    queue->far_ns = from_ns < INT64_MAX - NEAR_NS ? from_ns + NEAR_NS : INT64_MAX;
}

/* Moves entries from `far` to `near`; always the first one, which may be due at INT64_MAX. */
static void __attribute__((noinline)) refill(struct sim_queue *queue)
{
    look_ahead(queue, queue->far.entry[0].at_ns);
    do {
        const struct sim_queue_entry entry = queue->far.entry[0];
        heap_pop(&queue->far);
        heap_push(&queue->near, &entry);
    } while (queue->far.count > 0 && queue->far.entry[0].at_ns < queue->far_ns);
}

void sim_queue_push(struct sim_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref)
{
    const struct sim_queue_entry entry = {at_ns, queue->number++, kind, ref};
    if (queue->near.count == 0) {
        CV_ASSERT(queue->far.count == 0);
        look_ahead(queue, at_ns);
    }
    const bool is_near = at_ns < queue->far_ns || queue->near.count == 0;
    heap_push(is_near ? &queue->near : &queue->far, &entry);
}

struct sim_queue_entry sim_queue_pop(struct sim_queue *queue)
{
    CV_ASSERT(queue->near.count > 0);
    const struct sim_queue_entry top = queue->near.entry[0];
    heap_pop(&queue->near);
    if (queue->near.count == 0 && queue->far.count > 0) {
        refill(queue);
    }
    return top;
}
