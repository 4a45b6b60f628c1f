/* src/report/report.c - prints the result of a run. */
#include "report/report.h"

#include "base/json.h"
#include "core/duration.h"
#include "core/options.h"

#include <conclave/oracle.h>
#include <string.h>

const char *sim_fired_name(uint32_t index)
{
    static const char *const names[SIM_FIRED_COUNT] = {
        [SIM_ACTION_CRASH] = "crash",
        [SIM_ACTION_RECOVER] = "recover",
        [SIM_ACTION_PAUSE] = "pause",
        [SIM_ACTION_RESUME] = "resume",
        [SIM_ACTION_PARTITION] = "partition",
        [SIM_ACTION_HEAL] = "heal",
        [SIM_ACTION_LINK] = "link",
        [SIM_ACTION_OVERLAY] = NULL, /* counted by kind, below */
        [SIM_ACTION_CLOCK] = "clock",
        [SIM_ACTION_DISK] = "disk",
        [SIM_ACTION_COST] = "cost",
        [SIM_ACTION_RESIGN] = "resign",
        [SIM_ACTION_CAMPAIGN] = "campaign",
        [SIM_ACTION_REPORT] = "report",
        [SIM_ACTION_PEER_DOWN] = "peer-down",
        [SIM_ACTION_SEQUENCER] = "sequencer",
        [SIM_ACTION_STORE] = "store",
        [SIM_ACTION_REBOOT] = "reboot",
        [SIM_ACTION_FIRE] = NULL, /* not a fault: it would have happened by itself */
        [SIM_ACTION_DELIVER] = NULL,
        [SIM_ACTION_LOSE] = "lose",
        [SIM_ACTION_LATE] = "late",
        [SIM_ACTION_TIMERS] = "timers",
        [SIM_ACTION_COUNT + SIM_OVERLAY_LOSS] = "loss",
        [SIM_ACTION_COUNT + SIM_OVERLAY_SLOW] = "slow",
        [SIM_ACTION_COUNT + SIM_OVERLAY_DUPLICATE] = "duplicate",
        [SIM_ACTION_COUNT + SIM_OVERLAY_REORDER] = "reorder",
        [SIM_FIRED_ONEWAY] = "oneway",
    };
    return names[index];
}

