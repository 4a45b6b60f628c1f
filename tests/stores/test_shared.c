/* tests/stores/test_shared.c KIND - several elections of one program on one store share
 * connections, but a fault of one does not affect the others.
 *
 * KIND is sqlite (a file of its own), or postgres, etcd or zookeeper with the servers of
 * tools/with-servers. All elections of a crowd are opened on one loop with one list of shared
 * connections. */
#include "core/address.h"
#include "stores/proxy.h"
#include "stores/store.h"
#include "support/support.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CROWD_MAX 200
#define PATIENCE_NS (60 * NS_PER_S) /* not a limit on speed: it only makes a hanging test end */
#define LEASE_NS (10 * NS_PER_S)

static char address[512];
static const char *kind_name;
static const struct cv_store_kind *kind;
static uint32_t crowd_count; /* how many elections there are at once */

struct member {
    struct crowd *crowd;
    struct cv_store *store;
    uint64_t label;
    uint64_t request; /* the latest one */
    bool is_answered;
    enum cv_store_verdict verdict;
    uint64_t token, holder;
    char why[512];
    uint32_t changed_count;
    bool is_closed;
};

struct crowd {
    uv_loop_t loop;
    uv_timer_t tick;
    struct cv_shared_list shared;
    struct member member[CROWD_MAX];
    uint32_t count;
};

/* ---- The crowd ----------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void on_answer(void *user, const struct cv_store_answer *answer)
{
    struct member *m = user;
    assert_false(m->is_closed);
    if (answer->request == 0) {
        m->changed_count++;
        return;
    }
    if (answer->request == m->request) {
        m->is_answered = true;
        m->verdict = answer->verdict;
        m->token = answer->token;
        m->holder = answer->holder;
        (void)snprintf(m->why, sizeof m->why, "%s", answer->why != NULL ? answer->why : "");
    }
}

static char logged_line[1024];

static void on_log(void *user, const char *line)
{
    (void)user;
    (void)snprintf(logged_line, sizeof logged_line, "%s", line);
}

static struct member *join(struct crowd *crowd, const char *election, const char *at)
{
    static uint64_t label_count;
    assert_true(crowd->count < CROWD_MAX);
    struct member *m = &crowd->member[crowd->count++];
    m->crowd = crowd;
    m->label = (uint64_t)now_ns() << 8 | ++label_count;
    const struct cv_store_setting setting = {.loop = &crowd->loop,
                                             .shared = &crowd->shared,
                                             .address = at,
                                             .election = election,
                                             .node = "a",
                                             .label = m->label,
                                             .answered = on_answer,
                                             .log = on_log,
                                             .user = m};
    struct cv_errtext err;
    if (kind->open(&m->store, &setting, &err) != CV_OK) {
        fail_msg("%s", err.text);
    }
    return m;
}

static struct crowd *crowd_new(uint32_t count, const char *at)
{
    static uint32_t crowds;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    assert_int_equal(uv_loop_init(&crowd->loop), 0);
    (void)uv_timer_init(&crowd->loop, &crowd->tick);
    crowds++;
    for (uint32_t i = 0; i < count; i++) {
        char election[64];
        (void)snprintf(election, sizeof election, "shared %u.%u.%u", (unsigned)getpid(),
                       (unsigned)crowds, (unsigned)i);
        (void)join(crowd, election, at);
    }
    return crowd;
}

static void on_closed(void *user)
{
    struct member *m = user;
    m->is_closed = true;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* it only makes the loop run, for conditions that time alone makes true */
}

static void run_until(struct crowd *crowd, bool (*is_true)(const struct member *member),
                      const char *what)
{
    const int64_t end_ns = now_ns() + PATIENCE_NS;
    (void)uv_timer_start(&crowd->tick, on_tick, 5, 5);
    for (uint32_t i = 0; i < crowd->count;) {
        if (is_true(&crowd->member[i])) {
            i++;
            continue;
        }
        if (now_ns() > end_ns) {
            fail_msg("timed out waiting for %s (election %u: %s)", what, (unsigned)i,
                     crowd->member[i].why);
        }
        (void)uv_run(&crowd->loop, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&crowd->tick);
}

static bool is_closed(const struct member *m)
{
    return m->is_closed;
}

static bool is_answered(const struct member *m)
{
    return m->is_closed || m->is_answered;
}

static void leave(struct member *m)
{
    kind->close(m->store, on_closed, m);
    while (!m->is_closed) {
        (void)uv_run(&m->crowd->loop, UV_RUN_ONCE);
    }
}

static void crowd_free(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        if (!crowd->member[i].is_closed) {
            kind->close(crowd->member[i].store, on_closed, &crowd->member[i]);
        }
    }
    run_until(crowd, is_closed, "closing");
    assert_null(crowd->shared.first); /* the last one closed the connection */
    uv_close((uv_handle_t *)&crowd->tick, NULL);
    while (uv_run(&crowd->loop, UV_RUN_NOWAIT) != 0) {
    }
    assert_int_equal(uv_loop_close(&crowd->loop), 0);
    free(crowd);
}

