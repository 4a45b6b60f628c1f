/* tests/unit/test_engine.c - engines that many elections share, and the edges of the public
 * functions: waiting, logging, struct sizes of other versions, and wrong arguments. On the embedded
 * store; real threads and real time, and no test waits for a fixed time. */
#include "support/support.h"

#include <conclave/conclave.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define PATIENCE_NS (60000 * MS) /* only a failure takes so long */

static char folder[TEST_FOLDER_BYTES], address[512];

static int setup(void **unused)
{
    (void)unused;
    if (!test_folder_make(folder)) {
        return -1;
    }
    (void)snprintf(address, sizeof address, "sqlite:%s/e.db", folder);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    return test_folder_remove(folder);
}

static struct cv_engine *engine_new(void)
{
    struct cv_engine *engine = NULL;
    struct cv_errtext error;
    if (cv_engine_new(&engine, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    return engine;
}

static struct cv_election *open_with(const char *name, const struct cv_election_options *options)
{
    struct cv_election *e = NULL;
    struct cv_errtext error;
    if (cv_open(&e, name, address, options, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    return e;
}

static struct cv_election *open_in(struct cv_engine *engine, const char *name, const char *node)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    options.engine = engine;
    options.node = node;
    return open_with(name, &options);
}

static void must_lead(struct cv_election *e)
{
    assert_int_equal(cv_wait(e, CV_UNTIL_LEADING, PATIENCE_NS), CV_OK);
}

static int entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *one; (one = readdir(dir)) != NULL;) {
        count += one->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

/* Waits for what another thread does. */
static void await_flag(atomic_bool *flag)
{
    for (int i = 0; i < 60000 && !atomic_load(flag); i++) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    assert_true(atomic_load(flag));
}

/* ---- Engines --------------------------------------------------------------------------------- */

static void elections_of_one_engine_share_threads_and_descriptors(void **unused)
{
    (void)unused;
    enum { COUNT = 50 };
    struct cv_election *elections[COUNT];
    struct cv_engine *engine = engine_new();
    const int threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "shared %d", i);
        elections[i] = open_in(engine, name, "n");
    }
    for (int i = 0; i < COUNT; i++) {
        must_lead(elections[i]);
    }
    assert_true(entries("/proc/self/task") <= threads + 4);    /* libuv's pool */
    assert_true(entries("/proc/self/fd") <= descriptors + 20); /* one file, whatever COUNT is */
    assert_int_equal(cv_engine_free(engine), CV_E_INVALID);
    for (int i = 0; i < COUNT; i++) {
        assert_true(cv_is_leader(elections[i]));
        assert_int_equal(cv_engine_free(engine), CV_E_INVALID);
        cv_close(elections[i]);
    }
    assert_int_equal(cv_engine_free(engine), CV_OK);
}

static void *open_and_close(void *data)
{
    for (int i = 0; i < 6; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "busy %d %p", i, (void *)&name);
        struct cv_election *e = open_in(data, name, "n");
        if (i % 2 == 0 && cv_wait(e, CV_UNTIL_LEADING, PATIENCE_NS) != CV_OK) {
            return data;
        }
        cv_close(e);
    }
    return NULL;
}

static void any_thread_opens_and_closes_while_others_lead(void **unused)
{
    (void)unused;
    struct cv_engine *engine = engine_new();
    struct cv_election *steady = open_in(engine, "steady", "n");
    must_lead(steady);
    uint64_t token = 0, token_after = 0;
    assert_true(cv_leads(steady, &token, NULL));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, engine), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(cv_leads(steady, &token_after, NULL));
    assert_int_equal(token_after, token);
    cv_close(steady);
    assert_int_equal(cv_engine_free(engine), CV_OK);
}

