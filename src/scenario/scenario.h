/* src/scenario/scenario.h - a scenario: nodes, links, faults and expectations, read from text.
 *
 * docs/scenarios.md describes the language. A scenario does not change after it was read: any
 * number of worlds, on any number of threads, may run it with different seeds. */
#ifndef CV_SCENARIO_SCENARIO_H
#define CV_SCENARIO_SCENARIO_H

#include "scenario/change.h"

#include <stdio.h>

#define SIM_NODE_LEADER (CV_MEMBERS_MAX + 1) /* in an action: the leader at that time */

enum sim_action_kind {
    SIM_ACTION_CRASH,
    SIM_ACTION_RECOVER,
    SIM_ACTION_PAUSE,
    SIM_ACTION_RESUME,
    SIM_ACTION_PARTITION,
    SIM_ACTION_HEAL,
    SIM_ACTION_LINK,
    SIM_ACTION_OVERLAY, /* loss, slow, duplicate, reorder: on every link, for a while */
    SIM_ACTION_CLOCK,
    SIM_ACTION_DISK,
    SIM_ACTION_COST, /* of handling a message, at every node */
    SIM_ACTION_RESIGN,
    SIM_ACTION_CAMPAIGN,
    SIM_ACTION_REPORT,
    SIM_ACTION_PEER_DOWN,
    SIM_ACTION_SEQUENCER,
    SIM_ACTION_STORE,
    SIM_ACTION_REBOOT,
    SIM_ACTION_FIRE,    /* manual: fires a timer */
    SIM_ACTION_DELIVER, /* manual: delivers a waiting message */
    SIM_ACTION_LOSE,    /* manual: loses it */
    SIM_ACTION_LATE,    /* manual: delivers it later than the protocol assumes */
    SIM_ACTION_TIMERS,
    SIM_ACTION_COUNT,
};

struct sim_action {
    int64_t at_ns;  /* SIM_SETUP: before the nodes start */
    int64_t for_ns; /* how long it lasts; 0: until something else ends it */
    enum sim_action_kind kind;
    uint32_t line;
    cv_id node;          /* CV_ID_NONE: all nodes, if the action allows that */
    uint64_t ends;       /* number of the fault that this action ends; 0: it ends none */
    union {              /* by kind; other kinds need only a node */
        uint16_t *group; /* PARTITION: by node; belongs to the scenario */
        struct sim_link_change link;
        struct {
            enum sim_overlay kind;
            int64_t amount; /* a share in ppb; SLOW: nanoseconds */
        } overlay;
        struct sim_drift clock;
        struct {
            enum sim_disk_verb verb;
            enum sim_save save;
            int64_t delay_ns;
            bool fails;
        } disk;
        bool is_witnessed; /* CRASH: its witness tells the other nodes */
        int64_t back_ns;   /* RECOVER: its machine has booted, and its clock is set back by this */
        uint32_t timer;    /* FIRE */
        struct sim_pick pick; /* DELIVER, LOSE, LATE */
        int64_t cost_ns;
        int64_t late_ns; /* TIMERS: they fire up to so much later */
        struct {
            cv_id to; /* requested successor; CV_ID_NONE: any */
        } resign;
        struct {
            bool is_on;
        } campaign;
        struct {
            enum cv_input input;
            int64_t value;
        } report;
        struct {
            cv_id peer; /* the node that is reported dead */
            bool is_certain;
        } peer_down;
        struct sim_sequencer_change sequencer;
        struct sim_store_change store;
    };
};
#define SIM_SETUP INT64_C(-1)

/* Kinds of random faults. */
#define SIM_FAULT_MAP(X)      \
    X(CRASH, "crash")         \
    X(REBOOT, "reboot")       \
    X(PAUSE, "pause")         \
    X(PARTITION, "partition") \
    X(LINK, "link")           \
    X(ONEWAY, "oneway")       \
    X(LOSS, "loss")           \
    X(SLOW, "slow")           \
    X(DUPLICATE, "duplicate") \
    X(REORDER, "reorder")     \
    X(RESIGN, "resign")       \
    X(JOIN, "join")           \
    X(SEQUENCER, "sequencer") \
    X(STORE, "store")

