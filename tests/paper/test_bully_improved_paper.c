/* tests/paper/test_bully_improved_paper.c - what [NITR] says about the improved bully algorithm.
 *
 * The comment on each test begins with the heading of the slide. One transmission takes 1 ms and T
 * is 3 ms. Heartbeats come every 100 ms and name the heir. */
#include "support/claims.h"
#include "support/cluster.h"
#include "support/support.h"

#define CRASH_MS 2050.0 /* between two heartbeats: none is under way */
#define T_MS 3.0

static struct cluster *settled(const char *protocol, uint32_t nodes)
{
    return cluster_settled(protocol, /* timeout_s= */ 1, nodes, CRASH_MS);
}

/* The heir that the coordinator's next heartbeat names. */
static cv_id heir_named_by(struct cluster *c, cv_id coordinator, cv_id to)
{
    const struct cv_message *heartbeat = NULL;
    for (double end_ms = cluster_now_ms(c) + 250; heartbeat == NULL;) {
        assert_true(cluster_now_ms(c) < end_ms);
        cluster_run_until(c, cluster_now_ms(c) + 0.5);
        heartbeat = cluster_in_flight(c, "HEARTBEAT", coordinator, to);
    }
    const cv_id heir = (cv_id)cluster_field(c, heartbeat, "heir");
    cluster_run_until(c, cluster_now_ms(c) + 50);
    return heir;
}

/* [NITR, Improved Bully Algorithm] "The algorithm declares the new coordinator before actual or
 * current coordinator is crashed." */
static void next_coordinator_is_declared_before_the_crash(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 5);
    for (cv_id to = 1; to <= 4; to++) {
        assert_int_equal(heir_named_by(c, 5, to), 4);
    }
    cluster_crash(c, 5);
    cluster_run_until(c, cluster_now_ms(c) + 1500);
    assert_int_equal(cluster_leader(c), 4);
    cluster_end(c);
}

/* [NITR, Improved Bully Algorithm] "the current coordinator tries to gather information about
 * processes in the system": everybody answers each heartbeat. */
static void coordinator_learns_which_processes_are_alive(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 5);
    cluster_crash(c, 2);
    cluster_run_until(c, CRASH_MS + 100);
    for (cv_id id = 1; id <= 4; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ALIVE", .from = id, .to = 5, .since_ms = CRASH_MS), id != 2);
    }
    cluster_end(c);
}

/* [NITR, Improved Bully Algorithm] "and declares the next possible coordinator": one that is alive.
 * A process that died is not named any more two heartbeats later; one that came back is named
 * again. */
static void heir_is_the_highest_process_alive(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 5);
    cluster_crash(c, 4);
    cluster_run_until(c, CRASH_MS + 300);
    assert_int_equal(heir_named_by(c, 5, 1), 3);
    cluster_crash(c, 3);
    cluster_run_until(c, cluster_now_ms(c) + 300);
    assert_int_equal(heir_named_by(c, 5, 1), 2);
    cluster_recover(c, 4);
    cluster_run_until(c, cluster_now_ms(c) + 300);
    assert_int_equal(heir_named_by(c, 5, 1), 4);
    cluster_end(c);
}

/* [NITR, Improved Bully Algorithm] "each process that notices this failure compares its id with the
 * id which it has received via the coordinator": the equal one announces itself at once, ... */
static void heir_that_notices_announces_itself_at_once(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 6);
    cluster_crash(c, 6);
    cluster_suspect(c, 5, 6);
    assert_int_equal(cluster_leader_at(c, 5), 5);
    cluster_run_until(c, CRASH_MS + 1);
    assert_int_equal(cluster_leader(c), 5);
    assert_about_ms(cluster_decided_ms(c) - CRASH_MS, 1.0);
    cluster_end(c);
}

/* ... and the others wait for it instead of asking. */
static void others_that_notice_wait_for_the_heir(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 6);
    cluster_orphan(c, BIT(4) - 1);
    cluster_run_until(c, CRASH_MS + T_MS - 0.1);
    assert_int_equal(cluster_sends(c, .since_ms = CRASH_MS), 0);
    cluster_suspect(c, 5, 6);
    cluster_run_until(c, CRASH_MS + 50);
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* [NITR, Improved Bully Algorithm] "a process with the bigger id attempts to execute the bully
 * algorithm": if the heir is dead too, after T. */
