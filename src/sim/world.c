/* src/sim/world.c - the events of a run: start, delivery, timers, disks; and the effects they have.
 */
#include "sim/world.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/expect.h"
#include "sim/hold.h"
#include "sim/sequencer_request.h"

#include <stdlib.h>
#include <string.h>

enum event_kind {
    EVENT_START,
    EVENT_DELIVER,
    EVENT_TIMER,
    EVENT_DISK,
    EVENT_ACTION,
    EVENT_CHECK,
    EVENT_SEQUENCER_REQUEST,
    EVENT_SEQUENCER_ANSWER,
    EVENT_STORE_REQUEST,
    EVENT_EXPIRY,
};

enum {
    STREAM_NETWORK = 1,
    STREAM_TIMERS,
    STREAM_FAULTS,
    STREAM_NODES,
    STREAM_WAKES,
    STREAM_SEQUENCER,
    STREAM_STORE
};

#define NONE UINT32_MAX

static struct sim_node *node_of(struct sim_world *w, cv_id id)
{
    CV_ASSERT(id >= 1 && id <= w->node_count);
    return &w->node[id - 1];
}

/* The one host of all nodes, turned to this one. Nobody steps a node from within another's step. */
static struct cv_node_host *host_of(struct sim_node *n)
{
    struct cv_node_host *host = &n->world->host;
    CV_ASSERT(!n->host.is_busy);
    host->self = n;
    host->core = n->state;
    host->held = n->held;
    return host;
}

void sim_world_note(struct sim_world *w, enum cv_record_kind kind, cv_id node, cv_id peer,
                    uint32_t what, uint64_t number, int64_t bound_ns)
{
    const struct cv_record record = {w->now_ns, kind, node, peer, what, number, bound_ns, NULL};
    cv__trace_add(&w->trace, &record, NULL);
}

/* ---- Payloads and flights: pools, so that a message in flight costs no allocation ------------ */

static uint32_t payload_new(struct sim_world *w, const void *bytes, size_t byte_count)
{
    uint32_t index = w->payload_free;
    if (index != NONE) {
        w->payload_free = w->payload[index].next_free;
    } else {
        w->payload =
            cv__grow(w->payload, &w->payload_capacity, w->payload_count, sizeof *w->payload);
        index = w->payload_count++;
        memset(&w->payload[index], 0, sizeof w->payload[index]);
    }
    struct sim_payload *p = &w->payload[index];
    if (byte_count > p->byte_capacity) {
        free(p->bytes);
        p->byte_capacity = (uint32_t)(byte_count > 32 ? byte_count : 32);
        p->bytes = cv__allocate(p->byte_capacity, 1);
    }
    memcpy(p->bytes, bytes, byte_count);
    p->byte_count = (uint32_t)byte_count;
    p->reference_count = 1;
    return index;
}

static void payload_release(struct sim_world *w, uint32_t index)
{
    struct sim_payload *p = &w->payload[index];
    CV_ASSERT(p->reference_count > 0);
    if (--p->reference_count == 0) {
        p->next_free = w->payload_free;
        w->payload_free = index;
    }
}

static uint32_t flight_new(struct sim_world *w)
{
    const uint32_t index = w->flight_free;
    if (index != NONE) {
        w->flight_free = w->flight[index].payload;
        return index;
    }
    w->flight = cv__grow(w->flight, &w->flight_capacity, w->flight_count, sizeof *w->flight);
    return w->flight_count++;
}

