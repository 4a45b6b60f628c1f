/* src/protocols/local_state.h - the state and the messages of `local`, which local.c and
 * local_tree.c share; nobody else includes it. */
#ifndef CV_PROTOCOLS_LOCAL_STATE_H
#define CV_PROTOCOLS_LOCAL_STATE_H

#include "core/effects.h"
#include "core/nodeset.h"
#include "core/types.h"

enum { ELECTION, REPLY, COLLATED, RELEASE, ECHO, MESSAGE_COUNT };

/* Fields by their place. */
enum { REQUEST = 0, TOKEN = 1 };
enum { ELECTION_TURN = 2, ELECTION_TURN_TOKEN = 3, ELECTION_LEADING = 4 };
enum { REPLY_SUPPORTS = 2, REPLY_ASIDE = 3, REPLY_TURN = 4, REPLY_TURN_TOKEN = 5 };
enum { COLLATED_CANDIDATE = 2 };
enum { RELEASE_GONE = 2, RELEASE_TURN = 3, RELEASE_TURN_TOKEN = 4 };
enum { ECHO_ASIDE = 0 };
enum { ELECTION_ALIVE = 0, ELECTION_SUPPORT = 1 };
enum { COLLATED_REPLIED = 0, COLLATED_SUPPORT = 1, COLLATED_ASIDE = 2 };

enum { TIMER_ALIVE, TIMER_RELEASE, TIMER_LAPSE, TIMER_LOCK, TIMER_COLLATE };

enum {
    SET_ALIVE,
    SET_ASIDE,
    SET_TARGET,
    SET_REPLY,
    SET_SUPPORT,
    SET_FAMILY,
    SET_WAITED,
    SET_GATHERED,
    SET_GATHERED_SUPPORT,
    SET_GATHERED_ASIDE,
    SET_SCRATCH,
    SET_COUNT
};

/* Invariants: at most one of request_ns (open) and "nothing asked" holds; leads implies
 * now < expiration_ns at the end of every step; token <= led_token <= token_seen while leading. */
struct local {
    cv_id self;
    uint32_t member_count, min_supporters, collate;
    int64_t delta_ns, delta_min_ns, sigma_ns, ep_ns, expires_ns, lock_ns, rotate_ns;
    int64_t lead_ns; /* lock(1 - 2 rho): how long a request can carry a leadership */
    int64_t wait_ns; /* 2 delta(1 + rho): when answers that are not in are late */
    uint32_t has_succession, is_candidate, has_resigned, is_stopped;
    int64_t resigned_until_ns;
    int64_t boot_until_ns; /* supports nobody before: it may have promised before a crash */

    int64_t candidate_since_ns; /* its first ELECTION since it was last unheard of */
    int64_t request_ns;         /* the open request, on the own clock; 0: none */
    int64_t asked_ns;           /* the latest request sent, open or not */
    int64_t sent_ns;            /* when it was last (re)sent */
    uint64_t request_token;

    int64_t locked_until_ns, locked_request_ns;
    uint64_t token_seen; /* the largest accepted, saved before anybody is told; and whose it is */
    cv_id locked_to, token_owner;

    uint64_t token_floor; /* somebody refused us because it had accepted this one: to be topped */
    uint64_t led_token;   /* the largest this process ever led with */
    uint64_t token;       /* of the present leadership */
    int64_t expiration_ns, turn_began_ns;
    uint32_t leads;
    cv_id leader; /* whom this process takes for its leader; and with which token */
    uint64_t leader_token;

    uint64_t turn_token; /* when the turn was set */
    cv_id turn;          /* ids are ordered from this one on */
    uint32_t has_waited; /* its time in the succession is over */

    int64_t answered_request_ns; /* the latest request answered, to see when it comes again */
    int64_t direct_until_ns;     /* until then answers do not go by way of the tree */
    int64_t gather_request_ns;   /* collation: for whose request answers are being gathered */
    uint64_t gather_token;
    cv_id gather_for, gather_to;
    uint64_t tail[]; /* SET_COUNT sets, then heard_ns of each member */
};

static inline uint64_t *set_of(struct local *l, uint32_t which)
{
    return l->tail + which * cv__set_words(l->member_count);
}

static inline int64_t *heard_of(struct local *l, cv_id id)
{
    return (int64_t *)(l->tail + SET_COUNT * cv__set_words(l->member_count)) + (id - 1);
}

/* May this process become leader? Otherwise it stands aside: it supports but is not waited for. */
static inline bool stands(const struct local *l)
{
    return l->is_candidate && !l->has_resigned && !l->is_stopped;
}

#endif
