/* tests/unit/test_codec.c - messages as bytes: one encoding each, and nothing else decodes. */
#include "core/core.h"
#include "core/nodeset.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

enum { PLAIN, EMPTY, SETS, LISTS };

/* Not a protocol that could run: the codec looks at the table of messages only. */
static const struct cv_message_type messages[] = {
    [PLAIN] = {"PLAIN",
               {{"number", CV_FIELD_U64},
                {"flag", CV_FIELD_FLAG},
                {"id", CV_FIELD_ID},
                {"id-or-none", CV_FIELD_ID_NONE}},
               false},
    [EMPTY] = {"EMPTY", {{NULL, CV_FIELD_END}}, false},
    [SETS] = {"SETS", {{"a", CV_FIELD_SET}, {"number", CV_FIELD_U64}, {"b", CV_FIELD_SET}}, false},
    [LISTS] = {"LISTS",
               {{"a", CV_FIELD_VALUES}, {"b", CV_FIELD_VALUES}, {"c", CV_FIELD_VALUES}},
               false},
};
static const struct cv_protocol protocol = {
    .name = "codec-test",
    .messages = messages,
    .message_count = COUNT_OF(messages),
};

/* The buffer has exactly the size that the header promises, so that the sanitizers see a write past
 * it. */
struct wire {
    uint32_t member_count;
    uint8_t *bytes;
    size_t byte_count;
    uint64_t *word;
    struct cv_message decoded;
};

static struct wire wire_make(uint32_t member_count)
{
    struct wire w = {.member_count = member_count};
    w.bytes = malloc(cv_message_bytes_max(&protocol, member_count));
    w.word = calloc(cv_message_words_max(member_count), sizeof *w.word);
    assert_non_null(w.bytes);
    assert_non_null(w.word);
    return w;
}

static void wire_end(struct wire *w)
{
    free(w->bytes);
    free(w->word);
}

static void wire_encode(struct wire *w, const struct cv_message *message)
{
    w->byte_count = cv__message_encode(&protocol, w->member_count, message, w->bytes);
    assert_true(w->byte_count <= cv_message_bytes_max(&protocol, w->member_count));
}

static int wire_decode(struct wire *w)
{
    return cv_message_decode(&protocol, w->member_count, w->bytes, w->byte_count, w->word,
                             &w->decoded);
}

/* Decodes bytes written by hand. They are copied, so that the sanitizers see a read past their
 * end. */
static int decode_bytes(uint32_t member_count, const uint8_t *bytes, size_t byte_count)
{
    struct wire w = wire_make(member_count);
    uint8_t *copy = malloc(byte_count > 0 ? byte_count : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, byte_count);
    const int result =
        cv_message_decode(&protocol, member_count, copy, byte_count, w.word, &w.decoded);
    free(copy);
    wire_end(&w);
    return result;
}

#define assert_malformed(member_count, ...)                                     \
    assert_int_equal(decode_bytes(member_count, (const uint8_t[]){__VA_ARGS__}, \
                                  sizeof((const uint8_t[]){__VA_ARGS__})),      \
                     CV_E_MALFORMED)
#define assert_decodes(member_count, ...)                                       \
    assert_int_equal(decode_bytes(member_count, (const uint8_t[]){__VA_ARGS__}, \
                                  sizeof((const uint8_t[]){__VA_ARGS__})),      \
                     CV_OK)

static void returns_the_scalars_that_were_sent(void **unused)
{
    (void)unused;
    const uint64_t numbers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(numbers); i++) {
        struct wire w = wire_make(5);
        const struct cv_message sent = {.type = PLAIN, .field = {numbers[i], 1, 5, 0}};
        wire_encode(&w, &sent);
        assert_int_equal(wire_decode(&w), CV_OK);
        assert_int_equal(w.decoded.type, PLAIN);
        assert_memory_equal(w.decoded.field, sent.field, sizeof sent.field);
        wire_end(&w);
    }
}

