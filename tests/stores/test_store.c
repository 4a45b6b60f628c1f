/* tests/stores/test_store.c KIND - what every store promises, tested with one of them.
 *
 * KIND is sqlite (a file of its own), or postgres, pooler, etcd or zookeeper with the servers of
 * tools/with-servers. The same tests run for all kinds, except for those that need something that a
 * kind does not have. Traps T1.. are those of docs/traps.md. */
#include "stores/test_store.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The four promises --------------------------------------------------------------------- */

static bool has_fifty_changes(void *user)
{
    const struct field *field = user;
    return field->change_count >= 50;
}

/* The ledger checks at each change that the lease is exclusive and that tokens grow. */
static void one_of_twenty_holds_the_lease_through_fifty_changes(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        char node[16];
        (void)snprintf(node, sizeof node, "node-%u", (unsigned)i);
        campaign(field_join(field, node, NULL), lease_long_ns, i % 3);
    }
    run_until(field, has_fifty_changes, field, "fifty changes of the holder");
    uint32_t notification_count = 0;
    for (uint32_t i = 0; i < 20; i++) {
        notification_count += field->contender[i].notification_count;
    }
    if (has_members) { /* [T12] these have a queue: each change wakes one contender, not all */
        assert_true(notification_count <= 4 * field->change_count);
    }
    field_free(field);
}

/* A store that gives the lease to the next one tells this to the one that resigns. `is_heir`: to
 * the named heir. */
static void assert_released(const struct cv_store_answer *answer, const struct contender *next,
                            bool is_heir)
{
    const bool is_given = has_members || (!is_heir && strcmp(kind_name, "postgres") == 0);
    assert_int_equal(answer->verdict, is_given ? CV_STORE_HELD : CV_STORE_FREE);
    assert_int_equal(answer->holder, is_given ? next->label : 0);
}

static void the_same_attempt_again_is_the_same_grant(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    assert_true(token > 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct cv_store_answer *answer = ask(a, CV_STORE_ACQUIRE, 1, lease_long_ns);
        assert_int_equal(answer->verdict, CV_STORE_GRANTED);
        assert_int_equal(answer->token, token);
        assert_true(answer->duration_ns > 0);
    }
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->holder, a->label);
    assert_int_equal(answer->token, token);
    assert_released(ask(a, CV_STORE_RELEASE, 1, 0), b, /* is_heir= */ false);
    assert_released(ask(a, CV_STORE_RELEASE, 1, 0), b, /* is_heir= */ false); /* no error */
    assert_int_equal(ask(b, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    assert_true(acquire(a, 2, lease_long_ns)->token > token);
    field_free(field);
}

static void a_renewal_after_the_loss_is_refused(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_short_ns);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_short_ns)->verdict, CV_STORE_GRANTED);
    (void)acquire(b, 1, lease_short_ns); /* the ledger checks that a's lease is over */
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_short_ns);
    assert_true(answer->verdict == CV_STORE_HELD || answer->verdict == CV_STORE_FREE);
    answer = ask(a, CV_STORE_ACQUIRE, 2, lease_short_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->holder, b->label);
    field_free(field);
}

/* A grant came too late, as after a pause: the core asks again with the same attempt, and must
 * learn that this attempt is over. */
static void a_lost_attempt_is_told_that_it_is_over(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_short_ns);
    (void)acquire(b, 1, lease_long_ns); /* the ledger checks that a's lease is over */
    const struct cv_store_answer *answer = ask(a, CV_STORE_ACQUIRE, 1, lease_short_ns);
    assert_true(answer->verdict == CV_STORE_HELD || answer->verdict == CV_STORE_FREE);
    assert_int_equal(ask(a, CV_STORE_ACQUIRE, 2, lease_short_ns)->verdict, CV_STORE_HELD);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    (void)acquire(a, 2, lease_short_ns);
    field_free(field);
}

