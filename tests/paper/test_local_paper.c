/* tests/paper/test_local_paper.c - what [Fetzer99] says about the local leader election service,
 * claim by claim, in the order of its sections.
 *
 * Figures are reconstructed: docs/protocols.md. The paper's processes p, q, r ... are 1, 2, 3 ...
 * One message takes 1 ms; Delta and sigma are those of the lan profile, and kappa is 0.389 s. Each
 * test also ends with the verdict of the simulator's properties. Sec. VIII, the pseudocode, is in
 * test_local_rules_paper.c, and fig. 24 over random graphs in tests/property/prop_local_graphs.c;
 * what is ours is in test_local_stories.c. */
#include "core/nodeset.h"
#include "protocols/local_config.h"
#include "support/local_cluster.h"
#include "support/solo.h"
#include "support/support.h"

#include <string.h>

/* Looks at each millisecond of an interval: returns which nodes led at some of them, and which at
 * all. */
static uint32_t watch(struct cluster *c, double until_ms, uint32_t *ret_always)
{
    uint32_t some = 0;
    uint32_t always = UINT32_MAX;
    while (cluster_now_ms(c) < until_ms) {
        cluster_run_until(c, cluster_now_ms(c) + 1);
        some |= local_leaders(c);
        always &= local_leaders(c);
    }
    *ret_always = always;
    return some;
}

/* ---- sec. I: introduction -------------------------------------------------------------------- */

/* [Fetzer99, fig. 1] Two groups, each connected in itself, and one link between them: the service
 * may split them into two logical partitions, each with its leader. */
static void fig_1_one_link_between_two_groups_splits_them(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 6\n"
                                            "link 1-4 down\nlink 1-5 down\nlink 1-6 down\n"
                                            "link 2-4 down\nlink 2-5 down\nlink 2-6 down\n"
                                            "link 3-4 down\nlink 3-5 down\n" /* 3-6 is up */
                                            "run 5s\n");
    cluster_run_until(c, 3 * local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1) | BIT(4));
    assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(local_supporters(c, 4), BIT(4) | BIT(5) | BIT(6));
    local_end_well(c);
}

/* Trios, with each of the three in the middle. */
static struct cluster *trio(cv_id middle, bool from_the_start, uint64_t seed)
{
    const cv_id a = middle == 1 ? 2 : 1;
    const cv_id b = middle == 3 ? 2 : 3;
    return cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms jitter 20%%\nseed %llu\n"
                               "%slink %u-%u down\nrun 5s\n",
                         (unsigned long long)seed, from_the_start ? "" : "at 1s ", a, b);
}

/* [Fetzer99, fig. 2 and 9] "only one of the three processes is permitted to become local leader",
 * and one does: the lowest. */
static void fig_2_only_one_of_an_unstable_trio_leads(void **unused)
{
    (void)unused;
    for (cv_id middle = 1; middle <= 3; middle++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct cluster *c = trio(middle, seed % 2 == 0, seed);
            cluster_run_until(c, (seed % 2 == 0 ? 0 : 1000) + local_kappa_ms(c));
            uint32_t always;
            assert_int_equal(watch(c, 4900, &always), BIT(1));
            assert_int_equal(always, BIT(1));
            local_end_well(c);
        }
    }
}

/* [Fetzer99, fig. 2b] "communication might have to go via the local leader": the two that are not
 * connected are in one logical partition, with the one in the middle as its leader. */
static void fig_2_middle_one_leads_two_that_are_not_connected(void **unused)
{
    (void)unused;
    struct cluster *c = trio(/* middle= */ 1, /* from_the_start= */ true, 1);
    cluster_run_until(c, local_kappa_ms(c));
    assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(2) | BIT(3));
    assert_int_equal(cluster_leader(c), 1);
    local_end_well(c);
}

/* [Fetzer99, fig. 2c to f] Otherwise the logical partition is the leader and the one in the middle;
 * the third one knows no leader. */
static void fig_2_outer_one_leads_the_middle_one(void **unused)
{
    (void)unused;
    for (cv_id middle = 2; middle <= 3; middle++) {
        const cv_id third = 5 - middle;
        struct cluster *c = trio(middle, /* from_the_start= */ true, 1);
        cluster_run_until(c, local_kappa_ms(c));
        assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(middle));
        assert_int_equal(cluster_leader_at(c, middle), 1);
        assert_int_equal(cluster_leader_at(c, third), CV_ID_NONE);
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 2g] "we do not want two local leaders p and r even when they are only indirectly
 * connected by q". Such a state, with both leading when q comes to connect them, ends within
 * kappa. */
static void fig_2_two_leaders_that_a_third_connects_do_not_last(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c =
            cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms jitter 20%%\n"
                                "seed %llu\nlink 1-2 down\nlink 1-3 down\nlink 2-3 down\n"
                                "at 1s link 1-3 up\nat 1s link 2-3 up\nrun 4s\n",
                          (unsigned long long)seed);
        cluster_run_until(c, 999);
        assert_int_equal(local_leaders(c), BIT(1) | BIT(2) | BIT(3));
        cluster_run_until(c, 1000 + local_kappa_ms(c));
        uint32_t always;
        assert_int_equal(watch(c, 3900, &always), BIT(1));
        assert_int_equal(always, BIT(1));
        local_end_well(c);
    }
}

