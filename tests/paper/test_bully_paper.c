/* tests/paper/test_bully_paper.c - what [NITR] says about the bully algorithm, claim by claim.
 *
 * The comment on each test begins with the heading of the slide. One transmission takes 1 ms, the
 * bound on delays is the same, so T is 3 ms and T' 6 ms. A process learns that the coordinator is
 * dead when the test tells it (cluster_suspect), so that it is known which process detects the
 * failure. */
#include "support/claims.h"
#include "support/cluster.h"
#include "support/solo.h"
#include "support/support.h"

#include <string.h>

#define CRASH_MS 2050.0 /* between two heartbeats: none is under way */
#define T_MS 3.0
#define T2_MS 6.0 /* T': how long a process that was answered waits for the coordinator */

/* N processes with a coordinator, long before anybody's time-out. */
static struct cluster *settled(uint32_t nodes)
{
    return cluster_settled("bully", /* timeout_s= */ 1, nodes, CRASH_MS);
}

/* The same, in which the coordinator has just crashed and `detector` knows it. */
static struct cluster *orphaned(uint32_t nodes, cv_id detector)
{
    struct cluster *c = settled(nodes);
    cluster_orphan(c, BIT(detector - 1));
    return c;
}

/* ---- Bully Algorithm: Basic Assumptions ------------------------------------------------------ */

/* [NITR, Bully Algorithm: Basic Assumptions, 1 and 4] */
static void assumes_synchrony_and_reliable_messages(void **unused)
{
    (void)unused;
    const struct cv_protocol *bully = cv_protocol_find("bully");
    assert_true(bully->assumes & BIT(CV_ASSUME_BOUNDED_DELAY));
    assert_true(bully->assumes & BIT(CV_ASSUME_NO_LOSS));
    assert_true(bully->assumes & BIT(CV_ASSUME_PROMPT_PROCESSES));
}

/* [NITR, Bully Algorithm: Basic Assumptions, 2 and 3] A process addresses others by number: it
 * knows everybody's id, and ids are unique. */
static void knows_the_ids_of_all_others(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 1);
    for (cv_id id = 2; id <= 6; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ELECTION", .from = 1, .to = id, .since_ms = CRASH_MS), 1);
    }
    cluster_end(c);
}

/* [NITR, Bully Algorithm: Basic Assumptions, 6 and 7; Algorithm (Bully), steps 1 and 2] Nobody
 * tells it: silence for the time-out is failure, and a shorter silence is not. */
static void failure_detector_treats_silence_as_failure(void **unused)
{
    (void)unused;
    const double timeout_ms = 1000;
    struct cluster *c = settled(5);
    cluster_crash(c, 5); /* its last heartbeat was sent 50 ms ago */
    cluster_run_until(c, CRASH_MS + timeout_ms - 100 - 1);
    for (cv_id id = 1; id <= 4; id++) {
        assert_int_equal(cluster_leader_at(c, id), 5);
    }
    cluster_run_until(c, CRASH_MS + timeout_ms + 50);
    assert_int_equal(cluster_leader(c), 4);
    cluster_end(c);
}

/* ---- Bully Algorithm: Key idea --------------------------------------------------------------- */

/* [NITR, Bully Algorithm, Key idea] "Processes initiate election if just recovered from failure" */
static void recovered_process_initiates_an_election(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5);
    cluster_crash(c, 2);
    cluster_run_until(c, CRASH_MS + 10);
    cluster_recover(c, 2);
    for (cv_id id = 1; id <= 5; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ELECTION", .from = 2, .to = id, .since_ms = CRASH_MS),
            id > 2);
    }
    cluster_run_until(c, CRASH_MS + 30);
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, Key idea] "several processes can initiate an election simultaneously" */
static void several_may_initiate_at_once_and_agree(void **unused)
{
    (void)unused;
    claims_any_initiators_agree("bully", /* timeout_s= */ 1, /* within_ms= */ 50);
}

