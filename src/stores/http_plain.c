/* src/stores/http_plain.c - see http.h: HTTP/1.1 over TCP, without TLS.
 *
 * A call waits for a connection to its server (QUEUED), looks the host up (LOOKUP), connects to its
 * addresses (CONNECTING), waits for the answer (SENT), and reports its end (OVER). If an address
 * does not answer soon, the next one is tried beside it, and the first connection that is made is
 * used. http_answer.c reads the answer.
 *
 * The callbacks of a call are called by tell_all() only, which runs on the loop and last: they may
 * cancel calls, make new ones and end the client. Nothing else here calls the user. */
#include "stores/http_client.h"

#include "core/types.h"
#include "stores/http_answer.h"
#include "stores/http_lookup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define INPUT_BYTES (16u << 10)           /* read at once */
#define ADDRESSES_MAX 16u                 /* of a host; the others are not tried */
#define AUTHORITY_BYTES 300               /* host:port of an endpoint, see etcd_wire.h */
#define NEXT_ADDRESS_NS (200 * NS_PER_MS) /* so long for one address before the next one is tried */
#define IDLE_NS_MAX (100 * NS_PER_S) /* longer, and something on the way may have forgotten it */
#define KEEPALIVE_IDLE_S 10          /* a silent server is asked whether it is still there, ... */
#define KEEPALIVE_PAUSE_S 5 /* ... nine times (the kernel's default) before it counts as gone */
#define NEVER INT64_MAX

enum call_state { QUEUED, LOOKUP, CONNECTING, SENT, OVER };

