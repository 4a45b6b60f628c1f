/* src/stores/zookeeper.c - `zookeeper://host:port,.../path`: a queue of ephemeral nodes.
 *
 * A contender creates the node PATH/ELECTION/c-LABEL-ATTEMPT-NODE-SEQUENCE, which lives as long as
 * its session. The lowest sequence number holds the election; the token is the node's czxid, the
 * number of the transaction that created it. A waiting contender watches only the node before its
 * own [traps.md T12]. The label and the attempt in the name are known as protection [traps.md T11]:
 * a contender that lost the answer to `create` finds its node in the list. A node counts only if
 * its owner is the current session [traps.md T9, T10]; the attempts of an expired session end with
 * it.
 *
 * All elections of a loop on the same servers with the same credentials and lease length share one
 * session. The client is the single-threaded one, driven by the loop: if the loop hangs, no other
 * thread keeps the session alive [traps.md T6].
 *
 * Why a grant is safe: the node lives as long as the session, and zk_client.h derives how long that
 * is for certain, from the operations of all users. Renewing writes to our own node, which also
 * shows that it exists and is ours; every T/6 a read touches the session, so that there is always a
 * touch of the right age. A grant lasts about T/2, and never longer than requested. Successors wait
 * for T. Operations of other elections in the same session do not change this; two contenders of
 * the same election have different nodes, and one of them is first.
 *
 * The next contender in the queue writes to its node every T/6, so that it leads as soon as it
 * hears that the holder's node is gone, see zk_grant.c.
 *
 * The session may live on for other elections. So a node that is not renewed in time is removed,
 * a third of T after the end that the core was given, and so is the node of a closed store, at that
 * end: both as orphans, see zk_client.h. From then on the attempt is lost, even if its node still
 * exists. */
#include "core/errors.h"
#include "modules/module.h"
#include "os/clock.h"
#include "stores/zk_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READER_NS (10 * NS_PER_S) /* the session of an election that is only read */

/* ---- Reports of the client ------------------------------------------------------------------ */

static void begin_request(void *user);

void cv__zk_own_forget(struct cv_store *store)
{
    store->own[0] = '\0';
    store->watched[0] = '\0';
    store->may_exist = store->is_confirmed = store->is_next = store->is_taken = false;
    store->is_own_watched = store->is_own_ended = store->is_first = false;
    store->has_waited = store->is_request_unwatched = false;
}

void cv__zk_attempt_forget(struct cv_store *store, enum cv_reason why)
{
    if (store->token != 0) {
        store->lost = (struct cv_store_end){.token = store->token, .why = why};
    }
    cv__zk_own_forget(store);
    store->attempt = 0;
    store->token = 0;
    store->granted_until_ns = 0;
    store->heir_requested[0] = '\0';
    store->note = (struct cv_zk_note){.token = 0};
}

static void request_begin_again(struct cv_store *store)
{
    if (store->remote.is_at_work && !store->is_begun && !store->remote.is_closing) {
        begin_request(store);
    }
}

void cv__zk_begin_again(struct cv_store *store)
{
    store->is_begun = false;
    request_begin_again(store);
}

/* The node of this attempt, if there is one, is to be removed at that time. Takes the orphan. */
static void own_orphan(struct cv_store *store, struct cv_zk_orphan *orphan, int64_t until_ns)
{
    orphan->until_ns = until_ns;
    (void)snprintf(orphan->queue, sizeof orphan->queue, "%s", store->election);
    (void)snprintf(orphan->name, sizeof orphan->name, "c-%016" PRIx64 "-%" PRIu64 "-",
                   store->remote.label, store->attempt);
    cv__zk_orphan_add(store->user.client, orphan);
    cv__zk_own_forget(store);
}

/* Takes back a grant that the core does not renew [traps.md T6]. The next contender proves that its
 * session lives, see zk_grant.c. */
static void on_beat(void *user)
{
    struct cv_store *store = user;
    if (store->is_next && store->is_confirmed && store->token == 0) {
        char value[CV_VALUE_BYTES];
        cv__zk_value_write(store, value);
        cv__zk_keep(store->user.client, store->own, value);
    }
    const int64_t late_ns = store->user.client->timeout_ns / 3;
    if (store->token == 0 || store->own[0] == '\0' ||
        cv__clock_now_ns() <= store->granted_until_ns + late_ns) {
        return;
    }
    struct cv_zk_orphan *orphan = calloc(1, sizeof *orphan);
    if (orphan != NULL) { /* otherwise at the next beat */
        own_orphan(store, orphan, 0);
    }
}

/* A node of ours has ended. True: not by our own request. */
static bool on_own_watched(struct cv_store *store, const char *path)
{
    if (strcmp(path, store->own) != 0) {
        return false; /* of an earlier attempt */
    }
    store->is_own_ended = true; /* results from before may be told after this */
    store->is_own_watched = store->is_first = false;
    return !store->remote.is_at_work ||
           cv__remote_current(&store->remote)->ask.verb != CV_STORE_RELEASE;
}