/* [Fetzer99, sec. I, 1 to 4] Logical partitions never overlap, a stable partition is part of one,
 * two leaders are in two, and each member is connected to its leader. Checked at every millisecond
 * of runs with splits and merges. */
static void sec_1_logical_partitions_have_the_four_properties(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *c = cluster_start(
            LOCAL
            "\nnodes 6\nlink * delay 1ms jitter 50%%\nseed %llu\n"
            "at 0.5s partition 1 4 | 2 3 5 6 for 700ms\nat 1.5s partition 1 2 3 | 4 5 | 6 for "
            "600ms\n"
            "at 2.5s link 1-2 down\nat 2.6s link 1-3 down\nat 3.2s link 1-5 down\nat 4s heal\n"
            "run 5s\n",
            (unsigned long long)seed);
        while (cluster_now_ms(c) < 4999) {
            cluster_run_until(c, cluster_now_ms(c) + 1);
            uint32_t taken = 0;
            for (cv_id id = 1; id <= 6; id++) {
                const uint32_t set = local_supporters(c, id);
                assert_int_equal(set & taken, 0);
                assert_true(set == 0 || (set & BIT(id)) != 0);
                taken |= set;
            }
        }
        assert_int_equal(local_supporters(c, 1), 0x7e);
        local_end_well(c);
    }
}

/* ---- sec. III and IV: connected, Delta-partitions -------------------------------------------- */

/* [Fetzer99, fig. 4] The network between two LANs is slow, not broken: each LAN has a leader, and
 * both have one together when the network is fast again. */
static void fig_4_slow_network_between_two_lans_makes_two_leaders(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 4\nlink * delay 1ms\n"
                                            "site left 1 2\nsite right 3 4\nrtt left right 2ms\n"
                                            "at 1s link 1-3 delay 30ms\nat 1s link 1-4 delay 30ms\n"
                                            "at 1s link 2-3 delay 30ms\nat 1s link 2-4 delay 30ms\n"
                                            "at 3s link * delay 1ms\nrun 5s\n");
    cluster_run_until(c, 999);
    assert_int_equal(local_leaders(c), BIT(1));
    cluster_run_until(c, 1000 + local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1) | BIT(3));
    assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(2));
    assert_int_equal(local_supporters(c, 3), BIT(3) | BIT(4));
    cluster_run_until(c, 3030 + local_kappa_ms(c)); /* the last slow message has arrived */
    assert_int_equal(local_leaders(c), BIT(1));
    assert_int_equal(local_supporters(c, 1), 0x1e);
    local_end_well(c);
}

/* ---- sec. V: specification ------------------------------------------------------------------- */

/* [Fetzer99, sec. V, fig. 7] T: a stable partition has a leader within kappa, whatever happened
 * before. */
static void fig_7_stable_partition_has_a_leader_within_kappa(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed;
        char left[60] = "1";
        char right[60] = "";
        cv_id lowest = CV_ID_NONE;
        for (cv_id id = 2; id <= 7; id++) {
            char *side = test_random_below(&random, 2) == 0 && id != 7 ? left : right;
            (void)snprintf(side + strlen(side), sizeof left - strlen(side), " %u", id);
            lowest = side == right && lowest == CV_ID_NONE ? id : lowest;
        }
        struct cluster *c = cluster_start(
            LOCAL "\nnodes 7\nlink * delay 1ms jitter 50%%\nclock * drift random 100ppm\n"
                  "seed %llu\nat %ums partition %s | %s\nrun 4s\n",
            (unsigned long long)seed, 1000 + test_random_below(&random, 50), left, right);
        cluster_run_until(c, 1050 + local_kappa_ms(c));
        assert_int_equal(local_leaders(c), BIT(1) | BIT(lowest));
        local_end_well(c);
    }
}

/* [Fetzer99, sec. V, fig. 8] "the leadership is transferred periodically", in the order of ids, and
 * still there is a leader in each interval of kappa. */
static void fig_8_leadership_goes_round(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL " rotate=500ms\nnodes 4\nlink * delay 1ms\n"
                                            "run 12s\n");
    cv_id last = CV_ID_NONE;
    uint32_t turns = 0;
    double led_ms = 0;
    double began_ms = 0;
    cluster_run_until(c, 100);
    while (cluster_now_ms(c) < 11990) {
        cluster_run_until(c, cluster_now_ms(c) + 1);
        const uint32_t set = local_leaders(c);
        assert_true((set & (set - 1)) == 0); /* one or none */
        if (set == 0) {
            assert_true(cluster_now_ms(c) - led_ms < local_kappa_ms(c));
            continue;
        }
        led_ms = cluster_now_ms(c);
        const cv_id leader = (cv_id)__builtin_ctz(set);
        if (leader != last) {
            assert_true(last == CV_ID_NONE || leader == last % 4 + 1);
            assert_true(turns < 2 || (led_ms - began_ms > 500 && led_ms - began_ms < 600));
            last = leader;
            began_ms = led_ms;
            turns++;
        }
    }
    assert_true(turns >= 20);
    local_end_well(c);
}

/* [Fetzer99, sec. V, fig. 9 and 12] SO and LS: nobody supports two leaders, and every leader
 * supports itself; at each millisecond, also while partitions come and go. */
