/* src/supervisor/hooks.h - runs commands and writes to a FIFO when the leadership changes.
 *
 * Hooks run through /bin/sh -c, one after the other, in the order of the changes. Neither the
 * protocol nor the command waits for them. After `timeout_ns` the process group of a hook is
 * killed. At most CV_HOOKS_WAITING_MAX wait; if there are more, the oldest is dropped and counted,
 * so the hook for the latest change always runs.
 *
 * A hook gets /dev/null as standard input, this process's output, and in its environment
 *   CONCLAVE_ELECTION, CONCLAVE_NODE, CONCLAVE_LEASE_FILE   as the command does
 *   CONCLAVE_TOKEN    of the leadership that began or ended
 *   CONCLAVE_ROLE     MASTER, BACKUP, FAULT or STOP: keepalived's words
 *   CONCLAVE_REASON   why, one word: a cv_reason_name()
 *
 * It is not part of the command's tree and may outlive the leadership, so work that must stop with
 * the leadership belongs in the command.
 *
 * How to use it: poll fd() for reading and call dispatch(), as for the supervisor. */
#ifndef CV_SUPERVISOR_HOOKS_H
#define CV_SUPERVISOR_HOOKS_H

#include "core/types.h"

#define CV_HOOKS_WAITING_MAX 16u
#define CV_HOOKS_TIMEOUT_NS (30 * NS_PER_S)

#define CV_HOOK_STATE_MAP(X)                                \
    X(BACKUP, "BACKUP") /* takes part, and does not lead */ \
    X(MASTER, "MASTER") /* leads */                         \
    X(FAULT, "FAULT")   /* cannot take part */              \
    X(STOP, "STOP")     /* takes no part any more */

enum cv_hook_state {
#define CV_HOOK_STATE_ENUM(name, text) CV_HOOK_##name,
    CV_HOOK_STATE_MAP(CV_HOOK_STATE_ENUM)
#undef CV_HOOK_STATE_ENUM
        CV_HOOK_STATE_COUNT
};

/* Texts are lent until close(); each may be NULL. */
struct cv_hooks_setting {
    const char *on_elected; /* run on a change to MASTER */
    const char *on_lost;    /* run on a change from MASTER */
    const char *fifo;       /* gets a line for every change */
    const char *election, *node, *lease_path;
    const char *const *hidden_variables; /* as in struct cv_supervisor_setting */
    uint32_t priority;                   /* for the FIFO; 0: 100 */
    int64_t timeout_ns;                  /* 0: CV_HOOKS_TIMEOUT_NS */
};

struct cv_hooks_count {
    uint64_t started;
    uint64_t failed;    /* ended with another status than 0, or could not be started */
    uint64_t timed_out; /* of the failed */
    uint64_t dropped;   /* not started, because too many were waiting */
};

struct cv_hooks;

CV_NODISCARD int cv__hooks_open(struct cv_hooks **ret_hooks, const struct cv_hooks_setting *setting,
                                struct cv_errtext *reterr);
int cv__hooks_fd(const struct cv_hooks *hooks);
void cv__hooks_dispatch(struct cv_hooks *hooks);

/* Runs the hooks and writes the line for this change. The first call is a change; the same state
 * with the same token again is not. From MASTER to MASTER with another token, `on_lost` gets BACKUP
 * and the reason `gone`: the caller has not said why the earlier leadership ended. */
void cv__hooks_change(struct cv_hooks *hooks, enum cv_hook_state state, uint64_t token,
                      const char *reason);

/* No hook runs or waits. */
bool cv__hooks_is_idle(const struct cv_hooks *hooks);
struct cv_hooks_count cv__hooks_count(const struct cv_hooks *hooks);

/* Kills the hook that runs, and forgets those that wait. NULL is fine. */
void cv__hooks_close(struct cv_hooks *hooks);

#endif
