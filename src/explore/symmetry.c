/* src/explore/symmetry.c - finds an arrangement of the nodes, and hashes it; see symmetry.h. */
#include "explore/symmetry.h"

#include "base/memory.h"
#include "explore/canonical.h"
#include "explore/choices.h"
#include "explore/disk.h"
#include "explore/pack.h"

#include <stdlib.h>
#include <string.h>

void explore_symmetry_init(struct explore_symmetry *s, const struct explore_model *model)
{
    *s = (struct explore_symmetry){
        .at = explore_world_new(model),
        .to = explore_world_new(model),
        .packed = cv__allocate(1, explore_pack_bytes_max(model)),
    };
}

void explore_symmetry_fini(struct explore_symmetry *s)
{
    free(s->at);
    free(s->to);
    free(s->packed);
}

/* Which node comes to which place. */
struct arrangement {
    const struct explore_model *model;
    uint32_t node[EXPLORE_NODES_MAX];  /* by place */
    uint32_t place[EXPLORE_NODES_MAX]; /* by node */
    uint64_t key[EXPLORE_NODES_MAX];   /* by node */
};

/* ---- Moving to another place ----------------------------------------------------------------- */

static uint64_t moved_word(const struct arrangement *a, uint64_t word)
{
    uint32_t node;
    uint32_t life;
    if (explore_is_instant(word, &node)) {
        return node < a->model->node_count ? word - (uint64_t)explore_now_ns(node) +
                                                 (uint64_t)explore_now_ns(a->place[node])
                                           : word;
    }
    return explore_is_nonce(word, &node, &life) ? explore_nonce(a->place[node], life) : word;
}

static void move_words(const struct arrangement *a, uint64_t *word, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        word[i] = word[i] != 0 ? moved_word(a, word[i]) : 0;
    }
}

static cv_id moved_id(const struct arrangement *a, cv_id id)
{
    return id >= 1 && id <= a->model->node_count ? a->place[id - 1] + 1 : id;
}

static uint32_t moved_bits(const struct arrangement *a, uint32_t bits)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < a->model->node_count; i++) {
        moved |= (bits >> i & 1u) << a->place[i];
    }
    return moved;
}

/* Both cores begin with their own id, which is 0 while they are down. */
static void move_core(const struct arrangement *a, struct explore_node *n)
{
    cv_id self;
    move_words(a, n->core, a->model->core_bytes / sizeof *n->core);
    memcpy(&self, n->core, sizeof self);
    self = moved_id(a, self);
    memcpy(n->core, &self, sizeof self);
}

static void move_record(const void *context, uint64_t *word, size_t count)
{
    move_words(context, word, count);
}

/* Records being saved, and what waits for them. A message that waits goes to all. */
static void move_disk(const struct arrangement *a, struct explore_node *n)
{
    const struct explore_model *model = a->model;
    explore_disk_move(model, n, move_record, a);
    move_words(a, (uint64_t *)&n->slow_until_ns, 1);
    for (uint32_t i = 0; i < n->host.gate.count; i++) {
        struct cv_deferred *deferred = cv__gate_at(&n->host.gate, explore_deferred_at(model, n), i);
        move_words(a, &deferred->label, 1);
        if (deferred->kind == CV_DEFERRED_LEADERSHIP) {
            deferred->first = moved_id(a, deferred->first);
        } else if (deferred->kind == CV_DEFERRED_SEND) {
            CV_ASSERT(deferred->first == 1);
            CV_ASSERT(deferred->last >= model->node_count);
        }
    }
}

static void move_node(const struct arrangement *a, struct explore_node *n)
{
    if (explore_disk_is_busy(n)) {
        move_disk(a, n);
    }
    move_words(a, (uint64_t *)n->host.due_ns, CV_TIMERS_MAX);
    move_words(a, (uint64_t *)n->latest_ns, CV_TIMERS_MAX);
    move_words(a, n->disk, CV_PERSIST_WORDS_MAX);
    move_core(a, n);
}

