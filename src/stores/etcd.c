/* src/stores/etcd.c - `etcd://host:port,...[/prefix]`: a queue of keys, through the v3 JSON
 * gateway.
 *
 * A contender puts the key PREFIX/ELECTION/LABEL-ATTEMPT under the waiting lease that its loop has
 * for this lease length (etcd_server.h). The key with the lowest create revision holds the
 * election, and that revision is the token. The holder puts its key again with each renewal, under
 * a lease that was just granted; the key keeps its revision. A waiting contender is notified only
 * when the key before its own is deleted [traps.md T12].
 *
 * Answers may be lost [traps.md T11], so every request can be repeated: the key's name follows from
 * label and attempt, and putting it again keeps its place in the queue.
 *
 * Why a grant is safe. The key exists as long as its lease, and etcd_server.h derives how long that
 * is for certain. A linearizable read shows that our key exists, under which of our leases, and
 * that it is the first one [traps.md T9]; it stays the first, because new keys have higher
 * revisions. Only we delete it:
 *   - by RELEASE, or by a new attempt, which means that the old one is over;
 *   - when the grant has run out because the core did not renew it [traps.md T6]. The lease may
 *     live on for other elections, so we delete the key ourselves. Until that instant, which is the
 *     end that the core was given, the key stays; from then on the attempt is lost: RENEW is no
 *     longer granted, even if the key still exists;
 *   - after the store was closed, at the same instant.
 * Keys of other elections under the same lease do not change this. Two contenders of the same
 * election on one loop have different labels, so different keys, and one of them is first. A grant
 * is never longer than the requested lease.
 *
 * A holder that releases leaves a note in the same transaction, see etcd_note.c, and may have an
 * heir, see etcd_release.c.
 *
 * A hand-over takes one round trip and a notification. The next contender in the queue has put its
 * key under a holding lease in advance (etcd_ready.c): it leads when it is notified that the
 * holder's key was deleted. If that is not proved, for example because the stream of events was
 * interrupted, it puts its key under the holding lease now, and need not read the queue: keys
 * before its own only disappear, the last of them is gone, and the put shows whether its own key
 * was there all the time. The rest of that lease is shorter than requested, so the grant is renewed
 * soon.
 *
 * Keys below the prefix that are not of this shape, or without a lease, are ignored: they hold
 * nothing and are never deleted.
 *
 * Assumed: the revisions of the cluster never go back (restore a backup with a bump). */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/etcd_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE_MAX 16 /* foreign keys that may stand between ours and the one before it */
#define TTL_S_MAX (1000 * 24 * 3600)

/* ---- Calls --------------------------------------------------------------------------------- */

static void calls_cancel(struct cv_store *store)
{
    if (store->txn != NULL) {
        cv__etcd_txn_cancel(store->txn);
        store->txn = NULL;
    }
    if (store->call != NULL) {
        cv__etcd_call_cancel(store->call);
        store->call = NULL;
    }
}

/* ---- Granting ------------------------------------------------------------------------------ */

/* Until when our key exists for certain, according to the last look. */
static int64_t own_until_ns(const struct cv_store *store)
{
    CV_ASSERT(store->look.own.is_there);
    return store->ready.lease != 0 && store->look.own.lease == store->ready.lease
               ? store->ready.until_ns
               : cv__etcd_until_ns(&store->election, store->look.own.lease);
}

static bool own_is_first(const struct cv_store *store)
{
    const struct cv_etcd_look *seen = &store->look;
    return seen->own.is_there && seen->first.create_revision == seen->own.create_revision &&
           strcmp(seen->first_key, store->election.key) == 0;
}

/* Is at least half of the lease left? */
static bool is_long_enough(const struct cv_store *store, int64_t until_ns)
{
    const int64_t whole_ns = cv__min64(cv__etcd_lease_ttl_ns(&store->election), store->lease_ns);
    return until_ns - store->work_begin_ns >= whole_ns / 2;
}

void cv__etcd_body_put(const struct cv_store *store, int64_t lease_id, struct cv_etcd_body *body)
{
    struct cv_text64 key64, value64;
    char value[CV_VALUE_BYTES];
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    store->remote.version, value);
    cv__etcd_body_print(
        body, "{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64 "\"}}",
        cv__etcd_encode(store->election.key, &key64), cv__etcd_encode(value, &value64), lease_id);
}

