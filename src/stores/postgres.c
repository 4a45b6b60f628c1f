/* src/stores/postgres.c - `postgres://...`: a row for each election; the server's clock decides.
 *
 * Every request is a few statements, which the server runs as one transaction: one round trip and
 * no session state between two requests. So a pooler in transaction mode, a fail-over or a lost
 * connection breaks nothing. There are no session locks [traps.md T29]. The row is changed by an
 * UPDATE whose condition is checked again once it has the row's lock, with clock_timestamp(), which
 * goes on while a statement waits.
 *
 * Why it is safe. A lease ends at the server's now + lease, and that now is later than the request.
 * The holder counts from the request, so it stops first [traps.md T3]. A renewal never shortens a
 * lease, because its answer may be lost. If the server commits without waiting for its disk
 * (synchronous_commit = off), we ask it to wait: a grant that a crash undoes would be granted
 * twice. Tokens come from a sequence, which survives the deletion of the row, and are also larger
 * than the row's last token. The released attempt is kept: a late copy of its ACQUIRE finds that it
 * is over.
 *
 * All elections of a loop on one address share one connection. When it is free, the waiting
 * requests are sent together, as one transaction, in the order of their elections' names, so that
 * two programs never deadlock on each other's rows. If such a transaction fails, it has no effect,
 * and each of its requests is sent again alone. A request that keeps failing is always sent alone,
 * with a short time-out for locks, so that it cannot fail the others. A request that is not
 * answered in time is answered FAILED while the others go on waiting; the connection is given up if
 * the server has never been so slow before, or if no request is waiting for it.
 *
 * Assumptions: the server's clock does not jump forward by more than the drift allowance, and the
 * server keeps committed data (fsync is on; a fail-over is to a synchronous standby).
 *
 * Notifications: NOTIFY is sent with each change, on a channel for each election, and LISTEN on the
 * same connection receives it. Behind a pooler (pg_link.c) contenders poll instead. The RELEASE
 * itself gives the row to the next contender (pg_next.h). */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/pg_commands.h"
#include "stores/pg_next.h"
#include "stores/pg_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define MESSAGE_BYTES (16 * CV_PG_SCRIPT_BYTES) /* of typical requests it takes CV_PG_RESULTS_MAX */
#define CHANNEL_BYTES 32
#define UNHEARD_MAX 64 /* channels to stop listening to; more only cost needless requests */
#define LOCK_NS_MIN (20 * NS_PER_MS)
#define SLOW_FACTOR 4 /* times the longest answer so far: a slower server is given up */
#define NEXT_PARTS 3  /* the next contender registers this often in its lease */

struct server;

/* One election's part. Invariants: is_queued iff in the server's queue; slot is the place in the
 * message at the server, or -1. */
struct cv_store {
    struct cv_remote remote;
    struct server *server;
    struct cv_store *next; /* of the server's stores */
    bool is_queued;
    TAILQ_ENTRY(cv_store) in_queue;
    int slot;
    bool is_suspect;   /* its last message failed: it is asked by itself */
    bool is_listening; /* on this connection */
    bool is_reading;   /* the last one asked READ only, so that every change matters */
    bool is_holding;   /* the last answer was GRANTED */
    bool has_row;      /* the last answer had the election's row */
    uint64_t granted_attempt, granted_token;
    struct cv_pg_next place; /* what it knows of being the next one */
    uv_timer_t again;        /* it is time to register again */
    char channel[CHANNEL_BYTES];
};

/* One connection, for all elections of a loop on one address. */
struct server {
    struct cv_shared shared; /* its key is the address */
    struct cv_shared_list *list;
    struct cv_pg_link link;
    struct cv_store *stores;
    TAILQ_HEAD(queue, cv_store) queue; /* stores with a request to send */
    bool was_alone; /* the last message was that of a suspect: the others are next */

