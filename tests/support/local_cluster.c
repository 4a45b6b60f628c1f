/* tests/support/local_cluster.c - see local_cluster.h. */
#include "support/local_cluster.h"

double local_kappa_ms(const struct cluster *c)
{
    return (double)c->world->protocol->kappa_ns(&c->scenario->config) / (double)NS_PER_MS;
}

uint32_t local_leaders(const struct cluster *c)
{
    uint32_t set = 0;
    for (cv_id id = 1; id <= c->world->node_count; id++) {
        set |= sim_world_holds(c->world, id) ? BIT(id) : 0;
    }
    return set;
}

uint32_t local_supporters(const struct cluster *c, cv_id id)
{
    const uint64_t *members = cv__properties_members(&c->world->properties, id);
    return sim_world_holds(c->world, id) ? (uint32_t)members[0] << 1 : 0;
}

void local_end_well(struct cluster *c)
{
    sim_world_run(c->world, c->scenario->run_ns);
    for (uint32_t i = 0; i < CV_PROPERTY_COUNT; i++) {
        const struct cv_broken *broken = &c->world->properties.broken[i];
        if (broken->is_broken && (c->scenario->promises & BIT(i)) != 0) {
            fail_msg("%s: %s", cv_property_name((enum cv_property)i), broken->detail);
        }
    }
    cluster_drop(c);
}

void local_act(struct cluster *c, struct sim_action action)
{
    action.at_ns = c->world->now_ns;
    sim_world_schedule_action(c->world, &action);
    cluster_run_until(c, cluster_now_ms(c));
}