/* [T26] Configurations differ; that of the holder counts. */
static void the_holders_lease_governs(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const int64_t begin_ns = field_now_ns();
    (void)acquire(a, 1, 2 * lease_short_ns);
    const int64_t end_ns = a->held_until_ns;
    (void)acquire(b, 1, lease_long_ns);
    assert_true(field_now_ns() >= end_ns);
    assert_true(end_ns >= begin_ns + lease_short_ns); /* more than half of the lease is certain */
    assert_true(field_now_ns() - begin_ns < lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 2, 3 * lease_short_ns);
    const int64_t later_ns = b->held_until_ns;
    (void)acquire(a, 2, lease_short_ns);
    assert_true(field_now_ns() >= later_ns);
    field_free(field);
}

/* ---- Notifications, requests to resign, heirs, history --------------------------------------- */

static void waiting_contenders_are_notified_of_a_release(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    if (has_notifications) {
        run_for(field, 50 * NS_PER_MS); /* notifications of earlier changes have been delivered */
        b->notification_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, is_notified, b, "a notification of the release");
        assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    } else {
        /* Without notifications it must look again soon. */
        assert_true(answer->duration_ns <= NS_PER_S);
        (void)ask(a, CV_STORE_RELEASE, 1, 0);
        (void)acquire(b, 1, lease_long_ns);
    }
    field_free(field);
}

static void an_observer_sees_the_holder(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "node a", NULL);
    struct contender *b = field_join(field, "observer", NULL);
    assert_int_equal(ask(b, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    const struct cv_store_answer *granted = acquire(a, 1, lease_long_ns);
    const struct cv_store_answer *answer = ask(b, CV_STORE_READ, 0, 0);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->holder, a->label);
    assert_int_equal(answer->token, granted->token);
    assert_non_null(answer->record);
    assert_string_equal(answer->record->node, "node a");
    assert_int_equal(answer->record->label, a->label);
    assert_int_equal(answer->record->lease_ns, lease_long_ns);
    assert_true(answer->record->remaining_ns > 0);
    assert_true(answer->record->since_wall_ns > INT64_C(1500000000) * NS_PER_S);
    assert_string_equal(answer->record->resign_request, "");
    if (has_notifications) {
        run_for(field, 50 * NS_PER_MS);
        b->notification_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, is_notified, b, "a notification for an observer");
    } else {
        (void)ask(a, CV_STORE_RELEASE, 1, 0);
    }
    answer = ask(b, CV_STORE_READ, 0, 0);
    assert_int_equal(answer->verdict, CV_STORE_FREE);
    assert_string_equal(answer->record->node, "");
    field_free(field);
}

static void a_resign_request_reaches_the_holder_and_ends_with_its_leadership(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    assert_int_equal(ask_to_resign(b, "b")->verdict, CV_STORE_FREE);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    run_for(field, 50 * NS_PER_MS);
    a->notification_count = 0;
    assert_int_equal(ask_to_resign(b, "b")->verdict, CV_STORE_HELD);
    if (has_notifications) {
        run_until(field, is_notified, a, "a notification of the request");
    }
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_string_equal(answer->record->resign_request, "b");
    assert_int_equal(ask_to_resign(b, NULL)->verdict, CV_STORE_HELD);
    answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_string_equal(answer->record->resign_request, "*");
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    answer = ask(b, CV_STORE_RENEW, 1, lease_long_ns);
    assert_string_equal(answer->record->resign_request, "");
    field_free(field);
}

