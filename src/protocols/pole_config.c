/* src/protocols/pole_config.c - the constants of `pole`: defaults, inequalities, the bound on
 * settling. */
#include "protocols/pole_config.h"

#include "core/errors.h"
#include "core/options.h"
#include "oracles/oracle.h"
#include "protocols/pole.h"
#include "protocols/pole_tune.h"

#include <string.h>

const struct cv_option cv__pole_options[] = {
    [POLE_OPTION_PROFILE] = {"profile", CV_OPTION_CHOICE, 0, 0, 3, "lan|wan|loopback|auto",
                             "where the defaults of delta, sigma and heartbeat come from; auto: "
                             "the leader measures, and chooses heartbeat and lease"},
    [POLE_OPTION_DELTA] =
        {"delta", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 60 * NS_PER_S, NULL,
         "a message usually takes no longer than this (lan 2ms, wan 150ms, loopback 500us)"},
    [POLE_OPTION_SIGMA] = {"sigma", CV_OPTION_TIME, CV_OPTION_DERIVED, 0, 60 * NS_PER_S, NULL,
                           "a process reacts within this (lan 2ms, wan 10ms, loopback 500us)"},
    [POLE_OPTION_HEARTBEAT] =
        {"heartbeat", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, 60 * NS_PER_S, NULL,
         "a leader sends a heartbeat this often (lan 10ms, wan 100ms, loopback 2ms)"},
    [POLE_OPTION_TIMEOUT] = {"timeout", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US,
                             POLE_LEASE_NS_MAX, NULL,
                             "silence after which a leader is suspected (default: the larger of 4 "
                             "heartbeat and 3 heartbeat + delta + sigma)"},
    [POLE_OPTION_LEASE] = {"lease", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, POLE_LEASE_NS_MAX,
                           NULL, "a follower's promise lasts this long (default: timeout + round)"},
    [POLE_OPTION_ROUND] = {"round", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US, POLE_LEASE_NS_MAX,
                           NULL,
                           "T: how long proposals are collected (default: 3 delta + 2 sigma)"},
    [POLE_OPTION_RETRY_MAX] = {"retry-max", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US,
                               POLE_LEASE_NS_MAX, NULL,
                               "cap of the back-off between proposals (default: 4 round)"},
    [POLE_OPTION_ORACLE] = {"oracle", CV_OPTION_TEXT, POLE_TEXT_ORACLE, 0, 0, "history",
                            "NAME or NAME/RANGE,NAME...: whose score decides, in this order; see "
                            "'conclave oracles'"},
    [POLE_OPTION_PREFERENCE] = {"preference", CV_OPTION_TEXT, POLE_TEXT_PREFERENCE, 0, 0, "",
                                "for the oracle of that name: ids, the most wanted first: 3,1,2"},
    [POLE_OPTION_PROBE] = {"probe", CV_OPTION_TIME, 500 * NS_PER_MS, NS_PER_MS, 60 * NS_PER_S, NULL,
                           "how often round trips are measured and inputs exchanged, if the oracle "
                           "needs them"},
    [POLE_OPTION_FIRST] =
        {"first-wait", CV_OPTION_TIME, CV_OPTION_DERIVED, 0, 600 * NS_PER_S, NULL,
         "the first election waits so long for the data of all members (default: 4 "
         "round)"},
    [POLE_OPTION_RESIGN_MARGIN] = {"resign-margin", CV_OPTION_COUNT, 0, 0, 1000, NULL,
                                   "per cent by which another must be better for the leader to "
                                   "hand over to it; 0: it never does"},
    [POLE_OPTION_RESIGN_HOLD] = {"resign-hold", CV_OPTION_TIME, 10 * NS_PER_S, 0, 36000 * NS_PER_S,
                                 NULL,
                                 "how long another must be better before the leader hands over"},
    [POLE_OPTION_HISTORY_UNIT] = {"history-unit", CV_OPTION_COUNT, 1024, 1, INT64_C(1) << 30, NULL,
                                  "bytes of one unit of history-length, for recovery"},
    [POLE_OPTION_WINDOW] = {"window", CV_OPTION_COUNT, 1 << 20, 1, INT64_C(1) << 40, NULL,
                            "bytes in flight on one connection, for recovery"},
    [POLE_OPTION_BANDWIDTH] = {"bandwidth", CV_OPTION_COUNT, 118000000, 1, INT64_C(1) << 40, NULL,
                               "bytes per second of a line, for recovery"},
    [POLE_OPTION_EPOCHS] =
        {"epochs", CV_OPTION_COUNT, 0, 0, 4096, NULL,
         "epochs reserved with one save, so that an election waits for no disk; 0: each "
         "is saved on its own"},
    [POLE_OPTION_LEASE_MIN] = {"lease-min", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_MS,
                               POLE_LEASE_NS_MAX, NULL,
                               "profile=auto chooses no shorter lease (default: 10ms)"},
    [POLE_OPTION_LEASE_MAX] = {"lease-max", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_MS,
                               POLE_LEASE_NS_MAX, NULL,
                               "profile=auto chooses no longer lease, and begins with it (default: "
                               "the larger of 1s and 2 lease-min)"},
    {0},
};

