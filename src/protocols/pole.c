/* src/protocols/pole.c - leader election by application scores [Becker11]: the best score among a
 * quorum leads, with a lease.
 *
 * A process that knows no leader asks its oracle for its score and proposes itself; proposals are
 * passed on until all know the largest (pole_select.c). The chosen process claims, and leads once a
 * majority follows it (pole_claim.c); there are never two leaders, and tokens grow. The scores are
 * in src/oracles; pole_score.c measures their inputs. The current leader stays when a better
 * process joins, unless resignation is on.
 *
 * Read literally, the algorithm with a lease on top neither converges in stars and chains nor is
 * safe across pauses and restarts. The heads of the two files list our amendments. If a run shows
 * what breaks without one, it is a planted bug in tests/planted; each of the others (votes are not
 * proposals, the round is not restarted, no process waits for a suspect, nonces, yielding, an epoch
 * is claimed once) has a test of one core in tests/paper/test_pole_rules.c.
 *
 * Assumed: clocks drift by at most rho (safety depends only on this); a majority connected by
 * timely links, prompt processes (liveness). A promise survives the crash of its process; if it
 * cannot be saved, the process stops taking part. The host sends RESIGN, and CAMPAIGN off, to a
 * leader after the guarded work has stopped: the promises to it are released at once. */
#include "protocols/pole.h"

#include "protocols/pole_config.h"
#include "protocols/registry.h"

static const struct cv_message_type pole_messages[POLE_MESSAGE_COUNT] = {
    [POLE_PROPOSE] = CV_MESSAGE_TYPE_FREE("PROPOSE", POLE_PROPOSE_FIELDS),
    [POLE_VOTE] = CV_MESSAGE_TYPE_FREE("VOTE", POLE_VOTE_FIELDS),
    [POLE_HEARTBEAT] = CV_MESSAGE_TYPE("HEARTBEAT", POLE_HEARTBEAT_FIELDS),
    [POLE_FOLLOW] = CV_MESSAGE_TYPE("FOLLOW", POLE_FOLLOW_FIELDS),
    [POLE_REFUSE] = CV_MESSAGE_TYPE_FREE("REFUSE", POLE_EPOCH_FIELDS),
    [POLE_RELEASE] = CV_MESSAGE_TYPE("RELEASE", POLE_RELEASE_FIELDS),
    [POLE_PROBE] = CV_MESSAGE_TYPE_FREE("PROBE", POLE_PROBE_FIELDS),
    [POLE_ECHO] = CV_MESSAGE_TYPE_FREE("ECHO", POLE_ECHO_FIELDS),
};

/* The roles that each role may change to; each may also stay as it is. */
static const uint32_t role_next[POLE_ROLE_COUNT] = {
    [POLE_SELECTING] =
        BIT(POLE_AWAITING) | BIT(POLE_FOLLOWING) | BIT(POLE_BOUND) | BIT(POLE_STOPPED),
    [POLE_AWAITING] = BIT(POLE_FOLLOWING) | BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_FOLLOWING] = BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_BOUND] = BIT(POLE_CLAIMING) | BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_CLAIMING] = BIT(POLE_LEADING) | BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_LEADING] = BIT(POLE_LEAVING) | BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_LEAVING] = BIT(POLE_SELECTING) | BIT(POLE_STOPPED),
    [POLE_STOPPED] = 0,
};

void cv__pole_become(struct pole *p, uint32_t role, cv_id leader)
{
    CV_ASSERT(role < POLE_ROLE_COUNT);
    CV_ASSERT(p->role == role || (role_next[p->role] & BIT(role)) != 0);
    CV_ASSERT(leader <= p->member_count);
    p->role = role;
    p->leader = leader;
    CV_ASSERT(pole_is_claimant(p) == (leader == p->self));
    CV_ASSERT((role == POLE_SELECTING || role == POLE_STOPPED) == (leader == CV_ID_NONE));
}

static size_t pole_size(const struct cv_config *config)
{
    const uint32_t n = config->member_count;
    return sizeof(struct pole) + POLE_SET_COUNT * cv__set_words(n) * sizeof(uint64_t) +
           n * (sizeof(struct cv_oracle_peer) + sizeof(struct pole_peer));
}

