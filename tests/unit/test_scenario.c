/* tests/unit/test_scenario.c - reading scenarios: which statements are accepted, and the errors
 * about others.
 *
 * Bad input gives one line with file, line, column and a hint (the table `wrong`). */
#include "core/nodeset.h"
#include "scenario/scenario.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(const char *text, struct sim_scenario **ret_scenario, struct cv_errtext *reterr)
{
    /* A block of exactly this length lets the sanitizer see a read past its end. */
    const size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    const int result = sim_scenario_parse("a.scn", copy, length, ret_scenario, reterr);
    free(copy);
    return result;
}

/* Puts these lines behind a head that makes them a whole scenario; they begin on line 4. */
static struct sim_scenario *parse_lines(const char *lines)
{
    return scenario_read("protocol bully\nnodes 6\nrun 30s\n%s", lines);
}

static void reads_the_example_of_the_manual(void **unused)
{
    (void)unused;
    struct sim_scenario *s = parse_lines("link * delay 0.2ms jitter 10% loss 0.1% # all pairs\n"
                                         "link 1-2 delay 40ms\n"
                                         "clock 3 drift 80ppm\n"
                                         "site caltech 4 5\n"
                                         "site slac 2 3\n"
                                         "rtt caltech slac 9.88ms\n"
                                         "at 1s crash 6\n"
                                         "at 1.5s recover 6\n"
                                         "at 2s partition 1 2 3 | 4 5\n"
                                         "at 3s heal\n"
                                         "at 4s pause 2 for 300ms\n"
                                         "at 5s link 1-3 down\n"
                                         "at 6s resign 1\n"
                                         "at 6s report 4 request-rate 300\n"
                                         "random faults rate 0.5/s kinds crash,pause until 20s\n"
                                         "expect leader 1 by 0.5s at 1..6\n"
                                         "expect leaders 1 4 at 2.5s\n"
                                         "expect no-leader at 2.1s\n"
                                         "expect property at-most-one-leader\n"
                                         "expect messages ELECTION <= 15 between 0s 1s\n");
    assert_string_equal(s->protocol->name, "bully");
    assert_int_equal(s->node_count, 6);
    assert_int_equal(s->run_ns, 30 * NS_PER_S);
    assert_int_equal(s->action_count, 11);
    assert_int_equal(s->random_count, 1);
    assert_int_equal(s->random[0].rate_ppb, 500000000);
    assert_int_equal(s->random[0].until_ns, 20 * NS_PER_S);
    assert_int_equal(s->expect_count, 5);
    assert_int_equal(s->site_count, 2);
    assert_int_equal(s->rtt[0].rtt_ns, 9880 * NS_PER_US);
    sim_scenario_free(s);
}

static void reads_options_of_the_protocol(void **unused)
{
    (void)unused;
    struct sim_scenario *s = NULL;
    struct cv_errtext err = {""};
    assert_int_equal(parse("protocol bully heartbeat=70ms\nnodes 3\nrun 1s\n", &s, &err), CV_OK);
    bool found = false;
    for (uint32_t i = 0; s->protocol->options[i].name != NULL; i++) {
        found = found || (strcmp(s->protocol->options[i].name, "heartbeat") == 0 &&
                          s->config.option[i] == 70 * NS_PER_MS);
        assert_true(s->config.option[i] != CV_OPTION_DERIVED);
    }
    assert_true(found);
    sim_scenario_free(s);
}

static void does_not_need_an_end_of_line_at_the_end(void **unused)
{
    (void)unused;
    struct sim_scenario *s = NULL;
    assert_int_equal(parse("protocol ring\nnodes 3\nrun 1s", &s, NULL), CV_OK);
    sim_scenario_free(s);
    assert_int_equal(parse("protocol ring\r\nnodes 3\r\nrun 1s\r\n", &s, NULL), CV_OK);
    sim_scenario_free(s);
}

static void names_nodes_singly_in_ranges_and_all(void **unused)
{
    (void)unused;
    struct sim_scenario *s =
        parse_lines("at 1s crash 1 3..4 6\nat 2s crash *\nat 3s crash leader\n");
    assert_int_equal(s->action_count, 4 + 6 + 1);
    const cv_id expected[] = {1, 3, 4, 6, 1, 2, 3, 4, 5, 6, SIM_NODE_LEADER};
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(s->action[i].node, expected[i]);
    }
    sim_scenario_free(s);
}

static void puts_nodes_that_a_partition_does_not_name_into_a_part_of_their_own(void **unused)
{
    (void)unused;
    struct sim_scenario *s = parse_lines("at 1s partition 1 2 | 4\n");
    const uint16_t *group = s->action[0].group;
    assert_int_equal(group[0], group[1]);
    assert_int_equal(group[2], group[4]);
    assert_int_equal(group[2], group[5]);
    assert_true(group[0] != group[3] && group[0] != group[2] && group[3] != group[2]);
    sim_scenario_free(s);
}

