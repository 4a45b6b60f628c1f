/* src/protocols/pole.c - leader election by application scores [Becker11]: the best score among a
 * quorum leads, with a lease.
 *
 * A process that knows no leader asks its oracle for its score and proposes itself; proposals are
 * passed on until all know the largest (pole_select.c). Who is chosen claims, and leads once a
 * majority follows it (pole_claim.c); there are never two, and tokens grow. The scores are in
 * src/oracles, what they are made of is measured in pole_score.c. A sitting leader stays when a
 * better one joins, unless resignation is on.
 *
 * Read literally, the algorithm with a lease on top neither converges in stars and chains nor is
 * safe across pauses and restarts. Our amendments are listed at the head of the two files; each is
 * a planted bug in tests/planted.
 *
 * Assumed: clocks drift by at most rho (safety rests on this alone); a majority connected by timely
 * links, prompt processes (liveness). What a process promised survives its crash; if it may not, it
 * takes part no more. The host gives RESIGN, and CAMPAIGN off, to a leader after the guarded work
 * has stopped: the promises it led by are released at once. */
#include "protocols/pole.h"

#include "protocols/pole_config.h"
#include "protocols/registry.h"

static const struct cv_message_type pole_messages[POLE_MESSAGE_COUNT] = {
    [POLE_PROPOSE] = {"PROPOSE",
                      {{"epoch", CV_FIELD_U64},
                       {"heard", CV_FIELD_FLAG},
                       {"id", CV_FIELD_ID},
                       {"quorate", CV_FIELD_FLAG},
                       {"score_1", CV_FIELD_U64},
                       {"score_2", CV_FIELD_U64},
                       {"score_3", CV_FIELD_U64},
                       {"score_4", CV_FIELD_U64}}},
    [POLE_VOTE] = {"VOTE", {{"epoch", CV_FIELD_U64}, {"leader", CV_FIELD_ID}}},
    [POLE_HEARTBEAT] = {"HEARTBEAT",
                        {{"epoch", CV_FIELD_U64},
                         {"nonce", CV_FIELD_U64},
                         {"seq", CV_FIELD_U64},
                         {"established", CV_FIELD_FLAG},
                         {"token", CV_FIELD_U64},
                         {"lease", CV_FIELD_U64},
                         {"quorate", CV_FIELD_FLAG},
                         {"score_1", CV_FIELD_U64},
                         {"score_2", CV_FIELD_U64},
                         {"score_3", CV_FIELD_U64},
                         {"score_4", CV_FIELD_U64}}},
    [POLE_FOLLOW] = {"FOLLOW",
                     {{"epoch", CV_FIELD_U64}, {"nonce", CV_FIELD_U64}, {"seq", CV_FIELD_U64}}},
    [POLE_REFUSE] = {"REFUSE", {{"epoch", CV_FIELD_U64}}},
    [POLE_RELEASE] = {"RELEASE", {{"epoch", CV_FIELD_U64}, {"heir", CV_FIELD_ID_NONE}}},
    [POLE_PROBE] = {"PROBE",
                    {{"stamp", CV_FIELD_U64},
                     {"rate", CV_FIELD_U64},
                     {"history", CV_FIELD_U64},
                     {"score_1", CV_FIELD_U64},
                     {"score_2", CV_FIELD_U64},
                     {"score_3", CV_FIELD_U64},
                     {"score_4", CV_FIELD_U64}}},
    [POLE_ECHO] = {"ECHO",
                   {{"stamp", CV_FIELD_U64}, {"rate", CV_FIELD_U64}, {"history", CV_FIELD_U64}}},
};

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
}

