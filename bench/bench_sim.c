/* bench/bench_sim.c - how fast the simulator runs, with all properties checked, on one processor.
 *
 * Usage: bench_sim [--tiny]. Each case runs in a process of its own, so that its memory can be
 * measured. The figure is the median of several runs, with minimum and maximum beside it, and a
 * hash of everything that happened, which is the same on every machine. Tiny: the same in
 * miniature, to check that it still works; its figures mean nothing. */
#include "figures.h"
#include "report/report.h"

#include <conclave/conclave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 5

struct bench_case {
    const char *name;
    const char *protocol;
    uint32_t nodes;
    const char *rest; /* the remaining lines of the scenario */
    const char *run, *tiny_run;
    int repeats;
    bool is_huge; /* fewer nodes if tiny */
};

static const char quiet[] = "link * delay 1ms jitter 10%\n";
static const char faulty[] =
    "link * delay 1ms jitter 10% loss 0.1%\n"
    "random faults rate 1/s kinds crash,pause,partition,link,loss,duplicate,reorder\n";
static const char crash[] = "link * delay 1ms\nat 70s crash leader\nat 70s peer-down leader at 1\n";

static const struct bench_case cases[] = {
    {"quiet", "bully", 5, quiet, "10000s", "10s", REPEATS, false},
    {"quiet", "ring", 5, quiet, "10000s", "10s", REPEATS, false},
    {"faulty", "bully", 5, faulty, "5000s", "10s", REPEATS, false},
    {"faulty", "bully-improved", 5, faulty, "3000s", "10s", REPEATS, false},
    {"faulty", "bully-modified", 5, faulty, "5000s", "10s", REPEATS, false},
    {"faulty", "ring", 5, faulty, "5000s", "10s", REPEATS, false},
    {"faulty", "ring-modified", 5, faulty, "5000s", "10s", REPEATS, false},
    {"quiet", "bully", 100, quiet, "1000s", "2s", REPEATS, false},
    {"faulty", "bully", 100, faulty, "100s", "2s", REPEATS, false},
    {"faulty", "ring", 100, faulty, "100s", "2s", REPEATS, false},
    {"first-election", "bully", 1024, quiet, "500ms", "500ms", 1, true},
    {"first-election", "bully", 2048, quiet, "500ms", "500ms", 1, true},
    {"first-election", "bully", 4096, quiet, "500ms", "500ms", 1, true},
    {"crash", "ring", 4096, crash, "90s", "90s", 1, true},
    {"crash", "ring-modified", 4096, crash, "90s", "90s", 1, true},
};

static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t hash_world(const struct sim_world *world)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return 0;
    }
    sim_report_json(world, -1, out);
    (void)fclose(out);
    const uint64_t hash = hash_text(text);
    free(text);
    return hash;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Do all nodes that are up end with the same leader? Only elections that succeed are measured. */
static bool is_elected(const struct sim_world *world)
{
    cv_id leader = CV_ID_NONE;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const cv_id followed = world->properties.node[i].leader;
        if (world->node[i].is_up) {
            leader = leader == CV_ID_NONE ? followed : leader;
            if (followed != leader || leader == CV_ID_NONE) {
                return false;
            }
        }
    }
    return true;
}

static int run_case(const struct bench_case *c, bool is_tiny)
{
    const uint32_t nodes = is_tiny && c->is_huge ? c->nodes / 64 : c->nodes;
    char text[512];
    (void)snprintf(text, sizeof text, "protocol %s%s\nnodes %u\n%srun %s\n", c->protocol,
                   c->is_huge ? " heartbeat=10s delta=2ms" : "", nodes, c->rest,
                   is_tiny ? c->tiny_run : c->run);
    struct sim_scenario *scenario;
    struct cv_errtext why;
    if (sim_scenario_parse(c->name, text, strlen(text), &scenario, &why) != CV_OK) {
        (void)fprintf(stderr, "%s\n", why.text);
        return EXIT_FAILURE;
    }
    double rate[REPEATS];
    double wall_s = 0;
    uint64_t events = 0;
    uint64_t messages = 0;
    uint64_t hash = 0;
    uint32_t in_flight = 0;
    bool is_ok = true;
    const int repeats = is_tiny ? 1 : c->repeats;
    for (int i = 0; i < repeats; i++) {
        const struct sim_world_options options = {0};
        struct sim_world *world = sim_world_new(scenario, /* seed= */ 42, &options);
        const double begin_s = now_s();
        is_ok = sim_world_run_all(world) && is_ok;
        wall_s = now_s() - begin_s;
        rate[i] = (double)world->host.counts.steps / wall_s / 1e6;
        events = world->host.counts.steps;
        messages = world->messages.count;
        in_flight = world->messages.flight_count;
        hash = hash_world(world);
        is_ok = is_ok && (!c->is_huge || is_elected(world));
        sim_world_free(world);
    }
    sim_scenario_free(scenario);
    const double median = figures_median(rate, (size_t)repeats);
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("sim case=%s protocol=%s n=%u events=%llu messages=%llu in_flight_max=%u runs=%d "
                 "wall_s=%.2f mevents_per_s_p50=%.2f min=%.2f max=%.2f peak_mb=%.1f "
                 "hash=%016llx ok=%s\n",
                 c->name, c->protocol, nodes, (unsigned long long)events,
                 (unsigned long long)messages, in_flight, repeats, wall_s, median, rate[0],
                 rate[repeats - 1], (double)usage.ru_maxrss / 1024, (unsigned long long)hash,
                 is_ok ? "yes" : "NO");
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const bool is_tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    (void)printf("# bench=sim version=%s cc=%s clock=sim seed=42 properties=all threads=1%s\n",
                 cv_version(), __VERSION__, is_tiny ? " tiny" : "");
    int status = EXIT_SUCCESS;
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        (void)fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            const int result = run_case(&cases[i], is_tiny);
            (void)fflush(stdout);
            _exit(result);
        }
        int ended = 0;
        if (child < 0 || waitpid(child, &ended, 0) != child || ended != 0) {
            status = EXIT_FAILURE;
        }
    }
    return status;
}
