/* src/explore/canonical.c - one form for worlds that will behave in the same way; see
 * canonical.h. */
#include "explore/canonical.h"

#include "explore/disk.h"
#include "explore/service.h"

#include <string.h>

#define CLASSIC_SMALL "delta=1t heartbeat=2t timeout=5t"

static const struct explore_row rows[] = {
    {"bully", EXPLORE_NOT_ALIKE, explore_classic_timers, CLASSIC_SMALL, "", 16, false, 0, 0, NULL,
     NULL, NULL},
    {"bully-improved", EXPLORE_NOT_ALIKE, explore_classic_timers, CLASSIC_SMALL, "", 16, false, 0,
     0, NULL, NULL, NULL},
    {"bully-modified", EXPLORE_NOT_ALIKE, explore_classic_timers, CLASSIC_SMALL, "", 16, false, 0,
     0, NULL, NULL, NULL},
    {"ring", EXPLORE_NOT_ALIKE, explore_classic_timers, CLASSIC_SMALL, "", 16, false, 0, 0,
     explore_canonical_ring, NULL, NULL},
    {"ring-modified", EXPLORE_NOT_ALIKE, explore_classic_timers, CLASSIC_SMALL, "", 16, false, 0, 0,
     explore_canonical_ring, NULL, NULL},
    {"pole", EXPLORE_NOT_ALIKE, explore_pole_timers,
     "delta=1t sigma=0t heartbeat=2t timeout=5t lease=8t round=3t probe=4t resign-hold=8t",
     "timeout=6t lease=10t round=4t",
     40 /* four leases: slowness of a claim counts up to two, and half of it is recorded */, true,
     4, 40 /* it waits for a slow disk up to 40 leases */, explore_canonical_pole,
     explore_pole_is_beyond, EXPLORE_POLE_BEYOND},
    {"lease", EXPLORE_ALIKE, explore_lease_timers,
     "lease=9t renew=3t retry=1t retry-max=2t timeout=3t poll=9t rest=11t",
     "lease=12t poll=12t rest=14t", 24, false, 0, 0, explore_canonical_lease, NULL, NULL},
    {"anon", EXPLORE_ALIKE_UNTIL_RESTART, explore_anon_timers,
     "eta=2t eps=8t sequencer-time=2t R=2", "eps=24t", 32, false, 0, 0, explore_canonical_anon,
     NULL, NULL},
    {"local", EXPLORE_NOT_ALIKE, explore_local_timers, "delta=2t ep=2t sigma=0t expires=7t lock=8t",
     "delta=4t ep=1t expires=10t lock=14t", 16, true, 1, 0, explore_canonical_local, NULL, NULL},
};

