/* src/explore/setting.c - makes a model from a setting; see search.h. */
#include "core/core.h"
#include "core/duration.h"
#include "core/errors.h"
#include "explore/canonical.h"
#include "explore/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With drift, a tick of a slow clock takes 11/10 of a tick, of a fast one 11/12: rates of 1 - rho
 * and 1 + rho with rho = 1/11. All are whole numbers of nanoseconds. */
#define TICK_NS NS_PER_MS
#define DRIFTING_TICK_NS (1200 * NS_PER_US)
#define DRIFT_PPB 90909091
#define HORIZON_TIMES 4 /* the horizon has so many times the longest time that was made longer */

/* Sets one option of all nodes, from name=value. */
static int set_option(struct explore_model *model, const char *text, struct cv_errtext *reterr)
{
    char name[64];
    char value[96];
    const char *equals = strchr(text, '=');
    if (equals == NULL || (size_t)(equals - text) >= sizeof name ||
        strlen(equals + 1) >= sizeof value - 8) {
        return cv__fail(reterr, CV_E_INVALID, "'%s' is not an option; write NAME=VALUE", text);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    char *end;
    const long ticks = strtol(equals + 1, &end, 10);
    if (end != equals + 1 && strcmp(end, "t") == 0 && ticks >= 0 && ticks <= 1000000) {
        (void)snprintf(value, sizeof value, "%lldns", (long long)(ticks * model->tick_ns));
    } else {
        (void)snprintf(value, sizeof value, "%s", equals + 1);
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        const int error = cv_config_set(&model->config[i], model->protocol, name, value, reterr);
        if (error != CV_OK) {
            return error;
        }
    }
    return CV_OK;
}

static int set_defaults(struct explore_model *model, const char *options, struct cv_errtext *reterr)
{
    char words[160];
    (void)snprintf(words, sizeof words, "%s", options);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        const int error = set_option(model, word, reterr);
        if (error != CV_OK) {
            return error;
        }
    }
    return CV_OK;
}

/* With the first `option_count` options of the setting. */
static int configure(struct explore_model *model, const struct explore_setting *setting,
                     uint32_t option_count, const struct explore_row *row,
                     struct cv_errtext *reterr)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        cv_config_init(&model->config[i], model->protocol, i + 1, model->node_count);
        model->config[i].drift_ppb = setting->rates != NULL ? DRIFT_PPB : 0;
    }
    int error = set_defaults(model, row->options, reterr);
    if (error == CV_OK && setting->rates != NULL) {
        error = set_defaults(model, row->drifting, reterr);
    }
    for (uint32_t i = 0; error == CV_OK && i < option_count; i++) {
        error = set_option(model, setting->option[i], reterr);
    }
    for (uint32_t i = 0; error == CV_OK && i < model->node_count; i++) {
        error = cv_core_configure(model->protocol, &model->config[i], reterr);
    }
    return error;
}

/* The longest time that the options of the setting have made longer than by default; 0: none. */
static int64_t longer_time_ns(const struct explore_model *model, const int64_t *usual)
{
    const struct cv_option *options = model->protocol->options;
    int64_t longest_ns = 0;
    for (uint32_t i = 0; options[i].name != NULL; i++) {
        const int64_t ns = model->config[0].option[i];
        if (options[i].kind == CV_OPTION_TIME && ns > usual[i] && ns > longest_ns) {
            longest_ns = ns;
        }
    }
    return longest_ns;
}

/* Configures all nodes. Longer times need a longer horizon, unless the setting has one. */
static int configure_all(struct explore_model *model, const struct explore_setting *setting,
                         const struct explore_row *row, struct cv_errtext *reterr)
{
    int64_t usual[CV_OPTIONS_MAX];
    int error = configure(model, setting, 0, row, reterr);
    if (error != CV_OK) {
        return error;
    }
    memcpy(usual, model->config[0].option, sizeof usual);
    error = configure(model, setting, setting->option_count, row, reterr);
    if (error == CV_OK && setting->horizon_ticks == 0) {
        const int64_t needed_ns = HORIZON_TIMES * longer_time_ns(model, usual);
        model->horizon_ns = needed_ns > model->horizon_ns ? needed_ns : model->horizon_ns;
    }
    return error;
}