/* [NITR, Bully Algorithm, Types of Messages] */
static void has_election_alive_and_coordinator_messages(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(4, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 50);
    assert_true(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS) > 0);
    assert_true(cluster_sends(c, .type = "ANSWER", .since_ms = CRASH_MS) > 0);
    assert_true(cluster_sends(c, .type = "COORDINATOR", .since_ms = CRASH_MS) > 0);
    cluster_end(c);
}

/* ---- Bully Algorithm, steps 1 to 5 ----------------------------------------------------------- */

/* [NITR, Bully Algorithm, step 1] "If P has the highest process ID, it sends a Victory message to
 * all other processes and becomes the new Coordinator." */
static void step_1_highest_announces_itself_at_once(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5);
    cluster_crash(c, 5);
    cluster_run_until(c, CRASH_MS + 1500);
    assert_int_equal(cluster_leader(c), 4);
    const double now_ms = cluster_now_ms(c);
    cluster_recover(c, 5);
    assert_int_equal(cluster_leader_at(c, 5), 5);
    for (cv_id id = 1; id <= 4; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "COORDINATOR", .from = 5, .to = id, .since_ms = now_ms), 1);
    }
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 5), 0);
    cluster_run_until(c, now_ms + 1);
    assert_int_equal(cluster_leader(c), 5);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 1; Algorithm (Bully), step 3] "Otherwise, P broadcasts an Election
 * message to all other processes with higher process IDs than itself." */
static void step_1_others_ask_all_higher_ids(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 3);
    for (cv_id id = 1; id <= 6; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ELECTION", .from = 3, .to = id, .since_ms = CRASH_MS),
            id > 3);
    }
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 2; Algorithm (Bully), steps 4 and 5] "If P receives no Answer after
 * sending an Election message, then it broadcasts a Victory message": after T, not before. */
static void step_2_without_an_answer_it_wins_after_t(void **unused)
{
    (void)unused;
    struct cluster *c = settled(5);
    cluster_crash(c, 5);
    cluster_crash(c, 4);
    cluster_suspect(c, 3, 5);
    cluster_run_until(c, CRASH_MS + T_MS - 0.1);
    assert_int_equal(cluster_leader_at(c, 3), CV_ID_NONE);
    cluster_run_until(c, CRASH_MS + T_MS);
    assert_int_equal(cluster_leader_at(c, 3), 3);
    for (cv_id id = 1; id <= 2; id++) { /* to all lower ones, as Algorithm (Bully), step 5 has it */
        assert_int_equal(
            cluster_sends(c, .type = "COORDINATOR", .from = 3, .to = id, .since_ms = CRASH_MS), 1);
    }
    cluster_run_until(c, CRASH_MS + T_MS + 1);
    assert_int_equal(cluster_leader(c), 3);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 3] "it sends no further messages for this election and waits" */
static void step_3_an_answered_process_is_silent_and_waits(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(6, /* detector= */ 2);
    assert_int_equal(cluster_sends(c, .from = 2, .since_ms = CRASH_MS), 4);
    cluster_run_until(c, CRASH_MS + 30);
    assert_true(cluster_count(c, &(const struct cluster_query){.event = "deliver",
                                                               .type = "ANSWER",
                                                               .to = 2,
                                                               .since_ms = CRASH_MS}) > 0);
    assert_int_equal(cluster_sends(c, .from = 2, .since_ms = CRASH_MS), 4);
    assert_int_equal(cluster_leader_at(c, 2), 5);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 3; Algorithm (Bully), step 6] "If there is no Victory message after
 * a period of time, it restarts the process at the beginning." */
static void step_3_without_a_victory_it_starts_again(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(3, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 1.5); /* 2 has answered, but not won */
    cluster_crash(c, 2);
    const double answered_ms = CRASH_MS + 2;
    cluster_run_until(c, answered_ms + T2_MS - 0.1);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 1, .since_ms = CRASH_MS), 2);
    cluster_run_until(c, answered_ms + T2_MS);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 1, .since_ms = CRASH_MS), 4);
    cluster_run_until(c, answered_ms + T2_MS + T_MS);
    assert_int_equal(cluster_leader(c), 1);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 4] "it sends an Answer message back and starts the election process
 * at the beginning, by sending an Election message to higher-numbered processes" */
