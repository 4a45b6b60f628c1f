/* bench/round_trip.c - see round_trip.h. */
#include "round_trip.h"

#include "figures.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOLD_MS_MAX 10000

/* Waits until there is something to read. */
static bool await_input(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, TOLD_MS_MAX) == 1;
}

/* ---- SQLite: a commit of one row, which waits for the disk ----------------------------------- */

struct lite {
    sqlite3 *db;
    char path[4096];
    int watch; /* inotify of the file; -1: none */
};

static bool lite_exec(struct lite *lite, const char *sql)
{
    return sqlite3_exec(lite->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void lite_close(void *client)
{
    struct lite *lite = client;
    if (lite->watch >= 0) {
        (void)close(lite->watch);
    }
    (void)sqlite3_close(lite->db); /* no statement is open */
    free(lite);
}

static void *lite_open(const char *address, unsigned turn)
{
    (void)turn;
    struct lite *lite = calloc(1, sizeof *lite);
    if (lite == NULL) {
        return NULL;
    }
    lite->watch = -1;
    (void)snprintf(lite->path, sizeof lite->path, "%s.round-trip", address + strlen("sqlite:"));
    if (sqlite3_open(lite->path, &lite->db) != SQLITE_OK ||
        !lite_exec(lite, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                         "CREATE TABLE IF NOT EXISTS bench (id INTEGER PRIMARY KEY, n INTEGER);"
                         "INSERT OR IGNORE INTO bench VALUES (1, 0);")) {
        lite_close(lite);
        return NULL;
    }
    return lite;
}

static bool lite_ask(void *client, bool is_write)
{
    return lite_exec(client, is_write ? "UPDATE bench SET n = n + 1 WHERE id = 1"
                                      : "SELECT n FROM bench WHERE id = 1");
}

/* Without waiting for the disk, as in a hand-over. */
static bool lite_get_ready(void *from, void *to)
{
    struct lite *other = to;
    other->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    return other->watch >= 0 && inotify_add_watch(other->watch, other->path, IN_ATTRIB) >= 0 &&
           lite_exec(from, "PRAGMA synchronous = NORMAL") &&
           lite_exec(to, "PRAGMA synchronous = NORMAL");
}

static int64_t lite_tell(void *from, void *to)
{
    struct lite *one = from, *other = to;
    char events[4096];
    const int64_t begin_ns = figures_now_ns();
    if (!lite_ask(one, true) || utimensat(AT_FDCWD, one->path, NULL, 0) != 0 ||
        !await_input(other->watch) || read(other->watch, events, sizeof events) <= 0) {
        return -1;
    }
    return figures_now_ns() - begin_ns;
}

/* ---- PostgreSQL: an UPDATE of one row, a transaction of its own ------------------------------ */

#ifdef CV_BENCH_POSTGRES
#include <libpq-fe.h>

static bool pg_exec(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static void *pg_open(const char *address, unsigned turn)
{
    (void)turn;
    PGconn *pg = PQconnectdb(address);
    if (PQstatus(pg) != CONNECTION_OK ||
        !pg_exec(pg, "SET client_min_messages = error;"
                     "CREATE TABLE IF NOT EXISTS conclave_bench (id int PRIMARY KEY, n int);"
                     "INSERT INTO conclave_bench VALUES (1, 0) ON CONFLICT DO NOTHING")) {
        PQfinish(pg);
        return NULL;
    }
    return pg;
}

static bool pg_ask(void *client, bool is_write)
{
    return pg_exec(client, is_write ? "UPDATE conclave_bench SET n = n + 1 WHERE id = 1"
                                    : "SELECT n FROM conclave_bench WHERE id = 1");
}

static void pg_close(void *client)
{
    PQfinish(client);
}

static bool pg_get_ready(void *from, void *to)
{
    return pg_exec(from, "PREPARE tell AS UPDATE conclave_bench SET n = n + 1 WHERE id = 1"
                         " RETURNING pg_notify('conclave_bench', '')") &&
           pg_exec(to, "LISTEN conclave_bench");
}

static int64_t pg_tell(void *from, void *to)
{
    const int64_t begin_ns = figures_now_ns();
    if (PQsendQuery(from, "EXECUTE tell") != 1) {
        return -1;
    }
    PGnotify *told = NULL;
    while (told == NULL) {
        if (!await_input(PQsocket(to)) || PQconsumeInput(to) != 1) {
            return -1;
        }
        told = PQnotifies(to);
    }
    const int64_t end_ns = figures_now_ns();
    PQfreemem(told);
    for (PGresult *result; (result = PQgetResult(from)) != NULL;) {
        PQclear(result);
    }
    return end_ns - begin_ns;
}
#endif

/* ---- etcd: a put, or a linearizable range, through the same gateway that we use -------------- */

/* The host and port number `turn` of HOST:PORT,HOST:PORT... in an address. */
static bool pick(const char *address, unsigned turn, char ret_host[128], char ret_port[16])
{
    char list[1024];
    (void)snprintf(list, sizeof list, "%s", strstr(address, "//") + 2);
    list[strcspn(list, "/?")] = '\0';
    unsigned count = 1;
    for (const char *at = list; (at = strchr(at, ',')) != NULL; at++) {
        count++;
    }
    char *save = NULL;
    char *one = strtok_r(list, ",", &save);
    for (unsigned i = 0; i < turn % count && one != NULL; i++) {
        one = strtok_r(NULL, ",", &save);
    }
    return one != NULL && sscanf(one, "%127[^:]:%15s", ret_host, ret_port) == 2;
}

static void *etcd_open(const char *address, unsigned turn)
{
    char host[128];
    char port[16];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (!pick(address, turn, host, port) || getaddrinfo(host, port, &hints, &found) != 0) {
        return NULL;
    }
    int *client = malloc(sizeof *client);
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    if (client == NULL || fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        free(client);
        client = NULL;
    } else {
        *client = fd;
    }
    freeaddrinfo(found);
    return client;
}

static bool etcd_send(int fd, const char *path, const char *body)
{
    char text[1024];
    const int length = snprintf(text, sizeof text,
                                "POST /v3/%s HTTP/1.1\r\nHost: etcd\r\nContent-Length: %zu\r\n"
                                "Content-Type: application/json\r\n\r\n%s",
                                path, strlen(body), body);
    return write(fd, text, (size_t)length) == length;
}

/* The answer has a length, or comes in chunks. */
static bool etcd_answer(int fd)
{
    char text[4096];
    size_t got = 0;
    for (;;) {
        const ssize_t more = read(fd, text + got, sizeof text - 1 - got);
        if (more <= 0) {
            return false;
        }
        got += (size_t)more;
        text[got] = '\0';
        const char *end = strstr(text, "\r\n\r\n");
        const char *says = strcasestr(text, "content-length:");
        if (end == NULL) {
            continue;
        }
        const bool is_whole = says != NULL && says < end
                                  ? got >= (size_t)(end + 4 - text) + strtoul(says + 15, NULL, 10)
                                  : strcmp(text + got - 5, "0\r\n\r\n") == 0;
        if (is_whole) {
            return strncmp(text, "HTTP/1.1 200", 12) == 0;
        }
    }
}

/* One call on a connection that stays open. */
static bool etcd_ask(void *client, bool is_write)
{
    const int fd = *(const int *)client;
    return etcd_send(fd, is_write ? "kv/put" : "kv/range",
                     is_write ? "{\"key\":\"YmVuY2g=\",\"value\":\"MQ==\"}"
                              : "{\"key\":\"YmVuY2g=\"}") &&
           etcd_answer(fd);
}

static void etcd_close(void *client)
{
    (void)close(*(const int *)client);
    free(client);
}

/* Reads a stream until this word has come; each chunk has one message. */
static bool etcd_await(int fd, const char *word)
{
    char text[4096];
    for (;;) {
        const ssize_t more = await_input(fd) ? read(fd, text, sizeof text - 1) : -1;
        if (more <= 0) {
            return false;
        }
        text[more] = '\0';
        if (strstr(text, word) != NULL) {
            return true;
        }
    }
}

/* From now on that connection is a watch of a key that no other client writes. */
static bool etcd_get_ready(void *from, void *to)
{
    (void)from;
    const int fd = *(const int *)to;
    return etcd_send(fd, "watch", "{\"create_request\":{\"key\":\"dG9sZA==\"}}") &&
           etcd_await(fd, "\"created\":true");
}

static int64_t etcd_tell(void *from, void *to)
{
    const int fd = *(const int *)from;
    const int64_t begin_ns = figures_now_ns();
    if (!etcd_send(fd, "kv/put", "{\"key\":\"dG9sZA==\",\"value\":\"MQ==\"}") ||
        !etcd_await(*(const int *)to, "\"events\"")) {
        return -1;
    }
    const int64_t end_ns = figures_now_ns();
    return etcd_answer(fd) ? end_ns - begin_ns : -1;
}

/* ---- ZooKeeper: setData and getData of one node ---------------------------------------------- */

#ifdef CV_BENCH_ZOOKEEPER
#include <zookeeper/zookeeper.h>

struct zk {
    zhandle_t *handle;
    char path[64];
    bool is_answered, is_ok, is_told;
};

static void zk_on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)type, (void)state, (void)path, (void)context;
}

static bool zk_turn(struct zk *zk)
{
    int fd = -1;
    int interest = 0;
    struct timeval wait = {.tv_sec = 0};
    /* Process() reports a failure again. */
    (void)zookeeper_interest(zk->handle, &fd, &interest, &wait);
    struct pollfd ready = {.fd = fd,
                           .events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                                             ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0))};
    const long ms = wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1;
    (void)poll(&ready, fd >= 0 ? 1 : 0, (int)(ms > 100 ? 100 : ms));
    const int events = ((ready.revents & POLLIN) != 0 ? ZOOKEEPER_READ : 0) |
                       ((ready.revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0);
    const int code = zookeeper_process(zk->handle, events);
    return code == ZOK || code == ZNOTHING || code == ZCONNECTIONLOSS;
}

