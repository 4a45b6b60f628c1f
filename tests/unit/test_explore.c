/* tests/unit/test_explore.c - the exhaustive search: what it finds, what it says when it ends. */
#include "explore/checkpoint.h"
#include "explore/choices.h"
#include "explore/frontier.h"
#include "explore/pack.h"
#include "explore/search.h"
#include "explore/story.h"
#include "explore/visited.h"
#include "sim/world.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct explore_setting small(const char *protocol)
{
    return (struct explore_setting){
        .protocol = cv_protocol_find(protocol),
        .node_count = 2,
        .delay_max_ticks = 1,
    };
}

static struct explore_result search(const struct explore_setting *setting, uint64_t states_max,
                                    struct explore_model *model)
{
    const struct explore_limits limits = {
        .states_max = states_max, .bytes_max = (uint64_t)1 << 30, .wall_s_max = 1e9};
    struct cv_errtext why = {""};
    if (explore_open(setting, model, &why) != CV_OK) {
        fail_msg("%s: %s", setting->protocol->name, why.text);
    }
    struct explore_result result;
    assert_int_equal(explore_search(model, &limits, &result, &why), CV_OK);
    return result;
}

/* Searches completely and expects no violation; returns the number of states. */
static uint64_t exhaust(const struct explore_setting *setting)
{
    struct explore_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    const struct explore_result r = search(setting, 10000000, model);
    if (r.outcome != EXPLORE_EXHAUSTED) {
        fail_msg("%s: %s%s: %s", setting->protocol->name, r.why != NULL ? r.why : "",
                 r.outcome == EXPLORE_BROKEN ? cv_property_name(r.property) : "", r.detail);
    }
    explore_model_fini(model);
    free(model);
    return r.progress.states;
}

/* ---- The five classical protocols ------------------------------------------------------------ */

static const char *const classical[] = {"bully", "bully-improved", "bully-modified", "ring",
                                        "ring-modified"};

static void count_lines(void *context, int64_t at_ns, const char *line)
{
    (void)at_ns;
    uint32_t *leads = context;
    *leads += strstr(line, " LEADS ") != NULL;
}

static void finds_two_leaders_of_each_classical_protocol(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(classical); i++) {
        struct explore_setting setting = small(classical[i]);
        setting.budget[EXPLORE_PARTITION] = 1;
        setting.only = CV_PROP(AT_MOST_ONE_LEADER);
        struct explore_model *model = calloc(1, sizeof *model);
        struct explore_result r = search(&setting, 1000000, model);
        assert_int_equal(r.outcome, EXPLORE_BROKEN);
        assert_int_equal(r.property, CV_PROPERTY_AT_MOST_ONE_LEADER);
        assert_in_range(r.path_count, 1, 40);
        uint32_t leads = 0;
        explore_replay(model, r.path, r.path_count, count_lines, &leads);
        assert_true(model->end.is_broken); /* the way back leads to the same violation */
        assert_string_equal(model->end.detail, r.detail);
        assert_in_range(leads, 2, 9);
        free(r.path);
        explore_model_fini(model);
        free(model);
    }
}

/* Does the simulator find the same violation when it runs the scenario of that kind? */
static bool breaks_in_the_simulator(struct explore_model *model, const struct explore_result *r,
                                    enum explore_story_kind kind)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct cv_errtext why = {""};
    assert_int_equal(explore_story(model, r, kind, out, &why), CV_OK);
    assert_int_equal(fclose(out), 0);
    struct sim_scenario *scenario = scenario_read("%s", text);
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, 1, &options);
    const bool breaks = sim_world_run_all(world);
    sim_world_free(world);
    sim_scenario_free(scenario);
    free(text);
    return breaks;
}

/* The search finds two leaders with that budget, and the simulator finds them too. A scenario of
 * the faults alone is enough only where the simulator orders the events of an instant as the search
 * did. */
