/* src/stores/etcd.c - `etcd://host:port,...[/prefix]`: a queue of keys, through the v3 JSON
 * gateway.
 *
 * A contender puts the key PREFIX/ELECTION/LABEL-ATTEMPT under a lease of its own. The key with the
 * lowest create revision holds the election, and that revision is the token. Who waits watches the
 * key before its own and nothing else [trap T12], and keeps its lease alive; who is first keeps it
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
#include "core/address.h"
#include "core/errors.h"
#include "modules/module.h"
#include "stores/http.h"
#include "stores/remote.h"
#include "stores/value.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENDPOINTS_MAX 16
#define PREFIX_BYTES 128
#define KEY_BYTES (PREFIX_BYTES + CV_REMOTE_TEXT_BYTES + 64)
#define KEY64_BYTES (KEY_BYTES * 4 / 3 + 8)
#define BODY_BYTES (64 * 1024)
#define DEPOSED_MAX 24 /* keys that wait before an heir's and can be deleted at once */
#define PROOFS_MAX 5   /* in a row that a change of the cluster's leader may spoil */

enum { /* of gRPC, as far as we tell them apart */
       CODE_OK = 0,
       CODE_DEADLINE = 4,
       CODE_NOT_FOUND = 5,
       CODE_PRECONDITION = 9,
       CODE_UNAVAILABLE = 14,
       CODE_UNAUTHENTICATED = 16,
};

struct key {
    bool is_there;
    uint64_t create_revision;
    int64_t lease;
    char value[CV_VALUE_BYTES];
};

/* What one linearizable transaction saw. */
struct look {
    struct key first, own, wish;
    int64_t revision;
};

typedef void (*then_fn)(struct cv_store *store, const cJSON *reply, int code);

struct cv_store {
    struct cv_remote remote;
    struct cv_http *http;
    char endpoint[ENDPOINTS_MAX][300];
    uint32_t endpoint_count, endpoint_now;
    char prefix[KEY_BYTES]; /* of the election's keys, with its final slash */
    char wish_key[KEY_BYTES];
    char user[128], password[256];
    char authorization[512]; /* empty: not asked for yet */

    /* The attempt: all zero if there is none. */
    uint64_t attempt;
    int64_t lease_id, lease_ns, ttl_ns;
    int64_t alive_until_ns; /* proved; 0: nothing is */
    uint64_t token;         /* once it was granted */
    char key[KEY_BYTES];
    int64_t since_wall_ns;
    bool is_queued; /* and not the first: the beat keeps the lease */

    /* The call at work, for a request or for the beat. */
    struct cv_http_call *call;
    const char *path;
    char body[BODY_BYTES];
    then_fn then;
    uint32_t try_count;
    bool is_login_tried;
    int64_t call_begin_ns, work_begin_ns, work_deadline_ns;
    char error[256];
    uint64_t member, term; /* of the latest answer */
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

static int64_t wall_now_ns(void)
{
    struct timespec now;
    const int failed = clock_gettime(CLOCK_REALTIME, &now);
    CV_ASSERT(failed == 0);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- JSON and base64 ----------------------------------------------------------------------- */

struct text64 {
    char text[KEY64_BYTES > CV_VALUE_BYTES * 2 ? KEY64_BYTES : CV_VALUE_BYTES * 2];
};

static const char *encode64(const char *from, struct text64 *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = strlen(from);
    char *out = to->text;
    CV_ASSERT(bytes * 4 / 3 + 8 < sizeof to->text);
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t word = (uint32_t)(unsigned char)from[i] << 16;
        word |= i + 1 < bytes ? (uint32_t)(unsigned char)from[i + 1] << 8 : 0;
        word |= i + 2 < bytes ? (uint32_t)(unsigned char)from[i + 2] : 0;
        *out++ = digits[word >> 18];
        *out++ = digits[word >> 12 & 63];
        *out++ = i + 1 < bytes ? digits[word >> 6 & 63] : '=';
        *out++ = i + 2 < bytes ? digits[word & 63] : '=';
    }
    *out = '\0';
    return to->text;
}

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Cut at its bound. */
static void decode64(const char *from, char *ret_text, size_t bytes)
{
    size_t length = 0;
    uint32_t word = 0;
    int bits = 0;
    for (; digit64(*from) >= 0; from++) {
        word = word << 6 | (uint32_t)digit64(*from);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (length + 1 < bytes) {
                ret_text[length++] = (char)(word >> bits & 0xff);
            }
        }
    }
    ret_text[length] = '\0';
}