    struct cv_store *asked[CV_PG_RESULTS_MAX]; /* by the message at the server; NULL: given up */
    uint32_t asked_count;
    bool is_listen;              /* the message is about channels */
    bool was_prepared;           /* the server has confirmed link.is_prepared */
    int64_t sent_ns, slowest_ns; /* slowest: of late, fading */
    char unheard[UNHEARD_MAX][CHANNEL_BYTES];
    uint32_t unheard_count;
    char message[MESSAGE_BYTES];
};

/* ---- The queue ----------------------------------------------------------------------------- */

static void server_work(struct server *server);

static void queue_add(struct cv_store *store)
{
    CV_ASSERT(!store->is_queued);
    store->is_queued = true;
    TAILQ_INSERT_TAIL(&store->server->queue, store, in_queue);
}

static void queue_remove(struct cv_store *store)
{
    if (store->is_queued) {
        store->is_queued = false;
        TAILQ_REMOVE(&store->server->queue, store, in_queue);
    }
}

/* Its answer is not waited for any more; the others of the message go on. */
static void slot_leave(struct cv_store *store)
{
    if (store->slot >= 0) {
        store->server->asked[store->slot] = NULL;
        store->slot = -1;
    }
}

/* The requests of the message at the server have to be sent once more. */
static void slots_requeue(struct server *server)
{
    for (uint32_t i = 0; i < server->asked_count; i++) {
        struct cv_store *store = server->asked[i];
        if (store != NULL) {
            slot_leave(store);
            queue_add(store);
        }
    }
    server->asked_count = 0;
    server->is_listen = false;
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* The token that this attempt has, or had; 0: none yet. */
static uint64_t known_token(const struct cv_store *store, const struct cv_remote_request *one)
{
    if (one->ask.runs != NULL) {
        return one->ask.runs->token;
    }
    if (one->ask.list != NULL || one->ask.forgets) {
        return 0;
    }
    const bool is_known = !one->is_resign_request && store->granted_attempt == one->ask.attempt;
    return is_known ? store->granted_token : one->ask.token;
}

static bool is_of_record(const struct cv_remote_request *one)
{
    return !one->is_resign_request && one->ask.runs == NULL && one->ask.list == NULL &&
           !one->ask.forgets;
}

static bool is_acquire(const struct cv_remote_request *one)
{
    return is_of_record(one) && one->ask.verb == CV_STORE_ACQUIRE;
}

/* What this request registers with; 0: it does not register. */
static uint64_t secret_of(struct cv_store *store, const struct cv_remote_request *one)
{
    const struct cv_pg_link *link = &store->server->link;
    if (is_of_record(one) && one->ask.verb == CV_STORE_RELEASE) {
        store->place = (struct cv_pg_next){0}; /* that attempt is over */
    }
    const bool may_register =
        is_acquire(one) && link->has_next && link->is_direct && known_token(store, one) == 0;
    return may_register ? cv__pg_next_secret(&store->place, one->ask.attempt) : 0;
}

/* Puts one request into the message. False: there is no memory. */
static bool message_add(struct cv_store *store, size_t *length)
{
    struct server *server = store->server;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (is_of_record(one)) {
        store->is_reading = one->ask.verb == CV_STORE_READ;
    }
    CV_ASSERT(*length + CV_PG_SCRIPT_BYTES <= MESSAGE_BYTES);
    const struct cv_pg_asker asker = {.link = &server->link,
                                      .remote = &store->remote,
                                      .channel = store->channel,
                                      .token = known_token(store, one),
                                      .has_row = store->has_row,
                                      .secret = secret_of(store, one)};
    if (!cv__pg_request_write(&asker, one, server->message + *length)) {
        return false;
    }
    *length += strlen(server->message + *length);
    store->slot = (int)server->asked_count;
    server->asked[server->asked_count++] = store;
    return true;
}

static int compare_elections(const void *a, const void *b)
{
    const struct cv_store *const *left = a, *const *right = b;
    return strcmp((*left)->remote.election, (*right)->remote.election);
}

/* The stores whose requests go together: one suspect, or as many of the others as fit. */
static uint32_t choose(struct server *server, struct cv_store *ret_chosen[CV_PG_RESULTS_MAX])
{
    uint32_t count = 0;
    struct cv_store *suspect = NULL;
    for (struct cv_store *store = TAILQ_FIRST(&server->queue); store != NULL;
         store = TAILQ_NEXT(store, in_queue)) {
        if (store->is_suspect) {
            suspect = suspect != NULL ? suspect : store;
        } else if (count < CV_PG_RESULTS_MAX) {
            ret_chosen[count++] = store;
        }
    }
    server->was_alone = suspect != NULL && (count == 0 || !server->was_alone);
    if (server->was_alone) {
        ret_chosen[0] = suspect;
        return 1;
    }
    qsort(ret_chosen, count, sizeof ret_chosen[0], compare_elections);
    return count;
}

/* How long the statements may wait for locks: one that somebody keeps must not hold up everybody
 * else for long. */
static int64_t choose_patience_ns(struct cv_store *const *chosen, uint32_t count)
{
    int64_t left_ns = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct cv_remote_request *one = cv__remote_current(&chosen[i]->remote);
        left_ns = cv__min64(left_ns, one->deadline_ns - cv__clock_now_ns());
    }
    return cv__max64(LOCK_NS_MIN, left_ns / 4);
}

