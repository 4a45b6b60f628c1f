/* tests/property/prop_replay.c - the simulator repeats what the exhaustive search does.
 *
 * Random paths through explored worlds, with every budget, drift and longer delays, are written as
 * `manual` scenarios (explore/story.h). In the simulator each of their lines must find something to
 * do, and every node must believe the same at the same time as in the search. So the cores have
 * decided the same: both host them with src/host. */
#include "explore/choices.h"
#include "explore/search.h"
#include "explore/story.h"
#include "sim/world.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 120u
#define BELIEFS_MAX 400u

/* A node changes its belief. All anonymous leaders count as one. */
struct belief {
    int64_t at_ns;
    unsigned node, leader;
};

struct beliefs {
    struct belief item[BELIEFS_MAX];
    uint32_t count;
};

static void add(struct beliefs *b, int64_t at_ns, unsigned node, unsigned leader)
{
    assert_true(b->count < BELIEFS_MAX);
    b->item[b->count++] = (struct belief){at_ns, node, leader};
}

/* A line of the trace of a path. */
static void hear(void *context, int64_t at_ns, const char *line)
{
    unsigned node;
    unsigned leader;
    int end = 0;
    if (sscanf(line, "  node %u follows %u", &node, &leader) == 2) {
        add(context, at_ns, node, leader);
    } else if (sscanf(line, "  node %u LEADS%n", &node, &end) == 1 && end > 0) {
        add(context, at_ns, node, node);
    } else if (sscanf(line, "  node %u knows no leader%n", &node, &end) == 1 && end > 0) {
        add(context, at_ns, node, 0);
    }
}

static void see(void *context, const struct cv_record *record)
{
    if (record->kind == CV_RECORD_BELIEF) {
        add(context, record->at_ns, record->node, record->peer);
    }
}

/* ---- A random path --------------------------------------------------------------------------- */

static uint32_t walk(struct explore_model *model, uint64_t *chance, uint32_t *ret_path)
{
    struct explore_world *world = explore_world_new(model);
    uint32_t count = 0;
    memset(&model->end, 0, sizeof model->end);
    explore_world_begin(model, world);
    while (count < STEPS_MAX && explore_settle(model, world)) {
        struct explore_choice choice[EXPLORE_CHOICES_MAX];
        const uint32_t choices = explore_choices(model, world, choice);
        const bool is_any = test_random_below(chance, 4) == 0;
        const uint32_t chosen = is_any ? (uint32_t)test_random_below(chance, choices) : 0;
        ret_path[count] = chosen;
        const bool is_new = explore_do(model, world, &choice[chosen]);
        if (!is_new || model->end.is_broken || model->end.is_bound) {
            break; /* the path ends here */
        }
        count++;
    }
    free(world);
    return count;
}

