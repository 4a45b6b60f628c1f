/* src/protocols/lease.c - who holds the record of a shared store leads [Gray89, Brooker].
 *
 * A store keeps one record for each election: who holds it, with which token, and until when by the
 * store's own clock. A contender asks to hold it (ACQUIRE), prolongs it well before the end
 * (RENEW), and gives it back when it resigns (RELEASE). It knows no other contender and sends no
 * message: it sees the others through the store only, by the label of whoever holds the record.
 *
 * Why two never lead at once. Let the store grant a request that was made at the instant r. It
 * gives the record to nobody else before d of its own clock have passed since r, or the holder
 * asked for RELEASE (what a store owes: src/stores/store.h). Its clock runs at most 1 + rho too
 * fast, so d take at least d / (1 + rho) of real time. The holder counts d (1 - 2 rho) of its own
 * clock, also from r, which is before the answer came and before the store even saw the request;
 * its clock runs at least 1 - rho, so that takes at most d (1 - 2 rho) / (1 - rho) of real time,
 * which is less. The rules that this rests on:
 *
 * - The stamp is that of the request, kept beside its number. How late the answer comes does not
 *   matter; an answer whose time is over when it comes is worth nothing.
 * - The end comes before everything else: each step first compares its clock with the end. A
 * process that slept through it wakes up as no leader, whatever else is waiting to be read.
 * - A leadership is one attempt. With whatever ends it (its time, RELEASE, the store says that
 *   another has it) the attempt is over for good: answers to it are ignored from then on, so a
 * grant that was on its way cannot bring it back; and the store grants a later attempt with a new
 * token.
 * - RELEASE is asked for only when nothing is led any more: the host has stopped its work before it
 *   says RESIGN. A leadership that just ran out is not released: its work may be ending still, and
 *   the record runs out by itself.
 *
 * Answers may come in any order, or never. A request that is not answered in time is asked again
 * under a new number, with the same attempt: the store answers the same grant with the same token.
 * A late answer counts, with the stamp of its own request, unless a later request was answered
 * before it: what it says of others may be old by now, and what it grants was asked for again
 * since. Only "you do not hold it" is believed whenever it comes: a record that was lost is never
 * held again by the same attempt, except as an answer to an ACQUIRE, which a leader does not ask
 * for.
 *
 * An ACQUIRE whose answer never came may have been carried out, or be carried out at any later
 * time. Who gives up therefore asks for RELEASE also then, again and again until it is answered or
 * a lease has passed. If the ACQUIRE arrives after the RELEASE, the record is held for one lease by
 * somebody who does not lead: nobody leads meanwhile, which is safe.
 *
 * Ours besides: news (CHANGED) are answered by a question at once, but no more than a few in a row
 * (a token bucket); after a resignation a contender stands back until another has led, at most for
 * `rest`; a grant whose token is not larger than those seen before is given back, because the
 * resources that fence by it would refuse its work.
 *
 * Assumed: the store keeps its four promises, and no clock drifts by more than rho. Whatever the
 * network and the pauses of processes do, at most one leads; for somebody to lead, the store must
 * answer within `timeout`. Nothing is saved: a process that starts again is another contender. */
#include "core/effects.h"
#include "core/options.h"
#include "core/types.h"
#include "protocols/registry.h"

enum {
    OPTION_LEASE,
    OPTION_RENEW,
    OPTION_RETRY,
    OPTION_RETRY_MAX,
    OPTION_TIMEOUT,
    OPTION_POLL,
    OPTION_REST,
    OPTION_CANDIDATE,
};

#define LEASE_NS_MAX (24 * 3600 * NS_PER_S)

