/* tests/support/cluster.c - see cluster.h. */
#include "support/cluster.h"

#include "core/core.h"
#include "support/host.h"
#include "support/scenarios.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

struct cluster *cluster_start(const char *format, ...)
{
    struct cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    va_list args;
    va_start(args, format);
    c->scenario = scenario_vread(format, args);
    va_end(args);
    c->trace_file = open_memstream(&c->trace, &c->trace_bytes);
    assert_non_null(c->trace_file);
    const struct sim_world_options options = {.keeps_history = true, .trace = c->trace_file};
    c->world = sim_world_new(c->scenario, c->scenario->seed, &options);
    cluster_run_until(c, 0);
    return c;
}

struct cluster *cluster_settled(const char *protocol, uint32_t timeout_s, uint32_t nodes,
                                double until_ms)
{
    struct cluster *c = cluster_start("protocol %s heartbeat=100ms timeout=%us delta=1ms\n"
                                      "nodes %u\nlink * delay 1ms\nrun %us\n",
                                      protocol, timeout_s, nodes, 10 * timeout_s);
    cluster_run_until(c, until_ms);
    assert_int_equal(cluster_leader(c), nodes);
    return c;
}

void cluster_orphan(struct cluster *c, uint64_t detectors)
{
    const cv_id coordinator = c->world->node_count;
    assert_in_range(coordinator, 2, 64);
    cluster_crash(c, coordinator);
    for (cv_id id = 1; id < coordinator; id++) {
        if ((detectors >> (id - 1) & 1) != 0) {
            cluster_suspect(c, id, coordinator);
        }
    }
}

void cluster_drop(struct cluster *c)
{
    sim_world_free(c->world);
    sim_scenario_free(c->scenario);
    assert_int_equal(fclose(c->trace_file), 0);
    free(c->trace);
    free(c);
}

void cluster_end(struct cluster *c)
{
    sim_world_run(c->world, c->scenario->run_ns);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const struct cv_broken *broken = &c->world->properties.broken[i];
        const uint32_t promised = c->world->protocol->promises | CV_PROP(ASSERTIONS);
        if (broken->is_broken && (promised & BIT(i)) != 0) {
            fail_msg("%s: %s", cv_property_name((enum cv_property)i), broken->detail);
        }
    }
    for (uint32_t i = 0; i < c->scenario->expect_count; i++) {
        if (!c->world->expect_result[i].is_ok) {
            fail_msg("%s: %s", c->scenario->expect[i].text, c->world->expect_result[i].detail);
        }
    }
    cluster_drop(c);
}

static int64_t to_ns(double ms)
{
    return (int64_t)(ms * (double)NS_PER_MS + 0.5);
}

void cluster_run_until(struct cluster *c, double at_ms)
{
    const int64_t at_ns = to_ns(at_ms);
    assert_true(at_ns >= c->world->now_ns);
    assert_true(at_ns < c->scenario->run_ns); /* cluster_end() runs to the end */
    sim_world_run(c->world, at_ns);
    assert_false(c->world->is_over);
    assert_int_equal(fflush(c->trace_file), 0);
}

double cluster_now_ms(const struct cluster *c)
{
    return (double)c->world->now_ns / (double)NS_PER_MS;
}

cv_id cluster_run_until_leader(struct cluster *c, double limit_ms)
{
    const double step_ms = 0.5;
    const double end_ms = cluster_now_ms(c) + limit_ms;
    while (cluster_leader(c) == CV_ID_NONE) {
        if (cluster_now_ms(c) >= end_ms) {
            fail_msg("no agreement on a leader within %.1f ms", limit_ms);
        }
        cluster_run_until(c, cluster_now_ms(c) + step_ms);
    }
    return cluster_leader(c);
}

static void act(struct cluster *c, struct sim_action action)
{
    action.at_ns = c->world->now_ns;
    sim_world_schedule_action(c->world, &action);
    cluster_run_until(c, cluster_now_ms(c));
}

