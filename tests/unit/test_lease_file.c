/* tests/unit/test_lease_file.c - the file that publishes a leadership. */
#include "supervisor/lease_file.h"
#include "support/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    struct cv_lease_file file;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cv_errtext error;
    assert_non_null(f);
    (void)strcpy(f->folder, "/tmp/conclave-unit-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", f->folder, 1), 0);
    (void)unsetenv("RUNTIME_DIRECTORY");
    const int failed = cv__lease_file_make(&f->file, "nightly", "host-1", NULL, &error);
    if (failed != CV_OK) {
        fail_msg("%s", error.text);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char below[96];
    cv__lease_file_remove(&f->file);
    (void)snprintf(below, sizeof below, "%s/conclave", f->folder);
    (void)rmdir(below);
    (void)rmdir(f->folder);
    free(f);
    return 0;
}

static void is_a_file_of_ours_alone(void **state)
{
    struct fixture *f = *state;
    struct stat stat_of;
    assert_int_equal(strncmp(f->file.path, f->folder, strlen(f->folder)), 0);
    assert_int_equal(stat(f->file.path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 07777, 0600);
    assert_int_equal(stat_of.st_size, CV_LEASE_FILE_BYTES);
    *strrchr(f->file.path, '/') = '\0';
    assert_int_equal(stat(f->file.path, &stat_of), 0);
    f->file.path[strlen(f->file.path)] = '/';
    assert_int_equal(stat_of.st_mode & 07777, 0700);
}

static void is_valid_until_its_time_and_not_after_its_end(void **state)
{
    struct fixture *f = *state;
    assert_false(cv__lease_file_read(f->file.page, 0).is_valid);
    cv__lease_file_publish(f->file.page, /* run= */ 1, /* token= */ 7, /* valid_until_ns= */ 1000);
    assert_true(cv__lease_file_read(f->file.page, 999).is_valid);
    assert_int_equal(cv__lease_file_read(f->file.page, 999).token, 7);
    assert_false(cv__lease_file_read(f->file.page, 1000).is_valid);
    cv__lease_file_publish(f->file.page, 1, 7, 2000);
    assert_true(cv__lease_file_read(f->file.page, 1000).is_valid);
    cv__lease_file_end(f->file.page, 1);
    assert_false(cv__lease_file_read(f->file.page, 1000).is_valid);
    cv__lease_file_publish(f->file.page, 1, 7,
                           /* An update by a supervisor that was stopped and comes too late. */
                           3000);
    assert_false(cv__lease_file_read(f->file.page, 1000).is_valid);
    cv__lease_file_publish(f->file.page, 2, 8, 4000);
    assert_true(cv__lease_file_read(f->file.page, 1000).is_valid);
}

static void another_process_reads_it_by_its_path(void **state)
{
    struct fixture *f = *state;
    const struct cv_lease_page *page;
    struct cv_errtext error;
    cv__lease_file_publish(f->file.page, 1, 7, 1000);
    assert_int_equal(cv__lease_file_open(f->file.path, &page, &error), CV_OK);
    assert_true(cv__lease_file_read(page, 10).is_valid);
    assert_string_equal(page->election, "nightly");
    assert_string_equal(page->node, "host-1");
    cv__lease_file_close(page);
}

static void refuses_files_that_are_not_lease_files_of_this_boot(void **state)
{
    struct fixture *f = *state;
    const struct cv_lease_page *page;
    struct cv_errtext error;
    assert_int_equal(cv__lease_file_open("/no/such/file", &page, &error), CV_E_IO);
    assert_int_equal(cv__lease_file_open("/dev/null", &page, &error), CV_E_MALFORMED);
    assert_int_equal(cv__lease_file_open("/tmp", &page, &error), CV_E_MALFORMED);
    f->file.page->boot_id[3] ^= 1;
    assert_int_equal(cv__lease_file_open(f->file.path, &page, &error), CV_E_MALFORMED);
    f->file.page->boot_id[3] ^= 1;
    f->file.page->version++;
    assert_int_equal(cv__lease_file_open(f->file.path, &page, &error), CV_E_MALFORMED);
    f->file.page->version--;
    f->file.page->magic[0] = 'X';
    assert_int_equal(cv__lease_file_open(f->file.path, &page, &error), CV_E_MALFORMED);
    f->file.page->magic[0] = 'C';
    assert_int_equal(truncate(f->file.path, 100), 0);
    assert_int_equal(cv__lease_file_open(f->file.path, &page, &error), CV_E_MALFORMED);
    assert_int_equal(truncate(f->file.path, CV_LEASE_FILE_BYTES), 0);
}

static _Atomic bool is_over;

static void *write_on(void *user)
{
    struct cv_lease_page *page = user;
    for (uint64_t i = 1; !is_over; i++) {
        cv__lease_file_publish(page, i, i, (int64_t)(i * 3));
    }
    return NULL;
}

static void a_reader_never_sees_half_of_a_change(void **state)
{
    struct fixture *f = *state;
    pthread_t writer;
    uint64_t before = 0;
    is_over = false;
    assert_int_equal(pthread_create(&writer, NULL, write_on, f->file.page), 0);
    while (atomic_load(&f->file.page->sequence) == 0) {
        (void)sched_yield();
    }
    for (uint32_t i = 0; i < test_scale(300000); i++) {
        const struct cv_lease_file_view view = cv__lease_file_read(f->file.page, 0);
        if (view.token == 0) {
            continue; /* changed too often meanwhile: "not valid" is the safe answer */
        }
        if (view.valid_until_ns != (int64_t)(view.token * 3) || view.token < before) {
            is_over = true;
            fail_msg("token %llu with %lld after %llu", (unsigned long long)view.token,
                     (long long)view.valid_until_ns, (unsigned long long)before);
        }
        before = view.token;
    }
    is_over = true;
    assert_int_equal(pthread_join(writer, NULL), 0);
}

static void takes_the_next_folder_if_one_is_not_usable(void **state)
{
    struct fixture *f = *state;
    struct cv_lease_file file;
    struct cv_errtext error;
    assert_int_equal(setenv("RUNTIME_DIRECTORY", "/no/such/folder", 1), 0);
    assert_int_equal(cv__lease_file_make(&file, "nightly", "host-1", NULL, &error), CV_OK);
    assert_int_equal(strncmp(file.path, f->folder, strlen(f->folder)), 0);
    cv__lease_file_remove(&file);
    assert_int_not_equal(access(file.path, F_OK), 0);
    (void)unsetenv("RUNTIME_DIRECTORY");
}

/* A process that ends at once: its number belongs to nobody for a while. */
static pid_t dead_process(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void removes_what_killed_processes_have_left(void **state)
{
    struct fixture *f = *state;
    char left[128], locked[128];
    struct cv_lease_file file;
    struct cv_errtext error;
    (void)snprintf(left, sizeof left, "%s/conclave/run-%d-abcdef", f->folder, (int)dead_process());
    (void)snprintf(locked, sizeof locked, "%s/conclave/run-%d-ABCDEF", f->folder,
                   (int)dead_process());
    const int left_fd = open(left, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    const int locked_fd = open(locked, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    /* As the file of a process in another PID namespace is. */
    assert_int_equal(flock(locked_fd, LOCK_SH), 0);
    assert_int_equal(close(left_fd), 0);
    assert_int_equal(cv__lease_file_make(&file, "nightly", "host-1", NULL, &error), CV_OK);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_int_equal(access(locked, F_OK), 0);
    assert_int_equal(access(f->file.path, F_OK), 0);
    assert_int_equal(close(locked_fd), 0);
    assert_int_equal(unlink(locked), 0);
    cv__lease_file_remove(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_a_file_of_ours_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(is_valid_until_its_time_and_not_after_its_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_process_reads_it_by_its_path, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_files_that_are_not_lease_files_of_this_boot, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_reader_never_sees_half_of_a_change, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_the_next_folder_if_one_is_not_usable, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(removes_what_killed_processes_have_left, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
