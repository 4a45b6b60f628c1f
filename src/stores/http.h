/* src/stores/http.h - HTTP requests with JSON bodies on a libuv loop.
 *
 * A call ends in exactly one `done`, from the loop and never from within cv__http_post(), unless it
 * is cancelled. A stream also reports each line as it comes. Connections are kept open between
 * calls. A request on a kept connection that the server closes without a byte of an answer is sent
 * once more on a new one, so every request must be repeatable. Threads of their own look up host
 * names.
 *
 * There are two clients behind this: http_plain.c, and http_tls.c with libcurl. The latter is a
 * module that is loaded for TLS only, because libcurl and the thirty libraries that it needs cost
 * more memory than the rest of the program (docs/adr/0066). With TLS certificates are always
 * checked. */
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
    bool is_used;
    char cacert[256]; /* files; empty: the system's, or none */
    char cert[256];
    char key[256];
};

/* How a call ended. status 0: without an answer, and `why` says in one line why. All of it is
 * lent. */
struct cv_http_result {
    long status;
    const char *body;
    size_t body_bytes;
    const char *why;
};

struct cv_http_post {
    const char *url;           /* http://host:port/path; with TLS: https://... */
    const char *authorization; /* header value; NULL: none */
    const char *body;
    int64_t timeout_ns; /* for the whole call; of a stream: for the connection */
    void (*line)(void *user, const char *line); /* a stream: each line without its end; else NULL */
    void (*done)(void *user, const struct cv_http_result *result);
    void *user;
};

/* CV_OK, CV_E_MEMORY, or CV_E_UNKNOWN: the module for TLS cannot be loaded. */
CV_NODISCARD int cv__http_new(uv_loop_t *loop, const struct cv_http_tls *tls,
                              struct cv_http **ret_http, struct cv_errtext *reterr);

/* All texts are copied. NULL: out of memory. */
struct cv_http_call *cv__http_post(struct cv_http *http, const struct cv_http_post *post);

/* Neither line() nor done() is called any more. The server may still carry the request out. */
void cv__http_cancel(struct cv_http_call *call);

/* Ends all calls without calling done(); frees itself on the loop. */
void cv__http_free(struct cv_http *http);

#endif
