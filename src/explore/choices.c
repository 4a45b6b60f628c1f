/* src/explore/choices.c - lists what may happen next, and does it; see choices.h. */
#include "explore/choices.h"

#include "explore/canonical.h"
#include "explore/describe.h"
#include "explore/disk.h"
#include "explore/service.h"

#include <string.h>

struct list {
    struct explore_choice *item;
    uint32_t count;
};

static void add_with(struct list *list, enum explore_act act, uint32_t node, uint32_t what,
                     enum explore_record record)
{
    CV_ASSERT(list->count < EXPLORE_CHOICES_MAX);
    CV_ASSERT(what <= UINT8_MAX);
    list->item[list->count++] = (struct explore_choice){
        .act = (uint8_t)act,
        .node = (uint8_t)node,
        .record = (uint8_t)record,
        .what = (uint8_t)what,
    };
}

static void add(struct list *list, enum explore_act act, uint32_t node, uint32_t what)
{
    add_with(list, act, node, what, EXPLORE_RECORD_SAVED);
}

static bool has(const struct explore_model *model, enum explore_budget budget)
{
    return model->world->h.budget[budget] > 0;
}

/* ---- What may or must happen in this instant ------------------------------------------------- */

static bool timer_may_fire(const struct explore_node *n, uint32_t node, uint32_t timer)
{
    return n->host.due_ns[timer] != 0 && n->host.due_ns[timer] <= explore_now_ns(node);
}

/* It must fire now, not at the next tick. */
static bool timer_must_fire(const struct explore_model *model, const struct explore_node *n,
                            uint32_t node, uint32_t timer)
{
    return n->latest_ns[timer] < explore_now_ns(node) + model->tick_ns;
}

static bool message_may_arrive(const struct explore_model *model, const struct explore_message *m)
{
    return m->sent_ns + model->delay_min_ns <= explore_now_ns(EXPLORE_REAL);
}

static bool message_must_arrive(const struct explore_model *model, const struct explore_message *m)
{
    return !m->is_late && m->sent_ns + model->delay_max_ns <
                              explore_now_ns(EXPLORE_REAL) + model->period_ns[m->to];
}

/* Not only by the next tick: with a slow clock a message that is sent now may have to arrive before
 * the receiver's next tick, and must not be dropped at this one. */
static bool message_has_arrived(const struct explore_model *model, const struct explore_message *m)
{
    return !m->is_late && m->sent_ns + model->delay_max_ns <= explore_now_ns(EXPLORE_REAL);
}

static bool is_same_message(const struct explore_model *model, uint32_t a, uint32_t b)
{
    struct explore_world *w = model->world;
    return memcmp(explore_message_at(model, w, a), explore_message_at(model, w, b),
                  model->compared_bytes) == 0;
}

/* Is a message in flight that was sent before it on the same link, and is not late? */
static bool has_predecessor(const struct explore_model *model, uint32_t index)
{
    const struct explore_message *m = explore_message_at(model, model->world, index);
    for (uint32_t i = 0; i < index; i++) {
        const struct explore_message *other = explore_message_at(model, model->world, i);
        if (other->from == m->from && other->to == m->to && !other->is_late &&
            other->deferred == 0) {
            return true;
        }
    }
    return false;
}

static bool has_copy_before(const struct explore_model *model, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (is_same_message(model, i, index)) {
            return true;
        }
    }
    return false;
}

/* ---- The choices of one actor ---------------------------------------------------------------- */

/* Doing nothing comes first: of two equally short traces, the one with fewer events is shown. */
static void add_environment(const struct explore_model *model, struct list *list)
{
    if (model->world->h.partition != 0) {
        /* A partition that cut nothing off could have ended before. */
        if ((model->world->h.cut & EXPLORE_CUT_ACTED) != 0 || model->has_every_moment) {
            add(list, EXPLORE_ACT_END, 0, 0);
            add(list, EXPLORE_ACT_HEAL, 0, 0);
        }
    } else if (has(model, EXPLORE_PARTITION) || has(model, EXPLORE_ONE_WAY)) {
        add(list, EXPLORE_ACT_END, 0, 0);
        for (uint32_t group = 1; group < 1u << (explore_actor_count(model) - 1); group++) {
            if (has(model, EXPLORE_PARTITION)) {
                add(list, EXPLORE_ACT_CUT, 0, group);
            }
            if (has(model, EXPLORE_ONE_WAY)) {
                add(list, EXPLORE_ACT_CUT_FROM, 0, group);
                add(list, EXPLORE_ACT_CUT_TO, 0, group);
            }
        }
    }
}