/* The gateway writes 64-bit numbers as strings, and leaves zeros out. */
static uint64_t number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const char *text = cJSON_GetStringValue(item);
    if (text != NULL) {
        return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    }
    return cJSON_IsNumber(item) && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

static const char *string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

static void key_read(const cJSON *kv, struct key *ret_key)
{
    *ret_key = (struct key){.is_there = kv != NULL};
    if (kv != NULL) {
        ret_key->create_revision = number(kv, "create_revision");
        ret_key->lease = (int64_t)number(kv, "lease");
        decode64(string(kv, "value"), ret_key->value, sizeof ret_key->value);
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
static void call_send(struct cv_store *store);
static void watch_stop(struct cv_store *store);

static void call_stop(struct cv_store *store)
{
    if (store->call != NULL) {
        cv__http_cancel(store->call);
        store->call = NULL;
    }
}

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

static const char *host_now(const struct cv_store *store)
{
    return strstr(store->endpoint[store->endpoint_now], "//") + 2;
}

static void work_fail(struct cv_store *store, const char *why)
{
    if (store->is_beating) {
        beat_end(store);
    } else {
        cv__remote_fail(&store->remote, "etcd %s: %s", host_now(store), why);
    }
}

/* The next endpoint, please. Its watch would tell of nothing that happens elsewhere. */
static void rotate(struct cv_store *store)
{
    store->endpoint_now = (store->endpoint_now + 1) % store->endpoint_count;
    watch_stop(store);
}

static void on_login(void *user, const struct cv_http_result *result)
{
    struct cv_store *store = user;
    store->call = NULL;
    cJSON *reply = cJSON_ParseWithLength(result->body, result->body_bytes);
    if (result->status == 200 && string(reply, "token")[0] != '\0') {
        (void)snprintf(store->authorization, sizeof store->authorization, "%s",
                       string(reply, "token"));
        cJSON_Delete(reply);
        call_send(store);
        return;
    }
    char why[256];
    cv__remote_one_line(string(reply, "message")[0] != '\0' ? string(reply, "message")
                                                            : result->why,
                        why, sizeof why);
    cJSON_Delete(reply);
    if (result->status == 0) {
        rotate(store);
    }
    work_fail(store, why);
}

static void login(struct cv_store *store)
{
    cJSON *object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "name", store->user);
    (void)cJSON_AddStringToObject(object, "password", store->password);
    char *body = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    char url[400];
    (void)snprintf(url, sizeof url, "%s/v3/auth/authenticate",
                   store->endpoint[store->endpoint_now]);
    store->is_login_tried = true;
    store->call =
        body == NULL ? NULL
                     : cv__http_post(store->http, &(struct cv_http_post){.url = url,
                                                                         .body = body,
                                                                         .timeout_ns = 2 * NS_PER_S,
                                                                         .done = on_login,
                                                                         .user = store});
    free(body);
    if (store->call == NULL) {
        work_fail(store, "out of memory");
    }
}

static bool is_passing(const struct cv_http_result *result, int code)
{
    return result->status == 0 || code == CODE_UNAVAILABLE || code == CODE_DEADLINE ||
           (result->status >= 500 && code != CODE_NOT_FOUND);
}

static void on_reply(void *user, const struct cv_http_result *result)
{
    struct cv_store *store = user;
    store->call = NULL;
    cJSON *whole = cJSON_ParseWithLength(result->body, result->body_bytes);
    const cJSON *reply = cJSON_GetObjectItemCaseSensitive(whole, "result");
    reply = reply != NULL ? reply : whole; /* streams have one more layer */
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(whole, "error");
    const bool is_fine = result->status == 200 && whole != NULL && error == NULL;
    const cJSON *said = cJSON_IsObject(error) ? error : whole; /* streams again */
    int code = is_fine ? CODE_OK : (int)number(said, "code");
    code = is_fine || code != 0 ? code : (int)number(said, "grpc_code");
    cv__remote_one_line(result->status == 0                  ? result->why
                        : string(said, "message")[0] != '\0' ? string(said, "message")
                                                             : "an answer that is not etcd's",
                        store->error, sizeof store->error);
    if (is_fine) {
        const cJSON *header = cJSON_GetObjectItemCaseSensitive(reply, "header");
        store->member = number(header, "member_id");
        store->term = number(header, "raft_term");
        store->look.revision = (int64_t)number(header, "revision");
        store->then(store, reply, CODE_OK);
    } else if (is_passing(result, code)) {
        rotate(store);
        store->try_count++;
        if (store->try_count < store->endpoint_count &&
            cv__remote_now_ns() < store->work_deadline_ns) {
            call_send(store);
        } else {
            work_fail(store, store->error);
        }
    } else if (store->user[0] != '\0' && !store->is_login_tried &&
               (code == CODE_UNAUTHENTICATED || result->status == 401)) {
        login(store); /* the ticket has run out */
    } else {
        store->then(store, NULL, code != 0 ? code : -1);
    }
    cJSON_Delete(whole);
}

static void call_send(struct cv_store *store)
{
    CV_ASSERT(store->call == NULL);
    if (store->user[0] != '\0' && store->authorization[0] == '\0') {
        login(store);
        return;
    }
    char url[400];
    (void)snprintf(url, sizeof url, "%s%s", store->endpoint[store->endpoint_now], store->path);
    /* One that does not answer leaves time for the others. */
    const int64_t left_ns = store->work_deadline_ns - cv__remote_now_ns();
    const uint32_t tries_left = store->endpoint_count - store->try_count % store->endpoint_count;
    store->call = cv__http_post(
        store->http, &(struct cv_http_post){
                         .url = url,
                         .authorization = store->user[0] != '\0' ? store->authorization : NULL,
                         .body = store->body,
                         .timeout_ns = cv__max64(100 * NS_PER_MS, left_ns / tries_left),
                         .done = on_reply,
                         .user = store});
    if (store->call == NULL) {
        work_fail(store, "out of memory");
    }
}

/* Sends store->body; goes on with `then`. */
static void call(struct cv_store *store, const char *path, then_fn then)
{
    store->path = path;
    store->then = then;
    store->try_count = 0;
    store->is_login_tried = false;
    store->call_begin_ns = cv__remote_now_ns();
    call_send(store);
}

static void body_print(struct cv_store *store, const char *format, ...) CV_PRINTF(2, 3);
static void body_print(struct cv_store *store, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t length = strlen(store->body);
    const int more = vsnprintf(store->body + length, sizeof store->body - length, format, args);
    va_end(args);
    CV_ASSERT(more >= 0 && length + (size_t)more < sizeof store->body);
}

static void body_begin(struct cv_store *store)
{
    store->body[0] = '\0';
}

/* A call that needs nothing but the lease. */
static void call_lease(struct cv_store *store, const char *path, int64_t lease_id, then_fn then)
{
    body_begin(store);
    body_print(store, "{\"ID\":\"%" PRId64 "\"}", lease_id);
    call(store, path, then);
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
    struct text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", key);
    end[strlen(end) - 1]++; /* the slash becomes a zero: the first key that is not below */
    char body[2 * KEY64_BYTES + 200], url[400];
    (void)snprintf(body, sizeof body,
                   "{\"create_request\":{\"key\":\"%s\",%s%s%s%s\"start_revision\":\"%" PRId64
                   "\"}}",
                   encode64(key, &key64), is_prefix ? "\"range_end\":\"" : "",
                   is_prefix ? encode64(end, &end64) : "", is_prefix ? "\"," : "", filters[what],
                   store->look.revision + 1);
    (void)snprintf(url, sizeof url, "%s/v3/watch", store->endpoint[store->endpoint_now]);
    store->watch = cv__http_post(
        store->http, &(struct cv_http_post){
                         .url = url,
                         .authorization = store->user[0] != '\0' ? store->authorization : NULL,
                         .body = body,
                         .timeout_ns = 5 * NS_PER_S,
                         .line = on_watch_line,
                         .done = on_watch_end,
                         .user = store});
    if (store->watch != NULL) { /* without memory, asking now and then must do */
        (void)snprintf(store->watch_key, sizeof store->watch_key, "%s", key);
    }
}

/* ---- Looking ------------------------------------------------------------------------------- */

/* Three ranges: the first key of the queue, ours, the wish. */
static void body_looks(struct cv_store *store)
{
    struct text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    body_print(store,
               "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\","
               "\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"}},",
               encode64(store->prefix, &key64), encode64(end, &end64));
    body_print(store, "{\"request_range\":{\"key\":\"%s\"}},",
               encode64(store->attempt != 0 ? store->key : store->wish_key, &key64));
    body_print(store, "{\"request_range\":{\"key\":\"%s\"}}", encode64(store->wish_key, &key64));
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
    body_begin(store);
    body_print(store, "{\"success\":[");
    body_looks(store);
    body_print(store, "]}");
    call(store, "/v3/kv/txn", then);
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
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    look_read(store, reply, 0);
    const bool is_proof = store->member == store->proof_member && store->term == store->proof_term;
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
    if (code != CODE_OK && code != CODE_NOT_FOUND) {
        work_fail(store, store->error);
        return;
    }
    const int64_t ttl_s = code == CODE_OK ? (int64_t)number(reply, "TTL") : 0;
    store->proof_until_ns = 0;
    if (ttl_s > 0) {
        store->ttl_ns = ttl_s * NS_PER_S;
        store->proof_until_ns = store->call_begin_ns + store->ttl_ns;
        if (store->member != store->proof_member || store->term != store->proof_term) {
            store->proof_member = 0; /* another one answered: no proof, the next may be one */
        }
    }
    look(store, on_proof_look);
}

