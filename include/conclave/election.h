/* conclave/election.h - take part in an election.
 *
 *     struct cv_election *e;
 *     struct cv_errtext error;
 *     if (cv_open(&e, "nightly", NULL, NULL, &error) != CV_OK) { ... error.text ... }
 *     ...
 *     uint64_t token;
 *     int64_t left_ns;
 *     if (cv_leads(e, &token, &left_ns)) { act, within left_ns, and pass the token }
 *     ...
 *     cv_close(e);
 *
 * An engine runs the election: a thread that renews the lease and owns the connection and the
 * timers. The application cannot delay it, and it never calls the application; callbacks have
 * another thread. Each election has its own engine, unless the application shares one.
 *
 * Any thread may call any function at any time, except that closing must be the last call for its
 * election. A child made by fork() must not use an election of its parent. For NULL or a value out
 * of range, functions return CV_E_INVALID or "no"; they never abort.
 *
 * A leader may rely on this: no other process leads before valid_until_ns, on the clock that cannot
 * be set (CLOCK_BOOTTIME), unless this one calls cv_resign() or cv_close(). Time passes between the
 * check and the action, and a process may be paused in between for any time. So let the resource
 * check the token, which grows with each leadership, and refuse smaller ones. */
#ifndef CONCLAVE_ELECTION_H
#define CONCLAVE_ELECTION_H

#include <conclave/core.h>
#include <conclave/errors.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CV_ELECTION_BYTES 256 /* a name of an election, with the final zero */
#define CV_NODE_BYTES 128     /* a name of a contender */

struct cv_election;
struct cv_engine;

enum cv_role {
    CV_ROLE_OBSERVER, /* does not want to lead */
    CV_ROLE_WAITING,  /* wants to lead */
    CV_ROLE_LEADER,
};

enum cv_log_level {
    CV_LOG_DEBUG,  /* a lease was renewed */
    CV_LOG_INFO,   /* the leader, or this process's role, has changed */
    CV_LOG_NOTICE, /* an event that the status does not show, such as datagrams that were dropped */
    CV_LOG_WARNING, /* the store cannot be used, or the application is stuck */
};

/* Begin with CV_ELECTION_OPTIONS_INIT, then set the fields that should differ. The size tells the
 * library the version of the struct: a program compiled with an older header has a shorter struct,
 * and the missing fields count as zero. */
struct cv_election_options {
    size_t size;      /* of this struct */
    const char *node; /* a name for people; NULL: host name and process id */
    int64_t lease_ns; /* how long a leadership lasts without renewal; 0: 5 s */
    bool is_observer; /* only watch, until cv_campaign() */
    /* Not 0: a leader's lease is renewed only if its election or the last cv_progress() is not
     * longer ago than this. */
    int64_t progress_ns;
    /* Accept an address that does not promise at-most-one-leader (multicast:...): two processes may
     * lead at the same time for a while. Without this such an address is refused. */
    bool accepts_two_leaders;
    struct cv_engine *engine; /* runs the election; NULL: its own engine */
    /* Not NULL: receives each log line, from the engine's thread for callbacks. If lines come
     * faster than this function takes them, some are dropped and counted. */
    void (*log)(void *log_user, enum cv_log_level level, const char *line);
    void *log_user; /* for `log` */
    /* cv_fd(), cv_wait() and cv_watch() do not report renewals; among peers there are hundreds per
     * second. cv_leads() and cv_status() still see them. */
    bool ignores_renewals;
};

/* clang-format off */
#define CV_ELECTION_OPTIONS_INIT \
    {sizeof(struct cv_election_options), NULL, 0, false, 0, false, NULL, NULL, NULL, false}
/* clang-format on */

/* One consistent view. Begin with CV_ELECTION_STATUS_INIT. */
struct cv_election_status {
    size_t size;       /* of this struct; afterwards: of the part that was written */
    uint64_t sequence; /* grows with each change */
    enum cv_role role;
    enum cv_reason reason;          /* of the latest change */
    uint64_t token;                 /* of the leadership; without a leader, the latest known */
    int64_t valid_until_ns;         /* leader: CLOCK_BOOTTIME; 0: not leader, or no leases */
    bool has_majority;              /* leader: no other can lead, even if the network is cut */
    bool is_resign_requested;       /* leader: see cv_request_resign() */
    char self[CV_NODE_BYTES];       /* the name of this process for the other contenders */
    char leader[CV_NODE_BYTES];     /* the leader's name; empty: none, see is_leader_known */
    char heir[CV_NODE_BYTES];       /* is_resign_requested: requested successor; empty: any */
    char trouble[CV_ERRTEXT_BYTES]; /* why leases are not renewed at the moment; or empty */
    uint64_t last_token;            /* of the latest leadership that is known to be over; 0: none */
    enum cv_reason last_reason;     /* why it ended; CV_REASON_GONE: not known */
    bool is_leader_known;           /* false: perhaps somebody leads, perhaps nobody */
};

