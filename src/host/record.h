/* src/host/record.h - a model of a store: its one record, and how requests change it.
 *
 * For hosts without a real store: the simulator and the exhaustive search. The model keeps the
 * promises of src/stores/store.h. No other contender gets the record before its time is over by the
 * store's clock, tokens count from 1 and never repeat, a repeated attempt gives the same grant, and
 * the holder's lease counts.
 *
 * Pure: one flat struct without padding; the caller passes the store's clock. */
#ifndef CV_HOST_RECORD_H
#define CV_HOST_RECORD_H

#include "core/types.h"

struct cv_model_record {
    uint64_t holder, attempt; /* holder 0: nobody */
    uint64_t token;           /* the latest that was given */
    int64_t until_ns;         /* the store's clock */
    int64_t lease_ns;         /* what the holder asked for */
    uint64_t ended;           /* enum cv_reason; nobody holds it: why */
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

/* Carries out a request. True: the record has become free, and those that wait are notified. */
bool cv__model_record_serve(struct cv_model_record *record, const struct cv_model_query *query,
                            int64_t local_ns, struct cv_model_answer *ret_answer);

/* Is the lease of the holder over? Then nobody holds the record any more. */
bool cv__model_record_expire(struct cv_model_record *record, int64_t local_ns);

/* The store starts again and keeps the record. `extends`: its lease begins again, as some servers
 * do it. */
void cv__model_record_restart(struct cv_model_record *record, bool extends, int64_t local_ns);

#endif