static void proof_keepalive(struct cv_store *store)
{
    store->proof_member = store->member; /* of the answer before this one */
    store->proof_term = store->term;
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
    struct text64 key64, value64;
    char value[CV_VALUE_BYTES];
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    value);
    static const char format[] =
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}]}";
    char body[2 * KEY64_BYTES + sizeof value64.text + sizeof format + 64], url[400];
    (void)snprintf(body, sizeof body, format, encode64(store->key, &key64), store->token,
                   key64.text, encode64(value, &value64), store->lease_id);
    (void)snprintf(url, sizeof url, "%s/v3/kv/txn", store->endpoint[store->endpoint_now]);
    (void)cv__http_post(store->http,
                        &(struct cv_http_post){
                            .url = url,
                            .authorization = store->user[0] != '\0' ? store->authorization : NULL,
                            .body = body,
                            .timeout_ns = 2 * NS_PER_S,
                            .done = on_updated});
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
        store->since_wall_ns = wall_now_ns();
        update_since(store);
    }
    watch_start(store, store->wish_key, WATCH_WISH);
    struct cv_store_record record;
    record_read(store, &record);
    record.remaining_ns = store->alive_until_ns - cv__remote_now_ns();
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
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    const cJSON *kv = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(reply, "kvs"), 0);
    if (kv == NULL) { /* it is gone already, and we are the first */
        prove(store, acquire_evaluate);
        return;
    }
    char before[KEY_BYTES];
    decode64(string(kv, "key"), before, sizeof before);
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
    struct text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    body_begin(store);
    body_print(store,
               "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\",\"keys_only\":true,"
               "\"sort_order\":\"DESCEND\",\"sort_target\":\"CREATE\","
               "\"max_create_revision\":\"%" PRIu64 "\"}",
               encode64(store->prefix, &key64), encode64(end, &end64),
               store->look.own.create_revision - 1);
    call(store, "/v3/kv/range", on_before);
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
    if (code == CODE_NOT_FOUND) { /* the lease */
        store->alive_until_ns = 0;
        store->look.own.is_there = false;
        acquire_evaluate(store);
        return;
    }
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    const bool is_put = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "succeeded"));
    look_read(store, reply, is_put ? 1 : 0);
    acquire_evaluate(store);
}

