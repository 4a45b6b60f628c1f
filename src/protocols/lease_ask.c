/* src/protocols/lease_ask.c - what `lease` asks the store next, and when.
 *
 * A request that fails is repeated with the same attempt; the store treats it as the same request.
 * A leader repeats it every `retry` until its end; other contenders double the pause. Notifications
 * are answered by a request at once, a few in a row, and then a few in each `retry` (a token
 * bucket), so that a store that notifies all the time is not asked all the time. */
#include "protocols/lease_ask.h"

#define NOTIFIED_IN_A_ROW 4          /* requests without a pause, if notifications come quickly; */
#define NOTIFIED_PER_RETRY 4         /* after that, so many per `retry`, ... */
#define GAP_NS_MAX (125 * NS_PER_MS) /* ... but at least eight per second, for long leases */

static const uint32_t lease_role_next[LEASE_ROLE_COUNT] = {
    [LEASE_LOOKING] = BIT(LEASE_ACQUIRING) | BIT(LEASE_STOPPED),
    [LEASE_ACQUIRING] =
        BIT(LEASE_WAITING) | BIT(LEASE_LEADING) | BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_WAITING] =
        BIT(LEASE_ACQUIRING) | BIT(LEASE_LEADING) | BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_LEADING] = BIT(LEASE_LOOKING) | BIT(LEASE_STOPPED),
    [LEASE_STOPPED] = 0,
};

void cv__lease_become(struct lease *l, enum lease_role role)
{
    CV_ASSERT(role < LEASE_ROLE_COUNT);
    CV_ASSERT(l->role == role || (lease_role_next[l->role] & BIT(role)) != 0);
    l->role = role;
}

bool cv__lease_stands(const struct lease *l, int64_t now_ns)
{
    CV_ASSERT(l->role != LEASE_STOPPED);
    return l->is_candidate && now_ns >= l->rest_until_ns;
}

int64_t cv__lease_gap_ns(const struct lease *l)
{
    CV_ASSERT(l->retry_ns >= NOTIFIED_PER_RETRY); /* the smallest possible `retry` is larger */
    return cv__min64(l->retry_ns / NOTIFIED_PER_RETRY, GAP_NS_MAX);
}

/* ---- What ------------------------------------------------------------------------------------ */

static enum cv_store_verb next_verb(const struct lease *l, int64_t now_ns)
{
    if (l->debt_attempt != 0) {
        CV_ASSERT(!is_sought(l)); /* the old attempt is released first */
        return CV_STORE_RELEASE;
    }
    if (is_leading(l)) {
        return CV_STORE_RENEW;
    }
    return cv__lease_stands(l, now_ns) ? CV_STORE_ACQUIRE : CV_STORE_READ;
}

static void arm_turn(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                     struct cv_effects *out)
{
    CV_ASSERT(earliest_ns <= latest_ns);
    CV_ASSERT(latest_ns > 0); /* 0 means: no next request */
    l->turn_ns = latest_ns;
    cv__effect_arm(out, LEASE_TIMER_TURN, earliest_ns, latest_ns);
}

/* Notes why a contender only reads the record and does not ask for it. */
static void note_looking(const struct lease *l, struct cv_effects *out)
{
    CV_ASSERT(!is_sought(l));
    if (l->is_candidate) {
        cv__effect_note(out, "does not ask for the record: resigned, others go first until {time}",
                        CV_ID_NONE, l->rest_until_ns, 0);
    } else {
        cv__effect_note(out, "does not ask for the record: not a candidate", CV_ID_NONE, 0, 0);
    }
}

static void give_up_debt(struct lease *l, struct cv_effects *out)
{
    CV_ASSERT(l->debt_attempt != 0);
    CV_ASSERT(l->debt_attempt < l->attempt);
    cv__effect_note(out, "RELEASE of attempt {number} is given up: the record has run out",
                    CV_ID_NONE, l->debt_until_ns, l->debt_attempt);
    l->debt_attempt = 0;
}

