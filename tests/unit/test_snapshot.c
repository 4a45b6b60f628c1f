/* tests/unit/test_snapshot.c - a core's state is a block of bytes and nothing else.
 *
 * Snapshots are taken of nodes in the middle of a run with losses and crashes. From there a core
 * gets events of every kind that its host may give it: messages of every type of its protocol, the
 * timers that it armed, hints, resigning, campaigning. A copy at any address must do exactly the
 * same. */
#include "core/core.h"
#include "support/draw.h"
#include "support/host.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 5u
#define EVENTS 300u

/* A core on its own: its state, its clock, the timers it armed, and the effects it returned. */
struct core {
    const struct cv_protocol *protocol;
    struct cv_config config;
    size_t bytes;
    void *state;
    int64_t timer_ns[CV_TIMERS_MAX]; /* 0: not armed */
    int64_t now_ns;
    uint64_t latest_request; /* that it sent to the store */
    struct cv_effects out;
    char *log; /* every effect, as text */
    size_t log_bytes;
    FILE *log_file;
};

static void *must_alloc(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

/* A core that goes on where a node of the host is, in storage of its own. */
static struct core core_of(const struct host *host, cv_id node)
{
    const struct host_node *n = &host->node[node];
    struct core core = {
        .protocol = host->protocol,
        .config = n->config,
        .bytes = cv_core_size(host->protocol, &n->config),
        .now_ns = host->now_ns,
        .out = host_effects_new(&n->config),
    };
    core.state = must_alloc(core.bytes);
    memcpy(core.state, n->state, core.bytes);
    memcpy(core.timer_ns, n->timer_ns, sizeof core.timer_ns);
    return core;
}

static void core_end(struct core *core)
{
    free(core->state);
    host_effects_free(&core->out);
}

static void log_words(FILE *file, const uint64_t *word, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(file, " %llx", (unsigned long long)word[i]);
    }
    (void)fputc(';', file);
}

static void log_effect(FILE *file, const struct cv_effect *e)
{
    (void)fprintf(file, "%d:", (int)e->kind);
    switch (e->kind) {
    case CV_EFFECT_SEND:
        (void)fprintf(file, "%u-%u %d %u", e->first, e->last, e->to_self, e->message.type);
        log_words(file, e->message.field, CV_FIELDS_MAX);
        for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
            log_words(file, e->message.list[i].word, e->message.list[i].word_count);
        }
        break;
    case CV_EFFECT_ARM:
        (void)fprintf(file, "%u %lld %lld", e->timer, (long long)e->earliest_ns,
                      (long long)e->latest_ns);
        break;
    case CV_EFFECT_DISARM:
        (void)fprintf(file, "%u", e->timer);
        break;
    case CV_EFFECT_PERSIST:
        log_words(file, e->persist, e->persist_count);
        break;
    case CV_EFFECT_LEADERSHIP:
        (void)fprintf(file, "%u %d %llu %lld %d", e->leadership.leader, (int)e->leadership.reason,
                      (unsigned long long)e->leadership.token,
                      (long long)e->leadership.valid_until_ns, e->leadership.has_majority);
        log_words(file, e->leadership.members.word, e->leadership.members.word_count);
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        (void)fprintf(file, "%llu %llx", (unsigned long long)e->request,
                      (unsigned long long)e->reference);
        break;
    case CV_EFFECT_ASK_STORE:
        (void)fprintf(file, "%d %llu %llu %llu %lld", (int)e->verb, (unsigned long long)e->request,
                      (unsigned long long)e->attempt, (unsigned long long)e->token,
                      (long long)e->lease_ns);
        break;
    }
    (void)fputc('\n', file);
}

static void core_step(struct core *core, struct cv_event *event)
{
    event->now_ns = core->now_ns;
    cv__core_step(core->protocol, core->state, event, &core->out);
    for (uint32_t i = 0; i < core->out.item_count; i++) {
        const struct cv_effect *e = &core->out.item[i];
        log_effect(core->log_file, e);
        if (e->kind == CV_EFFECT_ARM) {
            core->timer_ns[e->timer] = cv__max64(core->now_ns, e->earliest_ns);
        } else if (e->kind == CV_EFFECT_DISARM) {
            core->timer_ns[e->timer] = 0;
        } else if (e->kind == CV_EFFECT_ASK_STORE) {
            core->latest_request = e->request;
        }
    }
    (void)fputs("--\n", core->log_file);
}

