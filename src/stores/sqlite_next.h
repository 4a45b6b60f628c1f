/* src/stores/sqlite_next.h - the next contender on SQLite: it registers in advance, and
 * the holder's RELEASE gives the record to it, so that a hand-over is one transaction.
 *
 * A contender that waits takes a token out of the sequence, registers with it (table conclave_next,
 * one row for each election), and waits for the disk. The holder's RELEASE writes the record of
 * that contender instead of a free one, for a short time, and tells the contender through a pipe of
 * its own (`mail`): the secret that it registered with, the token, and the end. The contender that
 * reads its secret there holds the record, without asking the file, and renews it at once.
 *
 * Why two never hold it at once. To the file, a RELEASE that gives is a RELEASE and then an ACQUIRE
 * by the contender, in one transaction: the record that is written is the one that its ACQUIRE
 * would have written, with the same label, attempt and pipe, and an earlier end. Nobody else takes
 * the record before that end, unless the contender's pipe is closed, and then the contender is
 * gone. Both processes have one clock (the boot's name says so, which is compared), so the
 * contender counts on exactly that end, whenever it reads of it. What is not read, or too late,
 * costs time only: the contender asks, and its attempt holds the record, or its end comes.
 *
 * Why tokens are given out once, and grow. The token was taken out of the sequence for this
 * registration and is used for nothing else. It is on the disk as given out before the contender
 * believes what it reads: a registration that may not be is not known to the loop, and its
 * contender asks the file, which waits for the disk. The token is used only in place of a smaller
 * one, so a registration is used up by its own use, and by every later leadership.
 *
 * What each protection is for:
 * - The secret. It belongs to one registration and is known to those who may read the file; to
 *   write to the pipe takes the right to write to the folder, which is the right to hold any
 *   election of the file. So a message tells the truth, or comes from somebody who can do worse.
 * - The pipe has a reader when the record is given: the dead get nothing. If the contender dies a
 *   moment later, the pipe that the record names is closed, and the others take over at once.
 * - The short time. One that is stopped gets the record; then nobody leads for half a second, and
 *   not for a lease.
 * - The attempt. One that is over asks for RELEASE, which takes back the registration, or the
 *   record if that was given meanwhile.
 *
 * Only contenders without descendants register. The others (`conclave run`) have a pipe for each
 * leadership, which their commands inherit; and no command is started when less than its grace is
 * left, which is longer than the short time: `run` would wait for the renewal, and gain nothing. It
 * does give. Contenders of earlier versions neither register nor give, and do not know the table:
 * to them the record is free or held, as ever. */
#ifndef CV_STORES_SQLITE_NEXT_H
#define CV_STORES_SQLITE_NEXT_H

#include "core/types.h"

#include <conclave/conclave.h>

struct cv_sqlite;
struct cv_sqlite_contender;

#define CV_SQLITE_GIVEN_NS_MAX (500 * INT64_C(1000000)) /* until the new holder has renewed it */

/* What is written to the pipe of the contender that was given the record. */
struct cv_sqlite_mail {
    uint64_t secret, token;
    int64_t expires_ns; /* by the clock of this boot */
};

/* A registration, as the file has it. */
struct cv_sqlite_next {
    uint64_t label, attempt, token, secret;
    int64_t lease_ns;
    char node[128], version[16], pipe[48], mail[48];
};

/* Has this attempt to be registered, if it is to follow the leadership with this token? */
bool cv__sqlite_next_is_wanted(const struct cv_sqlite_contender *c, uint64_t attempt,
                               uint64_t token);

/* Is the place of the next one free, or the contender's own? Then it may register. */
bool cv__sqlite_next_is_vacant(struct cv_sqlite *s, const struct cv_sqlite_contender *c);

/* Within a transaction: the pipes are open that a registration names. */
CV_NODISCARD bool cv__sqlite_next_can_be_told(struct cv_sqlite *s);

/* Within a transaction: registers the contender, with a token that was taken for this. */
CV_NODISCARD bool cv__sqlite_next_register(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                           uint64_t token);

/* Within a transaction: whom the record is to be given to, and a descriptor by which it is told.
 * False: nobody is registered who lives and may follow, or another heir is named (empty: anybody).
 */
bool cv__sqlite_next_find(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                          const char *heir, struct cv_sqlite_next *ret_next, int *ret_mail);

/* Within a transaction: the contender does not want to be next any more. */
CV_NODISCARD int cv__sqlite_next_withdraw(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                          struct cv_errtext *reterr);

/* After the commit: tells the contender, and closes the descriptor. */
void cv__sqlite_mail_send(int mail, const struct cv_sqlite_mail *text);

#endif