static void pole_init(void *state, const struct cv_config *config)
{
    struct pole *p = state;
    const int64_t *o = config->option;
    p->self = config->self;
    p->member_count = config->member_count;
    p->quorum = config->member_count / 2 + 1;
    p->delta_ns = o[POLE_OPTION_DELTA];
    p->sigma_ns = o[POLE_OPTION_SIGMA];
    p->eta_ns = o[POLE_OPTION_HEARTBEAT];
    p->epsilon_ns = o[POLE_OPTION_TIMEOUT];
    p->lease_ns = o[POLE_OPTION_LEASE];
    p->lead_ns = cv__pole_lead_ns(config);
    p->round_ns = o[POLE_OPTION_ROUND];
    p->retry_ns_max = o[POLE_OPTION_RETRY_MAX];
    p->wait_ns = cv__pole_wait_ns(config);
    p->probe_ns = o[POLE_OPTION_PROBE];
    p->first_ns = o[POLE_OPTION_FIRST];
    p->resign_margin = o[POLE_OPTION_RESIGN_MARGIN];
    p->resign_hold_ns = o[POLE_OPTION_RESIGN_HOLD];
    p->reserve_count = (uint64_t)o[POLE_OPTION_EPOCHS];
    p->history_unit_bytes = o[POLE_OPTION_HISTORY_UNIT];
    p->window_bytes = o[POLE_OPTION_WINDOW];
    p->bandwidth_bytes = o[POLE_OPTION_BANDWIDTH];
    int error = cv__scoring_parse(config->text[POLE_TEXT_ORACLE], config, &p->scoring, NULL);
    CV_ASSERT(error == CV_OK); /* cv__pole_configure() has read them */
    error = cv__pole_preference(config, &p->preference, NULL);
    CV_ASSERT(error == CV_OK);
    p->needs_peers = cv__scoring_needs_peers(&p->scoring);
    p->has_probes = p->needs_peers || p->resign_margin > 0;
    p->is_candidate = true;
    cv__pole_tune_init(p, config);
}

static void pole_identity(const void *state, cv_id *ret_self, uint32_t *ret_member_count)
{
    const struct pole *p = state;
    *ret_self = p->self;
    *ret_member_count = p->member_count;
}

static void check_leading(const struct pole *p)
{
    CV_ASSERT(p->view == p->self);
    CV_ASSERT(p->token == p->view_token);
    CV_ASSERT(p->token <= p->leader_epoch);
    CV_ASSERT(p->valid_until_ns > 0);
}

/* A process that counts itself in its majority has saved its own pair, and is bound to itself. */
static void check_follows_self(const struct pole *p)
{
    CV_ASSERT(p->followed == p->self);
    CV_ASSERT(p->followed_epoch == p->leader_epoch);
    CV_ASSERT(p->promise.to == p->self);
    CV_ASSERT(p->promise.until_ns == INT64_MAX);
}

static void pole_check(const void *state)
{
    const struct pole *p = state;
    CV_ASSERT(p->role < POLE_ROLE_COUNT);
    CV_ASSERT(pole_is_claimant(p) == (p->leader == p->self));
    CV_ASSERT((p->view == p->self) == pole_is_leading(p));
    if (p->role == POLE_STOPPED) {
        CV_ASSERT(p->view == CV_ID_NONE);
        return;
    }
    if (pole_is_claimant(p)) {
        CV_ASSERT(p->leader_epoch == p->claimed_epoch); /* an epoch is saved before it is claimed */
        CV_ASSERT(!p->stands_back);
    }
    if (pole_is_claimant(p) && p->role != POLE_BOUND) {
        check_follows_self(p);
    } else {
        CV_ASSERT(p->promise.until_ns != INT64_MAX); /* only a claimant is bound to itself */
    }
    if (pole_is_leading(p)) {
        check_leading(p);
    }
    CV_ASSERT((p->role == POLE_SELECTING) == (p->leader == CV_ID_NONE));
    CV_ASSERT(p->epoch >= p->followed_epoch);
    CV_ASSERT(p->leader <= p->member_count);
    CV_ASSERT(p->followed <= p->member_count);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The first election begins when the first scores are known, or after `first-wait` without them. */
static void become_ready(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->role != POLE_STOPPED);
    if (!p->is_ready) {
        p->is_ready = true;
        if (!p->stands_back) { /* otherwise the timer will end the standing back */
            pole_disarm(p, POLE_TIMER_BACK, out);
        }
        if (p->role == POLE_SELECTING) {
            cv__pole_new_election(p, now_ns, out);
        }
    }
}

/* The record may be from a larger group, or edited: values out of range are brought into range, on
 * the safe side: rather too much is promised. */