static void flight_free(struct sim_world *w, uint32_t index)
{
    payload_release(w, w->flight[index].payload);
    w->flight[index].payload = w->flight_free;
    w->flight_free = index;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void depart(struct sim_world *w, cv_id from, cv_id to, uint32_t payload, int64_t delay_ns)
{
    const int64_t delta_ns = w->properties.setting.delta_ns;
    if (delta_ns > 0 && delay_ns > delta_ns) {
        sim_properties_lose(w, from, to); /* and a disturbance again when it arrives */
    }
    const uint32_t index = flight_new(w);
    struct sim_flight *f = &w->flight[index];
    struct sim_node *sender = node_of(w, from);
    f->payload = payload;
    w->payload[payload].reference_count++;
    f->from = from;
    f->to = to;
    f->sent_ns = w->now_ns;
    f->number = w->message_count;
    f->life = 0;
    f->stamp.sent_ns = sim_clock_local(&sender->clock, w->now_ns);
    f->stamp.echo = sender->echo != NULL ? sender->echo[to - 1] : (struct cv_echo){0};
    sim_queue_push(&w->queue, w->now_ns + delay_ns, EVENT_DELIVER, index);
}

static void count_message(struct sim_world *w, const struct sim_payload *p)
{
    w->message_count++;
    w->message_bytes += p->byte_count;
    w->message_by_type[p->type]++;
    const struct sim_scenario *s = w->scenario;
    for (uint32_t i = 0; i < s->expect_count; i++) {
        const struct sim_expect *e = &s->expect[i];
        if (e->kind == SIM_EXPECT_MESSAGES && w->now_ns >= e->from_ns && w->now_ns <= e->at_ns &&
            (e->message == SIM_MESSAGE_ANY || e->message == p->type)) {
            w->expect_seen[i]++;
        }
    }
}

static void send_one(struct sim_world *w, cv_id from, cv_id to, uint32_t payload)
{
    const uint32_t type = w->payload[payload].type;
    count_message(w, &w->payload[payload]);
    sim_world_note(w, CV_RECORD_SEND, to, from, type, w->message_count, 0);
    int64_t delay_ns[2];
    switch (sim_network_send(w->network, &w->net_rng, from, to, delay_ns)) {
    case SIM_FATE_UNREACHABLE:
        sim_world_note(w, CV_RECORD_UNREACHABLE, to, from, type, w->message_count, 0);
        break;
    case SIM_FATE_LOST:
        w->lost_count++;
        sim_world_note(w, CV_RECORD_LOST, to, from, type, w->message_count, 0);
        if (node_of(w, to)->is_up) {
            sim_properties_lose(w, from, to);
        }
        break;
    case SIM_FATE_TWICE:
        depart(w, from, to, payload, delay_ns[1]);
        depart(w, from, to, payload, delay_ns[0]);
        break;
    case SIM_FATE_ONCE:
        depart(w, from, to, payload, delay_ns[0]);
        break;
    }
}

static void send_range(struct sim_world *w, cv_id from, uint32_t payload, cv_id first, cv_id last,
                       bool to_self)
{
    last = last < w->node_count ? last : w->node_count;
    for (cv_id to = first; to <= last; to++) {
        if (to != from) {
            send_one(w, from, to, payload);
        }
    }
    if (first <= last) {
        cv__properties_send(&w->properties, from);
    }
    if (to_self) {
        depart(w, from, from, payload, 0);
    }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static void queue_timer(struct sim_world *w, cv_id id, uint32_t timer)
{
    struct sim_timer *t = &node_of(w, id)->timer[timer];
    if (t->queued_ns <= t->due_ns) {
        return; /* that entry comes first and will look again: re-arming costs nothing */
    }
    t->queued_ns = t->due_ns;
    sim_queue_push(&w->queue, t->due_ns, EVENT_TIMER, id * CV_TIMERS_MAX + timer);
}

static void on_timer(struct sim_world *w, uint32_t ref)
{
    const cv_id id = ref / CV_TIMERS_MAX;
    const uint32_t timer = ref % CV_TIMERS_MAX;
    struct sim_node *n = node_of(w, id);
    struct sim_timer *t = &n->timer[timer];
    if (t->queued_ns != w->now_ns) {
        return; /* an entry that was overtaken by an earlier one */
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
    cv__node_fire(&n->host, host_of(n), timer);
}

/* What is due at some instant of the local clock comes at another real instant from now on. */
void sim_world_set_drift(struct sim_world *w, cv_id id, int64_t drift_ppb)
{
    struct sim_node *n = node_of(w, id);
    const struct sim_clock before = n->clock;
    sim_clock_set_drift(&n->clock, w->now_ns, drift_ppb);
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
    const int64_t local_ns = earliest_ns == latest_ns
                                 ? earliest_ns
                                 : sim_rng_range(&w->timer_rng, earliest_ns, latest_ns);
    n->timer[timer].due_ns = cv__max64(w->now_ns, sim_clock_real(&n->clock, local_ns));
    queue_timer(w, n->id, timer);
    return local_ns;
}

static uint32_t call_encode(void *self, const struct cv_message *message)
{
    struct sim_world *w = ((struct sim_node *)self)->world;
    const size_t byte_count =
        cv_message_encode(w->protocol, w->node_count, message, w->encode_bytes);
    const uint32_t payload = payload_new(w, w->encode_bytes, byte_count);
    w->payload[payload].type = message->type;
    return payload;
}

static uint32_t call_keep(void *self, const void *bytes, size_t byte_count)
{
    return payload_new(((struct sim_node *)self)->world, bytes, byte_count);
}

static const void *call_kept(void *self, uint32_t payload, size_t *ret_byte_count)
{
    const struct sim_payload *p = &((struct sim_node *)self)->world->payload[payload];
    *ret_byte_count = p->byte_count;
    return p->bytes;
}

static void call_drop(void *self, uint32_t payload)
{
    payload_release(((struct sim_node *)self)->world, payload);
}

static void call_send(void *self, uint32_t payload, cv_id first, cv_id last, bool to_self)
{
    const struct sim_node *n = self;
    send_range(n->world, n->id, payload, first, last, to_self);
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
    n->persisted_count = word_count;
    memcpy(n->persisted, word, word_count * sizeof *word);
}

/* An entry of the queue names the node and, modulo DISK_LIFE, which of its lives it belongs to. */
#define DISK_LIFE 8192u

static void queue_disk(struct sim_world *w, cv_id id, int64_t delay_ns)
{
    const uint32_t life = (uint32_t)(node_of(w, id)->life % DISK_LIFE);
    sim_queue_push(&w->queue, w->now_ns + delay_ns, EVENT_DISK, life * DISK_LIFE + id);
}

static enum cv_save_result call_save(void *self, const uint64_t *word, uint32_t word_count)
{
    struct sim_node *n = self;
    if (n->disk_ns == 0 && !n->disk_fails) {
        write_record(n, word, word_count);
        return CV_SAVE_DONE;
    }
    if (n->held == NULL) {
        n->held = cv__allocate(SIM_HELD_MAX, sizeof *n->held);
        n->world->host.held = n->held;
    }
    queue_disk(n->world, n->id, n->disk_ns);
    return CV_SAVE_BEGUN;
}

static void call_stepped(void *self, const struct cv_event *event, const struct cv_effects *out)
{
    const struct sim_node *n = self;
    struct sim_world *w = n->world;
    (void)event;
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

static void call_disk_failed(void *self, const char *why)
{
    struct sim_node *n = self;
    (void)why;
    sim_world_note(n->world, CV_RECORD_PERSIST_FAILED, n->id, CV_ID_NONE, 0, 0, 0);
    n->has_stopped = true;
    cv__properties_stop(&n->world->properties, n->id);
}

static const struct cv_node_calls node_calls = {
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

void sim_world_step(struct sim_world *w, cv_id id, struct cv_event *event)
{
    struct sim_node *n = node_of(w, id);
    CV_ASSERT(n->is_up && !n->is_paused);
    cv__node_event(&n->host, host_of(n), event);
}

/* The record under way is saved, or is not. */
static void on_disk(struct sim_world *w, uint32_t ref)
{
    const cv_id id = ref % DISK_LIFE;
    struct sim_node *n = node_of(w, id);
    const struct cv_gate *gate = &n->host.gate;
    if (!n->is_up || n->life % DISK_LIFE != ref / DISK_LIFE || !gate->is_saving) {
        return; /* it crashed meanwhile */
    }
    if (n->is_paused) {
        n->has_disk_waiting = true; /* it learns of this when it wakes */
    } else if (n->disk_fails) {
        cv__node_save_failed(&n->host, host_of(n), "the disk failed");
    } else {
        write_record(n, gate->saving.word, gate->saving.word_count);
        cv__node_saved(&n->host, host_of(n));
    }
}

/* ---- Delivery -------------------------------------------------------------------------------- */

/* The stamps of the frame give a bound on its delay; the frame gives later ones a better bound. */
static int64_t bound_delay(struct sim_world *w, const struct sim_flight *f, int64_t local_ns)
{
    if (f->from == f->to) {
        return 0;
    }
    struct sim_node *n = node_of(w, f->to);
    if (n->echo == NULL) {
        if (w->node_count > SIM_BOUNDS_NODES_MAX) {
            return CV_DELAY_UNKNOWN;
        }
        n->echo = cv__allocate(w->node_count, sizeof *n->echo);
    }
    const int64_t drift_ppb = w->scenario->config.drift_ppb;
    cv__echo_update(&n->echo[f->from - 1], f->stamp.sent_ns, local_ns, drift_ppb);
    return cv__delay_bound(&f->stamp, local_ns, drift_ppb, w->scenario->delay_min_ns);
}

/* Handling a message takes a while, if the scenario says so, and a node handles one after the other
 * in the order they arrive. True: its turn comes later. */
static bool waits_for_turn(struct sim_world *w, uint32_t index)
{
    struct sim_flight *f = &w->flight[index];
    struct sim_node *n = node_of(w, f->to);
    if (f->life != 0 || f->from == f->to || (w->cost_ns == 0 && n->busy_ns <= w->now_ns)) {
        return false;
    }
    n->busy_ns = cv__max64(n->busy_ns, w->now_ns) + w->cost_ns;
    f->life = n->life;
    sim_queue_push(&w->queue, n->busy_ns, EVENT_DELIVER, index);
    return true;
}

static void deliver(struct sim_world *w, uint32_t index)
{
    const struct sim_flight f = w->flight[index];
    const struct sim_payload *p = &w->payload[f.payload];
    struct sim_node *n = node_of(w, f.to);
    if (!n->is_up || (f.life != 0 && f.life != n->life)) { /* or it waited when the node crashed */
        sim_world_note(w, CV_RECORD_DROPPED, f.to, f.from, p->type, f.number, 0);
        flight_free(w, index);
        return;
    }
    if (n->is_paused) {
        n->backlog =
            cv__grow(n->backlog, &n->backlog_capacity, n->backlog_count, sizeof *n->backlog);
        n->backlog[n->backlog_count++] = index;
        return;
    }
    if (waits_for_turn(w, index)) {
        return;
    }
    const int64_t bound_ns = bound_delay(w, &f, sim_clock_local(&n->clock, w->now_ns));
    sim_world_note(w, CV_RECORD_DELIVER, f.to, f.from, p->type, f.number, bound_ns);
    sim_properties_arrive(w, f.from, f.to, w->now_ns - f.sent_ns);
    struct cv_event event = {
        .kind = CV_EVENT_MESSAGE,
        .peer = w->protocol->is_anonymous ? CV_ID_NONE : f.from,
        .delay_ns_max = bound_ns,
    };
    cv__node_message(&n->host, host_of(n), &event, p->bytes, p->byte_count);
    CV_ASSERT(w->host.counts.malformed == 0); /* it was encoded, and the network damages nothing */
    flight_free(w, index);
}

/* ---- Life of a node -------------------------------------------------------------------------- */

void sim_world_start_node(struct sim_world *w, cv_id id)
{
    struct sim_node *n = node_of(w, id);
    CV_ASSERT(!n->is_up);
    n->is_up = true;
    n->is_paused = false;
    n->has_stopped = false;
    n->life++;
    cv__properties_start(&w->properties, id);
    struct cv_config config = w->scenario->config;
    config.self = id;
    cv_core_init(w->protocol, n->state, &config);
    cv__node_init(&n->host, SIM_HELD_MAX, /* waiting_capacity= */ 0);
    sim_world_note_life(w, id, SIM_LIFE_UP);
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    memcpy(persisted, n->persisted, sizeof persisted);
    struct cv_event event = {
        .kind = CV_EVENT_START,
        .persisted = persisted,
        .persisted_count = n->persisted_count,
        .nonce = sim_rng_next(&w->timer_rng),
    };
    n->nonce = event.nonce;
    sim_known_add(w, CV_SEQUENCE_NONE, event.nonce, id);
    sim_world_step(w, id, &event);
}

static void drop_backlog(struct sim_world *w, struct sim_node *n)
{
    for (uint32_t i = 0; i < n->backlog_count; i++) {
        flight_free(w, n->backlog[i]);
    }
    n->backlog_count = 0;
}

void sim_world_crash_node(struct sim_world *w, cv_id id)
{
    struct sim_node *n = node_of(w, id);
    CV_ASSERT(n->is_up);
    sim_world_note_life(w, id, SIM_LIFE_DOWN);
    if (w->properties.node[id - 1].holds) {
        sim_hold_end(w, id, "crashed");
    }
    cv__properties_crash(&w->properties, id);
    n->is_up = false;
    n->is_paused = false;
    n->has_disk_waiting = false;
    n->busy_ns = 0;
    cv__node_close(&n->host, host_of(n));
    drop_backlog(w, n);
    free(n->echo); /* the transport's memory is gone too */
    n->echo = NULL;
}

/* Everything that arrived and every timer that came due is there at once; whether the process sees
 * the timers or the messages first is chance, as it is in a real event loop. */
void sim_world_wake_node(struct sim_world *w, cv_id id)
{
    struct sim_node *n = node_of(w, id);
    CV_ASSERT(n->is_up && n->is_paused);
    sim_world_note_life(w, id, SIM_LIFE_UP);
    n->is_paused = false;
    if (n->has_disk_waiting) {
        n->has_disk_waiting = false;
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
                sim_queue_push(&w->queue, w->now_ns, EVENT_DELIVER, n->backlog[i]);
            }
            n->backlog_count = 0;
            sim_sequencer_request_wake(w, id);
            sim_store_request_wake(w, id);
        }
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

void sim_world_schedule_action(struct sim_world *w, const struct sim_action *action)
{
    w->action = cv__grow(w->action, &w->action_capacity, w->action_count, sizeof *w->action);
    w->action[w->action_count] = *action;
    sim_world_queue_action(w, w->action_count++);
}

void sim_world_queue_action(struct sim_world *w, uint32_t index)
{
    sim_queue_push(&w->queue, w->action[index].at_ns, EVENT_ACTION, index);
}

void sim_world_queue_sequencer_request(struct sim_world *w, uint32_t request, bool is_answer,
                                       int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, is_answer ? EVENT_SEQUENCER_ANSWER : EVENT_SEQUENCER_REQUEST,
                   request);
}

void sim_world_queue_store_request(struct sim_world *w, uint32_t request, int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, EVENT_STORE_REQUEST, request);
}

void sim_world_queue_expiry(struct sim_world *w, int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, EVENT_EXPIRY, 0);
}

void sim_world_queue_check(struct sim_world *w, int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, EVENT_CHECK, 0);
}

static void dispatch(struct sim_world *w, const struct sim_queue_entry *entry)
{
    switch (entry->kind) {
    case EVENT_START:
        if (!node_of(w, entry->ref)->is_up) {
            sim_world_start_node(w, entry->ref);
            sim_properties_disturb(w);
            sim_properties_update(w);
        }
        break;
    case EVENT_DELIVER:
        deliver(w, entry->ref);
        break;
    case EVENT_TIMER:
        on_timer(w, entry->ref);
        break;
    case EVENT_DISK:
        on_disk(w, entry->ref);
        break;
    case EVENT_ACTION:
        sim_action_do(w, entry->ref);
        break;
    case EVENT_CHECK:
        sim_properties_check(w);
        break;
    case EVENT_SEQUENCER_REQUEST:
        sim_sequencer_request_serve(w, entry->ref);
        break;
    case EVENT_SEQUENCER_ANSWER:
        sim_sequencer_request_answer(w, entry->ref);
        break;
    case EVENT_STORE_REQUEST:
        sim_store_request_arrive(w, entry->ref);
        break;
    case EVENT_EXPIRY:
        sim_store_request_expire(w);
        break;
    default:
        CV_ASSERT(!"an event of no kind");
    }
}

static void finish(struct sim_world *w)
{
    sim_expect_finish(w);
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (w->properties.node[id - 1].holds) {
            sim_hold_end(w, id, "running");
        }
    }
}

