/* src/runtime/leasing.c - elections with a store: the lease core and its requests.
 *
 * The core knows only labels. The names of contenders, and requests to resign, come with the
 * store's answers and are kept here beside the core. */
#include "core/duration.h"
#include "core/errors.h"
#include "core/types.h"
#include "os/clock.h"
#include "protocols/lease_config.h"
#include "runtime/backend.h"
#include "runtime/host.h"
#include "runtime/trail.h"
#include "stores/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cv_backend {
    struct cv_backend_setting setting; /* its texts are not used after open() */
    char node[CV_NODE_BYTES];
    const struct cv_store_kind *kind;
    struct cv_store *store;
    struct cv_host *host;
    struct cv_trail *trail; /* NULL: the store has its own */

    char *address;
    char election[CV_ELECTION_BYTES];
    uint64_t noted_token;      /* of the leadership in the trail that has not ended; 0: none */
    uint64_t gone_token;       /* of one in the trail that ended for an unknown reason; 0: none */
    uint64_t told_token;       /* of the latest leadership that the application knows of */
    struct cv_store_end ended; /* the latest end that was reported to it */

    struct cv_store_record record; /* the latest that was seen */
    bool is_leading;
    int64_t valid_until_ns;   /* of our own leadership, even after it ended */
    uint64_t requested_token; /* the leadership that was last asked to resign */
    char heir[CV_NODE_BYTES]; /* of the next release */
    bool has_heir;
    enum cv_reason why;    /* of the next release; CV_REASON_STARTED: no special reason */
    enum cv_reason lost;   /* why our latest leadership ended without a release */
    uint64_t release;      /* a RELEASE that was asked for and not answered; 0: none */
    bool has_trouble;      /* trouble was reported, and is not over */
    uint64_t read;         /* the latest READ; 0: none */
    bool is_free;          /* while its answer is handled: nobody holds the record */
    bool is_free_told;     /* the application knows that, or who leads */
    bool is_leader_told;   /* it knows who leads */
    bool is_stuck;         /* a renewal was left out because the application made no progress */
    uint64_t held_attempt; /* the attempt of the latest renewal */
    uint64_t own_asked;    /* requests that are not the core's, numbered down from UINT64_MAX */

    void (*closed)(void *user);
    void *closed_user;
};

#define OWN_REQUESTS (UINT64_MAX / 2) /* the core counts from 1, and never gets there */

/* ---- Between core and store ------------------------------------------------------------------ */

/* If the work of a leader is stuck, its lease is not renewed, so that another can lead. It does not
 * ask for the lease again either, until the application has made progress. A contender that has not
 * led has no progress to show. */
static bool may_hold(struct cv_backend *b, enum cv_store_verb verb)
{
    const bool is_renewal = verb == CV_STORE_RENEW;
    if (!is_renewal && !(verb == CV_STORE_ACQUIRE && b->is_stuck)) {
        return true;
    }
    const bool has_progress = b->setting.has_progress(b->setting.user);
    if (!has_progress && !b->is_stuck) {
        b->is_stuck = true;
        b->has_trouble = true;
        b->setting.trouble(b->setting.user, "the application makes no progress (cv_progress() was "
                                            "not called in time), so its lease is not renewed");
    } else if (has_progress && b->is_stuck) {
        b->is_stuck = false; /* the next answer of the store ends the trouble */
    }
    return has_progress;
}

/* The first renewal that a stuck leader leaves out is still sent to the store. Neither core nor
 * application learns of it, so the leadership ends at the promised instant. The record lasts
 * longer, so that the reason can reach it in time: see give_back_stuck(). */
static void prolong_record(struct cv_backend *b, const struct cv_effect *effect)
{
    CV_ASSERT(b->is_stuck && effect->verb == CV_STORE_RENEW);
    b->kind->ask(b->store, &(struct cv_store_request){.verb = CV_STORE_RENEW,
                                                      .request = UINT64_MAX - b->own_asked++,
                                                      .attempt = effect->attempt,
                                                      .token = effect->token,
                                                      .lease_ns = effect->lease_ns});
}

