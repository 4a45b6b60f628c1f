/* src/runtime/backend.h - what an election is held with: a store, a network, a sequencer.
 *
 * One table for each family of addresses. A backend runs a core on the loop of the election's
 * thread (host.h) and gives it what it needs. All functions are called on that thread. */
#ifndef CV_RUNTIME_BACKEND_H
#define CV_RUNTIME_BACKEND_H

#include <conclave/conclave.h>

#include <uv.h>

struct cv_shared_list;
struct cv_backend; /* each family has its own */

/* Texts are copied by open(). */
struct cv_backend_setting {
    uv_loop_t *loop;
    struct cv_shared_list *shared; /* the loop's connections to servers; see stores/shared.h */
    const char *address;
    const char *election;
    const char *node;
    int64_t lease_ns;
    bool is_candidate;

    /* What the application hears of. `leader` is a name, or empty. */
    void *user;
    void (*told)(void *user, const struct cv_leadership *leadership, const char *leader);
    void (*wished)(void *user, const char *heir);  /* to the leader: resign; heir may be empty */
    void (*trouble)(void *user, const char *line); /* empty: it is over */
    /* May a leadership be prolonged, or sought? False: the application is stuck. */
    bool (*has_progress)(void *user);
};

struct cv_backend_kind {
    bool (*serves)(const char *address);
    int (*open)(struct cv_backend **ret_backend, const struct cv_backend_setting *setting,
                struct cv_errtext *reterr);
    void (*campaign)(struct cv_backend *backend, bool is_candidate);
    void (*resign)(struct cv_backend *backend, const char *heir);
    void (*wish)(struct cv_backend *backend, const char *heir);
    void (*report)(struct cv_backend *backend, enum cv_input input, int64_t value);
    /* The others know of the last resignation, or nothing had to be said. */
    bool (*is_released)(const struct cv_backend *backend);
    /* A descriptor for the leader's descendants to inherit (see stores/store.h), or -1. */
    int (*inherit)(struct cv_backend *backend);
    void (*close)(struct cv_backend *backend, void (*closed)(void *user), void *user);
};

extern const struct cv_backend_kind cv__backend_lease; /* every address of stores/store.h */

#endif
