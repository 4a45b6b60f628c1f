/* src/protocols/local_alive.c - which processes are alive, and which comes first; see
 * local_alive.h. */
#include "protocols/local_alive.h"

/* The first in the order of turns: from `turn` upwards, then from 1. */
static cv_id first_of(const struct local *l, const uint64_t *set)
{
    CV_ASSERT(l->turn >= 1);
    const cv_id id = cv__set_next(set, l->turn, l->member_count);
    return id != CV_ID_NONE ? id : cv__set_next(set, 1, l->member_count);
}

int64_t cv__local_purge(struct local *l, int64_t now_ns)
{
    uint64_t *alive = set_of(l, SET_ALIVE);
    int64_t first_ns = now_ns;
    for (cv_id id = 1; (id = cv__set_next(alive, id, l->member_count)) != CV_ID_NONE; id++) {
        CV_ASSERT(peer_of(l, id)->heard_ns > 0);
        CV_ASSERT(peer_of(l, id)->heard_ns <= now_ns);
        const int64_t until_ns = peer_of(l, id)->heard_ns + l->expires_ns;
        if (until_ns < now_ns) {
            cv__local_mark_dead(l, id);
        } else if (cv__local_is_before(l, id, l->self) &&
                   !cv__set_has(set_of(l, SET_PASSIVE), id)) {
            first_ns = cv__max64(first_ns, until_ns + 1);
        }
    }
    CV_ASSERT(first_ns >= now_ns);
    return first_ns;
}

static void set_to(struct local *l, uint32_t which, cv_id id, bool is_in)
{
    if (is_in) {
        cv__set_add(set_of(l, which), id);
    } else {
        cv__set_remove(set_of(l, which), id);
    }
}

void cv__local_mark_dead(struct local *l, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= l->member_count);
    cv__set_remove(set_of(l, SET_ALIVE), id);
    cv__set_remove(set_of(l, SET_PASSIVE), id);
    cv__set_remove(set_of(l, SET_TAKEN), id);
}

void cv__local_mark_alive(struct local *l, cv_id id, enum local_standing standing, int64_t now_ns)
{
    struct local_peer *peer = peer_of(l, id);
    CV_ASSERT(peer->heard_ns <= now_ns); /* a local clock is never set back */
    if (now_ns < peer->gone_until_ns) {
        return; /* the message may have been sent before it went down */
    }
    peer->heard_ns = now_ns;
    cv__set_add(set_of(l, SET_ALIVE), id);
    set_to(l, SET_PASSIVE, id, standing != LOCAL_CANDIDATE);
    set_to(l, SET_TAKEN, id, standing == LOCAL_TAKEN);
}

bool cv__local_is_heard_by(struct local *l, cv_id id, const uint64_t *alive, int64_t now_ns)
{
    CV_ASSERT(id != l->self);
    struct local_peer *peer = peer_of(l, id);
    CV_ASSERT(peer->asked_ns <= now_ns);
    CV_ASSERT(peer->deaf_since_ns <= peer->asked_ns);
    const bool was_silent = now_ns - peer->asked_ns > l->expires_ns;
    const bool stays_deaf = cv__local_stays_deaf(peer);
    peer->asked_ns = now_ns;
    if (cv__set_has(alive, l->self)) {
        peer->deaf_since_ns = 0;
    } else if (peer->deaf_since_ns == 0 || (was_silent && !stays_deaf)) {
        peer->deaf_since_ns = now_ns;
    }
    return peer->deaf_since_ns == 0 || now_ns - peer->deaf_since_ns <= l->expires_ns;
}

cv_id cv__local_first_alive(struct local *l)
{
    uint64_t *scratch = set_of(l, SET_SCRATCH);
    const uint64_t *alive = set_of(l, SET_ALIVE);
    const uint64_t *passive = set_of(l, SET_PASSIVE);
    const uint64_t *taken = set_of(l, SET_TAKEN);
    for (uint32_t i = 0; i < cv__set_words(l->member_count); i++) {
        CV_ASSERT((passive[i] & ~alive[i]) == 0); /* passive processes are alive */
        CV_ASSERT((taken[i] & ~passive[i]) == 0); /* taken processes are passive */
        scratch[i] = alive[i] & ~passive[i];
    }
    return first_of(l, scratch);
}

bool cv__local_take_turn(struct local *l, cv_id turn, uint64_t turn_token)
{
    CV_ASSERT(turn >= 1);
    CV_ASSERT(turn <= l->member_count);
    /* Two partitions may have set turns with the same token: then the larger id counts. */
    if (turn_token < l->turn_token || (turn_token == l->turn_token && turn <= l->turn)) {
        return false;
    }
    CV_ASSERT(turn_token >= l->turn_token); /* an older turn never replaces a newer one */
    l->turn = turn;
    l->turn_token = turn_token;
    return true;
}
