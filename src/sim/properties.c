/* src/sim/properties.c - the properties, watched after every step; see properties.h. */
#include "sim/properties.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "sim/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cv__watch_init(struct sim_world *w)
{
    struct cv_watch *watch = &w->watch;
    const struct cv_protocol *protocol = w->protocol;
    watch->holder = cv__allocate(w->node_count, sizeof *watch->holder);
    watch->settle_ns = protocol->settle_ns(&w->scenario->config);
    if (w->scenario->assumes & BIT(CV_ASSUME_BOUNDED_DELAY)) {
        watch->delta_ns = protocol->timely_ns(&w->scenario->config);
    }
    if (protocol->sequence_ns != NULL) {
        watch->sequence_ns = protocol->sequence_ns(&w->scenario->config);
    }
    if (protocol->store_ns != NULL) {
        watch->store_ns = protocol->store_ns(&w->scenario->config);
    }
    if (protocol->kappa_ns != NULL) {
        watch->kappa_ns = protocol->kappa_ns(&w->scenario->config);
    }
}

void cv__watch_fini(struct sim_world *w)
{
    free(w->watch.owner);
    free(w->watch.holder);
    free(w->watch.tail);
}

static bool is_promised(const struct sim_world *w, enum cv_property property)
{
    return (w->scenario->promises & BIT(property)) != 0;
}

void cv__watch_break(struct sim_world *w, enum cv_property property, const char *format, ...)
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

/* Leaders are ordered by token, anonymous ones by token and label: two of them may have the same
 * token if the sequencer lost its memory twice. */
static void watch_order(struct sim_world *w, cv_id id, const struct cv_leadership *l)
{
    const cv_id leader = l->leader;
    const uint64_t token = l->token;
    struct cv_watch *watch = &w->watch;
    const struct sim_node *n = &w->node[id - 1];
    struct cv_token_owner *owner = owner_find(watch, token);
    if (owner->leader == CV_ID_NONE) {
        owner->token = token;
        owner->leader = leader;
        owner->label = l->label;
        watch->owner_count++;
    } else if (owner->leader != leader && owner->label == l->label) {
        cv__watch_break(w, CV_PROPERTY_LEADER_ORDER,
                        "node %u sees %u lead with token %llu, with which %u led", id, leader,
                        (unsigned long long)token, owner->leader);
    }
    if (token < n->token_max || (token == n->token_max && l->label < n->label_max)) {
        cv__watch_break(w, CV_PROPERTY_LEADER_ORDER, "node %u goes back from token %llu to %llu",
                        id, (unsigned long long)n->token_max, (unsigned long long)token);
    }
}

void cv__watch_belief(struct sim_world *w, cv_id id, const struct cv_leadership *l)
{
    const cv_id leader = l->leader;
    const struct sim_node *n = &w->node[id - 1];
    if (leader != CV_ID_NONE) {
        if (leader > w->node_count || !w->node[leader - 1].was_ever_up) {
            cv__watch_break(w, CV_PROPERTY_VALIDITY,
                            "node %u takes %u for the leader, which never started", id, leader);
            return;
        }
        watch_order(w, id, l);
    }
    if (w->watch.is_settled && leader != n->leader) {
        cv__watch_break(w, CV_PROPERTY_STABILITY,
                        "node %u changes from leader %u to %u without a fault", id, n->leader,
                        leader);
    }
}

