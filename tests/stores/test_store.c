/* tests/stores/test_store.c KIND - what every store promises, asked of one of them.
 *
 * KIND is sqlite (a file of its own), or postgres, pooler, etcd or zookeeper with the servers of
 * tools/with-servers. The same tests run for all, but for those that need something which a kind
 * does not have. Traps T1.. are those of docs/traps.md. */
#include "core/address.h"
#include "stores/field.h"
#include "stores/proxy.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *kind_name;
static char address[512];
static bool has_server;  /* that can be killed, and reached through a proxy */
static bool has_members; /* that elect a leader among themselves */
static bool has_news;    /* pushed, not looked for */
static int64_t lease_short_ns, lease_long_ns;

/* ---- Servers and proxies ------------------------------------------------------------------- */

/* One line to tools/with-servers; returns the number that it says, or 0. */
static int servers(const char *format, ...) CV_PRINTF(1, 2);
static int servers(const char *format, ...)
{
    const char *path = getenv("CV_TEST_SERVERS_SOCKET");
    assert_non_null(path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    char line[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    size_t length = 0;
    for (ssize_t count; (count = read(fd, line + length, sizeof line - 1 - length)) > 0;) {
        length += (size_t)count;
    }
    line[length] = '\0';
    (void)close(fd);
    int number = 0;
    if (strncmp(line, "ok", 2) != 0) {
        fail_msg("with-servers: %s", line);
    }
    (void)sscanf(line, "ok %d", &number);
    return number;
}

static const char *server_name(void)
{
    return strcmp(kind_name, "pooler") == 0 ? "postgres" : kind_name;
}

/* The address with one host only: the proxy's, in front of host number `index`. */
static struct proxy *proxy_to(struct field *field, uint32_t index, char ret_address[512])
{
    struct cv_address parts;
    assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
    char host[64];
    uint32_t port;
    assert_true(cv__address_host(&parts, index, host, sizeof host, &port));
    struct proxy *proxy = proxy_new(&field->loop, (int)port);
    (void)snprintf(ret_address, 512, "%.*s://%.*s%s127.0.0.1:%d%.*s%s%.*s", (int)parts.scheme.bytes,
                   parts.scheme.at, (int)parts.user.bytes,
                   parts.user.bytes > 0 ? parts.user.at : "", parts.user.bytes > 0 ? "@" : "",
                   proxy_port(proxy), (int)parts.path.bytes, parts.path.at,
                   parts.options.bytes > 0 ? "?" : "", (int)parts.options.bytes,
                   parts.options.bytes > 0 ? parts.options.at : "");
    return proxy;
}

/* ---- The four promises --------------------------------------------------------------------- */

static bool has_fifty_changes(void *user)
{
    const struct field *field = user;
    return field->change_count >= 50;
}

/* Exclusive and growing are the ledger's to check, at each of the changes. */
static void one_of_twenty_holds_it_through_fifty_changes(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        char node[16];
        (void)snprintf(node, sizeof node, "node-%u", (unsigned)i);
        campaign(field_join(field, node, NULL), lease_long_ns, i % 3);
    }
    run_until(field, has_fifty_changes, field, "fifty changes of the holder");
    uint32_t news_count = 0;
    for (uint32_t i = 0; i < 20; i++) {
        news_count += field->contender[i].news_count;
    }
    if (has_members) { /* [T12] those have a queue: each change wakes one, not all */
        assert_true(news_count <= 4 * field->change_count);
    }
    field_free(field);
}

/* A store with a queue knows who is next, and tells the one that resigns. */
static void assert_released(const struct cv_store_answer *answer, const struct contender *next)
{
    assert_int_equal(answer->verdict, has_members ? CV_STORE_HELD : CV_STORE_FREE);
    assert_int_equal(answer->holder, has_members ? next->label : 0);
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
    assert_released(ask(a, CV_STORE_RELEASE, 1, 0), b);
    assert_released(ask(a, CV_STORE_RELEASE, 1, 0), b); /* no error */
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
    (void)acquire(b, 1, lease_short_ns); /* the ledger sees that a's time is over */
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_short_ns);
    assert_true(answer->verdict == CV_STORE_HELD || answer->verdict == CV_STORE_FREE);
    answer = ask(a, CV_STORE_ACQUIRE, 2, lease_short_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->holder, b->label);
    field_free(field);
}

/* [T26] Configurations differ; the holder's counts. */
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
    assert_true(end_ns >= begin_ns + lease_short_ns); /* more than half of it is certain */
    assert_true(field_now_ns() - begin_ns < lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 2, 3 * lease_short_ns);
    const int64_t later_ns = b->held_until_ns;
    (void)acquire(a, 2, lease_short_ns);
    assert_true(field_now_ns() >= later_ns);
    field_free(field);
}

/* ---- News, wishes, heirs, history ---------------------------------------------------------- */

static bool has_news_now(void *user)
{
    const struct contender *c = user;
    return c->news_count > 0;
}

