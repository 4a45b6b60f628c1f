/* src/stores/http_client.h - what a client behind http.h has to be: a table, and two structs that
 * begin with those below. */
#ifndef CV_STORES_HTTP_CLIENT_H
#define CV_STORES_HTTP_CLIENT_H

#include "stores/http.h"

#define CV_HTTP_BODY_BYTES_MAX (16u << 20) /* more than any answer about one election */
#define CV_HTTP_CONNECTIONS_MAX 8          /* to one server; further calls wait for their turn */
#define CV_HTTP_CONNECTIONS_TOTAL 16

/* As in http.h. */
struct cv_http_client {
    struct cv_http *(*new)(uv_loop_t *loop, const struct cv_http_tls *tls); /* NULL: no memory */
    struct cv_http_call *(*post)(struct cv_http *http, const struct cv_http_post *post);
    void (*cancel)(struct cv_http_call *call);
    void (*free)(struct cv_http *http);
};

struct cv_http {
    const struct cv_http_client *client;
};

/* A body that grows, with a final zero. */
struct cv_http_body {
    char *text; /* NULL: empty */
    size_t bytes, room;
};

struct cv_http_call {
    struct cv_http *http;
    struct cv_http_body body; /* of the answer, as far as it has come */
    void (*line)(void *user, const char *line);
    void (*done)(void *user, const struct cv_http_result *result);
    void *user;
};

extern const struct cv_http_client cv__http_plain;

/* False: too long, or out of memory. */
CV_NODISCARD bool cv__http_body_add(struct cv_http_body *body, const char *data, size_t bytes);
/* Takes the first whole line out of the body and passes it to the user, without its end. False:
 * there is none, or the call is not a stream. True: everything may have changed, the call may be
 * freed. */
CV_NODISCARD bool cv__http_tell_line(struct cv_http_call *call);
/* Reports the end of a call, and frees its body. `call` is a copy: the client has freed the call
 * itself before, because the user may end everything. Status 0: no answer, and why. */
void cv__http_tell_done(struct cv_http_call *call, long status, const char *why);

/* Does a server that wants TLS tell us so in this answer to a request without? */
bool cv__http_wants_tls(const struct cv_http_body *body);

#endif
