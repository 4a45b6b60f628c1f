/* src/protocols/pole_tune.c - profile=auto: the leader chooses heartbeat and lease by measuring.
 *
 * Ours; [Becker11] has constants. A leader measures what its own lease depends on: how long a
 * heartbeat and its answer take, how many of them are lost, and how late its timers and those of
 * its followers are (a follower says so in FOLLOW). From the worst of those that follow it chooses
 * a lease within lease-min and lease-max and how often it is heard; both travel in the heartbeat,
 * and followers take their own times from the lease. Measurements are kept as a decaying peak: the
 * lease widens at once (at most to twice its length within one lease, because one pause of a
 * process looks like a slow network) and narrows by a sixteenth per second.
 *
 * Before the first election nothing was measured, so all members begin with lease-max. An election
 * waits for time-outs only if a member is missing, so it is fast on a fast network nevertheless.
 * Three signs of too short times widen them: a claim in vain, a lost lease, a message whose delay
 * may have been too long.
 *
 * WHY NEVER TWO LEADERS. The argument of pole_claim.c is for one lease; with one lease for each
 * heartbeat it is the same, heartbeat by heartbeat, and needs rho alone:
 * - FOLLOW binds the follower for the lease that was in the heartbeat it answers, from when it was
 *   received. A later heartbeat with a shorter lease does not end that promise earlier.
 * - The leader counts the answer from when it sent that heartbeat, with the lease that was in it
 *   (carries_ns), whatever it has chosen since. So each answer carries the leadership until before
 *   the promise ends, and the leadership ends at the majority's earliest end.
 * - A restarted process does not know which leases it had promised or led by. It follows no process
 *   and releases nothing for the longest lease it may have heard: lease-max, which is what is saved
 *   with a promise, or a longer one if it was in a heartbeat. So a changed lease needs no save.
 * - Hosts that wait for promises to end also wait for lease-max: a member without a state, and a
 *   witness before it reports that nothing of the earlier life is left (cv_protocol.lease_ns).
 * Measurements decide only how fast and how steady elections are: a process that reports nonsense
 * can make leases as long as lease-max or as short as lease-min. */
#include "protocols/pole_tune.h"

#include "protocols/pole.h"
#include "protocols/pole_config.h"

#define SECOND NS_PER_S
#define TRIP_DECAY 8  /* round trips: the peak loses an eighth in a second */
#define LATE_DECAY 64 /* the same for lateness, which comes in bursts with long pauses between */
#define NARROW 16     /* the lease loses at most a sixteenth in a second */
#define DECAY_STEPS_MAX 128
#define LOSS_UNIT INT64_C(1000000)
#define LOSS_WEIGHT 64 /* the share of lost heartbeats is a mean over about this number */
#define LOSS_GAP_MAX 8 /* more in a row are not loss: the process was cut off or stopped */
#define BEATS_MIN 4    /* heartbeats sent when one would be enough, ... */
#define BEATS_MAX 24   /* ... at most so many if messages are lost, ... */
#define BEATS_ROOM 8   /* ... so many fit into a lease; for more it is widened */

/* A lease is 2 round trips and 5 times the lateness. The answer to a heartbeat takes one round
 * trip, and the next heartbeats are under way for another. A late timer delays sending and
 * receiving, and the largest lateness seen so far is not the largest possible. */
#define TRIPS_IN_LEASE 2
#define LATES_IN_LEASE 5

#define BEAT_NS_MAX (20 * NS_PER_MS) /* frequent heartbeats cost little and measure more */

/* ---- Times from a lease ---------------------------------------------------------------------- */

int64_t cv__pole_tune_delta_ns(int64_t lease_ns)
{
    CV_ASSERT(lease_ns >= 1);
    return lease_ns / 4;
}

int64_t cv__pole_tune_sigma_ns(int64_t lease_ns)
{
    CV_ASSERT(lease_ns >= 1);
    return lease_ns / 8;
}