static void a_release_is_news_to_those_who_wait(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    if (has_news) {
        run_for(field, 50 * NS_PER_MS); /* news of the past are told */
        b->news_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, has_news_now, b, "news of the release");
        assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    } else {
        assert_true(answer->duration_ns <= NS_PER_S); /* it has to look */
        (void)ask(a, CV_STORE_RELEASE, 1, 0);
        (void)acquire(b, 1, lease_long_ns);
    }
    field_free(field);
}

static void an_observer_sees_who_holds_it(void **unused)
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
    if (has_news) {
        run_for(field, 50 * NS_PER_MS);
        b->news_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, has_news_now, b, "news for an observer");
    } else {
        (void)ask(a, CV_STORE_RELEASE, 1, 0);
    }
    answer = ask(b, CV_STORE_READ, 0, 0);
    assert_int_equal(answer->verdict, CV_STORE_FREE);
    assert_string_equal(answer->record->node, "");
    field_free(field);
}

static void a_wish_reaches_the_holder_and_ends_with_it(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    assert_int_equal(wish(b, "b")->verdict, CV_STORE_FREE);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    run_for(field, 50 * NS_PER_MS);
    a->news_count = 0;
    assert_int_equal(wish(b, "b")->verdict, CV_STORE_HELD);
    if (has_news) {
        run_until(field, has_news_now, a, "news of the wish");
    }
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_string_equal(answer->record->resign_request, "b");
    assert_int_equal(wish(b, NULL)->verdict, CV_STORE_HELD);
    answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_string_equal(answer->record->resign_request, "*");
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    answer = ask(b, CV_STORE_RENEW, 1, lease_long_ns);
    assert_string_equal(answer->record->resign_request, "");
    field_free(field);
}

static void an_heir_comes_before_those_who_wait_longer(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *c = field_join(field, "c", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_released(await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c")), c);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns); /* with a larger token: the ledger looks */
    /* An heir that is not there holds nobody up for long. */
    (void)await(b, ask_now(b, CV_STORE_RELEASE, 1, 0, "nobody"));
    (void)acquire(a, 2, lease_long_ns);
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
    (void)acquire(a, 2, lease_long_ns); /* b lets it run out */
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
                     CV_STORE_GRANTED); /* the token counts, not who asks */
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, mine.text);
    assert_true(seen.version != 0);

    /* A copy of that write, or one that knows an older text, changes nothing. */
    text_of_runs(&mine, "late", 0);
    assert_int_equal(ask_runs(a, &mine), CV_STORE_CHANGED);
    mine.version = seen.version;
    text_of_runs(&mine, "long", CV_STORE_RUNS_BYTES - 1);
    assert_int_equal(ask_runs(a, &mine), CV_STORE_GRANTED);
    assert_int_equal(ask_runs(reader, &seen), CV_STORE_GRANTED);
    assert_string_equal(seen.text, mine.text);

    /* Nor does the token of a leadership that is over, nor one that never was. */
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

static void a_store_can_be_closed_in_the_middle(void **unused)
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
        field_free(field); /* nothing comes afterwards: the sanitizers would see it */
    }
}

/* ---- Networks and servers that misbehave --------------------------------------------------- */

static bool has_swallowed(void *user)
{
    return proxy_swallowed(user) > 0;
}

/* [T11] The server does it, and the answer is lost. */
static void a_lost_answer_leaves_nothing_behind(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *b = field_join(field, "b", NULL);
    (void)ask(a, CV_STORE_READ, 0, 0); /* connected */
    for (uint64_t attempt = 1; attempt <= 3; attempt++) {
        const uint64_t swallowed = proxy_swallowed(proxy);
        proxy_swallow_answers(proxy, true);
        const uint64_t lost = ask_now(a, CV_STORE_ACQUIRE, attempt, lease_long_ns, NULL);
        if (swallowed == 0) {
            run_until(field, has_swallowed, proxy, "an answer to swallow");
        } else {
            run_for(field, 50 * NS_PER_MS);
        }
        proxy_cut(proxy);
        proxy_swallow_answers(proxy, false);
        const enum cv_store_verdict verdict = await(a, lost)->verdict;
        assert_true(verdict == CV_STORE_FAILED || verdict == CV_STORE_GRANTED);
        const uint64_t token = acquire(a, attempt, lease_long_ns)->token;
        const struct cv_store_answer *answer = ask(b, CV_STORE_READ, 0, 0);
        assert_int_equal(answer->verdict, CV_STORE_HELD);
        assert_int_equal(answer->token, token);
        assert_int_equal(ask(a, CV_STORE_RELEASE, attempt, 0)->verdict, CV_STORE_FREE);
        assert_int_equal(ask(b, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    }
    proxy_free(proxy);
    field_free(field);
}

/* [T3] A slow answer does not make the lease longer. */
static void a_late_answer_counts_from_the_asking(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, 2 * lease_short_ns);
    proxy_delay_answers(proxy, 200);
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, 2 * lease_short_ns);
    if (answer->verdict == CV_STORE_GRANTED) { /* a busy machine may lose it meanwhile */
        assert_true(answer->duration_ns <= 2 * lease_short_ns + field->kind->lease_ns_step);
    }
    (void)acquire(b, 1, lease_short_ns); /* not before a's time is over: the ledger looks */
    proxy_free(proxy);
    field_free(field);
}

