/* src/protocols/pole_claim.c - from a choice to a leadership: claims, promises, the lease, its end.
 *
 * [Becker11, sec. 3.1] has a leader keep connections to a majority, and a process accept one only
 * from the process it takes for the leader: two may believe in themselves for a while. Ours: a
 * lease. A process that chose itself sends heartbeats; FOLLOW answers one, and promises to follow
 * no other process for `lease`. A process that a majority follows, itself included, leads until
 * lease(1-2 rho) after it *sent* the heartbeats that were answered: its clock reaches that instant
 * before the first promise ends.
 *
 * Why there are never two leaders: their majorities share a process, and it has promised the first
 * not to follow the second in this time. Why tokens grow: before its first FOLLOW a process saves
 * the pair (epoch, leader); it refuses smaller epochs, and the same epoch from another leader; the
 * token is the epoch that a majority followed. Only the process that a promise is for can end it
 * early (RELEASE): after its valid-until, or on resignation when its host has stopped the work.
 *
 * Ours, each with a failing run behind it:
 * - A process's own promise also binds following itself: a claimant that counts itself too early
 *   makes two leaders.
 * - An epoch is saved before it is claimed. A process that forgot it in a crash could claim it
 *   again, and a RELEASE of its earlier life, still in flight, would free its followers.
 * - A restarted process follows no process for the lease it may have promised, and releases nothing
 *   in its own name: its earlier life may have led until now.
 * - FOLLOWs below the token's epoch do not count, nor those of an earlier life (nonce).
 * - A refusal raises the claim above the refused epoch. A leader keeps its token.
 * - An older claim of the followed process itself is late, not a rival: it is not refused, because
 *   a refusal would make that process begin its claim again.
 * - A claimant that was not established in time stands back for two to four leases (one-way links),
 *   and after that lets other processes go first: pole_select.c.
 * - A smaller claim yields to a larger, every claim to an established leader.
 * - The time to wait for a claim, and for answers to one, follows how late they came before, and
 *   doubles each time that no process came to lead: both wait for a disk. Otherwise no process is
 *   ever elected if a save takes 40 ms (lan).
 * - A process that refuses a claim waits for the higher claim that its refusal causes. If it chose
 *   itself in this time, it would have followed itself by then, and refuse the higher claim as
 *   well: with slow disks for ever.
 * - An established leader with an older token than one seen is a late message, not a leader.
 * - Epochs can be reserved in blocks (option `epochs`), so that no save delays the successor of a
 *   dead leader. A process then saves a bound: it follows and claims below it without saving again,
 *   and saves a larger bound when it comes near, during a stable leadership. Why this is as good as
 *   saving the pair: the pair is used only to refuse, and a process that restarts refuses more. It
 *   treats all epochs up to the bound as followed, with an unknown leader, and as claimed: so it
 *   follows no epoch twice, claims none twice, and no RELEASE of an earlier life frees a promise to
 *   it. It follows no process for the longest lease that it may have promised, as before. It loses
 *   only the right to go on with the leader that it followed: it refuses, and that leader raises
 *   its claim above the bound and keeps its token. */
#include "protocols/pole.h"
#include "protocols/pole_config.h"

/* After repeated failures the wait may grow longer than by measured lateness (POLE_SLOW_LEASES). */
#define POLE_PATIENCE_LEASES 40

/* ---- What the application is told ------------------------------------------------------------ */