int64_t cv__pole_tune_timeout_ns(int64_t lease_ns)
{
    CV_ASSERT(lease_ns >= 1);
    return lease_ns - lease_ns / 4;
}

int64_t cv__pole_tune_round_ns(int64_t lease_ns)
{
    return lease_ns - lease_ns / 16; /* at least 3 delta + sigma */
}

/* At most POLE_BEATS_KEPT heartbeats in two leases, because only their send times are kept. */
int64_t cv__pole_tune_beat_ns(int64_t lease_ns, int64_t wanted_ns)
{
    const int64_t most_ns = cv__min64(lease_ns / 5, BEAT_NS_MAX);
    const int64_t beat_ns = cv__max64(cv__max64(lease_ns / 32, 1), cv__min64(wanted_ns, most_ns));
    CV_ASSERT(beat_ns >= 1);
    CV_ASSERT(beat_ns >= lease_ns / POLE_BEATS_KEPT); /* a send time is known while it counts */
    return beat_ns;
}

static void set_times(struct pole *p, int64_t lease_ns, int64_t beat_ns)
{
    struct pole_tuning *t = &p->tuning;
    CV_ASSERT(t->is_auto);
    CV_ASSERT(lease_ns >= 1);
    CV_ASSERT(beat_ns >= 1);
    CV_ASSERT(lease_ns <= t->lease_ns_max); /* a restarted process waits for no more */
    p->lease_ns = lease_ns;
    p->lead_ns = cv__pole_lead_of(lease_ns, t->drift_ppb);
    p->eta_ns = beat_ns;
    p->delta_ns = cv__pole_tune_delta_ns(lease_ns);
    p->sigma_ns = cv__pole_tune_sigma_ns(lease_ns);
    p->epsilon_ns = cv__pole_tune_timeout_ns(lease_ns);
    p->round_ns = cv__pole_tune_round_ns(lease_ns);
    p->retry_ns_max = 4 * p->round_ns;
    p->wait_ns = 2 * p->round_ns;
    /* a leadership ends before the promises that it rests on */
    CV_ASSERT(p->lead_ns < p->lease_ns);
}

void cv__pole_tune_init(struct pole *p, const struct cv_config *config)
{
    const int64_t *o = config->option;
    struct pole_tuning *t = &p->tuning;
    t->is_auto = o[POLE_OPTION_PROFILE] == POLE_PROFILE_AUTO;
    t->lease_ns_max = o[POLE_OPTION_LEASE_MAX];
    if (!t->is_auto) {
        return;
    }
    t->drift_ppb = config->drift_ppb;
    t->lease_ns_min = o[POLE_OPTION_LEASE_MIN];
    set_times(p, p->lease_ns, p->eta_ns);
    CV_ASSERT(p->lease_ns == t->lease_ns_max); /* nothing is measured yet */
}

/* ---- Measurements ---------------------------------------------------------------------------- */

static int64_t decayed(int64_t ns, int64_t part)
{
    CV_ASSERT(ns >= 0);
    CV_ASSERT(part > 0);
    return ns - ns / part;
}

static void decay(struct pole *p, int64_t now_ns)
{
    struct pole_tuning *t = &p->tuning;
    const int64_t steps = cv__min64((now_ns - t->decayed_ns) / SECOND, DECAY_STEPS_MAX);
    if (steps <= 0) {
        return;
    }
    t->decayed_ns = now_ns;
    for (int64_t i = 0; i < steps; i++) {
        t->late_ns = decayed(t->late_ns, LATE_DECAY);
        for (cv_id id = 1; id <= p->member_count; id++) {
            struct pole_peer *peer = pole_peer(p, id);
            peer->trip_ns = decayed(peer->trip_ns, TRIP_DECAY);
        }
    }
}

