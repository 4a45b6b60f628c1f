/* tests/unit/test_network.c - the simulated network: which messages arrive, when, and how often. */
#include "sim/network.h"
#include "support/support.h"

#define NODES 6u

static struct sim_rng rng_make(void)
{
    struct sim_rng rng;
    sim_rng_init(&rng, /* seed= */ 1, /* stream= */ 1);
    return rng;
}

static void change_delay(struct sim_network *network, cv_id first, cv_id second, bool is_one_way,
                         int64_t delay_ns)
{
    const struct sim_link_change change = {.first = first,
                                           .second = second,
                                           .is_one_way = is_one_way,
                                           .mask = SIM_LINK_DELAY,
                                           .link = {.delay_ns = delay_ns}};
    sim_network_change(network, &change);
}

static void change_down(struct sim_network *network, cv_id first, cv_id second, bool is_one_way,
                        bool is_down)
{
    const struct sim_link_change change = {.first = first,
                                           .second = second,
                                           .is_one_way = is_one_way,
                                           .mask = SIM_LINK_DOWN,
                                           .link = {.is_down = is_down}};
    sim_network_change(network, &change);
}

/* The delay of one message on a link without jitter. */
static int64_t delay_of(const struct sim_network *network, cv_id from, cv_id to)
{
    struct sim_rng rng = rng_make();
    int64_t delay_ns[2];
    assert_int_equal(sim_network_send(network, &rng, from, to, delay_ns), SIM_FATE_ONCE);
    return delay_ns[0];
}

static void connects_everybody_at_first(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    for (cv_id from = 1; from <= NODES; from++) {
        for (cv_id to = 1; to <= NODES; to++) {
            assert_true(sim_network_reaches(network, from, to));
        }
    }
    assert_false(sim_network_has_cuts(network));
    sim_network_free(network);
    sim_network_free(NULL);
}

static void changes_both_directions_of_a_pair_or_only_one(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    change_delay(network, CV_ID_NONE, CV_ID_NONE, false, 1 * NS_PER_MS);
    change_delay(network, 1, 2, /* is_one_way= */ false, 40 * NS_PER_MS);
    change_delay(network, 3, 4, /* is_one_way= */ true, 70 * NS_PER_MS);
    assert_int_equal(delay_of(network, 1, 2), 40 * NS_PER_MS);
    assert_int_equal(delay_of(network, 2, 1), 40 * NS_PER_MS);
    assert_int_equal(delay_of(network, 3, 4), 70 * NS_PER_MS);
    assert_int_equal(delay_of(network, 4, 3), 1 * NS_PER_MS);
    assert_int_equal(delay_of(network, 1, 3), 1 * NS_PER_MS);
    sim_network_free(network);
}

static void lets_a_later_change_of_all_links_replace_an_earlier_one_of_a_pair(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    change_delay(network, 1, 2, false, 40 * NS_PER_MS);
    change_delay(network, CV_ID_NONE, CV_ID_NONE, false, 3 * NS_PER_MS);
    assert_int_equal(delay_of(network, 1, 2), 3 * NS_PER_MS);
    sim_network_free(network);
}

static void keeps_the_other_attributes_of_a_link_that_is_changed(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    change_delay(network, 1, 2, false, 40 * NS_PER_MS);
    change_down(network, 1, 2, false, true);
    change_down(network, 1, 2, false, false);
    assert_int_equal(delay_of(network, 1, 2), 40 * NS_PER_MS);
    sim_network_free(network);
}

static void cuts_one_direction_and_reports_it(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    change_down(network, 1, 2, /* is_one_way= */ true, /* is_down= */ true);
    assert_false(sim_network_reaches(network, 1, 2));
    assert_true(sim_network_reaches(network, 2, 1));
    assert_true(sim_network_has_cuts(network));
    change_down(network, 1, 2, true, false);
    assert_true(sim_network_reaches(network, 1, 2));
    assert_false(sim_network_has_cuts(network));
    sim_network_free(network);
}

