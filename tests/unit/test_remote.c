/* tests/unit/test_remote.c - the queue of requests that the stores with a server share. */
#include "protocols/lease_config.h"
#include "stores/remote.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#define ASKED 12u /* more than the queue holds */

/* A store whose server hangs: it starts to serve a request, and never answers. */
struct hanging {
    struct cv_remote remote;
    uint64_t begun;
    uint64_t answered[2 * CV_REMOTE_REPLACED_MAX];
    uint32_t answered_count, failed_count;
    bool is_asking;
    bool is_closed;
};

static void on_answer(void *user, const struct cv_store_answer *answer)
{
    struct hanging *h = user;
    assert_false(h->is_asking); /* never from within the call that asks */
    assert_true(answer->verdict != CV_STORE_FAILED ||
                (answer->why != NULL && answer->why[0] != '\0'));
    h->failed_count += answer->verdict == CV_STORE_FAILED;
    h->answered[h->answered_count++] = answer->request;
}

static void begin(void *store)
{
    struct hanging *h = store;
    h->begun = cv__remote_current(&h->remote)->ask.request;
}

static void give_up(void *store)
{
    struct hanging *h = store;
    cv__remote_fail(&h->remote, "no answer in time");
}

static void on_closed(void *user)
{
    struct hanging *h = user;
    h->is_closed = true;
}

static void last(void *store)
{
    struct hanging *h = store;
    h->remote.closed(h->remote.closed_user);
}

static void hang(struct hanging *h, uv_loop_t *loop)
{
    memset(h, 0, sizeof *h);
    assert_int_equal(uv_loop_init(loop), 0);
    const struct cv_store_setting setting = {
        .loop = loop, .election = "e", .node = "a", .label = 1, .answered = on_answer, .user = h};
    cv__remote_init(&h->remote, &setting, h, begin, give_up);
}

static void end(struct hanging *h, uv_loop_t *loop)
{
    cv__remote_close_begin(&h->remote, on_closed, h);
    cv__remote_close_end(&h->remote, last);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    assert_true(h->is_closed);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void add(struct hanging *h, uint64_t request, enum cv_store_verb verb,
                bool is_resign_request)
{
    h->is_asking = true;
    cv__remote_add(&h->remote,
                   &(struct cv_store_request){
                       .request = request, .verb = verb, .attempt = 1, .lease_ns = 600 * NS_PER_S},
                   is_resign_request);
    h->is_asking = false;
}

/* The first request is being served, and is never answered. */
static void hang_at(struct hanging *h, uv_loop_t *loop, enum cv_store_verb verb)
{
    hang(h, loop);
    add(h, 1, verb, /* is_resign_request= */ false);
    (void)uv_run(loop, UV_RUN_NOWAIT);
}

static void a_full_queue_answers_the_requests_it_replaces(void **unused)
{
    (void)unused;
    struct hanging h;
    uv_loop_t loop;
    hang_at(&h, &loop, CV_STORE_RENEW);
    assert_int_equal(h.begun, 1);
    for (uint64_t i = 2; i < 2 + CV_REMOTE_WAITING_MAX - 1 + ASKED; i++) {
        add(&h, i, CV_STORE_READ, false);
    }
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(h.answered_count, ASKED); /* each is answered exactly once */
    assert_int_equal(h.failed_count, ASKED);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < h.answered_count; i++) {
        assert_true(h.answered[i] >= 2 && h.answered[i] < 2 + ASKED);
        seen |= UINT64_C(1) << h.answered[i];
    }
    assert_int_equal(seen, ((UINT64_C(1) << ASKED) - 1) << 2);
    assert_int_equal(h.begun, 1); /* the request that is being served stays */
    end(&h, &loop);
}

/* A flood of requests that the leader resign must not push out its renewal. */
static void a_flood_of_resign_requests_replaces_only_itself(void **unused)
{
    (void)unused;
    struct hanging h;
    uv_loop_t loop;
    hang_at(&h, &loop, CV_STORE_READ);
    add(&h, 2, CV_STORE_RENEW, false);
    for (uint64_t i = 100; i < 200; i++) {
        add(&h, i, 0, /* is_resign_request= */ true);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        h.answered_count = h.answered_count > 16 ? 16 : h.answered_count;
        for (uint32_t k = 0; k < h.answered_count; k++) {
            assert_true(h.answered[k] >= 100);
        }
    }
    assert_int_equal(h.failed_count, 100 - (CV_REMOTE_WAITING_MAX - 2));
    assert_int_equal(h.remote.waiting[1].ask.request, 2);
    end(&h, &loop);
}

