/* src/sim/swarm.c - random scenarios; see swarm.h. */
#include "sim/swarm.h"

#include "base/memory.h"
#include "sim/rng.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_SWARM = 100, STREAM_LATER = 200, TRIES_MAX = 32 };

/* The scenario being drawn. Times are whole microseconds, so that they can be printed exactly. */
struct swarm {
    const struct cv_protocol *protocol;
    struct sim_rng rng;
    struct sim_rng
        later; /* for later additions, so that an old seed still gives the same network */
    FILE *out;
    int64_t nodes;
    int64_t delay_us; /* the longest delay of links */
    int64_t scale_us; /* about the time to detect a lost leader; faults last up to a few of these */
};

static int64_t draw(struct swarm *s, int64_t low, int64_t high)
{
    return sim_rng_range(&s->rng, low, high);
}

static bool coin(struct swarm *s)
{
    return draw(s, 0, 1) == 1;
}

static int64_t one_of(struct swarm *s, const int64_t *value, uint32_t count)
{
    return value[draw(s, 0, count - 1)];
}

/* An option at the edge of what is valid, somewhat above it, or left to its default. */
static int64_t draw_edge(struct swarm *s, const char *name, int64_t least_us, int64_t default_us)
{
    const int64_t kind = draw(s, 0, 2);
    if (kind == 2) {
        return default_us;
    }
    const int64_t value_us = kind == 0 ? least_us : draw(s, least_us, 4 * least_us);
    (void)fprintf(s->out, " %s=%lldus", name, (long long)value_us);
    return value_us;
}

/* ---- The options of each protocol ------------------------------------------------------------ */

static void draw_classic(struct swarm *s)
{
    static const int64_t deltas_us[] = {1000, 2000, 10000, 30000};
    const int64_t delta_us = one_of(s, deltas_us, COUNT_OF(deltas_us));
    const int64_t heartbeat_us = draw(s, 2, 6) * delta_us;
    (void)fprintf(s->out, " delta=%lldus heartbeat=%lldus detector=%s", (long long)delta_us,
                  (long long)heartbeat_us, draw(s, 0, 3) == 0 ? "phi" : "fixed");
    s->scale_us = draw_edge(s, "timeout", 2 * heartbeat_us + delta_us, 3 * heartbeat_us + delta_us);
    s->delay_us = delta_us;
}

static void draw_preference(struct swarm *s)
{
    const int64_t first = draw(s, 1, s->nodes);
    (void)fprintf(s->out, " oracle=preference preference=%lld", (long long)first);
    for (cv_id id = (cv_id)s->nodes; id >= 1; id--) {
        if (id != first && coin(s)) {
            (void)fprintf(s->out, ",%u", id);
        }
    }
}

static void draw_pole(struct swarm *s)
{
    static const int64_t deltas_us[] = {500, 1000, 2000, 10000};
    static const char *const oracles[] = {
        "history", "rotating", "consensus", "worst-case", "latency/1ms,history",
        "request", "reported"};
    const int64_t delta_us = one_of(s, deltas_us, COUNT_OF(deltas_us));
    const int64_t sigma_us = draw(s, 1, 4) * delta_us / 2;
    const int64_t beat_us = draw(s, 2, 6) * delta_us;
    (void)fprintf(s->out, " delta=%lldus sigma=%lldus heartbeat=%lldus", (long long)delta_us,
                  (long long)sigma_us, (long long)beat_us);
    const int64_t round_us =
        draw_edge(s, "round", 3 * delta_us + sigma_us, 3 * delta_us + 2 * sigma_us);
    const int64_t timeout_us = draw_edge(s, "timeout", 2 * beat_us + delta_us + sigma_us,
                                         3 * beat_us + delta_us + sigma_us);
    /* The least value, plus a margin for the drift. */
    const int64_t least_us = (2 * beat_us + 2 * delta_us + sigma_us) * 26 / 25 + 1;
    s->scale_us = draw_edge(s, "lease", least_us, timeout_us + round_us);
    const int64_t oracle = draw(s, 0, COUNT_OF(oracles));
    if (oracle == COUNT_OF(oracles)) {
        draw_preference(s);
    } else {
        (void)fprintf(s->out, " oracle=%s probe=%lldus", oracles[oracle],
                      (long long)(10 * beat_us));
    }
    if (draw(s, 0, 5) == 0) { /* a leader hands over to a process that is better for long enough */
        (void)fprintf(s->out, " resign-margin=%lld resign-hold=%lldus", (long long)draw(s, 1, 40),
                      (long long)draw(s, 0, 4 * s->scale_us));
    }
    s->delay_us = delta_us;
}

