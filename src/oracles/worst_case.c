/* src/oracles/worst_case.c - theta_w [Becker11, eq. 2]: the slowest request under this leader, one
 * that arrives at the farthest follower. */
#include "oracles/oracle.h"

static int64_t worst_case_score(const struct cv_oracle_view *view)
{
    const int64_t consensus_ns = cv__oracle_consensus_ns(view);
    if (consensus_ns == CV_SCORE_UNKNOWN) {
        return CV_SCORE_UNKNOWN;
    }
    int64_t farthest_ns = 0;
    for (cv_id id = 1; id <= view->member_count; id++) {
        farthest_ns = cv__max64(farthest_ns, view->peer[id - 1].rtt_ns);
    }
    CV_ASSERT(consensus_ns >= 0);
    CV_ASSERT(farthest_ns >= consensus_ns); /* the farthest member is not nearer than the quorum */
    return cv__min64(consensus_ns + farthest_ns, CV_SCORE_MAX);
}

const struct cv_oracle cv__oracle_worst_case = {
    .name = "worst-case",
    .formula = "consensus + longest round trip; lower wins",
    .inputs = "round trips, measured",
    .use = "a bound on every client's latency matters more than the mean",
    .order = CV_SCORE_LOWER_WINS,
    .is_time = true,
    .needs_peers = true,
    .score = worst_case_score,
};
