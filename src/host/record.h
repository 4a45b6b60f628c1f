/* src/host/record.h - a model of a store: its one record, and how requests change it.
 *
 * For hosts without a real store: the simulator and the exhaustive search. The model keeps the
 * promises of src/stores/store.h. No other contender gets the record before the holder's lease is
 * over by the store's clock, tokens count from 1 and never repeat, and a repeated attempt gives the
 * same grant.
 *
 * Pure: one flat struct without padding; the caller passes the store's clock. */
#ifndef CV_HOST_RECORD_H
#define CV_HOST_RECORD_H

#include "core/types.h"

struct cv_model_record {
    uint64_t holder, attempt; /* holder 0: nobody */
    uint64_t token;           /* the latest granted */
    int64_t until_ns;         /* the store's clock */
    int64_t lease_ns;         /* as the holder asked for */
    /* enum cv_reason: why the last leadership ended, if nobody holds it */
    uint64_t ended;
};

struct cv_model_query {
    enum cv_store_verb verb;
    uint64_t label, attempt;
    int64_t lease_ns;
};

struct cv_model_answer {
    enum cv_store_verdict verdict;
    uint64_t token, holder;
    int64_t duration_ns;
    enum cv_reason reason; /* FREE: why the last leadership ended */
};

/* Carries out a request. True: the record has become free, and waiting contenders are notified. */
bool cv__model_record_serve(struct cv_model_record *record, const struct cv_model_query *query,
                            int64_t local_ns, struct cv_model_answer *ret_answer);

/* Frees the record if the holder's lease is over; true if it did. */
bool cv__model_record_expire(struct cv_model_record *record, int64_t local_ns);

/* The store restarts and keeps the record. `extends`: the lease begins again, as with some
 * servers. */
void cv__model_record_restart(struct cv_model_record *record, bool extends, int64_t local_ns);

#endif
