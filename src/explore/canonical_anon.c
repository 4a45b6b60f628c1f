/* src/explore/canonical_anon.c - numbers of requests and of sends; see canonical.h.
 *
 * A process counts its sends, and other processes compare only counts of one label: the largest
 * known count is always SENT here, and the earlier ones keep their order. */
#include "core/sequence.h"
#include "explore/canonical.h"
#include "explore/service.h"
#include "protocols/anon_state.h"

#include <string.h>

const char *const explore_anon_timers[CV_TIMERS_MAX] = {
    [ANON_TIMER_HEARTBEAT] = "heartbeat", [ANON_TIMER_SUSPECT] = "suspect",
    [ANON_TIMER_QUERY] = "query",         [ANON_TIMER_TELL] = "tell",
    [ANON_TIMER_RESUME] = "resume",
};

#define SENT 1000u
#define REQUEST 64u
#define OLDEST (REQUEST - 16u)
#define GAP_ROUNDS 3u
#define COUNTS_MAX (EXPLORE_MESSAGES_MAX + EXPLORE_NODES_MAX)

/* Indices of the fields of a message: ANON_FIELDS. */
enum { WORD_NUMBER = 0, WORD_LABEL = 1, WORD_SENT = 2, WORD_OPEN = 3 };

static struct anon *anon_at(const struct explore_model *model, struct explore_world *w,
                            uint32_t node)
{
    return (struct anon *)explore_node_at(model, w, node)->core;
}

static bool is_up(const struct explore_model *model, struct explore_world *w, uint32_t node)
{
    return explore_node_at(model, w, node)->is_up;
}

/* A receiver uses only the count of its leader's own messages. */
static bool is_counted(const struct explore_message *m)
{
    return m->kind == EXPLORE_PEER && (m->type == ANON_TOKEN || m->type == ANON_GONE);
}

/* ---- Sends ----------------------------------------------------------------------------------- */

/* Finds the places of all counts of that label. */
static uint32_t find_counts(const struct explore_model *model, struct explore_world *w,
                            uint64_t label, uint64_t **ret_at)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct anon *a = anon_at(model, w, i);
        if (is_up(model, w, i) && a->label != label && a->closed.label == label &&
            a->heard_count != 0) {
            ret_at[count++] = &a->heard_count;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (is_counted(m) && m->word[WORD_LABEL] == label) {
            ret_at[count++] = &m->word[WORD_SENT];
        }
    }
    return count;
}

/* Is this the first place with its value, and is that above `count`? */
static bool is_first_above(uint64_t **at, uint32_t index, uint64_t count)
{
    for (uint32_t i = 0; i < index; i++) {
        if (*at[i] == *at[index]) {
            return false;
        }
    }
    return *at[index] > count;
}