static void draw_local(struct swarm *s)
{
    static const int64_t deltas_us[] = {1000, 5000, 5000, 20000};
    const int64_t delta_us = one_of(s, deltas_us, COUNT_OF(deltas_us));
    const int64_t sigma_us = draw(s, 1, 4) * delta_us / 2;
    const int64_t ep_us = draw(s, 1, 4) * delta_us + delta_us / 2;
    (void)fprintf(s->out, " delta=%lldus sigma=%lldus ep=%lldus majority=%s succession=%s",
                  (long long)delta_us, (long long)sigma_us, (long long)ep_us,
                  coin(s) ? "yes" : "no", draw(s, 0, 3) == 0 ? "no" : "yes");
    const bool has_tree = draw(s, 0, 3) == 0;
    if (has_tree) {
        (void)fprintf(s->out, " collate=%lld", (long long)draw(s, 2, 4));
    }
    const int64_t asking_us = (has_tree ? 2 : 1) * (ep_us + sigma_us);
    const int64_t least_us = (asking_us + 2 * delta_us) * 26 / 25 + 1;
    const int64_t expires_us = draw_edge(s, "expires", least_us, 4 * least_us);
    s->scale_us = expires_us + 2 * ep_us + 2 * delta_us + sigma_us;
    const bool rotates = draw(s, 0, 5) == 0;
    if (rotates) {
        (void)fprintf(s->out, " rotate=%lldus", (long long)draw(s, s->scale_us, 8 * s->scale_us));
    }
    if (sim_rng_range(&s->later, 0, 1) == 1) {
        (void)fprintf(s->out, " tokens=%lld", (long long)sim_rng_range(&s->later, 0, 6));
        (void)fprintf(s->out, " calm=%lld", (long long)sim_rng_range(&s->later, 1, 5));
        (void)fputs(sim_rng_range(&s->later, 0, 1) == 1 && !rotates ? " yields=no" : "", s->out);
    }
    s->delay_us = delta_us * 2 / 5; /* so that round trips are fast */
}

static void draw_anon(struct swarm *s)
{
    static const int64_t etas_us[] = {5000, 20000, 50000};
    const int64_t eta_us = one_of(s, etas_us, COUNT_OF(etas_us));
    (void)fprintf(s->out, " eta=%lldus R=%lld persist=%s", (long long)eta_us,
                  (long long)draw(s, 1, 8), coin(s) ? "yes" : "no");
    s->scale_us = draw_edge(s, "eps", 2 * eta_us * 6 / 5, 3 * eta_us);
    s->delay_us = s->scale_us / 2 - eta_us - s->scale_us / 50;
}

static void draw_lease(struct swarm *s)
{
    static const int64_t leases_us[] = {60000, 200000, 300000, 1000000};
    s->scale_us = one_of(s, leases_us, COUNT_OF(leases_us));
    (void)fprintf(s->out, " lease=%lldus", (long long)s->scale_us);
    if (coin(s)) {
        (void)fprintf(s->out, " poll=%lldus", (long long)draw(s, s->scale_us / 5, s->scale_us));
    }
    if (coin(s)) {
        (void)fprintf(s->out, " rest=%lldus", (long long)draw(s, 0, s->scale_us));
    }
    s->delay_us = s->scale_us / 10;
}

static void draw_options(struct swarm *s)
{
    static const struct {
        const char *name;
        void (*draw)(struct swarm *s);
    } tables[] = {
        {"pole", draw_pole}, {"local", draw_local}, {"anon", draw_anon}, {"lease", draw_lease}};
    for (uint32_t i = 0; i < COUNT_OF(tables); i++) {
        if (strcmp(s->protocol->name, tables[i].name) == 0) {
            tables[i].draw(s);
            return;
        }
    }
    draw_classic(s); /* the five classical protocols share their options */
}

/* ---- Links, clocks, disks and faults --------------------------------------------------------- */

