/* tests/paper/test_anon_clusters.c - what [Wiesmann07] claims about all processes together, lemma
 * by lemma, tested with a simulated cluster. */
#include "support/cluster.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static struct cluster *settled(uint32_t nodes, uint32_t round_size, uint64_t seed, const char *more)
{
    struct cluster *c = cluster_start("protocol anon R=%u %s\nnodes %u\nseed %llu\n"
                                      "link * delay 0.2ms jitter 20%%\n"
                                      "sequencer delay 2ms serial 1ms start %llu\nrun 120s\n",
                                      round_size, more, nodes, (unsigned long long)seed,
                                      1 + (unsigned long long)seed);
    cluster_run_until_leader(c, 10000);
    cluster_run_until(c, cluster_now_ms(c) + 1000);
    return c;
}

/* [lemma 4] "If G >= R good processes suspect the current leader a new leader is elected", with the
 * paper's rule of one proposal each, at every position of the counter within its round. */
static void a_full_round_of_suspicions_elects(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct cluster *c = settled(9, 4, seed, "stubborn=no");
        const cv_id leader = cluster_leader(c);
        const uint64_t token = cluster_token_at(c, leader);
        cluster_crash(c, leader);
        cluster_run_until(c, cluster_now_ms(c) + 5000);
        assert_int_not_equal(cluster_leader(c), CV_ID_NONE);
        assert_true(cluster_token_at(c, cluster_leader(c)) > token);
        cluster_end(c);
    }
}

/* So many of eight processes stop hearing the leader; new leaderships come to an end within
 * 20 s. */
static void cut_links_come_to_an_end(const char *options, uint32_t cut_count, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct cluster *c = settled(8, 6, seed, options);
        const cv_id leader = cluster_leader(c);
        for (uint32_t i = 1; i <= cut_count; i++) {
            struct sim_action cut = {.kind = SIM_ACTION_LINK, .at_ns = c->world->now_ns};
            cut.link = (struct sim_link_change){.first = leader,
                                                .second = (leader - 1 + i) % 8 + 1,
                                                .is_one_way = true,
                                                .mask = SIM_LINK_DOWN,
                                                .link = {.is_down = true}};
            sim_world_schedule_action(c->world, &cut);
        }
        cluster_run_until(c, cluster_now_ms(c) + 20000);
        const uint64_t begun = c->world->begun_count;
        cluster_run_until(c, cluster_now_ms(c) + 20000);
        assert_int_equal(c->world->begun_count, begun);
        assert_int_equal(cluster_leader_count(c), 1);
        cluster_drop(c);
    }
}

/* [lemma 5] Fewer than R false suspicions: new leaders eventually stop being elected. */
static void few_false_suspicions_stop_electing_new_leaders(void **unused)
{
    (void)unused;
    cut_links_come_to_an_end("stubborn=no", 1, 10);
}

/* [lemma 5; TRUST ours] The same with the default, in which proposals are stubborn. */
static void few_false_suspicions_of_stubborn_processes_stop_electing_new_leaders(void **unused)
{
    (void)unused;
    for (uint32_t cut_count = 1; cut_count < 6; cut_count++) {
        cut_links_come_to_an_end("", cut_count, 2);
    }
}

/* [lemmas 6 and 7] A leader that lives and is heard stays; it alone sends, every eta. */
static void a_quiet_minute_has_one_leader_and_one_sender(void **unused)
{
    (void)unused;
    struct cluster *c = settled(7, 5, 3, "");
    const cv_id leader = cluster_leader(c);
    const uint64_t begun = c->world->begun_count;
    const uint64_t asked = c->world->sequencer.query_count;
    const double since_ms = cluster_now_ms(c);
    cluster_run_until(c, since_ms + 60000);
    assert_int_equal(c->world->begun_count, begun);
    assert_int_equal(c->world->sequencer.query_count, asked);
    const uint32_t all = cluster_sends(c, .since_ms = since_ms);
    assert_int_equal(cluster_sends(c, .from = leader, .since_ms = since_ms), all);
    assert_in_range(all, 6 * 1199, 6 * 1201);
    cluster_end(c);
}