static void parts_into_groups_and_heals(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    const uint16_t group[NODES] = {0, 0, 0, 1, 1, 2};
    sim_network_partition(network, group);
    change_down(network, 1, 2, false, true);
    for (cv_id from = 1; from <= NODES; from++) {
        for (cv_id to = 1; to <= NODES; to++) {
            const bool is_cut = (from == 1 && to == 2) || (from == 2 && to == 1);
            assert_int_equal(sim_network_reaches(network, from, to),
                             group[from - 1] == group[to - 1] && !is_cut);
        }
    }
    struct sim_rng rng = rng_make();
    int64_t delay_ns[2];
    assert_int_equal(sim_network_send(network, &rng, 1, 6, delay_ns), SIM_FATE_UNREACHABLE);
    sim_network_heal(network);
    assert_true(sim_network_reaches(network, 1, 6));
    assert_true(sim_network_reaches(network, 1, 2)); /* healing brings links up too */
    sim_network_free(network);
}

static void takes_half_the_round_trip_between_two_sites(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    change_delay(network, CV_ID_NONE, CV_ID_NONE, false, NS_PER_MS);
    sim_network_set_site(network, 1, 1);
    sim_network_set_site(network, 2, 1);
    sim_network_set_site(network, 3, 2);
    sim_network_set_site(network, 4, 3);
    sim_network_set_rtt(network, 1, 2, 9880 * NS_PER_US);
    assert_int_equal(delay_of(network, 1, 3), 4940 * NS_PER_US);
    assert_int_equal(delay_of(network, 3, 2), 4940 * NS_PER_US);
    assert_int_equal(delay_of(network, 1, 2), NS_PER_MS); /* within a site */
    assert_int_equal(delay_of(network, 1, 4), NS_PER_MS); /* sites without an RTT */
    assert_int_equal(delay_of(network, 1, 5), NS_PER_MS); /* a node without a site */
    change_delay(network, 1, 3, false, 2 * NS_PER_MS);    /* the pair overrides its sites */
    assert_int_equal(delay_of(network, 1, 3), 2 * NS_PER_MS);
    assert_int_equal(delay_of(network, 2, 3), 4940 * NS_PER_US);
    sim_network_free(network);
}

static void loses_and_duplicates_as_often_as_it_is_told(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    const struct sim_link_change change = {
        .mask = SIM_LINK_LOSS | SIM_LINK_DUPLICATE,
        .link = {.loss_ppb = SIM_PPB_ONE / 10, .duplicate_ppb = SIM_PPB_ONE / 5}};
    sim_network_change(network, &change);
    struct sim_rng rng = rng_make();
    uint32_t fates[4] = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        int64_t delay_ns[2];
        fates[sim_network_send(network, &rng, 1, 2, delay_ns)]++;
    }
    assert_in_range(fates[SIM_FATE_LOST], 850, 1150);   /* 1000 expected, 30 deviation */
    assert_in_range(fates[SIM_FATE_TWICE], 1600, 2000); /* a fifth of the rest: 1800 */
    assert_int_equal(fates[SIM_FATE_UNREACHABLE], 0);
    sim_network_free(network);
}

static void ends_a_passing_fault(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    struct sim_rng rng = rng_make();
    int64_t delay_ns[2];
    sim_network_overlay(network, SIM_OVERLAY_LOSS, SIM_PPB_ONE);
    assert_int_equal(sim_network_send(network, &rng, 1, 2, delay_ns), SIM_FATE_LOST);
    sim_network_overlay(network, SIM_OVERLAY_LOSS, 0);
    assert_int_equal(sim_network_send(network, &rng, 1, 2, delay_ns), SIM_FATE_ONCE);
    sim_network_free(network);
}

/* Mean of many delays; all of them at least a nanosecond: nothing arrives before it was sent. */
static int64_t mean_delay(enum sim_dist dist, int64_t jitter_ns, int64_t *ret_min, int64_t *ret_max)
{
    struct sim_network *network = sim_network_new(2);
    const struct sim_link_change change = {
        .mask = SIM_LINK_DELAY | SIM_LINK_JITTER | SIM_LINK_DIST,
        .link = {.delay_ns = 10 * NS_PER_MS, .jitter_ns = jitter_ns, .dist = dist}};
    sim_network_change(network, &change);
    struct sim_rng rng = rng_make();
    int64_t sum = 0;
    *ret_min = INT64_MAX;
    *ret_max = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        int64_t delay_ns[2];
        assert_int_equal(sim_network_send(network, &rng, 1, 2, delay_ns), SIM_FATE_ONCE);
        assert_true(delay_ns[0] >= 1);
        sum += delay_ns[0];
        *ret_min = cv__min64(*ret_min, delay_ns[0]);
        *ret_max = cv__max64(*ret_max, delay_ns[0]);
    }
    sim_network_free(network);
    return sum / 20000;
}

