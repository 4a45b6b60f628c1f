/* src/protocols/local.c - the highly available local leader election service [Fetzer99]: the lowest
 * id that everybody connected to it supports leads; one leader in each logical partition, or one in
 * the whole system with `majority`.
 *
 * Messages are fast (their delay is known to be at most Delta) or slow; core/failaware.h says how a
 * receiver knows. Who has been heard by a fast ELECTION or REPLY within `expires` is alive. The
 * lowest living id asks for support every `ep` (ELECTION), and each supporter locks itself to it
 * for `lock`, so that it supports nobody else meanwhile. With the support of everybody alive a
 * candidate leads until lock(1-2 rho) after it *sent* the request: its time is over on its own
 * clock, without any message, before the first of its supporters can support another.
 *
 * Why two leaders never share a supporter (SO): a supporter's lock begins at or after the request
 * was sent and lasts `lock` on a clock that differs by at most 2 rho. Only three things end a lock
 * early, and each is said by, or on behalf of, the very process it is for, after its leadership has
 * ended: RELEASE of a failed attempt, of a leader that stepped down, and of one whose host saw it
 * die.
 *
 * Ours, and why it is safe:
 * - RELEASE does not refresh the alive set, and a leader whose renewal failed does not release.
 * - An unanswered renewal is repeated as the same request, and answers add up: a repeated ELECTION
 *   only prolongs locks, and the leadership still counts from the request's first sending.
 * - RELEASE frees all requests up to the one it names; the sender never counts answers to them
 * again.
 * - Tokens: an ELECTION proposes a token, a supporter saves it before it answers, and refuses one
 *   that is not larger than the largest it accepted, except the same owner's. A leadership that
 *   lapsed is over before any other event is handled, and its token is not used again. With
 *   `majority` any two leaderships share a supporter, so tokens grow globally; without, only along
 *   the lineage of a partition.
 * - Succession: the orphans of a leader stand up one after the other in id order, not all at once.
 * - Standing aside (resigned, or no candidate): such a process supports and is asked, but does not
 *   count when the lowest is looked for.
 * - Turns (`rotate`): ids are ordered from the one whose turn it is, which RELEASE and ELECTION
 * tell.
 * - Collation (`collate`, fig. 28): answers go up a tree over the request's alive set. A supporter
 *   locks when it hears the ELECTION, whichever way its answer takes.
 * - A request can succeed only if the candidate's first one is more than Delta old, the time in
 * which everybody connected has answered it, however soon the next one followed (BI).
 * - ECHO answers a slow ELECTION, so that the next one has a recent stamp to compute a bound from.
 * A fast ECHO makes its sender alive like a REPLY: two processes that have not talked for long are
 *   connected all the same, and the second request must not succeed without the other (BI).
 *
 * Assumed: clocks drift by at most rho (safety); messages within delta and prompt processes for
 * kappa (liveness). What a process accepted survives its crash; if it may not, it takes part no
 * more. */
#include "protocols/local_config.h"
#include "protocols/local_tree.h"

static const struct cv_message_type local_messages[MESSAGE_COUNT] = {
    [ELECTION] = {"ELECTION",
                  {{"request", CV_FIELD_U64},
                   {"token", CV_FIELD_U64},
                   {"turn", CV_FIELD_ID},
                   {"turn_token", CV_FIELD_U64},
                   {"leading", CV_FIELD_U64},
                   {"alive", CV_FIELD_SET},
                   {"support", CV_FIELD_SET}}},
    [REPLY] = {"REPLY",
               {{"request", CV_FIELD_U64},
                {"token", CV_FIELD_U64},
                {"supports", CV_FIELD_FLAG},
                {"aside", CV_FIELD_FLAG},
                {"turn", CV_FIELD_ID},
                {"turn_token", CV_FIELD_U64}}},
    [COLLATED] = {"COLLATED",
                  {{"request", CV_FIELD_U64},
                   {"token", CV_FIELD_U64},
                   {"candidate", CV_FIELD_ID},
                   {"replied", CV_FIELD_SET},
                   {"support", CV_FIELD_SET},
                   {"aside", CV_FIELD_SET}}},
    [RELEASE] = {"RELEASE",
                 {{"request", CV_FIELD_U64},
                  {"token", CV_FIELD_U64},
                  {"gone", CV_FIELD_FLAG},
                  {"turn", CV_FIELD_ID},
                  {"turn_token", CV_FIELD_U64}}},
    [ECHO] = {"ECHO", {{"aside", CV_FIELD_FLAG}}},
};

