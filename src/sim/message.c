/* src/sim/message.c - messages between simulated nodes; see message.h. */
#include "sim/message.h"

#include "base/memory.h"
#include "core/core.h"
#include "sim/world.h"

#include <conclave/oracle.h>

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* ---- Payloads and flights: pools, so that a message in flight costs no allocation ------------ */

static void forget_decoded(struct sim_decoded *decoded, uint32_t payload)
{
    decoded->payload = decoded->payload == payload ? NONE : decoded->payload;
}

/* Decodes a payload into `decoded`, unless it is there already, and returns the message. */
static const struct cv_message *payload_decode(const struct sim_world *w, uint32_t payload,
                                               struct sim_decoded *decoded)
{
    const struct sim_payload *p = &w->messages.payload[payload];
    CV_ASSERT(p->reference_count > 0);
    if (decoded->payload != payload) {
        const int code = cv__message_decode(w->protocol, w->node_count, p->bytes, p->byte_count,
                                            decoded->word, &decoded->message);
        CV_ASSERT(code == CV_OK); /* it was encoded here, and the network damages nothing */
        decoded->payload = payload;
    }
    return &decoded->message;
}

uint32_t sim_message_keep(struct sim_world *w, const void *bytes, size_t byte_count)
{
    uint32_t index = w->messages.payload_free;
    if (index != NONE) {
        w->messages.payload_free = w->messages.payload[index].next_free;
    } else {
        w->messages.payload = cv__grow(w->messages.payload, &w->messages.payload_capacity,
                                       w->messages.payload_count, sizeof *w->messages.payload);
        index = w->messages.payload_count++;
        memset(&w->messages.payload[index], 0, sizeof w->messages.payload[index]);
    }
    struct sim_payload *p = &w->messages.payload[index];
    if (byte_count > p->byte_capacity) {
        free(p->bytes);
        p->byte_capacity = (uint32_t)(byte_count > 32 ? byte_count : 32);
        p->bytes = cv__allocate(p->byte_capacity, 1);
    }
    forget_decoded(&w->messages.arriving[index % SIM_DECODED_COUNT], index);
    forget_decoded(&w->messages.leaving, index);
    memcpy(p->bytes, bytes, byte_count);
    p->byte_count = (uint32_t)byte_count;
    p->reference_count = 1;
    return index;
}

void sim_message_release(struct sim_world *w, uint32_t index)
{
    struct sim_payload *p = &w->messages.payload[index];
    CV_ASSERT(p->reference_count > 0);
    if (--p->reference_count == 0) {
        p->next_free = w->messages.payload_free;
        w->messages.payload_free = index;
    }
}

uint32_t sim_message_encode(struct sim_world *w, const struct cv_message *message)
{
    const size_t byte_count =
        cv__message_encode(w->protocol, w->node_count, message, w->messages.encoded);
    const uint32_t payload = sim_message_keep(w, w->messages.encoded, byte_count);
    w->messages.payload[payload].type = message->type;
    return payload;
}

static uint32_t flight_new(struct sim_world *w)
{
    const uint32_t index = w->messages.flight_free;
    if (index != NONE) {
        w->messages.flight_free = w->messages.flight[index].payload;
        return index;
    }
    w->messages.flight = cv__grow(w->messages.flight, &w->messages.flight_capacity,
                                  w->messages.flight_count, sizeof *w->messages.flight);
    return w->messages.flight_count++;
}

