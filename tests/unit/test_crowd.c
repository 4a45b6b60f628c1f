/* tests/unit/test_crowd.c - the load that ten thousand contenders put on a store.
 *
 * Cores of `lease` on a model of a store, which answers at once. A timer fires at a random instant
 * of the range that its core asked for, as in every host. */
#include "support/solo.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_NS (9 * NS_PER_S)
#define RENEW_NS (3 * NS_PER_S)
#define OPTIONS "lease=9s renew=3s retry=1s timeout=1s poll=9s rest=9s"
#define WINDOWS 100u /* that the time between two renewals is divided into */

struct crowd {
    struct solo **one;
    uint32_t count;
    uint64_t random;
    uint64_t asked_count; /* requests that the store got */
};

static struct crowd crowd_new(uint32_t count)
{
    struct crowd crowd = {.one = calloc(count, sizeof(struct solo *)), .count = count, .random = 1};
    assert_non_null(crowd.one);
    for (uint32_t i = 0; i < count; i++) {
        crowd.one[i] = solo_new("lease", 1, 1, OPTIONS);
    }
    return crowd;
}

static void crowd_free(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        solo_free(crowd->one[i]);
    }
    free(crowd->one);
}

/* Takes the request that the latest step made; false: none. Also draws, from the range of its
 * timer, when the core wants to be woken. */
static bool take_request(struct crowd *crowd, struct solo *s, struct cv_effect *ret_asked)
{
    bool has_asked = false;
    for (uint32_t i = 0; i < s->out.item_count; i++) {
        const struct cv_effect *e = &s->out.item[i];
        if (e->kind == CV_EFFECT_ASK_STORE) {
            *ret_asked = *e;
            has_asked = true;
        } else if (e->kind == CV_EFFECT_ARM) {
            const uint64_t range = (uint64_t)(e->latest_ns - e->earliest_ns) + 1;
            s->timer_ns[e->timer] = e->earliest_ns + (int64_t)(test_random(&crowd->random) % range);
        }
    }
    s->out.item_count = 0;
    crowd->asked_count += has_asked;
    return has_asked;
}

static void answer(struct solo *s, const struct cv_effect *asked, enum cv_store_verdict verdict,
                   uint64_t holder)
{
    solo_step(s, (struct cv_event){.kind = CV_EVENT_STORE,
                                   .request = asked->request,
                                   .verdict = verdict,
                                   .token = 1,
                                   .holder = holder,
                                   .duration_ns = LEASE_NS});
}

/* All lead elections of their own since the same instant. Returns how many renewals fall into the
 * busiest hundredth of the time between two renewals. */
static uint32_t busiest(struct crowd *crowd)
{
    uint32_t window[2 * WINDOWS] = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < crowd->count; i++) {
        struct solo *s = crowd->one[i];
        struct cv_effect asked;
        const int64_t start_ns = s->now_ns;
        assert_true(take_request(crowd, s, &asked));
        answer(s, &asked, CV_STORE_GRANTED, 0);
        (void)take_request(crowd, s, &asked);
        int64_t next_ns = INT64_MAX;
        for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
            next_ns = s->timer_ns[t] != 0 ? cv__min64(next_ns, s->timer_ns[t]) : next_ns;
        }
        const int64_t at = (next_ns - start_ns) / (RENEW_NS / WINDOWS);
        assert_in_range(at, 0, 2 * WINDOWS - 1);
        window[at]++;
        most = window[at] > most ? window[at] : most;
    }
    return most;
}

/* [traps.md T28] */
static void leases_granted_together_are_not_renewed_together(void **unused)
{
    (void)unused;
    struct crowd crowd = crowd_new(test_scale(10000) + 1000);
    assert_true(busiest(&crowd) <= crowd.count / 8); /* one of 12.5, if they were even */
    crowd_free(&crowd);
}

/* [traps.md T12] Where a release notifies everybody, each contender asks once, and then it is
 * quiet. */
static void a_release_costs_one_request_of_each_contender(void **unused)
{
    (void)unused;
    struct crowd crowd = crowd_new(test_scale(10000) + 1000);
    struct cv_effect asked;
    for (uint32_t i = 0; i < crowd.count; i++) { /* somebody else holds it */
        struct solo *s = crowd.one[i];
        assert_true(take_request(&crowd, s, &asked));
        answer(s, &asked, CV_STORE_HELD, 99);
        assert_false(take_request(&crowd, s, &asked));
    }
    crowd.asked_count = 0;
    for (uint32_t i = 0; i < crowd.count; i++) { /* ... and releases it: the first one gets it */
        struct solo *s = crowd.one[i];
        s->now_ns += NS_PER_S;
        solo_step(s, (struct cv_event){.kind = CV_EVENT_STORE, .verdict = CV_STORE_CHANGED});
        while (take_request(&crowd, s, &asked)) {
            answer(s, &asked, CV_STORE_HELD, 100);
        }
        /* Notifications that it was taken, renewed, ... */
        for (uint32_t count = 0; count < 20; count++) {
            solo_step(s, (struct cv_event){.kind = CV_EVENT_STORE, .verdict = CV_STORE_CHANGED});
            while (take_request(&crowd, s, &asked)) {
                answer(s, &asked, CV_STORE_HELD, 100);
            }
        }
    }
    /* Each may ask a few times in a row, however many notifications come. */
    assert_in_range(crowd.asked_count, crowd.count, 8 * (uint64_t)crowd.count);
    crowd_free(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_granted_together_are_not_renewed_together),
        cmocka_unit_test(a_release_costs_one_request_of_each_contender),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