void cv__lease_ask(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(l->open_request == 0);
    CV_ASSERT(l->role != LEASE_STOPPED);
    if (l->debt_attempt != 0 && now_ns >= l->debt_until_ns) {
        give_up_debt(l, out);
    }
    const enum cv_store_verb verb = next_verb(l, now_ns);
    const bool is_release = verb == CV_STORE_RELEASE;
    const bool is_hold = verb == CV_STORE_ACQUIRE || verb == CV_STORE_RENEW;
    const uint64_t attempt = is_release ? l->debt_attempt : l->attempt;
    const uint64_t token = is_release ? l->debt_token : is_leading(l) ? l->token : 0;
    if (verb == CV_STORE_ACQUIRE) {
        cv__lease_become(l, LEASE_ACQUIRING);
    } else if (verb == CV_STORE_READ) {
        note_looking(l, out);
    }
    CV_ASSERT(is_hold == is_sought(l));
    CV_ASSERT(!is_release || attempt < l->attempt); /* only an attempt that is over is released */
    l->open_request = ++l->request;
    l->made[l->request % LEASE_REQUESTS_KEPT] = (struct lease_request){
        .request = l->request, .attempt = attempt, .at_ns = now_ns, .verb = verb};
    l->is_notified = false;
    l->bucket_ns = cv__max64(l->bucket_ns, now_ns) + cv__lease_gap_ns(l);
    cv__effect_ask_store(out, verb, l->request, attempt, token, is_hold ? l->lease_ns : 0);
    arm_turn(l, now_ns + l->timeout_ns, now_ns + l->timeout_ns, out);
}

/* ---- When ------------------------------------------------------------------------------------ */

void cv__lease_ask_anew(struct lease *l)
{
    CV_ASSERT(l->role != LEASE_STOPPED);
    l->open_request = 0;
    l->failure_pause_ns = 0;
    l->free_pause_ns = 0;
    l->is_due = true;
}

void cv__lease_ask_between(struct lease *l, int64_t earliest_ns, int64_t latest_ns,
                           struct cv_effects *out)
{
    CV_ASSERT(earliest_ns <= latest_ns);
    if (l->open_request == 0 && !l->is_due) { /* otherwise its answer or time-out decides */
        arm_turn(l, earliest_ns, latest_ns, out);
    }
}

int64_t cv__lease_longer_ns(const struct lease *l, int64_t pause_ns, int64_t limit_ns)
{
    CV_ASSERT(pause_ns >= 0);
    CV_ASSERT(limit_ns >= l->retry_ns);
    const int64_t longer_ns = pause_ns == 0 ? l->retry_ns : cv__min64(2 * pause_ns, limit_ns);
    CV_ASSERT(longer_ns >= l->retry_ns);
    return longer_ns;
}

void cv__lease_on_failure(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    l->failure_pause_ns = cv__lease_longer_ns(l, l->failure_pause_ns, l->retry_max_ns);
    CV_ASSERT(l->failure_pause_ns <= l->retry_max_ns);
    if (is_leading(l)) { /* the lease must be renewed before it ends */
        cv__lease_ask_between(l, now_ns + l->retry_ns / 2, now_ns + l->retry_ns, out);
        return;
    }
    if (l->sees_other && now_ns >= l->other_until_ns) {
        cv__effect_note(
            out, "holder of token {number} no longer believed to lead: unconfirmed since {time}",
            CV_ID_NONE, l->other_until_ns, l->other_token);
        l->sees_other = false;
    }
    const int64_t pause_ns = l->failure_pause_ns;
    cv__lease_ask_between(l, now_ns + pause_ns / 2, now_ns + pause_ns, out);
}

void cv__lease_on_notification(struct lease *l, int64_t now_ns, struct cv_effects *out)
{
    CV_ASSERT(l->role != LEASE_STOPPED);
    if (l->open_request != 0) {
        cv__effect_note(out, "notification waits for the answer to request {number}", CV_ID_NONE, 0,
                        l->open_request);
        l->is_notified = true; /* the open request's answer may be older than the notification */
        return;
    }
    const int64_t allowed_ns = l->bucket_ns - NOTIFIED_IN_A_ROW * cv__lease_gap_ns(l);
    if (now_ns >= allowed_ns) {
        l->is_due = true;
        return;
    }
    cv__effect_note(out, "notification answered at {time}: too many in a row", CV_ID_NONE,
                    cv__min64(l->turn_ns, allowed_ns), 0);
    if (l->turn_ns > allowed_ns) {
        arm_turn(l, allowed_ns, allowed_ns, out);
    }
}
