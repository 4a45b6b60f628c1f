/* src/cli/peers.h - commands about elections among peers: there is no store to ask, but members. */
#ifndef CV_CLI_PEERS_H
#define CV_CLI_PEERS_H

#include "net/cluster.h"
#include "stores/store.h"

/* Is it an address of peers? NULL is not. */
bool cv__cli_peers_is(const char *address);

/* `conclave status`, `resign` and `watch` for such an address; they return the exit status. */
int cv__cli_peers_status(const char *address, const char *election, bool is_json);
/* wait_ns < 0: not given. */
int cv__cli_peers_resign(const char *address, const char *election, const char *heir,
                         int64_t wait_ns);
/* Until interrupted, or until change_max changes were printed (0: no limit). */
int cv__cli_peers_watch(const char *address, const char *election, bool is_json,
                        uint64_t change_max);

/* `conclave report`: to the member of that name; NULL: the one of this host. */
int cv__cli_peers_report(const char *address, const char *election, const char *node,
                         const bool has_value[CV_INPUT_COUNT], const int64_t value[CV_INPUT_COUNT]);
/* The rate of a whole site, divided among its members that answer. */
int cv__cli_peers_report_site(const char *address, const char *election, const char *site,
                              int64_t request_rate);

/* `conclave history`: what the member of that name saw; NULL: all whose trails are on this host.
 * Asks nobody. */
int cv__cli_peers_history(const char *address, const char *node, const char *election,
                          void (*past)(void *user, const struct cv_store_past *past), void *user);

/* `conclave explain`: what the file promises; asks nobody. */
int cv__cli_peers_explain(const char *address, bool is_json);

/* `conclave members FILE --check` and `doctor`: does this host have what the file names, the keys,
 * the state folder and the addresses? Returns the number of mistakes. */
uint32_t cv__cli_peers_check_host(const struct cv_cluster *cluster, cv_cluster_say *say,
                                  void *user);

/* One line: "cluster orders, generation 1, protocol pole, 3 members". */
const char *cv__cli_peers_describe(const struct cv_cluster *cluster, char buffer[CV_ERRTEXT_BYTES]);

/* The shortest lease that is kept on this machine when it is busy; *ret_why says why. */
int64_t cv__cli_peers_lease_floor_ns(const struct cv_cluster *cluster, struct cv_errtext *ret_why);

/* Does a member lock its memory on this machine? *ret_why says why. */
bool cv__cli_peers_locks_memory(const struct cv_cluster *cluster, struct cv_errtext *ret_why);

/* `conclave members FILE NAME`: the table of who hears whom. */
int cv__cli_peers_table(const char *path, const char *election, bool is_json);

#endif