/* Stores that are new on this connection listen before their first request: they miss nothing. The
 * first of them has our statements prepared. */
static bool listen_write(struct server *server)
{
    size_t length = 0;
    if (server->link.may_prepare && !server->link.is_prepared) {
        length = cv__pg_session_write(server->message);
        for (int verb = CV_STORE_READ; verb <= CV_STORE_RELEASE; verb++) {
            length += cv__pg_prepare_write(&server->link, (enum cv_store_verb)verb,
                                           server->message + length);
        }
        server->link.is_prepared = true;
    }
    for (; server->unheard_count > 0; server->unheard_count--) {
        length += (size_t)sprintf(server->message + length, "UNLISTEN %s;",
                                  server->unheard[server->unheard_count - 1]);
    }
    for (struct cv_store *store = server->stores; store != NULL; store = store->next) {
        if (!store->is_listening && length + CV_PG_SCRIPT_BYTES < MESSAGE_BYTES) {
            length += (size_t)sprintf(server->message + length, "LISTEN %s;", store->channel);
            store->is_listening = true;
        }
    }
    return length > 0;
}

static void on_lost(void *self);

static void message_send(struct server *server)
{
    server->sent_ns = cv__clock_now_ns();
    if (!cv__pg_send(&server->link, server->message)) {
        on_lost(server);
    }
}

/* Sends what waits, if the connection is there and free. */
static void server_work(struct server *server)
{
    if (TAILQ_EMPTY(&server->queue)) {
        return;
    }
    cv__pg_connect(&server->link);
    if (server->link.state != CV_PG_READY) {
        return; /* on_ready() or on_answered() comes back here */
    }
    if (server->link.is_direct && listen_write(server)) {
        server->is_listen = true;
        message_send(server);
        return;
    }
    struct cv_store *chosen[CV_PG_RESULTS_MAX];
    const uint32_t count = choose(server, chosen);
    cv__pg_prologue_write(&server->link, choose_patience_ns(chosen, count), server->message);
    size_t length = strlen(server->message);
    for (uint32_t i = 0; i < count && length + CV_PG_SCRIPT_BYTES <= MESSAGE_BYTES; i++) {
        queue_remove(chosen[i]);
        if (!message_add(chosen[i], &length)) {
            cv__remote_fail(&chosen[i]->remote, "PostgreSQL: %s", "out of memory");
        }
    }
    if (server->asked_count > 0) {
        message_send(server);
    }
}