/* Puts our key, unless it is there, and looks. */
static void acquire_join(struct cv_store *store)
{
    struct text64 key64, value64;
    char value[CV_VALUE_BYTES];
    store->since_wall_ns = wall_now_ns();
    cv__value_write(store->remote.node, store->remote.label, store->lease_ns, store->since_wall_ns,
                    value);
    body_begin(store);
    body_print(store,
               "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
               "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
               "\"}},",
               encode64(store->key, &key64), key64.text, encode64(value, &value64),
               store->lease_id);
    body_looks(store);
    body_print(store, "],\"failure\":[");
    body_looks(store);
    body_print(store, "]}");
    call(store, "/v3/kv/txn", on_joined);
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
    if (code == CODE_PRECONDITION) { /* it exists: an answer was lost before */
        prove(store, on_lease_exists);
        return;
    }
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    store->ttl_ns = (int64_t)number(reply, "TTL") * NS_PER_S;
    store->alive_until_ns = store->call_begin_ns + store->ttl_ns;
    acquire_join(store);
}

static void acquire_grant(struct cv_store *store)
{
    if (store->alive_until_ns > cv__remote_now_ns()) {
        acquire_join(store); /* only the key was lost */
        return;
    }
    body_begin(store);
    body_print(store, "{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}",
               (store->lease_ns + NS_PER_S - 1) / NS_PER_S, store->lease_id);
    call(store, "/v3/lease/grant", on_lease);
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
    store->look = (struct look){.revision = 0};
    const int length = snprintf(store->key, sizeof store->key, "%s%016" PRIx64 "-%" PRIu64,
                                store->prefix, store->remote.label, store->attempt);
    CV_ASSERT(length > 0 && (size_t)length < sizeof store->key);
    acquire_grant(store);
}

