/* tests/unit/test_message.c - the fields of a message by name: each is read where it was written,
 * at its place in the wire table. */
#include "core/effects.h"
#include "core/message.h"
#include "support/support.h"

#define LETTER_FIELDS(FIELD) \
    FIELD(U64, epoch)        \
    FIELD(SET, alive)        \
    FIELD(FLAG, urgent)      \
    FIELD(ID_NONE, heir)     \
    FIELD(VALUES, delays)    \
    FIELD(ID, sender)
CV_MESSAGE_VIEW(letter, LETTER_FIELDS)

/* A view of the first field of a letter. */
#define ENVELOPE_FIELDS(FIELD) FIELD(U64, epoch)
CV_MESSAGE_VIEW(envelope, ENVELOPE_FIELDS)

static const struct cv_message_type letter_type = CV_MESSAGE_TYPE("LETTER", LETTER_FIELDS);

static void has_the_wire_table_in_the_order_of_the_list(void **unused)
{
    (void)unused;
    static const struct cv_field wanted[] = {
        {"epoch", CV_FIELD_U64},    {"alive", CV_FIELD_SET},     {"urgent", CV_FIELD_FLAG},
        {"heir", CV_FIELD_ID_NONE}, {"delays", CV_FIELD_VALUES}, {"sender", CV_FIELD_ID},
    };
    assert_string_equal(letter_type.name, "LETTER");
    for (uint32_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_string_equal(letter_type.fields[i].name, wanted[i].name);
        assert_int_equal(letter_type.fields[i].kind, wanted[i].kind);
    }
    assert_int_equal(letter_type.fields[COUNT_OF(wanted)].kind, CV_FIELD_END);
}

static void counts_scalars_and_lists_apart(void **unused)
{
    (void)unused;
    const uint64_t word[2] = {5, 6};
    struct cv_message message = {0};
    letter_write(&message, (struct letter){.epoch = UINT64_MAX,
                                           .alive = {word, 1},
                                           .urgent = true,
                                           .heir = 3,
                                           .delays = {word + 1, 1},
                                           .sender = 4096});
    assert_true(message.field[0] == UINT64_MAX);
    assert_int_equal(message.field[1], 1);
    assert_int_equal(message.field[2], 3);
    assert_int_equal(message.field[3], 4096);
    assert_ptr_equal(message.list[0].word, word);
    assert_ptr_equal(message.list[1].word, word + 1);
}

static void reads_what_was_written(void **unused)
{
    (void)unused;
    const uint64_t word = 9;
    struct cv_message message = {0};
    letter_write(&message,
                 (struct letter){.epoch = 7, .alive = {&word, 1}, .heir = 2, .sender = 8});
    const struct letter letter = letter_read(&message);
    assert_int_equal(letter.epoch, 7);
    assert_false(letter.urgent);
    assert_int_equal(letter.heir, 2);
    assert_int_equal(letter.sender, 8);
    assert_ptr_equal(letter.alive.word, &word);
    assert_int_equal(letter.delays.word_count, 0);
    assert_int_equal(envelope_read(&message).epoch, 7);
}

static void notes_cost_nothing_when_nobody_watches(void **unused)
{
    (void)unused;
    struct cv_note note[CV_NOTES_MAX];
    struct cv_effects out = {0};
    cv__effect_note(&out, "ignored", 1, 0, 0);
    assert_int_equal(out.note_count, 0);
    out.note = note;
    for (uint32_t i = 0; i < CV_NOTES_MAX + 3; i++) {
        cv__effect_note(&out, "ignored", 1 + i, 0, 0);
    }
    assert_int_equal(out.note_count, CV_NOTES_MAX);
    assert_int_equal(note[0].peer, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_wire_table_in_the_order_of_the_list),
        cmocka_unit_test(counts_scalars_and_lists_apart),
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(notes_cost_nothing_when_nobody_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
