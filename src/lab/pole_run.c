/* src/lab/pole_run.c - the worlds that `conclave lab pole` measures; see the header. */
#include "lab/pole_run.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define JITTER 0.02
#define SETTLE_MS 4000.0 /* an election with profile=wan, including the first wait */
#define RUN_S 1000       /* longer than any run, so the end of a world is not judged */
#define SITE_DRAWS 400u
#define RECOVERY_DRAWS 50u

static int64_t ns(double ms)
{
    return (int64_t)(ms * NS_PER_MS);
}

static double ms(int64_t time_ns)
{
    return (double)time_ns / NS_PER_MS;
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

struct text {
    char bytes[1800];
    size_t length;
};

static void add(struct text *t, const char *format, ...) CV_PRINTF(2, 3);
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, args);
    va_end(args);
    CV_ASSERT(length >= 0 && (size_t)length < sizeof t->bytes - t->length);
    t->length += (size_t)length;
}

static struct sim_scenario *scenario_of(const struct cv_lab_wan *wan, const char *oracle,
                                        const char *preference)
{
    const double jitter = wan->is_calm ? 0 : JITTER;
    struct text t = {.length = 0};
    for (uint32_t site = 1; site <= wan->site_count; site++) {
        add(&t, "site D%u", site);
        for (cv_id id = 1; id <= wan->server_count; id++) {
            if (wan->site[id] == site) {
                add(&t, " %u", id);
            }
        }
        add(&t, "\n");
        for (uint32_t other = 1; other < site; other++) {
            add(&t, "rtt D%u D%u %.6fms\n", other, site, wan->rtt_ms[other][site] / (1 + jitter));
        }
    }
    return cv__lab_scenario("protocol pole profile=wan probe=200ms oracle=%s%s%s history-unit=%d "
                            "window=%d bandwidth=%d\nnodes %u\nlink * delay 0.05ms jitter %.0f%% "
                            "dist=pareto\n%srun %ds\n",
                            oracle, preference != NULL ? " preference=" : "",
                            preference != NULL ? preference : "", CV_LAB_ENTRY_BYTES,
                            CV_LAB_WINDOW_BYTES, CV_LAB_BANDWIDTH_BYTES, wan->server_count,
                            100 * jitter, t.bytes, RUN_S);
}

static void act(struct sim_world *w, enum sim_action_kind kind, cv_id node, cv_id other)
{
    const struct sim_action action = {
        .at_ns = w->now_ns + 1, .kind = kind, .node = node, .resign.to = other};
    sim_world_schedule_action(w, &action);
}

/* [sec. 4.1] "always have as initial leader p5": the first leader hands over to it, or, with
 * `rotating`, leaders resign until it is its turn. True: it leads. */
static bool bring_to_lead(struct sim_service *s, struct sim_world *w, cv_id first, bool goes_round)
{
    for (uint32_t i = 0; i < 4 * w->node_count; i++) {
        sim_service_run(s, w->now_ns + ns(SETTLE_MS));
        const cv_id leader = cv__lab_leader(w);
        if (leader == first) {
            return true;
        }
        if (leader != CV_ID_NONE) {
            act(w, SIM_ACTION_RESIGN, leader, goes_round ? CV_ID_NONE : first);
        }
    }
    return false;
}

static struct sim_service_options options_for(uint64_t seed)
{
    return (struct sim_service_options){
        .seed = seed,
        .cost_ns = ns(CV_LAB_OPERATION_MS),
        .entry_bytes = CV_LAB_ENTRY_BYTES,
        .window_bytes = CV_LAB_WINDOW_BYTES,
        .bandwidth_bytes = CV_LAB_BANDWIDTH_BYTES,
        .report_ns = 200 * NS_PER_MS,
    };
}

/* From now on the outdated servers lag; all others have the longest history. */
static void outdate(struct sim_service *s, const struct cv_lab_wan *wan)
{
    uint64_t longest = 0;
    for (cv_id id = 1; id <= wan->server_count; id++) {
        const uint64_t history = sim_service_history(s, id);
        longest = history > longest ? history : longest;
        longest = wan->lag[id] > longest ? wan->lag[id] : longest;
    }
    for (cv_id id = 1; id <= wan->server_count; id++) {
        sim_service_set_history(s, id, longest - wan->lag[id]);
    }
}

