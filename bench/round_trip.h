/* bench/round_trip.h - the unit of hand-overs: one question to a store, and its answer.
 *
 * Asked of the store itself, with its own client and without any code of an election, on a
 * connection that is open already: a write is one small record changed and acknowledged as
 * durable, a read one that sees the latest write. */
#ifndef CV_BENCH_ROUND_TRIP_H
#define CV_BENCH_ROUND_TRIP_H

#include <stdbool.h>

struct round_trip {
    const char *scheme, *write, *read; /* what is asked */
    /* `turn` chooses a server where there are several. NULL: it cannot be reached. */
    void *(*open)(const char *address, unsigned turn);
    bool (*ask)(void *client, bool is_write);
    void (*close)(void *client);
};

/* NULL: built without that client. */
const struct round_trip *round_trip_find(const char *address);

#endif
