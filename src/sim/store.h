/* src/sim/store.h - the simulated store of the lease protocol: one record, and its own clock.
 *
 * The record itself is host/record.h. Everything around it may fail: a query takes half of `delay`
 * and up to `jitter` more to get there, and its answer as much back; either may be lost or delayed
 * on its own; a request whose answer is lost was carried out nevertheless. A restart keeps the
 * record and drops every connection: a node that waits for an answer is told that it failed, and
 * one that waits for a notification is forgotten. A restart may also extend the lease by itself, as
 * real servers do.
 *
 *  */
#ifndef CV_SIM_STORE_H
#define CV_SIM_STORE_H

#include "host/record.h"
#include "scenario/change.h"
#include "sim/clock.h"
#include "sim/rng.h"

enum sim_store_path { SIM_STORE_QUERY, SIM_STORE_ANSWER, SIM_STORE_NOTIFICATION };

struct sim_store {
    int64_t delay_ns, jitter_ns;
    struct sim_store_trouble trouble[2]; /* permanent, and additional for a while */
    struct sim_clock clock;
    bool is_down;
    uint64_t boot; /* how often it has restarted */

    struct cv_model_record record;

    uint64_t query_count, grant_count, lost_query_count, lost_answer_count, failed_count;
    uint64_t notification_count, lost_notification_count;
};

/* 2 ms there and back, no jitter, no loss, no drift. */
void sim_store_init(struct sim_store *store);

/* `for_a_while`: delays and losses add to the permanent ones until sim_store_restore(). CUT and
 * MEND change nodes: see store_request.h. */
void sim_store_change(struct sim_store *store, struct sim_rng *rng, int64_t now_ns,
                      const struct sim_store_change *change, bool for_a_while);
void sim_store_restore(struct sim_store *store, enum sim_store_verb verb);

/* A request, an answer or a notification is sent: does it arrive, and when? */
bool sim_store_travel(struct sim_store *store, struct sim_rng *rng, enum sim_store_path path,
                      int64_t now_ns, int64_t *ret_at_ns);

/* Carries out a request. True: the record has become free, and waiting nodes are notified. */
bool sim_store_serve(struct sim_store *store, const struct cv_model_query *query, int64_t now_ns,
                     struct cv_model_answer *ret_answer);

/* Frees the record if the holder's lease is over; true if it did. */
bool sim_store_expire(struct sim_store *store, int64_t now_ns);

/* The real instant at which the lease ends; INT64_MAX: the record is free. */
int64_t sim_store_end_ns(const struct sim_store *store);

#endif
