/* src/stores/pg_next.c - a contender's own view of its registration as the next; see pg_next.h. */
#include "stores/pg_next.h"

#include "core/assert.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHORT_PERCENT 40 /* less than this part of the lease: the server is asked instead */

uint64_t cv__pg_next_secret(struct cv_pg_next *next, uint64_t attempt)
{
    CV_ASSERT(attempt != 0);
    if (next->attempt != attempt) {
        const uint64_t drawn = cv__clock_random() & INT64_MAX;
        *next = (struct cv_pg_next){.attempt = attempt, .secret = drawn != 0 ? drawn : 1};
    }
    return next->secret;
}

void cv__pg_next_seen(struct cv_pg_next *next, const struct cv_remote_request *one,
                      int64_t remaining_ns)
{
    if (next->attempt != one->ask.attempt || next->is_told) {
        return; /* an answer from before it was given, or from after */
    }
    next->asked_ns = one->asked_ns;
    next->lease_ns = one->ask.lease_ns;
    next->sure_ns = cv__max64(0, cv__min64(remaining_ns, one->ask.lease_ns));
}

bool cv__pg_next_hear(struct cv_pg_next *next, const char *payload)
{
    uint64_t secret, token;
    if (sscanf(payload, "given %" SCNu64 " %" SCNu64, &secret, &token) != 2 || next->secret == 0 ||
        secret != next->secret || next->is_told) {
        return false;
    }
    next->is_told = true;
    next->given_token = next->sure_ns > 0 ? token : 0; /* not known how long: it asks */
    return next->given_token != 0;
}

int64_t cv__pg_next_left_ns(const struct cv_pg_next *next, const struct cv_remote_request *one)
{
    if (next->given_token == 0 || next->attempt != one->ask.attempt) {
        return 0;
    }
    CV_ASSERT(one->asked_ns >= next->asked_ns); /* requests are made one after the other */
    const int64_t left_ns = cv__remote_left_ns(next->asked_ns, next->sure_ns, one->asked_ns);
    CV_ASSERT(left_ns <= next->sure_ns);
    return left_ns * 100 >= next->lease_ns * SHORT_PERCENT ? left_ns : 0;
}
