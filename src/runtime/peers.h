/* src/runtime/peers.h - one member of a cluster (net/cluster.h): a core among its peers, no store.
 *
 * Brings together a host, a socket (port.h), frames (net/peers.h) and the state file (slots.h).
 * A member without a state asks the other members first (joining.h); until then it does not take
 * part and says why. Records are saved on the loop's thread: writing the one block of a slot takes
 * less time than waking another thread.
 *
 * Refused frames are counted, and reported once for each reason; a member with a different file is
 * named. */
#ifndef CV_RUNTIME_PEERS_H
#define CV_RUNTIME_PEERS_H

#include "net/cluster.h"
#include "net/peers.h"
#include "runtime/host.h"
#include "stores/shared.h"

struct cv_peering;

/* What the owner is told; all of them on the loop's thread. */
struct cv_peering_told {
    void *self;
    void (*leadership)(void *self, const struct cv_leadership *leadership);
    void (*trouble)(void *self, const char *line); /* why it takes no part; empty: it does */
    void (*log)(void *self, const char *line);
    /* The leader with this token is asked to resign; heir may be CV_ID_NONE. */
    void (*resign_requested)(void *self, uint64_t token, cv_id heir);
    /* May the core's messages leave? False: the application is stuck, and its leadership must not
     * be prolonged. */
    bool (*may_send)(void *self);
};

struct cv_peering_setting {
    uv_loop_t *loop;
    struct cv_shared_list *shared; /* of the loop: its elections share a member's socket (port.h) */
    struct cv_timers *timers;
    const char *election;
    const struct cv_cluster *cluster; /* copied */
    cv_id self;
    bool is_candidate;
    const struct cv_recorder *recorder; /* lent; NULL: none */
    struct cv_peering_told told;
};

/* On failure nothing is left, but the loop must be turned once more for handles to be closed. */
CV_NODISCARD int cv__peering_open(const struct cv_peering_setting *setting,
                                  struct cv_peering **ret_peering, struct cv_errtext *reterr);
/* Ends it without telling the others; what was said before is sent. `closed` is called by the
 * loop. */
void cv__peering_close(struct cv_peering *peering, void (*closed)(void *data), void *data);

void cv__peering_campaign(struct cv_peering *peering, bool is_candidate);
void cv__peering_resign(struct cv_peering *peering, cv_id heir);
/* Asks the leader that this member knows. False: it knows none. */
bool cv__peering_request_resign(struct cv_peering *peering, cv_id heir);
void cv__peering_report(struct cv_peering *peering, enum cv_input input, int64_t value);

/* A descriptor for the processes that do this leader's work (witness.h), or -1. */
int cv__peering_lifeline(const struct cv_peering *peering);

/* Its witness reported the death of its process, and no later process of it was heard. */
bool cv__peering_is_dead(const struct cv_peering *peering, cv_id member);

/* For reports. */
const struct cv_peers *cv__peering_peers(const struct cv_peering *peering);

#endif