static void an_heir_comes_before_contenders_that_waited_longer(void **unused)
{
    (void)unused;
    struct contender *a, *b, *c;
    struct field *field = join_three(NULL, &a, &b, &c);
    assert_released(await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c")), c, /* is_heir= */ true);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns); /* with a larger token: the ledger checks */
    /* An heir that does not exist holds nobody up for long. */
    (void)await(b, ask_now(b, CV_STORE_RELEASE, 1, 0, "nobody"));
    (void)acquire(a, 2, lease_long_ns);
    field_free(field);
}

/* Reads until nobody holds the election, or another leadership than that one. */
static const struct cv_store_record *read_until_over(struct contender *observer, uint64_t token)
{
    for (;;) {
        const struct cv_store_answer *answer = ask(observer, CV_STORE_READ, 0, 0);
        if (answer->verdict == CV_STORE_FREE || answer->token != token) {
            return answer->record;
        }
    }
}

/* An observer sees it as soon as it sees that the leadership is over. */
static void others_hear_why_a_leadership_ended(void **unused)
{
    (void)unused;
    static const enum cv_reason reasons[] = {CV_REASON_FINISHED, CV_REASON_STARTED,
                                             CV_REASON_STORE_UNREACHABLE};
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *c = field_join(field, "c", NULL);
    struct contender *o = field_join(field, "observer", NULL);
    uint64_t token = 0, attempt = 1;
    for (; attempt <= 9; attempt++) {
        a->reason = CV_REASON_STARTED;
        token = acquire(a, attempt, lease_long_ns)->token;
        a->reason = reasons[attempt % COUNT_OF(reasons)];
        (void)ask_now(a, CV_STORE_RELEASE, attempt, 0, NULL);
        const struct cv_store_record *record = read_until_over(o, token);
        assert_string_equal(record->node, "");
        assert_int_equal(record->token, token);
        assert_int_equal(record->ended,
                         a->reason != CV_REASON_STARTED ? a->reason : CV_REASON_RESIGNED);
    }
    /* Even when another leads at once. */
    a->reason = CV_REASON_STARTED;
    token = acquire(a, attempt, lease_long_ns)->token;
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    a->reason = CV_REASON_FINISHED;
    (void)await(a, ask_now(a, CV_STORE_RELEASE, attempt, 0, "c"));
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0); /* it has only waited, and has no reason to give */
    for (uint32_t i = 0; i < 3; i++) {
        const struct cv_store_record *record = ask(o, CV_STORE_READ, 0, 0)->record;
        assert_string_equal(record->node, "c");
        assert_int_equal(record->last.token, token);
        assert_int_equal(record->last.why, CV_REASON_FINISHED);
        assert_string_equal(record->last.node, "a");
        assert_true(record->last.wall_ns > INT64_C(1500000000) * NS_PER_S);
        assert_int_equal(ask(c, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    }
    field_free(field);
}

/* What a reader sees is since when it leads, not since when it has waited. If it took over without
 * writing that, it is told to renew at once, which writes it. */
static void assert_leads_since(struct contender *b, int64_t wall_ns)
{
    struct contender *reader = field_join(b->field, "reader", NULL);
    for (b->notification_count = 0;
         ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict != CV_STORE_GRANTED;
         b->notification_count = 0) {
        run_for(b->field, 20 * NS_PER_MS); /* a pooler does not pass notifications on */
    }
    if (ask(reader, CV_STORE_READ, 0, 0)->record->since_wall_ns < wall_ns) {
        run_until(b->field, is_notified, b, "the advice to renew at once");
        (void)ask(b, CV_STORE_RENEW, 1, lease_long_ns);
    }
    const struct cv_store_record *record = ask(reader, CV_STORE_READ, 0, 0)->record;
    assert_string_equal(record->node, b->node);
    assert_true(record->since_wall_ns >= wall_ns);
}

static void a_contender_that_waited_leads_since_its_election(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    run_for(field, 50 * NS_PER_MS); /* it may prepare something */
    const int64_t wall_ns = cv__clock_wall_ns();
    b->notification_count = 0;
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    if (has_notifications) {
        run_until(field, is_notified, b, "a notification of the release");
    }
    assert_leads_since(b, wall_ns);
    field_free(field);
}

/* The same if it was not next to the holder when it asked. */
static void a_contender_that_waited_for_others_leads_since_its_election(void **unused)
{
    (void)unused;
    struct contender *a, *b, *c;
    struct field *field = join_three(NULL, &a, &b, &c);
    const int64_t wall_ns = cv__clock_wall_ns();
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    assert_leads_since(c, wall_ns);
    field_free(field);
}

/* Its predecessor gave a reason, which does not explain the end of this one. */
static void a_leader_without_a_reason_does_not_get_its_predecessors(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *o = field_join(field, "observer", NULL);
    (void)acquire(a, 1, lease_long_ns);
    a->reason = CV_REASON_FINISHED;
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    const uint64_t token = acquire(b, 1, lease_short_ns)->token;
    for (uint32_t i = 0; i < 3; i++) { /* a leader writes what it leaves behind while it leads */
        run_for(field, 50 * NS_PER_MS);
        assert_int_equal(ask(b, CV_STORE_RENEW, 1, lease_short_ns)->verdict, CV_STORE_GRANTED);
    }
    const struct cv_store_record *record = read_until_over(o, token);
    assert_int_equal(record->token, token);
    assert_int_equal(record->ended, has_history() ? CV_REASON_EXPIRED : CV_REASON_GONE);
    field_free(field);
}

struct past_list {
    struct cv_store_past past[16];
    uint32_t count;
};

static void on_past(void *user, const struct cv_store_past *past)
{
    struct past_list *list = user;
    if (list->count < COUNT_OF(list->past)) {
        list->past[list->count] = *past;
    }
    list->count++;
}

static void the_history_says_who_led_and_why_it_ended(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_short_ns);
    (void)acquire(a, 2, lease_long_ns); /* b lets its lease run out */
    struct past_list list = {.count = 0};
    struct cv_errtext err;
    assert_int_equal(field->kind->history(address, field->election, on_past, &list, &err), CV_OK);
    assert_int_equal(list.count, 3);
    static const char *const node[] = {"a", "b", "a"};
    static const char *const why[] = {"resigned", "expired", ""};
    for (uint32_t i = 0; i < 3; i++) {
        const struct cv_store_past *past = &list.past[i];
        assert_string_equal(past->node, node[i]);
        assert_string_equal(past->why, why[i]);
        assert_true(i == 2 ? past->to_wall_ns == 0 : past->to_wall_ns >= past->from_wall_ns);
        assert_true(i == 0 ||
                    (past->token > past[-1].token && past->from_wall_ns >= past[-1].to_wall_ns));
    }
    field_free(field);
}

/* As of a server that hung. The holder stopped before, and history must not say that it led on. */
static void a_renewal_after_the_end_revives_nothing(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *o = field_join(field, "observer", NULL);
    const uint64_t token = acquire(a, 1, lease_short_ns)->token;
    const int64_t ended_ns = read_until_over(o, token)->ended_wall_ns;
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_short_ns)->verdict, CV_STORE_FREE);
    assert_int_equal(ask(o, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    (void)acquire(a, 2, lease_long_ns);
    struct past_list list = {.count = 0};
    struct cv_errtext err;
    assert_int_equal(field->kind->history(address, field->election, on_past, &list, &err), CV_OK);
    assert_int_equal(list.count, 2);
    assert_true(ended_ns != 0 && list.past[0].to_wall_ns == ended_ns);
    field_free(field);
}

/* For example after an outage of the store. Others that take over know only that it expired. */
static void a_contender_that_comes_back_says_why_it_lost_the_lease(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_short_ns);
    a->reason = b->reason = CV_REASON_STORE_UNREACHABLE;
    (void)acquire(a, 2, lease_short_ns);
    (void)acquire(b, 1, lease_long_ns);
    struct past_list list = {.count = 0};
    struct cv_errtext err;
    assert_int_equal(field->kind->history(address, field->election, on_past, &list, &err), CV_OK);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.past[0].why, "store-unreachable");
    assert_string_equal(list.past[1].why, "expired");
    field_free(field);
}

