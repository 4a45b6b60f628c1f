/* tests/unit/test_trace.c - the trace: every line is JSON, in order, and nothing is missing. */
#include "core/effects.h"
#include "report/report.h"
#include "support/cluster.h"
#include "support/jsonread.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

/* A run in which everything that a trace can tell happens. */
static const char eventful[] = "protocol ring\nnodes 5\nsite \"a\\b 1 2\nsite z\xc3\xbcrich 3\n"
                               "rtt \"a\\b z\xc3\xbcrich 6ms\n"
                               "link * delay 2ms jitter 50% loss 1%\n"
                               "disk 3 delay 1ms\nclock * drift random 100ppm\n"
                               "at 1s crash leader for 500ms\nat 2s pause leader for 700ms\n"
                               "at 3s partition 1 2 | 3 4 5 for 500ms\nat 4s resign leader\n"
                               "at 5s disk 2 fails\nat 5.1s crash leader for 1s\n"
                               "at 6s peer-down leader at 1 3\nat 6.5s report 1 load 3\n"
                               "at 7s slow 100ms for 500ms\nat 7s duplicate 50% for 500ms\n"
                               "at 8s campaign 1 off\nrun 10s\n";

static struct cluster *run_eventful(void)
{
    struct cluster *c = cluster_start("%s", eventful);
    cluster_run_until(c, 9999);
    return c;
}

/* Copies the next line into a string of its own. */
static char *next_line(const char **at)
{
    const char *end = strchr(*at, '\n');
    if (end == NULL) {
        assert_int_equal(**at, '\0'); /* every line ends */
        return NULL;
    }
    char *line = strndup(*at, (size_t)(end - *at));
    assert_non_null(line);
    *at = end + 1;
    return line;
}

static void every_line_is_valid_json(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const char *at = c->trace;
    uint32_t lines = 0;
    for (char *line; (line = next_line(&at)) != NULL; lines++) {
        if (!json_is_valid(line)) {
            fail_msg("not valid: %s", line);
        }
        free(line);
    }
    assert_true(lines > 1000);
    cluster_drop(c);
}

static void first_line_describes_the_run(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const char *at = c->trace;
    char *head = next_line(&at);
    assert_int_equal(json_number(head, "conclave_trace"), 1);
    assert_true(json_is_text(head, "scenario", "test"));
    assert_true(json_is_text(head, "protocol", "ring"));
    assert_int_equal(json_number(head, "nodes"), 5);
    assert_int_equal(json_number(head, "seed"), 1);
    assert_int_equal(json_number(head, "duration_s"), 10);
    assert_true(json_is_text(head, "options.heartbeat", "50ms"));
    assert_int_equal(json_count(head, "sites"), 2);
    assert_int_equal(json_number(head, "sites.0.nodes.1"), 2);
    free(head);
    cluster_drop(c);
}

static void lines_are_in_the_order_of_time(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const char *at = c->trace;
    free(next_line(&at));
    double now_s = 0;
    for (char *line; (line = next_line(&at)) != NULL;) {
        const double t_s = json_number(line, "t_s");
        assert_true(t_s >= now_s);
        now_s = t_s;
        free(line);
    }
    assert_true(now_s > 9);
    cluster_drop(c);
}

static void every_change_of_belief_is_there(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const char *at = c->trace;
    free(next_line(&at));
    uint32_t beliefs = 0;
    cv_id leader[6] = {0}; /* as the trace tells it */
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (json_is_text(line, "event", "belief")) {
            assert_true(beliefs < c->world->history.view_count);
            const struct sim_view *view = &c->world->history.view[beliefs++];
            assert_about_ms(json_number(line, "t_s") * 1e3, (double)view->at_ns / 1e6);
            assert_int_equal(json_number(line, "node"), view->node);
            assert_int_equal(json_number(line, "leader"), view->leader);
            assert_int_equal(json_number(line, "token"), view->token);
            assert_non_null(json_at(line, "reason"));
            leader[view->node] = view->leader;
        } else if (json_is_text(line, "event", "crash")) {
            leader[(cv_id)json_number(line, "node")] = CV_ID_NONE;
        }
        free(line);
    }
    assert_int_equal(beliefs, c->world->history.view_count);
    assert_true(beliefs > 20);
    for (cv_id id = 1; id <= 5; id++) { /* the trace tells what each node believes in the end */
        assert_int_equal(leader[id], cluster_leader_at(c, id));
    }
    cluster_drop(c);
}

