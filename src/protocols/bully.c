/* src/protocols/bully.c - the bully algorithm [NITR; Garcia-Molina82]: the highest living id leads.
 *
 * On suspicion, or on (re)starting, a process asks all higher ones (ELECTION). No ANSWER within T:
 * it announces itself to all lower ones (COORDINATOR). An ANSWER: it waits T' for the announcement
 * and starts again without one. A process that a lower one asks answers and elects in turn. The
 * highest id announces itself at once.
 *
 * Ours: a process whose only superior is the coordinator that it has just found dead announces
 * itself without asking it; this is the best case of [NITR, analysis], N-2 messages in one
 * transmission time, which its listed steps do not reach. A coordinator that gets an ELECTION
 * repeats its announcement to the sender in the same term, so that a restarting process does not
 * cause a new term; and a process that heard an announcement within T answers an ELECTION but does
 * not start one (see has_crossed). Terms, refusals and resigning: classic.h.
 *
 * Assumed: synchrony. Under a partition or a pause two processes lead. */
#include "protocols/bully.h"

static const uint32_t role_next[BULLY_ROLE_COUNT] = {
    [CLASSIC_FOLLOWING] = BIT(BULLY_ASKING) | BIT(BULLY_WAITING) | BIT(CLASSIC_LEADING),
    [CLASSIC_LEADING] = BIT(CLASSIC_FOLLOWING) | BIT(BULLY_ASKING),
    [BULLY_ASKING] = BIT(BULLY_WAITING) | BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
    [BULLY_WAITING] = BIT(BULLY_ASKING) | BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
};

static const struct cv_message_type bully_messages[BULLY_MESSAGE_COUNT] = {BULLY_MESSAGES};

int cv__bully_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    /* T' covers the T of the higher process and the messages to it and back: T + 3 delta <= 2 T. */
    return cv__classic_configure(config, 2 * cv__classic_answer_ns(config), reterr);
}

int64_t cv__bully_settle_ns(const struct cv_config *config)
{
    /* Suspicion and two elections: a refusal, or a wait of an earlier election, may void the
     * first. */
    const int64_t *option = config->option;
    CV_ASSERT(option[CLASSIC_OPTION_ANSWER] < option[CLASSIC_OPTION_COORDINATOR]);
    return cv__classic_detection_ns(config) + 2 * option[CLASSIC_OPTION_HEARTBEAT] +
           3 * (option[CLASSIC_OPTION_ANSWER] + option[CLASSIC_OPTION_COORDINATOR]) +
           4 * option[CLASSIC_OPTION_DELTA];
}

static size_t bully_size(const struct cv_config *config)
{
    (void)config;
    return sizeof(struct classic);
}

void cv__bully_init(void *state, const struct cv_config *config)
{
    cv__classic_init(state, config);
}

void cv__bully_check(const void *state)
{
    const struct classic *c = state;
    cv__classic_check(c);
    CV_ASSERT(c->role < BULLY_ROLE_COUNT);
    CV_ASSERT(c->role != BULLY_ASKING || c->leader == CV_ID_NONE);
    CV_ASSERT(c->role != BULLY_WAITING || c->leader == CV_ID_NONE);
}

static void bully_lead(struct classic *c, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->leader != c->self); /* a new term would be for nothing */
    cv__classic_lead(c, &cv__bully_rules, cv__classic_next_term(c), now_ns, out);
    CV_ASSERT(c->claim_term == c->term);
    classic_term_write(cv__effect_send_range(out, 1, c->self - 1, BULLY_COORDINATOR),
                       (struct classic_term){c->claim_term});
}

/* [NITR, bully, steps 1 and 2] */
static void bully_elect(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(c->self <= c->member_count);
    const uint32_t superiors = c->member_count - c->self;
    if (superiors == 0 || (superiors == 1 && dead == c->member_count)) {
        bully_lead(c, now_ns, out);
        return;
    }
    cv__classic_await(c, &cv__bully_rules, BULLY_ASKING, now_ns, c->answer_ns, out);
    classic_term_write(cv__effect_send_range(out, c->self + 1, c->member_count, BULLY_ELECTION),
                       (struct classic_term){c->term});
}

/* [NITR, improved bully] The coordinator is thought dead. If it named an heir, the heir announces
 * itself, and the others give it time T to do so before they run the plain bully. */
static void bully_inherit(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(dead != c->self);
    if (!cv__classic_stands(c)) {
        cv__classic_note_passive(c, "does not succeed {peer}: resigned",
                                 "does not succeed {peer}: not a candidate", dead, out);
        cv__classic_become(c, &cv__bully_rules, CLASSIC_FOLLOWING, out);
    } else if (c->heir == c->self) {
        bully_lead(c, now_ns, out);
    } else if (c->heir != CV_ID_NONE && c->heir != dead) {
        cv__classic_await(c, &cv__bully_rules, BULLY_WAITING, now_ns, c->answer_ns, out);
    } else {
        bully_elect(c, dead, now_ns, out);
    }
}

