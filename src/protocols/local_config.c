/* src/protocols/local_config.c - the constants of `local`: defaults, inequalities, and kappa, which
 * follows from them [Fetzer99, sec. IX]. */
#include "protocols/local_config.h"

#include "core/errors.h"
#include "core/options.h"

const struct cv_option cv__local_options[] = {
    [LOCAL_OPTION_PROFILE] = {"profile", CV_OPTION_CHOICE, 0, 0, 2, "lan|wan|loopback",
                              "where the defaults of delta, sigma and ep come from"},
    [LOCAL_OPTION_DELTA] =
        {"delta", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 60 * NS_PER_S, NULL,
         "Delta: twice what a message takes (lan 5ms, wan 150ms, loopback 0.75ms)"},
    [LOCAL_OPTION_DELTA_MIN] = {"delta-min", CV_OPTION_TIME, 0, 0, 60 * NS_PER_S, NULL,
                                "no message takes less"},
    [LOCAL_OPTION_SIGMA] = {"sigma", CV_OPTION_TIME, CV_OPTION_DERIVED, 0, 60 * NS_PER_S, NULL,
                            "a process reacts within this (lan 5ms, wan 5ms, loopback 1ms)"},
    [LOCAL_OPTION_EP] = {"ep", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 3600 * NS_PER_S, NULL,
                         "a candidate asks this often (lan 5ms, wan 50ms, loopback 1ms)"},
    [LOCAL_OPTION_EXPIRES] =
        {"expires", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 36000 * NS_PER_S, NULL,
         "a process not heard for so long is not alive (default: 1.5 times the least; wan: 4)"},
    [LOCAL_OPTION_LOCK] = {"lock", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 36000 * NS_PER_S,
                           NULL,
                           "support lasts this long (default: expires + 2 ep + 2 delta + sigma)"},
    [LOCAL_OPTION_MAJORITY] = {"majority", CV_OPTION_FLAG, 0, 0, 1, NULL,
                               "lead only with a majority of all members: one leader globally"},
    [LOCAL_OPTION_SUCCESSION] = {"succession", CV_OPTION_FLAG, 1, 0, 1, NULL,
                                 "orphans stand up in id order instead of all at once"},
    [LOCAL_OPTION_COLLATE] = {"collate", CV_OPTION_COUNT, 0, 0, 64, NULL,
                              "answers travel up a tree with so many children; 0: directly"},
    [LOCAL_OPTION_ROTATE] = {"rotate", CV_OPTION_TIME, 0, 0, 36000 * NS_PER_S, NULL,
                             "hand over to the next id after so long; 0s: never"},
    [LOCAL_OPTION_TOKENS] = {"tokens", CV_OPTION_COUNT, 0, 0, 4096, NULL,
                             "tokens saved ahead with one record; 0: each is saved on its own"},
    [LOCAL_OPTION_CALM] = {"calm", CV_OPTION_COUNT, 1, 1, 16, NULL,
                           "a leader asks after up to so many ep while all answer"},
    [LOCAL_OPTION_YIELDS] =
        {"yields", CV_OPTION_FLAG, 1, 0, 1, NULL,
         "a leader steps down at once for one before it; no: when its time is over"},
    {0},
};

int64_t cv__local_stretch(const struct cv_config *config, int64_t ns)
{
    CV_ASSERT(ns >= 0);
    return ns + (int64_t)((__int128)ns * config->drift_ppb / NS_PER_S) + 1;
}

/* The time in which all connected processes are heard, if that takes so many requests. */
static int64_t heard_within_ns(const struct cv_config *config, int64_t requests)
{
    const int64_t *o = config->option;
    CV_ASSERT(o[LOCAL_OPTION_DELTA] > o[LOCAL_OPTION_DELTA_MIN]);
    CV_ASSERT(requests >= 1);
    const int64_t asking =
        cv__local_stretch(config, requests * (o[LOCAL_OPTION_EP] + o[LOCAL_OPTION_SIGMA]));
    return cv__local_stretch(config,
                             asking + 2 * (o[LOCAL_OPTION_DELTA] - o[LOCAL_OPTION_DELTA_MIN]));
}

