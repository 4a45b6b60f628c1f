/* tests/stores/kinds.c - what only one kind of server has: SQL, users and certificates, keys of
 * others, addresses of its own. Part of test_store. */
#include "core/address.h"
#include "stores/test_store.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- PostgreSQL only ----------------------------------------------------------------------- */

void psql(const char *format, ...)
{
    char command[1024];
    int length = snprintf(command, sizeof command,
                          "PGOPTIONS=--client-min-messages=warning psql -XAtq -v ON_ERROR_STOP=1"
                          " \"$CV_TEST_POSTGRES_ADMIN\" >/dev/null -c \"");
    va_list args;
    va_start(args, format);
    length += vsnprintf(command + length, sizeof command - (size_t)length, format, args);
    va_end(args);
    (void)snprintf(command + length, sizeof command - (size_t)length, "\"");
    assert_int_equal(system(command), 0);
}

/* [T29] Nothing depends on the session. */
void sessions_may_be_terminated(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'conclave'");
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_int_equal(answer->token, token);
    if (has_notifications) { /* on the new connection, too */
        run_for(field, 50 * NS_PER_MS);
        b->notification_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, is_notified, b, "a notification on the new connection");
    }
    field_free(field);
}

void a_deleted_row_does_not_reset_the_token(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    for (uint64_t attempt = 1; attempt <= 3; attempt++) {
        (void)acquire(a, attempt, lease_long_ns); /* the ledger compares the tokens */
        (void)ask(a, CV_STORE_RELEASE, attempt, 0);
        psql("DELETE FROM conclave_lease WHERE election = '%s'", field->election);
    }
    field_free(field);
}

static void on_counted_past(void *user, const struct cv_store_past *past)
{
    (void)past;
    (*(uint32_t *)user)++;
}

/* A role that may create objects in a schema of our search path must not make our statements run
 * them: here, an operator that fits our types better than the built-in one. */
