/* src/sim/sequencer_request.c - nodes ask the sequencer; and who is behind a label and a number. */
#include "sim/sequencer_request.h"

#include "base/memory.h"
#include "core/sequence.h"
#include "sim/world.h"

#define NONE UINT32_MAX

static uint32_t request_new(struct sim_world *w)
{
    const uint32_t index = w->sequencer_request_free;
    if (index != NONE) {
        w->sequencer_request_free = w->sequencer_request[index].node;
        return index;
    }
    w->sequencer_request = cv__grow(w->sequencer_request, &w->sequencer_request_capacity,
                                    w->sequencer_request_count, sizeof *w->sequencer_request);
    return w->sequencer_request_count++;
}

static void request_free(struct sim_world *w, uint32_t index)
{
    w->sequencer_request[index].node = w->sequencer_request_free;
    w->sequencer_request_free = index;
}

void sim_sequencer_request_ask(struct sim_world *w, cv_id id, uint64_t request, uint64_t reference)
{
    int64_t at_ns;
    sim_world_note(w, CV_RECORD_ASK, id, CV_ID_NONE, 0, request, 0);
    if (w->options.keeps_history) {
        w->history.ask = cv__grow(w->history.ask, &w->history.ask_capacity, w->history.ask_count,
                                  sizeof *w->history.ask);
        w->history.ask[w->history.ask_count++] = (struct sim_ask){w->now_ns, id};
    }
    if (!sim_sequencer_ask(&w->sequencer, &w->sequencer_rng, w->now_ns, &at_ns)) {
        sim_properties_disturb(w);
        return;
    }
    const uint32_t index = request_new(w);
    w->sequencer_request[index] = (struct sim_sequencer_request){
        .node = id,
        .life = w->node[id - 1].life,
        .request = request,
        .reference = reference,
        .asked_ns = w->now_ns,
    };
    sim_world_queue_sequencer_request(w, index, /* is_answer= */ false, at_ns);
}

void sim_sequencer_request_serve(struct sim_world *w, uint32_t index)
{
    int64_t at_ns;
    struct sim_sequencer_request *q = &w->sequencer_request[index];
    if (!sim_sequencer_serve(&w->sequencer, &w->sequencer_rng, w->now_ns, &q->answer, &at_ns)) {
        sim_properties_disturb(w);
        request_free(w, index);
        return;
    }
    if (at_ns - q->asked_ns > w->properties.setting.sequence_ns) {
        sim_properties_disturb(w); /* now, and again when it arrives */
    }
    sim_world_queue_sequencer_request(w, index, /* is_answer= */ true, at_ns);
}

void sim_sequencer_request_answer(struct sim_world *w, uint32_t index)
{
    const struct sim_sequencer_request q = w->sequencer_request[index];
    const struct sim_node *n = &w->node[q.node - 1];
    if (n->is_up && n->is_paused && n->life == q.life) {
        w->sequencer_answer_waiting =
            cv__grow(w->sequencer_answer_waiting, &w->sequencer_answer_waiting_capacity,
                     w->sequencer_answer_waiting_count, sizeof *w->sequencer_answer_waiting);
        w->sequencer_answer_waiting[w->sequencer_answer_waiting_count++] = index;
        return;
    }
    request_free(w, index);
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
            sim_known_add(w, number, life->label, q.node);
            break;
        }
    }
    struct cv_event event = {.kind = CV_EVENT_SEQUENCE, .request = q.request, .sequence = number};
    sim_node_step(w, q.node, &event);
}

void sim_sequencer_request_wake(struct sim_world *w, cv_id id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->sequencer_answer_waiting_count; i++) {
        const uint32_t index = w->sequencer_answer_waiting[i];
        if (w->sequencer_request[index].node == id) {
            sim_world_queue_sequencer_request(w, index, /* is_answer= */ true, w->now_ns);
        } else {
            w->sequencer_answer_waiting[kept++] = index;
        }
    }
    w->sequencer_answer_waiting_count = kept;
}

void sim_known_add(struct sim_world *w, uint64_t number, uint64_t label, cv_id id)
{
    if (!w->protocol->is_anonymous) {
        return;
    }
    w->known = cv__grow(w->known, &w->known_capacity, w->known_count, sizeof *w->known);
    w->known[w->known_count++] = (struct sim_known){number, label, id};
}

cv_id sim_known_find(const struct sim_world *w, uint64_t number, uint64_t label)
{
    for (uint32_t i = w->known_count; i > 0; i--) { /* the latest are asked for most */
        const struct sim_known *known = &w->known[i - 1];
        if (known->label == label && known->number == number) {
            return known->node;
        }
    }
    return CV_ID_NONE;
}
