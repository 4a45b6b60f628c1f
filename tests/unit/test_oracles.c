/* tests/unit/test_oracles.c - the scores of [Becker11, Table 1], their orders, and vectors of
 * them. */
#include "oracles/oracle.h"
#include "support/support.h"

#include <string.h>

#define MS NS_PER_MS
#define US NS_PER_US

/* Five servers in three data centres [sec. 4.3]: D1={4,5}, D2={2,3}, D3={1}. */
struct deployment {
    int64_t d1_d2_ns, d2_d3_ns, d1_d3_ns;
};
#define SLAC_CALTECH (9880 * US)
#define SLAC_FNAL (53260 * US)
#define CALTECH_FNAL (77060 * US)
static const struct deployment deployments[] = {
    {SLAC_CALTECH, SLAC_FNAL, CALTECH_FNAL}, /* 1: caltech, slac, fnal */
    {SLAC_CALTECH, CALTECH_FNAL, SLAC_FNAL}, /* 2: slac, caltech, fnal */
    {SLAC_FNAL, CALTECH_FNAL, SLAC_CALTECH}, /* 3: slac, fnal, caltech */
};

static int64_t rtt_between(const struct deployment *d, cv_id a, cv_id b)
{
    static const int site[] = {0, 3, 2, 2, 1, 1};
    const int low = site[a] < site[b] ? site[a] : site[b];
    const int high = site[a] < site[b] ? site[b] : site[a];
    if (a == b || low == high) {
        return a == b ? 0 : 200 * US;
    }
    return low == 2 ? d->d2_d3_ns : high == 2 ? d->d1_d2_ns : d->d1_d3_ns;
}

struct world {
    struct cv_oracle_view view;
    struct cv_oracle_peer peer[8];
};

static void world_init(struct world *w, cv_id self, uint32_t member_count)
{
    memset(w, 0, sizeof *w);
    w->view.self = self;
    w->view.member_count = member_count;
    w->view.peer = w->peer;
    w->view.history_unit_bytes = 1024;
    w->view.window_bytes = 1 << 20;
    w->view.bandwidth_bytes = 118000000;
}

/* p5 has crashed (-1), as in all of the paper's runs. */
static void deploy(struct world *w, cv_id self, uint32_t deployment)
{
    world_init(w, self, 5);
    for (cv_id id = 1; id <= 4; id++) {
        w->peer[id - 1].rtt_ns = rtt_between(&deployments[deployment - 1], self, id);
    }
    w->peer[4].rtt_ns = -1;
}

static int64_t score_of(const struct cv_oracle *oracle, const struct world *w)
{
    return oracle->score(&w->view);
}

/* The server that the oracle elects among 1..4 in a deployment; rates[i]: requests at server i +
 * 1. */
static cv_id elected(const char *text, uint32_t deployment, const uint64_t *rates)
{
    struct cv_scoring scoring;
    assert_int_equal(cv__scoring_parse(text, NULL, &scoring, NULL), CV_OK);
    struct cv_score best = {{0}};
    cv_id leader = CV_ID_NONE;
    for (cv_id id = 1; id <= 4; id++) {
        struct world w;
        struct cv_score score;
        deploy(&w, id, deployment);
        for (uint32_t i = 0; i < 4; i++) {
            w.peer[i].rate = rates[i];
        }
        cv__scoring_score(&scoring, &w.view, &score);
        if (leader == CV_ID_NONE || cv__scoring_compare(&scoring, &score, &best) >= 0) {
            best = score; /* the larger id wins a tie */
            leader = id;
        }
    }
    return leader;
}

static const uint64_t even[] = {250, 250, 250, 250};
static const uint64_t all_at_d3[] = {1000, 0, 0, 0};
static const uint64_t all_at_d1[] = {0, 0, 0, 1000};

