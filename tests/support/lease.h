/* tests/support/lease.h - one core of `lease`; the test plays the store. The label of the core is
 * 0.
 *
 * With lease=1s and the usual drift bound of 1e-4 a grant counts for 1 s less 200 us. */
#ifndef CV_TESTS_SUPPORT_LEASE_H
#define CV_TESTS_SUPPORT_LEASE_H

#include "support/solo.h"
#include "support/support.h"

#define LEASE_OPTIONS "lease=1s renew=300ms retry=100ms timeout=200ms poll=1s rest=1200ms"
#define LEASE_NS NS_PER_S
#define LEASE_SURE_NS (NS_PER_S - 200 * NS_PER_US - 1)

/* The request that the latest step made to the store; NULL: none. */
const struct cv_effect *lease_asked(const struct solo *s);
void lease_assert_asks(const struct solo *s, enum cv_store_verb verb);
void lease_answer(struct solo *s, uint64_t request, enum cv_store_verdict verdict, uint64_t token,
                  uint64_t holder, int64_t duration_ns);
void lease_grant(struct solo *s, uint64_t request, uint64_t token);
void lease_notify(struct solo *s);
/* Lets timers fire until the core makes a request, which is returned; the test fails if it makes
 * none within the limit. */
struct cv_effect lease_await(struct solo *s, int64_t limit_ns);
struct solo *lease_contender(void);
/* Its request was granted with token 7 after 2 ms. */
struct solo *lease_leader(void);
void lease_event(struct solo *s, enum cv_event_kind kind, bool is_candidate);

#endif
