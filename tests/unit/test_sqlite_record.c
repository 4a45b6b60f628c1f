/* tests/unit/test_sqlite_record.c - the record in a SQLite file, with a clock that the test
 * sets. */
#include "stores/lifeline.h"
#include "support/sqlite_seats.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void one_holds_the_record_and_the_other_is_told_how_long(void **unused)
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
    fake_now_ns += 2 * LEASE; /* nobody else came: a still holds it */
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
    /* Of another attempt. */
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 2, token), CV_STORE_HELD);
    fixture_free(f);
}

/* [traps.md T26] The lease of the holder governs, whatever lease the other one asks for. */
static void lease_of_the_holder_governs(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const struct cv_sqlite_job job = {
        .request = {.verb = CV_STORE_ACQUIRE, .request = 1, .attempt = 1, .lease_ns = 30 * SECOND}};
    assert_int_equal(carry_out(f, &f->a, job), CV_STORE_GRANTED);
    fake_now_ns += 2 * LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_int_equal(f->answer.duration_ns, 20 * SECOND);
    fixture_free(f);
}

static void released_record_is_free_at_once(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    /* Of another contender. */
    assert_int_equal(ask(f, &f->b, CV_STORE_RELEASE, 1, token), CV_STORE_FREE);
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 0, 0), CV_STORE_HELD);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FREE);
    assert_true(acquire(f, &f->b, 1) > token);
    fixture_free(f);
}

static void others_wait_for_the_heir_for_a_while(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    for (int i = 0; i < 2; i++) {
        acquire(f, &f->a, 1);
        struct cv_sqlite_job job = {
            .request = {.verb = CV_STORE_RELEASE, .request = 1, .attempt = 1}};
        (void)snprintf(job.heir, sizeof job.heir, "%s", i == 0 ? "b" : "c");
        assert_int_equal(carry_out(f, &f->a, job), CV_STORE_FREE);
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

static void closed_lifeline_ends_the_lease_early(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    const int inherited = dup(f->a.is.pipe_fd); /* a descendant's copy */
    leave(&f->a);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    close(inherited);
    assert_true(acquire(f, &f->b, 1) > token);
    contender(f, &f->a, "job", "a", 0xa);
    fixture_free(f);
}

/* The commit seemed to fail, but the record was written. */
static void grant_after_a_failed_commit_has_a_lifeline(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    cv__sqlite_leave(&f->a.is);
    assert_int_equal(acquire(f, &f->a, 1), token);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    cv__sqlite_leave(&f->a.is);
    /* Without a lifeline it is not renewed. */
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_HELD);
    fixture_free(f);
}

static void lifeline_is_open_until_its_last_copy_is_closed(void **unused)
{
    (void)unused;
    char path[] = "/tmp/conclave-line-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(cv__lifeline_hold(path), -EEXIST);
    assert_int_equal(cv__lifeline_look(path), CV_LIFELINE_UNKNOWN); /* an empty file: not a pipe */
    unlink(path);
    const int fd = cv__lifeline_hold(path);
    assert_true(fd >= 0);
    const int listening = cv__lifeline_listen(path);
    const int copy = dup(fd);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_HELD);
    close(fd);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_HELD);
    close(copy);
    assert_int_equal(cv__lifeline_state(listening), CV_LIFELINE_CUT);
    close(listening);
    unlink(path);
    assert_int_equal(cv__lifeline_look(path), CV_LIFELINE_UNKNOWN);
    assert_true(cv__lifeline_hold("/nowhere/at/all") < 0);
}

/* Supervisor and guard were stopped or killed together: a command that outlives the lease keeps the
 * others waiting; a holder that is only stopped does not. */
static void expired_lease_waits_for_the_command(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)acquire(f, &f->a, 1);
    const int inherited = cv__lifeline_bequeath(f->a.is.pipe_fd);
    const int grandchild = dup(inherited);
    assert_true(inherited >= 0 && grandchild >= 0);

    fake_now_ns += 10 * LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_true(f->answer.duration_ns > 0 && f->answer.duration_ns < LEASE);
    /* Its own new attempt, too. */
    assert_int_equal(ask(f, &f->a, CV_STORE_ACQUIRE, 2, 0), CV_STORE_HELD);
    assert_int_equal(close(inherited), 0);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_int_equal(close(grandchild), 0);
    assert_true(f->a.is.pipe_fd >= 0); /* the holder itself is still alive, and does not count */
    (void)acquire(f, &f->b, 1);
    fixture_free(f);
}

