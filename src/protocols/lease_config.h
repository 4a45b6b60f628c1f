/* src/protocols/lease_config.h - the options of `lease` and what follows from them. */
#ifndef CV_PROTOCOLS_LEASE_CONFIG_H
#define CV_PROTOCOLS_LEASE_CONFIG_H

#include "core/types.h"

enum {
    LEASE_OPTION_LEASE,
    LEASE_OPTION_RENEW,
    LEASE_OPTION_RETRY,
    LEASE_OPTION_RETRY_MAX,
    LEASE_OPTION_TIMEOUT,
    LEASE_OPTION_POLL,
    LEASE_OPTION_REST,
    LEASE_OPTION_CANDIDATE,
};
extern const struct cv_option cv__lease_options[];

#define LEASE_NS_MAX (24 * 3600 * NS_PER_S)

/* A duration on our clock in which duration_ns of the store's clock has surely not passed. The head
 * of lease.c explains why two contenders then never lead at once. */
int64_t cv__lease_sure_ns(int64_t duration_ns, int64_t drift_ppb);

/* A leader that was granted granted_ns asks for a renewal at the latest so long after its
 * request. */
int64_t cv__lease_renew_ns(int64_t renew_ns, int64_t granted_ns);

/* A leader repeats a failed or unanswered request at the latest so long after it was made. */
int64_t cv__lease_again_ns(int64_t retry_ns, int64_t timeout_ns);

/* The protocol's table points to these. */
int cv__lease_configure(struct cv_config *config, struct cv_errtext *reterr);
int64_t cv__lease_settle_ns(const struct cv_config *config);
int64_t cv__lease_store_ns(const struct cv_config *config);

#endif