static void on_assert(struct cv_assert_trap *trap, const char *expression, const char *file,
                      int line)
{
    struct sim_world *w = (struct sim_world *)((char *)trap - offsetof(struct sim_world, trap));
    const char *slash = strrchr(file, '/');
    w->is_over = true;
    cv__properties_break(&w->properties, CV_PROPERTY_ASSERTIONS, "%s (%s:%d)", expression,
                         slash != NULL ? slash + 1 : file, line);
    longjmp(w->on_assert, 1);
}

static void run_events(struct sim_world *w, int64_t until_ns)
{
    while (!w->is_over && w->queue.count > 0 && w->queue.entry[0].at_ns <= until_ns) {
        const struct sim_queue_entry entry = sim_queue_pop(&w->queue);
        if (entry.at_ns > w->now_ns) {
            sim_expect_judge(w, w->now_ns, entry.at_ns);
            w->now_ns = entry.at_ns;
            cv__properties_time(&w->properties, w->now_ns);
            cv__properties_look(&w->properties);
        }
        dispatch(w, &entry);
    }
}

void sim_world_run(struct sim_world *w, int64_t until_ns)
{
    struct cv_assert_trap *outer = cv__assert_trap;
    w->trap.fail = on_assert;
    cv__assert_trap = &w->trap;
    if (setjmp(w->on_assert) == 0) {
        run_events(w, until_ns);
    }
    cv__assert_trap = outer;
    const bool is_end = until_ns >= w->scenario->run_ns;
    sim_expect_judge(w, w->now_ns, is_end ? until_ns + 1 : until_ns);
    w->now_ns = cv__max64(w->now_ns, until_ns);
    cv__properties_time(&w->properties, w->now_ns);
    if (is_end) {
        finish(w);
    }
}

