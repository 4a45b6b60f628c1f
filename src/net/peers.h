/* src/net/peers.h - frames between the members of a cluster, with time stamps and items.
 *
 * A frame (frame.h) from one member to another carries
 *
 *   bytes    what
 *   0..1     sender, a member's id; 0: a guest, which only asks
 *   2..3     receiver; 0: a guest
 *   4..7     generation of the cluster
 *   8..19    hashes of the protocol, of its options, and of the members: 4 bytes each
 *   20..23   the number of this frame among those to this receiver, from 1
 *   24..31   life of the receiver that the sender knows; 0: none
 *   32..39   boot of the sender's clock
 *   40..47   C, when it was sent; 48..55 A and 56..63 B of failaware.h; 64..71 boot of A
 *   72..     items: kind (1 byte), length (2 bytes), bytes
 *
 * all of it encrypted and authenticated; cluster and election are the frame's channel. All items
 * for one peer in one turn of the loop go into one frame.
 *
 * A life is one start of a process: eight random bytes of the frame's sender. Items count only in a
 * frame that names the current life of its receiver. So frames that were recorded before a process
 * started cannot be replayed to it; later frames are accepted once (frame.h). A member that does
 * not know the peer's life, or gets a frame with a wrong one, sends a frame without items as a
 * greeting.
 *
 * A frame is accepted only from the configured address of its sender. So a member that is started a
 * second time, on another host, is ignored.
 *
 * Frames with other hashes or another generation are refused: their sender might count majorities
 * differently. All refused frames are counted by reason. This module reads no clock and uses no
 * socket; its memory is bounded by the number of members. */
#ifndef CV_NET_PEERS_H
#define CV_NET_PEERS_H

#include "core/failaware.h"
#include "net/frame.h"
#include "net/udp.h"

#define CV_PEERS_HEAD_BYTES 72u
#define CV_PEERS_ITEM_BYTES 3u /* before the bytes of an item */
/* Above this a datagram is sent in fragments on a usual network. A longer item goes alone. */
#define CV_PEERS_PAYLOAD_BYTES 1350u
#define CV_PEERS_ITEM_BYTES_MAX 8192u
#define CV_PEERS_FRAME_BYTES_MAX \
    (CV_FRAME_EXTRA_BYTES + CV_PEERS_HEAD_BYTES + CV_PEERS_ITEM_BYTES + CV_PEERS_ITEM_BYTES_MAX)

/* What became of a datagram, beyond what a frame's fate says. */
#define CV_PEERS_FATE_MAP(X)                                                             \
    X(ACCEPTED, "accepted")                                                              \
    X(GREETING, "greeting") /* it does not know this life yet: its items do not count */ \
    X(OVERSIZED, "oversized")                                                            \
    X(FRAME, "frame")           /* refused as a frame: see cv__peers_frames() */         \
    X(MEMBER, "member")         /* of nobody in the cluster, or not for us */            \
    X(ADDRESS, "address")       /* not from where that member is */                      \
    X(GENERATION, "generation") /* of another generation */                              \
    X(SETTINGS, "settings")     /* with another protocol, options or members */          \
    X(MALFORMED, "malformed")

enum cv_peers_fate {
#define CV_PEERS_FATE_ENUM(name, text) CV_PEERS_##name,
    CV_PEERS_FATE_MAP(CV_PEERS_FATE_ENUM)
#undef CV_PEERS_FATE_ENUM
        CV_PEERS_FATE_COUNT
};

/* What must be the same at all members. */
struct cv_peers_same {
    uint32_t generation;
    uint32_t protocol, options, members; /* hashes */
};

/* The bytes are lent. */
struct cv_peers_item {
    uint32_t kind;
    cv_id from; /* CV_ID_NONE: a guest, to be answered at ... */
    const struct cv_udp_address *source;
    uint64_t life; /* ... of the sender */
    const uint8_t *bytes;
    size_t byte_count;
    int64_t delay_ns_max; /* CV_DELAY_UNKNOWN: no bound */
};

