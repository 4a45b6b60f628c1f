/* conclave/election.h - take part in an election: who leads, until when, and is it me?
 *
 *     struct cv_election *e;
 *     struct cv_errtext error;
 *     if (cv_open(&e, "nightly", NULL, NULL, &error) != CV_OK) { ... error.text ... }
 *     ...
 *     uint64_t token;
 *     int64_t left_ns;
 *     if (cv_leads(e, &token, &left_ns)) { act, within left_ns, and show the token }
 *     ...
 *     cv_close(e);
 *
 * An election is run by an engine: a thread that keeps the lease, the connection and the clock.
 * Nothing that an application does delays it, and it never calls the application; callbacks have a
 * thread of their own. Each election has its own engine, unless the application shares one.
 *
 * All functions may be called from any thread at any time, except that closing must be the last
 * call for its election. A child made by fork() must not use an election of its parent. NULL or a
 * value out of range is answered with CV_E_INVALID or with "no", never with an abort.
 *
 * What a leader may rely on: nobody else leads before valid_until_ns, on the clock that cannot be
 * set (CLOCK_BOOTTIME), unless cv_resign() or cv_close() was called. Time passes between the
 * question and the action, and a process may be stopped in between for any time: let the resource
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
    CV_ROLE_WAITING,  /* wants to */
    CV_ROLE_LEADER,
};

enum cv_log_level {
    CV_LOG_DEBUG,  /* a lease was renewed */
    CV_LOG_INFO,   /* the leader, or this process's role, has changed */
    CV_LOG_NOTICE, /* an event that the status does not show, such as datagrams that were dropped */
    CV_LOG_WARNING, /* the store cannot be used, or the application is stuck */
};

/* Begin with CV_ELECTION_OPTIONS_INIT, then set what shall differ. The size tells the library which
 * version of the struct it was given: a program that was compiled with an older header has a
 * shorter one, and the missing fields count as zero. */
struct cv_election_options {
    size_t size;      /* of this struct */
    const char *node; /* a name for people; NULL: host name and process id */
    int64_t lease_ns; /* how long a leadership lasts without renewal; 0: 5 s */
    bool is_observer; /* only watch, until cv_campaign() */
    /* Not 0: a leader's lease is renewed only if it was elected, or cv_progress() was called, not
     * longer ago than this. */
    int64_t progress_ns;
    /* Take part also where at-most-one-leader is not promised (multicast:...): two processes may
     * lead at the same time for a while. Without this such an address is refused. */
    bool accepts_two_leaders;
    struct cv_engine *engine; /* to run in; NULL: an engine of its own */
    /* Not NULL: is called with one line for each thing worth logging, from the engine's thread for
     * callbacks. Lines that come faster than this function takes them are counted and left out. */
    void (*log)(void *log_user, enum cv_log_level level, const char *line);
    void *log_user; /* for `log` */
    /* cv_fd(), cv_wait() and cv_watch() are not told that a leadership was renewed, which among
     * peers happens hundreds of times in a second. cv_leads() and cv_status() know of it. */
    bool ignores_renewals;
};

/* clang-format off */
#define CV_ELECTION_OPTIONS_INIT \
    {sizeof(struct cv_election_options), NULL, 0, false, 0, false, NULL, NULL, NULL, false}
/* clang-format on */

/* One consistent view. Begin with CV_ELECTION_STATUS_INIT. */
struct cv_election_status {
    size_t size;       /* of this struct; afterwards: of the part that was written */
    uint64_t sequence; /* grows with each change: what was missed in between is of no importance */
    enum cv_role role;
    enum cv_reason reason;          /* of the latest change */
    uint64_t token;                 /* of the leadership; without one, of the latest known */
    int64_t valid_until_ns;         /* leader: CLOCK_BOOTTIME; 0: not leader, or no lease there */
    bool has_majority;              /* leader: nobody else can lead, wherever the network is cut */
    bool is_resign_requested;       /* leader: see cv_request_resign() */
    char self[CV_NODE_BYTES];       /* the name by which the others know this process */
    char leader[CV_NODE_BYTES];     /* its name; empty: nobody is known to lead */
    char heir[CV_NODE_BYTES];       /* is_resign_requested: in favour of it; empty: of anybody */
    char trouble[CV_ERRTEXT_BYTES]; /* why leases are not renewed at the moment; or empty */
    uint64_t last_token;            /* of the latest leadership that is known to be over; 0: none */
    enum cv_reason last_reason;     /* why it ended; CV_REASON_GONE: that is not known */
};