static bool on_watched(void *user, const char *path, bool is_end)
{
    struct cv_store *store = user;
    const size_t length = strlen(store->election);
    if (strncmp(path, store->election, length) != 0 ||
        (path[length] != '\0' && path[length] != '/')) {
        return false;
    }
    if (strcmp(path, store->watched) == 0) {
        store->watched[0] = '\0';
        /* zk_grant.c says why. */
        store->is_first = is_end && store->is_next && store->is_confirmed &&
                          store->is_own_watched && store->is_before_fair;
        return true;
    }
    struct cv_zk_place place;
    cv__zk_place_read(path + length + (path[length] == '/'), &place);
    const bool is_own = place.is_ours && place.label == store->remote.label;
    return !is_own || on_own_watched(store, path);
}

static void on_connected(void *user)
{
    struct cv_store *store = user;
    store->watched[0] = '\0';
    store->is_own_watched = store->is_first = false; /* events were missed */
    store->stranger_count = 0;
}

/* The request begins again when there is a connection. */
static void on_broken(void *user)
{
    struct cv_store *store = user;
    store->is_begun = false;
}

static void on_ended(void *user)
{
    struct cv_store *store = user;
    store->is_begun = false;
    cv__zk_own_forget(store);
    request_begin_again(store); /* with a new session */
}

static void on_unreachable(void *user, const char *why)
{
    struct cv_store *store = user;
    store->is_begun = false;
    cv__remote_fail_all(&store->remote, why);
}

static void on_changed(void *user)
{
    struct cv_store *store = user;
    cv__remote_notify(&store->remote);
}

static void on_turn(void *user)
{
    request_begin_again(user);
}

static const struct cv_zk_hooks hooks = {.connected = on_connected,
                                         .broken = on_broken,
                                         .ended = on_ended,
                                         .unreachable = on_unreachable,
                                         .changed = on_changed,
                                         .turn = on_turn,
                                         .beat = on_beat,
                                         .watched = on_watched};

/* ---- Answers ------------------------------------------------------------------------------- */

void cv__zk_work_end(struct cv_store *store)
{
    store->user.epoch++; /* drops results that are still on their way */
    store->user.waits = false;
    store->is_begun = false;
}

void cv__zk_fail(struct cv_store *store, int rc)
{
    cv__zk_work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                    rc == ZNOAUTH ? "no permission; see the option auth-file" : zerror(rc));
}

void cv__zk_answer(struct cv_store *store, enum cv_store_verdict verdict, int64_t duration_ns)
{
    cv__zk_work_end(store);
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict,
                                                               .token = store->record.token,
                                                               .holder = store->record.label,
                                                               .duration_ns = duration_ns,
                                                               .record = &store->record});
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static void session_leave(struct cv_store *store)
{
    struct cv_zk *client = store->user.client;
    struct cv_zk **at = &store->server->sessions;
    cv__zk_leave(&store->user);
    if (client->users == NULL) {
        while (*at != client) {
            at = &(*at)->next;
        }
        *at = client->next;
        cv__zk_free(client);
    }
}

/* The session for this time-out; 0: any. False: out of memory. */
static bool session_join(struct cv_store *store, int64_t timeout_ns)
{
    struct cv_zk_server *server = store->server;
    struct cv_zk *client = server->sessions;
    while (client != NULL && timeout_ns != 0 && client->asked_ns != timeout_ns) {
        client = client->next;
    }
    if (client == NULL) {
        client = cv__zk_new(server->loop, server->hosts, server->host_count, server->auth,
                            timeout_ns != 0 ? timeout_ns : READER_NS);
        if (client == NULL) {
            return false;
        }
        client->next = server->sessions;
        server->sessions = client;
    }
    cv__zk_join(client, &store->user);
    return true;
}