static void tell(struct pole *p, enum cv_reason reason, struct cv_effects *out)
{
    CV_ASSERT((p->view == p->self) == pole_is_leading(p));
    CV_ASSERT(!pole_is_leading(p) || p->token <= p->leader_epoch);
    const bool is_leading = pole_is_leading(p);
    const struct cv_leadership leadership = {
        .is_self = is_leading,
        .leader = p->view,
        .reason = reason,
        .token = p->view != CV_ID_NONE ? p->view_token : 0,
        .valid_until_ns = is_leading ? p->valid_until_ns : 0,
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
    CV_ASSERT(p->view_token == 0); /* a token is reported only with its leader */
}

/* This process follows an established leader, or would: the application is told. */
static void see(struct pole *p, cv_id leader, uint64_t token, struct cv_effects *out)
{
    CV_ASSERT(leader != p->self);     /* its own leadership is reported by establish() */
    CV_ASSERT(token == p->token_max); /* an older leadership is over */
    CV_ASSERT(p->followed == leader); /* its epoch is saved: a crash does not forget it */
    CV_ASSERT(token <= p->epoch);
    if (p->view != leader || p->view_token != token) {
        p->view = leader;
        p->view_token = token;
        tell(p, CV_REASON_ELECTED, out);
    }
}

/* There is a leader: processes that were passed over or suspected get another chance. */
static void clear_doubts(struct pole *p)
{
    p->patience_ns = 0;
    p->has_had_turn = false;
    cv__set_clear(pole_set(p, POLE_SET_DOUBTED), p->member_count);
}

/* ---- Promises -------------------------------------------------------------------------------- */

static uint64_t epoch_used(const struct pole *p)
{
    return cv__max_u64(p->followed_epoch, p->claimed_epoch);
}

/* Are its promises and claims, and so many more epochs, within the saved bound? */
static bool is_reserved(const struct pole *p, uint64_t more)
{
    CV_ASSERT(p->reserve_count > 0);
    return epoch_used(p) + more < p->reserved_epoch && p->followed_lease_ns <= p->reserved_lease_ns;
}

/* Saves that all epochs below the bound may have been promised or claimed. */
static void reserve(struct pole *p, struct cv_effects *out)
{
    CV_ASSERT(p->reserve_count > 0);
    const uint64_t bound_before = p->reserved_epoch;
    p->reserved_epoch = cv__max_u64(p->reserved_epoch, epoch_used(p)) + p->reserve_count;
    p->reserved_lease_ns = cv__max64(p->reserved_lease_ns, p->followed_lease_ns);
    CV_ASSERT(p->reserved_epoch > bound_before); /* the bound only grows */
    CV_ASSERT(p->reserved_epoch > epoch_used(p));
    const uint64_t record[] = {p->reserved_epoch, POLE_FOLLOWED_UNKNOWN,
                               (uint64_t)p->reserved_lease_ns, p->reserved_epoch};
    cv__effect_persist(out, record, COUNT_OF(record));
}

/* During a stable leadership: reserves epochs for the next elections. */
static void reserve_ahead(struct pole *p, struct cv_effects *out)
{
    if (p->reserve_count > 0 && !is_reserved(p, p->reserve_count / 2)) {
        reserve(p, out);
    }
    CV_ASSERT(p->reserve_count == 0 || is_reserved(p, 0));
}

static void save(struct pole *p, struct cv_effects *out)
{
    CV_ASSERT(p->followed_epoch <= p->epoch);
    CV_ASSERT(p->claimed_epoch <= p->epoch);
    if (p->reserve_count > 0) {
        if (!is_reserved(p, 0)) {
            reserve(p, out);
        }
        CV_ASSERT(is_reserved(p, 0));
        return;
    }
    const uint64_t record[] = {p->followed_epoch, p->followed, (uint64_t)p->followed_lease_ns,
                               p->claimed_epoch};
    cv__effect_persist(out, record, COUNT_OF(record));
}

/* Is it bound by a promise to another process? */
static bool is_bound(const struct pole *p, cv_id leader, int64_t now_ns)
{
    CV_ASSERT(leader != CV_ID_NONE);
    return p->promise.to != leader && now_ns < p->promise.until_ns;
}

static void arm_promise(struct pole *p, struct cv_effects *out)
{
    CV_ASSERT(p->promise.until_ns != 0);
    CV_ASSERT(p->promise.until_ns != INT64_MAX);
    pole_arm(p, POLE_TIMER_PROMISE, p->promise.until_ns, p->promise.until_ns, out);
}

/* The promise has run out, or the process it was given to has released it. */
static void end_promise(struct pole *p)
{
    CV_ASSERT(p->promise.until_ns != 0);
    p->promise = (struct pole_promise){0};
}

/* The longest lease that the promise saved now may get: with profile=auto the next heartbeat may
 * carry another lease. */
static int64_t lease_to_save(const struct pole *p, int64_t lease_ns)
{
    return p->tuning.is_auto ? cv__max64(lease_ns, p->tuning.lease_ns_max) : lease_ns;
}

/* Follows itself, unless it is bound by a promise to another. Saves the claim. */
static void follow_self(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(pole_is_claimant(p));
    CV_ASSERT(p->leader_epoch == p->claimed_epoch);
    if (p->role == POLE_BOUND && is_bound(p, p->self, now_ns)) {
        cv__effect_note(out, "claims, but does not follow itself: promised to {peer} until {time}",
                        p->promise.to, p->promise.until_ns, p->leader_epoch);
        save(p, out);
        arm_promise(p, out);
        return;
    }
    CV_ASSERT(p->leader_epoch > p->followed_epoch);
    p->followed_epoch = p->leader_epoch;
    p->followed = p->self;
    p->followed_lease_ns = lease_to_save(p, p->lease_ns);
    save(p, out);
    if (p->role == POLE_BOUND) {
        cv__pole_become(p, POLE_CLAIMING, p->self);
    }
    p->promise = (struct pole_promise){.to = p->self, .until_ns = INT64_MAX};
    CV_ASSERT(p->followed_epoch == p->claimed_epoch); /* it follows the epoch that it claims */
}

int64_t cv__pole_extra_ns(const struct pole *p)
{
    CV_ASSERT(p->slow_ns >= 0);
    CV_ASSERT(p->patience_ns >= 0);
    return 2 * p->slow_ns + p->patience_ns;
}

void cv__pole_wait_longer(struct pole *p)
{
    p->patience_ns = cv__min64(2 * p->patience_ns + p->wait_ns, POLE_PATIENCE_LEASES * p->lease_ns);
    cv__pole_tune_failed(p);
}

/* ---- Claiming and leading -------------------------------------------------------------------- */

static void beat(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(pole_is_claimant(p));
    CV_ASSERT(p->token <= p->leader_epoch);
    CV_ASSERT(p->leader_epoch == p->claimed_epoch); /* follow_self() saved it before this is sent */
    cv__pole_tune_beat(p, now_ns);
    p->seq++;
    p->sent_ns[p->seq % POLE_BEATS_KEPT] = now_ns;
    p->ends_ns[p->seq % POLE_BEATS_KEPT] = now_ns + p->lead_ns;
    const struct pole_heartbeat heartbeat = {
        .epoch = p->leader_epoch,
        .nonce = p->nonce,
        .seq = p->seq,
        .established = pole_is_leading(p),
        .token = p->token,
        .lease = (uint64_t)p->lease_ns,
        .beat = (uint64_t)p->eta_ns,
        .quorate = p->own.is_quorate,
        POLE_SCORE_INIT(p->own.score),
    };
    pole_heartbeat_write(cv__effect_send_all(out, POLE_HEARTBEAT), heartbeat);
    pole_arm(p, POLE_TIMER_BEAT, now_ns + p->eta_ns, now_ns + p->eta_ns, out);
}

/* How many other members carry a leadership beyond an instant; and of all their ends, the first one
 * after that instant and the last one before or at it. */
struct longer {
    uint32_t count;
    int64_t first_ns, last_before_ns;
};

static struct longer look_longer(struct pole *p, int64_t until_ns)
{
    struct longer longer = {.first_ns = INT64_MAX};
    for (cv_id id = 1; id <= p->member_count; id++) {
        const int64_t carries_ns = pole_peer(p, id)->carries_ns;
        if (id == p->self) {
            continue;
        }
        if (carries_ns > until_ns) {
            longer.count++;
            longer.first_ns = cv__min64(longer.first_ns, carries_ns);
        } else {
            longer.last_before_ns = cv__max64(longer.last_before_ns, carries_ns);
        }
    }
    return longer;
}

/* Until when a majority carries the leadership. This process counts itself as long as it claims, so
 * it is the (quorum-1)-th latest end of the others; 0 if that is not after `known_ns`. Most FOLLOWs
 * complete no majority and cost one pass over the members. Otherwise the end is found by bisecting
 * the time since `known_ns`; each half is narrowed to the ends within it. */
static int64_t carried_ns(struct pole *p, int64_t known_ns, int64_t now_ns)
{
    const uint32_t others = p->quorum - 1;
    CV_ASSERT(2 * p->quorum > p->member_count); /* any two majorities share a process */
    if (others == 0) {
        return now_ns + p->lead_ns;
    }
    if (look_longer(p, known_ns).count < others) {
        return 0;
    }
    /* enough ends are later than this ... */
    int64_t low = known_ns;
    int64_t high = look_longer(p, INT64_MAX).last_before_ns; /* ... and not enough than this */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const struct longer longer = look_longer(p, middle);
        if (longer.count >= others) {
            low = longer.first_ns - 1;
        } else {
            high = longer.last_before_ns;
        }
        CV_ASSERT(low < high);
    }
    CV_ASSERT(look_longer(p, high).count < others);
    return high;
}

