/* tests/unit/test_backends.c - what an address promises, and elections in a multicast group through
 * the public interface. Nothing leaves this host; the tests wait for conditions, never for a fixed
 * time. */
#include "core/types.h"
#include "runtime/backend.h"
#include "support/support.h"

#include <conclave/conclave.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 60000 /* only a failure takes so long */

static char folder[TEST_FOLDER_BYTES];

static int setup(void **unused)
{
    (void)unused;
    return test_folder_make(folder) ? 0 : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    return test_folder_remove(folder);
}

static void refuse(const char *address, const struct cv_election_options *options, const char *part)
{
    struct cv_election *e = NULL;
    struct cv_errtext error = {""};
    assert_int_equal(cv_open(&e, "x", address, options, &error), CV_E_INVALID);
    assert_null(e);
    if (strstr(error.text, part) == NULL || strchr(error.text, '\n') != NULL) {
        fail_msg("'%s' does not say '%s' in one line", error.text, part);
    }
}

static uint32_t promises_of(const char *address)
{
    const struct cv_backend_kind *kind = NULL;
    struct cv_backend_contract contract;
    struct cv_errtext error;
    if (cv__backend_find(address, /* accepts_two_leaders= */ true, &kind, &contract, &error) !=
        CV_OK) {
        fail_msg("%s", error.text);
    }
    assert_non_null(contract.words);
    return contract.promises;
}

static void every_store_promises_at_most_one_leader_and_a_group_does_not(void **unused)
{
    (void)unused;
    static const char *const stores[] = {"sqlite:x", "postgres://h/x", "postgresql://h/x",
                                         "etcd://h:1", "zookeeper://h:1/x"};
    for (uint32_t i = 0; i < COUNT_OF(stores); i++) {
        assert_true((promises_of(stores[i]) & CV_PROP(AT_MOST_ONE_LEADER)) != 0);
    }
    const uint32_t group = promises_of("multicast:239.255.67.86:7000");
    assert_false((group & CV_PROP(AT_MOST_ONE_LEADER)) != 0);
    assert_true((group & CV_PROP(LEADER_ORDER)) != 0);
}

static void address_that_allows_two_leaders_must_be_accepted(void **unused)
{
    (void)unused;
    static const char group[] = "multicast:239.255.67.86:7000?insecure&sequencer=file:n";
    refuse(group, NULL, "'multicast:239.255.67.86:7000' does not promise at-most-one-leader: ");
    refuse(group, NULL, "there may be two leaders for a moment; use 'conclave elect'");
}

static void options_that_need_a_lease_are_refused_without_one(void **unused)
{
    (void)unused;
    static const char group[] = "multicast:239.255.67.86:7000?insecure&sequencer=file:n";
    struct cv_election_options options = {
        .size = sizeof options, .accepts_two_leaders = true, .lease_ns = NS_PER_S};
    refuse(group, &options, "'multicast:239.255.67.86:7000' has no lease");
    options.lease_ns = 0;
    options.progress_ns = NS_PER_S;
    refuse(group, &options, "has no lease");
}

static void unknown_address_suggests_the_nearest_name(void **unused)
{
    (void)unused;
    refuse("redis:x", NULL,
           "unknown store 'redis'; known: sqlite, postgres, etcd, zookeeper, multicast");
    refuse("sqlit:x", NULL, "unknown store 'sqlit'; did you mean 'sqlite'?");
    refuse("multcast:x", NULL, "did you mean 'multicast'?");
    refuse("/tmp/x.db", NULL, "'/tmp/x.db' is not an address; write it like sqlite:FILE");
    refuse("", NULL, "'' is not an address");
    refuse("//root:secret@x", NULL, "this is not an address"); /* no password on a terminal */
    refuse("multicast:239.255.67.86:7000?protocol=anom", NULL,
           "unknown protocol 'anom'; did you mean 'anon'?");
    refuse("multicast:239.255.67.86:7000?ete=5ms", NULL,
           "unknown address option 'ete'; did you mean");
}

static struct cv_election_status await_role(struct cv_election *e, enum cv_role role,
                                            uint64_t above)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    for (;;) {
        cv_status(e, &status);
        if (status.role == role && status.token > above) {
            return status;
        }
        struct pollfd wait = {.fd = cv_fd(e), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    }
}

static void log_line(void *user, enum cv_log_level level, const char *line)
{
    if (level != CV_LOG_NOTICE) {
        return;
    }
    (void)snprintf(user, CV_ERRTEXT_BYTES, "%s", line);
}

