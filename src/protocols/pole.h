/* src/protocols/pole.h - declarations shared by the files of `pole`: the state of one process, its
 * messages.
 *
 * pole_select.c chooses a leader (Alg. 1), pole_claim.c makes the choice a leadership (promises,
 * lease, release), pole_score.c measures and scores, pole_tune.c chooses times, pole.c dispatches
 * the events. A choice binds no process: processes follow heartbeats, and only a process that a
 * majority follows leads. */
#ifndef CV_PROTOCOLS_POLE_H
#define CV_PROTOCOLS_POLE_H

#include "core/effects.h"
#include "core/message.h"
#include "core/nodeset.h"
#include "core/types.h"
#include "oracles/oracle.h"
#include "protocols/pole_tune.h"

/* The send times of so many heartbeats are kept; FOLLOWs that answer older ones do not count. */
#define POLE_BEATS_KEPT 64

/* Measured lateness counts up to this number of leases, since a pause looks the same. */
#define POLE_SLOW_LEASES 2

/* In the record: the process followed a leader that it does not know any more. */
#define POLE_FOLLOWED_UNKNOWN UINT64_MAX

/* No cluster elects that often: messages with larger epochs are ignored. */
#define POLE_EPOCH_MAX (UINT64_C(1) << 62)

enum {
    POLE_PROPOSE,   /* P of Alg. 1 */
    POLE_VOTE,      /* V of Alg. 1 */
    POLE_HEARTBEAT, /* a claim, or a leadership */
    POLE_FOLLOW,    /* a promise to follow no other process for the lease */
    POLE_REFUSE,    /* this or a larger epoch was followed already */
    POLE_RELEASE,   /* promises to the sender are over */
    POLE_PROBE,     /* score inputs; asks for an echo */
    POLE_ECHO,
    POLE_MESSAGE_COUNT
};

/* All but PROBE and ECHO begin with an epoch, so that pole_epoch_read() reads any of them. Each
 * part of a score travels plus one: 0 is an unknown score. */
#define POLE_SCORE_FIELDS(FIELD) \
    FIELD(U64, score_1)          \
    FIELD(U64, score_2)          \
    FIELD(U64, score_3)          \
    FIELD(U64, score_4)

#define POLE_EPOCH_FIELDS(FIELD) FIELD(U64, epoch)
CV_MESSAGE_VIEW(pole_epoch, POLE_EPOCH_FIELDS)

/* `heard`: the sender has heard a quorum; `quorate`: the owner of the proposal has. */
#define POLE_PROPOSE_FIELDS(FIELD) \
    FIELD(U64, epoch)              \
    FIELD(FLAG, heard)             \
    FIELD(ID, id)                  \
    FIELD(FLAG, quorate)           \
    POLE_SCORE_FIELDS(FIELD)
CV_MESSAGE_VIEW(pole_propose, POLE_PROPOSE_FIELDS)

#define POLE_VOTE_FIELDS(FIELD) FIELD(U64, epoch) FIELD(ID, leader)
CV_MESSAGE_VIEW(pole_vote, POLE_VOTE_FIELDS)

/* `lease`: how long a FOLLOW that answers it promises; `beat`: the next is sent after this time. */
#define POLE_HEARTBEAT_FIELDS(FIELD) \
    FIELD(U64, epoch)                \
    FIELD(U64, nonce)                \
    FIELD(U64, seq)                  \
    FIELD(FLAG, established)         \
    FIELD(U64, token)                \
    FIELD(U64, lease)                \
    FIELD(U64, beat)                 \
    FIELD(FLAG, quorate)             \
    POLE_SCORE_FIELDS(FIELD)
CV_MESSAGE_VIEW(pole_heartbeat, POLE_HEARTBEAT_FIELDS)

/* Nonce and seq of the heartbeat that is answered; profile=auto: how late the sender's timers were
 * recently, in nanoseconds. */
#define POLE_FOLLOW_FIELDS(FIELD) \
    FIELD(U64, epoch)             \
    FIELD(U64, nonce)             \
    FIELD(U64, seq)               \
    FIELD(U64, late)
CV_MESSAGE_VIEW(pole_follow, POLE_FOLLOW_FIELDS)

#define POLE_RELEASE_FIELDS(FIELD) FIELD(U64, epoch) FIELD(ID_NONE, heir)
CV_MESSAGE_VIEW(pole_release, POLE_RELEASE_FIELDS)

/* `stamp`: when PROBE was sent, by its sender's clock, combined with the nonce of its life: the
 * clock of a machine starts again near zero when it boots, and may show the same instants again. */
#define POLE_ECHO_FIELDS(FIELD) FIELD(U64, stamp) FIELD(U64, rate) FIELD(U64, history)
CV_MESSAGE_VIEW(pole_echo, POLE_ECHO_FIELDS)

