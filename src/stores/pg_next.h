/* src/stores/pg_next.h - whoever is next on PostgreSQL: one that waits registers in advance, and
 * the holder's RELEASE gives the row to it, so that a hand-over takes one round trip.
 *
 * An ACQUIRE that finds the row held registers its contender in the row, if nobody else is
 * registered whose time is worth a leadership: name, label, attempt and lease, the end of that
 * lease counted from now on the server's clock, the session, and a secret. It is registered again
 * about every third of the lease. A RELEASE grants the row to the contender that is registered, in
 * one transaction: a new token, the lease's end *as it was registered*, and a notification with
 * secret and token. The contender that hears its secret holds the row, and asks nothing.
 *
 * Why two never hold it at once. To the server, a registration is an ACQUIRE that is carried out
 * later, and the argument is that of every ACQUIRE (lease.c): the row is given to nobody else
 * before the end that was registered, and the contender counts less than that. An answer to a
 * request that was made at the instant r said that d were left; it came from the server later than
 * r, so what is registered lasts at least d of the server's clock from r on, however late that is
 * heard. It cannot become less: a registration of the same attempt never ends earlier than it did,
 * and one that was replaced and made again is made later. So at a later instant r + e the contender
 * counts on d - e, less a part of e, as its clock may be slower than the server's. What is not
 * heard, or heard too late, costs time only: the row is asked for by the same attempt, which holds
 * it, or its end comes.
 *
 * What each protection is for:
 * - The secret. Everybody who may connect to the database can send a notification, and hear those
 *   of others; the table is read by those only who take part. A secret belongs to one attempt, and
 *   is told only when that attempt holds the row, so hearing it is proof, and repeating it adds
 *   nothing: the attempt is never registered again once its token is known.
 * - The connection. What was registered is believed only while the connection lives by which it was
 *   answered: nothing was missed on it, so the first notification with the secret is the server's.
 * - The session. A contender that died does not get the row: its session has ended. One that hangs
 *   gets it, and others wait until its registration ends: at most one lease.
 * - The attempt. One that is over, because it was released or granted, is not registered again by a
 *   copy of its ACQUIRE that arrives late. If it were, nobody would lead until it ends.
 *
 * Tables of an earlier version have no columns for this, sessions behind a pooler hear nothing:
 * then a hand-over takes two round trips. Contenders of an earlier version neither register nor
 * give; what they do to the row fits, as a registration is judged when the row is released. */
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
