/* tests/support/claims.h - what [NITR] says about every election algorithm, to be tested with each
 * protocol.
 *
 * [NITR] is in docs/references.md. Each function is one claim, and fails the test that calls it if
 * the protocol does not fulfil it. */
#ifndef CV_TESTS_CLAIMS_H
#define CV_TESTS_CLAIMS_H

#include <stdint.h>

/* [NITR, Leader Election Algorithms: liveness condition; Validity of LEA: termination] */
void claims_every_node_decides(const char *protocol);
/* [NITR, Leader Election Algorithms: safety condition; Validity of LEA: uniqueness] */
void claims_one_node_is_elected(const char *protocol);
/* [NITR, Validity of LEA: agreement] */
void claims_all_others_know_who(const char *protocol);
/* [NITR, Leader Election Algorithms: "when a node enters either state, it always remains"] */
void claims_states_last(const char *protocol);
/* [NITR, Election Algorithms: "largest identifier"; Bully, assumption 9] among any set of live
 * nodes */
void claims_highest_living_leads(const char *protocol);
/* [NITR, Bully, assumption 5] processes may fail during the election */
void claims_survives_failures_during_the_election(const char *protocol);
/* [NITR, Impossibility] with delays beyond what the time-outs assume there is no agreement ... */
void claims_nothing_beyond_the_bound(const char *protocol);
/* ... and with time-outs made for the same network there is */
void claims_all_within_the_bound(const char *protocol);
/* [NITR, What happens when leader fails?] zero leaders or two leaders during failures */
void claims_zero_or_two_during_failures(const char *protocol);
/* [NITR, Bully, Key idea: "several processes can initiate an election simultaneously"; Example:
 * Ring Algorithm] Whichever of six nodes learn that the coordinator has crashed, within `within_ms`
 * all agree on the highest live one. */
void claims_any_initiators_agree(const char *protocol, uint32_t timeout_s, double within_ms);
/* Ours: an older claim of the coordinator that a node follows is late, not a rival. */
void claims_late_claims_are_not_refused(const char *protocol);
/* Ours: a broken peer that sends the largest possible term does not end elections. */
void claims_elections_go_on_at_the_largest_term(const char *protocol);

/* All of them as tests of one protocol: CLAIMS_DEFINE("bully") makes the functions, CLAIMS_TESTS
 * lists them in the table of tests. */
#define CLAIMS_MAP(X)                                                                          \
    X(every_process_enters_a_decided_state, claims_every_node_decides)                         \
    X(exactly_one_process_takes_itself_for_the_leader, claims_one_node_is_elected)             \
    X(all_others_know_who_the_leader_is, claims_all_others_know_who)                           \
    X(decided_states_last_while_nothing_fails, claims_states_last)                             \
    X(highest_id_among_the_living_is_selected, claims_highest_living_leads)                    \
    X(processes_may_fail_during_the_election, claims_survives_failures_during_the_election)    \
    X(with_delays_beyond_the_bound_it_need_not_terminate, claims_nothing_beyond_the_bound)     \
    X(with_the_bound_set_to_the_worst_latency_it_terminates, claims_all_within_the_bound)      \
    X(there_are_zero_or_two_leaders_during_failures, claims_zero_or_two_during_failures)       \
    X(ours_late_claims_of_the_coordinator_are_not_refused, claims_late_claims_are_not_refused) \
    X(ours_elections_go_on_at_the_largest_term, claims_elections_go_on_at_the_largest_term)

#define CLAIMS_DEFINE(protocol)                     \
    static const char claims_protocol[] = protocol; \
    CLAIMS_MAP(CLAIMS_FUNCTION)
#define CLAIMS_FUNCTION(name, claim) \
    static void name(void **unused)  \
    {                                \
        (void)unused;                \
        claim(claims_protocol);      \
    }
#define CLAIMS_TEST(name, claim) cmocka_unit_test(name),
#define CLAIMS_TESTS CLAIMS_MAP(CLAIMS_TEST)

#endif
