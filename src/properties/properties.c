/* src/properties/properties.c - the properties of docs/properties.md; see properties.h. */
#include "properties/properties.h"

#include "base/memory.h"
#include "core/nodeset.h"
#include "properties/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t bound(int64_t (*compute)(const struct cv_config *), const struct cv_config *config)
{
    return compute != NULL ? compute(config) : 0;
}

struct cv_properties_setting cv__properties_setting(const struct cv_protocol *protocol,
                                                    const struct cv_config *config,
                                                    uint32_t promises, uint32_t assumes)
{
    const int64_t timely_ns = bound(protocol->timely_ns, config);
    return (struct cv_properties_setting){
        .node_count = config->member_count,
        .promises = promises,
        .assumes = assumes,
        .is_anonymous = protocol->is_anonymous,
        .rightful = protocol->rightful,
        .settle_ns = protocol->settle_ns(config),
        .delta_ns = (assumes & BIT(CV_ASSUME_BOUNDED_DELAY)) != 0 ? timely_ns : 0,
        .sequence_ns = bound(protocol->sequence_ns, config),
        .store_ns = bound(protocol->store_ns, config),
        .timely_ns = timely_ns,
        .fast_ns = bound(protocol->fast_ns, config),
        .kappa_ns = bound(protocol->kappa_ns, config),
        .graph_ns = bound(protocol->graph_ns, config),
    };
}

void cv__properties_init(struct cv_properties *p, const struct cv_properties_setting *setting,
                         cv_on_break *on_break, void *context)
{
    const uint32_t count = setting->node_count;
    const size_t word_count = (size_t)count * cv__set_words(count);
    CV_ASSERT(count >= 1 && count <= CV_MEMBERS_MAX);
    memset(p, 0, sizeof *p);
    p->setting = *setting;
    p->on_break = on_break;
    p->context = context;
    p->block_bytes =
        count * sizeof *p->node + word_count * sizeof *p->member_word + count * sizeof *p->holder;
    p->node = cv__allocate(1, p->block_bytes);
    p->member_word = (uint64_t *)(p->node + count);
    p->holder = (cv_id *)(p->member_word + word_count);
    for (uint32_t i = 0; i < count; i++) {
        p->node[i].led_ns = -1;
    }
    const uint32_t needs_connections = CV_PROP(TIMELINESS) | CV_PROP(BOUNDED_INCONSISTENCY);
    if ((setting->promises & needs_connections) != 0 && count <= CV_CONNECTIONS_NODES_MAX) {
        cv__connections_init(&p->connections, count);
    }
}

void cv__properties_fini(struct cv_properties *p)
{
    free(p->node);
    free(p->owner);
    cv__connections_fini(&p->connections);
}

void cv__properties_break(struct cv_properties *p, enum cv_property property, const char *format,
                          ...)
{
    struct cv_broken *broken = &p->broken[property];
    if (broken->is_broken) {
        return; /* only the first violation is reported */
    }
    broken->is_broken = true;
    broken->at_ns = p->now.now_ns;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(broken->detail, sizeof broken->detail, format, args);
    va_end(args);
    if (p->on_break != NULL) {
        p->on_break(p->context, property, broken->detail);
    }
}

static struct cv_property_node *node_of(struct cv_properties *p, cv_id id)
{
    CV_ASSERT(id >= 1 && id <= p->setting.node_count);
    return &p->node[id - 1];
}

bool cv__properties_holds(const struct cv_properties *p, cv_id id, int64_t at_ns)
{
    const struct cv_property_node *n = &p->node[id - 1];
    return n->holds && n->held_until_ns > at_ns;
}

static uint64_t *members_of(const struct cv_properties *p, cv_id id)
{
    return &p->member_word[(size_t)(id - 1) * cv__set_words(p->setting.node_count)];
}

const uint64_t *cv__properties_members(const struct cv_properties *p, cv_id id)
{
    return p->node[id - 1].has_members ? members_of(p, id) : NULL;
}

/* ---- Beliefs --------------------------------------------------------------------------------- */

struct cv_token_owner *cv__token_owner_at(struct cv_token_owner *owner, uint32_t capacity,
                                          uint64_t token)
{
    uint64_t at = token * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        struct cv_token_owner *place = &owner[at & (capacity - 1)];
        if (place->leader == CV_ID_NONE || place->token == token) {
            return place;
        }
    }
}

