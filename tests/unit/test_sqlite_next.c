/* tests/unit/test_sqlite_next.c - RELEASE gives the record to the next contender (sqlite_next.h).
 * Each test attacks one protection; tests/unprotected removes these protections one by one. */
#include "os/clock.h"
#include "stores/store.h"
#include "support/sqlite_seats.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The file -------------------------------------------------------------------------------- */

/* a holds the record, and b is registered as the next one. */
static struct fixture *fixture_with_next(uint64_t *ret_token)
{
    struct fixture *f = fixture_new();
    f->a.is.has_descendants = f->b.is.has_descendants = false;
    *ret_token = acquire(f, &f->a, 1);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    cv__sqlite_prepare(&f->b.file, *ret_token, &f->b.is);
    assert_true(f->b.is.is_next_durable);
    assert_true(f->b.is.next_token > *ret_token);
    return f;
}

static enum cv_store_verdict release(struct fixture *f, struct seat *s, const char *heir)
{
    struct cv_sqlite_job job = {.request = {.verb = CV_STORE_RELEASE, .request = 5, .attempt = 1}};
    (void)snprintf(job.heir, sizeof job.heir, "%s", heir);
    return carry_out(f, s, job);
}

static struct seat *third(struct fixture *f)
{
    struct seat *c = calloc(1, sizeof *c);
    assert_non_null(c);
    contender(f, c, "job", "c", 0xc);
    c->is.has_descendants = false;
    return c;
}

static void third_free(struct seat *c)
{
    leave(c);
    free(c);
}

struct trail {
    char node[8][CV_NODE_BYTES], why[8][32];
    uint32_t count;
};

static void on_past(void *user, const struct cv_store_past *past)
{
    struct trail *trail = user;
    assert_true(trail->count < COUNT_OF(trail->node));
    (void)snprintf(trail->node[trail->count], CV_NODE_BYTES, "%s", past->node);
    (void)snprintf(trail->why[trail->count++], sizeof trail->why[0], "%s", past->why);
}

static void release_gives_the_record_to_the_next_one(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    const uint64_t given = f->b.is.next_token;
    assert_int_equal(release(f, &f->a, ""), CV_STORE_HELD);
    assert_int_equal(f->answer.holder, f->b.is.label); /* it is told its successor */
    assert_int_equal(f->answer.token, given);
    struct cv_sqlite_mail mail;
    assert_int_equal(read(f->b.file.mail_fd, &mail, sizeof mail), sizeof mail);
    assert_int_equal(mail.secret, f->b.is.next_secret);
    assert_int_equal(mail.token, given);
    assert_int_equal(mail.expires_ns, fake_now_ns + 500 * NS_PER_MS); /* of a lease of 5 s */
    assert_int_equal(acquire(f, &f->b, 1), given); /* b may ask, and gets the same grant */
    struct trail trail = {.count = 0};
    assert_int_equal(cv__sqlite_history(&f->a.file, "job", on_past, &trail, &f->error), CV_OK);
    assert_int_equal(trail.count, 2);
    assert_string_equal(trail.node[0], "a");
    assert_string_equal(trail.why[0], "resigned");
    assert_string_equal(trail.node[1], "b");
    assert_string_equal(trail.why[1], "");
    fixture_free(f);
}