/* A process that was stopped may be late by any time; half a lease is enough to widen the lease. */
void cv__pole_tune_fired(struct pole *p, uint32_t timer, int64_t now_ns)
{
    struct pole_tuning *t = &p->tuning;
    CV_ASSERT(timer < POLE_TIMER_COUNT);
    if (!t->is_auto || t->due_ns[timer] == 0) {
        return;
    }
    decay(p, now_ns);
    const int64_t late_ns = cv__min64(now_ns - t->due_ns[timer], p->lease_ns / 2);
    t->late_ns = cv__max64(t->late_ns, late_ns);
    CV_ASSERT(t->late_ns >= 0);
    t->due_ns[timer] = 0;
}

/* The heartbeats between the last answered one and this one are lost, or their answers are. */
static void note_loss(struct pole_peer *peer, uint64_t seq)
{
    if (seq <= peer->trip_seq) {
        return; /* a later answer came first */
    }
    const uint64_t missing = peer->trip_seq != 0 ? seq - peer->trip_seq - 1 : 0;
    for (uint64_t i = 0; i < missing && i < LOSS_GAP_MAX; i++) {
        peer->loss += (LOSS_UNIT - peer->loss) / LOSS_WEIGHT;
    }
    peer->loss -= peer->loss / LOSS_WEIGHT;
    peer->trip_seq = seq;
    CV_ASSERT(peer->loss >= 0);
    CV_ASSERT(peer->loss <= LOSS_UNIT); /* it is a share */
}

void cv__pole_tune_answered(struct pole *p, cv_id from, uint64_t seq, uint64_t late, int64_t now_ns)
{
    struct pole_peer *peer = pole_peer(p, from);
    CV_ASSERT(from != p->self);
    CV_ASSERT(seq <= p->seq);
    if (!p->tuning.is_auto) {
        return;
    }
    decay(p, now_ns);
    /* An answer that takes longer than a lease comes from a process that was stopped. */
    const int64_t most_ns = pole_is_leading(p) ? p->lease_ns : p->tuning.lease_ns_max;
    const int64_t trip_ns = cv__min64(now_ns - p->sent_ns[seq % POLE_BEATS_KEPT], most_ns);
    CV_ASSERT(trip_ns >= 0);
    peer->trip_ns = cv__max64(peer->trip_ns, trip_ns);
    peer->late_ns = (int64_t)cv__min_u64(late, (uint64_t)p->lease_ns / 2);
    note_loss(peer, seq);
}

/* ---- The choice of times --------------------------------------------------------------------- */

/* Among this number of heartbeats in a row, one is answered almost certainly. */
static int64_t beats_needed(int64_t loss)
{
    CV_ASSERT(loss >= 0);
    CV_ASSERT(loss <= LOSS_UNIT);
    int64_t beats = 1;
    for (int64_t left = loss; left > 1 && beats < BEATS_MAX; left = left * loss / LOSS_UNIT) {
        beats++;
    }
    return cv__max64(beats, BEATS_MIN);
}

struct choice {
    int64_t lease_ns, trip_ns, late_ns, beats;
};

/* The worst values of the members whose promises are valid, since a leader does not need the
 * others; of all members, if there are no promises yet. */
static struct choice choose(struct pole *p, int64_t now_ns)
{
    const struct pole_tuning *t = &p->tuning;
    struct choice c = {.late_ns = t->late_ns};
    int64_t loss = 0;
    for (cv_id id = 1; id <= p->member_count; id++) {
        const struct pole_peer *peer = pole_peer(p, id);
        if (id != p->self && (peer->carries_ns > now_ns || !pole_is_leading(p))) {
            c.trip_ns = cv__max64(c.trip_ns, peer->trip_ns);
            c.late_ns = cv__max64(c.late_ns, peer->late_ns);
            loss = cv__max64(loss, peer->loss);
        }
    }
    c.beats = beats_needed(loss);
    c.lease_ns = TRIPS_IN_LEASE * c.trip_ns + LATES_IN_LEASE * c.late_ns;
    c.lease_ns = cv__max64(c.lease_ns, t->lease_ns_min);
    c.lease_ns = c.lease_ns * cv__max64(c.beats, BEATS_ROOM) / BEATS_ROOM;
    c.lease_ns = cv__min64(c.lease_ns, t->lease_ns_max);
    CV_ASSERT(c.lease_ns >= 1);
    CV_ASSERT(c.beats >= BEATS_MIN);
    return c;
}

