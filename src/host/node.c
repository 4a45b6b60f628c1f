/* src/host/node.c - one core with what every host keeps for it; see node.h. */
#include "host/node.h"

#include "core/core.h"

#include <string.h>

/* ---- The disk: failure ----------------------------------------------------------------------- */

static void drop_kept(struct cv_node_host *host, uint32_t kept)
{
    if (kept != CV_KEPT_NONE) {
        host->calls->drop(host->self, kept);
    }
}

/* From now on, no effect that has to wait for a record ever leaves. */
static void close_gate(struct cv_node *node, struct cv_node_host *host)
{
    cv__gate_fail(&node->gate);
    struct cv_deferred deferred;
    while (cv__gate_drop(&node->gate, host->deferred, &deferred)) {
        drop_kept(host, deferred.kept);
    }
    cv__gate_check(&node->gate);
    CV_ASSERT(node->gate.count == 0);
}

static void fail(struct cv_node *node, struct cv_node_host *host, const char *why)
{
    close_gate(node, host);
    CV_ASSERT(node->gate.has_failed); /* for the rest of this life */
    node->must_tell_failure = true;
    host->calls->disk_failed(host->self, why);
}

/* ---- Effects --------------------------------------------------------------------------------- */

static void send_now(struct cv_node *node, struct cv_node_host *host, uint32_t kept, cv_id first,
                     cv_id last, bool to_self)
{
    CV_ASSERT(!node->gate.has_failed); /* after a failure nothing is sent */
    CV_ASSERT(kept != CV_KEPT_NONE);
    CV_ASSERT(first != CV_ID_NONE);
    host->counts.sent++;
    host->calls->send(host->self, kept, first, last, to_self);
    host->calls->drop(host->self, kept);
}

/* A send waits for the record before it, unless its type promises nothing. After the disk failed
 * nothing is sent at all: this process takes no further part. */
static bool send_must_wait(const struct cv_node *node, const struct cv_node_host *host,
                           const struct cv_effect *effect)
{
    CV_ASSERT(effect->message.type < host->protocol->message_count);
    const bool is_free = host->protocol->messages[effect->message.type].is_free;
    return node->gate.has_failed || (!is_free && !cv__gate_is_open(&node->gate));
}

static void on_send(struct cv_node *node, struct cv_node_host *host, const struct cv_effect *effect)
{
    const bool must_wait = send_must_wait(node, host, effect);
    if (must_wait && node->gate.has_failed) {
        return; /* its promise could be forgotten */
    }
    const uint32_t kept = host->calls->encode(host->self, &effect->message);
    if (kept == CV_KEPT_NONE) {
        host->counts.dropped++;
        return;
    }
    if (!must_wait) {
        send_now(node, host, kept, effect->first, effect->last, effect->to_self);
        return;
    }
    CV_ASSERT(node->gate.is_saving); /* what it waits for */
    struct cv_deferred *deferred = cv__gate_defer(&node->gate, host->deferred);
    if (deferred == NULL) {
        host->counts.dropped++;
        host->calls->drop(host->self, kept);
        return;
    }
    deferred->kind = CV_DEFERRED_SEND;
    deferred->kept = kept;
    deferred->first = effect->first;
    deferred->last = effect->last;
    deferred->to_self = effect->to_self;
}

static void tell_now(struct cv_node *node, struct cv_node_host *host,
                     const struct cv_leadership *leadership)
{
    /* no node leads after its disk failed */
    CV_ASSERT(!leadership->is_self || !node->gate.has_failed);
    CV_ASSERT(!leadership->is_self || cv__gate_is_open(&node->gate) || node->is_leading);
    CV_ASSERT(!node->is_closed);
    node->is_leading = leadership->is_self;
    node->told_token = leadership->token;
    host->calls->tell(host->self, leadership);
}

/* Waiting beliefs must not be reported after a newer one that contradicts them. */
static void withdraw_leaderships(struct cv_node *node, struct cv_node_host *host, bool only_gains)
{
    for (uint32_t i = 0; i < node->gate.count; i++) {
        struct cv_deferred *deferred = cv__gate_at(&node->gate, host->deferred, i);
        if (deferred->kind == CV_DEFERRED_LEADERSHIP && (deferred->is_self || !only_gains)) {
            drop_kept(host, deferred->kept);
            memset(deferred, 0, sizeof *deferred);
            deferred->kept = CV_KEPT_NONE;
            CV_ASSERT(deferred->kind == CV_DEFERRED_NOTHING);
        }
    }
}

