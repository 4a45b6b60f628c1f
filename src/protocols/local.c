/* src/protocols/local.c - the highly available local leader election service [Fetzer99]: the lowest
 * id that all processes connected to it support leads; one leader in each logical partition, or one
 * in the whole system with `majority`.
 *
 * Messages are fast (their delay is known to be at most Delta) or slow; core/failaware.h explains
 * how a receiver knows. A process is alive for `expires` after its last fast ELECTION or REPLY. The
 * lowest living id asks for support every `ep` (ELECTION), and each supporter locks itself to it
 * for `lock`: it supports no other process in this time. With the support of all processes alive a
 * candidate leads until lock(1-2 rho) after it *sent* the request: its time is over on its own
 * clock, without any message, before the first of its supporters can support another process.
 *
 * Why two leaders never share a supporter (SO): a supporter's lock begins at or after the request
 * was sent and lasts `lock` on a clock that differs by at most 2 rho. Only three messages end a
 * lock early. Each is sent by, or on behalf of, the process that the lock is for, after its
 * leadership has ended: RELEASE of a failed attempt, of a leader that stepped down, and of a leader
 * whose host saw it die.
 *
 * Ours, and why it is safe:
 * - RELEASE does not refresh the alive set, and a leader whose renewal failed does not release.
 * - An unanswered renewal is repeated as the same request, and answers add up: a repeated ELECTION
 *   only prolongs locks, and the leadership still counts from the request's first sending.
 * - RELEASE frees all requests up to the one it names, of the same life of its sender; the sender
 *   never counts answers to them again. Requests are instants of the sender's clock, and that
 *   begins anew when its machine boots: a request of another life is neither earlier nor later. A
 *   lock that another life's request prolongs belongs to that life from then on. The request that a
 *   leadership rests on is the last that its supporters hear: what an earlier life sent is slow by
 *   then, since no request succeeds in the first Delta of a life, except after a death that was
 *   seen (below). After such a death, an ELECTION of another life may arrive after that of the life
 *   that leads. It then prolongs the lock for that other life, whose RELEASE does not end the lock
 *   before the time that the request of the leading life had given it (earlier_until_ns).
 * - Tokens: an ELECTION proposes a token, a supporter saves it before it answers, and refuses one
 *   that is not larger than the largest it accepted, except the same owner's. A leadership that
 *   lapsed is over before any other event is handled, and its token is not used again. With
 *   `majority` any two leaderships share a supporter, so tokens grow globally; without, only along
 *   the lineage of a partition.
 * - Tokens can be reserved in blocks (`tokens`), so that no save stands between a dead leader and
 *   its successor. A process then saves a bound: it accepts tokens up to the bound without saving
 *   again. While there is a leader, and less than half of a block is left, it saves a larger bound.
 *   Why that is as good as saving the token and its owner: the record is used only to refuse, and a
 *   process that restarts refuses more. Every token that it had accepted is at most the bound
 *   (local_check()), and after the restart it treats all tokens up to the bound as accepted,
 *   without an owner, and as led with: so it accepts none of them a second time, not even of the
 *   same owner, and leads with none. It loses only the right to go on with the token of its leader.
 *   But it supports no process for `lock` anyway, in which that leadership ends, and the next
 *   request exceeds the bound that the refusal names.
 * - While all supporters answer, a leader asks less often (`calm`); it repeats an unanswered
 *   request after `ep`. A lock and a leadership count from each request as before. Fewer requests
 *   fit into a lock (still at least four), and a process that comes back is asked later: kappa
 *   includes this.
 * - A leader steps down at once when a lower id asks. With `yields=no` (always among members, where
 *   an application acts until its valid-until) it does not: it stops asking, and its time runs out.
 *   Before that no other process can lead, because its supporters stay locked.
 * - Succession: the supporters of a lost leader become candidates one after the other in id order,
 *   not all at once.
 * - A process whose ELECTIONs say that it has not heard us for `expires` is not alive: it may hear
 *   no process, and all would wait for it. Two processes are connected only if both directions
 *   work. If it asked more than once, it stays not alive however long it is silent: a process that
 *   asks in turns, because it stands aside in between, would be waited for each time. This state
 *   ends with an ELECTION that says otherwise, or with a fast answer: (BI) requires that a process
 *   that answers is alive for `expires`, and an ELECTION sent before it heard us must not end that.
 *   An ECHO is such an answer too: it is the only one between two processes that take each other
 *   for deaf.
 * - Standing aside (fig. 24): a candidate that is refused by a process with a leader of lower id is
 *   passive until no such process is left. It asks only those processes, by ECHO. In this time it
 *   only supports others, so it is safe even if it is wrong about them.
 * - An ELECTION that its own RELEASE has overtaken is ignored, and so is one that comes within
 *   Delta of a hint that its sender is down: it may have been sent before. It locks no process, and
 *   a missing lock can only keep a process from leading.
 * - Passive processes (aside, resigned, or no candidates): they support and are asked, but do not
 *   count when the lowest is looked for.
 * - Turns (`rotate`): ids are ordered from the one whose turn it is; RELEASE and ELECTION name it.
 * - Collation (`collate`, fig. 28): answers to renewals go up a tree over the request's alive set.
 *   A supporter locks when it hears the ELECTION, whichever way its answer takes. Why no two in a
 *   row get lost there (BI): is_way_up() in local_tree.c.
 * - A request can succeed only if it belongs to an unbroken row of requests whose first one is more
 *   than Delta old: in this time all connected processes have answered the first one, however soon
 *   the next one followed (BI). So the second request is sent just after Delta, not after `ep`. A
 *   RELEASE breaks the row, because no process answers an ELECTION that it has overtaken:
 *   is_row_unbroken() in local_request.c has the argument. The first request succeeds if all
 *   members support it except the one that this process was locked to when its host saw it die, as
 *   long as that lock would have lasted: no other member can be missing. is_everybody_left() has
 *   that argument.
 * - ECHO answers a slow ELECTION, so that the next one has a recent stamp to compute a bound from.
 *   A fast ECHO makes its sender alive, like a REPLY: two processes that have not exchanged
 *   messages for long are connected nevertheless, and the second request must not succeed without
 *   the other process (BI).
 *
 * Assumed: clocks drift by at most rho (safety); messages within about delta/2 each way
 * (cv__local_timely_ns) and prompt processes for kappa (liveness). The record of what a process
 * accepted survives its crash; if it cannot be saved, the process stops taking part. */
