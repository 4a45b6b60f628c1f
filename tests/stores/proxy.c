/* tests/stores/proxy.c - see proxy.h. */
#include "stores/proxy.h"

#include "core/assert.h"

#include <stdlib.h>
#include <string.h>

/* One connection: `side[0]` is the client, `side[1]` the server. */
struct link {
    struct proxy *proxy;
    uv_tcp_t side[2];
    uv_connect_t connect;
    uint32_t open_count; /* sides not yet closed */
    uint32_t chunk_count;
    bool is_closing;
    struct link *next;
};

/* Bytes under way. */
struct chunk {
    uv_timer_t timer;
    uv_write_t write;
    struct link *link;
    int to;
    size_t bytes;
    char data[];
};

/* A copy of a request that is sent once more. */
struct copy {
    struct proxy *proxy;
    uv_tcp_t server;
    uv_connect_t connect;
    uv_write_t write;
    struct copy *next;
};

struct proxy {
    uv_loop_t *loop;
    uv_tcp_t listen;
    int port, target_port;
    struct link *links;
    uint64_t delay_ms;
    bool is_swallowing, is_refusing, is_closing, is_closed;
    uint64_t swallowed, asked, rewritten;
    const char *rewrite_from, *rewrite_to; /* NULL: nothing is replaced */
    size_t rewrite_bytes;
    const char *copied_text; /* NULL: nothing is to be copied */
    char *copied;
    size_t copied_bytes;
    struct copy *copies; /* those whose connection is open */
    uint64_t repeated;
};

static void proxy_end(struct proxy *proxy)
{
    if (proxy->is_closing && proxy->is_closed && proxy->links == NULL && proxy->copies == NULL) {
        free(proxy->copied);
        free(proxy);
    }
}

static void link_end(struct link *link)
{
    if (link->open_count > 0 || link->chunk_count > 0) {
        return;
    }
    struct proxy *proxy = link->proxy;
    for (struct link **at = &proxy->links; *at != NULL; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            break;
        }
    }
    free(link);
    proxy_end(proxy);
}

static void on_side_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->open_count--;
    link_end(link);
}

static void link_close(struct link *link)
{
    if (!link->is_closing) {
        link->is_closing = true;
        uv_close((uv_handle_t *)&link->side[0], on_side_closed);
        uv_close((uv_handle_t *)&link->side[1], on_side_closed);
    }
}

static void on_chunk_closed(uv_handle_t *handle)
{
    struct chunk *chunk = handle->data;
    struct link *link = chunk->link;
    free(chunk);
    link->chunk_count--;
    link_end(link);
}

static void on_written(uv_write_t *write, int status)
{
    struct chunk *chunk = write->data;
    if (status != 0) {
        link_close(chunk->link);
    }
    uv_close((uv_handle_t *)&chunk->timer, on_chunk_closed);
}

