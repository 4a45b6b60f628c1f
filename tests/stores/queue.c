/* tests/stores/queue.c - etcd and ZooKeeper: the next in the queue is ready, and takes over without
 * asking. Each test attacks one protection; tests/unprotected removes these protections one by one.
 * Part of test_store. */
#include "stores/test_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- etcd: the next in line is ready --------------------------------------------------------- */

/* A script that asks etcdctl about a contender's key. */
static void etcd_script(const struct contender *c, const char *script, char ret_command[1024])
{
    (void)snprintf(ret_command, 1024,
                   "export ETCDCTL_API=3; e() { etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\" "
                   "\"$@\"; }; key=conclave/%s/%016" PRIx64 "-1; %s",
                   c->election, c->label, script);
}

static int etcd_says(const struct contender *c, const char *script)
{
    char command[1024];
    etcd_script(c, script, command);
    return system(command);
}

/* The number that a script prints. */
static int64_t etcd_number(const struct contender *c, const char *script)
{
    char command[1024], line[64] = "";
    etcd_script(c, script, command);
    FILE *output = popen(command, "re");
    assert_non_null(output);
    assert_non_null(fgets(line, sizeof line, output));
    assert_int_equal(pclose(output), 0);
    return strtoll(line, NULL, 10);
}

/* The lease of its key. */
static int64_t etcd_lease_of(const struct contender *c)
{
    return etcd_number(c, "e get \"$key\" -w fields | sed -n 's/^\"Lease\" : //p'");
}

/* Its key was put again, under a lease that is good enough when it comes first. */
static bool is_ready(void *contender)
{
    return etcd_says(contender, "e get \"$key\" -w fields | grep -Eqx '\"Version\" : [2-9]'") == 0;
}

/* a holds the election, and b is next and ready. */
static void get_ready(struct contender *a, struct contender *b)
{
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    run_until(b->field, is_ready, b, "the next in line to be ready");
    run_for(b->field, 50 * NS_PER_MS); /* b has heard of it */
    b->notification_count = 0;
}

/* A contender that is ready leads when it hears that the holder's key is gone, and asks nothing. */
void the_next_in_line_asks_nothing(void **unused)
{
    (void)unused;
    int64_t least = INT64_MAX;                      /* bytes */
    for (uint32_t i = 0; i < 5 && least > 0; i++) { /* a keep-alive may come in between */
        char election[32], by_proxy[512];
        (void)snprintf(election, sizeof election, "ready-%u", (unsigned)i);
        struct field *field = field_new(address, election);
        struct proxy *proxy = proxy_to(field, 0, by_proxy);
        struct contender *a = field_join(field, "a", NULL);
        struct contender *b = field_join(field, "b", by_proxy);
        get_ready(a, b);
        const uint64_t before = proxy_asked(proxy);
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
        run_until(field, is_notified, b, "a notification of the release");
        (void)ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
        run_until(field, is_held, b, "the grant");
        least = cv__min64(least, (int64_t)(proxy_asked(proxy) - before));
        proxy_free(proxy);
        field_free(field);
    }
    assert_int_equal(least, 0);
}

/* A holder that resigns in favour of a contender behind the next one deletes both keys at once. */
void a_contender_that_is_passed_over_is_not_next(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "passed-over");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    get_ready(a, b);
    struct contender *c = field_join(field, "c", NULL);
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, "c");
    run_until(field, is_notified, b, "a notification of its deleted key");
    assert_c_comes_first(b, c);
    field_free(field);
}

/* The key of the next in line is deleted while its stream of events is interrupted. Later the
 * stream goes on, and tells that the holder's key is deleted: that is not enough. */