#define POLE_PROBE_FIELDS(FIELD) POLE_ECHO_FIELDS(FIELD) POLE_SCORE_FIELDS(FIELD)
CV_MESSAGE_VIEW(pole_probe, POLE_PROBE_FIELDS)

/* The four parts of a score in the initializer of a view, and out of a view. */
#define POLE_SCORE_INIT(score)                                                              \
    .score_1 = (uint64_t)((score).part[0] + 1), .score_2 = (uint64_t)((score).part[1] + 1), \
    .score_3 = (uint64_t)((score).part[2] + 1), .score_4 = (uint64_t)((score).part[3] + 1)
#define POLE_SCORE_READ(view, ret_score)                                                    \
    pole_read_score(                                                                        \
        (const uint64_t[]){(view).score_1, (view).score_2, (view).score_3, (view).score_4}, \
        (ret_score))
_Static_assert(CV_SCORE_PARTS_MAX == 4, "score_1 to score_4");

/* False: not a score that a process can have computed; then *ret_score is not written. */
static inline bool pole_read_score(const uint64_t *part, struct cv_score *ret_score)
{
    for (uint32_t i = 0; i < CV_SCORE_PARTS_MAX; i++) {
        if (part[i] > CV_SCORE_MAX + 1) {
            return false;
        }
    }
    for (uint32_t i = 0; i < CV_SCORE_PARTS_MAX; i++) {
        ret_score->part[i] = (int64_t)part[i] - 1;
    }
    return true;
}

/* What a process is. `leader` is CV_ID_NONE, another, or itself accordingly. */
enum {
    POLE_SELECTING, /* no leader: proposes and compares (Alg. 1); also before the first scores */
    POLE_AWAITING,  /* has chosen another, which has not claimed yet */
    POLE_FOLLOWING, /* hears the heartbeats of its choice; bound by its promise, if it gave one */
    POLE_BOUND,     /* claims, but is bound by a promise to another: does not follow itself yet */
    POLE_CLAIMING,  /* claims, follows itself, and has no majority yet */
    POLE_LEADING,   /* established: a majority follows, until valid_until_ns */
    POLE_LEAVING,   /* leads until its time is over, without renewal; then names the heir */
    POLE_STOPPED,   /* durable storage failed: takes no further part */
    POLE_ROLE_COUNT,
};

/* RETRY and ELECT belong to SELECTING, SILENCE to AWAITING and FOLLOWING, BEAT and CLAIM (its end,
 * or the lease's) to the roles that claim or lead. BACK ends the waiting for the first scores,
 * later standing back. */
enum {
    POLE_TIMER_RETRY,
    POLE_TIMER_ELECT,
    POLE_TIMER_SILENCE,
    POLE_TIMER_BEAT,
    POLE_TIMER_CLAIM,
    POLE_TIMER_PROMISE,
    POLE_TIMER_PROBE,
    POLE_TIMER_BACK,
    POLE_TIMER_COUNT
};

/* [Becker11, sec. 3.2; quorate ours] Ordered by quorate, score, id; the epoch comes first and is
 * the same for all that are compared. */
struct pole_proposal {
    struct cv_score score;
    cv_id id;
    uint32_t is_quorate; /* its owner has heard a quorum in this epoch */
};

struct pole_peer {
    int64_t carries_ns;      /* a leadership with its FOLLOWs lasts until then; 0: none */
    uint64_t released_epoch; /* it released us up to this epoch: heartbeats up to it are over */
    uint64_t vote_epoch;     /* its newest vote; leader CV_ID_NONE: none */
    int64_t echoed_ns;       /* when it last answered a probe; 0: never */
    int64_t stamp_ns;        /* of the newest probe whose round trip was measured */
    int64_t rtt_ns;          /* mean of the measured round trips */
    uint64_t rate, history;  /* as it reported last */
    int64_t better_since_ns; /* since when its score has been better; 0: it is not */
    struct cv_score score;   /* before-resignation, as it reported last */
    cv_id vote_leader;
    uint32_t has_score;

    /* profile=auto: the round trip, how late its timers are by its own report, the share lost. */
    int64_t trip_ns, late_ns, loss;
    uint64_t trip_seq; /* of the newest heartbeat that it answered */
};

enum { POLE_SET_PROPOSED, POLE_SET_QUORATE, POLE_SET_DOUBTED, POLE_SET_COUNT };

/* The only process it may follow, and until when. `to` CV_ID_NONE with a time: before a crash it
 * promised to a process that it has forgotten. Invariant: until_ns 0 means no promise. */
struct pole_promise {
    cv_id to;
    int64_t until_ns; /* INT64_MAX: to itself, while it claims */
};

/* What FOLLOW answers: the heartbeat of a claimant or leader. */
struct pole_claim {
    uint64_t epoch, nonce, seq;
    int64_t lease_ns, beat_ns;
};

