/* src/stores/etcd.c - `etcd://host:port,...[/prefix]`: a queue of keys, through the v3 JSON
 * gateway.
 *
 * A contender puts the key PREFIX/ELECTION/LABEL-ATTEMPT under a lease of its own. The key with the
 * lowest create revision holds the election, and that revision is the token. Who waits watches the
 * key before its own and nothing else [traps.md T12], and keeps its lease alive; who is first keeps it
 * alive by RENEW only, so that a core that hangs loses it [T6].
 *
 * Answers may be lost [T11], so everything can be said twice: key and lease have names that follow
 * from label and attempt, the key is put only if it is not there, and a lease that "already exists"
 * is ours.
 *
 * Why a grant is safe. The key is there as long as its lease is. A lease that was granted lives for
 * TTL since the asking: granting is a decision of the cluster. A keep-alive is not: it is answered
 * by whoever believes to be the leader of the cluster, and one that was deposed, say with a stuck
 * disk, goes on believing [T7]. So it counts only if it stands between two answers of the same
 * member in the same term, the later of which is a linearizable read: then the leader of that term
 * led the cluster when it was asked for the read, after it had prolonged the lease, and nobody else
 * can have judged the lease meanwhile. The same read shows that our key exists, under our lease,
 * and is the first one [T9]; which it stays, as new keys have higher revisions. The lease length
 * counts from before the keep-alive was sent [T3]. After a change of its leader the cluster begins
 * to count anew [T27], which errs on the late side.
 *
 * An heir: whoever releases deletes, in one transaction with its own key, those that wait before
 * the heir's. They notice and queue again, behind it, with higher revisions; so tokens keep growing
 * and nobody waits for an heir that is not there. A wish is a key under the holder's lease, and is
 * gone with it. One who only reads watches all keys of the election: meant for few.
 *
 * What it assumes: the revisions of the cluster never go back (restore a backup with a bump). */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/etcd_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_BYTES CV_ETCD_KEY_BYTES
#define KEY64_BYTES (KEY_BYTES * 4 / 3 + 8)
#define DEPOSED_MAX 24 /* keys that wait before an heir's and can be deleted at once */
#define PROOFS_MAX 5   /* in a row that a change of the cluster's leader may spoil */

struct key {
    bool is_there;
    uint64_t create_revision;
    int64_t lease;
    char value[CV_VALUE_BYTES];
};

/* What one linearizable transaction saw. */
struct look {
    struct key first, own, wish;
};

/* Goes on with the answer to a call. */
typedef void (*then_fn)(struct cv_store *store, const cJSON *reply, int code);

struct cv_store {
    struct cv_remote remote;
    struct cv_etcd_wire wire;
    char prefix[KEY_BYTES]; /* of the election's keys, with its final slash */
    char wish_key[KEY_BYTES];

    /* The attempt: all zero if there is none. */
    uint64_t attempt;
    int64_t lease_id, lease_ns, ttl_ns;
    int64_t alive_until_ns; /* proved; 0: nothing is */
    uint64_t token;         /* once it was granted */
    char key[KEY_BYTES];
    int64_t since_wall_ns;
    bool is_queued; /* and not the first: the beat keeps the lease */

    int64_t work_begin_ns; /* of the request or the beat at work */
    struct look look;

    /* A proof: a keep-alive between two answers of the same member and term. */
    void (*proved)(struct cv_store *store);
    uint64_t proof_member, proof_term;
    int64_t proof_until_ns;
    uint32_t proof_count;

    bool is_beating;
    uv_timer_t beat;
    struct cv_http_call *watch;
    char watch_key[KEY_BYTES]; /* empty: nothing is watched */
};

/* ---- What answers say ------------------------------------------------------------------------ */

static void key_read(const cJSON *kv, struct key *ret_key)
{
    *ret_key = (struct key){.is_there = kv != NULL};
    if (kv != NULL) {
        ret_key->create_revision = cv__etcd_number(kv, "create_revision");
        ret_key->lease = (int64_t)cv__etcd_number(kv, "lease");
        cv__etcd_decode(cv__etcd_string(kv, "value"), ret_key->value, sizeof ret_key->value);
    }
}

