/* src/sim/world.h - one run of a scenario: a deterministic discrete-event world over the cores.
 *
 * The world has virtual real time in nanoseconds from 0, a queue of coming events, nodes with a
 * drifting clock, a core and a disk record each, and a network between them. The same scenario and
 * seed give the same run to the byte. Memory grows with nodes and messages in flight; the delay
 * bounds need an entry for each pair that talks, and are left out (messages are then slow) beyond
 * SIM_BOUNDS_NODES_MAX nodes.
 *
 * world.c runs the events, node.c is one node and its disk, message.c carries messages,
 * sequencer_request.c asks the sequencer, store_request.c the store, hold.c records who leads,
 * properties.c reports events to the properties, expect.c judges the expectations, actions.c
 * carries out the scenario's actions, and manual.c lets events wait for them. */
#ifndef CV_SIM_WORLD_H
#define CV_SIM_WORLD_H

#include "properties/properties.h"
#include "scenario/scenario.h"
#include "sim/history.h"
#include "sim/manual.h"
#include "sim/message.h"
#include "sim/network.h"
#include "sim/node.h"
#include "sim/properties.h"
#include "sim/queue.h"
#include "sim/sequencer.h"
#include "sim/sequencer_request.h"
#include "sim/store.h"
#include "sim/store_request.h"
#include "trace/trace.h"

struct sim_expect_result {
    bool is_ok;
    char detail[120];
};

/* Kinds of entries in the queue. */
enum sim_event_kind {
    SIM_EVENT_START,
    SIM_EVENT_DELIVER,
    SIM_EVENT_TIMER,
    SIM_EVENT_DISK,
    SIM_EVENT_ACTION,
    SIM_EVENT_CHECK,
    SIM_EVENT_SEQUENCER_REQUEST,
    SIM_EVENT_SEQUENCER_ANSWER,
    SIM_EVENT_STORE_REQUEST,
    SIM_EVENT_EXPIRY,
};

struct sim_world_options {
    bool keeps_history;  /* for reports: spans, views and so on; memory grows with the run */
    FILE *trace;         /* JSON lines of everything; NULL: none */
    cv_observe *observe; /* the same for a program; NULL: none */
    void *context;       /* first argument of `observe` */
    bool takes_notes;    /* the tail contains the notes of the cores; with a trace it always does */
};

/* Entries of `fired`: the actions, then the overlays by kind, then links cut in one direction. */
enum { SIM_FIRED_ONEWAY = SIM_ACTION_COUNT + SIM_OVERLAY_COUNT, SIM_FIRED_COUNT };

/* Numbers of the latest faults that last a while. The end of a fault has no effect if a later fault
 * of its kind has begun since. The numbers of faults of single nodes are in struct sim_node. */
struct sim_faults {
    uint64_t count;
    uint64_t partition;
    uint64_t overlay[SIM_OVERLAY_COUNT];
    uint64_t sequencer[SIM_SEQUENCER_VERB_COUNT];
    uint64_t store[SIM_STORE_VERB_COUNT];
};

struct sim_world {
    const struct sim_scenario *scenario;
    const struct cv_protocol *protocol;
    struct sim_world_options options;
    uint64_t seed;
    int64_t now_ns;
    bool is_over; /* an assertion failed: the run ends */

    uint32_t node_count;
    struct sim_node *node; /* by id - 1 */
    uint8_t *states;
    struct sim_network *network;
    int64_t cost_ns; /* how long a node is busy with a message */
    struct sim_queue queue;
    struct sim_rng net_rng, timer_rng;
    /* only for drawing random faults, so that they can be written as actions */
    struct sim_rng fault_rng;
    struct sim_rng wake_rng; /* clocks, and what a waking node handles first */

    struct sim_action *action; /* the scenario's, the drawn ones, and ends */
    uint32_t action_count, action_capacity;
    struct sim_faults faults;
    struct sim_manual manual;
    cv_id crashing; /* the node that crashes after this step, because of SIM_SAVE_CRASHES */
    uint64_t fired[SIM_FIRED_COUNT]; /* how often each action or overlay had an effect */

    struct sim_messages messages;

    struct sim_sequencer sequencer;
    struct sim_sequencer_requests sequencer_requests;

    struct sim_store store;
    struct sim_store_requests store_requests;

    struct cv_node_host host; /* of the node being stepped; its counts are of all nodes */
    struct cv_node_calls calls;
    struct cv_effects effects;

    uint64_t begun_count;  /* leaderships */
    uint64_t *expect_seen; /* messages or leaderships in each expectation's window */
    struct sim_expect_result *expect_result; /* by expectation */

    struct cv_properties properties; /* with each node's belief and leadership */
    bool is_check_queued;
    char *tail; /* the last events before the first promise was broken; NULL: none was */
    struct cv_trace trace;

    struct sim_history history; /* empty unless the options ask for one */
};

static inline struct sim_node *sim_world_node(struct sim_world *w, cv_id id)
{
    CV_ASSERT(id >= 1 && id <= w->node_count);
    return &w->node[id - 1];
}

/* The host shared by all nodes, set to this one: no node is stepped within the step of another. */
static inline struct cv_node_host *sim_world_host(struct sim_node *n)
{
    struct cv_node_host *host = &n->world->host;
    CV_ASSERT(!n->host.is_busy);
    host->self = n;
    host->core = n->state;
    host->deferred = n->deferred;
    return host;
}

/* `scenario` is lent for the world's life. */
struct sim_world *sim_world_new(const struct sim_scenario *scenario, uint64_t seed,
                                const struct sim_world_options *options);
void sim_world_free(struct sim_world *world);

/* Runs all events up to and including that instant; at the end of the run, judges the whole run. */
void sim_world_run(struct sim_world *world, int64_t until_ns);

/* Runs the whole scenario. True: every promise and every expectation held. */
bool sim_world_run_all(struct sim_world *world);

/* The properties that must hold: the promises, except those that the scenario expects to break. */
uint32_t sim_world_enforced(const struct sim_world *world);

/* True: these hold, and every expectation is met. */
bool sim_world_is_ok(const struct sim_world *world);

/* Does this node hold a leadership that is valid now? What is_leader() would say to the
 * application. */
bool sim_world_holds(const struct sim_world *world, cv_id node);

/* ---- Between world.c, actions.c and properties.c --------------------------------------------- */

/* For the trace. */
void sim_world_note(struct sim_world *world, enum cv_record_kind kind, cv_id node, cv_id peer,
                    uint32_t what, uint64_t number, int64_t bound_ns);
/* Adds an action and queues it. */
void sim_world_schedule_action(struct sim_world *world, const struct sim_action *action);

/* Carries out an entry of the queue, or one that waited. */
void sim_world_dispatch(struct sim_world *world, uint32_t kind, uint32_t ref);
/* The entry is lost; or arrives once more: returns the reference of the copy. */
void sim_world_lose(struct sim_world *world, uint32_t kind, uint32_t ref);
uint32_t sim_world_repeat(struct sim_world *world, uint32_t kind, uint32_t ref);
/* Crashes the node of `crashing`. */
void sim_actions_crash(struct sim_world *world);

/* Draws the random faults of the scenario and schedules every action. */
void sim_actions_schedule(struct sim_world *world);
void sim_actions_do(struct sim_world *world, uint32_t index);

#endif