static bool is_granted(void *user)
{
    const struct contender *c = user;
    return c->held_until_ns > 0;
}

/* Answers take 100 ms, and so does a round trip. From the asking of the release to the grant. */
static void a_hand_over_takes_less_than_three_round_trips(void **unused)
{
    (void)unused;
    const int64_t trip_ns = 100 * NS_PER_MS;
    int64_t best_ns = INT64_MAX;
    for (uint32_t i = 0; i < 5 && best_ns >= 3 * trip_ns;
         i++) { /* a busy machine has its moments */
        struct field *field = field_new(address, NULL);
        char by_proxy[512];
        struct proxy *proxy = proxy_to(field, 0, by_proxy);
        struct contender *a = field_join(field, "a", by_proxy);
        struct contender *b = field_join(field, "b", by_proxy);
        (void)acquire(a, 1, lease_long_ns);
        assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
        run_for(field, 50 * NS_PER_MS);
        proxy_delay_answers(proxy, (uint64_t)(trip_ns / NS_PER_MS));
        b->news_count = 0;
        const int64_t begin_ns = field_now_ns();
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, has_news_now, b, "news of the release");
        (void)ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
        run_until(field, is_granted, b, "the grant");
        best_ns = cv__min64(best_ns, field_now_ns() - begin_ns);
        proxy_free(proxy);
        field_free(field);
    }
    print_message("# %s: a hand-over takes %.2f round trips\n", kind_name,
                  (double)best_ns / (double)trip_ns);
    assert_true(best_ns < 3 * trip_ns);
}

/* [T10] The connection drops, for less than the lease. */
static void a_dropped_connection_is_survived(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    for (uint32_t i = 0; i < 3; i++) {
        proxy_cut(proxy);
        const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
        assert_int_equal(answer->verdict, CV_STORE_GRANTED);
        assert_int_equal(answer->token, token);
    }
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_int_equal(ask_once(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_FAILED);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    proxy_refuse(proxy, false);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    proxy_free(proxy);
    field_free(field);
}

/* Those who are cut off lose it in time, and come back without harm. */
static void one_that_is_cut_off_loses_it(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_short_ns);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    (void)acquire(b, 1, lease_long_ns);
    proxy_refuse(proxy, false);
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_short_ns);
    assert_true(answer->verdict == CV_STORE_HELD || answer->verdict == CV_STORE_FREE);
    answer = ask(a, CV_STORE_ACQUIRE, 2, lease_short_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    (void)acquire(a, 2, lease_long_ns); /* not on what the first attempt left behind [T9] */
    proxy_free(proxy);
    field_free(field);
}

static bool changed_since(void *user)
{
    const struct field *field = user;
    return field->change_count >= 5;
}

static void crowd_under(const char *fault)
{
    struct field *field = field_new(address, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        char node[16];
        (void)snprintf(node, sizeof node, "node-%u", (unsigned)i);
        campaign(field_join(field, node, NULL), lease_short_ns * (1 + i % 2), i % 3);
    }
    run_until(field, changed_since, field, "five changes before");
    for (uint32_t round = 0; round < 2; round++) {
        field->change_count = 0;
        if (strcmp(fault, "leader") == 0) {
            const int number = servers("%s kill-leader", server_name());
            run_until(field, changed_since, field, "five changes with two of three");
            servers("%s start %d", server_name(), number);
        } else if (strcmp(fault, "all") == 0) {
            for (int i = 1; i <= (has_members ? 3 : 1); i++) {
                servers("%s kill %d", server_name(), i);
            }
            run_for(field, 100 * NS_PER_MS);
            if (has_members) {
                char line[64]; /* a member alone serves nobody: do not wait for it */
                for (int i = 1; i <= 3; i++) {
                    (void)snprintf(line, sizeof line, "%s %s %d", server_name(),
                                   i < 3 ? "launch" : "start", i);
                    servers("%s", line);
                }
            } else {
                servers("%s start 1", server_name());
            }
        } else {
            servers("%s freeze %d", server_name(), 1);
            run_until(field, changed_since, field, "five changes with one frozen");
            servers("%s thaw %d", server_name(), 1);
        }
        field->change_count = 0;
        run_until(field, changed_since, field, "five changes afterwards");
    }
    field_free(field);
}

static void the_servers_may_be_killed_and_come_back(void **unused)
{
    (void)unused;
    crowd_under("all");
}

static void the_leader_of_the_servers_may_be_killed(void **unused)
{
    (void)unused;
    crowd_under("leader");
}

