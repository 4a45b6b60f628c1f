/* src/protocols/local_tree.c - collating answers on their way to the leader; see local_tree.h. */
#include "protocols/local_tree.h"

/* The place of `id` in the request's set, counted from the candidate, which is the root. */
static uint32_t place_of(const struct local *l, const uint64_t *set, cv_id root, cv_id id)
{
    uint32_t place = 0;
    cv_id at = root;
    while (at != id) {
        const cv_id next = cv__set_next(set, at + 1, l->member_count);
        at = next != CV_ID_NONE ? next : cv__set_next(set, 1, l->member_count);
        place++;
        CV_ASSERT(place <= l->member_count);
    }
    return place;
}

static cv_id id_at(const struct local *l, const uint64_t *set, cv_id root, uint32_t place)
{
    cv_id at = root;
    for (; place > 0; place--) {
        const cv_id next = cv__set_next(set, at + 1, l->member_count);
        at = next != CV_ID_NONE ? next : cv__set_next(set, 1, l->member_count);
    }
    return at;
}

void cv__local_tree_pass_up(struct local *l, struct cv_effects *out)
{
    if (l->gather_for == CV_ID_NONE) {
        return;
    }
    const uint32_t words = cv__set_words(l->member_count);
    struct cv_message *m = cv__effect_send(out, l->gather_to, COLLATED);
    m->field[REQUEST] = (uint64_t)l->gather_request_ns;
    m->field[TOKEN] = l->gather_token;
    m->field[COLLATED_CANDIDATE] = l->gather_for;
    m->list[COLLATED_REPLIED] = cv__effect_list(out, set_of(l, SET_GATHERED), words);
    m->list[COLLATED_SUPPORT] = cv__effect_list(out, set_of(l, SET_GATHERED_SUPPORT), words);
    m->list[COLLATED_ASIDE] = cv__effect_list(out, set_of(l, SET_GATHERED_ASIDE), words);
    l->gather_for = CV_ID_NONE;
    cv__effect_disarm(out, TIMER_COLLATE);
}

/* The tree is for renewals of a leader that has our support. A request that comes again was not
 * answered completely: then directly, and for a while, since our way up the tree may be broken. */
static bool is_way_up(struct local *l, const struct cv_event *event)
{
    const struct cv_message *m = event->message;
    const uint64_t *tree = m->list[ELECTION_ALIVE].word;
    if (l->collate == 0 || m->field[ELECTION_LEADING] == 0 ||
        !cv__set_has(m->list[ELECTION_SUPPORT].word, l->self)) {
        return false; /* what others ask in between must not hide that our leader asks again */
    }
    const bool is_repeat = m->field[REQUEST] == (uint64_t)l->answered_request_ns;
    l->answered_request_ns = (int64_t)m->field[REQUEST];
    if (is_repeat) {
        l->direct_until_ns = event->now_ns + l->expires_ns;
    }
    return event->now_ns >= l->direct_until_ns && cv__set_has(tree, l->self) &&
           cv__set_has(tree, event->peer);
}

bool cv__local_tree_answer(struct local *l, const struct cv_event *event, bool supports,
                           uint64_t floor, struct cv_effects *out)
{
    if (!is_way_up(l, event)) {
        return false;
    }
    const uint64_t *tree = event->message->list[ELECTION_ALIVE].word;
    const cv_id root = event->peer;
    const uint32_t count = cv__set_count(tree, l->member_count);
    const uint32_t place = place_of(l, tree, root, l->self);
    l->gather_for = root;
    l->gather_to = id_at(l, tree, root, (place - 1) / l->collate);
    l->gather_request_ns = (int64_t)event->message->field[REQUEST];
    l->gather_token = floor;
    cv__set_clear(set_of(l, SET_WAITED), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED_SUPPORT), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED_ASIDE), l->member_count);
    cv__set_add(set_of(l, SET_GATHERED), l->self);
    if (supports) {
        cv__set_add(set_of(l, SET_GATHERED_SUPPORT), l->self);
    }
    if (!stands(l)) {
        cv__set_add(set_of(l, SET_GATHERED_ASIDE), l->self);
    }
    uint32_t height = 0;
    for (uint32_t child = place * l->collate + 1; child < count; child = child * l->collate + 1) {
        height++;
    }
    for (uint32_t i = 1; i <= l->collate && place * l->collate + i < count; i++) {
        cv__set_add(set_of(l, SET_WAITED), id_at(l, tree, root, place * l->collate + i));
    }
    if (height == 0) {
        cv__local_tree_pass_up(l, out);
        return true;
    }
    /* Half of Delta for each level below: in time all the same if one of them is silent. */
    const int64_t until_ns =
        event->now_ns + cv__min64(height * l->delta_ns / 2, l->wait_ns * 3 / 4);
    cv__effect_arm(out, TIMER_COLLATE, until_ns, until_ns);
    return true;
}

/* Straight on to the candidate: ours has been passed up already, or went directly. */
static void forward(struct local *l, const struct cv_message *m, struct cv_effects *out)
{
    const uint32_t words = cv__set_words(l->member_count);
    struct cv_message *on = cv__effect_send(out, (cv_id)m->field[COLLATED_CANDIDATE], COLLATED);
    *on = *m;
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        on->list[i] = cv__effect_list(out, m->list[i].word, words); /* m is only lent */
    }
}

void cv__local_tree_gather(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    if (m->field[COLLATED_CANDIDATE] != l->gather_for ||
        m->field[REQUEST] != (uint64_t)l->gather_request_ns) {
        forward(l, m, out);
        return;
    }
    cv__set_unite(set_of(l, SET_GATHERED), m->list[COLLATED_REPLIED].word, l->member_count);
    cv__set_unite(set_of(l, SET_GATHERED_SUPPORT), m->list[COLLATED_SUPPORT].word, l->member_count);
    cv__set_unite(set_of(l, SET_GATHERED_ASIDE), m->list[COLLATED_ASIDE].word, l->member_count);
    l->gather_token = m->field[TOKEN] > l->gather_token ? m->field[TOKEN] : l->gather_token;
    cv__set_remove(set_of(l, SET_WAITED), event->peer);
    if (cv__set_count(set_of(l, SET_WAITED), l->member_count) == 0) {
        cv__local_tree_pass_up(l, out);
    }
}
