/* src/explore/search.c - through all worlds that can be reached; see search.h. */
#include "explore/search.h"

#include "base/memory.h"
#include "explore/choices.h"
#include "explore/pack.h"
#include "explore/visited.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct search {
    struct explore_model *model;
    const struct explore_limits *limits;
    struct explore_result *result;
    struct explore_visited visited;
    struct explore_fifo fifo;
    struct explore_world *first, *from, *to;
    uint8_t *packed;
    uint32_t level_end; /* the worlds from here on are one choice further away */
    double began_s, told_s;
};

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* always there on Linux */
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void break_at(struct search *s, uint32_t id, const uint32_t *last_choice)
{
    struct explore_result *r = s->result;
    r->verdict = EXPLORE_BROKEN;
    r->property = s->model->end.property;
    (void)snprintf(r->detail, sizeof r->detail, "%s", s->model->end.detail);
    uint32_t count = last_choice != NULL;
    for (uint32_t at = id; at != 0; at = s->visited.item[at].parent) {
        count++;
    }
    r->path = cv__allocate(count + 1, sizeof *r->path);
    r->path_count = count;
    if (last_choice != NULL) {
        r->path[--count] = *last_choice;
    }
    for (uint32_t at = id; at != 0; at = s->visited.item[at].parent) {
        r->path[--count] = s->visited.item[at].choice;
    }
    CV_ASSERT(count == 0);
}

/* A world that was reached and may go on. */
static void meet(struct search *s, struct explore_world *world, uint32_t parent, uint32_t choice)
{
    const uint64_t hash = explore_hash(world, explore_world_bytes(s->model, world));
    if (explore_visited_add(&s->visited, hash, parent, choice)) {
        const size_t bytes = explore_pack(s->model, s->first, world, s->packed);
        explore_fifo_push(&s->fifo, s->visited.count - 1, s->packed, bytes);
    }
}

static void note_bound(struct search *s)
{
    struct explore_result *r = s->result;
    r->why = "a bound of the explored world";
    (void)snprintf(r->detail, sizeof r->detail, "%s", s->model->end.detail);
}

/* All that may happen in one world. False: a property broke. */
static bool expand(struct search *s, uint32_t id)
{
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    const uint32_t count = explore_choices(s->model, s->from, choice);
    for (uint32_t i = 0; i < count; i++) {
        s->result->progress.transitions++;
        memset(&s->model->end, 0, sizeof s->model->end);
        explore_world_copy(s->model, s->to, s->from);
        const bool is_new = explore_do(s->model, s->to, &choice[i]);
        const bool goes_on = is_new && !s->model->end.is_broken && !s->model->end.is_bound &&
                             explore_settle(s->model, s->to);
        if (s->model->end.is_broken) {
            break_at(s, id, &i);
            return false;
        }
        if (s->model->end.is_bound) {
            note_bound(s);
        } else if (goes_on) {
            meet(s, s->to, id, i);
        }
    }
    return true;
}

static void measure(struct search *s)
{
    struct explore_progress *p = &s->result->progress;
    p->states = s->visited.count;
    p->frontier = s->fifo.count;
    p->bytes = explore_visited_bytes(&s->visited) + s->fifo.bytes;
    p->wall_s = now_s() - s->began_s;
}

/* Why the search must stop now; NULL: it need not. */
static const char *reason_to_stop(struct search *s)
{
    const struct explore_limits *limits = s->limits;
    if (limits->stop != NULL && *limits->stop != 0) {
        return "it was interrupted";
    }
    if (s->visited.count >= limits->states_max) {
        return "the number of states (--states)";
    }
    if (s->result->progress.transitions % 64 != 0) {
        return NULL; /* the clock is not looked at for every world */
    }
    measure(s);
    const struct explore_progress *p = &s->result->progress;
    if (limits->progress != NULL && p->wall_s - s->told_s >= 1) {
        s->told_s = p->wall_s;
        limits->progress(limits->context, p);
    }
    if (p->bytes > limits->bytes_max) {
        return "memory (--memory)";
    }
    return p->wall_s > limits->wall_s_max ? "time (--time)" : NULL;
}

static void run(struct search *s)
{
    struct explore_result *r = s->result;
    memset(&s->model->end, 0, sizeof s->model->end);
    explore_world_begin(s->model, s->first);
    const bool goes_on = !s->model->end.is_broken && explore_settle(s->model, s->first);
    if (s->model->end.is_broken) {
        break_at(s, 0, NULL);
        return;
    }
    if (goes_on) {
        meet(s, s->first, 0, 0);
    }
    s->level_end = 1;
    uint32_t id;
    while (explore_fifo_pop(&s->fifo, &id, s->packed)) {
        if (id == s->level_end) {
            s->level_end = s->visited.count;
            r->progress.depth++;
        }
        explore_unpack(s->model, s->first, s->packed, s->from);
        if (!expand(s, id)) {
            return;
        }
        const char *why = reason_to_stop(s);
        if (why != NULL) {
            r->why = why;
            r->verdict = EXPLORE_STOPPED;
            return;
        }
    }
    r->verdict = r->why == NULL ? EXPLORE_EXHAUSTED : EXPLORE_STOPPED;
}

void explore_search(struct explore_model *model, const struct explore_limits *limits,
                    struct explore_result *ret_result)
{
    memset(ret_result, 0, sizeof *ret_result);
    struct search s = {
        .model = model,
        .limits = limits,
        .result = ret_result,
        .first = explore_world_new(model),
        .from = explore_world_new(model),
        .to = explore_world_new(model),
        .packed = cv__allocate(1, explore_pack_bytes_max(model)),
        .began_s = now_s(),
    };
    run(&s);
    measure(&s);
    ret_result->miss = explore_visited_miss(&s.visited);
    explore_visited_fini(&s.visited);
    explore_fifo_fini(&s.fifo);
    free(s.first);
    free(s.from);
    free(s.to);
    free(s.packed);
}

void explore_replay(struct explore_model *model, const uint32_t *path, uint32_t path_count,
                    explore_say *say, void *context)
{
    struct explore_world *world = explore_world_new(model);
    struct explore_choice choice[EXPLORE_CHOICES_MAX];
    memset(&model->end, 0, sizeof model->end);
    model->say = say;
    model->say_context = context;
    model->elapsed_ns = 0;
    explore_world_begin(model, world);
    for (uint32_t i = 0; i < path_count && explore_settle(model, world); i++) {
        const uint32_t count = explore_choices(model, world, choice);
        CV_ASSERT(path[i] < count);
        (void)explore_do(model, world, &choice[path[i]]);
    }
    if (!model->end.is_broken) {
        (void)explore_settle(model, world); /* what time alone breaks */
    }
    model->say = NULL;
    free(world);
}
