/* conclave/oracle.h - scores that choose the better leader: built-in ones and your own.
 *
 * A protocol that elects by scores (`pole`) asks an oracle for the score of its process, and
 * compares it with those of the other members. `oracle=latency/10ms,history` lists oracles, the
 * most important first. An embedding program adds its own through the configuration:
 *
 *   static int64_t cheap_score(const struct cv_oracle_view *view) { ... }
 *   static const struct cv_oracle cheap = {.name = "cheap", .order = CV_SCORE_LOWER_WINS,
 *                                          .score = cheap_score};
 *   static const struct cv_oracle *const mine[] = {&cheap};
 *   config.oracles = mine;
 *   config.oracle_count = 1;
 *   cv_config_set(&config, pole, "oracle", "cheap,latency", &why);
 *
 * Such a function may only use the view and constants. It reads no clock and keeps no state;
 * otherwise a run could not be repeated. Values of the application are reported (CV_EVENT_REPORT).
 * All members must use the same functions: scores of different functions cannot be compared, and
 * the library cannot detect this. A wrong score elects a worse leader, never two. */
#ifndef CONCLAVE_ORACLE_H
#define CONCLAVE_ORACLE_H

#include <conclave/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scores are 0..CV_SCORE_MAX. CV_SCORE_UNKNOWN means "no score yet" and ranks below every score in
 * either order: such a process leads only if no other process has a score. */
#define CV_SCORE_UNKNOWN INT64_C(-1)
#define CV_SCORE_MAX (INT64_MAX / 4) /* sums of two do not overflow */

enum cv_score_order { CV_SCORE_HIGHER_WINS, CV_SCORE_LOWER_WINS };

/* What a process knows of a member. */
struct cv_oracle_peer {
    int64_t rtt_ns;   /* mean round trip; to itself 0; -1: not known, or suspected dead */
    uint64_t rate;    /* requests per second, as it reported */
    uint64_t history; /* length, as it reported */
};

/* Everything that a score may use; valid until the function returns. */
struct cv_oracle_view {
    uint64_t epoch;                    /* of the election */
    const struct cv_oracle_peer *peer; /* by id - 1, with this process itself */
    cv_id self;
    uint32_t member_count;
    uint32_t preference; /* how many ids of the list come after this process; 0: not listed */
    uint64_t capacity, load, reported; /* as this process's application reported */
    int64_t history_unit_bytes, window_bytes, bandwidth_bytes; /* options, for recovery times */
};

#define CV_ORACLE_NAME_BYTES 32 /* with the final zero */

struct cv_oracle {
    const char *name;    /* stable, of a-z, 0-9 and '-': options and documents use it */
    const char *formula; /* one line, like the next two; your own oracle may have NULL */
    const char *inputs;  /* which inputs it needs, and from where */
    const char *use;     /* when to use it */
    enum cv_score_order order;
    bool is_time;     /* the score is in nanoseconds: equivalence ranges are written as times */
    bool needs_peers; /* it uses peer[]: members are probed, and the first election waits */
    int64_t (*score)(const struct cv_oracle_view *view);
};

/* The built-in oracles, by index (NULL past the last) or by name (or NULL). Your own oracle may
 * call them. */
const struct cv_oracle *cv_oracle_at(uint32_t index);
const struct cv_oracle *cv_oracle_find(const char *name);

/* At most this many own oracles in one configuration. */
#define CV_ORACLES_OWN_MAX 16u

#ifdef __cplusplus
}
#endif
#endif