uint32_t sim_fired_by(enum sim_fault fault)
{
    static const uint32_t indices[SIM_FAULT_COUNT] = {
        [SIM_FAULT_CRASH] = SIM_ACTION_CRASH,
        [SIM_FAULT_REBOOT] = SIM_ACTION_REBOOT,
        [SIM_FAULT_PAUSE] = SIM_ACTION_PAUSE,
        [SIM_FAULT_PARTITION] = SIM_ACTION_PARTITION,
        [SIM_FAULT_LINK] = SIM_ACTION_LINK,
        [SIM_FAULT_ONEWAY] = SIM_FIRED_ONEWAY,
        [SIM_FAULT_LOSS] = SIM_ACTION_COUNT + SIM_OVERLAY_LOSS,
        [SIM_FAULT_SLOW] = SIM_ACTION_COUNT + SIM_OVERLAY_SLOW,
        [SIM_FAULT_DUPLICATE] = SIM_ACTION_COUNT + SIM_OVERLAY_DUPLICATE,
        [SIM_FAULT_REORDER] = SIM_ACTION_COUNT + SIM_OVERLAY_REORDER,
        [SIM_FAULT_RESIGN] = SIM_ACTION_RESIGN,
        [SIM_FAULT_JOIN] = SIM_ACTION_RECOVER,
        [SIM_FAULT_SEQUENCER] = SIM_ACTION_SEQUENCER,
        [SIM_FAULT_STORE] = SIM_ACTION_STORE,
    };
    return indices[fault];
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_options(struct cv_json *json, const struct sim_scenario *s)
{
    cv__json_open(json, "options", '{');
    uint32_t at = 0;
    for (const struct cv_option *o = s->protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        cv__json_text(json, o->name, cv__config_format(&s->config, o, at, &text));
    }
    cv__json_close(json, '}');
}

static void json_score(struct cv_json *json, const struct sim_score *score)
{
    cv__json_open(json, "score", '[');
    for (uint32_t i = 0; i < score->count; i++) {
        if (score->part[i] == CV_SCORE_UNKNOWN) {
            cv__json_null(json, NULL);
        } else {
            cv__json_uint(json, NULL, (uint64_t)score->part[i]);
        }
    }
    cv__json_close(json, ']');
}

static void json_history(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "leaderships", '[');
    for (uint32_t i = 0; i < w->history.span_count; i++) {
        const struct sim_leadership_span *span = &w->history.span[i];
        cv__json_open(json, NULL, '{');
        cv__json_uint(json, "node", span->node);
        cv__json_seconds(json, "from_s", span->from_ns);
        cv__json_seconds(json, "to_s", span->to_ns);
        cv__json_uint(json, "token", span->token);
        cv__json_text(json, "reason", span->reason);
        if (span->score.count > 0) {
            json_score(json, &span->score);
        }
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
    cv__json_open(json, "views", '[');
    for (uint32_t i = 0; i < w->history.view_count; i++) {
        const struct sim_view *view = &w->history.view[i];
        cv__json_open(json, NULL, '{');
        cv__json_seconds(json, "t_s", view->at_ns);
        cv__json_uint(json, "node", view->node);
        cv__json_uint(json, "leader", view->leader);
        cv__json_uint(json, "token", view->token);
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
}

static void json_final(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "final", '{');
    for (cv_id id = 1; id <= w->node_count; id++) {
        const bool is_up = w->node[id - 1].is_up;
        const struct cv_property_node *said = &w->properties.node[id - 1];
        char key[16];
        (void)snprintf(key, sizeof key, "%u", id);
        cv__json_open(json, key, '{');
        cv__json_bool(json, "up", is_up);
        cv__json_uint(json, "leader", said->leader);
        /* The run has ended every leadership; valid means that it lasted up to that end. */
        cv__json_bool(json, "valid",
                      is_up && said->leader == id && said->held_until_ns > w->now_ns);
        cv__json_close(json, '}');
    }
    cv__json_close(json, '}');
}

static void json_messages(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "messages", '{');
    cv__json_uint(json, "total", w->messages.count);
    cv__json_uint(json, "bytes", w->messages.byte_count);
    cv__json_uint(json, "lost", w->messages.lost_count);
    cv__json_uint(json, "late", w->messages.late_count);
    cv__json_open(json, "by_type", '{');
    for (uint32_t i = 0; i < w->protocol->message_count; i++) {
        cv__json_uint(json, w->protocol->messages[i].name, w->messages.count_by_type[i]);
    }
    cv__json_close(json, '}');
    cv__json_close(json, '}');
}

static void json_sequencer(struct cv_json *json, const struct sim_world *w)
{
    const struct sim_sequencer *s = &w->sequencer;
    if (w->protocol->sequence_ns == NULL) {
        return;
    }
    cv__json_open(json, "sequencer", '{');
    cv__json_uint(json, "queries", s->query_count);
    cv__json_uint(json, "numbers", s->number_count);
    cv__json_uint(json, "lost_queries", s->lost_query_count);
    cv__json_uint(json, "lost_answers", s->lost_answer_count);
    cv__json_uint(json, "resets", s->reset_count);
    cv__json_close(json, '}');
}

static void json_store(struct cv_json *json, const struct sim_world *w)
{
    const struct sim_store *s = &w->store;
    if (w->protocol->store_ns == NULL) {
        return;
    }
    cv__json_open(json, "store", '{');
    cv__json_uint(json, "queries", s->query_count);
    cv__json_uint(json, "grants", s->grant_count);
    cv__json_uint(json, "lost_queries", s->lost_query_count);
    cv__json_uint(json, "lost_answers", s->lost_answer_count);
    cv__json_uint(json, "failed", s->failed_count);
    cv__json_uint(json, "notifications", s->notification_count);
    cv__json_uint(json, "lost_notifications", s->lost_notification_count);
    cv__json_uint(json, "restarts", s->boot);
    cv__json_close(json, '}');
}