#include "protocols/local_alive.h"
#include "protocols/local_config.h"
#include "protocols/local_request.h"
#include "protocols/local_tree.h"

static const struct cv_message_type local_messages[LOCAL_MESSAGE_COUNT] = {
    [LOCAL_ELECTION] = CV_MESSAGE_TYPE("ELECTION", LOCAL_ELECTION_FIELDS),
    [LOCAL_REPLY] = CV_MESSAGE_TYPE("REPLY", LOCAL_REPLY_FIELDS),
    [LOCAL_COLLATED] = CV_MESSAGE_TYPE("COLLATED", LOCAL_COLLATED_FIELDS),
    [LOCAL_RELEASE] = CV_MESSAGE_TYPE("RELEASE", LOCAL_RELEASE_FIELDS),
    [LOCAL_ECHO] = CV_MESSAGE_TYPE("ECHO", LOCAL_ECHO_FIELDS),
};

static size_t local_size(const struct cv_config *config)
{
    CV_ASSERT(config->member_count >= 1);
    const uint32_t n = config->member_count;
    return sizeof(struct local) + SET_COUNT * cv__set_words(n) * sizeof(uint64_t) +
           n * sizeof(struct local_peer);
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
    l->calm_ns = cv__local_calm_ns(config);
    l->reserve_count = (uint64_t)o[LOCAL_OPTION_TOKENS];
    l->has_succession = (uint32_t)o[LOCAL_OPTION_SUCCESSION];
    l->yields = (uint32_t)o[LOCAL_OPTION_YIELDS];
    l->role = LOCAL_FOLLOWING;
    l->turn = 1;
    CV_ASSERT(l->lead_ns < l->lock_ns); /* a leadership ends before the locks that it rests on */
    CV_ASSERT(l->wait_ns < l->lead_ns); /* and it can be renewed before it ends */
    CV_ASSERT(l->calm_ns >= l->ep_ns);
    CV_ASSERT(l->calm_ns < l->expires_ns); /* its supporters do not expire in between */
}

static void local_identity(const void *state, cv_id *ret_self, uint32_t *ret_member_count)
{
    const struct local *l = state;
    *ret_self = l->self;
    *ret_member_count = l->member_count;
}

static void local_check(const void *state)
{
    const struct local *l = state;
    cv__local_check_role(l);
    CV_ASSERT(l->led_token <= l->token_seen); /* a leader has accepted its own token */
    if (l->reserve_count > 0) {               /* a crash forgets nothing that was accepted */
        CV_ASSERT(l->token_seen <= l->reserved_token);
    }
    CV_ASSERT(l->lost != l->self);
    CV_ASSERT(l->lost <= l->member_count);
    CV_ASSERT((l->lost == CV_ID_NONE) == (l->lost_until_ns == 0));
    CV_ASSERT(l->request_ns == 0 || l->request_ns == l->asked_ns);
    CV_ASSERT(l->turn >= 1);
    CV_ASSERT(l->turn <= l->member_count);
    CV_ASSERT(l->leader <= l->member_count);
    CV_ASSERT(l->leader != CV_ID_NONE || l->leader_token == 0);
    CV_ASSERT(l->locked_to <= l->member_count);
    if (l->locked_to == CV_ID_NONE) { /* a released lock leaves nothing behind */
        CV_ASSERT(l->locked_until_ns == 0);
        CV_ASSERT(l->locked_request_ns == 0);
        CV_ASSERT(l->locked_life == 0);
        CV_ASSERT(l->earlier_until_ns == 0);
    }
}

