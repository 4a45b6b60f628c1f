/* src/sim/network.c - links between simulated nodes. */
#include "sim/network.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Overrides by pair: open addressing, keys from << 16 | to, 0 is empty. */
struct sim_network {
    uint32_t node_count;
    struct sim_link default_link;
    uint8_t *site;            /* of each node; 0: none */
    struct sim_link *between; /* SIM_SITES_MAX x SIM_SITES_MAX; NULL: no sites */
    uint16_t *group;          /* of each node */
    uint32_t *key;
    struct sim_link *override;
    uint32_t override_count, override_capacity; /* a power of two, at most half full */
    uint32_t down_count;                        /* overrides that are down */
    int64_t overlay[SIM_OVERLAY_COUNT];
};

struct sim_network *sim_network_new(uint32_t node_count)
{
    struct sim_network *network = cv__allocate(1, sizeof *network);
    network->node_count = node_count;
    network->default_link.delay_ns = NS_PER_MS;
    network->site = cv__allocate(node_count, sizeof *network->site);
    network->group = cv__allocate(node_count, sizeof *network->group);
    return network;
}

void sim_network_free(struct sim_network *network)
{
    if (network == NULL) {
        return;
    }
    free(network->site);
    free(network->between);
    free(network->group);
    free(network->key);
    free(network->override);
    free(network);
}

static uint32_t pair_key(cv_id from, cv_id to)
{
    return from << 16 | to;
}

/* The slot of the pair, or the empty slot where it belongs. */
static uint32_t override_at(const struct sim_network *network, uint32_t key)
{
    uint32_t at = (key * UINT32_C(2654435769)) >> 7;
    for (;; at++) {
        at &= network->override_capacity - 1;
        if (network->key[at] == key || network->key[at] == 0) {
            return at;
        }
    }
}

static const struct sim_link *link_get(const struct sim_network *network, cv_id from, cv_id to)
{
    if (network->override_count > 0) {
        const uint32_t at = override_at(network, pair_key(from, to));
        if (network->key[at] != 0) {
            return &network->override[at];
        }
    }
    const uint32_t site_a = network->site[from - 1];
    const uint32_t site_b = network->site[to - 1];
    if (network->between != NULL && site_a != 0 && site_b != 0 && site_a != site_b) {
        const struct sim_link *link = &network->between[site_a * SIM_SITES_MAX + site_b];
        if (link->delay_ns > 0) {
            return link;
        }
    }
    return &network->default_link;
}

static void overrides_grow(struct sim_network *network)
{
    const uint32_t old_capacity = network->override_capacity;
    uint32_t *old_key = network->key;
    struct sim_link *old_override = network->override;
    network->override_capacity = old_capacity > 0 ? old_capacity * 2 : 64;
    network->key = cv__allocate(network->override_capacity, sizeof *network->key);
    network->override = cv__allocate(network->override_capacity, sizeof *network->override);
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old_key[i] != 0) {
            const uint32_t at = override_at(network, old_key[i]);
            network->key[at] = old_key[i];
            network->override[at] = old_override[i];
        }
    }
    free(old_key);
    free(old_override);
}

static struct sim_link *link_override(struct sim_network *network, cv_id from, cv_id to)
{
    if (2 * (network->override_count + 1) > network->override_capacity) {
        overrides_grow(network);
    }
    const uint32_t key = pair_key(from, to);
    const struct sim_link current = *link_get(network, from, to);
    const uint32_t at = override_at(network, key);
    if (network->key[at] == 0) {
        network->key[at] = key;
        network->override[at] = current;
        network->override_count++;
    }
    return &network->override[at];
}