void operators_of_another_role_are_not_used(void **unused)
{
    (void)unused;
    static const char *const type[][2] = {
        {"int4", "interval"}, {"int8", "interval"}, {"numeric", "int4"}};
    for (uint32_t i = 0; i < COUNT_OF(type); i++) {
        psql("CREATE FUNCTION public.planted(%s, %s) RETURNS interval LANGUAGE plpgsql"
             " AS 'BEGIN RAISE EXCEPTION ''a planted operator was used''; END'",
             type[i][0], type[i][1]);
        psql("CREATE OPERATOR public.* (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.planted)",
             type[i][0], type[i][1]);
    }
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    const enum cv_store_verdict granted = ask_once(a, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict;
    const enum cv_store_verdict renewed = ask_once(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict;
    const enum cv_store_verdict released = ask_once(a, CV_STORE_RELEASE, 1, 0)->verdict;
    uint32_t past_count = 0;
    struct cv_errtext err;
    const int code =
        field->kind->history(address, field->election, on_counted_past, &past_count, &err);
    field_free(field);
    for (uint32_t i = 0; i < COUNT_OF(type); i++) {
        psql("DROP FUNCTION public.planted(%s, %s) CASCADE", type[i][0], type[i][1]);
    }
    assert_int_equal(granted, CV_STORE_GRANTED);
    assert_int_equal(renewed, CV_STORE_GRANTED);
    assert_int_equal(released, CV_STORE_FREE);
    assert_int_equal(code, CV_OK);
    assert_int_equal(past_count, 1);
}

/* Statements that were prepared before the table was changed no longer fit it. */
void a_changed_table_does_no_harm(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    psql("ALTER TABLE conclave_lease ALTER lease_us TYPE numeric");
    const enum cv_store_verdict renewed = ask_once(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict;
    psql("ALTER TABLE conclave_lease ALTER lease_us TYPE bigint");
    assert_int_equal(renewed, CV_STORE_GRANTED);
    const struct cv_store_answer *answer = ask_once(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_int_equal(answer->token, token);
    assert_int_equal(ask_once(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    field_free(field);
}

/* Tables that a stranger made first could run its triggers with the rights of every contender. */
void tables_of_a_stranger_are_refused(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    psql("ALTER TABLE conclave_history OWNER TO nobody_special");
    const int code = cv__store_find(address)->create(address, &err);
    psql("ALTER TABLE conclave_history OWNER TO conclave");
    assert_int_equal(code, CV_E_STORE);
    assert_non_null(strstr(err.text, "belongs to 'nobody_special'"));
    assert_int_equal(cv__store_find(address)->create(address, &err), CV_OK);
}

/* The port of a server that accepts connections and never answers. */
static int hanging_port(int *ret_fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*ret_fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*ret_fd, 16), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&at, &length), 0);
    return ntohs(at.sin_port);
}

void a_host_that_hangs_is_skipped(void **unused)
{
    (void)unused;
    struct cv_address parts;
    assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
    char host[64], at[512];
    uint32_t port;
    assert_true(cv__address_host(&parts, 0, host, sizeof host, &port));
    int hanging;
    const int hanging_at = hanging_port(&hanging);
    (void)snprintf(at, sizeof at, "postgres://%.*s@127.0.0.1:%d,127.0.0.1:%u%.*s",
                   (int)parts.user.bytes, parts.user.at, hanging_at, (unsigned)port,
                   (int)parts.path.bytes, parts.path.at);
    const int64_t begin_ns = field_now_ns();
    struct field *field = field_new(at, NULL);
    struct contender *a = field_join(field, "a", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_true(field_now_ns() - begin_ns < 6 * NS_PER_S);
    field_free(field);
    (void)close(hanging);
}

/* A server that is out of order for a moment while we connect is soon used again. */
void a_server_that_hung_is_soon_used_again(void **unused)
{
    (void)unused;
    struct field *field;
    struct proxy *proxy;
    struct contender *a = join_by_proxy(&field, &proxy);
    (void)acquire(a, 1, lease_long_ns);
    proxy_swallow_answers(proxy, true);
    proxy_cut(proxy);
    (void)ask_once(a, CV_STORE_RENEW, 1, lease_long_ns); /* fails: there is no connection */
    proxy_swallow_answers(proxy, false);
    const int64_t begin_ns = field_now_ns();
    (void)acquire(a, 1, lease_long_ns);
    assert_true(field_now_ns() - begin_ns < 5 * NS_PER_S);
    proxy_free(proxy);
    field_free(field);
}

/* ---- Credentials --------------------------------------------------------------------------- */

/* The address with `user` behind its slashes and `options` at its end. */
static void address_with(const char *user, const char *options, char ret_address[512])
{
    const char *hosts = strstr(address, "//") + 2;
    (void)snprintf(ret_address, 512, "%.*s%s%s%s", (int)(hosts - address), address, user, hosts,
                   options);
}

static void assert_works(const char *at)
{
    struct field *field = field_new(at, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask_to_resign(b, "b")->verdict, CV_STORE_HELD);
    assert_int_equal(ask(b, CV_STORE_READ, 0, 0)->verdict, CV_STORE_HELD);
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "b"));
    (void)acquire(b, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    field_free(field);
}

static void assert_fails(const char *at, const char *says)
{
    struct field *field = field_new(at, NULL);
    struct contender *c = field_join(field, "a", NULL);
    const struct cv_store_answer *answer = ask_once(c, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_FAILED);
    if (strstr(answer->why, says) == NULL) {
        fail_msg("'%s' failed with: %s", at, answer->why);
    }
    field_free(field);
}

static void write_secret(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", text) > 0);
    assert_int_equal(fclose(file), 0);
}

void etcd_users_need_their_password(void **unused)
{
    (void)unused;
    char at[512];
    shell("exec >/dev/null 2>&1; export ETCDCTL_API=3; e() { etcdctl --endpoints"
          " \"${CV_TEST_ETCD#etcd://}\" \"$@\"; };"
          "e user add root:top && e user grant-role root root && e user add app:secret &&"
          "e role add elect && e role grant-permission elect --prefix=true readwrite apps/ &&"
          "e role grant-permission elect --prefix=true readwrite apps.wish/ &&"
          "e user grant-role app elect && e auth enable");
    char secret[] = "/tmp/conclave-test-XXXXXX";
    assert_true(close(mkstemp(secret)) == 0);
    char options[128];
    (void)snprintf(options, sizeof options, "/apps?password-file=%s", secret);
    address_with("app@", options, at);
    write_secret(secret, "secret");
    assert_works(at);
    write_secret(secret, "wrong");
    assert_fails(at, "authentication failed");
    (void)unlink(secret);
    (void)setenv("CONCLAVE_ETCD_PASSWORD", "secret", 1);
    address_with("app@", "/apps", at);
    assert_works(at);
    struct field *field = field_new(at, NULL); /* reported once for each connection */
    struct contender *a = field_join(field, "a", NULL);
    assert_int_equal(a->log_count, 1);
    assert_non_null(strstr(a->logged, "'app' is sent without TLS"));
    assert_int_equal(field_join_beside(a, "b", NULL, NULL)->log_count, 0);
    field_free(field);
    address_with("app@", "/others", at);
    assert_fails(at, "permission denied");
    (void)unsetenv("CONCLAVE_ETCD_PASSWORD");
    assert_fails(address, "user name is empty");
    shell("exec >/dev/null 2>&1; ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\""
          " --user root:top auth disable");
    /* All members refuse the same: they have the same data. */
    shell("for i in $(seq 100); do ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\""
          " endpoint hashkv | cut -d, -f2 | sort -u | wc -l | grep -qx 1 && exit 0;"
          " sleep 0.05; done; exit 1"); /* a member may be a moment behind */
}

void etcd_is_reached_by_certificates(void **unused)
{
    (void)unused;
    const char *at = getenv("CV_TEST_ETCD_TLS");
    assert_non_null(at);
    assert_works(at);
    char bare[512];
    (void)snprintf(bare, sizeof bare, "%.*s?tls=yes", (int)strcspn(at, "?"), at);
    assert_fails(bare, "certificate"); /* of an authority that the system does not know */
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(at, "&"), at);
    assert_fails(bare, "certificate"); /* we show no certificate */
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(at, "?"), at);
    assert_fails(bare, "add tls=yes"); /* no TLS at all */
    char plain[512];
    address_with("", "?tls=yes", plain);
    assert_fails(plain, "leave tls=yes out"); /* TLS on a port without it */
}

void zookeeper_nodes_belong_to_their_creator(void **unused)
{
    (void)unused;
    char at[512];
    char secret[] = "/tmp/conclave-test-XXXXXX";
    assert_true(close(mkstemp(secret)) == 0);
    write_secret(secret, "app:secret");
    char options[128];
    (void)snprintf(options, sizeof options, "/apps?auth-file=%s", secret);
    address_with("", options, at);
    assert_works(at);
    (void)unlink(secret);
    (void)setenv("CONCLAVE_ZOOKEEPER_AUTH", "app:secret", 1);
    address_with("", "/apps", at);
    assert_works(at);
    (void)setenv("CONCLAVE_ZOOKEEPER_AUTH", "app:wrong", 1);
    assert_fails(at, "no permission");
    (void)unsetenv("CONCLAVE_ZOOKEEPER_AUTH");
    assert_fails(at, "no permission");
}

/* ---- Servers that are not to be trusted ----------------------------------------------------- */

/* A server that promises more than was asked for does not make anybody lead longer. */
void a_lease_is_never_longer_than_asked(void **unused)
{
    (void)unused;
    const bool is_etcd = strcmp(kind_name, "etcd") == 0;
    const int64_t lease_ns = lease_long_ns; /* 10 s, and 5 s as ZooKeeper counts in milliseconds */
    static const char asked_ms[] = "\x00\x00\x13\x88", said_ms[] = "\x0a\x4c\xb8\x00";
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    if (is_etcd) {
        proxy_rewrite_answers(proxy, "\"TTL\":\"10\"", "\"TTL\":\"99\"", strlen("\"TTL\":\"10\""));
    } else {
        proxy_rewrite_answers(proxy, asked_ms, said_ms, 4);
    }
    struct contender *a = field_join(field, "a", by_proxy);
    assert_true(acquire(a, 1, lease_ns)->duration_ns <= lease_ns);
    for (uint32_t i = 0; i < 3; i++) {
        const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_ns);
        assert_int_equal(answer->verdict, CV_STORE_GRANTED);
        assert_true(answer->duration_ns <= lease_ns);
    }
    assert_true(proxy_rewritten(proxy) > 0);
    proxy_free(proxy);
    field_free(field);
}