/* profile=auto; otherwise all but lease_ns_max is 0. See pole_tune.c. */
struct pole_tuning {
    uint32_t is_auto, reserved;
    int64_t drift_ppb;
    int64_t lease_ns_min, lease_ns_max; /* no promise is longer, in any life */
    int64_t late_ns;                    /* of its own timers: the worst seen recently */
    int64_t decayed_ns;                 /* when late_ns was last made smaller */
    int64_t widen_ns, narrow_ns;        /* the lease is not widened or narrowed before */
    int64_t due_ns[POLE_TIMER_COUNT];   /* of the timers that are armed */
};

/* Invariants: leading implies token <= leader_epoch and now < valid_until_ns at the end of every
 * step; epoch >= followed_epoch; what each role implies is in pole_check().
 *
 * Four facts are not part of the role, because each outlives changes of it: is_candidate (set by
 * the operator), stands_back (claimed in vain or resigned: not to be chosen for a while, but it
 * selects and follows meanwhile), has_had_turn (claimed in vain: others go first) and is_ready (the
 * first scores are known; a leader that is heard before is followed without them). */
struct pole {
    cv_id self;
    uint32_t member_count, quorum;
    int64_t delta_ns, sigma_ns, eta_ns, epsilon_ns, lease_ns, lead_ns, round_ns, retry_ns_max,
        wait_ns;
    int64_t probe_ns, first_ns, resign_margin, resign_hold_ns;
    int64_t history_unit_bytes, window_bytes, bandwidth_bytes;
    struct pole_tuning tuning; /* profile=auto: changes the times of the first two lines */
    struct cv_scoring scoring;
    uint32_t preference;
    uint32_t needs_peers, has_probes;
    uint32_t role;
    uint32_t is_candidate, is_ready, stands_back;
    uint64_t nonce;
    uint64_t rate, history, capacity, load, reported; /* what the application reports */
    int64_t first_probed_ns, probed_ns;               /* when we first and last asked for echoes */

    /* Selection. */
    uint64_t epoch; /* of the election; never falls */
    uint32_t armed; /* bits of the armed timers */
    cv_id suspect;  /* the leader that fell silent: its proposal is not waited for */
    int64_t retry_ns;
    struct pole_proposal own, best;

    /* The choice, and the epoch it is for. */
    cv_id leader;
    cv_id heir; /* LEAVING: the successor to name */
    uint64_t leader_epoch;

    /* How much later than expected claims came: disks may be slow. */
    cv_id awaited; /* the latest choice, until its claim is heard; kept when it is passed over */
    uint32_t has_had_turn; /* its claim was in vain: other candidates go first */
    int64_t awaited_ns;    /* since when */
    int64_t slow_ns;
    int64_t patience_ns; /* doubles each time that no process came to lead */
    uint64_t vain_epoch; /* of the own claim that was given up last, made at ... */
    int64_t stood_ns;

    /* Following. The pair, the lease promised and the largest epoch claimed survive a crash. */
    uint64_t followed_epoch;
    cv_id followed;
    cv_id pending; /* owner of the newest claim that a promise keeps us from answering; or none */
    int64_t followed_lease_ns;
    uint64_t claimed_epoch;
    uint64_t reserve_count;    /* epochs in a block; 0: each is saved on its own */
    uint64_t reserved_epoch;   /* blocks: all epochs below it are saved, ... */
    int64_t reserved_lease_ns; /* ... with promises of at most this lease */
    struct pole_promise promise;
    /* no RELEASE before: it might free promises that an earlier life relied on */
    int64_t quarantine_ns;

    struct pole_claim pending_claim;
    int64_t pending_ns; /* when that claim was heard */

    /* Claiming and leading. */
    uint64_t token;
    uint64_t token_max; /* the largest of all established leaders heard of: an older one is over */
    int64_t valid_until_ns, claim_until_ns;
    uint64_t seq;
    int64_t sent_ns[POLE_BEATS_KEPT]; /* of heartbeat seq, at seq % POLE_BEATS_KEPT */
    int64_t ends_ns[POLE_BEATS_KEPT]; /* sent_ns + lease(1-2 rho), with the lease that it carried */

    /* What the application was told. */
    cv_id view;
    uint32_t reserved;
    uint64_t view_token;

    /* POLE_SET_COUNT sets; per member a cv_oracle_peer (scratch) and a pole_peer */
    uint64_t tail[];
};

static inline uint64_t *pole_set(struct pole *p, uint32_t which)
{
    CV_ASSERT(which < POLE_SET_COUNT);
    return p->tail + which * cv__set_words(p->member_count);
}

static inline struct cv_oracle_peer *pole_inputs(struct pole *p)
{
    return (struct cv_oracle_peer *)(p->tail + POLE_SET_COUNT * cv__set_words(p->member_count));
}

