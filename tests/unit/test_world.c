/* tests/unit/test_world.c - the simulated world: crashes, pauses, disks, clocks and delay bounds.
 *
 * The tests read from the trace what happened; tests/unit/test_trace.c tests the trace itself. */
#include "core/core.h"
#include "sim/world.h"
#include "support/cluster.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static struct sim_node *node_of(const struct cluster *c, cv_id id)
{
    return &c->world->node[id - 1];
}

/* ---- reading the trace ----------------------------------------------------------------------- */

struct line {
    double t_s;
    char event[20];
    char type[20];
    uint32_t node, from, to;
    uint64_t message;
    double delay_max_s; /* -1: not known */
};

static double number_of(const char *line, const char *key, double otherwise)
{
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at != NULL ? strtod(at + strlen(quoted), NULL) : otherwise;
}

static void text_of(const char *line, const char *key, char *ret_text, size_t bytes)
{
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "\"%s\": \"", key);
    const char *at = strstr(line, quoted);
    ret_text[0] = '\0';
    if (at != NULL) {
        at += strlen(quoted);
        (void)snprintf(ret_text, bytes, "%.*s", (int)strcspn(at, "\""), at);
    }
}

/* Reads the line at *at and moves *at behind it; false at the end. The header line has no event. */
static bool next_line(const char **at, struct line *ret_line)
{
    const char *end = strchr(*at, '\n');
    if (end == NULL) {
        return false;
    }
    char *text = strndup(*at, (size_t)(end - *at));
    assert_non_null(text);
    memset(ret_line, 0, sizeof *ret_line);
    ret_line->t_s = number_of(text, "t_s", 0);
    text_of(text, "event", ret_line->event, sizeof ret_line->event);
    text_of(text, "type", ret_line->type, sizeof ret_line->type);
    ret_line->node = (uint32_t)number_of(text, "node", 0);
    ret_line->from = (uint32_t)number_of(text, "from", 0);
    ret_line->to = (uint32_t)number_of(text, "to", 0);
    ret_line->message = (uint64_t)number_of(text, "message", 0);
    ret_line->delay_max_s = number_of(text, "delay_max_s", -1);
    free(text);
    *at = end + 1;
    return true;
}

static bool is_event(const struct line *line, const char *event)
{
    return strcmp(line->event, event) == 0;
}

/* ---- crashes --------------------------------------------------------------------------------- */

static void crash_keeps_what_was_saved_and_nothing_else(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 3\nrun 10s\n");
    cluster_run_until(c, 500);
    const struct sim_node *n = node_of(c, 2);
    assert_int_equal(n->disk.word_count, 1);
    assert_int_equal(n->disk.word[0], 1); /* the term */
    assert_int_equal(cluster_leader_at(c, 2), 3);
    assert_non_null(n->echo); /* what the transport knows about delays */
    cluster_crash(c, 2);
    assert_false(n->is_up);
    assert_int_equal(n->disk.word_count, 1);
    assert_int_equal(n->disk.word[0], 1);
    assert_int_equal(cluster_leader_at(c, 2), CV_ID_NONE);
    assert_null(n->echo);
    assert_int_equal(n->backlog_count, 0);
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        assert_int_equal(n->host.due_ns[i], 0);
    }

    /* It starts like a new core that is given the record: nothing else of the old one is left. */
    cluster_run_until(c, 700);
    cluster_recover(c, 2);
    struct cv_config config = c->scenario->config;
    config.self = 2;
    const size_t bytes = cv_core_size(c->world->protocol, &config);
    void *fresh = malloc(bytes);
    struct cv_effects out = {
        .item = calloc(CV_EFFECTS_MAX, sizeof *out.item),
        .word = calloc(cv_effects_words(&config), sizeof *out.word),
        .word_capacity = cv_effects_words(&config),
    };
    assert_true(fresh != NULL && out.item != NULL && out.word != NULL);
    cv__core_init(c->world->protocol, fresh, &config);
    const struct cv_event start = {.kind = CV_EVENT_START,
                                   .now_ns = sim_clock_local(&n->clock, c->world->now_ns),
                                   .persisted = n->disk.word,
                                   .persisted_count = n->disk.word_count};
    cv__core_step(c->world->protocol, fresh, &start, &out);
    assert_memory_equal(fresh, n->state, bytes);
    free(fresh);
    free(out.item);
    free(out.word);
    cluster_end(c);
}