static void replay_two_leaders(const char *protocol, enum explore_budget budget)
{
    struct explore_setting setting = small(protocol);
    setting.budget[budget] = 1;
    setting.only = CV_PROP(AT_MOST_ONE_LEADER);
    struct explore_model *model = calloc(1, sizeof *model);
    struct explore_result r = search(&setting, 1000000, model);
    assert_int_equal(r.outcome, EXPLORE_BROKEN);
    if (strncmp(protocol, "bully", strlen("bully")) == 0) {
        assert_true(breaks_in_the_simulator(model, &r, EXPLORE_STORY_SHORT));
    }
    assert_true(breaks_in_the_simulator(model, &r, EXPLORE_STORY_BY_HAND));
    free(r.path);
    explore_model_fini(model);
    free(model);
}

static void the_simulator_replays_the_shortest_traces(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(classical); i++) {
        replay_two_leaders(classical[i], EXPLORE_PARTITION);
        replay_two_leaders(classical[i], EXPLORE_PAUSE);
        replay_two_leaders(classical[i], EXPLORE_ONE_WAY);
    }
}

static void the_classical_protocols_keep_their_promises_after_a_crash(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(classical); i++) {
        struct explore_setting setting = small(classical[i]);
        setting.node_count = 3;
        setting.budget[EXPLORE_CRASH] = 1;
        setting.judges_liveness = true;
        (void)exhaust(&setting);
    }
}

/* ---- pole and local -------------------------------------------------------------------------- */

static void exhausts_pole_with_two_nodes(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    (void)exhaust(&setting);
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    (void)exhaust(&setting);
}

static void exhausts_local_with_two_nodes(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("local");
    (void)exhaust(&setting);
    setting.option[setting.option_count++] = "majority=yes";
    setting.budget[EXPLORE_LOSS] = 1;
    (void)exhaust(&setting);
}

/* ---- lease and anon -------------------------------------------------------------------------- */

static void exhausts_lease_with_two_contenders(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("lease");
    (void)exhaust(&setting);
    setting.budget[EXPLORE_RESTART] = 1;
    (void)exhaust(&setting);
}

static void exhausts_anon_with_two_processes(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("anon");
    setting.budget[EXPLORE_LOSS] = 1; /* of a message, a request or a number */
    (void)exhaust(&setting);
    setting.budget[EXPLORE_LOSS] = 0;
    setting.budget[EXPLORE_RESTART] = 1;
    setting.budget[EXPLORE_CRASH] = 1;
    (void)exhaust(&setting);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

static void says_not_exhausted_at_a_bound(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("local");
    struct explore_model *model = calloc(1, sizeof *model);
    const struct explore_result r = search(&setting, 50, model);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_non_null(strstr(r.why, "--states"));
    explore_model_fini(model);
    free(model);
}

/* The order of leaders is promised to one process, not to its next life if it has saved nothing. */
static void a_process_that_saved_nothing_begins_anew(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("anon");
    setting.budget[EXPLORE_CRASH] = setting.budget[EXPLORE_RECOVER] = 1;
    setting.budget[EXPLORE_LOSS] = 1;
    assert_in_range(exhaust(&setting), 1000, 10000000);
}

static void refuses_what_it_cannot_explore(void **unused)
{
    (void)unused;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    struct explore_setting setting = small("local");
    setting.only = CV_PROP(TIMELINESS);
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "timeliness"));
    setting = small("pole");
    setting.only = CV_PROP(SUPPORT_ONE);
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "support-one"));
    setting.only = CV_PROP(RIGHTFUL_LEADER);
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "rightful-leader"));
    setting = small("bully");
    setting.option[setting.option_count++] = "heartbeat";
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    /* Each message would be a disturbance, so that nothing would be judged. */
    setting = small("bully");
    setting.judges_liveness = true;
    setting.delay_max_ticks = 2;
    assert_int_equal(explore_open(&setting, model, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "--delay"));
    free(model);
}

