/* src/oracles/history.c - theta_z [Becker11, sec. 2.3]: the process with the longest history of
 * updates leads, so that it has nothing to fetch after a crash. ZooKeeper's own rule. */
#include "oracles/oracle.h"

static int64_t history_score(const struct cv_oracle_view *view)
{
    CV_ASSERT(view->self >= 1);
    CV_ASSERT(view->self <= view->member_count);
    const uint64_t length = view->peer[view->self - 1].history;
    return length < CV_SCORE_MAX ? (int64_t)length : CV_SCORE_MAX;
}

const struct cv_oracle cv__oracle_history = {
    .name = "history",
    .formula = "length of the own history; higher wins",
    .inputs = "report history-length",
    .use = "one data centre: the new leader has everything already, recovery is short",
    .order = CV_SCORE_HIGHER_WINS,
    .score = history_score,
};