static void release_while_the_command_runs_frees_nothing(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    const int inherited = cv__lifeline_bequeath(f->a.is.pipe_fd);
    assert_true(inherited >= 0);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_FREE);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    assert_int_equal(close(inherited), 0);
    (void)acquire(f, &f->b, 1);
    fixture_free(f);
}

static void after_a_reboot_nobody_holds_the_record(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)snprintf(f->a.file.machine, sizeof f->a.file.machine, "m");
    (void)snprintf(f->b.file.machine, sizeof f->b.file.machine, "m");
    const uint64_t token = acquire(f, &f->a, 1);
    (void)snprintf(f->b.file.boot, sizeof f->b.file.boot, "the next one");
    fake_now_ns = SECOND; /* the clock of the new boot */
    assert_true(acquire(f, &f->b, 1) > token);
    fixture_free(f);
}

/* A file on a network disk is a mistake, but even then there must not be two leaders. */
static void record_of_another_machine_is_watched_for_a_whole_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)snprintf(f->b.file.machine, sizeof f->b.file.machine, "elsewhere");
    const uint64_t token = acquire(f, &f->a, 1);
    (void)snprintf(f->b.file.boot, sizeof f->b.file.boot, "elsewhere");
    fake_now_ns += 100 * LEASE; /* does not matter: the two clocks are unrelated */
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

/* The clock of a container may be offset from ours, so "expired" would mean nothing. */
static void record_of_another_time_namespace_is_watched_for_a_whole_lease(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    strcat(f->b.file.boot, "+86400.000000000");
    fake_now_ns += 86400 * SECOND;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += LEASE;
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    fake_now_ns += f->answer.duration_ns;
    const uint64_t next = acquire(f, &f->b, 1);
    assert_true(next > token);
    cv__sqlite_leave(&f->b.is); /* the kernel is the same, so the pipe shows that it is dead */
    assert_true(acquire(f, &f->a, 2) > next);
    fixture_free(f);
}

static void boot_is_the_same_for_everybody_here(void **unused)
{
    (void)unused;
    char boot[CV_BOOT_BYTES], again[CV_BOOT_BYTES];
    cv__sqlite_boot(boot);
    cv__sqlite_boot(again);
    assert_true(strlen(boot) >= CV_BOOT_ID_BYTES);
    assert_string_equal(boot, again);
}

/* ---- The file and its folder --------------------------------------------------------------- */

static void assert_refused(struct fixture *f, const char *path, const char *says)
{
    struct cv_sqlite s;
    assert_int_equal(cv__sqlite_open(&s, path, &f->error), CV_E_STORE);
    cv__sqlite_close(&s);
    if (strstr(f->error.text, says) == NULL) {
        fail_msg("it says: %s", f->error.text);
    }
}

/* Each name has its own log and its own pipes: two leaders could have the same token. */
static void file_with_two_names_is_refused(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    char other[128];
    (void)snprintf(other, sizeof other, "%s/other.db", f->folder);
    assert_int_equal(link(f->path, other), 0);
    assert_refused(f, other, "several names");
    assert_refused(f, f->path, "several names");
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FAILED);
    assert_non_null(strstr(f->answer.why, "several names"));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    assert_int_equal(symlink(f->path, other), 0); /* a symbolic link leads to the one name */
    struct cv_sqlite s;
    assert_int_equal(cv__sqlite_open(&s, other, &f->error), CV_OK);
    assert_string_equal(s.path, f->a.file.path);
    cv__sqlite_close(&s);
    fixture_free(f);
}

/* valgrind counts what a forked child leaves to its _exit() as lost, and changes its exit status:
 * skip the test there. */
static bool is_under_valgrind(void)
{
    return getenv("CV_TEST_VALGRIND") != NULL;
}

