/* src/explore/canonical_local.c - scratch, instants that have passed, and tokens; see
 * canonical.h. */
#include "explore/canonical.h"
#include "protocols/local_alive.h"
#include "protocols/local_state.h"

const char *const explore_local_timers[CV_TIMERS_MAX] = {
    [LOCAL_TIMER_ALIVE] = "alive", [LOCAL_TIMER_RELEASE] = "release", [LOCAL_TIMER_LAPSE] = "lapse",
    [LOCAL_TIMER_LOCK] = "lock",   [LOCAL_TIMER_COLLATE] = "collate",
};

/* Indices of the fields of messages: LOCAL_ELECTION_FIELDS, LOCAL_RELEASE_FIELDS and REPLY. */
enum {
    WORD_LIFE = 0,
    WORD_REQUEST = 1,
    WORD_TOKEN = 2,
    WORD_ELECTION_TURN = 4,
    WORD_ELECTION_LEADING = 5,
    WORD_RELEASE_TURN = 5,
    WORD_REPLY_REQUEST = 0,
    WORD_REPLY_TOKEN = 1,
    WORD_REPLY_TURN = 6,
};

static struct local *local_at(const struct explore_model *model, struct explore_world *w,
                              uint32_t node)
{
    return (struct local *)explore_node_at(model, w, node)->core;
}

/* Is a message of that type and life in flight that names this request or an earlier one? No other
 * can come any more: a process names its requests by its clock, and releases the latest. */
static bool may_be_named(const struct explore_model *model, struct explore_world *w, uint32_t type,
                         uint32_t from, uint64_t life, uint64_t request)
{
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER && m->type == type && m->from == from &&
            m->word[WORD_LIFE] == life && m->word[WORD_REQUEST] <= request) {
            return true;
        }
    }
    return false;
}

/* What a process knows of another, and of itself. These instants are only compared with the present
 * one, which only grows. */
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
    /* The order of the two instants is kept: it shows whether the peer asked again. */
    const int64_t past_ns = now_ns - cv__max64(l->expires_ns, taken_ns) - 1;
    if (peer->deaf_since_ns != 0) {
        peer->deaf_since_ns = cv__max64(peer->deaf_since_ns, past_ns - 1);
    }
    if (peer->asked_ns <= past_ns) {
        peer->asked_ns = peer->deaf_since_ns != 0 ? past_ns : 0;
    }
    peer->gone_until_ns = peer->gone_until_ns <= now_ns ? 0 : peer->gone_until_ns;
}

/* Requests that are kept to be compared with later messages, if the result of that comparison is
 * already certain. */
static void forget_requests(const struct explore_model *model, struct explore_world *w,
                            struct local *l)
{
    for (cv_id id = 1; id <= l->member_count; id++) {
        struct local_peer *peer = peer_of(l, id);
        if (peer->released_life != 0 &&
            !may_be_named(model, w, LOCAL_ELECTION, id - 1, peer->released_life,
                          peer->released_request)) {
            peer->released_life = 0;
            peer->released_request = 0;
        }
    }
    /* A leader asserts that its own lock is not older than its request. */
    const uint64_t before = (uint64_t)l->locked_request_ns - 1;
    if (l->locked_to != CV_ID_NONE && l->locked_to != l->self && l->locked_request_ns > 1 &&
        !may_be_named(model, w, LOCAL_ELECTION, l->locked_to - 1, l->locked_life, before) &&
        !may_be_named(model, w, LOCAL_RELEASE, l->locked_to - 1, l->locked_life, before)) {
        l->locked_request_ns = 1;
    }
}

/* A RELEASE names the latest request that it frees, and frees all before it. So a released request
 * matters only by which of the remaining requests come before it: those in an ELECTION, in a lock,
 * or open. Later requests have later instants. */
static int64_t latest_until(const struct explore_model *model, struct explore_world *w,
                            uint32_t node, uint64_t life, int64_t until_ns)
{
    int64_t latest_ns = explore_now_ns(node) - model->horizon_ns;
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        const int64_t request_ns = (int64_t)m->word[WORD_REQUEST];
        if (m->kind == EXPLORE_PEER && m->type == LOCAL_ELECTION && m->from == node &&
            m->word[WORD_LIFE] == life && request_ns <= until_ns) {
            latest_ns = cv__max64(latest_ns, request_ns);
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct local *l = local_at(model, w, i);
        const int64_t request_ns = i == node ? l->request_ns : l->locked_request_ns;
        const bool is_of_it =
            i == node ? l->life == life : l->locked_to == node + 1 && l->locked_life == life;
        if (explore_node_at(model, w, i)->is_up && is_of_it && request_ns <= until_ns) {
            latest_ns = cv__max64(latest_ns, request_ns);
        }
    }
    return cv__min64(latest_ns, until_ns);
}