static void establish(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->token > p->token_max); /* larger than every leadership it knows of */
    CV_ASSERT(p->token == p->followed_epoch);
    CV_ASSERT(now_ns < p->valid_until_ns);
    cv__pole_become(p, POLE_LEADING, p->self);
    cv__pole_tune_established(p, now_ns);
    p->token_max = p->token;
    p->suspect = CV_ID_NONE;
    clear_doubts(p);
    for (cv_id id = 1; id <= p->member_count; id++) {
        pole_peer(p, id)->better_since_ns = 0;
    }
    p->view = p->self;
    p->view_token = p->token;
    CV_ASSERT(p->view_token == p->token_max); /* no newer leadership is known */
    tell(p, CV_REASON_ELECTED, out);
    beat(p, now_ns, out); /* tells the followers that it leads */
    reserve_ahead(p, out);
}

/* Is there a majority, and until when? */
static void look_for_majority(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!pole_is_leading(p) || now_ns < p->valid_until_ns);
    if (p->role != POLE_CLAIMING && p->role != POLE_LEADING) {
        return; /* bound to another, or leaving */
    }
    CV_ASSERT(p->promise.to == p->self); /* a majority includes the leader itself */
    const bool is_leading = p->role == POLE_LEADING;
    const int64_t until_ns = carried_ns(p, is_leading ? p->valid_until_ns : 0, now_ns);
    if (until_ns <= now_ns) {
        return;
    }
    if (!is_leading && cv__pole_tune_is_early(p, until_ns, now_ns)) {
        /* The leadership would be lost at once; later heartbeats carry a longer lease. */
        cv__effect_note(out, "a majority follows, but only until {time}: waits for a longer lease",
                        CV_ID_NONE, until_ns, p->leader_epoch);
        return;
    }
    if (!is_leading) {
        if (p->token <= p->token_max) { /* this claim will yield or be given up */
            cv__effect_note(out, "a majority follows, but a leader with token {number} was seen",
                            CV_ID_NONE, 0, p->token_max);
            return;
        }
        p->valid_until_ns = until_ns;
        establish(p, now_ns, out);
    } else if (until_ns > p->valid_until_ns) { /* never moves backwards within a token */
        p->valid_until_ns = until_ns;
        tell(p, CV_REASON_RENEWED, out);
    } else {
        return;
    }
    pole_arm(p, POLE_TIMER_CLAIM, p->valid_until_ns, p->valid_until_ns, out);
}

