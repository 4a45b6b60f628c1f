/* src/core/failaware.h - an upper bound on the delay of a message, without synchronised clocks.
 *
 * [Fetzer99, sec. IV and its ref. 23] Every frame from p to q carries, for some frame n that p got
 * from q before: A, the stamp at which q sent n (q's clock), B, the stamp at which p received n,
 * and C, the stamp at which p sends this frame (both p's clock). q receives it at D (q's clock).
 * The round trip q -> p -> q took D - A on q's clock, of which p waited for C - B; what remains is
 * the delay of both frames together, and the first one took at least delay_min. Stretching one by
 * 1+rho and the other by 1-rho covers any drift:
 *
 *     delay <= (D - A)(1 + rho) - (C - B)(1 - rho) - delay_min
 *
 * A frame whose bound is within the limit is fast; one with a larger bound, or without an earlier
 * n, is slow. This is safe whatever the network does: only drift beyond rho can make the bound too
 * small.
 *
 * A machine that boots again counts from near zero, so one bound must never mix instants of two
 * boots. Each clock therefore has a boot, a number that differs between any two boots of a machine.
 * A frame names the boots of C and of A. q computes a bound only if A is of its present boot, and p
 * forgets its echo of q as soon as it hears of another boot of q. A restart of the process alone
 * keeps the machine's clock, and with it the boot. Time: none. Memory: one echo for each peer
 * heard, owned by the transport (or the simulator). */
#ifndef CV_CORE_FAILAWARE_H
#define CV_CORE_FAILAWARE_H

#include "core/types.h"

#define CV_DELAY_UNKNOWN INT64_MAX

/* The best n so far of one peer. All zero: none yet. */
struct cv_echo {
    int64_t peer_sent_ns; /* A, the peer's clock; 0: nothing received yet */
    int64_t received_ns;  /* B, our clock */
    uint64_t peer_boot;   /* of the peer's clock when it showed A */
};

/* What a frame carries for its receiver. */
struct cv_stamp {
    struct cv_echo echo; /* A and B: of the receiver's own earlier frame */
    int64_t sent_ns;     /* C */
    uint64_t boot;       /* of the sender's clock when it showed C */
};

/* Remembers a received frame if it gives later frames a better (smaller) bound than the one kept,
 * or if the peer has booted since. */
void cv__echo_update(struct cv_echo *echo, const struct cv_stamp *stamp, int64_t received_ns,
                     int64_t drift_ppb);

/* The bound for a frame received at received_ns (D), in this boot of the receiver's clock; never
 * negative; CV_DELAY_UNKNOWN if there is none. */
int64_t cv__delay_bound(const struct cv_stamp *stamp, uint64_t boot, int64_t received_ns,
                        int64_t drift_ppb, int64_t delay_ns_min);

#endif
