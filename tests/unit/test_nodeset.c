/* tests/unit/test_nodeset.c - sets of members, at and around the boundaries of their words. */
#include "core/nodeset.h"
#include "support/support.h"

#include <string.h>

#define WORDS_MAX (CV_MEMBERS_MAX / 64)

/* Both sides of each word boundary, and the largest cluster. */
static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 4095, CV_MEMBERS_MAX};

static void fill(uint64_t *set, uint32_t member_count)
{
    cv__set_clear(set, member_count);
    for (cv_id id = 1; id <= member_count; id++) {
        cv__set_add(set, id);
    }
}

static void takes_one_word_per_64_members(void **unused)
{
    (void)unused;
    assert_int_equal(cv__set_words(1), 1);
    assert_int_equal(cv__set_words(64), 1);
    assert_int_equal(cv__set_words(65), 2);
    assert_int_equal(cv__set_words(CV_MEMBERS_MAX), WORDS_MAX);
}

static void has_the_added_members_and_no_others(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t set[WORDS_MAX];
        const cv_id added = sizes[i];
        cv__set_clear(set, sizes[i]);
        cv__set_add(set, added);
        cv__set_add(set, added); /* again changes nothing */
        for (cv_id id = 1; id <= sizes[i]; id++) {
            assert_int_equal(cv__set_has(set, id), id == added);
        }
        assert_int_equal(cv__set_count(set, sizes[i]), 1);
    }
}

static void removes_one_and_leaves_the_others(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t set[WORDS_MAX];
        fill(set, sizes[i]);
        cv__set_remove(set, sizes[i]);
        cv__set_remove(set, sizes[i]); /* again changes nothing */
        assert_false(cv__set_has(set, sizes[i]));
        assert_int_equal(cv__set_count(set, sizes[i]), sizes[i] - 1);
    }
}

static void counts_a_full_set_of_every_size(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t set[WORDS_MAX];
        fill(set, sizes[i]);
        assert_int_equal(cv__set_count(set, sizes[i]), sizes[i]);
    }
}

static void touches_no_word_behind_its_width(void **unused)
{
    (void)unused;
    uint64_t set[3] = {7, 7, 7};
    const uint64_t full[2] = {~UINT64_C(0), 1};
    cv__set_copy(set, full, 65);
    assert_int_equal(set[2], 7);
    cv__set_unite(set, full, 65);
    assert_int_equal(set[2], 7);
    cv__set_clear(set, 65);
    assert_int_equal(set[2], 7);
    assert_int_equal(cv__set_count(set, 65), 0);
}

static void unites_two_sets(void **unused)
{
    (void)unused;
    uint64_t odd[2] = {0, 0};
    uint64_t even[2] = {0, 0};
    for (cv_id id = 1; id <= 100; id++) {
        cv__set_add(id % 2 == 1 ? odd : even, id);
    }
    cv__set_unite(odd, even, 100);
    assert_int_equal(cv__set_count(odd, 100), 100);
    assert_int_equal(cv__set_count(even, 100), 50);
}

static void is_a_subset_unless_one_member_is_missing(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t all[WORDS_MAX], one[WORDS_MAX], none[WORDS_MAX];
        fill(all, sizes[i]);
        cv__set_clear(none, sizes[i]);
        cv__set_clear(one, sizes[i]);
        cv__set_add(one, sizes[i]);
        assert_true(cv__set_is_subset(none, none, sizes[i]));
        assert_true(cv__set_is_subset(all, all, sizes[i]));
        assert_true(cv__set_is_subset(one, all, sizes[i]));
        cv__set_remove(all, sizes[i]);
        assert_false(cv__set_is_subset(one, all, sizes[i]));
    }
}

static void walks_its_members_upwards(void **unused)
{
    (void)unused;
    const cv_id members[] = {1, 2, 63, 64, 65, 66, 1000, 4095, 4096};
    uint64_t set[WORDS_MAX];
    cv__set_clear(set, CV_MEMBERS_MAX);
    for (uint32_t i = 0; i < COUNT_OF(members); i++) {
        cv__set_add(set, members[i]);
    }
    uint32_t at = 0;
    for (cv_id id = cv__set_next(set, 1, CV_MEMBERS_MAX); id != CV_ID_NONE;
         id = cv__set_next(set, id + 1, CV_MEMBERS_MAX)) {
        assert_int_equal(id, members[at++]);
    }
    assert_int_equal(at, COUNT_OF(members));
}

static void walks_its_members_downwards(void **unused)
{
    (void)unused;
    const cv_id members[] = {4096, 4095, 1000, 66, 65, 64, 63, 2, 1};
    uint64_t set[WORDS_MAX];
    cv__set_clear(set, CV_MEMBERS_MAX);
    for (uint32_t i = 0; i < COUNT_OF(members); i++) {
        cv__set_add(set, members[i]);
    }
    uint32_t at = 0;
    for (cv_id id = cv__set_last(set, CV_MEMBERS_MAX, CV_MEMBERS_MAX); id != CV_ID_NONE;
         id = cv__set_last(set, id - 1, CV_MEMBERS_MAX)) {
        assert_int_equal(id, members[at++]);
    }
    assert_int_equal(at, COUNT_OF(members));
}

static void finds_nobody_in_an_empty_set(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        uint64_t set[WORDS_MAX];
        cv__set_clear(set, sizes[i]);
        assert_int_equal(cv__set_next(set, 1, sizes[i]), CV_ID_NONE);
        assert_int_equal(cv__set_last(set, sizes[i], sizes[i]), CV_ID_NONE);
    }
}

static void finds_nobody_beyond_the_last_or_before_the_first(void **unused)
{
    (void)unused;
    uint64_t set[WORDS_MAX];
    fill(set, CV_MEMBERS_MAX);
    assert_int_equal(cv__set_next(set, CV_MEMBERS_MAX + 1, CV_MEMBERS_MAX), CV_ID_NONE);
    assert_int_equal(cv__set_last(set, CV_ID_NONE, CV_MEMBERS_MAX), CV_ID_NONE);
}

static void trips_on_an_id_that_is_no_member(void **unused)
{
    (void)unused;
    uint64_t set[1] = {0};
    assert_trips(cv__set_add(set, CV_ID_NONE));
    assert_trips(cv__set_remove(set, CV_ID_NONE));
    assert_trips((void)cv__set_has(set, CV_ID_NONE));
    assert_trips((void)cv__set_next(set, CV_ID_NONE, 5));
}

static void trips_on_a_set_with_more_members_than_there_are(void **unused)
{
    (void)unused;
    const uint64_t set[1] = {0x7}; /* three, of two */
    assert_trips((void)cv__set_count(set, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_one_word_per_64_members),
        cmocka_unit_test(has_the_added_members_and_no_others),
        cmocka_unit_test(removes_one_and_leaves_the_others),
        cmocka_unit_test(counts_a_full_set_of_every_size),
        cmocka_unit_test(touches_no_word_behind_its_width),
        cmocka_unit_test(unites_two_sets),
        cmocka_unit_test(is_a_subset_unless_one_member_is_missing),
        cmocka_unit_test(walks_its_members_upwards),
        cmocka_unit_test(walks_its_members_downwards),
        cmocka_unit_test(finds_nobody_in_an_empty_set),
        cmocka_unit_test(finds_nobody_beyond_the_last_or_before_the_first),
        cmocka_unit_test(trips_on_an_id_that_is_no_member),
        cmocka_unit_test(trips_on_a_set_with_more_members_than_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