/* If nodes may change places, what is dropped must not depend on the order of the senders: so many
 * messages of each are kept. */
static void drop_overdue(struct explore_model *model, uint32_t node, uint32_t keep)
{
    uint32_t overdue[EXPLORE_SERVICE + 1] = {0}; /* by sender, or together */
    for (uint32_t i = 0; i < model->world->h.message_count;) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        const bool is_overdue = m->to == node && m->deferred == 0 && message_has_arrived(model, m);
        CV_ASSERT(m->from <= EXPLORE_SERVICE);
        if (is_overdue && ++overdue[model->is_symmetric ? m->from : 0] > keep) {
            explore_message_remove(model, i);
        } else {
            i++;
        }
    }
}

/* A message for a node that is down is lost if it arrives before the node starts again, or becomes
 * late; otherwise it still arrives in this instant, at the new life. */
static void add_lost_arrivals(const struct explore_model *model, uint32_t node, struct list *list)
{
    for (uint32_t i = 0; i < model->world->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        if (m->to != node || m->deferred != 0 || m->is_late || !message_may_arrive(model, m)) {
            continue;
        }
        if (!has_predecessor(model, i)) {
            add(list, EXPLORE_ACT_MISS, node, i);
        }
        if (has(model, EXPLORE_LATE)) {
            add(list, EXPLORE_ACT_DELAY, node, i);
        }
    }
}

static void add_down(const struct explore_model *model, uint32_t node, struct list *list)
{
    if (has(model, EXPLORE_RECOVER)) {
        add(list, EXPLORE_ACT_RECOVER, node, 0);
        if (has(model, EXPLORE_REBOOT)) {
            add(list, EXPLORE_ACT_REBOOT, node, 0);
        }
        add(list, EXPLORE_ACT_END, node, 0);
        add_lost_arrivals(model, node, list);
    }
}

static void add_crash(const struct explore_model *model, uint32_t node, struct list *list)
{
    add(list, EXPLORE_ACT_CRASH, node, 0);
    if (has(model, EXPLORE_WITNESS)) {
        add(list, EXPLORE_ACT_CRASH_WITNESSED, node, 0);
    }
}

static void add_paused(struct explore_model *model, uint32_t node, struct list *list)
{
    drop_overdue(model, node, EXPLORE_INBOX_MAX);
    add(list, EXPLORE_ACT_WAKE, node, 0);
    add(list, EXPLORE_ACT_END, node, 0);
    if (has(model, EXPLORE_CRASH)) {
        add_crash(model, node, list);
    }
}

/* A crash in the middle of a step matters only by what a recovered node remembers. */
static bool may_crash_at_record(const struct explore_model *model)
{
    return has(model, EXPLORE_CRASH) && has(model, EXPLORE_RECOVER);
}

/* A timer or a message, with all that may become of the record of its step. */
static void add_step(const struct explore_model *model, struct list *list, enum explore_act act,
                     uint32_t actor, uint32_t what)
{
    add(list, act, actor, what);
    if (actor == EXPLORE_SERVICE) {
        return; /* it saves nothing */
    }
    if (may_crash_at_record(model)) {
        add_with(list, act, actor, what, EXPLORE_RECORD_CRASH);
    }
    if (has(model, EXPLORE_DISK)) {
        add_with(list, act, actor, what, EXPLORE_RECORD_FAIL);
        add_with(list, act, actor, what, EXPLORE_RECORD_FAIL_LATE);
    }
    if (has(model, EXPLORE_SLOW) &&
        !explore_disk_is_busy(explore_node_at(model, model->world, actor))) {
        add_with(list, act, actor, what, EXPLORE_RECORD_SLOW);
    }
}