static void ask(void *self, const struct cv_effect *effect)
{
    struct cv_backend *b = self;
    CV_ASSERT(effect->request < OWN_REQUESTS);
    if (b->closed != NULL) {
        return; /* the store takes its time to close, and the core's timers go on meanwhile */
    }
    if (effect->verb == CV_STORE_RENEW) {
        b->held_attempt = effect->attempt;
    }
    const bool was_stuck = b->is_stuck;
    if (!may_hold(b, effect->verb)) {
        if (!was_stuck) {
            prolong_record(b, effect);
        }
        cv__host_store(b->host,
                       &(struct cv_event){.request = effect->request, .verdict = CV_STORE_FAILED});
        return;
    }
    const bool is_release = effect->verb == CV_STORE_RELEASE;
    if (is_release) {
        b->release = effect->request;
    }
    b->read = effect->verb == CV_STORE_READ ? effect->request : b->read;
    const struct cv_store_request request = {
        .verb = effect->verb,
        .request = effect->request,
        .attempt = effect->attempt,
        .token = effect->token,
        .lease_ns = effect->lease_ns,
        .heir = is_release && b->has_heir ? b->heir : NULL,
        .reason = is_release                         ? b->why
                  : effect->verb == CV_STORE_ACQUIRE ? b->lost
                                                     : CV_REASON_STARTED,
    };
    b->kind->ask(b->store, &request);
}

static void hear_request(struct cv_backend *b)
{
    const struct cv_store_record *r = &b->record;
    if (!b->is_leading || r->resign_request[0] == '\0' || r->label != cv__host_nonce(b->host) ||
        r->token == b->requested_token) {
        return;
    }
    b->requested_token = r->token;
    b->setting.resign_requested(b->setting.user,
                                strcmp(r->resign_request, "*") == 0 ? "" : r->resign_request);
}

/* The store reports why a leadership ended. The trail may have that end already, without a reason:
 * a contender that takes over at once learns the reason later. */
static void hear_end(struct cv_backend *b, const struct cv_store_end *end)
{
    const bool is_known = end->token != 0 && end->why != CV_REASON_STARTED;
    if (!is_known || (end->token == b->ended.token && end->why == b->ended.why) ||
        end->token < b->ended.token) {
        return;
    }
    b->ended = *end;
    b->setting.ended(b->setting.user, end->token, end->why);
    if (b->trail != NULL && end->token == b->gone_token && end->why != CV_REASON_GONE) {
        cv__trail_note(b->trail, b->address, b->election, "", end->token, cv_reason_name(end->why),
                       /* ago_ns= */ 0);
        b->gone_token = 0;
    }
}

/* Nobody holds the record, and it says why its own leadership ended: that is later than `last`. */
static void hear_end_of_record(struct cv_backend *b, const struct cv_store_record *record)
{
    if (record->token > b->ended.token) {
        hear_end(b, &(struct cv_store_end){.token = record->token, .why = record->ended});
    }
}

/* Why nobody holds the record. A reason that belongs to another leadership than the last one seen
 * does not explain the end of that one. */
static enum cv_reason why_free(const struct cv_backend *b, const struct cv_store_record *record)
{
    return record != NULL && record->token == b->told_token ? record->ended : CV_REASON_STARTED;
}

/* Writes the trail, for stores without their own. A leader that was paused learns late that it no
 * longer leads; the trail gets the instant when its lease ended. */
static void note(struct cv_backend *b, const struct cv_leadership *leadership, const char *name,
                 bool was_leading)
{
    const uint64_t token = leadership->leader != CV_ID_NONE ? leadership->token : 0;
    const bool is_over = token != 0 || was_leading || b->is_free;
    if (b->trail == NULL || token == b->noted_token || !is_over) {
        return; /* if another one is only out of sight, its leadership goes on */
    }
    if (b->noted_token != 0) {
        const enum cv_reason why = token == 0                         ? leadership->reason
                                   : b->ended.token == b->noted_token ? b->ended.why
                                                                      : CV_REASON_GONE;
        b->gone_token = why == CV_REASON_GONE ? b->noted_token : 0;
        const int64_t late_ns = was_leading ? cv__clock_now_ns() - b->valid_until_ns : 0;
        cv__trail_note(b->trail, b->address, b->election, "", b->noted_token, cv_reason_name(why),
                       cv__max64(0, late_ns));
    }
    if (token != 0) {
        cv__trail_note(b->trail, b->address, b->election, name, token, NULL, /* ago_ns= */ 0);
    }
    b->noted_token = token;
}

