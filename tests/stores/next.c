/* tests/stores/next.c - PostgreSQL: RELEASE gives the row to the next contender (pg_next.h). Each
 * test attacks one protection; tests/unprotected removes these protections one by one. Part of
 * test_store. */
#include "stores/test_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A column of the row, or the activity of the session that is registered in it. */
static void row_text(const struct contender *c, const char *what, char ret_line[64])
{
    char command[1024];
    (void)snprintf(command, sizeof command,
                   "psql -XAtq \"$CV_TEST_POSTGRES_ADMIN\" -c \"SELECT %s FROM conclave_lease"
                   " LEFT JOIN pg_stat_activity ON pid = next_pid WHERE election = '%s'\"",
                   what, c->election);
    FILE *output = popen(command, "re");
    assert_non_null(output);
    assert_non_null(fgets(ret_line, 64, output));
    assert_int_equal(pclose(output), 0);
    ret_line[strcspn(ret_line, "\n")] = '\0';
}

static int64_t row_number(const struct contender *c, const char *what)
{
    char line[64];
    row_text(c, what, line);
    return strtoll(line, NULL, 10);
}

/* a holds the row, and b has asked in vain: b is next. Returns a's token. */
static uint64_t get_ready(struct contender *a, struct contender *b, int64_t lease_ns)
{
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(row_number(b, "next_label"), (int64_t)b->label);
    b->notification_count = 0;
    return token;
}

/* A new field in this state. */
static struct field *field_ready(struct contender **ret_a, struct contender **ret_b,
                                 int64_t lease_ns)
{
    struct field *field = field_new(address, NULL);
    *ret_a = field_join(field, "a", NULL);
    *ret_b = field_join(field, "b", NULL);
    (void)get_ready(*ret_a, *ret_b, lease_ns);
    return field;
}

/* b was given the row, and takes it. */
static void take_row(struct contender *b)
{
    (void)ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    run_until(b->field, is_held, b, "the grant");
}

/* The store chooses the channel's name; the session of a waiting contender begins with it. */
static void read_channel(const struct contender *b, char ret_channel[64])
{
    row_text(b, "substr(application_name, 1, 25)", ret_channel);
}

static void forge(const char *channel, int64_t secret, uint64_t token)
{
    psql("SELECT pg_notify('%s', 'given %" PRId64 " %" PRIu64 "')", channel, secret, token);
}

struct seen_past {
    char node[4][CV_NODE_BYTES], why[4][32];
    uint32_t count;
};

static void on_past(void *user, const struct cv_store_past *past)
{
    struct seen_past *seen = user;
    assert_true(seen->count < COUNT_OF(seen->node));
    (void)snprintf(seen->node[seen->count], sizeof seen->node[0], "%s", past->node);
    (void)snprintf(seen->why[seen->count++], sizeof seen->why[0], "%s", past->why);
}

/* It holds the row when it hears of the release, and asks nothing. The history has both
 * leaderships. */
