/* src/protocols/local_config.h - the constants of `local` and what follows from them.
 *
 * [Fetzer99, sec. IX] with our additions. Profiles (lan, wan, loopback) give delta, sigma and ep;
 * everything else is derived, so that an operator need not understand nine constants to start. */
#ifndef CV_PROTOCOLS_LOCAL_CONFIG_H
#define CV_PROTOCOLS_LOCAL_CONFIG_H

#include "core/types.h"

enum {
    LOCAL_OPTION_PROFILE,
    LOCAL_OPTION_DELTA,
    LOCAL_OPTION_DELTA_MIN,
    LOCAL_OPTION_SIGMA,
    LOCAL_OPTION_EP,
    LOCAL_OPTION_EXPIRES,
    LOCAL_OPTION_LOCK,
    LOCAL_OPTION_MAJORITY,
    LOCAL_OPTION_SUCCESSION,
    LOCAL_OPTION_COLLATE,
    LOCAL_OPTION_ROTATE,
    LOCAL_OPTION_TOKENS,
    LOCAL_OPTION_CALM,
    LOCAL_OPTION_YIELDS,
};
extern const struct cv_option cv__local_options[];

/* ns(1 + rho), rounded up. */
int64_t cv__local_stretch(const struct cv_config *config, int64_t ns);

/* lock(1 - 2 rho): how long a request can carry a leadership. */
int64_t cv__local_lead_ns(const struct cv_config *config);

/* The time between requests of a leader whose requests are all answered: `calm` times ep, but short
 * enough that it and its supporters hear each other within `expires`, and that four requests fit
 * into a lock. */
int64_t cv__local_calm_ns(const struct cv_config *config);

/* The protocol's table points to these. */
int cv__local_configure(struct cv_config *config, struct cv_errtext *reterr);
void cv__local_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes);
int64_t cv__local_kappa_ns(const struct cv_config *config);
int64_t cv__local_settle_ns(const struct cv_config *config);
int64_t cv__local_graph_ns(const struct cv_config *config);
int64_t cv__local_timely_ns(const struct cv_config *config);
int64_t cv__local_fast_ns(const struct cv_config *config);
int64_t cv__local_lease_ns(const struct cv_config *config);
uint64_t cv__local_floor(const uint64_t *word, uint32_t word_count);
uint32_t cv__local_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                           uint64_t ret_word[CV_PERSIST_WORDS_MAX]);

#endif