/* Nobody leads, and the application was only told that no leader is known: it has just begun to
 * look, or the store did not answer for a while. */
static void tell_free(struct cv_backend *b, enum cv_reason why)
{
    const bool is_explained = why != CV_REASON_STARTED || b->told_token == 0;
    const struct cv_leadership nobody = {.reason = is_explained ? why : CV_REASON_GONE};
    note(b, &nobody, "", /* was_leading= */ false);
    b->is_free_told = true;
    b->setting.told(b->setting.user, &nobody, "", /* is_free= */ true);
}

/* Nobody led, and the store does not answer any more: by now somebody may lead. The core only knows
 * that it sees no leader. */
static void tell_unknown(struct cv_backend *b)
{
    const struct cv_leadership unknown = {.reason = CV_REASON_STORE_UNREACHABLE};
    b->is_free_told = false;
    b->setting.told(b->setting.user, &unknown, "", /* is_free= */ false);
}

static void answered(void *user, const struct cv_store_answer *answer)
{
    struct cv_backend *b = user;
    if (answer->record != NULL) {
        b->record = *answer->record;
        hear_end(b, &answer->record->last);
    }
    if (answer->verdict == CV_STORE_FAILED) {
        b->has_trouble = true;
        if (b->is_free_told && !b->is_leader_told) {
            tell_unknown(b);
        }
        b->setting.trouble(b->setting.user, answer->why != NULL ? answer->why : "no answer");
    } else if (answer->request != 0 && b->has_trouble && !b->is_stuck) {
        b->has_trouble = false;
        b->setting.trouble(b->setting.user, "");
    }
    if (answer->request >= OWN_REQUESTS) {
        hear_request(b); /* its wake-up goes only to other processes on some stores */
        return;          /* our own request, not the core's: the record will show the outcome */
    }
    if (answer->request != 0 && answer->request == b->release &&
        answer->verdict != CV_STORE_FAILED) {
        b->release = 0;
        b->has_heir = false;
        b->why = CV_REASON_STARTED;
    }
    const enum cv_reason why = why_free(b, answer->record);
    /* Only a READ reports that nobody holds it; others say that we do not. */
    b->is_free =
        answer->verdict == CV_STORE_FREE && answer->request != 0 && answer->request == b->read;
    if (b->is_free && answer->record != NULL) {
        hear_end_of_record(b, answer->record);
    }
    cv__host_store(b->host, &(struct cv_event){.request = answer->request,
                                               .verdict = answer->verdict,
                                               .token = answer->token,
                                               .holder = answer->holder,
                                               .duration_ns = answer->duration_ns,
                                               .reason = why});
    if (b->is_free && !b->is_free_told) {
        tell_free(b, why);
    }
    b->is_free = false;
    hear_request(b);
}

static void logged(void *user, const char *line)
{
    const struct cv_backend *b = user;
    if (b->setting.log != NULL) {
        b->setting.log(b->setting.user, line);
    }
}

/* Tells the others why the leadership of a stuck leader ended: releases the record with the reason.
 * Only when its leadership is over: before that, another could begin while cv_leads() still says
 * yes. The store releases only if the record is still of this attempt. If the request is lost, the
 * record expires. */
static void give_back_stuck(struct cv_backend *b)
{
    CV_ASSERT(!b->is_leading);
    if (b->held_attempt == 0 || b->closed != NULL || cv__clock_now_ns() < b->valid_until_ns) {
        return;
    }
    b->kind->ask(b->store, &(struct cv_store_request){.verb = CV_STORE_RELEASE,
                                                      .request = UINT64_MAX - b->own_asked++,
                                                      .attempt = b->held_attempt,
                                                      .token = b->told_token,
                                                      .reason = CV_REASON_NO_PROGRESS});
}

