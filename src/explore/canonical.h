/* src/explore/canonical.h - one form for worlds that will behave alike.
 *
 * Moving instants back makes two worlds equal that differ only in when they happened. What is left
 * are counters that only grow (numbers of heartbeats and of hops), fields that nobody will look at
 * again, and what the properties remember for those of them that are not judged. They get one value
 * here. This is what makes the number of worlds finite; a mistake here would hide behaviour, so
 * that tests/property/prop_explore.c compares, step by step over random runs, a world that was made
 * canonical after every step with one that never was.
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
    bool uses_bounds;       /* its core looks at the bound on a message's delay */
    void (*canonical)(const struct explore_model *model, struct explore_world *world);
};

/* The row of a protocol; NULL: it cannot be explored. */
const struct explore_row *explore_row_find(const struct cv_protocol *protocol);

void explore_canonical(const struct explore_model *model, struct explore_world *world);
/* The part of it that changes nothing but places: messages by link, in the order of sending. */
void explore_canonical_order(const struct explore_model *model, struct explore_world *world);

/* Those of single protocols. */
void explore_canonical_ring(const struct explore_model *model, struct explore_world *world);
void explore_canonical_pole(const struct explore_model *model, struct explore_world *world);
void explore_canonical_lease(const struct explore_model *model, struct explore_world *world);
void explore_canonical_anon(const struct explore_model *model, struct explore_world *world);
void explore_canonical_local(const struct explore_model *model, struct explore_world *world);

#endif