/* A new attempt may have another lease, and then belongs to another session. */
static bool session_choose(struct cv_store *store, const struct cv_remote_request *one)
{
    const bool is_acquiring = !one->is_resign_request && one->ask.verb == CV_STORE_ACQUIRE;
    const int64_t wanted_ns = is_acquiring ? one->ask.lease_ns : 0;
    if (store->user.client != NULL && is_acquiring && store->attempt != one->ask.attempt &&
        store->user.client->asked_ns != wanted_ns) {
        struct cv_zk_orphan *orphan =
            store->own[0] != '\0' || store->may_exist ? calloc(1, sizeof *orphan) : NULL;
        if (orphan != NULL) {
            own_orphan(store, orphan, 0); /* the new attempt gives it up */
        }
        cv__zk_attempt_forget(store, one->ask.reason);
        session_leave(store);
    }
    return store->user.client != NULL || session_join(store, wanted_ns);
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* A leader has less time than its settings assume: perhaps less than its command needs to end. */
static void tell_if_cut(const struct cv_store *store, const struct cv_store_request *ask)
{
    struct cv_zk *client = store->user.client;
    if (client->is_cut_told || store->remote.log == NULL || ask->attempt == 0 ||
        client->timeout_ns > ask->lease_ns - NS_PER_MS) {
        return;
    }
    const double most_s = (double)client->timeout_ns / 1e9;
    char line[CV_ZK_HOSTS_BYTES + 200];
    (void)snprintf(line, sizeof line,
                   "ZooKeeper %s: the servers cut leases of %gs to %gs; use a lease of %gs or "
                   "less, or raise their maxSessionTimeout",
                   store->server->hosts, (double)ask->lease_ns / 1e9, most_s, most_s);
    client->is_cut_told = true;
    store->remote.log(store->remote.user, line);
}

static void dispatch(struct cv_store *store, const struct cv_remote_request *one)
{
    if (store->round_count++ > CV_ZK_ROUNDS_MAX) {
        cv__zk_fail(store, ZSYSTEMERROR);
    } else if (one->ask.runs != NULL) {
        cv__zk_runs_begin(store, one->ask.runs);
    } else if (one->ask.list != NULL) {
        cv__zk_list_begin(store, one->ask.list);
    } else if (one->ask.forgets) {
        cv__zk_forget_begin(store);
    } else if (one->is_resign_request) {
        cv__zk_catch_up(&store->user, store->election);
        cv__zk_list(&store->user, store->election, /* is_watching= */ false,
                    cv__zk_on_request_names);
    } else if (one->ask.verb == CV_STORE_READ) {
        cv__zk_catch_up(&store->user, store->election);
        cv__zk_list(&store->user, store->election, /* is_watching= */ store->attempt == 0,
                    cv__zk_on_names_read);
    } else if (one->ask.verb == CV_STORE_ACQUIRE) {
        tell_if_cut(store, &one->ask);
        cv__zk_acquire(store, &one->ask);
    } else if (one->ask.verb == CV_STORE_RENEW) {
        cv__zk_renew(store, &one->ask);
    } else {
        cv__zk_release(store, &one->ask);
    }
}

static void begin_request(void *user)
{
    struct cv_store *store = user;
    const struct cv_remote_request *one = cv__remote_current(&store->remote);
    if (store->is_begun) {
        return;
    }
    if (!session_choose(store, one)) {
        cv__remote_fail(&store->remote, "ZooKeeper %s: out of memory", store->server->hosts);
        return;
    }
    struct cv_zk *client = store->user.client;
    if (!cv__zk_session_begin(client)) {
        /* The client's errno for an unknown host name. */
        const bool is_nowhere = errno == ENOENT;
        cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                        is_nowhere ? "no such host" : strerror(errno));
        return;
    }
    if (!cv__zk_may_begin(&store->user)) {
        store->user.waits = true; /* on_turn() comes back here */
        cv__zk_flush(client);
        return;
    }
    store->is_begun = true;
    store->user.epoch++;
    cv__zk_gather(client, true);
    dispatch(store, one);
    cv__zk_gather(client,
                  false); /* even if this store has left it, it exists until the loop turns */
    if (store->user.client != NULL) {
        cv__zk_flush(store->user.client);
    }
}

static void begin_first(void *user)
{
    struct cv_store *store = user;
    store->round_count = 0;
    store->is_queue_made = false;
    begin_request(store);
}

static void give_up(void *user)
{
    struct cv_store *store = user;
    const char *why = store->user.client != NULL ? store->user.client->why : "";
    const bool is_asked = store->is_begun || store->user.awaited_count > 0;
    cv__zk_work_end(store);
    cv__remote_fail(&store->remote, "ZooKeeper %s: %s", store->server->hosts,
                    is_asked         ? "no answer in time"
                    : why[0] != '\0' ? why
                                     : "no connection in time");
}

static const struct cv_store_kind kind;

/* ---- The table ----------------------------------------------------------------------------- */

static void zk_ask(struct cv_store *store, const struct cv_store_request *request)
{
    cv__remote_add(&store->remote, request, /* is_resign_request= */ false);
}

static void zk_request_resign(struct cv_store *store, uint64_t request, const char *heir)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .heir = heir},
                   /* is_resign_request= */ true);
}

static void zk_runs(struct cv_store *store, uint64_t request, struct cv_store_runs *runs)
{
    cv__remote_add(&store->remote, &(struct cv_store_request){.request = request, .runs = runs},
                   /* is_resign_request= */ false);
}

static void zk_list(struct cv_store *store, uint64_t request, struct cv_store_list *list)
{
    cv__remote_list(&store->remote, request, list);
}

