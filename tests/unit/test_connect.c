/* tests/unit/test_connect.c - the observer of which processes are connected, and of
 * Delta-partitions.
 *
 * [Fetzer99, sec. III and IV] The worlds are small ones of `local` with its lan profile: a message
 * within 2.48 ms is timely, one beyond 5 ms is slow, and the leader talks to everybody each 5 ms.
 * Where other processes must not notice a fault, it hits a link between two followers: these
 * exchange no messages. */
#include "core/nodeset.h"
#include "sim/world.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <string.h>

#define NEVER INT64_MAX

struct stage {
    struct sim_scenario *scenario;
    struct sim_world *world;
};

/* The lines follow those for protocol and nodes; the run is ten seconds long. */
static struct stage stage_new(const char *protocol, uint32_t nodes, const char *lines)
{
    struct stage s = {0};
    s.scenario = scenario_read("protocol %s\nnodes %u\nrun 10s\n%s", protocol, nodes, lines);
    s.world = sim_world_new(s.scenario, /* seed= */ 1, &(struct sim_world_options){0});
    return s;
}

static void stage_end(struct stage *s)
{
    sim_world_free(s->world);
    sim_scenario_free(s->scenario);
}

static void run_to(struct stage *s, int64_t at_ms)
{
    sim_world_run(s->world, at_ms * NS_PER_MS);
    assert_false(s->world->is_over);
}

/* Since when the two are connected, in ms of real time, rounded down; their order does not
 * matter. */
static int64_t since_ms(const struct stage *s, cv_id a, cv_id b)
{
    const struct cv_connections *connections = &s->world->properties.connections;
    const int64_t since_ns = cv__connections_since(connections, a, b);
    assert_int_equal(since_ns, cv__connections_since(connections, b, a));
    return since_ns == NEVER ? NEVER : since_ns / NS_PER_MS;
}

/* The Delta-partition of a process as bits of ids; 0: it has been in none for `for_ms`. */
static uint64_t partition_of(const struct stage *s, cv_id id, int64_t for_ms)
{
    uint64_t set[CV_CONNECTIONS_NODES_MAX / 64] = {0};
    const bool is_found = cv__connections_partition(&s->world->properties.connections,
                                                    s->world->now_ns, id, for_ms * NS_PER_MS, set);
    return is_found ? set[0] << 1 : 0;
}

#define SET_12 (BIT(1) | BIT(2))
#define SET_345 (BIT(3) | BIT(4) | BIT(5))

/* ---- Connected ------------------------------------------------------------------------------- */

static void processes_are_connected_from_the_start(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "");
    run_to(&s, 2000);
    for (cv_id a = 1; a <= 3; a++) {
        for (cv_id b = 1; b <= 3; b++) {
            assert_int_equal(since_ms(&s, a, b), 0);
        }
    }
    stage_end(&s);
}

/* A process is not connected before it has started. */
static void nobody_is_connected_before_it_starts(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "start within 800ms\n");
    run_to(&s, 0);
    int64_t started_ms[4] = {0};
    for (int64_t at_ms = 1; at_ms <= 1000; at_ms++) {
        run_to(&s, at_ms);
        for (cv_id id = 1; id <= 3; id++) {
            const bool is_up = s.world->node[id - 1].is_up;
            started_ms[id] = is_up && started_ms[id] == 0 ? at_ms - 1 : started_ms[id];
            assert_int_equal(since_ms(&s, id, id), is_up ? started_ms[id] : NEVER);
        }
        const bool are_up = started_ms[1] > 0 && started_ms[2] > 0;
        assert_int_equal(since_ms(&s, 1, 2) == NEVER, !are_up);
    }
    stage_end(&s);
}

static void cut_link_disconnects_and_a_mended_one_connects(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s link 1-2 down for 500ms\n");
    run_to(&s, 999);
    assert_int_equal(since_ms(&s, 1, 2), 0);
    run_to(&s, 1000);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    run_to(&s, 1499);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    assert_int_equal(since_ms(&s, 1, 3), 0); /* the others do not notice */
    assert_int_equal(since_ms(&s, 2, 3), 0);
    run_to(&s, 1500);
    assert_int_equal(since_ms(&s, 1, 2), 1500);
    run_to(&s, 4000);
    assert_int_equal(since_ms(&s, 1, 2), 1500);
    stage_end(&s);
}

