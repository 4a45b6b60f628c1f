/* src/protocols/local_request.c - asking, supporting and leading; see local_request.h, and local.c
 * for why two leaders never share a supporter. */
#include "protocols/local_request.h"

#include "protocols/local_alive.h"

/* ---- The role -------------------------------------------------------------------------------- */

static const uint32_t local_role_next[LOCAL_ROLE_COUNT] = {
    [LOCAL_FOLLOWING] = BIT(LOCAL_ASKING) | BIT(LOCAL_WITHDRAWN) | BIT(LOCAL_STOPPED),
    [LOCAL_ASKING] = BIT(LOCAL_LEADING) | BIT(LOCAL_FOLLOWING) | BIT(LOCAL_ASIDE) |
                     BIT(LOCAL_WITHDRAWN) | BIT(LOCAL_STOPPED),
    [LOCAL_LEADING] =
        BIT(LOCAL_FOLLOWING) | BIT(LOCAL_RESIGNED) | BIT(LOCAL_WITHDRAWN) | BIT(LOCAL_STOPPED),
    [LOCAL_ASIDE] = BIT(LOCAL_FOLLOWING) | BIT(LOCAL_WITHDRAWN) | BIT(LOCAL_STOPPED),
    [LOCAL_RESIGNED] = BIT(LOCAL_FOLLOWING) | BIT(LOCAL_WITHDRAWN) | BIT(LOCAL_STOPPED),
    [LOCAL_WITHDRAWN] = BIT(LOCAL_FOLLOWING) | BIT(LOCAL_STOPPED),
    [LOCAL_STOPPED] = 0,
};

void cv__local_become(struct local *l, enum local_role role)
{
    CV_ASSERT(role < LOCAL_ROLE_COUNT);
    CV_ASSERT(l->role == role || (local_role_next[l->role] & BIT(role)) != 0);
    l->role = role;
    l->request_ns = 0;
}

void cv__local_check_role(const struct local *l)
{
    CV_ASSERT(l->role < LOCAL_ROLE_COUNT);
    CV_ASSERT((l->role == LOCAL_LEADING) == (l->leader == l->self));
    CV_ASSERT(l->leader == CV_ID_NONE || l->locked_to == l->leader); /* it supports its leader */
    switch (l->role) {
    case LOCAL_ASKING:
        CV_ASSERT(l->request_ns != 0);
        break;
    case LOCAL_LEADING:
        CV_ASSERT(l->token == l->led_token);
        CV_ASSERT(l->token == l->leader_token);
        CV_ASSERT(l->locked_to == l->self);               /* a leader supports itself (LS) ... */
        CV_ASSERT(l->expiration_ns < l->locked_until_ns); /* ... until after its end */
        break;
    case LOCAL_RESIGNED:
        CV_ASSERT(l->resigned_until_ns > 0);
        CV_ASSERT(l->request_ns == 0);
        break;
    case LOCAL_STOPPED:
        CV_ASSERT(l->leader == CV_ID_NONE);
        CV_ASSERT(l->request_ns == 0);
        break;
    default:
        CV_ASSERT(l->request_ns == 0);
    }
}

/* ---- Tokens in blocks ------------------------------------------------------------------------ */

/* The argument is at the head of local.c. */

/* Are the tokens accepted so far, and so many more, within the saved bound? */
static bool is_reserved(const struct local *l, uint64_t more)
{
    CV_ASSERT(l->reserve_count > 0);
    return l->token_seen + more <= l->reserved_token;
}

/* Saves that all tokens up to a bound may have been accepted, with an unknown owner. */
static void reserve(struct local *l, struct cv_effects *out)
{
    const uint64_t bound_before = l->reserved_token;
    l->reserved_token = cv__max_u64(l->reserved_token, l->token_seen) + l->reserve_count;
    CV_ASSERT(l->reserved_token > bound_before); /* the bound only grows */
    CV_ASSERT(is_reserved(l, 0));
    const uint64_t bound[] = {l->reserved_token, CV_ID_NONE};
    cv__effect_persist(out, bound, COUNT_OF(bound));
}

