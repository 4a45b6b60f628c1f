/* src/protocols/ring.c - the ring algorithm [NITR]: a list of the living goes round, the highest
 * id on it leads.
 *
 * Who misses the coordinator sends ELECTION with an active list of just itself to its successor;
 * each process adds itself and passes it on. Back at its initiator, the highest id of the list is
 * circulated as COORDINATOR, with the list. That is 2N messages. Several elections at once are
 * allowed: they see the same living processes and agree.
 *
 * The active list travels as a set: its order is the ring's order from the initiator on, so the set
 * and the initiator say the same in fewer bytes.
 *
 * Ours: if the initiator died meanwhile, the first process that finds itself on the list already
 * concludes the election in its place. A COORDINATOR that tells a process nothing new has been
 * round, or meets the path of an equal one, and ends there. An ELECTION ends after 2N hops whatever
 * happens. A starting process listens for a heartbeat before it elects: joining disturbs nobody.
 * Two coordinators that meet again after a partition refuse each other's claims, which makes the
 * smaller claim's owner start an election among all. Acknowledgements and skipping: hop.h; terms,
 * refusals and resigning: classic.h.
 *
 * Assumed: synchrony. Under a partition or a pause two processes lead. */
#include "core/nodeset.h"
#include "protocols/hop.h"

#include <string.h>

enum { ELECTION = HOP_MESSAGE_COUNT, COORDINATOR, MESSAGE_COUNT };

enum { FIELD_INITIATOR = 2, FIELD_LEADER = 3, FIELD_HOPS = 3 };

static const struct cv_message_type ring_messages[MESSAGE_COUNT] = {
    HOP_MESSAGES,
    [ELECTION] = {"ELECTION",
                  {{"term", CV_FIELD_U64},
                   {"number", CV_FIELD_U64},
                   {"initiator", CV_FIELD_ID},
                   {"hops", CV_FIELD_U64},
                   {"active", CV_FIELD_SET}}},
    [COORDINATOR] = {"COORDINATOR",
                     {{"term", CV_FIELD_U64},
                      {"number", CV_FIELD_U64},
                      {"initiator", CV_FIELD_ID},
                      {"leader", CV_FIELD_ID},
                      {"active", CV_FIELD_SET}}},
};

enum {
    ELECTING = CLASSIC_ROLE_COUNT, /* started or passed on an ELECTION: waits for COORDINATOR */
    ROLE_COUNT,
};

static const uint32_t role_next[ROLE_COUNT] = {
    [CLASSIC_FOLLOWING] = BIT(ELECTING) | BIT(CLASSIC_LEADING),
    [CLASSIC_LEADING] = BIT(CLASSIC_FOLLOWING) | BIT(ELECTING),
    [ELECTING] = BIT(CLASSIC_LEADING) | BIT(CLASSIC_FOLLOWING),
};

static const struct classic_rules ring_rules;

struct ring {
    struct classic c;
    struct hop hop;
    uint64_t sets[]; /* those of the hop's slots, and one to build a list in */
};

static uint64_t *workspace(struct ring *r)
{
    return r->sets + cv__hop_words(r->c.member_count);
}

static int ring_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    /* Twice round the ring, with every process dead but two. */
    const int64_t delta = config->option[CLASSIC_OPTION_DELTA];
    const int64_t round = config->member_count * (2 * delta + cv__classic_answer_ns(config));
    return cv__classic_configure(config, round + delta, reterr);
}

static int64_t ring_settle_ns(const struct cv_config *config)
{
    const int64_t *option = config->option;
    return cv__classic_detection_ns(config) + 2 * option[CLASSIC_OPTION_HEARTBEAT] +
           3 * option[CLASSIC_OPTION_COORDINATOR];
}

static size_t ring_size(const struct cv_config *config)
{
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
    CV_ASSERT(r->c.role < ROLE_COUNT);
    CV_ASSERT(r->hop.next >= 1 && r->hop.next <= r->c.member_count);
}

static bool pass_on(struct ring *r, const struct cv_message *message, int64_t now_ns,
                    struct cv_effects *out)
{
    return cv__hop_send(&r->hop, &r->c, r->sets, message, now_ns, out);
}

/* [NITR, ring, step 1] */
static void ring_elect(struct classic *c, cv_id dead, int64_t now_ns, struct cv_effects *out)
{
    (void)dead; /* the ring finds out by itself */
    struct ring *r = (struct ring *)c;
    uint64_t *active = workspace(r);
    cv__set_clear(active, c->member_count);
    cv__set_add(active, c->self);
    struct cv_message election = {
        .type = ELECTION,
        .field = {[0] = c->term, [FIELD_INITIATOR] = c->self, [FIELD_HOPS] = 1},
        .list = {{active, cv__set_words(c->member_count)}},
    };
    cv__classic_await(c, &ring_rules, ELECTING, now_ns, c->coordinator_ns, out);
    if (!pass_on(r, &election, now_ns, out)) {
        cv__classic_lead(c, &ring_rules, c->term + 1, now_ns, out); /* alone */
    }
}

