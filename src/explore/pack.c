/* src/explore/pack.c - worlds in few bytes; see pack.h.
 *
 * A packed world: the length of each part, two bytes each; then the parts; then the messages, to
 * the end. A part lists its words that differ from the first world's: how many words were skipped
 * (255: two bytes with the number follow), a tag, the value in as many bytes as it needs. The tag's
 * low four bits are the kind of value: 0 a number, 1 to 8 the distance to the present instant of
 * that clock; the high bits are the value's length. Values are written and read eight bytes at a
 * time. */
#include "explore/pack.h"

#include <string.h>

#define PARTS_MAX (1 + EXPLORE_NODES_MAX)
#define FAR_SKIP 255u
#define KNOWN_NEAR 3u /* messages keep their order, and few disappear at a time */

/* A part of a world: the header with the properties, then each node. */
struct part {
    size_t at, count; /* words */
};

static uint32_t part_count(const struct explore_model *model)
{
    return 1 + model->node_count;
}

static struct part part_at(const struct explore_model *model, uint32_t index)
{
    const size_t head = sizeof(struct explore_world) + model->properties.block_bytes;
    if (index == 0) {
        return (struct part){0, head / sizeof(uint64_t)};
    }
    return (struct part){(head + (index - 1) * model->node_bytes) / sizeof(uint64_t),
                         model->node_bytes / sizeof(uint64_t)};
}

static size_t prefix_bytes(const struct explore_model *model)
{
    return part_count(model) * sizeof(uint16_t);
}

static uint32_t length_at(const uint8_t *packed, uint32_t part)
{
    uint16_t length;
    memcpy(&length, packed + part * sizeof length, sizeof length);
    return length;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static uint8_t *put_word(uint8_t *at, size_t skipped, uint64_t word)
{
    uint32_t clock;
    uint64_t value = word;
    uint32_t kind = 0;
    if (explore_is_instant(word, &clock)) {
        const int64_t ahead = (int64_t)word - explore_now_ns(clock);
        value = (uint64_t)ahead << 1 ^ (uint64_t)(ahead >> 63);
        kind = clock + 1;
    }
    if (skipped < FAR_SKIP) {
        *at++ = (uint8_t)skipped;
    } else {
        const uint16_t far = (uint16_t)skipped;
        *at++ = FAR_SKIP;
        memcpy(at, &far, sizeof far);
        at += sizeof far;
    }
    const uint32_t bytes = value != 0 ? (71 - (uint32_t)__builtin_clzll(value)) / 8 : 0;
    *at++ = (uint8_t)(bytes << 4 | kind);
    memcpy(at, &value, sizeof value);
    return at + bytes;
}

/* Unpacks words; skipped words keep their present value. */
static void get_words(const uint8_t *at, const uint8_t *end, uint64_t *word)
{
    static const uint64_t mask[9] = {0,          0xff,         0xffff,         0xffffff,
                                     0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
                                     UINT64_MAX};
    while (at < end) {
        size_t skipped = *at++;
        if (skipped == FAR_SKIP) {
            uint16_t far;
            memcpy(&far, at, sizeof far);
            skipped = far;
            at += sizeof far;
        }
        const uint32_t kind = *at & 15u;
        const uint32_t bytes = *at++ >> 4;
        uint64_t value;
        memcpy(&value, at, sizeof value);
        value &= mask[bytes];
        at += bytes;
        word += skipped;
        *word++ =
            kind == 0 ? value : (uint64_t)explore_now_ns(kind - 1) + (value >> 1 ^ -(value & 1));
    }
}

typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));