static void record_take(struct pole *p, const uint64_t word[4], int64_t now_ns)
{
    p->followed_epoch = word[0] < POLE_EPOCH_MAX ? word[0] : POLE_EPOCH_MAX;
    p->followed = word[1] <= p->member_count ? (cv_id)word[1] : CV_ID_NONE;
    p->followed_lease_ns = word[2] < POLE_LEASE_NS_MAX ? (int64_t)word[2] : POLE_LEASE_NS_MAX;
    p->claimed_epoch = word[3] < POLE_EPOCH_MAX ? word[3] : POLE_EPOCH_MAX;
    p->epoch = cv__max_u64(p->claimed_epoch, p->followed_epoch);
    p->reserved_epoch = p->epoch; /* no epoch up to it may be used any more */
    p->reserved_lease_ns = p->followed_lease_ns;
    p->quarantine_ns = now_ns + cv__max64(p->followed_lease_ns, p->tuning.lease_ns_max);
    if (word[1] != CV_ID_NONE) {
        p->promise = (struct pole_promise){CV_ID_NONE, now_ns + p->followed_lease_ns};
    }
}

static void on_start(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    CV_ASSERT(p->role == POLE_SELECTING);
    CV_ASSERT(p->epoch == 0); /* START is the first event of a life */
    p->nonce = event->nonce;
    if (event->persisted_count == 4) {
        record_take(p, event->persisted, now_ns);
    }
    if (p->has_probes) {
        cv__pole_on_probe_time(p, now_ns, out);
    }
    if (cv__pole_has_data(p, now_ns)) {
        become_ready(p, now_ns, out);
    } else {
        pole_arm(p, POLE_TIMER_BACK, now_ns + p->first_ns, now_ns + p->first_ns, out);
    }
}

