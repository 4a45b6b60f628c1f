/* src/sim/expect.c - judges the expectations of a scenario. */
#include "sim/expect.h"

#include "core/nodeset.h"
#include "sim/world.h"

#include <stdio.h>

static void judge_leader(struct sim_world *w, const struct sim_expect *e,
                         struct sim_expect_result *result)
{
    cv_id wanted = e->leader;
    uint32_t judged = 0;
    result->is_ok = true;
    for (cv_id id = 1; id <= w->node_count && result->is_ok; id++) {
        const bool is_up = w->node[id - 1].is_up;
        const cv_id leader = w->properties.node[id - 1].leader;
        if (e->nodes != NULL ? !cv__set_has(e->nodes, id) : !is_up) {
            continue;
        }
        wanted = wanted == CV_ID_NONE ? leader : wanted;
        judged++;
        if (!is_up) {
            result->is_ok = false;
            (void)snprintf(result->detail, sizeof result->detail, "node %u is down", id);
        } else if (leader != wanted || wanted == CV_ID_NONE) {
            result->is_ok = false;
            if (leader == CV_ID_NONE) {
                (void)snprintf(result->detail, sizeof result->detail, "node %u knows no leader",
                               id);
            } else {
                (void)snprintf(result->detail, sizeof result->detail, "node %u follows %u", id,
                               leader);
            }
        }
    }
    if (judged == 0) {
        result->is_ok = false;
        (void)snprintf(result->detail, sizeof result->detail, "no node is up");
    }
}

static void judge_leaders(struct sim_world *w, const struct sim_expect *e,
                          struct sim_expect_result *result)
{
    result->is_ok = true;
    size_t at = 0;
    result->detail[0] = '\0';
    for (cv_id id = 1; id <= w->node_count; id++) {
        const bool holds = sim_world_holds(w, id);
        result->is_ok = result->is_ok && holds == cv__set_has(e->nodes, id);
        if (holds && at < sizeof result->detail - 16) {
            at += (size_t)snprintf(result->detail + at, sizeof result->detail - at, "%s%u",
                                   at > 0 ? " " : "leading: ", id);
        }
    }
    if (result->is_ok) {
        result->detail[0] = '\0';
    } else if (at == 0) {
        (void)snprintf(result->detail, sizeof result->detail, "no node leads");
    }
}

static bool compares(uint64_t seen, enum sim_compare compare, uint64_t count)
{
    switch (compare) {
    case SIM_AT_MOST:
        return seen <= count;
    case SIM_AT_LEAST:
        return seen >= count;
    case SIM_BELOW:
        return seen < count;
    case SIM_ABOVE:
        return seen > count;
    case SIM_EQUAL:
        return seen == count;
    }
    return false;
}

static void judge_count(struct sim_world *w, uint32_t index, struct sim_expect_result *result)
{
    const struct sim_expect *e = &w->scenario->expect[index];
    result->is_ok = compares(w->expect_seen[index], e->compare, e->count);
    if (!result->is_ok) {
        (void)snprintf(result->detail, sizeof result->detail, "there were %llu",
                       (unsigned long long)w->expect_seen[index]);
    }
}

/* Expectations of an instant are judged after everything up to and including it has happened. */
void sim_expect_judge(struct sim_world *w, int64_t from_ns, int64_t before_ns)
{
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect *e = &w->scenario->expect[i];
        struct sim_expect_result *result = &w->expect_result[i];
        if (e->at_ns < from_ns || e->at_ns >= before_ns) {
            continue;
        }
        const int64_t now_ns = w->now_ns;
        w->now_ns = e->at_ns;
        switch (e->kind) {
        case SIM_EXPECT_LEADER:
            judge_leader(w, e, result);
            break;
        case SIM_EXPECT_LEADERS:
            judge_leaders(w, e, result);
            break;
        case SIM_EXPECT_MESSAGES:
        case SIM_EXPECT_CHANGES:
            judge_count(w, i, result);
            break;
        case SIM_EXPECT_PROPERTY:
        case SIM_EXPECT_BROKEN:
            break; /* about the whole run: see sim_expect_finish() */
        }
        w->now_ns = now_ns;
    }
}

void sim_expect_finish(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect *e = &w->scenario->expect[i];
        const bool is_broken = w->properties.broken[e->property].is_broken;
        struct sim_expect_result *result = &w->expect_result[i];
        if (e->kind == SIM_EXPECT_PROPERTY) {
            result->is_ok = !is_broken;
            (void)snprintf(result->detail, sizeof result->detail, "%.110s",
                           w->properties.broken[e->property].detail);
        } else if (e->kind == SIM_EXPECT_BROKEN) {
            result->is_ok = is_broken;
            (void)snprintf(result->detail, sizeof result->detail, is_broken ? "" : "it held");
        }
    }
}
