/* src/protocols/hop.c - passing messages along the ring; see hop.h. */
#include "protocols/hop.h"

#include "core/nodeset.h"

#include <string.h>

const uint32_t cv__hop_role_next[HOP_ROLE_COUNT] = {
    [CLASSIC_FOLLOWING] = BIT(HOP_ELECTING) | BIT(CLASSIC_LEADING),
    [CLASSIC_LEADING] = BIT(CLASSIC_FOLLOWING) | BIT(HOP_ELECTING),
    [HOP_ELECTING] = BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
};

int64_t cv__hop_settle_ns(const struct cv_config *config)
{
    const int64_t *option = config->option;
    CV_ASSERT(option[CLASSIC_OPTION_COORDINATOR] != CV_OPTION_DERIVED);
    CV_ASSERT(option[CLASSIC_OPTION_HEARTBEAT] > 0);
    return cv__classic_detection_ns(config) + 2 * option[CLASSIC_OPTION_HEARTBEAT] +
           3 * option[CLASSIC_OPTION_COORDINATOR];
}

uint32_t cv__hop_words(uint32_t member_count)
{
    CV_ASSERT(member_count >= 1);
    return HOP_SLOTS * cv__set_words(member_count);
}

static cv_id successor(const struct classic *c, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= c->member_count);
    return id % c->member_count + 1;
}

void cv__hop_init(struct hop *hop, const struct classic *c, bool has_sets)
{
    CV_ASSERT(c->self >= 1);
    hop->has_sets = has_sets;
    hop->next = successor(c, c->self);
    CV_ASSERT(hop->next != c->self || c->member_count == 1); /* except in a ring of one */
}

void cv__hop_check(const struct hop *hop, const struct classic *c)
{
    CV_ASSERT(hop->next >= 1);
    CV_ASSERT(hop->next <= c->member_count);
    CV_ASSERT(hop->seen_next < HOP_SEEN);
}

static uint32_t slot_for_next(const struct hop *hop)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        if (hop->slot[i].number < hop->slot[oldest].number) {
            oldest = i; /* a free slot has number 0 */
        }
    }
    CV_ASSERT(oldest < HOP_SLOTS);
    return oldest;
}

static void arm(const struct hop *hop, struct cv_effects *out)
{
    int64_t earliest_ns = INT64_MAX;
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        if (hop->slot[i].number != 0) {
            CV_ASSERT(hop->slot[i].deadline_ns > 0);
            earliest_ns = cv__min64(earliest_ns, hop->slot[i].deadline_ns);
        }
    }
    if (earliest_ns != INT64_MAX) {
        cv__effect_arm(out, HOP_TIMER, earliest_ns, earliest_ns);
    }
}

static void transmit(const struct hop *hop, const struct classic *c, const uint64_t *sets,
                     uint32_t slot, struct cv_effects *out)
{
    const struct hop_slot *s = &hop->slot[slot];
    CV_ASSERT(s->number != 0);
    CV_ASSERT(s->number <= hop->number);
    CV_ASSERT(s->type == HOP_ELECTION || s->type == HOP_COORDINATOR);
    CV_ASSERT(hop->next != c->self); /* there is a successor */
    struct cv_message *message = cv__effect_send(out, hop->next, (uint32_t)s->type);
    memcpy(message->field, s->scalar, sizeof s->scalar);
    if (hop->has_sets) { /* the set is then the only list of each message */
        const uint32_t words = cv__set_words(c->member_count);
        message->list[0] = cv__effect_list(out, sets + slot * words, words);
    }
}

bool cv__hop_send(struct hop *hop, const struct classic *c, uint64_t *sets,
                  const struct cv_message *message, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(message->type == HOP_ELECTION || message->type == HOP_COORDINATOR);
    CV_ASSERT(now_ns > 0);
    if (now_ns >= hop->skips_until_ns) {
        hop->next = successor(c, c->self);
    }
    if (hop->next == c->self) {
        return false;
    }
    const uint32_t slot = slot_for_next(hop);
    struct hop_slot *s = &hop->slot[slot];
    s->number = ++hop->number;
    CV_ASSERT(s->number > 0); /* 0 marks a free slot */
    s->type = message->type;
    s->deadline_ns = now_ns + c->answer_ns;
    struct cv_message numbered = *message;
    const uint64_t term = hop_head_read(message).term;
    hop_head_write(&numbered, (struct hop_head){.term = term, .number = s->number});
    memcpy(s->scalar, numbered.field, sizeof s->scalar);
    if (hop->has_sets) {
        const uint32_t words = cv__set_words(c->member_count);
        CV_ASSERT(message->list[0].word_count == words);
        cv__set_copy(sets + slot * words, message->list[0].word, c->member_count);
    }
    transmit(hop, c, sets, slot, out);
    arm(hop, out);
    return true;
}

