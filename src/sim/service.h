/* src/sim/service.h - a replicated service beside a world: what its clients see of a leader.
 *
 * [Becker11, sec. 2] A client's request goes to a server of its site, from there to the leader,
 * which sends it to all and may answer when a quorum, itself included, has acknowledged it; the
 * answer goes back the same way. So a request takes the round trip from the server to the leader,
 * the leader's consensus latency, and `cost_ns` for all processing of the operation (disks,
 * threads, the local network's stack): one constant, which delays a request but occupies no server.
 * Servers have histories. A new leader first recovers (sec. 2.3): it asks a quorum for their
 * histories, fetches the entries it lacks, sends others the entries they lack, and serves once a
 * quorum is in sync. A transfer takes a round trip, and its bytes divided by the bandwidth: what a
 * window allows on that round trip, limited by that of the line (fig. 3).
 *
 * The service uses the world's links, drawn from a stream of its own, and its leaders, as the
 * election of the cores makes them; it reports rates and histories to the cores. It affects the
 * world in no other way: the same seed and reports give the same election.
 *
 * It is a model for measuring, not a database. There are no queues, so rates do not change
 * latencies, and few of the requests need to be simulated. Servers in sync stay in sync; one that
 * is behind (it was down, or was set back) is brought up to date by the next recovery and not
 * before. If all servers of a site are down, its clients use the nearest other server. Memory: the
 * servers, and the requests in flight. */
#ifndef CV_SIM_SERVICE_H
#define CV_SIM_SERVICE_H

#include "sim/world.h"

#define SIM_SERVERS_MAX 64u

struct sim_request {
    uint32_t site;
    cv_id server; /* that received it; CV_ID_NONE: none yet */
    cv_id leader; /* that ordered it; CV_ID_NONE: it waits for a leader */
    uint64_t token;
    int64_t arrived_ns;
    int64_t committed_ns; /* when a quorum will have it; 0: a quorum has it */
    int64_t done_ns;
};

struct sim_recovery {
    cv_id leader;
    uint64_t token;
    int64_t began_ns; /* when it began to lead */
    int64_t done_ns;  /* when it began to serve; INT64_MAX: never, or it was interrupted */
    uint64_t longest; /* the history that a quorum has in the end */
};

/* The server from which a leader fetches missing data, among those that have all of it. */
enum sim_fetch { SIM_FETCH_NEAREST, SIM_FETCH_LARGEST_ID };

struct sim_service_options {
    uint64_t seed;
    int64_t rate[SIM_SITES_MAX]; /* requests per second of each site's clients, by its number */
    uint32_t every;              /* one request in this number is simulated; 0 is 1 */
    int64_t cost_ns;
    int64_t entry_bytes;     /* of the history, for each request */
    int64_t window_bytes;    /* in flight on a connection */
    int64_t bandwidth_bytes; /* of a line, per second */
    enum sim_fetch fetch;
    int64_t report_ns; /* how often rates and histories are reported; 0: never */
    /* Called with each request when it is answered. */
    void (*on_request)(void *context, const struct sim_request *request);
    void *context;
};

struct sim_service;

/* `world` is lent for the service's life; its nodes are the servers, at most SIM_SERVERS_MAX. */
struct sim_service *sim_service_new(struct sim_world *world,
                                    const struct sim_service_options *options);
void sim_service_free(struct sim_service *service);

/* Runs the world, and the clients with it, up to and including that instant. */
void sim_service_run(struct sim_service *service, int64_t until_ns);

/* Entries of a server's history. A server that is set back is not in sync any more. */
uint64_t sim_service_history(const struct sim_service *service, cv_id server);
void sim_service_set_history(struct sim_service *service, cv_id server, uint64_t entries);

/* From now on that site's clients send requests at this rate per second. */
void sim_service_set_rate(struct sim_service *service, uint32_t site, int64_t rate);

/* The recoveries so far, oldest first; NULL past the last. Lent until the service runs on. */
const struct sim_recovery *sim_service_recovery_at(const struct sim_service *service,
                                                   uint32_t index);

/* ---- How a server would do as leader: drawn, with the servers that are up now ---------------- */

/* Restarts the draws from this seed, so that several leaders can be compared with the same
 * draws. */
void sim_service_reseed(struct sim_service *service, uint64_t seed);
/* The latency of a request of that site's clients, or of a recovery. INT64_MAX: there is no
 * quorum. */
int64_t sim_service_draw_request(struct sim_service *service, uint32_t site, cv_id leader);
int64_t sim_service_draw_recovery(struct sim_service *service, cv_id leader);

/* How long a transfer of that number of bytes takes on a connection with that mean round trip. */
int64_t sim_service_transfer_ns(const struct sim_service_options *options, uint64_t bytes,
                                int64_t rtt_ns);

#endif