static void link_apply(struct sim_link *link, const struct sim_link_change *change)
{
    const struct sim_link *to = &change->link;
    if (change->mask & SIM_LINK_DELAY) {
        link->delay_ns = to->delay_ns;
    }
    if (change->mask & SIM_LINK_JITTER) {
        link->jitter_ns = to->jitter_ns;
        link->jitter_ppb = to->jitter_ppb;
    }
    if (change->mask & SIM_LINK_DIST) {
        link->dist = to->dist;
    }
    if (change->mask & SIM_LINK_LOSS) {
        link->loss_ppb = to->loss_ppb;
    }
    if (change->mask & SIM_LINK_DUPLICATE) {
        link->duplicate_ppb = to->duplicate_ppb;
    }
    if (change->mask & SIM_LINK_REORDER) {
        link->reorder_ppb = to->reorder_ppb;
    }
    if (change->mask & SIM_LINK_DOWN) {
        link->is_down = to->is_down;
    }
}

/* Does the change apply to the direction from > to? */
static bool is_meant(const struct sim_link_change *change, cv_id from, cv_id to)
{
    const bool there = (change->first == CV_ID_NONE || change->first == from) &&
                       (change->second == CV_ID_NONE || change->second == to);
    const bool back = !change->is_one_way && (change->first == CV_ID_NONE || change->first == to) &&
                      (change->second == CV_ID_NONE || change->second == from);
    return there || back;
}

static void count_down(struct sim_network *network)
{
    network->down_count = network->default_link.is_down;
    for (uint32_t i = 0; i < network->override_capacity; i++) {
        network->down_count += network->key[i] != 0 && network->override[i].is_down;
    }
}

void sim_network_change(struct sim_network *network, const struct sim_link_change *change)
{
    if (change->first == CV_ID_NONE && change->second == CV_ID_NONE) {
        link_apply(&network->default_link, change);
        for (uint32_t i = 0; network->between != NULL && i < SIM_SITES_MAX * SIM_SITES_MAX; i++) {
            /* links between sites keep the delay of their RTT */
            struct sim_link_change kept = *change;
            kept.mask &= ~(uint32_t)SIM_LINK_DELAY;
            link_apply(&network->between[i], &kept);
        }
        for (uint32_t i = 0; i < network->override_capacity; i++) {
            if (network->key[i] != 0) {
                link_apply(&network->override[i], change);
            }
        }
    } else {
        for (cv_id from = 1; from <= network->node_count; from++) {
            const bool is_end = change->first == CV_ID_NONE || change->second == CV_ID_NONE ||
                                from == change->first || from == change->second;
            for (cv_id to = 1; is_end && to <= network->node_count; to++) {
                if (from != to && is_meant(change, from, to)) {
                    link_apply(link_override(network, from, to), change);
                }
            }
        }
    }
    count_down(network);
}

void sim_network_set_site(struct sim_network *network, cv_id node, uint32_t site)
{
    CV_ASSERT(site < SIM_SITES_MAX);
    network->site[node - 1] = (uint8_t)site;
}

void sim_network_set_rtt(struct sim_network *network, uint32_t site_a, uint32_t site_b,
                         int64_t rtt_ns)
{
    if (network->between == NULL) {
        network->between = cv__allocate(SIM_SITES_MAX * SIM_SITES_MAX, sizeof *network->between);
        for (uint32_t i = 0; i < SIM_SITES_MAX * SIM_SITES_MAX; i++) {
            network->between[i] = network->default_link;
            network->between[i].delay_ns = 0; /* no RTT given: the default link's delay is used */
        }
    }
    network->between[site_a * SIM_SITES_MAX + site_b].delay_ns = rtt_ns / 2;
    network->between[site_b * SIM_SITES_MAX + site_a].delay_ns = rtt_ns / 2;
}

void sim_network_partition(struct sim_network *network, const uint16_t *group)
{
    memcpy(network->group, group, network->node_count * sizeof *group);
}

void sim_network_heal(struct sim_network *network)
{
    memset(network->group, 0, network->node_count * sizeof *network->group);
    const struct sim_link_change up = {.mask = SIM_LINK_DOWN};
    sim_network_change(network, &up);
}

void sim_network_overlay(struct sim_network *network, enum sim_overlay overlay, int64_t value)
{
    network->overlay[overlay] = value;
}

bool sim_network_reaches(const struct sim_network *network, cv_id from, cv_id to)
{
    return network->group[from - 1] == network->group[to - 1] &&
           !link_get(network, from, to)->is_down;
}