static bool zk_await(struct zk *zk)
{
    while (!zk->is_answered) {
        if (!zk_turn(zk)) {
            return false;
        }
    }
    return zk->is_ok;
}

static void zk_on_text(int code, const char *text, const void *data)
{
    (void)text;
    struct zk *zk;
    memcpy(&zk, &data, sizeof zk);
    zk->is_answered = true;
    zk->is_ok = code == ZOK || code == ZNODEEXISTS;
}

static void zk_on_stat(int code, const struct Stat *stat, const void *data)
{
    (void)stat;
    zk_on_text(code, NULL, data);
}

static void zk_on_data(int code, const char *value, int length, const struct Stat *stat,
                       const void *data)
{
    (void)value, (void)length, (void)stat;
    zk_on_text(code, NULL, data);
}

static void *zk_open(const char *address, unsigned turn)
{
    char host[128];
    char port[16];
    char both[160];
    struct zk *zk = calloc(1, sizeof *zk);
    if (zk == NULL || !pick(address, turn, host, port)) {
        free(zk);
        return NULL;
    }
    zoo_set_debug_level((ZooLogLevel)0); /* the results say all that matters */
    (void)snprintf(both, sizeof both, "%s:%s", host, port);
    (void)snprintf(zk->path, sizeof zk->path, "/conclave-bench-%ld-%u", (long)getpid(), turn);
    zk->handle = zookeeper_init(both, zk_on_session, 10000, NULL, NULL, 0);
    /* A server that has just joined may refuse at first; the client tries again by itself. */
    const int64_t give_up_ns = figures_now_ns() + INT64_C(10000000000);
    while (zk->handle != NULL && !zk->is_ok && figures_now_ns() < give_up_ns) {
        (void)zk_turn(zk); /* zoo_state() tells the result */
        if (zoo_state(zk->handle) == ZOO_CONNECTED_STATE) {
            zk->is_answered = false;
            (void)(zoo_acreate(zk->handle, zk->path, "0", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL,
                               zk_on_text, zk) == ZOK &&
                   zk_await(zk)); /* is_ok tells the result */
        }
    }
    if (!zk->is_ok) {
        if (zk->handle != NULL) {
            (void)zookeeper_close(zk->handle); /* it has no operation under way */
        }
        free(zk);
        return NULL;
    }
    return zk;
}