/* The next timer that is due, or CV_TIMERS_MAX. */
static uint32_t next_timer(const struct core *core)
{
    uint32_t next = CV_TIMERS_MAX;
    for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
        if (core->timer_ns[t] != 0 &&
            (next == CV_TIMERS_MAX || core->timer_ns[t] < core->timer_ns[next])) {
            next = t;
        }
    }
    return next;
}

static void feed_one(struct core *core, uint64_t *seed)
{
    struct cv_message message;
    uint64_t word[DRAW_WORDS(NODES)];
    const cv_id peer = (core->config.self + test_random_below(seed, NODES - 1)) % NODES + 1;
    struct cv_event event = {.peer = peer, .delay_ns_max = INT64_MAX};
    const uint32_t timer = next_timer(core);
    const uint32_t choice = test_random_below(seed, 100);
    if (choice < 40 && timer != CV_TIMERS_MAX) {
        core->now_ns = cv__max64(core->now_ns, core->timer_ns[timer]);
        core->timer_ns[timer] = 0;
        event.kind = CV_EVENT_TIMER;
        event.timer = timer;
    } else if (choice < 92 && core->protocol->store_ns != NULL) {
        core->now_ns += test_random_below(seed, (uint32_t)(20 * NS_PER_MS));
        draw_answer(DRAW_PLAUSIBLE, seed, core->latest_request, &event);
    } else if (choice < 92) {
        core->now_ns += test_random_below(seed, (uint32_t)(20 * NS_PER_MS));
        event.kind = CV_EVENT_MESSAGE;
        event.message = &message;
        draw_message(core->protocol, NODES, DRAW_PLAUSIBLE, seed, word, &message);
    } else if (choice < 94) {
        event.kind = CV_EVENT_PEER_DOWN;
    } else if (choice < 96) {
        event.kind = CV_EVENT_RESIGN;
    } else if (choice < 99) {
        event.kind = CV_EVENT_CAMPAIGN;
        event.is_candidate = test_random_below(seed, 4) != 0;
    } else {
        event.kind = CV_EVENT_REPORT;
        event.input = CV_INPUT_LOAD;
        event.value = test_random_below(seed, 100);
    }
    core_step(core, &event);
}

/* The events follow from the seed and from what the core asks for, so that two cores that do the
 * same get the same events. */
static void feed(struct core *core, uint64_t seed)
{
    core->log = NULL;
    core->log_file = open_memstream(&core->log, &core->log_bytes);
    assert_non_null(core->log_file);
    for (uint32_t i = 0; i < EVENTS; i++) {
        feed_one(core, &seed);
    }
    assert_int_equal(fclose(core->log_file), 0);
    assert_true(core->log_bytes > EVENTS);
}

/* A cluster in the middle of an election: some messages are lost, and the leader has just
 * crashed. */
static struct host *in_the_middle(const struct cv_protocol *protocol, uint64_t seed)
{
    struct host *host = host_new(protocol, NODES, seed);
    host->loss_pct = 5;
    for (cv_id id = 1; id <= NODES; id++) {
        host_start(host, id);
    }
    host_run(host, host->now_ns + NS_PER_S);
    const cv_id leader = host_leader(host);
    if (leader != CV_ID_NONE) {
        host_crash(host, leader);
    }
    host_run(host, host->now_ns + (int64_t)(test_random(&seed) % (uint64_t)(400 * NS_PER_MS)));
    if (leader != CV_ID_NONE) {
        host_start(host, leader);
    }
    return host;
}

static void for_each_protocol(void (*check)(const struct host *host, cv_id node, uint64_t seed))
{
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= test_scale(40); seed++) {
            struct host *host = in_the_middle(protocol, seed);
            for (cv_id node = 1; node <= NODES; node++) {
                check(host, node, seed);
            }
            host_free(host);
        }
    }
}