static void move_judged(const struct arrangement *a, struct cv_property_node *judged)
{
    judged->leader = moved_id(a, judged->leader);
    move_words(a, &judged->label, 1);
    move_words(a, &judged->label_max, 1);
}

static void move_nodes(const struct arrangement *a, struct explore_world *from,
                       struct explore_world *to)
{
    const struct explore_model *model = a->model;
    cv_id *holder =
        (cv_id *)((uint64_t *)(explore_judged_at(to, 0) + model->node_count) + model->node_count);
    uint32_t holders = 0;
    for (uint32_t i = 0; i < model->node_count; i++) { /* by place: holders are sorted */
        struct explore_node *n = explore_node_at(model, to, i);
        memcpy(n, explore_node_at(model, from, a->node[i]), model->node_bytes);
        move_node(a, n);
        struct cv_property_node *judged = explore_judged_at(to, i);
        memcpy(judged, explore_judged_at(from, a->node[i]), sizeof *judged);
        move_judged(a, judged);
        if (judged->holds) {
            holder[holders++] = i + 1;
        }
    }
    CV_ASSERT(holders == to->h.holder_count);
}

static uint8_t moved_actor(const struct arrangement *a, uint8_t actor)
{
    return actor < a->model->node_count ? (uint8_t)a->place[actor] : actor;
}

static void move_messages(const struct arrangement *a, struct explore_world *to)
{
    for (uint32_t i = 0; i < to->h.message_count; i++) {
        struct explore_message *m = explore_message_at(a->model, to, i);
        m->from = moved_actor(a, m->from);
        if (m->deferred == 0) { /* otherwise to all */
            m->to = moved_actor(a, m->to);
        }
        move_words(a, m->word, a->model->message_words);
    }
    explore_canonical_order(a->model, to);
}

/* From `at` to `to`. */
static void rearrange(const struct arrangement *a, struct explore_symmetry *s)
{
    explore_world_copy(a->model, s->to, s->at);
    struct explore_header *h = &s->to->h;
    for (uint32_t i = 0; h->owner_count > 0 && i < EXPLORE_TOKENS; i++) {
        h->owner[i].leader = moved_id(a, h->owner[i].leader);
        move_words(a, &h->owner[i].label, 1);
    }
    h->partition = (uint8_t)moved_bits(a, h->partition);
    h->turn = (uint8_t)(h->turn >> EXPLORE_NODES_MAX << EXPLORE_NODES_MAX | moved_bits(a, h->turn));
    h->service.waiting = moved_bits(a, h->service.waiting);
    move_words(a, &h->service.record.holder, 1);
    move_nodes(a, s->at, s->to);
    move_messages(a, s->to);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A word as the node sees it: instants from now, nonces as its own or another's. */
static uint64_t seen_word(uint32_t node, uint64_t word)
{
    uint32_t of;
    uint32_t life;
    if (explore_is_instant(word, &of) && of == node) {
        return word - (uint64_t)explore_now_ns(node);
    }
    return explore_is_nonce(word, &of, &life) ? (uint64_t)(of == node) << 8 | life : word;
}

static void add_words(uint64_t *hash, uint32_t node, const uint64_t *word, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *hash += word[i] != 0 ? explore_hash_word(seen_word(node, word[i]), *hash + i) : 0;
    }
}

/* The same for a node in any place. Nodes whose keys are equal by chance only cost time. */
static uint64_t key_of(const struct explore_model *model, struct explore_world *w, uint32_t node)
{
    const struct explore_node *n = explore_node_at(model, w, node);
    const struct cv_property_node *judged = explore_judged_at(w, node);
    const uint64_t flags[] = {
        n->life,
        n->boot,
        n->is_up,
        n->is_paused,
        n->host.gate.count,
        (uint64_t)n->next_tick_ns,
        judged->holds,
        judged->held_token,
        (uint64_t)judged->held_until_ns,
        w->h.partition >> node & 1u,
        w->h.turn >> node & 1u,
        w->h.service.waiting >> node & 1u,
        w->h.service.record.holder,
        (uint64_t)judged->left_until_ns,
        judged->label,
    };
    uint64_t key = 1;
    add_words(&key, node, flags, COUNT_OF(flags));
    add_words(&key, node, (const uint64_t *)n->host.due_ns, CV_TIMERS_MAX);
    add_words(&key, node, (const uint64_t *)n->latest_ns, CV_TIMERS_MAX);
    add_words(&key, node, n->disk, n->disk_count);
    uint64_t own; /* without its id */
    memcpy(&own, n->core, sizeof own);
    own = own >> 32;
    add_words(&key, node, &own, 1);
    add_words(&key, node, n->core + 1, model->core_bytes / sizeof *n->core - 1);
    return key;
}

