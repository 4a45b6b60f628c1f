/* src/oracles/reported.c - a number that the application computes and reports [ours]. */
#include "oracles/oracle.h"

static int64_t reported_score(const struct cv_oracle_view *view)
{
    return view->reported < CV_SCORE_MAX ? (int64_t)view->reported : CV_SCORE_MAX;
}

const struct cv_oracle cv__oracle_reported = {
    .name = "reported",
    .formula = "what the application reports; higher wins",
    .inputs = "report score",
    .use = "an embedding program with its own idea of a good leader",
    .order = CV_SCORE_HIGHER_WINS,
    .score = reported_score,
};
