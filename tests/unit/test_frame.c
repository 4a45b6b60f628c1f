/* tests/unit/test_frame.c - a frame is accepted whole, once, and only from a sender with the
 * key. */
#include "net/frame.h"
#include "support/support.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM 512u

static struct cv_frames *end_of(const char *election, const struct cv_key *key)
{
    struct cv_frames *frames;
    struct cv_errtext why;
    assert_int_equal(cv__frames_new(election, key, &frames, &why), CV_OK);
    return frames;
}

static struct cv_key new_key(void)
{
    struct cv_key key;
    struct cv_errtext why;
    assert_int_equal(cv__key_generate(&key, &why), CV_OK);
    return key;
}

static size_t seal(struct cv_frames *frames, const char *text, uint8_t frame[ROOM])
{
    return cv__frame_seal(frames, (const uint8_t *)text, strlen(text), frame);
}

static enum cv_frame_fate open_it(struct cv_frames *frames, const uint8_t *frame, size_t bytes,
                                  char text[ROOM])
{
    /* Buffers of exactly these sizes let valgrind and the sanitizer see a read past their end. */
    uint8_t *copy = malloc(bytes + 1);
    uint8_t *payload = malloc(bytes + 1);
    assert_non_null(copy);
    assert_non_null(payload);
    memcpy(copy, frame, bytes);
    size_t payload_bytes;
    const enum cv_frame_fate fate = cv__frame_open(frames, copy, bytes, payload, &payload_bytes);
    memcpy(text, payload, payload_bytes);
    text[payload_bytes] = '\0';
    free(copy);
    free(payload);
    return fate;
}

static void each_way(void (*run)(const struct cv_key *key))
{
    const struct cv_key key = new_key();
    run(NULL);
    run(&key);
}

static void travels(const struct cv_key *key)
{
    struct cv_frames *a = end_of("nightly", key);
    struct cv_frames *b = end_of("nightly", key);
    uint8_t frame[ROOM];
    char text[ROOM];
    for (uint32_t i = 0; i < 100; i++) {
        const size_t bytes = seal(a, i % 2 ? "hello" : "", frame);
        assert_int_equal(open_it(b, frame, bytes, text), CV_FRAME_ACCEPTED);
        assert_string_equal(text, i % 2 ? "hello" : "");
        assert_int_equal(open_it(a, frame, bytes, text), CV_FRAME_OWN);
    }
    assert_int_equal(cv__frames_count(b, CV_FRAME_ACCEPTED), 100);
    assert_int_equal(cv__frames_count(a, CV_FRAME_OWN), 100);
    cv__frames_free(a);
    cv__frames_free(b);
}

static void a_frame_arrives_as_it_was_sent(void **unused)
{
    (void)unused;
    each_way(travels);
}

static void is_damaged(const struct cv_key *key)
{
    struct cv_frames *a = end_of("nightly", key);
    struct cv_frames *b = end_of("nightly", key);
    uint8_t frame[ROOM];
    char text[ROOM];
    const size_t bytes = seal(a, "hello", frame);
    for (size_t at = 0; at < bytes; at++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            frame[at] ^= (uint8_t)BIT(bit);
            const enum cv_frame_fate fate = open_it(b, frame, bytes, text);
            assert_int_not_equal(fate, CV_FRAME_ACCEPTED);
            assert_int_not_equal(fate, CV_FRAME_REPLAYED);
            frame[at] ^= (uint8_t)BIT(bit);
        }
    }
    for (size_t length = 0; length < bytes; length++) {
        assert_int_not_equal(open_it(b, frame, length, text), CV_FRAME_ACCEPTED);
    }
    assert_int_equal(cv__frames_count(b, CV_FRAME_VERSION) > 0, true);
    assert_int_equal(cv__frames_count(b, CV_FRAME_FOREIGN) > 0, true);
    assert_int_equal(cv__frames_count(b, CV_FRAME_TRUNCATED), CV_FRAME_EXTRA_BYTES - 3);
    assert_int_equal(cv__frames_count(b, CV_FRAME_DAMAGED) > 0, true);
    /* None of the damaged frames has touched the window. */
    assert_int_equal(open_it(b, frame, bytes, text), CV_FRAME_ACCEPTED);
    cv__frames_free(a);
    cv__frames_free(b);
}

