/* src/protocols/lease_config.c - the options of `lease`, their inequalities and what follows. */
#include "protocols/lease_config.h"

#include "core/options.h"

const struct cv_option cv__lease_options[] = {
    [LEASE_OPTION_LEASE] = {"lease", CV_OPTION_TIME, 5 * NS_PER_S, NS_PER_MS, LEASE_NS_MAX, NULL,
                            "how long a lease lasts, and so how long a dead leader may be missed"},
    [LEASE_OPTION_RENEW] = {"renew", CV_OPTION_TIME, CV_OPTION_DERIVED, 100 * NS_PER_US,
                            LEASE_NS_MAX, NULL,
                            "the leader asks again after this (default: lease/3)"},
    [LEASE_OPTION_RETRY] = {"retry", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US,
                            LEASE_NS_MAX, NULL,
                            "a request that failed is repeated after this (default: lease/10)"},
    [LEASE_OPTION_RETRY_MAX] =
        {"retry-max", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX, NULL,
         "a contender that does not lead doubles that pause up to this (default: 8 retry)"},
    [LEASE_OPTION_TIMEOUT] =
        {"timeout", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX, NULL,
         "a request without an answer is repeated after this (default: lease/5)"},
    [LEASE_OPTION_POLL] = {"poll", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX,
                           NULL,
                           "a waiting contender asks this often, notified or not (default: lease)"},
    [LEASE_OPTION_REST] =
        {"rest", CV_OPTION_TIME, CV_OPTION_DERIVED, 0, 2 * LEASE_NS_MAX, NULL,
         "a contender that resigned lets others go first for this (default: lease + 2 retry)"},
    [LEASE_OPTION_CANDIDATE] = {"candidate", CV_OPTION_FLAG, true, false, true, NULL,
                                "wants to lead from the start; otherwise only looks"},
    {0},
};

int64_t cv__lease_sure_ns(int64_t duration_ns, int64_t drift_ppb)
{
    CV_ASSERT(duration_ns >= 0);
    CV_ASSERT(drift_ppb >= 0);
    const int64_t drift_ns = (int64_t)((__int128)duration_ns * 2 * drift_ppb / NS_PER_S) + 1;
    const int64_t sure_ns = cv__max64(duration_ns - drift_ns, 0);
    CV_ASSERT(sure_ns <= duration_ns);
    return sure_ns;
}

int64_t cv__lease_renew_ns(int64_t renew_ns, int64_t granted_ns)
{
    CV_ASSERT(renew_ns > 0);
    CV_ASSERT(granted_ns >= 0);
    return cv__min64(renew_ns, granted_ns / 2);
}

int64_t cv__lease_again_ns(int64_t retry_ns, int64_t timeout_ns)
{
    CV_ASSERT(retry_ns > 0);
    CV_ASSERT(timeout_ns > 0);
    return cv__max64(retry_ns, timeout_ns); /* `retry` after a failure; at once after a time-out */
}

int cv__lease_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    const int64_t lease_ns = o[LEASE_OPTION_LEASE];
    cv__config_derive(config, LEASE_OPTION_RENEW, lease_ns / 3);
    cv__config_derive(config, LEASE_OPTION_RETRY, lease_ns / 10);
    cv__config_derive(config, LEASE_OPTION_RETRY_MAX,
                      cv__min64(8 * o[LEASE_OPTION_RETRY], LEASE_NS_MAX));
    cv__config_derive(config, LEASE_OPTION_TIMEOUT, lease_ns / 5);
    cv__config_derive(config, LEASE_OPTION_POLL, lease_ns);
    cv__config_derive(config, LEASE_OPTION_REST, lease_ns + 2 * o[LEASE_OPTION_RETRY]);
    const int64_t held_ns = cv__lease_sure_ns(lease_ns, config->drift_ppb);
    const int64_t next_ns = cv__max64(o[LEASE_OPTION_RENEW], o[LEASE_OPTION_TIMEOUT]);
    const int64_t needed_ns = next_ns + o[LEASE_OPTION_TIMEOUT] + o[LEASE_OPTION_RETRY];
    if (needed_ns >= held_ns) {
        /* A renewal begins after `renew`, but not before the last request was answered or timed
         * out. It takes up to `timeout`, and may fail once before. */
        return cv__config_broken(reterr,
                                 "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry",
                                 held_ns, needed_ns);
    }
    if (o[LEASE_OPTION_RETRY_MAX] < o[LEASE_OPTION_RETRY]) {
        return cv__config_broken(reterr, "retry-max >= retry", o[LEASE_OPTION_RETRY_MAX],
                                 o[LEASE_OPTION_RETRY]);
    }
    /* polling is not more urgent than repeating a failed request */
    if (o[LEASE_OPTION_POLL] < o[LEASE_OPTION_RETRY]) {
        return cv__config_broken(reterr, "poll >= retry", o[LEASE_OPTION_POLL],
                                 o[LEASE_OPTION_RETRY]);
    }
    return CV_OK;
}

/* First the last grant runs out, perhaps unknown to its holder (lease). Then the longest pause of
 * any contender ends (rest, or a time-out and a pause, or a poll). One of them leads, and the
 * others ask once more. */
int64_t cv__lease_settle_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    const int64_t pause_ns =
        o[LEASE_OPTION_TIMEOUT] + o[LEASE_OPTION_RETRY_MAX] + o[LEASE_OPTION_RETRY];
    const int64_t poll_ns = o[LEASE_OPTION_POLL] + o[LEASE_OPTION_RETRY] + o[LEASE_OPTION_TIMEOUT];
    const int64_t sum_ns =
        2 * o[LEASE_OPTION_LEASE] + o[LEASE_OPTION_REST] + 2 * (pause_ns + poll_ns);
    return sum_ns + sum_ns / 8;
}

int64_t cv__lease_store_ns(const struct cv_config *config)
{
    return config->option[LEASE_OPTION_TIMEOUT];
}
