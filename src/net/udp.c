/* src/net/udp.c - see udp.h. */
#include "net/udp.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/descriptor.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUEUE_BYTES (1 << 20) /* a flood of garbage is read faster than it fills this buffer */

int cv__udp_resolve(const char *host, uint16_t port, int family, struct cv_udp_address *ret_address,
                    struct cv_errtext *reterr)
{
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    const int failed = getaddrinfo(host, service, &hints, &found);
    if (failed == EAI_ADDRFAMILY) {
        return cv__fail(
            reterr, CV_E_INVALID,
            "'%s' has no %s address: all members must use the same kind, as this one does", host,
            family == AF_INET ? "IPv4" : "IPv6");
    }
    if (failed == EAI_SYSTEM) {
        const int why = errno;
        return cv__fail(reterr, cv__descriptor_code(why, CV_E_INVALID),
                        "'%s' has no address here: %s", host, strerror(why));
    }
    if (failed != 0) {
        return cv__fail(reterr, CV_E_INVALID, "'%s' has no address here: %s", host,
                        gai_strerror(failed));
    }
    CV_ASSERT(found->ai_addrlen <= sizeof *ret_address);
    memset(ret_address, 0, sizeof *ret_address);
    memcpy(&ret_address->any, found->ai_addr, found->ai_addrlen);
    ret_address->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return CV_OK;
}

bool cv__udp_equal(const struct cv_udp_address *a, const struct cv_udp_address *b)
{
    if (a->any.sa_family != b->any.sa_family) {
        return false;
    }
    if (a->any.sa_family == AF_INET) {
        return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    }
    return a->v6.sin6_port == b->v6.sin6_port &&
           memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

/* -1 and errno. */
static int bound_socket(const struct cv_udp_address *address)
{
    const int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, &address->any, address->bytes) != 0) {
        const int why = errno;
        (void)close(fd); /* nothing was written */
        errno = why;
        return -1;
    }
    return fd;
}

bool cv__udp_is_local(const struct cv_udp_address *address)
{
    struct cv_udp_address free_port = *address;
    if (free_port.any.sa_family == AF_INET) {
        free_port.v4.sin_port = 0;
    } else {
        free_port.v6.sin6_port = 0;
    }
    const int fd = bound_socket(&free_port);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return fd >= 0;
}

int cv__udp_open(const struct cv_udp_address *address, int *ret_fd, struct cv_errtext *reterr)
{
    char host[64] = "?", port[8] = "?";
    const int fd = bound_socket(address);
    if (fd < 0) {
        const int why = errno;
        (void)getnameinfo(&address->any, address->bytes, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
        if (why == EADDRINUSE) {
            return cv__fail(reterr, CV_E_INVALID,
                            "port %s of %s is in use: this member runs already (another election "
                            "of it needs a file with other ports), or another program has the port",
                            port, host);
        }
        return cv__fail(reterr,
                        why == EADDRNOTAVAIL ? CV_E_INVALID : cv__descriptor_code(why, CV_E_IO),
                        "cannot use %s port %s: %s", host, port, strerror(why));
    }
    const int bytes = QUEUE_BYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); /* works with less, too */
    *ret_fd = fd;
    return CV_OK;
}

bool cv__udp_send(int fd, const struct cv_udp_address *to, const uint8_t *bytes, size_t byte_count)
{
    return sendto(fd, bytes, byte_count, MSG_NOSIGNAL | MSG_DONTWAIT, &to->any, to->bytes) ==
           (ssize_t)byte_count;
}

uint32_t cv__udp_receive_many(int fd, struct cv_udp_datagram datagram[], uint32_t count)
{
    struct mmsghdr message[CV_UDP_DATAGRAMS_MAX];
    struct iovec part[CV_UDP_DATAGRAMS_MAX];
    CV_ASSERT(count <= CV_UDP_DATAGRAMS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct cv_udp_datagram *d = &datagram[i];
        memset(&d->from, 0, sizeof d->from);
        part[i] = (struct iovec){.iov_base = d->buffer, .iov_len = d->buffer_bytes};
        message[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &d->from.any,
                                                  .msg_namelen = sizeof d->from.v6,
                                                  .msg_iov = &part[i],
                                                  .msg_iovlen = 1}};
    }
    int got;
    do {
        got = recvmmsg(fd, message, count, MSG_TRUNC | MSG_DONTWAIT, NULL);
        /* ECONNREFUSED is the late answer to an earlier send, to any address. */
    } while (got < 0 && (errno == EINTR || errno == ECONNREFUSED));
    for (int i = 0; i < got; i++) {
        datagram[i].from.bytes = message[i].msg_hdr.msg_namelen;
        datagram[i].byte_count = message[i].msg_len;
    }
    return got > 0 ? (uint32_t)got : 0;
}

bool cv__udp_receive(int fd, struct cv_udp_address *ret_from, uint8_t *buffer, size_t buffer_bytes,
                     size_t *ret_byte_count)
{
    struct cv_udp_datagram one = {.buffer = buffer, .buffer_bytes = buffer_bytes};
    if (cv__udp_receive_many(fd, &one, 1) == 0) {
        return false;
    }
    *ret_from = one.from;
    *ret_byte_count = one.byte_count;
    return true;
}