/* The first key of range number `index` in the answer to a transaction. */
static const cJSON *first_of(const cJSON *reply, int index)
{
    const cJSON *responses = cJSON_GetObjectItemCaseSensitive(reply, "responses");
    const cJSON *range =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(responses, index), "response_range");
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(range, "kvs"), 0);
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void begin_request(void *user);
static void watch_stop(struct cv_store *store);

/* The beat is over, for better or worse; a request may have come meanwhile. */
static void beat_end(struct cv_store *store)
{
    CV_ASSERT(store->is_beating);
    store->is_beating = false;
    if (store->watch == NULL && store->is_queued) {
        cv__remote_news(&store->remote); /* we are deaf: look again, and watch */
    }
    if (!store->remote.is_closing && store->remote.is_at_work) {
        begin_request(store);
    }
}

static void work_fail(struct cv_store *store, const char *why)
{
    if (store->is_beating) {
        beat_end(store);
    } else {
        cv__remote_fail(&store->remote, "etcd %s: %s", cv__etcd_wire_host(&store->wire), why);
    }
}

/* A call that needs nothing but the lease. */
static void call_lease(struct cv_store *store, const char *path, int64_t lease_id, then_fn then)
{
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(&store->wire, "{\"ID\":\"%" PRId64 "\"}", lease_id);
    cv__etcd_wire_call(&store->wire, path, then);
}

/* ---- Watching ------------------------------------------------------------------------------ */

static void watch_stop(struct cv_store *store)
{
    if (store->watch != NULL) {
        cv__http_cancel(store->watch);
        store->watch = NULL;
    }
    store->watch_key[0] = '\0';
}

static void on_watch_line(void *user, const char *line)
{
    struct cv_store *store = user;
    cJSON *whole = cJSON_Parse(line);
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(whole, "result");
    const bool is_event = cJSON_GetObjectItemCaseSensitive(result, "events") != NULL ||
                          cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "canceled"));
    cJSON_Delete(whole);
    if (is_event) {
        watch_stop(store); /* the next look decides what is to be watched next */
        cv__remote_news(&store->remote);
    }
}

static void on_watch_end(void *user, const struct cv_http_result *result)
{
    struct cv_store *store = user;
    (void)result;
    store->watch = NULL;
    watch_stop(store);
    cv__remote_news(&store->remote);
}

enum watch_for { WATCH_END, WATCH_WISH, WATCH_ALL };

/* From the revision after the last look, so that nothing is missed in between. */
static void watch_start(struct cv_store *store, const char *key, enum watch_for what)
{
    static const char *const filters[] = {[WATCH_END] = "\"filters\":[\"NOPUT\"],",
                                          [WATCH_WISH] = "\"filters\":[\"NODELETE\"],",
                                          [WATCH_ALL] = ""};
    const bool is_prefix = what == WATCH_ALL;
    if (store->watch != NULL && strcmp(store->watch_key, key) == 0) {
        return;
    }
    watch_stop(store);
    struct cv_text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", key);
    end[strlen(end) - 1]++; /* the slash becomes a zero: the first key that is not below */
    char body[2 * KEY64_BYTES + 200];
    (void)snprintf(body, sizeof body,
                   "{\"create_request\":{\"key\":\"%s\",%s%s%s%s\"start_revision\":\"%" PRId64
                   "\"}}",
                   cv__etcd_encode(key, &key64), is_prefix ? "\"range_end\":\"" : "",
                   is_prefix ? cv__etcd_encode(end, &end64) : "", is_prefix ? "\"," : "",
                   filters[what], store->wire.revision + 1);
    store->watch =
        cv__etcd_wire_post(&store->wire, "/v3/watch", body, on_watch_line, on_watch_end, store);
    if (store->watch != NULL) { /* without memory, asking now and then must do */
        (void)snprintf(store->watch_key, sizeof store->watch_key, "%s", key);
    }
}

/* ---- Looking ------------------------------------------------------------------------------- */

