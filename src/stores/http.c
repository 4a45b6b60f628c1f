/* src/stores/http.c - see http.h. libcurl reports which sockets and timers it waits for. Our
 * callbacks are not called from within libcurl, because they could not call it again. */
#include "stores/http.h"

#include "core/types.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_BYTES_MAX (16u << 20) /* more than any answer about one election */
#define CONNECTIONS_MAX 8L         /* to one server; further calls wait for their turn */

struct cv_http_call {
    struct cv_http *http;
    struct cv_http_call *next;
    CURL *curl;
    struct curl_slist *headers;
    char *request;
    char *body; /* with a final zero */
    size_t body_bytes, body_room;
    char error[CURL_ERROR_SIZE];
    bool is_done;
    CURLcode code;
    void (*line)(void *user, const char *line);
    void (*done)(void *user, const struct cv_http_result *result);
    void *user;
};

struct cv_http {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct cv_http_tls tls;
    struct cv_http_call *calls;
    bool has_answer; /* a server has spoken HTTP to us */
    bool is_closing;
};

/* A socket that libcurl waits for. */
struct watch {
    uv_poll_t poll;
    struct cv_http *http; /* NULL: no longer wanted */
    curl_socket_t socket;
};

static uv_once_t once = UV_ONCE_INIT;

static void init_once(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* if it fails, so does every call */
}

/* ---- What has happened --------------------------------------------------------------------- */

static void call_free(struct cv_http_call *call)
{
    struct cv_http_call **at = &call->http->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    (void)curl_multi_remove_handle(call->http->multi, call->curl); /* fails if it was never added */
    curl_easy_cleanup(call->curl);
    curl_slist_free_all(call->headers);
    free(call->request);
    free(call->body);
    free(call);
}

/* Tells of one line of a stream, if there is a whole one. */
static bool tell_line(struct cv_http_call *call)
{
    if (call->line == NULL || call->body_bytes == 0) {
        return false;
    }
    char *end = memchr(call->body, '\n', call->body_bytes);
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    char *line = strdup(call->body);
    const size_t bytes = (size_t)(end - call->body) + 1;
    call->body_bytes -= bytes;
    memmove(call->body, end + 1, call->body_bytes + 1); /* with the final zero */
    if (line != NULL) {
        call->line(call->user, line); /* may cancel the call */
        free(line);
    }
    return true;
}

/* The connection was closed, and nothing was ever heard from there. */
static bool was_turned_away(const struct cv_http_call *call)
{
    switch (call->code) {
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_UNRECOVERABLE_POLL:
    case CURLE_WEIRD_SERVER_REPLY:
        return !call->http->has_answer;
    default:
        return false;
    }
}

static bool is_scheme(const struct cv_http_call *call, const char *wanted)
{
    char *scheme = NULL;
    (void)curl_easy_getinfo(call->curl, CURLINFO_SCHEME, &scheme);
    return scheme != NULL && strcasecmp(scheme, wanted) == 0;
}

/* A server that wants TLS and gets HTTP says so in plain text (those written in Go do), answers
 * with something else, or just closes the connection. */
static bool may_want_tls(const struct cv_http_call *call)
{
    const bool is_told =
        call->code == CURLE_OK && call->body != NULL && strstr(call->body, "HTTPS server") != NULL;
    return is_scheme(call, "http") && (is_told || was_turned_away(call));
}

/* One that wants to see a certificate closes it, too; libcurl may not pass on what it said. */
static bool may_want_certificate(const struct cv_http_call *call)
{
    return is_scheme(call, "https") && call->http->tls.cert[0] == '\0' && was_turned_away(call);
}

static void tell_done(struct cv_http_call *call)
{
    const bool may_be_tls = may_want_tls(call);
    const char *hint = may_be_tls ? "; if it is a TLS port, add tls=yes"
                       : may_want_certificate(call)
                           ? "; if it wants a certificate, add cert=FILE&key=FILE"
                           : "";
    struct cv_http_result result = {.body = call->body != NULL ? call->body : "",
                                    .body_bytes = call->body_bytes,
                                    .why = call->error[0] != '\0' ? call->error
                                                                  : curl_easy_strerror(call->code)};
    if (call->code == CURLE_OK && !may_be_tls) {
        (void)curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &result.status);
        call->http->has_answer = true;
    }
    void (*done)(void *user, const struct cv_http_result *result) = call->done;
    void *user = call->user;
    char why[CURL_ERROR_SIZE + 64];
    (void)snprintf(why, sizeof why, "%s%s", call->code == CURLE_OK ? "no HTTP" : result.why, hint);
    result.why = why;
    char *body = call->body;
    call->body = NULL;
    call_free(call);
    done(user, &result); /* may end everything */
    free(body);
}

static void tell_all(struct cv_http *http)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left)) != NULL;) {
        struct cv_http_call *call = NULL;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        call->code = message->data.result;
        call->is_done = true;
    }
    /* From the start after each one: the user may have changed the list. */
    for (struct cv_http_call *call = http->calls; call != NULL && !http->is_closing;) {
        if (tell_line(call)) {
            call = http->calls;
        } else if (call->is_done) {
            tell_done(call);
            call = http->calls;
        } else {
            call = call->next;
        }
    }
}

