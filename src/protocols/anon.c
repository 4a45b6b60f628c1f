/* src/protocols/anon.c - anonymous stabilizing leader election with a network sequencer
 * [Wiesmann07]: no ids, no member list, no point-to-point messages, and constant memory.
 *
 * A process without a leader takes a number from the sequencer and broadcasts it (a proposal).
 * Numbers fall into rounds of R; a round is closed once a number of a later round has been seen.
 * The leader is the owner of the largest number below the open round. It alone then sends, every
 * eta; a process that does not hear it for eps takes a number again. The whole state is two numbers
 * with their owners, and it travels in every message, so that one message is enough for a newcomer
 * [sec. 6].
 *
 * Why all see leaders in the same order (lemma 8): the leader is a function of the set of tokens
 * seen, whatever the order of their arrival, and larger sets have larger leaders. Tokens compare by
 * (number, label): equal numbers are possible when a sequencer lost its memory twice (sequence.h).
 *
 * Ours, each with a failing run behind it:
 * - The closed number is the largest below the open round, however many rounds below; [fig. 1] only
 *   looks at the round just below and splits the processes after a gap of R.
 * - The piggybacked number travels with its owner's label; one leadership event per message.
 * - "Mine" is a bit that moves along with the number. Labels and the latest number do not matter.
 * - Every token of the leader with a larger send count renews trust, not only the first [fig. 2];
 *   duplicates and late copies do not.
 * - A proposal is repeated until a token shows that the leader knows that it leads: the number it
 *   piggybacks must be of a later round, otherwise it may not know yet that its round is closed.
 * - Stubborn proposals: no leader within eps, so propose again; fewer than R living processes still
 *   make progress. `stubborn=no` is the paper's rule, and needs R suspecting processes (lemma 4).
 * - A process that hears the leader answers a proposal by TRUST, unless another did; that postpones
 *   the proposer's next number by eps. Otherwise one cut link between the leader and one process
 *   starts leaderships for ever (lemma 5). TRUST renews no trust: it ends with the leader's life.
 * - A number that comes while a leader is trusted is dropped; one not above the closed is useless.
 * - Stale tokens: a process that hears one below its closed number broadcasts its state (STATE,
 *   which renews no trust), unless another did. Otherwise a deposed leader that cannot hear its
 *   successor leads for ever.
 * - Pauses: timers that fire late prove one. Then listen first.
 * - Resigning (GONE), with no proposal for 2 eps after it. A requested successor is ignored,
 *   because processes have no names.
 *
 * Assumed: numbers grow (src/core/sequence.h), labels differ. Nothing else for leader-order and
 * validity; timely links, no loss, prompt processes and a sequencer that answers for the rest. Two
 * leaders are possible for a while, so a resource fences on the largest token it has seen. */
#include "core/options.h"
#include "core/sequence.h"
#include "protocols/anon_config.h"
#include "protocols/anon_round.h"
#include "protocols/registry.h"

static const struct cv_message_type anon_messages[ANON_MESSAGE_COUNT] = {
    [ANON_TOKEN] = CV_MESSAGE_TYPE("TOKEN", ANON_FIELDS),
    [ANON_STATE] = CV_MESSAGE_TYPE("STATE", ANON_FIELDS),
    [ANON_GONE] = CV_MESSAGE_TYPE("GONE", ANON_FIELDS),
    [ANON_TRUST] = CV_MESSAGE_TYPE("TRUST", ANON_FIELDS),
};

#define GONE_COUNT 3u /* how often GONE is sent */

static size_t anon_size(const struct cv_config *config)
{
    (void)config;
    return sizeof(struct anon);
}

static const struct anon_pair no_pair = {.number = CV_SEQUENCE_NONE};

static void anon_init(void *state, const struct cv_config *config)
{
    struct anon *a = state;
    const int64_t *o = config->option;
    a->self = config->self;
    a->is_stubborn = (uint32_t)o[ANON_OPTION_STUBBORN];
    a->is_persistent = (uint32_t)o[ANON_OPTION_PERSIST];
    a->is_early = (uint32_t)o[ANON_OPTION_START];
    a->round_size = (uint64_t)o[ANON_OPTION_R];
    a->eta_ns = o[ANON_OPTION_ETA];
    a->eps_ns = o[ANON_OPTION_EPS];
    a->query_ns = cv__anon_query_ns(config);
    a->query_wait_ns = a->query_ns;
    a->open = no_pair;
    a->closed = no_pair;
    a->proposal = CV_SEQUENCE_NONE;
    a->role = ANON_SUSPECTING;
    a->is_candidate = true;
    CV_ASSERT(a->eta_ns < a->eps_ns / 2); /* a listener hears an existing leader in time */
    CV_ASSERT(a->query_ns >= a->eps_ns);
}