/* Three ranges: the first key of the queue, ours, the wish. */
static void body_looks(struct cv_store *store)
{
    struct cv_text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    cv__etcd_body_print(&store->wire,
                        "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\","
                        "\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"}},",
                        cv__etcd_encode(store->prefix, &key64), cv__etcd_encode(end, &end64));
    cv__etcd_body_print(
        &store->wire, "{\"request_range\":{\"key\":\"%s\"}},",
        cv__etcd_encode(store->attempt != 0 ? store->key : store->wish_key, &key64));
    cv__etcd_body_print(&store->wire, "{\"request_range\":{\"key\":\"%s\"}}",
                        cv__etcd_encode(store->wish_key, &key64));
}

static void look_read(struct cv_store *store, const cJSON *reply, int first_index)
{
    struct look *look = &store->look;
    key_read(first_of(reply, first_index), &look->first);
    key_read(store->attempt != 0 ? first_of(reply, first_index + 1) : NULL, &look->own);
    key_read(first_of(reply, first_index + 2), &look->wish);
}

static void look(struct cv_store *store, then_fn then)
{
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(&store->wire, "{\"success\":[");
    body_looks(store);
    cv__etcd_body_print(&store->wire, "]}");
    cv__etcd_wire_call(&store->wire, "/v3/kv/txn", then);
}

static void record_read(const struct cv_store *store, struct cv_store_record *ret_record)
{
    const struct look *seen = &store->look;
    *ret_record = (struct cv_store_record){0};
    if (seen->first.is_there) {
        cv__value_read(seen->first.value, strlen(seen->first.value), ret_record);
        ret_record->token = seen->first.create_revision;
        ret_record->remaining_ns = ret_record->lease_ns; /* at most; READ asks */
    }
    if (seen->wish.is_there) {
        cv__value_wish_read(seen->wish.value, strlen(seen->wish.value), ret_record->token,
                            ret_record->wish);
    }
}

/* HELD or FREE, as the last look has it. */
static void answer_seen(struct cv_store *store, int64_t remaining_ns)
{
    struct cv_store_record record;
    record_read(store, &record);
    struct cv_store_answer answer = {.verdict = CV_STORE_FREE, .record = &record};
    if (store->look.first.is_there) {
        record.remaining_ns = remaining_ns >= 0 ? remaining_ns : record.remaining_ns;
        answer.verdict = CV_STORE_HELD;
        answer.token = record.token;
        answer.holder = record.label;
        answer.duration_ns = cv__max64(record.lease_ns, NS_PER_S);
    }
    cv__remote_answer(&store->remote, answer);
}

/* ---- Proving that the lease lives ------------------------------------------------------------ */

static void proof_keepalive(struct cv_store *store);

static void on_proof_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    look_read(store, reply, 0);
    const bool is_proof =
        store->wire.member == store->proof_member && store->wire.term == store->proof_term;
    if (store->proof_until_ns != 0 && !is_proof) {
        store->proof_count++;
        if (store->proof_count >= PROOFS_MAX) {
            work_fail(store, "the cluster keeps changing its leader");
        } else {
            proof_keepalive(store);
        }
        return;
    }
    if (store->proof_until_ns != 0) {
        store->alive_until_ns = store->proof_until_ns;
    } else {
        store->alive_until_ns = 0; /* the lease is gone */
    }
    store->proved(store);
}

static void on_proof_keepalive(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK && code != CV_ETCD_NOT_FOUND) {
        work_fail(store, store->wire.error);
        return;
    }
    const int64_t ttl_s = code == CV_ETCD_OK ? (int64_t)cv__etcd_number(reply, "TTL") : 0;
    store->proof_until_ns = 0;
    if (ttl_s > 0) {
        store->ttl_ns = ttl_s * NS_PER_S;
        store->proof_until_ns = store->wire.begin_ns + store->ttl_ns;
        if (store->wire.member != store->proof_member || store->wire.term != store->proof_term) {
            store->proof_member = 0; /* another one answered: no proof, the next may be one */
        }
    }
    look(store, on_proof_look);
}

static void proof_keepalive(struct cv_store *store)
{
    store->proof_member = store->wire.member; /* of the answer before this one */
    store->proof_term = store->wire.term;
    call_lease(store, "/v3/lease/keepalive", store->lease_id, on_proof_keepalive);
}

