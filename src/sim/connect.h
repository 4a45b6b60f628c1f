/* src/sim/connect.h - the ground truth of who is connected to whom, for how long.
 *
 * [Fetzer99, sec. III and IV] Two processes are connected while both are timely and every message
 * between them arrives within the one-way time-out. p is Delta-disconnected from q while every
 * message that p receives from q takes longer than Delta. A Delta-partition is a set of processes
 * that are connected to each other and Delta-disconnected from all others. No process of the system
 * can know these; the simulator can, and judges timeliness and bounded-inconsistency by them.
 *
 * Memory: two instants for each ordered pair, so it is kept for at most SIM_CONNECT_NODES_MAX nodes
 * and only for protocols that promise something in these terms. */
#ifndef CV_SIM_CONNECT_H
#define CV_SIM_CONNECT_H

#include "core/types.h"

#define SIM_CONNECT_NODES_MAX 256u

struct sim_world;

struct sim_connections {
    int64_t *since_ns;  /* by ordered pair: no message failed and the link is up since then */
    int64_t *fast_ns;   /* by receiver and sender: when a message within Delta last arrived; -1 */
    bool *is_linked;    /* by ordered pair, both ways: the link is up */
    int64_t *steady_ns; /* by node: up, awake and within its drift since then; INT64_MAX: is not */
};

void sim_connect_init(struct sim_world *world);
void sim_connect_fini(struct sim_world *world);

/* A message between them was lost or is late. */
void sim_connect_fail(struct sim_world *world, cv_id a, cv_id b);
/* A message arrived so long after it was sent. */
void sim_connect_arrive(struct sim_world *world, cv_id from, cv_id to, int64_t delay_ns);
/* Links, nodes or clocks have changed. */
void sim_connect_update(struct sim_world *world);

/* Since when these two are connected; INT64_MAX: they are not. */
int64_t sim_connect_since(const struct sim_world *world, cv_id a, cv_id b);

/* The Delta-partition that `id` has been in for at least `for_ns`, in `ret_set`, which is written
 * then only; false: in none. */
bool sim_connect_partition(const struct sim_world *world, cv_id id, int64_t for_ns,
                           uint64_t *ret_set);

#endif
