/* src/sim/properties.h - the properties of docs/properties.md, watched after every step of a run.
 *
 * Safety is judged at every instant and remembers the whole run: at-most-one-leader looks at every
 * leadership that begins, token-monotonic compares with the largest token ever, leader-order with
 * every leader that ever had the same token. Liveness is judged when the protocol's assumptions
 * have held for its settling time: nobody paused, who reaches whom is transitive, no clock beyond
 * the bound, and since then no fault, no message lost and none slower than `delta`. Then everybody
 * that is up must know the same leader of its part (termination, agreement), and until the next
 * disturbance nobody may change its mind (stability). */
#ifndef CV_SIM_PROPERTIES_H
#define CV_SIM_PROPERTIES_H

#include "core/types.h"

struct sim_world;

struct cv_broken {
    bool is_broken;
    int64_t at_ns;
    char detail[160];
};

struct cv_token_owner {
    uint64_t token;
    cv_id leader; /* the first that was seen with it; an anonymous one with its label */
    uint64_t label;
};

struct cv_watch {
    struct cv_broken property[CV_PROPERTY_COUNT];
    uint64_t judged_count; /* how often liveness could be judged */

    uint64_t token_max;
    bool has_token;
    struct cv_token_owner *owner; /* open addressing by token; leader CV_ID_NONE: empty */
    uint32_t owner_count, owner_capacity;

    cv_id *holder; /* who holds a leadership, expired ones included until somebody looks */
    uint32_t holder_count;

    int64_t settle_ns, delta_ns;
    int64_t sequence_ns; /* the sequencer is assumed to answer within this; 0: it is not asked */
    int64_t store_ns;    /* the same of the store */
    int64_t kappa_ns;    /* 0: the protocol has none */
    int64_t looked_ns;   /* when timeliness was last looked at */
    int64_t disturbed_ns;
    bool is_settled;
    bool is_check_queued;

    char *tail; /* the last events before the first promise was broken; NULL: none was */
};

void cv__watch_init(struct sim_world *world);
void cv__watch_fini(struct sim_world *world);

/* A node's belief changes from what it has on record to this. Called before the record changes. */
void cv__watch_belief(struct sim_world *world, cv_id node, const struct cv_leadership *leadership);
/* A leadership begins, or has ended. */
void cv__watch_begin(struct sim_world *world, cv_id node, uint64_t token);
void cv__watch_end(struct sim_world *world, cv_id node);
void cv__watch_send(struct sim_world *world, cv_id node);

/* A leadership was begun or renewed with the supporters on record. */
void cv__watch_support(struct sim_world *world, cv_id node);

/* Something happened that the protocol's assumptions exclude, or that it must be given time for. */
void cv__watch_disturb(struct sim_world *world);
/* Time has passed: is somebody without a leader for too long? */
void cv__watch_look(struct sim_world *world);
/* The queued check is due. */
void cv__watch_check(struct sim_world *world);

void cv__watch_break(struct sim_world *world, enum cv_property property, const char *format, ...)
    CV_PRINTF(3, 4);

#endif
