/* src/sim/node.c - one simulated node; see node.h. */
#include "sim/node.h"

#include "base/memory.h"
#include "core/core.h"
#include "sim/hold.h"
#include "sim/sequencer_request.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/* ---- Timers ---------------------------------------------------------------------------------- */

static void queue_timer(struct sim_world *w, cv_id id, uint32_t timer)
{
    struct sim_timer *t = &sim_world_node(w, id)->timer[timer];
    if (t->queued_ns <= t->due_ns || w->scenario->is_manual) {
        return; /* an earlier entry exists and will queue the timer again: re-arming is free */
    }
    t->queued_ns = t->due_ns;
    sim_queue_push(&w->queue, t->due_ns, SIM_EVENT_TIMER, id * CV_TIMERS_MAX + timer);
}

void sim_node_on_timer(struct sim_world *w, uint32_t ref)
{
    const cv_id id = ref / CV_TIMERS_MAX;
    const uint32_t timer = ref % CV_TIMERS_MAX;
    struct sim_node *n = sim_world_node(w, id);
    struct sim_timer *t = &n->timer[timer];
    if (t->queued_ns != w->now_ns) {
        return; /* an earlier entry has replaced this one */
    }
    t->queued_ns = INT64_MAX;
    if (n->host.due_ns[timer] == 0 || !n->is_up || n->is_paused) {
        return; /* a paused node's timers fire when it wakes */
    }
    if (t->due_ns > w->now_ns) {
        queue_timer(w, id, timer);
        return;
    }
    sim_world_note(w, CV_RECORD_TIMER, id, CV_ID_NONE, timer, 0, 0);
    cv__node_fire(&n->host, sim_world_host(n), timer);
}

/* Timers are due on the local clock, so a new drift changes their real instants. */
void sim_node_set_drift(struct sim_world *w, cv_id id, int64_t drift_ppb, int64_t drift_parts)
{
    struct sim_node *n = sim_world_node(w, id);
    const struct sim_clock before = n->clock;
    sim_clock_set_drift(&n->clock, w->now_ns, drift_ppb, drift_parts);
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        struct sim_timer *t = &n->timer[timer];
        if (n->host.due_ns[timer] != 0 && t->due_ns > w->now_ns) {
            t->due_ns = sim_clock_real(&n->clock, sim_clock_local(&before, t->due_ns));
            queue_timer(w, id, timer);
        }
    }
    const int64_t until_ns = w->properties.node[id - 1].held_until_ns;
    if (sim_world_holds(w, id) && until_ns != INT64_MAX) {
        cv__properties_renew(&w->properties, id,
                             sim_clock_real(&n->clock, sim_clock_local(&before, until_ns)));
    }
}

/* ---- Effects: what the host of a simulated node does (host/node.h) --------------------------- */

static int64_t call_now_ns(void *self)
{
    const struct sim_node *n = self;
    return sim_clock_local(&n->clock, n->world->now_ns);
}

static int64_t call_arm(void *self, uint32_t timer, int64_t earliest_ns, int64_t latest_ns)
{
    struct sim_node *n = self;
    struct sim_world *w = n->world;
    const bool is_chosen = earliest_ns == latest_ns || w->scenario->is_manual;
    const int64_t local_ns =
        is_chosen ? earliest_ns : sim_rng_range(&w->timer_rng, earliest_ns, latest_ns);
    const int64_t due_ns = w->scenario->is_manual ? latest_ns : local_ns;
    const int64_t late_ns = n->late_ns > 0 ? sim_rng_range(&w->timer_rng, 0, n->late_ns) : 0;
    n->timer[timer].due_ns = cv__max64(w->now_ns, sim_clock_real(&n->clock, due_ns)) + late_ns;
    queue_timer(w, n->id, timer);
    return local_ns;
}

static uint32_t call_encode(void *self, const struct cv_message *message)
{
    return sim_message_encode(((struct sim_node *)self)->world, message);
}

static uint32_t call_keep(void *self, const void *bytes, size_t byte_count)
{
    return sim_message_keep(((struct sim_node *)self)->world, bytes, byte_count);
}