void a_contender_that_missed_events_is_not_next(void **unused)
{
    (void)unused;
    const int64_t lease_ns = 30 * NS_PER_S; /* so that keys are not put again meanwhile */
    char by_proxy[512];
    struct field *field = field_new(address, "missed-events");
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    struct contender *c = field_join(field, "c", NULL);
    (void)acquire(a, 1, lease_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
    run_until(field, is_ready, b, "the next in line to be ready");
    run_for(field, 50 * NS_PER_MS); /* it has heard of it */
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    run_for(field, 400 * NS_PER_MS); /* the pauses before the stream is opened again grow */
    assert_int_equal(etcd_says(b, "e del \"$key\" | grep -qx 1"), 0);
    proxy_refuse(proxy, false);
    struct cv_store_runs runs = {.token = 0}; /* its answer is newer than the missed event */
    assert_int_equal(ask_runs(b, &runs), CV_STORE_GRANTED);
    b->notification_count = 0;
    run_until(field, is_notified, b, "the stream to go on");
    b->notification_count = 0;
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    run_until(field, is_notified, b, "a notification of the release");
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_string_equal(answer->record->node, "c");
    (void)acquire(c, 1, lease_ns);
    proxy_free(proxy);
    field_free(field);
}

/* b is next, and takes over by a lease that was granted a while ago: its grant ends with that
 * lease. */
static void assert_ends_with_lease(struct contender *a, struct contender *b)
{
    run_for(b->field, lease_long_ns / 7); /* a lease is replaced after a sixth */
    b->notification_count = 0;
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    run_until(b->field, is_notified, b, "a notification of the release");
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    const int64_t left_s =
        etcd_number(b, "lease=$(e get \"$key\" -w fields | sed -n 's/^\"Lease\" : //p');"
                       "e lease timetolive $(printf %x $lease) |"
                       " sed -n 's/.*remaining(\\(-*[0-9]*\\)s).*/\\1/p'");
    /* Cut to whole seconds, at an instant before this one. */
    const int64_t end_ns = field_now_ns() + (left_s + 1) * NS_PER_S;
    print_message("# the grant ends %.2f s before the latest possible end of the lease\n",
                  (double)(end_ns - b->held_until_ns) / 1e9);
    assert_true(b->held_until_ns <= end_ns);
}

static bool is_repeated(void *proxy)
{
    return proxy_repeated(proxy) > 0;
}

/* Sends the copied request to the server once more, and waits for its answer. */
static void repeat_late(struct field *field, struct proxy *proxy)
{
    assert_true(proxy_repeat_request(proxy));
    run_until(field, is_repeated, proxy, "the answer to the late copy");
}

/* Renews until the key of c has another lease than `old`; a late copy of an earlier put does not
 * change that lease. */
static void assert_late_put_changes_nothing(struct contender *c, struct proxy *proxy, int64_t old)
{
    for (uint32_t i = 0; i < 20 && etcd_lease_of(c) == old; i++) { /* a lease serves for a moment */
        run_for(c->field, lease_long_ns / 20);
        assert_int_equal(ask(c, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    }
    const int64_t newest = etcd_lease_of(c);
    assert_int_not_equal(newest, old);
    repeat_late(c->field, proxy);
    assert_int_equal(etcd_lease_of(c), newest);
}

/* A member of the cluster that was stopped carries out an old renewal after newer ones have been
 * granted: the key stays under the lease of the newest. */
void a_late_renewal_changes_nothing(void **unused)
{
    (void)unused;
    char by_proxy[512];
    struct field *field = field_new(address, "late-renewal");
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    (void)acquire(a, 1, lease_long_ns);
    proxy_copy_request(proxy, "\"lease\":\""); /* the put of a key, not of a note */
    assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    assert_late_put_changes_nothing(a, proxy, etcd_lease_of(a));
    proxy_free(proxy);
    field_free(field);
}

/* The same with the put by which the next in line became ready, once it leads. */
void a_late_put_that_made_a_key_ready_changes_nothing(void **unused)
{
    (void)unused;
    char by_proxy[512];
    struct field *field = field_new(address, "late-in-advance");
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    proxy_copy_request(proxy, "\"target\":\"LEASE\"");
    get_ready(a, b);
    const int64_t old = etcd_lease_of(b);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    assert_late_put_changes_nothing(b, proxy, old);
    proxy_free(proxy);
    field_free(field);
}

/* Does the note tell of the leadership with this token? */
static bool note_is_of(const struct contender *c, uint64_t token)
{
    char script[512];
    (void)snprintf(script, sizeof script,
                   "e get \"conclave.wish/%s/last\" --print-value-only |"
                   " grep -q '^{\"token\":\"%" PRIu64 "\"'",
                   c->election, token);
    return etcd_says(c, script) == 0;
}

static bool has_note(void *contender)
{
    const struct contender *c = contender;
    return note_is_of(c, c->held_token);
}

/* A release that is carried out again when the next one leads does not release that leadership. */
void a_late_release_does_not_note_an_end(void **unused)
{
    (void)unused;
    char by_proxy[512];
    struct field *field = field_new(address, "late-release");
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", by_proxy);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    run_until(field, has_note, a, "the note of its beginning");
    proxy_copy_request(proxy, "request_delete_range");
    a->reason = CV_REASON_FINISHED;
    assert_int_equal(ask(a, CV_STORE_RELEASE, 1, 0)->verdict, CV_STORE_FREE);
    assert_true(note_is_of(a, token));
    (void)acquire(b, 1, lease_long_ns);
    run_until(field, has_note, b, "the note of the next one");
    repeat_late(field, proxy);
    assert_true(has_note(b));
    proxy_free(proxy);
    field_free(field);
}

void a_grant_ends_with_the_lease_of_its_ready_key(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "old-lease");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    get_ready(a, b);
    assert_ends_with_lease(a, b);
    field_free(field);
}

/* Only a few elections of a loop keep their keys ready; the others keep a lease. */
void a_grant_ends_with_the_lease_that_was_kept(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "kept-lease");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    for (uint32_t i = 0; i < 9; i++) {
        char election[16];
        (void)snprintf(election, sizeof election, "other-%u", (unsigned)i);
        (void)acquire(field_join_beside(a, "a", election, NULL), 1, lease_long_ns);
        struct contender *next = field_join_beside(b, "b", election, NULL);
        assert_int_equal(ask(next, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    }
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_ends_with_lease(a, b);
    field_free(field);
}

/* [T7] A leader of the cluster that was stopped and goes on revokes the leases whose keep-alives it
 * missed (etcd#15247). It knows nothing of the latest renewal. */
void earlier_leases_may_be_revoked(void **unused)
{
    (void)unused;
    const int64_t lease_ns = 10 * NS_PER_S; /* much longer than a few calls of etcdctl */
    char known[] = "/tmp/conclave-test-XXXXXX";
    const int file = mkstemp(known);
    assert_true(file >= 0);
    (void)close(file);
    assert_int_equal(setenv("KNOWN", known, 1), 0);
    struct field *field = field_new(address, NULL);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    const uint64_t token = acquire(a, 1, lease_ns)->token;
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
    for (uint32_t round = 0; round < 2; round++) {
        shell("ETCDCTL_API=3 etcdctl --endpoints \"${CV_TEST_ETCD#etcd://}\" lease list"
              " | tail -n +2 >\"$KNOWN\"");
        run_for(field, lease_ns / 9); /* a lease that holds the key is used for a tenth only */
        assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_ns)->verdict, CV_STORE_GRANTED);
        shell("exec >/dev/null 2>&1; for id in $(cat \"$KNOWN\"); do ETCDCTL_API=3 etcdctl"
              " --endpoints \"${CV_TEST_ETCD#etcd://}\" lease revoke $id; done; true");
        assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
        const struct cv_store_answer *answer = ask(a, CV_STORE_RENEW, 1, lease_ns);
        assert_int_equal(answer->verdict, CV_STORE_GRANTED);
        assert_int_equal(answer->token, token);
    }
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_ns); /* its place was lost, and taken anew */
    field_free(field);
    assert_int_equal(unlink(known), 0);
}

