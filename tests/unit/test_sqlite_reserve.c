/* tests/unit/test_sqlite_reserve.c - tokens reserved in advance: none is used twice after a power
 * failure. */
#include "support/sqlite_seats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- A disk that may lose what was not synced ------------------------------------------------ */

static struct {
    const sqlite3_io_methods *real;
    sqlite3_io_methods methods;
    char path[96]; /* of the file; its copy ends in ".disk" */
    bool is_broken;
    uint32_t sync_count;
} disk;

/* A synced write is on the disk, which is a copy of the file and its log. */
static int on_sync(sqlite3_file *log, int flags)
{
    char command[1024];
    if (disk.is_broken) {
        return SQLITE_IOERR_FSYNC;
    }
    disk.sync_count++;
    (void)snprintf(command, sizeof command, "cp %s %s.disk && cp %s-wal %s.disk-wal", disk.path,
                   disk.path, disk.path, disk.path);
    assert_int_equal(system(command), 0);
    return disk.real->xSync(log, flags);
}

static void disk_under(struct seat *s)
{
    sqlite3_file *log = NULL;
    assert_int_equal(sqlite3_file_control(s->file.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log),
                     SQLITE_OK);
    assert_non_null(log->pMethods);
    disk.real = log->pMethods;
    disk.methods = *log->pMethods;
    disk.methods.xSync = on_sync;
    log->pMethods = &disk.methods;
}

/* a holds the record; the files of a and b are on this disk. */
static struct fixture *fixture_with_disk(uint64_t *ret_token)
{
    struct fixture *f = fixture_new();
    *ret_token = acquire(f, &f->a, 1); /* the log exists from now on */
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    memset(&disk, 0, sizeof disk);
    (void)snprintf(disk.path, sizeof disk.path, "%s", f->path);
    disk_under(&f->a);
    disk_under(&f->b);
    return f;
}

/* The next token that is granted from the contents of the disk, after a reboot. */
static uint64_t token_after_power_failure(const struct fixture *f)
{
    struct fixture *later = calloc(1, sizeof *later);
    char command[1024];
    assert_non_null(later);
    (void)snprintf(later->path, sizeof later->path, "%s/later", f->folder);
    (void)snprintf(command, sizeof command,
                   "rm -f %s*; cp %s.disk %s && cp %s.disk-wal %s-wal && chmod 600 %s", later->path,
                   f->path, later->path, f->path, later->path, later->path);
    assert_int_equal(system(command), 0);
    contender(later, &later->a, "job", "later", 0xc);
    (void)snprintf(later->a.file.boot, sizeof later->a.file.boot, "the next one");
    const uint64_t token = acquire(later, &later->a, 1);
    leave(&later->a);
    free(later);
    return token;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void release(struct fixture *f, struct seat *s, uint64_t attempt, uint64_t token)
{
    assert_int_equal(ask(f, s, CV_STORE_RELEASE, attempt, token), CV_STORE_FREE);
}

static void a_token_is_not_given_out_again_after_a_power_failure(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    struct seat *leader = &f->a, *next = &f->b;
    uint64_t attempt[2] = {1, 1};
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 3) { /* without a reservation it has to wait for the disk */
            cv__sqlite_prepare(&next->file, token, NULL);
            assert_true(next->file.reserved_token > token);
        }
        const uint32_t synced = disk.sync_count;
        release(f, leader, attempt[leader == &f->b], token);
        const uint64_t given = acquire(f, next, attempt[next == &f->b]);
        assert_true(given > token);
        assert_int_equal(disk.sync_count > synced, i == 3);
        assert_int_equal(next->file.reserved_token, 0); /* a reservation is used once */
        token = given;
        assert_true(token_after_power_failure(f) > token);
        struct seat *const before = leader;
        leader = next;
        next = before;
        attempt[next == &f->b]++;
        assert_int_equal(ask(f, next, CV_STORE_ACQUIRE, attempt[next == &f->b], 0), CV_STORE_HELD);
    }
    fixture_free(f);
}