static struct cv_token_owner *owner_find(struct cv_properties *p, uint64_t token)
{
    if (2 * (p->owner_count + 1) > p->owner_capacity) {
        const uint32_t old_capacity = p->owner_capacity;
        struct cv_token_owner *old = p->owner;
        p->owner_capacity = old_capacity > 0 ? 2 * old_capacity : 64;
        p->owner = cv__allocate(p->owner_capacity, sizeof *p->owner);
        for (uint32_t i = 0; i < old_capacity; i++) {
            if (old[i].leader != CV_ID_NONE) {
                *cv__token_owner_at(p->owner, p->owner_capacity, old[i].token) = old[i];
            }
        }
        free(old);
    }
    return cv__token_owner_at(p->owner, p->owner_capacity, token);
}

/* Leaders are ordered by token, anonymous ones by token and label: two of them may have the same
 * token if the sequencer lost its memory twice. */
static void judge_order(struct cv_properties *p, cv_id id, const struct cv_belief *belief)
{
    const struct cv_property_node *n = node_of(p, id);
    const uint64_t token = belief->token;
    struct cv_token_owner *owner = owner_find(p, token);
    p->judged[CV_PROPERTY_LEADER_ORDER]++;
    if (owner->leader == CV_ID_NONE) {
        *owner = (struct cv_token_owner){token, belief->leader, belief->label};
        p->owner_count++;
    } else if (owner->leader != belief->leader && owner->label == belief->label) {
        cv__properties_break(p, CV_PROPERTY_LEADER_ORDER,
                             "node %u sees %u lead with token %llu, but %u led with it", id,
                             belief->leader, (unsigned long long)token, owner->leader);
    }
    if (token < n->token_max || (token == n->token_max && belief->label < n->label_max)) {
        cv__properties_break(p, CV_PROPERTY_LEADER_ORDER,
                             "node %u goes back from token %llu to %llu", id,
                             (unsigned long long)n->token_max, (unsigned long long)token);
    }
}

static void judge_belief(struct cv_properties *p, cv_id id, const struct cv_belief *belief)
{
    const cv_id leader = belief->leader;
    const cv_id old_leader = node_of(p, id)->leader;
    if (leader != CV_ID_NONE) {
        p->judged[CV_PROPERTY_VALIDITY]++;
        if (leader > p->setting.node_count || !node_of(p, leader)->has_started) {
            cv__properties_break(p, CV_PROPERTY_VALIDITY, "node %u follows %u, which never started",
                                 id, leader);
            return;
        }
        judge_order(p, id, belief);
    }
    if (p->now.is_settled && leader != old_leader) {
        cv__properties_break(p, CV_PROPERTY_STABILITY,
                             "node %u changes from leader %u to %u without a fault", id, old_leader,
                             leader);
    }
}

bool cv__properties_is_new_belief(const struct cv_properties *p, cv_id id,
                                  const struct cv_belief *belief)
{
    const struct cv_property_node *n = &p->node[id - 1];
    return n->leader != belief->leader || n->token != belief->token || n->label != belief->label;
}

static void change_belief(struct cv_properties *p, cv_id id, const struct cv_belief *belief)
{
    struct cv_property_node *n = node_of(p, id);
    judge_belief(p, id, belief);
    n->leader = belief->leader;
    n->token = belief->token;
    n->label = belief->label;
    if (n->token > n->token_max || (n->token == n->token_max && n->label > n->label_max)) {
        n->token_max = n->token;
        n->label_max = n->label;
    }
}

/* ---- Leaderships ----------------------------------------------------------------------------- */

/* A leadership begins: have all leaderships of crashed processes run out? A crashed process itself
 * must not lead again before that either, because it does not know what it had begun. */
static void judge_left(struct cv_properties *p, cv_id id, uint64_t token)
{
    if (p->now.left_until_ns <= p->now.now_ns) {
        return;
    }
    for (cv_id other = 1; other <= p->setting.node_count; other++) {
        const struct cv_property_node *n = node_of(p, other);
        if (n->left_until_ns > p->now.now_ns) {
            cv__properties_break(p, CV_PROPERTY_AT_MOST_ONE_LEADER,
                                 "node %u leads with token %llu while the leadership of crashed "
                                 "node %u with %llu is "
                                 "valid",
                                 id, (unsigned long long)token, other,
                                 (unsigned long long)n->left_token);
        }
    }
}

