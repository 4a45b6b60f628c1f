/* src/protocols/pole_select.c - choosing a leader [Becker11, Alg. 1], with our amendments.
 *
 * Processes broadcast proposals, pass on the largest they know, and choose its owner when all have
 * proposed or a round after a quorum has. Ours, each with a failing run behind it:
 * - Quorate comes before the score: a proposal counts more once its owner has heard a quorum.
 *   Otherwise the best score without a quorum is chosen for ever (T20, T21): a score never vetoes.
 * - Only proposals of the present epoch count, and votes never count as proposals.
 * - The round is not restarted by later proposals; the back-off is capped.
 * - A process chooses at once when all have proposed except a leader that fell silent. If no more
 *   than a quorum is left, the best of them claims as soon as all have proposed: has_won().
 * - A choice that does not claim in time is passed over until an established leader is seen.
 * - A process that claimed in vain has had its turn: it proposes as if it had not heard a quorum,
 *   until a leader is established, or a round ends in which no other process has heard one either.
 *   So every candidate claims once before any claims again. If links are cut in one direction, a
 *   process may hear a majority that does not hear it: without turns, two such processes with good
 *   scores would claim in vain alternately for ever, one back before the other gives up.
 * All this is safe because a choice binds no process; see pole_claim.c. */
#include "protocols/pole.h"

bool cv__pole_is_larger(const struct pole *p, const struct pole_proposal *a,
                        const struct pole_proposal *b)
{
    CV_ASSERT(a->id != CV_ID_NONE);
    CV_ASSERT(b->id != CV_ID_NONE);
    if (a->is_quorate != b->is_quorate) {
        return a->is_quorate > b->is_quorate;
    }
    const int order = cv__scoring_compare(&p->scoring, &a->score, &b->score);
    return order != 0 ? order > 0 : a->id > b->id;
}

static bool is_doubted(struct pole *p, cv_id id)
{
    return cv__set_has(pole_set(p, POLE_SET_DOUBTED), id);
}

static bool may_stand(const struct pole *p)
{
    return p->is_candidate && !p->stands_back;
}

static void arm_elect(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_SELECTING);
    pole_arm(p, POLE_TIMER_ELECT, now_ns + p->round_ns, now_ns + p->round_ns, out);
}

/* The best proposal that this process knows. */
static void fill_proposal(struct pole *p, struct cv_message *m)
{
    CV_ASSERT(p->role == POLE_SELECTING); /* a process with a leader votes */
    CV_ASSERT(p->best.id != CV_ID_NONE);
    const struct pole_propose propose = {
        .epoch = p->epoch,
        .heard = cv__set_has(pole_set(p, POLE_SET_QUORATE), p->self),
        .id = p->best.id,
        .quorate = p->best.is_quorate,
        POLE_SCORE_INIT(p->best.score),
    };
    pole_propose_write(m, propose);
}

static void broadcast(struct pole *p, struct cv_effects *out)
{
    fill_proposal(p, cv__effect_send_all(out, POLE_PROPOSE));
}

static void answer(struct pole *p, cv_id to, struct cv_effects *out)
{
    CV_ASSERT(to != p->self);
    fill_proposal(p, cv__effect_send(out, to, POLE_PROPOSE));
}

/* This process has heard a quorum and may be a candidate: its proposal says so. */
static bool become_quorate(struct pole *p)
{
    CV_ASSERT(p->own.id == p->self);
    CV_ASSERT(cv__set_has(pole_set(p, POLE_SET_QUORATE), p->self));
    if (!may_stand(p) || p->own.is_quorate) {
        return false;
    }
    p->own.is_quorate = true;
    if (cv__pole_is_larger(p, &p->own, &p->best)) {
        p->best = p->own;
    }
    return true;
}

static void elect(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_SELECTING);
    CV_ASSERT(cv__set_has(pole_set(p, POLE_SET_QUORATE), p->self)); /* it has heard a quorum */
    if (p->best.id == p->self && !may_stand(p)) {                   /* it keeps proposing */
        cv__effect_note(out,
                        p->is_candidate ? "best proposal, but does not claim: stands back"
                                        : "best proposal, but does not claim: not a candidate",
                        p->self, 0, p->epoch);
        return;
    }
    if (!p->best.is_quorate && become_quorate(p)) {
        p->has_had_turn = false; /* all other candidates have had theirs: the next turns begin */
        broadcast(p, out);
        arm_elect(p, now_ns, out);
        return;
    }
    cv__pole_select(p, p->best.id, p->epoch, now_ns, out);
}