/* Prints a put of our key under a lease, on condition that the key has not changed since it was
 * last seen: it does not exist, or it is under the same lease. A copy of the put that is carried
 * out late, for example by a member of the cluster that was stopped, finds the key under a newer
 * lease and changes nothing. Otherwise it would return the key to a lease that ends before the
 * latest grant. */
static void body_put_if_as_seen(const struct cv_store *store, int64_t lease_id,
                                struct cv_etcd_body *body)
{
    const struct cv_etcd_key *own = &store->look.own;
    struct cv_text64 key64;
    cv__etcd_body_print(body,
                        "{\"request_txn\":{\"compare\":[{\"key\":\"%s\",\"target\":"
                        "\"CREATE\",\"create_revision\":\"%" PRIu64 "\"}",
                        cv__etcd_encode(store->election.key, &key64),
                        own->is_there ? own->create_revision : 0);
    if (own->is_there) {
        cv__etcd_body_print(body,
                            ",{\"key\":\"%s\",\"target\":\"LEASE\",\"lease\":\"%" PRId64 "\"}",
                            key64.text, own->lease);
    }
    cv__etcd_body_print(body, "],\"success\":[");
    cv__etcd_body_put(store, lease_id, body);
    cv__etcd_body_print(body, "]}}");
}

static void on_hold(void *user, enum cv_etcd_outcome outcome, const char *error);

/* Puts our key under a fresh lease and goes on with `evaluate`. */
static void hold(struct cv_store *store, void (*evaluate)(struct cv_store *store))
{
    store->looked = evaluate;
    if (cv__etcd_round_begin(store)) {
        cv__etcd_hold(&store->election, on_hold);
    }
}

/* Did the put find the key that this request's look has seen? Then the key existed all the time. It
 * was first, so it still is. */
static bool is_as_seen(const struct cv_store *store, const struct cv_etcd_answer *answer)
{
    const cJSON *responses = cJSON_GetObjectItemCaseSensitive(answer->reply, "responses");
    const cJSON *moved = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetArrayItem(responses, answer->part), "response_txn");
    return store->has_looked && own_is_first(store) &&
           cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(moved, "succeeded"));
}

static void on_moved(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code == CV_ETCD_NOT_FOUND) { /* the lease */
        cv__etcd_hold_drop(&store->election, store->hold_id);
        hold(store, store->looked);
    } else if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
    } else if (is_as_seen(store, answer)) {
        store->is_queued = false;
        store->look.own.lease = store->hold_id;
        store->looked(store);
    } else {
        store->is_queued = false;
        cv__etcd_look(store, store->looked);
    }
}

static void on_hold(void *user, enum cv_etcd_outcome outcome, const char *error)
{
    struct cv_store *store = user;
    struct cv_etcd_body body = {0};
    if (outcome != CV_ETCD_LEASE_ALIVE) {
        cv__etcd_fail(store, error);
        return;
    }
    if (store->is_queued) { /* its value has the time at which it began to wait */
        store->since_wall_ns = cv__clock_wall_ns();
    }
    store->hold_id = cv__etcd_hold_id(&store->election);
    CV_ASSERT(store->look.own.is_there); /* a key that is first was seen by a look */
    body_put_if_as_seen(store, store->hold_id, &body);
    cv__etcd_ask(store, CV_ETCD_WRITE, 1, &body, on_moved);
}

/* The attempt was granted and is over now. If its key still exists, we no longer claim it. */
static void attempt_lose(struct cv_store *store)
{
    store->is_lost = true;
    store->election.has_key = false;
    cv__etcd_ready_end(store);
    cv__etcd_note_end(store);
    (void)uv_timer_stop(&store->lapse);
    cv__etcd_lease_leave(&store->election);
    cv__etcd_watch(&store->election, CV_ETCD_NOTHING, NULL, 0);
}

/* The grant has run out and was not renewed: deletes the key, because its lease may go on. */
static void on_lapse(uv_timer_t *timer)
{
    struct cv_store *store = timer->data;
    const int64_t left_ns = store->granted_until_ns - cv__clock_now_ns();
    if (left_ns > 0 || store->remote.is_at_work) { /* the request at work may renew it */
        const int64_t pause_ns = cv__max64(left_ns, 10 * NS_PER_MS);
        (void)uv_timer_start(&store->lapse, on_lapse, (uint64_t)(pause_ns / NS_PER_MS + 1), 0);
        return;
    }
    cv__etcd_delete(&store->election);
    attempt_lose(store);
}

