/* src/oracles/latency.c - theta_l [Becker11, eq. 1]: mean latency of requests under this leader.
 *
 * Each request costs the round trip between leader and the follower that it arrives at, and then
 * the consensus. Eq. 1 weights one-way times; the paper's text and measurements mean the round
 * trip, and so do we. */
#include "oracles/oracle.h"

static int64_t latency_score(const struct cv_oracle_view *view)
{
    const int64_t consensus_ns = cv__oracle_consensus_ns(view);
    if (consensus_ns == CV_SCORE_UNKNOWN) {
        return CV_SCORE_UNKNOWN;
    }
    __int128 weighted = 0;
    __int128 total = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct cv_oracle_peer *peer = &view->peer[i];
        if (peer->rtt_ns >= 0) {
            const uint64_t rate = peer->rate < UINT32_MAX ? peer->rate : UINT32_MAX;
            weighted += (__int128)rate * peer->rtt_ns;
            total += rate;
        }
    }
    CV_ASSERT(consensus_ns >= 0);
    CV_ASSERT(weighted >= 0);
    CV_ASSERT(total >= 0);
    const int64_t mean_ns = total > 0 ? (int64_t)(weighted / total) : 0;
    return cv__min64(consensus_ns + mean_ns, CV_SCORE_MAX);
}

const struct cv_oracle cv__oracle_latency = {
    .name = "latency",
    .formula = "consensus + mean round trip to where requests arrive; lower wins",
    .inputs = "round trips, measured; report request-rate",
    .use = "several data centres with uneven clients: the lowest mean latency",
    .order = CV_SCORE_LOWER_WINS,
    .is_time = true,
    .needs_peers = true,
    .score = latency_score,
};
