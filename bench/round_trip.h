/* bench/round_trip.h - the unit of hand-overs: one request to a store, and its answer.
 *
 * The request goes to the store itself, with its own client and without any code of an election, on
 * a connection that is already open: a write changes one small record and is acknowledged as
 * durable, a read sees the latest write. */
#ifndef CV_BENCH_ROUND_TRIP_H
#define CV_BENCH_ROUND_TRIP_H

#include <stdbool.h>
#include <stdint.h>

struct round_trip {
    const char *scheme, *write, *read; /* scheme of the address, and the requests */
    /* `turn` chooses a server where there are several. NULL: the server cannot be reached. */
    void *(*open)(const char *address, unsigned turn);
    bool (*ask)(void *client, bool is_write);
    void (*close)(void *client);
    /* The steps that every hand-over needs: one client changes a record, and the store notifies
     * another. get_ready() prepares two clients; then each tell() returns the time from the request
     * until the other one knows, in ns; less than 0: it failed. */
    bool (*get_ready)(void *from, void *to);
    int64_t (*tell)(void *from, void *to);
};

/* NULL: built without that client. */
const struct round_trip *round_trip_find(const char *address);

#endif
