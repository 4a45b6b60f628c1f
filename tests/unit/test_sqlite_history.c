/* tests/unit/test_sqlite_history.c - what a SQLite file says of leaderships that are over. */
#include "os/clock.h"
#include "support/sqlite_seats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static char past_text[512];

static void past_add(void *user, const struct cv_store_past *past)
{
    (void)user;
    const size_t used = strlen(past_text);
    (void)snprintf(past_text + used, sizeof past_text - used, "%s %s%s; ", past->node,
                   past->to_wall_ns == 0 ? "leads" : past->why,
                   past->to_wall_ns != 0 && past->to_wall_ns < past->from_wall_ns ? " ???" : "");
}

static void every_leadership_is_in_the_history(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    acquire(f, &f->a, 1);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    acquire(f, &f->b, 1);
    fake_now_ns += LEASE;
    acquire(f, &f->a, 2);
    past_text[0] = '\0';
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", past_add, NULL, &f->error), CV_OK);
    assert_string_equal(past_text, "a resigned; b expired; a leads; ");
    fixture_free(f);
}

/* Its process is gone, but nobody looks before its lease is over, too. */
static void leader_that_died_is_not_reported_as_late(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    acquire(f, &f->a, 1);
    leave(&f->a);
    fake_now_ns += LEASE / 2;
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 0, 0), CV_STORE_FREE);
    assert_int_equal(f->record.ended, CV_REASON_DIED);
    fake_now_ns += LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 0, 0), CV_STORE_FREE);
    assert_int_equal(f->record.ended, CV_REASON_DIED);
    acquire(f, &f->b, 1);
    cv__sqlite_leave(&f->b.is); /* this process goes on */
    fake_now_ns += LEASE;
    acquire(f, &f->b, 2);
    past_text[0] = '\0';
    assert_int_equal(cv__sqlite_history(&f->b.file, "job", past_add, NULL, &f->error), CV_OK);
    assert_string_equal(past_text, "a died; b expired; b leads; ");
    contender(f, &f->a, "job", "a", 0xa);
    fixture_free(f);
}

static struct cv_store_past past_last;

static void past_keep(void *user, const struct cv_store_past *past)
{
    (void)user;
    past_last = past->to_wall_ns != 0 ? *past : past_last;
}

/* The test sets the clock of leases, not the wall clock: puts the beginning further back. */
static void past_began_ago(struct fixture *f, int64_t began_ns_ago)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "UPDATE conclave_election SET since_wall_ns = since_wall_ns - %" PRId64 ";"
                   "UPDATE conclave_history SET from_wall_ns = from_wall_ns - %" PRId64,
                   began_ns_ago, began_ns_ago);
    sql(f, text);
}

/* The file was locked, so the release is written later than it was asked for. */
static void leadership_ends_when_its_release_was_asked_for(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    acquire(f, &f->a, 1);
    past_began_ago(f, 3 * LEASE);
    fake_now_ns += 3 * SECOND;
    const int64_t asked_wall_ns = cv__clock_wall_ns() - 2 * SECOND;
    const struct cv_sqlite_job late = {
        .released_ns = fake_now_ns - 2 * SECOND,
        .request = {.request = 1, .verb = CV_STORE_RELEASE, .attempt = 1}};
    assert_int_equal(carry_out(f, &f->a, late), CV_STORE_FREE);
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", past_keep, NULL, &f->error), CV_OK);
    assert_in_range(past_last.to_wall_ns - asked_wall_ns, 0, SECOND);
    fixture_free(f);
}

static void leadership_that_is_released_late_ended_with_its_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    acquire(f, &f->a, 1);
    past_began_ago(f, 3 * LEASE);
    fake_now_ns += LEASE + 3 * SECOND;
    const int64_t lapsed_wall_ns = cv__clock_wall_ns() - 3 * SECOND;
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", past_keep, NULL, &f->error), CV_OK);
    assert_in_range(past_last.to_wall_ns - lapsed_wall_ns, 0, SECOND);
    fixture_free(f);
}

/* One that takes its own lease again, for example after an outage, says why it lost it. */
static void contender_that_comes_back_says_why_it_lost_the_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    acquire(f, &f->a, 1);
    fake_now_ns += LEASE;
    struct cv_sqlite_job again = {.request = {.request = 1,
                                              .verb = CV_STORE_ACQUIRE,
                                              .attempt = 2,
                                              .lease_ns = LEASE,
                                              .reason = CV_REASON_STORE_UNREACHABLE}};
    assert_int_equal(carry_out(f, &f->a, again), CV_STORE_GRANTED);
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", past_keep, NULL, &f->error), CV_OK);
    assert_string_equal(past_last.why, "store-unreachable");
    fake_now_ns += LEASE;
    assert_int_equal(carry_out(f, &f->b, again), CV_STORE_GRANTED); /* it knows nothing of a's */
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", past_keep, NULL, &f->error), CV_OK);
    assert_string_equal(past_last.why, "expired");
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_leadership_is_in_the_history),
        cmocka_unit_test(leader_that_died_is_not_reported_as_late),
        cmocka_unit_test(leadership_ends_when_its_release_was_asked_for),
        cmocka_unit_test(leadership_that_is_released_late_ended_with_its_lease),
        cmocka_unit_test(contender_that_comes_back_says_why_it_lost_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