static void without_the_heir_the_plain_bully_runs_after_t(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 6);
    cluster_crash(c, 6);
    cluster_crash(c, 5);
    cluster_suspect(c, 4, 6);
    cluster_run_until(c, CRASH_MS + T_MS - 0.1);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS), 0);
    cluster_run_until(c, CRASH_MS + T_MS);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 4, .since_ms = CRASH_MS), 2);
    cluster_run_until(c, CRASH_MS + 2 * T_MS + 1);
    assert_int_equal(cluster_leader(c), 4);
    cluster_end(c);
}

/* [NITR, Improved Bully Algorithm] "Overcomes the disadvantages of the original bully": however
 * many processes notice, N-2 messages in one transmission time, where the bully needs the order of
 * N^2. */
static void election_costs_n_minus_2_messages_whichever_processes_notice(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {4, 8, 16, 32};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        uint64_t sent[2];
        for (uint32_t improved = 0; improved < 2; improved++) {
            struct cluster *c = settled(improved ? "bully-improved" : "bully", n);
            const uint64_t before = cluster_sent(c, NULL);
            cluster_orphan(c, UINT64_MAX);
            cluster_run_until(c, CRASH_MS + 40);
            assert_int_equal(cluster_leader(c), n - 1);
            sent[improved] = cluster_sent(c, NULL) - before;
            if (improved) {
                assert_int_equal(sent[1], n - 2);
                assert_about_ms(cluster_decided_ms(c) - CRASH_MS, 1.0);
            }
            cluster_end(c);
        }
        assert_true(sent[0] >= (n - 1) * (n - 2) / 2 + sent[1]);
    }
}

/* [NITR, Disadvantages of Improved Bully Algorithm] "Every time process updates its database": each
 * heartbeat costs one message more, even while nothing happens. */
static void database_is_kept_up_to_date_all_the_time(void **unused)
{
    (void)unused;
    struct cluster *c = settled("bully-improved", 5);
    cluster_run_until(c, CRASH_MS + 1000);
    assert_int_equal(cluster_sends(c, .type = "HEARTBEAT", .since_ms = CRASH_MS), 40);
    assert_int_equal(cluster_sends(c, .type = "ALIVE", .since_ms = CRASH_MS), 40);
    cluster_end(c);
}

/* [NITR, Disadvantages of Improved Bully Algorithm] "Large database required to maintain the
 * information of each process": the state grows with N, the plain bully's does not. */
static void database_grows_with_the_number_of_processes(void **unused)
{
    (void)unused;
    size_t bytes[2][2];
    for (uint32_t improved = 0; improved < 2; improved++) {
        const struct cv_protocol *p = cv_protocol_find(improved ? "bully-improved" : "bully");
        for (uint32_t large = 0; large < 2; large++) {
            struct cv_config config;
            cv_config_init(&config, p, 1, large ? 4096 : 5);
            assert_int_equal(cv_core_configure(p, &config, NULL), CV_OK);
            bytes[improved][large] = cv_core_size(p, &config);
        }
    }
    assert_int_equal(bytes[0][0], bytes[0][1]);
    assert_true(bytes[1][0] > bytes[0][0]);
    assert_true(bytes[1][1] >= bytes[1][0] + 4000 / 8);
}

/* What every election algorithm owes, and what is impossible: support/claims.h cites the slides. */
CLAIMS_DEFINE("bully-improved")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_coordinator_is_declared_before_the_crash),
        cmocka_unit_test(coordinator_learns_which_processes_are_alive),
        cmocka_unit_test(heir_is_the_highest_process_alive),
        cmocka_unit_test(heir_that_notices_announces_itself_at_once),
        cmocka_unit_test(others_that_notice_wait_for_the_heir),
        cmocka_unit_test(without_the_heir_the_plain_bully_runs_after_t),
        cmocka_unit_test(election_costs_n_minus_2_messages_whichever_processes_notice),
        cmocka_unit_test(database_is_kept_up_to_date_all_the_time),
        cmocka_unit_test(database_grows_with_the_number_of_processes),
        CLAIMS_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