static void message_to_a_node_that_is_down_is_dropped(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\nlink * delay 100ms\nrun 10s\n");
    cluster_run_until(c, 4);
    cluster_crash(c, 1); /* 2's first announcement is under way */
    cluster_run_until(c, 110);
    assert_true(cluster_count(c, &(const struct cluster_query){.event = "dropped", .to = 1}) > 0);
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "deliver", .to = 1}),
                     0);
    cluster_drop(c);
}

static void message_that_arrives_after_the_recovery_is_delivered(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\nlink * delay 100ms\nrun 10s\n");
    cluster_run_until(c, 4);
    cluster_crash(c, 1);
    cluster_run_until(c, 50);
    cluster_recover(c, 1);
    cluster_run_until(c, 100);
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "dropped"}), 0);
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "deliver",
                                                                    .type = "COORDINATOR",
                                                                    .from = 2,
                                                                    .to = 1}),
                     1);
    cluster_drop(c);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void paused_node_gets_everything_at_once_when_it_wakes(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully heartbeat=50ms timeout=10s\nnodes 3\n"
                                      "at 1s pause 1 for 500ms\nrun 20s\n");
    cluster_run_until(c, 1600);
    const struct cluster_query during = {
        .event = "deliver", .to = 1, .since_ms = 1000.1, .until_ms = 1499.9};
    const struct cluster_query waking = {
        .event = "deliver", .to = 1, .since_ms = 1500, .until_ms = 1500};
    /* Heartbeats every 50 ms, 1 ms under way: those that were sent from 1000 to 1499 ms. */
    assert_int_equal(cluster_count(c, &during), 0);
    assert_int_equal(cluster_count(c, &waking), 10);
    cluster_end(c);
}

static void clock_goes_on_during_a_pause_and_during_a_crash(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully timeout=10s\nnodes 3\n"
                                      "at 1s pause 1 for 500ms\nrun 20s\n");
    cluster_run_until(c, 999);
    const int64_t before_ns = sim_clock_local(&node_of(c, 1)->clock, c->world->now_ns);
    cluster_run_until(c, 1499);
    assert_true(node_of(c, 1)->is_paused);
    assert_int_equal(sim_clock_local(&node_of(c, 1)->clock, c->world->now_ns) - before_ns,
                     500 * NS_PER_MS);
    cluster_run_until(c, 2000);
    cluster_crash(c, 1);
    cluster_run_until(c, 2999);
    cluster_recover(c, 1);
    assert_int_equal(sim_clock_local(&node_of(c, 1)->clock, c->world->now_ns) - before_ns,
                     2000 * NS_PER_MS);
    cluster_end(c);
}

static void timers_of_a_paused_node_fire_when_it_wakes(void **unused)
{
    (void)unused;
    /* The coordinator's heartbeat timer is due every 50 ms. */
    struct cluster *c = cluster_start("protocol bully timeout=10s\nnodes 3\n"
                                      "at 1010ms pause 3 for 500ms\nrun 20s\n");
    cluster_run_until(c, 1600);
    assert_int_equal(
        cluster_sends(c, .type = "HEARTBEAT", .to = 1, .since_ms = 1010.1, .until_ms = 1509.9), 0);
    assert_int_equal(
        cluster_sends(c, .type = "HEARTBEAT", .to = 1, .since_ms = 1510, .until_ms = 1510),
        1); /* once, not ten times */
    assert_int_equal(
        cluster_sends(c, .type = "HEARTBEAT", .to = 1, .since_ms = 1560, .until_ms = 1560), 1);
    cluster_end(c);
}

/* It is random whether a waking node sees its timers or its messages first. */
static void waking_node_sees_timers_or_messages_first(void **unused)
{
    (void)unused;
    uint32_t timers_first = 0;
    const uint32_t seeds = 40;
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        struct cluster *c = cluster_start("protocol bully\nnodes 2\nseed %u\n"
                                          "at 1010ms pause 1 for 500ms\nrun 20s\n",
                                          seed);
        cluster_run_until(c, 1600);
        const char *at = c->trace;
        struct line line;
        while (next_line(&at, &line) && !is_event(&line, "wake")) {
        }
        while (next_line(&at, &line) && !is_event(&line, "timer") && !is_event(&line, "deliver")) {
        }
        timers_first += is_event(&line, "timer");
        cluster_drop(c);
    }
    assert_in_range(timers_first, seeds / 4, 3 * seeds / 4);
}