static const struct cv_option lease_options[] = {
    [OPTION_LEASE] = {"lease", CV_OPTION_TIME, 5 * NS_PER_S, NS_PER_MS, LEASE_NS_MAX, NULL,
                      "the record is asked for so long; a dead leader is missed for so long"},
    [OPTION_RENEW] = {"renew", CV_OPTION_TIME, CV_OPTION_DERIVED, 100 * NS_PER_US, LEASE_NS_MAX,
                      NULL, "the leader asks again after this (default: lease/3)"},
    [OPTION_RETRY] = {"retry", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX,
                      NULL, "a request that failed is repeated after this (default: lease/10)"},
    [OPTION_RETRY_MAX] = {"retry-max", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US,
                          LEASE_NS_MAX, NULL,
                          "who does not lead doubles the pause up to this (default: 8 retry)"},
    [OPTION_TIMEOUT] = {"timeout", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX,
                        NULL, "a request without an answer is repeated (default: lease/5)"},
    [OPTION_POLL] = {"poll", CV_OPTION_TIME, CV_OPTION_DERIVED, 10 * NS_PER_US, LEASE_NS_MAX, NULL,
                     "who waits asks this often, though no news came (default: lease)"},
    [OPTION_REST] = {"rest", CV_OPTION_TIME, CV_OPTION_DERIVED, 0, 2 * LEASE_NS_MAX, NULL,
                     "who resigned lets others go first (default: lease + 2 retry)"},
    [OPTION_CANDIDATE] = {"candidate", CV_OPTION_FLAG, true, false, true, NULL,
                          "wants to lead from the start; otherwise only looks"},
    {0},
};

enum { TIMER_TURN, TIMER_END };

#define ASKS_KEPT 8u     /* so many requests are remembered; older answers are ignored */
#define NEWS_IN_A_ROW 4  /* so many questions at once, if news come one after the other ... */
#define NEWS_PER_RETRY 4 /* ... and then so many in a time of `retry`, ... */
#define NEWS_GAP_NS_MAX (125 * NS_PER_MS) /* ... but eight in a second however long the lease is */
#define GRANT_NS_MAX (2 * LEASE_NS_MAX)

/* A request that was made; request 0: an empty place. */
struct asked {
    uint64_t request, attempt;
    int64_t at_ns;
    uint32_t verb, zero;
};

enum view { VIEW_NONE, VIEW_OTHER, VIEW_SELF };

/* What the present attempt is. */
enum lease_role {
    LEASE_LOOKING,   /* nothing was asked for with it */
    LEASE_ACQUIRING, /* its latest ACQUIRE was not answered yet: it may hold the record */
    LEASE_WAITING,   /* its latest ACQUIRE was answered: another holds the record */
    LEASE_LEADING,   /* it holds the record, until valid_until_ns */
    LEASE_STOPPED,   /* the host can do no more for this core */
    LEASE_ROLE_COUNT
};

/* Invariants: a leader is a candidate and owes no RELEASE; every attempt that is not the present
 * one is over; at most one request is open, and it is the latest. */
struct lease {
    cv_id self;            /* only to say to the host that oneself leads */
    uint32_t role;         /* enum lease_role; changed by become() alone */
    uint32_t is_candidate; /* what the operator wants, in any role */
    uint32_t zero;
    int64_t drift_ppb;
    int64_t lease_ns, renew_ns, retry_ns, retry_max_ns, timeout_ns, poll_ns, rest_ns;
    uint64_t label;

    uint64_t request;      /* the latest that was made */
    uint64_t open_request; /* 0: none; otherwise the latest, and it may still be answered in time */
    uint64_t answered;     /* the latest that was answered */
    struct asked asked[ASKS_KEPT];

    uint64_t attempt;       /* from 1 */
    uint32_t failure_count; /* in a row */
    uint32_t zero3;
    uint64_t token;
    int64_t valid_until_ns;

    uint64_t debt_attempt, debt_token; /* to be released; attempt 0: nothing is */
    int64_t debt_until_ns;             /* given up then: the record has run out */
    int64_t rest_until_ns;             /* has resigned: lets others go first */

    int64_t turn_ns;     /* TIMER_TURN rings not after this; 0: it does not */
    int64_t bucket_ns;   /* of news: far ahead of the clock after many questions */
    uint32_t is_due;     /* the next question is asked when this step ends */
    uint32_t has_news;   /* since the open request was made */
    uint32_t free_count; /* so often in a row the record was found free, by one who only looks */

    uint32_t sees_other; /* somebody else holds the record, ... */
    uint64_t other_token, other_label;
    int64_t other_until_ns; /* ... and so long that needs no new proof */
    uint64_t token_max;     /* of all other leaderships seen, own former ones included */
    uint64_t refused_count; /* grants with a token that is not new */

    uint32_t view, zero2; /* what the host was told last */
    uint64_t view_token, view_label;
    int64_t view_until_ns;
};

/* ---- Configuration --------------------------------------------------------------------------- */

