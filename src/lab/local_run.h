/* src/lab/local_run.h - the worlds that `conclave lab local` measures.
 *
 * The network of [Fetzer99, sec. XI] (eight workstations on 10 Mbit/s Ethernet) is modelled by
 * delays of about 1 ms (normal, deviation 0.15 ms, no loss, none beyond Delta) and by CV_LAB_COST,
 * the time that a receiver spends on a message. The paper explains the linear growth of its
 * election time by one process that receives all the replies. The cost is the only constant that is
 * fitted to the paper's figures: 2 x 1 ms + 8 x 0.6 ms are about the 7 ms of its eight
 * processes. */
#ifndef CV_LAB_LOCAL_RUN_H
#define CV_LAB_LOCAL_RUN_H

#include "lab/lab.h"

#define CV_LAB_LINK "link * delay 1ms jitter 0.15ms dist=normal\n"
#define CV_LAB_COST "0.6ms"

/* The constants of the paper's measurements. */
#define CV_LAB_PAPER "delta=15ms sigma=30ms ep=50ms expires=230ms"
#define CV_LAB_DELTA_MS 15.0
#define CV_LAB_EP_MS 50.0
#define CV_LAB_EXPIRES_MS 230.0

/* ---- The stable state ------------------------------------------------------------------------ */

struct cv_lab_rounds {
    uint32_t node_count;
    uint32_t collate;     /* children of a node in the tree of answers; 0: direct answers */
    uint32_t round_count; /* rounds to measure */
    bool is_scaled; /* Delta and EP grow with the nodes (CV_LAB_SCALED_FROM); else the paper's */
};

/* With this number of nodes, the paper's Delta and this cost, the last answer is still fast. */
#define CV_LAB_SCALED_FROM 16u

struct cv_lab_stable {
    struct cv_samples election_ms; /* from sending an ELECTION to leading by it */
    bool is_kept;                  /* every round renewed the leadership; it never lapsed */
    bool is_sound;                 /* no promised property was broken */
    uint64_t broadcasts;           /* ELECTIONs, each counted once for all its receivers */
    uint64_t election_copies, replies, collated, others;
    uint64_t root_received; /* messages that the leader handled */
};

/* Node 1 leads all nodes. Measuring begins some rounds after the cost. The processes start without
 * cost: the n^2 messages of a start would be another experiment. */
void cv__lab_measure_stable(const struct cv_lab_rounds *rounds, struct cv_lab_stable *ret_stable);
/* The Delta of such a measurement. */
double cv__lab_delta_ms(const struct cv_lab_rounds *rounds);
void cv__lab_stable_fini(struct cv_lab_stable *stable);

/* ---- The loss of a leader -------------------------------------------------------------------- */

enum cv_lab_fault {
    CV_LAB_SPLIT,   /* 1..4 are cut off from 5..8 */
    CV_LAB_CRASH,   /* 1 crashes, and no node is told */
    CV_LAB_HINT,    /* 1 crashes, and one transmission later all are told that it seems dead */
    CV_LAB_CERTAIN, /* the same, but told by its own host, which is certain */
};

struct cv_lab_loss {
    enum cv_lab_fault fault;
    const char *options; /* in addition to the paper's constants */
};

#define CV_LAB_LOSS_NODES 8u

/* Times of the nodes that lost the old leader, in ms from the fault; -1: not within a second. */
struct cv_lab_recovery {
    double excluded_ms; /* the first of them sends an ELECTION */
    double elected_ms;  /* one of them leads */
    double followed_ms; /* all of them follow it */
    uint32_t attempts;  /* ELECTIONs that the new leader had sent by then */
    double gap_ms;      /* time without a leader on the old leader's side, within a second */
    bool is_sound;
};

/* One run. Over the seeds, the fault is spread evenly over the election period. */
struct cv_lab_recovery cv__lab_measure_loss(const struct cv_lab_loss *loss, uint64_t seed);

#endif