static void ask_now(struct member *m, enum cv_store_verb verb, int64_t lease_ns)
{
    m->is_answered = false;
    kind->ask(m->store, &(struct cv_store_request){.verb = verb,
                                                   .request = ++m->request,
                                                   .attempt = 1,
                                                   .token = verb != CV_STORE_ACQUIRE ? m->token : 0,
                                                   .lease_ns = lease_ns});
}

static enum cv_store_verdict ask(struct member *m, enum cv_store_verb verb, int64_t lease_ns)
{
    const int64_t end_ns = now_ns() + PATIENCE_NS;
    ask_now(m, verb, lease_ns);
    (void)uv_timer_start(&m->crowd->tick, on_tick, 5, 5);
    while (!m->is_answered) { /* it may need only one more run of the loop */
        assert_true(now_ns() < end_ns);
        (void)uv_run(&m->crowd->loop, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&m->crowd->tick);
    return m->verdict;
}

/* Each election asks, and asks again while its answer is FAILED, or HELD by nobody: as a core
 * would. */
static void ask_all(struct crowd *crowd, enum cv_store_verb verb, enum cv_store_verdict wanted)
{
    const int64_t end_ns = now_ns() + PATIENCE_NS;
    bool is_done = false;
    for (uint32_t i = 0; i < crowd->count; i++) {
        if (!crowd->member[i].is_closed) {
            ask_now(&crowd->member[i], verb, LEASE_NS);
        }
    }
    while (!is_done) {
        run_until(crowd, is_answered, "answers");
        is_done = true;
        for (uint32_t i = 0; i < crowd->count; i++) {
            struct member *m = &crowd->member[i];
            if (!m->is_closed && m->verdict != wanted) {
                if (m->verdict != CV_STORE_FAILED && m->verdict != CV_STORE_HELD) {
                    fail_msg("election %u: verdict %d", (unsigned)i, (int)m->verdict);
                }
                assert_true(now_ns() < end_ns);
                ask_now(m, verb, LEASE_NS);
                is_done = false;
            }
        }
    }
}

static uint32_t descriptor_count(void)
{
    uint32_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all) != NULL) {
        count++;
    }
    (void)closedir(all);
    return count;
}

/* ---- The tests ----------------------------------------------------------------------------- */

static void many_elections_share_one_connection(void **unused)
{
    (void)unused;
    const uint32_t before = descriptor_count();
    struct crowd *crowd = crowd_new(crowd_count, address);
    ask_all(crowd, CV_STORE_ACQUIRE, CV_STORE_GRANTED);
    assert_non_null(crowd->shared.first);
    assert_null(crowd->shared.first->next);
    assert_int_equal(crowd->shared.first->user_count, crowd_count);
    print_message("# %s: %u descriptors for %u elections\n", kind_name,
                  (unsigned)(descriptor_count() - before), (unsigned)crowd_count);
    assert_true(descriptor_count() - before < 32);
    ask_all(crowd, CV_STORE_RENEW, CV_STORE_GRANTED);
    ask_all(crowd, CV_STORE_RELEASE, CV_STORE_FREE);
    crowd_free(crowd);
}

static void one_closes_and_the_others_go_on(void **unused)
{
    (void)unused;
    struct crowd *crowd = crowd_new(20, address);
    ask_all(crowd, CV_STORE_ACQUIRE, CV_STORE_GRANTED);
    for (uint32_t i = 0; i < 20; i += 2) {
        if (i % 4 == 0) {
            ask_now(&crowd->member[i], CV_STORE_RENEW, LEASE_NS); /* in the middle of a request */
        }
        leave(&crowd->member[i]);
        ask_all(crowd, CV_STORE_RENEW, CV_STORE_GRANTED);
    }
    ask_all(crowd, CV_STORE_RELEASE, CV_STORE_FREE);
    crowd_free(crowd);
}

static bool has_heard(const struct member *m)
{
    return m->is_closed || m->label != m->crowd->member[1].label || m->changed_count > 0;
}