static void every_damaged_bit_is_noticed(void **unused)
{
    (void)unused;
    each_way(is_damaged);
}

static void is_replayed(const struct cv_key *key)
{
    struct cv_frames *a = end_of("nightly", key);
    struct cv_frames *b = end_of("nightly", key);
    static uint8_t frame[200][ROOM];
    size_t bytes[200];
    char text[ROOM];
    for (uint32_t i = 0; i < 200; i++) {
        bytes[i] = seal(a, "hello", frame[i]);
    }
    assert_int_equal(open_it(b, frame[100], bytes[100], text), CV_FRAME_ACCEPTED);
    for (uint32_t i = 100; i > 0; i--) { /* the window is 64 wide: itself and 63 before it */
        const enum cv_frame_fate fate = open_it(b, frame[i], bytes[i], text);
        assert_int_equal(fate, i < 100 && i > 36 ? CV_FRAME_ACCEPTED : CV_FRAME_REPLAYED);
    }
    assert_int_equal(open_it(b, frame[199], bytes[199], text), CV_FRAME_ACCEPTED);
    for (uint32_t i = 0; i < 200; i++) {
        const enum cv_frame_fate fate = open_it(b, frame[i], bytes[i], text);
        assert_int_equal(fate, i > 135 && i < 199 ? CV_FRAME_ACCEPTED : CV_FRAME_REPLAYED);
        assert_int_equal(open_it(b, frame[i], bytes[i], text), CV_FRAME_REPLAYED);
    }
    cv__frames_free(a);
    cv__frames_free(b);
}

static void only_another_last_frame_is_accepted_after_a_senders_last_one(void **unused)
{
    (void)unused;
    const struct cv_key key = new_key();
    struct cv_frames *a = end_of("nightly", &key);
    struct cv_frames *b = end_of("nightly", &key);
    uint8_t early[ROOM], late[ROOM], last[2][ROOM];
    char text[ROOM];
    const size_t early_bytes = seal(a, "early", early);
    const size_t last_bytes = cv__frame_seal_last(a, (const uint8_t *)"last", 5, last[0]);
    assert_int_equal(cv__frame_seal_last(a, (const uint8_t *)"last", 5, last[1]), last_bytes);
    /* Two different frames: both can be sent. */
    assert_memory_not_equal(last[0], last[1], last_bytes);
    const size_t late_bytes = seal(a, "late", late);
    assert_int_equal(open_it(b, last[0], last_bytes, text), CV_FRAME_ACCEPTED);
    assert_string_equal(text, "last");
    assert_int_equal(open_it(b, early, early_bytes, text), CV_FRAME_REPLAYED);
    assert_int_equal(open_it(b, late, late_bytes, text), CV_FRAME_REPLAYED);
    assert_int_equal(open_it(b, last[1], last_bytes, text), CV_FRAME_ACCEPTED);
    assert_int_equal(open_it(b, last[0], last_bytes, text), CV_FRAME_REPLAYED);
    cv__frames_free(a);
    cv__frames_free(b);
}

static void a_frame_is_accepted_once(void **unused)
{
    (void)unused;
    each_way(is_replayed);
}

static void a_sender_with_another_key_is_not_heard(void **unused)
{
    (void)unused;
    const struct cv_key ours = new_key();
    const struct cv_key theirs = new_key();
    struct cv_frames *b = end_of("nightly", &ours);
    struct cv_frames *insecure = end_of("nightly", NULL);
    struct cv_frames *stranger = end_of("nightly", &theirs);
    uint8_t frame[ROOM];
    char text[ROOM];
    assert_int_equal(open_it(b, frame, seal(stranger, "x", frame), text), CV_FRAME_DAMAGED);
    assert_int_equal(open_it(b, frame, seal(insecure, "x", frame), text), CV_FRAME_DAMAGED);
    assert_int_equal(open_it(insecure, frame, seal(b, "x", frame), text), CV_FRAME_DAMAGED);
    cv__frames_free(b);
    cv__frames_free(insecure);
    cv__frames_free(stranger);
}

