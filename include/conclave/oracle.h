/* conclave/oracle.h - who is the better leader? Scores, those that there are and one's own.
 *
 * A protocol that elects by scores (`pole`) asks an oracle for the score of the process it runs on,
 * and compares it with those of the others. `oracle=latency/10ms,history` names them in their order
 * of importance. An embedding program adds its own through the configuration:
 *
 *   static int64_t cheap_score(const struct cv_oracle_view *view) { ... }
 *   static const struct cv_oracle cheap = {.name = "cheap", .order = CV_SCORE_LOWER_WINS,
 *                                          .score = cheap_score};
 *   static const struct cv_oracle *const mine[] = {&cheap};
 *   config.oracles = mine;
 *   config.oracle_count = 1;
 *   cv_config_set(&config, pole, "oracle", "cheap,latency", &why);
 *
 * What is asked of such a function: it looks at the view and at constants only. It reads no clock
 * and keeps nothing, for then a run could not be repeated, and processes would disagree about what
 * was said when. What it needs to know of the application is reported (CV_EVENT_REPORT). All
 * members use the same functions: scores of different ones cannot be compared, and nobody notices.
 * A wrong score elects a worse leader, never two. */
#ifndef CONCLAVE_ORACLE_H
#define CONCLAVE_ORACLE_H

#include <conclave/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scores are 0..CV_SCORE_MAX. CV_SCORE_UNKNOWN stands for "cannot say" and ranks below every score
 * in either order: a process that knows nothing may still lead, but only if nobody knows better. */
#define CV_SCORE_UNKNOWN INT64_C(-1)
#define CV_SCORE_MAX (INT64_MAX / 4) /* sums of two do not overflow */

enum cv_score_order { CV_SCORE_HIGHER_WINS, CV_SCORE_LOWER_WINS };

/* What a process knows of a member. */
struct cv_oracle_peer {
    int64_t rtt_ns;   /* mean round trip; of oneself 0; -1: not known, or it is taken for dead */
    uint64_t rate;    /* requests per second, as it reported */
    uint64_t history; /* length, as it reported */
};

/* Everything that a score may look at; lent until the function returns. */
struct cv_oracle_view {
    uint64_t epoch;                    /* of the election */
    const struct cv_oracle_peer *peer; /* by id - 1, oneself included */
    cv_id self;
    uint32_t member_count;
    uint32_t preference; /* how many of the preferred are behind us; 0: not in the list */
    uint64_t capacity, load, reported; /* as this process's application reported */
    int64_t history_unit_bytes, window_bytes, bandwidth_bytes; /* options, for recovery times */
};

#define CV_ORACLE_NAME_BYTES 32 /* with the final zero */

struct cv_oracle {
    const char *name;    /* stable, of a-z, 0-9 and '-': options and documents use it */
    const char *formula; /* one line, as are the next two; an own oracle may have NULL */
    const char *inputs;  /* what it needs to be told, and by whom */
    const char *use;     /* when to use it */
    enum cv_score_order order;
    bool is_time;     /* the score is in nanoseconds: equivalence ranges are written as times */
    bool needs_peers; /* it looks at peer[] of others: they are probed, and the first election waits
                       */
    int64_t (*score)(const struct cv_oracle_view *view);
};

/* The built-in oracles: NULL past the last; the one of that name or NULL. An own oracle may call
 * their scores. */
const struct cv_oracle *cv_oracle_at(uint32_t index);
const struct cv_oracle *cv_oracle_find(const char *name);

/* Own oracles of one configuration; more are refused. */
#define CV_ORACLES_OWN_MAX 16u

#ifdef __cplusplus
}
#endif
#endif
