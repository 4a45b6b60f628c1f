/* src/protocols/lease.c - the holder of a record in a shared store leads [Gray89, Brooker]: events,
 * grants, answers. Which request is made next, and when: lease_ask.c.
 *
 * A store keeps one record for each election: its holder, its token, and its end by the store's own
 * clock. A contender asks to hold it (ACQUIRE), prolongs it well before the end (RENEW), and gives
 * it up when it resigns (RELEASE). It knows no other contender and sends no message: through the
 * store it sees only the label of the holder.
 *
 * Why two contenders never lead at once. Let the store grant a request that was made at the instant
 * r. No other contender gets the record before d of the store's clock have passed since r, or the
 * holder has asked for RELEASE (duties of a store: src/stores/store.h). Its clock runs at most 1 +
 * rho too fast, so d take at least d / (1 + rho) of real time. The holder counts d (1 - 2 rho) of
 * its own clock, also from r, which is before the answer came and before the store even saw the
 * request; its clock runs at least 1 - rho, so that takes at most d (1 - 2 rho) / (1 - rho) of real
 * time, which is less. This relies on these rules:
 *
 * - The stamp is that of the request, kept beside its number. How late the answer comes does not
 *   matter; an answer whose time is over when it comes has no effect.
 * - The end comes first: each step compares its clock with the end before anything else. A process
 *   that slept through it wakes up as no leader, whatever events wait for it.
 * - A leadership is one attempt. When it ends (by its time, by RELEASE, or because the store says
 *   that another contender has it), the attempt is over for good: later answers to it are ignored,
 *   so a grant in flight cannot revive it; and the store grants a later attempt with a new token.
 * - RELEASE is asked for only after the leadership has ended: the host stops its work before it
 *   sends RESIGN. A leadership that ran out is not released: its work may still be ending, and the
 *   record runs out by itself.
 *
 * Answers may come in any order, or never. A request that is not answered in time is repeated under
 * a new number, with the same attempt: the store answers the same grant with the same token. A late
 * answer counts, with the stamp of its own request, unless a later request was answered before it:
 * what it says about other contenders may be outdated, and its grant was requested again since.
 * Only "you do not hold it" always counts: the same attempt never holds a lost record again, except
 * as an answer to an ACQUIRE, which a leader does not send. A store may have granted the attempt
 * already (the answer was lost or too late) and not grant it again. It then answers ACQUIRE with
 * FREE, and the next attempt takes over; otherwise this process would ask in vain for ever.
 *
 * An ACQUIRE without an answer may have been carried out, or may be carried out at any later time.
 * So a contender that gives up asks for RELEASE even then, repeatedly until it is answered or a
 * lease has passed. If the ACQUIRE arrives after the RELEASE, the record is held for one lease by a
 * contender that does not lead: then there is no leader, which is safe.
 *
 * Ours besides: a notification (CHANGED) is answered by a request at once, but only a few in a row
 * (lease_ask.c); after a resignation a contender stands back until another has led, at most for
 * `rest`; a grant whose token is not larger than those seen before is given back, because resources
 * that fence by it would refuse its work.
 *
 * Assumed: the store keeps its four promises, and no clock drifts by more than rho. Whatever the
 * network and the pauses of processes do, at most one contender leads; for one to lead, the store
 * must answer within `timeout`. Nothing is saved: a process that restarts is another contender. */
#include "core/effects.h"
#include "core/options.h"
#include "core/types.h"
#include "protocols/lease_ask.h"
#include "protocols/lease_config.h"
#include "protocols/lease_state.h"
#include "protocols/registry.h"

#define GRANT_NS_MAX (2 * LEASE_NS_MAX) /* a longer grant is cut to this */

static size_t lease_size(const struct cv_config *config)
{
    (void)config;
    return sizeof(struct lease);
}

