/* src/protocols/local_state.h - the state, the roles and the messages of `local`.
 *
 * Shared by local.c (events), local_alive.c (the alive set), local_request.c (asking, supporting,
 * leading) and local_tree.c (collation), and by tests that read messages. */
#ifndef CV_PROTOCOLS_LOCAL_STATE_H
#define CV_PROTOCOLS_LOCAL_STATE_H

#include "core/effects.h"
#include "core/message.h"
#include "core/nodeset.h"
#include "core/types.h"

/* ---- Messages -------------------------------------------------------------------------------- */

enum {
    LOCAL_ELECTION, /* to all: support me in this request */
    LOCAL_REPLY,    /* the answer to a fast ELECTION */
    LOCAL_COLLATED, /* the answers of several processes, on their way up the tree */
    LOCAL_RELEASE,  /* to all: I gave up every request up to this one */
    LOCAL_ECHO,     /* the answer to a slow ELECTION or COLLATED: refreshes the stamps. Also used by
                      a process that stands aside, to ask whether it is still blocked */
    LOCAL_MESSAGE_COUNT
};

/* `request`: an instant of the sender's clock, and `life`: which start of the sender it belongs to.
 * Instants of two lives are never compared: the machine may have booted in between, and its clock
 * started again near zero. `turn` and `turn_token`: the id from which the sender orders ids, and
 * when that was set. `leading`: the token of the present leadership, which may differ from the one
 * proposed; 0: none. */
#define LOCAL_ELECTION_FIELDS(FIELD) \
    FIELD(U64, life)                 \
    FIELD(U64, request)              \
    FIELD(U64, token)                \
    FIELD(ID, turn)                  \
    FIELD(U64, turn_token)           \
    FIELD(U64, leading)              \
    FIELD(SET, alive)                \
    FIELD(SET, support)
CV_MESSAGE_VIEW(local_election, LOCAL_ELECTION_FIELDS)

/* Only a fast answer counts, and its stamps show that its sender had heard this boot of ours
 * before: no `life` is needed to know that `request` is of our present clock. `token`: the next
 * request must exceed it; 0: no such token. `passive`: not a candidate. `taken`: follows a leader
 * that comes before the asking process. */
#define LOCAL_REPLY_FIELDS(FIELD) \
    FIELD(U64, request)           \
    FIELD(U64, token)             \
    FIELD(FLAG, supports)         \
    FIELD(FLAG, passive)          \
    FIELD(FLAG, taken)            \
    FIELD(ID, turn)               \
    FIELD(U64, turn_token)
CV_MESSAGE_VIEW(local_reply, LOCAL_REPLY_FIELDS)

/* The same for several processes: those that answered, and which of them support or are passive. */
#define LOCAL_COLLATED_FIELDS(FIELD) \
    FIELD(U64, request)              \
    FIELD(U64, token)                \
    FIELD(ID, candidate)             \
    FIELD(SET, replied)              \
    FIELD(SET, support)              \
    FIELD(SET, passive)
CV_MESSAGE_VIEW(local_collated, LOCAL_COLLATED_FIELDS)

#define LOCAL_RELEASE_FIELDS(FIELD) \
    FIELD(U64, life)                \
    FIELD(U64, request)             \
    FIELD(U64, token)               \
    FIELD(FLAG, passive)            \
    FIELD(ID, turn)                 \
    FIELD(U64, turn_token)
CV_MESSAGE_VIEW(local_release, LOCAL_RELEASE_FIELDS)

/* `asks`: the receiver shall answer with an ECHO. */
#define LOCAL_ECHO_FIELDS(FIELD) FIELD(FLAG, passive) FIELD(FLAG, taken) FIELD(FLAG, asks)
CV_MESSAGE_VIEW(local_echo, LOCAL_ECHO_FIELDS)

/* ---- State ----------------------------------------------------------------------------------- */

enum {
    LOCAL_TIMER_ALIVE,   /* the first instant at which this process could be a candidate; for a
                             candidate, the next ELECTION */
    LOCAL_TIMER_RELEASE, /* answers that come later do not count */
    LOCAL_TIMER_LAPSE,   /* the leadership ends */
    LOCAL_TIMER_LOCK,    /* the lock ends */
    LOCAL_TIMER_COLLATE, /* stop waiting for silent children in the tree */
};

/* What this process is. local_request.c has the table of allowed moves. */
enum local_role {
    LOCAL_FOLLOWING, /* it has no open request: a process before it is alive, or its last request
                         failed, or it waits for its place in the succession */
    LOCAL_ASKING,    /* is a candidate and waits for the answers to its open request */
    LOCAL_LEADING,   /* its renewal may be open */
    LOCAL_ASIDE,     /* passive while a process that it hears follows a lower id */
    LOCAL_RESIGNED,  /* passive until its successor is gone, or none appeared in time */
    LOCAL_WITHDRAWN, /* passive until it is told to be a candidate again */
    LOCAL_STOPPED,   /* could not save a promise, and takes no further part */
    LOCAL_ROLE_COUNT
};