static void fig_9_and_12_nobody_supports_two_and_every_leader_supports_itself(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c = cluster_start(
            LOCAL "\nnodes 5\nlink * delay 1ms jitter 50%%\nseed %llu\n"
                  "random faults rate 8/s kinds partition,link,oneway,loss,slow,pause until 2.5s "
                  "lasting 10ms..400ms\nrun 3s\n",
            (unsigned long long)seed);
        while (cluster_now_ms(c) < 2999) {
            cluster_run_until(c, cluster_now_ms(c) + 1);
            uint32_t supported = 0;
            for (cv_id id = 1; id <= 5; id++) {
                const uint32_t set = local_supporters(c, id);
                assert_int_equal(supported & set, 0);
                assert_true(set == 0 || (set & BIT(id)) != 0);
                supported |= set;
            }
        }
        local_end_well(c);
    }
}

/* [Fetzer99, sec. VI, fig. 10, 11 and 13] The closure of "supports" divides the processes into
 * classes; each class has one leader at most. Here a class is a leader with its supporters, since
 * supporters of a process that does not lead are not counted. */
static void fig_13_no_two_leaders_in_one_logical_partition(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c = cluster_start(
            LOCAL
            "\nnodes 6\nlink * delay 1ms jitter 50%%\nseed %llu\n"
            "random faults rate 8/s kinds partition,link,oneway until 2.5s lasting 10ms..600ms\n"
            "run 3s\n",
            (unsigned long long)seed);
        uint32_t several = 0;
        while (cluster_now_ms(c) < 2999) {
            cluster_run_until(c, cluster_now_ms(c) + 1);
            const uint32_t leading = local_leaders(c);
            several += (leading & (leading - 1)) != 0;
            for (cv_id id = 1; id <= 6; id++) {
                assert_int_equal(local_supporters(c, id) & leading & ~BIT(id), 0);
            }
        }
        assert_true(several > 0); /* otherwise nothing was tested */
        local_end_well(c);
    }
}

/* ---- sec. VI: logical partitions ------------------------------------------------------------- */

/* [Fetzer99, fig. 14] "the leader of a stable partition that was formed at least kappa time units
 * ago is supported by all processes in the partition" */
static void fig_14_leader_is_supported_by_all_of_its_stable_partition(void **unused)
{
    (void)unused;
    for (uint32_t nodes = 1; nodes <= 12; nodes++) {
        struct cluster *c = cluster_start(LOCAL "\nnodes %u\nlink * delay 1ms\nrun 2s\n", nodes);
        cluster_run_until(c, local_kappa_ms(c));
        for (uint32_t i = 0; i < 500; i++) {
            assert_int_equal(local_supporters(c, 1), BIT(nodes + 1) - 2);
            cluster_run_until(c, cluster_now_ms(c) + 1);
        }
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 15] "a logical partition is allowed to be a strict superset of a stable
 * partition": 4 is gone, but for a while it is still among the supporters of 1, while 1, 2 and 3
 * form a stable partition. The leadership does not end because of that. */
static void fig_15_logical_partition_may_be_larger_than_the_stable_one(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 4\nlink * delay 1ms\n"
                                            "at 1s partition 1 2 3 | 4\nrun 3s\n");
    cluster_run_until(c, 1020);
    assert_int_equal(local_supporters(c, 1), 0x1e);
    uint32_t always;
    (void)watch(c, 1000 + local_kappa_ms(c), &always);
    assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(2) | BIT(3));
    assert_true((always & BIT(1)) != 0);
    local_end_well(c);
}

/* [Fetzer99, fig. 16] "When two stable partitions merge there might exist multiple local leaders;
 * the duration of this inconsistent behavior is bounded": by kappa, and there are two at first. */
static void fig_16_merged_partitions_have_one_leader_within_kappa(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct cluster *c =
            cluster_start(LOCAL "\nnodes 5\nlink * delay 1ms jitter 50%%\n"
                                "clock * drift random 100ppm\nseed %llu\n"
                                "at 0.5s partition %s\nat 2s heal\nrun 4s\n",
                          (unsigned long long)seed, seed % 2 == 0 ? "1 2 | 3 4 5" : "1 5 | 2 3 4");
        cluster_run_until(c, 2000);
        assert_int_equal(local_leaders(c), BIT(1) | BIT(seed % 2 == 0 ? 3 : 2));
        cluster_run_until(c, 2000 + local_kappa_ms(c));
        uint32_t always;
        assert_int_equal(local_supporters(c, 1), 0x3e);
        assert_int_equal(watch(c, 3900, &always), BIT(1));
        assert_int_equal(always, BIT(1));
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 17] "BI prohibits that a supporter of local leader p is connected to another
 * local leader q for more than kappa": 1 leads 3, 2 leads 4, and then 2 and 3 become connected. 2
 * stops leading, and stands aside. */
static void fig_17_no_supporter_is_connected_to_another_leader_for_kappa(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c =
            cluster_start(LOCAL "\nnodes 4\nlink * delay 1ms jitter 20%%\n"
                                "seed %llu\nlink 1-2 down\nlink 1-4 down\nlink 2-3 down\n"
                                "link 3-4 down\nat 1s link 2-3 up\nrun 4s\n",
                          (unsigned long long)seed);
        cluster_run_until(c, 999);
        assert_int_equal(local_leaders(c), BIT(1) | BIT(2));
        assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(3));
        assert_int_equal(local_supporters(c, 2), BIT(2) | BIT(4));
        cluster_run_until(c, 1000 + local_kappa_ms(c));
        uint32_t always;
        assert_int_equal(watch(c, 3900, &always) & ~BIT(4), BIT(1)); /* 3 does not support 2 */
        assert_int_equal(local_leaders(c), BIT(1) | BIT(4)); /* which supports 4 [fig. 24] */
        local_end_well(c);
    }
}

