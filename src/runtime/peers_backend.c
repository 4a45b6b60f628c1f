/* src/runtime/peers_backend.c - elections of the public header among the members of a cluster.
 *
 * The address names a file (net/cluster.h), and the file names the protocol, which decides what is
 * promised. Members are known by their names in the file.
 *
 * If the application makes no progress, no message of the core is sent, so the leadership is not
 * prolonged and ends by the clock. It is not released, because the work may still go on until then.
 * Afterwards this member follows other leaders, and becomes a candidate again with the next call of
 * cv_progress(). */
#include "core/core.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "runtime/backend.h"
#include "runtime/peers.h"
#include "runtime/peers_trail.h"
#include "runtime/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cv_backend {
    struct cv_backend_setting setting; /* its texts are not used after open() */
    struct cv_cluster cluster;
    struct cv_peering *peering;
    struct cv_peers_trail *trail; /* NULL: it could not be opened, which was said */
    cv_id noted_leader;           /* of the leadership in the trail that lasts; 0: none does */
    uint64_t noted_token;
    cv_id told_leader;      /* the leader that the application knows; 0: none */
    int64_t valid_until_ns; /* of this member's leadership, as told last; INT64_MAX: no limit */
    cv_id self;
    bool is_candidate;
    bool is_leading;
    uint64_t requested_token; /* the application was told that this leadership is asked to resign */
    bool is_stuck;            /* it was not prolonged, because the application made no progress */
    bool is_held_back;        /* and lost: not a candidate until there is progress */
    bool is_resigning;        /* the core is about to be told, and with this reason */
    enum cv_reason why;

    void (*closed)(void *user);
    void *closed_user;
};

static const char *name_of(const struct cv_backend *b, cv_id id)
{
    return id != CV_ID_NONE ? b->cluster.member[id - 1].name : "";
}

/* ---- What the application hears of ----------------------------------------------------------- */

/* What a follower knows of an end: that the leader died, if its witness said so; otherwise the
 * reason of its core, or only that the leader is gone, if another one leads already. */
static struct cv_peers_trail_end ending_of(const struct cv_backend *b,
                                           const struct cv_leadership *l)
{
    const cv_id old = b->noted_leader;
    struct cv_peers_trail_end end = {.why = l->reason, .is_own = old == b->self, .heard_ns = -1};
    if (end.is_own) {
        end.over_ns = cv__max64(0, cv__clock_now_ns() - b->valid_until_ns);
        return end;
    }
    if (cv__peering_is_dead(b->peering, old)) {
        end.why = CV_REASON_DIED;
    } else if (l->leader != CV_ID_NONE) {
        end.why = CV_REASON_GONE;
    }
    if (end.why == CV_REASON_DIED || end.why == CV_REASON_SUSPECTED) {
        const struct cv_peers_view view = cv__peers_view(cv__peering_peers(b->peering), old);
        const int64_t heard_ns =
            end.why == CV_REASON_DIED ? view.heard_before_ns : view.heard_ns; /* not its witness */
        end.heard_ns = heard_ns != 0 ? cv__clock_now_ns() - heard_ns : -1;
    }
    return end;
}

/* Writes to the trail that a leadership ended or began; a renewal is neither. */
static void note(struct cv_backend *b, const struct cv_leadership *l)
{
    const uint64_t token = l->leader != CV_ID_NONE ? l->token : 0;
    if (b->trail == NULL || (l->leader == b->noted_leader && token == b->noted_token)) {
        return;
    }
    if (b->noted_leader != CV_ID_NONE) {
        const struct cv_peers_trail_end end = ending_of(b, l);
        cv__peers_trail_note(b->trail, name_of(b, b->noted_leader), b->noted_token, &end);
    }
    if (l->leader != CV_ID_NONE) {
        cv__peers_trail_note(b->trail, name_of(b, l->leader), token, NULL);
    }
    b->noted_leader = l->leader;
    b->noted_token = token;
}

static void on_leadership(void *self, const struct cv_leadership *leadership)
{
    struct cv_backend *b = self;
    struct cv_leadership known = *leadership;
    const bool is_lost = b->is_leading && !known.is_self;
    if (is_lost && b->is_stuck) {
        known.reason = CV_REASON_NO_PROGRESS; /* the core knows only that nobody answered */
    } else if (is_lost && b->is_resigning) {
        known.reason = b->why;
    } else if (known.leader == CV_ID_NONE && b->told_leader != CV_ID_NONE && !is_lost &&
               cv__peering_is_dead(b->peering, b->told_leader)) {
        known.reason = CV_REASON_DIED; /* the core knows only that it is silent */
    }
    b->told_leader = known.leader;
    b->is_leading = known.is_self;
    note(b, &known);
    if (known.is_self) {
        b->valid_until_ns = known.valid_until_ns != 0 ? known.valid_until_ns : INT64_MAX;
    }
    b->setting.told(b->setting.user, &known, name_of(b, known.leader), /* is_free= */ false);
    if (is_lost && b->is_stuck) {
        b->is_stuck = false;
        b->is_held_back = true;
        cv__peering_campaign(b->peering, false);
    }
}