enum {
    SET_ALIVE,
    SET_PASSIVE, /* alive, supports others, but is not a candidate */
    SET_TAKEN,   /* passive, because it follows a leader before us: it cannot support us */
    SET_TARGET,  /* alive when the request was opened */
    SET_REPLY,   /* supports the request */
    SET_SUPPORT, /* supports the leadership */
    SET_FAMILY,  /* supports the same leader as this process: its possible successors */
    SET_WAITED,  /* collation: the children not heard yet; the sets below: their answers */
    SET_GATHERED,
    SET_GATHERED_SUPPORT,
    SET_GATHERED_PASSIVE,
    SET_SCRATCH,
    SET_COUNT
};

/* What is known of another process; instants are of our own clock. */
struct local_peer {
    int64_t heard_ns;      /* its latest sign of life */
    int64_t asked_ns;      /* its latest fast ELECTION */
    int64_t deaf_since_ns; /* since then its ELECTIONs say that it does not hear us; 0: it does */
    int64_t gone_until_ns; /* reported down: messages until then may be older than the report */
    uint64_t released_life, released_request; /* it gave up all requests of that life up to this */
};

/* Invariants: local_check() in local.c. */
struct local {
    cv_id self;
    uint32_t member_count, min_supporters, collate;
    int64_t delta_ns, delta_min_ns, sigma_ns, ep_ns, expires_ns, lock_ns, rotate_ns;
    int64_t lead_ns; /* lock(1 - 2 rho): how long a request can carry a leadership */
    int64_t wait_ns; /* 2 delta(1 + rho): answers that take longer are late */
    int64_t calm_ns; /* time between requests of a leader whose requests are all answered */
    uint32_t has_succession;
    uint32_t yields; /* a leader steps down at once for a process before it */

    uint32_t role; /* enum local_role; changed by cv__local_become() alone */
    int64_t resigned_until_ns;
    int64_t boot_until_ns; /* supports no process before: it may have promised before a crash */

    int64_t candidate_since_ns; /* the first ELECTION of the present row: is_row_unbroken() */
    int64_t request_ns;         /* the open request, on the own clock; 0: none */
    int64_t asked_ns;           /* the latest request sent, open or not */
    uint64_t request_token;

    uint64_t life; /* differs between any two starts of any process */
    int64_t locked_until_ns;
    int64_t locked_request_ns; /* on the clock of the process locked to, and that one's life */
    uint64_t locked_life;
    int64_t earlier_until_ns; /* until then an earlier life of it may lead on this lock */
    uint64_t token_seen;      /* the largest accepted, saved before it is answered; and its owner */
    cv_id locked_to, token_owner;
    uint64_t reserve_count;  /* tokens in a block; 0: each is saved on its own */
    uint64_t reserved_token; /* blocks: the saved bound; a crash forgets no token up to it */

    uint64_t token_floor; /* from a refusal: the next token must exceed it */
    uint64_t led_token;   /* the largest that this process ever led with */
    uint64_t token;       /* of the present leadership */
    int64_t expiration_ns, turn_began_ns;
    uint64_t leader_token;
    cv_id leader; /* the leader of this process; its token is above */

    cv_id turn;          /* ids are ordered from this one on */
    uint64_t turn_token; /* when the turn was set */
    /* Its turn in the succession has come. Not part of the role: it is kept while the process asks,
     * leads or is passive, and ends only when a process before it is seen alive. */
    uint32_t has_waited;
    cv_id lost; /* this process was locked to it when its host saw it die; below: how long that lock
                   would have lasted */
    int64_t lost_until_ns;

    int64_t answered_request_ns; /* the latest request answered, to notice a repetition */
    int64_t direct_until_ns;     /* until then answers are sent directly, not through the tree */
    int64_t gather_request_ns;   /* collation: answers to this request are being gathered */
    uint64_t gather_token;
    cv_id gather_for, gather_to;
    uint64_t tail[]; /* SET_COUNT sets, then a struct local_peer for each member */
};

static inline uint64_t *set_of(struct local *l, uint32_t which)
{
    CV_ASSERT(which < SET_COUNT);
    return l->tail + which * cv__set_words(l->member_count);
}

static inline struct local_peer *peer_of(struct local *l, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= l->member_count);
    uint64_t *peers = l->tail + SET_COUNT * cv__set_words(l->member_count);
    return (struct local_peer *)(void *)peers + (id - 1);
}

static inline bool is_leading(const struct local *l)
{
    return l->role == LOCAL_LEADING;
}

/* A passive process supports others and is asked, but it is not a candidate: no process waits for
 * it to ask. */
static inline bool is_passive(const struct local *l)
{
    return l->role >= LOCAL_ASIDE;
}

_Static_assert(LOCAL_ASIDE > LOCAL_LEADING, "the passive roles come last");
_Static_assert(LOCAL_RESIGNED > LOCAL_ASIDE, "the passive roles come last");
_Static_assert(LOCAL_WITHDRAWN > LOCAL_RESIGNED, "the passive roles come last");
_Static_assert(LOCAL_STOPPED > LOCAL_WITHDRAWN, "the passive roles come last");

#endif