/* Which of eight words differ, as bits. */
static inline uint32_t differing(const uint64_t *word, const uint64_t *same)
{
    const two_words *a = (const two_words *)word;
    const two_words *b = (const two_words *)same;
    const two_words any = (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
    uint32_t bits = 0;
    for (uint32_t i = 0; (any[0] | any[1]) != 0 && i < 8; i++) {
        bits |= (uint32_t)(word[i] != same[i]) << i;
    }
    return bits;
}

/* Compares eight words at a time, because most are the same as in the first world. */
static uint8_t *put_words(uint8_t *at, const uint64_t *word, const uint64_t *same, size_t count)
{
    size_t next = 0;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (uint32_t bits = differing(word + i, same + i); bits != 0; bits &= bits - 1) {
            const size_t place = i + (uint32_t)__builtin_ctz(bits);
            at = put_word(at, place - next, word[place]);
            next = place + 1;
        }
    }
    for (; i < count; i++) {
        if (word[i] != same[i]) {
            at = put_word(at, i - next, word[i]);
            next = i + 1;
        }
    }
    return at;
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

size_t explore_pack_bytes_max(const struct explore_model *model)
{
    const size_t bytes = model->fixed_bytes + EXPLORE_MESSAGES_MAX * model->message_bytes;
    return PARTS_MAX * sizeof(uint16_t) + bytes / sizeof(uint64_t) * 12 + EXPLORE_PACK_SLACK;
}

/* The messages of another world and their packed bytes; `at` is the first that is left. */
struct known_messages {
    const struct explore_message *m;
    uint32_t left;
    const uint8_t *at;
};

/* The packed bytes of a message that is among the next known ones; NULL: it is not. */
static const uint8_t *find_known(const struct explore_model *model, struct known_messages *known,
                                 const struct explore_message *m)
{
    struct known_messages k = *known;
    for (uint32_t i = 0; i < KNOWN_NEAR && k.left > 0; i++) {
        const uint8_t *bytes = k.at;
        const bool is_it = memcmp(k.m, m, model->message_bytes) == 0;
        k.m = (const struct explore_message *)((const uint8_t *)k.m + model->message_bytes);
        k.at += 1 + *k.at;
        k.left--;
        if (is_it) {
            *known = k;
            return bytes;
        }
    }
    return NULL;
}

static uint8_t *put_messages(const struct explore_model *model, const struct explore_world *world,
                             struct known_messages known, uint8_t *at)
{
    static const uint64_t zero[64]; /* a message has fewer words */
    const size_t count = model->message_bytes / sizeof(uint64_t);
    const uint64_t *word = (const uint64_t *)world + model->fixed_bytes / sizeof *word;
    CV_ASSERT(count <= COUNT_OF(zero));
    for (uint32_t i = 0; i < world->h.message_count; i++, word += count) {
        const uint8_t *bytes = find_known(model, &known, (const struct explore_message *)word);
        if (bytes != NULL) {
            memcpy(at, bytes, 1u + *bytes);
            at += 1 + *bytes;
            continue;
        }
        uint8_t *length = at++;
        at = put_words(at, word, zero, count);
        CV_ASSERT(at - length - 1 <= UINT8_MAX);
        *length = (uint8_t)(at - length - 1);
    }
    return at;
}

size_t explore_pack(const struct explore_model *model, const struct explore_world *first,
                    const struct explore_world *world, const struct explore_packed *like,
                    uint8_t *ret_bytes)
{
    uint8_t *at = ret_bytes + prefix_bytes(model);
    const uint8_t *known = like->bytes != NULL ? like->bytes + prefix_bytes(model) : NULL;
    for (uint32_t i = 0; i < part_count(model); i++) {
        const struct part part = part_at(model, i);
        const uint64_t *word = (const uint64_t *)world + part.at;
        uint8_t *begin = at;
        if (known != NULL &&
            memcmp(word, (const uint64_t *)like->world + part.at, part.count * sizeof *word) == 0) {
            const uint32_t length = length_at(like->bytes, i);
            memcpy(at, known, length);
            at += length;
        } else {
            at = put_words(at, word, (const uint64_t *)first + part.at, part.count);
        }
        known = known != NULL ? known + length_at(like->bytes, i) : NULL;
        CV_ASSERT(at - begin <= UINT16_MAX);
        const uint16_t length = (uint16_t)(at - begin);
        memcpy(ret_bytes + i * sizeof length, &length, sizeof length);
    }
    struct known_messages messages = {0};
    if (known != NULL) {
        messages.m =
            (const struct explore_message *)((const uint8_t *)like->world + model->fixed_bytes);
        messages.left = like->world->h.message_count;
        messages.at = known;
    }
    at = put_messages(model, world, messages, at);
    return (size_t)(at - ret_bytes);
}

static bool is_same_blob(const uint8_t *a, const uint8_t *b, uint32_t length_a, uint32_t length_b)
{
    return length_a == length_b && memcmp(a, b, length_a) == 0;
}

static void get_messages(const struct explore_model *model, const uint8_t *at, const uint8_t *was,
                         uint32_t was_count, struct explore_world *world)
{
    for (uint32_t i = 0; i < world->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, world, i);
        const uint32_t length = *at++;
        if (i >= was_count || !is_same_blob(at, was + 1, length, *was)) {
            memset(m, 0, model->message_bytes);
            get_words(at, at + length, (uint64_t *)m);
        }
        if (i < was_count) {
            was += 1u + *was;
        }
        at += length;
    }
}