/* All but the keys and texts are copied. */
struct cv_peers_setting {
    const char *channel;
    const struct cv_key *key;
    const struct cv_key *next_key; /* may be NULL */
    struct cv_peers_same same;
    cv_id self; /* CV_ID_NONE: a guest */
    uint32_t member_count;
    const struct cv_udp_address *address; /* of member i + 1 */
    uint64_t boot;
    int64_t drift_ppb;
    void *user;
    void (*send)(void *user, const struct cv_udp_address *to, const uint8_t *bytes,
                 size_t byte_count);
    void (*take)(void *user, const struct cv_peers_item *item);
};

/* What is known of one peer. */
struct cv_peers_view {
    uint64_t life;           /* 0: it never spoke to this life of ours */
    int64_t heard_ns;        /* when it last did ... */
    int64_t heard_before_ns; /* ... and the time before that; 0: never */
    int64_t sent_ns;         /* when it was last sent something; 0: never */
    int64_t delay_ns;        /* the latest bound on a delay; CV_DELAY_UNKNOWN: none yet */
    int64_t
        round_ns; /* mean round trip, without the time that the peer kept the frame; 0: none yet */
    int64_t drift_ppb;         /* how much faster its clock runs (drift.h); INT64_MIN: not known */
    uint64_t received;         /* frames of this life of it ... */
    uint64_t lost;             /* ... and those that never came */
    struct cv_peers_same said; /* what it said last, also if it was refused */
    bool differs;              /* and it was refused */
};

struct cv_peers;

/* CV_OK, CV_E_IO or CV_E_MEMORY. */
CV_NODISCARD int cv__peers_new(const struct cv_peers_setting *setting, struct cv_peers **ret_peers,
                               struct cv_errtext *reterr);
void cv__peers_free(struct cv_peers *peers); /* NULL is fine */

/* Adds an item to the next frame to a member; cv__peers_flush() sends. A frame that is full is sent
 * at once. */
void cv__peers_add(struct cv_peers *peers, cv_id to, uint32_t kind, const uint8_t *bytes,
                   size_t byte_count, int64_t now_ns);
/* The next frame to it is sent even without an item. */
void cv__peers_greet(struct cv_peers *peers, cv_id to);
/* Is there one that waits for cv__peers_flush()? */
bool cv__peers_has_items(const struct cv_peers *peers);
void cv__peers_flush(struct cv_peers *peers, int64_t now_ns);

/* A frame that the witness sends when this process is dead (cv__frame_seal_last()): some items,
 * each put by cv__peers_put_item(), which returns its length. Returns the frame's length; 0: no
 * life of that peer is known, so it would not count. */
size_t cv__peers_put_item(uint8_t *at, uint32_t kind, const uint8_t *bytes, size_t byte_count);
size_t cv__peers_seal_last(struct cv_peers *peers, cv_id to, const uint8_t *items,
                           size_t item_bytes, int64_t now_ns,
                           uint8_t ret_bytes[CV_PEERS_FRAME_BYTES_MAX]);
/* How many new lives of peers were seen: such frames must be sealed again when it changes. */
uint64_t cv__peers_lives(const struct cv_peers *peers);
const struct cv_udp_address *cv__peers_address(const struct cv_peers *peers, cv_id id);

/* Answers a guest: one frame with one item. */
void cv__peers_answer(struct cv_peers *peers, const struct cv_peers_item *question, uint32_t kind,
                      const uint8_t *bytes, size_t byte_count, int64_t now_ns);

/* A datagram came. `now_ns` is D of failaware.h: read after the datagram was taken from the kernel.
 * Items of an accepted frame are given to `take`. */
enum cv_peers_fate cv__peers_receive(struct cv_peers *peers, const struct cv_udp_address *from,
                                     const uint8_t *bytes, size_t byte_count, int64_t now_ns);

struct cv_peers_view cv__peers_view(const struct cv_peers *peers, cv_id id);
uint64_t cv__peers_life(const struct cv_peers *peers); /* our own */
uint64_t cv__peers_count(const struct cv_peers *peers, enum cv_peers_fate fate);
const struct cv_frames *cv__peers_frames(const struct cv_peers *peers);
/* The stable word for a fate. */
const char *cv__peers_fate_name(enum cv_peers_fate fate);

#endif
