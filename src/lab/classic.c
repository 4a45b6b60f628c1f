/* src/lab/classic.c - `conclave lab classic`: the figures of [NITR] for the five classical
 * protocols, beside the measured ones.
 *
 * The coordinator crashes. In the best case the second highest process is told, in the worst case
 * only the lowest, and in the case `all` every process at once. Delays are constant, one
 * transmission time each, and T is three of them. Only messages of the election are counted, not
 * heartbeats, their answers or the ring's acknowledgements. The election is complete when the last
 * living process follows the new coordinator. */
#include "base/command.h"
#include "lab/lab.h"
#include "sim/world.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum discoverer { SECOND_HIGHEST, LOWEST, EVERYBODY };

/* Is the figure an exact number or an upper bound? */
enum relation { EXACTLY, AT_MOST };

/* messages = a N^2 + b N + c (halves), time in transmissions. */
struct claim {
    const char *protocol;
    enum discoverer who;
    const char *what; /* the message type that is counted; NULL: all types of the election */
    const char *formula;
    int64_t square_halves, linear_halves, constant_halves;
    enum relation relation;
    int64_t transmissions; /* 0: the literature gives no time */
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

static struct measured measure(const char *protocol, enum discoverer who, const char *what,
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
    struct sim_world *world = cv__lab_world(scenario, scenario->seed, &options);
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
    /* Measured times are rounded: a hundredth of a transmission is allowed. */
    const double off = m->transmissions - (double)claim->transmissions;
    const bool time_agrees = claim->transmissions == 0 || (off > -0.01 && off < 0.01);
    return m->is_elected && count_agrees && time_agrees;
}

static bool add_claim(struct cv_table *table, const struct claim *claim)
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
        const int64_t claimed = halves / 2;
        cv__table_row(
            table, CV_TEXT(claim->protocol), CV_TEXT(who[claim->who]), CV_NUMBER(n),
            CV_TEXT(claim->what != NULL ? claim->what : "all"), CV_NUMBER((double)m.counted),
            CV_TEXT(claim->relation == EXACTLY ? "=" : "<="), CV_TEXT(claim->formula),
            CV_NUMBER((double)claimed), CV_NUMBER((double)m.total), CV_NUMBER(m.transmissions),
            CV_NUMBER(claim->transmissions > 0 ? (double)claim->transmissions : NAN),
            CV_TEXT(is_ok ? "agrees" : "DISAGREES"));
    }
    return all_agree;
}

/* Adds a row that shows two leaders at once in a plain scenario; false if there were none. */
struct two_leaders {
    char detail[sizeof((struct cv_broken){0}.detail)];
};

static bool add_two_leaders(struct cv_table *table, const char *protocol, const char *name,
                            const char *faults, struct two_leaders *kept)
{
    struct sim_scenario *scenario =
        cv__lab_scenario("protocol %s\nnodes 5\nlink * delay 1ms\n%s\nrun 3s\n"
                         "expect broken at-most-one-leader\n",
                         protocol, faults);
    const struct sim_world_options options = {0};
    struct sim_world *world = cv__lab_world(scenario, scenario->seed, &options);
    const bool is_ok = sim_world_run_all(world);
    const struct cv_broken *broken = &world->properties.broken[CV_PROPERTY_AT_MOST_ONE_LEADER];
    (void)snprintf(kept->detail, sizeof kept->detail, "%s",
                   broken->is_broken ? broken->detail : "NOT SHOWN");
    cv__table_row(table, CV_TEXT(protocol), CV_TEXT(name), CV_NUMBER((double)broken->at_ns / 1e9),
                  CV_TEXT(kept->detail));
    sim_world_free(world);
    sim_scenario_free(scenario);
    return is_ok;
}

static void report_formulas(struct cv_lab_report *report)
{
    struct cv_table table = {.name = "elections",
                             .about = "One transmission takes 1 ms, T = 3.",
                             .column = {{"protocol", 15, 0, true},
                                        {"case", 5, 0, true},
                                        {"N", 3, 0, false},
                                        {"messages", 9, 0, true},
                                        {"sent", 5, 0, false},
                                        {"is", 2, 0, true},
                                        {"said", 9, 0, true},
                                        {"said_messages", 13, 0, false},
                                        {"in_all", 6, 0, false},
                                        {"time_transmissions", 18, 1, false},
                                        {"said_time", 9, 0, false},
                                        {"verdict", 0, 0, true}}};
    bool all_agree = true;
    for (uint32_t i = 0; i < COUNT_OF(claims); i++) {
        all_agree = add_claim(&table, &claims[i]) && all_agree;
    }
    cv__lab_report_table(report, &table);
    cv__lab_report_claim(report, CV_JUDGED(all_agree), "messages and times follow the formulas",
                         "%s", all_agree ? "all of them" : "no: see the table");
    cv__table_fini(&table);
}

static void report_two_leaders(struct cv_lab_report *report)
{
    struct two_leaders kept[2 * COUNT_OF(claims)];
    struct cv_table table = {.name = "two_leaders",
                             .about =
                                 "Two leaders at once, which none of these protocols excludes:",
                             .column = {{"protocol", 15, 0, true},
                                        {"fault", 10, 0, true},
                                        {"at_s", 6, 3, false},
                                        {"what", 0, 0, true}}};
    bool all_shown = true;
    for (uint32_t i = 0; i < COUNT_OF(claims); i++) {
        const char *protocol = claims[i].protocol;
        if (i > 0 && strcmp(protocol, claims[i - 1].protocol) == 0) {
            continue; /* the claims are sorted by protocol: once for each */
        }
        const bool splits = add_two_leaders(&table, protocol, "partition",
                                            "at 1s partition 1 2 | 3 4 5", &kept[2 * i]);
        const bool sleeps = add_two_leaders(&table, protocol, "pause", "at 1s pause leader for 1s",
                                            &kept[2 * i + 1]);
        all_shown = all_shown && splits && sleeps;
    }
    cv__lab_report_table(report, &table);
    cv__lab_report_claim(report, CV_JUDGED(all_shown),
                         "a partition or a pause leads to two leaders", "%s",
                         all_shown ? "with each protocol" : "no: see the table");
    cv__table_fini(&table);
}

int cv__lab_classic(int argc, char **argv)
{
    struct cv_lab_report report = {.experiment = "classic"};
    if (!cv__command_json(argc, argv, &report.is_json)) {
        return EXIT_USAGE;
    }
    if (optind < argc) {
        return cv__wrong_usage("lab classic takes options only, not '%s'", argv[optind]);
    }
    cv__lab_report_begin(&report,
                         "The coordinator crashes. best: the second highest node learns of it; "
                         "worst: only the lowest\nnode does; all: every node does at once.");
    report_formulas(&report);
    report_two_leaders(&report);
    return cv__lab_report_end(&report);
}