void cluster_crash(struct cluster *c, cv_id node)
{
    assert_true(c->world->node[node - 1].is_up);
    act(c, (struct sim_action){.kind = SIM_ACTION_CRASH, .node = node});
}

void cluster_recover(struct cluster *c, cv_id node)
{
    assert_false(c->world->node[node - 1].is_up);
    act(c, (struct sim_action){.kind = SIM_ACTION_RECOVER, .node = node});
}

void cluster_suspect(struct cluster *c, cv_id node, cv_id dead)
{
    act(c, (struct sim_action){.kind = SIM_ACTION_PEER_DOWN, .node = node, .peer_down.peer = dead});
}

cv_id cluster_leader_at(const struct cluster *c, cv_id node)
{
    return c->world->properties.node[node - 1].leader;
}

cv_id cluster_leader(const struct cluster *c)
{
    cv_id leader = CV_ID_NONE;
    for (cv_id id = 1; id <= c->world->node_count; id++) {
        if (!c->world->node[id - 1].is_up) {
            continue;
        }
        const cv_id believed = cluster_leader_at(c, id);
        if (believed == CV_ID_NONE || (leader != CV_ID_NONE && believed != leader)) {
            return CV_ID_NONE;
        }
        leader = believed;
    }
    return leader;
}

uint32_t cluster_leader_count(const struct cluster *c)
{
    uint32_t count = 0;
    for (cv_id id = 1; id <= c->world->node_count; id++) {
        count += sim_world_holds(c->world, id);
    }
    return count;
}

static bool is_of_election(const char *type)
{
    return strcmp(type, "HEARTBEAT") != 0 && strcmp(type, "ALIVE") != 0 && strcmp(type, "ACK") != 0;
}

uint64_t cluster_sent(const struct cluster *c, const char *type)
{
    uint64_t sent = 0;
    bool is_known = type == NULL;
    for (uint32_t i = 0; i < c->world->protocol->message_count; i++) {
        const char *name = c->world->protocol->messages[i].name;
        const bool is_meant = type == NULL ? is_of_election(name) : strcmp(name, type) == 0;
        is_known = is_known || is_meant;
        sent += is_meant ? c->world->messages.count_by_type[i] : 0;
    }
    assert_true(is_known);
    return sent;
}

/* The number after `"key": `; 0 if there is none. */
static double number_of(const char *line, const char *key)
{
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at != NULL ? strtod(at + strlen(quoted), NULL) : 0;
}

static bool has_text(const char *line, const char *key, const char *text)
{
    char quoted[80];
    (void)snprintf(quoted, sizeof quoted, "\"%s\": \"%s\"", key, text);
    return strstr(line, quoted) != NULL;
}

static bool is_asked_for(const struct cluster_query *query, const char *line, double until_ms)
{
    const double rounding_ms = 1e-6;
    if (!has_text(line, "event", query->event) ||
        (query->type != NULL && !has_text(line, "type", query->type))) {
        return false;
    }
    const double at_ms = number_of(line, "t_s") * 1000;
    return (query->from == 0 || (cv_id)number_of(line, "from") == query->from) &&
           (query->to == 0 || (cv_id)number_of(line, "to") == query->to) &&
           at_ms >= query->since_ms - rounding_ms && at_ms <= until_ms + rounding_ms;
}

uint32_t cluster_count(const struct cluster *c, const struct cluster_query *query)
{
    const double until_ms = query->until_ms > 0 ? query->until_ms : cluster_now_ms(c);
    uint32_t count = 0;
    for (const char *line = c->trace; line < c->trace + c->trace_bytes;) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        char one[512];
        const size_t length = (size_t)(end - line);
        if (length < sizeof one) { /* only the head of the trace is longer */
            memcpy(one, line, length);
            one[length] = '\0';
            count += is_asked_for(query, one, until_ms);
        }
        line = end + 1;
    }
    return count;
}

static bool is_flying(const struct sim_world *w, uint32_t flight)
{
    for (uint32_t at = w->messages.flight_free; at != UINT32_MAX;
         at = w->messages.flight[at].payload) {
        if (at == flight) {
            return false;
        }
    }
    return true;
}