/* ---- Candidacy ------------------------------------------------------------------------------- */

static void arm_alive(int64_t at_ns, struct cv_effects *out)
{
    CV_ASSERT(at_ns > 0);
    cv__effect_arm(out, LOCAL_TIMER_ALIVE, at_ns, at_ns);
}

/* How long the supporter of a lost leader waits for its place in the succession: for each member of
 * the family before it, the time in which an ELECTION of that member would be heard. */
static int64_t succession_ns(struct local *l)
{
    const uint64_t *family = set_of(l, SET_FAMILY);
    if (!l->has_succession || !cv__set_has(family, l->self)) {
        return 0;
    }
    int64_t places = 0;
    for (cv_id id = 1; (id = cv__set_next(family, id, l->member_count)) != CV_ID_NONE; id++) {
        places += cv__local_is_before(l, id, l->self);
    }
    CV_ASSERT(places < l->member_count); /* only other members come before it */
    CV_ASSERT(places >= 0);
    return cv__min64(places * (l->delta_ns + l->sigma_ns), l->expires_ns);
}

/* [Fetzer99, fig. 8] The leader's turn is over: it hands over to the next of its supporters. False:
 * it has no other supporter. */
static bool hand_turn_on(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(is_leading(l));
    const uint64_t *support = set_of(l, SET_SUPPORT);
    cv_id heir = cv__set_next(support, l->self + 1, l->member_count);
    heir = heir != CV_ID_NONE ? heir : cv__set_next(support, 1, l->member_count);
    CV_ASSERT(heir != CV_ID_NONE); /* it supports itself */
    if (heir == l->self) {
        return false;
    }
    CV_ASSERT(l->token >= l->turn_token); /* turns are set in the order of tokens */
    l->turn = heir;
    l->turn_token = l->token;
    cv__local_step_down(l, LOCAL_FOLLOWING, CV_REASON_RESIGNED, out);
    CV_ASSERT(!cv__local_is_before(l, l->self, heir)); /* the heir comes first now */
    arm_alive(now_ns + l->ep_ns, out);
    return true;
}

static void send_echo(struct local *l, cv_id to, bool asks, int64_t now_ns, struct cv_effects *out);

/* Asks the processes that block us: are they alive, and do they still follow a leader before us? */
static void look_again(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(l->role == LOCAL_ASIDE);
    const uint64_t *taken = set_of(l, SET_TAKEN);
    for (cv_id id = 1; (id = cv__set_next(taken, id, l->member_count)) != CV_ID_NONE; id++) {
        send_echo(l, id, /* asks= */ true, now_ns, out);
    }
    arm_alive(now_ns + l->expires_ns / 3, out);
}

/* Does no process block us any more? */
static bool is_way_free(struct local *l)
{
    return l->role == LOCAL_ASIDE && cv__set_count(set_of(l, SET_TAKEN), l->member_count) == 0;
}

static void on_alive_alarm(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->role == LOCAL_RESIGNED && now_ns >= l->resigned_until_ns && l->leader == CV_ID_NONE) {
        cv__local_become(l, LOCAL_FOLLOWING); /* no process succeeded us */
    }
    const int64_t first_ns = cv__local_purge(l, now_ns);
    CV_ASSERT(first_ns >= now_ns);
    if (is_way_free(l)) {
        cv__local_become(l, LOCAL_FOLLOWING);
    }
    if (l->role == LOCAL_ASIDE) {
        look_again(l, now_ns, out);
        return;
    }
    if (is_passive(l)) {
        cv__effect_note(out, "asks for no support: resigned, or not a candidate", CV_ID_NONE, 0, 0);
        arm_alive(now_ns + l->expires_ns, out);
        return;
    }
    if (first_ns > now_ns) {
        cv__effect_note(out,
                        "asks for no support: {peer} comes first and counts as alive until {time}",
                        cv__local_first_alive(l), first_ns, 0);
        l->has_waited = false;
        arm_alive(first_ns, out);
        return;
    }
    CV_ASSERT(!is_passive(l)); /* only a candidate asks */
    const int64_t wait_ns = l->has_waited || is_leading(l) ? 0 : succession_ns(l);
    l->has_waited = true;
    if (wait_ns > 0) {
        cv__effect_note(out, "asks for no support until {time}: others succeed the leader first",
                        CV_ID_NONE, now_ns + wait_ns, 0);
        arm_alive(now_ns + wait_ns, out);
        return;
    }
    const bool is_turn_over =
        is_leading(l) && l->rotate_ns > 0 && now_ns - l->turn_began_ns >= l->rotate_ns;
    if (is_turn_over && hand_turn_on(l, now_ns, out)) {
        return;
    }
    cv__local_ask(l, now_ns, out);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool is_fast(const struct local *l, const struct cv_event *event)
{
    CV_ASSERT(event->delay_ns_max >= 0);
    return event->delay_ns_max - l->delta_min_ns <= l->delta_ns;
}