static void flight_free(struct sim_world *w, uint32_t index)
{
    sim_message_release(w, w->messages.flight[index].payload);
    w->messages.flight[index].payload = w->messages.flight_free;
    w->messages.flight_free = index;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void depart(struct sim_world *w, enum sim_flight_kind kind, cv_id from, cv_id to,
                   uint32_t payload, int64_t delay_ns)
{
    const int64_t delta_ns = w->properties.setting.delta_ns;
    if (delta_ns > 0 && delay_ns > delta_ns && !w->scenario->is_manual) {
        w->messages.late_count++;
        w->messages.late_max_ns = cv__max64(w->messages.late_max_ns, delay_ns);
        sim_properties_lose(w, from, to); /* another disturbance follows when it arrives */
    }
    const uint32_t index = flight_new(w);
    struct sim_flight *f = &w->messages.flight[index];
    struct sim_node *sender = sim_world_node(w, from);
    f->kind = kind;
    f->payload = payload;
    w->messages.payload[payload].reference_count++;
    f->from = from;
    f->to = to;
    f->sent_ns = w->now_ns;
    f->number = w->messages.count;
    f->life = 0;
    f->sender_life = sender->life;
    f->stamp.sent_ns = sim_clock_local(&sender->clock, w->now_ns);
    f->stamp.boot = sender->boot;
    f->stamp.echo = sender->echo != NULL ? sender->echo[to - 1] : (struct cv_echo){0};
    const bool is_witness = kind != SIM_FLIGHT_MESSAGE;
    const uint32_t type = w->messages.payload[payload].type;
    const struct sim_under_way what = {
        .kind = SIM_EVENT_DELIVER,
        .ref = index,
        .from = from,
        .to = to,
        .type = is_witness ? NULL : &w->protocol->messages[type],
        .is_witness = is_witness,
    };
    sim_under_way(w, w->now_ns + delay_ns, &what);
}

static void count_message(struct sim_world *w, const struct sim_payload *p)
{
    w->messages.count++;
    w->messages.byte_count += p->byte_count;
    w->messages.count_by_type[p->type]++;
    const struct sim_scenario *s = w->scenario;
    for (uint32_t i = 0; i < s->expect_count; i++) {
        const struct sim_expect *e = &s->expect[i];
        if (e->kind == SIM_EXPECT_MESSAGES && w->now_ns >= e->from_ns && w->now_ns <= e->at_ns &&
            (e->message == SIM_MESSAGE_ANY || e->message == p->type)) {
            w->expect_seen[i]++;
        }
    }
}

/* With a trace file, records the fields too. */
static void note_send(struct sim_world *w, cv_id from, cv_id to, uint32_t payload)
{
    struct cv_record record = {.at_ns = w->now_ns,
                               .kind = CV_RECORD_SEND,
                               .node = to,
                               .peer = from,
                               .what = w->messages.payload[payload].type,
                               .number = w->messages.count};
    if (w->trace.file != NULL) {
        record.message = payload_decode(w, payload, &w->messages.leaving);
    }
    cv__trace_note(&w->trace, record);
}

/* Which scalar of a message type has this name; CV_FIELDS_MAX: none. */
static uint32_t scalar_find(const struct cv_message_type *type, const char *name)
{
    uint32_t scalar = 0;
    for (const struct cv_field *f = type->fields; f->kind != CV_FIELD_END; f++) {
        const bool is_list = f->kind == CV_FIELD_SET || f->kind == CV_FIELD_VALUES;
        if (!is_list && strcmp(f->name, name) == 0) {
            return scalar;
        }
        scalar += !is_list;
    }
    return CV_FIELDS_MAX;
}

/* For the report: the score that a node reports. The score in a proposal may belong to another
 * node, named by the field `id`. A score is sent plus one: 0 is unknown. */
static void note_score(struct sim_world *w, cv_id from, uint32_t payload)
{
    const struct sim_score_place *place =
        &w->messages.score_place[w->messages.payload[payload].type];
    if (!w->options.keeps_history || place->first + SIM_SCORE_PARTS > CV_FIELDS_MAX) {
        return;
    }
    const struct cv_message *message = payload_decode(w, payload, &w->messages.leaving);
    if (place->owner != CV_FIELDS_MAX && message->field[place->owner] != from) {
        return;
    }
    if (w->history.score == NULL) {
        w->history.score = cv__allocate(w->node_count, sizeof *w->history.score);
    }
    struct sim_score *score = &w->history.score[from - 1];
    score->count = 0;
    for (uint32_t i = 0; i < SIM_SCORE_PARTS; i++) {
        score->part[i] = (int64_t)message->field[place->first + i] - 1;
        const bool is_said = i == 0 || score->part[i] > 0; /* unused parts are 0 */
        score->count = is_said ? i + 1 : score->count;
    }
}

static void send_one(struct sim_world *w, cv_id from, cv_id to, uint32_t payload)
{
    const uint32_t type = w->messages.payload[payload].type;
    count_message(w, &w->messages.payload[payload]);
    note_send(w, from, to, payload);
    int64_t delay_ns[2];
    switch (sim_network_send(w->network, &w->net_rng, from, to, delay_ns)) {
    case SIM_FATE_UNREACHABLE:
        sim_world_note(w, CV_RECORD_UNREACHABLE, to, from, type, w->messages.count, 0);
        break;
    case SIM_FATE_LOST:
        w->messages.lost_count++;
        sim_world_note(w, CV_RECORD_LOST, to, from, type, w->messages.count, 0);
        if (sim_world_node(w, to)->is_up) {
            sim_properties_lose(w, from, to);
        }
        break;
    case SIM_FATE_TWICE:
        depart(w, SIM_FLIGHT_MESSAGE, from, to, payload, delay_ns[1]);
        depart(w, SIM_FLIGHT_MESSAGE, from, to, payload, delay_ns[0]);
        break;
    case SIM_FATE_ONCE:
        depart(w, SIM_FLIGHT_MESSAGE, from, to, payload, delay_ns[0]);
        break;
    }
}

void sim_message_send(struct sim_world *w, cv_id from, uint32_t payload, cv_id first, cv_id last,
                      bool to_self)
{
    last = last < w->node_count ? last : w->node_count;
    note_score(w, from, payload);
    for (cv_id to = first; to <= last; to++) {
        if (to != from) {
            send_one(w, from, to, payload);
        }
    }
    if (first <= last) {
        cv__properties_send(&w->properties, from);
    }
    if (to_self) {
        depart(w, SIM_FLIGHT_MESSAGE, from, from, payload, 0);
    }
}

/* ---- Witnesses ------------------------------------------------------------------------------- */

bool sim_message_bequeath(struct sim_world *w, cv_id id)
{
    const struct sim_node *n = sim_world_node(w, id);
    const int64_t local_ns = sim_clock_local(&n->clock, w->now_ns);
    struct cv_message last = {0};
    enum sim_flight_kind says = SIM_FLIGHT_HINT;
    if (n->certain_ns <= local_ns) {
        const bool is_more =
            w->protocol->farewell != NULL && w->protocol->farewell(n->state, local_ns, &last);
        says = is_more ? SIM_FLIGHT_FAREWELL : SIM_FLIGHT_CERTAIN;
    }
    w->messages.has_witnesses = true;
    const uint32_t payload =
        says == SIM_FLIGHT_FAREWELL ? sim_message_encode(w, &last) : sim_message_keep(w, "", 1);
    for (cv_id to = 1; to <= w->node_count; to++) {
        int64_t delay_ns[2] = {0};
        /* A witness repeats its message until it is heard; with `manual`, the scenario says
         * when. */
        if (to != id && (w->scenario->is_manual || sim_network_send(w->network, &w->net_rng, id, to,
                                                                    delay_ns) >= SIM_FATE_ONCE)) {
            depart(w, says, id, to, payload, delay_ns[0]);
        }
    }
    sim_message_release(w, payload);
    return says != SIM_FLIGHT_HINT;
}

static uint64_t *heard_life(const struct sim_world *w, struct sim_node *n, cv_id from)
{
    if (n->heard_life == NULL) {
        n->heard_life = cv__allocate(w->node_count, sizeof *n->heard_life);
    }
    return &n->heard_life[from - 1];
}

static void deliver_witness(struct sim_world *w, uint32_t index)
{
    /* a copy: the array moves if a core sends */
    const struct sim_flight f = w->messages.flight[index];
    struct sim_node *n = sim_world_node(w, f.to);
    if (*heard_life(w, n, f.from) > f.sender_life) {
        flight_free(w, index);
        return; /* it has restarted: frames of an earlier start are refused */
    }
    const struct cv_record record = {
        .at_ns = w->now_ns,
        .kind = CV_RECORD_NOTE,
        .node = f.to,
        .peer = f.from,
        .text = f.kind == SIM_FLIGHT_HINT ? "the witness of {peer} reports that it is down"
                                          : "the witness of {peer} reports that it is dead",
    };
    cv__trace_add(&w->trace, &record, NULL);
    struct cv_event event = {
        .kind = CV_EVENT_PEER_DOWN,
        .peer = f.from,
        .is_certain = f.kind != SIM_FLIGHT_HINT,
    };
    sim_node_step(w, f.to, &event);
    if (f.kind == SIM_FLIGHT_FAREWELL && n->is_up) {
        struct cv_event last = {
            .kind = CV_EVENT_MESSAGE,
            .peer = f.from,
            .delay_ns_max = CV_DELAY_UNKNOWN,
            .message =
                payload_decode(w, f.payload, &w->messages.arriving[f.payload % SIM_DECODED_COUNT]),
        };
        cv__node_decoded_message(&n->host, sim_world_host(n), &last);
    }
    flight_free(w, index);
}

/* ---- Delivery -------------------------------------------------------------------------------- */

/* The stamps of the frame give a bound on its delay; the frame may improve the bounds of later
 * ones. */
static int64_t bound_delay(struct sim_world *w, const struct sim_flight *f, int64_t local_ns)
{
    if (f->from == f->to) {
        return 0;
    }
    struct sim_node *n = sim_world_node(w, f->to);
    if (n->echo == NULL) {
        if (w->node_count > SIM_BOUNDS_NODES_MAX) {
            return CV_DELAY_UNKNOWN;
        }
        n->echo = cv__allocate(w->node_count, sizeof *n->echo);
    }
    const int64_t drift_ppb = w->scenario->config.drift_ppb;
    cv__echo_update(&n->echo[f->from - 1], &f->stamp, local_ns, drift_ppb);
    return cv__delay_bound(&f->stamp, n->boot, local_ns, drift_ppb, w->scenario->delay_min_ns);
}

/* If the scenario sets a cost, handling a message takes time, and a node handles messages one after
 * the other in the order they arrive. True: this one must wait. */
static bool waits_for_turn(struct sim_world *w, uint32_t index)
{
    struct sim_flight *f = &w->messages.flight[index];
    struct sim_node *n = sim_world_node(w, f->to);
    if (f->life != 0 || f->from == f->to || (w->cost_ns == 0 && n->busy_ns <= w->now_ns)) {
        return false;
    }
    n->busy_ns = cv__max64(n->busy_ns, w->now_ns) + w->cost_ns;
    f->life = n->life;
    sim_queue_push(&w->queue, n->busy_ns, SIM_EVENT_DELIVER, index);
    return true;
}

void sim_message_deliver(struct sim_world *w, uint32_t index)
{
    /* Both may move when the core sends. */
    const struct sim_flight *f = &w->messages.flight[index];
    const struct sim_payload *p = &w->messages.payload[f->payload];
    struct sim_node *n = sim_world_node(w, f->to);
    /* down, or crashed while the message waited */
    if (!n->is_up || (f->life != 0 && f->life != n->life)) {
        sim_world_note(w, CV_RECORD_DROPPED, f->to, f->from, p->type, f->number, 0);
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
    if (f->kind != SIM_FLIGHT_MESSAGE) {
        deliver_witness(w, index);
        return;
    }
    if (w->messages.has_witnesses) {
        uint64_t *life = heard_life(w, n, f->from);
        *life = f->sender_life > *life ? f->sender_life : *life;
    }
    const int64_t bound_ns = bound_delay(w, f, sim_clock_local(&n->clock, w->now_ns));
    sim_world_note(w, CV_RECORD_DELIVER, f->to, f->from, p->type, f->number, bound_ns);
    sim_properties_arrive(w, f->from, f->to, w->now_ns - f->sent_ns);
    struct cv_event event = {
        .kind = CV_EVENT_MESSAGE,
        .peer = w->protocol->is_anonymous ? CV_ID_NONE : f->from,
        .delay_ns_max = bound_ns,
        .message =
            payload_decode(w, f->payload, &w->messages.arriving[f->payload % SIM_DECODED_COUNT]),
    };
    cv__node_decoded_message(&n->host, sim_world_host(n), &event);
    flight_free(w, index);
}

void sim_message_lose(struct sim_world *w, uint32_t index)
{
    const struct sim_flight *f = &w->messages.flight[index];
    if (f->kind == SIM_FLIGHT_MESSAGE) {
        w->messages.lost_count++;
        sim_world_note(w, CV_RECORD_LOST, f->to, f->from, w->messages.payload[f->payload].type,
                       f->number, 0);
        sim_properties_lose(w, f->from, f->to);
    }
    flight_free(w, index);
}

uint32_t sim_message_repeat(struct sim_world *w, uint32_t index)
{
    const uint32_t copy = flight_new(w); /* the array may move */
    w->messages.flight[copy] = w->messages.flight[index];
    w->messages.payload[w->messages.flight[copy].payload].reference_count++;
    return copy;
}

void sim_message_drop_backlog(struct sim_world *w, struct sim_node *n)
{
    for (uint32_t i = 0; i < n->backlog_count; i++) {
        flight_free(w, n->backlog[i]);
    }
    n->backlog_count = 0;
}

static void decoded_init(struct sim_decoded *decoded, uint32_t node_count)
{
    decoded->payload = NONE;
    decoded->word = cv__allocate(cv_message_words_max(node_count), sizeof *decoded->word);
}

void sim_messages_init(struct sim_messages *m, const struct cv_protocol *protocol,
                       uint32_t node_count)
{
    CV_ASSERT(protocol->message_count <= SIM_TYPES_MAX);
    m->payload_free = NONE;
    m->flight_free = NONE;
    m->encoded = cv__allocate(cv_message_bytes_max(protocol, node_count), 1);
    for (uint32_t i = 0; i < SIM_DECODED_COUNT; i++) {
        decoded_init(&m->arriving[i], node_count);
    }
    decoded_init(&m->leaving, node_count);
    for (uint32_t i = 0; i < protocol->message_count; i++) {
        m->score_place[i].first = scalar_find(&protocol->messages[i], "score_1");
        m->score_place[i].owner = scalar_find(&protocol->messages[i], "id");
    }
}

void sim_messages_fini(struct sim_messages *m)
{
    for (uint32_t i = 0; i < m->payload_count; i++) {
        free(m->payload[i].bytes);
    }
    for (uint32_t i = 0; i < SIM_DECODED_COUNT; i++) {
        free(m->arriving[i].word);
    }
    free(m->leaving.word);
    free(m->payload);
    free(m->flight);
    free(m->encoded);
}
