/* tests/property/prop_explore.c - a world that is made canonical after every step behaves like one
 * that never was.
 *
 * Both take the same random steps. After every step the untouched one, made canonical in a copy,
 * must have the same bytes as the other. So nothing that the canonical form forgets is ever used
 * again, and no instant is mistaken for a number or a number for an instant. */
#include "explore/canonical.h"
#include "explore/choices.h"
#include "explore/search.h"
#include "explore/turn.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    struct explore_model canonical, raw;
    struct explore_world *made, *kept, *copy, *other;
};

/* Messages have numbers, by which a message is found in the other world. */
static void number_messages(struct explore_model *model)
{
    struct cv_errtext why = {""};
    explore_model_fini(model);
    model->numbers_messages = true;
    assert_int_equal(explore_model_init(model, &why), CV_OK);
}

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
    number_messages(&p->canonical);
    number_messages(&p->raw);
    p->made = explore_world_new(&p->canonical);
    p->kept = explore_world_new(&p->raw);
    p->copy = explore_world_new(&p->raw);
    p->other = explore_world_new(&p->raw);
}

static void close_pair(struct pair *p)
{
    explore_model_fini(&p->canonical);
    explore_model_fini(&p->raw);
    free(p->made);
    free(p->kept);
    free(p->copy);
    free(p->other);
}

static uint64_t number_of(const struct explore_model *model, const struct explore_message *m)
{
    return m->word[model->message_words];
}

/* The same message in the other world. */
static uint8_t same_message(const struct pair *p, uint32_t index)
{
    const struct explore_message *m = explore_message_at(&p->canonical, p->made, index);
    for (uint32_t i = 0; i < p->kept->h.message_count; i++) {
        const struct explore_message *other = explore_message_at(&p->raw, p->kept, i);
        if (number_of(&p->raw, other) == number_of(&p->canonical, m)) {
            assert_int_equal(other->from, m->from);
            assert_int_equal(other->to, m->to);
            assert_int_equal(other->type, m->type);
            return (uint8_t)i;
        }
    }
    fail_msg("a message is missing in the other world");
    return 0;
}

static bool is_about_message(uint8_t act)
{
    return act == EXPLORE_ACT_DELIVER || act == EXPLORE_ACT_OVERTAKE ||
           act == EXPLORE_ACT_DUPLICATE || act == EXPLORE_ACT_OVERTAKE_TWICE ||
           act == EXPLORE_ACT_LOSE || act == EXPLORE_ACT_MISS || act == EXPLORE_ACT_DELAY ||
           act == EXPLORE_ACT_FORGET;
}

/* Among messages that are alike it does not matter which is which. */
static void forget_numbers(const struct explore_model *model, struct explore_world *world)
{
    for (uint32_t i = 0; i < world->h.message_count; i++) {
        explore_message_at(model, world, i)->word[model->message_words] = 0;
    }
}

static void compare(struct pair *p, const char *name, uint64_t seed, uint32_t step)
{
    explore_world_copy(&p->raw, p->copy, p->kept);
    explore_canonical(&p->canonical, p->copy); /* stamps become younger before they are clamped */
    explore_world_lend(&p->canonical, p->copy);
    explore_world_pass(&p->canonical, 0);
    explore_world_take(&p->canonical);
    explore_canonical(&p->canonical, p->copy);
    forget_numbers(&p->canonical, p->copy);
    explore_world_copy(&p->canonical, p->other, p->made);
    forget_numbers(&p->canonical, p->other);
    const size_t bytes = explore_world_bytes(&p->canonical, p->made);
    assert_int_equal(p->copy->h.message_count, p->made->h.message_count);
    if (memcmp(p->copy, p->other, bytes) != 0) {
        size_t at = 0;
        while (((uint64_t *)p->copy)[at] == ((uint64_t *)p->other)[at]) {
            at++;
        }
        fail_msg("%s, seed %llu, step %u: word %zu of %zu differs: %#llx was kept, %#llx was made "
                 "(nodes from %zu, %zu each, their cores from %zu)",
                 name, (unsigned long long)seed, step, at, bytes / 8,
                 (unsigned long long)((uint64_t *)p->copy)[at],
                 (unsigned long long)((uint64_t *)p->other)[at],
                 (sizeof(struct explore_world) + p->raw.properties.block_bytes) / 8,
                 p->raw.node_bytes / 8, sizeof(struct explore_node) / 8);
    }
}