static void a_frozen_member_holds_nobody_up(void **unused)
{
    (void)unused;
    crowd_under("frozen");
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

/* The connection is one; what happens to one election says nothing of the others. */
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
    (void)acquire(b, 1, lease_long_ns); /* another length */
    assert_int_equal(ask(more[1], CV_STORE_RENEW, 1, lease_short_ns * 2)->verdict,
                     CV_STORE_GRANTED);
    assert_int_equal(ask(more[0], CV_STORE_ACQUIRE, 2, lease_short_ns * 2)->verdict, CV_STORE_HELD);
    field_free(field);
}

/* Renews those on the list while the rival asks for its election, until it is granted. */
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

/* [traps.md T6] One election is not renewed, or its store is closed: that one is lost, at the time
 * that was told and not before, although the others keep the connection alive. The ledger looks. */
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

/* Two contenders of the same election beside each other: two contenders, not one. */
static void the_same_election_twice_on_one_loop_has_one_holder(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join_beside(a, "b", NULL, NULL);
    /* Both ask in the same turn of the loop, what is sent together for other elections. */
    const uint64_t asked = ask_now(a, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    const uint64_t asked_b = ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    (void)await(a, asked); /* the ledger looks */
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

/* What is cut off is cut off for all, and all come back. */
static void a_lost_connection_is_lost_for_all(void **unused)
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
    proxy_cut(proxy); /* for a moment: nobody loses anything */
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

/* ---- PostgreSQL only ----------------------------------------------------------------------- */

static void psql(const char *format, ...) CV_PRINTF(1, 2);
static void psql(const char *format, ...)
{
    char command[512];
    int length = snprintf(command, sizeof command,
                          "PGOPTIONS=--client-min-messages=warning psql -XAtq -v ON_ERROR_STOP=1"
                          " \"$CV_TEST_POSTGRES_ADMIN\" >/dev/null -c \"");
    va_list args;
    va_start(args, format);
    length += vsnprintf(command + length, sizeof command - (size_t)length, format, args);
    va_end(args);
    (void)snprintf(command + length, sizeof command - (size_t)length, "\"");
    assert_int_equal(system(command), 0);
}

/* [T29] Nothing depends on the session. */
static void sessions_may_be_terminated(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'conclave'");
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_int_equal(answer->token, token);
    if (has_news) { /* also on the new connection */
        run_for(field, 50 * NS_PER_MS);
        b->news_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, has_news_now, b, "news on the new connection");
    }
    field_free(field);
}

static void a_deleted_row_does_not_reset_the_token(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    for (uint64_t attempt = 1; attempt <= 3; attempt++) {
        (void)acquire(a, attempt, lease_long_ns); /* the ledger compares */
        (void)ask(a, CV_STORE_RELEASE, attempt, 0);
        psql("DELETE FROM conclave_lease WHERE election = '%s'", field->election);
    }
    field_free(field);
}

/* A role that may create in a schema of our search path must not get our statements to run what it
 * has made: here, an operator that fits the types of ours better than the built-in one. */
static void planted_operators_are_not_used(void **unused)
{
    (void)unused;
    static const char *const type[] = {"int4", "int8"};
    for (uint32_t i = 0; i < COUNT_OF(type); i++) {
        psql("CREATE FUNCTION public.planted(%s, interval) RETURNS interval LANGUAGE plpgsql"
             " AS 'BEGIN RAISE EXCEPTION ''a planted operator was used''; END'",
             type[i]);
        psql("CREATE OPERATOR public.* (LEFTARG = %s, RIGHTARG = interval,"
             " FUNCTION = public.planted)",
             type[i]);
    }
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    const enum cv_store_verdict granted = ask_once(a, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict;
    const enum cv_store_verdict renewed = ask_once(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict;
    const enum cv_store_verdict released = ask_once(a, CV_STORE_RELEASE, 1, 0)->verdict;
    field_free(field);
    for (uint32_t i = 0; i < COUNT_OF(type); i++) {
        psql("DROP FUNCTION public.planted(%s, interval) CASCADE", type[i]);
    }
    assert_int_equal(granted, CV_STORE_GRANTED);
    assert_int_equal(renewed, CV_STORE_GRANTED);
    assert_int_equal(released, CV_STORE_FREE);
}

/* Tables that a stranger has made first could run its triggers as every contender. */
static void tables_of_a_stranger_are_refused(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    psql("ALTER TABLE conclave_history OWNER TO nobody_special");
    const int code = cv__store_find(address)->create(address, &err);
    psql("ALTER TABLE conclave_history OWNER TO conclave");
    assert_int_equal(code, CV_E_STORE);
    assert_non_null(strstr(err.text, "belongs to 'nobody_special'"));
    assert_int_equal(cv__store_find(address)->create(address, &err), CV_OK);
}

/* The port of a server that accepts connections and says nothing. */
static int hanging_port(int *ret_fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*ret_fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*ret_fd, 16), 0);
    assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&at, &length), 0);
    return ntohs(at.sin_port);
}

