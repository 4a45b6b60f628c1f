/* conclave/election.h - take part in an election: who leads, until when, and is it me?
 *
 *     struct cv_election *e;
 *     struct cv_errtext error;
 *     if (cv_open(&e, "nightly", NULL, NULL, &error) != CV_OK) { ... error.text ... }
 *     ...
 *     uint64_t token;
 *     int64_t left_ns;
 *     if (cv_lead(e, &token, &left_ns)) { act, within left_ns, and show the token }
 *     ...
 *     cv_close(e);
 *
 * An election has a thread of its own, which keeps the lease, the connection and the clock; nothing
 * that an application does delays it, and it calls nothing of the application but `log`. All
 * functions but cv_close() may be called from any thread at any time. A child made by fork() must
 * not use an election of its parent.
 *
 * What a leader may rely on: nobody else leads before valid_until_ns, on the clock that cannot be
 * set (CLOCK_BOOTTIME), unless cv_resign() or cv_close() was called. Time passes between the
 * question and the action, and a process may be stopped in between for as long as you like: let the
 * resource check the token, which grows with each leadership, and refuse smaller ones. */
#ifndef CONCLAVE_ELECTION_H
#define CONCLAVE_ELECTION_H

#include <conclave/core.h>
#include <conclave/errors.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CV_ELECTION_BYTES 256 /* a name of an election, with the final zero */
#define CV_NODE_BYTES 128     /* a name of a contender */

struct cv_election;

/* All zero is a good choice. */
struct cv_election_options {
    const char *node; /* a name for people; NULL: host name and process id */
    int64_t lease_ns; /* how long a leadership lasts without renewal; 0: 5 s */
    bool is_observer; /* only watch, until cv_campaign() */
    /* Not 0: while leading, the lease is renewed only if cv_progress() was called so recently. */
    int64_t progress_ns;
    /* Take part also where at-most-one-leader is not promised (multicast:...): two processes may
     * lead at the same time for a while. Without this such an address is refused. */
    bool accepts_two_leaders;
    /* Called with one line for each event that is worth knowing but is not part of the status:
     * datagrams that had to be dropped, a sequencer that does not answer. Called by the election's
     * thread: it must return soon, and must not call cv_close(). NULL: nobody is told. */
    void (*log)(void *user, const char *line);
    void *log_user;
};

enum cv_role {
    CV_ROLE_OBSERVER, /* does not want to lead */
    CV_ROLE_WAITING,  /* wants to */
    CV_ROLE_LEADER,
};

/* One consistent view. */
struct cv_election_status {
    uint64_t sequence; /* grows with each change: what was missed in between is of no importance */
    enum cv_role role;
    char self[CV_NODE_BYTES];       /* the name by which the others know this process */
    char leader[CV_NODE_BYTES];     /* its name; empty: nobody is known to lead */
    uint64_t token;                 /* of the leadership; without one, of the latest known */
    int64_t valid_until_ns;         /* leader: CLOCK_BOOTTIME; 0: not leader, or no lease there */
    bool has_majority;              /* leader: nobody else can lead, wherever the network is cut */
    enum cv_reason reason;          /* of the latest change */
    bool is_wished_away;            /* leader: somebody asks it to resign; see cv_wish() ... */
    char heir[CV_NODE_BYTES];       /* ... in favour of this one; empty: of anybody */
    char trouble[CV_ERRTEXT_BYTES]; /* why the store cannot be used at the moment; or empty */
};

/* Opens an election and begins to campaign. `address` says where it is held (conclave-address(7));
 * NULL: a file of this user, for the processes of this host. Does not wait for a server: whether it
 * answers is in the status. CV_E_INVALID: a name, address or option that cannot be; CV_E_STORE: a
 * file that cannot be used; CV_E_MEMORY. */
CV_NODISCARD int cv_open(struct cv_election **ret_election, const char *name, const char *address,
                         const struct cv_election_options *options, struct cv_errtext *reterr);

/* Is this process the leader, right now? Reads the clock and one word; takes no lock. */
bool cv_is_leader(const struct cv_election *election);

/* The same, and what to act with: the token, and how long it is still valid. Either may be NULL. */
bool cv_lead(const struct cv_election *election, uint64_t *ret_token, int64_t *ret_left_ns);

/* The latest state. Afterwards cv_fd() is quiet until the next change. */
void cv_status(struct cv_election *election, struct cv_election_status *ret_status);

/* Readable when there is a state that cv_status() has not returned yet. Not to be read or closed.
 */
int cv_fd(const struct cv_election *election);

/* Calls `changed` with the latest state after each change, from a thread made for that; once for
 * several changes if it takes long. At most one for each election. CV_E_INVALID: there is one. */
CV_NODISCARD int cv_watch(struct cv_election *election,
                          void (*changed)(void *user, const struct cv_election_status *status),
                          void *user);

/* From now on, be (or do not be) a candidate. Who leads and stops being one resigns: see there. */
void cv_campaign(struct cv_election *election, bool is_candidate);

/* Stop leading, and let others go first for a while. To be called when the work has stopped: the
 * next leader may begin at once. `heir`: the node that the others let go first; NULL: none. */
void cv_resign(struct cv_election *election, const char *heir);

/* Asks the leader, whoever it is, to resign; it sees that in its status. */
void cv_wish(struct cv_election *election, const char *heir);

/* The work goes on; see progress_ns. Takes no lock. */
void cv_progress(struct cv_election *election);

/* An input for scores, where leaders are chosen by them. */
void cv_report(struct cv_election *election, enum cv_input input, int64_t value);

/* Resigns, and waits until that is known to the others, but not for long: a second at most. Then
 * frees everything. NULL is no election. */
void cv_close(struct cv_election *election);

#ifdef __cplusplus
}
#endif
#endif