static uint32_t usual_horizon(const struct explore_setting *setting, const struct explore_row *row)
{
    return row->horizon_ticks * (setting->rates != NULL ? 2 : 1);
}

static void set_times(struct explore_model *model, const struct explore_setting *setting,
                      const struct explore_row *row)
{
    for (uint32_t i = 0; i < EXPLORE_CLOCKS; i++) {
        const char *rates = setting->rates != NULL ? setting->rates : "";
        const uint32_t place = i == EXPLORE_SERVICE ? model->node_count : i;
        const bool is_drifting = place < strlen(rates) && i != EXPLORE_REAL;
        const char rate = is_drifting ? rates[place] : 'e';
        const int64_t parts = EXPLORE_DRIFT_PARTS;
        model->period_ns[i] = rate == 's'   ? model->tick_ns / (parts - 1) * parts
                              : rate == 'f' ? model->tick_ns / (parts + 1) * parts
                                            : model->tick_ns;
    }
    model->slow_ns = row->slow_ticks * model->tick_ns;
    model->delay_min_ns = model->tick_ns;
    model->delay_max_ns = setting->delay_max_ticks * model->tick_ns;
    model->horizon_ns = model->tick_ns * (setting->horizon_ticks > 0 ? setting->horizon_ticks
                                                                     : usual_horizon(setting, row));
}

/* These are judged at every instant; the others after the settling time without a disturbance. */
#define SAFETY                                                                     \
    (CV_PROP(VALIDITY) | CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) |  \
     CV_PROP(LEADER_ORDER) | CV_PROP(SUPPORT_ONE) | CV_PROP(LEADER_SELF_SUPPORT) | \
     CV_PROP(PARTITIONS_DISJOINT))
#define LIVENESS                                                      \
    (CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) | CV_PROP(STABILITY) | \
     CV_PROP(COMMUNICATION_EFFICIENT) | CV_PROP(RIGHTFUL_LEADER))

/* Only `local` promises these: its leaders report who supports them. */
#define OF_SUPPORT \
    (CV_PROP(SUPPORT_ONE) | CV_PROP(LEADER_SELF_SUPPORT) | CV_PROP(PARTITIONS_DISJOINT))

/* Why this property, of those that were asked for, would never be judged; NULL: it is judged. A
 * search that judges nothing must not report success. */
static const char *why_not_judged(const struct explore_model *model, uint32_t promises,
                                  uint32_t property)
{
    const uint32_t can = SAFETY | LIVENESS | CV_PROP(ASSERTIONS);
    if ((can & BIT(property)) == 0) {
        return "it depends on who has been connected to whom, which is not part of an explored "
               "state";
    }
    if ((OF_SUPPORT & ~promises & BIT(property)) != 0) {
        return "leaders of this protocol do not report who supports them";
    }
    if (property == CV_PROPERTY_RIGHTFUL_LEADER && model->protocol->rightful == CV_RIGHTFUL_ANY) {
        return "this protocol does not say which process should lead";
    }
    return NULL;
}

static int set_judged(struct explore_model *model, const struct explore_setting *setting,
                      struct cv_errtext *reterr)
{
    uint32_t promises;
    uint32_t assumes;
    cv__core_contract(model->protocol, &model->config[0], &promises, &assumes);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const char *why = (setting->only & BIT(i)) != 0 ? why_not_judged(model, promises, i) : NULL;
        if (why != NULL) {
            return cv__fail(reterr, CV_E_INVALID, "%s is not explored: %s", cv_property_name(i),
                            why);
        }
    }
    model->judges_liveness = setting->judges_liveness || (setting->only & LIVENESS) != 0;
    const uint32_t wanted = model->judges_liveness ? SAFETY | LIVENESS : SAFETY;
    model->judged = setting->only != 0 ? setting->only : promises & wanted;
    model->judged |= CV_PROP(ASSERTIONS);
    return CV_OK;
}

/* The option `delta`, which every protocol that uses bounds has. */
static int64_t delta_of(const struct explore_model *model)
{
    const struct cv_option *options = model->protocol->options;
    uint32_t at = 0;
    while (strcmp(options[at].name, "delta") != 0) {
        at++;
    }
    return model->config[0].option[at];
}

