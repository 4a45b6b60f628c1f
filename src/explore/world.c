/* src/explore/world.c - the explored world; see world.h. */
#include "explore/world.h"

#include "base/memory.h"
#include "core/core.h"
#include "core/errors.h"
#include "explore/disk.h"
#include "explore/service.h"
#include "trace/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *explore_budget_name(enum explore_budget budget)
{
    static const char *const names[] = {
#define EXPLORE_BUDGET_TEXT(name, text) text,
        EXPLORE_BUDGET_MAP(EXPLORE_BUDGET_TEXT)
#undef EXPLORE_BUDGET_TEXT
    };
    CV_ASSERT(budget < EXPLORE_BUDGET_COUNT);
    return names[budget];
}

void explore_tell(struct explore_model *model, const char *format, ...)
{
    if (model->say == NULL) {
        return;
    }
    char line[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    model->say(model->say_context, model->elapsed_ns, line);
}

/* ---- Properties ------------------------------------------------------------------------------ */

static void on_break(void *context, enum cv_property property, const char *detail)
{
    struct explore_model *model = context;
    model->properties.broken[property].is_broken = false; /* every world begins unbroken */
    if ((model->judged & BIT(property)) == 0) {
        explore_tell(model, "  (%s: %s)", cv_property_name(property), detail);
        return;
    }
    if (!model->end.is_broken) {
        model->end.is_broken = true;
        model->end.property = property;
        (void)snprintf(model->end.detail, sizeof model->end.detail, "%s", detail);
    }
}

void explore_world_lend(struct explore_model *model, struct explore_world *world)
{
    struct cv_properties *p = &model->properties;
    const uint32_t count = model->node_count;
    model->world = world;
    p->node = explore_judged_at(world, 0);
    p->member_word = (uint64_t *)(p->node + count);
    p->holder = (cv_id *)(p->member_word + count); /* a set of so few members is one word */
    p->owner = world->h.owner;
    p->owner_count = world->h.owner_count;
    p->now.now_ns = explore_now_ns(EXPLORE_REAL);
    p->now.disturbed_ns = world->h.disturbed_ns;
    p->now.left_until_ns = world->h.left_until_ns;
    p->now.token_max = world->h.token_max;
    p->now.holder_count = world->h.holder_count;
    p->now.has_token = world->h.has_token != 0;
    p->now.is_settled = world->h.is_settled != 0;
}

void explore_world_take(struct explore_model *model)
{
    const struct cv_properties *p = &model->properties;
    struct explore_header *h = &model->world->h;
    h->owner_count = p->owner_count;
    h->disturbed_ns = p->now.disturbed_ns;
    h->left_until_ns = p->now.left_until_ns;
    h->token_max = p->now.token_max;
    h->holder_count = p->now.holder_count;
    h->has_token = p->now.has_token;
    h->is_settled = p->now.is_settled;
    if (h->owner_count > EXPLORE_TOKENS_MAX && !model->end.is_broken) {
        model->end.is_bound = true;
        (void)snprintf(model->end.detail, sizeof model->end.detail,
                       "more than %u tokens in one run", EXPLORE_TOKENS_MAX);
    }
}

void explore_world_disturb(struct explore_model *model)
{
    cv__properties_disturb(&model->properties);
}

/* The first real instant at which the node's clock shows that. */
static int64_t real_of(const struct explore_model *model, uint32_t node, int64_t local_ns)
{
    const int64_t ahead_ns = local_ns - explore_now_ns(node);
    const int64_t now_ns = explore_now_ns(EXPLORE_REAL);
    if (ahead_ns <= 0) {
        return now_ns;
    }
    const int64_t ticks = ahead_ns / model->tick_ns;
    const int64_t rest_ns = ahead_ns % model->tick_ns;
    const int64_t period_ns = model->period_ns[node];
    return now_ns + ticks * period_ns + (rest_ns * period_ns + model->tick_ns - 1) / model->tick_ns;
}

/* ---- Messages -------------------------------------------------------------------------------- */

struct explore_message *explore_message_add(struct explore_model *model)
{
    struct explore_world *w = model->world;
    if (w->h.message_count == EXPLORE_MESSAGES_MAX) {
        model->end.is_bound = true;
        (void)snprintf(model->end.detail, sizeof model->end.detail,
                       "more than %u messages in flight", EXPLORE_MESSAGES_MAX);
        w->h.message_count--; /* this world is not used any more */
    }
    struct explore_message *m = explore_message_at(model, w, w->h.message_count++);
    memset(m, 0, model->message_bytes);
    if (model->numbers_messages) {
        m->word[model->message_words] = ++model->message_number;
    }
    return m;
}

void explore_message_remove(struct explore_model *model, uint32_t index)
{
    struct explore_world *w = model->world;
    CV_ASSERT(index < w->h.message_count);
    w->h.message_count--; /* the others keep their order, which is that of sending */
    memmove(explore_message_at(model, w, index), explore_message_at(model, w, index + 1),
            (w->h.message_count - index) * model->message_bytes);
}

static void send_one(struct explore_model *model, uint32_t to, const struct explore_kept *kept)
{
    struct explore_world *w = model->world;
    const uint32_t from = model->actor;
    const char *name = model->protocol->messages[kept->message.type].name;
    if (explore_cuts_off(w, from, to)) {
        explore_tell(model, "  %s to %u is cut off", name, to + 1);
        return;
    }
    explore_tell(model, "  sends %s to %u", name, to + 1);
    struct explore_message *m = explore_message_add(model);
    const struct explore_shape *shape = &model->shape[kept->message.type];
    m->from = (uint8_t)from;
    m->to = (uint8_t)to;
    m->type = (uint8_t)kept->message.type;
    m->life =
        model->budget[EXPLORE_WITNESS] > 0 ? (uint8_t)explore_node_at(model, w, from)->life : 0;
    m->sent_ns = explore_now_ns(EXPLORE_REAL);
    memcpy(m->word, kept->message.field, shape->scalar_count * sizeof *m->word);
    memcpy(m->word + shape->scalar_count, kept->word, shape->list_count * sizeof *m->word);
    if (model->uses_bounds) {
        m->stamp.sent_ns = explore_now_ns(from);
        m->stamp.boot = explore_node_at(model, w, from)->boot;
        m->stamp.echo = explore_node_at(model, w, from)->echo[to];
    }
}

/* ---- What the host of an explored node does (host/node.h) ------------------------------------ */

static int64_t call_now_ns(void *self)
{
    return explore_now_ns(((struct explore_model *)self)->actor);
}

static int64_t call_arm(void *self, uint32_t timer, int64_t earliest_ns, int64_t latest_ns)
{
    struct explore_model *model = self;
    explore_node_at(model, model->world, model->actor)->latest_ns[timer] = latest_ns;
    return earliest_ns; /* a choice picks the instant when it fires */
}

static uint32_t call_encode(void *self, const struct cv_message *message)
{
    struct explore_model *model = self;
    CV_ASSERT(model->kept_count < CV_EFFECTS_MAX);
    struct explore_kept *kept = &model->kept[model->kept_count];
    const struct explore_shape *shape = &model->shape[message->type];
    kept->message = *message;
    kept->are_members = false;
    for (uint32_t i = 0; i < shape->list_count; i++) {
        CV_ASSERT(message->list[i].word_count <= 1);
        kept->word[i] = message->list[i].word_count > 0 ? message->list[i].word[0] : 0;
    }
    return model->kept_count++;
}

/* Only the members of a leadership that waits for a record are kept: a set of one word. */
static uint32_t call_keep(void *self, const void *bytes, size_t byte_count)
{
    struct explore_model *model = self;
    CV_ASSERT(model->kept_count < CV_EFFECTS_MAX);
    CV_ASSERT(byte_count == sizeof(uint64_t));
    struct explore_kept *kept = &model->kept[model->kept_count];
    kept->are_members = true;
    memcpy(kept->word, bytes, byte_count);
    return model->kept_count++;
}

static const void *call_kept(void *self, uint32_t kept, size_t *ret_byte_count)
{
    *ret_byte_count = sizeof(uint64_t);
    return explore_disk_kept(self, kept)->word;
}

static void call_drop(void *self, uint32_t kept)
{
    explore_disk_drop(self, kept);
}

static void call_send(void *self, uint32_t kept, cv_id first, cv_id last, bool to_self)
{
    struct explore_model *model = self;
    CV_ASSERT(!to_self); /* no explored core sends to itself */
    const struct explore_kept *sent = explore_disk_kept(model, kept);
    last = last < model->node_count ? last : model->node_count;
    for (cv_id to = first; to <= last; to++) {
        if (to != model->actor + 1) {
            send_one(model, to - 1, sent);
        }
    }
    if (first <= last) {
        cv__properties_send(&model->properties, model->actor + 1);
    }
}

static void tell_belief(struct explore_model *model, cv_id id,
                        const struct cv_leadership *leadership)
{
    const char *reason = cv_reason_name(leadership->reason);
    const unsigned long long token = leadership->token;
    if (leadership->is_self) {
        explore_tell(model, "  node %u LEADS with token %llu (%s)", id, token, reason);
    } else if (leadership->leader != CV_ID_NONE) {
        explore_tell(model, "  node %u follows %u with token %llu (%s)", id, leadership->leader,
                     token, reason);
    } else {
        explore_tell(model, "  node %u knows no leader (%s)", id, reason);
    }
}

static void call_tell(void *self, const struct cv_leadership *leadership)
{
    struct explore_model *model = self;
    const struct cv_belief belief = {
        .named = leadership->leader,
        .leader = leadership->leader == CV_ID_ANONYMOUS ? explore_label_owner(leadership->label)
                                                        : leadership->leader,
        .token = leadership->token,
        .label = leadership->label,
        .is_self = leadership->is_self,
        .until_ns = leadership->valid_until_ns == 0
                        ? INT64_MAX
                        : real_of(model, model->actor, leadership->valid_until_ns),
        .members = leadership->members,
    };
    const cv_id id = model->actor + 1;
    if (cv__properties_is_new_belief(&model->properties, id, &belief)) {
        tell_belief(model, id, leadership);
    }
    (void)cv__properties_believe(&model->properties, id, &belief);
}

static void call_ask_sequence(void *self, uint64_t request, uint64_t reference)
{
    explore_service_ask_sequence(self, request, reference);
}

static void call_ask_store(void *self, const struct cv_effect *effect)
{
    explore_service_ask_store(self, effect);
}

static enum cv_save_result call_save(void *self, const uint64_t *word, uint32_t word_count)
{
    struct explore_model *model = self;
    struct explore_node *n = explore_node_at(model, model->world, model->actor);
    model->has_saved = true;
    if (model->waits_at_record) {
        explore_tell(model, "  its disk is slow");
        n->slow_until_ns = model->slow_ns > 0 ? explore_now_ns(model->actor) + model->slow_ns : 0;
        return CV_SAVE_BEGUN;
    }
    if (!model->fails_at_record || model->writes_at_failure) {
        memset(n->disk, 0, sizeof n->disk);
        memcpy(n->disk, word, word_count * sizeof *word);
        n->disk_count = word_count;
    }
    if (model->fails_at_record) {
        return CV_SAVE_FAILED;
    }
    return model->crashes_at_record ? CV_SAVE_BEGUN : CV_SAVE_DONE;
}

static void call_disk_failed(void *self, const char *why)
{
    struct explore_model *model = self;
    explore_tell(model, "  its disk fails%s", why != NULL ? why : "");
    cv__properties_stop(&model->properties, model->actor + 1);
}

static void call_stepped(void *self, const struct cv_event *event, const struct cv_effects *out)
{
    struct explore_model *model = self;
    (void)event;
    for (uint32_t i = 0; model->say != NULL && i < out->note_count; i++) {
        const struct cv_record record = {
            .kind = CV_RECORD_NOTE,
            .node = model->actor + 1,
            .peer = out->note[i].peer,
            .number = out->note[i].number,
            .bound_ns = model->elapsed_ns + real_of(model, model->actor, out->note[i].time_ns) -
                        explore_now_ns(EXPLORE_REAL),
            .text = out->note[i].text,
        };
        char text[CV_NOTE_BYTES];
        cv__trace_note_text(&record, text);
        explore_tell(model, "  node %u: %s", model->actor + 1, text);
    }
}

static const struct cv_node_calls calls = {
    .now_ns = call_now_ns,
    .arm = call_arm,
    .encode = call_encode,
    .keep = call_keep,
    .kept = call_kept,
    .drop = call_drop,
    .send = call_send,
    .tell = call_tell,
    .ask_sequence = call_ask_sequence,
    .ask_store = call_ask_store,
    .save = call_save,
    .disk_failed = call_disk_failed,
    .stepped = call_stepped,
};

/* ---- Events ---------------------------------------------------------------------------------- */

struct explore_node *explore_world_enter(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_node_at(model, model->world, node);
    model->actor = node;
    model->kept_count = 0;
    model->host.core = n->core;
    model->host.deferred =
        model->budget[EXPLORE_SLOW] > 0 ? explore_deferred_at(model, n) : model->deferred;
    model->effects.note = model->say != NULL ? model->note : NULL;
    return n;
}

void explore_world_fire(struct explore_model *model, uint32_t node, uint32_t timer)
{
    struct explore_node *n = explore_world_enter(model, node);
    n->latest_ns[timer] = 0;
    n->has_acted = 1;
    cv__node_fire(&n->host, &model->host, timer);
}

void explore_world_resign(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_world_enter(model, node);
    explore_judged_at(model->world, node)->has_resigned = true;
    n->has_acted = 1;
    struct cv_event event = {.kind = CV_EVENT_RESIGN};
    cv__node_event(&n->host, &model->host, &event);
}

static int64_t bound_delay(struct explore_model *model, struct explore_node *n,
                           const struct explore_message *m)
{
    if (!model->uses_bounds) {
        return CV_DELAY_UNKNOWN;
    }
    const int64_t drift_ppb = model->config[0].drift_ppb;
    const int64_t now_ns = explore_now_ns(m->to);
    cv__echo_update(&n->echo[m->from], &m->stamp, now_ns, drift_ppb);
    return cv__delay_bound(&m->stamp, n->boot, now_ns, drift_ppb, /* delay_ns_min= */ 0);
}

static void give_message(struct explore_model *model, struct explore_node *n,
                         const struct explore_message *m, int64_t delay_ns_max)
{
    const struct explore_shape *shape = &model->shape[m->type];
    struct cv_message message = {.type = m->type};
    memcpy(message.field, m->word, shape->scalar_count * sizeof *m->word);
    for (uint32_t i = 0; i < shape->list_count; i++) {
        message.list[i] = (struct cv_list){&m->word[shape->scalar_count + i], 1};
    }
    struct cv_event event = {
        .kind = CV_EVENT_MESSAGE,
        .peer = model->protocol->is_anonymous ? CV_ID_NONE : m->from + 1u,
        .message = &message,
        .delay_ns_max = delay_ns_max,
    };
    cv__node_decoded_message(&n->host, &model->host, &event);
}

/* Frames name the start of their sender. A node that has heard a later start accepts no more
 * reports of a witness about an earlier one. */
static void drop_earlier_lives(struct explore_model *model, const struct explore_message *heard)
{
    for (uint32_t i = 0; i < model->world->h.message_count;) {
        const struct explore_message *m = explore_message_at(model, model->world, i);
        if (explore_is_of_witness(m) && m->from == heard->from && m->to == heard->to &&
            m->life < heard->life) {
            explore_message_remove(model, i);
        } else {
            i++;
        }
    }
}

void explore_world_deliver(struct explore_model *model, uint32_t index, bool keeps)
{
    uint64_t copy[EXPLORE_MESSAGE_WORDS_MAX];
    memcpy(copy, explore_message_at(model, model->world, index), model->message_bytes);
    const struct explore_message *m = (const struct explore_message *)copy;
    if (keeps) {
        explore_message_at(model, model->world, index)->is_late = 1;
        explore_message_at(model, model->world, index)->is_repeat = 1;
    } else {
        explore_message_remove(model, index);
    }
    if (explore_is_of_service(m)) {
        explore_service_deliver(model, m);
        return;
    }
    struct explore_node *n = explore_world_enter(model, m->to);
    n->has_acted = 1;
    if (m->is_late) {
        explore_world_disturb(model);
    }
    if (m->kind == EXPLORE_PEER) {
        drop_earlier_lives(model, m);
        (void)cv__properties_arrive(&model->properties, m->from + 1u, m->to + 1u,
                                    explore_now_ns(EXPLORE_REAL) - m->sent_ns);
        give_message(model, n, m, bound_delay(model, n, m));
        return;
    }
    struct cv_event event = {
        .kind = CV_EVENT_PEER_DOWN, .peer = m->from + 1u, .is_certain = m->kind != EXPLORE_HINT};
    cv__node_event(&n->host, &model->host, &event);
    if (m->kind == EXPLORE_FAREWELL) {
        model->kept_count = 0;
        give_message(model, n, m, CV_DELAY_UNKNOWN);
    }
}

void explore_world_bequeath(struct explore_model *model, uint32_t node)
{
    struct explore_world *w = model->world;
    const struct cv_protocol *protocol = model->protocol;
    const struct explore_node *n = explore_node_at(model, w, node);
    struct cv_message last = {0};
    enum explore_message_kind says = EXPLORE_HINT;
    if (n->certain_ns <= explore_now_ns(node)) {
        const bool is_more =
            protocol->farewell != NULL && protocol->farewell(n->core, explore_now_ns(node), &last);
        says = is_more ? EXPLORE_FAREWELL : EXPLORE_CERTAIN;
    }
    for (uint32_t to = 0; to < model->node_count; to++) {
        if (to == node) {
            continue;
        }
        struct explore_message *m = explore_message_add(model);
        m->kind = (uint8_t)says;
        m->from = (uint8_t)node;
        m->to = (uint8_t)to;
        m->life = (uint8_t)n->life;
        m->is_late = 1;
        m->sent_ns = explore_now_ns(EXPLORE_REAL);
        if (says == EXPLORE_FAREWELL) {
            CV_ASSERT(model->shape[last.type].list_count == 0);
            m->type = (uint8_t)last.type;
            memcpy(m->word, last.field, model->shape[last.type].scalar_count * sizeof *m->word);
        }
    }
}

void explore_world_crash(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_world_enter(model, node);
    cv__properties_crash(&model->properties, node + 1);
    explore_service_forget(model, node);
    cv__node_close(&n->host, &model->host);
    memset(&n->host, 0, sizeof n->host);
    memset(n->latest_ns, 0, sizeof n->latest_ns);
    memset(n->echo, 0, sizeof n->echo);
    memset(n->core, 0, model->node_bytes - sizeof *n); /* and what waited for the disk */
    n->certain_ns = 0;
    n->slow_until_ns = 0;
    n->is_up = 0;
    n->is_paused = 0;
    n->has_acted = 0;
}

void explore_world_recover(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_world_enter(model, node);
    n->is_up = 1;
    n->has_acted = 1;
    n->boot = n->boot > 0 ? n->boot : 1;
    n->life++;
    if (n->life > 1 && model->witness_ns > 0) {
        n->certain_ns = explore_now_ns(node) + model->witness_ns;
    }
    /* As in the simulator: with a sequencer, a node that saved nothing remembers nothing. */
    const bool remembers = n->disk_count > 0 || model->protocol->sequence_ns == NULL;
    cv__properties_start(&model->properties, node + 1, remembers);
    cv__core_init(model->protocol, n->core, &model->config[node]);
    cv__node_init(&n->host, model->budget[EXPLORE_SLOW] > 0 ? EXPLORE_DEFERRED_MAX : CV_EFFECTS_MAX,
                  /* waiting_capacity= */ 0);
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    memcpy(persisted, n->disk, sizeof persisted);
    struct cv_event event = {
        .kind = CV_EVENT_START,
        .persisted = persisted,
        .persisted_count = n->disk_count,
        .nonce = explore_nonce(node, n->life),
    };
    cv__node_event(&n->host, &model->host, &event);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void leap_words(uint64_t *word, size_t count, uint32_t clock, int64_t by_ns)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t of;
        if (explore_is_instant(word[i], &of) && of == clock) {
            word[i] += (uint64_t)by_ns;
        }
    }
}