static void forget_answers(struct pole *p)
{
    CV_ASSERT(!pole_is_leading(p)); /* a leadership rests on them */
    for (cv_id id = 1; id <= p->member_count; id++) {
        pole_peer(p, id)->carries_ns = 0;
    }
}

/* Takes an epoch to claim, above all epochs that were followed or claimed. */
static void take_epoch(struct pole *p, uint64_t epoch)
{
    CV_ASSERT(pole_is_claimant(p));
    epoch = cv__max_u64(epoch, p->followed_epoch + 1);
    epoch = cv__max_u64(epoch, p->claimed_epoch + 1);
    p->leader_epoch = epoch;
    p->claimed_epoch = epoch;
    p->epoch = cv__max_u64(p->epoch, epoch);
    if (!pole_is_leading(p)) {
        p->token = epoch;
        forget_answers(p);
    }
    CV_ASSERT(p->claimed_epoch > p->followed_epoch); /* no epoch is followed twice */
    CV_ASSERT(p->epoch >= p->claimed_epoch);
    CV_ASSERT(p->token <=
              p->leader_epoch); /* a leader keeps its token, a claimant takes a new one */
}

void cv__pole_stand(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_BOUND);
    CV_ASSERT(p->promise.to != p->self);
    p->valid_until_ns = 0;
    cv__pole_tune_beat(p, now_ns); /* uses the measurements of the last claim */
    p->claim_until_ns = now_ns + p->lease_ns + 2 * p->round_ns + 2 * cv__pole_extra_ns(p);
    p->stood_ns = now_ns;
    take_epoch(p, p->leader_epoch);
    follow_self(p, now_ns, out);
    beat(p, now_ns, out);
    pole_arm(p, POLE_TIMER_CLAIM, p->claim_until_ns, p->claim_until_ns, out);
    look_for_majority(p, now_ns, out);
}

/* Ends all promises to us, after any leadership on them has ended. */
static void release(struct pole *p, cv_id heir, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!pole_is_leading(p));
    CV_ASSERT(p->leader_epoch == p->claimed_epoch); /* only the claimant itself releases */
    if (now_ns >= p->quarantine_ns) {
        pole_release_write(cv__effect_send_all(out, POLE_RELEASE),
                           (struct pole_release){.epoch = p->leader_epoch, .heir = heir});
    } else {
        cv__effect_note(out, "nothing released: an earlier life may have led until {time}", heir,
                        p->quarantine_ns, p->leader_epoch);
    }
    if (p->promise.to == p->self) {
        end_promise(p);
    }
    CV_ASSERT(p->promise.to != p->self);
}

/* The message releases what release() would, with the same two conditions. Its epoch is the largest
 * ever claimed, and saved. A later life claims larger ones, so this RELEASE cannot free a promise
 * to a later life, however late it comes. The leadership on these promises is over, because the
 * process that could act on it is dead. For leaderships of earlier lives this is not known. */
bool cv__pole_farewell(const void *state, int64_t now_ns, struct cv_message *ret_message)
{
    const struct pole *p = state;
    CV_ASSERT(p->claimed_epoch <= p->epoch);
    /* nothing larger was claimed */
    CV_ASSERT(!pole_is_claimant(p) || p->leader_epoch == p->claimed_epoch);
    if (p->role == POLE_STOPPED || p->claimed_epoch == 0 || now_ns < p->quarantine_ns) {
        return false;
    }
    *ret_message = (struct cv_message){.type = POLE_RELEASE};
    pole_release_write(ret_message,
                       (struct pole_release){.epoch = p->claimed_epoch, .heir = CV_ID_NONE});
    return true;
}