static bool add_timers(const struct explore_model *model, uint32_t node, struct list *list)
{
    const struct explore_node *n = explore_node_at(model, model->world, node);
    bool must = false;
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        if (!timer_may_fire(n, node, timer)) {
            continue;
        }
        must = must || timer_must_fire(model, n, node, timer);
        add_step(model, list, EXPLORE_ACT_TIMER, node, timer);
    }
    return must;
}

static bool has_acted(const struct explore_model *model, uint32_t actor)
{
    return actor == EXPLORE_SERVICE ? model->world->h.service.has_acted
                                    : explore_node_at(model, model->world, actor)->has_acted;
}

/* What may happen to a message that does not arrive now. Its receiver's other events do not depend
 * on it, so this is tried first in a turn; later it would give the same worlds. */
static void add_loss(const struct explore_model *model, uint32_t actor, uint32_t index,
                     struct list *list)
{
    const struct explore_message *m = explore_message_at(model, model->world, index);
    if (has_acted(model, actor) && !model->has_every_moment) {
        return;
    }
    if (m->is_late) {
        /* Until it arrives it is the same as a lost one, except that nothing settles meanwhile. */
        if (model->judges_liveness) {
            add(list, EXPLORE_ACT_FORGET, actor, index);
        }
    } else if (message_may_arrive(model, m)) { /* at once: until then it blocks its link */
        if (has(model, EXPLORE_LOSS)) {
            add(list, EXPLORE_ACT_LOSE, actor, index);
        }
        if (has(model, EXPLORE_LATE)) {
            add(list, EXPLORE_ACT_DELAY, actor, index);
        }
    }
}

/* May it arrive once more? A host drops a second answer, and a witness is heard once. */
static bool may_come_again(const struct explore_model *model, const struct explore_message *m)
{
    return has(model, EXPLORE_DUPLICATE) && !m->is_repeat && m->kind != EXPLORE_ANSWER &&
           !explore_is_of_witness(m);
}

static void add_arrival(const struct explore_model *model, uint32_t actor, uint32_t index,
                        bool overtakes, struct list *list)
{
    const struct explore_message *m = explore_message_at(model, model->world, index);
    add_step(model, list, overtakes ? EXPLORE_ACT_OVERTAKE : EXPLORE_ACT_DELIVER, actor, index);
    if (may_come_again(model, m)) {
        add_step(model, list, overtakes ? EXPLORE_ACT_OVERTAKE_TWICE : EXPLORE_ACT_DUPLICATE, actor,
                 index);
    }
}

static bool add_messages(const struct explore_model *model, uint32_t node, struct list *list)
{
    bool must = false;
    for (uint32_t i = 0; i < model->world->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        if (m->to != node || m->deferred != 0 || !message_may_arrive(model, m)) {
            continue;
        }
        must = must || message_must_arrive(model, m);
        const bool is_first = m->is_late || !has_predecessor(model, i);
        if (is_first && !has_copy_before(model, i)) {
            add_arrival(model, node, i, /* overtakes= */ false, list);
        } else if (!is_first && has(model, EXPLORE_REORDER)) {
            add_arrival(model, node, i, /* overtakes= */ true, list);
        }
        if (!m->is_late || !has_copy_before(model, i)) {
            add_loss(model, node, i, list);
        }
    }
    return must;
}

/* A slow record may become durable now, or fail. */
static void add_saved(const struct explore_model *model, uint32_t node, struct list *list)
{
    add(list, EXPLORE_ACT_SAVED, node, 0);
    if (may_crash_at_record(model)) {
        add(list, EXPLORE_ACT_SAVED_CRASH, node, 0);
    }
    if (has(model, EXPLORE_DISK)) {
        add(list, EXPLORE_ACT_SAVE_FAIL, node, 0);
        add(list, EXPLORE_ACT_SAVE_FAIL_LATE, node, 0);
    }
}

/* A request to resign is an event itself, so it is tried at every tick. */
static bool may_resign(const struct explore_model *model, uint32_t node)
{
    return has(model, EXPLORE_RESIGN) &&
           cv__properties_holds(&model->properties, node + 1, explore_now_ns(EXPLORE_REAL));
}

/* A crash, like a pause, matters only by what it prevents, so it is tried right before an event. A
 * crash right after an event differs only if the node may be back, or the others are judged, before
 * the next event. */