static void text_of_runs(struct cv_store_runs *runs, const char *what, size_t bytes)
{
    (void)snprintf(runs->text, sizeof runs->text, "%s 'quoted' \"%%41\" \\n\n", what);
    for (size_t i = strlen(runs->text); i < bytes; i++) {
        runs->text[i] = (char)('a' + i % 26);
        runs->text[i + 1] = '\0';
    }
}

static void only_the_holder_writes_about_runs(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *reader = field_join(field, "reader", NULL);
    struct cv_store_runs mine = {.token = 0}, seen = {.token = 0};
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_int_equal(seen.version, 0);
    assert_string_equal(seen.text, "");

    const uint64_t first = acquire(a, 1, lease_long_ns)->token;
    mine.token = first;
    text_of_runs(&mine, "first", 0);
    assert_int_equal(ask_runs(reader, &mine),
                     CV_STORE_GRANTED); /* the token counts, not the contender */
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, mine.text);
    assert_true(seen.version != 0);

    /* A copy of that write, or a write based on an older text, changes nothing. */
    text_of_runs(&mine, "late", 0);
    assert_int_equal(ask_runs(a, &mine), CV_STORE_CHANGED);
    mine.version = seen.version;
    text_of_runs(&mine, "long", CV_STORE_RUNS_BYTES - 1);
    assert_int_equal(ask_runs(a, &mine), CV_STORE_GRANTED);
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, mine.text);

    /* Nor does the token of a leadership that is over, or of one that never was. */
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    struct cv_store_runs fenced = {.token = first, .version = seen.version, .text = "fenced"};
    assert_int_equal(ask_runs(a, &fenced), CV_STORE_HELD);
    const uint64_t second = acquire(b, 1, lease_long_ns)->token;
    assert_int_equal(ask_runs(a, &fenced), CV_STORE_HELD);
    fenced.token = second + 1;
    assert_int_equal(ask_runs(a, &fenced), CV_STORE_HELD);
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, mine.text);

    /* The next leadership goes on where the last one stopped. */
    fenced.token = second;
    assert_int_equal(ask_runs(b, &fenced), CV_STORE_GRANTED);
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, "fenced");
    field_free(field);
}

