/* tests/support/host.c - the smallest host that can run cores. */
#include "support/host.h"

#include "core/core.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void *must_alloc(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

struct cv_effects host_effects_new(const struct cv_config *config)
{
    const uint32_t words = cv_effects_words(config);
    struct cv_effects out = {
        .item = must_alloc(CV_EFFECTS_MAX * sizeof *out.item),
        .word = must_alloc(words * sizeof *out.word),
        .word_capacity = words,
        .note = must_alloc(CV_NOTES_MAX * sizeof *out.note),
    };
    memset(out.item, 0xa5, CV_EFFECTS_MAX * sizeof *out.item);
    memset(out.note, 0xa5, CV_NOTES_MAX * sizeof *out.note);
    memset(out.word, 0xa5, words * sizeof *out.word);
    return out;
}

void host_effects_free(struct cv_effects *out)
{
    free(out->item);
    free(out->note);
    free(out->word);
}

struct host *host_new(const struct cv_protocol *protocol, uint32_t node_count, uint64_t seed)
{
    assert_in_range(node_count, 1, HOST_NODES_MAX);
    struct host *host = must_alloc(sizeof *host);
    memset(host, 0, sizeof *host);
    host->protocol = protocol;
    host->node_count = node_count;
    host->seed = seed;
    host->delay_ns_min = 100 * NS_PER_US;
    host->delay_ns_max = NS_PER_MS;
    host->now_ns = NS_PER_S;
    for (cv_id id = 1; id <= node_count; id++) {
        struct host_node *node = &host->node[id];
        cv_config_init(&node->config, protocol, id, node_count);
        assert_int_equal(cv_core_configure(protocol, &node->config, NULL), CV_OK);
        node->state = must_alloc(cv_core_size(protocol, &node->config));
    }
    host->out = host_effects_new(&host->node[1].config);
    return host;
}

static void flight_end(struct host_flight *flight)
{
    free(flight->bytes);
    *flight = (struct host_flight){0};
}

void host_free(struct host *host)
{
    for (uint32_t i = 0; i < HOST_FLYING_MAX; i++) {
        flight_end(&host->flying[i]);
    }
    for (cv_id id = 1; id <= host->node_count; id++) {
        free(host->node[id].state);
    }
    host_effects_free(&host->out);
    free(host);
}

static int64_t pick(struct host *host, int64_t first, int64_t last)
{
    return first + (int64_t)(test_random(&host->seed) % (uint64_t)(last - first + 1));
}

static void host_send(struct host *host, cv_id from, cv_id to, const struct cv_message *message)
{
    if (test_random_below(&host->seed, 100) < host->loss_pct) {
        return;
    }
    struct host_flight *flight = host->flying;
    while (flight->to != CV_ID_NONE) {
        flight++;
        assert_true(flight < host->flying + HOST_FLYING_MAX);
    }
    flight->bytes = must_alloc(cv_message_bytes_max(host->protocol, host->node_count));
    flight->byte_count =
        cv__message_encode(host->protocol, host->node_count, message, flight->bytes);
    flight->from = from;
    flight->to = to;
    flight->arrives_ns = host->now_ns + pick(host, host->delay_ns_min, host->delay_ns_max);
    flight->order = host->flights++;
}

static void host_reply(struct host *host, cv_id to, const struct cv_event *event)
{
    struct host_answer *answer = host->answer;
    while (answer->to != CV_ID_NONE) {
        answer++;
        assert_true(answer < host->answer + HOST_ANSWERS_MAX);
    }
    *answer = (struct host_answer){
        .to = to,
        .arrives_ns = host->now_ns + pick(host, host->delay_ns_min, host->delay_ns_max),
        .nonce = host->node[to].nonce,
        .event = *event,
    };
}

static void host_ask(struct host *host, cv_id from, uint64_t request)
{
    const struct cv_event event = {
        .kind = CV_EVENT_SEQUENCE, .request = request, .sequence = ++host->sequence};
    host_reply(host, from, &event);
}

