/* src/sim/world.c - the events of a run: start, delivery, timers, disks; and the effects they have.
 */
#include "sim/world.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/expect.h"
#include "sim/hold.h"
#include "sim/query.h"

#include <stdlib.h>
#include <string.h>

enum event_kind {
    EVENT_START,
    EVENT_DELIVER,
    EVENT_TIMER,
    EVENT_DISK,
    EVENT_ACTION,
    EVENT_CHECK,
    EVENT_QUERY,
    EVENT_ANSWER,
    EVENT_ERRAND,
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

void sim_world_note(struct sim_world *w, enum cv_record_kind kind, cv_id node, cv_id peer,
                    uint32_t what, uint64_t number, int64_t bound_ns)
{
    const struct cv_record record = {w->now_ns, kind, node, peer, what, number, bound_ns, NULL};
    cv__trace_add(&w->trace, &record, NULL);
}

/* ---- Payloads and flights: pools, so that a message in flight costs no allocation ------------ */

static uint32_t payload_new(struct sim_world *w, const struct cv_message *message)
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
    const size_t bytes = cv_message_encode(w->protocol, w->node_count, message, w->encode_bytes);
    if (bytes > p->byte_capacity) {
        free(p->bytes);
        p->byte_capacity = (uint32_t)(bytes > 32 ? bytes : 32);
        p->bytes = cv__allocate(p->byte_capacity, 1);
    }
    memcpy(p->bytes, w->encode_bytes, bytes);
    p->byte_count = (uint32_t)bytes;
    p->type = message->type;
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

static void arm(struct sim_world *w, cv_id id, const struct cv_effect *effect)
{
    struct sim_node *n = node_of(w, id);
    struct sim_timer *t = &n->timer[effect->timer];
    const int64_t local_ns =
        effect->earliest_ns == effect->latest_ns
            ? effect->earliest_ns
            : sim_rng_range(&w->timer_rng, effect->earliest_ns, effect->latest_ns);
    t->is_armed = true;
    t->due_ns = cv__max64(w->now_ns, sim_clock_real(&n->clock, local_ns));
    queue_timer(w, id, effect->timer);
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
    if (!t->is_armed || !n->is_up || n->is_paused) {
        return; /* a paused node's timers fire when it wakes */
    }
    if (t->due_ns > w->now_ns) {
        queue_timer(w, id, timer);
        return;
    }
    t->is_armed = false;
    sim_world_note(w, CV_RECORD_TIMER, id, CV_ID_NONE, timer, 0, 0);
    struct cv_event event = {.kind = CV_EVENT_TIMER, .timer = timer};
    sim_world_step(w, id, &event);
}

/* What is due at some instant of the local clock comes at another real instant from now on. */
void sim_world_set_drift(struct sim_world *w, cv_id id, int64_t drift_ppb)
{
    struct sim_node *n = node_of(w, id);
    const struct sim_clock before = n->clock;
    sim_clock_set_drift(&n->clock, w->now_ns, drift_ppb);
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        struct sim_timer *t = &n->timer[timer];
        if (t->is_armed && t->due_ns > w->now_ns) {
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

/* ---- Effects --------------------------------------------------------------------------------- */

static struct sim_held *hold(struct sim_node *n, enum cv_effect_kind kind)
{
    if (n->held_first == n->held_count) {
        n->held_first = 0;
        n->held_count = 0;
    }
    n->held = cv__grow(n->held, &n->held_capacity, n->held_count, sizeof *n->held);
    struct sim_held *h = &n->held[n->held_count++];
    memset(h, 0, sizeof *h);
    h->kind = kind;
    return h;
}

/* A copy of what was lent for this step only; drop_held() and on_disk() free it. */
static struct cv_list keep_list(struct cv_list list)
{
    if (list.word_count == 0) {
        return list;
    }
    uint64_t *copy = cv__allocate(list.word_count, sizeof *copy);
    memcpy(copy, list.word, list.word_count * sizeof *copy);
    return (struct cv_list){copy, list.word_count};
}

static void list_free(struct cv_list *list)
{
    union {
        const uint64_t *lent;
        void *owned;
    } word = {.lent = list->word};
    if (list->word_count > 0) {
        free(word.owned);
    }
}

static void save(struct sim_node *n, const uint64_t *word, uint32_t word_count)
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

/* Effects wait if a record is being saved, and a record itself if the disk takes its time. */
static void apply(struct sim_world *w, cv_id id, const struct cv_effect *e)
{
    struct sim_node *n = node_of(w, id);
    const bool is_waiting = n->held_first < n->held_count;
    switch (e->kind) {
    case CV_EFFECT_ARM:
        arm(w, id, e);
        break;
    case CV_EFFECT_DISARM:
        n->timer[e->timer].is_armed = false;
        break;
    case CV_EFFECT_PERSIST:
        sim_world_note(w, CV_RECORD_PERSIST, id, CV_ID_NONE, 0, e->persist[0], 0);
        if (is_waiting || n->disk_ns > 0 || n->disk_fails) {
            struct sim_held *h = hold(n, e->kind);
            h->word_count = e->persist_count;
            memcpy(h->word, e->persist, e->persist_count * sizeof *e->persist);
            if (!is_waiting) {
                queue_disk(w, id, n->disk_ns);
            }
        } else {
            save(n, e->persist, e->persist_count);
        }
        break;
    case CV_EFFECT_SEND: {
        const uint32_t payload = payload_new(w, &e->message);
        if (is_waiting) {
            struct sim_held *h = hold(n, e->kind);
            h->payload = payload;
            h->first = e->first;
            h->last = e->last;
            h->to_self = e->to_self;
        } else {
            send_range(w, id, payload, e->first, e->last, e->to_self);
            payload_release(w, payload);
        }
        break;
    }
    case CV_EFFECT_LEADERSHIP:
        if (is_waiting) {
            struct sim_held *h = hold(n, e->kind);
            h->leadership = e->leadership;
            h->leadership.members = keep_list(e->leadership.members);
        } else {
            sim_hold_believe(w, id, &e->leadership);
        }
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        sim_query_ask(w, id, e->request, e->reference);
        break;
    case CV_EFFECT_ASK_STORE:
        sim_errand_ask(w, id, e);
        break;
    }
}

static void record_notes(struct sim_world *w, cv_id id)
{
    for (uint32_t i = 0; i < w->effects.note_count; i++) {
        const struct cv_note *note = &w->effects.note[i];
        const struct cv_record record = {
            .at_ns = w->now_ns,
            .kind = CV_RECORD_NOTE,
            .node = id,
            .peer = note->peer,
            .number = note->number,
            .bound_ns = sim_clock_real(&node_of(w, id)->clock, note->time_ns),
            .text = note->text,
        };
        cv__trace_add(&w->trace, &record, NULL);
    }
}

void sim_world_step(struct sim_world *w, cv_id id, struct cv_event *event)
{
    struct sim_node *n = node_of(w, id);
    CV_ASSERT(n->is_up && !n->is_paused);
    event->now_ns = sim_clock_local(&n->clock, w->now_ns);
    w->event_count++;
    cv_core_step(w->protocol, n->state, event, &w->effects);
    record_notes(w, id);
    for (uint32_t i = 0; i < w->effects.item_count; i++) {
        apply(w, id, &w->effects.item[i]);
    }
}

static void drop_held(struct sim_world *w, struct sim_node *n)
{
    for (uint32_t i = n->held_first; i < n->held_count; i++) {
        if (n->held[i].kind == CV_EFFECT_SEND) {
            payload_release(w, n->held[i].payload);
        } else if (n->held[i].kind == CV_EFFECT_LEADERSHIP) {
            list_free(&n->held[i].leadership.members);
        }
    }
    n->held_first = 0;
    n->held_count = 0;
}

/* The record at the head is saved, or is not; what waited for it may go, up to the next record. */
static void on_disk(struct sim_world *w, uint32_t ref)
{
    const cv_id id = ref % DISK_LIFE;
    struct sim_node *n = node_of(w, id);
    if (!n->is_up || n->life % DISK_LIFE != ref / DISK_LIFE || n->held_first == n->held_count) {
        return; /* it crashed meanwhile, or nothing waits any more */
    }
    if (n->is_paused) {
        n->has_disk_waiting = true; /* it learns of this when it wakes */
        return;
    }
    CV_ASSERT(n->held[n->held_first].kind == CV_EFFECT_PERSIST);
    if (n->disk_fails) {
        sim_world_note(w, CV_RECORD_PERSIST_FAILED, id, CV_ID_NONE, 0, 0, 0);
        drop_held(w, n);
        n->has_stopped = true;
        cv__properties_stop(&w->properties, id);
        struct cv_event event = {.kind = CV_EVENT_PERSIST_FAILED};
        sim_world_step(w, id, &event);
        return;
    }
    const struct sim_held *record = &n->held[n->held_first++];
    save(n, record->word, record->word_count);
    while (n->held_first < n->held_count && n->held[n->held_first].kind != CV_EFFECT_PERSIST) {
        struct sim_held h = n->held[n->held_first++];
        if (h.kind == CV_EFFECT_SEND) {
            send_range(w, id, h.payload, h.first, h.last, h.to_self);
            payload_release(w, h.payload);
        } else {
            sim_hold_believe(w, id, &h.leadership);
            list_free(&h.leadership.members);
        }
    }
    if (n->held_first < n->held_count) {
        queue_disk(w, id, n->disk_ns);
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
    struct cv_message message;
    const int error = cv_message_decode(w->protocol, w->node_count, p->bytes, p->byte_count,
                                        w->decode_word, &message);
    CV_ASSERT(error == CV_OK); /* it went through the encoder, and the network damages nothing */
    const int64_t bound_ns = bound_delay(w, &f, sim_clock_local(&n->clock, w->now_ns));
    sim_world_note(w, CV_RECORD_DELIVER, f.to, f.from, p->type, f.number, bound_ns);
    sim_properties_arrive(w, f.from, f.to, w->now_ns - f.sent_ns);
    struct cv_event event = {
        .kind = CV_EVENT_MESSAGE,
        .peer = w->protocol->is_anonymous ? CV_ID_NONE : f.from,
        .message = &message,
        .is_fast = bound_ns <= w->scenario->fast_ns,
        .delay_ns_max = bound_ns,
    };
    sim_world_step(w, f.to, &event);
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
    sim_query_know(w, CV_SEQUENCE_NONE, event.nonce, id);
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
    drop_held(w, n);
    drop_backlog(w, n);
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        n->timer[i].is_armed = false;
    }
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
                if (t->is_armed && t->queued_ns == INT64_MAX) {
                    t->due_ns = cv__max64(t->due_ns, w->now_ns);
                    queue_timer(w, id, timer);
                }
            }
        } else {
            for (uint32_t i = 0; i < n->backlog_count; i++) {
                sim_queue_push(&w->queue, w->now_ns, EVENT_DELIVER, n->backlog[i]);
            }
            n->backlog_count = 0;
            sim_query_wake(w, id);
            sim_errand_wake(w, id);
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

void sim_world_queue_query(struct sim_world *w, uint32_t query, bool is_answer, int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, is_answer ? EVENT_ANSWER : EVENT_QUERY, query);
}

void sim_world_queue_errand(struct sim_world *w, uint32_t errand, int64_t at_ns)
{
    sim_queue_push(&w->queue, at_ns, EVENT_ERRAND, errand);
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
    case EVENT_QUERY:
        sim_query_serve(w, entry->ref);
        break;
    case EVENT_ANSWER:
        sim_query_answer(w, entry->ref);
        break;
    case EVENT_ERRAND:
        sim_errand_arrive(w, entry->ref);
        break;
    case EVENT_EXPIRY:
        sim_errand_expire(w);
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
        if (!w->verdict[i].is_ok) {
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
    w->query_free = NONE;
    sim_rng_init(&w->store_rng, seed, STREAM_STORE);
    sim_store_init(&w->store);
    w->expiry_queued_ns = INT64_MAX;
    w->errand_free = NONE;

    w->effects.item = cv__allocate(CV_EFFECTS_MAX, sizeof *w->effects.item);
    w->effects.word_capacity = cv_effects_words(&scenario->config);
    w->effects.word = cv__allocate(w->effects.word_capacity, sizeof(uint64_t));
    if (options->trace != NULL || options->observe != NULL || options->takes_notes) {
        w->effects.note = cv__allocate(CV_NOTES_MAX, sizeof *w->effects.note);
    }
    w->decode_word = cv__allocate(cv_message_words_max(w->node_count), sizeof(uint64_t));
    w->encode_bytes = cv__allocate(cv_message_bytes_max(w->protocol, w->node_count), 1);
    w->expect_seen = cv__allocate(scenario->expect_count, sizeof *w->expect_seen);
    w->verdict = cv__allocate(scenario->expect_count, sizeof *w->verdict);

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
        drop_held(w, &w->node[i]);
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
    free(w->query);
    free(w->waiting);
    free(w->known);
    free(w->errand);
    free(w->errand_waiting);
    free(w->effects.item);
    free(w->effects.word);
    free(w->effects.note);
    free(w->decode_word);
    free(w->encode_bytes);
    free(w->expect_seen);
    free(w->verdict);
    free(w->span);
    free(w->view);
    free(w->election);
    free(w->life);
    free(w->deed);
    free(w->ask);
    free(w);
}