/* Prolongs the lease and looks; goes on with `proved`, when alive_until_ns and look are of now. */
static void prove(struct cv_store *store, void (*proved)(struct cv_store *store))
{
    store->proved = proved;
    store->proof_count = 0;
    proof_keepalive(store);
}

/* ---- Acquiring and renewing ------------------------------------------------------------------ */

static bool own_is_first(const struct cv_store *store)
{
    const struct look *seen = &store->look;
    return seen->own.is_there && seen->own.lease == store->lease_id &&
           seen->first.create_revision == seen->own.create_revision;
}

static void on_updated(void *user, const struct cv_http_result *result)
{
    (void)user; /* for people only: since when it holds the election */
    (void)result;
}

/* Who queued wrote the time at which it began to wait. */
static void update_since(struct cv_store *store)
{
    struct cv_text64 key64, value64;
    char value[CV_VALUE_BYTES];
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    value);
    static const char format[] =
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}]}";
    char body[2 * KEY64_BYTES + sizeof value64.text + sizeof format + 64];
    (void)snprintf(body, sizeof body, format, cv__etcd_encode(store->key, &key64), store->token,
                   key64.text, cv__etcd_encode(value, &value64), store->lease_id);
    (void)cv__etcd_wire_post(&store->wire, "/v3/kv/txn", body, NULL, on_updated, NULL);
}

static void answer_granted(struct cv_store *store)
{
    CV_ASSERT(own_is_first(store));
    CV_ASSERT(store->alive_until_ns > 0);
    const int64_t duration_ns = store->alive_until_ns - store->work_begin_ns;
    if (duration_ns <= 0) {
        work_fail(store, "it took longer than the lease");
        return;
    }
    const bool has_waited = store->is_queued;
    store->is_queued = false;
    (void)uv_timer_stop(&store->beat);
    CV_ASSERT(store->token == 0 || store->token == store->look.own.create_revision);
    store->token = store->look.own.create_revision;
    if (has_waited) {
        store->since_wall_ns = cv__clock_wall_ns();
        update_since(store);
    }
    watch_start(store, store->wish_key, WATCH_WISH);
    struct cv_store_record record;
    record_read(store, &record);
    record.remaining_ns = store->alive_until_ns - cv__clock_now_ns();
    record.since_wall_ns = store->since_wall_ns;
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = CV_STORE_GRANTED,
                                                               .token = store->token,
                                                               .holder = store->remote.label,
                                                               .duration_ns = duration_ns,
                                                               .record = &record});
}

static void acquire_grant(struct cv_store *store);
static void acquire_evaluate(struct cv_store *store);
static void on_beat(uv_timer_t *timer);

static void beat_arm(struct cv_store *store)
{
    (void)uv_timer_start(&store->beat, on_beat, (uint64_t)(store->ttl_ns / 3 / NS_PER_MS), 0);
}

/* The key just before ours is known: watch it. */
static void on_before(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    const cJSON *kv = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(reply, "kvs"), 0);
    if (kv == NULL) { /* it is gone already, and we are the first */
        prove(store, acquire_evaluate);
        return;
    }
    char before[KEY_BYTES];
    cv__etcd_decode(cv__etcd_string(kv, "key"), before, sizeof before);
    watch_start(store, before, WATCH_END);
    answer_seen(store, /* remaining_ns= */ -1);
}

static void acquire_wait(struct cv_store *store)
{
    if (!store->is_queued) {
        store->is_queued = true;
        beat_arm(store);
    }
    if (store->watch != NULL && strcmp(store->watch_key, store->wish_key) != 0 &&
        strcmp(store->watch_key, store->prefix) != 0) {
        answer_seen(store, /* remaining_ns= */ -1); /* the one before us is watched already */
        return;
    }
    struct cv_text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(&store->wire,
                        "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\",\"keys_only\":true,"
                        "\"sort_order\":\"DESCEND\",\"sort_target\":\"CREATE\","
                        "\"max_create_revision\":\"%" PRIu64 "\"}",
                        cv__etcd_encode(store->prefix, &key64), cv__etcd_encode(end, &end64),
                        store->look.own.create_revision - 1);
    cv__etcd_wire_call(&store->wire, "/v3/kv/range", on_before);
}

