/* src/protocols/local_request.h - one request for support, from ELECTION to the end of the
 * leadership that it carries: asking, supporting, leading, giving up [Fetzer99, sec. VIII]. */
#ifndef CV_PROTOCOLS_LOCAL_REQUEST_H
#define CV_PROTOCOLS_LOCAL_REQUEST_H

#include "protocols/local_state.h"

/* The only place where the role changes. It also closes the open request. */
void cv__local_become(struct local *l, enum local_role role);

/* Asserts what each role implies. */
void cv__local_check_role(const struct local *l);

/* Forgets the leader; none is known now. */
void cv__local_forget_leader(struct local *l, enum cv_reason reason, struct cv_effects *out);
/* Another process leads, supported by those members. */
void cv__local_follow(struct local *l, cv_id leader, uint64_t token, const uint64_t *members,
                      struct cv_effects *out);

void cv__local_unlock(struct local *l);

/* Gives up every request so far, after any leadership on one has ended: frees the processes that
 * are locked to us for one of them. */
void cv__local_release(struct local *l, struct cv_effects *out);

/* The leadership ends: by the clock, by request or for a lower id. The next role is `role`. */
void cv__local_step_down(struct local *l, enum local_role role, enum cv_reason reason,
                         struct cv_effects *out);

/* A process before this leader asks. With `yields` the leader steps down. Otherwise its host has
 * told an application until when it leads, and it must not end before. It stops asking, since it is
 * not the first, and its time runs out: at the latest `lock` from now, which kappa includes. */
void cv__local_give_way(struct local *l, cv_id to, struct cv_effects *out);

/* Why the time of this leader ran out: it gave way, or was not renewed. */
enum cv_reason cv__local_why_expired(struct local *l);

/* Is the token not larger than the largest accepted one, and not that one again from its owner? */
bool cv__local_is_old_token(const struct local *l, cv_id candidate, uint64_t token);

/* Does this process support that request? If so, it is locked to it from now on. */
bool cv__local_support(struct local *l, cv_id candidate, const struct local_election *election,
                       int64_t now_ns, struct cv_effects *out);

/* Broadcasts ELECTION. A renewal whose answers are not complete is asked again as the same request,
 * as long as there is time left for a new one. */
void cv__local_ask(struct local *l, int64_t now_ns, struct cv_effects *out);

/* An answer came: leads as soon as all processes that were asked have answered. */
void cv__local_check_early(struct local *l, int64_t now_ns, struct cv_effects *out);

/* The time for answers is over: leads on those that came, or gives the request up. */
void cv__local_check_late(struct local *l, int64_t now_ns, struct cv_effects *out);

#endif
