/* tests/property/prop_local_graphs.c - [Fetzer99, sec. X, fig. 24]: the leaders of any connectivity
 * graph.
 *
 * Random graphs of 2 to 14 processes: each link is up or down, both ways, with a constant delay of
 * its own. Half of the graphs exist from the start; the others replace another random graph after
 * 0.6 s. The algorithm of fig. 24 is the oracle: after kappa the smallest process of each maximum
 * connected set leads; after a few times kappa exactly the leaders of the figure lead, at each
 * sampled instant.
 *
 * Fig. 24 takes the processes in the order of ids. A process leads if neither it nor any process
 * connected to it is marked; then all of them are marked: they are locked to it. A process that is
 * not marked but has a marked neighbour cannot lead. The figure does not say that it must not keep
 * others from leading either, by asking in vain. (The smallest case is the chain 1-2-3-4: 3 cannot
 * lead, and 4 must not wait for it.) So it stands aside and supports those after it. */
#include "core/nodeset.h"
#include "properties/graph.h"
#include "sim/world.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define GRAPHS 20000u /* `make test` runs a quarter of them: 5,000 */
#define NODES_MAX 14u
#define CHANGE_MS 600   /* when the second kind of graph replaces the first */
#define WATCHED_MS 1600 /* more than eight times kappa */

struct graph {
    uint32_t nodes;
    uint32_t near[NODES_MAX + 1]; /* bit i: process i; a process is near itself */
};

/* ---- The oracle ------------------------------------------------------------------------------ */

/* Fig. 24: the leaders as bits. */
static uint32_t predicted_leaders(const struct graph *g)
{
    uint32_t leaders = 0;
    uint32_t marked = 0;
    for (cv_id l = 1; l <= g->nodes; l++) {
        if ((g->near[l] & marked) == 0) {
            leaders |= BIT(l);
            marked |= g->near[l];
        }
    }
    return leaders;
}

/* The same by the function with which the simulator judges. */
static uint32_t judged_leaders(const struct graph *g)
{
    uint64_t graph[NODES_MAX];
    uint64_t candidates[1] = {0};
    uint64_t leaders[1];
    for (cv_id id = 1; id <= g->nodes; id++) {
        graph[id - 1] = g->near[id] >> 1;
        cv__set_add(candidates, id);
    }
    cv__graph_leaders(graph, candidates, g->nodes, leaders);
    return (uint32_t)leaders[0] << 1;
}

/* The smallest process of each maximum connected set. */
static uint32_t smallest_of(const struct graph *g)
{
    uint32_t smallest = 0;
    uint32_t seen = 0;
    for (cv_id first = 1; first <= g->nodes; first++) {
        if ((seen & BIT(first)) != 0) {
            continue;
        }
        smallest |= BIT(first);
        uint32_t set = BIT(first);
        uint32_t before;
        do {
            before = set;
            for (cv_id id = 1; id <= g->nodes; id++) {
                set |= (set & BIT(id)) != 0 ? g->near[id] : 0;
            }
        } while (set != before);
        seen |= set;
    }
    return smallest;
}

/* ---- Graphs and their worlds ----------------------------------------------------------------- */

static void draw_graph(struct graph *g, uint32_t nodes, uint64_t *seed)
{
    const uint32_t up_pct = 10 + test_random_below(seed, 86); /* from sparse to nearly complete */
    memset(g, 0, sizeof *g);
    g->nodes = nodes;
    for (cv_id a = 1; a <= nodes; a++) {
        g->near[a] |= BIT(a);
        for (cv_id b = a + 1; b <= nodes; b++) {
            if (test_random_below(seed, 100) < up_pct) {
                g->near[a] |= BIT(b);
                g->near[b] |= BIT(a);
            }
        }
    }
}

static void print_cuts(const struct graph *g, const char *when, FILE *out)
{
    for (cv_id a = 1; a <= g->nodes; a++) {
        for (cv_id b = a + 1; b <= g->nodes; b++) {
            if ((g->near[a] & BIT(b)) == 0) {
                (void)fprintf(out, "%slink %u-%u down\n", when, a, b);
            }
        }
    }
}