void cv__properties_begin(struct cv_properties *p, cv_id id, uint64_t token, int64_t until_ns)
{
    struct cv_property_node *n = node_of(p, id);
    CV_ASSERT(!n->holds);
    p->judged[CV_PROPERTY_AT_MOST_ONE_LEADER]++;
    p->judged[CV_PROPERTY_TOKEN_MONOTONIC] += p->now.has_token;
    for (uint32_t i = 0; i < p->now.holder_count; i++) {
        const cv_id other = p->holder[i];
        if (cv__properties_holds(p, other, p->now.now_ns)) {
            cv__properties_break(p, CV_PROPERTY_AT_MOST_ONE_LEADER,
                                 "node %u leads with token %llu while node %u leads with %llu", id,
                                 (unsigned long long)token, other,
                                 (unsigned long long)p->node[other - 1].held_token);
        }
    }
    if (p->now.has_token && token <= p->now.token_max) {
        cv__properties_break(p, CV_PROPERTY_TOKEN_MONOTONIC,
                             "node %u leads with token %llu after a leader with token %llu", id,
                             (unsigned long long)token, (unsigned long long)p->now.token_max);
    }
    judge_left(p, id, token);
    n->holds = true;
    n->held_token = token;
    n->held_from_ns = p->now.now_ns;
    n->held_until_ns = until_ns;
    p->now.has_token = true;
    p->now.token_max = token > p->now.token_max ? token : p->now.token_max;
    CV_ASSERT(p->now.holder_count < p->setting.node_count);
    p->holder[p->now.holder_count++] = id;
}

void cv__properties_renew(struct cv_properties *p, cv_id id, int64_t until_ns)
{
    CV_ASSERT(node_of(p, id)->holds);
    node_of(p, id)->held_until_ns = until_ns;
}

void cv__properties_end(struct cv_properties *p, cv_id id)
{
    struct cv_property_node *n = node_of(p, id);
    CV_ASSERT(n->holds);
    n->holds = false;
    n->led_ns = cv__min64(n->held_until_ns, p->now.now_ns);
    uint32_t at = 0;
    while (p->holder[at] != id) {
        at++;
        CV_ASSERT(at < p->now.holder_count); /* cv__properties_begin() has entered it */
    }
    p->holder[at] = p->holder[--p->now.holder_count];
}

/* [Fetzer99, sec. V] BI: a process that has been connected to a leader for kappa supports it. */
static void judge_inconsistency(struct cv_properties *p, cv_id id)
{
    const uint64_t *members = cv__properties_members(p, id);
    if (!cv__connections_is_kept(&p->connections) || members == NULL ||
        !cv__properties_holds(p, id, p->now.now_ns)) {
        return;
    }
    for (cv_id other = 1; other <= p->setting.node_count; other++) {
        const int64_t since_ns = cv__connections_since(&p->connections, id, other);
        if (since_ns == INT64_MAX || since_ns > p->now.now_ns - p->setting.kappa_ns) {
            continue;
        }
        p->judged[CV_PROPERTY_BOUNDED_INCONSISTENCY] += other != id;
        if (!cv__set_has(members, other)) {
            cv__properties_break(p, CV_PROPERTY_BOUNDED_INCONSISTENCY,
                                 "node %u leads without node %u, connected since %.3f s", id, other,
                                 (double)since_ns / 1e9);
        }
    }
}

/* Does this node hold a leadership, or has it crashed with one that still counts? */
static bool is_binding(const struct cv_properties *p, cv_id id)
{
    const struct cv_property_node *n = &p->node[id - 1];
    return cv__properties_holds(p, id, p->now.now_ns) ||
           (!n->holds && n->left_until_ns > p->now.now_ns);
}

/* [Fetzer99, sec. V] SO, against one other leader. */
static void judge_support_one(struct cv_properties *p, cv_id id, cv_id other)
{
    const uint64_t *members = cv__properties_members(p, id);
    const uint64_t *others = cv__properties_members(p, other);
    if (other == id || others == NULL || !is_binding(p, other)) {
        return;
    }
    p->judged[CV_PROPERTY_SUPPORT_ONE]++;
    if (cv__set_meets(members, others, p->setting.node_count)) {
        cv__properties_break(p, CV_PROPERTY_SUPPORT_ONE,
                             "a node supports both %u and %u, which lead at once", id, other);
    }
}

