/* src/scenario/change.h - what a line of a scenario may change in the world around the nodes:
 * links, disks, the sequencer, the store; and which message it means. The simulator carries the
 * changes out. */
#ifndef CV_SCENARIO_CHANGE_H
#define CV_SCENARIO_CHANGE_H

#include "core/types.h"

/* ---- Links ----------------------------------------------------------------------------------- */

#define SIM_SITES_MAX 64u
#define SIM_PPB_ONE INT64_C(1000000000) /* 100 % */

/* How fast a clock runs. */
struct sim_drift {
    int64_t ppb; /* or, if `parts` is not 0, exactly 1 / parts: 11 or -11 */
    int64_t parts;
    bool is_random; /* drawn from -ppb to +ppb */
};

enum sim_dist { SIM_DIST_CONSTANT, SIM_DIST_UNIFORM, SIM_DIST_NORMAL, SIM_DIST_PARETO };

struct sim_link {
    int64_t delay_ns;
    int64_t jitter_ns;  /* absolute, or ... */
    int64_t jitter_ppb; /* ... relative to the delay; at most one of the two is not zero */
    int64_t loss_ppb, duplicate_ppb, reorder_ppb;
    enum sim_dist dist;
    bool is_down;
};

enum {
    SIM_LINK_DELAY = 1,
    SIM_LINK_JITTER = 2,
    SIM_LINK_DIST = 4,
    SIM_LINK_LOSS = 8,
    SIM_LINK_DUPLICATE = 16,
    SIM_LINK_REORDER = 32,
    SIM_LINK_DOWN = 64,
};

/* Changes attributes of links: from first to second, or in both directions; CV_ID_NONE: all
 * nodes. */
struct sim_link_change {
    cv_id first, second;
    bool is_one_way;
    uint32_t mask; /* SIM_LINK_*: which attributes of `link` are set */
    struct sim_link link;
};

/* Temporary faults on every link, in addition to the link's own attributes; 0 ends one. */
enum sim_overlay {
    SIM_OVERLAY_LOSS,
    SIM_OVERLAY_SLOW,
    SIM_OVERLAY_DUPLICATE,
    SIM_OVERLAY_REORDER,
    SIM_OVERLAY_COUNT
};

/* Which directions between a node and the sequencer or the store are cut. */
enum { SIM_CUT_QUERIES = 1, SIM_CUT_ANSWERS = 2, SIM_CUT_BOTH = 3 };

/* ---- Disks ----------------------------------------------------------------------------------- */

enum sim_disk_verb {
    SIM_DISK_SET,  /* `delay_ns` and `fails`, from now on */
    SIM_DISK_NEXT, /* the next record only: how it is saved */
    SIM_DISK_DONE, /* the record that is saved slowly: how that ends */
};

enum sim_save {
    SIM_SAVE_WELL,
    SIM_SAVE_SLOW,          /* takes until the scenario says `done` */
    SIM_SAVE_FAILS,         /* fails, and is not durable */
    SIM_SAVE_FAILS_DURABLE, /* is durable, although the node is told that it failed */
    /* durable, but the node crashes before any later effect is carried out */
    SIM_SAVE_CRASHES,
    SIM_SAVE_COUNT,
};

/* ---- Messages that wait for the scenario (`manual`) ------------------------------------------ */

#define SIM_NODE_SERVICE (CV_MEMBERS_MAX + 2) /* as an end of a path: the store or the sequencer */

enum {
    SIM_PICK_TYPE = 1,
    SIM_PICK_SENT = 2,
    SIM_PICK_NUMBER = 4,
    SIM_PICK_WITNESS = 8, /* the message of a dead node's witness */
    SIM_PICK_AGAIN = 16,  /* a copy keeps waiting, and can arrive once more */
};

/* A waiting message on this path; of several, the one that was sent first. */
struct sim_pick {
    cv_id from, to;
    bool is_of_store; /* SIM_NODE_SERVICE is the store; otherwise the sequencer */
    uint32_t mask;    /* SIM_PICK_*: which attributes are given */
    const struct cv_message_type *type;
    int64_t sent_ns;
    uint64_t number; /* from 1: among like messages on this path that were sent at one instant */
};

/* ---- The sequencer --------------------------------------------------------------------------- */

enum sim_sequencer_verb {
    SIM_SEQUENCER_SET, /* sets the attributes in `mask` */
    SIM_SEQUENCER_RESET,
    SIM_SEQUENCER_WIPE,
    SIM_SEQUENCER_DOWN,
    SIM_SEQUENCER_UP,
    SIM_SEQUENCER_SKIP, /* other clients take `skip` numbers */
    SIM_SEQUENCER_CUT,  /* requests of one node, or answers to it, are lost */
    SIM_SEQUENCER_MEND,
    SIM_SEQUENCER_VERB_COUNT,
};

enum {
    SIM_SEQUENCER_DELAY = 1,
    SIM_SEQUENCER_SERIAL = 2,
    SIM_SEQUENCER_QUERY_LOSS = 4,
    SIM_SEQUENCER_ANSWER_LOSS = 8,
    SIM_SEQUENCER_START = 16,
    SIM_SEQUENCER_BOOTS = 32,
};

/* A change, as a scenario writes it. */
struct sim_sequencer_change {
    enum sim_sequencer_verb verb;
    uint32_t mask;
    int64_t delay_ns, serial_ns;
    int64_t query_loss_ppb, answer_loss_ppb;
    uint64_t start; /* the next number */
    uint64_t boots; /* 0: the agent does not report it */
    uint64_t skip;
    uint32_t cut; /* CUT: SIM_CUT_* */
};

/* ---- The store ------------------------------------------------------------------------------- */

enum sim_store_verb {
    SIM_STORE_SET, /* sets the attributes in `mask` */
    SIM_STORE_RESTART,
    SIM_STORE_DOWN,
    SIM_STORE_UP,
    SIM_STORE_CUT, /* requests of one node, or answers to it, are lost */
    SIM_STORE_MEND,
    SIM_STORE_VERB_COUNT,
};

enum {
    SIM_STORE_DELAY = 1,
    SIM_STORE_JITTER = 2,
    SIM_STORE_QUERY_DELAY = 4,
    SIM_STORE_ANSWER_DELAY = 8,
    SIM_STORE_QUERY_LOSS = 16,
    SIM_STORE_ANSWER_LOSS = 32,
    SIM_STORE_NOTIFICATION_LOSS = 64,
    SIM_STORE_DRIFT = 128,
    SIM_STORE_LASTING = SIM_STORE_QUERY_DELAY | SIM_STORE_ANSWER_DELAY | SIM_STORE_QUERY_LOSS |
                        SIM_STORE_ANSWER_LOSS | SIM_STORE_NOTIFICATION_LOSS,
};

/* Faults between nodes and the store: permanent ones, or additional ones for a while. */
struct sim_store_trouble {
    int64_t query_delay_ns, answer_delay_ns;
    int64_t query_loss_ppb, answer_loss_ppb, notification_loss_ppb;
};

/* A change, as a scenario writes it. */
struct sim_store_change {
    enum sim_store_verb verb;
    uint32_t mask;
    int64_t delay_ns, jitter_ns;
    struct sim_drift drift;
    struct sim_store_trouble trouble;
    bool extends;   /* RESTART: the lease begins again */
    bool is_silent; /* RESTART: open requests are never answered */
    uint32_t cut;   /* CUT: SIM_CUT_* */
};

#endif