bool sim_world_run_all(struct sim_world *w)
{
    sim_world_run(w, w->scenario->run_ns);
    return sim_world_is_ok(w);
}

uint32_t sim_world_enforced(const struct sim_world *w)
{
    uint32_t enforced = w->scenario->promises;
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect *e = &w->scenario->expect[i];
        enforced &= e->kind == SIM_EXPECT_BROKEN ? ~BIT(e->property) : UINT32_MAX;
    }
    return enforced;
}

bool sim_world_is_ok(const struct sim_world *w)
{
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        if (!w->expect_result[i].is_ok) {
            return false;
        }
    }
    const uint32_t enforced = sim_world_enforced(w);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((enforced & BIT(i)) != 0 && w->properties.broken[i].is_broken) {
            return false;
        }
    }
    return true;
}

static void make_network(struct sim_world *w)
{
    const struct sim_scenario *s = w->scenario;
    w->network = sim_network_new(s->node_count);
    for (uint32_t i = 0; i < s->action_count; i++) {
        /* The default first: sites and pairs start from it. */
        const struct sim_link_change *change = &s->action[i].link;
        if (s->action[i].at_ns == SIM_SETUP && s->action[i].kind == SIM_ACTION_LINK &&
            change->first == CV_ID_NONE && change->second == CV_ID_NONE) {
            sim_network_change(w->network, change);
        }
    }
    for (cv_id id = 1; id <= s->node_count; id++) {
        sim_network_set_site(w->network, id, s->site_of[id - 1]);
    }
    for (uint32_t i = 0; i < s->rtt_count; i++) {
        sim_network_set_rtt(w->network, s->rtt[i].a, s->rtt[i].b, s->rtt[i].rtt_ns);
    }
}