static void crash_ends_a_pause(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 3\n"
                                      "at 1s pause 2 for 2s\nat 1.5s crash 2\n"
                                      "at 2s recover 2\nrun 20s\n");
    cluster_run_until(c, 1700);
    assert_false(node_of(c, 2)->is_up);
    cluster_run_until(c, 2500);
    assert_true(node_of(c, 2)->is_up);
    assert_false(node_of(c, 2)->is_paused);
    cluster_run_until(c, 3500); /* the end of that pause does nothing */
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "wake"}), 0);
    assert_int_equal(cluster_leader(c), 3);
    cluster_end(c);
}

static void end_of_a_pause_ends_that_pause_only(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 3\n"
                                      "at 1s pause 2 for 1s\nat 1.5s resume 2\n"
                                      "at 1.8s pause 2 for 1s\nrun 20s\n");
    cluster_run_until(c, 2500);
    assert_true(node_of(c, 2)->is_paused); /* though the first pause was to end at 2 s */
    cluster_run_until(c, 2900);
    assert_false(node_of(c, 2)->is_paused);
    cluster_end(c);
}

/* ---- disks ----------------------------------------------------------------------------------- */

/* Saves of one disk without a gap, from the first one that found it idle. */
struct busy {
    double from_s, until_s;
};

/* Messages leave while nothing is being saved, or at the very instant when a save is done. */
static bool may_send(const struct busy *busy, double at_s, double disk_s)
{
    const double rounding_s = 1e-8;
    if (at_s >= busy->until_s - rounding_s) {
        return true;
    }
    for (double done_s = busy->from_s + disk_s; done_s < busy->until_s; done_s += disk_s) {
        if (at_s > done_s - rounding_s && at_s < done_s + rounding_s) {
            return true;
        }
    }
    return false;
}

static void send_never_overtakes_a_save(void **unused)
{
    (void)unused;
    const double disk_s = 0.04;
    uint32_t saves = 0;
    for (uint32_t seed = 1; seed <= test_scale(20); seed++) {
        for (uint32_t i = 0; i < 5; i++) { /* every classical protocol */
            struct cluster *c = cluster_start(
                "protocol %s answer=400ms coordinator=2500ms\nnodes 4\nseed %u\n"
                "link * delay 2ms jitter 50%%\ndisk * delay 40ms\n"
                "random faults rate 1/s kinds crash,partition,resign until 10s\nrun 12s\n",
                cv_protocol_at(i)->name, seed);
            cluster_run_until(c, 11999);
            struct busy busy[5] = {{0, 0}};
            const char *at = c->trace;
            struct line line;
            while (next_line(&at, &line)) {
                if (is_event(&line, "persist")) {
                    struct busy *b = &busy[line.node];
                    b->from_s = b->until_s > line.t_s ? b->from_s : line.t_s;
                    b->until_s = (b->until_s > line.t_s ? b->until_s : line.t_s) + disk_s;
                    saves++;
                } else if (is_event(&line, "crash")) {
                    busy[line.node] = (struct busy){0, 0};
                } else if (is_event(&line, "send")) {
                    assert_true(may_send(&busy[line.from], line.t_s, disk_s));
                }
            }
            cluster_drop(c);
        }
    }
    assert_true(saves > 5);
}

/* 2 is about to lead in term 2: it saves the term and then announces itself. */
static struct cluster *about_to_save(const char *more)
{
    struct cluster *c = cluster_start("protocol bully heartbeat=100ms timeout=5s\nnodes 3\n"
                                      "at 1s disk 2 delay 200ms\nat 2s crash 3\n"
                                      "at 2s peer-down 3 at 2\n%srun 20s\n",
                                      more);
    cluster_run_until(c, 2100);
    assert_int_equal(node_of(c, 2)->disk.word[0], 1);
    assert_int_equal(
        cluster_count(c, &(const struct cluster_query){.event = "persist", .since_ms = 2000}), 1);
    return c;
}

static void slow_save_holds_back_what_follows_it(void **unused)
{
    (void)unused;
    struct cluster *c = about_to_save("");
    cluster_run_until(c, 2199);
    assert_int_equal(cluster_leader_count(c), 0);
    assert_int_equal(cluster_sends(c, .from = 2, .since_ms = 2000), 0);
    cluster_run_until(c, 2200);
    assert_int_equal(node_of(c, 2)->disk.word[0], 2);
    assert_int_equal(cluster_leader_count(c), 1);
    assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .from = 2, .since_ms = 2000), 1);
    cluster_drop(c);
}