static void returns_the_sets_that_were_sent_for_any_number_of_members(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 4095, CV_MEMBERS_MAX};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t all[CV_MEMBERS_MAX / 64] = {0};
        uint64_t none[CV_MEMBERS_MAX / 64] = {0};
        for (cv_id id = 1; id <= sizes[i]; id++) {
            cv__set_add(all, id);
        }
        const uint32_t words = cv__set_words(sizes[i]);
        const struct cv_message sent = {
            .type = SETS, .field = {42}, .list = {{all, words}, {none, words}}};
        struct wire w = wire_make(sizes[i]);
        wire_encode(&w, &sent);
        assert_int_equal(wire_decode(&w), CV_OK);
        assert_int_equal(w.decoded.field[0], 42);
        assert_int_equal(w.decoded.list[0].word_count, words);
        assert_int_equal(w.decoded.list[1].word_count, words);
        assert_memory_equal(w.decoded.list[0].word, all, words * sizeof *all);
        assert_memory_equal(w.decoded.list[1].word, none, words * sizeof *none);
        wire_end(&w);
    }
}

static void holds_the_largest_message_there_can_be(void **unused)
{
    (void)unused;
    uint64_t *values = malloc(CV_MEMBERS_MAX * sizeof *values);
    assert_non_null(values);
    for (uint32_t i = 0; i < CV_MEMBERS_MAX; i++) {
        values[i] = UINT64_MAX - i; /* ten bytes each */
    }
    const struct cv_list list = {values, CV_MEMBERS_MAX};
    const struct cv_message sent = {.type = LISTS, .list = {list, list, list}};
    struct wire w = wire_make(CV_MEMBERS_MAX);
    wire_encode(&w, &sent);
    assert_int_equal(wire_decode(&w), CV_OK);
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        assert_int_equal(w.decoded.list[i].word_count, CV_MEMBERS_MAX);
        assert_memory_equal(w.decoded.list[i].word, values, CV_MEMBERS_MAX * sizeof *values);
    }
    wire_end(&w);
    free(values);
}

static void sends_a_message_without_fields_as_two_bytes(void **unused)
{
    (void)unused;
    struct wire w = wire_make(3);
    wire_encode(&w, &(struct cv_message){.type = EMPTY});
    assert_int_equal(w.byte_count, 2);
    assert_int_equal(wire_decode(&w), CV_OK);
    wire_end(&w);
}

static void refuses_every_message_that_was_cut_short(void **unused)
{
    (void)unused;
    uint64_t set[2] = {~UINT64_C(0), 1};
    const struct cv_message sent = {
        .type = SETS, .field = {UINT64_MAX}, .list = {{set, 2}, {set, 2}}};
    struct wire w = wire_make(65);
    wire_encode(&w, &sent);
    for (size_t length = 0; length < w.byte_count; length++) {
        assert_int_equal(decode_bytes(65, w.bytes, length), CV_E_MALFORMED);
    }
    wire_end(&w);
}

static void refuses_bytes_left_over(void **unused)
{
    (void)unused;
    assert_decodes(3, 1, EMPTY);
    assert_malformed(3, 1, EMPTY, 0);
}

static void refuses_other_versions_and_unknown_types(void **unused)
{
    (void)unused;
    assert_malformed(3, 0, EMPTY);
    assert_malformed(3, 2, EMPTY);
    assert_malformed(3, 255, EMPTY);
    assert_malformed(3, 1, COUNT_OF(messages));
    assert_malformed(3, 1, 255);
}

static void refuses_scalars_outside_their_range(void **unused)
{
    (void)unused;
    assert_decodes(3, 1, PLAIN, 0, 1, 3, 3);
    assert_malformed(3, 1, PLAIN, 0, 2, 3, 3); /* a flag that is neither 0 nor 1 */
    assert_malformed(3, 1, PLAIN, 0, 1, 0, 3); /* an id that is nobody */
    assert_malformed(3, 1, PLAIN, 0, 1, 4, 3); /* a stranger */
    assert_malformed(3, 1, PLAIN, 0, 1, 3, 4);
}

static void refuses_ids_that_are_valid_only_when_cut_to_32_bits(void **unused)
{
    (void)unused;
    /* Cut to 32 bits, 2^32 + 1 would be member 1. */
    assert_malformed(3, 1, PLAIN, 0, 1, 0x81, 0x80, 0x80, 0x80, 0x10, 3);
}

static void refuses_a_second_spelling_of_a_number(void **unused)
{
    (void)unused;
    assert_decodes(3, 1, PLAIN, 0x80, 0x01, 0, 1, 0);
    assert_malformed(3, 1, PLAIN, 0x80, 0x00, 0, 1, 0); /* zero in two bytes */
    assert_malformed(3, 1, PLAIN, 0xff, 0x80, 0x00, 0, 1, 0);
}

