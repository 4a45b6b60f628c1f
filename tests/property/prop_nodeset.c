/* tests/property/prop_nodeset.c - the word-wise set against a plain array of flags, over seeds. */
#include "core/nodeset.h"
#include "support/support.h"

#include <string.h>

#define WORDS_MAX (CV_MEMBERS_MAX / 64)

struct pair {
    uint32_t member_count;
    uint64_t fast[WORDS_MAX];
    bool plain[CV_MEMBERS_MAX + 1]; /* by id; [0] stays false */
};

static void pair_fill(struct pair *pair, uint32_t member_count, uint64_t *seed)
{
    pair->member_count = member_count;
    memset(pair->fast, 0, sizeof pair->fast);
    memset(pair->plain, 0, sizeof pair->plain);
    const uint32_t one_in = 1 + test_random_below(seed, 100); /* from full to sparse */
    for (cv_id id = 1; id <= member_count; id++) {
        if (test_random_below(seed, one_in) == 0) {
            cv__set_add(pair->fast, id);
            pair->plain[id] = true;
        }
    }
}

static void pair_check(const struct pair *pair)
{
    uint32_t count = 0;
    cv_id next = CV_ID_NONE;
    for (cv_id id = pair->member_count; id >= 1; id--) {
        assert_int_equal(cv__set_has(pair->fast, id), pair->plain[id]);
        next = pair->plain[id] ? id : next;
        assert_int_equal(cv__set_next(pair->fast, id, pair->member_count), next);
    }
    cv_id last = CV_ID_NONE;
    for (cv_id id = 1; id <= pair->member_count; id++) {
        count += pair->plain[id];
        last = pair->plain[id] ? id : last;
        assert_int_equal(cv__set_last(pair->fast, id, pair->member_count), last);
    }
    assert_int_equal(cv__set_count(pair->fast, pair->member_count), count);
}

static void answers_like_an_array_of_flags(void **unused)
{
    (void)unused;
    const uint32_t rounds = test_scale(200);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = round;
        static struct pair a, b; /* too large for some stacks */
        const uint32_t member_count =
            1 + test_random_below(&seed, round % 10 == 0 ? CV_MEMBERS_MAX : 200);
        pair_fill(&a, member_count, &seed);
        pair_fill(&b, member_count, &seed);
        pair_check(&a);

        bool is_subset = true;
        for (cv_id id = 1; id <= member_count; id++) {
            is_subset = is_subset && (!a.plain[id] || b.plain[id]);
        }
        assert_int_equal(cv__set_is_subset(a.fast, b.fast, member_count), is_subset);

        cv__set_unite(b.fast, a.fast, member_count);
        for (cv_id id = 1; id <= member_count; id++) {
            b.plain[id] = b.plain[id] || a.plain[id];
        }
        pair_check(&b);
        assert_true(cv__set_is_subset(a.fast, b.fast, member_count));

        const cv_id gone = 1 + test_random_below(&seed, member_count);
        cv__set_remove(b.fast, gone);
        b.plain[gone] = false;
        pair_check(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_like_an_array_of_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
