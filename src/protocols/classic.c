/* src/protocols/classic.c - the common part of the five classical protocols; see classic.h. */
#include "protocols/classic.h"

#include "core/options.h"

const struct cv_option cv__classic_options[] = {
    [CLASSIC_OPTION_HEARTBEAT] = {"heartbeat", CV_OPTION_TIME, 50 * NS_PER_MS, NS_PER_US,
                                  3600 * NS_PER_S, NULL,
                                  "the coordinator's heartbeats come this often"},
    [CLASSIC_OPTION_TIMEOUT] =
        {"timeout", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 36000 * NS_PER_S, NULL,
         "suspect the coordinator after so much silence (default: the larger of 3 heartbeat, "
         "2 heartbeat + delta)"},
    [CLASSIC_OPTION_DELTA] = {"delta", CV_OPTION_TIME, 10 * NS_PER_MS, NS_PER_US, 60 * NS_PER_S,
                              NULL, "assumed bound on the delay of a message"},
    [CLASSIC_OPTION_ANSWER] = {"answer", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US,
                               3600 * NS_PER_S, NULL,
                               "T: wait for an answer or acknowledgement (default 3 delta)"},
    [CLASSIC_OPTION_COORDINATOR] = {"coordinator", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US,
                                    36000 * NS_PER_S, NULL,
                                    "T': wait for the new coordinator (default: as the protocol "
                                    "needs)"},
    [CLASSIC_OPTION_DETECTOR] = {"detector", CV_OPTION_CHOICE, 0, 0, 1, "fixed|phi",
                                 "how silence becomes suspicion"},
    [CLASSIC_OPTION_PHI] = {"phi", CV_OPTION_COUNT, 8, 1, DETECTOR_PHI_MAX, NULL,
                            "threshold of the phi detector"},
    {0},
};

/* The longest time between two heartbeats of a living coordinator, on the receiver's clock. */
static int64_t gap_ns_max(const struct cv_config *config)
{
    const int64_t gap =
        config->option[CLASSIC_OPTION_HEARTBEAT] + config->option[CLASSIC_OPTION_DELTA];
    CV_ASSERT(gap > 0); /* the option table has minima */
    return gap + (int64_t)((__int128)gap * 2 * config->drift_ppb / NS_PER_S) + 1;
}

int cv__classic_configure(struct cv_config *config, int64_t coordinator_ns,
                          struct cv_errtext *reterr)
{
    CV_ASSERT(coordinator_ns > 0);
    const int64_t *option = config->option;
    cv__config_derive(
        config, CLASSIC_OPTION_TIMEOUT,
        cv__max64(3 * option[CLASSIC_OPTION_HEARTBEAT],
                  2 * option[CLASSIC_OPTION_HEARTBEAT] + option[CLASSIC_OPTION_DELTA]));
    cv__config_derive(config, CLASSIC_OPTION_ANSWER, cv__classic_answer_ns(config));
    cv__config_derive(config, CLASSIC_OPTION_COORDINATOR, coordinator_ns);

    const int64_t heartbeat = option[CLASSIC_OPTION_HEARTBEAT];
    const int64_t timeout = option[CLASSIC_OPTION_TIMEOUT];
    const int64_t delta = option[CLASSIC_OPTION_DELTA];
    const int64_t answer = option[CLASSIC_OPTION_ANSWER];
    const int64_t coordinator = option[CLASSIC_OPTION_COORDINATOR];
    if (timeout < 2 * heartbeat) {
        return cv__config_broken(reterr, "timeout >= 2 heartbeat", timeout, 2 * heartbeat);
    }
    if (timeout <= gap_ns_max(config)) {
        return cv__config_broken(reterr, "timeout > (heartbeat + delta)(1 + 2 rho)", timeout,
                                 gap_ns_max(config));
    }
    if (answer <= 2 * delta) {
        return cv__config_broken(reterr, "answer > 2 delta", answer, 2 * delta);
    }
    if (coordinator <= answer) {
        return cv__config_broken(reterr, "coordinator > answer", coordinator, answer);
    }
    return CV_OK;
}

int64_t cv__classic_answer_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[CLASSIC_OPTION_DELTA] > 0);
    const int64_t given = config->option[CLASSIC_OPTION_ANSWER];
    return given != CV_OPTION_DERIVED ? given : 3 * config->option[CLASSIC_OPTION_DELTA];
}