struct leap {
    uint32_t clock;
    int64_t by_ns;
};

static void leap_deferred(const void *context, uint64_t *word, size_t count)
{
    const struct leap *leap = context;
    leap_words(word, count, leap->clock, leap->by_ns);
}

void explore_world_reboot(struct explore_model *model, uint32_t node)
{
    struct explore_world *w = model->world;
    const int64_t by_ns = EXPLORE_REBOOT_TICKS * model->tick_ns;
    explore_node_at(model, w, node)->boot++;
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        leap_words(n->disk, CV_PERSIST_WORDS_MAX, node, by_ns);
        leap_words(n->core, model->core_bytes / sizeof(uint64_t), node, by_ns);
        if (explore_disk_is_busy(n)) {
            explore_disk_move(model, n, leap_deferred, &(struct leap){node, by_ns});
        }
        for (uint32_t j = 0; model->uses_bounds && j < model->node_count; j++) {
            leap_words((uint64_t *)&n->echo[j], 2, node, by_ns);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        leap_words((uint64_t *)&m->stamp, 2, node, by_ns);
        leap_words((uint64_t *)&m->stamp.sent_ns, 1, node, by_ns);
        leap_words(m->word, model->message_words, node, by_ns);
    }
}

/* A stored instant of that clock, moved back by the time that has passed on it. */
static int64_t moved(const struct explore_model *model, int64_t at_ns, uint32_t clock,
                     int64_t passed_ns)
{
    return cv__max64(at_ns - passed_ns, explore_now_ns(clock) - model->horizon_ns);
}