void cv__hop_start(struct hop *hop, const struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_START);
    hop->number = (event->nonce >> 24) + 1;
    CV_ASSERT(hop->number > 0); /* 0 marks a free slot */
}

/* Acknowledges a message to its sender. False: it was received before, and ends here. */
static bool accept(struct hop *hop, const struct classic *c, const struct cv_event *event,
                   struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    CV_ASSERT(event->message->type != HOP_ACK); /* an acknowledgement is not acknowledged */
    const uint64_t number = hop_head_read(event->message).number;
    hop_head_write(cv__effect_send(out, event->peer, HOP_ACK),
                   (struct hop_head){.term = c->term, .number = number});
    for (uint32_t i = 0; i < HOP_SEEN; i++) {
        if (hop->seen[i].number == number && hop->seen[i].from == event->peer) {
            cv__effect_note(out, "message {number} of {peer} ends here: received before",
                            event->peer, 0, number);
            return false;
        }
    }
    CV_ASSERT(hop->seen_next < HOP_SEEN);
    hop->seen[hop->seen_next] = (struct hop_seen){number, event->peer};
    hop->seen_next = (hop->seen_next + 1) % HOP_SEEN;
    return true;
}

static void on_ack(struct hop *hop, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->message->type == HOP_ACK);
    const uint64_t number = hop_head_read(event->message).number;
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        if (hop->slot[i].number == number && number != 0) {
            CV_ASSERT(number <= hop->number);              /* this life sent it */
            memset(&hop->slot[i], 0, sizeof hop->slot[i]); /* its timer may fire, without effect */
            return;
        }
    }
    cv__effect_note(out, "ACK of {peer} ignored: message {number} is not waiting for one",
                    event->peer, 0, number);
}

void cv__hop_on_message(struct hop *hop, struct classic *c, const struct cv_event *event,
                        hop_handler *on_election, hop_handler *on_coordinator,
                        struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    CV_ASSERT(event->peer <= c->member_count); /* checked by the host */
    switch (event->message->type) {
    case HOP_ACK:
        on_ack(hop, event, out);
        break;
    case HOP_ELECTION:
        if (accept(hop, c, event, out)) {
            on_election(c, event, out);
        }
        break;
    case HOP_COORDINATOR:
        if (accept(hop, c, event, out)) {
            on_coordinator(c, event, out);
        }
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

/* The successor is dead: all messages that wait for its ACK go to the next process. */
static void skip(struct hop *hop, const struct classic *c, const uint64_t *sets, int64_t now_ns,
                 struct cv_effects *out)
{
    CV_ASSERT(hop->next != c->self);
    hop->next = successor(c, hop->next);
    hop->skips_until_ns = now_ns + c->timeout_ns;
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        struct hop_slot *s = &hop->slot[i];
        if (s->number == 0) {
            continue;
        }
        if (hop->next == c->self) {
            memset(s, 0, sizeof *s); /* no successor is left */
            continue;
        }
        s->deadline_ns = now_ns + c->answer_ns;
        transmit(hop, c, sets, i, out);
    }
    CV_ASSERT(hop->skips_until_ns > now_ns);
    arm(hop, out);
}

void cv__hop_on_timer(struct hop *hop, const struct classic *c, const uint64_t *sets,
                      int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(now_ns > 0);
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        if (hop->slot[i].number != 0 && hop->slot[i].deadline_ns <= now_ns) {
            skip(hop, c, sets, now_ns, out);
            return;
        }
    }
    arm(hop, out);
}

void cv__hop_on_peer_down(struct hop *hop, const struct classic *c, const uint64_t *sets,
                          const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->kind == CV_EVENT_PEER_DOWN);
    CV_ASSERT(event->peer <= c->member_count);
    if (event->peer == hop->next && hop->next != c->self) {
        skip(hop, c, sets, event->now_ns, out);
    }
}
