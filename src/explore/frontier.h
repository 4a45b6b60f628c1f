/* src/explore/frontier.h - a queue of packed worlds that wait to be visited.
 *
 * They are kept in chunks. A worker takes a chunk at a time, so that several can share a queue.
 * When memory runs out, chunks go to an unnamed file, and are read back when they are taken. */
#ifndef CV_EXPLORE_FRONTIER_H
#define CV_EXPLORE_FRONTIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPLORE_CHUNK_BYTES (1u << 18)

struct explore_chunk {
    struct explore_chunk *next;
    size_t begin, end;
    uint64_t count;
    uint8_t *bytes; /* NULL: they are in the file, ... */
    int64_t offset; /* ... here */
};

struct explore_queue {
    struct explore_chunk *first, *last;
    uint64_t count, bytes; /* bytes: in memory */
};

/* The file; descriptor -1: it was not needed yet. */
struct explore_spool {
    int descriptor;
    int64_t end;
    uint64_t written_bytes; /* in all */
    uint64_t held_bytes;    /* of chunks that were not taken yet */
};

void explore_queue_push(struct explore_queue *queue, uint32_t id, const uint8_t *bytes,
                        size_t count);
/* The first chunk, with its bytes; NULL: the queue is empty. To be freed, or put back. */
struct explore_chunk *explore_queue_take(struct explore_queue *queue, struct explore_spool *spool);
void explore_queue_put_back(struct explore_queue *queue, struct explore_chunk *chunk);
/* Appends all of `from` to `to`. */
void explore_queue_join(struct explore_queue *to, struct explore_queue *from);
void explore_queue_fini(struct explore_queue *queue);

/* The next world of a chunk, lent; false: there is none. */
bool explore_chunk_next(struct explore_chunk *chunk, uint32_t *ret_id, const uint8_t **ret_bytes);
void explore_chunk_free(struct explore_chunk *chunk);

/* Writes chunks that are full to the file. False: that is not possible. */
bool explore_queue_spill(struct explore_queue *queue, struct explore_spool *spool);
void explore_spool_fini(struct explore_spool *spool);

/* Writes a queue to a file; reads one back and appends it; false: it failed. */
bool explore_queue_write(const struct explore_queue *queue, struct explore_spool *spool, FILE *out);
bool explore_queue_read(struct explore_queue *queue, FILE *in);

#endif