static void answer_granted(struct cv_store *store)
{
    CV_ASSERT(own_is_first(store));
    CV_ASSERT(!store->is_lost);
    const int64_t ttl_ns = cv__etcd_lease_ttl_ns(&store->election);
    const int64_t left_ns =
        cv__remote_left_ns(own_until_ns(store) - ttl_ns, ttl_ns, store->work_begin_ns);
    const int64_t duration_ns = cv__min64(left_ns, store->lease_ns);
    const int64_t until_ns = store->work_begin_ns + duration_ns;
    const int64_t now_ns = cv__clock_now_ns();
    if (until_ns <= now_ns) {
        cv__etcd_fail(store, "the request took longer than the lease");
        return;
    }
    CV_ASSERT(store->token == 0 || store->token == store->look.own.create_revision);
    store->token = store->look.own.create_revision;
    store->granted_until_ns = cv__max64(store->granted_until_ns, until_ns);
    (void)uv_timer_start(&store->lapse, on_lapse,
                         (uint64_t)((store->granted_until_ns - now_ns) / NS_PER_MS + 1), 0);
    CV_ASSERT(!store->is_queued);
    cv__etcd_watch(&store->election, CV_ETCD_LEADING, NULL, store->look.revision);
    if (!store->is_taken) { /* otherwise the renewal does it, which follows soon */
        cv__etcd_note_begin(store);
    }
    struct cv_store_record record;
    cv__etcd_record_read(store, &record);
    record.last = (struct cv_store_end){.token = 0}; /* the look may be older than this grant */
    if (store->note.is_read) {
        cv__value_note_tell(&store->note.found, &record);
    }
    record.remaining_ns = until_ns - now_ns;
    record.since_wall_ns = store->since_wall_ns;
    /* Renew it soon: the lease was granted a while ago, the value of the key still says since when
     * it waited, and the note says nothing of this leadership yet. */
    store->remote.renews_soon = store->is_taken;
    store->is_taken = false;
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED,
                                                               .token = store->token,
                                                               .holder = store->remote.label,
                                                               .duration_ns = duration_ns,
                                                               .record = &record});
}

/* An attempt that was granted and lost its key is over: it must not queue under another token. A
 * late renewal may have created the key again. */
static void answer_lost(struct cv_store *store)
{
    if (!store->is_lost && store->look.own.is_there) {
        cv__etcd_delete(&store->election);
    }
    attempt_lose(store);
    if (cv__remote_current(&store->remote)->ask.verb == CV_STORE_ACQUIRE) {
        cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = CV_STORE_FREE,
                                                                   .token = store->token});
    } else {
        cv__etcd_answer_plain(store);
    }
}

/* ---- Acquiring ----------------------------------------------------------------------------- */

static void acquire_evaluate(struct cv_store *store);
static void on_acquire_lease(void *user, enum cv_etcd_outcome outcome, const char *error);

static void acquire_ensure(struct cv_store *store)
{
    if (cv__etcd_round_begin(store)) {
        cv__etcd_lease_ensure(&store->election, on_acquire_lease);
    }
}

/* Only the holder's key is before ours: when it is deleted, ours is the first. */
static bool is_next(const struct cv_store *store)
{
    return store->election.before[0] != '\0' &&
           strcmp(store->election.before, store->look.first_key) == 0;
}

static void answer_waiting(struct cv_store *store)
{
    if (is_next(store)) {
        cv__etcd_hold_keep(&store->election);
        cv__etcd_ready_make(store);
    }
    cv__etcd_answer_plain(store);
}

/* The answer names the key just before ours: waits until that is deleted. */
static void on_before(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    const cJSON *range = cv__etcd_range(answer, 0);
    const cJSON *kv;
    struct cv_etcd_key key;
    char before[CV_ETCD_KEY_BYTES] = "";
    cJSON_ArrayForEach(kv, cv__etcd_kvs(range))
    {
        if (cv__etcd_key_read(store, kv, &key, before)) {
            break;
        }
    }
    if (before[0] == '\0' && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(range, "more"))) {
        cv__etcd_look(store, acquire_evaluate); /* it was deleted already, and we are the first */
        return;
    }
    cv__etcd_watch(&store->election, CV_ETCD_WAITING, before, answer->revision);
    store->before_of = store->look.own.create_revision;
    answer_waiting(store);
}

