/* src/stores/pg_next.h - the next contender on PostgreSQL registers in advance, and the holder's
 * RELEASE gives it the row, so that a hand-over takes one round trip.
 *
 * An ACQUIRE that finds the row held registers its contender in the row, unless another contender
 * with enough time left is registered. It records name, label, attempt and lease, the end of that
 * lease counted from now on the server's clock, the session, and a secret. It registers again about
 * every third of the lease. A RELEASE grants the row to the registered contender in one
 * transaction: a new token, the end of the lease *as registered*, and a notification with secret
 * and token. The contender that hears its secret holds the row without a further request.
 *
 * Why two contenders never hold it at once. For the server, a registration is an ACQUIRE that is
 * carried out later, and the argument is that of every ACQUIRE (lease.c): no other contender gets
 * the row before the registered end, and the registered contender counts on less time than that. An
 * answer to a request made at the instant r said that d were left. It left the server after r, so
 * the registration lasts at least d of the server's clock from r on, however late the answer comes.
 * This time never becomes shorter: a registration of the same attempt never ends earlier than
 * before, and one that was replaced and made again is made later. So at a later instant r + e the
 * contender counts on d - e, less a part of e, because its clock may be slower than the server's. A
 * notification that is lost or late costs only time: the same attempt asks for the row and holds
 * it, or the registration ends.
 *
 * Why each protection exists:
 * - The secret. Every user that may connect to the database can send notifications and hear all of
 *   them; only contenders can read the table. A secret belongs to one attempt, and is published
 *   only when that attempt holds the row. So hearing it is proof, and repeating it has no effect:
 *   the attempt is never registered again once its token is known.
 * - The connection. A registration is trusted only while the connection lives on which it was
 *   answered: no notification was missed on it, so the first one with the secret is the server's.
 * - The session. A contender that died does not get the row, because its session has ended. One
 *   that hangs gets it, and the others wait until its registration ends: at most one lease.
 * - The attempt. An attempt that is over, because it was released or granted, is not registered
 *   again by a late copy of its ACQUIRE. Otherwise there would be no leader until it ends.
 *
 * Tables of an earlier version have no columns for this, and sessions behind a pooler hear no
 * notifications: then a hand-over takes two round trips. Contenders of an earlier version neither
 * register nor grant; this is compatible, because a registration is checked at the RELEASE. */
#ifndef CV_STORES_PG_NEXT_H
#define CV_STORES_PG_NEXT_H

#include "stores/remote.h"

/* Invariants: attempt 0: all zero; sure_ns 0: not registered, or not known; given_token is not 0
 * only if a notification had the secret. */
struct cv_pg_next {
    uint64_t attempt, secret;
    int64_t asked_ns, sure_ns, lease_ns; /* from that instant so long, of so much */
    bool is_told;                        /* the secret was heard: it proves nothing any more */
    uint64_t given_token;
};

/* The secret with which this attempt registers, never 0. */
uint64_t cv__pg_next_secret(struct cv_pg_next *next, uint64_t attempt);

/* The answer to this request says that the registration lasts so long; 0: there is none. */
void cv__pg_next_seen(struct cv_pg_next *next, const struct cv_remote_request *one,
                      int64_t remaining_ns);

/* True: this notification gives the row to the attempt that is registered. */
bool cv__pg_next_hear(struct cv_pg_next *next, const char *payload);

/* The row was given to this ACQUIRE's attempt: for so long from its asking. 0: it was not, or what
 * is left is too short. */
int64_t cv__pg_next_left_ns(const struct cv_pg_next *next, const struct cv_remote_request *one);

#endif
