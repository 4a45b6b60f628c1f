/* src/core/codec.c - messages as bytes, one codec for all hosts.
 *
 * Layout: version, type, then the fields in the order of the type's table. Numbers are base-128
 * varints, least significant group first, in their shortest form; a set is its byte count and its
 * bytes without trailing zeros; values are their count and that many numbers. Each message has
 * exactly one encoding, so a decoded message encodes to the same bytes: the fuzzer checks this. */
#include "core/core.h"
#include "core/nodeset.h"

#include <string.h>

#define WIRE_VERSION 1u
#define VARINT_BYTES_MAX 10u

struct writer {
    uint8_t *at;
};

struct reader {
    const uint8_t *at, *end;
};

static void put_number(struct writer *w, uint64_t value)
{
    while (value >= 0x80) {
        *w->at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *w->at++ = (uint8_t)value;
}

/* Joins the 7-bit groups of eight bytes into one number of 56 bits: neighbours are joined in pairs,
 * three times. */
static uint64_t join_groups(uint64_t bytes)
{
    uint64_t groups = bytes & UINT64_C(0x7f7f7f7f7f7f7f7f);
    groups = (groups & UINT64_C(0x007f007f007f007f)) | (groups & UINT64_C(0x7f007f007f007f00)) >> 1;
    groups = (groups & UINT64_C(0x00003fff00003fff)) | (groups & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (groups & UINT64_C(0x000000000fffffff)) | (groups & UINT64_C(0x0fffffff00000000)) >> 4;
}

static uint64_t eight_bytes(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
           (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 |
           (uint64_t)at[7] << 56; /* compiles to one load */
}

/* Instants and nonces are long, so eight bytes are read at once if as many are left. */
static bool get_long_number(struct reader *r, uint64_t *ret_value)
{
    CV_ASSERT(r->at <= r->end);
    const uint8_t *at = r->at;
    const size_t left = (size_t)(r->end - at);
    const uint32_t most = left < VARINT_BYTES_MAX ? (uint32_t)left : VARINT_BYTES_MAX;
    uint64_t value = 0;
    uint32_t i = 0;
    if (left >= 8) {
        const uint64_t bytes = eight_bytes(at);
        const uint64_t ends = ~bytes & UINT64_C(0x8080808080808080); /* last bytes of numbers */
        if (ends != 0) {
            const uint32_t count = (uint32_t)__builtin_ctzll(ends) / 8 + 1;
            r->at = at + count;
            *ret_value = join_groups(bytes & (UINT64_MAX >> (64 - 8 * count)));
            return at[count - 1] != 0 || count == 1; /* otherwise not the shortest form */
        }
        value = join_groups(bytes);
        i = 8;
    }
    for (; i < most; i++) {
        const uint64_t byte = at[i];
        value |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            const bool is_short = byte != 0 || i == 0; /* otherwise not the shortest form */
            const bool fits = i < VARINT_BYTES_MAX - 1 || byte <= 1; /* into 64 bits */
            r->at = at + i + 1;
            *ret_value = value;
            return is_short && fits;
        }
    }
    return false;
}

static inline bool get_number(struct reader *r, uint64_t *ret_value)
{
    if (r->at != r->end && (*r->at & 0x80) == 0) { /* one byte, like most numbers */
        *ret_value = *r->at++;
        return true;
    }
    return get_long_number(r, ret_value);
}

static void put_set(struct writer *w, const struct cv_list *set)
{
    CV_ASSERT(set->word_count <= CV_MEMBERS_MAX / 64);
    uint32_t byte_count = set->word_count * 8;
    while (byte_count > 0 &&
           ((set->word[(byte_count - 1) / 8] >> ((byte_count - 1) % 8 * 8)) & 0xff) == 0) {
        byte_count--;
    }
    put_number(w, byte_count);
    for (uint32_t i = 0; i < byte_count; i++) {
        *w->at++ = (uint8_t)(set->word[i / 8] >> (i % 8 * 8));
    }
}

static bool get_set(struct reader *r, uint32_t member_count, uint64_t *word)
{
    uint64_t byte_count;
    if (!get_number(r, &byte_count) || byte_count > (member_count + 7) / 8 ||
        byte_count > (uint64_t)(r->end - r->at)) {
        return false;
    }
    cv__set_clear(word, member_count);
    for (uint32_t i = 0; i < byte_count; i++) {
        word[i / 8] |= (uint64_t)r->at[i] << (i % 8 * 8);
    }
    if (byte_count > 0 && r->at[byte_count - 1] == 0) {
        return false; /* a set is encoded without trailing zeros */
    }
    r->at += byte_count;
    CV_ASSERT(r->at <= r->end);
    const uint32_t used = member_count % 64;
    return used == 0 || (word[member_count / 64] >> used) == 0;
}

static void put_values(struct writer *w, const struct cv_list *values)
{
    CV_ASSERT(values->word_count <= CV_MEMBERS_MAX);
    put_number(w, values->word_count);
    for (uint32_t i = 0; i < values->word_count; i++) {
        put_number(w, values->word[i]);
    }
}

static bool get_values(struct reader *r, uint32_t member_count, uint64_t *word,
                       uint32_t *ret_word_count)
{
    uint64_t count;
    if (!get_number(r, &count) || count > member_count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!get_number(r, &word[i])) {
            return false;
        }
    }
    CV_ASSERT(r->at <= r->end);
    *ret_word_count = (uint32_t)count;
    return true;
}

static bool is_in_range(enum cv_field_kind kind, uint64_t value, uint32_t member_count)
{
    switch (kind) {
    case CV_FIELD_U64:
        return true;
    case CV_FIELD_FLAG:
        return value <= 1;
    case CV_FIELD_ID:
        return value >= 1 && value <= member_count;
    case CV_FIELD_ID_NONE:
        return value <= member_count;
    default:
        return false;
    }
}

size_t cv_message_bytes_max(const struct cv_protocol *protocol, uint32_t member_count)
{
    (void)protocol;
    return 2 + CV_FIELDS_MAX * VARINT_BYTES_MAX +
           CV_LISTS_MAX * (VARINT_BYTES_MAX + (size_t)member_count * VARINT_BYTES_MAX);
}

uint32_t cv_message_words_max(uint32_t member_count)
{
    return member_count <= CV_MEMBERS_MAX ? CV_LISTS_MAX * (member_count + 1) : 0;
}

static bool is_valid_list(enum cv_field_kind kind, uint32_t member_count,
                          const struct cv_list *list)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    if (kind == CV_FIELD_VALUES) {
        return list->word_count <= member_count && (list->word_count == 0 || list->word != NULL);
    }
    if (list->word_count != cv__set_words(member_count) || list->word == NULL) {
        return false;
    }
    const uint32_t used = member_count % 64;
    return used == 0 || (list->word[member_count / 64] >> used) == 0; /* members only */
}