/* The row was given to us before we asked: see pg_next.h. */
static bool answer_given(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    const int64_t left_ns = is_acquire(one) ? cv__pg_next_left_ns(&store->place, one) : 0;
    if (left_ns <= 0) {
        return false;
    }
    struct cv_store_record record = {.label = store->remote.label,
                                     .token = store->place.given_token,
                                     .lease_ns = one->ask.lease_ns,
                                     .remaining_ns = left_ns,
                                     .since_wall_ns = cv__clock_wall_ns()};
    memcpy(record.node, store->remote.node, sizeof record.node);
    CV_ASSERT(store->granted_attempt == one->ask.attempt);
    CV_ASSERT(store->granted_token == store->place.given_token);
    store->is_holding = true;
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED,
                                                               .token = record.token,
                                                               .holder = record.label,
                                                               .duration_ns = left_ns,
                                                               .record = &record});
    cv__remote_notify(&store->remote); /* a renewal gives it its whole lease */
    return true;
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    if (is_of_record(cv__remote_current(&store->remote))) {
        (void)uv_timer_stop(&store->again); /* its answer starts it again */
    }
    if (!answer_given(store)) {
        queue_add(store);
        server_work(store->server);
    }
}

static void on_again(uv_timer_t *timer)
{
    struct cv_store *store = timer->data;
    cv__remote_notify(&store->remote);
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    struct server *server = store->server;
    const bool is_asked = store->slot >= 0;
    const bool is_connected = server->link.state >= CV_PG_READY;
    queue_remove(store);
    slot_leave(store);
    if (is_asked) {
        bool is_awaited = false;
        for (uint32_t i = 0; i < server->asked_count; i++) {
            is_awaited = is_awaited || server->asked[i] != NULL;
        }
        const int64_t taken_ns = cv__clock_now_ns() - server->sent_ns;
        if (!is_awaited || taken_ns > SLOW_FACTOR * server->slowest_ns) {
            cv__pg_drop(&server->link); /* so that a late answer is not taken for another's */
            on_lost(server);
        }
    }
    cv__remote_fail(&store->remote, "PostgreSQL: %s",
                    is_asked || is_connected ? "no answer in time" : "no connection in time");
}

/* ---- What the connection says -------------------------------------------------------------- */

static void on_lost(void *self)
{
    struct server *server = self;
    slots_requeue(server);
    server->unheard_count = 0;
    server->was_prepared = false;
    for (struct cv_store *store = server->stores; store != NULL; store = store->next) {
        store->is_listening = false;
        store->place = (struct cv_pg_next){0}; /* notifications may be missed from now on */
    }
}

static void on_ready(void *self, bool is_back)
{
    struct server *server = self;
    server_work(server);
    for (struct cv_store *store = server->stores, *next; is_back && store != NULL; store = next) {
        next = store->next;                /* a store that is closed lives until the loop turns */
        cv__remote_notify(&store->remote); /* notifications may have been missed */
    }
}

static void on_failed(void *self, const char *why)
{
    struct server *server = self;
    on_lost(server);
    for (struct cv_store *store = server->stores, *next; store != NULL; store = next) {
        next = store->next;
        queue_remove(store);
        cv__remote_fail_all(&store->remote, why);
    }
}

static const char *value(const PGresult *rows, const char *name)
{
    return cv__pg_value(rows, 0, PQfnumber(rows, name));
}

static int64_t number(const PGresult *rows, const char *name)
{
    return strtoll(value(rows, name), NULL, 10);
}

static int64_t time_ns(const PGresult *rows, const char *name)
{
    return cv__pg_time_ns(value(rows, name));
}

static void text(const PGresult *rows, const char *name, char *ret_text, size_t bytes)
{
    (void)snprintf(ret_text, bytes, "%s", value(rows, name));
}

/* Why nobody holds the row; a holder whose lease ran out left no reason. */
static enum cv_reason ended(const PGresult *rows, bool has_holder)
{
    const enum cv_reason why =
        has_holder ? CV_REASON_EXPIRED : cv__reason_find(value(rows, "ended"));
    return why != CV_REASON_COUNT ? why : CV_REASON_STARTED;
}

