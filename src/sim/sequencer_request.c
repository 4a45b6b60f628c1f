/* src/sim/sequencer_request.c - requests to the sequencer; which node has a label or a number. */
#include "sim/sequencer_request.h"

#include "base/memory.h"
#include "core/sequence.h"
#include "sim/world.h"

#include <stdlib.h>

#define NONE UINT32_MAX

static uint32_t request_new(struct sim_world *w)
{
    const uint32_t index = w->sequencer_requests.free;
    if (index != NONE) {
        w->sequencer_requests.free = w->sequencer_requests.item[index].node;
        return index;
    }
    w->sequencer_requests.item =
        cv__grow(w->sequencer_requests.item, &w->sequencer_requests.capacity,
                 w->sequencer_requests.count, sizeof *w->sequencer_requests.item);
    return w->sequencer_requests.count++;
}

static void request_free(struct sim_world *w, uint32_t index)
{
    w->sequencer_requests.item[index].node = w->sequencer_requests.free;
    w->sequencer_requests.free = index;
}

/* To the sequencer, or back. */
static void set_out(struct sim_world *w, int64_t at_ns, uint32_t kind, uint32_t index)
{
    const cv_id node = w->sequencer_requests.item[index].node;
    const bool is_answer = kind == SIM_EVENT_SEQUENCER_ANSWER;
    const struct sim_under_way what = {
        .kind = kind,
        .ref = index,
        .from = is_answer ? SIM_NODE_SERVICE : node,
        .to = is_answer ? node : SIM_NODE_SERVICE,
    };
    sim_under_way(w, at_ns, &what);
}

void sim_sequencer_request_lose(struct sim_world *w, uint32_t index, bool is_answer)
{
    w->sequencer.lost_query_count += !is_answer;
    w->sequencer.lost_answer_count += is_answer;
    sim_properties_disturb(w);
    request_free(w, index);
}

uint32_t sim_sequencer_request_repeat(struct sim_world *w, uint32_t index)
{
    const uint32_t copy = request_new(w); /* the array may move */
    w->sequencer_requests.item[copy] = w->sequencer_requests.item[index];
    w->sequencer_requests.item[copy].is_repeat = true;
    return copy;
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
    const bool arrives =
        sim_sequencer_ask(&w->sequencer, &w->sequencer_requests.rng, w->now_ns, &at_ns);
    if (!arrives || (w->node[id - 1].cut & SIM_CUT_QUERIES) != 0) {
        w->sequencer.lost_query_count += arrives;
        sim_properties_disturb(w);
        return;
    }
    const uint32_t index = request_new(w);
    w->sequencer_requests.item[index] = (struct sim_sequencer_request){
        .node = id,
        .life = w->node[id - 1].life,
        .request = request,
        .reference = reference,
        .asked_ns = w->now_ns,
    };
    set_out(w, at_ns, SIM_EVENT_SEQUENCER_REQUEST, index);
}

void sim_sequencer_request_serve(struct sim_world *w, uint32_t index)
{
    int64_t at_ns;
    struct sim_sequencer_request *q = &w->sequencer_requests.item[index];
    const bool is_answered = sim_sequencer_serve(&w->sequencer, &w->sequencer_requests.rng,
                                                 w->now_ns, &q->answer, &at_ns);
    if (q->is_repeat) {
        request_free(w, index);
        return;
    }
    if (!is_answered || (w->node[q->node - 1].cut & SIM_CUT_ANSWERS) != 0) {
        w->sequencer.lost_answer_count += is_answered;
        sim_properties_disturb(w);
        request_free(w, index);
        return;
    }
    if (at_ns - q->asked_ns > w->properties.setting.sequence_ns) {
        sim_properties_disturb(w); /* another disturbance follows when it arrives */
    }
    set_out(w, at_ns, SIM_EVENT_SEQUENCER_ANSWER, index);
}

void sim_sequencer_request_answer(struct sim_world *w, uint32_t index)
{
    const struct sim_sequencer_request q = w->sequencer_requests.item[index];
    const struct sim_node *n = &w->node[q.node - 1];
    if (n->is_up && n->is_paused && n->life == q.life) {
        w->sequencer_requests.waiting =
            cv__grow(w->sequencer_requests.waiting, &w->sequencer_requests.waiting_capacity,
                     w->sequencer_requests.waiting_count, sizeof *w->sequencer_requests.waiting);
        w->sequencer_requests.waiting[w->sequencer_requests.waiting_count++] = index;
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
    for (uint32_t i = w->sequencer_requests.known_count; i > 0 && number != CV_SEQUENCE_NONE; i--) {
        const struct sim_known *life = &w->sequencer_requests.known[i - 1];
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
    for (uint32_t i = 0; i < w->sequencer_requests.waiting_count; i++) {
        const uint32_t index = w->sequencer_requests.waiting[i];
        if (w->sequencer_requests.item[index].node == id) {
            sim_queue_push(&w->queue, w->now_ns, SIM_EVENT_SEQUENCER_ANSWER, index);
        } else {
            w->sequencer_requests.waiting[kept++] = index;
        }
    }
    w->sequencer_requests.waiting_count = kept;
}

void sim_known_add(struct sim_world *w, uint64_t number, uint64_t label, cv_id id)
{
    if (!w->protocol->is_anonymous) {
        return;
    }
    w->sequencer_requests.known =
        cv__grow(w->sequencer_requests.known, &w->sequencer_requests.known_capacity,
                 w->sequencer_requests.known_count, sizeof *w->sequencer_requests.known);
    w->sequencer_requests.known[w->sequencer_requests.known_count++] =
        (struct sim_known){number, label, id};
}

cv_id sim_known_find(const struct sim_world *w, uint64_t number, uint64_t label)
{
    for (uint32_t i = w->sequencer_requests.known_count; i > 0;
         i--) { /* the latest entries are looked up most often */
        const struct sim_known *known = &w->sequencer_requests.known[i - 1];
        if (known->label == label && known->number == number) {
            return known->node;
        }
    }
    return CV_ID_NONE;
}

void sim_sequencer_requests_init(struct sim_sequencer_requests *requests, uint64_t seed,
                                 uint64_t stream)
{
    sim_rng_init(&requests->rng, seed, stream);
    requests->free = NONE;
}

void sim_sequencer_requests_fini(struct sim_sequencer_requests *requests)
{
    free(requests->item);
    free(requests->waiting);
    free(requests->known);
}
