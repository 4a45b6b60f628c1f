/* src/protocols/anon_config.c - the options of `anon`, their inequalities and what follows. */
#include "protocols/anon_config.h"

#include "core/options.h"

const struct cv_option cv__anon_options[] = {
    [ANON_OPTION_ETA] = {"eta", CV_OPTION_TIME, 50 * NS_PER_MS, 100 * NS_PER_US, 60 * NS_PER_S,
                         NULL, "the leader sends this often"},
    [ANON_OPTION_EPS] = {"eps", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_MS, 600 * NS_PER_S, NULL,
                         "a leader that is silent for so long is suspected (default: 3 eta)"},
    [ANON_OPTION_R] = {"R", CV_OPTION_COUNT, 5, 1, 1000000, NULL, "numbers of a round"},
    [ANON_OPTION_SEQUENCER_TIME] = {"sequencer-time", CV_OPTION_TIME, CV_OPTION_DERIVED, NS_PER_US,
                                    60 * NS_PER_S, NULL,
                                    "the sequencer's usual time for an answer (default: eps/3)"},
    [ANON_OPTION_STUBBORN] = {"stubborn", CV_OPTION_FLAG, 1, 0, 1, NULL,
                              "no leader within eps after a proposal: propose again"},
    [ANON_OPTION_PERSIST] = {"persist", CV_OPTION_FLAG, 0, 0, 1, NULL,
                             "save both numbers: leader-order then holds across restarts too"},
    [ANON_OPTION_START] = {"start", CV_OPTION_CHOICE, 0, 0, 1, "half|paper",
                           "first listen for eps/2 to eps; the paper's 0 to eps disturbs leaders"},
    {0},
};

const char *const cv__anon_renamed[] = {"oracle", "sequencer-time", NULL};

int64_t cv__anon_query_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[ANON_OPTION_EPS] > 0); /* derived by now */
    CV_ASSERT(config->option[ANON_OPTION_SEQUENCER_TIME] > 0);
    return cv__max64(config->option[ANON_OPTION_EPS],
                     2 * config->option[ANON_OPTION_SEQUENCER_TIME]);
}

/* How far clocks drift apart within eps, with a margin. */
static int64_t drift_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[ANON_OPTION_EPS] > 0); /* derived by now */
    CV_ASSERT(config->drift_ppb >= 0);
    return config->option[ANON_OPTION_EPS] / NS_PER_US * 4 * config->drift_ppb / NS_PER_MS + 1;
}

/* A starting process listens for at least eps/2, and must hear the leader in this time. */
int64_t cv__anon_timely_ns(const struct cv_config *config)
{
    return config->option[ANON_OPTION_EPS] / 2 - config->option[ANON_OPTION_ETA] - drift_ns(config);
}

int cv__anon_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    cv__config_derive(config, ANON_OPTION_EPS, 3 * o[ANON_OPTION_ETA]);
    cv__config_derive(config, ANON_OPTION_SEQUENCER_TIME, o[ANON_OPTION_EPS] / 3);
    /* [sec. 6] one lost heartbeat must not cause a suspicion */
    if (cv__anon_timely_ns(config) <= 0) {
        return cv__config_broken(reterr, "eps/2 > eta + 4 rho eps", o[ANON_OPTION_EPS] / 2,
                                 o[ANON_OPTION_ETA] + drift_ns(config));
    }
    if (o[ANON_OPTION_EPS] <=
        /* [sec. 6] suspicions must not be faster than the sequencer */
        o[ANON_OPTION_SEQUENCER_TIME]) {
        return cv__config_broken(reterr, "eps > sequencer-time", o[ANON_OPTION_EPS],
                                 o[ANON_OPTION_SEQUENCER_TIME]);
    }
    return CV_OK;
}

/* First, waits that began earlier end: a query's longest time-out, a rest, a pause. Then, in the
 * worst case, a single process proposes alone: R + 1 numbers close a round, but the leader of that
 * round may be dead; as many again close the next. */
int64_t cv__anon_settle_ns(const struct cv_config *config)
{
    CV_ASSERT(config->option[ANON_OPTION_R] > 0);
    const int64_t eps_ns = config->option[ANON_OPTION_EPS];
    const int64_t wait_ns = (int64_t)ANON_QUERY_FACTOR_MAX * cv__anon_query_ns(config) + 6 * eps_ns;
    CV_ASSERT(wait_ns > eps_ns);
    return wait_ns + 2 * (config->option[ANON_OPTION_R] + 2) * (eps_ns + cv__anon_query_ns(config));
}

void cv__anon_contract(const struct cv_config *config, uint32_t *promises, uint32_t *assumes)
{
    (void)assumes;
    if (!config->option[ANON_OPTION_STUBBORN]) {
        /* With fewer than R suspecting processes perhaps no leader is ever elected [lemma 4], and
         * they repeat their proposals all the time. */
        *promises &=
            ~(CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) | CV_PROP(COMMUNICATION_EFFICIENT));
    }
    if (config->option[ANON_OPTION_START] != 0) {
        *promises &= ~CV_PROP(STABILITY);
    }
}