/* While there is a leader: reserves tokens for the next elections. */
static void reserve_ahead(struct local *l, struct cv_effects *out)
{
    if (l->reserve_count > 0 && !is_reserved(l, l->reserve_count / 2)) {
        reserve(l, out);
    }
}

/* ---- Who leads ------------------------------------------------------------------------------- */

static void tell(struct local *l, enum cv_reason reason, const uint64_t *members,
                 struct cv_effects *out)
{
    CV_ASSERT(is_leading(l) == (l->leader == l->self));
    CV_ASSERT(l->leader != CV_ID_NONE || l->leader_token == 0);
    CV_ASSERT(members != NULL || l->leader == CV_ID_NONE);
    struct cv_leadership leadership = {
        .is_self = is_leading(l),
        .leader = l->leader,
        .reason = reason,
        .token = l->leader_token,
        .valid_until_ns = is_leading(l) ? l->expiration_ns : 0,
    };
    if (members != NULL) {
        const uint32_t count = cv__set_count(members, l->member_count);
        leadership.has_majority = 2 * count > l->member_count;
        leadership.members = cv__effect_list(out, members, cv__set_words(l->member_count));
    }
    cv__effect_leadership(out, &leadership);
}

void cv__local_forget_leader(struct local *l, enum cv_reason reason, struct cv_effects *out)
{
    CV_ASSERT(!is_leading(l)); /* a leader steps down first */
    if (l->leader != CV_ID_NONE) {
        l->leader = CV_ID_NONE;
        l->leader_token = 0;
        tell(l, reason, NULL, out);
    }
}

void cv__local_follow(struct local *l, cv_id leader, uint64_t token, const uint64_t *members,
                      struct cv_effects *out)
{
    CV_ASSERT(leader != l->self);
    CV_ASSERT(!is_leading(l));
    CV_ASSERT(token > 0);
    CV_ASSERT(l->locked_to == leader);        /* a process follows the one it supports ... */
    CV_ASSERT(cv__set_has(members, l->self)); /* ... and which counts on that support */
    const bool is_new = l->leader != leader || l->leader_token != token;
    cv__set_copy(set_of(l, SET_FAMILY), members, l->member_count);
    cv__set_remove(set_of(l, SET_FAMILY), leader);
    if (is_new) {
        l->leader = leader;
        l->leader_token = token;
        tell(l, CV_REASON_ELECTED, members, out);
    }
    reserve_ahead(l, out);
}

/* ---- Giving up ------------------------------------------------------------------------------- */

void cv__local_unlock(struct local *l)
{
    CV_ASSERT(!is_leading(l)); /* a leadership rests on the leader's own lock too */
    CV_ASSERT(l->locked_to != CV_ID_NONE);
    l->locked_to = CV_ID_NONE;
    l->locked_until_ns = 0;
    l->locked_request_ns = 0;
    l->locked_life = 0;
    l->earlier_until_ns = 0;
}

void cv__local_release(struct local *l, struct cv_effects *out)
{
    CV_ASSERT(!is_leading(l)); /* a leadership rests on the locks */
    if (l->role == LOCAL_ASKING) {
        cv__local_become(l, LOCAL_FOLLOWING);
    }
    CV_ASSERT(l->request_ns == 0); /* answers to released requests are never counted again */
    cv__effect_disarm(out, LOCAL_TIMER_RELEASE);
    if (l->asked_ns == 0) {
        return;
    }
    local_release_write(cv__effect_send_all(out, LOCAL_RELEASE),
                        (struct local_release){
                            .life = l->life,
                            .request = (uint64_t)l->asked_ns,
                            .token = l->token_seen,
                            .passive = is_passive(l),
                            .turn = l->turn,
                            .turn_token = l->turn_token,
                        });
    /* A process that hears this before our latest ELECTIONs does not answer them:
     * is_row_unbroken(). */
    cv__set_remove(set_of(l, SET_ALIVE), l->self);
    if (l->locked_to == l->self) {
        cv__local_unlock(l);
    }
}

