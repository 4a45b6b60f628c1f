/* tests/support/lease.c - see lease.h. */
#include "support/lease.h"

const struct cv_effect *lease_asked(const struct solo *s)
{
    const struct cv_effect *found = NULL;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        if (s->out.item[i].kind == CV_EFFECT_ASK_STORE) {
            assert_null(found); /* one at a time */
            found = &s->out.item[i];
        }
    }
    return found;
}

void lease_assert_asks(const struct solo *s, enum cv_store_verb verb)
{
    const struct cv_effect *e = lease_asked(s);
    assert_non_null(e);
    assert_int_equal(e->verb, verb);
}

void lease_answer(struct solo *s, uint64_t request, enum cv_store_verdict verdict, uint64_t token,
                  uint64_t holder, int64_t duration_ns)
{
    solo_step(s, (struct cv_event){.kind = CV_EVENT_STORE,
                                   .request = request,
                                   .verdict = verdict,
                                   .token = token,
                                   .holder = holder,
                                   .duration_ns = duration_ns});
}

void lease_grant(struct solo *s, uint64_t request, uint64_t token)
{
    lease_answer(s, request, CV_STORE_GRANTED, token, 0, LEASE_NS);
}

void lease_notify(struct solo *s)
{
    lease_answer(s, 0, CV_STORE_CHANGED, 0, 0, 0);
}

struct cv_effect lease_await(struct solo *s, int64_t limit_ns)
{
    const int64_t end_ns = s->now_ns + limit_ns;
    while (s->now_ns < end_ns) {
        int64_t next_ns = end_ns;
        for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
            next_ns = s->timer_ns[t] != 0 ? cv__min64(next_ns, s->timer_ns[t]) : next_ns;
        }
        s->out.item_count = 0;
        solo_wait_until(s, next_ns);
        if (lease_asked(s) != NULL) {
            return *lease_asked(s);
        }
    }
    fail_msg("no request within %.3f ms", (double)limit_ns / 1e6);
    return (struct cv_effect){0};
}

struct solo *lease_contender(void)
{
    return solo_new("lease", 1, 1, LEASE_OPTIONS);
}

struct solo *lease_leader(void)
{
    struct solo *s = lease_contender();
    s->now_ns += 2 * NS_PER_MS;
    lease_grant(s, 1, 7);
    assert_int_equal(s->leader, 1);
    return s;
}

void lease_event(struct solo *s, enum cv_event_kind kind, bool is_candidate)
{
    solo_step(s, (struct cv_event){.kind = kind, .is_candidate = is_candidate});
}