static void takes_the_largest_cluster_there_is(void **unused)
{
    (void)unused;
    struct sim_scenario *s = NULL;
    assert_int_equal(
        parse("protocol ring\nnodes 4096\nrun 1s\nexpect leader 4096 by 1s at 1..4096\n", &s, NULL),
        CV_OK);
    assert_int_equal(cv__set_count(s->expect[0].nodes, 4096), 4096);
    sim_scenario_free(s);
}

/* Each statement of docs/scenarios.md, in each form in which it may be written. */
static const char *const right[] = {
    "seed 0",
    "seed 18446744073709551615",
    "start within 2s",
    "fast 5ms",
    "fast 5ms min 0.1ms",
    "drift-bound 200ppm",
    "clock 3 drift 80ppm",
    "clock 3 drift -80.5ppm",
    "clock * drift random 100ppm",
    "disk 3 delay 5ms",
    "disk * fails",
    "disk 2 works",
    "timers 3 late 2ms",
    "timers * late 0s",
    "link * delay 1ms",
    "link * delay=1ms jitter=10% dist=normal loss=1% duplicate=2% reorder=3%",
    "link 1-2 jitter 5us",
    "link 1>2 down",
    "link 1-* up",
    "link *>2 dist pareto jitter 1ms",
    "link *-2 dist uniform",
    "link * dist constant",
    "site here 1 2 5..6",
    "site here 1,3,5..6",
    "site here 1\nsite there 2\nrtt here there 9.88ms",
    "at 1s crash 1",
    "at 1s crash 1 3..4 6 for 500ms",
    "at 1s crash leader for 1min",
    "at 1s crash *",
    "at 1s recover 1,2",
    "at 1s pause 1 2 for 300ms",
    "at 1s pause leader for 300ms",
    "at 1s reboot 1 2 for 300ms",
    "at 1s reboot leader for 300ms",
    "at 1s resume 1",
    "at 1s partition 1 2",
    "at 1s partition 1 2 | 3..5 | 6 for 2s",
    "at 1s heal",
    "at 1s link 1-2 down for 3s",
    "at 1s link * delay 5ms loss 1%",
    "at 1s loss 5%",
    "at 1s loss 0.5% for 2s",
    "at 1s slow 30ms for 2s",
    "at 1s duplicate 5% for 2s",
    "at 1s reorder 5% for 2s",
    "at 1s clock 2 drift -5ppm",
    "at 1s clock * drift random 5ppm",
    "at 1s disk 2 delay 1ms",
    "at 1s disk * fails",
    "at 1s disk 2 works",
    "at 1s timers 2 late 1ms",
    "at 1s timers * late 250us",
    "at 1s resign 1",
    "at 1s resign leader to 3",
    "at 1s campaign 1 off",
    "at 1s campaign 1 on",
    "at 1s report 4 history-length 300",
    "at 1s report 4 request-rate 300",
    "at 1s report 4 capacity 300",
    "at 1s report 4 load 0",
    "at 1s peer-down 5 at 1 2",
    "at 1s peer-down leader at *",
    "random faults rate 0.5/s kinds crash",
    "random faults rate=2/s kinds=crash,pause,partition,link,oneway from=1s lasting=50ms..2s",
    "random faults rate=2/s kinds=loss,slow,duplicate,reorder,resign from=1s until=20s",
    "random faults kinds loss rate 1/s until 5s",
    "expect leader 1 by 0s",
    "manual",
    "at 1s crash 1 2 witnessed",
    "at 1s crash leader witnessed for 5ms",
    "at 1s recover 1 2 back 12ms",
    "clock 1 drift 1/11",
    "at 1s clock * drift -1/11",
    "at 1s disk 2 next slow",
    "at 1s disk 2 next fails",
    "at 1s disk 2 next fails-durable",
    "at 1s disk 2 next crashes",
    "at 1s disk 2 done",
    "at 1s disk 2 done fails",
    "at 1s disk 2 done fails-durable",
    "at 1s disk 2 done crashes",
    "expect leader any by 30s",
    "expect leader 1 by 1.5s at 1 2 4..6",
    "expect leader any by 1.5s at *",
    "expect leaders 1 4..5 at 2s",
    "expect no-leader at 2s",
    "expect property validity",
    "expect property at-most-one-leader",
    "expect broken token-monotonic",
    "expect messages ELECTION <= 5",
    "expect messages * >= 5 between 1s 2s",
    "expect messages HEARTBEAT < 5 between 1s and 2s",
    "expect messages REFUSE > 0",
    "expect messages RESIGN == 0",
    "expect changes <= 3",
    "expect changes == 3 between 0s 30s",
    "",
    "   \t  ",
    "# only a comment",
    "at 1s crash 1 # and a comment",
    "\tat\t1s  crash\t1\r",
};