/* Nodes that look like those of contenders but belong to no session, first in the queue and in the
 * middle, as in a copy of a tree. They would block the election for ever. */
void nodes_of_no_session_hold_nothing(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "copied");
    shell("at=${CV_TEST_ZOOKEEPER#zookeeper://}; at=${at%%[,/]*}; q=/conclave/copied;"
          "\"$SOURCE_ROOT/tests/stores/zk_put.py\" $at /conclave $q"
          " $q/c-0123456789abcdef-1-old-0000000000 $q/c-0123456789abcdef-2-c-0000000001"
          " $q/other");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    struct contender *c = field_join(field, "c", NULL);
    const uint64_t token = acquire(a, 1, lease_long_ns)->token;
    shell("at=${CV_TEST_ZOOKEEPER#zookeeper://}; q=/conclave/copied;"
          "\"$SOURCE_ROOT/tests/stores/zk_put.py\" ${at%%[,/]*}"
          " $q/c-0123456789abcdef-3-old-0000000004 $q/c-0123456789abcdef-4-old-0000000009");
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_HELD);
    assert_int_equal(answer->token, token);
    assert_string_equal(answer->record->node, "a");
    assert_int_equal(ask(c, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    assert_string_equal(ask(field_join(field, "observer", NULL), CV_STORE_READ, 0, 0)->record->node,
                        "a");
    assert_int_equal(ask_to_resign(b, "c")->verdict, CV_STORE_HELD);
    assert_string_equal(ask(a, CV_STORE_RENEW, 1, lease_long_ns)->record->resign_request, "c");
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c"));
    (void)acquire(c, 1, lease_long_ns);
    (void)ask(c, CV_STORE_RELEASE, 1, 0);
    (void)acquire(b, 1, lease_long_ns);
    (void)ask(b, CV_STORE_RELEASE, 1, 0);
    assert_int_equal(ask(a, CV_STORE_READ, 0, 0)->verdict, CV_STORE_FREE);
    field_free(field);
}

/* ---- ZooKeeper: the next in line is ready ---------------------------------------------------- */

/* a holds the election and renews for longer than a session lives; b is next all the time. */
static void wait_as_next(struct contender *a, struct contender *b, int64_t lease_ns)
{
    (void)acquire(a, 1, lease_ns);
    const int64_t begin_ns = field_now_ns();
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_ns)->verdict, CV_STORE_HELD);
    while (field_now_ns() < begin_ns + lease_ns + lease_ns / 4) {
        run_for(a->field, lease_ns / 20);
        assert_int_equal(ask(a, CV_STORE_RENEW, 1, lease_ns)->verdict, CV_STORE_GRANTED);
    }
    b->notification_count = 0;
}