/* Connected is a relation of two: one direction is not enough. */
static void link_that_is_cut_one_way_connects_nobody(void **unused)
{
    (void)unused;
    struct stage s =
        stage_new("local", 3, "at 1s link 1>2 down\nat 2s heal\nat 3s link 2>1 down\n");
    run_to(&s, 1500);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    run_to(&s, 2500);
    assert_int_equal(since_ms(&s, 1, 2), 2000);
    run_to(&s, 3500);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    assert_int_equal(since_ms(&s, 1, 3), 0);
    stage_end(&s);
}

static void partition_disconnects_its_parts(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 5, "at 1s partition 1 2 | 3 4 5\nat 2s heal\n");
    run_to(&s, 1500);
    assert_int_equal(since_ms(&s, 1, 2), 0);
    assert_int_equal(since_ms(&s, 4, 5), 0);
    assert_int_equal(since_ms(&s, 2, 3), NEVER);
    assert_int_equal(since_ms(&s, 1, 5), NEVER);
    run_to(&s, 2001);
    assert_int_equal(since_ms(&s, 2, 3), 2000);
    assert_int_equal(since_ms(&s, 4, 5), 0);
    stage_end(&s);
}

static void lost_message_restarts_the_connection_of_those_two(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s link 1>2 loss 100%\nat 1.1s link 1>2 loss 0%\n");
    run_to(&s, 1500);
    assert_in_range(since_ms(&s, 1, 2), 1080, 1100); /* the last lost one; 1 sends each 8 ms */
    assert_int_equal(since_ms(&s, 1, 3), 0);
    assert_int_equal(since_ms(&s, 2, 3), 0);
    stage_end(&s);
}

/* A message to a dead process need not arrive. */
static void message_lost_on_the_way_to_a_dead_process_does_not_count(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3,
                               "at 1s crash 2\nat 1s link 1>2 loss 100%\nat 1.5s link 1>2 loss 0%\n"
                               "at 1.6s recover 2\n");
    run_to(&s, 1550);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    run_to(&s, 1601);
    assert_int_equal(since_ms(&s, 1, 2), 1600);
    stage_end(&s);
}

static void late_message_restarts_the_connection(void **unused)
{
    (void)unused;
    static const struct {
        const char *delay;
        bool is_timely;
    } cases[] = {{"2.4ms", true}, {"2.6ms", false}, {"4ms", false}, {"20ms", false}};
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        char lines[100];
        (void)snprintf(lines, sizeof lines, "at 1s link 1>2 delay %s\nat 2s link 1>2 delay 1ms\n",
                       cases[i].delay);
        struct stage s = stage_new("local", 3, lines);
        run_to(&s, 1990);
        if (cases[i].is_timely) {
            assert_int_equal(since_ms(&s, 1, 2), 0);
        } else {
            assert_in_range(since_ms(&s, 1, 2), 1970, 1990); /* the latest arrival or departure */
        }
        assert_int_equal(since_ms(&s, 1, 3), 0);
        run_to(&s, 3000);
        if (!cases[i].is_timely) { /* the last one arrived after 2 s, if it takes 20 ms */
            assert_in_range(since_ms(&s, 1, 2), 1980, 2020);
        }
        stage_end(&s);
    }
}

static void paused_process_is_not_connected_and_is_again_when_it_wakes(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s pause 3 for 50ms\n");
    run_to(&s, 1010);
    assert_int_equal(since_ms(&s, 3, 3), NEVER);
    assert_int_equal(since_ms(&s, 1, 3), NEVER);
    assert_int_equal(since_ms(&s, 1, 2), 0);
    run_to(&s, 1051);
    assert_int_equal(since_ms(&s, 3, 3), 1050);
    /* Messages that piled up during the pause arrived late: it is connected from then on. */
    assert_in_range(since_ms(&s, 1, 3), 1050, 1051);
    assert_int_equal(since_ms(&s, 2, 3), 1050);
    stage_end(&s);
}

static void crashed_process_is_not_connected_and_is_again_when_it_recovers(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s crash 3 for 700ms\n");
    run_to(&s, 1300);
    assert_int_equal(since_ms(&s, 3, 3), NEVER);
    assert_int_equal(since_ms(&s, 2, 3), NEVER);
    run_to(&s, 1701);
    assert_int_equal(since_ms(&s, 3, 3), 1700);
    assert_int_equal(since_ms(&s, 2, 3), 1700);
    assert_int_equal(since_ms(&s, 1, 2), 0);
    stage_end(&s);
}