const struct explore_row *explore_row_find(const struct cv_protocol *protocol)
{
    for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(rows[i].protocol, protocol->name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void canonical_timers(struct explore_node *n, uint32_t node)
{
    const int64_t now_ns = explore_now_ns(node);
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (n->host.due_ns[i] == 0) {
            n->latest_ns[i] = 0;
        } else { /* it does not matter for how long it has been due */
            n->host.due_ns[i] = cv__max64(n->host.due_ns[i], now_ns);
            n->latest_ns[i] = cv__max64(n->latest_ns[i], now_ns);
        }
    }
}

static void canonical_judged(const struct explore_model *model, struct explore_world *w,
                             uint32_t node)
{
    struct cv_property_node *judged = explore_judged_at(w, node);
    uint64_t *members = (uint64_t *)(explore_judged_at(w, 0) + model->node_count) + node;
    judged->led_ns = -1;
    judged->held_from_ns = 0;
    if (!judged->holds) {
        judged->held_token = 0;
        judged->held_until_ns = 0;
    }
    if (judged->left_until_ns <= explore_now_ns(EXPLORE_REAL)) {
        judged->left_until_ns = 0;
        judged->left_token = 0;
    }
    if (!judged->holds && judged->left_until_ns == 0) {
        judged->has_members = false;
        *members = 0;
    }
    if ((model->judged & CV_PROP(LEADER_ORDER)) == 0) {
        judged->token_max = 0;
        judged->label_max = 0;
    }
}

/* ---- What the properties remember ------------------------------------------------------------ */

static void canonical_owners(const struct explore_model *model, struct explore_header *h)
{
    if ((model->judged & CV_PROP(LEADER_ORDER)) == 0) {
        if (h->owner_count > 0) {
            memset(h->owner, 0, sizeof h->owner);
        }
        h->owner_count = 0;
        return;
    }
    for (uint32_t i = 0; i < EXPLORE_TOKENS; i++) { /* an assignment may copy padding */
        struct cv_token_owner *owner = &h->owner[i];
        if (owner->leader == CV_ID_NONE) {
            continue;
        }
        const uint64_t token = owner->token;
        const uint64_t label = owner->label;
        const cv_id leader = owner->leader;
        memset(owner, 0, sizeof *owner);
        owner->token = token;
        owner->label = label;
        owner->leader = leader;
    }
}

static void canonical_holders(const struct explore_model *model, struct explore_world *w)
{
    cv_id *holder =
        (cv_id *)((uint64_t *)(explore_judged_at(w, 0) + model->node_count) + model->node_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (explore_judged_at(w, i)->holds) {
            holder[count++] = i + 1;
        }
    }
    CV_ASSERT(count == w->h.holder_count);
    memset(holder + count, 0, (model->node_count - count) * sizeof *holder);
}

static void canonical_header(const struct explore_model *model, struct explore_header *h)
{
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    const int64_t settle_ns = model->properties.setting.settle_ns;
    canonical_owners(model, h);
    if ((model->judged & CV_PROP(TOKEN_MONOTONIC)) == 0) {
        h->has_token = 0;
        h->token_max = 0;
    }
    if (h->left_until_ns <= now_ns) {
        h->left_until_ns = 0;
    }
    if (!model->judges_liveness) {
        h->disturbed_ns = now_ns;
    } else if (h->is_settled || h->disturbed_ns < now_ns - settle_ns) {
        h->disturbed_ns = now_ns - settle_ns;
    }
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The messages of a link keep their order; late ones have no order. */
static int compare_messages(const struct explore_model *model, const struct explore_message *a,
                            const struct explore_message *b)
{
    const int keys[] = {a->to - b->to, a->from - b->from, a->is_late - b->is_late,
                        a->deferred - b->deferred};
    for (uint32_t i = 0; i < COUNT_OF(keys); i++) {
        if (keys[i] != 0) {
            return keys[i];
        }
    }
    return a->is_late ? memcmp(a, b, model->compared_bytes) : 0;
}

void explore_canonical_order(const struct explore_model *model, struct explore_world *w)
{
    uint64_t moving[EXPLORE_MESSAGE_WORDS_MAX];
    CV_ASSERT(model->message_bytes <= sizeof moving);
    for (uint32_t i = 1; i < w->h.message_count; i++) {
        uint32_t at = i;
        if (compare_messages(model, explore_message_at(model, w, i - 1),
                             explore_message_at(model, w, i)) <= 0) {
            continue; /* like most of them */
        }
        memcpy(moving, explore_message_at(model, w, i), model->message_bytes);
        while (at > 0 && compare_messages(model, explore_message_at(model, w, at - 1),
                                          (const struct explore_message *)moving) > 0) {
            memcpy(explore_message_at(model, w, at), explore_message_at(model, w, at - 1),
                   model->message_bytes);
            at--;
        }
        memcpy(explore_message_at(model, w, at), moving, model->message_bytes);
    }
}

/* Is its receiver down for good, so that it never arrives? */
static bool is_dead(const struct explore_model *model, struct explore_world *w,
                    const struct explore_message *m)
{
    if (m->to == EXPLORE_SERVICE || m->deferred != 0) {
        return false; /* a message that waits for a disk is dropped with its slot */
    }
    return !explore_node_at(model, w, m->to)->is_up && w->h.budget[EXPLORE_RECOVER] == 0;
}

static void canonical_messages(const struct explore_model *model, struct explore_world *w)
{
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (!is_dead(model, w, m)) {
            /* The age of a message that is due does not matter. */
            m->sent_ns = cv__max64(m->sent_ns, now_ns - model->delay_max_ns);
            if (kept != i) {
                memcpy(explore_message_at(model, w, kept), m, model->message_bytes);
            }
            kept++;
        }
    }
    w->h.message_count = (uint16_t)kept;
}

/* ---- Stamps ---------------------------------------------------------------------------------- */

/* While clocks do not drift, the age of a stamp does not matter, only the difference of its two
 * instants: the delay plus the difference of the clocks. */
static void make_younger(struct cv_echo *echo, int64_t now_ns)
{
    if (echo->peer_sent_ns != 0) {
        const int64_t later_ns = now_ns - echo->received_ns;
        echo->received_ns += later_ns;
        echo->peer_sent_ns += later_ns;
    }
}

/* An echo shows how long a message of the peer took. If that is more than any core distinguishes,
 * it does not matter how much more. */
static void clamp_echo(const struct explore_model *model, struct cv_echo *echo, uint32_t node,
                       uint32_t peer)
{
    const int64_t took_ns =
        (echo->received_ns - explore_now_ns(node)) - (echo->peer_sent_ns - explore_now_ns(peer));
    if (echo->peer_sent_ns != 0 && took_ns > model->bound_ns) {
        echo->peer_sent_ns += took_ns - model->bound_ns;
    }
}

static void canonical_stamps(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        for (uint32_t j = 0; j < model->node_count; j++) {
            struct cv_echo *echo = &explore_node_at(model, w, i)->echo[j];
            make_younger(echo, explore_now_ns(i));
            clamp_echo(model, echo, i, j);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind != EXPLORE_PEER || m->deferred != 0) {
            continue; /* it has no stamps */
        }
        m->stamp.sent_ns = cv__max64(m->stamp.sent_ns, explore_now_ns(m->from) - model->bound_ns);
        make_younger(&m->stamp.echo, m->stamp.sent_ns);
        if (m->stamp.boot == explore_node_at(model, w, m->from)->boot) {
            clamp_echo(model, &m->stamp.echo, m->from, m->to); /* instants of one boot */
        }
    }
}

