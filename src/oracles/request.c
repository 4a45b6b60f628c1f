/* src/oracles/request.c - theta_r [Becker11, sec. 2.2]: the process that receives most requests
 * leads, so that most requests need not be forwarded. */
#include "oracles/oracle.h"

static int64_t request_score(const struct cv_oracle_view *view)
{
    CV_ASSERT(view->self >= 1);
    CV_ASSERT(view->self <= view->member_count);
    const uint64_t rate = view->peer[view->self - 1].rate;
    return rate < CV_SCORE_MAX ? (int64_t)rate : CV_SCORE_MAX;
}

const struct cv_oracle cv__oracle_request = {
    .name = "request",
    .formula = "own rate of requests; higher wins",
    .inputs = "report request-rate",
    .use = "two data centres with clients mostly in one of them",
    .order = CV_SCORE_HIGHER_WINS,
    .score = request_score,
};