/* A call and the connection that writes it hold the text. */
struct request {
    uint32_t holders;
    size_t bytes;
    char text[];
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Invariants: `lookup` in LOOKUP only; connections that are being made have this call in CONNECTING
 * only; `connection` in SENT only. */
struct call {
    struct cv_http_call base;
    struct call *next;
    enum call_state state;
    char authority[AUTHORITY_BYTES];
    struct request *request;
    struct cv_lookup *lookup;
    union address addresses[ADDRESSES_MAX];
    uint32_t address_count, address_next;
    int64_t next_address_ns; /* when the next one is tried */
    struct connection *connection;
    int64_t timeout_ns, deadline_ns;
    struct cv_http_answer answer;
    bool is_answered;    /* OVER: there is a whole answer */
    bool is_turned_away; /* OVER: the server answered with nothing, or with something else */
    char why[512];       /* OVER without an answer; before: of the latest address that failed */
};

/* Invariant: in the list of its client until it is closed. */
struct connection {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct plain *http;
    struct connection *next;
    char authority[AUTHORITY_BYTES];
    struct call *call;       /* NULL: idle */
    struct request *request; /* while it is written */
    bool is_made;
    bool has_served; /* at least one call */
    int64_t idle_since_ns;
};

struct plain {
    struct cv_http base;
    uv_loop_t *loop;
    uv_timer_t timer;
    struct call *calls, **calls_end; /* in the order in which they were made */
    struct connection *connections;  /* those used last are first */
    uint32_t handle_count;           /* not closed yet */
    bool has_answer;                 /* a server has spoken HTTP to us */
    bool is_closing;
    char input[INPUT_BYTES];
};

static void on_timer(uv_timer_t *timer);
static void on_connected(uv_connect_t *connecting, int status);
static void start_queued(struct plain *http);

static int64_t now_ns(void)
{
    return (int64_t)uv_hrtime();
}

static struct plain *client_of(const struct call *call)
{
    return (struct plain *)call->base.http;
}

static void request_drop(struct request *request)
{
    if (request != NULL && --request->holders == 0) {
        free(request);
    }
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void on_handle_closed(struct plain *http)
{
    CV_ASSERT(http->handle_count > 0);
    http->handle_count--;
    if (http->handle_count == 0) {
        CV_ASSERT(http->is_closing);
        free(http);
    }
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    request_drop(connection->request); /* the write was reported before, if there was one */
    on_handle_closed(connection->http);
    free(connection);
}

static void connection_unlink(struct connection *connection)
{
    struct connection **at = &connection->http->connections;
    while (*at != connection) {
        at = &(*at)->next;
    }
    *at = connection->next;
}

static void connection_close(struct connection *connection)
{
    connection_unlink(connection);
    if (connection->call != NULL && connection->call->connection == connection) {
        connection->call->connection = NULL;
    }
    connection->call = NULL;
    uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
}

/* A connection of this call; NULL: it has none. */
static struct connection *connection_of(const struct call *call)
{
    struct connection *c = client_of(call)->connections;
    while (c != NULL && c->call != call) {
        c = c->next;
    }
    return c;
}

static void close_all_of(const struct call *call, const struct connection *but)
{
    for (struct connection *c = client_of(call)->connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->call == call && c != but) {
            connection_close(c);
        }
    }
}

/* ---- How a call ends ------------------------------------------------------------------------- */

static void call_detach(struct call *call)
{
    if (call->lookup != NULL) {
        cv__lookup_cancel(call->lookup);
        call->lookup = NULL;
    }
    close_all_of(call, NULL);
    CV_ASSERT(call->connection == NULL);
}

static void call_free(struct call *call)
{
    struct plain *http = client_of(call);
    struct call **at = &http->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    if (http->calls_end == &call->next) {
        http->calls_end = at;
    }
    call_detach(call);
    request_drop(call->request);
    free(call->base.body.text);
    free(call);
}

/* Its connections are gone or idle; tell_all() tells the rest soon. */
static void call_over(struct call *call)
{
    CV_ASSERT(call->state != OVER);
    CV_ASSERT(connection_of(call) == NULL);
    call->state = OVER;
    (void)uv_timer_start(&client_of(call)->timer, on_timer, 0, 0);
}

static void call_fail(struct call *call, const char *format, ...) CV_PRINTF(2, 3);
static void call_fail(struct call *call, const char *format, ...)
{
    char why[sizeof call->why]; /* the old text may be one of the arguments */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    memcpy(call->why, why, sizeof why);
    call_detach(call);
    call_over(call);
}

/* A server that wants TLS and gets HTTP says so in plain text (those written in Go do), answers
 * with something else, or just closes the connection. */
static void say_how_it_failed(const struct call *call, char *ret_why, size_t why_bytes)
{
    if (call->is_answered) {
        (void)snprintf(ret_why, why_bytes, "%s expects TLS; add tls=yes", call->authority);
    } else {
        const bool may_want_tls = call->is_turned_away && !client_of(call)->has_answer;
        (void)snprintf(ret_why, why_bytes, "%s%s", call->why,
                       may_want_tls ? "; if it is a TLS port, add tls=yes" : "");
    }
}

static void tell_done(struct call *call)
{
    char why[sizeof call->why + 64] = "";
    const bool is_good = call->is_answered && !cv__http_wants_tls(&call->base.body);
    if (is_good) {
        client_of(call)->has_answer = true;
    } else {
        say_how_it_failed(call, why, sizeof why);
    }
    const long status = is_good ? call->answer.status : 0;
    struct cv_http_call ended = call->base;
    call->base.body.text = NULL; /* it outlives the call */
    call_free(call);
    cv__http_tell_done(&ended, status, why);
}

static void timer_set(struct plain *http);

static void tell_all(struct plain *http)
{
    /* From the start after each one: the user may have changed the list. */
    for (struct call *call = http->calls; call != NULL && !http->is_closing;) {
        if (cv__http_tell_line(&call->base)) {
            call = http->calls;
        } else if (call->state == OVER) {
            tell_done(call);
            call = http->calls;
        } else {
            call = call->next;
        }
    }
    if (!http->is_closing) {
        start_queued(http);
        timer_set(http);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The answer is complete: the connection is kept if it can serve another call. */
static void answer_done(struct connection *connection, bool is_clean)
{
    struct call *call = connection->call;
    const bool is_kept = is_clean && !call->answer.is_last && connection->request == NULL;
    call->is_answered = true;
    if (is_kept) {
        struct plain *http = connection->http;
        connection->call = NULL;
        connection->has_served = true;
        connection->idle_since_ns = now_ns();
        connection_unlink(connection);
        connection->next = http->connections;
        http->connections = connection;
        call->connection = NULL;
    } else {
        connection_close(connection);
    }
    call_over(call);
}

static void take_data(struct connection *connection, const char *data, size_t bytes)
{
    struct call *call = connection->call;
    struct cv_http_answer *answer = &call->answer;
    size_t at = 0;
    while (at < bytes && !cv__http_answer_is_over(answer)) {
        const char *body;
        size_t body_bytes;
        at += cv__http_answer_read(answer, data + at, bytes - at, &body, &body_bytes);
        if (!cv__http_body_add(&call->base.body, body, body_bytes)) {
            call_fail(call, "the answer of %s is too long", call->authority);
            return;
        }
    }
    if (answer->state == CV_HTTP_DONE) {
        answer_done(connection, /* is_clean= */ at == bytes);
    } else if (answer->state == CV_HTTP_FAILED) {
        call->is_turned_away = true;
        call_fail(call, "%s %s", call->authority, answer->why);
    }
}

/* A server may close a kept connection at any time, also just before it gets our request. Then it
 * has closed the other idle ones, too. */
static void call_again(struct call *call)
{
    struct plain *http = client_of(call);
    call_detach(call);
    for (struct connection *c = http->connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->call == NULL && strcmp(c->authority, call->authority) == 0) {
            connection_close(c);
        }
    }
    call->state = QUEUED;
    if (call->base.line != NULL) {
        call->deadline_ns = now_ns() + call->timeout_ns;
    }
}

/* The connection has ended, or cannot be used any more. */
static void connection_lost(struct connection *connection, int status)
{
    struct call *call = connection->call;
    if (call == NULL) {
        connection_close(connection);
    } else if (!call->answer.has_begun && connection->has_served) {
        call_again(call);
    } else if (status != UV_EOF) {
        call->is_turned_away = true;
        call_fail(call, "the connection to %s has failed: %s", call->authority,
                  uv_strerror(status));
    } else {
        cv__http_answer_end(&call->answer);
        if (call->answer.state == CV_HTTP_DONE) {
            answer_done(connection, /* is_clean= */ false);
        } else {
            call->is_turned_away = true;
            call_fail(call, "%s %s", call->authority, call->answer.why);
        }
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    (void)suggested;
    struct connection *connection = handle->data;
    *ret_buffer = uv_buf_init(connection->http->input, INPUT_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    struct plain *http = connection->http;
    CV_ASSERT(!http->is_closing); /* a closed handle does not call */
    if (bytes == 0) {
        return; /* nothing to read after all */
    }
    if (bytes < 0) {
        connection_lost(connection, (int)bytes);
    } else if (connection->call == NULL) {
        connection_close(connection); /* nothing was asked */
    } else {
        take_data(connection, buffer->base, (size_t)bytes);
    }
    tell_all(http);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void on_written(uv_write_t *writing, int status)
{
    struct connection *connection = writing->data;
    struct plain *http = connection->http;
    request_drop(connection->request);
    connection->request = NULL;
    if (uv_is_closing((const uv_handle_t *)&connection->tcp) == 0 && status < 0) {
        connection_lost(connection, status);
        tell_all(http);
    }
}

static void call_send(struct call *call, struct connection *connection)
{
    CV_ASSERT(connection->is_made);
    CV_ASSERT(connection->request == NULL);
    connection->call = call;
    connection->request = call->request;
    connection->request->holders++;
    call->connection = connection;
    call->state = SENT;
    call->answer = (struct cv_http_answer){0};
    if (call->base.line != NULL) {
        call->deadline_ns = NEVER; /* a stream lasts */
    }
    connection->writing.data = connection;
    const uv_buf_t text = uv_buf_init(call->request->text, (unsigned)call->request->bytes);
    const int failed = uv_write(&connection->writing, (uv_stream_t *)&connection->tcp, &text, 1,
                                on_written); /* what does not fit now is written later */
    if (failed != 0) {
        call_fail(call, "cannot write to %s: %s", call->authority, uv_strerror(failed));
    }
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Sets what can be done without; it works if one of these fails. */
static void socket_set(const uv_tcp_t *tcp)
{
    const int on = 1, idle_s = KEEPALIVE_IDLE_S, pause_s = KEEPALIVE_PAUSE_S;
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof pause_s);
    }
}

/* 0, or an error of libuv. */
static int connect_to(struct call *call, const union address *address)
{
    struct plain *http = client_of(call);
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return UV_ENOMEM;
    }
    const int failed = uv_tcp_init_ex(http->loop, &connection->tcp, address->any.sa_family);
    if (failed != 0) { /* libuv has not kept it */
        free(connection);
        return failed;
    }
    http->handle_count++;
    connection->tcp.data = connection;
    connection->connecting.data = connection;
    connection->http = http;
    connection->call = call;
    memcpy(connection->authority, call->authority, sizeof connection->authority);
    connection->next = http->connections;
    http->connections = connection;
    socket_set(&connection->tcp);
    const int refused =
        uv_tcp_connect(&connection->connecting, &connection->tcp, &address->any, on_connected);
    if (refused != 0) {
        connection_close(connection);
    }
    return refused;
}

static void note_refused(struct call *call, int status)
{
    (void)snprintf(call->why, sizeof call->why, "cannot connect to %s: %s", call->authority,
                   uv_strerror(status));
}

/* Begins with the next address that can be tried; the call has failed if none is left and none is
 * under way. */
static void connect_next(struct call *call)
{
    CV_ASSERT(call->state == CONNECTING);
    while (call->address_next < call->address_count) {
        const int failed = connect_to(call, &call->addresses[call->address_next++]);
        if (failed == 0) {
            call->next_address_ns = now_ns() + NEXT_ADDRESS_NS;
            return;
        }
        note_refused(call, failed);
    }
    if (connection_of(call) == NULL) {
        call_fail(call, "%s", call->why);
    }
}

static void on_connected(uv_connect_t *connecting, int status)
{
    struct connection *connection = connecting->data;
    struct plain *http = connection->http;
    struct call *call = connection->call;
    if (uv_is_closing((const uv_handle_t *)&connection->tcp) != 0) {
        return; /* another one was faster, or nobody wants it any more */
    }
    CV_ASSERT(call != NULL && call->state == CONNECTING);
    const int failed =
        status != 0 ? status : uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
    if (failed != 0) {
        note_refused(call, failed);
        connection_close(connection);
        connect_next(call);
    } else {
        connection->is_made = true;
        close_all_of(call, connection);
        call_send(call, connection);
    }
    start_queued(http); /* the others made room */
    timer_set(http);
}

static void take_addresses(struct call *call, const struct addrinfo *found)
{
    call->address_count = call->address_next = 0;
    for (; found != NULL && call->address_count < ADDRESSES_MAX; found = found->ai_next) {
        const bool is_known = found->ai_family == AF_INET || found->ai_family == AF_INET6;
        if (is_known && found->ai_addrlen <= sizeof call->addresses[0]) {
            memcpy(&call->addresses[call->address_count++], found->ai_addr, found->ai_addrlen);
        }
    }
    call->state = CONNECTING;
    (void)snprintf(call->why, sizeof call->why, "cannot connect to %s: it has no IP address",
                   call->authority);
    connect_next(call);
}

static void on_lookup(void *user, const struct addrinfo *found, const char *why)
{
    struct call *call = user;
    struct plain *http = client_of(call);
    CV_ASSERT(call->state == LOOKUP);
    call->lookup = NULL;
    if (found == NULL) {
        call_fail(call, "cannot look up the host name of %s: %s", call->authority, why);
    } else {
        take_addresses(call, found);
    }
    timer_set(http);
}

/* Splits host:port or [host]:port. */
static void split_authority(const char *authority, char ret_host[AUTHORITY_BYTES],
                            const char **ret_port)
{
    const char *colon = strrchr(authority, ':');
    CV_ASSERT(colon != NULL); /* the wire writes it so */
    const bool is_v6 = authority[0] == '[';
    const char *host = authority + (is_v6 ? 1 : 0);
    const size_t bytes = (size_t)(colon - host) - (is_v6 ? 1 : 0);
    CV_ASSERT(bytes < AUTHORITY_BYTES);
    memcpy(ret_host, host, bytes);
    ret_host[bytes] = '\0';
    *ret_port = colon + 1;
}

static void call_connect(struct call *call)
{
    char host[AUTHORITY_BYTES];
    const char *port;
    struct addrinfo *found = NULL;
    const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    split_authority(call->authority, host, &port);
    if (getaddrinfo(host, port, &numeric, &found) == 0) { /* does not wait for anybody */
        take_addresses(call, found);
        freeaddrinfo(found);
        return;
    }
    struct cv_errtext err;
    call->state = LOOKUP;
    call->lookup = cv__lookup_start(client_of(call)->loop, host, port, on_lookup, call, &err);
    if (call->lookup == NULL) {
        call_fail(call, "cannot look up the host name of %s: %s", call->authority, err.text);
    }
}

/* ---- Calls that wait for a connection -------------------------------------------------------- */

/* Nothing may arrive on an idle connection: what is there already is not the answer to the next
 * request. */
static bool is_silent(const struct connection *connection)
{
    uv_os_fd_t fd;
    char byte;
    return uv_fileno((const uv_handle_t *)&connection->tcp, &fd) == 0 &&
           recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* An idle one to this server, or with NULL to any. Those that were idle for too long, or on which
 * something has arrived, are closed. */
static struct connection *find_idle(struct plain *http, const char *authority)
{
    const int64_t now = now_ns();
    for (struct connection *c = http->connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->call == NULL && (now - c->idle_since_ns > IDLE_NS_MAX || !is_silent(c))) {
            connection_close(c);
        } else if (c->call == NULL && (authority == NULL || strcmp(c->authority, authority) == 0)) {
            return c;
        }
    }
    return NULL;
}

/* Connections to this server, or with NULL all, and calls that will have one. */
static uint32_t count_of(const struct plain *http, const char *authority)
{
    uint32_t count = 0;
    for (const struct connection *c = http->connections; c != NULL; c = c->next) {
        count += authority == NULL || strcmp(c->authority, authority) == 0 ? 1 : 0;
    }
    for (const struct call *call = http->calls; call != NULL; call = call->next) {
        const bool counts = authority == NULL || strcmp(call->authority, authority) == 0;
        count += counts && call->state == LOOKUP ? 1 : 0;
    }
    return count;
}

static void start_queued(struct plain *http)
{
    for (struct call *call = http->calls; call != NULL; call = call->next) {
        if (call->state != QUEUED) {
            continue;
        }
        struct connection *idle = find_idle(http, call->authority);
        if (idle != NULL) {
            call_send(call, idle);
            continue;
        }
        if (count_of(http, NULL) >= CV_HTTP_CONNECTIONS_TOTAL &&
            (idle = find_idle(http, NULL)) != NULL) {
            connection_close(idle); /* to a server that is not asked now */
        }
        if (count_of(http, call->authority) < CV_HTTP_CONNECTIONS_MAX &&
            count_of(http, NULL) < CV_HTTP_CONNECTIONS_TOTAL) {
            call_connect(call);
        }
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static bool waits_for_next_address(const struct call *call)
{
    return call->state == CONNECTING && call->address_next < call->address_count;
}

static void timer_set(struct plain *http)
{
    int64_t at_ns = NEVER;
    for (const struct call *call = http->calls; call != NULL; call = call->next) {
        at_ns = cv__min64(at_ns, call->state == OVER ? 0 : call->deadline_ns);
        at_ns = waits_for_next_address(call) ? cv__min64(at_ns, call->next_address_ns) : at_ns;
    }
    if (at_ns == NEVER) {
        (void)uv_timer_stop(&http->timer);
        return;
    }
    const int64_t left_ns = cv__max64(0, at_ns - now_ns());
    (void)uv_timer_start(&http->timer, on_timer, (uint64_t)((left_ns + NS_PER_MS - 1) / NS_PER_MS),
                         0);
}

static void call_late(struct call *call)
{
    const long long ms = (long long)(call->timeout_ns / NS_PER_MS);
    switch (call->state) {
    case SENT:
        call_fail(call, "%s has not answered within %lld ms", call->authority, ms);
        break;
    case LOOKUP:
        call_fail(call, "cannot look up the host name of %s within %lld ms", call->authority, ms);
        break;
    case CONNECTING:
        call_fail(call, "cannot connect to %s within %lld ms", call->authority, ms);
        break;
    case QUEUED:
        call_fail(call, "no connection to %s was free within %lld ms", call->authority, ms);
        break;
    case OVER:
        break;
    }
}

/* libuv's time may be a little behind ours: what is not late yet is looked at again. */
static void on_timer(uv_timer_t *timer)
{
    struct plain *http = timer->data;
    const int64_t now = now_ns();
    for (struct call *call = http->calls; call != NULL; call = call->next) {
        if (now >= call->deadline_ns) {
            call_late(call);
        } else if (waits_for_next_address(call) && now >= call->next_address_ns) {
            connect_next(call);
        }
    }
    tell_all(http);
}

/* ---- The client ------------------------------------------------------------------------------ */

static struct cv_http *plain_new(uv_loop_t *loop, const struct cv_http_tls *tls)
{
    CV_ASSERT(!tls->is_used);
    struct plain *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return NULL;
    }
    http->base.client = &cv__http_plain;
    http->loop = loop;
    http->calls_end = &http->calls;
    (void)uv_timer_init(loop, &http->timer); /* cannot fail */
    http->timer.data = http;
    http->handle_count = 1;
    return &http->base;
}

static struct request *request_new(const struct cv_http_post *post, const char *authority,
                                   const char *path)
{
    static const char format[] = "POST %s HTTP/1.1\r\n"
                                 "Host: %s\r\n"
                                 "Accept: */*\r\n"
                                 "Content-Type: application/json\r\n"
                                 "Content-Length: %zu\r\n"
                                 "%s%s%s\r\n"
                                 "%s";
    const char *authorization = post->authorization != NULL ? post->authorization : "";
    const char *name = post->authorization != NULL ? "Authorization: " : "";
    const char *end = post->authorization != NULL ? "\r\n" : "";
    const size_t body_bytes = strlen(post->body);
    const int bytes = snprintf(NULL, 0, format, path, authority, body_bytes, name, authorization,
                               end, post->body);
    CV_ASSERT(bytes > 0);
    struct request *request = malloc(sizeof *request + (size_t)bytes + 1);
    if (request != NULL) {
        request->holders = 1;
        request->bytes = (size_t)bytes;
        (void)snprintf(request->text, (size_t)bytes + 1, format, path, authority, body_bytes, name,
                       authorization, end, post->body);
    }
    return request;
}

static struct cv_http_call *plain_post(struct cv_http *base, const struct cv_http_post *post)
{
    static const char scheme[] = "http://";
    struct plain *http = (struct plain *)base;
    CV_ASSERT(!http->is_closing);
    CV_ASSERT(strncmp(post->url, scheme, strlen(scheme)) == 0);
    const char *authority = post->url + strlen(scheme);
    const size_t authority_bytes = strcspn(authority, "/");
    CV_ASSERT(authority_bytes < AUTHORITY_BYTES);
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NULL;
    }
    call->base = (struct cv_http_call){
        .http = base, .line = post->line, .done = post->done, .user = post->user};
    memcpy(call->authority, authority, authority_bytes);
    call->request = request_new(post, call->authority, authority + authority_bytes);
    if (call->request == NULL) {
        free(call);
        return NULL;
    }
    call->timeout_ns = cv__max64(NS_PER_MS, post->timeout_ns);
    call->deadline_ns = now_ns() + call->timeout_ns;
    *http->calls_end = call;
    http->calls_end = &call->next;
    start_queued(http);
    timer_set(http);
    return &call->base;
}

static void plain_cancel(struct cv_http_call *base)
{
    struct plain *http = (struct plain *)base->http;
    call_free((struct call *)base);
    start_queued(http); /* its connection was in the way of others, perhaps */
    timer_set(http);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void plain_free(struct cv_http *base)
{
    struct plain *http = (struct plain *)base;
    CV_ASSERT(!http->is_closing);
    http->is_closing = true;
    while (http->calls != NULL) {
        call_free(http->calls);
    }
    while (http->connections != NULL) {
        connection_close(http->connections);
    }
    uv_close((uv_handle_t *)&http->timer, on_timer_closed);
}

const struct cv_http_client cv__http_plain = {
    .new = plain_new, .post = plain_post, .cancel = plain_cancel, .free = plain_free};
