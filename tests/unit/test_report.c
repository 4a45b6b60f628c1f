/* tests/unit/test_report.c - the report of a run, for programs and for people. */
#include "report/report.h"
#include "report/timeline.h"
#include "support/cluster.h"
#include "support/jsonread.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static char *json_of(const struct sim_world *world, double wall_s)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    sim_report_json(world, wall_s, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *text_of(const struct sim_world *world,
                     void (*report)(const struct sim_world *, FILE *))
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    report(world, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* A whole run, whether it succeeds or not. */
static struct cluster *run(const char *text)
{
    struct cluster *c = cluster_start("%s", text);
    sim_world_run(c->world, c->scenario->run_ns);
    return c;
}

static const char crash_and_partition[] =
    "protocol bully\nnodes 4\nlink * delay 1ms\n"
    "at 1s crash 4\nat 2s partition 1 | 2 3\nat 4s heal\nrun 6s\n"
    "expect leader 3 by 1.9s at 1..3\n"
    "expect leader 2 by 1.9s at 1..3\n" /* fails */
    "expect broken at-most-one-leader\n";

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_has_the_documented_keys_in_their_order(void **unused)
{
    (void)unused;
    static const char *const keys[] = {
        "scenario",  "protocol", "options",         "nodes",      "seed",    "duration_s",
        "events",    "wall_s",   "leaderships",     "views",      "final",   "messages",
        "elections", "faults",   "liveness_judged", "properties", "expects", "ok"};
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    assert_true(json_is_valid(json));
    assert_int_equal(json_count(json, ""), COUNT_OF(keys));
    for (uint32_t i = 0; i < COUNT_OF(keys); i++) {
        char key[40];
        json_key(json, "", i, key, sizeof key);
        assert_string_equal(key, keys[i]);
    }
    free(json);
    cluster_drop(c);
}

static void json_is_one_line(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    assert_ptr_equal(strchr(json, '\n'), json + strlen(json) - 1);
    free(json);
    cluster_drop(c);
}

static void json_tells_who_led_when_and_why_it_ended(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    /* In the order in which they ended: 4 crashed, then the two of the partition. */
    assert_int_equal(json_number(json, "leaderships.0.node"), 4);
    assert_int_equal(json_number(json, "leaderships.0.from_s"), 0);
    assert_int_equal(json_number(json, "leaderships.0.to_s"), 1);
    assert_int_equal(json_number(json, "leaderships.0.token"), 1);
    assert_true(json_is_text(json, "leaderships.0.reason", "crashed"));
    const uint32_t count = json_count(json, "leaderships");
    char path[60];
    (void)snprintf(path, sizeof path, "leaderships.%u.reason", count - 1);
    assert_true(json_is_text(json, path, "running"));
    (void)snprintf(path, sizeof path, "leaderships.%u.to_s", count - 1);
    assert_int_equal(json_number(json, path), 6);
    (void)snprintf(path, sizeof path, "leaderships.%u.node", count - 1);
    assert_int_equal(json_number(json, path), 3);
    free(json);
    cluster_drop(c);
}

/* Its lease ends at the very instant at which it hands over. */
static void json_tells_a_hand_over_from_a_lease_that_ran_out(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol pole oracle=reported resign-margin=20 resign-hold=500ms "
                            "probe=50ms\nnodes 3\nlink * delay 0.5ms\n"
                            "at 100ms report 3 score 100\nat 1s report 2 score 150\nrun 3s\n");
    char *json = json_of(c->world, -1);
    assert_int_equal(json_number(json, "leaderships.0.node"), 3);
    assert_true(json_is_text(json, "leaderships.0.reason", "resigned"));
    assert_int_equal(json_number(json, "leaderships.1.node"), 2);
    free(json);
    cluster_drop(c);
}

static void json_views_end_in_the_final_state(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    uint32_t leader[5] = {0};
    for (uint32_t i = 0; i < json_count(json, "views"); i++) {
        char path[60];
        (void)snprintf(path, sizeof path, "views.%u.node", i);
        const uint32_t node = (uint32_t)json_number(json, path);
        (void)snprintf(path, sizeof path, "views.%u.leader", i);
        leader[node] = (uint32_t)json_number(json, path);
    }
    for (cv_id id = 1; id <= 3; id++) {
        char path[60];
        (void)snprintf(path, sizeof path, "final.%u.leader", id);
        assert_int_equal(json_number(json, path), leader[id]);
        (void)snprintf(path, sizeof path, "final.%u.valid", id);
        assert_int_equal(json_is_true(json, path), id == 3);
        (void)snprintf(path, sizeof path, "final.%u.up", id);
        assert_true(json_is_true(json, path));
    }
    assert_false(json_is_true(json, "final.4.up"));
    assert_false(json_is_true(json, "final.4.valid"));
    assert_int_equal(json_number(json, "final.4.leader"), 0);
    free(json);
    cluster_drop(c);
}

