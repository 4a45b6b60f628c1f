/* tests/stores/test_store.h - what the parts of test_store share: the store under test, and the
 * tests that main() lists. */
#ifndef CV_TESTS_STORES_TEST_STORE_H
#define CV_TESTS_STORES_TEST_STORE_H

#include "stores/field.h"
#include "stores/proxy.h"

extern const char *kind_name;
extern char address[512];
extern bool has_server;        /* one that can be killed, and reached through a proxy */
extern bool has_members;       /* several, which elect a leader among themselves */
extern bool has_notifications; /* pushed by the store, not polled */
extern int64_t lease_short_ns, lease_long_ns;

/* Chooses the store by its name; false: there is no such kind, or its servers do not run. */
bool choose(const char *kind);
int set_up(void **unused);
int clean_up(void **unused);
bool has_history(void);

/* Sends one line to tools/with-servers; returns the number in its answer, or 0. */
int servers(const char *format, ...) CV_PRINTF(1, 2);
const char *server_name(void);
/* The address with one host only, the proxy's, which forwards to host number `index`. */
struct proxy *proxy_to(struct field *field, uint32_t index, char ret_address[512]);
/* A new field with a contender `a` that reaches the first server through a proxy. */
struct contender *join_by_proxy(struct field **ret_field, struct proxy **ret_proxy);

/* A new field with three contenders: a holds the election, b and then c wait for it. */
struct field *join_three(const char *election, struct contender **ret_a, struct contender **ret_b,
                         struct contender **ret_c);
/* c leads before b, whatever b has heard; the ledger checks. */
void assert_c_comes_first(struct contender *b, struct contender *c);

/* Runs a command of the shell, which must succeed. */
void shell(const char *command);

/* Runs SQL as the database's superuser. */
void psql(const char *format, ...) CV_PRINTF(1, 2);

/* faults.c */
void a_lost_answer_leaves_nothing_behind(void **unused);
void a_late_answer_counts_from_the_request(void **unused);
void a_hand_over_takes_few_round_trips(void **unused);
void a_slow_server_is_not_sent_the_same_request_again(void **unused);
void a_dropped_connection_is_survived(void **unused);
void a_contender_that_is_cut_off_loses_the_lease(void **unused);
void the_servers_may_be_killed_and_come_back(void **unused);
void the_leader_of_the_servers_may_be_killed(void **unused);
void a_frozen_member_holds_nobody_up(void **unused);

/* kinds.c */
void sessions_may_be_terminated(void **unused);
void a_deleted_row_does_not_reset_the_token(void **unused);
void operators_of_another_role_are_not_used(void **unused);
void a_changed_table_does_no_harm(void **unused);
void tables_of_a_stranger_are_refused(void **unused);
void a_host_that_hangs_is_skipped(void **unused);
void a_server_that_hung_is_soon_used_again(void **unused);
void etcd_users_need_their_password(void **unused);
void etcd_is_reached_by_certificates(void **unused);
void zookeeper_nodes_belong_to_their_creator(void **unused);
void a_lease_is_never_longer_than_asked(void **unused);
void foreign_keys_hold_nothing(void **unused);
void a_contender_that_lost_its_place_is_not_next(void **unused);
void an_election_is_open_once_under_one_label(void **unused);
void bad_addresses_are_reported_in_one_line(void **unused);

/* queue.c */
void the_next_in_line_asks_nothing(void **unused);
void a_contender_that_is_passed_over_is_not_next(void **unused);
void a_contender_that_missed_events_is_not_next(void **unused);
void a_late_renewal_changes_nothing(void **unused);
void a_late_put_that_made_a_key_ready_changes_nothing(void **unused);
void a_late_release_does_not_note_an_end(void **unused);
void a_grant_ends_with_the_lease_of_its_ready_key(void **unused);
void a_grant_ends_with_the_lease_that_was_kept(void **unused);
void earlier_leases_may_be_revoked(void **unused);
void nodes_of_no_session_hold_nothing(void **unused);
void a_grant_counts_from_an_older_proof_of_the_session(void **unused);
void a_leader_that_lost_its_node_writes_no_note(void **unused);
void a_contender_that_is_passed_over_does_not_take_over(void **unused);
void others_are_deposed_before_the_holder_leaves(void **unused);
void the_next_in_the_queue_asks_nothing(void **unused);
void after_a_holder_of_an_earlier_version_the_queue_is_read(void **unused);
void a_contender_with_a_new_connection_looks_before_it_is_next(void **unused);
void a_leader_that_asked_nothing_hears_of_a_resign_request(void **unused);

/* next.c */
void the_next_one_is_given_the_row(void **unused);
void a_given_row_counts_from_the_registration(void **unused);
void a_dead_contender_is_not_given_the_row(void **unused);
void a_contender_that_registered_long_ago_is_not_next(void **unused);
void a_contender_that_gave_up_is_not_next(void **unused);
void a_late_copy_of_a_request_registers_nobody(void **unused);
void a_late_copy_of_a_request_shortens_no_registration(void **unused);
void a_contender_that_took_the_row_is_not_next(void **unused);
void a_forged_notification_makes_nobody_lead(void **unused);
void a_secret_is_believed_once(void **unused);
void a_contender_that_missed_the_notification_asks_for_the_row(void **unused);
void settings_of_others_do_not_matter(void **unused);
void tables_without_the_columns_for_a_next_one_work(void **unused);
void an_earlier_version_may_release(void **unused);

#endif
