/* tests/unit/test_sqlite_record.c - the record in a SQLite file, judged by a clock of the test's.
 */
#include "stores/lifeline.h"
#include "stores/sqlite_record.h"
#include "support/support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define LEASE (5 * SECOND)

static int64_t fake_now_ns;

static int64_t fake_now(void)
{
    return fake_now_ns;
}

struct fixture {
    char folder[64];
    char path[96];
    struct cv_sqlite a, b; /* two contenders */
    struct cv_store_answer answer;
    struct cv_store_record record;
    struct cv_errtext error;
};

static void contender(struct fixture *f, struct cv_sqlite *s, const char *node, uint64_t label)
{
    assert_int_equal(cv__sqlite_open(s, f->path, "job", node, label, &f->error), CV_OK);
    s->now_ns = fake_now;
}

static struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/conclave-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof f->path, "%s/e.db", f->folder);
    fake_now_ns = 1000 * SECOND;
    contender(f, &f->a, "a", 0xa);
    contender(f, &f->b, "b", UINT64_MAX);
    return f;
}

static void fixture_free(struct fixture *f)
{
    cv__sqlite_close(&f->a);
    cv__sqlite_close(&f->b);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r %s", f->folder);
    assert_int_equal(system(command), 0);
    free(f);
}

static enum cv_store_verdict ask(struct fixture *f, struct cv_sqlite *s, enum cv_store_verb verb,
                                 uint64_t attempt, uint64_t token)
{
    const struct cv_store_request request = {
        .verb = verb, .request = 7, .attempt = attempt, .token = token, .lease_ns = LEASE};
    cv__sqlite_do(s, &request, &f->answer, &f->record, &f->error);
    assert_int_equal(f->answer.request, 7);
    return f->answer.verdict;
}

static uint64_t acquire(struct fixture *f, struct cv_sqlite *s, uint64_t attempt)
{
    assert_int_equal(ask(f, s, CV_STORE_ACQUIRE, attempt, 0), CV_STORE_GRANTED);
    assert_int_equal(f->answer.duration_ns, LEASE);
    return f->answer.token;
}

static void sql(struct fixture *f, const char *text)
{
    assert_int_equal(sqlite3_exec(f->a.db, text, NULL, NULL, NULL), SQLITE_OK);
}

static void one_holds_it_and_the_other_is_told_how_long(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 0, 0), CV_STORE_FREE);
    const uint64_t token = acquire(f, &f->a, 1);
    fake_now_ns += SECOND;
    assert_int_equal(ask(f, &f->a, CV_STORE_READ, 0, 0), CV_STORE_HELD); /* by itself */
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_int_equal(f->answer.token, token);
    assert_int_equal(f->answer.holder, 0xa);
    assert_int_equal(f->answer.duration_ns, LEASE - SECOND);
    assert_string_equal(f->record.node, "a");
    assert_int_equal(f->record.lease_ns, LEASE);
    fixture_free(f);
}

static void same_attempt_again_is_the_same_grant(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    assert_int_equal(acquire(f, &f->a, 1), token);
    fake_now_ns += 2 * LEASE; /* nobody else came: it is still ours */
    assert_int_equal(acquire(f, &f->a, 1), token);
    assert_true(acquire(f, &f->a, 2) > token);
    fixture_free(f);
}

static void lease_runs_out_at_its_instant_and_not_before(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    fake_now_ns += LEASE - 1;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += 1;
    assert_true(acquire(f, &f->b, 1) > token);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_HELD);
    assert_int_equal(f->answer.holder, UINT64_MAX);
    fixture_free(f);
}

static void renewal_prolongs(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    for (int i = 0; i < 10; i++) {
        fake_now_ns += LEASE - 1;
        assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
        assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    }
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 2, token), CV_STORE_HELD); /* not that attempt */
    fixture_free(f);
}

/* [traps.md T26] The lease of the holder governs, whatever the other one would have asked for. */
static void length_of_the_holder_governs(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const struct cv_store_request request = {
        .verb = CV_STORE_ACQUIRE, .request = 1, .attempt = 1, .lease_ns = 30 * SECOND};
    cv__sqlite_do(&f->a, &request, &f->answer, &f->record, &f->error);
    assert_int_equal(f->answer.verdict, CV_STORE_GRANTED);
    fake_now_ns += 2 * LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_int_equal(f->answer.duration_ns, 20 * SECOND);
    fixture_free(f);
}