static void open_that_fails_leaves_the_engine_usable(void **unused)
{
    (void)unused;
    struct cv_engine *engine = engine_new();
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    struct cv_election *e = NULL;
    options.engine = engine;
    assert_int_equal(cv_open(&e, "x", "sqlite:/nowhere/at/all.db", &options, NULL), CV_E_STORE);
    options.lease_ns = 1;
    assert_int_equal(cv_open(&e, "x", address, &options, NULL), CV_E_INVALID);
    assert_null(e);
    e = open_in(engine, "x", "n");
    must_lead(e);
    cv_close(e);
    assert_int_equal(cv_engine_free(engine), CV_OK);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static _Atomic(pthread_t) callback_thread;
static atomic_int callback_count, stranger_count;

static void note_thread(void *user, const struct cv_election_status *status)
{
    (void)user;
    (void)status;
    const pthread_t self = pthread_self();
    if (atomic_fetch_add(&callback_count, 1) == 0) {
        atomic_store(&callback_thread, self);
    } else if (!pthread_equal(atomic_load(&callback_thread), self)) {
        atomic_fetch_add(&stranger_count, 1);
    }
}

static void one_thread_calls_the_watchers_of_all_elections(void **unused)
{
    (void)unused;
    enum { COUNT = 10 };
    struct cv_election *elections[COUNT];
    struct cv_engine *engine = engine_new();
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "watched %d", i);
        elections[i] = open_in(engine, name, "n");
        assert_int_equal(cv_watch(elections[i], note_thread, NULL), CV_OK);
        assert_int_equal(cv_watch(elections[i], note_thread, NULL), CV_E_INVALID);
    }
    for (int i = 0; i < COUNT; i++) {
        must_lead(elections[i]);
    }
    for (int i = 0; i < 60000 && atomic_load(&callback_count) < COUNT; i++) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        cv_close(elections[i]);
    }
    assert_true(atomic_load(&callback_count) >= COUNT);
    assert_int_equal(atomic_load(&stranger_count), 0);
    assert_int_equal(cv_engine_free(engine), CV_OK);
}

struct companion {
    struct cv_election *other;
    atomic_bool is_inside, saw_end;
};

/* Does not return before the other election's leadership has ended. */
static void await_the_others_end(void *user, const struct cv_election_status *status)
{
    struct companion *companion = user;
    if (status->role != CV_ROLE_LEADER || atomic_exchange(&companion->is_inside, true)) {
        return;
    }
    for (int64_t waited_ns = 0; waited_ns < PATIENCE_NS; waited_ns += MS) {
        if (!cv_is_leader(companion->other)) {
            atomic_store(&companion->saw_end, true);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
}

/* Closing waits for the first one, whose callback runs; the second one has resigned by then. */
static void elections_that_are_closed_together_resign_at_once(void **unused)
{
    (void)unused;
    struct cv_engine *engine = engine_new();
    struct cv_election *elections[] = {open_in(engine, "together 0", "n"), NULL,
                                       open_in(engine, "together 1", "n")};
    struct companion companion = {.other = elections[2]};
    must_lead(elections[2]);
    assert_int_equal(cv_watch(elections[0], await_the_others_end, &companion), CV_OK);
    must_lead(elections[0]);
    await_flag(&companion.is_inside);
    cv_close_all(elections, 3);
    assert_true(atomic_load(&companion.saw_end));
    assert_int_equal(cv_engine_free(engine), CV_OK);
    struct cv_election *next = open_in(NULL, "together 1", "next");
    must_lead(next);
    cv_close(next);
    cv_close_all(NULL, 0);
}

struct closer {
    struct cv_election *election;
    struct cv_engine *engine; /* NULL: the election's own */
    atomic_bool is_ready, is_closed;
    int code;
};

static void close_inside(void *user, const struct cv_election_status *status)
{
    struct closer *closer = user;
    if (!atomic_load(&closer->is_ready) || status->role != CV_ROLE_LEADER) {
        return;
    }
    cv_close(closer->election);
    closer->code = cv_engine_free(closer->engine);
    atomic_store(&closer->is_closed, true);
}

static void close_in_callback(struct cv_engine *engine, const char *name)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    struct closer closer = {.engine = engine};
    options.engine = engine;
    options.lease_ns = 300 * MS; /* its renewals call soon */
    closer.election = open_with(name, &options);
    assert_int_equal(cv_watch(closer.election, close_inside, &closer), CV_OK);
    atomic_store(&closer.is_ready, true);
    await_flag(&closer.is_closed);
    assert_int_equal(closer.code, CV_OK);
    struct cv_election *next = open_in(NULL, name, "next");
    must_lead(next);
    cv_close(next);
}

static void callback_may_close_its_own_election(void **unused)
{
    (void)unused;
    close_in_callback(NULL, "closed inside");
    close_in_callback(engine_new(), "closed inside, with its engine");
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void waiting_ends_when_the_condition_holds_or_the_time_is_over(void **unused)
{
    (void)unused;
    struct cv_election *a = open_in(NULL, "wait", "a");
    assert_int_equal(cv_wait(a, CV_UNTIL_LEADING, INT64_MAX), CV_OK);
    struct cv_election *b = open_in(NULL, "wait", "b");
    assert_int_equal(cv_wait(b, CV_UNTIL_LEADER, INT64_MAX), CV_OK);
    assert_int_equal(cv_wait(b, CV_UNTIL_NOT_LEADING, 0), CV_OK);
    assert_int_equal(cv_wait(b, CV_UNTIL_LEADING, 0), CV_E_TIMEOUT);
    assert_int_equal(cv_wait(b, CV_UNTIL_LEADING, 20 * MS), CV_E_TIMEOUT);
    assert_int_equal(cv_wait(a, CV_UNTIL_NOT_LEADING, 20 * MS), CV_E_TIMEOUT);
    assert_int_equal(cv_resign(a, NULL), CV_OK);
    assert_int_equal(cv_wait(a, CV_UNTIL_NOT_LEADING, 0), CV_OK);
    must_lead(b);
    cv_close(b);
    cv_close(a);
}

static void descriptor_made_late_signals_a_state_that_nobody_has_read(void **unused)
{
    (void)unused;
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    struct cv_election *a = open_in(NULL, "late descriptor", "a");
    must_lead(a);
    struct pollfd wait = {.fd = cv_fd(a), .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 0), 1);
    assert_int_equal(cv_status(a, &status), CV_OK);
    assert_int_equal(cv_fd(a), wait.fd);
    cv_close(a);
}

/* ---- Progress -------------------------------------------------------------------------------- */

static void progress_counts_only_for_the_leader(void **unused)
{
    (void)unused;
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    struct cv_election *first = open_in(NULL, "progress", "first");
    must_lead(first);
    options.node = "silent";
    options.lease_ns = 300 * MS;
    options.progress_ns = 100 * MS;
    struct cv_election *silent = open_with("progress", &options);
    assert_int_equal(cv_wait(silent, CV_UNTIL_LEADING, 200 * MS), CV_E_TIMEOUT);
    assert_int_equal(cv_status(first, &status), CV_OK);
    const uint64_t token_of_first = status.token;
    cv_close(first);
    do { /* its leadership is short: on a busy machine it may be over before this thread looks */
        struct pollfd wait = {.fd = cv_fd(silent), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 60000), 1);
        assert_int_equal(cv_status(silent, &status), CV_OK);
    } while (status.reason != CV_REASON_NO_PROGRESS);
    /* It led, though it has not called cv_progress() for longer than progress_ns. */
    assert_true(status.last_token > token_of_first);
    assert_non_null(strstr(status.trouble, "no progress"));
    /* It does not compete until its application shows progress. */
    assert_int_equal(cv_wait(silent, CV_UNTIL_LEADING, 1000 * MS), CV_E_TIMEOUT);
    int code = CV_E_TIMEOUT;
    for (int i = 0; i < 2000 && code == CV_E_TIMEOUT; i++) {
        cv_progress(silent);
        code = cv_wait(silent, CV_UNTIL_LEADING, 30 * MS);
    }
    assert_int_equal(code, CV_OK);
    assert_int_equal(cv_status(silent, &status), CV_OK);
    assert_string_equal(status.trouble, "");
    cv_close(silent);
}