static void json_instant(struct cv_json *json, const char *key, int64_t ns)
{
    if (ns < 0) {
        cv__json_null(json, key);
    } else {
        cv__json_seconds(json, key, ns);
    }
}

static void json_elections(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "elections", '[');
    for (uint32_t i = 0; i < w->history.election_count; i++) {
        cv__json_open(json, NULL, '{');
        cv__json_seconds(json, "fault_t_s", w->history.election[i].fault_ns);
        json_instant(json, "detected_s", w->history.election[i].detected_ns);
        json_instant(json, "elected_s", w->history.election[i].elected_ns);
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
}

static bool is_promised(const struct sim_world *w, uint32_t property)
{
    return (w->scenario->promises & BIT(property)) != 0;
}

static void json_properties(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "properties", '{');
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const struct cv_broken *broken = &w->properties.broken[i];
        cv__json_open(json, cv_property_name((enum cv_property)i), '{');
        cv__json_bool(json, "promised", is_promised(w, i));
        cv__json_uint(json, "judged", w->properties.judged[i]);
        cv__json_bool(json, "ok", !broken->is_broken);
        json_instant(json, "at_s", broken->is_broken ? broken->at_ns : -1);
        cv__json_text(json, "detail", broken->detail);
        cv__json_close(json, '}');
    }
    cv__json_close(json, '}');
}

static void json_expects(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "expects", '[');
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        cv__json_open(json, NULL, '{');
        cv__json_uint(json, "line", w->scenario->expect[i].line);
        cv__json_bool(json, "ok", w->expect_result[i].is_ok);
        cv__json_text(json, "detail", w->expect_result[i].detail);
        cv__json_close(json, '}');
    }
    cv__json_close(json, ']');
}

static void json_faults(struct cv_json *json, const struct sim_world *w)
{
    cv__json_open(json, "faults", '{');
    for (uint32_t i = 0; i < SIM_FIRED_COUNT; i++) {
        if (sim_fired_name(i) != NULL && w->fired[i] > 0) {
            cv__json_uint(json, sim_fired_name(i), w->fired[i]);
        }
    }
    cv__json_close(json, '}');
}

/* `manual`: how many steps the scenario took, and how many found nothing to do. */
static void json_manual(struct cv_json *json, const struct sim_world *w)
{
    if (w->scenario->is_manual) {
        cv__json_open(json, "manual", '{');
        cv__json_uint(json, "steps", w->manual.step_count);
        cv__json_uint(json, "idle", w->manual.idle_count);
        cv__json_uint(json, "first_idle_line", w->manual.idle_line);
        cv__json_close(json, '}');
    }
}

