/* src/protocols/local_tree.c - collating answers on their way to the leader; see local_tree.h. */
#include "protocols/local_tree.h"

/* The index of `id` in the request's set, counted from the candidate, which is the root. */
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
    CV_ASSERT(place < l->member_count);
    cv_id at = root;
    for (; place > 0; place--) {
        const cv_id next = cv__set_next(set, at + 1, l->member_count);
        at = next != CV_ID_NONE ? next : cv__set_next(set, 1, l->member_count);
    }
    CV_ASSERT(at != CV_ID_NONE);
    return at;
}

void cv__local_tree_pass_up(struct local *l, struct cv_effects *out)
{
    if (l->gather_for == CV_ID_NONE) {
        return;
    }
    CV_ASSERT(l->gather_to != CV_ID_NONE);
    CV_ASSERT(l->gather_to != l->self);
    const uint32_t words = cv__set_words(l->member_count);
    local_collated_write(
        cv__effect_send(out, l->gather_to, LOCAL_COLLATED),
        (struct local_collated){
            .request = (uint64_t)l->gather_request_ns,
            .token = l->gather_token,
            .candidate = l->gather_for,
            .replied = cv__effect_list(out, set_of(l, SET_GATHERED), words),
            .support = cv__effect_list(out, set_of(l, SET_GATHERED_SUPPORT), words),
            .passive = cv__effect_list(out, set_of(l, SET_GATHERED_PASSIVE), words),
        });
    l->gather_for = CV_ID_NONE;
    cv__effect_disarm(out, LOCAL_TIMER_COLLATE);
}

/* The tree is for renewals of a leader that has our support: it asks for the token it leads with.
 *
 * (BI) An answer that gets lost in the tree must be followed by a direct one to the next ELECTION,
 * because `expires` covers two of them: least_expires_ns() in local_config.c. The next one is
 * - the same request, repeated because not all answered it. It is answered directly, and so are
 *   later ones for a while, since our path up the tree may be broken;
 * - a request for another token: a refusal ended the one before, whether or not others answered it;
 * - a request of a process that does not lead any more;
 * - another renewal. Then the one before succeeded, which needed our answer, since we are alive; or
 *   it was given up after lock/2. In that case the lost answer was to a repetition, since
 *   lock/2 > ep + sigma, and repetitions are answered directly. */
static bool is_way_up(struct local *l, const struct local_election *election, cv_id from,
                      int64_t now_ns)
{
    const uint64_t *tree = election->alive.word;
    const bool is_renewal = election->leading != 0 && election->token == election->leading;
    if (l->collate == 0 || !is_renewal || !cv__set_has(election->support.word, l->self)) {
        return false; /* requests of others must not hide a repetition of our leader's */
    }
    const bool is_repeat = election->request == (uint64_t)l->answered_request_ns;
    l->answered_request_ns = (int64_t)election->request;
    if (is_repeat) {
        l->direct_until_ns = now_ns + l->expires_ns;
    }
    return now_ns >= l->direct_until_ns && cv__set_has(tree, l->self) && cv__set_has(tree, from);
}

/* Begins to gather answers to this request, beginning with our own. */
static void gather_own(struct local *l, const struct local_election *election, cv_id root,
                       bool supports, uint64_t floor)
{
    CV_ASSERT(root != l->self);
    l->gather_for = root;
    l->gather_request_ns = (int64_t)election->request;
    l->gather_token = floor;
    cv__set_clear(set_of(l, SET_WAITED), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED_SUPPORT), l->member_count);
    cv__set_clear(set_of(l, SET_GATHERED_PASSIVE), l->member_count);
    cv__set_add(set_of(l, SET_GATHERED), l->self);
    if (supports) {
        cv__set_add(set_of(l, SET_GATHERED_SUPPORT), l->self);
    }
    if (is_passive(l)) {
        cv__set_add(set_of(l, SET_GATHERED_PASSIVE), l->self);
    }
}

bool cv__local_tree_answer(struct local *l, const struct cv_event *event, bool supports,
                           uint64_t floor, struct cv_effects *out)
{
    const struct local_election election = local_election_read(event->message);
    const cv_id root = event->peer;
    if (!is_way_up(l, &election, root, event->now_ns)) {
        return false;
    }
    const uint64_t *tree = election.alive.word;
    const uint32_t count = cv__set_count(tree, l->member_count);
    const uint32_t place = place_of(l, tree, root, l->self);
    CV_ASSERT(place >= 1); /* the root (0) asks and does not answer */
    CV_ASSERT(place < count);
    gather_own(l, &election, root, supports, floor);
    l->gather_to = id_at(l, tree, root, (place - 1) / l->collate);
    CV_ASSERT(l->gather_to != l->self); /* a parent's place is smaller than its child's */
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
    /* Half of Delta for each level below: still in time if one of them is silent. */
    const int64_t until_ns =
        event->now_ns + cv__min64(height * l->delta_ns / 2, l->wait_ns * 3 / 4);
    cv__effect_arm(out, LOCAL_TIMER_COLLATE, until_ns, until_ns);
    return true;
}

/* Directly to the candidate: our own answer has been passed up already, or was sent directly. */
static void forward(struct local *l, struct local_collated answers, struct cv_effects *out)
{
    CV_ASSERT(answers.candidate != l->self);
    const uint32_t words = cv__set_words(l->member_count);
    /* The lists of a received message are only lent. */
    answers.replied = cv__effect_list(out, answers.replied.word, words);
    answers.support = cv__effect_list(out, answers.support.word, words);
    answers.passive = cv__effect_list(out, answers.passive.word, words);
    local_collated_write(cv__effect_send(out, answers.candidate, LOCAL_COLLATED), answers);
}

void cv__local_tree_gather(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct local_collated answers = local_collated_read(event->message);
    if (answers.candidate != l->gather_for || answers.request != (uint64_t)l->gather_request_ns) {
        cv__effect_note(out,
                        "answers passed on as they are: gathers none for request {number} of "
                        "{peer}",
                        answers.candidate, 0, answers.request);
        forward(l, answers, out);
        return;
    }
    cv__set_unite(set_of(l, SET_GATHERED), answers.replied.word, l->member_count);
    cv__set_unite(set_of(l, SET_GATHERED_SUPPORT), answers.support.word, l->member_count);
    cv__set_unite(set_of(l, SET_GATHERED_PASSIVE), answers.passive.word, l->member_count);
    CV_ASSERT(cv__set_has(set_of(l, SET_GATHERED), l->self)); /* its own answer is among them */
    l->gather_token = cv__max_u64(l->gather_token, answers.token);
    if (!cv__set_has(set_of(l, SET_WAITED), event->peer)) {
        cv__effect_note(out, "answers of {peer} to request {number} are not waited for",
                        event->peer, 0, answers.request);
    }
    cv__set_remove(set_of(l, SET_WAITED), event->peer);
    if (cv__set_count(set_of(l, SET_WAITED), l->member_count) == 0) {
        cv__local_tree_pass_up(l, out);
    }
}