void cv__local_step_down(struct local *l, enum local_role role, enum cv_reason reason,
                         struct cv_effects *out)
{
    CV_ASSERT(is_leading(l));
    CV_ASSERT(role != LOCAL_LEADING);
    cv__local_become(l, role);
    cv__effect_disarm(out, LOCAL_TIMER_LAPSE);
    cv__local_forget_leader(l, reason, out);
    cv__local_release(l, out); /* after the host was told that the leadership ended */
    CV_ASSERT(l->leader == CV_ID_NONE);
    CV_ASSERT(l->locked_to != l->self);
}

void cv__local_give_way(struct local *l, cv_id to, struct cv_effects *out)
{
    CV_ASSERT(is_leading(l));
    CV_ASSERT(cv__local_first_alive(l) != l->self);
    if (l->yields) {
        cv__local_step_down(l, LOCAL_FOLLOWING, CV_REASON_SUPERSEDED, out);
    } else {
        cv__effect_note(out, "leads until {time} and asks no more: {peer} comes first", to,
                        l->expiration_ns, 0);
    }
}

enum cv_reason cv__local_why_expired(struct local *l)
{
    const cv_id first = cv__local_first_alive(l);
    const bool gave_way =
        !l->yields && first != CV_ID_NONE && cv__local_is_before(l, first, l->self);
    return gave_way ? CV_REASON_SUPERSEDED : CV_REASON_EXPIRED;
}

/* ---- Supporting ------------------------------------------------------------------------------ */

static void save(struct local *l, struct cv_effects *out)
{
    CV_ASSERT(l->token_seen > 0);
    CV_ASSERT(l->token_owner != CV_ID_NONE);
    if (l->reserve_count > 0) {
        if (!is_reserved(l, 0)) {
            reserve(l, out);
        }
        CV_ASSERT(is_reserved(l, 0));
        return;
    }
    const uint64_t record[] = {l->token_seen, l->token_owner};
    cv__effect_persist(out, record, COUNT_OF(record));
}

bool cv__local_is_old_token(const struct local *l, cv_id candidate, uint64_t token)
{
    return token < l->token_seen || (token == l->token_seen && l->token_owner != candidate);
}

static bool may_support(struct local *l, cv_id candidate, uint64_t token, int64_t now_ns,
                        struct cv_effects *out)
{
    const bool is_locked_elsewhere =
        l->locked_to != CV_ID_NONE && l->locked_to != candidate && now_ns < l->locked_until_ns;
    const cv_id first = cv__local_first_alive(l);
    if (now_ns < l->boot_until_ns) {
        cv__effect_note(out,
                        "support refused: may be locked to another since before its restart, "
                        "until {time}",
                        CV_ID_NONE, l->boot_until_ns, 0);
        return false;
    }
    if (is_locked_elsewhere) {
        cv__effect_note(out, "support refused: locked to {peer} until {time}", l->locked_to,
                        l->locked_until_ns, 0);
        return false;
    }
    if (first != candidate) {
        cv__effect_note(out, "support refused: {peer} is alive and comes first", first, 0, 0);
        return false;
    }
    if (!is_passive(l) && cv__local_is_before(l, l->self, candidate)) {
        cv__effect_note(out, "support refused: this process comes before {peer}", candidate, 0, 0);
        return false;
    }
    if (cv__local_is_old_token(l, candidate, token)) {
        cv__effect_note(out, "support refused: token {number} of {peer} was accepted before",
                        l->token_owner, 0, l->token_seen);
        return false;
    }
    return true;
}