void explore_unpack(const struct explore_model *model, const struct explore_world *first,
                    const uint8_t *bytes, const uint8_t *was, struct explore_world *world)
{
    const uint8_t *at = bytes + prefix_bytes(model);
    const uint8_t *was_at = was != NULL ? was + prefix_bytes(model) : NULL;
    const uint32_t was_count = was != NULL ? world->h.message_count : 0;
    for (uint32_t i = 0; i < part_count(model); i++) {
        const struct part part = part_at(model, i);
        const uint32_t length = length_at(bytes, i);
        const uint32_t was_length = was != NULL ? length_at(was, i) : 0;
        if (was == NULL || !is_same_blob(at, was_at, length, was_length)) {
            uint64_t *word = (uint64_t *)world + part.at;
            memcpy(word, (const uint64_t *)first + part.at, part.count * sizeof *word);
            get_words(at, at + length, word);
        }
        at += length;
        was_at = was != NULL ? was_at + was_length : NULL;
    }
    get_messages(model, at, was_at, was_count, world);
}

/* ---- Hashes ---------------------------------------------------------------------------------- */

/* Both halves of the product: each bit of the result depends on every bit of both. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t explore_hash(const uint8_t *bytes, size_t count)
{
    uint64_t a = UINT64_C(0xa0761d6478bd642f);
    uint64_t b = UINT64_C(0xe7037ed1a0b428db) ^ count;
    uint64_t word[4];
    size_t i = 0;
    for (; i + sizeof word <= count; i += sizeof word) { /* two independent lanes */
        memcpy(word, bytes + i, sizeof word);
        a = mix(a ^ word[0], word[1] ^ UINT64_C(0x8ebc6af09c88c6e3));
        b = mix(b ^ word[2], word[3] ^ UINT64_C(0x589965cc75374cc3));
    }
    memset(word, 0, sizeof word);
    memcpy(word, bytes + i, count - i);
    a = mix(a ^ word[0], word[1] ^ UINT64_C(0x1d8e4e27c47d124f));
    b = mix(b ^ word[2], word[3] ^ UINT64_C(0xeb44accab455d165));
    return mix(a ^ UINT64_C(0x9e3779b97f4a7c15), b ^ UINT64_C(0xc2b2ae3d27d4eb4f));
}

uint64_t explore_hash_word(uint64_t word, uint64_t place)
{
    const uint64_t mixed = mix(word ^ UINT64_C(0xa0761d6478bd642f),
                               place * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0xe7037ed1a0b428db));
    return mix(mixed ^ UINT64_C(0x8ebc6af09c88c6e3), word ^ UINT64_C(0x589965cc75374cc3));
}