int64_t cv__classic_detection_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[CLASSIC_OPTION_TIMEOUT] != CV_OPTION_DERIVED);
    /* phi may wait up to twice as long; a process that resigned is not a candidate for two
     * time-outs. */
    return 4 * config->option[CLASSIC_OPTION_TIMEOUT] + config->option[CLASSIC_OPTION_DELTA];
}

uint64_t cv__classic_floor(const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    return word_count > 0 ? word[0] : 0;
}

uint32_t cv__classic_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                             uint64_t ret_word[CV_PERSIST_WORDS_MAX])
{
    ret_word[0] = word_count > 0 && word[0] > floor ? word[0] : floor;
    CV_ASSERT(ret_word[0] >= floor);
    CV_ASSERT(word_count == 0 || ret_word[0] >= word[0]); /* a term that was saved never falls */
    return 1;
}

int64_t cv__classic_timely_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[CLASSIC_OPTION_DELTA] > 0);
    return config->option[CLASSIC_OPTION_DELTA];
}

void cv__classic_init(struct classic *c, const struct cv_config *config)
{
    CV_ASSERT(config->option[CLASSIC_OPTION_COORDINATOR] != CV_OPTION_DERIVED);
    CV_ASSERT(config->option[CLASSIC_OPTION_ANSWER] < config->option[CLASSIC_OPTION_COORDINATOR]);
    c->self = config->self;
    c->member_count = config->member_count;
    c->heartbeat_ns = config->option[CLASSIC_OPTION_HEARTBEAT];
    c->timeout_ns = config->option[CLASSIC_OPTION_TIMEOUT];
    c->delta_ns = config->option[CLASSIC_OPTION_DELTA];
    c->answer_ns = config->option[CLASSIC_OPTION_ANSWER];
    c->coordinator_ns = config->option[CLASSIC_OPTION_COORDINATOR];
    c->role = CLASSIC_FOLLOWING;
    c->is_candidate = true;
    cv__detector_init(&c->detector, (enum cv_detector_kind)config->option[CLASSIC_OPTION_DETECTOR],
                      (uint32_t)config->option[CLASSIC_OPTION_PHI], gap_ns_max(config),
                      c->timeout_ns);
}

void cv__classic_identity(const void *state, cv_id *ret_self, uint32_t *ret_member_count)
{
    const struct classic *c = state; /* each of the five states begins with it */
    *ret_self = c->self;
    *ret_member_count = c->member_count;
}

void cv__classic_check(const struct classic *c)
{
    CV_ASSERT(c->claim_term <= c->term);
    CV_ASSERT(c->leader == CV_ID_NONE || c->leader == c->claim_leader);
    CV_ASSERT(c->leader <= c->member_count);
    CV_ASSERT((c->role == CLASSIC_LEADING) == (c->leader == c->self));
    CV_ASSERT(c->leader != c->self || cv__classic_stands(c));
    CV_ASSERT(c->role != CLASSIC_STOPPED || c->leader == CV_ID_NONE);
    /* A process in a protocol's own role is electing, so it must be a candidate. */
    CV_ASSERT(c->role < CLASSIC_ROLE_COUNT || cv__classic_stands(c));
    CV_ASSERT(c->claim_leader <= c->member_count);
    CV_ASSERT(c->heir <= c->member_count);
}

bool cv__classic_stands(const struct classic *c)
{
    return c->is_candidate && !c->has_resigned && c->role != CLASSIC_STOPPED;
}

void cv__classic_note_passive(const struct classic *c, const char *if_resigned,
                              const char *if_no_candidate, cv_id peer, struct cv_effects *out)
{
    CV_ASSERT(!cv__classic_stands(c));
    CV_ASSERT(c->role != CLASSIC_STOPPED); /* a stopped process gets no events */
    cv__effect_note(out, c->is_candidate ? if_resigned : if_no_candidate, peer, 0, 0);
}