static void a_host_that_hangs_is_passed(void **unused)
{
    (void)unused;
    struct cv_address parts;
    assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
    char host[64], at[512];
    uint32_t port;
    assert_true(cv__address_host(&parts, 0, host, sizeof host, &port));
    int hanging;
    const int hanging_at = hanging_port(&hanging);
    (void)snprintf(at, sizeof at, "postgres://%.*s@127.0.0.1:%d,127.0.0.1:%u%.*s",
                   (int)parts.user.bytes, parts.user.at, hanging_at, (unsigned)port,
                   (int)parts.path.bytes, parts.path.at);
    const int64_t begin_ns = field_now_ns();
    struct field *field = field_new(at, NULL);
    struct contender *a = field_join(field, "a", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_true(field_now_ns() - begin_ns < 6 * NS_PER_S);
    field_free(field);
    (void)close(hanging);
}

/* A server that is out of order for a moment, while we connect, is missed for not much longer. */
static void a_server_that_hung_is_soon_used_again(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    (void)acquire(a, 1, lease_long_ns);
    proxy_swallow_answers(proxy, true);
    proxy_cut(proxy);
    (void)ask_once(a, CV_STORE_RENEW, 1, lease_long_ns); /* fails: there is no connection */
    proxy_swallow_answers(proxy, false);
    const int64_t begin_ns = field_now_ns();
    (void)acquire(a, 1, lease_long_ns);
    assert_true(field_now_ns() - begin_ns < 5 * NS_PER_S);
    proxy_free(proxy);
    field_free(field);
}

/* ---- Credentials --------------------------------------------------------------------------- */

static void shell(const char *command)
{
    const int status = system(command);
    if (status != 0) {
        fail_msg("status %d of: %s", status, command);
    }
}

/* The address with something inserted behind the slashes, and something at its end. */
static void address_with(const char *user, const char *options, char ret_address[512])
{
    const char *hosts = strstr(address, "//") + 2;
    (void)snprintf(ret_address, 512, "%.*s%s%s%s", (int)(hosts - address), address, user, hosts,
                   options);
}

static void assert_works(const char *at)
{
    struct field *field = field_new(at, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(wish(b, "b")->verdict, CV_STORE_HELD);
    assert_int_equal(ask(b, CV_STORE_READ, 0, 0)->verdict, CV_STORE_HELD);
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "b"));
    (void)acquire(b, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    field_free(field);
}

static void assert_fails(const char *at, const char *says)
{
    struct field *field = field_new(at, NULL);
    struct contender *c = field_join(field, "a", NULL);
    const struct cv_store_answer *answer = ask_once(c, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_FAILED);
    if (strstr(answer->why, says) == NULL) {
        fail_msg("'%s' failed with: %s", at, answer->why);
    }
    field_free(field);
}

static void write_secret(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", text) > 0);
    assert_int_equal(fclose(file), 0);
}

static void etcd_users_need_their_password(void **unused)
{
    (void)unused;
    char at[512];
    shell("exec >/dev/null 2>&1; export ETCDCTL_API=3; e() { etcdctl --endpoints"
          " \"${CV_TEST_ETCD#etcd://}\" \"$@\"; };"
          "e user add root:top && e user grant-role root root && e user add app:secret &&"
          "e role add elect && e role grant-permission elect --prefix=true readwrite apps/ &&"
          "e role grant-permission elect --prefix=true readwrite apps.wish/ &&"
          "e user grant-role app elect && e auth enable");
    char secret[] = "/tmp/conclave-test-XXXXXX";
    assert_true(close(mkstemp(secret)) == 0);
    char options[128];
    (void)snprintf(options, sizeof options, "/apps?password-file=%s", secret);
    address_with("app@", options, at);
    write_secret(secret, "secret");
    assert_works(at);
    write_secret(secret, "wrong");
    assert_fails(at, "authentication failed");
    (void)unlink(secret);
    (void)setenv("CONCLAVE_ETCD_PASSWORD", "secret", 1);
    address_with("app@", "/apps", at);
    assert_works(at);
    struct field *field = field_new(at, NULL); /* told once for each connection */
    struct contender *a = field_join(field, "a", NULL);
    assert_int_equal(a->log_count, 1);
    assert_non_null(strstr(a->logged, "'app' is sent without TLS"));
    assert_int_equal(field_join_beside(a, "b", NULL, NULL)->log_count, 0);
    field_free(field);
    address_with("app@", "/others", at);
    assert_fails(at, "permission denied");
    (void)unsetenv("CONCLAVE_ETCD_PASSWORD");
    assert_fails(address, "user name is empty");
    shell("exec >/dev/null 2>&1; ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\""
          " --user root:top auth disable");
    /* What is refused is refused by all members alike: they have the same data. */
    shell("for i in $(seq 100); do ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\""
          " endpoint hashkv | cut -d, -f2 | sort -u | wc -l | grep -qx 1 && exit 0;"
          " sleep 0.05; done; exit 1"); /* one of them may be a moment behind */
}

static void etcd_is_reached_by_certificates(void **unused)
{
    (void)unused;
    const char *at = getenv("CV_TEST_ETCD_TLS");
    assert_non_null(at);
    assert_works(at);
    char bare[512];
    (void)snprintf(bare, sizeof bare, "%.*s?tls=yes", (int)strcspn(at, "?"), at);
    assert_fails(bare, "certificate"); /* of an authority that the system does not know */
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(at, "&"), at);
    assert_fails(bare, "etcd 127.0.0.1"); /* we have none to show */
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(at, "?"), at);
    assert_fails(bare, "etcd 127.0.0.1"); /* not even TLS */
}

