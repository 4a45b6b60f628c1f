/* src/protocols/pole_claim.c - from a choice to a leadership: claims, promises, the lease, its end.
 *
 * [Becker11, sec. 3.1] has a leader keep connections to a majority, and a process accept one only
 * of whom it takes for the leader: two may believe in themselves for a while. Ours: a lease. Who
 * chose itself sends heartbeats; FOLLOW answers one, and promises to follow nobody else for
 * `lease`. Who is followed by a majority, itself included, leads until lease(1-2 rho) after it
 * *sent* the heartbeats that were answered: on its own clock that is over before the first promise
 * is.
 *
 * Why never two: their majorities share a process, and it promised the first not to follow the
 * second before. Why tokens grow: before its first FOLLOW a process saves the pair (epoch, leader)
 * and refuses smaller epochs, and equal ones of others; the token is the epoch that a majority
 * followed. What ends a promise early is only said by the process it is for (RELEASE), after its
 * valid-until, or on resignation when its host has stopped the work.
 *
 * Ours, each with a failing run behind it:
 * - One's own promise binds following oneself, too: who counts itself too early makes two leaders.
 * - An epoch is saved before it is claimed. A process that forgot it in a crash could claim the
 * same once more, and a RELEASE of its earlier life, still under way, would free its followers.
 * - A restarted process follows nobody for the lease it may have promised, and releases nothing for
 *   its own: its earlier life may have led until now.
 * - FOLLOWs below the token's epoch do not count, nor those of an earlier life (nonce).
 * - A refusal raises the claim above the refused epoch. A leader keeps its token.
 * - Who was not established in time stands back for two to four leases (one-way links).
 * - A smaller claim yields to a larger, every claim to an established leader.
 * - An established leader with an older token than one seen is a late message, not a leader. */
#include "protocols/pole.h"
#include "protocols/pole_config.h"

/* ---- What the application is told ------------------------------------------------------------ */

static void tell(struct pole *p, enum cv_reason reason, struct cv_effects *out)
{
    const struct cv_leadership leadership = {
        .is_self = p->established,
        .leader = p->view,
        .reason = reason,
        .token = p->view != CV_ID_NONE ? p->view_token : 0,
        .valid_until_ns = p->established ? p->valid_until_ns : 0,
        .has_majority = p->view != CV_ID_NONE,
    };
    cv__effect_leadership(out, &leadership);
}

void cv__pole_forget(struct pole *p, enum cv_reason reason, struct cv_effects *out)
{
    if (p->view != CV_ID_NONE) {
        p->view = CV_ID_NONE;
        p->view_token = 0;
        tell(p, reason, out);
    }
}

/* An established leader was heard, by who follows or would follow it. */
static void see(struct pole *p, cv_id leader, uint64_t token, struct cv_effects *out)
{
    if (p->view != leader || p->view_token != token) {
        p->view = leader;
        p->view_token = token;
        tell(p, CV_REASON_ELECTED, out);
    }
}

/* Somebody leads: who was passed over and who was suspected may be well again. */
static void clear_doubts(struct pole *p)
{
    cv__set_clear(pole_set(p, POLE_SET_DOUBTED), p->member_count);
}

/* ---- Promises -------------------------------------------------------------------------------- */

static void save(const struct pole *p, struct cv_effects *out)
{
    const uint64_t record[] = {p->followed_epoch, p->followed, (uint64_t)p->followed_lease_ns,
                               p->claimed_epoch};
    cv__effect_persist(out, record, COUNT_OF(record));
}

/* Does a promise to another one run? */
static bool is_bound(const struct pole *p, cv_id leader, int64_t now_ns)
{
    return p->promise.until_ns != 0 && p->promise.to != leader && now_ns < p->promise.until_ns;
}

static void arm_promise(struct pole *p, struct cv_effects *out)
{
    CV_ASSERT(p->promise.until_ns != INT64_MAX);
    pole_arm(p, POLE_TIMER_PROMISE, p->promise.until_ns, p->promise.until_ns, out);
}

static void end_promise(struct pole *p)
{
    p->promise = (struct pole_promise){0};
}

