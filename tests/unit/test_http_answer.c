/* tests/unit/test_http_answer.c - what a server may answer over HTTP, and what of it is refused. */
#include "stores/http_answer.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
    struct cv_http_answer answer;
    char body[256];
    size_t body_bytes, rest; /* rest: bytes after the answer */
};

/* In pieces of this size; then the connection ends, if that is asked for. */
static struct outcome read_in_pieces(const char *text, size_t bytes, size_t piece, bool has_end)
{
    struct outcome outcome = {0};
    size_t at = 0;
    while (at < bytes && !cv__http_answer_is_over(&outcome.answer)) {
        const char *body;
        size_t body_bytes;
        const size_t left = bytes - at < piece ? bytes - at : piece;
        at += cv__http_answer_read(&outcome.answer, text + at, left, &body, &body_bytes);
        assert_true(outcome.body_bytes + body_bytes < sizeof outcome.body);
        memcpy(outcome.body + outcome.body_bytes, body, body_bytes);
        outcome.body_bytes += body_bytes;
    }
    outcome.rest = bytes - at;
    if (has_end && !cv__http_answer_is_over(&outcome.answer)) {
        cv__http_answer_end(&outcome.answer);
    }
    return outcome;
}

/* The size of the pieces makes no difference. */
static struct outcome read_all(const char *text, bool has_end)
{
    const struct outcome whole = read_in_pieces(text, strlen(text), SIZE_MAX, has_end);
    for (size_t piece = 1; piece <= 7; piece++) {
        const struct outcome again = read_in_pieces(text, strlen(text), piece, has_end);
        assert_int_equal(again.answer.state, whole.answer.state);
        if (whole.answer.state != CV_HTTP_FAILED) {
            assert_int_equal(again.answer.status, whole.answer.status);
            assert_int_equal(again.answer.is_last, whole.answer.is_last);
            assert_string_equal(again.body, whole.body);
            assert_int_equal(again.rest, whole.rest);
        }
    }
    return whole;
}

/* More than is kept of a line: the size is behind it. */
#define ZEROS_16 "0000000000000000"
#define ZEROS_64 ZEROS_16 ZEROS_16 ZEROS_16 ZEROS_16
#define ZEROS_256 ZEROS_64 ZEROS_64 ZEROS_64 ZEROS_64

static void assert_answer(const char *text, int status, const char *body, bool is_last)
{
    const struct outcome outcome = read_all(text, false);
    if (outcome.answer.state != CV_HTTP_DONE) {
        fail_msg("'%s' is not done: %s", text, outcome.answer.why);
    }
    assert_int_equal(outcome.answer.status, status);
    assert_string_equal(outcome.body, body);
    assert_int_equal(outcome.answer.is_last, is_last);
    assert_int_equal(outcome.rest, 0);
}

static void assert_refused(const char *text, const char *why)
{
    const struct outcome outcome = read_all(text, true);
    assert_int_equal(outcome.answer.state, CV_HTTP_FAILED);
    if (strstr(outcome.answer.why, why) == NULL) {
        fail_msg("'%s' is refused because it %s", text, outcome.answer.why);
    }
}

static void answers_with_a_length_end_there(void **unused)
{
    (void)unused;
    assert_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false);
    assert_answer("HTTP/1.1 503\r\ncontent-length:  5 \r\n\r\nhello", 503, "hello", false);
    assert_answer("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, "hi", false);
    assert_answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false);
    assert_answer("HTTP/1.1 204 No Content\r\n\r\n", 204, "", false);
    assert_answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, "x",
                  false);
    const struct outcome two = read_all("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz", false);
    assert_int_equal(two.answer.state, CV_HTTP_DONE);
    assert_int_equal(two.rest, 2);
}

static void chunks_are_joined(void **unused)
{
    (void)unused;
    assert_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5\r\nhello\r\nA ; name=\"x\"\r\n, my world\r\n0\r\nTrailer: x\r\n\r\n",
                  200, "hello, my world", false);
    assert_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 200, "", false);
    assert_answer("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n", 200, "x", false);
}

