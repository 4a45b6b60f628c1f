/* src/cli/webserver.c - see webserver.h. */
#include "cli/webserver.h"

#include "core/errors.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 640u

struct connection {
    uv_tcp_t tcp;
    struct cv_webserver *web;
    uv_write_t write;
    char head[HEAD_BYTES];
    char *body;
    size_t body_bytes;
    size_t length; /* of the request so far */
    char request[CV_WEBSERVER_REQUEST_BYTES];
};

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    c->web->connection_count--;
    free(c->body);
    free(c);
}

static void connection_close(struct connection *c)
{
    if (!uv_is_closing((uv_handle_t *)&c->tcp)) {
        uv_close((uv_handle_t *)&c->tcp, on_closed);
    }
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* a client that went away needs no answer */
    connection_close(write->data);
}

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},   {".json", "application/json"},
        {".wasm", "application/wasm"},
    };
    const size_t length = strlen(name);
    for (uint32_t i = 0; i < COUNT_OF(types); i++) {
        const size_t end = strlen(types[i].end);
        if (length > end && strcmp(name + length - end, types[i].end) == 0) {
            return types[i].type;
        }
    }
    return "text/plain; charset=utf-8";
}

/* The head gives the length of the body. The body follows, except in an answer to HEAD. */
static void answer(struct connection *c, const char *status, const char *type, bool has_body)
{
    const int length =
        snprintf(c->head, sizeof c->head,
                 "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                 "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                 "Content-Security-Policy: default-src 'self'; script-src 'self' "
                 "'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                 "frame-ancestors 'none'\r\nConnection: close\r\n\r\n",
                 status, type, c->body_bytes);
    CV_ASSERT(length > 0 && (size_t)length < sizeof c->head);
    uv_buf_t part[] = {uv_buf_init(c->head, (unsigned)length),
                       uv_buf_init(c->body, (unsigned)c->body_bytes)};
    c->write.data = c;
    (void)uv_read_stop((uv_stream_t *)&c->tcp);
    const unsigned parts = has_body && c->body_bytes > 0 ? 2 : 1;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, part, parts, on_written) != 0) {
        connection_close(c);
    }
}

static void refuse(struct connection *c, const char *status)
{
    c->body = strdup(status);
    c->body_bytes = c->body != NULL ? strlen(c->body) : 0;
    answer(c, status, "text/plain; charset=utf-8", /* has_body= */ true);
}

/* A whole file; false: it cannot be read. */
static bool load(const char *path, char **ret_bytes, size_t *ret_count)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size > INT_MAX) {
        if (file != NULL) {
            (void)fclose(file); /* it was only read */
        }
        return false;
    }
    char *bytes = malloc((size_t)about.st_size + 1);
    *ret_count = bytes != NULL ? fread(bytes, 1, (size_t)about.st_size, file) : 0;
    (void)fclose(file); /* it was only read */
    *ret_bytes = bytes;
    return bytes != NULL;
}

/* Only letters, digits, '-', '_' and '.', and no dot at the beginning: so no path leads out of the
 * folder. */
static bool is_plain_name(const char *name)
{
    for (const char *at = name; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL) {
            return false;
        }
    }
    return name[0] != '\0' && name[0] != '.';
}

/* The file of the command line that is served under this name; or NULL. */
static const char *given_file(const struct cv_webserver *web, const char *name)
{
    char expected[32] = "file";
    for (uint32_t i = 0; i < web->file_count; i++) {
        if (i > 0) {
            (void)snprintf(expected, sizeof expected, "file-%u", i + 1);
        }
        if (strcmp(name, expected) == 0) {
            return web->files[i];
        }
    }
    return NULL;
}

static void answer_name(struct connection *c, const char *name, bool has_body)
{
    char path[PATH_MAX];
    const char *file = given_file(c->web, name);
    if (!is_plain_name(name)) {
        refuse(c, "404 Not Found");
        return;
    }
    const int length = file != NULL ? snprintf(path, sizeof path, "%s", file)
                                    : snprintf(path, sizeof path, "%s/%s", c->web->folder, name);
    if (length < 0 || (size_t)length >= sizeof path || !load(path, &c->body, &c->body_bytes)) {
        refuse(c, "404 Not Found");
        return;
    }
    answer(c, "200 OK", file != NULL ? "text/plain; charset=utf-8" : type_of(name), has_body);
}

/* The value of a header field, without blanks at its ends; false: there is none, or it is too
 * long. */
