/* src/stores/etcd_server.c - see etcd_server.h. */
#include "stores/etcd_server.h"

#include "core/errors.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES CV_ETCD_KEY_BYTES
#define SWEEP_BEATS 4 /* the waiting lease's keys are looked through at each fourth beat */
#define FRESH_PART \
    10 /* a holding lease is used for this part of its length, then there is a new one */
#define PATIENCE_NS_MIN (NS_PER_S / 2)
#define WATCH_PAUSE_MS_MIN 100 /* between two streams that do not last */
#define WATCH_PAUSE_MS_MAX 5000

enum lease_work { WORK_NONE, WORK_GRANT, WORK_PROLONG };

/* A lease that was granted and is never prolonged. */
struct holding {
    int64_t id;       /* 0: none */
    int64_t until_ns; /* so long it protects what is under it */
};

/* Invariants: a call for the waiting lease is on its way exactly while work is not WORK_NONE, one
 * for a holding lease exactly while hold_number is not 0. */
struct cv_etcd_lease {
    struct cv_etcd_lease *next;
    struct cv_etcd_server *server;
    int64_t ttl_s;  /* as we ask for it */
    int64_t ttl_ns; /* what counts: no more than was asked, no more than was answered */
    uint32_t user_count;
    uint64_t call_count; /* elections wait for one of these numbers */

    /* The waiting lease, which is kept alive. */
    int64_t id;
    bool is_there;
    int64_t heard_ns; /* it was there so late: when the latest call that found it was sent */
    int64_t until_ns; /* so long it protects what is under it, by its grant alone */
    enum lease_work work;
    uint64_t work_number;
    int64_t sent_ns; /* of the latest keep-alive or grant */

    struct holding holding, former;
    int64_t asked_id;     /* of the holding lease that is asked for */
    uint64_t hold_number; /* of that call; 0: none is */

    uv_timer_t beat;
    uint32_t beat_count;
};

/* The key of an election that was closed. */
struct cv_etcd_orphan {
    struct cv_etcd_orphan *next;
    int64_t until_ns;
    char key[KEY_BYTES];
};

struct cv_etcd_server {
    struct cv_shared shared; /* first: the list knows this only */
    uv_loop_t *loop;
    struct cv_etcd_wire wire;
    char prefix[CV_ETCD_PREFIX_BYTES];
    uint64_t label;
    struct cv_etcd_election *elections;
    uint32_t election_count;
    struct cv_etcd_lease *leases;
    uint64_t lease_count;
    struct cv_etcd_orphan *orphans;

    struct cv_http_call *stream; /* NULL: nothing is watched */
    bool is_whole;               /* it watches the whole prefix; otherwise the only election */
    bool is_created;             /* the server has confirmed it */
    int64_t stream_revision;     /* it tells of everything from this on */
    uv_timer_t again;            /* begins the stream again */
    uv_timer_t tell;             /* tells those that are marked, from the loop */
    uint64_t pause_ms;

    uint32_t handle_count; /* closing: so many are left */
};

struct cv_etcd_wire *cv__etcd_wire_of(struct cv_etcd_election *election)
{
    return &election->server->wire;
}

/* Tells those that are marked; each may close elections, also the last one. */
static void tell_marked(struct cv_etcd_server *server)
{
    for (;;) {
        struct cv_etcd_election *e = server->elections;
        while (e != NULL && !e->has_changed) {
            e = e->next;
        }
        if (e == NULL) {
            return;
        }
        e->has_changed = false;
        e->changed(e->store);
    }
}

/* NULL: whatever lease they use. */
static void tell_changed(struct cv_etcd_server *server, const struct cv_etcd_lease *lease)
{
    for (struct cv_etcd_election *e = server->elections; e != NULL; e = e->next) {
        e->has_changed = e->has_changed ||
                         (e->interest != CV_ETCD_NOTHING && (lease == NULL || e->lease == lease));
    }
    tell_marked(server);
}