static void add_up(const struct explore_model *model, uint32_t node, struct list *list)
{
    const struct explore_node *n = explore_node_at(model, model->world, node);
    const bool must_fire = add_timers(model, node, list);
    bool must = add_messages(model, node, list) || must_fire;
    if (explore_disk_is_busy(n)) {
        add_saved(model, node, list);
        must = must ||
               (n->slow_until_ns != 0 && n->slow_until_ns < explore_now_ns(node) + model->tick_ns);
    }
    const bool has_event = list->count > 0;
    const bool is_more =
        has(model, EXPLORE_RECOVER) || has(model, EXPLORE_WITNESS) || model->judges_liveness;
    if (has(model, EXPLORE_CRASH) && (has_event || (n->has_acted && is_more))) {
        add_crash(model, node, list);
    }
    if (has(model, EXPLORE_PAUSE) && must) {
        add(list, EXPLORE_ACT_PAUSE, node, 0);
    }
    if (may_resign(model, node)) {
        add(list, EXPLORE_ACT_RESIGN, node, 0);
    }
    if (list->count > 0 && !must) {
        add(list, EXPLORE_ACT_END, node, 0);
    }
}

static bool is_store_asked(const struct explore_model *model)
{
    for (uint32_t i = 0; i < model->world->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        if (explore_is_of_service(m) && m->deferred == 0) {
            return model->service == EXPLORE_STORE;
        }
    }
    return false;
}

static bool may_extend(const struct explore_model *model)
{
    return has(model, EXPLORE_RESTART) && model->service == EXPLORE_STORE &&
           model->world->h.service.record.holder != 0;
}

/* Like a crash, a restart matters by what it prevents. But a request that fails is told at once,
 * and a lease begins again in the very instant, so these two are tried at every tick. */
static void add_restarts(const struct explore_model *model, struct list *list)
{
    const bool prevents = list->count > 0 || model->world->h.service.has_acted;
    if (has(model, EXPLORE_RESTART) && (prevents || is_store_asked(model))) {
        add(list, EXPLORE_ACT_RESTART, EXPLORE_SERVICE, EXPLORE_RESTART_FAILS);
    }
    if (has(model, EXPLORE_RESTART) && prevents) {
        add(list, EXPLORE_ACT_RESTART, EXPLORE_SERVICE, EXPLORE_RESTART_SILENTLY);
    }
    if (may_extend(model)) {
        add(list, EXPLORE_ACT_RESTART, EXPLORE_SERVICE, EXPLORE_RESTART_EXTENDS);
    }
}

static void add_service(const struct explore_model *model, struct list *list)
{
    bool must = explore_service_is_expired(model, model->world);
    if (must) {
        add(list, EXPLORE_ACT_EXPIRE, EXPLORE_SERVICE, 0);
    } else {
        must = add_messages(model, EXPLORE_SERVICE, list);
    }
    add_restarts(model, list);
    if (list->count > 0 && !must) {
        add(list, EXPLORE_ACT_END, EXPLORE_SERVICE, 0);
    }
}

static void add_turn(struct explore_model *model, struct list *list)
{
    const uint32_t turn = model->world->h.turn;
    if (turn == 0) {
        add_environment(model, list);
        return;
    }
    if (turn > model->node_count) {
        if (model->world->h.service.next_tick_ns == explore_now_ns(EXPLORE_REAL)) {
            add_service(model, list);
        }
        return;
    }
    const uint32_t node = explore_node_of_turn(model->world, turn);
    const struct explore_node *n = explore_node_at(model, model->world, node);
    if (n->next_tick_ns != explore_now_ns(EXPLORE_REAL)) {
        return; /* it acts only at its own ticks */
    }
    if (!n->is_up) {
        add_down(model, node, list);
    } else if (n->is_paused) {
        add_paused(model, node, list);
    } else {
        add_up(model, node, list);
    }
}

/* ---- Time goes on ---------------------------------------------------------------------------- */

/* The first of from, from + period, from + 2 period, ... that is not before `at`. */
static int64_t reach(int64_t from, int64_t at, int64_t period)
{
    return at <= from ? from : from + (at - from + period - 1) / period * period;
}