/* Hundreds of requests before the loop runs once: nothing from outside may trip an assertion. */
static void a_flood_in_one_turn_is_answered_as_far_as_there_is_room(void **unused)
{
    (void)unused;
    struct hanging h;
    uv_loop_t loop;
    hang_at(&h, &loop, CV_STORE_RENEW);
    for (uint64_t i = 0; i < 500; i++) {
        add(&h, 1000 + i, CV_STORE_READ, false);
    }
    add(&h, 2, CV_STORE_RELEASE, false); /* takes the place of a READ, which is answered */
    add(&h, 3, 0, /* is_resign_request= */ true);
    const uint64_t first = h.remote.replaced[CV_REMOTE_WAITING_MAX];
    const uint64_t second = h.remote.replaced[CV_REMOTE_WAITING_MAX + 1];
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(h.failed_count, CV_REMOTE_WAITING_MAX + 2);
    assert_true(first >= 1000 && second >= 1000 && first != second);
    assert_int_equal(h.remote.count, CV_REMOTE_WAITING_MAX);
    assert_int_equal(h.remote.waiting[CV_REMOTE_WAITING_MAX - 2].ask.request, 2);
    assert_int_equal(h.remote.waiting[CV_REMOTE_WAITING_MAX - 1].ask.request, 3);
    end(&h, &loop);
}

/* The notification makes the user renew, after its callers have heard of the grant. */
static void a_grant_that_is_to_be_renewed_soon_is_followed_by_a_notification(void **unused)
{
    (void)unused;
    struct hanging h;
    uv_loop_t loop;
    hang_at(&h, &loop, CV_STORE_ACQUIRE);
    h.remote.renews_soon = true;
    cv__remote_answer(&h.remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED});
    assert_int_equal(h.answered_count, 1); /* only the grant */
    assert_int_equal(h.answered[0], 1);
    while (h.answered_count < 2) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(h.answered[1], 0); /* a notification has no number */
    add(&h, 2, CV_STORE_RENEW, false);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    cv__remote_answer(&h.remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED});
    assert_int_equal(uv_is_active((const uv_handle_t *)&h.remote.soon), 0); /* once is enough */
    assert_int_equal(h.answered_count, 3);
    end(&h, &loop);
}

/* Closing drops the answers to replaced requests that were not delivered yet. */
static void nothing_is_answered_after_closing(void **unused)
{
    (void)unused;
    struct hanging h;
    uv_loop_t loop;
    hang(&h, &loop);
    for (uint64_t i = 1; i <= CV_REMOTE_WAITING_MAX + ASKED; i++) {
        add(&h, i, CV_STORE_READ, false);
    }
    end(&h, &loop);
    assert_int_equal(h.answered_count, 0);
}

/* Escaped names are read back as they were; what our code cannot have written is refused. */
static void an_escaped_name_is_read_back(void **unused)
{
    (void)unused;
    static const char *const names[] = {"job", "a b/c%", ".hidden", "n\303\244chtlich", "%"};
    char escaped[CV_REMOTE_TEXT_BYTES], name[CV_ELECTION_BYTES];
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        cv__remote_escape(names[i], escaped);
        assert_true(cv__remote_unescape(escaped, name, sizeof name));
        assert_string_equal(name, names[i]);
    }
    assert_false(cv__remote_unescape("", name, sizeof name));
    assert_false(cv__remote_unescape("a%", name, sizeof name));
    assert_false(cv__remote_unescape("a%4", name, sizeof name));
    assert_false(cv__remote_unescape("a%0A", name, sizeof name));
    assert_false(cv__remote_unescape("a%zz", name, sizeof name));
    assert_false(cv__remote_unescape("too long", name, 8));
}

/* A server's time begins at our instant 0 at the earliest, on the fastest clock that is allowed; we
 * ask later, on the slowest clock, and the core subtracts its allowance from what it is told. */
static void the_time_left_ends_before_the_server_ends_it(void **unused)
{
    (void)unused;
    const int64_t drift_ppb = 100000;
    for (int64_t sure_ns = NS_PER_S / 10; sure_ns <= 60 * NS_PER_S; sure_ns *= 3) {
        for (int64_t passed_ns = 0; passed_ns < sure_ns; passed_ns += sure_ns / 13) {
            const int64_t left_ns = cv__remote_left_ns(0, sure_ns, passed_ns);
            const int64_t own_ns = passed_ns + cv__lease_sure_ns(cv__max64(left_ns, 0), drift_ppb);
            const double rho = (double)drift_ppb / 1e9;
            if (left_ns > 0) {
                assert_true((double)own_ns / (1 - rho) <= (double)sure_ns / (1 + rho));
            }
            assert_true(left_ns >= sure_ns - passed_ns - passed_ns / 32 - 1); /* not much less */
        }
    }
    /* Asked before the time begins. */
    assert_int_equal(cv__remote_left_ns(NS_PER_S, NS_PER_S, 0), NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_left_ends_before_the_server_ends_it),
        cmocka_unit_test(a_full_queue_answers_the_requests_it_replaces),
        cmocka_unit_test(a_flood_of_resign_requests_replaces_only_itself),
        cmocka_unit_test(a_flood_in_one_turn_is_answered_as_far_as_there_is_room),
        cmocka_unit_test(a_grant_that_is_to_be_renewed_soon_is_followed_by_a_notification),
        cmocka_unit_test(nothing_is_answered_after_closing),
        cmocka_unit_test(an_escaped_name_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