/* The others wait for the same end that the next one is told. */
static void nobody_takes_a_given_record_before_its_end(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    struct seat *c = third(f);
    const uint64_t given = f->b.is.next_token;
    assert_int_equal(release(f, &f->a, ""), CV_STORE_HELD);
    struct cv_sqlite_mail mail;
    assert_int_equal(read(f->b.file.mail_fd, &mail, sizeof mail), sizeof mail);
    fake_now_ns = mail.expires_ns - 1;
    assert_int_equal(ask(f, c, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    /* A next one that is stopped does not hold it for long. */
    assert_int_equal(f->answer.duration_ns, 1);
    fake_now_ns = mail.expires_ns;
    assert_true(acquire(f, c, 1) > given);
    third_free(c);
    fixture_free(f);
}

static void only_the_named_heir_is_given_the_record(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    assert_int_equal(release(f, &f->a, "c"), CV_STORE_FREE);
    assert_int_equal(ask(f, &f->b, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD); /* c goes first */
    fixture_free(f);
    f = fixture_with_next(&token);
    assert_int_equal(release(f, &f->a, "b"), CV_STORE_HELD);
    assert_int_equal(f->answer.holder, f->b.is.label);
    fixture_free(f);
}

static void a_dead_contender_is_not_given_the_record(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    assert_int_equal(close(f->b.file.mail_fd), 0); /* as the kernel does when a process dies */
    f->b.file.mail_fd = -1;
    assert_int_equal(release(f, &f->a, ""), CV_STORE_FREE);
    struct seat *c = third(f);
    assert_true(acquire(f, c, 1) > token);
    third_free(c);
    fixture_free(f);
}

/* If it dies a moment later, its pipe is closed, and nobody waits for its lease. */
static void a_contender_that_dies_with_the_record_holds_nobody_up(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    const uint64_t given = f->b.is.next_token;
    assert_int_equal(release(f, &f->a, ""), CV_STORE_HELD);
    assert_int_equal(close(f->b.file.pipe_fd), 0);
    f->b.file.pipe_fd = -1;
    struct seat *c = third(f);
    assert_true(acquire(f, c, 1) > given);
    third_free(c);
    fixture_free(f);
}

static void a_contender_that_gave_up_is_not_given_the_record(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    assert_int_equal(ask(f, &f->b, CV_STORE_RELEASE, 1, 0), CV_STORE_FREE);
    assert_int_equal(release(f, &f->a, ""), CV_STORE_FREE);
    fixture_free(f);
}

/* Its instants cannot be compared with those of this clock. */
static void a_contender_with_another_clock_is_not_given_the_record(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    sql(f, "UPDATE conclave_next SET boot = boot || '+1.0'");
    assert_int_equal(release(f, &f->a, ""), CV_STORE_FREE);
    fixture_free(f);
}

static void a_token_that_was_overtaken_is_not_given(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    struct seat *c = third(f);
    assert_int_equal(release(f, &f->a, "c"), CV_STORE_FREE);
    assert_true(acquire(f, c, 1) > f->b.is.next_token);
    assert_int_equal(release(f, c, ""), CV_STORE_FREE);
    third_free(c);
    fixture_free(f);
}

/* A registration can be used once. */
static void a_registration_is_used_once(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    const uint64_t given = f->b.is.next_token;
    assert_int_equal(release(f, &f->a, ""), CV_STORE_HELD);
    fake_now_ns += CV_SQLITE_GIVEN_NS_MAX;
    const uint64_t later = ask(f, &f->a, CV_STORE_ACQUIRE, 2, 0) == CV_STORE_GRANTED
                               ? f->answer.token
                               : 0; /* b has not heard of its grant */
    assert_true(later > given);
    assert_int_equal(ask(f, &f->a, CV_STORE_RELEASE, 2, later), CV_STORE_FREE);
    fixture_free(f);
}

/* A waiting contender keeps its place; the place of a dead one is free. */
static void the_first_that_registered_keeps_its_place(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    struct seat *c = third(f);
    assert_int_equal(ask(f, c, CV_STORE_ACQUIRE, 1, 0), CV_STORE_HELD);
    cv__sqlite_prepare(&c->file, token, &c->is);
    assert_false(c->is.is_next_durable);
    assert_true(c->file.reserved_token > token); /* it has a token reserved anyway */
    assert_int_equal(close(f->b.file.pipe_fd), 0);
    f->b.file.pipe_fd = -1;
    cv__sqlite_prepare(&c->file, token, &c->is);
    assert_true(c->is.is_next_durable);
    assert_int_equal(release(f, &f->a, ""), CV_STORE_HELD);
    assert_int_equal(f->answer.holder, c->is.label);
    third_free(c);
    fixture_free(f);
}

/* Somebody has edited the file: the release must succeed anyway. */
static void a_place_that_cannot_be_given_does_not_hold_up_a_release(void **unused)
{
    (void)unused;
    uint64_t token;
    struct fixture *f = fixture_with_next(&token);
    sql(f, "INSERT INTO conclave_history (token, election, node, from_wall_ns)"
           " SELECT token, 'another', 'x', 0 FROM conclave_next");
    assert_int_equal(release(f, &f->a, ""), CV_STORE_FREE);
    assert_true(acquire(f, &f->b, 1) > f->b.is.next_token);
    fixture_free(f);
}

/* The names come from the file: nothing is written except to a pipe of the folder. */
static void mail_goes_to_pipes_of_the_folder_only(void **unused)
{
    (void)unused;
    static const char *const names[] = {"mail./../../e.db", "e.db", "mail.file"};
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        uint64_t token;
        char text[256];
        struct fixture *f = fixture_with_next(&token);
        (void)snprintf(text, sizeof text, "%s.alive/mail.file", f->path);
        const int fd = open(text, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        (void)snprintf(text, sizeof text, "UPDATE conclave_next SET mail = '%s'", names[i]);
        sql(f, text);
        assert_int_equal(release(f, &f->a, ""), CV_STORE_FREE);
        assert_int_equal(lseek(fd, 0, SEEK_END), 0);
        assert_int_equal(close(fd), 0);
        fixture_free(f);
    }
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* A contender that asks for the record whenever it is notified, as the core does. */
struct player {
    struct cv_store *store;
    struct cv_shared_list list;
    uint64_t request, attempt;
    bool is_seeking, is_closed;
    uint32_t held_count, granted_count, changed_count;
    struct cv_store_answer last;
};

#define PLAYER_LEASE (20 * SECOND)

static const struct cv_store_kind *sqlite_kind;

static void player_ask(struct player *p, enum cv_store_verb verb)
{
    p->request++;
    sqlite_kind->ask(p->store, &(struct cv_store_request){.verb = verb,
                                                          .request = p->request,
                                                          .attempt = p->attempt,
                                                          .token = p->last.token,
                                                          .lease_ns = PLAYER_LEASE});
}

static void on_answered(void *user, const struct cv_store_answer *answer)
{
    struct player *p = user;
    if (answer->verdict == CV_STORE_CHANGED) {
        p->changed_count++;
        if (p->is_seeking) {
            player_ask(p, CV_STORE_ACQUIRE);
        }
        return;
    }
    p->last = *answer;
    p->held_count += answer->verdict == CV_STORE_HELD;
    p->granted_count += answer->verdict == CV_STORE_GRANTED;
    p->is_seeking = p->is_seeking && answer->verdict != CV_STORE_GRANTED;
}

static void on_player_closed(void *user)
{
    ((struct player *)user)->is_closed = true;
}

struct game {
    char folder[TEST_FOLDER_BYTES], path[96], address[128];
    uv_loop_t loop;
    struct player a, b;
};

static void player_open(struct game *g, struct player *p, const char *node, uint64_t label)
{
    struct cv_errtext error = {""};
    const struct cv_store_setting setting = {.loop = &g->loop,
                                             .shared = &p->list,
                                             .address = g->address,
                                             .election = "job",
                                             .node = node,
                                             .label = label,
                                             .answered = on_answered,
                                             .user = p};
    p->attempt = 1;
    assert_int_equal(sqlite_kind->open(&p->store, &setting, &error), CV_OK);
}

static int64_t game_number(const struct game *g, const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open_v2(g->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &q, NULL), SQLITE_OK);
    const int64_t number = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
    assert_int_equal(sqlite3_finalize(q), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return number;
}

/* Runs the loop until the counter has reached that value. */
static void game_until(struct game *g, const uint32_t *counter, uint32_t wanted)
{
    for (uint32_t i = 0; *counter < wanted && i < 100000; i++) {
        (void)uv_run(&g->loop, UV_RUN_NOWAIT);
        (void)usleep(200);
    }
    assert_true(*counter >= wanted);
}

/* Waits until nothing is under way: nothing has happened for a while. */
static void game_settle(struct game *g)
{
    for (uint32_t i = 0; i < 300; i++) {
        (void)uv_run(&g->loop, UV_RUN_NOWAIT);
        (void)usleep(200);
    }
}

/* a holds the record; b waits, and its registration is on the disk. */
static void game_begin(struct game *g)
{
    memset(g, 0, sizeof *g);
    assert_true(test_folder_make(g->folder));
    (void)snprintf(g->path, sizeof g->path, "%s/e.db", g->folder);
    (void)snprintf(g->address, sizeof g->address, "sqlite:%s", g->path);
    sqlite_kind = cv__store_find(g->address);
    assert_non_null(sqlite_kind);
    assert_int_equal(uv_loop_init(&g->loop), 0);
    player_open(g, &g->a, "a", 0xa);
    player_open(g, &g->b, "b", 0xb);
    player_ask(&g->a, CV_STORE_ACQUIRE);
    game_until(g, &g->a.granted_count, 1);
    player_ask(&g->b, CV_STORE_ACQUIRE);
    game_until(g, &g->b.held_count, 1);
    for (uint32_t i = 0; game_number(g, "SELECT count(*) FROM conclave_next") < 1; i++) {
        assert_true(i < 1000);
        game_settle(g);
    }
    game_settle(g); /* the thread waits for the disk, and then tells the loop */
}

static void game_end(struct game *g)
{
    g->a.is_seeking = g->b.is_seeking = false;
    sqlite_kind->close(g->a.store, on_player_closed, &g->a);
    sqlite_kind->close(g->b.store, on_player_closed, &g->b);
    while (!g->a.is_closed || !g->b.is_closed) {
        (void)uv_run(&g->loop, UV_RUN_ONCE);
    }
    (void)uv_run(&g->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&g->loop), 0);
    assert_int_equal(test_folder_remove(g->folder), 0);
}

/* Sends b a message as the holder of the record would, except for what the test changes. */
static void game_send(const struct game *g, struct cv_sqlite_mail mail, size_t bytes)
{
    char path[256], name[64];
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open_v2(g->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT mail FROM conclave_next", -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    (void)snprintf(name, sizeof name, "%s", (const char *)sqlite3_column_text(q, 0));
    assert_int_equal(sqlite3_finalize(q), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    (void)snprintf(path, sizeof path, "%s.alive/%s", g->path, name);
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &mail, bytes), bytes);
    assert_int_equal(close(fd), 0);
}

static struct cv_sqlite_mail game_mail(const struct game *g)
{
    return (struct cv_sqlite_mail){
        .secret = (uint64_t)game_number(g, "SELECT secret FROM conclave_next"),
        .token = (uint64_t)game_number(g, "SELECT token FROM conclave_next"),
        .expires_ns = cv__clock_now_ns() + CV_SQLITE_GIVEN_NS_MAX};
}

/* It leads without asking the file, for the short time that it was given. */
static void the_next_one_leads_when_it_reads_its_secret(void **unused)
{
    (void)unused;
    struct game g;
    game_begin(&g);
    g.b.is_seeking = true;
    const uint64_t token = (uint64_t)game_number(&g, "SELECT token FROM conclave_next");
    player_ask(&g.a, CV_STORE_RELEASE);
    game_until(&g, &g.b.granted_count, 1);
    assert_int_equal(g.b.last.token, token);
    assert_true(g.b.last.duration_ns <= CV_SQLITE_GIVEN_NS_MAX);
    assert_true(g.b.last.duration_ns > 0);
    const int64_t end_ns = cv__clock_now_ns() + g.b.last.duration_ns;
    assert_true(end_ns >= game_number(&g, "SELECT expires_ns FROM conclave_election") - SECOND);
    player_ask(&g.b, CV_STORE_RENEW); /* for a whole lease */
    game_until(&g, &g.b.granted_count, 2);
    assert_int_equal(g.b.last.duration_ns, PLAYER_LEASE);
    assert_int_equal(g.b.last.token, token);
    game_until(&g, &g.a.held_count, 1);
    assert_int_equal(g.a.last.holder, 0xb);
    game_end(&g);
}

/* a still leads, so b must not lead, whatever message it gets. */
static void a_message_that_the_holder_did_not_send_makes_nobody_lead(void **unused)
{
    (void)unused;
    struct game g;
    game_begin(&g);
    g.b.is_seeking = true;
    struct cv_sqlite_mail mail = game_mail(&g);
    mail.secret ^= 1; /* the secret of another registration */
    game_send(&g, mail, sizeof mail);
    game_settle(&g);
    assert_int_equal(g.b.granted_count, 0);
    mail = game_mail(&g);
    mail.token++; /* not the token that it registered with */
    game_send(&g, mail, sizeof mail);
    game_settle(&g);
    assert_int_equal(g.b.granted_count, 0);
    mail = game_mail(&g);
    game_send(&g, mail, sizeof mail - 1); /* half of a message */
    game_settle(&g);
    assert_int_equal(g.b.granted_count, 0);
    mail.expires_ns = cv__clock_now_ns() - 1; /* it slept past this end */
    game_send(&g, mail, sizeof mail);
    game_until(&g, &g.b.held_count, 2); /* it asks the file, which says who holds it */
    assert_int_equal(g.b.granted_count, 0);
    game_end(&g);
}

static void an_end_beyond_what_can_be_promised_is_not_believed(void **unused)
{
    (void)unused;
    struct game g;
    game_begin(&g);
    g.b.is_seeking = true;
    struct cv_sqlite_mail mail = game_mail(&g);
    mail.expires_ns = cv__clock_now_ns() + 2 * PLAYER_LEASE;
    game_send(&g, mail, sizeof mail);
    game_until(&g, &g.b.held_count, 2);
    assert_int_equal(g.b.granted_count, 0);
    game_end(&g);
}

/* A message that was delayed, or is repeated, belongs to an attempt that is over. */
static void a_message_to_an_earlier_attempt_is_ignored(void **unused)
{
    (void)unused;
    struct game g;
    game_begin(&g);
    const struct cv_sqlite_mail mail = game_mail(&g);
    g.b.attempt = 2; /* the core has gone on, without releasing the attempt before */
    g.b.is_seeking = true;
    game_send(&g, mail, sizeof mail);
    game_until(&g, &g.b.held_count, 2);
    assert_int_equal(g.b.granted_count, 0);
    game_send(&g, mail, sizeof mail); /* a secret is believed only once */
    g.b.attempt = 1;
    game_settle(&g);
    assert_int_equal(g.b.granted_count, 0);
    game_end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(release_gives_the_record_to_the_next_one),
        cmocka_unit_test(nobody_takes_a_given_record_before_its_end),
        cmocka_unit_test(only_the_named_heir_is_given_the_record),
        cmocka_unit_test(a_dead_contender_is_not_given_the_record),
        cmocka_unit_test(a_contender_that_dies_with_the_record_holds_nobody_up),
        cmocka_unit_test(a_contender_that_gave_up_is_not_given_the_record),
        cmocka_unit_test(a_contender_with_another_clock_is_not_given_the_record),
        cmocka_unit_test(a_token_that_was_overtaken_is_not_given),
        cmocka_unit_test(a_registration_is_used_once),
        cmocka_unit_test(the_first_that_registered_keeps_its_place),
        cmocka_unit_test(a_place_that_cannot_be_given_does_not_hold_up_a_release),
        cmocka_unit_test(mail_goes_to_pipes_of_the_folder_only),
        cmocka_unit_test(the_next_one_leads_when_it_reads_its_secret),
        cmocka_unit_test(a_message_that_the_holder_did_not_send_makes_nobody_lead),
        cmocka_unit_test(an_end_beyond_what_can_be_promised_is_not_believed),
        cmocka_unit_test(a_message_to_an_earlier_attempt_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
