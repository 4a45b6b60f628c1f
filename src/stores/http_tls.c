/* src/stores/http_tls.c - see http.h: HTTP over TLS, by libcurl. It is a module, conclave-tls.so.
 *
 * libcurl reports which sockets and timers it waits for. Our callbacks are not called from within
 * libcurl, because they could not call it again. */
#include "stores/http_client.h"

#include "core/types.h"
#include "modules/module.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
    struct cv_http_call base;
    struct call *next;
    CURL *curl;
    struct curl_slist *headers;
    char *request;
    char error[CURL_ERROR_SIZE];
    bool is_done;
    CURLcode code;
};

struct secure {
    struct cv_http base;
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct cv_http_tls tls;
    struct call *calls;
    bool has_answer; /* a server has spoken HTTP to us */
    bool is_closing;
};

/* A socket that libcurl waits for. */
struct watch {
    uv_poll_t poll;
    struct secure *http; /* NULL: no longer wanted */
    curl_socket_t socket;
};

static uv_once_t once = UV_ONCE_INIT;
static const struct cv_http_client client;

static void init_once(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* if it fails, so does every call */
}

static struct secure *client_of(const struct call *call)
{
    return (struct secure *)call->base.http;
}

/* ---- What has happened --------------------------------------------------------------------- */

static void call_free(struct call *call)
{
    struct call **at = &client_of(call)->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    (void)curl_multi_remove_handle(client_of(call)->multi,
                                   call->curl); /* fails if it was never added */
    curl_easy_cleanup(call->curl);
    curl_slist_free_all(call->headers);
    free(call->request);
    free(call->base.body.text);
    free(call);
}

/* The connection was closed, and nothing was ever heard from there. */
static bool was_turned_away(const struct call *call)
{
    switch (call->code) {
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_UNRECOVERABLE_POLL:
    case CURLE_WEIRD_SERVER_REPLY:
        return !client_of(call)->has_answer;
    default:
        return false;
    }
}

/* A server that wants to see a certificate closes the connection; libcurl may not pass on what it
 * said. */
static bool may_want_certificate(const struct call *call)
{
    return client_of(call)->tls.cert[0] == '\0' && was_turned_away(call);
}

/* What may help against this failure; "": nothing is known. */
static const char *advice(const struct call *call)
{
    if (may_want_certificate(call)) {
        return "; if it wants a certificate, add cert=FILE&key=FILE";
    }
    if (call->code == CURLE_SSL_CONNECT_ERROR && !client_of(call)->has_answer) {
        return "; if it is a port without TLS, leave tls=yes out";
    }
    return "";
}

static void tell_done(struct call *call)
{
    const bool is_good = call->code == CURLE_OK;
    const char *said = call->error[0] != '\0' ? call->error : curl_easy_strerror(call->code);
    char why[CURL_ERROR_SIZE + 64] = "";
    long status = 0;
    if (is_good) {
        (void)curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
        client_of(call)->has_answer = true;
    } else {
        (void)snprintf(why, sizeof why, "%s%s", said, advice(call));
    }
    struct cv_http_call ended = call->base;
    call->base.body.text = NULL; /* it outlives the call */
    call_free(call);
    cv__http_tell_done(&ended, status, why);
}

static void tell_all(struct secure *http)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left)) != NULL;) {
        struct call *call = NULL;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        call->code = message->data.result;
        call->is_done = true;
    }
    /* From the start after each one: the user may have changed the list. */
    for (struct call *call = http->calls; call != NULL && !http->is_closing;) {
        if (cv__http_tell_line(&call->base)) {
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
    struct call *call = user;
    const size_t bytes = size * count;
    return cv__http_body_add(&call->base.body, data, bytes) ? bytes : 0; /* 0 ends the call */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    struct secure *http = watch->http;
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
    struct secure *http = user;
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
    struct secure *http = timer->data;
    int running;
    (void)curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    tell_all(http);
}

static int on_timeout(CURLM *multi, long timeout_ms, void *user)
{
    (void)multi;
    struct secure *http = user;
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

static struct cv_http *secure_new(uv_loop_t *loop, const struct cv_http_tls *tls)
{
    CV_ASSERT(tls->is_used);
    uv_once(&once, init_once);
    struct secure *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return NULL;
    }
    http->multi = curl_multi_init();
    if (http->multi == NULL) {
        free(http);
        return NULL;
    }
    http->base.client = &client;
    http->loop = loop;
    http->tls = *tls;
    (void)uv_timer_init(loop, &http->timer); /* cannot fail */
    http->timer.data = http;
    /* These fail for unknown options only. */
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)CV_HTTP_CONNECTIONS_MAX);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                            (long)CV_HTTP_CONNECTIONS_MAX);
    (void)curl_multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                            (long)CV_HTTP_CONNECTIONS_TOTAL);
    return &http->base;
}

static void set_options(struct call *call, const struct cv_http_post *post)
{
    CURL *curl = call->curl;
    const struct cv_http_tls *tls = &client_of(call)->tls;
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

static struct cv_http_call *secure_post(struct cv_http *base, const struct cv_http_post *post)
{
    struct secure *http = (struct secure *)base;
    CV_ASSERT(!http->is_closing);
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NULL;
    }
    call->base = (struct cv_http_call){
        .http = base, .line = post->line, .done = post->done, .user = post->user};
    call->next = http->calls;
    http->calls = call;
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
    return &call->base;
}

static void secure_cancel(struct cv_http_call *call)
{
    call_free((struct call *)call);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void secure_free(struct cv_http *base)
{
    struct secure *http = (struct secure *)base;
    http->is_closing = true;
    while (http->calls != NULL) {
        call_free(http->calls);
    }
    (void)curl_multi_cleanup(http->multi); /* closes the sockets, and says so through on_socket() */
    uv_close((uv_handle_t *)&http->timer, on_timer_closed);
}

static const struct cv_http_client client = {
    .new = secure_new, .post = secure_post, .cancel = secure_cancel, .free = secure_free};

CV_MODULE(client)
