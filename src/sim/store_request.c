/* src/sim/store_request.c - requests to the store, and its notifications. */
#include "sim/store_request.h"

#include "base/memory.h"
#include "sim/sequencer_request.h"
#include "sim/world.h"

#include <stdlib.h>

#define NONE UINT32_MAX

static uint32_t request_new(struct sim_world *w, const struct sim_store_request *request)
{
    uint32_t index = w->store_requests.free;
    if (index != NONE) {
        w->store_requests.free = w->store_requests.item[index].node;
    } else {
        w->store_requests.item = cv__grow(w->store_requests.item, &w->store_requests.capacity,
                                          w->store_requests.count, sizeof *w->store_requests.item);
        index = w->store_requests.count++;
    }
    w->store_requests.item[index] = *request;
    return index;
}

static void request_free(struct sim_world *w, uint32_t index)
{
    w->store_requests.item[index].node = w->store_requests.free;
    w->store_requests.free = index;
}

/* To the store, or back. */
static void set_out(struct sim_world *w, int64_t at_ns, uint32_t index)
{
    const struct sim_store_request *e = &w->store_requests.item[index];
    const struct sim_under_way what = {
        .kind = SIM_EVENT_STORE_REQUEST,
        .ref = index,
        .from = e->is_served ? SIM_NODE_SERVICE : e->node,
        .to = e->is_served ? e->node : SIM_NODE_SERVICE,
    };
    sim_under_way(w, at_ns, &what);
}

void sim_store_request_ask(struct sim_world *w, cv_id id, const struct cv_effect *e)
{
    const struct sim_node *n = &w->node[id - 1];
    const struct sim_store_request request = {
        .node = id,
        .life = n->life,
        .request = e->request,
        .boot = w->store.boot,
        .asked_ns = w->now_ns,
        .query = {e->verb, n->nonce, e->attempt, e->lease_ns},
    };
    sim_world_note(w, CV_RECORD_STORE_ASK, id, CV_ID_NONE, e->verb, e->request,
                   (int64_t)e->attempt);
    w->store.query_count++;
    int64_t at_ns;
    const bool arrives =
        sim_store_travel(&w->store, &w->store_requests.rng, SIM_STORE_QUERY, w->now_ns, &at_ns);
    if (!arrives || (n->cut & SIM_CUT_QUERIES) != 0) {
        w->store.lost_query_count += arrives;
        sim_properties_disturb(w);
        return;
    }
    if (at_ns - w->now_ns > w->properties.setting.store_ns) {
        sim_properties_disturb(w); /* others follow when it arrives, and when its answer does */
    }
    set_out(w, at_ns, request_new(w, &request));
}

void sim_store_request_lose(struct sim_world *w, uint32_t index)
{
    const struct sim_store_request *e = &w->store_requests.item[index];
    if (!e->is_served) {
        w->store.lost_query_count++;
    } else if (e->answer.verdict == CV_STORE_CHANGED) {
        w->store.lost_notification_count++;
    } else {
        w->store.lost_answer_count++;
    }
    sim_properties_disturb(w);
    request_free(w, index);
}

uint32_t sim_store_request_repeat(struct sim_world *w, uint32_t index)
{
    struct sim_store_request copy = w->store_requests.item[index];
    copy.is_repeat = true;
    return request_new(w, &copy);
}

/* Notifies every waiting node that a request may succeed now. */
static void notify_waiting(struct sim_world *w)
{
    for (cv_id id = 1; id <= w->node_count && !w->store.is_down; id++) {
        const struct sim_node *n = &w->node[id - 1];
        int64_t at_ns;
        const bool is_cut = w->scenario->is_manual && (n->cut & SIM_CUT_ANSWERS) != 0;
        if (!n->is_up || n->waiting_life != n->life || is_cut) {
            continue;
        }
        w->store.notification_count++;
        if (!sim_store_travel(&w->store, &w->store_requests.rng, SIM_STORE_NOTIFICATION, w->now_ns,
                              &at_ns)) {
            continue;
        }
        const struct sim_store_request notification = {
            .node = id,
            .life = n->life,
            .boot = w->store.boot,
            .is_served = true,
            .asked_ns = w->now_ns,
            .answer = {.verdict = CV_STORE_CHANGED},
        };
        set_out(w, at_ns, request_new(w, &notification));
    }
}

