/* src/stores/postgres.c - `postgres://...`: a row for each election, judged by the server's clock.
 *
 * Every request is one message of a few statements, which the server runs as one transaction: one
 * round trip, nothing that has to be remembered between two requests, and so nothing that a pooler
 * in transaction mode, a fail-over or a lost connection can break. There are no session locks [traps.md
 * T29]. The row is changed by an UPDATE whose condition is judged again once it has the row's lock,
 * with clock_timestamp(), which goes on while a statement waits.
 *
 * Why it is safe. A lease ends at the server's now + lease, and that now is later than the asking:
 * so the holder, who counts from the asking, stops first [T3]. A renewal never shortens a lease, as
 * the answer that says so may be lost. Where the server commits without waiting for its disk
 * (synchronous_commit = off) we ask it to wait: a grant that a crash undoes would be granted twice.
 * Tokens come from a sequence, which survives the deletion of the row, and are larger than the
 * row's last one besides. The attempt that was released is kept: a copy of its ACQUIRE that comes
 * later finds that it is over.
 *
 * What it assumes: the server's clock does not leap forward by more than the drift allowance, and
 * the server keeps what it has committed (fsync is on; a fail-over is to a synchronous standby).
 *
 * News: NOTIFY is sent with each change, and heard by LISTEN on the same connection. A pooler gives
 * our statements to any of its connections, so LISTEN would be left behind in one of them. That is
 * recognised by the process id, which differs from the one in the greeting; then we look often
 * instead. Names of hosts are looked up by libpq, which waits for the answer: use addresses where
 * the name service may hang. */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/remote.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_NS_MAX (10 * NS_PER_S)
#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 5000
#define SCRIPT_BYTES 16384 /* longer than any script with the longest names */

enum state {
    PG_DOWN,       /* nothing; a connection is made when somebody asks, or the pause is over */
    PG_CONNECTING, /* libpq is at it */
    PG_GREETING,   /* asking who is there, and listening */
    PG_READY,
    PG_ASKING, /* the request at work is at the server */
};

struct poll_box { /* a uv handle outlives its descriptor */
    uv_poll_t poll;
    struct cv_store *store; /* NULL: no longer wanted */
};

struct cv_store {
    struct cv_remote remote;
    char *address;
    enum state state;
    PGconn *pg;
    struct poll_box *poll;
    uv_timer_t timer; /* PG_DOWN: the pause; PG_CONNECTING, PG_GREETING: the bound */
    uint64_t pause_ms;
    bool was_ready;  /* since the store was opened: what we missed meanwhile may be news */
    bool is_heard;   /* notifications reach us */
    bool is_reading; /* the last one asked READ only, so that everything is news */
    bool is_holding; /* the last answer was GRANTED */
    uint64_t granted_attempt, granted_token;
    char channel[32];

    PGresult *rows;  /* of the last SELECT of the request at work */
    PGresult *wrong; /* its first error */
};

/* ---- SQL ----------------------------------------------------------------------------------- */

static const char schema[] =
    /* IF NOT EXISTS is no protection from somebody who creates the same at the same time. */
    "SELECT pg_advisory_xact_lock(hashtext('conclave store init'));"
    "CREATE SEQUENCE IF NOT EXISTS conclave_token;"
    "CREATE TABLE IF NOT EXISTS conclave_lease ("
    " election text PRIMARY KEY,"
    " token bigint NOT NULL DEFAULT 0,"
    " node text NOT NULL DEFAULT ''," /* empty: nobody holds it */
    " label bigint NOT NULL DEFAULT 0,"
    " attempt bigint NOT NULL DEFAULT 0,"
    " lease_us bigint NOT NULL DEFAULT 0,"
    " until timestamptz NOT NULL DEFAULT 'epoch',"
    " since timestamptz NOT NULL DEFAULT 'epoch',"
    " wish text NOT NULL DEFAULT '',"
    " heir text NOT NULL DEFAULT '',"
    " heir_until timestamptz NOT NULL DEFAULT 'epoch',"
    " lapsed_token bigint NOT NULL DEFAULT 0," /* the one before, if it did not release, ... */
    " lapsed_at timestamptz NOT NULL DEFAULT 'epoch');" /* ... for the next statement */
    "CREATE TABLE IF NOT EXISTS conclave_history ("
    " election text NOT NULL,"
    " token bigint NOT NULL,"
    " node text NOT NULL,"
    " since timestamptz NOT NULL,"
    " upto timestamptz,"
    " why text NOT NULL DEFAULT '',"
    " PRIMARY KEY (election, token));";

