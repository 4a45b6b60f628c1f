/* src/stores/etcd_server.c - see etcd_server.h. */
#include "stores/etcd_parts.h"

#include "core/errors.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_PAUSE_MS_MIN 100 /* between two streams that do not last */
#define WATCH_PAUSE_MS_MAX 5000

struct cv_etcd_wire *cv__etcd_wire_of(struct cv_etcd_election *election)
{
    return &election->server->wire;
}

/* Tells the marked elections. Each may close elections, also the last one. */
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

void cv__etcd_tell_changed(struct cv_etcd_server *server, const struct cv_etcd_lease *lease)
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
    end[strlen(end) - 1]++; /* '0' follows on '/': the first key that is not below it */
    cv__etcd_body_print(body, "\"key\":\"%s\",\"range_end\":\"%s\"",
                        cv__etcd_encode(prefix, &key64), cv__etcd_encode(end, &end64));
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

/* Marks the elections that an event concerns. */
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
            if (strcmp(key, e->key) == 0) {
                e->own_deleted_revision = cv__max64(e->own_deleted_revision, revision);
            }
        } else if (!is_deleted && is_request) {
            e->requested_revision = cv__max64(e->requested_revision, revision);
        }
        /* An event before the look is about an earlier key of that name: this one existed then. */
        e->is_before_deleted =
            e->is_before_deleted || (e->interest == CV_ETCD_WAITING && is_deleted &&
                                     revision > e->before_revision && strcmp(key, e->before) == 0);
        e->has_changed = e->has_changed || is_concerned(e, key, is_deleted, is_request);
    }
}

static void on_again(uv_timer_t *timer);

/* Starts the stream again, after longer and longer pauses if streams do not last. */
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
        server->is_created = false; /* refused, or compacted: after a pause */
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
        stream_lost(server); /* out of memory: tries again, after a pause */
    }
}

/* Events in between were not reported: every election looks again. */
static void on_again(uv_timer_t *timer)
{
    struct cv_etcd_server *server = timer->data;
    if (server->elections != NULL) {
        stream_start(server, server->wire.revision + 1);
        cv__etcd_tell_changed(server, NULL);
    }
}

/* The stream is at the member that failed, and would report nothing. */
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
    election->before_revision = revision;
    election->is_before_deleted = false;
    election->is_next = false;
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

bool cv__etcd_has_told_since(const struct cv_etcd_election *election, int64_t revision)
{
    const struct cv_etcd_server *server = election->server;
    return server->stream != NULL && server->stream_revision <= revision + 1 &&
           (server->is_whole || server->elections->next == NULL);
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

/* Two addresses with the same key are the same server: all that it takes to reach it is in the key,
 * and the prefix. */
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

/* Told once for each server: anybody between here and there can read the password. */
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
    code = code != CV_OK
               ? code
               : cv__etcd_wire_read(&server->wire, &address, setting->needs_no_secrets, reterr);
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
    /* Below the requests, where roles have permissions already; an escaped name has no slash. */
    (void)snprintf(election->note, sizeof election->note, "%s.wish/%s/last", server->prefix,
                   escaped);
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
    election->orphan = calloc(1, sizeof *election->orphan); /* now: closing must not fail */
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
    cv__etcd_orphans_end(server);
    server_leave(server, list);
}