void cv__etcd_body_range(struct cv_etcd_body *body, const char *prefix)
{
    struct cv_text64 key64, end64;
    char end[KEY_BYTES];
    (void)snprintf(end, sizeof end, "%s", prefix);
    CV_ASSERT(end[0] != '\0');
    end[strlen(end) - 1]++; /* the slash becomes a zero: the first key that is not below */
    cv__etcd_body_print(body, "\"key\":\"%s\",\"range_end\":\"%s\"",
                        cv__etcd_encode(prefix, &key64), cv__etcd_encode(end, &end64));
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void on_beat(uv_timer_t *timer);

int64_t cv__etcd_lease_id(const struct cv_etcd_election *election)
{
    return election->lease->id;
}

bool cv__etcd_lease_is_there(const struct cv_etcd_election *election)
{
    return election->lease->is_there;
}

int64_t cv__etcd_lease_ttl_ns(const struct cv_etcd_election *election)
{
    return election->lease->ttl_ns;
}

int64_t cv__etcd_until_ns(const struct cv_etcd_election *election, int64_t lease_id)
{
    const struct cv_etcd_lease *lease = election->lease;
    CV_ASSERT(lease_id != 0);
    return lease_id == lease->id           ? lease->until_ns
           : lease_id == lease->holding.id ? lease->holding.until_ns
           : lease_id == lease->former.id  ? lease->former.until_ns
                                           : 0;
}

static uint64_t mix(uint64_t x) /* splitmix64's last steps */
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Labels are unique, and each belongs to one server: so is this. */
static int64_t lease_id_of(uint64_t label, uint64_t count)
{
    const uint64_t id = mix(mix(label) + count) & INT64_MAX;
    return id != 0 ? (int64_t)id : 1; /* 0 would let the cluster choose */
}

bool cv__etcd_lease_use(struct cv_etcd_election *election, int64_t lease_ns)
{
    CV_ASSERT(election->lease == NULL);
    CV_ASSERT(lease_ns > 0);
    struct cv_etcd_server *server = election->server;
    const int64_t ttl_s = (lease_ns - 1) / NS_PER_S + 1;
    struct cv_etcd_lease *lease = server->leases;
    while (lease != NULL && lease->ttl_s != ttl_s) {
        lease = lease->next;
    }
    if (lease == NULL) {
        lease = calloc(1, sizeof *lease);
        if (lease == NULL) {
            return false;
        }
        lease->server = server;
        lease->ttl_s = ttl_s;
        lease->ttl_ns = ttl_s * NS_PER_S;
        lease->id = lease_id_of(server->label, ++server->lease_count);
        lease->next = server->leases;
        server->leases = lease;
        (void)uv_timer_init(server->loop, &lease->beat); /* cannot fail */
        lease->beat.data = lease;
    }
    if (lease->user_count++ == 0) {
        const uint64_t beat_ms = (uint64_t)(lease->ttl_ns / 6 / NS_PER_MS);
        (void)uv_timer_start(&lease->beat, on_beat, beat_ms, beat_ms);
    }
    election->lease = lease;
    return true;
}

void cv__etcd_lease_leave(struct cv_etcd_election *election)
{
    struct cv_etcd_lease *lease = election->lease;
    election->waits_for = 0;
    election->lease = NULL;
    if (lease == NULL) {
        return;
    }
    CV_ASSERT(!election->has_key);
    CV_ASSERT(lease->user_count > 0);
    lease->user_count--;
    if (lease->user_count == 0) {
        (void)uv_timer_stop(&lease->beat); /* it runs out by itself, with all that is left */
    }
}

/* The call of this number has ended. False: nobody waited for it. */
static bool lease_tell(struct cv_etcd_lease *lease, uint64_t number, enum cv_etcd_outcome outcome,
                       const char *error)
{
    struct cv_etcd_server *server = lease->server;
    for (bool is_any = false;; is_any = true) {
        struct cv_etcd_election *e = server->elections;
        while (e != NULL && (e->lease != lease || e->waits_for != number)) {
            e = e->next;
        }
        if (e == NULL) {
            return is_any;
        }
        e->waits_for = 0;
        e->lease_then(e->store, outcome, error);
    }
}

static int64_t patience_ns(const struct cv_etcd_lease *lease)
{
    return cv__max64(lease->ttl_ns / 5, PATIENCE_NS_MIN);
}

static void lease_call(struct cv_etcd_lease *lease, enum lease_work work, const char *path,
                       struct cv_etcd_body *body, cv_etcd_then then)
{
    CV_ASSERT(lease->work == WORK_NONE);
    lease->work = work;
    lease->work_number = ++lease->call_count;
    lease->sent_ns = cv__clock_now_ns();
    if (cv__etcd_call(&lease->server->wire, path, body, lease->sent_ns + patience_ns(lease), then,
                      lease) == NULL) {
        lease->work = WORK_NONE; /* those that wait run into their deadlines */
    }
}

/* Those that wait for one call wait for another one instead. */
static void lease_pass_on(struct cv_etcd_lease *lease, uint64_t number, uint64_t next_number)
{
    for (struct cv_etcd_election *e = lease->server->elections; e != NULL; e = e->next) {
        e->waits_for = e->lease == lease && e->waits_for == number ? next_number : e->waits_for;
    }
}

/* No more than was asked: a server that says two days is not believed. False: there is none. */
static bool ttl_read(struct cv_etcd_lease *lease, const struct cv_etcd_answer *answer)
{
    const int64_t ttl_s =
        answer->code == CV_ETCD_OK ? cv__etcd_number_to(answer->reply, "TTL", lease->ttl_s) : 0;
    if (ttl_s > 0) {
        lease->ttl_ns = ttl_s * NS_PER_S;
    }
    return ttl_s > 0;
}

static void body_grant(const struct cv_etcd_lease *lease, int64_t id, struct cv_etcd_body *body)
{
    cv__etcd_body_print(body, "{\"TTL\":\"%" PRId64 "\",\"ID\":\"%" PRId64 "\"}", lease->ttl_s, id);
}

static void lease_prolong(struct cv_etcd_lease *lease);

static void on_grant(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_lease *lease = user;
    const uint64_t number = lease->work_number;
    lease->work = WORK_NONE;
    if (answer->code == CV_ETCD_PRECONDITION) { /* it exists: an answer was lost before */
        lease_prolong(lease);
        lease_pass_on(lease, number, lease->work_number);
        return;
    }
    if (!ttl_read(lease, answer)) {
        (void)lease_tell(lease, number, CV_ETCD_LEASE_FAILED, answer->error);
        return;
    }
    lease->is_there = true;
    lease->heard_ns = answer->begin_ns;
    lease->until_ns = answer->begin_ns + lease->ttl_ns;
    (void)lease_tell(lease, number, CV_ETCD_LEASE_ALIVE, NULL);
}

static void lease_grant(struct cv_etcd_lease *lease)
{
    struct cv_etcd_body body = {0};
    body_grant(lease, lease->id, &body);
    lease_call(lease, WORK_GRANT, "/v3/lease/grant", &body, on_grant);
}

static void on_prolonged(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_lease *lease = user;
    struct cv_etcd_server *server = lease->server;
    const uint64_t number = lease->work_number;
    lease->work = WORK_NONE;
    if (answer->code != CV_ETCD_OK && answer->code != CV_ETCD_NOT_FOUND) {
        (void)lease_tell(lease, number, CV_ETCD_LEASE_FAILED, answer->error);
        return;
    }
    if (!ttl_read(lease, answer)) {
        lease->is_there = false;
        lease->until_ns = 0;
        (void)lease_tell(lease, number, CV_ETCD_LEASE_GONE, NULL);
        tell_changed(server, lease);
        return;
    }
    lease->is_there = true;
    lease->heard_ns = answer->begin_ns; /* which protects nothing: see etcd_server.h */
    (void)lease_tell(lease, number, CV_ETCD_LEASE_ALIVE, NULL);
}

static void lease_prolong(struct cv_etcd_lease *lease)
{
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"ID\":\"%" PRId64 "\"}", lease->id);
    lease_call(lease, WORK_PROLONG, "/v3/lease/keepalive", &body, on_prolonged);
}