/* "7 1700000000000000 resigned db1": the leadership before the holder's. */
static void read_last(const PGresult *rows, struct cv_store_end *ret_end)
{
    uint64_t token;
    int64_t wall_us;
    char why[32];
    int node_at = 0;
    const char *line = value(rows, "last_end");
    *ret_end = (struct cv_store_end){.token = 0};
    if (sscanf(line, "%" SCNu64 " %" SCNd64 " %31s %n", &token, &wall_us, why, &node_at) < 3) {
        return;
    }
    const enum cv_reason found = cv__reason_find(why);
    ret_end->token = token;
    ret_end->why = found != CV_REASON_COUNT ? found : CV_REASON_GONE;
    ret_end->wall_ns = wall_us * NS_PER_US;
    (void)snprintf(ret_end->node, sizeof ret_end->node, "%s", line + node_at);
}

/* How long until it is worth asking again: until the end, or less if notifications do not reach
 * us. */
static int64_t wait_ns(const struct cv_store *store, int64_t remaining_ns, int64_t lease_ns)
{
    const int64_t look_ns = cv__max64(50 * NS_PER_MS, cv__min64(lease_ns / 10, NS_PER_S));
    const int64_t left_ns = cv__max64(0, remaining_ns);
    return store->server->link.is_direct ? left_ns : cv__min64(left_ns, look_ns);
}

/* An answer to ACQUIRE said that another holds the row, and how long our registration lasts. */
static void registered(struct cv_store *store, const struct cv_remote_request *one,
                       int64_t remaining_ns)
{
    cv__pg_next_seen(&store->place, one, remaining_ns);
    if (store->place.sure_ns > 0) {
        const int64_t again_ns = one->ask.lease_ns / NEXT_PARTS;
        (void)uv_timer_start(&store->again, on_again, (uint64_t)(again_ns / NS_PER_MS), 0);
    }
}

static void answer_runs(struct cv_remote *remote, const PGresult *rows, struct cv_store_runs *runs)
{
    enum cv_store_verdict verdict = CV_STORE_GRANTED;
    if (runs->token == 0) {
        runs->version = (uint64_t)number(rows, "version");
        text(rows, "text", runs->text, sizeof runs->text);
    } else if (number(rows, "is_written") == 0) {
        verdict = number(rows, "is_held") == 0 ? CV_STORE_HELD : CV_STORE_CHANGED;
    }
    cv__remote_answer(remote, (struct cv_store_answer){.verdict = verdict, .token = runs->token});
}

static void answer_list(struct cv_remote *remote, const PGresult *rows, struct cv_store_list *list)
{
    const int name = PQfnumber(rows, "waits"), since = PQfnumber(rows, "waits_us");
    const int version = PQfnumber(rows, "waits_version");
    const bool is_whole = rows != NULL && name >= 0 && since >= 0 && version >= 0;
    for (int i = 0; is_whole && i < PQntuples(rows); i++) {
        cv__store_list_add(list, PQgetvalue(rows, i, name),
                           strtoll(PQgetvalue(rows, i, since), NULL, 10) * NS_PER_US,
                           PQgetvalue(rows, i, version));
    }
    cv__remote_answer(remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED});
}

static void answer_forget(struct cv_remote *remote, const PGresult *rows)
{
    const bool is_held = rows != NULL && PQntuples(rows) > 0;
    cv__remote_answer(
        remote, (struct cv_store_answer){.verdict = is_held ? CV_STORE_HELD : CV_STORE_GRANTED});
}

static void read_record(const PGresult *rows, struct cv_store_record *ret_record)
{
    *ret_record = (struct cv_store_record){0};
    text(rows, "node", ret_record->node, sizeof ret_record->node);
    text(rows, "wish", ret_record->resign_request, sizeof ret_record->resign_request);
    ret_record->label = (uint64_t)number(rows, "label");
    ret_record->token = (uint64_t)number(rows, "token");
    ret_record->lease_ns = time_ns(rows, "lease_us");
    ret_record->remaining_ns = time_ns(rows, "remaining_us");
    ret_record->since_wall_ns = time_ns(rows, "since_us");
    text(rows, "holder_version", ret_record->version, sizeof ret_record->version);
    read_last(rows, &ret_record->last);
    const bool has_holder = ret_record->node[0] != '\0';
    ret_record->ended = ended(rows, has_holder);
    ret_record->ended_wall_ns =
        has_holder && ret_record->remaining_ns <= 0 ? time_ns(rows, "until_us") : 0;
}

