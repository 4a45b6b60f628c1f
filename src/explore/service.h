/* src/explore/service.h - the store and the sequencer of an explored world.
 *
 * Either is an actor like a node: queries travel to it and answers back as messages do, so that
 * they can be lost, late or reordered; a query may be carried out twice. A process gets at most one
 * answer to a request (conclave/core.h), so that repeated answers end at its host and are not
 * explored. A store has its own clock, and notifies waiting contenders when its record becomes
 * free.
 *
 * A restart keeps a store's record. Requests in flight fail or get no answer, and waiting
 * contenders are forgotten. The restart may also extend the lease, as some servers do. A sequencer
 * that restarts counts from 0; it reports one more boot, or has forgotten its boot count. */
#ifndef CV_EXPLORE_SERVICE_H
#define CV_EXPLORE_SERVICE_H

#include "explore/world.h"

/* Words of a query: the first is of both services, ... */
enum {
    EXPLORE_QUERY_REQUEST,
    EXPLORE_QUERY_REFERENCE, /* ... of a sequencer */
    EXPLORE_QUERY_VERB = 1,  /* ... of a store */
    EXPLORE_QUERY_ATTEMPT,
    EXPLORE_QUERY_LEASE,
    EXPLORE_QUERY_LABEL,
};

/* Words of an answer, likewise. */
enum {
    EXPLORE_ANSWER_REQUEST,
    EXPLORE_ANSWER_NUMBER,
    EXPLORE_ANSWER_VERDICT = 1,
    EXPLORE_ANSWER_TOKEN,
    EXPLORE_ANSWER_HOLDER,
    EXPLORE_ANSWER_DURATION,
    EXPLORE_ANSWER_REASON,
    EXPLORE_SERVICE_WORDS
};

/* How the service restarts: `what` of EXPLORE_ACT_RESTART. */
enum {
    EXPLORE_RESTART_FAILS,    /* store: open requests fail; sequencer: one more boot */
    EXPLORE_RESTART_SILENTLY, /* store: they get no answer; sequencer: boots are forgotten */
    EXPLORE_RESTART_EXTENDS,  /* store only: requests fail, and the lease begins again */
};

void explore_service_begin(struct explore_model *model);

/* The acting node asks. */
void explore_service_ask_store(struct explore_model *model, const struct cv_effect *effect);
void explore_service_ask_sequence(struct explore_model *model, uint64_t request,
                                  uint64_t reference);

/* A message of kind QUERY, ANSWER or NOTIFICATION has arrived. */
void explore_service_deliver(struct explore_model *model, const struct explore_message *message);
/* The name of a message of the service in traces. */
const char *explore_service_message_name(const struct explore_model *model,
                                         const struct explore_message *message);

void explore_service_restart(struct explore_model *model, uint32_t how);
/* Is the lease over, and do nodes wait for a notification? The second function notifies them. */
bool explore_service_is_expired(const struct explore_model *model,
                                const struct explore_world *world);
void explore_service_expire(struct explore_model *model);

/* A process is gone, and its connection with it: no answer reaches it. */
void explore_service_forget(struct explore_model *model, uint32_t node);

/* Brings the service into its canonical form (canonical.h). */
void explore_service_canonical(const struct explore_model *model, struct explore_world *world);

#endif