static void move_words(const struct explore_model *model, uint64_t *word, size_t count,
                       const int64_t *passed_ns)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t clock;
        if (explore_is_instant(word[i], &clock)) {
            word[i] = (uint64_t)moved(model, (int64_t)word[i], clock, passed_ns[clock]);
        }
    }
}

struct move {
    const struct explore_model *model;
    const int64_t *passed_ns;
};

static void move_deferred(const void *context, uint64_t *word, size_t count)
{
    const struct move *move = context;
    move_words(move->model, word, count, move->passed_ns);
}

static void move_node(const struct explore_model *model, struct explore_node *n, uint32_t node,
                      const int64_t *passed_ns)
{
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (n->host.due_ns[i] != 0) {
            n->host.due_ns[i] = moved(model, n->host.due_ns[i], node, passed_ns[node]);
            n->latest_ns[i] = moved(model, n->latest_ns[i], node, passed_ns[node]);
        }
    }
    n->next_tick_ns -= passed_ns[EXPLORE_REAL];
    move_words(model, (uint64_t *)&n->certain_ns, 1, passed_ns);
    move_words(model, (uint64_t *)&n->slow_until_ns, 1, passed_ns);
    move_words(model, n->disk, CV_PERSIST_WORDS_MAX, passed_ns);
    move_words(model, n->core, model->core_bytes / sizeof(uint64_t), passed_ns);
    if (explore_disk_is_busy(n)) {
        explore_disk_move(model, n, move_deferred, &(struct move){model, passed_ns});
    }
    for (uint32_t i = 0; model->uses_bounds && i < model->node_count; i++) {
        move_words(model, (uint64_t *)&n->echo[i], 2, passed_ns);
    }
}