/* Does this process follow a leader that comes before `asker`? Then it cannot support `asker`, like
 * a marked process in fig. 24. The leader must have asked recently: a process that is locked to a
 * dead leader will soon be free. */
static bool is_taken_for(struct local *l, cv_id asker, int64_t now_ns)
{
    const cv_id leader = l->leader;
    if (leader == CV_ID_NONE || leader == asker || leader == l->self ||
        !cv__local_is_before(l, leader, asker)) {
        return false;
    }
    const int64_t since_ns = now_ns - peer_of(l, leader)->asked_ns;
    CV_ASSERT(since_ns >= 0);
    return cv__set_has(set_of(l, SET_ALIVE), leader) &&
           since_ns <= l->calm_ns + l->sigma_ns + l->wait_ns;
}

static void send_echo(struct local *l, cv_id to, bool asks, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(to != l->self);
    local_echo_write(cv__effect_send(out, to, LOCAL_ECHO),
                     (struct local_echo){.passive = is_passive(l),
                                         .taken = is_taken_for(l, to, now_ns),
                                         .asks = asks});
}

/* A slow message gets no promise, but the stamps of this answer let the next one be fast. */
static void answer_slow(struct local *l, cv_id to, int64_t now_ns, struct cv_effects *out)
{
    send_echo(l, to, /* asks= */ false, now_ns, out);
}

static void answer_directly(struct local *l, const struct cv_event *event, bool supports,
                            uint64_t floor, struct cv_effects *out)
{
    CV_ASSERT(!supports || floor == 0);                  /* a supported token is not too small */
    CV_ASSERT(!supports || l->locked_to == event->peer); /* locked before the answer leaves */
    CV_ASSERT(event->peer != l->self);
    local_reply_write(cv__effect_send(out, event->peer, LOCAL_REPLY),
                      (struct local_reply){
                          .request = local_election_read(event->message).request,
                          .token = floor,
                          .supports = supports,
                          .passive = is_passive(l),
                          .taken = !supports && is_taken_for(l, event->peer, event->now_ns),
                          .turn = l->turn,
                          .turn_token = l->turn_token,
                      });
}

/* The leader's request tells its supporters who they are [Fetzer99, sec. X]. */
static void learn_leader(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct local_election election = local_election_read(event->message);
    const uint64_t *members = election.support.word;
    const uint64_t token = election.leading;
    if (token == 0) {
        return; /* a candidate, not a leader */
    }
    if (!cv__set_has(members, l->self) || l->locked_to != event->peer ||
        event->now_ns >= l->locked_until_ns) {
        cv__effect_note(out, "{peer} leads, but not with the support of this process", event->peer,
                        0, token);
        return;
    }
    if (l->leader == event->peer && token < l->leader_token) {
        cv__effect_note(out, "ELECTION of {peer} was overtaken: its token {number} is old",
                        event->peer, 0, token);
        return;
    }
    CV_ASSERT(!is_leading(l)); /* it is locked to another */
    cv__local_follow(l, event->peer, token, members, out);
}

/* Does a fast ELECTION show that its sender is connected to us and wants to lead? */
static bool is_sign_of_life(struct local *l, const struct local_election *election, cv_id from,
                            int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(from != l->self);
    const struct local_peer *peer = peer_of(l, from);
    if (election->life == peer->released_life && election->request <= peer->released_request) {
        cv__effect_note(out, "ELECTION of {peer} ignored: overtaken by its RELEASE", from, 0,
                        election->request);
        return false;
    }
    if (now_ns < peer->gone_until_ns) {
        cv__effect_note(out, "ELECTION of {peer} ignored until {time}: it was reported down", from,
                        peer->gone_until_ns, 0);
        return false;
    }
    if (!cv__local_is_heard_by(l, from, election->alive.word, now_ns)) {
        cv__effect_note(out, "ELECTION of {peer} ignored: it does not hear our answers", from, 0,
                        election->request);
        cv__local_mark_dead(l, from);
        answer_slow(l, from, now_ns, out); /* if it hears this, its next ELECTION counts */
        return false;
    }
    return true;
}