static bool header(const char *request, const char *field, char *ret_value, size_t size)
{
    const size_t length = strlen(field);
    for (const char *line = strstr(request, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, field, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " \t");
            const size_t bytes = strcspn(line, " \t\r\n");
            if (bytes >= size) {
                return false;
            }
            memcpy(ret_value, line, bytes);
            ret_value[bytes] = '\0';
            return true;
        }
    }
    return false;
}

static bool names_this_host(const struct connection *c)
{
    char host[64], by_number[32], by_name[32];
    (void)snprintf(by_number, sizeof by_number, "127.0.0.1:%u", c->web->port);
    (void)snprintf(by_name, sizeof by_name, "localhost:%u", c->web->port);
    return header(c->request, "Host", host, sizeof host) &&
           (strcmp(host, by_number) == 0 || strcmp(host, by_name) == 0);
}

/* The request is complete. */
static void respond(struct connection *c)
{
    char method[8], target[256];
    if (sscanf(c->request, "%7s %255s HTTP/1.", method, target) != 2 || target[0] != '/') {
        refuse(c, "400 Bad Request");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        refuse(c, "405 Method Not Allowed");
    } else if (!names_this_host(c)) {
        refuse(c, "403 Forbidden");
    } else {
        target[strcspn(target, "?#")] = '\0';
        answer_name(c, strcmp(target, "/") == 0 ? "index.html" : target + 1,
                    /* has_body= */ method[0] == 'G');
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room)
{
    struct connection *c = handle->data;
    (void)suggested;
    *ret_room =
        uv_buf_init(c->request + c->length, (unsigned)(CV_WEBSERVER_REQUEST_BYTES - 1 - c->length));
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *room)
{
    struct connection *c = stream->data;
    (void)room; /* it is part of the connection */
    if (bytes == UV_ENOBUFS || c->length + 1 >= CV_WEBSERVER_REQUEST_BYTES) {
        refuse(c, "431 Request Header Fields Too Large");
        return;
    }
    if (bytes < 0) {
        connection_close(c);
        return;
    }
    c->length += (size_t)bytes;
    c->request[c->length] = '\0';
    if (strstr(c->request, "\r\n\r\n") != NULL) {
        respond(c);
    }
}

static void on_connection(uv_stream_t *server, int status)
{
    struct cv_webserver *web = server->data;
    struct connection *c = status == 0 ? calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        return;
    }
    c->web = web;
    c->tcp.data = c;
    web->connection_count++;
    (void)uv_tcp_init(web->loop, &c->tcp); /* cannot fail: it makes no socket */
    if (uv_accept(server, (uv_stream_t *)&c->tcp) != 0 ||
        web->connection_count > CV_WEBSERVER_CONNECTIONS_MAX ||
        uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read) != 0) {
        connection_close(c);
    }
}

int cv__webserver_open(struct cv_webserver *web, uv_loop_t *loop, const char *folder,
                       char *const *files, uint32_t file_count, uint16_t port,
                       struct cv_errtext *reterr)
{
    *web = (struct cv_webserver){
        .loop = loop, .folder = folder, .files = files, .file_count = file_count};
    struct sockaddr_in address;
    (void)uv_ip4_addr("127.0.0.1", port, &address); /* a valid address */
    (void)uv_tcp_init(loop, &web->listener);
    web->listener.data = web;
    int error = uv_tcp_bind(&web->listener, (const struct sockaddr *)&address, 0);
    if (error == 0) {
        error = uv_listen((uv_stream_t *)&web->listener, 32, on_connection);
    }
    int bytes = sizeof address;
    if (error == 0) {
        error = uv_tcp_getsockname(&web->listener, (struct sockaddr *)&address, &bytes);
    }
    if (error != 0) {
        return cv__fail(reterr, CV_E_IO, "cannot listen on 127.0.0.1:%u: %s", port,
                        uv_strerror(error));
    }
    web->port = ntohs(address.sin_port);
    return CV_OK;
}

static void close_own(uv_handle_t *handle, void *context)
{
    struct cv_webserver *web = context;
    if (uv_is_closing(handle)) {
        return;
    }
    if (handle == (uv_handle_t *)&web->listener) {
        uv_close(handle, NULL);
    } else if (handle->type == UV_TCP) {
        connection_close(handle->data);
    }
}

void cv__webserver_close(struct cv_webserver *web)
{
    uv_walk(web->loop, close_own, web);
}