/* Clocks and disks count as well: such a process is not timely. */
static void process_with_a_wild_clock_or_a_slow_disk_is_not_connected(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 4,
                               "at 1s clock 2 drift -150ppm\nat 2s clock 2 drift -100ppm\n"
                               "at 1s disk 3 delay 5ms\nat 3s disk 3 delay 0.1ms\n"
                               "at 1s disk 4 fails\nat 4s disk 4 works\n");
    run_to(&s, 1500);
    assert_int_equal(since_ms(&s, 1, 1), 0);
    assert_int_equal(since_ms(&s, 1, 2), NEVER);
    assert_int_equal(since_ms(&s, 1, 3), NEVER);
    assert_int_equal(since_ms(&s, 1, 4), NEVER);
    run_to(&s, 5000);
    assert_int_equal(since_ms(&s, 1, 2), 2000);
    assert_int_equal(since_ms(&s, 1, 3), 3000);
    assert_int_equal(since_ms(&s, 1, 4), 4000);
    assert_int_equal(since_ms(&s, 3, 4), 4000);
    stage_end(&s);
}

/* ---- Delta-partitions ------------------------------------------------------------------------ */

static void all_are_one_delta_partition(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 5, "");
    run_to(&s, 499);
    for (cv_id id = 1; id <= 5; id++) {
        assert_int_equal(partition_of(&s, id, 500), 0); /* not for that long yet */
        assert_int_equal(partition_of(&s, id, 499), SET_12 | SET_345);
    }
    run_to(&s, 500);
    assert_int_equal(partition_of(&s, 4, 500), SET_12 | SET_345);
    stage_end(&s);
}

static void each_part_is_a_delta_partition_once_the_others_are_not_heard(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 5, "at 2s partition 1 2 | 3 4 5\n");
    run_to(&s, 2300);
    /* The last message of 3 to 1, at 2 s, is not old enough. */
    assert_int_equal(partition_of(&s, 1, 500), 0);
    assert_int_equal(partition_of(&s, 1, 290), SET_12);
    assert_int_equal(partition_of(&s, 5, 290), SET_345);
    run_to(&s, 2510);
    assert_int_equal(partition_of(&s, 1, 500), SET_12);
    assert_int_equal(partition_of(&s, 2, 500), SET_12);
    assert_int_equal(partition_of(&s, 3, 500), SET_345);
    stage_end(&s);
}

static void process_alone_is_a_delta_partition(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s crash 1\nat 1s partition 2 | 3\n");
    run_to(&s, 3000);
    assert_int_equal(partition_of(&s, 1, 500), 0); /* the dead are in none */
    assert_int_equal(partition_of(&s, 2, 500), BIT(2));
    assert_int_equal(partition_of(&s, 3, 500), BIT(3));
    stage_end(&s);
}

/* [Fetzer99, fig. 2] In a trio nobody is in a Delta-partition: the middle one is connected to two
 * that are not connected to each other, and each of these hears the middle one, which hears
 * both. */
static void trio_has_no_delta_partition(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "link 1-3 down\n");
    for (int64_t at_ms = 1000; at_ms <= 5000; at_ms += 100) {
        run_to(&s, at_ms);
        for (cv_id id = 1; id <= 3; id++) {
            assert_int_equal(partition_of(&s, id, 400), 0);
        }
    }
    stage_end(&s);
}

/* [Fetzer99, fig. 4 and 5] Messages from outside may arrive, as long as all of them are slow. */
static void slow_messages_from_outside_do_not_count(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 5,
                               "link 1-3 delay 20ms\nlink 1-4 delay 20ms\nlink 1-5 delay 20ms\n"
                               "link 2-3 delay 20ms\nlink 2-4 delay 20ms\nlink 2-5 delay 20ms\n");
    run_to(&s, 3000);
    assert_int_equal(since_ms(&s, 1, 2), 0);
    assert_true(since_ms(&s, 1, 3) > 2900); /* never for long */
    assert_int_equal(partition_of(&s, 1, 500), SET_12);
    assert_int_equal(partition_of(&s, 3, 500), SET_345);
    /* Followers 2 and 5 exchange nothing: no message between them failed, so they count as
     * connected, and 5 is in no Delta-partition. */
    assert_in_range(since_ms(&s, 2, 5), 0, 100); /* apart from the first broadcasts */
    assert_int_equal(partition_of(&s, 5, 500), 0);
    stage_end(&s);
}