const struct cv_message *cluster_in_flight_with(const struct cluster *c, const char *type,
                                                cv_id from, cv_id to, const char *field,
                                                uint64_t value)
{
    static struct cv_message message;
    static uint64_t word[4 * CV_MEMBERS_MAX];
    const struct sim_world *w = c->world;
    assert_true(cv_message_words_max(w->node_count) <= COUNT_OF(word));
    for (uint32_t i = 0; i < w->messages.flight_count; i++) {
        const struct sim_flight *f = &w->messages.flight[i];
        if (!is_flying(w, i) || f->from != from || f->to != to) {
            continue;
        }
        const struct sim_payload *p = &w->messages.payload[f->payload];
        if (strcmp(w->protocol->messages[p->type].name, type) != 0) {
            continue;
        }
        assert_int_equal(
            cv_message_decode(w->protocol, w->node_count, p->bytes, p->byte_count, word, &message),
            CV_OK);
        if (field == NULL || cluster_field(c, &message, field) == value) {
            return &message;
        }
    }
    return NULL;
}

const struct cv_message *cluster_in_flight(const struct cluster *c, const char *type, cv_id from,
                                           cv_id to)
{
    return cluster_in_flight_with(c, type, from, to, /* field= any */ NULL, 0);
}

uint64_t cluster_field(const struct cluster *c, const struct cv_message *message, const char *field)
{
    return message->field[host_place_of(c->world->protocol, message->type, field)];
}

uint64_t cluster_token_at(const struct cluster *c, cv_id node)
{
    return c->world->properties.node[node - 1].token;
}

bool cluster_would_follow(const struct cluster *c, cv_id node, cv_id leader, uint64_t term)
{
    const struct sim_world *w = c->world;
    const struct sim_node *n = &w->node[node - 1];
    assert_true(n->is_up);
    const struct cv_message heartbeat = {.type = 0, .field = {term, CV_ID_NONE}};
    assert_string_equal(w->protocol->messages[0].name, "HEARTBEAT");
    const struct cv_event event = {.kind = CV_EVENT_MESSAGE,
                                   .now_ns = sim_clock_local(&n->clock, w->now_ns),
                                   .peer = leader,
                                   .message = &heartbeat,
                                   .delay_ns_max = INT64_MAX};
    const size_t bytes = cv_core_size(w->protocol, &c->scenario->config);
    void *copy = malloc(bytes);
    struct cv_effects out = {
        .item = calloc(CV_EFFECTS_MAX, sizeof *out.item),
        .word = calloc(cv_effects_words(&c->scenario->config), sizeof *out.word),
        .word_capacity = cv_effects_words(&c->scenario->config),
    };
    assert_true(copy != NULL && out.item != NULL && out.word != NULL);
    memcpy(copy, n->state, bytes);
    cv__core_step(w->protocol, copy, &event, &out);
    cv_id followed = w->properties.node[node - 1].leader;
    for (uint32_t i = 0; i < out.item_count; i++) {
        if (out.item[i].kind == CV_EFFECT_LEADERSHIP) {
            followed = out.item[i].leadership.leader;
        }
    }
    /* It has followed in another term and refuses now: the refusal says so. */
    for (uint32_t i = 0; i < out.item_count; i++) {
        const bool is_refusal =
            out.item[i].kind == CV_EFFECT_SEND &&
            strcmp(w->protocol->messages[out.item[i].message.type].name, "REFUSE") == 0;
        followed = is_refusal ? CV_ID_NONE : followed;
    }
    free(copy);
    free(out.item);
    free(out.word);
    return followed == leader;
}

double cluster_decided_ms(const struct cluster *c)
{
    int64_t at_ns = -1;
    for (uint32_t i = 0; i < c->world->history.view_count; i++) {
        if (c->world->history.view[i].leader != CV_ID_NONE) {
            at_ns = cv__max64(at_ns, c->world->history.view[i].at_ns);
        }
    }
    return (double)at_ns / (double)NS_PER_MS;
}
