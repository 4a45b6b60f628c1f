/* src/sim/queue.h - what happens next: a heap of instants.
 *
 * Equal times come out in the order they went in, which is what makes a run replay to the byte.
 * Four children a node: fewer cache misses than two. Memory: 24 bytes an entry, linear. */
#ifndef CV_SIM_QUEUE_H
#define CV_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_queue_entry {
    int64_t at_ns;
    uint64_t number; /* order of insertion; breaks ties */
    uint32_t kind;   /* the owner's business, as is what follows */
    uint32_t ref;
};

struct sim_queue {
    struct sim_queue_entry *entry;
    uint32_t count, capacity;
    uint64_t number;
};

void sim_queue_fini(struct sim_queue *queue);

/* A zeroed queue is empty. Aborts the process if memory runs out: there is no run without it. */
void sim_queue_push(struct sim_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref);
struct sim_queue_entry sim_queue_pop(struct sim_queue *queue);

#endif