/* In a mount namespace of its own; skipped where none can be made. */
static void file_that_is_mounted_alone_is_refused(void **unused)
{
    (void)unused;
    if (is_under_valgrind()) {
        return;
    }
    struct fixture *f = fixture_new();
    char other[128];
    (void)snprintf(other, sizeof other, "%s/mounted.db", f->folder);
    close(open(other, O_WRONLY | O_CREAT, 0600));
    const pid_t child = fork();
    if (child == 0) {
        struct cv_sqlite s;
        if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount(f->path, other, NULL, MS_BIND, NULL) != 0) {
            _exit(77);
        }
        const bool is_refused = cv__sqlite_open(&s, other, &f->error) == CV_E_STORE &&
                                strstr(f->error.text, "mounted by itself") != NULL;
        _exit(is_refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    fixture_free(f);
}

static void file_that_was_removed_or_replaced_renews_nobody(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    char other[128];
    (void)snprintf(other, sizeof other, "%s/old.db", f->folder);
    assert_int_equal(rename(f->path, other), 0);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FAILED);
    assert_non_null(strstr(f->answer.why, "is gone"));
    close(open(f->path, O_WRONLY | O_CREAT, 0600));
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FAILED);
    assert_non_null(strstr(f->answer.why, "was replaced"));
    assert_int_equal(rename(other, f->path), 0);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    fixture_free(f);
}

/* A user who can write there can replace a leader's pipe by a dead one. */
static void folder_that_others_can_write_to_is_refused(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    char alive[CV_SQLITE_PATH_BYTES];
    cv__sqlite_folder(&f->a.file, alive);
    struct stat is;
    assert_int_equal(lstat(alive, &is), 0);
    assert_int_equal(is.st_mode & S_IRWXO, 0);
    assert_int_equal(lstat(f->path, &is), 0);
    assert_int_equal(is.st_mode & S_IRWXO, 0); /* nor can others read the database */
    assert_int_equal(chmod(alive, 0777), 0);
    assert_refused(f, f->path, "every user can write");
    assert_int_equal(chmod(alive, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(alive, 65534, 65534), 0);
        assert_refused(f, f->path, "belongs to user 65534");
        assert_int_equal(chown(alive, 0, 0), 0);
    }
    fixture_free(f);
}

