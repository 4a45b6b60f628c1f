/* src/protocols/anon_state.h - the state, the roles and the messages of `anon`.
 *
 * Shared by anon.c (events), anon_round.c (numbers and rounds) and tests that read messages. */
#ifndef CV_PROTOCOLS_ANON_STATE_H
#define CV_PROTOCOLS_ANON_STATE_H

#include "core/effects.h"
#include "core/message.h"
#include "core/types.h"

/* ---- Messages -------------------------------------------------------------------------------- */

enum {
    ANON_TOKEN, /* of its owner: a proposal or a heartbeat */
    ANON_STATE, /* of any process: the closed and the open number */
    ANON_GONE,  /* of its owner, which has resigned */
    ANON_TRUST, /* like STATE, from a process that has heard the owner of the closed number lead */
    ANON_MESSAGE_COUNT
};

/* All four: a number with its owner's label, how often the sender has sent, the largest number
 * that the sender has seen with its owner's label, and R. */
#define ANON_FIELDS(FIELD)  \
    FIELD(U64, number)      \
    FIELD(U64, label)       \
    FIELD(U64, sent)        \
    FIELD(U64, open_number) \
    FIELD(U64, open_label)  \
    FIELD(U64, round)
CV_MESSAGE_VIEW(anon_token, ANON_FIELDS)

/* ---- State ----------------------------------------------------------------------------------- */

enum {
    ANON_TIMER_HEARTBEAT,
    ANON_TIMER_SUSPECT,
    ANON_TIMER_QUERY,
    ANON_TIMER_TELL,   /* STATE or TRUST is due */
    ANON_TIMER_RESUME, /* a leader that slept has listened for long enough */
    ANON_TIMER_COUNT
};

/* What this process is. anon.c has the table of allowed moves. */
enum anon_role {
    ANON_SUSPECTING, /* trusts no leader: listens first, asks for a number, or has proposed one */
    ANON_TRUSTING,   /* trusts the owner of the closed number, which is another process */
    ANON_LEADING,    /* owns the closed number */
    ANON_PAUSED,     /* owns the closed number, but has slept: silent until it has listened */
    ANON_STOPPED,    /* could not save its numbers, and takes no further part */
    ANON_ROLE_COUNT
};

/* Why a process is about to tell its state: bits of `telling`. */
enum {
    ANON_TELL_STALE = 1u << 0, /* a number below the closed one was heard: STATE */
    ANON_TELL_TRUST = 1u << 1, /* a process proposes although the leader is heard here: TRUST */
};

/* A number, its owner's label, and whether this process owns it. number CV_SEQUENCE_NONE: none. */
struct anon_pair {
    uint64_t number, label;
    uint32_t is_mine, zero;
};

/* Invariants: anon_check() in anon.c. The size does not depend on the configuration. */
struct anon {
    cv_id self; /* only to report to the host that this process leads; never sent */
    uint32_t is_stubborn, is_persistent, is_early;
    uint64_t round_size; /* R */
    int64_t eta_ns, eps_ns, query_ns;

    uint32_t role; /* enum anon_role; changed by become() in anon.c alone */
    /* May propose, unless it is resting; set by the operator, in any role. */
    uint32_t is_candidate;
    uint64_t label;
    struct anon_pair open, closed;
    uint64_t sent_count; /* n of the paper's sends; and the largest heard from the leader */
    uint64_t heard_count;
    uint64_t proposal; /* the own number that is being repeated; CV_SEQUENCE_NONE: none */

    uint64_t request;      /* how often the sequencer was asked */
    uint64_t open_request; /* 0: no request is open */
    int64_t query_wait_ns;
    int64_t heartbeat_due_ns, suspect_due_ns, resume_due_ns; /* the latest instants asked for */
    /* has resigned: does not propose before */
    int64_t rest_until_ns;

    uint32_t has_proposed; /* since the last new leader, or since a leader was heard; in any role */
    uint32_t telling;      /* ANON_TELL_*: what is to be sent, and why; in any role */
    uint32_t gone_left;    /* how often GONE is still to be sent */

    uint32_t told_role; /* what the host was told last: SUSPECTING means no leader */
    uint64_t told_number, told_label;
    uint64_t refused_count; /* messages with another R, or that make no sense */
};

_Static_assert(sizeof(struct anon) <= 320, "the memory of a process is small and constant");

/* Does this process own the closed number? */
static inline bool is_owner(const struct anon *a)
{
    return a->role == ANON_LEADING || a->role == ANON_PAUSED;
}

#endif
