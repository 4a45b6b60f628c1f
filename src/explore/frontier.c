/* src/explore/frontier.c - packed worlds that wait; see frontier.h. */
#include "explore/frontier.h"

#include "base/memory.h"
#include "core/assert.h"
#include "explore/pack.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Chunks ---------------------------------------------------------------------------------- */

static struct explore_chunk *chunk_new(void)
{
    struct explore_chunk *chunk = cv__allocate(1, sizeof *chunk);
    chunk->bytes = cv__allocate(1, EXPLORE_CHUNK_BYTES);
    return chunk;
}

void explore_chunk_free(struct explore_chunk *chunk)
{
    if (chunk != NULL) {
        free(chunk->bytes);
        free(chunk);
    }
}

bool explore_chunk_next(struct explore_chunk *chunk, uint32_t *ret_id, const uint8_t **ret_bytes)
{
    if (chunk->begin == chunk->end) {
        return false;
    }
    uint32_t head[2];
    memcpy(head, chunk->bytes + chunk->begin, sizeof head);
    *ret_id = head[0];
    *ret_bytes = chunk->bytes + chunk->begin + sizeof head;
    chunk->begin += sizeof head + head[1];
    CV_ASSERT(chunk->begin <= chunk->end);
    chunk->count--;
    return true;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void append(struct explore_queue *queue, struct explore_chunk *chunk)
{
    if (queue->last != NULL) {
        queue->last->next = chunk;
    } else {
        queue->first = chunk;
    }
    queue->last = chunk;
    queue->count += chunk->count;
    queue->bytes += chunk->bytes != NULL ? EXPLORE_CHUNK_BYTES : 0;
}

void explore_queue_push(struct explore_queue *queue, uint32_t id, const uint8_t *bytes,
                        size_t count)
{
    const uint32_t head[2] = {id, (uint32_t)count};
    const size_t needed = sizeof head + count;
    const size_t room = EXPLORE_CHUNK_BYTES - EXPLORE_PACK_SLACK;
    CV_ASSERT(needed <= room);
    if (queue->last == NULL || queue->last->bytes == NULL || queue->last->end + needed > room) {
        append(queue, chunk_new());
    }
    struct explore_chunk *chunk = queue->last;
    memcpy(chunk->bytes + chunk->end, head, sizeof head);
    memcpy(chunk->bytes + chunk->end + sizeof head, bytes, count);
    chunk->end += needed;
    chunk->count++;
    queue->count++;
}

static void load(struct explore_chunk *chunk, const struct explore_spool *spool)
{
    chunk->bytes = cv__allocate(1, EXPLORE_CHUNK_BYTES);
    const ssize_t got = pread(spool->descriptor, chunk->bytes, chunk->end, chunk->offset);
    CV_ASSERT(got == (ssize_t)chunk->end); /* we wrote it, and no other process can open the file */
}

struct explore_chunk *explore_queue_take(struct explore_queue *queue, struct explore_spool *spool)
{
    struct explore_chunk *chunk = queue->first;
    if (chunk == NULL) {
        return NULL;
    }
    queue->first = chunk->next;
    queue->last = queue->first != NULL ? queue->last : NULL;
    queue->count -= chunk->count;
    chunk->next = NULL;
    if (chunk->bytes == NULL) {
        load(chunk, spool);
        /* The disk gets its blocks back; not every file system can do that. */
        (void)fallocate(spool->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        chunk->offset, (off_t)chunk->end);
        spool->held_bytes -= chunk->end;
    } else {
        queue->bytes -= EXPLORE_CHUNK_BYTES;
    }
    return chunk;
}

void explore_queue_put_back(struct explore_queue *queue, struct explore_chunk *chunk)
{
    struct explore_queue one = {0};
    append(&one, chunk);
    explore_queue_join(&one, queue);
    *queue = one;
}

void explore_queue_join(struct explore_queue *to, struct explore_queue *from)
{
    if (from->first != NULL) {
        if (to->last != NULL) {
            to->last->next = from->first;
        } else {
            to->first = from->first;
        }
        to->last = from->last;
        to->count += from->count;
        to->bytes += from->bytes;
    }
    *from = (struct explore_queue){0};
}

void explore_queue_fini(struct explore_queue *queue)
{
    while (queue->first != NULL) {
        struct explore_chunk *next = queue->first->next;
        explore_chunk_free(queue->first);
        queue->first = next;
    }
    *queue = (struct explore_queue){0};
}

/* ---- On disk --------------------------------------------------------------------------------- */

/* A file without a name, which vanishes with the process; -1: not in this folder. */
static int open_unnamed(const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/conclave-explore-XXXXXX", folder) >= (int)sizeof path) {
        return -1;
    }
    const int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor >= 0) {
        (void)unlink(path);
    }
    return descriptor;
}

/* By default in /var/tmp, because /tmp may be in memory. */
static bool spool_open(struct explore_spool *spool)
{
    const char *wanted = getenv("TMPDIR");
    if (spool->descriptor < 0) {
        spool->descriptor = open_unnamed(wanted != NULL && *wanted != '\0' ? wanted : "/var/tmp");
    }
    if (spool->descriptor < 0) {
        spool->descriptor = open_unnamed("/tmp");
    }
    return spool->descriptor >= 0;
}

bool explore_queue_spill(struct explore_queue *queue, struct explore_spool *spool)
{
    if (!spool_open(spool)) {
        return false;
    }
    for (struct explore_chunk *c = queue->first; c != NULL && c != queue->last; c = c->next) {
        if (c->bytes == NULL) {
            continue;
        }
        if (pwrite(spool->descriptor, c->bytes, c->end, spool->end) != (ssize_t)c->end) {
            return false;
        }
        c->offset = spool->end;
        spool->end += (int64_t)c->end;
        spool->written_bytes += c->end;
        spool->held_bytes += c->end;
        free(c->bytes);
        c->bytes = NULL;
        queue->bytes -= EXPLORE_CHUNK_BYTES;
    }
    return true;
}

void explore_spool_fini(struct explore_spool *spool)
{
    if (spool->descriptor >= 0) {
        (void)close(spool->descriptor);
    }
}

bool explore_queue_write(const struct explore_queue *queue, struct explore_spool *spool, FILE *out)
{
    bool is_ok = fwrite(&queue->count, sizeof queue->count, 1, out) == 1;
    for (struct explore_chunk *c = queue->first; c != NULL && is_ok; c = c->next) {
        const bool is_away = c->bytes == NULL;
        if (is_away) {
            load(c, spool);
        }
        is_ok = fwrite(c->bytes + c->begin, 1, c->end - c->begin, out) == c->end - c->begin;
        if (is_away) {
            free(c->bytes);
            c->bytes = NULL;
        }
    }
    return is_ok;
}

bool explore_queue_read(struct explore_queue *queue, FILE *in)
{
    uint64_t count;
    uint8_t *bytes = cv__allocate(1, EXPLORE_CHUNK_BYTES);
    bool is_ok = fread(&count, sizeof count, 1, in) == 1;
    for (uint64_t i = 0; is_ok && i < count; i++) {
        uint32_t head[2];
        is_ok = fread(head, sizeof head, 1, in) == 1 && head[1] <= EXPLORE_CHUNK_BYTES / 2 &&
                fread(bytes, 1, head[1], in) == head[1];
        if (is_ok) {
            explore_queue_push(queue, head[0], bytes, head[1]);
        }
    }
    free(bytes);
    return is_ok;
}
