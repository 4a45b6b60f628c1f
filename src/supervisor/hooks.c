/* src/supervisor/hooks.c - see hooks.h. */
#include "supervisor/hooks.h"

#include "core/errors.h"
#include "os/clock.h"
#include "supervisor/child.h"
#include "supervisor/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define REASON_BYTES 64
#define FIFO_RETRY_NS NS_PER_S
#define LOOK_NS (20 * NS_PER_MS)
#define VARIABLES 6u

struct hook {
    const char *command;
    enum cv_hook_state state;
    uint64_t token;
    char reason[REASON_BYTES];
};

struct cv_hooks {
    struct cv_hooks_setting setting;
    struct cv_fifo fifo;
    int epoll_fd, timer_fd;
    bool has_state;
    enum cv_hook_state state;
    uint64_t token;
    struct cv_hooks_count count;

    pid_t pid; /* of the hook that runs; 0: none */
    int pid_fd;
    int64_t kill_ns;
    bool is_killed;
    uint32_t waiting_count;
    struct hook waiting[CV_HOOKS_WAITING_MAX]; /* the oldest first */
};

static const char *state_name(enum cv_hook_state state)
{
    static const char *const names[] = {
#define CV_HOOK_STATE_TEXT(name, text) text,
        CV_HOOK_STATE_MAP(CV_HOOK_STATE_TEXT)
#undef CV_HOOK_STATE_TEXT
    };
    CV_ASSERT(state < CV_HOOK_STATE_COUNT);
    return names[state];
}

/* ---- one hook -------------------------------------------------------------------------------- */

static void environment_free(char **variables)
{
    for (uint32_t i = 0; variables != NULL && i < VARIABLES; i++) {
        free(variables[i]);
    }
    free(variables);
}

static bool is_named(const char *variable, const char *name)
{
    const size_t bytes = strlen(name);
    return strncmp(variable, name, bytes) == 0 && variable[bytes] == '=';
}

static bool is_hidden(const char *const *hidden, const char *variable)
{
    while (hidden != NULL && *hidden != NULL && !is_named(variable, *hidden)) {
        hidden++;
    }
    return hidden != NULL && *hidden != NULL;
}

/* Our environment with the variables of a hook; NULL: no memory. The first `VARIABLES` entries are
 * allocated here and freed by environment_free(); the others point into our own environment. */
static char **environment(const struct cv_hooks *hooks, const struct hook *hook)
{
    static const char *const names[VARIABLES] = {"CONCLAVE_ELECTION",   "CONCLAVE_NODE",
                                                 "CONCLAVE_LEASE_FILE", "CONCLAVE_TOKEN",
                                                 "CONCLAVE_ROLE",       "CONCLAVE_REASON"};
    char token[24];
    (void)snprintf(token, sizeof token, "%" PRIu64, hook->token);
    const char *const values[VARIABLES] = {hooks->setting.election,   hooks->setting.node,
                                           hooks->setting.lease_path, token,
                                           state_name(hook->state),   hook->reason};
    size_t count = VARIABLES + 1;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        count++;
    }
    char **result = calloc(count, sizeof *result);
    bool is_complete = result != NULL;
    for (uint32_t i = 0; result != NULL && i < VARIABLES; i++) {
        const char *value = values[i] != NULL ? values[i] : "";
        if (asprintf(&result[i], "%s=%s", names[i], value) < 0) {
            result[i] = NULL;
            is_complete = false;
        }
    }
    size_t next = VARIABLES;
    for (char **at = environ; is_complete && at != NULL && *at != NULL; at++) {
        bool is_left_out = is_hidden(hooks->setting.hidden_variables, *at);
        for (uint32_t i = 0; i < VARIABLES; i++) {
            is_left_out |= is_named(*at, names[i]);
        }
        if (!is_left_out) {
            result[next++] = *at;
        }
    }
    if (!is_complete) {
        environment_free(result);
        return NULL;
    }
    return result;
}