/* Follows oneself, unless a promise to another runs. Saves what must be saved of the claim. */
static void follow_self(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->leader == p->self && p->leader_epoch == p->claimed_epoch);
    if (!p->self_follows && is_bound(p, p->self, now_ns)) {
        save(p, out);
        arm_promise(p, out);
        return;
    }
    CV_ASSERT(p->leader_epoch > p->followed_epoch);
    p->followed_epoch = p->leader_epoch;
    p->followed = p->self;
    p->followed_lease_ns = p->lease_ns;
    save(p, out);
    p->self_follows = true;
    p->promise = (struct pole_promise){.to = p->self, .until_ns = INT64_MAX};
}

/* ---- Claiming and leading -------------------------------------------------------------------- */

static void beat(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    p->seq++;
    p->sent_ns[p->seq % POLE_BEATS_KEPT] = now_ns;
    struct cv_message *m = cv__effect_send_all(out, POLE_HEARTBEAT);
    m->field[POLE_EPOCH] = p->leader_epoch;
    m->field[POLE_H_NONCE] = p->nonce;
    m->field[POLE_H_SEQ] = p->seq;
    m->field[POLE_H_ESTABLISHED] = p->established;
    m->field[POLE_H_TOKEN] = p->token;
    m->field[POLE_H_LEASE] = (uint64_t)p->lease_ns;
    m->field[POLE_H_QUORATE] = p->own.is_quorate;
    for (uint32_t i = 0; i < CV_SCORE_PARTS_MAX; i++) {
        m->field[POLE_H_SCORE + i] = (uint64_t)(p->own.score.part[i] + 1);
    }
    pole_arm(p, POLE_TIMER_BEAT, now_ns + p->eta_ns, now_ns + p->eta_ns, out);
}

/* How many others follow a heartbeat that was sent after that. */
static uint32_t count_newer(struct pole *p, int64_t sent_ns)
{
    uint32_t count = 0;
    for (cv_id id = 1; id <= p->member_count; id++) {
        count += id != p->self && pole_peer(p, id)->acked_ns > sent_ns;
    }
    return count;
}

/* The send time that a majority has answered: with oneself, who answers at once, the (quorum-1)-th
 * newest of the others; 0 if none is newer than `known_ns`. Most FOLLOWs complete no majority and
 * cost one look at each member; one that does is found by halving the time since `known_ns`. */
static int64_t answered_ns(struct pole *p, int64_t known_ns, int64_t now_ns)
{
    const uint32_t others = p->quorum - 1;
    if (others == 0) {
        return now_ns;
    }
    if (count_newer(p, known_ns) < others) {
        return 0;
    }
    int64_t low = known_ns; /* enough are newer than this ... */
    int64_t high = now_ns;  /* ... and not than this */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (count_newer(p, middle) >= others) {
            low = middle;
        } else {
            high = middle;
        }
    }
    CV_ASSERT(count_newer(p, high) < others);
    return high;
}

static void establish(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->token > p->token_max);
    p->established = true;
    p->established_ns = now_ns;
    p->token_max = p->token;
    p->suspect = CV_ID_NONE;
    clear_doubts(p);
    for (cv_id id = 1; id <= p->member_count; id++) {
        pole_peer(p, id)->better_since_ns = 0;
    }
    p->view = p->self;
    p->view_token = p->token;
    tell(p, CV_REASON_ELECTED, out);
    beat(p, now_ns, out); /* the followers wait for it */
}

/* Is there a majority, and until when? */
static void look_for_majority(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!p->established || now_ns < p->valid_until_ns);
    if (!p->self_follows || p->is_leaving) {
        return;
    }
    const int64_t known_ns = p->established ? p->valid_until_ns - p->lead_ns : 0;
    const int64_t sent_ns = answered_ns(p, known_ns, now_ns);
    const int64_t until_ns = sent_ns + p->lead_ns;
    if (sent_ns == 0 || until_ns <= now_ns) {
        return;
    }
    if (!p->established) {
        if (p->token <= p->token_max) {
            return; /* a later leadership than this claim was seen: yield or give up */
        }
        p->valid_until_ns = until_ns;
        establish(p, now_ns, out);
    } else if (until_ns > p->valid_until_ns) {
        p->valid_until_ns = until_ns;
        tell(p, CV_REASON_RENEWED, out);
    } else {
        return;
    }
    pole_arm(p, POLE_TIMER_CLAIM, p->valid_until_ns, p->valid_until_ns, out);
}

static void forget_answers(struct pole *p)
{
    for (cv_id id = 1; id <= p->member_count; id++) {
        pole_peer(p, id)->acked_ns = 0;
    }
}