/* In the scripts, @e is the election, @n the node, @c the channel, @h the heir or the wish (all of
 * them quoted), @l the label, @a the attempt, @u the lease in us, @t the token, @p our patience. A
 * statement that the client has given up shall not be carried out much later: hence the
 * bound on waiting for locks. */
#define PROLOGUE                                                \
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"           \
    "SELECT set_config('synchronous_commit', 'on', true) WHERE" \
    " current_setting('synchronous_commit') = 'off';"           \
    "SELECT set_config('lock_timeout', @p, true);"
#define SELECT_ROW                                                                        \
    "SELECT token, node, label, attempt, lease_us,"                                       \
    " (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint AS remaining_us," \
    " (extract(epoch FROM since) * 1000000)::bigint AS since_us, wish,"                   \
    " CASE WHEN node = '' AND heir NOT IN ('', @n)"                                       \
    "  THEN (extract(epoch FROM heir_until - clock_timestamp()) * 1000000)::bigint"       \
    "  ELSE 0 END AS kept_us"                                                             \
    " FROM conclave_lease WHERE election = @e;"
#define IS_MINE "election = @e AND label = @l AND attempt = @a"
#define LEASE_END "clock_timestamp() + @u * interval '1 microsecond'"

static const char script_read[] = SELECT_ROW;

static const char script_acquire[] = PROLOGUE
    "INSERT INTO conclave_lease (election) VALUES (@e) ON CONFLICT DO NOTHING;"
    /* The same attempt again. */
    "UPDATE conclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u"
    " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token);"
    /* Free, run out, or our own of an earlier attempt; and not kept for an heir. An attempt that
     * was granted before (@t) and lost is not granted again: it would have another token. */
    "UPDATE conclave_lease SET"
    " lapsed_token = CASE WHEN node = '' THEN 0 ELSE token END,"
    " lapsed_at = least(until, clock_timestamp()),"
    " token = greatest(token + 1, nextval('conclave_token')), node = @n,"
    " label = @l, attempt = @a, lease_us = @u,"
    " until = " LEASE_END ", since = clock_timestamp(), wish = '', heir = ''"
    " WHERE election = @e AND NOT (label = @l AND attempt = @a) AND @t = 0"
    " AND (node = '' OR until <= clock_timestamp()"
    "  OR label = @l AND attempt < @a)"
    " AND (node <> '' OR heir IN ('', @n) OR heir_until <= clock_timestamp())"
    " RETURNING pg_notify(@c, 'taken');"
    "UPDATE conclave_history h SET upto = greatest(h.since, l.lapsed_at), why = 'expired'"
    " FROM conclave_lease l WHERE l.election = @e AND l.label = @l"
    " AND l.attempt = @a AND h.election = l.election AND h.token = l.lapsed_token"
    " AND h.upto IS NULL;"
    "INSERT INTO conclave_history (election, token, node, since)"
    " SELECT election, token, node, since FROM conclave_lease WHERE " IS_MINE " AND node <> ''"
    " ON CONFLICT DO NOTHING;" SELECT_ROW;

static const char script_renew[] =
    PROLOGUE "UPDATE conclave_lease SET until = greatest(until, " LEASE_END "), lease_us = @u"
             " WHERE " IS_MINE " AND node <> '' AND @t IN (0, token);" SELECT_ROW;

static const char script_release[] = PROLOGUE
    "UPDATE conclave_lease SET node = '', until = least(until, clock_timestamp()), wish = '',"
    " heir = @h, heir_until = clock_timestamp()"
    "  + least(lease_us, 2000000) * interval '1 microsecond'"
    " WHERE " IS_MINE " AND node <> '' RETURNING pg_notify(@c, 'free');"
    "UPDATE conclave_history h SET upto = greatest(h.since, l.until), why = 'resigned'"
    " FROM conclave_lease l WHERE l.election = @e AND l.label = @l"
    " AND l.attempt = @a AND l.node = '' AND h.election = l.election"
    " AND h.token = l.token AND h.upto IS NULL;" SELECT_ROW;

