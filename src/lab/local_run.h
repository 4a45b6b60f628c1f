/* src/lab/local_run.h - the worlds that `conclave lab local` measures.
 *
 * The network of [Fetzer99, sec. XI] (eight workstations on 10 Mbit/s Ethernet) is modelled by
 * delays around 1 ms (normal, deviation 0.15 ms, none lost, none beyond Delta) and by CV_LAB_COST,
 * the time a receiver spends on a message: the paper explains the linear growth of its election
 * time by one process receiving all the replies. The cost is the one constant that is fitted to the
 * paper's figures: 2 x 1 ms + 8 x 0.6 ms are about the 7 ms of its eight processes. */
#ifndef CV_LAB_LOCAL_RUN_H
#define CV_LAB_LOCAL_RUN_H

#include "lab/lab.h"

#define CV_LAB_LINK "link * delay 1ms jitter 0.15ms dist=normal\n"
#define CV_LAB_COST "0.6ms"
#define CV_LAB_COST_MS 0.6

/* The constants of the paper's measurements. */
#define CV_LAB_PAPER "delta=15ms sigma=30ms ep=50ms expires=230ms"
#define CV_LAB_DELTA_MS 15.0
#define CV_LAB_EP_MS 50.0
#define CV_LAB_EXPIRES_MS 230.0

/* ---- The stable state ------------------------------------------------------------------------ */

struct cv_lab_rounds {
    uint32_t node_count;
    uint32_t collate;     /* children of a node in the tree of answers; 0: direct answers */
    uint32_t round_count; /* to measure */
    bool is_scaled; /* Delta and EP grow with the nodes (CV_LAB_SCALED_FROM); else the paper's */
};

/* With the paper's Delta and this cost, the last of these answers is still a fast message. */
#define CV_LAB_SCALED_FROM 16u

struct cv_lab_stable {
    struct cv_samples election_ms; /* from sending an ELECTION to leading by it */
    bool is_kept;                  /* every round renewed the leadership, which never lapsed */
    bool is_sound;                 /* no promised property was broken */
    uint64_t broadcasts;           /* ELECTIONs, each counted once for all its receivers */
    uint64_t election_copies, replies, collated, others;
    uint64_t root_received; /* messages that the leader handled */
};

/* Node 1 leads everybody; measured from a while after the cost is there. The processes meet without
 * cost: n^2 messages of a start are another experiment. */
void cv__lab_measure_stable(const struct cv_lab_rounds *rounds, struct cv_lab_stable *ret_stable);
/* The Delta of such a measurement. */
double cv__lab_delta_ms(const struct cv_lab_rounds *rounds);
void cv__lab_stable_fini(struct cv_lab_stable *stable);

/* ---- The loss of a leader -------------------------------------------------------------------- */

enum cv_lab_fault {
    CV_LAB_SPLIT,   /* 1..4 are cut off from 5..8 */
    CV_LAB_CRASH,   /* 1 crashes, and nobody is told */
    CV_LAB_HINT,    /* 1 crashes, and one transmission later all are told that it seems dead */
    CV_LAB_CERTAIN, /* the same by its own host, which knows */
};

struct cv_lab_loss {
    enum cv_lab_fault fault;
    const char *options; /* in addition to the paper's constants */
};

#define CV_LAB_LOSS_NODES 8u

/* Of the nodes without the old leader; -1: not within a second. In ms from the fault. */
struct cv_lab_recovery {
    double excluded_ms; /* the first of them sends an ELECTION */
    double elected_ms;  /* one of them leads */
    double followed_ms; /* all of them follow it */
    uint32_t attempts;  /* ELECTIONs that the new leader had sent by then */
    double gap_ms;      /* within a second, without a leader where the old one is */
    bool is_sound;
};

/* One run. The fault comes at an instant of the election period that the seed decides evenly. */
struct cv_lab_recovery cv__lab_measure_loss(const struct cv_lab_loss *loss, uint64_t seed);

#endif
