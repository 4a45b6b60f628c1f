/* src/explore/turn.c - a turn as a single step; see turn.h. */
#include "explore/turn.h"

#include "base/memory.h"
#include "explore/pack.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 256u

void explore_turn_init(struct explore_turn *t, const struct explore_model *model)
{
    *t = (struct explore_turn){
        .at = explore_world_new(model), .to = explore_world_new(model), .slot_count = SLOTS_FIRST};
    t->slot = cv__allocate(t->slot_count, sizeof *t->slot);
}

void explore_turn_fini(struct explore_turn *t)
{
    for (uint32_t i = 0; i < t->capacity; i++) {
        free(t->within[i].bytes);
    }
    free(t->within);
    free(t->slot);
    free(t->at);
    free(t->to);
}

/* ---- What a turn may change ------------------------------------------------------------------ */

/* A turn may change the header with the properties, the messages, and the actor's own node: no
 * action of an actor reaches another actor in the same instant. Only a reboot also changes other
 * nodes: the instants of its clock that they keep. */
static void find_changing(struct explore_turn *t, const struct explore_model *model,
                          const struct explore_world *from)
{
    const uint32_t turn = from->h.turn;
    const size_t first = sizeof *from + model->properties.block_bytes;
    const bool is_of_node = turn > 0 && turn <= model->node_count;
    t->node_at = first + (is_of_node ? explore_node_of_turn(from, turn) * model->node_bytes : 0);
    t->node_bytes = is_of_node ? model->node_bytes : 0;
    if (model->budget[EXPLORE_REBOOT] > 0) {
        t->node_at = first;
        t->node_bytes = model->node_count * model->node_bytes;
    }
}

static size_t head_bytes(const struct explore_model *model)
{
    return sizeof(struct explore_world) + model->properties.block_bytes;
}

static size_t changing_bytes(const struct explore_turn *t, const struct explore_model *model,
                             const struct explore_world *world)
{
    return head_bytes(model) + t->node_bytes + world->h.message_count * model->message_bytes;
}

static void copy_changing(const struct explore_turn *t, const struct explore_model *model,
                          const struct explore_world *from, struct explore_world *to)
{
    memcpy(to, from, head_bytes(model));
    memcpy((uint8_t *)to + t->node_at, (const uint8_t *)from + t->node_at, t->node_bytes);
    memcpy(explore_message_at(model, to, 0), (const uint8_t *)from + model->fixed_bytes,
           from->h.message_count * model->message_bytes);
}

static void take_changing(const struct explore_turn *t, const struct explore_model *model,
                          struct explore_world *from, uint8_t *ret_bytes)
{
    const size_t head = head_bytes(model);
    memcpy(ret_bytes, from, head);
    memcpy(ret_bytes + head, (const uint8_t *)from + t->node_at, t->node_bytes);
    memcpy(ret_bytes + head + t->node_bytes, explore_message_at(model, from, 0),
           from->h.message_count * model->message_bytes);
}

static void put_changing(const struct explore_turn *t, const struct explore_model *model,
                         const uint8_t *bytes, struct explore_world *to)
{
    const size_t head = head_bytes(model);
    memcpy(to, bytes, head);
    memcpy((uint8_t *)to + t->node_at, bytes + head, t->node_bytes);
    memcpy(explore_message_at(model, to, 0), bytes + head + t->node_bytes,
           to->h.message_count * model->message_bytes);
}

#define BLOCK_WORDS 8u

/* Hashes the words that differ, each with its place; the order does not matter. */
static uint64_t hash_difference(const void *from, const void *to, size_t bytes, uint64_t place)
{
    const uint64_t *was = from;
    const uint64_t *is = to;
    const size_t count = bytes / sizeof *is;
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i += BLOCK_WORDS) {
        const size_t end = i + BLOCK_WORDS < count ? i + BLOCK_WORDS : count;
        if (memcmp(was + i, is + i, (end - i) * sizeof *is) == 0) {
            continue;
        }
        for (size_t j = i; j < end; j++) {
            hash += was[j] != is[j] ? explore_hash_word(is[j], place + j) : 0;
        }
    }
    return hash;
}

static uint64_t hash_changing(const struct explore_turn *t, const struct explore_model *model,
                              const struct explore_world *from, struct explore_world *to)
{
    const uint64_t *message = (const uint64_t *)explore_message_at(model, to, 0);
    const size_t count = to->h.message_count * model->compared_bytes / sizeof *message;
    const uint64_t place = model->fixed_bytes / sizeof *message;
    uint64_t hash = hash_difference(from, to, head_bytes(model), 0);
    hash += hash_difference((const uint8_t *)from + t->node_at, (const uint8_t *)to + t->node_at,
                            t->node_bytes, t->node_at / sizeof *message);
    for (size_t i = 0; i < count; i++) {
        hash += message[i] != 0 ? explore_hash_word(message[i], place + i) : 0;
    }
    return hash;
}

/* ---- Worlds within the turn ------------------------------------------------------------------ */

static void forget_all(struct explore_turn *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        t->slot[t->within[i].slot] = 0;
    }
    t->count = 0;
}

