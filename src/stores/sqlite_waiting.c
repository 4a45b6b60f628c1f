/* src/stores/sqlite_waiting.c - lists the waiting contenders of an election in a SQLite file.
 *
 * A waiting contender has a file in the folder beside the database, `wait.MARKER.LABEL`, with the
 * time, its name and its version, on a line each. It keeps the file locked, so a killed contender
 * is not listed. This is for people only: no election depends on it, and failed writes are ignored.
 * A file is locked before it gets its name, so an unlocked file may be removed. */
#include "stores/sqlite_parts.h"

#include "core/errors.h"
#include "os/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_PREFIX "wait."
#define WAIT_BYTES (CV_NODE_BYTES + CV_STORE_VERSION_BYTES + 32)

static void wait_path(const struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                      const char *prefix, char ret_path[CV_SQLITE_PATH_BYTES])
{
    char name[CV_SQLITE_PIPE_BYTES];
    (void)snprintf(name, sizeof name, "%s%.16s.%016" PRIx64, prefix, c->marker, c->label);
    cv__sqlite_pipe(s, name, ret_path);
}

/* Made under another name and locked, then renamed. */
static int wait_make(const struct cv_sqlite *s, const struct cv_sqlite_contender *c)
{
    char unnamed[CV_SQLITE_PATH_BYTES], named[CV_SQLITE_PATH_BYTES];
    wait_path(s, c, "new.", unnamed);
    wait_path(s, c, WAIT_PREFIX, named);
    const int fd = open(unnamed, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || rename(unnamed, named) != 0)) {
        (void)unlink(unnamed);
        (void)close(fd);
        return -1;
    }
    return fd;
}

void cv__sqlite_wait_begin(struct cv_sqlite *s, struct cv_sqlite_contender *c)
{
    if (c->is_waiting || s->is_read_only) {
        return;
    }
    c->is_waiting = true;
    if (c->waiting < 0 && s->waiting_count < CV_SQLITE_WAITING_MAX) {
        c->waiting = wait_make(s, c);
        s->waiting_count += c->waiting >= 0;
    }
    char text[WAIT_BYTES];
    const int bytes = snprintf(text, sizeof text, "%" PRId64 "\n%s\n%s\n", cv__clock_wall_ns(),
                               c->node, c->version);
    if (c->waiting >= 0 && pwrite(c->waiting, text, (size_t)bytes, 0) != bytes) {
        cv__sqlite_wait_end(s, c); /* a full disk: then it is not listed */
        c->is_waiting = true;
    }
}

void cv__sqlite_wait_end(struct cv_sqlite *s, struct cv_sqlite_contender *c)
{
    c->is_waiting = false;
    if (c->waiting < 0) {
        return;
    }
    char path[CV_SQLITE_PATH_BYTES];
    wait_path(s, c, WAIT_PREFIX, path);
    (void)unlink(path); /* one that stays is not locked */
    (void)close(c->waiting);
    c->waiting = -1;
    s->waiting_count--;
}

/* False: no process has this file locked. */
static bool wait_read(const char *path, struct cv_store_listed *ret_one)
{
    char text[WAIT_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    const ssize_t got = is_locked ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    text[got > 0 ? got : 0] = '\0';
    char *node = strchr(text, '\n');
    char *end = node != NULL ? strchr(node + 1, '\n') : NULL;
    if (fd >= 0 && !is_locked) {
        (void)unlink(path); /* if we may */
    }
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    char *version = end + 1; /* earlier versions write none */
    version[strcspn(version, "\n")] = '\0';
    ret_one->since_wall_ns = strtoll(text, NULL, 10);
    cv__sqlite_text(ret_one->name, CV_NODE_BYTES, node + 1);
    cv__sqlite_text(ret_one->version, sizeof ret_one->version, version);
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct cv_store_listed *left = a, *right = b;
    return (left->since_wall_ns > right->since_wall_ns) -
           (left->since_wall_ns < right->since_wall_ns);
}

/* `holder` is the label of the one that leads, who may have waited before. */
static void wait_list(const struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                      uint64_t holder, struct cv_store_list *list)
{
    char folder[CV_SQLITE_PATH_BYTES], prefix[CV_SQLITE_PIPE_BYTES];
    cv__sqlite_folder(s, folder);
    (void)snprintf(prefix, sizeof prefix, WAIT_PREFIX "%.16s.", c->marker);
    DIR *all = opendir(folder);
    list->is_partial = all == NULL; /* we may not look, or nobody has waited yet */
    for (const struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        char path[CV_SQLITE_PATH_BYTES];
        struct cv_store_listed found;
        if (strncmp(one->d_name, prefix, strlen(prefix)) != 0 ||
            strlen(one->d_name) >= CV_SQLITE_PIPE_BYTES ||
            strtoull(one->d_name + strlen(prefix), NULL, 16) == holder) {
            continue;
        }
        cv__sqlite_pipe(s, one->d_name, path);
        if (wait_read(path, &found)) {
            cv__store_list_add(list, found.name, found.since_wall_ns, found.version);
        }
    }
    if (all != NULL) {
        (void)closedir(all); /* it was only read */
    }
    qsort(list->entry, list->count, sizeof list->entry[0], compare);
}

void cv__sqlite_list(struct cv_sqlite *s, struct cv_sqlite_job *job)
{
    const struct cv_sqlite_contender *c = job->contender;
    uint64_t holder = 0;
    sqlite3_stmt *q = NULL;
    int stepped = SQLITE_ERROR;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT label FROM conclave_election WHERE election = ? AND node <> ''",
                           -1, &q, NULL) == SQLITE_OK) {
        sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
        stepped = sqlite3_step(q);
    }
    holder = stepped == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
    const bool is_read = stepped == SQLITE_ROW || stepped == SQLITE_DONE;
    if (!is_read) {
        (void)cv__sqlite_failed(s, "read", &job->error);
    } else {
        wait_list(s, c, holder, job->request.list);
    }
    (void)sqlite3_finalize(q); /* returns the same error again */
    job->answer = (struct cv_store_answer){.request = job->request.request,
                                           .verdict = is_read ? CV_STORE_GRANTED : CV_STORE_FAILED,
                                           .why = is_read ? NULL : job->error.text};
}