static void a_reservation_that_may_not_be_on_the_disk_is_not_used(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    disk.is_broken = true;
    cv__sqlite_prepare(&f->b.file, token, NULL);
    assert_int_equal(f->b.file.reserved_token, 0);
    disk.is_broken = false;
    release(f, &f->a, 1, token);
    assert_true(acquire(f, &f->b, 1) > token);
    assert_true(disk.sync_count > 0);
    fixture_free(f);
}

static void a_reservation_that_was_overtaken_is_not_used(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    struct seat *c = calloc(1, sizeof *c);
    assert_non_null(c);
    cv__sqlite_prepare(&f->b.file, token, NULL);
    const uint64_t reserved = f->b.file.reserved_token;
    contender(f, c, "job", "c", 0xc);
    release(f, &f->a, 1, token);
    const uint64_t later = acquire(f, c, 1);
    assert_true(later > reserved);
    release(f, c, 1, later);
    assert_true(acquire(f, &f->b, 1) > later);
    leave(c);
    free(c);
    fixture_free(f);
}

/* A record that was removed may have had a larger token. */
static void a_reservation_from_before_the_record_was_removed_is_not_used(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    cv__sqlite_prepare(&f->b.file, token, NULL);
    release(f, &f->a, 1, token);
    const uint64_t later = acquire(f, &f->a, 2);
    release(f, &f->a, 2, later);
    assert_int_equal(
        carry_out(f, &f->a, (struct cv_sqlite_job){.request = {.request = 9, .forgets = true}}),
        CV_STORE_GRANTED);
    assert_true(acquire(f, &f->b, 1) > later);
    fixture_free(f);
}

static void a_grant_reaches_the_disk_a_moment_later(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    cv__sqlite_prepare(&f->b.file, token, NULL);
    release(f, &f->a, 1, token);
    (void)acquire(f, &f->b, 1);
    assert_true(f->b.file.must_sync);
    const uint32_t synced = disk.sync_count;
    cv__sqlite_prepare(&f->b.file, 0, NULL);
    assert_false(f->b.file.must_sync);
    assert_true(disk.sync_count > synced);
    assert_int_equal(f->b.file.reserved_token, 0); /* a leader needs no reservation */
    fixture_free(f);
}

/* A token that is given to a registered contender is as safe as one that it takes
 * (sqlite_next.h). */
static void a_token_that_was_given_is_not_given_out_again_after_a_power_failure(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    f->b.is.has_descendants = false;
    cv__sqlite_prepare(&f->b.file, token, &f->b.is);
    assert_true(f->b.is.is_next_durable);
    const uint64_t given = f->b.is.next_token;
    assert_true(f->b.file.reserved_token != given); /* the given token is used for nothing else */
    const uint32_t synced = disk.sync_count;
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_HELD);
    assert_int_equal(f->answer.token, given);
    assert_int_equal(disk.sync_count, synced); /* nobody waits for the disk */
    assert_true(token_after_power_failure(f) > given);
    fixture_free(f);
}

/* The release gives it the record, but it does not rely on that. It asks, and that waits for the
 * disk. */
static void a_registration_that_may_not_be_on_the_disk_is_not_relied_on(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_disk(&token);
    f->b.is.has_descendants = false;
    disk.is_broken = true;
    cv__sqlite_prepare(&f->b.file, token, &f->b.is);
    assert_false(f->b.is.is_next_durable);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_HELD);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_FAILED);
    disk.is_broken = false;
    const uint64_t given = acquire(f, &f->b, 1);
    assert_int_equal(given, f->b.is.next_token);
    assert_true(disk.sync_count > 0);
    assert_true(token_after_power_failure(f) > given);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_not_given_out_again_after_a_power_failure),
        cmocka_unit_test(a_reservation_that_may_not_be_on_the_disk_is_not_used),
        cmocka_unit_test(a_reservation_that_was_overtaken_is_not_used),
        cmocka_unit_test(a_reservation_from_before_the_record_was_removed_is_not_used),
        cmocka_unit_test(a_grant_reaches_the_disk_a_moment_later),
        cmocka_unit_test(a_token_that_was_given_is_not_given_out_again_after_a_power_failure),
        cmocka_unit_test(a_registration_that_may_not_be_on_the_disk_is_not_relied_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