/* posix_spawn() does not copy page tables as fork() does, so it is fast in a large process, too. */
static pid_t spawn(const char *command, char **variables)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none;
    sigset_t reset;
    pid_t pid = 0;
    char sh[] = "sh";
    char c[] = "-c";
    char *text = strdup(command);
    char *const argv[] = {sh, c, text, NULL};
    (void)sigemptyset(&none);
    (void)sigemptyset(&reset);
    (void)sigaddset(&reset, SIGPIPE);
    if (posix_spawnattr_init(&attributes) != 0) {
        free(text);
        return 0;
    }
    if (posix_spawn_file_actions_init(&actions) == 0) {
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
        (void)posix_spawnattr_setpgroup(&attributes, 0);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &reset);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (text == NULL ||
            posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv, variables) != 0) {
            pid = 0;
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)posix_spawnattr_destroy(&attributes);
    free(text);
    return pid;
}

static bool hook_start(struct cv_hooks *hooks, const struct hook *hook)
{
    CV_ASSERT(hooks->pid == 0);
    char **variables = cv__child_reserve(1) ? environment(hooks, hook) : NULL;
    hooks->pid = variables != NULL ? spawn(hook->command, variables) : 0;
    environment_free(variables);
    hooks->count.started++;
    if (hooks->pid == 0) {
        hooks->count.failed++;
        return false;
    }
    cv__child_claim(hooks->pid);
    hooks->pid_fd = (int)syscall(SYS_pidfd_open, hooks->pid, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = hooks->pid_fd};
    if (hooks->pid_fd >= 0) {
        (void)epoll_ctl(hooks->epoll_fd, EPOLL_CTL_ADD, hooks->pid_fd, &event);
    }
    hooks->is_killed = false;
    hooks->kill_ns = cv__clock_now_ns() + hooks->setting.timeout_ns;
    return true;
}

static void hook_kill(const struct cv_hooks *hooks)
{
    CV_ASSERT(hooks->pid > 0);
    (void)kill(-hooks->pid, SIGKILL); /* it is not reaped yet, so nobody else has this number */
}

/* True: the hook has ended. */
static bool hook_reap(struct cv_hooks *hooks, int how)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)hooks->pid, &info, WEXITED | how) != 0 || info.si_pid == 0) {
        return false;
    }
    hooks->count.failed += info.si_code != CLD_EXITED || info.si_status != 0;
    hooks->count.timed_out += hooks->is_killed;
    cv__child_disclaim(hooks->pid);
    hooks->pid = 0;
    if (hooks->pid_fd >= 0) {
        (void)close(hooks->pid_fd);
        hooks->pid_fd = -1;
    }
    return true;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void arm(struct cv_hooks *hooks)
{
    int64_t at_ns = INT64_MAX;
    if (hooks->pid != 0 && !hooks->is_killed) {
        at_ns = hooks->kill_ns;
    }
    if (hooks->pid != 0 && hooks->pid_fd < 0) { /* before Linux 5.3: check at intervals */
        at_ns = cv__min64(at_ns, cv__clock_now_ns() + LOOK_NS);
    }
    if (hooks->fifo.is_waiting) {
        at_ns = cv__min64(at_ns, cv__clock_now_ns() + FIFO_RETRY_NS);
    }
    cv__clock_arm(hooks->timer_fd, at_ns);
}

static void go_on(struct cv_hooks *hooks)
{
    while (hooks->pid == 0 && hooks->waiting_count > 0) {
        const struct hook next = hooks->waiting[0];
        hooks->waiting_count--;
        memmove(&hooks->waiting[0], &hooks->waiting[1], hooks->waiting_count * sizeof next);
        if (hook_start(hooks, &next)) {
            break;
        }
    }
    arm(hooks);
}

void cv__hooks_dispatch(struct cv_hooks *hooks)
{
    uint64_t ticks;
    if (read(hooks->timer_fd, &ticks, sizeof ticks) == (ssize_t)sizeof ticks) {
        cv__fifo_flush(&hooks->fifo);
    }
    if (hooks->pid != 0) {
        (void)hook_reap(hooks, WNOHANG);
    }
    if (hooks->pid != 0 && !hooks->is_killed && cv__clock_now_ns() >= hooks->kill_ns) {
        hooks->is_killed = true;
        hook_kill(hooks);
    }
    go_on(hooks);
}