/* The first tick of an actor, from that one on, at which a message can reach it. */
static int64_t next_arrival_ns(const struct explore_model *model, uint32_t actor, int64_t tick_ns)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < model->world->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        if (m->to == actor && m->deferred == 0) {
            next_ns = cv__min64(
                next_ns, reach(tick_ns, m->sent_ns + model->delay_min_ns, model->period_ns[actor]));
        }
    }
    return next_ns;
}

/* Like next_act_ns(), for the store or the sequencer. */
static int64_t next_service_ns(const struct explore_model *model)
{
    const struct explore_service *s = &model->world->h.service;
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    const int64_t period_ns = model->period_ns[EXPLORE_SERVICE];
    const int64_t tick_ns = s->next_tick_ns > now_ns ? s->next_tick_ns : now_ns + period_ns;
    if (may_extend(model) || (has(model, EXPLORE_RESTART) && is_store_asked(model))) {
        return tick_ns;
    }
    int64_t next_ns = next_arrival_ns(model, EXPLORE_SERVICE, tick_ns);
    if (s->record.holder != 0 && s->waiting != 0) {
        const int64_t local_ns =
            explore_now_ns(EXPLORE_SERVICE) + (tick_ns - now_ns) * model->tick_ns / period_ns;
        const int64_t ticks =
            (reach(local_ns, s->record.until_ns, model->tick_ns) - local_ns) / model->tick_ns;
        next_ns = cv__min64(next_ns, tick_ns + ticks * period_ns);
    }
    return next_ns;
}

/* The first tick after this instant at which the node may have to act; INT64_MAX: none. */
static int64_t next_act_ns(const struct explore_model *model, uint32_t node)
{
    struct explore_world *w = model->world;
    const struct explore_node *n = explore_node_at(model, w, node);
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    const int64_t period_ns = model->period_ns[node];
    const int64_t tick_ns = n->next_tick_ns > now_ns ? n->next_tick_ns : now_ns + period_ns;
    if (n->is_paused || explore_disk_is_busy(n)) {
        return tick_ns;
    }
    if (!n->is_up) { /* messages to a node that stays down cause no event */
        return has(model, EXPLORE_RECOVER) ? tick_ns : INT64_MAX;
    }
    if (may_resign(model, node)) {
        return tick_ns;
    }
    const int64_t local_ns = explore_now_ns(node) + (tick_ns - now_ns) * model->tick_ns / period_ns;
    int64_t next_ns = next_arrival_ns(model, node, tick_ns);
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (n->host.due_ns[i] != 0) {
            const int64_t due_ns = reach(local_ns, n->host.due_ns[i], model->tick_ns);
            const int64_t ticks = (due_ns - local_ns) / model->tick_ns;
            next_ns = cv__min64(next_ns, tick_ns + ticks * period_ns);
        }
    }
    return next_ns;
}

/* Nodes that are alike have no order of their own. Those that lead are last: if one of them ends in
 * an instant in which another one begins, both led at once, as in another order. */
static uint8_t order_of_turns(const struct explore_model *model)
{
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    uint32_t order = 0;
    uint32_t turn = 0;
    for (uint32_t leads = 0; leads <= 1; leads++) {
        for (uint32_t i = 0; i < model->node_count; i++) {
            if (cv__properties_holds(&model->properties, i + 1, now_ns) == (leads == 1)) {
                order |= i << 2 * turn++;
            }
        }
    }
    return (uint8_t)order;
}

/* Nothing will ever happen in this world. What its nodes believe must still be judged once the
 * settling time is over; a partition that has just cut something off may heal first. INT64_MAX:
 * there is nothing to judge, or it is judged in a world whose partition ended earlier. */
static int64_t next_verdict_ns(struct explore_model *model)
{
    struct explore_world *w = model->world;
    const int64_t next_ns = explore_now_ns(EXPLORE_REAL) + model->tick_ns;
    if (!model->judges_liveness || model->properties.now.is_settled) {
        return INT64_MAX;
    }
    if (w->h.partition != 0) {
        const bool may_heal = (w->h.cut & EXPLORE_CUT_ACTED) != 0 || model->has_every_moment;
        return may_heal ? next_ns : INT64_MAX;
    }
    w->h.message_count = 0; /* all are to nodes that are down for good */
    return cv__max64(next_ns, cv__properties_due_ns(&model->properties));
}