static void pole_check(const void *state)
{
    const struct pole *p = state;
    CV_ASSERT(!p->established || p->leader == p->self);
    CV_ASSERT(!p->established || p->self_follows);
    CV_ASSERT(!p->established || p->view == p->self);
    CV_ASSERT(p->view != p->self || p->established);
    CV_ASSERT(!p->self_follows || (p->leader == p->self && p->followed == p->self));
    CV_ASSERT(!p->self_follows || p->followed_epoch == p->leader_epoch);
    CV_ASSERT(!p->established || p->token <= p->leader_epoch);
    CV_ASSERT(p->is_stopped || p->epoch >= p->followed_epoch);
    CV_ASSERT(p->leader <= p->member_count && p->followed <= p->member_count);
    CV_ASSERT(p->promise.until_ns != INT64_MAX || p->self_follows);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The first election begins when the first scores are known, or will not wait any longer. */
static void become_ready(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (!p->is_ready) {
        p->is_ready = true;
        pole_disarm(p, POLE_TIMER_BACK, out);
        if (p->leader == CV_ID_NONE) {
            cv__pole_new_election(p, now_ns, out);
        }
    }
}

static void on_start(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    p->nonce = event->nonce;
    if (event->persisted_count == 4) {
        p->followed_epoch = event->persisted[0];
        p->followed = (cv_id)event->persisted[1];
        p->followed_lease_ns = (int64_t)event->persisted[2];
        p->claimed_epoch = event->persisted[3];
        p->epoch = p->claimed_epoch > p->followed_epoch ? p->claimed_epoch : p->followed_epoch;
        p->quarantine_ns = now_ns + cv__max64(p->followed_lease_ns, p->lease_ns);
        if (p->followed != CV_ID_NONE) {
            p->promise = (struct pole_promise){CV_ID_NONE, now_ns + p->followed_lease_ns};
        }
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
    if (has_epoch && event->message->field[POLE_EPOCH] >= POLE_EPOCH_MAX) {
        return;
    }
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
        cv__pole_on_echo(p, event);
        if (cv__pole_has_data(p, event->now_ns)) {
            become_ready(p, event->now_ns, out);
        }
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
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
        if (p->is_ready) {
            cv__pole_on_back(p, now_ns, out);
        } else {
            become_ready(p, now_ns, out);
        }
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

/* An operator's wish; see the head of this file for what the host owes. */
static void on_resign(struct pole *p, cv_id heir, int64_t now_ns, struct cv_effects *out)
{
    if (p->leader == p->self) {
        p->stands_back = true; /* it is for somebody else now */
        pole_arm(p, POLE_TIMER_BACK, now_ns + 2 * p->lease_ns, now_ns + 4 * p->lease_ns, out);
        cv__pole_abdicate(p, CV_REASON_RESIGNED, heir, now_ns, out);
    }
}

static void on_campaign(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    p->is_candidate = event->is_candidate;
    if (!event->is_candidate && p->leader == p->self) {
        cv__pole_abdicate(p, CV_REASON_RESIGNED, CV_ID_NONE, event->now_ns, out);
    } else if (event->is_candidate && !p->stands_back) {
        cv__pole_on_back(p, event->now_ns, out);
    }
}

static void stop(struct pole *p, struct cv_effects *out)
{
    p->is_stopped = true;
    p->established = false;
    p->self_follows = false;
    p->promise = (struct pole_promise){0};
    cv__pole_forget(p, CV_REASON_STOPPED, out);
    for (uint32_t timer = 0; timer < POLE_TIMER_COUNT; timer++) {
        pole_disarm(p, timer, out);
    }
}

static void pole_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct pole *p = state;
    if (p->is_stopped) {
        return;
    }
    if (event->kind == CV_EVENT_TIMER) {
        p->armed &= ~BIT(event->timer);
    }
    /* First of all: a leadership whose time is over is over. After a pause, FOLLOWs that waited in
     * the queue must not revive it. */
    if (p->established && event->now_ns >= p->valid_until_ns) {
        cv__pole_abdicate(p, p->is_leaving ? CV_REASON_RESIGNED : CV_REASON_LOST_QUORUM,
                          p->is_leaving ? p->heir : CV_ID_NONE, event->now_ns, out);
        if (event->kind == CV_EVENT_TIMER &&
            (event->timer == POLE_TIMER_BEAT || event->timer == POLE_TIMER_CLAIM)) {
            return; /* what it was for has just ended */
        }
    }
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
        /* A hint, however certain: the promise to it stays, for it may have started again. */
        if (p->leader == event->peer && event->peer != p->self) {
            p->suspect = event->peer;
            cv__pole_new_election(p, event->now_ns, out);
        }
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
        break; /* epochs are counted and promised here */
    }
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
    .settle_ns = cv__pole_settle_ns,
    .timely_ns = cv__pole_timely_ns,
};