static size_t local_size(const struct cv_config *config)
{
    const uint32_t n = config->member_count;
    return sizeof(struct local) + (SET_COUNT * cv__set_words(n) + n) * sizeof(uint64_t);
}

static void local_init(void *state, const struct cv_config *config)
{
    struct local *l = state;
    const int64_t *o = config->option;
    l->self = config->self;
    l->member_count = config->member_count;
    l->min_supporters = o[LOCAL_OPTION_MAJORITY] ? config->member_count / 2 + 1 : 1;
    l->collate = (uint32_t)o[LOCAL_OPTION_COLLATE];
    l->delta_ns = o[LOCAL_OPTION_DELTA];
    l->delta_min_ns = o[LOCAL_OPTION_DELTA_MIN];
    l->sigma_ns = o[LOCAL_OPTION_SIGMA];
    l->ep_ns = o[LOCAL_OPTION_EP];
    l->expires_ns = o[LOCAL_OPTION_EXPIRES];
    l->lock_ns = o[LOCAL_OPTION_LOCK];
    l->rotate_ns = o[LOCAL_OPTION_ROTATE];
    l->lead_ns = cv__local_lead_ns(config);
    l->wait_ns = cv__local_stretch(config, 2 * o[LOCAL_OPTION_DELTA]);
    l->has_succession = (uint32_t)o[LOCAL_OPTION_SUCCESSION];
    l->is_candidate = true;
    l->turn = 1;
}

static void local_check(const void *state)
{
    const struct local *l = state;
    CV_ASSERT(!l->leads || l->leader == l->self);
    CV_ASSERT(!l->leads || l->token <= l->led_token);
    CV_ASSERT(l->led_token <= l->token_seen);
    CV_ASSERT(l->request_ns <= l->asked_ns);
    CV_ASSERT(l->turn >= 1 && l->turn <= l->member_count);
    CV_ASSERT(l->locked_to <= l->member_count && l->leader <= l->member_count);
}

/* ---- Who is alive, and who of them is first -------------------------------------------------- */

/* The first in the order of turns: from `turn` upwards, then from 1. */
static cv_id first_of(const struct local *l, const uint64_t *set)
{
    const cv_id id = cv__set_next(set, l->turn, l->member_count);
    return id != CV_ID_NONE ? id : cv__set_next(set, 1, l->member_count);
}

static bool is_before(const struct local *l, cv_id a, cv_id b)
{
    return (a + l->member_count - l->turn) % l->member_count <
           (b + l->member_count - l->turn) % l->member_count;
}

/* Removes whom nobody heard for `expires`, oneself included. Returns the first instant at which
 * this process could be the first of those alive, if it hears none of those before it again: no
 * earlier candidacy makes sense, so no polling is needed [Fetzer99, sec. VIII]. */
static int64_t purge(struct local *l, int64_t now_ns)
{
    uint64_t *alive = set_of(l, SET_ALIVE);
    int64_t first_ns = now_ns;
    for (cv_id id = 1; (id = cv__set_next(alive, id, l->member_count)) != CV_ID_NONE; id++) {
        const int64_t until_ns = *heard_of(l, id) + l->expires_ns;
        if (until_ns < now_ns) {
            cv__set_remove(alive, id);
            cv__set_remove(set_of(l, SET_ASIDE), id);
        } else if (is_before(l, id, l->self) && !cv__set_has(set_of(l, SET_ASIDE), id)) {
            first_ns = cv__max64(first_ns, until_ns + 1);
        }
    }
    return first_ns;
}

static void mark_alive(struct local *l, cv_id id, bool is_aside, int64_t now_ns)
{
    cv__set_add(set_of(l, SET_ALIVE), id);
    *heard_of(l, id) = now_ns;
    if (is_aside) {
        cv__set_add(set_of(l, SET_ASIDE), id);
    } else {
        cv__set_remove(set_of(l, SET_ASIDE), id);
    }
}

/* The first of those alive that stand, or none. */
static cv_id first_alive(struct local *l)
{
    uint64_t *scratch = set_of(l, SET_SCRATCH);
    const uint64_t *alive = set_of(l, SET_ALIVE);
    const uint64_t *aside = set_of(l, SET_ASIDE);
    for (uint32_t i = 0; i < cv__set_words(l->member_count); i++) {
        scratch[i] = alive[i] & ~aside[i];
    }
    return first_of(l, scratch);
}