/* ---- Stamps of clocks that drift ------------------------------------------------------------- */

/* The two instants of an echo, A and B, enter a bound only as B(1 - rho) - A(1 + rho) (see
 * core/failaware.c). So both may be moved, as long as this value stays the same: A by 10 parts and
 * B by 12, because rho is 1/11. B is moved by whole ticks of its clock, so nothing is rounded. */
#define AHEAD (EXPLORE_DRIFT_PARTS + 1)
#define BEHIND (EXPLORE_DRIFT_PARTS - 1)

static void make_drifting_younger(const struct explore_model *model, struct cv_echo *echo,
                                  int64_t until_ns)
{
    const int64_t ticks = (until_ns - echo->received_ns) / model->tick_ns;
    echo->received_ns += ticks * model->tick_ns;
    echo->peer_sent_ns += ticks * (model->tick_ns / AHEAD * BEHIND);
}

/* `received`, `sent`: how long ago B and A were, each on its own clock. That value never falls as
 * time passes, because rho is the bound on drift. If it is above all that a core distinguishes, it
 * does not matter how far. Values of worlds differ by microseconds, or by what was rounded. */
static int64_t clamp_drifting(const struct explore_model *model, int64_t received_ns,
                              int64_t sent_ns)
{
    if (model->bound_ns == INT64_MAX) {
        return sent_ns;
    }
    const int64_t limit_ns = EXPLORE_DRIFT_PARTS * model->bound_ns + BEHIND * received_ns;
    return AHEAD * sent_ns > limit_ns - NS_PER_US ? limit_ns / AHEAD : sent_ns;
}