static const void *call_kept(void *self, uint32_t payload, size_t *ret_byte_count)
{
    const struct sim_payload *p = &((struct sim_node *)self)->world->messages.payload[payload];
    *ret_byte_count = p->byte_count;
    return p->bytes;
}

static void call_drop(void *self, uint32_t payload)
{
    sim_message_release(((struct sim_node *)self)->world, payload);
}

static void call_send(void *self, uint32_t payload, cv_id first, cv_id last, bool to_self)
{
    const struct sim_node *n = self;
    sim_message_send(n->world, n->id, payload, first, last, to_self);
}

static void call_tell(void *self, const struct cv_leadership *leadership)
{
    const struct sim_node *n = self;
    sim_hold_believe(n->world, n->id, leadership);
}

static void call_ask_sequence(void *self, uint64_t request, uint64_t reference)
{
    const struct sim_node *n = self;
    sim_sequencer_request_ask(n->world, n->id, request, reference);
}

static void call_ask_store(void *self, const struct cv_effect *effect)
{
    const struct sim_node *n = self;
    sim_store_request_ask(n->world, n->id, effect);
}

static void call_record_asked(void *self, const uint64_t *word, uint32_t word_count)
{
    const struct sim_node *n = self;
    sim_world_note(n->world, CV_RECORD_PERSIST, n->id, CV_ID_NONE, 0, word_count > 0 ? word[0] : 0,
                   0);
}

static void write_record(struct sim_node *n, const uint64_t *word, uint32_t word_count)
{
    n->disk.word_count = word_count;
    memcpy(n->disk.word, word, word_count * sizeof *word);
}

/* An entry of the queue names the node and, modulo DISK_LIFE, which of its lives it belongs to. */
#define DISK_LIFE 8192u

static void queue_disk(struct sim_world *w, cv_id id, int64_t delay_ns)
{
    const uint32_t life = (uint32_t)(sim_world_node(w, id)->life % DISK_LIFE);
    sim_queue_push(&w->queue, w->now_ns + delay_ns, SIM_EVENT_DISK, life * DISK_LIFE + id);
}

/* Allocates the queue of effects that wait for the disk. */
static void make_room(struct sim_node *n)
{
    if (n->deferred == NULL) {
        n->deferred = cv__allocate(SIM_DEFERRED_MAX, sizeof *n->deferred);
        n->world->host.deferred = n->deferred;
    }
}

/* The scenario says how this record is saved. */
static enum cv_save_result save_as_said(struct sim_node *n, const uint64_t *word,
                                        uint32_t word_count)
{
    const enum sim_save how = n->disk.next;
    n->disk.next = SIM_SAVE_WELL;
    if (how == SIM_SAVE_FAILS_DURABLE || how == SIM_SAVE_CRASHES) {
        write_record(n, word, word_count);
    }
    if (how == SIM_SAVE_FAILS || how == SIM_SAVE_FAILS_DURABLE) {
        return CV_SAVE_FAILED;
    }
    CV_ASSERT(how == SIM_SAVE_SLOW || how == SIM_SAVE_CRASHES);
    if (how == SIM_SAVE_CRASHES) {
        n->world->crashing = n->id; /* crashes after this step; until then no effect leaves */
    }
    make_room(n);
    n->disk.saving_ns = INT64_MAX;
    return CV_SAVE_BEGUN;
}

static enum cv_save_result call_save(void *self, const uint64_t *word, uint32_t word_count)
{
    struct sim_node *n = self;
    if (n->disk.next != SIM_SAVE_WELL) {
        return save_as_said(n, word, word_count);
    }
    if (n->disk.delay_ns == 0 && !n->disk.fails) {
        write_record(n, word, word_count);
        return CV_SAVE_DONE;
    }
    make_room(n);
    n->disk.saving_ns = n->disk.delay_ns;
    queue_disk(n->world, n->id, n->disk.delay_ns);
    return CV_SAVE_BEGUN;
}

static void write_notes(const struct sim_node *n, const struct cv_effects *out)
{
    struct sim_world *w = n->world;
    for (uint32_t i = 0; i < out->note_count; i++) {
        const struct cv_note *note = &out->note[i];
        const struct cv_record record = {
            .at_ns = w->now_ns,
            .kind = CV_RECORD_NOTE,
            .node = n->id,
            .peer = note->peer,
            .number = note->number,
            .bound_ns = sim_clock_real(&n->clock, note->time_ns),
            .text = note->text,
        };
        cv__trace_add(&w->trace, &record, NULL);
    }
}

