/* src/sim/node.h - one simulated node: its life, its timers, its disk, and the steps of its core.
 *
 * host/node.h has the duties of every host. This file adds what a kernel does for a real process: a
 * drifting clock, timers as entries of the world's queue, a slow disk. */
#ifndef CV_SIM_NODE_H
#define CV_SIM_NODE_H

#include "core/failaware.h"
#include "host/node.h"
#include "scenario/change.h"
#include "sim/clock.h"

#define SIM_DEFERRED_MAX 256u /* effects of a node that wait for its disk; as in a real process */

struct sim_world;

/* The real instant at which an armed timer of a node is due. */
struct sim_timer {
    int64_t due_ns;    /* with `manual`: the latest instant; it may fire from host.due_ns on */
    int64_t queued_ns; /* instant of its queue entry; INT64_MAX: none */
};

/* Survives crashes. */
struct sim_disk {
    int64_t delay_ns;  /* how long saving takes */
    int64_t saving_ns; /* how long the present save takes */
    bool fails;
    enum sim_save next; /* how the next record is saved; for that record only */
    /* a save ended while the node was paused; it learns of that when it wakes */
    bool has_ended;
    uint32_t word_count; /* the record */
    uint64_t word[CV_PERSIST_WORDS_MAX];
};

struct sim_node {
    struct sim_world *world;
    cv_id id;
    void *state;
    struct cv_node host;          /* what every host keeps for a core: timers, effects that wait */
    struct cv_deferred *deferred; /* slots for waiting effects; NULL until one has to wait */
    struct sim_clock clock;
    uint64_t boot;     /* identifies the clock: a machine has one for each boot */
    bool is_rebooting; /* it is down because its machine is */
    bool is_up, is_paused;
    int64_t acts_from_ns;  /* since then */
    bool has_stopped;      /* its disk failed: it takes no part until it starts again */
    uint32_t cut;          /* from the store or the sequencer: SIM_CUT_* */
    uint64_t life;         /* how often it has started */
    uint64_t nonce;        /* of this life: its label, if the protocol is anonymous */
    uint64_t waiting_life; /* the life in which it waits for a notification of the store; 0: none */
    uint64_t cut_fault;    /* number of the fault that cut it from them */
    int64_t certain_ns;    /* local clock; from then on a witness can be certain */
    uint64_t *heard_life;  /* by peer: the latest life heard; NULL: there are no witnesses */
    uint64_t fault;        /* number of its latest crash or pause, so that only that one is ended */
    int64_t busy_ns;       /* until then it handles earlier messages, if handling costs time */
    struct sim_timer timer[CV_TIMERS_MAX];
    int64_t late_ns; /* a timer fires late by a random time up to this */
    struct sim_disk disk;

    uint32_t *backlog; /* messages that arrived while it was paused */
    uint32_t backlog_count, backlog_capacity;
    struct cv_echo *echo; /* by peer; NULL until a message was received */
};

extern const struct cv_node_calls sim_node_calls;

/* Gives an event to a node that is up, and carries out the effects. */
void sim_node_step(struct sim_world *world, cv_id node, struct cv_event *event);
void sim_node_start(struct sim_world *world, cv_id node);
/* The process ends; the machine and its clock keep running. */
void sim_node_crash(struct sim_world *world, cv_id node);
/* The machine goes down with the process; its clock starts near zero when the node starts. */
void sim_node_reboot(struct sim_world *world, cv_id node);
/* The machine of a node that is down has booted, and its clock is set back by back_ns. */
void sim_node_set_back(struct sim_world *world, cv_id node, int64_t back_ns);
void sim_node_wake(struct sim_world *world, cv_id node);
void sim_node_set_drift(struct sim_world *world, cv_id node, int64_t drift_ppb,
                        int64_t drift_parts);

/* Ends the slow save of a record, as `how` says (not SIM_SAVE_SLOW). False: there is none, or the
 * node is down or paused. */
bool sim_node_end_save(struct sim_world *world, cv_id node, enum sim_save how);

/* Entries of the queue: a timer may be due, a save has ended. */
void sim_node_on_timer(struct sim_world *world, uint32_t ref);
void sim_node_on_disk(struct sim_world *world, uint32_t ref);

#endif
