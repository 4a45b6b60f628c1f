/* src/core/detector.h - when does silence become suspicion?
 *
 * Two ways to set the deadline of the next heartbeat. `fixed`: a time-out after the latest one.
 * `phi` [Hayashibara04]: the gaps between heartbeats are taken as normally distributed with the
 * mean and deviation of the latest DETECTOR_GAPS; suspicion phi is -log10 of the probability that a
 * heartbeat still comes, and the deadline is where phi reaches the threshold: mean + z(phi) sigma.
 * Solving for the deadline, instead of computing phi again and again, needs no polling and no
 * floating point. The deviation is taken as at least a tenth of the mean: otherwise, in a very
 * regular network, one late frame would raise a suspicion. The wait is never longer than twice the
 * fixed time-out, so that one long gap does not blind the detector. It is never shorter than the
 * longest gap that a living sender can cause while the assumed delays hold: then nobody is
 * suspected wrongly. Time: an argument. Memory: one flat struct. */
#ifndef CV_CORE_DETECTOR_H
#define CV_CORE_DETECTOR_H

#include "core/types.h"

#define DETECTOR_GAPS 32u /* samples kept: about the heartbeats of one second */
#define DETECTOR_PHI_MAX 16u

enum cv_detector_kind { CV_DETECTOR_FIXED, CV_DETECTOR_PHI };

/* Invariants: gap_count <= DETECTOR_GAPS; gap_sum is the sum of the gaps kept. */
struct cv_detector {
    uint32_t kind;    /* enum cv_detector_kind */
    uint32_t phi;     /* threshold, 1..DETECTOR_PHI_MAX */
    int64_t least_ns; /* phi: the shortest wait */
    int64_t timeout_ns;
    int64_t heard_ns; /* 0: nothing heard yet */
    uint32_t gap_count, gap_next;
    int64_t gap_sum;
    int64_t gap_ns[DETECTOR_GAPS];
};

void cv__detector_init(struct cv_detector *detector, enum cv_detector_kind kind, uint32_t phi,
                       int64_t least_ns, int64_t timeout_ns);

/* Begins to watch another process, and forgets the gaps of the previous one. */
void cv__detector_reset(struct cv_detector *detector, int64_t now_ns);

/* A heartbeat arrived. */
void cv__detector_heard(struct cv_detector *detector, int64_t now_ns);

/* The instant at which, without another heartbeat, silence becomes suspicion. */
int64_t cv__detector_deadline(const struct cv_detector *detector);

#endif