static void lease_init(void *state, const struct cv_config *config)
{
    struct lease *l = state;
    const int64_t *o = config->option;
    l->self = config->self;
    l->drift_ppb = config->drift_ppb;
    l->lease_ns = o[LEASE_OPTION_LEASE];
    l->renew_ns = o[LEASE_OPTION_RENEW];
    l->retry_ns = o[LEASE_OPTION_RETRY];
    l->retry_max_ns = o[LEASE_OPTION_RETRY_MAX];
    l->timeout_ns = o[LEASE_OPTION_TIMEOUT];
    l->poll_ns = o[LEASE_OPTION_POLL];
    l->rest_ns = o[LEASE_OPTION_REST];
    l->attempt = 1;
    l->is_candidate = o[LEASE_OPTION_CANDIDATE] != 0;
    CV_ASSERT(l->renew_ns + l->timeout_ns < l->lease_ns); /* a renewal can be answered in time */
    CV_ASSERT(l->retry_ns <= l->retry_max_ns);
    CV_ASSERT(l->retry_ns <= l->poll_ns);
}

/* The invariants of a contender that leads, and of one that does not. */
static void check_leading(const struct lease *l)
{
    CV_ASSERT(is_leading(l) == (l->view == LEASE_VIEW_SELF));
    if (is_leading(l)) {
        CV_ASSERT(l->token > l->token_max); /* tokens grow */
        CV_ASSERT(l->token == l->view_token);
        CV_ASSERT(l->valid_until_ns == l->view_until_ns); /* the host knows the current end */
        CV_ASSERT(!l->sees_other);
    } else {
        CV_ASSERT(l->token <= l->token_max); /* the next leadership needs a larger one */
    }
}

static void lease_check(const void *state)
{
    const struct lease *l = state;
    CV_ASSERT(l->role < LEASE_ROLE_COUNT);
    check_leading(l);
    if (is_sought(l)) {
        CV_ASSERT(l->is_candidate);
        CV_ASSERT(l->debt_attempt == 0); /* earlier attempts were released before */
    }
    CV_ASSERT((l->sees_other != 0) == (l->view == LEASE_VIEW_OTHER));
    CV_ASSERT(!l->sees_other || l->other_token == l->token_max);
    CV_ASSERT(l->debt_attempt < l->attempt); /* a released attempt is over */
    CV_ASSERT(l->open_request == 0 || l->open_request == l->request);
    CV_ASSERT(l->answered <= l->request);
    CV_ASSERT(l->attempt >= 1);
    CV_ASSERT(!l->is_due); /* a due request has been made */
    /* Until it stops, a contender always has a next instant to ask. */
    CV_ASSERT(l->request == 0 || l->role == LEASE_STOPPED || l->turn_ns != 0);
}

/* ---- Leading, and no longer ------------------------------------------------------------------ */

/* Ends this attempt, whatever answers are still on their way. */
static void end_attempt(struct lease *l)
{
    l->token_max = cv__max_u64(l->token_max, l->token);
    cv__lease_become(l, LEASE_LOOKING);
    l->attempt++;
    cv__lease_ask_anew(l);
    CV_ASSERT(!is_sought(l)); /* no request of the new attempt was made yet */
}

/* The work is done: release the record, if the store may have granted it. */
static void renounce(struct lease *l, int64_t now_ns)
{
    CV_ASSERT(is_sought(l));
    CV_ASSERT(l->debt_attempt == 0);
    l->debt_attempt = l->attempt;
    l->debt_token = is_leading(l) ? l->token : 0;
    l->debt_until_ns = now_ns + l->lease_ns;
    end_attempt(l);
    CV_ASSERT(l->debt_attempt < l->attempt);
}

/* Checked before anything else in a step: the leadership ends at its end, however late we
 * notice. */