static void walk(struct pair *p, const char *name, uint64_t seed)
{
    uint64_t chance = seed;
    memset(&p->canonical.end, 0, sizeof p->canonical.end);
    memset(&p->raw.end, 0, sizeof p->raw.end);
    p->canonical.message_number = 0;
    p->raw.message_number = 0;
    explore_world_begin(&p->canonical, p->made);
    explore_world_begin(&p->raw, p->kept);
    for (uint32_t step = 0; step < 150; step++) {
        const bool goes_on = explore_settle(&p->canonical, p->made);
        const bool kept_goes_on = explore_settle(&p->raw, p->kept);
        if (p->raw.end.is_bound) {
            return; /* it remembers every token, and has no room for more */
        }
        assert_int_equal(kept_goes_on, goes_on);
        if (!goes_on) {
            return;
        }
        explore_canonical(&p->canonical, p->made); /* in the middle of a turn, too */
        compare(p, name, seed, step);
        struct explore_choice choice[EXPLORE_CHOICES_MAX];
        const uint32_t count = explore_choices(&p->canonical, p->made, choice);
        struct explore_choice chosen = choice[test_random_below(&chance, count)];
        if (chosen.act != EXPLORE_ACT_END && test_random_below(&chance, 3) != 0) {
            chosen =
                /* Not every possible fault is taken, or the budget would soon be spent. */
                choice[0];
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

static const uint8_t budgets[][EXPLORE_BUDGET_COUNT] = {
    {[EXPLORE_LOSS] = 3, [EXPLORE_REORDER] = 2, [EXPLORE_RESTART] = 1},
    {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PARTITION] = 1},
    {[EXPLORE_PAUSE] = 2, [EXPLORE_LATE] = 1},
    {[EXPLORE_DUPLICATE] = 1, [EXPLORE_RESIGN] = 1, [EXPLORE_LOSS] = 1},
    {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_WITNESS] = 2, [EXPLORE_ONE_WAY] = 1},
    {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_REBOOT] = 1, [EXPLORE_DISK] = 1},
    {[EXPLORE_SLOW] = 3, [EXPLORE_LOSS] = 1, [EXPLORE_DISK] = 1},
    {[EXPLORE_SLOW] = 2, [EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PAUSE] = 1},
    {[EXPLORE_ONE_WAY] = 2, [EXPLORE_LATE] = 2, [EXPLORE_PAUSE] = 1},
    {[EXPLORE_ONE_WAY] = 1, [EXPLORE_RESTART] = 2, [EXPLORE_LATE] = 1},
};
/* Of each budget, with two and with three nodes: with liveness, without it, and with clocks that
 * drift. */
#define VARIANTS 6u

static const char *rates_of(const struct cv_protocol *protocol, uint32_t node_count,
                            uint32_t budget, char rates[static 8])
{
    static const char *const kinds[] = {"sfe", "fse", "esf", "fes"};
    (void)snprintf(rates, 8, "%ssf", kinds[budget % COUNT_OF(kinds)]);
    rates[node_count + (protocol->store_ns != NULL)] = '\0'; /* one letter more for a store */
    return rates;
}

/* Seeds first to last with one variant of one budget. `options`: up to two NAME=VALUE, separated
 * by a blank; NULL: none. */