/* False: nothing will ever happen again, or only what also happens in another world. */
static bool advance(struct explore_model *model)
{
    struct explore_world *w = model->world;
    if (w->h.cut == EXPLORE_CUT_BEGAN && !model->has_every_moment) {
        return false; /* the same partition may begin later instead */
    }
    w->h.cut &= (uint8_t)~EXPLORE_CUT_BEGAN;
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < model->node_count; i++) {
        next_ns = cv__min64(next_ns, next_act_ns(model, i));
    }
    struct explore_service *s = &w->h.service;
    if (model->service != EXPLORE_NO_SERVICE) {
        next_ns = cv__min64(next_ns, next_service_ns(model));
    }
    next_ns = next_ns == INT64_MAX ? next_verdict_ns(model) : next_ns;
    if (next_ns == INT64_MAX) {
        return false;
    }
    if (model->service != EXPLORE_NO_SERVICE) {
        s->next_tick_ns = reach(s->next_tick_ns, next_ns, model->period_ns[EXPLORE_SERVICE]);
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        n->next_tick_ns = reach(n->next_tick_ns, next_ns, model->period_ns[i]);
    }
    explore_world_pass(model, next_ns - now_ns);
    explore_world_look(model);
    w->h.turn = 0;
    w->h.order = model->is_symmetric ? order_of_turns(model) : 0;
    return true;
}

/* What is overdue has reached a node that is down. */
static void end_turn_of(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_node_at(model, model->world, node);
    n->has_acted = 0;
    if (!n->is_up && n->next_tick_ns == explore_now_ns(EXPLORE_REAL)) {
        drop_overdue(model, node, 0);
    }
}

/* Passes the turn to the next actor. */
static void end_turn(struct explore_model *model)
{
    struct explore_world *w = model->world;
    model->has_turned = true;
    if (w->h.turn == 0) { /* the environment has used what was cut off before */
        w->h.cut &= (uint8_t)~EXPLORE_CUT_ACTED;
    } else if (w->h.turn <= model->node_count) {
        end_turn_of(model, explore_node_of_turn(w, w->h.turn));
    } else {
        w->h.service.has_acted = 0;
    }
    w->h.turn++;
}

static bool find_turn(struct explore_model *model)
{
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    for (;;) {
        while (model->world->h.turn <= explore_actor_count(model)) {
            struct list list = {choice, 0};
            add_turn(model, &list);
            if (list.count > 0) {
                return true;
            }
            end_turn(model);
        }
        if (!advance(model) || model->end.is_broken) {
            return false;
        }
    }
}

bool explore_settle(struct explore_model *model, struct explore_world *world)
{
    explore_world_lend(model, world);
    const bool is_turn = find_turn(model);
    explore_world_take(model);
    if (is_turn && !model->has_turned) {
        explore_canonical_order(model, world);
        return !model->end.is_bound;
    }
    if (is_turn && model->is_beyond != NULL && model->is_beyond(model, world)) {
        model->has_been_beyond = true;
        return false;
    }
    if (is_turn) {
        (model->is_raw ? explore_canonical_order : explore_canonical)(model, world);
    }
    return is_turn && !model->end.is_bound;
}

uint32_t explore_choices(struct explore_model *model, struct explore_world *world,
                         struct explore_choice *ret_choice)
{
    struct list list = {ret_choice, 0};
    explore_world_lend(model, world);
    add_turn(model, &list);
    CV_ASSERT(list.count > 0);
    return list.count;
}

bool explore_has_choice(struct explore_model *model, struct explore_world *world)
{
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    struct list list = {choice, 0};
    explore_world_lend(model, world);
    add_turn(model, &list);
    return list.count > 0;
}

/* ---- Doing it -------------------------------------------------------------------------------- */