static bool may_send(void *self)
{
    struct cv_backend *b = self;
    if (!b->is_leading && !b->is_held_back) {
        return true;
    }
    const bool has_progress = b->setting.has_progress(b->setting.user);
    if (b->is_leading && !has_progress && !b->is_stuck) {
        b->is_stuck = true;
        b->setting.trouble(b->setting.user, "the application makes no progress (cv_progress() was "
                                            "not called in time), so its lease is not renewed");
    } else if (has_progress && (b->is_stuck || b->is_held_back)) {
        b->is_stuck = false;
        if (b->is_held_back) {
            b->is_held_back = false;
            cv__peering_campaign(b->peering, b->is_candidate);
        }
        b->setting.trouble(b->setting.user, "");
    }
    return !b->is_stuck;
}

static void on_trouble(void *self, const char *line)
{
    const struct cv_backend *b = self;
    b->setting.trouble(b->setting.user, line);
}

static void on_log(void *self, const char *line)
{
    const struct cv_backend *b = self;
    b->setting.log(b->setting.user, line);
}

static void on_resign_requested(void *self, uint64_t token, cv_id heir)
{
    struct cv_backend *b = self;
    if (b->is_leading && token != b->requested_token) {
        b->requested_token = token;
        b->setting.resign_requested(b->setting.user, name_of(b, heir));
    }
}

/* Returns the count. */
static uint64_t add_count(char line[CV_ERRTEXT_BYTES], const char *reason, uint64_t count)
{
    const size_t length = strlen(line);
    if (count > 0) {
        (void)snprintf(line + length, CV_ERRTEXT_BYTES - length, "%s %s %" PRIu64,
                       line[length - 1] == ':' ? "" : ",", reason, count);
    }
    return count;
}

