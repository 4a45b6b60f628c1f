/* src/sim/network.h - links between simulated nodes: who reaches whom, when, and how often.
 *
 * Each direction of each pair is a link of its own. A pair starts from the round trip of its nodes'
 * sites or from the default, and only what differs takes memory; what is said of `*` later counts
 * for every link, what was said of a pair before included. On top lie the passing faults: a
 * partition into groups, and loss, delay, duplication and reordering that hit every link for a
 * while. */
#ifndef CV_SIM_NETWORK_H
#define CV_SIM_NETWORK_H

#include "core/types.h"
#include "sim/rng.h"

#define CV_SITES_MAX 64u
#define CV_PPB_ONE INT64_C(1000000000) /* 100 % */

enum cv_dist { CV_DIST_CONSTANT, CV_DIST_UNIFORM, CV_DIST_NORMAL, CV_DIST_PARETO };

struct cv_link {
    int64_t delay_ns;
    int64_t jitter_ns;  /* absolute, or ... */
    int64_t jitter_ppb; /* ... relative to the delay; at most one of the two is not zero */
    int64_t loss_ppb, duplicate_ppb, reorder_ppb;
    enum cv_dist dist;
    bool is_down;
};

enum {
    CV_LINK_DELAY = 1,
    CV_LINK_JITTER = 2,
    CV_LINK_DIST = 4,
    CV_LINK_LOSS = 8,
    CV_LINK_DUPLICATE = 16,
    CV_LINK_REORDER = 32,
    CV_LINK_DOWN = 64,
};

/* Some attributes of some links: first > second one way, or both ways; CV_ID_NONE: everybody. */
struct cv_link_change {
    cv_id first, second;
    bool is_one_way;
    uint32_t mask; /* CV_LINK_*: which attributes of `link` count */
    struct cv_link link;
};

struct cv_network;
struct cv_network *cv__network_new(uint32_t node_count);
void cv__network_free(struct cv_network *network);

void cv__network_change(struct cv_network *network, const struct cv_link_change *change);
void cv__network_set_site(struct cv_network *network, cv_id node, uint32_t site);
/* Half the round trip as delay of every link between two sites, both ways. */
void cv__network_set_rtt(struct cv_network *network, uint32_t site_a, uint32_t site_b,
                         int64_t rtt_ns);

/* Groups by node (index 0: node 1). Nodes of different groups do not reach each other. */
void cv__network_partition(struct cv_network *network, const uint16_t *group);
/* One group again, and every link up. */
void cv__network_heal(struct cv_network *network);

/* Passing faults on every link, on top of what each link has; 0 ends one. */
enum cv_overlay {
    CV_OVERLAY_LOSS,
    CV_OVERLAY_SLOW,
    CV_OVERLAY_DUPLICATE,
    CV_OVERLAY_REORDER,
    CV_OVERLAY_COUNT
};
void cv__network_overlay(struct cv_network *network, enum cv_overlay overlay, int64_t value);

/* Can a message get through now, loss apart? */
bool cv__network_reaches(const struct cv_network *network, cv_id from, cv_id to);
uint16_t cv__network_group(const struct cv_network *network, cv_id node);
/* Is some link between two nodes of one group down? Then who reaches whom may not be transitive. */
bool cv__network_has_cuts(const struct cv_network *network);

/* How long a message takes in the mean while nothing passing lies on the link. */
int64_t cv__network_mean_ns(const struct cv_network *network, cv_id from, cv_id to);

/* The fate of one message: how many copies arrive (0..2), and the delay of each. */
enum cv_fate { CV_FATE_UNREACHABLE, CV_FATE_LOST, CV_FATE_ONCE, CV_FATE_TWICE };
enum cv_fate cv__network_send(const struct cv_network *network, struct cv_rng *rng, cv_id from,
                              cv_id to, int64_t ret_delay_ns[2]);

#endif