/* `conclave status` by a user who may read the file, but not write to it. */
static void reading_needs_no_right_to_write(void **unused)
{
    (void)unused;
    if (is_under_valgrind()) {
        return;
    }
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    assert_int_equal(chmod(f->folder, 0755), 0);
    char path[160];
    static const char *const suffix[] = {"", "-wal", "-shm"};
    for (uint32_t i = 0; i < COUNT_OF(suffix); i++) {
        (void)snprintf(path, sizeof path, "%s%s", f->path, suffix[i]);
        assert_int_equal(chmod(path, 0444), 0);
    }
    const pid_t child = fork();
    if (child == 0) {
        struct seat s;
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
            _exit(77);
        }
        if (cv__sqlite_open(&s.file, f->path, &f->error) != CV_OK) {
            (void)fprintf(stderr, "%s\n", f->error.text);
            _exit(1);
        }
        s.file.now_ns = fake_now;
        cv__sqlite_join(&s.is, "job", "c", 3, /* has_descendants= */ false);
        if (ask(f, &s, CV_STORE_READ, 0, 0) != CV_STORE_HELD || f->answer.token != token) {
            _exit(2);
        }
        fake_now_ns += LEASE; /* it is free, but this one cannot take it */
        _exit(ask(f, &s, CV_STORE_ACQUIRE, 1, 0) == CV_STORE_FAILED ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    fixture_free(f);
}

static int files_change(const struct fixture *f, mode_t mode, uid_t owner)
{
    static const char *const suffix[] = {"", "-wal", "-shm"};
    for (uint32_t i = 0; i < COUNT_OF(suffix); i++) {
        char path[160];
        (void)snprintf(path, sizeof path, "%s%s", f->path, suffix[i]);
        if (chmod(path, mode) != 0 || (geteuid() == 0 && chown(path, owner, owner) != 0)) {
            return -1;
        }
    }
    return 0;
}

/* As another user, in a process that has no other connection to the file. */
static int contend_without_and_with_the_right(struct fixture *f)
{
    const bool is_root = geteuid() == 0;
    char alive[160];
    (void)snprintf(alive, sizeof alive, "%s.alive", f->path);
    if (is_root && seteuid(65534) != 0) {
        return 77;
    }
    struct seat s;
    if (cv__sqlite_open(&s.file, f->path, &f->error) != CV_OK) {
        return 1;
    }
    s.file.now_ns = fake_now;
    cv__sqlite_join(&s.is, "job", "c", 3, /* has_descendants= */ false);
    if (ask(f, &s, CV_STORE_READ, 0, 0) != CV_STORE_FREE) {
        return 2;
    }
    for (uint64_t attempt = 1; attempt <= 2; attempt++) {
        if (ask(f, &s, CV_STORE_ACQUIRE, attempt, 0) != CV_STORE_FAILED ||
            strstr(f->error.text, "Permission denied") == NULL ||
            ask(f, &s, CV_STORE_READ, 0, 0) != CV_STORE_FREE) {
            return 3;
        }
    }
    if ((is_root && (seteuid(0) != 0 || chown(alive, 65534, 65534) != 0)) ||
        files_change(f, 0600, 65534) != 0 || (is_root && seteuid(65534) != 0)) {
        return 4;
    }
    return ask(f, &s, CV_STORE_ACQUIRE, 3, 0) == CV_STORE_GRANTED ? 0 : 5;
}

static void contender_that_may_write_at_last_leads(void **unused)
{
    (void)unused;
    if (is_under_valgrind()) {
        return;
    }
    for (int only_beside = 0; only_beside < 2; only_beside++) {
        struct fixture *f = fixture_new();
        (void)acquire(f, &f->a, 1);
        assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
        leave(&f->a);
        leave(&f->b);
        assert_int_equal(chmod(f->folder, 0755), 0);
        assert_int_equal(files_change(f, 0444, 0), 0);
        assert_int_equal(chmod(f->path, only_beside ? 0666 : 0444), 0);
        const pid_t child = fork();
        if (child == 0) {
            _exit(contend_without_and_with_the_right(f));
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
        fixture_free(f);
    }
}

static void marker_path(const struct fixture *f, char ret_path[160])
{
    (void)snprintf(ret_path, 160, "%s.alive/%s", f->path, f->a.is.marker);
}

/* Users of one group share a file; one of them has a umask of 022. */
static void marker_has_the_rights_that_the_file_gives_to_its_group(void **unused)
{
    (void)unused;
    static const mode_t modes[] = {0660, 0640, 0600};
    const mode_t mask = umask(022);
    for (uint32_t i = 0; i < COUNT_OF(modes); i++) {
        struct fixture *f = fixture_new();
        char marker[160];
        struct stat is;
        marker_path(f, marker);
        assert_int_equal(chmod(f->path, modes[i]), 0);
        (void)acquire(f, &f->a, 1);
        assert_int_equal(stat(marker, &is), 0);
        assert_int_equal(is.st_mode & 07777, modes[i]);
        fixture_free(f);
    }
    (void)umask(mask);
}

static void forgotten_election_leaves_no_marker(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    char marker[160];
    marker_path(f, marker);
    const struct cv_sqlite_job forget = {.request = {.request = 7, .forgets = true}};
    (void)acquire(f, &f->a, 1);
    assert_int_equal(carry_out(f, &f->b, forget), CV_STORE_HELD);
    assert_int_equal(access(marker, F_OK), 0);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    assert_int_equal(access(marker, F_OK), 0);
    assert_int_equal(carry_out(f, &f->b, forget), CV_STORE_GRANTED);
    assert_int_equal(access(marker, F_OK), -1);
    (void)acquire(f, &f->a, 2);
    assert_int_equal(access(marker, F_OK), 0);
    fixture_free(f);
}

/* Has the folder reported that this file was touched? */
static bool was_touched(int watch, const char *name)
{
    _Alignas(struct inotify_event) char events[4096];
    const ssize_t got = read(watch, events, sizeof events);
    for (ssize_t at = 0; at < got;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        if ((event->mask & IN_ATTRIB) != 0 && strcmp(event->name, name) == 0) {
            return true;
        }
        at += (ssize_t)(sizeof *event + event->len);
    }
    return false;
}

/* A marker of an earlier version, that only its owner may touch. */
static void marker_of_another_user_is_replaced(void **unused)
{
    (void)unused;
    if (is_under_valgrind() || geteuid() != 0) {
        return; /* this needs two users */
    }
    struct fixture *f = fixture_new();
    (void)acquire(f, &f->a, 1);
    char path[160], marker[160];
    static const char *const suffix[] = {"", "-wal", "-shm"};
    for (uint32_t i = 0; i < COUNT_OF(suffix); i++) {
        (void)snprintf(path, sizeof path, "%s%s", f->path, suffix[i]);
        assert_int_equal(chmod(path, 0660), 0);
    }
    (void)snprintf(path, sizeof path, "%s.alive", f->path);
    marker_path(f, marker);
    assert_int_equal(chmod(f->folder, 0770), 0);
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(chmod(marker, 0644), 0);
    struct stat was, is;
    assert_int_equal(stat(marker, &was), 0);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0 && inotify_add_watch(watch, path, IN_ATTRIB) >= 0);
    const pid_t child = fork();
    if (child == 0) {
        struct seat s;
        if (setresuid(65534, 65534, 65534) != 0) { /* it stays in the group */
            _exit(77);
        }
        contender(f, &s, "job", "c", 3);
        _exit(request_resign(f, &s, "") == CV_STORE_HELD ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 77) {
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_true(was_touched(watch, f->a.is.marker));
        assert_int_equal(stat(marker, &is), 0);
        assert_true(is.st_ino != was.st_ino || is.st_uid != was.st_uid);
        assert_int_equal(is.st_mode & 0777, 0660);
    }
    (void)close(watch);
    fixture_free(f);
}

/* A process that is stopped inside a transaction holds everybody up: the error names it. */
static void error_names_the_process_that_has_the_lock(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
        sqlite3 *db;
        const bool is_locked = sqlite3_open(f->path, &db) == SQLITE_OK &&
                               sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
        (void)!write(ready[1], is_locked ? "y" : "n", 1);
        (void)raise(SIGSTOP);
        _exit(0);
    }
    char answer = 'n';
    assert_int_equal(read(ready[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_FAILED);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "by process %ld (", (long)child);
    if (strstr(f->answer.why, expected) == NULL) {
        fail_msg("it says: %s", f->answer.why);
    }
    assert_non_null(strstr(f->answer.why, "which is stopped"));
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    close(ready[0]);
    close(ready[1]);
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

/* A user who can write to the file can write anything into it. */
static void nonsense_in_the_file_does_no_harm(void **unused)
{
    (void)unused;
    static const char *const nonsense[] = {
        "UPDATE conclave_election SET expires_ns = 9223372036854775807,"
        " lease_ns = 9223372036854775807, renewed_wall_ns = 9223372036854775807",
        "UPDATE conclave_election SET expires_ns = -9223372036854775808,"
        " lease_ns = -9223372036854775808, renewed_wall_ns = -9223372036854775808",
        "UPDATE conclave_election SET boot = 'elsewhere', machine = 'elsewhere'",
        "UPDATE conclave_election SET pipe = 'pipe./../../../etc/passwd'",
        "UPDATE conclave_election SET pipe = '', node = x'00ff', heir = 17, wish = 1.5",
        "DELETE FROM conclave_history; UPDATE sqlite_sequence SET seq = -5",
        "UPDATE conclave_election SET token = 9000000000000000000, node = ''",
    };
    struct fixture *f = fixture_new();
    for (uint32_t i = 0; i < COUNT_OF(nonsense); i++) {
        fake_now_ns += 2 * LEASE;
        (void)ask(f, &f->a, CV_STORE_ACQUIRE, i + 1, 0);
        sql(f, nonsense[i]);
        for (uint32_t verb = CV_STORE_READ; verb <= CV_STORE_RELEASE; verb++) {
            (void)ask(f, &f->b, (enum cv_store_verb)verb, i + 1, 1);
        }
        (void)request_resign(f, &f->b, "b");
    }
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 99, 0), CV_STORE_FAILED);
    assert_non_null(strstr(f->answer.why, "would not grow"));
    fixture_free(f);
}

static void resign_request_stays_with_the_holder_until_the_next_one(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    assert_int_equal(request_resign(f, &f->b, ""), CV_STORE_FREE);
    const uint64_t token = acquire(f, &f->a, 1);
    assert_int_equal(request_resign(f, &f->b, "b"), CV_STORE_HELD);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    assert_string_equal(f->record.resign_request, "b");
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_FREE);
    acquire(f, &f->b, 1);
    assert_string_equal(f->record.resign_request, "");
    assert_int_equal(request_resign(f, &f->a, ""), CV_STORE_HELD);
    assert_string_equal(f->record.resign_request, "*");
    fixture_free(f);
}

