/* src/runtime/witness.h - a small process that tells a member's peers when the member has died.
 *
 * Silence says nothing about its reason, so peers wait for the lease of a leader that is not heard
 * any more. The kernel of its host knows better: a process that is dead does nothing any more, and
 * whoever holds the other end of a pipe learns of it at once. The witness is such a process. It
 * sends what the member prepared for this case (the frames are sealed already: it has neither key
 * nor counter), a few times because datagrams are lost, and ends.
 *
 * It speaks only when both are true:
 * - The member is dead: its pidfd says so, which it does when no thread of it is left. A member
 *   that is stopped, frozen or without a processor is not dead.
 * - Nobody holds the pipe. The member gives copies to those who do its work (the guard and the
 *   command of `conclave run`); the guard keeps its copy until the command's tree is dead. A forked
 *   child of an embedding program has a copy as well.
 *
 * What is to be said is replaced as a whole: a member that dies meanwhile leaves the former frames.
 *
 * The process is made by clone(2) without a signal at its end, so that a program that waits for
 * children of its own does not meet it; it blocks all signals, is in a process group of its own,
 * has no descriptor but the three that it needs, and calls only what may be called in the child of
 * a process with threads. */
#ifndef CV_RUNTIME_WITNESS_H
#define CV_RUNTIME_WITNESS_H

#include "core/types.h"
#include "net/udp.h"

#include <sys/types.h>

#define CV_WITNESS_FRAME_BYTES_MAX 512u
#define CV_WITNESS_ROUNDS 3u /* each peer is told so often, within some milliseconds */

struct cv_witness;

/* The witness sends by this socket, which it shares with us. CV_E_IO: this host cannot have one. */
CV_NODISCARD int cv__witness_new(int socket_fd, uint32_t peer_max, struct cv_witness **ret_witness,
                                 struct cv_errtext *reterr);
/* It ends without a word. NULL is fine. */
void cv__witness_free(struct cv_witness *witness);

/* What it is to say, from cv__witness_commit() on: the frames of the first round, then those of the
 * next; at most CV_WITNESS_FRAME_BYTES_MAX each. */
void cv__witness_begin(struct cv_witness *witness);
void cv__witness_add(struct cv_witness *witness, const struct cv_udp_address *to,
                     const uint8_t *bytes, size_t byte_count);
void cv__witness_commit(struct cv_witness *witness);

/* Is it there? If it was killed, another one is started. False: there is none now. */
bool cv__witness_look(struct cv_witness *witness);

/* The pipe; stays the witness's. Whoever has a copy is waited for. */
int cv__witness_lifeline(const struct cv_witness *witness);
pid_t cv__witness_pid(const struct cv_witness *witness);

#endif