static void make_nodes(struct sim_world *w)
{
    struct sim_rng rng;
    sim_rng_init(&rng, w->seed, STREAM_NODES);
    const size_t bytes = (cv_core_size(w->protocol, &w->scenario->config) + 63) / 64 * 64;
    w->node = cv__allocate(w->node_count, sizeof *w->node);
    w->states = cv__allocate(w->node_count, bytes);
    for (cv_id id = 1; id <= w->node_count; id++) {
        struct sim_node *n = node_of(w, id);
        n->world = w;
        n->id = id;
        n->state = w->states + (id - 1) * bytes;
        n->clock.local_base_ns = sim_rng_range(&rng, NS_PER_S, 1000 * NS_PER_S);
        for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
            n->timer[i].queued_ns = INT64_MAX;
        }
        const int64_t within_ns = w->scenario->start_within_ns;
        if (w->scenario->is_down[id - 1]) {
            sim_hold_life(w, id, SIM_LIFE_DOWN); /* until an action starts it */
            continue;
        }
        sim_queue_push(&w->queue, within_ns > 0 ? sim_rng_range(&rng, 0, within_ns) : 0,
                       EVENT_START, id);
    }
}

static void make_trace(struct sim_world *w)
{
    const struct sim_scenario *s = w->scenario;
    const char *site[SIM_SITES_MAX];
    for (uint32_t i = 1; i <= s->site_count; i++) {
        site[i] = s->site[i].name;
    }
    w->trace.file = w->options.trace;
    w->trace.observe = w->options.observe;
    w->trace.context = w->options.context;
    w->trace.protocol = w->protocol;
    const struct cv_trace_header header = {
        .scenario = s->name,
        .config = &s->config,
        .node_count = s->node_count,
        .seed = w->seed,
        .duration_ns = s->run_ns,
        .site = site,
        .site_count = s->site_count,
        .site_of = s->site_of,
    };
    cv__trace_header(&w->trace, &header);
}