static void zookeeper_nodes_belong_to_their_maker(void **unused)
{
    (void)unused;
    char at[512];
    char secret[] = "/tmp/conclave-test-XXXXXX";
    assert_true(close(mkstemp(secret)) == 0);
    write_secret(secret, "app:secret");
    char options[128];
    (void)snprintf(options, sizeof options, "/apps?auth-file=%s", secret);
    address_with("", options, at);
    assert_works(at);
    (void)unlink(secret);
    (void)setenv("CONCLAVE_ZOOKEEPER_AUTH", "app:secret", 1);
    address_with("", "/apps", at);
    assert_works(at);
    (void)setenv("CONCLAVE_ZOOKEEPER_AUTH", "app:wrong", 1);
    assert_fails(at, "no permission");
    (void)unsetenv("CONCLAVE_ZOOKEEPER_AUTH");
    assert_fails(at, "no permission");
}

/* ---- Servers that are not to be trusted ----------------------------------------------------- */

/* A server that promises more than was asked for does not make anybody lead longer. */
static void a_lease_is_never_longer_than_asked(void **unused)
{
    (void)unused;
    const bool is_etcd = strcmp(kind_name, "etcd") == 0;
    const int64_t lease_ns = lease_long_ns; /* 10 s, and 5 s as ZooKeeper counts in milliseconds */
    static const char asked_ms[] = "\x00\x00\x13\x88", said_ms[] = "\x0a\x4c\xb8\x00";
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    if (is_etcd) {
        proxy_rewrite_answers(proxy, "\"TTL\":\"10\"", "\"TTL\":\"99\"", strlen("\"TTL\":\"10\""));
    } else {
        proxy_rewrite_answers(proxy, asked_ms, said_ms, 4);
    }
    struct contender *a = field_join(field, "a", by_proxy);
    assert_true(acquire(a, 1, lease_ns)->duration_ns <= lease_ns);
    for (uint32_t i = 0; i < 3; i++) {
        const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_ns);
        assert_int_equal(answer->verdict, CV_STORE_GRANTED);
        assert_true(answer->duration_ns <= lease_ns);
    }
    assert_true(proxy_rewritten(proxy) > 0);
    proxy_free(proxy);
    field_free(field);
}