/* The next contender takes over by an older proof that its session lives. That proves only that the
 * ensemble's leader had heard of it a third of the time-out earlier. */
void a_grant_counts_from_an_older_proof_of_the_session(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "old-proof");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    wait_as_next(a, b, lease_long_ns);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    run_until(field, is_notified, b, "a notification of the release");
    const struct cv_store_answer *answer = ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns);
    assert_int_equal(answer->verdict, CV_STORE_GRANTED);
    print_message("# a grant of %.2f of the session\n",
                  (double)answer->duration_ns / (double)lease_long_ns);
    assert_true(answer->duration_ns <= lease_long_ns - lease_long_ns / 3);
    field_free(field);
}

/* b has taken over and has not written its note yet. Its request is repeated, as after an answer
 * that was lost: it finds out that its node is gone while it reads the note. */
void a_leader_that_lost_its_node_writes_no_note(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "lost-node");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    wait_as_next(a, b, lease_long_ns);
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    run_until(field, is_notified, b, "a notification of the release");
    (void)acquire(b, 1, lease_long_ns);
    shell(
        "at=${CV_TEST_ZOOKEEPER#zookeeper://};"
        "\"$SOURCE_ROOT/tests/stores/zk_put.py\" ${at%%[,/]*} --remove /conclave/lost-node -1-b-");
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_FREE);
    const struct cv_store_answer *answer = ask(a, CV_STORE_READ, 0, 0);
    assert_int_equal(answer->verdict, CV_STORE_FREE);
    assert_string_equal(answer->record->last.node, "a"); /* the latest that left a note */
    field_free(field);
}

/* A holder that resigns in favour of a contender behind the next one removes both nodes. b is told
 * that the holder's node is gone, which is true, but b is not the first. */
void a_contender_that_is_passed_over_does_not_take_over(void **unused)
{
    (void)unused;
    struct contender *a, *b, *c;
    struct field *field = join_three("passed-over", &a, &b, &c);
    b->notification_count = 0;
    (void)await(a, ask_now(a, CV_STORE_RELEASE, 1, 0, "c"));
    run_until(field, is_notified, b, "a notification of the release");
    (void)ask(b, CV_STORE_READ, 0, 0); /* a new answer: all earlier events have come */
    assert_c_comes_first(b, c);
    field_free(field);
}

/* The same, but b asks as soon as it hears anything: that is the end of its own node, because the
 * holder's is deleted later. */