static const char script_wish[] =
    PROLOGUE "UPDATE conclave_lease SET wish = @h WHERE election = @e AND node <> ''"
             " AND until > clock_timestamp() RETURNING pg_notify(@c, 'wish');" SELECT_ROW;

/* ---- Words about failures ------------------------------------------------------------------ */

/* One line for what the server or libpq said, and what to do about it where we know. */
static void explain(const char *message, const PGresult *wrong, char *ret_why, size_t why_bytes)
{
    const char *state = wrong != NULL ? PQresultErrorField(wrong, PG_DIAG_SQLSTATE) : NULL;
    const char *primary = wrong != NULL ? PQresultErrorField(wrong, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char line[CV_REMOTE_WHY_BYTES - 128];
    cv__remote_one_line(primary != NULL ? primary : message, line, sizeof line);
    if (state != NULL && (strcmp(state, "42P01") == 0 || strcmp(state, "42703") == 0)) {
        (void)snprintf(ret_why, why_bytes,
                       "PostgreSQL: %s; create what is missing with 'conclave store init'", line);
    } else {
        (void)snprintf(ret_why, why_bytes, "PostgreSQL: %s",
                       line[0] != '\0' ? line : "the connection was lost");
    }
}

/* ---- The connection ------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_timer(uv_timer_t *timer);

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void poll_drop(struct cv_store *store)
{
    if (store->poll != NULL) {
        store->poll->store = NULL;
        uv_close((uv_handle_t *)&store->poll->poll, on_poll_closed);
        store->poll = NULL;
    }
}

/* False: without memory, or the descriptor cannot be watched. */
static bool poll_start(struct cv_store *store, int events)
{
    if (store->poll == NULL) {
        struct poll_box *box = calloc(1, sizeof *box);
        if (box == NULL) {
            return false;
        }
        if (uv_poll_init(store->remote.loop, &box->poll, PQsocket(store->pg)) != 0) {
            free(box);
            return false;
        }
        box->poll.data = box;
        box->store = store;
        store->poll = box;
    }
    return uv_poll_start(&store->poll->poll, events, on_poll) == 0;
}

static void results_clear(struct cv_store *store)
{
    PQclear(store->rows);
    PQclear(store->wrong);
    store->rows = NULL;
    store->wrong = NULL;
}

/* Ends the connection; the next one is made after a pause that grows with each failure. */
static void drop(struct cv_store *store)
{
    poll_drop(store); /* first: libpq closes the descriptor */
    results_clear(store);
    PQfinish(store->pg);
    store->pg = NULL;
    store->state = PG_DOWN;
    store->is_heard = false;
    (void)uv_timer_start(&store->timer, on_timer, store->pause_ms, 0);
    store->pause_ms = store->pause_ms * 2 > PAUSE_MS_MAX ? PAUSE_MS_MAX : store->pause_ms * 2;
}

/* No connection was to be had: whoever waits for one is told so. */
static void on_unreachable(struct cv_store *store, const char *message)
{
    char why[CV_REMOTE_WHY_BYTES];
    explain(message, store->wrong, why, sizeof why);
    drop(store);
    cv__remote_fail_all(&store->remote, why);
}

/* libpq would print what the server says besides its answers. */
static void ignore_notice(void *user, const PGresult *result)
{
    (void)user;
    (void)result;
}

static void connect_begin(struct cv_store *store)
{
    CV_ASSERT(store->state == PG_DOWN && store->pg == NULL);
    /* The address may say all of this itself, and then it counts. */
    static const char *const keywords[] = {"fallback_application_name", "client_encoding", "dbname",
                                           NULL};
    const char *const values[] = {"conclave", "UTF8", store->address, NULL};
    store->state = PG_CONNECTING;
    (void)uv_timer_start(&store->timer, on_timer, CONNECT_NS_MAX / NS_PER_MS, 0);
    store->pg = PQconnectStartParams(keywords, values, /* expand_dbname= */ 1);
    if (store->pg == NULL || PQstatus(store->pg) == CONNECTION_BAD) {
        on_unreachable(store, store->pg != NULL ? PQerrorMessage(store->pg) : "out of memory");
        return;
    }
    (void)PQsetNoticeReceiver(store->pg, ignore_notice, NULL);
    if (!poll_start(store, UV_WRITABLE)) { /* as PQconnectPoll's manual has it */
        on_unreachable(store, "the connection cannot be watched");
    }
}

static bool send_script(struct cv_store *store, const char *script)
{
    return PQsendQuery(store->pg, script) == 1 && PQflush(store->pg) >= 0 &&
           poll_start(store, UV_READABLE | (PQflush(store->pg) == 1 ? UV_WRITABLE : 0));
}

static void connect_go_on(struct cv_store *store)
{
    poll_drop(store); /* the next one may have the same number and be another one */
    const PostgresPollingStatusType next = PQconnectPoll(store->pg);
    if (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!poll_start(store, next == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE)) {
            on_unreachable(store, "the connection cannot be watched");
        }
        return;
    }
    if (next == PGRES_POLLING_FAILED) {
        on_unreachable(store, PQerrorMessage(store->pg));
        return;
    }
    store->state = PG_GREETING;
    if (PQsetnonblocking(store->pg, 1) != 0 || !send_script(store, "SELECT pg_backend_pid()")) {
        on_unreachable(store, PQerrorMessage(store->pg));
    }
}