/* The disk is stalled: drops the waiting effects, so that there is room for the latest belief.
 * Dropped sends are like messages lost by the network; dropped beliefs are replaced by the latest
 * one. */
static void drop_deferred(struct cv_node *node, struct cv_node_host *host)
{
    struct cv_deferred deferred;
    while (cv__gate_drop(&node->gate, host->deferred, &deferred)) {
        host->counts.dropped += deferred.kind == CV_DEFERRED_SEND;
        drop_kept(host, deferred.kept);
    }
    cv__gate_check(&node->gate);
}

static void hold_leadership(struct cv_node *node, struct cv_node_host *host,
                            const struct cv_leadership *leadership)
{
    const struct cv_list *members = &leadership->members;
    const size_t byte_count = members->word_count * sizeof *members->word;
    if (cv__gate_is_full(&node->gate)) {
        drop_deferred(node, host);
    }
    uint32_t kept = CV_KEPT_NONE;
    CV_ASSERT(node->gate.is_saving); /* what it waits for */
    if (members->word_count > 0) {
        kept = host->calls->keep(host->self, members->word, byte_count);
    }
    if (members->word_count > 0 && kept == CV_KEPT_NONE) {
        drop_deferred(node, host); /* to free their bytes */
        kept = host->calls->keep(host->self, members->word, byte_count);
        if (kept == CV_KEPT_NONE) {
            fail(node, host, "no memory is left for a leadership that waits for the disk");
            return;
        }
    }
    struct cv_deferred *deferred = cv__gate_defer(&node->gate, host->deferred);
    CV_ASSERT(deferred != NULL); /* room was made */
    deferred->kind = CV_DEFERRED_LEADERSHIP;
    deferred->kept = kept;
    deferred->word_count = members->word_count;
    deferred->first = leadership->leader;
    deferred->is_self = leadership->is_self;
    deferred->label = leadership->label;
    deferred->reason = (uint8_t)leadership->reason;
    deferred->token = leadership->token;
    deferred->valid_until_ns = leadership->valid_until_ns;
    deferred->has_majority = leadership->has_majority;
}

/* The leadership that waits and was issued last; NULL: none waits. */
static struct cv_deferred *held_leadership(const struct cv_node *node, struct cv_node_host *host)
{
    CV_ASSERT(node->gate.count <= node->gate.capacity);
    for (uint32_t i = node->gate.count; i > 0; i--) {
        struct cv_deferred *deferred = cv__gate_at(&node->gate, host->deferred, i - 1);
        if (deferred->kind == CV_DEFERRED_LEADERSHIP) {
            return deferred;
        }
    }
    return NULL;
}

/* A gain that waits is renewed: it still waits for its own record only. */
static void renew_held(struct cv_node *node, struct cv_node_host *host, struct cv_deferred *held,
                       const struct cv_leadership *leadership)
{
    const struct cv_list *members = &leadership->members;
    CV_ASSERT(held->is_self && leadership->is_self);
    CV_ASSERT(held->token == leadership->token);
    drop_kept(host, held->kept);
    held->kept = CV_KEPT_NONE;
    held->word_count = members->word_count;
    held->valid_until_ns = leadership->valid_until_ns;
    held->has_majority = leadership->has_majority;
    if (members->word_count > 0) {
        held->kept = host->calls->keep(host->self, members->word,
                                       members->word_count * sizeof *members->word);
        if (held->kept == CV_KEPT_NONE) {
            fail(node, host, "no memory is left for a leadership that waits for the disk");
        }
    }
}

/* A gain waits for the record that it rests on. Beliefs about other leaders wait too, so that an
 * application never sees an order of leaders that a crash makes this node forget. Two kinds do not
 * wait:
 *
 * - A loss, because no node may continue to lead just because its disk is slow. It cancels a gain
 *   that still waits.
 * - A renewal, because the leadership would be over when it is reported, and then begin again with
 *   the same token. The record of a reported leadership is durable already; a gain that waits is
 *   replaced by its renewal. */
static void on_leadership(struct cv_node *node, struct cv_node_host *host,
                          const struct cv_leadership *leadership)
{
    const bool is_loss = node->is_leading && !leadership->is_self;
    CV_ASSERT(leadership->reason < CV_REASON_COUNT);
    if (!leadership->is_self) {
        withdraw_leaderships(node, host, /* only_gains= */ !is_loss);
    }
    struct cv_deferred *held = held_leadership(node, host);
    const bool is_renewal = leadership->is_self && held == NULL && node->is_leading &&
                            leadership->token == node->told_token;
    const bool renews_held =
        leadership->is_self && held != NULL && held->is_self && leadership->token == held->token;
    if (cv__gate_is_open(&node->gate) || is_loss) {
        tell_now(node, host, leadership);
    } else if (node->gate.has_failed) {
        if (!leadership->is_self) { /* otherwise it would lead on a record that may be forgotten */
            tell_now(node, host, leadership);
        }
    } else if (is_renewal) {
        tell_now(node, host, leadership);
    } else if (renews_held) {
        renew_held(node, host, held, leadership);
    } else {
        hold_leadership(node, host, leadership);
    }
}