static void on_election(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct local_election election = local_election_read(event->message);
    const cv_id from = event->peer;
    CV_ASSERT(from != l->self);
    if (!is_fast(l, event)) {
        cv__effect_note(out, "ELECTION of {peer} ignored: slow", from, 0, election.request);
        answer_slow(l, from, event->now_ns, out);
        return;
    }
    if (!is_sign_of_life(l, &election, from, event->now_ns, out)) {
        return;
    }
    (void)cv__local_take_turn(l, election.turn, election.turn_token);
    cv__local_mark_alive(l, from, LOCAL_CANDIDATE, event->now_ns);
    const int64_t first_ns = cv__local_purge(l, event->now_ns);
    CV_ASSERT(first_ns >= event->now_ns);
    if (is_leading(l) && cv__local_first_alive(l) != l->self &&
        cv__local_is_before(l, from, l->self)) {
        cv__local_give_way(l, from, out);
    }
    const bool supports = cv__local_support(l, from, &election, event->now_ns, out);
    const bool is_old = cv__local_is_old_token(l, from, election.token);
    const uint64_t floor = is_old ? l->token_seen : 0;
    CV_ASSERT(!supports || !is_leading(l)); /* a leader supports itself alone */
    if (supports && l->role == LOCAL_ASIDE && cv__local_is_before(l, from, l->self)) {
        /* a process before us is a candidate, so we would not ask anyway */
        cv__local_become(l, LOCAL_FOLLOWING);
    }
    if (!cv__local_tree_answer(l, event, supports, floor, out)) {
        answer_directly(l, event, supports, floor, out);
    }
    learn_leader(l, event, out);
    if (first_ns > event->now_ns && !is_passive(l)) {
        if (l->role == LOCAL_ASKING) {
            cv__local_release(l, out); /* it is not a candidate any more */
        }
        l->has_waited = false;
        arm_alive(first_ns, out);
    }
}

/* Is this the open request? An answer to any other one is only a sign of life. */
static bool is_open(const struct local *l, uint64_t request)
{
    CV_ASSERT(l->request_ns >= 0);
    return l->request_ns != 0 && request == (uint64_t)l->request_ns;
}

/* A fast message of a process is a sign of life, unless the process was reported down: the message
 * may have been sent before. */
static void take_for_alive(struct local *l, cv_id from, enum local_standing standing,
                           int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(from != l->self);
    CV_ASSERT(from <= l->member_count);
    const int64_t gone_until_ns = peer_of(l, from)->gone_until_ns;
    if (now_ns < gone_until_ns) {
        cv__effect_note(out, "no sign of life of {peer} counts until {time}: it was reported down",
                        from, gone_until_ns, 0);
        return;
    }
    if (peer_of(l, from)->heard_ns == now_ns) {
        cv__effect_note(out, "sign of life of {peer} adds nothing: another one came at {time}",
                        from, now_ns, 0);
    }
    cv__local_mark_alive(l, from, standing, now_ns);
}

/* One process's answer to a request of ours, received directly or through the tree. */
static void count_answer(struct local *l, cv_id from, bool supports, enum local_standing standing,
                         uint64_t request, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(from != l->self); /* its own answer is counted when it asks */
    take_for_alive(l, from, standing, now_ns, out);
    peer_of(l, from)->deaf_since_ns = 0; /* it has heard us, even if its next ELECTION denies it */
    if (!is_open(l, request)) {
        cv__effect_note(out, "answer of {peer} not counted: request {number} is no longer open",
                        from, 0, request);
    } else if (!supports) {
        cv__effect_note(out, "{peer} refuses its support", from, 0, request);
    } else {
        CV_ASSERT(l->role == LOCAL_ASKING || is_leading(l));
        cv__set_add(set_of(l, SET_REPLY), from);
    }
}

/* A process had accepted this token from another one (0: none had). The next request must exceed
 * it, and is made without delay. */
static void learn_floor(struct local *l, uint64_t token, int64_t now_ns, struct cv_effects *out)
{
    if (token <= l->token_floor) {
        return;
    }
    l->token_floor = token;
    if (!is_leading(l) && !is_passive(l) && cv__local_purge(l, now_ns) <= now_ns) {
        /* Not before it can succeed: see open_request(). */
        arm_alive(cv__max64(now_ns, l->candidate_since_ns + l->wait_ns / 2 + 1), out);
    }
}

/* We asked out of turn: give way, and tell all members whose turn it is. */
static void yield_turn(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    const int64_t first_ns = cv__local_purge(l, now_ns);
    CV_ASSERT(first_ns >= now_ns);
    if (is_leading(l) && first_ns > now_ns) {
        cv__local_give_way(l, cv__local_first_alive(l), out);
    } else if (!is_leading(l)) {
        cv__local_release(l, out);
    }
    arm_alive(first_ns, out);
}

