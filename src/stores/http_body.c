/* src/stores/http_body.c - see http_client.h. In both modules. */
#include "stores/http_client.h"

#include "core/types.h"

#include <stdlib.h>
#include <string.h>

bool cv__http_body_add(struct cv_http_body *body, const char *data, size_t bytes)
{
    CV_ASSERT(body->bytes <= CV_HTTP_BODY_BYTES_MAX);
    if (bytes >= CV_HTTP_BODY_BYTES_MAX - body->bytes) {
        return false;
    }
    const size_t needed = body->bytes + bytes + 1;
    if (needed > body->room) {
        char *text = realloc(body->text, 2 * needed);
        if (text == NULL) {
            return false;
        }
        body->text = text;
        body->room = 2 * needed;
    }
    memcpy(body->text + body->bytes, data, bytes);
    body->bytes += bytes;
    body->text[body->bytes] = '\0';
    return true;
}

bool cv__http_tell_line(struct cv_http_call *call)
{
    struct cv_http_body *body = &call->body;
    char *end =
        call->line != NULL && body->bytes > 0 ? memchr(body->text, '\n', body->bytes) : NULL;
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    char *line = strdup(body->text);
    body->bytes -= (size_t)(end - body->text) + 1;
    memmove(body->text, end + 1, body->bytes + 1); /* with the final zero */
    if (line != NULL) {                            /* otherwise memory is out */
        call->line(call->user, line);              /* may cancel the call, and the body with it */
        free(line);
    }
    return true;
}

void cv__http_tell_done(struct cv_http_call *call, long status, const char *why)
{
    const struct cv_http_result result = {.status = status,
                                          .body = call->body.text != NULL ? call->body.text : "",
                                          .body_bytes = call->body.bytes,
                                          .why = why};
    call->done(call->user, &result);
    free(call->body.text);
}

bool cv__http_wants_tls(const struct cv_http_body *body)
{
    return body->text != NULL && strstr(body->text, "HTTPS server") != NULL; /* those in Go */
}
