/* src/stores/sqlite_next.c - who follows the holder of a record of a SQLite file: sqlite_next.h. */
#include "stores/sqlite_next.h"

#include "core/assert.h"
#include "core/errors.h"
#include "os/clock.h"
#include "stores/sqlite_parts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cv__sqlite_next_is_wanted(const struct cv_sqlite_contender *c, uint64_t attempt,
                               uint64_t token)
{
    CV_ASSERT(attempt != 0);
    return !c->has_descendants && (c->next_attempt != attempt || c->next_token <= token);
}

/* The registration of the election, if there is one that may follow its record. */
static bool next_read(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                      struct cv_sqlite_next *ret_next)
{
    memset(ret_next, 0, sizeof *ret_next);
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_READ_NEXT);
    if (q == NULL) {
        return false; /* a file of an earlier version that we may only read */
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    bool is_found = sqlite3_step(q) == SQLITE_ROW;
    if (is_found) {
        cv__sqlite_text(ret_next->node, sizeof ret_next->node, cv__sqlite_column(q, 0));
        ret_next->label = (uint64_t)sqlite3_column_int64(q, 1);
        ret_next->attempt = (uint64_t)sqlite3_column_int64(q, 2);
        ret_next->token = (uint64_t)sqlite3_column_int64(q, 3);
        ret_next->secret = (uint64_t)sqlite3_column_int64(q, 4);
        ret_next->lease_ns = sqlite3_column_int64(q, 5);
        cv__sqlite_text(ret_next->version, sizeof ret_next->version, cv__sqlite_column(q, 6));
        cv__sqlite_text(ret_next->pipe, sizeof ret_next->pipe, cv__sqlite_column(q, 7));
        cv__sqlite_text(ret_next->mail, sizeof ret_next->mail, cv__sqlite_column(q, 8));
        const char *boot = cv__sqlite_column(q, 9);
        const uint64_t record_token = (uint64_t)sqlite3_column_int64(q, 10);
        const uint64_t record_label = (uint64_t)sqlite3_column_int64(q, 11);
        is_found = boot != NULL && strcmp(boot, s->boot) == 0 && ret_next->node[0] != '\0' &&
                   ret_next->token > record_token && ret_next->label != record_label &&
                   ret_next->lease_ns > 0;
    }
    (void)sqlite3_reset(q); /* after an error, nobody is registered */
    return is_found;
}

bool cv__sqlite_next_is_vacant(struct cv_sqlite *s, const struct cv_sqlite_contender *c)
{
    struct cv_sqlite_next next;
    return !next_read(s, c, &next) || next.label == c->label ||
           cv__sqlite_pipe_look(s, next.pipe) != CV_LIFELINE_HELD;
}

bool cv__sqlite_next_can_be_told(struct cv_sqlite *s)
{
    return cv__sqlite_pipe_share(s) && cv__sqlite_mail_open(s);
}

bool cv__sqlite_next_register(struct cv_sqlite *s, struct cv_sqlite_contender *c, uint64_t token)
{
    CV_ASSERT(!c->has_descendants);
    CV_ASSERT(c->sought_attempt != 0);
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_WRITE_NEXT);
    if (q == NULL) {
        return false;
    }
    CV_ASSERT(s->pipe[0] != '\0' && s->mail[0] != '\0'); /* cv__sqlite_next_can_be_told() */
    c->next_attempt = c->sought_attempt;
    c->next_token = token;
    c->next_secret = cv__clock_random() & INT64_MAX;
    c->next_lease_ns = c->sought_lease_ns;
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, c->node, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)c->label);
    sqlite3_bind_int64(q, 4, (int64_t)c->next_attempt);
    sqlite3_bind_int64(q, 5, (int64_t)token);
    sqlite3_bind_int64(q, 6, (int64_t)c->next_secret);
    sqlite3_bind_int64(q, 7, c->next_lease_ns);
    sqlite3_bind_text(q, 8, c->version, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 9, s->pipe, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 10, s->mail, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 11, s->boot, -1, SQLITE_STATIC);
    const bool is_written = sqlite3_step(q) == SQLITE_DONE;
    (void)sqlite3_reset(q); /* returns the same error again */
    return is_written;
}

int cv__sqlite_next_withdraw(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                             struct cv_errtext *reterr)
{
    if (c->next_token == 0) {
        return CV_OK;
    }
    sqlite3_stmt *q = cv__sqlite_statement(s, CV_SQLITE_DROP_NEXT);
    if (q == NULL) {
        return cv__sqlite_failed(s, "write", reterr);
    }
    sqlite3_bind_text(q, 1, c->election, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 2, (int64_t)c->label);
    const bool is_done = sqlite3_step(q) == SQLITE_DONE;
    const int code = is_done ? CV_OK : cv__sqlite_failed(s, "write", reterr);
    (void)sqlite3_reset(q); /* returns the same error again */
    return code;
}

/* ---- Mail ---------------------------------------------------------------------------------- */

/* Opens the pipe of a contender for writing; -1: nobody reads from it, or we may not. */
static int mail_reach(const struct cv_sqlite *s, const char *mail)
{
    if (!cv__sqlite_mail_is_valid(mail)) {
        return -1;
    }
    char path[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(s, mail, path);
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    struct stat is;
    if (fd >= 0 && (fstat(fd, &is) != 0 || !S_ISFIFO(is.st_mode))) {
        (void)close(fd); /* nothing was written */
        return -1;
    }
    return fd;
}

bool cv__sqlite_next_find(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                          const char *heir, struct cv_sqlite_next *ret_next, int *ret_mail)
{
    const bool is_found =
        next_read(s, c, ret_next) && (heir[0] == '\0' || strcmp(heir, ret_next->node) == 0);
    *ret_mail = is_found ? mail_reach(s, ret_next->mail) : -1;
    return *ret_mail >= 0;
}

void cv__sqlite_mail_send(int mail, const struct cv_sqlite_mail *text)
{
    /* A reader that is gone by now would raise SIGPIPE, which threads of ours have blocked. */
    const ssize_t written = write(mail, text, sizeof *text);
    (void)written;     /* the marker notifies it, too, and it asks */
    (void)close(mail); /* its reader gets what is in the pipe */
}