static void told(void *self, const struct cv_leadership *leadership)
{
    struct cv_backend *b = self;
    struct cv_leadership known = *leadership;
    if (b->is_leading && !known.is_self && b->is_stuck) {
        known.reason = CV_REASON_NO_PROGRESS; /* the core knows only that nothing was renewed */
    } else if (b->is_leading && known.reason == CV_REASON_RESIGNED && b->why != CV_REASON_STARTED) {
        known.reason = b->why; /* the core knows only that it was given back */
    }
    const bool was_leading = b->is_leading;
    b->is_leading = known.is_self;
    b->told_token = known.leader != CV_ID_NONE ? known.token : b->told_token;
    if (was_leading != b->is_leading) {
        b->lost = b->is_leading ? CV_REASON_STARTED : known.reason;
    }
    if (!was_leading &&
        b->is_leading) { /* an earlier resignation that came too late is forgotten */
        b->why = CV_REASON_STARTED;
        b->has_heir = false;
    }
    const char *name = "";
    if (b->is_leading) {
        name = b->node;
    } else if (leadership->leader == CV_ID_ANONYMOUS && leadership->label == b->record.label) {
        name = b->record.node;
    }
    note(b, &known, name, was_leading);
    if (was_leading && !b->is_leading && known.reason == CV_REASON_NO_PROGRESS) {
        give_back_stuck(b);
    }
    b->valid_until_ns = known.is_self ? known.valid_until_ns : b->valid_until_ns;
    /* Before the end of our own time nobody else leads. */
    const bool is_free = b->is_free || (was_leading && known.leader == CV_ID_NONE &&
                                        cv__clock_now_ns() < b->valid_until_ns);
    b->is_leader_told = known.leader != CV_ID_NONE;
    b->is_free_told = is_free || b->is_leader_told;
    b->setting.told(b->setting.user, &known, name, is_free);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int lease_contract(const char *address, struct cv_backend_contract *ret_contract,
                          struct cv_errtext *reterr)
{
    (void)address; /* the same for all stores; open() checks the rest */
    (void)reterr;
    const struct cv_protocol *protocol = cv_protocol_find("lease");
    CV_ASSERT(protocol != NULL);
    *ret_contract = (struct cv_backend_contract){
        .promises = protocol->promises,
        .assumes = protocol->assumes,
        .words = "while one process leads, nobody else does",
        .has_lease = true,
    };
    return CV_OK;
}

static const char *lease_self(const struct cv_backend *b)
{
    return b->node;
}

int cv__backend_check_lease(const struct cv_store_kind *kind, int64_t lease_ns,
                            struct cv_errtext *reterr)
{
    char asked[CV_DURATION_TEXT_BYTES], bound[CV_DURATION_TEXT_BYTES];
    if (lease_ns < kind->lease_ns_min) {
        return cv__fail(reterr, CV_E_INVALID, "a lease of %s is too short for %s: at least %s",
                        cv__duration_format(lease_ns, asked), kind->scheme,
                        cv__duration_format(kind->lease_ns_min, bound));
    }
    if (lease_ns > LEASE_NS_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "a lease of %g h is too long: at most %g h",
                        (double)lease_ns / 3600e9, (double)LEASE_NS_MAX / 3600e9);
    }
    return CV_OK;
}

static int configure(struct cv_config *config, const struct cv_protocol *protocol,
                     const struct cv_store_kind *kind, const struct cv_backend_setting *setting,
                     struct cv_errtext *reterr)
{
    const int64_t lease_ns = setting->lease_ns;
    int code = cv__backend_check_lease(kind, lease_ns, reterr);
    if (code != CV_OK) {
        return code;
    }
    char text[32];
    (void)snprintf(text, sizeof text, "%lldns", (long long)lease_ns);
    cv_config_init(config, protocol, /* self= */ 1, /* member_count= */ 1);
    code = cv_config_set(config, protocol, "lease", text, reterr);
    if (code == CV_OK) {
        code = cv_config_set(config, protocol, "candidate", setting->is_candidate ? "yes" : "no",
                             reterr);
    }
    return code != CV_OK ? code : cv_core_configure(protocol, config, reterr);
}

static void on_host_closed(void *data)
{
    struct cv_backend *b = data;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    cv__trail_close(b->trail);
    free(b->address);
    free(b);
    closed(user);
}

