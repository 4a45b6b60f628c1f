/* src/oracles/registry.c - the list of oracles, and functions that several oracles share. */
#include "oracles/oracle.h"

#include <string.h>

/* In the order in which they are listed; a vector of scores refers to them by their index here. */
static const struct cv_oracle *const oracles[] = {
    &cv__oracle_history,    &cv__oracle_request,  &cv__oracle_consensus,  &cv__oracle_latency,
    &cv__oracle_worst_case, &cv__oracle_rotating, &cv__oracle_preference, &cv__oracle_load,
    &cv__oracle_recovery,   &cv__oracle_reported,
};

const struct cv_oracle *cv_oracle_at(uint32_t index)
{
    return index < COUNT_OF(oracles) ? oracles[index] : NULL;
}

uint32_t cv__oracle_count(void)
{
    return COUNT_OF(oracles);
}

const struct cv_oracle *cv_oracle_find(const char *name)
{
    uint32_t index;
    return name != NULL ? cv__oracle_named(name, strlen(name), &index) : NULL;
}

const struct cv_oracle *cv__oracle_named(const char *name, size_t length, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < COUNT_OF(oracles); i++) {
        if (strlen(oracles[i]->name) == length && memcmp(oracles[i]->name, name, length) == 0) {
            *ret_index = i;
            return oracles[i];
        }
    }
    return NULL;
}

/* Bisects the range of values: no storage, and at most 62 passes for any number of members. */
int64_t cv__oracle_nth(uint32_t member_count, uint32_t k,
                       int64_t (*value)(const void *context, cv_id id), const void *context)
{
    CV_ASSERT(k >= 1);
    CV_ASSERT(k <= member_count);
    int64_t low = 0;
    int64_t high = CV_SCORE_MAX;
    uint32_t known = 0;
    for (cv_id id = 1; id <= member_count; id++) {
        known += value(context, id) >= 0;
    }
    if (known < k) {
        return CV_SCORE_UNKNOWN;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        uint32_t count = 0;
        for (cv_id id = 1; id <= member_count; id++) {
            const int64_t v = value(context, id);
            count += v >= 0 && v <= middle;
        }
        if (count >= k) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    CV_ASSERT(low == high);
    return low;
}

static int64_t rtt_ns(const void *context, cv_id id)
{
    const struct cv_oracle_view *view = context;
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= view->member_count);
    return cv__min64(view->peer[id - 1].rtt_ns, CV_SCORE_MAX);
}

int64_t cv__oracle_consensus_ns(const struct cv_oracle_view *view)
{
    CV_ASSERT(view->self >= 1);
    CV_ASSERT(view->self <= view->member_count);
    CV_ASSERT(view->peer[view->self - 1].rtt_ns == 0);
    return cv__oracle_nth(view->member_count, view->member_count / 2 + 1, rtt_ns, view);
}