void cv__classic_become(struct classic *c, const struct classic_rules *rules, uint32_t role,
                        struct cv_effects *out)
{
    CV_ASSERT(role < rules->role_count);
    CV_ASSERT(c->role == role || role == CLASSIC_STOPPED ||
              (rules->role_next[c->role] & BIT(role)) != 0);
    CV_ASSERT(c->role != CLASSIC_STOPPED); /* this role is final */
    c->role = role;
    cv__effect_disarm(out, CLASSIC_TIMER_ELECTION);
}

void cv__classic_await(struct classic *c, const struct classic_rules *rules, uint32_t role,
                       int64_t now_ns, int64_t wait_ns, struct cv_effects *out)
{
    CV_ASSERT(cv__classic_stands(c));
    CV_ASSERT(wait_ns > 0);
    cv__classic_become(c, rules, role, out);
    cv__effect_arm(out, CLASSIC_TIMER_ELECTION, now_ns + wait_ns, now_ns + wait_ns);
}

static void learn(struct classic *c, uint64_t term)
{
    CV_ASSERT(term <= CLASSIC_TERM_MAX); /* checked where messages come in */
    c->term = cv__max_u64(c->term, term);
    CV_ASSERT(c->term >= c->claim_term);
}

uint64_t cv__classic_next_term(const struct classic *c)
{
    CV_ASSERT(c->term <= CLASSIC_TERM_MAX);
    return c->term < CLASSIC_TERM_MAX ? c->term + 1 : CLASSIC_TERM_MAX;
}

static void tell(const struct classic *c, enum cv_reason reason, struct cv_effects *out)
{
    CV_ASSERT(c->leader == CV_ID_NONE || c->leader == c->claim_leader);
    CV_ASSERT(c->leader != c->self || c->role == CLASSIC_LEADING);
    const struct cv_leadership leadership = {
        .is_self = c->leader == c->self,
        .leader = c->leader,
        .reason = reason,
        .token = c->leader != CV_ID_NONE ? c->claim_term : 0,
    };
    cv__effect_leadership(out, &leadership);
}

/* A range, so that the processes do not all suspect at the same instant. */
static void arm_suspicion(const struct classic *c, struct cv_effects *out)
{
    CV_ASSERT(c->leader != c->self); /* a process does not suspect itself */
    const int64_t deadline = cv__detector_deadline(&c->detector);
    CV_ASSERT(deadline > 0);
    cv__effect_arm(out, CLASSIC_TIMER_SUSPECT, deadline, deadline + c->delta_ns);
}

/* Forgets the leader; none is known now. */
static void forget(struct classic *c, enum cv_reason reason, struct cv_effects *out)
{
    if (c->leader == CV_ID_NONE) {
        return;
    }
    cv__effect_disarm(out, c->leader == c->self ? CLASSIC_TIMER_HEARTBEAT : CLASSIC_TIMER_SUSPECT);
    c->leader = CV_ID_NONE;
    tell(c, reason, out);
}

/* The claim becomes the largest accepted one. Its term is saved before any process hears of it. */
static void accept_claim(struct classic *c, uint64_t term, cv_id leader, struct cv_effects *out)
{
    CV_ASSERT(cv__classic_age(c, term, leader) !=
              CLASSIC_STALE); /* never back to a smaller claim */
    const bool is_new_term = term > c->claim_term;
    c->claim_term = term;
    c->claim_leader = leader;
    c->leader = leader;
    c->heir = CV_ID_NONE;
    learn(c, term);
    if (is_new_term) {
        cv__effect_persist(out, &c->term, 1);
    }
    CV_ASSERT(c->claim_term <= c->term); /* the saved term covers the claim */
}

static void follow(struct classic *c, const struct classic_rules *rules, uint64_t term,
                   cv_id leader, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(leader != c->self);
    CV_ASSERT(cv__classic_age(c, term, leader) != CLASSIC_STALE);
    const bool is_change = c->leader != leader || c->claim_term != term;
    const bool was_leading = c->leader == c->self;
    cv__classic_become(c, rules, CLASSIC_FOLLOWING, out);
    if (is_change) {
        accept_claim(c, term, leader, out);
        cv__detector_reset(&c->detector, now_ns);
        tell(c, was_leading ? CV_REASON_SUPERSEDED : CV_REASON_ELECTED, out);
        arm_suspicion(c, out);
    }
    if (was_leading) {
        cv__effect_disarm(out, CLASSIC_TIMER_HEARTBEAT);
    }
    CV_ASSERT(c->leader == leader);
    CV_ASSERT(c->claim_term == term);
    CV_ASSERT(c->claim_leader == leader);
}