bool cv__message_is_valid(const struct cv_protocol *protocol, uint32_t member_count,
                          const struct cv_message *message)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    if (message == NULL || message->type >= protocol->message_count) {
        return false;
    }
    uint32_t scalar = 0;
    uint32_t list = 0;
    for (const struct cv_field *f = protocol->messages[message->type].fields; f->kind; f++) {
        const bool is_list = f->kind == CV_FIELD_SET || f->kind == CV_FIELD_VALUES;
        if (is_list ? !is_valid_list(f->kind, member_count, &message->list[list++])
                    : !is_in_range(f->kind, message->field[scalar++], member_count)) {
            return false;
        }
    }
    CV_ASSERT(scalar <= CV_FIELDS_MAX);
    CV_ASSERT(list <= CV_LISTS_MAX);
    return true;
}

size_t cv__message_encode(const struct cv_protocol *protocol, uint32_t member_count,
                          const struct cv_message *message, uint8_t *ret_bytes)
{
    CV_ASSERT(message->type < protocol->message_count);
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);

    struct writer w = {ret_bytes};
    *w.at++ = WIRE_VERSION;
    *w.at++ = (uint8_t)message->type;
    uint32_t scalar = 0;
    uint32_t list = 0;
    for (const struct cv_field *f = protocol->messages[message->type].fields; f->kind; f++) {
        switch (f->kind) {
        case CV_FIELD_SET:
            CV_ASSERT(message->list[list].word_count == cv__set_words(member_count));
            put_set(&w, &message->list[list++]);
            break;
        case CV_FIELD_VALUES:
            CV_ASSERT(message->list[list].word_count <= member_count);
            put_values(&w, &message->list[list++]);
            break;
        default:
            CV_ASSERT(f->kind == CV_FIELD_U64 ||
                      is_in_range(f->kind, message->field[scalar], member_count));
            put_number(&w, message->field[scalar++]);
            break;
        }
    }
    CV_ASSERT(scalar <= CV_FIELDS_MAX);
    CV_ASSERT(list <= CV_LISTS_MAX);
    CV_ASSERT((size_t)(w.at - ret_bytes) <= cv_message_bytes_max(protocol, member_count));
    return (size_t)(w.at - ret_bytes);
}