static void accepts_every_documented_statement(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(right); i++) {
        sim_scenario_free(parse_lines(right[i]));
    }
}

/* The number in an action of this kind; 0: it has none. */
static int64_t amount_of(const struct sim_action *action)
{
    switch (action->kind) {
    case SIM_ACTION_LINK:
        return action->link.mask;
    case SIM_ACTION_OVERLAY:
        return action->overlay.amount;
    case SIM_ACTION_CLOCK:
        return action->clock.ppb + action->clock.parts;
    case SIM_ACTION_DISK:
        return action->disk.delay_ns + (int64_t)action->disk.verb * 100 + action->disk.save;
    case SIM_ACTION_CRASH:
        return action->is_witnessed;
    case SIM_ACTION_RECOVER:
        return action->back_ns;
    case SIM_ACTION_TIMERS:
        return action->late_ns;
    case SIM_ACTION_COST:
        return action->cost_ns;
    case SIM_ACTION_REPORT:
        return action->report.value;
    case SIM_ACTION_SEQUENCER:
        return action->sequencer.mask;
    case SIM_ACTION_STORE:
        return action->store.mask;
    default:
        return 0;
    }
}

/* An action that is written and read back is the same action. */
static void writes_actions_as_it_reads_them(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(right); i++) {
        struct sim_scenario *s = parse_lines(right[i]);
        for (uint32_t a = 0; a < s->action_count; a++) {
            char *written[2] = {NULL, NULL};
            struct sim_scenario *again = s;
            for (uint32_t turn = 0; turn < 2; turn++) {
                size_t length = 0;
                FILE *out = open_memstream(&written[turn], &length);
                assert_non_null(out);
                sim_action_print(&again->action[turn == 0 ? a : 0], 6, out);
                assert_int_equal(fclose(out), 0);
                if (turn == 0) {
                    again = parse_lines(written[0]);
                    assert_int_equal(again->action_count, 1);
                    assert_int_equal(again->action[0].kind, s->action[a].kind);
                    assert_int_equal(again->action[0].at_ns, s->action[a].at_ns);
                    assert_int_equal(again->action[0].for_ns, s->action[a].for_ns);
                    assert_int_equal(again->action[0].node, s->action[a].node);
                    assert_int_equal(amount_of(&again->action[0]), amount_of(&s->action[a]));
                }
            }
            assert_string_equal(written[0], written[1]);
            free(written[0]);
            free(written[1]);
            sim_scenario_free(again);
        }
        sim_scenario_free(s);
    }
}