static void on_reply(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != l->self);
    const struct local_reply reply = local_reply_read(event->message);
    if (!is_fast(l, event)) {
        cv__effect_note(out, "REPLY of {peer} ignored: slow", event->peer, 0, reply.request);
        return;
    }
    count_answer(l, event->peer, reply.supports, cv__local_standing(reply.passive, reply.taken),
                 reply.request, event->now_ns, out);
    learn_floor(l, reply.token, event->now_ns, out);
    if (cv__local_take_turn(l, reply.turn, reply.turn_token)) {
        yield_turn(l, event->now_ns, out);
    }
    cv__local_check_early(l, event->now_ns, out);
}

static void on_collated(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != l->self);
    const struct local_collated answers = local_collated_read(event->message);
    if (!is_fast(l, event)) {
        cv__effect_note(out, "COLLATED of {peer} ignored: slow", event->peer, 0, answers.request);
        answer_slow(l, event->peer, event->now_ns,
                    out); /* a parent sends nothing else to its children */
        return;
    }
    const uint64_t *replied = answers.replied.word;
    const uint64_t *passive = answers.passive.word;
    if (answers.candidate != l->self) {
        take_for_alive(l, event->peer, cv__local_standing(cv__set_has(passive, event->peer), false),
                       event->now_ns, out);
        cv__local_tree_gather(l, event, out);
        return;
    }
    for (cv_id id = 1; (id = cv__set_next(replied, id, l->member_count)) != CV_ID_NONE; id++) {
        if (id != l->self) {
            count_answer(l, id, cv__set_has(answers.support.word, id),
                         cv__local_standing(cv__set_has(passive, id), false), answers.request,
                         event->now_ns, out);
        }
    }
    learn_floor(l, answers.token, event->now_ns, out);
    cv__local_check_early(l, event->now_ns, out);
}

static void remember_release(struct local *l, cv_id from, const struct local_release *release)
{
    struct local_peer *peer = peer_of(l, from);
    if (peer->released_life != release->life || peer->released_request < release->request) {
        peer->released_life = release->life;
        peer->released_request = release->request;
    }
    CV_ASSERT(peer->released_request >= release->request); /* never falls within one life */
}

/* The sender has given up every request up to this one. This counts even if the message is slow. */
static void on_release(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const struct local_release release = local_release_read(event->message);
    const cv_id from = event->peer;
    CV_ASSERT(from != l->self); /* no other process ends the lock of a leader to itself */
    (void)cv__local_take_turn(l, release.turn, release.turn_token);
    remember_release(l, from, &release);
    const bool is_locked = l->locked_to == from;
    if (is_locked && release.life != l->locked_life) {
        cv__effect_note(out, "RELEASE of {peer} ignored: locked to it in another of its lives",
                        from, 0, release.life);
    } else if (is_locked && (uint64_t)l->locked_request_ns <= release.request &&
               event->now_ns < l->earlier_until_ns) {
        /* The RELEASE counts for the life that sent it. Another life may have led with our support,
         * and a process does not know what it began before a crash. */
        l->locked_until_ns = l->earlier_until_ns;
        cv__effect_arm(out, LOCAL_TIMER_LOCK, l->locked_until_ns, l->locked_until_ns);
        cv__effect_note(out, "RELEASE of {peer}: stays locked to its earlier life until {time}",
                        from, l->locked_until_ns, 0);
    } else if (is_locked && (uint64_t)l->locked_request_ns <= release.request) {
        cv__local_unlock(l);
    } else if (is_locked) {
        cv__effect_note(out, "RELEASE of {peer} ignored: locked to a later request than {number}",
                        from, 0, release.request);
    } else {
        cv__effect_note(out, "RELEASE of {peer} releases nothing: not locked to it", from, 0,
                        release.request);
    }
    CV_ASSERT(!is_leading(l) || l->locked_to == l->self);
    if (l->leader == from && l->locked_to != from) {
        cv__local_forget_leader(l, CV_REASON_SUPERSEDED, out);
    }
    if (release.passive && cv__set_has(set_of(l, SET_ALIVE), from)) {
        /* alive, but nobody waits for it to become a candidate */
        cv__set_add(set_of(l, SET_PASSIVE), from);
    }
    const int64_t first_ns = cv__local_purge(l, event->now_ns);
    if (l->role == LOCAL_FOLLOWING) {
        arm_alive(first_ns, out);
    }
}

static void on_echo(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(event->peer != l->self);
    const struct local_echo echo = local_echo_read(event->message);
    if (echo.asks) {
        send_echo(l, event->peer, /* asks= */ false, event->now_ns, out);
    }
    if (!is_fast(l, event)) {
        cv__effect_note(out, "ECHO of {peer} ignored: slow", event->peer, 0, 0);
        return;
    }
    take_for_alive(l, event->peer, cv__local_standing(echo.passive, echo.taken), event->now_ns,
                   out);
    if (!echo.asks) {
        peer_of(l, event->peer)->deaf_since_ns = 0; /* it has heard what it answers to */
    }
    if (is_way_free(l)) {
        arm_alive(event->now_ns, out);
    }
}