/* Takes an epoch to claim, above all that were followed or claimed. */
static void take_epoch(struct pole *p, uint64_t epoch)
{
    epoch = epoch > p->followed_epoch ? epoch : p->followed_epoch + 1;
    epoch = epoch > p->claimed_epoch ? epoch : p->claimed_epoch + 1;
    p->leader_epoch = epoch;
    p->claimed_epoch = epoch;
    p->epoch = p->epoch > epoch ? p->epoch : epoch;
    if (!p->established) {
        p->token = epoch;
        forget_answers(p);
    }
}

void cv__pole_stand(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->leader == p->self && !p->established);
    p->self_follows = false;
    p->is_leaving = false;
    p->valid_until_ns = 0;
    p->claim_until_ns = now_ns + p->lease_ns + 2 * p->round_ns;
    take_epoch(p, p->leader_epoch);
    follow_self(p, now_ns, out);
    beat(p, now_ns, out);
    pole_arm(p, POLE_TIMER_CLAIM, p->claim_until_ns, p->claim_until_ns, out);
    look_for_majority(p, now_ns, out);
}

/* Ends all promises to us, after any leadership on them has ended. */
static void release(struct pole *p, cv_id heir, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!p->established);
    CV_ASSERT(p->leader == p->self);
    if (now_ns >= p->quarantine_ns) {
        struct cv_message *m = cv__effect_send_all(out, POLE_RELEASE);
        m->field[POLE_EPOCH] = p->leader_epoch;
        m->field[POLE_R_HEIR] = heir;
    }
    if (p->self_follows) {
        end_promise(p);
    }
    p->self_follows = false;
    p->is_leaving = false;
}

void cv__pole_abdicate(struct pole *p, enum cv_reason reason, cv_id heir, int64_t now_ns,
                       struct cv_effects *out)
{
    p->established = false;
    cv__pole_forget(p, reason, out);
    release(p, heir, now_ns, out);
    if (heir == CV_ID_NONE || heir == p->self) {
        cv__pole_new_election(p, now_ns, out);
    } else {
        pole_disarm(p, POLE_TIMER_BEAT, out);
        pole_disarm(p, POLE_TIMER_CLAIM, out);
        cv__pole_select(p, heir, p->leader_epoch + 1, now_ns, out);
    }
}

void cv__pole_on_beat(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->leader == p->self) {
        beat(p, now_ns, out);
        look_for_majority(p, now_ns, out); /* a cluster of one is its own majority */
    }
}

/* A claim that nobody followed: others may be able to where we are not. */
void cv__pole_on_claim_end(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->leader != p->self || p->established || now_ns < p->claim_until_ns) {
        return;
    }
    p->stands_back = true;
    pole_arm(p, POLE_TIMER_BACK, now_ns + 2 * p->lease_ns, now_ns + 4 * p->lease_ns, out);
    cv__pole_abdicate(p, CV_REASON_LOST_QUORUM, CV_ID_NONE, now_ns, out);
}

/* ---- Following ------------------------------------------------------------------------------- */

static void refuse(struct pole *p, cv_id claimant, struct cv_effects *out)
{
    cv__effect_send(out, claimant, POLE_REFUSE)->field[POLE_EPOCH] = p->followed_epoch;
}

static void listen(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    p->has_heard = true;
    pole_arm(p, POLE_TIMER_SILENCE, now_ns + p->epsilon_ns, now_ns + p->epsilon_ns, out);
}

/* No promise is in the way: promise, and answer. */
static bool follow(struct pole *p, cv_id leader, const struct cv_message *m, int64_t now_ns,
                   struct cv_effects *out)
{
    CV_ASSERT(!is_bound(p, leader, now_ns));
    CV_ASSERT(p->leader != p->self);
    const uint64_t epoch = m->field[POLE_EPOCH];
    const int64_t lease_ns = (int64_t)m->field[POLE_H_LEASE];
    const bool is_same = p->followed == leader && p->followed_epoch == epoch;
    if (epoch <= p->followed_epoch && !is_same) {
        refuse(p, leader, out);
        return false;
    }
    if (!is_same || lease_ns != p->followed_lease_ns) {
        p->followed_epoch = epoch;
        p->followed = leader;
        p->followed_lease_ns = lease_ns;
        save(p, out); /* before the answer that promises it */
    }
    if (p->view != leader) {
        cv__pole_forget(p, CV_REASON_SUPERSEDED, out);
    }
    p->leader = leader;
    p->leader_epoch = epoch;
    p->epoch = p->epoch > epoch ? p->epoch : epoch;
    pole_disarm(p, POLE_TIMER_RETRY, out);
    pole_disarm(p, POLE_TIMER_ELECT, out);
    p->promise = (struct pole_promise){.to = leader, .until_ns = now_ns + lease_ns};
    struct cv_message *answer = cv__effect_send(out, leader, POLE_FOLLOW);
    answer->field[POLE_EPOCH] = epoch;
    answer->field[POLE_F_NONCE] = m->field[POLE_H_NONCE];
    answer->field[POLE_F_SEQ] = m->field[POLE_H_SEQ];
    listen(p, now_ns, out);
    return true;
}

