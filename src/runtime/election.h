/* src/runtime/election.h - what the commands may know of an election beyond the public header. */
#ifndef CV_RUNTIME_ELECTION_H
#define CV_RUNTIME_ELECTION_H

#include <conclave/conclave.h>

/* A copy, for descendants to inherit, of the descriptor by which the others learn that this leader
 * and all of them are gone (stores/store.h); -1: not leading, or there is no such thing. */
int cv__election_lifeline(struct cv_election *election);

/* What it was opened with, defaults filled in. */
const char *cv__election_node(const struct cv_election *election);
const char *cv__election_address(const struct cv_election *election);

#endif