/* A larger budget reaches every state of a smaller one. */
static void a_budget_that_is_not_spent_changes_nothing(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("bully");
    const uint64_t without = exhaust(&setting);
    setting.budget[EXPLORE_LOSS] = 1;
    const uint64_t with = exhaust(&setting);
    assert_true(with > without);
}

/* ---- Witnesses, reboots, disks --------------------------------------------------------------- */

static void a_witness_is_heard_and_breaks_nothing(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    setting.option[setting.option_count++] = "epochs=2";
    setting.budget[EXPLORE_CRASH] = 1;
    const uint64_t without = exhaust(&setting);
    setting.budget[EXPLORE_WITNESS] = 1;
    assert_true(exhaust(&setting) > without);
}

static void a_reboot_and_a_failing_disk_break_nothing(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    const uint64_t none = exhaust(&setting);
    setting.budget[EXPLORE_DISK] = 1;
    assert_true(exhaust(&setting) > none);
    setting.budget[EXPLORE_DISK] = 0;
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    const uint64_t same_clock = exhaust(&setting);
    setting.budget[EXPLORE_REBOOT] = 1;
    assert_true(exhaust(&setting) > same_clock);
}

/* Effects behind a slow record wait until it is durable; local goes on meanwhile. */
static void slow_disks_break_nothing(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("local");
    setting.option[setting.option_count++] = "majority=yes";
    const uint64_t none = exhaust(&setting);
    setting.budget[EXPLORE_SLOW] = 1;
    assert_true(exhaust(&setting) > 2 * none);
    setting = small("bully");
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    const uint64_t fast = exhaust(&setting);
    setting.budget[EXPLORE_SLOW] = 1;
    setting.budget[EXPLORE_DISK] = 1;
    assert_true(exhaust(&setting) > fast);
    setting = small("pole"); /* which waits longer and longer for its disk */
    setting.budget[EXPLORE_SLOW] = 1;
    assert_true(exhaust(&setting) > 0);
}

/* The process asks the sequencer again and again and hears no number. Its request counter once made
 * the search endless. */
static void a_process_that_does_not_hear_the_sequencer_is_explored(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("anon");
    setting.budget[EXPLORE_ONE_WAY] = 1;
    assert_true(exhaust(&setting) > 0);
}

/* A process that is not heard elects for ever, with larger and larger epochs. */
static void reports_what_was_not_searched(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    struct explore_model *model = calloc(1, sizeof *model);
    const struct explore_result none = search(&setting, 1000000, model);
    assert_null(none.beyond);
    explore_model_fini(model);
    setting.node_count = 3;
    setting.budget[EXPLORE_ONE_WAY] = 1;
    const struct explore_result r = search(&setting, 1000000, model);
    assert_int_equal(r.outcome, EXPLORE_EXHAUSTED);
    assert_non_null(strstr(r.beyond, "24 apart"));
    explore_model_fini(model);
    free(model);
}

/* The search once did not end, because messages to dead processes stayed under way for ever. */
static void all_may_die_with_witnesses(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    setting.budget[EXPLORE_CRASH] = 2;
    setting.budget[EXPLORE_WITNESS] = 2;
    assert_true(exhaust(&setting) > 0);
}

/* ---- The parts ------------------------------------------------------------------------------- */

/* Bit 0: the header and what is judged are the same; bit i: node i is. */
static uint32_t parts_alike(const struct explore_model *model, struct explore_world *a,
                            struct explore_world *b)
{
    uint32_t alike = memcmp(a, b, sizeof *a + model->properties.block_bytes) == 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        const bool is_same = memcmp(explore_node_at(model, a, i), explore_node_at(model, b, i),
                                    model->node_bytes) == 0;
        alike |= is_same ? 2u << i : 0;
    }
    return alike;
}