void the_next_one_is_given_the_row(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    const uint64_t token = get_ready(a, b, lease_long_ns);
    const uint64_t before = proxy_asked(proxy);
    const struct cv_store_answer *answer = ask(a, CV_STORE_RELEASE, 1, 0);
    assert_int_equal(answer->verdict, CV_STORE_HELD); /* a is told its successor */
    assert_int_equal(answer->holder, b->label);
    run_until(field, is_notified, b, "a notification of the release");
    take_row(b);
    assert_int_equal(proxy_asked(proxy), before);
    assert_true(b->held_token > token);
    assert_int_equal(b->held_token, row_number(b, "token"));
    answer = ask(b, CV_STORE_RENEW, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    assert_int_equal(answer->duration_ns, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    struct seen_past seen = {.count = 0};
    struct cv_errtext err;
    assert_int_equal(field->kind->history(address, field->election, on_past, &seen, &err), CV_OK);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.node[0], "a");
    assert_string_equal(seen.node[1], "b");
    assert_string_equal(seen.why[0], "resigned");
    assert_string_equal(seen.why[1], "resigned");
    proxy_free(proxy);
    field_free(field);
}

/* The registration is some time old when the row is given: the grant counts from it, and ends
 * before the server's own end. */
void a_given_row_counts_from_the_registration(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    run_for(field, lease_long_ns / 5);
    b->notification_count = 0;
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    run_until(field, is_notified, b, "a notification of the release");
    take_row(b);
    const int64_t left_ns = b->held_until_ns - field_now_ns();
    const int64_t left_us =
        row_number(b, "(extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint");
    /* Minus the time that psql took. */
    const int64_t asking_ns = b->held_until_ns - left_ns - field_now_ns();
    print_message("# %.3f s left of the grant, %.3f of the row\n", (double)left_ns / 1e9,
                  (double)left_us / 1e6);
    assert_true(left_us * NS_PER_US >= left_ns + asking_ns);
    assert_true(left_ns < lease_long_ns - lease_long_ns / 5);
    field_free(field);
}

static bool has_no_session(void *contender)
{
    return row_number(contender, "count(pid)") == 0;
}

void a_dead_contender_is_not_given_the_row(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    field_close(b); /* closing does not release */
    run_until(field, has_no_session, b, "the end of the session");
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    (void)acquire(field_join(field, "c", NULL), 1, lease_long_ns);
    field_free(field);
}

void a_contender_that_registered_long_ago_is_not_next(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, 2 * lease_short_ns);
    struct contender *c = field_join(field, "c", NULL);
    run_for(field, lease_short_ns + 10 * NS_PER_MS); /* it was told to ask again, and does not */
    assert_true(b->notification_count > 0);
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, 2 * lease_short_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(row_number(c, "next_label"), (int64_t)c->label); /* instead of b */
    run_for(field, lease_short_ns + 10 * NS_PER_MS);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    (void)acquire(b, 1, lease_long_ns);
    field_free(field);
}

/* A contender that withdraws releases what it never held. */
void a_contender_that_gave_up_is_not_next(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    field_free(field);
}

void a_late_copy_of_a_request_registers_nobody(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    (void)ask(field_join_copy(b), CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    /* The same after it was given the row meanwhile. */
    (void)acquire(a, 2, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 2, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 2, 0)->verdict, CV_STORE_HELD);
    (void)acquire(b, 2, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_RELEASE, 2, 0)->verdict, CV_STORE_FREE);
    (void)acquire(a, 3, lease_long_ns);
    (void)ask(field_join_copy(b), CV_STORE_ACQUIRE, 2, lease_long_ns);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 3, 0)->verdict, CV_STORE_FREE);
    field_free(field);
}

/* An answer's promise about a registration holds, whatever arrives later. */
void a_late_copy_of_a_request_shortens_no_registration(void **unused)
{
    (void)unused;
    static const char end_us[] = "(extract(epoch FROM next_until) * 1000000)::bigint";
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    const int64_t before_us = row_number(b, end_us);
    (void)ask(field_join_copy(b), CV_STORE_ACQUIRE, 1, lease_short_ns);
    assert_true(row_number(b, end_us) >= before_us);
    field_free(field);
}