/* One program opens the same election twice: these are two contenders. */
static void the_same_election_twice_is_two_contenders(void **unused)
{
    (void)unused;
    struct crowd *crowd = crowd_new(0, address);
    char election[64];
    (void)snprintf(election, sizeof election, "twice %u", (unsigned)getpid());
    struct member *a = join(crowd, election, address);
    struct member *b = join(crowd, election, address);
    assert_int_equal(ask(a, CV_STORE_ACQUIRE, LEASE_NS), CV_STORE_GRANTED);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, LEASE_NS), CV_STORE_HELD);
    assert_int_equal(b->holder, a->label);
    b->changed_count = 0;
    const uint64_t token = a->token; /* before an answer has the token of the next leadership */
    ask_now(a, CV_STORE_RELEASE, 0);
    run_until(crowd, has_heard, "the notification of the release");
    for (int i = 0; ask(b, CV_STORE_ACQUIRE, LEASE_NS) != CV_STORE_GRANTED; i++) {
        assert_true(i < 100);
    }
    assert_true(b->token > token);
    assert_int_equal(ask(b, CV_STORE_RELEASE, 0), CV_STORE_FREE);
    crowd_free(crowd);
}

static void other_settings_use_another_connection(void **unused)
{
    (void)unused;
    char other[600];
    (void)snprintf(other, sizeof other, "%s%capplication_name=other", address,
                   strchr(address, '?') != NULL ? '&' : '?');
    struct crowd *crowd = crowd_new(2, address);
    (void)join(crowd, "elsewhere", other);
    ask_all(crowd, CV_STORE_ACQUIRE, CV_STORE_GRANTED);
    assert_non_null(crowd->shared.first->next);
    assert_int_equal(crowd->shared.first->user_count, 1);
    assert_int_equal(crowd->shared.first->next->user_count, 2);
    ask_all(crowd, CV_STORE_RELEASE, CV_STORE_FREE);
    crowd_free(crowd);
}

static struct proxy *proxy_in_front(struct crowd *crowd, char ret_address[512])
{
    struct cv_address parts;
    assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
    char host[64];
    uint32_t port;
    assert_true(cv__address_host(&parts, 0, host, sizeof host, &port));
    struct proxy *proxy = proxy_new(&crowd->loop, (int)port);
    const char *at = strrchr(address, '@');
    const char *path = strchr(at != NULL ? at : strstr(address, "//") + 2, '/');
    const size_t head = (size_t)((at != NULL ? at + 1 : strstr(address, "//") + 2) - address);
    (void)snprintf(ret_address, 512, "%.*s127.0.0.1:%d%s", (int)head, address, proxy_port(proxy),
                   path != NULL ? path : "");
    return proxy;
}

static void a_lost_connection_is_survived_by_all(void **unused)
{
    (void)unused;
    struct crowd *crowd = crowd_new(0, address);
    char by_proxy[512];
    struct proxy *proxy = proxy_in_front(crowd, by_proxy);
    for (uint32_t i = 0; i < 30; i++) {
        char election[64];
        (void)snprintf(election, sizeof election, "lost %u.%u", (unsigned)getpid(), (unsigned)i);
        (void)join(crowd, election, by_proxy);
    }
    ask_all(crowd, CV_STORE_ACQUIRE, CV_STORE_GRANTED);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < crowd->count; i++) {
            ask_now(&crowd->member[i], CV_STORE_RENEW, LEASE_NS);
        }
        proxy_cut(proxy);
        ask_all(crowd, CV_STORE_RENEW, CV_STORE_GRANTED);
    }
    ask_all(crowd, CV_STORE_RELEASE, CV_STORE_FREE);
    proxy_free(proxy);
    crowd_free(crowd);
}

/* ---- SQLite only --------------------------------------------------------------------------- */

static void a_file_that_everybody_can_read_is_reported(void **unused)
{
    (void)unused;
    const char *path = address + strlen("sqlite:");
    assert_int_equal(chmod(path, 0660), 0);
    logged_line[0] = '\0';
    crowd_free(crowd_new(2, address));
    assert_string_equal(logged_line, "");
    assert_int_equal(chmod(path, 0644), 0);
    crowd_free(crowd_new(2, address));
    assert_non_null(strstr(logged_line, "every user can read"));
    assert_int_equal(chmod(path, 0660), 0);
}

/* ---- PostgreSQL only ----------------------------------------------------------------------- */

