/* tests/unit/test_own_oracles.c - scores that an embedding program brings through the
 * configuration: which are refused, and that the best by them leads. */
#include "oracles/oracle.h"
#include "sim/world.h"
#include "support/support.h"

#include <string.h>

/* The nearer to 3 the better. */
static int64_t near_three_score(const struct cv_oracle_view *view)
{
    return view->self > 3 ? view->self - 3 : 3 - view->self;
}
static const struct cv_oracle near_three = {
    .name = "near-3", .order = CV_SCORE_LOWER_WINS, .score = near_three_score};

/* An own oracle may use the built-in ones, and look at the peers. */
static int64_t slow_score(const struct cv_oracle_view *view)
{
    return cv_oracle_find("worst-case")->score(view);
}
static const struct cv_oracle slow = {.name = "slow",
                                      .order = CV_SCORE_HIGHER_WINS,
                                      .is_time = true,
                                      .needs_peers = true,
                                      .score = slow_score};

static int64_t wild_score(const struct cv_oracle_view *view)
{
    return view->self == 1 ? INT64_MIN : INT64_MAX;
}
static const struct cv_oracle wild = {
    .name = "wild", .order = CV_SCORE_HIGHER_WINS, .score = wild_score};

static const struct cv_oracle *const three[] = {&near_three, &slow, &wild};

static int configure(const struct cv_oracle *const *oracles, uint32_t count, const char *text,
                     struct cv_errtext *why)
{
    const struct cv_protocol *pole = cv_protocol_find("pole");
    struct cv_config config;
    cv_config_init(&config, pole, 1, 5);
    assert_null(config.oracles); /* none, unless the program brings some */
    config.oracles = oracles;
    config.oracle_count = count;
    assert_int_equal(cv_config_set(&config, pole, "oracle", text, why), CV_OK);
    return cv_core_configure(pole, &config, why);
}

/* The leader of five after 5 s with that list; 4 and 5 are far from the others. */
static cv_id elected(const char *text)
{
    static const char scenario_text[] = "protocol pole profile=wan\nnodes 5\nlink * delay 1ms\n"
                                        "link 4-* delay 20ms\nlink 5-* delay 40ms\nrun 10s\n";
    struct sim_scenario *scenario;
    struct cv_errtext why = {""};
    assert_int_equal(
        sim_scenario_parse("own", scenario_text, strlen(scenario_text), &scenario, &why), CV_OK);
    scenario->config.oracles = three;
    scenario->config.oracle_count = COUNT_OF(three);
    assert_int_equal(cv_config_set(&scenario->config, scenario->protocol, "oracle", text, &why),
                     CV_OK);
    assert_int_equal(cv_core_configure(scenario->protocol, &scenario->config, &why), CV_OK);
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, 1, &options);
    sim_world_run(world, 5 * NS_PER_S);
    cv_id leader = CV_ID_NONE;
    for (cv_id id = 1; id <= 5; id++) {
        leader = sim_world_holds(world, id) ? id : leader;
    }
    assert_false(world->is_over);
    sim_world_free(world);
    sim_scenario_free(scenario);
    return leader;
}

static void best_by_an_own_score_leads(void **unused)
{
    (void)unused;
    assert_int_equal(elected("near-3"), 3);
    assert_int_equal(elected("slow"), 5);          /* it waits for everybody's round trips */
    assert_int_equal(elected("near-3/2,slow"), 4); /* 2, 3 and 4 are equal: the slowest of them */
    assert_int_equal(elected("history,near-3"), 3);
}

static void own_scores_are_clamped_to_their_bounds(void **unused)
{
    (void)unused;
    assert_int_equal(elected("wild"), 5); /* 2 to 5 say too much, 1 too little */
    assert_int_equal(elected("wild,near-3"), 3);
}

static void ranges_are_written_in_the_score_s_unit(void **unused)
{
    (void)unused;
    struct cv_errtext why = {""};
    assert_int_equal(configure(three, 3, "slow/10ms", &why), CV_OK);
    assert_int_equal(configure(three, 3, "slow/10", &why), CV_E_INVALID);
    assert_int_equal(configure(three, 3, "near-3/10ms", &why), CV_E_INVALID);
}