static double mean_of_site(struct sim_service *s, uint32_t site, cv_id leader)
{
    double sum = 0;
    for (uint32_t i = 0; i < SITE_DRAWS; i++) {
        const int64_t latency_ns = sim_service_draw_request(s, site, leader);
        if (latency_ns == INT64_MAX) {
            return NAN;
        }
        sum += ms(latency_ns);
    }
    return sum / SITE_DRAWS;
}

/* ---- One run with clients -------------------------------------------------------------------- */

struct meter {
    void (*on_request)(void *, const struct sim_request *);
    void *context;
    int64_t from_ns, until_ns; /* of arrival */
    double sum_ms;
    uint64_t count;
};

static void meter(void *context, const struct sim_request *r)
{
    struct meter *m = context;
    if (r->arrived_ns >= m->from_ns && r->arrived_ns < m->until_ns) {
        m->sum_ms += ms(r->done_ns - r->arrived_ns);
        m->count++;
    }
    if (m->on_request != NULL) {
        m->on_request(m->context, r);
    }
}

static double metered(const struct meter *m)
{
    return m->count > 0 ? m->sum_ms / (double)m->count : NAN;
}

/* Runs from the crash until a new leader serves, and a little longer. */
static void await_leader(struct sim_service *s, struct sim_world *w, cv_id first,
                         struct cv_lab_outcome *o)
{
    const int64_t crash_ns = w->now_ns;
    const int64_t limit_ns = crash_ns + 60 * NS_PER_S;
    const struct sim_recovery *r = NULL;
    uint32_t before = 0;
    while (sim_service_recovery_at(s, before) != NULL) {
        before++;
    }
    act(w, SIM_ACTION_CRASH, first, CV_ID_NONE);
    while (w->now_ns < limit_ns && (r == NULL || r->done_ns > w->now_ns)) {
        sim_service_run(s, w->now_ns + NS_PER_S);
        for (uint32_t i = before; sim_service_recovery_at(s, i) != NULL; i++) {
            r = sim_service_recovery_at(s, i);
        }
    }
    if (r != NULL && r->done_ns <= w->now_ns && cv__lab_leader(w) == r->leader) {
        o->leader = r->leader;
        o->elected_ms = ms(r->began_ns - crash_ns);
        o->recovery_ms = ms(r->done_ns - r->began_ns);
    }
}

static void measure_sites(struct sim_service *s, const struct cv_lab_wan *wan,
                          struct cv_lab_outcome *o)
{
    o->worst_ms = 0;
    for (uint32_t site = 1; site <= wan->site_count; site++) {
        o->site_ms[site] = mean_of_site(s, site, o->leader);
        o->worst_ms = fmax(o->worst_ms, o->site_ms[site]);
    }
    o->consensus_ms = o->site_ms[wan->site[o->leader]];
}

struct cv_lab_outcome cv__lab_pole_run(const struct cv_lab_setting *setting, uint64_t seed,
                                       void (*on_request)(void *, const struct sim_request *),
                                       void *context)
{
    const struct cv_lab_wan *wan = &setting->wan;
    struct sim_scenario *scenario = scenario_of(wan, setting->oracle, setting->preference);
    const struct sim_world_options world_options = {0};
    struct sim_world *w = cv__lab_world(scenario, seed, &world_options);
    struct meter m = {.on_request = on_request, .context = context};
    struct sim_service_options options = options_for(seed);
    options.every = setting->every;
    options.fetch = setting->fetch;
    options.on_request = meter;
    options.context = &m;
    for (uint32_t site = 1; site <= wan->site_count; site++) {
        options.rate[site] = llround(wan->share[site] * CV_LAB_RATE);
    }
    struct sim_service *s = sim_service_new(w, &options);

    struct cv_lab_outcome o = {.leader = CV_ID_NONE, .mean_ms = NAN, .recovery_ms = NAN};
    const bool has_led = bring_to_lead(s, w, wan->first, setting->goes_round);
    const int64_t crash_ns = cv__max64(ns(1000 * setting->crash_s), w->now_ns + 3 * NS_PER_S);
    m.from_ns = w->now_ns;
    m.until_ns = crash_ns - NS_PER_S;
    sim_service_run(s, crash_ns - 2 * NS_PER_S);
    outdate(s, wan);
    sim_service_run(s, crash_ns);
    o.before_ms = metered(&m);

    const bool is_still = cv__lab_leader(w) == wan->first;
    await_leader(s, w, wan->first, &o);
    if (o.leader != CV_ID_NONE) {
        const int64_t from_ns = w->now_ns + 10 * NS_PER_S;
        m = (struct meter){.on_request = on_request,
                           .context = context,
                           .from_ns = from_ns,
                           .until_ns = cv__max64(ns(1000 * setting->end_s), from_ns)};
        sim_service_run(s, m.until_ns + NS_PER_S);
        o.mean_ms = metered(&m);
        measure_sites(s, wan, &o);
    }
    o.is_sound = has_led && is_still && o.leader != CV_ID_NONE && cv__lab_leader(w) == o.leader &&
                 cv__lab_is_sound(w);
    sim_service_free(s);
    sim_world_free(w);
    sim_scenario_free(scenario);
    return o;
}