static void forget_released(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct local *l = local_at(model, w, i);
        if (!explore_node_at(model, w, i)->is_up || l->collate != 0) {
            continue;
        }
        for (cv_id id = 1; id <= l->member_count; id++) {
            struct local_peer *peer = peer_of(l, id);
            if (peer->released_life != 0) {
                peer->released_request = (uint64_t)latest_until(
                    model, w, id - 1, peer->released_life, (int64_t)peer->released_request);
            }
        }
        /* A request of this instant keeps the process from asking again in the same instant. */
        if (l->request_ns == 0 && l->asked_ns != 0 && l->asked_ns != explore_now_ns(i)) {
            l->asked_ns = latest_until(model, w, i, l->life, l->asked_ns);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER && m->type == LOCAL_RELEASE) {
            m->word[WORD_REQUEST] = (uint64_t)latest_until(model, w, m->from, m->word[WORD_LIFE],
                                                           (int64_t)m->word[WORD_REQUEST]);
        }
    }
}

/* A floor below the token that the process has accepted has no effect any more, once no answer can
 * come with such a small floor: a process that refuses a request has accepted a token that is not
 * smaller. */
static void forget_floor(const struct explore_model *model, struct explore_world *w, uint32_t node)
{
    struct local *l = local_at(model, w, node);
    bool is_over = l->token_floor < l->token_seen && l->collate == 0;
    for (uint32_t i = 0; is_over && i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        const bool asks =
            m->type == LOCAL_ELECTION && m->from == node && m->word[WORD_TOKEN] <= l->token_floor;
        const bool refuses = m->type == LOCAL_REPLY && m->to == node &&
                             /* 0 - 1: not smaller */
                             m->word[WORD_REPLY_TOKEN] - 1 < l->token_floor;
        is_over = m->kind != EXPLORE_PEER || (!asks && !refuses);
    }
    if (is_over) {
        l->token_floor = 0;
    }
}

/* A request is not opened again, so all answers to requests that are not open are equivalent. */
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
    if (l->request_ns == 0) { /* the next request sets all of these */
        cv__set_clear(set_of(l, SET_REPLY), l->member_count);
        cv__set_clear(set_of(l, SET_TARGET), l->member_count);
        l->request_token = 0;
    }
    if (!is_leading(l) && l->request_ns == 0) {
        cv__set_clear(set_of(l, SET_SUPPORT), l->member_count);
    }
    if (l->locked_until_ns != 0) { /* how long the lock has been over does not matter */
        l->locked_until_ns = cv__max64(l->locked_until_ns, now_ns);
    }
    if (l->earlier_until_ns <= now_ns) {
        l->earlier_until_ns = 0;
    }
    if (!is_leading(l) && l->led_token < l->token_seen &&
        (l->request_ns == 0 || l->led_token < l->request_token)) {
        l->led_token = 0; /* every later request is for a larger token anyway */
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

static void add_tokens(struct explore_tokens *tokens, uint64_t *const *place, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        explore_tokens_add(tokens, place[i]);
    }
}

static void add_tokens_of_message(struct explore_tokens *tokens, struct explore_message *m)
{
    switch (m->type) {
    case LOCAL_ELECTION:
        add_tokens(tokens,
                   (uint64_t *const[]){&m->word[WORD_TOKEN], &m->word[WORD_ELECTION_TURN],
                                       &m->word[WORD_ELECTION_LEADING]},
                   3);
        break;
    case LOCAL_REPLY:
        add_tokens(tokens,
                   (uint64_t *const[]){&m->word[WORD_REPLY_TOKEN], &m->word[WORD_REPLY_TURN]}, 2);
        break;
    case LOCAL_RELEASE:
        add_tokens(tokens, (uint64_t *const[]){&m->word[WORD_TOKEN], &m->word[WORD_RELEASE_TURN]},
                   2);
        break;
    case LOCAL_ECHO:
        break;
    default:
        tokens->is_fixed = true; /* the tokens in COLLATED are not found */
    }
}

static void canonical_tokens(const struct explore_model *model, struct explore_world *w)
{
    struct explore_tokens tokens = {.count = 0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        struct local *l = local_at(model, w, i);
        explore_tokens_add_records(&tokens, n, 0);
        tokens.is_fixed = tokens.is_fixed || explore_tokens_may_begin(model, w, i);
        if (!n->is_up) {
            continue;
        }
        tokens.is_fixed = tokens.is_fixed || l->token_seen == 0 || l->collate != 0;
        uint64_t *const place[] = {&l->token_seen, &l->reserved_token, &l->token_floor,
                                   &l->led_token,  &l->token,          &l->leader_token,
                                   &l->turn_token, &l->request_token};
        add_tokens(&tokens, place, COUNT_OF(place));
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER) {
            add_tokens_of_message(&tokens, m);
        }
    }
    explore_canonical_tokens(model, w, &tokens);
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
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (explore_node_at(model, w, i)->is_up) {
            forget_floor(model, w, i);
        }
    }
    forget_released(model, w);
    forget_answers(model, w);
    canonical_tokens(model, w);
    explore_canonical_lives(model, w);
}