uint16_t sim_network_group(const struct sim_network *network, cv_id node)
{
    return network->group[node - 1];
}

bool sim_network_has_cuts(const struct sim_network *network)
{
    return network->down_count > 0;
}

/* The sum of twelve uniforms less six: close to normal, within six deviations, and computed with
 * integers only, so that every machine draws the same. */
static int64_t draw_normal(struct sim_rng *rng, int64_t deviation_ns)
{
    __int128 sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += sim_rng_range(rng, -SIM_PPB_ONE / 2, SIM_PPB_ONE / 2);
    }
    return (int64_t)(sum * deviation_ns / SIM_PPB_ONE);
}

/* The excess over the minimum of a Pareto distribution of shape 3; the excess has the given
 * mean. */
static int64_t draw_pareto(struct sim_rng *rng, int64_t mean_ns)
{
    const double excess = 2.0 * (1.0 / cbrt(sim_rng_unit(rng)) - 1.0);
    const double limit = 1e6; /* one in 10^17: keeps the product within 64 bits */
    return (int64_t)((double)mean_ns * (excess < limit ? excess : limit));
}

static int64_t jitter_of(const struct sim_link *link)
{
    if (link->jitter_ppb <= 0) {
        return link->jitter_ns;
    }
    const int64_t small_ns = INT64_C(1) << 33; /* 8.6 s: the product fits into 64 bits */
    if (link->delay_ns < small_ns && link->jitter_ppb <= SIM_PPB_ONE) {
        return link->delay_ns * link->jitter_ppb / SIM_PPB_ONE; /* 64 bits are much cheaper */
    }
    return (int64_t)((__int128)link->delay_ns * link->jitter_ppb / SIM_PPB_ONE);
}

int64_t sim_network_mean_ns(const struct sim_network *network, cv_id from, cv_id to)
{
    const struct sim_link *link = link_get(network, from, to);
    return link->delay_ns + (link->dist == SIM_DIST_PARETO ? jitter_of(link) : 0);
}

static int64_t draw_delay(const struct sim_network *network, const struct sim_link *link,
                          struct sim_rng *rng)
{
    const int64_t jitter = jitter_of(link);
    int64_t delay = link->delay_ns;
    if (jitter > 0) {
        switch (link->dist) {
        case SIM_DIST_CONSTANT:
            break;
        case SIM_DIST_UNIFORM:
            delay += sim_rng_range(rng, -jitter, jitter);
            break;
        case SIM_DIST_NORMAL:
            delay += draw_normal(rng, jitter);
            break;
        case SIM_DIST_PARETO:
            delay += draw_pareto(rng, jitter);
            break;
        }
    }
    if (network->overlay[SIM_OVERLAY_SLOW] > 0) {
        delay += sim_rng_range(rng, 0, network->overlay[SIM_OVERLAY_SLOW]);
    }
    if (sim_rng_chance(rng, link->reorder_ppb + network->overlay[SIM_OVERLAY_REORDER])) {
        delay += sim_rng_range(rng, 0, 4 * link->delay_ns); /* later messages overtake it */
    }
    return cv__max64(delay, 1);
}

enum sim_fate sim_network_send(const struct sim_network *network, struct sim_rng *rng, cv_id from,
                               cv_id to, int64_t ret_delay_ns[2])
{
    if (network->group[from - 1] != network->group[to - 1]) {
        return SIM_FATE_UNREACHABLE;
    }
    const struct sim_link *link = link_get(network, from, to);
    if (link->is_down) {
        return SIM_FATE_UNREACHABLE;
    }
    if (sim_rng_chance(rng, link->loss_ppb + network->overlay[SIM_OVERLAY_LOSS])) {
        return SIM_FATE_LOST;
    }
    ret_delay_ns[0] = draw_delay(network, link, rng);
    if (sim_rng_chance(rng, link->duplicate_ppb + network->overlay[SIM_OVERLAY_DUPLICATE])) {
        ret_delay_ns[1] = draw_delay(network, link, rng);
        return SIM_FATE_TWICE;
    }
    return SIM_FATE_ONCE;
}