static void begin_request(void *user);

static void on_ready(struct cv_store *store)
{
    store->state = PG_READY;
    store->pause_ms = PAUSE_MS_MIN;
    (void)uv_timer_stop(&store->timer);
    const bool is_back = store->was_ready;
    store->was_ready = true;
    if (store->remote.is_at_work) {
        begin_request(store); /* it waited for the connection */
    }
    if (is_back) {
        cv__remote_news(&store->remote); /* we were deaf for a while */
    }
}

/* The greeting has two parts: who are you, and (if nobody stands between) let me listen. */
static void on_greeted(struct cv_store *store)
{
    if (store->wrong != NULL) {
        on_unreachable(store, PQerrorMessage(store->pg));
        return;
    }
    if (store->rows == NULL) { /* LISTEN returns none */
        store->is_heard = true;
        on_ready(store);
        return;
    }
    const bool is_direct = PQntuples(store->rows) == 1 &&
                           atoi(PQgetvalue(store->rows, 0, 0)) == PQbackendPID(store->pg);
    results_clear(store);
    if (!is_direct) {
        on_ready(store);
        return;
    }
    char listen[64];
    (void)snprintf(listen, sizeof listen, "LISTEN %s", store->channel);
    if (!send_script(store, listen)) {
        on_unreachable(store, PQerrorMessage(store->pg));
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

static const char *script_for(const struct cv_remote_request *one)
{
    if (one->is_wish) {
        return script_wish;
    }
    static const char *const scripts[] = {[CV_STORE_READ] = script_read,
                                          [CV_STORE_ACQUIRE] = script_acquire,
                                          [CV_STORE_RENEW] = script_renew,
                                          [CV_STORE_RELEASE] = script_release};
    return scripts[one->ask.verb];
}

/* Puts the values in their places: @x stands for value[x - 'a']. */
static void fill(char *ret_script, const char *script, const char *const value[26])
{
    size_t length = 0;
    for (const char *at = script; *at != '\0'; at++) {
        if (*at != '@') {
            ret_script[length++] = *at;
        } else {
            at++;
            const char *text = value[*at - 'a'];
            const size_t bytes = strlen(text);
            CV_ASSERT(length + bytes < SCRIPT_BYTES);
            memcpy(ret_script + length, text, bytes);
            length += bytes;
        }
        CV_ASSERT(length < SCRIPT_BYTES);
    }
    ret_script[length] = '\0';
}

struct number_text {
    char text[24];
};

static const char *number_write(int64_t number, struct number_text *text)
{
    (void)snprintf(text->text, sizeof text->text, "%" PRId64, number);
    return text->text;
}

/* The token that this attempt has, or had; 0: none yet. */
static uint64_t known_token(const struct cv_store *store, const struct cv_remote_request *one)
{
    const bool is_known = !one->is_wish && store->granted_attempt == one->ask.attempt;
    return is_known ? store->granted_token : one->ask.token;
}

static bool script_write(struct cv_store *store, const struct cv_remote_request *one,
                         char *ret_script)
{
    const struct cv_remote *remote = &store->remote;
    const char *other = one->is_wish && one->heir[0] == '\0' ? "*" : one->heir;
    char *election = PQescapeLiteral(store->pg, remote->election, strlen(remote->election));
    char *node = PQescapeLiteral(store->pg, remote->node, strlen(remote->node));
    char *heir = PQescapeLiteral(store->pg, other, strlen(other));
    char channel[40], patience[40];
    (void)snprintf(channel, sizeof channel, "'%s'", store->channel);
    (void)snprintf(patience, sizeof patience, "'%" PRId64 "ms'",
                   cv__max64(1, (one->deadline_ns - cv__clock_now_ns()) / NS_PER_MS));
    const bool is_fine = election != NULL && node != NULL && heir != NULL;
    if (is_fine) {
        struct number_text label, attempt, lease, token;
        const char *const value[26] = {
            ['e' - 'a'] = election,
            ['n' - 'a'] = node,
            ['c' - 'a'] = channel,
            ['h' - 'a'] = heir,
            ['p' - 'a'] = patience,
            ['l' - 'a'] = number_write((int64_t)remote->label, &label),
            ['a' - 'a'] = number_write((int64_t)one->ask.attempt, &attempt),
            ['u' - 'a'] = number_write((one->ask.lease_ns + NS_PER_US - 1) / NS_PER_US, &lease),
            ['t' - 'a'] = number_write((int64_t)known_token(store, one), &token)};
        fill(ret_script, script_for(one), value);
    }
    PQfreemem(election);
    PQfreemem(node);
    PQfreemem(heir);
    return is_fine;
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    if (store->state == PG_DOWN && !uv_is_active((uv_handle_t *)&store->timer)) {
        connect_begin(store); /* otherwise the pause is not over yet */
    }
    if (store->state != PG_READY || !store->remote.is_at_work) {
        return; /* on_ready() comes back here */
    }
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (!one->is_wish) {
        store->is_reading = one->ask.verb == CV_STORE_READ;
    }
    static _Thread_local char script[SCRIPT_BYTES]; /* too much for a small stack */
    if (!script_write(store, one, script)) {
        cv__remote_fail(&store->remote, "PostgreSQL: %s", "out of memory");
        return;
    }
    store->state = PG_ASKING;
    if (!send_script(store, script)) {
        on_unreachable(store, PQerrorMessage(store->pg));
    }
}

static int64_t number(const PGresult *rows, const char *name)
{
    return strtoll(PQgetvalue(rows, 0, PQfnumber(rows, name)), NULL, 10);
}

static void text(const PGresult *rows, const char *name, char *ret_text, size_t bytes)
{
    (void)snprintf(ret_text, bytes, "%s", PQgetvalue(rows, 0, PQfnumber(rows, name)));
}

/* How long until it is worth asking again: until the end, or less if news do not reach us. */
static int64_t wait_ns(const struct cv_store *store, int64_t remaining_ns, int64_t lease_ns)
{
    const int64_t look_ns = cv__max64(50 * NS_PER_MS, cv__min64(lease_ns / 10, NS_PER_S));
    const int64_t left_ns = cv__max64(0, remaining_ns);
    return store->is_heard ? left_ns : cv__min64(left_ns, look_ns);
}

static void answer_request(struct cv_store *store, PGresult *rows)
{
    struct cv_remote *remote = &store->remote;
    const struct cv_remote_request *one = cv__remote_current(remote);
    const enum cv_store_verb verb = one->ask.verb;
    struct cv_store_record record = {0};
    struct cv_store_answer answer = {.verdict = CV_STORE_FREE, .record = &record};
    if (rows == NULL || PQntuples(rows) == 0) { /* nobody ever asked for this election */
        cv__remote_answer(remote, answer);
        return;
    }
    text(rows, "node", record.node, sizeof record.node);
    text(rows, "wish", record.wish, sizeof record.wish);
    record.label = (uint64_t)number(rows, "label");
    record.token = (uint64_t)number(rows, "token");
    record.lease_ns = number(rows, "lease_us") * NS_PER_US;
    record.remaining_ns = number(rows, "remaining_us") * NS_PER_US;
    record.since_wall_ns = number(rows, "since_us") * NS_PER_US;
    const int64_t kept_ns = number(rows, "kept_us") * NS_PER_US;
    const bool is_free = record.node[0] == '\0' || record.remaining_ns <= 0;
    const uint64_t known = known_token(store, one);
    const bool is_mine = record.label == remote->label &&
                         (uint64_t)number(rows, "attempt") == one->ask.attempt &&
                         (known == 0 || known == record.token);

    answer.token = record.token;
    answer.holder = record.label;
    const bool is_claim = !one->is_wish && (verb == CV_STORE_ACQUIRE || verb == CV_STORE_RENEW);
    if (!one->is_wish) {
        store->is_holding = is_claim && is_mine && !is_free;
    }
    if (is_claim && is_mine && !is_free) {
        answer.verdict = CV_STORE_GRANTED;
        answer.duration_ns = one->ask.lease_ns; /* since the asking; the row's end is later */
        store->granted_attempt = one->ask.attempt;
        store->granted_token = record.token;
    } else if (!one->is_wish && verb == CV_STORE_ACQUIRE && (is_mine || known != 0)) {
        cv__remote_fail(remote, "PostgreSQL: attempt %" PRIu64 " was lost or released before",
                        one->ask.attempt);
        return;
    } else if (!one->is_wish && verb == CV_STORE_RELEASE) {
        answer.verdict = CV_STORE_FREE; /* of us, whoever may hold it by now */
    } else if (!is_free) {
        answer.verdict = CV_STORE_HELD;
        answer.duration_ns = wait_ns(store, record.remaining_ns, record.lease_ns);
    } else if (!one->is_wish && verb == CV_STORE_ACQUIRE) {
        answer.verdict = CV_STORE_HELD; /* kept for an heir, or it has become free just now */
        answer.duration_ns = wait_ns(store, kept_ns, record.lease_ns);
    }
    cv__remote_answer(remote, answer);
}

static void on_answered(struct cv_store *store)
{
    store->state = PG_READY;
    PGresult *rows = store->rows;
    PGresult *wrong = store->wrong;
    store->rows = NULL;
    store->wrong = NULL;
    if (wrong != NULL) {
        char why[CV_REMOTE_WHY_BYTES];
        explain(PQresultErrorMessage(wrong), wrong, why, sizeof why);
        cv__remote_fail(&store->remote, "%s", why);
    } else {
        answer_request(store, rows); /* may close the store, which lives until the loop turns */
    }
    PQclear(rows);
    PQclear(wrong);
}

static void take_notifications(struct cv_store *store)
{
    bool is_news = false;
    for (PGnotify *one; (one = PQnotifies(store->pg)) != NULL; PQfreemem(one)) {
        const bool is_ours = one->be_pid == PQbackendPID(store->pg);
        const bool is_wish = strcmp(one->extra, "wish") == 0;
        const bool is_taken = strcmp(one->extra, "taken") == 0;
        is_news = is_news ||
                  (!is_ours && (store->is_reading || (is_wish ? store->is_holding : !is_taken)));
    }
    if (is_news) {
        cv__remote_news(&store->remote);
    }
}

/* The connection broke. What is at work is asked again on the next one, for nothing is harmed if
 * the server did it already; if there is no next one, on_unreachable() answers. */
static void on_broken(struct cv_store *store)
{
    const bool is_new = store->state == PG_GREETING;
    char why[CV_REMOTE_WHY_BYTES];
    explain(PQerrorMessage(store->pg), store->wrong, why, sizeof why);
    drop(store);
    if (is_new) {
        cv__remote_fail_all(&store->remote, why);
    } else {
        (void)uv_timer_stop(&store->timer); /* at once, the first time */
        connect_begin(store);
    }
}

static void on_readable(struct cv_store *store)
{
    if (PQconsumeInput(store->pg) == 0) {
        on_broken(store);
        return;
    }
    const bool is_asking = store->state == PG_ASKING || store->state == PG_GREETING;
    while (is_asking && PQisBusy(store->pg) == 0) {
        PGresult *result = PQgetResult(store->pg);
        if (result == NULL) {
            if (PQstatus(store->pg) == CONNECTION_BAD) {
                on_broken(store);
            } else if (store->state == PG_GREETING) {
                on_greeted(store);
            } else {
                on_answered(store);
            }
            break;
        }
        PGresult **kept = NULL;
        if (PQresultStatus(result) == PGRES_TUPLES_OK) {
            kept = &store->rows; /* the last one counts */
        } else if (PQresultStatus(result) == PGRES_FATAL_ERROR && store->wrong == NULL) {
            kept = &store->wrong;
        }
        if (kept != NULL) {
            PQclear(*kept);
            *kept = result;
        } else {
            PQclear(result);
        }
    }
    if (!store->remote.is_closing && store->pg != NULL && store->state >= PG_READY) {
        take_notifications(store);
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct cv_store *store = ((struct poll_box *)handle->data)->store;
    CV_ASSERT(store != NULL); /* a closed handle does not call */
    if (store->state == PG_CONNECTING) {
        connect_go_on(store);
        return;
    }
    if (status < 0) {
        on_broken(store);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        const int flushed = PQflush(store->pg);
        if (flushed < 0 || !poll_start(store, UV_READABLE | (flushed == 1 ? UV_WRITABLE : 0))) {
            on_broken(store);
            return;
        }
    }
    if ((events & UV_READABLE) != 0) {
        on_readable(store);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct cv_store *store = timer->data;
    if (store->state == PG_DOWN) {
        connect_begin(store); /* also if nobody asks: news come through it */
    } else {
        on_unreachable(store, "the server does not answer");
    }
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    const bool is_asked = store->state == PG_ASKING;
    if (is_asked) {
        drop(store); /* so that an answer that comes later goes nowhere */
    }
    cv__remote_fail(&store->remote, "PostgreSQL: %s",
                    is_asked ? "no answer in time" : "no connection in time");
}

/* ---- The table ----------------------------------------------------------------------------- */

static void pg_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_wish= */ false);
}

static void pg_wish(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_wish= */ true);
}

static int check_address(const char *address, struct cv_errtext *reterr)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(address, &message);
    if (options == NULL) {
        char line[256];
        cv__remote_one_line(message != NULL ? message : "out of memory", line, sizeof line);
        PQfreemem(message);
        return cv__fail(reterr, CV_E_INVALID, "address of PostgreSQL: %s", line);
    }
    PQconninfoFree(options);
    return CV_OK;
}

