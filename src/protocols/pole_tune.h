/* src/protocols/pole_tune.h - profile=auto of `pole`: times that are measured; see pole_tune.c.
 *
 * With the other profiles none of these does anything, and no time ever changes. */
#ifndef CV_PROTOCOLS_POLE_TUNE_H
#define CV_PROTOCOLS_POLE_TUNE_H

#include "core/types.h"

struct pole;

/* The times that follow from a lease: a message's, a process's, the followers' time-out, a round of
 * proposals. `wanted_ns` of a heartbeat is brought into the range that goes with the lease. */
int64_t cv__pole_tune_delta_ns(int64_t lease_ns);
int64_t cv__pole_tune_sigma_ns(int64_t lease_ns);
int64_t cv__pole_tune_timeout_ns(int64_t lease_ns);
int64_t cv__pole_tune_round_ns(int64_t lease_ns);
int64_t cv__pole_tune_beat_ns(int64_t lease_ns, int64_t wanted_ns);

void cv__pole_tune_init(struct pole *p, const struct cv_config *config);

/* A timer has fired: how late? */
void cv__pole_tune_fired(struct pole *p, uint32_t timer, int64_t now_ns);
/* A heartbeat was answered, by a process whose timers are so late. */
void cv__pole_tune_answered(struct pole *p, cv_id from, uint64_t seq, uint64_t late,
                            int64_t now_ns);
/* The next heartbeat is about to be sent: with which times? */
void cv__pole_tune_beat(struct pole *p, int64_t now_ns);
/* A majority follows, until then: is that too short for the next answers to come in time? */
bool cv__pole_tune_is_early(const struct pole *p, int64_t until_ns, int64_t now_ns);
/* It leads now: the next second shows whether it may narrow. */
void cv__pole_tune_established(struct pole *p, int64_t now_ns);
/* The times of the claimant or leader that is followed. */
void cv__pole_tune_adopt(struct pole *p, int64_t lease_ns, int64_t beat_ns);
/* Somebody without a leadership heard a message that may have taken so long. */
void cv__pole_tune_heard(struct pole *p, int64_t delay_ns_max);
/* A claim was in vain, or a lease was lost: perhaps the times are too short. */
void cv__pole_tune_failed(struct pole *p);

#endif