void cv__pole_abdicate(struct pole *p, enum cv_reason reason, cv_id heir, int64_t now_ns,
                       struct cv_effects *out)
{
    CV_ASSERT(pole_is_claimant(p));
    /* first: a leadership ends before its promises are released */
    cv__pole_become(p, POLE_SELECTING, CV_ID_NONE);
    cv__pole_forget(p, reason, out);
    release(p, heir, now_ns, out);
    CV_ASSERT(p->view != p->self); /* the application knew before the followers do */
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
    if (pole_is_claimant(p)) {
        CV_ASSERT(!pole_is_leading(p) || now_ns < p->valid_until_ns);
        beat(p, now_ns, out);
        look_for_majority(p, now_ns, out); /* a cluster of one is its own majority */
    }
}

/* No majority followed the claim in time: other processes may reach a majority. */
void cv__pole_on_claim_end(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if ((p->role != POLE_BOUND && p->role != POLE_CLAIMING) || now_ns < p->claim_until_ns) {
        return;
    }
    cv__effect_note(out, "gives up its claim of epoch {number}: no majority followed by {time}",
                    p->self, p->claim_until_ns, p->leader_epoch);
    p->vain_epoch = p->leader_epoch;
    cv__pole_wait_longer(p);
    p->has_had_turn = true;
    p->stands_back = true;
    pole_arm(p, POLE_TIMER_BACK, now_ns + 2 * p->lease_ns, now_ns + 4 * p->lease_ns, out);
    cv__pole_abdicate(p, CV_REASON_LOST_QUORUM, CV_ID_NONE, now_ns, out);
}

/* ---- Following ------------------------------------------------------------------------------- */

static void refuse(struct pole *p, cv_id claimant, struct cv_effects *out)
{
    CV_ASSERT(claimant != p->self);
    cv__effect_note(out, "HEARTBEAT of {peer} refused: epoch {number} was followed already",
                    claimant, 0, p->followed_epoch);
    pole_epoch_write(cv__effect_send(out, claimant, POLE_REFUSE),
                     (struct pole_epoch){p->followed_epoch});
}

/* A message that was not late itself came after `ns` and was expected after `expected_ns`: a disk
 * is slow, or a process was paused. */
static void note_slow(struct pole *p, const struct cv_event *event, int64_t ns, int64_t expected_ns)
{
    if (event->delay_ns_max <= 4 * p->delta_ns) {
        const int64_t slow_ns = cv__max64(ns - expected_ns, p->slow_ns / 2);
        p->slow_ns = cv__min64(slow_ns, POLE_SLOW_LEASES * p->lease_ns);
    }
}

/* The chosen process was heard. */
static void listen(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->leader != CV_ID_NONE);
    CV_ASSERT(p->leader != p->self);
    p->awaited = CV_ID_NONE;
    cv__pole_become(p, POLE_FOLLOWING, p->leader);
    const int64_t until_ns =
        now_ns + p->epsilon_ns + (p->view == p->leader ? 0 : cv__pole_extra_ns(p));
    pole_arm(p, POLE_TIMER_SILENCE, until_ns, until_ns, out);
}

/* No other promise binds this process: it promises, and answers. */
static bool follow(struct pole *p, cv_id leader, const struct pole_claim *claim, int64_t now_ns,
                   struct cv_effects *out)
{
    CV_ASSERT(!is_bound(p, leader, now_ns));
    CV_ASSERT(!pole_is_claimant(p));
    CV_ASSERT(leader != p->self);
    const uint64_t epoch = claim->epoch;
    const int64_t lease_ns = claim->lease_ns;
    const bool is_same = p->followed == leader && p->followed_epoch == epoch;
    if (epoch < p->followed_epoch && p->followed == leader) {
        cv__effect_note(
            out, "HEARTBEAT of {peer} ignored: it is late, the later epoch {number} was followed",
            leader, 0, p->followed_epoch);
        return false;
    }
    if (epoch <= p->followed_epoch && !is_same) {
        refuse(p, leader, out);
        if (p->role == POLE_SELECTING) {
            /* The refused process claims again, above the epoch that we followed. */
            cv__pole_select(p, leader, p->followed_epoch + 1, now_ns, out);
        }
        return false;
    }
    p->epoch = cv__max_u64(p->epoch, epoch);
    int64_t saved_lease_ns = lease_to_save(p, lease_ns);
    if (p->promise.to == leader) { /* its earlier heartbeat may have carried a longer lease */
        saved_lease_ns = cv__max64(saved_lease_ns, p->followed_lease_ns);
    }
    if (!is_same || saved_lease_ns != p->followed_lease_ns) {
        p->followed_epoch = epoch;
        p->followed = leader;
        p->followed_lease_ns = saved_lease_ns;
        save(p, out); /* before the answer that promises it */
    }
    if (p->view != leader) {
        cv__pole_forget(p, CV_REASON_SUPERSEDED, out);
    }
    cv__pole_become(p, POLE_FOLLOWING, leader);
    p->leader_epoch = epoch;
    pole_disarm(p, POLE_TIMER_RETRY, out);
    pole_disarm(p, POLE_TIMER_ELECT, out);
    const int64_t bound_ns = p->promise.to == leader ? p->promise.until_ns : 0;
    p->promise = (struct pole_promise){leader, cv__max64(bound_ns, now_ns + lease_ns)};
    CV_ASSERT(p->followed == leader); /* the saved pair is the promised one */
    CV_ASSERT(p->followed_lease_ns >= lease_ns);
    CV_ASSERT(p->promise.until_ns <= now_ns + p->followed_lease_ns); /* a restart waits for it */
    pole_follow_write(cv__effect_send(out, leader, POLE_FOLLOW),
                      (struct pole_follow){.epoch = epoch,
                                           .nonce = claim->nonce,
                                           .seq = claim->seq,
                                           .late = (uint64_t)p->tuning.late_ns});
    cv__pole_tune_adopt(p, lease_ns, claim->beat_ns);
    listen(p, now_ns, out);
    return true;
}

