/* tests/support/sqlite_seats.h - two processes with one contender each, on one SQLite file, with a
 * clock that the test sets. */
#ifndef CV_TESTS_SQLITE_SEATS_H
#define CV_TESTS_SQLITE_SEATS_H

#include "stores/sqlite_record.h"
#include "support/support.h"

#define SECOND INT64_C(1000000000)
#define LEASE (5 * SECOND)

extern int64_t fake_now_ns;
int64_t fake_now(void);

/* A process with one contender. */
struct seat {
    struct cv_sqlite file;
    struct cv_sqlite_contender is;
};

struct fixture {
    char folder[TEST_FOLDER_BYTES];
    char path[96];
    struct seat a, b;
    struct cv_store_answer answer;
    struct cv_store_record record;
    struct cv_errtext error;
};

void contender(struct fixture *f, struct seat *s, const char *election, const char *node,
               uint64_t label);
void leave(struct seat *s);
struct fixture *fixture_new(void);
void fixture_free(struct fixture *f);

/* Each carries out its request at once; the fixture has the answer, too. */
enum cv_store_verdict carry_out(struct fixture *f, struct seat *s, struct cv_sqlite_job job);
enum cv_store_verdict ask(struct fixture *f, struct seat *s, enum cv_store_verb verb,
                          uint64_t attempt, uint64_t token);
enum cv_store_verdict request_resign(struct fixture *f, struct seat *s, const char *heir);
uint64_t acquire(struct fixture *f, struct seat *s, uint64_t attempt); /* returns the token */
void sql(struct fixture *f, const char *text);

#endif
