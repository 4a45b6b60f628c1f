/* src/net/drift.c - see drift.h. */
#include "net/drift.h"

void cv__drift_add(struct cv_drift *d, int64_t now_ns, int64_t peer_sent_ns, int64_t round_ns)
{
    if (d->best.is_there && now_ns - d->window_ns >= CV_DRIFT_WINDOW_NS) {
        if (d->first.is_there) {
            d->latest = d->best;
        } else {
            d->first = d->best;
        }
        d->best.is_there = false;
    }
    if (!d->best.is_there) {
        d->window_ns = now_ns;
    }
    if (!d->best.is_there || round_ns < d->best.round_ns) {
        d->best = (struct cv_drift_sample){true, now_ns, peer_sent_ns - (now_ns - round_ns / 2),
                                           round_ns};
    }
}

int64_t cv__drift_ppb(const struct cv_drift *d)
{
    if (!d->latest.is_there) {
        return CV_DRIFT_UNKNOWN;
    }
    const double gained_ns = (double)(d->latest.offset_ns - d->first.offset_ns);
    return (int64_t)(gained_ns / (double)(d->latest.at_ns - d->first.at_ns) * 1e9);
}