/* The scenario of a seed, and the graph that it ends with. */
static struct sim_scenario *draw_scenario(uint64_t seed, struct graph *ret_graph, char **ret_text)
{
    uint64_t random = seed;
    const uint32_t nodes = 2 + test_random_below(&random, NODES_MAX - 1);
    size_t length = 0;
    FILE *out = open_memstream(ret_text, &length);
    assert_non_null(out);
    (void)fprintf(out, "protocol local\nnodes %u\n", nodes);
    for (cv_id a = 1; a <= nodes; a++) {
        for (cv_id b = a + 1; b <= nodes; b++) {
            (void)fprintf(out, "link %u-%u delay %uus\n", a, b,
                          100 + test_random_below(&random, 1900));
        }
    }
    draw_graph(ret_graph, nodes, &random);
    print_cuts(ret_graph, "", out);
    if (seed % 2 == 1) {
        (void)fprintf(out, "at %dms heal\n", CHANGE_MS);
        draw_graph(ret_graph, nodes, &random);
        char when[20];
        (void)snprintf(when, sizeof when, "at %dms ", CHANGE_MS);
        print_cuts(ret_graph, when, out);
    }
    (void)fprintf(out, "run %dms\n", (seed % 2 == 1 ? CHANGE_MS : 0) + WATCHED_MS);
    assert_int_equal(fclose(out), 0);
    struct sim_scenario *scenario = NULL;
    struct cv_errtext why = {""};
    if (sim_scenario_parse("graph", *ret_text, length, &scenario, &why) != CV_OK) {
        fail_msg("%s", why.text);
    }
    return scenario;
}

static uint32_t holders(const struct sim_world *w)
{
    uint32_t set = 0;
    for (cv_id id = 1; id <= w->node_count; id++) {
        set |= sim_world_holds(w, id) ? BIT(id) : 0;
    }
    return set;
}

static void wrong(uint64_t seed, const char *text, const char *what, uint32_t found,
                  uint32_t predicted, int64_t at_ns)
{
    fail_msg("graph of seed %llu at %.3f s: %s: %#x, predicted %#x (bit i: process i)\n%s",
             (unsigned long long)seed, (double)at_ns / 1e9, what, found, predicted, text);
}

struct tally {
    uint32_t graphs, with_aside, judged;
    uint64_t samples;
};

/* Is a process neither a leader nor connected to one? It stands aside, and follows nobody. */
static bool has_aside(const struct graph *g)
{
    uint32_t marked = 0;
    for (cv_id id = 1; id <= g->nodes; id++) {
        marked |= (predicted_leaders(g) & BIT(id)) != 0 ? g->near[id] : 0;
    }
    return marked != (BIT(g->nodes + 1) - 1 - BIT(0));
}

static void check_instant(uint64_t seed, const char *text, const struct graph *g, int64_t at_ns,
                          int64_t age_ns, int64_t kappa_ns, uint32_t leading)
{
    const uint32_t predicted = predicted_leaders(g);
    if (age_ns >= kappa_ns && (smallest_of(g) & ~leading) != 0) {
        wrong(seed, text, "the smallest do not lead within kappa", leading, predicted, at_ns);
    }
    /* The next smallest have to wait for those that wait for the smallest, and so on. */
    if (age_ns >= 5 * kappa_ns && leading != predicted) {
        wrong(seed, text, "leading", leading, predicted, at_ns);
    }
}

static void check_graph(uint64_t seed, struct tally *tally)
{
    struct graph g;
    char *text = NULL;
    struct sim_scenario *scenario = draw_scenario(seed, &g, &text);
    const int64_t kappa_ns = scenario->protocol->kappa_ns(&scenario->config);
    const int64_t begin_ns = seed % 2 == 1 ? CHANGE_MS * NS_PER_MS : 0;
    tally->graphs++;
    tally->with_aside += has_aside(&g);
    assert_true((smallest_of(&g) & ~predicted_leaders(&g)) == 0);
    assert_int_equal(judged_leaders(&g), predicted_leaders(&g));

    struct sim_world *w = sim_world_new(scenario, seed, &(struct sim_world_options){0});
    const int64_t step_ns = kappa_ns / 40;
    for (int64_t at_ns = begin_ns + step_ns; at_ns < scenario->run_ns; at_ns += step_ns) {
        sim_world_run(w, at_ns);
        assert_false(w->is_over);
        tally->samples++;
        check_instant(seed, text, &g, at_ns, at_ns - begin_ns, kappa_ns, holders(w));
    }
    sim_world_run(w, scenario->run_ns);
    tally->judged += w->properties.judged[CV_PROPERTY_RIGHTFUL_LEADER] > 0;
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const struct cv_broken *broken = &w->properties.broken[i];
        if (broken->is_broken && (scenario->promises & BIT(i)) != 0) {
            fail_msg("graph of seed %llu: %s: %s\n%s", (unsigned long long)seed,
                     cv_property_name((enum cv_property)i), broken->detail, text);
        }
    }
    sim_world_free(w);
    sim_scenario_free(scenario);
    free(text);
}

static void leaders_are_exactly_those_of_fig_24(void **unused)
{
    (void)unused;
    struct tally tally = {0};
    const uint32_t graphs = test_scale(GRAPHS);
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        check_graph(seed, &tally);
    }
    print_message("# %u graphs, in %u of them a process stands aside; %llu instants\n",
                  tally.graphs, tally.with_aside, (unsigned long long)tally.samples);
    assert_int_equal(tally.judged, graphs); /* the simulator judged each graph, too */
    /* Processes that stand aside were tested, too. */
    assert_true(graphs < 100 || tally.with_aside > graphs / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaders_are_exactly_those_of_fig_24),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