void cv__etcd_lease_ensure(struct cv_etcd_election *election, cv_etcd_lease_then then)
{
    struct cv_etcd_lease *lease = election->lease;
    if (lease->is_there && cv__clock_now_ns() - lease->heard_ns < lease->ttl_ns / 2) {
        then(election->store, CV_ETCD_LEASE_ALIVE, NULL);
        return;
    }
    if (lease->work == WORK_NONE) {
        if (lease->is_there) {
            lease_prolong(lease);
        } else {
            lease_grant(lease);
        }
    }
    election->waits_for = lease->work_number;
    election->lease_then = then;
}

void cv__etcd_lease_prolong(struct cv_etcd_election *election, cv_etcd_lease_then then)
{
    struct cv_etcd_lease *lease = election->lease;
    if (lease->work == WORK_NONE) {
        lease_prolong(lease);
    }
    election->waits_for = lease->work_number;
    election->lease_then = then;
}

static void hold_grant(struct cv_etcd_lease *lease);

static void on_hold(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_lease *lease = user;
    const uint64_t number = lease->hold_number;
    lease->hold_number = 0;
    if (answer->code == CV_ETCD_PRECONDITION) { /* granted, but how long it is was not heard */
        hold_grant(lease);
        lease_pass_on(lease, number, lease->hold_number);
        return;
    }
    if (!ttl_read(lease, answer)) {
        (void)lease_tell(lease, number, CV_ETCD_LEASE_FAILED, answer->error);
        return;
    }
    lease->former = lease->holding;
    lease->holding = (struct holding){lease->asked_id, answer->begin_ns + lease->ttl_ns};
    (void)lease_tell(lease, number, CV_ETCD_LEASE_ALIVE, NULL);
}