/* ---- The role -------------------------------------------------------------------------------- */

static const uint32_t anon_role_next[ANON_ROLE_COUNT] = {
    [ANON_SUSPECTING] = BIT(ANON_TRUSTING) | BIT(ANON_LEADING) | BIT(ANON_STOPPED),
    [ANON_TRUSTING] = BIT(ANON_SUSPECTING) | BIT(ANON_LEADING) | BIT(ANON_STOPPED),
    [ANON_LEADING] =
        BIT(ANON_TRUSTING) | BIT(ANON_SUSPECTING) | BIT(ANON_PAUSED) | BIT(ANON_STOPPED),
    [ANON_PAUSED] =
        BIT(ANON_TRUSTING) | BIT(ANON_SUSPECTING) | BIT(ANON_LEADING) | BIT(ANON_STOPPED),
    [ANON_STOPPED] = 0,
};

/* The only place where the role changes. */
static void become(struct anon *a, enum anon_role role)
{
    CV_ASSERT(role < ANON_ROLE_COUNT);
    CV_ASSERT(a->role == role || (anon_role_next[a->role] & BIT(role)) != 0);
    CV_ASSERT(a->closed.is_mine == (role == ANON_LEADING || role == ANON_PAUSED));
    a->role = role;
}

/* What each role implies. */
static void check_role(const struct anon *a)
{
    CV_ASSERT(a->role < ANON_ROLE_COUNT);
    CV_ASSERT(is_owner(a) == (a->closed.is_mine != 0));
    CV_ASSERT((a->role == ANON_LEADING) == (a->told_role == ANON_LEADING));
    CV_ASSERT((a->role == ANON_TRUSTING) == (a->told_role == ANON_TRUSTING));
    switch (a->role) {
    case ANON_TRUSTING:
        CV_ASSERT(!anon_is_none(&a->closed));
        break;
    case ANON_LEADING:
    case ANON_PAUSED:
        CV_ASSERT(a->closed.label == a->label);
        /* it does not propose a number that leads already */
        CV_ASSERT(a->proposal == CV_SEQUENCE_NONE);
        CV_ASSERT(a->is_candidate);
        break;
    case ANON_STOPPED:
        CV_ASSERT(a->proposal == CV_SEQUENCE_NONE);
        CV_ASSERT(!a->open.is_mine);
        break;
    default:
        break;
    }
}

static void anon_check(const void *state)
{
    const struct anon *a = state;
    check_role(a);
    if (!anon_is_none(&a->closed)) {
        CV_ASSERT(!anon_is_none(&a->open));
        /* The closed number is of a round below the open one. */
        CV_ASSERT(anon_round(a, a->closed.number) < anon_round(a, a->open.number));
    }
    CV_ASSERT(!a->open.is_mine || a->open.label == a->label);
    CV_ASSERT(a->proposal == CV_SEQUENCE_NONE || a->proposal <= a->open.number);
    CV_ASSERT(a->open_request == 0 || a->open_request == a->request);
    CV_ASSERT(a->gone_left < GONE_COUNT);
}

/* May this process propose? */
static bool may_propose(const struct anon *a, int64_t now_ns)
{
    CV_ASSERT(a->role != ANON_STOPPED);
    return a->is_candidate && now_ns >= a->rest_until_ns;
}

/* ---- Effects --------------------------------------------------------------------------------- */