/* The largest becomes SENT, the next one less, and so on; equal ones stay equal. */
static void rank_sends(const struct explore_model *model, struct explore_world *w, uint64_t label)
{
    uint64_t *at[COUNTS_MAX];
    uint64_t rank[COUNTS_MAX];
    const uint32_t count = find_counts(model, w, label, at);
    for (uint32_t i = 0; i < count; i++) {
        rank[i] = SENT;
        for (uint32_t j = 0; j < count; j++) {
            rank[i] -= is_first_above(at, j, *at[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        *at[i] = rank[i];
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void turn_requests(const struct explore_model *model, struct explore_world *w)
{
    uint64_t shift[EXPLORE_NODES_MAX] = {0};
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (is_up(model, w, i)) {
            struct anon *a = anon_at(model, w, i);
            shift[i] = a->request - REQUEST;
            a->request = REQUEST;
            a->open_request -= a->open_request != 0 ? shift[i] : 0;
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER) {
            m->word[WORD_SENT] = is_counted(m) ? m->word[WORD_SENT] : 0;
            continue;
        }
        const uint32_t node = m->kind == EXPLORE_QUERY ? m->from : m->to;
        const struct explore_node *n = explore_node_at(model, w, node);
        const bool is_heard = n->is_up && n->life == m->life && !m->is_repeat;
        const uint64_t request = m->word[EXPLORE_QUERY_REQUEST] - shift[node];
        m->word[EXPLORE_QUERY_REQUEST] = !is_heard                               ? 0
                                         : request > REQUEST || request < OLDEST ? OLDEST
                                                                                 : request;
        m->life = is_heard ? m->life : 0;
    }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* A number is a generation and a value of the counter. Values come from the counter alone; cores
 * compare numbers, and their rounds, and a value with the counter (core/sequence.h). So the number
 * of rounds between two neighbouring values does not matter if it is more than one or two: a
 * process that does not hear the sequencer takes numbers for ever that no other process hears of.
 *
 * Values above the counter, which a restart leaves behind, keep their distance from it: the counter
 * still counts up to them. */
struct rounds {
    uint64_t size;
    uint64_t counter;
    uint64_t from[EXPLORE_PLACES_MAX]; /* all values of the world, sorted, ... */
    uint64_t to[EXPLORE_PLACES_MAX];   /* ... and their replacements */
    uint32_t count;
};

static void add_number(struct explore_tokens *numbers, uint64_t *place)
{
    if (*place != CV_SEQUENCE_NONE) {
        explore_tokens_add(numbers, place);
    }
}

static void find_numbers(const struct explore_model *model, struct explore_world *w,
                         struct explore_tokens *numbers)
{
    for (uint32_t i = 0; i < model->node_count; i++) {
        struct explore_node *n = explore_node_at(model, w, i);
        struct anon *a = anon_at(model, w, i);
        explore_tokens_add_records(numbers, n, 0); /* with persist=yes; CV_SEQUENCE_NONE too */
        explore_tokens_add_records(numbers, n, 2);
        if (n->is_up) {
            add_number(numbers, &a->open.number);
            add_number(numbers, &a->closed.number);
            add_number(numbers, &a->proposal);
            add_number(numbers, &a->told_number);
        }
    }
    for (uint32_t i = 0; i < w->h.message_count; i++) {
        struct explore_message *m = explore_message_at(model, w, i);
        if (m->kind == EXPLORE_PEER) {
            add_number(numbers, &m->word[WORD_NUMBER]);
            add_number(numbers, &m->word[WORD_OPEN]);
        } else {
            add_number(numbers, &m->word[m->kind == EXPLORE_QUERY ? EXPLORE_QUERY_REFERENCE
                                                                  : EXPLORE_ANSWER_NUMBER]);
        }
    }
    explore_tokens_add_judged(model, w, /* forgets= */ false, numbers);
}

static uint64_t value_of(uint64_t number)
{
    return number & ((UINT64_C(1) << CV_SEQUENCE_GENERATION_BITS) - 1);
}

/* Inserts a value in order, unless it is there. */
static void enter_value(struct rounds *rounds, uint64_t value)
{
    uint32_t at = rounds->count;
    while (at > 0 && rounds->from[at - 1] > value) {
        at--;
    }
    if (at > 0 && rounds->from[at - 1] == value) {
        return;
    }
    CV_ASSERT(rounds->count < EXPLORE_PLACES_MAX);
    memmove(rounds->from + at + 1, rounds->from + at, (rounds->count - at) * sizeof *rounds->from);
    rounds->from[at] = value;
    rounds->count++;
}

static void enter_number(struct rounds *rounds, uint64_t number)
{
    if (number != CV_SEQUENCE_NONE) {
        enter_value(rounds, value_of(number));
    }
}

static uint64_t moved_value(const struct rounds *rounds, uint64_t value)
{
    uint32_t i = 0;
    while (rounds->from[i] != value) {
        i++;
        CV_ASSERT(i < rounds->count);
    }
    return rounds->to[i];
}

static uint64_t moved_number(const void *context, uint64_t number)
{
    const uint64_t value = value_of(number);
    return number == CV_SEQUENCE_NONE ? number : number - value + moved_value(context, value);
}

/* Whole rounds are taken out, so each value keeps its place in its round. */
static void close_gaps(struct rounds *rounds)
{
    uint64_t before = 0;
    uint64_t moved = 0;
    for (uint32_t i = 0; i < rounds->count; i++) {
        const uint64_t value = rounds->from[i];
        const uint64_t gap = value / rounds->size - before / rounds->size;
        const bool is_behind = value <= rounds->counter;
        const uint64_t less = is_behind && gap > GAP_ROUNDS ? (gap - GAP_ROUNDS) * rounds->size : 0;
        moved += value - before - less;
        rounds->to[i] = moved;
        before = value;
    }
}

/* 0 while nobody is up. */
static uint64_t round_size(const struct explore_model *model, struct explore_world *w)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < model->node_count; i++) {
        size = is_up(model, w, i) ? anon_at(model, w, i)->round_size : size;
    }
    return size;
}

static void canonical_numbers(const struct explore_model *model, struct explore_world *w)
{
    struct explore_service *s = &w->h.service;
    struct explore_tokens numbers = {.count = 0};
    struct rounds rounds = {.size = round_size(model, w), .counter = s->counter};
    if (rounds.size == 0) {
        return;
    }
    find_numbers(model, w, &numbers);
    enter_value(&rounds, s->counter);
    for (uint32_t i = 0; i < numbers.count; i++) {
        enter_number(&rounds, *numbers.place[i]);
    }
    for (uint32_t i = 0; i < numbers.owner_count; i++) {
        enter_number(&rounds, numbers.owner[i].token);
    }
    close_gaps(&rounds);
    explore_tokens_replace(w, &numbers, moved_number, &rounds);
    s->counter = moved_value(&rounds, s->counter);
}

static void forget_past(const struct explore_node *n, struct anon *a, int64_t now_ns)
{
    if (n->host.due_ns[ANON_TIMER_SUSPECT] == 0) {
        a->suspect_due_ns = 0;
    }
    if (n->host.due_ns[ANON_TIMER_RESUME] == 0) {
        a->resume_due_ns = 0;
    }
    if (a->role != ANON_LEADING) {
        a->heartbeat_due_ns = 0;
    }
    if (a->role != ANON_TRUSTING && a->role != ANON_SUSPECTING) {
        a->heard_count = 0;
    }
    a->rest_until_ns = a->rest_until_ns <= now_ns ? 0 : a->rest_until_ns;
    a->refused_count = 0;
    a->sent_count = SENT;
}

void explore_canonical_anon(const struct explore_model *model, struct explore_world *w)
{
    turn_requests(model, w);
    for (uint32_t i = 0; i < model->node_count; i++) {
        const struct explore_node *n = explore_node_at(model, w, i);
        if (n->is_up) {
            forget_past(n, anon_at(model, w, i), explore_now_ns(i));
        }
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        for (uint32_t life = 1; life <= explore_node_at(model, w, i)->life; life++) {
            rank_sends(model, w, explore_nonce(i, life));
        }
    }
    canonical_numbers(model, w);
    explore_canonical_lives(model, w);
}