static void tell_deferred(struct cv_node *node, struct cv_node_host *host,
                          const struct cv_deferred *deferred)
{
    CV_ASSERT(deferred->kind == CV_DEFERRED_LEADERSHIP);
    struct cv_leadership leadership = {
        .is_self = deferred->is_self,
        .leader = deferred->first,
        .label = deferred->label,
        .reason = deferred->reason,
        .token = deferred->token,
        .valid_until_ns = deferred->valid_until_ns,
        .has_majority = deferred->has_majority,
    };
    if (deferred->kept != CV_KEPT_NONE) {
        size_t byte_count = 0;
        leadership.members.word = host->calls->kept(host->self, deferred->kept, &byte_count);
        leadership.members.word_count = deferred->word_count;
        CV_ASSERT(byte_count == deferred->word_count * sizeof *leadership.members.word);
    }
    tell_now(node, host, &leadership);
    drop_kept(host, deferred->kept);
}

/* ---- The disk: records ----------------------------------------------------------------------- */

static void let_go(struct cv_node *node, struct cv_node_host *host)
{
    CV_ASSERT(node->is_busy); /* what the host brings meanwhile waits */
    struct cv_deferred deferred;
    while (!node->is_closed && cv__gate_release(&node->gate, host->deferred, &deferred)) {
        if (deferred.kind == CV_DEFERRED_SEND) {
            send_now(node, host, deferred.kept, deferred.first, deferred.last, deferred.to_self);
        } else if (deferred.kind == CV_DEFERRED_LEADERSHIP) {
            tell_deferred(node, host, &deferred);
        }
    }
}

/* The record being saved is durable. True: there is a next one to save. */
static bool finish_save(struct cv_node *node, struct cv_node_host *host)
{
    CV_ASSERT(node->is_busy); /* what the host brings meanwhile waits */
    host->counts.saved++;
    cv__gate_saved(&node->gate);
    let_go(node, host);
    return !node->is_closed && cv__gate_next(&node->gate);
}

static void save(struct cv_node *node, struct cv_node_host *host)
{
    const struct cv_gate_record *record = &node->gate.saving;
    bool is_more = true;
    while (is_more) {
        CV_ASSERT(node->gate.is_saving);
        is_more = false;
        switch (host->calls->save(host->self, record->word, record->word_count)) {
        case CV_SAVE_BEGUN:
            break;
        case CV_SAVE_DONE:
            is_more = finish_save(node, host);
            break;
        case CV_SAVE_FAILED:
            fail(node, host, NULL);
            break;
        }
    }
}

static void on_persist(struct cv_node *node, struct cv_node_host *host,
                       const struct cv_effect *effect)
{
    CV_ASSERT(effect->persist_count > 0);
    CV_ASSERT(effect->persist_count <= CV_PERSIST_WORDS_MAX);
    if (host->calls->record_asked != NULL) {
        host->calls->record_asked(host->self, effect->persist, effect->persist_count);
    }
    if (!node->gate.has_failed &&
        cv__gate_ask(&node->gate, effect->persist, effect->persist_count)) {
        save(node, host);
    }
}

/* ---- Steps and the queue of events ----------------------------------------------------------- */

static void carry_out(struct cv_node *node, struct cv_node_host *host,
                      const struct cv_effect *effect)
{
    switch (effect->kind) {
    case CV_EFFECT_SEND:
        on_send(node, host, effect);
        break;
    case CV_EFFECT_ARM: {
        CV_ASSERT(effect->earliest_ns <= effect->latest_ns);
        const int64_t due_ns =
            host->calls->arm(host->self, effect->timer, effect->earliest_ns, effect->latest_ns);
        CV_ASSERT(due_ns > 0); /* 0 means not armed */
        CV_ASSERT(due_ns >= effect->earliest_ns);
        node->due_ns[effect->timer] = due_ns;
        break;
    }
    case CV_EFFECT_DISARM:
        node->due_ns[effect->timer] = 0;
        break;
    case CV_EFFECT_PERSIST:
        on_persist(node, host, effect);
        break;
    case CV_EFFECT_LEADERSHIP:
        on_leadership(node, host, &effect->leadership);
        break;
    case CV_EFFECT_ASK_SEQUENCE:
        host->calls->ask_sequence(host->self, effect->request, effect->reference);
        break;
    case CV_EFFECT_ASK_STORE:
        host->calls->ask_store(host->self, effect);
        break;
    }
}

