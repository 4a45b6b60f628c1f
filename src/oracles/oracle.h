/* src/oracles/oracle.h - scores that choose the better leader, and lists of them.
 *
 * An oracle [Becker11, sec. 3.3] is get-score, which assigns a score to the process it is asked on,
 * and a total order over scores: a table with one function, see conclave/oracle.h. A new oracle
 * needs its file, a line in registry.c and one below, and its tests. An embedding program can
 * define its own score in two ways: it reports a number (oracle `reported`), or it provides a table
 * (own.c).
 *
 * Time: the epoch is an argument. Memory: none; the data of the peers is borrowed. rtt_ns = -1
 * marks a suspected peer, and for after-crash scores the current leader: it is left out of the
 * vectors RTT_i and F_i (sec. 3.3). */
#ifndef CV_ORACLES_ORACLE_H
#define CV_ORACLES_ORACLE_H

#include "core/types.h"

#include <conclave/oracle.h>

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

/* The built-in oracle whose name is the first `length` bytes of `name`; NULL: there is none. */
const struct cv_oracle *cv__oracle_named(const char *name, size_t length, uint32_t *ret_index);
uint32_t cv__oracle_count(void);

/* Checks the configuration's own oracles: CV_OK, or CV_E_INVALID with the reason. */
CV_NODISCARD int cv__oracles_check(const struct cv_config *config, struct cv_errtext *reterr);

/* ---- Shared by several oracles --------------------------------------------------------------- */

/* The k-th smallest (from 1) of value(context, id) over all members; negative values do not count.
 * CV_SCORE_UNKNOWN if there are fewer. */
int64_t cv__oracle_nth(uint32_t member_count, uint32_t k,
                       int64_t (*value)(const void *context, cv_id id), const void *context);

/* theta_c: the time until a quorum, this process included, has answered. */
int64_t cv__oracle_consensus_ns(const struct cv_oracle_view *view);

/* ---- Vectors of scores (sec. 5) -------------------------------------------------------------- */

#define CV_SCORE_PARTS_MAX 4u

/* An ordered list of scores with equivalence ranges: values of one class count as equal. A single
 * oracle is a list of one with a range of 1. Invariant: 1 <= part_count <= CV_SCORE_PARTS_MAX,
 * range >= 1. Oracles are given by index, first the built-in ones, then own ones; `own` is NULL if
 * no own oracle is used, so that equal lists have equal bytes. */
struct cv_scoring {
    const struct cv_oracle *const *own;
    uint32_t part_count;
    uint32_t reserved;
    uint32_t oracle[CV_SCORE_PARTS_MAX];
    int64_t range[CV_SCORE_PARTS_MAX];
};

struct cv_score {
    int64_t part[CV_SCORE_PARTS_MAX];
};

/* Reads "latency/10ms,history". CV_E_INVALID with the reason, CV_E_UNKNOWN for an unknown name.
 * `config`: its own oracles, already checked, may be named too; NULL: only built-in ones. */
CV_NODISCARD int cv__scoring_parse(const char *text, const struct cv_config *config,
                                   struct cv_scoring *ret_scoring, struct cv_errtext *reterr);

bool cv__scoring_needs_peers(const struct cv_scoring *scoring);

/* get-score: each part truncated to its class. */
void cv__scoring_score(const struct cv_scoring *scoring, const struct cv_oracle_view *view,
                       struct cv_score *ret_score);

/* Negative, zero or positive if a is worse than, equal to or better than b. */
int cv__scoring_compare(const struct cv_scoring *scoring, const struct cv_score *a,
                        const struct cv_score *b);

/* Is `other` better than `own` in the first part by that many per cent? For resignation. */
bool cv__scoring_is_better_by(const struct cv_scoring *scoring, const struct cv_score *other,
                              const struct cv_score *own, int64_t percent);

#endif
