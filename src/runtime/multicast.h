/* src/runtime/multicast.h - one participant of an election among the members of a multicast group.
 *
 * Opens everything that an address multicast:GROUP:PORT?OPTIONS asks for: a host for the core, a
 * socket, frames, a sequencer, and a file for what must survive a restart. Options:
 *
 *   interface=  the interface of the group: an address or a name (default: as routed)
 *   ttl=        how far frames travel (1: this link)
 *   key=FILE    frames are authenticated and encrypted; or the word
 *   insecure    they are not
 *   protocol=   one that needs no list of members (default: anon)
 *   sequencer=  for protocols that need numbers: snmp:..., file:...
 *   state=FILE  for protocols that save something
 *
 * and every option of the protocol. Frames that are not accepted are counted, and
 * reported once for each reason. */
#ifndef CV_RUNTIME_MULTICAST_H
#define CV_RUNTIME_MULTICAST_H

#include "net/frame.h"
#include "runtime/host.h"
#include "sequencers/sequencer.h"

struct cv_participant;

/* What the owner is told. All but `leadership` may be NULL. The last two are for measurements: when
 * the sequencer is asked, and when it answers. */
struct cv_participant_told {
    void *self;
    void (*leadership)(void *self, const struct cv_leadership *leadership);
    void (*trouble)(void *self, const char *line);
    void (*asked)(void *self, uint64_t request);
    void (*answered)(void *self, uint64_t request, uint64_t number);
    const struct cv_recorder *recorder; /* lent */
};

/* What the protocol that the address names promises, with the options that the address sets. Checks
 * these, and neither opens nor reads anything. CV_OK, CV_E_INVALID or CV_E_UNKNOWN. */
CV_NODISCARD int cv__participant_contract(const char *address, uint32_t *ret_promises,
                                          uint32_t *ret_assumes, struct cv_errtext *reterr);

/* Opens and starts it. `timers` are lent, of the same loop; NULL: it makes its own. `address` is
 * used during the call only. On failure nothing is left, but the loop must run once more to close
 * handles. */
CV_NODISCARD int cv__participant_open(uv_loop_t *loop, struct cv_timers *timers,
                                      const char *election, const char *address,
                                      const struct cv_participant_told *told,
                                      struct cv_participant **ret_participant,
                                      struct cv_errtext *reterr);

/* Ends it without telling the others. To hand over, first stop campaigning (cv__host_campaign()).
 * `closed` is called by the loop. */
void cv__participant_close(struct cv_participant *participant, void (*closed)(void *data),
                           void *data);

struct cv_host *cv__participant_host(struct cv_participant *participant);
uint64_t cv__participant_frames(const struct cv_participant *participant, enum cv_frame_fate fate);
/* NULL: the protocol needs none. */
const struct cv_sequencer_counts *cv__participant_sequencer(
    const struct cv_participant *participant);

#endif
