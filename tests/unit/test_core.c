/* tests/unit/test_core.c - what every core owes its host, for each protocol of the list. */
#include "core/core.h"
#include "support/host.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define NODES 5u

/* ---- a snapshot is a copy of the bytes ------------------------------------------------------- */

/* A copy of one node's state, made by memcpy in the middle of a run. */
struct twin {
    cv_id of;
    void *state; /* NULL: not taken yet */
    size_t bytes;
    struct cv_effects out;
    uint64_t steps;
};

static void assert_same_list(const struct cv_list *a, const struct cv_list *b)
{
    assert_int_equal(a->word_count, b->word_count);
    if (a->word_count > 0) {
        assert_memory_equal(a->word, b->word, a->word_count * sizeof *a->word);
    }
}

static void assert_same_effect(const struct cv_effect *a, const struct cv_effect *b)
{
    assert_int_equal(a->kind, b->kind);
    switch (a->kind) {
    case CV_EFFECT_SEND:
        assert_int_equal(a->first, b->first);
        assert_int_equal(a->last, b->last);
        assert_int_equal(a->to_self, b->to_self);
        assert_int_equal(a->message.type, b->message.type);
        assert_memory_equal(a->message.field, b->message.field, sizeof a->message.field);
        for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
            assert_same_list(&a->message.list[i], &b->message.list[i]);
        }
        break;
    case CV_EFFECT_ARM:
        assert_int_equal(a->earliest_ns, b->earliest_ns);
        assert_int_equal(a->latest_ns, b->latest_ns);
        assert_int_equal(a->timer, b->timer);
        break;
    case CV_EFFECT_DISARM:
        assert_int_equal(a->timer, b->timer);
        break;
    case CV_EFFECT_PERSIST:
        assert_int_equal(a->persist_count, b->persist_count);
        assert_memory_equal(a->persist, b->persist, a->persist_count * sizeof a->persist[0]);
        break;
    case CV_EFFECT_LEADERSHIP:
        assert_int_equal(a->leadership.leader, b->leadership.leader);
        assert_int_equal(a->leadership.label, b->leadership.label);
        assert_int_equal(a->leadership.reason, b->leadership.reason);
        assert_int_equal(a->leadership.token, b->leadership.token);
        assert_int_equal(a->leadership.valid_until_ns, b->leadership.valid_until_ns);
        assert_int_equal(a->leadership.has_majority, b->leadership.has_majority);
        assert_same_list(&a->leadership.members, &b->leadership.members);
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        assert_int_equal(a->request, b->request);
        assert_int_equal(a->reference, b->reference);
        break;
    case CV_EFFECT_ASK_STORE:
        assert_int_equal(a->verb, b->verb);
        assert_int_equal(a->request, b->request);
        assert_int_equal(a->attempt, b->attempt);
        assert_int_equal(a->token, b->token);
        assert_int_equal(a->lease_ns, b->lease_ns);
        break;
    }
}

/* Gives the twin the same event, and compares its effects and its state with the original's. */
static void twin_follow(struct host *host, cv_id node, const struct cv_event *event,
                        const struct cv_effects *out, void *data)
{
    struct twin *twin = data;
    if (twin->state == NULL || node != twin->of || out == NULL) {
        return;
    }
    cv__core_step(host->protocol, twin->state, event, &twin->out);
    assert_int_equal(twin->out.item_count, out->item_count);
    for (uint32_t i = 0; i < out->item_count; i++) {
        assert_same_effect(&twin->out.item[i], &out->item[i]);
    }
    assert_memory_equal(twin->state, host->node[node].state, twin->bytes);
    twin->steps++;
}

/* Elections, losses and crashes of the leader: something is under way at most instants. */
static void run_with_faults(struct host *host, int64_t until_ns)
{
    for (cv_id id = 1; id <= host->node_count; id++) {
        if (!host->node[id].is_up) {
            host_start(host, id);
        }
    }
    host_run(host, until_ns);
    const cv_id leader = host_leader(host);
    if (leader != CV_ID_NONE) {
        host_crash(host, leader);
    }
}

