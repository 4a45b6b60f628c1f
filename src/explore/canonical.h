/* src/explore/canonical.h - one form for worlds that will behave alike.
 *
 * Moving instants back makes worlds equal that differ only in their time. Other differences remain:
 * counters that only grow (numbers of heartbeats and of hops), fields that will not be read again,
 * and the memory of properties that are not judged. They get one value here. This makes the number
 * of worlds finite. A mistake here would hide behaviour; so tests/property/prop_explore.c compares,
 * step by step over random runs, a world that was made canonical after every step with one that
 * never was.
 *
 * Each protocol has a row: the small configuration that is explored unless another is asked for,
 * and what its state needs beyond that. */
#ifndef CV_EXPLORE_CANONICAL_H
#define CV_EXPLORE_CANONICAL_H

#include "explore/world.h"

struct explore_row {
    const char *protocol;
    const char *options;    /* as in name=value name=value; times in ticks: 2t */
    const char *drifting;   /* besides, where clocks drift by 1/11: longer times bear that */
    uint32_t horizon_ticks; /* no core looks at how much older than this an instant is */
    bool uses_bounds;       /* its core looks at the bound on a message's delay, ... */
    uint32_t bound_deltas;  /* ... which it compares with no more than so many delta */
    uint32_t slow_ticks;    /* a slow save takes so long at most; 0: any time */
    void (*canonical)(const struct explore_model *model, struct explore_world *world);
    /* Where a number may go on for ever: worlds that are not looked at, and what they are. */
    bool (*is_beyond)(const struct explore_model *model, struct explore_world *world);
    const char *beyond;
};

/* The row of a protocol; NULL: it cannot be explored. */
const struct explore_row *explore_row_find(const struct cv_protocol *protocol);

void explore_canonical(const struct explore_model *model, struct explore_world *world);
/* The part of it that changes nothing but places: messages by link, in the order of sending. */
void explore_canonical_order(const struct explore_model *model, struct explore_world *world);

/* Of lives and boots of a process only those count of which something is left. For protocols that
 * tell lives apart by their nonces, whole ones, and by nothing else; after all that is over. */
void explore_canonical_lives(const struct explore_model *model, struct explore_world *world);

/* Where the tokens of a world are: those of the core, of records and of messages, which only a
 * protocol's own file knows. */
#define EXPLORE_PLACES_MAX 512u
struct explore_tokens {
    uint64_t *place[EXPLORE_PLACES_MAX];
    uint32_t count;
    bool is_fixed; /* somebody counts from 0, or looks at how large one is */
    struct cv_token_owner owner[EXPLORE_TOKENS];
    uint32_t owner_count;
};

typedef uint64_t explore_token_map(const void *context, uint64_t token);

void explore_tokens_add(struct explore_tokens *tokens, uint64_t *place);
/* The word with that index of a node's record, and of those that it is saving. */
void explore_tokens_add_records(struct explore_tokens *tokens, struct explore_node *n,
                                uint32_t index);
/* May this node yet start without a record? */
bool explore_tokens_may_begin(const struct explore_model *model, struct explore_world *world,
                              uint32_t node);
/* Those that are judged, besides. `forgets`: without owners of those that all have left behind. */
void explore_tokens_add_judged(const struct explore_model *model, struct explore_world *world,
                               bool forgets, struct explore_tokens *tokens);
/* Each becomes what the map makes of it; their order must stay. */
void explore_tokens_replace(struct explore_world *world, struct explore_tokens *tokens,
                            explore_token_map *map, const void *context);
/* With those that are judged: the smallest becomes FIRST, and the others keep their distance. */
void explore_canonical_tokens(const struct explore_model *model, struct explore_world *world,
                              struct explore_tokens *tokens);

/* Those of single protocols. */
#define EXPLORE_POLE_BEYOND "epochs of two processes that are more than 24 apart"
void explore_canonical_ring(const struct explore_model *model, struct explore_world *world);
void explore_canonical_pole(const struct explore_model *model, struct explore_world *world);
bool explore_pole_is_beyond(const struct explore_model *model, struct explore_world *world);
void explore_canonical_lease(const struct explore_model *model, struct explore_world *world);
void explore_canonical_anon(const struct explore_model *model, struct explore_world *world);
void explore_canonical_local(const struct explore_model *model, struct explore_world *world);

#endif
