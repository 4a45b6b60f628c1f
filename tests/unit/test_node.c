/* tests/unit/test_node.c - a copy of a hosted core does the same as the original, step by step.
 *
 * A search through all states copies struct cv_node, the core's state and the places in use of the
 * two queues, and nothing else (host/node.h). This test copies exactly these, into memory filled
 * with rubbish, in the middle of a random run: with a slow disk that fails now and then, full
 * queues, and messages that come while a step runs. From then on both get the same events, and must
 * do the same and have the same bytes after each event. */
#include "core/core.h"
#include "host/node.h"
#include "support/draw.h"
#include "support/host.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define NODES 3u
#define SELF 2u
#define DEFERRED 8u
#define WAITING (CV_NODE_SPARE_PLACES + 4u)
#define KEPT 32u
#define KEPT_BYTES 512u
#define EVENTS 200u

struct kept {
    bool is_used;
    size_t byte_count;
    _Alignas(uint64_t) uint8_t bytes[KEPT_BYTES];
};

/* What the host keeps besides the node, and copies as well. */
struct outside {
    int64_t now_ns;
    uint64_t seed;    /* of the host's own choices: instants of timers, the disk */
    uint64_t log;     /* a hash of everything that was done */
    uint64_t request; /* the latest request to sequencer or store */
    struct kept kept[KEPT];
};

struct hosted {
    struct cv_config config;
    struct cv_node node;
    struct cv_node_host host;
    struct outside outside;
    struct cv_deferred deferred[DEFERRED];
    struct cv_waiting waiting[WAITING];
    struct cv_effects out;
    uint64_t decoded[256];
    bool gets_decoded; /* messages come decoded, as a search keeps them, instead of as bytes */
    size_t core_bytes;
    void *core;
};

static void note(struct hosted *h, uint64_t value)
{
    h->outside.log = (h->outside.log ^ value) * UINT64_C(1099511628211);
}

static void note_bytes(struct hosted *h, const void *bytes, size_t byte_count)
{
    for (size_t i = 0; i < byte_count; i++) {
        note(h, ((const uint8_t *)bytes)[i]);
    }
}

/* ---- What the host does ---------------------------------------------------------------------- */

static int64_t call_now_ns(void *self)
{
    return ((struct hosted *)self)->outside.now_ns;
}

static int64_t call_arm(void *self, uint32_t timer, int64_t earliest_ns, int64_t latest_ns)
{
    struct hosted *h = self;
    note(h, timer);
    const uint64_t range = (uint64_t)(latest_ns - earliest_ns) + 1;
    return cv__max64(1, earliest_ns + (int64_t)(test_random(&h->outside.seed) % range));
}

static uint32_t call_keep(void *self, const void *bytes, size_t byte_count)
{
    struct hosted *h = self;
    assert_true(byte_count <= KEPT_BYTES);
    for (uint32_t i = 0; i < KEPT; i++) {
        struct kept *k = &h->outside.kept[i];
        if (!k->is_used) {
            memset(k, 0, sizeof *k);
            k->is_used = true;
            k->byte_count = byte_count;
            memcpy(k->bytes, bytes, byte_count);
            return i;
        }
    }
    return CV_KEPT_NONE;
}

static uint32_t call_encode(void *self, const struct cv_message *message)
{
    struct hosted *h = self;
    uint8_t bytes[KEPT_BYTES];
    const size_t byte_count = cv__message_encode(h->host.protocol, NODES, message, bytes);
    return call_keep(self, bytes, byte_count);
}

static const void *call_kept(void *self, uint32_t kept, size_t *ret_byte_count)
{
    const struct kept *k = &((struct hosted *)self)->outside.kept[kept];
    assert_true(k->is_used);
    *ret_byte_count = k->byte_count;
    return k->bytes;
}

static void call_drop(void *self, uint32_t kept)
{
    struct kept *k = &((struct hosted *)self)->outside.kept[kept];
    assert_true(k->is_used);
    memset(k, 0, sizeof *k);
}