static void draw_clocks(struct swarm *s)
{
    static const int64_t drifts_ppm[] = {0, 100, 100, 1000};
    const int64_t ppm = one_of(s, drifts_ppm, COUNT_OF(drifts_ppm));
    if (ppm > 0) {
        (void)fprintf(s->out, "drift-bound %lldppm\nclock * drift random %lldppm\n", (long long)ppm,
                      (long long)ppm);
        if (coin(s)) {
            (void)fprintf(s->out, "clock %lld drift %lldppm\n", (long long)draw(s, 1, s->nodes),
                          (long long)(coin(s) ? ppm : -ppm));
        }
    }
}

static void draw_ways(struct swarm *s)
{
    const int64_t delay_us = cv__max64(1, draw(s, s->delay_us / 20, s->delay_us * 6 / 10));
    if (s->protocol->message_count > 0) {
        (void)fprintf(s->out, "link * delay %lldus jitter %lld%%\n", (long long)delay_us,
                      (long long)draw(s, 0, 60));
        if (draw(s, 0, 2) == 0) {
            (void)fprintf(s->out, "disk * delay %lldus\n", (long long)draw(s, 1, delay_us / 4 + 1));
        }
    }
    if (s->protocol->sequence_ns != NULL) {
        (void)fprintf(s->out, "sequencer delay %lldus serial %lldus\n",
                      (long long)draw(s, 100, s->scale_us / 10),
                      (long long)draw(s, 0, s->scale_us / 100));
    }
    if (s->protocol->store_ns != NULL) {
        (void)fprintf(s->out, "store delay %lldus jitter %lldus\n", (long long)delay_us,
                      (long long)draw(s, 0, delay_us));
    }
}

static const char *const fault_names[] = {
#define SIM_FAULT_TEXT(name, text) text,
    SIM_FAULT_MAP(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
};

/* Does this kind of fault apply to the protocol? */
static bool is_possible(const struct swarm *s, uint32_t fault)
{
    switch ((enum sim_fault)fault) {
    case SIM_FAULT_SEQUENCER:
        return s->protocol->sequence_ns != NULL;
    case SIM_FAULT_STORE:
        return s->protocol->store_ns != NULL;
    case SIM_FAULT_PARTITION:
    case SIM_FAULT_LINK:
    case SIM_FAULT_ONEWAY:
    case SIM_FAULT_LOSS:
    case SIM_FAULT_SLOW:
    case SIM_FAULT_DUPLICATE:
    case SIM_FAULT_REORDER:
        return s->protocol->message_count > 0;
    default:
        return true;
    }
}

/* Each kind exists or not; at least one does. */
static uint32_t draw_kinds(struct swarm *s)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        kinds |= is_possible(s, i) && coin(s) ? BIT(i) : 0;
    }
    return kinds != 0 ? kinds : BIT(SIM_FAULT_CRASH);
}

/* Returns when the last fault has ended. */
static int64_t draw_faults(struct swarm *s)
{
    const uint32_t kinds = draw_kinds(s);
    const int64_t longest_us = cv__max64(2000, draw(s, 1, 8) * s->scale_us);
    const int64_t until_us = draw(s, 20, 60) * s->scale_us;
    const int64_t gap_us = cv__max64(1000, draw(s, 1, 10) * s->scale_us / 2);
    if ((kinds & BIT(SIM_FAULT_JOIN)) != 0 && s->nodes > 2) {
        (void)fprintf(s->out, "down 1..%lld\n", (long long)draw(s, 1, s->nodes / 2));
    }
    (void)fprintf(s->out, "random faults rate %.3f/s kinds ", 1e6 / (double)gap_us);
    const char *comma = "";
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        if ((kinds & BIT(i)) != 0) {
            (void)fprintf(s->out, "%s%s", comma, fault_names[i]);
            comma = ",";
        }
    }
    (void)fprintf(s->out, " until %lldus lasting %lldus..%lldus\n", (long long)until_us,
                  (long long)cv__max64(1000, longest_us / draw(s, 2, 20)), (long long)longest_us);
    return until_us + longest_us;
}

