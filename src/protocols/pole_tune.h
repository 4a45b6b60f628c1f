/* src/protocols/pole_tune.h - profile=auto of `pole`: times that are measured; see pole_tune.c.
 *
 * With the other profiles these functions do nothing, and no time ever changes. */
#ifndef CV_PROTOCOLS_POLE_TUNE_H
#define CV_PROTOCOLS_POLE_TUNE_H

#include "core/types.h"

struct pole;

/* The times that follow from a lease: delta, sigma, the followers' time-out, a round of proposals.
 * `wanted_ns`, the time between heartbeats, is brought into the range that suits the lease. */
int64_t cv__pole_tune_delta_ns(int64_t lease_ns);
int64_t cv__pole_tune_sigma_ns(int64_t lease_ns);
int64_t cv__pole_tune_timeout_ns(int64_t lease_ns);
int64_t cv__pole_tune_round_ns(int64_t lease_ns);
int64_t cv__pole_tune_beat_ns(int64_t lease_ns, int64_t wanted_ns);

void cv__pole_tune_init(struct pole *p, const struct cv_config *config);

/* A timer has fired: measures how late. */
void cv__pole_tune_fired(struct pole *p, uint32_t timer, int64_t now_ns);
/* A heartbeat was answered by a process whose timers are late by `late`. */
void cv__pole_tune_answered(struct pole *p, cv_id from, uint64_t seq, uint64_t late,
                            int64_t now_ns);
/* Chooses the times of the next heartbeat, just before it is sent. */
void cv__pole_tune_beat(struct pole *p, int64_t now_ns);
/* A majority follows, until then: is that too short for the next answers to come in time? */
bool cv__pole_tune_is_early(const struct pole *p, int64_t until_ns, int64_t now_ns);
/* It leads now, and does not narrow the lease during the next second. */
void cv__pole_tune_established(struct pole *p, int64_t now_ns);
/* The times of the claimant or leader that is followed. */
void cv__pole_tune_adopt(struct pole *p, int64_t lease_ns, int64_t beat_ns);
/* A process that does not lead heard a message that may have taken so long. */
void cv__pole_tune_heard(struct pole *p, int64_t delay_ns_max);
/* A claim was in vain, or a lease was lost: perhaps the times are too short. */
void cv__pole_tune_failed(struct pole *p);

#endif