enum sim_fault {
#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
    SIM_FAULT_MAP(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULT_COUNT
};

struct sim_random_faults {
    int64_t rate_ppb; /* faults per second, in 1e-9 */
    int64_t from_ns, until_ns;
    int64_t lasting_min_ns, lasting_max_ns;
    uint32_t kinds; /* bits of sim_fault */
    uint32_t line;
};

enum sim_expect_kind {
    SIM_EXPECT_LEADER,   /* every listed node follows this leader */
    SIM_EXPECT_LEADERS,  /* exactly these hold a valid leadership */
    SIM_EXPECT_PROPERTY, /* this property holds */
    SIM_EXPECT_BROKEN,   /* this property is broken */
    SIM_EXPECT_MESSAGES, /* a number of messages of a type is sent in a time */
    SIM_EXPECT_CHANGES,  /* a number of leaderships begins in a time */
};

enum sim_compare { SIM_AT_MOST, SIM_AT_LEAST, SIM_BELOW, SIM_ABOVE, SIM_EQUAL };

#define SIM_MESSAGE_ANY UINT32_MAX

struct sim_expect {
    enum sim_expect_kind kind;
    uint32_t line;
    int64_t at_ns;   /* LEADER, LEADERS: when it is judged; else the window's end */
    int64_t from_ns; /* MESSAGES, CHANGES: the window's beginning */
    cv_id leader;    /* LEADER: CV_ID_NONE for any, the same for all */
    /* LEADER: nodes that must follow it (NULL: all that are up); LEADERS: leaders */
    uint64_t *nodes;
    enum cv_property property;
    uint32_t message; /* type, or SIM_MESSAGE_ANY */
    enum sim_compare compare;
    uint64_t count;
    char *text; /* as written */
};

struct sim_site {
    char *name;
};

struct sim_scenario {
    char *name;
    const struct cv_protocol *protocol;
    struct cv_config config; /* checked, for node 1; for the others only `self` differs */
    uint32_t promises,
        assumes; /* of the protocol with this configuration; assertions always hold */
    uint32_t node_count;
    uint64_t seed;
    int64_t run_ns;
    int64_t start_within_ns;
    bool is_manual;       /* timers and messages wait until an action lets them happen */
    int64_t fast_ns;      /* bound of a fast message; cores know their own */
    int64_t delay_min_ns; /* what the bound computation may assume */

    struct sim_action *action;
    uint32_t action_count, action_capacity;
    struct sim_random_faults *random;
    uint32_t random_count, random_capacity;
    struct sim_expect *expect;
    uint32_t expect_count, expect_capacity;

    struct sim_site site[SIM_SITES_MAX]; /* from 1; 0 means no site */
    uint32_t site_count;
    uint8_t *site_of; /* by node */
    bool *is_down;    /* by node: does not start with the others */
    struct sim_rtt {
        uint32_t a, b;
        int64_t rtt_ns;
    } * rtt;
    uint32_t rtt_count, rtt_capacity;
};

/* Reads a scenario from text; error texts begin with `name`. On failure *reterr says
 * "name:line:column: what is wrong; hint". */
CV_NODISCARD int sim_scenario_parse(const char *name, const char *text, size_t length,
                                    struct sim_scenario **ret_scenario, struct cv_errtext *reterr);

/* The same from a file. */
CV_NODISCARD int sim_scenario_load(const char *path, struct sim_scenario **ret_scenario,
                                   struct cv_errtext *reterr);

/* Reads a whole text file (at most 16 MiB, no NUL bytes) that the caller frees. */
CV_NODISCARD int sim_scenario_read(const char *path, char **ret_text, size_t *ret_length,
                                   struct cv_errtext *reterr);

void sim_scenario_free(struct sim_scenario *scenario);

/* Writes an action as the line of a scenario, without its end. */
void sim_action_print(const struct sim_action *action, uint32_t node_count, FILE *out);

#endif