/* In the tree an answer can get lost between two processes that are connected to the leader but not
 * to each other. The next request is then answered directly: is_way_up() in local_tree.c. */
static int64_t least_expires_ns(const struct cv_config *config)
{
    return heard_within_ns(config, config->option[LOCAL_OPTION_COLLATE] > 0 ? 2 : 1);
}

int64_t cv__local_lead_ns(const struct cv_config *config)
{
    const int64_t lock = config->option[LOCAL_OPTION_LOCK];
    CV_ASSERT(lock > 0); /* derived by now */
    const int64_t lead = lock - (int64_t)((__int128)lock * 2 * config->drift_ppb / NS_PER_S) - 1;
    CV_ASSERT(lead < lock); /* a leadership ends before the locks that it rests on */
    return lead;
}

int64_t cv__local_calm_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    const int64_t ep_ns = o[LOCAL_OPTION_EP];
    if (o[LOCAL_OPTION_COLLATE] > 0) {
        return ep_ns; /* an answer lost in the tree must be asked for again soon */
    }
    const int64_t spare_ns = o[LOCAL_OPTION_EXPIRES] - least_expires_ns(config);
    CV_ASSERT(spare_ns >= 0); /* check_times() */
    const int64_t heard_ns = ep_ns + spare_ns - spare_ns / 8;
    /* And the row of requests must stay unbroken: is_row_unbroken() in local_request.c. */
    const int64_t row_ns = o[LOCAL_OPTION_EXPIRES] - o[LOCAL_OPTION_SIGMA] -
                           cv__local_stretch(config, 2 * o[LOCAL_OPTION_DELTA]) / 2;
    const int64_t most_ns = cv__min64(cv__min64(heard_ns, row_ns), cv__local_lead_ns(config) / 4);
    return cv__max64(ep_ns, cv__min64(o[LOCAL_OPTION_CALM] * ep_ns, most_ns));
}

static int64_t stagger_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[LOCAL_OPTION_EXPIRES] > 0);
    return config->option[LOCAL_OPTION_SUCCESSION] ? config->option[LOCAL_OPTION_EXPIRES] : 0;
}

/* [Fetzer99, sec. IX.C, with ours] From the instant a set of processes is connected among itself
 * and disconnected from all others: the others expire; the lowest waits for its place in the
 * succession and asks; its first request may find no stamps (ECHO), a second one locks to others,
 * which end at the latest `lock` after it was heard, and a third one an outdated token. If the
 * lowest one leads already, it may ask only as often as `calm` allows. */
int64_t cv__local_kappa_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    const int64_t asking =
        cv__local_stretch(config, cv__local_calm_ns(config) + o[LOCAL_OPTION_SIGMA]);
    /* Rounding must not make a bound too small. */
    CV_ASSERT(asking >= o[LOCAL_OPTION_EP] + o[LOCAL_OPTION_SIGMA]);
    const int64_t kappa_ns = cv__local_stretch(config, o[LOCAL_OPTION_EXPIRES]) +
                             o[LOCAL_OPTION_SIGMA] + stagger_ns(config) + asking +
                             o[LOCAL_OPTION_DELTA] +
                             cv__local_stretch(config, o[LOCAL_OPTION_LOCK]) + 3 * asking +
                             2 * cv__local_stretch(config, 2 * o[LOCAL_OPTION_DELTA]);
    CV_ASSERT(kappa_ns > o[LOCAL_OPTION_LOCK]); /* old locks end before a process is elected */
    return kappa_ns;
}

/* [Fetzer99, fig. 24] In the worst graph processes wait for each other in a chain, and these waits
 * end one after the other. If a leader needs a majority, or ids take turns, the figure does not
 * apply. */
int64_t cv__local_graph_ns(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    const bool is_as_in_the_figure =
        !config->option[LOCAL_OPTION_MAJORITY] && config->option[LOCAL_OPTION_ROTATE] == 0;
    const int64_t steps = 5 + config->member_count / 8;
    return is_as_in_the_figure ? steps * cv__local_kappa_ns(config) : 0;
}

