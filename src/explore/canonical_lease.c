/* src/explore/canonical_lease.c - numbers of requests, and instants that have passed; see
 * canonical.h.
 *
 * Requests are numbered without end, and the latest are kept in a ring. The latest number is always
 * REQUEST here; earlier requests count down from it, and the ring is rotated accordingly. */
#include "explore/canonical.h"
#include "explore/service.h"
#include "protocols/lease_state.h"

#include <string.h>

const char *const explore_lease_timers[CV_TIMERS_MAX] = {
    [LEASE_TIMER_TURN] = "turn",
    [LEASE_TIMER_END] = "end",
};

#define REQUEST 64u /* a multiple of the ring's size, larger than it */
#define OLDEST (REQUEST - 2 * LEASE_REQUESTS_KEPT)
_Static_assert(REQUEST % LEASE_REQUESTS_KEPT == 0, "it always has the same slot of the ring");

static struct lease *lease_at(const struct explore_model *model, struct explore_world *w,
                              uint32_t node)
{
    return (struct lease *)explore_node_at(model, w, node)->core;
}

/* A request that the ring has forgotten is only known to be old. */
static uint64_t turned(uint64_t request, uint64_t shift)
{
    const uint64_t result = request - shift;
    return result > REQUEST || result < OLDEST ? OLDEST : result;
}

static void turn_ring(struct lease *l, uint64_t shift)
{
    struct lease_request made[LEASE_REQUESTS_KEPT];
    for (uint32_t i = 0; i < LEASE_REQUESTS_KEPT; i++) {
        struct lease_request *to = &made[(i - shift) % LEASE_REQUESTS_KEPT];
        *to = l->made[i];
        to->request -= to->request != 0 ? shift : 0;
    }
    memcpy(l->made, made, sizeof made);
    l->request = REQUEST;
    l->open_request -= l->open_request != 0 ? shift : 0;
    l->answered = turned(l->answered, shift);
}

/* Is that request of this life, or its answer, still in flight? */
static bool is_under_way(const struct explore_model *model, struct explore_world *w, uint32_t node,
                         uint64_t request)
{
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        const uint32_t of = m->kind == EXPLORE_QUERY ? m->from : m->to;
        const bool gets_answer =
            m->kind == EXPLORE_QUERY ? !m->is_repeat : m->kind == EXPLORE_ANSWER;
        if (gets_answer && of == node && m->life == explore_node_at(model, w, node)->life &&
            m->word[EXPLORE_QUERY_REQUEST] == request) { /* the first word of both */
            return true;
        }
    }
    return false;
}

static void forget_past(struct lease *l, int64_t now_ns)
{
    if (l->role != LEASE_LEADING) {
        l->valid_until_ns = 0;
        l->token = 0;
    }
    if (l->debt_attempt == 0) {
        l->debt_token = 0;
        l->debt_until_ns = 0;
    }
    if (!l->sees_other) {
        l->other_token = 0;
        l->other_label = 0;
        l->other_until_ns = 0;
    }
    l->other_until_ns = l->other_until_ns <= now_ns ? 0 : l->other_until_ns;
    l->rest_until_ns = l->rest_until_ns <= now_ns ? 0 : l->rest_until_ns;
    l->bucket_ns = cv__max64(l->bucket_ns, now_ns);
    l->refused_count = 0;
}

void explore_canonical_lease(const struct explore_model *model, struct explore_world *w)
{
    uint64_t shift[EXPLORE_NODES_MAX] = {0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (!explore_node_at(model, w, i)->is_up) {
            continue;
        }
        struct lease *l = lease_at(model, w, i);
        for (uint32_t j = 0; j < LEASE_REQUESTS_KEPT; j++) {
            const uint64_t request = l->made[j].request; /* 0: answered, an empty slot */
            if (request == 0 || !is_under_way(model, w, i, request)) {
                l->made[j] = (struct lease_request){0}; /* no answer will come */
            }
        }
        shift[i] = l->request - REQUEST;
        turn_ring(l, shift[i]);
        forget_past(l, explore_now_ns(i));
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        const uint32_t node = m->kind == EXPLORE_QUERY ? m->from : m->to;
        if (m->kind == EXPLORE_NOTIFICATION) {
            continue;
        }
        const struct explore_node *n = explore_node_at(model, w, node);
        const bool is_heard = n->is_up && n->life == m->life && !m->is_repeat;
        m->word[EXPLORE_QUERY_REQUEST] =
            is_heard ? turned(m->word[EXPLORE_QUERY_REQUEST], shift[node]) : 0;
        if (!is_heard) {
            m->life = 0; /* its answer goes to no process */
        }
    }
    explore_canonical_lives(model, w);
}
