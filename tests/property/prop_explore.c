/* tests/property/prop_explore.c - a world that is made canonical after every step behaves like one
 * that never was.
 *
 * Both go the same random way. After every step the untouched one, made canonical in a copy, must
 * have the same bytes as the other. So nothing that the canonical form forgets is ever looked at
 * again, and no instant is taken for a number or a number for an instant. */
#include "explore/canonical.h"
#include "explore/choices.h"
#include "explore/search.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    struct explore_model canonical, raw;
    struct explore_world *made, *kept, *copy;
};

static void open_pair(struct pair *p, const struct explore_setting *setting)
{
    struct cv_errtext why = {""};
    if (explore_open(setting, &p->canonical, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    struct explore_setting endless = *setting;
    endless.horizon_ticks = 1000000;
    assert_int_equal(explore_open(&endless, &p->raw, &why), CV_OK);
    p->raw.is_raw = true;
    p->made = explore_world_new(&p->canonical);
    p->kept = explore_world_new(&p->raw);
    p->copy = explore_world_new(&p->raw);
}

static void close_pair(struct pair *p)
{
    explore_model_fini(&p->canonical);
    explore_model_fini(&p->raw);
    free(p->made);
    free(p->kept);
    free(p->copy);
}

/* The same message in the other world: of the same link, as many places behind its first. */
static uint8_t same_message(const struct pair *p, uint32_t index)
{
    const struct explore_message *m = explore_message_at(&p->canonical, p->made, index);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < index; i++) {
        const struct explore_message *other = explore_message_at(&p->canonical, p->made, i);
        rank += other->from == m->from && other->to == m->to;
    }
    for (uint32_t i = 0; i < p->kept->h.message_count; i++) {
        const struct explore_message *other = explore_message_at(&p->raw, p->kept, i);
        if (other->from == m->from && other->to == m->to && rank-- == 0) {
            assert_int_equal(other->type, m->type);
            return (uint8_t)i;
        }
    }
    fail_msg("a message is missing");
    return 0;
}

static bool is_about_message(uint8_t act)
{
    return act == EXPLORE_ACT_DELIVER || act == EXPLORE_ACT_OVERTAKE ||
           act == EXPLORE_ACT_DUPLICATE || act == EXPLORE_ACT_DELIVER_CRASH ||
           act == EXPLORE_ACT_DELIVER_FAIL || act == EXPLORE_ACT_DELIVER_FAIL_LATE ||
           act == EXPLORE_ACT_DELIVER_SLOW || act == EXPLORE_ACT_LOSE || act == EXPLORE_ACT_DELAY ||
           act == EXPLORE_ACT_FORGET;
}

static void compare(struct pair *p, const char *name, uint64_t seed, uint32_t step)
{
    explore_world_copy(&p->raw, p->copy, p->kept);
    explore_canonical(&p->canonical, p->copy); /* stamps get younger before they are clamped */
    explore_world_lend(&p->canonical, p->copy);
    explore_world_pass(&p->canonical, 0);
    explore_world_take(&p->canonical);
    explore_canonical(&p->canonical, p->copy);
    const size_t bytes = explore_world_bytes(&p->canonical, p->made);
    assert_int_equal(p->copy->h.message_count, p->made->h.message_count);
    if (memcmp(p->copy, p->made, bytes) != 0) {
        size_t at = 0;
        while (((uint64_t *)p->copy)[at] == ((uint64_t *)p->made)[at]) {
            at++;
        }
        fail_msg("%s, seed %llu, step %u: word %zu of %zu differs: %#llx was kept, %#llx was made "
                 "(nodes from %zu, %zu each, their cores from %zu)",
                 name, (unsigned long long)seed, step, at, bytes / 8,
                 (unsigned long long)((uint64_t *)p->copy)[at],
                 (unsigned long long)((uint64_t *)p->made)[at],
                 (sizeof(struct explore_world) + p->raw.properties.block_bytes) / 8,
                 p->raw.node_bytes / 8, sizeof(struct explore_node) / 8);
    }
}

static void walk(struct pair *p, const char *name, uint64_t seed)
{
    uint64_t chance = seed;
    memset(&p->canonical.end, 0, sizeof p->canonical.end);
    memset(&p->raw.end, 0, sizeof p->raw.end);
    explore_world_begin(&p->canonical, p->made);
    explore_world_begin(&p->raw, p->kept);
    for (uint32_t step = 0; step < 150; step++) {
        const bool goes_on = explore_settle(&p->canonical, p->made);
        assert_int_equal(explore_settle(&p->raw, p->kept), goes_on);
        if (!goes_on) {
            return;
        }
        compare(p, name, seed, step);
        struct explore_choice choice[EXPLORE_CHOICES_MAX];
        const uint32_t count = explore_choices(&p->canonical, p->made, choice);
        struct explore_choice chosen = choice[test_random_below(&chance, count)];
        if (chosen.act != EXPLORE_ACT_END && test_random_below(&chance, 3) != 0) {
            chosen =
                choice[0]; /* not every chance for a fault is taken, or they are all over soon */
        }
        struct explore_choice same = chosen;
        if (is_about_message(chosen.act)) {
            same.what = same_message(p, chosen.what);
        }
        const bool is_new = explore_do(&p->canonical, p->made, &chosen);
        assert_int_equal(explore_do(&p->raw, p->kept, &same), is_new);
        assert_int_equal(p->raw.end.is_broken, p->canonical.end.is_broken);
        if (!is_new || p->canonical.end.is_broken || p->canonical.end.is_bound) {
            return;
        }
    }
}

/* `options`: up to two, NAME=VALUE, with a blank between them; NULL: none. */
static void walk_protocol(const char *name, const char *options)
{
    char first[64] = "";
    char second[64] = "";
    if (options != NULL) {
        assert_true(sscanf(options, "%63s %63s", first, second) >= 1);
    }
    static const uint8_t budgets[][EXPLORE_BUDGET_COUNT] = {
        {[EXPLORE_LOSS] = 3, [EXPLORE_REORDER] = 2, [EXPLORE_RESTART] = 1},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PARTITION] = 1},
        {[EXPLORE_PAUSE] = 2, [EXPLORE_LATE] = 1},
        {[EXPLORE_DUPLICATE] = 1, [EXPLORE_RESIGN] = 1, [EXPLORE_LOSS] = 1},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_WITNESS] = 2, [EXPLORE_ONE_WAY] = 1},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_REBOOT] = 1, [EXPLORE_DISK] = 1},
        {[EXPLORE_SLOW] = 3, [EXPLORE_LOSS] = 1, [EXPLORE_DISK] = 1},
        {[EXPLORE_SLOW] = 2, [EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PAUSE] = 1},
    };
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    for (uint32_t i = 0; i < 4 * COUNT_OF(budgets); i++) {
        struct explore_setting setting = {
            .protocol = cv_protocol_find(name),
            .node_count = 2 + i % 2,
            .judges_liveness = i % 4 < 2,
            .delay_max_ticks = 1,
        };
        for (uint32_t j = 0; j < 2; j++) {
            const char *option = j == 0 ? first : second;
            if (option[0] != '\0') {
                setting.option[setting.option_count++] = option;
            }
        }
        memcpy(setting.budget, budgets[i / 4], sizeof setting.budget);
        open_pair(p, &setting);
        for (uint64_t seed = 1; seed <= 25; seed++) {
            walk(p, name, seed);
        }
        close_pair(p);
    }
    free(p);
}

static void canonical_classical_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("bully", NULL);
    walk_protocol("bully-improved", NULL);
    walk_protocol("bully-modified", NULL);
}

static void canonical_rings_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("ring", NULL);
    walk_protocol("ring-modified", NULL);
}

static void canonical_pole_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("pole", NULL);
    walk_protocol("pole", "epochs=2");
}

static void canonical_local_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("local", NULL);
    walk_protocol("local", "majority=yes");
    walk_protocol("local", "majority=yes tokens=2");
    walk_protocol("local", "tokens=1 calm=2");
}

static void canonical_lease_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("lease", NULL);
}

static void canonical_anon_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("anon", NULL);
    walk_protocol("anon", "R=1");
    walk_protocol("anon", "persist=yes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_classical_worlds_behave_the_same),
        cmocka_unit_test(canonical_rings_behave_the_same),
        cmocka_unit_test(canonical_pole_worlds_behave_the_same),
        cmocka_unit_test(canonical_local_worlds_behave_the_same),
        cmocka_unit_test(canonical_lease_worlds_behave_the_same),
        cmocka_unit_test(canonical_anon_worlds_behave_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