static void crash_before_the_save_loses_record_and_message(void **unused)
{
    (void)unused;
    struct cluster *c = about_to_save("at 2.15s crash 2\n");
    cluster_run_until(c, 2500);
    assert_int_equal(node_of(c, 2)->disk.word_count, 1);
    assert_int_equal(node_of(c, 2)->disk.word[0], 1);
    assert_int_equal(cluster_sends(c, .from = 2, .since_ms = 2000), 0);
    cluster_drop(c);
}

static void crash_after_the_save_keeps_the_record(void **unused)
{
    (void)unused;
    struct cluster *c = about_to_save("at 2.25s crash 2\n");
    cluster_run_until(c, 2500);
    assert_int_equal(node_of(c, 2)->disk.word[0], 2);
    cluster_drop(c);
}

static void save_that_fails_stops_the_node(void **unused)
{
    (void)unused;
    struct cluster *c = about_to_save("at 2.1s disk 2 fails\n");
    cluster_run_until(c, 2500);
    assert_int_equal(node_of(c, 2)->disk.word[0], 1);
    assert_int_equal(cluster_leader_at(c, 2), CV_ID_NONE);
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "persist-failed"}), 1);
    cluster_run_until(c, 19000); /* whatever it hears, it is silent */
    assert_int_equal(cluster_sends(c, .from = 2, .since_ms = 2000), 0);
    assert_int_equal(cluster_leader_at(c, 1), 1);
    cluster_drop(c);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static uint32_t heartbeats_in_ten_seconds(const char *clock)
{
    struct cluster *c = cluster_start("protocol bully heartbeat=100ms timeout=1s\nnodes 2\n"
                                      "%srun 20s\n",
                                      clock);
    cluster_run_until(c, 10000);
    const uint32_t count = cluster_sends(c, .type = "HEARTBEAT", .from = 2);
    cluster_drop(c);
    return count;
}

static void drift_changes_when_timers_fire(void **unused)
{
    (void)unused;
    assert_int_equal(heartbeats_in_ten_seconds(""), 100);
    assert_in_range(heartbeats_in_ten_seconds("clock 2 drift 100000ppm\n"), 109, 110);
    assert_in_range(heartbeats_in_ten_seconds("clock 2 drift -100000ppm\n"), 89, 90);
    assert_int_equal(heartbeats_in_ten_seconds("clock 1 drift 100000ppm\n"), 100);
    /* From the middle on; the timer that is armed then fires sooner too. */
    assert_in_range(heartbeats_in_ten_seconds("at 5s clock 2 drift 100000ppm\n"), 104, 106);
}

static void clocks_of_two_nodes_have_nothing_in_common(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 5\nrun 1s\n");
    for (cv_id a = 1; a <= 5; a++) {
        assert_true(sim_clock_local(&node_of(c, a)->clock, 0) > 0);
        for (cv_id b = 1; b < a; b++) {
            const int64_t apart_ns = sim_clock_local(&node_of(c, a)->clock, 0) -
                                     sim_clock_local(&node_of(c, b)->clock, 0);
            assert_true(llabs(apart_ns) > NS_PER_MS);
        }
    }
    cluster_end(c);
}

/* ---- delay bounds ---------------------------------------------------------------------------- */

struct bounds {
    uint64_t checked, below;
};

/* Compares the bound of each delivery with the time since the message was sent. */
static void check_bounds(const struct cluster *c, struct bounds *bounds)
{
    const uint64_t sent_max = c->world->messages.count + 1;
    double *sent_s = calloc(sent_max + 1, sizeof *sent_s);
    assert_non_null(sent_s);
    const char *at = c->trace;
    struct line line;
    while (next_line(&at, &line)) {
        if (is_event(&line, "send")) {
            assert_true(line.message <= sent_max);
            sent_s[line.message] = line.t_s;
        } else if (is_event(&line, "deliver") && line.delay_max_s >= 0) {
            const double delay_s = line.t_s - sent_s[line.message];
            bounds->checked++;
            /* Four clock readings, each rounded to a nanosecond. */
            bounds->below += line.delay_max_s < delay_s - 8e-9;
        }
    }
    free(sent_s);
}