/* ---- sec. VIII: several processes ------------------------------------------------------------ */

/* [Fetzer99, sec. VIII] leader?() compares the hardware clock with expirationTime (T1): a process
 * that sleeps does not lead after that time, though it has done nothing since. */
static void sec_8_sleeping_leader_leads_no_longer_than_its_time(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms\n"
                                            "at 1s pause 1 for 1s\nrun 4s\n");
    cluster_run_until(c, 1000);
    const double until_ms = (double)c->world->properties.node[0].held_until_ns / (double)NS_PER_MS;
    assert_true(until_ms > 1000 && until_ms < 1000 + LOCK_MS);
    cluster_run_until(c, until_ms - 0.001);
    assert_true(sim_world_holds(c->world, 1));
    cluster_run_until(c, until_ms + 0.001);
    assert_false(sim_world_holds(c->world, 1));
    assert_true(c->world->node[0].is_paused);
    local_end_well(c);
}

/* [Fetzer99, sec. VII] "support can expire without any exchange of messages": q need not learn that
 * r was demoted; the leader's time ends before the first of its supporters is free. */
static void sec_7_supporters_are_free_when_the_leaders_time_is_over(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c = cluster_start(
            LOCAL " majority=yes\nnodes 5\nlink * delay 1ms jitter 50%%\n"
                  "clock * drift random 100ppm\nseed %llu\nat 1s partition 1 | 2 3 4 5\nrun 3s\n",
            (unsigned long long)seed);
        cluster_run_until(c, 1000);
        const double until_ms =
            (double)c->world->properties.node[0].held_until_ns / (double)NS_PER_MS;
        while (local_leaders(c) != BIT(2)) {
            cluster_run_until(c, cluster_now_ms(c) + 0.1);
            assert_true((local_leaders(c) & BIT(2)) == 0 || cluster_now_ms(c) >= until_ms);
        }
        assert_true(cluster_now_ms(c) < until_ms + LOCK_MS);
        local_end_well(c);
    }
}

/* ---- sec. IX: the constants ------------------------------------------------------------------ */

static int configure(const char *options, int64_t drift_ppb, struct cv_config *ret_config,
                     struct cv_errtext *why)
{
    const struct cv_protocol *local = cv_protocol_find("local");
    cv_config_init(ret_config, local, 1, 5);
    ret_config->drift_ppb = drift_ppb;
    config_set_all(ret_config, local, options);
    return cv_core_configure(local, ret_config, why);
}

#define RHO_PPB 100000 /* 1e-4 */

/* [Fetzer99, sec. IX.C] Each violated inequality is refused by its name, with its two sides; values
 * at the bound are accepted. */
static void sec_9_violated_inequalities_are_refused_by_name(void **unused)
{
    (void)unused;
    static const struct {
        const char *options, *name, *left, *right; /* name NULL: accepted */
    } cases[] = {
        {"ep=8ms lock=23.005ms", "lock(1-2rho) > ep + sigma + 2 delta(1+rho)", "23.000398ms",
         "23.001001ms"},
        {"ep=8ms lock=23.006ms", NULL, NULL, NULL},
        {"ep=8ms lock=3ms delta=2ms", "lock(1-2rho) > ep + sigma + 2 delta(1+rho)", "2.999399ms",
         "17.000401ms"},
        {"ep=8ms expires=23ms", "expires >= (1+rho)((ep+sigma)(1+rho) + 2(delta-delta_min))",
         "23ms", "23.003602ms"},
        {"ep=8ms expires=23.003602ms", NULL, NULL, NULL},
        {"ep=8ms expires=23.003601ms", "expires >= (1+rho)((ep+sigma)(1+rho) + 2(delta-delta_min))",
         "23.003601ms", "23.003602ms"},
        {"ep=8ms collate=2 expires=36.006202ms", NULL, NULL, NULL},
        {"ep=8ms collate=2 expires=36.006201ms",
         "with collate: expires >= (1+rho)(2(ep+sigma)(1+rho) + 2(delta-delta_min))", "36.006201ms",
         "36.006202ms"},
        {"ep=8ms collate=2 lock=26ms", "with collate: lock/2 > ep + sigma", "13ms", "13ms"},
        {"ep=8ms collate=2 lock=26.000002ms", NULL, NULL, NULL},
        {"ep=8ms lock=26ms", NULL, NULL, NULL}, /* without a tree a new request serves as well */
        {"ep=8ms expires=20ms delta-min=2ms", NULL, NULL, NULL}, /* the least delay counts twice */
        {"ep=8ms delta-min=5ms", "delta > delta-min", "5ms", "5ms"},
        {"ep=8ms delta-min=6ms", "delta > delta-min", "5ms", "6ms"},
        {"ep=8ms expires=13s", "delta + delta-min > 4 rho expires", "5ms", "5.2ms"},
        {"ep=8ms expires=12s", NULL, NULL, NULL},
    };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct cv_config config;
        struct cv_errtext why = {""};
        const int error = configure(cases[i].options, RHO_PPB, &config, &why);
        if (cases[i].name == NULL) {
            if (error != CV_OK) {
                fail_msg("%s: %s", cases[i].options, why.text);
            }
            continue;
        }
        assert_int_equal(error, CV_E_INVALID);
        if (strstr(why.text, cases[i].name) == NULL || strstr(why.text, cases[i].left) == NULL ||
            strstr(why.text, cases[i].right) == NULL) {
            fail_msg("%s: %s", cases[i].options, why.text);
        }
    }
}