static inline struct pole_peer *pole_peer(struct pole *p, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= p->member_count);
    return (struct pole_peer *)(pole_inputs(p) + p->member_count) + (id - 1);
}

/* Is it established as the leader? */
static inline bool pole_is_leading(const struct pole *p)
{
    return p->role == POLE_LEADING || p->role == POLE_LEAVING;
}

/* Does it claim or lead? */
static inline bool pole_is_claimant(const struct pole *p)
{
    return p->role == POLE_BOUND || p->role == POLE_CLAIMING || pole_is_leading(p);
}

static inline void pole_arm(struct pole *p, uint32_t timer, int64_t earliest_ns, int64_t latest_ns,
                            struct cv_effects *out)
{
    CV_ASSERT(timer < POLE_TIMER_COUNT);
    p->armed |= BIT(timer);
    p->tuning.due_ns[timer] = p->tuning.is_auto ? latest_ns : 0;
    cv__effect_arm(out, timer, earliest_ns, latest_ns);
}

static inline void pole_disarm(struct pole *p, uint32_t timer, struct cv_effects *out)
{
    CV_ASSERT(timer < POLE_TIMER_COUNT);
    if (p->armed & BIT(timer)) {
        p->armed &= ~BIT(timer);
        p->tuning.due_ns[timer] = 0;
        cv__effect_disarm(out, timer);
    }
}

/* ---- pole.c ---------------------------------------------------------------------------------- */

/* The only place where the role changes, along the table of moves. `leader` is the choice that goes
 * with it: CV_ID_NONE, another process or this one. */
void cv__pole_become(struct pole *p, uint32_t role, cv_id leader);

/* ---- pole_select.c --------------------------------------------------------------------------- */

void cv__pole_new_election(struct pole *p, int64_t now_ns, struct cv_effects *out);
/* Back to no leader in the present epoch, with a fresh score; nothing is sent. */
void cv__pole_reset_epoch(struct pole *p, int64_t now_ns, struct cv_effects *out);
/* Chooses a leader; a process that chooses itself claims. */
void cv__pole_select(struct pole *p, cv_id leader, uint64_t epoch, int64_t now_ns,
                     struct cv_effects *out);
void cv__pole_on_propose(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_vote(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_retry(struct pole *p, int64_t now_ns, struct cv_effects *out);
void cv__pole_on_elect(struct pole *p, int64_t now_ns, struct cv_effects *out);
void cv__pole_on_silence(struct pole *p, int64_t now_ns, struct cv_effects *out);
/* The time of standing back is over. */
void cv__pole_on_back(struct pole *p, int64_t now_ns, struct cv_effects *out);
bool cv__pole_is_larger(const struct pole *p, const struct pole_proposal *a,
                        const struct pole_proposal *b);

/* ---- pole_claim.c ---------------------------------------------------------------------------- */

void cv__pole_stand(struct pole *p, int64_t now_ns, struct cv_effects *out);
/* Ends the claim or leadership of this process, and chooses the heir, if there is one. */
void cv__pole_abdicate(struct pole *p, enum cv_reason reason, cv_id heir, int64_t now_ns,
                       struct cv_effects *out);
/* Tells the application that no leader is known, if it was told of one. */
void cv__pole_forget(struct pole *p, enum cv_reason reason, struct cv_effects *out);
void cv__pole_on_heartbeat(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_follow(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_refuse(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_release(struct pole *p, const struct cv_event *event, struct cv_effects *out);
/* The RELEASE that a witness may send when this process is dead; false: none. */
bool cv__pole_farewell(const void *state, int64_t now_ns, struct cv_message *ret_message);
void cv__pole_on_beat(struct pole *p, int64_t now_ns, struct cv_effects *out);
/* How much longer than usual to wait for a claim, since disks may be slow. */
int64_t cv__pole_extra_ns(const struct pole *p);
/* A claim failed, our own or an awaited one: the next one gets more time. */
void cv__pole_wait_longer(struct pole *p);
void cv__pole_on_claim_end(struct pole *p, int64_t now_ns, struct cv_effects *out);
void cv__pole_on_promise_end(struct pole *p, int64_t now_ns, struct cv_effects *out);

/* ---- pole_score.c ---------------------------------------------------------------------------- */

/* get-score(epoch). After a crash: without the suspect. */
void cv__pole_get_score(struct pole *p, uint64_t epoch, int64_t now_ns, struct cv_score *ret_score);
/* True: the data of all members has arrived, or the score needs none. */
bool cv__pole_has_data(struct pole *p, int64_t now_ns);
void cv__pole_on_probe_time(struct pole *p, int64_t now_ns, struct cv_effects *out);
void cv__pole_on_probe(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_echo(struct pole *p, const struct cv_event *event, struct cv_effects *out);
void cv__pole_on_report(struct pole *p, const struct cv_event *event);

#endif