static void a_packed_world_is_the_same_world(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("local");
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why;
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_world *first = explore_world_new(model);
    struct explore_world *world = explore_world_new(model);
    struct explore_world *again = explore_world_new(model);
    uint8_t *bytes = malloc(explore_pack_bytes_max(model));
    uint8_t *shared = malloc(explore_pack_bytes_max(model));
    uint8_t *before = malloc(explore_pack_bytes_max(model));
    struct explore_packed like = {again, NULL};
    uint32_t seen = 0;
    explore_world_begin(model, first);
    explore_world_copy(model, world, first);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    for (uint32_t i = 0; i < 100 && explore_settle(model, world); i++) {
        seen |= like.bytes != NULL ? parts_alike(model, world, again) : 0;
        const size_t packed = explore_pack(model, first, world, &like, shared);
        assert_in_range(packed, 1, explore_world_bytes(model, world) / 2);
        assert_int_equal(explore_pack(model, first, world, &(struct explore_packed){0}, bytes),
                         packed);
        assert_memory_equal(shared, bytes, packed); /* whatever it was packed against */
        explore_unpack(model, first, bytes, like.bytes != NULL ? before : NULL, again);
        memcpy(before, bytes, packed);
        like.bytes = before;
        assert_memory_equal(again, world, explore_world_bytes(model, world));
        (void)explore_choices(model, world, choice);
        (void)explore_do(model, world, &choice[0]);
    }
    free(first);
    free(world);
    free(again);
    assert_int_equal(seen, 7); /* each part was alike at least once */
    free(shared);
    free(before);
    free(bytes);
    explore_model_fini(model);
    free(model);
}

/* Takes all worlds that are in the queue, in order. */
static void expect_worlds(struct explore_queue *fifo, struct explore_spool *spool, uint32_t count)
{
    uint32_t expected = 0;
    struct explore_chunk *chunk;
    while ((chunk = explore_queue_take(fifo, spool)) != NULL) {
        uint32_t id;
        const uint8_t *bytes;
        while (explore_chunk_next(chunk, &id, &bytes)) {
            assert_int_equal(id, expected);
            assert_int_equal(bytes[expected % 300], expected % 251);
            expected++;
        }
        explore_chunk_free(chunk);
    }
    assert_int_equal(expected, count);
    assert_int_equal(fifo->count, 0);
    assert_int_equal(fifo->bytes, 0);
}

static void push_worlds(struct explore_queue *fifo, uint32_t count)
{
    uint8_t bytes[300];
    for (uint32_t i = 0; i < count; i++) { /* several chunks */
        memset(bytes, (int)(i % 251), sizeof bytes);
        explore_queue_push(fifo, i, bytes, 1 + i % sizeof bytes);
    }
}

static void a_queue_returns_what_came_first(void **unused)
{
    (void)unused;
    struct explore_queue fifo = {0};
    struct explore_spool spool = {.descriptor = -1};
    push_worlds(&fifo, 20000);
    assert_int_equal(fifo.count, 20000);
    expect_worlds(&fifo, &spool, 20000);
}

static void a_queue_goes_to_disk_and_comes_back(void **unused)
{
    (void)unused;
    struct explore_queue fifo = {0};
    struct explore_spool spool = {.descriptor = -1};
    push_worlds(&fifo, 10000);
    const uint64_t before = fifo.bytes;
    assert_true(explore_queue_spill(&fifo, &spool));
    assert_true(spool.written_bytes > 1000000);
    assert_int_equal(spool.held_bytes, spool.written_bytes);
    assert_in_range(fifo.bytes, 1, before / 4);
    struct explore_queue later = {0};
    FILE *file = tmpfile();
    assert_true(explore_queue_write(&fifo, &spool, file)); /* a checkpoint reads it from disk */
    rewind(file);
    assert_true(explore_queue_read(&later, file));
    assert_int_equal(fclose(file), 0);
    expect_worlds(&fifo, &spool, 10000);
    expect_worlds(&later, &spool, 10000);
    assert_int_equal(spool.held_bytes, 0);
    explore_spool_fini(&spool);
}