static void is_foreign(const struct cv_key *key)
{
    struct cv_frames *a = end_of("nightly", key);
    struct cv_frames *other = end_of("hourly", key);
    uint8_t frame[ROOM] = "M-SEARCH * HTTP/1.1";
    char text[ROOM];
    assert_int_equal(open_it(a, frame, 19, text), CV_FRAME_FOREIGN);
    assert_int_equal(open_it(a, frame, 0, text), CV_FRAME_FOREIGN);
    const size_t bytes = seal(other, "hello", frame);
    assert_int_equal(open_it(a, frame, bytes, text), CV_FRAME_FOREIGN);
    frame[2] = 2;
    assert_int_equal(open_it(a, frame, bytes, text), CV_FRAME_VERSION);
    cv__frames_free(a);
    cv__frames_free(other);
}

static void other_elections_and_other_traffic_are_foreign(void **unused)
{
    (void)unused;
    each_way(is_foreign);
}

/* The key of a sender is kept; the bytes are those of the plain function of libsodium, and members
 * of earlier versions can open them. Twice: the first frame of a sender, and a later one. */
static void frames_are_sealed_with_xchacha20_poly1305(void **unused)
{
    (void)unused;
    const struct cv_key key = new_key();
    struct cv_frames *a = end_of("nightly", &key);
    struct cv_frames *b = end_of("nightly", &key);
    uint8_t frame[ROOM], payload[ROOM];
    char text[ROOM];
    for (uint32_t i = 0; i < 2; i++) {
        const size_t bytes = seal(a, "hello", frame);
        const uint8_t *nonce = cv__frame_sender(frame); /* the counter follows */
        assert_int_equal(crypto_aead_xchacha20poly1305_ietf_decrypt(
                             payload, NULL, NULL, frame + CV_FRAME_HEAD_BYTES,
                             bytes - CV_FRAME_HEAD_BYTES, frame, CV_FRAME_HEAD_BYTES, nonce,
                             key.bytes),
                         0);
        assert_memory_equal(payload, "hello", 5);
        assert_int_equal(crypto_aead_xchacha20poly1305_ietf_encrypt(
                             frame + CV_FRAME_HEAD_BYTES, NULL, (const uint8_t *)"HELLO", 5, frame,
                             CV_FRAME_HEAD_BYTES, NULL, nonce, key.bytes),
                         0);
        assert_int_equal(open_it(b, frame, bytes, text), CV_FRAME_ACCEPTED);
        assert_string_equal(text, "HELLO");
    }
    cv__frames_free(a);
    cv__frames_free(b);
}

static void the_payload_cannot_be_read_without_the_key(void **unused)
{
    (void)unused;
    const struct cv_key key = new_key();
    struct cv_frames *a = end_of("nightly", &key);
    uint8_t frame[ROOM];
    const size_t bytes = seal(a, "a secret number", frame);
    assert_null(memmem(frame, bytes, "secret", 6));
    cv__frames_free(a);
}

/* Memory is bounded: the sender that was silent for longest is forgotten, the others are not. */
static void many_senders_are_remembered(void **unused)
{
    (void)unused;
    const struct cv_key key = new_key();
    struct cv_frames *b = end_of("nightly", &key);
    static uint8_t frame[CV_FRAME_SENDERS_MAX + 1][ROOM];
    size_t bytes = 0;
    char text[ROOM];
    for (uint32_t i = 0; i <= CV_FRAME_SENDERS_MAX; i++) {
        struct cv_frames *sender = end_of("nightly", &key);
        bytes = seal(sender, "x", frame[i]);
        assert_int_equal(open_it(b, frame[i], bytes, text), CV_FRAME_ACCEPTED);
        cv__frames_free(sender);
    }
    for (uint32_t i = CV_FRAME_SENDERS_MAX; i >= 1; i--) {
        assert_int_equal(open_it(b, frame[i], bytes, text), CV_FRAME_REPLAYED);
    }
    assert_int_equal(open_it(b, frame[0], bytes, text), CV_FRAME_ACCEPTED); /* was forgotten */
    cv__frames_free(b);
    cv__frames_free(NULL);
}

