/* bench/bench_handover.c - how soon the next contender leads: after a resignation, and after a
 * death.
 *
 * Usage: bench_handover [--tiny] [--quick] [--store SCHEME] (it starts itself with --lead ADDRESS).
 * With a store: only its hand-overs on this machine. Quick: without the figures of bare clients,
 * for compare_handover.py. Tiny: the same in miniature, to check that it still works; its figures
 * mean nothing.
 *
 * Two contenders in one process; the leader calls cv_resign(), and the time counts until
 * cv_is_leader() of the other is true. The unit is one round trip to the same store in the same run
 * (round_trip.h). The record changes twice in a hand-over, so two writes, and the notification
 * between them, are the minimum, unless the second one is made in advance. `rested` is a write
 * after a pause as long as the one before each hand-over, since idle programs take longer. `told`
 * is the lower bound: after such a pause one bare client writes, until the store has notified
 * another; `told_and_written`: until that one has written, too.
 *
 * Servers are measured twice: on the loopback interface, where only their own work takes time, and
 * behind a network (a proxy) on which answers take NETWORK_MS, the time of a round trip. SQLite
 * also has a take-over: a leader in a process of its own is killed with -9, until the other one
 * leads. The servers are those of tools/with-servers; without it, SQLite only. */
#include "figures.h"
#include "round_trip.h"
#include "stores/proxy.h"
#include "stores/store.h"

#include <conclave/conclave.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 200
#define NETWORK_MS 10
#define LEASE_NS (2 * NS_PER_S)
#define CLIENTS 3 /* where there are several servers, a round trip depends on the server */

static int handovers = 20, takeovers = 40, trips = 40;
static bool is_quick;
static char folder[] = "/tmp/conclave-bench-XXXXXX";
static char own_path[4096];

/* From bench/stamps.c, if that is preloaded. */
__attribute__((weak)) void bench_stamp(const char *what);

static void stamp(const char *what)
{
    if (bench_stamp != NULL) {
        bench_stamp(what);
    }
}

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench_handover: %s: %s\n", what, why);
    exit(1);
}

static struct cv_election *contender(const char *address, const char *node)
{
    struct cv_election *election;
    struct cv_errtext error;
    char name[64];
    (void)snprintf(name, sizeof name, "bench %ld", (long)getpid());
    const struct cv_election_options options = {
        .size = sizeof options, .node = node, .lease_ns = LEASE_NS};
    if (cv_open(&election, getenv("BENCH_ELECTION") != NULL ? getenv("BENCH_ELECTION") : name,
                address, &options, &error) != CV_OK) {
        die(address, error.text);
    }
    return election;
}

/* Waits until it leads, and returns that instant. */
static int64_t await_leading(struct cv_election *election)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    const int64_t give_up_ns = figures_now_ns() + 60 * NS_PER_S;
    while (!cv_is_leader(election)) {
        struct pollfd wait = {.fd = cv_fd(election), .events = POLLIN};
        (void)poll(&wait, 1, 1000);
        if (cv_is_leader(election)) {
            break;
        }
        cv_status(election, &status);
        if (figures_now_ns() > give_up_ns) {
            die("not elected within 60 s", status.trouble);
        }
    }
    return figures_now_ns();
}

/* Between two hand-overs everything is idle. An idle process has to wake up and load its memory
 * into the caches again; the single write of the store's own client is measured under the same
 * conditions. */
static void rest(bool is_tiny)
{
    (void)usleep(is_tiny ? 50000 : 200000);
}

