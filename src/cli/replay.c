/* src/cli/replay.c - tries what `conclave explore` found in the simulator, and writes it. */
#include "cli/replay.h"

#include "base/memory.h"
#include "cli/cli.h"
#include "explore/story.h"
#include "sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A scenario as text, and its outcome in the simulator. */
struct attempt {
    char *text;
    size_t length;
    bool breaks;                                           /* it breaks the property */
    char detail[sizeof((struct cv_broken *)NULL)->detail]; /* how */
    uint32_t others; /* CV_PROP bits of the other promises that break */
};

static bool run(struct attempt *a, const struct explore_result *result, FILE *trace,
                struct cv_errtext *reterr)
{
    struct sim_scenario *scenario;
    if (sim_scenario_parse("counterexample", a->text, a->length, &scenario, reterr) != CV_OK) {
        return false;
    }
    const struct sim_world_options options = {.trace = trace};
    struct sim_world *world = sim_world_new(scenario, scenario->seed, &options);
    (void)sim_world_run_all(world);
    const struct cv_broken *broken = world->properties.broken;
    a->breaks = broken[result->property].is_broken;
    (void)snprintf(a->detail, sizeof a->detail, "%s", broken[result->property].detail);
    a->others = 0;
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if (i != result->property && broken[i].is_broken) {
            a->others |= BIT(i) & scenario->promises;
        }
    }
    sim_world_free(world);
    sim_scenario_free(scenario);
    return true;
}

/* False: the violation cannot be written in this form. */
static bool try(struct attempt *a, struct explore_model *model, const struct explore_result *result,
                enum explore_story_kind kind, struct cv_errtext *reterr)
{
    FILE *out = open_memstream(&a->text, &a->length);
    if (out == NULL) {
        (void)snprintf(reterr->text, sizeof reterr->text, "out of memory for a scenario");
        return false;
    }
    const int error = explore_story(model, result, kind, out, reterr);
    (void)fclose(out);
    return error == CV_OK && run(a, result, NULL, reterr);
}

static int write_scenario(const struct attempt *a, const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return cv__cannot("cannot write '%s': %s", path, strerror(errno));
    }
    (void)fwrite(a->text, 1, a->length, out);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((a->others & BIT(i)) != 0) {
            (void)fprintf(out, "expect broken %s\n", cv_property_name((enum cv_property)i));
        }
    }
    const bool is_bad = ferror(out) != 0;
    if (fclose(out) != 0 || is_bad) {
        return cv__cannot("cannot write '%s'", path);
    }
    return EXIT_NO;
}

static int write_trace(struct attempt *a, const struct explore_result *result, const char *path)
{
    struct cv_errtext why;
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return cv__cannot("cannot write '%s': %s", path, strerror(errno));
    }
    const bool has_run = run(a, result, out, &why);
    const bool is_bad = ferror(out) != 0 || !has_run;
    if (fclose(out) != 0 || is_bad) {
        return cv__cannot("cannot write '%s'", path);
    }
    return EXIT_NO;
}

static int write_all(struct attempt *a, const struct explore_result *result,
                     const char *scenario_path, const char *trace_path)
{
    int status = EXIT_NO;
    if (scenario_path != NULL) {
        status = write_scenario(a, scenario_path);
    }
    if (status == EXIT_NO && trace_path != NULL) {
        status = write_trace(a, result, trace_path);
    }
    return status;
}

int cv__replay_write(struct explore_model *model, const struct explore_result *result,
                     const char *scenario_path, const char *trace_path)
{
    struct attempt exact = {0};
    struct attempt brief = {0};
    struct cv_errtext why = {""};
    int status;
    if (!try(&exact, model, result, EXPLORE_STORY_BY_HAND, &why)) {
        status = cv__cannot("%s", why.text);
    } else {
        struct cv_errtext unused;
        const bool is_brief = try(&brief, model, result, EXPLORE_STORY_SHORT, &unused) &&
                              brief.breaks && strcmp(brief.detail, exact.detail) == 0;
        status = write_all(is_brief ? &brief : &exact, result, scenario_path, trace_path);
    }
    if (status == EXIT_NO && !exact.breaks) {
        status = cv__cannot("the simulator does not reproduce the violation of %s: this is a bug "
                            "in conclave, please report it",
                            cv_property_name(result->property));
    }
    free(exact.text);
    free(brief.text);
    return status;
}