/* The turn that was set latest counts. True: it is another one than before. */
static bool take_turn(struct local *l, uint64_t turn, uint64_t turn_token)
{
    /* Two partitions may have set a turn with the same token: the larger id counts. */
    if (turn_token < l->turn_token || (turn_token == l->turn_token && turn <= l->turn)) {
        return false;
    }
    l->turn = (cv_id)turn;
    l->turn_token = turn_token;
    return true;
}

/* ---- Leadership ------------------------------------------------------------------------------ */

static void tell(struct local *l, enum cv_reason reason, const uint64_t *members,
                 struct cv_effects *out)
{
    struct cv_leadership leadership = {
        .is_self = l->leads,
        .leader = l->leader,
        .reason = reason,
        .token = l->leader != CV_ID_NONE ? l->leader_token : 0,
        .valid_until_ns = l->leads ? l->expiration_ns : 0,
    };
    if (members != NULL) {
        const uint32_t count = cv__set_count(members, l->member_count);
        leadership.has_majority = 2 * count > l->member_count;
        leadership.members = cv__effect_list(out, members, cv__set_words(l->member_count));
    }
    cv__effect_leadership(out, &leadership);
}

static void forget_leader(struct local *l, enum cv_reason reason, struct cv_effects *out)
{
    if (l->leader != CV_ID_NONE) {
        l->leader = CV_ID_NONE;
        l->leader_token = 0;
        tell(l, reason, NULL, out);
    }
}

static void unlock(struct local *l)
{
    l->locked_to = CV_ID_NONE;
    l->locked_until_ns = 0;
    l->locked_request_ns = 0;
}

/* Gives up every request so far, after any leadership on one has ended: whoever is locked to us for
 * one of them is free. */
static void release(struct local *l, bool is_gone, struct cv_effects *out)
{
    CV_ASSERT(!l->leads);
    l->request_ns = 0;
    cv__effect_disarm(out, TIMER_RELEASE);
    if (l->asked_ns == 0) {
        return;
    }
    struct cv_message *m = cv__effect_send_all(out, RELEASE);
    m->field[REQUEST] = (uint64_t)l->asked_ns;
    m->field[TOKEN] = l->token_seen;
    m->field[RELEASE_GONE] = is_gone;
    m->field[RELEASE_TURN] = l->turn;
    m->field[RELEASE_TURN_TOKEN] = l->turn_token;
    if (l->locked_to == l->self) {
        unlock(l);
    }
}

/* The leadership ends: by the clock, by request or for somebody before us. */
static void step_down(struct local *l, enum cv_reason reason, struct cv_effects *out)
{
    CV_ASSERT(l->leads);
    l->leads = false;
    if (l->collate > 0) {
        /* Answers to our latest request may have been lost on their way up the tree: the next one
         * is a first one again, which everybody answers directly (BI). */
        cv__set_remove(set_of(l, SET_ALIVE), l->self);
    }
    cv__effect_disarm(out, TIMER_LAPSE);
    forget_leader(l, reason, out);
    release(l, /* is_gone= */ !stands(l), out);
}

/* checkIfLeader succeeded: the request carries a leadership, new or renewed. */
static void lead(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    const bool is_renewal = l->leads && l->request_token == l->token;
    cv__set_copy(set_of(l, SET_SUPPORT), set_of(l, SET_REPLY), l->member_count);
    CV_ASSERT(cv__set_has(set_of(l, SET_SUPPORT), l->self)); /* LS */
    CV_ASSERT(is_renewal || l->request_token > l->led_token);
    l->expiration_ns = l->request_ns + l->lead_ns;
    l->request_ns = 0;
    l->token = l->request_token;
    l->led_token = l->token;
    l->turn_began_ns = is_renewal ? l->turn_began_ns : now_ns;
    l->leads = true;
    l->leader = l->self;
    l->leader_token = l->token;
    tell(l, is_renewal ? CV_REASON_RENEWED : CV_REASON_ELECTED, set_of(l, SET_SUPPORT), out);
    cv__effect_disarm(out, TIMER_RELEASE);
    cv__effect_arm(out, TIMER_LAPSE, l->expiration_ns, l->expiration_ns);
}

