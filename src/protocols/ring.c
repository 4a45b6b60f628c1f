/* src/protocols/ring.c - the ring algorithm [NITR]: a list of the living goes round, the highest id
 * on it leads.
 *
 * A process that misses the coordinator sends ELECTION with an active list of just itself to its
 * successor; each process adds itself and passes it on. Back at its initiator, the highest id of
 * the list is circulated as COORDINATOR, with the list. That is 2N messages. Several elections at
 * once are allowed: they see the same living processes and agree.
 *
 * The active list travels as a set: its order is the ring's order from the initiator on, so the set
 * and the initiator contain the same in fewer bytes.
 *
 * Ours: if the initiator died meanwhile, the first process that finds itself on the list already
 * concludes the election in its place. A COORDINATOR ends at a process that knows its content
 * already: it has been round, or follows an equal one. An ELECTION ends after 2N hops in any case.
 * A starting process listens for a heartbeat before it elects: joining does not disturb the others.
 * Two coordinators that meet again after a partition refuse each other's claims, which makes the
 * smaller claim's owner start an election among all. Acknowledgements and skipping: hop.h; terms,
 * refusals and resigning: classic.h.
 *
 * Assumed: synchrony. Under a partition or a pause two processes lead. */
#include "core/nodeset.h"
#include "protocols/hop.h"

#include <string.h>

/* cv__hop_send() fills in the number. */
#define ELECTION_FIELDS(FIELD) \
    HOP_HEAD_FIELDS(FIELD)     \
    FIELD(ID, initiator)       \
    FIELD(U64, hops)           \
    FIELD(SET, active)
CV_MESSAGE_VIEW(ring_election, ELECTION_FIELDS)

#define COORDINATOR_FIELDS(FIELD) \
    HOP_HEAD_FIELDS(FIELD)        \
    FIELD(ID, initiator)          \
    FIELD(ID, leader)             \
    FIELD(SET, active)
CV_MESSAGE_VIEW(ring_coordinator, COORDINATOR_FIELDS)

static const struct cv_message_type ring_messages[HOP_MESSAGE_COUNT] = {
    HOP_MESSAGES(ELECTION_FIELDS, COORDINATOR_FIELDS)};

static const struct classic_rules ring_rules;

struct ring {
    struct classic c;
    struct hop hop;
    uint64_t sets[]; /* one for each slot of the hop, and one to build a list in */
};

static uint64_t *workspace(struct ring *r)
{
    return r->sets + cv__hop_words(r->c.member_count);
}

static int ring_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    /* Twice round the ring, with all processes dead but two. */
    CV_ASSERT(config->member_count >= 1);
    const int64_t delta = config->option[CLASSIC_OPTION_DELTA];
    const int64_t round = config->member_count * (2 * delta + cv__classic_answer_ns(config));
    return cv__classic_configure(config, round + delta, reterr);
}

static size_t ring_size(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    const uint32_t words =
        cv__hop_words(config->member_count) + cv__set_words(config->member_count);
    return sizeof(struct ring) + words * sizeof(uint64_t);
}

static void ring_init(void *state, const struct cv_config *config)
{
    struct ring *r = state;
    cv__classic_init(&r->c, config);
    cv__hop_init(&r->hop, &r->c, /* has_sets= */ true);
}

static void ring_check(const void *state)
{
    const struct ring *r = state;
    cv__classic_check(&r->c);
    CV_ASSERT(r->c.role < HOP_ROLE_COUNT);
    CV_ASSERT(r->c.role != HOP_ELECTING || r->c.leader == CV_ID_NONE);
    cv__hop_check(&r->hop, &r->c);
}

static struct cv_list list_of(const struct ring *r, const uint64_t *set)
{
    return (struct cv_list){set, cv__set_words(r->c.member_count)};
}

static bool pass_on(struct ring *r, const struct cv_message *message, int64_t now_ns,
                    struct cv_effects *out)
{
    CV_ASSERT(message->type == HOP_ELECTION || message->type == HOP_COORDINATOR);
    return cv__hop_send(&r->hop, &r->c, r->sets, message, now_ns, out);
}

