/* src/host/node.h - one core with everything that each host keeps for it: timers, events, the gate.
 *
 * The runtime, the simulator and the exhaustive search have the same duties to a core
 * (conclave/core.h): one event at a time, timers that fire once and not too early, sends that never
 * overtake a record. They are written here once, so that the simulated code is the shipped code.
 * The hosts differ only in their input and output, which they provide as a table of functions:
 *
 * - An event that comes while a step runs, or while waiting effects are carried out, is queued; no
 *   function calls back into a step.
 * - The host chooses the instant of a timer within the range that the core asked for.
 * - Sends and leaderships wait for the record issued before them (gate.h). The end of a leadership
 *   does not wait: a node must not go on leading because its disk is slow. A leadership that still
 *   waits when the core gives it up is never reported. A renewal of a reported leadership does not
 *   wait either, because it must come before the end.
 * - After a failed save no waiting effect is ever carried out; the core learns of the failure
 *   before any other event. If the queue of waiting effects overflows, a leadership without a place
 *   counts as a failed disk; a send without a place is dropped, as networks drop messages.
 *
 * struct cv_node has no pointer, and its padding is always zero. The whole state of a node is this
 * struct, the core's state and the slots of the two queues: a host may copy and compare them as
 * bytes. Constant and scratch data is in struct cv_node_host. Many nodes may share one, whose
 * `core`, `deferred`, `waiting` and `self` are then set before each call.
 *
 * Pure: no clock, no allocation, one thread. */
#ifndef CV_HOST_NODE_H
#define CV_HOST_NODE_H

#include "host/gate.h"

/* Slots of the event queue that are reserved for timers and requests of the application, so that a
 * flood of messages cannot block these. */
#define CV_NODE_SPARE_PLACES 16u

/* An event that came while a step ran. Its pointers are NULL. */
struct cv_waiting {
    struct cv_event event;
    uint32_t kept; /* a message's bytes, at the host; CV_KEPT_NONE: no message */
};

/* Invariants: events wait only while a step runs or the queue is being emptied; those of the
 * gate. */
struct cv_node {
    int64_t due_ns[CV_TIMERS_MAX]; /* local clock; 0: not armed */
    uint64_t told_token;           /* of the leadership that was reported last */
    struct cv_gate gate;
    uint32_t waiting_first, waiting_count, waiting_capacity; /* a ring in the host's slots */
    bool is_busy;           /* in a step, or carrying out effects that waited */
    bool is_closed;         /* no further step and no further effect */
    bool must_tell_failure; /* the core must learn that the disk failed, before any other event */
    bool is_leading;        /* according to the last report */
};

struct cv_node_counts {
    uint64_t steps;
    uint64_t received;  /* messages that the core got */
    uint64_t malformed; /* messages that did not decode */
    uint64_t dropped;   /* because a queue was full */
    uint64_t sent;      /* sends carried out, each to one or to many */
    uint64_t saved;     /* records */
};

enum cv_save_result {
    CV_SAVE_BEGUN,  /* the host calls cv__node_saved() or cv__node_save_failed() later */
    CV_SAVE_DONE,   /* it is durable */
    CV_SAVE_FAILED, /* there is no place to save anything */
};

/* The host's functions. Each may pass in events, which are queued, and may close the node. */
struct cv_node_calls {
    int64_t (*now_ns)(void *self); /* the local clock, read afresh for each event */

    /* Chooses the instant, > 0, at which a timer is due. */
    int64_t (*arm)(void *self, uint32_t timer, int64_t earliest_ns, int64_t latest_ns);

    /* Stores bytes that outlive the step: an encoded message to be sent, or a copy of the given
     * bytes. Returns their index; CV_KEPT_NONE: there is no room, and the bytes are dropped. */
    uint32_t (*encode)(void *self, const struct cv_message *message);
    uint32_t (*keep)(void *self, const void *bytes, size_t byte_count);
    const void *(*kept)(void *self, uint32_t kept, size_t *ret_byte_count); /* lent */
    void (*drop)(void *self, uint32_t kept);

    /* To every member first..last except itself, and to itself if to_self. */
    void (*send)(void *self, uint32_t kept, cv_id first, cv_id last, bool to_self);
    void (*tell)(void *self, const struct cv_leadership *leadership); /* lent */
    void (*ask_sequence)(void *self, uint64_t request, uint64_t reference);
    void (*ask_store)(void *self, const struct cv_effect *effect); /* lent */

    /* Begins to save a record. The words stay where they are until the save has ended. */
    enum cv_save_result (*save)(void *self, const uint64_t *word, uint32_t word_count);
    /* Called once, when the gate closes for good. NULL: CV_SAVE_FAILED was the reason. */
    void (*disk_failed)(void *self, const char *why);

    /* For observers; may be NULL. A step is over, and its effects are carried out next; a record
     * was issued, which may be replaced before it is saved. */
    void (*stepped)(void *self, const struct cv_event *event, const struct cv_effects *out);
    void (*record_asked)(void *self, const uint64_t *word, uint32_t word_count);
};

struct cv_node_host {
    const struct cv_node_calls *calls;
    void *self; /* their first argument */
    const struct cv_protocol *protocol;
    uint32_t member_count;
    void *core;
    struct cv_deferred *deferred; /* gate.capacity slots; NULL: none */
    struct cv_waiting *waiting;   /* waiting_capacity slots; NULL: none */
    struct cv_effects *out;
    uint64_t
        *decoded_word; /* cv_message_words_max(member_count), for messages that come as bytes */
    struct cv_node_counts counts;
};

/* At the beginning of each life. The core was initialised by cv__core_init(); its first event is
 * START. */
void cv__node_init(struct cv_node *node, uint32_t deferred_capacity, uint32_t waiting_capacity);

/* Ends this life and drops all waiting effects and events. The host may call it from within its own
 * functions too. */
void cv__node_close(struct cv_node *node, struct cv_node_host *host);

/* Gives an event to the core, now or after the running step; fills in now_ns. A message is given by
 * its bytes. */
void cv__node_event(struct cv_node *node, struct cv_node_host *host, struct cv_event *event);
void cv__node_message(struct cv_node *node, struct cv_node_host *host, struct cv_event *event,
                      const uint8_t *bytes, size_t byte_count);
/* The same for a host that keeps messages decoded, as a core wrote them: event->message is lent
 * until the step is over. Not from within a function of the host. */
void cv__node_decoded_message(struct cv_node *node, struct cv_node_host *host,
                              struct cv_event *event);

/* When the next timer is due by the local clock; 0: none is armed. */
int64_t cv__node_next_due_ns(const struct cv_node *node);
/* Fires a timer that is armed and due. */
void cv__node_fire(struct cv_node *node, struct cv_node_host *host, uint32_t timer);
/* Fires the timers that are due, the earliest first. Each fires at most once, so that a core that
 * arms a timer for now does not starve the network. */
void cv__node_fire_due(struct cv_node *node, struct cv_node_host *host);

/* The record being saved is durable, or cannot be saved. Not from within a function of the host. No
 * effect after the gate was closed for good. */
void cv__node_saved(struct cv_node *node, struct cv_node_host *host);
void cv__node_save_failed(struct cv_node *node, struct cv_node_host *host, const char *why);

#endif