bool cv__local_support(struct local *l, cv_id candidate, const struct local_election *election,
                       int64_t now_ns, struct cv_effects *out)
{
    const int64_t request_ns = (int64_t)election->request;
    const uint64_t token = election->token;
    if (!may_support(l, candidate, token, now_ns, out)) {
        return false;
    }
    if (token > l->token_seen) {
        l->token_seen = token;
        l->token_owner = candidate;
        save(l, out); /* before the answer that promises it */
    }
    /* the supported token is the largest ever accepted ... */
    CV_ASSERT(l->token_seen == token);
    CV_ASSERT(l->token_owner == candidate);            /* ... and belongs to the candidate */
    CV_ASSERT(!is_leading(l) || candidate == l->self); /* a leader supports itself alone */
    if (l->leader != candidate && !is_leading(l)) {
        /* The lock to it ran out while this process slept, and the timer has not fired yet. */
        cv__local_forget_leader(l, CV_REASON_SUPERSEDED, out);
    }
    /* A request that a later one has overtaken prolongs the lock, but its own RELEASE does not end
     * the lock. */
    const bool is_overtaken = l->locked_to == candidate && l->locked_life == election->life &&
                              request_ns < l->locked_request_ns;
    if (l->locked_to != candidate) {
        l->earlier_until_ns = 0;
    } else if (l->locked_life != election->life && now_ns < l->locked_until_ns) {
        /* a leadership of its earlier life may continue */
        l->earlier_until_ns = l->locked_until_ns;
    }
    l->locked_request_ns = is_overtaken ? l->locked_request_ns : request_ns;
    l->locked_life = election->life;
    l->locked_to = candidate;
    CV_ASSERT(l->locked_until_ns <= now_ns + l->lock_ns); /* a lock is only ever prolonged */
    l->locked_until_ns = now_ns + l->lock_ns;
    CV_ASSERT(l->earlier_until_ns <= l->locked_until_ns);
    cv__effect_arm(out, LOCAL_TIMER_LOCK, l->locked_until_ns, l->locked_until_ns);
    return true;
}

/* ---- Leading --------------------------------------------------------------------------------- */

/* The lowest id that is alive but does not support the open request; CV_ID_NONE: all support it. */
static cv_id missing_supporter(struct local *l)
{
    const uint64_t *alive = set_of(l, SET_ALIVE);
    const uint64_t *reply = set_of(l, SET_REPLY);
    if (cv__set_is_subset(alive, reply, l->member_count)) {
        return CV_ID_NONE;
    }
    cv_id id = cv__set_next(alive, 1, l->member_count);
    while (cv__set_has(reply, id)) {
        id = cv__set_next(alive, id + 1, l->member_count);
        CV_ASSERT(id != CV_ID_NONE); /* one is missing */
    }
    return id;
}

/* [Ours] (BI) Do all members support the open request except one, whose host saw it die, and that
 * cannot have been back for long? Then no process that is connected to this one is missing. This
 * process was locked to the dead one by a fast ELECTION from it. So, as long as that lock would
 * have lasted, the dead one was alive less than `lock` plus Delta ago. It has died since. If it is
 * back, it must be connected for kappa, which is longer, before (BI) requires its support. */
static bool is_everybody_left(struct local *l, int64_t now_ns)
{
    if (now_ns >= l->lost_until_ns) {
        return false;
    }
    CV_ASSERT(l->lost_until_ns <= now_ns + l->lock_ns);
    uint64_t *scratch = set_of(l, SET_SCRATCH);
    cv__set_copy(scratch, set_of(l, SET_REPLY), l->member_count);
    cv__set_add(scratch, l->lost);
    return cv__set_count(scratch, l->member_count) == l->member_count;
}

/* Is every process that is connected to this one among those that it asked? Either because it has
 * asked in a row for long enough, or because no other process is left. */
static bool is_complete(struct local *l, int64_t now_ns)
{
    return cv__set_has(set_of(l, SET_TARGET), l->self) || is_everybody_left(l, now_ns);
}

/* [Fetzer99, fig. 30, checkIfLeader] Does the open request carry a leadership? If not, *ret_why has
 * the reason. */
