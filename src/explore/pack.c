/* src/explore/pack.c - worlds in few bytes; see pack.h. */
#include "explore/pack.h"

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
    return 16 + explore_words_max(model) * 20; /* ten bytes for each of the two numbers */
}

uint32_t explore_words_max(const struct explore_model *model)
{
    return (uint32_t)((model->fixed_bytes + EXPLORE_MESSAGES_MAX * model->message_bytes) /
                      sizeof(uint64_t));
}

/* Which of eight words differ, as bits. */
static inline uint32_t differing(const uint64_t *word, const uint64_t *same)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 8; i++) {
        bits |= (uint32_t)(word[i] != same[i]) << i;
    }
    return bits;
}

/* Eight words at a time: most are as at the beginning. */
static uint32_t compare(const uint64_t *word, const uint64_t *same, uint32_t count, uint32_t first,
                        uint16_t *ret_place)
{
    uint32_t found = 0;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (uint32_t bits = differing(word + i, same + i); bits != 0; bits &= bits - 1) {
            ret_place[found++] = (uint16_t)(first + i + (uint32_t)__builtin_ctz(bits));
        }
    }
    for (; i < count; i++) {
        ret_place[found] = (uint16_t)(first + i);
        found += word[i] != same[i];
    }
    return found;
}

uint32_t explore_differences(const struct explore_model *model, const struct explore_world *first,
                             const struct explore_world *world, uint16_t *ret_place)
{
    static const uint64_t zero[64]; /* a message has fewer words */
    const uint64_t *word = (const uint64_t *)world;
    const uint32_t fixed = (uint32_t)(model->fixed_bytes / sizeof *word);
    const uint32_t one = (uint32_t)(model->message_bytes / sizeof *word);
    CV_ASSERT(one <= COUNT_OF(zero));
    uint32_t count = compare(word, (const uint64_t *)first, fixed, 0, ret_place);
    for (uint32_t i = 0; i < world->h.message_count; i++) {
        const uint32_t at = fixed + i * one;
        count += compare(word + at, zero, one, at, ret_place + count);
    }
    return count;
}

/* Both halves of the product: each bit of the result depends on every bit of both. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t explore_hash(const struct explore_world *world, const uint16_t *place, uint32_t count)
{
    const uint64_t *word = (const uint64_t *)world;
    uint64_t a = UINT64_C(0xa0761d6478bd642f) ^ world->h.message_count;
    uint64_t b = UINT64_C(0xe7037ed1a0b428db) ^ count;
    uint32_t i = 0;
    for (; i + 2 <= count; i += 2) { /* two lanes, so that one product need not wait for another */
        const uint64_t place_a = place[i] * UINT64_C(0x9e3779b97f4a7c15);
        const uint64_t place_b = place[i + 1] * UINT64_C(0xc2b2ae3d27d4eb4f);
        a = mix(a ^ word[place[i]], UINT64_C(0x8ebc6af09c88c6e3) + place_a);
        b = mix(b ^ word[place[i + 1]], UINT64_C(0x589965cc75374cc3) + place_b);
    }
    if (i < count) {
        a = mix(a ^ word[place[i]] ^ place[i], UINT64_C(0x1d8e4e27c47d124f));
    }
    return mix(a ^ UINT64_C(0xeb44accab455d165), mix(b, UINT64_C(0x9e3779b97f4a7c15)) | 1);
}

size_t explore_pack(const struct explore_model *model, const struct explore_world *world,
                    const uint16_t *place, uint32_t count, uint8_t *ret_bytes)
{
    const uint64_t *word = (const uint64_t *)world;
    const uint32_t all = (uint32_t)(explore_world_bytes(model, world) / sizeof *word);
    uint8_t *at = put(ret_bytes, all);
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        at = put_word(put(at, place[i] - next), word[place[i]]);
        next = place[i] + 1u;
    }
    at = put(at, all - next);
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
