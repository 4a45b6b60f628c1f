/* tests/stores/field.c - see field.h. */
#include "stores/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000 /* not a limit on speed: it only makes a hanging test end */

int64_t field_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct field *field_new(const char *address, const char *election)
{
    static uint32_t field_count;
    struct field *field = calloc(1, sizeof *field);
    assert_non_null(field);
    assert_int_equal(uv_loop_init(&field->loop), 0);
    (void)uv_timer_init(&field->loop, &field->tick);
    (void)snprintf(field->address, sizeof field->address, "%s", address);
    field->kind = cv__store_find(address);
    assert_non_null(field->kind);
    if (election != NULL) {
        (void)snprintf(field->election, sizeof field->election, "%s", election);
    } else {
        (void)snprintf(field->election, sizeof field->election, "test %u.%u", (unsigned)getpid(),
                       (unsigned)++field_count);
    }
    field->random = 1;
    return field;
}

static void on_closed(void *user)
{
    struct field *field = user;
    field->closed_count++;
}

static bool all_closed(void *user)
{
    struct field *field = user;
    return field->closed_count == field->count;
}

void field_free(struct field *field)
{
    for (uint32_t i = 0; i < field->count; i++) {
        struct contender *c = &field->contender[i];
        if (c->has_timer) {
            uv_close((uv_handle_t *)&c->again, NULL);
        }
        if (!c->is_closed) {
            field->kind->close(c->store, on_closed, field);
        }
    }
    run_until(field, all_closed, field, "closing");
    uv_close((uv_handle_t *)&field->tick, NULL);
    while (uv_run(&field->loop, UV_RUN_NOWAIT) != 0) {
    }
    assert_int_equal(uv_loop_close(&field->loop), 0);
    free(field);
}

/* ---- The ledger ---------------------------------------------------------------------------- */

static void break_promise(struct field *field, const char *promise, const struct contender *c,
                          const struct contender *other, int64_t over_ns)
{
    if (field->broken[0] == '\0') {
        (void)snprintf(field->broken, sizeof field->broken,
                       "%s is broken: %s (attempt %" PRIu64 ", token %" PRIu64 ") and %s (attempt"
                       " %" PRIu64 ", token %" PRIu64 "), by %.3f ms",
                       promise, c->node, c->held_attempt, c->held_token, other->node,
                       other->held_attempt, other->held_token, (double)over_ns / 1e6);
    }
}

static void note_grant(struct contender *c, uint64_t attempt, int64_t asked_ns,
                       const struct cv_store_answer *answer)
{
    struct field *field = c->field;
    const int64_t now_ns = field_now_ns();
    const bool is_again = c->held_attempt == attempt && c->held_token != 0;
    const struct contender before = *c;
    c->held_attempt = attempt;
    c->held_token = answer->token;
    c->held_until_ns =
        cv__max64(is_again ? before.held_until_ns : 0, asked_ns + answer->duration_ns);
    if (is_again && before.held_token != answer->token) {
        break_promise(field, "stubborn", c, &before, 0);
    }
    field->change_count += !is_again;
    for (uint32_t i = 0; i < field->count; i++) {
        const struct contender *other = &field->contender[i];
        if (strcmp(other->election, c->election) != 0) {
            continue;
        }
        if (!is_again && answer->token <= other->token_max) {
            break_promise(field, "growing", c, other == c ? &before : other, 0);
        }
        if (other != c && other->held_until_ns > now_ns) {
            break_promise(field, "exclusive", c, other, other->held_until_ns - now_ns);
        }
    }
    c->token_max = answer->token;
}

static void campaign_on(struct contender *c, uint64_t request);

