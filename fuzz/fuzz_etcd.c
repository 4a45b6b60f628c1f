/* fuzz/fuzz_etcd.c - whatever an etcd, or an attacker in its place, answers, the store gives an
 * answer of its own.
 *
 * HTTP (stores/http.h) is replaced here: steps answer the oldest waiting call.
 *   > STATUS BODY   an answer; status 0: the connection failed, and the body says why
 *   < LINE          a line of the latest stream
 *   = STATUS BODY   the stream ends
 * An input that begins with @ uses a user with a password. */
#include "fuzz.h"

#include "stores/http.h"

#include <stdlib.h>
#include <string.h>

struct cv_http {
    struct cv_http_call *first, **end;
};

struct cv_http_call {
    struct cv_http *http;
    struct cv_http_call *next;
    struct cv_http_post post;
};

static struct cv_http *only;

int cv__http_new(uv_loop_t *loop, const struct cv_http_tls *tls, struct cv_http **ret_http,
                 struct cv_errtext *reterr)
{
    (void)loop;
    (void)tls;
    (void)reterr;
    only = fuzz_must(calloc(1, sizeof *only));
    only->end = &only->first;
    *ret_http = only;
    return CV_OK;
}

struct cv_http_call *cv__http_post(struct cv_http *http, const struct cv_http_post *post)
{
    struct cv_http_call *call = fuzz_must(calloc(1, sizeof *call));
    call->http = http;
    call->post = *post;
    *http->end = call;
    http->end = &call->next;
    return call;
}

void cv__http_cancel(struct cv_http_call *call)
{
    struct cv_http_call **at = &call->http->first;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    if (call->http->end == &call->next) {
        call->http->end = at;
    }
    free(call);
}

void cv__http_free(struct cv_http *http)
{
    while (http->first != NULL) {
        cv__http_cancel(http->first);
    }
    free(http);
    only = NULL;
}

static struct cv_http_call *waiting(bool is_stream)
{
    struct cv_http_call *call = only != NULL ? only->first : NULL;
    while (call != NULL && (call->post.line != NULL) != is_stream) {
        call = call->next;
    }
    return call;
}

static void end(struct cv_http_call *call, const char *text)
{
    char *body;
    const long status = strtol(text, &body, 10);
    body += body[0] == ' ';
    const struct cv_http_post post = call->post;
    cv__http_cancel(call);
    post.done(post.user, &(struct cv_http_result){.status = status,
                                                  .body = status != 0 ? body : "",
                                                  .body_bytes = status != 0 ? strlen(body) : 0,
                                                  .why = status == 0 ? body : ""});
}

static void step(const char *line)
{
    struct cv_http_call *call = waiting(line[0] != '>');
    if (line[0] == '\0' || call == NULL) {
        return;
    }
    const char *rest = line + 1 + (line[1] == ' ');
    if (line[0] == '<') {
        call->post.line(call->post.user, rest);
    } else if (line[0] == '>' || line[0] == '=') {
        end(call, rest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool has_user = size > 0 && data[0] == '@';
    (void)setenv("CONCLAVE_ETCD_PASSWORD", "secret", 1);
    const struct fuzz_story story = {.kind = cv_module_table(),
                                     .address = has_user ? "etcd://u@h1,h2/p" : "etcd://h1,h2/p",
                                     .step = step,
                                     .turn_ms = 1};
    fuzz_story_tell(&story, data, size);
    return 0;
}