static void json_counts_messages_by_type(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    const struct cv_protocol *p = c->world->protocol;
    double sum = 0;
    assert_int_equal(json_count(json, "messages.by_type"), p->message_count);
    for (uint32_t i = 0; i < p->message_count; i++) {
        char path[60];
        (void)snprintf(path, sizeof path, "messages.by_type.%s", p->messages[i].name);
        assert_int_equal(json_number(json, path), c->world->messages.count_by_type[i]);
        sum += json_number(json, path);
    }
    assert_int_equal(json_number(json, "messages.total"), sum);
    assert_true(json_number(json, "messages.bytes") > 2 * sum);
    assert_int_equal(json_number(json, "messages.lost"), 0);
    free(json);
    cluster_drop(c);
}

static void json_tells_how_long_elections_took(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    assert_int_equal(json_number(json, "elections.0.fault_t_s"), 0); /* the start */
    assert_int_equal(*json_at(json, "elections.0.detected_s"), 'n');
    assert_int_equal(json_number(json, "elections.1.fault_t_s"), 1);
    const double detected_s = json_number(json, "elections.1.detected_s");
    const double elected_s = json_number(json, "elections.1.elected_s");
    assert_true(detected_s > 1.09 && detected_s < 1.17);
    assert_true(elected_s >= detected_s && elected_s < 1.3);
    free(json);
    cluster_drop(c);
}

static void json_tells_which_properties_are_promised_and_which_broke(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    assert_int_equal(json_count(json, "properties"), CV_PROPERTY_COUNT);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        char path[60];
        const char *name = cv_property_name((enum cv_property)i);
        const bool is_promised =
            ((c->world->protocol->promises | CV_PROP(ASSERTIONS)) & BIT(i)) != 0;
        (void)snprintf(path, sizeof path, "properties.%s.promised", name);
        assert_int_equal(json_is_true(json, path), is_promised);
        (void)snprintf(path, sizeof path, "properties.%s.ok", name);
        assert_int_equal(json_is_true(json, path), !c->world->properties.broken[i].is_broken);
    }
    assert_true(json_number(json, "properties.termination.judged") > 0);
    assert_int_equal(json_number(json, "properties.timeliness.judged"), 0);
    assert_false(json_is_true(json, "properties.at-most-one-leader.ok"));
    assert_true(json_number(json, "properties.at-most-one-leader.at_s") > 2);
    assert_int_equal(*json_at(json, "properties.agreement.at_s"), 'n');
    free(json);
    cluster_drop(c);
}

static void json_answers_each_expectation(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *json = json_of(c->world, -1);
    assert_int_equal(json_count(json, "expects"), 3);
    assert_int_equal(json_number(json, "expects.0.line"), 8);
    assert_true(json_is_true(json, "expects.0.ok"));
    assert_int_equal(json_number(json, "expects.1.line"), 9);
    assert_false(json_is_true(json, "expects.1.ok"));
    assert_true(json_is_text(json, "expects.1.detail", "node 1 follows 3"));
    assert_true(json_is_true(json, "expects.2.ok"));
    assert_false(json_is_true(json, "ok")); /* because of the second one */
    free(json);
    cluster_drop(c);
}

static void json_has_no_wall_time_unless_it_was_measured(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol bully\nnodes 2\nrun 1s\n");
    char *silent = json_of(c->world, -1);
    char *again = json_of(c->world, -1);
    char *timed = json_of(c->world, 0.25);
    assert_int_equal(*json_at(silent, "wall_s"), 'n');
    assert_string_equal(silent, again);
    assert_true(json_number(timed, "wall_s") > 0.24 && json_number(timed, "wall_s") < 0.26);
    assert_true(json_is_true(silent, "ok"));
    free(silent);
    free(again);
    free(timed);
    cluster_drop(c);
}