/* Each has an id of its own, so that a grant that is heard of is the one that was asked for. */
static void hold_grant(struct cv_etcd_lease *lease)
{
    struct cv_etcd_body body = {0};
    CV_ASSERT(lease->hold_number == 0);
    lease->asked_id = lease_id_of(lease->server->label, ++lease->server->lease_count);
    body_grant(lease, lease->asked_id, &body);
    if (cv__etcd_call(&lease->server->wire, "/v3/lease/grant", &body,
                      cv__clock_now_ns() + patience_ns(lease), on_hold, lease) != NULL) {
        lease->hold_number = ++lease->call_count;
    } /* otherwise those that wait run into their deadlines */
}

static bool has_fresh_hold(const struct cv_etcd_lease *lease)
{
    const int64_t left_ns = lease->holding.until_ns - cv__clock_now_ns();
    return lease->holding.id != 0 && left_ns >= lease->ttl_ns - lease->ttl_ns / FRESH_PART;
}

void cv__etcd_hold(struct cv_etcd_election *election, cv_etcd_lease_then then)
{
    struct cv_etcd_lease *lease = election->lease;
    if (has_fresh_hold(lease)) {
        then(election->store, CV_ETCD_LEASE_ALIVE, NULL);
        return;
    }
    cv__etcd_hold_prepare(election);
    election->waits_for = lease->hold_number;
    election->lease_then = then;
}

void cv__etcd_hold_prepare(struct cv_etcd_election *election)
{
    struct cv_etcd_lease *lease = election->lease;
    if (lease->hold_number == 0 && !has_fresh_hold(lease)) {
        hold_grant(lease);
    }
}

int64_t cv__etcd_hold_id(const struct cv_etcd_election *election)
{
    return election->lease->holding.id;
}

void cv__etcd_hold_drop(struct cv_etcd_election *election, int64_t lease_id)
{
    if (election->lease->holding.id == lease_id) {
        election->lease->holding = (struct holding){0};
    }
}

/* ---- Keys that nobody wants any more --------------------------------------------------------- */

static void on_deleted(void *user, const struct cv_etcd_answer *answer)
{
    (void)user; /* what is still there is found by the next sweep */
    (void)answer;
}

static void delete_key(struct cv_etcd_server *server, const char *key)
{
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"request_delete_range\":{\"key\":\"%s\"}}",
                        cv__etcd_encode(key, &key64));
    (void)cv__etcd_txn(&server->wire, CV_ETCD_WRITE, 1, NULL, &body,
                       cv__clock_now_ns() + 2 * NS_PER_S, on_deleted, NULL);
}

/* Only under this lease: somebody may have put it anew. */
static void delete_swept(struct cv_etcd_server *server, const char *key, int64_t lease_id)
{
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body,
                        "{\"compare\":[{\"key\":\"%s\",\"target\":\"LEASE\",\"lease\":\"%" PRId64
                        "\"}],\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}}]}",
                        cv__etcd_encode(key, &key64), lease_id, key64.text);
    (void)cv__etcd_txn(&server->wire, CV_ETCD_ALONE, 1, NULL, &body,
                       cv__clock_now_ns() + 2 * NS_PER_S, on_deleted, NULL);
}

void cv__etcd_delete(struct cv_etcd_election *election)
{
    delete_key(election->server, election->key);
}

