/* tests/unit/test_explore_choices.c - the exhaustive search tries what may happen, at every instant
 * at which it matters.
 *
 * The explored protocol is a known one whose step is watched: it says what it has met, and keeps a
 * word of its own behind the state of the core. */
#include "explore/choices.h"
#include "explore/search.h"
#include "explore/service.h"
#include "protocols/classic.h"
#include "protocols/pole.h"
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

/* ---- At every tick ------------------------------------------------------------------------- */

/* The word is the instant of the heartbeat that was the last event. */
static void resign_after_heartbeat(uint64_t *word, void *state, const struct cv_event *event,
                                   struct cv_effects *out)
{
    const bool is_heartbeat =
        event->kind == CV_EVENT_TIMER && event->timer == CLASSIC_TIMER_HEARTBEAT;
    is_met = is_met || (event->kind == CV_EVENT_RESIGN && *word != 0 &&
                        event->now_ns == (int64_t)*word + NS_PER_MS);
    *word = is_heartbeat ? (uint64_t)event->now_ns : 0;
    real->step(state, event, out);
}

static void a_leader_is_asked_to_resign_when_nothing_else_happens(void **unused)
{
    (void)unused;
    struct explore_setting setting = watched("bully", resign_after_heartbeat);
    setting.budget[EXPLORE_RESIGN] = 1;
    assert_int_equal(search(&setting).outcome, EXPLORE_EXHAUSTED);
    assert_true(is_met);
}

/* Bits of how the store may restart in its turn, while nothing else may happen in that turn. */
static uint32_t restarts_alone(const struct explore_choice *choice, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (choice[i].act != EXPLORE_ACT_RESTART && choice[i].act != EXPLORE_ACT_END) {
            return 0;
        }
        found |= choice[i].act == EXPLORE_ACT_RESTART ? BIT(choice[i].what) : 0;
    }
    return found;
}

/* The first choice without a fault. */
static uint32_t usual(const struct explore_choice *choice)
{
    uint32_t i = 0;
    while (choice[i].act == EXPLORE_ACT_RESTART) {
        i++;
    }
    return i;
}

static void a_store_restarts_between_its_events(void **unused)
{
    (void)unused;
    struct explore_setting setting = {.protocol = cv_protocol_find("lease"), .node_count = 1};
    setting.delay_max_ticks = 1;
    setting.budget[EXPLORE_RESTART] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    uint32_t extends_at[2] = {0}; /* while a request is under way; while nothing is */
    bool fails = false;
    explore_world_begin(model, world);
    for (uint32_t i = 0; i < 60 && explore_settle(model, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        const uint32_t found = restarts_alone(choice, count);
        fails = fails || (found & BIT(EXPLORE_RESTART_FAILS)) != 0;
        extends_at[world->h.message_count == 0] += (found & BIT(EXPLORE_RESTART_EXTENDS)) != 0;
        (void)explore_do(model, world, &choice[usual(choice)]);
    }
    assert_true(fails);
    assert_in_range(extends_at[0], 1, 60);
    assert_in_range(extends_at[1], 1, 60);
    free(world);
    explore_model_fini(model);
    free(model);
}

/* ---- While a node is down -------------------------------------------------------------------- */

/* The word is the instant of the start. */
static void hear_at_start(uint64_t *word, void *state, const struct cv_event *event,
                          struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        *word = (uint64_t)event->now_ns;
    }
    is_met = is_met || (event->kind == CV_EVENT_MESSAGE && *word == (uint64_t)event->now_ns);
    real->step(state, event, out);
}

static void a_message_comes_in_the_instant_of_a_recovery(void **unused)
{
    (void)unused;
    struct explore_setting setting = watched("bully", hear_at_start);
    setting.budget[EXPLORE_CRASH] = setting.budget[EXPLORE_RECOVER] = 1;
    assert_int_equal(search(&setting).outcome, EXPLORE_EXHAUSTED);
    assert_true(is_met);
}

/* The choice with that act of node 1, or `count`. */
static uint32_t find(const struct explore_choice *choice, uint32_t count, enum explore_act act)
{
    uint32_t i = 0;
    while (i < count && (choice[i].act != act || choice[i].node != 0)) {
        i++;
    }
    return i;
}

