/* src/oracles/rotating.c - each process in turn [Becker11, sec. 3.3]: a baseline that uses no
 * knowledge. */
#include "oracles/oracle.h"

static int64_t rotating_score(const struct cv_oracle_view *view)
{
    CV_ASSERT(view->member_count >= 1);
    CV_ASSERT(view->self >= 1);
    return view->epoch % view->member_count + 1 == view->self ? 1 : 0;
}

const struct cv_oracle cv__oracle_rotating = {
    .name = "rotating",
    .formula = "1 if epoch mod N picks us, else 0; higher wins",
    .inputs = "none",
    .use = "comparison, or leadership as a burden that goes round at each election",
    .order = CV_SCORE_HIGHER_WINS,
    .score = rotating_score,
};