static struct bounds bounds_with(const char *lines)
{
    struct bounds bounds = {0};
    for (uint32_t seed = 1; seed <= test_scale(10); seed++) {
        struct cluster *c =
            cluster_start("protocol bully-improved\nnodes 5\nseed %u\n%srun 30s\n", seed, lines);
        cluster_run_until(c, 29999);
        check_bounds(c, &bounds);
        cluster_drop(c);
    }
    return bounds;
}

#define DISORDER \
    "random faults rate 1/s kinds crash,pause,partition,loss,slow,duplicate,reorder until 25s\n"

static void delay_bounds_hold_with_drift_within_rho(void **unused)
{
    (void)unused;
    const char *const lines[] = {
        ("link * delay 2ms jitter 50%\nclock * drift random 100ppm\nfast 10ms min 1ms\n" DISORDER),
        "link * delay 1ms dist=pareto jitter 1ms\nclock * drift random 100ppm\nfast 10ms min 1ms\n",
        "link * delay 1ms\nclock 5 drift 100ppm\nclock 1 drift -100ppm\nfast 10ms min 1ms\n",
        "drift-bound 5000ppm\nclock * drift random 5000ppm\nlink * delay 1ms\nfast 9ms min 1ms\n",
    };
    for (uint32_t i = 0; i < COUNT_OF(lines); i++) {
        const struct bounds bounds = bounds_with(lines[i]);
        assert_true(bounds.checked > 2000 * test_scale(10));
        assert_int_equal(bounds.below, 0);
    }
}

/* The test can fail: beyond rho some bounds are wrong. */
static void delay_bounds_fail_with_drift_beyond_rho(void **unused)
{
    (void)unused;
    const struct bounds bounds =
        bounds_with("clock 5 drift 5000ppm\nclock 1 drift -5000ppm\nlink * delay 1ms\n"
                    "fast 9ms min 1ms\n");
    assert_true(bounds.below > 100);
}

/* ---- network and actions --------------------------------------------------------------------- */

static void message_under_way_when_a_partition_begins_still_arrives(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully timeout=1s\nnodes 2\nlink * delay 20ms\n"
                                      "at 1010ms partition 1 | 2\nrun 3s\n");
    cluster_run_until(c, 1040);
    assert_int_equal(cluster_sends(c, .type = "HEARTBEAT", .since_ms = 1000, .until_ms = 1000), 1);
    assert_int_equal(cluster_count(c, &(const struct cluster_query){.event = "deliver",
                                                                    .since_ms = 1020,
                                                                    .until_ms = 1020}),
                     1);
    cluster_run_until(c, 1100);
    assert_true(cluster_count(c, &(const struct cluster_query){.event = "unreachable"}) > 0);
    cluster_drop(c);
}

static void action_without_effect_is_not_counted(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\n"
                                      "at 1s crash *\nat 1.1s crash 1\nat 1.2s crash leader\n"
                                      "at 1.3s resign 1\nat 1.4s pause 1 for 1s\n"
                                      "at 1.5s recover 1\nat 1.6s recover 1\nrun 5s\n");
    cluster_run_until(c, 4000);
    assert_int_equal(c->world->fired[SIM_ACTION_CRASH], 2);
    assert_int_equal(c->world->fired[SIM_ACTION_RESIGN], 0);
    assert_int_equal(c->world->fired[SIM_ACTION_PAUSE], 0);
    assert_int_equal(c->world->fired[SIM_ACTION_RECOVER], 1);
    cluster_end(c);
}

/* A crash ends a process; its machine's clock goes on. */
static void crash_keeps_the_clock_of_the_machine(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\nat 2s crash 1 for 500ms\nrun 5s\n");
    const struct sim_clock *clock = &c->world->node[0].clock;
    const int64_t began_ns = sim_clock_local(clock, 0);
    cluster_run_until(c, 3000);
    assert_int_equal(sim_clock_local(clock, c->world->now_ns), began_ns + 3 * NS_PER_S);
    assert_int_equal(c->world->node[0].boot, 0);
    cluster_end(c);
}