static void released_is_free_at_once(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    assert_int_equal(ask(f, &f->b, CV_STORE_RELEASE, 1, token), CV_STORE_FREE); /* not its own */
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 0, 0), CV_STORE_HELD);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FREE);
    assert_true(acquire(f, &f->b, 1) > token);
    fixture_free(f);
}

static void others_keep_back_for_an_heir_for_a_while(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    for (int i = 0; i < 2; i++) {
        acquire(f, &f->a, 1);
        const struct cv_store_request request = {
            .verb = CV_STORE_RELEASE, .request = 1, .attempt = 1, .heir = i == 0 ? "b" : "c"};
        cv__sqlite_do(&f->a, &request, &f->answer, &f->record, &f->error);
        assert_int_equal(ask(f, &f->a, CV_STORE_ACQUIRE, 2, 0), CV_STORE_HELD);
        fake_now_ns += f->answer.duration_ns - 1;
        if (i == 0) {
            acquire(f, &f->b, 1);
            assert_int_equal(ask(f, &f->b, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
        } else {
            assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 2, 0), CV_STORE_HELD);
            fake_now_ns += 1;
            acquire(f, &f->b, 2);
        }
    }
    fixture_free(f);
}

static void cut_lifeline_spares_the_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    const int inherited = dup(f->a.held); /* a descendant's copy */
    cv__sqlite_close(&f->a);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    close(inherited);
    assert_true(acquire(f, &f->b, 1) > token);
    contender(f, &f->a, "a", 0xa);
    fixture_free(f);
}

/* The commit failed, or so it looked; the record was written all the same. */
static void grant_that_was_found_again_has_a_lifeline(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    close(f->a.held);
    f->a.held = -1;
    assert_int_equal(acquire(f, &f->a, 1), token);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    close(f->a.held);
    f->a.held = -1;
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_HELD); /* nobody hears us */
    fixture_free(f);
}

static void copies_of_a_lifeline_keep_it(void **unused)
{
    (void)unused;
    char path[] = "/tmp/conclave-line-XXXXXX";
    close(mkstemp(path));
    const int held = cv__lifeline_hold(path); /* replaces the leftover */
    assert_true(held >= 0);
    const int listening = cv__lifeline_listen(path);
    const int copy = dup(held);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_HELD);
    close(held);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_HELD);
    close(copy);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_CUT);
    close(listening);
    unlink(path);
    assert_int_equal(cv__lifeline_look(path), CV_LIFELINE_UNKNOWN);
    assert_true(cv__lifeline_hold("/nowhere/at/all") < 0);
}

static void after_a_reboot_nobody_holds_it(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)snprintf(f->a.machine, sizeof f->a.machine, "m");
    (void)snprintf(f->b.machine, sizeof f->b.machine, "m");
    const uint64_t token = acquire(f, &f->a, 1);
    (void)snprintf(f->b.boot, sizeof f->b.boot, "the next one");
    fake_now_ns = SECOND; /* that clock began again */
    assert_true(acquire(f, &f->b, 1) > token);
    fixture_free(f);
}

/* A file on a network disk is a mistake; it must not make two leaders all the same. */
static void record_of_another_machine_is_watched_for_a_whole_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)snprintf(f->b.machine, sizeof f->b.machine, "elsewhere");
    const uint64_t token = acquire(f, &f->a, 1);
    (void)snprintf(f->b.boot, sizeof f->b.boot, "elsewhere");
    fake_now_ns += 100 * LEASE; /* says nothing: the clocks have nothing to do with each other */
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += LEASE;
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += f->answer.duration_ns;
    assert_true(acquire(f, &f->b, 1) > token);
    fixture_free(f);
}