/* [Fetzer99, fig. 30, checkIfLeader] */
static bool may_lead(struct local *l, int64_t now_ns)
{
    (void)purge(l, now_ns);
    const uint64_t *reply = set_of(l, SET_REPLY);
    const bool is_fresh = l->leads ? l->request_token >= l->token : l->request_token > l->led_token;
    return l->request_ns != 0 && stands(l) && is_fresh &&
           cv__set_has(set_of(l, SET_TARGET), l->self) && cv__set_has(reply, l->self) &&
           cv__set_is_subset(set_of(l, SET_ALIVE), reply, l->member_count) &&
           first_alive(l) == l->self &&
           cv__set_count(reply, l->member_count) >= l->min_supporters &&
           now_ns < l->request_ns + l->lead_ns;
}

/* As soon as everybody asked has answered. */
static void check_early(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->request_ns != 0 && cv__set_has(set_of(l, SET_TARGET), l->self) &&
        cv__set_is_subset(set_of(l, SET_TARGET), set_of(l, SET_REPLY), l->member_count) &&
        may_lead(l, now_ns)) {
        lead(l, now_ns, out);
    }
}

/* ---- Supporting ------------------------------------------------------------------------------ */

static void save(const struct local *l, struct cv_effects *out)
{
    const uint64_t record[] = {l->token_seen, l->token_owner};
    cv__effect_persist(out, record, COUNT_OF(record));
}

/* A token that is not larger than the largest accepted, unless it is that very one again. */
static bool is_old_token(const struct local *l, cv_id candidate, uint64_t token)
{
    return token < l->token_seen || (token == l->token_seen && l->token_owner != candidate);
}

/* Does this process support that request? If so, it is locked to it from now on. */
static bool support(struct local *l, cv_id candidate, int64_t request_ns, uint64_t token,
                    int64_t now_ns, struct cv_effects *out)
{
    const bool is_locked_elsewhere =
        l->locked_to != CV_ID_NONE && l->locked_to != candidate && now_ns < l->locked_until_ns;
    const bool is_first = first_alive(l) == candidate;
    if (now_ns < l->boot_until_ns || is_locked_elsewhere || !is_first ||
        (stands(l) && is_before(l, l->self, candidate)) || is_old_token(l, candidate, token)) {
        return false;
    }
    if (token > l->token_seen) {
        l->token_seen = token;
        l->token_owner = candidate;
        save(l, out); /* before the answer that promises it */
    }
    /* One that was overtaken prolongs the lock, but a RELEASE meant for it alone does not end it.
     */
    const bool is_overtaken = l->locked_to == candidate && request_ns < l->locked_request_ns;
    l->locked_request_ns = is_overtaken ? l->locked_request_ns : request_ns;
    l->locked_to = candidate;
    l->locked_until_ns = now_ns + l->lock_ns;
    cv__effect_arm(out, TIMER_LOCK, l->locked_until_ns, l->locked_until_ns);
    return true;
}

/* ---- Candidacy ------------------------------------------------------------------------------- */

static uint64_t token_to_propose(const struct local *l)
{
    if (l->leads && l->token == l->token_seen && l->token > l->token_floor) {
        return l->token; /* renewal */
    }
    const bool is_own_unused =
        l->token_owner == l->self && l->token_seen > l->led_token && l->token_seen > l->token_floor;
    const uint64_t largest = l->token_floor > l->token_seen ? l->token_floor : l->token_seen;
    return is_own_unused ? l->token_seen : largest + 1;
}

/* Broadcasts ELECTION; a renewal whose answers are not complete is asked again as the same request,
 * as long as there is time left for a new one. */