static bool is_member_count(uint32_t member_count)
{
    return member_count >= 1 && member_count <= CV_MEMBERS_MAX;
}

size_t cv_message_encode(const struct cv_protocol *protocol, uint32_t member_count,
                         const struct cv_message *message, uint8_t *ret_bytes)
{
    if (protocol == NULL || ret_bytes == NULL || !is_member_count(member_count) ||
        !cv__message_is_valid(protocol, member_count, message)) {
        return 0;
    }
    return cv__message_encode(protocol, member_count, message, ret_bytes);
}

int cv_message_decode(const struct cv_protocol *protocol, uint32_t member_count,
                      const uint8_t *bytes, size_t byte_count, uint64_t *word,
                      struct cv_message *ret_message)
{
    if (protocol == NULL || word == NULL || ret_message == NULL || !is_member_count(member_count) ||
        (bytes == NULL && byte_count > 0)) {
        return CV_E_INVALID;
    }
    return cv__message_decode(protocol, member_count, bytes, byte_count, word, ret_message);
}

int cv__message_decode(const struct cv_protocol *protocol, uint32_t member_count,
                       const uint8_t *bytes, size_t byte_count, uint64_t *word,
                       struct cv_message *ret_message)
{
    CV_ASSERT(member_count >= 1);
    CV_ASSERT(member_count <= CV_MEMBERS_MAX); /* the storage for words has this size */
    if (byte_count < 2 || bytes[0] != WIRE_VERSION || bytes[1] >= protocol->message_count) {
        return CV_E_MALFORMED;
    }
    struct reader r = {bytes + 2, bytes + byte_count};
    memset(ret_message, 0, sizeof *ret_message);
    ret_message->type = bytes[1];
    uint32_t scalar = 0;
    uint32_t list = 0;
    for (const struct cv_field *f = protocol->messages[bytes[1]].fields; f->kind; f++) {
        if (f->kind == CV_FIELD_SET) {
            if (!get_set(&r, member_count, word)) {
                return CV_E_MALFORMED;
            }
            ret_message->list[list++] = (struct cv_list){word, cv__set_words(member_count)};
            word += cv__set_words(member_count);
        } else if (f->kind == CV_FIELD_VALUES) {
            uint32_t count;
            if (!get_values(&r, member_count, word, &count)) {
                return CV_E_MALFORMED;
            }
            ret_message->list[list++] = (struct cv_list){word, count};
            word += count;
        } else {
            if (!get_number(&r, &ret_message->field[scalar]) ||
                (f->kind != CV_FIELD_U64 &&
                 !is_in_range(f->kind, ret_message->field[scalar], member_count))) {
                return CV_E_MALFORMED;
            }
            scalar++;
        }
    }
    CV_ASSERT(scalar <= CV_FIELDS_MAX);
    CV_ASSERT(list <= CV_LISTS_MAX);
    CV_ASSERT(r.at <= r.end); /* nothing was read past the end */
    return r.at == r.end ? CV_OK : CV_E_MALFORMED;
}