/* An attempt that was granted and lost its key is over: it must not queue under another token. */
static void answer_lost(struct cv_store *store)
{
    store->alive_until_ns = 0;
    watch_stop(store);
    if (cv__remote_current(&store->remote)->ask.verb == CV_STORE_ACQUIRE) {
        cv__remote_fail(&store->remote, "etcd: attempt %" PRIu64 " was lost before",
                        store->attempt);
    } else {
        answer_seen(store, /* remaining_ns= */ -1);
    }
}

static void acquire_evaluate(struct cv_store *store)
{
    if (store->token != 0 && store->look.own.create_revision != store->token) {
        answer_lost(store);
    } else if (!store->look.own.is_there || store->alive_until_ns == 0) {
        if (store->proof_count++ > PROOFS_MAX) {
            work_fail(store, "the lease is lost again and again");
        } else {
            acquire_grant(store); /* lease or key were lost while we waited: queue again */
        }
    } else if (!own_is_first(store)) {
        acquire_wait(store);
    } else if (store->alive_until_ns - store->work_begin_ns < store->ttl_ns / 2) {
        prove(store, acquire_evaluate); /* it was some time ago */
    } else {
        answer_granted(store);
    }
}

static void on_joined(struct cv_store *store, const cJSON *reply, int code)
{
    if (code == CV_ETCD_NOT_FOUND) { /* the lease */
        store->alive_until_ns = 0;
        store->look.own.is_there = false;
        acquire_evaluate(store);
        return;
    }
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    const bool is_put = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "succeeded"));
    look_read(store, reply, is_put ? 1 : 0);
    acquire_evaluate(store);
}

/* Puts our key, unless it is there, and looks. */
static void acquire_join(struct cv_store *store)
{
    struct cv_text64 key64, value64;
    char value[CV_VALUE_BYTES];
    store->since_wall_ns = cv__clock_wall_ns();
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    value);
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(
        &store->wire,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}},",
        cv__etcd_encode(store->key, &key64), key64.text, cv__etcd_encode(value, &value64),
        store->lease_id);
    body_looks(store);
    cv__etcd_body_print(&store->wire, "],\"failure\":[");
    body_looks(store);
    cv__etcd_body_print(&store->wire, "]}");
    cv__etcd_wire_call(&store->wire, "/v3/kv/txn", on_joined);
}

static void on_lease_exists(struct cv_store *store)
{
    if (store->alive_until_ns == 0) {
        acquire_evaluate(store); /* it ran out just now */
    } else {
        acquire_join(store);
    }
}

static void on_lease(struct cv_store *store, const cJSON *reply, int code)
{
    if (code == CV_ETCD_PRECONDITION) { /* it exists: an answer was lost before */
        prove(store, on_lease_exists);
        return;
    }
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    store->ttl_ns = (int64_t)cv__etcd_number(reply, "TTL") * NS_PER_S;
    store->alive_until_ns = store->wire.begin_ns + store->ttl_ns;
    acquire_join(store);
}

static void acquire_grant(struct cv_store *store)
{
    if (store->alive_until_ns > cv__clock_now_ns()) {
        acquire_join(store); /* only the key was lost */
        return;
    }
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(&store->wire, "{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}",
                        (store->lease_ns + NS_PER_S - 1) / NS_PER_S, store->lease_id);
    cv__etcd_wire_call(&store->wire, "/v3/lease/grant", on_lease);
}

static uint64_t mix(uint64_t x) /* splitmix64's last steps */
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int64_t lease_id_of(uint64_t label, uint64_t attempt)
{
    const uint64_t id = mix(mix(label) + attempt) & INT64_MAX;
    return id != 0 ? (int64_t)id : 1; /* 0 would let the server choose */
}

static void attempt_forget(struct cv_store *store)
{
    (void)uv_timer_stop(&store->beat);
    watch_stop(store);
    store->attempt = 0;
    store->lease_id = 0;
    store->alive_until_ns = 0;
    store->token = 0;
    store->is_queued = false;
}