static void on_old_revoked(struct cv_store *store, const cJSON *reply, int code)
{
    (void)reply;
    if (code != CODE_OK && code != CODE_NOT_FOUND) {
        work_fail(store, store->error);
        return;
    }
    acquire_new(store);
}

static void on_acquire_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CODE_OK) {
        work_fail(store, store->error);
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
    if (code != CODE_OK) {
        work_fail(store, store->error);
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

/* ---- The beat: a place in the queue lives on ----------------------------------------------------
 */

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
        store->work_begin_ns = cv__remote_now_ns();
        store->work_deadline_ns = store->work_begin_ns + cv__max64(store->ttl_ns / 4, NS_PER_S / 2);
        beat_arm(store);
        prove(store, beat_evaluate);
        return;
    }
    if (!store->remote.is_closing) {
        beat_arm(store);
    }
}

/* ---- Releasing, wishing, reading ----------------------------------------------------------------
 */

static void on_revoked(struct cv_store *store, const cJSON *reply, int code)
{
    (void)reply;
    if (code != CODE_OK && code != CODE_NOT_FOUND) {
        work_fail(store, store->error);
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
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    struct text64 key64;
    body_begin(store);
    body_print(store,
               "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
               "\"}],\"success\":[",
               encode64(store->key, &key64), store->token);
    bool is_found = false;
    uint32_t count = 0;
    const cJSON *kv;
    cJSON_ArrayForEach(kv, cJSON_GetObjectItemCaseSensitive(reply, "kvs"))
    {
        char value[CV_VALUE_BYTES];
        struct cv_store_record record = {0};
        decode64(string(kv, "value"), value, sizeof value);
        cv__value_read(value, strlen(value), &record);
        is_found = count > 0 && strcmp(record.node, one->heir) == 0;
        if (is_found || count >= DEPOSED_MAX) {
            break;
        }
        body_print(store, "%s{\"request_delete_range\":{\"key\":\"%s\"}}", count > 0 ? "," : "",
                   string(kv, "key")); /* base64 as it came */
        count++;
    }
    body_print(store, "]}");
    if (is_found) {
        call(store, "/v3/kv/txn", on_deposed);
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
    struct text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", store->prefix);
    end[strlen(end) - 1]++;
    body_begin(store);
    body_print(store,
               "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"%d\",\"sort_order\":\"ASCEND\","
               "\"sort_target\":\"CREATE\"}",
               encode64(store->prefix, &key64), encode64(end, &end64), DEPOSED_MAX + 1);
    call(store, "/v3/kv/range", on_queue);
}

static void on_wished(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CODE_OK && code != CODE_NOT_FOUND) {
        work_fail(store, store->error);
        return;
    }
    const bool is_left =
        code == CODE_OK && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(reply, "succeeded"));
    if (!is_left) {
        store->look.first.is_there = false; /* the holder has gone meanwhile */
    }
    answer_seen(store, /* remaining_ns= */ -1);
}