/* [Table 1] theta_z and theta_r are what a process reported about itself. */
static void history_and_request_are_what_a_process_reports_of_itself(void **unused)
{
    (void)unused;
    struct world w;
    world_init(&w, 2, 3);
    w.peer[1] = (struct cv_oracle_peer){.rtt_ns = 0, .rate = 70, .history = 12};
    w.peer[0] = (struct cv_oracle_peer){.rtt_ns = 5, .rate = 99, .history = 99};
    assert_int_equal(score_of(&cv__oracle_history, &w), 12);
    assert_int_equal(score_of(&cv__oracle_request, &w), 70);
    w.peer[1].history = UINT64_MAX;
    assert_int_equal(score_of(&cv__oracle_history, &w), CV_SCORE_MAX);
}

/* [sec. 3.3] The (floor(N/2)+1)-th value of the sorted RTT vector, own = 0. */
static void consensus_is_the_quorum_th_round_trip(void **unused)
{
    (void)unused;
    struct world w;
    world_init(&w, 1, 5);
    const int64_t rtts[] = {0, 40 * MS, 10 * MS, 30 * MS, 20 * MS};
    for (uint32_t i = 0; i < 5; i++) {
        w.peer[i].rtt_ns = rtts[i];
    }
    assert_int_equal(score_of(&cv__oracle_consensus, &w), 20 * MS);
    assert_int_equal(score_of(&cv__oracle_worst_case, &w), 60 * MS);
    w.peer[4].rtt_ns = -1; /* crashed: it leaves the vector, N stays */
    assert_int_equal(score_of(&cv__oracle_consensus, &w), 30 * MS);
    w.peer[3].rtt_ns = -1;
    assert_int_equal(score_of(&cv__oracle_consensus, &w), 40 * MS);
    w.peer[2].rtt_ns = -1; /* two are not a quorum of five */
    assert_int_equal(score_of(&cv__oracle_consensus, &w), CV_SCORE_UNKNOWN);
    assert_int_equal(score_of(&cv__oracle_worst_case, &w), CV_SCORE_UNKNOWN);
    assert_int_equal(score_of(&cv__oracle_latency, &w), CV_SCORE_UNKNOWN);
}

/* [eq. 1, with the round trip] */
static void latency_weights_round_trips_with_rates(void **unused)
{
    (void)unused;
    struct world w;
    world_init(&w, 1, 3);
    w.peer[0] = (struct cv_oracle_peer){.rtt_ns = 0, .rate = 100};
    w.peer[1] = (struct cv_oracle_peer){.rtt_ns = 10 * MS, .rate = 300};
    w.peer[2] = (struct cv_oracle_peer){.rtt_ns = 40 * MS, .rate = 600};
    assert_int_equal(score_of(&cv__oracle_latency, &w), 10 * MS + (3 * MS + 24 * MS));
    w.peer[2].rtt_ns = -1; /* its clients are gone with it: lambda_T is what is left */
    assert_int_equal(score_of(&cv__oracle_latency, &w), 10 * MS + 7500 * US);
    w.peer[0].rate = 0;
    w.peer[1].rate = 0; /* no requests at all */
    assert_int_equal(score_of(&cv__oracle_latency, &w), 10 * MS);
}

/* [fig. 6 and sec. 4.3] The elected servers of the three deployments. */
static void elects_as_in_the_papers_deployments(void **unused)
{
    (void)unused;
    assert_int_equal(elected("worst-case", 1, even), 3);
    assert_int_equal(elected("worst-case", 2, even), 4);
    assert_int_equal(elected("latency", 1, all_at_d3), 1);
    assert_int_equal(elected("latency", 1, all_at_d1), 4);
    /* Sec. 4.3: and not p1, which `request` elects. */
    assert_int_equal(elected("latency", 2, all_at_d3), 4);
    assert_int_equal(elected("request", 1, all_at_d3), 1);
    assert_int_equal(elected("request", 2, all_at_d3), 1);
    /* The consensus oracle does not look at the clients. */
    assert_int_equal(elected("consensus", 1, all_at_d3), elected("consensus", 1, all_at_d1));
}

