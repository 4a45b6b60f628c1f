/* src/sim/store.h - the simulated store of the lease protocol: one record, and its own clock.
 *
 * It keeps what src/stores/store.h promises: the record is given to nobody else before its time is
 * over by the store's clock, tokens count from 1 and never repeat, the same attempt again is the
 * same grant, and the lease that was asked for governs. Everything around it may fail: a query
 * takes half of `delay` and up to `jitter` more to get there, and its answer as much back; either
 * may be lost (what a lost answer tells of was carried out) or be delayed apart. A restart keeps
 * the record and drops every connection: who waits for an answer is told that it failed, and who
 * waits for news is forgotten. A restart may also extend the lease by itself, as real servers do.
 */
#ifndef CV_SIM_STORE_H
#define CV_SIM_STORE_H

#include "core/types.h"
#include "sim/clock.h"
#include "sim/rng.h"

enum cv_simstore_verb {
    CV_SIMSTORE_SET, /* what `mask` says */
    CV_SIMSTORE_RESTART,
    CV_SIMSTORE_DOWN,
    CV_SIMSTORE_UP,
    CV_SIMSTORE_CUT, /* one node does not reach it */
    CV_SIMSTORE_MEND,
    CV_SIMSTORE_VERB_COUNT,
};

enum {
    CV_SIMSTORE_DELAY = 1,
    CV_SIMSTORE_JITTER = 2,
    CV_SIMSTORE_QUERY_DELAY = 4,
    CV_SIMSTORE_ANSWER_DELAY = 8,
    CV_SIMSTORE_QUERY_LOSS = 16,
    CV_SIMSTORE_ANSWER_LOSS = 32,
    CV_SIMSTORE_NEWS_LOSS = 64,
    CV_SIMSTORE_DRIFT = 128,
    CV_SIMSTORE_LASTING = CV_SIMSTORE_QUERY_DELAY | CV_SIMSTORE_ANSWER_DELAY |
                          CV_SIMSTORE_QUERY_LOSS | CV_SIMSTORE_ANSWER_LOSS | CV_SIMSTORE_NEWS_LOSS,
};

/* What goes wrong on the way: by the setting, or for a while in addition to it. */
struct cv_simstore_trouble {
    int64_t query_delay_ns, answer_delay_ns;
    int64_t query_loss_ppb, answer_loss_ppb, news_loss_ppb;
};

/* A change, as a scenario writes it. */
struct cv_simstore_change {
    enum cv_simstore_verb verb;
    uint32_t mask;
    int64_t delay_ns, jitter_ns, drift_ppb;
    struct cv_simstore_trouble trouble;
    bool is_random; /* drift: drawn up to that, either way */
    bool extends;   /* RESTART: the lease begins again */
};

enum cv_simstore_path { CV_SIMSTORE_QUERY, CV_SIMSTORE_ANSWER, CV_SIMSTORE_NEWS };

struct cv_simstore {
    int64_t delay_ns, jitter_ns;
    struct cv_simstore_trouble trouble[2]; /* of the setting, and for a while */
    struct cv_clock clock;
    bool is_down;
    uint64_t boot; /* how often it has restarted */

    uint64_t holder, attempt; /* holder 0: nobody */
    uint64_t token;           /* the latest that was given */
    int64_t until_ns;         /* the store's clock */
    int64_t lease_ns;         /* what the holder asked for */

    uint64_t query_count, grant_count, lost_query_count, lost_answer_count, failed_count;
    uint64_t news_count, lost_news_count;
};

struct cv_simstore_query {
    enum cv_store_verb verb;
    uint64_t label, attempt;
    int64_t lease_ns;
};

struct cv_simstore_answer {
    enum cv_store_verdict verdict;
    uint64_t token, holder;
    int64_t duration_ns;
};

/* 2 ms there and back, no jitter, no loss, no drift. */
void cv__simstore_init(struct cv_simstore *store);

/* `for_a_while`: delays and losses add to those of the setting until cv__simstore_restore(). CUT
 * and MEND are about nodes: see errand.h. */
void cv__simstore_change(struct cv_simstore *store, struct cv_rng *rng, int64_t now_ns,
                         const struct cv_simstore_change *change, bool for_a_while);
void cv__simstore_restore(struct cv_simstore *store, enum cv_simstore_verb verb);

/* Something leaves: does it arrive, and when? */
bool cv__simstore_travel(struct cv_simstore *store, struct cv_rng *rng, enum cv_simstore_path path,
                         int64_t now_ns, int64_t *ret_at_ns);

/* Carries out a query. True: the record has become free, which is news. */
bool cv__simstore_serve(struct cv_simstore *store, const struct cv_simstore_query *query,
                        int64_t now_ns, struct cv_simstore_answer *ret_answer);

/* Is the lease of the holder over? Then nobody holds the record any more. */
bool cv__simstore_expire(struct cv_simstore *store, int64_t now_ns);

/* The real instant at which it is; INT64_MAX: nobody holds the record. */
int64_t cv__simstore_end_ns(const struct cv_simstore *store);

#endif
