/* src/stores/sqlite_pipes.c - the folder beside a SQLite file: pipes that report the death of their
 * holders, and a marker for each election that is touched when its record changes. sqlite_record.h
 * says why this is safe. */
#include "stores/sqlite_parts.h"

#include "core/assert.h"
#include "core/errors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_PREFIX "pipe."
#define MAIL_PREFIX "mail."

static uint64_t name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: only to tell elections apart */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

void cv__sqlite_folder(const struct cv_sqlite *s, char ret_path[CV_SQLITE_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_SQLITE_PATH_BYTES, "%s.alive", s->path);
    CV_ASSERT(length < CV_SQLITE_PATH_BYTES); /* cv__sqlite_open() left room */
}

void cv__sqlite_pipe(const struct cv_sqlite *s, const char *pipe,
                     char ret_path[CV_SQLITE_PATH_BYTES])
{
    const int length = snprintf(ret_path, CV_SQLITE_PATH_BYTES, "%s.alive/%s", s->path, pipe);
    CV_ASSERT(length < CV_SQLITE_PATH_BYTES);
}

bool cv__sqlite_pipe_is_valid(const char *pipe)
{
    return strncmp(pipe, PIPE_PREFIX, strlen(PIPE_PREFIX)) == 0 && strchr(pipe, '/') == NULL;
}

enum cv_lifeline_state cv__sqlite_pipe_look(const struct cv_sqlite *s, const char *pipe)
{
    if (s->pipe_fd >= 0 && strcmp(pipe, s->pipe) == 0) {
        return CV_LIFELINE_HELD; /* by ourselves */
    }
    if (!cv__sqlite_pipe_is_valid(pipe)) {
        return CV_LIFELINE_UNKNOWN;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, pipe, path);
    return cv__lifeline_look(path);
}

bool cv__sqlite_pipe_is_inherited(const struct cv_sqlite *s, const char *pipe)
{
    if (!cv__sqlite_pipe_is_valid(pipe)) {
        return false;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, pipe, path);
    return cv__lifeline_is_inherited(path);
}

void cv__sqlite_pipe_unlink(const struct cv_sqlite *s, const char *pipe)
{
    if (cv__sqlite_pipe_is_valid(pipe)) {
        char path[CV_SQLITE_PATH_BYTES];
        cv__sqlite_pipe(s, pipe, path);
        (void)unlink(path); /* a name that stays is harmless */
    }
}

/* A pipe of a name that was never used before. */
static int pipe_make(const struct cv_sqlite *s, char ret_pipe[CV_SQLITE_PIPE_BYTES], int *ret_fd,
                     struct cv_errtext *reterr)
{
    char path[CV_SQLITE_PATH_BYTES];
    int fd;
    do {
        uint64_t number;
        sqlite3_randomness(sizeof number, &number);
        (void)snprintf(ret_pipe, CV_SQLITE_PIPE_BYTES, PIPE_PREFIX "%016" PRIx64, number);
        cv__sqlite_pipe(s, ret_pipe, path);
        fd = cv__lifeline_hold(path);
    } while (fd == -EEXIST);
    if (fd < 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot make '%s': %s", path, strerror(-fd));
    }
    *ret_fd = fd;
    return CV_OK;
}

bool cv__sqlite_mail_is_valid(const char *mail)
{
    return strncmp(mail, MAIL_PREFIX, strlen(MAIL_PREFIX)) == 0 && strchr(mail, '/') == NULL;
}

bool cv__sqlite_mail_open(struct cv_sqlite *s)
{
    char path[CV_SQLITE_PATH_BYTES];
    if (s->mail[0] != '\0') {
        return true;
    }
    uint64_t number;
    sqlite3_randomness(sizeof number, &number);
    (void)snprintf(s->mail, sizeof s->mail, MAIL_PREFIX "%016" PRIx64, number);
    cv__sqlite_pipe(s, s->mail, path);
    const bool is_made = mkfifo(path, 0660) == 0; /* others of our group may lead, and write here */
    s->mail_fd = is_made ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    if (is_made && s->mail_fd < 0) {
        (void)unlink(path); /* a name that stays is harmless */
    }
    if (s->mail_fd < 0) {
        s->mail[0] = '\0';
    }
    return s->mail_fd >= 0;
}

void cv__sqlite_mail_unlink(struct cv_sqlite *s)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, s->mail, path);
    (void)unlink(path); /* a name that stays is harmless */
    if (s->mail_fd >= 0) {
        (void)close(s->mail_fd); /* the loop did not take it */
        s->mail_fd = -1;
    }
    s->mail[0] = '\0';
}

/* Does nobody read from it? A process that is gone has left it behind. */
static bool mail_is_left(const struct cv_sqlite *s, const char *mail)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, mail, path);
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENXIO;
    }
    (void)close(fd); /* nothing was written */
    return false;
}

/* Is the name of the common pipe still there? Without it the others do not notice our death. */
static bool pipe_is_there(const struct cv_sqlite *s)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, s->pipe, path);
    struct stat ours, named;
    return fstat(s->pipe_fd, &ours) == 0 && lstat(path, &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

bool cv__sqlite_pipe_is_named(struct cv_sqlite *s, const char *pipe)
{
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_FIND_PIPE);
    if (q == NULL) {
        return true;
    }
    sqlite3_bind_text(q, 1, pipe, -1, SQLITE_STATIC);
    const int stepped = sqlite3_step(q);
    (void)sqlite3_reset(q); /* an error counts as yes */
    return stepped != SQLITE_DONE;
}