static void file_of_another_program_is_refused(void **unused)
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
    assert_int_equal(cv__sqlite_open(&s, path, &f->error), CV_E_STORE);
    assert_non_null(strstr(f->error.text, "not a database"));
    cv__sqlite_close(&s);
    assert_int_equal(cv__sqlite_open(&s, "/nowhere/e.db", &f->error), CV_E_STORE);
    assert_non_null(strstr(f->error.text, "/nowhere/e.db"));
    cv__sqlite_close(&s);
    fixture_free(f);
}

/* An earlier version has made the file, and its holder still leads. */
static void version_of_the_holder_is_shown_if_it_is_known(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    (void)snprintf(f->a.is.version, sizeof f->a.is.version, "0.1.0");
    (void)snprintf(f->b.is.version, sizeof f->b.is.version, "0.2.0");
    const uint64_t token = acquire(f, &f->a, 1);
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 1, 0), CV_STORE_HELD);
    assert_string_equal(f->record.version, "0.1.0");
    leave(&f->b);
    sql(f, "ALTER TABLE conclave_history DROP COLUMN version");
    contender(f, &f->b, "job", "b", UINT64_MAX);
    (void)snprintf(f->b.is.version, sizeof f->b.is.version, "0.2.0");
    assert_int_equal(ask(f, &f->b, CV_STORE_READ, 1, 0), CV_STORE_HELD);
    assert_string_equal(f->record.version, "");
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 1, token), CV_STORE_FREE);
    assert_true(acquire(f, &f->b, 1) > token);
    assert_int_equal(ask(f, &f->a, CV_STORE_READ, 1, 0), CV_STORE_HELD);
    assert_string_equal(f->record.version, "0.2.0");
    fixture_free(f);
}

