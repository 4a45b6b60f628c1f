/* fuzz/fuzz_files.c - the reader of a file accepts or refuses any content: a durable record, a
 * lease file, a key, a secret, the counter of a sequencer.
 *
 * Input: one byte for the kind, then the content. Where a check sum or the id of this boot would
 * keep the fuzzer out, a bit of that byte makes it right. */
#include "fuzz.h"

#include "net/key.h"
#include "runtime/persist.h"
#include "sequencers/sequencer.h"
#include "stores/remote.h"
#include "supervisor/lease_file.h"

#include <stdlib.h>
#include <string.h>

#define MADE_RIGHT 0x80

static void check(int code, const struct cv_errtext *err)
{
    if (code != CV_OK && (err->text[0] == '\0' || strchr(err->text, '\n') != NULL)) {
        fuzz_found("an error is one line, and not an empty one");
    }
}

static void record_file(uint8_t *bytes, size_t byte_count, bool is_made_right)
{
    struct cv_errtext err = {""};
    if (is_made_right && byte_count > 8) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        for (size_t i = 0; i < byte_count - 8; i++) {
            hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
        }
        for (size_t i = 0; i < 8; i++) {
            bytes[byte_count - 8 + i] = (uint8_t)(hash >> 8 * i);
        }
    }
    struct cv_persist *persist = NULL;
    const char *path = fuzz_file("record", bytes, byte_count);
    int code = cv__persist_open(path, "bully", &persist, &err);
    check(code, &err);
    uint64_t word[CV_PERSIST_WORDS_MAX];
    uint32_t count = 0;
    if (code == CV_OK) {
        code = cv__persist_load(persist, word, &count, &err);
        check(code, &err);
    }
    if (count > CV_PERSIST_WORDS_MAX) {
        fuzz_found("too many words");
    }
    cv__persist_close(persist);
}

static void lease_file(uint8_t *bytes, size_t byte_count, bool is_made_right)
{
    static uint8_t page[CV_LEASE_FILE_BYTES];
    const char *path;
    struct cv_errtext err = {""};
    if (is_made_right) {
        struct cv_lease_file ours;
        if (cv__lease_file_make(&ours, "e", "n", NULL, &err) != CV_OK) {
            fuzz_found(err.text);
        }
        memcpy(page, ours.page, sizeof page);
        cv__lease_file_remove(&ours);
        const size_t from = 56; /* after the id of the boot */
        memcpy(page + from, bytes,
               byte_count < sizeof page - from ? byte_count : sizeof page - from);
        path = fuzz_file("lease", page, sizeof page);
    } else {
        path = fuzz_file("lease", bytes, byte_count);
    }
    const struct cv_lease_page *mapped;
    const int code = cv__lease_file_open(path, &mapped, &err);
    check(code, &err);
    if (code == CV_OK) {
        const struct cv_lease_file_view view = cv__lease_file_read(mapped, 1000 * NS_PER_S);
        if (view.is_valid && view.valid_until_ns <= 1000 * NS_PER_S) {
            fuzz_found("a lease that is over is valid");
        }
        cv__lease_file_close(mapped);
    }
}

static void on_number(void *self, uint64_t request, uint64_t number)
{
    (void)request;
    *(bool *)self = true;
    if (number != CV_SEQUENCE_NONE && number >> 63 != 0) {
        fuzz_found("a number of 64 bits");
    }
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void counter_file(const uint8_t *bytes, size_t byte_count)
{
    static uv_loop_t loop;
    static bool is_ready;
    if (!is_ready && uv_loop_init(&loop) != 0) {
        abort();
    }
    is_ready = true;
    struct cv_errtext err = {""};
    bool is_answered = false, is_closed = false;
    const struct cv_sequencer_events events = {.self = &is_answered, .number = on_number};
    void *self;
    const char *path = fuzz_file("counter", bytes, byte_count);
    const int code = cv__sequencer_file.open(&loop, path, &events, &self, &err);
    check(code, &err);
    if (code != CV_OK) {
        return;
    }
    cv__sequencer_file.ask(self, 1, CV_SEQUENCE_NONE);
    while (!is_answered) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    cv__sequencer_file.close(self, on_closed, &is_closed);
    while (!is_closed) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    const uint8_t kind = fuzz_byte(&in);
    const bool is_made_right = (kind & MADE_RIGHT) != 0;
    uint8_t *bytes = fuzz_must(malloc(in.bytes + 1));
    memcpy(bytes, in.at, in.bytes);
    struct cv_errtext err = {""};
    struct cv_key key;
    char secret[64];
    switch ((kind & ~MADE_RIGHT) % 5) {
    case 0:
        record_file(bytes, in.bytes, is_made_right);
        break;
    case 1:
        lease_file(bytes, in.bytes, is_made_right);
        break;
    case 2:
        check(cv__key_read(fuzz_file("key", bytes, in.bytes), &key, &err), &err);
        break;
    case 3:
        check(cv__remote_secret(fuzz_file("secret", bytes, in.bytes), "UNUSED", secret,
                                sizeof secret, &err),
              &err);
        break;
    default:
        counter_file(bytes, in.bytes);
        break;
    }
    free(bytes);
    return 0;
}