/* Within a transaction, as making a pipe is: removes those that dead processes have left behind. */
static void pipes_clean(struct cv_sqlite *s)
{
    char folder[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(s, folder);
    DIR *all = opendir(folder);
    if (all == NULL) {
        return; /* they do no harm */
    }
    for (const struct dirent *one; (one = readdir(all)) != NULL;) {
        if (cv__sqlite_pipe_is_valid(one->d_name) && strlen(one->d_name) < CV_SQLITE_PIPE_BYTES &&
            cv__sqlite_pipe_look(s, one->d_name) == CV_LIFELINE_CUT &&
            !cv__sqlite_pipe_is_named(s, one->d_name)) {
            cv__sqlite_pipe_unlink(s, one->d_name);
        }
        if (cv__sqlite_mail_is_valid(one->d_name) && strlen(one->d_name) < CV_SQLITE_PIPE_BYTES &&
            mail_is_left(s, one->d_name)) {
            (void)unlinkat(dirfd(all), one->d_name, 0); /* a name that stays is harmless */
        }
    }
    (void)closedir(all); /* it was only read */
}

bool cv__sqlite_pipe_share(struct cv_sqlite *s)
{
    if (s->pipe_fd < 0) {
        pipes_clean(s);
        if (pipe_make(s, s->pipe, &s->pipe_fd, NULL) != CV_OK) {
            return false;
        }
    }
    return pipe_is_there(s);
}

int cv__sqlite_pipe_take(struct cv_sqlite *s, struct cv_sqlite_contender *c, uint64_t token,
                         char ret_pipe[CV_SQLITE_PIPE_BYTES], struct cv_errtext *reterr)
{
    cv__sqlite_leave(c);
    if (c->pipe[0] != '\0' && !cv__sqlite_pipe_is_named(s, c->pipe)) {
        cv__sqlite_pipe_unlink(s, c->pipe); /* of a leadership that ended without a release */
        c->pipe[0] = '\0';
    }
    int code = CV_OK;
    if (!c->has_descendants && s->pipe_fd < 0) {
        pipes_clean(s);
        code = pipe_make(s, s->pipe, &s->pipe_fd, reterr);
    }
    if (code == CV_OK && (c->has_descendants || !pipe_is_there(s))) {
        code = pipe_make(s, c->pipe, &c->pipe_fd, reterr);
    }
    if (code == CV_OK) {
        c->pipe_token = token;
        memcpy(ret_pipe, c->pipe_fd >= 0 ? c->pipe : s->pipe, CV_SQLITE_PIPE_BYTES);
    }
    return code;
}

/* The name stays: a contender that opens it finds that nobody holds the pipe. */
void cv__sqlite_leave(struct cv_sqlite_contender *c)
{
    if (c->pipe_fd >= 0) {
        (void)close(c->pipe_fd); /* the last copy wakes the others */
        c->pipe_fd = -1;
    }
    c->pipe_token = 0;
}

void cv__sqlite_join(struct cv_sqlite_contender *c, const char *election, const char *node,
                     uint64_t label, bool has_descendants)
{
    memset(c, 0, sizeof *c);
    cv__sqlite_text(c->election, sizeof c->election, election);
    cv__sqlite_text(c->node, sizeof c->node, node);
    c->label = label;
    c->has_descendants = has_descendants;
    c->pipe_fd = -1;
    c->waiting = -1;
    (void)snprintf(c->marker, sizeof c->marker, "%016" PRIx64, name_hash(election));
}

/* Whatever our umask: users of the database's group have to touch it, too. */
static void marker_make(const struct cv_sqlite *s, const char *path)
{
    const int made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
    struct stat marker, database;
    if (made < 0) {
        return;
    }
    if (fstat(made, &marker) == 0 && lstat(s->path, &database) == 0 &&
        marker.st_gid == database.st_gid) {
        const mode_t of_group = database.st_mode & (S_IRGRP | S_IWGRP);
        (void)fchmod(made, (marker.st_mode & S_IRWXU) | of_group); /* or it is replaced later */
    }
    (void)close(made); /* it is empty */
}

void cv__sqlite_wake_others(const struct cv_sqlite *s, const struct cv_sqlite_contender *c)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, c->marker, path);
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == EACCES) {
            /* Another user made it, for that user only. The others watch the folder and compare
             * names, so a new file of this name does as well. If two replace it at once, the one
             * that comes last also touches it after both have committed. */
            (void)unlink(path);
        }
        marker_make(s, path);
        (void)utimensat(AT_FDCWD, path, NULL,
                        AT_SYMLINK_NOFOLLOW); /* creating it notifies nobody */
    }
    /* A notification may be lost: all contenders also ask now and then. */
}

void cv__sqlite_marker_remove(const struct cv_sqlite *s, const struct cv_sqlite_contender *c)
{
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, c->marker, path);
    (void)unlink(path); /* whoever touches it next makes it anew; one that stays is harmless */
}
