/* src/stores/store.h - a store keeps one record for each election: its holder and its end.
 *
 * One table of functions for each kind of store, found by the scheme of an address; `conclave
 * stores` lists them. All of them are asynchronous: ask() returns at once and the answer comes on
 * the loop, through `answered`, never from within ask(). Requests of one store are answered in any
 * order, at most once each. A request that can no longer be answered is answered FAILED, unless
 * the store is closed first or a later request of the same verb replaces it before it was begun.
 *
 * The duties of a store to the core (src/protocols/lease.c), whatever happens to network and
 * server:
 *
 *   exclusive   between two GRANTED answers to different holders or attempts, the first one's time
 *               is over: RELEASE was asked by it, or the duration of its last GRANTED answer has
 *               passed since that request was made. A store errs on the late side.
 *   growing     the token of each new grant is larger than all before it, even after the record was
 *               deleted, the server was restarted or the store was put back into use.
 *   idempotent  repeating an attempt of the same holder gives the same grant with the same token: a
 *               lost answer leaves nothing behind.
 *   its lease   the lease length that the holder asked for is stored and counts, whatever lengths
 *               the other contenders use.
 *
 * RELEASE is answered FREE even if another contender holds the election: this one does not. A store
 * with a queue answers HELD with the contender that is first now, so that one that resigned knows
 * its successor. An attempt that was granted and is no longer held need not be granted again: then
 * ACQUIRE is answered FREE, and the core goes on to its next attempt. A notification that comes
 * during a request may be reported after its answer.
 *
 * A store is used from one thread, that of its loop. */
#ifndef CV_STORES_STORE_H
#define CV_STORES_STORE_H

#include "core/types.h"

#include "stores/shared.h"

#include <conclave/conclave.h>

#include <stdio.h>
#include <uv.h>

/* A name is 1..255 bytes of UTF-8 without control characters. */
bool cv__store_election_is_valid(const char *name);

#define CV_STORE_VERSION_BYTES 16 /* of a version of this library, as text */

/* How a leadership ended, as a store reports it. */
struct cv_store_end {
    uint64_t token;           /* of that leadership; 0: nothing is known */
    enum cv_reason why;       /* CV_REASON_STARTED: not known */
    int64_t wall_ns;          /* CLOCK_REALTIME; 0: not known */
    char node[CV_NODE_BYTES]; /* its leader */
};

/* What the record says. Wall-clock times are for people only. */
struct cv_store_record {
    char node[CV_NODE_BYTES]; /* the holder's name; empty: nobody holds it */
    uint64_t label;           /* the nonce of the holder's start */
    uint64_t token;           /* of the current holder, or of the last one; 0: none ever */
    int64_t lease_ns;         /* what it asked for */
    int64_t remaining_ns;     /* by the store's clock, when it answered; may be negative */
    int64_t since_wall_ns;    /* CLOCK_REALTIME, when it was acquired; 0: not known */
    /* The holder was asked to resign in favour of this node; "*": of any node; empty: it was not
     * asked. */
    char resign_request[CV_NODE_BYTES];
    enum cv_reason ended; /* nobody holds it: why; CV_REASON_STARTED: not known */
    /* READ: nobody holds it, and nobody released it: CLOCK_REALTIME when the lease ended; 0: not
     * known. For people. */
    int64_t ended_wall_ns;
    /* READ: of the holder's library, e.g. "0.1.0"; empty: not known. For people. */
    char version[CV_STORE_VERSION_BYTES];
    /* The latest ended leadership that the store knows of, if its answer contains one. It need not
     * be the one just before the current one. */
    struct cv_store_end last;
};

/* What is kept beside the record of an election: a text about the runs of its job (runtime/runs.h),
 * which only the holder may change. `version` is that of the text that was read (0: there was
 * none), so that a copy of an earlier request that arrives late changes nothing. */
#define CV_STORE_RUNS_BYTES 4096
struct cv_store_runs {
    uint64_t token; /* 0: to read; otherwise to write, if this leadership holds the election */
    uint64_t version;
    char text[CV_STORE_RUNS_BYTES];
};

/* A list that a store is asked for. If the store has a queue, waiting contenders are in its
 * order. */