static void on_answer(void *user, const struct cv_store_answer *answer)
{
    struct contender *c = user;
    if (answer->request == 0) {
        assert_int_equal(answer->verdict, CV_STORE_CHANGED);
        c->notification_count++;
        if (c->is_campaigning && c->waits_for == 0) {
            campaign_on(c, 0);
        }
        return;
    }
    const uint32_t at = answer->request % FIELD_REQUESTS_MAX;
    assert_int_equal(c->asked[at].request, answer->request);
    assert_false(c->asked[at].is_answered); /* at most once */
    c->asked[at].is_answered = true;
    c->asked[at].answer = *answer;
    if (answer->record != NULL) {
        c->asked[at].record = *answer->record;
        c->asked[at].answer.record = &c->asked[at].record;
    }
    if (answer->verdict == CV_STORE_FAILED) {
        assert_non_null(answer->why);
        assert_true(answer->why[0] != '\0' && strchr(answer->why, '\n') == NULL);
        (void)snprintf(c->asked[at].why, sizeof c->asked[at].why, "%s", answer->why);
        c->asked[at].answer.why = c->asked[at].why;
    }
    if (answer->verdict == CV_STORE_GRANTED && !c->asked[at].is_runs) {
        note_grant(c, c->asked[at].attempt, c->asked[at].asked_ns, answer);
    }
    if (c->is_campaigning && answer->request == c->waits_for) {
        campaign_on(c, answer->request);
    }
}

static void on_log(void *user, const char *line)
{
    struct contender *c = user;
    c->log_count++;
    (void)snprintf(c->logged, sizeof c->logged, "%s", line);
}

/* ---- Contenders ---------------------------------------------------------------------------- */

static struct contender *join(struct field *field, const char *node, const char *election,
                              const char *address, struct cv_shared_list *list, uint64_t label)
{
    assert_true(field->count < FIELD_CONTENDERS_MAX);
    struct contender *c = &field->contender[field->count];
    c->field = field;
    c->list = list != NULL ? list : &c->own_list;
    (void)snprintf(c->election, sizeof c->election, "%s", election);
    (void)snprintf(c->node, sizeof c->node, "%s", node);
    /* The top bit may be the sign in the store. */
    c->label = (uint64_t)field_now_ns() << 8 | field->count;
    c->label |= UINT64_C(1) << 63;
    c->label = label != 0 ? label : c->label;
    const struct cv_store_setting setting = {.loop = &field->loop,
                                             .shared = c->list,
                                             .address = address != NULL ? address : field->address,
                                             .election = c->election,
                                             .node = node,
                                             .label = c->label,
                                             .answered = on_answer,
                                             .log = on_log,
                                             .user = c};
    struct cv_errtext err = {""};
    if (field->kind->open(&c->store, &setting, &err) != CV_OK) {
        fail_msg("cannot open '%s': %s", setting.address, err.text);
    }
    field->count++;
    return c;
}

struct contender *field_join(struct field *field, const char *node, const char *address)
{
    return join(field, node, field->election, address, NULL, 0);
}

struct contender *field_join_copy(struct contender *original)
{
    return join(original->field, original->node, original->election, NULL, NULL, original->label);
}

struct contender *field_join_beside(struct contender *beside, const char *node,
                                    const char *election, const char *address)
{
    return join(beside->field, node, election != NULL ? election : beside->election, address,
                beside->list, 0);
}

static void on_one_closed(void *user)
{
    struct contender *c = user;
    c->is_closed = true;
    c->field->closed_count++;
}

static bool is_closed(void *user)
{
    const struct contender *c = user;
    return c->is_closed;
}

void field_close(struct contender *c)
{
    c->field->kind->close(c->store, on_one_closed, c);
    run_until(c->field, is_closed, c, "the closing of one");
}

static uint64_t note_request(struct contender *c, enum cv_store_verb verb, uint64_t attempt)
{
    const uint64_t request = ++c->request;
    const uint32_t at = request % FIELD_REQUESTS_MAX;
    memset(&c->asked[at], 0, sizeof c->asked[at]);
    c->asked[at].request = request;
    c->asked[at].verb = verb;
    c->asked[at].attempt = attempt;
    c->asked[at].asked_ns = field_now_ns();
    return request;
}

uint64_t ask_now(struct contender *c, enum cv_store_verb verb, uint64_t attempt, int64_t lease_ns,
                 const char *heir)
{
    const uint64_t request = note_request(c, verb, attempt);
    const bool is_held = c->held_attempt == attempt && c->held_token != 0;
    if (verb == CV_STORE_RELEASE && is_held) {
        c->held_until_ns = 0; /* over as soon as it asks */
    }
    c->field->kind->ask(
        c->store,
        &(struct cv_store_request){.verb = verb,
                                   .request = request,
                                   .attempt = attempt,
                                   .token = is_held && verb != CV_STORE_ACQUIRE ? c->held_token : 0,
                                   .lease_ns = lease_ns,
                                   .heir = heir,
                                   .reason = c->reason});
    /* An answer never comes from within ask(). */
    assert_false(c->asked[request % FIELD_REQUESTS_MAX].is_answered);
    return request;
}