void cv__classic_lead(struct classic *c, const struct classic_rules *rules, uint64_t term,
                      int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(cv__classic_stands(c));
    if (term == CLASSIC_TERM_MAX) { /* terms end here: see CLASSIC_TERM_MAX */
        forget(c, CV_REASON_SUPERSEDED, out);
    }
    CV_ASSERT(cv__classic_age(c, term, c->self) == CLASSIC_NEWER);
    cv__classic_become(c, rules, CLASSIC_LEADING, out);
    accept_claim(c, term, c->self, out);
    tell(c, CV_REASON_ELECTED, out);
    cv__effect_disarm(out, CLASSIC_TIMER_SUSPECT);
    cv__effect_arm(out, CLASSIC_TIMER_HEARTBEAT, now_ns + c->heartbeat_ns,
                   now_ns + c->heartbeat_ns);
    CV_ASSERT(c->leader == c->self);
    CV_ASSERT(c->claim_leader == c->self);
}

static void elect(struct classic *c, const struct classic_rules *rules, cv_id dead, int64_t now_ns,
                  struct cv_effects *out)
{
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(dead != c->self);
    if (cv__classic_stands(c)) {
        rules->elect(c, dead, now_ns, out);
    } else {
        cv__classic_note_passive(c, "no election here: resigned, and waits for a successor",
                                 "no election here: not a candidate", dead, out);
        cv__classic_become(c, rules, CLASSIC_FOLLOWING, out);
    }
}

void cv__classic_elect(struct classic *c, const struct classic_rules *rules, int64_t now_ns,
                       struct cv_effects *out)
{
    forget(c, CV_REASON_SUPERSEDED, out);
    /* the application learns of the loss before any process is asked */
    CV_ASSERT(c->leader == CV_ID_NONE);
    elect(c, rules, CV_ID_NONE, now_ns, out);
}

static void on_suspicion(struct classic *c, const struct classic_rules *rules,
                         enum cv_reason reason, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->leader != c->self);
    CV_ASSERT(c->role != CLASSIC_LEADING);
    const cv_id dead = c->leader;
    c->has_resigned = false; /* the successor is gone too: be a candidate again */
    forget(c, reason, out);
    if (rules->on_orphaned != NULL) {
        rules->on_orphaned(c, dead, now_ns, out);
    } else {
        elect(c, rules, dead, now_ns, out);
    }
}

void cv__classic_claim(struct classic *c, const struct classic_rules *rules, uint64_t term,
                       cv_id leader, cv_id from, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(leader != c->self);
    CV_ASSERT(from != c->self);
    CV_ASSERT(term <= CLASSIC_TERM_MAX); /* checked where messages come in */
    const bool is_stale = cv__classic_age(c, term, leader) == CLASSIC_STALE;
    if (is_stale && leader == c->leader) { /* late; a refusal would depose a healthy leader */
        cv__effect_note(out,
                        "claim of {peer} ignored: it is late, {peer} is followed in term {number}",
                        leader, 0, c->claim_term);
        return;
    }
    if (is_stale) {
        cv__effect_note(out, "claim of {peer} refused: a larger one in term {number} was accepted",
                        leader, 0, c->claim_term);
        classic_term_write(cv__effect_send(out, from, CLASSIC_REFUSE),
                           (struct classic_term){c->term});
        return;
    }
    learn(c, term);
    if (rules->contests && leader < c->self && cv__classic_stands(c)) {
        cv__effect_note(out, "claim of {peer} contested: its id is lower than ours", leader, 0,
                        term);
        const bool is_electing = c->role != CLASSIC_FOLLOWING && c->role != CLASSIC_LEADING;
        if (!is_electing) {
            cv__classic_elect(c, rules, now_ns, out);
        }
        return;
    }
    follow(c, rules, term, leader, now_ns, out);
}