void cv__watch_begin(struct sim_world *w, cv_id id, uint64_t token)
{
    struct cv_watch *watch = &w->watch;
    for (uint32_t i = 0; i < watch->holder_count; i++) {
        const cv_id other = watch->holder[i];
        if (other != id && sim_world_holds(w, other)) {
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

void cv__watch_end(struct sim_world *w, cv_id id)
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

static bool share_member(const uint64_t *a, const uint64_t *b, uint32_t member_count)
{
    for (uint32_t i = 0; i < cv__set_words(member_count); i++) {
        if ((a[i] & b[i]) != 0) {
            return true;
        }
    }
    return false;
}

/* [Fetzer99, sec. V] BI: who has been connected to a leader for kappa supports it. */
static void watch_inconsistency(struct sim_world *w, cv_id id)
{
    const struct sim_node *n = &w->node[id - 1];
    if (w->connections.since_ns == NULL || n->members == NULL || !sim_world_holds(w, id)) {
        return;
    }
    for (cv_id other = 1; other <= w->node_count; other++) {
        const int64_t since_ns = sim_connect_since(w, id, other);
        if (since_ns != INT64_MAX && since_ns <= w->now_ns - w->watch.kappa_ns &&
            !cv__set_has(n->members, other)) {
            cv__watch_break(w, CV_PROPERTY_BOUNDED_INCONSISTENCY,
                            "node %u leads without node %u, connected since %.3f s", id, other,
                            (double)since_ns / 1e9);
        }
    }
}

void cv__watch_support(struct sim_world *w, cv_id id)
{
    const struct sim_node *n = &w->node[id - 1];
    if (n->members == NULL) {
        return;
    }
    if (!cv__set_has(n->members, id)) {
        cv__watch_break(w, CV_PROPERTY_LEADER_SELF_SUPPORT, "node %u leads without its own support",
                        id);
    }
    for (uint32_t i = 0; i < w->watch.holder_count; i++) {
        const cv_id other = w->watch.holder[i];
        const struct sim_node *o = &w->node[other - 1];
        if (other == id || o->members == NULL || !sim_world_holds(w, other)) {
            continue;
        }
        if (share_member(n->members, o->members, w->node_count)) {
            cv__watch_break(w, CV_PROPERTY_SUPPORT_ONE,
                            "a node supports both %u and %u, which lead at once", id, other);
        }
        if (cv__set_has(n->members, other) || cv__set_has(o->members, id)) {
            cv__watch_break(w, CV_PROPERTY_PARTITIONS_DISJOINT,
                            "leaders %u and %u are in one logical partition", id, other);
        }
    }
    watch_inconsistency(w, id);
}

/* ---- Liveness -------------------------------------------------------------------------------- */

void cv__watch_send(struct sim_world *w, cv_id id)
{
    if (w->watch.is_settled && w->node[id - 1].leader != id) {
        cv__watch_break(w, CV_PROPERTY_COMMUNICATION_EFFICIENT,
                        "node %u sends though it does not lead and all is quiet", id);
    }
}

static bool takes_part(const struct sim_node *n)
{
    return n->is_up && !n->has_stopped;
}

/* Conditions that last, as opposed to single events such as a lost message. */
static bool is_behaving(const struct sim_world *w)
{
    const bool has_sequencer = w->watch.sequence_ns == 0 || !w->sequencer.is_down;
    const int64_t bound_ppb = w->scenario->config.drift_ppb;
    const int64_t store_ppb = w->store.clock.drift_ppb;
    const bool asks_store = w->watch.store_ns > 0;
    if (sim_network_has_cuts(w->network) || !has_sequencer ||
        (asks_store && (w->store.is_down || store_ppb > bound_ppb || store_ppb < -bound_ppb))) {
        return false;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct sim_node *n = &w->node[i];
        const bool is_drifting = n->clock.drift_ppb > bound_ppb || n->clock.drift_ppb < -bound_ppb;
        const bool is_stuck = n->disk_fails || n->disk_ns > w->watch.delta_ns;
        const bool is_cut = asks_store && n->is_cut;
        if (takes_part(n) && (n->is_paused || is_stuck || is_drifting || is_cut)) {
            return false;
        }
    }
    return true;
}

void cv__watch_disturb(struct sim_world *w)
{
    struct cv_watch *watch = &w->watch;
    watch->disturbed_ns = w->now_ns;
    watch->is_settled = false;
    if (!watch->is_check_queued) {
        watch->is_check_queued = true;
        sim_world_queue_check(w, w->now_ns + watch->settle_ns);
    }
}

static void judge_node(struct sim_world *w, cv_id id, cv_id first)
{
    const struct sim_node *n = &w->node[id - 1];
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
    /* [Wiesmann07, lemmas 2 and 3] Each closed round has one leader, with one number. */
    const struct sim_node *other = &w->node[first - 1];
    if (n->leader == leader && (n->token != other->token || n->label != other->label) &&
        w->protocol->is_anonymous) {
        cv__watch_break(w, CV_PROPERTY_AGREEMENT,
                        "node %u follows token %llu but node %u follows %llu", id,
                        (unsigned long long)n->token, first, (unsigned long long)other->token);
    }
    const struct sim_node *l = &w->node[n->leader - 1];
    if (sim_network_group(w->network, n->leader) != sim_network_group(w->network, id) ||
        l->leader != n->leader || !sim_world_holds(w, n->leader)) {
        cv__watch_break(w, CV_PROPERTY_AGREEMENT, "node %u follows %u, which does not lead it", id,
                        n->leader);
    }
}

/* Is anybody in this part a candidate at all? */
static bool has_candidate(const struct sim_world *w, uint16_t group)
{
    for (cv_id id = 1; id <= w->node_count; id++) {
        const struct sim_node *n = &w->node[id - 1];
        if (takes_part(n) && n->is_candidate && sim_network_group(w->network, id) == group) {
            return true;
        }
    }
    return false;
}

/* Is a majority of all members needed, and is it there? */
static bool is_large_enough(const struct sim_world *w, uint16_t group)
{
    uint32_t count = 0;
    for (cv_id id = 1; id <= w->node_count; id++) {
        count += takes_part(&w->node[id - 1]) && sim_network_group(w->network, id) == group;
    }
    return (w->scenario->assumes & BIT(CV_ASSUME_MAJORITY)) == 0 || 2 * count > w->node_count;
}

/* Every node against the first of its part: linear for one part, and parts are few. */
static void judge_all(struct sim_world *w)
{
    uint16_t *group_done = cv__allocate(w->node_count, sizeof *group_done);
    uint32_t done_count = 0;
    for (cv_id first = 1; first <= w->node_count; first++) {
        const uint16_t group = sim_network_group(w->network, first);
        bool is_done = !takes_part(&w->node[first - 1]);
        for (uint32_t i = 0; i < done_count && !is_done; i++) {
            is_done = group_done[i] == group;
        }
        if (is_done) {
            continue;
        }
        group_done[done_count++] = group;
        if (!has_candidate(w, group) || !is_large_enough(w, group)) {
            continue;
        }
        for (cv_id id = first; id <= w->node_count; id++) {
            if (takes_part(&w->node[id - 1]) && sim_network_group(w->network, id) == group) {
                judge_node(w, id, first);
            }
        }
    }
    free(group_done);
}

/* [Fetzer99, sec. V] T: whoever has been a Delta-partition for kappa has had a leader meanwhile.
 * With `majority`, only a majority counts; and somebody in it must be a candidate. */
static void judge_partition(struct sim_world *w, const uint64_t *set, cv_id first)
{
    const uint32_t count = cv__set_count(set, w->node_count);
    const bool needs_majority = (w->scenario->assumes & BIT(CV_ASSUME_MAJORITY)) != 0;
    bool has_candidate_inside = false;
    int64_t led_ns = -1;
    for (cv_id id = first; (id = cv__set_next(set, id, w->node_count)) != CV_ID_NONE; id++) {
        const struct sim_node *n = &w->node[id - 1];
        has_candidate_inside = has_candidate_inside || n->is_candidate;
        const int64_t until_ns = n->holds ? cv__min64(n->held_until_ns, w->now_ns) : n->led_ns;
        led_ns = cv__max64(led_ns, until_ns);
    }
    if (!has_candidate_inside || (needs_majority && 2 * count <= w->node_count)) {
        return;
    }
    w->watch.judged_count++;
    if (led_ns < w->now_ns - w->watch.kappa_ns) {
        cv__watch_break(w, CV_PROPERTY_TIMELINESS,
                        "the partition of node %u had no leader for kappa (%u nodes)", first,
                        count);
    }
}

/* Often enough that a violation that lasts an eighth of kappa is seen. */
static void watch_timeliness(struct sim_world *w)
{
    uint64_t set[SIM_CONNECT_NODES_MAX / 64];
    uint64_t done[SIM_CONNECT_NODES_MAX / 64] = {0};
    for (cv_id id = 1; id <= w->node_count; id++) {
        if (!cv__set_has(done, id) && sim_connect_partition(w, id, w->watch.kappa_ns, set)) {
            cv__set_unite(done, set, w->node_count);
            judge_partition(w, set, id);
        }
        watch_inconsistency(w, id);
    }
}

void cv__watch_look(struct sim_world *w)
{
    if (w->connections.since_ns != NULL &&
        w->now_ns >= w->watch.looked_ns + w->watch.kappa_ns / 8) {
        w->watch.looked_ns = w->now_ns;
        watch_timeliness(w);
    }
}

void cv__watch_check(struct sim_world *w)
{
    struct cv_watch *watch = &w->watch;
    const int64_t due_ns = watch->disturbed_ns + watch->settle_ns;
    if (due_ns > w->now_ns) {
        sim_world_queue_check(w, due_ns);
        return;
    }
    watch->is_check_queued = false;
    if (is_behaving(w)) {
        watch->is_settled = true;
        watch->judged_count++;
        judge_all(w);
    }
}