static void on_wish_look(struct cv_store *store, const cJSON *reply, int code)
{
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (code != CODE_OK) {
        work_fail(store, store->error);
        return;
    }
    look_read(store, reply, 0);
    const cJSON *first = first_of(reply, 0);
    if (first == NULL) {
        answer_seen(store, /* remaining_ns= */ -1);
        return;
    }
    struct text64 key64, value64;
    char value[CV_VALUE_BYTES];
    cv__value_wish_write(store->look.first.create_revision, one->heir[0] != '\0' ? one->heir : "*",
                         value);
    body_begin(store);
    body_print(
        store,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"%" PRIu64
        "\"}],\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}]}",
        string(first, "key"), store->look.first.create_revision, encode64(store->wish_key, &key64),
        encode64(value, &value64), store->look.first.lease);
    call(store, "/v3/kv/txn", on_wished);
}

static void on_remaining(struct cv_store *store, const cJSON *reply, int code)
{
    const int64_t ttl_s = code == CODE_OK ? (int64_t)number(reply, "TTL") : 0;
    answer_seen(store, cv__max64(0, ttl_s + 1) * NS_PER_S); /* it is cut to whole seconds */
}

static void on_read_look(struct cv_store *store, const cJSON *reply, int code)
{
    if (code != CODE_OK) {
        work_fail(store, store->error);
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
    store->work_deadline_ns = one->deadline_ns;
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
        call_stop(store);
        store->is_beating = false;
    }
    call_stop(store);
    char why[400];
    (void)snprintf(why, sizeof why, "etcd %s: no answer in time", host_now(store));
    rotate(store);
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

static int option_text(const struct cv_address *address, const char *name, char *ret_text,
                       size_t bytes, struct cv_errtext *reterr)
{
    struct cv_span value;
    ret_text[0] = '\0';
    if (!cv__address_option(address, name, &value)) {
        return CV_OK;
    }
    if (!cv__address_decode(value, ret_text, bytes) || ret_text[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID, "option '%s' of an etcd: address is %s", name,
                        value.bytes > 0 ? "too long" : "empty");
    }
    return CV_OK;
}

static int read_files(const struct cv_address *address, struct cv_http_tls *ret_tls,
                      struct cv_errtext *reterr)
{
    const struct {
        const char *name;
        char *text;
    } files[] = {{"cacert", ret_tls->cacert}, {"cert", ret_tls->cert}, {"key", ret_tls->key}};
    for (uint32_t i = 0; i < COUNT_OF(files); i++) {
        const int code =
            option_text(address, files[i].name, files[i].text, sizeof ret_tls->cacert, reterr);
        if (code != CV_OK) {
            return code;
        }
        if (files[i].text[0] != '\0' && access(files[i].text, R_OK) != 0) {
            return cv__fail(reterr, CV_E_IO, "cannot read '%s', the %s of an etcd: address",
                            files[i].text, files[i].name);
        }
    }
    return CV_OK;
}

static int read_user(struct cv_store *store, const struct cv_address *address,
                     struct cv_errtext *reterr)
{
    char file[256];
    const int code = option_text(address, "password-file", file, sizeof file, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (!cv__address_decode(address->user, store->user, sizeof store->user)) {
        return cv__fail(reterr, CV_E_INVALID, "the user in an etcd: address is too long");
    }
    if (memchr(address->user.at, ':', address->user.bytes) != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "an etcd: address names the user only, everybody can read a command line; "
                        "give the password by ?password-file=FILE or CONCLAVE_ETCD_PASSWORD");
    }
    if (store->user[0] == '\0') {
        return CV_OK;
    }
    const int read = cv__remote_secret(file, "CONCLAVE_ETCD_PASSWORD", store->password,
                                       sizeof store->password, reterr);
    if (read == CV_OK && store->password[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID,
                        "no password for etcd's user '%s'; give ?password-file=FILE or set "
                        "CONCLAVE_ETCD_PASSWORD",
                        store->user);
    }
    return read;
}

static int read_hosts(struct cv_store *store, const struct cv_address *address, bool is_tls,
                      struct cv_errtext *reterr)
{
    store->endpoint_count = cv__address_host_count(address);
    if (store->endpoint_count == 0 || store->endpoint_count > ENDPOINTS_MAX) {
        return cv__fail(reterr, CV_E_INVALID,
                        "write etcd://host:port[,host:port...][/prefix], with 1 to %d hosts",
                        ENDPOINTS_MAX);
    }
    for (uint32_t i = 0; i < store->endpoint_count; i++) {
        char host[256];
        uint32_t port;
        if (!cv__address_host(address, i, host, sizeof host, &port)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "number %u of the hosts in an etcd: address is not host:port",
                            (unsigned)i + 1);
        }
        const bool is_v6 = strchr(host, ':') != NULL;
        (void)snprintf(store->endpoint[i], sizeof store->endpoint[i], "http%s://%s%s%s:%u",
                       is_tls ? "s" : "", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                       port != 0 ? (unsigned)port : 2379u);
    }
    return CV_OK;
}