/* The largest token in a message. */
static uint64_t largest_token(const struct cv_message *message)
{
    uint64_t token = 0;
    uint64_t turn_token = 0;
    switch (message->type) {
    case LOCAL_ELECTION:
        token = local_election_read(message).token;
        turn_token = local_election_read(message).turn_token;
        break;
    case LOCAL_REPLY:
        token = local_reply_read(message).token;
        turn_token = local_reply_read(message).turn_token;
        break;
    case LOCAL_RELEASE:
        token = local_release_read(message).token;
        turn_token = local_release_read(message).turn_token;
        break;
    case LOCAL_COLLATED:
        token = local_collated_read(message).token;
        break;
    default:
        break;
    }
    return cv__max_u64(token, turn_token);
}

#define TOKEN_MAX (UINT64_C(1) << 62) /* never reached in practice, and there is room above it */

static void on_message(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t token = largest_token(event->message);
    if (event->peer == l->self) {
        cv__effect_note(out, "message ignored: it claims to come from this process", l->self, 0, 0);
        return;
    }
    if (token > TOKEN_MAX) {
        cv__effect_note(out, "message of {peer} ignored: token {number} is impossibly large",
                        event->peer, 0, token);
        return;
    }
    switch (event->message->type) {
    case LOCAL_ELECTION:
        on_election(l, event, out);
        break;
    case LOCAL_REPLY:
        on_reply(l, event, out);
        break;
    case LOCAL_COLLATED:
        on_collated(l, event, out);
        break;
    case LOCAL_RELEASE:
        on_release(l, event, out);
        break;
    case LOCAL_ECHO:
        on_echo(l, event, out);
        break;
    default:
        CV_ASSERT(!"a type that the codec does not know");
    }
}

/* ---- Other events ---------------------------------------------------------------------------- */

static void on_start(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(l->role == LOCAL_FOLLOWING);
    l->life = event->nonce;
    CV_ASSERT(l->locked_to == CV_ID_NONE); /* boot_until_ns stands for what it forgot */
    /* the owner may be out of range: another group, or edited */
    if (event->persisted_count == 2) {
        const uint64_t owner = event->persisted[1];
        l->token_seen = event->persisted[0] < TOKEN_MAX ? event->persisted[0] : TOKEN_MAX;
        l->token_owner = owner <= l->member_count ? (cv_id)owner : CV_ID_NONE;
        l->led_token = l->token_seen; /* it may have led with this token: never again */
        /* the whole block may have been used */
        l->reserved_token = l->reserve_count > 0 ? l->token_seen : 0;
        l->boot_until_ns = event->now_ns + l->lock_ns;
    }
    CV_ASSERT(l->led_token <= l->token_seen);
    cv__effect_arm(out, LOCAL_TIMER_ALIVE, event->now_ns, event->now_ns + l->delta_ns);
}

/* A hint removes a process from the alive set, but locks to it stay. If its own host saw it die,
 * the lock is freed as well: no process is left that could use its leadership. */
static void on_peer_down(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    const cv_id dead = event->peer;
    cv__local_mark_dead(l, dead);
    if (dead != l->self) {
        peer_of(l, dead)->gone_until_ns = event->now_ns + l->wait_ns / 2;
    }
    if (event->is_certain && l->locked_to == dead && dead != l->self) {
        CV_ASSERT(!is_leading(l)); /* a leader is locked to itself */
        l->lost = dead;
        l->lost_until_ns = l->locked_until_ns;
        cv__local_unlock(l);
        if (l->leader == dead) {
            cv__local_forget_leader(l, CV_REASON_SUSPECTED, out);
        }
    } else if (l->locked_to == dead) {
        cv__effect_note(out, "only a hint that {peer} is down: stays locked to it until {time}",
                        dead, l->locked_until_ns, 0);
    }
    if ((l->role == LOCAL_FOLLOWING || is_way_free(l)) && dead != l->self) {
        arm_alive(cv__local_purge(l, event->now_ns), out);
    }
}

/* Stops being a candidate, for a while or until it is told to be one again, and gives up its
 * requests. */
static void become_passive(struct local *l, enum local_role role, struct cv_effects *out)
{
    CV_ASSERT(role == LOCAL_RESIGNED || role == LOCAL_WITHDRAWN);
    if (is_leading(l)) {
        cv__local_step_down(l, role, CV_REASON_RESIGNED, out);
    } else {
        cv__local_become(l, role);
        cv__local_release(l, out);
    }
    CV_ASSERT(l->leader != l->self);
    CV_ASSERT(!cv__set_has(set_of(l, SET_ALIVE), l->self)); /* it does not wait for itself */
}