/* clang-format off */
#define CV_ELECTION_STATUS_INIT                                                         \
    {sizeof(struct cv_election_status), 0, CV_ROLE_OBSERVER, CV_REASON_STARTED, 0, 0,   \
     false, false, {0}, {0}, {0}, {0}, 0, CV_REASON_STARTED}
/* clang-format on */

/* "observer", "waiting" or "leader"; "unknown" for a number that is no role. */
const char *cv_role_name(enum cv_role role);

/* ---- Engines --------------------------------------------------------------------------------- */

/* An engine for many elections: one thread, one connection to each server, and one thread for the
 * callbacks of all of them. CV_E_LIMIT: no threads or descriptors are left; CV_E_MEMORY. */
CV_NODISCARD int cv_engine_new(struct cv_engine **ret_engine, struct cv_errtext *reterr);

/* CV_E_INVALID, and nothing has happened: there are open elections in it. NULL is no engine. */
int cv_engine_free(struct cv_engine *engine);

/* ---- Elections ------------------------------------------------------------------------------- */

/* Opens an election and begins to campaign. `address` says where it is held (conclave-address(7));
 * NULL: a file of this user, for the processes of this host. Does not wait for a server: whether it
 * answers is in the status. CV_E_INVALID: a name, address or option that cannot be; CV_E_UNKNOWN:
 * the module of this store is not installed; CV_E_STORE: a file that cannot be used; CV_E_LIMIT: no
 * threads or descriptors are left; CV_E_MEMORY. */
CV_NODISCARD int cv_open(struct cv_election **ret_election, const char *name, const char *address,
                         const struct cv_election_options *options, struct cv_errtext *reterr);

/* Is this process the leader, right now? Reads the clock and one word; takes no lock. */
bool cv_is_leader(const struct cv_election *election);

/* The same, and what to act with: the token, and how long it is still valid. Either may be NULL. */
bool cv_leads(const struct cv_election *election, uint64_t *ret_token, int64_t *ret_left_ns);

/* The latest state. Afterwards cv_fd() is quiet until the next change. CV_E_INVALID: the size was
 * not set. */
int cv_status(struct cv_election *election, struct cv_election_status *ret_status);

enum cv_until {
    CV_UNTIL_LEADING,     /* this process leads */
    CV_UNTIL_NOT_LEADING, /* it does not */
    CV_UNTIL_LEADER,      /* somebody is known to lead */
};

/* Waits until it is so. CV_OK: it is; CV_E_TIMEOUT: it was not within timeout_ns (INT64_MAX: wait
 * for ever; 0: look once); CV_E_INVALID. */
CV_NODISCARD int cv_wait(struct cv_election *election, enum cv_until until, int64_t timeout_ns);

/* Readable when there is a state that cv_status() has not returned yet; for the application's own
 * loop. Not to be read or closed; valid until cv_close(). It is made by the first call. CV_E_LIMIT:
 * no descriptors are left; CV_E_INVALID. */
int cv_fd(struct cv_election *election);

/* Calls `changed` with the latest state after each change, from the engine's thread for callbacks;
 * once for several changes if it takes long. It may call everything, also cv_close() for its own
 * election. At most one for each election. CV_E_INVALID: there is one; CV_E_LIMIT: no thread. */
CV_NODISCARD int cv_watch(struct cv_election *election,
                          void (*changed)(void *user, const struct cv_election_status *status),
                          void *user);

/* From now on, be (or do not be) a candidate. A leader that stops being one resigns. */
int cv_campaign(struct cv_election *election, bool is_candidate);

/* Stop leading, and let others go first for a while. To be called when the work has stopped: the
 * next leader may begin at once. `heir`: the node that the others let go first; NULL: none. With a
 * name that no node can have: CV_E_INVALID, and it resigns in favour of nobody. */
int cv_resign(struct cv_election *election, const char *heir);

/* Asks the leader, whichever process it is, to resign in favour of `heir` (NULL: of anybody). It
 * sees that in its status and decides. CV_E_INVALID: a name that no node can have. */
int cv_request_resign(struct cv_election *election, const char *heir);

/* The work goes on; see progress_ns. Takes no lock. */
void cv_progress(struct cv_election *election);

/* An input for scores, where leaders are chosen by them. CV_E_INVALID: no such input. */
int cv_report(struct cv_election *election, enum cv_input input, int64_t value);

/* Resigns, and waits until that is known to the others, but not for long: a second at most. Then
 * frees everything. Callbacks that run, and lines for `log`, are waited for, unless it is a
 * callback that calls this. NULL is no election. */
void cv_close(struct cv_election *election);

/* The same for several elections together: they resign at once and are waited for once. Entries
 * may be NULL. */
void cv_close_all(struct cv_election *const *elections, size_t count);

#ifdef __cplusplus
}
#endif
#endif