/* Is `id`, which follows (or is) a leader, in the logical partition of another leader as well? This
 * compares the belief of a process with the supporters that the leaders report. */
static void judge_disjoint(struct cv_properties *p, cv_id id, cv_id supported)
{
    const uint64_t *members = cv__properties_members(p, supported);
    const cv_id followed = node_of(p, id)->leader;
    if (followed == supported || followed == CV_ID_NONE || followed > p->setting.node_count ||
        members == NULL || !cv__properties_holds(p, supported, p->now.now_ns) ||
        !cv__properties_holds(p, followed, p->now.now_ns)) {
        return;
    }
    p->judged[CV_PROPERTY_PARTITIONS_DISJOINT]++;
    if (cv__set_has(members, id)) {
        cv__properties_break(p, CV_PROPERTY_PARTITIONS_DISJOINT,
                             "node %u follows %u and is in the logical partition of %u", id,
                             followed, supported);
    }
}

/* A leadership was begun or renewed with the recorded supporters. */
static void judge_support(struct cv_properties *p, cv_id id)
{
    const uint64_t *members = cv__properties_members(p, id);
    if (members == NULL) {
        return;
    }
    p->judged[CV_PROPERTY_LEADER_SELF_SUPPORT]++;
    if (!cv__set_has(members, id)) {
        cv__properties_break(p, CV_PROPERTY_LEADER_SELF_SUPPORT,
                             "node %u leads without its own support", id);
    }
    const bool has_others = p->now.holder_count > 1 || p->now.left_until_ns > p->now.now_ns;
    for (cv_id other = 1; has_others && other <= p->setting.node_count; other++) {
        judge_support_one(p, id, other);
        if (node_of(p, other)->takes_part) {
            judge_disjoint(p, other, id);
        }
    }
    judge_inconsistency(p, id);
}

unsigned cv__properties_believe(struct cv_properties *p, cv_id id, const struct cv_belief *belief)
{
    struct cv_property_node *n = node_of(p, id);
    /* The host of a real process acts on is_self. If is_self contradicts the named leader, a
     * follower acts as the leader. */
    if (belief->is_self != (belief->named == id)) {
        cv__properties_break(p, CV_PROPERTY_VALIDITY,
                             "node %u says that it %s, and names %u as leader", id,
                             belief->is_self ? "leads" : "does not lead", belief->named);
    }
    if (cv__properties_is_new_belief(p, id, belief)) {
        change_belief(p, id, belief);
        for (uint32_t i = 0; i < p->now.holder_count; i++) {
            judge_disjoint(p, id, p->holder[i]);
        }
    }
    if (belief->is_self && belief->members.word_count > 0) {
        n->has_members = true;
        cv__set_copy(members_of(p, id), belief->members.word, p->setting.node_count);
    }
    const int64_t now_ns = p->now.now_ns;
    if (belief->is_self && cv__properties_holds(p, id, now_ns) && n->held_token == belief->token) {
        cv__properties_renew(p, id, belief->until_ns);
        judge_support(p, id);
        return 0;
    }
    unsigned change = 0;
    if (n->holds) {
        cv__properties_end(p, id);
        change |= CV_HOLD_ENDED;
    }
    /* A leadership may be over before it is reported: it waited for the disk, and the node then
     * slept. */
    if (belief->is_self && belief->until_ns > now_ns) {
        cv__properties_begin(p, id, belief->token, belief->until_ns);
        judge_support(p, id);
        change |= CV_HOLD_BEGUN;
    }
    return change;
}

/* ---- Lives ----------------------------------------------------------------------------------- */

static void forget(struct cv_property_node *n)
{
    n->leader = CV_ID_NONE;
    n->token = 0;
    n->label = 0;
}

void cv__properties_start(struct cv_properties *p, cv_id id, bool remembers)
{
    struct cv_property_node *n = node_of(p, id);
    n->has_started = true;
    n->takes_part = true;
    n->is_candidate = true;
    n->has_resigned = false;
    if (!remembers) {
        n->token_max = 0;
        n->label_max = 0;
    }
    forget(n);
}