static void call_stepped(void *self, const struct cv_event *event, const struct cv_effects *out)
{
    (void)event;
    if (out->note_count > 0) {
        write_notes(self, out);
    }
}

static void call_disk_failed(void *self, const char *why)
{
    struct sim_node *n = self;
    (void)why;
    sim_world_note(n->world, CV_RECORD_PERSIST_FAILED, n->id, CV_ID_NONE, 0, 0, 0);
    n->has_stopped = true;
    cv__properties_stop(&n->world->properties, n->id);
}

const struct cv_node_calls sim_node_calls = {
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
    .stepped = call_stepped,
    .record_asked = call_record_asked,
};

void sim_node_step(struct sim_world *w, cv_id id, struct cv_event *event)
{
    struct sim_node *n = sim_world_node(w, id);
    CV_ASSERT(n->is_up && !n->is_paused);
    cv__node_event(&n->host, sim_world_host(n), event);
}

/* The save has ended, well or not. */
void sim_node_on_disk(struct sim_world *w, uint32_t ref)
{
    const cv_id id = ref % DISK_LIFE;
    struct sim_node *n = sim_world_node(w, id);
    const struct cv_gate *gate = &n->host.gate;
    if (!n->is_up || n->life % DISK_LIFE != ref / DISK_LIFE || !gate->is_saving) {
        return; /* it crashed meanwhile */
    }
    if (sim_properties_is_slow_save(w, n)) {
        sim_properties_disturb(w); /* a slow save has ended: the settling time begins again */
    }
    if (n->is_paused) {
        n->disk.has_ended = true; /* the node learns of this when it wakes */
    } else if (n->disk.fails) {
        cv__node_save_failed(&n->host, sim_world_host(n), "the disk failed");
    } else {
        write_record(n, gate->saving.word, gate->saving.word_count);
        cv__node_saved(&n->host, sim_world_host(n));
    }
}

bool sim_node_end_save(struct sim_world *w, cv_id id, enum sim_save how)
{
    struct sim_node *n = sim_world_node(w, id);
    const struct cv_gate *gate = &n->host.gate;
    if (!n->is_up || n->is_paused || !gate->is_saving || n->disk.saving_ns != INT64_MAX) {
        return false;
    }
    n->disk.saving_ns = 0;
    if (how != SIM_SAVE_FAILS) {
        write_record(n, gate->saving.word, gate->saving.word_count);
    }
    if (how == SIM_SAVE_WELL) {
        cv__node_saved(&n->host, sim_world_host(n));
    } else if (how == SIM_SAVE_CRASHES) {
        w->crashing = id;
    } else {
        cv__node_save_failed(&n->host, sim_world_host(n), "the disk failed");
    }
    return true;
}

/* ---- Life of a node -------------------------------------------------------------------------- */

/* How long a machine runs before it starts the process. */
#define UPTIME_MIN_NS (NS_PER_S / 10)
#define UPTIME_MAX_NS (3 * NS_PER_S)

static void begin_boot(struct sim_world *w, struct sim_node *n)
{
    n->boot++;
    n->is_rebooting = false;
    n->clock.local_base_ns = sim_rng_range(&w->timer_rng, UPTIME_MIN_NS, UPTIME_MAX_NS);
    n->clock.real_base_ns = w->now_ns;
}

void sim_node_set_back(struct sim_world *w, cv_id id, int64_t back_ns)
{
    struct sim_node *n = sim_world_node(w, id);
    CV_ASSERT(!n->is_up);
    const int64_t local_ns = sim_clock_local(&n->clock, w->now_ns);
    n->boot++;
    n->is_rebooting = false;
    n->clock.local_base_ns = cv__max64(local_ns - back_ns, NS_PER_MS);
    n->clock.real_base_ns = w->now_ns;
}

/* With `manual`, labels grow with ids and lives; otherwise they are random. */
static uint64_t draw_nonce(struct sim_world *w, const struct sim_node *n)
{
    return w->scenario->is_manual ? (uint64_t)n->id << 44 | (n->life & 15) << 40 | UINT64_C(1) << 39
                                  : sim_rng_next(&w->timer_rng);
}