static void acquire_new(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    attempt_forget(store);
    store->attempt = one->ask.attempt;
    store->lease_id = lease_id_of(store->remote.label, store->attempt);
    store->lease_ns = one->ask.lease_ns;
    store->look = (struct look){.first = {.is_there = false}};
    const int length = snprintf(store->key, sizeof store->key, "%s%016" PRIx64 "-%" PRIu64,
                                store->prefix, store->remote.label, store->attempt);
    CV_ASSERT(length > 0 && (size_t)length < sizeof store->key);
    acquire_grant(store);
}

static void on_old_revoked(struct cv_store *store, const cJSON *reply, int code)
{
    (void)reply;
    if (code != CV_ETCD_OK && code != CV_ETCD_NOT_FOUND) {
        work_fail(store, store->wire.error);
        return;
    }
    acquire_new(store);
}

static void on_acquire_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    look_read(store, reply, 0);
    acquire_evaluate(store);
}

static void acquire(struct cv_store *store, uint64_t attempt)
{
    store->proof_count = 0;
    if (store->attempt == 0) {
        acquire_new(store);
    } else if (store->attempt != attempt) { /* which the new one gives up */
        call_lease(store, "/v3/lease/revoke", store->lease_id, on_old_revoked);
    } else if (store->alive_until_ns - store->work_begin_ns >= store->ttl_ns / 2) {
        look(store, on_acquire_look); /* the common case of one who waited: one round trip */
    } else if (store->alive_until_ns > 0) {
        prove(store, acquire_evaluate);
    } else if (store->token != 0) {
        look(store, on_acquire_look); /* it was lost before */
    } else {
        acquire_grant(store);
    }
}

static void renew_evaluate(struct cv_store *store)
{
    if (store->alive_until_ns == 0 || !own_is_first(store) ||
        store->look.own.create_revision != store->token) {
        answer_lost(store);
    } else {
        answer_granted(store);
    }
}

static void on_plain_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    look_read(store, reply, 0);
    answer_seen(store, /* remaining_ns= */ -1);
}

static void renew(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt && store->token != 0 &&
                         (ask->token == 0 || ask->token == store->token);
    if (is_ours && store->alive_until_ns > 0) {
        prove(store, renew_evaluate);
    } else {
        look(store, on_plain_look); /* tells who has it */
    }
}

/* ---- The beat: a place in the queue lives on ------------------------------------------------- */

static void beat_evaluate(struct cv_store *store)
{
    if (store->alive_until_ns == 0 || !store->look.own.is_there || own_is_first(store)) {
        watch_stop(store); /* worth asking, either way: beat_end() says so */
    }
    beat_end(store);
}

static void on_beat(uv_timer_t *timer)
{
    struct cv_store *store = timer->data;
    if (!store->is_queued) {
        return;
    }
    if (own_is_first(store)) {
        /* We have told; from here on only a request prolongs the lease. Tell again, though. */
        cv__remote_news(&store->remote);
    } else if (!store->remote.is_at_work && !store->is_beating) {
        store->is_beating = true;
        store->work_begin_ns = cv__clock_now_ns();
        store->wire.deadline_ns = store->work_begin_ns + cv__max64(store->ttl_ns / 4, NS_PER_S / 2);
        beat_arm(store);
        prove(store, beat_evaluate);
        return;
    }
    if (!store->remote.is_closing) {
        beat_arm(store);
    }
}

/* ---- Releasing, wishing, reading ------------------------------------------------------------- */

static void on_revoked(struct cv_store *store, const cJSON *reply, int code)
{
    (void)reply;
    if (code != CV_ETCD_OK && code != CV_ETCD_NOT_FOUND) {
        work_fail(store, store->wire.error);
        return;
    }
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (store->attempt == one->ask.attempt) {
        attempt_forget(store);
    }
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = CV_STORE_FREE});
}

static void release_revoke(struct cv_store *store)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    call_lease(store, "/v3/lease/revoke", lease_id_of(store->remote.label, one->ask.attempt),
               on_revoked);
}

static void on_deposed(struct cv_store *store, const cJSON *reply, int code)
{
    (void)reply; /* whether or not the heir is first now, we are not */
    (void)code;
    release_revoke(store);
}

