/* src/explore/search.c - visits all reachable worlds; see search.h. */
#include "explore/search.h"

#include "base/memory.h"
#include "base/stopwatch.h"
#include "explore/checkpoint.h"
#include "explore/pack.h"
#include "explore/symmetry.h"
#include "explore/turn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 64u
#define SHARED_FROM 64u /* fewer worlds of one depth are not worth a second thread */

struct search {
    const struct explore_limits *limits;
    struct explore_result *result;
    struct explore_state s;      /* the part that a checkpoint saves */
    struct explore_world *first; /* worlds are packed against it; never changes */
    double began_s;

    _Atomic bool is_stopping;
    _Atomic uint64_t transitions, waiting; /* waiting: found in this round */
    pthread_mutex_t lock; /* protects all that follows, and s.level, s.spool and s.end */
    const char *why;
    uint32_t end_id;     /* where s.end was met */
    uint32_t end_choice; /* EXPLORE_NO_WORLD: it was broken from the beginning */
    uint64_t next_bytes; /* in the `next` queues of all workers, as they last said */
    double told_s;
};

/* One thread. */
struct worker {
    struct search *search;
    struct explore_model *model;
    struct explore_world *from;
    struct explore_turn turn;
    struct explore_symmetry symmetry; /* unused if nodes are not alike */
    struct explore_queue next;
    uint64_t next_bytes; /* of this queue, a part of those of the search */
    uint8_t *packed;
    const uint8_t *from_bytes; /* `from` in its packed form, ... */
    uint32_t id;               /* ... and its id */
    uint32_t looked;           /* worlds visited in all rounds, because a round may have only one */
    pthread_t thread;
};

/* ---- The end --------------------------------------------------------------------------------- */