void cv__properties_crash(struct cv_properties *p, cv_id id)
{
    struct cv_property_node *n = node_of(p, id);
    if (n->holds) {
        const bool has_end = n->held_until_ns != INT64_MAX;
        cv__properties_end(p, id);
        n->left_token = n->held_token;
        n->left_until_ns = has_end ? n->held_until_ns : 0;
        p->now.left_until_ns = cv__max64(p->now.left_until_ns, n->left_until_ns);
    }
    n->takes_part = false;
    forget(n);
}

void cv__properties_bury(struct cv_properties *p, cv_id id)
{
    node_of(p, id)->left_until_ns = 0;
}

void cv__properties_stop(struct cv_properties *p, cv_id id)
{
    node_of(p, id)->takes_part = false;
}

/* ---- Liveness -------------------------------------------------------------------------------- */

void cv__properties_send(struct cv_properties *p, cv_id id)
{
    p->judged[CV_PROPERTY_COMMUNICATION_EFFICIENT] += p->now.is_settled;
    if (p->now.is_settled && p->node[id - 1].leader != id) {
        cv__properties_break(p, CV_PROPERTY_COMMUNICATION_EFFICIENT,
                             "node %u sends although it does not lead and nothing disturbs", id);
    }
}

bool cv__properties_arrive(struct cv_properties *p, cv_id from, cv_id to, int64_t delay_ns)
{
    const bool may_connect = cv__connections_is_kept(&p->connections) && from != to;
    if (may_connect && delay_ns > p->setting.timely_ns) {
        cv__connections_fail(&p->connections, p->now.now_ns, from, to);
    }
    if (may_connect && delay_ns <= p->setting.fast_ns) {
        cv__connections_arrive(&p->connections, p->now.now_ns, from, to);
    }
    const bool is_late = p->setting.delta_ns > 0 && delay_ns > p->setting.delta_ns;
    if (is_late) {
        cv__properties_disturb(p);
    }
    return is_late;
}

void cv__properties_lose(struct cv_properties *p, cv_id from, cv_id to)
{
    cv__connections_fail(&p->connections, p->now.now_ns, from, to);
    cv__properties_disturb(p);
}

void cv__properties_disturb(struct cv_properties *p)
{
    p->now.disturbed_ns = p->now.now_ns;
    p->now.is_settled = false;
}

int64_t cv__properties_due_ns(const struct cv_properties *p)
{
    return p->now.disturbed_ns + p->setting.settle_ns;
}

int64_t cv__properties_graph_due_ns(const struct cv_properties *p)
{
    CV_ASSERT(p->setting.graph_ns > 0);
    return p->now.disturbed_ns + cv__max64(p->setting.graph_ns, p->setting.settle_ns);
}

/* Compares one node with the first of its part. */
static void judge_node(struct cv_properties *p, cv_id id, cv_id first)
{
    const struct cv_property_node *n = node_of(p, id);
    const struct cv_property_node *f = node_of(p, first);
    if (n->leader == CV_ID_NONE) {
        cv__properties_break(
            p, CV_PROPERTY_TERMINATION,
            "node %u knows no leader although nothing disturbed for the settling time", id);
        return;
    }
    if (n->leader != f->leader && f->leader != CV_ID_NONE) {
        cv__properties_break(p, CV_PROPERTY_AGREEMENT, "node %u follows %u but node %u follows %u",
                             id, n->leader, first, f->leader);
    }
    /* [Wiesmann07, lemmas 2 and 3] Each closed round has one leader, with one number. */
    if (n->leader == f->leader && (n->token != f->token || n->label != f->label) &&
        p->setting.is_anonymous) {
        cv__properties_break(p, CV_PROPERTY_AGREEMENT,
                             "node %u follows token %llu but node %u follows %llu", id,
                             (unsigned long long)n->token, first, (unsigned long long)f->token);
    }
    if (n->leader > p->setting.node_count) {
        return; /* not a node: judge_belief() has reported that validity is broken */
    }
    const struct cv_property_node *leader = node_of(p, n->leader);
    if (leader->part != n->part || leader->leader != n->leader ||
        !cv__properties_holds(p, n->leader, p->now.now_ns)) {
        cv__properties_break(p, CV_PROPERTY_AGREEMENT,
                             "node %u follows %u, which does not lead its part", id, n->leader);
    }
}