int64_t cv__local_settle_ns(const struct cv_config *config)
{
    /* The others learn of the leader from its next request. */
    return cv__local_kappa_ns(config) +
           2 * (cv__local_calm_ns(config) + config->option[LOCAL_OPTION_DELTA]);
}

/* 4 rho expires: how far two clocks may drift apart since the last frame in the other direction,
 * counted on both sides of a bound. */
static int64_t drift_apart_ns(const struct cv_config *config)
{
    const int64_t expires_ns = config->option[LOCAL_OPTION_EXPIRES];
    CV_ASSERT(expires_ns > 0);
    CV_ASSERT(config->drift_ppb >= 0);
    return (int64_t)((__int128)expires_ns * 4 * config->drift_ppb / NS_PER_S);
}

/* A bound is the sum of two delays and of the drift between the clocks meanwhile. To be known as
 * fast, each message must take at most half of Delta, less the drift since the last frame in the
 * other direction. */
int64_t cv__local_timely_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    CV_ASSERT(o[LOCAL_OPTION_DELTA] > o[LOCAL_OPTION_DELTA_MIN]);
    return (o[LOCAL_OPTION_DELTA] + o[LOCAL_OPTION_DELTA_MIN] - drift_apart_ns(config)) / 2;
}

int64_t cv__local_fast_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[LOCAL_OPTION_DELTA] > config->option[LOCAL_OPTION_DELTA_MIN]);
    return config->option[LOCAL_OPTION_DELTA] + config->option[LOCAL_OPTION_DELTA_MIN];
}

static int check_times(const struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    const bool has_tree = o[LOCAL_OPTION_COLLATE] > 0;
    const int64_t period_ns = o[LOCAL_OPTION_EP] + o[LOCAL_OPTION_SIGMA];
    /* Otherwise the answers to a renewal, asked for after ep, come when the leadership is over. */
    const int64_t renewal_ns = period_ns + cv__local_stretch(config, 2 * o[LOCAL_OPTION_DELTA]);
    if (cv__local_lead_ns(config) <= renewal_ns) {
        return cv__config_broken(reterr, "lock(1-2rho) > ep + sigma + 2 delta(1+rho)",
                                 cv__local_lead_ns(config), renewal_ns);
    }
    if (has_tree && o[LOCAL_OPTION_LOCK] / 2 <= period_ns) {
        /* A leader repeats a request for half of the lock; after that it opens another. */
        return cv__config_broken(reterr, "with collate: lock/2 > ep + sigma",
                                 o[LOCAL_OPTION_LOCK] / 2, period_ns);
    }
    if (o[LOCAL_OPTION_EXPIRES] < least_expires_ns(config)) {
        return cv__config_broken(
            reterr,
            has_tree ? "with collate: expires >= (1+rho)(2(ep+sigma)(1+rho) + 2(delta-delta_min))"
                     : "expires >= (1+rho)((ep+sigma)(1+rho) + 2(delta-delta_min))",
            o[LOCAL_OPTION_EXPIRES], least_expires_ns(config));
    }
    if (cv__local_timely_ns(config) <= 0) {
        return cv__config_broken(reterr, "delta + delta-min > 4 rho expires",
                                 o[LOCAL_OPTION_DELTA] + o[LOCAL_OPTION_DELTA_MIN],
                                 drift_apart_ns(config));
    }
    return CV_OK;
}

