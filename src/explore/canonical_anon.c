/* src/explore/canonical_anon.c - numbers of requests and of sends; see canonical.h.
 *
 * A process counts what it sends, and the others compare only counts of one label: the largest that
 * somebody knows of is always SENT here, and those before it are told apart by their order. */
#include "explore/canonical.h"
#include "explore/service.h"
#include "protocols/anon_state.h"

#define SENT 1000u
#define REQUEST 64u
#define OLDEST (REQUEST - 16u)
#define COUNTS_MAX (EXPLORE_MESSAGES_MAX + EXPLORE_NODES_MAX)

/* Places of the fields of a message: ANON_FIELDS. */
enum { WORD_LABEL = 1, WORD_SENT = 2 };

static struct anon *anon_at(const struct explore_model *model, struct explore_world *w,
                            uint32_t node)
{
    return (struct anon *)explore_node_at(model, w, node)->core;
}

static bool is_up(const struct explore_model *model, struct explore_world *w, uint32_t node)
{
    return explore_node_at(model, w, node)->is_up;
}

/* A receiver looks at the count of its leader's own messages only. */
static bool is_counted(const struct explore_message *m)
{
    return m->kind == EXPLORE_PEER && (m->type == ANON_TOKEN || m->type == ANON_GONE);
}

/* ---- Sends ----------------------------------------------------------------------------------- */

/* Where the counts of that label are. */
static uint32_t find_counts(const struct explore_model *model, struct explore_world *w,
                            uint64_t label, uint64_t **ret_at)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct anon *a = anon_at(model, w, i);
        if (is_up(model, w, i) && a->label != label && a->closed.label == label &&
            a->heard_count != 0) {
            ret_at[count++] = &a->heard_count;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (is_counted(m) && m->word[WORD_LABEL] == label) {
            ret_at[count++] = &m->word[WORD_SENT];
        }
    }
    return count;
}

/* Is this the first place with its value, and is that above `count`? */
static bool is_first_above(uint64_t **at, uint32_t index, uint64_t count)
{
    for (uint32_t i = 0; i < index; i++) {
        if (*at[i] == *at[index]) {
            return false;
        }
    }
    return *at[index] > count;
}

/* The largest becomes SENT, the next one less, and so on; equal ones stay equal. */
static void rank_sends(const struct explore_model *model, struct explore_world *w, uint64_t label)
{
    uint64_t *at[COUNTS_MAX];
    uint64_t rank[COUNTS_MAX];
    const uint32_t count = find_counts(model, w, label, at);
    for (uint32_t i = 0; i < count; i++) {
        rank[i] = SENT;
        for (uint32_t j = 0; j < count; j++) {
            rank[i] -= is_first_above(at, j, *at[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        *at[i] = rank[i];
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void turn_requests(const struct explore_model *model, struct explore_world *w)
{
    uint64_t shift[EXPLORE_NODES_MAX] = {0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (is_up(model, w, i)) {
            struct anon *a = anon_at(model, w, i);
            shift[i] = a->request - REQUEST;
            a->request = REQUEST;
            a->open_request -= a->open_request != 0 ? shift[i] : 0;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER) {
            m->word[WORD_SENT] = is_counted(m) ? m->word[WORD_SENT] : 0;
            continue;
        }
        const uint32_t node = m->kind == EXPLORE_QUERY ? m->from : m->to;
        const struct explore_node *n = explore_node_at(model, w, node);
        const bool is_heard = n->is_up && n->life == m->life && !m->is_repeat;
        const uint64_t request = m->word[EXPLORE_QUERY_REQUEST] - shift[node];
        m->word[EXPLORE_QUERY_REQUEST] = !is_heard                               ? 0
                                         : request > REQUEST || request < OLDEST ? OLDEST
                                                                                 : request;
        m->life = is_heard ? m->life : 0;
    }
}

static void forget_past(const struct explore_node *n, struct anon *a, int64_t now_ns)
{
    if (n->host.due_ns[ANON_TIMER_SUSPECT] == 0) {
        a->suspect_due_ns = 0;
    }
    if (n->host.due_ns[ANON_TIMER_RESUME] == 0) {
        a->resume_due_ns = 0;
    }
    if (a->role != ANON_LEADING) {
        a->heartbeat_due_ns = 0;
    }
    if (a->role != ANON_TRUSTING && a->role != ANON_SUSPECTING) {
        a->heard_count = 0;
    }
    a->rest_until_ns = a->rest_until_ns <= now_ns ? 0 : a->rest_until_ns;
    a->refused_count = 0;
    a->sent_count = SENT;
}

void explore_canonical_anon(const struct explore_model *model, struct explore_world *w)
{
    turn_requests(model, w);
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_up) {
            forget_past(n, anon_at(model, w, i), explore_now_ns(i));
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        for (uint32_t life = 1; life <= explore_node_at(model, w, i)->life; life++) {
            rank_sends(model, w, explore_nonce(i, life));
        }
    }
    explore_canonical_lives(model, w);
}