/* Now and then a sent message comes back at once, while the step still runs: it has to wait. */
static void call_send(void *self, uint32_t kept, cv_id first, cv_id last, bool to_self)
{
    struct hosted *h = self;
    size_t byte_count = 0;
    const uint8_t *bytes = call_kept(self, kept, &byte_count);
    note(h, first);
    note(h, last);
    note(h, to_self);
    note_bytes(h, bytes, byte_count);
    if (test_random_below(&h->outside.seed, 20) == 0) {
        struct cv_event event = {.kind = CV_EVENT_MESSAGE,
                                 .peer = h->host.protocol->is_anonymous ? CV_ID_NONE : 1,
                                 .delay_ns_max = INT64_MAX};
        cv__node_message(&h->node, &h->host, &event, bytes, byte_count);
        assert_true(h->node.is_busy);
    }
}

static void call_tell(void *self, const struct cv_leadership *leadership)
{
    struct hosted *h = self;
    note(h, leadership->is_self);
    note(h, leadership->leader);
    note(h, leadership->label);
    note(h, (uint64_t)leadership->reason);
    note(h, leadership->token);
    note(h, (uint64_t)leadership->valid_until_ns);
    note_bytes(h, leadership->members.word,
               leadership->members.word_count * sizeof *leadership->members.word);
}

static void call_ask_sequence(void *self, uint64_t request, uint64_t reference)
{
    struct hosted *h = self;
    h->outside.request = request;
    note(h, reference);
}

static void call_ask_store(void *self, const struct cv_effect *effect)
{
    struct hosted *h = self;
    h->outside.request = effect->request;
    note(h, (uint64_t)effect->verb);
}

static enum cv_save_result call_save(void *self, const uint64_t *word, uint32_t word_count)
{
    struct hosted *h = self;
    note_bytes(h, word, word_count * sizeof *word);
    const uint32_t choice = test_random_below(&h->outside.seed, 100);
    return choice < 70 ? CV_SAVE_BEGUN : choice < 99 ? CV_SAVE_DONE : CV_SAVE_FAILED;
}

static void call_disk_failed(void *self, const char *why)
{
    note(self, why != NULL);
}

static const struct cv_node_calls calls = {
    .now_ns = call_now_ns,
    .arm = call_arm,
    .encode = call_encode,
    .keep = call_keep,
    .kept = call_kept,
    .drop = call_drop,
    .send = call_send,
    .tell = call_tell,
    .ask_sequence = call_ask_sequence,
    .ask_store = call_ask_store,
    .save = call_save,
    .disk_failed = call_disk_failed,
};

/* ---- Hosted cores ---------------------------------------------------------------------------- */

/* Fills the memory with rubbish, except for what never changes. */
static struct hosted *hosted_new(const struct cv_protocol *protocol, const struct cv_config *config,
                                 uint8_t rubbish)
{
    struct hosted *h = malloc(sizeof *h);
    assert_non_null(h);
    memset(h, rubbish, sizeof *h);
    h->gets_decoded = false;
    h->config = *config;
    h->core_bytes = cv_core_size(protocol, config);
    h->core = malloc(h->core_bytes);
    assert_non_null(h->core);
    memset(h->core, rubbish, h->core_bytes);
    h->out = host_effects_new(config);
    assert_true(cv_message_words_max(NODES) <= COUNT_OF(h->decoded));
    h->host = (struct cv_node_host){
        .calls = &calls,
        .self = h,
        .protocol = protocol,
        .member_count = NODES,
        .core = h->core,
        .deferred = h->deferred,
        .waiting = h->waiting,
        .out = &h->out,
        .decoded_word = h->decoded,
    };
    return h;
}

static void hosted_free(struct hosted *h)
{
    host_effects_free(&h->out);
    free(h->core);
    free(h);
}

static void hosted_start(struct hosted *h, uint64_t seed)
{
    memset(&h->outside, 0, sizeof h->outside);
    h->outside.now_ns = NS_PER_S;
    h->outside.seed = seed;
    cv__core_init(h->host.protocol, h->core, &h->config);
    cv__node_init(&h->node, DEFERRED, WAITING);
    struct cv_event start = {.kind = CV_EVENT_START, .nonce = seed};
    cv__node_event(&h->node, &h->host, &start);
}