int64_t cv__pole_lead_of(int64_t lease_ns, int64_t drift_ppb)
{
    CV_ASSERT(drift_ppb >= 0); /* safety depends only on this bound */
    CV_ASSERT(lease_ns > 0);
    const int64_t lead_ns = lease_ns - (int64_t)((__int128)lease_ns * 2 * drift_ppb / NS_PER_S) - 1;
    CV_ASSERT(lead_ns < lease_ns); /* a leadership ends before the promises that it rests on */
    return lead_ns;
}

int64_t cv__pole_lead_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[POLE_OPTION_LEASE] != CV_OPTION_DERIVED);
    return cv__pole_lead_of(config->option[POLE_OPTION_LEASE], config->drift_ppb);
}

int64_t cv__pole_wait_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    CV_ASSERT(o[POLE_OPTION_ROUND] > 0);
    CV_ASSERT(o[POLE_OPTION_HEARTBEAT] > 0);
    return cv__max64(2 * o[POLE_OPTION_ROUND],
                     o[POLE_OPTION_HEARTBEAT] + o[POLE_OPTION_DELTA] + o[POLE_OPTION_SIGMA]);
}

/* Promises to a process that is gone run out; two claimants in vain give up and stand back; then
 * one election with its retries, and the first heartbeat of the winner. */
int64_t cv__pole_settle_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    struct cv_scoring scoring;
    const bool waits =
        cv__scoring_parse(config->text[POLE_TEXT_ORACLE], config, &scoring, NULL) == CV_OK &&
        cv__scoring_needs_peers(&scoring);
    return 6 * (o[POLE_OPTION_LEASE] + o[POLE_OPTION_ROUND]) + 2 * o[POLE_OPTION_RETRY_MAX] +
           o[POLE_OPTION_TIMEOUT] + 2 * cv__pole_wait_ns(config) +
           (waits ? o[POLE_OPTION_FIRST] : 0);
}

/* Each process that is not heard by a majority may be chosen once, claim in vain and stand back;
 * then come those that have not claimed yet. This is not a strict bound: docs/pole.md says what was
 * measured. */
int64_t cv__pole_graph_ns(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    return config->member_count * cv__pole_settle_ns(config);
}

int64_t cv__pole_timely_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[POLE_OPTION_DELTA] > 0);
    return config->option[POLE_OPTION_DELTA];
}

/* The record: the epoch followed, its leader, the lease promised, the epoch claimed. With blocks:
 * the bound, POLE_FOLLOWED_UNKNOWN, the longest lease promised, the bound. */
