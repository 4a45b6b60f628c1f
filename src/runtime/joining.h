/* src/runtime/joining.h - when may a member without a state take part?
 *
 * A member whose state file is not there has either never run, or has forgotten what it promised.
 * It cannot know which. If it just began anew, it could help to elect a leader with a token that
 * was used before, and a second leader beside one that still relies on its promise. So it asks all
 * others what they remember, and waits:
 *
 * - *Founding*: every other member has answered, and none remembers anything. Then there is nothing
 *   to forget, and this member is *ready*. It begins when all others are ready, too, or when one of
 *   them has begun. Had it not waited for them, it could lead before they have heard that it
 *   remembers nothing; from then on it remembers something, and they would wait for ever. Once
 *   ready is ready: who has a state later got it after all were, by founding. The first start of a
 *   cluster needs all its members.
 * - *Rejoining*: no promise of its earlier life can bind any more (it has waited for `wait_ns`
 *   since its start), and members with a state, at least half of all (rounded up), have answered
 *   questions asked after that. It begins above the largest token that one of them remembers.
 *
 * Why rejoining repeats no token: let t be a token that was established with this member's help.
 * Its majority has floor(N/2) other members, each of which saved t before it answered the claim. It
 * leaves N - 1 - floor(N/2) others, which is less than ceil(N/2): so one of those that answered was
 * in that majority. It has not lost its state, or it rejoined above t by this same rule. A promise
 * of the earlier life that was still under way when the member was started counts for less than
 * wait_ns; so what it helped to establish was saved by the others before they were asked.
 *
 * This holds as long as fewer than a majority lose their states together. If more do, a member
 * without a state waits until the cluster gets a new generation, unless none of those that are left
 * remembers anything.
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

/* Time has passed. True: a new question has to be asked, `fresh` from now on, because the earlier
 * promises are over. */
bool cv__joining_at(struct cv_joining *joining, int64_t now_ns, uint64_t fresh);

void cv__joining_hear(struct cv_joining *joining, cv_id from, uint64_t question,
                      enum cv_joining_memory memory, uint64_t floor);

/* FOUND: begin at the base. REJOIN: begin above *ret_floor. */
enum cv_joining_decision cv__joining_decide(const struct cv_joining *joining, uint64_t *ret_floor);

#endif