struct sim_world *sim_world_new(const struct sim_scenario *scenario, uint64_t seed,
                                const struct sim_world_options *options)
{
    struct sim_world *w = cv__allocate(1, sizeof *w);
    w->scenario = scenario;
    w->protocol = scenario->protocol;
    w->options = *options;
    w->seed = seed;
    w->node_count = scenario->node_count;
    w->payload_free = NONE;
    w->flight_free = NONE;
    CV_ASSERT(w->protocol->message_count <= SIM_TYPES_MAX);
    sim_rng_init(&w->net_rng, seed, STREAM_NETWORK);
    sim_rng_init(&w->timer_rng, seed, STREAM_TIMERS);
    sim_rng_init(&w->fault_rng, seed, STREAM_FAULTS);
    sim_rng_init(&w->wake_rng, seed, STREAM_WAKES);
    sim_rng_init(&w->sequencer_rng, seed, STREAM_SEQUENCER);
    sim_sequencer_init(&w->sequencer);
    w->sequencer_request_free = NONE;
    sim_rng_init(&w->store_rng, seed, STREAM_STORE);
    sim_store_init(&w->store);
    w->expiry_queued_ns = INT64_MAX;
    w->store_request_free = NONE;

    w->effects.item = cv__allocate(CV_EFFECTS_MAX, sizeof *w->effects.item);
    w->effects.word_capacity = cv_effects_words(&scenario->config);
    w->effects.word = cv__allocate(w->effects.word_capacity, sizeof(uint64_t));
    if (options->trace != NULL || options->observe != NULL || options->takes_notes) {
        w->effects.note = cv__allocate(CV_NOTES_MAX, sizeof *w->effects.note);
    }
    w->encode_bytes = cv__allocate(cv_message_bytes_max(w->protocol, w->node_count), 1);
    w->host = (struct cv_node_host){
        .calls = &node_calls,
        .protocol = w->protocol,
        .member_count = w->node_count,
        .out = &w->effects,
        .decoded_word = cv__allocate(cv_message_words_max(w->node_count), sizeof(uint64_t)),
    };
    w->expect_seen = cv__allocate(scenario->expect_count, sizeof *w->expect_seen);
    w->expect_result = cv__allocate(scenario->expect_count, sizeof *w->expect_result);

    make_trace(w);
    make_network(w);
    sim_properties_init(w);
    make_nodes(w);
    sim_properties_update(w);
    sim_actions_schedule(w);
    sim_world_open_election(w, CV_ID_NONE);
    return w;
}