/* ---- Resignation ----------------------------------------------------------------------------- */

#define MOVE_NS (40 * NS_PER_S)

/* Requests by the time of their arrival. */
struct moved {
    int64_t handed_ns; /* 0: not yet */
    double sum_ms[3];
    uint64_t count[3];
};

static void count_moved(void *context, const struct sim_request *r)
{
    struct moved *m = context;
    uint32_t part = r->arrived_ns < MOVE_NS ? 0 : 1;
    if (m->handed_ns > 0 && r->arrived_ns >= m->handed_ns) {
        if (r->arrived_ns < m->handed_ns + 5 * NS_PER_S) {
            return;
        }
        part = 2;
    }
    if (r->arrived_ns >= MOVE_NS / 2) {
        m->sum_ms[part] += ms(r->done_ns - r->arrived_ns);
        m->count[part]++;
    }
}

static double moved_mean(const struct moved *m, uint32_t part)
{
    return m->count[part] > 0 ? m->sum_ms[part] / (double)m->count[part] : NAN;
}

/* Runs in small steps and watches the leader. */
static void watch_handover(struct sim_service *s, struct sim_world *w, struct moved *m,
                           struct cv_lab_handover *h)
{
    const int64_t end_ns = MOVE_NS + 90 * NS_PER_S;
    int64_t gone_ns = 0;
    h->after = h->before;
    while (w->now_ns < end_ns) {
        sim_service_run(s, w->now_ns + NS_PER_MS);
        const cv_id leader = cv__lab_leader(w);
        gone_ns += leader == CV_ID_NONE ? NS_PER_MS : 0;
        if (leader != CV_ID_NONE && leader != h->after) {
            h->after = leader;
            h->changes++;
            if (m->handed_ns == 0) {
                m->handed_ns = w->now_ns;
                h->handed_ms = ms(w->now_ns - MOVE_NS);
            }
        }
    }
    h->gap_ms = ms(gone_ns);
}

struct cv_lab_handover cv__lab_pole_resign(const struct cv_lab_wan *wan, uint32_t site,
                                           const char *options, uint64_t seed)
{
    char oracle[128];
    const int length = snprintf(oracle, sizeof oracle, "latency %s", options);
    CV_ASSERT(length > 0 && (size_t)length < sizeof oracle);
    struct sim_scenario *scenario = scenario_of(wan, oracle, NULL);
    const struct sim_world_options world_options = {0};
    struct sim_world *w = cv__lab_world(scenario, seed, &world_options);
    struct moved m = {.handed_ns = 0};
    struct sim_service_options service_options = options_for(seed);
    service_options.every = 10;
    service_options.on_request = count_moved;
    service_options.context = &m;
    for (uint32_t i = 1; i <= wan->site_count; i++) {
        service_options.rate[i] = llround(wan->share[i] * CV_LAB_RATE);
    }
    struct sim_service *s = sim_service_new(w, &service_options);
    const bool has_led = bring_to_lead(s, w, wan->first, /* goes_round= */ false);
    CV_ASSERT(w->now_ns < MOVE_NS);
    sim_service_run(s, MOVE_NS);
    struct cv_lab_handover h = {.before = cv__lab_leader(w), .handed_ms = NAN};
    for (uint32_t i = 1; i <= wan->site_count; i++) {
        sim_service_set_rate(s, i, i == site ? CV_LAB_RATE : 0);
    }
    watch_handover(s, w, &m, &h);
    h.before_ms = moved_mean(&m, 0);
    h.moved_ms = moved_mean(&m, 1);
    h.after_ms = moved_mean(&m, 2);
    h.is_sound = has_led && h.before == wan->first && cv__lab_is_sound(w);
    sim_service_free(s);
    sim_world_free(w);
    sim_scenario_free(scenario);
    return h;
}