static void on_heartbeat(struct classic *c, const struct classic_rules *rules,
                         const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    const struct classic_heartbeat heartbeat = classic_heartbeat_read(event->message);
    cv__classic_claim(c, rules, heartbeat.term, event->peer, event->peer, event->now_ns, out);
    if (c->leader == event->peer && c->claim_term == heartbeat.term) {
        CV_ASSERT(c->role == CLASSIC_FOLLOWING);
        c->heir = heartbeat.heir;
        cv__detector_heard(&c->detector, event->now_ns);
        arm_suspicion(c, out);
    }
}

/* Another process accepted a larger claim than ours. The same term is enough: then the other claim
 * has a higher id. */
static void on_refuse(struct classic *c, const struct classic_rules *rules,
                      const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t term = classic_term_read(event->message).term;
    CV_ASSERT(term <= CLASSIC_TERM_MAX);
    learn(c, term);
    if (c->role == CLASSIC_LEADING && term >= c->claim_term) {
        cv__classic_elect(c, rules, event->now_ns, out);
    } else if (c->role != CLASSIC_LEADING) {
        cv__effect_note(out, "REFUSE of {peer} ignored: not leading", event->peer, 0, term);
    } else {
        cv__effect_note(out, "REFUSE of {peer} ignored: it is about a term before ours, {number}",
                        event->peer, 0, c->claim_term);
    }
}

static void on_leader_resigned(struct classic *c, const struct classic_rules *rules,
                               const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != c->self);
    if (event->peer == c->leader && classic_term_read(event->message).term == c->claim_term) {
        on_suspicion(c, rules, CV_REASON_RESIGNED, event->now_ns, out);
    } else {
        cv__effect_note(out, "RESIGN of {peer} ignored: it is not followed here in that term",
                        event->peer, 0, 0);
    }
}

static void on_message(struct classic *c, const struct classic_rules *rules,
                       const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != CV_ID_NONE);
    const uint64_t term = classic_term_read(event->message).term;
    if (term > CLASSIC_TERM_MAX) { /* no honest process gets that far */
        cv__effect_note(out, "message of {peer} ignored: term {number} is impossibly large",
                        event->peer, 0, term);
        return;
    }
    switch (event->message->type) {
    case CLASSIC_HEARTBEAT:
        on_heartbeat(c, rules, event, out);
        break;
    case CLASSIC_REFUSE:
        on_refuse(c, rules, event, out);
        break;
    case CLASSIC_RESIGN:
        on_leader_resigned(c, rules, event, out);
        break;
    default:
        learn(c, term);
        rules->on_message(c, event, out);
        break;
    }
}

static void beat(struct classic *c, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(c->role == CLASSIC_LEADING);
    CV_ASSERT(c->claim_leader == c->self); /* it has accepted no other claim since */
    classic_heartbeat_write(cv__effect_send_all(out, CLASSIC_HEARTBEAT),
                            (struct classic_heartbeat){.term = c->claim_term, .heir = c->heir});
    cv__effect_arm(out, CLASSIC_TIMER_HEARTBEAT, now_ns + c->heartbeat_ns,
                   now_ns + c->heartbeat_ns);
}

static void on_timer(struct classic *c, const struct classic_rules *rules,
                     const struct cv_event *event, struct cv_effects *out)
{
    switch (event->timer) {
    case CLASSIC_TIMER_HEARTBEAT:
        beat(c, event->now_ns, out);
        break;
    case CLASSIC_TIMER_SUSPECT:
        on_suspicion(c, rules, CV_REASON_SUSPECTED, event->now_ns, out);
        break;
    default:
        rules->on_timer(c, event->timer, event->now_ns, out);
        break;
    }
}

static void on_start(struct classic *c, const struct classic_rules *rules,
                     const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(c->role == CLASSIC_FOLLOWING);
    CV_ASSERT(c->term == 0); /* START is the first event of a life */
    if (event->persisted_count > 0) {
        const uint64_t saved = event->persisted[0];
        c->term = saved < CLASSIC_TERM_MAX ? saved : CLASSIC_TERM_MAX;
        c->claim_term = c->term; /* with no leader: any claim of this or a later term is accepted */
    }
    CV_ASSERT(c->claim_leader == CV_ID_NONE); /* a new life follows nobody yet */
    if (rules->listens_first) {
        cv__detector_reset(&c->detector, event->now_ns);
        arm_suspicion(c, out);
    } else {
        elect(c, rules, CV_ID_NONE, event->now_ns, out);
    }
}