static void rotating_picks_one_in_each_epoch(void **unused)
{
    (void)unused;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        int64_t sum = 0;
        for (cv_id id = 1; id <= 5; id++) {
            struct world w;
            world_init(&w, id, 5);
            w.view.epoch = epoch;
            sum += score_of(&cv__oracle_rotating, &w);
        }
        assert_int_equal(sum, 1);
    }
}

static void load_preference_and_reported_score_as_documented(void **unused)
{
    (void)unused;
    struct world w;
    world_init(&w, 1, 3);
    w.view.capacity = 100;
    w.view.load = 30;
    w.view.preference = 2;
    w.view.reported = 77;
    assert_int_equal(score_of(&cv__oracle_load, &w), 70);
    assert_int_equal(score_of(&cv__oracle_preference, &w), 2);
    assert_int_equal(score_of(&cv__oracle_reported, &w), 77);
    w.view.load = 130;
    assert_int_equal(score_of(&cv__oracle_load, &w), 0);
}

/* The recovery time that server `self` would need; histories by server. */
static int64_t recovery_of(cv_id self, uint32_t deployment, const uint64_t *history)
{
    struct world w;
    deploy(&w, self, deployment);
    for (uint32_t i = 0; i < 4; i++) {
        w.peer[i].history = history[i];
    }
    return score_of(&cv__oracle_recovery, &w);
}

/* [fig. 8a] p1 is outdated: a server that has everything recovers at once, p1 has to fetch it
 * first. */
static void recovery_prefers_a_server_that_has_everything(void **unused)
{
    (void)unused;
    const uint64_t history[] = {0, 100000, 100000, 100000};
    for (uint32_t d = 1; d <= 3; d++) {
        assert_true(recovery_of(4, d, history) < recovery_of(1, d, history));
    }
}

/* [sec. 2.3] Ask a quorum, fetch from the nearest, and wait until a quorum has everything: a server
 * that answers late also gets late what it misses. */
static void recovery_adds_asking_fetching_and_updating_others(void **unused)
{
    (void)unused;
    struct world w;
    world_init(&w, 1, 5); /* 1000 entries of 1 KiB over a window of 1 MiB for each round trip */
    const int64_t rtts[] = {0, 10 * MS, 20 * MS, 40 * MS, -1};
    for (uint32_t i = 0; i < 5; i++) {
        w.peer[i] = (struct cv_oracle_peer){.rtt_ns = rtts[i], .history = 1000};
    }
    assert_int_equal(score_of(&cv__oracle_recovery, &w), 20 * MS + 20 * MS); /* ask, tell */
    w.peer[2].history = 0; /* 3 stays in the quorum: it has everything before 4 answers */
    const int64_t slow_ns = 1000 * 20 * MS / 1024; /* the bytes to 3 */
    assert_int_equal(score_of(&cv__oracle_recovery, &w), 40 * MS + slow_ns);
    w.peer[3].history = 0;
    w.peer[2].history = 1000;
    assert_int_equal(score_of(&cv__oracle_recovery, &w), 40 * MS);
    w.peer[0].history =
        0; /* ourselves: from 2, which is nearest; 118 MB/s are less than its window */
    const int64_t fast_ns = (int64_t)1024000 * NS_PER_S / 104857600;
    assert_int_equal(score_of(&cv__oracle_recovery, &w), 20 * MS + (10 * MS + fast_ns) + 20 * MS);
    w.peer[2].rtt_ns = -1; /* then 2 and 4 are the quorum, and 4 has nothing either */
    assert_true(score_of(&cv__oracle_recovery, &w) > 40 * MS + fast_ns + 10 * MS + 40 * MS);
    w.peer[3].rtt_ns = -1;
    assert_int_equal(score_of(&cv__oracle_recovery, &w), CV_SCORE_UNKNOWN);
}