void sim_world_free(struct sim_world *w)
{
    if (w == NULL) {
        return;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        free(w->node[i].held);
        free(w->node[i].backlog);
        free(w->node[i].echo);
    }
    for (uint32_t i = 0; i < w->payload_count; i++) {
        free(w->payload[i].bytes);
    }
    for (uint32_t i = w->scenario->action_count; i < w->action_count; i++) {
        if (w->action[i].kind == SIM_ACTION_PARTITION) {
            free(w->action[i].group); /* drawn; the scenario's own are the scenario's */
        }
    }
    cv__properties_fini(&w->properties);
    free(w->tail);
    sim_network_free(w->network);
    sim_queue_fini(&w->queue);
    free(w->node);
    free(w->states);
    free(w->action);
    free(w->payload);
    free(w->flight);
    free(w->sequencer_request);
    free(w->sequencer_answer_waiting);
    free(w->known);
    free(w->store_request);
    free(w->store_answer_waiting);
    free(w->effects.item);
    free(w->effects.word);
    free(w->effects.note);
    free(w->host.decoded_word);
    free(w->encode_bytes);
    free(w->expect_seen);
    free(w->expect_result);
    free(w->span);
    free(w->view);
    free(w->election);
    free(w->life);
    free(w->done_action);
    free(w->ask);
    free(w);
}
