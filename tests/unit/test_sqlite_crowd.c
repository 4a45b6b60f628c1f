/* tests/unit/test_sqlite_crowd.c - many contenders of one process at one SQLite file. */
#include "stores/lifeline.h"
#include "support/sqlite_seats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CROWD 40

struct crowd {
    struct cv_sqlite_contender is[CROWD];
    struct cv_sqlite_job job[CROWD];
};

static void crowd_ask(struct fixture *f, struct crowd *crowd, enum cv_store_verb verb)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        const uint64_t token = crowd->is[i].pipe_token;
        crowd->job[i] = (struct cv_sqlite_job){
            .next = i + 1 < CROWD ? &crowd->job[i + 1] : NULL,
            .contender = &crowd->is[i],
            .request = {
                .verb = verb, .request = i + 1, .attempt = 1, .token = token, .lease_ns = LEASE}};
    }
    cv__sqlite_do(&f->a.file, crowd->job);
}

static struct crowd *crowd_new(struct fixture *f)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    for (uint32_t i = 0; i < CROWD; i++) {
        char election[32];
        (void)snprintf(election, sizeof election, "job %u", (unsigned)i);
        cv__sqlite_join(&crowd->is[i], election, "a", 100 + i, /* has_descendants= */ false);
    }
    crowd_ask(f, crowd, CV_STORE_ACQUIRE);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd->job[i].answer.verdict, CV_STORE_GRANTED);
        assert_true(i == 0 || crowd->job[i].answer.token > crowd->job[i - 1].answer.token);
    }
    return crowd;
}

static uint32_t descriptor_count(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct stat unused;
        count += fstat(fd, &unused) == 0;
    }
    return count;
}

/* Another process asks for this election of the crowd; returns the verdict. */
static enum cv_store_verdict rival(struct fixture *f, uint32_t index)
{
    char election[32];
    (void)snprintf(election, sizeof election, "job %u", (unsigned)index);
    cv__sqlite_leave(&f->b.is);
    cv__sqlite_join(&f->b.is, election, "b", UINT64_MAX, /* has_descendants= */ true);
    return ask(f, &f->b, CV_STORE_ACQUIRE, 1 + index, 0);
}

static void elections_of_one_process_share_a_pipe(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint32_t before = descriptor_count();
    struct crowd *crowd = crowd_new(f);
    assert_true(descriptor_count() <= before + 1);
    crowd_ask(f, crowd, CV_STORE_RENEW);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd->job[i].answer.verdict, CV_STORE_GRANTED);
    }
    assert_int_equal(rival(f, 3), CV_STORE_HELD);
    /* The pipe stays open, but not for the election that was released. */
    crowd->job[3].next = NULL;
    crowd->job[3].request.verb = CV_STORE_RELEASE;
    cv__sqlite_do(&f->a.file, &crowd->job[3]);
    assert_int_equal(rival(f, 3), CV_STORE_GRANTED);
    assert_int_equal(rival(f, 4), CV_STORE_HELD);
    /* An election that leaves without a release is waited for, but not longer than its lease. */
    cv__sqlite_leave(&crowd->is[4]);
    assert_int_equal(rival(f, 4), CV_STORE_HELD);
    assert_int_equal(rival(f, 4), CV_STORE_HELD);
    fake_now_ns += f->answer.duration_ns;
    assert_int_equal(rival(f, 4), CV_STORE_GRANTED);
    fixture_free(f);
    free(crowd);
}

static void end_of_the_process_frees_all_its_elections(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    struct crowd *crowd = crowd_new(f);
    char pipe[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(&f->a.file, f->a.file.pipe, pipe);
    leave(&f->a);
    struct stat unused_stat;
    assert_int_equal(lstat(pipe, &unused_stat), 0); /* records name it */
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(rival(f, i), CV_STORE_GRANTED);
    }
    assert_int_equal(lstat(pipe, &unused_stat), -1); /* the last election removed it */
    contender(f, &f->a, "job", "a", 0xa);
    fixture_free(f);
    free(crowd);
}

