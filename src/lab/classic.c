/* src/lab/classic.c - `conclave lab classic`: what [NITR] says of the five classical protocols,
 * beside what they do.
 *
 * The coordinator crashes and somebody is told: in the best case the second highest, in the worst
 * case the lowest alone, and in the case `all` everybody at once. Delays are constant, one
 * transmission time each, and T is three of them. Messages are those of the election: heartbeats
 * and their answers and the ring's acknowledgements are not counted. The election is complete when
 * the last living process follows the new coordinator. */
#include "base/command.h"
#include "lab/lab.h"
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

enum detector { SECOND_HIGHEST, LOWEST, EVERYBODY };

/* How the figure is meant. */
enum relation { EXACTLY, AT_MOST };

/* messages = a N^2 + b N + c (halves), time in transmissions. */
struct claim {
    const char *protocol;
    enum detector who;
    const char *what; /* message type counted; NULL: all of the election */
    const char *formula;
    int64_t square_halves, linear_halves, constant_halves;
    enum relation relation;
    int64_t transmissions; /* 0: nothing is said about the time */
};

static const struct claim claims[] = {
    {"bully", SECOND_HIGHEST, NULL, "N-2", 0, 2, -4, EXACTLY, 1},
    {"bully", LOWEST, "ELECTION", "N(N-1)/2", 1, -1, 0, EXACTLY, 5},
    {"bully", EVERYBODY, "ELECTION", "N(N-1)/2", 1, -1, 0, AT_MOST, 0},
    {"bully-improved", SECOND_HIGHEST, NULL, "N-2", 0, 2, -4, EXACTLY, 1},
    {"bully-improved", LOWEST, "ELECTION", "N(N-1)/2", 1, -1, 0, EXACTLY, 0},
    {"bully-improved", EVERYBODY, NULL, "N-2", 0, 2, -4, EXACTLY, 1},
    {"bully-modified", SECOND_HIGHEST, NULL, "N-1", 0, 2, -2, EXACTLY, 1},
    {"bully-modified", LOWEST, NULL, "3N-3", 0, 6, -6, EXACTLY, 4},
    {"bully-modified", EVERYBODY, "ELECTION", "N(N-1)/2", 1, -1, 0, AT_MOST, 0},
    {"ring", SECOND_HIGHEST, NULL, "2N", 0, 4, 0, AT_MOST, 0},
    {"ring", LOWEST, NULL, "2N", 0, 4, 0, AT_MOST, 0},
    {"ring", EVERYBODY, "ELECTION", "(N-1)N", 2, -2, 0, AT_MOST, 0},
    {"ring-modified", SECOND_HIGHEST, NULL, "2N", 0, 4, 0, AT_MOST, 0},
    {"ring-modified", LOWEST, NULL, "3N-3", 0, 6, -6, EXACTLY, 0},
    {"ring-modified", EVERYBODY, "ELECTION", "(N-1)N", 2, -2, 0, AT_MOST, 0},
};

static const uint32_t sizes[] = {4, 8, 16, 32, 64};

#define CRASH_MS 2000

struct measured {
    uint64_t total, counted;
    double transmissions;
    bool is_elected;
};

static bool is_of_election(const char *type)
{
    return strcmp(type, "HEARTBEAT") != 0 && strcmp(type, "ALIVE") != 0 && strcmp(type, "ACK") != 0;
}

static struct measured measure(const char *protocol, enum detector who, const char *what,
                               uint32_t node_count)
{
    char told[32];
    const cv_id dead = node_count;
    (void)snprintf(told, sizeof told, who == EVERYBODY ? "1..%u" : "%u",
                   who == LOWEST ? 1 : node_count - 1);
    struct sim_scenario *scenario = cv__lab_scenario(
        "protocol %s heartbeat=100ms timeout=1s delta=1ms\nnodes %u\n"
        "link * delay 1ms\n"
        "at %dms crash %u\nat %dms peer-down %u at %s\nrun %dms\n",
        protocol, node_count, CRASH_MS, dead, CRASH_MS, dead, told, CRASH_MS + 900);
    const struct sim_world_options options = {.keeps_history = true};
    struct sim_world *world = sim_world_new(scenario, scenario->seed, &options);
    sim_world_run(world, CRASH_MS * NS_PER_MS - 1);
    uint64_t before[SIM_TYPES_MAX];
    memcpy(before, world->messages.count_by_type, sizeof before);
    sim_world_run(world, scenario->run_ns);

    struct measured m = {.is_elected = true};
    for (uint32_t i = 0; i < world->protocol->message_count; i++) {
        const char *type = world->protocol->messages[i].name;
        const uint64_t sent = world->messages.count_by_type[i] - before[i];
        m.total += is_of_election(type) ? sent : 0;
        m.counted +=
            what == NULL ? (is_of_election(type) ? sent : 0) : (strcmp(type, what) == 0 ? sent : 0);
    }
    for (cv_id id = 1; id < dead; id++) {
        m.is_elected = m.is_elected && world->properties.node[id - 1].leader == dead - 1;
    }
    for (uint32_t i = 0; i < world->history.view_count; i++) {
        const int64_t since_ns = world->history.view[i].at_ns - CRASH_MS * NS_PER_MS;
        if (since_ns >= 0 && world->history.view[i].leader != CV_ID_NONE) {
            m.transmissions = (double)since_ns / (double)NS_PER_MS;
        }
    }
    sim_world_free(world);
    sim_scenario_free(scenario);
    return m;
}