/* [lemma 8] Any two processes that both see two leaders see them in the same order. */
static void all_see_leaders_in_the_same_order(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *c = settled(10, 3, seed, "");
        for (uint32_t i = 0; i < 5; i++) {
            cluster_crash(c, cluster_run_until_leader(c, 10000));
            cluster_run_until(c, cluster_now_ms(c) + 700);
        }
        const struct sim_world *w = c->world;
        uint64_t latest[10] = {0};
        for (uint32_t i = 0; i < w->history.view_count; i++) {
            const struct sim_view *view = &w->history.view[i];
            if (view->leader != CV_ID_NONE) {
                assert_true(view->token >= latest[view->node - 1]);
                latest[view->node - 1] = view->token;
            }
        }
        cluster_end(c);
    }
}

/* [lemma 10] "Recovering processes can only propose themselves if they suspect the leader" */
static void processes_that_crash_and_recover_force_no_new_leader(void **unused)
{
    (void)unused;
    struct cluster *c = settled(6, 2, 5, "");
    const cv_id leader = cluster_leader(c);
    const uint64_t begun = c->world->begun_count;
    const uint64_t asked = c->world->sequencer.query_count;
    for (uint32_t i = 0; i < 30; i++) {
        const cv_id other = (leader + i % 5) % 6 + 1;
        cluster_crash(c, other);
        cluster_run_until(c, cluster_now_ms(c) + 7.3 * i);
        cluster_recover(c, other);
        cluster_run_until(c, cluster_now_ms(c) + 60); /* eta and a transmission */
        assert_int_equal(cluster_leader_at(c, other), leader);
    }
    assert_int_equal(c->world->begun_count, begun);
    assert_int_equal(c->world->sequencer.query_count, asked);
    cluster_end(c);
}

/* Ours: with persist=yes what was closed stays closed across a restart. */
static void persisted_numbers_keep_the_order_across_restarts(void **unused)
{
    (void)unused;
    struct cluster *c = settled(3, 2, 9, "persist=yes");
    const uint64_t token = cluster_token_at(c, 1);
    for (cv_id id = 1; id <= 3; id++) {
        cluster_crash(c, id);
    }
    c->world->sequencer.counter = 0; /* without telling anybody */
    c->world->sequencer.boots = 0;
    for (cv_id id = 1; id <= 3; id++) {
        cluster_recover(c, id);
    }
    cluster_run_until_leader(c, 10000);
    assert_true(cluster_token_at(c, 1) > token);
    cluster_end(c);
}

/* [Eq. 1] All start at 0. A leader is elected within the start wait, the sequencer's parallel time,
 * R turns at it and a broadcast; and not before eps/2. */
static void the_first_election_takes_the_time_of_equation_1(void **unused)
{
    (void)unused;
    for (uint32_t round_size = 1; round_size <= 10; round_size++) {
        struct cluster *c = cluster_start("protocol anon R=%u\nnodes 20\nlink * delay 0.15ms\n"
                                          "sequencer delay 5ms serial 5ms\nrun 20s\n",
                                          round_size);
        cluster_run_until_leader(c, 2000);
        const double first_ms = (double)c->world->history.election[0].elected_ns / 1e6;
        assert_true(first_ms >= 75 + 10);
        assert_true(first_ms <= 150 + 5 + 5 * (round_size + 1) + 2);
        cluster_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_round_of_suspicions_elects),
        cmocka_unit_test(few_false_suspicions_stop_electing_new_leaders),
        cmocka_unit_test(few_false_suspicions_of_stubborn_processes_stop_electing_new_leaders),
        cmocka_unit_test(a_quiet_minute_has_one_leader_and_one_sender),
        cmocka_unit_test(all_see_leaders_in_the_same_order),
        cmocka_unit_test(processes_that_crash_and_recover_force_no_new_leader),
        cmocka_unit_test(persisted_numbers_keep_the_order_across_restarts),
        cmocka_unit_test(the_first_election_takes_the_time_of_equation_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
