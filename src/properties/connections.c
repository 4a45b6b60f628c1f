/* src/properties/connections.c - the ground truth of which nodes are connected, and since when. */
#include "properties/connections.h"

#include "base/memory.h"
#include "core/nodeset.h"

#include <stdlib.h>

static size_t pair(const struct cv_connections *c, cv_id a, cv_id b)
{
    CV_ASSERT(a >= 1 && a <= c->node_count && b >= 1 && b <= c->node_count);
    return (size_t)(a - 1) * c->node_count + (b - 1);
}

void cv__connections_init(struct cv_connections *c, uint32_t node_count)
{
    CV_ASSERT(node_count <= CV_CONNECTIONS_NODES_MAX);
    const size_t pairs = (size_t)node_count * node_count;
    c->node_count = node_count;
    c->block_bytes = (2 * pairs + node_count) * sizeof(int64_t) + pairs * sizeof(bool);
    c->since_ns = cv__allocate(1, c->block_bytes);
    c->fast_ns = c->since_ns + pairs;
    c->steady_ns = c->fast_ns + pairs;
    c->is_linked = (bool *)(c->steady_ns + node_count);
    for (size_t i = 0; i < pairs; i++) {
        c->fast_ns[i] = -1;
    }
    for (uint32_t i = 0; i < node_count; i++) {
        c->steady_ns[i] = INT64_MAX;
    }
}

void cv__connections_fini(struct cv_connections *c)
{
    free(c->since_ns);
}

void cv__connections_fail(struct cv_connections *c, int64_t now_ns, cv_id a, cv_id b)
{
    if (cv__connections_is_kept(c)) {
        c->since_ns[pair(c, a, b)] = now_ns;
        c->since_ns[pair(c, b, a)] = now_ns;
    }
}

void cv__connections_arrive(struct cv_connections *c, int64_t now_ns, cv_id from, cv_id to)
{
    if (cv__connections_is_kept(c)) {
        c->fast_ns[pair(c, to, from)] = now_ns;
    }
}

void cv__connections_set_steady(struct cv_connections *c, int64_t now_ns, cv_id id, bool is_steady)
{
    if (!cv__connections_is_kept(c)) {
        return;
    }
    CV_ASSERT(id >= 1 && id <= c->node_count);
    if (!is_steady) {
        c->steady_ns[id - 1] = INT64_MAX;
    } else if (c->steady_ns[id - 1] == INT64_MAX) {
        c->steady_ns[id - 1] = now_ns;
    }
}

void cv__connections_set_linked(struct cv_connections *c, int64_t now_ns, cv_id a, cv_id b,
                                bool is_linked)
{
    if (cv__connections_is_kept(c) && is_linked != c->is_linked[pair(c, a, b)]) {
        c->is_linked[pair(c, a, b)] = is_linked;
        c->since_ns[pair(c, a, b)] = now_ns;
    }
}

int64_t cv__connections_since(const struct cv_connections *c, cv_id a, cv_id b)
{
    if (!cv__connections_is_kept(c) || !c->is_linked[pair(c, a, b)] ||
        c->steady_ns[a - 1] == INT64_MAX || c->steady_ns[b - 1] == INT64_MAX) {
        return INT64_MAX;
    }
    const int64_t steady_ns = cv__max64(c->steady_ns[a - 1], c->steady_ns[b - 1]);
    return cv__max64(c->since_ns[pair(c, a, b)], steady_ns);
}

static bool is_connected_since(const struct cv_connections *c, cv_id a, cv_id b, int64_t since_ns)
{
    const int64_t connected_ns = cv__connections_since(c, a, b);
    return connected_ns != INT64_MAX && connected_ns <= since_ns;
}

bool cv__connections_partition(const struct cv_connections *c, int64_t now_ns, cv_id id,
                               int64_t for_ns, uint64_t *ret_set)
{
    const int64_t since_ns = now_ns - for_ns;
    if (!is_connected_since(c, id, id, since_ns)) {
        return false;
    }
    cv__set_clear(ret_set, c->node_count);
    for (cv_id other = 1; other <= c->node_count; other++) {
        if (is_connected_since(c, id, other, since_ns)) {
            cv__set_add(ret_set, other);
        }
    }
    for (cv_id a = 1; (a = cv__set_next(ret_set, a, c->node_count)) != CV_ID_NONE; a++) {
        for (cv_id b = 1; b <= c->node_count; b++) {
            const bool is_inside = cv__set_has(ret_set, b);
            if (is_inside ? !is_connected_since(c, a, b, since_ns)
                          : c->fast_ns[pair(c, a, b)] >= since_ns) {
                return false;
            }
        }
    }
    return true;
}