static void elections_of_one_file_are_independent(void **unused)
{
    (void)unused;
    struct fixture *f = fixture_new();
    const uint64_t token = acquire(f, &f->a, 1);
    leave(&f->b);
    contender(f, &f->b, "other 'job'", "b", 2);
    assert_true(acquire(f, &f->b, 1) != token);
    assert_int_equal(ask(f, &f->a, CV_STORE_RENEW, 1, token), CV_STORE_GRANTED);
    fixture_free(f);
}

static void names_may_contain_any_text(void **unused)
{
    (void)unused;
    char name[300];
    memset(name, 'x', sizeof name);
    name[255] = '\0';
    assert_true(cv__store_election_is_valid(name));
    name[255] = 'x';
    name[256] = '\0';
    assert_false(cv__store_election_is_valid(name));
    assert_true(cv__store_election_is_valid("a b/c'\"%;ü€𝄞"));
    static const char *const bad[] = {
        "", "a\nb", "\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cv__store_election_is_valid(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holds_the_record_and_the_other_is_told_how_long),
        cmocka_unit_test(same_attempt_again_is_the_same_grant),
        cmocka_unit_test(lease_runs_out_at_its_instant_and_not_before),
        cmocka_unit_test(renewal_prolongs),
        cmocka_unit_test(lease_of_the_holder_governs),
        cmocka_unit_test(released_record_is_free_at_once),
        cmocka_unit_test(others_wait_for_the_heir_for_a_while),
        cmocka_unit_test(closed_lifeline_ends_the_lease_early),
        cmocka_unit_test(grant_after_a_failed_commit_has_a_lifeline),
        cmocka_unit_test(lifeline_is_open_until_its_last_copy_is_closed),
        cmocka_unit_test(expired_lease_waits_for_the_command),
        cmocka_unit_test(release_while_the_command_runs_frees_nothing),
        cmocka_unit_test(after_a_reboot_nobody_holds_the_record),
        cmocka_unit_test(record_of_another_machine_is_watched_for_a_whole_lease),
        cmocka_unit_test(record_of_another_time_namespace_is_watched_for_a_whole_lease),
        cmocka_unit_test(boot_is_the_same_for_everybody_here),
        cmocka_unit_test(file_with_two_names_is_refused),
        cmocka_unit_test(file_that_is_mounted_alone_is_refused),
        cmocka_unit_test(file_that_was_removed_or_replaced_renews_nobody),
        cmocka_unit_test(folder_that_others_can_write_to_is_refused),
        cmocka_unit_test(reading_needs_no_right_to_write),
        cmocka_unit_test(contender_that_may_write_at_last_leads),
        cmocka_unit_test(marker_has_the_rights_that_the_file_gives_to_its_group),
        cmocka_unit_test(marker_of_another_user_is_replaced),
        cmocka_unit_test(forgotten_election_leaves_no_marker),
        cmocka_unit_test(error_names_the_process_that_has_the_lock),
        cmocka_unit_test(tokens_grow_even_if_everything_was_deleted),
        cmocka_unit_test(nonsense_in_the_file_does_no_harm),
        cmocka_unit_test(resign_request_stays_with_the_holder_until_the_next_one),
        cmocka_unit_test(file_of_another_program_is_refused),
        cmocka_unit_test(version_of_the_holder_is_shown_if_it_is_known),
        cmocka_unit_test(elections_of_one_file_are_independent),
        cmocka_unit_test(names_may_contain_any_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
