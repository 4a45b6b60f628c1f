/* tests/sim/sim_reasons.c - each event that a core handles has a consequence: an effect, a change
 * of its state, or a reason why not. Reasons answer the question why there is no leader, so none
 * may be missing.
 *
 * Every protocol runs in scenarios that are drawn at random as a whole (src/sim/swarm.h), with a
 * watched step of its core. Each message is handled in the run, and three more times by copies of
 * the state before it: the same message again, an earlier message, and the message from another
 * sender. So each handler also meets messages that are repeated, late, or meant for another.
 * Answers of stores and sequencers, and hints that a process is down, are watched in the run
 * only. */
#include "core/core.h"
#include "sim/swarm.h"
#include "sim/world.h"
#include "support/seeds.h"

#include <stdlib.h>
#include <string.h>

#define RUNS 400u
#define KEPT 64u /* earlier messages that are kept */
#define MESSAGE_BYTES_MAX 1024u
#define TYPES_MAX 16u

struct kept {
    uint8_t bytes[MESSAGE_BYTES_MAX];
    size_t byte_count;
    cv_id from;
};

/* One run at a time: a core's step gets nothing but its state. */
static struct {
    const struct cv_protocol *inner;
    struct cv_protocol watched;
    struct cv_config config;
    size_t state_bytes;
    uint64_t seed;
    uint8_t *before, *copy; /* copies of a state */
    struct kept kept[KEPT];
    uint64_t kept_count;
    struct cv_effects scratch; /* for the steps of the copies */
    struct cv_note note[CV_NOTES_MAX];
    uint64_t *word; /* the lists of a decoded message */
    uint64_t heard[TYPES_MAX];
    uint64_t with_reason; /* steps that gave a reason */
} watch;

static bool is_watched(enum cv_event_kind kind)
{
    return kind == CV_EVENT_MESSAGE || kind == CV_EVENT_STORE || kind == CV_EVENT_SEQUENCE ||
           kind == CV_EVENT_PEER_DOWN;
}

static const char *what_of(const struct cv_event *event)
{
    switch (event->kind) {
    case CV_EVENT_MESSAGE:
        return watch.inner->messages[event->message->type].name;
    case CV_EVENT_STORE:
        return "an answer of the store";
    case CV_EVENT_SEQUENCE:
        return "an answer of the sequencer";
    default:
        return "a hint that a process is down";
    }
}

/* Steps `state`, and fails if that has no consequence. */
static void step_watched(void *state, const struct cv_event *event, struct cv_effects *out,
                         const char *how)
{
    struct cv_note *const note = out->note;
    const uint32_t note_count = out->note_count;
    const uint32_t item_count = out->item_count;
    if (note == NULL) {
        out->note = watch.note;
        out->note_count = 0;
    }
    memcpy(watch.before, state, watch.state_bytes);
    const uint32_t notes_before = out->note_count;
    watch.inner->step(state, event, out);
    const bool has_reason = out->note_count > notes_before;
    watch.with_reason += has_reason;
    if (note == NULL) {
        out->note = NULL;
        out->note_count = note_count;
    }
    if (!has_reason && out->item_count == item_count &&
        memcmp(watch.before, state, watch.state_bytes) == 0) {
        fail_msg("%s, %s, at %lld ns from %u has no consequence and no reason; "
                 "conclave sim --swarm %s --seed %llu",
                 what_of(event), how, (long long)event->now_ns, event->peer, watch.inner->name,
                 (unsigned long long)watch.seed);
    }
}

/* A copy of the state handles the event; the run is not affected. */
static void try_on_copy(const void *state, const struct cv_event *event, const char *how)
{
    struct cv_event later = *event; /* two signs of life in the same instant may count as one */
    later.now_ns++;
    memcpy(watch.copy, state, watch.state_bytes);
    watch.scratch.item_count = 0;
    watch.scratch.word_count = 0;
    step_watched(watch.copy, &later, &watch.scratch, how);
    watch.inner->check(watch.copy);
}