/* A store that carries out each request at once; requests and answers are lost like messages. */
static void host_ask_store(struct host *host, cv_id from, const struct cv_effect *e)
{
    if (test_random_below(&host->seed, 100) < host->loss_pct) {
        return;
    }
    struct host_record *r = &host->record;
    const uint64_t label = host->node[from].nonce;
    struct cv_event event = {.kind = CV_EVENT_STORE, .request = e->request};
    if (r->holder != 0 && host->now_ns >= r->until_ns) {
        r->holder = 0;
    }
    const bool is_holder = r->holder == label && r->attempt == e->attempt;
    if (e->verb == CV_STORE_RELEASE && is_holder) {
        r->holder = 0;
    } else if (e->verb == CV_STORE_ACQUIRE && r->holder == 0) {
        *r = (struct host_record){label, e->attempt, r->token + 1, host->now_ns + e->lease_ns};
    } else if ((e->verb == CV_STORE_ACQUIRE || e->verb == CV_STORE_RENEW) && is_holder) {
        r->until_ns = host->now_ns + e->lease_ns;
    }
    const bool is_granted = e->verb != CV_STORE_READ && e->verb != CV_STORE_RELEASE &&
                            r->holder == label && r->attempt == e->attempt;
    event.verdict = is_granted ? CV_STORE_GRANTED : r->holder != 0 ? CV_STORE_HELD : CV_STORE_FREE;
    event.token = r->holder != 0 ? r->token : 0;
    event.holder = r->holder;
    event.duration_ns = r->holder != 0 ? r->until_ns - host->now_ns : 0;
    if (test_random_below(&host->seed, 100) >= host->loss_pct) {
        host_reply(host, from, &event);
    }
}

/* The node with this label; CV_ID_ANONYMOUS: a process that is gone. */
static cv_id host_name(const struct host *host, const struct cv_leadership *leadership)
{
    for (cv_id id = 1; id <= host->node_count; id++) {
        if (leadership->leader == CV_ID_ANONYMOUS && host->node[id].nonce == leadership->label) {
            return id;
        }
    }
    return leadership->leader;
}

static void host_carry_out(struct host *host, cv_id id, const struct cv_effect *effect)
{
    struct host_node *node = &host->node[id];
    switch (effect->kind) {
    case CV_EFFECT_SEND:
        for (cv_id to = effect->first; to <= effect->last && to <= host->node_count; to++) {
            if (to != id || effect->to_self) {
                host_send(host, id, to, &effect->message);
            }
        }
        break;
    case CV_EFFECT_ARM:
        node->timer_ns[effect->timer] =
            cv__max64(host->now_ns, pick(host, effect->earliest_ns, effect->latest_ns));
        break;
    case CV_EFFECT_DISARM:
        node->timer_ns[effect->timer] = 0;
        break;
    case CV_EFFECT_PERSIST:
        memcpy(node->persisted, effect->persist, sizeof node->persisted);
        node->persisted_count = effect->persist_count;
        break;
    case CV_EFFECT_LEADERSHIP:
        node->leadership = effect->leadership;
        node->leadership.leader = host_name(host, &effect->leadership);
        node->leadership.members = (struct cv_list){0}; /* was lent for the step only */
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        host_ask(host, id, effect->request);
        break;
    case CV_EFFECT_ASK_STORE:
        host_ask_store(host, id, effect);
        break;
    }
}

void host_step(struct host *host, cv_id id, struct cv_event *event)
{
    event->now_ns = host->now_ns;
    if (host->watch != NULL) {
        host->watch(host, id, event, NULL, host->watch_data);
    }
    cv__core_step(host->protocol, host->node[id].state, event, &host->out);
    host->steps++;
    if (host->watch != NULL) {
        host->watch(host, id, event, &host->out, host->watch_data);
    }
    for (uint32_t i = 0; i < host->out.item_count; i++) {
        host_carry_out(host, id, &host->out.item[i]);
    }
}

void host_start(struct host *host, cv_id id)
{
    struct host_node *node = &host->node[id];
    memset(node->state, 0xa5, cv_core_size(host->protocol, &node->config));
    memset(node->timer_ns, 0, sizeof node->timer_ns);
    memset(&node->leadership, 0, sizeof node->leadership);
    cv__core_init(host->protocol, node->state, &node->config);
    node->is_up = true;
    node->nonce = test_random(&host->seed);
    host_step(host, id,
              &(struct cv_event){.kind = CV_EVENT_START,
                                 .persisted = node->persisted,
                                 .persisted_count = node->persisted_count,
                                 .nonce = node->nonce});
}

void host_crash(struct host *host, cv_id id)
{
    host->node[id].is_up = false;
}

