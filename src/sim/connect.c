/* src/sim/connect.c - the ground truth of who is connected to whom, for how long. */
#include "sim/connect.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/world.h"

#include <stdlib.h>

static size_t pair(const struct sim_world *w, cv_id a, cv_id b)
{
    return (size_t)(a - 1) * w->node_count + (b - 1);
}

static bool is_kept(const struct sim_world *w)
{
    return w->connections.since_ns != NULL;
}

void sim_connect_init(struct sim_world *w)
{
    const uint32_t needs = CV_PROP(TIMELINESS) | CV_PROP(BOUNDED_INCONSISTENCY);
    if ((w->scenario->promises & needs) == 0 || w->node_count > SIM_CONNECT_NODES_MAX) {
        return;
    }
    const size_t pairs = (size_t)w->node_count * w->node_count;
    struct sim_connections *c = &w->connections;
    c->since_ns = cv__allocate(pairs, sizeof *c->since_ns);
    c->fast_ns = cv__allocate(pairs, sizeof *c->fast_ns);
    c->is_linked = cv__allocate(pairs, sizeof *c->is_linked);
    c->steady_ns = cv__allocate(w->node_count, sizeof *c->steady_ns);
    for (size_t i = 0; i < pairs; i++) {
        c->fast_ns[i] = -1;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        c->steady_ns[i] = INT64_MAX;
    }
    sim_connect_update(w);
}

void sim_connect_fini(struct sim_world *w)
{
    free(w->connections.since_ns);
    free(w->connections.fast_ns);
    free(w->connections.is_linked);
    free(w->connections.steady_ns);
}

void sim_connect_fail(struct sim_world *w, cv_id a, cv_id b)
{
    if (is_kept(w)) {
        w->connections.since_ns[pair(w, a, b)] = w->now_ns;
        w->connections.since_ns[pair(w, b, a)] = w->now_ns;
    }
}

void sim_connect_arrive(struct sim_world *w, cv_id from, cv_id to, int64_t delay_ns)
{
    if (!is_kept(w) || from == to) {
        return;
    }
    const struct cv_config *config = &w->scenario->config;
    if (delay_ns > w->protocol->timely_ns(config)) {
        sim_connect_fail(w, from, to);
    }
    if (delay_ns <= w->protocol->fast_ns(config)) {
        w->connections.fast_ns[pair(w, to, from)] = w->now_ns;
    }
}

static bool is_steady(const struct sim_world *w, const struct sim_node *n)
{
    const int64_t bound_ppb = w->scenario->config.drift_ppb;
    const bool is_prompt = 4 * n->disk_ns <= w->protocol->timely_ns(&w->scenario->config);
    return n->is_up && !n->is_paused && !n->has_stopped && !n->disk_fails && is_prompt &&
           n->clock.drift_ppb <= bound_ppb && n->clock.drift_ppb >= -bound_ppb;
}

void sim_connect_update(struct sim_world *w)
{
    if (!is_kept(w)) {
        return;
    }
    struct sim_connections *c = &w->connections;
    for (cv_id a = 1; a <= w->node_count; a++) {
        const bool is_steady_now = is_steady(w, &w->node[a - 1]);
        if (!is_steady_now) {
            c->steady_ns[a - 1] = INT64_MAX;
        } else if (c->steady_ns[a - 1] == INT64_MAX) {
            c->steady_ns[a - 1] = w->now_ns;
        }
        for (cv_id b = 1; b <= w->node_count; b++) {
            const bool is_linked = a == b || (sim_network_reaches(w->network, a, b) &&
                                              sim_network_reaches(w->network, b, a));
            if (is_linked != c->is_linked[pair(w, a, b)]) {
                c->is_linked[pair(w, a, b)] = is_linked;
                c->since_ns[pair(w, a, b)] = w->now_ns;
            }
        }
    }
}

int64_t sim_connect_since(const struct sim_world *w, cv_id a, cv_id b)
{
    const struct sim_connections *c = &w->connections;
    if (!c->is_linked[pair(w, a, b)] || c->steady_ns[a - 1] == INT64_MAX ||
        c->steady_ns[b - 1] == INT64_MAX) {
        return INT64_MAX;
    }
    const int64_t steady_ns = cv__max64(c->steady_ns[a - 1], c->steady_ns[b - 1]);
    return cv__max64(c->since_ns[pair(w, a, b)], steady_ns);
}

static bool is_connected_for(const struct sim_world *w, cv_id a, cv_id b, int64_t for_ns)
{
    const int64_t since_ns = sim_connect_since(w, a, b);
    return since_ns != INT64_MAX && since_ns <= w->now_ns - for_ns;
}

bool sim_connect_partition(const struct sim_world *w, cv_id id, int64_t for_ns, uint64_t *ret_set)
{
    if (!is_kept(w) || !is_connected_for(w, id, id, for_ns)) {
        return false;
    }
    cv__set_clear(ret_set, w->node_count);
    for (cv_id other = 1; other <= w->node_count; other++) {
        if (is_connected_for(w, id, other, for_ns)) {
            cv__set_add(ret_set, other);
        }
    }
    for (cv_id a = 1; (a = cv__set_next(ret_set, a, w->node_count)) != CV_ID_NONE; a++) {
        for (cv_id b = 1; b <= w->node_count; b++) {
            const bool is_inside = cv__set_has(ret_set, b);
            if (is_inside ? !is_connected_for(w, a, b, for_ns)
                          : w->connections.fast_ns[pair(w, a, b)] >= w->now_ns - for_ns) {
                return false;
            }
        }
    }
    return true;
}
