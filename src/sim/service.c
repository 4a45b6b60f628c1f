/* src/sim/service.c - a replicated service beside a world; see the header. */
#include "sim/service.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX
#define STREAM_CLIENTS 901u /* different from the streams of the world */
#define STREAM_LINKS 902u
#define TRIES_MAX 16u  /* after so many a connection is given up */
#define RATE_WEIGHT 32 /* a period moves the reported rate by 1/32 of the difference */

/* Invariant: synced_ns is NEVER unless a recovery of the present leader brings it up to date. */
struct server {
    uint64_t history;
    int64_t synced_ns;
    uint64_t arrived; /* requests in this period */
    double rate;      /* mean, per second; below 0: not known yet */
    int64_t told_rate;
    uint64_t told_history;
};

struct sim_service {
    struct sim_world *world;
    struct sim_service_options options;
    struct sim_rng client_rng, link_rng;
    uint32_t server_count, quorum, site_count;
    struct server *server;          /* by id - 1 */
    int64_t next_ns[SIM_SITES_MAX]; /* the next request of each site; NEVER: none */
    int64_t report_ns;              /* the next report */
    struct sim_request *request;    /* in flight or waiting */
    uint32_t request_count, request_capacity;
    struct sim_recovery *recovery;
    uint32_t recovery_count, recovery_capacity;
};

/* ---- Links ----------------------------------------------------------------------------------- */

/* The time in one direction; NEVER: there is no path. Connections are like TCP: a lost segment is
 * sent again after a round trip, and duplicates are dropped. */
static int64_t draw_way(struct sim_service *s, cv_id from, cv_id to)
{
    if (from == to) {
        return 0;
    }
    const struct sim_network *network = s->world->network;
    int64_t again_ns = 0;
    for (uint32_t i = 0; i < TRIES_MAX; i++) {
        int64_t delay_ns[2];
        const enum sim_fate fate = sim_network_send(network, &s->link_rng, from, to, delay_ns);
        if (fate == SIM_FATE_UNREACHABLE) {
            return NEVER;
        }
        if (fate != SIM_FATE_LOST) {
            return again_ns + delay_ns[0];
        }
        again_ns += sim_network_mean_ns(network, from, to) + sim_network_mean_ns(network, to, from);
    }
    return NEVER;
}

static int64_t later(int64_t at_ns, int64_t by_ns)
{
    return at_ns == NEVER || by_ns == NEVER ? NEVER : at_ns + by_ns;
}

static int64_t draw_round(struct sim_service *s, cv_id from, cv_id to)
{
    const int64_t there_ns = draw_way(s, from, to);
    return later(there_ns, draw_way(s, to, from));
}

static int64_t mean_rtt(const struct sim_service *s, cv_id a, cv_id b)
{
    return a == b ? 0
                  : sim_network_mean_ns(s->world->network, a, b) +
                        sim_network_mean_ns(s->world->network, b, a);
}

int64_t sim_service_transfer_ns(const struct sim_service_options *o, uint64_t bytes, int64_t rtt_ns)
{
    double bandwidth = (double)o->bandwidth_bytes;
    if (rtt_ns > 0) {
        bandwidth = fmin(bandwidth, (double)o->window_bytes * NS_PER_S / (double)rtt_ns);
    }
    return (int64_t)((double)bytes * NS_PER_S / bandwidth);
}

static int64_t draw_transfer(struct sim_service *s, cv_id from, cv_id to, uint64_t entries)
{
    const int64_t bytes_ns = sim_service_transfer_ns(
        &s->options, entries * (uint64_t)s->options.entry_bytes, mean_rtt(s, from, to));
    return later(draw_round(s, from, to), bytes_ns);
}

/* ---- Servers --------------------------------------------------------------------------------- */

static struct server *server_of(const struct sim_service *s, cv_id id)
{
    return &s->server[id - 1];
}