/* The slot of a hash, or the empty slot where it belongs. */
static uint32_t slot_of(const struct explore_turn *t, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (t->slot_count - 1);
    while (t->slot[at] != 0 && t->within[t->slot[at] - 1].hash != hash) {
        at = (at + 1) & (t->slot_count - 1);
    }
    return at;
}

static void enter(struct explore_turn *t, uint32_t index)
{
    struct explore_within *w = &t->within[index];
    w->slot = slot_of(t, w->hash);
    t->slot[w->slot] = index + 1;
}

static void make_room(struct explore_turn *t)
{
    if (t->count == t->capacity) {
        const uint32_t was = t->capacity;
        t->within = cv__grow(t->within, &t->capacity, t->count, sizeof *t->within);
        memset(t->within + was, 0, (t->capacity - was) * sizeof *t->within);
    }
    if (2 * (t->count + 1) > t->slot_count) {
        free(t->slot);
        t->slot_count *= 2;
        t->slot = cv__allocate(t->slot_count, sizeof *t->slot);
        for (uint32_t i = 0; i < t->count; i++) {
            enter(t, i);
        }
    }
}

/* Keeps the world in `to`, unless it was reached before in this turn. */
static void keep(struct explore_turn *t, const struct explore_model *model,
                 const struct explore_world *from, uint32_t before, uint32_t choice)
{
    const uint64_t hash = hash_changing(t, model, from, t->to);
    make_room(t);
    if (t->slot[slot_of(t, hash)] != 0) {
        return;
    }
    struct explore_within *w = &t->within[t->count];
    const size_t bytes = changing_bytes(t, model, t->to);
    if (w->capacity < bytes) {
        free(w->bytes);
        w->capacity = bytes;
        w->bytes = cv__allocate(1, bytes);
    }
    take_changing(t, model, t->to, w->bytes);
    w->hash = hash;
    w->before = before;
    w->choice = choice;
    enter(t, t->count);
    t->count++;
}

/* ---- Trying all ------------------------------------------------------------------------------ */

enum outcome { NOTHING_NEW, WITHIN, AT_THE_END };

static enum outcome try_it(struct explore_turn *t, struct explore_model *model,
                           const struct explore_choice *choice)
{
    memset(&model->end, 0, offsetof(struct explore_end, detail) + 1);
    if (t->is_whole) {
        copy_changing(t, model, t->at, t->to);
    } else {
        explore_world_copy(model, t->to, t->at);
    }
    const bool is_new = explore_do(model, t->to, choice);
    const bool goes_on =
        is_new && !model->end.is_broken && !model->end.is_bound && explore_settle(model, t->to);
    t->is_whole = !model->has_turned;
    if (model->end.is_broken || model->end.is_bound || (goes_on && model->has_turned)) {
        return AT_THE_END;
    }
    return goes_on ? WITHIN : NOTHING_NEW;
}

/* The path to the choice with the number `last`. */
struct way {
    uint32_t last, before, choice;
};

/* Repeats the turn up to a choice, which is tried last and not reported; true: it exists. */
static bool try_until(struct explore_turn *t, struct explore_model *model,
                      const struct explore_world *from, explore_turn_end *end, void *context,
                      struct way *way)
{
    forget_all(t);
    find_changing(t, model, from);
    explore_world_copy(model, t->at, from);
    t->is_whole = false;
    t->number = 0;
    for (uint32_t at = 0; at <= t->count; at++) {
        struct explore_choice choice[EXPLORE_CHOICES_MAX];
        if (at > 0) {
            put_changing(t, model, t->within[at - 1].bytes, t->at);
        }
        const uint32_t count = explore_choices(model, t->at, choice);
        for (uint32_t i = 0; i < count; i++, t->number++) {
            const enum outcome outcome = try_it(t, model, &choice[i]);
            if (t->number == way->last) {
                way->before = at;
                way->choice = i;
                return true;
            }
            if (outcome == AT_THE_END && end != NULL) {
                end(context, t);
            } else if (outcome == WITHIN) {
                keep(t, model, from, at, i);
            }
        }
    }
    return false;
}

uint32_t explore_turn_all(struct explore_turn *t, struct explore_model *model,
                          const struct explore_world *from, explore_turn_end *end, void *context)
{
    struct way all = {.last = UINT32_MAX};
    (void)try_until(t, model, from, end, context, &all);
    return t->number;
}

void explore_turn_path(struct explore_turn *t, struct explore_model *model,
                       struct explore_world *world, uint32_t number, uint32_t **path,
                       uint32_t *count, uint32_t *capacity)
{
    struct way way = {.last = number};
    const bool is_found = try_until(t, model, world, NULL, NULL, &way);
    CV_ASSERT(is_found);
    uint32_t length = 1;
    for (uint32_t at = way.before; at > 0; at = t->within[at - 1].before) {
        length++;
    }
    for (uint32_t i = 0; i < length; i++) {
        *path = cv__grow(*path, capacity, *count + i, sizeof **path);
    }
    for (uint32_t i = length; i > 0; i--) { /* from the last one back */
        (*path)[*count + i - 1] = way.choice;
        if (way.before > 0) {
            way.choice = t->within[way.before - 1].choice;
            way.before = t->within[way.before - 1].before;
        }
    }
    *count += length;
    explore_world_copy(model, world, t->to);
}