static int pg_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                   struct cv_errtext *reterr)
{
    const int code = check_address(setting->address, reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_store *store = calloc(1, sizeof *store);
    char *address = strdup(setting->address);
    if (store == NULL || address == NULL) {
        free(store);
        free(address);
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    store->address = address;
    store->pause_ms = PAUSE_MS_MIN;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: a collision costs a needless look */
    for (const char *at = setting->election; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    (void)snprintf(store->channel, sizeof store->channel, "conclave_%016" PRIx64, hash);
    cv__remote_init(&store->remote, setting, store, begin_request, give_up);
    (void)uv_timer_init(setting->loop, &store->timer); /* cannot fail */
    store->timer.data = store;
    *ret_store = store;
    return CV_OK;
}

static void pg_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    free(store->address);
    free(store);
    closed(closed_user);
}

static void pg_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    cv__remote_close_begin(&store->remote, closed, user);
    poll_drop(store);
    results_clear(store);
    PQfinish(store->pg);
    store->pg = NULL;
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->timer);
    cv__remote_close_end(&store->remote, pg_last);
}

/* ---- For commands, which wait ---------------------------------------------------------------- */

static int connect_and_wait(const char *address, PGconn **ret_pg, struct cv_errtext *reterr)
{
    const int code = check_address(address, reterr);
    if (code != CV_OK) {
        return code;
    }
    static const char *const keywords[] = {"fallback_application_name", "client_encoding",
                                           "connect_timeout", "dbname", NULL};
    const char *const values[] = {"conclave", "UTF8", "10", address, NULL};
    PGconn *pg = PQconnectdbParams(keywords, values, /* expand_dbname= */ 1);
    if (pg == NULL || PQstatus(pg) != CONNECTION_OK) {
        char why[CV_REMOTE_WHY_BYTES];
        explain(pg != NULL ? PQerrorMessage(pg) : "out of memory", NULL, why, sizeof why);
        PQfinish(pg);
        return cv__fail(reterr, CV_E_STORE, "%s", why);
    }
    *ret_pg = pg;
    return CV_OK;
}