/* Waits until it knows the leader, and is idle. */
static void await_following(struct cv_election *election, bool is_tiny)
{
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    const int64_t give_up_ns = figures_now_ns() + 60 * NS_PER_S;
    for (;;) {
        cv_status(election, &status);
        if (status.role == CV_ROLE_WAITING && status.leader[0] != '\0') {
            break;
        }
        if (figures_now_ns() > give_up_ns) {
            die("does not know the leader after 60 s", status.trouble);
        }
        struct pollfd wait = {.fd = cv_fd(election), .events = POLLIN};
        (void)poll(&wait, 1, 1000);
    }
    /* Leaderships change rarely; a contender that is notified all the time asks less often. */
    rest(is_tiny);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

/* On SQLite the second client writes without waiting for the disk; on others it is a stream by
 * then. */
static bool is_sqlite(const char *address)
{
    return strncmp(address, "sqlite:", strlen("sqlite:")) == 0;
}

static double rested_ms(const struct round_trip *kind, const char *address, bool is_tiny)
{
    static double ms[ROUNDS_MAX];
    void *client = kind->open(address, 0);
    if (client == NULL) {
        die(address, "cannot be reached");
    }
    for (int i = -1; i < handovers; i++) { /* one run to warm up */
        rest(is_tiny);
        const int64_t begin_ns = figures_now_ns();
        if (!kind->ask(client, /* is_write= */ true)) {
            die(address, "a plain question failed");
        }
        ms[i < 0 ? 0 : i] = (double)(figures_now_ns() - begin_ns) / 1e6;
    }
    kind->close(client);
    return figures_median(ms, (size_t)handovers);
}

/* The lower bound of a hand-over, with the store's own client after a rest: one client changes a
 * record and another is notified. The second figure includes a write of the other one. Contenders
 * may be at any servers, so each server is written to, and the next one notifies. */
static void floor_ms(const struct round_trip *kind, const char *address, bool is_tiny,
                     double *ret_told_ms, double *ret_both_ms)
{
    static double told_ms[ROUNDS_MAX], both_ms[ROUNDS_MAX];
    const int share = (handovers + CLIENTS - 1) / CLIENTS;
    size_t count = 0;
    for (unsigned turn = 0; turn < CLIENTS; turn++) {
        void *from = kind->open(address, turn);
        void *to = kind->open(address, turn + 1);
        void *writer = kind->open(address, turn + 1);
        if (from == NULL || to == NULL || writer == NULL || !kind->get_ready(from, to)) {
            die(address, "cannot be reached");
        }
        for (int i = -1; i < share; i++) { /* one run to warm up */
            rest(is_tiny);
            const int64_t told_ns = kind->tell(from, to);
            const int64_t begin_ns = figures_now_ns();
            const bool is_written =
                kind->ask(is_sqlite(address) ? to : writer, /* is_write= */ true);
            if (told_ns < 0 || !is_written) {
                die(address, "a plain notification failed");
            }
            told_ms[count] = (double)told_ns / 1e6;
            both_ms[count] = (double)(told_ns + figures_now_ns() - begin_ns) / 1e6;
            count += i >= 0;
        }
        kind->close(from);
        kind->close(to);
        kind->close(writer);
    }
    *ret_told_ms = figures_median(told_ms, count);
    *ret_both_ms = figures_median(both_ms, count);
}

static double trip_ms(const struct round_trip *kind, const char *address, bool is_write)
{
    static double ms[CLIENTS * ROUNDS_MAX];
    size_t count = 0;
    for (unsigned turn = 0; turn < CLIENTS; turn++) {
        void *client = kind->open(address, turn);
        if (client == NULL) {
            die(address, "cannot be reached");
        }
        for (int i = -3; i < trips; i++) { /* some runs to warm up */
            const int64_t begin_ns = figures_now_ns();
            if (!kind->ask(client, is_write)) {
                die(address, "a plain question failed");
            }
            if (i >= 0) {
                ms[count++] = (double)(figures_now_ns() - begin_ns) / 1e6;
            }
        }
        kind->close(client);
    }
    return figures_median(ms, count);
}

/* ---- Hand-over ------------------------------------------------------------------------------- */

static void bench_handover(const char *scheme, const char *address, int network_ms, bool is_tiny)
{
    static double ms[ROUNDS_MAX];
    struct cv_errtext error;
    const struct round_trip *trip = round_trip_find(address);
    const struct cv_store_kind *kind = cv__store_find(address);
    if (trip == NULL || kind == NULL) {
        (void)printf("handover store=%s skipped=not-built\n", scheme);
        return;
    }
    if (kind->create != NULL && kind->create(address, &error) != CV_OK) {
        die(address, error.text);
    }
    const double write_ms = is_quick ? 0 : trip_ms(trip, address, true);
    struct cv_election *one[2] = {contender(address, "one"), contender(address, "two")};
    int leader = -1;
    while (leader < 0) {
        leader = cv_is_leader(one[0]) ? 0 : cv_is_leader(one[1]) ? 1 : -1;
        (void)usleep(1000);
    }
    for (int i = -1; i < handovers; i++) { /* one run to warm up */
        await_following(one[1 - leader], is_tiny);
        const int64_t begin_ns = figures_now_ns();
        stamp("resign");
        cv_resign(one[leader], NULL);
        leader = 1 - leader;
        const int64_t end_ns = await_leading(one[leader]);
        stamp("leads");
        ms[i < 0 ? 0 : i] = (double)(end_ns - begin_ns) / 1e6;
    }
    cv_close(one[0]);
    cv_close(one[1]);
    if (is_quick) {
        const double quick_ms = figures_median(ms, (size_t)handovers); /* sorts them, too */
        (void)printf("handover store=%s runs=%d p50_ms=%.3f min_ms=%.3f max_ms=%.3f\n", scheme,
                     handovers, quick_ms, ms[0], ms[handovers - 1]);
        return;
    }
    /* Measured before and after, since the machine may be noisy. */
    const double later_ms = trip_ms(trip, address, true);
    const double read_ms = trip_ms(trip, address, false);
    const double cold_ms = rested_ms(trip, address, is_tiny);
    double told_ms, both_ms;
    floor_ms(trip, address, is_tiny, &told_ms, &both_ms);
    const double unit_ms = (write_ms + later_ms) / 2;
    const double middle_ms = figures_median(ms, (size_t)handovers);
    (void)printf(
        "handover store=%s network_ms=%d runs=%d p50_ms=%.3f min_ms=%.3f max_ms=%.3f %s_ms=%.3f "
        "%s_ms=%.3f rested_%s_ms=%.3f told_ms=%.3f told_and_written_ms=%.3f p50_round_trips=%.2f "
        "asked_round_trips=3\n",
        scheme, network_ms, handovers, middle_ms, ms[0], ms[handovers - 1], trip->write, unit_ms,
        trip->read, read_ms, trip->write, cold_ms, told_ms, both_ms, middle_ms / unit_ms);
    (void)fflush(stdout);
}

/* ---- A network ------------------------------------------------------------------------------- */

struct network {
    uv_loop_t loop;
    uv_async_t stop;
    uv_thread_t thread;
    struct proxy *proxy;
};

static void network_run(void *data)
{
    struct network *network = data;
    (void)uv_run(&network->loop, UV_RUN_DEFAULT); /* ends when the proxy is closed */
}

static void on_stop(uv_async_t *stop)
{
    struct network *network = stop->data;
    proxy_cut(network->proxy);
    proxy_free(network->proxy);
    uv_close((uv_handle_t *)stop, NULL);
}

/* A proxy in front of the first server of this address; writes the address to use instead. */
static void network_open(struct network *network, const char *address, char ret_address[512])
{
    const char *host = strstr(address, "//") + 2;
    const char *end = host + strcspn(host, "/?");
    const char *user = memchr(host, '@', (size_t)(end - host));
    host = user != NULL ? user + 1 : host;
    const int port = atoi(strchr(host, ':') + 1);
    if (uv_loop_init(&network->loop) != 0 ||
        uv_async_init(&network->loop, &network->stop, on_stop) != 0) {
        die(address, "no loop for the network");
    }
    network->stop.data = network;
    network->proxy = proxy_new(&network->loop, port);
    proxy_delay_answers(network->proxy, NETWORK_MS);
    if (uv_thread_create(&network->thread, network_run, network) != 0) {
        die(address, "no thread for the network");
    }
    (void)snprintf(ret_address, 512, "%.*s127.0.0.1:%d%s", (int)(host - address), address,
                   proxy_port(network->proxy), end);
}

static void network_close(struct network *network)
{
    (void)uv_async_send(&network->stop);
    (void)uv_thread_join(&network->thread);
    (void)uv_loop_close(&network->loop); /* nothing is left in it */
}

static void bench_server(const char *scheme, const char *address, bool is_tiny)
{
    struct network network;
    char behind[512];
    bench_handover(scheme, address, /* network_ms= */ 0, is_tiny);
    network_open(&network, address, behind);
    bench_handover(scheme, behind, NETWORK_MS, is_tiny);
    network_close(&network);
}

/* ---- Take-over ------------------------------------------------------------------------------- */

/* A leader in a process of its own; it closes its output when it leads. */
static void lead(const char *address)
{
    struct cv_election *election = contender(address, "victim");
    (void)await_leading(election);
    (void)close(STDOUT_FILENO); /* tells the parent */
    for (;;) {
        (void)pause();
    }
}

static pid_t victim_start(const char *address)
{
    int ends[2];
    pid_t pid = -1;
    char lead_word[] = "--lead";
    char *where = strdup(address);
    char *const argv[] = {own_path, lead_word, where, NULL};
    posix_spawn_file_actions_t actions;
    if (where == NULL || pipe(ends) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, ends[0]) != 0 ||
        posix_spawn_file_actions_addclose(&actions, ends[1]) != 0 ||
        posix_spawn(&pid, own_path, &actions, NULL, argv, environ) != 0) {
        die(own_path, "cannot be started");
    }
    char byte;
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    (void)!read(ends[0], &byte, 1); /* returns when it is closed */
    (void)close(ends[0]);
    free(where);
    return pid;
}