void others_are_deposed_before_the_holder_leaves(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 8; i++) {
        char election[32];
        struct contender *a, *b, *c;
        (void)snprintf(election, sizeof election, "deposed-%u", (unsigned)i);
        struct field *field = join_three(election, &a, &b, &c);
        b->notification_count = 0;
        (void)ask_now(a, CV_STORE_RELEASE, 1, 0, "c");
        run_until(field, is_notified, b, "a notification of the release");
        assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
        (void)acquire(c, 1, lease_long_ns);
        field_free(field);
    }
}

/* How many bytes b sends to the server between a's release and its own grant. With `hidden`, b does
 * not see that a is of a version that deposes others first. */
static int64_t bytes_to_take(const char *election, bool is_hidden)
{
    static const char known[] = "\"deposes\":\"first\"", other[] = "\"deposes\":\"never\"";
    char by_proxy[512];
    struct field *field = field_new(address, election);
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    (void)acquire(a, 1, lease_long_ns);
    if (is_hidden) {
        proxy_rewrite_answers(proxy, known, other, strlen(known));
    }
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    b->notification_count = 0;
    const uint64_t before = proxy_asked(proxy);
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    run_until(field, is_notified, b, "a notification of the release");
    (void)ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    run_until(field, is_held, b, "the grant");
    const int64_t bytes = (int64_t)(proxy_asked(proxy) - before);
    proxy_free(proxy);
    field_free(field);
    return bytes;
}

/* The event that reports the end of the holder's node makes b the leader. */
void the_next_in_the_queue_asks_nothing(void **unused)
{
    (void)unused;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < 5 && least > 0; i++) { /* a beat may come in between */
        char election[32];
        (void)snprintf(election, sizeof election, "at-once-%u", (unsigned)i);
        least = cv__min64(least, bytes_to_take(election, /* is_hidden= */ false));
    }
    assert_int_equal(least, 0);
}

/* It removes the nodes of b and of itself in one transaction, so events do not tell enough. */
void after_a_holder_of_an_earlier_version_the_queue_is_read(void **unused)
{
    (void)unused;
    assert_true(bytes_to_take("earlier-version", /* is_hidden= */ true) > 0);
}

/* On a new connection events may come in another order: b is next again when it has looked. */
void a_contender_with_a_new_connection_looks_before_it_is_next(void **unused)
{
    (void)unused;
    char by_proxy[512];
    struct field *field = field_new(address, "new-connection");
    struct proxy *proxy = proxy_to(field, 0, by_proxy);
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", by_proxy);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    b->notification_count = 0;
    proxy_cut(proxy);
    run_until(field, is_notified, b, "a new connection");
    (void)ask(b, CV_STORE_READ, 0, 0); /* what the client sends by itself has been sent */
    b->notification_count = 0;
    const uint64_t before = proxy_asked(proxy);
    (void)ask_now(a, CV_STORE_RELEASE, 1, 0, NULL);
    run_until(field, is_notified, b, "a notification of the release");
    (void)ask_now(b, CV_STORE_ACQUIRE, 1, lease_long_ns, NULL);
    run_until(field, is_held, b, "the grant");
    assert_true(proxy_asked(proxy) > before);
    proxy_free(proxy);
    field_free(field);
}

/* A leader that was given the election by an event alone hears of a resign request, too. */
void a_leader_that_asked_nothing_hears_of_a_resign_request(void **unused)
{
    (void)unused;
    struct field *field = field_new(address, "heard");
    struct contender *a = field_join(field, "a", NULL);
    struct contender *b = field_join(field, "b", NULL);
    (void)acquire(a, 1, lease_long_ns);
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_HELD);
    b->notification_count = 0;
    (void)ask(a, CV_STORE_RELEASE, 1, 0);
    run_until(field, is_notified, b, "a notification of the release");
    assert_int_equal(ask(b, CV_STORE_ACQUIRE, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    assert_int_equal(ask(b, CV_STORE_RENEW, 1, lease_long_ns)->verdict, CV_STORE_GRANTED);
    b->notification_count = 0;
    assert_int_equal(ask_to_resign(a, "a")->verdict, CV_STORE_HELD);
    run_until(field, is_notified, b, "a notification of the request");
    assert_string_equal(ask(b, CV_STORE_RENEW, 1, lease_long_ns)->record->resign_request, "a");
    field_free(field);
}
