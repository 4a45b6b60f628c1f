/* src/net/frame.c - a datagram on the wire; see frame.h. */
#include "net/frame.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/types.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1u
#define PROTECTION_NONE 0u
#define PROTECTION_KEY 1u
#define CHANNEL_AT 4u
#define CHANNEL_BYTES 8u
#define SENDER_AT 12u
#define COUNTER_AT 28u
#define COUNTER_BYTES 8u
#define NONCE_COUNTER_AT (crypto_aead_chacha20poly1305_ietf_NPUBBYTES - COUNTER_BYTES)
#define WINDOW 64u
#define LAST_COUNTERS \
    (UINT64_C(1) << 63) /* counters of frames that a witness sends after our end */

_Static_assert(SENDER_AT == CHANNEL_AT + CHANNEL_BYTES, "the head of frame.h");
_Static_assert(COUNTER_AT == SENDER_AT + CV_FRAME_SENDER_BYTES, "the head of frame.h");
_Static_assert(COUNTER_AT + COUNTER_BYTES == CV_FRAME_HEAD_BYTES, "the head of frame.h");
_Static_assert(CV_FRAME_SENDER_BYTES + COUNTER_BYTES ==
                   crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
               "sender and counter are the nonce");
_Static_assert(CV_FRAME_SENDER_BYTES == crypto_core_hchacha20_INPUTBYTES,
               "the key of a sender depends on the sender alone");
_Static_assert(CV_KEY_BYTES == crypto_core_hchacha20_KEYBYTES, "a key is made from the key ...");
_Static_assert(CV_KEY_BYTES == crypto_core_hchacha20_OUTPUTBYTES, "... and is as long");
_Static_assert(CV_FRAME_TAG_BYTES == crypto_aead_xchacha20poly1305_ietf_ABYTES, "the tag");

/* Invariant: a sender that was heard has largest > 0 and bit 0 of `seen` set. */
struct sender {
    uint8_t id[CV_FRAME_SENDER_BYTES];
    uint64_t largest;  /* counter; 0: this slot is free */
    uint64_t seen;     /* bit i: counter largest - i was received */
    uint64_t heard;    /* sequence number of its latest frame: the lowest is forgotten first */
    struct cv_key key; /* of its frames: made from a key that opened one; unused if insecure */
};

struct cv_frames {
    bool is_insecure;
    struct cv_key key;
    struct cv_key other_key; /* accepted as well */
    bool has_other_key;
    uint8_t channel[CHANNEL_BYTES];
    uint8_t self[CV_FRAME_SENDER_BYTES];
    struct cv_key self_key; /* of our frames */
    uint64_t counter, last_counter;
    uint64_t heard;
    uint64_t count[CV_FRAME_FATE_COUNT];
    struct sender sender[CV_FRAME_SENDERS_MAX];
};

static const char *const fate_names[] = {
#define FATE_NAME(name, text) [CV_FRAME_##name] = text,
    CV_FRAME_FATE_MAP(FATE_NAME)
#undef FATE_NAME
};

const char *cv__frame_fate_name(enum cv_frame_fate fate)
{
    CV_ASSERT(fate < CV_FRAME_FATE_COUNT);
    return fate_names[fate];
}

uint64_t cv__frames_count(const struct cv_frames *f, enum cv_frame_fate fate)
{
    CV_ASSERT(fate < CV_FRAME_FATE_COUNT);
    return f->count[fate];
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* XChaCha20-Poly1305 makes a key from the first 16 bytes of its nonce, and uses ChaCha20-Poly1305
 * with that key and the rest of the nonce [draft-irtf-cfrg-xchacha-03, sec. 2.3]. Here the first 16
 * bytes are the sender. So the key is made once for each sender, instead of once for each frame;
 * the bytes of the frames are the same. */
static struct cv_key key_of_sender(const struct cv_key *key, const uint8_t *sender)
{
    struct cv_key made;
    (void)crypto_core_hchacha20(made.bytes, sender, key->bytes, NULL); /* cannot fail */
    return made;
}

/* The nonce of ChaCha20-Poly1305: four zeros and the counter. */
static void nonce_of(const uint8_t *head,
                     uint8_t ret_nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
    memset(ret_nonce, 0, NONCE_COUNTER_AT);
    memcpy(ret_nonce + NONCE_COUNTER_AT, head + COUNTER_AT, COUNTER_BYTES);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

int cv__frames_new(const char *election, const struct cv_key *key, struct cv_frames **ret_frames,
                   struct cv_errtext *reterr)
{
    if (sodium_init() < 0) {
        return cv__fail(reterr, CV_E_IO, "libsodium cannot be used on this machine");
    }
    struct cv_frames *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the frames of '%s'", election);
    }
    f->is_insecure = key == NULL;
    randombytes_buf(f->self, sizeof f->self);
    if (key != NULL) {
        f->key = *key;
        f->self_key = key_of_sender(key, f->self);
    }
    uint8_t hash[crypto_generichash_BYTES];
    (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)election, strlen(election), NULL,
                             0);
    memcpy(f->channel, hash, CHANNEL_BYTES);
    *ret_frames = f;
    return CV_OK;
}

