/* src/sim/history.h - the history of a run, for reports, timelines and tests.
 *
 * Written only in worlds that keep a history: hold.c records leaderships, beliefs, elections and
 * lives, actions.c records actions, sequencer_request.c requests. Memory grows with the run. */
#ifndef CV_SIM_HISTORY_H
#define CV_SIM_HISTORY_H

#include "scenario/scenario.h"

/* The latest score that a node reported, if messages carry scores. */
#define SIM_SCORE_PARTS 4u
struct sim_score {
    /* of its parts; 0: none reported, or the protocol has no scores */
    uint32_t count;
    int64_t part[SIM_SCORE_PARTS]; /* may be CV_SCORE_UNKNOWN */
};

struct sim_leadership_span {
    cv_id node;
    int64_t from_ns, to_ns;
    uint64_t token;
    const char *reason; /* why it ended */
    struct sim_score score;
};

struct sim_view {
    int64_t at_ns;
    cv_id node, leader;
    uint64_t token;
};

struct sim_election {
    int64_t fault_ns, detected_ns, elected_ns; /* -1: not (yet) */
    cv_id of;                                  /* the lost leader; CV_ID_NONE: the first election */
};

enum sim_life { SIM_LIFE_UP, SIM_LIFE_DOWN, SIM_LIFE_PAUSED };

struct sim_life_change {
    int64_t at_ns;
    cv_id node;
    enum sim_life life;
};

/* An action that had an effect, with the affected node. */
struct sim_done_action {
    int64_t at_ns;
    struct sim_action action;
};

/* A node asked the sequencer. */
struct sim_ask {
    int64_t at_ns;
    cv_id node;
};

struct sim_history {
    struct sim_leadership_span *span;
    uint32_t span_count, span_capacity;
    struct sim_view *view;
    uint32_t view_count, view_capacity;
    struct sim_election *election;
    uint32_t election_count, election_capacity;
    struct sim_life_change *life;
    uint32_t life_count, life_capacity;
    struct sim_done_action *done_action;
    uint32_t done_action_count, done_action_capacity;
    struct sim_ask *ask;
    uint32_t ask_count, ask_capacity;
    struct sim_score *score; /* by node; NULL: none was reported */
};

void sim_history_fini(struct sim_history *history);

#endif