/* [NITR, ring, step 2 iii] The list has been round: the highest on it leads. */
static void ring_conclude(struct ring *r, const uint64_t *active, int64_t now_ns,
                          struct cv_effects *out)
{
    struct classic *c = &r->c;
    const cv_id highest = cv__set_last(active, c->member_count, c->member_count);
    CV_ASSERT(highest != CV_ID_NONE);
    const struct cv_message coordinator = {
        .type = COORDINATOR,
        .field = {[0] = c->term + 1, [FIELD_INITIATOR] = c->self, [FIELD_LEADER] = highest},
        .list = {{active, cv__set_words(c->member_count)}},
    };
    if (highest == c->self && !cv__classic_stands(c)) {
        return; /* resigned since it went on the list: somebody will elect again */
    }
    if (highest == c->self) {
        cv__classic_lead(c, &ring_rules, c->term + 1, now_ns, out);
    } else {
        cv__classic_claim(c, &ring_rules, c->term + 1, highest, highest, now_ns, out);
    }
    (void)pass_on(r, &coordinator, now_ns, out); /* alone: there is nobody to tell */
}

/* [NITR, ring, step 2] */
static void ring_on_election(struct ring *r, const struct cv_event *event, struct cv_effects *out)
{
    struct classic *c = &r->c;
    uint64_t *active = workspace(r);
    cv__set_copy(active, event->message->list[0].word, c->member_count);
    const cv_id initiator = (cv_id)event->message->field[FIELD_INITIATOR];
    const bool has_been_round = initiator == c->self || cv__set_has(active, c->self);
    if (has_been_round) {
        const bool is_listed = cv__set_has(active, c->self); /* as long as the sender is honest */
        if (is_listed && (c->role == ELECTING || initiator != c->self)) {
            ring_conclude(r, active, event->now_ns, out);
        }
        return; /* our own, but we know a coordinator by now */
    }
    if (event->message->field[FIELD_HOPS] >= 2 * (uint64_t)c->member_count) {
        return;
    }
    if (cv__classic_stands(c)) {
        cv__set_add(active, c->self);
    }
    struct cv_message election = *event->message;
    election.field[0] = c->term;
    election.field[FIELD_HOPS]++;
    election.list[0].word = active;
    const bool is_orphan = c->role == CLASSIC_FOLLOWING && c->leader == CV_ID_NONE;
    if (is_orphan && cv__classic_stands(c)) {
        cv__classic_await(c, &ring_rules, ELECTING, event->now_ns, c->coordinator_ns, out);
    }
    (void)pass_on(r, &election, event->now_ns, out); /* alone: it ends here, we elect in time */
}

static void ring_on_coordinator(struct ring *r, const struct cv_event *event,
                                struct cv_effects *out)
{
    struct classic *c = &r->c;
    const uint64_t term = event->message->field[0];
    const cv_id leader = (cv_id)event->message->field[FIELD_LEADER];
    if (cv__classic_judge(c, term, leader) != CLASSIC_NEWER) {
        return;
    }
    if (leader != c->self) {
        cv__classic_claim(c, &ring_rules, term, leader, event->peer, event->now_ns, out);
    } else if (cv__classic_stands(c)) {
        cv__classic_lead(c, &ring_rules, term, event->now_ns, out);
    } else {
        return; /* resigned since it went on the list: somebody will elect again */
    }
    (void)pass_on(r, event->message, event->now_ns, out);
}

static void ring_on_message(struct classic *c, const struct cv_event *event, struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    switch (event->message->type) {
    case HOP_ACK:
        cv__hop_on_ack(&r->hop, event);
        break;
    case ELECTION:
        if (cv__hop_accept(&r->hop, c, event, out)) {
            ring_on_election(r, event, out);
        }
        break;
    case COORDINATOR:
        if (cv__hop_accept(&r->hop, c, event, out)) {
            ring_on_coordinator(r, event, out);
        }
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

static void ring_on_timer(struct classic *c, uint32_t timer, int64_t now_ns, struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    if (timer == HOP_TIMER) {
        cv__hop_on_timer(&r->hop, c, r->sets, now_ns, out);
        if (c->role == ELECTING && r->hop.next == c->self) {
            cv__classic_lead(c, &ring_rules, c->term + 1, now_ns, out); /* everybody else is dead */
        }
        return;
    }
    CV_ASSERT(timer == CLASSIC_TIMER_ELECTION);
    CV_ASSERT(c->role == ELECTING);
    cv__classic_elect(c, &ring_rules, now_ns, out);
}

static void ring_on_peer_down(struct classic *c, const struct cv_event *event,
                              struct cv_effects *out)
{
    struct ring *r = (struct ring *)c;
    cv__hop_on_peer_down(&r->hop, c, r->sets, event, out);
}

static const struct classic_rules ring_rules = {
    .role_next = role_next,
    .role_count = ROLE_COUNT,
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
    .promises = CLASSIC_PROMISES,
    .assumes = CLASSIC_ASSUMES,
    .options = cv__classic_options,
    .messages = ring_messages,
    .message_count = MESSAGE_COUNT,
    .configure = ring_configure,
    .size = ring_size,
    .init = ring_init,
    .step = ring_step,
    .check = ring_check,
    .settle_ns = ring_settle_ns,
    .timely_ns = cv__classic_timely_ns,
};