/* Reports of applications, which change the scores of `pole`. */
static void draw_reports(struct swarm *s, int64_t until_us)
{
    static const char *const inputs[] = {"history-length", "request-rate", "capacity", "load",
                                         "score"};
    const int64_t count = draw(s, 0, 3) == 0 ? draw(s, 1, 12) : 0;
    for (int64_t i = 0; i < count; i++) {
        (void)fprintf(s->out, "at %lldus report %lld %s %lld\n", (long long)draw(s, 0, until_us),
                      (long long)draw(s, 1, s->nodes), inputs[draw(s, 0, COUNT_OF(inputs) - 1)],
                      (long long)draw(s, 0, 1000));
    }
}

/* Links that go down for good after all other faults, in one direction or both. Returns how much
 * longer it takes until the leaders of such a graph lead. */
static int64_t draw_graph(struct swarm *s, int64_t at_us, int64_t graph_us)
{
    if (graph_us == 0 || draw(s, 0, 3) != 0) {
        return 0;
    }
    const int64_t down_pct = draw(s, 5, 60);
    const int64_t one_way_pct = draw(s, 0, 1) * 30;
    for (cv_id a = 1; a <= s->nodes; a++) {
        for (cv_id b = a + 1; b <= s->nodes; b++) {
            if (draw(s, 1, 100) <= down_pct) {
                const char *way = draw(s, 1, 100) > one_way_pct ? "-" : ">";
                (void)fprintf(s->out, "at %lldus link %u%s%u down\n", (long long)at_us, a, way, b);
            }
        }
    }
    return graph_us;
}

/* A scenario that lasts `quiet_us` longer than its faults, and `graph_us` longer still if links
 * are left down. */
static char *compose(const struct cv_protocol *protocol, uint64_t seed, uint64_t attempt,
                     int64_t quiet_us, int64_t graph_us)
{
    struct swarm s = {.protocol = protocol};
    char *text = NULL;
    size_t length = 0;
    sim_rng_init(&s.rng, seed, STREAM_SWARM + attempt);
    sim_rng_init(&s.later, seed, STREAM_LATER + attempt);
    s.out = open_memstream(&text, &length);
    if (s.out == NULL) {
        return cv__copy_text("", 0);
    }
    s.nodes = draw(&s, 2, 9);
    (void)fprintf(s.out, "protocol %s", protocol->name);
    draw_options(&s);
    (void)fprintf(s.out, "\nnodes %lld\n", (long long)s.nodes);
    if (coin(&s)) {
        (void)fprintf(s.out, "start within %lldus\n", (long long)draw(&s, 1, 4 * s.scale_us));
    }
    draw_clocks(&s);
    draw_ways(&s);
    const int64_t faults_us = draw_faults(&s);
    draw_reports(&s, faults_us);
    const int64_t end_us = faults_us + draw_graph(&s, faults_us, graph_us);
    (void)fprintf(s.out, "seed %llu\nrun %lldus\n", (unsigned long long)seed,
                  (long long)(end_us + quiet_us));
    (void)fclose(s.out);
    return text;
}

/* Options that break an inequality of the protocol are drawn again; the settling time is known only
 * when they are valid. */
char *sim_swarm_text(const struct cv_protocol *protocol, uint64_t seed)
{
    for (uint64_t attempt = 0; attempt < TRIES_MAX; attempt++) {
        struct sim_scenario *scenario = NULL;
        struct cv_errtext why;
        char *text = compose(protocol, seed, attempt, /* quiet_us= */ 1, /* graph_us= */ 0);
        const int error = sim_scenario_parse("swarm", text, strlen(text), &scenario, &why);
        free(text);
        if (error == CV_OK) {
            const int64_t settle_us = protocol->settle_ns(&scenario->config) / 1000;
            const int64_t graph_us =
                protocol->graph_ns != NULL ? protocol->graph_ns(&scenario->config) / 1000 : 0;
            sim_scenario_free(scenario);
            return compose(protocol, seed, attempt, 2 * settle_us + 1000, graph_us);
        }
    }
    CV_ASSERT(!"options are valid more often than that"); /* tests/unit/test_swarm.c */
    return NULL;
}

struct sim_scenario *sim_swarm_scenario(const struct cv_protocol *protocol, uint64_t seed)
{
    struct sim_scenario *scenario = NULL;
    struct cv_errtext why;
    char *text = sim_swarm_text(protocol, seed);
    const int error = sim_scenario_parse("swarm", text, strlen(text), &scenario, &why);
    CV_ASSERT(error == CV_OK); /* it was read before, with a shorter run */
    free(text);
    return scenario;
}
