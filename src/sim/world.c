/* src/sim/world.c - the events of a run in their order, its beginning and its end. */
#include "sim/world.h"

#include "base/catch.h"
#include "base/memory.h"
#include "core/core.h"
#include "core/nodeset.h"
#include "sim/expect.h"
#include "sim/hold.h"
#include "sim/sequencer_request.h"

#include <stdlib.h>
#include <string.h>

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

void sim_world_note(struct sim_world *w, enum cv_record_kind kind, cv_id node, cv_id peer,
                    uint32_t what, uint64_t number, int64_t bound_ns)
{
    cv__trace_note(&w->trace, (struct cv_record){.at_ns = w->now_ns,
                                                 .kind = kind,
                                                 .node = node,
                                                 .peer = peer,
                                                 .what = what,
                                                 .number = number,
                                                 .bound_ns = bound_ns});
}

/* ---- The run --------------------------------------------------------------------------------- */

void sim_world_schedule_action(struct sim_world *w, const struct sim_action *action)
{
    w->action = cv__grow(w->action, &w->action_capacity, w->action_count, sizeof *w->action);
    w->action[w->action_count] = *action;
    sim_queue_push(&w->queue, action->at_ns, SIM_EVENT_ACTION, w->action_count++);
}

void sim_world_dispatch(struct sim_world *w, uint32_t kind, uint32_t ref)
{
    switch (kind) {
    case SIM_EVENT_START:
        if (!sim_world_node(w, ref)->is_up) {
            sim_node_start(w, ref);
            sim_properties_disturb(w);
            sim_properties_update(w);
        }
        break;
    case SIM_EVENT_DELIVER:
        sim_message_deliver(w, ref);
        break;
    case SIM_EVENT_TIMER:
        sim_node_on_timer(w, ref);
        break;
    case SIM_EVENT_DISK:
        sim_node_on_disk(w, ref);
        break;
    case SIM_EVENT_ACTION:
        sim_actions_do(w, ref);
        break;
    case SIM_EVENT_CHECK:
        sim_properties_check(w);
        break;
    case SIM_EVENT_SEQUENCER_REQUEST:
        sim_sequencer_request_serve(w, ref);
        break;
    case SIM_EVENT_SEQUENCER_ANSWER:
        sim_sequencer_request_answer(w, ref);
        break;
    case SIM_EVENT_STORE_REQUEST:
        sim_store_request_arrive(w, ref);
        break;
    case SIM_EVENT_EXPIRY:
        sim_store_request_expire(w);
        break;
    default:
        CV_ASSERT(!"an unknown kind of event");
    }
}

void sim_world_lose(struct sim_world *w, uint32_t kind, uint32_t ref)
{
    switch (kind) {
    case SIM_EVENT_DELIVER:
        sim_message_lose(w, ref);
        break;
    case SIM_EVENT_STORE_REQUEST:
        sim_store_request_lose(w, ref);
        break;
    default:
        CV_ASSERT(kind == SIM_EVENT_SEQUENCER_REQUEST || kind == SIM_EVENT_SEQUENCER_ANSWER);
        sim_sequencer_request_lose(w, ref, kind == SIM_EVENT_SEQUENCER_ANSWER);
    }
}

uint32_t sim_world_repeat(struct sim_world *w, uint32_t kind, uint32_t ref)
{
    switch (kind) {
    case SIM_EVENT_DELIVER:
        return sim_message_repeat(w, ref);
    case SIM_EVENT_STORE_REQUEST:
        return sim_store_request_repeat(w, ref);
    default:
        CV_ASSERT(kind == SIM_EVENT_SEQUENCER_REQUEST || kind == SIM_EVENT_SEQUENCER_ANSWER);
        return sim_sequencer_request_repeat(w, ref);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct sim_leadership_span *x = a, *y = b;
    if (x->from_ns != y->from_ns) {
        return x->from_ns < y->from_ns ? -1 : 1;
    }
    return x->node < y->node ? -1 : x->node > y->node;
}

static void finish(struct sim_world *w)
{
    sim_expect_finish(w);
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (w->properties.node[id - 1].holds) {
            sim_hold_end(w, id, "running");
        }
    }
    if (w->history.span_count > 0) { /* they were recorded as they ended */
        qsort(w->history.span, w->history.span_count, sizeof *w->history.span, by_start);
    }
}

struct stretch {
    struct sim_world *world;
    int64_t until_ns;
};

static void run_events(void *context)
{
    const struct stretch *stretch = context;
    struct sim_world *w = stretch->world;
    const int64_t until_ns = stretch->until_ns;
    while (!w->is_over && w->queue.near.count > 0 && sim_queue_next_ns(&w->queue) <= until_ns) {
        const struct sim_queue_entry entry = sim_queue_pop(&w->queue);
        if (entry.at_ns > w->now_ns) {
            if (w->scenario->expect_count > 0) {
                sim_expect_judge(w, w->now_ns, entry.at_ns);
            }
            w->now_ns = entry.at_ns;
            cv__properties_time(&w->properties, w->now_ns);
            cv__properties_look(&w->properties);
            if (w->scenario->is_manual) {
                sim_properties_check(w); /* a check that is due comes before the next event */
            }
        }
        sim_world_dispatch(w, entry.kind, entry.ref);
        if (w->crashing != CV_ID_NONE) {
            sim_actions_crash(w);
        }
    }
}

