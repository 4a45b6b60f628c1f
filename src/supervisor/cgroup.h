/* src/supervisor/cgroup.h - a control group for the command, if one can be created.
 *
 * The kernel kills a whole group at once (cgroup.kill, Linux 5.14), including processes that are
 * just being forked. The group is optional: without permission, without cgroup v2 or with an older
 * kernel, the guard walks the tree instead. Only one thing needs the group: it finds processes
 * whose supervisor and guard were killed together. The next guard below the same group kills them
 * before its command starts. No controllers are used, so nothing is limited or accounted
 * differently. */
#ifndef CV_SUPERVISOR_CGROUP_H
#define CV_SUPERVISOR_CGROUP_H

#include "core/types.h"

#include <sys/types.h>

#define CV_CGROUP_PATH_BYTES 1024

/* path is empty and the descriptors are -1 if there is none. */
struct cv_cgroup {
    char path[CV_CGROUP_PATH_BYTES];
    int folder_fd;
    int kill_fd;
};

#define CV_CGROUP_NONE ((struct cv_cgroup){.folder_fd = -1, .kill_fd = -1})

/* Creates a group below the caller's own, named after `guard` and locked while the guard lives.
 * CV_CGROUP_NONE if that is not possible, or if the kernel would kill processes started in it. */
struct cv_cgroup cv__cgroup_make(pid_t guard);
/* fork(), into the group if there is one: moving a process later would cost milliseconds. */
pid_t cv__cgroup_fork(const struct cv_cgroup *cgroup);
/* Kills the processes in this user's groups beside `own` whose guards are dead, and removes these
 * groups. Such a process has outlived its guard and must not run, whichever election it was for.
 * Waits until they are gone, at most a second for each group. */
void cv__cgroup_end_others(const struct cv_cgroup *own);
/* The group that `guard` made, for the process that takes over the guard's work. */
struct cv_cgroup cv__cgroup_find(pid_t guard);
void cv__cgroup_kill(const struct cv_cgroup *cgroup);
/* Removes the group if it is empty, and closes the descriptors. */
void cv__cgroup_remove(struct cv_cgroup *cgroup);

/* Finds the folder of a process's group from the texts of /proc/PID/cgroup and /proc/PID/mountinfo;
 * false if there is none, or it is outside of what is mounted. Public for tests. */
bool cv__cgroup_locate(const char *cgroup_text, const char *mountinfo_text,
                       char ret_path[CV_CGROUP_PATH_BYTES]);

#endif
