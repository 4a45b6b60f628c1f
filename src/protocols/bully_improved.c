/* src/protocols/bully_improved.c - the improved bully [NITR; Arghavani11]: the heir is known before
 * the coordinator dies.
 *
 * Members answer each heartbeat (ALIVE), so the coordinator knows which are alive. Every heartbeat
 * names the heir: the highest living id below the coordinator. When the coordinator falls silent
 * the heir announces itself at once; the others give it time T, then run the plain bully.
 *
 * Ours: a member counts as alive if it answered one of the latest two heartbeats. This needs two
 * sets, and no timestamp per member. Assumed: synchrony, as for the bully. */
#include "core/nodeset.h"
#include "protocols/bully.h"

enum { ALIVE = BULLY_MESSAGE_COUNT, MESSAGE_COUNT };

static const struct cv_message_type improved_messages[MESSAGE_COUNT] = {
    BULLY_MESSAGES,
    [ALIVE] = CV_MESSAGE_TYPE("ALIVE", CLASSIC_TERM_FIELDS),
};

struct bully_improved {
    struct classic c;
    uint64_t sets[]; /* members that answered the latest heartbeat, and the one before */
};

static uint64_t *answered(struct bully_improved *s)
{
    return s->sets;
}

static uint64_t *answered_before(struct bully_improved *s)
{
    return s->sets + cv__set_words(s->c.member_count);
}

static size_t improved_size(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    return sizeof(struct bully_improved) +
           2 * cv__set_words(config->member_count) * sizeof(uint64_t);
}

static void forget_answers(struct bully_improved *s)
{
    cv__set_clear(answered(s), s->c.member_count);
    cv__set_clear(answered_before(s), s->c.member_count);
}

/* Just before a heartbeat: finds the living members, and with them the heir. */
static void name_heir(struct bully_improved *s)
{
    struct classic *c = &s->c;
    CV_ASSERT(c->role == CLASSIC_LEADING); /* only a coordinator arms this timer */
    CV_ASSERT(!cv__set_has(answered(s), c->self));
    const cv_id now = cv__set_last(answered(s), c->self - 1, c->member_count);
    const cv_id before = cv__set_last(answered_before(s), c->self - 1, c->member_count);
    c->heir = now > before ? now : before;
    CV_ASSERT(c->heir < c->self);
    cv__set_copy(answered_before(s), answered(s), c->member_count);
    cv__set_clear(answered(s), c->member_count);
}

static void on_alive(struct bully_improved *s, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != s->c.self);
    CV_ASSERT(event->peer <= s->c.member_count);
    const bool is_leading = s->c.role == CLASSIC_LEADING;
    if (is_leading && classic_term_read(event->message).term == s->c.claim_term) {
        if (cv__set_has(answered(s), event->peer)) {
            cv__effect_note(out, "ALIVE of {peer} adds nothing: it has answered this heartbeat",
                            event->peer, 0, 0);
        }
        cv__set_add(answered(s), event->peer);
    } else {
        cv__effect_note(out,
                        is_leading ? "ALIVE of {peer} ignored: it follows another term"
                                   : "ALIVE of {peer} ignored: not leading",
                        event->peer, 0, 0);
    }
}

static void improved_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct bully_improved *s = state;
    const bool was_leading = s->c.role == CLASSIC_LEADING;

    if (event->kind == CV_EVENT_MESSAGE && event->message->type == ALIVE) {
        on_alive(s, event, out);
        return;
    }
    if (event->kind == CV_EVENT_TIMER && event->timer == CLASSIC_TIMER_HEARTBEAT) {
        name_heir(s);
    }
    if (event->kind == CV_EVENT_PEER_DOWN) {
        cv__set_remove(answered(s), event->peer);
        cv__set_remove(answered_before(s), event->peer);
    }
    cv__classic_step(&s->c, &cv__bully_heir_rules, event, out);

    if (event->kind == CV_EVENT_MESSAGE && event->message->type == CLASSIC_HEARTBEAT &&
        s->c.leader == event->peer) {
        CV_ASSERT(event->peer != s->c.self);
        classic_term_write(cv__effect_send(out, event->peer, ALIVE),
                           (struct classic_term){s->c.claim_term});
    }
    if (was_leading != (s->c.role == CLASSIC_LEADING)) {
        forget_answers(s);
    }
}

const struct cv_protocol cv__proto_bully_improved = {
    .name = "bully-improved",
    .summary = "the bully, with an heir named before the coordinator dies",
    .leads = "the heir, else the highest id alive",
    .cites = "[NITR] [Arghavani11]",
    .promises = CLASSIC_PROMISES,
    .rightful = CV_RIGHTFUL_HIGHEST_ID,
    .messages = improved_messages,
    .message_count = MESSAGE_COUNT,
    .configure = cv__bully_configure,
    .size = improved_size,
    .init = cv__bully_init,
    .step = improved_step,
    .check = cv__bully_check,
    .settle_ns = cv__bully_settle_ns,
    CLASSIC_TABLE,
};
