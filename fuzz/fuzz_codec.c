/* fuzz/fuzz_codec.c - the codec accepts or refuses any bytes; what decodes has one encoding.
 *
 * Input: one byte for the protocol, two for the member count (little endian), the rest is what a
 * peer sent. Buffers have exactly the size that the header asks for, so that the sanitizer sees
 * every access outside them. */
#include <conclave/core.h>

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t protocol_count(void)
{
    uint32_t count = 0;
    while (cv_protocol_at(count) != NULL) {
        count++;
    }
    return count;
}

static void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES) {
        return 0;
    }
    const struct cv_protocol *protocol = cv_protocol_at(data[0] % protocol_count());
    const uint32_t member_count = 1 + (data[1] | (uint32_t)data[2] << 8) % CV_MEMBERS_MAX;

    const size_t byte_count = size - HEAD_BYTES;
    uint8_t *sent = must(malloc(byte_count + 1)); /* malloc(0) may be NULL */
    uint64_t *word = must(malloc(cv_message_words_max(member_count) * sizeof *word));
    uint8_t *again = must(malloc(cv_message_bytes_max(protocol, member_count)));
    memcpy(sent, data + HEAD_BYTES, byte_count);

    struct cv_message message;
    if (cv_message_decode(protocol, member_count, sent, byte_count, word, &message) == CV_OK) {
        const size_t again_count = cv_message_encode(protocol, member_count, &message, again);
        if (again_count != byte_count || memcmp(again, sent, byte_count) != 0) {
            abort();
        }
    }
    free(again);
    free(word);
    free(sent);
    return 0;
}