void sim_report_json(const struct sim_world *w, double wall_s, FILE *out)
{
    struct cv_json json = {.out = out};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "scenario", w->scenario->name);
    cv__json_text(&json, "protocol", w->protocol->name);
    json_options(&json, w->scenario);
    if (w->properties.setting.kappa_ns > 0) {
        cv__json_seconds(&json, "kappa_s", w->properties.setting.kappa_ns);
    }
    cv__json_uint(&json, "nodes", w->node_count);
    cv__json_uint(&json, "seed", w->seed);
    cv__json_seconds(&json, "duration_s", w->scenario->run_ns);
    cv__json_uint(&json, "events", w->host.counts.steps);
    if (wall_s < 0) {
        cv__json_null(&json, "wall_s");
    } else {
        cv__json_double(&json, "wall_s", wall_s);
    }
    json_history(&json, w);
    json_final(&json, w);
    json_messages(&json, w);
    json_sequencer(&json, w);
    json_store(&json, w);
    json_elections(&json, w);
    json_faults(&json, w);
    json_manual(&json, w);
    cv__json_uint(&json, "liveness_judged", w->properties.judged[CV_PROPERTY_TERMINATION]);
    json_properties(&json, w);
    json_expects(&json, w);
    cv__json_bool(&json, "ok", sim_world_is_ok(w));
    cv__json_close(&json, '}');
    (void)fputc('\n', out);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void text_head(const struct sim_world *w, FILE *out)
{
    const struct sim_scenario *s = w->scenario;
    (void)fprintf(out, "%s: %s, %u node%s, seed %llu, ", s->name, w->protocol->name, w->node_count,
                  w->node_count == 1 ? "" : "s", (unsigned long long)w->seed);
    cv__json_print_seconds(out, s->run_ns);
    (void)fprintf(out, "s simulated in %llu events\n  options",
                  (unsigned long long)w->host.counts.steps);
    uint32_t at = 0;
    for (const struct cv_option *o = s->protocol->options; o->name != NULL; o++, at++) {
        struct cv_option_text text;
        (void)fprintf(out, " %s=%s", o->name, cv__config_format(&s->config, o, at, &text));
    }
    if (w->properties.setting.kappa_ns > 0) {
        char kappa[CV_DURATION_TEXT_BYTES];
        (void)fprintf(out,
                      "\n  kappa %s: the promised bound of timeliness and bounded inconsistency",
                      cv__duration_format(w->properties.setting.kappa_ns, kappa));
    }
    (void)fputc('\n', out);
}

static void text_leaderships(const struct sim_world *w, FILE *out)
{
    const uint32_t most = 40; /* enough for a reader; --json has all of them */
    (void)fprintf(out, "leaderships\n");
    for (uint32_t i = 0; i < w->history.span_count && i < most; i++) {
        const struct sim_leadership_span *span = &w->history.span[i];
        (void)fprintf(out, "  node %-4u ", span->node);
        cv__json_print_seconds(out, span->from_ns);
        (void)fprintf(out, "s .. ");
        cv__json_print_seconds(out, span->to_ns);
        (void)fprintf(out, "s  token %llu  %s", (unsigned long long)span->token, span->reason);
        for (uint32_t part = 0; part < span->score.count; part++) {
            (void)fprintf(out, part == 0 ? "  score %lld" : ", %lld",
                          (long long)span->score.part[part]);
        }
        (void)fputc('\n', out);
    }
    if (w->history.span_count > most) {
        (void)fprintf(out, "  ... and %u more\n", w->history.span_count - most);
    }
    if (w->history.span_count == 0) {
        (void)fprintf(out, "  none\n");
    }
}

/* The option of that name; NULL: the protocol has none. */
static const struct cv_option *option_find(const struct cv_protocol *protocol, const char *name)
{
    const struct cv_option *option = protocol->options;
    while (option->name != NULL && strcmp(option->name, name) != 0) {
        option++;
    }
    return option->name != NULL ? option : NULL;
}

/* Options that a hint may name; NULL: not this one. */
struct hint {
    const char *profile, *delta, *heartbeat;
};

/* Does the protocol accept them, and is then no message too late? */
static bool hint_is_enough(const struct hint *hint, const struct sim_world *w)
{
    const char *const options[][2] = {
        {"profile", hint->profile}, {"delta", hint->delta}, {"heartbeat", hint->heartbeat}};
    struct cv_config config;
    cv_config_init(&config, w->protocol, /* self= */ 1, w->node_count);
    for (uint32_t i = 0; i < COUNT_OF(options); i++) {
        const char *value = options[i][1];
        if (value != NULL &&
            cv_config_set(&config, w->protocol, options[i][0], value, NULL) != CV_OK) {
            return false;
        }
    }
    return cv_core_configure(w->protocol, &config, NULL) == CV_OK &&
           w->protocol->timely_ns(&config) >= w->messages.late_max_ns;
}

