/* src/protocols/anon_config.h - the options of `anon` and what follows from them. */
#ifndef CV_PROTOCOLS_ANON_CONFIG_H
#define CV_PROTOCOLS_ANON_CONFIG_H

#include "core/types.h"

enum {
    ANON_OPTION_ETA,
    ANON_OPTION_EPS,
    ANON_OPTION_R,
    ANON_OPTION_SEQUENCER_TIME,
    ANON_OPTION_STUBBORN,
    ANON_OPTION_PERSIST,
    ANON_OPTION_START,
};
extern const struct cv_option cv__anon_options[];
extern const char *const cv__anon_renamed[];

#define ANON_QUERY_FACTOR_MAX 8u /* the time-out of queries doubles up to this */

/* The first time-out of a request to the sequencer. */
int64_t cv__anon_query_ns(const struct cv_config *config);

/* The protocol's table points to these. */
int cv__anon_configure(struct cv_config *config, struct cv_errtext *reterr);
void cv__anon_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes);
int64_t cv__anon_settle_ns(const struct cv_config *config);
int64_t cv__anon_timely_ns(const struct cv_config *config);

#endif
