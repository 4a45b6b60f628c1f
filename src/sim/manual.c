/* src/sim/manual.c - events in flight: they happen by themselves, or wait for the scenario. */
#include "sim/manual.h"

#include "base/memory.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

void sim_manual_fini(struct sim_manual *manual)
{
    free(manual->item);
    free(manual->sent);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static bool is_alike(const struct sim_under_way *a, const struct sim_under_way *b)
{
    return a->from == b->from && a->to == b->to && a->type == b->type &&
           a->is_witness == b->is_witness && a->sent_ns == b->sent_ns;
}

static void hold(struct sim_world *w, const struct sim_under_way *what)
{
    struct sim_manual *m = &w->manual;
    struct sim_under_way held = *what;
    held.sent_ns = w->now_ns;
    held.number = 1;
    held.is_late = what->is_witness; /* it may come at any time */
    if (m->sent_count > 0 && m->sent[0].sent_ns != w->now_ns) {
        m->sent_count = 0;
    }
    for (uint32_t i = 0; i < m->sent_count; i++) {
        held.number += is_alike(&m->sent[i], &held);
    }
    m->sent = cv__grow(m->sent, &m->sent_capacity, m->sent_count, sizeof *m->sent);
    m->sent[m->sent_count++] = held;
    m->item = cv__grow(m->item, &m->capacity, m->count, sizeof *m->item);
    m->item[m->count++] = held;
}

void sim_under_way(struct sim_world *w, int64_t at_ns, const struct sim_under_way *what)
{
    CV_ASSERT(at_ns >= w->now_ns);
    if (w->scenario->is_manual) {
        hold(w, what);
    } else {
        sim_queue_push(&w->queue, at_ns, what->kind, what->ref);
    }
}

static struct sim_under_way take(struct sim_manual *m, uint32_t index)
{
    CV_ASSERT(index < m->count);
    const struct sim_under_way taken = m->item[index];
    m->count--;
    memmove(&m->item[index], &m->item[index + 1], (m->count - index) * sizeof *m->item);
    return taken;
}

static bool can_act(const struct sim_world *w, cv_id id)
{
    return id == SIM_NODE_SERVICE || (w->node[id - 1].is_up && !w->node[id - 1].is_paused);
}

/* Has it waited for longer than the protocol assumes? Not if its receiver was down or paused
 * meanwhile. */
static bool is_overdue(const struct sim_world *w, const struct sim_under_way *held)
{
    const struct cv_properties_setting *setting = &w->properties.setting;
    const bool is_of_service = held->from == SIM_NODE_SERVICE || held->to == SIM_NODE_SERVICE;
    const int64_t service_ns = setting->store_ns > 0 ? setting->store_ns : setting->sequence_ns;
    const int64_t most_ns = is_of_service ? service_ns : setting->delta_ns;
    const bool is_in_vain =
        held->to != SIM_NODE_SERVICE && held->sent_ns < w->node[held->to - 1].acts_from_ns;
    return most_ns > 0 && w->now_ns - held->sent_ns > most_ns && !is_in_vain &&
           can_act(w, held->to);
}

static bool has_overdue_timer(const struct sim_world *w, const struct sim_node *n)
{
    for (uint32_t i = 0; i < CV_TIMERS_MAX && n->is_up && !n->is_paused; i++) {
        if (n->host.due_ns[i] != 0 && n->timer[i].due_ns < w->now_ns) {
            return true;
        }
    }
    return false;
}

bool sim_manual_is_prompt(const struct sim_world *w)
{
    for (uint32_t i = 0; i < w->manual.count; i++) {
        if (w->manual.item[i].is_late || is_overdue(w, &w->manual.item[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (has_overdue_timer(w, &w->node[i])) {
            return false;
        }
    }
    return true;
}

uint32_t sim_manual_take_store(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->manual.count; i++) {
        if (w->manual.item[i].kind == SIM_EVENT_STORE_REQUEST) {
            return take(&w->manual, i).ref;
        }
    }
    return UINT32_MAX;
}

/* ---- Happening ------------------------------------------------------------------------------- */

static bool is_meant(const struct sim_pick *pick, const struct sim_under_way *held)
{
    return held->from == pick->from && held->to == pick->to &&
           held->is_witness == ((pick->mask & SIM_PICK_WITNESS) != 0) &&
           ((pick->mask & SIM_PICK_TYPE) == 0 || held->type == pick->type) &&
           ((pick->mask & SIM_PICK_SENT) == 0 || held->sent_ns == pick->sent_ns) &&
           ((pick->mask & SIM_PICK_NUMBER) == 0 || held->number == pick->number);
}

/* The first entry that matches; manual.count: there is none. */
static uint32_t find(const struct sim_world *w, const struct sim_pick *pick)
{
    uint32_t index = 0;
    while (index < w->manual.count && !is_meant(pick, &w->manual.item[index])) {
        index++;
    }
    return index;
}

bool sim_manual_fire(struct sim_world *w, cv_id id, uint32_t timer)
{
    struct sim_node *n = sim_world_node(w, id);
    const int64_t due_ns = n->host.due_ns[timer];
    if (!can_act(w, id) || due_ns == 0 || due_ns > sim_clock_local(&n->clock, w->now_ns)) {
        return false;
    }
    sim_world_note(w, CV_RECORD_TIMER, id, CV_ID_NONE, timer, 0, 0);
    cv__node_fire(&n->host, sim_world_host(n), timer);
    return true;
}

bool sim_manual_deliver(struct sim_world *w, const struct sim_pick *pick)
{
    const uint32_t index = find(w, pick);
    if (index == w->manual.count || !can_act(w, pick->to)) {
        return false;
    }
    const struct sim_under_way arriving = w->manual.item[index];
    if ((pick->mask & SIM_PICK_AGAIN) != 0) {
        w->manual.item[index].ref = sim_world_repeat(w, arriving.kind, arriving.ref);
        w->manual.item[index].is_late = true;
    } else {
        (void)take(&w->manual, index);
    }
    if (arriving.is_late) {
        sim_properties_disturb(w);
    }
    if (arriving.kind == SIM_EVENT_STORE_REQUEST && pick->to == SIM_NODE_SERVICE) {
        sim_store_request_expire(w); /* a lease that ends now ends before a request arrives */
    }
    sim_world_dispatch(w, arriving.kind, arriving.ref);
    return true;
}

bool sim_manual_lose(struct sim_world *w, const struct sim_pick *pick)
{
    const uint32_t index = find(w, pick);
    if (index == w->manual.count) {
        return false;
    }
    const struct sim_under_way lost = take(&w->manual, index);
    sim_world_lose(w, lost.kind, lost.ref);
    return true;
}

bool sim_manual_delay(struct sim_world *w, const struct sim_pick *pick)
{
    const uint32_t index = find(w, pick);
    if (index == w->manual.count) {
        return false;
    }
    w->manual.item[index].is_late = true;
    return true;
}