static bool is_claimed(const struct cv_etcd_server *server, const char *key)
{
    for (const struct cv_etcd_election *e = server->elections; e != NULL; e = e->next) {
        if (e->has_key && (strcmp(e->key, key) == 0 || strcmp(e->request, key) == 0)) {
            return true;
        }
    }
    for (const struct cv_etcd_orphan *o = server->orphans; o != NULL; o = o->next) {
        if (strcmp(o->key, key) == 0) {
            return true;
        }
    }
    return false;
}

static void on_lease_keys(void *user, const struct cv_etcd_answer *answer)
{
    struct cv_etcd_lease *lease = user;
    if (answer->code != CV_ETCD_OK) {
        return;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer->reply, "keys"))
    {
        const char *key64 = cJSON_GetStringValue(item);
        char key[KEY_BYTES];
        if (key64 != NULL && cv__etcd_decode(key64, key, sizeof key) &&
            !is_claimed(lease->server, key)) {
            delete_swept(lease->server, key, lease->id);
        }
    }
}

static void sweep(struct cv_etcd_lease *lease)
{
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"ID\":\"%" PRId64 "\",\"keys\":true}", lease->id);
    (void)cv__etcd_call(&lease->server->wire, "/v3/lease/timetolive", &body,
                        cv__clock_now_ns() + patience_ns(lease), on_lease_keys, lease);
}

static void orphans_end(struct cv_etcd_server *server)
{
    const int64_t now_ns = cv__clock_now_ns();
    struct cv_etcd_orphan **at = &server->orphans;
    while (*at != NULL) {
        struct cv_etcd_orphan *orphan = *at;
        if (orphan->until_ns > now_ns) {
            at = &orphan->next;
            continue;
        }
        delete_key(server, orphan->key);
        *at = orphan->next;
        free(orphan);
    }
}

/* Every sixth of the length. */
static void on_beat(uv_timer_t *timer)
{
    struct cv_etcd_lease *lease = timer->data;
    CV_ASSERT(lease->user_count > 0);
    const int64_t now_ns = cv__clock_now_ns();
    orphans_end(lease->server);
    if (++lease->beat_count % SWEEP_BEATS == 0) {
        sweep(lease);
    }
    if (lease->work == WORK_NONE && lease->is_there &&
        now_ns - lease->sent_ns >= lease->ttl_ns / 4) {
        lease_prolong(lease);
    }
}

/* ---- The watch ------------------------------------------------------------------------------- */

static void stream_stop(struct cv_etcd_server *server)
{
    if (server->stream != NULL) {
        cv__http_cancel(server->stream);
        server->stream = NULL;
    }
}

static bool is_concerned(const struct cv_etcd_election *e, const char *key, bool is_deleted,
                         bool is_request)
{
    const bool is_own = e->has_key && strcmp(key, e->key) == 0;
    switch (e->interest) {
    case CV_ETCD_NOTHING:
        return false;
    case CV_ETCD_WAITING:
        return !is_request && is_deleted &&
               (is_own || e->before[0] == '\0' || strcmp(key, e->before) == 0);
    case CV_ETCD_LEADING:
        return is_request ? !is_deleted : is_own && is_deleted;
    case CV_ETCD_READING:
        return true;
    }
    return false;
}

/* Marks those whom an event concerns. */
static void event_note(struct cv_etcd_server *server, const cJSON *event)
{
    const cJSON *kv = cJSON_GetObjectItemCaseSensitive(event, "kv");
    const bool is_deleted = strcmp(cv__etcd_string(event, "type"), "DELETE") == 0;
    const int64_t revision = cv__etcd_number_to(kv, "mod_revision", INT64_MAX - 1);
    char key[KEY_BYTES];
    if (!cv__etcd_decode(cv__etcd_string(kv, "key"), key, sizeof key)) {
        return; /* none of ours is so long */
    }
    for (struct cv_etcd_election *e = server->elections; e != NULL; e = e->next) {
        const bool is_request = strcmp(key, e->request) == 0;
        if (!is_request && strncmp(key, e->queue, strlen(e->queue)) != 0) {
            continue;
        }
        e->event_revision = cv__max64(e->event_revision, revision);
        if (is_deleted && !is_request) {
            e->deleted_revision = cv__max64(e->deleted_revision, revision);
        } else if (!is_deleted && is_request) {
            e->requested_revision = cv__max64(e->requested_revision, revision);
        }
        e->has_changed = e->has_changed || is_concerned(e, key, is_deleted, is_request);
    }
}