/* Bound by a promise to another: remembers the newest claim, and answers it when the promise
 * ends. */
static void postpone(struct pole *p, cv_id leader, const struct pole_claim *claim, int64_t now_ns,
                     struct cv_effects *out)
{
    CV_ASSERT(is_bound(p, leader, now_ns));
    CV_ASSERT(!pole_is_claimant(p));
    CV_ASSERT(leader != p->self); /* its own claim needs no answer */
    cv__effect_note(out,
                    p->promise.to != CV_ID_NONE
                        ? "HEARTBEAT not answered yet: promised to {peer} until {time}"
                        : "HEARTBEAT not answered yet: may have promised before the restart, until "
                          "{time}",
                    p->promise.to, p->promise.until_ns, claim->epoch);
    p->pending = leader;
    p->pending_claim = *claim;
    p->pending_ns = now_ns;
    arm_promise(p, out);
    if (p->role == POLE_SELECTING) {
        cv__pole_select(p, leader, claim->epoch, now_ns, out);
        listen(p, now_ns, out);
    }
}

static void follow_pending(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    const cv_id leader = p->pending;
    const struct pole_claim claim = p->pending_claim;
    CV_ASSERT(!pole_is_claimant(p));
    p->pending = CV_ID_NONE;
    if (leader == CV_ID_NONE) {
        return;
    }
    if (leader != p->leader || now_ns - p->pending_ns >= p->epsilon_ns ||
        pole_peer(p, leader)->released_epoch >= claim.epoch) {
        cv__effect_note(out, "the postponed claim of {peer} is not answered: it is over", leader, 0,
                        claim.epoch);
        return;
    }
    (void)follow(p, leader, &claim, now_ns, out);
}

void cv__pole_on_promise_end(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    if (p->promise.until_ns != 0 && p->promise.to != p->self && now_ns < p->promise.until_ns) {
        arm_promise(p, out);
        return;
    }
    if (p->role == POLE_BOUND) {
        CV_ASSERT(!is_bound(p, p->self, now_ns));
        if (p->followed_epoch >= p->leader_epoch) {
            take_epoch(p, p->followed_epoch + 1);
        }
        follow_self(p, now_ns, out);
        CV_ASSERT(p->role == POLE_CLAIMING); /* no promise keeps it from following itself now */
        beat(p, now_ns, out);
        look_for_majority(p, now_ns, out);
    } else if (!pole_is_claimant(p)) {
        follow_pending(p, now_ns, out);
    }
}

/* An unestablished claimant hears another: does it yield? */
static bool yields_to(const struct pole *p, const struct pole_heartbeat *h,
                      const struct pole_proposal *theirs)
{
    CV_ASSERT(p->role == POLE_BOUND || p->role == POLE_CLAIMING);
    CV_ASSERT(theirs->id != p->self);
    if (h->established) {
        return true;
    }
    if (h->epoch != p->leader_epoch) {
        return h->epoch > p->leader_epoch;
    }
    return cv__pole_is_larger(p, theirs, &p->own);
}

/* Why a heartbeat is not one of a present claimant or leader; NULL: it is. */
static const char *reason_to_ignore(struct pole *p, cv_id from, const struct pole_heartbeat *h)
{
    CV_ASSERT(from != p->self);
    if (h->lease < 1 || h->lease > POLE_LEASE_NS_MAX || h->beat > h->lease || h->token > h->epoch) {
        return "HEARTBEAT of {peer} ignored: its lease, beat or token is out of range";
    }
    if (pole_peer(p, from)->released_epoch >= h->epoch) {
        return "HEARTBEAT of {peer} ignored: it has released epoch {number}";
    }
    if (h->established && h->token < p->token_max) {
        return "HEARTBEAT of {peer} ignored: it is late, a leader after its epoch {number} was "
               "seen";
    }
    return NULL;
}

