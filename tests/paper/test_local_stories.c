/* tests/paper/test_local_stories.c - the parts of `local` that are ours, with several processes:
 * hints, resigning, succession, tokens. test_local_paper.c has the claims of the paper. */
#include "support/local_cluster.h"

/* A hint makes the orphans stand up at once, but their locks stay; a certain hint frees the locks
 * too, and the next leader need not wait. */
static void only_a_certain_hint_shortens_the_time_without_a_leader(void **unused)
{
    (void)unused;
    double gap_ms[3];
    for (uint32_t kind = 0; kind < 3; kind++) {
        static const char *const hints[] = {"", "at 1.002s peer-down 1 at 2..5\n",
                                            "at 1.002s peer-down 1 certain at 2..5\n"};
        struct cluster *c = cluster_start(LOCAL "\nnodes 5\nlink * delay 1ms\n"
                                                "at 1s crash 1\n%srun 3s\n",
                                          hints[kind]);
        cluster_run_until(c, 1000);
        while (local_leaders(c) == 0) {
            cluster_run_until(c, cluster_now_ms(c) + 0.1);
        }
        assert_int_equal(local_leaders(c), BIT(2));
        gap_ms[kind] = cluster_now_ms(c) - 1000;
        local_end_well(c);
    }
    assert_true(gap_ms[0] < 150);
    assert_true(gap_ms[1] < 150);
    assert_true(gap_ms[2] < 30);
    /* Not before the dead leader's time is over: safety does not rest on a hint. */
    assert_true(gap_ms[1] > LOCK_MS - 2 * EP_MS);
}

/* A leader that resigns hands over at once: nobody waits for locks or for silence. */
static void resigning_hands_over_at_once(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL " majority=yes\nnodes 5\nlink * delay 1ms\n"
                                            "run 4s\n");
    cluster_run_until(c, 1000);
    const uint64_t token = cluster_token_at(c, 1);
    local_act(c, (struct sim_action){.kind = SIM_ACTION_RESIGN, .node = 1});
    assert_int_equal(local_leaders(c), 0);
    while (local_leaders(c) == 0) {
        cluster_run_until(c, cluster_now_ms(c) + 0.1);
    }
    assert_true(cluster_now_ms(c) < 1040);
    assert_int_equal(local_leaders(c), BIT(2));
    assert_true(cluster_token_at(c, 2) > token);
    cluster_run_until(c, 3000);
    assert_int_equal(cluster_leader(c), 2); /* it does not take the leadership back while 2 leads */
    local_end_well(c);
}

/* If its successors are gone too, it stands up again. */
static void leader_that_resigned_comes_back_when_its_successors_are_gone(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 3\nlink * delay 1ms\n"
                                            "at 1s resign 1\nat 2s crash 2 3\nrun 5s\n");
    cluster_run_until(c, 1900);
    assert_int_equal(local_leaders(c), BIT(2));
    cluster_run_until(c, 2000 + 2 * local_kappa_ms(c));
    assert_int_equal(local_leaders(c), BIT(1));
    local_end_well(c);
}

/* The heirs lead one after the other: each time the lowest id that is left, within 150 ms. */
static void heirs_succeed_each_other(void **unused)
{
    (void)unused;
    struct cluster *c = cluster_start(LOCAL "\nnodes 6\nlink * delay 1ms\nrun 6s\n");
    for (cv_id id = 1; id <= 5; id++) {
        cluster_run_until(c, id * 800);
        assert_int_equal(cluster_leader(c), id);
        cluster_crash(c, id);
        cluster_run_until(c, id * 800 + 150);
        assert_int_equal(local_leaders(c), BIT(id + 1));
    }
    local_end_well(c);
}

/* Tokens grow along a partition's lineage, and globally with `majority`, whichever processes
 * crash. */
static void tokens_grow_with_every_leadership(void **unused)
{
    (void)unused;
    struct cluster *c =
        cluster_start(LOCAL " majority=yes\nnodes 5\nlink * delay 1ms\n"
                            "at 1s crash leader for 1s\nat 1.5s crash leader for 1s\n"
                            "at 3s crash *\nat 3.1s recover *\nat 4s pause leader for 400ms\n"
                            "run 6s\n");
    uint64_t token = 0;
    uint32_t leaderships = 0;
    while (cluster_now_ms(c) < 5990) {
        cluster_run_until(c, cluster_now_ms(c) + 1);
        for (cv_id id = 1; id <= 5; id++) {
            if (sim_world_holds(c->world, id) &&
                c->world->properties.node[id - 1].held_token != token) {
                assert_true(c->world->properties.node[id - 1].held_token > token);
                token = c->world->properties.node[id - 1].held_token;
                leaderships++;
            }
        }
    }
    assert_true(leaderships >= 5);
    local_end_well(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_certain_hint_shortens_the_time_without_a_leader),
        cmocka_unit_test(resigning_hands_over_at_once),
        cmocka_unit_test(leader_that_resigned_comes_back_when_its_successors_are_gone),
        cmocka_unit_test(heirs_succeed_each_other),
        cmocka_unit_test(tokens_grow_with_every_leadership),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
