/* src/stores/etcd_server.h - what all elections of a loop on one etcd cluster share: few
 * connections, one lease for each lease length, and one watch.
 *
 * **Leases.** The keys of all elections with the same lease length (in whole seconds, as the
 * cluster counts) are under one lease. Lengths are not mixed: a key must not outlive the length
 * that its holder asked for, and a short lease would let go of keys whose holder asked for a long
 * one. A lease is kept alive while any election uses it.
 *
 * How long a lease lives for certain. A lease that was granted lives for TTL since the asking:
 * granting is a decision of the cluster. A keep-alive is not: it is answered by whichever member
 * believes to lead the cluster, and one that was deposed, say with a stuck disk, goes on believing
 * [traps.md T7]. So it counts only if it stands between two answers of the same member in the same
 * term, the later of which is a linearizable read: then the leader of that term led the cluster
 * when it was asked for the read, after it had prolonged the lease, and nobody else can have judged
 * the lease meanwhile. Which election's read that is does not matter. The time counts from before
 * the keep-alive was sent [traps.md T3], and never for more than was asked, whatever the server
 * says. After a change of its leader the cluster begins to count anew [traps.md T27], which errs on
 * the late side.
 *
 * What a shared lease must not do is keep a key that nobody wants any more:
 *   - A grant that its election does not renew is ended by the election itself, see etcd.c.
 *   - The key of an election that was closed is deleted when its grant has run out, or at once if
 *     it had none (an orphan).
 *   - Whatever else is under the lease without an election that claims it, say a key whose `put`
 *     was carried out after the election had given up, is found by asking for the lease's keys
 *     every other beat, and deleted.
 * If the process dies or hangs, nothing keeps the lease alive, and all its keys go together
 * [traps.md T6].
 *
 * **The watch.** One stream tells of all keys below the prefix (of the only election, if there is
 * just one), and each election hears what concerns it. A stream begins at a revision; an election
 * whose last look is older than that, or than an event that came before it had registered, is told
 * that something changed: it looks again. So nothing is missed in between.
 *
 * Time: a list of elections is walked for each event and each beat. Used on one loop only. */
#ifndef CV_STORES_ETCD_SERVER_H
#define CV_STORES_ETCD_SERVER_H

#include "stores/etcd_wire.h"

struct cv_etcd_lease;
struct cv_etcd_orphan;

enum cv_etcd_outcome { CV_ETCD_LEASE_ALIVE, CV_ETCD_LEASE_GONE, CV_ETCD_LEASE_FAILED };

/* What an election wants to hear of. */
enum cv_etcd_interest {
    CV_ETCD_NOTHING,
    CV_ETCD_WAITING, /* its own key and the one before it are deleted */
    CV_ETCD_LEADING, /* its own key is deleted, or somebody asks it to resign */
    CV_ETCD_READING, /* anything */
};

/* One election as the server knows it, embedded in its store. Invariant: has_key only with a lease
 * and a key. */
struct cv_etcd_election {
    struct cv_etcd_election *next;
    struct cv_etcd_server *server;
    void *store;                  /* lent to `changed` and to those that wait for a lease */
    void (*changed)(void *store); /* may end the election */
    uint64_t label;

    char queue[CV_ETCD_KEY_BYTES];   /* what its keys begin with, the slash included */
    char request[CV_ETCD_KEY_BYTES]; /* the key by which others ask the holder to resign */
    char runs[CV_ETCD_KEY_BYTES];    /* the key with what is known of the runs of its job */

    char key[CV_ETCD_KEY_BYTES];   /* of the present attempt */
    bool has_key;                  /* it is claimed: it may be there, and shall be */
    struct cv_etcd_orphan *orphan; /* what becomes of the key when the election is closed */
    struct cv_etcd_lease *lease;   /* of the present attempt; NULL: none */

    uint64_t waits_for; /* number of the lease's call; 0: it waits for none */
    void (*lease_then)(void *store, enum cv_etcd_outcome outcome, const char *error);

    enum cv_etcd_interest interest;
    char before[CV_ETCD_KEY_BYTES]; /* WAITING: empty: not known, every deletion counts */
    bool has_changed;               /* to be told */
    /* Of the latest events in this election: a key of the queue was deleted, somebody was asked to
     * resign, anything. */
    int64_t deleted_revision, requested_revision, event_revision;
};

/* Finds or makes the server of an address. `election` is zero but for store and changed. */
CV_NODISCARD int cv__etcd_join(struct cv_etcd_election *election,
                               const struct cv_store_setting *setting, const void *kind,
                               struct cv_errtext *reterr);

/* The key, if it has one, is deleted when `granted_until_ns` has passed. The last one closes the
 * server, which frees itself on the loop. */
void cv__etcd_leave(struct cv_etcd_election *election, struct cv_shared_list *list,
                    int64_t granted_until_ns);

struct cv_etcd_wire *cv__etcd_wire_of(struct cv_etcd_election *election);

/* ---- Leases ---------------------------------------------------------------------------------- */

/* Chooses the lease for this length; false: out of memory. */
CV_NODISCARD bool cv__etcd_lease_use(struct cv_etcd_election *election, int64_t lease_ns);
/* Not needed any more: there is no key. */
void cv__etcd_lease_leave(struct cv_etcd_election *election);

int64_t cv__etcd_lease_id(const struct cv_etcd_election *election);
int64_t cv__etcd_lease_ttl_ns(const struct cv_etcd_election *election);
/* Proved so far; 0: nothing is. */
int64_t cv__etcd_lease_until_ns(const struct cv_etcd_election *election);

/* Goes on with `then` when the lease is there for at least half its length, at once if it is. */
void cv__etcd_lease_ensure(struct cv_etcd_election *election,
                           void (*then)(void *store, enum cv_etcd_outcome outcome,
                                        const char *error));
/* The same after a keep-alive, one for all that wait for it. The next linearizable answer may prove
 * it. */
void cv__etcd_lease_prolong(struct cv_etcd_election *election,
                            void (*then)(void *store, enum cv_etcd_outcome outcome,
                                         const char *error));
/* A linearizable answer came. */
void cv__etcd_lease_note(struct cv_etcd_election *election, const struct cv_etcd_answer *answer);

/* ---- Keys and events ------------------------------------------------------------------------- */

/* Deletes a key of ours, without an answer; what fails is found later. */
void cv__etcd_delete(struct cv_etcd_election *election, const char *key);

/* From now on, after a look at that revision. `before` for WAITING, NULL if it is not known. */
void cv__etcd_watch(struct cv_etcd_election *election, enum cv_etcd_interest interest,
                    const char *before, int64_t revision);

/* "{"key":..,"range_end":..," for all keys that begin with a text that ends with a slash. */
void cv__etcd_body_range(struct cv_etcd_body *body, const char *prefix);

#endif
