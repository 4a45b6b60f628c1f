/* tests/property/prop_symmetry.c - a search that lets nodes change places (explore/symmetry.h)
 * misses nothing.
 *
 * Each case is searched in full, without it. Of every world the hashes of the worlds that come next
 * are collected, and what ends a path there. Worlds with one hash must agree in this: then they are
 * equivalent, whatever happens later. Then it is searched again, one world for each hash, and must
 * meet every hash of the first search.
 *
 * What comes next are the worlds after this turn; if it is a node's, those after the turns of all
 * nodes in this instant, because the order of turns depends on places. For the same reason only
 * hashes of worlds in which an instant begins are compared between the two searches. */
#include "explore/canonical.h"
#include "explore/pack.h"
#include "explore/search.h"
#include "explore/symmetry.h"
#include "explore/turn.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define WORLDS_MAX (1u << 18)
#define NEXT_MAX 4096u /* worlds after one turn */

/* Open addressing; key 0: empty. */
struct table {
    uint64_t key[2 * WORLDS_MAX];
    uint64_t value[2 * WORLDS_MAX];
    uint32_t count;
};

/* The slot of a key, which is entered if it is new. */
static uint32_t slot_of(struct table *table, uint64_t key, bool *ret_is_new)
{
    uint32_t at = (uint32_t)(key % COUNT_OF(table->key));
    while (table->key[at] != 0 && table->key[at] != key) {
        at = (at + 1) % COUNT_OF(table->key);
    }
    *ret_is_new = table->key[at] == 0;
    if (*ret_is_new) {
        assert_true(++table->count < WORLDS_MAX);
        table->key[at] = key;
    }
    return at;
}

struct walk {
    struct explore_model model;
    struct explore_turn turn;
    struct explore_symmetry symmetry;
    struct explore_world *first;
    uint8_t *packed;
    bool merges;           /* worlds with one hash */
    bool is_broken;        /* a property, anywhere */
    struct table met;      /* worlds, by their bytes, or merged */
    struct table next_of;  /* by hash: a hash of what comes next */
    struct table instants; /* hashes of worlds in which an instant begins */
    struct explore_world *queue[WORLDS_MAX];
    uint32_t queue_first, queue_end;

    /* Of the world that is looked at: hashes and ends of paths; and worlds of the same instant. */
    uint64_t next[NEXT_MAX];
    uint32_t next_count;
    struct explore_world *between[NEXT_MAX];
    uint32_t between_count;
    bool is_of_node; /* it is a node's turn */
};

static bool enter(struct table *table, uint64_t key)
{
    bool is_new;
    (void)slot_of(table, key | 1, &is_new);
    return is_new;
}

static uint64_t hash_of(struct walk *w, const struct explore_world *world)
{
    return explore_symmetry_hash(&w->symmetry, &w->model, w->first, world);
}

static uint64_t hash_bytes(struct walk *w, const struct explore_world *world)
{
    const size_t bytes =
        explore_pack(&w->model, w->first, world, &(struct explore_packed){0}, w->packed);
    return explore_hash(w->packed, bytes);
}

static struct explore_world *copy_of(struct walk *w, const struct explore_world *world)
{
    struct explore_world *copy = explore_world_new(&w->model);
    explore_world_copy(&w->model, copy, world);
    return copy;
}

/* `begins`: time has passed before it, or it is the first world. */
static void meet(struct walk *w, const struct explore_world *world, bool begins)
{
    const uint64_t hash = hash_of(w, world);
    if (begins) {
        (void)enter(&w->instants, hash);
    }
    if (enter(&w->met, w->merges ? hash : hash_bytes(w, world))) {
        assert_true(w->queue_end < WORLDS_MAX);
        w->queue[w->queue_end++] = copy_of(w, world);
    }
}

static bool is_turn_of_node(const struct walk *w, const struct explore_world *world)
{
    return world->h.turn > 0 && world->h.turn <= w->model.node_count;
}

