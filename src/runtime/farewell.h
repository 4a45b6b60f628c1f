/* src/runtime/farewell.h - the frames that a member's witness (witness.h) sends, kept up to date.
 *
 * One frame for each peer: it says that this member is down, and carries the core's farewell
 * (conclave/core.h), for `pole` the RELEASE of the largest epoch that it claimed. The frames name
 * the current life of the peer, so they are sealed again when a life or the farewell changes, which
 * is seldom. That must happen after a claim was saved and before it is sent: cv__farewell_renew()
 * is called between a step and the flush of its frames.
 *
 * docs/peers.md says why this makes no second leader. A certain "down" frees the promises of other
 * members to this one, also those to an earlier life, whose work may still go on for a lease. So it
 * is only a hint until all promises to an earlier life have expired. */
#ifndef CV_RUNTIME_FAREWELL_H
#define CV_RUNTIME_FAREWELL_H

#include "net/peers.h"
#include "runtime/host.h"
#include "runtime/witness.h"

struct cv_farewell {
    struct cv_witness *witness; /* NULL: there is none */
    cv_id self;
    uint32_t member_count;
    int64_t certain_ns; /* from then on no promise to an earlier life is left */

    /* What was sealed. */
    bool is_sealed;
    uint64_t lives;
    uint8_t items[64];
    size_t item_bytes;
};

/* Starts the witness. If it fails, nobody is told when this member dies; all else works. */
CV_NODISCARD int cv__farewell_open(struct cv_farewell *farewell, int socket_fd, cv_id self,
                                   uint32_t member_count, int64_t certain_ns,
                                   struct cv_errtext *reterr);
/* Ends the witness: nobody is told any more. */
void cv__farewell_close(struct cv_farewell *farewell);

void cv__farewell_renew(struct cv_farewell *farewell, struct cv_peers *peers, struct cv_host *host,
                        int64_t now_ns);

#endif
