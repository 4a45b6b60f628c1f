/* src/explore/canonical_local.c - scratch, and times that are over; see canonical.h. */
#include "explore/canonical.h"
#include "protocols/local_alive.h"
#include "protocols/local_state.h"

/* Places of the fields of messages: LOCAL_ELECTION_FIELDS, LOCAL_RELEASE_FIELDS; and of REPLY. */
enum { WORD_LIFE = 0, WORD_REQUEST = 1, WORD_REPLY_REQUEST = 0 };

static struct local *local_at(const struct explore_model *model, struct explore_world *w,
                              uint32_t node)
{
    return (struct local *)explore_node_at(model, w, node)->core;
}

/* Is an ELECTION of that life with a request up to this one under way, or a RELEASE of one before
 * it? Later ones cannot come any more: a process names its requests by its clock, and releases the
 * latest. */
static bool may_be_named(const struct explore_model *model, struct explore_world *w, uint32_t from,
                         uint64_t life, uint64_t request)
{
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        const bool names =
            m->kind == EXPLORE_PEER && (m->type == LOCAL_ELECTION || m->type == LOCAL_RELEASE);
        if (names && m->from == from && m->word[WORD_LIFE] == life &&
            m->word[WORD_REQUEST] + (m->type == LOCAL_RELEASE) <= request) {
            return true;
        }
    }
    return false;
}

/* What is known of another process, and of oneself. All of these instants are compared with the
 * present one alone, which only grows. */
static void forget_peer(struct local *l, cv_id id, int64_t now_ns)
{
    struct local_peer *peer = peer_of(l, id);
    const int64_t taken_ns = l->calm_ns + l->sigma_ns + l->wait_ns; /* is_taken_for() */
    const int64_t heard_ns_min = now_ns - cv__max64(l->expires_ns, l->calm_ns) - 1;
    if (peer->heard_ns <= heard_ns_min) {
        const bool is_alive = cv__set_has(set_of(l, SET_ALIVE), id);
        peer->heard_ns = is_alive ? heard_ns_min : 0;
    }
    if (now_ns - peer->asked_ns > l->expires_ns && !cv__local_stays_deaf(peer)) {
        peer->deaf_since_ns = 0; /* its next ELECTION counts as a first one */
    }
    /* Whether it asked again since then is kept: the one instant stays before the other. */
    const int64_t past_ns = now_ns - cv__max64(l->expires_ns, taken_ns) - 1;
    if (peer->deaf_since_ns != 0) {
        peer->deaf_since_ns = cv__max64(peer->deaf_since_ns, past_ns - 1);
    }
    if (peer->asked_ns <= past_ns) {
        peer->asked_ns = peer->deaf_since_ns != 0 ? past_ns : 0;
    }
    peer->gone_until_ns = peer->gone_until_ns <= now_ns ? 0 : peer->gone_until_ns;
}

/* Requests that are kept to be compared with those that come, where none can come that differs. */
static void forget_requests(const struct explore_model *model, struct explore_world *w,
                            struct local *l)
{
    for (cv_id id = 1; id <= l->member_count; id++) {
        struct local_peer *peer = peer_of(l, id);
        if (peer->released_life != 0 &&
            !may_be_named(model, w, id - 1, peer->released_life, peer->released_request)) {
            peer->released_life = 0;
            peer->released_request = 0;
        }
    }
    /* A leader compares its own. */
    if (l->locked_to != CV_ID_NONE && l->locked_to != l->self && l->locked_request_ns > 1 &&
        !may_be_named(model, w, l->locked_to - 1, l->locked_life,
                      (uint64_t)l->locked_request_ns - 1)) {
        l->locked_request_ns = 1;
    }
}

/* Requests are not opened again: all answers to one that is not open are alike. */
static void forget_answers(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind != EXPLORE_PEER || m->type != LOCAL_REPLY) {
            continue;
        }
        const int64_t open_ns =
            explore_node_at(model, w, m->to)->is_up ? local_at(model, w, m->to)->request_ns : 0;
        if (open_ns == 0 || m->word[WORD_REPLY_REQUEST] != (uint64_t)open_ns) {
            m->word[WORD_REPLY_REQUEST] = 0;
        }
    }
}

static void forget_past(struct local *l, int64_t now_ns)
{
    cv__set_clear(set_of(l, SET_SCRATCH), l->member_count);
    if (l->collate == 0) {
        l->answered_request_ns = 0;
    }
    if (l->rotate_ns == 0 || !is_leading(l)) {
        l->turn_began_ns = 0;
    }
    if (l->boot_until_ns <= now_ns) {
        l->boot_until_ns = 0;
    }
    if (!is_leading(l)) {
        l->expiration_ns = 0;
    }
    if (l->lost_until_ns <= now_ns) {
        l->lost = CV_ID_NONE;
        l->lost_until_ns = 0;
    }
    if (l->request_ns == 0) {
        cv__set_clear(set_of(l, SET_REPLY), l->member_count);
        l->request_token = 0;
    }
    if (!is_leading(l) && l->led_token < l->token_seen &&
        (l->request_ns == 0 || l->led_token < l->request_token)) {
        l->led_token = 0; /* every later request is for a larger one, too */
    }
    if (!is_leading(l)) {
        l->token = 0;
    }
    if (l->candidate_since_ns != 0) {
        l->candidate_since_ns = cv__max64(l->candidate_since_ns, now_ns - l->wait_ns);
    }
    for (cv_id id = 1; id <= l->member_count; id++) {
        forget_peer(l, id, now_ns);
    }
}

void explore_canonical_local(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_up) {
            forget_past(local_at(model, w, i), explore_now_ns(i));
            forget_requests(model, w, local_at(model, w, i));
        }
    }
    forget_answers(model, w);
    explore_canonical_lives(model, w);
}