/* The earlier of two messages; equal times go by the order of sending. */
static bool is_before(const struct host_flight *a, const struct host_flight *b)
{
    return a->arrives_ns != b->arrives_ns ? a->arrives_ns < b->arrives_ns : a->order < b->order;
}

static void host_deliver(struct host *host, struct host_flight *flight)
{
    struct cv_message message;
    uint64_t *word = must_alloc(cv_message_words_max(host->node_count) * sizeof *word);
    assert_int_equal(cv_message_decode(host->protocol, host->node_count, flight->bytes,
                                       flight->byte_count, word, &message),
                     CV_OK);
    const cv_id from = flight->from;
    const cv_id to = flight->to;
    flight_end(flight);
    if (host->node[to].is_up) {
        host_step(host, to,
                  &(struct cv_event){.kind = CV_EVENT_MESSAGE,
                                     .peer = host->protocol->is_anonymous ? CV_ID_NONE : from,
                                     .message = &message,
                                     .delay_ns_max = host->delay_ns_max});
    }
    free(word);
}

static void host_answer(struct host *host, struct host_answer *answer)
{
    struct host_answer a = *answer;
    *answer = (struct host_answer){0};
    if (host->node[a.to].is_up && host->node[a.to].nonce == a.nonce) {
        host_step(host, a.to, &a.event);
    }
}

bool host_next(struct host *host, int64_t until_ns)
{
    struct host_flight *flight = NULL;
    for (uint32_t i = 0; i < HOST_FLYING_MAX; i++) {
        struct host_flight *f = &host->flying[i];
        if (f->to != CV_ID_NONE && (flight == NULL || is_before(f, flight))) {
            flight = f;
        }
    }
    int64_t due_ns = flight != NULL ? flight->arrives_ns : INT64_MAX;
    cv_id timer_of = CV_ID_NONE;
    uint32_t timer = 0;
    for (cv_id id = 1; id <= host->node_count; id++) {
        for (uint32_t t = 0; t < CV_TIMERS_MAX; t++) {
            const int64_t at_ns = host->node[id].is_up ? host->node[id].timer_ns[t] : 0;
            if (at_ns != 0 && at_ns < due_ns) {
                due_ns = at_ns;
                timer_of = id;
                timer = t;
            }
        }
    }
    struct host_answer *answer = NULL;
    for (uint32_t i = 0; i < HOST_ANSWERS_MAX; i++) {
        if (host->answer[i].to != CV_ID_NONE && host->answer[i].arrives_ns < due_ns) {
            answer = &host->answer[i];
            due_ns = answer->arrives_ns;
        }
    }
    if (due_ns > until_ns) {
        host->now_ns = until_ns;
        return false;
    }
    host->now_ns = due_ns;
    if (answer != NULL) {
        host_answer(host, answer);
    } else if (timer_of == CV_ID_NONE) {
        host_deliver(host, flight);
    } else {
        host->node[timer_of].timer_ns[timer] = 0;
        host_step(host, timer_of, &(struct cv_event){.kind = CV_EVENT_TIMER, .timer = timer});
    }
    return true;
}

void host_run(struct host *host, int64_t until_ns)
{
    while (host_next(host, until_ns)) {
    }
}

cv_id host_leader(const struct host *host)
{
    cv_id leader = CV_ID_NONE;
    for (cv_id id = 1; id <= host->node_count; id++) {
        const struct host_node *node = &host->node[id];
        if (!node->is_up) {
            continue;
        }
        if (node->leadership.leader == CV_ID_NONE || node->leadership.leader > host->node_count ||
            (leader != CV_ID_NONE && leader != node->leadership.leader)) {
            return CV_ID_NONE;
        }
        leader = node->leadership.leader;
    }
    return leader;
}

uint32_t host_place_of(const struct cv_protocol *protocol, uint32_t type, const char *name)
{
    uint32_t scalars = 0;
    uint32_t lists = 0;
    const struct cv_field *field = protocol->messages[type].fields;
    for (; field->kind != CV_FIELD_END; field++) {
        const bool is_list = field->kind == CV_FIELD_SET || field->kind == CV_FIELD_VALUES;
        if (strcmp(field->name, name) == 0) {
            return is_list ? lists : scalars;
        }
        lists += is_list;
        scalars += !is_list;
    }
    fail_msg("no field %s", name);
    return 0;
}