static void restore_and_repeat(const struct host *host, cv_id node, uint64_t seed)
{
    struct core core = core_of(host, node);
    const struct core before = core; /* timers and clock, which belong to the host */
    void *snapshot = must_alloc(core.bytes);
    memcpy(snapshot, core.state, core.bytes);
    feed(&core, seed);
    char *log = core.log;
    void *after = must_alloc(core.bytes);
    memcpy(after, core.state, core.bytes);

    memcpy(core.state, snapshot, core.bytes);
    memcpy(core.timer_ns, before.timer_ns, sizeof core.timer_ns);
    core.now_ns = before.now_ns;
    core.latest_request = before.latest_request;
    feed(&core, seed);
    assert_string_equal(core.log, log);
    assert_memory_equal(core.state, after, core.bytes);
    free(log);
    free(core.log);
    free(snapshot);
    free(after);
    core_end(&core);
}

static void restored_from_a_snapshot_it_does_the_same_again(void **unused)
{
    (void)unused;
    for_each_protocol(restore_and_repeat);
}

static void move_and_compare(const struct host *host, cv_id node, uint64_t seed)
{
    struct core here = core_of(host, node);
    struct core there = core_of(host, node);
    /* The new address differs in everything but alignment, and the old block is freed: the
     * sanitizers would see a pointer into it, or it would read rubbish. */
    uint8_t *block = must_alloc(there.bytes + 4096);
    memcpy(block + 4096 - 64 * (node % 8), there.state, there.bytes);
    memset(there.state, 0xa5, there.bytes);
    free(there.state);
    there.state = block + 4096 - 64 * (node % 8);
    feed(&here, seed);
    feed(&there, seed);
    assert_string_equal(here.log, there.log);
    assert_memory_equal(here.state, there.state, here.bytes);
    free(here.log);
    free(there.log);
    there.state = block;
    core_end(&here);
    core_end(&there);
}

static void moved_to_another_address_it_does_the_same(void **unused)
{
    (void)unused;
    for_each_protocol(move_and_compare);
}

/* From the very beginning, in storage with other contents: even the padding is equal. */
static void equal_histories_give_equal_bytes(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= test_scale(40); seed++) {
            struct core core[2];
            for (uint32_t j = 0; j < 2; j++) {
                struct host *host = host_new(protocol, NODES, seed);
                const cv_id node = 1 + (cv_id)(seed % NODES);
                core[j] = core_of(host, node);
                host_free(host);
                memset(core[j].state, j == 0 ? 0x00 : 0xff, core[j].bytes);
                memset(core[j].timer_ns, 0, sizeof core[j].timer_ns);
                cv__core_init(protocol, core[j].state, &core[j].config);
                struct cv_event start = {.kind = CV_EVENT_START, .nonce = seed};
                core[j].log_file = fopen("/dev/null", "w");
                assert_non_null(core[j].log_file);
                core_step(&core[j], &start);
                assert_int_equal(fclose(core[j].log_file), 0);
                feed(&core[j], seed);
            }
            assert_string_equal(core[0].log, core[1].log);
            assert_memory_equal(core[0].state, core[1].state, core[0].bytes);
            for (uint32_t j = 0; j < 2; j++) {
                free(core[j].log);
                core_end(&core[j]);
            }
        }
    }
}

/* A snapshot is complete: two different states behave differently sooner or later. */
static void different_states_do_different_things(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        struct host *host = in_the_middle(protocol, /* seed= */ 1);
        struct core one = core_of(host, 1);
        struct core two = core_of(host, 2);
        feed(&one, 1);
        feed(&two, 1);
        assert_string_not_equal(one.log, two.log);
        free(one.log);
        free(two.log);
        core_end(&one);
        core_end(&two);
        host_free(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_from_a_snapshot_it_does_the_same_again),
        cmocka_unit_test(moved_to_another_address_it_does_the_same),
        cmocka_unit_test(equal_histories_give_equal_bytes),
        cmocka_unit_test(different_states_do_different_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
