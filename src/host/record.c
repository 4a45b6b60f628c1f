/* src/host/record.c - the record of a store; see record.h. */
#include "host/record.h"

bool cv__model_record_expire(struct cv_model_record *r, int64_t local_ns)
{
    if (r->holder == 0 || local_ns < r->until_ns) {
        return false;
    }
    r->holder = 0;
    r->ended = CV_REASON_EXPIRED;
    return true;
}

void cv__model_record_restart(struct cv_model_record *r, bool extends, int64_t local_ns)
{
    if (extends && r->holder != 0 && !cv__model_record_expire(r, local_ns)) {
        r->until_ns = cv__max64(r->until_ns, local_ns + r->lease_ns);
    }
}

static void grant(struct cv_model_record *r, const struct cv_model_query *q, int64_t local_ns)
{
    CV_ASSERT(r->holder == 0);
    CV_ASSERT(q->label != 0);
    r->holder = q->label;
    r->attempt = q->attempt;
    r->until_ns = local_ns;
    r->token++; /* computed from the last token only, never from a clock */
}

bool cv__model_record_serve(struct cv_model_record *r, const struct cv_model_query *q,
                            int64_t local_ns, struct cv_model_answer *ret_answer)
{
    bool has_become_free = cv__model_record_expire(r, local_ns);
    const bool wants = q->verb == CV_STORE_ACQUIRE || q->verb == CV_STORE_RENEW;
    if (q->verb == CV_STORE_ACQUIRE && r->holder == 0) {
        grant(r, q, local_ns);
    }
    const bool is_holder = r->holder == q->label && r->attempt == q->attempt;
    *ret_answer = (struct cv_model_answer){0};
    if (wants && is_holder) {
        r->lease_ns = q->lease_ns;
        r->until_ns = cv__max64(r->until_ns, local_ns + q->lease_ns); /* never shortened */
        CV_ASSERT(r->token > 0); /* the holder was granted it */
        ret_answer->verdict = CV_STORE_GRANTED;
        ret_answer->token = r->token;
        ret_answer->duration_ns = q->lease_ns;
        return has_become_free;
    }
    if (q->verb == CV_STORE_RELEASE && is_holder) {
        r->holder = 0;
        r->ended = CV_REASON_RESIGNED;
        has_become_free = true;
    }
    CV_ASSERT(!(wants && is_holder)); /* the holder was answered above */
    ret_answer->verdict = r->holder != 0 ? CV_STORE_HELD : CV_STORE_FREE;
    ret_answer->reason = (enum cv_reason)r->ended;
    ret_answer->token = r->token;
    if (r->holder != 0) {
        ret_answer->holder = r->holder;
        ret_answer->duration_ns = r->until_ns - local_ns;
    }
    return has_become_free;
}
