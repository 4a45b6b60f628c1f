/* src/net/udp.h - datagrams between known addresses, of IPv4 or IPv6.
 *
 * One non-blocking socket, bound to one address of this host. It is not shared: a second process
 * with the same address and port is refused. So a member that is started twice on one host is
 * noticed. */
#ifndef CV_NET_UDP_H
#define CV_NET_UDP_H

#include <conclave/errors.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct cv_udp_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t bytes;
};

/* Finds the address of a name, or reads a number; asks the resolver, which may take long. `family`
 * AF_UNSPEC: whichever comes first. CV_OK or CV_E_INVALID. */
CV_NODISCARD int cv__udp_resolve(const char *host, uint16_t port, int family,
                                 struct cv_udp_address *ret_address, struct cv_errtext *reterr);

bool cv__udp_equal(const struct cv_udp_address *a, const struct cv_udp_address *b);

/* Does this host have the address? Its port does not matter. */
bool cv__udp_is_local(const struct cv_udp_address *address);

/* A socket bound to the address; with port 0 to a free port. CV_OK, CV_E_INVALID (in use, or not of
 * this host) or CV_E_IO. */
CV_NODISCARD int cv__udp_open(const struct cv_udp_address *address, int *ret_fd,
                              struct cv_errtext *reterr);

/* False: it could not be sent, which the protocols treat as a lost datagram. */
bool cv__udp_send(int fd, const struct cv_udp_address *to, const uint8_t *bytes, size_t byte_count);

/* The next datagram in the socket's queue. Its whole length is returned, though only what fits was
 * written; so one that is too long is recognised. False: the queue is empty. */
bool cv__udp_receive(int fd, struct cv_udp_address *ret_from, uint8_t *buffer, size_t buffer_bytes,
                     size_t *ret_byte_count);

/* The same for several with one system call; returns how many came. Fewer than `count`: there are
 * no more at present. */
#define CV_UDP_DATAGRAMS_MAX 16u
struct cv_udp_datagram {
    uint8_t *buffer; /* the caller's */
    size_t buffer_bytes;
    struct cv_udp_address from;
    size_t byte_count; /* as it was sent, also if that is more than the buffer's */
};
uint32_t cv__udp_receive_many(int fd, struct cv_udp_datagram datagram[], uint32_t count);

#endif