/* Answers a request about the record of the election. */
static void answer_record(struct cv_store *store, const struct cv_remote_request *one,
                          const PGresult *rows)
{
    struct cv_remote *remote = &store->remote;
    const enum cv_store_verb verb = one->ask.verb;
    struct cv_store_record record = {0};
    struct cv_store_answer answer = {.verdict = CV_STORE_FREE, .record = &record};
    const bool had_row = store->has_row;
    store->has_row = rows != NULL && PQntuples(rows) > 0;
    if (had_row && !store->has_row && verb == CV_STORE_ACQUIRE && !one->is_resign_request) {
        queue_add(store); /* it was forgotten meanwhile: once more, and make the row */
        return;
    }
    if (!store->has_row) { /* nobody ever asked for this election */
        cv__remote_answer(remote, answer);
        return;
    }
    read_record(rows, &record);
    const int64_t kept_ns = time_ns(rows, "kept_us");
    const bool is_free = record.node[0] == '\0' || record.remaining_ns <= 0;
    const uint64_t known = known_token(store, one);
    const bool is_mine = record.label == remote->label &&
                         (uint64_t)number(rows, "attempt") == one->ask.attempt &&
                         (known == 0 || known == record.token);

    answer.token = record.token;
    const bool is_claim =
        !one->is_resign_request && (verb == CV_STORE_ACQUIRE || verb == CV_STORE_RENEW);
    if (!one->is_resign_request) {
        store->is_holding = is_claim && is_mine && !is_free;
    }
    if (is_claim && is_mine && !is_free) {
        answer.verdict = CV_STORE_GRANTED;
        answer.duration_ns = one->ask.lease_ns; /* since the asking; the row's end is later */
        store->granted_attempt = one->ask.attempt;
        store->granted_token = record.token;
    } else if (!one->is_resign_request && verb == CV_STORE_ACQUIRE && (is_mine || known != 0)) {
        answer.verdict = CV_STORE_FREE; /* it was lost or released before */
    } else if (!one->is_resign_request && verb == CV_STORE_RELEASE &&
               (is_free || record.label == remote->label)) {
        answer.verdict = CV_STORE_FREE; /* of us */
    } else if (!is_free) {
        answer.verdict = CV_STORE_HELD;
        answer.duration_ns = wait_ns(store, record.remaining_ns, record.lease_ns);
        if (is_claim && verb == CV_STORE_ACQUIRE) {
            registered(store, one, time_ns(rows, "next_us"));
        }
    } else if (!one->is_resign_request && verb == CV_STORE_ACQUIRE) {
        answer.verdict = CV_STORE_HELD; /* kept for an heir, or it has become free just now */
        answer.duration_ns = wait_ns(store, kept_ns, record.lease_ns);
    }
    answer.holder = answer.verdict != CV_STORE_FREE ? record.label : 0;
    cv__remote_answer(remote, answer);
}

static void answer_request(struct cv_store *store, const PGresult *rows)
{
    struct cv_remote *remote = &store->remote;
    const struct cv_remote_request *one = cv__remote_current(remote);
    if (one->ask.runs != NULL) {
        answer_runs(remote, rows, one->ask.runs);
    } else if (one->ask.list != NULL) {
        one->ask.list->is_partial = !store->server->link.is_direct; /* see pg_script.c: @k */
        answer_list(remote, rows, one->ask.list);
    } else if (one->ask.forgets) {
        answer_forget(remote, rows);
    } else {
        answer_record(store, one, rows);
    }
}

/* From now on this connection is sent whole statements. */
static void stop_preparing(struct server *server)
{
    server->link.may_prepare = server->link.is_prepared = false;
}