static void on_resign(struct classic *c, const struct classic_rules *rules, int64_t now_ns,
                      struct cv_effects *out)
{
    if (c->role != CLASSIC_LEADING) {
        cv__effect_note(out, "nothing to resign from: not leading", c->leader, 0, 0);
        return;
    }
    CV_ASSERT(c->leader == c->self);
    classic_term_write(cv__effect_send_all(out, CLASSIC_RESIGN),
                       (struct classic_term){c->claim_term});
    c->has_resigned = true;
    cv__classic_become(c, rules, CLASSIC_FOLLOWING, out);
    forget(c, CV_REASON_RESIGNED, out);
    CV_ASSERT(c->leader == CV_ID_NONE);
    CV_ASSERT(!cv__classic_stands(c)); /* others go first */
    cv__effect_arm(out, CLASSIC_TIMER_SUSPECT, now_ns + 2 * c->timeout_ns,
                   now_ns + 2 * c->timeout_ns + c->delta_ns);
}

static void on_campaign(struct classic *c, const struct classic_rules *rules,
                        const struct cv_event *event, struct cv_effects *out)
{
    if (event->is_candidate) {
        c->is_candidate = true;
        c->has_resigned = false;
        const bool is_wanted = c->leader == CV_ID_NONE || (rules->contests && c->leader < c->self);
        if (c->role == CLASSIC_FOLLOWING && is_wanted) {
            cv__classic_elect(c, rules, event->now_ns, out);
        }
        return;
    }
    if (c->role == CLASSIC_LEADING) {
        on_resign(c, rules, event->now_ns, out);
    }
    c->is_candidate = false;
    cv__classic_become(c, rules, CLASSIC_FOLLOWING, out);
    CV_ASSERT(c->leader != c->self);
}

/* A node that may forget its promises takes no further part, not even as a follower. */
static void stop(struct classic *c, const struct classic_rules *rules, struct cv_effects *out)
{
    cv__classic_become(c, rules, CLASSIC_STOPPED, out);
    c->leader = CV_ID_NONE;
    tell(c, CV_REASON_STOPPED, out);
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        cv__effect_disarm(out, timer);
    }
    CV_ASSERT(!cv__classic_stands(c));
}

/* A hint, even if it is certain: no promise of these protocols depends on it. */
static void on_peer_down(struct classic *c, const struct classic_rules *rules,
                         const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != CV_ID_NONE);
    CV_ASSERT(event->peer <= c->member_count);
    if (rules->on_peer_down != NULL) {
        rules->on_peer_down(c, event, out);
    }
    if (event->peer == c->leader && event->peer != c->self) {
        on_suspicion(c, rules, CV_REASON_SUSPECTED, event->now_ns, out);
    } else {
        cv__effect_note(out, "hint that {peer} is down: it is not followed here", event->peer, 0,
                        0);
    }
}

void cv__classic_step(struct classic *c, const struct classic_rules *rules,
                      const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t term_before = c->term;
    const uint64_t claim_term_before = c->claim_term;
    if (c->role == CLASSIC_STOPPED) {
        cv__effect_note(out, "ignored: this process cannot save its term and has stopped",
                        event->peer, 0, 0);
        return;
    }
    switch (event->kind) {
    case CV_EVENT_START:
        on_start(c, rules, event, out);
        break;
    case CV_EVENT_MESSAGE:
        on_message(c, rules, event, out);
        break;
    case CV_EVENT_TIMER:
        on_timer(c, rules, event, out);
        break;
    case CV_EVENT_PEER_DOWN:
        on_peer_down(c, rules, event, out);
        break;
    case CV_EVENT_RESIGN:
        on_resign(c, rules, event->now_ns, out);
        break;
    case CV_EVENT_CAMPAIGN:
        on_campaign(c, rules, event, out);
        break;
    case CV_EVENT_PERSIST_FAILED:
        stop(c, rules, out);
        break;
    case CV_EVENT_REPORT:
    case CV_EVENT_SEQUENCE:
    case CV_EVENT_STORE:
        break; /* these protocols use no scores, sequencer or store */
    }
    CV_ASSERT(c->term >= term_before);
    CV_ASSERT(c->claim_term >= claim_term_before); /* claims never get smaller */
}
