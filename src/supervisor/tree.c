/* src/supervisor/tree.c - see tree.h. */
#include "supervisor/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES 64
#define FREEZE_ROUNDS_MAX 16

static ssize_t read_file(const char *path, char *buffer, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got;
    do {
        got = read(fd, buffer, bytes - 1);
    } while (got < 0 && errno == EINTR);
    (void)close(fd); /* only read */
    if (got >= 0) {
        buffer[got] = '\0';
    }
    return got;
}

bool cv__process_stat_parse(const char *line, struct cv_process_stat *ret_stat)
{
    const char *at = strrchr(line, ')');
    char state;
    int parent;
    int group;
    if (at == NULL || sscanf(at + 1, " %c %d %d", &state, &parent, &group) != 3) {
        return false;
    }
    *ret_stat = (struct cv_process_stat){.state = state, .parent = parent, .group = group};
    return true;
}

/* False: there is no such process any more. */
static bool process_stat(pid_t pid, struct cv_process_stat *ret_stat)
{
    char path[PATH_BYTES];
    char line[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return read_file(path, line, sizeof line) > 0 && cv__process_stat_parse(line, ret_stat);
}

static void tree_add(struct cv_tree *tree, pid_t pid, pid_t parent)
{
    if (tree->count == CV_TREE_MAX) {
        tree->is_cut = true;
        return;
    }
    tree->entry[tree->count++] = (struct cv_tree_entry){.pid = pid, .parent = parent};
}

/* The children that one thread has started (or adopted). */
static void add_children_of_thread(struct cv_tree *tree, pid_t pid, const char *tid,
                                   bool (*is_foreign)(pid_t pid))
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return; /* it is gone, as below */
    }
    char buffer[4096];
    pid_t number = 0; /* may be cut in two by the end of a buffer */
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (buffer[i] >= '0' && buffer[i] <= '9') {
                number = number * 10 + (buffer[i] - '0');
            } else if (number != 0) {
                if (is_foreign == NULL || !is_foreign(number)) {
                    tree_add(tree, number, pid);
                }
                number = 0;
            }
        }
    }
    (void)close(fd); /* only read */
}

static void add_children(struct cv_tree *tree, pid_t pid, bool (*is_foreign)(pid_t pid))
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return; /* it is gone; its children are the root's now, and found by the next list */
    }
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            add_children_of_thread(tree, pid, entry->d_name, is_foreign);
        }
    }
    (void)closedir(folder); /* only read */
}

static bool kernel_lists_children(void)
{
    static int known = -1; /* a fact about the kernel, the same for all threads */
    if (known < 0) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
        known = access(path, R_OK) == 0;
    }
    return known;
}

static void tree_clear(struct cv_tree *tree, pid_t root)
{
    tree->root = root;
    tree->count = 0;
    tree->is_cut = false;
}

void cv__tree_collect(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid))
{
    if (!kernel_lists_children()) {
        cv__tree_collect_slowly(tree, root, is_foreign);
        return;
    }
    tree_clear(tree, root);
    add_children(tree, root, is_foreign);
    for (uint32_t i = 0; i < tree->count; i++) {
        add_children(tree, tree->entry[i].pid, NULL);
    }
}

static bool tree_has(const struct cv_tree *tree, pid_t pid)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        if (tree->entry[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* Adds those whose parent is in the list already; returns whether there was any. */
static bool add_from_proc(struct cv_tree *tree, bool (*is_foreign)(pid_t pid))
{
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return false;
    }
    const uint32_t count_before = tree->count;
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        const pid_t pid = (pid_t)atoi(entry->d_name);
        struct cv_process_stat stat;
        if (pid <= 0 || tree_has(tree, pid) || !process_stat(pid, &stat)) {
            continue;
        }
        const bool is_child = stat.parent == tree->root;
        if (is_child ? is_foreign == NULL || !is_foreign(pid) : tree_has(tree, stat.parent)) {
            tree_add(tree, pid, stat.parent);
        }
    }
    (void)closedir(proc); /* only read */
    return tree->count > count_before;
}

void cv__tree_collect_slowly(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid))
{
    tree_clear(tree, root);
    while (add_from_proc(tree, is_foreign)) {
        /* once for each generation */
    }
}

void cv__tree_collect_children(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid))
{
    tree_clear(tree, root);
    if (kernel_lists_children()) {
        add_children(tree, root, is_foreign);
    } else {
        (void)add_from_proc(tree, is_foreign); /* some of the next generation too: no harm */
    }
}

void cv__tree_hurry(pid_t pid)
{
    const struct sched_param first = {.sched_priority = 1};
    (void)sched_setscheduler(pid, SCHED_RR, &first);
}

/* True: it got the signal, and was neither stopped nor dead before. */
static bool entry_signal(const struct cv_tree *tree, const struct cv_tree_entry *entry, int signo,
                         pid_t except_group)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, entry->pid, 0);
    if (pidfd < 0 && errno != ENOSYS && errno != EMFILE && errno != ENFILE) {
        return false; /* it is gone */
    }
    struct cv_process_stat stat;
    bool is_sent = false;
    if (process_stat(entry->pid, &stat) &&
        (stat.parent == entry->parent || stat.parent == tree->root) &&
        (except_group == 0 || stat.group != except_group)) {
        /* Without pidfds (before Linux 5.3, or no descriptor left) the pid may be another's. */
        const int failed = pidfd >= 0 ? (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0)
                                      : kill(entry->pid, signo);
        if (signo == SIGKILL && failed == 0) {
            cv__tree_hurry(entry->pid);
        }
        is_sent = failed == 0 && strchr("TtZX", stat.state) == NULL;
    }
    if (pidfd >= 0) {
        (void)close(pidfd);
    }
    return is_sent;
}

void cv__tree_signal(const struct cv_tree *tree, int signo, pid_t except_group)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        (void)entry_signal(tree, &tree->entry[i], signo, except_group);
    }
}

void cv__tree_freeze_and_kill(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid))
{
    for (int round = 0; round < FREEZE_ROUNDS_MAX; round++) {
        uint32_t stopped_count = 0;
        cv__tree_collect(tree, root, is_foreign);
        for (uint32_t i = 0; i < tree->count; i++) {
            stopped_count += entry_signal(tree, &tree->entry[i], SIGSTOP, 0);
        }
        if (stopped_count == 0) {
            break;
        }
    }
    cv__tree_signal(tree, SIGKILL, 0);
}