static void every_message_is_sent_before_it_arrives_or_is_lost(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const uint32_t messages = (uint32_t)c->world->messages.count;
    char **sent = calloc(messages + 1, sizeof *sent);
    uint32_t *ends = calloc(messages + 1, sizeof *ends);
    assert_true(sent != NULL && ends != NULL);
    const char *at = c->trace;
    free(next_line(&at));
    uint32_t count = 0;
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (json_at(line, "message") == NULL) {
            free(line);
            continue;
        }
        const uint32_t number = (uint32_t)json_number(line, "message");
        assert_in_range(number, 1, messages);
        if (json_is_text(line, "event", "send")) {
            assert_int_equal(number, ++count); /* numbered from 1 */
            sent[number] = line;
            continue;
        }
        assert_non_null(sent[number]);
        assert_int_equal(json_number(line, "from"), json_number(sent[number], "from"));
        assert_int_equal(json_number(line, "to"), json_number(sent[number], "to"));
        ends[number]++;
        free(line);
    }
    assert_int_equal(count, messages);
    uint32_t open = 0;
    for (uint32_t i = 1; i <= messages; i++) {
        assert_in_range(ends[i], 0, 2); /* a duplicate arrives twice */
        open += ends[i] == 0;
        free(sent[i]);
    }
    assert_true(open < 50); /* those under way at the end, and at a node that is paused */
    free(sent);
    free(ends);
    cluster_drop(c);
}

static void every_kind_of_event_is_written(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {
        "send",  "deliver", "lost",    "unreachable",    "dropped", "timer",  "start", "crash",
        "pause", "wake",    "persist", "persist-failed", "belief",  "action", "broken"};
    struct cluster *c = run_eventful();
    for (uint32_t i = 0; i < COUNT_OF(kinds); i++) {
        char quoted[40];
        (void)snprintf(quoted, sizeof quoted, "\"event\": \"%s\"", kinds[i]);
        if (strstr(c->trace, quoted) == NULL) {
            fail_msg("there is no %s", kinds[i]);
        }
    }
    assert_non_null(strstr(c->trace, "\"detail\": \"at 4s resign"));
    cluster_drop(c);
}

/* A program that redraws the run needs to know the actions; they are written as in a scenario. */
static void actions_are_written_as_in_a_scenario(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const char *at = c->trace;
    free(next_line(&at));
    uint32_t actions = 0;
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (json_is_text(line, "event", "action")) {
            const char *detail = json_at(line, "detail");
            char text[300];
            (void)snprintf(text, sizeof text, "protocol ring\nnodes 5\nrun 20s\n%.*s\n",
                           (int)strcspn(detail + 1, "\""), detail + 1);
            struct sim_scenario *scenario = NULL;
            struct cv_errtext why = {""};
            if (sim_scenario_parse("action", text, strlen(text), &scenario, &why) != CV_OK) {
                fail_msg("%s: %s", line, why.text);
            }
            sim_scenario_free(scenario);
            actions++;
        }
        free(line);
    }
    assert_true(actions > 15);
    cluster_drop(c);
}

static void tracing_does_not_change_the_run(void **unused)
{
    (void)unused;
    struct cluster *c = run_eventful();
    const struct sim_world_options options = {0};
    struct sim_world *silent = sim_world_new(c->scenario, c->scenario->seed, &options);
    sim_world_run(silent, 9999 * NS_PER_MS);
    assert_int_equal(silent->host.counts.steps, c->world->host.counts.steps);
    assert_int_equal(silent->messages.count, c->world->messages.count);
    assert_int_equal(silent->messages.byte_count, c->world->messages.byte_count);
    for (cv_id id = 1; id <= 5; id++) {
        assert_int_equal(silent->properties.node[id - 1].leader, cluster_leader_at(c, id));
        assert_int_equal(silent->properties.node[id - 1].token, cluster_token_at(c, id));
    }
    sim_world_free(silent);
    cluster_drop(c);
}

/* ---- the tail -------------------------------------------------------------------------------- */

