/* src/sim/properties.c - the properties, watched after every step; see properties.h. */
#include "sim/properties.h"

#include "sim/memory.h"
#include "sim/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cv__watch_init(struct cv_world *w)
{
    struct cv_watch *watch = &w->watch;
    const struct cv_protocol *protocol = w->protocol;
    watch->holder = cv__allocate(w->node_count, sizeof *watch->holder);
    watch->settle_ns = protocol->settle_ns(&w->scenario->config);
    if (w->scenario->assumes & BIT(CV_ASSUME_BOUNDED_DELAY)) {
        watch->delta_ns = protocol->timely_ns(&w->scenario->config);
    }
}

void cv__watch_fini(struct cv_world *w)
{
    free(w->watch.owner);
    free(w->watch.holder);
    free(w->watch.tail);
}

static bool is_promised(const struct cv_world *w, enum cv_property property)
{
    return (w->scenario->promises & BIT(property)) != 0;
}

void cv__watch_break(struct cv_world *w, enum cv_property property, const char *format, ...)
{
    struct cv_broken *broken = &w->watch.property[property];
    if (broken->is_broken) {
        return; /* the first time is the interesting one */
    }
    broken->is_broken = true;
    broken->at_ns = w->now_ns;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(broken->detail, sizeof broken->detail, format, args);
    va_end(args);
    const struct cv_record record = {
        .at_ns = w->now_ns, .kind = CV_RECORD_BROKEN, .what = property};
    cv__trace_add(&w->trace, &record, broken->detail);
    if (w->watch.tail == NULL && is_promised(w, property)) {
        w->watch.tail = cv__trace_tail(&w->trace);
    }
}

/* ---- Safety ---------------------------------------------------------------------------------- */

/* The slot of a token: its own, or the empty one where it belongs. */
static struct cv_token_owner *owner_at(const struct cv_watch *watch, uint64_t token)
{
    uint64_t at = token * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        struct cv_token_owner *owner = &watch->owner[at & (watch->owner_capacity - 1)];
        if (owner->leader == CV_ID_NONE || owner->token == token) {
            return owner;
        }
    }
}

static struct cv_token_owner *owner_find(struct cv_watch *watch, uint64_t token)
{
    if (2 * (watch->owner_count + 1) > watch->owner_capacity) {
        const uint32_t old_capacity = watch->owner_capacity;
        struct cv_token_owner *old = watch->owner;
        watch->owner_capacity = old_capacity > 0 ? 2 * old_capacity : 64;
        watch->owner = cv__allocate(watch->owner_capacity, sizeof *watch->owner);
        for (uint32_t i = 0; i < old_capacity; i++) {
            if (old[i].leader != CV_ID_NONE) {
                *owner_at(watch, old[i].token) = old[i];
            }
        }
        free(old);
    }
    return owner_at(watch, token);
}

static void watch_order(struct cv_world *w, cv_id id, cv_id leader, uint64_t token)
{
    struct cv_watch *watch = &w->watch;
    const struct cv_node *n = &w->node[id - 1];
    struct cv_token_owner *owner = owner_find(watch, token);
    if (owner->leader == CV_ID_NONE) {
        owner->token = token;
        owner->leader = leader;
        watch->owner_count++;
    } else if (owner->leader != leader) {
        cv__watch_break(w, CV_PROPERTY_LEADER_ORDER,
                        "node %u sees %u lead with token %llu, with which %u led", id, leader,
                        (unsigned long long)token, owner->leader);
    }
    if (token < n->token_max) {
        cv__watch_break(w, CV_PROPERTY_LEADER_ORDER, "node %u goes back from token %llu to %llu",
                        id, (unsigned long long)n->token_max, (unsigned long long)token);
    }
}

void cv__watch_belief(struct cv_world *w, cv_id id, cv_id leader, uint64_t token)
{
    const struct cv_node *n = &w->node[id - 1];
    if (leader != CV_ID_NONE) {
        if (leader > w->node_count || !w->node[leader - 1].was_ever_up) {
            cv__watch_break(w, CV_PROPERTY_VALIDITY,
                            "node %u takes %u for the leader, which never started", id, leader);
            return;
        }
        watch_order(w, id, leader, token);
    }
    if (w->watch.is_settled && leader != n->leader) {
        cv__watch_break(w, CV_PROPERTY_STABILITY,
                        "node %u changes from leader %u to %u without a fault", id, n->leader,
                        leader);
    }
}

void cv__watch_begin(struct cv_world *w, cv_id id, uint64_t token)
{
    struct cv_watch *watch = &w->watch;
    for (uint32_t i = 0; i < watch->holder_count; i++) {
        const cv_id other = watch->holder[i];
        if (other != id && cv__world_holds(w, other)) {
            cv__watch_break(w, CV_PROPERTY_AT_MOST_ONE_LEADER,
                            "node %u leads with token %llu while node %u leads with %llu", id,
                            (unsigned long long)token, other,
                            (unsigned long long)w->node[other - 1].held_token);
        }
    }
    if (watch->has_token && token <= watch->token_max) {
        cv__watch_break(w, CV_PROPERTY_TOKEN_MONOTONIC,
                        "node %u leads with token %llu after one with %llu", id,
                        (unsigned long long)token, (unsigned long long)watch->token_max);
    }
    watch->has_token = true;
    watch->token_max = token > watch->token_max ? token : watch->token_max;
    CV_ASSERT(watch->holder_count < w->node_count);
    watch->holder[watch->holder_count++] = id;
}

