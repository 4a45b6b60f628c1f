/* tests/unit/test_local_tree.c - collation in `local` [Fetzer99, sec. XI, fig. 28]: answers go up a
 * tree over the candidate's alive set.
 *
 * A single core; the test plays the rest of the world, as in test_local.c. */
#include "protocols/local_state.h"
#include "support/local.h"
#include "support/support.h"

#include <string.h>

/* A request for `token` of the leader that this process supports, with `tree` as its alive set. */
static void hear_leader(struct solo *c, uint64_t request, uint64_t token, uint64_t leading,
                        uint64_t tree)
{
    solo_draft(c, "ELECTION");
    solo_put(c, "request", request);
    solo_put(c, "token", token);
    solo_put(c, "leading", leading);
    solo_put_set(c, "alive", tree);
    solo_put_set(c, "support", tree);
    solo_hear(c, 1, FAST_NS);
}

static void hear_renewal(struct solo *c, uint64_t request, uint64_t tree)
{
    hear_leader(c, request, 1, 1, tree);
}

static const uint64_t tree_of_seven = 0xfe; /* 1 | 2 3 | 4 5 under 2, 6 7 under 3 */

/* [Fetzer99, fig. 28] "a process that is a leaf of the tree replies to its parent node" */
static void leaf_answers_to_its_parent(void **unused)
{
    (void)unused;
    for (cv_id self = 4; self <= 7; self++) {
        struct solo *c = local_process(self, 7, "collate=2");
        hear_renewal(c, 9, tree_of_seven);
        assert_null(solo_said(c, "REPLY"));
        cv_id to;
        const struct cv_message *m = solo_said_to(c, "COLLATED", &to);
        assert_non_null(m);
        assert_int_equal(to, self / 2);
        assert_int_equal(solo_field(c, m, "candidate"), 1);
        assert_int_equal(solo_field(c, m, "request"), 9);
        assert_int_equal(solo_set(c, m, "support"), BIT(self));
        solo_free(c);
    }
}

/* An answer that goes up the tree may be a refusal, and is collated as one. */
static void refusal_goes_up_the_tree_as_a_refusal(void **unused)
{
    (void)unused;
    struct solo *c = local_process(4, 7, "collate=2");
    assert_true(local_is_supported(c, 2, 1, 5)); /* locked to 2 */
    hear_renewal(c, 9, tree_of_seven);
    const struct cv_message *m = solo_said(c, "COLLATED");
    assert_non_null(m);
    assert_int_equal(solo_set(c, m, "replied"), BIT(4));
    assert_int_equal(solo_set(c, m, "support"), 0);
    assert_int_equal(solo_field(c, m, "token"), 5);
    solo_free(c);
}

static void hear_collated(struct solo *c, cv_id from, uint64_t request, uint64_t supporters)
{
    solo_draft(c, "COLLATED");
    solo_put(c, "request", request);
    solo_put(c, "candidate", 1);
    solo_put_set(c, "replied", supporters);
    solo_put_set(c, "support", supporters);
    solo_hear(c, from, FAST_NS);
}

/* [Fetzer99, fig. 28] "an inner node waits for the replies of its children and replies to its
 * parent node" */
static void inner_node_waits_for_its_children(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven);
    assert_null(solo_said(c, "COLLATED"));
    assert_null(solo_said(c, "REPLY"));
    hear_collated(c, 7, 9, BIT(7));
    assert_null(solo_said(c, "COLLATED"));
    hear_collated(c, 6, 9, BIT(6));
    cv_id to;
    const struct cv_message *m = solo_said_to(c, "COLLATED", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(solo_set(c, m, "support"), BIT(3) | BIT(6) | BIT(7));
    solo_free(c);
}

/* "an inner node that does not hear its children in time passes on what it has" */
static void inner_node_passes_on_what_it_has_when_a_child_is_silent(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven);
    hear_collated(c, 6, 9, BIT(6));
    const int64_t asked_ns = c->now_ns;
    const struct cv_message *m = solo_await(c, "COLLATED", DELTA_NS);
    assert_true(c->now_ns <= asked_ns + DELTA_NS); /* early enough for the leader */
    assert_int_equal(solo_set(c, m, "support"), BIT(3) | BIT(6));
    /* A late answer is not held back. */
    hear_collated(c, 7, 9, BIT(7));
    cv_id to;
    m = solo_said_to(c, "COLLATED", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(solo_set(c, m, "support"), BIT(7));
    solo_free(c);
}

/* [Fetzer99, fig. 28] "processes outside the aliveSet of 0 reply directly to 0" */
static void process_outside_the_tree_answers_directly(void **unused)
{
    (void)unused;
    struct solo *c = local_process(5, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven & ~BIT(5));
    assert_null(solo_said(c, "COLLATED"));
    cv_id to;
    assert_non_null(solo_said_to(c, "REPLY", &to));
    assert_int_equal(to, 1);
    solo_free(c);
}

/* [Ours] A repeated request was not answered completely: the way up may be broken. Requests of
 * other candidates in between do not hide that. */