/* A line (number 4 of its scenario), the column that the error points at, and what it says. */
static const struct {
    const char *line;
    uint32_t column;
    const char *says;
} wrong[] = {
    {"nods 5", 1, "did you mean 'nodes'?"},
    {"  frobnicate", 3, "unknown word 'frobnicate'"},
    {"nodes 5", 1, "already"},
    {"protocol ring", 10, "already"},
    {"run 5s", 1, "already"},
    {"seed x", 6, "not a whole number"},
    {"at 5 crash 1", 4, "no unit; write 5ms or 5s"},
    {"at soon crash 1", 4, "not a time"},
    {"at", 3, "time is missing"},
    {"at 1s", 6, "action is missing"},
    {"at 1s crsh 1", 7, "did you mean 'crash'?"},
    {"at 1s crash", 12, "a node is missing"},
    {"at 1s crash 7", 13, "1..6"},
    {"at 1s crash 0", 13, "1..6"},
    {"at 1s crash 3..9", 13, "1..6"},
    {"at 1s crash 5..3", 13, "1..6"},
    {"at 1s crash x", 13, "not a node"},
    {"at 1s crash -1", 13, "not a node"},
    {"at 1s crash 1..", 13, "not a node"},
    {"at 31s crash 1", 1, "after the end of the run"},
    {"at 1s pause 2", 14, "for how long: pause 2"},
    {"at 1s reboot 2", 15, "for how long: reboot 2"},
    {"at 1s pause 2 for 5", 19, "no unit"},
    {"at 1s pause 2 for 0s", 19, "duration must be longer than 0"},
    {"at 1s heal 3", 12, "nothing is expected after this"},
    {"at 1s partition 1 2 | 2 3", 25, "node 2 is in two parts"},
    {"at 1s partition 1..6", 21, "not a partition"},
    {"at 1s link 1-7 down", 12, "1..6"},
    {"at 1s link 1-1 down", 12, "itself"},
    {"at 1s link 1 down", 12, "write 1-2"},
    {"at 1s link 1-2", 15, "write what to change about this link"},
    {"link 1-2 delay 5", 16, "no unit"},
    {"link 1-2 dely 5ms", 10, "did you mean 'delay'?"},
    {"link * delay 5ms delay 6ms", 24, "same attribute twice"},
    {"link * loss 101%", 13, "more than 100%"},
    {"link * loss 5", 13, "percentage"},
    {"link * delay 1ms jitter 1ms dist=gauss", 34, "unknown distribution 'gauss'"},
    {"link * delay 1ms jitter 1ms dist=constant", 42, "does not allow a jitter"},
    {"clock 3 drift 80", 15, "80ppm"},
    {"clock 9 drift 80ppm", 7, "1..6"},
    {"site a 1 2 9", 12, "1..6"},
    {"rtt a b 5ms", 5, "no site 'a'"},
    {"at 1s report 1 mood 5", 16, "score input"},
    {"random faults rate 5 kinds crash", 20, "0.5/s"},
    {"random faults rate 1/s kinds crash,fire", 30, "fire"},
    {"random faults rate 1/s", 20, "kinds"},
    {"random faults rate 1/s kinds crash from 5s until 4s", 50, "end before they begin"},
    {"random faults rate 1/s kinds crash lasting 2s", 44, "50ms..2s"},
    {"expect", 7, "write what is expected"},
    {"expect leader 7 by 1s", 15, "1..6"},
    {"expect leader 1 1s", 17, "expected 'by'"},
    {"expect leader 1 by 31s", 1, "after the end of the run"},
    {"expect property peace", 17, "unknown property 'peace'"},
    {"expect messages ELECTON <= 5", 17, "did you mean 'ELECTION'?"},
    {"expect messages ELECTION ~ 5", 26, "<= >= < > =="},
    {"expect messages ELECTION <= 5 between 2s 1s", 42, "ends before it begins"},
    {"start 5s", 7, "expected 'within', not '5s'"},
    {"start within 5", 14, "no unit; write 5ms or 5s"},
    {"start within", 13, "time is missing; write a time like 250ms"},
    {"fast", 5, "bound of a fast message is missing"},
    {"fast 1ms min 5ms", 14, "least delay is larger"},
    {"fast 1ms 2ms", 10, "nothing is expected after this: '2ms'"},
    {"drift-bound 5", 13, "100ppm"},
    {"drift-bound 200000ppm", 13, "100ppm"},
    {"drift-bound", 12, "100ppm"},
    {"disk 1 explodes", 8, "unknown word 'explodes'; one of: fails works delay"},
    {"disk 9 fails", 6, "1..6"},
    {"timers 9 late 1ms", 8, "1..6"},
    {"timers 1", 9, "late"},
    {"timers 1 late", 14, "lateness is missing"},
    {"timers 1 slow 1ms", 10, "late"},
    {"disk 1 delay", 13, "delay is missing"},
    {"disk", 5, "node is missing"},
    {"disk 1 fails now", 14, "nothing is expected after this: 'now'"},
    {"clock 3", 8, "expected 'drift'"},
    {"clock 3 drft 5ppm", 9, "expected 'drift', not 'drft'"},
    {"clock * drift random -5ppm", 22, "not negative"},
    {"clock 3 drift 600000ppm", 15, "80ppm, -80ppm or 1/11"},
    {"site", 5, "a name and its nodes"},
    {"site a", 7, "a node is missing"},
    {"rtt a", 5, "no site 'a' above this line"},
    {"seed", 5, "seed is missing"},
    {"seed -1", 6, "not a whole number"},
    {"seed 18446744073709551616", 6, "more than 18446744073709551615"},
    {"seed 1 2", 8, "nothing is expected after this: '2'"},
    {"link 1-2 delay", 15, "delay is missing"},
    {"link 1-2 up down", 13, "same attribute twice"},
    {"link 1-2 jitter 1", 17, "no unit"},
    {"link 1-2 dist", 14, "one of: constant uniform normal pareto"},
    {"link 9-1 down", 6, "not a link among nodes 1..6"},
    {"link 1:2 down", 6, "write 1-2, 1>2, 1-* or *"},
    {"link * duplicate 200%", 18, "more than 100%"},
    {"link * reorder x", 16, "not a percentage"},
    {"at -1s crash 1", 4, "not a time"},
    {"at 99999999999h crash 1", 4, "not a time"},
    {"at 1s site a 1", 7, "unknown action 'site'"},
    {"at 1s crash 1 x", 15, "not a node"},
    {"at 1s crash leader 2", 20, "nothing is expected after this"},
    {"at 1s crash 1,", 13, "not a node"},
    {"at 1s crash 1..2..3", 13, "not a node"},
    {"at 1s crash 3 for", 18, "duration is missing"},
    {"at 1s recover 3 for 1s", 21, "'for' is only for a crash, a reboot or a pause"},
    {"at 1s resume 3 for 1s", 20, "'for' is only for a crash, a reboot or a pause"},
    {"at 1s pause leader", 19, "for how long"},
    {"at 1s partition", 16, "a node is missing"},
    {"at 1s partition 1 2 |", 22, "a node is missing"},
    {"at 1s partition 1 2 | | 3", 23, "a node is missing"},
    {"at 1s partition 9 | 1", 17, "1..6"},
    {"at 1s partition 1 2 | 3 for", 28, "duration is missing"},
    {"at 1s link", 11, "not a link among nodes 1..6"},
    {"at 1s link 1-2 up for 1s", 25, "'for' is only for 'down'"},
    {"at 1s link 1-2 delay 5ms for 1s", 32, "'for' is only for 'down'"},
    {"at 1s loss 5", 12, "not a percentage; write it like 5%"},
    {"at 1s loss", 11, "share is missing"},
    {"at 1s slow 5", 12, "no unit"},
    {"at 1s slow 5ms for 0s", 20, "duration must be longer than 0"},
    {"at 1s duplicate 101%", 17, "more than 100%"},
    {"at 1s resign 9", 14, "1..6"},
    {"at 1s resign", 13, "node is missing"},
    {"at 1s resign 3 to 9", 19, "1..6"},
    {"at 1s resign 3 from 2", 16, "nothing is expected after this: 'from'"},
    {"at 1s campaign 3 maybe", 18, "write campaign 3 on, or off"},
    {"at 1s campaign 3", 17, "write campaign 3 on, or off"},
    {"at 1s campaign", 15, "node is missing"},
    {"at 1s peer-down 5", 18, "expected 'at'"},
    {"at 1s peer-down 5 at", 21, "a node is missing"},
    {"at 1s peer-down 9 at 1", 17, "1..6"},
    {"at 1s peer-down 5 at 9", 22, "1..6"},
    {"at 1s report 1", 15, "score input is missing; one of: history-length"},
    {"at 1s report 1 load", 20, "value is missing"},
    {"at 1s report 1 load -5", 21, "not a whole number"},
    {"at 1s report 9 load 5", 14, "1..6"},
    {"random", 7, "expected 'faults'"},
    {"random fault rate 1/s kinds crash", 8, "expected 'faults', not 'fault'"},
    {"random faults kinds crash", 21, "a rate above 0 and kinds"},
    {"random faults rate 0/s kinds crash", 30, "a rate above 0 and kinds"},
    {"random faults rate 1000000/s kinds crash", 20, "0.5/s"},
    {"random faults rate 1/s kinds", 29, "like crash,pause"},
    {"random faults rate 1/s kinds crash,", 30, "unknown kind of fault ''"},
    {"random faults rate 1/s kinds crash lasting 2s..1s", 44, "50ms..2s"},
    {"random faults rate 1/s kinds crash lasting 0s..1s", 44, "50ms..2s"},
    {"random faults rate 1/s kinds crash until 5", 42, "no unit"},
    {"random faults rate 1/s kinds crash often", 36, "rate kinds from until lasting"},
    {"expect leder 1 by 1s", 8, "did you mean 'leader'?"},
    {"expect nothing", 8, "leader leaders no-leader property broken messages changes"},
    {"expect leader", 14, "node is missing"},
    {"expect leader any", 18, "expected 'by'"},
    {"expect leader 1 by 1s at", 25, "a node is missing"},
    {"expect leader 1 by 1s at 9", 26, "1..6"},
    {"expect leader 1 by 1s for 2s", 23, "nothing is expected after this: 'for'"},
    {"expect leaders at 1s", 16, "a node is missing"},
    {"expect leaders 1 2", 19, "expected 'at'"},
    {"expect leaders 9 at 1s", 16, "1..6"},
    {"expect no-leader", 17, "expected 'at'"},
    {"expect no-leader by 1s", 18, "expected 'at', not 'by'"},
    {"expect property", 16, "property is missing; one of: validity"},
    {"expect property validity always", 26, "nothing is expected after this: 'always'"},
    {"expect broken peace", 15, "unknown property 'peace'"},
    {"expect messages", 16, "message type is missing; one of: HEARTBEAT"},
    {"expect messages ELECTION", 25, "<= >= < > =="},
    {"expect messages ELECTION <=", 28, "number is missing"},
    {"expect messages ELECTION <= x", 29, "not a whole number"},
    {"expect messages ELECTION <= 5 between", 38, "time is missing"},
    {"expect messages ELECTION <= 5 between 1s", 41, "time is missing"},
    {"expect messages ELECTION <= 5 sometimes", 31, "nothing is expected after this"},
    {"expect messages ELECTION <= 5 between 1s 31s", 1, "after the end of the run"},
    {"expect changes 5", 16, "<= >= < > =="},
    {"manual yes", 8, "nothing is expected after this: 'yes'"},
    {"at 1s fire 1 0", 7, "write 'manual' above"},
    {"at 1s deliver 1>2", 7, "write 'manual' above"},
    {"at 1s lose 1>2", 7, "write 'manual' above"},
    {"at 1s late 1>2", 7, "write 'manual' above"},
    {"at 1s recover 1 back", 21, "time is missing"},
    {"at 1s recover 1 back 0s", 22, "more than 0s"},
    {"at 1s recover 1 back 2s", 22, "up to 1s"},
    {"at 1s recover 1 witnessed", 17, "nothing is expected after this: 'witnessed'"},
    {"at 1s pause 1 witnessed for 1s", 15, "for how long: pause 2"},
    {"clock 1 drift 1/1", 15, "80ppm, -80ppm or 1/11"},
    {"clock 1 drift 2/11", 15, "80ppm, -80ppm or 1/11"},
    {"clock 1 drift 1/2.5", 15, "80ppm, -80ppm or 1/11"},
    {"clock 1 drift random 1/11", 22, "like 80ppm"},
    {"disk 1 next slow", 13, "at 1s disk 2 next"},
    {"at 1s disk * next slow", 19, "at 1s disk 2 next"},
    {"at 1s disk 1 next", 18, "one of: well slow fails fails-durable crashes"},
    {"at 1s disk 1 next slowly", 19, "did you mean 'slow'?"},
    {"at 1s disk 1 done slow", 19, "cannot be slow"},
    {"\001\002", 1, "text file"},
};