static void refuses_numbers_of_more_than_64_bits(void **unused)
{
    (void)unused;
#define NINE_TIMES_FF 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
    assert_decodes(3, 1, PLAIN, NINE_TIMES_FF, 0x01, 0, 1, 0);
    assert_malformed(3, 1, PLAIN, NINE_TIMES_FF, 0x02, 0, 1, 0);
    assert_malformed(3, 1, PLAIN, NINE_TIMES_FF, 0x81, 0x00, 0, 1, 0);
    assert_malformed(3, 1, PLAIN, NINE_TIMES_FF, 0xff, 0xff, 0x01, 0, 1, 0);
}

static void refuses_sets_with_strangers(void **unused)
{
    (void)unused;
    assert_decodes(3, 1, SETS, 1, 0x07, 0, 0);
    assert_malformed(3, 1, SETS, 1, 0x08, 0, 0);       /* member 4 of 3 */
    assert_malformed(3, 1, SETS, 2, 0x07, 0x01, 0, 0); /* member 9 of 3 */
    assert_decodes(64, 1, SETS, 8, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0);
    assert_malformed(64, 1, SETS, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
    assert_decodes(65, 1, SETS, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
    assert_malformed(65, 1, SETS, 9, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0);
}

static void refuses_a_second_spelling_of_a_set(void **unused)
{
    (void)unused;
    assert_decodes(9, 1, SETS, 0, 0, 0);
    assert_malformed(9, 1, SETS, 1, 0x00, 0, 0);       /* trailing zero */
    assert_malformed(9, 1, SETS, 2, 0x07, 0x00, 0, 0); /* trailing zero */
}

static void refuses_lengths_that_promise_more_than_there_is(void **unused)
{
    (void)unused;
    assert_malformed(4096, 1, SETS, 0x80, 0x04, 0x01);  /* 512 bytes, one is there */
    assert_malformed(4096, 1, LISTS, 0x80, 0x20, 0x01); /* 4096 values, one is there */
    assert_malformed(4096, 1, LISTS, 0xff, 0xff, 0xff, 0xff, 0x0f);
    assert_malformed(4096, 1, SETS, NINE_TIMES_FF, 0x01);
}

static void refuses_more_values_than_members(void **unused)
{
    (void)unused;
    assert_decodes(2, 1, LISTS, 2, 9, 9, 0, 0);
    assert_malformed(2, 1, LISTS, 3, 9, 9, 9, 0, 0);
}

static void trips_on_messages_that_our_own_side_must_not_send(void **unused)
{
    (void)unused;
    struct wire w = wire_make(3);
    assert_trips(wire_encode(&w, &(struct cv_message){.type = COUNT_OF(messages)}));
    assert_trips(wire_encode(&w, &(struct cv_message){.type = PLAIN, .field = {0, 2, 1, 0}}));
    assert_trips(wire_encode(&w, &(struct cv_message){.type = PLAIN, .field = {0, 0, 4, 0}}));
    assert_trips(wire_encode(&w, &(struct cv_message){.type = SETS}));
    wire_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_scalars_that_were_sent),
        cmocka_unit_test(returns_the_sets_that_were_sent_for_any_number_of_members),
        cmocka_unit_test(holds_the_largest_message_there_can_be),
        cmocka_unit_test(sends_a_message_without_fields_as_two_bytes),
        cmocka_unit_test(refuses_every_message_that_was_cut_short),
        cmocka_unit_test(refuses_bytes_left_over),
        cmocka_unit_test(refuses_other_versions_and_unknown_types),
        cmocka_unit_test(refuses_scalars_outside_their_range),
        cmocka_unit_test(refuses_ids_that_are_valid_only_when_cut_to_32_bits),
        cmocka_unit_test(refuses_a_second_spelling_of_a_number),
        cmocka_unit_test(refuses_numbers_of_more_than_64_bits),
        cmocka_unit_test(refuses_sets_with_strangers),
        cmocka_unit_test(refuses_a_second_spelling_of_a_set),
        cmocka_unit_test(refuses_lengths_that_promise_more_than_there_is),
        cmocka_unit_test(refuses_more_values_than_members),
        cmocka_unit_test(trips_on_messages_that_our_own_side_must_not_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
