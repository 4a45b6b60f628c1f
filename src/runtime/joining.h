/* src/runtime/joining.h - when may a member without a state take part?
 *
 * A member without a state file has either never run, or has forgotten what it promised. It cannot
 * know which. If it just started again, it could help to elect a leader with a token that was used
 * before, and a second leader beside one that still relies on its promise. So it asks all other
 * members what they remember, and waits:
 *
 * - *Founding*: every other member has answered that it has no state. Then there is nothing to
 *   forget, and this member is *ready*. It begins when all other members are ready too, or when one
 *   of them has begun. If it did not wait, it could lead before they have heard that it has no
 *   state; from then on it has one, and they would wait for ever. A ready member stays ready: a
 *   member that has a state later got it by founding, after all were ready. The first start of a
 *   cluster needs all its members.
 * - *Rejoining*: all promises of its earlier life have expired (it has waited for `wait_ns` since
 *   its start), and members with a state, at least half of all (rounded up), have answered
 *   questions asked after that. It begins above the largest token that one of them remembers.
 *
 * Why rejoining repeats no token: let t be a token that was established with this member's help.
 * Its majority has floor(N/2) other members, each of which saved t before it answered the claim. It
 * leaves N - 1 - floor(N/2) others, which is less than ceil(N/2): so one of those that answered was
 * in that majority. It has not lost its state, or it rejoined above t by this same rule. A promise
 * of the earlier life that was still in flight when the member was started counts for less than
 * wait_ns; so the other members saved a token that it helped to establish before they were asked.
 *
 * This holds as long as fewer than a majority lose their states together. If more do, a member
 * without a state waits until the cluster gets a new generation, unless no remaining member has a
 * state.
 *
 * Pure: time and the questions' numbers are arguments. */
#ifndef CV_RUNTIME_JOINING_H
#define CV_RUNTIME_JOINING_H

#include "core/types.h"

enum cv_joining_decision {
    CV_JOINING_WAIT,
    CV_JOINING_FOUND,
    CV_JOINING_REJOIN,
};

/* As it is sent. */
enum cv_joining_memory {
    CV_JOINING_NOTHING = 0,
    CV_JOINING_STATE = 1,
    CV_JOINING_READY = 2, /* nothing, and all others have said that they remember nothing */
};

struct cv_joining_answer {
    bool is_there;
    enum cv_joining_memory memory;
    uint64_t floor; /* nothing above was promised or used; at least the base of the generation */
};

struct cv_joining {
    cv_id self;
    uint32_t member_count;
    uint64_t base;                    /* tokens of this generation are above it */
    int64_t promise_ns;               /* the instant after which no earlier promise binds */
    bool is_past_promises;            /* the question was asked after it */
    bool is_ready;                    /* to found: all others have said that they know nothing */
    uint64_t question;                /* answers to another one do not count */
    struct cv_joining_answer *answer; /* of member i + 1; the caller's memory */
};

void cv__joining_begin(struct cv_joining *joining, cv_id self, uint32_t member_count, uint64_t base,
                       int64_t promise_ns, uint64_t question, struct cv_joining_answer *answer);

/* Time has passed. True: a new question, with the number `fresh`, has to be asked, because the
 * earlier promises are over. */
bool cv__joining_at(struct cv_joining *joining, int64_t now_ns, uint64_t fresh);

void cv__joining_hear(struct cv_joining *joining, cv_id from, uint64_t question,
                      enum cv_joining_memory memory, uint64_t floor);

/* FOUND: begin at the base. REJOIN: begin above *ret_floor. */
enum cv_joining_decision cv__joining_decide(const struct cv_joining *joining, uint64_t *ret_floor);

#endif
