/* tests/property/prop_codec.c - messages of every type of every protocol, over seeds: an encoded
 * message decodes to the same one, and bytes that decode at all are encoded to the same bytes. */
#include "core/core.h"
#include "support/draw.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t member_counts[] = {1, 2, 5, 63, 64, 65, 200};
#define MEMBERS_MAX 200u

struct wire {
    const struct cv_protocol *protocol;
    uint32_t members;
    size_t bytes_max;
    uint8_t *bytes, *again;
    size_t count;
    uint64_t *word;
};

static struct wire wire_make(const struct cv_protocol *protocol, uint32_t members)
{
    struct wire w = {.protocol = protocol, .members = members};
    w.bytes_max = cv_message_bytes_max(protocol, members);
    w.bytes = malloc(w.bytes_max + 16); /* room for mutations that make it longer */
    w.again = malloc(w.bytes_max);
    w.word = calloc(cv_message_words_max(members), sizeof *w.word);
    assert_true(w.bytes != NULL && w.again != NULL && w.word != NULL);
    return w;
}

static void wire_end(struct wire *w)
{
    free(w->bytes);
    free(w->again);
    free(w->word);
}

static void each_wire(void (*check)(struct wire *w, uint64_t *seed))
{
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        if (protocol->message_count == 0) {
            continue; /* it asks a store, and sends no messages */
        }
        for (uint32_t j = 0; j < COUNT_OF(member_counts); j++) {
            struct wire w = wire_make(protocol, member_counts[j]);
            uint64_t seed = 1000 * i + j;
            for (uint32_t round = 0; round < test_scale(2000); round++) {
                check(&w, &seed);
            }
            wire_end(&w);
        }
    }
}

static void encode_random(struct wire *w, uint64_t *seed, struct cv_message *ret_message,
                          uint64_t *drawn)
{
    draw_message(w->protocol, w->members, DRAW_ANYTHING, seed, drawn, ret_message);
    w->count = cv__message_encode(w->protocol, w->members, ret_message, w->bytes);
    assert_in_range(w->count, 1, w->bytes_max);
}

static void check_round_trip(struct wire *w, uint64_t *seed)
{
    uint64_t drawn[DRAW_WORDS(MEMBERS_MAX)];
    struct cv_message sent;
    encode_random(w, seed, &sent, drawn);
    struct cv_message got;
    memset(&got, 0xa5, sizeof got);
    assert_int_equal(cv_message_decode(w->protocol, w->members, w->bytes, w->count, w->word, &got),
                     CV_OK);
    assert_int_equal(got.type, sent.type);
    const struct cv_field *field = w->protocol->messages[sent.type].fields;
    uint32_t scalars = 0;
    uint32_t lists = 0;
    for (; field->kind != CV_FIELD_END; field++) {
        if (field->kind == CV_FIELD_SET || field->kind == CV_FIELD_VALUES) {
            assert_int_equal(got.list[lists].word_count, sent.list[lists].word_count);
            if (sent.list[lists].word_count > 0) {
                assert_memory_equal(got.list[lists].word, sent.list[lists].word,
                                    sent.list[lists].word_count * sizeof(uint64_t));
            }
            lists++;
        } else {
            assert_int_equal(got.field[scalars], sent.field[scalars]);
            scalars++;
        }
    }
}

static void random_messages_of_every_type_come_back_the_same(void **unused)
{
    (void)unused;
    each_wire(check_round_trip);
}

/* One to three changes: a flipped bit, another byte, one byte more, one byte less, or a shorter
 * end. */
static void mutate(struct wire *w, uint64_t *seed)
{
    const uint32_t changes = 1 + test_random_below(seed, 3);
    for (uint32_t i = 0; i < changes && w->count > 0; i++) {
        const uint32_t at = test_random_below(seed, (uint32_t)w->count);
        switch (test_random_below(seed, 5)) {
        case 0:
            w->bytes[at] ^= (uint8_t)(1 << test_random_below(seed, 8));
            break;
        case 1:
            w->bytes[at] = (uint8_t)test_random(seed);
            break;
        case 2:
            if (w->count < w->bytes_max + 16) {
                memmove(w->bytes + at + 1, w->bytes + at, w->count - at);
                w->bytes[at] = (uint8_t)test_random(seed);
                w->count++;
            }
            break;
        case 3:
            memmove(w->bytes + at, w->bytes + at + 1, w->count - at - 1);
            w->count--;
            break;
        default:
            w->count = at;
            break;
        }
    }
}

static uint64_t mutants_decoded;

static void check_mutant(struct wire *w, uint64_t *seed)
{
    uint64_t drawn[DRAW_WORDS(MEMBERS_MAX)];
    struct cv_message message;
    encode_random(w, seed, &message, drawn);
    mutate(w, seed);
    /* A copy of exactly this length lets the sanitizer see a read past its end. */
    uint8_t *exact = malloc(w->count > 0 ? w->count : 1);
    assert_non_null(exact);
    memcpy(exact, w->bytes, w->count);
    struct cv_message got;
    if (cv_message_decode(w->protocol, w->members, exact, w->count, w->word, &got) == CV_OK) {
        mutants_decoded++;
        const size_t count = cv__message_encode(w->protocol, w->members, &got, w->again);
        assert_int_equal(count, w->count);
        assert_memory_equal(w->again, exact, count);
    }
    free(exact);
}

static void mutated_bytes_decode_only_if_they_encode_to_the_same_bytes(void **unused)
{
    (void)unused;
    mutants_decoded = 0;
    each_wire(check_mutant);
    assert_true(mutants_decoded > test_scale(1000)); /* many do decode, so the test can fail */
}

static void check_noise(struct wire *w, uint64_t *seed)
{
    w->count = test_random_below(seed, (uint32_t)(w->bytes_max < 40 ? w->bytes_max : 40));
    for (size_t i = 0; i < w->count; i++) {
        w->bytes[i] = (uint8_t)test_random(seed);
    }
    if (w->count > 1 && test_random_below(seed, 2) == 0) {
        w->bytes[0] = 1; /* the right version, so that the rest is decoded */
        w->bytes[1] = (uint8_t)test_random_below(seed, w->protocol->message_count);
    }
    struct cv_message got;
    if (cv_message_decode(w->protocol, w->members, w->bytes, w->count, w->word, &got) == CV_OK) {
        const size_t count = cv__message_encode(w->protocol, w->members, &got, w->again);
        assert_int_equal(count, w->count);
        assert_memory_equal(w->again, w->bytes, count);
    }
}

static void noise_decodes_only_if_it_encodes_to_the_same_bytes(void **unused)
{
    (void)unused;
    each_wire(check_noise);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_of_every_type_come_back_the_same),
        cmocka_unit_test(mutated_bytes_decode_only_if_they_encode_to_the_same_bytes),
        cmocka_unit_test(noise_decodes_only_if_it_encodes_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