/* A stamp of a clock that has started again since is not used. */
static bool is_of_this_boot(const struct explore_model *model, struct explore_world *w,
                            const struct cv_echo *echo, uint32_t peer)
{
    return echo->peer_boot == explore_node_at(model, w, peer)->boot;
}

static void canonical_drifting_echoes(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        const int64_t now_ns = explore_now_ns(i);
        for (uint32_t j = 0; j < model->node_count; j++) {
            struct cv_echo *echo = &explore_node_at(model, w, i)->echo[j];
            if (echo->peer_sent_ns == 0) {
                continue;
            }
            make_drifting_younger(model, echo, now_ns);
            const int64_t sent_ns = is_of_this_boot(model, w, echo, j)
                                        ? clamp_drifting(model, now_ns - echo->received_ns,
                                                         explore_now_ns(j) - echo->peer_sent_ns)
                                        : 0;
            echo->peer_sent_ns = explore_now_ns(j) - sent_ns;
        }
    }
}

/* Of a message's own stamp C and the echo's B only the difference matters for its bound; C becomes
 * the A of the receiver's echo. */
static void canonical_drifting_message(const struct explore_model *model, struct explore_world *w,
                                       struct explore_message *m)
{
    struct cv_stamp *stamp = &m->stamp;
    struct cv_echo *echo = &stamp->echo;
    const int64_t now_ns = explore_now_ns(m->to);
    if (echo->peer_sent_ns != 0) {
        make_drifting_younger(model, echo, stamp->sent_ns);
        CV_ASSERT(echo->received_ns == stamp->sent_ns); /* both at a tick of the sender */
    }
    stamp->sent_ns = cv__max64(stamp->sent_ns, explore_now_ns(m->from) - model->bound_ns);
    if (echo->peer_sent_ns != 0) {
        echo->received_ns = stamp->sent_ns;
        const int64_t sent_ns = is_of_this_boot(model, w, echo, m->to)
                                    ? clamp_drifting(model, 0, now_ns - echo->peer_sent_ns)
                                    : 0;
        echo->peer_sent_ns = now_ns - sent_ns;
    }
}

static void canonical_drifting_stamps(const struct explore_model *model, struct explore_world *w)
{
    canonical_drifting_echoes(model, w);
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER && m->deferred == 0) { /* others have no stamps */
            canonical_drifting_message(model, w, m);
        }
    }
}

/* The record of a node that will never start again. */
static void forget_record(const struct explore_world *w, struct explore_node *n)
{
    if (w->h.budget[EXPLORE_RECOVER] == 0 || (n->is_up && w->h.budget[EXPLORE_CRASH] == 0)) {
        memset(n->disk, 0, sizeof n->disk);
        n->disk_count = 0;
    }
}

void explore_canonical(const struct explore_model *model, struct explore_world *world)
{
    bool is_anybody_down = false;
    if (world->h.budget[EXPLORE_CRASH] == 0) {
        world->h.budget[EXPLORE_WITNESS] = 0;
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, world, i);
        canonical_timers(n, i);
        explore_disk_canonical(model, n);
        forget_record(world, n);
        canonical_judged(model, world, i);
        is_anybody_down = is_anybody_down || !n->is_up;
        if (world->h.budget[EXPLORE_WITNESS] == 0 || n->certain_ns <= explore_now_ns(i)) {
            n->certain_ns = 0;
        }
    }
    if (!is_anybody_down && world->h.budget[EXPLORE_CRASH] == 0) {
        world->h.budget[EXPLORE_RECOVER] = 0;
    }
    if (world->h.budget[EXPLORE_RECOVER] == 0) {
        world->h.budget[EXPLORE_REBOOT] = 0;
    }
    canonical_holders(model, world);
    canonical_header(model, &world->h);
    canonical_messages(model, world);
    explore_service_canonical(model, world);
    if (model->uses_bounds) {
        (model->config[0].drift_ppb == 0 ? canonical_stamps : canonical_drifting_stamps)(model,
                                                                                         world);
    }
    if (model->canonical != NULL) {
        model->canonical(model, world);
    }
    explore_canonical_order(model, world);
}