enum cv_store_listing {
    CV_STORE_LIST_WAITING, /* contenders of the election that do not hold it */
    CV_STORE_LIST_NAMES,   /* all elections of the address */
};

#define CV_STORE_LIST_MAX 256
struct cv_store_list {
    enum cv_store_listing of;
    bool is_cut;     /* there are more */
    bool is_partial; /* WAITING: others may wait that the store does not know of */
    uint32_t count;
    struct cv_store_listed {
        char name[CV_ELECTION_BYTES]; /* of a node, or of an election */
        int64_t since_wall_ns;        /* WAITING: since then; 0: not known */
        /* WAITING in a queue: `since_wall_ns` of the record while this contender is the first and
         * has not taken over; 0: there is no queue. */
        int64_t queued_wall_ns;
        /* WAITING: as in the record. */
        char version[CV_STORE_VERSION_BYTES];
    } entry[CV_STORE_LIST_MAX];
};

static inline void cv__store_list_add(struct cv_store_list *list, const char *name,
                                      int64_t since_wall_ns, const char *version)
{
    if (list->count == CV_STORE_LIST_MAX) {
        list->is_cut = true;
        return;
    }
    struct cv_store_listed *last = &list->entry[list->count++];
    (void)snprintf(last->name, sizeof last->name, "%s", name);
    last->since_wall_ns = since_wall_ns;
    last->queued_wall_ns = 0;
    (void)snprintf(last->version, sizeof last->version, "%s", version);
}

static inline void cv__store_list_add_queued(struct cv_store_list *list, int64_t since_wall_ns,
                                             const struct cv_store_record *record, const char *node)
{
    cv__store_list_add(list, node, since_wall_ns, record->version);
    if (!list->is_cut) {
        list->entry[list->count - 1].queued_wall_ns = record->since_wall_ns;
    }
}

struct cv_store_request {
    enum cv_store_verb verb;
    uint64_t request; /* never 0 */
    uint64_t attempt;
    uint64_t token;
    int64_t lease_ns;
    const char *heir; /* RELEASE: the requested successor; NULL: the first that comes */
    /* RELEASE: why, for others and for the audit trail; CV_REASON_STARTED: it resigned. ACQUIRE:
     * why the leadership of an earlier attempt was lost; CV_REASON_STARTED: that is not known. */
    enum cv_reason reason;
    /* Only within a store: what runs(), list() and forget() were asked for. */
    struct cv_store_runs *runs;
    struct cv_store_list *list;
    bool forgets;
};

struct cv_store_answer {
    uint64_t request; /* 0: a notification (CV_STORE_CHANGED) */
    enum cv_store_verdict verdict;
    uint64_t token;
    uint64_t holder;
    int64_t duration_ns;
    const struct cv_store_record *record; /* lent; NULL: not known */
    const char *why;                      /* FAILED: one line; lent */
};

/* Everything that a store needs to know of its user. Texts are copied by open(). */
struct cv_store_setting {
    uv_loop_t *loop;
    struct cv_shared_list *shared; /* the loop's connections; outlives the store */
    const char *address;           /* whole, with the scheme */
    const char *election;          /* valid by cv__store_election_is_valid() */
    const char *node;    /* a name for people, e.g. host and process id; fits CV_NODE_BYTES */
    uint64_t label;      /* unique for each start of each process, and never 0 */
    const char *version; /* of this library, for others to see; NULL: it is not published */
    /* A command that asks once waits this long for the answer, so connecting may take nearly as
     * long. 0: it takes part in an election, and asks again soon. */
    uint32_t patience_ms;
    /* Only the address is looked at: files and passwords that it needs may be missing here. */
    bool needs_no_secrets;
    /* The holder's descendants inherit a descriptor (see `inherit`), and its leadership is not over
     * before they are gone, too. */
    bool has_descendants;
    void (*answered)(void *user, const struct cv_store_answer *answer);
    /* A line for the operator about something that is not a failure, e.g. a bad configuration. May
     * be called from within open(); may be NULL. */
    void (*log)(void *user, const char *line);
    void *user;
};

struct cv_store; /* each kind has its own */

