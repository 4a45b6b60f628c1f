/* src/supervisor/cgroup.c - see cgroup.h. */
#include "supervisor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES 65536
#define GROUP_PREFIX "conclave-run." /* earlier versions: "conclave.", and not locked */
#define MAKE_ROUNDS_MAX 3
/* How long to wait until killed processes are gone. If it takes longer, they are stuck in the
 * kernel. */
#define EMPTY_MS_MAX 1000

/* The line of cgroup v2 is "0::PATH". */
static bool own_path(const char *text, char ret_path[CV_CGROUP_PATH_BYTES])
{
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        const size_t bytes = end != NULL ? (size_t)(end - line) : strlen(line);
        if (bytes > 3 && strncmp(line, "0::", 3) == 0 && bytes - 3 < CV_CGROUP_PATH_BYTES) {
            memcpy(ret_path, line + 3, bytes - 3);
            ret_path[bytes - 3] = '\0';
            return true;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

/* "36 35 98:0 /root /mount/point rw,... - cgroup2 cgroup2 rw"; odd characters are octal escapes,
 * which we do not decode: then the folder is not found, and no group is used. */
static bool mount_of_line(const char *line, char ret_root[CV_CGROUP_PATH_BYTES],
                          char ret_mount[CV_CGROUP_PATH_BYTES])
{
    const char *dash = strstr(line, " - ");
    const char *end = strchr(line, '\n');
    return dash != NULL && (end == NULL || dash < end) && strncmp(dash, " - cgroup2 ", 11) == 0 &&
           sscanf(line, "%*d %*d %*s %1023s %1023s", ret_root, ret_mount) == 2;
}

bool cv__cgroup_locate(const char *cgroup_text, const char *mountinfo_text,
                       char ret_path[CV_CGROUP_PATH_BYTES])
{
    char own[CV_CGROUP_PATH_BYTES];
    char root[CV_CGROUP_PATH_BYTES];
    char mount[CV_CGROUP_PATH_BYTES];
    if (!own_path(cgroup_text, own)) {
        return false;
    }
    for (const char *line = mountinfo_text; line != NULL && *line != '\0';) {
        if (mount_of_line(line, root, mount)) {
            const size_t root_bytes = strcmp(root, "/") == 0 ? 0 : strlen(root);
            const char *below = own + root_bytes;
            if (strncmp(own, root, root_bytes) != 0 || (*below != '/' && *below != '\0')) {
                return false; /* our group is outside of the mounted part */
            }
            const int bytes = snprintf(ret_path, CV_CGROUP_PATH_BYTES, "%s%s", mount,
                                       strcmp(below, "/") == 0 ? "" : below);
            return bytes < CV_CGROUP_PATH_BYTES;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

static bool read_text(const char *path, char *buffer, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    ssize_t got = -1;
    while (fd >= 0 && have < bytes - 1 && (got = read(fd, buffer + have, bytes - 1 - have)) > 0) {
        have += (size_t)got;
    }
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    buffer[have] = '\0';
    return have > 0;
}

static bool path_of(pid_t guard, char ret_path[CV_CGROUP_PATH_BYTES])
{
    char own[4096];
    char folder[CV_CGROUP_PATH_BYTES];
    char *mounts = malloc(TEXT_BYTES);
    const bool is_located = mounts != NULL && read_text("/proc/self/cgroup", own, sizeof own) &&
                            read_text("/proc/self/mountinfo", mounts, TEXT_BYTES) &&
                            cv__cgroup_locate(own, mounts, folder);
    free(mounts);
    return is_located && snprintf(ret_path, CV_CGROUP_PATH_BYTES, "%s/" GROUP_PREFIX "%d", folder,
                                  (int)guard) < CV_CGROUP_PATH_BYTES;
}

static struct cv_cgroup open_folder(const char *path)
{
    struct cv_cgroup cgroup = CV_CGROUP_NONE;
    (void)snprintf(cgroup.path, sizeof cgroup.path, "%s", path);
    cgroup.folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return cgroup;
}

static void open_kill(struct cv_cgroup *cgroup)
{
    CV_ASSERT(cgroup->kill_fd < 0);
    if (cgroup->folder_fd >= 0) {
        cgroup->kill_fd = openat(cgroup->folder_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    }
}

static struct cv_cgroup open_at(const char *path)
{
    struct cv_cgroup cgroup = open_folder(path);
    open_kill(&cgroup);
    return cgroup;
}

static bool is_empty(const struct cv_cgroup *cgroup)
{
    char text[256];
    const int fd = openat(cgroup->folder_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, "populated 1") == NULL;
}

static void await_empty(const struct cv_cgroup *cgroup)
{
    for (int ms = 0; ms < EMPTY_MS_MAX && !is_empty(cgroup); ms++) {
        (void)poll(NULL, 0, 1); /* the file can be polled, but this is rare and short */
    }
}

/* A guard keeps its group locked while it lives. Unlike its process id, the lock is also right in
 * another pid namespace, and after the id was used again. */
static bool is_left_behind(const struct cv_cgroup *cgroup)
{
    struct stat stat;
    return cgroup->folder_fd >= 0 && fstat(cgroup->folder_fd, &stat) == 0 &&
           stat.st_uid == geteuid() && flock(cgroup->folder_fd, LOCK_EX | LOCK_NB) == 0;
}

void cv__cgroup_end_others(const struct cv_cgroup *own)
{
    char folder[CV_CGROUP_PATH_BYTES];
    char path[CV_CGROUP_PATH_BYTES + NAME_MAX + 2];
    if (own->folder_fd < 0) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(own->path, '/') - own->path),
                   own->path);
    DIR *groups = opendir(folder);
    for (const struct dirent *entry; groups != NULL && (entry = readdir(groups)) != NULL;) {
        if (strncmp(entry->d_name, GROUP_PREFIX, strlen(GROUP_PREFIX)) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strlen(path) >= CV_CGROUP_PATH_BYTES || strcmp(path, own->path) == 0) {
            continue;
        }
        struct cv_cgroup other = open_folder(path);
        if (is_left_behind(&other)) { /* most are in use by other guards */
            open_kill(&other);
            cv__cgroup_kill(&other);
            await_empty(&other);
        } else {
            other.path[0] = '\0'; /* it is in use: do not remove it */
        }
        cv__cgroup_remove(&other);
    }
    if (groups != NULL) {
        (void)closedir(groups); /* only read */
    }
}

pid_t cv__cgroup_fork(const struct cv_cgroup *cgroup)
{
    if (cgroup->folder_fd >= 0) {
        struct clone_args args = {
            .flags = CLONE_INTO_CGROUP,
            .exit_signal = SIGCHLD,
            .cgroup = (uint64_t)cgroup->folder_fd,
        };
        const pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        if (pid >= 0 || errno == EAGAIN || errno == ENOMEM) {
            return pid; /* also a failure: a process outside of the group would not be found */
        }
    }
    return fork();
}

/* Linux counts how often a group was killed, to notice a fork that overlaps with a kill. But for a
 * fork into another group, recent kernels (seen in 6.18) compare the counts of the parent's group
 * and of the new one: if the counts differ, the child is killed without need. The counts cannot be
 * read, so we fork a process as a test; if it is killed, we use no group. */
static bool is_deadly(const struct cv_cgroup *cgroup)
{
    siginfo_t info = {0};
    const pid_t pid = cv__cgroup_fork(cgroup);
    if (pid == 0) {
        _exit(0);
    }
    while (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED) != 0 && errno == EINTR) {
        /* it ends at once, one way or the other */
    }
    return pid < 0 || info.si_code == CLD_KILLED;
}

/* Another guard may remove the group as left behind before we have locked it: then try again. */
struct cv_cgroup cv__cgroup_make(pid_t guard)
{
    char path[CV_CGROUP_PATH_BYTES];
    if (!path_of(guard, path)) {
        return CV_CGROUP_NONE;
    }
    for (int round = 0; round < MAKE_ROUNDS_MAX; round++) {
        if (mkdir(path, 0755) != 0 && errno != EEXIST) { /* EEXIST: from a guard that had our pid */
            return CV_CGROUP_NONE;
        }
        struct cv_cgroup cgroup = open_at(path);
        const bool is_locked =
            cgroup.folder_fd >= 0 && flock(cgroup.folder_fd, LOCK_EX | LOCK_NB) == 0;
        if (cgroup.kill_fd < 0) { /* of no use to us: an older kernel */
            cv__cgroup_remove(&cgroup);
            return cgroup;
        }
        if (is_locked && is_deadly(&cgroup)) {
            cv__cgroup_remove(&cgroup);
            return cgroup;
        }
        if (is_locked && access(path, F_OK) == 0) {
            return cgroup;
        }
        cgroup.path[0] = '\0';
        cv__cgroup_remove(&cgroup);
    }
    return CV_CGROUP_NONE; /* the guard walks the tree instead */
}

struct cv_cgroup cv__cgroup_find(pid_t guard)
{
    char path[CV_CGROUP_PATH_BYTES];
    return path_of(guard, path) && access(path, F_OK) == 0 ? open_at(path) : CV_CGROUP_NONE;
}

void cv__cgroup_kill(const struct cv_cgroup *cgroup)
{
    if (cgroup->kill_fd >= 0 && write(cgroup->kill_fd, "1", 1) != 1) {
        return; /* the guard walks the tree, too */
    }
}

void cv__cgroup_remove(struct cv_cgroup *cgroup)
{
    if (cgroup->kill_fd >= 0) {
        (void)close(cgroup->kill_fd);
    }
    if (cgroup->folder_fd >= 0) {
        (void)close(cgroup->folder_fd);
    }
    if (cgroup->path[0] != '\0') {
        (void)rmdir(cgroup->path); /* an empty folder that stays does no harm */
    }
    *cgroup = CV_CGROUP_NONE;
}