/* A contender, or an observer, in the group of this run. A contender that is alone there leads. */
static struct cv_election *join_group(struct cv_engine *engine, char *heard, bool is_observer)
{
    char group[512], name[32];
    (void)snprintf(group, sizeof group,
                   "multicast:239.255.67.86:%d?interface=127.0.0.1&ttl=0&insecure&eta=20ms"
                   "&eps=100ms&R=1&sequencer=file:%s/numbers",
                   20000 + (int)getpid() % 20000, folder);
    /* Not the group of another run of this test. */
    (void)snprintf(name, sizeof name, "group-%d", (int)getpid());
    const struct cv_election_options options = {.size = sizeof options,
                                                .is_observer = is_observer,
                                                .accepts_two_leaders = true,
                                                .engine = engine,
                                                .log = log_line,
                                                .log_user = heard};
    struct cv_errtext error;
    struct cv_election *e = NULL;
    if (cv_open(&e, name, group, &options, &error) != CV_OK) {
        fail_msg("%s", error.text);
    }
    return e;
}

static void multicast_group_is_an_election_like_any_other(void **unused)
{
    (void)unused;
    char heard[CV_ERRTEXT_BYTES] = "";
    struct cv_election *e = join_group(NULL, heard, /* is_observer= */ false);
    const struct cv_election_status status = await_role(e, CV_ROLE_LEADER, 0);
    uint64_t token = 0;
    int64_t left_ns = 0;
    assert_true(cv_leads(e, &token, &left_ns));
    assert_int_equal(token, status.token);
    assert_true(left_ns > INT64_MAX / 2); /* no lease: the leadership has no end that is known */
    assert_int_equal(status.valid_until_ns, 0);
    assert_int_equal(strlen(status.self), 16);
    assert_string_equal(status.leader, status.self);
    cv_resign(e, NULL);
    assert_false(cv_is_leader(e));
    assert_true(await_role(e, CV_ROLE_LEADER, token).token > token);
    cv_request_resign(e, NULL);
    cv_close(e);
    assert_non_null(strstr(heard, "cannot be asked to resign"));
}

static void observer_of_a_group_sees_the_leader_and_never_leads(void **unused)
{
    (void)unused;
    char heard[CV_ERRTEXT_BYTES] = "";
    struct cv_election *observer = join_group(NULL, heard, /* is_observer= */ true);
    struct cv_election *e = join_group(NULL, heard, /* is_observer= */ false);
    const struct cv_election_status leads = await_role(e, CV_ROLE_LEADER, 0);
    const struct cv_election_status seen = await_role(observer, CV_ROLE_OBSERVER, leads.token - 1);
    assert_string_equal(seen.leader, leads.self);
    assert_string_not_equal(seen.self, leads.self);
    cv_close(e); /* it says goodbye: the others need not wait for a timeout */
    for (struct cv_election_status now = seen; now.leader[0] != '\0'; cv_status(observer, &now)) {
        struct pollfd wait = {.fd = cv_fd(observer), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
        assert_false(cv_is_leader(observer));
    }
    cv_close(observer);
}

static int count_timerfds(void)
{
    DIR *list = opendir("/proc/self/fd");
    assert_non_null(list);
    int count = 0;
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        char target[64] = "";
        const ssize_t length = readlinkat(dirfd(list), entry->d_name, target, sizeof target - 1);
        count += length > 0 && strstr(target, "[timerfd]") != NULL;
    }
    (void)closedir(list);
    return count;
}

static void groups_of_one_engine_share_its_timer(void **unused)
{
    (void)unused;
    enum { COUNT = 4 };
    char heard[CV_ERRTEXT_BYTES] = "";
    struct cv_engine *engine = NULL;
    struct cv_election *elections[COUNT];
    assert_int_equal(cv_engine_new(&engine, NULL), CV_OK);
    const int timers = count_timerfds();
    assert_true(timers > 0);
    for (int i = 0; i < COUNT; i++) {
        elections[i] = join_group(engine, heard, /* is_observer= */ i > 0);
    }
    (void)await_role(elections[0], CV_ROLE_LEADER, 0); /* its timers work */
    assert_int_equal(count_timerfds(), timers);
    for (int i = 0; i < COUNT; i++) {
        cv_close(elections[i]);
    }
    assert_int_equal(cv_engine_free(engine), CV_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store_promises_at_most_one_leader_and_a_group_does_not),
        cmocka_unit_test(address_that_allows_two_leaders_must_be_accepted),
        cmocka_unit_test(options_that_need_a_lease_are_refused_without_one),
        cmocka_unit_test(unknown_address_suggests_the_nearest_name),
        cmocka_unit_test(multicast_group_is_an_election_like_any_other),
        cmocka_unit_test(observer_of_a_group_sees_the_leader_and_never_leads),
        cmocka_unit_test(groups_of_one_engine_share_its_timer),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
