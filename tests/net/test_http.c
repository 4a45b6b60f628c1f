/* tests/net/test_http.c - HTTP without TLS, beside a server that does what the test says.
 *
 * The server is on the test's own loop, on a free port of the loopback interface. It answers the
 * requests, in the order of their arrival, with the texts of a script. getaddrinfo(3) is replaced
 * for names that end with ".test", so that no name server is asked. */
#include "stores/http.h"
#include "support/support.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CALLS_MAX 40
#define LIMIT_MS 60000 /* only a failure takes so long */

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

/* ---- The server ------------------------------------------------------------------------------ */

struct turn {
    const char *answer; /* NULL: none */
    bool closes;        /* after the answer */
    bool is_in_bytes;   /* each byte is written alone */
};

struct peer {
    uv_tcp_t tcp;
    struct world *world;
    struct peer *next;
    char *text; /* of the present request */
    size_t bytes, room;
};

struct call {
    struct world *world;
    struct cv_http_call *http;
    uint32_t done_count, line_count;
    long status;
    char body[64], why[600], lines[256];
    bool frees, cancels_at_line;
};

struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    uv_tcp_t listener;
    int port;
    struct peer *peers;
    const struct turn *script;
    uint32_t turn_count;
    uint32_t connection_count, request_count, open_count, open_max;
    char request[1024]; /* the beginning of the latest one */
    size_t request_bytes;
    struct cv_http *http;
    struct call calls[CALLS_MAX];
};

static void on_peer_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    struct peer **at = &peer->world->peers;
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    free(peer->text);
    free(peer);
}

static void peer_close(struct peer *peer)
{
    if (uv_is_closing((uv_handle_t *)&peer->tcp) == 0) {
        peer->world->open_count--;
        uv_close((uv_handle_t *)&peer->tcp, on_peer_closed);
    }
}

struct answer {
    uv_write_t writing;
    struct peer *peer; /* NULL: it stays open */
};

static void on_answered(uv_write_t *writing, int status)
{
    (void)status;
    struct answer *answer = writing->data;
    if (answer->peer != NULL) {
        peer_close(answer->peer);
    }
    free(answer);
}

static void peer_say(struct peer *peer, const char *text, size_t bytes, bool closes)
{
    struct answer *answer = calloc(1, sizeof *answer);
    assert_non_null(answer);
    answer->writing.data = answer;
    answer->peer = closes ? peer : NULL;
    const uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)text, (unsigned)bytes);
    assert_int_equal(uv_write(&answer->writing, (uv_stream_t *)&peer->tcp, &buffer, 1, on_answered),
                     0);
}

static void peer_answer(struct peer *peer)
{
    struct world *w = peer->world;
    assert_true(w->request_count < w->turn_count);
    const struct turn *turn = &w->script[w->request_count++];
    const size_t bytes = turn->answer != NULL ? strlen(turn->answer) : 0;
    for (size_t i = 0; turn->is_in_bytes && i + 1 < bytes; i++) {
        peer_say(peer, turn->answer + i, 1, false);
    }
    if (bytes > 0 && !turn->is_in_bytes) {
        peer_say(peer, turn->answer, bytes, turn->closes);
    } else if (bytes > 0) {
        peer_say(peer, turn->answer + bytes - 1, 1, turn->closes);
    } else if (turn->closes) {
        peer_close(peer);
    }
}

/* How long the request is that begins here; 0: not known yet. */
static size_t request_bytes(const struct peer *peer)
{
    const char *end = strstr(peer->text, "\r\n\r\n");
    const char *length = strstr(peer->text, "Content-Length: ");
    return end != NULL && length != NULL
               ? (size_t)(end + 4 - peer->text) + strtoul(length + 16, NULL, 10)
               : 0;
}

static void on_peer_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct peer *peer = handle->data;
    if (peer->room - peer->bytes < suggested + 1) {
        peer->room = 2 * (peer->bytes + suggested + 1);
        peer->text = realloc(peer->text, peer->room);
        assert_non_null(peer->text);
    }
    *ret_buffer = uv_buf_init(peer->text + peer->bytes, (unsigned)suggested);
}