static void ask(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->leads && l->request_ns != 0 && may_lead(l, now_ns)) {
        lead(l, now_ns,
             out); /* who was missing is not alive any more: that was all it waited for */
    }
    const uint64_t token = token_to_propose(l);
    const int64_t open_ns = l->leads ? l->lock_ns / 2 : l->wait_ns;
    const bool can_succeed = l->leads || cv__set_has(set_of(l, SET_TARGET), l->self);
    const bool is_repeat = l->request_ns != 0 && can_succeed && token == l->request_token &&
                           now_ns - l->request_ns < open_ns;
    if (!is_repeat) {
        l->request_ns = now_ns;
        l->asked_ns = now_ns;
        l->request_token = token;
        cv__set_copy(set_of(l, SET_TARGET), set_of(l, SET_ALIVE), l->member_count);
        if (!cv__set_has(set_of(l, SET_ALIVE), l->self)) {
            l->candidate_since_ns = now_ns;
        }
        if (now_ns - l->candidate_since_ns <= l->wait_ns / 2) {
            cv__set_remove(set_of(l, SET_TARGET), l->self); /* not everybody can have answered */
        }
        cv__set_clear(set_of(l, SET_REPLY), l->member_count);
        cv__effect_arm(out, TIMER_RELEASE, now_ns + l->wait_ns, now_ns + l->wait_ns);
    }
    l->sent_ns = now_ns;
    const uint32_t words = cv__set_words(l->member_count);
    struct cv_message *m = cv__effect_send_all(out, ELECTION);
    m->field[REQUEST] = (uint64_t)l->request_ns;
    m->field[TOKEN] = token;
    m->field[ELECTION_TURN] = l->turn;
    m->field[ELECTION_TURN_TOKEN] = l->turn_token;
    m->field[ELECTION_LEADING] = l->leads ? l->token : 0; /* may differ from the one proposed */
    m->list[ELECTION_ALIVE] = cv__effect_list(out, set_of(l, SET_ALIVE), words);
    if (!l->leads) {
        cv__set_clear(set_of(l, SET_SUPPORT), l->member_count);
    }
    m->list[ELECTION_SUPPORT] = cv__effect_list(out, set_of(l, SET_SUPPORT), words);

    mark_alive(l, l->self, /* is_aside= */ false, now_ns);
    if (support(l, l->self, l->request_ns, token, now_ns, out)) {
        cv__set_add(set_of(l, SET_REPLY), l->self);
    }
    check_early(l, now_ns, out);
    cv__effect_arm(out, TIMER_ALIVE, now_ns + l->ep_ns, now_ns + l->ep_ns);
}

/* When an orphan's turn in the succession comes: one place for each member of the family before it,
 * long enough for that one's ELECTION to be heard. */
static int64_t succession_ns(struct local *l)
{
    const uint64_t *family = set_of(l, SET_FAMILY);
    if (!l->has_succession || !cv__set_has(family, l->self)) {
        return 0;
    }
    int64_t places = 0;
    for (cv_id id = 1; (id = cv__set_next(family, id, l->member_count)) != CV_ID_NONE; id++) {
        places += is_before(l, id, l->self);
    }
    return cv__min64(places * (l->delta_ns + l->sigma_ns), l->expires_ns);
}

static void on_alive_alarm(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->has_resigned && now_ns >= l->resigned_until_ns && l->leader == CV_ID_NONE) {
        l->has_resigned = false; /* nobody succeeded us */
    }
    const int64_t first_ns = purge(l, now_ns);
    if (!stands(l)) {
        cv__effect_arm(out, TIMER_ALIVE, now_ns + l->expires_ns, now_ns + l->expires_ns);
        return;
    }
    if (first_ns > now_ns) {
        l->has_waited = false;
        cv__effect_arm(out, TIMER_ALIVE, first_ns, first_ns);
        return;
    }
    const int64_t wait_ns = l->has_waited || l->leads ? 0 : succession_ns(l);
    l->has_waited = true;
    if (wait_ns > 0) {
        cv__effect_arm(out, TIMER_ALIVE, now_ns + wait_ns, now_ns + wait_ns);
        return;
    }
    if (l->leads && l->rotate_ns > 0 && now_ns - l->turn_began_ns >= l->rotate_ns) {
        const uint64_t *support_set = set_of(l, SET_SUPPORT);
        cv_id heir = cv__set_next(support_set, l->self + 1, l->member_count);
        heir = heir != CV_ID_NONE ? heir : cv__set_next(support_set, 1, l->member_count);
        if (heir != l->self) {
            l->turn = heir;
            l->turn_token = l->token;
            l->has_waited = false;
            step_down(l, CV_REASON_RESIGNED, out);
            cv__effect_arm(out, TIMER_ALIVE, now_ns + l->ep_ns, now_ns + l->ep_ns);
            return;
        }
    }
    ask(l, now_ns, out);
}

static void on_release_alarm(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->request_ns == 0) {
        return;
    }
    if (may_lead(l, now_ns)) {
        lead(l, now_ns, out);
    } else if (!l->leads) {
        const bool has_support = cv__set_count(set_of(l, SET_REPLY), l->member_count) > 0;
        l->request_ns = 0;
        if (has_support) {
            release(l, /* is_gone= */ false, out);
        }
    } /* else: the locks are what the leadership rests on; ask again at the next alarm */
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool is_fast(const struct local *l, const struct cv_event *event)
{
    return event->delay_ns_max - l->delta_min_ns <= l->delta_ns;
}