static void spreads_delays_as_their_distribution_says(void **unused)
{
    (void)unused;
    int64_t min, max;
    const int64_t us = NS_PER_US;

    assert_int_equal(mean_delay(SIM_DIST_CONSTANT, NS_PER_MS, &min, &max), 10000 * us);
    assert_int_equal(min, max);

    assert_in_range(mean_delay(SIM_DIST_UNIFORM, NS_PER_MS, &min, &max), 9950 * us, 10050 * us);
    assert_in_range(min, 9000 * us, 9010 * us);
    assert_in_range(max, 10990 * us, 11000 * us);

    assert_in_range(mean_delay(SIM_DIST_NORMAL, NS_PER_MS, &min, &max), 9950 * us, 10050 * us);
    assert_in_range(min, 4000 * us, 7500 * us); /* 20000 draws go beyond 2.5 deviations */
    assert_in_range(max, 12500 * us, 16000 * us);

    /* Pareto only adds, by `jitter` on average, and now and then a lot. */
    assert_in_range(mean_delay(SIM_DIST_PARETO, NS_PER_MS, &min, &max), 10900 * us, 11100 * us);
    assert_in_range(min, 10000 * us, 10010 * us);
    assert_true(max > 20000 * us);
}

static void never_delivers_into_the_past(void **unused)
{
    (void)unused;
    int64_t min, max;
    (void)mean_delay(SIM_DIST_NORMAL, 100 * NS_PER_MS, &min, &max);
    assert_int_equal(min, 1);
    (void)mean_delay(SIM_DIST_UNIFORM, 100 * NS_PER_MS, &min, &max);
    assert_int_equal(min, 1);
}

static void finds_each_of_many_pairs(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(60);
    for (cv_id from = 1; from <= 60; from++) {
        for (cv_id to = 1; to <= 60; to++) {
            if (from != to) {
                change_delay(network, from, to, /* is_one_way= */ true, from * 1000 + to);
            }
        }
    }
    for (cv_id from = 1; from <= 60; from++) {
        for (cv_id to = 1; to <= 60; to++) {
            if (from != to) {
                assert_int_equal(delay_of(network, from, to), from * 1000 + to);
            }
        }
    }
    sim_network_free(network);
}

static void computed_mean_is_the_mean_of_many_draws(void **unused)
{
    (void)unused;
    struct sim_network *network = sim_network_new(NODES);
    const struct sim_link_change change = {
        .mask = SIM_LINK_DELAY | SIM_LINK_JITTER | SIM_LINK_DIST,
        .link = {.delay_ns = 10 * NS_PER_MS,
                 .jitter_ppb = SIM_PPB_ONE / 10,
                 .dist = SIM_DIST_PARETO},
    };
    sim_network_change(network, &change);
    assert_int_equal(sim_network_mean_ns(network, 1, 2), 11 * NS_PER_MS);
    struct sim_rng rng = rng_make();
    int64_t sum_ns = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        int64_t delay_ns[2];
        assert_int_equal(sim_network_send(network, &rng, 1, 2, delay_ns), SIM_FATE_ONCE);
        sum_ns += delay_ns[0];
    }
    assert_in_range(sum_ns / 100000, 10950 * NS_PER_US, 11050 * NS_PER_US);
    change_delay(network, 1, 3, false, 4 * NS_PER_MS);
    assert_int_equal(sim_network_mean_ns(network, 3, 1), 4400 * NS_PER_US);
    sim_network_free(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computed_mean_is_the_mean_of_many_draws),
        cmocka_unit_test(connects_everybody_at_first),
        cmocka_unit_test(changes_both_directions_of_a_pair_or_only_one),
        cmocka_unit_test(lets_a_later_change_of_all_links_replace_an_earlier_one_of_a_pair),
        cmocka_unit_test(keeps_the_other_attributes_of_a_link_that_is_changed),
        cmocka_unit_test(cuts_one_direction_and_reports_it),
        cmocka_unit_test(parts_into_groups_and_heals),
        cmocka_unit_test(takes_half_the_round_trip_between_two_sites),
        cmocka_unit_test(loses_and_duplicates_as_often_as_it_is_told),
        cmocka_unit_test(ends_a_passing_fault),
        cmocka_unit_test(spreads_delays_as_their_distribution_says),
        cmocka_unit_test(never_delivers_into_the_past),
        cmocka_unit_test(finds_each_of_many_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