/* So much of a duration of the store's clock has surely not passed on another; see above. */
static int64_t sure_ns(int64_t duration_ns, int64_t drift_ppb)
{
    CV_ASSERT(duration_ns >= 0);
    CV_ASSERT(drift_ppb >= 0);
    const int64_t drift_ns = (int64_t)((__int128)duration_ns * 2 * drift_ppb / NS_PER_S) + 1;
    return cv__max64(duration_ns - drift_ns, 0);
}

static int lease_configure(struct cv_config *config, struct cv_errtext *reterr)
{
    const int64_t *o = config->option;
    const int64_t lease_ns = o[OPTION_LEASE];
    cv__config_derive(config, OPTION_RENEW, lease_ns / 3);
    cv__config_derive(config, OPTION_RETRY, lease_ns / 10);
    cv__config_derive(config, OPTION_RETRY_MAX, cv__min64(8 * o[OPTION_RETRY], LEASE_NS_MAX));
    cv__config_derive(config, OPTION_TIMEOUT, lease_ns / 5);
    cv__config_derive(config, OPTION_POLL, lease_ns);
    cv__config_derive(config, OPTION_REST, lease_ns + 2 * o[OPTION_RETRY]);
    const int64_t held_ns = sure_ns(lease_ns, config->drift_ppb);
    const int64_t next_ns = cv__max64(o[OPTION_RENEW], o[OPTION_TIMEOUT]);
    const int64_t needed_ns = next_ns + o[OPTION_TIMEOUT] + o[OPTION_RETRY];
    if (needed_ns >= held_ns) {
        /* The next request is made when it is time, but not before the last one was answered; it
         * takes its time as well, and may fail once before. */
        return cv__config_broken(reterr,
                                 "lease (1 - 2 rho) > max(renew, timeout) + timeout + retry",
                                 held_ns, needed_ns);
    }
    if (o[OPTION_RETRY_MAX] < o[OPTION_RETRY]) {
        return cv__config_broken(reterr, "retry-max >= retry", o[OPTION_RETRY_MAX],
                                 o[OPTION_RETRY]);
    }
    if (o[OPTION_POLL] < o[OPTION_RETRY]) { /* waiting is no more urgent than failing */
        return cv__config_broken(reterr, "poll >= retry", o[OPTION_POLL], o[OPTION_RETRY]);
    }
    return CV_OK;
}

/* What was carried out last runs out, though nobody knows of it (lease); everybody's longest pause
 * ends (rest, or a time-out and a pause, or a poll); one of them leads, and the others ask once
 * more. */
static int64_t lease_settle_ns(const struct cv_config *config)
{
    const int64_t *o = config->option;
    const int64_t pause_ns = o[OPTION_TIMEOUT] + o[OPTION_RETRY_MAX] + o[OPTION_RETRY];
    const int64_t poll_ns = o[OPTION_POLL] + o[OPTION_RETRY] + o[OPTION_TIMEOUT];
    const int64_t sum_ns = 2 * o[OPTION_LEASE] + o[OPTION_REST] + 2 * (pause_ns + poll_ns);
    return sum_ns + sum_ns / 8;
}

static int64_t lease_store_ns(const struct cv_config *config)
{
    return config->option[OPTION_TIMEOUT];
}

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
    l->lease_ns = o[OPTION_LEASE];
    l->renew_ns = o[OPTION_RENEW];
    l->retry_ns = o[OPTION_RETRY];
    l->retry_max_ns = o[OPTION_RETRY_MAX];
    l->timeout_ns = o[OPTION_TIMEOUT];
    l->poll_ns = o[OPTION_POLL];
    l->rest_ns = o[OPTION_REST];
    l->attempt = 1;
    l->is_candidate = o[OPTION_CANDIDATE] != 0;
}

static const uint32_t lease_role_next[LEASE_ROLE_COUNT] = {
    [LEASE_LOOKING] = BIT(LEASE_ACQUIRING) | BIT(LEASE_STOPPED),
    [LEASE_ACQUIRING] =
        BIT(LEASE_WAITING) | BIT(LEASE_LEADING) | BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_WAITING] =
        BIT(LEASE_ACQUIRING) | BIT(LEASE_LEADING) | BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_LEADING] = BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_STOPPED] = 0,
};