static void names_may_be_odd(void **unused)
{
    (void)unused;
    char long_name[CV_ELECTION_BYTES];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const names[] = {"a/b",   "a",     "..",      "100 % 'quoted' \"and\" \\more",
                                 "Größe", "a%2Fb", "@e$1;--", long_name};
    struct field *field[COUNT_OF(names)];
    for (uint32_t i = 0; i < COUNT_OF(names); i++) { /* all at once: none may hide another */
        field[i] = field_new(address, names[i]);
        struct contender *c = field_join(field[i], names[i][0] == 'x' ? "x" : names[i], NULL);
        (void)acquire(c, 1, lease_long_ns);
        const struct cv_store_answer *answer =
            ask(field_join(field[i], "observer", NULL), CV_STORE_READ, 0, 0);
        assert_int_equal(answer->verdict, CV_STORE_HELD);
        assert_string_equal(answer->record->node, c->node);
    }
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        (void)ask(&field[i]->contender[0], CV_STORE_RELEASE, 1, 0);
        field_free(field[i]);
    }
}

static void a_store_can_be_closed_during_a_request(void **unused)
{
    (void)unused;
    for (uint32_t turns = 0; turns < 12; turns++) {
        struct field *field = field_new(address, NULL);
        struct contender *c = field_join(field, "a", NULL);
        (void)ask_now(c, CV_STORE_ACQUIRE, 1, lease_short_ns, NULL);
        (void)ask_now(c, CV_STORE_READ, 0, 0, NULL);
        (void)ask_now(c, CV_STORE_RELEASE, 1, 0, NULL);
        for (uint32_t i = 0; i < turns; i++) {
            (void)uv_run(&field->loop, UV_RUN_NOWAIT);
        }
        field_free(field); /* no answer comes afterwards: the sanitizers would see it */
    }
}

/* ---- Several elections on one loop ---------------------------------------------------------- */

static uint32_t shared_count(const struct contender *c)
{
    uint32_t count = 0;
    for (const struct cv_shared *at = c->list->first; at != NULL; at = at->next) {
        count++;
    }
    return count;
}

static void join_names(struct contender *first, struct contender **ret_more, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char election[CV_ELECTION_BYTES + 16];
        (void)snprintf(election, sizeof election, "%.200s #%u", first->field->election, i);
        ret_more[i] = field_join_beside(first, first->node, election, NULL);
    }
}