/* Have all proposed and heard a quorum, except the suspect, which is not waited for? */
static bool is_complete(struct pole *p)
{
    CV_ASSERT(p->suspect != p->self); /* a process does not suspect itself */
    const uint64_t *heard = pole_set(p, POLE_SET_QUORATE);
    const bool misses_suspect = p->suspect != CV_ID_NONE && !cv__set_has(heard, p->suspect);
    return cv__set_count(heard, p->member_count) + misses_suspect == p->member_count;
}

/* [Ours] Have all processes but the lost leader proposed, none of them better than this process,
 * which has just heard a quorum? Then it would be chosen as soon as the others report that they
 * have heard a quorum too: a process that has not is not chosen before it, and one that has is not
 * better. So it claims one transmission earlier. The others wait: the best of them may not have
 * heard a quorum. `was_best`: its proposal was the best before it was known which processes are
 * quorate, because that comes before the score. */
static bool has_won(struct pole *p, bool was_best)
{
    CV_ASSERT(p->suspect != p->self);
    const uint64_t *proposed = pole_set(p, POLE_SET_PROPOSED);
    const bool misses_suspect = p->suspect != CV_ID_NONE && !cv__set_has(proposed, p->suspect);
    return was_best && p->own.is_quorate && misses_suspect &&
           cv__set_count(proposed, p->member_count) + 1 == p->member_count;
}

/* [Alg. 1, start-timer?] A process has proposed in this epoch. */
static void count(struct pole *p, cv_id id, bool has_heard_quorum, int64_t now_ns,
                  struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_SELECTING);
    CV_ASSERT(id != CV_ID_NONE);
    CV_ASSERT(id <= p->member_count);
    uint64_t *heard = pole_set(p, POLE_SET_QUORATE);
    cv__set_add(pole_set(p, POLE_SET_PROPOSED), id);
    if (has_heard_quorum) {
        cv__set_add(heard, id);
    }
    if (cv__set_count(pole_set(p, POLE_SET_PROPOSED), p->member_count) < p->quorum) {
        return;
    }
    bool is_decided = false;
    if (!cv__set_has(heard, p->self)) {
        const bool was_best = p->best.id == p->self;
        cv__set_add(heard, p->self);
        if (!p->has_had_turn) {
            (void)become_quorate(p);
        }
        broadcast(p, out);
        arm_elect(p, now_ns, out);
        is_decided = has_won(p, was_best);
    }
    if (is_decided || is_complete(p)) {
        elect(p, now_ns, out);
    }
}

void cv__pole_reset_epoch(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!pole_is_leading(p)); /* only cv__pole_abdicate() ends a leadership */
    CV_ASSERT(p->epoch >= p->followed_epoch);
    cv__pole_become(p, POLE_SELECTING, CV_ID_NONE);
    CV_ASSERT(p->promise.to != p->self);
    cv__pole_get_score(p, p->epoch, now_ns, &p->own.score);
    p->own.id = p->self;
    p->own.is_quorate = false;
    p->best = p->own;
    cv__set_clear(pole_set(p, POLE_SET_PROPOSED), p->member_count);
    cv__set_clear(pole_set(p, POLE_SET_QUORATE), p->member_count);
    for (cv_id id = 1; id <= p->member_count; id++) {
        pole_peer(p, id)->vote_leader = CV_ID_NONE;
        pole_peer(p, id)->vote_epoch = 0;
    }
    pole_disarm(p, POLE_TIMER_ELECT, out);
    pole_disarm(p, POLE_TIMER_SILENCE, out);
    pole_disarm(p, POLE_TIMER_BEAT, out);
    pole_disarm(p, POLE_TIMER_CLAIM, out);
    count(p, p->self, /* has_heard_quorum= */ false, now_ns, out);
}

static void arm_retry(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->retry_ns > 0);
    CV_ASSERT(p->role == POLE_SELECTING);
    pole_arm(p, POLE_TIMER_RETRY, now_ns + p->retry_ns, now_ns + p->retry_ns + p->retry_ns / 8,
             out);
}