static void keep(const struct cv_event *event)
{
    struct kept *kept = &watch.kept[watch.kept_count++ % KEPT];
    assert_true(cv_message_bytes_max(watch.inner, watch.config.member_count) <= sizeof kept->bytes);
    kept->byte_count =
        cv__message_encode(watch.inner, watch.config.member_count, event->message, kept->bytes);
    kept->from = event->peer;
}

/* One of the earlier messages, of any node. */
static void try_earlier(const void *state, const struct cv_event *event, cv_id self)
{
    const uint64_t count = watch.kept_count < KEPT ? watch.kept_count : KEPT;
    const struct kept *kept = &watch.kept[watch.kept_count * 7 % count];
    struct cv_message message;
    assert_int_equal(cv_message_decode(watch.inner, watch.config.member_count, kept->bytes,
                                       kept->byte_count, watch.word, &message),
                     CV_OK);
    struct cv_event earlier = *event;
    earlier.message = &message;
    earlier.peer = kept->from;
    if (earlier.peer != self || watch.inner->is_anonymous) {
        try_on_copy(state, &earlier, "an earlier one");
    }
}

static void try_copies(const void *state, const struct cv_event *event, cv_id self)
{
    keep(event);
    try_on_copy(state, event, "repeated");
    try_earlier(state, event, self);
    if (!watch.inner->is_anonymous) {
        struct cv_event other = *event;
        other.peer = event->peer % watch.config.member_count + 1;
        if (other.peer != self) {
            try_on_copy(state, &other, "from another sender");
        }
    }
}

static cv_id self_of(const void *state)
{
    const cv_id *self = state; /* the first member of every state */
    return *self;
}

static void watched_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    if (!is_watched(event->kind)) {
        watch.inner->step(state, event, out);
        return;
    }
    step_watched(state, event, out, "in the run");
    if (event->kind == CV_EVENT_MESSAGE) {
        assert_true(event->message->type < TYPES_MAX);
        watch.heard[event->message->type]++;
        try_copies(state, event, self_of(state));
    }
}

static void watch_begin(struct sim_scenario *scenario, uint64_t seed)
{
    watch.config = scenario->config;
    watch.seed = seed;
    watch.state_bytes = cv_core_size(watch.inner, &watch.config);
    watch.before = test_calloc(1, watch.state_bytes);
    watch.copy = test_calloc(1, watch.state_bytes);
    watch.kept_count = 0;
    watch.scratch = (struct cv_effects){
        .item = test_calloc(CV_EFFECTS_MAX, sizeof *watch.scratch.item),
        .word_capacity = cv_effects_words(&watch.config),
    };
    watch.scratch.word = test_calloc(watch.scratch.word_capacity + 1, sizeof *watch.scratch.word);
    watch.word =
        test_calloc(cv_message_words_max(watch.config.member_count) + 1, sizeof *watch.word);
    watch.watched = *watch.inner;
    watch.watched.step = watched_step;
    scenario->protocol = &watch.watched;
}

static void watch_end(void)
{
    test_free(watch.before);
    test_free(watch.copy);
    test_free(watch.scratch.item);
    test_free(watch.scratch.word);
    test_free(watch.word);
}

static void gives_a_reason_for_everything_it_ignores(void **state)
{
    memset(&watch, 0, sizeof watch);
    watch.inner = *state;
    for (uint64_t seed = 1; seed <= test_scale(RUNS); seed++) {
        struct sim_scenario *scenario = sim_swarm_scenario(watch.inner, seed);
        watch_begin(scenario, seed);
        struct sim_world *world = sim_world_new(scenario, seed, &(struct sim_world_options){0});
        (void)sim_world_run_all(world); /* sim_swarm.c judges its promises */
        sim_world_free(world);
        sim_scenario_free(scenario);
        watch_end();
    }
    assert_true(watch.with_reason > 0);
    for (uint32_t type = 0; type < watch.inner->message_count && test_scale(RUNS) == RUNS; type++) {
        if (watch.heard[type] == 0) {
            fail_msg("no %s was heard", watch.inner->messages[type].name);
        }
    }
}

int main(void)
{
    return protocols_run("reasons", gives_a_reason_for_everything_it_ignores);
}
