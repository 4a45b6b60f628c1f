/* src/net/multicast.h - sends datagrams to an IPv4 multicast group and receives them.
 *
 * One non-blocking socket, bound to the group and its port, so that it receives nothing else.
 * Several processes of one host may join; each receives the datagrams of all, including its own.
 * The interface should be named: otherwise it is the link that the kernel's routes choose, or the
 * loopback interface if there is none. The TTL limits how far datagrams travel; with 1 they pass no
 * router. */
#ifndef CV_NET_MULTICAST_H
#define CV_NET_MULTICAST_H

#include <conclave/errors.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CV_MULTICAST_TTL_DEFAULT 1u

struct cv_multicast_where {
    const char *group;     /* 224.0.0.0 to 239.255.255.255 */
    uint16_t port;         /* 1..65535 */
    const char *interface; /* its address or its name: 127.0.0.1, eth0; NULL: see above */
    uint32_t ttl;          /* 0: this host only; up to 255 */
};

struct cv_multicast {
    int fd;         /* for the loop to wait for; -1: closed */
    uint32_t group; /* network byte order */
    uint16_t port;  /* the same */
};

/* Returns CV_OK, CV_E_INVALID (no such group or interface) or CV_E_IO. */
CV_NODISCARD int cv__multicast_open(struct cv_multicast *multicast,
                                    const struct cv_multicast_where *where,
                                    struct cv_errtext *reterr);
void cv__multicast_close(struct cv_multicast *multicast);

/* False: it could not be sent, which the protocols treat as a lost datagram. */
bool cv__multicast_send(const struct cv_multicast *multicast, const uint8_t *bytes,
                        size_t byte_count);

/* The next datagram in the socket's queue, cut at the buffer's length. False: the queue is
 * empty. */
bool cv__multicast_receive(const struct cv_multicast *multicast, uint8_t *buffer,
                           size_t buffer_bytes, size_t *ret_byte_count);

#endif
