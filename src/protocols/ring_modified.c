/* src/protocols/ring_modified.c - the modified ring [NITR]: only the greatest id stays in the ring.
 *
 * A process that misses the coordinator sends its id to its successor (ELECTION). A receiver
 * forwards the greater of that id and its own; one that has forwarded an id already drops ids that
 * are not greater, so that of several concurrent elections only the one with the greatest id goes
 * on. The id that returns to its owner leads, and the owner circulates COORDINATOR.
 *
 * Ours: a process that still has a coordinator takes part nevertheless, because the initiator
 * misses the coordinator; the next heartbeat ends that. The coordinator itself does not pass an
 * ELECTION on. If the owner of the greatest id dies meanwhile, its message ends at the first
 * process that it reaches a second time, where it is not greater than the id forwarded before. A
 * process that waits in vain for the coordinator forgets the id it forwarded, and starts again. An
 * ELECTION ends after 2N hops in any case. A starting process listens before it elects.
 * Acknowledgements and skipping: hop.h; terms, refusals and resigning: classic.h.
 *
 * Assumed: synchrony. Under a partition or a pause two processes lead. */
#include "protocols/hop.h"

/* cv__hop_send() fills in the number. */
#define ELECTION_FIELDS(FIELD) \
    HOP_HEAD_FIELDS(FIELD)     \
    FIELD(ID, initiator)       \
    FIELD(ID, greatest)        \
    FIELD(U64, hops)
CV_MESSAGE_VIEW(modified_election, ELECTION_FIELDS)

#define COORDINATOR_FIELDS(FIELD) \
    HOP_HEAD_FIELDS(FIELD)        \
    FIELD(ID, leader)
CV_MESSAGE_VIEW(modified_coordinator, COORDINATOR_FIELDS)

static const struct cv_message_type modified_messages[HOP_MESSAGE_COUNT] = {
    HOP_MESSAGES(ELECTION_FIELDS, COORDINATOR_FIELDS)};

static const struct classic_rules modified_rules;

struct ring_modified {
    struct classic c;
    struct hop hop;
    uint64_t forwarded; /* greatest id forwarded; valid while participating */
};

static int modified_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    /* The election reaches the greatest id within one round, that id returns to its owner after
     * another, and is announced in a third; with all processes dead but two. */
    CV_ASSERT(config->member_count >= 1);
    const int64_t delta = config->option[CLASSIC_OPTION_DELTA];
    const int64_t round = config->member_count * (3 * delta + cv__classic_answer_ns(config));
    return cv__classic_configure(config, round + delta, reterr);
}

static size_t modified_size(const struct cv_config *config)
{
    (void)config;
    return sizeof(struct ring_modified);
}

static void modified_init(void *state, const struct cv_config *config)
{
    struct ring_modified *r = state;
    cv__classic_init(&r->c, config);
    cv__hop_init(&r->hop, &r->c, /* has_sets= */ false);
}

static void modified_check(const void *state)
{
    const struct ring_modified *r = state;
    cv__classic_check(&r->c);
    CV_ASSERT(r->c.role < HOP_ROLE_COUNT);
    cv__hop_check(&r->hop, &r->c);
    CV_ASSERT(r->c.role != HOP_ELECTING || r->forwarded >= 1);
    CV_ASSERT(r->forwarded <= r->c.member_count);
}

static bool pass_on(struct ring_modified *r, const struct cv_message *message, int64_t now_ns,
                    struct cv_effects *out)
{
    return cv__hop_send(&r->hop, &r->c, NULL, message, now_ns, out);
}

/* Claims the leadership in the next term and tells the ring. */
static void modified_lead(struct ring_modified *r, int64_t now_ns, struct cv_effects *out)
{
    struct classic *c = &r->c;
    CV_ASSERT(c->role == HOP_ELECTING);
    cv__classic_lead(c, &modified_rules, cv__classic_next_term(c), now_ns, out);
    struct cv_message coordinator = {.type = HOP_COORDINATOR};
    modified_coordinator_write(
        &coordinator, (struct modified_coordinator){.term = c->claim_term, .leader = c->self});
    (void)pass_on(r, &coordinator, now_ns, out); /* false: alone, no process to tell */
}

static void forward(struct ring_modified *r, cv_id initiator, cv_id greatest, uint64_t hops,
                    int64_t now_ns, struct cv_effects *out)
{
    struct classic *c = &r->c;
    CV_ASSERT(c->leader != c->self); /* a coordinator does not pass it on */
    CV_ASSERT(c->role != HOP_ELECTING || greatest > r->forwarded || initiator == c->self);
    struct cv_message election = {.type = HOP_ELECTION};
    modified_election_write(&election, (struct modified_election){.term = c->term,
                                                                  .initiator = initiator,
                                                                  .greatest = greatest,
                                                                  .hops = hops});
    if (cv__classic_stands(c)) {
        cv__classic_await(c, &modified_rules, HOP_ELECTING, now_ns, c->coordinator_ns, out);
    }
    r->forwarded = greatest;
    if (!pass_on(r, &election, now_ns, out) && cv__classic_stands(c)) {
        modified_lead(r, now_ns, out); /* alone */
    }
}