uint64_t cv__pole_floor(const uint64_t *word, uint32_t word_count)
{
    if (word_count != 4) {
        return 0;
    }
    return word[0] > word[3] ? word[0] : word[3];
}

/* The promise in the record, if any, still binds for its lease. No process ever claims the epoch
 * `floor` itself, so it is not followed again. */
uint32_t cv__pole_restore(const uint64_t *word, uint32_t word_count, uint64_t floor,
                          uint64_t ret_word[CV_PERSIST_WORDS_MAX])
{
    const bool is_there = word_count == 4;
    ret_word[0] = is_there && word[0] > floor ? word[0] : floor;
    ret_word[1] = is_there ? word[1] : CV_ID_NONE;
    ret_word[2] = is_there ? word[2] : 0;
    ret_word[3] = is_there && word[3] > floor ? word[3] : floor;
    CV_ASSERT(!is_there || ret_word[0] >= word[0]); /* a followed epoch stays followed */
    CV_ASSERT(!is_there || ret_word[3] >= word[3]); /* a claimed one stays claimed */
    CV_ASSERT(ret_word[0] >= floor);                /* no epoch up to it is followed again, ... */
    CV_ASSERT(ret_word[3] >= floor);                /* ... or claimed again */
    return 4;
}

int64_t cv__pole_lease_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[POLE_OPTION_LEASE_MAX] >= config->option[POLE_OPTION_LEASE]);
    return config->option[POLE_OPTION_LEASE_MAX];
}

int64_t cv__pole_lease_ns_min(const struct cv_config *config)
{
    CV_ASSERT(config->option[POLE_OPTION_LEASE_MIN] <= config->option[POLE_OPTION_LEASE_MAX]);
    return config->option[POLE_OPTION_LEASE_MIN];
}

int cv__pole_preference(const struct cv_config *config, uint32_t *ret_place,
                        struct cv_errtext *reterr)
{
    const char *text = config->text[POLE_TEXT_PREFERENCE];
    uint64_t seen[CV_MEMBERS_MAX / 64] = {0};
    uint32_t behind = 0;
    bool is_listed = false;
    for (const char *at = text; *at != '\0';) {
        uint64_t id = 0;
        const char *digit = at;
        for (; *digit >= '0' && *digit <= '9' && id <= CV_MEMBERS_MAX; digit++) {
            id = id * 10 + (uint64_t)(*digit - '0');
        }
        if (digit == at || id < 1 || id > config->member_count ||
            (*digit != ',' && *digit != '\0') || (*digit == ',' && digit[1] == '\0')) {
            return cv__fail(reterr, CV_E_INVALID, "preference=%s: write members 1 to %u like 3,1,2",
                            text, config->member_count);
        }
        if ((seen[(id - 1) / 64] >> ((id - 1) % 64)) & 1) {
            return cv__fail(reterr, CV_E_INVALID, "preference=%s names %u twice", text,
                            (unsigned)id);
        }
        seen[(id - 1) / 64] |= UINT64_C(1) << ((id - 1) % 64);
        is_listed = is_listed || id == config->self;
        behind += is_listed;
        at = *digit == ',' ? digit + 1 : digit;
    }
    CV_ASSERT(behind <= config->member_count);
    *ret_place = behind;
    return CV_OK;
}