static bool may_lead(struct local *l, int64_t now_ns, struct cv_note *ret_why)
{
    CV_ASSERT(l->role == LOCAL_ASKING || is_leading(l));
    CV_ASSERT(l->request_ns != 0);
    (void)cv__local_purge(l, now_ns);
    const uint64_t *reply = set_of(l, SET_REPLY);
    const uint32_t count = cv__set_count(reply, l->member_count);
    const bool is_fresh =
        is_leading(l) ? l->request_token >= l->token : l->request_token > l->led_token;
    const char *why = NULL;
    cv_id peer = CV_ID_NONE;
    if (!is_fresh) {
        why = "request failed: it led before with a token not below {number}";
    } else if (!is_complete(l, now_ns)) {
        why = "request failed: candidate for too short a time, some may not have answered yet";
    } else if (!cv__set_has(reply, l->self)) {
        why = "request failed: it may not support itself";
    } else if ((peer = missing_supporter(l)) != CV_ID_NONE) {
        why = "request failed: {peer} is alive and does not support it";
    } else if ((peer = cv__local_first_alive(l)) != l->self) {
        why = "request failed: {peer} is alive and comes first";
    } else if (count < l->min_supporters) {
        why = "request failed: {number} supporters are not a majority";
    } else if (now_ns >= l->request_ns + l->lead_ns) {
        why = "request failed: its answers came too late";
    }
    CV_ASSERT(why != NULL || 2 * count > l->member_count || l->min_supporters == 1); /* quorum */
    *ret_why = (struct cv_note){why, peer, now_ns, is_fresh ? count : l->request_token};
    return why == NULL;
}

/* The open request carries a leadership, new or renewed. */
static void become_leading(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    const bool is_renewal = is_leading(l) && l->request_token == l->token;
    const int64_t expiration_ns = l->request_ns + l->lead_ns;
    cv__set_copy(set_of(l, SET_SUPPORT), set_of(l, SET_REPLY), l->member_count);
    CV_ASSERT(cv__set_has(set_of(l, SET_SUPPORT), l->self)); /* (LS) */
    CV_ASSERT(l->locked_to == l->self);                      /* (LS) */
    CV_ASSERT(l->locked_life == l->life);             /* no RELEASE of another life frees it, */
    CV_ASSERT(l->locked_request_ns >= l->request_ns); /* and none of an earlier request */
    CV_ASSERT(is_renewal || l->request_token > l->led_token); /* no token leads twice */
    CV_ASSERT(now_ns < expiration_ns);
    CV_ASSERT(!is_leading(l) || expiration_ns >= l->expiration_ns); /* never moves backwards */
    cv__local_become(l, LOCAL_LEADING);
    l->expiration_ns = expiration_ns;
    l->token = l->request_token;
    l->led_token = l->token;
    l->turn_began_ns = is_renewal ? l->turn_began_ns : now_ns;
    l->leader = l->self;
    l->leader_token = l->token;
    tell(l, is_renewal ? CV_REASON_RENEWED : CV_REASON_ELECTED, set_of(l, SET_SUPPORT), out);
    cv__effect_disarm(out, LOCAL_TIMER_RELEASE);
    cv__effect_arm(out, LOCAL_TIMER_LAPSE, l->expiration_ns, l->expiration_ns);
    /* a new leader keeps the timer of `ep`: its supporters learn soon that it leads */
    if (is_renewal) {
        const int64_t next_ns =
            cv__max64(now_ns, peer_of(l, l->self)->heard_ns + l->calm_ns); /* since it last asked */
        cv__effect_arm(out, LOCAL_TIMER_ALIVE, next_ns, next_ns);
    }
    reserve_ahead(l, out);
}

void cv__local_check_early(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    struct cv_note why;
    if (l->request_ns != 0 && is_complete(l, now_ns) &&
        cv__set_is_subset(set_of(l, SET_TARGET), set_of(l, SET_REPLY), l->member_count) &&
        may_lead(l, now_ns, &why)) {
        become_leading(l, now_ns, out);
    }
}

/* [Fetzer99, fig. 24] A process that hears us follows a leader before us: no request of ours can
 * succeed until it stops following. */