/* Keys of others below the prefix hold no election, whatever they look like. */
void foreign_keys_hold_nothing(void **unused)
{
    (void)unused;
    char command[1024];
    struct field *field = field_new(address, "foreign keys");
    (void)snprintf(
        command, sizeof command,
        "exec >/dev/null; export ETCDCTL_API=3; e() { etcdctl --endpoints"
        " \"${CV_TEST_ETCD#etcd://}\" \"$@\"; }; q=conclave/foreign%%20keys/;"
        "long=$(head -c 60000 /dev/zero | tr '\\0' x);"
        "lease=$(e lease grant 300 | cut -d' ' -f2);"
        "e put $q$long x && e put --lease=$lease ${q}zzz $long && e put ${q}0123456789abcdef-1 x");
    shell(command);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *c = field_join(field, "c", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->token, token);
    assert_string_equal(answer->record->node, "a");
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    answer = ask(field_join(field, "observer", NULL), CV_STORE_READ, 0, 0);
    assert_string_equal(answer->record->node, "a");
    assert_int_equal(ask_to_resign(b, "c")->verdict, CV_STORE_HELD);
    answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_string_equal(answer->record->resign_request, "c");
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c"));
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    assert_int_equal(ask(a, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    shell("ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\" get --prefix --keys-only"
          " conclave/foreign%20keys/ | grep -c . | grep -qx 3");
    field_free(field);
}

/* The next in the queue moves its key without looking when the holder's key is deleted. If its own
 * key was deleted, too, another contender is first. */
void a_contender_that_lost_its_place_is_not_next(void **unused)
{
    (void)unused;
    char command[512];
    struct contender *a, *b, *c;
    struct field *field = join_three("lost place", &a, &b, &c);
    b->notification_count = 0;
    (void)snprintf(command, sizeof command,
                   "ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\" del"
                   " conclave/lost%%20place/%016" PRIx64 "-1 | grep -qx 1",
                   b->label);
    shell(command);
    run_until(field, is_notified, b, "a notification of its deleted key");
    b->notification_count = 0;
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    run_for(field, 200 * NS_PER_MS); /* b hears of the deletion */
    assert_c_comes_first(b, c);
    field_free(field);
}

/* Two contenders with the same label would each take the other's place in the queue for its own. */
void an_election_is_open_once_under_one_label(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct cv_store_setting setting = {.loop = &field->loop,
                                       .shared = a->list,
                                       .address = address,
                                       .election = a->election,
                                       .node = "b",
                                       .label = a->label};
    struct cv_store *store = NULL;
    struct cv_errtext err;
    assert_int_equal(field->kind->open(&store, &setting, &err), CV_E_INVALID);
    assert_non_null(strstr(err.text, "open already"));
    (void)acquire(a, 1, lease_long_ns); /* a has taken no harm */
    field_free(field);
}

/* ---- Bad addresses ------------------------------------------------------------------------- */

struct bad {
    const char *address;
    const char *says;        /* a part of the line */
    bool is_refused_at_open; /* otherwise the first request fails */
};

static void assert_bad(const struct bad *bad)
{
    const struct cv_store_kind *kind = cv__store_find(bad->address);
    assert_non_null(kind);
    struct field *field = field_new(bad->address, NULL);
    if (!bad->is_refused_at_open) {
        struct contender *c = field_join(field, "a", NULL);
        const struct cv_store_answer *answer = ask_once(c, CV_STORE_ACQUIRE, 1, lease_long_ns);
        assert_int_equal(answer->verdict, CV_STORE_FAILED);
        if (strstr(answer->why, bad->says) == NULL) {
            fail_msg("'%s' failed with: %s", bad->address, answer->why);
        }
        field_free(field);
        return;
    }
    struct cv_shared_list shared = {0};
    const struct cv_store_setting setting = {.loop = &field->loop,
                                             .shared = &shared,
                                             .address = bad->address,
                                             .election = "x",
                                             .node = "a",
                                             .label = 1};
    struct cv_store *store;
    struct cv_errtext err;
    if (kind->open(&store, &setting, &err) == CV_OK) {
        fail_msg("'%s' was opened", bad->address);
    }
    if (strstr(err.text, bad->says) == NULL || strchr(err.text, '\n') != NULL) {
        fail_msg("'%s' was refused with: %s", bad->address, err.text);
    }
    field_free(field);
}

static void assert_all_bad(const struct bad *bad, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_bad(&bad[i]);
    }
}

static void on_no_past(void *user, const struct cv_store_past *past)
{
    (void)user;
    fail_msg("'%s' is in the history of an election that was never led", past->node);
}

void bad_addresses_are_reported_in_one_line(void **unused)
{
    (void)unused;
    if (strcmp(kind_name, "postgres") == 0) {
        struct cv_address parts;
        char host[64], refused[128], wrong[128], missing[128], forbidden[128];
        uint32_t port;
        assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
        assert_true(cv__address_host(&parts, 0, host, sizeof host, &port));
        (void)snprintf(refused, sizeof refused, "postgres://a@127.0.0.1:1/x");
        (void)snprintf(wrong, sizeof wrong, "postgres://conclave@127.0.0.1:%u/conclave",
                       (unsigned)port);
        (void)snprintf(missing, sizeof missing, "postgres://postgres@127.0.0.1:%u/postgres",
                       (unsigned)port);
        (void)snprintf(forbidden, sizeof forbidden,
                       "postgres://nobody_special@127.0.0.1:%u/conclave", (unsigned)port);
        const struct bad bad[] = {
            {"postgres://h/x?nonsense=1", "nonsense", true},
            {"postgres://u:geheim@h/x", "every user can read command lines", true},
            {"postgres://u@h/x?password=geheim", "every user can read command lines", true},
            {refused, "Connection refused", false},
            {wrong, "password authentication failed", false},
            {missing, "'conclave store init ADDRESS'", false},
            {forbidden, "permission denied", false},
        };
        char password[64];
        (void)snprintf(password, sizeof password, "%s", getenv("PGPASSWORD"));
        for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
            (void)setenv("PGPASSWORD", bad[i].address == wrong ? "no" : password, 1);
            assert_bad(&bad[i]);
        }
        struct cv_errtext err;
        (void)setenv("PGPASSWORD", "no", 1);
        assert_int_equal(cv__store_find(wrong)->create(wrong, &err), CV_E_STORE);
        assert_non_null(strstr(err.text, "password authentication failed"));
        (void)setenv("PGPASSWORD", password, 1);
        assert_int_equal(cv__store_find(missing)->history(missing, "x", on_no_past, NULL, &err),
                         CV_E_STORE);
        assert_non_null(strstr(err.text, "'conclave store init ADDRESS'"));
    } else if (strcmp(kind_name, "etcd") == 0) {
        static const struct bad bad[] = {
            {"etcd:", "etcd://host:port", true},
            {"etcd://", "etcd://host:port", true},
            {"etcd://h:0", "host", true},
            {"etcd://h?nonsense=1", "option 'nonsense'", true},
            {"etcd://h?cacert=/nowhere/ca.pem", "/nowhere/ca.pem", true},
            {"etcd://u:p@h", "password", true},
            {"etcd://u@h", "CONCLAVE_ETCD_PASSWORD", true},
            {"etcd://u@h?password-file=/nowhere/p", "/nowhere/p", true},
            {"etcd://127.0.0.1:1", "127.0.0.1:1", false},
        };
        assert_all_bad(bad, COUNT_OF(bad));
    } else if (strcmp(kind_name, "zookeeper") == 0) {
        static const struct bad bad[] = {
            {"zookeeper:", "zookeeper://host:port", true},
            {"zookeeper://h:x/p", "host", true},
            {"zookeeper://h/a//b", "path", true},
            {"zookeeper://h?nonsense=1", "option 'nonsense'", true},
            {"zookeeper://h?tls=yes", "TLS", true},
            {"zookeeper://h?auth-file=/nowhere/p", "/nowhere/p", true},
            {"zookeeper://127.0.0.1:1/p", "127.0.0.1:1", false},
        };
        assert_all_bad(bad, COUNT_OF(bad));
    }
}
