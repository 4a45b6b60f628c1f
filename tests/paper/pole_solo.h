/* tests/paper/pole_solo.h - one core of `pole` among three; the test plays the others.
 *
 * Constants of the lan profile: delta and sigma 2 ms, heartbeat 10 ms, timeout 40 ms, round 10 ms,
 * lease 50 ms, which a leader counts as 50 ms less 10 us. The nonce of the core is 0. */
#ifndef CV_TESTS_POLE_SOLO_H
#define CV_TESTS_POLE_SOLO_H

#include "protocols/pole.h"
#include "support/solo.h"
#include "support/support.h"

#define LEASE_NS (50 * NS_PER_MS)
#define LEAD_NS (LEASE_NS - 10 * NS_PER_US - 1)
#define ROUND_NS (10 * NS_PER_MS)
#define TIMEOUT_NS (40 * NS_PER_MS)

static inline struct solo *one_of_three(cv_id self)
{
    return solo_new("pole", self, 3, "");
}

static inline void propose(struct solo *s, cv_id from, uint64_t epoch, cv_id best)
{
    solo_draft(s, "PROPOSE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heard", 1);
    solo_put(s, "id", best);
    solo_put(s, "quorate", 1);
    solo_put(s, "score_1", best == 3 ? 100 : 1);
    solo_hear(s, from, 0);
}

/* The test may change seq and token before the core hears it. */
static inline void draft_heartbeat(struct solo *s, uint64_t epoch, bool is_established)
{
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "epoch", epoch);
    solo_put(s, "nonce", 77);
    solo_put(s, "seq", 5);
    solo_put(s, "established", is_established);
    solo_put(s, "token", is_established ? epoch : 0);
    solo_put(s, "lease", LEASE_NS);
    solo_put(s, "quorate", 1);
}

static inline void heartbeat(struct solo *s, cv_id from, uint64_t epoch, bool is_established)
{
    draft_heartbeat(s, epoch, is_established);
    solo_hear(s, from, 0);
}

static inline void follow(struct solo *s, cv_id from, uint64_t epoch, uint64_t nonce, uint64_t seq)
{
    solo_draft(s, "FOLLOW");
    solo_put(s, "epoch", epoch);
    solo_put(s, "nonce", nonce);
    solo_put(s, "seq", seq);
    solo_hear(s, from, 0);
}

static inline void say(struct solo *s, cv_id from, const char *type, uint64_t epoch)
{
    solo_draft(s, type);
    solo_put(s, "epoch", epoch);
    solo_hear(s, from, 0);
}

static inline void release(struct solo *s, cv_id from, uint64_t epoch, cv_id heir)
{
    solo_draft(s, "RELEASE");
    solo_put(s, "epoch", epoch);
    solo_put(s, "heir", heir);
    solo_hear(s, from, 0);
}

/* All have chosen it; it claims epoch 1 and has just sent heartbeat 1. */
static inline struct solo *claimant(void)
{
    struct solo *s = one_of_three(3);
    propose(s, 1, 1, 1);
    assert_null(solo_said(s, "HEARTBEAT"));
    propose(s, 2, 1, 2);
    const struct cv_message *claim = solo_said(s, "HEARTBEAT");
    assert_non_null(claim);
    assert_int_equal(solo_field(s, claim, "epoch"), 1);
    assert_int_equal(solo_field(s, claim, "seq"), 1);
    assert_int_equal(solo_field(s, claim, "established"), 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_RETRY], 0);
    assert_int_equal(s->timer_ns[POLE_TIMER_ELECT], 0);
    return s;
}

/* It is established with token 1; its second heartbeat says so. */
static inline struct solo *leader(void)
{
    struct solo *s = claimant();
    follow(s, 1, 1, 0, 1);
    assert_int_equal(s->leader, 3);
    assert_int_equal(solo_told(s)->token, 1);
    return s;
}

/* It follows 2, which is established in epoch 4. */
static inline struct solo *follower(void)
{
    struct solo *s = one_of_three(1);
    heartbeat(s, 2, 4, true);
    assert_int_equal(s->leader, 2);
    return s;
}

/* The latest step sends this message, and saves before it does. */
static inline void assert_saves_before(const struct solo *s, uint32_t type)
{
    bool is_saved = false;
    bool is_said = false;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        is_saved = is_saved || e->kind == CV_EFFECT_PERSIST;
        if (e->kind == CV_EFFECT_SEND && e->message.type == type) {
            is_said = true;
            assert_true(is_saved);
        }
    }
    assert_true(is_said);
}

static inline void resign(struct solo *s, cv_id heir)
{
    solo_step(s, (struct cv_event){.kind = CV_EVENT_RESIGN, .peer = heir});
}

#endif