/* ---- The arrangement ------------------------------------------------------------------------- */

enum phase { OF_ENVIRONMENT, OF_NODES, OF_SERVICE };

/* Instead of the actor whose turn it is: the phase of the instant, and the nodes that still have
 * something to do in it. */
static void name_turns(struct explore_model *model, struct explore_world *w)
{
    const uint32_t turn = w->h.turn;
    const uint32_t message_count = w->h.message_count;
    uint32_t phase = turn == 0 ? OF_ENVIRONMENT : OF_SERVICE;
    uint32_t nodes = 0;
    if (turn > 0 && turn <= model->node_count) {
        phase = OF_NODES;
        nodes = 1u << explore_node_of_turn(w, turn);
        for (uint32_t i = turn + 1; i <= model->node_count; i++) {
            w->h.turn = (uint8_t)i;
            nodes |= (uint32_t)explore_has_choice(model, w) << explore_node_of_turn(w, i);
        }
    }
    if (w->h.message_count != message_count) { /* some were dropped: their receiver takes no more */
        explore_canonical(model, w);
    }
    w->h.order = 0;
    w->h.turn = (uint8_t)(phase << EXPLORE_NODES_MAX | nodes);
}

static bool may_swap(const struct arrangement *a, uint32_t place, uint32_t other)
{
    return a->model->period_ns[place] == a->model->period_ns[other];
}

static void swap(struct arrangement *a, uint32_t place, uint32_t other)
{
    CV_ASSERT(place < EXPLORE_NODES_MAX);
    CV_ASSERT(other < EXPLORE_NODES_MAX);
    const uint32_t node = a->node[place];
    a->node[place] = a->node[other];
    a->node[other] = node;
    a->place[a->node[place]] = place;
    a->place[node] = other;
}

static void arrange(struct arrangement *a, struct explore_world *world)
{
    const uint32_t count = a->model->node_count;
    for (uint32_t i = 0; i < count; i++) {
        a->node[i] = a->place[i] = i;
        a->key[i] = key_of(a->model, world, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            if (may_swap(a, i, j) && a->key[a->node[j]] < a->key[a->node[i]]) {
                swap(a, i, j);
            }
        }
    }
}

/* The least hash of all orders of nodes with equal keys, of the places from that one on. */
static uint64_t least_hash(struct arrangement *a, struct explore_symmetry *s,
                           const struct explore_world *first, uint32_t place)
{
    const uint32_t count = a->model->node_count;
    CV_ASSERT(count <= EXPLORE_NODES_MAX);
    if (place >= count) {
        rearrange(a, s);
        const size_t bytes =
            explore_pack(a->model, first, s->to, &(struct explore_packed){0}, s->packed);
        return explore_hash(s->packed, bytes);
    }
    uint64_t least = least_hash(a, s, first, place + 1);
    for (uint32_t i = place + 1; i < count; i++) {
        if (may_swap(a, place, i) && a->key[a->node[place]] == a->key[a->node[i]]) {
            swap(a, place, i);
            least = cv__min_u64(least, least_hash(a, s, first, place + 1));
            swap(a, place, i);
        }
    }
    return least;
}

uint64_t explore_symmetry_hash(struct explore_symmetry *s, struct explore_model *model,
                               const struct explore_world *first, const struct explore_world *world)
{
    explore_world_copy(model, s->at, world);
    struct arrangement a = {.model = model};
    name_turns(model, s->at);
    arrange(&a, s->at);
    return least_hash(&a, s, first, 0);
}
