/* src/runtime/election.h - what the commands may know of an election beyond the public header. */
#ifndef CV_RUNTIME_ELECTION_H
#define CV_RUNTIME_ELECTION_H

#include <conclave/conclave.h>

/* A copy, for descendants to inherit, of the descriptor by which the others learn that this leader
 * and all of them are gone (stores/store.h); -1: not leading, or there is no such thing. */
int cv__election_lifeline(struct cv_election *election);

/* The name of a contender: the one that is wanted, if it can be one; NULL: host and process id. */
CV_NODISCARD int cv__node_name(char ret_node[CV_NODE_BYTES], const char *wanted,
                               struct cv_errtext *reterr);

#endif