static void listen_answered(struct server *server, const PGresult *wrong)
{
    server->is_listen = false;
    if (wrong != NULL && server->link.is_prepared && !server->was_prepared) {
        stop_preparing(server); /* which may be the cause: try again without it */
        for (struct cv_store *store = server->stores; store != NULL; store = store->next) {
            store->is_listening = false;
        }
    } else {
        server->link.is_direct = wrong == NULL; /* otherwise we poll */
        server->was_prepared = server->link.is_prepared;
    }
}

/* Nothing of the message was carried out. */
static void message_failed(struct server *server, struct cv_store *const *asked, uint32_t count,
                           const PGresult *wrong)
{
    char why[CV_REMOTE_WHY_BYTES];
    cv__pg_explain(PQresultErrorMessage(wrong), wrong, why, sizeof why);
    const bool is_again = server->link.is_prepared && cv__pg_is_unprepared(wrong);
    if (is_again) {
        stop_preparing(server);
    } else if (cv__pg_is_missing(wrong)) {
        cv__pg_drop(&server->link); /* the next greeting finds tables that were made meanwhile */
        on_lost(server);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct cv_store *store = asked[i];
        if (store == NULL || store->remote.is_closing) {
            continue;
        }
        if (is_again) {
            queue_add(store);
        } else if (count > 1 && !cv__pg_is_missing(wrong)) {
            store->is_suspect = true;
            queue_add(store);
        } else {
            cv__remote_fail(&store->remote, "%s", why);
        }
    }
}

static void on_answered(void *self, const PGresult *wrong)
{
    struct server *server = self;
    struct cv_store *asked[CV_PG_RESULTS_MAX];
    const uint32_t count = server->asked_count;
    for (uint32_t i = 0; i < count; i++) {
        asked[i] = server->asked[i];
        if (asked[i] != NULL) {
            slot_leave(asked[i]);
        }
    }
    server->asked_count = 0;
    const int64_t taken_ns = cv__clock_now_ns() - server->sent_ns;
    server->slowest_ns = cv__max64(taken_ns, server->slowest_ns - server->slowest_ns / 8);
    if (server->is_listen) {
        listen_answered(server, wrong);
    } else if (wrong != NULL || server->link.row_count != count) {
        message_failed(server, asked, count, wrong);
    } else {
        PGresult *rows[CV_PG_RESULTS_MAX]; /* the next message clears the link's */
        memcpy(rows, server->link.rows, count * sizeof rows[0]);
        server->link.row_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (asked[i] != NULL && !asked[i]->remote.is_closing) {
                asked[i]->is_suspect = false;
                answer_request(asked[i], rows[i]);
            }
            PQclear(rows[i]);
        }
    }
    if (!server->link.is_closed) {
        server_work(server);
    }
}

static void on_notified(void *self, const char *channel, const char *payload, bool is_ours)
{
    struct server *server = self;
    const bool is_resign_request = strcmp(payload, "wish") == 0;
    const bool is_taken = strcmp(payload, "taken") == 0; /* "given" has more behind it */
    uint32_t listener_count = 0;
    for (const struct cv_store *store = server->stores; store != NULL; store = store->next) {
        listener_count += strcmp(store->channel, channel) == 0;
    }
    if (is_ours && listener_count < 2) {
        return; /* the store made the change itself; of two, one did not */
    }
    for (struct cv_store *store = server->stores, *next; store != NULL; store = next) {
        next = store->next;
        if (strcmp(store->channel, channel) == 0 && cv__pg_next_hear(&store->place, payload)) {
            store->granted_attempt = store->place.attempt;
            store->granted_token = store->place.given_token;
        }
        if (strcmp(store->channel, channel) == 0 &&
            (store->is_reading || (is_resign_request ? store->is_holding : !is_taken))) {
            cv__remote_notify(&store->remote);
        }
    }
}

/* ---- The table ----------------------------------------------------------------------------- */

static void pg_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_resign_request= */ false);
}

static void pg_request_resign(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_resign_request= */ true);
}

static void pg_runs(struct cv_store *store, uint64_t request, struct cv_store_runs *runs)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .runs = runs},
                   /* is_resign_request= */ false);
}

