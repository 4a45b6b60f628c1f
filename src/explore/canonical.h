/* src/explore/canonical.h - one form for worlds that will behave in the same way.
 *
 * Moving instants back makes worlds equal that differ only in their time. Other differences remain:
 * counters that only grow (numbers of heartbeats and of hops), fields that will not be read again,
 * and the memory of properties that are not judged. They get one value here. This makes the number
 * of worlds finite. A mistake here would hide behaviour; so tests/property/prop_explore.c compares,
 * step by step over random runs, a world that was made canonical after every step with one that
 * never was.
 *
 * Each protocol has a row: the small configuration that is explored by default, and the functions
 * that make its state canonical. */
#ifndef CV_EXPLORE_CANONICAL_H
#define CV_EXPLORE_CANONICAL_H

#include "explore/world.h"

/* Are nodes alike, so that they may change places (symmetry.h)? */
enum explore_alike {
    EXPLORE_NOT_ALIKE,
    EXPLORE_ALIKE,
    EXPLORE_ALIKE_UNTIL_RESTART, /* of the sequencer: then labels of equal numbers are compared */
};

struct explore_row {
    const char *protocol;
    enum explore_alike alike;
    const char *const *timers; /* their names in the core's sources: CV_TIMERS_MAX, or NULL */
    const char *options;       /* as in name=value name=value; times in ticks: 2t */
    const char *drifting;      /* added if clocks drift by 1/11, which needs longer times */
    uint32_t horizon_ticks;    /* cores do not distinguish instants that are older than this */
    bool uses_bounds;          /* its core uses the bound on a message's delay, ... */
    uint32_t bound_deltas;     /* ... and does not distinguish bounds above so many delta */
    uint32_t slow_ticks;       /* a slow save takes at most so long; 0: any time */
    void (*canonical)(const struct explore_model *model, struct explore_world *world);
    /* If a number may grow for ever: worlds that are not explored, and their description. */
    bool (*is_beyond)(const struct explore_model *model, struct explore_world *world);
    const char *beyond;
};

/* The row of a protocol; NULL: it cannot be explored. */
const struct explore_row *explore_row_find(const struct cv_protocol *protocol);

void explore_canonical(const struct explore_model *model, struct explore_world *world);
/* The part that only sorts: messages by link, in the order of sending. */
void explore_canonical_order(const struct explore_model *model, struct explore_world *world);

/* Renumbers the lives and boots of each process that still occur in the world. For protocols that
 * distinguish lives only by their whole nonces. Called last. */
void explore_canonical_lives(const struct explore_model *model, struct explore_world *world);

/* The places of all tokens of a world: in cores, records and messages, which only a protocol's own
 * file knows. */
#define EXPLORE_PLACES_MAX 512u
struct explore_tokens {
    uint64_t *place[EXPLORE_PLACES_MAX];
    uint32_t count;
    bool is_fixed; /* a core counts from 0, or uses the size of a token: nothing is moved */
    struct cv_token_owner owner[EXPLORE_TOKENS];
    uint32_t owner_count;
};

typedef uint64_t explore_token_map(const void *context, uint64_t token);

void explore_tokens_add(struct explore_tokens *tokens, uint64_t *place);
/* Adds the word with that index of a node's record, and of the records being saved. */
void explore_tokens_add_records(struct explore_tokens *tokens, struct explore_node *n,
                                uint32_t index);
/* May this node yet start without a record? */
bool explore_tokens_may_begin(const struct explore_model *model, struct explore_world *world,
                              uint32_t node);
/* Adds the tokens that the properties remember. `forgets`: without owners of tokens that no node
 * will use again. */
void explore_tokens_add_judged(const struct explore_model *model, struct explore_world *world,
                               bool forgets, struct explore_tokens *tokens);
/* Replaces each token by what the map returns for it; the map must keep their order. */
void explore_tokens_replace(struct explore_world *world, struct explore_tokens *tokens,
                            explore_token_map *map, const void *context);
/* Adds the tokens of the properties and moves all, so that the smallest becomes FIRST and the
 * others keep their distance. */
void explore_canonical_tokens(const struct explore_model *model, struct explore_world *world,
                              struct explore_tokens *tokens);

/* The names of timers, and the functions, of single protocols. */
extern const char *const explore_classic_timers[CV_TIMERS_MAX];
extern const char *const explore_pole_timers[CV_TIMERS_MAX];
extern const char *const explore_lease_timers[CV_TIMERS_MAX];
extern const char *const explore_anon_timers[CV_TIMERS_MAX];
extern const char *const explore_local_timers[CV_TIMERS_MAX];
#define EXPLORE_POLE_BEYOND "epochs of two processes that are more than 24 apart"
void explore_canonical_ring(const struct explore_model *model, struct explore_world *world);
void explore_canonical_pole(const struct explore_model *model, struct explore_world *world);
bool explore_pole_is_beyond(const struct explore_model *model, struct explore_world *world);
void explore_canonical_lease(const struct explore_model *model, struct explore_world *world);
void explore_canonical_anon(const struct explore_model *model, struct explore_world *world);
void explore_canonical_local(const struct explore_model *model, struct explore_world *world);

#endif
