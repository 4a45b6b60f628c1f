/* src/runtime/port.c - see port.h. */
#include "runtime/port.h"

#include "core/errors.h"
#include "core/types.h"
#include "net/frame.h"
#include "net/peers.h"
#include "os/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READS_MAX 256u  /* datagrams in one turn of the loop, so that timers are not delayed */
#define RECEIVED_MAX 4u /* received with one system call */
#define PORT_NS_MAX (2 * NS_PER_S)
#define KEY_BYTES (2u * sizeof(struct cv_udp_address) + 1)

/* Invariant: has a user from when it was joined until it closes. */
struct cv_port {
    struct cv_shared shared; /* first: the list points to it */
    struct cv_shared_list *list;
    uv_poll_t poll;
    int fd;
    struct cv_port_user *first;
    uint8_t received[RECEIVED_MAX][CV_PEERS_FRAME_BYTES_MAX + 1];
};

static const char kind[] = "a member's port"; /* compared by its address */

/* ---- Reading --------------------------------------------------------------------------------- */

/* The election that a datagram is for; the first one, if it is for none. NULL: all have left, which
 * may happen while one of them takes a datagram. */
static struct cv_port_user *user_of(const struct cv_port *port, const struct cv_udp_datagram *d)
{
    uint64_t channel;
    struct cv_port_user *user = port->first;
    if (cv__frame_channel(d->buffer, d->byte_count, &channel)) {
        while (user != NULL && user->channel != channel) {
            user = user->next;
        }
    }
    return user != NULL ? user : port->first;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct cv_port *port = poll->data;
    struct cv_udp_datagram datagram[RECEIVED_MAX];
    uint32_t count = RECEIVED_MAX;
    if (status != 0) { /* an error of the socket: libuv has stopped polling */
        (void)uv_poll_start(poll, UV_READABLE, on_readable); /* and reading clears it */
    }
    for (uint32_t i = 0; i < RECEIVED_MAX; i++) {
        datagram[i] = (struct cv_udp_datagram){.buffer = port->received[i],
                                               .buffer_bytes = sizeof port->received[i]};
    }
    for (uint32_t read = 0; read < READS_MAX && count == RECEIVED_MAX && port->first != NULL;
         read += count) {
        count = cv__udp_receive_many(port->fd, datagram, RECEIVED_MAX);
        for (uint32_t i = 0; i < count && port->first != NULL; i++) {
            const struct cv_port_user *user = user_of(port, &datagram[i]);
            user->take(user->self, &datagram[i]);
        }
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static int open_socket(const struct cv_udp_address *address, int *ret_fd, struct cv_errtext *reterr)
{
    const int64_t until_ns = cv__clock_now_ns() + PORT_NS_MAX;
    int code = cv__udp_open(address, ret_fd, reterr);
    while (code == CV_E_INVALID && cv__udp_is_local(address) && cv__clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, /* timeout_ms= */ 5);
        code = cv__udp_open(address, ret_fd, reterr);
    }
    return code;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static int open_port(uv_loop_t *loop, struct cv_shared_list *list,
                     const struct cv_udp_address *address, const char *key,
                     struct cv_port **ret_port, struct cv_errtext *reterr)
{
    struct cv_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the socket of this member");
    }
    int code = open_socket(address, &port->fd, reterr);
    if (code != CV_OK) {
        free(port);
        return code;
    }
    port->list = list;
    port->poll.data = port;
    if (uv_poll_init(loop, &port->poll, port->fd) != 0) {
        (void)close(port->fd); /* nothing was written */
        free(port);
        return cv__fail(reterr, CV_E_IO, "cannot watch the socket of this member");
    }
    if (uv_poll_start(&port->poll, UV_READABLE, on_readable) != 0) {
        code = cv__fail(reterr, CV_E_IO, "cannot watch the socket of this member");
    } else if (!cv__shared_add(list, &port->shared, kind, key)) {
        code = cv__fail(reterr, CV_E_MEMORY, "no memory for the socket of this member");
    }
    if (code != CV_OK) {
        uv_close((uv_handle_t *)&port->poll, on_closed);
        (void)close(port->fd); /* nothing was written */
        return code;
    }
    *ret_port = port;
    return CV_OK;
}

/* The address in hexadecimal digits. */
static void key_of(const struct cv_udp_address *address, char ret_key[KEY_BYTES])
{
    const uint8_t *bytes = (const uint8_t *)&address->any;
    CV_ASSERT(2 * address->bytes < KEY_BYTES);
    ret_key[0] = '\0';
    for (size_t i = 0; i < address->bytes; i++) {
        (void)snprintf(ret_key + 2 * i, KEY_BYTES - 2 * i, "%02x", bytes[i]);
    }
}

static void leave(struct cv_port *port)
{
    if (cv__shared_leave(port->list, &port->shared)) {
        CV_ASSERT(port->first == NULL);
        uv_close((uv_handle_t *)&port->poll, on_closed);
        (void)close(port->fd); /* a socket has nothing left to write */
    }
}

int cv__port_join(uv_loop_t *loop, struct cv_shared_list *list,
                  const struct cv_udp_address *address, struct cv_port_user *user,
                  struct cv_port **ret_port, struct cv_errtext *reterr)
{
    char key[KEY_BYTES];
    key_of(address, key);
    struct cv_port *port = (struct cv_port *)cv__shared_join(list, kind, key);
    if (port == NULL) {
        const int code = open_port(loop, list, address, key, &port, reterr);
        if (code != CV_OK) {
            return code;
        }
    }
    struct cv_port_user **at = &port->first;
    while (*at != NULL) {
        if ((*at)->channel == user->channel) {
            leave(port);
            return cv__fail(reterr, CV_E_INVALID,
                            "this process takes part in this election as this member already");
        }
        at = &(*at)->next;
    }
    user->next = NULL;
    *at = user;
    *ret_port = port;
    return CV_OK;
}

void cv__port_leave(struct cv_port *port, struct cv_port_user *user)
{
    struct cv_port_user **at = &port->first;
    while (*at != user) {
        CV_ASSERT(*at != NULL); /* it has joined */
        at = &(*at)->next;
    }
    *at = user->next;
    leave(port);
}

int cv__port_fd(const struct cv_port *port)
{
    return port->fd;
}

bool cv__port_is_alone(const struct cv_port *port)
{
    CV_ASSERT(port->first != NULL); /* the caller is a user */
    return port->first->next == NULL;
}