/* Another session keeps the row of one election locked: the other elections are still renewed. */
static void a_row_that_is_locked_holds_nobody_else_up(void **unused)
{
    (void)unused;
    struct crowd *crowd = crowd_new(20, address);
    ask_all(crowd, CV_STORE_ACQUIRE, CV_STORE_GRANTED);
    struct member *locked = &crowd->member[7];
    char command[512];
    (void)snprintf(command, sizeof command,
                   "psql -XAtq \"$CV_TEST_POSTGRES_ADMIN\" -c \"BEGIN\" -c \"SELECT 1 FROM"
                   " conclave_lease WHERE token = %" PRIu64 " FOR UPDATE\""
                   " -c \"SELECT pg_sleep(60)\" 2>/dev/null",
                   locked->token);
    FILE *psql = popen(command, "re");
    assert_non_null(psql);
    assert_true(fgetc(psql) == '1'); /* psql has the lock */
    for (uint32_t round = 0; round < 3; round++) {
        ask_now(locked, CV_STORE_RENEW, 2 * NS_PER_S);
        for (uint32_t i = 0; i < crowd->count; i++) {
            if (&crowd->member[i] != locked) {
                ask_now(&crowd->member[i], CV_STORE_RENEW, 2 * NS_PER_S);
            }
        }
        run_until(crowd, is_answered, "answers");
        for (uint32_t i = 0; i < crowd->count; i++) {
            assert_int_equal(crowd->member[i].verdict,
                             &crowd->member[i] == locked ? CV_STORE_FAILED : CV_STORE_GRANTED);
        }
    }
    const int ended =
        system("psql -XAtq \"$CV_TEST_POSTGRES_ADMIN\" -c \"SELECT pg_terminate_backend(pid)"
               " FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%'"
               " AND pid <> pg_backend_pid()\" >/dev/null 2>&1");
    assert_int_equal(ended, 0);
    (void)pclose(psql);
    ask_all(crowd, CV_STORE_RENEW, CV_STORE_GRANTED);
    ask_all(crowd, CV_STORE_RELEASE, CV_STORE_FREE);
    crowd_free(crowd);
}

/* ---- The store under test -------------------------------------------------------------------- */

static char folder[TEST_FOLDER_BYTES];

static int set_up(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    if (kind->create != NULL && kind->create(address, &err) != CV_OK) {
        fail_msg("%s", err.text);
    }
    return 0;
}

static int clean_up(void **unused)
{
    (void)unused;
    return test_folder_remove(folder);
}

static bool choose(const char *name)
{
    static const struct {
        const char *kind, *variable;
        uint32_t crowd_count;
    } known[] = {{"sqlite", "", 200},
                 {"postgres", "CV_TEST_POSTGRES", 200},
                 {"etcd", "CV_TEST_ETCD", 100},
                 {"zookeeper", "CV_TEST_ZOOKEEPER", 100}};
    if (!test_folder_make(folder)) {
        return false;
    }
    for (uint32_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i].kind, name) == 0) {
            kind_name = known[i].kind;
            crowd_count = known[i].crowd_count;
            const char *value = getenv(known[i].variable);
            if (i == 0) {
                (void)snprintf(address, sizeof address, "sqlite:%s/e.db", folder);
            } else if (value != NULL) {
                (void)snprintf(address, sizeof address, "%s", value);
            }
            kind = address[0] != '\0' ? cv__store_find(address) : NULL;
        }
    }
    return kind != NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2 || !choose(argv[1])) {
        (void)fprintf(stderr,
                      "use: with-servers ... -- test_shared sqlite|postgres|etcd|zookeeper\n");
        return 2;
    }
    const bool has_server = strcmp(kind_name, "sqlite") != 0;
    const bool is_sql = strcmp(kind_name, "postgres") == 0;
    const struct test_choice all[] = {
        {true, cmocka_unit_test(many_elections_share_one_connection)},
        {true, cmocka_unit_test(one_closes_and_the_others_go_on)},
        {true, cmocka_unit_test(the_same_election_twice_is_two_contenders)},
        {!has_server, cmocka_unit_test(a_file_that_everybody_can_read_is_reported)},
        {has_server, cmocka_unit_test(a_lost_connection_is_survived_by_all)},
        {is_sql, cmocka_unit_test(other_settings_use_another_connection)},
        {is_sql, cmocka_unit_test(a_row_that_is_locked_holds_nobody_else_up)},
    };
    return test_run_wanted(kind_name, all, COUNT_OF(all), set_up, clean_up);
}
