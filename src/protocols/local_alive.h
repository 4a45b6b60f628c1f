/* src/protocols/local_alive.h - which processes are alive, and which comes first [Fetzer99, sec.
 * VIII, independent assessment].
 *
 * A fast ELECTION, REPLY or ECHO of a process makes it alive for `expires`; nothing else does. Each
 * process decides this for itself and sends no messages for it. Ids are ordered from the one whose
 * turn it is (`rotate`); without turns, from 1. */
#ifndef CV_PROTOCOLS_LOCAL_ALIVE_H
#define CV_PROTOCOLS_LOCAL_ALIVE_H

#include "protocols/local_state.h"

/* How many processes come before this one in the order of turns, if all are alive. */
static inline uint32_t cv__local_place(const struct local *l, cv_id id)
{
    CV_ASSERT(id >= 1 && id <= l->member_count);
    return id >= l->turn ? id - l->turn : id + l->member_count - l->turn;
}

/* Does a come before b in the order of turns? */
static inline bool cv__local_is_before(const struct local *l, cv_id a, cv_id b)
{
    return cv__local_place(l, a) < cv__local_place(l, b);
}

/* Removes from the alive set the processes not heard for `expires`, this one included. Returns the
 * first instant at which this process could be the first one alive, if it hears nothing more of
 * those before it. No earlier candidacy makes sense, so no polling is needed. */
int64_t cv__local_purge(struct local *l, int64_t now_ns);

/* What a living process can be for us. A taken process follows a leader before us: like a passive
 * one it will not become a candidate, and it cannot support us. */
enum local_standing { LOCAL_CANDIDATE, LOCAL_PASSIVE, LOCAL_TAKEN };

static inline enum local_standing cv__local_standing(bool is_passive, bool is_taken)
{
    return is_taken ? LOCAL_TAKEN : is_passive ? LOCAL_PASSIVE : LOCAL_CANDIDATE;
}

/* Ignored within Delta after the process was reported down. */
void cv__local_mark_alive(struct local *l, cv_id id, enum local_standing standing, int64_t now_ns);
void cv__local_mark_dead(struct local *l, cv_id id);

/* It asked more than once and did not hear our answers: it stays deaf however long it is silent. A
 * process that asked only once had no time to list us. */
static inline bool cv__local_stays_deaf(const struct local_peer *peer)
{
    return peer->deaf_since_ns != 0 && peer->asked_ns > peer->deaf_since_ns;
}

/* A process that asks lists the processes it hears. One that has not heard our answers for
 * `expires` is not connected to us, even if we hear it; we would wait for it in vain. */
bool cv__local_is_heard_by(struct local *l, cv_id id, const uint64_t *alive, int64_t now_ns);

/* The first process that is alive and not passive, or none. */
cv_id cv__local_first_alive(struct local *l);

/* The turn that was set last counts. True: it differs from the one before. */
bool cv__local_take_turn(struct local *l, cv_id turn, uint64_t turn_token);

#endif
