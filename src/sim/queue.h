/* src/sim/queue.h - the queue of coming events, ordered by time.
 *
 * Equal times come out in the order they went in, so a run replays to the byte. There are two
 * heaps: messages and timers are due soon, faults may be hours ahead, and distant entries should
 * not slow down each message. Four children per node: fewer cache misses than two. Memory: 24 bytes
 * per entry, linear. */
#ifndef CV_SIM_QUEUE_H
#define CV_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_queue_entry {
    int64_t at_ns;
    uint64_t number; /* order of insertion; breaks ties */
    uint32_t kind;   /* interpreted by the caller, like `ref` */
    uint32_t ref;
};

struct sim_heap {
    struct sim_queue_entry *entry;
    uint32_t count, capacity;
};

/* Invariants: no entry of `far` comes before one of `near`; `near` is empty only if both are. */
struct sim_queue {
    struct sim_heap near, far;
    int64_t far_ns; /* entries due then or later go to `far` */
    uint64_t number;
};

void sim_queue_fini(struct sim_queue *queue);

/* A zeroed queue is empty. Aborts the process if memory runs out. */
void sim_queue_push(struct sim_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref);
struct sim_queue_entry sim_queue_pop(struct sim_queue *queue);

static inline uint32_t sim_queue_count(const struct sim_queue *queue)
{
    return queue->near.count + queue->far.count;
}

/* When the next entry is due; INT64_MAX: there is none. */
static inline int64_t sim_queue_next_ns(const struct sim_queue *queue)
{
    return queue->near.count > 0 ? queue->near.entry[0].at_ns : INT64_MAX;
}

#endif