/* ---- Every possible leader ------------------------------------------------------------------- */

static void measure_candidates(struct sim_service *s, struct sim_world *w,
                               const struct cv_lab_wan *wan, uint64_t seed,
                               struct cv_lab_candidates *c)
{
    for (cv_id id = 1; id <= wan->server_count; id++) {
        c->mean_ms[id] = NAN;
        c->worst_ms[id] = NAN;
        c->recovery_ms[id] = NAN;
        if (!w->node[id - 1].is_up) {
            continue;
        }
        outdate(s, wan);
        sim_service_reseed(s, seed);
        c->recovery_ms[id] = 0;
        for (uint32_t i = 0; i < RECOVERY_DRAWS; i++) {
            c->recovery_ms[id] += ms(sim_service_draw_recovery(s, id)) / RECOVERY_DRAWS;
        }
        for (cv_id other = 1; other <= wan->server_count; other++) {
            sim_service_set_history(s, other, 0); /* as after a recovery: all are in sync */
        }
        sim_service_reseed(s, seed);
        c->mean_ms[id] = 0;
        c->worst_ms[id] = 0;
        for (uint32_t site = 1; site <= wan->site_count; site++) {
            const double site_ms = mean_of_site(s, site, id);
            c->mean_ms[id] += wan->share[site] * site_ms;
            c->worst_ms[id] = fmax(c->worst_ms[id], site_ms);
        }
    }
}

/* The reports of each server, from the start. */
static void report_all(struct sim_world *w, const struct cv_lab_wan *wan)
{
    uint64_t longest = 0;
    uint32_t servers[CV_LAB_SITES_MAX + 1] = {0};
    for (cv_id id = 1; id <= wan->server_count; id++) {
        servers[wan->site[id]]++;
        longest = wan->lag[id] > longest ? wan->lag[id] : longest;
    }
    for (cv_id id = 1; id <= wan->server_count; id++) {
        const uint32_t site = wan->site[id];
        struct sim_action report = {.at_ns = 1, .kind = SIM_ACTION_REPORT, .node = id};
        report.report.input = CV_INPUT_REQUEST_RATE;
        report.report.value = llround(wan->share[site] * CV_LAB_RATE / servers[site]);
        sim_world_schedule_action(w, &report);
        report.report.input = CV_INPUT_HISTORY_LENGTH;
        report.report.value = (int64_t)(longest - wan->lag[id]);
        sim_world_schedule_action(w, &report);
    }
}

cv_id cv__lab_pole_elect(const struct cv_lab_wan *wan, const char *oracle, uint64_t seed,
                         struct cv_lab_candidates *ret_candidates)
{
    struct sim_scenario *scenario = scenario_of(wan, oracle, NULL);
    const struct sim_world_options world_options = {0};
    struct sim_world *w = cv__lab_world(scenario, seed, &world_options);
    struct sim_service_options options = options_for(seed);
    options.report_ns = 0; /* no clients; histories are as drawn */
    struct sim_service *s = sim_service_new(w, &options);
    report_all(w, wan);
    const bool has_led = bring_to_lead(s, w, wan->first, /* goes_round= */ false);
    act(w, SIM_ACTION_CRASH, wan->first, CV_ID_NONE);
    sim_service_run(s, w->now_ns + ns(SETTLE_MS));
    const cv_id leader = has_led && cv__lab_is_sound(w) ? cv__lab_leader(w) : CV_ID_NONE;
    if (ret_candidates != NULL) {
        measure_candidates(s, w, wan, seed, ret_candidates);
    }
    sim_service_free(s);
    sim_world_free(w);
    sim_scenario_free(scenario);
    return leader;
}