static void bench_takeover(const char *address, bool is_tiny)
{
    static double ms[ROUNDS_MAX];
    for (int i = -1; i < takeovers; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "takeover %d", i);
        (void)setenv("BENCH_ELECTION", name, 1);
        const pid_t victim = victim_start(address);
        struct cv_election *next = contender(address, "next");
        await_following(next, is_tiny);
        const int64_t begin_ns = figures_now_ns();
        (void)kill(victim, SIGKILL);
        ms[i < 0 ? 0 : i] = (double)(await_leading(next) - begin_ns) / 1e6;
        (void)waitpid(victim, NULL, 0);
        cv_close(next);
    }
    (void)unsetenv("BENCH_ELECTION");
    const double middle_ms = figures_median(ms, (size_t)takeovers);
    (void)printf("takeover store=sqlite of=library-process until=elected runs=%d p50_ms=%.3f "
                 "min_ms=%.3f max_ms=%.3f asked_p50_ms=5 asked_max_ms=20\n",
                 takeovers, middle_ms, ms[0], ms[takeovers - 1]);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const servers[][2] = {{"postgres", "CV_TEST_POSTGRES"},
                                             {"etcd", "CV_TEST_ETCD"},
                                             {"zookeeper", "CV_TEST_ZOOKEEPER"}};
    if (argc > 2 && strcmp(argv[1], "--lead") == 0) {
        lead(argv[2]);
    }
    const bool is_tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    is_quick = argc > 1 + is_tiny && strcmp(argv[1 + is_tiny], "--quick") == 0;
    const char *only = argc > 2 && strcmp(argv[argc - 2], "--store") == 0 ? argv[argc - 1] : NULL;
    if (is_tiny) {
        handovers = takeovers = trips = 2;
    }
    char address[64];
    char command[64];
    const ssize_t length = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
    if (length < 0 || mkdtemp(folder) == NULL || setenv("CONCLAVE_STATE", folder, 1) != 0) {
        die("start", "no folder for the bench");
    }
    own_path[length] = '\0';
    (void)snprintf(address, sizeof address, "sqlite:%s/elections", folder);
    (void)printf("# bench=handover version=%s cc=%s clock=real%s\n", cv_version(), __VERSION__,
                 is_tiny ? " tiny" : "");
    (void)fflush(stdout);
    if (only == NULL) {
        bench_takeover(address, is_tiny);
    }
    if (only == NULL || strcmp(only, "sqlite") == 0) {
        bench_handover("sqlite", address, /* network_ms= */ 0, is_tiny);
    }
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        const char *at = getenv(servers[i][1]);
        if (at != NULL && only == NULL) {
            bench_server(servers[i][0], at, is_tiny);
        } else if (at != NULL && strcmp(only, servers[i][0]) == 0) {
            bench_handover(servers[i][0], at, /* network_ms= */ 0, is_tiny);
        }
    }
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? 0 : 1;
}
