/* src/net/frame.h - a datagram on the wire: authenticated, encrypted, and accepted once.
 *
 *   bytes    what
 *   0..1     "CV"
 *   2        version: 1
 *   3        how it is protected: 0 insecure, 1 by the key
 *   4..11    channel: which election, a hash of its name
 *   12..27   sender: drawn at random at each start of a process
 *   28..35   counter: this sender's frames, from 1, little endian
 *   36..     the payload, and 16 bytes that authenticate all of it
 *
 * With a key: XChaCha20-Poly1305 of libsodium. Sender and counter are the nonce, which therefore
 * never repeats; the header is authenticated too. Without the key, nobody can read or make a frame.
 * Insecure: the payload is plain text and the 16 bytes are a hash that only detects damage; anybody
 * can make such a frame. A receiver accepts only the kind that it was opened with.
 *
 * Replays: for each sender we keep the largest counter, and which of the 64 counters up to it were
 * received. A frame is accepted once, in any order within that window; older frames are refused.
 * Memory is bounded: CV_FRAME_SENDERS_MAX senders, 72 bytes each. A further sender replaces the one
 * that was silent for longest, whose frames could then be replayed. A process that has just started
 * cannot recognise replayed frames of senders that it never heard. Protocols must tolerate that
 * (`anon` does: numbers only grow, and repeated messages do not renew trust).
 *
 * This module reads no clock and uses no socket. */
#ifndef CV_NET_FRAME_H
#define CV_NET_FRAME_H

#include "net/key.h"

#include <stdbool.h>
#include <stddef.h>

#define CV_FRAME_HEAD_BYTES 36u
#define CV_FRAME_TAG_BYTES 16u
#define CV_FRAME_EXTRA_BYTES (CV_FRAME_HEAD_BYTES + CV_FRAME_TAG_BYTES)
#define CV_FRAME_PAYLOAD_MAX (65507u - CV_FRAME_EXTRA_BYTES) /* what UDP over IPv4 can carry */
#define CV_FRAME_SENDER_BYTES 16u
#define CV_FRAME_SENDERS_MAX 1024u

/* What became of a datagram. */
#define CV_FRAME_FATE_MAP(X)                                                  \
    X(ACCEPTED, "accepted")                                                   \
    X(OWN, "own")             /* came back to its sender */                   \
    X(FOREIGN, "foreign")     /* not ours, or of another election */          \
    X(VERSION, "version")     /* ours, of a version we do not know */         \
    X(TRUNCATED, "truncated") /* shorter than any frame */                    \
    X(DAMAGED, "damaged")     /* does not authenticate: changed, other key */ \
    X(REPLAYED, "replayed")   /* received before, or too old */

enum cv_frame_fate {
#define CV_FRAME_FATE_ENUM(name, text) CV_FRAME_##name,
    CV_FRAME_FATE_MAP(CV_FRAME_FATE_ENUM)
#undef CV_FRAME_FATE_ENUM
        CV_FRAME_FATE_COUNT
};

/* The stable word for a fate. */
const char *cv__frame_fate_name(enum cv_frame_fate fate);

/* One end of a channel: seals what it sends and opens what it hears. */
struct cv_frames;

/* `key` NULL: insecure. Returns CV_OK, CV_E_IO (no crypto library) or CV_E_MEMORY. */
CV_NODISCARD int cv__frames_new(const char *election, const struct cv_key *key,
                                struct cv_frames **ret_frames, struct cv_errtext *reterr);
/* From now on also opens frames sealed with this key: while a group replaces its key, some members
 * use the old one and some the new one. Not for insecure frames. */
void cv__frames_accept(struct cv_frames *frames, const struct cv_key *key);
/* The channel of its frames; and of a received frame, of any sender. False: it is too short
 * for a frame, or not one of ours. */
uint64_t cv__frames_channel(const struct cv_frames *frames);
bool cv__frame_channel(const uint8_t *bytes, size_t byte_count, uint64_t *ret_channel);
/* NULL is fine; the keys are wiped. */
void cv__frames_free(struct cv_frames *frames);

/* Makes a frame of at most CV_FRAME_PAYLOAD_MAX bytes in `ret_bytes`, which has room for
 * CV_FRAME_EXTRA_BYTES more; returns its length. */
size_t cv__frame_seal(struct cv_frames *frames, const uint8_t *payload, size_t payload_bytes,
                      uint8_t *ret_bytes);

/* The same for a frame that is kept, to be sent by another process when this one is dead. Its
 * counter is above those of all frames that we send ourselves: a peer that receives it drops all of
 * them from then on, late or replayed. */
size_t cv__frame_seal_last(struct cv_frames *frames, const uint8_t *payload, size_t payload_bytes,
                           uint8_t *ret_bytes);

/* Opens a frame. ACCEPTED: the payload is in `ret_payload`, which has room for byte_count bytes.
 * Every call is counted. */
enum cv_frame_fate cv__frame_open(struct cv_frames *frames, const uint8_t *bytes, size_t byte_count,
                                  uint8_t *ret_payload, size_t *ret_payload_bytes);

/* The sender of a frame that was accepted, and of our own frames: CV_FRAME_SENDER_BYTES, lent. */
const uint8_t *cv__frame_sender(const uint8_t *bytes);
const uint8_t *cv__frames_self(const struct cv_frames *frames);

/* How many frames met each fate. */
uint64_t cv__frames_count(const struct cv_frames *frames, enum cv_frame_fate fate);

#endif