static void pg_list(struct cv_store *store, uint64_t request, struct cv_store_list *list)
{
    cv__remote_list(&store->remote, request, list);
}

static void pg_forget(struct cv_store *store, uint64_t request)
{
    cv__remote_forget(&store->remote, request);
}

static const struct cv_store_kind kind;

static int server_open(struct server **ret_server, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    const struct cv_pg_user user = {.self = server,
                                    .ready = on_ready,
                                    .failed = on_failed,
                                    .broken = on_lost,
                                    .answered = on_answered,
                                    .notified = on_notified};
    (void)snprintf(server->link.version, sizeof server->link.version, "%s",
                   setting->version != NULL ? setting->version : "");
    server->list = setting->shared;
    TAILQ_INIT(&server->queue);
    const int code = cv__pg_init(&server->link, setting->loop, setting->address, &user, reterr);
    if (code != CV_OK) {
        free(server);
        return code;
    }
    cv__pg_be_patient(&server->link, setting->patience_ms);
    if (!cv__shared_add(server->list, &server->shared, &kind, setting->address)) {
        cv__pg_close(&server->link, free);
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    *ret_server = server;
    return CV_OK;
}

static int pg_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                   struct cv_errtext *reterr)
{
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    struct cv_shared *shared = cv__shared_join(setting->shared, &kind, setting->address);
    if (shared != NULL) {
        store->server = (struct server *)((char *)shared - offsetof(struct server, shared));
    } else {
        const int code = server_open(&store->server, setting, reterr);
        if (code != CV_OK) {
            free(store);
            return code;
        }
    }
    store->slot = -1;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: a collision costs a needless request */
    for (const char *at = setting->election; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    (void)snprintf(store->channel, sizeof store->channel, "conclave_%016" PRIx64, hash);
    cv__remote_init(&store->remote, setting, store, begin_request, give_up);
    (void)uv_timer_init(setting->loop, &store->again); /* cannot fail */
    store->again.data = store;
    store->next = store->server->stores;
    store->server->stores = store;
    *ret_store = store;
    return CV_OK;
}

static void pg_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    free(store);
    closed(closed_user);
}

/* Nobody is left on its channel: the server need not tell us of it. */
static void stop_listening(struct server *server, const struct cv_store *gone)
{
    for (const struct cv_store *store = server->stores; store != NULL; store = store->next) {
        if (strcmp(store->channel, gone->channel) == 0) {
            return;
        }
    }
    if (gone->is_listening && server->unheard_count < UNHEARD_MAX) {
        memcpy(server->unheard[server->unheard_count++], gone->channel, sizeof gone->channel);
    }
}

static void pg_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    struct server *server = store->server;
    cv__remote_close_begin(&store->remote, closed, user);
    queue_remove(store);
    slot_leave(store);
    struct cv_store **at = &server->stores;
    while (*at != store) {
        at = &(*at)->next;
    }
    *at = store->next;
    stop_listening(server, store);
    if (cv__shared_leave(server->list, &server->shared)) {
        cv__pg_close(&server->link, free);
    }
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->again);
    cv__remote_close_end(&store->remote, pg_last);
}

static const struct cv_store_kind kind = {
    .scheme = "postgres",
    .summary = "a row in PostgreSQL, also through a transaction pooler",
    .example = "postgres://app@db.example/app?sslmode=verify-full",
    .clock = "the server's (clock_timestamp), which must not leap forward",
    .notifications = "LISTEN and NOTIFY; through a pooler, looking often",
    .lease_ns_min = 100 * NS_PER_MS,
    .lease_ns_step = NS_PER_US,
    .grant_percent = 100,
    .open = pg_open,
    .ask = pg_ask,
    .request_resign = pg_request_resign,
    .runs = pg_runs,
    .list = pg_list,
    .forget = pg_forget,
    .close = pg_close,
    .create = cv__pg_create,
    .history = cv__pg_history,
    .look_for_gaps = cv__pg_look_for_gaps,
    .names = cv__pg_names,
};

CV_MODULE(kind)