/* They have one connection, but the end of one election does not affect the others. */
static void elections_of_one_loop_share_a_connection(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *more[5];
    join_names(a, more, COUNT_OF(more));
    assert_int_equal(shared_count(a), 1);
    (void)acquire(a, 1, lease_short_ns * 2);
    for (uint32_t i = 0; i < COUNT_OF(more); i++) {
        (void)acquire(more[i], 1, lease_short_ns * 2);
    }
    assert_int_equal(ask(more[0], CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    assert_int_equal(ask(more[1], CV_STORE_RENEW, 1, lease_short_ns * 2)->verdict,
                     CV_STORE_GRANTED);
    struct contender *b = field_join_beside(a, "b", more[0]->election, NULL);
    (void)acquire(b, 1, lease_long_ns); /* with another lease */
    assert_int_equal(ask(more[1], CV_STORE_RENEW, 1, lease_short_ns * 2)->verdict,
                     CV_STORE_GRANTED);
    assert_int_equal(ask(more[0], CV_STORE_ACQUIRE, 2, lease_short_ns * 2)->verdict, CV_STORE_HELD);
    field_free(field);
}

/* Renews the listed elections while the rival asks for its own, until that is granted. */
static void renew_until_won(struct contender **list, uint32_t count, struct contender *rival)
{
    const int64_t end_ns = field_now_ns() + 30 * NS_PER_S;
    while (rival->held_until_ns == 0) {
        assert_true(field_now_ns() < end_ns);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(ask(list[i], CV_STORE_RENEW, 1, lease_short_ns * 2)->verdict,
                             CV_STORE_GRANTED);
        }
        (void)ask(rival, CV_STORE_ACQUIRE, 1, lease_long_ns);
        run_for(rival->field, 20 * NS_PER_MS);
    }
}

/* [traps.md T6] One election is not renewed, or its store is closed: it is lost at the time that
 * was promised and not before, although the others keep the connection alive. The ledger checks. */
static void one_election_ends_while_others_go_on(void **unused)
{
    (void)unused;
    for (uint32_t is_closing = 0; is_closing < 2; is_closing++) {
        struct field *field = field_new(address, NULL);
        struct contender *a = field_join(field, "a", NULL);
        struct contender *more[3];
        join_names(a, more, COUNT_OF(more));
        (void)acquire(a, 1, lease_short_ns * 2);
        for (uint32_t i = 0; i < COUNT_OF(more); i++) {
            (void)acquire(more[i], 1, lease_short_ns * 2);
        }
        struct contender *rival = field_join(field, "rival", NULL);
        if (is_closing) {
            field_close(a);
        }
        renew_until_won(more, COUNT_OF(more), rival);
        if (!is_closing) {
            const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_short_ns * 2);
            assert_true(answer->verdict == CV_STORE_HELD || answer->verdict == CV_STORE_FREE);
        }
        field_free(field);
    }
}