void sim_report_delays(const struct sim_world *w, FILE *out)
{
    const struct cv_option *delta = option_find(w->protocol, "delta");
    const uint64_t late = w->messages.late_count;
    if (delta == NULL || late == 0 || late < w->messages.count / 10) {
        return;
    }
    const int64_t delta_ns = w->scenario->config.option[delta - w->protocol->options];
    const int64_t timely_ns = w->properties.setting.delta_ns;
    /* delta, multiplied by how much too late the slowest message was, in whole milliseconds. */
    const double needed_ns = (double)delta_ns * (double)w->messages.late_max_ns / (double)timely_ns;
    const int64_t better_ns = ((int64_t)needed_ns / NS_PER_MS + 1) * NS_PER_MS;
    const int64_t beat_ns = (better_ns / 10 / NS_PER_MS + 1) * NS_PER_MS;
    char rtt[CV_DURATION_TEXT_BYTES], now[CV_DURATION_TEXT_BYTES];
    char better[CV_DURATION_TEXT_BYTES], beat[CV_DURATION_TEXT_BYTES];
    (void)cv__duration_format(better_ns, better);
    (void)cv__duration_format(beat_ns, beat);
    (void)fprintf(out, "  rtt %s but delta %s",
                  cv__duration_format(2 * w->messages.late_max_ns, rtt),
                  cv__duration_format(delta_ns, now));
    const struct hint hints[] = {{.profile = "wan"},
                                 {.delta = better},
                                 {.profile = "wan", .delta = better},
                                 {.profile = "wan", .delta = better, .heartbeat = beat}};
    uint32_t i = 0;
    while (i < COUNT_OF(hints) && !hint_is_enough(&hints[i], w)) {
        i++;
    }
    if (i < COUNT_OF(hints)) {
        (void)fprintf(out, ": try%s%s%s%s%s", hints[i].profile != NULL ? " profile=wan" : "",
                      hints[i].delta != NULL ? " delta=" : "", hints[i].delta != NULL ? better : "",
                      hints[i].heartbeat != NULL ? " heartbeat=" : "",
                      hints[i].heartbeat != NULL ? beat : "");
    }
    (void)fputc('\n', out);
}

static void text_counts(const struct sim_world *w, FILE *out)
{
    (void)fprintf(out, "messages %llu, %llu bytes:", (unsigned long long)w->messages.count,
                  (unsigned long long)w->messages.byte_count);
    for (uint32_t i = 0; i < w->protocol->message_count; i++) {
        if (w->messages.count_by_type[i] > 0) {
            (void)fprintf(out, " %s %llu", w->protocol->messages[i].name,
                          (unsigned long long)w->messages.count_by_type[i]);
        }
    }
    (void)fprintf(out, "; lost %llu\n", (unsigned long long)w->messages.lost_count);
    if (w->messages.late_count > 0) {
        char bound[CV_DURATION_TEXT_BYTES];
        (void)fprintf(out,
                      "assumption violated: %llu messages took longer than %s (bounded delay); "
                      "nothing is judged while they do\n",
                      (unsigned long long)w->messages.late_count,
                      cv__duration_format(w->properties.setting.delta_ns, bound));
        sim_report_delays(w, out);
    }
    if (w->protocol->sequence_ns != NULL) {
        const struct sim_sequencer *s = &w->sequencer;
        (void)fprintf(
            out, "sequencer: %llu queries, %llu numbers; lost %llu queries, %llu answers\n",
            (unsigned long long)s->query_count, (unsigned long long)s->number_count,
            (unsigned long long)s->lost_query_count, (unsigned long long)s->lost_answer_count);
    }
    if (w->protocol->store_ns != NULL) {
        const struct sim_store *s = &w->store;
        (void)fprintf(out,
                      "store: %llu queries, %llu grants; lost %llu queries, %llu answers; "
                      "%llu failed; %llu notifications, lost %llu\n",
                      (unsigned long long)s->query_count, (unsigned long long)s->grant_count,
                      (unsigned long long)s->lost_query_count,
                      (unsigned long long)s->lost_answer_count, (unsigned long long)s->failed_count,
                      (unsigned long long)s->notification_count,
                      (unsigned long long)s->lost_notification_count);
    }
    (void)fprintf(out, "faults:");
    bool has_any = false;
    for (uint32_t i = 0; i < SIM_FIRED_COUNT; i++) {
        if (sim_fired_name(i) != NULL && w->fired[i] > 0) {
            (void)fprintf(out, " %s %llu", sim_fired_name(i), (unsigned long long)w->fired[i]);
            has_any = true;
        }
    }
    (void)fprintf(out, has_any ? "\n" : " none\n");
    if (w->scenario->is_manual) {
        (void)fprintf(out, "by hand: %llu steps", (unsigned long long)w->manual.step_count);
        if (w->manual.idle_count > 0) {
            (void)fprintf(out, "; for %llu there was nothing to do, first in line %u",
                          (unsigned long long)w->manual.idle_count, w->manual.idle_line);
        }
        (void)fprintf(out, "\n");
    }
}