static void names_are_known_where_they_were_brought(void **unused)
{
    (void)unused;
    struct cv_errtext why = {""};
    assert_int_equal(configure(NULL, 0, "near-3", &why), CV_E_UNKNOWN);
    assert_non_null(strstr(why.text, "no oracle 'near-3'"));
    assert_int_equal(configure(three, 3, "near-3", &why), CV_OK);
    assert_int_equal(configure(three, 3, "near", &why), CV_E_UNKNOWN);
    assert_int_equal(configure(three, 3, "latency", &why), CV_OK);
}

static void tables_that_cannot_be_used_are_refused(void **unused)
{
    (void)unused;
    static const struct cv_oracle nameless = {.score = wild_score};
    static const struct cv_oracle empty = {.name = "", .score = wild_score};
    static const struct cv_oracle comma = {.name = "a,b", .score = wild_score};
    static const struct cv_oracle slash = {.name = "a/b", .score = wild_score};
    static const struct cv_oracle capital = {.name = "Mine", .score = wild_score};
    static const struct cv_oracle longest = {.name = "abcdefghijklmnopqrstuvwxyz-01234",
                                             .score = wild_score};
    static const struct cv_oracle mute = {.name = "mute"};
    static const struct cv_oracle order = {
        .name = "order", .order = (enum cv_score_order)7, .score = wild_score};
    static const struct cv_oracle taken = {.name = "latency", .score = wild_score};
    static const struct {
        const struct cv_oracle *oracle;
        const char *says;
    } wrong[] = {
        {NULL, "own oracle 1 has no table"},
        {&nameless, "own oracle 1 has no name"},
        {&empty, "a name has up to"},
        {&comma, "a name has up to"},
        {&slash, "a name has up to"},
        {&capital, "a name has up to"},
        {&longest, "up to 31 characters"},
        {&mute, "'mute' has no function"},
        {&order, "'order': its order is neither higher wins nor lower wins"},
        {&taken, "'latency': a built-in oracle has this name"},
        {&near_three, "'near-3' is given twice"},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        const struct cv_oracle *const pair[] = {&near_three, wrong[i].oracle};
        struct cv_errtext why = {""};
        assert_int_equal(configure(pair, 2, "history", &why), CV_E_INVALID); /* used or not */
        if (strstr(why.text, wrong[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", why.text, wrong[i].says);
        }
    }
    struct cv_errtext why = {""};
    assert_int_equal(configure(NULL, 1, "history", &why), CV_E_INVALID);
    assert_int_equal(configure(three, CV_ORACLES_OWN_MAX + 1, "history", &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "17 own oracles: at most 16 are allowed"));
}

/* A core that uses none of them has no pointer in it: equal configurations give equal bytes. */
static void a_list_without_own_scores_points_to_nothing(void **unused)
{
    (void)unused;
    struct cv_config config;
    const struct cv_protocol *pole = cv_protocol_find("pole");
    cv_config_init(&config, pole, 1, 5);
    config.oracles = three;
    config.oracle_count = COUNT_OF(three);
    struct cv_scoring with, without;
    assert_int_equal(cv__scoring_parse("latency/10ms,history", &config, &with, NULL), CV_OK);
    assert_int_equal(cv__scoring_parse("latency/10ms,history", NULL, &without, NULL), CV_OK);
    assert_memory_equal(&with, &without, sizeof with);
}

static void built_in_oracles_can_be_found(void **unused)
{
    (void)unused;
    uint32_t count = 0;
    for (; cv_oracle_at(count) != NULL; count++) {
        assert_ptr_equal(cv_oracle_find(cv_oracle_at(count)->name), cv_oracle_at(count));
    }
    assert_int_equal(count, 10);
    assert_null(cv_oracle_find("near-3"));
    assert_null(cv_oracle_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_by_an_own_score_leads),
        cmocka_unit_test(own_scores_are_clamped_to_their_bounds),
        cmocka_unit_test(ranges_are_written_in_the_score_s_unit),
        cmocka_unit_test(names_are_known_where_they_were_brought),
        cmocka_unit_test(tables_that_cannot_be_used_are_refused),
        cmocka_unit_test(a_list_without_own_scores_points_to_nothing),
        cmocka_unit_test(built_in_oracles_can_be_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
