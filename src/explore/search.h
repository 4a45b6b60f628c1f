/* src/explore/search.h - visits all reachable worlds, breadth first.
 *
 * The first world in which a property breaks needs the fewest choices, so its path is a shortest
 * trace. A search that ends without a violation has visited every world within the bounds
 * (explore_outcome); a search that was stopped or hit a bound says so and proves nothing.
 *
 * All worlds of one depth are visited before the next. Several threads share them, each with its
 * own model. With more than one thread another shortest trace may be found. Everything else is the
 * same, but for the number of worlds if nodes are alike (symmetry.h).
 * Memory: visited.h for each world, pack.h for each waiting world; these are moved to disk when
 * memory runs out. */
#ifndef CV_EXPLORE_SEARCH_H
#define CV_EXPLORE_SEARCH_H

#include "explore/world.h"

#include <signal.h>

#define EXPLORE_OPTIONS_MAX 24u

/* What to explore. */
struct explore_setting {
    const struct cv_protocol *protocol;
    uint32_t node_count;
    const char *option[EXPLORE_OPTIONS_MAX]; /* name=value; times may be in ticks, as in 2t */
    uint32_t option_count;
    uint8_t budget[EXPLORE_BUDGET_COUNT];
    uint32_t only; /* CV_PROP bits: judge these, promised or not; 0: all that are promised */
    bool judges_liveness;
    uint32_t delay_max_ticks; /* a message takes 1 to so many ticks */
    uint32_t horizon_ticks;   /* 0: the protocol's default, more if the options have longer times */
    const char *rates;        /* a letter for each node, and for a store: s slow, e exact, f
                               fast; NULL: no drift */
};

struct explore_progress {
    uint64_t states, transitions, frontier, depth, bytes;
    uint64_t disk_bytes, disk_held_bytes; /* written in all; of worlds that still wait there */
    double wall_s;
};

struct explore_limits {
    uint64_t states_max;
    uint64_t bytes_max;
    double wall_s_max;     /* of this run, without those before it that it continues */
    uint32_t threads;      /* 0: one */
    uint64_t bit_bytes;    /* > 0: a bit-state search with so much memory for its bits */
    const char *save_path; /* continues from this file, and saves to it when stopped; may be NULL */
    const volatile sig_atomic_t *stop; /* not 0: stop; may be NULL */
    void (*progress)(void *context, const struct explore_progress *progress); /* may be NULL */
    void *context;
};

enum explore_outcome {
    EXPLORE_EXHAUSTED,
    EXPLORE_BROKEN,
    EXPLORE_STOPPED, /* not exhausted: `why` says which bound was hit */
};

struct explore_result {
    enum explore_outcome outcome;
    const char *why;
    char detail[200]; /* BROKEN: how; STOPPED by a bound of the world: which */
    enum cv_property property;
    struct explore_progress progress;
    struct cv_errtext unsaved; /* STOPPED: why it could not be saved; empty: it was, if asked for */
    const char *beyond;        /* describes worlds that were met and not explored; NULL: none */
    uint32_t spent;            /* a bit for each kind of fault that happened in any world */
    double miss;               /* the probability that a world was missed is below this */
    uint32_t *path;            /* BROKEN: the choices from the beginning; to be freed */
    uint32_t path_count;
};

/* Makes a model from a setting. CV_E_INVALID or CV_E_UNKNOWN with a reason. */
CV_NODISCARD int explore_open(const struct explore_setting *setting, struct explore_model *model,
                              struct cv_errtext *reterr);

/* CV_E_MALFORMED or CV_E_STORE: save_path cannot be read, or belongs to another search; then there
 * is no result. */
CV_NODISCARD int explore_search(struct explore_model *model, const struct explore_limits *limits,
                                struct explore_result *ret_result, struct cv_errtext *reterr);

/* Repeats a path and reports each event. */
void explore_replay(struct explore_model *model, const uint32_t *path, uint32_t path_count,
                    explore_say *say, void *context);

#endif