/* For a while after a restart, work of an earlier life may be left: peers.c has the same
 * constant. */
#define WITNESS_SHARE 50

static int64_t certain_from_ns(const struct sim_world *w, const struct sim_node *n)
{
    if (n->life == 1 || w->protocol->lease_ns == NULL) {
        return 0;
    }
    const int64_t lease_ns = w->protocol->lease_ns(&w->scenario->config);
    return sim_clock_local(&n->clock, w->now_ns) + lease_ns + lease_ns / WITNESS_SHARE;
}

void sim_node_start(struct sim_world *w, cv_id id)
{
    struct sim_node *n = sim_world_node(w, id);
    CV_ASSERT(!n->is_up);
    if (n->is_rebooting) {
        begin_boot(w, n);
    }
    n->is_up = true;
    n->is_paused = false;
    n->has_stopped = false;
    n->acts_from_ns = w->now_ns;
    n->life++;
    /* With a sequencer, a node that saved nothing remembers nothing of its earlier lives. */
    const bool remembers = n->disk.word_count > 0 || w->protocol->sequence_ns == NULL;
    cv__properties_start(&w->properties, id, remembers);
    struct cv_config config = w->scenario->config;
    config.self = id;
    cv__core_init(w->protocol, n->state, &config);
    cv__node_init(&n->host, SIM_DEFERRED_MAX, /* waiting_capacity= */ 0);
    sim_hold_note_life(w, id, SIM_LIFE_UP);
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    memcpy(persisted, n->disk.word, sizeof persisted);
    struct cv_event event = {
        .kind = CV_EVENT_START,
        .persisted = persisted,
        .persisted_count = n->disk.word_count,
        .nonce = draw_nonce(w, n),
    };
    n->certain_ns = certain_from_ns(w, n);
    n->nonce = event.nonce;
    sim_known_add(w, CV_SEQUENCE_NONE, event.nonce, id);
    sim_node_step(w, id, &event);
}

void sim_node_crash(struct sim_world *w, cv_id id)
{
    struct sim_node *n = sim_world_node(w, id);
    CV_ASSERT(n->is_up);
    sim_hold_note_life(w, id, SIM_LIFE_DOWN);
    sim_hold_crash(w, id);
    n->is_up = false;
    n->is_paused = false;
    n->disk.has_ended = false;
    n->disk.next = SIM_SAVE_WELL;
    n->busy_ns = 0;
    cv__node_close(&n->host, sim_world_host(n));
    sim_message_drop_backlog(w, n);
    free(n->echo); /* the transport's memory is gone too */
    n->echo = NULL;
}

void sim_node_reboot(struct sim_world *w, cv_id id)
{
    sim_node_crash(w, id);
    sim_world_node(w, id)->is_rebooting = true;
}

/* The process finds all messages that arrived and all timers that came due. Chance decides which it
 * handles first, as in a real event loop. */
void sim_node_wake(struct sim_world *w, cv_id id)
{
    struct sim_node *n = sim_world_node(w, id);
    CV_ASSERT(n->is_up && n->is_paused);
    sim_hold_note_life(w, id, SIM_LIFE_UP);
    n->is_paused = false;
    n->acts_from_ns = w->now_ns;
    if (n->disk.has_ended) {
        n->disk.has_ended = false;
        queue_disk(w, id, 0);
    }
    const bool timers_first = sim_rng_range(&w->wake_rng, 0, 1) == 0;
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == timers_first) {
            for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
                struct sim_timer *t = &n->timer[timer];
                if (n->host.due_ns[timer] != 0 && t->queued_ns == INT64_MAX) {
                    t->due_ns = cv__max64(t->due_ns, w->now_ns);
                    queue_timer(w, id, timer);
                }
            }
        } else {
            for (uint32_t i = 0; i < n->backlog_count; i++) {
                sim_queue_push(&w->queue, w->now_ns, SIM_EVENT_DELIVER, n->backlog[i]);
            }
            n->backlog_count = 0;
            sim_sequencer_request_wake(w, id);
            sim_store_request_wake(w, id);
        }
    }
}