struct awaited {
    struct contender *c;
    uint64_t request;
};

static bool is_answered(void *user)
{
    const struct awaited *awaited = user;
    return awaited->c->asked[awaited->request % FIELD_REQUESTS_MAX].is_answered;
}

const struct cv_store_answer *await(struct contender *c, uint64_t request)
{
    struct awaited awaited = {c, request};
    run_until(c->field, is_answered, &awaited, "an answer");
    return &c->asked[request % FIELD_REQUESTS_MAX].answer;
}

const struct cv_store_answer *ask_once(struct contender *c, enum cv_store_verb verb,
                                       uint64_t attempt, int64_t lease_ns)
{
    return await(c, ask_now(c, verb, attempt, lease_ns, NULL));
}

const struct cv_store_answer *ask(struct contender *c, enum cv_store_verb verb, uint64_t attempt,
                                  int64_t lease_ns)
{
    const int64_t end_ns = field_now_ns() + PATIENCE_MS * NS_PER_MS;
    for (;;) {
        const struct cv_store_answer *answer = ask_once(c, verb, attempt, lease_ns);
        if (answer->verdict != CV_STORE_FAILED) {
            return answer;
        }
        if (field_now_ns() > end_ns) {
            fail_msg("the store failed each time: %s", answer->why);
        }
        run_for(c->field, 20 * NS_PER_MS);
    }
}

const struct cv_store_answer *ask_to_resign(struct contender *c, const char *heir)
{
    const uint64_t request = note_request(c, CV_STORE_READ, 0);
    c->field->kind->request_resign(c->store, request, heir);
    return await(c, request);
}

enum cv_store_verdict ask_runs(struct contender *c, struct cv_store_runs *runs)
{
    enum cv_store_verdict verdict;
    do {
        const uint64_t request = note_request(c, CV_STORE_READ, 0);
        c->asked[request % FIELD_REQUESTS_MAX].is_runs = true;
        c->field->kind->runs(c->store, request, runs);
        verdict = await(c, request)->verdict;
    } while (verdict == CV_STORE_FAILED);
    return verdict;
}

struct pause {
    struct contender *c;
    uint32_t notification_count;
    int64_t end_ns;
};

static bool is_over(void *user)
{
    const struct pause *pause = user;
    return pause->c->notification_count != pause->notification_count ||
           field_now_ns() >= pause->end_ns;
}

const struct cv_store_answer *acquire(struct contender *c, uint64_t attempt, int64_t lease_ns)
{
    for (;;) {
        struct pause pause = {c, c->notification_count, 0};
        const struct cv_store_answer *answer = ask_once(c, CV_STORE_ACQUIRE, attempt, lease_ns);
        if (answer->verdict == CV_STORE_GRANTED) {
            return answer;
        }
        pause.end_ns =
            field_now_ns() + (answer->verdict == CV_STORE_HELD
                                  ? cv__min64(answer->duration_ns, 500 * NS_PER_MS) + NS_PER_MS
                                  : 50 * NS_PER_MS);
        run_until(c->field, is_over, &pause, "a notification or the time to ask again");
    }
}

/* ---- The loop ------------------------------------------------------------------------------ */

/* Only makes the loop run often enough for conditions that time alone makes true. */
static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Prints what each contender heard last, for a test that fails. */
static void describe(const struct field *field)
{
    static const char *const verdicts[] = {"granted", "held", "free", "failed", "changed"};
    for (uint32_t i = 0; i < field->count; i++) {
        const struct contender *c = &field->contender[i];
        const uint32_t at = c->request % FIELD_REQUESTS_MAX;
        print_message("# %s: request %" PRIu64 " (verb %d, attempt %" PRIu64
                      "), %.3f s ago: %s %s\n",
                      c->node, c->request, (int)c->asked[at].verb, c->asked[at].attempt,
                      (double)(field_now_ns() - c->asked[at].asked_ns) / 1e9,
                      c->asked[at].is_answered ? verdicts[c->asked[at].answer.verdict] : "waits",
                      c->asked[at].why);
    }
}