static void the_end_of_the_connection_ends_an_answer_without_a_length(void **unused)
{
    (void)unused;
    const struct outcome outcome = read_all("HTTP/1.1 400 Bad\r\n\r\nwhat?", true);
    assert_int_equal(outcome.answer.state, CV_HTTP_DONE);
    assert_string_equal(outcome.body, "what?");
    assert_true(outcome.answer.is_last);
    assert_refused("", "closed the connection without an answer");
    assert_refused("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "in the middle");
    assert_refused("HTTP/1.1 200 OK\r\nContent-Le", "in the middle");
    assert_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
                   "in the middle");
}

static void a_server_may_say_that_it_closes(void **unused)
{
    (void)unused;
    assert_answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 200, "x",
                  true);
    assert_answer("HTTP/1.1 200 OK\r\nConnection: upgrade, Close\r\nContent-Length: 1\r\n\r\nx",
                  200, "x", true);
    assert_answer("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", true);
    assert_answer("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200,
                  "x", false);
}

static void interim_answers_are_skipped(void **unused)
{
    (void)unused;
    assert_answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nContent-Length: 9\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                  200, "hi", false);
    assert_refused("HTTP/1.1 101 Switching\r\n\r\n", "changed the protocol");
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct cv_http_answer answer = {0};
    uint32_t count = 0;
    for (; !cv__http_answer_is_over(&answer); count++) { /* not without end */
        const char *body;
        size_t bytes;
        (void)cv__http_answer_read(&answer, interim, strlen(interim), &body, &bytes);
    }
    assert_int_equal(answer.state, CV_HTTP_FAILED);
    assert_in_range(count, 1000, 5000);
}

static void what_is_ambiguous_is_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"\x15\x03\x01", "in the middle"}, /* TLS */
        {"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"},
        {"HTTP/2 200 OK\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 20 OK\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 099 OK\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 600 OK\r\n\r\n", "does not speak HTTP"},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", "does not speak HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx", "without a name"},
        {"HTTP/1.1 200 OK\r\n folded: 1\r\n\r\nx", "without a name"},
        {"HTTP/1.1 200 OK\r\nno colon\r\n\r\nx", "without a name"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "unknown size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "unknown size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "unknown size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 x\r\n", "unknown size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" ZEROS_256 "5\r\n", "unknown size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n", "unknown"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", "longer than its"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(bad[i].text, bad[i].why);
    }
    static const char zero[] = "HTTP/1.1 200 OK\r\nCon\0tent-Length: 1\r\n\r\nx";
    assert_int_equal(read_in_pieces(zero, sizeof zero - 1, 3, true).answer.state, CV_HTTP_FAILED);
}

/* Reads a header of this many bytes between the status and a body of one. */
static enum cv_http_state state_with(const char *name, size_t bytes)
{
    char *text = malloc(bytes + 200);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "HTTP/1.1 200 OK\r\n%s", name);
    memset(text + at, ' ', bytes);
    at += bytes;
    (void)strcpy(text + at, "1\r\nContent-Length: 1\r\n\r\nx");
    const struct outcome outcome = read_in_pieces(text, strlen(text), 1000, false);
    free(text);
    return outcome.answer.state;
}

static void headers_have_a_bound(void **unused)
{
    (void)unused;
    assert_int_equal(state_with("X-Other:", 10), CV_HTTP_DONE);
    assert_int_equal(state_with("X-Other:", 10000), CV_HTTP_DONE); /* read, and not kept */
    assert_int_equal(state_with("X-Other:", CV_HTTP_HEAD_BYTES_MAX), CV_HTTP_FAILED);
    assert_int_equal(state_with("Content-Length:", 10), CV_HTTP_DONE);
    assert_int_equal(state_with("Content-Length:", 1000), CV_HTTP_FAILED);
    assert_int_equal(state_with("Connection:", 1000), CV_HTTP_FAILED);
    assert_int_equal(state_with("Transfer-Encoding:", 1000), CV_HTTP_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_with_a_length_end_there),
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(the_end_of_the_connection_ends_an_answer_without_a_length),
        cmocka_unit_test(a_server_may_say_that_it_closes),
        cmocka_unit_test(interim_answers_are_skipped),
        cmocka_unit_test(what_is_ambiguous_is_refused),
        cmocka_unit_test(headers_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