static void step_4_asked_by_a_lower_one_it_answers_and_asks_higher_ones(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 1);
    assert_int_equal(cluster_sends(c, .type = "ANSWER", .from = 3, .to = 1, .since_ms = CRASH_MS),
                     1);
    for (cv_id id = 1; id <= 5; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "ELECTION", .from = 3, .to = id, .since_ms = CRASH_MS),
            id > 3);
    }
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 4] Asked again while its own election runs, it only answers. */
static void step_4_a_running_election_is_not_started_again(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 1);
    cluster_suspect(c, 2, 5); /* 3 and 4 are asked by both */
    cluster_run_until(c, CRASH_MS + 30);
    assert_int_equal(cluster_sends(c, .type = "ANSWER", .from = 3, .since_ms = CRASH_MS), 2);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = 3, .since_ms = CRASH_MS), 2);
    cluster_end(c);
}

/* [NITR, Bully Algorithm, step 5] "it treats the sender as the coordinator" */
static void step_5_the_sender_of_a_coordinator_message_is_the_coordinator(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(5, /* detector= */ 4);
    assert_non_null(cluster_in_flight(c, "COORDINATOR", 4, 1));
    assert_int_equal(cluster_leader_at(c, 1), 5);
    cluster_run_until(c, CRASH_MS + 1);
    assert_int_equal(cluster_leader_at(c, 1), 4);
    /* Ours: claims are ordered, so a coordinator message of an older term is not treated so. */
    const uint64_t term = cluster_token_at(c, 1);
    assert_true(cluster_would_follow(c, 1, 4, term));
    assert_true(cluster_would_follow(c, 1, 3, term + 1));
    assert_false(cluster_would_follow(c, 1, 3, term - 1));
    assert_false(cluster_would_follow(c, 1, 3, term));
    cluster_end(c);
}

/* ---- Example Bully Algorithm ----------------------------------------------------------------- */

/* [NITR, Example Bully Algorithm] N3, N5, N6, N12, N32 and N80 are our 1 to 6. */
enum { N6 = 3, N12 = 4, N32 = 5, N80 = 6 };

static void example_n6_asks_n12_n32_and_n80(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(N80, /* detector= */ N6);
    assert_int_equal(cluster_sends(c, .type = "ELECTION", .from = N6, .since_ms = CRASH_MS), 3);
    assert_non_null(cluster_in_flight(c, "ELECTION", N6, N12));
    assert_non_null(cluster_in_flight(c, "ELECTION", N6, N32));
    assert_non_null(cluster_in_flight(c, "ELECTION", N6, N80));
    cluster_end(c);
}

static void example_n80_does_not_respond_but_n12_and_n32_do(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(N80, /* detector= */ N6);
    cluster_run_until(c, CRASH_MS + 1);
    assert_non_null(cluster_in_flight(c, "ANSWER", N12, N6));
    assert_non_null(cluster_in_flight(c, "ANSWER", N32, N6));
    cluster_run_until(c, CRASH_MS + 50);
    assert_int_equal(cluster_sends(c, .from = N80, .since_ms = CRASH_MS + 0.001), 0);
    cluster_end(c);
}

static void example_n32_announces_itself_to_all_lower_ids(void **unused)
{
    (void)unused;
    struct cluster *c = orphaned(N80, /* detector= */ N6);
    cluster_run_until(c, CRASH_MS + 50);
    for (cv_id id = 1; id < N32; id++) {
        assert_int_equal(
            cluster_sends(c, .type = "COORDINATOR", .from = N32, .to = id, .since_ms = CRASH_MS),
            1);
    }
    assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .since_ms = CRASH_MS), N32 - 1);
    assert_int_equal(cluster_leader(c), N32); /* "& the Election is Complete" */
    cluster_end(c);
}