/* Copies the node, the core, the places in use, and the host's own state. */
static struct hosted *hosted_copy(struct hosted *h)
{
    struct hosted *copy = hosted_new(h->host.protocol, &h->config, /* rubbish= */ 0xa5);
    memcpy(&copy->node, &h->node, sizeof copy->node);
    memcpy(copy->core, h->core, h->core_bytes);
    memcpy(&copy->outside, &h->outside, sizeof copy->outside);
    for (uint32_t i = 0; i < h->node.gate.count; i++) {
        memcpy(cv__gate_at(&copy->node.gate, copy->deferred, i),
               cv__gate_at(&h->node.gate, h->deferred, i), sizeof *h->deferred);
    }
    assert_int_equal(h->node.waiting_count, 0); /* between two events nothing waits */
    return copy;
}

static void must_equal(struct hosted *a, struct hosted *b)
{
    assert_memory_equal(&a->node, &b->node, sizeof a->node);
    assert_memory_equal(a->core, b->core, a->core_bytes);
    for (uint32_t i = 0; i < a->node.gate.count; i++) {
        assert_memory_equal(cv__gate_at(&a->node.gate, a->deferred, i),
                            cv__gate_at(&b->node.gate, b->deferred, i), sizeof *a->deferred);
    }
    assert_int_equal(a->outside.log, b->outside.log);
    assert_memory_equal(&a->outside, &b->outside, sizeof a->outside);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void feed_message(struct hosted *h, uint64_t *seed)
{
    struct cv_message message;
    uint64_t word[DRAW_WORDS(NODES)];
    uint8_t bytes[KEPT_BYTES];
    draw_message(h->host.protocol, NODES, DRAW_PLAUSIBLE, seed, word, &message);
    const size_t byte_count = cv__message_encode(h->host.protocol, NODES, &message, bytes);
    struct cv_event event = {.kind = CV_EVENT_MESSAGE, .delay_ns_max = INT64_MAX};
    if (!h->host.protocol->is_anonymous) {
        event.peer = test_random_below(seed, 2) == 0 ? 1 : 3;
    }
    if (h->gets_decoded) {
        assert_int_equal(
            cv_message_decode(h->host.protocol, NODES, bytes, byte_count, h->decoded, &message),
            CV_OK);
        event.message = &message;
        cv__node_decoded_message(&h->node, &h->host, &event);
    } else {
        cv__node_message(&h->node, &h->host, &event, bytes, byte_count);
    }
}

static void feed_other(struct hosted *h, uint64_t *seed)
{
    struct cv_event event = {.peer = 1};
    switch (test_random_below(seed, 3)) {
    case 0:
        event.kind = CV_EVENT_PEER_DOWN;
        break;
    case 1:
        event.kind = CV_EVENT_RESIGN;
        break;
    default:
        event.kind = CV_EVENT_CAMPAIGN;
        event.is_candidate = test_random_below(seed, 4) != 0;
    }
    cv__node_event(&h->node, &h->host, &event);
}

static void feed_answer(struct hosted *h, uint64_t *seed)
{
    struct cv_event event = {0};
    if (h->host.protocol->store_ns != NULL) {
        draw_answer(DRAW_PLAUSIBLE, seed, h->outside.request, &event);
    } else {
        event.kind = CV_EVENT_SEQUENCE;
        event.request = h->outside.request;
        event.sequence = 1 + test_random_below(seed, 1000);
        h->outside.request = 0;
    }
    cv__node_event(&h->node, &h->host, &event);
}

/* One event, drawn from the seed and from what the node waits for. */
static void feed(struct hosted *h, uint64_t seed)
{
    const uint32_t choice = test_random_below(&seed, 100);
    const bool is_saving = h->node.gate.is_saving;
    h->outside.now_ns += test_random_below(&seed, (uint32_t)(5 * NS_PER_MS));
    if (choice < 20 && is_saving) {
        cv__node_saved(&h->node, &h->host);
    } else if (choice < 21 && is_saving) {
        cv__node_save_failed(&h->node, &h->host, "a test");
    } else if (choice < 50 && cv__node_next_due_ns(&h->node) != 0) {
        h->outside.now_ns = cv__max64(h->outside.now_ns, cv__node_next_due_ns(&h->node));
        cv__node_fire_due(&h->node, &h->host);
    } else if (choice < 60 && h->outside.request != 0) {
        feed_answer(h, &seed);
    } else if (choice < 96 && h->host.protocol->message_count > 0) {
        feed_message(h, &seed);
    } else {
        feed_other(h, &seed);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static struct cv_config config_of(const struct cv_protocol *protocol)
{
    struct cv_config config;
    cv_config_init(&config, protocol, SELF, NODES);
    assert_int_equal(cv_core_configure(protocol, &config, NULL), CV_OK);
    return config;
}

static void for_each_run(void (*check)(const struct cv_protocol *protocol,
                                       const struct cv_config *config, uint64_t seed))
{
    const struct cv_protocol *protocol;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        const struct cv_config config = config_of(protocol);
        for (uint64_t seed = 1; seed <= test_scale(40); seed++) {
            check(protocol, &config, seed);
        }
    }
}

static uint32_t deferred_when_copied;

static void copy_and_compare(const struct cv_protocol *protocol, const struct cv_config *config,
                             uint64_t seed)
{
    struct hosted *h = hosted_new(protocol, config, /* rubbish= */ 0);
    hosted_start(h, seed);
    uint64_t event_seed = seed;
    const uint32_t copied_at = test_random_below(&event_seed, EVENTS / 2);
    for (uint32_t i = 0; i < copied_at; i++) {
        feed(h, test_random(&event_seed));
    }
    deferred_when_copied += h->node.gate.count;
    struct hosted *copy = hosted_copy(h);
    for (uint32_t i = copied_at; i < EVENTS; i++) {
        const uint64_t drawn = test_random(&event_seed);
        feed(h, drawn);
        feed(copy, drawn);
        must_equal(h, copy);
    }
    hosted_free(h);
    hosted_free(copy);
}

static void copied_node_does_the_same_step_by_step(void **unused)
{
    (void)unused;
    deferred_when_copied = 0;
    for_each_run(copy_and_compare);
    /* In some runs something waited for the disk when it was copied. */
    assert_true(deferred_when_copied > 0);
}

static void decode_and_compare(const struct cv_protocol *protocol, const struct cv_config *config,
                               uint64_t seed)
{
    struct hosted *h = hosted_new(protocol, config, /* rubbish= */ 0);
    hosted_start(h, seed);
    struct hosted *other = hosted_copy(h);
    other->gets_decoded = true;
    uint64_t event_seed = seed;
    for (uint32_t i = 0; i < EVENTS; i++) {
        const uint64_t drawn = test_random(&event_seed);
        feed(h, drawn);
        feed(other, drawn);
        must_equal(h, other);
    }
    hosted_free(h);
    hosted_free(other);
}

static void decoded_messages_do_the_same_as_their_bytes(void **unused)
{
    (void)unused;
    for_each_run(decode_and_compare);
}

/* Runs twice with equal events, in memory that differed before. */
static void start_twice_and_compare(const struct cv_protocol *protocol,
                                    const struct cv_config *config, uint64_t seed)
{
    struct hosted *a = hosted_new(protocol, config, /* rubbish= */ 0x00);
    struct hosted *b = hosted_new(protocol, config, /* rubbish= */ 0xff);
    hosted_start(a, seed);
    hosted_start(b, seed);
    uint64_t event_seed = seed;
    for (uint32_t i = 0; i < EVENTS; i++) {
        must_equal(a, b);
        const uint64_t drawn = test_random(&event_seed);
        feed(a, drawn);
        feed(b, drawn);
    }
    hosted_free(a);
    hosted_free(b);
}

static void equal_histories_give_equal_bytes(void **unused)
{
    (void)unused;
    for_each_run(start_twice_and_compare);
}

/* The hash tells histories apart: other choices give another hash. */
static void different_histories_are_told_apart(void **unused)
{
    (void)unused;
    const struct cv_protocol *protocol = cv_protocol_find("bully");
    const struct cv_config config = config_of(protocol);
    struct hosted *a = hosted_new(protocol, &config, /* rubbish= */ 0);
    struct hosted *b = hosted_new(protocol, &config, /* rubbish= */ 0);
    hosted_start(a, 1);
    hosted_start(b, 2);
    for (uint64_t i = 1; i <= EVENTS; i++) {
        feed(a, i);
        feed(b, i);
    }
    assert_int_not_equal(a->outside.log, b->outside.log);
    assert_memory_not_equal(&a->node, &b->node, sizeof a->node);
    hosted_free(a);
    hosted_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copied_node_does_the_same_step_by_step),
        cmocka_unit_test(decoded_messages_do_the_same_as_their_bytes),
        cmocka_unit_test(equal_histories_give_equal_bytes),
        cmocka_unit_test(different_histories_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