/* A promise to another runs: remember the newest claim, and answer it when the promise ends. */
static void postpone(struct pole *p, cv_id leader, const struct cv_message *m, int64_t now_ns,
                     struct cv_effects *out)
{
    p->pending = leader;
    p->pending_epoch = m->field[POLE_EPOCH];
    p->pending_nonce = m->field[POLE_H_NONCE];
    p->pending_seq = m->field[POLE_H_SEQ];
    p->pending_lease_ns = (int64_t)m->field[POLE_H_LEASE];
    p->pending_ns = now_ns;
    arm_promise(p, out);
    if (p->leader == CV_ID_NONE) {
        cv__pole_select(p, leader, p->pending_epoch, now_ns, out);
        listen(p, now_ns, out);
    }
}

static void follow_pending(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    const cv_id leader = p->pending;
    p->pending = CV_ID_NONE;
    if (leader == CV_ID_NONE || leader != p->leader || now_ns - p->pending_ns >= p->epsilon_ns ||
        pole_peer(p, leader)->released_epoch >= p->pending_epoch) {
        return;
    }
    struct cv_message claim = {.type = POLE_HEARTBEAT};
    claim.field[POLE_EPOCH] = p->pending_epoch;
    claim.field[POLE_H_NONCE] = p->pending_nonce;
    claim.field[POLE_H_SEQ] = p->pending_seq;
    claim.field[POLE_H_LEASE] = (uint64_t)p->pending_lease_ns;
    (void)follow(p, leader, &claim, now_ns, out);
}

void cv__pole_on_promise_end(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->promise.until_ns != 0 && p->promise.to != p->self && now_ns < p->promise.until_ns) {
        arm_promise(p, out);
        return;
    }
    if (p->leader == p->self && !p->self_follows) {
        if (p->followed_epoch >= p->leader_epoch) {
            take_epoch(p, p->followed_epoch + 1);
        }
        follow_self(p, now_ns, out);
        beat(p, now_ns, out);
        look_for_majority(p, now_ns, out);
    } else if (p->leader != p->self) {
        follow_pending(p, now_ns, out);
    }
}

/* An unestablished claimant hears another: does it yield? */
static bool yields_to(const struct pole *p, cv_id claimant, const struct cv_message *m)
{
    if (m->field[POLE_H_ESTABLISHED]) {
        return true;
    }
    if (m->field[POLE_EPOCH] != p->leader_epoch) {
        return m->field[POLE_EPOCH] > p->leader_epoch;
    }
    struct pole_proposal theirs = {.id = claimant,
                                   .is_quorate = (uint32_t)m->field[POLE_H_QUORATE]};
    for (uint32_t i = 0; i < CV_SCORE_PARTS_MAX; i++) {
        theirs.score.part[i] = (int64_t)m->field[POLE_H_SCORE + i] - 1;
    }
    return cv__pole_is_larger(p, &theirs, &p->own);
}

static bool is_plausible(const struct cv_message *m)
{
    bool is_ok = m->field[POLE_H_LEASE] >= 1 && m->field[POLE_H_LEASE] <= POLE_LEASE_NS_MAX;
    for (uint32_t i = 0; i < CV_SCORE_PARTS_MAX; i++) {
        is_ok = is_ok && m->field[POLE_H_SCORE + i] <= CV_SCORE_MAX + 1;
    }
    return is_ok && m->field[POLE_H_TOKEN] <= m->field[POLE_EPOCH];
}