/* Node 1 crashes; a message to it becomes late while it is down; it starts again and gets it. */
static void a_message_to_a_node_that_is_down_may_be_late(void **unused)
{
    (void)unused;
    static const enum explore_act wanted[] = {EXPLORE_ACT_CRASH,   EXPLORE_ACT_END,
                                              EXPLORE_ACT_DELAY,   EXPLORE_ACT_END,
                                              EXPLORE_ACT_RECOVER, EXPLORE_ACT_DELIVER};
    struct explore_setting setting = {.protocol = cv_protocol_find("bully"), .node_count = 2};
    setting.delay_max_ticks = 1;
    setting.budget[EXPLORE_CRASH] = setting.budget[EXPLORE_RECOVER] = 1;
    setting.budget[EXPLORE_LATE] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    uint32_t done = 0;
    explore_world_begin(model, world);
    for (uint32_t i = 0; i < 60 && done < COUNT_OF(wanted); i++) {
        assert_true(explore_settle(model, world));
        const uint32_t count = explore_choices(model, world, choice);
        const uint32_t at = world->h.turn == 1 ? find(choice, count, wanted[done]) : count;
        const uint32_t rest = find(choice, count, EXPLORE_ACT_END);
        done += at < count;
        (void)explore_do(model, world, &choice[at < count ? at : rest < count ? rest : 0]);
    }
    assert_int_equal(done, COUNT_OF(wanted));
    free(world);
    explore_model_fini(model);
    free(model);
}

/* ---- After an event -------------------------------------------------------------------------- */