static void step(struct cv_node *node, struct cv_node_host *host, struct cv_event *event)
{
    CV_ASSERT(!node->is_busy); /* no call enters a running step */
    CV_ASSERT(!node->is_closed);
    CV_ASSERT((event->kind == CV_EVENT_MESSAGE) == (event->message != NULL));
    node->is_busy = true;
    event->now_ns = host->calls->now_ns(host->self);
    CV_ASSERT(event->now_ns > 0);
    host->counts.steps++;
    cv__core_step(host->protocol, host->core, event, host->out);
    if (host->calls->stepped != NULL) {
        host->calls->stepped(host->self, event, host->out);
    }
    for (uint32_t i = 0; i < host->out->item_count && !node->is_closed; i++) {
        carry_out(node, host, &host->out->item[i]);
    }
    node->is_busy = false;
}

static void step_message(struct cv_node *node, struct cv_node_host *host, struct cv_event *event,
                         const uint8_t *bytes, size_t byte_count)
{
    struct cv_message message;
    if (cv__message_decode(host->protocol, host->member_count, bytes, byte_count,
                           host->decoded_word, &message) != CV_OK) {
        host->counts.malformed++;
        return;
    }
    host->counts.received++;
    event->message = &message;
    step(node, host, event);
    event->message = NULL;
}

static void push(struct cv_node *node, struct cv_node_host *host, const struct cv_event *event,
                 const uint8_t *bytes, size_t byte_count)
{
    /* START lends words, and never waits: it is the first event */
    CV_ASSERT(event->kind != CV_EVENT_START);
    CV_ASSERT(node->is_busy);
    CV_ASSERT(node->waiting_count <= node->waiting_capacity);
    const uint32_t room = node->waiting_capacity - node->waiting_count;
    uint32_t kept = CV_KEPT_NONE;
    if (bytes != NULL && room > CV_NODE_SPARE_PLACES) {
        kept = host->calls->keep(host->self, bytes, byte_count);
    }
    if (room == 0 || (bytes != NULL && kept == CV_KEPT_NONE)) {
        host->counts.dropped++;
        return;
    }
    const uint32_t place = (node->waiting_first + node->waiting_count++) % node->waiting_capacity;
    memset(&host->waiting[place], 0, sizeof host->waiting[place]);
    host->waiting[place].event = *event;
    host->waiting[place].event.message = NULL;
    host->waiting[place].kept = kept;
}

static struct cv_waiting take_waiting(struct cv_node *node, const struct cv_node_host *host)
{
    CV_ASSERT(node->waiting_count > 0);
    CV_ASSERT(node->waiting_first < node->waiting_capacity);
    const struct cv_waiting next = host->waiting[node->waiting_first];
    node->waiting_count--;
    node->waiting_first =
        node->waiting_count > 0 ? (node->waiting_first + 1) % node->waiting_capacity : 0;
    return next;
}

static void step_next_waiting(struct cv_node *node, struct cv_node_host *host)
{
    struct cv_waiting next = take_waiting(node, host);
    if (next.kept == CV_KEPT_NONE) {
        step(node, host, &next.event);
        return;
    }
    size_t byte_count = 0;
    const uint8_t *bytes = host->calls->kept(host->self, next.kept, &byte_count);
    CV_ASSERT(bytes != NULL);
    CV_ASSERT(next.event.kind == CV_EVENT_MESSAGE);
    step_message(node, host, &next.event, bytes, byte_count);
    host->calls->drop(host->self, next.kept);
}

static bool has_waiting(const struct cv_node *node)
{
    CV_ASSERT(node->waiting_count <= node->waiting_capacity);
    return (node->must_tell_failure || node->waiting_count > 0) && !node->is_closed;
}

/* Gives the core all waiting events in the order they came, but a failed disk first. */
static void drain(struct cv_node *node, struct cv_node_host *host)
{
    CV_ASSERT(!node->is_busy);
    while (has_waiting(node)) {
        if (node->must_tell_failure) {
            node->must_tell_failure = false;
            struct cv_event event = {.kind = CV_EVENT_PERSIST_FAILED};
            step(node, host, &event);
        } else {
            step_next_waiting(node, host);
        }
    }
}

