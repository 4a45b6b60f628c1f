/* src/stores/sqlite_file.c - see sqlite_file.h. */
#include "stores/sqlite_file.h"

#include "core/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* SQLite's write lock is this byte of PATH-shm; a reader's lock there keeps writers out as well. */
#define LOCK_BYTE_WRITE 120

/* ---- The file ------------------------------------------------------------------------------ */

void cv__sqlite_file_make(const char *path)
{
    /* Without opening it: closing would give up the locks of others in this process. */
    (void)mknod(path, S_IFREG | 0660, 0);
}

static int has_two_names(const char *path, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_STORE,
                    "'%s' has several names (hard links), and contenders that use different names "
                    "would not see each other; remove the other names, or copy the file",
                    path);
}

int cv__sqlite_file_look(const char *path, struct cv_sqlite_file *ret_file,
                         struct cv_errtext *reterr)
{
    struct statx is;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &is) != 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", path, strerror(errno));
    }
    if (!S_ISREG(is.stx_mode)) {
        return cv__fail(reterr, CV_E_STORE, "cannot open '%s': it is not a regular file", path);
    }
    if (is.stx_nlink > 1) {
        return has_two_names(path, reterr);
    }
    if ((is.stx_attributes_mask & is.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
        return cv__fail(reterr, CV_E_STORE,
                        "'%s' is mounted by itself, and contenders outside of the mount would not "
                        "be seen; mount the folder that contains it",
                        path);
    }
    ret_file->device = makedev(is.stx_dev_major, is.stx_dev_minor);
    ret_file->inode = is.stx_ino;
    ret_file->owner = is.stx_uid;
    ret_file->is_public = (is.stx_mode & S_IROTH) != 0;
    return CV_OK;
}

int cv__sqlite_file_check(const char *path, const struct cv_sqlite_file *file,
                          struct cv_errtext *reterr)
{
    struct stat is;
    if (lstat(path, &is) != 0) {
        return cv__fail(reterr, CV_E_STORE,
                        "'%s' is gone (%s); restart the contenders that still use it", path,
                        strerror(errno));
    }
    if (is.st_dev != file->device || is.st_ino != file->inode) {
        return cv__fail(
            reterr, CV_E_STORE,
            "'%s' was replaced by another file; restart the contenders that still use the old one",
            path);
    }
    return is.st_nlink > 1 ? has_two_names(path, reterr) : CV_OK;
}

/* ---- The folder ---------------------------------------------------------------------------- */

int cv__sqlite_folder_make(const char *folder, const struct cv_sqlite_file *file,
                           struct cv_errtext *reterr)
{
    if (mkdir(folder, 0770) != 0 && errno != EEXIST) {
        return cv__fail(reterr, CV_E_STORE, "cannot make the folder '%s': %s", folder,
                        strerror(errno));
    }
    struct stat is;
    if (lstat(folder, &is) != 0 || !S_ISDIR(is.st_mode)) {
        return cv__fail(reterr, CV_E_STORE, "'%s' is not a folder; remove it", folder);
    }
    if (is.st_uid != file->owner && is.st_uid != geteuid() && is.st_uid != 0) {
        return cv__fail(reterr, CV_E_STORE,
                        "the folder '%s' belongs to user %lu, who is neither the database's owner "
                        "nor you",
                        folder, (unsigned long)is.st_uid);
    }
    if ((is.st_mode & S_IWOTH) != 0) {
        return cv__fail(reterr, CV_E_STORE,
                        "every user can write to the folder '%s', and could make a leader look "
                        "dead; run chmod o-w on it",
                        folder);
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot write to the folder '%s': %s", folder,
                        strerror(errno));
    }
    return CV_OK;
}

/* ---- The clock ----------------------------------------------------------------------------- */

static bool file_read(const char *path, char *ret_text, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const size_t length = fread(ret_text, 1, bytes - 1, file);
    ret_text[length] = '\0';
    (void)fclose(file); /* it was only read */
    return true;
}

/* The offset of CLOCK_BOOTTIME in our time namespace; empty: none. The kernel shows that of our
 * children's, which is ours unless unshare(2) gave them another one. False: it could not be
 * read, and must not be taken for none: instants of two namespaces cannot be compared. */
