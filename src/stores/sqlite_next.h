/* src/stores/sqlite_next.h - the next contender on SQLite registers in advance, and the holder's
 * RELEASE gives it the record, so that a hand-over takes one transaction.
 *
 * A waiting contender takes a token out of the sequence, registers with it (table conclave_next,
 * one row for each election), and waits until the registration is on the disk. The holder's RELEASE
 * writes the record of that contender instead of a free one, for a short time. Then it writes to
 * the contender's pipe (`mail`): the secret of the registration, the token, and the end. The
 * contender that reads its secret there holds the record without a request, and renews it at once.
 *
 * Why two contenders never hold it at once. For the file, such a RELEASE is a RELEASE and an
 * ACQUIRE by the contender in one transaction: it writes the record that this ACQUIRE would have
 * written, with the same label, attempt and pipe, but with an earlier end. No other contender takes
 * the record before that end, unless the contender's pipe is closed, and then the contender is
 * gone. Both processes use one clock (they compare the names of their boots), so the contender
 * counts on exactly that end, however late it reads the message. A message that is lost or late
 * costs only time: the contender asks, and its attempt holds the record, or the record ends.
 *
 * Why each token is used once, and tokens grow. The token was taken out of the sequence for this
 * registration, and is used for nothing else. It is on the disk before the contender believes a
 * message: the loop does not know a registration that may not be on the disk, so its contender asks
 * the file, which waits for the disk. The token replaces only a smaller one. So a registration is
 * void after it was used, and after every later leadership.
 *
 * Why each protection exists:
 * - The secret belongs to one registration. Every user that may read the file knows it. Writing to
 *   the pipe needs the right to write to the folder, which is also the right to hold any election
 *   of the file. So a message is true, or comes from a user that could do worse.
 * - The pipe must have a reader when the record is given, so a dead contender gets nothing. If the
 *   contender dies a moment later, the pipe that the record names is closed, and the other
 *   contenders take over at once.
 * - The short time. A stopped contender may get the record. Then there is no leader for half a
 *   second, not for a lease.
 * - The attempt. An attempt that is over asks for RELEASE, which removes its registration, or frees
 *   the record if it was given meanwhile.
 *
 * Only contenders without descendants register. The others (`conclave run`) have a pipe for each
 * leadership, which their commands inherit. Also, no command is started when less than its grace is
 * left, and the grace is longer than the short time: `run` would have to wait for its renewal, and
 * gain nothing. Its RELEASE does give the record to others. Contenders of earlier versions neither
 * register nor give, and do not know the table: for them the record is free or held, as before. */
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

/* Must this attempt be registered to follow the leadership with this token? */
bool cv__sqlite_next_is_wanted(const struct cv_sqlite_contender *c, uint64_t attempt,
                               uint64_t token);

/* Is the place of the next one free, or the contender's own? Then it may register. */
bool cv__sqlite_next_is_vacant(struct cv_sqlite *s, const struct cv_sqlite_contender *c);

/* Within a transaction: makes sure that the pipes that a registration names are open. */
CV_NODISCARD bool cv__sqlite_next_can_be_told(struct cv_sqlite *s);

/* Within a transaction: registers the contender, with a token that was taken for this. */
CV_NODISCARD bool cv__sqlite_next_register(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                           uint64_t token);

/* Within a transaction: finds the contender that gets the record, and a descriptor of its pipe.
 * False: no living contender that may follow is registered, or another heir is named (empty: any).
 */
bool cv__sqlite_next_find(struct cv_sqlite *s, const struct cv_sqlite_contender *c,
                          const char *heir, struct cv_sqlite_next *ret_next, int *ret_mail);

/* Within a transaction: the contender does not want to be next any more. */
CV_NODISCARD int cv__sqlite_next_withdraw(struct cv_sqlite *s, struct cv_sqlite_contender *c,
                                          struct cv_errtext *reterr);

/* After the commit: tells the contender, and closes the descriptor. */
void cv__sqlite_mail_send(int mail, const struct cv_sqlite_mail *text);

#endif