/* ---- The log --------------------------------------------------------------------------------- */

struct lines {
    pthread_mutex_t lock;
    char text[8192];
    atomic_bool is_blocked;
};

static void keep_line(void *user, enum cv_log_level level, const char *line)
{
    static const char *const words[] = {"debug", "info", "notice", "warning"};
    struct lines *lines = user;
    assert_null(strchr(line, '\n'));
    pthread_mutex_lock(&lines->lock);
    const size_t length = strlen(lines->text);
    (void)snprintf(lines->text + length, sizeof lines->text - length, "%s %s\n", words[level],
                   line);
    pthread_mutex_unlock(&lines->lock);
    while (atomic_load(&lines->is_blocked)) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
}

static bool has_line(struct lines *lines, const char *line)
{
    pthread_mutex_lock(&lines->lock);
    const bool found = strstr(lines->text, line) != NULL;
    pthread_mutex_unlock(&lines->lock);
    return found;
}

static void await_line(struct lines *lines, const char *line)
{
    for (int i = 0; i < 60000 && !has_line(lines, line); i++) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    if (!has_line(lines, line)) {
        fail_msg("no '%s' in:\n%s", line, lines->text);
    }
}

static void log_has_a_line_for_each_change(void **unused)
{
    (void)unused;
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    options.node = "a";
    options.lease_ns = 300 * MS;
    options.log = keep_line;
    options.log_user = &lines;
    struct cv_election *a = open_with("logged", &options);
    await_line(&lines, "info logged: this process leads, token ");
    await_line(&lines, "debug logged: renewed, token ");
    struct cv_election *b = open_in(NULL, "logged", "b");
    assert_int_equal(cv_wait(b, CV_UNTIL_LEADER, PATIENCE_NS), CV_OK);
    assert_int_equal(cv_request_resign(b, "b"), CV_OK);
    await_line(&lines, "info logged: asked to resign in favour of b\n");
    assert_int_equal(cv_resign(a, "b"), CV_OK);
    await_line(&lines, "info logged: no longer leads (resigned)\n");
    await_line(&lines, "info logged: b leads, token ");
    cv_close(b);
    cv_close(a);
}

