/* src/runtime/port.h - the socket of a member, which its elections on one loop share.
 *
 * A member has one address, so it has one socket. Each election of the member seals its own frames
 * (net/peers.h); the channel in a frame says which election it is for. Frames for none of them go
 * to the first one, which counts and reports them.
 *
 * Used on the loop's thread only. Another process cannot use the port, and opening an election
 * twice here is refused; so no member is counted twice in one election. */
#ifndef CV_RUNTIME_PORT_H
#define CV_RUNTIME_PORT_H

#include "net/udp.h"
#include "stores/shared.h"

#include <uv.h>

struct cv_port;

/* An election that uses the port; the caller's memory. */
struct cv_port_user {
    struct cv_port_user *next;
    uint64_t channel; /* of its frames: cv__frames_channel() */
    void *self;
    void (*take)(void *self, const struct cv_udp_datagram *datagram);
};

/* Waits for the port, at most two seconds: the witness of an ended process keeps the socket for
 * some milliseconds. CV_E_INVALID: the port or the channel is in use; CV_E_IO or CV_E_MEMORY. */
CV_NODISCARD int cv__port_join(uv_loop_t *loop, struct cv_shared_list *shared,
                               const struct cv_udp_address *address, struct cv_port_user *user,
                               struct cv_port **ret_port, struct cv_errtext *reterr);
/* The last user closes the socket. `user` is not used any more. */
void cv__port_leave(struct cv_port *port, struct cv_port_user *user);

int cv__port_fd(const struct cv_port *port);
/* Has it one user? */
bool cv__port_is_alone(const struct cv_port *port);

#endif