void sim_world_run(struct sim_world *w, int64_t until_ns)
{
    struct stretch stretch = {w, until_ns};
    struct cv_failure failure;
    if (!cv__catch(run_events, &stretch, &failure)) {
        w->is_over = true;
        cv__properties_break(&w->properties, CV_PROPERTY_ASSERTIONS, "%s (%s:%d)",
                             failure.expression, failure.file, failure.line);
    }
    w->properties.judged[CV_PROPERTY_ASSERTIONS] = w->host.counts.steps;
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

bool sim_world_holds(const struct sim_world *w, cv_id id)
{
    return cv__properties_holds(&w->properties, id, w->now_ns);
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
    const size_t bytes = (cv__core_size(w->protocol, &w->scenario->config) + 63) / 64 * 64;
    w->node = cv__allocate(w->node_count, sizeof *w->node);
    w->states = cv__allocate(w->node_count, bytes);
    for (cv_id id = 1; id <= w->node_count; id++) {
        struct sim_node *n = sim_world_node(w, id);
        n->world = w;
        n->id = id;
        n->state = w->states + (id - 1) * bytes;
        const int64_t drawn_ns = sim_rng_range(&rng, NS_PER_S, 1000 * NS_PER_S);
        /* With `manual`, clocks begin in the order of ids, far apart: nothing is random. */
        n->clock.local_base_ns = w->scenario->is_manual ? id * 1000 * NS_PER_S : drawn_ns;
        for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
            n->timer[i].queued_ns = INT64_MAX;
        }
        const int64_t within_ns = w->scenario->start_within_ns;
        if (w->scenario->is_down[id - 1]) {
            sim_hold_life(w, id, SIM_LIFE_DOWN); /* until an action starts it */
            continue;
        }
        sim_queue_push(&w->queue, within_ns > 0 ? sim_rng_range(&rng, 0, within_ns) : 0,
                       SIM_EVENT_START, id);
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
    sim_rng_init(&w->net_rng, seed, STREAM_NETWORK);
    sim_rng_init(&w->timer_rng, seed, STREAM_TIMERS);
    sim_rng_init(&w->fault_rng, seed, STREAM_FAULTS);
    sim_rng_init(&w->wake_rng, seed, STREAM_WAKES);
    sim_sequencer_requests_init(&w->sequencer_requests, seed, STREAM_SEQUENCER);
    sim_sequencer_init(&w->sequencer);
    sim_store_requests_init(&w->store_requests, seed, STREAM_STORE);
    sim_store_init(&w->store);

    w->effects.item = cv__allocate(CV_EFFECTS_MAX, sizeof *w->effects.item);
    w->effects.word_capacity = cv_effects_words(&scenario->config);
    w->effects.word = cv__allocate(w->effects.word_capacity, sizeof(uint64_t));
    if (options->trace != NULL || options->observe != NULL || options->takes_notes) {
        w->effects.note = cv__allocate(CV_NOTES_MAX, sizeof *w->effects.note);
    }
    sim_messages_init(&w->messages, w->protocol, w->node_count);
    w->calls = sim_node_calls;
    if (w->effects.note == NULL) {
        w->calls.stepped = NULL; /* it records notes only */
    }
    w->host = (struct cv_node_host){
        .calls = &w->calls,
        .protocol = w->protocol,
        .member_count = w->node_count,
        .out = &w->effects,
    };
    w->expect_seen = cv__allocate(scenario->expect_count, sizeof *w->expect_seen);
    w->expect_result = cv__allocate(scenario->expect_count, sizeof *w->expect_result);

    make_trace(w);
    make_network(w);
    sim_properties_init(w);
    make_nodes(w);
    sim_properties_update(w);
    sim_actions_schedule(w);
    sim_hold_open_election(w, CV_ID_NONE);
    return w;
}

void sim_world_free(struct sim_world *w)
{
    if (w == NULL) {
        return;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        free(w->node[i].deferred);
        free(w->node[i].backlog);
        free(w->node[i].echo);
        free(w->node[i].heard_life);
    }
    for (uint32_t i = w->scenario->action_count; i < w->action_count; i++) {
        if (w->action[i].kind == SIM_ACTION_PARTITION) {
            free(w->action[i].group); /* of drawn actions; the scenario owns its own */
        }
    }
    cv__properties_fini(&w->properties);
    free(w->tail);
    sim_network_free(w->network);
    sim_manual_fini(&w->manual);
    sim_queue_fini(&w->queue);
    free(w->node);
    free(w->states);
    free(w->action);
    sim_sequencer_requests_fini(&w->sequencer_requests);
    sim_store_requests_fini(&w->store_requests);
    free(w->effects.item);
    free(w->effects.word);
    free(w->effects.note);
    sim_messages_fini(&w->messages);
    sim_history_fini(&w->history);
    free(w->expect_seen);
    free(w->expect_result);
    free(w);
}