static void note_end(struct search *s, const struct explore_end *end, uint32_t id, uint32_t choice)
{
    (void)pthread_mutex_lock(&s->lock);
    if (!s->s.end.is_broken) { /* the first violation is kept; it precedes any bound */
        s->s.end = *end;
        s->end_id = id;
        s->end_choice = choice;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (end->is_broken) { /* others may have set it meanwhile */
        s->is_stopping = true;
    }
}

/* The path from the beginning to a violation: the turns, then the choices in each of them. */
static void trace_back(struct search *s, struct worker *w)
{
    struct explore_result *r = s->result;
    uint32_t count = s->end_choice != EXPLORE_NO_WORLD;
    for (uint32_t at = s->end_id; at != EXPLORE_NO_WORLD && count > 0;) {
        at = explore_visited_at(&s->s.visited, at).parent;
        count += at != EXPLORE_NO_WORLD;
    }
    uint32_t *number = cv__allocate(count + 1, sizeof *number);
    uint32_t last = s->end_choice;
    uint32_t left = count;
    for (uint32_t at = s->end_id; left > 0;) {
        number[--left] = last;
        const struct explore_step step = explore_visited_at(&s->s.visited, at);
        last = step.choice;
        at = step.parent;
    }
    uint32_t capacity = 0;
    explore_world_copy(w->model, w->from, s->first);
    for (uint32_t i = 0; i < count; i++) {
        explore_turn_path(&w->turn, w->model, w->from, number[i], &r->path, &r->path_count,
                          &capacity);
    }
    free(number);
}

static void conclude(struct search *s, struct worker *w)
{
    struct explore_result *r = s->result;
    if (s->s.end.is_broken) {
        (void)snprintf(r->detail, sizeof r->detail, "%s", s->s.end.detail);
        r->outcome = EXPLORE_BROKEN;
        r->property = s->s.end.property;
        trace_back(s, w);
        return;
    }
    r->why = s->why;
    if (r->why == NULL && s->s.end.is_bound) {
        (void)snprintf(r->detail, sizeof r->detail, "%s", s->s.end.detail);
        r->why = "a bound of the explored world";
    }
    if (r->why == NULL && s->limits->bit_bytes > 0) {
        r->why = "the end of a bit-state search, which may have missed states (--bitstate)";
    }
    r->outcome = r->why == NULL ? EXPLORE_EXHAUSTED : EXPLORE_STOPPED;
}

static uint64_t waiting_bytes(const struct search *s)
{
    return s->s.level.bytes + s->s.next.bytes + s->next_bytes;
}

static void measure(struct search *s)
{
    struct explore_progress *p = &s->result->progress;
    p->states = s->s.visited.count;
    p->transitions = s->transitions;
    p->frontier = s->s.level.count + s->waiting;
    p->bytes = explore_visited_bytes(&s->s.visited) + waiting_bytes(s);
    p->disk_bytes = s->s.spool.written_bytes;
    p->disk_held_bytes = s->s.spool.held_bytes;
    p->depth = s->s.depth;
    p->wall_s = s->s.earlier_s + cv__stopwatch_s() - s->began_s;
}

/* Why the search must stop now; NULL: it need not. Call with the lock held. */
static const char *reason_to_stop(struct search *s)
{
    const struct explore_limits *limits = s->limits;
    measure(s);
    const struct explore_progress *p = &s->result->progress;
    if (limits->progress != NULL && p->wall_s - s->told_s >= 1) {
        s->told_s = p->wall_s;
        limits->progress(limits->context, p);
    }
    if (limits->stop != NULL && *limits->stop != 0) {
        return "an interruption";
    }
    if (p->states >= limits->states_max) {
        return "the number of states (--states)";
    }
    if (p->bytes - waiting_bytes(s) > limits->bytes_max) {
        return "memory (--memory)";
    }
    return p->wall_s - s->s.earlier_s > limits->wall_s_max ? "time (--time)" : NULL;
}

/* The memory of a worker's queue counts as that of the search. Call with the lock held. */
static void count_next(struct worker *w)
{
    w->search->next_bytes += w->next.bytes - w->next_bytes;
    w->next_bytes = w->next.bytes;
}

/* If there is too little memory, each worker moves its own queue to disk. */
static void look_around(struct worker *w)
{
    struct search *s = w->search;
    (void)pthread_mutex_lock(&s->lock);
    count_next(w);
    const char *why = reason_to_stop(s);
    if (why == NULL && s->result->progress.bytes > s->limits->bytes_max &&
        !(explore_queue_spill(&s->s.level, &s->s.spool) &&
          explore_queue_spill(&w->next, &s->s.spool))) {
        why = "memory, and no room on disk for waiting worlds (--memory)";
    }
    count_next(w);
    if (why != NULL && s->why == NULL) {
        s->why = why;
        s->is_stopping = true;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- Looking at worlds ----------------------------------------------------------------------- */

/* A world was reached from which the path may go on; `like`: the world before it, if there is
 * one. */
static void meet(struct worker *w, const struct explore_world *to,
                 const struct explore_packed *like, uint32_t parent, uint32_t number)
{
    struct search *s = w->search;
    const size_t bytes = explore_pack(w->model, s->first, to, like, w->packed);
    const uint64_t hash = w->model->is_symmetric
                              ? explore_symmetry_hash(&w->symmetry, w->model, s->first, to)
                              : explore_hash(w->packed, bytes);
    uint32_t id;
    if (explore_visited_add(&s->s.visited, hash, parent, number, &id)) {
        explore_queue_push(&w->next, id, w->packed, bytes);
        (void)atomic_fetch_add(&s->waiting, 1);
    }
}

static void end_turn(void *context, struct explore_turn *turn)
{
    struct worker *w = context;
    const struct explore_end *end = &w->model->end;
    if (end->is_broken || end->is_bound) {
        note_end(w->search, end, w->id, turn->number);
    } else {
        meet(w, turn->to, &(struct explore_packed){w->from, w->from_bytes}, w->id, turn->number);
    }
}

/* Tries everything that may happen in one turn, which begins in `from`. */
static void expand(struct worker *w, uint32_t id, const uint8_t *bytes)
{
    w->id = id;
    w->from_bytes = bytes;
    const uint32_t count = explore_turn_all(&w->turn, w->model, w->from, end_turn, w);
    (void)atomic_fetch_add(&w->search->transitions, count);
}

static struct explore_chunk *take(struct search *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct explore_chunk *chunk = explore_queue_take(&s->s.level, &s->s.spool);
    (void)pthread_mutex_unlock(&s->lock);
    return chunk;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct search *s = w->search;
    struct explore_chunk *chunk = NULL;
    while (!s->is_stopping && (chunk = take(s)) != NULL) {
        uint32_t id;
        const uint8_t *bytes;
        const uint8_t *was = NULL;
        while (!s->is_stopping && explore_chunk_next(chunk, &id, &bytes)) {
            explore_unpack(w->model, s->first, bytes, was, w->from);
            was = bytes;
            expand(w, id, bytes);
            if (++w->looked % 32 == 0 || s->s.visited.count >= s->limits->states_max) {
                look_around(w);
            }
        }
        if (s->is_stopping) {
            (void)pthread_mutex_lock(&s->lock);
            explore_queue_put_back(&s->s.level, chunk);
            (void)pthread_mutex_unlock(&s->lock);
        } else {
            explore_chunk_free(chunk);
        }
    }
    return NULL;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void worker_init(struct worker *w, struct search *s, struct explore_model *model,
                        bool is_first)
{
    w->search = s;
    w->model = model;
    if (!is_first) {
        struct cv_errtext why;
        w->model = cv__allocate(1, sizeof *w->model);
        *w->model = *model;
        const int error = explore_model_init(w->model, &why);
        CV_ASSERT(error == CV_OK); /* as it was for the first */
    }
    w->from = explore_world_new(model);
    explore_turn_init(&w->turn, model);
    explore_symmetry_init(&w->symmetry, model);
    w->packed = cv__allocate(1, explore_pack_bytes_max(model));
}

static void worker_fini(struct worker *w, bool is_first)
{
    if (!is_first) {
        explore_model_fini(w->model);
        free(w->model);
    }
    explore_queue_fini(&w->next);
    free(w->from);
    explore_turn_fini(&w->turn);
    explore_symmetry_fini(&w->symmetry);
    free(w->packed);
}

/* Worlds found by a worker belong to the next round. If the search was stopped, they are kept
 * beside those that are left. */
static void collect(struct search *s, struct worker *worker, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        explore_queue_join(&s->s.next, &worker[i].next);
        count_next(&worker[i]);
    }
    CV_ASSERT(s->next_bytes == 0);
    if (s->s.level.count == 0) {
        explore_queue_fini(&s->s.level); /* an empty chunk may be left */
        s->s.level = s->s.next;
        s->s.next = (struct explore_queue){0};
        s->waiting = 0;
        s->s.depth += s->s.level.count > 0;
    }
}

static void look_at_all(struct search *s, struct worker *worker, uint32_t count)
{
    while (s->s.level.count > 0 && !s->is_stopping) {
        const uint64_t waiting = s->s.level.count; /* threads that run already take some */
        uint32_t running = 1;
        while (running < count && waiting >= SHARED_FROM * running &&
               pthread_create(&worker[running].thread, NULL, work, &worker[running]) == 0) {
            running++;
        }
        (void)work(&worker[0]);
        for (uint32_t i = 1; i < running; i++) {
            (void)pthread_join(worker[i].thread, NULL);
        }
        collect(s, worker, count);
    }
}

/* The first world; all others are packed against it. */
static void begin(struct search *s, struct worker *w)
{
    struct explore_model *model = w->model;
    memset(&model->end, 0, sizeof model->end);
    explore_world_begin(model, s->first);
    const bool goes_on = !model->end.is_broken && explore_settle(model, s->first);
    if (model->end.is_broken) {
        note_end(s, &model->end, EXPLORE_NO_WORLD, EXPLORE_NO_WORLD);
    } else if (goes_on && s->s.visited.count == 0) {
        meet(w, s->first, &(struct explore_packed){0}, EXPLORE_NO_WORLD, 0);
        explore_queue_join(&s->s.level, &w->next);
        s->waiting = 0;
    }
}

static int search_all(struct search *s, struct explore_model *model, struct cv_errtext *reterr)
{
    const char *path = s->limits->save_path;
    const int error = path != NULL ? explore_checkpoint_read(model, &s->s, path, reterr) : CV_OK;
    if (error != CV_OK) {
        return error;
    }
    s->transitions = s->s.transitions;
    const uint32_t asked = s->limits->threads > 0 ? s->limits->threads : 1;
    const uint32_t count = asked < THREADS_MAX ? asked : THREADS_MAX;
    struct worker *worker = cv__allocate(count, sizeof *worker);
    for (uint32_t i = 0; i < count; i++) {
        worker_init(&worker[i], s, model, i == 0);
    }
    begin(s, &worker[0]);
    look_at_all(s, worker, count);
    measure(s);
    conclude(s, &worker[0]);
    s->result->miss = explore_visited_miss(&s->s.visited);
    for (uint32_t i = 0; i < count; i++) {
        s->s.is_beyond = s->s.is_beyond || worker[i].model->has_been_beyond;
        s->s.spent |= worker[i].model->spent;
    }
    s->result->spent = (uint32_t)s->s.spent;
    s->result->beyond = s->s.is_beyond ? model->beyond : NULL;
    s->s.transitions = s->transitions;
    s->s.earlier_s = s->result->progress.wall_s;
    if (path != NULL && s->result->outcome == EXPLORE_STOPPED && s->why != NULL) {
        if (explore_checkpoint_write(model, &s->s, path, &s->result->unsaved) == CV_OK) {
            s->result->unsaved.text[0] = '\0';
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        worker_fini(&worker[i], i == 0);
    }
    free(worker);
    return CV_OK;
}

int explore_search(struct explore_model *model, const struct explore_limits *limits,
                   struct explore_result *ret_result, struct cv_errtext *reterr)
{
    CV_ASSERT(limits->bit_bytes == 0 || limits->save_path == NULL);
    memset(ret_result, 0, sizeof *ret_result);
    struct search *s = cv__allocate(1, sizeof *s);
    s->limits = limits;
    s->result = ret_result;
    s->first = explore_world_new(model);
    s->began_s = cv__stopwatch_s();
    s->s.spool.descriptor = -1;
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail for a default mutex */
    explore_visited_init(&s->s.visited, limits->bit_bytes);
    const int error = search_all(s, model, reterr);
    explore_visited_fini(&s->s.visited);
    explore_queue_fini(&s->s.level);
    explore_queue_fini(&s->s.next);
    explore_spool_fini(&s->s.spool);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->first);
    free(s);
    return error;
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
        (void)explore_settle(model, world); /* shows a property that breaks when time passes */
    }
    model->say = NULL;
    free(world);
}