static void move_message(const struct explore_model *model, struct explore_message *m,
                         const int64_t *passed_ns)
{
    m->sent_ns = moved(model, m->sent_ns, EXPLORE_REAL, passed_ns[EXPLORE_REAL]);
    move_words(model, (uint64_t *)&m->stamp, 2, passed_ns);
    move_words(model, (uint64_t *)&m->stamp.sent_ns, 1, passed_ns);
    for (uint32_t i = 0; i < model->message_words; i++) {
        uint32_t clock;
        const bool is_instant = explore_is_instant(m->word[i], &clock);
        const uint64_t nonce = is_instant ? explore_nonce_in(m->word[i], clock) : 0;
        m->word[i] ^= nonce;
        move_words(model, &m->word[i], 1, passed_ns);
        m->word[i] ^= nonce;
    }
}

static void move_judged(const struct explore_model *model, struct cv_property_node *judged,
                        int64_t passed_ns)
{
    if (judged->holds && judged->held_until_ns != INT64_MAX) {
        judged->held_until_ns = moved(model, judged->held_until_ns, EXPLORE_REAL, passed_ns);
    }
    if (judged->left_until_ns != 0) {
        judged->left_until_ns = moved(model, judged->left_until_ns, EXPLORE_REAL, passed_ns);
    }
}