static void says_where_the_mistake_is_what_is_wrong_and_what_to_write(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[500];
        char where[40];
        struct cv_errtext err = {""};
        struct sim_scenario *scenario = NULL;
        (void)snprintf(text, sizeof text, "protocol bully\nnodes 6\nrun 30s\n%s\n", wrong[i].line);
        (void)snprintf(where, sizeof where, "a.scn:4:%u: ", wrong[i].column);
        if (parse(text, &scenario, &err) != CV_E_MALFORMED) {
            fail_msg("'%s' was accepted", wrong[i].line);
        }
        assert_null(scenario);
        if (strncmp(err.text, where, strlen(where)) != 0 || !strstr(err.text, wrong[i].says)) {
            fail_msg("'%s': '%s' is not '%s...%s'", wrong[i].line, err.text, where, wrong[i].says);
        }
    }
}

static void assert_refused(const char *text, const char *says)
{
    struct cv_errtext err = {""};
    struct sim_scenario *scenario = NULL;
    assert_int_equal(parse(text, &scenario, &err), CV_E_MALFORMED);
    if (!strstr(err.text, says)) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
}

static void refuses_an_incomplete_scenario(void **unused)
{
    (void)unused;
    assert_refused("", "no 'protocol' line");
    assert_refused("# nothing but a comment\n", "no 'protocol' line");
    assert_refused("protocol bully\n", "no 'nodes' line");
    assert_refused("protocol bully\nnodes 3\n", "no 'run' line");
    assert_refused("nodes 3\n", "a.scn:1:1: a scenario begins with 'protocol NAME'");
    assert_refused("protocl bully\n",
                   "a.scn:1:1: unknown word 'protocl'; did you mean 'protocol'?");
    assert_refused("protocol bully\nnods 3\n",
                   "a.scn:2:1: unknown word 'nods'; did you mean 'nodes'?");
    assert_refused("protocol bully\nat 1s crash 1\n", "a.scn:2:1: 'nodes N' must come before");
}

