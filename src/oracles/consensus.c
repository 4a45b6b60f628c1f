/* src/oracles/consensus.c - theta_c [Becker11, sec. 3.3]: the fastest to hear from a quorum
 * leads. */
#include "oracles/oracle.h"

const struct cv_oracle cv__oracle_consensus = {
    .name = "consensus",
    .formula = "(floor(N/2)+1)-th smallest round trip, own = 0; lower wins",
    .inputs = "round trips, measured",
    .use = "throughput of the leader's own operations; says nothing about where clients are",
    .order = CV_SCORE_LOWER_WINS,
    .is_time = true,
    .needs_peers = true,
    .score = cv__oracle_consensus_ns,
};
