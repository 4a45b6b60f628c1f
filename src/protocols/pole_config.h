/* src/protocols/pole_config.h - the constants of `pole` and what follows from them.
 *
 * Profiles (lan, wan, loopback) give delta, sigma and the heartbeat; everything else is derived.
 * `auto` begins with times that follow from lease-max, and chooses others (pole_tune.c).
 * Safety rests on the drift bound alone; the inequalities that are refused concern liveness. */
#ifndef CV_PROTOCOLS_POLE_CONFIG_H
#define CV_PROTOCOLS_POLE_CONFIG_H

#include "core/types.h"

enum {
    POLE_OPTION_PROFILE,
    POLE_OPTION_DELTA,
    POLE_OPTION_SIGMA,
    POLE_OPTION_HEARTBEAT, /* eta */
    POLE_OPTION_TIMEOUT,   /* epsilon */
    POLE_OPTION_LEASE,
    POLE_OPTION_ROUND,     /* T */
    POLE_OPTION_RETRY_MAX, /* the back-off's cap */
    POLE_OPTION_ORACLE,
    POLE_OPTION_PREFERENCE,
    POLE_OPTION_PROBE,
    POLE_OPTION_FIRST,
    POLE_OPTION_RESIGN_MARGIN,
    POLE_OPTION_RESIGN_HOLD,
    POLE_OPTION_HISTORY_UNIT,
    POLE_OPTION_WINDOW,
    POLE_OPTION_BANDWIDTH,
    POLE_OPTION_EPOCHS, /* reserved with one save */
    POLE_OPTION_LEASE_MIN,
    POLE_OPTION_LEASE_MAX,
};
enum { POLE_TEXT_ORACLE, POLE_TEXT_PREFERENCE };
enum { POLE_PROFILE_LAN, POLE_PROFILE_WAN, POLE_PROFILE_LOOPBACK, POLE_PROFILE_AUTO };
extern const struct cv_option cv__pole_options[];

#define POLE_LEASE_NS_MAX (3600 * NS_PER_S)

/* lease(1 - 2 rho): how long after it was sent an answered heartbeat carries a leadership. */
int64_t cv__pole_lead_ns(const struct cv_config *config);
int64_t cv__pole_lead_of(int64_t lease_ns, int64_t drift_ppb);

/* A chosen process that has not claimed after this is passed over. */
int64_t cv__pole_wait_ns(const struct cv_config *config);

/* How many ids of the preference list come from `self` on, itself included; 0: it is not in the
 * list. */
CV_NODISCARD int cv__pole_preference(const struct cv_config *config, uint32_t *ret_place,
                                     struct cv_errtext *reterr);

/* The protocol's table points to these. */
int cv__pole_configure(struct cv_config *config, struct cv_errtext *reterr);
void cv__pole_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes);
int64_t cv__pole_settle_ns(const struct cv_config *config);
int64_t cv__pole_graph_ns(const struct cv_config *config);
int64_t cv__pole_timely_ns(const struct cv_config *config);
int64_t cv__pole_lease_ns(const struct cv_config *config);
int64_t cv__pole_lease_ns_min(const struct cv_config *config);
uint64_t cv__pole_floor(const uint64_t *word, uint32_t word_count);
uint32_t cv__pole_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                          uint64_t ret_word[CV_PERSIST_WORDS_MAX]);

#endif