/* Real time as time of that clock, rounded down; a whole number of ticks is exact. */
static int64_t local_of(const struct explore_model *model, uint32_t clock, int64_t real_ns)
{
    const int64_t period_ns = model->period_ns[clock];
    return real_ns / period_ns * model->tick_ns + real_ns % period_ns * model->tick_ns / period_ns;
}

/* How far a clock advances in so much real time. It is counted from the clock's next tick, where
 * nothing is rounded, so that rounding errors between ticks do not add up. */
static int64_t passed_of(const struct explore_model *model, uint32_t clock, int64_t next_tick_ns,
                         int64_t real_ns)
{
    const int64_t ahead_ns = next_tick_ns - explore_now_ns(EXPLORE_REAL);
    CV_ASSERT(ahead_ns >= real_ns);
    return local_of(model, clock, ahead_ns) - local_of(model, clock, ahead_ns - real_ns);
}

void explore_world_pass(struct explore_model *model, int64_t real_ns)
{
    struct explore_world *w = model->world;
    struct cv_properties *p = &model->properties;
    int64_t passed_ns[EXPLORE_CLOCKS] = {[EXPLORE_REAL] = real_ns};
    for (uint32_t i = 0; i < model->node_count; i++) {
        passed_ns[i] = passed_of(model, i, explore_node_at(model, w, i)->next_tick_ns, real_ns);
    }
    if (model->service != EXPLORE_NO_SERVICE) {
        passed_ns[EXPLORE_SERVICE] =
            passed_of(model, EXPLORE_SERVICE, w->h.service.next_tick_ns, real_ns);
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        move_node(model, explore_node_at(model, w, i), i, passed_ns);
        move_judged(model, explore_judged_at(w, i), real_ns);
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        move_message(model, explore_message_at(model, w, i), passed_ns);
    }
    if (model->service != EXPLORE_NO_SERVICE) {
        struct explore_service *s = &w->h.service;
        s->next_tick_ns -= real_ns;
        move_words(model, (uint64_t *)&s->record.until_ns, 1, passed_ns);
    }
    p->now.disturbed_ns -= real_ns;
    if (p->now.left_until_ns != 0) {
        p->now.left_until_ns = moved(model, p->now.left_until_ns, EXPLORE_REAL, real_ns);
    }
    /* Used only while a path is replayed; it must not overflow if a core waits longer and
     * longer. */
    model->elapsed_ns =
        cv__min64(model->elapsed_ns, INT64_MAX / 4) + cv__min64(real_ns, INT64_MAX / 4);
}