/* The one place where the role changes. */
static void become(struct lease *l, enum lease_role role)
{
    CV_ASSERT(role < LEASE_ROLE_COUNT);
    CV_ASSERT(l->role == role || (lease_role_next[l->role] & BIT(role)) != 0);
    l->role = role;
}

static bool is_leading(const struct lease *l)
{
    return l->role == LEASE_LEADING;
}

/* Was ACQUIRE asked for with the present attempt? Then the store may know of it. */
static bool is_sought(const struct lease *l)
{
    return l->role != LEASE_LOOKING && l->role != LEASE_STOPPED;
}

static void lease_check(const void *state)
{
    const struct lease *l = state;
    CV_ASSERT(l->role < LEASE_ROLE_COUNT);
    CV_ASSERT(is_leading(l) == (l->view == VIEW_SELF));
    if (is_leading(l)) {
        CV_ASSERT(l->is_candidate);
        CV_ASSERT(l->debt_attempt == 0);
        CV_ASSERT(l->token > l->token_max); /* tokens grow */
        CV_ASSERT(!l->sees_other);
        CV_ASSERT(l->valid_until_ns == l->view_until_ns); /* what the host was told is what holds */
    }
    if (l->role == LEASE_STOPPED) {
        CV_ASSERT(!l->is_due);
        CV_ASSERT(!l->sees_other);
    }
    CV_ASSERT(l->debt_attempt < l->attempt); /* what is given back is over */
    CV_ASSERT(l->open_request == 0 || l->open_request == l->request);
    CV_ASSERT(l->answered <= l->request);
    CV_ASSERT(l->attempt >= 1);
}

/* ---- Questions, and the pauses between them -------------------------------------------------- */

static bool stands(const struct lease *l, int64_t now_ns)
{
    CV_ASSERT(l->role != LEASE_STOPPED);
    return l->is_candidate && now_ns >= l->rest_until_ns;
}

static enum cv_store_verb next_verb(const struct lease *l, int64_t now_ns)
{
    if (l->debt_attempt != 0) {
        return CV_STORE_RELEASE;
    }
    if (is_leading(l)) {
        return CV_STORE_RENEW;
    }
    return stands(l, now_ns) ? CV_STORE_ACQUIRE : CV_STORE_READ;
}

static int64_t gap_ns(const struct lease *l)
{
    return cv__max64(cv__min64(l->retry_ns / NEWS_PER_RETRY, NEWS_GAP_NS_MAX), 1);
}

static void arm_turn(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                     struct cv_effects *out)
{
    CV_ASSERT(earliest_ns <= latest_ns);
    l->turn_ns = latest_ns;
    cv__effect_arm(out, TIMER_TURN, earliest_ns, latest_ns);
}

/* The next question comes in that time, unless one is open: its answer or its time-out decides. */
static void wait_between(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                         struct cv_effects *out)
{
    if (l->open_request == 0 && !l->is_due) {
        arm_turn(l, earliest_ns, latest_ns, out);
    }
}

static void ask(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(l->open_request == 0);
    CV_ASSERT(l->role != LEASE_STOPPED);
    if (l->debt_attempt != 0 && now_ns >= l->debt_until_ns) {
        l->debt_attempt = 0; /* nobody answers, and by now the record has run out */
    }
    const enum cv_store_verb verb = next_verb(l, now_ns);
    const bool is_release = verb == CV_STORE_RELEASE;
    const bool is_hold = verb == CV_STORE_ACQUIRE || verb == CV_STORE_RENEW;
    const uint64_t attempt = is_release ? l->debt_attempt : l->attempt;
    const uint64_t token = is_release ? l->debt_token : is_leading(l) ? l->token : 0;
    if (verb == CV_STORE_ACQUIRE) {
        become(l, LEASE_ACQUIRING);
    }
    l->open_request = ++l->request;
    l->asked[l->request % ASKS_KEPT] = (struct asked){l->request, attempt, now_ns, verb, 0};
    l->is_due = false;
    l->has_news = false;
    l->bucket_ns = cv__max64(l->bucket_ns, now_ns) + gap_ns(l);
    cv__effect_ask_store(out, verb, l->request, attempt, token, is_hold ? l->lease_ns : 0);
    arm_turn(l, now_ns + l->timeout_ns, now_ns + l->timeout_ns, out);
}