static void log_that_hangs_delays_nothing_and_loses_lines(void **unused)
{
    (void)unused;
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    atomic_store(&lines.is_blocked, true);
    options.log = keep_line;
    options.log_user = &lines;
    options.lease_ns = 1000 * MS; /* a leader that resigned stands back for a part of it */
    struct cv_election *a = open_with("slow log", &options);
    for (int i = 0; i < 20; i++) { /* two lines each: elected, resigned */
        must_lead(a);
        assert_int_equal(cv_campaign(a, false), CV_OK);
        assert_int_equal(cv_campaign(a, true), CV_OK);
    }
    atomic_store(&lines.is_blocked, false);
    await_line(&lines, "lines were left out here\n");
    cv_close(a);
}

/* ---- Structs of other versions --------------------------------------------------------------- */

/* A program that was compiled when `node` was the last option. */
struct old_options {
    size_t size;
    const char *node;
};

/* And one that knows an option which this library does not. */
struct new_options {
    struct cv_election_options known;
    int64_t later;
};

static int open_sized(void *options, struct cv_errtext *error)
{
    struct cv_election *e = NULL;
    const int code = cv_open(&e, "sizes", address, options, error);
    cv_close(e);
    return code;
}

static void options_of_older_and_newer_programs_are_understood(void **unused)
{
    (void)unused;
    struct cv_errtext error = {""};
    struct cv_election_options known = CV_ELECTION_OPTIONS_INIT;
    struct old_options old = {.size = sizeof old, .node = "old"};
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    struct cv_election *e = open_with("sizes", (const void *)&old);
    must_lead(e);
    assert_int_equal(cv_status(e, &status), CV_OK);
    assert_string_equal(status.leader, "old");
    cv_close(e);

    struct new_options later = {.known = CV_ELECTION_OPTIONS_INIT};
    later.known.size = sizeof later;
    assert_int_equal(open_sized(&later, &error), CV_OK);
    later.later = 1;
    assert_int_equal(open_sized(&later, &error), CV_E_INVALID);
    assert_non_null(strstr(error.text, "does not know"));

    static const size_t wrong[] = {0, 4, 12, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        known.size = wrong[i];
        assert_int_equal(open_sized(&known, &error), CV_E_INVALID);
        assert_non_null(strstr(error.text, "CV_ELECTION_OPTIONS_INIT"));
    }
}

static void status_of_an_older_program_is_not_written_beyond_its_end(void **unused)
{
    (void)unused;
    struct {
        size_t size;
        uint64_t sequence;
        enum cv_role role;
        uint32_t not_ours[8];
    } old = {.size = offsetof(struct cv_election_status, reason), .not_ours = {7}};
    struct cv_election_status status = {.size = 0};
    struct cv_election *e = open_in(NULL, "old status", "n");
    must_lead(e);
    assert_int_equal(cv_status(e, (void *)&old), CV_OK);
    assert_int_equal(old.role, CV_ROLE_LEADER);
    assert_int_equal(old.not_ours[0], 7);
    assert_int_equal(cv_status(e, &status), CV_E_INVALID);
    assert_int_equal(status.token, 0);
    cv_close(e);
}

/* ---- Wrong arguments ------------------------------------------------------------------------- */

