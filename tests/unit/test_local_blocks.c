/* tests/unit/test_local_blocks.c - `local`: tokens that are saved in blocks, leaders that ask less
 * often (`calm`), and deaths that a host has seen. */
#include "support/local.h"
#include "support/support.h"

#define BLOCKS "majority=yes tokens=4 "

static bool has_saved(const struct solo *c)
{
    for (uint32_t i = 0; i < c->out.item_count; i++) {
        if (c->out.item[i].kind == CV_EFFECT_PERSIST) {
            return true;
        }
    }
    return false;
}

static void block_is_saved_once_and_its_tokens_need_no_more_saves(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, BLOCKS);
    assert_true(local_is_supported(c, 2, 1, 10));
    assert_true(has_saved(c));
    assert_int_equal(c->persisted[0], 14);
    assert_int_equal(c->persisted[1], CV_ID_NONE);
    for (uint64_t token = 11; token <= 14; token++) {
        assert_true(local_is_supported(c, 2, token, token));
        assert_false(has_saved(c));
    }
    assert_true(local_is_supported(c, 2, 15, 15));
    assert_true(has_saved(c));
    assert_int_equal(c->persisted[0], 19);
    solo_free(c);
}

static void no_token_of_a_block_is_accepted_after_a_crash(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, BLOCKS);
    assert_true(local_is_supported(c, 2, 1, 10));
    solo_restart(c);
    c->now_ns += LOCK_NS;
    for (uint64_t token = 10; token <= 14; token++) {
        assert_false(local_is_supported(c, 2, token, token));
        assert_int_equal(solo_field(c, solo_said(c, "REPLY"), "token"), 14);
    }
    assert_true(local_is_supported(c, 2, 20, 15));
    solo_free(c);
}

static void next_block_is_saved_while_a_leader_sits(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, BLOCKS);
    assert_true(local_is_supported(c, 2, 1, 10));
    assert_true(local_is_supported(c, 2, 2, 13)); /* one token of the block is left */
    assert_false(has_saved(c));
    solo_draft(c, "ELECTION");
    solo_put(c, "request", 3);
    solo_put(c, "token", 13);
    solo_put(c, "leading", 13);
    solo_put_set(c, "alive", BIT(2) | BIT(3));
    solo_put_set(c, "support", BIT(2) | BIT(3));
    solo_hear(c, 2, FAST_NS);
    assert_non_null(solo_said(c, "REPLY"));
    assert_true(has_saved(c));
    assert_int_equal(c->persisted[0], 18);
    solo_free(c);
}

/* [Ours] A leader asks less often while all answer; it asks a silent one again after ep. */
static void leader_asks_less_often_while_all_answer(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "calm=3");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS); /* tells that it leads */
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    local_hear_reply(c, 3, solo_field(c, m, "request"), true);
    const int64_t asked_ns = c->now_ns;
    m = solo_await(c, "ELECTION", 24 * NS_PER_MS);
    assert_int_equal(c->now_ns, asked_ns + 24 * NS_PER_MS);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true); /* 3 is silent */
    (void)solo_await(c, "ELECTION", 8 * NS_PER_MS);
    assert_int_equal(c->now_ns, asked_ns + 32 * NS_PER_MS);
    solo_free(c);
}

/* `expires` and the lock limit the pause, whatever `calm` says. */
static void leader_does_not_ask_so_rarely_that_supporters_expire(void **unused)
{
    (void)unused;
    struct solo *c = local_process(1, 3, "calm=16 expires=40ms");
    (void)local_elect(c);
    const struct cv_message *m = solo_await(c, "ELECTION", 8 * NS_PER_MS);
    local_hear_reply(c, 2, solo_field(c, m, "request"), true);
    local_hear_reply(c, 3, solo_field(c, m, "request"), true);
    const int64_t asked_ns = c->now_ns;
    (void)solo_await(c, "ELECTION", 40 * NS_PER_MS);
    assert_true(c->now_ns - asked_ns + 15 * NS_PER_MS < 40 * NS_PER_MS); /* sigma, 2 delta */
    assert_true(c->now_ns - asked_ns > 20 * NS_PER_MS);
    solo_free(c);
}