static void on_peer_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer)
{
    (void)buffer;
    struct peer *peer = stream->data;
    if (bytes < 0) {
        peer_close(peer);
        return;
    }
    peer->bytes += (size_t)bytes;
    peer->text[peer->bytes] = '\0';
    const size_t whole = request_bytes(peer);
    if (whole != 0 && peer->bytes >= whole) {
        struct world *w = peer->world;
        assert_int_equal(peer->bytes, whole); /* nothing is asked before the answer */
        w->request_bytes = whole;
        (void)snprintf(w->request, sizeof w->request, "%s", peer->text);
        peer->bytes = 0;
        peer_answer(peer);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    assert_int_equal(status, 0);
    struct world *w = listener->data;
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    peer->world = w;
    assert_int_equal(uv_tcp_init(&w->loop, &peer->tcp), 0);
    peer->tcp.data = peer;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&peer->tcp), 0);
    peer->next = w->peers;
    w->peers = peer;
    w->connection_count++;
    w->open_count++;
    w->open_max = w->open_max > w->open_count ? w->open_max : w->open_count;
    assert_int_equal(uv_read_start((uv_stream_t *)&peer->tcp, on_peer_alloc, on_peer_read), 0);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("waited %d ms in vain", LIMIT_MS);
}

/* On ::1, or on 127.0.0.1. NULL: this machine has no such address. */
static struct world *world_new_on(bool is_v6, const struct turn *script, uint32_t turn_count)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(uv_timer_init(&w->loop, &w->limit), 0);
    assert_int_equal(uv_timer_start(&w->limit, on_limit, LIMIT_MS, 0), 0);
    assert_int_equal(uv_tcp_init(&w->loop, &w->listener), 0);
    w->listener.data = w;
    w->script = script;
    w->turn_count = turn_count;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr *at = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    if (uv_tcp_bind(&w->listener, at, 0) != 0 ||
        uv_listen((uv_stream_t *)&w->listener, 64, on_connection) != 0) {
        uv_close((uv_handle_t *)&w->listener, NULL);
        uv_close((uv_handle_t *)&w->limit, NULL);
        (void)uv_run(&w->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&w->loop), 0);
        free(w);
        return NULL;
    }
    struct sockaddr_storage here;
    int bytes = sizeof here;
    assert_int_equal(uv_tcp_getsockname(&w->listener, (struct sockaddr *)&here, &bytes), 0);
    w->port = ntohs(is_v6 ? ((struct sockaddr_in6 *)&here)->sin6_port
                          : ((struct sockaddr_in *)&here)->sin_port);
    const struct cv_http_tls none = {0};
    struct cv_errtext err;
    assert_int_equal(cv__http_new(&w->loop, &none, &w->http, &err), CV_OK);
    return w;
}

static struct world *world_new(const struct turn *script, uint32_t turn_count)
{
    struct world *w = world_new_on(false, script, turn_count);
    assert_non_null(w);
    return w;
}