static void enqueue(struct cv_hooks *hooks, const char *command, enum cv_hook_state state,
                    uint64_t token, const char *reason)
{
    if (command == NULL) {
        return;
    }
    if (hooks->waiting_count == CV_HOOKS_WAITING_MAX) {
        hooks->count.dropped++;
        hooks->waiting_count--;
        memmove(&hooks->waiting[0], &hooks->waiting[1],
                hooks->waiting_count * sizeof hooks->waiting[0]);
    }
    struct hook *hook = &hooks->waiting[hooks->waiting_count++];
    *hook = (struct hook){.command = command, .state = state, .token = token};
    (void)snprintf(hook->reason, sizeof hook->reason, "%s", reason);
}

void cv__hooks_change(struct cv_hooks *hooks, enum cv_hook_state state, uint64_t token,
                      const char *reason)
{
    const bool was_master = hooks->has_state && hooks->state == CV_HOOK_MASTER;
    const bool is_master = state == CV_HOOK_MASTER;
    if (hooks->has_state && hooks->state == state && (!is_master || hooks->token == token)) {
        return;
    }
    if (was_master) { /* if the next leadership is ours, `reason` says nothing about this end */
        enqueue(hooks, hooks->setting.on_lost, is_master ? CV_HOOK_BACKUP : state, hooks->token,
                is_master ? cv_reason_name(CV_REASON_GONE) : reason);
    }
    if (is_master) {
        enqueue(hooks, hooks->setting.on_elected, state, token, reason);
    }
    hooks->has_state = true;
    hooks->state = state;
    hooks->token = token;
    cv__fifo_write(&hooks->fifo, hooks->setting.election, state_name(state),
                   hooks->setting.priority);
    go_on(hooks);
}

bool cv__hooks_is_idle(const struct cv_hooks *hooks)
{
    return hooks->pid == 0 && hooks->waiting_count == 0;
}

struct cv_hooks_count cv__hooks_count(const struct cv_hooks *hooks)
{
    return hooks->count;
}

int cv__hooks_fd(const struct cv_hooks *hooks)
{
    return hooks->epoll_fd;
}

int cv__hooks_open(struct cv_hooks **ret_hooks, const struct cv_hooks_setting *setting,
                   struct cv_errtext *reterr)
{
    CV_ASSERT(setting->election != NULL);
    struct cv_hooks *hooks = calloc(1, sizeof *hooks);
    if (hooks == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory for the hooks");
    }
    int status = CV_OK;
    hooks->setting = *setting;
    hooks->setting.priority = setting->priority != 0 ? setting->priority : 100;
    hooks->setting.timeout_ns =
        setting->timeout_ns != 0 ? setting->timeout_ns : CV_HOOKS_TIMEOUT_NS;
    hooks->fifo.fd = -1;
    hooks->pid_fd = -1;
    hooks->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    hooks->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = hooks->timer_fd};
    if (hooks->epoll_fd < 0 || hooks->timer_fd < 0 ||
        epoll_ctl(hooks->epoll_fd, EPOLL_CTL_ADD, hooks->timer_fd, &event) != 0) {
        status = cv__fail(reterr, CV_E_IO, "cannot create descriptors for the hooks: %s",
                          strerror(errno));
    } else if (setting->fifo != NULL) {
        status = cv__fifo_open(&hooks->fifo, setting->fifo, reterr);
    }
    if (status != CV_OK) {
        cv__hooks_close(hooks);
        return status;
    }
    *ret_hooks = hooks;
    return CV_OK;
}

void cv__hooks_close(struct cv_hooks *hooks)
{
    if (hooks == NULL) {
        return;
    }
    if (hooks->pid != 0) {
        hook_kill(hooks);
        (void)hook_reap(hooks, /* how= */ 0);
    }
    cv__fifo_close(&hooks->fifo);
    if (hooks->timer_fd >= 0) {
        (void)close(hooks->timer_fd);
    }
    if (hooks->epoll_fd >= 0) {
        (void)close(hooks->epoll_fd);
    }
    free(hooks);
}