/* Process 2 of three follows 1, whose host then sees it die. Returns the request of 2. */
static uint64_t first_request_after_a_death(struct solo *c)
{
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1, .is_certain = true});
    return solo_field(c, solo_await(c, "ELECTION", NS_PER_MS), "request");
}

/* [Ours, BI] Every process that is left has answered: the first request succeeds. */
static void first_request_after_a_death_succeeds_with_everybody_left(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    const uint64_t request = first_request_after_a_death(c);
    local_hear_reply(c, 3, request, true);
    assert_non_null(solo_told(c));
    assert_int_equal(solo_told(c)->leader, 2);
    solo_free(c);
}

static void first_request_after_a_death_fails_without_somebody(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 4, "");
    const uint64_t request = first_request_after_a_death(c);
    local_hear_reply(c, 3, request, true); /* 4 was never heard, and may be alive */
    assert_null(solo_told(c));
    solo_free(c);
}

/* Only the death of the process to which it was locked counts, and only while that lock would have
 * lasted: after that the process may be back, and connected, without having been heard. */
static void death_is_not_believed_for_longer_than_the_lock(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    const int64_t locked_ns = c->now_ns;
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1, .is_certain = true});
    c->now_ns = locked_ns + LOCK_NS - NS_PER_MS; /* this process slept */
    const uint64_t request = solo_field(c, solo_await(c, "ELECTION", NS_PER_MS), "request");
    c->now_ns = locked_ns + LOCK_NS;
    local_hear_reply(c, 3, request, true);
    assert_null(solo_told(c));
    solo_free(c);
}

static void first_request_fails_if_the_dead_process_is_back_and_refuses(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    const uint64_t request = first_request_after_a_death(c);
    c->now_ns += 6 * NS_PER_MS; /* a message within Delta may have been sent before the death */
    local_hear_reply(c, 1, request, false);
    local_hear_reply(c, 3, request, true);
    assert_null(solo_told(c));
    solo_free(c);
}

/* A hint frees no lock: the process may live. */
static void hint_excuses_nobody(void **unused)
{
    (void)unused;
    struct solo *c = local_process(2, 3, "");
    assert_true(local_is_supported(c, 1, 1, 1));
    solo_step(c, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1});
    const uint64_t request = solo_field(c, solo_await(c, "ELECTION", NS_PER_MS), "request");
    local_hear_reply(c, 3, request, true);
    assert_null(solo_told(c));
    solo_free(c);
}

/* A record of an older version names one token and its candidate; it keeps that meaning. */
static void record_of_an_older_version_is_read(void **unused)
{
    (void)unused;
    struct solo *c = local_process(3, 3, "");
    assert_true(local_is_supported(c, 2, 1, 10));
    assert_int_equal(c->persisted[0], 10);
    assert_int_equal(c->persisted[1], 2);
    solo_free(c);
    struct solo *d = local_process(3, 3, BLOCKS);
    d->persisted[0] = 10;
    d->persisted[1] = 2;
    d->persisted_count = 2;
    solo_restart(d);
    d->now_ns += LOCK_NS;
    assert_true(local_is_supported(d, 2, 2, 10)); /* from the candidate that the record names */
    assert_false(has_saved(d));
    solo_restart(d);
    d->now_ns += LOCK_NS;
    assert_false(local_is_supported(d, 1, 1, 10));
    assert_true(local_is_supported(d, 1, 2, 11));
    assert_int_equal(d->persisted[0], 15);
    assert_int_equal(d->persisted[1], CV_ID_NONE);
    solo_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_is_saved_once_and_its_tokens_need_no_more_saves),
        cmocka_unit_test(no_token_of_a_block_is_accepted_after_a_crash),
        cmocka_unit_test(next_block_is_saved_while_a_leader_sits),
        cmocka_unit_test(leader_asks_less_often_while_all_answer),
        cmocka_unit_test(leader_does_not_ask_so_rarely_that_supporters_expire),
        cmocka_unit_test(first_request_after_a_death_succeeds_with_everybody_left),
        cmocka_unit_test(first_request_after_a_death_fails_without_somebody),
        cmocka_unit_test(death_is_not_believed_for_longer_than_the_lock),
        cmocka_unit_test(first_request_fails_if_the_dead_process_is_back_and_refuses),
        cmocka_unit_test(hint_excuses_nobody),
        cmocka_unit_test(record_of_an_older_version_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
