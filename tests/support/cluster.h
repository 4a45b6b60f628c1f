/* tests/support/cluster.h - a simulated cluster that a test controls step by step.
 *
 * A thin layer over sim/world.h. A cluster is started from the text of a scenario (in which `run`
 * is only the latest instant that the test may go to), runs to instants, acts on nodes, and answers
 * what tests of the literature ask: whom a node believes in, which messages were sent between two
 * instants, by whom and to whom, and what the messages under way contain. Instants are in
 * milliseconds of real time; with a delay of 1 ms they are transmission times. */
#ifndef CV_TESTS_CLUSTER_H
#define CV_TESTS_CLUSTER_H

#include "sim/world.h"

struct cluster {
    struct sim_scenario *scenario;
    struct sim_world *world;
    char *trace; /* JSON lines; it grows during the run */
    size_t trace_bytes;
    FILE *trace_file;
};

/* The text is a scenario; a format as for printf. A text that is refused fails the test. */
struct cluster *cluster_start(const char *format, ...) CV_PRINTF(1, 2);

/* Nodes of a classical protocol, with a transmission time and a bound on delays of 1 ms, that have
 * settled on the highest id and run until that instant, which lies between two heartbeats. */
struct cluster *cluster_settled(const char *protocol, uint32_t timeout_s, uint32_t nodes,
                                double until_ms);

/* Its coordinator, the highest id, crashes now. Those in the set learn of it (bit i - 1: node i);
 * UINT64_MAX: all. */
void cluster_orphan(struct cluster *c, uint64_t detectors);

/* Runs to the end, fails the test if a promise of the protocol was broken or an expectation not
 * met, and frees everything. */
void cluster_end(struct cluster *c);

/* The same without judging: for runs in which promises do break. */
void cluster_drop(struct cluster *c);

void cluster_run_until(struct cluster *c, double at_ms);
double cluster_now_ms(const struct cluster *c);

/* Runs until all nodes that are up follow the same leader, and returns it. Fails the test if they
 * do not within the limit. */
cv_id cluster_run_until_leader(struct cluster *c, double limit_ms);

/* What is done to a node now. */
void cluster_crash(struct cluster *c, cv_id node);
void cluster_recover(struct cluster *c, cv_id node);
/* Tells `node` that `dead` is dead: a failure detector that works when the test says so. */
void cluster_suspect(struct cluster *c, cv_id node, cv_id dead);

/* Whom a node believes in; the leader that all nodes that are up agree on, or CV_ID_NONE. */
cv_id cluster_leader_at(const struct cluster *c, cv_id node);
cv_id cluster_leader(const struct cluster *c);
/* How many nodes believe now that they lead. */
uint32_t cluster_leader_count(const struct cluster *c);

/* Messages of a type sent since the beginning; NULL: of all types that belong to elections (not
 * heartbeats, their answers, and the acknowledgements of a ring). */
uint64_t cluster_sent(const struct cluster *c, const char *type);

/* Events of the trace between two instants, both included; from, to 0: any. */
struct cluster_query {
    const char *event; /* "send", "deliver", ... */
    const char *type;  /* of the message */
    cv_id from, to;
    double since_ms, until_ms; /* until 0: now */
};
uint32_t cluster_count(const struct cluster *c, const struct cluster_query *query);
#define cluster_sends(c, ...) \
    cluster_count((c), &(const struct cluster_query){.event = "send", __VA_ARGS__})

/* A message of that type that is under way now; NULL if there is none. Lent until the next call.
 * The second one looks for one with that value in the field of that name. */
const struct cv_message *cluster_in_flight(const struct cluster *c, const char *type, cv_id from,
                                           cv_id to);
const struct cv_message *cluster_in_flight_with(const struct cluster *c, const char *type,
                                                cv_id from, cv_id to, const char *field,
                                                uint64_t value);
/* The value of the field of that name. */
uint64_t cluster_field(const struct cluster *c, const struct cv_message *message,
                       const char *field);

/* The largest term that a node has accepted: it would lead or follow with this one. */
uint64_t cluster_token_at(const struct cluster *c, cv_id node);

/* Would this node follow a claim of `leader` in this term, if it heard its heartbeat now? Asked of
 * a copy: nothing changes. */
bool cluster_would_follow(const struct cluster *c, cv_id node, cv_id leader, uint64_t term);

/* The last instant at which a node began to believe in a leader (losing one does not count). */
double cluster_decided_ms(const struct cluster *c);

/* Equal, except for the nanoseconds that clocks are rounded to. */
#define assert_about_ms(a, b) assert_true((a) - (b) < 0.001 && (b) - (a) < 0.001)

#endif