/* One line at the end: what was dropped; nothing if all is well. */
static void log_counts(const struct cv_backend *b)
{
    char line[CV_ERRTEXT_BYTES] = "dropped datagrams, by reason:";
    uint64_t dropped = 0;
    const struct cv_peers *peers = cv__peering_peers(b->peering);
    for (enum cv_peers_fate fate = CV_PEERS_OVERSIZED; fate < CV_PEERS_FATE_COUNT; fate++) {
        if (fate != CV_PEERS_FRAME) {
            dropped += add_count(line, cv__peers_fate_name(fate), cv__peers_count(peers, fate));
        }
    }
    for (enum cv_frame_fate fate = CV_FRAME_FOREIGN; fate < CV_FRAME_FATE_COUNT; fate++) {
        dropped += add_count(line, cv__frame_fate_name(fate),
                             cv__frames_count(cv__peers_frames(peers), fate));
    }
    if (dropped > 0) {
        b->setting.log(b->setting.user, line);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static const char scheme[] = "peers";

static const char *peers_scheme_at(uint32_t index)
{
    return index == 0 ? scheme : NULL;
}

static bool peers_serves(const char *address)
{
    const size_t length = sizeof scheme - 1;
    return strncmp(address, scheme, length) == 0 && address[length] == ':';
}

static int read_file(const char *address, struct cv_cluster *ret_cluster, struct cv_errtext *reterr)
{
    const char *path = address + sizeof scheme;
    if (path[0] == '\0') {
        return cv__fail(reterr, CV_E_INVALID, "peers:FILE names the file of a cluster");
    }
    const int code = cv__cluster_read(path, ret_cluster, reterr);
    if (code == CV_OK && ret_cluster->protocol->restore == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "the protocol '%s' cannot run among peers",
                        ret_cluster->protocol->name);
    }
    return code;
}

static int peers_contract(const char *address, struct cv_backend_contract *ret_contract,
                          struct cv_errtext *reterr)
{
    struct cv_cluster *cluster = malloc(sizeof *cluster); /* too large for some stacks */
    if (cluster == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    const int code = read_file(address, cluster, reterr);
    if (code == CV_OK) {
        const struct cv_protocol *protocol = cluster->protocol;
        const bool has_lease = protocol->lease_ns != NULL;
        *ret_contract = (struct cv_backend_contract){
            .has_lease = has_lease,
            .lease_ns_max = has_lease ? protocol->lease_ns(&cluster->config) : 0,
        };
        ret_contract->lease_ns = protocol->lease_ns_min != NULL
                                     ? protocol->lease_ns_min(&cluster->config)
                                     : ret_contract->lease_ns_max;
        cv__core_contract(protocol, &cluster->config, &ret_contract->promises,
                          &ret_contract->assumes);
        ret_contract->words =
            (ret_contract->promises & CV_PROP(AT_MOST_ONE_LEADER)) != 0
                ? "while one member leads, nobody else does"
                : "with this protocol and its options there may be two leaders at once";
    }
    free(cluster);
    return code;
}

static int peers_name(const char *address, const char *wanted, char ret_node[CV_NODE_BYTES],
                      struct cv_errtext *reterr)
{
    struct cv_cluster *cluster = malloc(sizeof *cluster);
    if (cluster == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    cv_id self;
    int code = read_file(address, cluster, reterr);
    if (code == CV_OK) {
        code = cv__reach_self(cluster, wanted, &self, reterr);
    }
    if (code == CV_OK) {
        (void)snprintf(ret_node, CV_NODE_BYTES, "%s", cluster->member[self - 1].name);
    }
    free(cluster);
    return code;
}

static int open_peering(struct cv_backend *b, const struct cv_backend_setting *setting,
                        struct cv_errtext *reterr)
{
    int code = read_file(setting->address, &b->cluster, reterr);
    if (code == CV_OK) {
        code = cv__reach_self(&b->cluster, setting->node, &b->self, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    const struct cv_peering_setting peering = {
        .loop = setting->loop,
        .shared = setting->shared,
        .timers = setting->timers,
        .election = setting->election,
        .cluster = &b->cluster,
        .self = b->self,
        .is_candidate = setting->is_candidate,
        .recorder = setting->recorder,
        .told = {.self = b,
                 .leadership = on_leadership,
                 .trouble = on_trouble,
                 .log = on_log,
                 .resign_requested = on_resign_requested,
                 .may_send = may_send},
    };
    code = cv__peering_open(&peering, &b->peering, reterr);
    struct cv_errtext why;
    if (code == CV_OK &&
        cv__peers_trail_open(setting->loop, &b->cluster, b->self, setting->election, on_log, b,
                             &b->trail, &why) != CV_OK) {
        setting->log(setting->user, why.text); /* it takes part without it */
    }
    return code;
}

static int peers_open(struct cv_backend **ret_backend, const struct cv_backend_setting *setting,
                      struct cv_errtext *reterr)
{
    struct cv_backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    b->setting = *setting;
    b->is_candidate = setting->is_candidate;
    const int code = open_peering(b, setting, reterr);
    if (code != CV_OK) {
        free(b);
        return code;
    }
    *ret_backend = b;
    return CV_OK;
}

static void on_trail_closed(void *data)
{
    struct cv_backend *b = data;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    free(b);
    closed(user);
}

static void on_peering_closed(void *data)
{
    struct cv_backend *b = data;
    cv__peers_trail_close(b->trail, on_trail_closed, b);
}

static void peers_close(struct cv_backend *b, void (*closed)(void *user), void *user)
{
    log_counts(b);
    b->closed = closed;
    b->closed_user = user;
    cv__peering_close(b->peering, on_peering_closed, b);
}

static const char *peers_self(const struct cv_backend *b)
{
    return name_of(b, b->self);
}

/* ---- What the application wants -------------------------------------------------------------- */

static cv_id find(struct cv_backend *b, const char *name)
{
    const struct cv_cluster_member *m =
        name != NULL && name[0] != '\0' ? cv__cluster_find(&b->cluster, name) : NULL;
    if (name != NULL && name[0] != '\0' && m == NULL) {
        struct cv_errtext why;
        (void)cv__cluster_fail_member(&b->cluster, name, &why);
        b->setting.log(b->setting.user, why.text);
    }
    return m != NULL ? m->id : CV_ID_NONE;
}

static void peers_campaign(struct cv_backend *b, bool is_candidate)
{
    b->is_candidate = is_candidate;
    cv__peering_campaign(b->peering, is_candidate && !b->is_held_back);
}

static void peers_resign(struct cv_backend *b, const char *heir, enum cv_reason why)
{
    b->is_resigning = true;
    b->why = why;
    cv__peering_resign(b->peering, find(b, heir));
    b->is_resigning = false;
}

static void peers_request_resign(struct cv_backend *b, const char *heir)
{
    if (!cv__peering_request_resign(b->peering, find(b, heir))) {
        b->setting.log(b->setting.user, "no leader is known, so none can be asked to resign");
    }
}

static void peers_report(struct cv_backend *b, enum cv_input input, int64_t value)
{
    cv__peering_report(b->peering, input, value);
}

/* The messages of a resignation are sent in the same turn of the loop, or when it closes. */
static bool peers_is_released(const struct cv_backend *b)
{
    return !b->is_leading;
}

static int peers_inherit(struct cv_backend *b)
{
    return b->peering != NULL ? cv__peering_lifeline(b->peering) : -1;
}

const struct cv_backend_kind cv__backend_peers = {
    .scheme_at = peers_scheme_at,
    .serves = peers_serves,
    .contract = peers_contract,
    .name = peers_name,
    .open = peers_open,
    .self = peers_self,
    .campaign = peers_campaign,
    .resign = peers_resign,
    .request_resign = peers_request_resign,
    .report = peers_report,
    .is_released = peers_is_released,
    .inherit = peers_inherit,
    .close = peers_close,
};