/* [NITR, Example Bully Algorithm] "If failures is stop, eventually will elect a leader" */
static void with_stopping_failures_a_leader_is_elected_in_the_end(void **unused)
{
    (void)unused;
    struct cluster *c = settled(8);
    for (cv_id dead = 8; dead >= 2; dead--) { /* one after the other, in the middle of elections */
        cluster_crash(c, dead);
        cluster_run_until(c, cluster_now_ms(c) + 2.5);
        cluster_suspect(c, 1, dead);
    }
    cluster_run_until(c, CRASH_MS + 3000);
    assert_int_equal(cluster_leader(c), 1);
    cluster_end(c);
}

/* ---- Analysis -------------------------------------------------------------------------------- */

static const uint32_t sizes[] = {4, 5, 8, 13, 16, 32};

/* [NITR, Analysis] "Worst case completion time: 5 message transmission times", when the process
 * with the lowest id detects the failure: election, (answer and) election of the second highest,
 * time-out of three, coordinator. */
static void worst_case_takes_five_transmission_times(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        struct cluster *c = orphaned(sizes[i], /* detector= */ 1);
        cluster_run_until(c, CRASH_MS + 90);
        assert_int_equal(cluster_leader(c), sizes[i] - 1);
        assert_about_ms(cluster_decided_ms(c) - CRASH_MS, 5.0);
        cluster_end(c);
    }
}

/* [NITR, How to set the timeouts?] The five transmissions, one by one. */
static void worst_case_is_election_answer_election_timeout_coordinator(void **unused)
{
    (void)unused;
    enum { N = 5 };
    struct cluster *c = orphaned(N, /* detector= */ 1);
    cluster_run_until(c, CRASH_MS + 90);
#define SENT(what, of, whom, at)                                                        \
    cluster_sends(c, .type = what, .from = of, .to = whom, .since_ms = CRASH_MS + (at), \
                  .until_ms = CRASH_MS + (at))
    assert_int_equal(SENT("ELECTION", 1, N - 1, 0), 1);
    assert_int_equal(SENT("ANSWER", N - 1, 1, 1), 1);
    assert_int_equal(SENT("ELECTION", N - 1, N, 1), 1);
    assert_int_equal(SENT("COORDINATOR", N - 1, 1, 1 + T_MS), 1);
#undef SENT
    cluster_end(c);
}

/* [NITR, Analysis] "N-1 processes altogether begin elections"; "i-th highest id process sends (i-1)
 * election messages"; N(N-1)/2 together. */
static void worst_case_sends_n_times_n_minus_1_half_elections(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        struct cluster *c = orphaned(n, /* detector= */ 1);
        cluster_run_until(c, CRASH_MS + 90);
        for (uint32_t place = 2; place <= n; place++) { /* the highest of all is dead */
            assert_int_equal(
                cluster_sends(c, .type = "ELECTION", .from = n + 1 - place, .since_ms = CRASH_MS),
                place - 1);
        }
        assert_int_equal(cluster_sends(c, .type = "ELECTION", .since_ms = CRASH_MS),
                         n * (n - 1) / 2);
        cluster_end(c);
    }
}

/* [NITR, Analysis, Best case] "Second highest id detects leader failure. Sends (N-2) coordinator
 * messages. Completion time: 1 message transmission time." */
static void best_case_is_n_minus_2_messages_in_one_transmission_time(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        struct cluster *c = settled(n);
        const uint64_t before = cluster_sent(c, NULL);
        cluster_orphan(c, BIT(n - 2));
        cluster_run_until(c, CRASH_MS + 90);
        assert_int_equal(cluster_sends(c, .type = "COORDINATOR", .since_ms = CRASH_MS), n - 2);
        assert_int_equal(cluster_sent(c, NULL) - before, n - 2);
        assert_about_ms(cluster_decided_ms(c) - CRASH_MS, 1.0);
        assert_int_equal(cluster_leader(c), n - 1);
        cluster_end(c);
    }
}

/* [NITR, Disadvantages of Bully Algorithm, b and c] "order O(n^2)": twice the processes, about four
 * times the messages. */