/* clang-format off */
#define CV_ELECTION_STATUS_INIT                                                         \
    {sizeof(struct cv_election_status), 0, CV_ROLE_OBSERVER, CV_REASON_STARTED, 0, 0,   \
     false, false, {0}, {0}, {0}, {0}, 0, CV_REASON_STARTED, false}
/* clang-format on */

/* "observer", "waiting" or "leader"; "unknown" for a number that is not a role. */
const char *cv_role_name(enum cv_role role);

/* ---- Engines --------------------------------------------------------------------------------- */

/* An engine for many elections: one thread, one connection to each server, and one thread for the
 * callbacks of all of them. CV_E_LIMIT: no threads or descriptors are left; CV_E_MEMORY. */
CV_NODISCARD int cv_engine_new(struct cv_engine **ret_engine, struct cv_errtext *reterr);

/* Fails with CV_E_INVALID, and frees nothing, while elections of the engine are open. NULL is
 * accepted. */
int cv_engine_free(struct cv_engine *engine);

/* ---- Elections ------------------------------------------------------------------------------- */

/* Opens an election as a candidate. `address` is its store or cluster (conclave-address(7)); NULL:
 * a file of this user, for the processes of this host. Does not wait for a server; the status says
 * whether it answers. CV_E_INVALID: the name, the address or an option is not valid; CV_E_UNKNOWN:
 * the module of this store is not installed; CV_E_STORE: the file cannot be used; CV_E_LIMIT: no
 * threads or descriptors are left; CV_E_MEMORY. */
CV_NODISCARD int cv_open(struct cv_election **ret_election, const char *name, const char *address,
                         const struct cv_election_options *options, struct cv_errtext *reterr);

/* True if this process leads now. Reads the clock and memory; takes no lock. */
bool cv_is_leader(const struct cv_election *election);

/* The same, with the token and the time for which it is still valid. Either may be NULL. */
bool cv_leads(const struct cv_election *election, uint64_t *ret_token, int64_t *ret_left_ns);

/* The latest state. Afterwards cv_fd() is not readable until the next change. CV_E_INVALID: the
 * size was not set. */
int cv_status(struct cv_election *election, struct cv_election_status *ret_status);

enum cv_until {
    CV_UNTIL_LEADING,     /* this process leads */
    CV_UNTIL_NOT_LEADING, /* this process does not lead */
    CV_UNTIL_LEADER,      /* a leader is known */
};

/* Waits for this condition. CV_OK: it holds; CV_E_TIMEOUT: it did not hold within timeout_ns
 * (INT64_MAX: wait for ever; 0: check once); CV_E_INVALID. */
CV_NODISCARD int cv_wait(struct cv_election *election, enum cv_until until, int64_t timeout_ns);

/* Readable when there is a state that cv_status() has not returned yet; for the application's own
 * loop. Do not read or close it; it is valid until cv_close(). The first call creates it.
 * CV_E_LIMIT: no descriptors are left; CV_E_INVALID. */
int cv_fd(struct cv_election *election);

/* Calls `changed` with the latest state after each change, from the engine's thread for callbacks;
 * once for several changes if the callback takes long. It may call every function, even cv_close()
 * for its own election. Each election has at most one callback. CV_E_INVALID: it has one already;
 * CV_E_LIMIT: no thread is left. */
CV_NODISCARD int cv_watch(struct cv_election *election,
                          void (*changed)(void *user, const struct cv_election_status *status),
                          void *user);

/* Begin or cease to be a candidate. A leader that ceases to be one resigns. */
int cv_campaign(struct cv_election *election, bool is_candidate);

/* Stop leading, and let other contenders go first for a while. Call it after your work has stopped:
 * the next leader may begin at once. `heir`: the node that the other contenders let go first; NULL:
 * none. If the name is not valid: CV_E_INVALID, and it resigns without an heir. */
int cv_resign(struct cv_election *election, const char *heir);

/* Asks the leader, in any process, to resign in favour of `heir` (NULL: of any contender). The
 * leader sees this in its status and decides. CV_E_INVALID: the name is not valid. */
int cv_request_resign(struct cv_election *election, const char *heir);

/* Report that the work goes on; see progress_ns. Takes no lock. */
void cv_progress(struct cv_election *election);

/* Report an input of a score; elections without scores ignore it. CV_E_INVALID: no such input. */
int cv_report(struct cv_election *election, enum cv_input input, int64_t value);

/* Resigns, waits at most a second until the other contenders know, then frees everything. Waits for
 * a running callback and for lines of `log`, unless the callback itself called this. NULL is
 * accepted. */
void cv_close(struct cv_election *election);

/* The same for several elections: all resign at once, and the call waits once for all of them.
 * Entries may be NULL, and an election may be listed twice. */
void cv_close_all(struct cv_election *const *elections, size_t count);

#ifdef __cplusplus
}
#endif
#endif
