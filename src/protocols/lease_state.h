/* src/protocols/lease_state.h - the state and the roles of `lease`.
 *
 * Shared by lease.c (events, grants, answers) and lease_ask.c (which request, and when). */
#ifndef CV_PROTOCOLS_LEASE_STATE_H
#define CV_PROTOCOLS_LEASE_STATE_H

#include "core/effects.h"
#include "core/types.h"

enum { LEASE_TIMER_TURN, LEASE_TIMER_END };

#define LEASE_REQUESTS_KEPT 8u /* so many are remembered; answers to older ones are ignored */

/* A request that was made; request 0: an empty slot. */
struct lease_request {
    uint64_t request, attempt;
    int64_t at_ns;
    uint32_t verb, zero;
};

/* What the host was told last. */
enum lease_view { LEASE_VIEW_NONE, LEASE_VIEW_OTHER, LEASE_VIEW_SELF };

/* The state of the present attempt. lease_ask.c has the table of allowed moves. */
enum lease_role {
    LEASE_LOOKING,   /* ACQUIRE was not asked for */
    LEASE_ACQUIRING, /* the latest ACQUIRE is not answered yet: it may hold the record */
    LEASE_WAITING,   /* the latest ACQUIRE was answered: another holds the record */
    LEASE_LEADING,   /* it holds the record, until valid_until_ns */
    LEASE_STOPPED,   /* the host cannot serve this core any more */
    LEASE_ROLE_COUNT
};

/* Invariants: lease_check() in lease.c. In words: a leader is a candidate and owes no RELEASE;
 * every attempt that is not the present one is over; at most one request is open, and it is the
 * latest; until it stops, a contender always has a next instant to ask. */
struct lease {
    cv_id self;            /* only to report to the host that this process leads */
    uint32_t role;         /* enum lease_role; changed by cv__lease_become() alone */
    uint32_t is_candidate; /* what the operator wants, in any role */
    uint32_t zero;
    int64_t drift_ppb;
    int64_t lease_ns, renew_ns, retry_ns, retry_max_ns, timeout_ns, poll_ns, rest_ns;
    uint64_t label;

    uint64_t request;      /* the latest that was made */
    uint64_t open_request; /* 0: none; otherwise the latest, and it may still be answered in time */
    uint64_t answered;     /* the latest that was answered */
    struct lease_request made[LEASE_REQUESTS_KEPT];

    uint64_t attempt; /* from 1 */
    uint64_t token;
    int64_t valid_until_ns;

    uint64_t debt_attempt, debt_token; /* to be released; attempt 0: nothing is */
    /* RELEASE is not repeated after this: the record has run out */
    int64_t debt_until_ns;
    int64_t rest_until_ns; /* has resigned: lets others go first until then */

    int64_t turn_ns;          /* latest instant of TIMER_TURN; 0: not armed */
    int64_t failure_pause_ns; /* the pause after the latest of several failures; 0: none */
    int64_t free_pause_ns;    /* the same for a contender that only looks and finds a free record */
    int64_t bucket_ns;        /* token bucket of requests: ahead of the clock after many of them */
    uint32_t is_due;          /* the next request is made when this step ends */
    uint32_t is_notified;     /* since the open request was made */

    uint32_t sees_other, zero2; /* another contender holds the record, ... */
    uint64_t other_token, other_label;
    int64_t other_until_ns; /* ... which is believed until then without a new answer */
    /* the largest of all other leaderships seen, own former ones included */
    uint64_t token_max;
    uint64_t refused_count; /* grants with a token that is not new */

    uint32_t view, zero3; /* enum lease_view */
    uint64_t view_token, view_label;
    int64_t view_until_ns;
};

static inline bool is_leading(const struct lease *l)
{
    return l->role == LEASE_LEADING;
}

/* Was ACQUIRE asked for with the present attempt? Then the store may know of it. */
static inline bool is_sought(const struct lease *l)
{
    return l->role == LEASE_ACQUIRING || l->role == LEASE_WAITING || l->role == LEASE_LEADING;
}

#endif