/* The queue is known: take out ourselves and those before the heir. */
static void on_queue(struct cv_store *store, const cJSON *reply, int code)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    struct cv_text64 key64;
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(
        &store->wire,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[",
        cv__etcd_encode(store->key, &key64), store->token);
    bool is_found = false;
    uint32_t count = 0;
    const cJSON *kv;
    cJSON_ArrayForEach(kv, cJSON_GetObjectItemCaseSensitive(reply, "kvs"))
    {
        char value[CV_VALUE_BYTES];
        struct cv_store_record record = {0};
        cv__etcd_decode(cv__etcd_string(kv, "value"), value, sizeof value);
        cv__value_read(value, strlen(value), &record);
        is_found = count > 0 && strcmp(record.node, one->heir) == 0;
        if (is_found || count >= DEPOSED_MAX) {
            break;
        }
        cv__etcd_body_print(&store->wire, "%s{\"request_delete_range\":{\"key\":\"%s\"}}",
                            count > 0 ? "," : "",
                            cv__etcd_string(kv, "key")); /* base64 as it came */
        count++;
    }
    cv__etcd_body_print(&store->wire, "]}");
    if (is_found) {
        cv__etcd_wire_call(&store->wire, "/v3/kv/txn", on_deposed);
    } else {
        release_revoke(store);
    }
}

static void release(struct cv_store *store, const struct cv_store_request *ask)
{
    const bool is_ours = store->attempt == ask->attempt;
    if (is_ours) {
        (void)uv_timer_stop(&store->beat);
        store->is_queued = false;
        watch_stop(store);
    }
    if (!is_ours || ask->heir == NULL || store->token == 0) {
        release_revoke(store);
        return;
    }
    struct cv_text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(
        &store->wire,
        "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"%d\",\"sort_order\":\"ASCEND\","
        "\"sort_target\":\"CREATE\"}",
        cv__etcd_encode(store->prefix, &key64), cv__etcd_encode(end, &end64), DEPOSED_MAX + 1);
    cv__etcd_wire_call(&store->wire, "/v3/kv/range", on_queue);
}

static void on_wished(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK && code != CV_ETCD_NOT_FOUND) {
        work_fail(store, store->wire.error);
        return;
    }
    const bool is_left =
        code == CV_ETCD_OK && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "succeeded"));
    if (!is_left) {
        store->look.first.is_there = false; /* the holder has gone meanwhile */
    }
    answer_seen(store, /* remaining_ns= */ -1);
}

static void on_wish_look(struct cv_store *store, const cJSON *reply, int code)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    look_read(store, reply, 0);
    const cJSON *first = first_of(reply, 0);
    if (first == NULL) {
        answer_seen(store, /* remaining_ns= */ -1);
        return;
    }
    struct cv_text64 key64, value64;
    char value[CV_VALUE_BYTES];
    cv__value_wish_write(store->look.first.create_revision, one->heir[0] != '\0' ? one->heir : "*",
                         value);
    cv__etcd_body_begin(&store->wire);
    cv__etcd_body_print(
        &store->wire,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}]}",
        cv__etcd_string(first, "key"), store->look.first.create_revision,
        cv__etcd_encode(store->wish_key, &key64), cv__etcd_encode(value, &value64),
        store->look.first.lease);
    cv__etcd_wire_call(&store->wire, "/v3/kv/txn", on_wished);
}

static void on_remaining(struct cv_store *store, const cJSON *reply, int code)
{
    const int64_t ttl_s = code == CV_ETCD_OK ? (int64_t)cv__etcd_number(reply, "TTL") : 0;
    answer_seen(store, cv__max64(0, ttl_s + 1) * NS_PER_S); /* it is cut to whole seconds */
}

