/* tests/support/sqlite_seats.c - see sqlite_seats.h. */
#include "support/sqlite_seats.h"

#include <stdlib.h>

int64_t fake_now_ns;

int64_t fake_now(void)
{
    return fake_now_ns;
}

void contender(struct fixture *f, struct seat *s, const char *election, const char *node,
               uint64_t label)
{
    assert_int_equal(cv__sqlite_open(&s->file, f->path, &f->error), CV_OK);
    s->file.now_ns = fake_now;
    cv__sqlite_join(&s->is, election, node, label, /* has_descendants= */ true);
}

void leave(struct seat *s)
{
    cv__sqlite_leave(&s->is);
    cv__sqlite_close(&s->file);
}

struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(test_folder_make(f->folder));
    (void)snprintf(f->path, sizeof f->path, "%s/e.db", f->folder);
    fake_now_ns = 1000 * SECOND;
    contender(f, &f->a, "job", "a", 0xa);
    contender(f, &f->b, "job", "b", UINT64_MAX);
    return f;
}

void fixture_free(struct fixture *f)
{
    leave(&f->a);
    leave(&f->b);
    assert_int_equal(test_folder_remove(f->folder), 0);
    free(f);
}

enum cv_store_verdict carry_out(struct fixture *f, struct seat *s, struct cv_sqlite_job job)
{
    job.contender = &s->is;
    cv__sqlite_do(&s->file, &job);
    if (job.is_untidy) {
        cv__sqlite_tidy(&s->file, &job);
    }
    f->answer = job.answer;
    f->record = job.record;
    f->error = job.error;
    f->answer.why = f->error.text; /* the job's own text is freed with it */
    assert_int_equal(f->answer.request, job.request.request);
    return f->answer.verdict;
}

enum cv_store_verdict ask(struct fixture *f, struct seat *s, enum cv_store_verb verb,
                          uint64_t attempt, uint64_t token)
{
    return carry_out(f, s,
                     (struct cv_sqlite_job){.request = {.verb = verb,
                                                        .request = 7,
                                                        .attempt = attempt,
                                                        .token = token,
                                                        .lease_ns = LEASE}});
}

enum cv_store_verdict request_resign(struct fixture *f, struct seat *s, const char *heir)
{
    struct cv_sqlite_job job = {.request = {.request = 8}, .asks_resign = true};
    (void)snprintf(job.heir, sizeof job.heir, "%s", heir);
    return carry_out(f, s, job);
}

uint64_t acquire(struct fixture *f, struct seat *s, uint64_t attempt)
{
    assert_int_equal(ask(f, s, CV_STORE_ACQUIRE, attempt, 0), CV_STORE_GRANTED);
    assert_int_equal(f->answer.duration_ns, LEASE);
    return f->answer.token;
}

void sql(struct fixture *f, const char *text)
{
    assert_int_equal(sqlite3_exec(f->a.file.db, text, NULL, NULL, NULL), SQLITE_OK);
}