static int check_times(const struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    const int64_t delta = o[POLE_OPTION_DELTA];
    const int64_t sigma = o[POLE_OPTION_SIGMA];
    const int64_t eta = o[POLE_OPTION_HEARTBEAT];
    if (cv__pole_lead_ns(config) <= 2 * eta + 2 * delta + sigma) {
        return cv__config_broken(reterr, "lease(1-2rho) > 2 heartbeat + 2 delta + sigma",
                                 cv__pole_lead_ns(config), 2 * eta + 2 * delta + sigma);
    }
    if (o[POLE_OPTION_TIMEOUT] < 2 * eta + delta + sigma) {
        return cv__config_broken(reterr, "timeout >= 2 heartbeat + delta + sigma",
                                 o[POLE_OPTION_TIMEOUT], 2 * eta + delta + sigma);
    }
    if (o[POLE_OPTION_ROUND] < 3 * delta + sigma) {
        return cv__config_broken(reterr, "round >= 3 delta + sigma", o[POLE_OPTION_ROUND],
                                 3 * delta + sigma);
    }
    if (o[POLE_OPTION_RETRY_MAX] < o[POLE_OPTION_ROUND]) {
        return cv__config_broken(reterr, "retry-max >= round", o[POLE_OPTION_RETRY_MAX],
                                 o[POLE_OPTION_ROUND]);
    }
    if (2 * delta + sigma > (POLE_BEATS_KEPT - 8) * eta) {
        return cv__config_broken(reterr, "2 delta + sigma <= 56 heartbeat", 2 * delta + sigma,
                                 (POLE_BEATS_KEPT - 8) * eta);
    }
    return CV_OK;
}

/* Times that follow from lease-max, until a leader has measured. Deriving them again gives the same
 * times. */
static int configure_auto(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    cv__config_derive(config, POLE_OPTION_LEASE_MIN, 10 * NS_PER_MS);
    cv__config_derive(
        config, POLE_OPTION_LEASE_MAX,
        cv__min64(cv__max64(NS_PER_S, 2 * o[POLE_OPTION_LEASE_MIN]), POLE_LEASE_NS_MAX));
    const int64_t lease = o[POLE_OPTION_LEASE_MAX];
    const struct {
        uint32_t option;
        int64_t value;
    } times[] = {
        {POLE_OPTION_LEASE, lease},
        {POLE_OPTION_DELTA, cv__pole_tune_delta_ns(lease)},
        {POLE_OPTION_SIGMA, cv__pole_tune_sigma_ns(lease)},
        {POLE_OPTION_HEARTBEAT, cv__pole_tune_beat_ns(lease, lease / 8)},
        {POLE_OPTION_TIMEOUT, cv__pole_tune_timeout_ns(lease)},
        {POLE_OPTION_ROUND, cv__pole_tune_round_ns(lease)},
        {POLE_OPTION_RETRY_MAX, 4 * cv__pole_tune_round_ns(lease)},
    };
    if (o[POLE_OPTION_LEASE_MIN] > lease) {
        return cv__config_broken(reterr, "lease-min <= lease-max", o[POLE_OPTION_LEASE_MIN], lease);
    }
    for (uint32_t i = 0; i < COUNT_OF(times); i++) {
        cv__config_derive(config, times[i].option, times[i].value);
        if (o[times[i].option] != times[i].value) {
            return cv__fail(reterr, CV_E_INVALID,
                            "profile=auto chooses %s itself: give lease-min and lease-max, or "
                            "another profile",
                            cv__pole_options[times[i].option].name);
        }
    }
    return CV_OK;
}

/* With fixed times the bounds are the lease itself. */
static int check_bounds(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    cv__config_derive(config, POLE_OPTION_LEASE_MIN, o[POLE_OPTION_LEASE]);
    cv__config_derive(config, POLE_OPTION_LEASE_MAX, o[POLE_OPTION_LEASE]);
    if (o[POLE_OPTION_PROFILE] != POLE_PROFILE_AUTO &&
        (o[POLE_OPTION_LEASE_MIN] != o[POLE_OPTION_LEASE] ||
         o[POLE_OPTION_LEASE_MAX] != o[POLE_OPTION_LEASE])) {
        return cv__fail(reterr, CV_E_INVALID,
                        "lease-min and lease-max are for profile=auto; with another profile the "
                        "lease is fixed");
    }
    CV_ASSERT(o[POLE_OPTION_LEASE] <= o[POLE_OPTION_LEASE_MAX]); /* what a restart waits for */
    CV_ASSERT(o[POLE_OPTION_LEASE_MIN] <= o[POLE_OPTION_LEASE_MAX]);
    return CV_OK;
}