/* [Fetzer99, sec. IX.C] The limits grow with the bound on drift: rho is in all of them. */
static void sec_9_inequalities_depend_on_the_drift(void **unused)
{
    (void)unused;
    struct cv_config config;
    struct cv_errtext why = {""};
    assert_int_equal(configure("ep=8ms lock=23.1ms", RHO_PPB, &config, &why), CV_OK);
    assert_int_equal(configure("ep=8ms lock=23.1ms", 100 * RHO_PPB, &config, &why), CV_E_INVALID);
    assert_int_equal(configure("ep=8ms expires=23.1ms", RHO_PPB, &config, &why), CV_OK);
    assert_int_equal(configure("ep=8ms expires=23.1ms", 100 * RHO_PPB, &config, &why),
                     CV_E_INVALID);
}

/* [Fetzer99, sec. IX.C] "we defined this constant to be four times the lower bound": our wan
 * profile does so; where requests are frequent, one and a half times is enough (docs/local.md). */
static void sec_9_defaults_follow_from_the_profile(void **unused)
{
    (void)unused;
    static const struct {
        const char *options;
        int64_t delta, sigma, ep;
        double times;
    } profiles[] = {{"", 5 * NS_PER_MS, 5 * NS_PER_MS, 5 * NS_PER_MS, 1.5},
                    {"profile=lan", 5 * NS_PER_MS, 5 * NS_PER_MS, 5 * NS_PER_MS, 1.5},
                    {"profile=wan", 150 * NS_PER_MS, 5 * NS_PER_MS, 50 * NS_PER_MS, 4},
                    {"profile=loopback", 750 * NS_PER_US, 1 * NS_PER_MS, 1 * NS_PER_MS, 1.5}};
    for (uint32_t i = 0; i < COUNT_OF(profiles); i++) {
        struct cv_config config;
        assert_int_equal(configure(profiles[i].options, RHO_PPB, &config, NULL), CV_OK);
        const int64_t *o = config.option;
        assert_int_equal(o[LOCAL_OPTION_DELTA], profiles[i].delta);
        assert_int_equal(o[LOCAL_OPTION_SIGMA], profiles[i].sigma);
        assert_int_equal(o[LOCAL_OPTION_EP], profiles[i].ep);
        const double least = 1.0001 * ((double)(profiles[i].ep + profiles[i].sigma) * 1.0001 +
                                       2 * (double)profiles[i].delta);
        assert_true((double)o[LOCAL_OPTION_EXPIRES] - profiles[i].times * least < 20);
        assert_true((double)o[LOCAL_OPTION_EXPIRES] - profiles[i].times * least >= 0);
        assert_int_equal(o[LOCAL_OPTION_LOCK], o[LOCAL_OPTION_EXPIRES] +
                                                   2 * (profiles[i].ep + profiles[i].delta) +
                                                   profiles[i].sigma);
    }
}

/* [Fetzer99, sec. IX.D] BI needs 2 Delta(1 + rho) + expires + lockTime(1 - 2 rho), "smaller than
 * the bound to satisfy the timeliness condition". */
static void sec_9_kappa_covers_what_bounded_inconsistency_needs(void **unused)
{
    (void)unused;
    static const char *const options[] = {"",        "profile=wan",  "profile=loopback",
                                          "lock=2s", "expires=30ms", "succession=no"};
    for (uint32_t i = 0; i < COUNT_OF(options); i++) {
        struct cv_config config;
        assert_int_equal(configure(options[i], RHO_PPB, &config, NULL), CV_OK);
        const int64_t *o = config.option;
        const int64_t needs = cv__local_stretch(&config, 2 * o[LOCAL_OPTION_DELTA]) +
                              o[LOCAL_OPTION_EXPIRES] + cv__local_lead_ns(&config);
        assert_true(cv__local_kappa_ns(&config) > needs);
    }
}

/* [Fetzer99, sec. IX.C and XI] "minimum process was never removed from the alive sets unless it
 * crashed or was partitioned": ten minutes of a healthy system, clocks drifting as they may. */
static void sec_9_leader_of_a_stable_partition_stays(void **unused)
{
    (void)unused;
    struct cluster *c =
        cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms jitter 50%%\n"
                            "clock 1 drift 100ppm\nclock 2 drift -100ppm\nrun 120s\n");
    cluster_run_until(c, local_kappa_ms(c));
    const uint64_t begun = c->world->begun_count;
    cluster_run_until(c, 119e3);
    assert_int_equal(c->world->begun_count, begun);
    assert_int_equal(local_leaders(c), BIT(1));
    local_end_well(c);
}

/* [Fetzer99, sec. IX] "a process that crashes stays down for at least lockTime", or waits for it:
 * all restart at once, and nobody leads before that. */
static void sec_9_restarted_processes_elect_nobody_for_lock(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms\n"
                                            "at 1s crash *\nat 1.01s recover *\nrun 3s\n");
    uint32_t always;
    cluster_run_until(c, 1000);
    assert_int_equal(watch(c, 1010 + LOCK_MS - 1, &always), 0);
    cluster_run_until(c, 1010 + local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1));
    local_end_well(c);
}