/* [fig. 8b] p1 and p4 have everything, D2 = {2,3} is outdated, and D3 is nearer to D2 than D1 is.
 * The longest history cannot decide; p1 recovers faster. */
static void recovery_counts_the_servers_that_must_be_updated(void **unused)
{
    (void)unused;
    const struct deployment far_d1 = {CALTECH_FNAL, SLAC_CALTECH, CALTECH_FNAL};
    const uint64_t history[] = {100000, 50000, 50000, 100000};
    int64_t time_ns[2];
    const cv_id who[] = {1, 4};
    for (uint32_t k = 0; k < 2; k++) {
        struct world w;
        world_init(&w, who[k], 5);
        for (cv_id id = 1; id <= 4; id++) {
            w.peer[id - 1].rtt_ns = rtt_between(&far_d1, who[k], id);
            w.peer[id - 1].history = history[id - 1];
        }
        w.peer[4].rtt_ns = -1;
        time_ns[k] = score_of(&cv__oracle_recovery, &w);
        assert_int_equal(score_of(&cv__oracle_history, &w), 100000);
    }
    assert_true(time_ns[0] < time_ns[1]);
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* [sec. 5] The fattest among the fastest. */
static void vector_compares_classes_first(void **unused)
{
    (void)unused;
    struct cv_scoring scoring;
    assert_int_equal(cv__scoring_parse("latency/10ms,history", NULL, &scoring, NULL), CV_OK);
    assert_int_equal(scoring.part_count, 2);
    assert_true(cv__scoring_needs_peers(&scoring));
    struct world w;
    struct cv_score fast_thin, fast_fat, slow_fat;
    world_init(&w, 1, 1);
    w.peer[0].history = 5;
    cv__scoring_score(&scoring, &w.view, &fast_thin);
    w.peer[0].history = 9;
    cv__scoring_score(&scoring, &w.view, &fast_fat);
    slow_fat = fast_fat;
    slow_fat.part[0] = 1; /* the class from 10 to 20 ms */
    slow_fat.part[1] = 99;
    assert_true(cv__scoring_compare(&scoring, &fast_fat, &fast_thin) > 0);
    assert_true(cv__scoring_compare(&scoring, &fast_thin, &slow_fat) > 0);
    assert_true(cv__scoring_compare(&scoring, &slow_fat, &fast_fat) < 0);
    assert_int_equal(cv__scoring_compare(&scoring, &slow_fat, &slow_fat), 0);
}

static void unknown_ranks_below_every_score(void **unused)
{
    (void)unused;
    static const char *const names[] = {"history", "latency"};
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        struct cv_scoring scoring;
        assert_int_equal(cv__scoring_parse(names[i], NULL, &scoring, NULL), CV_OK);
        const struct cv_score unknown = {{CV_SCORE_UNKNOWN}};
        const struct cv_score worst = {{i == 0 ? 0 : CV_SCORE_MAX}};
        assert_true(cv__scoring_compare(&scoring, &unknown, &worst) < 0);
        assert_true(cv__scoring_compare(&scoring, &worst, &unknown) > 0);
        assert_false(cv__scoring_is_better_by(&scoring, &unknown, &worst, 0));
        assert_true(cv__scoring_is_better_by(&scoring, &worst, &unknown, 500));
    }
}

static void margin_is_a_share_of_the_own_score(void **unused)
{
    (void)unused;
    struct cv_scoring higher, lower;
    assert_int_equal(cv__scoring_parse("request", NULL, &higher, NULL), CV_OK);
    assert_int_equal(cv__scoring_parse("consensus", NULL, &lower, NULL), CV_OK);
    const struct cv_score own = {{100}}, a = {{119}}, b = {{120}}, c = {{81}}, d = {{80}};
    assert_false(cv__scoring_is_better_by(&higher, &a, &own, 20));
    assert_true(cv__scoring_is_better_by(&higher, &b, &own, 20));
    assert_false(cv__scoring_is_better_by(&lower, &c, &own, 20));
    assert_true(cv__scoring_is_better_by(&lower, &d, &own, 20));
    assert_false(cv__scoring_is_better_by(&higher, &own, &own, 0)); /* equal is not better */
}