/* The descriptor's file, which has no name any more: "FOLDER/NAME (deleted)". */
static bool is_in(int descriptor, const char *folder)
{
    char link[64];
    char target[PATH_MAX] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    return strncmp(target, folder, strlen(folder)) == 0 && target[strlen(folder)] == '/';
}

static void waiting_worlds_go_to_the_temporary_folder(void **unused)
{
    (void)unused;
    char folder[] = "/tmp/explore-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *before = getenv("TMPDIR");
    char *kept = before != NULL ? strdup(before) : NULL;
    struct explore_queue fifo = {0};
    struct explore_spool spool = {.descriptor = -1};
    push_worlds(&fifo, 10000);
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_true(explore_queue_spill(&fifo, &spool));
    assert_true(is_in(spool.descriptor, folder));
    assert_int_equal(rmdir(folder), 0); /* the file has no name */
    struct explore_queue other = {0};
    struct explore_spool elsewhere = {.descriptor = -1};
    push_worlds(&other, 10000);
    assert_true(explore_queue_spill(&other, &elsewhere)); /* the folder is gone */
    assert_true(is_in(elsewhere.descriptor, "/tmp"));
    expect_worlds(&fifo, &spool, 10000);
    expect_worlds(&other, &elsewhere, 10000);
    explore_spool_fini(&spool);
    explore_spool_fini(&elsewhere);
    assert_int_equal(kept != NULL ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"), 0);
    free(kept);
}

static uint64_t scattered(uint64_t i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void visited_set_has_what_was_added(void **unused)
{
    (void)unused;
    struct explore_visited *visited = malloc(sizeof *visited);
    explore_visited_init(visited, 0);
    uint32_t id = 0;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100000; i++) {
            assert_int_equal(explore_visited_add(visited, scattered(i), i, 7, &id), round == 0);
            assert_true(round == 1 || explore_visited_at(visited, id).parent == i);
        }
    }
    assert_int_equal(visited->count, 100000);
    assert_true(explore_visited_miss(visited) < 1e-9);
    assert_in_range(explore_visited_bytes(visited), 1, 100000 * 60); /* the promise per state */
    explore_visited_fini(visited);
    free(visited);
}

/* ---- Limits, threads, disk, bits, resuming --------------------------------------------------- */

/* A search with many states: local with a crash and a recovery. */
static struct explore_model *open_searched(void)
{
    struct explore_setting setting = small("local");
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why = {""};
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    return model;
}

static struct explore_result search_within(const struct explore_limits *limits, int expected)
{
    struct explore_model *model = open_searched();
    struct cv_errtext why = {""};
    struct explore_result result = {0};
    if (explore_search(model, limits, &result, &why) != expected) {
        fail_msg("%s", why.text);
    }
    explore_model_fini(model);
    free(model);
    free(result.path);
    return result;
}

static const struct explore_limits no_limits = {
    .states_max = UINT64_MAX, .bytes_max = (uint64_t)1 << 30, .wall_s_max = 1e9};

static void threads_and_disk_find_the_same_states(void **unused)
{
    (void)unused;
    const struct explore_result alone = search_within(&no_limits, CV_OK);
    assert_int_equal(alone.outcome, EXPLORE_EXHAUSTED);
    struct explore_limits limits = no_limits;
    limits.threads = 3;
    const struct explore_result together = search_within(&limits, CV_OK);
    assert_int_equal(together.outcome, EXPLORE_EXHAUSTED);
    assert_int_equal(together.progress.states, alone.progress.states);
    assert_int_equal(together.progress.transitions, alone.progress.transitions);
    assert_int_equal(together.progress.depth, alone.progress.depth);
    limits = no_limits;
    limits.bytes_max =
        alone.progress.bytes + (1u << 18); /* the visited states fit, the waiting ones do not */
    const struct explore_result small = search_within(&limits, CV_OK);
    assert_int_equal(small.outcome, EXPLORE_EXHAUSTED);
    assert_int_equal(small.progress.states, alone.progress.states);
    assert_true(small.progress.disk_bytes > 0);
}