/* At the end of a step: reports the belief if it has changed. */
static void tell(struct anon *a, enum cv_reason lost, struct cv_effects *out)
{
    const bool is_known = a->role == ANON_LEADING || a->role == ANON_TRUSTING;
    const uint32_t role = is_known ? a->role : ANON_SUSPECTING;
    const struct anon_pair told = anon_pair_of(a->told_number, a->told_label);
    const bool is_same = anon_is_same(&told, &a->closed);
    CV_ASSERT(role != ANON_LEADING || a->closed.is_mine); /* a leader owns the closed number */
    if (role == a->told_role && (!is_known || is_same)) {
        return;
    }
    const bool is_loss = !is_known || a->told_role == ANON_LEADING;
    const struct cv_leadership leadership = {
        .is_self = role == ANON_LEADING,
        .leader = !is_known              ? CV_ID_NONE
                  : role == ANON_LEADING ? a->self
                                         : CV_ID_ANONYMOUS,
        .label = is_known ? a->closed.label : 0,
        .token = is_known ? a->closed.number : 0,
        .reason = is_loss   ? lost
                  : is_same ? CV_REASON_RENEWED
                            : CV_REASON_ELECTED,
    };
    a->told_role = role;
    if (is_known) {
        CV_ASSERT(!anon_is_below(&a->closed, &told)); /* leaders are seen in order (lemma 8) */
        a->told_number = a->closed.number;
        a->told_label = a->closed.label;
    }
    cv__effect_leadership(out, &leadership);
}

static void send(struct anon *a, uint32_t type, struct cv_effects *out)
{
    const bool is_closed = type != ANON_TOKEN || is_owner(a);
    CV_ASSERT(!anon_is_none(&a->open));
    CV_ASSERT(!is_closed || !anon_is_none(&a->closed));
    /* the sender of a token owns its number */
    CV_ASSERT(is_closed || a->proposal != CV_SEQUENCE_NONE);
    /* after a pause a process listens first */
    CV_ASSERT(type != ANON_TOKEN || a->role != ANON_PAUSED);
    CV_ASSERT(type != ANON_GONE || !is_owner(a)); /* it stops leading before it sends GONE */
    anon_token_write(cv__effect_send_all(out, type),
                     (struct anon_token){
                         .number = is_closed ? a->closed.number : a->proposal,
                         .label = is_closed ? a->closed.label : a->label,
                         .sent = ++a->sent_count,
                         .open_number = a->open.number,
                         .open_label = a->open.label,
                         .round = a->round_size,
                     });
}

static void arm_suspect(struct anon *a, int64_t earliest_ns, int64_t latest_ns,
                        struct cv_effects *out)
{
    CV_ASSERT(!is_owner(a));
    a->suspect_due_ns = latest_ns;
    cv__effect_arm(out, ANON_TIMER_SUSPECT, earliest_ns, latest_ns);
}

/* epsilon_0: in the upper half of eps, so that a heartbeat of an existing leader comes first. */
static void listen_first(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!is_owner(a));
    arm_suspect(a, now_ns + a->eps_ns / 2, now_ns + a->eps_ns, out);
}

static void send_token(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(a->role != ANON_STOPPED);
    send(a, ANON_TOKEN, out);
    a->heartbeat_due_ns = now_ns + a->eta_ns;
    cv__effect_arm(out, ANON_TIMER_HEARTBEAT, a->heartbeat_due_ns, a->heartbeat_due_ns);
}

/* Owns the closed number but has slept: stays silent for epsilon_0, then leads again if it still
 * owns it. */
static void become_paused(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(is_owner(a));
    CV_ASSERT(a->proposal == CV_SEQUENCE_NONE);
    become(a, ANON_PAUSED);
    a->resume_due_ns = now_ns + a->eps_ns;
    cv__effect_note(out, "does not lead for now: slept, and listens until {time}", CV_ID_NONE,
                    a->resume_due_ns, a->closed.number);
    cv__effect_disarm(out, ANON_TIMER_HEARTBEAT);
    cv__effect_arm(out, ANON_TIMER_RESUME, now_ns + a->eps_ns / 2, a->resume_due_ns);
}

static void save(const struct anon *a, struct cv_effects *out)
{
    CV_ASSERT(!anon_is_none(&a->open));
    CV_ASSERT(anon_is_below(&a->closed, &a->open)); /* the saved numbers are in order */
    if (a->is_persistent) {
        const uint64_t record[] = {a->closed.number, a->closed.label, a->open.number,
                                   a->open.label};
        cv__effect_persist(out, record, COUNT_OF(record));
    }
}

/* ---- Leaders come and go --------------------------------------------------------------------- */