/* One past leadership. */
struct cv_store_past {
    char node[CV_NODE_BYTES];
    uint64_t token;
    int64_t from_wall_ns, to_wall_ns; /* to: 0 while it lasts */
    int64_t alive_wall_ns;            /* it was last renewed then; 0: not known, or it resigned */
    char why[32];                     /* a cv_reason_name(); empty while it lasts */
};

struct cv_store_kind {
    const char *scheme;        /* "sqlite" */
    const char *summary;       /* one line for lists */
    const char *example;       /* an address */
    const char *clock;         /* whose clock decides that a lease is over */
    const char *notifications; /* how others learn of a release or a death */
    int64_t lease_ns_min;      /* shorter ones are refused */
    int64_t lease_ns_step;     /* the server rounds up to a multiple of this */
    /* Servers with default settings change shorter and longer leases to these; 0: they do not. */
    int64_t usual_lease_ns_min, usual_lease_ns_max;
    int64_t grant_percent; /* a grant lasts for about this part of the requested lease */
    bool counts_anew; /* when the servers elect a new leader of theirs, each lease starts again */
    bool hides_rest;  /* the server does not report what is left of a lease: at most all of it */

    /* Checks the address and prepares; does not wait for a server. */
    int (*open)(struct cv_store **ret_store, const struct cv_store_setting *setting,
                struct cv_errtext *reterr);
    void (*ask)(struct cv_store *store, const struct cv_store_request *request);
    /* Asks the holder to resign, in favour of `heir` (NULL: of any node). Answered FREE if nobody
     * holds it, HELD when the request was left for the holder, or FAILED. */
    void (*request_resign)(struct cv_store *store, uint64_t request, const char *heir);
    /* Reads or writes the text about runs, which is lent until the answer. GRANTED: done (reading
     * fills in version and text). A write is refused with HELD if that token does not hold the
     * election, and with CHANGED if the text has changed since that version. No other leadership
     * can begin between the check and the write. */
    void (*runs)(struct cv_store *store, uint64_t request, struct cv_store_runs *runs);
    /* Fills in a list, which is lent until the answer: GRANTED, or FAILED. */
    void (*list)(struct cv_store *store, uint64_t request, struct cv_store_list *list);
    /* Removes the election and its history: GRANTED. HELD: a contender holds it, or waits
     * in a queue of the store, and nothing was removed. Tokens do not go back: those of a new
     * election of the same name are larger, too. */
    void (*forget)(struct cv_store *store, uint64_t request);
    /* Does not release; no answer comes after it. The loop calls `closed`, and the store is
     * gone. */
    void (*close)(struct cv_store *store, void (*closed)(void *user), void *user);

    /* A descriptor for all descendants of the holder to inherit (has_descendants): when the last
     * copy is closed, the others know that holder and descendants are gone. -1 or NULL: none. */
    int (*inherit)(struct cv_store *store);

    /* These wait for the server, and are for commands only. NULL: there is nothing to do. */
    int (*create)(const char *address, struct cv_errtext *reterr);
    /* Was it prepared by an earlier version, which made less? All works, but not as well. */
    int (*look_for_gaps)(const char *address, bool *ret_has_gaps, struct cv_errtext *reterr);
    int (*history)(const char *address, const char *election,
                   void (*past)(void *user, const struct cv_store_past *past), void *user,
                   struct cv_errtext *reterr);
    /* Every election that the store knows of; NULL: use list(). */
    int (*names)(const char *address, void (*name)(void *user, const char *name), void *user,
                 struct cv_errtext *reterr);
};

/* The kind for an address, or NULL. cv__store_at() walks all of them: NULL after the last. Both
 * load the kind's module if it has one; cv__store_scheme_at() gives the names without that. */
const struct cv_store_kind *cv__store_find(const char *address);
const struct cv_store_kind *cv__store_at(uint32_t index);
const char *cv__store_scheme_at(uint32_t index);
bool cv__store_serves(const char *address);

/* How long a leader may lead after a renewal. What the server rounds up is not used. */
int64_t cv__store_grant_ns(const struct cv_store_kind *kind, int64_t lease_ns);

#endif
