/* src/oracles/oracle.h - who is the better leader? A score and the order of its values.
 *
 * An oracle [Becker11, sec. 3.3] is get-score, which assigns a score to the process it is asked on,
 * and a total order over scores. Here it is a table with one function. A new oracle is its file, a
 * line in registry.c and one below, and its tests. An application whose idea of a good leader is
 * none of these computes its own number and reports it (oracle `reported`): a core keeps no
 * pointers, so what it can be given is data, not code.
 *
 * Scores are not negative. CV_SCORE_UNKNOWN stands for "cannot say" and ranks below every score in
 * either order: a process that knows nothing may still lead, but only if nobody knows better.
 * Time: the epoch is an argument. Memory: none; what is known of the peers is lent. */
#ifndef CV_ORACLES_ORACLE_H
#define CV_ORACLES_ORACLE_H

#include "core/types.h"

#define CV_SCORE_UNKNOWN INT64_C(-1)
#define CV_SCORE_MAX (INT64_MAX / 4) /* sums of two do not overflow */

enum cv_score_order { CV_SCORE_HIGHER_WINS, CV_SCORE_LOWER_WINS };

/* What a process knows of a peer. Who is suspected, and the sitting leader for after-crash scores,
 * is marked by rtt_ns = -1: it leaves the vectors RTT_i and F_i (sec. 3.3). */
struct cv_oracle_peer {
    int64_t rtt_ns;   /* mean round trip; of oneself 0; -1: not known, or not to be counted */
    uint64_t rate;    /* requests per second */
    uint64_t history; /* length */
};

/* Everything that get-score may look at. */
struct cv_oracle_view {
    uint64_t epoch;
    const struct cv_oracle_peer *peer; /* by id - 1, oneself included */
    cv_id self;
    uint32_t member_count;
    uint32_t preference; /* how many of the preferred are behind us; 0: not in the list */
    uint64_t capacity, load, reported;
    int64_t history_unit_bytes, window_bytes, bandwidth_bytes; /* for recovery times */
};

struct cv_oracle {
    const char *name;    /* stable: options and documents use it */
    const char *formula; /* one line */
    const char *inputs;  /* what it needs to be told, and by whom */
    const char *use;     /* when to use it */
    enum cv_score_order order;
    bool is_time;     /* the score is in nanoseconds: equivalence ranges are written as times */
    bool needs_peers; /* it looks at peer[]: the first election waits for that */
    int64_t (*score)(const struct cv_oracle_view *view);
};

extern const struct cv_oracle cv__oracle_history;
extern const struct cv_oracle cv__oracle_request;
extern const struct cv_oracle cv__oracle_consensus;
extern const struct cv_oracle cv__oracle_latency;
extern const struct cv_oracle cv__oracle_worst_case;
extern const struct cv_oracle cv__oracle_rotating;
extern const struct cv_oracle cv__oracle_preference;
extern const struct cv_oracle cv__oracle_load;
extern const struct cv_oracle cv__oracle_recovery;
extern const struct cv_oracle cv__oracle_reported;

/* NULL past the last; `length` bytes of `name` are compared. */
const struct cv_oracle *cv__oracle_at(uint32_t index);
const struct cv_oracle *cv__oracle_named(const char *name, size_t length, uint32_t *ret_index);

/* ---- What several of them need -----------------------------------------------------------------
 */

/* The k-th smallest (from 1) of value(context, id) over all members; negative values do not count.
 * CV_SCORE_UNKNOWN if there are fewer. */
int64_t cv__oracle_nth(uint32_t member_count, uint32_t k,
                       int64_t (*value)(const void *context, cv_id id), const void *context);

/* theta_c: the time in which a quorum, oneself included, has answered. */
int64_t cv__oracle_consensus_ns(const struct cv_oracle_view *view);

/* ---- Vectors of scores (sec. 5) ----------------------------------------------------------------
 */

#define CV_SCORE_PARTS_MAX 4u

/* An ordered list of scores with equivalence ranges: values of one class count as equal. A single
 * oracle is a list of one with a range of 1. Invariant: 1 <= part_count <= CV_SCORE_PARTS_MAX,
 * range >= 1. Flat: oracles by their index. */
struct cv_scoring {
    uint32_t part_count;
    uint32_t oracle[CV_SCORE_PARTS_MAX];
    int64_t range[CV_SCORE_PARTS_MAX];
};

struct cv_score {
    int64_t part[CV_SCORE_PARTS_MAX];
};

/* Reads "latency/10ms,history". CV_E_INVALID with the reason, CV_E_UNKNOWN for a name. */
CV_NODISCARD int cv__scoring_parse(const char *text, struct cv_scoring *ret_scoring,
                                   struct cv_errtext *reterr);

bool cv__scoring_needs_peers(const struct cv_scoring *scoring);

/* get-score: each part truncated to its class. */
void cv__scoring_score(const struct cv_scoring *scoring, const struct cv_oracle_view *view,
                       struct cv_score *ret_score);

/* Negative, zero or positive as a is worse than, equal to or better than b. */
int cv__scoring_compare(const struct cv_scoring *scoring, const struct cv_score *a,
                        const struct cv_score *b);

/* Is `other` better than `own` in the first part by that many per cent? For resignation. */
bool cv__scoring_is_better_by(const struct cv_scoring *scoring, const struct cv_score *other,
                              const struct cv_score *own, int64_t percent);

#endif