void cv__frames_free(struct cv_frames *f)
{
    if (f != NULL) {
        sodium_memzero(f, sizeof *f); /* it is full of keys */
        free(f);
    }
}

void cv__frames_accept(struct cv_frames *f, const struct cv_key *key)
{
    CV_ASSERT(!f->is_insecure);
    f->other_key = *key;
    f->has_other_key = true;
}

const uint8_t *cv__frame_sender(const uint8_t *bytes)
{
    return bytes + SENDER_AT;
}

const uint8_t *cv__frames_self(const struct cv_frames *f)
{
    return f->self;
}

/* ---- Sealing --------------------------------------------------------------------------------- */

static uint8_t protection_of(const struct cv_frames *f)
{
    return (uint8_t)(f->is_insecure ? PROTECTION_NONE : PROTECTION_KEY);
}

/* Insecure frames: damage is noticed, nothing else. */
static void hash_of(const uint8_t *bytes, size_t byte_count, uint8_t ret_tag[CV_FRAME_TAG_BYTES])
{
    (void)crypto_generichash(ret_tag, CV_FRAME_TAG_BYTES, bytes, byte_count, NULL, 0);
}

static size_t seal(const struct cv_frames *f, uint64_t counter, const uint8_t *payload,
                   size_t payload_bytes, uint8_t *ret_bytes)
{
    CV_ASSERT(payload_bytes <= CV_FRAME_PAYLOAD_MAX);
    CV_ASSERT(counter > 0);
    uint8_t *at = ret_bytes;
    at[0] = 'C';
    at[1] = 'V';
    at[2] = VERSION;
    at[3] = protection_of(f);
    memcpy(at + CHANNEL_AT, f->channel, CHANNEL_BYTES);
    memcpy(at + SENDER_AT, f->self, CV_FRAME_SENDER_BYTES);
    cv__bytes_put(at + COUNTER_AT, counter, COUNTER_BYTES);
    uint8_t *body = at + CV_FRAME_HEAD_BYTES;
    if (f->is_insecure) {
        memcpy(body, payload, payload_bytes);
        hash_of(at, CV_FRAME_HEAD_BYTES + payload_bytes, body + payload_bytes);
    } else {
        uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
        nonce_of(at, nonce);
        (void)crypto_aead_chacha20poly1305_ietf_encrypt(body, NULL, payload, payload_bytes, at,
                                                        CV_FRAME_HEAD_BYTES, NULL, nonce,
                                                        f->self_key.bytes);
    }
    return CV_FRAME_EXTRA_BYTES + payload_bytes;
}

size_t cv__frame_seal(struct cv_frames *f, const uint8_t *payload, size_t payload_bytes,
                      uint8_t *ret_bytes)
{
    f->counter++;
    CV_ASSERT(f->counter < LAST_COUNTERS); /* no nonce is used twice */
    return seal(f, f->counter, payload, payload_bytes, ret_bytes);
}

size_t cv__frame_seal_last(struct cv_frames *f, const uint8_t *payload, size_t payload_bytes,
                           uint8_t *ret_bytes)
{
    f->last_counter++;
    CV_ASSERT(f->last_counter < LAST_COUNTERS);
    return seal(f, LAST_COUNTERS + f->last_counter, payload, payload_bytes, ret_bytes);
}

/* ---- Replays --------------------------------------------------------------------------------- */

/* NULL: it was never heard, or was forgotten. */
static struct sender *known_sender(struct cv_frames *f, const uint8_t *id)
{
    for (uint32_t i = 0; i < CV_FRAME_SENDERS_MAX && f->sender[i].largest != 0; i++) {
        if (memcmp(f->sender[i].id, id, CV_FRAME_SENDER_BYTES) == 0) {
            return &f->sender[i];
        }
    }
    return NULL; /* slots are taken in order: all behind a free one are free */
}

/* A slot for a new sender: a free one, or that of the sender that was silent for longest. */
static struct sender *add_sender(struct cv_frames *f, const uint8_t *id, const struct cv_key *key)
{
    struct sender *slot = &f->sender[0];
    for (uint32_t i = 0; i < CV_FRAME_SENDERS_MAX && slot->largest != 0; i++) {
        if (f->sender[i].heard < slot->heard) { /* 0 in a free one */
            slot = &f->sender[i];
        }
    }
    *slot = (struct sender){.key = *key};
    memcpy(slot->id, id, CV_FRAME_SENDER_BYTES);
    return slot;
}