/* Its own release does not give the row back to it. */
void a_contender_that_took_the_row_is_not_next(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_short_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_int_equal(row_number(b, "next_label"), (int64_t)b->label);
    const uint64_t token = acquire(b, 1, lease_long_ns)->token; /* after a's lease is over */
    assert_int_equal(ask(b, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    assert_int_equal(row_number(b, "token"), token);
    assert_int_equal(row_number(b, "count(*) FILTER (WHERE node = '')"), 1);
    field_free(field);
}

/* Every role that may connect can notify. */
void a_forged_notification_makes_nobody_lead(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    const uint64_t token = a->held_token;
    char channel[64];
    read_channel(b, channel);
    forge(channel, 1, token + 1);
    run_until(field, is_notified, b, "the forged notification");
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    field_free(field);
}

/* A role that heard the secret when it was sent may repeat it with another token. */
void a_secret_is_believed_once(void **unused)
{
    (void)unused;
    struct contender *a, *b;
    struct field *field = field_ready(&a, &b, lease_long_ns);
    const uint64_t token = a->held_token;
    const int64_t secret = row_number(b, "next_secret");
    char channel[64];
    read_channel(b, channel);
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    run_until(field, is_notified, b, "a notification of the release");
    b->notification_count = 0;
    forge(channel, secret, token + 1000);
    run_until(field, is_notified, b, "the forged notification");
    take_row(b);
    assert_int_equal(b->held_token, row_number(b, "token"));
    assert_int_equal(ask(b, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    field_free(field);
}

/* The notification is lost with the connection. Later messages prove nothing; the contender asks
 * for the row, which is still there. */
void a_contender_that_missed_the_notification_asks_for_the_row(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, NULL);
    char by_proxy[512];
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    const uint64_t token = get_ready(a, b, lease_long_ns);
    const int64_t secret = row_number(b, "next_secret");
    char channel[64];
    read_channel(b, channel);
    proxy_swallow_answers(proxy, true);
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_HELD);
    run_for(field, 50 * NS_PER_MS); /* the notification goes nowhere */
    assert_int_equal(b->notification_count, 0);
    proxy_swallow_answers(proxy, false);
    proxy_cut(proxy);
    run_until(field, is_notified, b, "a new connection");
    (void)ask(b, CV_STORE_READ, 0, 0); /* this makes it listen again */
    b->notification_count = 0;
    forge(channel, secret, token + 1000);
    run_until(field, is_notified, b, "the forged notification");
    const struct cv_store_answer *answer = acquire(b, 1, lease_long_ns);
    assert_int_equal(answer->token, row_number(b, "token"));
    assert_int_equal(answer->duration_ns, lease_long_ns); /* the server was asked */
    proxy_free(proxy);
    field_free(field);
}

/* Settings of the user, the database or the server's files, even if changed during a session, do
 * not affect our transactions: a trigger notes the settings that they run with. */
void settings_of_others_do_not_matter(void **unused)
{
    (void)unused;
    psql("CREATE TABLE public.noted (sync text, isolation text);"
         " GRANT ALL ON public.noted TO PUBLIC;"
         " CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
         " INSERT INTO public.noted VALUES (current_setting(''synchronous_commit''),"
         "  current_setting(''transaction_isolation'')); RETURN NEW; END';"
         " CREATE TRIGGER note BEFORE UPDATE ON public.conclave_lease FOR EACH ROW"
         " EXECUTE FUNCTION public.note();"
         " ALTER ROLE conclave SET synchronous_commit = off;"
         " ALTER ROLE conclave SET default_transaction_isolation = serializable");
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    (void)acquire(a, 1, lease_long_ns);
    psql("ALTER SYSTEM SET synchronous_commit = off");
    psql("ALTER SYSTEM SET default_transaction_isolation = serializable");
    psql("SELECT pg_reload_conf()");
    run_for(field, 200 * NS_PER_MS); /* the sessions read the new settings */
    (void)ask(a, CV_STORE_RENEW, 1, lease_long_ns);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    const int64_t all = row_number(a, "(SELECT count(*) FROM public.noted)");
    const int64_t good = row_number(a, "(SELECT count(*) FROM public.noted WHERE sync = 'on'"
                                       " AND isolation = 'read committed')");
    psql("ALTER SYSTEM RESET synchronous_commit");
    psql("ALTER SYSTEM RESET default_transaction_isolation");
    psql("SELECT pg_reload_conf()");
    psql("ALTER ROLE conclave RESET ALL; DROP FUNCTION public.note() CASCADE;"
         " DROP TABLE public.noted");
    assert_true(all >= 3);
    assert_int_equal(good, all);
    field_free(field);
}

/* An earlier version made the tables, and they are not upgraded yet: the hand-over is slower. */
void tables_without_the_columns_for_a_next_one_work(void **unused)
{
    (void)unused;
    struct cv_errtext err;
    psql("ALTER TABLE conclave_lease DROP COLUMN next_secret, DROP COLUMN next_label");
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    const enum cv_store_verdict waits = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict;
    const enum cv_store_verdict freed = ask(a, CV_STORE_RELEASE, 1, 0)->verdict;
    const uint64_t next_token = acquire(b, 1, lease_long_ns)->token;
    assert_int_equal(cv__store_find(address)->create(address, &err), CV_OK);
    assert_int_equal(waits, CV_STORE_HELD);
    assert_int_equal(freed, CV_STORE_FREE);
    assert_true(next_token > token);
    assert_int_equal(ask(b, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    field_free(field);
}

/* The statements of an earlier version know nothing of a next contender. */
void an_earlier_version_may_release(void **unused)
{
    (void)unused;
    struct contender *a, *b, *c;
    struct field *field = join_three(NULL, &a, &b, &c);
    a->held_until_ns = 0;
    psql("UPDATE conclave_lease SET node = '', until = clock_timestamp(), wish = '', heir = ''"
         " WHERE election = '%s'",
         field->election);
    (void)acquire(c, 1, lease_long_ns); /* though b is registered */
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    field_free(field);
}