/* ---- sec. X: protocol properties ------------------------------------------------------------- */

/* [Fetzer99, sec. X] "elects within kappa the process with the minimum id" of a stable partition,
 * also when a lower one joins. */
static void sec_10_lowest_leads(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 5\nlink * delay 1ms\n"
                                            "at 0.01s crash 1 2\nat 1s recover 2\nat 2s recover 1\n"
                                            "run 4s\n");
    cluster_run_until(c, 10 + local_kappa_ms(c));
    assert_int_equal(cluster_leader(c), 3);
    cluster_run_until(c, 1000 + local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(2));
    cluster_run_until(c, 2000 + local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1));
    local_end_well(c);
}

/* [Fetzer99, sec. X] The leader knows its logical partition, and its supporters learn who is in it:
 * by the next ELECTION, which is on its way at most ep later. */
static void sec_10_supporters_know_the_leader_after_its_next_request(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 5\nlink * delay 1ms\nrun 2s\n");
    while (local_leaders(c) == 0) {
        cluster_run_until(c, cluster_now_ms(c) + 0.1);
        for (cv_id id = 1; id <= 5; id++) {
            assert_true(local_leaders(c) != 0 || cluster_leader_at(c, id) == CV_ID_NONE);
        }
    }
    assert_int_equal(local_supporters(c, 1), 0x3e);
    assert_int_equal(cluster_leader_at(c, 3), CV_ID_NONE);
    cluster_run_until(c, cluster_now_ms(c) + EP_MS + 1);
    for (cv_id id = 1; id <= 5; id++) {
        assert_int_equal(cluster_leader_at(c, id), 1);
        assert_int_equal(cluster_token_at(c, id), cluster_token_at(c, 1));
    }
    local_end_well(c);
}

/* [Fetzer99, sec. X] "minNumSupporters = floor(N/2)+1: at most one leader at a time": only a
 * majority has a leader, whatever the parts are. */
static void sec_10_with_majority_only_a_majority_has_a_leader(void **unused)
{
    (void)unused;
    static const struct {
        const char *parts;
        uint32_t leaders;
    } cases[] = {{"1 2 | 3 4 5", BIT(3)}, {"1 2 3 | 4 5", BIT(1)},  {"1 | 2 3 4 5", BIT(2)},
                 {"1 2 | 3 4 | 5", 0},    {"1 | 2 | 3 | 4 | 5", 0}, {"1 4 5 | 2 3", BIT(1)},
                 {"1 2 3 4 | 5", BIT(1)}};
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        struct cluster *c = cluster_start(LOCAL " majority=yes\nnodes 5\nlink * delay 1ms\n"
                                                "at 1s partition %s\nat 3s heal\nrun 5s\n",
                                          cases[i].parts);
        assert_true(c->scenario->promises & CV_PROP(AT_MOST_ONE_LEADER));
        assert_true(c->scenario->promises & CV_PROP(TOKEN_MONOTONIC));
        cluster_run_until(c, 1000);
        assert_int_equal(local_leaders(c), BIT(1));
        uint32_t always;
        cluster_run_until(c, 1000 + local_kappa_ms(c));
        assert_int_equal(watch(c, 2990, &always), cases[i].leaders);
        assert_int_equal(always, cases[i].leaders);
        cluster_run_until(c, 3000 + local_kappa_ms(c));
        assert_int_equal(local_leaders(c), BIT(1));
        local_end_well(c);
    }
}

/* Without `majority` each part has a leader, and a single one is not promised. */
static void sec_10_without_majority_every_part_has_a_leader(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 5\nlink * delay 1ms\n"
                                            "at 1s partition 1 | 2 | 3 4 5\nrun 3s\n");
    assert_false(c->scenario->promises & CV_PROP(AT_MOST_ONE_LEADER));
    assert_false(c->scenario->promises & CV_PROP(TOKEN_MONOTONIC));
    cluster_run_until(c, 1000 + local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1) | BIT(2) | BIT(3));
    local_end_well(c);
}

/* [Fetzer99, sec. X, fig. 23] In a maximum connected set "at least the process with the minimum id"
 * leads, though connected is not transitive: a ring of eight, in which each has two neighbours. */
static void fig_23_lowest_of_a_maximum_connected_set_leads(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(
        LOCAL "\nnodes 8\nlink * delay 1ms\n"
              "link 1-3 down\nlink 1-4 down\nlink 1-5 down\nlink 1-6 down\nlink 1-7 down\n"
              "link 2-4 down\nlink 2-5 down\nlink 2-6 down\nlink 2-7 down\nlink 2-8 down\n"
              "link 3-5 down\nlink 3-6 down\nlink 3-7 down\nlink 3-8 down\n"
              "link 4-6 down\nlink 4-7 down\nlink 4-8 down\nlink 5-7 down\nlink 5-8 down\n"
              "link 6-8 down\nrun 4s\n");
    cluster_run_until(c, local_kappa_ms(c));
    assert_int_equal(local_supporters(c, 1), BIT(1) | BIT(2) | BIT(8));
    uint32_t always;
    (void)watch(c, 3900, &always);
    assert_true((always & BIT(1)) != 0);
    local_end_well(c);
}

/* [Fetzer99, sec. X, fig. 24] 1 marks 2 and 5; 3 has no marked neighbour and marks 4; 6 is alone.
 * 7 would need 5, which is locked to 1. */