static void walk_variant(const char *name, const char *options, uint32_t budget, uint32_t variant,
                         uint64_t first_seed, uint64_t last_seed)
{
    char first[64] = "";
    char second[64] = "";
    if (options != NULL) {
        assert_true(sscanf(options, "%63s %63s", first, second) >= 1);
    }
    struct explore_setting setting = {
        .protocol = cv_protocol_find(name),
        .node_count = 2 + variant % 2,
        .judges_liveness = variant < 2,
        .delay_max_ticks = 1,
    };
    for (uint32_t j = 0; j < 2; j++) {
        const char *option = j == 0 ? first : second;
        if (option[0] != '\0') {
            setting.option[setting.option_count++] = option;
        }
    }
    memcpy(setting.budget, budgets[budget], sizeof setting.budget);
    char rates[8];
    if (variant >= 4) {
        setting.rates = rates_of(setting.protocol, setting.node_count, budget, rates);
    }
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    open_pair(p, &setting);
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        walk(p, name, seed);
    }
    close_pair(p);
    free(p);
}

static void walk_protocol(const char *name, const char *options)
{
    for (uint32_t i = 0; i < COUNT_OF(budgets); i++) {
        for (uint32_t variant = 0; variant < VARIANTS; variant++) {
            walk_variant(name, options, i, variant, 1, test_scale(100));
        }
    }
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
    walk_variant("local", NULL, 5, 0, 91, 91); /* a message sent before its sender's reboot */
}

static void canonical_lease_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("lease", NULL);
    walk_variant("lease", NULL, 3, 0, 136, 136); /* a repeated request is granted */
}

static void canonical_anon_worlds_behave_the_same(void **unused)
{
    (void)unused;
    walk_protocol("anon", NULL);
    walk_protocol("anon", "R=1");
    walk_protocol("anon", "R=3"); /* generations do not begin with a round */
    walk_protocol("anon", "persist=yes");
}

/* ---- Faults that lead to the same worlds ----------------------------------------------------- */

#define WORLDS_MAX (1u << 18)

/* A set of worlds, by a hash of their bytes. */
struct worlds {
    uint64_t place[2 * WORLDS_MAX];
    uint32_t count;
};