static void on_message(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const uint32_t type = event->message->type;
    const bool has_epoch = type != POLE_PROBE && type != POLE_ECHO;
    CV_ASSERT(event->peer != CV_ID_NONE);
    CV_ASSERT(event->peer <= p->member_count);
    if (has_epoch && pole_epoch_read(event->message).epoch >= POLE_EPOCH_MAX) {
        cv__effect_note(out, "message of {peer} ignored: epoch {number} is impossibly large",
                        event->peer, 0, pole_epoch_read(event->message).epoch);
        return;
    }
    cv__pole_tune_heard(p, event->delay_ns_max);
    switch (type) {
    case POLE_PROPOSE:
        cv__pole_on_propose(p, event, out);
        break;
    case POLE_VOTE:
        cv__pole_on_vote(p, event, out);
        break;
    case POLE_HEARTBEAT:
        cv__pole_on_heartbeat(p, event, out);
        break;
    case POLE_FOLLOW:
        cv__pole_on_follow(p, event, out);
        break;
    case POLE_REFUSE:
        cv__pole_on_refuse(p, event, out);
        break;
    case POLE_RELEASE:
        cv__pole_on_release(p, event, out);
        break;
    case POLE_PROBE:
        cv__pole_on_probe(p, event, out);
        break;
    case POLE_ECHO:
        cv__pole_on_echo(p, event, out);
        if (cv__pole_has_data(p, event->now_ns)) {
            become_ready(p, event->now_ns, out);
        }
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

/* BACK ends the waiting for the first scores, or the standing back; both, if an heir without scores
 * claimed in vain. */
static void on_back_timer(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    const bool stood_back = p->stands_back;
    CV_ASSERT(!pole_is_claimant(p) || !stood_back);
    become_ready(p, now_ns, out);
    if (stood_back) {
        cv__pole_on_back(p, now_ns, out);
    }
    CV_ASSERT(!p->stands_back);
}

static void on_timer(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    switch (event->timer) {
    case POLE_TIMER_RETRY:
        cv__pole_on_retry(p, now_ns, out);
        break;
    case POLE_TIMER_ELECT:
        cv__pole_on_elect(p, now_ns, out);
        break;
    case POLE_TIMER_SILENCE:
        cv__pole_on_silence(p, now_ns, out);
        break;
    case POLE_TIMER_BEAT:
        cv__pole_on_beat(p, now_ns, out);
        break;
    case POLE_TIMER_CLAIM:
        cv__pole_on_claim_end(p, now_ns, out);
        break;
    case POLE_TIMER_PROMISE:
        cv__pole_on_promise_end(p, now_ns, out);
        break;
    case POLE_TIMER_PROBE:
        cv__pole_on_probe_time(p, now_ns, out);
        break;
    case POLE_TIMER_BACK:
        on_back_timer(p, now_ns, out);
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

/* An operator's request; the head of this file says what the host must have done before. */
static void on_resign(struct pole *p, cv_id heir, int64_t now_ns, struct cv_effects *out)
{
    if (!pole_is_claimant(p)) {
        cv__effect_note(out, "nothing to resign from: not leading", p->leader, 0, 0);
        return;
    }
    p->stands_back = true; /* another process shall lead now */
    pole_arm(p, POLE_TIMER_BACK, now_ns + 2 * p->lease_ns, now_ns + 4 * p->lease_ns, out);
    cv__pole_abdicate(p, CV_REASON_RESIGNED, heir, now_ns, out);
    CV_ASSERT(!pole_is_claimant(p));
}

static void on_campaign(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    p->is_candidate = event->is_candidate;
    if (!event->is_candidate && pole_is_claimant(p)) {
        cv__pole_abdicate(p, CV_REASON_RESIGNED, CV_ID_NONE, event->now_ns, out);
    } else if (event->is_candidate && !p->stands_back) {
        cv__pole_on_back(p, event->now_ns, out);
    }
}

static void stop(struct pole *p, struct cv_effects *out)
{
    cv__pole_become(p, POLE_STOPPED, CV_ID_NONE);
    p->promise = (struct pole_promise){0}; /* it must not rely on a promise that it may forget */
    cv__pole_forget(p, CV_REASON_STOPPED, out);
    for (uint32_t timer = 0; timer < POLE_TIMER_COUNT; timer++) {
        pole_disarm(p, timer, out);
    }
}

/* Even a certain hint does not end the promise to the peer: it may have started again. */
static void on_peer_down(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    if (p->leader != event->peer) {
        cv__effect_note(out, "hint that {peer} is down ignored: it is not followed here",
                        event->peer, 0, 0);
        return;
    }
    if (event->peer == p->self) {
        cv__effect_note(out, "hint ignored: this process is not down", event->peer, 0, 0);
        return;
    }
    CV_ASSERT(p->role == POLE_AWAITING || p->role == POLE_FOLLOWING);
    p->suspect = event->peer;
    cv__pole_new_election(p, event->now_ns, out);
}

static void dispatch(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    switch (event->kind) {
    case CV_EVENT_START:
        on_start(p, event, out);
        break;
    case CV_EVENT_MESSAGE:
        on_message(p, event, out);
        break;
    case CV_EVENT_TIMER:
        on_timer(p, event, out);
        break;
    case CV_EVENT_PEER_DOWN:
        on_peer_down(p, event, out);
        break;
    case CV_EVENT_REPORT:
        cv__pole_on_report(p, event);
        break;
    case CV_EVENT_RESIGN:
        on_resign(p, event->peer, event->now_ns, out);
        break;
    case CV_EVENT_CAMPAIGN:
        on_campaign(p, event, out);
        break;
    case CV_EVENT_PERSIST_FAILED:
        stop(p, out);
        break;
    case CV_EVENT_SEQUENCE:
    case CV_EVENT_STORE:
        break; /* this protocol uses no sequencer or store */
    }
}

static void pole_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct pole *p = state;
    const uint64_t epoch_before = p->epoch;
    const uint64_t followed_before = p->followed_epoch;
    if (p->role == POLE_STOPPED) {
        cv__effect_note(out, "ignored: this process cannot save its promises and has stopped",
                        event->peer, 0, 0);
        return;
    }
    if (event->kind == CV_EVENT_TIMER) {
        p->armed &= ~BIT(event->timer);
        cv__pole_tune_fired(p, event->timer, event->now_ns);
    }
    /* First of all: a leadership whose time is over ends now. After a pause, FOLLOWs that waited in
     * the queue must not revive it. */
    if (pole_is_leading(p) && event->now_ns >= p->valid_until_ns) {
        const bool is_leaving = p->role == POLE_LEAVING;
        if (!is_leaving) {
            cv__pole_tune_failed(p);
        }
        cv__pole_abdicate(p, is_leaving ? CV_REASON_RESIGNED : CV_REASON_LOST_QUORUM,
                          is_leaving ? p->heir : CV_ID_NONE, event->now_ns, out);
    }
    dispatch(p, event, out);
    CV_ASSERT(p->epoch >= epoch_before);
    CV_ASSERT(p->followed_epoch >= followed_before); /* never back to a smaller promise */
    CV_ASSERT(!pole_is_leading(p) || event->now_ns < p->valid_until_ns);
}

const struct cv_protocol cv__proto_pole = {
    .name = "pole",
    .summary = "the best score of an oracle among a quorum; leases, never two leaders",
    .leads = "best score among a quorum",
    .cites = "[Becker11]",
    .contract = cv__pole_contract,
    .options = cv__pole_options,
    .messages = pole_messages,
    .message_count = POLE_MESSAGE_COUNT,
    .configure = cv__pole_configure,
    .size = pole_size,
    .init = pole_init,
    .step = pole_step,
    .check = pole_check,
    .identity = pole_identity,
    .settle_ns = cv__pole_settle_ns,
    .timely_ns = cv__pole_timely_ns,
    .graph_ns = cv__pole_graph_ns,
    .floor = cv__pole_floor,
    .restore = cv__pole_restore,
    .lease_ns = cv__pole_lease_ns,
    .lease_ns_min = cv__pole_lease_ns_min,
    .farewell = cv__pole_farewell,
};