static void handle(struct cv_node *node, struct cv_node_host *host, struct cv_event *event,
                   const uint8_t *bytes, size_t byte_count)
{
    if (node->is_closed) {
        return;
    }
    if (node->is_busy) {
        push(node, host, event, bytes, byte_count);
        return;
    }
    CV_ASSERT(node->waiting_count == 0); /* drain() left nothing */
    if (bytes != NULL) {
        step_message(node, host, event, bytes, byte_count);
    } else {
        step(node, host, event);
    }
    if (has_waiting(node)) { /* seldom */
        drain(node, host);
    }
}

void cv__node_event(struct cv_node *node, struct cv_node_host *host, struct cv_event *event)
{
    CV_ASSERT(event->kind != CV_EVENT_MESSAGE);
    handle(node, host, event, NULL, 0);
}

void cv__node_message(struct cv_node *node, struct cv_node_host *host, struct cv_event *event,
                      const uint8_t *bytes, size_t byte_count)
{
    CV_ASSERT(event->kind == CV_EVENT_MESSAGE);
    CV_ASSERT(bytes != NULL);
    handle(node, host, event, bytes, byte_count);
}

void cv__node_decoded_message(struct cv_node *node, struct cv_node_host *host,
                              struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_MESSAGE);
    CV_ASSERT(event->message != NULL);
    CV_ASSERT(!node->is_busy); /* the message is lent, so it cannot be queued */
    host->counts.received++;
    handle(node, host, event, NULL, 0);
}

void cv__node_saved(struct cv_node *node, struct cv_node_host *host)
{
    if (node->is_closed || node->gate.has_failed) {
        return;
    }
    CV_ASSERT(!node->is_busy);
    node->is_busy = true; /* events that come during these effects are queued */
    if (finish_save(node, host)) {
        save(node, host);
    }
    node->is_busy = false;
    drain(node, host);
}

void cv__node_save_failed(struct cv_node *node, struct cv_node_host *host, const char *why)
{
    if (node->is_closed || node->gate.has_failed) {
        return;
    }
    CV_ASSERT(!node->is_busy);
    CV_ASSERT(node->gate.is_saving);
    node->is_busy = true;
    fail(node, host, why);
    node->is_busy = false;
    drain(node, host);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

int64_t cv__node_next_due_ns(const struct cv_node *node)
{
    int64_t next_ns = 0;
    for (uint32_t i = 0; i < CV_TIMERS_MAX; i++) {
        if (node->due_ns[i] != 0 && (next_ns == 0 || node->due_ns[i] < next_ns)) {
            next_ns = node->due_ns[i];
        }
    }
    CV_ASSERT(next_ns >= 0);
    return next_ns;
}

void cv__node_fire(struct cv_node *node, struct cv_node_host *host, uint32_t timer)
{
    CV_ASSERT(timer < CV_TIMERS_MAX);
    CV_ASSERT(node->due_ns[timer] != 0); /* a timer fires once */
    node->due_ns[timer] = 0;
    struct cv_event event = {.kind = CV_EVENT_TIMER, .timer = timer};
    cv__node_event(node, host, &event);
}

void cv__node_fire_due(struct cv_node *node, struct cv_node_host *host)
{
    for (uint32_t i = 0; i < CV_TIMERS_MAX && !node->is_closed; i++) {
        const int64_t next_ns = cv__node_next_due_ns(node);
        if (next_ns == 0 || next_ns > host->calls->now_ns(host->self)) {
            break;
        }
        uint32_t timer = 0;
        while (node->due_ns[timer] != next_ns) {
            timer++;
            CV_ASSERT(timer < CV_TIMERS_MAX); /* the minimum belongs to an armed timer */
        }
        cv__node_fire(node, host, timer);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

void cv__node_init(struct cv_node *node, uint32_t deferred_capacity, uint32_t waiting_capacity)
{
    CV_ASSERT(deferred_capacity > 0);
    memset(node, 0, sizeof *node);
    cv__gate_init(&node->gate, deferred_capacity);
    node->waiting_capacity = waiting_capacity;
}

void cv__node_close(struct cv_node *node, struct cv_node_host *host)
{
    if (node->is_closed) {
        return;
    }
    node->is_closed = true;
    memset(node->due_ns, 0, sizeof node->due_ns);
    if (!node->gate.has_failed) {
        close_gate(node, host);
    }
    while (node->waiting_count > 0) {
        drop_kept(host, take_waiting(node, host).kept);
    }
    CV_ASSERT(!cv__gate_is_open(&node->gate));
    CV_ASSERT(node->gate.count == 0);
}
