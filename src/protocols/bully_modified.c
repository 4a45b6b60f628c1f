/* src/protocols/bully_modified.c - the modified bully [NITR; Kordafshari05]: the initiator grants.
 *
 * A process that misses the coordinator asks all higher ones (ELECTION). They answer OK with their
 * priority, here their id, and do not elect themselves: that saves the plain bully's cascade. The
 * initiator grants the leadership to the highest that answered (GRANT), which announces itself to
 * all (COORDINATOR). No answer within T: the initiator announces itself.
 *
 * Ours: the grant is sent as soon as all higher processes have answered or are known dead, not only
 * after T. If the chosen process does not announce itself within T', the next highest gets the
 * grant; when none is left, the election starts again. A coordinator that gets a grant from another
 * initiator repeats its announcement to it in the same term: concurrent elections converge.
 * Assumed: synchrony, as for the bully. */
#include "core/nodeset.h"
#include "protocols/classic.h"

enum {
    ELECTION = CLASSIC_MESSAGE_COUNT, /* who is above me? */
    OK,                               /* I am, with this priority */
    GRANT,                            /* you are the highest: lead */
    COORDINATOR,                      /* I lead */
    MESSAGE_COUNT,
};

#define OK_FIELDS(FIELD) FIELD(U64, term) FIELD(ID, priority)
CV_MESSAGE_VIEW(modified_ok, OK_FIELDS)

static const struct cv_message_type modified_messages[MESSAGE_COUNT] = {
    CLASSIC_MESSAGES,
    [ELECTION] = CV_MESSAGE_TYPE("ELECTION", CLASSIC_TERM_FIELDS),
    [OK] = CV_MESSAGE_TYPE("OK", OK_FIELDS),
    [GRANT] = CV_MESSAGE_TYPE("GRANT", CLASSIC_TERM_FIELDS),
    [COORDINATOR] = CV_MESSAGE_TYPE("COORDINATOR", CLASSIC_TERM_FIELDS),
};

enum {
    ASKING = CLASSIC_ROLE_COUNT, /* sent ELECTION, collects OKs for T */
    GRANTING,                    /* has granted, waits T' for the COORDINATOR */
    ROLE_COUNT,
};

static const uint32_t role_next[ROLE_COUNT] = {
    [CLASSIC_FOLLOWING] = BIT(ASKING) | BIT(CLASSIC_LEADING),
    [CLASSIC_LEADING] = BIT(CLASSIC_FOLLOWING) | BIT(ASKING),
    [ASKING] = BIT(GRANTING) | BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
    [GRANTING] = BIT(ASKING) | BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
};

static const struct classic_rules modified_rules;

/* Invariant: only higher ids are in the sets. */
struct bully_modified {
    struct classic c;
    uint64_t sets[]; /* answered but not granted yet; not answered and not known dead */
};

static uint64_t *answered(struct bully_modified *s)
{
    return s->sets;
}

static uint64_t *expected(struct bully_modified *s)
{
    return s->sets + cv__set_words(s->c.member_count);
}

static int modified_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    /* T' covers the delays of the grant and the announcement, and a margin, as T does. */
    const int64_t delta = config->option[CLASSIC_OPTION_DELTA];
    return cv__classic_configure(config, cv__classic_answer_ns(config) + delta, reterr);
}

static size_t modified_size(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    return sizeof(struct bully_modified) +
           2 * cv__set_words(config->member_count) * sizeof(uint64_t);
}

static int64_t modified_settle_ns(const struct cv_config *config)
{
    /* Suspicion, an election, and more if a refusal, or a wait of an earlier one, voids the
     * first. */
    const int64_t *option = config->option;
    CV_ASSERT(option[CLASSIC_OPTION_ANSWER] < option[CLASSIC_OPTION_COORDINATOR]);
    return cv__classic_detection_ns(config) + 2 * option[CLASSIC_OPTION_HEARTBEAT] +
           4 * (option[CLASSIC_OPTION_ANSWER] + option[CLASSIC_OPTION_COORDINATOR]);
}

static void modified_init(void *state, const struct cv_config *config)
{
    cv__classic_init(state, config);
}

static void modified_check(const void *state)
{
    const struct bully_modified *s = state;
    cv__classic_check(&s->c);
    CV_ASSERT(s->c.role < ROLE_COUNT);
    CV_ASSERT(s->c.role != ASKING || s->c.leader == CV_ID_NONE);
    CV_ASSERT(s->c.role != GRANTING || s->c.leader == CV_ID_NONE);
    CV_ASSERT(cv__set_last(s->sets, s->c.self, s->c.member_count) == CV_ID_NONE);
}

static void modified_lead(struct classic *c, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->leader != c->self); /* a new term would be for nothing */
    cv__classic_lead(c, &modified_rules, cv__classic_next_term(c), now_ns, out);
    CV_ASSERT(c->claim_term == c->term);
    classic_term_write(cv__effect_send_all(out, COORDINATOR), (struct classic_term){c->claim_term});
}

/* [NITR, modified election, step 1] */
static void modified_elect(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    struct bully_modified *s = (struct bully_modified *)c;
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(c->self <= c->member_count);
    cv__set_clear(answered(s), c->member_count);
    cv__set_clear(expected(s), c->member_count);
    for (cv_id id = c->self + 1; id <= c->member_count; id++) {
        if (id != dead) {
            cv__set_add(expected(s), id);
        }
    }
    if (cv__set_count(expected(s), c->member_count) == 0) {
        modified_lead(c, now_ns, out);
        return;
    }
    cv__classic_await(c, &modified_rules, ASKING, now_ns, c->answer_ns, out);
    classic_term_write(cv__effect_send_range(out, c->self + 1, c->member_count, ELECTION),
                       (struct classic_term){c->term});
}