/* These properties are shown only for protocols whose leaders report their supporters. */
static bool is_about_support(uint32_t property)
{
    return property >= CV_PROPERTY_SUPPORT_ONE && property <= CV_PROPERTY_PARTITIONS_DISJOINT;
}

static void text_property(const struct sim_world *w, uint32_t i, FILE *out)
{
    const struct cv_broken *broken = &w->properties.broken[i];
    (void)fprintf(out, "property %s: ", cv_property_name((enum cv_property)i));
    if (broken->is_broken) {
        (void)fprintf(out, "BROKEN at ");
        cv__json_print_seconds(out, broken->at_ns);
        (void)fprintf(out, "s in seed %llu: %s", (unsigned long long)w->seed, broken->detail);
    } else {
        (void)fprintf(out, w->properties.judged[i] > 0 ? "holds" : "not tested");
    }
    (void)fprintf(out, is_promised(w, i) ? "\n" : " (not promised)\n");
}

/* Was any promised property judged? Assertions do not count: they always are. */
static bool is_anything_tested(const struct sim_world *w)
{
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if (i != CV_PROPERTY_ASSERTIONS && is_promised(w, i) && w->properties.judged[i] > 0) {
            return true;
        }
    }
    return false;
}

const char *sim_report_verdict(const struct sim_world *w)
{
    if (!sim_world_is_ok(w)) {
        return "FAILED";
    }
    return is_anything_tested(w) ? "ok" : "ok, but nothing that is promised was tested";
}

void sim_report_text(const struct sim_world *w, FILE *out)
{
    text_head(w, out);
    text_leaderships(w, out);
    text_counts(w, out);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if (is_promised(w, i) || !is_about_support(i)) {
            text_property(w, i, out);
        }
    }
    (void)fprintf(out, "liveness was judged %llu time%s\n",
                  (unsigned long long)w->properties.judged[CV_PROPERTY_TERMINATION],
                  w->properties.judged[CV_PROPERTY_TERMINATION] == 1 ? "" : "s");
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        const struct sim_expect_result *result = &w->expect_result[i];
        (void)fprintf(out, "%s: %s%s\n", w->scenario->expect[i].text,
                      result->is_ok ? "yes" : "NO: ", result->is_ok ? "" : result->detail);
    }
    if (!sim_world_is_ok(w) && w->tail != NULL) {
        (void)fprintf(out, "the last events before the first broken promise:\n%s", w->tail);
    }
    (void)fprintf(out, "%s\n", sim_report_verdict(w));
}

void sim_report_failures(const struct sim_world *w, FILE *out)
{
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        if ((sim_world_enforced(w) & BIT(i)) != 0 && w->properties.broken[i].is_broken) {
            text_property(w, i, out);
        }
    }
    for (uint32_t i = 0; i < w->scenario->expect_count; i++) {
        if (!w->expect_result[i].is_ok) {
            (void)fprintf(out, "%s:%u: %s: NO: %s (seed %llu)\n", w->scenario->name,
                          w->scenario->expect[i].line, w->scenario->expect[i].text,
                          w->expect_result[i].detail, (unsigned long long)w->seed);
        }
    }
    if (!sim_world_is_ok(w) && w->tail != NULL) {
        (void)fprintf(out, "the last events before the first broken promise:\n%s", w->tail);
    }
}
