/* src/net/multicast.c - see multicast.h. */
#include "net/multicast.h"

#include "core/errors.h"
#include "core/types.h"
#include "os/descriptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An interface by its address, or else by its name. */
static bool find_interface(const char *text, struct ip_mreqn *request)
{
    if (inet_pton(AF_INET, text, &request->imr_address) == 1) {
        return request->imr_address.s_addr != htonl(INADDR_ANY);
    }
    request->imr_ifindex = (int)if_nametoindex(text);
    return request->imr_ifindex != 0;
}

/* No interface was named: take the link that the kernel's routes choose, or without any network the
 * loopback interface. Connecting a datagram socket sends nothing. */
static void choose_interface(uint16_t port, struct ip_mreqn *request)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = request->imr_multiaddr};
    struct sockaddr_in from = {0};
    socklen_t bytes = sizeof from;
    request->imr_address.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
        getsockname(fd, (struct sockaddr *)&from, &bytes) == 0 &&
        from.sin_addr.s_addr != htonl(INADDR_ANY)) {
        request->imr_address = from.sin_addr;
    }
    (void)close(fd); /* nothing was written */
}

static bool set(int fd, int level, int option, const void *value, socklen_t bytes)
{
    return setsockopt(fd, level, option, value, bytes) == 0;
}

static bool set_up(int fd, const struct cv_multicast_where *where, const struct ip_mreqn *request)
{
    const int one = 1;
    const int zero = 0;
    const int ttl = (int)where->ttl;
    const struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(where->port), .sin_addr = request->imr_multiaddr};
    return set(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
           set(fd, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero) && /* what others joined */
           set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &one, sizeof one) &&
           set(fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl) &&
           set(fd, IPPROTO_IP, IP_MULTICAST_IF, request, sizeof *request) &&
           bind(fd, (const struct sockaddr *)&here, sizeof here) == 0 &&
           set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request, sizeof *request);
}

int cv__multicast_open(struct cv_multicast *m, const struct cv_multicast_where *where,
                       struct cv_errtext *reterr)
{
    *m = (struct cv_multicast){.fd = -1, .port = htons(where->port)};
    struct ip_mreqn request = {0};
    if (inet_pton(AF_INET, where->group, &request.imr_multiaddr) != 1 ||
        !IN_MULTICAST(ntohl(request.imr_multiaddr.s_addr))) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%s' is not a multicast group; use one of 239.0.0.0 to 239.255.255.255",
                        where->group);
    }
    if (where->port == 0 || where->ttl > 255) {
        return cv__fail(reterr, CV_E_INVALID,
                        "port %u, ttl %u: a port is 1 to 65535, a ttl 0 to 255", where->port,
                        where->ttl);
    }
    if (where->interface == NULL) {
        choose_interface(where->port, &request);
    } else if (!find_interface(where->interface, &request)) {
        return cv__fail(reterr, CV_E_INVALID, "there is no network interface '%s'",
                        where->interface);
    }
    m->group = request.imr_multiaddr.s_addr;
    m->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (m->fd < 0 || !set_up(m->fd, where, &request)) {
        const int why = errno;
        cv__multicast_close(m);
        return cv__fail(reterr, cv__descriptor_code(why, CV_E_IO), "cannot join %s:%u on '%s': %s",
                        where->group, where->port,
                        where->interface != NULL ? where->interface : "default route",
                        strerror(why));
    }
    return CV_OK;
}

void cv__multicast_close(struct cv_multicast *m)
{
    if (m->fd >= 0) {
        (void)close(m->fd); /* a socket has nothing left to write */
        m->fd = -1;
    }
}

bool cv__multicast_send(const struct cv_multicast *m, const uint8_t *bytes, size_t byte_count)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = m->port, .sin_addr = {.s_addr = m->group}};
    return sendto(m->fd, bytes, byte_count, MSG_NOSIGNAL, (const struct sockaddr *)&to,
                  sizeof to) == (ssize_t)byte_count;
}

bool cv__multicast_receive(const struct cv_multicast *m, uint8_t *buffer, size_t buffer_bytes,
                           size_t *ret_byte_count)
{
    ssize_t got;
    do {
        got = recv(m->fd, buffer, buffer_bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return false; /* none, or the late error of an earlier send */
    }
    *ret_byte_count = (size_t)got;
    return true;
}