static void tail_has_the_latest_events_oldest_first(void **unused)
{
    (void)unused;
    struct cv_trace trace = {.protocol = cv_protocol_find("bully")};
    for (uint32_t i = 1; i <= 3 * CV_TRACE_TAIL; i++) {
        const struct cv_record record = {
            .at_ns = i * NS_PER_S, .kind = CV_RECORD_TIMER, .node = 2, .what = 1};
        cv__trace_add(&trace, &record, NULL);
    }
    char *tail = cv__trace_tail(&trace);
    char first[40];
    (void)snprintf(first, sizeof first, "  %us node 2 timer 1\n", 2 * CV_TRACE_TAIL + 1);
    assert_int_equal(strncmp(tail, first, strlen(first)), 0);
    uint32_t lines = 0;
    for (const char *at = tail; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, CV_TRACE_TAIL);
    free(tail);
}

static void tail_leaves_out_sends(void **unused)
{
    (void)unused;
    struct cv_trace trace = {.protocol = cv_protocol_find("bully")};
    const struct cv_record send = {.at_ns = 1, .kind = CV_RECORD_SEND, .node = 1, .peer = 2};
    const struct cv_record deliver = {.at_ns = 2, .kind = CV_RECORD_DELIVER, .node = 1, .peer = 2};
    cv__trace_add(&trace, &send, NULL);
    cv__trace_add(&trace, &deliver, NULL);
    char *tail = cv__trace_tail(&trace);
    assert_string_equal(tail, "  0.000000002s deliver HEARTBEAT 2>1\n");
    free(tail);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static struct cv_protocol noting; /* bully with a note about every message */
static uint64_t noted_count;

static void noting_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    cv_protocol_find("bully")->step(state, event, out);
    if (event->kind == CV_EVENT_MESSAGE) {
        noted_count += out->note != NULL;
        cv__effect_note(out, "{peer} is {strange} until {time}, says {number}", event->peer,
                        event->now_ns + 250 * NS_PER_MS, 7);
    }
}

static struct sim_scenario *noting_scenario(const char *text)
{
    struct sim_scenario *scenario = scenario_read("%s", text);
    noting = *scenario->protocol;
    noting.step = noting_step;
    noted_count = 0;
    scenario->protocol = &noting;
    return scenario;
}

static void notes_have_their_values_in_place(void **unused)
{
    (void)unused;
    char text[CV_NOTE_BYTES];
    struct cv_record record = {.kind = CV_RECORD_NOTE, .peer = 12, .number = UINT64_MAX};
    record.bound_ns = 1204 * NS_PER_MS;
    record.text = "{peer}{number} {time}{peer";
    cv__trace_note_text(&record, text);
    assert_string_equal(text, "1218446744073709551615 1.204 s{peer");
    char longest[2 * CV_NOTE_BYTES + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    record.text = longest;
    cv__trace_note_text(&record, text);
    assert_int_equal(strlen(text), CV_NOTE_BYTES - 1);
}

static void a_trace_has_the_notes_of_the_cores_in_the_time_of_the_run(void **unused)
{
    (void)unused;
    struct sim_scenario *scenario =
        noting_scenario("protocol bully\nnodes 2\nlink * delay 1ms\nrun 1s\n");
    char *trace = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&trace, &bytes);
    const struct sim_world_options options = {.trace = file};
    struct sim_world *world = sim_world_new(scenario, 1, &options);
    (void)sim_world_run_all(world);
    assert_int_equal(fclose(file), 0);
    uint64_t found = 0;
    const char *at = trace;
    free(next_line(&at));
    for (char *line; (line = next_line(&at)) != NULL;) {
        const bool is_ours = strstr(line, "{strange}") != NULL; /* bully has notes of its own */
        if (is_ours && json_is_text(line, "event", "note")) {
            const cv_id node = (cv_id)json_number(line, "node");
            char text[CV_NOTE_BYTES];
            (void)snprintf(text, sizeof text, "%u is {strange} until %.3f s, says 7", 3 - node,
                           json_number(line, "t_s") + 0.25);
            assert_true(json_is_text(line, "text", text));
            found++;
        }
        free(line);
    }
    assert_true(found > 10);
    assert_int_equal(found, noted_count);
    free(trace);
    sim_world_free(world);
    sim_scenario_free(scenario);
}