/* Can this part elect? It needs a candidate, and perhaps a majority of all members. */
static bool can_elect(const struct cv_properties *p, uint16_t part)
{
    bool has_candidate = false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->setting.node_count; i++) {
        const struct cv_property_node *n = &p->node[i];
        if (n->takes_part && n->part == part) {
            has_candidate = has_candidate || n->is_candidate;
            count++;
        }
    }
    const bool needs_majority = (p->setting.assumes & BIT(CV_ASSUME_MAJORITY)) != 0;
    return has_candidate && (!needs_majority || 2 * count > p->setting.node_count);
}

/* Does the rightful node lead the part? A node that resigned may lead or stand back. */
static void judge_rightful(struct cv_properties *p, cv_id first)
{
    const struct cv_property_node *f = node_of(p, first);
    const bool is_highest = p->setting.rightful == CV_RIGHTFUL_HIGHEST_ID;
    cv_id best = CV_ID_NONE;
    for (cv_id id = 1; id <= p->setting.node_count; id++) {
        const struct cv_property_node *n = node_of(p, id);
        if (n->takes_part && n->is_candidate && !n->has_resigned && n->part == f->part &&
            (best == CV_ID_NONE || is_highest)) {
            best = id;
        }
    }
    if (p->setting.rightful == CV_RIGHTFUL_ANY || best == CV_ID_NONE || f->leader == CV_ID_NONE ||
        f->leader > p->setting.node_count) {
        return;
    }
    p->judged[CV_PROPERTY_RIGHTFUL_LEADER]++;
    const bool is_better = is_highest ? f->leader > best : f->leader < best;
    if (f->leader != best && !(is_better && node_of(p, f->leader)->has_resigned)) {
        cv__properties_break(p, CV_PROPERTY_RIGHTFUL_LEADER, "node %u leads instead of node %u",
                             f->leader, best);
    }
}

static void judge_part(struct cv_properties *p, cv_id first)
{
    const uint16_t part = node_of(p, first)->part;
    p->judged[CV_PROPERTY_TERMINATION]++;
    p->judged[CV_PROPERTY_AGREEMENT]++;
    for (cv_id id = first; id <= p->setting.node_count; id++) {
        if (node_of(p, id)->takes_part && node_of(p, id)->part == part) {
            judge_node(p, id, first);
        }
    }
    judge_rightful(p, first);
}

/* Compares every node with the first of its part: linear for one part, and parts are few. */
void cv__properties_judge(struct cv_properties *p)
{
    p->now.is_settled = true;
    p->judged[CV_PROPERTY_STABILITY]++;
    uint16_t *part_done = cv__allocate(p->setting.node_count, sizeof *part_done);
    uint32_t done_count = 0;
    for (cv_id first = 1; first <= p->setting.node_count; first++) {
        const uint16_t part = node_of(p, first)->part;
        bool is_done = !node_of(p, first)->takes_part;
        for (uint32_t i = 0; i < done_count && !is_done; i++) {
            is_done = part_done[i] == part;
        }
        if (is_done) {
            continue;
        }
        part_done[done_count++] = part;
        if (can_elect(p, part)) {
            judge_part(p, first);
        }
    }
    free(part_done);
}

/* ---- Liveness while links are down ----------------------------------------------------------- */

/* A process that is connected to a majority can lead. If there is one, some process must lead. */
static void judge_center(struct cv_properties *p, const uint64_t *graph, const uint64_t *candidates)
{
    const cv_id center = cv__graph_center(graph, candidates, p->setting.node_count);
    if (center == CV_ID_NONE) {
        return;
    }
    p->judged[CV_PROPERTY_TERMINATION]++;
    bool is_led = false;
    for (cv_id id = 1; id <= p->setting.node_count; id++) {
        is_led = is_led || cv__properties_holds(p, id, p->now.now_ns);
    }
    if (!is_led) {
        cv__properties_break(p, CV_PROPERTY_TERMINATION,
                             "no node leads although node %u is connected to a majority", center);
    }
}

