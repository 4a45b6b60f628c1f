/* src/core/failaware.c - an upper bound on the delay of a message. */
#include "core/failaware.h"

#define PPB INT64_C(1000000000)

/* t(1+rho) and t(1-rho), rounded up and down: rounding must not make a bound too small. */
static inline int64_t drift_ns(int64_t ns, int64_t drift_ppb)
{
    CV_ASSERT(ns >= 0);
    CV_ASSERT(drift_ppb >= 0);
    const int64_t ns_small = INT64_C(1) << 43; /* 2.4 hours: the product fits into 64 bits */
    if (ns < ns_small && drift_ppb < 1 << 20) {
        return (int64_t)(((uint64_t)ns * (uint64_t)drift_ppb + PPB - 1) / PPB);
    }
    return (int64_t)(((__int128)ns * drift_ppb + PPB - 1) / PPB);
}

static int64_t stretch(int64_t ns, int64_t drift_ppb)
{
    const int64_t longer_ns = ns + drift_ns(ns, drift_ppb);
    CV_ASSERT(longer_ns >= ns);
    return longer_ns;
}

static int64_t shrink(int64_t ns, int64_t drift_ppb)
{
    const int64_t shorter_ns = ns - drift_ns(ns, drift_ppb);
    CV_ASSERT(shorter_ns <= ns);
    return shorter_ns;
}

/* Stamps come from peers, so values that no clock can show are not used (0: no stamp yet). */
static bool is_stamp(int64_t ns)
{
    return ns > 0 && ns < INT64_MAX / 4;
}

void cv__echo_update(struct cv_echo *echo, const struct cv_stamp *stamp, int64_t received_ns,
                     int64_t drift_ppb)
{
    const int64_t peer_sent_ns = stamp->sent_ns;
    if (!is_stamp(peer_sent_ns)) {
        return;
    }
    if (echo->peer_sent_ns != 0 && echo->peer_boot == stamp->boot) {
        CV_ASSERT(received_ns >= echo->received_ns); /* our own clock, in one boot */
        /* Frame n enters the bound as B(1-rho) - A(1+rho): the smaller, the better. This term grows
         * by 2 rho as time passes, so a fresh good n replaces an old excellent one. */
        const int64_t later_b = received_ns - echo->received_ns;
        const int64_t later_a = peer_sent_ns - echo->peer_sent_ns;
        if (later_a <= 0 || shrink(later_b, drift_ppb) > stretch(later_a, drift_ppb)) {
            return;
        }
    }
    CV_ASSERT(is_stamp(peer_sent_ns)); /* only values that a clock can show are echoed */
    echo->peer_sent_ns = peer_sent_ns;
    echo->received_ns = received_ns;
    echo->peer_boot = stamp->boot;
}

int64_t cv__delay_bound(const struct cv_stamp *stamp, uint64_t boot, int64_t received_ns,
                        int64_t drift_ppb, int64_t delay_ns_min)
{
    CV_ASSERT(delay_ns_min >= 0); /* the echoed frame took at least this long */
    if (stamp->echo.peer_boot != boot) {
        return CV_DELAY_UNKNOWN; /* the echoed stamp is from before this machine booted */
    }
    if (!is_stamp(stamp->echo.peer_sent_ns) || !is_stamp(stamp->echo.received_ns) ||
        !is_stamp(stamp->sent_ns)) {
        return CV_DELAY_UNKNOWN;
    }
    const int64_t round_trip = received_ns - stamp->echo.peer_sent_ns;
    const int64_t sat_on_it = stamp->sent_ns - stamp->echo.received_ns;
    if (round_trip < 0 || sat_on_it < 0) {
        return CV_DELAY_UNKNOWN; /* forged, or a clock that was set back */
    }
    const int64_t bound =
        stretch(round_trip, drift_ppb) - shrink(sat_on_it, drift_ppb) - delay_ns_min;
    return cv__max64(bound, 0);
}