/* Whatever is open does not matter any more; the next question is asked when this step ends. */
static void ask_anew(struct lease *l)
{
    l->open_request = 0;
    l->failure_count = 0;
    l->free_count = 0;
    l->is_due = true;
}

/* Doubles with `count`, from 1, up to a limit. */
static int64_t growing_ns(const struct lease *l, uint32_t count, int64_t limit_ns)
{
    CV_ASSERT(count > 0);
    int64_t pause_ns = l->retry_ns;
    for (uint32_t i = 1; i < count && pause_ns < limit_ns; i++) {
        pause_ns *= 2;
    }
    return cv__min64(pause_ns, cv__max64(limit_ns, 1));
}

/* The latest request failed. A leader has no time to lose: it asks again soon, until its end. The
 * others wait longer and longer, and over time do not know any more who leads. */
static void on_failure(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    l->failure_count += l->failure_count < 32;
    if (is_leading(l)) {
        wait_between(l, now_ns + l->retry_ns / 2, now_ns + l->retry_ns, out);
        return;
    }
    if (now_ns >= l->other_until_ns) {
        l->sees_other = false;
    }
    const int64_t pause_ns = growing_ns(l, l->failure_count, l->retry_max_ns);
    wait_between(l, now_ns + pause_ns / 2, now_ns + pause_ns, out);
}

/* Somebody may be faster than we were: it is worth asking, but not all the time. */
static void on_news(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    if (l->open_request != 0) {
        l->has_news = true; /* the answer on its way may be older than they are */
        return;
    }
    const int64_t allowed_ns = l->bucket_ns - NEWS_IN_A_ROW * gap_ns(l);
    if (now_ns >= allowed_ns) {
        l->is_due = true;
    } else if (l->turn_ns == 0 || l->turn_ns > allowed_ns) {
        arm_turn(l, allowed_ns, allowed_ns, out);
    }
}

/* ---- Leading, and no longer ------------------------------------------------------------------ */

/* This attempt is over, whatever is still on its way. */
static void end_attempt(struct lease *l)
{
    if (is_leading(l)) {
        l->token_max = cv__max_u64(l->token_max, l->token);
    }
    become(l, LEASE_LOOKING);
    l->attempt++;
    ask_anew(l);
}

/* The work is done: give the record back, if it was given. */
static void renounce(struct lease *l, int64_t now_ns)
{
    CV_ASSERT(is_sought(l));
    CV_ASSERT(l->debt_attempt == 0);
    l->debt_attempt = l->attempt;
    l->debt_token = is_leading(l) ? l->token : 0;
    l->debt_until_ns = now_ns + l->lease_ns;
    end_attempt(l);
}

/* Before anything else in a step: the end is the end, however late it is seen. */
static bool has_ended(struct lease *l, int64_t now_ns, enum cv_reason *ret_lost)
{
    if (!is_leading(l) || now_ns < l->valid_until_ns) {
        return false;
    }
    const bool was_asking = l->open_request != 0 || l->failure_count > 0;
    *ret_lost = was_asking ? CV_REASON_STORE_UNREACHABLE : CV_REASON_EXPIRED;
    end_attempt(l);
    return true;
}

/* Gives the record back and lets others go first. */
static void stand_back(struct lease *l, int64_t now_ns)
{
    renounce(l, now_ns);
    l->rest_until_ns = now_ns + l->rest_ns;
}