static uint64_t hash_world(const struct explore_model *model, const struct explore_world *world)
{
    const uint64_t *word = (const uint64_t *)world;
    uint64_t hash = 1;
    for (size_t i = 0; i < explore_world_bytes(model, world) / sizeof *word; i++) {
        hash = (hash ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

/* The place of this hash, or the free place where it belongs. */
static uint64_t *find(struct worlds *worlds, uint64_t hash)
{
    uint64_t at = hash;
    while (worlds->place[at % COUNT_OF(worlds->place)] != 0 &&
           worlds->place[at % COUNT_OF(worlds->place)] != hash) {
        at++;
    }
    return &worlds->place[at % COUNT_OF(worlds->place)];
}

static bool enter(struct worlds *worlds, uint64_t hash)
{
    uint64_t *place = find(worlds, hash);
    if (*place != 0) {
        return false;
    }
    assert_true(++worlds->count < WORLDS_MAX);
    *place = hash;
    return true;
}

/* Visits every world that can be reached, in any order. Each world after the fault must be among
 * the worlds that an earlier search found, with or without the fault. */
static void reach_all(const struct explore_setting *setting, enum explore_budget budget,
                      struct worlds *known, struct worlds *ret_worlds)
{
    struct pair *p = calloc(1, sizeof *p);
    struct explore_world **waiting = calloc(WORLDS_MAX, sizeof(struct explore_world *));
    uint32_t count = 0;
    uint32_t healed = 0;
    open_pair(p, setting);
    struct explore_model *model = &p->canonical;
    explore_model_fini(model);
    model->numbers_messages = false; /* worlds are compared by all of their bytes */
    struct cv_errtext why = {""};
    assert_int_equal(explore_model_init(model, &why), CV_OK);
    model->has_every_moment = known != NULL;
    explore_world_begin(model, p->made);
    bool goes_on = explore_settle(model, p->made);
    for (struct explore_world *from = NULL;; from = waiting[--count]) {
        struct explore_choice choice[EXPLORE_CHOICES_MAX];
        const uint32_t choices = from != NULL ? explore_choices(model, from, choice) : 1;
        for (uint32_t i = 0; i < choices; i++) {
            if (from != NULL) {
                memset(&model->end, 0, sizeof model->end);
                explore_world_copy(model, p->made, from);
                goes_on = explore_do(model, p->made, &choice[i]) && !model->end.is_broken &&
                          explore_settle(model, p->made);
            }
            if (!goes_on || !enter(ret_worlds, hash_world(model, p->made))) {
                continue;
            }
            waiting[count] = explore_world_new(model);
            explore_world_copy(model, waiting[count++], p->made);
            if (known != NULL && p->made->h.partition == 0 && p->made->h.budget[budget] == 0 &&
                *find(known, hash_world(model, p->made)) == 0) {
                p->made->h.budget[budget] = 1;
                assert_int_not_equal(*find(known, hash_world(model, p->made)), 0);
                p->made->h.budget[budget] = 0;
            }
            healed += p->made->h.partition == 0 && p->made->h.budget[budget] == 0;
        }
        free(from);
        if (count == 0) {
            break;
        }
    }
    assert_true(healed > 0);
    close_pair(p);
    free(waiting);
    free(p);
}

/* The search leaves out a partition that has not cut anything off yet, one that ends later than it
 * could, and the loss of a message after others have arrived in the same instant: the worlds after
 * the faults are the same. */
static void faults_at_the_moments_that_matter_reach_all_worlds(void **unused)
{
    (void)unused;
    static const struct {
        const char *protocol;
        enum explore_budget budget;
    } cases[] = {
        {"bully", EXPLORE_PARTITION}, {"ring", EXPLORE_ONE_WAY},    {"pole", EXPLORE_PARTITION},
        {"local", EXPLORE_PARTITION}, {"lease", EXPLORE_PARTITION}, {"anon", EXPLORE_PARTITION},
        {"bully", EXPLORE_LOSS},      {"pole", EXPLORE_LOSS},       {"local", EXPLORE_LOSS},
        {"lease", EXPLORE_LOSS},      {"anon", EXPLORE_LOSS},       {"ring", EXPLORE_LATE},
        {"pole", EXPLORE_LATE},       {"lease", EXPLORE_LATE},      {"anon", EXPLORE_LATE},
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct explore_setting setting = {
            .protocol = cv_protocol_find(cases[i].protocol), .node_count = 2, .delay_max_ticks = 1};
        setting.budget[cases[i].budget] = 1;
        struct worlds *some = calloc(1, sizeof *some);
        struct worlds *every = calloc(1, sizeof *every);
        reach_all(&setting, cases[i].budget, NULL, some);
        reach_all(&setting, cases[i].budget, some, every);
        assert_true(some->count <= every->count);
        free(some);
        free(every);
    }
}

/* ---- Turns ----------------------------------------------------------------------------------- */

struct turns {
    struct explore_model model;
    struct explore_turn turn;
    struct worlds worlds;
    struct explore_world *waiting[WORLDS_MAX];
    uint32_t count;
};

static void add_waiting(struct turns *t, struct explore_world *world)
{
    if (enter(&t->worlds, hash_world(&t->model, world))) {
        t->waiting[t->count] = explore_world_new(&t->model);
        explore_world_copy(&t->model, t->waiting[t->count++], world);
    }
}

static void add_end(void *context, struct explore_turn *turn)
{
    struct turns *t = context;
    if (!t->model.end.is_broken && !t->model.end.is_bound) {
        add_waiting(t, turn->to);
    }
}

static void add_each(struct turns *t, struct explore_world *from, struct worlds *within,
                     uint32_t *ret_count)
{
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    struct explore_world *to = explore_world_new(&t->model);
    const uint32_t count = explore_choices(&t->model, from, choice);
    for (uint32_t i = 0; i < count; i++) {
        memset(&t->model.end, 0, sizeof t->model.end);
        explore_world_copy(&t->model, to, from);
        if (!explore_do(&t->model, to, &choice[i]) || t->model.end.is_broken ||
            !explore_settle(&t->model, to)) {
            continue;
        }
        if (t->model.has_turned) {
            add_waiting(t, to);
        } else if (enter(within, hash_world(&t->model, to))) {
            add_each(t, to, within, ret_count);
        }
    }
    *ret_count += count;
    free(to);
}

/* The worlds in which turns begin, found turn by turn or choice by choice. */
static uint32_t reach_turns(const struct explore_setting *setting, bool are_whole,
                            struct worlds *ret_worlds)
{
    struct turns *t = calloc(1, sizeof *t);
    struct worlds *within = calloc(1, sizeof *within);
    struct cv_errtext why = {""};
    uint32_t choices = 0;
    assert_int_equal(explore_open(setting, &t->model, &why), CV_OK);
    explore_turn_init(&t->turn, &t->model);
    struct explore_world *first = explore_world_new(&t->model);
    explore_world_begin(&t->model, first);
    assert_true(explore_settle(&t->model, first));
    add_waiting(t, first);
    while (t->count > 0) {
        struct explore_world *from = t->waiting[--t->count];
        if (are_whole) {
            choices += explore_turn_all(&t->turn, &t->model, from, add_end, t);
        } else {
            memset(within, 0, sizeof *within);
            add_each(t, from, within, &choices);
        }
        free(from);
    }
    *ret_worlds = t->worlds;
    explore_turn_fini(&t->turn);
    explore_model_fini(&t->model);
    free(first);
    free(within);
    free(t);
    return choices;
}

static void turns_lead_where_their_choices_lead(void **unused)
{
    (void)unused;
    static const struct {
        const char *protocol;
        uint8_t budget[EXPLORE_BUDGET_COUNT];
    } cases[] = {
        {"bully", {[EXPLORE_LOSS] = 1, [EXPLORE_CRASH] = 1}},
        {"ring", {[EXPLORE_DUPLICATE] = 1}},
        {"pole", {[EXPLORE_CRASH] = 1, [EXPLORE_RECOVER] = 1, [EXPLORE_REBOOT] = 1}},
        {"pole", {[EXPLORE_REORDER] = 1, [EXPLORE_LOSS] = 1}},
        {"local", {[EXPLORE_RESIGN] = 1, [EXPLORE_DISK] = 1}},
        {"lease", {[EXPLORE_RESTART] = 1, [EXPLORE_PAUSE] = 1}},
        {"anon", {[EXPLORE_CRASH] = 1, [EXPLORE_RECOVER] = 1}},
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct explore_setting setting = {
            .protocol = cv_protocol_find(cases[i].protocol), .node_count = 2, .delay_max_ticks = 1};
        memcpy(setting.budget, cases[i].budget, sizeof setting.budget);
        struct worlds *turns = calloc(1, sizeof *turns);
        struct worlds *steps = calloc(1, sizeof *steps);
        assert_int_equal(reach_turns(&setting, /* are_whole= */ true, turns),
                         reach_turns(&setting, /* are_whole= */ false, steps));
        assert_int_equal(turns->count, steps->count);
        for (uint32_t j = 0; j < COUNT_OF(turns->place); j++) {
            assert_true(turns->place[j] == 0 || *find(steps, turns->place[j]) != 0);
        }
        free(turns);
        free(steps);
    }
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
        cmocka_unit_test(faults_at_the_moments_that_matter_reach_all_worlds),
        cmocka_unit_test(turns_lead_where_their_choices_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