static void tokens_grow_even_if_everything_was_deleted(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    uint64_t token = 0;
    for (uint64_t i = 1; i <= 50; i++) {
        const uint64_t next = acquire(f, i % 2 == 0 ? &f->a : &f->b, i);
        assert_true(next > token);
        token = next;
        fake_now_ns += LEASE;
        if (i % 10 == 0) {
            sql(f, "DELETE FROM conclave_election; DELETE FROM conclave_history");
        }
    }
    fixture_free(f);
}

static void wish_is_left_with_the_holder_until_the_next(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    cv__sqlite_wish(&f->b, NULL, &f->answer, &f->record, &f->error);
    assert_int_equal(f->answer.verdict, CV_STORE_FREE);
    const uint64_t token = acquire(f, &f->a, 1);
    cv__sqlite_wish(&f->b, "b", &f->answer, &f->record, &f->error);
    assert_int_equal(f->answer.verdict, CV_STORE_HELD);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    assert_string_equal(f->record.wish, "b");
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_FREE);
    acquire(f, &f->b, 1);
    assert_string_equal(f->record.wish, "");
    cv__sqlite_wish(&f->a, NULL, &f->answer, &f->record, &f->error);
    assert_string_equal(f->record.wish, "*");
    fixture_free(f);
}

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
    assert_int_equal(cv__sqlite_history(&f->a, past_add, NULL, &f->error), CV_OK);
    assert_string_equal(past_text, "a resigned; b expired; a leads; ");
    fixture_free(f);
}

static void file_that_is_none_of_ours_is_refused(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    struct cv_sqlite s;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/text", f->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++) {
        fputs("this is no database\n", file);
    }
    fclose(file);
    assert_int_equal(cv__sqlite_open(&s, path, "job", "n", 1, &f->error), CV_E_STORE);
    assert_non_null(strstr(f->error.text, "not a database"));
    cv__sqlite_close(&s);
    assert_int_equal(cv__sqlite_open(&s, "/nowhere/e.db", "job", "n", 1, &f->error), CV_E_STORE);
    assert_non_null(strstr(f->error.text, "/nowhere/e.db"));
    cv__sqlite_close(&s);
    fixture_free(f);
}

static void elections_of_one_file_are_apart(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    cv__sqlite_close(&f->b);
    assert_int_equal(cv__sqlite_open(&f->b, f->path, "other 'job'", "b", 2, &f->error), CV_OK);
    f->b.now_ns = fake_now;
    assert_true(acquire(f, &f->b, 1) != token);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    fixture_free(f);
}

static void names_are_text(void **unused)
{
    (void)unused;
    char name[300];
    memset(name, 'x', sizeof name);
    name[255] = '\0';
    assert_true(cv__election_name_is_valid(name));
    name[255] = 'x';
    name[256] = '\0';
    assert_false(cv__election_name_is_valid(name));
    assert_true(cv__election_name_is_valid("a b/c'\"%;ü€𝄞"));
    static const char *const bad[] = {
        "", "a\nb", "\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cv__election_name_is_valid(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holds_it_and_the_other_is_told_how_long),
        cmocka_unit_test(same_attempt_again_is_the_same_grant),
        cmocka_unit_test(lease_runs_out_at_its_instant_and_not_before),
        cmocka_unit_test(renewal_prolongs),
        cmocka_unit_test(length_of_the_holder_governs),
        cmocka_unit_test(released_is_free_at_once),
        cmocka_unit_test(others_keep_back_for_an_heir_for_a_while),
        cmocka_unit_test(cut_lifeline_spares_the_lease),
        cmocka_unit_test(grant_that_was_found_again_has_a_lifeline),
        cmocka_unit_test(copies_of_a_lifeline_keep_it),
        cmocka_unit_test(after_a_reboot_nobody_holds_it),
        cmocka_unit_test(record_of_another_machine_is_watched_for_a_whole_lease),
        cmocka_unit_test(tokens_grow_even_if_everything_was_deleted),
        cmocka_unit_test(wish_is_left_with_the_holder_until_the_next),
        cmocka_unit_test(every_leadership_is_in_the_history),
        cmocka_unit_test(file_that_is_none_of_ours_is_refused),
        cmocka_unit_test(elections_of_one_file_are_apart),
        cmocka_unit_test(names_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