static void fig_24_algorithm_gives_the_leaders(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(
        LOCAL
        "\nnodes 7\nlink * delay 1ms\n" /* up: 1-2 1-5 3-4 5-7 */
        "link 1-3 down\nlink 1-4 down\nlink 1-6 down\nlink 1-7 down\nlink 2-3 down\nlink 2-4 down\n"
        "link 2-5 down\nlink 2-6 down\nlink 2-7 down\nlink 3-5 down\nlink 3-6 down\nlink 3-7 down\n"
        "link 4-5 down\nlink 4-6 down\nlink 4-7 down\nlink 5-6 down\nlink 6-7 down\nrun 4s\n");
    cluster_run_until(c, 3 * local_kappa_ms(c));
    uint32_t always;
    assert_int_equal(watch(c, 3900, &always), BIT(1) | BIT(3) | BIT(6));
    assert_int_equal(always, BIT(1) | BIT(3) | BIT(6));
    local_end_well(c);
}

/* ---- sec. XI: performance -------------------------------------------------------------------- */

/* [Fetzer99, sec. II and XI] "in a stable partition of n processes the protocol sends one broadcast
 * message and n-1 unicast messages per round" */
static void sec_11_one_broadcast_and_n_minus_1_unicasts_in_a_round(void **unused)
{
    (void)unused;
    for (uint32_t nodes = 1; nodes <= 12; nodes++) {
        struct cluster *c = cluster_start(LOCAL "\nnodes %u\nlink * delay 1ms\nrun 3s\n", nodes);
        cluster_run_until(c, 1000.5);
        const uint64_t elections = cluster_sent(c, "ELECTION");
        const uint64_t replies = cluster_sent(c, "REPLY");
        const uint64_t all = cluster_sent(c, NULL);
        cluster_run_until(c, 1800.5); /* 100 rounds, and their answers */
        assert_in_range(cluster_sent(c, "ELECTION") - elections, 100 * (nodes - 1),
                        101 * (nodes - 1));
        assert_in_range(cluster_sent(c, "REPLY") - replies, 99 * (nodes - 1), 101 * (nodes - 1));
        assert_int_equal(cluster_sent(c, NULL) - all, cluster_sent(c, "ELECTION") - elections +
                                                          cluster_sent(c, "REPLY") - replies);
        assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = 1000),
                         cluster_sends(c, .type = "ELECTION", .from = 1, .since_ms = 1000));
        assert_int_equal(cluster_sends(c, .type = "REPLY", .since_ms = 1000),
                         cluster_sends(c, .type = "REPLY", .to = 1, .since_ms = 1000));
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 25 and 26] An election takes a round trip: from the request to the last
 * answer. */
static void fig_25_an_election_takes_one_round_trip(void **unused)
{
    (void)unused;
    for (uint32_t nodes = 2; nodes <= 8; nodes++) {
        struct cluster *c = cluster_start(LOCAL "\nnodes %u\nlink * delay 1ms\nrun 2s\n", nodes);
        while (local_leaders(c) == 0) {
            cluster_run_until(c, cluster_now_ms(c) + 0.05);
        }
        const double elected_ms =
            (double)c->world->properties.node[0].held_from_ns / (double)NS_PER_MS;
        assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 1,
                                       .since_ms = elected_ms - 2.001,
                                       .until_ms = elected_ms - 1.999),
                         nodes - 1);
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 27] After a split "it takes the processes in one partition [expires] to remove
 * the processes not in their partition from their alive sets"; before that nobody tries. */
static void fig_27_nobody_stands_up_before_the_lost_ones_expire(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 4\nlink * delay 1ms\n"
                                            "at 1s partition 1 2 | 3 4\nrun 3s\n");
    cluster_run_until(c, 1000 + EXPIRES_MS - EP_MS - 1);
    for (cv_id id = 2; id <= 4; id++) {
        assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = id, .since_ms = 1000), 0);
    }
    cluster_run_until(c, 1000 + EXPIRES_MS + 12); /* 2 would be first in the succession */
    assert_true(cluster_sends(c, .type = "ELECTION", .from = 3, .since_ms = 1000) > 0);
    local_end_well(c);
}

/* [Fetzer99, sec. XI] "The first election attempt after the system becomes partitioned typically
 * fails", since every orphan stands up at once and locks to itself; with our succession only the
 * heir stands up, and nobody has anything to release. */
static void sec_11_first_attempt_of_all_orphans_at_once_fails(void **unused)
{
    (void)unused;
    for (uint32_t has_succession = 0; has_succession < 2; has_succession++) {
        struct cluster *c = cluster_start(LOCAL " succession=%s\nnodes 6\n"
                                                "link * delay 1ms\nat 1s crash 1\nrun 3s\n",
                                          has_succession ? "yes" : "no");
        cluster_run_until(c, 1000 + local_kappa_ms(c));
        assert_int_equal(local_leaders(c), BIT(2));
        uint32_t stood_up = 0;
        for (cv_id id = 2; id <= 6; id++) {
            stood_up += cluster_sends(c, .type = "ELECTION", .from = id, .since_ms = 1000) > 0;
        }
        assert_int_equal(stood_up, has_succession ? 1 : 5);
        local_end_well(c);
    }
}

/* [Fetzer99, fig. 28] Collated answers: each process hears only its children, and the leader hears
 * k of them instead of n-1. */