static void acquire_wait(struct cv_store *store)
{
    const struct cv_etcd_election *election = &store->election;
    store->is_queued = true;
    if (election->interest == CV_ETCD_WAITING && election->before[0] != '\0' &&
        store->before_of == store->look.own.create_revision && !election->is_before_deleted &&
        election->deleted_revision <= store->look.revision && !election->has_changed) {
        /* The key before ours is watched already, and still exists. */
        answer_waiting(store);
        return;
    }
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"request_range\":{");
    cv__etcd_body_range(&body, election->queue);
    cv__etcd_body_print(&body,
                        ",\"limit\":\"%d\",\"keys_only\":true,\"sort_order\":\"DESCEND\","
                        "\"sort_target\":\"CREATE\",\"max_create_revision\":\"%" PRIu64 "\"}}",
                        BEFORE_MAX, store->look.own.create_revision - 1);
    cv__etcd_ask(store, CV_ETCD_READ, 1, &body, on_before);
}

static void acquire_evaluate(struct cv_store *store)
{
    const struct cv_etcd_key *own = &store->look.own;
    const bool is_own = own->is_there && (own->lease == cv__etcd_lease_id(&store->election) ||
                                          own_until_ns(store) > 0);
    if (store->token != 0 && (!own->is_there || own->create_revision != store->token)) {
        answer_lost(store);
    } else if (store->token == 0 && (!is_own || !cv__etcd_lease_is_there(&store->election))) {
        acquire_ensure(store); /* lease or key was lost while we waited: queue again */
    } else if (!own_is_first(store) && own->lease != cv__etcd_lease_id(&store->election) &&
               own->lease != store->ready.lease && own->lease != store->ready.asked_id &&
               store->token == 0) {
        acquire_ensure(store); /* it was prepared, is not first, and its lease will run out */
    } else if (!own_is_first(store)) {
        acquire_wait(store);
    } else if (store->is_queued || !is_long_enough(store, own_until_ns(store))) {
        hold(store, acquire_evaluate); /* the present lease was granted too long ago */
    } else {
        answer_granted(store);
    }
}

static void on_joined(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code == CV_ETCD_NOT_FOUND) { /* the lease */
        cv__etcd_lease_prolong(&store->election, on_acquire_lease);
        return;
    }
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
        return;
    }
    cv__etcd_look(store, acquire_evaluate);
}

/* Puts our key, and then looks. */
static void acquire_join(struct cv_store *store)
{
    struct cv_etcd_body body = {0};
    CV_ASSERT(store->token == 0); /* a granted attempt never queues again */
    store->since_wall_ns = cv__clock_wall_ns();
    body_put_if_as_seen(store, cv__etcd_lease_id(&store->election), &body);
    store->election.has_key = true;
    cv__etcd_ask(store, CV_ETCD_WRITE, 1, &body, on_joined);
}

static void on_acquire_lease(void *user, enum cv_etcd_outcome outcome, const char *error)
{
    struct cv_store *store = user;
    if (outcome == CV_ETCD_LEASE_FAILED) {
        cv__etcd_fail(store, error);
    } else if (outcome == CV_ETCD_LEASE_GONE) {
        acquire_ensure(store);
    } else {
        acquire_join(store);
    }
}

static void acquire_new(struct cv_store *store)
{
    const struct cv_store_request *one = &cv__remote_current(&store->remote)->ask;
    cv__etcd_attempt_forget(store, one->reason);
    if (one->lease_ns <= 0 || !cv__etcd_lease_use(&store->election, one->lease_ns)) {
        cv__etcd_fail(store, "out of memory");
        return;
    }
    store->attempt = one->attempt;
    store->lease_ns = one->lease_ns;
    store->look = (struct cv_etcd_look){.first = {.is_there = false}};
    cv__etcd_attempt_key(store, store->attempt, store->election.key);
    acquire_ensure(store);
}

static void on_old_deleted(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (answer->code != CV_ETCD_OK) {
        cv__etcd_fail(store, answer->error);
    } else {
        acquire_new(store);
    }
}