static int fail_result(const PGresult *result, struct cv_errtext *reterr)
{
    char why[CV_REMOTE_WHY_BYTES];
    explain(PQresultErrorMessage(result), result, why, sizeof why);
    return cv__fail(reterr, CV_E_STORE, "%s", why);
}

static int pg_create(const char *address, struct cv_errtext *reterr)
{
    PGconn *pg;
    int code = connect_and_wait(address, &pg, reterr);
    if (code != CV_OK) {
        return code;
    }
    (void)PQsetNoticeReceiver(pg, ignore_notice, NULL);
    PGresult *result = PQexec(pg, schema);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        code = fail_result(result, reterr);
    }
    PQclear(result);
    PQfinish(pg);
    return code;
}

static int pg_history(const char *address, const char *election,
                      void (*past)(void *user, const struct cv_store_past *past), void *user,
                      struct cv_errtext *reterr)
{
    PGconn *pg;
    int code = connect_and_wait(address, &pg, reterr);
    if (code != CV_OK) {
        return code;
    }
    PGresult *rows =
        PQexecParams(pg,
                     "SELECT node, token, (extract(epoch FROM since) * 1000000)::bigint,"
                     " coalesce((extract(epoch FROM upto) * 1000000)::bigint, 0), why"
                     " FROM conclave_history WHERE election = $1 ORDER BY token",
                     1, NULL, &election, NULL, NULL, /* resultFormat= */ 0);
    if (PQresultStatus(rows) != PGRES_TUPLES_OK) {
        code = fail_result(rows, reterr);
    }
    for (int i = 0; code == CV_OK && i < PQntuples(rows); i++) {
        struct cv_store_past one = {
            .token = (uint64_t)strtoll(PQgetvalue(rows, i, 1), NULL, 10),
            .from_wall_ns = strtoll(PQgetvalue(rows, i, 2), NULL, 10) * NS_PER_US,
            .to_wall_ns = strtoll(PQgetvalue(rows, i, 3), NULL, 10) * NS_PER_US};
        (void)snprintf(one.node, sizeof one.node, "%s", PQgetvalue(rows, i, 0));
        (void)snprintf(one.why, sizeof one.why, "%s", PQgetvalue(rows, i, 4));
        past(user, &one);
    }
    PQclear(rows);
    PQfinish(pg);
    return code;
}