static bool is_blocked(struct local *l)
{
    return cv__set_count(set_of(l, SET_TAKEN), l->member_count) > 0;
}

/* Asking in vain would keep the processes after us from leading: they would wait for us, and we
 * would wait for a process whose leader we do not hear. */
static void stand_aside(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(l->role == LOCAL_ASKING); /* a leader does not release its supporters early */
    CV_ASSERT(is_blocked(l));
    cv__effect_note(out, "stands aside: {peer} follows a leader before this process",
                    cv__set_next(set_of(l, SET_TAKEN), 1, l->member_count), 0, 0);
    cv__local_become(l, LOCAL_ASIDE);
    cv__local_release(l, out);
    cv__effect_arm(out, LOCAL_TIMER_ALIVE, now_ns + l->expires_ns / 3, now_ns + l->expires_ns / 3);
}

void cv__local_check_late(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->request_ns == 0) {
        return;
    }
    struct cv_note why;
    if (may_lead(l, now_ns, &why)) {
        become_leading(l, now_ns, out);
        return;
    }
    cv__effect_note(out, why.text, why.peer, why.time_ns, why.number);
    if (!is_leading(l) && is_blocked(l)) {
        stand_aside(l, now_ns, out);
    } else if (!is_leading(l)) {
        const bool has_support = cv__set_count(set_of(l, SET_REPLY), l->member_count) > 0;
        cv__local_become(l, LOCAL_FOLLOWING);
        if (has_support) {
            cv__local_release(l, out);
            /* All connected processes have answered the request itself, perhaps not its
             * repetitions. */
            peer_of(l, l->self)->heard_ns = l->asked_ns;
            cv__set_add(set_of(l, SET_ALIVE), l->self);
        }
    } /* else: the leadership rests on the locks, so they stay; ask again at the next timer */
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static uint64_t token_to_propose(const struct local *l)
{
    CV_ASSERT(l->led_token <= l->token_seen);
    if (is_leading(l) && l->token == l->token_seen && l->token > l->token_floor) {
        return l->token; /* renewal */
    }
    const bool is_own_unused =
        l->token_owner == l->self && l->token_seen > l->led_token && l->token_seen > l->token_floor;
    const uint64_t largest = cv__max_u64(l->token_floor, l->token_seen);
    CV_ASSERT(largest < UINT64_MAX); /* messages with impossible tokens were ignored */
    return is_own_unused ? l->token_seen : largest + 1;
}

/* [Fetzer99, sec. IX.D; ours] (BI) When a request is opened, every process that is connected to
 * this one must be in the alive set, since a request succeeds as soon as the processes of the set
 * have answered. A connected process answers each ELECTION of ours within Delta, and is alive for
 * `expires` from then on. So one ELECTION of ours must be more than Delta and at most `expires`
 * old. There is one if we have asked in a row that began more than Delta ago, and in which
 * successive ELECTIONs are at most expires - Delta apart: the latest one that is more than Delta
 * old. Its successor came at most expires - Delta later and is at most Delta old; so it is itself
 * at most `expires` old.
 *
 * Two things break a row: silence for longer than expires - Delta, and a RELEASE, since a process
 * that hears the RELEASE first does not answer the ELECTIONs before it. The first request of a row
 * cannot succeed, unless no other process is left: is_everybody_left(). */
static bool is_row_unbroken(struct local *l, int64_t now_ns)
{
    CV_ASSERT(l->expires_ns > l->wait_ns / 2); /* otherwise no row would ever be unbroken */
    return cv__set_has(set_of(l, SET_ALIVE), l->self) &&
           now_ns - peer_of(l, l->self)->heard_ns <= l->expires_ns - l->wait_ns / 2;
}

