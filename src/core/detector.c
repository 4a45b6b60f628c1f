/* src/core/detector.c - when does silence become suspicion? */
#include "core/detector.h"

#include <string.h>

/* z(phi), in thousandths: the upper tail of the standard normal distribution beyond it is
 * 10^-phi. */
static const int64_t z_thousandths[DETECTOR_PHI_MAX + 1] = {
    0,    1282, 2326, 3090, 3719, 4265, 4753, 5199, 5612,
    5998, 6361, 6706, 7034, 7349, 7651, 7941, 8222,
};

void cv__detector_init(struct cv_detector *detector, enum cv_detector_kind kind, uint32_t phi,
                       int64_t least_ns, int64_t timeout_ns)
{
    CV_ASSERT(phi >= 1 && phi <= DETECTOR_PHI_MAX);
    CV_ASSERT(timeout_ns > 0);
    memset(detector, 0, sizeof *detector);
    detector->kind = kind;
    detector->phi = phi;
    detector->least_ns = least_ns;
    detector->timeout_ns = timeout_ns;
}

void cv__detector_reset(struct cv_detector *detector, int64_t now_ns)
{
    detector->heard_ns = now_ns;
    detector->gap_count = 0;
    detector->gap_next = 0;
    detector->gap_sum = 0;
    memset(detector->gap_ns, 0, sizeof detector->gap_ns);
}

void cv__detector_heard(struct cv_detector *detector, int64_t now_ns)
{
    CV_ASSERT(now_ns >= detector->heard_ns);
    if (detector->kind == CV_DETECTOR_PHI && detector->heard_ns != 0) {
        const int64_t gap = now_ns - detector->heard_ns;
        if (detector->gap_count == DETECTOR_GAPS) {
            detector->gap_sum -= detector->gap_ns[detector->gap_next];
        } else {
            detector->gap_count++;
        }
        CV_ASSERT(detector->gap_next < DETECTOR_GAPS);
        CV_ASSERT(detector->gap_sum >= 0);
        detector->gap_ns[detector->gap_next] = gap;
        detector->gap_sum += gap;
        detector->gap_next = (detector->gap_next + 1) % DETECTOR_GAPS;
    }
    detector->heard_ns = now_ns;
}

/* The largest integer whose square is not above `square`. */
static int64_t root(unsigned __int128 square)
{
    unsigned __int128 low = 0;
    unsigned __int128 high = UINT64_C(1) << 62;
    while (low < high) {
        const unsigned __int128 middle = (low + high + 1) / 2;
        if (middle * middle <= square) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    CV_ASSERT(low * low <= square);
    return (int64_t)low;
}

static int64_t deviation(const struct cv_detector *detector, int64_t mean)
{
    CV_ASSERT(detector->gap_count > 0);
    CV_ASSERT(mean >= 0);
    unsigned __int128 squares = 0;
    for (uint32_t i = 0; i < detector->gap_count; i++) {
        const __int128 off = detector->gap_ns[i] - mean;
        squares += (unsigned __int128)(off * off);
    }
    return root(squares / detector->gap_count);
}

int64_t cv__detector_deadline(const struct cv_detector *detector)
{
    /* Too few gaps say nothing about their spread: until there are four, the fixed time-out is
     * used. */
    if (detector->kind == CV_DETECTOR_FIXED || detector->gap_count < 4) {
        return detector->heard_ns + detector->timeout_ns;
    }
    CV_ASSERT(detector->gap_count <= DETECTOR_GAPS);
    const int64_t mean = detector->gap_sum / detector->gap_count;
    const int64_t sigma = cv__max64(deviation(detector, mean), mean / 10);
    const __int128 wait = mean + (__int128)sigma * z_thousandths[detector->phi] / 1000;
    CV_ASSERT(wait >= mean); /* the deadline is not before the mean gap is over */
    const int64_t wait_max = 2 * detector->timeout_ns;
    const int64_t bounded = wait < wait_max ? (int64_t)wait : wait_max;
    return detector->heard_ns + cv__max64(bounded, detector->least_ns);
}
