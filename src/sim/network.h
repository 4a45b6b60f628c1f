/* src/sim/network.h - links between simulated nodes: which messages arrive, and when.
 *
 * Each direction of each pair is a link of its own. A pair starts from the round trip of its nodes'
 * sites or from the default, and takes memory only if it differs. A later change of `*` changes
 * every link, even those that were changed one by one. Temporary faults are added to this: a
 * partition into groups, and loss, delay, duplication and reordering on every link. */
#ifndef CV_SIM_NETWORK_H
#define CV_SIM_NETWORK_H

#include "scenario/change.h"
#include "sim/rng.h"

struct sim_network;
struct sim_network *sim_network_new(uint32_t node_count);
void sim_network_free(struct sim_network *network);

void sim_network_change(struct sim_network *network, const struct sim_link_change *change);
void sim_network_set_site(struct sim_network *network, cv_id node, uint32_t site);
/* Sets the delay of every link between two sites to half the round trip, in both directions. */
void sim_network_set_rtt(struct sim_network *network, uint32_t site_a, uint32_t site_b,
                         int64_t rtt_ns);

/* Groups by node (index 0: node 1). Nodes of different groups do not reach each other. */
void sim_network_partition(struct sim_network *network, const uint16_t *group);
/* One group again, and every link up. */
void sim_network_heal(struct sim_network *network);

/* Sets a temporary fault on every link; 0 ends it. */
void sim_network_overlay(struct sim_network *network, enum sim_overlay overlay, int64_t value);

/* Can a message get through now, if it is not lost at random? */
bool sim_network_reaches(const struct sim_network *network, cv_id from, cv_id to);
uint16_t sim_network_group(const struct sim_network *network, cv_id node);
/* Is some link between two nodes of one group down? Then links may not be transitive. */
bool sim_network_has_cuts(const struct sim_network *network);

/* The mean delay of a message without temporary faults. */
int64_t sim_network_mean_ns(const struct sim_network *network, cv_id from, cv_id to);

/* The fate of one message: how many copies arrive (0..2), and the delay of each. */
enum sim_fate { SIM_FATE_UNREACHABLE, SIM_FATE_LOST, SIM_FATE_ONCE, SIM_FATE_TWICE };
enum sim_fate sim_network_send(const struct sim_network *network, struct sim_rng *rng, cv_id from,
                               cv_id to, int64_t ret_delay_ns[2]);

#endif
