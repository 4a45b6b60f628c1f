/* src/cli/cmd_sim.c - `conclave sim FILE...`: runs scenarios. */
#include "base/screen.h"
#include "base/stopwatch.h"
#include "cli/cli.h"
#include "report/runner.h"
#include "report/timeline.h"
#include "sim/shrink.h"
#include "sim/swarm.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    uint64_t seed, run_count, thread_count;
    bool has_seed, is_json, is_timed, is_quiet, shrinks, draws;
    const char *trace_path;
    const char *swarm; /* a protocol; NULL: scenarios are given */
};

static int shrink_text(const char *name, const char *text, uint64_t seed)
{
    struct cv_errtext why;
    struct sim_shrunk shrunk;
    const int error = sim_shrink(name, text, strlen(text), seed, &shrunk, &why);
    if (error == CV_E_INVALID) {
        return cv__cannot("%s: nothing to shrink", why.text);
    }
    if (error != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    (void)printf("# shrunk from %u actions to %u in %u trials; fails with this seed:\n%s",
                 shrunk.actions_before, shrunk.actions_after, shrunk.trials, shrunk.text);
    free(shrunk.text);
    return EXIT_NO;
}

static int shrink(const char *path, uint64_t seed)
{
    char *text;
    size_t length;
    struct cv_errtext why;
    if (sim_scenario_read(path, &text, &length, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    const int status = shrink_text(path, text, seed);
    free(text);
    return status;
}

static int run_one(const struct sim_scenario *scenario, const struct settings *settings,
                   uint64_t seed)
{
    struct sim_world_options options = {.keeps_history = true};
    if (settings->trace_path != NULL) {
        options.trace = fopen(settings->trace_path, "w");
        if (options.trace == NULL) {
            return cv__cannot("cannot write '%s': %s", settings->trace_path, strerror(errno));
        }
    }
    const double begin_s = cv__stopwatch_s();
    struct sim_world *world = sim_world_new(scenario, seed, &options);
    const bool is_ok = sim_world_run_all(world);
    const double wall_s = cv__stopwatch_s() - begin_s;
    if (!is_ok && options.trace == NULL) { /* the same run again, to tell why cores refused */
        sim_world_free(world);
        options.takes_notes = true;
        world = sim_world_new(scenario, seed, &options);
        (void)sim_world_run_all(world);
    }
    if (settings->is_json) {
        sim_report_json(world, settings->is_timed ? wall_s : -1, stdout);
    } else if (settings->draws) {
        sim_timeline_draw(world, cv__screen_columns(), cv__screen_has_colour(stdout), stdout);
        if (!is_ok) {
            sim_report_failures(world, stdout);
        }
        sim_report_delays(world, stdout);
        (void)printf("%s\n", sim_report_verdict(world));
    } else if (settings->is_quiet) {
        sim_report_failures(world, stdout);
        (void)printf("%s: %s\n", scenario->name, sim_report_verdict(world));
    } else {
        sim_report_text(world, stdout);
        if (settings->is_timed) {
            (void)printf("in %.3f s\n", wall_s);
        }
    }
    sim_world_free(world);
    int status = is_ok ? EXIT_FINE : EXIT_NO;
    if (options.trace != NULL && (ferror(options.trace) | fclose(options.trace)) != 0) {
        status = cv__cannot("cannot write '%s'", settings->trace_path);
    }
    return status;
}

/* `what` was run; `promises` are those of all runs. */
static void print_sums(const char *what, uint32_t promises, const struct sim_runner_result *r,
                       bool is_quiet)
{
    bool is_tested = false;
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        is_tested = is_tested ||
                    (i != CV_PROPERTY_ASSERTIONS && (promises & BIT(i)) != 0 && r->judged[i] > 0);
    }
    (void)printf("%s: %llu runs, %llu failed; %llu events, liveness judged %llu times%s\n", what,
                 (unsigned long long)r->run_count, (unsigned long long)r->failed_count,
                 (unsigned long long)r->event_count,
                 (unsigned long long)r->judged[CV_PROPERTY_TERMINATION],
                 is_tested ? "" : "; nothing that is promised was tested");
    if (is_quiet) {
        return;
    }
    (void)printf("faults:");
    for (uint32_t i = 0; i < SIM_FIRED_COUNT; i++) {
        if (sim_fired_name(i) != NULL && r->fired[i] > 0) {
            (void)printf(" %s %llu", sim_fired_name(i), (unsigned long long)r->fired[i]);
        }
    }
    (void)printf("\n");
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const bool is_promised = (promises & BIT(i)) != 0;
        if (is_promised && r->judged[i] == 0 && r->broken[i] == 0) {
            (void)printf("property %s: not tested\n", cv_property_name((enum cv_property)i));
        }
        if (r->broken[i] > 0) {
            (void)printf("property %s: broken in %llu run%s%s\n",
                         cv_property_name((enum cv_property)i), (unsigned long long)r->broken[i],
                         r->broken[i] == 1 ? "" : "s", is_promised ? "" : " (not promised)");
        }
    }
}

/* A kind of fault that was asked for but never happened tests nothing: the runs do not count. */
static bool has_idle_fault(const struct sim_scenario *scenario, const struct sim_runner_result *r,
                           FILE *out)
{
    static const char *const names[] = {
#define SIM_FAULT_TEXT(name, text) text,
        SIM_FAULT_MAP(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
    };
    bool is_idle = false;
    for (uint32_t i = 0; i < scenario->random_count; i++) {
        for (uint32_t kind = 0; kind < SIM_FAULT_COUNT; kind++) {
            if ((scenario->random[i].kinds & BIT(kind)) != 0 &&
                r->fired[sim_fired_by((enum sim_fault)kind)] == 0) {
                (void)fprintf(out, "%s:%u: the fault '%s' never happened in these runs\n",
                              scenario->name, scenario->random[i].line, names[kind]);
                is_idle = true;
            }
        }
    }
    return is_idle;
}

static int run_many(const struct sim_scenario *scenario, const struct settings *settings,
                    uint64_t seed)
{
    const struct sim_runner_options options = {
        .first_seed = seed,
        .run_count = settings->run_count,
        .thread_count = (uint32_t)settings->thread_count,
        .is_timed = settings->is_timed,
        .shows_progress = cv__screen_shows_progress(),
        .json = settings->is_json ? stdout : NULL,
    };
    struct sim_runner_result result;
    sim_runner_run(scenario, &options, &result);
    const bool is_idle = has_idle_fault(scenario, &result, settings->is_json ? stderr : stdout);
    if (!settings->is_json) {
        char what[300];
        (void)snprintf(what, sizeof what, "%s: %s, %u nodes", scenario->name,
                       scenario->protocol->name, scenario->node_count);
        print_sums(what, scenario->promises, &result, settings->is_quiet);
        if (settings->is_timed) {
            (void)printf("in %.3f s, %.2f million events/s\n", result.wall_s,
                         (double)result.event_count / result.wall_s / 1e6);
        }
    }
    if (result.failed_count == 0) {
        return is_idle ? EXIT_NO : EXIT_FINE;
    }
    if (!settings->is_json) {
        const struct sim_world_options world_options = {.takes_notes = true};
        struct sim_world *world = sim_world_new(scenario, result.first_failed_seed, &world_options);
        (void)sim_world_run_all(world); /* it fails: that is why it is run again */
        sim_report_failures(world, stdout);
        sim_world_free(world);
    }
    (void)fprintf(settings->is_json ? stderr : stdout,
                  "first failure: conclave sim %s --seed %llu   (smaller: add --shrink)\n",
                  scenario->name, (unsigned long long)result.first_failed_seed);
    return EXIT_NO;
}

static int run_file(const char *path, const struct settings *settings)
{
    struct sim_scenario *scenario;
    struct cv_errtext why;
    if (sim_scenario_load(path, &scenario, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    uint64_t seed = settings->has_seed ? settings->seed : scenario->seed;
    int status = EXIT_FINE;
    if (settings->shrinks) {
        struct sim_runner_result result = {.failed_count = 1, .first_failed_seed = seed};
        if (settings->run_count > 1) {
            const struct sim_runner_options options = {
                .first_seed = seed,
                .run_count = settings->run_count,
                .shows_progress = cv__screen_shows_progress(),
            };
            sim_runner_run(scenario, &options, &result);
        }
        seed = result.first_failed_seed;
        if (result.failed_count > 0) {
            status = shrink(path, seed);
        } else {
            (void)fprintf(stderr, "conclave: none of %llu runs fails: nothing to shrink\n",
                          (unsigned long long)settings->run_count);
        }
    } else if (settings->run_count > 1) {
        status = run_many(scenario, settings, seed);
    } else {
        status = run_one(scenario, settings, seed);
    }
    sim_scenario_free(scenario);
    return status;
}

/* ---- Drawn scenarios ------------------------------------------------------------------------- */

/* A run of a swarm that failed: its scenario, and why. */
static void print_drawn(const struct cv_protocol *protocol, uint64_t seed, bool is_explained)
{
    char *text = sim_swarm_text(protocol, seed);
    (void)printf("# the scenario of seed %llu:\n"
                 "%s",
                 (unsigned long long)seed, text);
    free(text);
    if (is_explained) {
        struct sim_scenario *scenario = sim_swarm_scenario(protocol, seed);
        const struct sim_world_options options = {.takes_notes = true};
        struct sim_world *world = sim_world_new(scenario, seed, &options);
        (void)sim_world_run_all(world); /* it fails: that is why it is run again */
        sim_report_failures(world, stdout);
        sim_world_free(world);
        sim_scenario_free(scenario);
    }
}

static int run_swarm_once(const struct cv_protocol *protocol, const struct settings *settings,
                          uint64_t seed)
{
    if (settings->shrinks) {
        char *text = sim_swarm_text(protocol, seed);
        const int status = shrink_text("swarm", text, seed);
        free(text);
        return status;
    }
    struct sim_scenario *scenario = sim_swarm_scenario(protocol, seed);
    const int status = run_one(scenario, settings, seed);
    sim_scenario_free(scenario);
    if (status == EXIT_NO && !settings->is_json) {
        print_drawn(protocol, seed, /* is_explained= */ false);
    }
    return status;
}

static int run_swarm(const struct settings *settings)
{
    const struct cv_protocol *protocol = cv_protocol_find(settings->swarm);
    if (protocol == NULL) {
        return cv__cli_unknown_protocol(settings->swarm);
    }
    const uint64_t seed = settings->has_seed ? settings->seed : 1;
    if (settings->run_count == 1) {
        return run_swarm_once(protocol, settings, seed);
    }
    const struct sim_runner_options options = {
        .first_seed = seed,
        .run_count = settings->run_count,
        .thread_count = (uint32_t)settings->thread_count,
        .is_timed = settings->is_timed,
        .shows_progress = cv__screen_shows_progress(),
        .swarm = protocol,
        .json = settings->is_json ? stdout : NULL,
    };
    struct sim_runner_result result;
    sim_runner_run(NULL, &options, &result);
    if (settings->shrinks && result.failed_count > 0) {
        return run_swarm_once(protocol, settings, result.first_failed_seed);
    }
    if (!settings->is_json) {
        char what[80];
        (void)snprintf(what, sizeof what, "swarm: %s", protocol->name);
        print_sums(what, protocol->promises, &result, settings->is_quiet);
    }
    if (result.failed_count == 0) {
        return EXIT_FINE;
    }
    if (!settings->is_json) {
        print_drawn(protocol, result.first_failed_seed, /* is_explained= */ true);
    }
    (void)fprintf(settings->is_json ? stderr : stdout,
                  "first failure: conclave sim --swarm %s --seed %llu   (smaller: add --shrink)\n",
                  protocol->name, (unsigned long long)result.first_failed_seed);
    return EXIT_NO;
}

static bool parse_options(int argc, char **argv, struct settings *settings)
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 'T'},
        {"json", no_argument, NULL, 'j'},
        {"trace", required_argument, NULL, 't'},
        {"timing", no_argument, NULL, 'w'},
        {"shrink", no_argument, NULL, 'S'},
        {"timeline", no_argument, NULL, 'd'},
        {"quiet", no_argument, NULL, 'q'},
        {"swarm", required_argument, NULL, 'W'},
        {0},
    };
    int option;
    while ((option = cv__command_option(argc, argv, "q", longs)) != -1) {
        bool is_ok = true;
        switch (option) {
        case 's':
            is_ok = cv__command_number("--seed", optarg, 0, UINT64_MAX - 1, &settings->seed);
            settings->has_seed = true;
            break;
        case 'r':
            is_ok = cv__command_number("--runs", optarg, 1, 100000000, &settings->run_count);
            break;
        case 'T':
            is_ok = cv__command_number("--threads", optarg, 1, 1024, &settings->thread_count);
            break;
        case 'j':
            settings->is_json = true;
            break;
        case 't':
            settings->trace_path = optarg;
            break;
        case 'w':
            settings->is_timed = true;
            break;
        case 'S':
            settings->shrinks = true;
            break;
        case 'd':
            settings->draws = true;
            break;
        case 'W':
            settings->swarm = optarg;
            break;
        case 'q':
            settings->is_quiet = true;
            break;
        default:
            return false; /* a complaint was printed */
        }
        if (!is_ok) {
            return false;
        }
    }
    return true;
}

static int run(int argc, char **argv)
{
    struct settings settings = {.run_count = 1};
    if (!parse_options(argc, argv, &settings)) {
        return EXIT_USAGE;
    }
    if (settings.swarm != NULL && optind < argc) {
        return cv__wrong_usage("--swarm makes its own scenarios; leave out '%s'", argv[optind]);
    }
    if (settings.swarm == NULL && optind == argc) {
        return cv__wrong_usage("which scenario? usage: conclave sim FILE...");
    }
    if (settings.trace_path != NULL && (settings.run_count > 1 || argc - optind > 1)) {
        return cv__wrong_usage("--trace records one run of one scenario");
    }
    if (settings.is_json && (settings.draws || settings.shrinks)) {
        return cv__wrong_usage("--json cannot be combined with --timeline or --shrink");
    }
    if (settings.draws && (settings.run_count > 1 || settings.shrinks)) {
        return cv__wrong_usage("--timeline draws one run; leave out --runs and --shrink");
    }
    if (!settings.is_json && !settings.shrinks && settings.swarm == NULL) {
        cv__screen_fold_output(); /* scenarios and JSON are for programs: not folded */
    }
    int worst = settings.swarm != NULL ? run_swarm(&settings) : EXIT_FINE;
    for (int i = optind; i < argc; i++) {
        const int status = run_file(argv[i], &settings);
        worst = status > worst ? status : worst;
    }
    return worst;
}

const struct cv_verb cv__verb_sim = {
    .name = "sim",
    .summary = "run scenarios of faults in the simulator and check what was promised",
    .help =
        "usage: conclave sim FILE... [options]\n"
        "       conclave sim --swarm PROTOCOL [options]\n\n"
        "Runs each scenario. Checks the properties that its protocol promises and the "
        "expectations\n"
        "of the scenario. 'man 5 conclave-scenario' describes the language.\n\n"
        "  --seed N       seed of the (first) run; default: the scenario's, or 1\n"
        "  --runs K       run K seeds from there, on all cores; name the first that fails\n"
        "  --swarm P      make a random scenario of protocol P from each seed: nodes, options,\n"
        "                 speeds, kinds of faults; a failure prints the scenario\n"
        "  --threads N    use N threads for --runs and --swarm\n"
        "  --json         print one object for each run; the same seed gives the same bytes\n"
        "  --timing       print how long it took (in JSON: wall_s, otherwise null)\n"
        "  --trace FILE   write every event of the run as JSON lines\n"
        "  --timeline     draw the run: a row for each node, who leads when, the faults\n"
        "  --shrink       write a smaller scenario that still fails (with --runs: of the first\n"
        "                 failing seed)\n"
        "  -q, --quiet    print only failures and a last line\n\n"
        "Exit status: 0 all held, 1 a promise or an expectation did not, 2 bad input.\n",
    .run = run,
};