static void notes_are_taken_only_if_somebody_reads_them(void **unused)
{
    (void)unused;
    struct sim_scenario *scenario = noting_scenario(
        "protocol bully\nnodes 2\nlink * delay 1ms\nat 400ms partition 1 | 2\nrun 1s\n");
    scenario->promises |= CV_PROP(AT_MOST_ONE_LEADER); /* which the partition breaks */
    struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, 1, &options);
    (void)sim_world_run_all(world);
    assert_int_equal(noted_count, 0);
    assert_non_null(world->tail);
    assert_null(strstr(world->tail, "is {strange} until"));
    sim_world_free(world);
    options.takes_notes = true;
    world = sim_world_new(scenario, 1, &options);
    (void)sim_world_run_all(world);
    assert_true(noted_count > 0);
    assert_non_null(strstr(world->tail, " node 1: 2 is {strange} until 0."));
    sim_world_free(world);
    sim_scenario_free(scenario);
}

/* The fields of the first message of this type that is sent, as JSON. */
static char *first_sent(const char *scenario, const char *type)
{
    struct cluster *c = cluster_start("%s", scenario);
    cluster_run_until(c, 900);
    const char *at = c->trace;
    char *found = NULL;
    for (char *line; found == NULL && (line = next_line(&at)) != NULL;) {
        if (strstr(line, "\"event\"") != NULL && json_is_text(line, "event", "send") &&
            json_is_text(line, "type", type)) {
            found = line;
        } else {
            free(line);
        }
    }
    assert_non_null(found);
    cluster_drop(c);
    return found;
}

static void sent_messages_have_their_fields(void **unused)
{
    (void)unused;
    char *line = first_sent("protocol bully\nnodes 3\nrun 1s\n", "HEARTBEAT");
    assert_int_equal(json_number(line, "fields.term"), 1);
    assert_int_equal(json_count(line, "fields"), 2);
    free(line);
    line = first_sent("protocol ring\nnodes 3\nrun 1s\n", "ELECTION");
    assert_true(json_count(line, "fields") > 0);
    free(line);
    line = first_sent("protocol pole oracle=load\nnodes 3\nat 10ms report 1 load 7\nrun 1s\n",
                      "PROPOSE");
    assert_true(json_number(line, "fields.epoch") >= 1);
    assert_true(json_number(line, "fields.id") >= 1);
    assert_non_null(strstr(line, "\"score_1\""));
    free(line);
}

/* A player can show the time left of a lease only if each renewal is in the trace. */
static void renewals_move_the_end_of_a_leadership(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol pole\nnodes 3\nrun 1s\n");
    cluster_run_until(c, 999);
    const char *at = c->trace;
    double until_s = 0;
    uint32_t renewals = 0;
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (strstr(line, "\"event\": \"renew\"") != NULL) {
            assert_true(json_number(line, "valid_until_s") >= until_s);
            assert_true(json_number(line, "valid_until_s") > json_number(line, "t_s"));
            until_s = json_number(line, "valid_until_s");
            renewals++;
        }
        free(line);
    }
    assert_true(renewals > 10);
    cluster_drop(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_valid_json),
        cmocka_unit_test(first_line_describes_the_run),
        cmocka_unit_test(lines_are_in_the_order_of_time),
        cmocka_unit_test(every_change_of_belief_is_there),
        cmocka_unit_test(every_message_is_sent_before_it_arrives_or_is_lost),
        cmocka_unit_test(every_kind_of_event_is_written),
        cmocka_unit_test(actions_are_written_as_in_a_scenario),
        cmocka_unit_test(tracing_does_not_change_the_run),
        cmocka_unit_test(tail_has_the_latest_events_oldest_first),
        cmocka_unit_test(tail_leaves_out_sends),
        cmocka_unit_test(notes_have_their_values_in_place),
        cmocka_unit_test(a_trace_has_the_notes_of_the_cores_in_the_time_of_the_run),
        cmocka_unit_test(sent_messages_have_their_fields),
        cmocka_unit_test(renewals_move_the_end_of_a_leadership),
        cmocka_unit_test(notes_are_taken_only_if_somebody_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
