/* src/explore/disk.c - a disk that takes time, with the effects that wait for it; see disk.h. */
#include "explore/disk.h"

#include <string.h>

/* A host's index below this belongs to the running step; from there on it is a slot of the gate. */
#define FIRST_DEFERRED CV_EFFECTS_MAX

/* ---- What waits ------------------------------------------------------------------------------ */

/* The waiting message with that slot of the acting node; message_count: none. */
static uint32_t find_deferred(const struct explore_model *model, uint32_t place)
{
    struct explore_world *w = model->world;
    uint32_t i = 0;
    for (; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (m->deferred == place + 1 && m->from == model->actor) {
            break;
        }
    }
    return i;
}

static uint32_t free_place(const struct explore_model *model)
{
    uint32_t place = 0;
    while (find_deferred(model, place) < model->world->h.message_count) {
        place++;
        CV_ASSERT(place < EXPLORE_DEFERRED_MAX); /* the gate holds no more */
    }
    return place;
}

static uint32_t defer(struct explore_model *model, const struct explore_kept *kept, cv_id first)
{
    const uint32_t place = free_place(model);
    struct explore_message *m = explore_message_add(model);
    m->from = (uint8_t)model->actor;
    m->deferred = (uint8_t)(place + 1);
    if (kept->are_members) {
        m->kind = EXPLORE_MEMBERS;
        m->to = m->from;
        m->word[0] = kept->word[0];
        return FIRST_DEFERRED + place;
    }
    const struct explore_shape *shape = &model->shape[kept->message.type];
    m->kind = EXPLORE_PEER;
    m->to = (uint8_t)(first - 1); /* the first of its receivers */
    m->type = (uint8_t)kept->message.type;
    memcpy(m->word, kept->message.field, shape->scalar_count * sizeof *m->word);
    memcpy(m->word + shape->scalar_count, kept->word, shape->list_count * sizeof *m->word);
    return FIRST_DEFERRED + place;
}

void explore_disk_defer(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_node_at(model, model->world, node);
    struct cv_deferred *place = explore_deferred_at(model, n);
    model->actor = node;
    for (uint32_t i = 0; i < n->host.gate.count && !model->end.is_bound; i++) {
        struct cv_deferred *deferred = cv__gate_at(&n->host.gate, place, i);
        if (deferred->kept < FIRST_DEFERRED) {
            deferred->kept = defer(model, &model->kept[deferred->kept], deferred->first);
        }
    }
}

const struct explore_kept *explore_disk_kept(struct explore_model *model, uint32_t kept)
{
    if (kept < FIRST_DEFERRED) {
        return &model->kept[kept];
    }
    const uint32_t index = find_deferred(model, kept - FIRST_DEFERRED);
    CV_ASSERT(index < model->world->h.message_count);
    const struct explore_message *m = explore_message_at(model, model->world, index);
    struct explore_kept *from = &model->kept[CV_EFFECTS_MAX]; /* the last slot is for this */
    memset(from, 0, sizeof *from);
    from->are_members = m->kind == EXPLORE_MEMBERS;
    if (from->are_members) {
        from->word[0] = m->word[0];
        return from;
    }
    const struct explore_shape *shape = &model->shape[m->type];
    from->message.type = m->type;
    memcpy(from->message.field, m->word, shape->scalar_count * sizeof *m->word);
    memcpy(from->word, m->word + shape->scalar_count, shape->list_count * sizeof *m->word);
    return from;
}

void explore_disk_drop(struct explore_model *model, uint32_t kept)
{
    if (kept >= FIRST_DEFERRED) { /* those of the step are freed at its end */
        explore_message_remove(model, find_deferred(model, kept - FIRST_DEFERRED));
    }
}

/* ---- The end of a save ----------------------------------------------------------------------- */

void explore_disk_write(struct explore_model *model, uint32_t node)
{
    struct explore_node *n = explore_node_at(model, model->world, node);
    const struct cv_gate_record *record = &n->host.gate.saving;
    CV_ASSERT(explore_disk_is_busy(n));
    memset(n->disk, 0, sizeof n->disk);
    memcpy(n->disk, record->word, record->word_count * sizeof *record->word);
    n->disk_count = record->word_count;
}

void explore_disk_end(struct explore_model *model, uint32_t node, bool is_saved)
{
    struct explore_node *n = explore_world_enter(model, node);
    n->has_acted = 1;
    if (is_saved) {
        explore_disk_write(model, node);
        cv__node_saved(&n->host, &model->host);
    } else {
        cv__node_save_failed(&n->host, &model->host, "");
    }
}

/* ---- Time, and one form ---------------------------------------------------------------------- */

void explore_disk_move(const struct explore_model *model, struct explore_node *n,
                       void (*move)(const void *context, uint64_t *word, size_t count),
                       const void *context)
{
    struct cv_gate *gate = &n->host.gate;
    struct cv_deferred *place = explore_deferred_at(model, n);
    move(context, gate->saving.word, gate->saving.word_count);
    move(context, gate->next.word, gate->next.word_count);
    for (uint32_t i = 0; i < gate->count; i++) {
        move(context, (uint64_t *)&cv__gate_at(gate, place, i)->valid_until_ns, 1);
    }
}

void explore_disk_canonical(const struct explore_model *model, struct explore_node *n)
{
    struct cv_gate *gate = &n->host.gate;
    if (!gate->is_saving) { /* the last record is on the disk, so this copy is not used */
        memset(&gate->saving, 0, sizeof gate->saving);
        memset(&gate->next, 0, sizeof gate->next);
        n->slow_until_ns = 0;
    }
    if (!n->host.is_leading) {
        n->host.told_token = 0; /* only a renewal is compared with it */
    }
    if (model->budget[EXPLORE_SLOW] == 0) {
        return;
    }
    struct cv_deferred *place = explore_deferred_at(model, n);
    for (uint32_t i = gate->count; i < gate->capacity; i++) {
        memset(&place[(gate->first + i) % gate->capacity], 0, sizeof *place);
    }
}