/* Everything is closed: nothing is left on the loop, and sanitizers see what was not freed. */
static void world_free(struct world *w)
{
    if (w->http != NULL) {
        cv__http_free(w->http);
    }
    for (struct peer *peer = w->peers; peer != NULL; peer = peer->next) {
        peer_close(peer);
    }
    uv_close((uv_handle_t *)&w->listener, NULL);
    uv_close((uv_handle_t *)&w->limit, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    free(w);
}

static void on_line(void *user, const char *line)
{
    struct call *call = user;
    call->line_count++;
    const size_t length = strlen(call->lines);
    (void)snprintf(call->lines + length, sizeof call->lines - length, "%s|", line);
    if (call->cancels_at_line) {
        cv__http_cancel(call->http);
    }
}

static void on_done(void *user, const struct cv_http_result *result)
{
    struct call *call = user;
    call->done_count++;
    call->status = result->status;
    (void)snprintf(call->body, sizeof call->body, "%.*s", (int)result->body_bytes, result->body);
    (void)snprintf(call->why, sizeof call->why, "%s", result->why);
    if (call->frees) {
        cv__http_free(call->world->http);
        call->world->http = NULL;
    }
}

struct asked {
    const char *host; /* NULL: 127.0.0.1 */
    int port;         /* 0: the server's */
    const char *body, *authorization;
    int64_t timeout_ns;
    bool is_stream;
};

static struct call *post(struct world *w, uint32_t index, struct asked asked)
{
    struct call *call = &w->calls[index];
    char url[256];
    *call =
        (struct call){.world = w, .frees = call->frees, .cancels_at_line = call->cancels_at_line};
    (void)snprintf(url, sizeof url, "http://%s:%d/v3/x",
                   asked.host != NULL ? asked.host : "127.0.0.1",
                   asked.port != 0 ? asked.port : w->port);
    const struct cv_http_post it = {.url = url,
                                    .authorization = asked.authorization,
                                    .body = asked.body != NULL ? asked.body : "{}",
                                    .timeout_ns = asked.timeout_ns != 0 ? asked.timeout_ns
                                                                        : 2 * LIMIT_MS * NS_PER_MS,
                                    .line = asked.is_stream ? on_line : NULL,
                                    .done = on_done,
                                    .user = call};
    call->http = cv__http_post(w->http, &it);
    assert_non_null(call->http);
    assert_int_equal(call->done_count, 0); /* never from within */
    return call;
}

static void await_done(struct world *w, const struct call *call)
{
    while (call->done_count == 0) {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_int_equal(call->done_count, 1);
}

/* Posts, waits, and returns how it ended. */
static const struct call *ask(struct world *w, struct asked asked)
{
    const struct call *call = post(w, 0, asked);
    await_done(w, call);
    return call;
}

static void assert_says(const struct call *call, const char *says)
{
    assert_int_equal(call->status, 0);
    if (strstr(call->why, says) == NULL) {
        fail_msg("it failed because: %s", call->why);
    }
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int port_of_name[2]; /* the two addresses of any name that ends with ".test" */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_found);
void __real_freeaddrinfo(struct addrinfo *found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_found);
void __wrap_freeaddrinfo(struct addrinfo *found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **ret_found)
{
    if (strstr(host, ".test") == NULL || (hints->ai_flags & AI_NUMERICHOST) != 0) {
        return __real_getaddrinfo(host, port, hints, ret_found);
    }
    *ret_found = NULL;
    for (size_t i = 2; i-- > 0;) {
        struct addrinfo *found = calloc(1, sizeof *found);
        struct sockaddr_in *at = calloc(1, sizeof *at);
        assert_true(found != NULL && at != NULL);
        *at = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port_of_name[i]),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        *found = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_addrlen = sizeof *at,
                                   .ai_addr = (struct sockaddr *)at,
                                   .ai_canonname = (char *)&port_of_name, /* it is ours */
                                   .ai_next = *ret_found};
        *ret_found = found;
    }
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    if (found->ai_canonname != (char *)&port_of_name) {
        __real_freeaddrinfo(found);
        return;
    }
    for (struct addrinfo *next; found != NULL; found = next) {
        next = found->ai_next;
        free(found->ai_addr);
        free(found);
    }
}

/* A port where nobody is. */
static int port_closed(void)
{
    struct world *gone = world_new(NULL, 0);
    const int port = gone->port;
    world_free(gone);
    return port;
}

/* A port where nobody answers: one connection waits to be accepted, and there is no room for
 * another. */
