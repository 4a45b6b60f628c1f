/* src/explore/canonical_lives.c - renumbers lives and boots; see canonical.h.
 *
 * Each life of a process has a number, and so has each boot of its clock. They are compared only
 * with each other, so those that still occur are renumbered from 1, in their order. A life is found
 * by the value of its nonce, which no other value looks like (world.h). */
#include "explore/canonical.h"
#include "explore/service.h"

#include <string.h>

#define NUMBER_MAX 15u /* of lives and of boots: more than any budget allows */

/* By node: bit k is set if number k occurs; and its replacement. */
struct numbers {
    uint32_t used[EXPLORE_NODES_MAX];
    uint8_t rank[EXPLORE_NODES_MAX][NUMBER_MAX + 1];
};

static void rank_numbers(struct numbers *numbers, uint32_t node_count)
{
    for (uint32_t i = 0; i < node_count; i++) {
        uint8_t rank = 0;
        for (uint32_t k = 1; k <= NUMBER_MAX; k++) {
            rank += (uint8_t)(numbers->used[i] >> k & 1);
            numbers->rank[i][k] = rank;
        }
    }
}

/* ---- Lives ----------------------------------------------------------------------------------- */

/* Either notes which lives occur (`is_noting`), or renumbers them. */
static void go_words(struct numbers *lives, uint64_t *word, size_t count, bool is_noting)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t node;
        uint32_t life;
        if (!explore_is_nonce(word[i], &node, &life)) {
            continue;
        }
        if (is_noting) {
            lives->used[node] |= BIT(life);
        } else {
            word[i] = explore_nonce(node, lives->rank[node][life]);
        }
    }
}

static void go_life(struct numbers *lives, uint32_t node, uint8_t *life, bool is_noting)
{
    if (is_noting) {
        lives->used[node] |= *life > 0 ? BIT(*life) : 0;
    } else {
        *life = lives->rank[node][*life];
    }
}

static void go_lives(const struct explore_model *model, struct explore_world *w,
                     struct numbers *lives, bool is_noting)
{
    for (uint32_t i = 0; w->h.owner_count > 0 && i < EXPLORE_TOKENS; i++) {
        go_words(lives, &w->h.owner[i].label, 1, is_noting);
    }
    go_words(lives, &w->h.service.record.holder, 1, is_noting);
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct cv_property_node *judged = explore_judged_at(w, i);
        struct explore_node *n = explore_node_at(model, w, i);
        go_words(lives, &judged->label, 1, is_noting);
        go_words(lives, &judged->label_max, 1, is_noting);
        /* With its host, its record and the effects that wait for its disk. */
        go_words(lives, (uint64_t *)n, model->node_bytes / sizeof(uint64_t), is_noting);
        uint8_t life = (uint8_t)n->life;
        go_life(lives, i, &life, is_noting);
        n->life = life;
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        go_words(lives, m->word, model->message_words, is_noting);
        if (explore_is_of_service(m)) {
            go_life(lives, m->kind == EXPLORE_QUERY ? m->from : m->to, &m->life, is_noting);
        } else {
            go_life(lives, m->from, &m->life, is_noting);
        }
    }
}

/* ---- Boots ----------------------------------------------------------------------------------- */

static void go_boot(struct numbers *boots, uint32_t node, uint64_t *boot, bool is_noting)
{
    CV_ASSERT(*boot <= NUMBER_MAX);
    if (is_noting) {
        boots->used[node] |= *boot > 0 ? BIT(*boot) : 0;
    } else {
        *boot = boots->rank[node][*boot];
    }
}

static void go_boots(const struct explore_model *model, struct explore_world *w,
                     struct numbers *boots, bool is_noting)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        uint64_t boot = n->boot;
        go_boot(boots, i, &boot, is_noting);
        n->boot = (uint32_t)boot;
        for (uint32_t j = 0; j < model->node_count; j++) {
            go_boot(boots, j, &n->echo[j].peer_boot, is_noting);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER) {
            go_boot(boots, m->from, &m->stamp.boot, is_noting);
            go_boot(boots, m->to, &m->stamp.echo.peer_boot, is_noting);
        }
    }
}

void explore_canonical_lives(const struct explore_model *model, struct explore_world *w)
{
    bool is_any_later = false;
    bool is_any_rebooted = false;
    for (uint32_t i = 0; i < model->node_count; i++) {
        is_any_later = is_any_later || explore_node_at(model, w, i)->life > 1;
        is_any_rebooted = is_any_rebooted || explore_node_at(model, w, i)->boot > 1;
    }
    if (is_any_later) {
        struct numbers lives = {{0}, {{0}}};
        go_lives(model, w, &lives, true);
        rank_numbers(&lives, model->node_count);
        go_lives(model, w, &lives, false);
    }
    if (is_any_rebooted && model->uses_bounds) {
        struct numbers boots = {{0}, {{0}}};
        go_boots(model, w, &boots, true);
        rank_numbers(&boots, model->node_count);
        go_boots(model, w, &boots, false);
    }
}