static int read_address(struct cv_store *store, const char *text, struct cv_http_tls *ret_tls,
                        struct cv_errtext *reterr)
{
    static const char *const known[] = {"cacert", "cert", "key", "password-file", "tls", NULL};
    struct cv_address address;
    struct cv_span value;
    char tls[8];
    int code = cv__address_split(text, &address, reterr);
    code = code != CV_OK ? code : cv__address_check_options(&address, known, reterr);
    code = code != CV_OK ? code : option_text(&address, "tls", tls, sizeof tls, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (tls[0] != '\0' && strcmp(tls, "yes") != 0 && strcmp(tls, "no") != 0) {
        return cv__fail(reterr, CV_E_INVALID, "option 'tls' of an etcd: address is yes or no");
    }
    const bool is_tls = strcmp(tls, "yes") == 0 ||
                        (tls[0] == '\0' && (cv__address_option(&address, "cacert", &value) ||
                                            cv__address_option(&address, "cert", &value)));
    code = read_hosts(store, &address, is_tls, reterr);
    code = code != CV_OK ? code : read_files(&address, ret_tls, reterr);
    code = code != CV_OK ? code : read_user(store, &address, reterr);
    if (code != CV_OK) {
        return code;
    }
    char prefix[PREFIX_BYTES];
    if (address.path.bytes > 0) {
        address.path.at++; /* its slash */
        address.path.bytes--;
    }
    if (!cv__address_decode(address.path, prefix, sizeof prefix)) {
        return cv__fail(reterr, CV_E_INVALID, "the prefix in an etcd: address is too long");
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(store->remote.election, escaped);
    const char *under = prefix[0] != '\0' ? prefix : "conclave";
    (void)snprintf(store->prefix, sizeof store->prefix, "%s/%s/", under, escaped);
    (void)snprintf(store->wish_key, sizeof store->wish_key, "%s.wish/%s", under, escaped);
    return CV_OK;
}

static int etcd_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                     struct cv_errtext *reterr)
{
    struct cv_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    (void)snprintf(store->remote.election, sizeof store->remote.election, "%s", setting->election);
    struct cv_http_tls tls = {.cacert = ""};
    const int code = read_address(store, setting->address, &tls, reterr);
    if (code == CV_OK) {
        store->http = cv__http_new(setting->loop, &tls);
    }
    if (store->http == NULL) {
        free(store);
        return code != CV_OK ? code : cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    store->endpoint_now = (uint32_t)(setting->label % store->endpoint_count); /* spread */
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
    cv__http_free(store->http); /* with every call */
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
