/* tests/unit/test_effects.c - effects are data: ordered, bounded, complete. */
#include "core/effects.h"
#include "support/support.h"

#include <string.h>

#define WORD_CAPACITY 8u

struct room {
    struct cv_effect item[CV_EFFECTS_MAX];
    uint64_t word[WORD_CAPACITY];
    struct cv_effects out;
};

/* The host reuses its storage: nothing of an earlier step may be visible. */
static void room_make(struct room *room)
{
    memset(room, 0xa5, sizeof *room);
    room->out =
        (struct cv_effects){.item = room->item, .word = room->word, .word_capacity = WORD_CAPACITY};
}

static void keeps_the_order_of_the_calls(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    const uint64_t promise[2] = {7, 8};
    cv__effect_persist(&room.out, promise, 2);
    (void)cv__effect_send(&room.out, 3, 1);
    cv__effect_arm(&room.out, 0, 10, 30);
    cv__effect_disarm(&room.out, 7);
    const enum cv_effect_kind expected[] = {CV_EFFECT_PERSIST, CV_EFFECT_SEND, CV_EFFECT_ARM,
                                            CV_EFFECT_DISARM};
    assert_int_equal(room.out.item_count, COUNT_OF(expected));
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(room.item[i].kind, expected[i]);
    }
}

static void sends_to_one_to_a_range_and_to_all_others(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    (void)cv__effect_send(&room.out, 3, 1);
    (void)cv__effect_send_range(&room.out, 4, 9, 1);
    (void)cv__effect_send_all(&room.out, 1);
    const cv_id first_last[][2] = {{3, 3}, {4, 9}, {1, CV_MEMBERS_MAX}};
    for (uint32_t i = 0; i < COUNT_OF(first_last); i++) {
        assert_int_equal(room.item[i].first, first_last[i][0]);
        assert_int_equal(room.item[i].last, first_last[i][1]);
        assert_false(room.item[i].to_self);
    }
}

static void hands_out_messages_with_all_fields_zero(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    const struct cv_message *message = cv__effect_send(&room.out, 3, 5);
    assert_int_equal(message->type, 5);
    for (uint32_t i = 0; i < CV_FIELDS_MAX; i++) {
        assert_int_equal(message->field[i], 0);
    }
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        assert_int_equal(message->list[i].word_count, 0);
    }
}

static void copies_lists_so_that_the_core_may_go_on_changing_them(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    uint64_t words[2] = {1, 2};
    const struct cv_list first = cv__effect_list(&room.out, words, 2);
    words[0] = 99;
    const struct cv_list second = cv__effect_list(&room.out, words, 2);
    assert_int_equal(first.word_count, 2);
    assert_int_equal(first.word[0], 1);
    assert_int_equal(first.word[1], 2);
    assert_int_equal(second.word[0], 99);
}

static void copies_what_is_to_persist(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    uint64_t words[CV_PERSIST_WORDS_MAX] = {1, 2, 3, 4, 5, 6, 7, 8};
    cv__effect_persist(&room.out, words, CV_PERSIST_WORDS_MAX);
    words[7] = 99;
    assert_int_equal(room.item[0].persist_count, CV_PERSIST_WORDS_MAX);
    assert_int_equal(room.item[0].persist[7], 8);
}

static void has_room_for_its_bound_and_trips_beyond(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    for (uint32_t i = 0; i < CV_EFFECTS_MAX; i++) {
        cv__effect_disarm(&room.out, 0);
    }
    assert_int_equal(room.out.item_count, CV_EFFECTS_MAX);
    assert_trips(cv__effect_disarm(&room.out, 0));
}

static void fills_its_words_to_the_last_and_trips_beyond(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    const uint64_t words[WORD_CAPACITY] = {0};
    (void)cv__effect_list(&room.out, words, WORD_CAPACITY);
    (void)cv__effect_list(&room.out, words, 0);
    assert_trips((void)cv__effect_list(&room.out, words, 1));
}

static void trips_on_effects_that_make_no_sense(void **unused)
{
    (void)unused;
    struct room room;
    room_make(&room);
    const uint64_t words[CV_PERSIST_WORDS_MAX + 1] = {0};
    assert_trips((void)cv__effect_send(&room.out, CV_ID_NONE, 1));
    assert_trips((void)cv__effect_send(&room.out, CV_MEMBERS_MAX + 1, 1));
    assert_trips(cv__effect_arm(&room.out, CV_TIMERS_MAX, 10, 30));
    assert_trips(cv__effect_arm(&room.out, 0, 30, 10));
    assert_trips(cv__effect_disarm(&room.out, CV_TIMERS_MAX));
    assert_trips(cv__effect_persist(&room.out, words, 0));
    assert_trips(cv__effect_persist(&room.out, words, CV_PERSIST_WORDS_MAX + 1));
    const struct cv_leadership leadership = {.reason = CV_REASON_COUNT};
    assert_trips(cv__effect_leadership(&room.out, &leadership));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_order_of_the_calls),
        cmocka_unit_test(sends_to_one_to_a_range_and_to_all_others),
        cmocka_unit_test(hands_out_messages_with_all_fields_zero),
        cmocka_unit_test(copies_lists_so_that_the_core_may_go_on_changing_them),
        cmocka_unit_test(copies_what_is_to_persist),
        cmocka_unit_test(has_room_for_its_bound_and_trips_beyond),
        cmocka_unit_test(fills_its_words_to_the_last_and_trips_beyond),
        cmocka_unit_test(trips_on_effects_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
