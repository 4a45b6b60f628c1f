/* src/properties/graph.c - which members should lead when links are down; see graph.h. */
#include "properties/graph.h"

#include "core/nodeset.h"

const uint64_t *cv__graph_near(const uint64_t *graph, uint32_t member_count, cv_id id)
{
    CV_ASSERT(id >= 1);
    CV_ASSERT(id <= member_count);
    return graph + (size_t)(id - 1) * cv__set_words(member_count);
}

void cv__graph_leaders(const uint64_t *graph, const uint64_t *candidates, uint32_t member_count,
                       uint64_t *ret_leaders)
{
    uint64_t marked[CV_MEMBERS_MAX / 64] = {0};
    cv__set_clear(ret_leaders, member_count);
    for (cv_id id = 1; (id = cv__set_next(candidates, id, member_count)) != CV_ID_NONE; id++) {
        const uint64_t *near = cv__graph_near(graph, member_count, id);
        CV_ASSERT(cv__set_has(near, id)); /* a candidate takes part */
        if (!cv__set_meets(near, marked, member_count)) {
            cv__set_add(ret_leaders, id);
            cv__set_unite(marked, near, member_count);
        }
    }
}

cv_id cv__graph_center(const uint64_t *graph, const uint64_t *candidates, uint32_t member_count)
{
    for (cv_id id = 1; (id = cv__set_next(candidates, id, member_count)) != CV_ID_NONE; id++) {
        const uint64_t *near = cv__graph_near(graph, member_count, id);
        if (2 * cv__set_count(near, member_count) > member_count) {
            return id;
        }
    }
    return CV_ID_NONE;
}