/* The budgets that pay for a choice, as bits. */
static uint32_t costs_of(const struct explore_choice *choice)
{
    static const uint32_t of_act[EXPLORE_ACT_COUNT] = {
        [EXPLORE_ACT_OVERTAKE] = BIT(EXPLORE_REORDER),
        [EXPLORE_ACT_DUPLICATE] = BIT(EXPLORE_DUPLICATE),
        [EXPLORE_ACT_OVERTAKE_TWICE] = BIT(EXPLORE_REORDER) | BIT(EXPLORE_DUPLICATE),
        [EXPLORE_ACT_LOSE] = BIT(EXPLORE_LOSS),
        [EXPLORE_ACT_DELAY] = BIT(EXPLORE_LATE),
        [EXPLORE_ACT_CRASH] = BIT(EXPLORE_CRASH),
        [EXPLORE_ACT_CRASH_WITNESSED] = BIT(EXPLORE_CRASH) | BIT(EXPLORE_WITNESS),
        [EXPLORE_ACT_RECOVER] = BIT(EXPLORE_RECOVER),
        [EXPLORE_ACT_REBOOT] = BIT(EXPLORE_RECOVER) | BIT(EXPLORE_REBOOT),
        [EXPLORE_ACT_PAUSE] = BIT(EXPLORE_PAUSE),
        [EXPLORE_ACT_RESIGN] = BIT(EXPLORE_RESIGN),
        [EXPLORE_ACT_CUT] = BIT(EXPLORE_PARTITION),
        [EXPLORE_ACT_CUT_FROM] = BIT(EXPLORE_ONE_WAY),
        [EXPLORE_ACT_CUT_TO] = BIT(EXPLORE_ONE_WAY),
        [EXPLORE_ACT_RESTART] = BIT(EXPLORE_RESTART),
        [EXPLORE_ACT_SAVED_CRASH] = BIT(EXPLORE_CRASH),
        [EXPLORE_ACT_SAVE_FAIL] = BIT(EXPLORE_DISK),
        [EXPLORE_ACT_SAVE_FAIL_LATE] = BIT(EXPLORE_DISK),
    };
    static const uint32_t of_record[EXPLORE_RECORD_COUNT] = {
        [EXPLORE_RECORD_CRASH] = BIT(EXPLORE_CRASH),
        [EXPLORE_RECORD_FAIL] = BIT(EXPLORE_DISK),
        [EXPLORE_RECORD_FAIL_LATE] = BIT(EXPLORE_DISK),
        [EXPLORE_RECORD_SLOW] = BIT(EXPLORE_SLOW),
    };
    CV_ASSERT((of_act[choice->act] & of_record[choice->record]) == 0);
    return of_act[choice->act] | of_record[choice->record];
}

static void pay(struct explore_model *model, uint32_t costs)
{
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        if ((costs & BIT(i)) != 0) {
            CV_ASSERT(model->world->h.budget[i] > 0);
            model->world->h.budget[i]--;
        }
    }
    if (costs != 0) {
        explore_world_disturb(model);
    }
}

/* The witness waits until no process of the node is left, so its leadership has ended when another
 * node hears of it. The time before that is explored by a crash without a witness. */
static void crash_witnessed(struct explore_model *model, uint32_t node)
{
    const bool is_certain =
        explore_node_at(model, model->world, node)->certain_ns <= explore_now_ns(node);
    explore_world_bequeath(model, node);
    explore_world_crash(model, node);
    if (is_certain) {
        cv__properties_bury(&model->properties, node + 1);
    }
}

