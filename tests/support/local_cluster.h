/* tests/support/local_cluster.h - simulated clusters of `local`, and what tests ask about them. */
#ifndef CV_TESTS_LOCAL_CLUSTER_H
#define CV_TESTS_LOCAL_CLUSTER_H

#include "support/cluster.h"
#include "support/support.h"

/* Longer than the defaults of lan, so that events that follow each other can be told apart. */
#define TIMES "ep=8ms expires=92.014408ms lock=123.014408ms"
#define LOCAL "protocol local " TIMES
#define EP_MS 8.0
#define EXPIRES_MS 92.014408
#define LOCK_MS 123.014408

double local_kappa_ms(const struct cluster *c);
/* The leaders, as bits of ids. */
uint32_t local_leaders(const struct cluster *c);
/* The support set of a leader; 0 if it does not lead. */
uint32_t local_supporters(const struct cluster *c, cv_id id);
/* Runs to the end; no promise may be broken. */
void local_end_well(struct cluster *c);
void local_act(struct cluster *c, struct sim_action action);

#endif