static void on_again(uv_timer_t *timer);

/* Begins it again, later and later if it does not last. */
static void stream_lost(struct cv_etcd_server *server)
{
    const uint64_t pause_ms = server->is_created ? 0 : server->pause_ms;
    server->pause_ms = server->is_created
                           ? WATCH_PAUSE_MS_MIN
                           : (uint64_t)cv__min64((int64_t)server->pause_ms * 2, WATCH_PAUSE_MS_MAX);
    (void)uv_timer_start(&server->again, on_again, pause_ms, 0);
}

static void on_stream_line(void *user, const char *line)
{
    struct cv_etcd_server *server = user;
    cJSON *whole = cJSON_Parse(line);
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(whole, "result");
    const bool is_over = result == NULL || /* an error */
                         cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "canceled"));
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "created")) && !is_over) {
        server->is_created = true;
    }
    const cJSON *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(result, "events"))
    {
        event_note(server, event);
    }
    cJSON_Delete(whole);
    if (is_over) {
        server->is_created = false; /* refused, or compacted: not at once */
        stream_stop(server);
        stream_lost(server);
    }
    tell_marked(server); /* last: it may close the server */
}

static void on_stream_end(void *user, const struct cv_http_result *result)
{
    struct cv_etcd_server *server = user;
    (void)result;
    server->stream = NULL;
    stream_lost(server);
}

static void stream_start(struct cv_etcd_server *server, int64_t revision)
{
    CV_ASSERT(server->elections != NULL);
    stream_stop(server);
    (void)uv_timer_stop(&server->again);
    const struct cv_etcd_election *only = server->elections;
    server->is_whole = server->election_count > 1;
    server->is_created = false;
    server->stream_revision = revision;
    char queues[KEY_BYTES], requests[KEY_BYTES];
    (void)snprintf(queues, sizeof queues, "%s/", server->prefix);
    (void)snprintf(requests, sizeof requests, "%s.wish/", server->prefix);
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"create_request\":{");
    cv__etcd_body_range(&body, server->is_whole ? queues : only->queue);
    cv__etcd_body_print(&body, ",\"start_revision\":\"%" PRId64 "\"}}\n{\"create_request\":{",
                        revision);
    if (server->is_whole) {
        cv__etcd_body_range(&body, requests);
    } else {
        struct cv_text64 key64;
        cv__etcd_body_print(&body, "\"key\":\"%s\"", cv__etcd_encode(only->request, &key64));
    }
    cv__etcd_body_print(&body, ",\"start_revision\":\"%" PRId64 "\"}}\n", revision);
    server->stream =
        cv__etcd_stream(&server->wire, "/v3/watch", &body, on_stream_line, on_stream_end, server);
    if (server->stream == NULL) {
        stream_lost(server); /* out of memory: asking now and then must do */
    }
}

/* What happened in between was not told: everybody looks again. */
static void on_again(uv_timer_t *timer)
{
    struct cv_etcd_server *server = timer->data;
    if (server->elections != NULL) {
        stream_start(server, server->wire.revision + 1);
        tell_changed(server, NULL);
    }
}

/* The stream is at a member that failed, and would tell of nothing. */
static void on_rotated(void *owner)
{
    struct cv_etcd_server *server = owner;
    if (server->stream != NULL) {
        stream_stop(server);
        (void)uv_timer_start(&server->again, on_again, 0, 0);
    }
}

static void on_tell(uv_timer_t *timer)
{
    tell_marked(timer->data);
}

