/* src/sim/query.c - nodes ask the sequencer; and who is behind a label and a number. */
#include "sim/query.h"

#include "base/memory.h"
#include "core/sequence.h"
#include "sim/world.h"

#define NONE UINT32_MAX

static uint32_t query_new(struct sim_world *w)
{
    const uint32_t index = w->query_free;
    if (index != NONE) {
        w->query_free = w->query[index].node;
        return index;
    }
    w->query = cv__grow(w->query, &w->query_capacity, w->query_count, sizeof *w->query);
    return w->query_count++;
}

static void query_free(struct sim_world *w, uint32_t index)
{
    w->query[index].node = w->query_free;
    w->query_free = index;
}

void sim_query_ask(struct sim_world *w, cv_id id, uint64_t request, uint64_t reference)
{
    int64_t at_ns;
    sim_world_note(w, CV_RECORD_ASK, id, CV_ID_NONE, 0, request, 0);
    if (w->options.keeps_history) {
        w->ask = cv__grow(w->ask, &w->ask_capacity, w->ask_count, sizeof *w->ask);
        w->ask[w->ask_count++] = (struct sim_ask){w->now_ns, id};
    }
    if (!sim_sequencer_ask(&w->sequencer, &w->sequencer_rng, w->now_ns, &at_ns)) {
        sim_properties_disturb(w);
        return;
    }
    const uint32_t index = query_new(w);
    w->query[index] = (struct sim_query){
        .node = id,
        .life = w->node[id - 1].life,
        .request = request,
        .reference = reference,
        .asked_ns = w->now_ns,
    };
    sim_world_queue_query(w, index, /* is_answer= */ false, at_ns);
}

void sim_query_serve(struct sim_world *w, uint32_t index)
{
    int64_t at_ns;
    struct sim_query *q = &w->query[index];
    if (!sim_sequencer_serve(&w->sequencer, &w->sequencer_rng, w->now_ns, &q->answer, &at_ns)) {
        sim_properties_disturb(w);
        query_free(w, index);
        return;
    }
    if (at_ns - q->asked_ns > w->properties.setting.sequence_ns) {
        sim_properties_disturb(w); /* now, and again when it arrives */
    }
    sim_world_queue_query(w, index, /* is_answer= */ true, at_ns);
}

void sim_query_answer(struct sim_world *w, uint32_t index)
{
    const struct sim_query q = w->query[index];
    const struct sim_node *n = &w->node[q.node - 1];
    if (n->is_up && n->is_paused && n->life == q.life) {
        w->waiting =
            cv__grow(w->waiting, &w->waiting_capacity, w->waiting_count, sizeof *w->waiting);
        w->waiting[w->waiting_count++] = index;
        return;
    }
    query_free(w, index);
    if (w->now_ns - q.asked_ns > w->properties.setting.sequence_ns) {
        sim_properties_disturb(w);
    }
    if (!n->is_up || n->life != q.life) {
        return; /* the process that asked is gone, and its socket with it */
    }
    const uint64_t number = cv__sequence_number(q.reference, q.answer.counter, q.answer.boots);
    sim_world_note(w, CV_RECORD_ANSWER, q.node, CV_ID_NONE, 0, number, 0);
    for (uint32_t i = w->known_count; i > 0 && number != CV_SEQUENCE_NONE; i--) {
        const struct sim_known *life = &w->known[i - 1];
        if (life->node == q.node && life->number == CV_SEQUENCE_NONE) {
            sim_query_know(w, number, life->label, q.node);
            break;
        }
    }
    struct cv_event event = {.kind = CV_EVENT_SEQUENCE, .request = q.request, .sequence = number};
    sim_world_step(w, q.node, &event);
}

void sim_query_wake(struct sim_world *w, cv_id id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->waiting_count; i++) {
        const uint32_t index = w->waiting[i];
        if (w->query[index].node == id) {
            sim_world_queue_query(w, index, /* is_answer= */ true, w->now_ns);
        } else {
            w->waiting[kept++] = index;
        }
    }
    w->waiting_count = kept;
}

void sim_query_know(struct sim_world *w, uint64_t number, uint64_t label, cv_id id)
{
    if (!w->protocol->is_anonymous) {
        return;
    }
    w->known = cv__grow(w->known, &w->known_capacity, w->known_count, sizeof *w->known);
    w->known[w->known_count++] = (struct sim_known){number, label, id};
}

cv_id sim_query_find(const struct sim_world *w, uint64_t number, uint64_t label)
{
    for (uint32_t i = w->known_count; i > 0; i--) { /* the latest are asked for most */
        const struct sim_known *known = &w->known[i - 1];
        if (known->label == label && known->number == number) {
            return known->node;
        }
    }
    return CV_ID_NONE;
}