/* Nobody can listen to a pipe whose name was removed: the next leadership gets a new one. */
static void removed_pipe_is_replaced(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    struct crowd *crowd = crowd_new(f);
    char pipe[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(&f->a.file, f->a.file.pipe, pipe);
    assert_int_equal(unlink(pipe), 0);
    crowd->job[0].next = NULL;
    crowd->job[0].request.verb = CV_STORE_RELEASE;
    cv__sqlite_do(&f->a.file, &crowd->job[0]);
    crowd->job[0].request.verb = CV_STORE_ACQUIRE;
    crowd->job[0].request.attempt = 2;
    cv__sqlite_do(&f->a.file, &crowd->job[0]);
    assert_int_equal(crowd->job[0].answer.verdict, CV_STORE_GRANTED);
    assert_true(crowd->is[0].pipe_fd >= 0);
    assert_int_equal(rival(f, 0), CV_STORE_HELD);
    cv__sqlite_leave(&crowd->is[0]);
    assert_int_equal(rival(f, 0), CV_STORE_GRANTED);
    fixture_free(f);
    free(crowd);
}

/* A new leader waits for the disk and for nothing else: all other work is done later. */
static void grant_is_answered_before_the_clean_up(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    assert_int_equal(ask(f, &f->a, CV_STORE_ACQUIRE, 1, 0), CV_STORE_GRANTED);
    char before[CV_SQLITE_PATH_BYTES];
    cv__sqlite_pipe(&f->a.file, f->a.is.pipe, before);
    cv__sqlite_leave(&f->a.is); /* it has died */
    struct cv_sqlite_job job = {
        .contender = &f->b.is,
        .request = {.verb = CV_STORE_ACQUIRE, .request = 7, .attempt = 1, .lease_ns = LEASE}};
    cv__sqlite_do(&f->b.file, &job);
    assert_int_equal(job.answer.verdict, CV_STORE_GRANTED);
    assert_true(job.is_untidy);
    assert_int_equal(access(before, F_OK), 0);
    cv__sqlite_tidy(&f->b.file, &job);
    assert_false(job.is_untidy);
    assert_int_equal(access(before, F_OK), -1);
    fixture_free(f);
}

/* When a process is killed, the kernel closes its highest descriptors first. */
static void pipe_of_a_holder_has_a_high_descriptor(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(ask(f, &f->a, CV_STORE_ACQUIRE, 1, 0), CV_STORE_GRANTED);
    assert_true(f->a.is.pipe_fd > low + 100);
    assert_int_equal(fcntl(f->a.is.pipe_fd, F_GETFD), FD_CLOEXEC);
    (void)close(low);
    fixture_free(f);
}

/* The file cannot store the row of one election; the requests of the others succeed. */
static void one_failing_election_does_not_fail_the_others(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    sql(f, "CREATE TRIGGER t BEFORE INSERT ON conclave_election WHEN NEW.election = 'job 7'"
           " BEGIN SELECT RAISE(FAIL, 'no seven'); END");
    struct crowd *crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    for (uint32_t i = 0; i < CROWD; i++) {
        char election[32];
        (void)snprintf(election, sizeof election, "job %u", (unsigned)i);
        cv__sqlite_join(&crowd->is[i], election, "a", 100 + i, /* has_descendants= */ false);
    }
    crowd_ask(f, crowd, CV_STORE_ACQUIRE);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(crowd->job[i].answer.verdict, i == 7 ? CV_STORE_FAILED : CV_STORE_GRANTED);
    }
    assert_non_null(strstr(crowd->job[7].answer.why, "no seven"));
    fixture_free(f);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elections_of_one_process_share_a_pipe),
        cmocka_unit_test(end_of_the_process_frees_all_its_elections),
        cmocka_unit_test(removed_pipe_is_replaced),
        cmocka_unit_test(grant_is_answered_before_the_clean_up),
        cmocka_unit_test(pipe_of_a_holder_has_a_high_descriptor),
        cmocka_unit_test(one_failing_election_does_not_fail_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
