/* src/stores/etcd_server.h - shared by all elections of a loop on one etcd cluster: few
 * connections, a few leases for each lease length, and one watch.
 *
 * **Leases.** A key that waits in a queue is under the *waiting lease* of its length (in whole
 * seconds, as the cluster counts), which is kept alive while any election uses it. A key that holds
 * its election is moved, with each renewal, to a *holding lease* that was granted a moment ago and
 * is never prolonged; elections that renew at about the same time share it. The next contender in a
 * queue has its key under one in advance, see etcd_ready.c. Lengths are not mixed: a key must not
 * outlive the length that its holder asked for, and a short lease would drop keys whose holder
 * asked for a long one.
 *
 * How long a lease protects the keys under it: for TTL since its grant was requested. Keep-alives
 * add nothing to that. A grant is a decision of the cluster: every member begins to count when it
 * learns of it, which is after our request [traps.md T3], and none revokes the lease before TTL
 * have passed on its own clock. A keep-alive is not a decision of the cluster. Only the member that
 * answered knows it, and that member may have been deposed without noticing [traps.md T7]. A former
 * leader that was stopped for a while revokes, when it goes on, leases that it did not see being
 * kept alive, and the cluster obeys (etcd#15247, also in Debian 12). It can then revoke only an old
 * lease, which no longer holds the key of a leader. If it is the waiting lease, keys lose their
 * place and are put again. A lease never counts for more than was requested, whatever the server
 * says. After a change of its leader the cluster restarts its leases [traps.md T27], which can only
 * make them end later.
 *
 * A shared lease must not keep keys that are no longer needed:
 *   - If an election does not renew its grant, the election itself ends it, see etcd.c.
 *   - The key of a closed election is deleted when its grant has run out, or at once if it had none
 *     (an orphan).
 *   - Other keys under the waiting lease without an election, for example a key whose `put` was
 *     carried out after the election had given up, are found by listing the lease's keys now and
 *     then, and deleted. Under a holding lease such a key ends with the lease.
 * If the process dies or hangs, its leases are not kept alive, and all its keys go [traps.md T6].
 *
 * **The watch.** One stream reports all keys below the prefix (or those of the only election), and
 * each election gets its own events. A stream begins at a revision. An election whose last read is
 * older than that, or older than an event before its registration, is told to read again. So no
 * event is missed.
 *
 * Time: a list of elections is walked for each event and each beat. Used on one loop only. */
#ifndef CV_STORES_ETCD_SERVER_H
#define CV_STORES_ETCD_SERVER_H

#include "stores/etcd_wire.h"

struct cv_etcd_lease;
struct cv_etcd_orphan;

enum cv_etcd_outcome { CV_ETCD_LEASE_ALIVE, CV_ETCD_LEASE_GONE, CV_ETCD_LEASE_FAILED };
typedef void (*cv_etcd_lease_then)(void *store, enum cv_etcd_outcome outcome, const char *error);

/* Which changes an election is told. */
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
    char note[CV_ETCD_KEY_BYTES];    /* the key that says how the latest leadership ended */

    char key[CV_ETCD_KEY_BYTES];   /* of the present attempt */
    bool has_key;                  /* we claim it: it exists, or was asked for */
    struct cv_etcd_orphan *orphan; /* what becomes of the key when the election is closed */
    struct cv_etcd_lease *lease;   /* those of its length, while there is an attempt; NULL: none */

    uint64_t waits_for; /* number of a lease's call; 0: it waits for none */
    cv_etcd_lease_then lease_then;

    enum cv_etcd_interest interest;
    char before[CV_ETCD_KEY_BYTES];    /* WAITING: empty: not known, every deletion counts */
    int64_t before_revision;           /* it was there at this revision ... */
    bool is_before_deleted;            /* ... and was deleted later */
    bool is_next;                      /* it will need a holding lease: one is kept ready */
    void (*hold_granted)(void *store); /* is_next: there is a new one; may not end the election */
    bool has_changed;                  /* to be told */
    /* Of the latest events in this election: a key of the queue was deleted, somebody was asked to
     * resign, anything. */
    int64_t deleted_revision, requested_revision, event_revision;
    int64_t own_deleted_revision; /* and our own key was deleted */
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

/* Chooses the leases of this length; false: out of memory. */
CV_NODISCARD bool cv__etcd_lease_use(struct cv_etcd_election *election, int64_t lease_ns);
/* The election needs it no longer: it has no key. */
void cv__etcd_lease_leave(struct cv_etcd_election *election);

int64_t cv__etcd_lease_ttl_ns(const struct cv_etcd_election *election);
/* Until when the lease of that id protects the keys under it; 0: it is not known to be ours. */
int64_t cv__etcd_until_ns(const struct cv_etcd_election *election, int64_t lease_id);

/* The waiting lease. */
int64_t cv__etcd_lease_id(const struct cv_etcd_election *election);
bool cv__etcd_lease_is_there(const struct cv_etcd_election *election); /* as far as is known */
/* Goes on with `then` when it is there for at least half its length, at once if it is. */
void cv__etcd_lease_ensure(struct cv_etcd_election *election, cv_etcd_lease_then then);
/* The same after a keep-alive, one for all that wait for it. */
void cv__etcd_lease_prolong(struct cv_etcd_election *election, cv_etcd_lease_then then);

/* From now on, until its interest changes, a holding lease is kept ready for this election: one
 * that was granted at most a third of its length ago, a bit more if the cluster is slow. */
void cv__etcd_hold_keep(struct cv_etcd_election *election);
/* How many elections of this server are next. */
uint32_t cv__etcd_next_count(const struct cv_etcd_election *election);
/* Is there one of which at least half is left? */
bool cv__etcd_hold_is_ready(const struct cv_etcd_election *election);

/* Goes on with `then` when there is a fresh holding lease, at once if there is. */
void cv__etcd_hold(struct cv_etcd_election *election, cv_etcd_lease_then then);
/* Asks for one if there is none, because it may be needed soon. */
void cv__etcd_hold_prepare(struct cv_etcd_election *election);
int64_t cv__etcd_hold_id(const struct cv_etcd_election *election);
/* The cluster does not know that one any more: the next holding lease is a new one. */
void cv__etcd_hold_drop(struct cv_etcd_election *election, int64_t lease_id);

/* ---- Keys and events ------------------------------------------------------------------------- */

/* Deletes the key of the present attempt, without an answer; if that fails, its lease ends it. */
void cv__etcd_delete(struct cv_etcd_election *election);

/* What this election is told from now on, after a look at that revision. `before` is for WAITING,
 * NULL if it is not known. */
void cv__etcd_watch(struct cv_etcd_election *election, enum cv_etcd_interest interest,
                    const char *before, int64_t revision);

/* Has the stream reported, in order, every event after that revision that it has come to? */
bool cv__etcd_has_told_since(const struct cv_etcd_election *election, int64_t revision);

/* Prints "key" and "range_end" for all keys that begin with this prefix, which ends with a
 * slash. */
void cv__etcd_body_range(struct cv_etcd_body *body, const char *prefix);

#endif