/* The queue has one entry for the end of the lease; if it comes too early, it is queued again. */
static void queue_expiry(struct sim_world *w)
{
    const int64_t end_ns = sim_store_end_ns(&w->store);
    if (end_ns < w->store_requests.expiry_queued_ns) {
        w->store_requests.expiry_queued_ns = cv__max64(end_ns, w->now_ns);
        sim_queue_push(&w->queue, w->store_requests.expiry_queued_ns, SIM_EVENT_EXPIRY, 0);
    }
}

void sim_store_request_expire(struct sim_world *w)
{
    if (w->store_requests.expiry_queued_ns != w->now_ns) {
        return; /* an earlier entry has replaced this one */
    }
    w->store_requests.expiry_queued_ns = INT64_MAX;
    if (sim_store_expire(&w->store, w->now_ns)) {
        notify_waiting(w);
    }
    queue_expiry(w);
}

/* `manual`: the requests that wait fail at once, and their nodes are told, or are not. */
static void fail_waiting(struct sim_world *w, bool are_told)
{
    struct sim_store_request *asked = NULL;
    uint32_t count = 0;
    uint32_t capacity = 0;
    for (uint32_t index; (index = sim_manual_take_store(w)) != NONE;) {
        const struct sim_store_request *e = &w->store_requests.item[index];
        const struct sim_node *n = &w->node[e->node - 1];
        const bool is_notification = e->answer.verdict == CV_STORE_CHANGED;
        if (are_told && !is_notification && !e->is_repeat && n->is_up && n->life == e->life &&
            (n->cut & SIM_CUT_ANSWERS) == 0) {
            asked = cv__grow(asked, &capacity, count, sizeof *asked);
            asked[count++] = *e;
        }
        request_free(w, index);
    }
    for (uint32_t i = 0; i < count; i++) {
        w->store.failed_count++;
        asked[i].is_served = true;
        asked[i].boot = w->store.boot;
        asked[i].answer = (struct cv_model_answer){.verdict = CV_STORE_FAILED};
        set_out(w, w->now_ns, request_new(w, &asked[i]));
    }
    free(asked);
}

void sim_store_request_changed(struct sim_world *w, const struct sim_store_change *change)
{
    const bool has_restarted = change->verb == SIM_STORE_RESTART;
    if (has_restarted) {
        fail_waiting(w, !change->is_silent);
    }
    for (uint32_t i = 0; i < w->store_requests.count && has_restarted && change->is_silent; i++) {
        /* unused entries are initialised again before use */
        w->store_requests.item[i].is_silent = true;
    }
    for (cv_id id = 1; id <= w->node_count && has_restarted; id++) {
        w->node[id - 1].waiting_life = 0;
    }
    queue_expiry(w);
}

/* Half of the requests get no answer; the others see their connection refused or broken. */
static void fail(struct sim_world *w, uint32_t index, int64_t delay_ns)
{
    sim_properties_disturb(w);
    const bool is_silent = w->store_requests.item[index].is_silent;
    if (is_silent || sim_rng_range(&w->store_requests.rng, 0, 1) == 0) {
        w->store.lost_query_count++;
        request_free(w, index);
        return;
    }
    w->store.failed_count++;
    struct sim_store_request *e = &w->store_requests.item[index];
    e->is_served = true;
    e->boot = w->store.boot;
    e->answer = (struct cv_model_answer){.verdict = CV_STORE_FAILED};
    set_out(w, w->now_ns + delay_ns, index);
}