void cv__etcd_watch(struct cv_etcd_election *election, enum cv_etcd_interest interest,
                    const char *before, int64_t revision)
{
    struct cv_etcd_server *server = election->server;
    election->interest = interest;
    (void)snprintf(election->before, sizeof election->before, "%s", before != NULL ? before : "");
    if (interest == CV_ETCD_NOTHING) {
        return;
    }
    if (server->stream == NULL && uv_is_active((const uv_handle_t *)&server->again) == 0) {
        stream_start(server, revision + 1);
    } else if (server->stream != NULL && !server->is_whole && server->election_count > 1) {
        stream_stop(server); /* it watches the first one only */
        stream_start(server, revision + 1);
        for (struct cv_etcd_election *e = server->elections; e != NULL; e = e->next) {
            e->has_changed = e->has_changed || (e != election && e->interest != CV_ETCD_NOTHING);
        }
        (void)uv_timer_start(&server->tell, on_tell, 0, 0);
    }
    const int64_t missed_revision = interest == CV_ETCD_WAITING   ? election->deleted_revision
                                    : interest == CV_ETCD_LEADING ? election->requested_revision
                                                                  : election->event_revision;
    if (missed_revision > revision || server->stream_revision > revision + 1) {
        election->has_changed = true;
        (void)uv_timer_start(&server->tell, on_tell, 0, 0);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct cv_etcd_server *server = handle->data;
    server->handle_count--;
    if (server->handle_count > 0) {
        return;
    }
    for (struct cv_etcd_lease *next; server->leases != NULL; server->leases = next) {
        next = server->leases->next;
        free(server->leases);
    }
    for (struct cv_etcd_orphan *next; server->orphans != NULL; server->orphans = next) {
        next = server->orphans->next;
        free(server->orphans);
    }
    free(server);
}

static void close_handle(struct cv_etcd_server *server, uv_handle_t *handle)
{
    handle->data = server;
    server->handle_count++;
    uv_close(handle, on_closed);
}

static void server_close(struct cv_etcd_server *server)
{
    CV_ASSERT(server->elections == NULL);
    cv__etcd_wire_close(&server->wire); /* with every call */
    server->stream = NULL;
    for (struct cv_etcd_lease *lease = server->leases; lease != NULL; lease = lease->next) {
        close_handle(server, (uv_handle_t *)&lease->beat);
    }
    close_handle(server, (uv_handle_t *)&server->wire.flush);
    close_handle(server, (uv_handle_t *)&server->again);
    close_handle(server, (uv_handle_t *)&server->tell);
}

/* What makes two addresses the same server: all that it takes to reach it, and the prefix. */
static int server_key(const struct cv_etcd_wire *wire, const char *prefix, char **ret_key)
{
    struct cv_etcd_body key = {0};
    for (uint32_t i = 0; i < wire->endpoint_count; i++) {
        cv__etcd_body_print(&key, "%s,", wire->endpoint[i]);
    }
    cv__etcd_body_print(&key, "\n%s\n%s\n%s\n%s\n%s\n%s", wire->user, wire->password,
                        wire->tls.cacert, wire->tls.cert, wire->tls.key, prefix);
    if (key.is_failed) {
        free(key.text);
        return CV_E_MEMORY;
    }
    *ret_key = key.text;
    return CV_OK;
}

static int read_prefix(const struct cv_address *address, char ret_prefix[CV_ETCD_PREFIX_BYTES],
                       struct cv_errtext *reterr)
{
    struct cv_span path = address->path;
    if (path.bytes > 0) {
        path.at++; /* its slash */
        path.bytes--;
    }
    if (!cv__address_decode(path, ret_prefix, CV_ETCD_PREFIX_BYTES)) {
        return cv__fail(reterr, CV_E_INVALID, "the prefix in an etcd: address is too long");
    }
    if (ret_prefix[0] == '\0') {
        (void)snprintf(ret_prefix, CV_ETCD_PREFIX_BYTES, "conclave");
    }
    return CV_OK;
}

/* A server that nobody uses yet; it was calloc'ed and its wire read. */
static int server_open(struct cv_etcd_server *server, const struct cv_store_setting *setting,
                       const void *kind, const char *key, struct cv_errtext *reterr)
{
    if (!cv__shared_add(setting->shared, &server->shared, kind, key)) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    const int code = cv__etcd_wire_open(&server->wire, setting->loop, reterr);
    if (code != CV_OK) {
        (void)cv__shared_leave(setting->shared, &server->shared); /* it was the only one */
        return code;
    }
    server->loop = setting->loop;
    server->label = setting->label;
    server->pause_ms = WATCH_PAUSE_MS_MIN;
    server->wire.owner = server;
    server->wire.rotated = on_rotated;
    server->wire.endpoint_now =
        (uint32_t)(setting->label % server->wire.endpoint_count); /* spread */
    (void)uv_timer_init(setting->loop, &server->again);           /* these two cannot fail */
    (void)uv_timer_init(setting->loop, &server->tell);
    server->again.data = server;
    server->tell.data = server;
    return CV_OK;
}

/* Told once for each server: everybody on the way can read the password, and use it. */
static void warn_of_plain_text(const struct cv_etcd_wire *wire,
                               const struct cv_store_setting *setting)
{
    if (wire->user[0] == '\0' || setting->log == NULL ||
        strncmp(wire->endpoint[0], "https:", strlen("https:")) == 0) {
        return;
    }
    char line[256];
    (void)snprintf(
        line, sizeof line,
        "the password of etcd's user '%s' is sent without TLS; add ?tls=yes or ?cacert=FILE",
        wire->user);
    setting->log(setting->user, line);
}

/* The server of this address, with one user more. */
static int server_find(const struct cv_store_setting *setting, const void *kind,
                       struct cv_etcd_server **ret_server, struct cv_errtext *reterr)
{
    static const char *const known[] = {"cacert", "cert", "key", "password-file", "tls", NULL};
    struct cv_address address;
    char *key = NULL;
    struct cv_etcd_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    int code = cv__address_split(setting->address, &address, reterr);
    code = code != CV_OK ? code : cv__address_check_options(&address, known, reterr);
    code = code != CV_OK ? code : read_prefix(&address, server->prefix, reterr);
    code = code != CV_OK ? code : cv__etcd_wire_read(&server->wire, &address, reterr);
    if (code == CV_OK && server_key(&server->wire, server->prefix, &key) != CV_OK) {
        code = cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    *ret_server =
        code == CV_OK ? (struct cv_etcd_server *)cv__shared_join(setting->shared, kind, key) : NULL;
    const bool is_new = code == CV_OK && *ret_server == NULL;
    if (is_new) {
        code = server_open(server, setting, kind, key, reterr);
        *ret_server = server;
        if (code == CV_OK) {
            warn_of_plain_text(&server->wire, setting);
        }
    }
    if (!is_new || code != CV_OK) {
        free(server);
    }
    free(key);
    return code;
}

static void server_leave(struct cv_etcd_server *server, struct cv_shared_list *list)
{
    if (cv__shared_leave(list, &server->shared)) {
        server_close(server);
    }
}

int cv__etcd_join(struct cv_etcd_election *election, const struct cv_store_setting *setting,
                  const void *kind, struct cv_errtext *reterr)
{
    struct cv_etcd_server *server = NULL;
    const int code = server_find(setting, kind, &server, reterr);
    if (code != CV_OK) {
        return code;
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(setting->election, escaped);
    (void)snprintf(election->queue, sizeof election->queue, "%s/%s/", server->prefix, escaped);
    (void)snprintf(election->request, sizeof election->request, "%s.wish/%s", server->prefix,
                   escaped);
    (void)snprintf(election->runs, sizeof election->runs, "%s.runs/%s", server->prefix, escaped);
    election->server = server;
    election->label = setting->label;
    for (const struct cv_etcd_election *e = server->elections; e != NULL; e = e->next) {
        if (e->label == election->label && strcmp(e->queue, election->queue) == 0) {
            server_leave(server, setting->shared);
            return cv__fail(reterr, CV_E_INVALID,
                            "election '%s' is open already under the same label",
                            setting->election);
        }
    }
    election->orphan = calloc(1, sizeof *election->orphan); /* closing must not fail */
    if (election->orphan == NULL) {
        server_leave(server, setting->shared);
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    election->next = server->elections;
    server->elections = election;
    server->election_count++;
    return CV_OK;
}

void cv__etcd_leave(struct cv_etcd_election *election, struct cv_shared_list *list,
                    int64_t granted_until_ns)
{
    struct cv_etcd_server *server = election->server;
    struct cv_etcd_election **at = &server->elections;
    while (*at != election) {
        at = &(*at)->next;
    }
    *at = election->next;
    server->election_count--;
    struct cv_etcd_orphan *orphan = election->orphan;
    election->orphan = NULL;
    if (!election->has_key) {
        free(orphan);
    } else {
        orphan->until_ns = granted_until_ns;
        (void)snprintf(orphan->key, sizeof orphan->key, "%s", election->key);
        orphan->next = server->orphans;
        server->orphans = orphan;
    }
    election->has_key = false;
    cv__etcd_lease_leave(election);
    orphans_end(server);
    server_leave(server, list);
}