static void become_leading(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(a->closed.is_mine);
    CV_ASSERT(a->closed.label == a->label);
    CV_ASSERT(a->is_candidate);
    become(a, ANON_LEADING);
    send_token(a, now_ns, out);
}

/* The owner of the closed number, another process, is trusted for eps from now on. */
static void become_trusting(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!anon_is_none(&a->closed));
    CV_ASSERT(!a->closed.is_mine); /* a process does not trust itself */
    become(a, ANON_TRUSTING);
    arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
}

/* The closed number has changed. If its owner is another process, it is trusted at first. */
static void adopt(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!anon_is_none(&a->closed));
    a->heard_count = 0;
    a->has_proposed = false;
    a->gone_left = 0;
    cv__effect_disarm(out, ANON_TIMER_RESUME);
    const struct anon_pair own = anon_pair_of(a->proposal, a->label);
    if (a->closed.is_mine || !anon_is_below(&a->closed, &own)) {
        a->proposal = CV_SEQUENCE_NONE;
    }
    if (a->closed.is_mine) {
        cv__effect_disarm(out, ANON_TIMER_SUSPECT);
        become_leading(a, now_ns, out);
        return;
    }
    become_trusting(a, now_ns, out);
    if (a->proposal == CV_SEQUENCE_NONE) {
        cv__effect_disarm(out, ANON_TIMER_HEARTBEAT);
    }
    CV_ASSERT(a->proposal == CV_SEQUENCE_NONE || a->proposal >= a->closed.number);
}

static void ask(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(a->role == ANON_SUSPECTING); /* numbers are taken only while no leader is trusted */
    CV_ASSERT(may_propose(a, now_ns));
    CV_ASSERT(a->open_request == 0);
    CV_ASSERT(a->query_wait_ns >= a->query_ns);
    a->open_request = ++a->request;
    cv__effect_ask_sequence(out, a->request, a->open.number);
    cv__effect_arm(out, ANON_TIMER_QUERY, now_ns + a->query_wait_ns, now_ns + a->query_wait_ns);
}

/* [fig. 1, suspector] No leader is trusted: take a number, unless one is requested already. */
static void become_suspecting(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(!is_owner(a));
    become(a, ANON_SUSPECTING);
    if (a->is_candidate && now_ns < a->rest_until_ns) {
        cv__effect_note(out, "proposes nothing: resigned, and rests until {time}", CV_ID_NONE,
                        a->rest_until_ns, 0);
        arm_suspect(a, a->rest_until_ns, a->rest_until_ns, out);
        return;
    }
    if (!a->is_candidate) {
        cv__effect_note(out, "proposes nothing: not a candidate", CV_ID_NONE, 0, 0);
        return;
    }
    if (!a->is_stubborn && a->has_proposed) {
        cv__effect_note(out, "proposes nothing: has proposed once, and is not stubborn", CV_ID_NONE,
                        0, 0);
        return;
    }
    if (a->open_request == 0) {
        ask(a, now_ns, out);
    }
}

/* Gives up its number. Other processes may still follow that number for a while. */
static void give_up(struct anon *a, enum anon_role role, struct cv_effects *out)
{
    a->open.is_mine = false;
    a->closed.is_mine = false;
    a->proposal = CV_SEQUENCE_NONE;
    become(a, role);
    CV_ASSERT(!is_owner(a));
    cv__effect_disarm(out, ANON_TIMER_HEARTBEAT);
    cv__effect_disarm(out, ANON_TIMER_RESUME);
}