/* [NITR, ring, step 1] */
static void ring_elect(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    (void)dead; /* hop.c skips it when it does not acknowledge */
    struct ring *r = (struct ring *)c;
    uint64_t *active = workspace(r);
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(cv__classic_stands(c));
    cv__set_clear(active, c->member_count);
    cv__set_add(active, c->self);
    struct cv_message election = {.type = HOP_ELECTION};
    ring_election_write(&election, (struct ring_election){.term = c->term,
                                                          .initiator = c->self,
                                                          .hops = 1,
                                                          .active = list_of(r, active)});
    cv__classic_await(c, &ring_rules, HOP_ELECTING, now_ns, c->coordinator_ns, out);
    if (!pass_on(r, &election, now_ns, out)) {
        cv__classic_lead(c, &ring_rules, cv__classic_next_term(c), now_ns, out); /* alone */
    }
}

/* [NITR, ring, step 2 iii] The list has been round: the highest on it leads. */
static void ring_conclude(struct ring *r, const uint64_t *active, int64_t now_ns,
                          struct cv_effects *out)
{
    struct classic *c = &r->c;
    const cv_id highest = cv__set_last(active, c->member_count, c->member_count);
    CV_ASSERT(highest != CV_ID_NONE);
    CV_ASSERT(highest >= c->self); /* this process is on the list */
    struct cv_message coordinator = {.type = HOP_COORDINATOR};
    ring_coordinator_write(&coordinator, (struct ring_coordinator){.term = cv__classic_next_term(c),
                                                                   .initiator = c->self,
                                                                   .leader = highest,
                                                                   .active = list_of(r, active)});
    if (highest == c->self && !cv__classic_stands(c)) { /* another process will elect again */
        cv__classic_note_passive(c, "elected, but does not lead: resigned meanwhile",
                                 "elected, but does not lead: not a candidate any more", c->self,
                                 out);
        return;
    }
    if (highest == c->self) {
        cv__classic_lead(c, &ring_rules, cv__classic_next_term(c), now_ns, out);
    } else {
        cv__classic_claim(c, &ring_rules, cv__classic_next_term(c), highest, highest, now_ns, out);
    }
    (void)pass_on(r, &coordinator, now_ns, out); /* false: alone, no process to tell */
}

/* Adds itself and passes the list on. */
static void ring_join(struct ring *r, struct ring_election election, uint64_t *active,
                      int64_t now_ns, struct cv_effects *out)
{
    struct classic *c = &r->c;
    CV_ASSERT(election.initiator != c->self);
    CV_ASSERT(!cv__set_has(active, c->self));
    if (cv__classic_stands(c)) {
        cv__set_add(active, c->self);
    }
    election.term = c->term;
    election.hops++;
    CV_ASSERT(election.hops <= 2 * (uint64_t)c->member_count); /* see ring_on_election() */
    election.active = list_of(r, active);
    struct cv_message message = {.type = HOP_ELECTION};
    ring_election_write(&message, election);
    const bool is_orphan = c->role == CLASSIC_FOLLOWING && c->leader == CV_ID_NONE;
    if (is_orphan && cv__classic_stands(c)) {
        cv__classic_await(c, &ring_rules, HOP_ELECTING, now_ns, c->coordinator_ns, out);
    }
    (void)pass_on(r, &message, now_ns, out); /* false: alone; TIMER_ELECTION follows */
}

/* [NITR, ring, step 2] */
static void ring_on_election(struct classic *c, const struct cv_event *event,
                             struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    const struct ring_election election = ring_election_read(event->message);
    uint64_t *active = workspace(r);
    CV_ASSERT(election.initiator != CV_ID_NONE); /* checked by the codec */
    CV_ASSERT(election.active.word_count == cv__set_words(c->member_count));
    cv__set_copy(active, election.active.word, c->member_count);
    const bool is_listed = cv__set_has(active, c->self);
    if (election.initiator == c->self && !is_listed) {
        cv__effect_note(out, "ELECTION of {peer} ignored: it is ours, but does not list us",
                        event->peer, 0, 0);
    } else if (election.initiator == c->self && c->role != HOP_ELECTING) {
        cv__effect_note(out, "ELECTION ends here: it is ours, and not needed any more", c->self, 0,
                        0);
    } else if (is_listed) { /* it has been round */
        ring_conclude(r, active, event->now_ns, out);
    } else if (election.hops >= 2 * (uint64_t)c->member_count) {
        cv__effect_note(out, "ELECTION of {peer} ends here: after {number} hops", event->peer, 0,
                        election.hops);
    } else {
        ring_join(r, election, active, event->now_ns, out);
    }
}

