/* src/lab/pole_run.h - the worlds that `conclave lab pole` measures.
 *
 * [Becker11, sec. 4.1] emulates wide-area networks on a cluster. Here the links of the simulator
 * replace the emulator: the paper's round trips with a Pareto jitter of 2 % (the minimum delay is
 * reduced so that the mean is the paper's), 0.1 ms within a data centre, and no loss, which TCP
 * would turn into jitter. The service of sim/service.h replaces ZooKeeper. In every run `pole`
 * elects with the given oracle; nothing is computed from formulas. */
#ifndef CV_LAB_POLE_RUN_H
#define CV_LAB_POLE_RUN_H

#include "lab/lab.h"
#include "sim/service.h"

/* The whole processing of an operation, by every server and its disk: the only constant that is
 * fitted to the paper's latencies. */
#define CV_LAB_OPERATION_MS 1.5

/* Requests of 1 kB, a connection's window, and the line of fig. 3 (940 Mbit/s). The options by
 * which the oracle `recovery` estimates have the same defaults. */
#define CV_LAB_ENTRY_BYTES 1024
#define CV_LAB_WINDOW_BYTES (1 << 20)
#define CV_LAB_BANDWIDTH_BYTES 118000000
#define CV_LAB_MB_ENTRIES 977u /* a megabyte, in entries */

#define CV_LAB_RATE 1000 /* requests per second in all: lambda_T */
#define CV_LAB_SERVERS_MAX 9u
#define CV_LAB_SITES_MAX 5u

/* Servers in sites, their clients, and what each server misses. */
struct cv_lab_wan {
    uint32_t server_count, site_count;
    uint32_t site[CV_LAB_SERVERS_MAX + 1];                     /* of each server, by id */
    double rtt_ms[CV_LAB_SITES_MAX + 1][CV_LAB_SITES_MAX + 1]; /* between sites, from 1 */
    double share[CV_LAB_SITES_MAX + 1];                        /* of the requests, by site */
    uint64_t lag[CV_LAB_SERVERS_MAX + 1];                      /* entries that are missing, by id */
    cv_id first;                                               /* leads, and crashes */
    bool is_calm; /* no jitter: measured delays do not change */
};

struct cv_lab_setting {
    struct cv_lab_wan wan;
    const char *oracle;     /* the option's value */
    const char *preference; /* or NULL */
    bool goes_round;        /* `first` gets the leadership by rotation, not by a hand-over */
    enum sim_fetch fetch;
    uint32_t every;        /* one request in this number is simulated */
    double crash_s, end_s; /* latencies count from 10 s after the new leader */
};

/* By site; NAN: nothing arrived. */
struct cv_lab_outcome {
    cv_id leader;                         /* elected after the crash; CV_ID_NONE: none */
    bool is_sound;                        /* `first` led until then, and no promise was broken */
    double before_ms;                     /* mean latency of all requests, before the crash */
    double mean_ms;                       /* and under the new leader */
    double site_ms[CV_LAB_SITES_MAX + 1]; /* of requests at each site, whether or not any came */
    double worst_ms;                      /* the slowest site */
    double consensus_ms;                  /* at the leader's own site */
    double elected_ms;                    /* from the crash to leading */
    double recovery_ms;                   /* from leading to serving */
};

/* One run. `on_request` may be NULL. */
struct cv_lab_outcome cv__lab_pole_run(const struct cv_lab_setting *setting, uint64_t seed,
                                       void (*on_request)(void *, const struct sim_request *),
                                       void *context);

/* ---- Resignation ----------------------------------------------------------------------------- */

/* In ms from the move of the requests; NAN: it did not happen. */
struct cv_lab_handover {
    cv_id before, after;        /* who leads */
    double before_ms, moved_ms; /* mean latency before the move, and after it until the hand-over */
    double after_ms;            /* and from 5 s after the hand-over on */
    double handed_ms;           /* the new leader leads */
    double gap_ms;              /* without a leader */
    uint32_t changes;           /* leaders after the move, in a minute and a half */
    bool is_sound;
};

/* `latency` elects; at 40 s all requests move to `site`, and the leader may resign by these options
 * (resign-margin, resign-hold). */
struct cv_lab_handover cv__lab_pole_resign(const struct cv_lab_wan *wan, uint32_t site,
                                           const char *options, uint64_t seed);

/* ---- Every possible leader ------------------------------------------------------------------- */

/* The times of each running server as a leader, by id; NAN: it is down. */
struct cv_lab_candidates {
    double mean_ms[CV_LAB_SERVERS_MAX + 1];
    double worst_ms[CV_LAB_SERVERS_MAX + 1];
    double recovery_ms[CV_LAB_SERVERS_MAX + 1];
};

/* Elects in a world with these reports and no clients; returns the leader after the crash of
 * `first` (CV_ID_NONE: there was none, or a promise was broken). `ret_candidates`, if not NULL:
 * measured with the same random numbers for all servers. */
cv_id cv__lab_pole_elect(const struct cv_lab_wan *wan, const char *oracle, uint64_t seed,
                         struct cv_lab_candidates *ret_candidates);

#endif