/* Opens a new request, which replaces the open one, if any. */
static void open_request(struct local *l, uint64_t token, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(now_ns >= l->asked_ns); /* a request is identified by its instant, so these grow */
    CV_ASSERT(token > 0);
    CV_ASSERT(!is_passive(l));
    if (!is_leading(l)) {
        cv__local_become(l, LOCAL_ASKING);
    }
    l->request_ns = now_ns;
    l->asked_ns = now_ns;
    l->request_token = token;
    cv__set_copy(set_of(l, SET_TARGET), set_of(l, SET_ALIVE), l->member_count);
    if (now_ns - l->candidate_since_ns <= l->wait_ns / 2) {
        cv__set_remove(set_of(l, SET_TARGET), l->self); /* not all can have answered */
    }
    cv__set_clear(set_of(l, SET_REPLY), l->member_count);
    cv__effect_arm(out, LOCAL_TIMER_RELEASE, now_ns + l->wait_ns, now_ns + l->wait_ns);
}

/* Sends the open request to all members, and returns its message. */
static struct local_election send_election(struct local *l, struct cv_effects *out)
{
    CV_ASSERT(l->request_ns != 0);
    CV_ASSERT(l->request_token >= l->token_seen);
    const uint32_t words = cv__set_words(l->member_count);
    if (!is_leading(l)) {
        cv__set_clear(set_of(l, SET_SUPPORT), l->member_count);
    }
    const struct local_election election = {
        .life = l->life,
        .request = (uint64_t)l->request_ns,
        .token = l->request_token,
        .turn = l->turn,
        .turn_token = l->turn_token,
        .leading = is_leading(l) ? l->token : 0,
        .alive = cv__effect_list(out, set_of(l, SET_ALIVE), words),
        .support = cv__effect_list(out, set_of(l, SET_SUPPORT), words),
    };
    local_election_write(cv__effect_send_all(out, LOCAL_ELECTION), election);
    return election;
}

void cv__local_ask(struct local *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!is_passive(l));
    if (l->request_ns == 0 && now_ns == l->asked_ns) {
        /* A request is identified by its instant, and one of this instant was given up already. */
        cv__effect_arm(out, LOCAL_TIMER_ALIVE, now_ns + 1, now_ns + 1);
        return;
    }
    struct cv_note why;
    if (is_leading(l) && l->request_ns != 0 && may_lead(l, now_ns, &why)) {
        become_leading(l, now_ns, out); /* it waited only for processes that are no longer alive */
    }
    l->candidate_since_ns = is_row_unbroken(l, now_ns) ? l->candidate_since_ns : now_ns;
    const uint64_t token = token_to_propose(l);
    CV_ASSERT(token >= l->token_seen);
    CV_ASSERT(token > l->token_floor); /* a refused token is not proposed again */
    const int64_t open_ns = is_leading(l) ? l->lock_ns / 2 : l->wait_ns;
    const bool can_succeed = is_leading(l) || cv__set_has(set_of(l, SET_TARGET), l->self);
    const bool is_repeat = l->request_ns != 0 && can_succeed && token == l->request_token &&
                           now_ns - l->request_ns < open_ns;
    if (!is_repeat) {
        open_request(l, token, now_ns, out);
    }
    const struct local_election election = send_election(l, out);
    cv__local_mark_alive(l, l->self, LOCAL_CANDIDATE, now_ns);
    if (cv__local_support(l, l->self, &election, now_ns, out)) {
        cv__set_add(set_of(l, SET_REPLY), l->self);
    }
    const bool was_leading = is_leading(l);
    cv__local_check_early(l, now_ns, out);
    const bool is_renewed = was_leading && l->request_ns == 0; /* it needs no other supporter */
    int64_t next_ns = now_ns + (is_renewed ? l->calm_ns : l->ep_ns);
    if (!is_leading(l) && !cv__set_has(set_of(l, SET_TARGET), l->self)) {
        /* This request cannot succeed; the next one can, as soon as all have had time to answer. */
        next_ns = cv__min64(next_ns, l->candidate_since_ns + l->wait_ns / 2 + 1);
        CV_ASSERT(next_ns > now_ns);
    }
    cv__effect_arm(out, LOCAL_TIMER_ALIVE, next_ns, next_ns);
}
