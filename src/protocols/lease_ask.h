/* src/protocols/lease_ask.h - what `lease` asks the store next, and when.
 *
 * One request is open at a time. Its answer, its time-out or a notification decides when the next
 * one is made; the role decides which one. */
#ifndef CV_PROTOCOLS_LEASE_ASK_H
#define CV_PROTOCOLS_LEASE_ASK_H

#include "protocols/lease_state.h"

/* The one place where the role changes. */
void cv__lease_become(struct lease *l, enum lease_role role);

/* Does it want the record now? True for a candidate that is not letting others go first. */
bool cv__lease_stands(const struct lease *l, int64_t now_ns);

/* Asks the store what the role needs. No request may be open. */
void cv__lease_ask(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* Forgets the open request; the next request is made when this step ends. */
void cv__lease_ask_anew(struct lease *l);

/* Schedules the next request within that range, unless one is open or due. */
void cv__lease_ask_between(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                           struct cv_effects *out);

/* The pause that follows pause_ns (0: the first pause): twice as long, up to a limit. */
int64_t cv__lease_longer_ns(const struct lease *l, int64_t pause_ns, int64_t limit_ns);

/* The latest request failed, was not answered in time, or its answer is of no use. */
void cv__lease_on_failure(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* The record may have changed: asks the store, within the limits of the token bucket. */
void cv__lease_on_notification(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* The shortest time between requests of a waiting contender, in the long run. */
int64_t cv__lease_gap_ns(const struct lease *l);

#endif