/* We were next, and the holder's key has been deleted since. If our key still exists, it is the
 * first, because keys before it can only disappear. The put shows whether it exists. */
static bool is_first_by_events(const struct cv_store *store)
{
    return store->is_queued && store->election.is_before_deleted && is_next(store) &&
           store->look.own.is_there && store->before_of == store->look.own.create_revision;
}

/* Moves our key to the lease that was kept for this, without another look. */
static void take(struct cv_store *store)
{
    if (store->ready.lease != 0) {
        store->look.own.lease = store->ready.lease; /* known from a later answer than the look */
    }
    store->look.first = store->look.own;
    memcpy(store->look.first_key, store->election.key, sizeof store->look.first_key);
    store->has_looked = store->is_taken = true;
    store->looked = acquire_evaluate;
    on_hold(store, CV_ETCD_LEASE_ALIVE, NULL);
}

/* Our key is under a lease with enough time left, and existed when the holder's was deleted. */
static void take_ready(struct cv_store *store)
{
    struct cv_etcd_look *seen = &store->look;
    CV_ASSERT(cv__etcd_ready_is_proved(store));
    seen->own.lease = store->ready.lease;
    seen->first = seen->own;
    memcpy(seen->first_key, store->election.key, sizeof seen->first_key);
    store->since_wall_ns = cv__clock_wall_ns();
    store->is_queued = false;
    store->is_taken = true;
    answer_granted(store);
}

static void acquire(struct cv_store *store, const struct cv_store_request *request)
{
    const uint64_t attempt = request->attempt;
    if (store->attempt == 0 || (store->attempt != attempt && !store->election.has_key)) {
        acquire_new(store);
    } else if (store->attempt != attempt) { /* the new attempt gives up the old one */
        cv__etcd_attempt_delete(store, store->attempt, request->reason, on_old_deleted);
    } else if (store->is_lost) {
        answer_lost(store);
    } else if (store->token != 0 ||
               (store->election.has_key && cv__etcd_lease_is_there(&store->election))) {
        const bool is_first = store->token == 0 && is_first_by_events(store);
        if (is_first && cv__etcd_ready_is_proved(store) &&
            is_long_enough(store, store->ready.until_ns)) {
            take_ready(store);
            return;
        }
        if (is_first && cv__etcd_hold_is_ready(&store->election)) {
            take(store);
            return;
        }
        if (store->is_queued && store->election.deleted_revision > store->look.revision) {
            cv__etcd_hold_prepare(&store->election); /* we may be the first now */
        }
        cv__etcd_look(store, acquire_evaluate); /* the usual case: it has waited */
    } else {
        acquire_ensure(store);
    }
}

/* ---- Renewing ------------------------------------------------------------------------------ */

static void renew_evaluate(struct cv_store *store)
{
    if (!own_is_first(store) || store->look.own.create_revision != store->token) {
        answer_lost(store);
    } else if (!is_long_enough(store, own_until_ns(store))) {
        hold(store, renew_evaluate);
    } else {
        answer_granted(store);
    }
}

static void renew(struct cv_store *store, const struct cv_store_request *request)
{
    const bool is_ours = store->attempt == request->attempt && store->token != 0 &&
                         !store->is_lost && (request->token == 0 || request->token == store->token);
    if (!is_ours) {
        cv__etcd_look(store, cv__etcd_answer_plain); /* tells who holds the election */
        return;
    }
    cv__etcd_note_begin(store);
    if (store->look.own.is_there) {
        hold(store, renew_evaluate);
    } else {
        cv__etcd_look(store, renew_evaluate);
    }
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void on_remaining(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_store *store = user;
    store->call = NULL;
    const int64_t ttl_s =
        answer->code == CV_ETCD_OK ? cv__etcd_number_to(answer->reply, "TTL", TTL_S_MAX) : 0;
    cv__etcd_answer_seen(store, (ttl_s + 1) * NS_PER_S); /* it is cut to whole seconds */
}

static void read_looked(struct cv_store *store)
{
    if (store->attempt == 0) {
        cv__etcd_watch(&store->election, CV_ETCD_READING, NULL, store->look.revision);
    }
    if (!store->look.first.is_there) {
        cv__etcd_answer_plain(store);
        return;
    }
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"ID\":\"%" PRId64 "\"}", store->look.first.lease);
    store->call = cv__etcd_call(cv__etcd_wire_of(&store->election), "/v3/lease/timetolive", &body,
                                store->deadline_ns, on_remaining, store);
    if (store->call == NULL) {
        cv__etcd_fail(store, "out of memory");
    }
}