/* A claimant has no lease to lose yet, and takes the measured value as it is. */
static int64_t widened(const struct pole *p, int64_t lease_ns)
{
    CV_ASSERT(lease_ns > p->lease_ns);
    const int64_t most_ns = pole_is_leading(p) ? 2 * p->lease_ns : p->tuning.lease_ns_max;
    return cv__min64(cv__min64(lease_ns, most_ns), p->tuning.lease_ns_max);
}

void cv__pole_tune_beat(struct pole *p, int64_t now_ns)
{
    struct pole_tuning *t = &p->tuning;
    if (!t->is_auto) {
        return;
    }
    CV_ASSERT(pole_is_claimant(p));
    decay(p, now_ns);
    const struct choice c = choose(p, now_ns);
    int64_t lease_ns = p->lease_ns;
    if (c.lease_ns > lease_ns && (now_ns >= t->widen_ns || !pole_is_leading(p))) {
        lease_ns = widened(p, c.lease_ns);
        t->widen_ns = now_ns + lease_ns;
        t->narrow_ns = now_ns + SECOND;
    } else if (c.lease_ns < lease_ns && pole_is_leading(p) && now_ns >= t->narrow_ns) {
        lease_ns = cv__max64(c.lease_ns, decayed(lease_ns, NARROW));
        t->narrow_ns = now_ns + SECOND;
    }
    const int64_t room_ns = lease_ns - c.trip_ns - (LATES_IN_LEASE - 1) * c.late_ns;
    set_times(p, lease_ns, cv__pole_tune_beat_ns(lease_ns, room_ns / c.beats));
    CV_ASSERT(p->lease_ns >= cv__min64(t->lease_ns_min, t->lease_ns_max));
    CV_ASSERT(p->lease_ns <= t->lease_ns_max); /* a restarted process waits for no more */
}

bool cv__pole_tune_is_early(const struct pole *p, int64_t until_ns, int64_t now_ns)
{
    return p->tuning.is_auto && until_ns - now_ns < p->lead_ns / TRIPS_IN_LEASE;
}

void cv__pole_tune_established(struct pole *p, int64_t now_ns)
{
    CV_ASSERT(pole_is_leading(p));
    p->tuning.narrow_ns = p->tuning.is_auto ? now_ns + SECOND : 0;
}

void cv__pole_tune_adopt(struct pole *p, int64_t lease_ns, int64_t beat_ns)
{
    const struct pole_tuning *t = &p->tuning;
    CV_ASSERT(!pole_is_claimant(p));
    if (t->is_auto) {
        lease_ns = cv__min64(cv__max64(lease_ns, t->lease_ns_min), t->lease_ns_max);
        set_times(p, lease_ns, cv__pole_tune_beat_ns(lease_ns, beat_ns));
    }
}

void cv__pole_tune_heard(struct pole *p, int64_t delay_ns_max)
{
    const struct pole_tuning *t = &p->tuning;
    if (t->is_auto && !pole_is_claimant(p) && delay_ns_max <= t->lease_ns_max &&
        TRIPS_IN_LEASE * delay_ns_max > p->lease_ns) {
        const int64_t lease_ns = cv__min64(TRIPS_IN_LEASE * delay_ns_max, t->lease_ns_max);
        set_times(p, lease_ns, cv__pole_tune_beat_ns(lease_ns, p->eta_ns));
    }
}

void cv__pole_tune_failed(struct pole *p)
{
    CV_ASSERT(p->lease_ns >= 1);
    if (p->tuning.is_auto) {
        const int64_t lease_ns = cv__min64(2 * p->lease_ns, p->tuning.lease_ns_max);
        set_times(p, lease_ns, cv__pole_tune_beat_ns(lease_ns, p->eta_ns));
    }
}