static void modified_elect(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    (void)dead; /* hop.c skips it when it does not acknowledge */
    CV_ASSERT(cv__classic_stands(c));
    CV_ASSERT(c->leader == CV_ID_NONE);
    forward((struct ring_modified *)c, c->self, c->self, 1, now_ns, out);
}

static void modified_on_election(struct classic *c, const struct cv_event *event,
                                 struct cv_effects *out)
{
    struct ring_modified *r = (struct ring_modified *)c;
    const struct modified_election election = modified_election_read(event->message);
    CV_ASSERT(election.greatest != CV_ID_NONE);
    if (c->role == CLASSIC_LEADING) { /* the initiator will hear our heartbeat */
        cv__effect_note(out, "ELECTION of {peer} ends here: this process leads", event->peer, 0, 0);
        return;
    }
    if (election.greatest == c->self && c->role == HOP_ELECTING) {
        modified_lead(r, event->now_ns, out);
        return;
    }
    if (election.greatest == c->self) {
        cv__effect_note(out, "ELECTION ends here: it is ours, and not needed any more", c->self, 0,
                        0);
        return;
    }
    if (election.hops >= 2 * (uint64_t)c->member_count) {
        cv__effect_note(out, "ELECTION of {peer} ends here: after {number} hops", event->peer, 0,
                        election.hops);
        return;
    }
    const cv_id greater =
        cv__classic_stands(c) && c->self > election.greatest ? c->self : election.greatest;
    if (c->role == HOP_ELECTING && greater <= r->forwarded) {
        cv__effect_note(out, "ELECTION of {peer} swallowed: {number} was forwarded already",
                        event->peer, 0, r->forwarded);
        return;
    }
    CV_ASSERT(greater >= election.greatest); /* an id in the ring never gets smaller */
    forward(r, election.initiator, greater, election.hops + 1, event->now_ns, out);
}

static void modified_on_coordinator(struct classic *c, const struct cv_event *event,
                                    struct cv_effects *out)
{
    struct ring_modified *r = (struct ring_modified *)c;
    const struct modified_coordinator coordinator = modified_coordinator_read(event->message);
    const uint64_t term = coordinator.term;
    const cv_id leader = coordinator.leader;
    CV_ASSERT(leader != CV_ID_NONE);
    if (leader == c->self || cv__classic_age(c, term, leader) != CLASSIC_NEWER) {
        cv__effect_note(out, "COORDINATOR {peer} of term {number} ends here: nothing new", leader,
                        0, term);
        return;
    }
    cv__classic_claim(c, &modified_rules, term, leader, event->peer, event->now_ns, out);
    (void)pass_on(r, event->message, event->now_ns, out);
}

static void modified_on_message(struct classic *c, const struct cv_event *event,
                                struct cv_effects *out)
{
    cv__hop_on_message(&((struct ring_modified *)c)->hop, c, event, modified_on_election,
                       modified_on_coordinator, out);
}

static void modified_on_timer(struct classic *c, uint32_t timer, int64_t now_ns,
                              struct cv_effects *out)
{
    struct ring_modified *r = (struct ring_modified *)c;
    if (timer == HOP_TIMER) {
        cv__hop_on_timer(&r->hop, c, NULL, now_ns, out);
        if (c->role == HOP_ELECTING && r->hop.next == c->self) {
            CV_ASSERT(cv__classic_stands(c));
            modified_lead(r, now_ns, out); /* all others are dead */
        }
        return;
    }
    CV_ASSERT(timer == CLASSIC_TIMER_ELECTION);
    CV_ASSERT(c->role == HOP_ELECTING);
    cv__classic_elect(c, &modified_rules, now_ns, out);
}

static void modified_on_peer_down(struct classic *c, const struct cv_event *event,
                                  struct cv_effects *out)
{
    struct ring_modified *r = (struct ring_modified *)c;
    cv__hop_on_peer_down(&r->hop, c, NULL, event, out);
}

static const struct classic_rules modified_rules = {
    .role_next = cv__hop_role_next,
    .role_count = HOP_ROLE_COUNT,
    .listens_first = true,
    .elect = modified_elect,
    .on_message = modified_on_message,
    .on_timer = modified_on_timer,
    .on_peer_down = modified_on_peer_down,
};

static void modified_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__hop_start(&((struct ring_modified *)state)->hop, event);
    }
    cv__classic_step(state, &modified_rules, event, out);
}

const struct cv_protocol cv__proto_ring_modified = {
    .name = "ring-modified",
    .summary = "only the greatest id stays in the ring and comes home to lead",
    .leads = "highest id left in the ring",
    .cites = "[NITR]",
    .promises = CLASSIC_PROMISES & ~CV_PROP(RIGHTFUL_LEADER), /* newcomers follow */
    .messages = modified_messages,
    .message_count = HOP_MESSAGE_COUNT,
    .configure = modified_configure,
    .size = modified_size,
    .init = modified_init,
    .step = modified_step,
    .check = modified_check,
    .settle_ns = cv__hop_settle_ns,
    CLASSIC_TABLE,
};
