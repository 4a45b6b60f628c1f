/* src/explore/pack.c - worlds in few bytes; see pack.h. */
#include "explore/pack.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The low four bits of a value say what the rest is: 0 a number, 1 to 8 the distance to what that
 * clock shows now, 15 eight bytes follow. */
enum { PACK_NUMBER = 0, PACK_WHOLE = 15 };

static uint8_t *put(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static const uint8_t *get(const uint8_t *at, uint64_t *ret_value)
{
    *ret_value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        *ret_value |= (uint64_t)(*at & 0x7f) << shift;
        if ((*at++ & 0x80) == 0) {
            return at;
        }
    }
}

static uint8_t *put_word(uint8_t *at, uint64_t word)
{
    uint32_t clock;
    if (explore_is_instant(word, &clock)) {
        const int64_t ahead = (int64_t)word - explore_now_ns(clock);
        const uint64_t folded = ahead < 0 ? (uint64_t)-ahead << 1 | 1 : (uint64_t)ahead << 1;
        return put(at, folded << 4 | (clock + 1));
    }
    if (word >> 60 != 0) {
        *at = PACK_WHOLE;
        memcpy(at + 1, &word, sizeof word);
        return at + 1 + sizeof word;
    }
    return put(at, word << 4 | PACK_NUMBER);
}

static const uint8_t *get_word(const uint8_t *at, uint64_t *ret_word)
{
    if (*at == PACK_WHOLE) {
        memcpy(ret_word, at + 1, sizeof *ret_word);
        return at + 1 + sizeof *ret_word;
    }
    uint64_t value;
    at = get(at, &value);
    const uint32_t kind = value & 15;
    value >>= 4;
    if (kind == PACK_NUMBER) {
        *ret_word = value;
    } else {
        const int64_t ahead = (value & 1) != 0 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
        *ret_word = (uint64_t)(explore_now_ns(kind - 1) + ahead);
    }
    return at;
}

size_t explore_pack_bytes_max(const struct explore_model *model)
{
    const size_t words =
        (model->fixed_bytes + EXPLORE_MESSAGES_MAX * model->message_bytes) / sizeof(uint64_t);
    return 16 + words * 20; /* ten bytes for each of the two numbers */
}

size_t explore_pack(const struct explore_model *model, const struct explore_world *first,
                    const struct explore_world *world, uint8_t *ret_bytes)
{
    const uint64_t *word = (const uint64_t *)world;
    const uint64_t *same = (const uint64_t *)first;
    const size_t fixed = model->fixed_bytes / sizeof *word;
    const size_t count = explore_world_bytes(model, world) / sizeof *word;
    uint8_t *at = put(ret_bytes, count);
    size_t skipped = 0;
    for (size_t i = 0; i < count; i++) {
        if (word[i] == (i < fixed ? same[i] : 0)) {
            skipped++;
        } else {
            at = put_word(put(at, skipped), word[i]);
            skipped = 0;
        }
    }
    at = put(at, skipped);
    return (size_t)(at - ret_bytes);
}

void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, struct explore_world *ret_world)
{
    uint64_t *word = (uint64_t *)ret_world;
    const size_t fixed = model->fixed_bytes / sizeof *word;
    uint64_t count;
    const uint8_t *at = get(bytes, &count);
    memcpy(word, first, model->fixed_bytes);
    memset(word + fixed, 0, (count - fixed) * sizeof *word);
    for (uint64_t i = 0;;) {
        uint64_t skipped;
        at = get(at, &skipped);
        i += skipped;
        if (i == count) {
            return;
        }
        CV_ASSERT(i < count);
        at = get_word(at, &word[i++]);
    }
}

/* ---- The queue ------------------------------------------------------------------------------- */

#define CHUNK_BYTES (1u << 20)

struct explore_chunk {
    struct explore_chunk *next;
    size_t begin, end;
    uint8_t bytes[CHUNK_BYTES];
};

void explore_fifo_push(struct explore_fifo *fifo, uint32_t id, const uint8_t *bytes, size_t count)
{
    const uint32_t head[2] = {id, (uint32_t)count};
    const size_t needed = sizeof head + count;
    CV_ASSERT(needed <= CHUNK_BYTES);
    if (fifo->last == NULL || fifo->last->end + needed > CHUNK_BYTES) {
        struct explore_chunk *chunk = cv__allocate(1, sizeof *chunk);
        if (fifo->last != NULL) {
            fifo->last->next = chunk;
        } else {
            fifo->first = chunk;
        }
        fifo->last = chunk;
        fifo->bytes += sizeof *chunk;
    }
    struct explore_chunk *chunk = fifo->last;
    memcpy(chunk->bytes + chunk->end, head, sizeof head);
    memcpy(chunk->bytes + chunk->end + sizeof head, bytes, count);
    chunk->end += needed;
    fifo->count++;
}

bool explore_fifo_pop(struct explore_fifo *fifo, uint32_t *ret_id, uint8_t *ret_bytes)
{
    struct explore_chunk *chunk = fifo->first;
    if (chunk != NULL && chunk->begin == chunk->end) {
        fifo->first = chunk->next;
        fifo->last = chunk->next != NULL ? fifo->last : NULL;
        fifo->bytes -= sizeof *chunk;
        free(chunk);
        chunk = fifo->first;
    }
    if (chunk == NULL) {
        return false;
    }
    uint32_t head[2];
    memcpy(head, chunk->bytes + chunk->begin, sizeof head);
    memcpy(ret_bytes, chunk->bytes + chunk->begin + sizeof head, head[1]);
    *ret_id = head[0];
    chunk->begin += sizeof head + head[1];
    fifo->count--;
    return true;
}

void explore_fifo_fini(struct explore_fifo *fifo)
{
    while (fifo->first != NULL) {
        struct explore_chunk *next = fifo->first->next;
        free(fifo->first);
        fifo->first = next;
    }
}
