/* src/sim/query.c - nodes ask the sequencer; and who is behind a label and a number. */
#include "sim/query.h"

#include "core/sequence.h"
#include "sim/memory.h"
#include "sim/world.h"

#define NONE UINT32_MAX

static uint32_t query_new(struct cv_world *w)
{
    const uint32_t index = w->query_free;
    if (index != NONE) {
        w->query_free = w->query[index].node;
        return index;
    }
    w->query = cv__grow(w->query, &w->query_capacity, w->query_count, sizeof *w->query);
    return w->query_count++;
}

static void query_free(struct cv_world *w, uint32_t index)
{
    w->query[index].node = w->query_free;
    w->query_free = index;
}

void cv__query_ask(struct cv_world *w, cv_id id, uint64_t request, uint64_t reference)
{
    int64_t at_ns;
    cv__world_note(w, CV_RECORD_ASK, id, CV_ID_NONE, 0, request, 0);
    if (w->options.keeps_history) {
        w->ask = cv__grow(w->ask, &w->ask_capacity, w->ask_count, sizeof *w->ask);
        w->ask[w->ask_count++] = (struct cv_ask){w->now_ns, id};
    }
    if (!cv__sequencer_ask(&w->sequencer, &w->sequencer_rng, w->now_ns, &at_ns)) {
        cv__watch_disturb(w);
        return;
    }
    const uint32_t index = query_new(w);
    w->query[index] = (struct cv_query){
        .node = id,
        .life = w->node[id - 1].life,
        .request = request,
        .reference = reference,
        .asked_ns = w->now_ns,
    };
    cv__world_queue_query(w, index, /* is_answer= */ false, at_ns);
}

void cv__query_serve(struct cv_world *w, uint32_t index)
{
    int64_t at_ns;
    struct cv_query *q = &w->query[index];
    if (!cv__sequencer_serve(&w->sequencer, &w->sequencer_rng, w->now_ns, &q->answer, &at_ns)) {
        cv__watch_disturb(w);
        query_free(w, index);
        return;
    }
    if (at_ns - q->asked_ns > w->watch.sequence_ns) {
        cv__watch_disturb(w); /* now, and again when it arrives */
    }
    cv__world_queue_query(w, index, /* is_answer= */ true, at_ns);
}

void cv__query_answer(struct cv_world *w, uint32_t index)
{
    const struct cv_query q = w->query[index];
    const struct cv_node *n = &w->node[q.node - 1];
    if (n->is_up && n->is_paused && n->life == q.life) {
        w->waiting =
            cv__grow(w->waiting, &w->waiting_capacity, w->waiting_count, sizeof *w->waiting);
        w->waiting[w->waiting_count++] = index;
        return;
    }
    query_free(w, index);
    if (w->now_ns - q.asked_ns > w->watch.sequence_ns) {
        cv__watch_disturb(w);
    }
    if (!n->is_up || n->life != q.life) {
        return; /* the process that asked is gone, and its socket with it */
    }
    const uint64_t number = cv__sequence_number(q.reference, q.answer.counter, q.answer.boots);
    cv__world_note(w, CV_RECORD_ANSWER, q.node, CV_ID_NONE, 0, number, 0);
    for (uint32_t i = w->known_count; i > 0 && number != CV_SEQUENCE_NONE; i--) {
        const struct cv_known *life = &w->known[i - 1];
        if (life->node == q.node && life->number == CV_SEQUENCE_NONE) {
            cv__query_know(w, number, life->label, q.node);
            break;
        }
    }
    struct cv_event event = {.kind = CV_EVENT_SEQUENCE, .request = q.request, .sequence = number};
    cv__world_step(w, q.node, &event);
}

void cv__query_wake(struct cv_world *w, cv_id id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->waiting_count; i++) {
        const uint32_t index = w->waiting[i];
        if (w->query[index].node == id) {
            cv__world_queue_query(w, index, /* is_answer= */ true, w->now_ns);
        } else {
            w->waiting[kept++] = index;
        }
    }
    w->waiting_count = kept;
}

void cv__query_know(struct cv_world *w, uint64_t number, uint64_t label, cv_id id)
{
    if (!w->protocol->is_anonymous) {
        return;
    }
    w->known = cv__grow(w->known, &w->known_capacity, w->known_count, sizeof *w->known);
    w->known[w->known_count++] = (struct cv_known){number, label, id};
}

cv_id cv__query_find(const struct cv_world *w, uint64_t number, uint64_t label)
{
    for (uint32_t i = w->known_count; i > 0; i--) { /* the latest are asked for most */
        const struct cv_known *known = &w->known[i - 1];
        if (known->label == label && known->number == number) {
            return known->node;
        }
    }
    return CV_ID_NONE;
}