/* ---- libcurl's questions ------------------------------------------------------------------- */

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct cv_http_call *call = user;
    const size_t bytes = size * count;
    if (call->body_bytes + bytes + 1 > call->body_room) {
        const size_t needed = call->body_bytes + bytes + 1;
        const size_t room = 2 * needed <= BODY_BYTES_MAX ? 2 * needed : BODY_BYTES_MAX;
        char *body = needed <= room ? realloc(call->body, room) : NULL;
        if (body == NULL) {
            return 0; /* ends the call with an error */
        }
        call->body = body;
        call->body_room = room;
    }
    memcpy(call->body + call->body_bytes, data, bytes);
    call->body_bytes += bytes;
    call->body[call->body_bytes] = '\0';
    return bytes;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    struct cv_http *http = watch->http;
    CV_ASSERT(http != NULL); /* a closed handle does not call */
    int action = status < 0 ? CURL_CSELECT_ERR : 0;
    action |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
    action |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
    int running;
    (void)curl_multi_socket_action(http->multi, watch->socket, action, &running);
    tell_all(http);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static int on_socket(CURL *curl, curl_socket_t socket, int what, void *user, void *socket_user)
{
    (void)curl;
    struct cv_http *http = user;
    struct watch *watch = socket_user;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            watch->http = NULL;
            (void)curl_multi_assign(http->multi, socket, NULL);
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (watch == NULL) {
        watch = calloc(1, sizeof *watch);
        if (watch == NULL) {
            return -1;
        }
        if (uv_poll_init_socket(http->loop, &watch->poll, socket) != 0) {
            free(watch);
            return -1;
        }
        watch->poll.data = watch;
        watch->http = http;
        watch->socket = socket;
        (void)curl_multi_assign(http->multi, socket, watch);
    }
    const int events = ((what & CURL_POLL_IN) != 0 ? UV_READABLE : 0) |
                       ((what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0);
    return uv_poll_start(&watch->poll, events, on_poll) == 0 ? 0 : -1;
}

static void on_timer(uv_timer_t *timer)
{
    struct cv_http *http = timer->data;
    int running;
    (void)curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    tell_all(http);
}

static int on_timeout(CURLM *multi, long timeout_ms, void *user)
{
    (void)multi;
    struct cv_http *http = user;
    if (http->is_closing) {
        return 0;
    }
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&http->timer);
    } else {
        (void)uv_timer_start(&http->timer, on_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

/* ---- Calls --------------------------------------------------------------------------------- */

struct cv_http *cv__http_new(uv_loop_t *loop, const struct cv_http_tls *tls)
{
    uv_once(&once, init_once);
    struct cv_http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return NULL;
    }
    http->multi = curl_multi_init();
    if (http->multi == NULL) {
        free(http);
        return NULL;
    }
    http->loop = loop;
    http->tls = *tls;
    (void)uv_timer_init(loop, &http->timer); /* cannot fail */
    http->timer.data = http;
    /* These fail for unknown options only. */
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 2 * CONNECTIONS_MAX);
    return http;
}

static void set_options(struct cv_http_call *call, const struct cv_http_post *post)
{
    CURL *curl = call->curl;
    const struct cv_http_tls *tls = &call->http->tls;
    const long timeout_ms = (long)cv__max64(1, post->timeout_ns / NS_PER_MS);
    (void)curl_easy_setopt(curl, CURLOPT_URL, post->url);
    (void)curl_easy_setopt(curl, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, call->error);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* not through what a shell has set */
    (void)curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->request);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, call->headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, 10L);
    (void)curl_easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, 5L);
    (void)curl_easy_setopt(
        curl, post->line != NULL ? CURLOPT_CONNECTTIMEOUT_MS : CURLOPT_TIMEOUT_MS, timeout_ms);
    if (tls->cacert[0] != '\0') {
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, tls->cacert);
    }
    if (tls->cert[0] != '\0') {
        (void)curl_easy_setopt(curl, CURLOPT_SSLCERT, tls->cert);
        (void)curl_easy_setopt(curl, CURLOPT_SSLKEY, tls->key[0] != '\0' ? tls->key : tls->cert);
    }
}

struct cv_http_call *cv__http_post(struct cv_http *http, const struct cv_http_post *post)
{
    CV_ASSERT(!http->is_closing);
    struct cv_http_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NULL;
    }
    call->http = http;
    call->next = http->calls;
    http->calls = call;
    call->line = post->line;
    call->done = post->done;
    call->user = post->user;
    call->request = strdup(post->body);
    call->curl = curl_easy_init();
    call->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (post->authorization != NULL && call->headers != NULL) {
        char header[4096];
        (void)snprintf(header, sizeof header, "Authorization: %s", post->authorization);
        struct curl_slist *more = curl_slist_append(call->headers, header);
        if (more == NULL) {
            curl_slist_free_all(call->headers);
        }
        call->headers = more;
    }
    if (call->request == NULL || call->curl == NULL || call->headers == NULL) {
        call_free(call);
        return NULL;
    }
    set_options(call, post);
    if (curl_multi_add_handle(http->multi, call->curl) != CURLM_OK) {
        call_free(call);
        return NULL;
    }
    return call;
}

void cv__http_cancel(struct cv_http_call *call)
{
    call_free(call);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void cv__http_free(struct cv_http *http)
{
    http->is_closing = true;
    while (http->calls != NULL) {
        call_free(http->calls);
    }
    (void)curl_multi_cleanup(http->multi); /* closes the sockets, and says so through on_socket() */
    uv_close((uv_handle_t *)&http->timer, on_timer_closed);
}