/* A delay between timely and slow: such a message may or may not be known to be fast. The two are
 * neither connected nor Delta-disconnected, so nothing is promised. */
static void messages_neither_timely_nor_slow_allow_no_delta_partition(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 2, "link 1-2 delay 4ms\n");
    run_to(&s, 3000);
    assert_true(since_ms(&s, 1, 2) > 2900);
    assert_int_equal(partition_of(&s, 1, 500), 0);
    assert_int_equal(partition_of(&s, 2, 500), 0);
    stage_end(&s);
}

/* [Fetzer99, fig. 5] "q might receive messages from p with a delay of less than Delta": a process
 * outside may hear a Delta-partition that does not hear it. That process hears some to which it is
 * not connected, and is in no Delta-partition. */
static void only_what_a_process_hears_counts(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 1s link 3>1 down\nat 1s link 3>2 down\n");
    run_to(&s, 3000);
    assert_int_equal(partition_of(&s, 1, 500), SET_12);
    assert_int_equal(partition_of(&s, 2, 500), SET_12);
    assert_int_equal(partition_of(&s, 3, 500), 0);
    stage_end(&s);
}

static void lost_message_inside_restarts_the_delta_partition(void **unused)
{
    (void)unused;
    struct stage s = stage_new("local", 3, "at 2s link 1>2 loss 100%\nat 2.01s link 1>2 loss 0%\n");
    run_to(&s, 2400);
    /* Lost between two others, but inside the same partition. */
    assert_int_equal(partition_of(&s, 3, 500), 0);
    run_to(&s, 2520);
    assert_int_equal(partition_of(&s, 3, 500), BIT(1) | BIT(2) | BIT(3));
    stage_end(&s);
}

/* ---- When connections are kept --------------------------------------------------------------- */

static void connections_are_not_kept_for_protocols_that_promise_nothing_about_them(void **unused)
{
    (void)unused;
    struct stage s = stage_new("bully", 3, "at 100ms link 1-2 down\n");
    run_to(&s, 1000);
    assert_false(cv__connections_is_kept(&s.world->properties.connections));
    assert_int_equal(partition_of(&s, 1, 500), 0);
    stage_end(&s);
}

static void connections_are_not_kept_for_very_many_nodes(void **unused)
{
    (void)unused;
    struct stage most = stage_new("local", CV_CONNECTIONS_NODES_MAX, "");
    assert_true(cv__connections_is_kept(&most.world->properties.connections));
    stage_end(&most);
    struct stage more = stage_new("local", CV_CONNECTIONS_NODES_MAX + 1, "");
    assert_false(cv__connections_is_kept(&more.world->properties.connections));
    assert_int_equal(partition_of(&more, 1, 500), 0);
    stage_end(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_are_connected_from_the_start),
        cmocka_unit_test(nobody_is_connected_before_it_starts),
        cmocka_unit_test(cut_link_disconnects_and_a_mended_one_connects),
        cmocka_unit_test(link_that_is_cut_one_way_connects_nobody),
        cmocka_unit_test(partition_disconnects_its_parts),
        cmocka_unit_test(lost_message_restarts_the_connection_of_those_two),
        cmocka_unit_test(message_lost_on_the_way_to_a_dead_process_does_not_count),
        cmocka_unit_test(late_message_restarts_the_connection),
        cmocka_unit_test(paused_process_is_not_connected_and_is_again_when_it_wakes),
        cmocka_unit_test(crashed_process_is_not_connected_and_is_again_when_it_recovers),
        cmocka_unit_test(process_with_a_wild_clock_or_a_slow_disk_is_not_connected),
        cmocka_unit_test(all_are_one_delta_partition),
        cmocka_unit_test(each_part_is_a_delta_partition_once_the_others_are_not_heard),
        cmocka_unit_test(process_alone_is_a_delta_partition),
        cmocka_unit_test(trio_has_no_delta_partition),
        cmocka_unit_test(slow_messages_from_outside_do_not_count),
        cmocka_unit_test(messages_neither_timely_nor_slow_allow_no_delta_partition),
        cmocka_unit_test(only_what_a_process_hears_counts),
        cmocka_unit_test(lost_message_inside_restarts_the_delta_partition),
        cmocka_unit_test(connections_are_not_kept_for_protocols_that_promise_nothing_about_them),
        cmocka_unit_test(connections_are_not_kept_for_very_many_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
