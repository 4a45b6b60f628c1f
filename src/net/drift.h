/* src/net/drift.h - estimates from frames how much faster a peer's clock runs than ours.
 *
 * A frame that answers one of ours carries the peer's clock at its sending, which was about half a
 * round trip ago. In each window the frame with the shortest round trip is kept, because its error
 * is the smallest; the drift is the slope between the first window and the latest. The estimate is
 * for people only: the promises depend on the bound in the file of the cluster, and the estimate
 * shows whether the bound is kept. */
#ifndef CV_NET_DRIFT_H
#define CV_NET_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#define CV_DRIFT_WINDOW_NS INT64_C(5000000000)
#define CV_DRIFT_UNKNOWN INT64_MIN

/* Zeros: nothing was seen. */
struct cv_drift {
    struct cv_drift_sample {
        bool is_there;
        int64_t at_ns, offset_ns, round_ns;
    } first, latest, best; /* of the first window, of the latest that is over, of this one */
    int64_t window_ns;     /* when this one began */
};

void cv__drift_add(struct cv_drift *drift, int64_t now_ns, int64_t peer_sent_ns, int64_t round_ns);

/* In billionths: positive if the peer's clock is the faster one. CV_DRIFT_UNKNOWN in the first two
 * windows. */
int64_t cv__drift_ppb(const struct cv_drift *drift);

#endif