/* What others keep below the prefix holds no election, whatever it looks like. */
static void foreign_keys_hold_nothing(void **unused)
{
    (void)unused;
    char command[1024];
    struct field *field = field_new(address, "foreign keys");
    (void)snprintf(command, sizeof command,
                   "exec >/dev/null; export ETCDCTL_API=3; e() { etcdctl --endpoints"
                   " \"${CV_TEST_ETCD#etcd://}\" \"$@\"; }; q=conclave/foreign%%20keys/;"
                   "long=$(head -c 60000 /dev/zero | tr '\\0' x);"
                   "e put $q$long x && e put ${q}zzz $long && e put ${q}0123456789abcdef-1 x");
    shell(command);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *c = field_join(field, "c", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->token, token);
    assert_string_equal(answer->record->node, "a");
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    answer = ask(field_join(field, "observer", NULL), CV_STORE_READ, 0, 0);
    assert_string_equal(answer->record->node, "a");
    assert_int_equal(wish(b, "c")->verdict, CV_STORE_HELD);
    answer = ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_string_equal(answer->record->resign_request, "c");
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c"));
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    assert_int_equal(ask(a, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    shell("ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\" get --prefix --keys-only"
          " conclave/foreign%20keys/ | grep -c . | grep -qx 3");
    field_free(field);
}

/* ---- Bad addresses ------------------------------------------------------------------------- */

struct bad {
    const char *address;
    const char *says;        /* a part of the line */
    bool is_refused_at_open; /* or the first request fails */
};

static void assert_bad(const struct bad *bad)
{
    const struct cv_store_kind *kind = cv__store_find(bad->address);
    assert_non_null(kind);
    struct field *field = field_new(bad->address, NULL);
    if (!bad->is_refused_at_open) {
        struct contender *c = field_join(field, "a", NULL);
        const struct cv_store_answer *answer = ask_once(c, CV_STORE_ACQUIRE, 1, lease_long_ns);
        assert_int_equal(answer->verdict, CV_STORE_FAILED);
        if (strstr(answer->why, bad->says) == NULL) {
            fail_msg("'%s' failed with: %s", bad->address, answer->why);
        }
        field_free(field);
        return;
    }
    struct cv_shared_list shared = {0};
    const struct cv_store_setting setting = {.loop = &field->loop,
                                             .shared = &shared,
                                             .address = bad->address,
                                             .election = "x",
                                             .node = "a",
                                             .label = 1};
    struct cv_store *store;
    struct cv_errtext err;
    if (kind->open(&store, &setting, &err) == CV_OK) {
        fail_msg("'%s' was opened", bad->address);
    }
    if (strstr(err.text, bad->says) == NULL || strchr(err.text, '\n') != NULL) {
        fail_msg("'%s' was refused with: %s", bad->address, err.text);
    }
    field_free(field);
}

static void bad_addresses_are_told_in_one_line(void **unused)
{
    (void)unused;
    if (strcmp(kind_name, "postgres") == 0) {
        struct cv_address parts;
        char host[64], refused[128], wrong[128], missing[128], forbidden[128];
        uint32_t port;
        assert_int_equal(cv__address_split(address, &parts, NULL), CV_OK);
        assert_true(cv__address_host(&parts, 0, host, sizeof host, &port));
        (void)snprintf(refused, sizeof refused, "postgres://a@127.0.0.1:1/x");
        (void)snprintf(wrong, sizeof wrong, "postgres://conclave:no@127.0.0.1:%u/conclave",
                       (unsigned)port);
        (void)snprintf(missing, sizeof missing, "postgres://postgres@127.0.0.1:%u/postgres",
                       (unsigned)port);
        (void)snprintf(forbidden, sizeof forbidden,
                       "postgres://nobody_special:secret@127.0.0.1:%u/conclave", (unsigned)port);
        const struct bad bad[] = {
            {"postgres://h/x?nonsense=1", "nonsense", true},
            {refused, "Connection refused", false},
            {wrong, "password authentication failed", false},
            {missing, "conclave store init", false},
            {forbidden, "permission denied", false},
        };
        for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
            assert_bad(&bad[i]);
        }
        struct cv_errtext err;
        assert_int_equal(cv__store_find(wrong)->create(wrong, &err), CV_E_STORE);
        assert_non_null(strstr(err.text, "password authentication failed"));
        assert_int_equal(cv__store_find(missing)->history(missing, "x", on_past, NULL, &err),
                         CV_E_STORE);
        assert_non_null(strstr(err.text, "conclave store init"));
    } else if (strcmp(kind_name, "etcd") == 0) {
        static const struct bad bad[] = {
            {"etcd:", "etcd://host:port", true},
            {"etcd://", "etcd://host:port", true},
            {"etcd://h:0", "host", true},
            {"etcd://h?nonsense=1", "option 'nonsense'", true},
            {"etcd://h?cacert=/nowhere/ca.pem", "/nowhere/ca.pem", true},
            {"etcd://u:p@h", "password", true},
            {"etcd://u@h", "CONCLAVE_ETCD_PASSWORD", true},
            {"etcd://u@h?password-file=/nowhere/p", "/nowhere/p", true},
            {"etcd://127.0.0.1:1", "127.0.0.1:1", false},
        };
        for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
            assert_bad(&bad[i]);
        }
    } else if (strcmp(kind_name, "zookeeper") == 0) {
        static const struct bad bad[] = {
            {"zookeeper:", "zookeeper://host:port", true},
            {"zookeeper://h:x/p", "host", true},
            {"zookeeper://h/a//b", "path", true},
            {"zookeeper://h?nonsense=1", "option 'nonsense'", true},
            {"zookeeper://h?tls=yes", "TLS", true},
            {"zookeeper://h?auth-file=/nowhere/p", "/nowhere/p", true},
            {"zookeeper://127.0.0.1:1/p", "127.0.0.1:1", false},
        };
        for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
            assert_bad(&bad[i]);
        }
    }
}

/* ---- Which, and where ---------------------------------------------------------------------- */

static bool has_history(void)
{
    const struct cv_store_kind *kind = cv__store_find(address);
    return kind != NULL && kind->history != NULL;
}

static char folder[] = "/tmp/conclave-test-XXXXXX";

static int set_up(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    const struct cv_store_kind *kind = cv__store_find(address);
    assert_non_null(kind);
    if (kind->create != NULL && kind->create(address, &err) != CV_OK) {
        fail_msg("%s", err.text);
    }
    return 0;
}

static int clean_up(void **unused)
{
    (void)unused;
    if (strcmp(kind_name, "sqlite") == 0) {
        char command[64];
        (void)snprintf(command, sizeof command, "rm -r %s", folder);
        return system(command);
    }
    return 0;
}