static void wrong_arguments_are_refused_and_harmless(void **unused)
{
    (void)unused;
    char long_name[300];
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_false(cv_is_leader(NULL));
    assert_false(cv_leads(NULL, NULL, NULL));
    assert_int_equal(cv_status(NULL, &status), CV_E_INVALID);
    assert_int_equal(cv_wait(NULL, CV_UNTIL_LEADING, 0), CV_E_INVALID);
    assert_int_equal(cv_fd(NULL), CV_E_INVALID);
    assert_int_equal(cv_watch(NULL, note_thread, NULL), CV_E_INVALID);
    assert_int_equal(cv_campaign(NULL, true), CV_E_INVALID);
    assert_int_equal(cv_resign(NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_request_resign(NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_report(NULL, CV_INPUT_LOAD, 1), CV_E_INVALID);
    assert_int_equal(cv_engine_new(NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_engine_free(NULL), CV_OK);
    cv_progress(NULL);
    cv_close(NULL);
    assert_int_equal(cv_open(NULL, "x", address, NULL, NULL), CV_E_INVALID);

    struct cv_election *e = open_in(NULL, "wrong", "n");
    must_lead(e);
    assert_int_equal(cv_status(e, NULL), CV_E_INVALID);
    assert_int_equal(cv_watch(e, NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_wait(e, (enum cv_until)99, 0), CV_E_INVALID);
    assert_int_equal(cv_wait(e, (enum cv_until) - 1, 0), CV_E_INVALID);
    assert_int_equal(cv_wait(e, CV_UNTIL_LEADING, -1), CV_E_INVALID);
    assert_int_equal(cv_report(e, (enum cv_input)99, 1), CV_E_INVALID);
    assert_int_equal(cv_request_resign(e, long_name), CV_E_INVALID);
    assert_int_equal(cv_request_resign(e, "a\nb"), CV_E_INVALID);
    assert_true(cv_is_leader(e));
    assert_int_equal(cv_resign(e, long_name), CV_E_INVALID);
    assert_false(cv_is_leader(e)); /* it resigns even though the name of the heir is refused */
    cv_close(e);
    assert_string_equal(cv_role_name(CV_ROLE_WAITING), "waiting");
    assert_string_equal(cv_role_name((enum cv_role)99), "unknown");
    assert_string_equal(cv_reason_name((enum cv_reason)99), "unknown");
    assert_string_equal(cv_property_name((enum cv_property)99), "unknown");
    assert_string_equal(cv_assume_text((enum cv_assume)99), "unknown");
    assert_string_equal(cv_strerror(99), "unknown error");

    struct cv_config config;
    const struct cv_protocol *lease = cv_protocol_find("lease");
    cv_config_init(NULL, lease, 1, 1);
    cv_config_init(&config, NULL, 1, 1);
    assert_int_equal(cv_config_set(NULL, lease, "lease", "1s", NULL), CV_E_INVALID);
    assert_int_equal(cv_config_set(&config, lease, NULL, "1s", NULL), CV_E_INVALID);
    assert_int_equal(cv_config_set(&config, lease, "lease", NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_core_configure(NULL, &config, NULL), CV_E_INVALID);
    assert_int_equal(cv_core_configure(lease, NULL, NULL), CV_E_INVALID);
    assert_null(cv_protocol_find(NULL));
    assert_null(cv_oracle_find(NULL));
}

static void lack_of_descriptors_has_its_own_code(void **unused)
{
    (void)unused;
    struct rlimit usual, none;
    struct cv_engine *engine = NULL;
    struct cv_election *e = open_in(NULL, "limit", "n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = usual;
    none.rlim_cur = 3;
    struct cv_errtext error = {""};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int code = cv_engine_new(&engine, &error);
    const int fd = cv_fd(e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(code, CV_E_LIMIT);
    assert_int_equal(fd, CV_E_LIMIT);
    assert_non_null(strstr(error.text, "too many open files"));
    assert_true(cv_fd(e) >= 0); /* works once descriptors are free again */
    cv_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elections_of_one_engine_share_threads_and_descriptors),
        cmocka_unit_test(any_thread_opens_and_closes_while_others_lead),
        cmocka_unit_test(open_that_fails_leaves_the_engine_usable),
        cmocka_unit_test(one_thread_calls_the_watchers_of_all_elections),
        cmocka_unit_test(elections_that_are_closed_together_resign_at_once),
        cmocka_unit_test(callback_may_close_its_own_election),
        cmocka_unit_test(waiting_ends_when_the_condition_holds_or_the_time_is_over),
        cmocka_unit_test(descriptor_made_late_signals_a_state_that_nobody_has_read),
        cmocka_unit_test(progress_counts_only_for_the_leader),
        cmocka_unit_test(log_has_a_line_for_each_change),
        cmocka_unit_test(log_that_hangs_delays_nothing_and_loses_lines),
        cmocka_unit_test(options_of_older_and_newer_programs_are_understood),
        cmocka_unit_test(status_of_an_older_program_is_not_written_beyond_its_end),
        cmocka_unit_test(wrong_arguments_are_refused_and_harmless),
        cmocka_unit_test(lack_of_descriptors_has_its_own_code),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