static void fig_28_answers_are_collated_in_a_tree(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL " collate=3\nnodes 13\nlink * delay 0.2ms\n"
                                            "run 3s\n");
    cluster_run_until(c, 1000.5);
    const double since_ms = cluster_now_ms(c);
    cluster_run_until(c, since_ms + 800);
    assert_int_equal(cluster_sends(c, .type = "REPLY", .since_ms = since_ms), 0);
    for (cv_id id = 2; id <= 13; id++) {
        const cv_id parent = (id - 2) / 3 + 1;
        const uint32_t sent =
            cluster_sends(c, .type = "COLLATED", .from = id, .since_ms = since_ms);
        assert_in_range(sent, 99, 101);
        assert_int_equal(
            cluster_sends(c, .type = "COLLATED", .from = id, .to = parent, .since_ms = since_ms),
            sent);
    }
    assert_int_equal(local_supporters(c, 1), BIT(14) - 2);
    local_end_well(c);
}

/* [Fetzer99, sec. XI] "the case that a process q in the tree crashes or is slow, hence the root
 * would not get the message of the children of q": they stay supporters, and the leader keeps
 * leading. */
static void sec_11_silent_inner_node_does_not_silence_its_children(void **unused)
{
    (void)unused;
    static const char *const silences[] = {"at 1s crash 2", "at 1s pause 2 for 60ms",
                                           "at 1s link 2>1 down", "at 1s link 5>2 down",
                                           "at 1s link 2-1 down"};
    for (uint32_t i = 0; i < COUNT_OF(silences); i++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            struct cluster *c =
                cluster_start(LOCAL " collate=3\nnodes 7\nlink * delay 1ms jitter 20%%\n"
                                    "seed %llu\n%s\nrun 4s\n",
                              (unsigned long long)seed, silences[i]);
            uint32_t always;
            cluster_run_until(c, 1000);
            (void)watch(c, 1000 + local_kappa_ms(c), &always);
            assert_true((always & BIT(1)) != 0); /* no gap in the leadership */
            (void)watch(c, 3900, &always);
            assert_true((always & BIT(1)) != 0);
            const uint32_t children_of_2 = BIT(5) | BIT(6) | BIT(7);
            assert_int_equal(local_supporters(c, 1) & children_of_2, children_of_2);
            local_end_well(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fig_1_one_link_between_two_groups_splits_them),
        cmocka_unit_test(fig_2_only_one_of_an_unstable_trio_leads),
        cmocka_unit_test(fig_2_middle_one_leads_two_that_are_not_connected),
        cmocka_unit_test(fig_2_outer_one_leads_the_middle_one),
        cmocka_unit_test(fig_2_two_leaders_that_a_third_connects_do_not_last),
        cmocka_unit_test(sec_1_logical_partitions_have_the_four_properties),
        cmocka_unit_test(fig_4_slow_network_between_two_lans_makes_two_leaders),
        cmocka_unit_test(fig_7_stable_partition_has_a_leader_within_kappa),
        cmocka_unit_test(fig_8_leadership_goes_round),
        cmocka_unit_test(fig_9_and_12_nobody_supports_two_and_every_leader_supports_itself),
        cmocka_unit_test(fig_13_no_two_leaders_in_one_logical_partition),
        cmocka_unit_test(fig_14_leader_is_supported_by_all_of_its_stable_partition),
        cmocka_unit_test(fig_15_logical_partition_may_be_larger_than_the_stable_one),
        cmocka_unit_test(fig_16_merged_partitions_have_one_leader_within_kappa),
        cmocka_unit_test(fig_17_no_supporter_is_connected_to_another_leader_for_kappa),
        cmocka_unit_test(sec_8_sleeping_leader_leads_no_longer_than_its_time),
        cmocka_unit_test(sec_7_supporters_are_free_when_the_leaders_time_is_over),
        cmocka_unit_test(sec_9_violated_inequalities_are_refused_by_name),
        cmocka_unit_test(sec_9_inequalities_depend_on_the_drift),
        cmocka_unit_test(sec_9_defaults_follow_from_the_profile),
        cmocka_unit_test(sec_9_kappa_covers_what_bounded_inconsistency_needs),
        cmocka_unit_test(sec_9_leader_of_a_stable_partition_stays),
        cmocka_unit_test(sec_9_restarted_processes_elect_nobody_for_lock),
        cmocka_unit_test(sec_10_lowest_leads),
        cmocka_unit_test(sec_10_supporters_know_the_leader_after_its_next_request),
        cmocka_unit_test(sec_10_with_majority_only_a_majority_has_a_leader),
        cmocka_unit_test(sec_10_without_majority_every_part_has_a_leader),
        cmocka_unit_test(fig_23_lowest_of_a_maximum_connected_set_leads),
        cmocka_unit_test(fig_24_algorithm_gives_the_leaders),
        cmocka_unit_test(sec_11_one_broadcast_and_n_minus_1_unicasts_in_a_round),
        cmocka_unit_test(fig_25_an_election_takes_one_round_trip),
        cmocka_unit_test(fig_27_nobody_stands_up_before_the_lost_ones_expire),
        cmocka_unit_test(sec_11_first_attempt_of_all_orphans_at_once_fails),
        cmocka_unit_test(fig_28_answers_are_collated_in_a_tree),
        cmocka_unit_test(sec_11_silent_inner_node_does_not_silence_its_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