static bool agrees(const struct claim *claim, uint32_t node_count, const struct measured *m)
{
    const int64_t n = node_count;
    const int64_t halves =
        claim->square_halves * n * n + claim->linear_halves * n + claim->constant_halves;
    const int64_t counted_halves = 2 * (int64_t)m->counted;
    const bool count_agrees =
        claim->relation == EXACTLY ? counted_halves == halves : counted_halves <= halves;
    /* The clocks of a millisecond and a nanosecond of rounding. */
    const double off = m->transmissions - (double)claim->transmissions;
    const bool time_agrees = claim->transmissions == 0 || (off > -0.01 && off < 0.01);
    return m->is_elected && count_agrees && time_agrees;
}

static bool print_claim(const struct claim *claim)
{
    static const char *const who[] = {"best", "worst", "all"};
    bool all_agree = true;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const uint32_t n = sizes[i];
        const struct measured m = measure(claim->protocol, claim->who, claim->what, n);
        const bool is_ok = agrees(claim, n, &m);
        all_agree = all_agree && is_ok;
        const int64_t halves =
            claim->square_halves * n * n + claim->linear_halves * n + claim->constant_halves;
        char said[32] = "";
        if (claim->transmissions > 0) {
            (void)snprintf(said, sizeof said, "%lld", (long long)claim->transmissions);
        }
        (void)printf("%-15s %-6s %3u  %-9s %5llu  %s %-9s %5lld  %6llu  %9.1f  %5s  %s\n",
                     claim->protocol, who[claim->who], n, claim->what != NULL ? claim->what : "all",
                     (unsigned long long)m.counted,
                     claim->relation == EXACTLY ? "= " : "<=", claim->formula,
                     (long long)(halves / 2), (unsigned long long)m.total, m.transmissions, said,
                     is_ok ? "agrees" : "DISAGREES");
    }
    return all_agree;
}

/* A plain scenario in which two lead at once; false if they do not. */
static bool show_two_leaders(const char *protocol, const char *name, const char *faults)
{
    struct sim_scenario *scenario =
        cv__lab_scenario("protocol %s\nnodes 5\nlink * delay 1ms\n%s\nrun 3s\n"
                         "expect broken at-most-one-leader\n",
                         protocol, faults);
    const struct sim_world_options options = {0};
    struct sim_world *world = sim_world_new(scenario, scenario->seed, &options);
    const bool is_ok = sim_world_run_all(world);
    const struct cv_broken *broken = &world->properties.broken[CV_PROPERTY_AT_MOST_ONE_LEADER];
    (void)printf("%-15s %-10s at %.3f s: %s\n", protocol, name, (double)broken->at_ns / 1e9,
                 broken->is_broken ? broken->detail : "NOT SHOWN");
    sim_world_free(world);
    sim_scenario_free(scenario);
    return is_ok;
}

int cv__lab_classic(int argc, char **argv)
{
    if (argc > 1) {
        return cv__wrong_usage("lab classic takes no argument: '%s'", argv[1]);
    }
    bool all_agree = true;
    (void)printf("The coordinator crashes; `best`: the second highest learns of it, `worst`: the "
                 "lowest alone,\n`all`: everybody at once. One transmission takes 1 ms, T = 3.\n\n"
                 "%-15s %-6s %3s  %-9s %5s  %-12s %5s  %6s  %9s  %5s\n",
                 "protocol", "case", "N", "messages", "sent", "said", "", "in all", "time (tr.)",
                 "said");
    for (uint32_t i = 0; i < COUNT_OF(claims); i++) {
        all_agree = print_claim(&claims[i]) && all_agree;
    }
    (void)printf("\nTwo leaders at once, which none of them can exclude:\n");
    for (uint32_t i = 0; i < COUNT_OF(claims); i++) {
        const char *protocol = claims[i].protocol;
        if (i > 0 && strcmp(protocol, claims[i - 1].protocol) == 0) {
            continue; /* the claims are sorted by protocol: once for each */
        }
        const bool splits = show_two_leaders(protocol, "partition", "at 1s partition 1 2 | 3 4 5");
        const bool sleeps = show_two_leaders(protocol, "pause", "at 1s pause leader for 1s");
        all_agree = all_agree && splits && sleeps;
    }
    return all_agree ? EXIT_FINE : EXIT_NO;
}
