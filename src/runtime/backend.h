/* src/runtime/backend.h - what runs an election: a store, or messages among the processes.
 *
 * One table for each family of addresses; backends.c lists them. A backend runs a core on the loop
 * of an engine's thread (host.h) and connects it to whatever it needs: a store, sockets, a
 * sequencer. All functions from open() on are called on that thread.
 *
 * An address decides which backend serves it, and its options may decide what that backend
 * promises: the protocol, the members and their ids, times. The caller that opens an election asks
 * for the contract first and refuses an address that promises too little. */
#ifndef CV_RUNTIME_BACKEND_H
#define CV_RUNTIME_BACKEND_H

#include <conclave/conclave.h>

#include <uv.h>

struct cv_shared_list;
struct cv_store_kind;
struct cv_timers;
struct cv_recorder;
struct cv_backend; /* each family has its own */

/* What an election at one address promises. */
struct cv_backend_contract {
    uint32_t promises;    /* CV_PROP bits */
    uint32_t assumes;     /* CV_ASSUME bits: what the promises rest on */
    const char *words;    /* for people: what a leader may rely on, or may not; a literal */
    bool has_lease;       /* a leadership ends by the clock: lease_ns and progress_ns apply */
    int64_t lease_ns;     /* not 0: the address sets it, and the caller cannot */
    int64_t lease_ns_max; /* where leases vary: lease_ns is the shortest; otherwise the same */
};

/* Texts are copied by open(). */
struct cv_backend_setting {
    uv_loop_t *loop;
    struct cv_shared_list *shared; /* the loop's connections to servers; see stores/shared.h */
    struct cv_timers *timers;      /* the loop's; see runtime/timers.h */
    const char *address;
    const char *election;
    const char *node;
    int64_t lease_ns;
    bool is_candidate;
    bool has_descendants;               /* that inherit a descriptor: see stores/store.h */
    const struct cv_recorder *recorder; /* of the core; lent until close(); NULL: none */

    /* Reports to the application. `leader` is a name, or empty; is_free: it is known that nobody
     * leads, mostly because the store has said so. */
    void *user;
    void (*told)(void *user, const struct cv_leadership *leadership, const char *leader,
                 bool is_free);
    /* Why an earlier leadership ended, if that is known; called before `told` if both change. */
    void (*ended)(void *user, uint64_t token, enum cv_reason why);
    void (*resign_requested)(void *user, const char *heir); /* heir may be empty */
    void (*trouble)(void *user, const char *line);          /* why it fails now; empty: it works */
    void (*log)(void *user, const char *line); /* something happened that is not a state */
    /* May a leadership be renewed? False: the application is stuck. */
    bool (*has_progress)(void *user);
};

struct cv_backend_kind {
    /* The schemes of its addresses; NULL after the last. serves() may accept other spellings. */
    const char *(*scheme_at)(uint32_t index);
    bool (*serves)(const char *address);
    /* Checks the address without using the network, and without any file except one that the
     * address names. CV_OK or CV_E_INVALID. */
    int (*contract)(const char *address, struct cv_backend_contract *ret_contract,
                    struct cv_errtext *reterr);
    /* Not NULL: the address defines the names. Finds the wanted one; `wanted` is NULL: the one that
     * belongs to this host. CV_OK or CV_E_INVALID. */
    int (*name)(const char *address, const char *wanted, char ret_node[CV_NODE_BYTES],
                struct cv_errtext *reterr);
    int (*open)(struct cv_backend **ret_backend, const struct cv_backend_setting *setting,
                struct cv_errtext *reterr);
    /* The name by which the others know this process. */
    const char *(*self)(const struct cv_backend *backend);
    void (*campaign)(struct cv_backend *backend, bool is_candidate);
    /* `why` is recorded, for the history. */
    void (*resign)(struct cv_backend *backend, const char *heir, enum cv_reason why);
    /* Asks the leader, whichever process it is, to resign; heir may be NULL. */
    void (*request_resign)(struct cv_backend *backend, const char *heir);
    void (*report)(struct cv_backend *backend, enum cv_input input, int64_t value);
    /* True: the others know of the last resignation, or there was none. */
    bool (*is_released)(const struct cv_backend *backend);
    /* A descriptor for the leader's descendants to inherit (see stores/store.h), or -1. */
    int (*inherit)(struct cv_backend *backend);
    void (*close)(struct cv_backend *backend, void (*closed)(void *user), void *user);
};

extern const struct cv_backend_kind cv__backend_lease; /* every address of stores/store.h */
extern const struct cv_backend_kind cv__backend_multicast;
extern const struct cv_backend_kind cv__backend_peers;

/* Finds the backend of an address and what it promises there. CV_E_INVALID: no backend serves the
 * address, something in it is wrong, or it does not promise at-most-one-leader and the caller does
 * not accept that. */
CV_NODISCARD int cv__backend_find(const char *address, bool accepts_two_leaders,
                                  const struct cv_backend_kind **ret_kind,
                                  struct cv_backend_contract *ret_contract,
                                  struct cv_errtext *reterr);

/* CV_OK, or CV_E_INVALID: elections in this kind of store take no such lease. */
CV_NODISCARD int cv__backend_check_lease(const struct cv_store_kind *kind, int64_t lease_ns,
                                         struct cv_errtext *reterr);

/* The name by which the others will know this process: see `name` above. If the address defines no
 * names: `wanted`, if it is a valid name; NULL: host name and process id. CV_OK or CV_E_INVALID. */
CV_NODISCARD int cv__backend_name(const char *address, const char *wanted,
                                  char ret_node[CV_NODE_BYTES], struct cv_errtext *reterr);

#endif
