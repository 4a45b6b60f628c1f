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
                             .is_ready = member_count == 1,
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

struct count {
    uint32_t answered, ready, with_state;
    uint64_t floor; /* the largest */
};

static struct count count(const struct cv_joining *j)
{
    struct count c = {.floor = j->base};
    for (uint32_t i = 0; i < j->member_count; i++) {
        const struct cv_joining_answer *a = &j->answer[i];
        c.answered += a->is_there;
        c.ready += a->is_there && a->memory == CV_JOINING_READY;
        if (a->is_there && a->memory == CV_JOINING_STATE) {
            c.with_state++;
            c.floor = a->floor > c.floor ? a->floor : c.floor;
        }
    }
    return c;
}

void cv__joining_hear(struct cv_joining *j, cv_id from, uint64_t question,
                      enum cv_joining_memory memory, uint64_t floor)
{
    CV_ASSERT(from >= 1);
    CV_ASSERT(from <= j->member_count);
    CV_ASSERT(from != j->self);
    if (question == j->question) {
        j->answer[from - 1] =
            (struct cv_joining_answer){.is_there = true, .memory = memory, .floor = floor};
    }
    const struct count c = count(j);
    j->is_ready = j->is_ready || (c.answered == j->member_count - 1 && c.floor == j->base);
}

enum cv_joining_decision cv__joining_decide(const struct cv_joining *j, uint64_t *ret_floor)
{
    const struct count c = count(j);
    *ret_floor = c.floor;
    if (j->is_ready && (c.ready == j->member_count - 1 || c.with_state > 0)) {
        return CV_JOINING_FOUND;
    }
    if (j->is_past_promises && c.with_state >= (j->member_count + 1) / 2) {
        return CV_JOINING_REJOIN;
    }
    return CV_JOINING_WAIT;
}
