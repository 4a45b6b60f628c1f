/* src/stores/sqlite_parts.h - declarations shared by the parts of the SQLite store only:
 * sqlite_connection.c (the file, its tables and statements), sqlite_pipes.c (the folder beside it),
 * sqlite_record.c (the records), sqlite_reserve.c (tokens in advance), sqlite_next.c (who is given
 * a record that is released). */
#ifndef CV_STORES_SQLITE_PARTS_H
#define CV_STORES_SQLITE_PARTS_H

#include "stores/lifeline.h"
#include "stores/sqlite_record.h"

enum cv_sqlite_statement {
    CV_SQLITE_READ_RECORD,
    CV_SQLITE_WRITE_RECORD,
    CV_SQLITE_BEGIN_PAST,
    CV_SQLITE_CLOSE_PAST,
    CV_SQLITE_FIND_VERSION,
    CV_SQLITE_FIND_PIPE,
    CV_SQLITE_FIND_WHY,
    CV_SQLITE_FIND_LAST,
    CV_SQLITE_NOTE_ALIVE,
    CV_SQLITE_TAKE_NUMBER,
    CV_SQLITE_READ_NUMBER,
    CV_SQLITE_READ_NEXT,
    CV_SQLITE_WRITE_NEXT,
    CV_SQLITE_DROP_NEXT,
    CV_SQLITE_BEGIN,
    CV_SQLITE_COMMIT
};

/* NULL: it cannot be prepared. Its last use was reset; its next one binds everything anew. */
sqlite3_stmt *cv__sqlite_statement(struct cv_sqlite *s, enum cv_sqlite_statement which);

/* CV_E_STORE, with what SQLite says about its latest failure. */
int cv__sqlite_failed(struct cv_sqlite *s, const char *doing, struct cv_errtext *reterr);

const char *cv__sqlite_column(sqlite3_stmt *q, int index);
void cv__sqlite_text(char *to, size_t bytes, const char *from); /* cut at its bound; NULL: empty */

/* Begins to write; hasty: its commit does not wait for the disk. */
CV_NODISCARD int cv__sqlite_begin(struct cv_sqlite *s, bool is_hasty, struct cv_errtext *reterr);
CV_NODISCARD int cv__sqlite_commit(struct cv_sqlite *s, struct cv_errtext *reterr);

/* Waits until everything that was committed is on the disk; false: that is not certain. */
bool cv__sqlite_log_sync(struct cv_sqlite *s);

/* Is a token reserved that may follow the one in the record? Uses it up. */
bool cv__sqlite_has_reserved(const struct cv_sqlite *s, uint64_t record_token);
uint64_t cv__sqlite_use_reserved(struct cv_sqlite *s, uint64_t record_token);

/* For a contender that waits, so that its grant takes no longer than necessary. */
void cv__sqlite_make_ready(struct cv_sqlite *s);
/* If the log has become long: as much of it as the others allow, without waiting for them. */
void cv__sqlite_log_write_back(struct cv_sqlite *s, bool is_closing);

/* Names come from the file, and others write it: nothing but a pipe of this folder is opened. */
bool cv__sqlite_pipe_is_valid(const char *pipe);
enum cv_lifeline_state cv__sqlite_pipe_look(const struct cv_sqlite *s, const char *pipe);
/* Does a command that was started under this leadership still run, or anything that it started? */
bool cv__sqlite_pipe_is_inherited(const struct cv_sqlite *s, const char *pipe);
/* Does a record name this pipe? If that cannot be told, yes. */
bool cv__sqlite_pipe_is_named(struct cv_sqlite *s, const char *pipe);
/* Its holder and its listeners keep it. */
void cv__sqlite_pipe_unlink(const struct cv_sqlite *s, const char *pipe);
/* Within a transaction: a pipe for a new leadership is open, and ret_pipe its name. */
CV_NODISCARD int cv__sqlite_pipe_take(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                      uint64_t token, char ret_pipe[CV_SQLITE_PIPE_BYTES],
                                      struct cv_errtext *reterr);

/* Within a transaction: the pipe of this process is open, under its name. */
bool cv__sqlite_pipe_share(struct cv_sqlite *s);
/* Within a transaction: the pipe by which this process is told what it is given is open. */
bool cv__sqlite_mail_open(struct cv_sqlite *s);
bool cv__sqlite_mail_is_valid(const char *mail);
void cv__sqlite_mail_unlink(struct cv_sqlite *s);

/* Touches the marker: contenders that watch the folder read the record again. */
void cv__sqlite_wake_others(const struct cv_sqlite *s, const struct cv_sqlite_contender *c);
/* The election was forgotten. */
void cv__sqlite_marker_remove(const struct cv_sqlite *s, const struct cv_sqlite_contender *c);

#endif
