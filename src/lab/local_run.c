/* src/lab/local_run.c - the worlds that `conclave lab local` measures; see the header.
 *
 * A world is run from one event to the next and inspected in between: a renewal is not taken from
 * the trace, but seen as a later end of the leadership. */
#include "lab/local_run.h"

#include "protocols/local_config.h"
#include "sim/world.h"

#include <string.h>

#define ROOT 1u /* the lowest id leads */

static double ms(int64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

/* True: the events of one more instant were run. */
static bool run_next(struct sim_world *w, int64_t until_ns)
{
    if (w->is_over || sim_queue_next_ns(&w->queue) > until_ns) {
        return false;
    }
    sim_world_run(w, sim_queue_next_ns(&w->queue));
    return true;
}

static bool is_type(const struct sim_world *w, const struct cv_record *record, const char *name)
{
    return strcmp(w->protocol->messages[record->what].name, name) == 0;
}

/* ---- The stable state ------------------------------------------------------------------------ */

struct counter {
    struct sim_world *world;
    struct cv_lab_stable *stable;
    uint32_t round_count;
    bool is_on, is_done;
    int64_t broadcast_ns; /* the latest */
};

/* Counts this number of rounds, from one broadcast on; the last ends with the next broadcast. */
static void count_record(void *context, const struct cv_record *record)
{
    struct counter *c = context;
    struct cv_lab_stable *s = c->stable;
    if (!c->is_on || c->is_done) {
        return;
    }
    if (record->kind == CV_RECORD_DELIVER) {
        s->root_received += record->node == ROOT && s->broadcasts > 0;
        return;
    }
    if (record->kind != CV_RECORD_SEND) {
        return;
    }
    if (is_type(c->world, record, "ELECTION") && record->peer == ROOT) {
        if (s->broadcasts == 0 || record->at_ns != c->broadcast_ns) {
            c->is_done = s->broadcasts == c->round_count;
            s->broadcasts += !c->is_done;
            c->broadcast_ns = record->at_ns;
        }
        s->election_copies += !c->is_done;
    } else if (s->broadcasts > 0) {
        s->replies += is_type(c->world, record, "REPLY");
        s->collated += is_type(c->world, record, "COLLATED");
        s->others += !is_type(c->world, record, "REPLY") && !is_type(c->world, record, "COLLATED");
    }
}

/* When the request was sent by which the leader now leads. */
static int64_t request_sent_ns(const struct sim_world *w)
{
    const struct sim_clock *clock = &w->node[ROOT - 1].clock;
    const int64_t end_ns = sim_clock_local(clock, w->properties.node[ROOT - 1].held_until_ns);
    return sim_clock_real(clock, end_ns - cv__local_lead_ns(&w->scenario->config));
}

static double scale_of(const struct cv_lab_rounds *r)
{
    const bool is_scaled = r->is_scaled && r->node_count > CV_LAB_SCALED_FROM;
    return is_scaled ? (double)r->node_count / CV_LAB_SCALED_FROM : 1;
}

double cv__lab_delta_ms(const struct cv_lab_rounds *r)
{
    return CV_LAB_DELTA_MS * scale_of(r);
}

static struct sim_scenario *stable_scenario(const struct cv_lab_rounds *r, int64_t *ret_from_ns)
{
    const double ep_ms = CV_LAB_EP_MS * scale_of(r);
    char constants[160];
    (void)snprintf(constants, sizeof constants, CV_LAB_PAPER);
    if (scale_of(r) > 1) { /* `expires` follows from them */
        (void)snprintf(constants, sizeof constants, "delta=%.3fms sigma=30ms ep=%.3fms",
                       cv__lab_delta_ms(r), ep_ms);
    }
    *ret_from_ns = (int64_t)(10 * ep_ms * NS_PER_MS);
    return cv__lab_scenario("protocol local %s collate=%u\nnodes %u\n" CV_LAB_LINK
                            "at %.3fms cost " CV_LAB_COST "\nrun %.3fms\n",
                            constants, r->collate, r->node_count, 6 * ep_ms,
                            (20 + 2.0 * r->round_count) * ep_ms);
}

void cv__lab_measure_stable(const struct cv_lab_rounds *rounds, struct cv_lab_stable *ret_stable)
{
    int64_t from_ns;
    struct sim_scenario *scenario = stable_scenario(rounds, &from_ns);
    struct counter counter = {.stable = ret_stable, .round_count = rounds->round_count};
    const struct sim_world_options options = {.observe = count_record, .context = &counter};
    struct sim_world *w = cv__lab_world(scenario, scenario->seed, &options);
    counter.world = w;
    memset(ret_stable, 0, sizeof *ret_stable);
    sim_world_run(w, from_ns);

    const struct cv_property_node *root = &w->properties.node[ROOT - 1];
    const uint64_t token = root->held_token;
    int64_t held_until_ns = root->held_until_ns;
    counter.is_on = true;
    while (!counter.is_done && sim_world_holds(w, ROOT) && run_next(w, scenario->run_ns - 1)) {
        if (root->holds && root->held_until_ns != held_until_ns) {
            held_until_ns = root->held_until_ns;
            /* Skips the end of a round that began before. A single node sends no broadcast. */
            if (ret_stable->broadcasts > 0 || w->node_count == 1) {
                cv__samples_add(&ret_stable->election_ms, ms(w->now_ns - request_sent_ns(w)));
            }
        }
        if (w->node_count == 1) {
            counter.is_done = ret_stable->election_ms.count >= rounds->round_count;
        }
    }
    ret_stable->is_kept = sim_world_holds(w, ROOT) && root->held_token == token &&
                          ret_stable->election_ms.count >= rounds->round_count;
    ret_stable->is_sound = cv__lab_is_sound(w);
    sim_world_free(w);
    sim_scenario_free(scenario);
}

void cv__lab_stable_fini(struct cv_lab_stable *stable)
{
    cv__samples_fini(&stable->election_ms);
}

/* ---- The loss of a leader -------------------------------------------------------------------- */

struct orphans {
    struct sim_world *world;
    cv_id first, last; /* the nodes that lost the old leader */
    int64_t fault_ns, excluded_ns;
    uint32_t attempts[CV_LAB_LOSS_NODES];
    int64_t asked_ns[CV_LAB_LOSS_NODES];
};

static void watch_orphans(void *context, const struct cv_record *record)
{
    struct orphans *o = context;
    const cv_id from = record->peer;
    if (record->kind != CV_RECORD_SEND || record->at_ns < o->fault_ns || from < o->first ||
        from > o->last || !is_type(o->world, record, "ELECTION")) {
        return;
    }
    if (o->excluded_ns < 0) {
        o->excluded_ns = record->at_ns;
    }
    if (o->asked_ns[from - 1] != record->at_ns) { /* counted once for all receivers */
        o->asked_ns[from - 1] = record->at_ns;
        o->attempts[from - 1]++;
    }
}

static const char *fault_text(enum cv_lab_fault fault, int64_t at_us, char text[128])
{
    const long long us = at_us;
    const long long told_us = at_us + 1000; /* one transmission later */
    switch (fault) {
    case CV_LAB_SPLIT:
        (void)snprintf(text, 128, "at %lldus partition 1..4 | 5..8\n", us);
        break;
    case CV_LAB_CRASH:
        (void)snprintf(text, 128, "at %lldus crash 1\n", us);
        break;
    case CV_LAB_HINT:
        (void)snprintf(text, 128, "at %lldus crash 1\nat %lldus peer-down 1 at 2..8\n", us,
                       told_us);
        break;
    case CV_LAB_CERTAIN:
        (void)snprintf(text, 128, "at %lldus crash 1\nat %lldus peer-down 1 certain at 2..8\n", us,
                       told_us);
        break;
    }
    return text;
}

static cv_id holder_among(const struct sim_world *w, cv_id first, cv_id last)
{
    for (cv_id id = first; id <= last; id++) {
        if (sim_world_holds(w, id)) {
            return id;
        }
    }
    return CV_ID_NONE;
}

static bool all_follow(const struct sim_world *w, cv_id first, cv_id last, cv_id leader)
{
    for (cv_id id = first; id <= last; id++) {
        if (w->properties.node[id - 1].leader != leader) {
            return false;
        }
    }
    return true;
}

struct cv_lab_recovery cv__lab_measure_loss(const struct cv_lab_loss *loss, uint64_t seed)
{
    /* Multiples of the golden ratio are spread evenly over the election period. */
    const uint64_t turn = seed * UINT64_C(0x9e3779b97f4a7c15);
    const int64_t phase_us = (int64_t)((turn >> 32) * (uint64_t)(CV_LAB_EP_MS * 1000) >> 32);
    const int64_t fault_us = 2000000 + phase_us;
    char text[128];
    struct sim_scenario *scenario =
        cv__lab_scenario("protocol local " CV_LAB_PAPER " %s\nnodes %u\n" CV_LAB_LINK
                         "cost " CV_LAB_COST "\nclock * drift random 100ppm\n%srun 10s\n",
                         loss->options, CV_LAB_LOSS_NODES, fault_text(loss->fault, fault_us, text));
    struct orphans o = {
        .first = loss->fault == CV_LAB_SPLIT ? 5 : 2,
        .last = CV_LAB_LOSS_NODES,
        .fault_ns = fault_us * NS_PER_US,
        .excluded_ns = -1,
    };
    const struct sim_world_options options = {.observe = watch_orphans, .context = &o};
    struct sim_world *w = cv__lab_world(scenario, seed, &options);
    o.world = w;
    sim_world_run(w, o.fault_ns);

    struct cv_lab_recovery r = {.elected_ms = -1, .followed_ms = -1};
    const int64_t end_ns = o.fault_ns + NS_PER_S;
    cv_id leader = CV_ID_NONE;
    int64_t gap_ns = 0;
    for (int64_t at_ns = w->now_ns; at_ns < end_ns;) {
        const bool has_leader = holder_among(w, 1, o.first - 1) != CV_ID_NONE;
        if (!run_next(w, end_ns)) {
            break;
        }
        gap_ns += has_leader ? 0 : w->now_ns - at_ns;
        at_ns = w->now_ns;
        if (leader == CV_ID_NONE) {
            leader = holder_among(w, o.first, o.last);
            if (leader != CV_ID_NONE) {
                r.elected_ms = ms(at_ns - o.fault_ns);
                r.attempts = o.attempts[leader - 1];
            }
        }
        if (leader != CV_ID_NONE && r.followed_ms < 0 && all_follow(w, o.first, o.last, leader)) {
            r.followed_ms = ms(at_ns - o.fault_ns);
        }
    }
    r.excluded_ms = o.excluded_ns < 0 ? -1 : ms(o.excluded_ns - o.fault_ns);
    r.gap_ms = ms(gap_ns);
    r.is_sound = cv__lab_is_sound(w);
    sim_world_free(w);
    sim_scenario_free(scenario);
    return r;
}
