/* tests/stores/under_test.c - which store is tested, where it is, and how its servers are reached.
 * Part of test_store. */
#include "core/address.h"
#include "stores/test_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *kind_name;
char address[512];
bool has_server;        /* one that can be killed, and reached through a proxy */
bool has_members;       /* several, which elect a leader among themselves */
bool has_notifications; /* pushed by the store, not polled */
int64_t lease_short_ns, lease_long_ns;

int servers(const char *format, ...)
{
    const char *path = getenv("CV_TEST_SERVERS_SOCKET");
    assert_non_null(path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    char line[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    size_t length = 0;
    for (ssize_t count; (count = read(fd, line + length, sizeof line - 1 - length)) > 0;) {
        length += (size_t)count;
    }
    line[length] = '\0';
    (void)close(fd);
    int number = 0;
    if (strncmp(line, "ok", 2) != 0) {
        fail_msg("with-servers: %s", line);
    }
    (void)sscanf(line, "ok %d", &number);
    return number;
}

const char *server_name(void)
{
    return strcmp(kind_name, "pooler") == 0 ? "postgres" : kind_name;
}

struct proxy *proxy_to(struct field *field, uint32_t index, char ret_address[512])
{
    struct cv_address parts;
    assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
    char host[64];
    uint32_t port;
    assert_true(cv__address_host(&parts, index, host, sizeof host, &port));
    struct proxy *proxy = proxy_new(&field->loop, (int)port);
    (void)snprintf(ret_address, 512, "%.*s://%.*s%s127.0.0.1:%d%.*s%s%.*s", (int)parts.scheme.bytes,
                   parts.scheme.at, (int)parts.user.bytes,
                   parts.user.bytes > 0 ? parts.user.at : "", parts.user.bytes > 0 ? "@" : "",
                   proxy_port(proxy), (int)parts.path.bytes, parts.path.at,
                   parts.options.bytes > 0 ? "?" : "", (int)parts.options.bytes,
                   parts.options.bytes > 0 ? parts.options.at : "");
    return proxy;
}

struct contender *join_by_proxy(struct field **ret_field, struct proxy **ret_proxy)
{
    char by_proxy[512];
    *ret_field = field_new(address, NULL);
    *ret_proxy = proxy_to(*ret_field, 0, by_proxy);
    return field_join(*ret_field, "a", by_proxy);
}

struct field *join_three(const char *election, struct contender **ret_a, struct contender **ret_b,
                         struct contender **ret_c)
{
    struct field *field = field_new(address, election);
    *ret_a = field_join(field, "a", NULL);
    *ret_b = field_join(field, "b", NULL);
    *ret_c = field_join(field, "c", NULL);
    (void)acquire(*ret_a, 1, lease_long_ns);
    assert_int_equal(ask(*ret_b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask(*ret_c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    return field;
}

void assert_c_comes_first(struct contender *b, struct contender *c)
{
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_string_equal(answer->record->node, "c");
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
}

bool has_history(void)
{
    const struct cv_store_kind *kind = cv__store_find(address);
    return kind != NULL && kind->history != NULL;
}

static char folder[TEST_FOLDER_BYTES];

int set_up(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    const struct cv_store_kind *kind = cv__store_find(address);
    assert_non_null(kind);
    if (kind->create != NULL && kind->create(address, &err) != CV_OK) {
        fail_msg("%s", err.text);
    }
    return 0;
}

int clean_up(void **unused)
{
    (void)unused;
    if (strcmp(kind_name, "sqlite") == 0) {
        return test_folder_remove(folder);
    }
    return 0;
}

bool choose(const char *kind)
{
    static const struct {
        const char *kind, *variable;
        bool has_server, has_members, has_notifications;
        int64_t lease_short_ns, lease_long_ns;
    } known[] = {
        {"sqlite", "", false, false, true, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"postgres", "CV_TEST_POSTGRES", true, false, true, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"pooler", "CV_TEST_POOLER", true, false, false, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"etcd", "CV_TEST_ETCD", true, true, true, NS_PER_S, 10 * NS_PER_S},
        {"zookeeper", "CV_TEST_ZOOKEEPER", true, true, true, NS_PER_S, 5 * NS_PER_S},
    };
    for (uint32_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i].kind, kind) == 0) {
            kind_name = known[i].kind;
            has_server = known[i].has_server;
            has_members = known[i].has_members;
            has_notifications = known[i].has_notifications;
            lease_short_ns = known[i].lease_short_ns;
            lease_long_ns = known[i].lease_long_ns;
            const char *value = getenv(known[i].variable);
            if (!has_server) {
                const bool is_made = test_folder_make(folder);
                CV_ASSERT(is_made);
                (void)snprintf(address, sizeof address, "sqlite:%s/e.db", folder);
            } else if (value != NULL) {
                (void)snprintf(address, sizeof address, "%s", value);
            }
            return address[0] != '\0';
        }
    }
    return false;
}

void shell(const char *command)
{
    const int status = system(command);
    if (status != 0) {
        fail_msg("status %d of: %s", status, command);
    }
}
