/* bench/bench_many.c - many elections in one process and one engine: how soon it leads all of them,
 * and at what cost.
 *
 * Usage: bench_many [--tiny] [COUNT] (it starts itself with --one SCHEME ADDRESS COUNT). For each
 * store one process opens COUNT elections, waits until it leads all of them, and then reads its
 * cost from /proc/self: resident memory, descriptors and threads. Each store has a process of its
 * own, so that one does not pay for the libraries of another; the cost before the first election is
 * printed beside. The servers are those of tools/with-servers; without it, SQLite only. Times are
 * only printed; threads, descriptors and memory have limits, as they do not depend on how busy the
 * machine is. Tiny: the same with few elections; its times mean nothing. */
#include "figures.h"
#include "stores/store.h"

#include <conclave/conclave.h>
#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_DEFAULT 500
#define COUNT_MAX 10000
#define THREADS_MAX 8 /* main, loop, callbacks, four of libuv's pool, one of a client library */
#define DESCRIPTORS_MAX 64 /* whatever the number of elections */
#define RESIDENT_MB_MAX 40 /* with COUNT_DEFAULT elections or fewer */
#define LEAD_NS_MAX (60 * NS_PER_S)

struct cost {
    long resident_kb;
    int descriptors;
    int threads;
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench_many: %s: %s\n", what, why);
    exit(1);
}

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (const struct dirent *one; dir != NULL && (one = readdir(dir)) != NULL;) {
        count += one->d_name[0] != '.';
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

static struct cost cost_now(void)
{
    /* Without that of the folder itself. */
    struct cost cost = {.descriptors = entries("/proc/self/fd") - 1,
                        .threads = entries("/proc/self/task")};
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "VmRSS: %ld", &cost.resident_kb);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return cost;
}

static void prepare(const char *address)
{
    struct cv_errtext error;
    const struct cv_store_kind *kind = cv__store_find(address);
    if (kind == NULL || (kind->create != NULL && kind->create(address, &error) != CV_OK)) {
        die(address, kind != NULL ? error.text : "unknown store");
    }
}

static void open_all(struct cv_election **elections, int count, struct cv_engine *engine,
                     const char *address)
{
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    struct cv_errtext error;
    options.engine = engine;
    for (int i = 0; i < count; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "many %ld %d", (long)getpid(), i);
        if (cv_open(&elections[i], name, address, &options, &error) != CV_OK) {
            die(address, error.text);
        }
    }
}

static int count_leading(struct cv_election **elections, int count)
{
    int leading = 0;
    for (int i = 0; i < count; i++) {
        leading += cv_is_leader(elections[i]);
    }
    return leading;
}

static void await_all(struct cv_election **elections, int count)
{
    const int64_t give_up_ns = figures_now_ns() + LEAD_NS_MAX;
    for (int i = 0; i < count; i++) {
        const int64_t left_ns = give_up_ns - figures_now_ns();
        if (cv_wait(elections[i], CV_UNTIL_LEADING, left_ns > 0 ? left_ns : 0) != CV_OK) {
            struct cv_election_status status = CV_ELECTION_STATUS_INIT;
            (void)cv_status(elections[i], &status);
            char text[CV_ERRTEXT_BYTES + 64];
            (void)snprintf(text, sizeof text, "%d of %d lead after a minute; %s",
                           count_leading(elections, count), count, status.trouble);
            die("not elected", text);
        }
    }
}

/* Returns 0 if threads, descriptors and memory are within their limits. */
static int bench_one(const char *scheme, const char *address, int count)
{
    static struct cv_election *elections[COUNT_MAX];
    struct cv_engine *engine;
    struct cv_errtext error;
    prepare(address);
    const struct cost before = cost_now();
    const int64_t begin_ns = figures_now_ns();
    if (cv_engine_new(&engine, &error) != CV_OK) {
        die("engine", error.text);
    }
    open_all(elections, count, engine, address);
    const int64_t open_ns = figures_now_ns();
    await_all(elections, count);
    const int64_t lead_ns = figures_now_ns();
    const struct cost cost = cost_now();
    const int leading = count_leading(elections, count);
    const int64_t close_begin_ns = figures_now_ns();
    cv_close_all(elections, (size_t)count);
    const int64_t close_ns = figures_now_ns() - close_begin_ns;
    if (cv_engine_free(engine) != CV_OK) {
        die("engine", "elections are left in it");
    }
    const bool is_fine = cost.threads <= THREADS_MAX && cost.descriptors <= DESCRIPTORS_MAX &&
                         (count > COUNT_DEFAULT || cost.resident_kb <= RESIDENT_MB_MAX * 1024);
    (void)printf("many store=%s elections=%d leading=%d lead_s=%.3f open_s=%.3f close_s=%.3f "
                 "resident_mb=%.1f before_mb=%.1f descriptors=%d threads=%d asked_lead_s=2 "
                 "asked_resident_mb=%d asked_descriptors=%d ok=%s\n",
                 scheme, count, leading, (double)(lead_ns - begin_ns) / 1e9,
                 (double)(open_ns - begin_ns) / 1e9, (double)close_ns / 1e9,
                 (double)cost.resident_kb / 1024, (double)before.resident_kb / 1024,
                 cost.descriptors, cost.threads, RESIDENT_MB_MAX, DESCRIPTORS_MAX,
                 is_fine ? "yes" : "NO");
    return is_fine ? 0 : 1;
}

/* Runs bench_one() in a process of its own; returns its exit status. */
static int bench_apart(const char *scheme, const char *address, int count)
{
    char path[4096], number[16];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) {
        die("/proc/self/exe", "cannot be read");
    }
    path[length] = '\0';
    (void)snprintf(number, sizeof number, "%d", count);
    char one[] = "--one";
    char *const argv[] = {path, one, strdup(scheme), strdup(address), number, NULL};
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid) {
        die(path, "cannot be run");
    }
    free(argv[2]);
    free(argv[3]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    static const char *const servers[][2] = {{"postgres", "CV_TEST_POSTGRES"},
                                             {"etcd", "CV_TEST_ETCD"},
                                             {"zookeeper", "CV_TEST_ZOOKEEPER"}};
    if (argc > 4 && strcmp(argv[1], "--one") == 0) {
        return bench_one(argv[2], argv[3], atoi(argv[4]));
    }
    const bool is_tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    int count = is_tiny ? 20 : COUNT_DEFAULT;
    if (argc > (is_tiny ? 2 : 1)) {
        count = atoi(argv[is_tiny ? 2 : 1]);
    }
    char folder[] = "/tmp/conclave-bench-XXXXXX", address[64], command[64];
    if (count < 1 || count > COUNT_MAX || mkdtemp(folder) == NULL ||
        setenv("CONCLAVE_STATE", folder, 1) != 0) {
        die("start", "no folder, or a count that is not 1 to 10000");
    }
    (void)printf("# bench=many version=%s cc=%s clock=real%s\n", cv_version(), __VERSION__,
                 is_tiny ? " tiny" : "");
    (void)fflush(stdout);
    (void)snprintf(address, sizeof address, "sqlite:%s/elections", folder);
    int failed = bench_apart("sqlite", address, count);
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        const char *at = getenv(servers[i][1]);
        if (at != NULL) {
            failed |= bench_apart(servers[i][0], at, count);
        }
    }
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? failed : 1;
}