/* Was this counter received before? Remembers that it was received now. */
static bool is_replay(struct cv_frames *f, struct sender *sender, uint64_t counter)
{
    if (counter > sender->largest) {
        const uint64_t ahead = counter - sender->largest;
        sender->seen = ahead < WINDOW ? sender->seen << ahead | 1 : 1;
        sender->largest = counter;
    } else {
        const uint64_t behind = sender->largest - counter;
        if (behind >= WINDOW || (sender->seen >> behind & 1) != 0) {
            return true;
        }
        sender->seen |= UINT64_C(1) << behind;
    }
    CV_ASSERT((sender->seen & 1) != 0);
    sender->heard = ++f->heard;
    return false;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool opens_with(const struct cv_key *sender_key, const uint8_t *bytes, size_t byte_count,
                       uint8_t *ret_payload)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    nonce_of(bytes, nonce);
    return crypto_aead_chacha20poly1305_ietf_decrypt(
               ret_payload, NULL, NULL, bytes + CV_FRAME_HEAD_BYTES,
               byte_count - CV_FRAME_HEAD_BYTES, bytes, CV_FRAME_HEAD_BYTES, nonce,
               sender_key->bytes) == 0;
}

static bool opens_insecurely(const uint8_t *bytes, size_t byte_count, uint8_t *ret_payload)
{
    const uint8_t *body = bytes + CV_FRAME_HEAD_BYTES;
    const size_t payload_bytes = byte_count - CV_FRAME_EXTRA_BYTES;
    uint8_t tag[CV_FRAME_TAG_BYTES];
    hash_of(bytes, byte_count - CV_FRAME_TAG_BYTES, tag);
    memcpy(ret_payload, body, payload_bytes);
    return memcmp(tag, body + payload_bytes, sizeof tag) == 0;
}

/* A known sender has one key: it is drawn anew at each start of a process, which reads its key
 * once. `known` may be NULL; then *ret_key is the key of that sender, if the frame opens. */
static bool is_authentic(const struct cv_frames *f, const struct sender *known,
                         const uint8_t *bytes, size_t byte_count, uint8_t *ret_payload,
                         struct cv_key *ret_key)
{
    if (f->is_insecure) {
        return opens_insecurely(bytes, byte_count, ret_payload);
    }
    if (known != NULL) {
        return opens_with(&known->key, bytes, byte_count, ret_payload);
    }
    *ret_key = key_of_sender(&f->key, bytes + SENDER_AT);
    if (opens_with(ret_key, bytes, byte_count, ret_payload)) {
        return true;
    }
    if (f->has_other_key) {
        *ret_key = key_of_sender(&f->other_key, bytes + SENDER_AT);
    }
    return f->has_other_key && opens_with(ret_key, bytes, byte_count, ret_payload);
}

uint64_t cv__frames_channel(const struct cv_frames *f)
{
    return cv__bytes_get(f->channel, CHANNEL_BYTES);
}

bool cv__frame_channel(const uint8_t *bytes, size_t byte_count, uint64_t *ret_channel)
{
    if (byte_count < CV_FRAME_HEAD_BYTES || bytes[0] != 'C' || bytes[1] != 'V') {
        return false;
    }
    *ret_channel = cv__bytes_get(bytes + CHANNEL_AT, CHANNEL_BYTES);
    return true;
}

static enum cv_frame_fate open_frame(struct cv_frames *f, const uint8_t *bytes, size_t byte_count,
                                     uint8_t *ret_payload)
{
    if (byte_count < 3 || bytes[0] != 'C' || bytes[1] != 'V') {
        return CV_FRAME_FOREIGN;
    }
    if (bytes[2] != VERSION) {
        return CV_FRAME_VERSION;
    }
    if (byte_count < CV_FRAME_EXTRA_BYTES) {
        return CV_FRAME_TRUNCATED;
    }
    if (memcmp(bytes + CHANNEL_AT, f->channel, CHANNEL_BYTES) != 0) {
        return CV_FRAME_FOREIGN;
    }
    if (memcmp(bytes + SENDER_AT, f->self, CV_FRAME_SENDER_BYTES) == 0) {
        return CV_FRAME_OWN;
    }
    struct sender *sender = known_sender(f, bytes + SENDER_AT);
    struct cv_key key = {{0}};
    if (bytes[3] != protection_of(f) ||
        !is_authentic(f, sender, bytes, byte_count, ret_payload, &key)) {
        return CV_FRAME_DAMAGED;
    }
    const uint64_t counter = cv__bytes_get(bytes + COUNTER_AT, COUNTER_BYTES);
    if (counter == 0) {
        return CV_FRAME_DAMAGED; /* our senders count from 1 */
    }
    if (sender == NULL) {
        sender = add_sender(f, bytes + SENDER_AT, &key);
    }
    return is_replay(f, sender, counter) ? CV_FRAME_REPLAYED : CV_FRAME_ACCEPTED;
}

enum cv_frame_fate cv__frame_open(struct cv_frames *f, const uint8_t *bytes, size_t byte_count,
                                  uint8_t *ret_payload, size_t *ret_payload_bytes)
{
    const enum cv_frame_fate fate = open_frame(f, bytes, byte_count, ret_payload);
    f->count[fate]++;
    *ret_payload_bytes = fate == CV_FRAME_ACCEPTED ? byte_count - CV_FRAME_EXTRA_BYTES : 0;
    return fate;
}