static void resign(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (!is_owner(a)) {
        cv__effect_note(out, "resignation ignored: does not lead", CV_ID_NONE, 0, 0);
        return;
    }
    give_up(a, ANON_SUSPECTING, out);
    a->rest_until_ns = now_ns + 2 * a->eps_ns;
    arm_suspect(a, a->rest_until_ns, a->rest_until_ns, out);
    send(a, ANON_GONE, out);
    a->gone_left = GONE_COUNT - 1;
    cv__effect_arm(out, ANON_TIMER_HEARTBEAT, now_ns + a->eta_ns, now_ns + a->eta_ns);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* A token of the owner of the closed number. */
static void on_leader(struct anon *a, const struct cv_message *message, int64_t now_ns,
                      struct cv_effects *out)
{
    const struct anon_token token = anon_token_read(message);
    CV_ASSERT(token.number == a->closed.number);
    CV_ASSERT(token.label == a->closed.label);
    CV_ASSERT(!is_owner(a)); /* messages with its own label were ignored */
    if (token.sent <= a->heard_count) {
        cv__effect_note(out, "token ignored: a copy, or overtaken by a later one ({number})",
                        CV_ID_NONE, 0, token.sent);
        return; /* not a sign of life */
    }
    a->heard_count = token.sent;
    if (message->type == ANON_GONE) {
        become_suspecting(a, now_ns, out);
        return;
    }
    become_trusting(a, now_ns, out);
    if (anon_round(a, token.number) < anon_round(a, token.open_number)) {
        a->has_proposed = false; /* the owner knows that its round is closed, so it leads */
        a->proposal = CV_SEQUENCE_NONE;
        cv__effect_disarm(out, ANON_TIMER_HEARTBEAT);
    }
}

/* Has this process heard the leader lead, and does it still trust it? */
static bool hears_leader(const struct anon *a)
{
    CV_ASSERT(a->role != ANON_TRUSTING ||
              !anon_is_none(&a->closed)); /* the leader that it trusts */
    return a->role == ANON_TRUSTING && a->heard_count > 0;
}

/* Another process sees the same leader and has sent what this one would have sent. */
static void on_told(struct anon *a, uint32_t type, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(type == ANON_STATE || type == ANON_TRUST);
    CV_ASSERT(!anon_is_none(&a->closed));
    const uint32_t telling = a->telling;
    a->telling &= type == ANON_TRUST ? 0 : ~(uint32_t)ANON_TELL_STALE;
    if (type == ANON_TRUST && a->role == ANON_SUSPECTING && a->proposal != CV_SEQUENCE_NONE) {
        cv__effect_note(out, "no new number before {time}: another process hears the leader",
                        CV_ID_NONE, now_ns + a->eps_ns, a->closed.number);
        arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
    } else if (a->telling == telling) {
        cv__effect_note(out, "nothing to do: another process sees the same leader, {number}",
                        CV_ID_NONE, 0, a->closed.number);
    }
}

static void tell_soon(struct anon *a, uint32_t why, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(why == ANON_TELL_STALE || why == ANON_TELL_TRUST);
    CV_ASSERT(!anon_is_none(&a->closed)); /* STATE and TRUST carry the closed number */
    if (a->telling == 0) {
        cv__effect_arm(out, ANON_TIMER_TELL, now_ns + 1, now_ns + a->eta_ns);
    }
    a->telling |= why;
}

/* A token of a process that is not the leader here: deposed, or proposing. */
static void on_other(struct anon *a, const struct anon_pair *owned, int64_t now_ns,
                     struct cv_effects *out)
{
    CV_ASSERT(!anon_is_same(owned, &a->closed));
    if (anon_is_below(owned, &a->closed)) {
        cv__effect_note(out, "token {number} is stale: tells everybody the present state",
                        CV_ID_NONE, 0, owned->number);
        tell_soon(a, ANON_TELL_STALE, now_ns, out);
    } else if (a->is_stubborn && hears_leader(a)) {
        cv__effect_note(out, "proposal {number} not needed: tells everybody that the leader lives",
                        CV_ID_NONE, 0, owned->number);
        tell_soon(a, ANON_TELL_TRUST, now_ns, out);
    } else {
        cv__effect_note(out, "proposal {number} does not lead yet: its round is open", CV_ID_NONE,
                        0, owned->number);
    }
}

/* Sends the pending STATE or TRUST, if it is still true. */
static void on_tell(struct anon *a, struct cv_effects *out)
{
    const uint32_t telling = a->telling;
    CV_ASSERT(telling == 0 || !anon_is_none(&a->closed));
    a->telling = 0;
    if ((telling & ANON_TELL_TRUST) != 0 && hears_leader(a)) {
        send(a, ANON_TRUST, out);
    } else if ((telling & ANON_TELL_STALE) != 0) {
        send(a, ANON_STATE, out);
    }
}

/* Does a message make sense here? */
static bool is_sound(struct anon *a, const struct anon_token *token, struct cv_effects *out)
{
    const struct anon_pair owned = anon_pair_of(token->number, token->label);
    const struct anon_pair open = anon_pair_of(token->open_number, token->open_label);
    if (token->round != a->round_size) {
        cv__effect_note(out, "message ignored: rounds of another size, R={number}", CV_ID_NONE, 0,
                        token->round);
        return false;
    }
    if (open.number >= CV_SEQUENCE_END) { /* checks the smaller numbers too */
        cv__effect_note(out, "message ignored: {number} is not a number of a sequencer", CV_ID_NONE,
                        0, open.number);
        return false;
    }
    if (anon_is_below(&open, &owned)) {
        cv__effect_note(out, "message ignored: its number {number} is above its largest",
                        CV_ID_NONE, 0, owned.number);
        return false;
    }
    return true;
}

static void on_message(struct anon *a, const struct cv_message *message, int64_t now_ns,
                       struct cv_effects *out)
{
    const struct anon_token token = anon_token_read(message);
    const struct anon_pair owned = anon_pair_of(token.number, token.label);
    const struct anon_pair open = anon_pair_of(token.open_number, token.open_label);
    if (!is_sound(a, &token, out)) {
        a->refused_count++;
        return;
    }
    const bool is_of_its_owner = message->type == ANON_TOKEN || message->type == ANON_GONE;
    if (is_of_its_owner && owned.label == a->label) {
        cv__effect_note(out, "message ignored: it comes from this process itself", CV_ID_NONE, 0,
                        owned.number);
        return;
    }
    const struct anon_pair open_before = a->open;
    const struct anon_pair closed_before = a->closed;
    cv__anon_take(a, &open);
    cv__anon_take(a, &owned);
    CV_ASSERT(!anon_is_below(&a->closed, &closed_before)); /* leaders are seen in order (lemma 8) */
    const bool is_new = !anon_is_same(&closed_before, &a->closed);
    if (is_new || !anon_is_same(&open_before, &a->open)) {
        save(a, out);
    }
    if (is_new) {
        adopt(a, now_ns, out);
    }
    if (anon_is_same(&owned, &a->closed)) {
        if (is_of_its_owner) {
            on_leader(a, message, now_ns, out);
        } else {
            on_told(a, message->type, now_ns, out);
        }
    } else if (message->type == ANON_TOKEN) {
        on_other(a, &owned, now_ns, out);
    } else {
        cv__effect_note(out, "nothing to do: {number} is not the leader's number here", CV_ID_NONE,
                        0, owned.number);
    }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void propose(struct anon *a, uint64_t number, int64_t now_ns, struct cv_effects *out)
{
    const struct anon_pair own = {.number = number, .label = a->label, .is_mine = true};
    const struct anon_pair closed_before = a->closed;
    CV_ASSERT(a->role == ANON_SUSPECTING);
    CV_ASSERT(may_propose(a, now_ns));
    CV_ASSERT(number < CV_SEQUENCE_END);
    CV_ASSERT(anon_is_none(&a->closed) || number > a->closed.number);
    CV_ASSERT(a->proposal == CV_SEQUENCE_NONE || number > a->proposal); /* proposals grow */
    a->proposal = number;
    a->has_proposed = true;
    cv__anon_take(a, &own);
    save(a, out);
    if (!anon_is_same(&closed_before, &a->closed)) {
        adopt(a, now_ns, out);
    } else {
        arm_suspect(a, now_ns + a->eps_ns, now_ns + a->eps_ns, out);
    }
    if (!is_owner(a)) {
        send_token(a, now_ns, out);
    }
}

/* While a number is wanted, the answer to any request counts, even a late one. */
static void on_sequence(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    const uint64_t number = event->sequence;
    if (number >= CV_SEQUENCE_END) {
        cv__effect_note(out, "request {number} failed: the sequencer is asked again after a while",
                        CV_ID_NONE, 0, event->request);
        return; /* the time-out stays armed, so that failures do not cause a storm */
    }
    if (a->open_request == 0 || event->request > a->request) {
        cv__effect_note(out, "number {number} ignored: none is wanted any more", CV_ID_NONE, 0,
                        number);
        return;
    }
    const bool is_useless = (!anon_is_none(&a->closed) && number <= a->closed.number) ||
                            (a->proposal != CV_SEQUENCE_NONE && number <= a->proposal);
    if (is_useless) {
        cv__effect_note(out, "number {number} ignored: not above the leader's or its own",
                        CV_ID_NONE, 0, number);
    }
    if (is_useless && event->request != a->open_request) {
        return; /* the answer to the open request is still to come */
    }
    a->open_request = 0;
    a->query_wait_ns = a->query_ns;
    cv__effect_disarm(out, ANON_TIMER_QUERY);
    if (a->role != ANON_SUSPECTING || !may_propose(a, event->now_ns)) {
        cv__effect_note(out, "number {number} ignored: a leader is trusted, or may not propose",
                        CV_ID_NONE, 0, number);
        return;
    }
    if (is_useless) {
        ask(a, event->now_ns, out);
    } else {
        propose(a, number, event->now_ns, out);
    }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static void on_heartbeat(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (a->role == ANON_LEADING) {
        if (now_ns - a->heartbeat_due_ns > a->eps_ns) {
            become_paused(a, now_ns, out);
        } else {
            send_token(a, now_ns, out);
        }
    } else if (a->gone_left > 0) {
        a->gone_left--;
        send(a, ANON_GONE, out);
        cv__effect_arm(out, ANON_TIMER_HEARTBEAT, now_ns + a->eta_ns, now_ns + a->eta_ns);
    } else if (a->proposal != CV_SEQUENCE_NONE) {
        send_token(a, now_ns, out); /* no leader has shown yet that it leads */
    }
}

static void on_suspect(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (is_owner(a)) {
        return;
    }
    if (now_ns - a->suspect_due_ns > a->eta_ns) {
        cv__effect_note(out, "suspects no leader yet: slept since {time}, listens first",
                        CV_ID_NONE, a->suspect_due_ns, 0);
        listen_first(a, now_ns, out); /* missed messages may be waiting in the queue */
    } else {
        become_suspecting(a, now_ns, out);
    }
}

static void on_query_timeout(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    a->open_request = 0;
    a->query_wait_ns = cv__min64(2 * a->query_wait_ns, ANON_QUERY_FACTOR_MAX * a->query_ns);
    CV_ASSERT(a->query_wait_ns > a->query_ns); /* a sequencer that fails is asked less often */
    cv__effect_note(out, "request {number} was not answered in time", CV_ID_NONE, 0, a->request);
    if (a->role == ANON_SUSPECTING) {
        become_suspecting(a, now_ns, out);
    }
}

static void on_resume(struct anon *a, int64_t now_ns, struct cv_effects *out)
{
    if (a->role != ANON_PAUSED) {
        return;
    }
    CV_ASSERT(a->closed.is_mine); /* no process took over while this one listened */
    if (now_ns - a->resume_due_ns > a->eps_ns) {
        become_paused(a, now_ns, out); /* slept again */
    } else {
        become_leading(a, now_ns, out);
    }
}

static void on_timer(struct anon *a, uint32_t timer, int64_t now_ns, struct cv_effects *out)
{
    switch (timer) {
    case ANON_TIMER_HEARTBEAT:
        on_heartbeat(a, now_ns, out);
        break;
    case ANON_TIMER_SUSPECT:
        on_suspect(a, now_ns, out);
        break;
    case ANON_TIMER_QUERY:
        on_query_timeout(a, now_ns, out);
        break;
    case ANON_TIMER_TELL:
        on_tell(a, out);
        break;
    case ANON_TIMER_RESUME:
        on_resume(a, now_ns, out);
        break;
    default:
        CV_ASSERT(!"a timer that was never armed");
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void on_start(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(a->role == ANON_SUSPECTING);
    CV_ASSERT(anon_is_none(&a->open));
    a->label = event->nonce;
    if (a->is_persistent && event->persisted_count == 4) {
        for (uint32_t i = 0; i < 4; i += 2) {
            const struct anon_pair pair =
                anon_pair_of(event->persisted[i], event->persisted[i + 1]);
            if (pair.number < CV_SEQUENCE_END) {
                cv__anon_take(a, &pair); /* the label is new, so neither number is ours */
            }
        }
    }
    CV_ASSERT(!a->open.is_mine); /* this life does not own the numbers of an earlier one */
    CV_ASSERT(!a->closed.is_mine);
    if (a->is_early) {
        arm_suspect(a, event->now_ns + 1, event->now_ns + a->eps_ns, out);
    } else {
        listen_first(a, event->now_ns, out);
    }
}

static void on_campaign(struct anon *a, const struct cv_event *event, struct cv_effects *out)
{
    const bool was_candidate = a->is_candidate;
    a->is_candidate = event->is_candidate;
    if (!a->is_candidate) {
        resign(a, event->now_ns, out);
        if (a->gone_left == 0) {
            give_up(a, (enum anon_role)a->role, out);
        }
    } else if (!was_candidate && a->role == ANON_SUSPECTING) {
        listen_first(a, event->now_ns, out);
    }
    CV_ASSERT(a->is_candidate || !is_owner(a));
}

static void become_stopped(struct anon *a, struct cv_effects *out)
{
    give_up(a, ANON_STOPPED, out);
    CV_ASSERT(!is_owner(a));                    /* it must not lead with a number it may forget */
    cv__effect_disarm(out, ANON_TIMER_SUSPECT); /* give_up() disarmed the other two */
    cv__effect_disarm(out, ANON_TIMER_QUERY);
    cv__effect_disarm(out, ANON_TIMER_TELL);
}

static void anon_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct anon *a = state;
    enum cv_reason lost = CV_REASON_SUSPECTED;
    if (a->role == ANON_STOPPED) {
        cv__effect_note(out, "ignored: this process cannot save its numbers and has stopped",
                        CV_ID_NONE, 0, 0);
        return;
    }
    const struct anon_pair closed_before = a->closed;
    switch (event->kind) {
    case CV_EVENT_START:
        on_start(a, event, out);
        break;
    case CV_EVENT_MESSAGE:
        on_message(a, event->message, event->now_ns, out);
        lost = event->message->type == ANON_GONE ? CV_REASON_RESIGNED : CV_REASON_SUPERSEDED;
        break;
    case CV_EVENT_TIMER:
        on_timer(a, event->timer, event->now_ns, out);
        lost = a->role == ANON_PAUSED ? CV_REASON_EXPIRED : CV_REASON_SUSPECTED;
        break;
    case CV_EVENT_SEQUENCE:
        on_sequence(a, event, out);
        break;
    case CV_EVENT_RESIGN:
        resign(a, event->now_ns, out);
        lost = CV_REASON_RESIGNED;
        break;
    case CV_EVENT_CAMPAIGN:
        on_campaign(a, event, out);
        lost = CV_REASON_RESIGNED;
        break;
    case CV_EVENT_PERSIST_FAILED:
        become_stopped(a, out);
        lost = CV_REASON_STOPPED;
        break;
    case CV_EVENT_PEER_DOWN:
        cv__effect_note(out, "hint ignored: processes have no names here", CV_ID_NONE, 0, 0);
        break;
    case CV_EVENT_REPORT:
    case CV_EVENT_STORE:
        break;
    }
    CV_ASSERT(!anon_is_below(&a->closed, &closed_before)); /* leaders come in order (lemma 8) */
    CV_ASSERT(a->role != ANON_LEADING || a->closed.label == a->label);
    tell(a, lost, out);
}

const struct cv_protocol cv__proto_anon = {
    .name = "anon",
    .summary = "anonymous: numbers from a sequencer; the largest of the last closed round leads",
    .leads = "owner of the largest number of the last closed round",
    .cites = "[Wiesmann07]",
    .promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(LEADER_ORDER) | CV_PROP(STABILITY) | CV_PROP(COMMUNICATION_EFFICIENT),
    .assumes = BIT(CV_ASSUME_BOUNDED_DELAY) | BIT(CV_ASSUME_NO_LOSS) |
               BIT(CV_ASSUME_PROMPT_PROCESSES) | BIT(CV_ASSUME_BOUNDED_DRIFT) |
               BIT(CV_ASSUME_TRANSITIVE_LINKS) | BIT(CV_ASSUME_SEQUENCER),
    .contract = cv__anon_contract,
    .is_anonymous = true,
    .options = cv__anon_options,
    .renamed = cv__anon_renamed,
    .messages = anon_messages,
    .message_count = ANON_MESSAGE_COUNT,
    .configure = cv__anon_configure,
    .size = anon_size,
    .init = anon_init,
    .step = anon_step,
    .check = anon_check,
    .settle_ns = cv__anon_settle_ns,
    .timely_ns = cv__anon_timely_ns,
    .sequence_ns = cv__anon_query_ns,
};
