/* src/sim/properties.c - reports the simulated world to the properties. */
#include "sim/properties.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/world.h"

#include <stdlib.h>

static void on_break(void *context, enum cv_property property, const char *detail)
{
    struct sim_world *w = context;
    const struct cv_record record = {
        .at_ns = w->now_ns, .kind = CV_RECORD_BROKEN, .what = property};
    cv__trace_add(&w->trace, &record, detail);
    if (w->tail == NULL && (w->scenario->promises & BIT(property)) != 0) {
        w->tail = cv__trace_tail(&w->trace);
    }
}

void sim_properties_init(struct sim_world *w)
{
    const struct sim_scenario *s = w->scenario;
    const struct cv_properties_setting setting =
        cv__properties_setting(w->protocol, &s->config, s->promises, s->assumes);
    CV_ASSERT(setting.node_count == w->node_count);
    cv__properties_init(&w->properties, &setting, on_break, w);
}

/* Does the clock drift by more than the protocol's bound? */
static bool is_drifting(const struct sim_world *w, const struct sim_clock *clock)
{
    const int64_t bound_ppb = w->scenario->config.drift_ppb;
    return clock->drift_ppb > bound_ppb || clock->drift_ppb < -bound_ppb;
}

/* ---- Who is connected ------------------------------------------------------------------------ */

static bool is_steady(const struct sim_world *w, const struct sim_node *n)
{
    const bool is_prompt =
        4 * n->disk.delay_ns <= w->properties.setting.timely_ns && n->late_ns == 0;
    return n->is_up && !n->is_paused && !n->has_stopped && !n->disk.fails && is_prompt &&
           !is_drifting(w, &n->clock);
}

/* In both directions. */
static bool is_connected(const struct sim_world *w, cv_id a, cv_id b)
{
    return a == b ||
           (sim_network_reaches(w->network, a, b) && sim_network_reaches(w->network, b, a));
}

void sim_properties_update(struct sim_world *w)
{
    struct cv_connections *c = &w->properties.connections;
    if (!cv__connections_is_kept(c)) {
        return;
    }
    for (cv_id a = 1; a <= w->node_count; a++) {
        cv__connections_set_steady(c, w->now_ns, a, is_steady(w, &w->node[a - 1]));
        for (cv_id b = 1; b <= w->node_count; b++) {
            cv__connections_set_linked(c, w->now_ns, a, b, is_connected(w, a, b));
        }
    }
}

/* ---- Disturbances, and the check after a time without any ------------------------------------ */

static void queue_check(struct sim_world *w)
{
    if (!w->is_check_queued) {
        w->is_check_queued = true;
        sim_queue_push(&w->queue, cv__properties_due_ns(&w->properties), SIM_EVENT_CHECK, 0);
    }
}

void sim_properties_disturb(struct sim_world *w)
{
    cv__properties_disturb(&w->properties);
    queue_check(w);
}

void sim_properties_lose(struct sim_world *w, cv_id from, cv_id to)
{
    cv__properties_lose(&w->properties, from, to);
    queue_check(w);
}

void sim_properties_arrive(struct sim_world *w, cv_id from, cv_id to, int64_t delay_ns)
{
    if (cv__properties_arrive(&w->properties, from, to, delay_ns)) {
        queue_check(w);
    }
}

bool sim_properties_is_slow_save(const struct sim_world *w, const struct sim_node *n)
{
    return n->host.gate.is_saving && n->disk.saving_ns > w->properties.setting.delta_ns;
}

/* Checks lasting conditions, not single events such as a lost message. */
static bool is_behaving(const struct sim_world *w)
{
    const struct cv_properties_setting *setting = &w->properties.setting;
    const bool asks_sequencer = setting->sequence_ns > 0;
    const bool asks_store = setting->store_ns > 0;
    if ((asks_sequencer && w->sequencer.is_down) ||
        (asks_store && (w->store.is_down || is_drifting(w, &w->store.clock)))) {
        return false;
    }
    if (w->scenario->is_manual && !sim_manual_is_prompt(w)) {
        return false;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct sim_node *n = &w->node[i];
        const bool is_stuck = n->disk.fails || n->disk.delay_ns > setting->delta_ns ||
                              n->late_ns > 0 || /* protocols give no bound for late timers */
                              sim_properties_is_slow_save(w, n);
        const bool is_cut = (asks_store || asks_sequencer) && n->cut != 0;
        if (n->is_up && !n->has_stopped &&
            (n->is_paused || is_stuck || is_drifting(w, &n->clock) || is_cut)) {
            return false;
        }
    }
    return true;
}

/* While links are down: judges the protocol's promises for such a graph. */
static void check_graph(struct sim_world *w)
{
    if (w->properties.setting.graph_ns == 0) {
        return;
    }
    const int64_t due_ns = cv__properties_graph_due_ns(&w->properties);
    if (due_ns > w->now_ns) {
        w->is_check_queued = true;
        sim_queue_push(&w->queue, due_ns, SIM_EVENT_CHECK, 0);
        return;
    }
    const size_t words = cv__set_words(w->node_count);
    uint64_t *graph = cv__allocate(w->node_count * words, sizeof *graph);
    for (cv_id a = 1; a <= w->node_count; a++) {
        for (cv_id b = 1; b <= w->node_count; b++) {
            if (w->properties.node[a - 1].takes_part && w->properties.node[b - 1].takes_part &&
                is_connected(w, a, b)) {
                cv__set_add(graph + (a - 1) * words, b);
            }
        }
    }
    cv__properties_judge_graph(&w->properties, graph);
    free(graph);
}

void sim_properties_check(struct sim_world *w)
{
    const int64_t due_ns = cv__properties_due_ns(&w->properties);
    if (!w->is_check_queued) {
        return;
    }
    if (due_ns > w->now_ns) {
        sim_queue_push(&w->queue, due_ns, SIM_EVENT_CHECK, 0);
        return;
    }
    w->is_check_queued = false;
    if (!is_behaving(w)) {
        return;
    }
    if (sim_network_has_cuts(w->network)) {
        check_graph(w);
        return;
    }
    for (cv_id id = 1; id <= w->node_count; id++) {
        w->properties.node[id - 1].part = sim_network_group(w->network, id);
    }
    cv__properties_judge(&w->properties);
}
