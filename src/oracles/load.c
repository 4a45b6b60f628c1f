/* src/oracles/load.c - spare capacity [ours]: the process with the most spare capacity leads. */
#include "oracles/oracle.h"

static int64_t load_score(const struct cv_oracle_view *view)
{
    const uint64_t spare = view->capacity > view->load ? view->capacity - view->load : 0;
    return spare < CV_SCORE_MAX ? (int64_t)spare : CV_SCORE_MAX;
}

const struct cv_oracle cv__oracle_load = {
    .name = "load",
    .formula = "capacity - load; higher wins",
    .inputs = "report capacity, report load",
    .use = "unequal or shared machines",
    .order = CV_SCORE_HIGHER_WINS,
    .score = load_score,
};