static int pg_names(const char *address, void (*name)(void *user, const char *name), void *user,
                    struct cv_errtext *reterr)
{
    PGconn *pg;
    int code = connect_and_wait(address, &pg, reterr);
    if (code != CV_OK) {
        return code;
    }
    PGresult *rows = PQexec(pg, "SELECT election FROM conclave_lease ORDER BY election");
    if (PQresultStatus(rows) != PGRES_TUPLES_OK) {
        code = fail_result(rows, reterr);
    }
    for (int i = 0; code == CV_OK && i < PQntuples(rows); i++) {
        name(user, PQgetvalue(rows, i, 0));
    }
    PQclear(rows);
    PQfinish(pg);
    return code;
}

static const struct cv_store_kind kind = {
    .scheme = "postgres",
    .summary = "a row in PostgreSQL, also through a transaction pooler",
    .example = "postgres://app@db.example/app?sslmode=verify-full",
    .clock = "the server's (clock_timestamp), which must not leap forward",
    .news = "LISTEN and NOTIFY; through a pooler, looking often",
    .lease_ns_min = 100 * NS_PER_MS,
    .lease_ns_step = NS_PER_US,
    .grant_percent = 100,
    .open = pg_open,
    .ask = pg_ask,
    .wish = pg_wish,
    .close = pg_close,
    .create = pg_create,
    .history = pg_history,
    .names = pg_names,
};

CV_MODULE(kind)