static void serve(struct sim_world *w, uint32_t index)
{
    struct sim_store_request e = w->store_requests.item[index];
    if (w->store.is_down || e.boot != w->store.boot) {
        fail(w, index, w->store.delay_ns / 2);
        return;
    }
    const struct cv_model_record before = w->store.record;
    const bool is_notification = sim_store_serve(&w->store, &e.query, w->now_ns, &e.answer);
    struct sim_node *n = &w->node[e.node - 1];
    if (n->life == e.life) {
        n->waiting_life = e.answer.verdict == CV_STORE_GRANTED ? 0 : e.life;
    }
    const struct cv_model_record *record = &w->store.record;
    if (record->token != before.token ||
        /* a correct store changes both */
        (record->holder != 0 && record->holder != before.holder)) {
        sim_known_add(w, record->token, e.query.label, e.node);
    }
    queue_expiry(w);
    e.is_served = true;
    w->store_requests.item[index] = e;
    int64_t at_ns;
    const bool arrives =
        sim_store_travel(&w->store, &w->store_requests.rng, SIM_STORE_ANSWER, w->now_ns, &at_ns);
    const bool is_gone = w->scenario->is_manual && (!n->is_up || n->life != e.life);
    if (e.is_repeat || is_gone) {
        request_free(w, index);
    } else if (!arrives || (n->cut & SIM_CUT_ANSWERS) != 0) {
        w->store.lost_answer_count += arrives;
        sim_properties_disturb(w);
        request_free(w, index);
    } else {
        if (at_ns - e.asked_ns > w->properties.setting.store_ns) {
            sim_properties_disturb(w);
        }
        set_out(w, at_ns, index);
    }
    if (is_notification) {
        notify_waiting(w);
    }
}

void sim_store_request_arrive(struct sim_world *w, uint32_t index)
{
    const struct sim_store_request e = w->store_requests.item[index];
    const struct sim_node *n = &w->node[e.node - 1];
    const bool is_notification = e.answer.verdict == CV_STORE_CHANGED;
    if (!e.is_served) {
        serve(w, index);
        return;
    }
    if (n->is_up && n->is_paused && n->life == e.life) {
        w->store_requests.waiting =
            cv__grow(w->store_requests.waiting, &w->store_requests.waiting_capacity,
                     w->store_requests.waiting_count, sizeof *w->store_requests.waiting);
        w->store_requests.waiting[w->store_requests.waiting_count++] = index;
        return;
    }
    request_free(w, index);
    if (!is_notification && w->now_ns - e.asked_ns > w->properties.setting.store_ns) {
        sim_properties_disturb(w);
    }
    const bool is_old = e.boot != w->store.boot;
    /* With `manual`, messages sent before the cut still arrive, as between nodes. */
    const bool is_cut = !w->scenario->is_manual && (n->cut & SIM_CUT_ANSWERS) != 0;
    if (!n->is_up || n->life != e.life || (is_old && (is_notification || e.is_silent)) || is_cut) {
        return; /* the process that asked is gone with its connection, or the connection is cut */
    }
    struct cv_event event = {
        .kind = CV_EVENT_STORE,
        .request = e.request,
        .verdict = e.answer.verdict,
        .token = e.answer.token,
        .holder = e.answer.holder,
        .duration_ns = e.answer.duration_ns,
        .reason = e.answer.reason,
    };
    if (!is_notification && is_old) {
        event = (struct cv_event){
            .kind = CV_EVENT_STORE, .request = e.request, .verdict = CV_STORE_FAILED};
        w->store.failed_count++;
        sim_properties_disturb(w);
    }
    sim_world_note(w, CV_RECORD_STORE_ANSWER, e.node, CV_ID_NONE, event.verdict, e.request,
                   (int64_t)event.token);
    sim_node_step(w, e.node, &event);
}

void sim_store_request_wake(struct sim_world *w, cv_id id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->store_requests.waiting_count; i++) {
        const uint32_t index = w->store_requests.waiting[i];
        if (w->store_requests.item[index].node == id) {
            sim_queue_push(&w->queue, w->now_ns, SIM_EVENT_STORE_REQUEST, index);
        } else {
            w->store_requests.waiting[kept++] = index;
        }
    }
    w->store_requests.waiting_count = kept;
}

void sim_store_requests_init(struct sim_store_requests *requests, uint64_t seed, uint64_t stream)
{
    sim_rng_init(&requests->rng, seed, stream);
    requests->expiry_queued_ns = INT64_MAX;
    requests->free = NONE;
}

void sim_store_requests_fini(struct sim_store_requests *requests)
{
    free(requests->item);
    free(requests->waiting);
}
