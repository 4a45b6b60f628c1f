/* src/lab/wan.h - an emulated wide-area network on one machine, for real processes.
 *
 * Each node is a separate network namespace with one interface, a TUN device with the address
 * 10.77.0.N. A forked process passes packets between them, with a delay, jitter, loss or cut for
 * each direction of each pair. Packets of one pair stay in order.
 *
 * Nothing has a name in the file system and nothing is added to the host's own network: namespaces
 * and devices end with their descriptors, even if this process is killed. It needs root, and Linux
 * with /dev/net/tun; otherwise there is an error. Memory: WAN_PACKETS_MAX packets for each
 * direction; further packets are dropped, as by a router. */
#ifndef CV_LAB_WAN_H
#define CV_LAB_WAN_H

#include "core/types.h"

#define CV_WAN_NODES_MAX 16u
#define CV_WAN_ADDRESS_BYTES 16

struct cv_wan_link {
    int64_t delay_ns;
    uint32_t jitter_percent; /* standard deviation of the delay */
    uint32_t loss_percent;
    bool is_cut; /* packets in flight are lost, too */
};

struct cv_wan;

/* At first all links are fast and lose nothing. CV_E_IO: namespaces or devices cannot be made. */
CV_NODISCARD int cv__wan_open(uint32_t node_count, struct cv_wan **ret_wan,
                              struct cv_errtext *reterr);
void cv__wan_close(struct cv_wan *wan); /* NULL is fine */

/* Sets the link for packets of node `from` to node `to`, both from 1; in effect on return. False:
 * the process that passes packets is gone. */
CV_NODISCARD bool cv__wan_set(struct cv_wan *wan, uint32_t from, uint32_t to,
                              const struct cv_wan_link *link);

/* The namespace of a node, for setns(); owned by the network. */
int cv__wan_namespace(const struct cv_wan *wan, uint32_t node);
void cv__wan_address(uint32_t node, char ret_address[CV_WAN_ADDRESS_BYTES]);

#endif