static void zk_forget(struct cv_store *store, uint64_t request)
{
    cv__remote_forget(&store->remote, request);
}

/* Finds or creates the server of an address, and counts one more user. */
static int server_join(struct cv_store *store, const struct cv_store_setting *setting,
                       const struct cv_address *address, struct cv_errtext *reterr)
{
    struct cv_zk_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    int code = cv__zk_read_server(server, address, reterr);
    char key[CV_ZK_HOSTS_BYTES + sizeof server->auth + 1];
    (void)snprintf(key, sizeof key, "%s\n%s", server->hosts, server->auth);
    struct cv_shared *found = code == CV_OK ? cv__shared_join(setting->shared, &kind, key) : NULL;
    server->loop = setting->loop;
    if (code == CV_OK && found == NULL &&
        !cv__shared_add(setting->shared, &server->shared, &kind, key)) {
        code = cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    if (code != CV_OK || found != NULL) {
        free(server);
    }
    store->server = found != NULL ? (struct cv_zk_server *)found : server;
    return code;
}

/* Two stores with one label would take each other's nodes for their own. */
static int check_label(const struct cv_store *store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    for (const struct cv_store *one = store->server->stores; one != NULL; one = one->next) {
        if (one->remote.label == setting->label && strcmp(one->election, store->election) == 0) {
            return cv__fail(reterr, CV_E_INVALID,
                            "election '%s' is open already under the same label",
                            setting->election);
        }
    }
    return CV_OK;
}

static void server_leave(struct cv_zk_server *server, struct cv_shared_list *list)
{
    if (cv__shared_leave(list, &server->shared)) {
        free(server);
    }
}

static int zk_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                   struct cv_errtext *reterr)
{
    struct cv_address address;
    struct cv_store *store = calloc(1, sizeof *store);
    struct cv_zk_orphan *orphan = calloc(1, sizeof *orphan);
    int code = store != NULL && orphan != NULL
                   ? cv__address_split(setting->address, &address, reterr)
                   : cv__fail(reterr, CV_E_MEMORY, "out of memory");
    if (code == CV_OK) {
        (void)snprintf(store->remote.election, sizeof store->remote.election, "%s",
                       setting->election);
        (void)snprintf(store->remote.node, sizeof store->remote.node, "%s", setting->node);
        code = cv__zk_read_path(store, &address, reterr);
    }
    code = code != CV_OK ? code : server_join(store, setting, &address, reterr);
    if (code == CV_OK) {
        code = check_label(store, setting, reterr);
        if (code != CV_OK) {
            server_leave(store->server, setting->shared);
        }
    }
    if (code != CV_OK) {
        free(orphan);
        free(store);
        return code;
    }
    cv__remote_init(&store->remote, setting, store, begin_first, give_up);
    store->list = setting->shared;
    store->orphan = orphan;
    store->user.store = store;
    store->user.hooks = &hooks;
    store->next = store->server->stores;
    store->server->stores = store;
    *ret_store = store;
    return CV_OK;
}

static void zk_last(void *user)
{
    struct cv_store *store = user;
    void (*closed)(void *user) = store->remote.closed;
    void *closed_user = store->remote.closed_user;
    free(store->orphan);
    free(store->waiters);
    free(store);
    closed(closed_user);
}

static void zk_close(struct cv_store *store, void (*closed)(void *user), void *user)
{
    cv__remote_close_begin(&store->remote, closed, user);
    if (store->user.client != NULL) {
        if (store->own[0] != '\0' || store->may_exist) {
            own_orphan(store, store->orphan, store->granted_until_ns);
            store->orphan = NULL;
        }
        session_leave(store);
    }
    struct cv_store **at = &store->server->stores;
    while (*at != store) {
        at = &(*at)->next;
    }
    *at = store->next;
    server_leave(store->server, store->list);
    cv__remote_close_end(&store->remote, zk_last);
}

static const struct cv_store_kind kind = {
    .scheme = "zookeeper",
    .summary = "a queue of ephemeral nodes in ZooKeeper",
    .example = "zookeeper://10.0.0.1:2181,10.0.0.2:2181/elections",
    .clock = "that of the ensemble's leader, which counts durations",
    .notifications = "a watch on the node before one's own",
    .lease_ns_min = 500 * NS_PER_MS,
    .lease_ns_step = NS_PER_MS,
    .usual_lease_ns_min = 4 * NS_PER_S, /* 2 and 20 ticks of 2 s */
    .usual_lease_ns_max = 40 * NS_PER_S,
    .grant_percent = 50,
    .counts_anew = true,
    .hides_rest = true,
    .open = zk_open,
    .ask = zk_ask,
    .request_resign = zk_request_resign,
    .runs = zk_runs,
    .list = zk_list,
    .forget = zk_forget,
    .close = zk_close,
};

CV_MODULE(kind)
