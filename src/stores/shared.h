/* src/stores/shared.h - connections that the elections of one loop share.
 *
 * Five hundred elections on one server need one connection, not five hundred. Each loop has a list
 * of its connections: at most one for each kind of store and server. A store that is opened looks
 * there first, and the last one that is closed closes the connection.
 *
 * Time: linear in the number of connections of the loop, one for each server. Used on the loop's
 * thread only. */
#ifndef CV_STORES_SHARED_H
#define CV_STORES_SHARED_H

#include <stdbool.h>
#include <stdint.h>

/* The head of each kind's own connection. Invariant: in the list exactly while user_count > 0. */
struct cv_shared {
    struct cv_shared *next;
    const void *kind; /* its cv_store_kind: connections of different kinds are never mixed up */
    char *key;        /* owned; what makes two addresses the same connection, secrets included */
    uint32_t user_count;
};

/* All zero is an empty list. Its owner keeps it until every store on the loop is closed. */
struct cv_shared_list {
    struct cv_shared *first;
};

/* The connection for this key, and counts one more user; NULL: there is none yet. */
struct cv_shared *cv__shared_join(struct cv_shared_list *list, const void *kind, const char *key);

/* Puts a new connection into the list, with one user. False: no memory, nothing has happened. */
bool cv__shared_add(struct cv_shared_list *list, struct cv_shared *shared, const void *kind,
                    const char *key);

/* One user less. True: that was the last one; the connection is out of the list, and the caller
 * closes it. */
bool cv__shared_leave(struct cv_shared_list *list, struct cv_shared *shared);

#endif
