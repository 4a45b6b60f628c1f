/* src/protocols/local_alive.c - who is alive, and who of them comes first; see local_alive.h. */
#include "protocols/local_alive.h"

/* The first in the order of turns: from `turn` upwards, then from 1. */
static cv_id first_of(const struct local *l, const uint64_t *set)
{
    const cv_id id = cv__set_next(set, l->turn, l->member_count);
    return id != CV_ID_NONE ? id : cv__set_next(set, 1, l->member_count);
}

bool cv__local_is_before(const struct local *l, cv_id a, cv_id b)
{
    CV_ASSERT(a >= 1);
    CV_ASSERT(b >= 1);
    return (a + l->member_count - l->turn) % l->member_count <
           (b + l->member_count - l->turn) % l->member_count;
}

int64_t cv__local_purge(struct local *l, int64_t now_ns)
{
    uint64_t *alive = set_of(l, SET_ALIVE);
    int64_t first_ns = now_ns;
    for (cv_id id = 1; (id = cv__set_next(alive, id, l->member_count)) != CV_ID_NONE; id++) {
        CV_ASSERT(*heard_of(l, id) > 0);
        CV_ASSERT(*heard_of(l, id) <= now_ns);
        const int64_t until_ns = *heard_of(l, id) + l->expires_ns;
        if (until_ns < now_ns) {
            cv__set_remove(alive, id);
            cv__set_remove(set_of(l, SET_PASSIVE), id);
        } else if (cv__local_is_before(l, id, l->self) &&
                   !cv__set_has(set_of(l, SET_PASSIVE), id)) {
            first_ns = cv__max64(first_ns, until_ns + 1);
        }
    }
    return first_ns;
}

void cv__local_mark_alive(struct local *l, cv_id id, bool is_passive, int64_t now_ns)
{
    CV_ASSERT(*heard_of(l, id) <= now_ns); /* a local clock is never set back */
    cv__set_add(set_of(l, SET_ALIVE), id);
    *heard_of(l, id) = now_ns;
    if (is_passive) {
        cv__set_add(set_of(l, SET_PASSIVE), id);
    } else {
        cv__set_remove(set_of(l, SET_PASSIVE), id);
    }
}

cv_id cv__local_first_alive(struct local *l)
{
    uint64_t *scratch = set_of(l, SET_SCRATCH);
    const uint64_t *alive = set_of(l, SET_ALIVE);
    const uint64_t *passive = set_of(l, SET_PASSIVE);
    for (uint32_t i = 0; i < cv__set_words(l->member_count); i++) {
        CV_ASSERT((passive[i] & ~alive[i]) == 0); /* who is not alive is not kept as passive */
        scratch[i] = alive[i] & ~passive[i];
    }
    return first_of(l, scratch);
}

bool cv__local_take_turn(struct local *l, cv_id turn, uint64_t turn_token)
{
    CV_ASSERT(turn >= 1);
    CV_ASSERT(turn <= l->member_count);
    /* Two partitions may have set a turn with the same token: the larger id counts. */
    if (turn_token < l->turn_token || (turn_token == l->turn_token && turn <= l->turn)) {
        return false;
    }
    l->turn = turn;
    l->turn_token = turn_token;
    return true;
}