static void ring_on_coordinator(struct classic *c, const struct cv_event *event,
                                struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    const struct ring_coordinator coordinator = ring_coordinator_read(event->message);
    const uint64_t term = coordinator.term;
    const cv_id leader = coordinator.leader;
    CV_ASSERT(leader != CV_ID_NONE);
    CV_ASSERT(leader <= c->member_count);
    if (cv__classic_age(c, term, leader) != CLASSIC_NEWER) {
        cv__effect_note(out, "COORDINATOR {peer} of term {number} ends here: nothing new", leader,
                        0, term);
        return;
    }
    if (leader != c->self) {
        cv__classic_claim(c, &ring_rules, term, leader, event->peer, event->now_ns, out);
    } else if (cv__classic_stands(c)) {
        cv__classic_lead(c, &ring_rules, term, event->now_ns, out);
    } else { /* another process will elect again */
        cv__classic_note_passive(c, "elected, but does not lead: resigned meanwhile",
                                 "elected, but does not lead: not a candidate any more", c->self,
                                 out);
        return;
    }
    (void)pass_on(r, event->message, event->now_ns, out);
}

static void ring_on_message(struct classic *c, const struct cv_event *event, struct cv_effects *out)
{
    cv__hop_on_message(&((struct ring *)c)->hop, c, event, ring_on_election, ring_on_coordinator,
                       out);
}

static void ring_on_timer(struct classic *c, uint32_t timer, int64_t now_ns, struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    if (timer == HOP_TIMER) {
        cv__hop_on_timer(&r->hop, c, r->sets, now_ns, out);
        if (c->role == HOP_ELECTING && r->hop.next == c->self) {
            CV_ASSERT(cv__classic_stands(c));
            cv__classic_lead(c, &ring_rules, cv__classic_next_term(c), now_ns,
                             out); /* all others are dead */
        }
        return;
    }
    CV_ASSERT(timer == CLASSIC_TIMER_ELECTION);
    CV_ASSERT(c->role == HOP_ELECTING);
    CV_ASSERT(c->leader == CV_ID_NONE);
    cv__classic_elect(c, &ring_rules, now_ns, out);
}

static void ring_on_peer_down(struct classic *c, const struct cv_event *event,
                              struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    cv__hop_on_peer_down(&r->hop, c, r->sets, event, out);
}

static const struct classic_rules ring_rules = {
    .role_next = cv__hop_role_next,
    .role_count = HOP_ROLE_COUNT,
    .listens_first = true,
    .elect = ring_elect,
    .on_message = ring_on_message,
    .on_timer = ring_on_timer,
    .on_peer_down = ring_on_peer_down,
};

static void ring_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    if (event->kind == CV_EVENT_START) {
        cv__hop_start(&((struct ring *)state)->hop, event);
    }
    cv__classic_step(state, &ring_rules, event, out);
}

const struct cv_protocol cv__proto_ring = {
    .name = "ring",
    .summary = "a list of the living goes round the ring; the highest id on it leads",
    .leads = "highest id on the list",
    .cites = "[NITR]",
    .promises = CLASSIC_PROMISES & ~CV_PROP(RIGHTFUL_LEADER), /* newcomers follow */
    .messages = ring_messages,
    .message_count = HOP_MESSAGE_COUNT,
    .configure = ring_configure,
    .size = ring_size,
    .init = ring_init,
    .step = ring_step,
    .check = ring_check,
    .settle_ns = cv__hop_settle_ns,
    CLASSIC_TABLE,
};
