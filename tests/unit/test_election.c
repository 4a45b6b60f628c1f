/* tests/unit/test_election.c [KIND] - the public elections, on the embedded store, or on a server
 * that tools/with-servers has started. Real threads and real time; the tests wait for conditions,
 * never for a fixed time. */
#include "stores/store.h"
#include "support/support.h"

#include <conclave/conclave.h>
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define PATIENCE_MS 60000 /* only a failure takes so long */

static char folder[TEST_FOLDER_BYTES], address[512];
static const char *kind_name = "sqlite";
static int64_t short_ns; /* a lease that is short for this kind of store */

/* The address of a server that was started for us, e.g. in CV_TEST_ETCD. */
static bool server_find(void)
{
    char variable[64];
    (void)snprintf(variable, sizeof variable, "CV_TEST_%s", kind_name);
    for (char *at = variable; *at != '\0'; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    const char *value = getenv(variable);
    if (value == NULL) {
        return false;
    }
    (void)snprintf(address, sizeof address, "%s", value);
    struct cv_errtext error;
    const struct cv_store_kind *kind = cv__store_find(address);
    if (kind == NULL || (kind->create != NULL && kind->create(address, &error) != CV_OK)) {
        return false;
    }
    return true;
}

static int setup(void **unused)
{
    (void)unused;
    if (!test_folder_make(folder)) {
        return -1;
    }
    (void)snprintf(address, sizeof address, "sqlite:%s/e.db", folder);
    if (strcmp(kind_name, "sqlite") != 0 && !server_find()) {
        return -1;
    }
    const int64_t least_ns = cv__store_find(address)->lease_ns_min;
    short_ns = least_ns > 300 * MS ? least_ns : 300 * MS;
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    return test_folder_remove(folder);
}

static struct cv_election *contender(const char *name, const char *node, int64_t lease_ns)
{
    struct cv_election *e = NULL;
    struct cv_errtext error;
    const struct cv_election_options options = {
        .size = sizeof options, .node = node, .lease_ns = lease_ns};
    if (cv_open(&e, name, address, &options, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    return e;
}

/* Reads states until one is as wanted. */
static struct cv_election_status await(struct cv_election *e,
                                       bool (*is_wanted)(const struct cv_election_status *status,
                                                         const char *text),
                                       const char *text)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    for (;;) {
        cv_status(e, &status);
        if (is_wanted(&status, text)) {
            return status;
        }
        struct pollfd wait = {.fd = cv_fd(e), .events = POLLIN};
        if (poll(&wait, 1, PATIENCE_MS) != 1) {
            fail_msg("condition not met in time: role %d, leader '%s', %s", (int)status.role,
                     status.leader, status.trouble);
        }
    }
}

static bool leads(const struct cv_election_status *status, const char *unused)
{
    (void)unused;
    return status->role == CV_ROLE_LEADER;
}

static bool leads_not(const struct cv_election_status *status, const char *unused)
{
    (void)unused;
    return status->role != CV_ROLE_LEADER;
}

/* Lines about renewals, and when the first came. */
static atomic_uint renewed_count;

static void count_renewed(void *unused, enum cv_log_level level, const char *line)
{
    (void)unused;
    if (level == CV_LOG_DEBUG && strstr(line, "renewed") != NULL) {
        atomic_fetch_add(&renewed_count, 1);
    }
}

/* A process that only waits for changes is not woken by renewals: neither the descriptor nor a log
 * line tells of them. */
static void renewals_are_not_changes_if_the_program_says_so(void **unused)
{
    (void)unused;
    struct cv_election *e = NULL;
    struct cv_errtext error;
    const struct cv_election_options options = {.size = sizeof options,
                                                .lease_ns = short_ns,
                                                .log = count_renewed,
                                                .ignores_renewals = true};
    if (cv_open(&e, "renewals", address, &options, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    const struct cv_election_status first = await(e, leads, NULL);
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    struct timespec began, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    int64_t last_ns = first.valid_until_ns;
    for (uint32_t renewals = 0; renewals < 4;) {
        cv_status(e, &status);
        if (status.role != CV_ROLE_LEADER || status.token != first.token) {
            break; /* lost on a busy machine: that is a change */
        }
        assert_int_equal(status.sequence, first.sequence);
        renewals += status.valid_until_ns != last_ns;
        last_ns = status.valid_until_ns;
        (void)usleep(1000);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(atomic_load(&renewed_count) <= 2 + (unsigned)(now.tv_sec - began.tv_sec));
    cv_close(e);
}

static bool sees(const struct cv_election_status *status, const char *leader)
{
    return strcmp(status->leader, leader) == 0;
}

static bool is_asked(const struct cv_election_status *status, const char *heir)
{
    return status->is_resign_requested && strcmp(status->heir, heir) == 0;
}

static void one_leads_and_the_other_takes_over_when_it_closes(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("two", "a", 0);
    const struct cv_election_status first = await(a, leads, NULL);
    assert_string_equal(first.leader, "a");
    assert_true(first.has_majority);
    uint64_t token;
    int64_t left_ns;
    assert_true(cv_is_leader(a));
    assert_true(cv_leads(a, &token, &left_ns));
    assert_int_equal(token, first.token);
    assert_true(left_ns > 0 && left_ns <= 5000 * MS);

    struct cv_election *b = contender("two", "b", 0);
    const struct cv_election_status waiting = await(b, sees, "a");
    assert_int_equal(waiting.role, CV_ROLE_WAITING);
    assert_int_equal(waiting.token, first.token);
    assert_false(cv_is_leader(b));
    assert_false(cv_leads(b, NULL, NULL));
    cv_close(a);
    assert_true(await(b, leads, NULL).token > first.token);
    cv_close(b);
}

/* [traps.md T13] */
static void same_name_twice_is_two_contenders(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("twins", "same", 0);
    const uint64_t token = await(a, leads, NULL).token;
    struct cv_election *b = contender("twins", "same", 0);
    assert_int_equal(await(b, sees, "same").role, CV_ROLE_WAITING);
    assert_true(cv_is_leader(a));
    cv_close(a);
    assert_true(await(b, leads, NULL).token > token);
    cv_close(b);
}

static void resignation_ends_the_leadership_at_once_and_lets_others_go_first(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("resign", "a", 0);
    await(a, leads, NULL);
    struct cv_election *b = contender("resign", "b", 0);
    struct cv_election *c = contender("resign", "c", 0);
    await(b, sees, "a");
    await(c, sees, "a");
    cv_resign(a, "c");
    assert_false(cv_is_leader(a));
    await(c, leads, NULL);
    await(a, sees, "c");
    assert_false(cv_is_leader(b));
    cv_close(c);
    cv_close(b);
    await(a, leads, NULL); /* it is still a candidate */
    cv_close(a);
}

static void leader_is_told_that_it_is_asked_to_resign(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("ask", "a", 0);
    await(a, leads, NULL);
    struct cv_election *b = contender("ask", "b", 0);
    await(b, sees, "a");
    cv_request_resign(b, "b");
    await(a, is_asked, "b");
    assert_true(cv_is_leader(a)); /* until its work has stopped */
    cv_resign(a, "b");
    assert_false(await(b, leads, NULL).is_resign_requested);
    cv_close(b);
    cv_close(a);
}

static void leader_that_asks_for_a_resignation_is_asked_itself(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("ask itself", "a", 0);
    await(a, leads, NULL);
    cv_request_resign(a, "b");
    await(a, is_asked, "b");
    assert_true(cv_is_leader(a));
    cv_close(a);
}

static void observer_never_leads_until_it_campaigns(void **unused)
{
    (void)unused;
    struct cv_election *observer = NULL;
    struct cv_errtext error;
    const struct cv_election_options options = {
        .size = sizeof options, .node = "o", .is_observer = true};
    assert_int_equal(cv_open(&observer, "watched", address, &options, &error), CV_OK);
    struct cv_election *a = contender("watched", "a", 0);
    await(a, leads, NULL);
    assert_int_equal(await(observer, sees, "a").role, CV_ROLE_OBSERVER);
    cv_campaign(a, false);
    assert_false(cv_is_leader(a));
    await(observer, sees, "");
    cv_campaign(observer, true);
    await(observer, leads, NULL);
    cv_close(a);
    cv_close(observer);
}

static bool knows_that_nobody_leads(const struct cv_election_status *status, const char *unused)
{
    (void)unused;
    return status->is_leader_known && status->leader[0] == '\0';
}

static void late_observer_knows_how_the_latest_leadership_ended(void **unused)
{
    (void)unused;
    uint64_t token = 0;
    for (int i = 0; i < 2; i++) {
        struct cv_election *e = contender("over", "e", 0);
        token = await(e, leads, NULL).token;
        cv_close(e);
    }
    struct cv_election *observer = NULL;
    struct cv_errtext error;
    const struct cv_election_options options = {
        .size = sizeof options, .node = "o", .is_observer = true};
    assert_int_equal(cv_open(&observer, "over", address, &options, &error), CV_OK);
    const struct cv_election_status status = await(observer, knows_that_nobody_leads, NULL);
    assert_int_equal(status.last_token, token);
    assert_int_equal(status.last_reason, CV_REASON_RESIGNED);
    cv_close(observer);
}

static void hundred_elections_in_one_process(void **unused)
{
    (void)unused;
    enum { COUNT = 100 };
    static struct cv_election *elections[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many %d", i);
        elections[i] = contender(name, "one of them", 0);
    }
    for (int i = 0; i < COUNT; i++) {
        await(elections[i], leads, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        cv_close(elections[i]);
    }
}

/* [traps.md T6] */
static void leader_whose_work_is_stuck_is_not_renewed(void **unused)
{
    (void)unused;
    struct cv_election *e = NULL;
    struct cv_errtext error;
    const struct cv_election_options options = {
        .size = sizeof options, .node = "stuck", .lease_ns = short_ns, .progress_ns = short_ns / 3};
    assert_int_equal(cv_open(&e, "stuck", address, &options, &error), CV_OK);
    await(e, leads, NULL);
    /* It lost the leadership by itself. */
    assert_int_equal(await(e, leads_not, NULL).role, CV_ROLE_WAITING);
    struct cv_election *other = contender("stuck", "other", 0);
    await(other, leads, NULL);
    cv_close(e);
    cv_close(other);
}

/* It tells the others why it ends, but not before its lease is over. */
static void stuck_leader_does_not_release_while_it_leads(void **unused)
{
    (void)unused;
    struct cv_errtext error;
    struct cv_election *e = NULL;
    const struct cv_election_options options = {
        .size = sizeof options, .node = "stuck", .lease_ns = short_ns, .progress_ns = short_ns / 6};
    assert_int_equal(cv_open(&e, "stuck and waited for", address, &options, &error), CV_OK);
    const uint64_t token = await(e, leads, NULL).token;
    struct cv_election *other = contender("stuck and waited for", "other", 0);
    while (!cv_is_leader(other)) {
        nanosleep(&(struct timespec){.tv_nsec = MS / 10}, NULL);
    }
    uint64_t seen_token;
    assert_false(cv_leads(e, &seen_token, NULL)); /* asked after the other was seen to lead */
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    cv_status(other, &status);
    assert_true(status.token > token);
    cv_close(e);
    cv_close(other);
}

static atomic_int change_count;
static atomic_bool is_let_go;

static void slow_consumer(void *user, const struct cv_election_status *status)
{
    (void)status;
    atomic_fetch_add(&change_count, 1);
    while (!atomic_load((atomic_bool *)user)) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
}

/* [traps.md T25] A slow consumer sees the latest state, and nobody waits for it. */
static void slow_watcher_delays_nothing(void **unused)
{
    (void)unused;
    atomic_store(&is_let_go, false);
    struct cv_election *a = contender("slow", "a", short_ns);
    assert_int_equal(cv_watch(a, slow_consumer, &is_let_go), CV_OK);
    assert_int_equal(cv_watch(a, slow_consumer, &is_let_go), CV_E_INVALID);
    uint64_t sequence = await(a, leads, NULL).sequence;
    for (int i = 0; i < 20; i++) { /* renewals go on */
        struct pollfd wait = {.fd = cv_fd(a), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
        struct cv_election_status status = CV_ELECTION_STATUS_INIT;
        cv_status(a, &status);
        assert_true(status.sequence > sequence);
        sequence = status.sequence;
    }
    assert_true(atomic_load(&change_count) <= 1);
    atomic_store(&is_let_go, true);
    cv_close(a);
}

static void descriptor_is_quiet_after_reading(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("quiet", "a", 60000 * MS);
    await(a, leads, NULL);
    struct pollfd wait = {.fd = cv_fd(a), .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 0), 0);
    cv_close(a);
}

static void *ask_a_lot(void *data)
{
    struct cv_election *e = data;
    uint64_t last = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t token = 0;
        int64_t left_ns = 0;
        if (cv_leads(e, &token, &left_ns)) {
            if (token < last || left_ns <= 0 || left_ns > short_ns) {
                return (void *)e;
            }
            last = token;
        }
    }
    return NULL;
}

static void any_thread_may_call_the_library(void **unused)
{
    (void)unused;
    struct cv_election *a = contender("threads", "a", short_ns);
    await(a, leads, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_a_lot, a), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    cv_close(a);
}

/* Signals of the application are not for the library's threads, libuv's pool included: one that got
 * SIGTERM there would end the program, or run its handler on a thread of ours. */
static void threads_of_the_library_take_no_signals(void **unused)
{
    (void)unused;
    struct cv_election *e = contender("signals", "a", 0);
    (void)await(e, leads, NULL); /* the disk was used: the pool is there */
    uint32_t thread_count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) {
            continue;
        }
        char path[320], line[256];
        unsigned long long blocked = 0;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            (void)sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (status != NULL) {
            (void)fclose(status);
            assert_true((blocked & 1ull << (SIGTERM - 1)) != 0);
            assert_true((blocked & 1ull << (SIGCHLD - 1)) != 0);
            thread_count++;
        }
    }
    (void)closedir(tasks);
    assert_true(thread_count >= 1); /* the engine's; and the pool's, on stores that use it */
    cv_close(e);
}

static void refuse(const char *name, const char *where, const struct cv_election_options *options,
                   int code, const char *part)
{
    struct cv_election *e = NULL;
    struct cv_errtext error = {""};
    assert_int_equal(cv_open(&e, name, where, options, &error), code);
    assert_null(e);
    if (strstr(error.text, part) == NULL || strchr(error.text, '\n') != NULL) {
        fail_msg("'%s' does not say '%s' in one line", error.text, part);
    }
}

static void bad_arguments_are_refused_with_a_line(void **unused)
{
    (void)unused;
    char long_name[301];
    memset(long_name, 'x', 300);
    long_name[300] = '\0';
    refuse(NULL, address, NULL, CV_E_INVALID, "name");
    refuse("", address, NULL, CV_E_INVALID, "1 to 255 bytes");
    refuse(long_name, address, NULL, CV_E_INVALID, "1 to 255 bytes");
    refuse("a\nb", address, NULL, CV_E_INVALID, "control characters");
    refuse("x", "nonsense:y", NULL, CV_E_INVALID, "unknown store 'nonsense'; known: sqlite");
    refuse("x", "", NULL, CV_E_INVALID, "is not an address");
    refuse("x", "sqlite:", NULL, CV_E_INVALID, "names no file");
    refuse("x", "sqlite:/nowhere/at/all.db", NULL, CV_E_STORE, "/nowhere/at/all.db");
    refuse("x", "sqlite:/etc/passwd", NULL, CV_E_STORE, "not a database");
    refuse(
        "x", address,
        &(struct cv_election_options){.size = sizeof(struct cv_election_options), .lease_ns = -1},
        CV_E_INVALID, "negative");
    refuse("x", address,
           &(struct cv_election_options){.size = sizeof(struct cv_election_options), .lease_ns = 1},
           CV_E_INVALID, "too short");
    refuse("x", address,
           &(struct cv_election_options){.size = sizeof(struct cv_election_options), .node = ""},
           CV_E_INVALID, "node's name");
    refuse("x", address,
           &(struct cv_election_options){.size = sizeof(struct cv_election_options), .node = "*"},
           CV_E_INVALID, "node's name");
    refuse("x", address,
           &(struct cv_election_options){.size = sizeof(struct cv_election_options),
                                         .node = long_name},
           CV_E_INVALID, "node's name");
    cv_close(NULL);
}

static void token_grows_at_each_of_fifty_changes(void **unused)
{
    (void)unused;
    struct cv_election *pair[] = {contender("fifty", "a", 0), NULL};
    uint64_t token = await(pair[0], leads, NULL).token;
    pair[1] = contender("fifty", "b", 0);
    await(pair[1], sees, "a");
    for (int i = 0; i < 50; i++) {
        struct cv_election *from = pair[i % 2], *to = pair[(i + 1) % 2];
        cv_resign(from, NULL);
        const uint64_t next = await(to, leads, NULL).token;
        assert_true(next > token);
        assert_false(cv_is_leader(from));
        token = next;
        await(from, sees, i % 2 == 0 ? "b" : "a");
    }
    cv_close(pair[0]);
    cv_close(pair[1]);
}

static bool has_trouble(const struct cv_election_status *status, const char *unused)
{
    (void)unused;
    return status->trouble[0] != '\0';
}

/* The core goes on asking until its host is freed, which happens after the store is closed. */
static void closing_while_the_store_is_slow_is_harmless(void **unused)
{
    (void)unused;
    if (strcmp(kind_name, "sqlite") != 0) {
        return; /* tests/stores covers slow servers */
    }
    struct cv_election *e = contender("slow", "a", 100 * MS);
    await(e, leads, NULL);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(address + strlen("sqlite:"), &other), SQLITE_OK);
    (void)sqlite3_busy_timeout(other, PATIENCE_MS); /* the leader renews all the time */
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    await(e, has_trouble, NULL);
    for (int i = 0; i < 100; i++) {
        cv_request_resign(e, "b"); /* each of them is one more request to a store that hangs */
        (void)usleep(1000);
    }
    cv_close(e);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        kind_name = argv[1];
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_leads_and_the_other_takes_over_when_it_closes),
        cmocka_unit_test(same_name_twice_is_two_contenders),
        cmocka_unit_test(resignation_ends_the_leadership_at_once_and_lets_others_go_first),
        cmocka_unit_test(leader_is_told_that_it_is_asked_to_resign),
        cmocka_unit_test(leader_that_asks_for_a_resignation_is_asked_itself),
        cmocka_unit_test(observer_never_leads_until_it_campaigns),
        cmocka_unit_test(late_observer_knows_how_the_latest_leadership_ended),
        cmocka_unit_test(token_grows_at_each_of_fifty_changes),
        cmocka_unit_test(hundred_elections_in_one_process),
        cmocka_unit_test(leader_whose_work_is_stuck_is_not_renewed),
        cmocka_unit_test(stuck_leader_does_not_release_while_it_leads),
        cmocka_unit_test(slow_watcher_delays_nothing),
        cmocka_unit_test(descriptor_is_quiet_after_reading),
        cmocka_unit_test(renewals_are_not_changes_if_the_program_says_so),
        cmocka_unit_test(any_thread_may_call_the_library),
        cmocka_unit_test(threads_of_the_library_take_no_signals),
        cmocka_unit_test(bad_arguments_are_refused_with_a_line),
        cmocka_unit_test(closing_while_the_store_is_slow_is_harmless),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
