/* fuzz/fuzz_http.c - whatever a server answers over HTTP, it is read the same in pieces of any
 * size.
 *
 * The first byte says how large the pieces are, the rest is the answer. */
#include "fuzz.h"

#include "core/types.h"
#include "stores/http_answer.h"

#include <stdlib.h>
#include <string.h>

struct outcome {
    struct cv_http_answer answer;
    char *body;
    size_t body_bytes, read_bytes;
};

static struct outcome read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct outcome outcome = {.body = fuzz_must(malloc(size + 1))};
    while (outcome.read_bytes < size && !cv__http_answer_is_over(&outcome.answer)) {
        const size_t left = size - outcome.read_bytes;
        const size_t bytes = left < piece ? left : piece;
        /* A copy of its own, so that a look beyond its end is found. */
        char *copy = fuzz_must(malloc(bytes));
        memcpy(copy, data + outcome.read_bytes, bytes);
        const char *body;
        size_t body_bytes;
        const size_t read = cv__http_answer_read(&outcome.answer, copy, bytes, &body, &body_bytes);
        if (read > bytes || body_bytes > read || body < copy || body > copy + bytes) {
            fuzz_found("a piece that is not in the data");
        }
        memcpy(outcome.body + outcome.body_bytes, body, body_bytes);
        outcome.body_bytes += body_bytes;
        outcome.read_bytes += read;
        free(copy);
    }
    if (!cv__http_answer_is_over(&outcome.answer)) {
        cv__http_answer_end(&outcome.answer);
    }
    return outcome;
}

static void check(const struct cv_http_answer *answer)
{
    if (answer->state == CV_HTTP_FAILED && (answer->why == NULL || answer->why[0] == '\0')) {
        fuzz_found("a failure without a reason");
    }
    if (answer->state == CV_HTTP_DONE && (answer->status < 200 || answer->status > 599)) {
        fuzz_found("an answer without a status");
    }
    if (answer->head_bytes > CV_HTTP_HEAD_BYTES_MAX) {
        fuzz_found("headers without a bound");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    const size_t piece = 1 + fuzz_byte(&in) % 32u;
    struct outcome whole = read_all(in.at, in.bytes, SIZE_MAX);
    struct outcome parts = read_all(in.at, in.bytes, piece);
    check(&whole.answer);
    check(&parts.answer);
    if (whole.answer.state != parts.answer.state) {
        fuzz_found("pieces make a difference");
    }
    if (whole.answer.state == CV_HTTP_DONE &&
        (whole.answer.status != parts.answer.status ||
         whole.answer.is_last != parts.answer.is_last || whole.read_bytes != parts.read_bytes ||
         whole.body_bytes != parts.body_bytes ||
         memcmp(whole.body, parts.body, whole.body_bytes) != 0)) {
        fuzz_found("pieces make another answer");
    }
    free(whole.body);
    free(parts.body);
    return 0;
}