/* [NITR, modified election, steps 2 and 4; next highest first: ours] */
static void modified_grant(struct bully_modified *s, int64_t now_ns, struct cv_effects *out)
{
    struct classic *c = &s->c;
    CV_ASSERT(cv__classic_stands(c));
    const cv_id highest = cv__set_last(answered(s), c->member_count, c->member_count);
    if (highest != CV_ID_NONE) {
        CV_ASSERT(highest > c->self);
        cv__set_remove(answered(s), highest);
        cv__classic_await(c, &modified_rules, GRANTING, now_ns, c->coordinator_ns, out);
        classic_term_write(cv__effect_send(out, highest, GRANT), (struct classic_term){c->term});
    } else if (c->role == ASKING) {
        modified_lead(c, now_ns, out);
    } else {
        cv__classic_elect(c, &modified_rules, now_ns, out);
    }
}

/* A process that was asked has answered or is dead. After the last of them the wait is over. */
static void modified_settle(struct bully_modified *s, cv_id id, int64_t now_ns,
                            struct cv_effects *out)
{
    CV_ASSERT(id <= s->c.member_count);
    if (s->c.role == ASKING && cv__set_has(expected(s), id)) {
        CV_ASSERT(id > s->c.self);
        cv__set_remove(expected(s), id);
        if (cv__set_count(expected(s), s->c.member_count) == 0) {
            modified_grant(s, now_ns, out);
        }
    }
}

static void modified_on_election(struct classic *c, cv_id from, struct cv_effects *out)
{
    if (from > c->self) {
        cv__effect_note(out, "ELECTION of {peer} ignored: its id is higher than ours", from, 0, 0);
    } else if (!cv__classic_stands(c)) {
        cv__classic_note_passive(c, "ELECTION of {peer} not answered: resigned",
                                 "ELECTION of {peer} not answered: not a candidate", from, out);
    } else {
        CV_ASSERT(from < c->self); /* no process asks itself */
        modified_ok_write(cv__effect_send(out, from, OK),
                          (struct modified_ok){.term = c->term, .priority = c->self});
    }
}

static void modified_on_ok(struct bully_modified *s, const struct cv_event *event,
                           struct cv_effects *out)
{
    const struct classic *c = &s->c;
    CV_ASSERT(event->peer <= c->member_count);
    if (c->role != ASKING) {
        cv__effect_note(out, "OK of {peer} ignored: not asking", event->peer, 0, 0);
    } else if (event->peer < c->self) {
        cv__effect_note(out, "OK of {peer} ignored: its id is lower than ours", event->peer, 0, 0);
    } else {
        CV_ASSERT(event->peer > c->self);
        if (cv__set_has(answered(s), event->peer)) {
            cv__effect_note(out, "OK of {peer} adds nothing: it has answered", event->peer, 0, 0);
        }
        cv__set_add(answered(s), event->peer);
        modified_settle(s, event->peer, event->now_ns, out);
    }
}

static void modified_on_grant(struct classic *c, const struct cv_event *event,
                              struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    if (!cv__classic_stands(c)) {
        cv__classic_note_passive(c, "GRANT of {peer} not taken: resigned",
                                 "GRANT of {peer} not taken: not a candidate", event->peer, out);
        return;
    }
    if (c->role == CLASSIC_LEADING) {
        CV_ASSERT(c->claim_leader == c->self);
        classic_term_write(cv__effect_send(out, event->peer, COORDINATOR),
                           (struct classic_term){c->claim_term});
    } else {
        modified_lead(c, event->now_ns, out);
    }
}

static void modified_on_message(struct classic *c, const struct cv_event *event,
                                struct cv_effects *out)
{
    struct bully_modified *s = (struct bully_modified *)c;
    CV_ASSERT(event->peer != c->self);
    switch (event->message->type) {
    case ELECTION:
        modified_on_election(c, event->peer, out);
        break;
    case OK:
        modified_on_ok(s, event, out);
        break;
    case GRANT:
        modified_on_grant(c, event, out);
        break;
    case COORDINATOR:
        cv__classic_claim(c, &modified_rules, classic_term_read(event->message).term, event->peer,
                          event->peer, event->now_ns, out);
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

static void modified_on_timer(struct classic *c, uint32_t timer, int64_t now_ns,
                              struct cv_effects *out)
{
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(timer == CLASSIC_TIMER_ELECTION);
    modified_grant((struct bully_modified *)c, now_ns, out);
}

static void modified_on_peer_down(struct classic *c, const struct cv_event *event,
                                  struct cv_effects *out)
{
    CV_ASSERT(event->kind == CV_EVENT_PEER_DOWN);
    modified_settle((struct bully_modified *)c, event->peer, event->now_ns, out);
}

static const struct classic_rules modified_rules = {
    .role_next = role_next,
    .role_count = ROLE_COUNT,
    .contests = true,
    .elect = modified_elect,
    .on_message = modified_on_message,
    .on_timer = modified_on_timer,
    .on_peer_down = modified_on_peer_down,
};

static void modified_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    cv__classic_step(state, &modified_rules, event, out);
}

const struct cv_protocol cv__proto_bully_modified = {
    .name = "bully-modified",
    .summary = "the initiator grants the leadership to the highest that answered",
    .leads = "highest priority (id) that answered",
    .cites = "[NITR] [Kordafshari05]",
    .promises = CLASSIC_PROMISES,
    .rightful = CV_RIGHTFUL_HIGHEST_ID,
    .messages = modified_messages,
    .message_count = MESSAGE_COUNT,
    .configure = modified_configure,
    .size = modified_size,
    .init = modified_init,
    .step = modified_step,
    .check = modified_check,
    .settle_ns = modified_settle_ns,
    CLASSIC_TABLE,
};
