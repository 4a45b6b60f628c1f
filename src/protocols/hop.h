/* src/protocols/hop.h - passes messages along the ring, to the next living successor.
 *
 * [NITR, ring] Ids in their order form the ring; a process sends to its successor only. A message
 * that is not acknowledged within T means a dead successor: it is skipped and the message goes to
 * the next one. Ours: a skip is remembered for `timeout` so that the next messages need not wait
 * again; then the whole ring is tried again, because a dead process may have recovered.
 *
 * At most HOP_SLOTS messages wait for an acknowledgement; one more displaces the oldest, as if it
 * were lost, and the election's own time-out repairs that. There are more only if many elections
 * run at once and wait for the same dead successor; then all but one are superfluous.
 *
 * A message that arrives twice (duplicated by the network, or repeated by a predecessor) is passed
 * on once: with one more copy at each hop, an election would grow without bound. The latest
 * HOP_SEEN messages are remembered for this. Numbers begin at a random one in each life, so that
 * none is reused.
 *
 * Wire: every message of a ring begins with the term and the hop's number, which ACK returns; its
 * other fields, and its set if it has one, are the ring's. */
#ifndef CV_PROTOCOLS_HOP_H
#define CV_PROTOCOLS_HOP_H

#include "protocols/classic.h"

#define HOP_HEAD_FIELDS(FIELD) FIELD(U64, term) FIELD(U64, number)
CV_MESSAGE_VIEW(hop_head, HOP_HEAD_FIELDS)

enum {
    HOP_ACK = CLASSIC_MESSAGE_COUNT, /* the message of that number has arrived */
    HOP_ELECTION,                    /* this one and the next go round the ring */
    HOP_COORDINATOR,
    HOP_MESSAGE_COUNT,
};
#define HOP_MESSAGES(ELECTION_FIELDS, COORDINATOR_FIELDS)                            \
    CLASSIC_MESSAGES, [HOP_ACK] = CV_MESSAGE_TYPE("ACK", HOP_HEAD_FIELDS),           \
                      [HOP_ELECTION] = CV_MESSAGE_TYPE("ELECTION", ELECTION_FIELDS), \
                      [HOP_COORDINATOR] = CV_MESSAGE_TYPE("COORDINATOR", COORDINATOR_FIELDS)

/* A ring's own role and the moves between roles. */
enum {
    HOP_ELECTING = CLASSIC_ROLE_COUNT, /* has sent an ELECTION on: waits for COORDINATOR */
    HOP_ROLE_COUNT,
};
extern const uint32_t cv__hop_role_next[HOP_ROLE_COUNT];

enum { HOP_TIMER = CLASSIC_TIMER_COUNT };

#define HOP_SLOTS 8u
#define HOP_SCALARS_MAX 6u /* of one message, the head's included */
#define HOP_SEEN 16u

/* Invariants: a slot is free if its number is 0; numbers grow. */
struct hop_slot {
    uint64_t number;
    uint64_t type;
    int64_t deadline_ns;
    uint64_t scalar[HOP_SCALARS_MAX]; /* as in cv_message.field */
};

struct hop_seen {
    uint64_t number; /* 0: none */
    uint64_t from;
};

/* Follows `struct classic` in a ring's state; the set of slot i is the i-th of `sets`. */
struct hop {
    uint64_t number;        /* of the latest message sent on */
    cv_id next;             /* the successor believed alive; self: no other process is */
    uint32_t has_sets;      /* do this ring's messages carry a set? */
    int64_t skips_until_ns; /* when to try the whole ring again */
    struct hop_slot slot[HOP_SLOTS];
    uint64_t seen_next;
    struct hop_seen seen[HOP_SEEN];
};

/* Words of set storage behind the state. */
uint32_t cv__hop_words(uint32_t member_count);

/* For settle_ns: suspicion and three elections, because a refusal, or a wait of an earlier
 * election, may void two. */
int64_t cv__hop_settle_ns(const struct cv_config *config);

void cv__hop_init(struct hop *hop, const struct classic *c, bool has_sets);
void cv__hop_check(const struct hop *hop, const struct classic *c);

/* Sends a message to the successor, with a new number. False: no living successor is known. */
bool cv__hop_send(struct hop *hop, const struct classic *c, uint64_t *sets,
                  const struct cv_message *message, int64_t now_ns, struct cv_effects *out);

/* START: chooses the first number. */
void cv__hop_start(struct hop *hop, const struct cv_event *event);

/* A message of the ring's own types. ELECTION and COORDINATOR are acknowledged to the sender, and
 * given to their handler unless they were received before. */
typedef void hop_handler(struct classic *c, const struct cv_event *event, struct cv_effects *out);
void cv__hop_on_message(struct hop *hop, struct classic *c, const struct cv_event *event,
                        hop_handler *on_election, hop_handler *on_coordinator,
                        struct cv_effects *out);

/* HOP_TIMER: skip a successor that did not acknowledge. PEER_DOWN: skip one that is reported
 * dead. */
void cv__hop_on_timer(struct hop *hop, const struct classic *c, const uint64_t *sets,
                      int64_t now_ns, struct cv_effects *out);
void cv__hop_on_peer_down(struct hop *hop, const struct classic *c, const uint64_t *sets,
                          const struct cv_event *event, struct cv_effects *out);

#endif