/* Does no lasting condition violate the protocol's assumptions? */
static bool is_behaving(struct explore_model *model)
{
    struct explore_world *w = model->world;
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_paused || explore_disk_is_busy(n)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        if (explore_message_at(model, w, i)->is_late) {
            return false;
        }
    }
    return w->h.partition == 0;
}

void explore_world_look(struct explore_model *model)
{
    struct cv_properties *p = &model->properties;
    const int64_t now_ns = p->now.now_ns;
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (p->node[i].holds && p->node[i].held_until_ns <= now_ns) {
            explore_tell(model, "node %u: its leadership is over", i + 1);
            cv__properties_end(p, i + 1);
        }
    }
    if (!model->judges_liveness || p->now.is_settled) {
        return;
    }
    if (!is_behaving(model)) {
        cv__properties_disturb(p);
    } else if (cv__properties_due_ns(p) <= now_ns) {
        cv__properties_judge(p);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static void on_assert(struct cv_assert_trap *trap, const char *expression, const char *file,
                      int line)
{
    struct explore_model *model = ((struct explore_trap *)trap)->model;
    if (!model->end.is_broken) {
        model->end.is_broken = true;
        model->end.property = CV_PROPERTY_ASSERTIONS;
        (void)snprintf(model->end.detail, sizeof model->end.detail, "%s (%s:%d)", expression, file,
                       line);
    }
    longjmp(model->on_assert, 1);
}

static int make_shapes(struct explore_model *model, struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = model->protocol;
    CV_ASSERT(protocol->message_count <= EXPLORE_TYPES_MAX);
    model->message_words = model->service != EXPLORE_NO_SERVICE ? EXPLORE_SERVICE_WORDS : 0;
    for (uint32_t type = 0; type < protocol->message_count; type++) {
        struct explore_shape *shape = &model->shape[type];
        *shape = (struct explore_shape){0};
        for (const struct cv_field *f = protocol->messages[type].fields; f->kind != CV_FIELD_END;
             f++) {
            if (f->kind == CV_FIELD_VALUES) {
                return cv__fail(reterr, CV_E_INVALID, "%s sends lists, which are not explored",
                                protocol->name);
            }
            shape->list_count += f->kind == CV_FIELD_SET;
            shape->scalar_count += f->kind != CV_FIELD_SET;
        }
        const uint32_t words = shape->list_count + shape->scalar_count;
        model->message_words = words > model->message_words ? words : model->message_words;
    }
    return CV_OK;
}

static void make_host(struct explore_model *model)
{
    const struct cv_config *config = &model->config[0];
    model->effects = (struct cv_effects){
        .item = cv__allocate(CV_EFFECTS_MAX, sizeof *model->effects.item),
        .word = cv__allocate(cv_effects_words(config), sizeof *model->effects.word),
        .word_capacity = cv_effects_words(config),
    };
    model->host = (struct cv_node_host){
        .calls = &calls,
        .self = model,
        .protocol = model->protocol,
        .member_count = model->node_count,
        .deferred = model->deferred,
        .out = &model->effects,
    };
    model->kept = cv__allocate(CV_EFFECTS_MAX + 1, sizeof *model->kept);
    model->trap = (struct explore_trap){{on_assert}, model};
}

int explore_model_init(struct explore_model *model, struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = model->protocol;
    model->service = protocol->store_ns != NULL      ? EXPLORE_STORE
                     : protocol->sequence_ns != NULL ? EXPLORE_SEQUENCER
                                                     : EXPLORE_NO_SERVICE;
    CV_ASSERT(model->node_count >= 1 && model->node_count <= EXPLORE_NODES_MAX);
    const int error = make_shapes(model, reterr);
    if (error != CV_OK) {
        return error;
    }
    uint32_t promises;
    uint32_t assumes;
    cv__core_contract(protocol, &model->config[0], &promises, &assumes);
    /* The world does not record which nodes are connected since when, so these two are not
     * judged. */
    promises &= ~(CV_PROP(TIMELINESS) | CV_PROP(BOUNDED_INCONSISTENCY));
    struct cv_properties_setting setting =
        cv__properties_setting(protocol, &model->config[0], promises, assumes);
    cv__properties_init(&model->properties, &setting, on_break, model);
    model->own_block = model->properties.node;
    model->properties.owner_capacity = EXPLORE_TOKENS;
    model->core_bytes = (cv__core_size(protocol, &model->config[0]) + 7) / 8 * 8;
    model->node_bytes = sizeof(struct explore_node) + model->core_bytes;
    if (model->budget[EXPLORE_SLOW] > 0) {
        model->node_bytes += EXPLORE_DEFERRED_MAX * sizeof(struct cv_deferred);
        model->message_words = model->message_words > 0 ? model->message_words : 1;
    }
    model->properties.block_bytes = (model->properties.block_bytes + 7) / 8 * 8;
    model->fixed_bytes = sizeof(struct explore_world) + model->properties.block_bytes +
                         model->node_count * model->node_bytes;
    model->compared_bytes =
        sizeof(struct explore_message) + model->message_words * sizeof(uint64_t);
    model->message_bytes = model->compared_bytes + model->numbers_messages * sizeof(uint64_t);
    if (model->service != EXPLORE_NO_SERVICE || protocol->is_anonymous) {
        model->budget[EXPLORE_WITNESS] = 0; /* only members among peers have a witness */
    }
    if (model->budget[EXPLORE_WITNESS] > 0 && protocol->lease_ns != NULL) {
        const int64_t lease_ns = protocol->lease_ns(&model->config[0]);
        model->witness_ns = lease_ns + lease_ns / EXPLORE_WITNESS_SHARE;
    }
    make_host(model);
    return CV_OK;
}

void explore_model_fini(struct explore_model *model)
{
    model->properties.node = model->own_block;
    model->properties.owner = NULL;
    cv__properties_fini(&model->properties);
    free(model->effects.item);
    free(model->effects.word);
    free(model->kept);
}

struct explore_world *explore_world_new(const struct explore_model *model)
{
    return cv__allocate(1, model->fixed_bytes + EXPLORE_MESSAGES_MAX * model->message_bytes);
}

void explore_world_copy(const struct explore_model *model, struct explore_world *to,
                        const struct explore_world *from)
{
    memcpy(to, from, explore_world_bytes(model, from));
}

void explore_world_begin(struct explore_model *model, struct explore_world *world)
{
    memset(world, 0, model->fixed_bytes);
    model->crashes_at_record = false; /* an earlier path may have left it set */
    model->fails_at_record = false;
    model->writes_at_failure = false;
    model->waits_at_record = false;
    model->has_turned = true;
    memcpy(world->h.budget, model->budget, sizeof model->budget);
    world->h.disturbed_ns = explore_now_ns(EXPLORE_REAL);
    explore_world_lend(model, world);
    explore_service_begin(model);
    for (uint32_t i = 0; i < model->node_count; i++) {
        explore_node_at(model, world, i)->next_tick_ns = explore_now_ns(EXPLORE_REAL);
        explore_judged_at(world, i)->led_ns = -1;
        explore_judged_at(world, i)->has_started = true; /* all start in this instant */
    }
    cv__assert_trap = &model->trap.trap;
    if (setjmp(model->on_assert) == 0) {
        for (uint32_t i = 0; i < model->node_count; i++) {
            explore_tell(model, "node %u starts", i + 1);
            explore_world_recover(model, i);
        }
    }
    cv__assert_trap = NULL;
    explore_world_take(model);
}
