/* src/oracles/preference.c - an operator's list [Becker11, sec. 2]: its first living member
 * leads. */
#include "oracles/oracle.h"

static int64_t preference_score(const struct cv_oracle_view *view)
{
    CV_ASSERT(view->preference <= view->member_count); /* no member is in the list twice */
    return view->preference;
}

const struct cv_oracle cv__oracle_preference = {
    .name = "preference",
    .formula = "how many of the list come after us; higher wins",
    .inputs = "option preference=ID,ID,...",
    .use = "an operator knows best, e.g. which machine is the large one",
    .order = CV_SCORE_HIGHER_WINS,
    .score = preference_score,
};