/* ---- The table ----------------------------------------------------------------------------- */

static void begin_request(void *user)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    store->work_begin_ns = one->asked_ns;
    store->deadline_ns = one->deadline_ns;
    store->round_count = 0;
    store->has_looked = false;
    if (one->ask.runs != NULL) {
        cv__etcd_runs_begin(store, one->ask.runs);
        return;
    }
    if (one->ask.list != NULL) {
        cv__etcd_list_begin(store, one->ask.list);
        return;
    }
    if (one->ask.forgets) {
        cv__etcd_forget_begin(store);
        return;
    }
    if (one->is_resign_request) {
        cv__etcd_look(store, cv__etcd_request_resign);
        return;
    }
    switch (one->ask.verb) {
    case CV_STORE_READ:
        cv__etcd_look(store, read_looked);
        break;
    case CV_STORE_ACQUIRE:
        acquire(store, &one->ask);
        break;
    case CV_STORE_RENEW:
        renew(store, &one->ask);
        break;
    case CV_STORE_RELEASE:
        cv__etcd_release(store, &one->ask);
        break;
    }
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    char why[400];
    (void)snprintf(why, sizeof why, "etcd %s: no answer in time",
                   cv__etcd_wire_host(cv__etcd_wire_of(&store->election)));
    store->election.waits_for = 0;
    calls_cancel(store);
    cv__remote_fail(&store->remote, "%s", why);
}

static void on_changed(void *user)
{
    struct cv_store *store = user;
    cv__remote_notify(&store->remote);
}

static void on_hold_granted(void *user)
{
    cv__etcd_ready_make(user);
}

static void etcd_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_resign_request= */ false);
}

static void etcd_request_resign(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_resign_request= */ true);
}

static void etcd_runs(struct cv_store *store, uint64_t request, struct cv_store_runs *runs)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .runs = runs},
                   /* is_resign_request= */ false);
}

static void etcd_list(struct cv_store *store, uint64_t request, struct cv_store_list *list)
{
    cv__remote_list(&store->remote, request, list);
}

static void etcd_forget(struct cv_store *store, uint64_t request)
{
    cv__remote_forget(&store->remote, request);
}

static const struct cv_store_kind kind;

static int etcd_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                     struct cv_errtext *reterr)
{
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    store->shared = setting->shared;
    store->election.store = store;
    store->election.changed = on_changed;
    store->election.hold_granted = on_hold_granted;
    const int code = cv__etcd_join(&store->election, setting, &kind, reterr);
    if (code != CV_OK) {
        free(store);
        return code;
    }
    cv__remote_init(&store->remote, setting, store, begin_request, give_up);
    (void)uv_timer_init(setting->loop, &store->lapse); /* cannot fail */
    store->lapse.data = store;
    *ret_store = store;
    return CV_OK;
}

static void etcd_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    free(store);
    closed(closed_user);
}

static void etcd_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    cv__remote_close_begin(&store->remote, closed, user);
    calls_cancel(store);
    cv__etcd_ready_end(store);
    cv__etcd_note_end(store);
    cv__etcd_leave(&store->election, store->shared, store->granted_until_ns);
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->lapse);
    cv__remote_close_end(&store->remote, etcd_last);
}

static const struct cv_store_kind kind = {
    .scheme = "etcd",
    .summary = "a queue of keys in etcd, through its JSON gateway (v3)",
    .example = "etcd://10.0.0.1:2379,10.0.0.2:2379?cacert=/etc/ssl/etcd.pem",
    .clock = "that of the cluster's leader, which counts durations",
    .notifications = "a watch below the prefix",
    .lease_ns_min = NS_PER_S,
    .lease_ns_step = NS_PER_S,
    .usual_lease_ns_min = 2 * NS_PER_S, /* 1.5 election timeouts of 1 s, rounded up */
    .grant_percent = 100,
    .counts_anew = true,
    .open = etcd_open,
    .ask = etcd_ask,
    .request_resign = etcd_request_resign,
    .runs = etcd_runs,
    .list = etcd_list,
    .forget = etcd_forget,
    .close = etcd_close,
};

CV_MODULE(kind)