static void do_at_node(struct explore_model *model, const struct explore_choice *choice)
{
    struct explore_node *n = explore_node_at(model, model->world, choice->node);
    switch (choice->act) {
    case EXPLORE_ACT_TIMER:
        explore_world_fire(model, choice->node, choice->what);
        break;
    case EXPLORE_ACT_CRASH:
        explore_world_crash(model, choice->node);
        break;
    case EXPLORE_ACT_CRASH_WITNESSED:
        crash_witnessed(model, choice->node);
        break;
    case EXPLORE_ACT_REBOOT:
        explore_world_reboot(model, choice->node);
        explore_world_recover(model, choice->node);
        break;
    case EXPLORE_ACT_RECOVER:
        explore_world_recover(model, choice->node);
        break;
    case EXPLORE_ACT_PAUSE:
        n->is_paused = 1;
        end_turn(model);
        break;
    case EXPLORE_ACT_WAKE:
        n->is_paused = 0;
        explore_world_disturb(model);
        break;
    case EXPLORE_ACT_RESIGN:
        explore_world_resign(model, choice->node);
        break;
    case EXPLORE_ACT_SAVED:
        explore_disk_end(model, choice->node, /* is_saved= */ true);
        explore_world_disturb(model);
        break;
    case EXPLORE_ACT_SAVED_CRASH:
        explore_disk_write(model, choice->node);
        explore_world_crash(model, choice->node);
        break;
    case EXPLORE_ACT_SAVE_FAIL_LATE:
        explore_disk_write(model, choice->node);
        explore_disk_end(model, choice->node, /* is_saved= */ false);
        break;
    case EXPLORE_ACT_SAVE_FAIL:
        explore_disk_end(model, choice->node, /* is_saved= */ false);
        break;
    default:
        CV_ASSERT(!"an act at a node");
    }
}

static void do_it(struct explore_model *model, const struct explore_choice *choice)
{
    struct explore_world *w = model->world;
    switch (choice->act) {
    case EXPLORE_ACT_END:
        end_turn(model);
        break;
    case EXPLORE_ACT_DELIVER:
    case EXPLORE_ACT_OVERTAKE:
        explore_world_deliver(model, choice->what, /* keeps= */ false);
        break;
    case EXPLORE_ACT_DUPLICATE:
    case EXPLORE_ACT_OVERTAKE_TWICE:
        explore_world_deliver(model, choice->what, /* keeps= */ true);
        break;
    case EXPLORE_ACT_LOSE:
    case EXPLORE_ACT_MISS:
    case EXPLORE_ACT_FORGET:
        explore_message_remove(model, choice->what);
        break;
    case EXPLORE_ACT_DELAY:
        explore_message_at(model, w, choice->what)->is_late = 1;
        break;
    case EXPLORE_ACT_CUT:
    case EXPLORE_ACT_CUT_FROM:
    case EXPLORE_ACT_CUT_TO:
        w->h.partition = choice->what;
        w->h.way = choice->act == EXPLORE_ACT_CUT        ? EXPLORE_BOTH_WAYS
                   : choice->act == EXPLORE_ACT_CUT_FROM ? EXPLORE_FROM_GROUP
                                                         : EXPLORE_TO_GROUP;
        end_turn(model);
        w->h.cut = EXPLORE_CUT_BEGAN;
        break;
    case EXPLORE_ACT_HEAL:
        w->h.partition = 0;
        w->h.way = 0;
        end_turn(model);
        w->h.cut = 0;
        explore_world_disturb(model);
        break;
    case EXPLORE_ACT_EXPIRE:
        explore_service_expire(model);
        break;
    case EXPLORE_ACT_RESTART:
        explore_service_restart(model, choice->what);
        break;
    default:
        do_at_node(model, choice);
    }
}

bool explore_do(struct explore_model *model, struct explore_world *world,
                const struct explore_choice *choice)
{
    explore_world_lend(model, world);
    model->has_turned = false;
    explore_describe(model, choice);
    const uint32_t costs = costs_of(choice);
    pay(model, costs);
    model->crashes_at_record = choice->record == EXPLORE_RECORD_CRASH;
    model->writes_at_failure = choice->record == EXPLORE_RECORD_FAIL_LATE;
    model->fails_at_record = model->writes_at_failure || choice->record == EXPLORE_RECORD_FAIL;
    model->waits_at_record = choice->record == EXPLORE_RECORD_SLOW;
    model->has_saved = false;
    cv__assert_trap = &model->trap.trap;
    if (setjmp(model->on_assert) == 0) {
        do_it(model, choice);
        if (model->crashes_at_record) {
            explore_world_crash(model, choice->node);
        }
        for (uint32_t i = 0; model->budget[EXPLORE_SLOW] > 0 && i < model->node_count; i++) {
            explore_disk_defer(model, i);
        }
    }
    cv__assert_trap = NULL;
    explore_world_take(model);
    if (choice->record != EXPLORE_RECORD_SAVED && !model->has_saved) {
        return false;
    }
    model->spent |= costs;
    return true;
}
