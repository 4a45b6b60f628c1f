/* src/runtime/witness.h - a small process that tells a member's peers when the member has died.
 *
 * Peers cannot see why a leader is silent, so they wait until its lease is over. The kernel of its
 * host knows when a process is dead, and tells the process at the other end of a pipe at once. The
 * witness is that process. It sends the frames that the member prepared (they are already sealed:
 * the witness has neither key nor counter), a few times because datagrams are lost, and ends.
 *
 * It sends them only when both are true:
 * - The member is dead: its pidfd says so, when none of its threads is left. A member that is
 *   stopped, frozen or without a processor is not dead.
 * - No process holds the pipe. The member gives copies to the processes that do its work (the guard
 *   and the command of `conclave run`); the guard keeps its copy until the command's tree is dead.
 *   A forked child of an embedding program has a copy as well.
 *
 * The frames are replaced as a whole: a member that dies during the replacement leaves the former
 * frames.
 *
 * The process is made by clone(2) without a signal at its end, so that a program that waits for its
 * own children does not see it. It blocks all signals, is in its own process group, has only the
 * three descriptors that it needs, and calls only functions that are safe in the child of a process
 * with threads. */
#ifndef CV_RUNTIME_WITNESS_H
#define CV_RUNTIME_WITNESS_H

#include "core/types.h"
#include "net/udp.h"

#include <sys/types.h>

#define CV_WITNESS_FRAME_BYTES_MAX 512u
#define CV_WITNESS_ROUNDS 3u /* how often each peer is told, within some milliseconds */

struct cv_witness;

/* The witness sends through this socket, which it shares with us. CV_E_IO: it could not be
 * started. */
CV_NODISCARD int cv__witness_new(int socket_fd, uint32_t peer_max, struct cv_witness **ret_witness,
                                 struct cv_errtext *reterr);
/* Ends it; it sends nothing. NULL is fine. */
void cv__witness_free(struct cv_witness *witness);

/* The frames that it will send, from cv__witness_commit() on: those of the first round, then those
 * of the next; at most CV_WITNESS_FRAME_BYTES_MAX each. */
void cv__witness_begin(struct cv_witness *witness);
void cv__witness_add(struct cv_witness *witness, const struct cv_udp_address *to,
                     const uint8_t *bytes, size_t byte_count);
void cv__witness_commit(struct cv_witness *witness);

/* Is it there? If it was killed, another one is started. False: there is none now. */
bool cv__witness_look(struct cv_witness *witness);

/* The pipe; the witness owns it. The witness waits until every copy is closed. */
int cv__witness_lifeline(const struct cv_witness *witness);
pid_t cv__witness_pid(const struct cv_witness *witness);

#endif