/* Is a crash offered at node 2 while it has no other event left in its turn? */
static bool crashes_after_its_events(bool judges_liveness)
{
    struct explore_setting setting = {.protocol = cv_protocol_find("bully"), .node_count = 2};
    setting.delay_max_ticks = 1;
    setting.judges_liveness = judges_liveness;
    setting.budget[EXPLORE_CRASH] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    bool is_found = false;
    explore_world_begin(model, world);
    for (uint32_t i = 0; i < 60 && !is_found && explore_settle(model, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        const uint32_t first = choice[0].act == EXPLORE_ACT_CRASH;
        is_found = world->h.turn == 2 && first == 1;
        assert_true(first < count);
        (void)explore_do(model, world, &choice[first]);
    }
    free(world);
    explore_model_fini(model);
    free(model);
    return is_found;
}

static void liveness_is_judged_from_the_instant_of_a_crash(void **unused)
{
    (void)unused;
    assert_true(crashes_after_its_events(true));
    assert_false(crashes_after_its_events(false)); /* the crash before its next event is the same */
}

/* ---- Longer delays --------------------------------------------------------------------------- */

/* A message may be lost at the first instant at which it may arrive, so those after it need not
 * wait. */
static void a_lost_message_does_not_block_its_link(void **unused)
{
    (void)unused;
    struct explore_setting setting = {.protocol = cv_protocol_find("bully"), .node_count = 2};
    setting.delay_max_ticks = 3;
    setting.budget[EXPLORE_LOSS] = setting.budget[EXPLORE_LATE] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    uint32_t count;
    explore_world_begin(model, world);
    do { /* until something may arrive at node 1 */
        assert_true(explore_settle(model, world));
        count = explore_choices(model, world, choice);
        const uint32_t end = find(choice, count, EXPLORE_ACT_END);
        if (world->h.turn == 1 && find(choice, count, EXPLORE_ACT_DELIVER) < count) {
            break;
        }
        (void)explore_do(model, world, &choice[end < count ? end : 0]);
    } while (true);
    assert_true(find(choice, count, EXPLORE_ACT_END) < count); /* it may also arrive later */
    assert_true(find(choice, count, EXPLORE_ACT_LOSE) < count);
    assert_true(find(choice, count, EXPLORE_ACT_DELAY) < count);
    free(world);
    explore_model_fini(model);
    free(model);
}

/* ---- Combinations ---------------------------------------------------------------------------- */

#define ACTS_MAX 64u

struct offered {
    bool is[ACTS_MAX][EXPLORE_RECORD_COUNT];
    bool late_again; /* a late message may come twice */
};

/* What is offered on a random path. */
static void walk(struct explore_model *model, uint64_t *chance, struct offered *offered)
{
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    memset(&model->end, 0, sizeof model->end);
    explore_world_begin(model, world);
    for (uint32_t i = 0; i < 200 && explore_settle(model, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        for (uint32_t j = 0; j < count; j++) {
            const struct explore_choice *c = &choice[j];
            offered->is[c->act][c->record] = true;
            offered->late_again =
                offered->late_again || (c->act == EXPLORE_ACT_DUPLICATE &&
                                        explore_message_at(model, world, c->what)->is_late);
        }
        const uint32_t chosen = (uint32_t)test_random_below(chance, count);
        if (!explore_do(model, world, &choice[chosen]) || model->end.is_broken) {
            break;
        }
    }
    free(world);
}

/* Which message arrives, and what becomes of the record of its receiver, are independent. */
static void faults_of_messages_and_records_combine(void **unused)
{
    (void)unused;
    static const enum explore_act acts[] = {EXPLORE_ACT_TIMER, EXPLORE_ACT_DELIVER,
                                            EXPLORE_ACT_OVERTAKE, EXPLORE_ACT_DUPLICATE,
                                            EXPLORE_ACT_OVERTAKE_TWICE};
    static const enum explore_budget budgets[] = {
        EXPLORE_CRASH, EXPLORE_RECOVER, EXPLORE_DUPLICATE, EXPLORE_REORDER,
        EXPLORE_LATE,  EXPLORE_DISK,    EXPLORE_SLOW};
    struct explore_setting setting = {.protocol = cv_protocol_find("bully"), .node_count = 2};
    setting.delay_max_ticks = 3;
    for (uint32_t i = 0; i < COUNT_OF(budgets); i++) {
        setting.budget[budgets[i]] = 3;
    }
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct offered offered = {0};
    assert_true(EXPLORE_ACT_COUNT <= ACTS_MAX);
    uint64_t seed = 1;
    for (uint32_t i = 0; i < 100; i++) {
        walk(model, &seed, &offered);
    }
    for (uint32_t i = 0; i < COUNT_OF(acts); i++) {
        for (uint32_t record = 0; record < EXPLORE_RECORD_COUNT; record++) {
            assert_true(offered.is[acts[i]][record]);
        }
    }
    assert_true(offered.late_again);
    explore_model_fini(model);
    free(model);
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* A leader leaves because another process was better by the margin. */
static void leave(uint64_t *word, void *state, const struct cv_event *event, struct cv_effects *out)
{
    (void)word;
    real->step(state, event, out);
    CV_ASSERT(((const struct pole *)state)->role != POLE_LEAVING);
}

static void measure(uint64_t *word, void *state, const struct cv_event *event,
                    struct cv_effects *out)
{
    (void)word;
    real->step(state, event, out);
    is_met = is_met || (event->kind == CV_EVENT_MESSAGE && event->message->type == POLE_ECHO &&
                        pole_peer(state, event->peer)->echoed_ns == event->now_ns);
}

static void round_trips_are_measured(void **unused)
{
    (void)unused;
    struct explore_setting setting = watched("pole", measure);
    setting.option[setting.option_count++] = "oracle=consensus";
    setting.budget[EXPLORE_CRASH] = 1;
    assert_int_equal(search(&setting).outcome, EXPLORE_EXHAUSTED);
    assert_true(is_met);
}

static void a_leader_leaves_for_a_better_process(void **unused)
{
    (void)unused;
    struct explore_setting setting = watched("pole", leave);
    setting.option[setting.option_count++] = "oracle=consensus";
    setting.option[setting.option_count++] = "resign-margin=1";
    setting.option[setting.option_count++] = "resign-hold=0t";
    setting.delay_max_ticks = 2;
    const struct explore_result r = search(&setting);
    assert_int_equal(r.outcome, EXPLORE_BROKEN);
    assert_int_equal(r.property, CV_PROPERTY_ASSERTIONS);
}

/* ---- The horizon ----------------------------------------------------------------------------- */

static void a_horizon_that_is_too_short_is_refused(void **unused)
{
    (void)unused;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    struct explore_setting setting = {.protocol = cv_protocol_find("local"), .node_count = 2};
    setting.delay_max_ticks = 1;
    setting.horizon_ticks = 15;
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "--horizon 15"));
    setting.horizon_ticks = 16;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    explore_model_fini(model);
    setting.delay_max_ticks = 17;
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "--delay"));
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_in_which_nothing_happens_is_judged),
        cmocka_unit_test(what_a_partition_has_stopped_is_judged),
        cmocka_unit_test(a_leader_is_asked_to_resign_when_nothing_else_happens),
        cmocka_unit_test(a_store_restarts_between_its_events),
        cmocka_unit_test(a_message_comes_in_the_instant_of_a_recovery),
        cmocka_unit_test(a_message_to_a_node_that_is_down_may_be_late),
        cmocka_unit_test(liveness_is_judged_from_the_instant_of_a_crash),
        cmocka_unit_test(a_lost_message_does_not_block_its_link),
        cmocka_unit_test(round_trips_are_measured),
        cmocka_unit_test(a_leader_leaves_for_a_better_process),
        cmocka_unit_test(a_horizon_that_is_too_short_is_refused),
        cmocka_unit_test(faults_of_messages_and_records_combine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