static void messages_grow_with_the_square_of_n(void **unused)
{
    (void)unused;
    uint64_t sent[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = 32 << i;
        struct cluster *c = settled(n);
        const uint64_t before = cluster_sent(c, NULL);
        cluster_crash(c, n);
        cluster_suspect(c, 1, n);
        cluster_run_until(c, CRASH_MS + 90);
        sent[i] = cluster_sent(c, NULL) - before;
        cluster_end(c);
    }
    const double ratio = (double)sent[1] / (double)sent[0];
    assert_true(ratio > 3.5 && ratio < 4.5);
}

/* What every election algorithm owes, and what is impossible: support/claims.h cites the slides. */
CLAIMS_DEFINE("bully")

/* [ours] An operator who asks why there is no leader finds each refusal with its reason. */
static void refusals_are_noted_with_their_reason(void **unused)
{
    (void)unused;
    struct solo *s = solo_new("bully", 2, 3, "");
    solo_draft(s, "ELECTION");
    solo_hear(s, 3, 0);
    const struct cv_note *note =
        solo_noted(s, "ELECTION of {peer} ignored: its id is higher than ours");
    assert_int_equal(note->peer, 3);
    solo_draft(s, "HEARTBEAT");
    solo_put(s, "term", 5);
    solo_hear(s, 3, 0);
    assert_int_equal(s->leader, 3);
    assert_int_equal(s->out.note_count, 0); /* followed: nothing to explain */
    solo_put(s, "term", 4);
    solo_hear(s, 1, 0);
    note = solo_noted(s, "claim of {peer} refused: a larger one in term {number} was accepted");
    assert_int_equal(note->peer, 1);
    assert_int_equal(note->number, 5);
    solo_draft(s, "REFUSE");
    solo_hear(s, 1, 0);
    assert_non_null(solo_noted(s, "REFUSE of {peer} ignored: not leading"));
    solo_draft(s, "ANSWER");
    solo_hear(s, 3, 0);
    assert_non_null(solo_noted(s, "ANSWER of {peer} ignored: not asking"));
    solo_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assumes_synchrony_and_reliable_messages),
        cmocka_unit_test(knows_the_ids_of_all_others),
        cmocka_unit_test(failure_detector_treats_silence_as_failure),
        cmocka_unit_test(recovered_process_initiates_an_election),
        cmocka_unit_test(several_may_initiate_at_once_and_agree),
        cmocka_unit_test(has_election_alive_and_coordinator_messages),
        cmocka_unit_test(step_1_highest_announces_itself_at_once),
        cmocka_unit_test(step_1_others_ask_all_higher_ids),
        cmocka_unit_test(step_2_without_an_answer_it_wins_after_t),
        cmocka_unit_test(step_3_an_answered_process_is_silent_and_waits),
        cmocka_unit_test(step_3_without_a_victory_it_starts_again),
        cmocka_unit_test(step_4_asked_by_a_lower_one_it_answers_and_asks_higher_ones),
        cmocka_unit_test(step_4_a_running_election_is_not_started_again),
        cmocka_unit_test(step_5_the_sender_of_a_coordinator_message_is_the_coordinator),
        cmocka_unit_test(example_n6_asks_n12_n32_and_n80),
        cmocka_unit_test(example_n80_does_not_respond_but_n12_and_n32_do),
        cmocka_unit_test(example_n32_announces_itself_to_all_lower_ids),
        cmocka_unit_test(with_stopping_failures_a_leader_is_elected_in_the_end),
        cmocka_unit_test(worst_case_takes_five_transmission_times),
        cmocka_unit_test(worst_case_is_election_answer_election_timeout_coordinator),
        cmocka_unit_test(worst_case_sends_n_times_n_minus_1_half_elections),
        cmocka_unit_test(best_case_is_n_minus_2_messages_in_one_transmission_time),
        cmocka_unit_test(messages_grow_with_the_square_of_n),
        cmocka_unit_test(refusals_are_noted_with_their_reason),
        CLAIMS_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
