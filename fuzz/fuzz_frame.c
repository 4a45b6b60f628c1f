/* fuzz/fuzz_frame.c - the parser of frames accepts or refuses any bytes, and accepts a frame once.
 *
 * Input: one byte, then what arrived. Bit 0: with a key. Bit 1: what arrived is first sealed as a
 * payload, so that the fuzzer reaches what only members can send. Bit 2: the insecure tag is made
 * right, for the same reason; bits 3..7 pick a byte of the frame to damage. */
#include "net/frame.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct cv_frames *end_of(const struct cv_key *key)
{
    struct cv_frames *frames;
    if (cv__frames_new("fuzz", key, &frames, NULL) != CV_OK) {
        abort();
    }
    return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) {
        return 0;
    }
    const struct cv_key key = {{1, 2, 3}};
    const struct cv_key *used = (data[0] & 1) != 0 ? &key : NULL;
    struct cv_frames *receiver = end_of(used);
    const size_t arrived_bytes = size - 1;
    size_t byte_count = arrived_bytes;
    uint8_t *frame = must(malloc(arrived_bytes + CV_FRAME_EXTRA_BYTES));
    if ((data[0] & 2) != 0) {
        struct cv_frames *sender = end_of(used);
        byte_count = cv__frame_seal(sender, data + 1, arrived_bytes, frame);
        cv__frames_free(sender);
        if (data[0] >> 3 != 0) {
            frame[(data[0] >> 3) % byte_count] ^= 1;
        }
    } else {
        memcpy(frame, data + 1, arrived_bytes);
        if ((data[0] & 4) != 0 && byte_count >= CV_FRAME_EXTRA_BYTES) {
            (void)crypto_generichash(frame + byte_count - CV_FRAME_TAG_BYTES, CV_FRAME_TAG_BYTES,
                                     frame, byte_count - CV_FRAME_TAG_BYTES, NULL, 0);
        }
    }
    uint8_t *exact = must(malloc(byte_count + 1));
    uint8_t *payload = must(malloc(byte_count + 1));
    memcpy(exact, frame, byte_count);
    size_t payload_bytes;
    const enum cv_frame_fate fate =
        cv__frame_open(receiver, exact, byte_count, payload, &payload_bytes);
    if (fate == CV_FRAME_ACCEPTED) {
        if (payload_bytes + CV_FRAME_EXTRA_BYTES != byte_count ||
            cv__frame_open(receiver, exact, byte_count, payload, &payload_bytes) !=
                CV_FRAME_REPLAYED) {
            abort();
        }
    }
    free(payload);
    free(exact);
    free(frame);
    cv__frames_free(receiver);
    return 0;
}