static void on_store_closed(void *user)
{
    struct cv_backend *b = user;
    cv__host_free(b->host, on_host_closed, b);
}

static void lease_close(struct cv_backend *b, void (*closed)(void *user), void *user)
{
    b->closed = closed;
    b->closed_user = user;
    b->kind->close(b->store, on_store_closed, b);
}

static int lease_not_open(struct cv_backend *b, int code)
{
    cv__host_free(b->host, NULL, NULL); /* the loop has to run once more */
    cv__trail_close(b->trail);
    free(b->address);
    free(b);
    return code;
}

static int lease_open(struct cv_backend **ret_backend, const struct cv_backend_setting *setting,
                      struct cv_errtext *reterr)
{
    const struct cv_protocol *protocol = cv_protocol_find("lease");
    CV_ASSERT(protocol != NULL);
    struct cv_backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    b->setting = *setting;
    b->kind = cv__store_find(setting->address);
    CV_ASSERT(b->kind != NULL); /* cv__store_serves() */
    (void)snprintf(b->node, sizeof b->node, "%s", setting->node);
    (void)snprintf(b->election, sizeof b->election, "%s", setting->election);
    b->address = strdup(setting->address);
    const struct cv_host_services services = {
        .store = {.self = b, .ask = ask},
        .told = {.self = b, .leadership = told},
        .time = {.timers = setting->timers},
        .recorder = setting->recorder,
    };
    struct cv_config config;
    int code = b->address != NULL ? configure(&config, protocol, b->kind, setting, reterr)
                                  : cv__fail(reterr, CV_E_MEMORY, "out of memory");
    if (code == CV_OK) {
        code = cv__host_new(setting->loop, protocol, &config, &services, &b->host, reterr);
    }
    if (code == CV_OK && b->kind->history == NULL) {
        code = cv__trail_open(setting->loop, setting->shared, &b->trail, reterr);
    }
    if (code != CV_OK) {
        return lease_not_open(b, code);
    }
    const struct cv_store_setting store_setting = {
        .loop = setting->loop,
        .shared = setting->shared,
        .address = setting->address,
        .election = setting->election,
        .node = b->node,
        .label = cv__host_nonce(b->host),
        .version = CV_VERSION,
        .has_descendants = setting->has_descendants,
        .answered = answered,
        .log = logged,
        .user = b,
    };
    code = b->kind->open(&b->store, &store_setting, reterr);
    if (code != CV_OK) {
        return lease_not_open(b, code);
    }
    code = cv__host_start(b->host, reterr);
    CV_ASSERT(code == CV_OK); /* it has no record to load */
    *ret_backend = b;
    return CV_OK;
}

/* ---- Requests of the application ------------------------------------------------------------- */

static void lease_campaign(struct cv_backend *b, bool is_candidate)
{
    cv__host_campaign(b->host, is_candidate);
}

static void lease_resign(struct cv_backend *b, const char *heir, enum cv_reason why)
{
    b->why = why;
    b->has_heir = heir != NULL && heir[0] != '\0';
    if (b->has_heir) {
        (void)snprintf(b->heir, sizeof b->heir, "%s", heir);
    }
    cv__host_resign(b->host, CV_ID_NONE);
}

static void lease_request_resign(struct cv_backend *b, const char *heir)
{
    b->kind->request_resign(b->store, UINT64_MAX - b->own_asked++, heir);
}

static void lease_report(struct cv_backend *b, enum cv_input input, int64_t value)
{
    cv__host_report(b->host, input, value); /* the lease core ignores it */
}

static bool lease_is_released(const struct cv_backend *b)
{
    return b->release == 0;
}

static int lease_inherit(struct cv_backend *b)
{
    return b->kind->inherit != NULL ? b->kind->inherit(b->store) : -1;
}

const struct cv_backend_kind cv__backend_lease = {
    .scheme_at = cv__store_scheme_at,
    .serves = cv__store_serves,
    .contract = lease_contract,
    .open = lease_open,
    .self = lease_self,
    .campaign = lease_campaign,
    .resign = lease_resign,
    .request_resign = lease_request_resign,
    .report = lease_report,
    .is_released = lease_is_released,
    .inherit = lease_inherit,
    .close = lease_close,
};
