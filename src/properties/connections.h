/* src/properties/connections.h - the ground truth of which nodes are connected, and since when.
 *
 * [Fetzer99, sec. III and IV] Two processes are connected while both are timely and every message
 * between them arrives within the one-way time-out. p is Delta-disconnected from q while every
 * message that p receives from q takes longer than Delta. A Delta-partition is a set of processes
 * that are connected to each other and Delta-disconnected from all others. No process of the system
 * can know these; an observer of all processes can, and judges timeliness and bounded-inconsistency
 * by them.
 *
 * Memory: two instants for each ordered pair, in one block without pointers, so it is kept for at
 * most CV_CONNECTIONS_NODES_MAX nodes and only if something is promised in these terms. A record
 * that is not kept ignores all reports and treats no nodes as connected. */
#ifndef CV_PROPERTIES_CONNECTIONS_H
#define CV_PROPERTIES_CONNECTIONS_H

#include "core/types.h"

#define CV_CONNECTIONS_NODES_MAX 256u

/* All arrays lie in the block that begins at since_ns. */
struct cv_connections {
    uint32_t node_count;
    size_t block_bytes; /* 0: the record is not kept */
    int64_t *since_ns;  /* by ordered pair: since then the link is up and no message failed */
    /* by receiver and sender: when a message within Delta last arrived; -1: never */
    int64_t *fast_ns;
    /* by node: since when it is up, awake and within its drift; INT64_MAX: it is not */
    int64_t *steady_ns;
    bool *is_linked; /* by ordered pair: the link is up */
};

/* Begins to keep the record: no node is steady, no link is up. */
void cv__connections_init(struct cv_connections *connections, uint32_t node_count);
void cv__connections_fini(struct cv_connections *connections);

static inline bool cv__connections_is_kept(const struct cv_connections *connections)
{
    return connections->block_bytes > 0;
}

/* A message between them was lost or is late. */
void cv__connections_fail(struct cv_connections *connections, int64_t now_ns, cv_id a, cv_id b);
/* A message within Delta has arrived. */
void cv__connections_arrive(struct cv_connections *connections, int64_t now_ns, cv_id from,
                            cv_id to);
/* The state from now on of a node, or of the link from a to b. */
void cv__connections_set_steady(struct cv_connections *connections, int64_t now_ns, cv_id node,
                                bool is_steady);
void cv__connections_set_linked(struct cv_connections *connections, int64_t now_ns, cv_id a,
                                cv_id b, bool is_linked);

/* Since when these two are connected; INT64_MAX: they are not. */
int64_t cv__connections_since(const struct cv_connections *connections, cv_id a, cv_id b);

/* The Delta-partition that `node` has been in for at least `for_ns`, in `ret_set`. False: there is
 * none, and `ret_set` is unspecified. */
bool cv__connections_partition(const struct cv_connections *connections, int64_t now_ns, cv_id node,
                               int64_t for_ns, uint64_t *ret_set);

#endif