static void answer_directly(struct local *l, const struct cv_event *event, bool supports,
                            uint64_t floor, struct cv_effects *out)
{
    struct cv_message *m = cv__effect_send(out, event->peer, REPLY);
    m->field[REQUEST] = event->message->field[REQUEST];
    m->field[TOKEN] = floor;
    m->field[REPLY_SUPPORTS] = supports;
    m->field[REPLY_ASIDE] = !stands(l);
    m->field[REPLY_TURN] = l->turn;
    m->field[REPLY_TURN_TOKEN] = l->turn_token;
}

/* The leader's request tells its supporters who they are [Fetzer99, sec. X]. */
static void learn_leader(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    const uint64_t *members = m->list[ELECTION_SUPPORT].word;
    const uint64_t token = m->field[ELECTION_LEADING];
    if (token == 0 || !cv__set_has(members, l->self) || l->locked_to != event->peer ||
        event->now_ns >= l->locked_until_ns ||
        (l->leader == event->peer && token < l->leader_token)) {
        return; /* not ours; or overtaken by a later one */
    }
    const bool is_new = l->leader != event->peer || l->leader_token != token;
    cv__set_copy(set_of(l, SET_FAMILY), members, l->member_count);
    cv__set_remove(set_of(l, SET_FAMILY), event->peer);
    if (is_new) {
        l->leader = event->peer;
        l->leader_token = token;
        tell(l, CV_REASON_ELECTED, members, out);
    }
}

static void on_election(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    if (!is_fast(l, event)) {
        cv__effect_send(out, event->peer, ECHO)->field[ECHO_ASIDE] = !stands(l);
        return;
    }
    (void)take_turn(l, m->field[ELECTION_TURN], m->field[ELECTION_TURN_TOKEN]);
    mark_alive(l, event->peer, /* is_aside= */ false, event->now_ns);
    const int64_t first_ns = purge(l, event->now_ns);
    if (l->leads && stands(l) && first_alive(l) != l->self && is_before(l, event->peer, l->self)) {
        step_down(l, CV_REASON_SUPERSEDED, out); /* for somebody before us: why wait */
    }
    const bool supports =
        support(l, event->peer, (int64_t)m->field[REQUEST], m->field[TOKEN], event->now_ns, out);
    const bool is_old = is_old_token(l, event->peer, m->field[TOKEN]);
    const uint64_t floor = is_old ? l->token_seen : 0;
    if (!cv__local_tree_answer(l, event, supports, floor, out)) {
        answer_directly(l, event, supports, floor, out);
    }
    learn_leader(l, event, out);
    if (first_ns > event->now_ns && stands(l)) {
        if (!l->leads && l->request_ns != 0) {
            l->request_ns = 0; /* no candidate any more */
            release(l, /* is_gone= */ false, out);
        }
        l->has_waited = false;
        cv__effect_arm(out, TIMER_ALIVE, first_ns, first_ns);
    }
}

/* One process's answer to our request, heard directly or by way of the tree. */
static void count_answer(struct local *l, cv_id from, bool supports, bool is_aside, bool is_ours,
                         int64_t now_ns)
{
    mark_alive(l, from, is_aside, now_ns);
    if (is_ours && supports) {
        cv__set_add(set_of(l, SET_REPLY), from);
    }
}

/* Somebody had accepted this token from another (0: nobody had): the next request must top it, and
 * there is no reason to wait with it. */
static void learn_floor(struct local *l, uint64_t token, int64_t now_ns, struct cv_effects *out)
{
    if (token <= l->token_floor) {
        return;
    }
    l->token_floor = token;
    if (!l->leads && stands(l) && purge(l, now_ns) <= now_ns) {
        /* Not before it can succeed: see ask(). */
        const int64_t at_ns = cv__max64(now_ns, l->candidate_since_ns + l->wait_ns / 2 + 1);
        cv__effect_arm(out, TIMER_ALIVE, at_ns, at_ns);
    }
}

/* We asked out of turn: give way, and tell everybody whose turn it is. */
static void yield_turn(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    const int64_t first_ns = purge(l, now_ns);
    if (l->leads && first_ns > now_ns) {
        step_down(l, CV_REASON_SUPERSEDED, out);
    } else if (!l->leads) {
        release(l, /* is_gone= */ false, out);
    }
    cv__effect_arm(out, TIMER_ALIVE, first_ns, first_ns);
}