static char *tell(struct explore_model *model, uint32_t *path, uint32_t count)
{
    const struct explore_result result = {
        .outcome = EXPLORE_BROKEN,
        .property = CV_PROPERTY_ASSERTIONS, /* none is broken: only the beliefs are compared */
        .path = path,
        .path_count = count,
    };
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct cv_errtext why = {""};
    if (explore_story(model, &result, EXPLORE_STORY_BY_HAND, out, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

static bool is_same(const struct belief *a, const struct belief *b, bool is_anonymous)
{
    const bool is_same_leader =
        is_anonymous ? (a->leader == 0) == (b->leader == 0) : a->leader == b->leader;
    return a->at_ns == b->at_ns && a->node == b->node && is_same_leader;
}

static void compare(const struct explore_model *model, const struct beliefs *heard,
                    const struct beliefs *seen, const char *text)
{
    for (uint32_t i = 0; i < heard->count && i < seen->count; i++) {
        const struct belief *a = &heard->item[i];
        const struct belief *b = &seen->item[i];
        if (!is_same(a, b, model->protocol->is_anonymous)) {
            fail_msg("belief %u: node %u in leader %u at %lld, but in the simulator node %u in "
                     "leader %u at "
                     "%lld:\n%s",
                     i, a->node, a->leader, (long long)a->at_ns, b->node, b->leader,
                     (long long)b->at_ns, text);
        }
    }
    if (heard->count != seen->count) {
        fail_msg("%u beliefs, but %u in the simulator:\n%s", heard->count, seen->count, text);
    }
}

static void replay(struct explore_model *model, uint32_t *path, uint32_t count)
{
    struct beliefs *heard = calloc(2, sizeof *heard);
    assert_non_null(heard);
    struct beliefs *seen = heard + 1;
    char *text = tell(model, path, count);
    model->elapsed_ns = 0;
    explore_replay(model, path, count, hear, heard);
    struct sim_scenario *scenario;
    struct cv_errtext why = {""};
    if (sim_scenario_parse("walk", text, strlen(text), &scenario, &why) != CV_OK) {
        fail_msg("%s:\n%s", why.text, text);
    }
    const struct sim_world_options options = {.observe = see, .context = seen};
    struct sim_world *world = sim_world_new(scenario, 1, &options);
    (void)sim_world_run_all(world);
    if (world->properties.broken[CV_PROPERTY_ASSERTIONS].is_broken) {
        fail_msg("%s:\n%s", world->properties.broken[CV_PROPERTY_ASSERTIONS].detail, text);
    }
    if (world->manual.idle_count > 0) {
        fail_msg("line %u finds nothing to do:\n%s", world->manual.idle_line, text);
    }
    compare(model, heard, seen, text);
    sim_world_free(world);
    sim_scenario_free(scenario);
    free(text);
    free(heard);
}

/* ---- With every budget ----------------------------------------------------------------------- */

static void replay_walks(const struct explore_setting *setting, uint64_t seed)
{
    struct explore_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    struct cv_errtext why = {""};
    if (explore_open(setting, model, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    const uint32_t walks = (uint32_t)test_scale(30);
    for (uint32_t i = 0; i < walks; i++) {
        uint32_t path[STEPS_MAX];
        const uint32_t count = walk(model, &seed, path);
        replay(model, path, count);
    }
    explore_model_fini(model);
    free(model);
}

static void replay_protocol(const char *name, const char *option)
{
    static const uint8_t budgets[][EXPLORE_BUDGET_COUNT] = {
        {[EXPLORE_LOSS] = 3, [EXPLORE_REORDER] = 2, [EXPLORE_RESTART] = 2},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PARTITION] = 2},
        {[EXPLORE_PAUSE] = 2, [EXPLORE_LATE] = 3, [EXPLORE_DUPLICATE] = 2},
        {[EXPLORE_DUPLICATE] = 3, [EXPLORE_RESIGN] = 2, [EXPLORE_ONE_WAY] = 2},
        {[EXPLORE_DUPLICATE] = 3,
         [EXPLORE_REORDER] = 3,
         [EXPLORE_CRASH] = 2,
         [EXPLORE_RECOVER] = 2,
         [EXPLORE_DISK] = 1,
         [EXPLORE_SLOW] = 1},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_LATE] = 3, [EXPLORE_RESTART] = 2},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_WITNESS] = 2, [EXPLORE_ONE_WAY] = 1},
        {[EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_REBOOT] = 2, [EXPLORE_DISK] = 1},
        {[EXPLORE_SLOW] = 3, [EXPLORE_LOSS] = 1, [EXPLORE_DISK] = 1, [EXPLORE_RESTART] = 1},
        {[EXPLORE_SLOW] = 2, [EXPLORE_CRASH] = 2, [EXPLORE_RECOVER] = 2, [EXPLORE_PAUSE] = 1},
    };
    static const char *const rates[] = {NULL, "sfe", "fse", "esf"};
    const struct cv_protocol *protocol = cv_protocol_find(name);
    for (uint32_t i = 0; i < 4 * COUNT_OF(budgets); i++) {
        struct explore_setting setting = {
            .protocol = protocol,
            .node_count = 2 + i % 2,
            .delay_max_ticks = 1 + i / 2 % 2,
        };
        /* One letter for each node, and one for a store. */
        char rate[8];
        const uint32_t clocks = setting.node_count + (protocol->store_ns != NULL);
        if (rates[i % COUNT_OF(rates)] != NULL) {
            (void)snprintf(rate, sizeof rate, "%s%s", rates[i % COUNT_OF(rates)], "sf");
            rate[clocks] = '\0';
            setting.rates = rate;
        }
        if (option != NULL) {
            setting.option[setting.option_count++] = option;
        }
        memcpy(setting.budget, budgets[i / 4], sizeof setting.budget);
        replay_walks(&setting, i + 1);
    }
}

static void the_simulator_replays_classical_protocols(void **unused)
{
    (void)unused;
    replay_protocol("bully", NULL);
    replay_protocol("bully-improved", NULL);
    replay_protocol("bully-modified", NULL);
    replay_protocol("ring", NULL);
    replay_protocol("ring-modified", NULL);
}

static void the_simulator_replays_pole(void **unused)
{
    (void)unused;
    replay_protocol("pole", NULL);
    replay_protocol("pole", "epochs=2");
}

static void the_simulator_replays_local(void **unused)
{
    (void)unused;
    replay_protocol("local", NULL);
    replay_protocol("local", "majority=yes");
}

static void the_simulator_replays_lease(void **unused)
{
    (void)unused;
    replay_protocol("lease", NULL);
}

static void the_simulator_replays_anon(void **unused)
{
    (void)unused;
    replay_protocol("anon", NULL);
    replay_protocol("anon", "persist=yes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulator_replays_classical_protocols),
        cmocka_unit_test(the_simulator_replays_pole),
        cmocka_unit_test(the_simulator_replays_local),
        cmocka_unit_test(the_simulator_replays_lease),
        cmocka_unit_test(the_simulator_replays_anon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