/* A grant to the present attempt, asked for at `asked->at_ns`. */
static void on_granted(struct lease *l, const struct asked *asked, const struct cv_event *event,
                       enum cv_reason *ret_lost, struct cv_effects *out)
{
    const int64_t duration_ns = cv__min64(cv__max64(event->duration_ns, 0), GRANT_NS_MAX);
    const int64_t until_ns = asked->at_ns + sure_ns(duration_ns, l->drift_ppb);
    const int64_t now_ns = event->now_ns;
    CV_ASSERT(l->is_candidate);
    CV_ASSERT(is_sought(l));
    if (is_leading(l) && event->token != l->token) {
        *ret_lost = CV_REASON_SUPERSEDED; /* a leadership has one token: this is not it any more */
        end_attempt(l);
        return;
    }
    if (event->token <= l->token_max) {
        l->refused_count++; /* it fences nothing */
        cv__effect_note(out, "grant given back: its token {number} is not new", CV_ID_NONE, 0,
                        event->token);
        stand_back(l, now_ns);
        return;
    }
    l->has_news = false;
    if (until_ns <= now_ns) {
        cv__effect_note(out, "grant of no use: it ended at {time}, before it was heard of",
                        CV_ID_NONE, until_ns, event->token);
        on_failure(l, now_ns, out); /* too late to be of use; the same grant again, sooner */
        return;
    }
    const int64_t before_ns = is_leading(l) ? l->valid_until_ns : until_ns;
    l->valid_until_ns = cv__max64(before_ns, until_ns);
    become(l, LEASE_LEADING);
    l->token = event->token;
    CV_ASSERT(asked->attempt == l->attempt);   /* an attempt that is over is never revived */
    CV_ASSERT(l->valid_until_ns >= before_ns); /* within a token it never moves backwards */
    CV_ASSERT(now_ns < l->valid_until_ns);
    l->sees_other = false;
    cv__effect_arm(out, TIMER_END, l->valid_until_ns, l->valid_until_ns);
    const int64_t renew_ns =
        cv__max64(asked->at_ns + cv__min64(l->renew_ns, duration_ns / 2), now_ns);
    wait_between(l, cv__max64(renew_ns - l->renew_ns / 8, now_ns), renew_ns, out);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Another process holds the record, or an attempt of this one that is over. */
static void on_held(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    const int64_t held_ns = cv__min64(cv__max64(event->duration_ns, 0), GRANT_NS_MAX);
    CV_ASSERT(!is_leading(l));
    if (event->token >= l->token_max && event->holder != l->label) {
        l->token_max = event->token;
        l->sees_other = true;
        l->other_token = event->token;
        l->other_label = event->holder;
        l->other_until_ns = now_ns + held_ns;
        if (l->is_candidate && now_ns < l->rest_until_ns) {
            l->is_due = true; /* the hand-over has happened: stand again, behind the new one; ... */
            l->bucket_ns -= gap_ns(l); /* ... which is not asked because of news */
        }
        l->rest_until_ns = 0;
    } else if (event->holder == l->label) {
        l->sees_other = false;
    }
    l->free_count = 0;
    const int64_t wait_ns = cv__max64(cv__min64(held_ns, l->poll_ns), gap_ns(l));
    wait_between(l, now_ns + wait_ns, now_ns + wait_ns + l->retry_ns, out);
}

/* Nobody holds it. A candidate asks for it; who only looks looks again, less and less often. A
 * token that grew tells of a leadership that began and ended unseen: others have had their turn. */
static void on_free(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    const int64_t now_ns = event->now_ns;
    l->sees_other = false;
    if (event->token > l->token_max) {
        l->token_max = event->token;
        l->rest_until_ns = 0;
    }
    if (stands(l, now_ns)) {
        l->is_due = true;
        return;
    }
    l->free_count += l->free_count < 32;
    const int64_t pause_ns = growing_ns(l, l->free_count, l->poll_ns);
    int64_t latest_ns = now_ns + pause_ns;
    if (l->is_candidate) {
        latest_ns = cv__min64(latest_ns, l->rest_until_ns);
    }
    wait_between(l, cv__min64(now_ns + pause_ns / 2, latest_ns), latest_ns, out);
}

static void on_renew_answer(struct lease *l, const struct asked *asked,
                            const struct cv_event *event, enum cv_reason *ret_lost,
                            struct cv_effects *out)
{
    CV_ASSERT(is_leading(l));
    if (event->verdict == CV_STORE_GRANTED) {
        on_granted(l, asked, event, ret_lost, out);
        return;
    }
    *ret_lost = event->verdict == CV_STORE_HELD ? CV_REASON_SUPERSEDED : CV_REASON_EXPIRED;
    end_attempt(l);
    if (event->verdict == CV_STORE_HELD) {
        l->is_due = false;
        on_held(l, event, out);
    }
}

static void on_acquire_answer(struct lease *l, const struct asked *asked,
                              const struct cv_event *event, enum cv_reason *ret_lost,
                              struct cv_effects *out)
{
    if (event->verdict == CV_STORE_GRANTED) {
        on_granted(l, asked, event, ret_lost, out);
    } else if (is_leading(l)) {
        /* An earlier request of the same attempt was carried out after this one, and its answer
         * came first. It still holds by the store's promise; but asking is better than arguing. */
        l->is_due = l->open_request == 0;
    } else if (event->verdict == CV_STORE_HELD) {
        if (event->request == l->request) { /* a later one may still be carried out */
            become(l, LEASE_WAITING);
        }
        on_held(l, event, out);
    } else {
        on_failure(l, event->now_ns, out); /* free, yet not granted: no answer to this question */
    }
}

static void on_look_answer(struct lease *l, const struct cv_event *event, struct cv_effects *out)
{
    if (is_leading(l)) {
        return; /* it was asked before a request that was granted since */
    }
    if (event->verdict == CV_STORE_HELD) {
        on_held(l, event, out);
    } else if (event->verdict == CV_STORE_FREE) {
        on_free(l, event, out);
    } else {
        on_failure(l, event->now_ns, out);
    }
}

/* Does this answer still matter? */
static bool counts(const struct lease *l, const struct asked *asked, const struct cv_event *event)
{
    const bool is_denial = asked->verb == CV_STORE_RENEW && event->verdict != CV_STORE_GRANTED;
    if (event->request < l->answered && !is_denial) {
        return false;
    }
    switch (asked->verb) {
    case CV_STORE_ACQUIRE:
    case CV_STORE_RENEW:
        return asked->attempt == l->attempt;
    case CV_STORE_RELEASE:
        return asked->attempt == l->debt_attempt;
    default:
        return true;
    }
}

static void on_answer(struct lease *l, const struct cv_event *event, enum cv_reason *ret_lost,
                      struct cv_effects *out)
{
    const struct asked asked = l->asked[event->request % ASKS_KEPT];
    if (event->request == 0 || asked.request != event->request || !counts(l, &asked, event)) {
        cv__effect_note(out, "answer ignored: request {number} is no longer open", CV_ID_NONE, 0,
                        event->request);
        return; /* of an attempt that is over, or so old that it is forgotten */
    }
    if (event->verdict == CV_STORE_FAILED) {
        if (event->request == l->open_request) {
            l->open_request = 0;
            on_failure(l, event->now_ns, out);
        }
        return;
    }
    l->answered = cv__max_u64(l->answered, event->request);
    l->asked[event->request % ASKS_KEPT].request = 0;
    l->open_request = event->request == l->open_request ? 0 : l->open_request;
    l->failure_count = 0;
    const bool had_news = l->has_news;
    switch (asked.verb) {
    case CV_STORE_ACQUIRE:
        on_acquire_answer(l, &asked, event, ret_lost, out);
        break;
    case CV_STORE_RENEW:
        on_renew_answer(l, &asked, event, ret_lost, out);
        break;
    case CV_STORE_RELEASE:
        if (l->debt_token == 0 && event->verdict == CV_STORE_FREE && event->token > l->token_max) {
            l->token_max = event->token; /* of the very grant that is given back, unheard of */
        }
        l->debt_attempt = 0;
        on_look_answer(l, event, out);
        break;
    default:
        on_look_answer(l, event, out);
        break;
    }
    if (had_news && !is_leading(l)) {
        on_news(l, event->now_ns, out);
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
    l->open_request = 0; /* its answer may come late, and then counts as that of any other */
    if (is_leading(l)) {
        l->failure_count += l->failure_count < 32;
        l->is_due = true;
    } else {
        on_failure(l, now_ns, out);
    }
}

/* The host has stopped its work before it says so. */
static void on_resign(struct lease *l, bool has_just_ended, int64_t now_ns)
{
    if (is_leading(l) || l->role == LEASE_ACQUIRING) {
        stand_back(l, now_ns);
    } else if (has_just_ended) {
        CV_ASSERT(!is_leading(l));
        l->rest_until_ns = now_ns + l->rest_ns;
    }
}

/* Who is no candidate any more leaves its place in a queue, too, if the store has one. */
static void on_campaign(struct lease *l, const struct cv_event *event)
{
    const bool was_candidate = l->is_candidate;
    l->is_candidate = event->is_candidate;
    if (was_candidate && !l->is_candidate && is_sought(l)) {
        renounce(l, event->now_ns);
    } else if (!was_candidate && l->is_candidate) {
        l->rest_until_ns = 0;
        ask_anew(l);
    }
}

/* The host can do no more for this core. Nothing is released: nobody said that the work is done. */
static void stop(struct lease *l, struct cv_effects *out)
{
    end_attempt(l);
    become(l, LEASE_STOPPED);
    l->is_due = false;
    l->sees_other = false;
    cv__effect_disarm(out, TIMER_TURN);
}

/* At the end of a step: what is believed now, if it is news. */
static void tell(struct lease *l, enum cv_reason lost, struct cv_effects *out)
{
    const enum view view = is_leading(l) ? VIEW_SELF : l->sees_other ? VIEW_OTHER : VIEW_NONE;
    const uint64_t token = is_leading(l) ? l->token : l->sees_other ? l->other_token : 0;
    const uint64_t label = is_leading(l) ? l->label : l->sees_other ? l->other_label : 0;
    const int64_t until_ns = is_leading(l) ? l->valid_until_ns : 0;
    const bool is_same = view == l->view && token == l->view_token && label == l->view_label;
    if (is_same && until_ns == l->view_until_ns) {
        return;
    }
    const bool is_loss = view == VIEW_NONE || (l->view == VIEW_SELF && !is_same);
    const struct cv_leadership leadership = {
        .is_self = view == VIEW_SELF,
        .leader = view == VIEW_NONE   ? CV_ID_NONE
                  : view == VIEW_SELF ? l->self
                                      : CV_ID_ANONYMOUS,
        .label = label,
        .reason = is_loss   ? lost
                  : is_same ? CV_REASON_RENEWED
                            : CV_REASON_ELECTED,
        .token = token,
        .valid_until_ns = until_ns,
        .has_majority = view == VIEW_SELF,
    };
    if (l->view == VIEW_SELF && view != VIEW_SELF) {
        cv__effect_disarm(out, TIMER_END);
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
            on_news(l, event->now_ns, out);
        } else {
            on_answer(l, event, ret_lost, out);
        }
        break;
    case CV_EVENT_TIMER:
        CV_ASSERT(event->timer <= TIMER_END);
        if (event->timer == TIMER_TURN) {
            on_turn(l, event->now_ns, out);
        } /* TIMER_END has done its work by waking us up */
        break;
    case CV_EVENT_RESIGN:
        *ret_lost = is_leading(l) ? CV_REASON_RESIGNED : *ret_lost;
        on_resign(l, has_just_ended, event->now_ns);
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
        return;
    }
    const bool has_just_ended = has_ended(l, event->now_ns, &lost);
    if (has_just_ended) {
        tell(l, lost, out);
    }
    handle(l, event, has_just_ended, &lost, out);
    if (l->view == VIEW_OTHER && l->failure_count > 0) {
        lost = CV_REASON_STORE_UNREACHABLE; /* that is why it is not known any more */
    } else if (l->view == VIEW_OTHER && event->kind == CV_EVENT_STORE &&
               event->verdict == CV_STORE_FREE) {
        lost = event->reason != CV_REASON_STARTED ? event->reason : CV_REASON_GONE;
    }
    tell(l, lost, out); /* first: what is asked next may be to give the record away */
    if (l->is_due && l->open_request == 0) {
        ask(l, event->now_ns, out);
    }
    l->is_due = false;
}

const struct cv_protocol cv__proto_lease = {
    .name = "lease",
    .summary = "a record in a shared store: who holds it leads, for as long as its lease lasts",
    .leads = "who holds the store's record",
    .cites = "[Gray89] [Brooker]",
    .promises = CV_PROP(VALIDITY) | CV_PROP(AGREEMENT) | CV_PROP(TERMINATION) |
                CV_PROP(AT_MOST_ONE_LEADER) | CV_PROP(TOKEN_MONOTONIC) | CV_PROP(LEADER_ORDER) |
                CV_PROP(STABILITY),
    .assumes =
        BIT(CV_ASSUME_PROMPT_PROCESSES) | BIT(CV_ASSUME_BOUNDED_DRIFT) | BIT(CV_ASSUME_STORE),
    .is_anonymous = true,
    .options = lease_options,
    .configure = lease_configure,
    .size = lease_size,
    .init = lease_init,
    .step = lease_step,
    .check = lease_check,
    .settle_ns = lease_settle_ns,
    .store_ns = lease_store_ns,
};
