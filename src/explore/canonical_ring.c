/* src/explore/canonical_ring.c - the numbers of hops; see canonical.h.
 *
 * The number of a hop identifies its sender and the sender's life, as nonces do (explore_nonce).
 * The latest number of each life becomes the one with which that life began; earlier ones count
 * down from there. A number is remembered as received only while a copy of it can still come. */
#include "explore/canonical.h"
#include "protocols/hop.h"

#include <string.h>

const char *const explore_classic_timers[CV_TIMERS_MAX] = {
    [CLASSIC_TIMER_HEARTBEAT] = "heartbeat",
    [CLASSIC_TIMER_SUSPECT] = "suspect",
    [CLASSIC_TIMER_ELECTION] = "election",
    [HOP_TIMER] = "hop",
};

struct ring_head { /* the states of both rings begin with it */
    struct classic c;
    struct hop hop;
    uint64_t sets[];
};

static struct ring_head *ring_at(const struct explore_model *model, struct explore_world *w,
                                 uint32_t node)
{
    return (struct ring_head *)explore_node_at(model, w, node)->core;
}

static bool is_hop(const struct explore_message *m)
{
    return m->type >= HOP_ACK;
}

static uint64_t first_number(const struct explore_node *n, uint32_t node)
{
    return (explore_nonce(node, n->life) >> 24) + 1;
}

/* By how much the numbers of that life are lowered. Of a life that is over only copies in flight
 * count: the latest of them gets the first number. */
static uint64_t shift_of(const struct explore_model *model, struct explore_world *w, uint64_t life)
{
    const uint64_t first = (life << 16 | 1u << 15) + 1;
    uint64_t latest = first;
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_up && first_number(n, i) == first) {
            return ring_at(model, w, i)->hop.number - first;
        }
    }
    for (uint32_t i = 0, count = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (is_hop(m) && m->word[1] >> 16 == life && (count++ == 0 || m->word[1] > latest)) {
            latest = m->word[1];
        }
    }
    return latest - first;
}

static void turn_slots(const struct explore_model *model, struct explore_world *w, uint32_t node,
                       uint64_t shift)
{
    struct ring_head *ring = ring_at(model, w, node);
    const uint32_t words = ring->hop.has_sets ? cv__hop_words(model->node_count) / HOP_SLOTS : 0;
    for (uint32_t i = 0; i < HOP_SLOTS; i++) {
        struct hop_slot *slot = &ring->hop.slot[i];
        if (slot->number != 0) {
            slot->number -= shift;
            slot->scalar[1] -= shift; /* the number again: HOP_HEAD_FIELDS */
        } else {
            memset(ring->sets + i * words, 0, words * sizeof *ring->sets);
        }
    }
    memset(ring->sets + HOP_SLOTS * words, 0, words * sizeof *ring->sets); /* the workspace */
    ring->hop.number -= shift;
}

/* Can a copy of that message still reach the node? */
static bool can_come(const struct explore_model *model, struct explore_world *w, uint32_t node,
                     const struct hop_seen *seen)
{
    const uint32_t from = (uint32_t)seen->from - 1;
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        if (m->to == node && m->from == from && is_hop(m) && m->word[1] == seen->number) {
            return true;
        }
    }
    for (uint32_t i = 0; explore_node_at(model, w, from)->is_up && i < HOP_SLOTS; i++) {
        if (ring_at(model, w, from)->hop.slot[i].number == seen->number) {
            return true;
        }
    }
    return false;
}

static void keep_seen(const struct explore_model *model, struct explore_world *w, uint32_t node)
{
    struct hop *hop = &ring_at(model, w, node)->hop;
    struct hop_seen kept[HOP_SEEN] = {{0}};
    uint32_t count = 0;
    for (uint32_t i = 0; i < HOP_SEEN; i++) { /* the oldest first */
        const struct hop_seen *seen = &hop->seen[(hop->seen_next + i) % HOP_SEEN];
        if (seen->number != 0 && can_come(model, w, node, seen)) {
            kept[count++] = *seen;
        }
    }
    memcpy(hop->seen, kept, sizeof kept);
    hop->seen_next = count % HOP_SEEN;
}

void explore_canonical_ring(const struct explore_model *model, struct explore_world *w)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (explore_node_at(model, w, i)->is_up) {
            keep_seen(model, w, i);
        }
    }
    uint64_t message_shift[EXPLORE_MESSAGES_MAX] = {0};
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        const struct explore_message *m = explore_message_at(model, w, i);
        message_shift[i] = is_hop(m) ? shift_of(model, w, m->word[1] >> 16) : 0;
    }
    uint64_t own_shift[EXPLORE_NODES_MAX] = {0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, w, i);
        own_shift[i] = n->is_up ? shift_of(model, w, first_number(n, i) >> 16) : 0;
        struct hop *hop = &ring_at(model, w, i)->hop;
        for (uint32_t j = 0; n->is_up && j < HOP_SEEN && hop->seen[j].number != 0; j++) {
            hop->seen[j].number -= shift_of(model, w, hop->seen[j].number >> 16);
        }
    }
    /* all shifts are known: lower the numbers */
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        if (is_hop(explore_message_at(model, w, i))) {
            explore_message_at(model, w, i)->word[1] -= message_shift[i];
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (explore_node_at(model, w, i)->is_up) {
            turn_slots(model, w, i, own_shift[i]);
        }
    }
}