static void on_reply(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    if (!is_fast(l, event)) {
        return;
    }
    const bool is_ours = l->request_ns != 0 && m->field[REQUEST] == (uint64_t)l->request_ns;
    count_answer(l, event->peer, m->field[REPLY_SUPPORTS], m->field[REPLY_ASIDE], is_ours,
                 event->now_ns);
    learn_floor(l, m->field[TOKEN], event->now_ns, out);
    if (take_turn(l, m->field[REPLY_TURN], m->field[REPLY_TURN_TOKEN])) {
        yield_turn(l, event->now_ns, out);
    }
    check_early(l, event->now_ns, out);
}

static void on_collated(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    if (!is_fast(l, event)) {
        /* Parents say nothing to their children otherwise, and stamps grow old. */
        cv__effect_send(out, event->peer, ECHO)->field[ECHO_ASIDE] = !stands(l);
        return;
    }
    const uint64_t *replied = m->list[COLLATED_REPLIED].word;
    const uint64_t *supports = m->list[COLLATED_SUPPORT].word;
    const uint64_t *aside = m->list[COLLATED_ASIDE].word;
    if (m->field[COLLATED_CANDIDATE] == l->self) {
        const bool is_ours = l->request_ns != 0 && m->field[REQUEST] == (uint64_t)l->request_ns;
        for (cv_id id = 1; (id = cv__set_next(replied, id, l->member_count)) != CV_ID_NONE; id++) {
            if (id != l->self) {
                count_answer(l, id, cv__set_has(supports, id), cv__set_has(aside, id), is_ours,
                             event->now_ns);
            }
        }
        learn_floor(l, m->field[TOKEN], event->now_ns, out);
        check_early(l, event->now_ns, out);
        return;
    }
    mark_alive(l, event->peer, cv__set_has(aside, event->peer), event->now_ns);
    cv__local_tree_gather(l, event, out);
}

/* The sender has given up every request up to this one; whether the message is fast or slow. */
static void on_release(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct cv_message *m = event->message;
    const cv_id from = event->peer;
    (void)take_turn(l, m->field[RELEASE_TURN], m->field[RELEASE_TURN_TOKEN]);
    if (l->locked_to == from && (uint64_t)l->locked_request_ns <= m->field[REQUEST]) {
        unlock(l);
    }
    if (l->leader == from && l->locked_to != from) {
        forget_leader(l, CV_REASON_SUPERSEDED, out);
    }
    if (m->field[RELEASE_GONE] && cv__set_has(set_of(l, SET_ALIVE), from)) {
        cv__set_add(set_of(l, SET_ASIDE), from); /* alive, but not to be waited for */
    }
    const int64_t first_ns = purge(l, event->now_ns);
    if (stands(l) && !l->leads && l->request_ns == 0) {
        cv__effect_arm(out, TIMER_ALIVE, first_ns, first_ns);
    }
}

/* Tokens that nobody counts up to come from a broken peer; there must be room above them. */
static bool has_credible_tokens(const struct cv_message *m)
{
    const uint64_t most = UINT64_C(1) << 62;
    switch (m->type) {
    case ELECTION:
        return m->field[TOKEN] <= most && m->field[ELECTION_TURN_TOKEN] <= most;
    case REPLY:
        return m->field[TOKEN] <= most && m->field[REPLY_TURN_TOKEN] <= most;
    case RELEASE:
        return m->field[TOKEN] <= most && m->field[RELEASE_TURN_TOKEN] <= most;
    case COLLATED:
        return m->field[TOKEN] <= most;
    default:
        return true;
    }
}