static void note_next(void *context, struct explore_turn *turn)
{
    struct walk *w = context;
    const struct explore_end *end = &w->model.end;
    const bool has_passed = w->model.elapsed_ns > 0;
    w->model.elapsed_ns = 0;
    assert_true(w->next_count < NEXT_MAX);
    if (end->is_broken || end->is_bound) {
        w->next[w->next_count++] = end->is_broken ? 2 + (uint64_t)end->property : 1;
        w->is_broken = w->is_broken || end->is_broken;
        return;
    }
    meet(w, turn->to, has_passed);
    if (w->is_of_node && !has_passed && is_turn_of_node(w, turn->to)) {
        assert_true(w->between_count < NEXT_MAX);
        w->between[w->between_count++] = copy_of(w, turn->to);
        return;
    }
    w->next[w->next_count++] = hash_of(w, turn->to);
}

static int compare_words(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A hash of the set of what comes next. */
static uint64_t hash_next(struct walk *w)
{
    uint64_t hash = 1;
    qsort(w->next, w->next_count, sizeof *w->next, compare_words);
    for (uint32_t i = 0; i < w->next_count; i++) {
        if (i == 0 || w->next[i] != w->next[i - 1]) {
            hash = explore_hash_word(w->next[i], hash);
        }
    }
    return hash;
}

/* Tries a turn, and the turns after it in the same instant. */
static void try_instant(struct walk *w, const struct explore_world *from)
{
    w->next_count = 0;
    w->is_of_node = is_turn_of_node(w, from);
    w->model.elapsed_ns = 0;
    (void)explore_turn_all(&w->turn, &w->model, from, note_next, w);
    while (w->between_count > 0) {
        struct explore_world *world = w->between[--w->between_count];
        (void)explore_turn_all(&w->turn, &w->model, world, note_next, w);
        free(world);
    }
}

static void look_at(struct walk *w, const struct explore_world *from, const char *name)
{
    bool is_new;
    try_instant(w, from);
    const uint64_t next = hash_next(w);
    const uint32_t at = slot_of(&w->next_of, hash_of(w, from) | 1, &is_new);
    if (is_new) {
        w->next_of.value[at] = next;
    } else if (w->next_of.value[at] != next) {
        fail_msg("%s: two worlds with one hash do not lead to the same hashes (turn %u)", name,
                 from->h.turn);
    }
}

/* Visits all worlds. To be freed. */
static struct walk *walk_all(const struct explore_setting *setting, bool merges, const char *name)
{
    struct cv_errtext why = {""};
    struct walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->merges = merges;
    assert_int_equal(explore_open(setting, &w->model, &why), CV_OK);
    assert_true(w->model.is_symmetric);
    explore_turn_init(&w->turn, &w->model);
    explore_symmetry_init(&w->symmetry, &w->model);
    w->packed = calloc(1, explore_pack_bytes_max(&w->model));
    w->first = explore_world_new(&w->model);
    explore_world_begin(&w->model, w->first);
    assert_true(explore_settle(&w->model, w->first));
    meet(w, w->first, /* begins= */ true);
    while (w->queue_first < w->queue_end) {
        struct explore_world *from = w->queue[w->queue_first++];
        look_at(w, from, name);
        free(from);
    }
    explore_turn_fini(&w->turn);
    explore_symmetry_fini(&w->symmetry);
    explore_model_fini(&w->model);
    free(w->packed);
    free(w->first);
    return w;
}

/* The search itself, with two threads: what it finds, and how many worlds it visits. */
static enum explore_outcome search(const struct explore_setting *setting, uint64_t *ret_states)
{
    struct cv_errtext why = {""};
    struct explore_model model;
    struct explore_result result;
    const struct explore_limits limits = {
        .states_max = UINT64_MAX, .bytes_max = UINT64_C(1) << 30, .wall_s_max = 3600, .threads = 2};
    assert_int_equal(explore_open(setting, &model, &why), CV_OK);
    assert_int_equal(explore_search(&model, &limits, &result, &why), CV_OK);
    explore_model_fini(&model);
    free(result.path);
    *ret_states = result.progress.states;
    return result.outcome;
}

static void compare_searches(const struct explore_setting *setting, const char *name)
{
    uint64_t states;
    struct walk *all = walk_all(setting, /* merges= */ false, name);
    struct walk *merged = walk_all(setting, /* merges= */ true, name);
    const uint32_t count = all->instants.count;
    for (uint32_t i = 0; i < COUNT_OF(merged->instants.key); i++) {
        if (merged->instants.key[i] != 0 && enter(&all->instants, merged->instants.key[i])) {
            fail_msg("%s: a hash was met by one search only", name);
        }
    }
    if (merged->instants.count != count) {
        fail_msg("%s: %u of %u hashes were met", name, merged->instants.count, count);
    }
    assert_int_equal(merged->is_broken, all->is_broken);
    assert_int_equal(search(setting, &states), all->is_broken ? EXPLORE_BROKEN : EXPLORE_EXHAUSTED);
    print_message("# %s: %llu of %u worlds\n", name, (unsigned long long)states, all->met.count);
    assert_true(states < all->met.count);
    free(all);
    free(merged);
}

struct example {
    const char *name, *protocol, *option, *rates;
    uint32_t node_count;
    bool judges_liveness;
    uint8_t budget[EXPLORE_BUDGET_COUNT];
};

static const struct example examples[] = {
    {"lease", "lease", NULL, NULL, 3, false, {0}},
    {"lease, resign", "lease", NULL, NULL, 3, false, {[EXPLORE_RESIGN] = 1}},
    {"lease, loss", "lease", NULL, NULL, 3, false, {[EXPLORE_LOSS] = 1}},
    {"lease, restart", "lease", NULL, NULL, 3, false, {[EXPLORE_RESTART] = 1}},
    {"anon", "anon", NULL, NULL, 3, false, {0}},
    {"anon, pause", "anon", NULL, NULL, 2, false, {[EXPLORE_PAUSE] = 1}},
    {"anon, repeated and reordered",
     "anon",
     NULL,
     NULL,
     2,
     false,
     {[EXPLORE_DUPLICATE] = 1, [EXPLORE_REORDER] = 1}},
    {"anon, slow", "anon", "persist=yes", NULL, 2, false, {[EXPLORE_SLOW] = 1}},
    {"lease, crash", "lease", NULL, NULL, 3, true, {[EXPLORE_CRASH] = 1}},
    {"lease, drift", "lease", NULL, "ssfe", 3, false, {[EXPLORE_LOSS] = 1}},
    {"lease, recover", "lease", NULL, NULL, 3, false, {[EXPLORE_CRASH] = 1, [EXPLORE_RECOVER] = 1}},
    {"lease, pause", "lease", NULL, NULL, 3, false, {[EXPLORE_PAUSE] = 1}},
    {"lease, partition", "lease", NULL, NULL, 2, false, {[EXPLORE_PARTITION] = 1}},
    {"lease, late", "lease", NULL, NULL, 2, true, {[EXPLORE_LATE] = 1}},
    {"anon, crash", "anon", NULL, NULL, 3, false, {[EXPLORE_CRASH] = 1}},
    {"anon, pause and crash",
     "anon",
     NULL,
     NULL,
     2,
     false,
     {[EXPLORE_CRASH] = 1, [EXPLORE_PAUSE] = 1}},
    {"anon, resign, liveness", "anon", NULL, NULL, 2, true, {[EXPLORE_RESIGN] = 1}},
};

/* With memory checkers only the first ones, which are small. */
static void worlds_with_one_hash_are_equivalent(void **unused)
{
    (void)unused;
    const uint32_t scaled = test_scale(COUNT_OF(examples));
    for (uint32_t i = 0; i < COUNT_OF(examples) && i < scaled; i++) {
        const struct example *e = &examples[i];
        struct explore_setting setting = {
            .protocol = cv_protocol_find(e->protocol),
            .node_count = e->node_count,
            .judges_liveness = e->judges_liveness,
            .delay_max_ticks = 1,
            .rates = e->rates,
        };
        if (e->option != NULL) {
            setting.option[setting.option_count++] = e->option;
        }
        memcpy(setting.budget, e->budget, sizeof setting.budget);
        compare_searches(&setting, e->name);
    }
}

/* With --drift one of these is searched. Only instants are counted: see above. */
static void nodes_that_are_alike_may_exchange_their_clocks(void **unused)
{
    (void)unused;
    static const char *const rates[][2] = {{"sfe", "fse"}, {"ess", "ses"}, {"eff", "fef"}};
    const uint32_t scaled = test_scale(COUNT_OF(rates));
    for (uint32_t i = 0; i < COUNT_OF(rates) && i < scaled; i++) {
        uint32_t instants[2];
        for (uint32_t j = 0; j < 2; j++) {
            const struct explore_setting setting = {
                .protocol = cv_protocol_find("lease"),
                .node_count = 2,
                .delay_max_ticks = 1,
                .rates = rates[i][j],
                .budget = {[EXPLORE_CRASH] = 1, [EXPLORE_LOSS] = 1},
            };
            struct walk *w = walk_all(&setting, /* merges= */ true, rates[i][j]);
            assert_false(w->is_broken);
            instants[j] = w->instants.count;
            free(w);
        }
        assert_int_equal(instants[0], instants[1]);
    }
}

/* If ids matter, no node changes its place. */
static void nodes_that_are_not_alike_keep_their_places(void **unused)
{
    (void)unused;
    static const char *const protocols[] = {
        "bully",         "bully-improved", "bully-modified", "ring",
        "ring-modified", "pole",           "local",          "anon"};
    for (uint32_t i = 0; i < COUNT_OF(protocols); i++) {
        struct cv_errtext why = {""};
        struct explore_model model;
        const struct explore_setting setting = {
            .protocol = cv_protocol_find(protocols[i]),
            .node_count = 2,
            .delay_max_ticks = 1,
            .budget = {[EXPLORE_RESTART] = 1}, /* anon: numbers may repeat */
        };
        assert_int_equal(explore_open(&setting, &model, &why), CV_OK);
        assert_false(model.is_symmetric);
        explore_model_fini(&model);
    }
}

/* A process of anon may begin and end to lead within one turn. Whether another one that begins in
 * the same instant overlaps with it depends on whose turn is first. */
static void orders_of_turns_are_kept_if_they_decide(void **unused)
{
    (void)unused;
    enum { ONE = CV_PROP(AT_MOST_ONE_LEADER), TOKEN = CV_PROP(TOKEN_MONOTONIC) };
    static const struct {
        const char *protocol;
        uint32_t only;
        bool is_symmetric;
    } cases[] = {{"anon", 0, true},
                 {"anon", ONE, false},
                 {"anon", ONE | TOKEN, false},
                 {"anon", TOKEN, false},
                 {"lease", 0, true},
                 {"lease", ONE, true},
                 {"lease", ONE | TOKEN, true},
                 {"lease", TOKEN, false}};
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct cv_errtext why = {""};
        struct explore_model model;
        const struct explore_setting setting = {
            .protocol = cv_protocol_find(cases[i].protocol),
            .node_count = 2,
            .delay_max_ticks = 1,
            .only = cases[i].only,
        };
        assert_int_equal(explore_open(&setting, &model, &why), CV_OK);
        assert_int_equal(model.is_symmetric, cases[i].is_symmetric);
        explore_model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worlds_with_one_hash_are_equivalent),
        cmocka_unit_test(nodes_that_are_alike_may_exchange_their_clocks),
        cmocka_unit_test(nodes_that_are_not_alike_keep_their_places),
        cmocka_unit_test(orders_of_turns_are_kept_if_they_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
