/* src/sim/scenario.h - a scenario: nodes, links, faults and expectations, read from text.
 *
 * docs/scenarios.md describes the language. A scenario is read once and then only looked at: any
 * number of worlds, on any number of threads, may run it with different seeds. */
#ifndef CV_SIM_SCENARIO_H
#define CV_SIM_SCENARIO_H

#include "core/types.h"
#include "sim/network.h"
#include "sim/sequencer.h"
#include "sim/store.h"

#include <stdio.h>

#define CV_NODE_LEADER (CV_MEMBERS_MAX + 1) /* in an action: whoever leads when it happens */

enum cv_action_kind {
    CV_ACTION_CRASH,
    CV_ACTION_RECOVER,
    CV_ACTION_PAUSE,
    CV_ACTION_RESUME,
    CV_ACTION_PARTITION,
    CV_ACTION_HEAL,
    CV_ACTION_LINK,
    CV_ACTION_OVERLAY, /* loss, slow, duplicate, reorder: on every link, for a while */
    CV_ACTION_CLOCK,
    CV_ACTION_DISK,
    CV_ACTION_COST, /* of handling a message, at every node */
    CV_ACTION_RESIGN,
    CV_ACTION_CAMPAIGN,
    CV_ACTION_REPORT,
    CV_ACTION_PEER_DOWN,
    CV_ACTION_SEQUENCER,
    CV_ACTION_STORE,
    CV_ACTION_COUNT,
};

enum cv_disk { CV_DISK_OK, CV_DISK_FAILS };

struct cv_action {
    int64_t at_ns;  /* CV_SETUP: before the nodes start */
    int64_t for_ns; /* how long it lasts; 0: until something else ends it */
    enum cv_action_kind kind;
    uint32_t line;
    cv_id node;  /* CV_ID_NONE: all of them, where that makes sense */
    cv_id other; /* RESIGN: to whom; PEER_DOWN: who is said to be dead */
    enum cv_overlay overlay;
    enum cv_input input;
    int64_t value; /* drift in ppb, overlay, report, disk delay, cost */
    bool
        flag; /* CAMPAIGN: on; DISK: fails; CLOCK: a random drift up to value; PEER_DOWN: certain */
    struct cv_link_change link;
    struct cv_sequencer_change sequencer;
    struct cv_simstore_change store;
    uint16_t *group; /* PARTITION: by node; belongs to the scenario */
};
#define CV_SETUP INT64_C(-1)

/* Kinds of random faults. */
#define CV_FAULT_MAP(X)       \
    X(CRASH, "crash")         \
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

enum cv_fault {
#define CV_FAULT_ENUM(name, text) CV_FAULT_##name,
    CV_FAULT_MAP(CV_FAULT_ENUM)
#undef CV_FAULT_ENUM
        CV_FAULT_COUNT
};

struct cv_random_faults {
    int64_t rate_ppb; /* faults per second, in 1e-9 */
    int64_t from_ns, until_ns;
    int64_t lasting_min_ns, lasting_max_ns;
    uint32_t kinds; /* bits of cv_fault */
    uint32_t line;
};

enum cv_expect_kind {
    CV_EXPECT_LEADER,   /* every listed node believes in this leader */
    CV_EXPECT_LEADERS,  /* exactly these hold a valid leadership */
    CV_EXPECT_PROPERTY, /* this property holds */
    CV_EXPECT_BROKEN,   /* this property does not */
    CV_EXPECT_MESSAGES, /* so many messages of a type are sent in a time */
    CV_EXPECT_CHANGES,  /* so many leaderships begin in a time */
};

enum cv_compare { CV_AT_MOST, CV_AT_LEAST, CV_BELOW, CV_ABOVE, CV_EQUAL };

#define CV_MESSAGE_ANY UINT32_MAX

struct cv_expect {
    enum cv_expect_kind kind;
    uint32_t line;
    int64_t at_ns;   /* LEADER, LEADERS: when it is judged; else the window's end */
    int64_t from_ns; /* MESSAGES, CHANGES: the window's beginning */
    cv_id leader;    /* LEADER: CV_ID_NONE for any, the same for all */
    uint64_t *nodes; /* LEADER: who must believe it (NULL: all that are up); LEADERS: who leads */
    enum cv_property property;
    uint32_t message; /* type, or CV_MESSAGE_ANY */
    enum cv_compare compare;
    uint64_t count;
    char *text; /* as written */
};

struct cv_site {
    char *name;
};

struct cv_scenario {
    char *name;
    const struct cv_protocol *protocol;
    struct cv_config config; /* checked, for node 1; the others differ in `self` only */
    uint32_t promises,
        assumes; /* of the protocol with this configuration; assertions always hold */
    uint32_t node_count;
    uint64_t seed;
    int64_t run_ns;
    int64_t start_within_ns;
    int64_t fast_ns;      /* a message with a delay bound up to this is fast */
    int64_t delay_min_ns; /* what the bound computation may assume */

    struct cv_action *action;
    uint32_t action_count, action_capacity;
    struct cv_random_faults *random;
    uint32_t random_count, random_capacity;
    struct cv_expect *expect;
    uint32_t expect_count, expect_capacity;

    struct cv_site site[CV_SITES_MAX]; /* from 1; 0 means no site */
    uint32_t site_count;
    uint8_t *site_of; /* by node */
    bool *is_down;    /* by node: does not start with the others */
    struct cv_rtt {
        uint32_t a, b;
        int64_t rtt_ns;
    } * rtt;
    uint32_t rtt_count, rtt_capacity;
};

/* Reads a scenario from text; `name` stands in messages. On failure *reterr says
 * "name:line:column: what is wrong; hint". */
CV_NODISCARD int cv__scenario_parse(const char *name, const char *text, size_t length,
                                    struct cv_scenario **ret_scenario, struct cv_errtext *reterr);

/* The same from a file. */
CV_NODISCARD int cv__scenario_load(const char *path, struct cv_scenario **ret_scenario,
                                   struct cv_errtext *reterr);

/* Reads a whole text file (at most 16 MiB, no NUL bytes) that the caller frees. */
CV_NODISCARD int cv__text_load(const char *path, char **ret_text, size_t *ret_length,
                               struct cv_errtext *reterr);

void cv__scenario_free(struct cv_scenario *scenario);

/* Writes an action as the line of a scenario, without its end. */
void cv__action_print(const struct cv_action *action, uint32_t node_count, FILE *out);

#endif
