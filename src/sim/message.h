/* src/sim/message.h - messages between simulated nodes, from the encoder to the receiver's core.
 *
 * A message is encoded once (its payload) and travels to each receiver on its own (a flight). Both
 * are taken from pools, so that a message in flight costs no allocation. Only message.c writes
 * struct sim_messages. */
#ifndef CV_SIM_MESSAGE_H
#define CV_SIM_MESSAGE_H

#include "core/failaware.h"

#define SIM_BOUNDS_NODES_MAX 1024u
#define SIM_TYPES_MAX 32u /* message types that are counted separately */

struct sim_node;
struct sim_world;

struct sim_payload {
    uint32_t reference_count, byte_count, byte_capacity, type;
    uint32_t next_free;
    uint8_t *bytes;
};

/* A flight is a message, or a report of the witness of its dead sender. */
enum sim_flight_kind {
    SIM_FLIGHT_MESSAGE,
    SIM_FLIGHT_HINT,     /* the sender is down */
    SIM_FLIGHT_CERTAIN,  /* the sender is down, and its work as a leader has ended */
    SIM_FLIGHT_FAREWELL, /* the same, with its last message */
};

struct sim_flight {
    uint32_t payload; /* next free one, while unused */
    enum sim_flight_kind kind;
    cv_id from, to;
    int64_t sent_ns; /* real time */
    uint64_t number; /* for the trace */
    uint64_t life;   /* of the receiver, if it has arrived and waits there; 0: it has not arrived */
    uint64_t sender_life;
    struct cv_stamp stamp;
};

/* A decoded payload. */
struct sim_decoded {
    uint32_t payload; /* UINT32_MAX: none */
    struct cv_message message;
    uint64_t *word; /* storage of its lists */
};

#define SIM_DECODED_COUNT 8u

/* The index of a score among the scalars of a message type; CV_FIELDS_MAX: it has none. */
struct sim_score_place {
    uint32_t first;
    uint32_t owner; /* index of the score's owner; CV_FIELDS_MAX: the sender */
};

struct sim_messages {
    struct sim_payload *payload;
    uint32_t payload_count, payload_capacity, payload_free;
    struct sim_flight *flight;
    uint32_t flight_count, flight_capacity, flight_free;
    uint8_t *encoded;
    /* A message to many nodes is usually decoded once, because all receive it at about the same
     * time. The slot is the payload modulo the count of slots. A message being sent has a slot of
     * its own, because the one being delivered is lent to a core. */
    struct sim_decoded arriving[SIM_DECODED_COUNT];
    struct sim_decoded leaving;
    struct sim_score_place score_place[SIM_TYPES_MAX];

    bool has_witnesses; /* a witness has acted: nodes record which lives of peers they heard */
    /* per receiver: messages and bytes sent, messages lost */
    uint64_t count, byte_count, lost_count;
    uint64_t late_count; /* took longer than the protocol assumes, if it assumes a bound */
    int64_t late_max_ns; /* how long the slowest of these took */
    uint64_t count_by_type[SIM_TYPES_MAX];
};

void sim_messages_init(struct sim_messages *messages, const struct cv_protocol *protocol,
                       uint32_t node_count);
void sim_messages_fini(struct sim_messages *messages);

/* Makes a payload with one reference, from a message or from bytes. */
uint32_t sim_message_encode(struct sim_world *world, const struct cv_message *message);
uint32_t sim_message_keep(struct sim_world *world, const void *bytes, size_t byte_count);
void sim_message_release(struct sim_world *world, uint32_t payload);

/* To every node first..last except the sender, and to the sender itself if to_self. */
void sim_message_send(struct sim_world *world, cv_id from, uint32_t payload, cv_id first,
                      cv_id last, bool to_self);
/* A flight has arrived; is lost; or arrives once more, which is another flight. */
void sim_message_deliver(struct sim_world *world, uint32_t flight);
void sim_message_lose(struct sim_world *world, uint32_t flight);
uint32_t sim_message_repeat(struct sim_world *world, uint32_t flight);
/* A node is about to crash, and its witness will tell the others. True: the witness knows that its
 * work as a leader has ended. */
bool sim_message_bequeath(struct sim_world *world, cv_id node);
/* Drops the messages that arrived while the node was paused. */
void sim_message_drop_backlog(struct sim_world *world, struct sim_node *node);

#endif
