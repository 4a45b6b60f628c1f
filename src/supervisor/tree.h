/* src/supervisor/tree.h - all descendants of a process, and signals for them.
 *
 * The kernel has no call for "this process and everything below it", so we read the tree from
 * /proc. While we read, processes fork and end, so a list is right only for one instant. This is
 * enough: the root is a subreaper, so no process leaves the tree, and the caller repeats until
 * waitid() reports that the root has no child left.
 *
 * A process id may be used again between the list and the signal. A signal therefore goes through a
 * pidfd, after a check that the process behind it still has the same parent. */
#ifndef CV_SUPERVISOR_TREE_H
#define CV_SUPERVISOR_TREE_H

#include "core/types.h"

#include <sys/types.h>

/* If there are more, the next list finds them: the first ones are dead by then. */
#define CV_TREE_MAX 8192u

struct cv_tree {
    pid_t root;
    uint32_t count;
    bool is_cut; /* there are more */
    struct cv_tree_entry {
        pid_t pid;
        pid_t parent;
    } entry[CV_TREE_MAX];
};

struct cv_process_stat {
    char state; /* R S D T t Z X I */
    pid_t parent;
    pid_t group;
};

/* Reads the line of /proc/PID/stat. The name in it may contain anything, even ") R 1". */
bool cv__process_stat_parse(const char *line, struct cv_process_stat *ret_stat);

/* Children of `root` for which is_foreign() says true are left out with everything below them;
 * NULL: none is. */
void cv__tree_collect(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid));

/* Only the children, not what is below them. */
void cv__tree_collect_children(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid));

/* The same as cv__tree_collect() by reading all of /proc, for kernels without
 * /proc/PID/task/TID/children. */
void cv__tree_collect_slowly(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid));

/* Signals all processes of the list, except those in the process group `except_group` (0: none). */
void cv__tree_signal(const struct cv_tree *tree, int signo, pid_t except_group);

/* Stops all, round after round until none is found running, then kills all. This is for processes
 * that fork faster than they can be killed: a killed process makes room for another one, a stopped
 * one does not. */
void cv__tree_freeze_and_kill(struct cv_tree *tree, pid_t root, bool (*is_foreign)(pid_t pid));

/* A killed process needs CPU time once more, to die, and on a busy machine it waits for it. If we
 * are allowed to, this raises its priority. */
void cv__tree_hurry(pid_t pid);

#endif