static void on_message(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    if (!has_credible_tokens(event->message)) {
        return;
    }
    switch (event->message->type) {
    case ELECTION:
        on_election(l, event, out);
        break;
    case REPLY:
        on_reply(l, event, out);
        break;
    case COLLATED:
        on_collated(l, event, out);
        break;
    case RELEASE:
        on_release(l, event, out);
        break;
    case ECHO:
        if (is_fast(l, event)) {
            mark_alive(l, event->peer, event->message->field[ECHO_ASIDE], event->now_ns);
        }
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

/* ---- Other events ---------------------------------------------------------------------------- */

static void on_start(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    if (event->persisted_count == 2) {
        l->token_seen = event->persisted[0];
        l->token_owner = (cv_id)event->persisted[1];
        l->led_token = l->token_seen; /* it may have led with it: never again */
        l->boot_until_ns = event->now_ns + l->lock_ns;
    }
    cv__effect_arm(out, TIMER_ALIVE, event->now_ns, event->now_ns + l->delta_ns);
}

/* A hint takes a process out of the alive set; its locks stay, unless its own host saw it die: then
 * nothing is left that its leadership could be used by. */
static void on_peer_down(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    cv__set_remove(set_of(l, SET_ALIVE), event->peer);
    cv__set_remove(set_of(l, SET_ASIDE), event->peer);
    if (event->is_certain && l->locked_to == event->peer) {
        unlock(l);
        if (l->leader == event->peer) {
            forget_leader(l, CV_REASON_SUSPECTED, out);
        }
    }
    if (stands(l) && !l->leads && l->request_ns == 0 && event->peer != l->self) {
        const int64_t first_ns = purge(l, event->now_ns);
        cv__effect_arm(out, TIMER_ALIVE, first_ns, first_ns);
    }
}

static void stand_aside(struct local *l, struct cv_effects *out)
{
    cv__set_remove(set_of(l, SET_ALIVE), l->self); /* or we would wait for ourselves to stand */
    if (l->leads) {
        step_down(l, CV_REASON_RESIGNED, out);
    } else {
        release(l, /* is_gone= */ true, out);
    }
}

static void on_timer(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    switch (event->timer) {
    case TIMER_ALIVE:
        on_alive_alarm(l, event->now_ns, out);
        break;
    case TIMER_RELEASE:
        on_release_alarm(l, event->now_ns, out);
        break;
    case TIMER_LAPSE:
        break; /* done before the event was looked at */
    case TIMER_LOCK:
        if (l->leader != l->self && event->now_ns >= l->locked_until_ns) {
            if (l->has_resigned) {
                l->has_resigned = false; /* our successor is gone too */
            }
            forget_leader(l, CV_REASON_EXPIRED, out);
        }
        break;
    case TIMER_COLLATE:
        cv__local_tree_pass_up(l, out);
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

static void stop(struct local *l, struct cv_effects *out)
{
    l->is_stopped = true;
    l->leads = false;
    l->request_ns = 0;
    forget_leader(l, CV_REASON_STOPPED, out);
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        cv__effect_disarm(out, timer);
    }
}

static void local_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct local *l = state;
    if (l->is_stopped) {
        return;
    }
    /* First of all: a leadership whose time is over is over, whatever waits in the queue. */
    if (l->leads && event->now_ns >= l->expiration_ns) {
        step_down(l, CV_REASON_EXPIRED, out);
    }
    switch (event->kind) {
    case CV_EVENT_START:
        on_start(l, event, out);
        break;
    case CV_EVENT_MESSAGE:
        on_message(l, event, out);
        break;
    case CV_EVENT_TIMER:
        on_timer(l, event, out);
        break;
    case CV_EVENT_PEER_DOWN:
        on_peer_down(l, event, out);
        break;
    case CV_EVENT_RESIGN:
        if (l->leads) {
            l->has_resigned = true;
            l->resigned_until_ns = event->now_ns + 2 * l->expires_ns;
            stand_aside(l, out);
        }
        break;
    case CV_EVENT_CAMPAIGN:
        l->has_resigned = false;
        l->is_candidate = event->is_candidate;
        if (!event->is_candidate) {
            stand_aside(l, out);
        }
        cv__effect_arm(out, TIMER_ALIVE, event->now_ns, event->now_ns);
        break;
    case CV_EVENT_PERSIST_FAILED:
        stop(l, out);
        break;
    case CV_EVENT_REPORT:
    case CV_EVENT_SEQUENCE:
    case CV_EVENT_STORE:
        break; /* neither scores nor numbers nor records here */
    }
}

const struct cv_protocol cv__proto_local = {
    .name = "local",
    .summary = "the lowest id that everybody connected to it supports; leases, one per partition",
    .leads = "lowest id connected; one per partition",
    .cites = "[Fetzer99]",
    .contract = cv__local_contract,
    .options = cv__local_options,
    .messages = local_messages,
    .message_count = MESSAGE_COUNT,
    .configure = cv__local_configure,
    .size = local_size,
    .init = local_init,
    .step = local_step,
    .check = local_check,
    .settle_ns = cv__local_settle_ns,
    .timely_ns = cv__local_timely_ns,
    .fast_ns = cv__local_fast_ns,
    .kappa_ns = cv__local_kappa_ns,
};