static bool has_ended(struct lease *l, int64_t now_ns, enum cv_reason *ret_lost,
                      struct cv_effects *out)
{
    if (!is_leading(l) || now_ns < l->valid_until_ns) {
        return false;
    }
    CV_ASSERT(l->valid_until_ns == l->view_until_ns); /* the host knew of this end */
    const bool was_asking = l->open_request != 0 || l->failure_pause_ns > 0;
    *ret_lost = was_asking ? CV_REASON_STORE_UNREACHABLE : CV_REASON_EXPIRED;
    cv__effect_note(out, "leadership {number} is over: nothing was granted in time before {time}",
                    CV_ID_NONE, l->valid_until_ns, l->token);
    end_attempt(l);
    return true;
}

/* Releases the record and lets others go first. */
static void stand_back(struct lease *l, int64_t now_ns)
{
    renounce(l, now_ns);
    CV_ASSERT(!is_leading(l));
    l->rest_until_ns = now_ns + l->rest_ns;
}

/* Within a token the end never moves backwards: an older grant does not shorten a newer one. */
static void lead_until(struct lease *l, uint64_t token, int64_t until_ns, struct cv_effects *out)
{
    const int64_t before_ns = is_leading(l) ? l->valid_until_ns : until_ns;
    CV_ASSERT(token > l->token_max);
    CV_ASSERT(!is_leading(l) || token == l->token);
    cv__lease_become(l, LEASE_LEADING);
    l->token = token;
    l->valid_until_ns = cv__max64(before_ns, until_ns);
    l->sees_other = false;
    CV_ASSERT(l->valid_until_ns >= before_ns);
    cv__effect_arm(out, LEASE_TIMER_END, l->valid_until_ns, l->valid_until_ns);
}

/* The duration that the store gave, limited to a sane range. */
static int64_t duration_ns_of(const struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_STORE);
    return cv__min64(cv__max64(event->duration_ns, 0), GRANT_NS_MAX);
}