static void snapshot_and_compare(const struct cv_protocol *protocol, uint64_t seed)
{
    struct host *host = host_new(protocol, NODES, seed);
    host->loss_pct = 5;
    struct twin twin = {.of = 1 + (cv_id)(seed % NODES)};
    host->watch = twin_follow;
    host->watch_data = &twin;

    /* Run to some instant, also in the middle of an election. */
    uint64_t random = seed;
    int64_t until_ns = host->now_ns;
    for (uint32_t life = 0; life < 3; life++) {
        until_ns += 1 + (int64_t)(test_random(&random) % (uint64_t)(3 * NS_PER_S));
        run_with_faults(host, until_ns);
    }
    if (!host->node[twin.of].is_up) {
        host_start(host, twin.of);
    }

    twin.bytes = cv_core_size(protocol, &host->node[twin.of].config);
    twin.state = malloc(twin.bytes); /* another address: a state that knows its own would differ */
    assert_non_null(twin.state);
    memcpy(twin.state, host->node[twin.of].state, twin.bytes);
    twin.out = host_effects_new(&host->node[twin.of].config);
    for (cv_id id = 1; id <= NODES; id++) {
        if (!host->node[id].is_up) {
            host_start(host, id); /* restarts another node; the twin's own is up */
        }
    }
    const int64_t settle_ns = protocol->settle_ns(&host->node[twin.of].config);
    host_run(host, until_ns + cv__max64(5 * NS_PER_S, settle_ns));
    assert_true(twin.steps > 5);
    host_effects_free(&twin.out);
    free(twin.state);
    host_free(host);
}

static void goes_on_from_a_snapshot_with_the_same_bytes(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= test_scale(50); seed++) {
            snapshot_and_compare(protocol, seed);
        }
    }
}

/* ---- a state is made of what init and step put there ----------------------------------------- */

static void init_leaves_nothing_of_what_was_in_the_block(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        struct cv_config config;
        cv_config_init(&config, protocol, 2, 70);
        assert_int_equal(cv_core_configure(protocol, &config, NULL), CV_OK);
        const size_t bytes = cv_core_size(protocol, &config);
        uint8_t *a = malloc(bytes);
        uint8_t *b = malloc(bytes);
        assert_non_null(a);
        assert_non_null(b);
        memset(a, 0x00, bytes);
        memset(b, 0xff, bytes);
        cv__core_init(protocol, a, &config);
        cv__core_init(protocol, b, &config);
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
    }
}

static void elects_somebody_when_nothing_goes_wrong(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        for (uint32_t nodes = 1; nodes <= NODES; nodes++) {
            struct host *host = host_new(protocol, nodes, /* seed= */ nodes);
            for (cv_id id = 1; id <= nodes; id++) {
                host_start(host, id);
            }
            host_run(host, host->now_ns + protocol->settle_ns(&host->node[1].config));
            if (host_leader(host) == CV_ID_NONE) {
                fail_msg("%s elected nobody among %u", protocol->name, nodes);
            }
            host_free(host);
        }
    }
}

static void elects_somebody_else_after_a_crash(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        struct host *host = host_new(protocol, NODES, /* seed= */ 1);
        const int64_t settle_ns = protocol->settle_ns(&host->node[1].config);
        for (cv_id id = 1; id <= NODES; id++) {
            host_start(host, id);
        }
        host_run(host, host->now_ns + settle_ns);
        const cv_id first = host_leader(host);
        host_crash(host, first);
        host_run(host, host->now_ns + settle_ns);
        const cv_id second = host_leader(host);
        assert_true(second != CV_ID_NONE);
        assert_true(second != first);
        host_free(host);
    }
}

static void takes_no_part_after_a_persist_that_failed(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        struct host *host = host_new(protocol, NODES, /* seed= */ 1);
        for (cv_id id = 1; id <= NODES; id++) {
            host_start(host, id);
        }
        const int64_t settle_ns = protocol->settle_ns(&host->node[1].config);
        host_run(host, host->now_ns + settle_ns);
        const cv_id stopped = host_leader(host);
        host_step(host, stopped, &(struct cv_event){.kind = CV_EVENT_PERSIST_FAILED});
        assert_true(host->node[stopped].leadership.leader == CV_ID_NONE);

        /* It sends nothing, whatever comes: a node that may forget a promise must not make one. */
        host->now_ns += NS_PER_S;
        host_step(host, stopped, &(struct cv_event){.kind = CV_EVENT_RESIGN});
        assert_int_equal(host->out.item_count, 0);
        host_step(host, stopped,
                  &(struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = 1 + stopped % NODES});
        assert_int_equal(host->out.item_count, 0);
        host_free(host);
    }
}

static void trips_on_an_event_without_time(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol = cv_protocol_at(0);
    struct host *host = host_new(protocol, 3, 1);
    host->now_ns = 0;
    assert_trips(host_start(host, 1));
    host_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_from_a_snapshot_with_the_same_bytes),
        cmocka_unit_test(init_leaves_nothing_of_what_was_in_the_block),
        cmocka_unit_test(elects_somebody_when_nothing_goes_wrong),
        cmocka_unit_test(elects_somebody_else_after_a_crash),
        cmocka_unit_test(takes_no_part_after_a_persist_that_failed),
        cmocka_unit_test(trips_on_an_event_without_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
