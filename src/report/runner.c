/* src/report/runner.c - many seeds of one scenario, on all cores. Worlds share only the scenario,
 * which never changes. So threads synchronise only to take the next seed and to add up results. */
#include "report/runner.h"

#include "base/memory.h"
#include "base/screen.h"
#include "base/stopwatch.h"
#include "sim/swarm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct runner {
    const struct sim_scenario *scenario;
    const struct sim_runner_options *options;
    pthread_mutex_t mutex;
    uint64_t next;        /* run to begin */
    uint64_t next_output; /* run whose JSON is printed next */
    char **output;        /* JSON of finished runs that wait for an earlier one */
    struct sim_runner_result *result;
    double shown_s;
};

static void show_progress(struct runner *r, bool is_last)
{
    const double now = cv__stopwatch_s();
    if (!r->options->shows_progress || (!is_last && now - r->shown_s < 0.1)) {
        return;
    }
    r->shown_s = now;
    const uint64_t done = r->result->run_count;
    const uint64_t all = r->options->run_count;
    char line[128] = "[..............................] ";
    const size_t bar = strlen(line);
    memset(line + 1, '#', (size_t)(done * 30 / all));
    (void)snprintf(line + bar, sizeof line - bar, "%llu of %llu runs, %llu failed",
                   (unsigned long long)done, (unsigned long long)all,
                   (unsigned long long)r->result->failed_count);
    const bool is_wide = strlen(line) < cv__screen_error_limit(); /* else without the bar */
    cv__screen_progress(is_wide ? line : line + bar);
    (void)fputs(is_last ? "\n" : "", stderr);
}

static char *run_json(const struct sim_world *world, double wall_s)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return cv__copy_text("", 0);
    }
    sim_report_json(world, wall_s, out);
    (void)fclose(out);
    return text;
}

/* With the mutex held. */
static void add_up(struct runner *r, uint64_t run, const struct sim_world *world, char *json)
{
    struct sim_runner_result *result = r->result;
    result->run_count++;
    result->event_count += world->host.counts.steps;
    result->message_count += world->messages.count;
    for (uint32_t i = 0; i < SIM_FIRED_COUNT; i++) {
        result->fired[i] += world->fired[i];
    }
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        result->broken[i] += world->properties.broken[i].is_broken;
        result->judged[i] += world->properties.judged[i];
    }
    if (!sim_world_is_ok(world)) {
        if (result->failed_count == 0 || world->seed < result->first_failed_seed) {
            result->first_failed_seed = world->seed;
        }
        result->failed_count++;
    }
    if (r->options->json != NULL) {
        r->output[run] = json;
        while (r->next_output < r->options->run_count && r->output[r->next_output] != NULL) {
            (void)fputs(r->output[r->next_output], r->options->json);
            free(r->output[r->next_output++]);
        }
    }
    show_progress(r, result->run_count == r->options->run_count);
}

static void *work(void *argument)
{
    struct runner *r = argument;
    const struct sim_runner_options *options = r->options;
    const struct sim_world_options world_options = {.keeps_history = options->json != NULL};
    for (;;) {
        (void)pthread_mutex_lock(&r->mutex);
        const uint64_t run = r->next++;
        (void)pthread_mutex_unlock(&r->mutex);
        if (run >= options->run_count) {
            return NULL;
        }
        const double begin_s = cv__stopwatch_s();
        const uint64_t seed = options->first_seed + run;
        struct sim_scenario *drawn =
            options->swarm != NULL ? sim_swarm_scenario(options->swarm, seed) : NULL;
        struct sim_world *world =
            sim_world_new(drawn != NULL ? drawn : r->scenario, seed, &world_options);
        (void)sim_world_run_all(world); /* add_up() asks for the result */
        char *json = NULL;
        if (options->json != NULL) {
            json = run_json(world, options->is_timed ? cv__stopwatch_s() - begin_s : -1);
        }
        (void)pthread_mutex_lock(&r->mutex);
        add_up(r, run, world, json);
        (void)pthread_mutex_unlock(&r->mutex);
        sim_world_free(world);
        sim_scenario_free(drawn);
    }
}

static uint32_t thread_count(const struct sim_runner_options *options)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t wanted = options->thread_count > 0 ? options->thread_count
                            : cores > 0               ? (uint64_t)cores
                                                      : 1;
    return (uint32_t)(wanted < options->run_count ? wanted : options->run_count);
}

void sim_runner_run(const struct sim_scenario *scenario, const struct sim_runner_options *options,
                    struct sim_runner_result *ret_result)
{
    struct runner r = {.scenario = scenario, .options = options, .result = ret_result};
    memset(ret_result, 0, sizeof *ret_result);
    r.output = cv__allocate(options->json != NULL ? options->run_count : 0, sizeof *r.output);
    (void)pthread_mutex_init(&r.mutex, NULL);
    const double begin_s = cv__stopwatch_s();
    const uint32_t threads = thread_count(options);
    pthread_t *thread = cv__allocate(threads, sizeof *thread);
    uint32_t started = 0;
    while (started + 1 < threads && pthread_create(&thread[started], NULL, work, &r) == 0) {
        started++; /* fewer threads than asked for only take longer */
    }
    (void)work(&r);
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(thread[i], NULL);
    }
    ret_result->wall_s = cv__stopwatch_s() - begin_s;
    (void)pthread_mutex_destroy(&r.mutex);
    free(thread);
    free(r.output);
}
