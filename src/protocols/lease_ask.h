/* src/protocols/lease_ask.h - what `lease` asks the store next, and when.
 *
 * One request is open at a time. Its answer, its time-out or a notification decides when the next
 * one is made; what that is follows from the role. */
#ifndef CV_PROTOCOLS_LEASE_ASK_H
#define CV_PROTOCOLS_LEASE_ASK_H

#include "protocols/lease_state.h"

/* The one place where the role changes. */
void cv__lease_become(struct lease *l, enum lease_role role);

/* Does it want the record now? It is a candidate, and does not let others go first. */
bool cv__lease_stands(const struct lease *l, int64_t now_ns);

/* Asks the store what the role needs. No request may be open. */
void cv__lease_ask(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* Whatever is open does not matter any more; the next request is made when this step ends. */
void cv__lease_ask_anew(struct lease *l);

/* The next request is made in that time, unless one is open or due. */
void cv__lease_ask_between(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                           struct cv_effects *out);

/* The pause after that one (0: the first): twice as long, up to a limit. */
int64_t cv__lease_longer_ns(const struct lease *l, int64_t pause_ns, int64_t limit_ns);

/* The latest request failed, was not answered in time, or its answer is of no use. */
void cv__lease_on_failure(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* The record may have changed: it is worth asking, but not all the time. */
void cv__lease_on_notification(struct lease *l, int64_t now_ns, struct cv_effects *out);

/* A waiting contender asks no more often than this. */
int64_t cv__lease_gap_ns(const struct lease *l);

#endif
