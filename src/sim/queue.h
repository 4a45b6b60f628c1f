/* src/sim/queue.h - what happens next: a heap of instants.
 *
 * Equal times come out in the order they went in, which is what makes a run replay to the byte.
 * Four children a node: fewer cache misses than two. Memory: 24 bytes an entry, linear. */
#ifndef CV_SIM_QUEUE_H
#define CV_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct cv_queue_entry {
    int64_t at_ns;
    uint64_t number; /* order of insertion; breaks ties */
    uint32_t kind;   /* the owner's business, as is what follows */
    uint32_t ref;
};

struct cv_queue {
    struct cv_queue_entry *entry;
    uint32_t count, capacity;
    uint64_t number;
};

void cv__queue_fini(struct cv_queue *queue);

/* A zeroed queue is empty. Aborts the process if memory runs out: there is no run without it. */
void cv__queue_push(struct cv_queue *queue, int64_t at_ns, uint32_t kind, uint32_t ref);
struct cv_queue_entry cv__queue_pop(struct cv_queue *queue);

#endif