static bool zk_ask(void *client, bool is_write)
{
    struct zk *zk = client;
    zk->is_answered = false;
    const int code = is_write ? zoo_aset(zk->handle, zk->path, "1", 1, -1, zk_on_stat, zk)
                              : zoo_aget(zk->handle, zk->path, 0, zk_on_data, zk);
    return code == ZOK && zk_await(zk);
}

static void zk_on_change(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)state, (void)path;
    struct zk *zk = context;
    zk->is_told = zk->is_told || type == ZOO_CHANGED_EVENT;
}

/* `to` reads the node of `from`, and will be notified of its next change. */
static bool zk_get_ready(void *from, void *to)
{
    struct zk *zk = to;
    zk->is_told = zk->is_answered = false;
    return zoo_awget(zk->handle, ((const struct zk *)from)->path, zk_on_change, zk, zk_on_data,
                     zk) == ZOK &&
           zk_await(zk);
}

static int64_t zk_tell(void *from, void *to)
{
    struct zk *one = from, *other = to;
    one->is_answered = false;
    const int64_t begin_ns = figures_now_ns();
    if (zoo_aset(one->handle, one->path, "1", 1, -1, zk_on_stat, one) != ZOK) {
        return -1;
    }
    while (!other->is_told) {
        if (!zk_turn(other)) {
            return -1;
        }
    }
    const int64_t end_ns = figures_now_ns();
    return zk_await(one) && zk_get_ready(from, to) ? end_ns - begin_ns : -1;
}

static void zk_close(void *client)
{
    struct zk *zk = client;
    (void)zookeeper_close(zk->handle); /* the node is removed with the session */
    free(zk);
}
#endif

static const struct round_trip kinds[] = {
    {"sqlite:", "commit", "select", lite_open, lite_ask, lite_close, lite_get_ready, lite_tell},
    {"etcd:", "put", "range", etcd_open, etcd_ask, etcd_close, etcd_get_ready, etcd_tell},
#ifdef CV_BENCH_POSTGRES
    {"postgres:", "update", "select", pg_open, pg_ask, pg_close, pg_get_ready, pg_tell},
#endif
#ifdef CV_BENCH_ZOOKEEPER
    {"zookeeper:", "setData", "getData", zk_open, zk_ask, zk_close, zk_get_ready, zk_tell},
#endif
};

const struct round_trip *round_trip_find(const char *address)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(address, kinds[i].scheme, strlen(kinds[i].scheme)) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}