static void refuses_unknown_protocols_and_options(void **unused)
{
    (void)unused;
    assert_refused("protocol buly\n", "did you mean 'bully'?");
    assert_refused("protocol\n", "protocol is missing");
    assert_refused("protocol bully heartbeats=1s\n", "did you mean 'heartbeat'?");
    assert_refused("protocol bully heartbeat=1\n", "heartbeat=250ms");
    assert_refused("protocol bully fast\n", "key=value");
}

static void refuses_clusters_that_are_empty_or_too_large(void **unused)
{
    (void)unused;
    assert_refused("protocol bully\nnodes 0\n", "a.scn:2:7: ");
    assert_refused("protocol bully\nnodes 4097\n", "a.scn:2:7: ");
    assert_refused("protocol bully\nnodes 99999999999999999999\n", "a.scn:2:7: ");
}

/* The error is the protocol's own inequality, with the numbers that break it. */
static void refuses_options_that_contradict_each_other(void **unused)
{
    (void)unused;
    assert_refused("protocol bully heartbeat=1s timeout=1s\nnodes 3\nrun 1s\n", "timeout");
}

static void refuses_missing_and_binary_files(void **unused)
{
    (void)unused;
    struct cv_errtext err = {""};
    struct sim_scenario *scenario = NULL;
    assert_int_equal(sim_scenario_load("no/such/file.scn", &scenario, &err), CV_E_IO);
    assert_non_null(strstr(err.text, "no/such/file.scn"));
    assert_int_equal(sim_scenario_load("/", &scenario, &err), CV_E_IO);

    char path[] = "/tmp/conclave-test-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "protocol\0bully\n", 15), 15);
    assert_int_equal(close(fd), 0);
    const int result = sim_scenario_load(path, &scenario, &err);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(result, CV_E_MALFORMED);
    assert_non_null(strstr(err.text, "binary"));
}

