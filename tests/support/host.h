/* tests/support/host.h - the smallest host that can run cores: for tests of what every core owes.
 *
 * Not the simulator: no clocks that drift, no properties, no faults except loss and restarts. With
 * it the contract of conclave/core.h is tested independently of the simulator. Each message goes
 * through the codec. A test sees every step through `watch`. */
#ifndef CV_TESTS_HOST_H
#define CV_TESTS_HOST_H

#include "core/types.h"

#define HOST_NODES_MAX 16u
#define HOST_FLYING_MAX 4096u
#define HOST_ANSWERS_MAX 256u

struct host;

/* Called before and after each step; `out` is NULL before it. */
typedef void host_watch(struct host *host, cv_id node, const struct cv_event *event,
                        const struct cv_effects *out, void *data);

struct host_node {
    void *state;
    struct cv_config config;
    int64_t timer_ns[CV_TIMERS_MAX]; /* 0: not armed */
    uint64_t persisted[CV_PERSIST_WORDS_MAX];
    uint32_t persisted_count;
    bool is_up;
    uint64_t nonce;                  /* of its latest start: the label of an anonymous process */
    struct cv_leadership leadership; /* the latest one; its list of members is not kept */
};

struct host_flight {
    cv_id from, to; /* to == CV_ID_NONE: a free place */
    int64_t arrives_ns;
    uint64_t order; /* breaks ties */
    uint8_t *bytes;
    size_t byte_count;
};

/* An answer under way, of a sequencer that counts or of a store that forgets nothing. */
struct host_answer {
    cv_id to; /* CV_ID_NONE: a free place */
    int64_t arrives_ns;
    uint64_t nonce;
    struct cv_event event;
};

/* The store's record. */
struct host_record {
    uint64_t holder, attempt, token; /* holder 0: nobody */
    int64_t until_ns;
};

struct host {
    const struct cv_protocol *protocol;
    uint32_t node_count;
    uint64_t seed;
    uint32_t loss_pct;
    int64_t delay_ns_min, delay_ns_max;
    int64_t now_ns;
    uint64_t steps;
    struct host_node node[HOST_NODES_MAX + 1]; /* by id */
    struct host_flight flying[HOST_FLYING_MAX];
    uint64_t flights;
    struct host_answer answer[HOST_ANSWERS_MAX];
    uint64_t sequence; /* the latest number that was given */
    struct host_record record;
    struct cv_effects out;
    host_watch *watch;
    void *watch_data;
};

struct host *host_new(const struct cv_protocol *protocol, uint32_t node_count, uint64_t seed);
void host_free(struct host *host);

/* A process that starts or restarts has what it persisted and nothing else. */
void host_start(struct host *host, cv_id node);
void host_crash(struct host *host, cv_id node);

/* Gives a node one event; now_ns is filled in. */
void host_step(struct host *host, cv_id node, struct cv_event *event);

/* Carries out the next message or timer that is due at until_ns or before; false: there is none,
 * and the time is then until_ns. */
bool host_next(struct host *host, int64_t until_ns);
void host_run(struct host *host, int64_t until_ns);

/* The leader that all nodes that are up agree on; CV_ID_NONE if they do not. */
cv_id host_leader(const struct host *host);

/* The place of a field of that name among the scalars, or of a set among the lists, of a type. */
uint32_t host_place_of(const struct cv_protocol *protocol, uint32_t type, const char *name);

/* The effects of one step have room for CV_EFFECTS_MAX items and the words that the header asks
 * for, all filled with rubbish: a core must not depend on what an earlier step left. */
struct cv_effects host_effects_new(const struct cv_config *config);
void host_effects_free(struct cv_effects *out);

#endif