int cv__local_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    static const struct {
        int64_t delta, sigma, ep;
        /* Per cent of the smallest allowed value. lock / ep decides how many requests in a row may
         * be lost: ten. */
        int64_t expires_percent;
    } profiles[] = {
        {5 * NS_PER_MS, 5 * NS_PER_MS, 5 * NS_PER_MS, 150},
        {150 * NS_PER_MS, 5 * NS_PER_MS, 50 * NS_PER_MS, 400},
        {750 * NS_PER_US, 1 * NS_PER_MS, 1 * NS_PER_MS, 150},
    };
    const int64_t *o = config->option;
    const int64_t profile = o[LOCAL_OPTION_PROFILE];
    CV_ASSERT(profile >= 0);
    CV_ASSERT(profile < (int64_t)COUNT_OF(profiles)); /* one of the words of the option */
    cv__config_derive(config, LOCAL_OPTION_DELTA, profiles[profile].delta);
    cv__config_derive(config, LOCAL_OPTION_SIGMA, profiles[profile].sigma);
    cv__config_derive(config, LOCAL_OPTION_EP, profiles[profile].ep);
    if (o[LOCAL_OPTION_ROTATE] > 0 && !o[LOCAL_OPTION_YIELDS]) {
        return cv__fail(reterr, CV_E_INVALID,
                        "rotate hands a leadership over before its time is over: it needs "
                        "yields=yes, which is not possible among members of a cluster");
    }
    if (o[LOCAL_OPTION_DELTA_MIN] >= o[LOCAL_OPTION_DELTA]) {
        return cv__config_broken(reterr, "delta > delta-min", o[LOCAL_OPTION_DELTA],
                                 o[LOCAL_OPTION_DELTA_MIN]);
    }
    const int64_t expires_ns = heard_within_ns(config, 1) * profiles[profile].expires_percent / 100;
    cv__config_derive(config, LOCAL_OPTION_EXPIRES,
                      cv__max64(expires_ns, least_expires_ns(config)));
    /* So long that a crashed follower expires before the lock does: its crash does not end the
     * leadership. */
    cv__config_derive(config, LOCAL_OPTION_LOCK,
                      o[LOCAL_OPTION_EXPIRES] + 2 * (o[LOCAL_OPTION_EP] + o[LOCAL_OPTION_DELTA]) +
                          o[LOCAL_OPTION_SIGMA]);
    return check_times(config, reterr);
}

void cv__local_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes)
{
    *promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(SUPPORT_ONE) | CV_PROP(LEADER_SELF_SUPPORT) |
                CV_PROP(BOUNDED_INCONSISTENCY) | CV_PROP(TIMELINESS) | CV_PROP(PARTITIONS_DISJOINT);
    *assumes = BIT(CV_ASSUME_BOUNDED_DRIFT) | BIT(CV_ASSUME_BOUNDED_DELAY) |
               BIT(CV_ASSUME_NO_LOSS) | BIT(CV_ASSUME_PROMPT_PROCESSES) |
               BIT(CV_ASSUME_TRANSITIVE_LINKS);
    if (config->option[LOCAL_OPTION_MAJORITY]) {
        *promises |= CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) | CV_PROP(LEADER_ORDER);
        *assumes |= BIT(CV_ASSUME_MAJORITY);
    }
    if (config->option[LOCAL_OPTION_ROTATE] == 0) {
        *promises |= CV_PROP(STABILITY) | CV_PROP(RIGHTFUL_LEADER);
    } else {
        *promises &= ~(CV_PROP(AGREEMENT) | CV_PROP(TERMINATION)); /* between two turns */
    }
    /* One leader for all is promised only if a leader needs a majority. */
    CV_ASSERT((*promises & CV_PROP(AT_MOST_ONE_LEADER)) == 0 ||
              (*assumes & BIT(CV_ASSUME_MAJORITY)) != 0);
}

int64_t cv__local_lease_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[LOCAL_OPTION_LOCK] > 0);
    return config->option[LOCAL_OPTION_LOCK];
}

/* The record: the largest token supported, and its owner. With blocks: the largest token that may
 * have been supported, and CV_ID_NONE. */
uint64_t cv__local_floor(const uint64_t *word, uint32_t word_count)
{
    CV_ASSERT(word_count == 0 || word != NULL);
    return word_count == 2 ? word[0] : 0;
}

uint32_t cv__local_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                           uint64_t ret_word[CV_PERSIST_WORDS_MAX])
{
    const bool is_newer = word_count == 2 && word[0] > floor;
    ret_word[0] = is_newer ? word[0] : floor;
    ret_word[1] = is_newer ? word[1] : CV_ID_NONE; /* no owner: it is not supported again */
    CV_ASSERT(ret_word[0] >= floor);
    CV_ASSERT(word_count != 2 || ret_word[0] >= word[0]); /* an accepted token stays accepted */
    return 2;
}