static void refuses_lines_and_words_that_are_too_long(void **unused)
{
    (void)unused;
    char word[300];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_refused(word, "a.scn:1:1: this word has more than 127 bytes");

    char *line = malloc(20000);
    assert_non_null(line);
    memset(line, ' ', 20000);
    for (uint32_t i = 0; i < 9999; i++) {
        line[2 * i] = '1';
    }
    line[19999] = '\0';
    assert_refused(line, "more than");
    free(line);
}

/* Each rule that needs two lines to be broken. */
static void refuses_lines_that_contradict_earlier_ones(void **unused)
{
    (void)unused;
    const char head[] = "protocol bully\nnodes 6\nrun 30s\n";
    static const struct {
        const char *lines;
        const char *says;
    } pairs[] = {
        {"site a 1\nsite a 2\n", "a.scn:5:6: there is a site 'a' already"},
        {"site a 1 2\nsite b 2 3\n", "a.scn:5:10: node 2 is at site 'a' already"},
        {"site a 1\nrtt a a 5ms\n", "a.scn:5:7: rtt is for two different sites"},
        {"site a 1\nrtt a b 5ms\n", "a.scn:5:7: there is no site 'b'"},
        {"site a 1\nsite b 2\nrtt a b 5\n", "a.scn:6:9: round trip time '5' has no unit"},
        {"site a 1\nsite b 2\nrtt a b 5ms x\n", "a.scn:6:13: nothing is expected"},
    };
    for (uint32_t i = 0; i < COUNT_OF(pairs); i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "%s%s", head, pairs[i].lines);
        assert_refused(text, pairs[i].says);
    }
}

static void refuses_runs_that_are_too_long(void **unused)
{
    (void)unused;
    assert_refused("protocol bully\nnodes 3\nrun 721h\n", "a.scn:3:5: ");
    struct sim_scenario *s = NULL;
    assert_int_equal(parse("protocol bully\nnodes 3\nrun 720h\n", &s, NULL), CV_OK);
    sim_scenario_free(s);
}

/* What a `manual` scenario lets happen, in protocols with and without a store or a sequencer. */
static const struct {
    const char *protocol, *line;
} by_hand[] = {
    {"bully", "at 1s fire 1 0"},
    {"bully", "at 1s deliver 1>2"},
    {"bully", "at 1s deliver 1>2 type HEARTBEAT sent 3ms number 2 again"},
    {"bully", "at 1s deliver 1>2 witness"},
    {"bully", "at 1s lose 1>2 type ELECTION sent 0s"},
    {"bully", "at 1s late 2>1 sent 1.5ms"},
    {"lease", "at 1s deliver 1>store sent 1ms"},
    {"lease", "at 1s deliver store>1"},
    {"lease", "at 1s store restart silent"},
    {"lease", "at 1s store restart extend"},
    {"lease", "at 1s store cut 1"},
    {"lease", "at 1s store cut 1 queries"},
    {"lease", "at 1s store cut leader answers for 3ms"},
    {"lease", "at 1s store mend 1"},
    {"lease", "store drift -1/11"},
    {"anon", "at 1s deliver sequencer>2 number 3"},
    {"anon", "at 1s lose 2>sequencer"},
    {"anon", "at 1s sequencer cut 2 queries"},
    {"anon", "at 1s sequencer cut 2 for 1s"},
    {"anon", "at 1s sequencer mend 2"},
};

static void reads_and_writes_the_actions_of_manual_scenarios(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(by_hand); i++) {
        char text[300];
        struct sim_scenario *s = NULL;
        struct cv_errtext err = {""};
        (void)snprintf(text, sizeof text, "protocol %s\nnodes 3\nrun 30s\nmanual\n%s\n",
                       by_hand[i].protocol, by_hand[i].line);
        if (parse(text, &s, &err) != CV_OK) {
            fail_msg("'%s': %s", by_hand[i].line, err.text);
        }
        assert_true(s->is_manual);
        assert_int_equal(s->action_count, 1);
        char *written = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&written, &length);
        assert_non_null(out);
        sim_action_print(&s->action[0], s->node_count, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(written, by_hand[i].line);
        free(written);
        sim_scenario_free(s);
    }
}