static int configure_times(struct cv_config *config, struct cv_errtext *reterr)
{
    static const struct {
        int64_t delta, sigma, eta;
    } profiles[] = {
        [POLE_PROFILE_LAN] = {2 * NS_PER_MS, 2 * NS_PER_MS, 10 * NS_PER_MS},
        [POLE_PROFILE_WAN] = {150 * NS_PER_MS, 10 * NS_PER_MS, 100 * NS_PER_MS},
        [POLE_PROFILE_LOOPBACK] = {500 * NS_PER_US, 500 * NS_PER_US, 2 * NS_PER_MS},
    };
    const int64_t *o = config->option;
    const int64_t profile = o[POLE_OPTION_PROFILE];
    if (profile == POLE_PROFILE_AUTO) {
        return configure_auto(config, reterr);
    }
    CV_ASSERT(profile >= 0);
    CV_ASSERT(profile < (int64_t)COUNT_OF(profiles)); /* one of the words of the option */
    cv__config_derive(config, POLE_OPTION_DELTA, profiles[profile].delta);
    cv__config_derive(config, POLE_OPTION_SIGMA, profiles[profile].sigma);
    cv__config_derive(config, POLE_OPTION_HEARTBEAT, profiles[profile].eta);
    const int64_t eta = o[POLE_OPTION_HEARTBEAT];
    cv__config_derive(config, POLE_OPTION_ROUND,
                      3 * o[POLE_OPTION_DELTA] + 2 * o[POLE_OPTION_SIGMA]);
    cv__config_derive(config, POLE_OPTION_TIMEOUT,
                      cv__max64(4 * eta, 3 * eta + o[POLE_OPTION_DELTA] + o[POLE_OPTION_SIGMA]));
    cv__config_derive(config, POLE_OPTION_LEASE, o[POLE_OPTION_TIMEOUT] + o[POLE_OPTION_ROUND]);
    cv__config_derive(config, POLE_OPTION_RETRY_MAX, 4 * o[POLE_OPTION_ROUND]);
    return CV_OK;
}

int cv__pole_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    struct cv_scoring scoring;
    uint32_t place;
    int error = configure_times(config, reterr);
    if (error == CV_OK) {
        cv__config_derive(config, POLE_OPTION_FIRST, 4 * o[POLE_OPTION_ROUND]);
        error = check_bounds(config, reterr);
    }
    if (error == CV_OK) {
        error = cv__oracles_check(config, reterr);
    }
    if (error == CV_OK) {
        error = cv__scoring_parse(config->text[POLE_TEXT_ORACLE], config, &scoring, reterr);
    }
    if (error == CV_OK) {
        error = cv__pole_preference(config, &place, reterr);
    }
    return error != CV_OK ? error : check_times(config, reterr);
}

void cv__pole_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes)
{
    *promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) | CV_PROP(LEADER_ORDER) |
                CV_PROP(STABILITY);
    *assumes = BIT(CV_ASSUME_BOUNDED_DRIFT) | BIT(CV_ASSUME_BOUNDED_DELAY) |
               BIT(CV_ASSUME_NO_LOSS) | BIT(CV_ASSUME_PROMPT_PROCESSES) |
               BIT(CV_ASSUME_TRANSITIVE_LINKS) | BIT(CV_ASSUME_MAJORITY);
    if (config->option[POLE_OPTION_RESIGN_MARGIN] > 0) {
        /* A better process may appear at any time, and between two leaders there is none. */
        *promises &= ~(CV_PROP(STABILITY) | CV_PROP(TERMINATION) | CV_PROP(AGREEMENT));
    }
    CV_ASSERT((*promises & CV_PROP(AT_MOST_ONE_LEADER)) != 0); /* whatever the options are */
    CV_ASSERT((*assumes & BIT(CV_ASSUME_MAJORITY)) != 0);
}