void cv__watch_end(struct cv_world *w, cv_id id)
{
    struct cv_watch *watch = &w->watch;
    for (uint32_t i = 0; i < watch->holder_count; i++) {
        if (watch->holder[i] == id) {
            watch->holder[i] = watch->holder[--watch->holder_count];
            return;
        }
    }
    CV_ASSERT(!"who ends a leadership has begun it");
}

/* ---- Liveness -------------------------------------------------------------------------------- */

void cv__watch_send(struct cv_world *w, cv_id id)
{
    if (w->watch.is_settled && w->node[id - 1].leader != id) {
        cv__watch_break(w, CV_PROPERTY_COMMUNICATION_EFFICIENT,
                        "node %u sends though it does not lead and all is quiet", id);
    }
}

static bool takes_part(const struct cv_node *n)
{
    return n->is_up && !n->has_stopped;
}

/* Conditions that last, as opposed to single events such as a lost message. */
static bool is_behaving(const struct cv_world *w)
{
    if (cv__network_has_cuts(w->network)) {
        return false;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct cv_node *n = &w->node[i];
        const int64_t bound_ppb = w->scenario->config.drift_ppb;
        const bool is_drifting = n->clock.drift_ppb > bound_ppb || n->clock.drift_ppb < -bound_ppb;
        const bool is_stuck = n->disk_fails || n->disk_ns > w->watch.delta_ns;
        if (takes_part(n) && (n->is_paused || is_stuck || is_drifting)) {
            return false;
        }
    }
    return true;
}

void cv__watch_disturb(struct cv_world *w)
{
    struct cv_watch *watch = &w->watch;
    watch->disturbed_ns = w->now_ns;
    watch->is_settled = false;
    if (!watch->is_check_queued) {
        watch->is_check_queued = true;
        cv__world_queue_check(w, w->now_ns + watch->settle_ns);
    }
}

static void judge_node(struct cv_world *w, cv_id id, cv_id first)
{
    const struct cv_node *n = &w->node[id - 1];
    const cv_id leader = w->node[first - 1].leader;
    if (n->leader == CV_ID_NONE) {
        cv__watch_break(w, CV_PROPERTY_TERMINATION,
                        "node %u knows no leader though all has been quiet for its time", id);
        return;
    }
    if (n->leader != leader && leader != CV_ID_NONE) {
        cv__watch_break(w, CV_PROPERTY_AGREEMENT, "node %u follows %u but node %u follows %u", id,
                        n->leader, first, leader);
    }
    const struct cv_node *l = &w->node[n->leader - 1];
    if (cv__network_group(w->network, n->leader) != cv__network_group(w->network, id) ||
        l->leader != n->leader || !cv__world_holds(w, n->leader)) {
        cv__watch_break(w, CV_PROPERTY_AGREEMENT, "node %u follows %u, which does not lead it", id,
                        n->leader);
    }
}

/* Is anybody in this part a candidate at all? */
static bool has_candidate(const struct cv_world *w, uint16_t group)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        const struct cv_node *n = &w->node[id - 1];
        if (takes_part(n) && n->is_candidate && cv__network_group(w->network, id) == group) {
            return true;
        }
    }
    return false;
}

/* Every node against the first of its part: linear for one part, and parts are few. */
static void judge_all(struct cv_world *w)
{
    uint16_t *group_done = cv__allocate(w->node_count, sizeof *group_done);
    uint32_t done_count = 0;
    for (cv_id first = 1; first <= w->node_count; first++) {
        const uint16_t group = cv__network_group(w->network, first);
        bool is_done = !takes_part(&w->node[first - 1]);
        for (uint32_t i = 0; i < done_count && !is_done; i++) {
            is_done = group_done[i] == group;
        }
        if (is_done) {
            continue;
        }
        group_done[done_count++] = group;
        if (!has_candidate(w, group)) {
            continue;
        }
        for (cv_id id = first; id <= w->node_count; id++) {
            if (takes_part(&w->node[id - 1]) && cv__network_group(w->network, id) == group) {
                judge_node(w, id, first);
            }
        }
    }
    free(group_done);
}

void cv__watch_check(struct cv_world *w)
{
    struct cv_watch *watch = &w->watch;
    const int64_t due_ns = watch->disturbed_ns + watch->settle_ns;
    if (due_ns > w->now_ns) {
        cv__world_queue_check(w, due_ns);
        return;
    }
    watch->is_check_queued = false;
    if (is_behaving(w)) {
        watch->is_settled = true;
        watch->judged_count++;
        judge_all(w);
    }
}