/* A name may contain any byte that a file's name can contain. */
static void json_survives_strange_names(void **unused)
{
    (void)unused;
    static const char *const names[] = {"a\"b.scn", "a\\b",          "tab\there", "line\nend",
                                        "\x01\x7f", "z\xc3\xbcrich", ""};
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        struct sim_scenario *scenario = NULL;
        const char text[] = "protocol bully\nnodes 2\nrun 1s\n";
        assert_int_equal(sim_scenario_parse(names[i], text, strlen(text), &scenario, NULL), CV_OK);
        const struct sim_world_options options = {.keeps_history = true};
        struct sim_world *world = sim_world_new(scenario, 1, &options);
        assert_true(sim_world_run_all(world));
        char *json = json_of(world, -1);
        if (!json_is_valid(json)) {
            fail_msg("%.80s", json);
        }
        free(json);
        sim_world_free(world);
        sim_scenario_free(scenario);
    }
}

static void json_of_random_runs_is_valid_and_adds_up(void **unused)
{
    (void)unused;
    for (uint32_t seed = 1; seed <= test_scale(20); seed++) {
        for (uint32_t i = 0; cv_protocol_at(i) != NULL; i++) {
            char text[400];
            (void)snprintf(text, sizeof text,
                           "protocol %s\nnodes 4\nseed %u\nrandom faults rate 2/s kinds "
                           "crash,pause,partition,link,oneway,loss,slow,resign until 8s\nrun 10s\n",
                           cv_protocol_at(i)->name, seed);
            struct cluster *c = run(text);
            char *json = json_of(c->world, -1);
            assert_true(json_is_valid(json));
            assert_int_equal(json_count(json, "leaderships"), c->world->begun_count);
            for (uint32_t j = 0; j < json_count(json, "leaderships"); j++) {
                char from[60];
                char to[60];
                (void)snprintf(from, sizeof from, "leaderships.%u.from_s", j);
                (void)snprintf(to, sizeof to, "leaderships.%u.to_s", j);
                assert_true(json_number(json, from) <= json_number(json, to));
            }
            free(json);
            cluster_drop(c);
        }
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

/* The run is too short to settle, and nobody ever leads again: a property that was not judged does
 * not hold. */
static void a_property_that_was_never_judged_is_reported_as_not_tested(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol bully\nnodes 2\nrun 500ms\n");
    char *text = text_of(c->world, sim_report_text);
    assert_has(text, "property termination: not tested\n");
    assert_has(text, "property agreement: not tested\n");
    assert_has(text, "property stability: not tested\n");
    assert_has(text, "property token-monotonic: not tested (not promised)\n");
    assert_has(text, "property validity: holds\n");
    assert_has(text, "property at-most-one-leader: holds (not promised)\n");
    assert_has(text, "property assertions: holds\n");
    assert_has(text, "liveness was judged 0 times\n");
    free(text);
    cluster_drop(c);
}

/* Every message of the run takes longer than the protocol allows for. */
static void run_in_which_nothing_is_judged_is_not_just_ok(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol pole profile=lan\nnodes 3\nlink * delay 27ms\nrun 5s\n");
    char *text = text_of(c->world, sim_report_text);
    assert_has(text, "rtt 54ms but delta 2ms: try profile=wan\n");
    assert_has(text, "property at-most-one-leader: not tested\n");
    assert_has(text, "\nok, but nothing that is promised was tested\n");
    free(text);
    cluster_drop(c);
}

static void text_has_the_same_content(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *text = text_of(c->world, sim_report_text);
    assert_has(text, "test: bully, 4 nodes, seed 1, 6s simulated");
    assert_has(text, "heartbeat=50ms");
    assert_has(text, "node 4    0s .. 1s  token 1  crashed");
    assert_has(text, "faults: crash 1 partition 1 heal 1");
    assert_has(text, "property agreement: holds\n");
    assert_has(text, "property at-most-one-leader: BROKEN at 2.");
    assert_has(text, "(not promised)");
    assert_has(text, "expect leader 3 by 1.9s at 1..3: yes\n");
    assert_has(text, "expect leader 2 by 1.9s at 1..3: NO: node 1 follows 3\n");
    assert_has(text, "\nFAILED\n");
    assert_null(strchr(text, '\033')); /* no colours: this is not written to a terminal */
    free(text);
    cluster_drop(c);
}

static void failures_name_file_line_and_seed(void **unused)
{
    (void)unused;
    struct cluster *c = run(crash_and_partition);
    char *text = text_of(c->world, sim_report_failures);
    assert_string_equal(text,
                        "test:9: expect leader 2 by 1.9s at 1..3: NO: node 1 follows 3 (seed 1)\n");
    free(text);
    cluster_drop(c);
}

/* Nothing is judged while messages are late, and that must not look like success. */
static void violated_assumption_is_reported(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol local\nnodes 3\nlink * delay 2.6ms\nrun 1s\n");
    char *text = text_of(c->world, sim_report_text);
    assert_non_null(strstr(text, "\nassumption violated: "));
    assert_non_null(strstr(text, " messages took longer than 2.4"));
    free(text);
    assert_true(c->world->messages.late_count == c->world->messages.count);
    cluster_drop(c);
    c = run("protocol local\nnodes 3\nlink * delay 2.4ms\nrun 1s\n");
    text = text_of(c->world, sim_report_text);
    assert_null(strstr(text, "assumption violated"));
    free(text);
    cluster_drop(c);
}

static void good_run_has_no_failures(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol ring\nnodes 3\nrun 2s\nexpect leader 3 by 2s\n");
    char *text = text_of(c->world, sim_report_failures);
    assert_string_equal(text, "");
    free(text);
    cluster_drop(c);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void each_kind_of_fault_is_counted_under_a_name_of_its_own(void **unused)
{
    (void)unused;
    for (uint32_t a = 0; a < SIM_FAULT_COUNT; a++) {
        const uint32_t index = sim_fired_by((enum sim_fault)a);
        assert_in_range(index, 0, SIM_FIRED_COUNT - 1);
        assert_non_null(sim_fired_name(index));
        for (uint32_t b = 0; b < a; b++) {
            assert_int_not_equal(sim_fired_by((enum sim_fault)b), index);
        }
    }
    for (uint32_t a = 0; a < SIM_FIRED_COUNT; a++) {
        for (uint32_t b = 0; b < a; b++) {
            if (sim_fired_name(a) != NULL && sim_fired_name(b) != NULL) {
                assert_string_not_equal(sim_fired_name(a), sim_fired_name(b));
            }
        }
    }
}

static void delays_that_contradict_delta_are_reported(void **unused)
{
    (void)unused;
    static const struct {
        const char *scenario, *hint;
    } cases[] = {
        {"protocol pole profile=loopback\nnodes 3\nlink * delay 27ms\nrun 5s\n",
         ": try profile=wan\n"},
        {"protocol bully delta=2ms\nnodes 3\nlink * delay 27ms\nrun 5s\n",
         "  rtt 54ms but delta 2ms: try delta="},
        {"protocol pole\nnodes 3\nlink * delay 300ms\nrun 5s\n",
         "  rtt 600ms but delta 2ms: try profile=wan delta=301ms\n"},
        {"protocol pole\nnodes 3\nlink * delay 3s\nrun 20s\n",
         "  rtt 6s but delta 2ms: try profile=wan delta=3.001s heartbeat=301ms\n"},
        {"protocol bully\nnodes 3\nlink * delay 1ms\nat 1s slow 100ms for 20ms\nrun 5s\n", NULL},
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct cluster *c = run(cases[i].scenario);
        char *text = text_of(c->world, sim_report_text);
        if (cases[i].hint != NULL) {
            assert_has(text, cases[i].hint);
        } else {
            assert_null(strstr(text, ": try "));
        }
        free(text);
        cluster_drop(c);
    }
}

static void leaderships_have_the_scores_of_their_leaders(void **unused)
{
    (void)unused;
    struct cluster *c = run("protocol pole oracle=load\nnodes 3\nlink * delay 1ms\n"
                            "at 10ms report 1 capacity 7\nat 10ms report 2 capacity 7\n"
                            "at 10ms report 3 capacity 7\nat 1s crash leader\nrun 5s\n");
    char *json = json_of(c->world, -1);
    assert_int_equal(json_number(json, "leaderships.0.score.0"), 0); /* when it was elected */
    assert_int_equal(json_number(json, "leaderships.1.score.0"), 7);
    assert_int_equal(json_count(json, "leaderships.1.score"), 1);
    free(json);
    char *text = text_of(c->world, sim_report_text);
    assert_has(text, "running  score 7\n");
    free(text);
    cluster_drop(c);
    c = run(crash_and_partition);
    json = json_of(c->world, -1);
    assert_null(strstr(json, "\"score\""));
    free(json);
    cluster_drop(c);
}

/* ---- The timeline ---------------------------------------------------------------------------- */

/* The row of a node in a drawing of that many columns. */
static char *row_of(const char *scenario, const char *node, uint32_t columns)
{
    struct cluster *c = run(scenario);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    sim_timeline_draw(c->world, columns, /* has_colour= */ false, out);
    assert_int_equal(fclose(out), 0);
    cluster_end(c);
    const char *at = strstr(text, node);
    assert_non_null(at);
    char *row = strndup(at, strcspn(at, "\n"));
    assert_non_null(row);
    free(text);
    return row;
}

/* 100 s in 40 characters: each stands for 2.5 s. */
static void events_shorter_than_a_character_are_drawn(void **unused)
{
    (void)unused;
    static const char bully[] = "protocol bully\nnodes 3\nlink * delay 1ms\n";
    static const struct {
        const char *faults, *node, *shows, *shows_not;
    } cases[] = {
        {"at 51s crash 2\nat 51.1s recover 2\n", "node 2 ", "x", NULL},
        {"at 51s crash 3\nat 51.1s recover 3\n", "node 3 ", "x", NULL},
        {"at 51s pause 2 for 10ms\n", "node 2 ", "~", "%"},
        {"at 51s pause 3 for 10ms\n", "node 3 ", "%", "~"},
        {"at 51s crash 3\nat 51.5s recover 3\n", "node 2 ", "#", NULL},
        {"at 51s crash 3\nat 51.5s crash 2\nat 52s recover 3\n", "node 2 ", "*x", "#"},
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        char scenario[256];
        (void)snprintf(scenario, sizeof scenario, "%s%srun 100s\n", bully, cases[i].faults);
        char *row = row_of(scenario, cases[i].node, 50);
        if (strstr(row, cases[i].shows) == NULL ||
            (cases[i].shows_not != NULL && strstr(row, cases[i].shows_not) != NULL)) {
            fail_msg("%s: %s", cases[i].faults, row);
        }
        free(row);
    }
}

static void leader_that_survives_a_fault_is_said_to_lead_on(void **unused)
{
    (void)unused;
    static const char scenario[] = "protocol bully\nnodes 3\nlink * delay 1ms\n"
                                   "at 2s pause 3 for 10ms\nat 2.5s crash 3\nrun 4s\n";
    char *line = row_of(scenario, "  at 2.000s", 80);
    assert_has(line, "at 2.000s a fault hits leader 3, which leads until 2.500s: a new one leads");
    free(line);
    line = row_of(scenario, "  at 2.500s", 80);
    assert_has(line, "at 2.500s a fault hits leader 3: a new one leads after");
    free(line);
}

static void crash_without_a_new_leader_is_listed(void **unused)
{
    (void)unused;
    char *line = row_of("protocol pole\nnodes 3\nlink * delay 1ms\n"
                        "at 1s crash leader\nat 3s crash leader\nrun 6s\n",
                        "  at 3.000s", 80);
    assert_has(line, "a fault hits leader");
    assert_has(line, ": no new one leads until the end of the run");
    free(line);
}

static void drawing_keeps_to_its_width(void **unused)
{
    (void)unused;
    char *row = row_of("protocol bully\nnodes 3\nrun 2s\n", "node 3 ", 30);
    assert_int_equal(strlen(row), 30);
    free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_documented_keys_in_their_order),
        cmocka_unit_test(json_is_one_line),
        cmocka_unit_test(json_tells_who_led_when_and_why_it_ended),
        cmocka_unit_test(json_tells_a_hand_over_from_a_lease_that_ran_out),
        cmocka_unit_test(json_views_end_in_the_final_state),
        cmocka_unit_test(json_counts_messages_by_type),
        cmocka_unit_test(json_tells_how_long_elections_took),
        cmocka_unit_test(json_tells_which_properties_are_promised_and_which_broke),
        cmocka_unit_test(json_answers_each_expectation),
        cmocka_unit_test(json_has_no_wall_time_unless_it_was_measured),
        cmocka_unit_test(json_survives_strange_names),
        cmocka_unit_test(json_of_random_runs_is_valid_and_adds_up),
        cmocka_unit_test(a_property_that_was_never_judged_is_reported_as_not_tested),
        cmocka_unit_test(run_in_which_nothing_is_judged_is_not_just_ok),
        cmocka_unit_test(text_has_the_same_content),
        cmocka_unit_test(failures_name_file_line_and_seed),
        cmocka_unit_test(violated_assumption_is_reported),
        cmocka_unit_test(good_run_has_no_failures),
        cmocka_unit_test(each_kind_of_fault_is_counted_under_a_name_of_its_own),
        cmocka_unit_test(delays_that_contradict_delta_are_reported),
        cmocka_unit_test(leaderships_have_the_scores_of_their_leaders),
        cmocka_unit_test(events_shorter_than_a_character_are_drawn),
        cmocka_unit_test(leader_that_survives_a_fault_is_said_to_lead_on),
        cmocka_unit_test(crash_without_a_new_leader_is_listed),
        cmocka_unit_test(drawing_keeps_to_its_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