static bool is_up(const struct sim_service *s, cv_id id)
{
    const struct sim_node *n = &s->world->node[id - 1];
    return n->is_up && !n->is_paused;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The time by which a quorum has been reached. */
static int64_t quorum_ns(const struct sim_service *s, const int64_t *by_server)
{
    int64_t sorted[SIM_SERVERS_MAX];
    memcpy(sorted, by_server, s->server_count * sizeof *sorted);
    qsort(sorted, s->server_count, sizeof *sorted, compare);
    return sorted[s->quorum - 1];
}

/* The time from a leader's broadcast until a quorum of servers in sync has acknowledged. */
static int64_t draw_consensus(struct sim_service *s, cv_id leader)
{
    const uint64_t history = server_of(s, leader)->history;
    int64_t ack_ns[SIM_SERVERS_MAX];
    for (cv_id id = 1; id <= s->server_count; id++) {
        const bool acknowledges = is_up(s, id) && server_of(s, id)->history == history;
        ack_ns[id - 1] = acknowledges ? draw_round(s, leader, id) : NEVER;
    }
    return quorum_ns(s, ack_ns);
}

/* The server to fetch from: it has everything, as far as a quorum knows. */
static cv_id source_for(const struct sim_service *s, cv_id leader, const int64_t *answer_ns,
                        int64_t learned_ns, uint64_t longest)
{
    cv_id best = CV_ID_NONE;
    for (cv_id id = 1; id <= s->server_count; id++) {
        if (answer_ns[id - 1] > learned_ns || server_of(s, id)->history != longest) {
            continue;
        }
        if (best == CV_ID_NONE || s->options.fetch == SIM_FETCH_LARGEST_ID ||
            mean_rtt(s, leader, id) < mean_rtt(s, leader, best)) {
            best = id;
        }
    }
    CV_ASSERT(best != CV_ID_NONE);
    return best;
}

/* [sec. 2.3] From leading to serving. `ret_synced_ns`: when each server has everything. */
static int64_t draw_recovery(struct sim_service *s, cv_id leader, int64_t *ret_synced_ns,
                             uint64_t *ret_longest)
{
    int64_t answer_ns[SIM_SERVERS_MAX];
    for (cv_id id = 1; id <= s->server_count; id++) {
        answer_ns[id - 1] = is_up(s, id) ? draw_round(s, leader, id) : NEVER;
    }
    const int64_t learned_ns = quorum_ns(s, answer_ns);
    *ret_longest = server_of(s, leader)->history;
    if (learned_ns == NEVER) {
        return NEVER;
    }
    for (cv_id id = 1; id <= s->server_count; id++) {
        const uint64_t history = server_of(s, id)->history;
        *ret_longest =
            answer_ns[id - 1] <= learned_ns && history > *ret_longest ? history : *ret_longest;
    }
    const uint64_t missing = *ret_longest - server_of(s, leader)->history;
    int64_t ready_ns = learned_ns;
    if (missing > 0) {
        const cv_id source = source_for(s, leader, answer_ns, learned_ns, *ret_longest);
        ready_ns = later(ready_ns, draw_transfer(s, source, leader, missing));
    }
    for (cv_id id = 1; id <= s->server_count; id++) {
        const uint64_t history = server_of(s, id)->history;
        const uint64_t lacks = history < *ret_longest ? *ret_longest - history : 0;
        const int64_t from_ns = cv__max64(ready_ns, answer_ns[id - 1]);
        ret_synced_ns[id - 1] =
            id == leader
                ? ready_ns
                : later(from_ns, is_up(s, id) ? draw_transfer(s, leader, id, lacks) : NEVER);
    }
    return later(quorum_ns(s, ret_synced_ns), s->options.cost_ns);
}

int64_t sim_service_draw_recovery(struct sim_service *s, cv_id leader)
{
    int64_t synced_ns[SIM_SERVERS_MAX];
    uint64_t longest;
    return draw_recovery(s, leader, synced_ns, &longest);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static uint32_t site_of(const struct sim_service *s, cv_id id)
{
    return s->world->scenario->site_of[id - 1];
}

/* A server of the site, which stands for the place of its clients. */
static cv_id home_of(const struct sim_service *s, uint32_t site)
{
    for (cv_id id = 1; id <= s->server_count; id++) {
        if (site_of(s, id) == site) {
            return id;
        }
    }
    return CV_ID_NONE;
}

/* [sec. 4.1] A client's server is in its site, any of them; if none is up, the nearest one. */
static cv_id choose_server(struct sim_service *s, uint32_t site)
{
    uint32_t near_count = 0;
    cv_id nearest = CV_ID_NONE;
    const cv_id home = home_of(s, site);
    for (cv_id id = 1; id <= s->server_count; id++) {
        if (is_up(s, id)) {
            near_count += site_of(s, id) == site;
            if (nearest == CV_ID_NONE || mean_rtt(s, home, id) < mean_rtt(s, home, nearest)) {
                nearest = id;
            }
        }
    }
    if (near_count == 0) {
        return nearest;
    }
    int64_t skip = sim_rng_range(&s->link_rng, 0, near_count - 1);
    for (cv_id id = 1; id <= s->server_count; id++) {
        if (is_up(s, id) && site_of(s, id) == site && skip-- == 0) {
            return id;
        }
    }
    CV_ASSERT(!"the number is below the count of servers");
    return CV_ID_NONE;
}

/* From a client to its server and back: 0, unless the servers of its site are down. */
static int64_t draw_access(struct sim_service *s, uint32_t site, cv_id server)
{
    return site_of(s, server) == site ? 0 : draw_round(s, home_of(s, site), server);
}

int64_t sim_service_draw_request(struct sim_service *s, uint32_t site, cv_id leader)
{
    const cv_id server = choose_server(s, site);
    if (server == CV_ID_NONE) {
        return NEVER;
    }
    int64_t ns = later(s->options.cost_ns, draw_access(s, site, server));
    ns = later(ns, draw_round(s, server, leader));
    return later(ns, draw_consensus(s, leader));
}

void sim_service_reseed(struct sim_service *s, uint64_t seed)
{
    sim_rng_init(&s->link_rng, seed, STREAM_LINKS);
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool leads_with(const struct sim_service *s, cv_id leader, uint64_t token)
{
    return sim_world_holds(s->world, leader) &&
           s->world->properties.node[leader - 1].held_token == token;
}

static struct sim_recovery *latest(const struct sim_service *s)
{
    return s->recovery_count > 0 ? &s->recovery[s->recovery_count - 1] : NULL;
}

static void begin_recovery(struct sim_service *s, cv_id leader)
{
    const struct cv_property_node *n = &s->world->properties.node[leader - 1];
    int64_t synced_ns[SIM_SERVERS_MAX];
    uint64_t longest;
    const int64_t ns = draw_recovery(s, leader, synced_ns, &longest);
    s->recovery =
        cv__grow(s->recovery, &s->recovery_capacity, s->recovery_count, sizeof *s->recovery);
    s->recovery[s->recovery_count++] = (struct sim_recovery){
        .leader = leader,
        .token = n->held_token,
        .began_ns = n->held_from_ns,
        .done_ns = later(n->held_from_ns, ns),
        .longest = longest,
    };
    for (cv_id id = 1; id <= s->server_count; id++) {
        server_of(s, id)->synced_ns =
            ns == NEVER ? NEVER : later(n->held_from_ns, synced_ns[id - 1]);
    }
}

/* The leader is gone: its transfers do not arrive any more. */
static void end_recovery(struct sim_service *s)
{
    struct sim_recovery *last = latest(s);
    if (last != NULL && last->done_ns > s->world->now_ns) {
        last->done_ns = NEVER;
    }
    for (cv_id id = 1; id <= s->server_count; id++) {
        server_of(s, id)->synced_ns = NEVER;
    }
}

/* Marks the servers that have received all missing entries by now, the leader first. */
static void go_on_recovering(struct sim_service *s, const struct sim_recovery *recovery)
{
    struct server *leader = server_of(s, recovery->leader);
    if (leader->synced_ns <= s->world->now_ns) {
        CV_ASSERT(leader->history <= recovery->longest);
        leader->history = recovery->longest;
        leader->synced_ns = NEVER;
    }
    for (cv_id id = 1; id <= s->server_count; id++) {
        struct server *server = server_of(s, id);
        if (server->synced_ns <= s->world->now_ns) {
            server->history = is_up(s, id) ? leader->history : server->history;
            server->synced_ns = NEVER;
        }
    }
}

/* Follows the leader that the election has made. */
static void look_at_leader(struct sim_service *s)
{
    for (cv_id id = 1; id <= s->server_count; id++) {
        const struct sim_recovery *last = latest(s);
        const uint64_t token = s->world->properties.node[id - 1].held_token;
        if (sim_world_holds(s->world, id) &&
            (last == NULL || last->leader != id || last->token != token)) {
            begin_recovery(s, id);
        }
    }
    const struct sim_recovery *last = latest(s);
    if (last == NULL || !leads_with(s, last->leader, last->token)) {
        end_recovery(s);
    } else {
        go_on_recovering(s, last);
    }
}

static void send_request(struct sim_service *s, struct sim_request *r,
                         const struct sim_recovery *to)
{
    int64_t ns = later(s->options.cost_ns, draw_access(s, r->site, r->server));
    ns = later(ns, draw_way(s, r->server, to->leader));
    ns = later(ns, draw_consensus(s, to->leader));
    r->committed_ns = later(s->world->now_ns, ns);
    r->done_ns = later(r->committed_ns, draw_way(s, to->leader, r->server));
    r->leader = r->done_ns != NEVER ? to->leader : CV_ID_NONE; /* no quorum or no path: it waits */
    r->token = to->token;
}

/* A quorum has the request: it is in the history of all servers in sync. */
static void commit(struct sim_service *s, const struct sim_request *r)
{
    const uint64_t before = server_of(s, r->leader)->history;
    for (cv_id id = 1; id <= s->server_count; id++) {
        if (is_up(s, id) && server_of(s, id)->history == before) {
            server_of(s, id)->history += s->options.every;
        }
    }
}

/* True: it is answered. A request that has lost its server or its leader is sent again. */
static bool request_goes_on(struct sim_service *s, struct sim_request *r)
{
    const int64_t now_ns = s->world->now_ns;
    if (r->committed_ns == 0) { /* it is committed, and the answer is in flight */
        if (r->done_ns > now_ns) {
            return false;
        }
        if (s->options.on_request != NULL) {
            s->options.on_request(s->options.context, r);
        }
        return true;
    }
    if (r->leader != CV_ID_NONE && !leads_with(s, r->leader, r->token)) {
        r->leader = CV_ID_NONE;
    }
    if (r->leader != CV_ID_NONE && r->committed_ns <= now_ns) {
        commit(s, r);
        r->committed_ns = 0;
        return false;
    }
    if (r->server == CV_ID_NONE || !is_up(s, r->server)) {
        r->server = choose_server(s, r->site);
    }
    const struct sim_recovery *last = latest(s);
    if (r->leader == CV_ID_NONE && r->server != CV_ID_NONE && last != NULL &&
        last->done_ns <= now_ns && leads_with(s, last->leader, last->token) &&
        s->world->properties.node[r->server - 1].leader == last->leader) {
        send_request(s, r, last);
    }
    return false;
}

static int64_t gap_ns(struct sim_service *s, uint32_t site)
{
    if (s->options.rate[site] <= 0) {
        return NEVER;
    }
    const double mean_ns = (double)NS_PER_S * s->options.every / (double)s->options.rate[site];
    return 1 + (int64_t)(-log(sim_rng_unit(&s->client_rng)) * mean_ns);
}

static void arrivals(struct sim_service *s)
{
    for (uint32_t site = 1; site <= s->site_count; site++) {
        while (s->next_ns[site] <= s->world->now_ns) {
            s->request =
                cv__grow(s->request, &s->request_capacity, s->request_count, sizeof *s->request);
            struct sim_request *r = &s->request[s->request_count++];
            *r = (struct sim_request){.site = site,
                                      .server = choose_server(s, site),
                                      .arrived_ns = s->next_ns[site],
                                      .committed_ns = NEVER,
                                      .done_ns = NEVER};
            if (r->server != CV_ID_NONE) {
                server_of(s, r->server)->arrived += s->options.every;
            }
            s->next_ns[site] = later(s->next_ns[site], gap_ns(s, site));
        }
    }
}

static void tell(struct sim_service *s, cv_id id, enum cv_input input, int64_t value)
{
    const struct sim_action report = {
        .at_ns = s->world->now_ns, .kind = SIM_ACTION_REPORT, .node = id, .report = {input, value}};
    sim_world_schedule_action(s->world, &report);
}

/* What an application would report: its smoothed request rate, and its history. */
static void report(struct sim_service *s)
{
    const double period_s = (double)s->options.report_ns / NS_PER_S;
    for (cv_id id = 1; id <= s->server_count; id++) {
        struct server *server = server_of(s, id);
        const double rate = (double)server->arrived / period_s;
        server->arrived = 0;
        server->rate = server->rate < 0 ? rate : server->rate + (rate - server->rate) / RATE_WEIGHT;
        const int64_t rounded = (int64_t)llround(server->rate);
        if (!is_up(s, id)) {
            server->rate = -1;
            server->told_rate = -1;
            server->told_history = UINT64_MAX; /* it reports again when it is back */
            continue;
        }
        if (rounded != server->told_rate) {
            tell(s, id, CV_INPUT_REQUEST_RATE, rounded);
            server->told_rate = rounded;
        }
        if (server->history != server->told_history) {
            tell(s, id, CV_INPUT_HISTORY_LENGTH, (int64_t)server->history);
            server->told_history = server->history;
        }
    }
    s->report_ns += s->options.report_ns;
}

static void step(struct sim_service *s)
{
    look_at_leader(s);
    arrivals(s);
    for (uint32_t i = 0; i < s->request_count;) {
        if (request_goes_on(s, &s->request[i])) {
            s->request[i] = s->request[--s->request_count];
        } else {
            i++;
        }
    }
    if (s->report_ns <= s->world->now_ns) {
        report(s);
    }
}

/* When something happens next, here or in the world. */
static int64_t next_ns(const struct sim_service *s)
{
    int64_t ns = cv__min64(sim_queue_next_ns(&s->world->queue), s->report_ns);
    for (uint32_t site = 1; site <= s->site_count; site++) {
        ns = cv__min64(ns, s->next_ns[site]);
    }
    for (uint32_t i = 0; i < s->request_count; i++) {
        const struct sim_request *r = &s->request[i];
        const int64_t at_ns = r->committed_ns == 0 ? r->done_ns : r->committed_ns;
        /* otherwise it waits for others */
        ns = cv__min64(ns, at_ns > s->world->now_ns ? at_ns : NEVER);
    }
    const struct sim_recovery *last = latest(s);
    if (last != NULL && last->done_ns > s->world->now_ns) {
        ns = cv__min64(ns, last->done_ns);
    }
    return ns;
}

void sim_service_run(struct sim_service *s, int64_t until_ns)
{
    for (int64_t ns = next_ns(s); ns <= until_ns && !s->world->is_over; ns = next_ns(s)) {
        sim_world_run(s->world, cv__max64(ns, s->world->now_ns));
        step(s);
    }
    if (until_ns > s->world->now_ns) {
        sim_world_run(s->world, until_ns);
    }
}

/* ---- Life ------------------------------------------------------------------------------------ */

struct sim_service *sim_service_new(struct sim_world *world,
                                    const struct sim_service_options *options)
{
    CV_ASSERT(world->node_count <= SIM_SERVERS_MAX);
    CV_ASSERT(options->entry_bytes > 0 && options->window_bytes > 0);
    CV_ASSERT(options->bandwidth_bytes > 0 && options->cost_ns >= 0);
    struct sim_service *s = cv__allocate(1, sizeof *s);
    s->world = world;
    s->options = *options;
    s->options.every = options->every > 0 ? options->every : 1;
    s->server_count = world->node_count;
    s->quorum = world->node_count / 2 + 1;
    s->site_count = world->scenario->site_count;
    s->server = cv__allocate(s->server_count, sizeof *s->server);
    for (cv_id id = 1; id <= s->server_count; id++) {
        *server_of(s, id) = (struct server){
            .synced_ns = NEVER, .rate = -1, .told_rate = -1, .told_history = UINT64_MAX};
    }
    sim_rng_init(&s->client_rng, options->seed, STREAM_CLIENTS);
    sim_service_reseed(s, options->seed);
    for (uint32_t site = 1; site <= s->site_count; site++) {
        s->next_ns[site] = later(world->now_ns, gap_ns(s, site));
    }
    s->report_ns = options->report_ns > 0 ? world->now_ns + options->report_ns : NEVER;
    return s;
}

void sim_service_free(struct sim_service *s)
{
    if (s != NULL) {
        free(s->server);
        free(s->request);
        free(s->recovery);
        free(s);
    }
}

uint64_t sim_service_history(const struct sim_service *s, cv_id server)
{
    return server_of(s, server)->history;
}

void sim_service_set_history(struct sim_service *s, cv_id server, uint64_t entries)
{
    server_of(s, server)->history = entries;
}

void sim_service_set_rate(struct sim_service *s, uint32_t site, int64_t rate)
{
    CV_ASSERT(site >= 1 && site <= s->site_count);
    s->options.rate[site] = rate;
    s->next_ns[site] = later(s->world->now_ns, gap_ns(s, site));
}

const struct sim_recovery *sim_service_recovery_at(const struct sim_service *s, uint32_t index)
{
    return index < s->recovery_count ? &s->recovery[index] : NULL;
}