static void on_read_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CV_ETCD_OK) {
        work_fail(store, store->wire.error);
        return;
    }
    look_read(store, reply, 0);
    if (store->attempt == 0) {
        watch_start(store, store->prefix, WATCH_ALL);
    }
    if (store->look.first.is_there) {
        call_lease(store, "/v3/lease/timetolive", store->look.first.lease, on_remaining);
    } else {
        answer_seen(store, /* remaining_ns= */ -1);
    }
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    if (store->is_beating) {
        return; /* beat_end() comes back here */
    }
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    store->work_begin_ns = one->asked_ns;
    store->wire.deadline_ns = one->deadline_ns;
    if (one->is_wish) {
        look(store, on_wish_look);
        return;
    }
    switch (one->ask.verb) {
    case CV_STORE_READ:
        look(store, on_read_look);
        break;
    case CV_STORE_ACQUIRE:
        acquire(store, one->ask.attempt);
        break;
    case CV_STORE_RENEW:
        renew(store, &one->ask);
        break;
    case CV_STORE_RELEASE:
        release(store, &one->ask);
        break;
    }
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    if (store->is_beating) { /* the request behind it never began */
        cv__etcd_wire_stop(&store->wire);
        store->is_beating = false;
    }
    cv__etcd_wire_stop(&store->wire);
    char why[400];
    (void)snprintf(why, sizeof why, "etcd %s: no answer in time", cv__etcd_wire_host(&store->wire));
    cv__etcd_wire_rotate(&store->wire);
    cv__remote_fail(&store->remote, "%s", why);
}

/* ---- The table ----------------------------------------------------------------------------- */

static void etcd_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_wish= */ false);
}

static void etcd_wish(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_wish= */ true);
}

static int read_address(struct cv_store *store, const struct cv_store_setting *setting,
                        struct cv_errtext *reterr)
{
    static const char *const known[] = {"cacert", "cert", "key", "password-file", "tls", NULL};
    struct cv_address address;
    int code = cv__address_split(setting->address, &address, reterr);
    code = code != CV_OK ? code : cv__address_check_options(&address, known, reterr);
    if (code != CV_OK) {
        return code;
    }
    struct cv_span path = address.path;
    if (path.bytes > 0) {
        path.at++; /* its slash */
        path.bytes--;
    }
    char prefix[CV_ETCD_PREFIX_BYTES];
    if (!cv__address_decode(path, prefix, sizeof prefix)) {
        return cv__fail(reterr, CV_E_INVALID, "the prefix in an etcd: address is too long");
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(setting->election, escaped);
    const char *under = prefix[0] != '\0' ? prefix : "conclave";
    (void)snprintf(store->prefix, sizeof store->prefix, "%s/%s/", under, escaped);
    (void)snprintf(store->wish_key, sizeof store->wish_key, "%s.wish/%s", under, escaped);
    return cv__etcd_wire_open(&store->wire, setting->loop, &address, reterr);
}

static int etcd_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                     struct cv_errtext *reterr)
{
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    store->wire.store = store;
    store->wire.failed = work_fail;
    store->wire.rotated = watch_stop; /* it would tell of nothing that happens elsewhere */
    const int code = read_address(store, setting, reterr);
    if (code != CV_OK) {
        free(store);
        return code;
    }
    store->wire.endpoint_now = (uint32_t)(setting->label % store->wire.endpoint_count); /* spread */
    cv__remote_init(&store->remote, setting, store, begin_request, give_up);
    (void)uv_timer_init(setting->loop, &store->beat); /* cannot fail */
    store->beat.data = store;
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
    cv__etcd_wire_close(&store->wire); /* with every call */
    store->watch = NULL;
    cv__remote_close_handle(&store->remote, (uv_handle_t *)&store->beat);
    cv__remote_close_end(&store->remote, etcd_last);
}

static const struct cv_store_kind kind = {
    .scheme = "etcd",
    .summary = "a queue of keys in etcd, through its JSON gateway (v3)",
    .example = "etcd://10.0.0.1:2379,10.0.0.2:2379?cacert=/etc/ssl/etcd.pem",
    .clock = "that of the cluster's leader, which counts durations",
    .news = "a watch on the key before one's own",
    .lease_ns_min = NS_PER_S,
    .lease_ns_step = NS_PER_S,
    .grant_percent = 100,
    .open = etcd_open,
    .ask = etcd_ask,
    .wish = etcd_wish,
    .close = etcd_close,
};

CV_MODULE(kind)