void run_until(struct field *field, bool (*is_true)(void *user), void *user, const char *what)
{
    const int64_t end_ns = field_now_ns() + PATIENCE_MS * NS_PER_MS;
    (void)uv_timer_start(&field->tick, on_tick, 2, 2);
    while (!is_true(user)) {
        if (field->broken[0] != '\0') {
            fail_msg("%s", field->broken);
        }
        if (field_now_ns() > end_ns) {
            describe(field);
            fail_msg("timed out waiting for %s", what);
        }
        (void)uv_run(&field->loop, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&field->tick);
    if (field->broken[0] != '\0') {
        fail_msg("%s", field->broken);
    }
}

static bool is_past(void *user)
{
    return field_now_ns() >= *(const int64_t *)user;
}

bool is_notified(void *contender)
{
    const struct contender *c = contender;
    return c->notification_count > 0;
}

bool is_held(void *contender)
{
    const struct contender *c = contender;
    return c->held_until_ns > 0;
}

void run_for(struct field *field, int64_t ns)
{
    int64_t end_ns = field_now_ns() + ns;
    run_until(field, is_past, &end_ns, "time to pass");
}

/* ---- Campaigning by itself ----------------------------------------------------------------- */

static void on_again(uv_timer_t *timer)
{
    struct contender *c = timer->data;
    if (c->waits_for == 0) {
        campaign_on(c, 0);
    }
}

static void later(struct contender *c, int64_t ns)
{
    (void)uv_timer_start(&c->again, on_again, (uint64_t)(ns / NS_PER_MS + 1), 0);
}

/* `request` was answered; 0: it is time to ask. */
static void campaign_on(struct contender *c, uint64_t request)
{
    const uint32_t at = request % FIELD_REQUESTS_MAX;
    const struct cv_store_answer *answer = request != 0 ? &c->asked[at].answer : NULL;
    const enum cv_store_verb was = request != 0 ? c->asked[at].verb : CV_STORE_READ;
    c->waits_for = 0;
    enum cv_store_verb verb = c->again_verb;
    c->again_verb = CV_STORE_ACQUIRE;
    if (answer != NULL && answer->verdict == CV_STORE_GRANTED) {
        verb = c->renewals_left > 0 ? CV_STORE_RENEW : CV_STORE_RELEASE;
        c->renewals_left -= c->renewals_left > 0;
    } else if (answer != NULL && answer->verdict == CV_STORE_HELD && was == CV_STORE_ACQUIRE) {
        later(c, cv__min64(answer->duration_ns, 500 * NS_PER_MS));
        return;
    } else if (answer != NULL && answer->verdict == CV_STORE_FAILED) {
        const bool was_granted = c->held_attempt == c->attempt && c->held_token != 0;
        const bool is_over = was_granted && field_now_ns() >= c->held_until_ns;
        /* A lost attempt is not asked for again. */
        c->attempt += is_over && was != CV_STORE_RELEASE;
        c->again_verb = is_over && was != CV_STORE_RELEASE ? CV_STORE_ACQUIRE : was;
        later(c, (int64_t)test_random_below(&c->field->random, 50) * NS_PER_MS);
        return;
    } else if (answer != NULL) { /* released, or lost: the next attempt */
        c->attempt++;
        c->renewals_left = test_random_below(&c->field->random, 3);
        later(c, (int64_t)test_random_below(&c->field->random, 20) * NS_PER_MS);
        return;
    }
    c->waits_for = ask_now(c, verb, c->attempt, c->lease_ns, NULL);
}

void campaign(struct contender *c, int64_t lease_ns, uint32_t renewals)
{
    c->is_campaigning = true;
    c->attempt = c->held_attempt + 1;
    c->again_verb = CV_STORE_ACQUIRE;
    c->lease_ns = lease_ns;
    c->renewals_left = renewals;
    (void)uv_timer_init(&c->field->loop, &c->again);
    c->again.data = c;
    c->has_timer = true;
    campaign_on(c, 0);
}
