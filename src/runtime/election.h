/* src/runtime/election.h - functions of an election for our commands, beyond the public header. */
#ifndef CV_RUNTIME_ELECTION_H
#define CV_RUNTIME_ELECTION_H

#include <conclave/conclave.h>

/* cv_open() for a leader with descendants: its leadership is not over before they are gone, see
 * cv__election_lifeline(). The children of an embedding program inherit nothing. */
CV_NODISCARD int cv__election_open(struct cv_election **ret_election, const char *name,
                                   const char *address, const struct cv_election_options *options,
                                   struct cv_errtext *reterr);

struct cv_recorder;

/* cv_open() for an election whose core is recorded (runtime/tap.h). The recorder is lent until the
 * election is closed. */
CV_NODISCARD int cv__election_open_recorded(struct cv_election **ret_election, const char *name,
                                            const char *address,
                                            const struct cv_election_options *options,
                                            const struct cv_recorder *recorder,
                                            struct cv_errtext *reterr);

/* A new descriptor for descendants to inherit, by which the others learn that all of them, and this
 * leader, are gone (stores/lifeline.h); negative: not leading, or the backend has none. The caller
 * closes its copy when the descendants have theirs: while it is open, a command counts as
 * running. */
int cv__election_lifeline(struct cv_election *election);

/* cv_resign() with a reason for the audit trail. */
int cv__election_resign(struct cv_election *election, const char *heir, enum cv_reason why);

/* The name of a contender: `wanted`, if it is a valid name; NULL: host name and process id. */
CV_NODISCARD int cv__election_node_name(char ret_node[CV_NODE_BYTES], const char *wanted,
                                        struct cv_errtext *reterr);

#endif
