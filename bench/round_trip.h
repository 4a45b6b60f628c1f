/* bench/round_trip.h - the unit of hand-overs: one question to a store, and its answer.
 *
 * Asked of the store itself, with its own client and without any code of an election, on a
 * connection that is open already: a write is one small record changed and acknowledged as
 * durable, a read one that sees the latest write. */
#ifndef CV_BENCH_ROUND_TRIP_H
#define CV_BENCH_ROUND_TRIP_H

#include <stdbool.h>
#include <stdint.h>

struct round_trip {
    const char *scheme, *write, *read; /* what is asked */
    /* `turn` chooses a server where there are several. NULL: it cannot be reached. */
    void *(*open)(const char *address, unsigned turn);
    bool (*ask)(void *client, bool is_write);
    void (*close)(void *client);
    /* What a hand-over cannot do without: one client changes a record, and another is told by the
     * store that it has changed. Two clients get ready; then, again and again, the time from the
     * asking until the other one knows, in ns; less than 0: it failed. */
    bool (*get_ready)(void *from, void *to);
    int64_t (*tell)(void *from, void *to);
};

/* NULL: built without that client. */
const struct round_trip *round_trip_find(const char *address);

#endif