/* Many worlds wait when this one is stopped. */
static struct explore_result search_wide(const struct explore_limits *limits)
{
    struct explore_setting setting = small("pole");
    setting.node_count = 3;
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    setting.budget[EXPLORE_LOSS] = 1;
    setting.budget[EXPLORE_PAUSE] = 1;
    struct explore_model *model = calloc(1, sizeof *model);
    struct cv_errtext why = {""};
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    struct explore_result result = {0};
    assert_int_equal(explore_search(model, limits, &result, &why), CV_OK);
    assert_int_equal(result.outcome, EXPLORE_STOPPED);
    explore_model_fini(model);
    free(model);
    return result;
}

static void worlds_that_any_thread_has_found_count_as_memory(void **unused)
{
    (void)unused;
    struct explore_limits limits = no_limits;
    limits.states_max = 16000;
    const struct explore_result alone = search_wide(&limits);
    assert_true(alone.progress.bytes > 400 * alone.progress.frontier);
    assert_int_equal(alone.progress.disk_bytes, 0);
    limits.threads = 4; /* each keeps a chunk that is not full, and adds to it between two looks */
    limits.bytes_max = alone.progress.bytes / 4;
    const struct explore_result together = search_wide(&limits);
    assert_true(together.progress.disk_bytes > 0);
    assert_true(together.progress.bytes < limits.bytes_max + 4 * 4 * EXPLORE_CHUNK_BYTES);
}

