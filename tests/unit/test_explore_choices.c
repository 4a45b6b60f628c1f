/* tests/unit/test_explore_choices.c - the exhaustive search tries what may happen, at every instant
 * at which it matters.
 *
 * The explored protocol is a known one whose step is watched: it says what it has met, and keeps a
 * word of its own behind the state of the core. */
#include "explore/search.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

typedef void watch(uint64_t *word, void *state, const struct cv_event *event,
                   struct cv_effects *out);

static const struct cv_protocol *real; /* the watched protocol */
static watch *watching;
static bool is_met; /* what the test waits for has happened in a step */

static size_t size_with_word(const struct cv_config *config)
{
    return (real->size(config) + 7) / 8 * 8 + sizeof(uint64_t);
}

static const struct cv_config *last_config;

static void init_with_word(void *state, const struct cv_config *config)
{
    last_config = config; /* the sizes are the same for all nodes */
    memset(state, 0, size_with_word(config));
    real->init(state, config);
}

static void step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    uint8_t *end = (uint8_t *)state + size_with_word(last_config);
    watching((uint64_t *)(void *)(end - sizeof(uint64_t)), state, event, out);
}

static struct explore_setting watched(const char *name, watch *how)
{
    static struct cv_protocol protocol;
    real = cv_protocol_find(name);
    watching = how;
    is_met = false;
    protocol = *real;
    protocol.size = size_with_word;
    protocol.init = init_with_word;
    protocol.step = step;
    return (struct explore_setting){.protocol = &protocol, .node_count = 2, .delay_max_ticks = 1};
}

static struct explore_result search(const struct explore_setting *setting)
{
    const struct explore_limits limits = {
        .states_max = 10000000, .bytes_max = (uint64_t)1 << 30, .wall_s_max = 1e9};
    struct cv_errtext why = {""};
    struct explore_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    if (explore_open(setting, model, &why) != CV_OK) {
        fail_msg("%s: %s", setting->protocol->name, why.text);
    }
    struct explore_result result;
    assert_int_equal(explore_search(model, &limits, &result, &why), CV_OK);
    free(result.path);
    result.path = NULL;
    explore_model_fini(model);
    free(model);
    return result;
}

/* ---- Where nothing happens ------------------------------------------------------------------- */

/* A process that arms no timer and sends nothing. */
static void do_nothing(uint64_t *word, void *state, const struct cv_event *event,
                       struct cv_effects *out)
{
    (void)word;
    (void)state;
    (void)event;
    (void)out;
}

static void a_cluster_in_which_nothing_happens_is_judged(void **unused)
{
    (void)unused;
    static const enum explore_budget budgets[] = {EXPLORE_CRASH, EXPLORE_PARTITION, EXPLORE_ONE_WAY,
                                                  EXPLORE_PAUSE, EXPLORE_LATE};
    for (uint32_t i = 0; i < COUNT_OF(budgets); i++) {
        struct explore_setting setting = watched("bully", do_nothing);
        setting.judges_liveness = true;
        setting.budget[budgets[i]] = 1;
        const struct explore_result r = search(&setting);
        assert_int_equal(r.outcome, EXPLORE_BROKEN);
        assert_int_equal(r.property, CV_PROPERTY_TERMINATION);
    }
}

/* A process stops for ever with its first timer; what it sends then may be cut off. */
static void stop_for_ever(uint64_t *word, void *state, const struct cv_event *event,
                          struct cv_effects *out)
{
    if (*word == 0) {
        real->step(state, event, out);
    }
    if (event->kind == CV_EVENT_TIMER) {
        *word = 1;
    }
}

static void what_a_partition_has_stopped_is_judged(void **unused)
{
    (void)unused;
    struct explore_setting setting = watched("bully", stop_for_ever);
    setting.judges_liveness = true;
    setting.budget[EXPLORE_PARTITION] = 1;
    const struct explore_result r = search(&setting);
    assert_int_equal(r.outcome, EXPLORE_BROKEN);
    assert_true(r.property == CV_PROPERTY_AGREEMENT || r.property == CV_PROPERTY_TERMINATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_in_which_nothing_happens_is_judged),
        cmocka_unit_test(what_a_partition_has_stopped_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