/* A machine that boots counts from near zero: instants of the boot before mean nothing. */
static void reboot_begins_the_clock_anew(void **unused)
{
    (void)unused;
    struct cluster *c =
        cluster_start("protocol bully\nnodes 2\nat 2s reboot 1 for 500ms\nrun 6s\n");
    struct sim_node *n = &c->world->node[0];
    n->clock.local_base_ns = 700 * NS_PER_S;
    cluster_run_until(c, 2400);
    assert_false(n->is_up);
    assert_int_equal(sim_clock_local(&n->clock, c->world->now_ns), 702400 * NS_PER_MS);
    cluster_run_until(c, 2500);
    assert_true(n->is_up);
    assert_in_range(sim_clock_local(&n->clock, c->world->now_ns), NS_PER_S / 10, 3 * NS_PER_S);
    assert_int_equal(n->boot, 1);
    assert_int_equal(c->world->fired[SIM_ACTION_REBOOT], 1);
    assert_int_equal(c->world->fired[SIM_ACTION_CRASH], 0);
    cluster_end(c);
}

/* `reboot` does nothing to a node that is down. `recover` ends a reboot early, and it still counts
 * as a reboot. */
static void reboot_can_be_ended_early(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\nat 1s crash 1 for 500ms\n"
                                      "at 1.2s reboot 1 for 1s\nat 2s reboot 1 for 2s\n"
                                      "at 2.1s recover 1\nrun 6s\n");
    cluster_run_until(c, 1600);
    assert_int_equal(c->world->node[0].boot, 0);
    cluster_run_until(c, 2200);
    assert_true(c->world->node[0].is_up);
    assert_int_equal(c->world->node[0].boot, 1);
    assert_int_equal(c->world->fired[SIM_ACTION_REBOOT], 1);
    cluster_end(c);
}

static void instant_is_judged_after_all_its_events(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start("protocol bully\nnodes 2\nlink * delay 1ms\n"
                                      "expect leader 2 by 1ms at 1\n"
                                      "expect leaders 2 at 0s\n"
                                      "at 1s crash 2\nexpect no-leader at 1s\n"
                                      "expect leaders 2 at 999999999ns\nrun 3s\n");
    cluster_end(c);
}

static void world_that_is_run_in_steps_is_the_same_world(void **unused)
{
    (void)unused;
    const char text[] = "protocol ring\nnodes 5\nlink * delay 2ms jitter 50%%\n"
                        "random faults rate 2/s kinds crash,pause,partition,loss until 8s\n"
                        "expect leader any by 10s\nrun 10s\n";
    struct cluster *whole = cluster_start(text);
    struct cluster *steps = cluster_start(text);
    for (double ms = 0.3; ms < 9999; ms += 7.7) {
        cluster_run_until(steps, ms);
    }
    cluster_run_until(whole, 9999);
    cluster_run_until(steps, 9999);
    assert_string_equal(whole->trace, steps->trace);
    cluster_end(whole);
    cluster_end(steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_keeps_what_was_saved_and_nothing_else),
        cmocka_unit_test(message_to_a_node_that_is_down_is_dropped),
        cmocka_unit_test(message_that_arrives_after_the_recovery_is_delivered),
        cmocka_unit_test(paused_node_gets_everything_at_once_when_it_wakes),
        cmocka_unit_test(clock_goes_on_during_a_pause_and_during_a_crash),
        cmocka_unit_test(timers_of_a_paused_node_fire_when_it_wakes),
        cmocka_unit_test(waking_node_sees_timers_or_messages_first),
        cmocka_unit_test(crash_ends_a_pause),
        cmocka_unit_test(end_of_a_pause_ends_that_pause_only),
        cmocka_unit_test(send_never_overtakes_a_save),
        cmocka_unit_test(slow_save_holds_back_what_follows_it),
        cmocka_unit_test(crash_before_the_save_loses_record_and_message),
        cmocka_unit_test(crash_after_the_save_keeps_the_record),
        cmocka_unit_test(save_that_fails_stops_the_node),
        cmocka_unit_test(drift_changes_when_timers_fire),
        cmocka_unit_test(clocks_of_two_nodes_have_nothing_in_common),
        cmocka_unit_test(delay_bounds_hold_with_drift_within_rho),
        cmocka_unit_test(delay_bounds_fail_with_drift_beyond_rho),
        cmocka_unit_test(message_under_way_when_a_partition_begins_still_arrives),
        cmocka_unit_test(action_without_effect_is_not_counted),
        cmocka_unit_test(crash_keeps_the_clock_of_the_machine),
        cmocka_unit_test(reboot_begins_the_clock_anew),
        cmocka_unit_test(reboot_can_be_ended_early),
        cmocka_unit_test(instant_is_judged_after_all_its_events),
        cmocka_unit_test(world_that_is_run_in_steps_is_the_same_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