static const struct {
    const char *protocol, *line;
    uint32_t column;
    const char *says;
} wrong_by_hand[] = {
    {"bully", "random faults rate 1/s kinds crash", 30, "cannot be used with 'manual'"},
    {"bully", "at 1s fire 4 0", 12, "1..3"},
    {"bully", "at 1s fire 1 8", 14, "7"},
    {"bully", "at 1s fire 1", 13, "timer is missing"},
    {"bully", "at 1s deliver", 14, "write 1>2"},
    {"bully", "at 1s deliver 1-2", 15, "write 1>2"},
    {"bully", "at 1s deliver 1>1", 15, "write 1>2"},
    {"bully", "at 1s deliver 1>4", 15, "not a path among nodes 1..3"},
    {"bully", "at 1s deliver *>1", 15, "write 1>2"},
    {"bully", "at 1s deliver 1>store", 15, "write 1>2"},
    {"lease", "at 1s deliver 1>sequencer", 15, "write 1>2 or 1>store"},
    {"lease", "at 1s deliver store>store", 15, "write 1>2 or 1>store"},
    {"bully", "at 1s deliver 1>2 type HARTBEAT", 24, "did you mean 'HEARTBEAT'?"},
    {"bully", "at 1s deliver 1>2 sen 1ms", 19, "did you mean 'sent'?"},
    {"bully", "at 1s deliver 1>2 sent 1", 24, "no unit"},
    {"bully", "at 1s deliver 1>2 number 0", 26, "numbers begin at 1"},
    {"bully", "at 1s lose 1>2 again", 16, "'again' is only for deliver"},
    {"bully", "at 1s deliver 1>2 again again", 25, "same attribute twice"},
    {"lease", "at 1s crash 1 witnessed", 15, "has no witnesses"},
    {"anon", "at 1s crash 1 witnessed", 15, "has no witnesses"},
    {"lease", "at 1s store restart silent extend", 28, "nothing is expected after this"},
    {"lease", "at 1s store cut 1 query", 19, "nothing is expected after this"},
    {"anon", "at 1s sequencer mend 1 for 1s", 30, "'cut'"},
};

static void points_at_mistakes_in_manual_scenarios(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(wrong_by_hand); i++) {
        char text[300];
        char where[40];
        struct sim_scenario *s = NULL;
        struct cv_errtext err = {""};
        (void)snprintf(text, sizeof text, "protocol %s\nnodes 3\nrun 30s\nmanual\n%s\n",
                       wrong_by_hand[i].protocol, wrong_by_hand[i].line);
        (void)snprintf(where, sizeof where, "a.scn:5:%u: ", wrong_by_hand[i].column);
        if (parse(text, &s, &err) != CV_E_MALFORMED) {
            fail_msg("'%s' was accepted", wrong_by_hand[i].line);
        }
        if (strncmp(err.text, where, strlen(where)) != 0 ||
            strstr(err.text, wrong_by_hand[i].says) == NULL) {
            fail_msg("'%s': '%s' is not '%s...%s'", wrong_by_hand[i].line, err.text, where,
                     wrong_by_hand[i].says);
        }
    }
}

/* Each error is one line, without a line end inside, and begins with the position. */
static void reports_each_mistake_in_one_line(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[500];
        struct cv_errtext err = {""};
        struct sim_scenario *scenario = NULL;
        (void)snprintf(text, sizeof text, "protocol bully\nnodes 6\nrun 30s\n%s\n", wrong[i].line);
        assert_int_equal(parse(text, &scenario, &err), CV_E_MALFORMED);
        assert_null(strchr(err.text, '\n'));
        assert_true(strlen(err.text) > strlen("a.scn:4:1: "));
    }
}

static void needs_no_buffer_for_the_error(void **unused)
{
    (void)unused;
    struct sim_scenario *scenario = NULL;
    assert_int_equal(parse("protocol nonsense\n", &scenario, NULL), CV_E_MALFORMED);
    assert_int_equal(sim_scenario_load("no/such/file", &scenario, NULL), CV_E_IO);
    sim_scenario_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_example_of_the_manual),
        cmocka_unit_test(reads_options_of_the_protocol),
        cmocka_unit_test(does_not_need_an_end_of_line_at_the_end),
        cmocka_unit_test(reads_and_writes_the_actions_of_manual_scenarios),
        cmocka_unit_test(points_at_mistakes_in_manual_scenarios),
        cmocka_unit_test(names_nodes_singly_in_ranges_and_all),
        cmocka_unit_test(puts_nodes_that_a_partition_does_not_name_into_a_part_of_their_own),
        cmocka_unit_test(takes_the_largest_cluster_there_is),
        cmocka_unit_test(accepts_every_documented_statement),
        cmocka_unit_test(writes_actions_as_it_reads_them),
        cmocka_unit_test(says_where_the_mistake_is_what_is_wrong_and_what_to_write),
        cmocka_unit_test(reports_each_mistake_in_one_line),
        cmocka_unit_test(refuses_an_incomplete_scenario),
        cmocka_unit_test(refuses_unknown_protocols_and_options),
        cmocka_unit_test(refuses_clusters_that_are_empty_or_too_large),
        cmocka_unit_test(refuses_options_that_contradict_each_other),
        cmocka_unit_test(refuses_missing_and_binary_files),
        cmocka_unit_test(refuses_lines_and_words_that_are_too_long),
        cmocka_unit_test(refuses_lines_that_contradict_earlier_ones),
        cmocka_unit_test(refuses_runs_that_are_too_long),
        cmocka_unit_test(needs_no_buffer_for_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
