/* src/runtime/joining.c - see joining.h. */
#include "runtime/joining.h"

#include <string.h>

void cv__joining_begin(struct cv_joining *j, cv_id self, uint32_t member_count, uint64_t base,
                       int64_t promise_ns, uint64_t question, struct cv_joining_answer *answer)
{
    CV_ASSERT(self >= 1);
    CV_ASSERT(self <= member_count);
    *j = (struct cv_joining){.self = self,
                             .member_count = member_count,
                             .base = base,
                             .promise_ns = promise_ns,
                             .question = question,
                             .answer = answer};
    memset(answer, 0, member_count * sizeof *answer);
}

bool cv__joining_at(struct cv_joining *j, int64_t now_ns, uint64_t fresh)
{
    if (j->is_past_promises || now_ns < j->promise_ns) {
        return false;
    }
    CV_ASSERT(fresh != j->question);
    j->is_past_promises = true;
    j->question = fresh;
    memset(j->answer, 0, j->member_count * sizeof *j->answer);
    return true;
}

void cv__joining_hear(struct cv_joining *j, cv_id from, uint64_t question, bool has_state,
                      uint64_t floor)
{
    CV_ASSERT(from >= 1);
    CV_ASSERT(from <= j->member_count);
    CV_ASSERT(from != j->self);
    if (question == j->question) {
        j->answer[from - 1] =
            (struct cv_joining_answer){.is_there = true, .has_state = has_state, .floor = floor};
    }
}

enum cv_joining_verdict cv__joining_decide(const struct cv_joining *j, uint64_t *ret_floor)
{
    uint32_t answered = 0, with_state = 0;
    uint64_t floor = j->base;
    for (uint32_t i = 0; i < j->member_count; i++) {
        const struct cv_joining_answer *a = &j->answer[i];
        answered += a->is_there;
        if (a->is_there && a->has_state) {
            with_state++;
            floor = a->floor > floor ? a->floor : floor;
        }
    }
    *ret_floor = floor;
    if (answered == j->member_count - 1 && floor == j->base) {
        return CV_JOINING_FOUND;
    }
    if (j->is_past_promises && with_state >= (j->member_count + 1) / 2) {
        return CV_JOINING_REJOIN;
    }
    return CV_JOINING_WAIT;
}
