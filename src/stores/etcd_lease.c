/* src/stores/etcd_lease.c - the leases of a server, and keys that are no longer needed; see
 * etcd_server.h. */
#include "core/errors.h"
#include "os/clock.h"
#include "stores/etcd_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEATS 6       /* the timer of a lease fires this often in its length */
#define SWEEP_BEATS 4 /* at every fourth beat, unneeded keys under the waiting lease are deleted */
#define FRESH_PART 10 /* a holding lease is used for a tenth of its length, then a new one */
#define PATIENCE_NS_MIN (NS_PER_S / 2)

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

/* Unique, because labels are unique and each belongs to one server. */
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
        const uint64_t beat_ms = (uint64_t)(lease->ttl_ns / BEATS / NS_PER_MS);
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
        (void)uv_timer_stop(&lease->beat); /* the lease runs out, with the keys that are left */
    }
}

/* Tells the elections that wait for the call of this number. False: none does. */
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

/* Elections that wait for one call wait for another one instead. */
static void lease_pass_on(struct cv_etcd_lease *lease, uint64_t number, uint64_t next_number)
{
    for (struct cv_etcd_election *e = lease->server->elections; e != NULL; e = e->next) {
        e->waits_for = e->lease == lease && e->waits_for == number ? next_number : e->waits_for;
    }
}

/* Reads the TTL of an answer, and never accepts more than was requested. False: there is none. */
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
    if (answer->code == CV_ETCD_PRECONDITION) { /* it exists: an earlier answer was lost */
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
        cv__etcd_tell_changed(server, lease);
        return;
    }
    lease->is_there = true;
    lease->heard_ns = answer->begin_ns; /* a keep-alive protects nothing, see etcd_server.h */
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
    if (answer->code == CV_ETCD_PRECONDITION) { /* granted, but the answer was lost */
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
    for (struct cv_etcd_election *e = lease->server->elections; e != NULL; e = e->next) {
        if (e->lease == lease && e->is_next) {
            e->hold_granted(e->store);
        }
    }
    (void)lease_tell(lease, number, CV_ETCD_LEASE_ALIVE, NULL);
}

/* Each holding lease has an id of its own, so an answer cannot be about an earlier one. */
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

/* Is there a holding lease of which at most 1/part has passed? */
static bool has_hold(const struct cv_etcd_lease *lease, int64_t part)
{
    const int64_t left_ns = lease->holding.until_ns - cv__clock_now_ns();
    return lease->holding.id != 0 && left_ns >= lease->ttl_ns - lease->ttl_ns / part;
}

static bool has_fresh_hold(const struct cv_etcd_lease *lease)
{
    return has_hold(lease, FRESH_PART);
}

static void hold_refresh(struct cv_etcd_lease *lease, int64_t part)
{
    if (lease->hold_number == 0 && !has_hold(lease, part)) {
        hold_grant(lease);
    }
}

void cv__etcd_hold_keep(struct cv_etcd_election *election)
{
    election->is_next = true;
    hold_refresh(election->lease, BEATS);
}

uint32_t cv__etcd_next_count(const struct cv_etcd_election *election)
{
    uint32_t count = 0;
    for (const struct cv_etcd_election *e = election->server->elections; e != NULL; e = e->next) {
        count += e->is_next;
    }
    return count;
}

bool cv__etcd_hold_is_ready(const struct cv_etcd_election *election)
{
    return election->lease != NULL && has_hold(election->lease, /* part= */ 2);
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
    hold_refresh(election->lease, FRESH_PART);
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

/* ---- Keys that are no longer needed ---------------------------------------------------------- */

static void on_deleted(void *user, const struct cv_etcd_answer *answer)
{
    (void)user; /* the next sweep finds what still exists */
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

/* Deletes it only if it is still under this lease: it may have been put again under another. */
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

void cv__etcd_orphans_end(struct cv_etcd_server *server)
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

static bool is_anybody_next(const struct cv_etcd_lease *lease)
{
    const struct cv_etcd_election *e = lease->server->elections;
    while (e != NULL && (e->lease != lease || !e->is_next)) {
        e = e->next;
    }
    return e != NULL;
}

static void on_beat(uv_timer_t *timer)
{
    struct cv_etcd_lease *lease = timer->data;
    CV_ASSERT(lease->user_count > 0);
    const int64_t now_ns = cv__clock_now_ns();
    cv__etcd_orphans_end(lease->server);
    if (++lease->beat_count % SWEEP_BEATS == 0) {
        sweep(lease);
    }
    if (lease->work == WORK_NONE && lease->is_there &&
        now_ns - lease->sent_ns >= lease->ttl_ns / 4) {
        lease_prolong(lease);
    }
    if (is_anybody_next(lease)) {
        hold_refresh(lease, BEATS); /* about every second beat, as it is granted after one */
    }
}