static int port_silent(int ret_fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret_fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(ret_fds[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(ret_fds[0], 0), 0);
    assert_int_equal(getsockname(ret_fds[0], (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(connect(ret_fds[1], (struct sockaddr *)&at, sizeof at), 0);
    return ntohs(at.sin_port);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void calls_one_after_the_other_share_a_connection(void **unused)
{
    (void)unused;
    static const struct turn script[] = {
        {.answer = OK},
        {.answer =
             "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n"
             "3\r\nbye\r\n0\r\n\r\n",
         .is_in_bytes = true},
        {.answer = OK}};
    struct world *w = world_new(script, 3);
    const struct call *call =
        ask(w, (struct asked){.body = "{\"a\":1}", .authorization = "secret"});
    assert_int_equal(call->status, 200);
    assert_string_equal(call->body, "hi");
    assert_non_null(strstr(w->request, "POST /v3/x HTTP/1.1\r\n"));
    assert_non_null(strstr(w->request, "\r\nHost: 127.0.0.1:"));
    assert_non_null(strstr(w->request, "\r\nAuthorization: secret\r\n"));
    assert_non_null(strstr(w->request, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(w->request, "\r\n\r\n{\"a\":1}"));
    call = ask(w, (struct asked){0});
    assert_null(strstr(w->request, "Authorization"));
    assert_int_equal(call->status, 503);
    assert_string_equal(call->body, "bye");
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    assert_int_equal(w->connection_count, 1);
    world_free(w);
}

static void a_connection_that_is_to_be_closed_serves_nobody_else(void **unused)
{
    (void)unused;
    static const struct turn script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"},
        {.answer = OK "and more than was asked for"},
        {.answer = "HTTP/1.0 200 OK\r\n\r\nuntil the end", .closes = true},
        {.answer = OK}};
    struct world *w = world_new(script, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ask(w, (struct asked){0})->status, 200);
        assert_int_equal(w->connection_count, i + 1);
    }
    world_free(w);
}

/* The bytes are there before the next call begins, and the loop has not seen them yet. */
static void bytes_that_nobody_asked_for_answer_nothing(void **unused)
{
    (void)unused;
    static const struct turn script[] = {{.answer = OK}, {.answer = OK}};
    static const char unasked[] = "HTTP/1.1 408 Too late\r\nContent-Length: 0\r\n\r\n";
    struct world *w = world_new(script, 2);
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    uv_os_fd_t fd;
    assert_int_equal(uv_fileno((const uv_handle_t *)&w->peers->tcp, &fd), 0);
    assert_int_equal(write(fd, unasked, sizeof unasked - 1), sizeof unasked - 1);
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    assert_int_equal(w->connection_count, 2);
    world_free(w);
}

static void many_calls_at_once_have_eight_connections(void **unused)
{
    (void)unused;
    struct turn script[CALLS_MAX];
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        script[i] = (struct turn){.answer = OK};
    }
    struct world *w = world_new(script, CALLS_MAX);
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        (void)post(w, i, (struct asked){0});
    }
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        await_done(w, &w->calls[i]);
        assert_int_equal(w->calls[i].status, 200);
    }
    assert_in_range(w->open_max, 1, 8);
    assert_int_equal(w->connection_count, w->open_max); /* all of them were kept */
    world_free(w);
}

/* Nobody has heard of the request, or somebody has: it is one that may be repeated. */
static void a_kept_connection_that_was_closed_is_replaced(void **unused)
{
    (void)unused;
    static const struct turn script[] = {
        {.answer = OK}, {.answer = NULL, .closes = true}, {.answer = OK}};
    struct world *w = world_new(script, 3);
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    assert_int_equal(w->connection_count, 2);
    assert_int_equal(w->request_count, 3);
    world_free(w);
}

static void a_new_connection_that_is_closed_is_a_failure(void **unused)
{
    (void)unused;
    static const struct turn script[] = {
        {.answer = NULL, .closes = true},
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", .closes = true},
        {.answer = "SSH-2.0\r\n"},
        {.answer =
             "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
         .closes = true},
        {.answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"},
        {.answer = NULL, .closes = true}};
    struct world *w = world_new(script, 6);
    assert_says(ask(w, (struct asked){0}), "closed the connection without an answer; if it is a TLS"
                                           " port, add tls=yes");
    assert_says(ask(w, (struct asked){0}), "closed the connection in the middle of an answer");
    assert_says(ask(w, (struct asked){0}), "does not speak HTTP; if it is a TLS port, add tls=yes");
    assert_says(ask(w, (struct asked){0}), "expects TLS; add tls=yes");
    assert_int_equal(ask(w, (struct asked){0})->status, 200);
    const struct call *call = ask(w, (struct asked){0});
    assert_says(call, "closed the connection without an answer");
    assert_null(strstr(call->why, "tls=yes")); /* it has spoken HTTP before */
    world_free(w);
}

static void streams_report_each_line(void **unused)
{
    (void)unused;
    static const struct turn script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "8\r\none\ntwo\n\r\n3\r\nthr\r\n3\r\nee\n\r\n4\r\nrest\r\n",
         .closes = true,
         .is_in_bytes = true},
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\none\ntwo\n\r\n"}};
    struct world *w = world_new(script, 2);
    const struct call *call = ask(w, (struct asked){.is_stream = true});
    assert_string_equal(call->lines, "one|two|three|");
    assert_says(call, "in the middle");
    w->calls[1].cancels_at_line = true;
    call = post(w, 1, (struct asked){.is_stream = true});
    while (call->line_count == 0 || w->open_count > 0) {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_string_equal(call->lines, "one|"); /* and then it was cancelled */
    assert_int_equal(call->done_count, 0);
    world_free(w);
}

/* The time is for the connection only, and that is there. */
static void a_stream_may_be_silent_for_longer_than_its_time(void **unused)
{
    (void)unused;
    static const struct turn script[] = {{.answer = NULL}, {.answer = NULL}};
    struct world *w = world_new(script, 2);
    struct call *stream =
        post(w, 1, (struct asked){.is_stream = true, .timeout_ns = 100 * NS_PER_MS});
    while (w->request_count == 0) {
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    }
    const struct call *call = ask(w, (struct asked){.timeout_ns = 300 * NS_PER_MS});
    assert_says(call, "has not answered within 300 ms");
    assert_int_equal(stream->done_count, 0);
    cv__http_cancel(stream->http);
    world_free(w);
}

static void what_cannot_be_reached_says_so(void **unused)
{
    (void)unused;
    struct world *w = world_new(NULL, 0);
    const int port = port_closed();
    char says[100];
    (void)snprintf(says, sizeof says, "cannot connect to 127.0.0.1:%d: connection refused", port);
    assert_says(ask(w, (struct asked){.port = port}), says);
    /* A name with a part that is too long is refused without asking a name server. */
    static const char host[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";
    assert_says(ask(w, (struct asked){.host = host}), "cannot look up the host name of aaaa");
    cv__http_cancel(post(w, 1, (struct asked){.host = host})->http); /* while it is looked up */
    world_free(w);
}

static void names_and_v6_addresses_are_reached(void **unused)
{
    (void)unused;
    static const struct turn script[] = {{.answer = OK}, {.answer = OK}};
    struct world *w = world_new(script, 2);
    assert_int_equal(ask(w, (struct asked){.host = "localhost"})->status, 200);
    world_free(w);
    w = world_new_on(true, script, 2);
    if (w == NULL) {
        print_message("no IPv6 on this machine\n");
        return;
    }
    assert_int_equal(ask(w, (struct asked){.host = "[::1]"})->status, 200);
    assert_non_null(strstr(w->request, "\r\nHost: [::1]:"));
    world_free(w);
}

static void every_address_of_a_name_is_tried(void **unused)
{
    (void)unused;
    static const struct turn script[] = {{.answer = OK}, {.answer = OK}};
    int fds[2];
    const int silent = port_silent(fds);
    struct world *w = world_new(script, 2);
    port_of_name[0] = port_closed();
    port_of_name[1] = w->port;
    assert_int_equal(ask(w, (struct asked){.host = "closed.test"})->status, 200);
    port_of_name[0] = silent; /* the second one is asked beside it */
    assert_int_equal(ask(w, (struct asked){.host = "silent.test"})->status, 200);
    port_of_name[1] = port_closed();
    assert_says(ask(w, (struct asked){.host = "nobody.test", .timeout_ns = 500 * NS_PER_MS}),
                "cannot connect to nobody.test");
    assert_says(ask(w, (struct asked){.port = silent, .timeout_ns = 100 * NS_PER_MS}),
                "within 100 ms");
    assert_says(
        ask(w, (struct asked){.port = silent, .timeout_ns = 100 * NS_PER_MS, .is_stream = true}),
        "within 100 ms");
    world_free(w);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Both are larger than what the kernel takes at once. */
static void long_requests_and_answers_arrive(void **unused)
{
    (void)unused;
    const size_t bytes = 8u << 20;
    char *body = malloc(bytes + 1), *answer = malloc(3 * bytes + 100);
    assert_true(body != NULL && answer != NULL);
    memset(body, 'x', bytes);
    body[bytes] = '\0';
    struct turn script[] = {{.answer = answer}, {.answer = answer}};
    (void)sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", bytes, body);
    struct world *w = world_new(script, 2);
    assert_int_equal(ask(w, (struct asked){.body = body})->status, 200);
    assert_true(w->request_bytes > bytes);
    (void)sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s%s", 2 * bytes, body,
                  body); /* 16 MiB: one byte too many */
    assert_says(ask(w, (struct asked){0}), "is too long");
    world_free(w);
    free(answer);
    free(body);
}

static void the_client_may_be_ended_at_any_time(void **unused)
{
    (void)unused;
    static const struct turn script[] = {{.answer = OK}, {.answer = NULL}};
    struct world *w = world_new(script, 2);
    w->calls[0].frees = true;
    (void)post(w, 1, (struct asked){.host = "localhost", .is_stream = true});
    await_done(w, post(w, 0, (struct asked){0}));
    assert_int_equal(w->calls[1].done_count, 0);
    world_free(w);
    w = world_new(script, 2);
    (void)post(w, 0, (struct asked){0}); /* not even connected */
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_one_after_the_other_share_a_connection),
        cmocka_unit_test(a_connection_that_is_to_be_closed_serves_nobody_else),
        cmocka_unit_test(bytes_that_nobody_asked_for_answer_nothing),
        cmocka_unit_test(many_calls_at_once_have_eight_connections),
        cmocka_unit_test(a_kept_connection_that_was_closed_is_replaced),
        cmocka_unit_test(a_new_connection_that_is_closed_is_a_failure),
        cmocka_unit_test(streams_report_each_line),
        cmocka_unit_test(a_stream_may_be_silent_for_longer_than_its_time),
        cmocka_unit_test(what_cannot_be_reached_says_so),
        cmocka_unit_test(names_and_v6_addresses_are_reached),
        cmocka_unit_test(every_address_of_a_name_is_tried),
        cmocka_unit_test(long_requests_and_answers_arrive),
        cmocka_unit_test(the_client_may_be_ended_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