/* A grant to the present attempt, asked for at `asked->at_ns`. */
static void on_granted(struct lease *l, const struct lease_request *asked,
                       const struct cv_event *event, enum cv_reason *ret_lost,
                       struct cv_effects *out)
{
    const int64_t duration_ns = duration_ns_of(event);
    const int64_t until_ns = asked->at_ns + cv__lease_sure_ns(duration_ns, l->drift_ppb);
    const int64_t now_ns = event->now_ns;
    CV_ASSERT(asked->attempt == l->attempt); /* an attempt that is over is never revived */
    CV_ASSERT(l->is_candidate);
    CV_ASSERT(is_sought(l));
    CV_ASSERT(until_ns <= asked->at_ns + duration_ns); /* counted from when it was asked for (T3) */
    CV_ASSERT(asked->at_ns <= now_ns);
    if (is_leading(l) && event->token != l->token) {
        cv__effect_note(out, "leadership is over: the store granted another token, {number}",
                        CV_ID_NONE, 0, event->token);
        *ret_lost =
            CV_REASON_SUPERSEDED; /* a leadership has one token, so this is another leadership */
        end_attempt(l);
        return;
    }
    if (event->token <= l->token_max) {
        l->refused_count++; /* resources would refuse this token */
        cv__effect_note(out, "grant given back: its token {number} is not new", CV_ID_NONE, 0,
                        event->token);
        stand_back(l, now_ns);
        return;
    }
    if (until_ns <= now_ns) {
        cv__effect_note(out, "grant of no use: it ended at {time}, before its answer came",
                        CV_ID_NONE, until_ns, event->token);
        cv__lease_on_failure(l, now_ns, out); /* ask for the same grant again */
        return;
    }
    CV_ASSERT(until_ns > now_ns);
    CV_ASSERT(event->token > l->token_max);
    lead_until(l, event->token, until_ns, out);
    const int64_t renew_ns =
        cv__max64(asked->at_ns + cv__lease_renew_ns(l->renew_ns, duration_ns), now_ns);
    cv__lease_ask_between(l, cv__max64(renew_ns - l->renew_ns / 8, now_ns), renew_ns, out);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Another process leads, as far as the store knows. */
static void see_other(struct lease *l, const struct cv_event *event, int64_t held_ns)
{
    const int64_t now_ns = event->now_ns;
    CV_ASSERT(event->token >= l->token_max);
    CV_ASSERT(!is_leading(l));
    l->token_max = event->token;
    l->sees_other = true;
    l->other_token = event->token;
    l->other_label = event->holder;
    l->other_until_ns = now_ns + held_ns;
    if (l->is_candidate && now_ns < l->rest_until_ns) {
        l->is_due = true; /* handed over: be a candidate again, behind the new leader; */
        l->bucket_ns -= cv__lease_gap_ns(l); /* no notification caused this request */
    }
    l->rest_until_ns = 0;
}

/* Another process holds the record, or an attempt of this one that is over. */
static void on_held(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    const int64_t held_ns = duration_ns_of(event);
    const int64_t wait_ns = cv__max64(cv__min64(held_ns, l->poll_ns), cv__lease_gap_ns(l));
    CV_ASSERT(!is_leading(l));
    if (event->holder == l->label) {
        cv__effect_note(out, "waits until {time}: an earlier attempt of its own holds the record",
                        CV_ID_NONE, now_ns + wait_ns, event->token);
        l->sees_other = false;
    } else if (event->token < l->token_max) {
        cv__effect_note(out, "holder not believed: its token {number} is older than one seen",
                        CV_ID_NONE, 0, event->token);
    } else {
        cv__effect_note(out, "waits until {time}: another holds the record, with token {number}",
                        CV_ID_NONE, now_ns + wait_ns, event->token);
        see_other(l, event, held_ns);
    }
    l->free_pause_ns = 0;
    cv__lease_ask_between(l, now_ns + wait_ns, now_ns + wait_ns + l->retry_ns, out);
}

/* The record is free. A candidate asks for it; a contender that only looks does so less and less
 * often. A larger token means that a leadership began and ended unseen: others have had their
 * turn. */
static void on_free(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    CV_ASSERT(!is_leading(l));
    l->sees_other = false;
    CV_ASSERT(event->verdict == CV_STORE_FREE);
    if (event->token > l->token_max) {
        l->token_max = event->token;
        l->rest_until_ns = 0;
    }
    if (cv__lease_stands(l, now_ns)) {
        l->is_due = true;
        return;
    }
    l->free_pause_ns = cv__lease_longer_ns(l, l->free_pause_ns, l->poll_ns);
    int64_t latest_ns = now_ns + l->free_pause_ns;
    if (l->is_candidate) {
        latest_ns = cv__min64(latest_ns, l->rest_until_ns);
    }
    cv__lease_ask_between(l, cv__min64(now_ns + l->free_pause_ns / 2, latest_ns), latest_ns, out);
}

static void on_renew_answer(struct lease *l, const struct lease_request *asked,
                            const struct cv_event *event, enum cv_reason *ret_lost,
                            struct cv_effects *out)
{
    CV_ASSERT(is_leading(l));
    if (event->verdict == CV_STORE_GRANTED) {
        on_granted(l, asked, event, ret_lost, out);
        return;
    }
    end_attempt(l); /* it asks for the record again, unless the holder is known */
    if (event->verdict == CV_STORE_HELD) {
        *ret_lost = CV_REASON_SUPERSEDED;
        l->is_due = false;
        on_held(l, event, out);
    } else {
        cv__effect_note(out, "leadership {number} is over: the store knows of no holder",
                        CV_ID_NONE, 0, l->token);
        *ret_lost = CV_REASON_EXPIRED;
    }
}

static void on_acquire_answer(struct lease *l, const struct lease_request *asked,
                              const struct cv_event *event, enum cv_reason *ret_lost,
                              struct cv_effects *out)
{
    if (event->verdict == CV_STORE_GRANTED) {
        on_granted(l, asked, event, ret_lost, out);
    } else if (is_leading(l)) {
        /* An earlier request of the same attempt was carried out after this one, and its answer
         * came first. That grant is still valid by the store's promise, but ask again to be
         * sure. */
        cv__effect_note(out, "answer doubted: the attempt was granted meanwhile, asks again",
                        CV_ID_NONE, 0, event->request);
        l->is_due = l->open_request == 0;
    } else if (event->verdict == CV_STORE_HELD) {
        if (event->request == l->request) { /* a later one may still be carried out */
            cv__lease_become(l, LEASE_WAITING);
        }
        on_held(l, event, out);
    } else {
        cv__effect_note(out, "attempt {number} is over: granted before, and held no more",
                        CV_ID_NONE, 0, l->attempt);
        end_attempt(l);
        l->is_due = false; /* not at once: a store could say so of every attempt */
        cv__lease_on_failure(l, event->now_ns, out);
    }
}

/* The answer to READ or RELEASE. A leader has made neither since its attempt began, and answers to
 * earlier requests were overtaken. */
static void on_look_answer(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    CV_ASSERT(!is_leading(l));
    if (event->verdict == CV_STORE_HELD) {
        on_held(l, event, out);
    } else if (event->verdict == CV_STORE_FREE) {
        on_free(l, event, out);
    } else {
        cv__effect_note(out, "granted, although it was not requested: asks again", CV_ID_NONE, 0,
                        event->request);
        cv__lease_on_failure(l, event->now_ns, out);
    }
}

/* Why an answer is ignored; NULL: it counts. */
static const char *why_ignored(const struct lease *l, const struct lease_request *asked,
                               const struct cv_event *event)
{
    if (event->request == 0 || asked->request != event->request) {
        return "answer ignored: request {number} was answered before, or is forgotten";
    }
    if (event->verdict == CV_STORE_FAILED && event->request != l->open_request) {
        return "failure ignored: request {number} is no longer waited for";
    }
    const bool is_denial = asked->verb == CV_STORE_RENEW && event->verdict != CV_STORE_GRANTED;
    if (event->request < l->answered && !is_denial) {
        return "answer ignored: a later request than {number} was answered before";
    }
    if (asked->verb == CV_STORE_RELEASE) {
        return asked->attempt == l->debt_attempt
                   ? NULL
                   : "answer ignored: the release of request {number} is settled";
    }
    if (asked->verb != CV_STORE_READ && asked->attempt != l->attempt) {
        return "answer ignored: the attempt of request {number} is over";
    }
    return NULL;
}

static void on_answer(struct lease *l, const struct cv_event *event, enum cv_reason *ret_lost,
                      struct cv_effects *out)
{
    struct lease_request *kept = &l->made[event->request % LEASE_REQUESTS_KEPT];
    const struct lease_request asked = *kept;
    const char *why = why_ignored(l, &asked, event);
    if (why != NULL) {
        cv__effect_note(out, why, CV_ID_NONE, 0, event->request);
        return;
    }
    l->open_request = event->request == l->open_request ? 0 : l->open_request;
    if (event->verdict == CV_STORE_FAILED) {
        cv__effect_note(out, "request {number} failed: the store is asked again after a while",
                        CV_ID_NONE, 0, event->request);
        cv__lease_on_failure(l, event->now_ns, out);
        return;
    }
    l->answered = cv__max_u64(l->answered, event->request);
    CV_ASSERT(l->answered <= l->request); /* no answer comes before its request */
    kept->request = 0;                    /* the same answer twice counts once */
    l->failure_pause_ns = 0;
    switch (asked.verb) {
    case CV_STORE_ACQUIRE:
        on_acquire_answer(l, &asked, event, ret_lost, out);
        break;
    case CV_STORE_RENEW:
        on_renew_answer(l, &asked, event, ret_lost, out);
        break;
    case CV_STORE_RELEASE:
        if (l->debt_token == 0 && event->verdict == CV_STORE_FREE) {
            /* The token of the released grant, whose answer never came. */
            l->token_max = cv__max_u64(l->token_max, event->token);
        }
        CV_ASSERT(l->debt_attempt < l->attempt); /* a released attempt is over */
        l->debt_attempt = 0;
        on_look_answer(l, event, out);
        break;
    default:
        on_look_answer(l, event, out);
        break;
    }
    if (l->is_notified && !is_leading(l)) {
        cv__lease_on_notification(l, event->now_ns, out);
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void on_turn(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    l->turn_ns = 0;
    if (l->open_request == 0) {
        l->is_due = true;
        return;
    }
    cv__effect_note(out, "request {number} was not answered in time", CV_ID_NONE, 0,
                    l->open_request);
    l->open_request = 0; /* a late answer is handled like any other */
    l->is_due = is_leading(l);
    cv__lease_on_failure(l, now_ns, out);
}

/* The host stops its work before it sends RESIGN. */
static void on_resign(struct lease *l, bool has_just_ended, int64_t now_ns, struct cv_effects *out)
{
    if (is_leading(l) || l->role == LEASE_ACQUIRING) {
        stand_back(l, now_ns);
    } else if (has_just_ended) {
        CV_ASSERT(!is_leading(l));
        l->rest_until_ns = now_ns + l->rest_ns;
    } else {
        cv__effect_note(out, "resignation ignored: does not lead", CV_ID_NONE, 0, 0);
    }
}

/* A contender that is not a candidate any more also leaves the store's queue, if there is one. */
static void on_campaign(struct lease *l, const struct cv_event *event)
{
    const bool was_candidate = l->is_candidate;
    l->is_candidate = event->is_candidate;
    if (was_candidate && !l->is_candidate && is_sought(l)) {
        renounce(l, event->now_ns);
        CV_ASSERT(!is_sought(l));
    } else if (!was_candidate && l->is_candidate) {
        l->rest_until_ns = 0;
        cv__lease_ask_anew(l);
    }
}

/* The host cannot serve this core any more. Nothing is released: the work may not be done. */
static void stop(struct lease *l, struct cv_effects *out)
{
    end_attempt(l);
    CV_ASSERT(!is_leading(l));
    cv__lease_become(l, LEASE_STOPPED);
    l->is_due = false;
    l->sees_other = false;
    cv__effect_disarm(out, LEASE_TIMER_TURN);
}

/* At the end of a step: reports the belief if it has changed. */
static void tell(struct lease *l, enum cv_reason lost, struct cv_effects *out)
{
    const enum lease_view view = is_leading(l)   ? LEASE_VIEW_SELF
                                 : l->sees_other ? LEASE_VIEW_OTHER
                                                 : LEASE_VIEW_NONE;
    const uint64_t token = is_leading(l) ? l->token : l->sees_other ? l->other_token : 0;
    const uint64_t label = is_leading(l) ? l->label : l->sees_other ? l->other_label : 0;
    const int64_t until_ns = is_leading(l) ? l->valid_until_ns : 0;
    const bool is_same = view == l->view && token == l->view_token && label == l->view_label;
    if (is_same && until_ns == l->view_until_ns) {
        return;
    }
    const bool is_loss = view == LEASE_VIEW_NONE || (l->view == LEASE_VIEW_SELF && !is_same);
    const struct cv_leadership leadership = {
        .is_self = view == LEASE_VIEW_SELF,
        .leader = view == LEASE_VIEW_NONE   ? CV_ID_NONE
                  : view == LEASE_VIEW_SELF ? l->self
                                            : CV_ID_ANONYMOUS,
        .label = label,
        .reason = is_loss   ? lost
                  : is_same ? CV_REASON_RENEWED
                            : CV_REASON_ELECTED,
        .token = token,
        .valid_until_ns = until_ns,
        .has_majority = view == LEASE_VIEW_SELF,
    };
    CV_ASSERT(!leadership.is_self || token >= l->view_token); /* own tokens grow */
    CV_ASSERT(!is_same || until_ns >= l->view_until_ns);      /* and a valid-until never falls */
    if (l->view == LEASE_VIEW_SELF && view != LEASE_VIEW_SELF) {
        cv__effect_disarm(out, LEASE_TIMER_END);
    }
    l->view = view;
    l->view_token = token;
    l->view_label = label;
    l->view_until_ns = until_ns;
    cv__effect_leadership(out, &leadership);
}

static void handle(struct lease *l, const struct cv_event *event, bool has_just_ended,
                   enum cv_reason *ret_lost, struct cv_effects *out)
{
    switch (event->kind) {
    case CV_EVENT_START:
        l->label = event->nonce;
        l->is_due = true;
        break;
    case CV_EVENT_STORE:
        if (event->verdict == CV_STORE_CHANGED) {
            cv__lease_on_notification(l, event->now_ns, out);
        } else {
            on_answer(l, event, ret_lost, out);
        }
        break;
    case CV_EVENT_TIMER:
        CV_ASSERT(event->timer <= LEASE_TIMER_END);
        if (event->timer == LEASE_TIMER_TURN) {
            on_turn(l, event->now_ns, out);
        } /* LEASE_TIMER_END: has_ended() has handled it */
        break;
    case CV_EVENT_RESIGN:
        *ret_lost = is_leading(l) ? CV_REASON_RESIGNED : *ret_lost;
        on_resign(l, has_just_ended, event->now_ns, out);
        break;
    case CV_EVENT_CAMPAIGN:
        *ret_lost = is_leading(l) ? CV_REASON_RESIGNED : *ret_lost;
        on_campaign(l, event);
        break;
    case CV_EVENT_PERSIST_FAILED:
        *ret_lost = CV_REASON_STOPPED;
        stop(l, out);
        break;
    case CV_EVENT_MESSAGE: /* there are none */
    case CV_EVENT_PEER_DOWN:
    case CV_EVENT_REPORT:
    case CV_EVENT_SEQUENCE:
        break;
    }
}

static void lease_step(void *state, const struct cv_event *event, struct cv_effects *out)
{
    struct lease *l = state;
    enum cv_reason lost = CV_REASON_EXPIRED;
    if (l->role == LEASE_STOPPED) {
        cv__effect_note(out, "ignored: this contender was stopped by its host", CV_ID_NONE, 0, 0);
        return;
    }
    const bool has_just_ended = has_ended(l, event->now_ns, &lost, out);
    if (has_just_ended) {
        tell(l, lost, out);
    }
    handle(l, event, has_just_ended, &lost, out);
    if (l->view == LEASE_VIEW_OTHER && l->failure_pause_ns > 0) {
        lost = CV_REASON_STORE_UNREACHABLE; /* why the holder is not known any more */
    } else if (l->view == LEASE_VIEW_OTHER && event->kind == CV_EVENT_STORE &&
               event->verdict == CV_STORE_FREE) {
        lost = event->reason != CV_REASON_STARTED ? event->reason : CV_REASON_GONE;
    }
    CV_ASSERT(!is_leading(l) || event->now_ns < l->valid_until_ns);
    tell(l, lost, out); /* first, because the next request may be RELEASE */
    if (l->is_due && l->open_request == 0) {
        cv__lease_ask(l, event->now_ns, out);
    }
    l->is_due = false;
}

const struct cv_protocol cv__proto_lease = {
    .name = "lease",
    .summary = "a record in a shared store: its holder leads for as long as its lease lasts",
    .leads = "the holder of the store's record",
    .cites = "[Gray89] [Brooker]",
    .promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) | CV_PROP(LEADER_ORDER) |
                CV_PROP(STABILITY),
    .assumes =
        BIT(CV_ASSUME_PROMPT_PROCESSES) | BIT(CV_ASSUME_BOUNDED_DRIFT) | BIT(CV_ASSUME_STORE),
    .is_anonymous = true,
    .options = cv__lease_options,
    .configure = cv__lease_configure,
    .size = lease_size,
    .init = lease_init,
    .step = lease_step,
    .check = lease_check,
    .settle_ns = cv__lease_settle_ns,
    .store_ns = cv__lease_store_ns,
};