/* Ends a claim of our own in favour of another. True: this process has no leader now. */
static bool yield_claim(struct pole *p, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_BOUND || p->role == POLE_CLAIMING);
    release(p, CV_ID_NONE, now_ns, out);
    cv__pole_reset_epoch(p, now_ns, out);
    if (p->role != POLE_SELECTING) {
        return false;
    }
    CV_ASSERT(p->promise.to != p->self);
    p->retry_ns = p->round_ns; /* the back-off restarts, as after the end of every choice */
    pole_arm(p, POLE_TIMER_RETRY, now_ns + p->round_ns, now_ns + p->round_ns, out);
    return true;
}

/* A heartbeat of a present claimant or leader, heard by a process that neither claims nor leads. */
static void consider_following(struct pole *p, cv_id from, const struct pole_heartbeat *h,
                               int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!pole_is_claimant(p));
    CV_ASSERT(from != p->self);
    const struct pole_claim claim = {.epoch = h->epoch,
                                     .nonce = h->nonce,
                                     .seq = h->seq,
                                     .lease_ns = (int64_t)h->lease,
                                     .beat_ns = (int64_t)h->beat};
    if (p->leader == from && p->leader_epoch <= h->epoch) {
        listen(p, now_ns, out);
    }
    const bool is_choice_free =
        p->leader == CV_ID_NONE || p->promise.until_ns == 0 || p->promise.to != p->leader;
    if (!h->established && p->leader != from && !is_choice_free) {
        cv__effect_note(out, "HEARTBEAT not answered: not established, and follows {peer}",
                        p->leader, 0, h->epoch);
        return;
    }
    /* The application is told only of a leader whose epoch is saved. Otherwise a crash could make
     * this process forget it and report an older leader afterwards. */
    bool is_followed = false;
    if (is_bound(p, from, now_ns)) {
        postpone(p, from, &claim, now_ns, out);
    } else {
        is_followed = follow(p, from, &claim, now_ns, out);
    }
    if (is_followed && h->established && p->leader == from) {
        p->suspect = CV_ID_NONE;
        see(p, from, h->token, out);
        reserve_ahead(p, out);
    }
}

void cv__pole_on_heartbeat(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_heartbeat h = pole_heartbeat_read(event->message);
    const cv_id from = event->peer;
    struct pole_proposal theirs = {.id = from, .is_quorate = h.quorate};
    CV_ASSERT(from != p->self);
    CV_ASSERT(h.epoch < POLE_EPOCH_MAX);
    const char *reason = POLE_SCORE_READ(h, &theirs.score)
                             ? reason_to_ignore(p, from, &h)
                             : "HEARTBEAT of {peer} ignored: its score is out of range";
    if (reason != NULL) {
        cv__effect_note(out, reason, from, 0, h.epoch);
        return;
    }
    if (from == p->awaited) {
        if (!h.established) {
            note_slow(p, event, event->now_ns - p->awaited_ns, p->wait_ns / 2);
        }
        p->awaited = CV_ID_NONE;
    }
    if (h.established) {
        CV_ASSERT(h.token >= p->token_max); /* never falls: older leaders were ignored */
        p->token_max = h.token;
        p->epoch = cv__max_u64(p->epoch, h.token);
        clear_doubts(p);
    }
    if (pole_is_leading(p)) {
        cv__effect_note(out, "HEARTBEAT of {peer} ignored: this process leads", from, 0, h.epoch);
        return;
    }
    if (pole_is_claimant(p) && !yields_to(p, &h, &theirs)) {
        cv__effect_note(out, "HEARTBEAT of {peer} ignored: our own claim is larger", from, 0,
                        h.epoch);
        return;
    }
    if (pole_is_claimant(p) && !yield_claim(p, event->now_ns, out)) {
        return;
    }
    consider_following(p, from, &h, event->now_ns, out);
}

/* Are the send time and the lease of this heartbeat still kept? */
static bool is_kept(const struct pole *p, uint64_t seq)
{
    return seq <= p->seq && seq + POLE_BEATS_KEPT > p->seq;
}

/* Why a FOLLOW does not count; NULL: it does. */
static const char *reason_not_to_count(const struct pole *p, const struct pole_follow *f)
{
    CV_ASSERT(!pole_is_claimant(p) || p->token <= p->leader_epoch);
    if (!pole_is_claimant(p)) {
        return "FOLLOW of {peer} ignored: not claiming";
    }
    if (f->nonce != p->nonce) {
        return "FOLLOW of {peer} ignored: it answers an earlier life of this process";
    }
    if (f->epoch < p->token || f->epoch > p->leader_epoch) {
        return "FOLLOW of {peer} ignored: epoch {number} is not claimed now";
    }
    if (!is_kept(p, f->seq)) {
        return "FOLLOW of {peer} ignored: it answers a heartbeat that is too old";
    }
    return NULL;
}

