/* tests/unit/test_joining.c - when a member without a state may take part, so that no token that it
 * helped to establish before is used again. */
#include "runtime/joining.h"
#include "support/support.h"

#include <string.h>

#define WAIT_NS 100

static struct cv_joining_answer answer[8];

static struct cv_joining begin(uint32_t member_count, uint64_t base)
{
    struct cv_joining j;
    cv__joining_begin(&j, /* self= */ 1, member_count, base, WAIT_NS, /* question= */ 5, answer);
    return j;
}

static enum cv_joining_decision decide(const struct cv_joining *j)
{
    uint64_t floor;
    return cv__joining_decide(j, &floor);
}

static void members_that_all_lack_a_state_found_the_cluster(void **unused)
{
    (void)unused;
    struct cv_joining j = begin(3, 0);
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
    cv__joining_hear(&j, 2, 5, CV_JOINING_NOTHING, 0);
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
    assert_false(j.is_ready);
    cv__joining_hear(&j, 3, 5, CV_JOINING_NOTHING, 0);
    assert_true(j.is_ready);
    assert_int_equal(decide(&j), CV_JOINING_WAIT); /* the others may not know of each other yet */
    cv__joining_hear(&j, 3, 5, CV_JOINING_READY, 0);
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
    cv__joining_hear(&j, 2, 5, CV_JOINING_READY, 0);
    assert_int_equal(decide(&j), CV_JOINING_FOUND);
    j = begin(1, 0);
    assert_int_equal(decide(&j), CV_JOINING_FOUND);
}

static void founders_that_remember_nothing_do_not_stop_the_last(void **unused)
{
    (void)unused;
    struct cv_joining j = begin(3, 1000);
    cv__joining_hear(&j, 2, 5, CV_JOINING_STATE, 1000);
    cv__joining_hear(&j, 3, 5, CV_JOINING_NOTHING, 0);
    assert_int_equal(decide(&j), CV_JOINING_FOUND);
}

/* Another member knew that all were ready; it has begun, and leads alone, as a protocol without
 * majorities allows. */
static void a_ready_member_begins_after_another_has(void **unused)
{
    (void)unused;
    struct cv_joining j = begin(3, 0);
    cv__joining_hear(&j, 2, 5, CV_JOINING_READY, 0);
    cv__joining_hear(&j, 3, 5, CV_JOINING_NOTHING, 0);
    assert_true(j.is_ready);
    cv__joining_hear(&j, 2, 5, CV_JOINING_STATE, 1);
    assert_int_equal(decide(&j), CV_JOINING_FOUND);
}

static void one_member_that_remembers_stops_founding(void **unused)
{
    (void)unused;
    struct cv_joining j = begin(3, 0);
    cv__joining_hear(&j, 2, 5, CV_JOINING_STATE, 7);
    cv__joining_hear(&j, 3, 5, CV_JOINING_NOTHING, 0);
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
    assert_true(cv__joining_at(&j, WAIT_NS, 6));
    cv__joining_hear(&j, 2, 6, CV_JOINING_STATE, 7);
    cv__joining_hear(&j, 3, 6, CV_JOINING_NOTHING, 0); /* a majority has lost its state: 1 and 3 */
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
}

static void rejoins_above_all_that_the_others_remember(void **unused)
{
    (void)unused;
    struct cv_joining j = begin(5, 0);
    cv__joining_hear(&j, 2, 5, CV_JOINING_STATE, 7);
    cv__joining_hear(&j, 3, 5, CV_JOINING_STATE, 9);
    cv__joining_hear(&j, 4, 5, CV_JOINING_STATE, 8);
    assert_int_equal(decide(&j), CV_JOINING_WAIT); /* an earlier promise may still bind */
    assert_false(cv__joining_at(&j, WAIT_NS - 1, 6));
    assert_true(cv__joining_at(&j, WAIT_NS, 6));
    assert_int_equal(decide(&j), CV_JOINING_WAIT); /* answers from before that do not count */
    cv__joining_hear(&j, 2, 5, CV_JOINING_STATE, 7);
    cv__joining_hear(&j, 2, 6, CV_JOINING_STATE, 7);
    cv__joining_hear(&j, 3, 6, CV_JOINING_STATE, 10);
    assert_int_equal(decide(&j), CV_JOINING_WAIT);
    cv__joining_hear(&j, 4, 6, CV_JOINING_STATE, 8);
    uint64_t floor = 0;
    assert_int_equal(cv__joining_decide(&j, &floor), CV_JOINING_REJOIN);
    assert_int_equal(floor, 10);
    assert_false(cv__joining_at(&j, 2 * WAIT_NS, 7)); /* asked once */
}

/* Tries all majorities that this member can have been in, and all sets of members that answer.
 * Whenever it rejoins, a member that answered was in that majority, so the floor is not below the
 * token. */
static void no_token_is_repeated_whichever_members_answer(void **unused)
{
    (void)unused;
    for (uint32_t n = 2; n <= 7; n++) {
        for (uint32_t majority = 1; majority < BIT(n); majority += 2) { /* bit 0: this member */
            if ((uint32_t)__builtin_popcount(majority) != n / 2 + 1) {
                continue;
            }
            for (uint32_t answers = 0; answers < BIT(n); answers += 2) {
                struct cv_joining j = begin(n, 0);
                (void)cv__joining_at(&j, WAIT_NS, 6);
                for (uint32_t i = 1; i < n; i++) {
                    if ((answers & BIT(i)) != 0) {
                        cv__joining_hear(&j, i + 1, 6, CV_JOINING_STATE,
                                         (majority & BIT(i)) != 0 ? 50 : 3);
                    }
                }
                uint64_t floor = 0;
                const enum cv_joining_decision verdict = cv__joining_decide(&j, &floor);
                assert_true(verdict == CV_JOINING_WAIT || floor == 50);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_that_all_lack_a_state_found_the_cluster),
        cmocka_unit_test(founders_that_remember_nothing_do_not_stop_the_last),
        cmocka_unit_test(a_ready_member_begins_after_another_has),
        cmocka_unit_test(one_member_that_remembers_stops_founding),
        cmocka_unit_test(rejoins_above_all_that_the_others_remember),
        cmocka_unit_test(no_token_is_repeated_whichever_members_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