/* A protocol that measures delays to choose its own times distinguishes larger ones too. */
static void set_bound(struct explore_model *model, const struct explore_row *row)
{
    const int64_t timely_ns = model->properties.setting.delta_ns;
    const bool is_known = row->uses_bounds && timely_ns > 0 && timely_ns <= model->horizon_ns;
    model->bound_ns =
        is_known ? row->bound_deltas * delta_of(model) + 2 * model->tick_ns : INT64_MAX;
}

/* See symmetry.h for what does not allow it. */
static void set_symmetry(struct explore_model *model, const struct explore_row *row)
{
    const uint32_t both = CV_PROP(TOKEN_MONOTONIC) | CV_PROP(AT_MOST_ONE_LEADER);
    const bool are_alike =
        row->alike == EXPLORE_ALIKE ||
        (row->alike == EXPLORE_ALIKE_UNTIL_RESTART && model->budget[EXPLORE_RESTART] == 0 &&
         (model->judged & CV_PROP(AT_MOST_ONE_LEADER)) == 0);
    model->is_symmetric = are_alike && (model->judged & both) != CV_PROP(TOKEN_MONOTONIC);
}

/* A late message is a disturbance. If every message may be late, nothing ever settles, and a search
 * that judges nothing must not report success. */
static int check_settling(const struct explore_model *model, struct cv_errtext *reterr)
{
    const int64_t delta_ns = model->properties.setting.delta_ns;
    if (!model->judges_liveness || delta_ns == 0 || model->delay_max_ns <= delta_ns) {
        return CV_OK;
    }
    return cv__fail(
        reterr, CV_E_INVALID,
        "a message may take %lld ticks here, but %s settles only if messages take at most %.3g "
        "ticks; use a smaller --delay or longer times (--option)",
        (long long)(model->delay_max_ns / model->tick_ns), model->protocol->name,
        (double)delta_ns / (double)model->tick_ns);
}

/* Instants that a core distinguishes would count as equal, or a message would never be due. */
static int check_horizon(const struct explore_model *model, const struct explore_setting *setting,
                         const struct explore_row *row, struct cv_errtext *reterr)
{
    const uint32_t usual = usual_horizon(setting, row);
    if (setting->horizon_ticks > 0 && setting->horizon_ticks < usual) {
        return cv__fail(reterr, CV_E_INVALID,
                        "--horizon %u is too short: %s needs at least %u ticks here",
                        setting->horizon_ticks, model->protocol->name, usual);
    }
    if (model->delay_max_ns > model->horizon_ns) {
        return cv__fail(reterr, CV_E_INVALID, "--horizon must be at least --delay (%u ticks)",
                        setting->delay_max_ticks);
    }
    return CV_OK;
}

int explore_open(const struct explore_setting *setting, struct explore_model *model,
                 struct cv_errtext *reterr)
{
    memset(model, 0, sizeof *model);
    model->protocol = setting->protocol;
    model->node_count = setting->node_count;
    const struct explore_row *row = explore_row_find(setting->protocol);
    if (row == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "%s is not explored yet", setting->protocol->name);
    }
    model->tick_ns = setting->rates != NULL ? DRIFTING_TICK_NS : TICK_NS;
    model->uses_bounds = row->uses_bounds;
    model->canonical = row->canonical;
    model->timers = row->timers;
    model->is_beyond = row->is_beyond;
    model->beyond = row->beyond;
    memcpy(model->budget, setting->budget, sizeof model->budget);
    set_times(model, setting, row);
    int error = configure_all(model, setting, row, reterr);
    if (error == CV_OK) {
        error = check_horizon(model, setting, row, reterr);
    }
    if (error == CV_OK) {
        error = set_judged(model, setting, reterr);
    }
    if (error == CV_OK) {
        set_symmetry(model, row);
        error = explore_model_init(model, reterr);
    }
    if (error == CV_OK) {
        set_bound(model, row);
    }
    if (error == CV_OK && (error = check_settling(model, reterr)) != CV_OK) {
        explore_model_fini(model);
    }
    return error;
}
