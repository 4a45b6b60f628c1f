/* src/explore/canonical_tokens.c - lowers all tokens by the same amount; see canonical.h.
 *
 * Tokens and epochs only grow. Cores compare them and add to them, but their size does not matter:
 * all tokens of a world may be moved by the same amount, until the smallest is FIRST. 0 means none
 * and stays 0; so if a core may still count from 0, nothing is moved (is_fixed, set by the
 * protocols' own files). FIRST is not 1, so that a bug that subtracts from a token gets a smaller
 * valid one, as it would later in a run. */
#include "explore/canonical.h"
#include "explore/disk.h"

#include <string.h>

#define FIRST 64u

void explore_tokens_add(struct explore_tokens *tokens, uint64_t *place)
{
    if (*place != 0) {
        CV_ASSERT(tokens->count < EXPLORE_PLACES_MAX);
        tokens->place[tokens->count++] = place;
    }
}

/* Have all nodes that may report this token seen a larger one? Then its owner does not matter:
 * reporting it again breaks leader-order anyway. */
static bool is_past(const struct explore_model *model, struct explore_world *w, uint64_t token)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        const bool can_speak =
            explore_node_at(model, w, i)->is_up || w->h.budget[EXPLORE_RECOVER] > 0;
        if (can_speak && explore_judged_at(w, i)->token_max <= token) {
            return false;
        }
    }
    return true;
}

/* Builds the table again from the remaining owners alone, in the order of their tokens. */
static void enter_owners(struct explore_header *h, struct cv_token_owner *owner, uint32_t count,
                         explore_token_map *map, const void *context)
{
    memset(h->owner, 0, sizeof h->owner);
    h->owner_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t least = i;
        for (uint32_t j = i + 1; j < count; j++) {
            least = owner[j].token < owner[least].token ? j : least;
        }
        const struct cv_token_owner next = owner[least];
        owner[least] = owner[i];
        const uint64_t token = next.token != 0 ? map(context, next.token) : 0;
        struct cv_token_owner *place = cv__token_owner_at(h->owner, EXPLORE_TOKENS, token);
        place->token = token;
        place->label = next.label;
        place->leader = next.leader;
    }
}

static uint32_t take_owners(const struct explore_model *model, struct explore_world *w,
                            bool forgets, struct cv_token_owner *ret_owner)
{
    uint32_t count = 0;
    for (uint32_t i = 0; w->h.owner_count > 0 && i < EXPLORE_TOKENS; i++) {
        const struct cv_token_owner *owner = &w->h.owner[i];
        if (owner->leader != CV_ID_NONE && !(forgets && is_past(model, w, owner->token))) {
            ret_owner[count++] = *owner;
        }
    }
    return count;
}

void explore_tokens_add_judged(const struct explore_model *model, struct explore_world *w,
                               bool forgets, struct explore_tokens *tokens)
{
    tokens->owner_count = take_owners(model, w, forgets, tokens->owner);
    explore_tokens_add(tokens, &w->h.token_max);
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct cv_property_node *judged = explore_judged_at(w, i);
        explore_tokens_add(tokens, &judged->token);
        explore_tokens_add(tokens, &judged->token_max);
        explore_tokens_add(tokens, &judged->held_token);
        explore_tokens_add(tokens, &judged->left_token);
        struct explore_node *n = explore_node_at(model, w, i);
        explore_tokens_add(tokens, &n->host.told_token);
        for (uint32_t j = 0; model->budget[EXPLORE_SLOW] > 0 && j < n->host.gate.count; j++) {
            explore_tokens_add(
                tokens, &cv__gate_at(&n->host.gate, explore_deferred_at(model, n), j)->token);
        }
    }
}

void explore_tokens_add_records(struct explore_tokens *tokens, struct explore_node *n,
                                uint32_t index)
{
    if (n->disk_count > index) {
        explore_tokens_add(tokens, &n->disk[index]);
    }
    if (n->host.gate.is_saving) {
        explore_tokens_add(tokens, &n->host.gate.saving.word[index]);
        explore_tokens_add(tokens, &n->host.gate.next.word[index]);
    }
}

bool explore_tokens_may_begin(const struct explore_model *model, struct explore_world *w,
                              uint32_t node)
{
    const struct explore_node *n = explore_node_at(model, w, node);
    const bool may_start =
        w->h.budget[EXPLORE_RECOVER] > 0 && (!n->is_up || w->h.budget[EXPLORE_CRASH] > 0);
    return may_start && n->disk_count == 0;
}

void explore_tokens_replace(struct explore_world *w, struct explore_tokens *tokens,
                            explore_token_map *map, const void *context)
{
    for (uint32_t i = 0; i < tokens->count; i++) {
        *tokens->place[i] = map(context, *tokens->place[i]);
    }
    enter_owners(&w->h, tokens->owner, tokens->owner_count, map, context);
}

static uint64_t shifted(const void *context, uint64_t token)
{
    return token + *(const uint64_t *)context; /* modulo 2^64: it may be negative */
}

void explore_canonical_tokens(const struct explore_model *model, struct explore_world *w,
                              struct explore_tokens *tokens)
{
    explore_tokens_add_judged(model, w, /* forgets= */ true, tokens);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < tokens->count; i++) {
        least = cv__min_u64(least, *tokens->place[i]);
    }
    for (uint32_t i = 0; i < tokens->owner_count; i++) {
        const uint64_t token = tokens->owner[i].token;
        least = token != 0 ? cv__min_u64(least, token) : least;
    }
    const uint64_t shift = tokens->is_fixed || least == UINT64_MAX ? 0 : FIRST - least;
    explore_tokens_replace(w, tokens, shifted, &shift);
}