static void a_stopped_search_says_so_and_goes_on_later(void **unused)
{
    (void)unused;
    const struct explore_result alone = search_within(&no_limits, CV_OK);
    char path[] = "/tmp/explore-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(close(descriptor), 0);
    assert_int_equal(unlink(path), 0);
    struct explore_limits limits = no_limits;
    limits.save_path = path;
    struct explore_result r = {0};
    uint32_t rounds = 0;
    do {
        limits.states_max = r.progress.states + alone.progress.states / 3;
        r = search_within(&limits, CV_OK);
        rounds++;
    } while (r.outcome == EXPLORE_STOPPED && rounds < 10);
    assert_int_equal(r.outcome, EXPLORE_EXHAUSTED);
    assert_in_range(rounds, 3, 5);
    assert_int_equal(r.progress.states, alone.progress.states);
    assert_int_equal(r.progress.transitions, alone.progress.transitions);
    FILE *file = fopen(path, "r+"); /* one bit is wrong: a visited state would be another one */
    assert_non_null(file);
    assert_int_equal(fseek(file, 20000, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, 20000, SEEK_SET), 0);
    assert_true(fputc(byte ^ 4, file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)search_within(&limits, CV_E_MALFORMED);
    file = fopen(path, "r+"); /* another search, or not one at all */
    assert_non_null(file);
    assert_true(fputs("something else", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)search_within(&limits, CV_E_MALFORMED);
    assert_int_equal(unlink(path), 0);
}

static void the_time_of_earlier_runs_does_not_count(void **unused)
{
    (void)unused;
    char path[] = "/tmp/explore-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(close(descriptor), 0);
    struct explore_model *model = open_searched();
    struct explore_state *state = calloc(1, sizeof *state); /* nothing was visited, in an hour */
    struct cv_errtext why = {""};
    explore_visited_init(&state->visited, 0);
    state->earlier_s = 3600;
    assert_int_equal(explore_checkpoint_write(model, state, path, &why), CV_OK);
    struct explore_limits limits = no_limits;
    limits.save_path = path;
    limits.wall_s_max = 3000;
    const struct explore_result r = search_within(&limits, CV_OK);
    assert_int_equal(r.outcome, EXPLORE_EXHAUSTED);
    assert_true(r.progress.wall_s > 3600);
    explore_visited_fini(&state->visited);
    free(state);
    explore_model_fini(model);
    free(model);
    assert_int_equal(unlink(path), 0);
}

/* Worlds beyond a bound were not visited, even if it was hit before the search was saved. */
static void a_bound_hit_by_an_earlier_run_counts(void **unused)
{
    (void)unused;
    char path[] = "/tmp/explore-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(close(descriptor), 0);
    struct explore_model *model = open_searched();
    struct explore_state *state = calloc(1, sizeof *state);
    struct cv_errtext why = {""};
    explore_visited_init(&state->visited, 0);
    state->end = (struct explore_end){.is_bound = true, .detail = "too many messages"};
    assert_int_equal(explore_checkpoint_write(model, state, path, &why), CV_OK);
    struct explore_limits limits = no_limits;
    limits.save_path = path;
    limits.states_max = 1000;
    const struct explore_result part = search_within(&limits, CV_OK);
    assert_int_equal(part.outcome, EXPLORE_STOPPED);
    assert_non_null(strstr(part.why, "--states"));
    assert_string_equal(part.detail, "");
    limits.states_max = UINT64_MAX;
    const struct explore_result r = search_within(&limits, CV_OK);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_non_null(strstr(r.why, "a bound of the explored world"));
    assert_string_equal(r.detail, "too many messages");
    explore_visited_fini(&state->visited);
    free(state);
    explore_model_fini(model);
    free(model);
    assert_int_equal(unlink(path), 0);
}

static void a_search_that_cannot_be_saved_has_a_result(void **unused)
{
    (void)unused;
    struct explore_limits limits = no_limits;
    limits.save_path = "/nowhere/at/all";
    limits.states_max = 1000;
    const struct explore_result r = search_within(&limits, CV_OK);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_string_equal(r.unsaved.text,
                        "cannot write '/nowhere/at/all': No such file or directory");
}

/* Few worlds are at the same distance here: 89 at 22 distances. */
static void a_narrow_search_is_interrupted_too(void **unused)
{
    (void)unused;
    const volatile sig_atomic_t interrupted = 1;
    struct explore_setting setting = small("bully");
    setting.budget[EXPLORE_CRASH] = 1;
    struct explore_limits limits = no_limits;
    limits.stop = &interrupted;
    struct explore_model *model = calloc(1, sizeof *model);
    struct explore_result r = {0};
    struct cv_errtext why = {""};
    assert_int_equal(explore_open(&setting, model, &why), CV_OK);
    assert_int_equal(explore_search(model, &limits, &r, &why), CV_OK);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_string_equal(r.why, "an interruption");
    free(r.path);
    explore_model_fini(model);
    free(model);
}

static void an_interrupt_ends_it_with_a_partial_verdict(void **unused)
{
    (void)unused;
    const volatile sig_atomic_t interrupted = 1;
    struct explore_limits limits = no_limits;
    limits.stop = &interrupted;
    const struct explore_result r = search_within(&limits, CV_OK);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_string_equal(r.why, "an interruption");
    limits.stop = NULL;
    limits.wall_s_max = 0;
    assert_non_null(strstr(search_within(&limits, CV_OK).why, "--time"));
    limits.wall_s_max = 1e9;
    limits.bytes_max = 1;
    assert_non_null(strstr(search_within(&limits, CV_OK).why, "--memory"));
}

static void a_bit_state_search_is_never_called_exhaustive(void **unused)
{
    (void)unused;
    const struct explore_result alone = search_within(&no_limits, CV_OK);
    struct explore_limits limits = no_limits;
    limits.bit_bytes = 1u << 20;
    const struct explore_result r = search_within(&limits, CV_OK);
    assert_int_equal(r.outcome, EXPLORE_STOPPED);
    assert_non_null(strstr(r.why, "--bitstate"));
    assert_in_range(r.progress.states, alone.progress.states * 9 / 10, alone.progress.states);
}

/* A message that is sent at a tick of a slow clock comes before the next one, as with exact clocks:
 * meanwhile its receiver may start again. */
static void slow_clocks_of_one_rate_are_like_exact_ones(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("pole");
    setting.budget[EXPLORE_CRASH] = 1;
    setting.budget[EXPLORE_RECOVER] = 1;
    setting.rates = "ee";
    const uint64_t exact = exhaust(&setting);
    setting.rates = "ss";
    assert_int_equal(exhaust(&setting), exact);
}

/* With clocks at the bound on drift, nobody leads too long. */
static void slow_and_fast_clocks_break_nothing(void **unused)
{
    (void)unused;
    struct explore_setting setting = small("lease");
    setting.rates = "sff";
    (void)exhaust(&setting);
    setting = small("pole");
    setting.rates = "sf";
    (void)exhaust(&setting);
    setting = small("anon");
    setting.rates = "fs";
    (void)exhaust(&setting);
    setting = small("bully");
    setting.rates = "sf";
    (void)exhaust(&setting);
    setting = small("local");
    setting.rates = "sf";
    (void)exhaust(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_two_leaders_of_each_classical_protocol),
        cmocka_unit_test(the_simulator_replays_the_shortest_traces),
        cmocka_unit_test(the_classical_protocols_keep_their_promises_after_a_crash),
        cmocka_unit_test(exhausts_pole_with_two_nodes),
        cmocka_unit_test(exhausts_local_with_two_nodes),
        cmocka_unit_test(exhausts_lease_with_two_contenders),
        cmocka_unit_test(exhausts_anon_with_two_processes),
        cmocka_unit_test(says_not_exhausted_at_a_bound),
        cmocka_unit_test(a_process_that_saved_nothing_begins_anew),
        cmocka_unit_test(refuses_what_it_cannot_explore),
        cmocka_unit_test(a_budget_that_is_not_spent_changes_nothing),
        cmocka_unit_test(a_witness_is_heard_and_breaks_nothing),
        cmocka_unit_test(a_reboot_and_a_failing_disk_break_nothing),
        cmocka_unit_test(slow_disks_break_nothing),
        cmocka_unit_test(a_process_that_does_not_hear_the_sequencer_is_explored),
        cmocka_unit_test(reports_what_was_not_searched),
        cmocka_unit_test(all_may_die_with_witnesses),
        cmocka_unit_test(a_packed_world_is_the_same_world),
        cmocka_unit_test(a_queue_returns_what_came_first),
        cmocka_unit_test(a_queue_goes_to_disk_and_comes_back),
        cmocka_unit_test(waiting_worlds_go_to_the_temporary_folder),
        cmocka_unit_test(visited_set_has_what_was_added),
        cmocka_unit_test(threads_and_disk_find_the_same_states),
        cmocka_unit_test(worlds_that_any_thread_has_found_count_as_memory),
        cmocka_unit_test(a_stopped_search_says_so_and_goes_on_later),
        cmocka_unit_test(the_time_of_earlier_runs_does_not_count),
        cmocka_unit_test(a_bound_hit_by_an_earlier_run_counts),
        cmocka_unit_test(a_search_that_cannot_be_saved_has_a_result),
        cmocka_unit_test(a_narrow_search_is_interrupted_too),
        cmocka_unit_test(an_interrupt_ends_it_with_a_partial_verdict),
        cmocka_unit_test(a_bit_state_search_is_never_called_exhaustive),
        cmocka_unit_test(slow_and_fast_clocks_break_nothing),
        cmocka_unit_test(slow_clocks_of_one_rate_are_like_exact_ones),
    };
    if (getenv("CV_TEST_VALGRIND") != NULL) {
        cmocka_set_test_filter("a_*"); /* the others search for minutes there */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