/* Two contenders of the same election in one process are two contenders, not one. */
static void the_same_election_twice_on_one_loop_has_one_holder(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join_beside(a, "b", NULL, NULL);
    /* Both ask in the same run of the loop, in which requests of different elections are sent
     * together. */
    const uint64_t asked = ask_now(a, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    const uint64_t asked_b = ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    (void)await(a, asked); /* the ledger checks */
    (void)await(b, asked_b);
    struct contender *first = a->held_token != 0 ? a : b;
    struct contender *second = first == a ? b : a;
    (void)acquire(first, 1, lease_long_ns);
    const struct cv_store_answer *answer = ask(second, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->holder, first->label);
    assert_int_equal(ask(first, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    (void)ask(first, CV_STORE_RELEASE, 1, 0);
    (void)acquire(second, 1, lease_long_ns);
    a = first;
    b = second;
    assert_int_equal(ask(a, CV_STORE_ACQUIRE, 2, lease_long_ns)->verdict, CV_STORE_HELD);
    field_close(a);
    assert_int_equal(ask(b, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    field_free(field);
}

/* A cut connection is cut for all elections, and all recover. */
static void all_elections_recover_from_a_lost_connection(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *other = field_join_beside(a, "a", "another one", by_proxy);
    (void)snprintf(field->election, sizeof field->election, "another one");
    struct contender *rival[2] = {
        field_join_beside(field_join(field, "x", NULL), "b", a->election, NULL),
        field_join(field, "b", NULL)};
    assert_int_equal(shared_count(a), 1);
    (void)acquire(a, 1, lease_short_ns);
    (void)acquire(other, 1, lease_short_ns);
    proxy_cut(proxy); /* for a moment: nobody loses a lease */
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_short_ns)->verdict, CV_STORE_GRANTED);
    assert_int_equal(ask(other, CV_STORE_RENEW, 1, lease_short_ns)->verdict, CV_STORE_GRANTED);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    (void)acquire(rival[0], 1, lease_long_ns);
    (void)acquire(rival[1], 1, lease_long_ns);
    proxy_refuse(proxy, false);
    assert_true(ask(a, CV_STORE_RENEW, 1, lease_short_ns)->verdict != CV_STORE_GRANTED);
    assert_true(ask(other, CV_STORE_RENEW, 1, lease_short_ns)->verdict != CV_STORE_GRANTED);
    assert_int_equal(ask(a, CV_STORE_ACQUIRE, 2, lease_short_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask(other, CV_STORE_ACQUIRE, 2, lease_short_ns)->verdict, CV_STORE_HELD);
    proxy_free(proxy);
    field_free(field);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !choose(argv[1])) {
        (void)fprintf(
            stderr, "use: with-servers ... -- test_store sqlite|postgres|pooler|etcd|zookeeper\n");
        return 2;
    }
    const bool is_etcd = strcmp(kind_name, "etcd") == 0;
    const bool is_zookeeper = strcmp(kind_name, "zookeeper") == 0;
    const bool is_sql = strcmp(server_name(), "postgres") == 0;
    const bool is_direct = strcmp(kind_name, "postgres") == 0; /* no pooler in between */
    const struct test_choice all[] = {
        {true, cmocka_unit_test(the_same_attempt_again_is_the_same_grant)},
        {true, cmocka_unit_test(a_renewal_after_the_loss_is_refused)},
        {true, cmocka_unit_test(a_lost_attempt_is_told_that_it_is_over)},
        {true, cmocka_unit_test(the_holders_lease_governs)},
        {true, cmocka_unit_test(waiting_contenders_are_notified_of_a_release)},
        {true, cmocka_unit_test(an_observer_sees_the_holder)},
        {true, cmocka_unit_test(a_resign_request_reaches_the_holder_and_ends_with_its_leadership)},
        {true, cmocka_unit_test(an_heir_comes_before_contenders_that_waited_longer)},
        {has_history(), cmocka_unit_test(the_history_says_who_led_and_why_it_ended)},
        {has_history(), cmocka_unit_test(a_contender_that_comes_back_says_why_it_lost_the_lease)},
        {true, cmocka_unit_test(others_hear_why_a_leadership_ended)},
        {true, cmocka_unit_test(a_leader_without_a_reason_does_not_get_its_predecessors)},
        {true, cmocka_unit_test(a_contender_that_waited_leads_since_its_election)},
        {true, cmocka_unit_test(a_contender_that_waited_for_others_leads_since_its_election)},
        {true, cmocka_unit_test(only_the_holder_writes_about_runs)},
        {true, cmocka_unit_test(names_may_be_odd)},
        {true, cmocka_unit_test(a_store_can_be_closed_during_a_request)},
        {true, cmocka_unit_test(one_of_twenty_holds_the_lease_through_fifty_changes)},
        {has_server, cmocka_unit_test(a_lost_answer_leaves_nothing_behind)},
        {has_server, cmocka_unit_test(a_late_answer_counts_from_the_request)},
        {has_server && has_notifications, cmocka_unit_test(a_hand_over_takes_few_round_trips)},
        {is_zookeeper, cmocka_unit_test(a_slow_server_is_not_sent_the_same_request_again)},
        {has_server, cmocka_unit_test(a_dropped_connection_is_survived)},
        {has_server, cmocka_unit_test(a_contender_that_is_cut_off_loses_the_lease)},
        {true, cmocka_unit_test(elections_of_one_loop_share_a_connection)},
        {true, cmocka_unit_test(one_election_ends_while_others_go_on)},
        {true, cmocka_unit_test(the_same_election_twice_on_one_loop_has_one_holder)},
        {has_server, cmocka_unit_test(all_elections_recover_from_a_lost_connection)},
        {is_sql, cmocka_unit_test(a_renewal_after_the_end_revives_nothing)},
        {is_sql, cmocka_unit_test(sessions_may_be_terminated)},
        {is_sql, cmocka_unit_test(a_deleted_row_does_not_reset_the_token)},
        {is_sql, cmocka_unit_test(operators_of_another_role_are_not_used)},
        {is_sql, cmocka_unit_test(a_changed_table_does_no_harm)},
        {is_sql, cmocka_unit_test(tables_of_a_stranger_are_refused)},
        {is_sql, cmocka_unit_test(a_host_that_hangs_is_skipped)},
        {is_sql, cmocka_unit_test(a_server_that_hung_is_soon_used_again)},
        {is_direct, cmocka_unit_test(the_next_one_is_given_the_row)},
        {is_direct, cmocka_unit_test(a_given_row_counts_from_the_registration)},
        {is_direct, cmocka_unit_test(a_dead_contender_is_not_given_the_row)},
        {is_direct, cmocka_unit_test(a_contender_that_registered_long_ago_is_not_next)},
        {is_direct, cmocka_unit_test(a_contender_that_gave_up_is_not_next)},
        {is_direct, cmocka_unit_test(a_late_copy_of_a_request_registers_nobody)},
        {is_direct, cmocka_unit_test(a_late_copy_of_a_request_shortens_no_registration)},
        {is_direct, cmocka_unit_test(a_contender_that_took_the_row_is_not_next)},
        {is_direct, cmocka_unit_test(a_forged_notification_makes_nobody_lead)},
        {is_direct, cmocka_unit_test(a_secret_is_believed_once)},
        {is_direct, cmocka_unit_test(a_contender_that_missed_the_notification_asks_for_the_row)},
        {is_sql, cmocka_unit_test(settings_of_others_do_not_matter)},
        {is_sql, cmocka_unit_test(tables_without_the_columns_for_a_next_one_work)},
        {is_sql, cmocka_unit_test(an_earlier_version_may_release)},
        {is_etcd, cmocka_unit_test(etcd_users_need_their_password)},
        {is_etcd, cmocka_unit_test(etcd_is_reached_by_certificates)},
        {is_etcd, cmocka_unit_test(foreign_keys_hold_nothing)},
        {is_etcd, cmocka_unit_test(a_contender_that_lost_its_place_is_not_next)},
        {is_etcd, cmocka_unit_test(the_next_in_line_asks_nothing)},
        {is_etcd, cmocka_unit_test(a_contender_that_is_passed_over_is_not_next)},
        {is_etcd, cmocka_unit_test(a_grant_ends_with_the_lease_of_its_ready_key)},
        {is_etcd, cmocka_unit_test(a_late_renewal_changes_nothing)},
        {is_etcd, cmocka_unit_test(a_late_put_that_made_a_key_ready_changes_nothing)},
        {is_etcd, cmocka_unit_test(a_contender_that_missed_events_is_not_next)},
        {is_etcd, cmocka_unit_test(a_late_release_does_not_note_an_end)},
        {is_etcd, cmocka_unit_test(a_grant_ends_with_the_lease_that_was_kept)},
        {is_etcd, cmocka_unit_test(earlier_leases_may_be_revoked)},
        {is_etcd || is_zookeeper, cmocka_unit_test(a_lease_is_never_longer_than_asked)},
        {is_zookeeper, cmocka_unit_test(zookeeper_nodes_belong_to_their_creator)},
        {is_zookeeper, cmocka_unit_test(nodes_of_no_session_hold_nothing)},
        {is_zookeeper, cmocka_unit_test(a_leader_that_lost_its_node_writes_no_note)},
        {is_zookeeper, cmocka_unit_test(a_grant_counts_from_an_older_proof_of_the_session)},
        {is_zookeeper, cmocka_unit_test(a_contender_that_is_passed_over_does_not_take_over)},
        {is_zookeeper, cmocka_unit_test(others_are_deposed_before_the_holder_leaves)},
        {is_zookeeper, cmocka_unit_test(the_next_in_the_queue_asks_nothing)},
        {is_zookeeper, cmocka_unit_test(after_a_holder_of_an_earlier_version_the_queue_is_read)},
        {is_zookeeper, cmocka_unit_test(a_contender_with_a_new_connection_looks_before_it_is_next)},
        {is_zookeeper, cmocka_unit_test(a_leader_that_asked_nothing_hears_of_a_resign_request)},
        {is_etcd || is_zookeeper, cmocka_unit_test(an_election_is_open_once_under_one_label)},
        {has_server && has_notifications, cmocka_unit_test(bad_addresses_are_reported_in_one_line)},
        {has_server, cmocka_unit_test(the_servers_may_be_killed_and_come_back)},
        {has_members, cmocka_unit_test(the_leader_of_the_servers_may_be_killed)},
        {has_members, cmocka_unit_test(a_frozen_member_holds_nobody_up)},
    };
    return test_run_wanted(kind_name, all, COUNT_OF(all), set_up, clean_up);
}