void cv__pole_on_heartbeat(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    const int64_t now_ns = event->now_ns;
    const cv_id from = event->peer;
    const uint64_t epoch = m->field[POLE_EPOCH];
    const uint64_t token = m->field[POLE_H_TOKEN];
    const bool is_established = m->field[POLE_H_ESTABLISHED];
    if (!is_plausible(m) || pole_peer(p, from)->released_epoch >= epoch ||
        (is_established && token < p->token_max)) {
        return; /* late: that leadership is over */
    }
    if (is_established) {
        p->token_max = token;
        p->epoch = p->epoch > token ? p->epoch : token;
        clear_doubts(p);
    }
    if (p->leader == p->self) {
        if (p->established || !yields_to(p, from, m)) {
            return;
        }
        release(p, CV_ID_NONE, now_ns, out);
        cv__pole_reset_epoch(p, now_ns, out);
        if (p->leader != CV_ID_NONE) {
            return;
        }
        pole_arm(p, POLE_TIMER_RETRY, now_ns + p->round_ns, now_ns + p->round_ns, out);
    }
    if (p->leader == from && p->leader_epoch <= epoch) {
        listen(p, now_ns, out);
    }
    const bool is_choice_free =
        p->leader == CV_ID_NONE || p->promise.until_ns == 0 || p->promise.to != p->leader;
    if (!is_established && p->leader != from && !is_choice_free) {
        return;
    }
    bool is_heard = true;
    if (is_bound(p, from, now_ns)) {
        postpone(p, from, m, now_ns, out);
        is_heard = p->leader == from;
    } else {
        is_heard = follow(p, from, m, now_ns, out);
    }
    if (is_heard && is_established && p->leader == from) {
        p->suspect = CV_ID_NONE;
        see(p, from, token, out);
    }
}

/* [lease ours] Counted from when the heartbeat was sent, by our own record of it (T3). */
void cv__pole_on_follow(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    const uint64_t epoch = m->field[POLE_EPOCH];
    const uint64_t seq = m->field[POLE_F_SEQ];
    if (p->leader != p->self || m->field[POLE_F_NONCE] != p->nonce || epoch < p->token ||
        epoch > p->leader_epoch || seq > p->seq || seq + POLE_BEATS_KEPT <= p->seq) {
        return;
    }
    struct pole_peer *peer = pole_peer(p, event->peer);
    peer->acked_ns = cv__max64(peer->acked_ns, p->sent_ns[seq % POLE_BEATS_KEPT]);
    look_for_majority(p, event->now_ns, out);
}

void cv__pole_on_refuse(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t followed = event->message->field[POLE_EPOCH];
    if (p->leader != p->self) {
        p->epoch = p->epoch > followed ? p->epoch : followed;
        return;
    }
    if (followed >= p->leader_epoch) {
        take_epoch(p, followed + 1);
        follow_self(p, event->now_ns, out);
        beat(p, event->now_ns, out);
    }
}

void cv__pole_on_release(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t epoch = event->message->field[POLE_EPOCH];
    const cv_id heir = (cv_id)event->message->field[POLE_R_HEIR];
    const cv_id from = event->peer;
    struct pole_peer *peer = pole_peer(p, from);
    peer->released_epoch = peer->released_epoch > epoch ? peer->released_epoch : epoch;
    const bool was_leader = p->leader == from && p->leader_epoch <= epoch;
    if (p->promise.until_ns != 0 && p->promise.to == from && p->followed == from &&
        p->followed_epoch <= epoch) {
        end_promise(p);
        cv__pole_on_promise_end(p, event->now_ns, out);
    }
    if (!was_leader || p->leader != from) {
        return;
    }
    cv__pole_forget(p, CV_REASON_RESIGNED, out);
    p->epoch = p->epoch > epoch ? p->epoch : epoch;
    if (heir == p->self && p->is_candidate) {
        p->stands_back = false;
        p->epoch++;
        cv__pole_reset_epoch(p, event->now_ns, out);
        if (p->leader == CV_ID_NONE) {
            cv__pole_select(p, p->self, p->epoch, event->now_ns, out);
        }
    } else if (heir != CV_ID_NONE && heir != p->self) {
        cv__pole_reset_epoch(p, event->now_ns, out);
        if (p->leader == CV_ID_NONE) {
            cv__pole_select(p, heir, epoch + 1, event->now_ns, out);
        }
    } else {
        cv__pole_new_election(p, event->now_ns, out);
    }
}