static void fates_have_names(void **unused)
{
    (void)unused;
    assert_string_equal(cv__frame_fate_name(CV_FRAME_ACCEPTED), "accepted");
    assert_string_equal(cv__frame_fate_name(CV_FRAME_REPLAYED), "replayed");
}

/* ---- Key files ------------------------------------------------------------------------------- */

static char path[64];

static int make_path(void **unused)
{
    (void)unused;
    (void)snprintf(path, sizeof path, "/tmp/conclave-key-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0 || unlink(path) != 0;
}

static int remove_path(void **unused)
{
    (void)unused;
    (void)unlink(path);
    return 0;
}

static void a_key_file_keeps_the_key(void **unused)
{
    (void)unused;
    const struct cv_key key = new_key();
    struct cv_key read = {{0}};
    struct cv_errtext why;
    assert_int_equal(cv__key_write(&key, path, &why), CV_OK);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(cv__key_read(path, &read, &why), CV_OK);
    assert_memory_equal(&key, &read, sizeof key);
    assert_int_equal(cv__key_write(&key, path, &why), CV_E_IO);
    assert_non_null(strstr(why.text, "File exists"));
    cv__key_forget(&read);
    assert_memory_not_equal(&key, &read, sizeof key);
}

static void a_key_file_that_everybody_can_read_is_refused(void **unused)
{
    (void)unused;
    struct cv_key key = new_key();
    struct cv_errtext why;
    assert_int_equal(cv__key_write(&key, path, &why), CV_OK);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(cv__key_read(path, &key, &why), CV_E_INVALID);
    assert_non_null(strstr(why.text, "chmod o="));
}

static void a_malformed_key_file_is_refused(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {
        "",
        "conclave-key-1 00",
        "conclave-key-2 0000000000000000000000000000000000000000000000000000000000000000\n",
        "conclave-key-1 000000000000000000000000000000000000000000000000000000000000000g\n",
        "conclave-key-1 0000000000000000000000000000000000000000000000000000000000000000\nx",
        "conclave-key-1 00000000000000000000000000000000000000000000000000000000000000000000",
    };
    struct cv_key key;
    struct cv_errtext why;
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, wrong[i], strlen(wrong[i])), strlen(wrong[i]));
        (void)close(fd);
        assert_int_equal(cv__key_read(path, &key, &why), CV_E_MALFORMED);
    }
    (void)unlink(path);
    assert_int_equal(cv__key_read(path, &key, &why), CV_E_IO);
    assert_int_equal(cv__key_read("/tmp", &key, &why), CV_E_INVALID); /* not a regular file */
}

int main(void)
{
#define WITH_PATH(name) cmocka_unit_test_setup_teardown(name, make_path, remove_path)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_arrives_as_it_was_sent),
        cmocka_unit_test(every_damaged_bit_is_noticed),
        cmocka_unit_test(a_frame_is_accepted_once),
        cmocka_unit_test(only_another_last_frame_is_accepted_after_a_senders_last_one),
        cmocka_unit_test(a_sender_with_another_key_is_not_heard),
        cmocka_unit_test(other_elections_and_other_traffic_are_foreign),
        cmocka_unit_test(frames_are_sealed_with_xchacha20_poly1305),
        cmocka_unit_test(the_payload_cannot_be_read_without_the_key),
        cmocka_unit_test(many_senders_are_remembered),
        cmocka_unit_test(fates_have_names),
        WITH_PATH(a_key_file_keeps_the_key),
        WITH_PATH(a_key_file_that_everybody_can_read_is_refused),
        WITH_PATH(a_malformed_key_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