static void repeated_request_is_answered_directly(void **unused)
{
    (void)unused;
    for (uint32_t has_rival = 0; has_rival < 2; has_rival++) {
        struct solo *c = local_process(5, 7, "collate=2");
        hear_renewal(c, 9, tree_of_seven);
        assert_non_null(solo_said(c, "COLLATED"));
        if (has_rival) {
            (void)local_is_supported(c, 6, 4, 1);
        }
        hear_renewal(c, 9, tree_of_seven);
        assert_null(solo_said(c, "COLLATED"));
        assert_non_null(solo_said(c, "REPLY"));
        hear_renewal(c, 10, tree_of_seven); /* direct answers, for a while */
        assert_non_null(solo_said(c, "REPLY"));
        c->now_ns += EXPIRES_NS;
        hear_renewal(c, 11, tree_of_seven);
        assert_non_null(solo_said(c, "COLLATED"));
        solo_free(c);
    }
}

/* [Ours] A leader asks for a larger token after its renewal was refused: our answer to that request
 * may have been lost on its way up. */
static void request_for_another_token_is_answered_directly(void **unused)
{
    (void)unused;
    struct solo *c = local_process(5, 7, "collate=2");
    hear_renewal(c, 9, tree_of_seven);
    assert_non_null(solo_said(c, "COLLATED"));
    hear_leader(c, 10, 3, 1, tree_of_seven);
    assert_null(solo_said(c, "COLLATED"));
    cv_id to;
    const struct cv_message *m = solo_said_to(c, "REPLY", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(solo_field(c, m, "request"), 10);
    assert_true(solo_field(c, m, "supports"));
    hear_leader(c, 11, 3, 3, tree_of_seven); /* it leads with that token: a renewal again */
    assert_non_null(solo_said(c, "COLLATED"));
    solo_free(c);
}

static void root_counts_the_answers_that_its_children_gathered(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 7, "collate=2");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    hear_collated(c, 2, request, BIT(2) | BIT(4) | BIT(5));
    assert_null(solo_told(c));
    hear_collated(c, 3, request, BIT(3) | BIT(6) | BIT(7));
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->reason, CV_REASON_RENEWED);
    assert_int_equal(solo_told(c)->members.word[0] << 1, tree_of_seven);
    solo_free(c);
}

/* A host may have queued a timer before a step disarmed it. */
static void timer_that_fires_though_nothing_is_gathered_does_nothing(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 7, "collate=2");
    solo_step(c, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = LOCAL_TIMER_COLLATE});
    assert_int_equal(c->out.item_count, 0);
    solo_free(c);
}

static void root_learns_by_the_tree_which_token_to_exceed(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 7, "collate=2");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    const uint64_t request = solo_field(c, m, "request");
    solo_draft(c, "COLLATED");
    solo_put(c, "request", request);
    solo_put(c, "candidate", 1);
    solo_put(c, "token", 50);
    solo_put_set(c, "replied", BIT(2));
    solo_hear(c, 2, FAST_NS);
    m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(solo_field(c, m, "token"), 51);
    solo_free(c);
}

/* A message lends its lists for one step, but the answers are sent later. */
static void answers_that_are_passed_on_are_copied(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 7, "collate=2");
    solo_draft(c, "COLLATED");
    solo_put(c, "request", 9);
    solo_put(c, "candidate", 1);
    solo_put(c, "token", 4);
    solo_put_set(c, "replied", BIT(5) | BIT(6) | BIT(7));
    solo_put_set(c, "support", BIT(6) | BIT(7));
    solo_put_set(c, "passive", BIT(7));
    solo_hear(c, 6, FAST_NS);
    memset(c->draft_word, 0, sizeof c->draft_word);
    cv_id to = CV_ID_NONE;
    const struct cv_message *m = solo_said_to(c, "COLLATED", &to);
    assert_non_null(m);
    assert_int_equal(to, 1);
    assert_int_equal(solo_field(c, m, "token"), 4);
    assert_int_equal(solo_set(c, m, "replied"), BIT(5) | BIT(6) | BIT(7));
    assert_int_equal(solo_set(c, m, "support"), BIT(6) | BIT(7));
    assert_int_equal(solo_set(c, m, "passive"), BIT(7));
    solo_free(c);
}

/* The candidate must exceed the largest token that any child was told of, whichever child answers
 * last. */
static void inner_node_passes_on_the_largest_token(void **unused)
{
    (void)unused;
    for (uint32_t order = 0; order < 2; order++) {
        struct solo *c = local_process(3, 7, "collate=2");
        hear_renewal(c, 9, tree_of_seven);
        for (uint32_t i = 0; i < 2; i++) {
            solo_draft(c, "COLLATED");
            solo_put(c, "request", 9);
            solo_put(c, "candidate", 1);
            solo_put(c, "token", i == order ? 50 : 7);
            solo_put_set(c, "replied", BIT(6 + i));
            solo_hear(c, 6 + i, FAST_NS);
        }
        assert_int_equal(solo_field(c, solo_said(c, "COLLATED"), "token"), 50);
        solo_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaf_answers_to_its_parent),
        cmocka_unit_test(refusal_goes_up_the_tree_as_a_refusal),
        cmocka_unit_test(inner_node_waits_for_its_children),
        cmocka_unit_test(inner_node_passes_on_what_it_has_when_a_child_is_silent),
        cmocka_unit_test(process_outside_the_tree_answers_directly),
        cmocka_unit_test(repeated_request_is_answered_directly),
        cmocka_unit_test(request_for_another_token_is_answered_directly),
        cmocka_unit_test(root_counts_the_answers_that_its_children_gathered),
        cmocka_unit_test(timer_that_fires_though_nothing_is_gathered_does_nothing),
        cmocka_unit_test(root_learns_by_the_tree_which_token_to_exceed),
        cmocka_unit_test(answers_that_are_passed_on_are_copied),
        cmocka_unit_test(inner_node_passes_on_the_largest_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