/* [lease ours] Counted from when the heartbeat was sent, and with the lease that it carried, by our
 * own record of both (T3). */
void cv__pole_on_follow(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_follow f = pole_follow_read(event->message);
    const char *reason = reason_not_to_count(p, &f);
    /* measured even if it comes too late to count */
    if (f.nonce == p->nonce && is_kept(p, f.seq)) {
        cv__pole_tune_answered(p, event->peer, f.seq, f.late, event->now_ns);
    }
    if (reason != NULL) {
        cv__effect_note(out, reason, event->peer, 0, f.epoch);
        if (!pole_is_claimant(p) && f.nonce == p->nonce && f.epoch == p->vain_epoch) {
            note_slow(p, event, (event->now_ns - p->stood_ns) / 2, 0); /* the sum of two saves */
        }
        return;
    }
    struct pole_peer *peer = pole_peer(p, event->peer);
    CV_ASSERT(event->peer != p->self);
    CV_ASSERT(p->sent_ns[f.seq % POLE_BEATS_KEPT] <= event->now_ns);
    if (p->ends_ns[f.seq % POLE_BEATS_KEPT] <= peer->carries_ns) {
        cv__effect_note(out, "FOLLOW of {peer} adds nothing: it follows until {time} already",
                        event->peer, peer->carries_ns, f.epoch);
    }
    peer->carries_ns = cv__max64(peer->carries_ns, p->ends_ns[f.seq % POLE_BEATS_KEPT]);
    look_for_majority(p, event->now_ns, out);
}

void cv__pole_on_refuse(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t followed = pole_epoch_read(event->message).epoch;
    CV_ASSERT(followed < POLE_EPOCH_MAX);
    if (!pole_is_claimant(p)) {
        cv__effect_note(out, "REFUSE of {peer} ignored: not claiming", event->peer, 0, followed);
        p->epoch = cv__max_u64(p->epoch, followed);
        return;
    }
    if (followed >= p->leader_epoch) {
        take_epoch(p, followed + 1);
        follow_self(p, event->now_ns, out);
        beat(p, event->now_ns, out);
        CV_ASSERT(p->leader_epoch > followed);
    } else {
        cv__effect_note(out, "REFUSE of {peer} ignored: it is about a claim before ours, {number}",
                        event->peer, 0, p->leader_epoch);
    }
}

/* The chosen leader or claimant has stepped down: chooses its successor. */
static void succeed(struct pole *p, cv_id heir, uint64_t epoch, int64_t now_ns,
                    struct cv_effects *out)
{
    CV_ASSERT(p->role == POLE_AWAITING || p->role == POLE_FOLLOWING);
    CV_ASSERT(p->epoch >= epoch);
    if (heir == p->self && p->is_candidate) {
        p->stands_back = false;
        p->epoch++;
        cv__pole_reset_epoch(p, now_ns, out);
        if (p->role == POLE_SELECTING) {
            cv__pole_select(p, p->self, p->epoch, now_ns, out);
        }
    } else if (heir != CV_ID_NONE && heir != p->self) {
        cv__pole_reset_epoch(p, now_ns, out);
        if (p->role == POLE_SELECTING) {
            cv__pole_select(p, heir, epoch + 1, now_ns, out);
        }
    } else {
        cv__pole_new_election(p, now_ns, out);
    }
}

void cv__pole_on_release(struct pole *p, const struct cv_event *event, struct cv_effects *out)
{
    const struct pole_release r = pole_release_read(event->message);
    const uint64_t epoch = r.epoch;
    const cv_id from = event->peer;
    CV_ASSERT(from != p->self); /* only the process that a promise is for releases it */
    struct pole_peer *peer = pole_peer(p, from);
    peer->released_epoch = cv__max_u64(peer->released_epoch, epoch);
    const bool was_leader = p->leader == from && p->leader_epoch <= epoch;
    CV_ASSERT(!was_leader || !pole_is_claimant(p));
    CV_ASSERT(peer->released_epoch >= epoch); /* never falls */
    if (p->promise.until_ns != 0 && p->promise.to == from && p->followed == from &&
        p->followed_epoch <= epoch) {
        end_promise(p);
        cv__pole_on_promise_end(p, event->now_ns, out);
    }
    if (!was_leader || p->leader != from) {
        cv__effect_note(out, "RELEASE of {peer}: it was not our choice in epoch {number}", from, 0,
                        epoch);
        return;
    }
    cv__pole_forget(p, CV_REASON_RESIGNED, out);
    p->epoch = cv__max_u64(p->epoch, epoch);
    succeed(p, r.heir, epoch, event->now_ns, out);
}
