/* tests/unit/test_hooks.c - hooks in their order, the FIFO, and what systemd is told. */
#include "supervisor/child.h"
#include "supervisor/fifo.h"
#include "supervisor/hooks.h"
#include "supervisor/notify.h"
#include "support/support.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], file[96], fifo[96];

static int setup(void **state)
{
    (void)state;
    (void)strcpy(folder, "/tmp/conclave-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/file", folder);
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    return setenv("FILE", file, 1);
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(file);
    (void)unlink(fifo);
    return rmdir(folder);
}

static const char *content(const char *path)
{
    static char text[8192];
    const int fd = open(path, O_RDONLY | O_NONBLOCK);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void until_idle(struct cv_hooks *hooks)
{
    while (!cv__hooks_is_idle(hooks)) {
        struct pollfd ready = {.fd = cv__hooks_fd(hooks), .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 30000), 1);
        cv__hooks_dispatch(hooks);
    }
}

static struct cv_hooks *open_hooks(const struct cv_hooks_setting *setting)
{
    struct cv_hooks *hooks;
    struct cv_errtext error;
    if (cv__hooks_open(&hooks, setting, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    return hooks;
}

static void hooks_run_in_the_order_of_the_changes(void **unused)
{
    (void)unused;
    static const char say[] =
        "echo \"$CONCLAVE_ROLE $CONCLAVE_TOKEN $CONCLAVE_REASON $CONCLAVE_ELECTION"
        " $CONCLAVE_NODE $CONCLAVE_LEASE_FILE\" >>\"$FILE\"";
    char slow[512];
    (void)snprintf(slow, sizeof slow, "sleep 0.05; %s", say);
    struct cv_hooks *hooks = open_hooks(&(struct cv_hooks_setting){.on_elected = slow,
                                                                   .on_lost = say,
                                                                   .election = "nightly",
                                                                   .node = "n1",
                                                                   .lease_path = "/x"});
    cv__hooks_change(hooks, CV_HOOK_BACKUP, 0, "started");
    assert_true(cv__hooks_is_idle(hooks));
    cv__hooks_change(hooks, CV_HOOK_MASTER, 5, "elected");
    cv__hooks_change(hooks, CV_HOOK_MASTER, 5, "renewed"); /* no change */
    cv__hooks_change(hooks, CV_HOOK_MASTER, 6, "elected"); /* lost and elected at once */
    cv__hooks_change(hooks, CV_HOOK_STOP, 0, "resigned");
    until_idle(hooks);
    assert_string_equal(content(file), "MASTER 5 elected nightly n1 /x\n"
                                       "BACKUP 5 gone nightly n1 /x\n"
                                       "MASTER 6 elected nightly n1 /x\n"
                                       "STOP 6 resigned nightly n1 /x\n");
    assert_int_equal(cv__hooks_count(hooks).started, 4);
    assert_int_equal(cv__hooks_count(hooks).failed, 0);
    cv__hooks_close(hooks);
}

static void a_hook_that_hangs_is_killed_with_its_children(void **unused)
{
    (void)unused;
    struct cv_hooks *hooks = open_hooks(&(struct cv_hooks_setting){
        .on_elected = "echo started >>\"$FILE\"; sleep 1000 | cat",
        .on_lost = "echo lost >>\"$FILE\"; exit 3",
        .election = "nightly",
        .timeout_ns = 200 * NS_PER_MS,
    });
    cv__hooks_change(hooks, CV_HOOK_MASTER, 1, "elected");
    cv__hooks_change(hooks, CV_HOOK_BACKUP, 1, "expired");
    until_idle(hooks);
    assert_string_equal(content(file), "started\nlost\n");
    assert_int_equal(cv__hooks_count(hooks).started, 2);
    assert_int_equal(cv__hooks_count(hooks).failed, 2);
    assert_int_equal(cv__hooks_count(hooks).timed_out, 1);
    cv__hooks_close(hooks);
}

static void too_many_hooks_drop_the_oldest_and_run_the_latest(void **unused)
{
    (void)unused;
    struct cv_hooks *hooks = open_hooks(&(struct cv_hooks_setting){
        .on_elected =
            "echo $CONCLAVE_TOKEN >>\"$FILE\"; while [ ! -e \"$FILE.go\" ]; do sleep 0.01;"
            " done",
        .election = "nightly",
    });
    char go[128];
    for (uint64_t token = 1; token <= 101; token++) {
        cv__hooks_change(hooks, CV_HOOK_MASTER, token, "elected");
    }
    assert_int_equal(cv__hooks_count(hooks).dropped, 100 - CV_HOOKS_WAITING_MAX);
    (void)snprintf(go, sizeof go, "%s.go", file);
    (void)close(open(go, O_CREAT | O_WRONLY, 0600));
    until_idle(hooks);
    (void)unlink(go);
    assert_int_equal(strncmp(content(file), "1\n86\n87\n", 8), 0);
    assert_non_null(strstr(content(file), "\n101\n"));
    cv__hooks_close(hooks);
}

static void closing_ends_the_hook_that_runs(void **unused)
{
    (void)unused;
    struct cv_hooks *hooks = open_hooks(
        &(struct cv_hooks_setting){.on_elected = "exec sleep 1000", .election = "nightly"});
    cv__hooks_change(hooks, CV_HOOK_MASTER, 1, "elected");
    assert_false(cv__hooks_is_idle(hooks));
    cv__hooks_close(hooks);
    cv__hooks_close(NULL);
}

static void the_fifo_speaks_as_keepalived_does(void **unused)
{
    (void)unused;
    struct cv_hooks *hooks =
        open_hooks(&(struct cv_hooks_setting){.fifo = fifo, .election = "ni\"gh\\tly"});
    struct stat stat_of;
    assert_int_equal(stat(fifo, &stat_of), 0);
    assert_true(S_ISFIFO(stat_of.st_mode));
    cv__hooks_change(hooks, CV_HOOK_BACKUP, 0, "started");
    cv__hooks_change(hooks, CV_HOOK_MASTER, 1, "elected");
    cv__hooks_change(hooks, CV_HOOK_FAULT, 1, "store-unreachable");
    cv__hooks_change(hooks, CV_HOOK_STOP, 1, "stopped");
    assert_string_equal(content(fifo), "INSTANCE \"ni\\\"gh\\\\tly\" BACKUP 100\n"
                                       "INSTANCE \"ni\\\"gh\\\\tly\" MASTER 100\n"
                                       "INSTANCE \"ni\\\"gh\\\\tly\" FAULT 100\n"
                                       "INSTANCE \"ni\\\"gh\\\\tly\" STOP 100\n");
    cv__hooks_close(hooks);
}

static void a_full_fifo_never_blocks_and_ends_with_the_latest_state(void **unused)
{
    (void)unused;
    struct cv_fifo f;
    struct cv_errtext error;
    assert_int_equal(cv__fifo_open(&f, fifo, &error), CV_OK);
    for (uint32_t i = 1; i <= 10000; i++) { /* more than a pipe holds */
        cv__fifo_write(&f, "nightly", "MASTER", i);
    }
    assert_true(f.dropped > 0);
    assert_true(f.is_waiting);
    const int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    char text[4096];
    char last[4096] = "";
    ssize_t got;
    while ((got = read(reader, text, sizeof text - 1)) > 0) {
        /* drained */
    }
    cv__fifo_flush(&f);
    assert_false(f.is_waiting);
    got = read(reader, last, sizeof last - 1);
    assert_string_equal(got > 0 ? last : "", "INSTANCE \"nightly\" MASTER 10000\n");
    (void)close(reader);
    cv__fifo_close(&f);
    (void)close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(cv__fifo_open(&f, file, &error), CV_E_IO);
    assert_non_null(strstr(error.text, "not a FIFO"));
}

static int listen_at(const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(cv__notify_address(name, &address, &bytes));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    return fd;
}

static const char *heard(int fd)
{
    static char text[1024];
    const ssize_t got = recv(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void systemd_is_told(const char *name)
{
    struct cv_notify notify;
    char ready[64];
    const int fd = listen_at(name);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "3000000", 1), 0);
    cv__notify_open(&notify);
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_int_equal(notify.watchdog_ns, 1500 * NS_PER_MS);
    cv__notify_ready(&notify, "waiting for '%s'", "nightly");
    (void)snprintf(ready, sizeof ready, "READY=1\nMAINPID=%d\n", (int)getpid());
    assert_int_equal(strncmp(heard(fd), ready, strlen(ready)), 0);
    cv__notify_status(&notify, "leading\nREADY=0");
    assert_string_equal(heard(fd), "STATUS=leading READY=0");
    cv__notify_watchdog(&notify);
    assert_string_equal(heard(fd), "WATCHDOG=1");
    cv__notify_stopping(&notify);
    assert_string_equal(heard(fd), "STOPPING=1");
    (void)close(fd);
    cv__notify_stopping(&notify); /* nobody listens: no harm */
    cv__notify_close(&notify);
}

static void systemd_is_notified_by_a_path_or_an_abstract_name(void **unused)
{
    (void)unused;
    char name[96];
    systemd_is_told(file);
    (void)snprintf(name, sizeof name, "@conclave-unit-%d", (int)getpid());
    systemd_is_told(name);
}

static void nothing_is_sent_without_systemd(void **unused)
{
    (void)unused;
    struct cv_notify notify;
    (void)unsetenv("NOTIFY_SOCKET");
    assert_int_equal(setenv("WATCHDOG_USEC", "3000000", 1), 0);
    cv__notify_open(&notify);
    assert_int_equal(notify.fd, -1);
    assert_int_equal(notify.watchdog_ns, 0);
    cv__notify_ready(&notify, "fine");
    cv__notify_watchdog(&notify);
    assert_int_equal(setenv("NOTIFY_SOCKET", "relative", 1), 0);
    cv__notify_open(&notify);
    assert_int_equal(notify.fd, -1);
    cv__notify_close(&notify);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hooks_run_in_the_order_of_the_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hook_that_hangs_is_killed_with_its_children, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(too_many_hooks_drop_the_oldest_and_run_the_latest, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(closing_ends_the_hook_that_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(the_fifo_speaks_as_keepalived_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_fifo_never_blocks_and_ends_with_the_latest_state,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(systemd_is_notified_by_a_path_or_an_abstract_name, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_is_sent_without_systemd, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