static void on_due(uv_timer_t *timer)
{
    struct chunk *chunk = timer->data;
    const uv_buf_t buffer = uv_buf_init(chunk->data, (unsigned)chunk->bytes);
    chunk->write.data = chunk;
    if (chunk->link->is_closing ||
        uv_write(&chunk->write, (uv_stream_t *)&chunk->link->side[chunk->to], &buffer, 1,
                 on_written) != 0) {
        uv_close((uv_handle_t *)timer, on_chunk_closed);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    (void)handle;
    *ret_buffer = uv_buf_init(malloc(suggested), (unsigned)suggested);
}

static void rewrite(struct proxy *proxy, char *data, size_t bytes)
{
    char *at = data;
    while (proxy->rewrite_from != NULL &&
           (at = memmem(at, bytes - (size_t)(at - data), proxy->rewrite_from,
                        proxy->rewrite_bytes)) != NULL) {
        memcpy(at, proxy->rewrite_to, proxy->rewrite_bytes);
        at += proxy->rewrite_bytes;
        proxy->rewritten++;
    }
}

static void copy_keep(struct proxy *proxy, const char *data, size_t bytes)
{
    if (proxy->copied_text == NULL ||
        memmem(data, bytes, proxy->copied_text, strlen(proxy->copied_text)) == NULL) {
        return;
    }
    free(proxy->copied);
    proxy->copied = malloc(bytes);
    CV_ASSERT(proxy->copied != NULL);
    memcpy(proxy->copied, data, bytes);
    proxy->copied_bytes = bytes;
    proxy->copied_text = NULL;
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct link *link = stream->data;
    struct proxy *proxy = link->proxy;
    const int from = stream == (uv_stream_t *)&link->side[0] ? 0 : 1;
    if (count < 0) {
        link_close(link);
    } else if (count > 0 && from == 1 && proxy->is_swallowing) {
        proxy->swallowed += (uint64_t)count;
    } else if (count > 0) {
        if (from == 0) {
            proxy->asked += (uint64_t)count;
            copy_keep(proxy, buffer->base, (size_t)count);
        }
        struct chunk *chunk = calloc(1, sizeof *chunk + (size_t)count);
        CV_ASSERT(chunk != NULL);
        chunk->link = link;
        chunk->to = 1 - from;
        chunk->bytes = (size_t)count;
        memcpy(chunk->data, buffer->base, (size_t)count);
        if (from == 1) {
            rewrite(proxy, chunk->data, chunk->bytes);
        }
        link->chunk_count++;
        (void)uv_timer_init(proxy->loop, &chunk->timer);
        chunk->timer.data = chunk;
        if (from == 1 && proxy->delay_ms > 0) {
            (void)uv_timer_start(&chunk->timer, on_due, proxy->delay_ms, 0);
        } else {
            on_due(&chunk->timer);
        }
    }
    free(buffer->base);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *link = connect->data;
    if (link->is_closing) {
        return;
    }
    if (status != 0) {
        link_close(link);
        return;
    }
    (void)uv_read_start((uv_stream_t *)&link->side[0], on_alloc, on_read);
    (void)uv_read_start((uv_stream_t *)&link->side[1], on_alloc, on_read);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct proxy *proxy = server->data;
    if (status != 0) {
        return;
    }
    struct link *link = calloc(1, sizeof *link);
    CV_ASSERT(link != NULL);
    link->proxy = proxy;
    link->next = proxy->links;
    link->open_count = 2;
    proxy->links = link;
    for (int i = 0; i < 2; i++) {
        (void)uv_tcp_init(proxy->loop, &link->side[i]);
        link->side[i].data = link;
    }
    (void)uv_accept(server, (uv_stream_t *)&link->side[0]);
    (void)uv_tcp_nodelay(&link->side[0], 1);
    if (proxy->is_refusing) {
        link_close(link);
        return;
    }
    struct sockaddr_in to;
    (void)uv_ip4_addr("127.0.0.1", proxy->target_port, &to);
    link->connect.data = link;
    (void)uv_tcp_connect(&link->connect, &link->side[1], (const struct sockaddr *)&to,
                         on_connected);
    (void)uv_tcp_nodelay(&link->side[1], 1);
}

struct proxy *proxy_new(uv_loop_t *loop, int target_port)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    CV_ASSERT(proxy != NULL);
    proxy->loop = loop;
    proxy->target_port = target_port;
    struct sockaddr_in at;
    (void)uv_ip4_addr("127.0.0.1", 0, &at);
    (void)uv_tcp_init(loop, &proxy->listen);
    proxy->listen.data = proxy;
    const int bound = uv_tcp_bind(&proxy->listen, (const struct sockaddr *)&at, 0);
    const int listening = uv_listen((uv_stream_t *)&proxy->listen, 64, on_connection);
    CV_ASSERT(bound == 0 && listening == 0);
    int bytes = sizeof at;
    (void)uv_tcp_getsockname(&proxy->listen, (struct sockaddr *)&at, &bytes);
    proxy->port = ntohs(at.sin_port);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_delay_answers(struct proxy *proxy, uint64_t ms)
{
    proxy->delay_ms = ms;
}

void proxy_swallow_answers(struct proxy *proxy, bool is_swallowing)
{
    proxy->is_swallowing = is_swallowing;
}

void proxy_rewrite_answers(struct proxy *proxy, const char *from, const char *to, size_t bytes)
{
    proxy->rewrite_from = from;
    proxy->rewrite_to = to;
    proxy->rewrite_bytes = bytes;
}

uint64_t proxy_rewritten(const struct proxy *proxy)
{
    return proxy->rewritten;
}

uint64_t proxy_swallowed(const struct proxy *proxy)
{
    return proxy->swallowed;
}

uint64_t proxy_asked(const struct proxy *proxy)
{
    return proxy->asked;
}

static void on_copy_closed(uv_handle_t *handle)
{
    struct copy *copy = handle->data;
    struct proxy *proxy = copy->proxy;
    for (struct copy **at = &proxy->copies; *at != NULL; at = &(*at)->next) {
        if (*at == copy) {
            *at = copy->next;
            break;
        }
    }
    free(copy);
    proxy_end(proxy);
}

static void copy_close(struct copy *copy)
{
    if (!uv_is_closing((uv_handle_t *)&copy->server)) {
        uv_close((uv_handle_t *)&copy->server, on_copy_closed);
    }
}

static void on_copy_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct copy *copy = stream->data;
    if (count != 0) {
        copy->proxy->repeated += count > 0;
        copy_close(copy);
    }
    free(buffer->base);
}

static void on_copy_connected(uv_connect_t *connect, int status)
{
    struct copy *copy = connect->data;
    const uv_buf_t buffer = uv_buf_init(copy->proxy->copied, (unsigned)copy->proxy->copied_bytes);
    if (status != 0 ||
        uv_write(&copy->write, (uv_stream_t *)&copy->server, &buffer, 1, NULL) != 0 ||
        uv_read_start((uv_stream_t *)&copy->server, on_alloc, on_copy_read) != 0) {
        copy_close(copy);
    }
}

void proxy_copy_request(struct proxy *proxy, const char *text)
{
    proxy->copied_text = text;
}

bool proxy_repeat_request(struct proxy *proxy)
{
    if (proxy->copied == NULL) {
        return false;
    }
    struct copy *copy = calloc(1, sizeof *copy);
    CV_ASSERT(copy != NULL);
    copy->proxy = proxy;
    copy->next = proxy->copies;
    proxy->copies = copy;
    struct sockaddr_in to;
    (void)uv_ip4_addr("127.0.0.1", proxy->target_port, &to);
    (void)uv_tcp_init(proxy->loop, &copy->server);
    copy->server.data = copy->connect.data = copy;
    (void)uv_tcp_connect(&copy->connect, &copy->server, (const struct sockaddr *)&to,
                         on_copy_connected);
    return true;
}

uint64_t proxy_repeated(const struct proxy *proxy)
{
    return proxy->repeated;
}

void proxy_cut(struct proxy *proxy)
{
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        link_close(link);
    }
}

void proxy_refuse(struct proxy *proxy, bool is_refusing)
{
    proxy->is_refusing = is_refusing;
}

static void on_listen_closed(uv_handle_t *handle)
{
    struct proxy *proxy = handle->data;
    proxy->is_closed = true;
    proxy_end(proxy);
}

void proxy_free(struct proxy *proxy)
{
    proxy->is_closing = true;
    proxy_cut(proxy);
    for (struct copy *copy = proxy->copies; copy != NULL; copy = copy->next) {
        copy_close(copy);
    }
    uv_close((uv_handle_t *)&proxy->listen, on_listen_closed);
}
