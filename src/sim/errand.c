/* src/sim/errand.c - nodes ask the store, and the store has news for them. */
#include "sim/errand.h"

#include "base/memory.h"
#include "sim/query.h"
#include "sim/world.h"

#define NONE UINT32_MAX

static uint32_t errand_new(struct sim_world *w, const struct sim_errand *errand)
{
    uint32_t index = w->errand_free;
    if (index != NONE) {
        w->errand_free = w->errand[index].node;
    } else {
        w->errand = cv__grow(w->errand, &w->errand_capacity, w->errand_count, sizeof *w->errand);
        index = w->errand_count++;
    }
    w->errand[index] = *errand;
    return index;
}

static void errand_free(struct sim_world *w, uint32_t index)
{
    w->errand[index].node = w->errand_free;
    w->errand_free = index;
}

void sim_errand_ask(struct sim_world *w, cv_id id, const struct cv_effect *e)
{
    const struct sim_node *n = &w->node[id - 1];
    const struct sim_errand errand = {
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
        sim_store_travel(&w->store, &w->store_rng, SIM_STORE_QUERY, w->now_ns, &at_ns);
    if (!arrives || n->is_cut) {
        w->store.lost_query_count += arrives;
        sim_properties_disturb(w);
        return;
    }
    if (at_ns - w->now_ns > w->properties.setting.store_ns) {
        sim_properties_disturb(w); /* now, when it arrives, and when its answer does */
    }
    sim_world_queue_errand(w, errand_new(w, &errand), at_ns);
}

/* Everybody who was told to wait learns that it may be worth asking. */
static void spread_news(struct sim_world *w)
{
    for (cv_id id = 1; id <= w->node_count && !w->store.is_down; id++) {
        const struct sim_node *n = &w->node[id - 1];
        int64_t at_ns;
        if (!n->is_up || n->news_life != n->life) {
            continue;
        }
        w->store.news_count++;
        if (!sim_store_travel(&w->store, &w->store_rng, SIM_STORE_NEWS, w->now_ns, &at_ns)) {
            continue;
        }
        const struct sim_errand news = {
            .node = id,
            .life = n->life,
            .boot = w->store.boot,
            .is_served = true,
            .asked_ns = w->now_ns,
            .answer = {.verdict = CV_STORE_CHANGED},
        };
        sim_world_queue_errand(w, errand_new(w, &news), at_ns);
    }
}

/* One entry of the queue stands for the end of the lease; it looks again when it comes too soon. */
static void queue_expiry(struct sim_world *w)
{
    const int64_t end_ns = sim_store_end_ns(&w->store);
    if (end_ns < w->expiry_queued_ns) {
        w->expiry_queued_ns = cv__max64(end_ns, w->now_ns);
        sim_world_queue_expiry(w, w->expiry_queued_ns);
    }
}

void sim_errand_expire(struct sim_world *w)
{
    if (w->expiry_queued_ns != w->now_ns) {
        return; /* an entry that was overtaken by an earlier one */
    }
    w->expiry_queued_ns = INT64_MAX;
    if (sim_store_expire(&w->store, w->now_ns)) {
        spread_news(w);
    }
    queue_expiry(w);
}

void sim_errand_changed(struct sim_world *w, bool has_restarted)
{
    for (cv_id id = 1; id <= w->node_count && has_restarted; id++) {
        w->node[id - 1].news_life = 0;
    }
    queue_expiry(w);
}

/* Nobody answers; or, as often, the connection is refused or breaks and the asker sees that. */
static void fail(struct sim_world *w, uint32_t index, int64_t delay_ns)
{
    sim_properties_disturb(w);
    if (sim_rng_range(&w->store_rng, 0, 1) == 0) {
        w->store.lost_query_count++;
        errand_free(w, index);
        return;
    }
    w->store.failed_count++;
    struct sim_errand *e = &w->errand[index];
    e->is_served = true;
    e->boot = w->store.boot;
    e->answer = (struct sim_store_answer){.verdict = CV_STORE_FAILED};
    sim_world_queue_errand(w, index, w->now_ns + delay_ns);
}

static void serve(struct sim_world *w, uint32_t index)
{
    struct sim_errand e = w->errand[index];
    if (w->store.is_down || e.boot != w->store.boot) {
        fail(w, index, w->store.delay_ns / 2);
        return;
    }
    const uint64_t token_before = w->store.token;
    const bool is_news = sim_store_serve(&w->store, &e.query, w->now_ns, &e.answer);
    struct sim_node *n = &w->node[e.node - 1];
    if (n->life == e.life) {
        n->news_life = e.answer.verdict == CV_STORE_GRANTED ? 0 : e.life;
    }
    if (w->store.token != token_before) {
        sim_query_know(w, w->store.token, e.query.label, e.node);
    }
    queue_expiry(w);
    e.is_served = true;
    w->errand[index] = e;
    int64_t at_ns;
    const bool arrives =
        sim_store_travel(&w->store, &w->store_rng, SIM_STORE_ANSWER, w->now_ns, &at_ns);
    if (!arrives || n->is_cut) {
        w->store.lost_answer_count += arrives;
        sim_properties_disturb(w);
        errand_free(w, index);
    } else {
        if (at_ns - e.asked_ns > w->properties.setting.store_ns) {
            sim_properties_disturb(w);
        }
        sim_world_queue_errand(w, index, at_ns);
    }
    if (is_news) {
        spread_news(w);
    }
}

void sim_errand_arrive(struct sim_world *w, uint32_t index)
{
    const struct sim_errand e = w->errand[index];
    const struct sim_node *n = &w->node[e.node - 1];
    const bool is_news = e.answer.verdict == CV_STORE_CHANGED;
    if (!e.is_served) {
        serve(w, index);
        return;
    }
    if (n->is_up && n->is_paused && n->life == e.life) {
        w->errand_waiting = cv__grow(w->errand_waiting, &w->errand_waiting_capacity,
                                     w->errand_waiting_count, sizeof *w->errand_waiting);
        w->errand_waiting[w->errand_waiting_count++] = index;
        return;
    }
    errand_free(w, index);
    if (!is_news && w->now_ns - e.asked_ns > w->properties.setting.store_ns) {
        sim_properties_disturb(w);
    }
    if (!n->is_up || n->life != e.life || (is_news && e.boot != w->store.boot) || n->is_cut) {
        return; /* the process that asked is gone, and its connection with it; or that is cut */
    }
    struct cv_event event = {
        .kind = CV_EVENT_STORE,
        .request = e.request,
        .verdict = e.answer.verdict,
        .token = e.answer.token,
        .holder = e.answer.holder,
        .duration_ns = e.answer.duration_ns,
    };
    if (!is_news && e.boot != w->store.boot) {
        event = (struct cv_event){
            .kind = CV_EVENT_STORE, .request = e.request, .verdict = CV_STORE_FAILED};
        w->store.failed_count++;
        sim_properties_disturb(w);
    }
    sim_world_note(w, CV_RECORD_STORE_ANSWER, e.node, CV_ID_NONE, event.verdict, e.request,
                   (int64_t)event.token);
    sim_world_step(w, e.node, &event);
}

void sim_errand_wake(struct sim_world *w, cv_id id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->errand_waiting_count; i++) {
        const uint32_t index = w->errand_waiting[i];
        if (w->errand[index].node == id) {
            sim_world_queue_errand(w, index, w->now_ns);
        } else {
            w->errand_waiting[kept++] = index;
        }
    }
    w->errand_waiting_count = kept;
}