void cv__pole_new_election(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!pole_is_claimant(p)); /* its claim was released before */
    cv__pole_forget(p, CV_REASON_SUSPECTED, out);
    p->epoch = cv__max_u64(p->epoch, p->leader_epoch) + 1;
    p->retry_ns = p->round_ns;
    CV_ASSERT(p->epoch > p->leader_epoch);
    CV_ASSERT(p->epoch > p->followed_epoch);
    cv__pole_reset_epoch(p, now_ns, out);
    if (p->role == POLE_SELECTING) { /* not if a cluster of one has chosen already */
        broadcast(p, out);
        arm_retry(p, now_ns, out);
    }
}

void cv__pole_select(struct pole *p, cv_id leader, uint64_t epoch, int64_t now_ns,
                     struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_SELECTING);
    CV_ASSERT(leader != CV_ID_NONE);
    CV_ASSERT(leader != p->self || may_stand(p));
    CV_ASSERT(leader <= p->member_count); /* checked by the codec */
    CV_ASSERT(p->promise.to != p->self);  /* its claim was released before */
    pole_disarm(p, POLE_TIMER_ELECT, out);
    pole_disarm(p, POLE_TIMER_RETRY, out);
    pole_disarm(p, POLE_TIMER_SILENCE, out);
    cv__pole_become(p, leader == p->self ? POLE_BOUND : POLE_AWAITING, leader);
    p->leader_epoch = epoch;
    if (p->view != leader) {
        cv__pole_forget(p, CV_REASON_SUPERSEDED, out);
    }
    if (leader == p->self) {
        cv__pole_stand(p, now_ns, out);
    } else {
        const int64_t until_ns = now_ns + p->wait_ns + cv__pole_extra_ns(p);
        p->awaited = leader;
        p->awaited_ns = now_ns;
        pole_arm(p, POLE_TIMER_SILENCE, until_ns, until_ns, out);
    }
}

/* [Alg. 1, lines 37-49] A proposal of our epoch, or of a larger one, among those without a
 * leader. */
static void compare_proposal(struct pole *p, const struct pole_proposal *proposal, bool is_new,
                             cv_id from, struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_SELECTING);
    CV_ASSERT(from != p->self);
    const bool is_passed_over = is_doubted(p, proposal->id);
    const bool is_larger = !is_passed_over && cv__pole_is_larger(p, proposal, &p->best);
    if (is_larger) {
        p->best = *proposal;
    }
    if (is_new || is_larger) {
        broadcast(p, out);
    } else if (is_passed_over) {
        cv__effect_note(out, "PROPOSE for {peer} passed over: it was chosen and did not claim",
                        proposal->id, 0, p->epoch);
    } else if (cv__pole_is_larger(p, &p->best, proposal)) {
        cv__effect_note(out, "PROPOSE for {peer} answered with ours: it is smaller", proposal->id,
                        0, p->epoch);
        answer(p, from, out);
    } else {
        cv__effect_note(out, "PROPOSE for {peer} is the same as ours", proposal->id, 0, p->epoch);
    }
}

/* [Alg. 1, lines 33-49] */
void cv__pole_on_propose(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_propose propose = pole_propose_read(event->message);
    struct pole_proposal proposal = {.id = propose.id, .is_quorate = propose.quorate};
    CV_ASSERT(propose.epoch < POLE_EPOCH_MAX);
    if (!p->is_ready) {
        cv__effect_note(out, "PROPOSE of {peer} ignored: still waits for the first scores",
                        event->peer, 0, propose.epoch);
        return;
    }
    if (!POLE_SCORE_READ(propose, &proposal.score)) {
        cv__effect_note(out, "PROPOSE of {peer} ignored: its score is out of range", event->peer, 0,
                        propose.epoch);
        return;
    }
    if (p->role != POLE_SELECTING) {
        CV_ASSERT(p->leader != CV_ID_NONE); /* a process that does not select has chosen */
        pole_vote_write(cv__effect_send(out, event->peer, POLE_VOTE),
                        (struct pole_vote){.epoch = p->leader_epoch, .leader = p->leader});
        return;
    }
    if (propose.epoch < p->epoch) {
        cv__effect_note(out, "PROPOSE of {peer} answered with ours: epoch {number} is over",
                        event->peer, 0, propose.epoch);
        answer(p, event->peer, out);
        return;
    }
    const bool is_new = propose.epoch > p->epoch;
    if (is_new) {
        p->epoch = propose.epoch;
        cv__pole_reset_epoch(p, event->now_ns, out);
        if (p->role != POLE_SELECTING) {
            return;
        }
    }
    compare_proposal(p, &proposal, is_new, event->peer, out);
    CV_ASSERT(propose.epoch == p->epoch); /* only proposals of the present epoch count */
    count(p, event->peer, propose.heard, event->now_ns, out);
}

