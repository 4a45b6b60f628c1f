/* tests/support/local.h - a single core of `local`, and the messages of its peers; see solo.h.
 *
 * Delta is 5 ms as in the lan profile; ep 8 ms, expires 92.014408 ms and lock 123.014408 ms are
 * longer, so that events that follow each other can be told apart. */
#ifndef CV_TESTS_LOCAL_H
#define CV_TESTS_LOCAL_H

#include "support/solo.h"

#define EXPIRES_NS INT64_C(92014408)
#define LOCK_NS INT64_C(123014408)
#define DELTA_NS (5 * NS_PER_MS)
#define WAIT_NS INT64_C(10001001) /* 2 Delta(1 + rho) */
#define FAST_NS (1 * NS_PER_MS)
#define SLOW_NS (DELTA_NS + 1)

/* Process `self` of `members`, just started. */
struct solo *local_process(cv_id self, uint32_t members, const char *options);

/* A candidate asks for support; is it given? */
bool local_is_supported(struct solo *c, cv_id candidate, uint64_t request, uint64_t token);

void local_hear_release(struct solo *c, cv_id from, uint64_t request);
void local_hear_reply(struct solo *c, cv_id from, uint64_t request, bool supports);

/* Process 1 with two others, which support it. Returns the request by which it leads. */
int64_t local_elect(struct solo *c);

#endif