static void on_resign(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (!is_leading(l)) {
        cv__effect_note(out, "resignation ignored: does not lead", CV_ID_NONE, 0, 0);
        return;
    }
    l->resigned_until_ns = now_ns + 2 * l->expires_ns;
    become_passive(l, LOCAL_RESIGNED, out);
    CV_ASSERT(l->leader == CV_ID_NONE);
}

static void on_campaign(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    if (!event->is_candidate) {
        become_passive(l, LOCAL_WITHDRAWN, out);
    } else if (is_passive(l)) {
        cv__local_become(l, LOCAL_FOLLOWING);
    }
    CV_ASSERT(is_passive(l) == !event->is_candidate);
    arm_alive(event->now_ns, out);
}

static void on_lock_alarm(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (is_leading(l) || l->locked_to == CV_ID_NONE || now_ns < l->locked_until_ns) {
        return; /* the lock was released or prolonged before the timer fired */
    }
    if (l->role == LOCAL_RESIGNED) {
        cv__local_become(l, LOCAL_FOLLOWING); /* our successor is gone too */
    }
    cv__local_forget_leader(l, CV_REASON_EXPIRED, out);
}

static void on_timer(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
    switch (event->timer) {
    case LOCAL_TIMER_ALIVE:
        on_alive_alarm(l, event->now_ns, out);
        break;
    case LOCAL_TIMER_RELEASE:
        cv__local_check_late(l, event->now_ns, out);
        break;
    case LOCAL_TIMER_LAPSE:
        CV_ASSERT(!is_leading(l)); /* local_step() ended it before this event */
        break;
    case LOCAL_TIMER_LOCK:
        on_lock_alarm(l, event->now_ns, out);
        break;
    case LOCAL_TIMER_COLLATE:
        cv__local_tree_pass_up(l, out);
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

static void become_stopped(struct local *l, struct cv_effects *out)
{
    cv__local_become(l, LOCAL_STOPPED);
    cv__local_forget_leader(l, CV_REASON_STOPPED, out);
    CV_ASSERT(l->leader == CV_ID_NONE);
    for (uint32_t timer = 0; timer < CV_TIMERS_MAX; timer++) {
        cv__effect_disarm(out, timer);
    }
}

static void handle(struct local *l, const struct cv_event *event, struct cv_effects *out)
{
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
        on_resign(l, event->now_ns, out);
        break;
    case CV_EVENT_CAMPAIGN:
        on_campaign(l, event, out);
        break;
    case CV_EVENT_PERSIST_FAILED:
        become_stopped(l, out);
        break;
    case CV_EVENT_REPORT:
    case CV_EVENT_SEQUENCE:
    case CV_EVENT_STORE:
        break; /* this protocol uses no scores, sequencer or store */
    }
}

static void local_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct local *l = state;
    if (l->role == LOCAL_STOPPED) {
        cv__effect_note(out, "ignored: this process cannot save its token and has stopped",
                        event->peer, 0, 0);
        return;
    }
    /* First of all: a leadership whose time is over ends now, whatever this event is. */
    if (is_leading(l) && event->now_ns >= l->expiration_ns) {
        cv__local_step_down(l, LOCAL_FOLLOWING, cv__local_why_expired(l), out);
    }
    const uint64_t token_before = l->token_seen;
    const uint64_t led_before = l->led_token;
    handle(l, event, out);
    CV_ASSERT(l->led_token >= led_before);    /* no token leads twice */
    CV_ASSERT(l->token_seen >= token_before); /* an accepted token stays accepted */
    CV_ASSERT(!is_leading(l) || event->now_ns < l->expiration_ns);
}

const struct cv_protocol cv__proto_local = {
    .name = "local",
    .summary = "the lowest id that all processes connected to it support; one lease per partition",
    .leads = "lowest id connected; one per partition",
    .cites = "[Fetzer99]",
    .contract = cv__local_contract,
    .options = cv__local_options,
    .messages = local_messages,
    .message_count = LOCAL_MESSAGE_COUNT,
    .configure = cv__local_configure,
    .size = local_size,
    .init = local_init,
    .step = local_step,
    .check = local_check,
    .identity = local_identity,
    .rightful = CV_RIGHTFUL_LOWEST_ID,
    .settle_ns = cv__local_settle_ns,
    .timely_ns = cv__local_timely_ns,
    .fast_ns = cv__local_fast_ns,
    .kappa_ns = cv__local_kappa_ns,
    .graph_ns = cv__local_graph_ns,
    .floor = cv__local_floor,
    .restore = cv__local_restore,
    .lease_ns = cv__local_lease_ns,
};
