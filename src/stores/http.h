/* src/stores/http.h - HTTP requests with JSON bodies on a libuv loop, by libcurl.
 *
 * A call ends in exactly one `done`, from the loop and never from within cv__http_post(), unless it
 * is cancelled. A stream also reports each line as it comes. Connections are kept open between
 * calls. A thread of libcurl resolves names; certificates are always checked. */
#ifndef CV_STORES_HTTP_H
#define CV_STORES_HTTP_H

#include <conclave/errors.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cv_http;
struct cv_http_call;

struct cv_http_tls {
    char cacert[256]; /* files; empty: the system's, or none */
    char cert[256];
    char key[256];
};

/* How a call ended. status 0: it did not, and `why` says so in a line. All of it is lent. */
struct cv_http_result {
    long status;
    const char *body;
    size_t body_bytes;
    const char *why;
};

struct cv_http_post {
    const char *url;
    const char *authorization; /* header value; NULL: none */
    const char *body;
    int64_t timeout_ns; /* for the whole call; of a stream: for the connection */
    void (*line)(void *user, const char *line); /* a stream: each line without its end; else NULL */
    void (*done)(void *user, const struct cv_http_result *result);
    void *user;
};

/* NULL: out of memory. */
struct cv_http *cv__http_new(uv_loop_t *loop, const struct cv_http_tls *tls);

/* All texts are copied. NULL: out of memory. */
struct cv_http_call *cv__http_post(struct cv_http *http, const struct cv_http_post *post);

/* Neither line() nor done() come any more. */
void cv__http_cancel(struct cv_http_call *call);

/* Ends all calls without a word; frees itself on the loop. */
void cv__http_free(struct cv_http *http);

#endif