static bool choose(const char *kind)
{
    static const struct {
        const char *kind, *variable;
        bool has_server, has_members, has_news;
        int64_t lease_short_ns, lease_long_ns;
    } known[] = {
        {"sqlite", "", false, false, true, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"postgres", "CV_TEST_POSTGRES", true, false, true, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"pooler", "CV_TEST_POOLER", true, false, false, 500 * NS_PER_MS, 10 * NS_PER_S},
        {"etcd", "CV_TEST_ETCD", true, true, true, NS_PER_S, 10 * NS_PER_S},
        {"zookeeper", "CV_TEST_ZOOKEEPER", true, true, true, NS_PER_S, 5 * NS_PER_S},
    };
    for (uint32_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i].kind, kind) == 0) {
            kind_name = known[i].kind;
            has_server = known[i].has_server;
            has_members = known[i].has_members;
            has_news = known[i].has_news;
            lease_short_ns = known[i].lease_short_ns;
            lease_long_ns = known[i].lease_long_ns;
            const char *value = getenv(known[i].variable);
            if (!has_server) {
                const bool is_made = mkdtemp(folder) != NULL;
                CV_ASSERT(is_made);
                (void)snprintf(address, sizeof address, "sqlite:%s/e.db", folder);
            } else if (value != NULL) {
                (void)snprintf(address, sizeof address, "%s", value);
            }
            return address[0] != '\0';
        }
    }
    return false;
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
    const struct {
        bool is_wanted;
        struct CMUnitTest test;
    } all[] = {
        {true, cmocka_unit_test(the_same_attempt_again_is_the_same_grant)},
        {true, cmocka_unit_test(a_renewal_after_the_loss_is_refused)},
        {true, cmocka_unit_test(the_holders_lease_governs)},
        {true, cmocka_unit_test(a_release_is_news_to_those_who_wait)},
        {true, cmocka_unit_test(an_observer_sees_who_holds_it)},
        {true, cmocka_unit_test(a_wish_reaches_the_holder_and_ends_with_it)},
        {true, cmocka_unit_test(an_heir_comes_before_those_who_wait_longer)},
        {has_history(), cmocka_unit_test(the_history_says_who_led_and_why_it_ended)},
        {true, cmocka_unit_test(only_the_holder_writes_about_runs)},
        {true, cmocka_unit_test(names_may_be_odd)},
        {true, cmocka_unit_test(a_store_can_be_closed_in_the_middle)},
        {true, cmocka_unit_test(one_of_twenty_holds_it_through_fifty_changes)},
        {has_server, cmocka_unit_test(a_lost_answer_leaves_nothing_behind)},
        {has_server, cmocka_unit_test(a_late_answer_counts_from_the_asking)},
        {has_server && has_news, cmocka_unit_test(a_hand_over_takes_less_than_three_round_trips)},
        {has_server, cmocka_unit_test(a_dropped_connection_is_survived)},
        {has_server, cmocka_unit_test(one_that_is_cut_off_loses_it)},
        {true, cmocka_unit_test(elections_of_one_loop_share_a_connection)},
        {true, cmocka_unit_test(one_election_ends_while_others_go_on)},
        {true, cmocka_unit_test(the_same_election_twice_on_one_loop_has_one_holder)},
        {has_server, cmocka_unit_test(a_lost_connection_is_lost_for_all)},
        {is_sql, cmocka_unit_test(sessions_may_be_terminated)},
        {is_sql, cmocka_unit_test(a_deleted_row_does_not_reset_the_token)},
        {is_sql, cmocka_unit_test(planted_operators_are_not_used)},
        {is_sql, cmocka_unit_test(tables_of_a_stranger_are_refused)},
        {is_sql, cmocka_unit_test(a_host_that_hangs_is_passed)},
        {is_sql, cmocka_unit_test(a_server_that_hung_is_soon_used_again)},
        {is_etcd, cmocka_unit_test(etcd_users_need_their_password)},
        {is_etcd, cmocka_unit_test(etcd_is_reached_by_certificates)},
        {is_etcd, cmocka_unit_test(foreign_keys_hold_nothing)},
        {is_etcd || is_zookeeper, cmocka_unit_test(a_lease_is_never_longer_than_asked)},
        {is_zookeeper, cmocka_unit_test(zookeeper_nodes_belong_to_their_maker)},
        {has_server && has_news, cmocka_unit_test(bad_addresses_are_told_in_one_line)},
        {has_server, cmocka_unit_test(the_servers_may_be_killed_and_come_back)},
        {has_members, cmocka_unit_test(the_leader_of_the_servers_may_be_killed)},
        {has_members, cmocka_unit_test(a_frozen_member_holds_nobody_up)},
    };
    struct CMUnitTest tests[COUNT_OF(all)];
    size_t count = 0;
    for (uint32_t i = 0; i < COUNT_OF(all); i++) {
        if (all[i].is_wanted) {
            tests[count++] = all[i].test;
        }
    }
    if (getenv("CV_TEST_ONLY") != NULL) {
        cmocka_set_test_filter(getenv("CV_TEST_ONLY")); /* a pattern, while looking for a fault */
    }
    return _cmocka_run_group_tests(kind_name, tests, count, set_up, clean_up);
}