/* Did this ELECTION cross an announcement that its sender has received by now, or will receive?
 * Then another election is not needed. With thousands of processes, each needless election would
 * start others, and the storm would never end. */
static bool has_crossed(const struct classic *c, int64_t now_ns)
{
    CV_ASSERT(c->announced_ns <= now_ns);
    CV_ASSERT(c->answer_ns > 0);
    return c->announced_ns != 0 && now_ns - c->announced_ns < c->answer_ns;
}

/* [NITR, bully, step 4] */
static void bully_on_election(struct classic *c, const struct cv_event *event,
                              struct cv_effects *out)
{
    if (event->peer > c->self) {
        cv__effect_note(out, "ELECTION of {peer} ignored: its id is higher than ours", event->peer,
                        0, 0);
        return;
    }
    if (!cv__classic_stands(c)) {
        cv__classic_note_passive(c, "ELECTION of {peer} not answered: resigned",
                                 "ELECTION of {peer} not answered: not a candidate", event->peer,
                                 out);
        return;
    }
    CV_ASSERT(event->peer < c->self);
    classic_term_write(cv__effect_send(out, event->peer, BULLY_ANSWER),
                       (struct classic_term){c->term});
    if (c->role == CLASSIC_LEADING) {
        CV_ASSERT(c->claim_leader == c->self);
        classic_term_write(cv__effect_send(out, event->peer, BULLY_COORDINATOR),
                           (struct classic_term){c->claim_term});
    } else if (c->role == CLASSIC_FOLLOWING && has_crossed(c, event->now_ns)) {
        cv__effect_note(out, "no election for {peer}: a coordinator announced itself at {time}",
                        event->peer, c->announced_ns, 0);
    } else if (c->role == CLASSIC_FOLLOWING) {
        cv__classic_elect(c, &cv__bully_rules, event->now_ns, out);
    }
}

/* [NITR, bully, step 3] */
static void bully_on_answer(struct classic *c, const struct cv_event *event, struct cv_effects *out)
{
    if (c->role != BULLY_ASKING) {
        cv__effect_note(out, "ANSWER of {peer} ignored: not asking", event->peer, 0, 0);
        return;
    }
    if (event->peer < c->self) {
        cv__effect_note(out, "ANSWER of {peer} ignored: its id is lower than ours", event->peer, 0,
                        0);
        return;
    }
    CV_ASSERT(event->peer > c->self); /* no process sends to itself */
    CV_ASSERT(c->leader == CV_ID_NONE);
    cv__classic_await(c, &cv__bully_rules, BULLY_WAITING, event->now_ns, c->coordinator_ns, out);
}

static void bully_on_message(struct classic *c, const struct cv_event *event,
                             struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    switch (event->message->type) {
    case BULLY_ELECTION:
        bully_on_election(c, event, out);
        break;
    case BULLY_ANSWER:
        bully_on_answer(c, event, out);
        break;
    case BULLY_COORDINATOR: /* [NITR, bully, step 5] */
        c->announced_ns = event->now_ns;
        cv__classic_claim(c, &cv__bully_rules, classic_term_read(event->message).term, event->peer,
                          event->peer, event->now_ns, out);
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

static void bully_on_timer(struct classic *c, uint32_t timer, int64_t now_ns,
                           struct cv_effects *out)
{
    CV_ASSERT(timer == CLASSIC_TIMER_ELECTION);
    CV_ASSERT(cv__classic_stands(c));
    if (c->role == BULLY_ASKING) {
        bully_lead(c, now_ns, out); /* no higher process answered */
    } else {
        CV_ASSERT(c->role == BULLY_WAITING);
        cv__classic_elect(c, &cv__bully_rules, now_ns, out);
    }
}

const struct classic_rules cv__bully_rules = {
    .role_next = role_next,
    .role_count = BULLY_ROLE_COUNT,
    .contests = true,
    .elect = bully_elect,
    .on_message = bully_on_message,
    .on_timer = bully_on_timer,
};

const struct classic_rules cv__bully_heir_rules = {
    .role_next = role_next,
    .role_count = BULLY_ROLE_COUNT,
    .contests = true,
    .elect = bully_elect,
    .on_orphaned = bully_inherit,
    .on_message = bully_on_message,
    .on_timer = bully_on_timer,
};

static void bully_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    cv__classic_step(state, &cv__bully_rules, event, out);
}

const struct cv_protocol cv__proto_bully = {
    .name = "bully",
    .summary = "a process that misses the coordinator asks all higher ids; the highest leads",
    .leads = "highest id alive",
    .cites = "[NITR] [Garcia-Molina82]",
    .promises = CLASSIC_PROMISES,
    .rightful = CV_RIGHTFUL_HIGHEST_ID,
    .messages = bully_messages,
    .message_count = BULLY_MESSAGE_COUNT,
    .configure = cv__bully_configure,
    .size = bully_size,
    .init = cv__bully_init,
    .step = bully_step,
    .check = cv__bully_check,
    .settle_ns = cv__bully_settle_ns,
    CLASSIC_TABLE,
};