/* [Alg. 1, lines 54-63] Each sender's newest vote counts; the leader's own must be among them, so
 * that a dead leader is not chosen again (line 60). No process chooses itself by the votes of
 * others. */
void cv__pole_on_vote(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != p->self);
    const struct pole_vote vote = pole_vote_read(event->message);
    const uint64_t epoch = vote.epoch;
    const cv_id leader = vote.leader;
    if (p->role != POLE_SELECTING || !p->is_ready || leader == p->self) {
        cv__effect_note(out,
                        p->role != POLE_SELECTING ? "VOTE of {peer} ignored: has chosen already"
                        : leader == p->self ? "VOTE of {peer} ignored: nobody is chosen by votes "
                                              "for itself"
                                            : "VOTE of {peer} ignored: still waits for the first "
                                              "scores",
                        event->peer, 0, epoch);
        return;
    }
    struct pole_peer *voter = pole_peer(p, event->peer);
    if (voter->vote_epoch == epoch && voter->vote_leader == leader) {
        cv__effect_note(out, "VOTE of {peer} adds nothing: it has voted so in epoch {number}",
                        event->peer, 0, epoch);
    }
    voter->vote_epoch = epoch;
    voter->vote_leader = leader;
    const struct pole_peer *own = pole_peer(p, leader);
    uint32_t same = 0;
    for (cv_id id = 1; id <= p->member_count; id++) {
        const struct pole_peer *peer = pole_peer(p, id);
        same += peer->vote_leader == leader && peer->vote_epoch == epoch;
    }
    CV_ASSERT(same >= 1); /* the one just heard */
    CV_ASSERT(pole_peer(p, p->self)->vote_leader == CV_ID_NONE);
    if (same >= p->quorum && own->vote_leader == leader && own->vote_epoch == epoch) {
        cv__pole_select(p, leader, epoch, event->now_ns, out);
    }
}

void cv__pole_on_retry(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->role != POLE_SELECTING || !p->is_ready) {
        return;
    }
    CV_ASSERT(p->leader == CV_ID_NONE);
    p->retry_ns = cv__min64(2 * p->retry_ns, p->retry_ns_max);
    broadcast(p, out);
    arm_retry(p, now_ns, out);
    if (cv__set_has(pole_set(p, POLE_SET_QUORATE), p->self) &&
        (p->armed & BIT(POLE_TIMER_ELECT)) == 0) {
        elect(p, now_ns, out); /* a round ended while we stood back: another may be the best now */
    }
}

void cv__pole_on_elect(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->role == POLE_SELECTING) {
        elect(p, now_ns, out);
    }
}

/* The leader fell silent, or the choice never claimed. */
void cv__pole_on_silence(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->role != POLE_AWAITING && p->role != POLE_FOLLOWING) {
        return;
    }
    CV_ASSERT(p->leader != p->self);
    CV_ASSERT(p->view != p->self);
    if (p->view != p->leader) { /* a claimant, not an established leader */
        cv__pole_wait_longer(p);
    }
    if (p->role == POLE_FOLLOWING) {
        p->suspect = p->leader;
    } else {
        cv__set_add(pole_set(p, POLE_SET_DOUBTED), p->leader);
    }
    cv__pole_new_election(p, now_ns, out);
}

void cv__pole_on_back(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    p->stands_back = false;
    if (p->role != POLE_SELECTING || !may_stand(p) ||
        !cv__set_has(pole_set(p, POLE_SET_QUORATE), p->self)) {
        return;
    }
    const bool has_round = (p->armed & BIT(POLE_TIMER_ELECT)) != 0;
    if (p->has_had_turn) { /* the end of a round shows whether another candidate goes first */
        if (!has_round) {  /* its knowledge may be old: the others may follow a leader by now */
            cv__pole_new_election(p, now_ns, out);
        }
    } else if (become_quorate(p)) {
        broadcast(p, out);
        if (!has_round) {
            arm_elect(p, now_ns, out);
        }
    }
}