static bool offset_read(char *ret_text, size_t bytes)
{
    char ours[64] = "", childrens[64] = "", offsets[256];
    ret_text[0] = '\0';
    const ssize_t has_ours = readlink("/proc/self/ns/time", ours, sizeof ours - 1);
    const ssize_t has_theirs =
        readlink("/proc/self/ns/time_for_children", childrens, sizeof childrens - 1);
    if (has_ours <= 0 || has_theirs <= 0) {
        return true; /* a kernel without time namespaces */
    }
    if (strcmp(ours, childrens) != 0) {
        (void)snprintf(ret_text, bytes, "+%.40s", ours);
        return true;
    }
    if (!file_read("/proc/self/timens_offsets", offsets, sizeof offsets)) {
        return errno == ENOENT;
    }
    const char *line = strstr(offsets, "boottime");
    long long seconds = 0, ns = 0;
    if (line != NULL && sscanf(line, "boottime %lld %lld", &seconds, &ns) == 2 &&
        (seconds != 0 || ns != 0)) {
        (void)snprintf(ret_text, bytes, "+%lld.%09lld", seconds, ns);
    }
    return true;
}

void cv__sqlite_boot(char ret_boot[CV_BOOT_BYTES])
{
    char id[CV_BOOT_ID_BYTES + 1], offset[CV_BOOT_BYTES - CV_BOOT_ID_BYTES];
    if (!file_read("/proc/sys/kernel/random/boot_id", id, sizeof id) ||
        !offset_read(offset, sizeof offset)) {
        id[0] = '\0';
    }
    id[strcspn(id, "\n")] = '\0';
    (void)snprintf(ret_boot, CV_BOOT_BYTES, "%s%s", id, id[0] != '\0' ? offset : "");
}

/* ---- Who has locked it --------------------------------------------------------------------- */

/* One line of /proc/locks: does another process lock this file, where a writer needs it? */
static bool lock_matches(const char *line, const struct stat *is, bool is_index, long *ret_pid)
{
    char kind[16], mode[16];
    long pid;
    unsigned major_number, minor_number;
    unsigned long long inode, first;
    if (sscanf(line, "%*d: %15s %*s %15s %ld %x:%x:%llu %llu", kind, mode, &pid, &major_number,
               &minor_number, &inode, &first) != 7) {
        return false; /* it waits for a lock (->), or is of another sort */
    }
    *ret_pid = pid;
    const bool is_file = inode == is->st_ino && major_number == major(is->st_dev) &&
                         minor_number == minor(is->st_dev);
    /* Every user of the database has a shared lock: only an exclusive one keeps us out. */
    const bool is_hindrance = is_index ? first == LOCK_BYTE_WRITE : strcmp(mode, "WRITE") == 0;
    return is_file && is_hindrance && pid != getpid();
}

static void process_describe(long pid, char *ret_text, size_t bytes)
{
    if (pid <= 0) {
        (void)snprintf(ret_text, bytes, " by a process of another PID namespace");
        return;
    }
    char path[64], stat_line[512];
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!file_read(path, stat_line, sizeof stat_line)) {
        (void)snprintf(ret_text, bytes, " by process %ld", pid);
        return;
    }
    const char *open = strchr(stat_line, '(');
    const char *close = strrchr(stat_line, ')');
    char name[32] = "?";
    char state = ' ';
    if (open != NULL && close != NULL && close > open) {
        size_t length = 0;
        for (const char *at = open + 1; at < close && length < sizeof name - 1; at++) {
            name[length++] = *at >= ' ' && *at < 127 ? *at : '?'; /* others choose their names */
        }
        name[length] = '\0';
        state = close[1] == ' ' ? close[2] : ' ';
    }
    (void)snprintf(ret_text, bytes, " by process %ld (%s)%s", pid, name,
                   state == 'T' || state == 't' ? ", which is stopped" : "");
}

void cv__sqlite_locker(const char *path, char *ret_text, size_t text_bytes)
{
    ret_text[0] = '\0';
    char index_path[4096 + 8];
    (void)snprintf(index_path, sizeof index_path, "%s-shm", path);
    struct stat database, index;
    if (stat(path, &database) != 0 || stat(index_path, &index) != 0) {
        return;
    }
    FILE *locks = fopen("/proc/locks", "re");
    if (locks == NULL) {
        return;
    }
    char line[256];
    while (fgets(line, sizeof line, locks) != NULL) {
        long pid;
        if (lock_matches(line, &index, /* is_index= */ true, &pid) ||
            lock_matches(line, &database, /* is_index= */ false, &pid)) {
            process_describe(pid, ret_text, text_bytes);
            break;
        }
    }
    (void)fclose(locks); /* it was only read */
}