static void refuses_malformed_lists_of_scores(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int error;
    } wrong[] = {
        {"", CV_E_UNKNOWN},
        {"fastest", CV_E_UNKNOWN},
        {"latency,", CV_E_UNKNOWN},
        {"latenc", CV_E_UNKNOWN},
        {"latency/", CV_E_INVALID},
        {"latency/10", CV_E_INVALID},
        {"latency/0ms", CV_E_INVALID},
        {"history/10ms", CV_E_INVALID},
        {"history/0", CV_E_INVALID},
        {"history/99999999999999999999", CV_E_INVALID},
        {"history,request,load,latency,rotating", CV_E_INVALID},
    };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cv_scoring scoring;
        struct cv_errtext why = {""};
        assert_int_equal(cv__scoring_parse(wrong[i].text, NULL, &scoring, &why), wrong[i].error);
        assert_true(strlen(why.text) > 0);
    }
}

static int64_t rtt_of(const void *context, cv_id id)
{
    const struct world *w = context;
    return w->peer[id - 1].rtt_ns;
}

/* Compares with plain sorting. */
static void nth_is_what_sorting_gives(void **unused)
{
    (void)unused;
    uint64_t seed = 7;
    for (uint32_t round = 0; round < test_scale(500); round++) {
        struct world w;
        world_init(&w, 1, 8);
        int64_t sorted[8];
        uint32_t known = 0;
        for (uint32_t i = 0; i < 8; i++) {
            w.peer[i].rtt_ns = (int64_t)test_random_below(&seed, 10) - 1;
            for (uint32_t k = known; w.peer[i].rtt_ns >= 0; k--) {
                if (k == 0 || sorted[k - 1] <= w.peer[i].rtt_ns) {
                    sorted[k] = w.peer[i].rtt_ns;
                    known++;
                    break;
                }
                sorted[k] = sorted[k - 1];
            }
        }
        for (uint32_t k = 1; k <= 8; k++) {
            assert_int_equal(cv__oracle_nth(8, k, rtt_of, &w),
                             k <= known ? sorted[k - 1] : CV_SCORE_UNKNOWN);
        }
    }
}

static void every_oracle_describes_itself(void **unused)
{
    (void)unused;
    const struct cv_oracle *oracle;
    uint32_t count = 0;
    for (; (oracle = cv_oracle_at(count)) != NULL; count++) {
        uint32_t index;
        assert_ptr_equal(cv__oracle_named(oracle->name, strlen(oracle->name), &index), oracle);
        assert_int_equal(index, count);
        assert_true(strlen(oracle->formula) > 0 && strlen(oracle->inputs) > 0);
        assert_true(strlen(oracle->use) > 0);
    }
    assert_int_equal(count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_and_request_are_what_a_process_reports_of_itself),
        cmocka_unit_test(consensus_is_the_quorum_th_round_trip),
        cmocka_unit_test(latency_weights_round_trips_with_rates),
        cmocka_unit_test(elects_as_in_the_papers_deployments),
        cmocka_unit_test(rotating_picks_one_in_each_epoch),
        cmocka_unit_test(load_preference_and_reported_score_as_documented),
        cmocka_unit_test(recovery_prefers_a_server_that_has_everything),
        cmocka_unit_test(recovery_adds_asking_fetching_and_updating_others),
        cmocka_unit_test(recovery_counts_the_servers_that_must_be_updated),
        cmocka_unit_test(vector_compares_classes_first),
        cmocka_unit_test(unknown_ranks_below_every_score),
        cmocka_unit_test(margin_is_a_share_of_the_own_score),
        cmocka_unit_test(refuses_malformed_lists_of_scores),
        cmocka_unit_test(nth_is_what_sorting_gives),
        cmocka_unit_test(every_oracle_describes_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