/* Compares one process with what fig. 24 says of it. */
static void judge_marked(struct cv_properties *p, const uint64_t *graph, const uint64_t *leaders,
                         cv_id id)
{
    const uint32_t count = p->setting.node_count;
    const bool holds = cv__properties_holds(p, id, p->now.now_ns);
    const uint64_t *near = cv__graph_near(graph, count, id);
    if (!cv__set_has(leaders, id)) {
        if (holds) {
            cv__properties_break(p, CV_PROPERTY_RIGHTFUL_LEADER,
                                 "node %u leads, although a node before it leads or must lead", id);
        }
        return;
    }
    if (!holds) {
        cv__properties_break(p, CV_PROPERTY_TERMINATION,
                             "node %u does not lead the nodes that it is connected to", id);
    }
    for (cv_id other = 1; (other = cv__set_next(near, other, count)) != CV_ID_NONE; other++) {
        if (holds && node_of(p, other)->leader != id) {
            cv__properties_break(p, CV_PROPERTY_AGREEMENT,
                                 "node %u follows %u instead of its leader %u", other,
                                 node_of(p, other)->leader, id);
        }
    }
}

/* [Fetzer99, fig. 24] Exactly these lead, each the nodes that it is connected to. */
static void judge_leaders(struct cv_properties *p, const uint64_t *graph,
                          const uint64_t *candidates)
{
    uint64_t leaders[CV_MEMBERS_MAX / 64];
    cv__graph_leaders(graph, candidates, p->setting.node_count, leaders);
    p->judged[CV_PROPERTY_TERMINATION]++;
    p->judged[CV_PROPERTY_AGREEMENT]++;
    p->judged[CV_PROPERTY_RIGHTFUL_LEADER]++;
    for (cv_id id = 1; id <= p->setting.node_count; id++) {
        judge_marked(p, graph, leaders, id);
    }
}

void cv__properties_judge_graph(struct cv_properties *p, const uint64_t *graph)
{
    uint64_t candidates[CV_MEMBERS_MAX / 64] = {0};
    bool has_resigned = false;
    for (cv_id id = 1; id <= p->setting.node_count; id++) {
        const struct cv_property_node *n = node_of(p, id);
        has_resigned = has_resigned || (n->takes_part && n->has_resigned);
        if (n->takes_part && n->is_candidate && !n->has_resigned) {
            cv__set_add(candidates, id);
        }
    }
    if (p->setting.rightful != CV_RIGHTFUL_LOWEST_ID) {
        judge_center(p, graph, candidates);
    } else if (
        !has_resigned) { /* a node that resigned may lead or not, and the others depend on it */
        judge_leaders(p, graph, candidates);
    }
}

/* ---- Timeliness ------------------------------------------------------------------------------ */

/* [Fetzer99, sec. V] T: a set of nodes that has been a Delta-partition for kappa has had a leader
 * in this time. With `majority`, only a majority counts; and the set must have a candidate. */
static void judge_partition(struct cv_properties *p, const uint64_t *set, cv_id first)
{
    const uint32_t node_count = p->setting.node_count;
    const uint32_t count = cv__set_count(set, node_count);
    const bool needs_majority = (p->setting.assumes & BIT(CV_ASSUME_MAJORITY)) != 0;
    bool has_candidate = false;
    int64_t led_ns = -1;
    for (cv_id id = first; (id = cv__set_next(set, id, node_count)) != CV_ID_NONE; id++) {
        const struct cv_property_node *n = node_of(p, id);
        has_candidate = has_candidate || n->is_candidate;
        const int64_t until_ns = n->holds ? cv__min64(n->held_until_ns, p->now.now_ns) : n->led_ns;
        led_ns = cv__max64(led_ns, until_ns);
    }
    if (!has_candidate || (needs_majority && 2 * count <= node_count)) {
        return;
    }
    p->judged[CV_PROPERTY_TIMELINESS]++;
    if (led_ns < p->now.now_ns - p->setting.kappa_ns) {
        cv__properties_break(p, CV_PROPERTY_TIMELINESS,
                             "the partition of node %u had no leader for kappa (%u nodes)", first,
                             count);
    }
}

static void judge_timeliness(struct cv_properties *p)
{
    uint64_t set[CV_CONNECTIONS_NODES_MAX / 64];
    uint64_t done[CV_CONNECTIONS_NODES_MAX / 64] = {0};
    for (cv_id id = 1; id <= p->setting.node_count; id++) {
        if (!cv__set_has(done, id) && cv__connections_partition(&p->connections, p->now.now_ns, id,
                                                                p->setting.kappa_ns, set)) {
            cv__set_unite(done, set, p->setting.node_count);
            judge_partition(p, set, id);
        }
        judge_inconsistency(p, id);
    }
}

void cv__properties_look_now(struct cv_properties *p)
{
    p->now.looked_ns = p->now.now_ns;
    judge_timeliness(p);
}
